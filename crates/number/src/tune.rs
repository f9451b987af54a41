//! The tuner: finds for each layer the smallest number format that keeps the accuracy.
//!
//! The tuner does not depend on an engine: a closure evaluates each [`Trial`]. A job consists of a
//! [`Network`], [`Settings`], a [`Journal`] and the closure. The search is that of the thesis
//! (section III.4), as SPEC 2.6 reads it: a coarse search over widths that all layers share, then
//! biases, widths and types one by one, first on a part of the samples, then on all of them. Equal
//! evaluations lead to an equal search, so a job that was interrupted continues from its journal.
//!
//! ```
//! use dyno_number::Network;
//! use dyno_number::tune::{Evaluation, Journal, Settings, Stop, Trial, tune};
//!
//! let descriptor = r#"
//!     layer_name = ["conv1"]
//!     wgt_size = [500]
//!     act_size = [784]
//!     wgt_max_abs = [1.0]
//!     act_max_abs = [1.0]
//! "#;
//! let network = Network::from_descriptor(descriptor, None)?;
//! // A real evaluator runs the network. This one needs 4 bits everywhere.
//! let accuracy = |trial: &Trial| {
//!     let is_wide = trial.assignment.formats().iter().all(|format| format.bits() >= 4);
//!     if is_wide { 0.9 } else { 0.1 }
//! };
//! let mut evaluate = |trials: &[Trial]| -> Vec<Result<Evaluation, Stop>> {
//!     trials.iter().map(|trial| Ok(Evaluation::from_accuracy(accuracy(trial)))).collect()
//! };
//! let settings = Settings::default();
//! let outcome = tune(&network, &settings, Journal::disabled(), &mut evaluate, &mut |_| ());
//! let answer = outcome.answer.expect("FLOAT(32) passes");
//! assert_eq!(answer.assignment.format("conv1.weight").bits(), 4);
//! assert_eq!(answer.objective, 4.0 * (500.0 + 784.0));
//! # Ok::<(), dyno_number::DescriptorError>(())
//! ```

mod below;
mod biases;
mod chance;
mod coarse;
mod confirm;
mod fine;
mod journal;
mod ladder;
mod moves;
mod narrow;
mod pareto;
mod recover;
mod restart;
pub mod samples;
mod speedup;
mod step;
#[cfg(test)]
mod tests;
mod trial;
mod trials;
mod unread;
mod widths;

use serde_json::{Value, json};

pub use chance::{Chance, SetAccuracy};
pub use confirm::{Confirmation, Look, MarginVerdict, fewest_held_out, too_few};
pub use journal::{Journal, JournalError};
pub(crate) use moves::{Move, is_exp_2, kind_and_bits};
pub use speedup::Speedup;
pub(crate) use step::format_accuracy;
pub use step::{Candidate, Phase, Step};
pub use trial::{EvaluateFn, Evaluation, Stop, Subset, Trial};
pub(crate) use trials::Trials;
pub use widths::{WidthTrial, width_trials};

use crate::assignment::Assignment;
use crate::format::Format;
use crate::metric::Direction;
use crate::network::{Layer, LayerKind, Network};
use crate::platform::Role;
use crate::search::{self, Algorithm};

/// Settings of a tuning job.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Search algorithm.
    pub algorithm: Algorithm,
    /// When a bias may be raised.
    pub bias_rule: BiasRule,
    /// Sets of samples that the search uses.
    pub passes: Passes,
    /// Fewest bits of FIXED (SPEC A16).
    pub least_fixed_bits: u32,
    /// Number of trials per request to the evaluator.
    pub batch: usize,
    /// Whether the first configuration is evaluated again, to see whether accuracies are
    /// reproducible.
    pub measures_noise: bool,
    /// Maximum number of evaluations; `None` is unlimited.
    pub max_evaluations: Option<u64>,
    /// Number of restarts of the thesis' search after its end, with all samples.
    pub restarts: u32,
    /// How the answer is confirmed at the end.
    pub confirmation: ConfirmationRule,
    /// Share of the held-out samples that have the most frequent label, or whose answers agree with one
    /// answer: the accuracy of a model that gives each sample the same answer. `None` if it is unknown.
    pub constant_share: Option<f64>,
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
            restarts: 0,
            confirmation: ConfirmationRule::None,
            constant_share: None,
        }
    }
}

