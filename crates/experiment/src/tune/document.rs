//! Results of a tuner for programs: `tune.json`. Its schema is generated from these types.

use dyno_number::Network;
use dyno_number::tune::{self, Stop, Subset, TuneEnd, TuneOutcome};
use dyno_results::VERSION;
use dyno_results::summary::DISCLAIMER;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{Provenance, ScenarioReport, margin_verdict};

/// Version of the schema of `tune.json`.
pub const SCHEMA_VERSION: u32 = 1;

/// Result of a tuner, its evaluations, and the reasons of its decisions.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Document {
    /// Always `dyno.tune`.
    pub schema: &'static str,
    /// Version of the schema of this file.
    pub schema_version: u32,
    /// Version of Dyno that wrote it.
    pub dyno_version: &'static str,
    /// Always false.
    pub official: bool,
    /// States that this is not an official MLPerf result.
    pub disclaimer: &'static str,
    /// `complete`, `interrupted`, `limit` (of evaluations) or `failed`.
    pub state: &'static str,
    /// Reason of a failure.
    pub why: Option<String>,
    /// Everything that its decisions depend on: network, formats, search and samples, as in the journal.
    pub job: Value,
    /// The best configuration; null if there is none.
    pub answer: Option<Configuration>,
    /// The objective of FLOAT 32; 0 for an unknown latency.
    pub base_objective: f64,
    /// Unit of objectives; empty for an expression.
    pub objective_unit: &'static str,
    /// FLOAT 32 on each set that was used.
    pub baselines: Sets<Option<Baseline>>,
    /// The metric, `accuracy` unless the descriptor names another one.
    pub metric: String,
    /// Whether a `higher` or a `lower` metric is better.
    pub direction: String,
    /// Objectives at the end of the search and of each restart; empty without restarts.
    pub restart_objectives: Vec<f64>,
    /// Result of the held-out samples about the margin; null if none were held out.
    pub confirmation: Option<Confirmation>,
    /// The answer's accuracy on the confirmation set.
    pub confirmed_accuracy: Option<f64>,
    /// Number of different configurations that were evaluated on each set.
    pub evaluations: Sets<u64>,
    /// Number of samples of each set; null if unknown.
    pub samples: Sets<Option<u64>>,
    /// Number of evaluations that came from the journal.
    pub recalled: u64,
    /// Worst and best accuracy of FLOAT 32 in two evaluations, or in six if these differ.
    pub same_configuration_twice: Option<[f64; 2]>,
    /// All completed evaluations.
    pub points: Vec<Point>,
    /// Steps of the search with their reasons, in order.
    pub steps: Vec<Step>,
    /// Samples by which the answer was chosen, with their hashes; only in closed mode.
    pub provenance: Option<Provenance>,
    /// Throughput of the networks on the NPU; null without `--scenario`.
    pub scenario: Option<ScenarioReport>,
    /// Remarks on the samples and on the result.
    pub remarks: Vec<String>,
}

/// A value for each set of samples.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sets<T> {
    /// Value for the set that the first pass uses.
    pub small: T,
    /// Value for all samples that choose formats.
    pub full: T,
    /// Value for the samples that do not influence the choice.
    pub confirmation: T,
}

/// FLOAT 32 on a set.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Baseline {
    /// Accuracy of FLOAT 32.
    pub accuracy: f64,
    /// Minimum accuracy of a configuration.
    pub threshold: f64,
}

/// A configuration that keeps its accuracy.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Found"))]
pub struct Configuration {
    /// Formats by object, as in a configuration file.
    pub formats: Map<String, Value>,
    /// Formats by layer, for example for simulators of accelerators.
    pub layers: Vec<Layer>,
    /// Value of the objective.
    pub objective: f64,
    /// Accuracy on its set.
    pub accuracy: f64,
    /// The set on which it keeps its accuracy.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub set: Subset,
}

/// Result of the held-out samples about the margin.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Confirmation {
    /// `VALID`, `INVALID` or `UNDECIDED`.
    pub verdict: &'static str,
    /// The verdict in a sentence.
    pub sentence: String,
    /// Share of the metric that may be lost.
    pub margin: f64,
    /// Confidence of the verdict: 0.95.
    pub confidence: f64,
    /// Samples that the search has not seen.
    pub held_out: u64,
    /// Smallest margin that they prove, or could prove at best; null if none.
    pub proven_margin: Option<f64>,
    /// Held-out samples that would be needed, if the verdict is UNDECIDED; null if unknown.
    pub needed: Option<u64>,
    /// Comparisons with FLOAT 32, in order.
    pub looks: Vec<Look>,
}

