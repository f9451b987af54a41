//! Results of a test that are kept: its entry in the summary, its series, and its raw records. The
//! load generator's record is dropped, because it may hold millions of samples.

mod answers;
mod failures;
mod quality;
mod reasons;
mod scenarios;

use std::collections::BTreeMap;

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::compare::single_run::{self, Factors};
use dyno_loadgen::log::Report;
use dyno_loadgen::metrics::PaceBasis;
use dyno_loadgen::peak::{End, Failure};
use dyno_loadgen::plan::{self, Load};
use dyno_loadgen::record::Record;
use dyno_loadgen::run::TestLog;
use dyno_loadgen::session::EndReason;
use dyno_loadgen::settings::{Arrivals, Origin, Repetition, Setting as _, Settings, TestMode};
use dyno_loadgen::verdict::Violation;
use dyno_results::records::{Keep, Records};
use dyno_results::summary::NO_BOUND;
use dyno_results::summary::{
    self, Data, Headline, Interval, Metrics, Plan, Reason, ReasonKind, Setting, State, mode_name,
};
use dyno_results::{series, units};

pub use self::failures::{Failures, Troubles};
pub use self::reasons::{Context, allowed, judge_failures};
pub use self::scenarios::compare_accuracies;

use crate::options::in_short;
use crate::system::System;
use crate::system::net::Remote;
use crate::test::PlannedTest;

/// A tenant's test, with its log.
#[derive(Clone, Copy)]
pub struct TenantTest<'a> {
    /// Log of the tenant.
    pub log: &'a TestLog,
    /// The test of all tenants.
    pub test: &'a PlannedTest,
    /// Name of the tenant, if it has one.
    pub tenant: Option<&'a str>,
    /// The system under test.
    pub system: &'a System,
}

/// The results of one tenant's test.
#[derive(Debug)]
pub struct Outcome {
    /// Its entry in the summary.
    pub summary: summary::Test,
    /// Plots; `None` for an accuracy test.
    pub series: Option<series::Test>,
    /// Raw records; `None` for an accuracy test.
    pub records: Option<Records>,
    /// Requests and answers as JSON lines; empty unless the run keeps them.
    pub texts: String,
}

impl Outcome {
    /// Returns the results of one tenant's test. The last report has its figures.
    pub fn from_test(
        tenant_test: TenantTest<'_>,
        reports: &[Report<'_>],
        keep: Keep,
        context: Context<'_>,
    ) -> Self {
        let TenantTest { log, test, tenant, system } = tenant_test;
        let ended = log.runs().last().map(|run| run.ended);
        let state = match ended {
            _ if log.complete => State::Complete,
            Some(EndReason::Deadline { .. }) => State::Aborted,
            _ => State::Interrupted,
        };
        let folder = log_folder(test, tenant);
        let mut kept = Self {
            summary: summary::Test {
                tenant: tenant.map(str::to_string),
                folder: folder.clone(),
                state,
                repeated: log.search.as_ref().map(|sought| sought.repeated.len() as u64),
                data: Data {
                    name: log.qsl_name.clone(),
                    total: log.qsl_total,
                    performance: log.plan.performance_sample_count,
                    workload: system.workload.clone(),
                    files: system.files.clone(),
                    shapes: system.shapes(),
                },
                plan: plan_of(&log.plan, &log.requested),
                settings: settings(&log.requested),
                ..summary::Test::new(test.scenario.name(), mode_name(test.mode))
            },
            series: None,
            records: None,
            texts: tenant_test.texts(&folder),
        };
        match (test.mode, reports.last()) {
            (TestMode::AccuracyOnly, _) => {
                quality::judge(&mut kept.summary, log, system, context);
            }
            (_, Some(report)) => {
                let share = Share::for_tenant(test, tenant);
                judge_performance(&mut kept.summary, log, report, test.mode, share, context);
                let counted = tenant_test.add_accounts(&mut kept.summary, report, context);
                let record = counted.as_ref().unwrap_or(&report.run.record);
                kept.series = Some(series::Test::from_record(record, &folder));
                kept.records = tenant_test.records(record, report, keep);
            }
            (_, None) => {}
        }
        let summary = &mut kept.summary;
        add_end(summary, log, ended);
        add_nothing_measured(summary, log.complete);
        summary.settle();
        kept
    }
}

impl TenantTest<'_> {
    /// Returns the texts of the tenant's requests and answers in the last run.
    fn texts(self, folder: &str) -> String {
        let excluded = self.log.runs().last().and_then(|run| run.record.excluded.as_ref());
        let is_measured = |sequence: u64| {
            excluded.is_none_or(|excluded| excluded.numbers.binary_search(&sequence).is_ok())
        };
        let number = self.number().and_then(|number| u8::try_from(number).ok()).unwrap_or(0);
        match self.system.remote() {
            Some(remote) => remote.take_texts(number, folder, &is_measured),
            None => String::new(),
        }
    }

