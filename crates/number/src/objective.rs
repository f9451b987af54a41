//! Objectives: functions of formats and sizes that the tuner minimizes.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use exmex::{Express, FlatEx};

use crate::assignment::Assignment;
use crate::network::{Layer, Network};

/// What the tuner minimizes (f_obj of the thesis). All objectives except the latency depend on the
/// formats alone.
///
/// ```
/// use dyno_number::Objective;
/// let objective: Objective = "max: macs * a_bits".parse()?;
/// assert!(objective.needs_macs());
/// assert_eq!("bits".parse(), Ok(Objective::Bits));
/// assert!("w_bits * nothing".parse::<Objective>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Objective {
    /// Bits of all weights and activations; the thesis' default.
    Bits,
    /// Bits of the weights.
    Parameters,
    /// Bit operations (BOPs): products times the bits of both operands.
    BitOperations,
    /// Cycles of a bit-serial accelerator (Stripes): products times the bits of the activation,
    /// divided by 16.
    BitSerial,
    /// Latency in ns, as measured by the evaluator.
    Latency,
    /// An expression of the user.
    Expression(Expression),
    /// A function of the bits of all layers together.
    Function(BitsFunction),
}

/// Bits of a layer's weights and of its activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LayerBits {
    /// Bits of a weight.
    pub weight: u32,
    /// Bits of an activation.
    pub activation: u32,
}

/// Returns a value for the bits of all layers.
pub type ValueOfBits = dyn Fn(&[LayerBits]) -> f64 + Send + Sync;

/// A function of the bits of all layers, such as the time that a simulated system takes.
///
/// ```
/// use std::sync::Arc;
/// use dyno_number::{BitsFunction, LayerBits, Objective};
///
/// let widest = |layers: &[LayerBits]| {
///     layers.iter().map(|bits| f64::from(bits.weight)).fold(0.0, f64::max)
/// };
/// let objective = Objective::Function(BitsFunction {
///     name: "widest".into(),
///     unit: "bits",
///     value: Arc::new(widest),
///     text: |value| format!("widest layer {value:.0} bits"),
/// });
/// assert_eq!(objective.to_string(), "widest");
/// assert_eq!(objective.text(4.0), Some("widest layer 4 bits".to_owned()));
/// ```
#[derive(Clone)]
pub struct BitsFunction {
    /// Name in journals and reports.
    pub name: String,
    /// Unit of the values.
    pub unit: &'static str,
    /// Returns the value for the bits of all layers, in their order: positive, and smaller is better. Equal bits have
    /// equal values. The search calls it several times for each configuration.
    pub value: Arc<ValueOfBits>,
    /// Returns a value as users read it.
    pub text: fn(f64) -> String,
}

impl fmt::Debug for BitsFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BitsFunction").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PartialEq for BitsFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// Names of the objectives in descriptors.
const NAMES: [(&str, Objective); 5] = [
    ("bits", Objective::Bits),
    ("parameters", Objective::Parameters),
    ("bops", Objective::BitOperations),
    ("bit-serial", Objective::BitSerial),
    ("latency", Objective::Latency),
];

/// An expression in the variables of a layer, such as `w_bits * w_size + a_bits * a_size`. It is
/// summed over the layers; after `max:` the largest value of a layer counts.
#[derive(Clone, Debug)]
pub struct Expression {
    text: String,
    is_maximum: bool,
    // Boxed because it takes thousands of bytes.
    compiled: Box<FlatEx<f64>>,
    // Indices in `VARIABLES`.
    variables: Vec<usize>,
}

/// Maximum length of an expression in bytes.
const LONGEST: usize = 4096;