/// A comparison of a configuration with FLOAT 32 on held-out samples.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Look {
    /// Error probability of this comparison.
    pub level: f64,
    /// Number of held-out samples.
    pub samples: u64,
    /// The configuration.
    pub formats: String,
    /// Objective of the configuration.
    pub objective: f64,
    /// Share of the metric that it loses on these samples.
    pub loss: f64,
    /// Samples that become wrong; null for scores.
    pub broken: Option<u64>,
    /// Samples that become right; null for scores.
    pub fixed: Option<u64>,
    /// Whether the margin is confirmed.
    pub confirmed: bool,
}

/// A layer of the answer.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Layer {
    /// Name in the descriptor.
    pub name: String,
    /// Format of the weights, such as `I3(1)`.
    pub weight_format: String,
    /// Bits of a weight.
    pub weight_bits: u32,
    /// Bytes of all weights, packed.
    pub weight_bytes: u64,
    /// Format of the activations.
    pub activation_format: String,
    /// Bits of an activation.
    pub activation_bits: u32,
    /// Bytes of all activations, packed.
    pub activation_bytes: u64,
    /// Products per sample; 0 if unknown.
    pub macs: u64,
}

/// A configuration as figures.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Point {
    /// The set on which it was evaluated.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub set: Subset,
    /// Formats of weights / activations, layer by layer.
    pub formats: String,
    /// Bits of all weights and activations.
    pub bits: f64,
    /// Accuracy on its set.
    pub accuracy: f64,
    /// Cycles of a bit-serial accelerator; null if products are unknown.
    pub cycles: Option<f64>,
    /// Value of the objective.
    pub objective: f64,
    /// Whether it is on the Pareto front of its set: no other is as small, as accurate and as fast.
    pub on_front: bool,
    /// Note of the evaluator, such as why a program failed.
    pub note: Option<String>,
}

/// A step of the search: its candidates and the decision.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Step {
    /// `coarse`, `bias`, `width`, `type`, `recovery`, `search` or `confirmation`.
    pub phase: String,
    /// Set on which the candidates were evaluated.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub set: Subset,
    /// Question, in words.
    pub question: String,
    /// Candidates of the step.
    pub candidates: Vec<Candidate>,
    /// Decision, in words.
    pub decision: String,
}

/// A candidate of a step.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Candidate {
    /// Change, in words.
    pub change: String,
    /// Formats after the change.
    pub formats: String,
    /// Objective of this configuration.
    pub objective: f64,
    /// Accuracy as evaluated.
    pub accuracy: f64,
    /// Whether the evaluation ended early; the accuracy is then an upper limit.
    pub is_bound: bool,
    /// Whether it was accepted.
    pub accepted: bool,
    /// Reason of the decision.
    pub why: String,
    /// Note of the evaluator, such as why a program failed.
    pub note: Option<String>,
}

/// Returns how tuning ended, in one word.
fn state(end: &TuneEnd) -> &'static str {
    match end {
        TuneEnd::Complete => "complete",
        TuneEnd::Stopped(Stop::Interrupted) => "interrupted",
        TuneEnd::Stopped(Stop::Limit) => "limit",
        TuneEnd::Stopped(Stop::Failed(_)) => "failed",
    }
}

fn sets<T>(of: impl Fn(usize) -> T) -> Sets<T> {
    let [small, full, confirmation] = Subset::ALL.map(|set| of(set as usize));
    Sets { small, full, confirmation }
}

