//! Checks whether a run has the settings of its audit, and whether its score matches the
//! submission's. `dyno audit` and `dyno check` share these rules.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use dyno_loadgen::log::read::{Detail, Summary, Value};
use dyno_loadgen::settings::Scenario;

use super::AuditTest;
use super::evidence::scenario_named;
use super::plan::{AuditPlan, Deviation, PlannedRun};
use super::reason::{Reason, Side};
use dyno_rules::Version;

/// SingleStream latency, in ns, up to which the rules allow a larger tolerance because of
/// operating system noise.
const SHORT_SINGLE_STREAM_NS: f64 = 200_000.0;
/// MultiStream query latency, in ns, up to which the rules allow a larger tolerance.
const SHORT_MULTI_STREAM_NS: f64 = 1_600_000.0;

/// A detail log, independent of the reader.
pub(crate) trait LogValues {
    /// Returns the value of the last line with this key, as text.
    fn value_text(&self, key: &str) -> Option<Cow<'_, str>>;

    /// Whether the log has a line with this key.
    fn has(&self, key: &str) -> bool;

    /// Returns the number of error lines.
    fn errors(&self) -> u64;

    /// Returns the keys of settings and results to which two lines give different values.
    /// Readers of the first line and readers of the last line would see different runs.
    fn contradictions(&self) -> Vec<String>;
}

impl LogValues for Detail {
    fn value_text(&self, key: &str) -> Option<Cow<'_, str>> {
        Some(match self.value(key)? {
            Value::Bool(flag) => flag.to_string().into(),
            Value::Number(number) => number.text.as_str().into(),
            Value::Text(text) => text.as_str().into(),
            Value::Null | Value::List(_) | Value::Map(_) => return None,
        })
    }

    fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    fn errors(&self) -> u64 {
        Self::errors(self).count() as u64
    }

    fn contradictions(&self) -> Vec<String> {
        let mut first: BTreeMap<&str, &Value> = BTreeMap::new();
        let mut twice = BTreeSet::new();
        for entry in self.entries.iter().filter(|entry| is_logged_once(&entry.key)) {
            if *first.entry(&entry.key).or_insert(&entry.value) != &entry.value {
                twice.insert(entry.key.clone());
            }
        }
        twice.into_iter().collect()
    }
}

/// Whether a run logs this key exactly once.
pub(crate) fn is_logged_once(key: &str) -> bool {
    let beginnings = ["effective_", "requested_", "result_", "early_stopping_", "dyno_result_"];
    // Each reason has its own line.
    beginnings.iter().any(|beginning| key.starts_with(beginning)) && key != "result_invalid_reason"
}

fn text(log: &dyn LogValues, key: &str) -> Option<String> {
    log.value_text(key).map(Cow::into_owned)
}

/// Returns the value of a key as a number.
pub(super) fn number(log: &dyn LogValues, key: &str) -> Option<f64> {
    log.value_text(key)?.parse().ok()
}

/// ScoreKind of a score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScoreKind {
    /// SingleStream and MultiStream: lower is better.
    Latency,
    /// MultiStream with a fixed interval: higher is better.
    Streams,
    /// Server and Offline: higher is better.
    Rate,
}

impl ScoreKind {
    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::Latency => "ns",
            Self::Streams => "streams",
            Self::Rate => "/s",
        }
    }
}

/// Score of a run, in the unit of its kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Score {
    pub kind: ScoreKind,
    pub value: f64,
}

/// Score as a log states it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum LoggedScore {
    /// No key of the score is in the log.
    Absent,
    /// LoadGen and Dyno write 0 without early stopping.
    Zero,
    /// The value is not a positive number.
    Unusable,
    Value(Score),
}

impl LoggedScore {
    /// Reads the first of the keys that the log has.
    fn read(log: &dyn LogValues, keys: &[(ScoreKind, &str)]) -> Self {
        let Some((kind, key)) = keys.iter().find(|(_, key)| log.has(key)) else {
            return Self::Absent;
        };
        match number(log, key) {
            Some(0.0) => Self::Zero,
            Some(value) if value > 0.0 && value.is_finite() => {
                Self::Value(Score { kind: *kind, value })
            }
            _ => Self::Unusable,
        }
    }

