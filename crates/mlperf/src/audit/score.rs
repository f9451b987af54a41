//! Whether the score of an audited run is that of the submission.

use dyno_loadgen::log::read::{Detail, Summary, Value, read_summary};
use dyno_loadgen::settings::Scenario;

use super::evidence::{Played, scenario_named};
use super::plan::{Deviation, Plan, PlannedRun};
use super::reason::{Reason, Side};
use super::text;
use super::{Figure, Part, Test, TextFile, Verdict};
use crate::round::Version;

/// A SingleStream latency up to which the disturbances of the operating system
/// weigh so much that the rules allow for more, ns.
const SHORT_SINGLE_STREAM_NS: f64 = 200_000.0;
/// The same of a MultiStream query.
const SHORT_MULTI_STREAM_NS: f64 = 1_600_000.0;

/// What is read of a performance run.
struct Facts {
    scenario: Option<Scenario>,
    is_valid: bool,
    errors: u64,
    kind: Kind,
    /// In the unit of its kind.
    score: Option<f64>,
    mean_latency: Option<f64>,
    detail: Detail,
    /// What the official scripts take from the summary.
    official: Official,
}

/// What a score counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Of SingleStream, and of MultiStream: less is better.
    Latency,
    /// Of MultiStream at a fixed interval: more is better.
    Streams,
    /// Of Server and Offline: more is better.
    Rate,
}

impl Kind {
    fn unit(self) -> &'static str {
        match self {
            Self::Latency => "ns",
            Self::Streams => "streams",
            Self::Rate => "/s",
        }
    }
}

/// What the official scripts see.
#[derive(Default)]
struct Official {
    scenario: String,
    kind: Option<Kind>,
    score: Option<f64>,
    is_invalid: bool,
}

fn facts(run: &Played) -> Result<Facts, Reason> {
    let detail = run.detail()?;
    let text = run.summary();
    let summary = text.as_ref().map(|text| read_summary(text).0);
    let scenario = detail.text("effective_scenario");
    let scenario = scenario.or_else(|| summary.as_ref().ok()?.value("Scenario"));
    let scenario = scenario.and_then(scenario_named);
    let is_valid = match detail.text("result_validity") {
        Some(validity) => validity == "VALID",
        None => summary.as_ref().is_ok_and(|summary| summary.value("Result is") == Some("VALID")),
    };
    let official = summary.as_ref().map(official).unwrap_or_default();
    let scored = scenario.and_then(|of| score(&detail, of));
    let scored = scored.or(official.kind.zip(official.score));
    let (kind, score) = scored.map_or((Kind::Rate, None), |(kind, score)| (kind, Some(score)));
    Ok(Facts {
        scenario,
        kind,
        is_valid,
        errors: detail.errors().count() as u64,
        score,
        mean_latency: detail.number("result_mean_latency_ns").filter(|mean| *mean > 0.0),
        detail,
        official,
    })
}

fn score(detail: &Detail, scenario: Scenario) -> Option<(Kind, f64)> {
    let keys: &[(Kind, &str)] = match scenario {
        Scenario::SingleStream => &[(Kind::Latency, "early_stopping_latency_ss")],
        Scenario::MultiStream => {
            &[(Kind::Streams, STREAMS), (Kind::Latency, "early_stopping_latency_ms")]
        }
        Scenario::Server => &[(Kind::Rate, "result_completed_samples_per_sec")],
        Scenario::Offline => &[(Kind::Rate, "result_samples_per_second")],
    };
    keys.iter().find_map(|(kind, key)| {
        let score = detail.number(key).filter(|score| *score > 0.0 && score.is_finite())?;
        Some((*kind, score))
    })
}

