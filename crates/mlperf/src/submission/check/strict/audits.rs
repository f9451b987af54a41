//! Audits derived from the logs, beside what the submitter's text says.

use std::path::Path;

use crate::round::Scenario;
use crate::submission::check::catalogue::{AUDIT_RATIO, AUDIT_SETTINGS, AUDIT_TEXT_CONTRADICTS};
use crate::submission::check::issues::{At, Issues};
use crate::submission::facts::Audit;
use crate::submission::facts::detail::DetailLog;

const NS: f64 = 1e9;
/// Seed by which TEST01 picks the samples whose outputs it logs.
const TEST01_SEED: u64 = 720_381_539_243_781_796;
/// Index of the one sample that TEST04 issues.
const TEST04_INDEX: u64 = 3;

/// Checks an audit with a performance run of its own against the run of the result.
pub(super) fn check(audit: &Audit<'_>, run: &DetailLog, played: Scenario, issues: &mut Issues) {
    let path = audit.folder.path();
    check_counters(audit, &path, issues);
    let Ok(log) = &audit.performance else { return };
    let detail = path.join("performance/run_1/mlperf_log_detail.txt");
    check_settings(&audit.name, log, &detail, issues);
    check_scenario(log, played, &detail, issues);
    if !["TEST01", "TEST04", "TEST05"].contains(&audit.name.as_str()) {
        return;
    }
    let scores = score(run, played).zip(score(log, played));
    let Some((reference, audited)) = scores else {
        let message = "the detail logs of run and audit give no two rates to compare";
        return issues.add(&AUDIT_RATIO, At::path(&detail), message);
    };
    let short = is_short(run, played);
    let (allowed, passes) = match audit.name.as_str() {
        "TEST01" => {
            let apart = if short { 0.2 } else { 0.1 };
            let ratio = audited / reference;
            let within = format!("within {:.0} % of {reference:.6}", apart * 100.0);
            (within, (1.0 - apart..=1.0 + apart).contains(&ratio))
        }
        // Issuing one sample again and again must not be faster than issuing many.
        "TEST04" => (format!("below {:.6}", reference * 1.1), audited < reference * 1.1),
        "TEST05" => {
            let apart = if short { 0.2 } else { 0.05 };
            (
                format!("at least {:.6}", reference * (1.0 - apart)),
                audited >= reference * (1.0 - apart),
            )
        }
        _ => return,
    };
    let text = audit.verify_performance.as_ref().ok();
    let told = text.map(|text| text.has_line("TEST PASS"));
    let score = format!("the logs give {audited:.6}, the run of the result {reference:.6}");
    if !passes {
        let also = if told == Some(true) { ", though the text says TEST PASS" } else { "" };
        issues.add_expected(&AUDIT_RATIO, At::path(&detail), format!("{score}{also}"), allowed);
    } else if told == Some(false) {
        let file = path.join("verify_performance.txt");
        let message = format!("does not say TEST PASS, though {score}");
        issues.add_expected(&AUDIT_TEXT_CONTRADICTS, At::path(&file), message, allowed);
    }
}

/// Rates of two scenarios cannot be compared.
fn check_scenario(log: &DetailLog, played: Scenario, path: &Path, issues: &mut Issues) {
    let key = "effective_scenario";
    let found = log.text(key);
    if found.and_then(Scenario::named) != Some(played) {
        let message = format!("the audit is of a run of {}", found.unwrap_or("no scenario"));
        let at = At::path(path).line(log.line_of(key));
        issues.add_expected(&AUDIT_SETTINGS, at, message, played.name());
    }
}

/// Work a second.
fn score(log: &DetailLog, played: Scenario) -> Option<f64> {
    let number = |key: &str| log.number(key).filter(|value| *value > 0.0);
    match played {
        Scenario::SingleStream => {
            number("result_90.00_percentile_latency_ns").map(|latency| NS / latency)
        }
        Scenario::MultiStream => number("result_99.00_percentile_per_query_latency_ns")
            .or_else(|| number("result_99.00_percentile_latency_ns"))
            .map(|latency| NS / latency),
        Scenario::Offline => number("result_samples_per_second"),
        Scenario::Server | Scenario::Interactive => number("result_completed_samples_per_sec")
            .or_else(|| number("result_scheduled_samples_per_sec")),
    }
}

/// Runs with such latencies vary more, and may.
fn is_short(log: &DetailLog, played: Scenario) -> bool {
    let within = |key: &str, most: f64| log.number(key).is_some_and(|latency| latency <= most);
    match played {
        Scenario::SingleStream => within("result_90.00_percentile_latency_ns", 200e3),
        Scenario::MultiStream => within("result_99.00_percentile_per_query_latency_ns", 1600e3),
        _ => false,
    }
}

/// The run of an audit must have been made as the audit asks.
fn check_settings(name: &str, log: &DetailLog, path: &Path, issues: &mut Issues) {
    let line = |key: &str| At::path(path).line(log.line_of(key));
    let flag = |key: &str, wanted: bool, issues: &mut Issues| {
        let found = log.flag(key);
        if found != Some(wanted) {
            let found = found.map_or("missing".to_owned(), |found| found.to_string());
            let message = format!("{key} is {found}, so that this is no run of {name}");
            issues.add_expected(&AUDIT_SETTINGS, line(key), message, wanted.to_string());
        }
    };
    let whole = |key: &str, wanted: u64, issues: &mut Issues| {
        let found = log.whole(key);
        if found != Some(wanted) {
            let found = found.map_or("missing".to_owned(), |found| found.to_string());
            let message = format!("{key} is {found}, so that this is no run of {name}");
            issues.add_expected(&AUDIT_SETTINGS, line(key), message, wanted.to_string());
        }
    };
    match name {
        "TEST01" => {
            whole("effective_accuracy_log_rng_seed", TEST01_SEED, issues);
            flag("effective_performance_issue_same", false, issues);
            let key = "effective_accuracy_log_sampling_target";
            if log.whole(key) == Some(0)
                && log.number("effective_accuracy_log_probability").unwrap_or(0.0) == 0.0
            {
                let message = format!("{key} is 0, so that no output was logged");
                issues.add(&AUDIT_SETTINGS, line(key), message);
            }
        }
        "TEST04" => {
            flag("effective_performance_issue_same", true, issues);
            whole("effective_performance_issue_same_index", TEST04_INDEX, issues);
        }
        _ => {}
    }
}

/// What the script of TEST01 counted must be what it says.
fn check_counters(audit: &Audit<'_>, path: &Path, issues: &mut Issues) {
    let Ok(text) = &audit.verify_accuracy else { return };
    if audit.name != "TEST01" || !text.has_line("TEST PASS") {
        return;
    }
    let file = path.join("verify_accuracy.txt");
    for (at, line) in text.text.lines().enumerate() {
        let Some((name, count)) = line.split_once('=') else { continue };
        let (name, Ok(count)) = (name.trim(), count.trim().parse::<u64>()) else { continue };
        let contradicts = match name {
            "num_perf_log_data_mismatch" | "num_missing_qsl_idxs" => count != 0,
            "num_perf_log_entries" | "num_perf_log_qsl_idx_match" => count == 0,
            _ => false,
        };
        if contradicts {
            let message = format!("says TEST PASS with {name} = {count}");
            issues.add(&AUDIT_TEXT_CONTRADICTS, At::path(&file).line(Some(at + 1)), message);
        }
    }
}