/// Variables of an expression.
const VARIABLES: [&str; 5] = ["w_bits", "w_size", "a_bits", "a_size", "macs"];

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl FromStr for Objective {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((_, objective)) = NAMES.iter().find(|(name, _)| *name == text) {
            return Ok(objective.clone());
        }
        let (is_maximum, formula) = match text.strip_prefix("max:") {
            Some(formula) => (true, formula),
            None => (false, text),
        };
        let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        let expected =
            format!("expected {}, or an expression in {}", names.join(", "), VARIABLES.join(", "));
        // The time to parse an expression grows with the square of its length.
        if text.len() > LONGEST {
            return Err(format!("{expected} of at most {LONGEST} bytes; found {}", text.len()));
        }
        let compiled = FlatEx::<f64>::parse(formula)
            .map_err(|error| format!("{expected}; found {text:?}: {error}"))?;
        let place = |name: &String| VARIABLES.iter().position(|known| known == name);
        let unknown = compiled.var_names().iter().find(|name| place(name).is_none());
        if let Some(unknown) = unknown {
            return Err(format!("{expected}; found `{unknown}`"));
        }
        if compiled.var_names().is_empty() {
            return Err(format!("{expected}; {text:?} is a constant"));
        }
        let variables = compiled.var_names().iter().filter_map(place).collect();
        let text = text.to_owned();
        let compiled = Box::new(compiled);
        Ok(Self::Expression(Expression { text, is_maximum, compiled, variables }))
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expression(expression) => f.write_str(&expression.text),
            Self::Function(function) => f.write_str(&function.name),
            other => {
                let name = NAMES.iter().find(|(_, objective)| objective == other);
                f.write_str(name.expect("all others have a name").0)
            }
        }
    }
}

impl Objective {
    /// Returns whether the objective depends on the number of products of each layer.
    pub fn needs_macs(&self) -> bool {
        match self {
            Self::BitOperations | Self::BitSerial => true,
            Self::Expression(expression) => {
                expression.variables.iter().any(|variable| VARIABLES[*variable] == "macs")
            }
            Self::Bits | Self::Parameters | Self::Latency | Self::Function(_) => false,
        }
    }

    /// Returns whether the objective is known without an evaluation.
    pub fn is_computed(&self) -> bool {
        *self != Self::Latency
    }

    /// Returns the unit of the objective's values; empty for an expression.
    pub fn unit(&self) -> &'static str {
        match self {
            Self::Bits | Self::Parameters => "bits",
            Self::BitOperations => "bit operations",
            Self::BitSerial => "cycles",
            Self::Latency => "ns",
            Self::Expression(_) => "",
            Self::Function(function) => function.unit,
        }
    }

    /// Returns a value as users read it; `None` if it is a count of units.
    pub fn text(&self, value: f64) -> Option<String> {
        match self {
            Self::Function(function) => Some((function.text)(value)),
            _ => None,
        }
    }

    /// Returns the value for an assignment to this network's objects. A latency that was not
    /// measured is infinite.
    pub fn value(
        &self,
        network: &Network,
        assignment: &Assignment,
        latency_ns: Option<f64>,
    ) -> f64 {
        let formats = assignment.formats();
        let layers = network.layers.iter().enumerate();
        let bits = |at: usize| f64::from(formats[at].bits());
        let each = layers.map(|(at, layer)| {
            let (weight, activation) = (bits(at), bits(network.layers.len() + at));
            self.of_layer(layer, weight, activation)
        });
        match self {
            Self::Latency => latency_ns.unwrap_or(f64::INFINITY),
            Self::Function(function) => (function.value)(&layer_bits(network, assignment)),
            Self::Expression(Expression { is_maximum: true, .. }) => {
                each.fold(f64::NEG_INFINITY, f64::max)
            }
            _ => each.sum(),
        }
    }

    fn of_layer(&self, layer: &Layer, weight_bits: f64, activation_bits: f64) -> f64 {
        let (weights, activations) = (layer.weight_size as f64, layer.activation_size as f64);
        let macs = layer.macs as f64;
        match self {
            Self::Bits => weight_bits * weights + activation_bits * activations,
            Self::Parameters => weight_bits * weights,
            Self::BitOperations => macs * weight_bits * activation_bits,
            // The engine takes 16 cycles for an activation of 16 bits.
            Self::BitSerial => macs * activation_bits / 16.0,
            Self::Latency | Self::Function(_) => 0.0,
            Self::Expression(expression) => {
                let all = [weight_bits, weights, activation_bits, activations, macs];
                let values: Vec<f64> = expression.variables.iter().map(|at| all[*at]).collect();
                expression.compiled.eval(&values).expect("its variables were counted")
            }
        }
    }
}

