//! Recurrent states of a decoder: an input `NAME` with an output `next_NAME`. Their rows belong to
//! beams or utterances, which come and go, so the rows are kept here between calls and gathered for
//! each call.

use std::borrow::Cow;

use dyno_sut::onnx::OnnxError;
use dyno_sut::onnx::ort::{CallableModel, InputValue, OutputValue};
use dyno_sut::tensors::{Element, Elements, ModelInput};

/// Prefix of the output of a state.
const NEXT: &str = "next_";

/// The recurrent states of a model.
pub(super) struct RecurrentStates(Vec<State>);

/// A state; its first dimension is the rows.
struct State {
    name: String,
    input: usize,
    output: usize,
    /// Shape of a row.
    shape: Vec<usize>,
}

/// Requirement for a dimension of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DimensionRule {
    /// Any size.
    Any,
    /// A dynamic size.
    Dynamic,
    /// This size, or a dynamic one.
    Fixed(usize),
}

/// An input of a call.
pub(super) struct CallInput<'a> {
    /// Index of the input in the model.
    pub at: usize,
    pub shape: Vec<usize>,
    pub elements: Elements<'a>,
}

/// Rows of every state.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StateRows(Vec<Vec<f32>>);

impl RecurrentStates {
    /// Finds the states of a model: the inputs that have an output of their name.
    ///
    /// # Errors
    /// A state is not float32, or a dimension other than the rows is not fixed.
    pub(super) fn from_model(model: &CallableModel) -> Result<Self, OnnxError> {
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

    /// Returns the states of a model that has none.
    pub(super) fn none() -> Self {
        Self(Vec::new())
    }

    /// Returns the names of the states.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|state| state.name.as_str())
    }

    /// Returns the size of a row of the state of this name.
    pub(super) fn width(&self, name: &str) -> Option<usize> {
        let state = self.0.iter().find(|state| state.name == name)?;
        Some(state.shape.iter().product())
    }

    /// Returns `rows` rows of zeros.
    pub(super) fn zeros(&self, rows: usize) -> StateRows {
        let zeros = |state: &State| vec![0.0; rows * state.shape.iter().product::<usize>()];
        StateRows(self.0.iter().map(zeros).collect())
    }

    /// Returns the states as inputs of a call.
    pub(super) fn inputs<'a>(&self, rows: &'a StateRows, count: usize) -> Vec<CallInput<'a>> {
        let input = |(state, rows): (&State, &'a Vec<f32>)| CallInput {
            at: state.input,
            shape: [&[count], &state.shape[..]].concat(),
            elements: Elements::F32(rows.as_slice().into()),
        };
        self.0.iter().zip(&rows.0).map(input).collect()
    }

    /// Returns the states that a call of `rows` rows output.
    ///
    /// # Errors
    /// A state has another size than its input.
    pub(super) fn next(
        &self,
        model: &CallableModel,
        outputs: &[OutputValue],
        rows: usize,
    ) -> Result<StateRows, String> {
        let next = |state: &State| {
            let (shape, elements) = outputs[state.output].read()?;
            let expected = rows * state.shape.iter().product::<usize>();
            if elements.len() != expected {
                let model = model.name();
                let name = &state.name;
                return Err(format!(
                    "{model}: expected {expected} numbers of {NEXT}{name}, found {shape:?}"
                ));
            }
            Ok(elements.to_f32().into_owned())
        };
        self.0.iter().map(next).collect::<Result<_, _>>().map(StateRows)
    }

    /// Whether there is a state of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }

    /// Replaces the rows of a state. Returns whether there is such a state with as many numbers.
    #[must_use]
    pub(super) fn replace(&self, name: &str, rows: &mut StateRows, by: Vec<f32>) -> bool {
        let states = self.0.iter().zip(&mut rows.0);
        let mut of_name =
            states.filter(|(state, rows)| state.name == name && rows.len() == by.len());
        of_name.next().map(|(_, rows)| *rows = by).is_some()
    }

    /// Returns these rows in this order; a row may occur twice.
    pub(super) fn gather(&self, from: &StateRows, rows: &[usize]) -> StateRows {
        let states = self.0.iter().zip(&from.0);
        let gather = |(state, all): (&State, &Vec<f32>)| {
            let width: usize = state.shape.iter().product();
            rows.iter().flat_map(|row| &all[row * width..][..width]).copied().collect()
        };
        StateRows(states.map(gather).collect())
    }

    /// Writes rows to these indices of `to`.
    pub(super) fn scatter(&self, from: &StateRows, rows: &[usize], to: &mut StateRows) {
        for ((state, from), to) in self.0.iter().zip(&from.0).zip(&mut to.0) {
            let width: usize = state.shape.iter().product();
            for (at, row) in rows.iter().enumerate() {
                to[row * width..][..width].copy_from_slice(&from[at * width..][..width]);
            }
        }
    }
}

