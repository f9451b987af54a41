//! Plays a case through Dyno, and states what was observed and what was reported of each tenant.

use dyno_loadgen::clock::WallTime;
use dyno_loadgen::drive::sim::VirtualTime;
use dyno_loadgen::log::reports_by;
use dyno_loadgen::metrics::Definitions;
use dyno_loadgen::record::Record;
use dyno_loadgen::run::{RecordRetention, Tenant, TestLog, run};
use dyno_loadgen::search::{Limit, Quantity};
use dyno_loadgen::settings::Settings;
use dyno_net::client::Gaps;
use dyno_results::summary::distributions::Percentiles;
use dyno_results::summary::{self, Limits};

use super::answer::Form;
use super::case::{Case, TenantCase};
use super::oracle::{self, Report};
use super::system::{Observation, StreamingSystem};
use crate::simulate::system::CountingLibrary;

/// A case after its run.
pub struct StreamedRun {
    /// Per tenant: settings in the oracle's words.
    pub settings: Vec<oracle::Settings>,
    /// Per tenant: what the simulated system observed.
    pub observed: Vec<Observation>,
    /// Per tenant: the log of Dyno.
    pub logs: Vec<TestLog>,
    /// Answers by their [`Form`].
    pub injected: [u64; Form::ALL.len()],
}

/// Plays a case. Returns `None` if Dyno rejects its settings.
pub fn play(case: &Case) -> Option<StreamedRun> {
    let plans = case.tenants.iter().map(TenantCase::plan);
    let plans: Vec<_> = plans.collect::<Option<_>>()?;
    let library = |samples: u64| CountingLibrary {
        total: samples as usize,
        performance: samples as usize,
        loads: 0.into(),
    };
    let libraries: Vec<_> = case.tenants.iter().map(|tenant| library(tenant.samples)).collect();
    let tenants = case.tenants.iter().zip(plans).zip(&libraries);
    let tenants: Vec<Tenant<'_>> = tenants
        .map(|((tenant, plan), library)| Tenant {
            settings: Settings::from(tenant.settings.clone()),
            plan,
            library,
            messages: Vec::new(),
        })
        .collect();
    let mut system = StreamingSystem::new(case);
    let mut driver = VirtualTime::new(&mut system, WallTime { unix_ns: 0 });
    let logs = run(&mut driver, &tenants, RecordRetention::Every, &mut |_| {});
    let (observed, injected) = system.into_observations();
    let settings = case.tenants.iter().map(TenantCase::oracle_settings).collect();
    Some(StreamedRun { settings, observed, logs, injected })
}

/// Returns what Dyno reports of a tenant, in its summary. `None` if there is no result.
pub fn report(run: &StreamedRun, tenant: usize) -> Option<Report> {
    report_of(&run.logs[tenant], &run.settings[tenant], &run.observed[tenant])
}

/// Returns what Dyno reports of a log.
pub fn report_of(
    log: &TestLog,
    settings: &oracle::Settings,
    observed: &Observation,
) -> Option<Report> {
    let reports = reports_by(log, Definitions::Native, Definitions::Reference);
    let found = reports.first()?;
    let (run, record) = (found.run, &found.run.record);
    let lasted = record.lasted();
    let metrics = summary::Metrics::from_run(
        &found.metrics,
        &found.judgement,
        &run.plan,
        record,
        run.ended,
        lasted,
    );
    let excluded = metrics.excluded.clone().unwrap_or_default();
    let over = &metrics.over_bound;
    let gaps: Gaps = observed.gaps.iter().copied().collect();
    let spans = gaps.spans().map(|(span, times)| (span as f64, times)).collect();
    let inter_token = Percentiles::default().distribution("itl", "ns", spans);
    Some(Report {
        is_valid: found.is_valid(),
        indices: record.indices.clone(),
        query_count: metrics.query_count,
        sample_count: metrics.sample_count,
        failed: metrics.failed.by_reason().to_vec(),
        missing: metrics.missing,
        excluded: (excluded.ramp_requests, excluded.ramp_lost, excluded.cancelled),
        lasted_ns: metrics.lasted_ns,
        counted_over_ns: metrics.counted_over_ns,
        latency: times(&metrics.latency_ns),
        first_token: metrics.first_token_ns.as_ref().map(times),
        per_token: metrics.time_per_output_token_ns.as_ref().map(times),
        token_count: metrics.token_count,
        over: [over.latency, over.first_token, over.time_per_output_token],
        rates: rates(&metrics),
        goodput: Some(goodput(&settings.limits, record, metrics.counted_over())),
        inter_token: inter_token.map(|found| {
            (found.count, found.percentiles.iter().map(|at| (at.percent, at.value)).collect())
        }),
        sessions: metrics.sessions.as_ref().map(sessions),
        stretches: stretches(settings, record),
    })
}

