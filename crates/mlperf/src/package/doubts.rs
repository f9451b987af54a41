//! Why a result may not count, as far as a look at what is packed tells: a check of
//! the tree tells all.

use std::fs;

use super::plan::Planned;
use super::runs::{AuditFiles, Found, Part};
use crate::round::{Benchmark, Round, Version};
use crate::submission::entry::Division;

/// A text in which an audit says how it went.
const VERDICTS: [&str; 3] =
    ["verify_accuracy.txt", "verify_performance.txt", "verify_output_len.txt"];

/// Beside an accuracy that is not the same: the two that are to be as good.
const WAY_OUT: &str = "baseline_accuracy.txt";

/// What the logs of the runs show.
pub(super) fn of_runs(round: &Round, found: &Found) -> Vec<String> {
    let mut doubts = Vec::new();
    let seeds = round.seeds;
    for test in &found.tests {
        let (name, folder) = (test.scenario.name(), test.folder.display());
        let of = format!("{name} {} ({folder})", test.part.name());
        let validity = test.detail.text("result_validity");
        match (test.part, validity) {
            (_, Some("VALID")) | (Part::Accuracy, None) => {}
            (_, Some(other)) => doubts.push(format!("{of}: the log says {other}")),
            (Part::Performance, None) => {
                doubts.push(format!("{of}: the log has no verdict; was the run interrupted?"));
            }
        }
        if test.part == Part::Accuracy {
            continue;
        }
        let seed = |key: &str| test.detail.whole(&format!("effective_{key}_rng_seed"));
        let found = [seed("qsl"), seed("sample_index"), seed("schedule")];
        let official = [Some(seeds.qsl), Some(seeds.sample_index), Some(seeds.schedule)];
        if found != official {
            doubts.push(format!("{of}: the seeds are not those of round {}", round.version));
        }
        // v0.5 and v0.7 asked for a minute.
        let least = if round.version < Version::new(1, 0) { 60_000 } else { 600_000 };
        if let Some(ms) = test.detail.whole("effective_min_duration_ms").filter(|&ms| ms < least) {
            doubts.push(format!("{of}: asked for {ms} ms at least, the rules for {least} ms"));
        }
    }
    doubts
}

/// Audits that did not pass, and those that the division asks for and nobody brought.
pub(super) fn of_audits(
    division: Division,
    benchmark: &Benchmark,
    results: &[Planned<'_>],
) -> Vec<String> {
    let mut doubts = Vec::new();
    for result in results {
        let name = result.scenario.name();
        doubts.extend(result.audits.iter().copied().filter_map(failed));
        if !division.is_closed_or_network() {
            continue;
        }
        let is_there = |test: &&String| result.audits.iter().any(|audit| audit.name == **test);
        let missing = benchmark.audits.iter().filter(|test| !is_there(test));
        doubts.extend(missing.map(|test| format!("{name}: there is no {test}: dyno audit {test}")));
    }
    doubts
}

fn failed(audit: &AuditFiles) -> Option<String> {
    let says_fail = |file: &&&str| {
        let text = fs::read_to_string(audit.folder.join(file)).unwrap_or_default();
        text.contains("TEST FAIL")
    };
    let file = VERDICTS.iter().find(says_fail)?;
    let is_forgiven = *file == VERDICTS[0] && audit.folder.join(WAY_OUT).exists();
    let (scenario, name) = (audit.scenario.name(), &audit.name);
    let of = format!("{scenario} {name} ({})", audit.folder.display());
    (!is_forgiven).then(|| format!("{of}: {file} says TEST FAIL"))
}
