//! Checks whether a user's model fits its task: names, types and shapes of its inputs and outputs
//! are compared with the card before anything is measured.

use std::path::{Path, PathBuf};

use dyno_onnx::{Dim, Element, Model, Port};
use thiserror::Error;

use crate::card::{Card, Input};
use crate::files::OpenError;
use crate::image::steps::Layout;

/// The inputs and outputs that a model declares.
///
/// ```no_run
/// use std::path::Path;
///
/// use dyno_task::card;
/// use dyno_task::fit::ModelInterface;
///
/// let card = card::named("bert").unwrap();
/// let model = ModelInterface::read(Path::new("bert.onnx")).unwrap();
/// let binding = model.bind_inputs(&card.data.inputs, None).unwrap();
/// assert_eq!(binding.names.len(), 3);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ModelInterface {
    path: PathBuf,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
}

/// A model that does not fit its task.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}: expected {expected}, found {found}; export the model for this task", path.display())]
pub struct FitError {
    /// Path of the model.
    pub path: PathBuf,
    /// What the task requires.
    pub expected: String,
    /// What the model has instead.
    pub found: String,
}

/// Binding of a card's inputs to those of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputBinding {
    /// Channel layout of pictures.
    pub layout: Layout,
    /// Name of each input in the model, in the order of the card.
    pub names: Vec<String>,
}

impl InputBinding {
    /// Returns the binding with the names of the card.
    pub(crate) fn of_card(card: &Card, layout: Layout) -> Self {
        Self { layout, names: card.data.inputs.iter().map(|input| input.name.clone()).collect() }
    }
}

impl ModelInterface {
    /// Reads the interface of an ONNX file; weights in external files are not read.
    ///
    /// # Errors
    /// The file is not an ONNX file.
    pub fn read(path: &Path) -> Result<Self, OpenError> {
        let model = Model::read(path)
            .map_err(|error| OpenError::content(format!("{}: {error}", path.display())))?;
        Ok(Self { path: path.to_owned(), inputs: model.inputs, outputs: model.outputs })
    }

    /// Matches the inputs with those of the card: by name, or by position where both have only one.
    /// The returned layout is the card's, or the other one if the model has the channels of
    /// pictures at the other end.
    ///
    /// # Errors
    /// The first input that does not match.
    pub fn bind_inputs(
        &self,
        inputs: &[Input],
        layout: Option<Layout>,
    ) -> Result<InputBinding, FitError> {
        let mut stand = layout.unwrap_or_default();
        let mut names = Vec::new();
        for input in inputs {
            let port = match (inputs, &self.inputs[..]) {
                ([_], [only]) => Some(only),
                _ => self.inputs.iter().find(|port| input.is_called(&port.name)),
            };
            let swap_layout = layout.and_then(|layout| swap_layout(&input.shape, layout));
            stand = match (port, swap_layout) {
                (Some(port), _) if takes(port, input, &input.shape) => stand,
                (Some(port), Some((shape, other))) if takes(port, input, &shape) => other,
                _ => return Err(self.error(format!("the input {input}"), &self.inputs)),
            };
            names.extend(port.map(|port| port.name.clone()));
        }
        // The model has inputs that the card does not feed.
        if self.inputs.len() > inputs.len() {
            let expected: Vec<String> = inputs.iter().map(ToString::to_string).collect();
            return Err(
                self.error(format!("no more inputs than {}", expected.join(", ")), &self.inputs)
            );
        }
        Ok(InputBinding { layout: stand, names })
    }

    /// Checks that the model has all of these inputs and outputs.
    ///
    /// # Errors
    /// The first that is missing.
    pub fn require(&self, inputs: &[&str], outputs: &[&str]) -> Result<(), FitError> {
        let missing = |ports: &[Port], names: &[&str]| {
            let is_missing = |name: &&&str| ports.iter().all(|port| port.name != **name);
            names.iter().find(is_missing).map(|name| (*name).to_owned())
        };
        if let Some(name) = missing(&self.inputs, inputs) {
            return Err(self.error(format!("the input {name}"), &self.inputs));
        }
        match missing(&self.outputs, outputs) {
            Some(name) => Err(self.error(format!("the output {name}"), &self.outputs)),
            None => Ok(()),
        }
    }