    fn value(self) -> Option<Score> {
        match self {
            Self::Value(score) => Some(score),
            Self::Absent | Self::Zero | Self::Unusable => None,
        }
    }
}

/// Properties of a performance run that audits judge.
pub(crate) struct RunFacts<'a> {
    pub log: &'a dyn LogValues,
    pub scenario: Option<Scenario>,
    pub score: Option<Score>,
    /// Score as the detail log states it.
    logged_score: LoggedScore,
    /// Score by the scripts up to v2.0, which read percentiles and scheduled rates.
    early_score: LoggedScore,
    pub mean_latency: Option<f64>,
    is_valid: Option<bool>,
}

impl<'a> RunFacts<'a> {
    /// Reads the properties from the detail log.
    pub fn from_log(log: &'a dyn LogValues) -> Self {
        let scenario = log.value_text("effective_scenario").and_then(|name| scenario_named(&name));
        let absent = LoggedScore::Absent;
        let logged_score = scenario.map_or(absent, |scenario| logged_score(log, scenario));
        Self {
            log,
            scenario,
            score: logged_score.value(),
            logged_score,
            early_score: scenario.map_or(absent, |scenario| early_score(log, scenario)),
            mean_latency: number(log, "result_mean_latency_ns").filter(|mean| *mean > 0.0),
            is_valid: log.value_text("result_validity").map(|validity| validity == "VALID"),
        }
    }

    /// Whether the detail log contains everything. Logs of early rounds do not.
    pub fn is_complete(&self) -> bool {
        self.scenario.is_some() && self.score.is_some() && self.is_valid.is_some()
    }

    /// Fills in values that the detail log does not contain from the summary. A score that is not a
    /// number is not replaced.
    pub fn or_summary(self, summary: &Summary<'_>) -> Self {
        let verdict = summary.value("Result is").map(|verdict| verdict == "VALID");
        let scenario = self.scenario.or_else(|| scenario_named(summary.value("Scenario")?));
        let score = match self.logged_score {
            LoggedScore::Absent | LoggedScore::Zero => summary_score(summary),
            LoggedScore::Unusable | LoggedScore::Value(_) => self.score,
        };
        Self { scenario, score, is_valid: self.is_valid.or(verdict), ..self }
    }

    pub fn is_valid(&self) -> bool {
        self.is_valid == Some(true)
    }

    /// Returns how many samples were issued, and how many different ones were loaded.
    pub fn issued_and_loaded(&self) -> Option<[f64; 2]> {
        let first = |keys: &[&str]| keys.iter().find_map(|key| number(self.log, key));
        let size = first(&["generated_samples_per_query", "effective_samples_per_query"])?;
        let issued = number(self.log, "result_query_count")? * size;
        Some([issued, number(self.log, "effective_performance_sample_count")?])
    }

    /// Returns the score that counts in a round. With early stopping, a run without an estimate has
    /// none.
    fn score_in(&self, round: Version) -> Option<Score> {
        let is_estimated = round >= Version::new(2, 0);
        self.score.filter(|_| self.logged_score != LoggedScore::Zero || !is_estimated)
    }
}

fn logged_score(log: &dyn LogValues, scenario: Scenario) -> LoggedScore {
    // The first key that exists counts. Percentiles and scheduled rates are the results of early
    // rounds.
    let keys: &[(ScoreKind, &str)] = match scenario {
        Scenario::SingleStream => &[
            (ScoreKind::Latency, "early_stopping_latency_ss"),
            (ScoreKind::Latency, "result_90.00_percentile_latency_ns"),
        ],
        Scenario::MultiStream => {
            &[(ScoreKind::Streams, STREAMS), (ScoreKind::Latency, "early_stopping_latency_ms")]
        }
        Scenario::Server => &[
            (ScoreKind::Rate, "result_completed_samples_per_sec"),
            (ScoreKind::Rate, "result_scheduled_samples_per_sec"),
        ],
        Scenario::Offline => &[(ScoreKind::Rate, "result_samples_per_second")],
    };
    LoggedScore::read(log, keys)
}