    /// Adds classes and tokens of a text server's answers in the reported run. Returns its record
    /// with tokens if only the accounts of the answers have them.
    fn add_accounts(
        self,
        summary: &mut summary::Test,
        report: &Report<'_>,
        context: Context<'_>,
    ) -> Option<Record> {
        let number = self.number_in_client(report)?;
        let (system, record) = (self.system, &report.run.record);
        let entries = system.ledger(number, record);
        let wire = system.wire_times(number, record);
        let remote = system.remote().filter(|_| self.test.tenants.len() == 1);
        let model_of = |sample| remote.and_then(|remote| remote.model_of(sample));
        let with_tokens = answers::add(summary, report, &entries, &wire, &model_of, context);
        if system.remote().is_some_and(Remote::has_texts) {
            answers::add_failed(summary, record);
        }
        with_tokens
    }

    /// Returns the raw records of the reported run, with the retries of the requests of a server.
    fn records(self, record: &Record, report: &Report<'_>, keep: Keep) -> Option<Records> {
        let records = Records::from_record(record, keep)?;
        let number = self.number_in_client(report);
        let retries = number.and_then(|number| self.system.retries(number, record));
        Some(records.with_retries(&retries.unwrap_or_default()))
    }

    /// Returns the number of the tenant by which the client of a server knows its samples; `None`
    /// unless the reported run is the last one, because the client only knows that one.
    fn number_in_client(self, report: &Report<'_>) -> Option<u8> {
        let is_last = self.log.runs().last().is_some_and(|run| std::ptr::eq(run, report.run));
        let number = self.number()?;
        is_last.then(|| u8::try_from(number).unwrap_or(u8::MAX))
    }

    /// Returns the number of the tenant in the test.
    fn number(self) -> Option<usize> {
        self.test.tenants.iter().position(|one| one.name.as_deref() == self.tenant)
    }
}

/// Adds the reason of an early end, unless the reasons already have it.
fn add_end(summary: &mut summary::Test, log: &TestLog, ended: Option<EndReason>) {
    let is_told = summary.causes.iter().any(|reason| reason.kind == ReasonKind::Ended);
    match ended {
        Some(EndReason::Deadline { missing }) if !is_told => {
            summary.add_first_reason(reasons::silent(&log.plan, missing));
        }
        Some(EndReason::Lost { worker, workers }) if !is_told => {
            let text = Violation::Lost { worker, workers }.to_string();
            summary.add_first_reason(Reason::new(ReasonKind::Ended, text));
        }
        _ if summary.state == State::Interrupted && summary.reasons.is_empty() => {
            let missing = log.runs().last().map_or(0, |run| run.record.missing());
            summary.add_reason(Reason::new(ReasonKind::Ended, reasons::stopped(missing as u64)));
        }
        _ => {}
    }
}

