//! Plays a case through Dyno, and states what was observed and what was reported.

use std::sync::atomic::AtomicU32;

use dyno_loadgen::clock::{MILLISECOND, Nanos, WallTime};
use dyno_loadgen::drive::Driver;
use dyno_loadgen::drive::sim::VirtualTime;
use dyno_loadgen::metrics::{Distribution, Metrics, PERCENTILES, Rates};
use dyno_loadgen::plan::{Plan, ReferenceBehavior, SettingsProblem};
use dyno_loadgen::run::{RecordRetention, RunLog, Tenant, TestLog, run};
use dyno_loadgen::settings::{Arrivals, EarlyStopping, Scenario, Settings, TestSettings};
use dyno_loadgen::verdict::{Verdict, judge};

use super::case::{Case, Fault};
use super::late_client::LateClient;
use super::system::{Answer, CountingLibrary, FaultySystem, GroundTruth};
use crate::oracle;

/// A case after its run.
#[derive(Debug)]
pub struct SimulatedRun {
    /// Settings, in the oracle's words.
    pub settings: oracle::Settings,
    /// What the simulated system observed.
    pub observed: oracle::Observation,
    /// The run as Dyno recorded it.
    pub run: RunLog,
    /// Log of the whole test.
    pub log: TestLog,
    /// Faults that happened, by [`Fault`].
    pub injected: [u64; Fault::ALL.len()],
}

/// Driver of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
    /// Dyno's driver in virtual time.
    Prompt,
    /// The client that sleeps if the case demands it.
    Late,
}

/// Plays a case. Returns `None` if Dyno rejects its settings.
pub fn play(case: &Case, client: Client) -> Option<SimulatedRun> {
    let (plan, problems) = Plan::resolve_as_reference(&case.settings, case.library);
    // Settings that the reference runs as they are must be judged right, too.
    let is_refused = |problem: &SettingsProblem| {
        let is_own = problem.given.iter().any(|(field, _)| *field == "server_arrivals");
        is_own || problem.in_reference != ReferenceBehavior::Runs
    };
    if problems.iter().any(is_refused) {
        return None;
    }
    let library = CountingLibrary {
        total: case.library.total as usize,
        performance: case.library.performance as usize,
        loads: AtomicU32::new(0),
    };
    let mut system = FaultySystem::new(case, &library);
    let settings = oracle_settings(&case.settings, case.library.performance);
    let tenant = Tenant {
        settings: Settings::from(case.settings.clone()),
        plan,
        library: &library,
        messages: Vec::new(),
    };
    let ((run, log), late, pauses) = match client {
        Client::Prompt => {
            let mut driver = VirtualTime::new(&mut system, WallTime { unix_ns: 0 });
            (last_run(&mut driver, &tenant)?, None, 0)
        }
        Client::Late => {
            let mut driver = LateClient::new(case, &mut system);
            let run = last_run(&mut driver, &tenant)?;
            let due = std::mem::take(&mut driver.due);
            (run, Some((due, driver.continued_at)), driver.pauses())
        }
    };
    let (truth, unsent) = system.into_truth();
    let mut injected = truth.injected;
    injected[Fault::ClientPause as usize] = pauses;
    injected[Fault::WallStep as usize] = u64::from(case.rate(Fault::WallStep) > 0.0);
    let due = late.as_ref().map(|(due, _)| due.as_slice());
    let mut observed = observe(&truth, &unsent, &run, due);
    if let Some((_, continued_at)) = late {
        observed.continued_ns = Some(continued_at);
    }
    Some(SimulatedRun { settings, observed, run, log, injected })
}

/// Runs the test; `None` if it ended before its performance run.
fn last_run(driver: &mut dyn Driver, tenant: &Tenant<'_>) -> Option<(RunLog, TestLog)> {
    let log = run(driver, std::slice::from_ref(tenant), RecordRetention::Every, &mut |_| {})
        .swap_remove(0);
    let last = log.runs().last().filter(|run| !run.accuracy).cloned()?;
    Some((last, log))
}

