//! Reasons for which results may not count, as far as packaging can see. A check of the tree
//! reports all problems.

use dyno_loadgen::log::read::{Detail, read_detail_file};
use dyno_rules::{Benchmark, Round, RuleScenario, Version};
use dyno_tensors::files;

use super::plan::PlannedResult;
use super::runs::{AuditFiles, RunContents, TestPart};
use crate::audit::AuditTest;
use crate::entry::DivisionFolder;
use crate::layout::DETAIL;

const ACCURACY: &str = "verify_accuracy.txt";
const PERFORMANCE: &str = "verify_performance.txt";
const OUTPUT_LENGTH: &str = "verify_output_len.txt";

/// Files that replace equal answers in TEST01: two accuracies that are close enough.
const ACCURACIES: [&str; 2] =
    ["accuracy/baseline_accuracy.txt", "accuracy/compliance_accuracy.txt"];

/// Returns the problems in the logs of the runs.
pub(super) fn run_doubts(round: &Round, benchmark: &Benchmark, found: &RunContents) -> Vec<String> {
    let mut doubts = Vec::new();
    let seeds = round.seeds;
    for test in &found.tests {
        let (name, folder) = (test.scenario.name(), test.folder.display());
        let run = format!("{name} {} ({folder})", test.part.name());
        let validity = test.detail.text("result_validity");
        match (test.part, validity) {
            (_, Some("VALID")) | (TestPart::Accuracy, None) => {}
            (_, Some(other)) => doubts.push(format!("{run}: the log has {other}")),
            (TestPart::Performance, None) => {
                doubts.push(format!("{run}: the log has no verdict; was the run interrupted?"));
            }
        }
        for key in ["effective_performance_issue_same", "effective_performance_issue_unique"] {
            if test.detail.flag(key) == Some(true) {
                doubts.push(format!("{run}: {key} is true, which only audits permit"));
            }
        }
        if test.part == TestPart::Accuracy {
            let scored = test.quality.map(|quality| quality.scored);
            let samples = test.detail.whole("effective_accuracy_sample_count");
            if let (Some(scored), Some(samples)) = (scored, samples)
                && scored < samples
            {
                doubts.push(format!("{run}: {scored} of {samples} samples were scored"));
            }
            continue;
        }
        let seed = |key: &str| test.detail.whole(&format!("effective_{key}_rng_seed"));
        let logged = [seed("qsl"), seed("sample_index"), seed("schedule")];
        let official = [Some(seeds.qsl), Some(seeds.sample_index), Some(seeds.schedule)];
        if logged != official {
            doubts.push(format!("{run}: the seeds differ from those of round {}", round.version));
        }
        let short = too_short(round, benchmark, test.scenario, &test.detail);
        doubts.extend(short.map(|why| format!("{run}: {why}")));
    }
    doubts
}

/// Returns a message if the minimum duration of a run is below that of the round.
fn too_short(
    round: &Round,
    benchmark: &Benchmark,
    scenario: RuleScenario,
    detail: &Detail,
) -> Option<String> {
    let least = round.min_duration_ms(benchmark, scenario)?;
    let ms = detail.whole("effective_min_duration_ms").filter(|ms| *ms < least)?;
    Some(format!("the minimum duration is {ms} ms, but the rules require {least} ms"))
}

/// Returns required audits that failed or are missing. Failures of other audits are added to
/// `notes`.
pub(super) fn audit_doubts(
    round: &Round,
    division: DivisionFolder,
    benchmark: &Benchmark,
    results: &[PlannedResult<'_>],
    notes: &mut Vec<String>,
) -> Vec<String> {
    let mut doubts = Vec::new();
    let is_wanted =
        |test: &String| division.is_closed_or_network() && benchmark.audits.contains(test);
    for result in results {
        let name = result.scenario.name();
        // An inferred result has the audits of its source.
        for audit in result.audits.iter().filter(|_| result.scenario == result.run) {
            match failure(audit) {
                Some(doubt) if is_wanted(&audit.name) => doubts.push(doubt),
                Some(note) => notes.push(format!("{note}; the result counts without this audit")),
                None => {}
            }
            let test = AuditTest::named(&audit.name).filter(|test| test.is_judged_as_run());
            let is_judged = round.version >= Version::new(2, 1) && test.is_some();
            let log = audit.folder.join("performance/run_1").join(DETAIL);
            if is_judged
                && is_wanted(&audit.name)
                && let Ok((detail, _)) = read_detail_file(&log)
            {
                let short = too_short(round, benchmark, result.run, &detail);
                let (test, folder) = (&audit.name, audit.folder.display());
                doubts.extend(short.map(|why| format!("{name} {test} ({folder}): {why}")));
            }
        }
        let is_there = |test: &&String| result.audits.iter().any(|audit| audit.name == **test);
        let missing = benchmark.audits.iter().filter(|test| is_wanted(test) && !is_there(test));
        doubts.extend(missing.map(|test| format!("{name}: {test} is missing: dyno audit {test}")));
    }
    doubts
}

/// Returns the files in which an audit states that it passed, with the required lines.
fn required_lines(audit: &str) -> &'static [(&'static str, &'static [&'static str])] {
    const PASS: &[&str] = &["TEST PASS"];
    const TOKENS: &[&str] = &["EOS check pass: True", "Sample length check pass: True"];
    match audit {
        "TEST01" => &[(ACCURACY, PASS), (PERFORMANCE, PASS)],
        "TEST03" | "TEST04" | "TEST04-A" | "TEST05" => &[(PERFORMANCE, PASS)],
        "TEST06" => &[(ACCURACY, TOKENS)],
        "TEST07" | "TEST08" => &[(ACCURACY, PASS)],
        "TEST09" => &[(OUTPUT_LENGTH, PASS)],
        // TEST04-B is recorded with TEST04-A.
        _ => &[],
    }
}

/// Returns why an audit failed by its own files, or `None`.
fn failure(audit: &AuditFiles) -> Option<String> {
    let has_accuracies =
        audit.name == "TEST01" && ACCURACIES.iter().all(|path| audit.folder.join(path).is_file());
    let problem = |(file, wanted): &(&str, &[&str])| {
        if *file == ACCURACY && has_accuracies {
            return None;
        }
        let Ok(bytes) = files::read(audit.folder.join(file)) else {
            return Some(format!("{file} is missing"));
        };
        let text = String::from_utf8_lossy(&bytes);
        let has = |wanted: &str| text.lines().any(|line| line.trim() == wanted);
        if text.contains("TEST FAIL") {
            return Some(format!("{file} contains TEST FAIL"));
        }
        let first =
            text.lines().find_map(|line| line.trim().strip_prefix("First token check pass: "));
        if audit.name == "TEST06" && !matches!(first, Some("True" | "Skipped")) {
            return Some(format!("{file} does not contain `First token check pass: True`"));
        }
        let missing = wanted.iter().find(|wanted| !has(wanted))?;
        Some(format!("{file} does not contain `{missing}`"))
    };
    let problem = required_lines(&audit.name).iter().find_map(problem)?;
    let (scenario, name) = (audit.scenario.name(), &audit.name);
    Some(format!("{scenario} {name} ({}): {problem}", audit.folder.display()))
}