/// Returns the score that the scripts of TEST04-A and TEST04-B read. Before v2.0, they read the number
/// of streams in MultiStream, which is the same in both runs; what a cache improves is the latency.
fn early_score(log: &dyn LogValues, scenario: Scenario) -> LoggedScore {
    let key = match scenario {
        Scenario::SingleStream => (ScoreKind::Latency, "result_90.00_percentile_latency_ns"),
        Scenario::MultiStream => {
            (ScoreKind::Latency, "result_99.00_percentile_per_query_latency_ns")
        }
        Scenario::Server => (ScoreKind::Rate, "result_scheduled_samples_per_sec"),
        Scenario::Offline => (ScoreKind::Rate, "result_samples_per_second"),
    };
    LoggedScore::read(log, &[key])
}

fn is_score(score: &Score) -> bool {
    score.value > 0.0 && score.value.is_finite()
}

/// Returns the score that the official scripts read from a summary: the estimate of early
/// stopping, or else the percentile of rounds without early stopping.
pub(super) fn summary_score(summary: &Summary<'_>) -> Option<Score> {
    let value = |label: &str| summary.value(label)?.parse::<f64>().ok();
    let any = |labels: &[&str]| labels.iter().find_map(|label| value(label));
    let score = |kind: ScoreKind, value: Option<f64>| value.map(|value| Score { kind, value });
    let score = match scenario_named(summary.value("Scenario")?)? {
        Scenario::SingleStream => {
            let labels = ["90.0th percentile latency (ns)", "90th percentile latency (ns)"];
            let estimate = estimate(summary, &["90th", "90.0th", "99.9th"]);
            score(ScoreKind::Latency, estimate.or_else(|| any(&labels)))
        }
        Scenario::MultiStream => {
            let labels = ["99.0th percentile latency (ns)", "99th percentile latency (ns)"];
            let estimate = estimate(summary, &["99th", "99.0th"]);
            score(ScoreKind::Latency, estimate.or_else(|| any(&labels)))
                .or_else(|| score(ScoreKind::Streams, value("Samples per query")))
        }
        Scenario::Server => score(
            ScoreKind::Rate,
            any(&["Completed samples per second", "Scheduled samples per second"]),
        ),
        Scenario::Offline => score(ScoreKind::Rate, value("Samples per second")),
    };
    score.filter(is_score)
}

fn estimate(summary: &Summary<'_>, percentiles: &[&str]) -> Option<f64> {
    let lines = summary.early_stopping.iter().flat_map(|(_, text)| text.lines());
    let parse = |line: &str| {
        let (name, value) = line.split_once(" percentile estimate: ")?;
        let percentile = name.rsplit(' ').next()?;
        percentiles.contains(&percentile).then(|| value.trim().parse().ok())?
    };
    lines.filter_map(parse).next_back()
}

/// Returns why an audited run does not confirm the submission's score. `run` is its plan.
pub(crate) fn compare(
    plan: &AuditPlan,
    run: &PlannedRun,
    a: &RunFacts<'_>,
    b: &RunFacts<'_>,
) -> Vec<Reason> {
    let mut reasons = check_preconditions(plan, run, a, b);
    let is_pair = plan.test == AuditTest::Test04Pair;
    let absent = LoggedScore::Absent;
    let is_early = is_pair && a.early_score != absent && b.early_score != absent;
    let score = |facts: &RunFacts<'_>| {
        if is_early { facts.early_score.value() } else { facts.score_in(plan.round) }
    };
    let (reference, audited) = (score(a), score(b));
    match (a.scenario, reference, audited) {
        (_, None, _) => reasons.push(Reason::NoScore { side: Side::Reference }),
        (_, _, None) => reasons.push(Reason::NoScore { side: Side::Audit }),
        (Some(scenario), Some(before), Some(now)) if before.kind == now.kind => {
            let tolerance = tolerance(plan, scenario, before);
            let scores = [before.value, now.value];
            reasons.extend(score_deviation(plan, before.kind, scores, tolerance));
        }
        (Some(scenario), Some(before), Some(now)) => {
            let name = |score: Score| format!("{scenario} in {}", score.kind.unit());
            reasons.push(Reason::Scenarios { reference: name(before), audit: name(now) });
        }
        (None, ..) => {}
    }
    reasons
}

