//! Whether what a request brings is what a model takes.

use std::fmt;

use super::Value;
use crate::tensors::{Element, ModelInput};

/// Why a request does not fit a model.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unfit {
    /// A tensor that no input has the name of.
    Unknown {
        /// Its name.
        name: String,
        /// Those of the inputs.
        inputs: Vec<String>,
    },
    /// A tensor that is there twice.
    Twice(String),
    /// An input without a tensor.
    Missing(ModelInput),
    /// Elements of another type.
    Type {
        /// What is asked for.
        input: ModelInput,
        /// What there is.
        found: Element,
    },
    /// Another shape.
    Shape {
        /// What is asked for.
        input: ModelInput,
        /// What there is.
        found: Vec<usize>,
    },
    /// Inputs of which one has more rows than another.
    Rows {
        /// One of them, with its rows.
        one: (String, usize),
        /// The other.
        other: (String, usize),
    },
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let takes = |input: &ModelInput| {
            let dimension = |n: &Option<usize>| n.map_or("-1".into(), |n| n.to_string());
            let shape: Vec<String> = input.shape.iter().map(dimension).collect();
            format!("{} of shape [{}]", input.element, shape.join(", "))
        };
        match self {
            Self::Unknown { name, inputs } => {
                write!(f, "the model has no input '{name}'; it takes {}", inputs.join(", "))
            }
            Self::Twice(name) => write!(f, "input '{name}' is given twice"),
            Self::Missing(input) => {
                write!(f, "input '{}' is missing; expected {}", input.name, takes(input))
            }
            Self::Type { input, found } => write!(
                f,
                "input '{}' has elements of type {found}; expected {}",
                input.name,
                takes(input)
            ),
            Self::Shape { input, found } => write!(
                f,
                "input '{}' has the shape {found:?}; expected {}, each dimension at least 1",
                input.name,
                takes(input)
            ),
            Self::Rows { one, other } => write!(
                f,
                "input '{}' has {} rows and input '{}' has {}; expected as many of each",
                one.0, one.1, other.0, other.1
            ),
        }
    }
}

impl std::error::Error for Unfit {}

/// The values in the order of the inputs.
///
/// # Errors
/// What does not fit, and what was expected.
pub fn fit(inputs: &[ModelInput], given: Vec<(String, Value)>) -> Result<Vec<Value>, Unfit> {
    let mut places: Vec<Option<Value>> = inputs.iter().map(|_| None).collect();
    for (name, value) in given {
        let Some(at) = inputs.iter().position(|input| input.name == name) else {
            let inputs = inputs.iter().map(|input| input.name.clone()).collect();
            return Err(Unfit::Unknown { name, inputs });
        };
        if places[at].replace(value).is_some() {
            return Err(Unfit::Twice(name));
        }
    }
    let mut rows: Option<(&str, usize)> = None;
    let mut values = Vec::with_capacity(inputs.len());
    for (input, value) in inputs.iter().zip(places) {
        let value = value.ok_or_else(|| Unfit::Missing(input.clone()))?;
        let found = value.elements.element();
        if found != input.element {
            return Err(Unfit::Type { input: input.clone(), found });
        }
        let pairs = || input.shape.iter().zip(&value.shape);
        let fits = input.shape.len() == value.shape.len()
            && pairs().all(|(takes, n)| *n > 0 && takes.is_none_or(|takes| takes == *n));
        if !fits {
            return Err(Unfit::Shape { input: input.clone(), found: value.shape });
        }
        if input.shape.first() == Some(&None) {
            let own = (&input.name[..], value.shape[0]);
            let first = *rows.get_or_insert(own);
            if first.1 != own.1 {
                let owned = |(name, rows): (&str, usize)| (name.to_owned(), rows);
                return Err(Unfit::Rows { one: owned(first), other: owned(own) });
            }
        }
        values.push(value);
    }
    Ok(values)
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
        let fitted = fit(&inputs(), given).unwrap();
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
            (vec![a(), named("c", value(&[1]))], "the model has no input 'c'; it takes a, b"),
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
                "input 'a' has 1 rows and input 'b' has 2; expected as many of each",
            ),
        ] {
            assert_eq!(fit(&inputs(), given).unwrap_err().to_string(), expected);
        }
    }
}
