//! Proof that the recurrent layers of an ONNX graph follow one another.
//!
//! One pass over the nodes follows the numbers of the model's inputs and of the layers through
//! operators that only move them. A chain is accepted if every output of the graph is an output or a
//! last state of its layers. Everything else is an error that names the first node that breaks the
//! chain: a chain that merely looks right would compute another network.

use std::collections::HashMap;

use dyno_onnx::{Attribute, Constants, Dim, Element, Model, Node, Tensor};

use super::axes::{self, Axes, Axis, Count, Dims};
use super::folded::integers;
use super::start::Start;
use crate::import::{self, ImportError, ImportedLayer, InitialState};
use crate::layer::Layer;

/// Maximum dimensions of a value that is followed.
const MOST_DIMS: usize = 16;

/// Layers that follow one another, from the first to the last.
pub struct Chain {
    pub layers: Vec<Layer>,
    pub starts: Vec<Start>,
    /// Input or output whose numbers are in another order than those of an engine, which takes steps
    /// x rows x inputs and returns steps x rows x outputs.
    pub rearranged: Option<String>,
}

/// Reason why a graph is not a chain of layers.
pub enum ChainError {
    /// A node or a port of the graph breaks the chain.
    Broken { name: String, why: String },
    /// A layer of the chain is invalid.
    Import(ImportError),
}

/// Proves that the layers of a graph form a chain.
pub fn chain(model: &Model) -> Result<Chain, ChainError> {
    let constants = Constants::new(model);
    let mut walk = Walk::new(model, &constants);
    for node in &model.nodes {
        walk.visit(node);
    }
    walk.finish()
}

/// Origin of numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// Input of the model.
    Input,
    /// Output of a layer: 0 for those of all steps, 1 and 2 for last states.
    Layer(usize, usize),
}

/// Knowledge about a value.
enum Value {
    /// Numbers of a source, in order of these dimensions.
    Numbers(Source, Dims),
    /// Integers, such as a shape.
    Integers(Vec<Count>),
    /// Unknown numbers; index of the reason.
    Unknown(usize),
}

/// A layer and the axes of its input.
struct Link {
    imported: ImportedLayer,
    start: Start,
    source: Source,
    steps: Vec<Axis>,
    rows: Vec<Axis>,
    /// Axes of the inputs of a step.
    inputs: Vec<Axis>,
    /// Axes of the outputs of a step.
    outputs: Vec<Axis>,
}

struct Walk<'a> {
    model: &'a Model,
    constants: &'a Constants<'a>,
    axes: Axes,
    values: HashMap<&'a str, Value>,
    links: Vec<Link>,
    problems: Vec<ChainError>,
}

impl<'a> Walk<'a> {
    fn new(model: &'a Model, constants: &'a Constants<'a>) -> Self {
        let mut walk = Self {
            model,
            constants,
            axes: Axes::default(),
            values: HashMap::new(),
            links: Vec::new(),
            problems: Vec::new(),
        };
        for tensor in &model.tensors {
            walk.keep_integers(&tensor.name, tensor);
        }
        for port in &model.inputs {
            let fits = |shape: &&Vec<_>| shape.len() <= MOST_DIMS;
            let value = match (port.element, port.shape.as_ref().filter(fits)) {
                (Some(Element::F32), Some(shape)) => {
                    let dims = shape.iter().map(|dim| walk.axes.add(dim)).collect();
                    Value::Numbers(Source::Input, dims)
                }
                (Some(Element::F32), None) => {
                    let why = "is an input without a declared shape".to_owned();
                    Value::Unknown(walk.broken(&port.name, why))
                }
                (element, _) => {
                    let element = element.map_or("an unknown type", Element::name);
                    let why = format!("is an input of {element}, not of float32");
                    Value::Unknown(walk.broken(&port.name, why))
                }
            };
            walk.values.insert(&port.name, value);
        }
        walk
    }

    /// Records that the chain breaks at a node or port. Returns the index of the reason.
    fn broken(&mut self, name: &str, why: String) -> usize {
        self.problem(ChainError::Broken { name: name.to_owned(), why })
    }

    fn problem(&mut self, problem: ChainError) -> usize {
        self.problems.push(problem);
        self.problems.len() - 1
    }

    fn keep_integers(&mut self, name: &'a str, tensor: &Tensor) {
        /// Maximum integers of a shape, of axes or of indices.
        const MOST: u64 = 64;
        let is_integer = matches!(tensor.element, Element::I64 | Element::I32);
        if is_integer
            && tensor.elements() <= MOST
            && let Some(numbers) = tensor.integers()
        {
            let counts = numbers.into_iter().map(Count::fixed).collect();
            self.values.insert(name, Value::Integers(counts));
        }
    }