/// Makes a test UNDECIDED that would be VALID although no answer was measured.
fn add_nothing_measured(summary: &mut summary::Test, is_complete: bool) {
    let is_empty = |metrics: &Metrics| metrics.sample_count == 0;
    if is_complete && summary.reasons.is_empty() && summary.metrics.as_ref().is_some_and(is_empty) {
        let text = "No answer was measured: all requests were cancelled, or belong to the ramp. \
                    Cancel fewer requests, or run longer.";
        summary.add_reason(Reason::new(ReasonKind::QueryCount, text).undecided());
    }
}

/// Role of a tenant in a search or a repetition.
#[derive(Debug, Clone, Copy)]
enum Share<'a> {
    /// The load of the tenant changes.
    Load,
    /// The load of the tenant is fixed, and that of the tenant of this name changes.
    Beside(&'a str),
}

impl<'a> Share<'a> {
    fn for_tenant(test: &'a PlannedTest, tenant: Option<&str>) -> Self {
        match test.tenants[0].name.as_deref() {
            Some(first) if tenant != Some(first) => Self::Beside(first),
            _ => Self::Load,
        }
    }
}

fn judge_performance(
    test: &mut summary::Test,
    log: &TestLog,
    report: &Report<'_>,
    mode: TestMode,
    share: Share<'_>,
    context: Context<'_>,
) {
    let (run, judgement) = (report.run, &report.judgement);
    let lasted = run.record.lasted();
    let metrics =
        Metrics::from_run(&report.metrics, judgement, &run.plan, &run.record, run.ended, lasted);
    let end = log.search.as_ref().and_then(|sought| sought.end);
    let is_peak = mode == TestMode::FindPeakPerformance && log.complete;
    let is_found = matches!(end, Some(End::Found { .. }));
    let is_of_this = is_peak && is_found && matches!(share, Share::Load);
    let peak = is_of_this.then_some(run.plan.peak_load());
    let mut result = headline(&metrics, &run.plan, peak);
    // The result of a search is not a figure of one run, and planned stages are not chance.
    let is_filling = report.metrics.pace.basis == PaceBasis::FillAndDrain;
    let has_interval = !is_peak && !is_filling && context.stages.is_none();
    result.interval = result
        .value
        .filter(|_| has_interval)
        .and_then(|value| interval(value, &run.record, &run.plan));
    test.result = Some(result);
    test.metrics = Some(metrics);
    test.plan = plan_of(&run.plan, &log.requested);
    if let (Load::Server(_), Some(stages)) = (&run.plan.load, context.stages) {
        test.plan.arrivals = Some(stages.arrivals_name());
    }
    if let (Load::Server(server), Some(metrics)) = (&run.plan.load, &test.metrics)
        && let Arrivals::Replay(times) = &server.arrivals
    {
        let offered = offered_rate(&run.plan, metrics, times);
        test.plan.target_qps = offered.unwrap_or(0.0);
    }
    reasons::list(report, context).into_iter().for_each(|reason| test.add_reason(reason));
    test.notes = judgement.notes.iter().map(ToString::to_string).collect();
    // A rate without answers has neither a fill nor a drain, and no longer run changes that.
    let has_answers = report.metrics.sample_count > 0;
    let in_flight = run.plan.in_flight().filter(|_| is_filling && has_answers);
    test.notes.extend(in_flight.map(fill_and_drain));
    if let Some(metrics) = &test.metrics
        && let Some(excluded) = &metrics.excluded
    {
        let of_tenant = |note: String| match &test.tenant {
            Some(name) => format!("Tenant {name}: {note}"),
            None => note,
        };
        test.notes.extend(excluded.notes(metrics.query_count).into_iter().map(of_tenant));
    }
    match end {
        Some(End::Failed { load, because }) => {
            let told = match share {
                Share::Load => {
                    let failures = Failures::from_samples(&run.record.failed, context.troubles);
                    let failures = failures.with_reason(context.failure);
                    without_load(load, because, &run.plan, is_peak, &failures)
                        .map(|text| Reason::new(ReasonKind::Consequence, text))
                }
                Share::Beside(first) => beside(first, because, test.reasons.is_empty()),
            };
            told.into_iter().for_each(|reason| test.add_reason(reason));
        }
        None => test.notes.extend(kept_of_cut(log, &test.folder)),
        Some(End::Found { .. }) => {}
    }
}

