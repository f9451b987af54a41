//! Check of the tensors of a request against the inputs of a model.

use thiserror::Error;

use super::Value;
use crate::tensors::{Element, ModelInput};

/// Error: a request does not fit the model.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FitError {
    /// No input has the name of this tensor.
    #[error("the model has no input '{name}'; its inputs are {}", .inputs.join(", "))]
    Unknown {
        /// Name of the tensor.
        name: String,
        /// Names of the inputs.
        inputs: Vec<String>,
    },
    /// There are two tensors of this name.
    #[error("input '{0}' is given twice")]
    Duplicate(String),
    /// There is no tensor for this input.
    #[error("input '{}' is missing; expected {}", .0.name, signature(.0))]
    Missing(ModelInput),
    /// The elements are of another type.
    #[error(
        "input '{}' has elements of type {found}; expected {}",
        .input.name, signature(.input)
    )]
    Type {
        /// Input of the model.
        input: ModelInput,
        /// Type of the request.
        found: Element,
    },
    /// The shape does not match.
    #[error(
        "input '{}' has the shape {found:?}; expected {}{rule}",
        .input.name, signature(.input)
    )]
    Shape {
        /// Input of the model.
        input: ModelInput,
        /// Shape of the request.
        found: Vec<usize>,
        /// Further clause on what is expected, or nothing.
        rule: &'static str,
    },
    /// Two inputs have different numbers of rows.
    #[error(
        "input '{}' has {} rows and input '{}' has {}; expected the same number",
        .one.0, .one.1, .other.0, .other.1
    )]
    Rows {
        /// Name and rows of the first input.
        one: (String, usize),
        /// Name and rows of the second input.
        other: (String, usize),
    },
}

/// What the requests of a model may contain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestRules {
    /// Whether dynamic dimensions may be 0.
    pub allows_empty: bool,
    /// Whether the dynamic first dimensions of the inputs may differ.
    pub allows_other_rows: bool,
}

fn signature(input: &ModelInput) -> String {
    let dimension = |n: &Option<usize>| n.map_or("-1".into(), |n| n.to_string());
    let shape: Vec<String> = input.shape.iter().map(dimension).collect();
    format!("{} of shape [{}]", input.element, shape.join(", "))
}