/// Checks that every input of a model is a state or one of `fed`.
///
/// # Errors
/// An input would not be fed.
pub(super) fn all_fed(
    model: &CallableModel,
    inputs: &[Option<usize>],
    states: &RecurrentStates,
) -> Result<(), OnnxError> {
    let is_fed =
        |at: usize| inputs.contains(&Some(at)) || states.0.iter().any(|state| state.input == at);
    match model.inputs().iter().enumerate().find(|(at, _)| !is_fed(*at)) {
        None => Ok(()),
        Some((_, port)) => Err(model.unfit(format!(
            "its input '{}' has no value; a state needs an output '{NEXT}{}'",
            port.name, port.name
        ))),
    }
}

/// Returns the shape of a row of a state.
fn row(model: &CallableModel, port: &ModelInput) -> Result<Vec<usize>, OnnxError> {
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

/// Returns the shape of an input for error messages.
pub(super) fn shape(port: &ModelInput) -> String {
    let size = |size: &Option<usize>| size.map_or_else(|| "?".to_owned(), |size| size.to_string());
    let sizes: Vec<String> = port.shape.iter().map(size).collect();
    format!("[{}]", sizes.join(", "))
}

/// Checks the type and the dimensions of an input.
///
/// # Errors
/// The type or a dimension differs.
pub(super) fn takes(
    model: &CallableModel,
    input: usize,
    element: Element,
    sizes: &[DimensionRule],
) -> Result<(), OnnxError> {
    let port = &model.inputs()[input];
    let fits = |(found, size): (&Option<usize>, &DimensionRule)| match size {
        DimensionRule::Any => true,
        DimensionRule::Dynamic => found.is_none(),
        DimensionRule::Fixed(size) => found.is_none_or(|found| found == *size),
    };
    let is_shape = port.shape.len() == sizes.len() && port.shape.iter().zip(sizes).all(fits);
    if is_shape && port.element == element {
        return Ok(());
    }
    let size = |size: &DimensionRule| match size {
        DimensionRule::Any => "?".to_owned(),
        DimensionRule::Dynamic => "any".to_owned(),
        DimensionRule::Fixed(size) => size.to_string(),
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

/// Calls a model with inputs in any order.
///
/// # Errors
/// The error of [`CallableModel::call`].
pub(super) fn call(
    model: &CallableModel,
    mut inputs: Vec<CallInput<'_>>,
) -> Result<Vec<OutputValue>, String> {
    inputs.sort_by_key(|input| input.at);
    let inputs = inputs.iter().map(|input| {
        InputValue::Elements(&input.shape, input.elements.slice(0..input.elements.len()))
    });
    model.call(&inputs.collect::<Vec<_>>())
}

/// Returns the numbers of an output of `count` rows.
///
/// # Errors
/// The output has another number of rows, or no elements.
pub(super) fn rows<'a>(
    model: &CallableModel,
    output: &'a OutputValue,
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
