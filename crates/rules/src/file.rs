//! Reads the files in `rounds/`, with the types of their TOML.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::description::describe;
use super::{
    Benchmark, QualityTarget, Round, RuleScenario, Seeds, Suite, SuiteScenarios, TokenBounds,
    Version, endpoints, every,
};

/// Values by the scenario names of the rules.
pub(super) type PerScenario<T> = BTreeMap<String, T>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RoundFile {
    version: String,
    published: String,
    seeds: SeedsFile,
    test05_seeds: Option<SeedsFile>,
    names: BTreeMap<String, String>,
    benchmark: Vec<BenchmarkFile>,
}

/// Seeds as text, because TOML has no unsigned 64-bit integers.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SeedsFile {
    qsl: String,
    sample_index: String,
    schedule: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BenchmarkFile {
    name: String,
    #[serde(default)]
    accuracy: Vec<QualityFile>,
    #[serde(default)]
    audit_accuracy_delta_percent: BTreeMap<String, f64>,
    performance_samples: Option<u64>,
    dataset_samples: Option<u64>,
    #[serde(default)]
    accuracy_samples: BTreeMap<String, u64>,
    offline_samples: Option<u64>,
    #[serde(default)]
    min_queries: PerScenario<u64>,
    #[serde(default)]
    latency_ns: PerScenario<u64>,
    #[serde(default)]
    token_latency_ns: PerScenario<TokensFile>,
    audits: Vec<String>,
    #[serde(default)]
    result_keys: PerScenario<String>,
    #[serde(default)]
    units: PerScenario<String>,
    #[serde(default)]
    accuracy_outputs: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    suites: BTreeMap<String, SuiteScenariosFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QualityFile {
    metric: String,
    at_least: Option<f64>,
    at_most: Option<f64>,
    scenario: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokensFile {
    ttft: u64,
    tpot: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SuiteScenariosFile {
    required: Vec<String>,
    #[serde(default)]
    optional: Vec<String>,
}

/// Parses a TOML file that is compiled into the program. It becomes JSON first: code that reads a type
/// from TOML or from its tables is several times as long, and such code was most of the crate.
///
/// # Panics
/// Panics if the file is invalid. Tests read each file, so an invalid file is a programming error.
pub fn parse_embedded<T: DeserializeOwned>(text: &str) -> T {
    let json: serde_json::Value = toml::from_str(text).expect("tests read the files");
    serde_json::from_value(json).expect("tests read the files")
}

/// Parses a round.
///
/// # Panics
/// Panics if the file is invalid. The files are compiled into the program and tests read each,
/// so an invalid file is a programming error.
pub fn read(text: &str) -> Round {
    let file: RoundFile = parse_embedded(text);
    let version = version(&file.version);
    let every = every::rules();
    let complete = |file: BenchmarkFile| {
        let mut benchmark = benchmark(file);
        describe(&mut benchmark, version);
        benchmark
    };
    Round {
        version,
        published: file.published,
        seeds: seeds(&file.seeds),
        test05_seeds: file.test05_seeds.as_ref().map(seeds),
        names: file.names,
        benchmarks: file.benchmark.into_iter().map(complete).collect(),
        scenarios: every.scenarios(version),
        offline_samples: every.offline_samples(version),
        divisions: every.divisions(version),
        availabilities: every.availabilities(),
        network: every.network(version),
        datacenter: every.datacenter(version),
        system_fields: every.system_fields(version),
        measurement_files: every.measurement_files(version),
        accuracy_patterns: every.accuracy_patterns(version),
        result_keys: every.result_keys(version),
        endpoints: endpoints::endpoints_of(version),
    }
}

fn benchmark(file: BenchmarkFile) -> Benchmark {
    let quality = |target: QualityFile| QualityTarget {
        metric: target.metric,
        at_least: target.at_least,
        at_most: target.at_most,
        scenario: target.scenario.as_deref().map(scenario),
        reference: None,
    };
    let scenarios = |file: SuiteScenariosFile| SuiteScenarios {
        required: file.required.iter().map(|name| scenario(name)).collect(),
        optional: file.optional.iter().map(|name| scenario(name)).collect(),
    };
    let tokens = |bounds: TokensFile| TokenBounds { ttft: bounds.ttft, tpot: bounds.tpot };
    Benchmark {
        name: file.name,
        accuracy: file.accuracy.into_iter().map(quality).collect(),
        audit_accuracy_delta_percent: file.audit_accuracy_delta_percent,
        performance_samples: file.performance_samples,
        dataset_samples: file.dataset_samples,
        accuracy_samples: file.accuracy_samples,
        offline_samples: file.offline_samples,
        min_queries: per_scenario(file.min_queries),
        latency: per_scenario(file.latency_ns),
        token_latency: per_scenario(file.token_latency_ns)
            .into_iter()
            .map(|(scenario, bounds)| (scenario, tokens(bounds)))
            .collect(),
        audits: file.audits,
        result_keys: per_scenario(file.result_keys),
        units: per_scenario(file.units),
        accuracy_outputs: file.accuracy_outputs,
        suites: file
            .suites
            .into_iter()
            .map(|(name, file)| (suite(&name), scenarios(file)))
            .collect(),
        ..Benchmark::default()
    }
}

pub(super) fn per_scenario<T>(file: PerScenario<T>) -> BTreeMap<RuleScenario, T> {
    file.into_iter().map(|(name, value)| (scenario(&name), value)).collect()
}

pub(super) fn version(text: &str) -> Version {
    text.parse().expect("versions of the rules read")
}

pub(super) fn scenario(name: &str) -> RuleScenario {
    RuleScenario::named(name).expect("scenarios of the rules read")
}

pub(super) fn suite(name: &str) -> Suite {
    match name {
        "datacenter" => Suite::Datacenter,
        "edge" => Suite::Edge,
        "both" => Suite::Both,
        _ => panic!("there is no suite `{name}`"),
    }
}

fn seeds(file: &SeedsFile) -> Seeds {
    let seed = |text: &String| text.parse().expect("seeds of the rules read");
    Seeds {
        qsl: seed(&file.qsl),
        sample_index: seed(&file.sample_index),
        schedule: seed(&file.schedule),
    }
}
