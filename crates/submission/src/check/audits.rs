//! Checks the audits of a result by the files in the submission.

use super::catalogue::*;
use super::files;
use super::issues::{Issues, Location};
use super::performance::Run;
use super::{Place, Program};
use crate::facts::text::TextFile;
use crate::facts::{Audit, Facts, ReadError};
use crate::layout::{ACCURACY_LOG, ACCURACY_TEXT, DETAIL, SUMMARY};
use dyno_rules::accuracy::{AccuracyText, MetricValue};

const PASS: &str = "TEST PASS";
/// Audits of the rounds up to v2.0. The checkers check only the existence of their run files.
const EARLY: [&str; 3] = ["TEST03", "TEST04-A", "TEST04-B"];

/// Judges all audits of the model.
pub fn judge(place: &Place<'_, '_>, facts: &Facts<'_>, issues: &mut Issues) {
    let wanted = place.audits();
    let Some(folder) = place.entry.compliance else {
        if !wanted.is_empty() && !has_no_run(place, facts, issues.program()) {
            let path = place.entry.folder.path();
            issues.add(&AUDIT_FOLDER, Location::path(&path), "the result has no audits");
        }
        return;
    };
    // If TEST06 is among the audits, the single-file checker checks no runs.
    let looks_at_runs = issues.program().one_file().is_none() || !wanted.contains(&"TEST06");
    let mut runs = PreviousRuns::default();
    for name in wanted {
        let path = folder.path().join(name);
        match facts.audit(name) {
            None => {
                issues.add(
                    &AUDIT_TEST_MISSING,
                    Location::path(&path),
                    format!("{name} is missing"),
                );
            }
            Some(audit) if looks_at_runs => self::audit(place, audit, Some(&mut runs), issues),
            Some(audit) => self::audit(place, audit, None, issues),
        }
    }
}

/// Whether the rules require no audits of a result because it is inferred. Before v2.1 they
/// require one of each audit for each run.
fn has_no_run(place: &Place<'_, '_>, facts: &Facts<'_>, program: Program) -> bool {
    let played = facts.performance.as_ref().ok().and_then(|log| log.text("effective_scenario"));
    let is_inferred = played.zip(place.scenario).is_some_and(|(one, other)| one != other.name());
    program == Program::Strict && place.reads_audits_as_texts() && is_inferred
}

/// Whether a checker up to v2.0 writes 1 in the column of audits. Each run overwrites the verdict on
/// the run before, so that TEST05, the last, decides with the texts of TEST01.
pub(super) fn pass_in_table(facts: &Facts<'_>) -> bool {
    let last_passes = facts.audit("TEST05").is_some_and(|audit| {
        let text = audit.verify_performance.as_ref();
        let has_run = audit.folder.below("performance/run_1").is_some();
        has_run && text.is_ok_and(|text| text.text.contains(PASS))
    });
    let first_exists = facts.audit("TEST01").is_some_and(|audit| {
        audit.verify_accuracy.is_ok() && audit.folder.child("accuracy").is_some()
    });
    last_passes && first_exists
}

/// What a single-file checker knows of the audits before the present one.
struct PreviousRuns {
    /// Whether the last run that it could read is valid. It takes this for the verdict on a run that
    /// it cannot read, and crashes if there is none.
    last: Option<bool>,
    /// Whether all runs and their texts pass. After the first that does not, it reads no further text.
    passes: bool,
}

impl Default for PreviousRuns {
    fn default() -> Self {
        Self { last: None, passes: true }
    }
}

impl PreviousRuns {
    /// Judges the run of an audit and its text as a single-file checker does, from v2.1 on.
    fn judge(&mut self, place: &Place<'_, '_>, audit: &Audit<'_>, issues: &mut Issues) {
        let (mut run, mut texts) = (issues.another(), issues.another());
        performance(place, audit, &mut run);
        verify_performance(audit, &mut texts);
        let unread = [&RUN_UNREADABLE, &RUN_KEY, &AUDIT_RUN_MISSING];
        if unread.iter().all(|check| run.has_none_of(check.id)) {
            self.last = Some(run.passes());
        } else if self.passes && texts.passes() {
            match self.last {
                Some(true) => run.waive(ALL),
                Some(false) => {}
                None => {
                    let path = audit.folder.path().join("performance/run_1").join(DETAIL);
                    run.crash(Location::path(&path), "the run of the first audit cannot be read");
                }
            }
        }
        if self.passes {
            crash_in_performance(audit, &mut texts);
        }
        self.passes &= run.passes() && texts.passes();
        issues.append(run);
        issues.append(texts);
    }
}

/// Reports what ends a single-file checker while it reads the performance of an audit.
fn crash_in_performance(audit: &Audit<'_>, issues: &mut Issues) {
    crash_in_text(audit, &audit.verify_performance, "verify_performance.txt", issues);
    crash_in_folder(audit, "performance/run_1", issues);
}