/// The score as the scripts pick it out of a summary: estimates of early stopping
/// first, else the percentile of rounds that had none.
fn official(summary: &Summary<'_>) -> Official {
    let scenario = summary.value("Scenario").unwrap_or_default().replace(' ', "");
    let value = |label: &str| summary.value(label)?.parse::<f64>().ok();
    let any = |labels: &[&str]| labels.iter().find_map(|label| value(label));
    let mut kind = match scenario.as_str() {
        "SingleStream" | "MultiStream" => Kind::Latency,
        _ => Kind::Rate,
    };
    let score = match scenario.as_str() {
        "SingleStream" => estimate(summary, &["90th", "90.0th", "99.9th"])
            .or_else(|| any(&["90.0th percentile latency (ns)", "90th percentile latency (ns)"])),
        "MultiStream" => estimate(summary, &["99th", "99.0th"])
            .or_else(|| any(&["99.0th percentile latency (ns)", "99th percentile latency (ns)"]))
            .or_else(|| {
                kind = Kind::Streams;
                value("Samples per query")
            }),
        "Server" => any(&["Completed samples per second", "Scheduled samples per second"]),
        "Offline" => value("Samples per second"),
        _ => None,
    };
    Official {
        score: score.filter(|score| *score > 0.0 && score.is_finite()),
        is_invalid: summary.value("Result is") == Some("INVALID"),
        kind: Some(kind),
        scenario,
    }
}

fn estimate(summary: &Summary<'_>, percentiles: &[&str]) -> Option<f64> {
    let lines = summary.early_stopping.iter().flat_map(|(_, text)| text.lines());
    let of = |line: &str| {
        let (name, value) = line.split_once(" percentile estimate: ")?;
        let percentile = name.rsplit(' ').next()?;
        percentiles.contains(&percentile).then(|| value.trim().parse().ok())?
    };
    lines.filter_map(of).next_back()
}

/// Compares the score of `audited` with that of `reference`.
pub(super) fn compare(
    plan: &Plan,
    run: &PlannedRun,
    reference: &Played,
    audited: &Played,
) -> (Part, Vec<String>) {
    let (a, b) = match (facts(reference), facts(audited)) {
        (Ok(a), Ok(b)) => (a, b),
        (Err(reason), _) | (_, Err(reason)) => {
            return (Part::failed("score", text::PERFORMANCE, &reason), Vec::new());
        }
    };
    let (official, printed) = officially(plan, &a, &b);
    let mut reasons = circumstances(plan, run, &a, &b);
    let mut figures = Vec::new();
    match (a.scenario, a.score, b.score) {
        (_, None, _) => reasons.push(Reason::NoScore { side: Side::Reference }),
        (_, _, None) => reasons.push(Reason::NoScore { side: Side::Audit }),
        (Some(scenario), Some(before), Some(now)) => {
            let (unit, of_audited) = (a.kind.unit(), b.kind.unit());
            figures.push(Figure { name: "reference score", value: before, unit });
            figures.push(Figure { name: "audited score", value: now, unit: of_audited });
            if a.kind == b.kind {
                let tolerance = tolerance(plan, scenario, a.kind, before);
                let is_latency = a.kind == Kind::Latency;
                reasons.extend(away(plan, is_latency, [before, now], tolerance));
            } else {
                let [reference, audit] =
                    [unit, of_audited].map(|unit| format!("{scenario} in {unit}"));
                reasons.push(Reason::Scenarios { reference, audit });
            }
        }
        (None, ..) => {}
    }
    for (name, facts) in [("reference mean latency", &a), ("audited mean latency", &b)] {
        figures.extend(facts.mean_latency.map(|value| Figure { name, value, unit: "ns" }));
    }
    let notes = server_note(plan, &a, &b).into_iter().collect();
    let is_passed = reasons.is_empty() && official.is_passed();
    let names = match plan.test {
        Test::Test01 => ["Reference score", "Test score"],
        Test::Test04Pair => ["TEST04-A score", "TEST04-B score"],
        _ => ["reference score", "test score"],
    };
    let text = text::scores(names, printed, is_passed);
    let file = Some(TextFile { path: text::PERFORMANCE, text });
    (Part { name: "score", corrected: Verdict::of(reasons), official, figures, file }, notes)
}

