//! `rounds/benchmarks.toml`: what a benchmark is, whichever round counts it.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use dyno_loadgen::clock::Nanos;
use serde::Deserialize;

use super::file::{PerScenario, per_scenario, scenario, version};
use super::{
    Benchmark, Dataset, Elements, Inference, LoadGenRows, QualityTarget, Reference, Scenario,
    Version,
};

const TEXT: &str = include_str!("../rounds/benchmarks.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    benchmark: Vec<Described>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    since: Option<String>,
    /// Official names with the share of the reference that each asks for.
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

/// The file. It is part of the program, and tests read it.
fn file() -> &'static File {
    static FILE: OnceLock<File> = OnceLock::new();
    FILE.get_or_init(|| toml::from_str(TEXT).expect("the benchmarks are tested"))
}

/// Fills in what a benchmark is.
///
/// # Panics
/// A benchmark that the file does not describe; tests read every round.
pub(super) fn describe(benchmark: &mut Benchmark, round: Version) {
    let is_of = |described: &&Described| {
        described.names.contains_key(&benchmark.name)
            && described.since.iter().all(|since| version(since) <= round)
    };
    let found = file().benchmark.iter().rfind(is_of);
    let found = found.unwrap_or_else(|| panic!("benchmarks.toml has no `{}`", benchmark.name));
    benchmark.factor = found.names[&benchmark.name];
    benchmark.area.clone_from(&found.area);
    benchmark.task.clone_from(&found.task);
    benchmark.model.clone_from(&found.model);
    benchmark.dataset = Dataset {
        name: found.dataset.name.clone(),
        samples: found.dataset.samples,
        sample: found.dataset.sample.clone(),
    };
    let factor = benchmark.factor;
    for target in &mut benchmark.accuracy {
        target.reference = reference(&found.references, target, factor);
    }
    benchmark.percentiles = per_scenario(found.percentiles.clone());
    benchmark.equal_issue = found.equal_issue;
    benchmark.tokens_measured = found.tokens_measured;
    benchmark.inference = Inference {
        beams: found.inference.beams,
        max_input_tokens: found.inference.max_input_tokens,
        min_output_tokens: found.inference.min_output_tokens,
        max_output_tokens: found.inference.max_output_tokens,
        sampling: found.inference.sampling.clone(),
    };
    benchmark.elements = found.elements.as_ref().map(|elements| Elements {
        numerical: elements.numerical,
        categorical: elements.categorical,
        outputs: elements.outputs,
    });
    benchmark.loadgen = LoadGenRows {
        model: found.loadgen.model.clone(),
        loads_all: found.loadgen.loads_all,
        performance_samples: found.loadgen.performance_samples,
        offline_samples: found.loadgen.offline_samples,
        interactive_samples: found.loadgen.interactive_samples,
        server_latency: found.loadgen.server_latency_ns,
    };
}

/// The reference of a target: the one for its scenario, else the one for all.
fn reference(
    references: &[ReferenceFile],
    target: &QualityTarget,
    factor: f64,
) -> Option<Reference> {
    let named = |of: Option<Scenario>| {
        let of_metric = |r: &&ReferenceFile| {
            r.metric == target.metric && r.scenario.as_deref().map(scenario) == of
        };
        references.iter().find(of_metric)
    };
    let found = named(target.scenario).or_else(|| named(None))?;
    let has_window = found.lowest.is_some() || found.highest.is_some();
    Some(Reference {
        value: found.value,
        lowest: if has_window { found.lowest } else { Some(factor) },
        highest: found.highest,
    })
}
