//! Checks audits by their logs with the rules of `dyno audit`, in addition to the submitter's
//! texts.

use std::borrow::Cow;
use std::path::Path;

use dyno_loadgen::log::read::read_summary;
use serde_json::Value;

use super::answers;
use crate::audit::ratio::{self, LogValues, RunFacts};
use crate::audit::reason::shown;
use crate::audit::{AuditPlan, AuditTest, Reason, Side, plan};
use crate::check::Skip;
use crate::check::catalogue::{
    AUDIT_OTHER, AUDIT_PERFORMANCE, AUDIT_RATIO, AUDIT_SETTINGS, AUDIT_TEXT_CONTRADICTS, Check,
    RUN_ERRORS, RUN_INVALID,
};
use crate::check::issues::{Issues, Location};
use crate::check::place::Place;
use crate::entry::DivisionFolder;
use crate::facts::detail::DetailLog;
use crate::facts::{Audit, Facts, text};
use crate::layout::SUMMARY;
use crate::tree::Node;
use dyno_rules::{RuleScenario, Version};

/// Widest tolerance of an audit: that of short latencies.
const WIDEST_TOLERANCE: f64 = 0.2;

impl LogValues for DetailLog {
    fn value_text(&self, key: &str) -> Option<Cow<'_, str>> {
        let entry = self.entry(key)?;
        Some(match entry.other.as_ref().map_or(&entry.value, |other| &other.1) {
            Value::String(text) => text.as_str().into(),
            Value::Bool(flag) => flag.to_string().into(),
            Value::Number(number) => number.to_string().into(),
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        })
    }

    fn has(&self, key: &str) -> bool {
        self.entry(key).is_some()
    }

    fn errors(&self) -> u64 {
        self.errors.count as u64
    }

    fn contradictions(&self) -> Vec<String> {
        let keys = self.contradicted().map(|(key, ..)| key);
        keys.filter(|key| ratio::is_logged_once(key)).map(str::to_owned).collect()
    }
}

/// Checks an audit against the run of the result, which has this scenario.
pub(super) fn check(
    place: &Place<'_, '_>,
    facts: &Facts<'_>,
    audit: &Audit<'_>,
    played: RuleScenario,
    issues: &mut Issues,
) {
    let path = audit.folder.path();
    check_counters(audit, &path, issues);
    check_verdicts(audit, &path, issues);
    if audit.name == "TEST01" {
        answers::check(place, audit, issues);
    }
    let performance = audit.performance.as_ref().ok().filter(|log| !log.is_pointer);
    let (Some(log), Some(test)) = (performance, AuditTest::named(&audit.name)) else { return };
    let benchmark = place.model.benchmark.map(|benchmark| benchmark.name.as_str());
    let Ok(plan) = plan(test, place.round, benchmark, played.loadgen_scenario()) else { return };
    let Some(reasons) = reasons(&plan, place, facts, audit, log) else { return };
    let detail = path.join("performance/run_1/mlperf_log_detail.txt");
    for reason in &reasons {
        report_reason(reason, place, audit, log, &detail, issues);
    }
    let has_score = plan.tolerance > 0.0 && audit.name != "TEST04-A";
    let is_about_score = |reason: &Reason| subject_of(reason) == Some(Subject::Score);
    let says_otherwise = audit.verify_performance.as_ref().is_ok_and(|text| !passes(text));
    if has_score && says_otherwise && !reasons.iter().any(is_about_score) {
        let message = "has no TEST PASS, but the scores of the two logs are within the tolerance";
        issues.add(&AUDIT_TEXT_CONTRADICTS, Location::path(&path.join(PERFORMANCE)), message);
    }
    check_scores(test, place, audit, log, played, issues);
}

/// Keys of the scores that the scripts of the round compare in a scenario.
fn score_keys(scenario: RuleScenario, round: Version) -> &'static [&'static str] {
    match scenario {
        RuleScenario::SingleStream => {
            &["early_stopping_latency_ss", "result_90.00_percentile_latency_ns"]
        }
        // The score of a fixed interval is the number of streams.
        RuleScenario::MultiStream if round < Version::new(2, 0) => &["effective_samples_per_query"],
        RuleScenario::MultiStream => {
            &["early_stopping_latency_ms", "result_99.00_percentile_per_query_latency_ns"]
        }
        RuleScenario::Server | RuleScenario::Interactive => {
            &["result_completed_samples_per_sec", "result_scheduled_samples_per_sec"]
        }
        RuleScenario::Offline => &["result_samples_per_second"],
    }
}

