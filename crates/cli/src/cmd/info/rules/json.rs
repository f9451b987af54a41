//! What `dyno info rules --json` prints. The doc comments are the descriptions of
//! the published schema.

use std::collections::BTreeMap;

use dyno_rules::{Leeway, Requirements, Round, RuleScenario};
use serde::{Deserialize, Serialize};

use super::RulesQuery;

/// Version of the schema.
pub const SCHEMA_VERSION: u32 = 1;

/// Rounds of MLPerf Inference as data.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Rules {
    /// `dyno.rules`
    pub schema: String,
    /// 1
    pub schema_version: u32,
    /// the requested rounds, oldest first
    pub rounds: Vec<RoundRules>,
}

/// A round.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RoundRules {
    /// such as `v5.1`
    pub round: String,
    /// year and month of its results
    pub published: String,
    /// `qsl`, `sample_index`, `schedule`: as text, because they are above 2^53
    pub seeds: [String; 3],
    /// those of TEST05; null in rounds without it
    pub test05_seeds: Option<[String; 3]>,
    /// load and conditions of each scenario
    pub scenarios: BTreeMap<String, RoundScenario>,
    /// `closed`, `open`, `network`, with their requirements
    pub divisions: BTreeMap<String, Vec<String>>,
    /// `available`, `preview`, `rdi`, with their requirements
    pub availabilities: BTreeMap<String, Vec<String>>,
    /// interconnects of the network division; null in earlier rounds
    pub network: Option<Network>,
    /// requirements of a datacenter system
    pub datacenter: Vec<String>,
    /// all benchmarks of the round, or the requested one
    pub benchmarks: Vec<Benchmark>,
}

/// Load and conditions of a scenario.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Played"))]
pub struct RoundScenario {
    /// when queries are issued
    pub arrivals: String,
    /// share of queries that the result or the bound is about; null in Offline
    pub percentile: Option<f64>,
    /// null if the run decides
    pub samples_per_query: Option<u64>,
    /// minimum duration of a run
    pub min_duration_ms: u64,
    /// number of submitted runs; the lowest is the result
    pub runs: u64,
    /// runs that confirm a candidate; null without confirmation
    pub confirmation_runs: Option<u64>,
    /// whether early stopping decides how many queries are enough
    pub stops_early: bool,
}

/// Interconnects of the network division.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Network {
    /// fabrics
    pub permitted: Vec<String>,
    /// buses
    pub forbidden: Vec<String>,
    /// text that the name of the system under test must contain
    pub name_of_system: String,
}

/// A benchmark of a round.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Benchmark {
    /// official name
    pub name: String,
    /// other names that submitters use
    pub other_names: Vec<String>,
    /// its name in `user.conf`; null where LoadGen's table has none
    pub loadgen_name: Option<String>,
    /// such as `vision`
    pub area: String,
    /// its task
    pub task: String,
    /// its model
    pub model: String,
    /// name of the data set
    pub dataset: String,
    /// samples in it
    pub dataset_samples: u64,
    /// what a sample is
    pub sample: String,
    /// bounds of the quality, each
    pub quality: Vec<Quality>,
    /// whether each sample is issued equally often
    pub equal_issue: bool,
    /// beams of a beam search; null if not specified
    pub beams: Option<u64>,
    /// maximum number of input tokens
    pub max_input_tokens: Option<u64>,
    /// minimum number of output tokens
    pub min_output_tokens: Option<u64>,
    /// maximum number of output tokens
    pub max_output_tokens: Option<u64>,
    /// sampling of the next token
    pub sampling: Option<String>,
    /// input and output elements of a sample, for bandwidth; null if not specified
    pub elements: Option<Elements>,
    /// audits that a submission must pass
    pub audits: Vec<String>,
    /// suites with their required scenarios
    pub required: BTreeMap<String, Vec<String>>,
    /// suites with their optional scenarios
    pub optional: BTreeMap<String, Vec<String>>,
    /// scenarios with the settings that the round fixes
    pub settings: BTreeMap<String, Vec<Setting>>,
}

/// Bounds of one metric.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Quality {
    /// its name in the checker
    pub metric: String,
    /// null: no such bound
    pub at_least: Option<f64>,
    /// null: no such bound
    pub at_most: Option<f64>,
    /// only for this scenario; null: for all
    pub scenario: Option<String>,
    /// the reference value of the bounds; null if unknown
    pub reference: Option<f64>,
}

/// Elements of a sample.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Elements {
    /// inputs
    pub numerical: u64,
    /// inputs with their own data type
    pub categorical: u64,
    /// outputs; null if any bandwidth suffices
    pub outputs: Option<u64>,
}

/// A setting that a round fixes.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Setting {
    /// of `dyno info settings`
    pub key: String,
    /// as text
    pub value: String,
    /// `exact`, `minimum` or `maximum`
    pub kind: String,
}

