//! Tuner: ranks all choices of a plan with the cost model, times the best few, and returns the
//! fastest.
//!
//! Source: DeepCPU's auto-tuning of schedules and degrees of parallelism. Constrained parts of a
//! choice are not varied.
//!
//! ```
//! use dyno_kernels::{Isa, Precision, Team};
//! use dyno_rnn::tuner::{Effort, Constraints, Goal, tune};
//! use dyno_rnn::{Cell, Choice, Directions, Layer, Sequence, Weights, explain, machine::Machine};
//!
//! let weights = Weights {
//!     input: vec![0.1; 3 * 16 * 4],
//!     state: vec![0.1; 3 * 16 * 16],
//!     input_bias: vec![0.0; 3 * 16],
//!     state_bias: vec![0.0; 3 * 16],
//! };
//! let layer = Layer::new(Cell::Gru, 4, 16, Directions::Forward, vec![weights])?;
//! let base = Choice::one_worker(Precision::F32);
//! // The chunk is given, and two workers may divide the two rows.
//! let forced = Constraints { chunk: Some(4), ..Constraints::default() };
//! let goal = Goal { layer: &layer, batch: 2, steps: 10, base, forced, threads: 2 };
//!
//! let (isa, mut team) = (Isa::best(), Team::with_workers(2));
//! let (machine, packed) = (Machine::detect(isa), goal.pack());
//! let ranking = tune(&goal, &packed, &machine, isa, &mut team, Effort::default())?;
//! assert_eq!(ranking[0].choice.chunk, 4);
//! println!("{}", explain::explain(&goal, &ranking, &machine).expect("one choice at least"));
//! let mut sequence = Sequence::from_packed(&layer, &packed, 2, &ranking[0].choice, isa)?;
//! let mut output = [0.0; 10 * 2 * 16];
//! sequence.run(&mut team, &[0.5; 10 * 2 * 4], &mut output)?;
//! assert!(output.iter().all(|h| *h > 0.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;
use std::time::Duration;

use dyno_kernels::{Isa, ProgramError, Team};
use thiserror::Error;

use crate::calibrate::now;
use crate::cost::{LayerShape, Prediction, predict};
use crate::layer::Layer;
use crate::machine::Machine;
use crate::plan::{Choice, PackedWeights};
use crate::sequence::{Sequence, SequenceError};

/// Chunk sizes to try: between them, whether a chunk's sums fit in a cache changes.
const CHUNKS: [usize; 7] = [1, 4, 8, 16, 32, 64, 128];

/// Parts of a choice that the user fixes; the tuner decides the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Constraints {
    /// Steps whose products with the input run at once.
    pub chunk: Option<usize>,
    /// Directions that run side by side.
    pub sides: Option<usize>,
    /// Workers that divide the rows.
    pub rows: Option<usize>,
    /// Workers that divide the units.
    pub units: Option<usize>,
}

impl fmt::Display for Constraints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = [
            ("chunks of", self.chunk),
            ("sides", self.sides),
            ("workers for rows", self.rows),
            ("workers for units", self.units),
        ];
        let named = named.iter().filter_map(|(name, count)| count.map(|count| (name, count)));
        let named: Vec<String> = named
            .map(|(name, count)| match *name {
                "chunks of" => format!("chunks of {count}"),
                name => format!("{count} {name}"),
            })
            .collect();
        f.write_str(&named.join(", "))
    }
}

/// Goal of tuning.
#[derive(Clone, Copy, Debug)]
pub struct Goal<'a> {
    /// The layer.
    pub layer: &'a Layer,
    /// Rows of the batch.
    pub batch: usize,
    /// Typical steps of a sequence.
    pub steps: usize,
    /// Precision and activations of all choices; its other fields are ignored.
    pub base: Choice,
    /// Fixed parts of the choices.
    pub forced: Constraints,
    /// Maximum workers.
    pub threads: usize,
}

impl Goal<'_> {
    /// Packs the layer's weights, which all choices share.
    pub fn pack(&self) -> Vec<PackedWeights> {
        let Self { layer, base, .. } = self;
        let pack = |direction| PackedWeights::new(layer, direction, base.precision);
        (0..layer.directions().count()).map(pack).collect()
    }
}

/// Limits on the timing of choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Maximum choices to time; with 0 or 1 none is timed and the prediction decides.
    pub choices: usize,
    /// Total time, from the first call on. Choices that had no turn by then stay untimed.
    pub time: Duration,
}

impl Default for Effort {
    fn default() -> Self {
        Self { choices: 8, time: Duration::from_millis(200) }
    }
}

/// A choice with its predicted and measured cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankedChoice {
    /// The choice.
    pub choice: Choice,
    /// Predicted cost.
    pub predicted: Prediction,
    /// Nanoseconds of the fastest call with the goal's steps, if timed; scaled if the calls had
    /// fewer steps.
    pub measured_ns: Option<f64>,
}

