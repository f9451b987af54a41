//! Comparison of a session with an evaluator that shares no code with it.

use std::fmt;
use std::path::Path;

use dyno_oracle::{Element as Judged, Tensor, Values};
use dyno_tensors::Element;

use crate::session::Session;
use crate::value::Value;

/// What a comparison of a session with `dyno-oracle` found. The oracle reads the file by itself and
/// computes each operator in double precision.
#[derive(Debug, Clone, PartialEq)]
pub enum Verification {
    /// All outputs have the same dimensions. Types are not compared.
    Compared {
        /// Largest difference of a number, relative to the largest magnitude of its output.
        difference: f64,
        /// Output with this difference.
        output: String,
    },
    /// The session has other outputs or other dimensions, or fails where the oracle does not.
    Contradiction(String),
    /// The oracle does not compute this model, or not within the limit.
    Unjudged(String),
}

impl fmt::Display for Verification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compared { difference, output } => write!(
                f,
                "compared with an independent evaluator in double precision: the largest difference is \
                 {difference:.1e} of the largest magnitude, in output '{output}'"
            ),
            Self::Contradiction(reason) => {
                write!(f, "an independent evaluator contradicts this model's result: {reason}")
            }
            Self::Unjudged(reason) => {
                write!(f, "not verified; the independent evaluator does not compute it: {reason}")
            }
        }
    }
}

/// An ONNX file as `dyno-oracle` reads it.
#[derive(Debug)]
pub struct Oracle {
    model: dyno_oracle::Model,
}

impl Oracle {
    /// Reads a file. A run takes at most `limit` multiplications.
    ///
    /// # Errors
    /// A sentence with what the oracle does not know.
    pub fn read(path: &Path, limit: u64) -> Result<Self, String> {
        let model = dyno_oracle::Model::read(path).map_err(|error| error.to_string())?;
        Ok(Self { model: model.with_limit(limit) })
    }

    /// Computes the outputs in the order of the file, each with its name and dimensions. Integers and
    /// booleans are numbers too.
    ///
    /// # Errors
    /// A sentence with the node that the oracle does not know, or the limit.
    pub fn run(&self, names: &[&str], inputs: &[Value]) -> Result<Vec<Judgement>, String> {
        let mut given = Vec::new();
        let ports: Vec<_> = self.model.inputs().collect();
        for (name, value) in names.iter().zip(inputs) {
            let port = ports.iter().find(|port| port.name == **name);
            let declared = port.and_then(|port| port.element);
            given.push((*name, tensor(value, declared)?));
        }
        let outputs = self.model.run(&given).map_err(|error| error.to_string())?;
        let judgement = |(name, tensor): (String, Tensor)| {
            let numbers = match tensor.values() {
                Values::Floats(values) => values.clone(),
                Values::Integers(values) => values.iter().map(|value| *value as f64).collect(),
            };
            let is_float32 = tensor.element() == Judged::Float32;
            Judgement { name, dims: tensor.shape().to_vec(), is_float32, numbers }
        };
        Ok(outputs.into_iter().map(judgement).collect())
    }

    /// Compares a session of the same file on these inputs.
    pub fn verify(&self, session: &mut Session, inputs: &[Value]) -> Verification {
        let names: Vec<String> =
            session.graph().inputs().iter().map(|port| port.name.clone()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let expected = match self.run(&names, inputs) {
            Ok(expected) => expected,
            Err(reason) => return Verification::Unjudged(reason),
        };
        let found = match session.run(inputs) {
            Ok(found) => found,
            Err(error) => return Verification::Contradiction(error.to_string()),
        };
        compare(&found, &expected)
    }
}

/// An output of the oracle.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// Name of the output.
    pub name: String,
    /// Dimensions.
    pub dims: Vec<usize>,
    /// Whether its elements are of type float32.
    pub is_float32: bool,
    /// Elements in row-major order.
    pub numbers: Vec<f64>,
}

fn compare(found: &[Value], expected: &[Judgement]) -> Verification {
    let mut worst = Verification::Compared {
        difference: 0.0,
        output: expected.first().map_or(String::new(), |output| output.name.clone()),
    };
    if found.len() != expected.len() {
        let (found, expected) = (found.len(), expected.len());
        return Verification::Contradiction(format!("expected {expected} outputs, found {found}"));
    }
    let mut most = 0.0;
    for (found, Judgement { name, dims, numbers, .. }) in found.iter().zip(expected) {
        if found.dims() != dims {
            return Verification::Contradiction(format!(
                "output '{name}': expected dimensions {dims:?}, found {:?}",
                found.dims()
            ));
        }
        let own = found.elements(found.element()).map(|all| all.to_f64()).unwrap_or_default();
        let scale = numbers
            .iter()
            .filter(|x| x.is_finite())
            .fold(f64::MIN_POSITIVE, |most, x| most.max(x.abs()));
        for (own, expected) in own.iter().zip(numbers) {
            // Infinities and NaN must be equal.
            let difference = if own == expected || (own.is_nan() && expected.is_nan()) {
                0.0
            } else {
                let difference = (own - expected).abs() / scale;
                if difference.is_nan() { f64::INFINITY } else { difference }
            };
            if difference > most {
                most = difference;
                worst = Verification::Compared { difference, output: name.clone() };
            }
        }
    }
    worst
}

/// Converts a value for the oracle. Values of types of 16 bits are held as `f32`.
fn tensor(value: &Value, declared: Option<Judged>) -> Result<Tensor, String> {
    let own = match value.element() {
        Element::F32 => Judged::Float32,
        Element::F64 => Judged::Float64,
        Element::I64 => Judged::Int64,
        Element::I32 => Judged::Int32,
        Element::I8 => Judged::Int8,
        Element::U8 => Judged::UInt8,
        Element::Bool => Judged::Bool,
        other => return Err(format!("inputs of type {other} are not passed to the evaluator")),
    };
    let element = match declared {
        Some(short @ (Judged::Float16 | Judged::BFloat16)) if own == Judged::Float32 => short,
        _ => own,
    };
    let elements = value.elements(value.element()).ok_or("a value has no elements")?;
    let made = if own.is_float() {
        Tensor::floats(element, value.dims(), elements.to_f64())
    } else {
        let integers = elements.to_i64().ok_or("expected integers")?;
        Tensor::integers(element, value.dims(), integers.into_owned())
    };
    made.map_err(|error| error.to_string())
}