    fn integers(&self, name: &str) -> Option<&[Count]> {
        match self.values.get(name) {
            Some(Value::Integers(counts)) => Some(counts),
            _ => None,
        }
    }

    fn visit(&mut self, node: &'a Node) {
        if import::is_recurrent(node) {
            return self.visit_layer(node);
        }
        if let ("Constant", [output]) = (node.op.as_str(), &node.outputs[..])
            && let Some((_, Attribute::Tensor(tensor))) = node.attributes.first()
        {
            return self.keep_integers(output, tensor);
        }
        let first = node.inputs.first().map(String::as_str).unwrap_or_default();
        let shape = match self.values.get(first) {
            Some(Value::Numbers(_, dims)) if node.op == "Shape" => {
                dims.iter().map(|dim| self.axes.size(dim)).collect::<Option<Vec<_>>>()
            }
            _ => None,
        };
        let folded = integers(node, shape.as_deref(), &|name| self.integers(name));
        let value = match (folded, self.values.get(first)) {
            (Some(counts), _) => Value::Integers(counts),
            (None, Some(Value::Numbers(source, dims))) => match self.moved(node, dims) {
                Ok(moved) => Value::Numbers(*source, moved),
                Err(why) => Value::Unknown(self.broken(import::node_name(node), why)),
            },
            (None, _) => Value::Unknown(self.problem_of(node)),
        };
        let mut outputs = node.outputs.iter().filter(|name| !name.is_empty());
        let Some(output) = outputs.next() else { return };
        for other in outputs {
            let why =
                format!("({}) computes `{other}`, which a chain of layers does not have", node.op);
            let problem = self.broken(import::node_name(node), why);
            self.values.insert(other, Value::Unknown(problem));
        }
        self.values.insert(output, value);
    }

    /// Returns the reason why a node that moves no known numbers breaks the chain: that of its
    /// inputs, unless it also reads known numbers.
    fn problem_of(&mut self, node: &Node) -> usize {
        let mut known = None;
        for name in &node.inputs {
            match self.values.get(name.as_str()) {
                Some(Value::Unknown(problem)) => known = known.or(Some(*problem)),
                Some(Value::Numbers(..)) => {
                    known = None;
                    break;
                }
                _ => {}
            }
        }
        known.unwrap_or_else(|| self.broken(import::node_name(node), computes(node)))
    }

    /// Returns the dimensions after a node that moves numbers.
    fn moved(&self, node: &Node, dims: &Dims) -> Result<Dims, String> {
        let axes = || -> Option<Vec<i64>> {
            if let Some(axes) = node.ints("axes") {
                return Some(axes.to_vec());
            }
            let counts = self.integers(node.inputs.get(1)?)?;
            counts.iter().map(|count| count.symbols.is_empty().then_some(count.number)).collect()
        };
        let has_axes =
            node.ints("axes").is_some() || node.inputs.get(1).is_some_and(|name| !name.is_empty());
        let moved = match (node.domain.as_str(), node.op.as_str()) {
            ("", "Identity") => Some(dims.clone()),
            ("", "Cast") => {
                let to = node.int("to", 0);
                if to != i64::from(dyno_onnx::code_of(Element::F32)) {
                    return Err(format!("(Cast) converts the numbers to {}", type_name(to)));
                }
                Some(dims.clone())
            }
            ("", "Dropout") => {
                if !self.is_inference(node) {
                    return Err("(Dropout) is in training mode".to_owned());
                }
                Some(dims.clone())
            }
            ("", "Transpose") => axes::transpose(dims, node.ints("perm")),
            ("", "Squeeze") if !has_axes => axes::squeeze(&self.axes, dims, None),
            ("", "Squeeze") => axes().and_then(|at| axes::squeeze(&self.axes, dims, Some(&at))),
            ("", "Unsqueeze") => axes().and_then(|at| axes::unsqueeze(dims, &at)),
            ("", "Flatten") => axes::flatten(dims, node.int("axis", 1)),
            ("", "Reshape") => {
                let target = node.inputs.get(1).and_then(|name| self.integers(name));
                let Some(target) = target else {
                    return Err("(Reshape) has an unknown shape".to_owned());
                };
                let keeps_zero = node.int("allowzero", 0) != 0;
                return self.axes.reshape(dims, target, keeps_zero).ok_or_else(|| {
                    let text: Vec<_> = target.iter().map(|count| self.axes.text(count)).collect();
                    format!(
                        "(Reshape) changes {} to [{}], which may mix steps, rows and units",
                        self.axes.format(dims),
                        text.join(", ")
                    )
                });
            }
            _ => return Err(computes(node)),
        };
        moved.filter(|dims| dims.len() <= MOST_DIMS).ok_or_else(|| {
            format!("({}) cannot be applied to {} for certain", node.op, self.axes.format(dims))
        })
    }