/// A Server score is the rate at which queries come, however fast they are answered.
fn server_note(plan: &Plan, a: &Facts, b: &Facts) -> Option<String> {
    let (before, now) = (a.mean_latency?, b.mean_latency?);
    let is_told = a.scenario == Some(Scenario::Server)
        && plan.deviation == Deviation::Faster
        && now < before * (1.0 - plan.tolerance);
    is_told.then(|| {
        format!(
            "In Server the score is the rate of arrivals, so this audit cannot fail by speed; yet \
             the mean latency fell from {before:.0} ns to {now:.0} ns. Audit SingleStream or \
             Offline as well."
        )
    })
}

/// What must hold of both runs before their scores mean anything.
fn circumstances(plan: &Plan, run: &PlannedRun, a: &Facts, b: &Facts) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let is_pair = plan.test == Test::Test04Pair;
    for (side, facts) in [(Side::Reference, a), (Side::Audit, b)] {
        // A run that issues each sample once is over when it has, which may be too
        // soon to be VALID.
        let may_be_short = is_pair && side == Side::Reference;
        if !facts.is_valid && !may_be_short {
            reasons.push(Reason::NotValid { side });
        }
        if facts.is_valid && facts.errors > 0 {
            reasons.push(Reason::Errors { side, count: facts.errors });
        }
    }
    if a.scenario != b.scenario || a.scenario.is_none() {
        let name = |facts: &Facts| facts.scenario.map_or("no scenario", Scenario::name).to_owned();
        reasons.push(Reason::Scenarios { reference: name(a), audit: name(b) });
    }
    reasons.extend(changed_settings(run, &b.detail));
    // TEST04-A is the reference of TEST04-B.
    if is_pair {
        let unique = "effective_performance_issue_unique";
        reasons.extend(differs(Side::Reference, unique, &a.detail, Some("true".into())));
    }
    // Its Offline query is as large as the set.
    let is_of_pair = |key: &str| is_pair && key == "effective_samples_per_query";
    let changed = |key: &str| run.settings.iter().any(|(field, _)| effective(field) == Some(key));
    let shared = SHARED.iter().chain((a.scenario == Some(Scenario::Server)).then_some(&RATE));
    reasons.extend(shared.filter(|key| !changed(key) && !is_of_pair(key)).filter_map(|key| {
        let expected = shown(&a.detail, borne(key, &a.detail))?;
        differs(Side::Audit, borne(key, &b.detail), &b.detail, Some(expected))
    }));
    reasons
}

/// What both runs have in common, unless the audit changes it.
const SHARED: [&str; 7] = [
    "effective_qsl_rng_seed",
    "effective_sample_index_rng_seed",
    "effective_schedule_rng_seed",
    "effective_samples_per_query",
    "effective_target_latency_ns",
    "effective_target_latency_percentile",
    "effective_performance_sample_count",
];

/// Of Server, too: elsewhere it only says how long a trace must be.
const RATE: &str = "effective_target_qps";

/// The key that tells the load of the result, which a repetition may have lowered
/// from what was asked for.
fn borne(key: &'static str, detail: &Detail) -> &'static str {
    let result = match key {
        "effective_samples_per_query" => STREAMS,
        RATE => "dyno_result_target_qps",
        _ => return key,
    };
    if detail.number(result).is_some() { result } else { key }
}

/// Samples in the queries of a result at a fixed interval.
const STREAMS: &str = "dyno_result_samples_per_query";

/// The key of the detail log that tells a setting.
fn effective(field: &str) -> Option<&'static str> {
    Some(match field {
        "mode" => "effective_test_mode",
        "performance_issue_unique" => "effective_performance_issue_unique",
        "performance_issue_same" => "effective_performance_issue_same",
        "performance_issue_same_index" => "effective_performance_issue_same_index",
        "min_duration_ms" => "effective_min_duration_ms",
        "sample_concatenate_permutation" => "effective_sample_concatenate_permutation",
        "accuracy_log_rng_seed" => "effective_accuracy_log_rng_seed",
        "accuracy_log_probability" => "effective_accuracy_log_probability",
        "accuracy_log_sampling_target" => "effective_accuracy_log_sampling_target",
        "qsl_rng_seed" => "effective_qsl_rng_seed",
        "sample_index_rng_seed" => "effective_sample_index_rng_seed",
        "schedule_rng_seed" => "effective_schedule_rng_seed",
        _ => return None,
    })
}