/// Checks what must hold for both runs before their scores can be compared.
fn check_preconditions(
    plan: &AuditPlan,
    run: &PlannedRun,
    a: &RunFacts<'_>,
    b: &RunFacts<'_>,
) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let is_pair = plan.test == AuditTest::Test04Pair;
    for (side, facts) in [(Side::Reference, a), (Side::Audit, b)] {
        reasons.extend(contradictions(side, facts.log));
        // TEST04-A is the reference of TEST04-B. Both end after the samples that they load, which
        // is too early to be VALID.
        if is_pair && side == Side::Reference {
            reasons.extend(not_unique(side, facts.log));
        } else if !is_pair && !facts.is_valid() {
            reasons.push(Reason::NotValid { side });
        }
        let count = facts.log.errors();
        if facts.is_valid() && count > 0 {
            reasons.push(Reason::Errors { side, count });
        }
    }
    if a.scenario != b.scenario || a.scenario.is_none() {
        let name =
            |facts: &RunFacts<'_>| facts.scenario.map_or("no scenario", Scenario::name).to_owned();
        reasons.push(Reason::Scenarios { reference: name(a), audit: name(b) });
    }
    reasons.extend(changed_settings(run, b.log));
    // A submission that issues one sample repeatedly is as fast as its audit. Early logs do not
    // contain this setting.
    let same = "effective_performance_issue_same";
    if a.log.value_text(same).as_deref() == Some("true") {
        reasons.extend(differs(Side::Reference, same, a.log, Some("false".into())));
    }
    if plan.test == AuditTest::Test05 {
        reasons
            .extend(run.settings.iter().filter_map(|(field, seed)| same_seed(field, seed, a.log)));
    }
    // TEST04-A issues each sample once.
    let is_pair_setting = |key: &str| is_pair && key == "effective_performance_issue_unique";
    // TEST04 issues one sample, however many of the data set are loaded.
    let count = "effective_performance_sample_count";
    let is_in_set = |most: u64| number(b.log, count).is_some_and(|loaded| loaded <= most as f64);
    let is_without_effect = |key: &str| {
        plan.test == AuditTest::Test04 && key == count && plan.samples.is_none_or(is_in_set)
    };
    let changed = |key: &str| run.settings.iter().any(|(field, _)| effective(field) == Some(key));
    let shared = SHARED.iter().filter(|key| {
        let is_free = changed(key) || is_pair_setting(key) || is_without_effect(key);
        !is_free && is_meaningful(key, [a.log, b.log])
    });
    reasons.extend(shared.filter_map(|key| differs(Side::Audit, key, b.log, text(a.log, key))));
    reasons
}

/// Whether both logs have a setting that means something. Before v1.1, LoadGen logged
/// uninitialized memory as the percentile of scenarios that have none.
fn is_meaningful(key: &str, logs: [&dyn LogValues; 2]) -> bool {
    key != "effective_target_latency_percentile"
        || logs.iter().all(|log| number(*log, key).is_none_or(|value| value >= 1e-3))
}

/// Returns a reason if the submission already uses a seed of the audit, because such an audit
/// shows nothing about other seeds.
fn same_seed(field: &str, seed: &str, reference: &dyn LogValues) -> Option<Reason> {
    let key = effective(field).filter(|key| key.ends_with("_rng_seed"))?;
    let found = text(reference, key).filter(|found| found == seed)?;
    let (side, expected) = (Side::Reference, "another than that of the audit".into());
    Some(Reason::Setting { side, key, expected, found: Some(found) })
}

fn contradictions(side: Side, log: &dyn LogValues) -> impl Iterator<Item = Reason> {
    log.contradictions().into_iter().map(move |key| Reason::Contradiction { side, key })
}