    /// Whether a `Dropout` changes nothing.
    fn is_inference(&self, node: &Node) -> bool {
        let version = self.model.operator_sets.iter().find(|(domain, _)| domain.is_empty());
        if version.is_some_and(|(_, version)| *version < 7) {
            return node.int("is_test", 0) != 0;
        }
        match node.inputs.get(2).map(String::as_str) {
            None | Some("") => true,
            Some(mode) => self.constants.is_zero(mode),
        }
    }

    fn visit_layer(&mut self, node: &'a Node) {
        let outputs = node.outputs.iter().enumerate().filter(|(_, name)| !name.is_empty());
        let link = match self.link(node) {
            Ok(link) => link,
            Err(problem) => {
                outputs
                    .for_each(|(_, name)| drop(self.values.insert(name, Value::Unknown(problem))));
                return;
            }
        };
        let of_size = |axes: &mut Axes, size: usize| axes.add(&Dim::Fixed(size));
        let directions = of_size(&mut self.axes, link.imported.layer.directions().count());
        let units = of_size(&mut self.axes, link.imported.layer.width());
        let cells = of_size(&mut self.axes, link.imported.layer.units());
        let (steps, rows, index) = (link.steps.clone(), link.rows.clone(), self.links.len());
        for (at, name) in outputs {
            let units = if at == 2 { &cells } else { &units }.clone();
            let dims = match (at, link.imported.batch_first) {
                (0, false) => vec![steps.clone(), directions.clone(), rows.clone(), units],
                (0, true) => vec![rows.clone(), steps.clone(), directions.clone(), units],
                (_, false) => vec![directions.clone(), rows.clone(), units],
                (_, true) => vec![rows.clone(), directions.clone(), units],
            };
            self.values.insert(name, Value::Numbers(Source::Layer(index, at), dims));
        }
        self.links.push(Link { outputs: [directions, units].concat(), ..link });
    }

    /// Reads a layer and checks its inputs. Returns the index of the reason if it breaks the chain.
    fn link(&mut self, node: &Node) -> Result<Link, usize> {
        let name = import::node_name(node);
        let input = node.inputs.first().map(String::as_str).unwrap_or_default();
        let (source, dims) = match self.values.get(input) {
            Some(Value::Numbers(source, dims)) => (*source, dims.clone()),
            Some(Value::Unknown(problem)) => return Err(*problem),
            _ => return Err(self.broken(name, format!("reads `{input}`, which is constant"))),
        };
        let imported = import::layer(node, self.constants)
            .map_err(|error| self.problem(ChainError::Import(error)))?;
        let [first, second, features] = &dims[..] else {
            let shape = self.axes.format(&dims);
            return Err(self.broken(
                name,
                format!("reads `{input}` of shape {shape}, not of three dimensions"),
            ));
        };
        let (steps, rows) = if imported.batch_first { (second, first) } else { (first, second) };
        let fed = |state: &InitialState| match state {
            InitialState::Fed(value) => Some(value.clone()),
            _ => None,
        };
        let inputs = ["initial_h", "initial_c"].into_iter().zip(imported.initial.iter().map(fed));
        let lengths = imported.lengths.clone().filter(|_| imported.given_lengths.is_none());
        let mut fed = inputs.chain([("sequence_lens", lengths)]);
        let why = fed.find_map(|(what, value)| {
            Some(format!("reads {what} from `{}`, which is not constant", value?))
        });
        let why = why.or_else(|| self.misfit(&imported, source, [steps, rows, features]));
        let start = match (why, Start::new(&imported)) {
            (None, Ok(start)) => start,
            (Some(why), _) | (None, Err(why)) => return Err(self.broken(name, why)),
        };
        let size = |dim| self.axes.size(dim).filter(|size| size.symbols.is_empty());
        let sizes = [steps, rows].map(|dim| size(dim).map(|size| size.number));
        if let Err(why) = start.check(sizes[0], sizes[1]) {
            return Err(self.broken(name, why));
        }
        let [steps, rows, inputs] = [steps, rows, features].map(Clone::clone);
        Ok(Link { imported, start, source, steps, rows, inputs, outputs: Vec::new() })
    }