/// A setting of a run that is not what it must be.
pub(super) fn differs(
    side: Side,
    key: &'static str,
    detail: &Detail,
    expected: Option<String>,
) -> Option<Reason> {
    let expected = expected?;
    let found = shown(detail, key);
    let same = |found: &String| {
        let numbers = (found.parse::<f64>(), expected.parse::<f64>());
        // Seeds have more digits than a double.
        *found == expected || matches!(numbers, (Ok(a), Ok(b)) if a == b && a.fract() != 0.0)
    };
    match &found {
        Some(found) if same(found) => None,
        _ => Some(Reason::Setting { side, key, expected, found }),
    }
}

/// What the audit changes and the log of its run does not have.
fn changed_settings(run: &PlannedRun, detail: &Detail) -> Vec<Reason> {
    let of = |(field, value): &(&'static str, String)| {
        if *field == "min_query_count" {
            return too_few_queries(detail, value);
        }
        differs(Side::Audit, effective(field)?, detail, Some(value.clone()))
    };
    run.settings.iter().filter_map(of).collect()
}

/// More queries than the audit asks for do no harm. Offline is one query of so many
/// samples.
fn too_few_queries(detail: &Detail, expected: &str) -> Option<Reason> {
    let is_offline = detail.text("effective_scenario") == Some(Scenario::Offline.name());
    let key = if is_offline { "effective_min_sample_count" } else { "effective_min_query_count" };
    let is_unique = detail.value("effective_performance_issue_unique") == Some(&Value::Bool(true));
    // A run that issues each sample once has no more than there are.
    let there = detail.number("effective_performance_sample_count").filter(|_| is_unique);
    let least = expected.parse::<f64>().ok()?.min(there.unwrap_or(f64::INFINITY));
    let is_enough = detail.number(key).is_some_and(|found| found >= least);
    let (expected, found) = (format!("at least {expected}"), shown(detail, key));
    (!is_enough).then_some(Reason::Setting { side: Side::Audit, key, expected, found })
}

/// An audit that compares no scores is as short as its answers allow: too short for
/// early stopping, which is all that may be missing.
fn is_valid_or_short(detail: &Detail) -> bool {
    let is_met = |key: &str| detail.value(key) != Some(&Value::Bool(false));
    let others =
        ["result_min_duration_met", "result_min_queries_met", "result_perf_constraints_met"];
    match detail.text("result_validity") {
        Some("VALID") => true,
        Some(_) => !is_met("early_stopping_met") && others.into_iter().all(is_met),
        None => false,
    }
}

/// Of the audited run alone: what the audit asks for and its log does not have.
pub(super) fn settings_of(run: &PlannedRun, audited: &Played) -> Result<Vec<Reason>, Reason> {
    let detail = audited.detail()?;
    let mut reasons = changed_settings(run, &detail);
    if !is_valid_or_short(&detail) {
        reasons.push(Reason::NotValid { side: Side::Audit });
    }
    let errors = detail.errors().count() as u64;
    // An INVALID run tells its reasons as errors.
    if errors > 0 && detail.text("result_validity") != Some("INVALID") {
        reasons.push(Reason::Errors { side: Side::Audit, count: errors });
    }
    Ok(reasons)
}

fn shown(detail: &Detail, key: &str) -> Option<String> {
    Some(match detail.value(key)? {
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.text.clone(),
        Value::Text(text) => text.clone(),
        Value::Null | Value::List(_) | Value::Map(_) => return None,
    })
}