/// Returns a note on the completed rate of a closed loop with fewer than two rounds of queries.
fn fill_and_drain(in_flight: usize) -> String {
    format!(
        "The completed rate includes the fill and the drain of the load, because fewer than two \
         rounds of queries were issued ({in_flight} in flight). Run longer, or send at least {} \
         requests.",
        2 * in_flight
    )
}

/// Returns the rate of recorded times, which have none in the settings: that of the queries that
/// were sent, or of the starts of sessions. It is `None` where all are due at once.
fn offered_rate(plan: &plan::Plan, metrics: &Metrics, times: &[Nanos]) -> Option<f64> {
    if plan.sessions.is_some() {
        return rate_of(times);
    }
    metrics.rates.scheduled_samples_per_s.filter(|rate| rate.is_finite())
}

/// Returns the rate of ascending times, per second; `None` if all are at once.
fn rate_of(times: &[Nanos]) -> Option<f64> {
    let span = times.last()?.saturating_sub(*times.first()?);
    (span > 0).then(|| (times.len() - 1) as f64 * 1e9 / span as f64)
}

/// Returns why a search or a repetition found no load, with advice; `None` if the verdict of its
/// last run explains it.
fn without_load(
    load: f64,
    because: Failure,
    plan: &plan::Plan,
    is_peak: bool,
    failures: &Failures,
) -> Option<String> {
    let is_whole = plan.interval().is_some();
    let (what, lower) = if is_whole {
        ("number of streams", "Begin with a lower multi_stream_samples_per_query")
    } else {
        ("rate", "Begin with a lower one, with --qps")
    };
    const FASTER: &str = "Make the system faster, or the interval longer.";
    let is_least = |load: f64| is_whole && load <= 1.0;
    let text = match because {
        // A lower load does not prevent such failures.
        Failure::Base if !failures.are_overload() => {
            format!("The search found no {what}: samples failed at the first one.")
        }
        Failure::Base if is_least(load) => {
            format!("The search found no {what}: one already skips too many intervals. {FASTER}")
        }
        Failure::Base => {
            let missed =
                if is_whole { "skips too many intervals" } else { "misses the latency bound" };
            format!("The search found no {what}: the first one already {missed}. {lower}.")
        }
        Failure::OneLoad if is_peak => format!(
            "The {what} that the search found did not pass when repeated. Use a repetition that \
             lowers it, such as --set repetition=confirm:5."
        ),
        Failure::OneLoad => return None,
        Failure::NotOfLoad => {
            "No lower load was tried, because a lower load would not change that.".into()
        }
        Failure::TooHigh { first, times } => {
            let show = |load: f64| if is_whole { format!("{load:.0}") } else { units::rate(load) };
            let tried = match times {
                0 => {
                    format!("No {what} was confirmed: no lower value than {} exists.", show(first))
                }
                _ => {
                    format!("No {what} was confirmed, from {} down to {}.", show(first), show(load))
                }
            };
            let instead = if !failures.are_overload() {
                failures.advice()
            } else if is_least(load) {
                FASTER.into()
            } else if is_peak {
                "Lower it by more at once, with --set repetition=confirm:RUNS:STEP.".into()
            } else {
                format!("{lower}, or find the peak first, with --mode peak.")
            };
            format!("{tried} {instead}")
        }
    };
    Some(text)
}

