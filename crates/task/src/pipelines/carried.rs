//! States that a step of a decoder takes and puts out: an input `NAME` whose output is called
//! `next_NAME`. Their rows are those of beams or utterances, which come and go; hence they
//! are kept here between calls, and the rows of a call are put together anew.

use std::borrow::Cow;

use dyno_sut::onnx::OnnxError;
use dyno_sut::onnx::ort::{Callable, Fed, Kept};
use dyno_sut::tensors::{Element, Elements, ModelInput};

/// What the output of a state is called more than its input.
const NEXT: &str = "next_";

/// The states of a model.
pub(super) struct Carried(Vec<State>);

/// A state; its first dimension is that of the rows.
struct State {
    name: String,
    input: usize,
    output: usize,
    /// Of a row.
    shape: Vec<usize>,
}

/// A dimension of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    /// Whatever the model has.
    Any,
    /// Another one in each call.
    Each,
    /// This one.
    Of(usize),
}

/// An input of a call.
pub(super) struct Input<'a> {
    /// Its place in the model.
    pub at: usize,
    pub shape: Vec<usize>,
    pub elements: Elements<'a>,
}

/// Rows of every state, one after the other.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rows(Vec<Vec<f32>>);

impl Carried {
    /// The states of a model that carries some: its inputs with an output of their name.
    ///
    /// # Errors
    /// One is no float32, or is of no fixed size but for the rows.
    pub(super) fn of(model: &Callable) -> Result<Self, OnnxError> {
        let mut states = Vec::new();
        for (input, port) in model.inputs().iter().enumerate() {
            let next = format!("{NEXT}{}", port.name);
            let Some(output) = model.outputs().iter().position(|found| found.name == next) else {
                continue;
            };
            let shape = row(model, port)?;
            states.push(State { name: port.name.clone(), input, output, shape });
        }
        Ok(Self(states))
    }

    /// Of a model that carries nothing.
    pub(super) fn none() -> Self {
        Self(Vec::new())
    }

    /// Their names.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|state| state.name.as_str())
    }

    /// The numbers of a row of a state of this name.
    pub(super) fn width(&self, name: &str) -> Option<usize> {
        let state = self.0.iter().find(|state| state.name == name)?;
        Some(state.shape.iter().product())
    }

    /// So many rows of nothing.
    pub(super) fn zeros(&self, rows: usize) -> Rows {
        let zeros = |state: &State| vec![0.0; rows * state.shape.iter().product::<usize>()];
        Rows(self.0.iter().map(zeros).collect())
    }

    /// The states as a call takes them: where they stand, and what is fed.
    pub(super) fn fed<'a>(&self, rows: &'a Rows, count: usize) -> Vec<Input<'a>> {
        let input = |(state, rows): (&State, &'a Vec<f32>)| Input {
            at: state.input,
            shape: [&[count], &state.shape[..]].concat(),
            elements: Elements::F32(rows.as_slice().into()),
        };
        self.0.iter().zip(&rows.0).map(input).collect()
    }

    /// The states that a call of so many rows put out.
    ///
    /// # Errors
    /// One is of another size than it was fed.
    pub(super) fn next(
        &self,
        model: &Callable,
        outputs: &[Kept],
        rows: usize,
    ) -> Result<Rows, String> {
        let of = |state: &State| {
            let (shape, elements) = outputs[state.output].read()?;
            let expected = rows * state.shape.iter().product::<usize>();
            if elements.len() != expected {
                let (of, name) = (model.name(), &state.name);
                return Err(format!(
                    "{of}: expected {expected} numbers of {NEXT}{name}, found {shape:?}"
                ));
            }
            Ok(elements.to_f32().into_owned())
        };
        self.0.iter().map(of).collect::<Result<_, _>>().map(Rows)
    }

    /// Whether there is a state of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }

    /// Replaces a state by rows that came from elsewhere, if they are as many and as wide.
    #[must_use]
    pub(super) fn replace(&self, name: &str, rows: &mut Rows, by: Vec<f32>) -> bool {
        let states = self.0.iter().zip(&mut rows.0);
        let mut of_name =
            states.filter(|(state, rows)| state.name == name && rows.len() == by.len());
        of_name.next().map(|(_, rows)| *rows = by).is_some()
    }

    /// These rows in this order, of which one may come twice.
    pub(super) fn gather(&self, from: &Rows, rows: &[usize]) -> Rows {
        let states = self.0.iter().zip(&from.0);
        let gather = |(state, all): (&State, &Vec<f32>)| {
            let width: usize = state.shape.iter().product();
            rows.iter().flat_map(|row| &all[row * width..][..width]).copied().collect()
        };
        Rows(states.map(gather).collect())
    }

    /// Puts rows where they belong among all.
    pub(super) fn scatter(&self, from: &Rows, rows: &[usize], to: &mut Rows) {
        for ((state, from), to) in self.0.iter().zip(&from.0).zip(&mut to.0) {
            let width: usize = state.shape.iter().product();
            for (at, row) in rows.iter().enumerate() {
                to[row * width..][..width].copy_from_slice(&from[at * width..][..width]);
            }
        }
    }
}

