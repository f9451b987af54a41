//! Document of `dyno probe`: all details of a few queries.

mod answer;
mod text;

use std::collections::BTreeMap;

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::record::{Failure, Misuse, Record};
use dyno_loadgen::settings::Scenario;
use dyno_sut::engine::{EngineInfo, Port};
use serde::Serialize;

pub use answer::Answer;
pub use text::text;

use crate::system::{SampleInput, System};

/// Version of the output of `--json`.
pub const SCHEMA_VERSION: u32 = 1;

/// Name of its schema.
const SCHEMA: &str = "dyno.probe";

/// Result of a probe. Times are ns; times of a query count from its scheduled time.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Probe {
    /// `dyno.probe`
    #[cfg_attr(feature = "schema", schemars(extend("const" = SCHEMA)))]
    pub schema: &'static str,
    /// 1
    #[cfg_attr(feature = "schema", schemars(extend("const" = SCHEMA_VERSION)))]
    pub schema_version: u32,
    /// every sample was answered without irregularities
    pub is_well: bool,
    /// as `--system` names it
    pub system: String,
    /// `real` or `virtual`
    pub time: &'static str,
    /// loading time; null in virtual time
    pub load_ns: Option<Nanos>,
    /// the engine
    pub engine: Engine,
    /// the samples
    pub data: Data,
    /// `SingleStream`, `MultiStream`, `Server` or `Offline`
    pub scenario: &'static str,
    /// time limit for an answer
    pub deadline_ns: Nanos,
    /// in order
    pub queries: Vec<Query>,
    /// calls that the system misused, with their counts
    pub misuse: BTreeMap<&'static str, u64>,
    /// error message of the first failed sample
    pub trouble: Option<String>,
    /// what to do about failed samples; null if unknown
    pub advice: Option<&'static str>,
}

/// The engine.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Engine {
    /// name in the logs
    pub name: String,
    /// name and version of the runtime
    pub runtime: Option<String>,
    /// path of its shared library
    pub library: Option<String>,
    /// execution provider
    pub provider: Option<String>,
    /// maximum number of samples per call; 0 without a limit
    pub largest_batch: usize,
    /// calls before the clock, after the first one
    pub warm_up: usize,
    /// the very first call, which is part of loading
    pub first_call_ns: Option<Nanos>,
    /// inputs of the model
    pub inputs: Vec<Tensor>,
    /// outputs of the model; the first one is the answer
    pub outputs: Vec<Tensor>,
}

/// An input or output of a model.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tensor {
    /// its name
    pub name: String,
    /// type of the elements
    pub element: String,
    /// dimensions; null is dynamic
    pub shape: Vec<Option<usize>>,
}

impl From<&Port> for Tensor {
    fn from(port: &Port) -> Self {
        let (name, element) = (port.name.clone(), port.element.clone());
        Self { name, element, shape: port.shape.clone() }
    }
}

/// The samples.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Data {
    /// of the data set
    pub name: String,
    /// samples in it
    pub samples: u64,
    /// the samples are random numbers
    pub is_random: bool,
    /// distinct labels; null without labels
    pub classes: Option<usize>,
}

/// One query.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Query {
    /// from 1
    pub number: usize,
    /// it is the first one
    pub is_cold: bool,
    /// when it was due, since the start
    pub scheduled_ns: Nanos,
    /// when it was handed to the system, since it was due
    pub issued_ns: Nanos,
    /// completion of its last sample; null if never complete
    pub completed_ns: Option<Nanos>,
    /// number of samples
    pub sample_count: usize,
    /// the first few
    pub samples: Vec<Sample>,
}

/// One sample of a query.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sample {
    /// in the data set
    pub index: u32,
    /// its inputs
    pub inputs: Vec<SampleInput>,
    /// time to first token; null if tokens are not measured
    pub first_token_ns: Option<Nanos>,
    /// completion; null if never complete
    pub completed_ns: Option<Nanos>,
    /// output tokens; null if they are not measured
    pub tokens: Option<i64>,
    /// why there is no answer
    pub failure: Option<&'static str>,
    /// its answer
    pub answer: Option<Answer>,
}

/// Maximum number of listed samples of a query.
const SAMPLES_TOLD: usize = 4;

