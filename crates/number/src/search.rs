//! Search algorithms that use the tuner's evaluator, for comparison: those of other tools, and an
//! exhaustive search.

mod exhaustive;
mod knapsack;
mod ristretto;
mod stripes;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use crate::tune::{Phase, Stop, Subset, Trials, TuneAnswer};

/// A search algorithm.
///
/// ```
/// use dyno_number::Algorithm;
/// assert_eq!("stripes".parse(), Ok(Algorithm::Stripes));
/// assert_eq!("exhaustive:-1..6".parse(), Ok(Algorithm::Exhaustive { below: 1, above: 6 }));
/// assert!("exhaustive:-1..x".parse::<Algorithm>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// The thesis' search: a coarse search, then biases, widths and types one by one.
    Libnumber,
    /// Ristretto's search with FIXED of 2, 4, 8, 16 and 32 bits: one width for the weights of
    /// convolutions, one for those of fully connected layers, and one for activations. Ranges
    /// follow from the largest magnitudes.
    Ristretto,
    /// Ristretto's search with every width of FIXED.
    RistrettoAll,
    /// Stripes' search: weights in FIXED(16), and a width for the activations of each layer.
    Stripes,
    /// Measures the loss of each group alone, then chooses the smallest combination whose total
    /// loss fits.
    Knapsack,
    /// All widths and types in the order of the objective, with biases around those of the largest
    /// magnitudes. The first configuration that passes is the smallest one.
    Exhaustive {
        /// Number of biases below the profiled one for each slot, for larger ranges.
        below: u32,
        /// Number of biases above the profiled one, for smaller ranges and finer steps.
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
    /// Iterates over the names that [`Algorithm::from_str`] reads.
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

/// Reads `6` or `-1..6`, the number of biases below and above.
fn window(text: &str) -> Option<[u32; 2]> {
    let [below, above] = match text.split_once("..") {
        Some((below, above)) => [below.strip_prefix('-')?.parse().ok()?, above.parse().ok()?],
        None => [0, text.parse().ok()?],
    };
    (below <= MOST_BIASES && above <= MOST_BIASES).then_some([below, above])
}

/// Larger than the number of exponents of any type.
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

/// Runs a search on one set, on which FLOAT(32) was evaluated.
pub(crate) fn run(
    trials: &mut Trials<'_, '_>,
    subset: Subset,
    algorithm: Algorithm,
) -> Result<TuneAnswer, Stop> {
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