/// Checks that the scores in a text with TEST PASS do not contradict it, and that the log of the audit
/// has such a score.
fn check_scores(
    test: AuditTest,
    place: &Place<'_, '_>,
    audit: &Audit<'_>,
    log: &DetailLog,
    played: RuleScenario,
    issues: &mut Issues,
) {
    let Some(text) = audit.verify_performance.as_ref().ok().filter(|text| passes(text)) else {
        return;
    };
    let score = |name: &str| {
        let named = text.text.lines().filter_map(|line| line.split_once('='));
        let mut named = named.filter(|(label, _)| label.trim().eq_ignore_ascii_case(name));
        named.next().and_then(|(_, value)| value.trim().parse::<f64>().ok())
    };
    let (Some(reference), Some(audited)) = (score("reference score"), score("test score")) else {
        return;
    };
    let path = audit.folder.path().join(PERFORMANCE);
    let is_near = |other: f64| (audited - other).abs() <= WIDEST_TOLERANCE * other;
    // The others look for one direction only.
    if matches!(test, AuditTest::Test01 | AuditTest::Test05) && !is_near(reference) {
        let message = format!("contains TEST PASS, but the scores {reference} and {audited}");
        issues.add(&AUDIT_TEXT_CONTRADICTS, Location::path(&path), message);
    }
    let logged = score_keys(played, place.round.version).iter();
    let logged = logged.filter_map(|key| log.number(key)).filter(|score| *score > 0.0);
    let logged: Vec<f64> = logged.collect();
    // Some scripts print queries per second instead of latencies.
    let is_logged = logged.iter().any(|score| is_near(*score) || is_near(1e9 / score));
    if !is_logged && !logged.is_empty() {
        let message = format!("the test score is {audited}, unlike every score in the log");
        issues.add(&AUDIT_TEXT_CONTRADICTS, Location::path(&path), message);
    }
}

/// Warns of failed audits that the result does not need.
pub(super) fn warn_of_others(
    place: &Place<'_, '_>,
    facts: &Facts<'_>,
    division: DivisionFolder,
    issues: &mut Issues,
) {
    if place.options.skips(Skip::Compliance) || facts.endpoint.is_some() {
        return;
    }
    let wanted = place.audits();
    let is_judged = |audit: &&Audit<'_>| {
        division.is_closed_or_network() && wanted.contains(&audit.name.as_str())
    };
    for audit in facts.audits.iter().filter(|audit| !is_judged(audit)) {
        let texts = [
            ("verify_accuracy.txt", &audit.verify_accuracy),
            (PERFORMANCE, &audit.verify_performance),
            ("verify_output_len.txt", &audit.verify_output_length),
        ];
        let says =
            |text: &str| ["TEST FAIL", "verification failed"].iter().any(|w| text.contains(w));
        let failed = |text: &Result<text::TextFile, _>| text.as_ref().is_ok_and(|t| says(&t.text));
        for (name, _) in texts.into_iter().filter(|(_, text)| failed(text)) {
            let message = format!("{} fails; the result counts without it", audit.name);
            issues.add(&AUDIT_OTHER, Location::path(&audit.folder.path().join(name)), message);
        }
    }
}

const PERFORMANCE: &str = "verify_performance.txt";

fn passes(text: &text::TextFile) -> bool {
    text.has_line("TEST PASS")
}

/// Returns the reasons against an audit; `None` if the run to compare with is missing, which is
/// reported elsewhere.
fn reasons(
    plan: &AuditPlan,
    place: &Place<'_, '_>,
    facts: &Facts<'_>,
    audit: &Audit<'_>,
    log: &DetailLog,
) -> Option<Vec<Reason>> {
    let (first, last) = (&plan.runs[0], &plan.runs[plan.runs.len() - 1]);
    let audited = || run_facts(log, audit.folder.file(format!("performance/run_1/{SUMMARY}")));
    match (plan.test, audit.name.as_str()) {
        (AuditTest::Test06 | AuditTest::Test07 | AuditTest::Test08 | AuditTest::Test09, _) => {
            Some(ratio::check_audit_run(last, log))
        }
        (AuditTest::Test04Pair, "TEST04-A") => Some(ratio::check_unique_run(first, log)),
        (AuditTest::Test04Pair, _) => {
            let unique = facts.audit("TEST04-A")?;
            let summary = unique.folder.file(format!("performance/run_1/{SUMMARY}"));
            let reference = run_facts(unique.performance.as_ref().ok()?, summary);
            Some(ratio::compare(plan, last, &reference, &audited()))
        }
        _ => {
            let summary = place.entry.run().and_then(|run| run.file(SUMMARY));
            let reference = run_facts(facts.performance.as_ref().ok()?, summary);
            Some(ratio::compare(plan, last, &reference, &audited()))
        }
    }
}

/// Returns the facts of a run. The summary is read only if the detail log is incomplete.
fn run_facts<'a>(log: &'a DetailLog, summary: Option<Node<'_>>) -> RunFacts<'a> {
    let facts = RunFacts::from_log(log);
    if facts.is_complete() {
        return facts;
    }
    match text::read(summary) {
        Ok(text) => facts.or_summary(&read_summary(&text.text).0),
        Err(_) => facts,
    }
}