fn tolerance(plan: &Plan, scenario: Scenario, kind: Kind, reference: f64) -> f64 {
    let is_short = match (kind, scenario) {
        (Kind::Latency, Scenario::SingleStream) => reference <= SHORT_SINGLE_STREAM_NS,
        (Kind::Latency, Scenario::MultiStream) => reference <= SHORT_MULTI_STREAM_NS,
        _ => false,
    };
    if is_short { plan.short_tolerance } else { plan.tolerance }
}

/// Why two scores are too far apart; TEST04 compares speeds, the others the
/// scores as they are.
fn away(plan: &Plan, is_latency: bool, scores: [f64; 2], tolerance: f64) -> Option<Reason> {
    let [before, now] = scores;
    let (low, high) = (before * (1.0 - tolerance), before * (1.0 + tolerance));
    let is_low = match (plan.test, plan.deviation) {
        // 1e9 over the latency, below that of the reference by 1 + tolerance.
        (Test::Test04, _) if is_latency => 1e9 / now >= 1e9 / before * (1.0 + tolerance),
        // Within 10 % both ways, the bounds included.
        (Test::Test01, _) => now < low,
        _ => now <= low,
    };
    let is_high = if plan.test == Test::Test01 { now > high } else { now >= high };
    let (is_faster, is_slower) = if is_latency { (is_low, is_high) } else { (is_high, is_low) };
    let counts = match plan.deviation {
        Deviation::Both => is_faster || is_slower,
        Deviation::Faster => is_faster,
        Deviation::Slower => is_slower,
    };
    counts.then_some(Reason::Score { reference: before, audit: now, tolerance, is_faster })
}

/// What the script of the round says, and the two scores that it prints.
fn officially(plan: &Plan, a: &Facts, b: &Facts) -> (Verdict, [f64; 2]) {
    let of_detail = plan.test == Test::Test01 && plan.round >= Version::new(4, 0);
    let score = |facts: &Facts| if of_detail { facts.score } else { facts.official.score };
    let kind = if of_detail { a.kind } else { a.official.kind.unwrap_or(Kind::Rate) };
    let is_latency = kind == Kind::Latency;
    // A score that no line matches is 0.
    let scores = [a, b].map(|facts| score(facts).unwrap_or(0.0));
    let is_speed = plan.test == Test::Test04 && is_latency;
    let speed = |score: f64| if score > 0.0 { 1e9 / score } else { 0.0 };
    let scores = if is_speed { scores.map(speed) } else { scores };
    let mut reasons = Vec::new();
    for (side, facts) in [(Side::Reference, a), (Side::Audit, b)] {
        let is_refused = match plan.test {
            Test::Test01 if of_detail => !facts.is_valid,
            // Its script does not look.
            Test::Test04Pair => false,
            _ => facts.official.is_invalid,
        };
        if is_refused {
            reasons.push(Reason::NotValid { side });
        }
    }
    if a.official.scenario != b.official.scenario {
        let [reference, audit] = [a, b].map(|facts| facts.official.scenario.clone());
        reasons.push(Reason::Scenarios { reference, audit });
    }
    if of_detail && a.scenario == Some(Scenario::Server) {
        // The scripts on summaries mean to compare it, with a pattern that never matches.
        let key = "effective_target_latency_ns";
        reasons.extend(differs(Side::Audit, key, &b.detail, shown(&a.detail, key)));
    }
    let [before, now] = scores;
    // Of TEST04 a speed is compared with a bound in ns, which nearly all are below.
    let tolerance = match a.scenario {
        Some(scenario) => tolerance(plan, scenario, kind, before),
        None => plan.tolerance,
    };
    if before == 0.0 || now == 0.0 {
        let side = if before == 0.0 { Side::Reference } else { Side::Audit };
        reasons.push(Reason::NoScore { side });
    } else {
        reasons.extend(away(plan, is_latency && !is_speed, scores, tolerance));
    }
    (Verdict::of(reasons), scores)
}