/// Returns what the system observed, with times since the start of the run.
fn observe(
    truth: &GroundTruth,
    unsent: &[Answer],
    run: &RunLog,
    due: Option<&[Nanos]>,
) -> oracle::Observation {
    let (base, samples_per_query) = (run.started_at, run.record.samples_per_query.max(1));
    let mut queries = Vec::new();
    for call in &truth.calls {
        for (query, indices) in call.indices.chunks(samples_per_query).enumerate() {
            let first = call.first.0 + (query * samples_per_query) as u64;
            let issued_ns = call.at - base;
            let scheduled_ns =
                due.and_then(|due| due.get(queries.len()).copied()).unwrap_or(issued_ns);
            let samples = (first..).zip(indices).map(|(id, &index)| (id, u64::from(index)));
            queries.push(oracle::Query { scheduled_ns, issued_ns, samples: samples.collect() });
        }
    }
    let ended_ns = run.finished_at - base;
    let late = unsent.iter().filter(|answer| answer.at > run.finished_at);
    let completion = |answer: &Answer| oracle::Completion {
        sample_id: answer.id.0,
        at_ns: answer.at.saturating_sub(base),
        failed: answer.failed,
    };
    let completions = truth.sent.iter().chain(late).map(completion).collect();
    let continued_ns = queries.last().map(|last| last.issued_ns);
    oracle::Observation { queries, completions, ended_ns: Some(ended_ns), continued_ns }
}

/// Returns the settings in the oracle's words.
pub fn oracle_settings(settings: &TestSettings, performance: u64) -> oracle::Settings {
    let (scenario, target_qps, target_percentile) = match settings.scenario {
        Scenario::SingleStream => (
            oracle::Scenario::SingleStream,
            1e9 / settings.single_stream_expected_latency_ns,
            settings.single_stream_target_latency_percentile,
        ),
        Scenario::MultiStream => {
            (oracle::Scenario::MultiStream, 0.0, settings.multi_stream_target_latency_percentile)
        }
        Scenario::Server => (
            oracle::Scenario::Server,
            settings.server_target_qps,
            settings.server_target_latency_percentile,
        ),
        Scenario::Offline => (oracle::Scenario::Offline, settings.offline_expected_qps, 0.99),
    };
    oracle::Settings {
        scenario,
        target_qps,
        target_latency_ns: settings.server_target_latency_ns,
        target_percentile,
        samples_per_query: settings.multi_stream_samples_per_query as usize,
        min_query_count: settings.min_query_count,
        max_query_count: settings.max_query_count,
        min_duration_ns: settings.min_duration_ms * MILLISECOND,
        max_duration_ns: settings.max_duration_ms * MILLISECOND,
        performance_sample_count: performance,
        max_async_queries: settings.server_max_async_queries,
        is_closed_loop: matches!(settings.server_arrivals, Arrivals::Concurrency(_)),
        continues_trace: settings.continue_trace
            || settings.early_stopping == EarlyStopping::Extend,
        coalesce_queries: settings.server_coalesce_queries,
        equal_issue: settings.sample_concatenate_permutation,
        issue_unique: settings.performance_issue_unique,
    }
}

/// Returns what Dyno reports of a run.
pub fn report(run: &RunLog) -> oracle::RunReport {
    let metrics = Metrics::from_record(&run.record, &run.plan);
    let judgement = judge(&metrics, &run.plan, run.ended);
    let times = metrics.query_latency.unwrap_or(metrics.latency);
    let time = |ns: i64| u64::try_from(ns).unwrap_or(u64::MAX);
    let percentiles = PERCENTILES.into_iter().zip(times.percentiles);
    let target = (run.plan.percentile(), times.target);
    let misuse = run.record.misuse;
    oracle::RunReport {
        is_valid: judgement.verdict == Verdict::Valid,
        min_duration_met: judgement.min_duration_met,
        min_queries_met: judgement.min_queries_met,
        performance_constraints_met: judgement.performance_met.unwrap_or(true),
        early_stopping_met: (run.plan.scenario() != Scenario::Offline)
            .then_some(judgement.early_stopping_met),
        query_count: metrics.query_count,
        sample_count: metrics.issued_samples(),
        completed_samples: metrics.sample_count,
        lost_samples: metrics.missing,
        duplicate_completions: misuse.duplicate,
        unknown_completions: misuse.unknown + misuse.stale,
        failed_samples: metrics.failed.total(),
        percentiles_ns: percentiles.chain([target]).map(|(q, ns)| (q, time(ns))).collect(),
        min_latency_ns: time(times.min),
        max_latency_ns: time(times.max),
        mean_latency_ns: time(times.mean),
        result: result(&metrics, &times),
        scheduled_rate: match metrics.rates {
            Rates::Server { scheduled, .. } => Some(scheduled).filter(|rate| rate.is_finite()),
            _ => None,
        },
    }
}

fn result(metrics: &Metrics, times: &Distribution) -> Option<f64> {
    let rate = match metrics.rates {
        Rates::Server { completed, .. } => completed,
        Rates::Offline { samples } => samples,
        Rates::SingleStream { .. } | Rates::MultiStream => {
            let estimate = metrics.estimates.map(|estimates| estimates.latency.target);
            let known = estimate.filter(|estimate| estimate.rank.is_some());
            known.map_or(times.target, |estimate| estimate.latency) as f64
        }
    };
    Some(rate).filter(|rate| rate.is_finite())
}
