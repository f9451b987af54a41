//! The table of options: what each needs to take effect.

use dyno_loadgen::settings::Scenario;

use super::need::{self, Need};
use super::{Facts, Unmet};

use crate::options::Given;

use Need::{Accuracy, Other, Performance, Systems};

/// Systems that compute in this process.
const COMPUTING: &[&str] = &["digits", "digits-lstm", "onnx", "tract", "tuned", "rnn", "task"];
/// Those, and simulated ones that share queries among servers.
const WITH_WORKERS: &[&str] =
    &["digits", "digits-lstm", "onnx", "tract", "tuned", "rnn", "task", "model"];
/// Systems whose model is a file of their own.
const OF_MODELS: &[&str] = &["onnx", "tract", "tuned"];
const WITH_DATA: &[&str] = &["onnx", "tract", "tuned", "rnn", "oip", "oip-grpc", "openai", "raw"];
const WITH_LABELS: &[&str] = &["onnx", "tract", "tuned", "rnn", "oip", "oip-grpc"];
const WITH_SHAPES: &[&str] = &["onnx", "tract", "tuned", "oip", "oip-grpc"];

/// An option with what it needs; nothing, and it takes effect in every run.
type Row = (&'static str, &'static [Need]);

/// Every key of a run.
pub const ROWS: &[Row] = &[
    ("system", &[]),
    ("round", &[]),
    ("benchmark", &[]),
    ("scenario", &[]),
    ("mode", &[]),
    ("profile", &[]),
    ("duration", &[Performance]),
    ("qps", &[Need::Scenario(Scenario::Server)]),
    ("seed", &[]),
    ("deadline", &[]),
    ("fail-fast", &[Other("real time", need::real_time)]),
    ("model", &[Systems(OF_MODELS), Other("a system that names no model", need::model)]),
    ("data", &[Systems(WITH_DATA)]),
    ("shape", &[Systems(WITH_SHAPES), Other("random samples", need::random_samples)]),
    ("labels", &[Systems(WITH_LABELS), Accuracy]),
    ("with", &[Systems(&["task", "rnn"])]),
    ("ort-lib", &[Systems(&["onnx", "task"])]),
    (
        "samples",
        &[Other("samples that are made, or a file of prompts that has more", need::samples)],
    ),
    ("workers", &[Systems(WITH_WORKERS)]),
    ("remote-workers", &[]),
    ("listen", &[Other("`remote_workers`", need::remote_workers)]),
    (
        "threads",
        &[Systems(COMPUTING), Other("an engine that spreads a call over threads", need::threads)],
    ),
    (
        "cores",
        &[Systems(COMPUTING), Other("workers, or none that are asked for", need::own_threads)],
    ),
    ("warm-up", &[Systems(COMPUTING)]),
    (
        "batch",
        &[Systems(WITH_WORKERS), Other("workers, or queries of several samples", need::batches)],
    ),
    ("batch-wait", &[Systems(WITH_WORKERS), Other("workers", need::batches)]),
    ("accuracy-target", &[Accuracy, Other("labels, references or a task's method", need::scored)]),
    ("require", &[Other("a performance test of its scenario, and its measurement", need::require)]),
    ("goodput", &[Performance, Other("tokens, for ttft and tpot", need::goodput)]),
    ("equivalence", &[]),
    ("virtual", &[]),
    ("conf", &[]),
    ("conf-model", &[]),
    ("audit", &[]),
    ("out", &[]),
    ("name", &[]),
    ("trace-log", &[]),
    ("records", &[Performance]),
];

fn row(key: &str) -> Option<&'static Row> {
    ROWS.iter().find(|(name, _)| *name == key)
}

/// What an option needs, in a few words; empty if it takes effect in every run.
pub fn needs_of(key: &str) -> String {
    let needs = row(key).map_or(&[][..], |(_, needs)| needs);
    needs.iter().map(Need::words).collect::<Vec<_>>().join("; ")
}

/// Why an option takes no effect; `None` if it does.
pub fn unmet(given: &Given, facts: &Facts<'_>) -> Option<Unmet> {
    let (_, needs) = row(given.key)?;
    needs.iter().find_map(|need| need.unmet(facts))
}

/// Why the system ignores an option, whatever is run.
pub fn of_system(given: &Given, facts: &Facts<'_>) -> Option<Unmet> {
    let (key, needs) = row(given.key)?;
    let asks_system = |need: &&Need| {
        matches!(need, Systems(_))
            || (matches!(*key, "threads" | "cores") && matches!(need, Other(..)))
    };
    needs.iter().filter(asks_system).find_map(|need| need.unmet(facts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::KEYS;

    #[test]
    fn every_key_of_a_run_has_a_row() {
        let names: Vec<&str> = ROWS.iter().map(|(name, _)| *name).collect();
        let keys: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
        assert_eq!(names, keys, "a key needs a row with what it needs to take effect");
    }

    #[test]
    fn systems_of_the_table_exist() {
        let known: Vec<&str> =
            crate::system::SYSTEMS.iter().filter_map(|(name, _)| name.split(':').next()).collect();
        for (key, needs) in ROWS {
            for need in *needs {
                if let Systems(systems) = need {
                    let unknown = systems.iter().find(|system| !known.contains(system));
                    assert_eq!(unknown, None, "{key}");
                }
            }
        }
    }
}
