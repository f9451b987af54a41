//! Selection of the responses that go to the accuracy log.

use crate::plan::{AccuracyLog, Plan};
use crate::rng::Mt19937;
use crate::settings::Scenario;
use crate::share::Numbering;

/// Selects the responses of a run that go to the accuracy log.
///
/// A value is drawn for each sample when it is generated, from one generator with the default seed
/// for the whole test. The seed of the audit only shifts all values by one offset.
#[derive(Debug, Clone)]
pub enum LogSelection {
    /// All responses: accuracy runs.
    All,
    /// No responses: performance runs without an audit.
    None,
    /// Responses whose shifted value is at most `probability`.
    Sampled {
        /// Draws the values in order.
        values: Mt19937,
        /// Shift, in [0, 1).
        offset: f64,
        /// Threshold; every response is logged from 1 on.
        probability: f64,
    },
}

impl LogSelection {
    /// Returns the selection of a run. The test generated `samples_generated` samples before it.
    pub fn new(plan: &Plan, accuracy: bool, samples_generated: u64) -> Self {
        if accuracy {
            return Self::All;
        }
        let mut selection = Self::sampled(plan.seeds.accuracy_log, logged_share(plan));
        if let Self::Sampled { values, .. } = &mut selection {
            values.discard(2 * samples_generated);
        }
        selection
    }

    /// Returns the selection of a performance test from its first sample on, by the seed of the
    /// audit and the share of the responses that are logged.
    ///
    /// ```
    /// use dyno_loadgen::trace::LogSelection;
    ///
    /// let mut all = LogSelection::sampled(7, 1.0);
    /// assert!((0..100).all(|_| all.next_sample()));
    /// assert!(!LogSelection::sampled(7, 0.0).next_sample());
    /// ```
    pub fn sampled(accuracy_log_seed: u64, probability: f64) -> Self {
        if probability.is_nan() || probability <= 0.0 {
            return Self::None;
        }
        Self::Sampled {
            values: Mt19937::new(Mt19937::DEFAULT_SEED),
            offset: Mt19937::new(accuracy_log_seed).canonical(),
            probability,
        }
    }

    /// Returns whether the response to the next sample is logged.
    pub fn next_sample(&mut self) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Sampled { values, offset, probability } => {
                let shifted = values.canonical() + *offset;
                (if shifted >= 1.0 { shifted - 1.0 } else { shifted }) <= *probability
            }
        }
    }
}

/// Returns the share of responses that a performance run logs.
fn logged_share(plan: &Plan) -> f64 {
    let AccuracyLog { probability, sampling_target } = plan.accuracy_log;
    if sampling_target == 0 {
        return probability;
    }
    let min_duration_ms = (plan.min_duration / crate::clock::MILLISECOND) as f64;
    let by_rate = (plan.target_qps * min_duration_ms / 1_000.0) as u64;
    let expected = if plan.scenario() == Scenario::Offline {
        by_rate.max(plan.min_sample_count)
    } else {
        (by_rate * plan.samples_per_query).max(plan.min_query_count * plan.samples_per_query)
    };
    sampling_target as f64 / expected.max(1) as f64
}

/// Set of samples whose responses are kept for the accuracy log.
#[derive(Debug)]
pub(crate) enum ResponseFilter {
    None,
    All,
    /// One bit per sample of the generated trace.
    Some(Vec<u64>),
}

impl ResponseFilter {
    pub(crate) fn new(mut logged: LogSelection, numbering: &Numbering, samples: usize) -> Self {
        match logged {
            LogSelection::None => Self::None,
            LogSelection::All => Self::All,
            LogSelection::Sampled { .. } => {
                let mut words = vec![0; samples.div_ceil(64)];
                let mut drawn = 0;
                for sample in 0..samples {
                    // Samples of other clients consume values, too.
                    let number = numbering.trace_number(sample as u64);
                    (drawn..number).for_each(|_| _ = logged.next_sample());
                    words[sample / 64] |= u64::from(logged.next_sample()) << (sample % 64);
                    drawn = number + 1;
                }
                Self::Some(words)
            }
        }
    }

    #[inline]
    pub(crate) fn keeps(&self, sequence: u64) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Some(words) => {
                let sample = sequence as usize;
                words.get(sample / 64).is_some_and(|word| word >> (sample % 64) & 1 == 1)
            }
        }
    }
}