/// Returns the document `tune.json`.
pub fn document(
    network: &Network,
    about: &Value,
    remarks: &[String],
    outcome: &TuneOutcome,
    provenance: Option<&Provenance>,
    scenario: Option<&ScenarioReport>,
) -> Document {
    let why = match &outcome.end {
        TuneEnd::Stopped(Stop::Failed(why)) => Some(why.clone()),
        _ => None,
    };
    let baseline = |of: tune::Baseline| Baseline { accuracy: of.accuracy, threshold: of.threshold };
    Document {
        schema: "dyno.tune",
        schema_version: SCHEMA_VERSION,
        dyno_version: VERSION,
        official: false,
        disclaimer: DISCLAIMER,
        state: state(&outcome.end),
        why,
        job: about.clone(),
        answer: outcome.answer.as_ref().map(|answer| found(network, answer)),
        base_objective: outcome.base_objective,
        objective_unit: network.objective.unit(),
        baselines: sets(|set| outcome.baselines[set].map(baseline)),
        metric: network.metric.name.clone(),
        direction: network.metric.direction.to_string(),
        restart_objectives: outcome.restarts.clone(),
        confirmation: outcome.confirmation.as_ref().map(|found| confirmation(network, found)),
        confirmed_accuracy: outcome.confirmed,
        evaluations: sets(|set| outcome.evaluations[set]),
        samples: sets(|set| outcome.samples[set]),
        recalled: outcome.recalled,
        same_configuration_twice: outcome.noise,
        points: outcome.points.iter().map(point).collect(),
        steps: outcome.steps.iter().map(step).collect(),
        provenance: provenance.cloned(),
        scenario: scenario.cloned(),
        remarks: remarks.to_vec(),
    }
}

fn confirmation(network: &Network, found: &tune::Confirmation) -> Confirmation {
    let look = |look: &tune::Look| Look {
        level: look.level,
        samples: look.samples,
        formats: look.assignment.to_string(),
        objective: look.objective,
        loss: if look.loss.is_finite() { look.loss } else { f64::MAX },
        broken: look.changed.map(|[broken, _]| broken),
        fixed: look.changed.map(|[_, fixed]| fixed),
        confirmed: look.is_confirmed,
    };
    Confirmation {
        verdict: found.verdict.word(),
        sentence: margin_verdict(network, found),
        margin: found.margin,
        confidence: 1.0 - found.level,
        held_out: found.held_out,
        proven_margin: Some(found.proven_margin).filter(|margin| margin.is_finite()),
        needed: found.needed.filter(|needed| *needed < u64::MAX),
        looks: found.looks.iter().map(look).collect(),
    }
}

fn found(network: &Network, answer: &tune::TuneAnswer) -> Configuration {
    let formats = answer.assignment.formats();
    let bytes = |at: usize, size: u64| (u64::from(formats[at].bits()) * size).div_ceil(8);
    let layer = |(at, layer): (usize, &dyno_number::network::Layer)| {
        let activation = network.layers.len() + at;
        Layer {
            name: layer.name.clone(),
            weight_format: formats[at].to_string(),
            weight_bits: formats[at].bits(),
            weight_bytes: bytes(at, layer.weight_size),
            activation_format: formats[activation].to_string(),
            activation_bits: formats[activation].bits(),
            activation_bytes: bytes(activation, layer.activation_size),
            macs: layer.macs,
        }
    };
    let named = |(object, format): (&str, dyno_number::Format)| {
        (object.to_owned(), Value::from(format.words()))
    };
    Configuration {
        formats: answer.assignment.iter().map(named).collect(),
        layers: network.layers.iter().enumerate().map(layer).collect(),
        objective: answer.objective,
        accuracy: answer.accuracy,
        set: answer.subset,
    }
}

fn point(point: &tune::Point) -> Point {
    Point {
        set: point.subset,
        formats: point.assignment.to_string(),
        bits: point.bits,
        accuracy: point.accuracy,
        cycles: point.cycles,
        objective: point.objective,
        on_front: point.is_on_front,
        note: point.note.clone(),
    }
}

fn step(step: &tune::Step) -> Step {
    let candidate = |candidate: &tune::Candidate| Candidate {
        change: candidate.change.clone(),
        formats: candidate.assignment.to_string(),
        objective: candidate.objective,
        accuracy: candidate.accuracy,
        is_bound: candidate.is_bound,
        accepted: candidate.is_accepted,
        why: candidate.why.clone(),
        note: candidate.note.clone(),
    };
    Step {
        phase: step.phase.to_string(),
        set: step.subset,
        question: step.question.clone(),
        candidates: step.candidates.iter().map(candidate).collect(),
        decision: step.decision.clone(),
    }
}
