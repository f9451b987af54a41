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
        /// Numbers that are not compared: infinite or NaN here, where the oracle's numbers or their
        /// terms are outside of the range of their type; or those of an output that vanishes in
        /// float32.
        beyond: usize,
    },
    /// Both fail on these inputs, with the session's error.
    Failed(String),
    /// The session fails on these inputs, with this error, and the oracle does not. Inputs that the
    /// standard does not define are an example.
    Refused(String),
    /// The session has other outputs or other dimensions.
    Contradiction(String),
    /// The oracle does not compute this model, or not within the limit; or all numbers are outside of
    /// the range of their type. A clause that completes "not verified".
    Unjudged(String),
}

impl fmt::Display for Verification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compared { difference, output, beyond } => {
                write!(
                    f,
                    "compared with an independent evaluator in double precision: the largest difference \
                     is {difference:.1e} of the largest magnitude, in output '{output}'"
                )?;
                match beyond {
                    0 => Ok(()),
                    beyond => write!(
                        f,
                        "; {beyond} numbers outside the range of float32 are not compared"
                    ),
                }
            }
            Self::Contradiction(reason) => {
                write!(f, "an independent evaluator contradicts this model's result: {reason}")
            }
            Self::Refused(reason) => write!(
                f,
                "not verified: the model fails on these inputs, which an independent evaluator \
                 computes: {reason}"
            ),
            Self::Failed(reason) => write!(f, "the model fails on these inputs: {reason}"),
            Self::Unjudged(reason) => {
                write!(f, "not verified: {reason}")
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
        let found = self.model.evaluate(&given).map_err(|error| error.to_string())?;
        let dyno_oracle::Evaluation { has_overflow, has_underflow, has_close_choice, .. } = found;
        let judgement = |(name, tensor): (String, Tensor)| {
            let numbers = match tensor.values() {
                Values::Floats(values) => values.clone(),
                Values::Integers(values) => values.iter().map(|value| *value as f64).collect(),
            };
            let is_float32 = tensor.element() == Judged::Float32;
            let dims = tensor.shape().to_vec();
            Judgement {
                name,
                dims,
                is_float32,
                numbers,
                has_overflow,
                has_underflow,
                has_close_choice,
            }
        };
        Ok(found.outputs.into_iter().map(judgement).collect())
    }

    /// Compares a session of the same file on these inputs.
    pub fn verify(&self, session: &mut Session, inputs: &[Value]) -> Verification {
        let names: Vec<String> =
            session.graph().inputs().iter().map(|port| port.name.clone()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let expected = match self.run(&names, inputs) {
            Ok(expected) => expected,
            Err(reason) => {
                return match session.run(inputs) {
                    Ok(_) => Verification::Unjudged(reason),
                    Err(error) => Verification::Failed(error.to_string()),
                };
            }
        };
        let found = match session.run(inputs) {
            Ok(found) => found,
            Err(error) => return Verification::Refused(error.to_string()),
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
    /// Whether a number of the run, maybe of another value, exceeds the range of its type.
    pub has_overflow: bool,
    /// Whether a number of the run, maybe of another value, is so small that it may be 0 in its type.
    pub has_underflow: bool,
    /// Whether a node of the run, maybe of another value, chose between numbers that are almost equal.
    pub has_close_choice: bool,
}

impl Judgement {
    /// Returns whether an output of float32 has only zeros and numbers that may be 0 in this type.
    fn vanishes(&self) -> bool {
        let finite = self.numbers.iter().filter(|number| number.is_finite());
        let most = finite.fold(0.0, |most: f64, number| most.max(number.abs()));
        self.is_float32 && most > 0.0 && most < LEAST
    }
}

/// Largest difference of a session in `f32` from the oracle, relative to the largest magnitude of an
/// output. Rounding of deep models stays far below; a different network does not.
pub const MOST_DIFFERENT: f64 = 1e-2;

/// Least normal number of float32.
const LEAST: f64 = f32::MIN_POSITIVE as f64;

fn compare(found: &[Value], expected: &[Judgement]) -> Verification {
    let verification = difference(found, expected);
    let is_different = match &verification {
        Verification::Compared { difference, .. } => *difference > MOST_DIFFERENT,
        Verification::Contradiction(_) => true,
        _ => false,
    };
    if is_different && expected.iter().any(|output| output.has_close_choice) {
        return Verification::Unjudged(
            "its outputs differ from those of the evaluator, and the model chooses between numbers \
             that are almost equal, so that rounding may decide"
                .to_owned(),
        );
    }
    verification
}

/// Compares all outputs, whatever the model chooses.
fn difference(found: &[Value], expected: &[Judgement]) -> Verification {
    if found.len() != expected.len() {
        let (found, expected) = (found.len(), expected.len());
        return Verification::Contradiction(format!("expected {expected} outputs, found {found}"));
    }
    let mut worst = expected.first().map_or(String::new(), |output| output.name.clone());
    let (mut most, mut compared, mut beyond) = (0.0, 0_usize, 0_usize);
    for (found, output) in found.iter().zip(expected) {
        let Judgement { name, dims, numbers, .. } = output;
        let (is_beyond, vanishes) =
            (output.has_overflow || output.has_underflow, output.vanishes());
        if found.dims() != dims {
            return Verification::Contradiction(format!(
                "output '{name}': expected dimensions {dims:?}, found {:?}",
                found.dims()
            ));
        }
        let own = found.elements(found.element()).map(|all| all.to_f64()).unwrap_or_default();
        let all = own.into_iter().zip(numbers.iter().copied());
        let (pairs, others): (Vec<_>, Vec<_>) = all.partition(|(own, expected)| {
            let is_lost = vanishes && own.abs() < LEAST;
            !is_lost && (own.is_finite() || !is_beyond || is_equal(*own, *expected))
        });
        (compared, beyond) = (compared + pairs.len(), beyond + others.len());
        let scale = pairs
            .iter()
            .filter(|(_, expected)| expected.is_finite())
            .fold(f64::MIN_POSITIVE, |most, (_, expected)| most.max(expected.abs()));
        for (own, expected) in pairs {
            let difference = if is_equal(own, expected) {
                0.0
            } else {
                let difference = (own - expected).abs() / scale;
                if difference.is_nan() { f64::INFINITY } else { difference }
            };
            if difference > most {
                most = difference;
                worst.clone_from(name);
            }
        }
    }
    if compared == 0 && beyond > 0 {
        return Verification::Unjudged(
            "all numbers of its outputs, or their terms, are outside the range of float32"
                .to_owned(),
        );
    }
    Verification::Compared { difference: most, output: worst, beyond }
}

/// Infinities and NaN must be equal.
fn is_equal(own: f64, expected: f64) -> bool {
    own == expected || (own.is_nan() && expected.is_nan())
}

/// Converts a value for the oracle. Values of types of 16 bits are held as `f32`. A session rounds
/// them, and the oracle does not.
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
        let numbers = elements.to_f64().into_iter().map(|x| element.round(x)).collect();
        Tensor::floats(element, value.dims(), numbers)
    } else {
        let integers = elements.to_i64().ok_or("expected integers")?;
        Tensor::integers(element, value.dims(), integers.into_owned())
    };
    made.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use dyno_onnx::{Builder, Weights};

    use super::*;
    use crate::graph::Graph;
    use crate::session::SessionOptions;

    /// Between 1 and the next float16 is 1/1024, so that 1.0001 becomes 1 for both.
    #[test]
    fn inputs_of_16_bits_are_rounded_for_both() {
        let mut net = Builder::new("net", Weights::seeded(1));
        let x = net.input("x", Element::F16, &[2.into()]);
        let y = net.node("Neg", &[&x], &[]).expect("a valid node");
        net.output("y", &y).expect("a valid output");
        let net = net.finish();
        let bytes = net.to_bytes().expect("weights in memory");
        let oracle =
            Oracle { model: dyno_oracle::Model::from_bytes(&bytes).expect("a known model") };
        let graph = Arc::new(Graph::new(&net).expect("a known model"));
        let mut session = Session::new(graph, &SessionOptions::default());
        let input = Value::new(vec![2], vec![1.0001_f32, 1.0]).expect("a valid case");
        let expected = Verification::Compared { difference: 0.0, output: "y".into(), beyond: 0 };
        assert_eq!(oracle.verify(&mut session, &[input]), expected);
    }

    /// Floor of 6.9999 is 6, and Ceil is 7. No number is rounded before.
    #[test]
    fn a_wrong_function_of_inputs_next_to_a_jump_is_a_difference() {
        let file = |op: &str| {
            let mut net = Builder::new("net", Weights::seeded(1));
            let x = net.input("x", Element::F32, &[2.into()]);
            let y = net.node(op, &[&x], &[]).expect("a valid node");
            net.output("y", &y).expect("a valid output");
            net.finish()
        };
        let bytes = file("Floor").to_bytes().expect("weights in memory");
        let oracle =
            Oracle { model: dyno_oracle::Model::from_bytes(&bytes).expect("a known model") };
        let graph = Arc::new(Graph::new(&file("Ceil")).expect("a known model"));
        let mut session = Session::new(graph, &SessionOptions::default());
        let input = Value::new(vec![2], vec![6.9999_f32, 8.0]).expect("a valid case");
        let expected = Verification::Compared { difference: 0.125, output: "y".into(), beyond: 0 };
        assert_eq!(oracle.verify(&mut session, &[input]), expected);
    }

    fn verify(own: &[f32], numbers: &[f64], has_overflow: bool) -> Verification {
        let expected = judgement(numbers, has_overflow);
        compare(&[Value::new([own.len()], own.to_vec()).expect("a valid case")], &[expected])
    }

    fn judgement(numbers: &[f64], has_overflow: bool) -> Judgement {
        Judgement {
            name: "y".into(),
            dims: vec![numbers.len()],
            is_float32: true,
            numbers: numbers.to_vec(),
            has_overflow,
            has_underflow: numbers.iter().any(|x| *x != 0.0 && x.abs() < LEAST),
            has_close_choice: false,
        }
    }

    #[test]
    fn other_choices_between_numbers_that_are_almost_equal_are_no_contradiction() {
        let expected = Judgement { has_close_choice: true, ..judgement(&[1.0, 2.0], false) };
        let verify = |own: &[f32]| {
            let own = Value::new([own.len()], own.to_vec()).expect("a valid case");
            compare(&[own], std::slice::from_ref(&expected))
        };
        let compared = Verification::Compared { difference: 0.0, output: "y".into(), beyond: 0 };
        assert_eq!(verify(&[1.0, 2.0]), compared);
        assert!(matches!(verify(&[2.0, 1.0]), Verification::Unjudged(_)));
        assert!(matches!(verify(&[1.0]), Verification::Unjudged(_)));
    }

    #[test]
    fn infinite_numbers_are_no_difference_where_float32_overflows() {
        let compared =
            |difference, beyond| Verification::Compared { difference, output: "y".into(), beyond };
        let inf = f32::INFINITY;
        assert_eq!(verify(&[inf, 1.0], &[7e86, 1.0], true), compared(0.0, 1));
        assert_eq!(verify(&[f32::NAN, 1.0], &[1.0, 1.0], true), compared(0.0, 1));
        // The other numbers are compared at their own scale.
        assert_eq!(verify(&[inf, 1.5], &[7e86, 1.0], true), compared(0.5, 1));
        // Without overflow, infinity is wrong, and so is a finite number for a large one.
        assert_eq!(verify(&[inf, 1.0], &[2.0, 1.0], false), compared(f64::INFINITY, 0));
        assert_eq!(verify(&[1.0], &[7e86], true), compared(1.0, 0));
        assert!(matches!(verify(&[inf], &[7e86], true), Verification::Unjudged(_)));
        assert_eq!(verify(&[inf], &[f64::INFINITY], true), compared(0.0, 0));
    }
    /// A product of 125 random numbers is such a number: 0 in float32, and not in float64.
    #[test]
    fn numbers_below_float32_are_not_compared() {
        let compared =
            |difference, beyond| Verification::Compared { difference, output: "y".into(), beyond };
        assert!(matches!(verify(&[0.0, 0.0], &[1e-60, 0.0], false), Verification::Unjudged(_)));
        // The logarithm of such a number is infinite.
        let inf = f32::NEG_INFINITY;
        assert_eq!(verify(&[inf, 1.0], &[1e-60, 1.0], false), compared(0.0, 1));
        // Beside larger numbers they are 0, and instead of them larger numbers are wrong.
        assert_eq!(verify(&[0.0, 1.5], &[1e-60, 1.0], false), compared(0.5, 0));
        assert!(matches!(
            verify(&[1.0], &[1e-60], false),
            Verification::Compared { difference, .. } if difference > 1.0
        ));
    }

    /// The model of the session is one of three numbers, and that of the oracle one of two.
    #[test]
    fn a_session_that_fails_alone_is_not_contradicted() {
        let net = |size: usize| {
            let mut net = Builder::new("net", Weights::seeded(1));
            let x = net.input("x", Element::F32, &[size.into()]);
            let y = net.node("Neg", &[&x], &[]).expect("a valid node");
            net.output("y", &y).expect("a valid output");
            net.finish()
        };
        let bytes = net(2).to_bytes().expect("weights in memory");
        let model = dyno_oracle::Model::from_bytes(&bytes).expect("a known model");
        let graph = Arc::new(Graph::new(&net(3)).expect("a known model"));
        let mut session = Session::new(graph, &SessionOptions::default());
        let input = Value::new(vec![2], vec![1.0_f32, 2.0]).expect("a valid case");
        let found = Oracle { model }.verify(&mut session, &[input]);
        assert!(matches!(&found, Verification::Refused(why) if why.contains("'x'")), "{found:?}");
    }
}