/// Reason why tuning failed.
#[derive(Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum TuneError {
    /// No choice satisfies the constraints for this batch and number of threads.
    #[error(
        "no plan has {0}: allow more threads, or force at most as many parts as there are rows and \
         panels of sixteen units"
    )]
    Forced(Constraints),
    /// A plan is invalid.
    #[error("{0}")]
    Program(#[from] ProgramError),
    /// A plan did not run.
    #[error("{0}")]
    Run(#[from] SequenceError),
}

/// Returns all choices for a goal. A fixed part is kept if it is possible.
fn choices(goal: &Goal<'_>) -> Vec<Choice> {
    let shape = LayerShape::from_layer(goal.layer, goal.batch, goal.steps);
    let most = |forced: Option<usize>, most: usize| -> Vec<usize> {
        match forced {
            Some(forced) => (forced..=forced).filter(|part| (1..=most).contains(part)).collect(),
            None => (1..=most.min(goal.threads)).collect(),
        }
    };
    let chunks: Vec<usize> = match goal.forced.chunk {
        Some(chunk) => (chunk.max(1)..=chunk.max(1)).collect(),
        // Chunks longer than the sequence are equivalent; only the shortest is tried.
        None => {
            let after = CHUNKS.windows(2).filter(|pair| pair[0] < goal.steps).map(|pair| pair[1]);
            std::iter::once(1).chain(after).collect()
        }
    };
    let mut all = Vec::new();
    for chunk in chunks {
        for sides in most(goal.forced.sides, shape.directions) {
            for rows in most(goal.forced.rows, goal.batch) {
                for units in most(goal.forced.units, shape.panels()) {
                    let choice = Choice { chunk, sides, rows, units, ..goal.base };
                    if choice.workers() <= goal.threads.max(1) {
                        all.push(choice);
                    }
                }
            }
        }
    }
    all
}

/// Predictions within this factor of the least count as equal: the cost model is no more precise.
const ALIKE: f64 = 1.01;

/// Returns all choices, the fastest by prediction first.
pub fn rank(goal: &Goal<'_>, machine: &Machine) -> Vec<RankedChoice> {
    let shape = LayerShape::from_layer(goal.layer, goal.batch, goal.steps);
    let candidate = |choice: Choice| RankedChoice {
        choice,
        predicted: predict(&shape, &choice, machine),
        measured_ns: None,
    };
    let mut all: Vec<RankedChoice> = choices(goal).into_iter().map(candidate).collect();
    let least = all.iter().map(|ranked| ranked.predicted.ns()).fold(f64::INFINITY, f64::min);
    // Ties go to fewer workers, then to longer chunks: they synchronize less and read the input's
    // weights less often, a cost that the model underestimates.
    let key =
        |ranked: &RankedChoice| (ranked.choice.workers(), std::cmp::Reverse(ranked.choice.chunk));
    all.sort_by_key(key);
    let ns = |ranked: &RankedChoice| ranked.predicted.ns().max(ALIKE * least);
    all.sort_by(|a, b| ns(a).total_cmp(&ns(b)));
    all
}

/// Ranks all choices, times the first few and moves these to the front, the fastest first.
///
/// The best choice of a single worker is always among the timed ones. `packed` are the weights of
/// [`Goal::pack`]. Choices take turns until the time is up; those that are far behind drop out. The
/// fastest call of a choice counts. `team` needs at least as many workers as the goal has threads.
///
/// # Errors
/// No choice satisfies the constraints, or a plan does not run.
pub fn tune(
    goal: &Goal<'_>,
    packed: &[PackedWeights],
    machine: &Machine,
    isa: Isa,
    team: &mut Team,
    effort: Effort,
) -> Result<Vec<RankedChoice>, TuneError> {
    let mut all = rank(goal, machine);
    if all.is_empty() {
        return Err(TuneError::Forced(goal.forced));
    }
    let count = effort.choices.min(all.len());
    if count <= 1 {
        return Ok(all);
    }
    // Predictions assume that all cores are idle. If they are not, a single worker may be the
    // fastest, so it is always timed.
    if let Some(alone @ 2..) = all.iter().position(|ranked| ranked.choice.workers() == 1) {
        all[1..=alone].rotate_right(1);
    }
    let few = &mut all[..count];
    time(goal, packed, machine, isa, team, effort, few)?;
    few.sort_by(|a, b| {
        let ns = |ranked: &RankedChoice| ranked.measured_ns.unwrap_or(f64::INFINITY);
        ns(a).total_cmp(&ns(b))
    });
    Ok(all)
}

/// A choice slower than this multiple of the fastest drops out after [`TURNS`] turns.
const BEHIND: f64 = 1.25;
/// Turns after which [`BEHIND`] applies.
const TURNS: usize = 6;
/// A choice slower than this multiple of the fastest drops out after two turns.
const FAR_BEHIND: f64 = 2.0;

/// Times choices in turns.
fn time(
    goal: &Goal<'_>,
    packed: &[PackedWeights],
    machine: &Machine,
    isa: Isa,
    team: &mut Team,
    effort: Effort,
    few: &mut [RankedChoice],
) -> Result<(), TuneError> {
    let layer = goal.layer;
    let end = now() + effort.time;
    let steps = trial_steps(goal, few, effort);
    let shape = LayerShape::from_layer(layer, goal.batch, steps);
    let input: Vec<f32> = (0..steps * goal.batch * layer.inputs())
        .map(|at| (at * 37 % 256) as f32 / 128.0 - 1.0)
        .collect();
    let mut output = vec![0.0; steps * goal.batch * layer.outputs()];
    let mut sequences = Vec::new();
    for ranked in few.iter() {
        let choice = &ranked.choice;
        sequences.push(Sequence::from_packed(layer, packed, goal.batch, choice, isa)?);
    }
    let mut least = f64::INFINITY;
    for round in 0..ROUNDS {
        for (ranked, sequence) in few.iter_mut().zip(&mut sequences) {
            let last = ranked.measured_ns.unwrap_or(f64::INFINITY);
            // Timings are noisy: with fewer turns a choice must be further behind to drop out.
            let behind =
                round >= TURNS && last > BEHIND * least || round > 1 && last > FAR_BEHIND * least;
            // The choice with the best prediction is always timed, so that at least one is.
            if least.is_finite() && (behind || now() >= end) {
                continue;
            }
            let scale = ranked.predicted.ns() / predict(&shape, &ranked.choice, machine).ns();
            let start = now();
            sequence.run(team, &input, &mut output)?;
            let ns = last.min(start.elapsed().as_nanos() as f64 * scale);
            ranked.measured_ns = Some(ns);
            least = least.min(ns);
        }
        if now() >= end {
            break;
        }
    }
    Ok(())
}

/// Maximum turns of a choice.
const ROUNDS: usize = 200;

/// Steps of a trial: those of the goal, or fewer if not all choices would get four turns in their
/// time.
fn trial_steps(goal: &Goal<'_>, few: &[RankedChoice], effort: Effort) -> usize {
    let round: f64 = few.iter().map(|ranked| ranked.predicted.ns()).sum();
    let part = effort.time.as_nanos() as f64 / 4.0 / round.max(1.0);
    let steps = goal.steps.max(1);
    if part >= 1.0 { steps } else { ((steps as f64 * part) as usize).clamp(steps.min(4), steps) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::{Cell, Directions, Weights};
    use dyno_kernels::{Precision, Tanh};

    fn layer(units: usize, directions: Directions) -> Layer {
        let weights = Weights {
            input: vec![0.01; 4 * units * 8],
            state: vec![0.01; 4 * units * units],
            input_bias: vec![0.0; 4 * units],
            state_bias: vec![0.0; 4 * units],
        };
        let weights = vec![weights; directions.count()];
        Layer::new(Cell::Lstm, 8, units, directions, weights).expect("weights of this size")
    }

    fn goal(layer: &Layer, batch: usize, threads: usize) -> Goal<'_> {
        let base = Choice {
            precision: Precision::F32,
            tanh: Tanh::Fitted98,
            chunk: 1,
            sides: 1,
            rows: 1,
            units: 1,
        };
        Goal { layer, batch, steps: 20, base, forced: Constraints::default(), threads }
    }

    #[test]
    fn all_choices_are_there_once_and_within_the_threads() {
        let layer = layer(48, Directions::Both);
        let all = choices(&goal(&layer, 3, 4));
        // Sides, rows, units with a product of at most 4, rows and units at most 3: counted by
        // hand.
        assert_eq!(all.len(), 5 * (6 + 3));
        assert!(all.iter().all(|choice| choice.workers() <= 4 && choice.rows <= 3));
        let mut unique: Vec<String> = all.iter().map(|choice| format!("{choice:?}")).collect();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), all.len());
    }

    #[test]
    fn what_is_forced_stays_and_what_cannot_be_is_refused() {
        let layer = layer(48, Directions::Forward);
        let mut goal = goal(&layer, 2, 4);
        goal.forced = Constraints { chunk: Some(7), units: Some(2), ..Constraints::default() };
        let all = choices(&goal);
        assert_eq!(all.len(), 2);
        assert!(all.iter().all(|choice| choice.chunk == 7 && choice.units == 2));
        goal.forced.units = Some(9);
        let machine = Machine::sapphire_rapids();
        let isa = Isa::scalar();
        let refused =
            tune(&goal, &goal.pack(), &machine, isa, &mut Team::with_workers(4), Effort::default());
        assert_eq!(refused, Err(TuneError::Forced(goal.forced)));
    }

    #[test]
    fn the_best_few_are_timed_and_the_fastest_is_first() {
        let layer = layer(32, Directions::Forward);
        let goal = goal(&layer, 2, 2);
        let effort = Effort { choices: 3, time: Duration::from_millis(5) };
        let machine = Machine::sapphire_rapids();
        let all =
            tune(&goal, &goal.pack(), &machine, Isa::best(), &mut Team::with_workers(2), effort)
                .expect("plans that run");
        assert_eq!(all.len(), choices(&goal).len());
        let timed = all.iter().filter_map(|ranked| ranked.measured_ns).collect::<Vec<_>>();
        assert!((1..=3).contains(&timed.len()) && timed.is_sorted(), "{timed:?}");
        assert!(all[0].measured_ns.is_some_and(|ns| ns > 0.0));
        assert!(all[timed.len()..].iter().all(|ranked| ranked.measured_ns.is_none()));
    }
}