/// How an answer is confirmed on the confirmation set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfirmationRule {
    /// Not at all: the thesis' procedure.
    None,
    /// One comparison with the threshold, by which nothing is chosen: the rule of the closed
    /// division.
    Threshold,
    /// A statement about unseen samples: the loss is at most the margin with 95 % confidence. The
    /// answer is the smallest configuration for which it is confirmed.
    Margin,
}

/// When a bias may be raised by one (SPEC A20).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BiasRule {
    /// If the accuracy does not fall, and only when no narrower width passes. Biases and types save
    /// nothing themselves, so they are not tried before they are needed, nor when all widths are at
    /// their minimum. With this rule a group is not evaluated again before it may be the best
    /// choice.
    WhenNeeded,
    /// If the accuracy does not fall, before any width: the reading of SPEC A20.
    NoWorse,
    /// If the accuracy stays above its threshold: the thesis' literal rule.
    Literal,
}

/// Sets of samples by which formats are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passes {
    /// First a part of the samples, then all.
    Two,
    /// All samples.
    FullOnly,
    /// A part of the samples. The answer may fail on all samples.
    SmallOnly,
}

/// A configuration that keeps its accuracy.
#[derive(Clone, Debug, PartialEq)]
pub struct TuneAnswer {
    /// Its formats.
    pub assignment: Assignment,
    /// Its value of the objective function.
    pub objective: f64,
    /// Its accuracy on `subset`.
    pub accuracy: f64,
    /// Set of samples on which it was evaluated.
    pub subset: Subset,
}

/// Outcome of a tuning job.
#[derive(Clone, Debug)]
pub struct TuneOutcome {
    /// How the search ended.
    pub end: TuneEnd,
    /// Smallest configuration found that keeps its accuracy. `None` if FLOAT(32) was not evaluated.
    pub answer: Option<TuneAnswer>,
    /// Accuracy of FLOAT(32) and threshold of each set that was used: small, full, confirmation.
    pub baselines: [Option<Baseline>; 3],
    /// Number of configurations that were evaluated on each set, each counted once (SPEC A23).
    pub evaluations: [u64; 3],
    /// Number of evaluations that came from the journal.
    pub recalled: u64,
    /// Number of samples in each set, if the evaluator or the descriptor states it.
    pub samples: [Option<u64>; 3],
    /// Least and greatest accuracy of FLOAT(32) in two evaluations, or in six if these differ. For an
    /// error, the greatest comes first.
    pub noise: Option<[f64; 2]>,
    /// Accuracy of the answer on the confirmation set.
    pub confirmed: Option<f64>,
    /// Objectives at the end of the search and of each restart; empty without restarts.
    pub restarts: Vec<f64>,
    /// What the held-out samples show about the margin, with [`ConfirmationRule::Margin`].
    pub confirmation: Option<Confirmation>,
    /// All steps of the search in order.
    pub steps: Vec<Step>,
    /// All configurations that were evaluated to the end.
    pub points: Vec<Point>,
    /// Comparison of the latencies of FLOAT(32) and of the answer, after
    /// [`compare_latency`](Self::compare_latency).
    pub speedup: Option<Speedup>,
    /// Objective of FLOAT(32); 0 if it is an unknown latency.
    pub base_objective: f64,
    /// Number of lines of the journal that could not be read.
    pub skipped: u64,
    /// Why the journal could not be written, and the lines that are missing in it.
    pub journal_problem: Option<(String, String)>,
}

/// FLOAT(32) on a set of samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Baseline {
    /// Accuracy of FLOAT(32).
    pub accuracy: f64,
    /// Least accuracy that a configuration must have (SPEC A21).
    pub threshold: f64,
}

