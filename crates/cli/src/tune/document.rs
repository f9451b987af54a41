//! What a tuner found, for programs.

use dyno_number::Network;
use dyno_number::tune::{Answer, End, Outcome, Point, Step, Stop, Subset};
use serde_json::{Value, json};

use super::Provenance;
use crate::environment::VERSION;
use crate::summary::DISCLAIMER;

/// How it ended, in a word.
pub fn state(end: &End) -> &'static str {
    match end {
        End::Complete => "complete",
        End::Stopped(Stop::Interrupted) => "interrupted",
        End::Stopped(Stop::Limit) => "limit",
        End::Stopped(Stop::Failed(_)) => "failed",
    }
}

/// tune.json.
pub fn document(
    network: &Network,
    about: &Value,
    outcome: &Outcome,
    provenance: Option<&Provenance>,
) -> Value {
    let why = match &outcome.end {
        End::Stopped(Stop::Failed(why)) => Some(why),
        _ => None,
    };
    let by_set = |of: &dyn Fn(usize) -> Value| -> Value {
        let sets = Subset::ALL.iter().map(|set| (set.name().to_owned(), of(*set as usize)));
        Value::Object(sets.collect())
    };
    let baselines = by_set(&|set| match &outcome.baselines[set] {
        Some(of) => json!({"accuracy": of.accuracy, "threshold": of.threshold}),
        None => Value::Null,
    });
    json!({
        "schema": "dyno.tune",
        "schema_version": 1,
        "dyno_version": VERSION,
        "official": false,
        "disclaimer": DISCLAIMER,
        "state": state(&outcome.end),
        "why": why,
        "job": about,
        "answer": outcome.answer.as_ref().map(|answer| self::answer(network, answer)),
        "base_objective": outcome.base_objective,
        "objective_unit": network.objective.unit(),
        "baselines": baselines,
        "confirmed_accuracy": outcome.confirmed,
        "evaluations": by_set(&|set| outcome.evaluations[set].into()),
        "recalled": outcome.recalled,
        "same_configuration_twice": outcome.noise,
        "points": outcome.points.iter().map(point).collect::<Vec<_>>(),
        "steps": outcome.steps.iter().map(step).collect::<Vec<_>>(),
        "provenance": provenance,
    })
}

fn answer(network: &Network, answer: &Answer) -> Value {
    let layers = network.layers.len();
    let formats = answer.assignment.formats();
    // Widths of each layer are what simulators of accelerators want to know.
    let layer = |(at, layer): (usize, &dyno_number::network::Layer)| {
        json!({
            "name": layer.name,
            "weight_format": formats[at].to_string(),
            "weight_bits": formats[at].bits(),
            "weight_bytes": (u64::from(formats[at].bits()) * layer.weight_size).div_ceil(8),
            "activation_format": formats[layers + at].to_string(),
            "activation_bits": formats[layers + at].bits(),
            "activation_bytes": (u64::from(formats[layers + at].bits()) * layer.activation_size).div_ceil(8),
            "macs": layer.macs,
        })
    };
    json!({
        "formats": formats_of(answer.assignment.iter()),
        "layers": network.layers.iter().enumerate().map(layer).collect::<Vec<_>>(),
        "objective": answer.objective,
        "accuracy": answer.accuracy,
        "set": answer.subset,
    })
}

fn formats_of<'a>(all: impl Iterator<Item = (&'a str, dyno_number::Format)>) -> Value {
    all.map(|(object, format)| (object.to_owned(), Value::from(format.words()))).collect()
}

fn point(point: &Point) -> Value {
    json!({
        "set": point.subset,
        "formats": point.assignment.to_string(),
        "bits": point.bits,
        "accuracy": point.accuracy,
        "cycles": point.cycles,
        "objective": point.objective,
        "on_front": point.is_on_front,
    })
}

fn step(step: &Step) -> Value {
    let candidates = step.candidates.iter().map(|candidate| {
        json!({
            "change": candidate.change,
            "formats": candidate.assignment.to_string(),
            "objective": candidate.objective,
            "accuracy": candidate.accuracy,
            "is_bound": candidate.is_bound,
            "accepted": candidate.is_accepted,
            "why": candidate.why,
        })
    });
    json!({
        "phase": step.phase.to_string(),
        "set": step.subset,
        "question": step.question,
        "candidates": candidates.collect::<Vec<_>>(),
        "decision": step.decision,
    })
}