/// Returns the reasons against TEST04-A. It must issue each sample once and then stop. That may
/// be too early for the minimum duration and for early stopping; nothing else may be missing.
fn not_unique(side: Side, log: &dyn LogValues) -> Vec<Reason> {
    let unique = "effective_performance_issue_unique";
    let mut reasons: Vec<Reason> =
        differs(side, unique, log, Some("true".into())).into_iter().collect();
    let key = "result_query_count";
    let first = |keys: &[&str]| keys.iter().find_map(|key| number(log, key));
    let size = first(&["generated_samples_per_query", "effective_samples_per_query"]);
    let loaded = number(log, "effective_performance_sample_count").filter(|count| *count > 0.0);
    if let (Some(queries), Some(loaded)) = (number(log, key), loaded)
        // The last query contains the remaining samples.
        && queries > (loaded / size.unwrap_or(1.0)).ceil()
    {
        let most = (loaded / size.unwrap_or(1.0)).ceil();
        let (expected, found) = (format!("at most {most}"), text(log, key));
        reasons.push(Reason::Setting { side, key, expected, found });
    }
    let is = |key: &str, value: &str| log.value_text(key).as_deref() == Some(value);
    let is_known = ["VALID", "INVALID"].iter().any(|verdict| is("result_validity", verdict));
    if log.value_text("result_validity").is_some() && !is_known
        || is("result_perf_constraints_met", "false")
    {
        reasons.push(Reason::NotValid { side });
    }
    reasons
}

