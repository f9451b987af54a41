//! Other searches under the same evaluator, to compare with: those of other tools, and one that misses
//! nothing.

mod exhaustive;
mod knapsack;
mod ristretto;
mod stripes;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use crate::tune::{Answer, Phase, Stop, Subset, Trials};

/// Which search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// The thesis': coarse, then biases, widths and types one by one.
    Libnumber,
    /// Ristretto's with FIXED of 2, 4, 8, 16 and 32 bits: one width for the weights of convolutions, one for
    /// those of fully connected layers, and one for activations; ranges by the largest magnitudes.
    Ristretto,
    /// The same with every width.
    RistrettoAll,
    /// Stripes': weights in FIXED(16), a width for the activations of each layer.
    Stripes,
    /// What each group loses alone, and then the smallest whole whose losses together fit.
    Knapsack,
    /// All widths and types in the order of the objective, with biases around those of the largest
    /// magnitudes: the first that passes is the smallest there is.
    Exhaustive {
        /// Biases below the profile's, for each slot: larger ranges.
        below: u32,
        /// Biases above: smaller ranges, finer steps.
        above: u32,
    },
}

const NAMES: [(&str, Algorithm); 6] = [
    ("libnumber", Algorithm::Libnumber),
    ("ristretto", Algorithm::Ristretto),
    ("ristretto-all", Algorithm::RistrettoAll),
    ("stripes", Algorithm::Stripes),
    ("knapsack", Algorithm::Knapsack),
    ("exhaustive", Algorithm::Exhaustive { below: 0, above: 3 }),
];

impl Algorithm {
    /// As [`Algorithm::from_str`] reads them.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name)
    }
}

impl FromStr for Algorithm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((_, algorithm)) = NAMES.iter().find(|(name, _)| *name == text) {
            return Ok(*algorithm);
        }
        if let Some([below, above]) = text.strip_prefix("exhaustive:").and_then(window) {
            return Ok(Self::Exhaustive { below, above });
        }
        let names: Vec<&str> = Self::names().collect();
        let names = names.join(", ");
        Err(format!(
            "expected {names}, exhaustive:BIASES or exhaustive:-LESS..MORE, found {text:?}"
        ))
    }
}

/// `6` or `-1..6`: biases below and above.
fn window(text: &str) -> Option<[u32; 2]> {
    let [below, above] = match text.split_once("..") {
        Some((below, above)) => [below.strip_prefix('-')?.parse().ok()?, above.parse().ok()?],
        None => [0, text.parse().ok()?],
    };
    (below <= MOST_BIASES && above <= MOST_BIASES).then_some([below, above])
}

/// More than any type has exponents.
const MOST_BIASES: u32 = 1_000;

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(_, algorithm)| algorithm == self) {
            Some((name, _)) => f.pad(name),
            None => match self {
                Self::Exhaustive { below: 0, above } => f.pad(&format!("exhaustive:{above}")),
                Self::Exhaustive { below, above } => {
                    f.pad(&format!("exhaustive:-{below}..{above}"))
                }
                other => f.pad(&format!("{other:?}")),
            },
        }
    }
}

/// Searches on one set, whose FLOAT(32) is known.
pub(crate) fn run(
    trials: &mut Trials<'_, '_>,
    subset: Subset,
    algorithm: Algorithm,
) -> Result<Answer, Stop> {
    trials.phase = Phase::Search;
    match algorithm {
        Algorithm::Libnumber => unreachable!("it is the tuner's own"),
        Algorithm::Ristretto => ristretto::search(trials, subset, u32::is_power_of_two),
        Algorithm::RistrettoAll => ristretto::search(trials, subset, |_| true),
        Algorithm::Stripes => stripes::search(trials, subset),
        Algorithm::Knapsack => knapsack::search(trials, subset),
        Algorithm::Exhaustive { below, above } => {
            exhaustive::search(trials, subset, [below, above])
        }
    }
}