    /// Checks that the model has only known inputs; `expected` describes them.
    ///
    /// # Errors
    /// The first unknown input.
    pub(crate) fn reject_unknown_inputs(
        &self,
        is_known: impl Fn(&str) -> bool,
        expected: &str,
    ) -> Result<(), FitError> {
        match self.inputs.iter().find(|port| !is_known(&port.name)) {
            Some(other) => Err(self.error(expected.to_owned(), std::slice::from_ref(other))),
            None => Ok(()),
        }
    }

    /// Returns the first of these outputs that the model has, with or without the `:0` of
    /// TensorFlow, or its only output, whatever its name.
    ///
    /// # Errors
    /// The model has several outputs and none of these.
    pub fn output(&self, names: &[String]) -> Result<&Port, FitError> {
        match (names.iter().find_map(|name| self.output_named(name)), &self.outputs[..]) {
            (Some(port), _) => Ok(port),
            (None, [only]) => Ok(only),
            _ => Err(self.error(format!("the output {}", names.join(" or ")), &self.outputs)),
        }
    }

    fn output_named(&self, name: &str) -> Option<&Port> {
        let bare = |name: &str| name.strip_suffix(":0").unwrap_or(name).to_owned();
        self.outputs.iter().find(|port| bare(&port.name) == bare(name))
    }

    /// Returns the number of scores per sample and their output, if one of these outputs or the
    /// only one declares it.
    pub fn scores(&self, names: &[String]) -> Option<(usize, &Port)> {
        let only = (self.outputs.len() == 1).then(|| self.outputs.first()).flatten();
        let ports = names.iter().filter_map(|name| self.output_named(name)).chain(only);
        ports.filter_map(|port| Some((scores(port)?, port))).next()
    }

    /// Returns the error for an output with another number of scores.
    pub fn mismatch(&self, expected: String, port: &Port) -> FitError {
        self.error(expected, std::slice::from_ref(port))
    }

    fn error(&self, expected: String, ports: &[Port]) -> FitError {
        let found: Vec<String> = ports.iter().map(describe_port).collect();
        let found = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
        FitError { path: self.path.clone(), expected, found }
    }
}

/// Returns the fixed size of the last dimension of a floating-point output.
fn scores(port: &Port) -> Option<usize> {
    let reals = [Element::F32, Element::F16, Element::BF16, Element::F64];
    match port.shape.as_deref() {
        Some([_, .., last]) if port.element.is_some_and(|element| reals.contains(&element)) => {
            last.fixed()
        }
        _ => None,
    }
}

/// Whether a port takes samples of this input's type and this shape, with or without a batch
/// dimension.
fn takes(port: &Port, input: &Input, shape: &[usize]) -> bool {
    let fits = |dims: &[Dim]| {
        let pairs = || dims.iter().zip(shape);
        dims.len() == shape.len()
            && pairs().all(|(dim, n)| dim.fixed().is_none_or(|dim| dim == *n || *n == 0))
    };
    let is_of_type = port.element.map(Element::name) == Some(input.element.as_str());
    is_of_type
        && match port.shape.as_deref() {
            None => true,
            Some(dims) => fits(dims) || dims.split_first().is_some_and(|(_, rest)| fits(rest)),
        }
}

/// Returns the shape of a picture with its channels at the other end, and that layout.
fn swap_layout(shape: &[usize], layout: Layout) -> Option<(Vec<usize>, Layout)> {
    match (shape, layout) {
        (&[channels, height, width], Layout::Nchw) => {
            Some((vec![height, width, channels], Layout::Nhwc))
        }
        (&[height, width, channels], Layout::Nhwc) => {
            Some((vec![channels, height, width], Layout::Nchw))
        }
        _ => None,
    }
}