/// Returns the values of a request in the order of the inputs.
///
/// # Errors
/// [`FitError`] with the mismatch and the expected input.
///
/// ```
/// use dyno_sut::infer::{RequestRules, Value, fit};
/// use dyno_sut::tensors::{Element, Elements, ModelInput};
///
/// let input = ModelInput { name: "x".into(), element: Element::F32, shape: vec![None, Some(2)] };
/// let value = Value { shape: vec![1, 2], elements: Elements::F32(vec![0.5, 1.5].into()) };
/// let rules = RequestRules::default();
/// let fitted = fit(std::slice::from_ref(&input), rules, vec![("x".into(), value.clone())])?;
/// assert_eq!(fitted, [value]);
/// let error = fit(&[input], rules, Vec::new()).unwrap_err();
/// assert_eq!(error.to_string(), "input 'x' is missing; expected float32 of shape [-1, 2]");
/// # Ok::<(), dyno_sut::infer::FitError>(())
/// ```
pub fn fit(
    inputs: &[ModelInput],
    rules: RequestRules,
    values: Vec<(String, Value)>,
) -> Result<Vec<Value>, FitError> {
    let mut places: Vec<Option<Value>> = inputs.iter().map(|_| None).collect();
    for (name, value) in values {
        let Some(at) = inputs.iter().position(|input| input.name == name) else {
            let inputs = inputs.iter().map(|input| input.name.clone()).collect();
            return Err(FitError::Unknown { name, inputs });
        };
        if places[at].replace(value).is_some() {
            return Err(FitError::Duplicate(name));
        }
    }
    let least = usize::from(!rules.allows_empty);
    let mut rows: Option<(&str, usize)> = None;
    let mut fitted = Vec::with_capacity(inputs.len());
    for (input, value) in inputs.iter().zip(places) {
        let value = value.ok_or_else(|| FitError::Missing(input.clone()))?;
        let found = value.elements.element();
        if found != input.element {
            return Err(FitError::Type { input: input.clone(), found });
        }
        let pairs = || input.shape.iter().zip(&value.shape);
        let fits = input.shape.len() == value.shape.len()
            && pairs().all(|(takes, n)| takes.map_or(*n >= least, |takes| takes == *n));
        if !fits {
            let rule = if least == 0 { "" } else { ", each dimension at least 1" };
            return Err(FitError::Shape { input: input.clone(), found: value.shape, rule });
        }
        if input.shape.first() == Some(&None) && !rules.allows_other_rows {
            let own = (&input.name[..], value.shape[0]);
            let first = *rows.get_or_insert(own);
            if first.1 != own.1 {
                let owned = |(name, rows): (&str, usize)| (name.to_owned(), rows);
                return Err(FitError::Rows { one: owned(first), other: owned(own) });
            }
        }
        fitted.push(value);
    }
    Ok(fitted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensors::Elements;

    fn value(shape: &[usize]) -> Value {
        let numbers = vec![0.5_f32; shape.iter().product()];
        Value { shape: shape.to_vec(), elements: Elements::F32(numbers.into()) }
    }

    fn inputs() -> Vec<ModelInput> {
        let input = |name: &str, shape: &[Option<usize>]| {
            let (name, shape) = (name.to_owned(), shape.to_vec());
            ModelInput { name, element: Element::F32, shape }
        };
        vec![input("a", &[None, Some(2)]), input("b", &[None, None])]
    }

    #[test]
    fn values_come_in_the_order_of_the_inputs() {
        let given = vec![("b".into(), value(&[3, 7])), ("a".into(), value(&[3, 2]))];
        let fitted = fit(&inputs(), RequestRules::default(), given).unwrap();
        let shapes: Vec<_> = fitted.into_iter().map(|value| value.shape).collect();
        assert_eq!(shapes, [vec![3, 2], vec![3, 7]]);
    }

    #[test]
    fn what_does_not_fit_is_told_with_what_was_expected() {
        let long = Value { shape: vec![1, 2], elements: Elements::I64(vec![1, 2].into()) };
        let a = || ("a".to_owned(), value(&[1, 2]));
        let b = || ("b".to_owned(), value(&[1, 1]));
        let named = |name: &str, value| (name.to_owned(), value);
        for (given, expected) in [
            (vec![a(), named("c", value(&[1]))], "the model has no input 'c'; its inputs are a, b"),
            (vec![a(), b(), a()], "input 'a' is given twice"),
            (vec![a()], "input 'b' is missing; expected float32 of shape [-1, -1]"),
            (
                vec![named("a", long), b()],
                "input 'a' has elements of type int64; expected float32 of shape [-1, 2]",
            ),
            (
                vec![named("a", value(&[1, 3])), b()],
                "input 'a' has the shape [1, 3]; expected float32 of shape [-1, 2], each \
                 dimension at least 1",
            ),
            (
                vec![named("a", value(&[0, 2])), b()],
                "input 'a' has the shape [0, 2]; expected float32 of shape [-1, 2], each \
                 dimension at least 1",
            ),
            (
                vec![named("a", value(&[2])), b()],
                "input 'a' has the shape [2]; expected float32 of shape [-1, 2], each dimension \
                 at least 1",
            ),
            (
                vec![a(), named("b", value(&[2, 2]))],
                "input 'a' has 1 rows and input 'b' has 2; expected the same number",
            ),
        ] {
            let error = fit(&inputs(), RequestRules::default(), given).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }
    #[test]
    fn rules_allow_empty_dimensions_and_other_rows() {
        let given =
            |a: &[usize], b: &[usize]| vec![("a".to_owned(), value(a)), ("b".to_owned(), value(b))];
        let fits = |a: &[usize], b: &[usize], allows_empty: bool, allows_other_rows: bool| {
            let rules = RequestRules { allows_empty, allows_other_rows };
            fit(&inputs(), rules, given(a, b)).is_ok()
        };
        assert!(fits(&[0, 2], &[0, 7], true, false) && !fits(&[0, 2], &[0, 7], false, true));
        assert!(fits(&[3, 2], &[1, 7], false, true) && !fits(&[3, 2], &[1, 7], true, false));
        // A dimension that the model fixes has its size.
        let rules = RequestRules { allows_empty: true, allows_other_rows: true };
        let error = fit(&inputs(), rules, given(&[1, 0], &[1, 1])).unwrap_err().to_string();
        let expected = "input 'a' has the shape [1, 0]; expected float32 of shape [-1, 2]";
        assert_eq!(error, expected);
    }
}
