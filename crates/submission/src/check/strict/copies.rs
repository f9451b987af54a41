//! Finds logs that belong to results of two systems or of two benchmarks.
//!
//! Two runs never have the same times and the same results. A run may count for other scenarios of
//! its benchmark and for its lower target, so these are not reported.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use crate::check::catalogue::RESULT_COPIED;
use crate::check::issues::{Issues, Location};
use crate::check::place::Place;
use crate::entry::DivisionFolder;
use crate::facts::detail::DetailLog;
use crate::facts::{Facts, loadgen};
use crate::layout::DETAIL;
use dyno_rules::Benchmark;

/// Times of a run, to the millisecond.
const TIMES: [&str; 2] = ["power_begin", "power_end"];
const VERSION: &str = "loadgen_version";

/// A log of a result or of one of its audits.
#[derive(Debug, Clone)]
pub(super) struct SubmittedLog {
    path: PathBuf,
    /// Hash of the times and the results.
    fingerprint: u64,
    system: PathBuf,
    /// Name of the benchmark without its target.
    model: String,
}

/// Returns the logs of a result that have times. Runs in virtual time may be equal.
pub(super) fn logs_of(place: &Place<'_, '_>, facts: &Facts<'_>) -> Vec<SubmittedLog> {
    let folder = place.entry.folder.path();
    let run = Path::new("performance/run_1");
    let own = [
        (folder.join(run).join(DETAIL), &facts.performance),
        (folder.join("accuracy").join(DETAIL), &facts.accuracy),
    ];
    let of_audits = facts
        .audits
        .iter()
        .map(|audit| (audit.folder.path().join(run).join(DETAIL), &audit.performance));
    let family = place.model.benchmark.map_or(place.model.official.as_str(), Benchmark::family);
    let log = |(path, log): (PathBuf, &Result<DetailLog, _>)| {
        let fingerprint = fingerprint(log.as_ref().ok()?)?;
        let (system, model) = (place.system.folder.path(), family.to_owned());
        Some(SubmittedLog { path, fingerprint, system, model })
    };
    own.into_iter().chain(of_audits).filter_map(log).collect()
}

fn fingerprint(log: &DetailLog) -> Option<u64> {
    let [begin, end] = TIMES.map(|key| log.text(key));
    if begin.is_none() || end.is_none() || loadgen::is_simulated(log.text(VERSION), begin) {
        return None;
    }
    let mut hasher = DefaultHasher::new();
    let counts = |key: &str| key.starts_with("result_") || TIMES.contains(&key);
    for (key, entry) in log.all().filter(|(key, _)| counts(key)) {
        (key, entry.value.to_string()).hash(&mut hasher);
    }
    Some(hasher.finish())
}

/// Logs of a tree, by division and fingerprint.
#[derive(Debug, Default)]
pub(super) struct Copies(BTreeMap<(DivisionFolder, u64), SubmittedLog>);

impl Copies {
    /// Adds a log, or reports that another system or benchmark has it.
    pub(super) fn add(&mut self, division: DivisionFolder, log: SubmittedLog, issues: &mut Issues) {
        let Some(known) = self.0.get(&(division, log.fingerprint)) else {
            self.0.insert((division, log.fingerprint), log);
            return;
        };
        if known.system == log.system && known.model == log.model {
            return;
        }
        let message = format!("has the times and the results of {}", known.path.display());
        issues.add(&RESULT_COPIED, Location::path(&log.path), message);
    }
}
