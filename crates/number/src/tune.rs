//! The tuner: finds for each layer the smallest number format that keeps the accuracy.
//!
//! It knows no engine. Whoever evaluates a [`Trial`] is a closure, and a job is a [`Network`], [`Settings`],
//! a [`Journal`] and that closure. The search is the thesis' (section III.4) as SPEC 2.6 reads it: a coarse
//! search over widths that all share, then biases, widths and types one by one, first on a part of the
//! samples, then on all of them. It is the same for the same answers, so that a job that was interrupted
//! goes on from its journal as if it had not been.

mod below;
mod biases;
mod coarse;
mod fine;
mod journal;
mod moves;
mod narrow;
mod pareto;
mod recover;
pub mod samples;
mod step;
#[cfg(test)]
mod tests;
mod trial;
mod trials;
mod widths;

use serde_json::{Value, json};

pub use journal::{Journal, JournalError};
pub(crate) use moves::{Move, is_exp_2, kind_and_bits};
pub(crate) use step::shown;
pub use step::{Candidate, Phase, Step};
pub use trial::{Evaluate, Evaluation, Stop, Subset, Trial};
pub(crate) use trials::Trials;
pub use widths::{Width, widths};

use crate::assignment::Assignment;
use crate::format::Format;
use crate::network::{Layer, LayerKind, Network};
use crate::platform::Role;
use crate::search::{self, Algorithm};

/// How a network is tuned.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Which search.
    pub algorithm: Algorithm,
    /// When a bias may go up.
    pub bias_rule: BiasRule,
    /// On which samples.
    pub passes: Passes,
    /// The fewest bits of FIXED (SPEC A16).
    pub least_fixed_bits: u32,
    /// Trials that are given to the evaluator at once.
    pub batch: usize,
    /// Whether the first configuration is evaluated twice, to see whether accuracies can be trusted.
    pub measures_noise: bool,
    /// Evaluations at most.
    pub max_evaluations: Option<u64>,
    /// Whether the answer is confirmed on samples of its own at the end.
    pub confirms: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::Libnumber,
            bias_rule: BiasRule::WhenNeeded,
            passes: Passes::Two,
            least_fixed_bits: 2,
            batch: 1,
            measures_noise: true,
            max_evaluations: None,
            confirms: false,
        }
    }
}

/// When a bias may go up by one (SPEC A20).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BiasRule {
    /// If the accuracy does not fall, and only where no width can give way without it: biases and types save
    /// nothing themselves, so that nothing is asked of them before they are needed, nor once all is as narrow
    /// as it can be. By the same rule no group is asked for a bit again before it may be the best choice.
    WhenNeeded,
    /// If the accuracy does not fall, before any width: SPEC A20's reading.
    NoWorse,
    /// If the accuracy stays above its limit: the thesis to the letter.
    Literal,
}

/// On which samples formats are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passes {
    /// First a part, then all.
    Two,
    /// All.
    FullOnly,
    /// A part: what it gives may fail on all.
    SmallOnly,
}

/// A configuration that keeps its accuracy.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Its formats.
    pub assignment: Assignment,
    /// Of the objective function.
    pub objective: f64,
    /// On the set.
    pub accuracy: f64,
    /// The set on which it keeps its accuracy.
    pub subset: Subset,
}

/// What a tuner found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// The smallest configuration that keeps its accuracy, as far as was seen. None if FLOAT(32) was not
    /// evaluated.
    pub answer: Option<Answer>,
    /// FLOAT(32) on each set that was used, and what its accuracy may fall to: small, full, confirmation.
    pub baselines: [Option<Baseline>; 3],
    /// Configurations that were evaluated on each set, each counted once (SPEC A23).
    pub evaluations: [u64; 3],
    /// Of these, how many a journal knew.
    pub recalled: u64,
    /// Samples of each set, where the evaluator or the descriptor said how many there are.
    pub samples: [Option<u64>; 3],
    /// Two accuracies of the same configuration.
    pub noise: Option<[f64; 2]>,
    /// The answer's accuracy on the set of the confirmation.
    pub confirmed: Option<f64>,
    /// What was done and why, in order.
    pub steps: Vec<Step>,
    /// Everything that was evaluated to the end.
    pub points: Vec<Point>,
    /// The objective of FLOAT(32); 0 for a latency that is not known.
    pub base_objective: f64,
    /// Of the journal: lines that could not be read, why it could not be written, and what.
    pub skipped: u64,
    /// See `skipped`.
    pub journal_problem: Option<(String, String)>,
}

/// FLOAT(32) on a set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Baseline {
    /// Of FLOAT(32).
    pub accuracy: f64,
    /// What a configuration must have (SPEC A21).
    pub threshold: f64,
}