/// Every input of a model is one of these or a state.
///
/// # Errors
/// Nothing would be fed to one.
pub(super) fn all_fed(
    model: &Callable,
    fed: &[Option<usize>],
    states: &Carried,
) -> Result<(), OnnxError> {
    let is_fed = |at: usize| fed.contains(&Some(at)) || states.0.iter().any(|of| of.input == at);
    match model.inputs().iter().enumerate().find(|(at, _)| !is_fed(*at)) {
        None => Ok(()),
        Some((_, port)) => Err(model.unfit(format!(
            "nothing is fed to its input '{}'; a state has an output '{NEXT}{}'",
            port.name, port.name
        ))),
    }
}

/// The dimensions of a row of an input.
fn row(model: &Callable, port: &ModelInput) -> Result<Vec<usize>, OnnxError> {
    let sizes = port.shape.split_first().map(|(_, rest)| rest.iter().copied().collect());
    match (sizes.flatten(), port.element) {
        (Some(shape), Element::F32) => Ok(shape),
        (_, element) => Err(model.unfit(format!(
            "the state '{}' is {element} {}; expected float32, its first dimension that of the \
             rows, the others fixed",
            port.name,
            shape(port),
        ))),
    }
}

/// The dimensions of an input, for people.
pub(super) fn shape(port: &ModelInput) -> String {
    let size = |size: &Option<usize>| size.map_or_else(|| "?".to_owned(), |size| size.to_string());
    let sizes: Vec<String> = port.shape.iter().map(size).collect();
    format!("[{}]", sizes.join(", "))
}

/// Whether an input takes these.
///
/// # Errors
/// It is of another type, or has other sizes.
pub(super) fn takes(
    model: &Callable,
    input: usize,
    element: Element,
    sizes: &[Size],
) -> Result<(), OnnxError> {
    let port = &model.inputs()[input];
    let fits = |(found, size): (&Option<usize>, &Size)| match size {
        Size::Any => true,
        Size::Each => found.is_none(),
        Size::Of(size) => found.is_none_or(|found| found == *size),
    };
    let is_shape = port.shape.len() == sizes.len() && port.shape.iter().zip(sizes).all(fits);
    if is_shape && port.element == element {
        return Ok(());
    }
    let size = |size: &Size| match size {
        Size::Any => "?".to_owned(),
        Size::Each => "any".to_owned(),
        Size::Of(size) => size.to_string(),
    };
    let expected: Vec<String> = sizes.iter().map(size).collect();
    Err(model.unfit(format!(
        "its input '{}' is {} {}; expected {element} [{}]",
        port.name,
        port.element,
        shape(port),
        expected.join(", "),
    )))
}

/// A call whose inputs are given in any order.
///
/// # Errors
/// As [`Callable::call`].
pub(super) fn call(model: &Callable, mut inputs: Vec<Input<'_>>) -> Result<Vec<Kept>, String> {
    inputs.sort_by_key(|input| input.at);
    let fed = inputs
        .iter()
        .map(|input| Fed::Elements(&input.shape, input.elements.slice(0..input.elements.len())));
    model.call(&fed.collect::<Vec<_>>())
}

/// The numbers of an output that has so many rows.
///
/// # Errors
/// It has others, or none.
pub(super) fn rows<'a>(
    model: &Callable,
    output: &'a Kept,
    count: usize,
) -> Result<Cow<'a, [f32]>, String> {
    let (shape, elements) = output.read()?;
    if shape.first() != Some(&count) || elements.is_empty() {
        return Err(format!("{}: expected {count} rows, found {shape:?}", model.name()));
    }
    Ok(match elements {
        Elements::F32(values) => values,
        other => other.to_f32().into_owned().into(),
    })
}
