//! Reads `rounds/benchmarks.toml`: the properties of benchmarks that do not depend on the round.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use dyno_loadgen::clock::Nanos;
use serde::Deserialize;

use super::file::{PerScenario, parse_embedded, per_scenario, scenario, version};
use super::{
    Benchmark, Dataset, Elements, Inference, LoadGenRows, QualityTarget, Reference, RuleScenario,
    Version,
};

const TEXT: &str = include_str!("../rounds/benchmarks.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    benchmark: Vec<BenchmarkEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BenchmarkEntry {
    since: Option<String>,
    /// Official names, with the required share of the reference quality.
    names: BTreeMap<String, f64>,
    area: String,
    task: String,
    model: String,
    dataset: DatasetFile,
    references: Vec<ReferenceFile>,
    #[serde(default)]
    percentiles: PerScenario<f64>,
    #[serde(default)]
    equal_issue: bool,
    #[serde(default)]
    tokens_measured: bool,
    min_duration_ms: Option<u64>,
    #[serde(default)]
    inference: InferenceFile,
    elements: Option<ElementsFile>,
    #[serde(default)]
    loadgen: LoadGenFile,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DatasetFile {
    name: String,
    samples: u64,
    sample: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReferenceFile {
    metric: String,
    value: f64,
    lowest: Option<f64>,
    highest: Option<f64>,
    scenario: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct InferenceFile {
    beams: Option<u64>,
    max_input_tokens: Option<u64>,
    min_output_tokens: Option<u64>,
    max_output_tokens: Option<u64>,
    sampling: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ElementsFile {
    numerical: u64,
    #[serde(default)]
    categorical: u64,
    outputs: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LoadGenFile {
    model: Option<String>,
    #[serde(default)]
    loads_all: bool,
    performance_samples: Option<u64>,
    offline_samples: Option<u64>,
    interactive_samples: Option<u64>,
    server_latency_ns: Option<Nanos>,
}

/// Returns the parsed file. It is compiled into the program, and tests parse it.
fn file() -> &'static File {
    static FILE: OnceLock<File> = OnceLock::new();
    FILE.get_or_init(|| parse_embedded(TEXT))
}

/// Fills in the fields of a benchmark that the file describes.
///
/// # Panics
/// Panics if the file does not describe the benchmark. Tests read every round.
pub(super) fn describe(benchmark: &mut Benchmark, round: Version) {
    let applies = |entry: &&BenchmarkEntry| {
        entry.names.contains_key(&benchmark.name)
            && entry.since.iter().all(|since| version(since) <= round)
    };
    let entry = file().benchmark.iter().rfind(applies);
    let entry = entry.unwrap_or_else(|| panic!("benchmarks.toml has no `{}`", benchmark.name));
    benchmark.factor = entry.names[&benchmark.name];
    let mut targets: Vec<(&String, f64)> =
        entry.names.iter().map(|(name, factor)| (name, *factor)).collect();
    targets.sort_by(|one, other| one.1.total_cmp(&other.1));
    benchmark.targets = targets.into_iter().map(|(name, _)| name.clone()).collect();
    benchmark.area.clone_from(&entry.area);
    benchmark.task.clone_from(&entry.task);
    benchmark.model.clone_from(&entry.model);
    benchmark.dataset = Dataset {
        name: entry.dataset.name.clone(),
        samples: entry.dataset.samples,
        sample: entry.dataset.sample.clone(),
    };
    let factor = benchmark.factor;
    for target in &mut benchmark.accuracy {
        target.reference = reference(&entry.references, target, factor);
    }
    benchmark.percentiles = per_scenario(entry.percentiles.clone());
    benchmark.equal_issue = entry.equal_issue;
    benchmark.tokens_measured = entry.tokens_measured;
    benchmark.min_duration_ms = entry.min_duration_ms;
    benchmark.inference = Inference {
        beams: entry.inference.beams,
        max_input_tokens: entry.inference.max_input_tokens,
        min_output_tokens: entry.inference.min_output_tokens,
        max_output_tokens: entry.inference.max_output_tokens,
        sampling: entry.inference.sampling.clone(),
    };
    benchmark.elements = entry.elements.as_ref().map(|elements| Elements {
        numerical: elements.numerical,
        categorical: elements.categorical,
        outputs: elements.outputs,
    });
    benchmark.loadgen = LoadGenRows {
        model: entry.loadgen.model.clone(),
        loads_all: entry.loadgen.loads_all,
        performance_samples: entry.loadgen.performance_samples,
        offline_samples: entry.loadgen.offline_samples,
        interactive_samples: entry.loadgen.interactive_samples,
        server_latency: entry.loadgen.server_latency_ns,
    };
}

/// Returns the reference of a target: the one for its scenario, or else the one for all
/// scenarios.
fn reference(
    references: &[ReferenceFile],
    target: &QualityTarget,
    factor: f64,
) -> Option<Reference> {
    let find = |wanted: Option<RuleScenario>| {
        let matches = |r: &&ReferenceFile| {
            r.metric == target.metric && r.scenario.as_deref().map(scenario) == wanted
        };
        references.iter().find(matches)
    };
    let entry = find(target.scenario).or_else(|| find(None))?;
    let has_window = entry.lowest.is_some() || entry.highest.is_some();
    Some(Reference {
        value: entry.value,
        lowest: if has_window { entry.lowest } else { Some(factor) },
        highest: entry.highest,
    })
}
