//! Requirements of a round for one model.

use std::borrow::Cow;
use std::collections::BTreeMap;

use dyno_loadgen::clock::Nanos;

use super::{Elements, RuleScenario, Suite, SuiteScenarios};

/// Reference value from which a quality bound is derived.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reference {
    /// Metric value that the reference implementation reaches.
    pub value: f64,
    /// Lower bound as a share of `value`.
    pub lowest: Option<f64>,
    /// Upper bound as a share of `value`.
    pub highest: Option<f64>,
}

/// Bounds of one quality metric.
#[derive(Debug, Clone, PartialEq)]
pub struct QualityTarget {
    /// Name of the metric, such as `acc` or `ROUGE1`.
    pub metric: String,
    /// Lower bound, exactly as in the official checker.
    pub at_least: Option<f64>,
    /// Upper bound.
    pub at_most: Option<f64>,
    /// Scenario to which the bounds apply; `None` means all.
    pub scenario: Option<RuleScenario>,
    /// Reference from which the bounds are derived.
    pub reference: Option<Reference>,
}

/// Bounds on the 99th percentile of token latencies in Server and Interactive, for language
/// models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenBounds {
    /// Time to first token, ns.
    pub ttft: Nanos,
    /// Time per output token, ns.
    pub tpot: Nanos,
}

/// Data set of a benchmark.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dataset {
    /// Display name.
    pub name: String,
    /// Number of samples. An accuracy run issues each of them.
    pub samples: u64,
    /// Description of one sample.
    pub sample: String,
}

/// Inference parameters that a submission may not change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inference {
    /// Beams of the beam search; 1 disables the search.
    pub beams: Option<u64>,
    /// Maximum input tokens.
    pub max_input_tokens: Option<u64>,
    /// Minimum output tokens.
    pub min_output_tokens: Option<u64>,
    /// Maximum output tokens.
    pub max_output_tokens: Option<u64>,
    /// Sampling method of tokens.
    pub sampling: Option<String>,
}

/// Load generator settings of a benchmark that the checker's constants do not contain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoadGenRows {
    /// Model name in LoadGen's table and in `user.conf`.
    pub model: Option<String>,
    /// Whether the performance set is the whole data set.
    pub loads_all: bool,
    /// Samples of the performance set, where LoadGen's table has more than the checker requires.
    pub performance_samples: Option<u64>,
    /// Samples of an Offline query, where LoadGen's table has more than the checker requires.
    pub offline_samples: Option<u64>,
    /// Samples of the performance set in Interactive, where it has its own data set.
    pub interactive_samples: Option<u64>,
    /// Latency bound of Server, ns, where LoadGen's table is below the checker's bound.
    pub server_latency: Option<Nanos>,
}