/// Subject of a reason.
#[derive(PartialEq, Eq)]
enum Subject {
    Score,
    Setting,
    Verdict,
    Errors,
}

/// Returns the subject of a reason; `None` if another check reports it.
fn subject_of(reason: &Reason) -> Option<Subject> {
    Some(match reason {
        Reason::Score { .. } | Reason::NoScore { .. } => Subject::Score,
        Reason::Setting { .. } | Reason::Scenarios { .. } => Subject::Setting,
        Reason::NotValid { side: Side::Audit } => Subject::Verdict,
        Reason::Errors { side: Side::Audit, .. } => Subject::Errors,
        // The check of repeated keys reports contradictions.
        _ => return None,
    })
}

fn report_reason(
    reason: &Reason,
    place: &Place<'_, '_>,
    audit: &Audit<'_>,
    log: &DetailLog,
    path: &Path,
    issues: &mut Issues,
) {
    let Some(subject) = subject_of(reason) else { return };
    let is_judged = AuditTest::named(&audit.name).is_some_and(AuditTest::is_judged_as_run);
    let line = |key: &str| Location::path(path).line(log.line_of(key));
    let message = reason.to_string();
    match (subject, reason) {
        (Subject::Score, Reason::Score { reference, unit, tolerance, .. }) => {
            let says_pass = audit.verify_performance.as_ref().is_ok_and(passes);
            let also = if says_pass { ", but the text contains TEST PASS" } else { "" };
            let reference = shown(*reference, unit);
            let expected = format!("within {:.0} % of {reference}", 100.0 * tolerance);
            issues.add_expected(&AUDIT_RATIO, Location::path(path), message + also, expected);
        }
        (Subject::Score, _) => issues.add(&AUDIT_RATIO, Location::path(path), message),
        (Subject::Setting, Reason::Setting { side: Side::Audit, key, expected, .. }) => {
            let message = format!("{message}: this is not a run of {}", audit.name);
            issues.add_expected(&AUDIT_SETTINGS, line(key), message, expected);
        }
        (Subject::Setting, _) => issues.add(&AUDIT_SETTINGS, line("effective_scenario"), message),
        (Subject::Verdict | Subject::Errors, _) if place.reads_audits_as_texts() => {
            issues.add(&AUDIT_PERFORMANCE, line("result_validity"), message);
        }
        (Subject::Verdict, _) if !is_judged => {
            add_unjudged(place, &RUN_INVALID, line("result_validity"), message, issues);
        }
        (Subject::Errors, _) if !is_judged => {
            add_unjudged(place, &RUN_ERRORS, Location::path(path), message, issues);
        }
        (Subject::Verdict | Subject::Errors, _) => {}
    }
}

/// Adds a problem of the run of TEST06 to TEST09. No rule and no official program asks that this run
/// is VALID and without errors, and the settings of an audit may cause an error. So it only warns.
fn add_unjudged(
    place: &Place<'_, '_>,
    check: &'static Check,
    at: Location<'_>,
    message: String,
    issues: &mut Issues,
) {
    let mut own = issues.another();
    own.add(check, at, message);
    if !place.options.forensic {
        own.waive(&[check]);
    }
    issues.append(own);
}

/// Checks that the counters of TEST01 do not contradict its verdict.
fn check_counters(audit: &Audit<'_>, path: &Path, issues: &mut Issues) {
    let Ok(text) = &audit.verify_accuracy else { return };
    if audit.name != "TEST01" || !text.has_line("TEST PASS") {
        return;
    }
    let file = path.join("verify_accuracy.txt");
    for (index, line) in text.text.lines().enumerate() {
        let Some((name, count)) = line.split_once('=') else { continue };
        let (name, Ok(count)) = (name.trim(), count.trim().parse::<u64>()) else { continue };
        let contradicts = match name {
            "num_perf_log_data_mismatch" | "num_missing_qsl_idxs" => count != 0,
            "num_perf_log_entries" | "num_perf_log_qsl_idx_match" => count == 0,
            _ => false,
        };
        if contradicts {
            let message = format!("contains TEST PASS, but {name} = {count}");
            issues.add(
                &AUDIT_TEXT_CONTRADICTS,
                Location::path(&file).line(Some(index + 1)),
                message,
            );
        }
    }
}

/// Checks that the text on performance has one verdict, not those of two outputs of the script. A text on
/// accuracy may have both, because a nondeterministic system passes by its second comparison.
fn check_verdicts(audit: &Audit<'_>, path: &Path, issues: &mut Issues) {
    let Some(text) = audit.verify_performance.as_ref().ok().filter(|text| passes(text)) else {
        return;
    };
    if let Some(index) = text.text.lines().position(|line| line.contains("TEST FAIL")) {
        let file = path.join(PERFORMANCE);
        let at = Location::path(&file).line(Some(index + 1));
        issues.add(&AUDIT_TEXT_CONTRADICTS, at, "contains both TEST PASS and TEST FAIL");
    }
}