    /// Describes how the input of a layer differs from what it has to read.
    fn misfit(
        &self,
        imported: &ImportedLayer,
        source: Source,
        [steps, rows, features]: [&Vec<Axis>; 3],
    ) -> Option<String> {
        match source {
            Source::Input => {
                if steps.len() > 1 || rows.len() > 1 {
                    return Some(
                        "reads steps or rows that are several dimensions of the input".into(),
                    );
                }
                let inputs = Count::fixed(i64::try_from(imported.layer.inputs()).ok()?);
                let size = self.axes.size(features)?;
                let is_open = size.number == 1 && size.symbols.len() == 1;
                (size != inputs && !is_open).then(|| {
                    let (size, inputs) = (self.axes.text(&size), inputs.number);
                    format!("reads {size} numbers per step, but its weights expect {inputs}")
                })
            }
            Source::Layer(index, 0) => {
                let link = &self.links[index];
                let roles =
                    [("steps", &link.steps), ("rows", &link.rows), ("outputs", &link.outputs)];
                let fits =
                    roles.iter().zip([steps, rows, features]).all(|((_, own), read)| *own == read);
                let role = |axes: &Vec<Axis>| {
                    let known = roles.iter().find(|(_, own)| *own == axes);
                    known.map_or("other numbers", |(role, _)| role)
                };
                (!fits).then(|| {
                    let [steps, rows, features] = [steps, rows, features].map(role);
                    let name = &link.imported.name;
                    format!(
                        "reads the {steps} of `{name}` as steps, its {rows} as rows and its \
                         {features} as inputs"
                    )
                })
            }
            Source::Layer(index, _) => {
                let name = &self.links[index].imported.name;
                Some(format!("reads a last state of `{name}` as a sequence"))
            }
        }
    }

    /// Returns the chain that computes all outputs of the graph.
    fn finish(mut self) -> Result<Chain, ChainError> {
        let mut returned: Vec<GraphOutput> = Vec::new();
        for port in &self.model.outputs {
            let problem = match self.values.get(port.name.as_str()) {
                Some(Value::Numbers(Source::Layer(index, which), dims)) => {
                    returned.push((*index, *which, port.name.clone(), dims.concat()));
                    continue;
                }
                Some(Value::Unknown(problem)) => *problem,
                _ => self.broken(&port.name, "is an output that no layer computes".to_owned()),
            };
            return Err(self.problems.swap_remove(problem));
        }
        let Some(last) = returned.iter().map(|(index, ..)| *index).max() else {
            let why = "has no outputs".to_owned();
            return Err(ChainError::Broken { name: self.model.name.clone(), why });
        };
        let mut path = vec![last];
        while let Source::Layer(before, _) = self.links[path[path.len() - 1]].source {
            path.push(before);
        }
        let rearranged = self.rearranged(&path, &returned);
        for (index, which, name, _) in returned {
            let layer = &self.links[index].imported.name;
            let why = if !path.contains(&index) {
                format!(
                    "is an output of `{layer}`, which `{}` does not follow",
                    self.links[last].imported.name
                )
            } else if which == 0 && index != last {
                format!("is the sequence of `{layer}`, which is not the last layer")
            } else {
                continue;
            };
            return Err(ChainError::Broken { name, why });
        }
        let mut links: Vec<Option<Link>> = self.links.into_iter().map(Some).collect();
        let links = path.iter().rev().filter_map(|index| links[*index].take());
        let (layers, starts) = links.map(|link| (link.imported.layer, link.start)).unzip();
        Ok(Chain { layers, starts, rearranged })
    }

    /// Returns the name of the input or output with another order of numbers than an engine's.
    /// `path` has the layers from the last to the first.
    fn rearranged(&self, path: &[usize], returned: &[GraphOutput]) -> Option<String> {
        let (last, first) = (&self.links[path[0]], &self.links[path[path.len() - 1]]);
        let wanted = [&first.steps[..], &first.rows, &first.inputs];
        let port = self.model.inputs.iter().find(|port| {
            let dims = match self.values.get(port.name.as_str()) {
                Some(Value::Numbers(Source::Input, dims)) => dims.concat(),
                _ => return false,
            };
            wanted.iter().flat_map(|axes| axes.iter()).any(|axis| dims.contains(axis))
        });
        if let Some(port) = port {
            let dims = self.values.get(port.name.as_str());
            let is_plain = |dims: &Dims| matches!(&dims[..], [steps, rows, inputs] if [&steps[..], rows, inputs] == wanted);
            if !matches!(dims, Some(Value::Numbers(_, dims)) if is_plain(dims)) {
                return Some(port.name.clone());
            }
        }
        let wanted = [&last.steps[..], &last.rows, &last.outputs].concat();
        let (index, which, name, axes) = returned.first()?;
        let is_plain = (*index, *which) == (path[0], 0) && *axes == wanted;
        (!is_plain).then(|| name.clone())
    }
}

/// Index of a layer, of its output, name of the graph's output, and its axes.
type GraphOutput = (usize, usize, String, Vec<Axis>);

/// Describes a node that a chain of layers cannot run.
fn computes(node: &Node) -> String {
    format!("({}) computes numbers that a chain of layers does not have", node.op)
}

/// Returns the name of a type by its number in `TensorProto.DataType`.
fn type_name(code: i64) -> &'static str {
    i32::try_from(code).ok().and_then(dyno_onnx::element_of).map_or("another", Element::name)
}
