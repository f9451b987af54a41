//! The table of options with their needs.

use dyno_loadgen::settings::Scenario;

use super::need::{self, Need};
use super::{Facts, UnmetNeed};

use crate::options::KeyOrigin;

use Need::{Accuracy, Other, Performance, System};

/// An option with its needs. Without needs it takes effect in every run.
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
    ("num-prompts", &[Performance]),
    ("max-concurrency", &[System, Need::Scenario(Scenario::Server)]),
    ("burstiness", &[Need::Scenario(Scenario::Server), Other("a rate", need::burstiness)]),
    (
        "stages",
        &[
            Performance,
            Need::Scenario(Scenario::Server),
            Other("no other load or length", need::stages),
        ],
    ),
    (
        "ramp",
        &[
            Performance,
            Need::Scenario(Scenario::Server),
            Other("one rate or concurrency", need::ramp),
        ],
    ),
    ("seed", &[]),
    ("deadline", &[]),
    ("fail-fast", &[Other("real time", need::real_time)]),
    (
        "stop-on-saturation",
        &[
            Need::Scenario(Scenario::Server),
            Other("real time, without remote workers", need::saturable),
        ],
    ),
    ("model", &[System, Other("a system without a model in its name", need::model)]),
    ("data", &[System]),
    ("shape", &[System, Other("random samples", need::random_samples)]),
    ("labels", &[System, Accuracy]),
    ("with", &[System]),
    ("ort-lib", &[System]),
    ("samples", &[Other("generated samples, or a file with more prompts", need::samples)]),
    ("workers", &[System]),
    ("remote-workers", &[]),
    ("listen", &[Other("`remote_workers`", need::remote_workers)]),
    ("threads", &[System, Other("an engine that spreads a call over threads", need::threads)]),
    ("cores", &[System, Other("workers, without --workers 0", need::own_threads)]),
    ("warm-up", &[System]),
    ("ready-timeout", &[System]),
    ("batch", &[System, Other("workers, or queries of several samples", need::batches)]),
    ("batch-wait", &[System, Other("workers, and batches of several samples", need::batch_wait)]),
    ("accuracy-target", &[Accuracy, Other("labels, references or a task's method", need::scored)]),
    ("require", &[Other("a performance test of its scenario, and its measurement", need::require)]),
    ("goodput", &[Performance, Other("tokens, for ttft and tpot", need::goodput)]),
    ("percentile-metrics", &[System, Performance]),
    ("metric-percentiles", &[System, Performance]),
    ("equivalence", &[]),
    ("virtual", &[]),
    ("conf", &[]),
    ("conf-model", &[]),
    ("audit", &[]),
    ("out", &[]),
    ("name", &[]),
    ("trace-log", &[]),
    ("texts", &[System, Other("no remote workers", need::texts)]),
    ("records", &[Performance]),
];

fn row(key: &str) -> Option<&'static Row> {
    ROWS.iter().find(|(name, _)| *name == key)
}

/// Returns the needs of an option in a few words; empty if it takes effect in every run.
pub fn needs_of(key: &str) -> String {
    let needs = row(key).map_or(&[][..], |(_, needs)| needs);
    needs.iter().map(|need| need.words(key)).collect::<Vec<_>>().join("; ")
}

/// Returns why an option has no effect; `None` if it has one.
pub fn unmet(given: &KeyOrigin, facts: &Facts<'_>) -> Option<UnmetNeed> {
    let (key, needs) = row(given.key)?;
    needs.iter().find_map(|need| need.unmet(key, facts))
}

/// Returns why the system ignores an option in every run.
pub fn of_system(given: &KeyOrigin, facts: &Facts<'_>) -> Option<UnmetNeed> {
    let (key, needs) = row(given.key)?;
    let asks_system = |need: &&Need| {
        matches!(need, System) || (matches!(*key, "threads" | "cores") && matches!(need, Other(..)))
    };
    needs.iter().filter(asks_system).find_map(|need| need.unmet(key, facts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::KEYS;

    #[test]
    fn every_key_of_a_run_has_a_row() {
        let mut names: Vec<&str> = ROWS.iter().map(|(name, _)| *name).collect();
        let mut keys: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
        names.sort_unstable();
        keys.sort_unstable();
        assert_eq!(names, keys, "a key needs a row with what it needs to take effect");
    }

    #[test]
    fn systems_accept_options_of_the_table() {
        for kind in crate::system::SYSTEMS {
            for key in kind.accepts {
                let (_, needs) = row(key).unwrap_or_else(|| panic!("{}: {key}", kind.name));
                assert!(needs.iter().any(|need| matches!(need, System)), "{}: {key}", kind.name);
            }
        }
    }
}