/// A configuration as figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// On which it was evaluated.
    pub subset: Subset,
    /// Its formats.
    pub assignment: Assignment,
    /// Of all weights and activations.
    pub bits: f64,
    /// On the set.
    pub accuracy: f64,
    /// Of a bit-serial accelerator, where products are known.
    pub cycles: Option<f64>,
    /// Of the objective function.
    pub objective: f64,
    /// No other one of its set is as small, as accurate and as fast.
    pub is_on_front: bool,
    /// What the evaluator said of it beside its accuracy.
    pub note: Option<String>,
}

/// How a search ended.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// It is done.
    Complete,
    /// Before it was done, and why.
    Stopped(Stop),
}

/// What is known while it goes on.
#[derive(Debug)]
pub struct Progress<'a> {
    /// The part that is on.
    pub phase: Phase,
    /// On which samples.
    pub subset: Subset,
    /// Evaluated on each set.
    pub evaluations: [u64; 3],
    /// Seconds that evaluations of each set took, those of a journal too.
    pub seconds: [f64; 3],
    /// Further evaluations of this set, as a guess.
    pub remaining: u64,
    /// The accuracy that was just found.
    pub accuracy: f64,
    /// The best answer so far.
    pub best: Option<&'a Answer>,
    /// Why the journal is not written.
    pub journal_problem: Option<&'a str>,
}

/// Tunes a network. Never fails: whatever ends it early, the outcome has the best answer so far.
pub fn tune<'e>(
    network: &Network,
    settings: &Settings,
    journal: Journal,
    evaluate: &'e mut Evaluate<'e>,
    watch: &'e mut (dyn FnMut(&Progress<'_>) + 'e),
) -> Outcome {
    let mut trials = Trials::new(network, settings, journal, evaluate, watch);
    let found = run(&mut trials, settings);
    trials.finish(found)
}

fn run(trials: &mut Trials<'_, '_>, settings: &Settings) -> Result<Option<Answer>, Stop> {
    let first = match settings.passes {
        Passes::Two | Passes::SmallOnly => Subset::Small,
        Passes::FullOnly => Subset::Full,
    };
    trials.begin(first)?;
    if settings.measures_noise {
        trials.measure_noise(first)?;
    }
    let mut coarse = None;
    let mut found = match settings.algorithm {
        Algorithm::Libnumber => {
            let start = trials.coarse(first)?;
            coarse = Some(start.clone());
            trials.fine_tune(first, start)?
        }
        other => search::run(trials, first, other)?,
    };
    if settings.passes == Passes::Two {
        found = trials.recover(&found)?;
        if let Some(coarse) = coarse {
            found = trials.fine_tune(Subset::Full, found)?;
            found = trials.no_worse_than(coarse, found)?;
        }
    }
    if settings.algorithm == Algorithm::Libnumber {
        found = trials.smallest_seen(found);
        if settings.bias_rule == BiasRule::WhenNeeded {
            found = trials.go_below(found)?;
        }
    }
    if settings.confirms {
        trials.confirm(&found)?;
    }
    Ok(Some(found))
}

/// What the decisions of a job depend on, for its journal.
#[must_use]
pub fn describe(network: &Network, settings: &Settings) -> Value {
    let formats = |role| {
        let all = network.platform.of(role).iter();
        all.map(|format: &Format| Value::from(format.words())).collect::<Vec<_>>()
    };
    let layer = |layer: &Layer| {
        let mut found = json!({
            "name": layer.name,
            "parts": layer.parts,
            "sizes": [layer.weight_size, layer.activation_size],
            "maxima": [layer.weight_max, layer.activation_max],
            "macs": layer.macs,
            "is_fc": layer.kind == LayerKind::FullyConnected,
        });
        // Journals of before there were formats without a sign are those of the same jobs.
        let is_unsigned = layer.activation_min.is_some_and(|least| least >= 0.0);
        let mut formats = network.platform.of(Role::Activation).iter();
        if is_unsigned && formats.any(|format| !format.has_sign()) {
            found["is_unsigned"] = true.into();
        }
        found
    };
    json!({
        "network": network.name,
        "layers": network.layers.iter().map(layer).collect::<Vec<_>>(),
        "weight_formats": formats(Role::Weight),
        "activation_formats": formats(Role::Activation),
        "layerwise_opt": format!("{:?}", network.layerwise),
        "f_obj": network.objective.to_string(),
        "err_margin": network.error_margin,
        "algorithm": settings.algorithm.to_string(),
        "bias_rule": format!("{:?}", settings.bias_rule),
        "passes": format!("{:?}", settings.passes),
        "least_fixed_bits": settings.least_fixed_bits,
    })
}