/// Returns the counts of each limit in a search. A query of Offline has many samples, and no rate.
fn stretches(settings: &oracle::Settings, record: &Record) -> Vec<(&'static str, Vec<(u64, u64)>)> {
    if settings.scenario == crate::oracle::Scenario::Offline {
        return Vec::new();
    }
    let limits = settings.limits;
    let named = [
        ("ttft", Quantity::FirstToken, limits.ttft),
        ("tpot", Quantity::TimePerOutputToken, limits.tpot),
        ("e2el", Quantity::Latency, limits.e2el),
        ("errors", Quantity::Errors, Some(0)),
    ];
    let given = named.into_iter().filter_map(|(name, kind, bound)| Some((name, kind, bound?)));
    let counts = |(name, quantity, bound)| {
        let limit = Limit { quantity, allowed: 0.01, bound };
        let blocks = limit.blocks(record, settings.min_duration_ns);
        (name, blocks.iter().map(|block| (block.queries, block.over)).collect())
    };
    given.map(counts).collect()
}

fn times(d: &summary::metrics::Distribution) -> oracle::Times {
    oracle::Times {
        count: d.count,
        min: d.min,
        mean: d.mean,
        percentiles: [d.p50, d.p90, d.p95, d.p97, d.p99, d.p99_9, d.target],
        max: d.max,
    }
}

fn rates(metrics: &summary::Metrics) -> Vec<(&'static str, f64)> {
    let (rates, tokens) = (&metrics.rates, metrics.token_rates.clone().unwrap_or_default());
    let all = [
        ("queries_per_s_with_overhead", rates.queries_per_s_with_overhead),
        ("queries_per_s_without_overhead", rates.queries_per_s_without_overhead),
        ("scheduled_samples_per_s", rates.scheduled_samples_per_s),
        ("completed_samples_per_s", rates.completed_samples_per_s),
        ("goodput_samples_per_s", rates.goodput_samples_per_s),
        ("samples_per_s", rates.samples_per_s),
        ("tokens_per_s_with_overhead", tokens.tokens_per_s_with_overhead),
        ("tokens_per_s_without_overhead", tokens.tokens_per_s_without_overhead),
        ("completed_tokens_per_s", tokens.completed_tokens_per_s),
        ("tokens_per_s", tokens.tokens_per_s),
    ];
    let finite = all.into_iter().filter_map(|(name, rate)| Some((name, rate?)));
    finite.filter(|(_, rate)| rate.is_finite()).collect()
}

fn goodput(limits: &oracle::Limits, record: &Record, counted_over: u64) -> oracle::Goodput {
    let named = [("ttft", limits.ttft), ("tpot", limits.tpot), ("e2el", limits.e2el)];
    let given = named.into_iter().filter_map(|(name, limit)| Some((name, limit?)));
    let text: Vec<String> = given.map(|(name, ns)| format!("{name}:{}", ns as f64 / 1e6)).collect();
    let limits: Limits = text.join(",").parse().expect("a case has a limit");
    let found = limits.goodput(record, counted_over);
    oracle::Goodput {
        samples: found.samples,
        share: found.share,
        unmeasured: found.unmeasured,
        samples_per_s: found.samples_per_s,
        tokens_per_s: found.tokens_per_s,
    }
}

fn sessions(found: &summary::Sessions) -> oracle::Sessions {
    let turn = |turn: &summary::sessions::TurnFigures| oracle::Turn {
        issued: turn.issued,
        answered: turn.answered,
        latency: turn.latency_ns.as_ref().map(times),
        first_token: turn.first_token_ns.as_ref().map(times),
    };
    oracle::Sessions {
        started: found.started,
        completed: found.completed,
        aborted: found.aborted,
        cancelled: found.cancelled,
        cut_off: found.cut_off,
        turns_not_sent: found.turns_not_sent,
        held: found.held,
        duration: found.duration_ns.as_ref().map(times),
        turns: found.turns,
        by_turn: found.by_turn.iter().map(turn).collect(),
    }
}