/// Checks a TEST04-A run on its own.
pub(crate) fn check_unique_run(run: &PlannedRun, log: &dyn LogValues) -> Vec<Reason> {
    let mut reasons: Vec<Reason> = contradictions(Side::Audit, log).collect();
    reasons.extend(changed_settings(run, log));
    for reason in not_unique(Side::Audit, log) {
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    reasons
}

/// Settings that both runs must share, unless the audit changes them.
///
/// The load is not among them: audits require that the performance is near, not the load.
const SHARED: [&str; 8] = [
    "effective_performance_issue_same",
    "effective_performance_issue_unique",
    "effective_qsl_rng_seed",
    "effective_sample_index_rng_seed",
    "effective_schedule_rng_seed",
    "effective_target_latency_ns",
    "effective_target_latency_percentile",
    "effective_performance_sample_count",
];

/// Samples per query of a result with a fixed interval.
const STREAMS: &str = "dyno_result_samples_per_query";

/// Returns the key of the detail log that contains a setting.
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

/// Returns a reason if a setting of a run does not have the expected value.
pub(super) fn differs(
    side: Side,
    key: &'static str,
    log: &dyn LogValues,
    expected: Option<String>,
) -> Option<Reason> {
    let expected = expected?;
    let found = text(log, key);
    let is_same = found.as_ref().is_some_and(|found| *found == expected || equal(found, &expected));
    (!is_same).then_some(Reason::Setting { side, key, expected, found })
}

/// Whether two texts are the same number. Integers are compared as text, because seeds exceed
/// the precision of a double.
fn equal(a: &str, b: &str) -> bool {
    let is_whole = |text: &str| text.parse::<u64>().is_ok();
    let number = |text: &str| text.parse::<f64>().ok();
    !(is_whole(a) && is_whole(b)) && number(a).is_some_and(|a| number(b) == Some(a))
}

/// Returns the settings of the audit that the log of its run does not have.
fn changed_settings(run: &PlannedRun, log: &dyn LogValues) -> Vec<Reason> {
    let reason = |(field, value): &(&'static str, String)| {
        let side = Side::Audit;
        match *field {
            "min_query_count" => too_few_queries(log, value),
            // Logging more answers is allowed.
            "accuracy_log_sampling_target" => {
                let (key, least) = (effective(field)?, value.parse::<f64>().ok()?);
                let is_enough = number(log, key).is_some_and(|found| found >= least);
                let (expected, found) = (format!("at least {value}"), text(log, key));
                (!is_enough).then_some(Reason::Setting { side, key, expected, found })
            }
            _ => differs(side, effective(field)?, log, Some(value.clone())),
        }
    };
    run.settings.iter().filter_map(reason).collect()
}

/// Returns a reason if the run has fewer queries than the audit requires; more are allowed. In
/// Offline the required number counts samples of the single query.
fn too_few_queries(log: &dyn LogValues, expected: &str) -> Option<Reason> {
    let is_offline =
        log.value_text("effective_scenario").as_deref() == Some(Scenario::Offline.name());
    let key = if is_offline { "effective_min_sample_count" } else { "effective_min_query_count" };
    let is_unique = log.value_text("effective_performance_issue_unique").as_deref() == Some("true");
    // A run that issues each sample once is limited by the number of samples.
    let loaded = number(log, "effective_performance_sample_count").filter(|_| is_unique);
    let least = expected.parse::<f64>().ok()?.min(loaded.unwrap_or(f64::INFINITY));
    let is_enough = number(log, key).is_some_and(|found| found >= least);
    let (expected, found) = (format!("at least {expected}"), text(log, key));
    (!is_enough).then_some(Reason::Setting { side: Side::Audit, key, expected, found })
}

/// Checks an audited run on its own, if no scores are compared: its settings, its validity and
/// its errors.
pub(crate) fn check_audit_run(run: &PlannedRun, log: &dyn LogValues) -> Vec<Reason> {
    let mut reasons: Vec<Reason> = contradictions(Side::Audit, log).collect();
    reasons.extend(changed_settings(run, log));
    if !is_valid_or_short(log) {
        reasons.push(Reason::NotValid { side: Side::Audit });
    }
    let count = log.errors();
    // An INVALID run logs its reasons as errors.
    if count > 0 && log.value_text("result_validity").as_deref() != Some("INVALID") {
        reasons.push(Reason::Errors { side: Side::Audit, count });
    }
    reasons
}

/// Whether a run is valid except for its length. An audit that compares no scores may be too
/// short for early stopping. If each sample is issued once, it may also have fewer queries than
/// requested.
fn is_valid_or_short(log: &dyn LogValues) -> bool {
    let is = |key: &str, value: &str| log.value_text(key).as_deref() == Some(value);
    let is_met = |key: &str| !is(key, "false");
    let is_all = is("effective_performance_issue_unique", "true");
    match log.value_text("result_validity").as_deref() {
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

/// Returns the permitted deviation from the reference score, as a share of it.
pub(super) fn tolerance(plan: &AuditPlan, scenario: Scenario, reference: Score) -> f64 {
    let is_short = match (reference.kind, scenario) {
        (ScoreKind::Latency, Scenario::SingleStream) => reference.value <= SHORT_SINGLE_STREAM_NS,
        (ScoreKind::Latency, Scenario::MultiStream) => reference.value <= SHORT_MULTI_STREAM_NS,
        _ => false,
    };
    if is_short { plan.short_tolerance } else { plan.tolerance }
}

/// Returns a reason if two scores are too far apart. TEST04 compares speeds; other audits
/// compare the scores.
pub(super) fn score_deviation(
    plan: &AuditPlan,
    kind: ScoreKind,
    scores: [f64; 2],
    tolerance: f64,
) -> Option<Reason> {
    let ([before, now], is_latency) = (scores, kind == ScoreKind::Latency);
    let (low, high) = (before * (1.0 - tolerance), before * (1.0 + tolerance));
    let is_low = match (plan.test, plan.deviation) {
        // Compares speeds, 1e9 / latency.
        (AuditTest::Test04, _) if is_latency => 1e9 / now >= 1e9 / before * (1.0 + tolerance),
        // Within 10 % in both directions, bounds included.
        (AuditTest::Test01, _) => now < low,
        _ => now <= low,
    };
    let is_high = if plan.test == AuditTest::Test01 { now > high } else { now >= high };
    let (is_faster, is_slower) = if is_latency { (is_low, is_high) } else { (is_high, is_low) };
    let counts = match plan.deviation {
        Deviation::Both => is_faster || is_slower,
        Deviation::Faster => is_faster,
        Deviation::Slower => is_slower,
    };
    let (reference, audit, unit) = (before, now, kind.unit());
    counts.then_some(Reason::Score { reference, audit, unit, tolerance, is_faster })
}
