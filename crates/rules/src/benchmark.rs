//! What a round asks of one model.

use std::borrow::Cow;
use std::collections::BTreeMap;

use dyno_loadgen::clock::Nanos;

use super::{Elements, Scenario, Suite, Wanted};

/// What a quality bound is a share of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reference {
    /// Value of the metric that the reference reaches.
    pub value: f64,
    /// The share of it that is the least allowed.
    pub lowest: Option<f64>,
    /// The share of it that is the most allowed.
    pub highest: Option<f64>,
}

/// Bounds of one metric of quality.
#[derive(Debug, Clone, PartialEq)]
pub struct QualityTarget {
    /// Name of the metric, such as `acc` or `ROUGE1`.
    pub metric: String,
    /// The value must be this or more, exactly as the official checker has it.
    pub at_least: Option<f64>,
    /// The value must be this or less.
    pub at_most: Option<f64>,
    /// Only for this scenario.
    pub scenario: Option<Scenario>,
    /// Where the bounds come from.
    pub reference: Option<Reference>,
}

/// 99th percentile bounds of Server and Interactive for language models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenBounds {
    /// Time to first token, ns.
    pub ttft: Nanos,
    /// Time per output token, ns.
    pub tpot: Nanos,
}

/// The data that a benchmark is run on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dataset {
    /// Its name.
    pub name: String,
    /// Its samples, each of which an accuracy run issues.
    pub samples: u64,
    /// What one sample is.
    pub sample: String,
}

/// Parameters of inference that a submission may not change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inference {
    /// Beams of a beam search; 1 is none.
    pub beams: Option<u64>,
    /// Tokens of an input at most.
    pub max_input_tokens: Option<u64>,
    /// Tokens of an answer at least.
    pub min_output_tokens: Option<u64>,
    /// Tokens of an answer at most.
    pub max_output_tokens: Option<u64>,
    /// How tokens are chosen.
    pub sampling: Option<String>,
}

/// What the load generator is told of a benchmark beyond the checker's constants.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoadGenRows {
    /// The model's name in LoadGen's table and in `user.conf`.
    pub model: Option<String>,
    /// The whole data set is the performance set.
    pub loads_all: bool,
    /// The performance set, where the table's is larger than the checker asks for.
    pub performance_samples: Option<u64>,
    /// Samples of an Offline query, likewise.
    pub offline_samples: Option<u64>,
    /// Performance set of Interactive, where it has a data set of its own.
    pub interactive_samples: Option<u64>,
    /// Server's latency bound, where the table's is below the checker's.
    pub server_latency: Option<Nanos>,
}

/// What a round asks of one model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Benchmark {
    /// Its official name in the round, such as `resnet` or `bert-99.9`.
    pub name: String,
    /// Field it belongs to, such as `vision`.
    pub area: String,
    /// What it does.
    pub task: String,
    /// The model that does it.
    pub model: String,
    /// What it is done on.
    pub dataset: Dataset,
    /// What must hold of its quality, each.
    pub accuracy: Vec<QualityTarget>,
    /// Share of the reference quality that is asked for.
    pub factor: f64,
    /// TEST01 without determinism: how far apart the accuracies of the two runs
    /// may be, in percent, by metric.
    pub audit_accuracy_delta_percent: BTreeMap<String, f64>,
    /// Samples that must be loaded at least in a performance run.
    pub performance_samples: Option<u64>,
    /// Samples in the data set, in the rounds whose checker compares them.
    pub dataset_samples: Option<u64>,
    /// Samples of an accuracy run where they are not the data set's.
    pub accuracy_samples: BTreeMap<String, u64>,
    /// Samples that an Offline query must have at least, where that is not the
    /// round's [`super::Round::offline_samples`].
    pub offline_samples: Option<u64>,
    /// Queries that a run must have at least, where early stopping does not decide.
    pub min_queries: BTreeMap<Scenario, u64>,
    /// Bound of the latency, ns. In MultiStream with a fixed interval, that interval.
    pub latency: BTreeMap<Scenario, Nanos>,
    /// Bounds of token latencies.
    pub token_latency: BTreeMap<Scenario, TokenBounds>,
    /// Percentiles of its own.
    pub percentiles: BTreeMap<Scenario, f64>,
    /// Each sample is issued equally often.
    pub equal_issue: bool,
    /// Tokens are timed, though nothing is bounded by them.
    pub tokens_measured: bool,
    /// Parameters of inference.
    pub inference: Inference,
    /// What bandwidth a datacenter result needs; none where the rules say nothing.
    pub elements: Option<Elements>,
    /// What the load generator is told of it.
    pub loadgen: LoadGenRows,
    /// Audits that a submission must pass.
    pub audits: Vec<String>,
    /// Keys of the detail log that are the result, where they are not the round's.
    pub result_keys: BTreeMap<Scenario, String>,
    /// Units of the result where they are not the scenario's.
    pub units: BTreeMap<Scenario, String>,
    /// Outputs that must be submitted: folder below `accuracy/`, and names.
    pub accuracy_outputs: BTreeMap<String, Vec<String>>,
    /// Which scenarios it has in which suite.
    pub suites: BTreeMap<Suite, Wanted>,
}

impl Benchmark {
    /// The scenarios that it has in any suite, in the order of the rules. All four
    /// of LoadGen's in v0.5, which has no suites.
    #[must_use]
    pub fn scenarios(&self) -> Vec<Scenario> {
        let is_wanted = |scenario: &Scenario| {
            let mut wanted = self.suites.values();
            wanted.any(|w| w.required.contains(scenario) || w.optional.contains(scenario))
        };
        let has_any = !self.suites.is_empty();
        let asked = |scenario: &Scenario| match has_any {
            true => is_wanted(scenario),
            false => *scenario != Scenario::Interactive,
        };
        Scenario::ALL.into_iter().filter(asked).collect()
    }

    /// Which scenarios a suite wants of it; none where the suite has not got it. In
    /// v0.5, which has no suites, any scenario may be submitted.
    #[must_use]
    pub fn wanted(&self, suite: Suite) -> Option<Cow<'_, Wanted>> {
        if self.suites.is_empty() {
            let any = Wanted { required: Vec::new(), optional: self.scenarios() };
            return Some(Cow::Owned(any));
        }
        self.suites.get(&suite).map(Cow::Borrowed)
    }

    /// The least top-1 accuracy as a share from 0 to 1, of a benchmark whose
    /// quality is one. The checker's bounds are percentages but for `rgat`.
    #[must_use]
    pub fn least_accuracy(&self) -> Option<f64> {
        let target = self.accuracy.iter().find(|target| target.metric == "acc")?.at_least?;
        Some(if target > 1.0 { target / 100.0 } else { target })
    }
}