/// Returns the bits of the formats of all layers of a network, in the order of its layers.
pub fn layer_bits(network: &Network, assignment: &Assignment) -> Vec<LayerBits> {
    let (weights, activations) = assignment.formats().split_at(network.layers.len());
    let both = weights.iter().zip(activations);
    let bits = both.map(|(weight, activation)| LayerBits {
        weight: weight.bits(),
        activation: activation.bits(),
    });
    bits.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Format;
    use crate::network::tests::lenet;

    #[track_caller]
    fn check(objective: &str, expected: f64) {
        let mut network = lenet();
        (network.layers[0].macs, network.layers[1].macs) = (288_000, 1_600_000);
        let [i2, i4, i8] = [2, 4, 8].map(|bits| Format::fixed(bits, 0).unwrap());
        let assignment = network.base().with_formats(vec![i2, i4, i8, i8]);
        let objective: Objective = objective.parse().unwrap();
        let found = objective.value(&network, &assignment, Some(7.0));
        assert!((found - expected).abs() < 1e-6, "{objective}: {found}, expected {expected}");
    }

    #[test]
    fn objectives_are_sums_over_layers() {
        check("bits", 2.0 * 500.0 + 4.0 * 25_000.0 + 8.0 * (784.0 + 2_880.0));
        check("parameters", 2.0 * 500.0 + 4.0 * 25_000.0);
        check("bops", 8.0 * (2.0 * 288_000.0 + 4.0 * 1_600_000.0));
        check("bit-serial", (288_000.0 + 1_600_000.0) / 2.0);
        check("latency", 7.0);
        check("w_bits * w_size + a_bits * a_size", 2.0 * 500.0 + 4.0 * 25_000.0 + 8.0 * 3_664.0);
        check("max: macs * a_bits^2 + w_size", 64.0 * 1_600_000.0 + 25_000.0);
    }

    #[test]
    fn a_function_gets_the_bits_of_each_layer() {
        let network = lenet();
        let [i2, i4, i8] = [2, 4, 8].map(|bits| Format::fixed(bits, 0).unwrap());
        let assignment = network.base().with_formats(vec![i2, i4, i8, Format::F32]);
        let value = |layers: &[LayerBits]| {
            let digits = |sum: f64, bits: &LayerBits| {
                100.0 * sum + f64::from(10 * bits.weight + bits.activation)
            };
            layers.iter().fold(0.0, digits)
        };
        let function = BitsFunction {
            name: "digits".into(),
            unit: "",
            value: Arc::new(value),
            text: |value| format!("{value:.1}"),
        };
        let objective = Objective::Function(function);
        // The first layer has 2 and 8 bits, the second one 4 and 32.
        assert_eq!(objective.value(&network, &assignment, None), 28.0 * 100.0 + 72.0);
        assert!(objective.is_computed() && !objective.needs_macs());
        assert_eq!(objective.text(0.25), Some("0.2".to_owned()));
        assert_eq!(Objective::Bits.text(0.25), None);
    }

    #[test]
    fn what_is_no_objective_is_refused() {
        let refused = |text: &str| text.parse::<Objective>().expect_err("no objective");
        let expected = "expected bits, parameters, bops, bit-serial, latency, or an expression in w_bits, \
                        w_size, a_bits, a_size, macs; ";
        assert_eq!(refused("w_bits * w_sizes"), format!("{expected}found `w_sizes`"));
        assert_eq!(refused("3 + 4"), format!("{expected}\"3 + 4\" is a constant"));
        let long = expected.replace("; ", " of at most 4096 bytes; found 200006");
        assert_eq!(refused(&format!("w_bits{}", "+1".repeat(100_000))), long);
        assert!(refused("w_bits *").starts_with(&format!("{expected}found \"w_bits *\": ")));
        let text = "max:macs * w_bits";
        let objective: Objective = text.parse().unwrap();
        assert_eq!((objective.to_string().as_str(), objective.needs_macs()), (text, true));
        assert!(!"bits".parse::<Objective>().unwrap().needs_macs());
    }
}