/// Reports a text that is not UTF-8, or a folder in its place, which ends a single-file checker.
fn crash_in_text(
    audit: &Audit<'_>,
    text: &Result<TextFile, ReadError>,
    name: &str,
    issues: &mut Issues,
) {
    if issues.program().one_file().is_some() && text.as_ref().is_ok_and(|text| !text.is_utf8) {
        let path = audit.folder.path().join(name);
        issues.crash(Location::path(&path), "the text is not UTF-8");
    }
    files::crash_at_folder(audit.folder, name, issues);
}

/// Reports a file in place of a folder, which a single-file checker lists.
fn crash_in_folder(audit: &Audit<'_>, name: &str, issues: &mut Issues) {
    if issues.program().one_file().is_some() && audit.folder.file(name).is_some() {
        let path = audit.folder.path().join(name);
        issues.crash(Location::path(&path), "a file is in place of a folder");
    }
}

fn audit(
    place: &Place<'_, '_>,
    audit: &Audit<'_>,
    runs: Option<&mut PreviousRuns>,
    issues: &mut Issues,
) {
    let is_one_file = issues.program().one_file().is_some();
    let is_early = EARLY.contains(&audit.name.as_str());
    let has_run = match audit.name.as_str() {
        "TEST06" => false,
        name => is_one_file || matches!(name, "TEST01" | "TEST04" | "TEST05"),
    };
    match runs {
        Some(runs) if has_run && !is_early && is_one_file && !place.reads_audits_as_texts() => {
            runs.judge(place, audit, issues);
        }
        Some(_) if has_run && !is_early => {
            if !place.reads_audits_as_texts() {
                performance(place, audit, issues);
            }
            verify_performance(audit, issues);
            crash_in_performance(audit, issues);
        }
        _ => {}
    }
    match audit.name.as_str() {
        // This second run of the pair has no text of its own; it is compared with the first run.
        "TEST04-B" => run_files(audit, issues),
        _ if is_early => {
            verify_performance(audit, issues);
            crash_in_performance(audit, issues);
        }
        "TEST01" => first_audit(place, audit, issues),
        "TEST06" => tokens(audit, issues),
        "TEST07" => {
            passes(audit, &audit.verify_accuracy, "verify_accuracy.txt", &AUDIT_ACCURACY, issues);
        }
        "TEST08" => {
            if let Some(text) = text(audit, &audit.verify_accuracy, "verify_accuracy.txt", issues)
                && !text.has_line(PASS)
            {
                fails(audit, "verify_accuracy.txt", &AUDIT_ACCURACY, issues);
            }
        }
        "TEST09" => {
            let name = "verify_output_len.txt";
            passes(audit, &audit.verify_output_length, name, &AUDIT_OUTPUT_LENGTH, issues);
        }
        _ => {}
    }
}

/// Returns a text that the audit must have, or reports that it is missing.
fn text<'a>(
    audit: &Audit<'_>,
    text: &'a Result<TextFile, ReadError>,
    name: &str,
    issues: &mut Issues,
) -> Option<&'a TextFile> {
    if text.is_err() {
        let path = audit.folder.path().join(name);
        issues.add(&AUDIT_TEXT_MISSING, Location::path(&path), format!("{name} is missing"));
    }
    text.as_ref().ok()
}

fn fails(audit: &Audit<'_>, name: &str, check: &'static Check, issues: &mut Issues) {
    let path = audit.folder.path().join(name);
    issues.add(check, Location::path(&path), format!("{name} does not contain {PASS}"));
}

/// Checks that a text contains the passing line: by the rules as a whole line, in the official
/// checkers anywhere.
fn passes(
    audit: &Audit<'_>,
    file: &Result<TextFile, ReadError>,
    name: &str,
    check: &'static Check,
    issues: &mut Issues,
) {
    let has_pass = |text: &TextFile| match issues.program() {
        Program::Strict => text.has_line(PASS),
        Program::Mono | Program::Tag(_) => text.text.contains(PASS),
        // A text that does not decode is an exception, and so a failed check.
        Program::Modular => text.is_utf8 && text.text.contains(PASS),
    };
    let is_passed = file.as_ref().is_ok_and(has_pass);
    if text(audit, file, name, issues).is_some() && !is_passed {
        fails(audit, name, check, issues);
    }
}

fn performance(place: &Place<'_, '_>, audit: &Audit<'_>, issues: &mut Issues) {
    let path = audit.folder.path().join("performance/run_1").join(DETAIL);
    match &audit.performance {
        Err(_) => {
            issues.add(
                &AUDIT_RUN_MISSING,
                Location::path(&path),
                "the run of the audit is \
                 missing",
            );
        }
        // The rules report a pointer together with the other problems of the log.
        Ok(log) if log.is_pointer && issues.program() == Program::Strict => {}
        Ok(log) => {
            let run = Run { place, log, path: &path, is_audit: true };
            run.judge(issues);
        }
    }
}

fn verify_performance(audit: &Audit<'_>, issues: &mut Issues) {
    let name = "verify_performance.txt";
    passes(audit, &audit.verify_performance, name, &AUDIT_PERFORMANCE, issues);
    run_files(audit, issues);
}