/// Returns why a tenant other than the first one, which is named `first`, has no result.
fn beside(first: &str, because: Failure, is_valid: bool) -> Option<Reason> {
    match because {
        Failure::TooHigh { times: times @ 1.., .. } => {
            let times = if times == 1 { "once".into() } else { format!("{times} times") };
            let text = format!(
                "Only the load of tenant {first} was lowered, {times}, and not every run passed."
            );
            Some(Reason::new(ReasonKind::Consequence, text))
        }
        _ if is_valid => {
            let text = format!(
                "The run of another tenant is not VALID, so this run does not count; see tenant \
                 {first}."
            );
            Some(Reason::new(ReasonKind::OtherTenant, text))
        }
        _ => None,
    }
}

/// Returns a note on the completed runs of an interrupted repetition.
fn kept_of_cut(log: &TestLog, folder: &str) -> Option<String> {
    match log.search.as_ref()?.repeated.len() {
        0 => None,
        1 => Some(format!("The run before this one is VALID; its folder is {folder}/run_1.")),
        runs => Some(format!(
            "The {runs} runs before this one are VALID; their folders are {folder}/run_1 to \
             run_{runs}."
        )),
    }
}

/// Returns the headline of a test.
fn headline(metrics: &Metrics, plan: &plan::Plan, peak: Option<f64>) -> Headline {
    let of = |name: &str, value: Option<f64>, unit: &str| Headline {
        name: name.into(),
        value: value.filter(|value| value.is_finite()),
        unit: unit.into(),
        interval: None,
    };
    if plan.interval().is_some() {
        return of("streams", Some(plan.samples_per_query as f64), "streams");
    }
    if peak.is_some() {
        return of("peak rate", peak, "queries/s");
    }
    let percentile = units::percentile(plan.percentile());
    let target = metrics.answered().map(|timed| timed.target as f64);
    match &plan.load {
        Load::SingleStream { .. } => of(&format!("{percentile} latency"), target, "ns"),
        Load::MultiStream { .. } => of(&format!("{percentile} query latency"), target, "ns"),
        Load::Server(_) => of("completed rate", metrics.rates.completed_samples_per_s, "queries/s"),
        Load::Offline => of("throughput", metrics.rates.samples_per_s, "samples/s"),
    }
}

/// Confidence of a headline's interval, in (0, 1).
const CONFIDENCE: f64 = 0.95;

/// Returns the confidence interval of a headline; `None` if the run is too short.
fn interval(value: f64, record: &Record, plan: &plan::Plan) -> Option<Interval> {
    if plan.interval().is_some() {
        // A fixed number of streams is a setting and not an estimate.
        return None;
    }
    let rows = Records::from_record(record, Keep::Thinned)?;
    let answered = || (0..rows.row_count()).filter(|&row| rows.is_answered(row));
    let latency = |row: usize| u64::try_from(rows.latency_ns[row]).unwrap_or(0);
    let risk = 1.0 - CONFIDENCE;
    let (factors, method) = match plan.load {
        Load::SingleStream { .. } | Load::MultiStream { .. } => {
            let latencies: Vec<u64> = answered().map(latency).collect();
            let factors = single_run::percentile(&latencies, plan.percentile(), risk);
            (
                factors,
                "order statistics of the effective number of independent queries, estimated \
                 from 20 batches",
            )
        }
        Load::Server(_) | Load::Offline => {
            let due = |row: usize| u64::try_from(rows.scheduled_ns[row]).unwrap_or(0);
            let mut done: Vec<u64> = answered().map(|row| due(row) + latency(row)).collect();
            done.sort_unstable();
            // Completions after the last issue are those of the drain.
            let last = record.issued_at.iter().copied().max().unwrap_or(0);
            done.retain(|at| plan.in_flight().is_none() || *at <= last);
            let stride = usize::try_from(rows.stride).unwrap_or(1).max(1);
            let rows_in_flight = plan.in_flight().map_or(1, |queries| queries.div_ceil(stride));
            let method = match rows_in_flight {
                1 => "times between completions in 20 batches",
                _ => "times of the rounds of queries in flight in at most 20 batches",
            };
            (single_run::rate_in_rounds(&done, rows_in_flight, risk), method)
        }
    };
    let Factors { low, high } = factors.ok()?;
    let interval = Interval {
        low: value * low,
        high: value * high,
        confidence: CONFIDENCE,
        method: method.into(),
    };
    (interval.low.is_finite() && interval.high.is_finite()).then_some(interval)
}

