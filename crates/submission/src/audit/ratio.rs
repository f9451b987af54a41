//! Whether a run was made as its audit asks, and whether its score is that of the
//! submission: the one rule by which `dyno audit` and `dyno check` judge.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use dyno_loadgen::log::read::{Detail, Summary, Value};
use dyno_loadgen::settings::Scenario;

use super::Test;
use super::evidence::scenario_named;
use super::plan::{Deviation, Plan, PlannedRun};
use super::reason::{Reason, Side};

/// A SingleStream latency up to which the disturbances of the operating system
/// weigh so much that the rules allow for more, ns.
const SHORT_SINGLE_STREAM_NS: f64 = 200_000.0;
/// The same of a MultiStream query.
const SHORT_MULTI_STREAM_NS: f64 = 1_600_000.0;

/// A detail log, whoever read it.
pub(crate) trait RunLog {
    /// What the last line with this key says, as text.
    fn said(&self, key: &str) -> Option<Cow<'_, str>>;

    /// How many lines are errors.
    fn errors(&self) -> u64;

    /// Keys of settings and results that two lines give different values: whoever reads
    /// the first line sees another run than whoever reads the last.
    fn contradictions(&self) -> Vec<String>;
}

impl RunLog for Detail {
    fn said(&self, key: &str) -> Option<Cow<'_, str>> {
        Some(match self.value(key)? {
            Value::Bool(flag) => flag.to_string().into(),
            Value::Number(number) => number.text.as_str().into(),
            Value::Text(text) => text.as_str().into(),
            Value::Null | Value::List(_) | Value::Map(_) => return None,
        })
    }

    fn errors(&self) -> u64 {
        Self::errors(self).count() as u64
    }

    fn contradictions(&self) -> Vec<String> {
        let mut first: BTreeMap<&str, &Value> = BTreeMap::new();
        let mut twice = BTreeSet::new();
        for entry in self.entries.iter().filter(|entry| is_said_once(&entry.key)) {
            if *first.entry(&entry.key).or_insert(&entry.value) != &entry.value {
                twice.insert(entry.key.clone());
            }
        }
        twice.into_iter().collect()
    }
}

/// Keys of which a run has one line each.
pub(crate) fn is_said_once(key: &str) -> bool {
    let beginnings = ["effective_", "requested_", "result_", "early_stopping_", "dyno_result_"];
    // Each reason has a line of its own.
    beginnings.iter().any(|beginning| key.starts_with(beginning)) && key != "result_invalid_reason"
}

fn text(log: &dyn RunLog, key: &str) -> Option<String> {
    log.said(key).map(Cow::into_owned)
}

/// A number of a log.
pub(super) fn number(log: &dyn RunLog, key: &str) -> Option<f64> {
    log.said(key)?.parse().ok()
}

/// What a score counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Of SingleStream, and of MultiStream: less is better.
    Latency,
    /// Of MultiStream at a fixed interval: more is better.
    Streams,
    /// Of Server and Offline: more is better.
    Rate,
}

impl Kind {
    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::Latency => "ns",
            Self::Streams => "streams",
            Self::Rate => "/s",
        }
    }
}

/// A result, in the unit of its kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Score {
    pub kind: Kind,
    pub value: f64,
}

/// What is judged of a performance run.
pub(crate) struct Facts<'a> {
    pub log: &'a dyn RunLog,
    pub scenario: Option<Scenario>,
    pub score: Option<Score>,
    pub mean_latency: Option<f64>,
    is_valid: Option<bool>,
}

impl<'a> Facts<'a> {
    /// What its detail log says.
    pub fn of(log: &'a dyn RunLog) -> Self {
        let scenario = log.said("effective_scenario").and_then(|name| scenario_named(&name));
        Self {
            log,
            scenario,
            score: scenario.and_then(|scenario| score(log, scenario)),
            mean_latency: number(log, "result_mean_latency_ns").filter(|mean| *mean > 0.0),
            is_valid: log.said("result_validity").map(|validity| validity == "VALID"),
        }
    }

    /// Whether the detail log says everything, as logs of early rounds do not.
    pub fn is_complete(&self) -> bool {
        self.scenario.is_some() && self.score.is_some() && self.is_valid.is_some()
    }

    /// What the detail log does not say, from the summary.
    pub fn or_summary(self, summary: &Summary<'_>) -> Self {
        let verdict = summary.value("Result is").map(|verdict| verdict == "VALID");
        let scenario = self.scenario.or_else(|| scenario_named(summary.value("Scenario")?));
        Self {
            scenario,
            score: self.score.or_else(|| summary_score(summary)),
            is_valid: self.is_valid.or(verdict),
            ..self
        }
    }