fn describe_port(port: &Port) -> String {
    let element = port.element.map_or("of a type that is not read", Element::name);
    let dims = port.shape.iter().flatten();
    let dims: Vec<String> =
        dims.map(|dim| dim.fixed().map_or("?".to_owned(), |n| n.to_string())).collect();
    format!("{} {element} [{}]", port.name, dims.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card;

    fn port(name: &str, element: Element, shape: &[Option<usize>]) -> Port {
        let dim = |n: &Option<usize>| n.map_or(Dim::symbol("n"), Dim::Fixed);
        let shape = Some(shape.iter().map(dim).collect());
        Port { name: name.to_owned(), element: Some(element), shape }
    }

    fn declared(inputs: Vec<Port>, outputs: Vec<Port>) -> ModelInterface {
        ModelInterface { path: "mine.onnx".into(), inputs, outputs }
    }

    fn entered(task: &str, inputs: Vec<Port>) -> Result<InputBinding, String> {
        let card = card::named(task).unwrap();
        let layout = card.data.inputs.len() == 1 && card.data.inputs[0].shape.len() == 3;
        let declared = declared(inputs, vec![]);
        let fed = declared.bind_inputs(&card.data.inputs, layout.then_some(Layout::Nchw));
        fed.map_err(|error| error.to_string())
    }

    fn fed(task: &str, inputs: Vec<Port>) -> Result<Layout, String> {
        entered(task, inputs).map(|fed| fed.layout)
    }

    #[test]
    fn pictures_enter_under_any_name_and_with_channels_at_either_end() {
        let any = None;
        let first = [any, Some(3), Some(224), Some(224)];
        assert_eq!(fed("resnet50", vec![port("x", Element::F32, &first)]), Ok(Layout::Nchw));
        let last = [Some(1), Some(224), Some(224), Some(3)];
        assert_eq!(fed("resnet50", vec![port("x", Element::F32, &last)]), Ok(Layout::Nhwc));
        assert_eq!(fed("resnet50", vec![port("x", Element::F32, &[any; 4])]), Ok(Layout::Nchw));
    }

    #[test]
    fn a_model_that_does_not_fit_is_rejected_with_what_the_card_feeds() {
        let wrong = [None, Some(3), Some(299), Some(299)];
        let error = fed("resnet50", vec![port("x", Element::F32, &wrong)]).unwrap_err();
        assert_eq!(
            error,
            "mine.onnx: expected the input input_tensor:0 float32 [3, 224, 224], found x float32 \
             [?, 3, 299, 299]; export the model for this task"
        );
        let right = [None, Some(3), Some(224), Some(224)];
        let error = fed("resnet50", vec![port("x", Element::F16, &right)]).unwrap_err();
        assert!(error.contains("found x float16 [?, 3, 224, 224]"), "{error}");
        assert!(fed("resnet50", vec![]).unwrap_err().contains("found none"));
        let two =
            vec![port("input_tensor:0", Element::F32, &right), port("more", Element::F32, &[])];
        assert!(fed("resnet50", two).unwrap_err().contains("no more inputs than input_tensor:0"));
    }

    #[test]
    fn several_inputs_are_known_by_their_names() {
        let ids = |name| port(name, Element::I64, &[None, Some(384)]);
        let names = ["segment_ids", "input_ids", "input_mask"];
        let of_card = ["input_ids", "input_mask", "segment_ids"];
        assert_eq!(entered("bert", names.map(ids).to_vec()).unwrap().names, of_card);
        // Names in the int8 file of the reference.
        let others = ["input_ids", "attention_mask", "token_type_ids"];
        assert_eq!(entered("bert", others.map(ids).to_vec()).unwrap().names, others);
        let error = fed("bert", vec![ids("a"), ids("b"), ids("c")]).unwrap_err();
        assert!(
            error.contains("expected the input input_ids int64 [384], found a int64"),
            "{error}"
        );
    }

    #[test]
    fn outputs_are_known_by_one_of_their_names_or_by_being_alone() {
        let names = ["ArgMax:0".to_owned(), "softmax_tensor:0".to_owned()];
        let scores = port("softmax_tensor", Element::F32, &[None, Some(1001)]);
        let other = port("features", Element::F32, &[None, Some(2048)]);
        let found = declared(vec![], vec![other.clone(), scores.clone()]);
        assert_eq!(found.output(&names), Ok(&scores));
        assert_eq!(found.scores(&names), Some((1001, &scores)));
        let class = port("ArgMax:0", Element::I64, &[None]);
        assert_eq!(declared(vec![], vec![class]).scores(&names), None);
        let only = declared(vec![], vec![other.clone()]);
        assert_eq!(only.output(&names), Ok(&other));
        let error = declared(vec![], vec![other.clone(), other]).output(&names).unwrap_err();
        assert_eq!(error.expected, "the output ArgMax:0 or softmax_tensor:0");
    }
}