impl Rules {
    /// Returns the document for a query.
    pub fn from_query(query: RulesQuery) -> Self {
        let rounds = match query {
            RulesQuery::Rounds => {
                let all = Round::names().into_iter().filter_map(|name| Round::named(name).ok());
                all.map(|round| of_round(round, &round.benchmarks)).collect()
            }
            RulesQuery::Round(round) => vec![of_round(round, &round.benchmarks)],
            RulesQuery::Benchmark(round, one) => vec![of_round(round, std::slice::from_ref(one))],
        };
        Self { schema: "dyno.rules".into(), schema_version: SCHEMA_VERSION, rounds }
    }
}

fn of_round(round: &Round, benchmarks: &[dyno_rules::Benchmark]) -> RoundRules {
    let seeds = |seeds: &dyno_rules::Seeds| {
        [seeds.qsl, seeds.sample_index, seeds.schedule].map(|seed| seed.to_string())
    };
    let played = |rules: &dyno_rules::ScenarioRules| RoundScenario {
        arrivals: rules.arrivals.name().into(),
        percentile: rules.percentile,
        samples_per_query: rules.samples_per_query,
        min_duration_ms: rules.min_duration_ms,
        runs: rules.runs,
        confirmation_runs: rules.confirmation.as_ref().map(|confirmation| confirmation.runs),
        stops_early: rules.stops_early,
    };
    let asks = |name: &str, asks: &Requirements| (name.to_string(), asks.items.clone());
    RoundRules {
        round: round.version.to_string(),
        published: round.published.clone(),
        seeds: seeds(&round.seeds),
        test05_seeds: round.test05_seeds.as_ref().map(seeds),
        scenarios: round.scenarios.iter().map(|(s, r)| (s.name().into(), played(r))).collect(),
        divisions: round.divisions.iter().map(|(d, a)| asks(d.name(), a)).collect(),
        availabilities: round.availabilities.iter().map(|(v, a)| asks(v.name(), a)).collect(),
        network: round.network.as_ref().map(|network| Network {
            permitted: network.permitted.clone(),
            forbidden: network.forbidden.clone(),
            name_of_system: network.name_of_system.clone(),
        }),
        datacenter: round.datacenter.clone(),
        benchmarks: benchmarks.iter().map(|one| of_benchmark(round, one)).collect(),
    }
}

fn of_benchmark(round: &Round, benchmark: &dyno_rules::Benchmark) -> Benchmark {
    let names = |scenarios: &[RuleScenario]| -> Vec<String> {
        scenarios.iter().map(|scenario| scenario.name().to_string()).collect()
    };
    let others = round.names.iter().filter(|(_, official)| **official == benchmark.name);
    let settings =
        |scenario: RuleScenario| (scenario.name().into(), settings(round, benchmark, scenario));
    let suites =
        || benchmark.suites.iter().map(|(suite, wanted)| (suite.name().to_string(), wanted));
    Benchmark {
        name: benchmark.name.clone(),
        other_names: others.map(|(name, _)| name.clone()).collect(),
        loadgen_name: benchmark.loadgen.model.clone(),
        area: benchmark.area.clone(),
        task: benchmark.task.clone(),
        model: benchmark.model.clone(),
        dataset: benchmark.dataset.name.clone(),
        dataset_samples: benchmark.dataset.samples,
        sample: benchmark.dataset.sample.clone(),
        quality: benchmark.accuracy.iter().map(quality).collect(),
        equal_issue: benchmark.equal_issue,
        beams: benchmark.inference.beams,
        max_input_tokens: benchmark.inference.max_input_tokens,
        min_output_tokens: benchmark.inference.min_output_tokens,
        max_output_tokens: benchmark.inference.max_output_tokens,
        sampling: benchmark.inference.sampling.clone(),
        elements: benchmark.elements.map(|elements| Elements {
            numerical: elements.numerical,
            categorical: elements.categorical,
            outputs: elements.outputs,
        }),
        audits: benchmark.audits.clone(),
        required: suites().map(|(suite, wanted)| (suite, names(&wanted.required))).collect(),
        optional: suites().map(|(suite, wanted)| (suite, names(&wanted.optional))).collect(),
        settings: benchmark.scenarios().into_iter().map(settings).collect(),
    }
}

fn quality(target: &dyno_rules::QualityTarget) -> Quality {
    Quality {
        metric: target.metric.clone(),
        at_least: target.at_least,
        at_most: target.at_most,
        scenario: target.scenario.map(|scenario| scenario.name().into()),
        reference: target.reference.map(|reference| reference.value),
    }
}

fn settings(
    round: &Round,
    benchmark: &dyno_rules::Benchmark,
    scenario: RuleScenario,
) -> Vec<Setting> {
    let setting = |fixed: dyno_rules::FixedSetting| Setting {
        key: fixed.key.into(),
        value: fixed.value,
        kind: match fixed.leeway {
            Leeway::None => "exact",
            Leeway::More => "minimum",
            Leeway::Less => "maximum",
        }
        .into(),
    };
    round.settings(benchmark, scenario).into_iter().map(setting).collect()
}