fn run_files(audit: &Audit<'_>, issues: &mut Issues) {
    match audit.folder.folder("performance/run_1") {
        None => {
            let path = audit.folder.path();
            issues.add(&AUDIT_RUN_MISSING, Location::path(&path), "performance/run_1 is missing");
        }
        Some(run) => {
            if let Some(mismatch) = files::mismatch(run, &[SUMMARY, DETAIL], &[ACCURACY_LOG]) {
                let path = run.path();
                issues.add(&AUDIT_RUN_FILES, Location::path(&path), mismatch);
            }
        }
    }
}

/// Checks TEST01: the answers of both runs are equal, or equally accurate if the system is
/// nondeterministic.
fn first_audit(place: &Place<'_, '_>, audit: &Audit<'_>, issues: &mut Issues) {
    let name = "verify_accuracy.txt";
    crash_in_text(audit, &audit.verify_accuracy, name, issues);
    let Some(text) = text(audit, &audit.verify_accuracy, name, issues) else { return };
    crash_in_folder(audit, "accuracy", issues);
    let passed = match issues.program() {
        Program::Modular | Program::Strict => text.has_line(PASS),
        Program::Mono | Program::Tag(_) => text.text.contains(PASS),
    };
    let Some(folder) = audit.folder.folder("accuracy") else {
        let path = audit.folder.path();
        let message = "TEST01 has no accuracy folder";
        if passed {
            issues.add(&AUDIT_ACCURACY_FOLDER, Location::path(&path), message);
        } else {
            issues.add(&AUDIT_ACCURACY, Location::path(&path), message);
        }
        return;
    };
    if passed && issues.program() == Program::Modular {
        return;
    }
    let all = [ACCURACY_LOG, ACCURACY_TEXT, "baseline_accuracy.txt", "compliance_accuracy.txt"];
    let required = if passed { &all[..2] } else { &all[..] };
    if let Some(mismatch) = files::mismatch(folder, required, &[]) {
        let path = folder.path();
        issues.add(&AUDIT_ACCURACY_FILES, Location::path(&path), mismatch);
    } else if !passed {
        without_determinism(place, audit, issues);
    }
}

/// Checks that the accuracies of both runs over the same samples are close enough.
fn without_determinism(place: &Place<'_, '_>, audit: &Audit<'_>, issues: &mut Issues) {
    let path = audit.folder.path().join("accuracy/compliance_accuracy.txt");
    let (Ok(baseline), Ok(compliance)) = (&audit.baseline_accuracy, &audit.compliance_accuracy)
    else {
        issues.add(
            &AUDIT_ACCURACY,
            Location::path(&path),
            "the accuracies of the two runs cannot be read",
        );
        return;
    };
    let is_read = |text: &AccuracyText| {
        text.is_utf8 && text.metrics.iter().all(|found| found.number().is_some())
    };
    if issues.program().one_file().is_some() && !(is_read(baseline) && is_read(compliance)) {
        let why = "an accuracy of the two runs is not UTF-8, or not a number";
        return issues.crash(Location::path(&path), why);
    }
    for target in place.targets().iter().filter(|target| target.at_least.is_some()) {
        let metric = &target.metric;
        let last = |text: &AccuracyText| {
            let mut values = text.metrics.iter().filter(|found| found.metric == *metric);
            values.next_back().and_then(MetricValue::number).filter(|value| *value != 0.0)
        };
        let (Some(baseline), Some(compliance)) = (last(baseline), last(compliance)) else {
            let message = format!("only one of the two runs states {metric}");
            issues.add(&AUDIT_ACCURACY, Location::path(&path), message);
            return;
        };
        let percent = (1.0 - baseline / compliance).abs() * 100.0;
        let most = allowed_percent(place, metric);
        // Negated so that NaN fails.
        let is_near = percent <= most;
        if !is_near {
            let message = format!("{metric} of the two runs differ by {percent:.4} %");
            issues.add_expected(
                &AUDIT_ACCURACY,
                Location::path(&path),
                message,
                format!("at most {most} %"),
            );
            return;
        }
    }
}

fn allowed_percent(place: &Place<'_, '_>, metric: &str) -> f64 {
    let own = place.model.benchmark.and_then(|b| b.audit_accuracy_delta_percent.get(metric));
    let by_target = if place.model.official.contains("99.9") { 0.1 } else { 1.0 };
    own.copied().unwrap_or(by_target)
}

/// Checks the results of TEST06: first tokens, ends and lengths.
fn tokens(audit: &Audit<'_>, issues: &mut Issues) {
    let name = "verify_accuracy.txt";
    crash_in_text(audit, &audit.verify_accuracy, name, issues);
    let Some(text) = text(audit, &audit.verify_accuracy, name, issues) else { return };
    let path = audit.folder.path().join(name);
    let lines: [(&str, &[&str]); 3] = [
        ("first token", &["First token check pass: True", "First token check pass: Skipped"]),
        ("end of sequence", &["EOS check pass: True"]),
        ("sample length", &["Sample length check pass: True"]),
    ];
    for (what, wanted) in lines {
        if !wanted.iter().any(|line| text.has_line(line)) {
            let message = format!("the {what} check fails");
            issues.add_expected(
                &AUDIT_ACCURACY,
                Location::path(&path),
                message,
                format!("`{}`", wanted[0]),
            );
        }
    }
}