/// A configuration with its size, accuracy and cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Set of samples on which it was evaluated.
    pub subset: Subset,
    /// Its formats.
    pub assignment: Assignment,
    /// Bits of all weights and activations.
    pub bits: f64,
    /// Its accuracy on `subset`.
    pub accuracy: f64,
    /// Cycles of a bit-serial accelerator, if the products of all layers are known.
    pub cycles: Option<f64>,
    /// Its value of the objective function.
    pub objective: f64,
    /// Whether no other configuration of its set is at least as small, accurate and fast.
    pub is_on_front: bool,
    /// Remark of the evaluator.
    pub note: Option<String>,
}

/// How a search ended.
#[derive(Clone, Debug, PartialEq)]
pub enum TuneEnd {
    /// The search is complete.
    Complete,
    /// The search stopped early, for this reason.
    Stopped(Stop),
}

/// Progress of a running job.
#[derive(Debug)]
pub struct Progress<'a> {
    /// Current phase.
    pub phase: Phase,
    /// Current set of samples.
    pub subset: Subset,
    /// Number of evaluations on each set.
    pub evaluations: [u64; 3],
    /// Duration of the evaluations on each set in seconds, including those of the journal.
    pub seconds: [f64; 3],
    /// Estimate of the remaining evaluations on this set.
    pub remaining: u64,
    /// Accuracy of the last evaluation.
    pub accuracy: f64,
    /// Best answer so far.
    pub best: Option<&'a TuneAnswer>,
    /// Why the journal is not written.
    pub journal_problem: Option<&'a str>,
}

/// Tunes a network. If the search stops early, the outcome has the best answer so far. `watch` is
/// called after each evaluation.
pub fn tune<'e>(
    network: &Network,
    settings: &Settings,
    journal: Journal,
    evaluate: &'e mut EvaluateFn<'e>,
    watch: &'e mut (dyn FnMut(&Progress<'_>) + 'e),
) -> TuneOutcome {
    let mut trials = Trials::new(network, settings, journal, evaluate, watch);
    let found = run(&mut trials, settings);
    trials.finish(found)
}

fn run(trials: &mut Trials<'_, '_>, settings: &Settings) -> Result<Option<TuneAnswer>, Stop> {
    let first = match settings.passes {
        Passes::Two | Passes::SmallOnly => Subset::Small,
        Passes::FullOnly => Subset::Full,
    };
    trials.begin(first)?;
    if settings.measures_noise {
        trials.measure_noise(first)?;
    }
    if settings.confirmation == ConfirmationRule::Margin && trials.network().external.is_some() {
        // A program that fails on these samples would otherwise do so after the search.
        trials.begin(Subset::Confirmation)?;
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
        if settings.restarts > 0 && found.subset == Subset::Full {
            found = trials.restart(found, settings.restarts)?;
        }
    }
    match settings.confirmation {
        ConfirmationRule::None => {}
        ConfirmationRule::Threshold => trials.confirm(&found)?,
        ConfirmationRule::Margin => found = trials.confirm_margin(found)?,
    }
    Ok(Some(found))
}

/// Describes everything on which the decisions of a job depend, for [`Journal::open`].
pub fn describe(network: &Network, settings: &Settings) -> Value {
    let formats = |role| {
        let all = network.platform.formats(role).iter();
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
        // Journals of earlier versions, without unsigned formats, stay valid for the same jobs.
        let is_unsigned = layer.activation_min.is_some_and(|least| least >= 0.0);
        let mut formats = network.platform.formats(Role::Activation).iter();
        if is_unsigned && formats.any(|format| !format.has_sign()) {
            found["is_unsigned"] = true.into();
        }
        found
    };
    let mut about = json!({
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
    });
    if settings.restarts > 0 {
        about["restarts"] = settings.restarts.into();
    }
    // Journals of accuracies are as those of earlier versions.
    if network.metric.direction == Direction::Lower {
        about["direction"] = network.metric.direction.to_string().into();
    }
    about
}