    pub fn is_valid(&self) -> bool {
        self.is_valid == Some(true)
    }
}

fn score(log: &dyn RunLog, scenario: Scenario) -> Option<Score> {
    // The first key that is there; percentiles and scheduled rates are those of rounds
    // that had nothing else.
    let keys: &[(Kind, &str)] = match scenario {
        Scenario::SingleStream => &[
            (Kind::Latency, "early_stopping_latency_ss"),
            (Kind::Latency, "result_90.00_percentile_latency_ns"),
        ],
        Scenario::MultiStream => {
            &[(Kind::Streams, STREAMS), (Kind::Latency, "early_stopping_latency_ms")]
        }
        Scenario::Server => &[
            (Kind::Rate, "result_completed_samples_per_sec"),
            (Kind::Rate, "result_scheduled_samples_per_sec"),
        ],
        Scenario::Offline => &[(Kind::Rate, "result_samples_per_second")],
    };
    let mut found = keys
        .iter()
        .filter_map(|(kind, key)| number(log, key).map(|value| Score { kind: *kind, value }));
    found.next().filter(is_score)
}

fn is_score(score: &Score) -> bool {
    score.value > 0.0 && score.value.is_finite()
}

/// The score as the official scripts pick it out of a summary: estimates of early
/// stopping first, else the percentile of rounds that had none.
pub(super) fn summary_score(summary: &Summary<'_>) -> Option<Score> {
    let value = |label: &str| summary.value(label)?.parse::<f64>().ok();
    let any = |labels: &[&str]| labels.iter().find_map(|label| value(label));
    let of = |kind: Kind, value: Option<f64>| value.map(|value| Score { kind, value });
    let score = match scenario_named(summary.value("Scenario")?)? {
        Scenario::SingleStream => {
            let labels = ["90.0th percentile latency (ns)", "90th percentile latency (ns)"];
            let estimate = estimate(summary, &["90th", "90.0th", "99.9th"]);
            of(Kind::Latency, estimate.or_else(|| any(&labels)))
        }
        Scenario::MultiStream => {
            let labels = ["99.0th percentile latency (ns)", "99th percentile latency (ns)"];
            let estimate = estimate(summary, &["99th", "99.0th"]);
            of(Kind::Latency, estimate.or_else(|| any(&labels)))
                .or_else(|| of(Kind::Streams, value("Samples per query")))
        }
        Scenario::Server => {
            of(Kind::Rate, any(&["Completed samples per second", "Scheduled samples per second"]))
        }
        Scenario::Offline => of(Kind::Rate, value("Samples per second")),
    };
    score.filter(is_score)
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

/// Why an audited run does not bear the submission's score out; `run` is what the plan
/// says of it.
pub(crate) fn compare(plan: &Plan, run: &PlannedRun, a: &Facts<'_>, b: &Facts<'_>) -> Vec<Reason> {
    let mut reasons = circumstances(plan, run, a, b);
    match (a.scenario, a.score, b.score) {
        (_, None, _) => reasons.push(Reason::NoScore { side: Side::Reference }),
        (_, _, None) => reasons.push(Reason::NoScore { side: Side::Audit }),
        (Some(scenario), Some(before), Some(now)) if before.kind == now.kind => {
            let tolerance = tolerance(plan, scenario, before);
            let scores = [before.value, now.value];
            reasons.extend(away(plan, before.kind, scores, tolerance));
        }
        (Some(scenario), Some(before), Some(now)) => {
            let name = |score: Score| format!("{scenario} in {}", score.kind.unit());
            reasons.push(Reason::Scenarios { reference: name(before), audit: name(now) });
        }
        (None, ..) => {}
    }
    reasons
}

/// What must hold of both runs before their scores mean anything.
fn circumstances(plan: &Plan, run: &PlannedRun, a: &Facts<'_>, b: &Facts<'_>) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let is_pair = plan.test == Test::Test04Pair;
    for (side, facts) in [(Side::Reference, a), (Side::Audit, b)] {
        reasons.extend(contradictions(side, facts.log));
        // TEST04-A is the reference of TEST04-B.
        if is_pair && side == Side::Reference {
            reasons.extend(not_unique(side, facts.log));
        } else if !facts.is_valid() {
            reasons.push(Reason::NotValid { side });
        }
        let count = facts.log.errors();
        if facts.is_valid() && count > 0 {
            reasons.push(Reason::Errors { side, count });
        }
    }
    if a.scenario != b.scenario || a.scenario.is_none() {
        let name = |of: &Facts<'_>| of.scenario.map_or("no scenario", Scenario::name).to_owned();
        reasons.push(Reason::Scenarios { reference: name(a), audit: name(b) });
    }
    reasons.extend(changed_settings(run, b.log));
    // A submission of one sample is as fast as its audit; early logs do not say.
    let same = "effective_performance_issue_same";
    if a.log.said(same).as_deref() == Some("true") {
        reasons.extend(differs(Side::Reference, same, a.log, Some("false".into())));
    }
    if plan.test == Test::Test05 {
        reasons.extend(run.settings.iter().filter_map(|setting| same_seed(setting, a.log)));
    }
    // Its Offline query is as large as the set, and its samples come once.
    let of_pair = ["effective_samples_per_query", "effective_performance_issue_unique"];
    let is_of_pair = |key: &str| is_pair && of_pair.contains(&key);
    let changed = |key: &str| run.settings.iter().any(|(field, _)| effective(field) == Some(key));
    let shared = SHARED.iter().chain((a.scenario == Some(Scenario::Server)).then_some(&RATE));
    reasons.extend(shared.filter(|key| !changed(key) && !is_of_pair(key)).filter_map(|key| {
        let expected = text(a.log, borne(key, a.log))?;
        differs(Side::Audit, borne(key, b.log), b.log, Some(expected))
    }));
    reasons
}