/// Name of the setting of the arrival process.
const ARRIVALS: &str = "server_arrivals";

/// Returns the plan of a test in the form of summaries.
pub(crate) fn plan_of(plan: &plan::Plan, requested: &Settings) -> Plan {
    let server = match &plan.load {
        Load::Server(server) => Some(server),
        _ => None,
    };
    let (first_token, per_token) = match plan.tokens {
        Some(plan::Tokens::Measured { ttft, tpot }) if server.is_some() => (Some(ttft), Some(tpot)),
        _ => (None, None),
    };
    let judged = |bound: Option<u64>| bound.filter(|bound| *bound < NO_BOUND);
    let mut rows = requested.rows();
    let arrivals = rows.find(|(field, ..)| field.name == ARRIVALS).map(|(_, value, _)| value);
    Plan {
        percentile: plan.percentile(),
        latency_bound_ns: judged(
            server.filter(|_| first_token.is_none()).map(|s| s.target_latency),
        ),
        first_token_bound_ns: judged(first_token),
        time_per_output_token_bound_ns: judged(per_token),
        repetition: (plan.repetition != Repetition::Once).then(|| plan.repetition.show()),
        interval_ns: plan.interval(),
        target_qps: plan.target_qps,
        arrivals: server.and(arrivals).map(in_short),
        samples_per_query: plan.samples_per_query,
        min_duration_ns: plan.min_duration,
        min_query_count: plan.min_query_count,
        max_client_lag_ns: Some(plan.max_client_lag).filter(|&budget| budget > 0),
        seeds: [plan.seeds.qsl, plan.seeds.sample_index, plan.seeds.schedule],
    }
}

/// Returns all settings with their origins, except defaults.
pub fn settings(settings: &Settings) -> BTreeMap<String, Setting> {
    let set = settings.rows().filter(|(_, _, origin)| **origin != Origin::Default);
    set.map(|(field, value, origin)| {
        // A trace from a file is not listed in full.
        let value = match origin {
            Origin::Code(_) => in_short(value),
            _ => value,
        };
        let (unit, origin) = (field.unit.into(), origin.to_string());
        (field.name.into(), Setting { value, unit, origin })
    })
    .collect()
}

/// Returns the folder of a test's logs in the run directory, unique for any name of the tenant.
pub(crate) fn log_folder(test: &PlannedTest, tenant: Option<&str>) -> String {
    let folder = format!("{}/{}", test.scenario, mode_name(test.mode));
    let Some(name) = tenant else { return folder };
    let names: Vec<&str> = test.tenants.iter().filter_map(|t| t.name.as_deref()).collect();
    format!("{folder}/{}", folder_of(name, &names))
}

/// Returns a folder name for a tenant, with its number if another tenant would have an equal name.
fn folder_of(name: &str, all: &[&str]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let plain = |name: &str| name.replace(|c| !is_plain(c), "-");
    let mut folder = plain(name);
    if folder == name {
        return folder;
    }
    let number = all.iter().position(|other| *other == name).map_or(0, |at| at + 1);
    while all.iter().any(|other| *other != name && plain(other) == folder) {
        folder = format!("{folder}-{number}");
    }
    folder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tenant_has_a_folder_of_its_own() {
        let names = ["a b", "a-b", "a_b", "a-b-1", "a.b", "会議", "検索", "..", "a b-1"];
        let folders = names.map(|name| folder_of(name, &names));
        assert_eq!(
            folders,
            ["a-b-1-1", "a-b", "a_b", "a-b-1", "a-b-5", "---6", "---7", "---8", "a-b-1-9"]
        );
        assert_eq!(folder_of("batch jobs", &["interactive", "batch jobs"]), "batch-jobs");
    }
}