/// Rules of a round for one model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Benchmark {
    /// Official name in the round, such as `resnet` or `bert-99.9`.
    pub name: String,
    /// Field of application, such as `vision`.
    pub area: String,
    /// Task, such as `image classification`.
    pub task: String,
    /// Name of the reference model.
    pub model: String,
    /// Data set.
    pub dataset: Dataset,
    /// Quality bounds. All must hold.
    pub accuracy: Vec<QualityTarget>,
    /// Required share of the reference quality.
    pub factor: f64,
    /// Official names of the benchmark, one for each of its targets, from the lowest target to the
    /// highest.
    pub targets: Vec<String>,
    /// Maximum difference between the accuracies of the two runs of TEST01 without determinism,
    /// in percent, by metric.
    pub audit_accuracy_delta_percent: BTreeMap<String, f64>,
    /// Minimum number of samples that a performance run must load.
    pub performance_samples: Option<u64>,
    /// Number of samples in the data set, in the rounds whose checker compares it.
    pub dataset_samples: Option<u64>,
    /// Number of samples of an accuracy run where it differs from the data set's.
    pub accuracy_samples: BTreeMap<String, u64>,
    /// Minimum number of samples of an Offline query, where it differs from
    /// [`super::Round::offline_samples`].
    pub offline_samples: Option<u64>,
    /// Minimum number of queries of a run, where early stopping does not decide.
    pub min_queries: BTreeMap<RuleScenario, u64>,
    /// Latency bound, ns. In MultiStream with a fixed interval, the interval.
    pub latency: BTreeMap<RuleScenario, Nanos>,
    /// Minimum duration of a run, ms, where it differs from the scenario's.
    pub min_duration_ms: Option<u64>,
    /// Bounds on token latencies.
    pub token_latency: BTreeMap<RuleScenario, TokenBounds>,
    /// Percentiles that differ from those of the scenario.
    pub percentiles: BTreeMap<RuleScenario, f64>,
    /// Whether each sample is issued equally often.
    pub equal_issue: bool,
    /// Whether token latencies are measured although they have no bounds.
    pub tokens_measured: bool,
    /// Inference parameters.
    pub inference: Inference,
    /// Elements per sample, for the bandwidth of a datacenter result; `None` where the rules
    /// specify none.
    pub elements: Option<Elements>,
    /// Additional load generator settings.
    pub loadgen: LoadGenRows,
    /// Audits that a submission must pass.
    pub audits: Vec<String>,
    /// Keys of the result in the detail log, where they differ from the round's.
    pub result_keys: BTreeMap<RuleScenario, String>,
    /// Units of the result, where they differ from the scenario's.
    pub units: BTreeMap<RuleScenario, String>,
    /// Output files that must be submitted: names, by folder below `accuracy/`.
    pub accuracy_outputs: BTreeMap<String, Vec<String>>,
    /// Required and optional scenarios, by suite.
    pub suites: BTreeMap<Suite, SuiteScenarios>,
}

impl Benchmark {
    /// Returns the scenarios of all suites, in the order of the rules. v0.5 has no suites; there
    /// it returns LoadGen's four scenarios.
    pub fn scenarios(&self) -> Vec<RuleScenario> {
        let is_in_suite =
            |scenario: &RuleScenario| self.suites.values().any(|suite| suite.has(*scenario));
        let has_suites = !self.suites.is_empty();
        let is_included = |scenario: &RuleScenario| {
            if has_suites { is_in_suite(scenario) } else { *scenario != RuleScenario::Interactive }
        };
        RuleScenario::ALL.into_iter().filter(is_included).collect()
    }

    /// Returns the scenarios of the benchmark in a suite, or `None` if the suite does not
    /// include it. v0.5 has no suites; there all scenarios are optional.
    pub fn scenarios_in(&self, suite: Suite) -> Option<Cow<'_, SuiteScenarios>> {
        if self.suites.is_empty() {
            let any = SuiteScenarios { required: Vec::new(), optional: self.scenarios() };
            return Some(Cow::Owned(any));
        }
        self.suites.get(&suite).map(Cow::Borrowed)
    }

    /// Returns the name that all targets of the benchmark share: that of its lowest target.
    pub fn family(&self) -> &str {
        self.targets.first().unwrap_or(&self.name)
    }

    /// Returns the name of the benchmark with its next lower target, if it has one.
    pub fn lower_target(&self) -> Option<&str> {
        let own = self.targets.iter().position(|name| *name == self.name)?;
        self.targets.get(own.checked_sub(1)?).map(String::as_str)
    }

    /// Returns the name of the benchmark with its next higher target, if it has one.
    pub fn higher_target(&self) -> Option<&str> {
        let own = self.targets.iter().position(|name| *name == self.name)?;
        self.targets.get(own + 1).map(String::as_str)
    }

    /// Returns the minimum top-1 accuracy as a share from 0 to 1, or `None` if quality is
    /// another metric. The checker's bounds are percentages, except for `rgat`.
    pub fn least_accuracy(&self) -> Option<f64> {
        let target = self.accuracy.iter().find(|target| target.metric == "acc")?.at_least?;
        Some(if target > 1.0 { target / 100.0 } else { target })
    }
}