/// A seed of the audit that the submission has already: it shows nothing of others.
fn same_seed((field, seed): &(&'static str, String), reference: &dyn RunLog) -> Option<Reason> {
    let key = effective(field).filter(|key| key.ends_with("_rng_seed"))?;
    let found = text(reference, key).filter(|found| found == seed)?;
    let (side, expected) = (Side::Reference, "another than that of the audit".into());
    Some(Reason::Setting { side, key, expected, found: Some(found) })
}

fn contradictions(side: Side, log: &dyn RunLog) -> impl Iterator<Item = Reason> {
    log.contradictions().into_iter().map(move |key| Reason::Contradiction { side, key })
}

/// What speaks against TEST04-A: it must issue each sample once, and is over when it has.
/// That may be too soon for the rules and for early stopping, and nothing else may be
/// missing.
fn not_unique(side: Side, log: &dyn RunLog) -> Vec<Reason> {
    let unique = "effective_performance_issue_unique";
    let mut reasons: Vec<Reason> =
        differs(side, unique, log, Some("true".into())).into_iter().collect();
    let key = "result_query_count";
    let first = |keys: &[&str]| keys.iter().find_map(|key| number(log, key));
    let size = first(&["generated_samples_per_query", "effective_samples_per_query"]);
    let there = number(log, "effective_performance_sample_count").filter(|there| *there > 0.0);
    if let (Some(queries), Some(there)) = (number(log, key), there)
        // The last query takes what is left.
        && queries > (there / size.unwrap_or(1.0)).ceil()
    {
        let most = (there / size.unwrap_or(1.0)).ceil();
        let (expected, found) = (format!("at most {most}"), text(log, key));
        reasons.push(Reason::Setting { side, key, expected, found });
    }
    let is = |key: &str, value: &str| log.said(key).as_deref() == Some(value);
    let is_known = ["VALID", "INVALID"].iter().any(|verdict| is("result_validity", verdict));
    if log.said("result_validity").is_some() && !is_known
        || is("result_perf_constraints_met", "false")
    {
        reasons.push(Reason::NotValid { side });
    }
    reasons
}

/// TEST04-A alone.
pub(crate) fn alone_and_unique(run: &PlannedRun, log: &dyn RunLog) -> Vec<Reason> {
    let mut reasons: Vec<Reason> = contradictions(Side::Audit, log).collect();
    reasons.extend(changed_settings(run, log));
    for reason in not_unique(Side::Audit, log) {
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    reasons
}

/// What both runs have in common, unless the audit changes it.
const SHARED: [&str; 9] = [
    "effective_performance_issue_same",
    "effective_performance_issue_unique",
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
fn borne(key: &'static str, log: &dyn RunLog) -> &'static str {
    let result = match key {
        "effective_samples_per_query" => STREAMS,
        RATE => "dyno_result_target_qps",
        _ => return key,
    };
    if log.said(result).is_some() { result } else { key }
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
    log: &dyn RunLog,
    expected: Option<String>,
) -> Option<Reason> {
    let expected = expected?;
    let found = text(log, key);
    let is_same = found.as_ref().is_some_and(|found| *found == expected || equal(found, &expected));
    (!is_same).then_some(Reason::Setting { side, key, expected, found })
}

/// Whether two texts are the same number. Seeds have more digits than a double.
fn equal(a: &str, b: &str) -> bool {
    let is_whole = |text: &str| text.parse::<u64>().is_ok();
    let of = |text: &str| text.parse::<f64>().ok();
    !(is_whole(a) && is_whole(b)) && of(a).is_some_and(|a| of(b) == Some(a))
}

/// What the audit changes and the log of its run does not have.
fn changed_settings(run: &PlannedRun, log: &dyn RunLog) -> Vec<Reason> {
    let of = |(field, value): &(&'static str, String)| {
        let side = Side::Audit;
        match *field {
            "min_query_count" => too_few_queries(log, value),
            // To log more answers does no harm.
            "accuracy_log_sampling_target" => {
                let (key, least) = (effective(field)?, value.parse::<f64>().ok()?);
                let is_enough = number(log, key).is_some_and(|found| found >= least);
                let (expected, found) = (format!("at least {value}"), text(log, key));
                (!is_enough).then_some(Reason::Setting { side, key, expected, found })
            }
            _ => differs(side, effective(field)?, log, Some(value.clone())),
        }
    };
    run.settings.iter().filter_map(of).collect()
}

/// More queries than the audit asks for do no harm. Offline is one query of so many
/// samples.
fn too_few_queries(log: &dyn RunLog, expected: &str) -> Option<Reason> {
    let is_offline = log.said("effective_scenario").as_deref() == Some(Scenario::Offline.name());
    let key = if is_offline { "effective_min_sample_count" } else { "effective_min_query_count" };
    let is_unique = log.said("effective_performance_issue_unique").as_deref() == Some("true");
    // A run that issues each sample once has no more than there are.
    let there = number(log, "effective_performance_sample_count").filter(|_| is_unique);
    let least = expected.parse::<f64>().ok()?.min(there.unwrap_or(f64::INFINITY));
    let is_enough = number(log, key).is_some_and(|found| found >= least);
    let (expected, found) = (format!("at least {expected}"), text(log, key));
    (!is_enough).then_some(Reason::Setting { side: Side::Audit, key, expected, found })
}

/// Of the audited run alone, where no scores are compared: what the audit asks for and
/// its log does not have.
pub(crate) fn alone(run: &PlannedRun, log: &dyn RunLog) -> Vec<Reason> {
    let mut reasons: Vec<Reason> = contradictions(Side::Audit, log).collect();
    reasons.extend(changed_settings(run, log));
    if !is_valid_or_short(log) {
        reasons.push(Reason::NotValid { side: Side::Audit });
    }
    let count = log.errors();
    // An INVALID run tells its reasons as errors.
    if count > 0 && log.said("result_validity").as_deref() != Some("INVALID") {
        reasons.push(Reason::Errors { side: Side::Audit, count });
    }
    reasons
}

/// An audit that compares no scores is as short as its answers allow: too short for
/// early stopping, and where each sample comes once over with the last, however many
/// queries were asked for. That is all that may be missing.
fn is_valid_or_short(log: &dyn RunLog) -> bool {
    let is = |key: &str, value: &str| log.said(key).as_deref() == Some(value);
    let is_met = |key: &str| !is(key, "false");
    let is_all = is("effective_performance_issue_unique", "true");
    match log.said("result_validity").as_deref() {
        Some("VALID") => true,
        Some(_) => {
            let is_short = !is_met("early_stopping_met") || !is_met("result_min_queries_met");
            is_short
                && (is_all || is_met("result_min_queries_met"))
                && is_met("result_min_duration_met")
                && is_met("result_perf_constraints_met")
        }
        None => false,
    }
}

/// The share of the reference score that an audited one may lie away from it.
pub(super) fn tolerance(plan: &Plan, scenario: Scenario, reference: Score) -> f64 {
    let is_short = match (reference.kind, scenario) {
        (Kind::Latency, Scenario::SingleStream) => reference.value <= SHORT_SINGLE_STREAM_NS,
        (Kind::Latency, Scenario::MultiStream) => reference.value <= SHORT_MULTI_STREAM_NS,
        _ => false,
    };
    if is_short { plan.short_tolerance } else { plan.tolerance }
}

/// Why two scores are too far apart; TEST04 compares speeds, the others the
/// scores as they are.
pub(super) fn away(plan: &Plan, kind: Kind, scores: [f64; 2], tolerance: f64) -> Option<Reason> {
    let ([before, now], is_latency) = (scores, kind == Kind::Latency);
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
    let (reference, audit, unit) = (before, now, kind.unit());
    counts.then_some(Reason::Score { reference, audit, unit, tolerance, is_faster })
}