impl Probe {
    /// Returns the details of a run.
    pub fn from_record(
        system: &System,
        scenario: Scenario,
        load_ns: Nanos,
        deadline_ns: Nanos,
        record: &Record,
    ) -> Self {
        let about = system.about();
        let queries = (0..record.query_count()).map(|q| query(system, &about, record, q));
        let misuse = misuse(&record.misuse, system.remote().is_some());
        let is_answered = record.missing() == 0 && record.failed.is_empty();
        Self {
            schema: SCHEMA,
            schema_version: SCHEMA_VERSION,
            is_well: is_answered && misuse.is_empty() && record.query_count() > 0,
            system: system.spec.clone(),
            time: if system.is_simulated() { "virtual" } else { "real" },
            load_ns: (!system.is_simulated()).then_some(load_ns),
            queries: queries.collect(),
            engine: Engine {
                name: system.engine_name().to_string(),
                library: about.library.as_ref().map(|path| path.display().to_string()),
                inputs: about.inputs.iter().map(Tensor::from).collect(),
                outputs: about.outputs.iter().map(Tensor::from).collect(),
                largest_batch: about.largest_batch,
                warm_up: about.warm_up,
                first_call_ns: about.first_call,
                runtime: about.runtime,
                provider: about.provider,
            },
            data: Data {
                name: system.library.name().to_string(),
                samples: system.library_size().total,
                is_random: system.has_random_samples(),
                classes: system
                    .labels
                    .as_ref()
                    .map(|labels| labels.iter().collect::<std::collections::HashSet<_>>().len()),
            },
            scenario: scenario.name(),
            deadline_ns,
            misuse,
            trouble: system.trouble(),
            advice: system.advice_on_failures().filter(|_| !record.failed.is_empty()),
        }
    }

    /// Returns whether all samples failed.
    fn is_failed(&self) -> bool {
        let mut samples = self.queries.iter().flat_map(|query| &query.samples);
        samples.all(|sample| sample.failure.is_some())
    }

    /// Returns whether samples never completed.
    pub fn is_missing_any(&self) -> bool {
        self.queries.iter().any(|query| query.completed_ns.is_none())
    }
}

fn query(system: &System, about: &EngineInfo, record: &Record, q: usize) -> Query {
    let due = record.scheduled(q);
    let samples = q * record.samples_per_query..(q + 1) * record.samples_per_query;
    let done = |at: Nanos| (at != 0).then(|| at.saturating_sub(due));
    let all = record.completed_at.get(samples.clone()).unwrap_or_default();
    let is_complete = !all.is_empty() && all.iter().all(|&at| at != 0);
    let told = samples.clone().take(SAMPLES_TOLD);
    let sample = |at: usize| {
        let failed = record.failed.iter().find(|(sequence, _)| *sequence == at as u64);
        let index = record.indices[at];
        let payload = record.responses.iter().find(|r| r.sequence == at as u64);
        let is_measured = !record.tokens.is_empty();
        Sample {
            index,
            inputs: system.sample(index),
            first_token_ns: record.first_token_at.get(at).copied().and_then(done),
            completed_ns: record.completed_at.get(at).copied().and_then(done),
            tokens: record.tokens.get(at).copied().filter(|_| is_measured),
            failure: failed.map(|(_, failure)| reason(*failure)),
            answer: payload.filter(|_| failed.is_none()).map(|response| {
                let label = system.labels.as_ref();
                let label = label.and_then(|labels| labels.get(index as usize)).copied();
                let answer = Answer::read(response.data, label, about.outputs.first());
                match system.remote() {
                    Some(remote) => {
                        answer.with_text(response.data, |text| remote.without_secrets(text))
                    }
                    None => answer,
                }
            }),
        }
    };
    Query {
        number: q + 1,
        is_cold: q == 0,
        scheduled_ns: due,
        issued_ns: record.issued_at[q].saturating_sub(due),
        completed_ns: all.iter().copied().max().filter(|_| is_complete).and_then(done),
        sample_count: samples.len(),
        samples: told.map(sample).collect(),
    }
}

fn reason(failure: Failure) -> &'static str {
    match failure {
        Failure::Rejected => "the system refused it",
        Failure::TimedOut => "the system reported a timeout",
        Failure::Disconnected => "the connection to the system was lost",
        Failure::Internal => "the system reported an error",
        Failure::Empty => "the answer has no output",
        Failure::Cut => "the answer ended before it was finished",
        Failure::Aborted => "the system gave up on the answer",
        Failure::Filtered => "a filter of the system withheld the answer",
        Failure::Short => "the answer has fewer tokens than demanded",
        Failure::Cancelled => "the client cancelled it",
        _ => "the system failed",
    }
}

/// Returns the rules that a system broke. A server may answer with one token, whole instead of in parts, or without
/// a count of tokens: a run counts such answers as successes.
fn misuse(misuse: &Misuse, is_server: bool) -> BTreeMap<&'static str, u64> {
    let of_engines = [
        ("samples without a first token", misuse.first_token_missing),
        ("samples with 0 tokens", misuse.tokens_zero),
        ("samples with 1 token, which have no time per output token", misuse.tokens_one),
    ];
    let all = [
        ("samples completed twice", misuse.duplicate),
        ("completions of an earlier run", misuse.stale),
        ("completions of samples that were never issued", misuse.unknown),
        ("first tokens after the last", misuse.first_token_late),
        ("negative counts of tokens", misuse.tokens_negative),
        ("times before the request or after the report", misuse.impossible_times),
    ];
    let of_engines = of_engines.into_iter().filter(|_| !is_server);
    all.into_iter().chain(of_engines).filter(|(_, count)| *count > 0).collect()
}
