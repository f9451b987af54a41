//! Queries that are played and not measured: ramps, and queries that the client cancels. Users who send at
//! an interval.

use std::sync::Arc;

use dyno_loadgen::clock::{Nanos, WallTime};
use dyno_loadgen::drive::sim::VirtualTime;
use dyno_loadgen::metrics::{Metrics, Rates};
use dyno_loadgen::plan::{Chain, Library, Plan};
use dyno_loadgen::record::{Failure, Outcome, Record};
use dyno_loadgen::run::{RecordRetention, RunLog, Tenant, run};
use dyno_loadgen::session::EndReason;
use dyno_loadgen::settings::{Arrivals, Scenario, Settings, TestSettings};
use dyno_loadgen::sut::{SimulatedCompletion, SimulatedQuery, SimulatedSystem};
use dyno_loadgen::verdict::judge;

use crate::null::{Echo, NullLibrary};

const MS: Nanos = 1_000_000;
const SAMPLES: u64 = 50;

fn settings(arrivals: Arrivals) -> TestSettings {
    TestSettings {
        scenario: Scenario::Server,
        server_arrivals: arrivals,
        server_target_qps: 100.0,
        min_query_count: 1,
        min_duration_ms: 1_000,
        ..TestSettings::default()
    }
}

fn plan(settings: &TestSettings) -> Plan {
    Plan::resolve(settings, Library { total: SAMPLES, performance: SAMPLES }).unwrap()
}

fn play(system: &mut dyn SimulatedSystem, plan: Plan) -> RunLog {
    let library = NullLibrary::new(SAMPLES as usize, SAMPLES as usize);
    let settings = Settings::from(TestSettings::default());
    let tenant = Tenant { settings, plan, library: &library, messages: Vec::new() };
    let mut driver = VirtualTime::new(system, WallTime { unix_ns: 0 });
    let log = run(&mut driver, &[tenant], RecordRetention::Every, &mut |_| {}).swap_remove(0);
    log.runs().next().unwrap().clone()
}

fn echo(latency: Nanos) -> Echo {
    Echo { latency, ..Echo::default() }
}

/// An echo whose answers to some queries, by number, are cancelled.
struct Cancelling(Echo, fn(u64) -> bool);

impl SimulatedSystem for Cancelling {
    fn name(&self) -> &str {
        "cancelling"
    }
    fn issue(&mut self, now: Nanos, query: &SimulatedQuery<'_>) {
        self.0.issue(now, query);
    }
    fn next_event(&self) -> Option<Nanos> {
        self.0.next_event()
    }
    fn advance(&mut self, now: Nanos, completions: &mut Vec<SimulatedCompletion>) {
        self.0.advance(now, completions);
        for completion in completions.iter_mut().filter(|one| (self.1)(one.id.sequence())) {
            completion.outcome = Outcome::Failed(Failure::Cancelled);
        }
    }
    fn flush(&mut self, now: Nanos) {
        self.0.flush(now);
    }
}

#[test]
fn a_ramp_of_a_rate_leaves_the_measured_part_as_it_is() {
    for arrivals in [Arrivals::Poisson, Arrivals::Constant, Arrivals::Gamma(0.5)] {
        let settings = settings(arrivals);
        let without = play(&mut echo(3 * MS), plan(&settings));
        let mut system = echo(3 * MS);
        let with = play(&mut system, plan(&settings).with_ramp(600 * MS).unwrap());
        let excluded = with.record.excluded.clone().unwrap();
        // 30 arrivals are expected; a Poisson process has at most 4 standard deviations more or less.
        assert!((8..=52).contains(&excluded.ramp), "{excluded:?}");
        assert_eq!(system.queries.len() as u64, excluded.ramp + with.record.query_count() as u64);
        assert_eq!((excluded.ramp_lost, excluded.cancelled), (0, 0));
        assert!(system.queries[..excluded.ramp as usize].iter().all(|query| query.0 < 600 * MS));
        assert_eq!(Record { excluded: None, ..with.record }, without.record);
        assert_eq!(with.ended, without.ended);
        assert_eq!(with.started_at, without.started_at + 600 * MS);
    }
}

#[test]
fn a_ramp_of_a_concurrency_adds_one_query_in_flight_after_the_other() {
    let mut settings = settings(Arrivals::Concurrency(5));
    settings.min_query_count = 400;
    settings.max_query_count = 400;
    let mut system = echo(10 * MS);
    let run = play(&mut system, plan(&settings).with_ramp(400 * MS).unwrap());
    // By hand: each of the five adds a query every 10 ms, from 0, 100, 200, 300 and 400 ms on.
    let expected = |at: Nanos| (0..5).filter(|number| *number * 100 * MS <= at).count();
    for at in (0..600).step_by(10).map(|ms| ms * MS) {
        let found = system.queries.iter().filter(|query| query.0 == at).count();
        assert_eq!(found, expected(at), "{} ms", at / MS);
    }
    let excluded = run.record.excluded.unwrap();
    assert_eq!(excluded.ramp, 10 + 20 + 30 + 40);
    assert_eq!(run.record.issued_at.len(), 400);
    assert_eq!(run.record.issued_at[0], 0);
    // The first measured queries are issued at the end of the ramp, and end 10 ms later.
    assert_eq!(run.record.completed_at[..5], [10 * MS; 5]);
    let first = excluded.numbers[0];
    assert_eq!((first, excluded.numbers.len()), (100, 400));
    assert_eq!(run.ended, EndReason::MaxQueryCount { issued: 500 });
}

#[test]
fn cancelled_queries_are_neither_successes_nor_failures() {
    let mut settings = settings(Arrivals::Constant);
    settings.min_query_count = 101;
    let run = play(&mut Cancelling(echo(MS), |query| query % 10 == 3), plan(&settings));
    let metrics = Metrics::from_record(&run.record, &run.plan);
    // One each 10 ms, the last one at the end of the second.
    assert_eq!((metrics.query_count, metrics.sample_count, metrics.cancelled), (91, 91, 10));
    assert_eq!((metrics.failed.total(), metrics.missing), (0, 0));
    assert!(run.record.scheduled_at.iter().all(|due| (due / (10 * MS)) % 10 != 3));
    // All 101 were issued, as required.
    assert!(judge(&metrics, &run.plan, run.ended).min_queries_met);
    assert_eq!(run.record.number_in_run(3), 4);
    assert_eq!(offered(&metrics), 100.0);
}

/// Returns the offered rate, rounded to whole queries per second.
fn offered(metrics: &Metrics) -> f64 {
    let Rates::Server { scheduled, .. } = metrics.rates else { panic!("{:?}", metrics.rates) };
    scheduled.round()
}

#[test]
fn cancelled_queries_at_the_end_are_part_of_the_length_of_the_run() {
    let mut settings = settings(Arrivals::Constant);
    settings.min_query_count = 101;
    // All but the first 20 are cancelled.
    let run = play(&mut Cancelling(echo(10 * MS), |query| query >= 20), plan(&settings));
    let metrics = Metrics::from_record(&run.record, &run.plan);
    assert!(metrics.final_query.scheduled < 500 * MS, "{:?}", metrics.final_query);
    let judgement = judge(&metrics, &run.plan, run.ended);
    assert!(judgement.min_duration_met, "{:?}", judgement.verdict);
    assert_eq!(offered(&metrics), 100.0);
}

fn sessions(count: u32, turns: u32) -> Arc<[Chain]> {
    let chain = |number| Chain { first: number * turns, thinks: vec![0; turns as usize].into() };
    (0..count).map(chain).collect()
}

#[test]
fn users_send_at_an_interval_from_one_due_time_to_the_next() {
    let users = |latency: Nanos| {
        let plan = plan(&settings(Arrivals::Concurrency(2))).with_sessions(sessions(4, 3)).unwrap();
        let mut system = echo(latency);
        let run = play(&mut system, plan.with_turn_interval(40 * MS).unwrap());
        let sent: Vec<Nanos> = system.queries.iter().map(|query| query.0).collect();
        (run.record, sent)
    };
    // Two users, 20 ms apart: each sends every 40 ms, also with its next session.
    let (record, sent) = users(10 * MS);
    let expected: Vec<Nanos> = (0..50).map(|number| number * 20 * MS).collect();
    assert_eq!((&record.scheduled_at, &sent), (&expected, &expected));
    let turns = &record.sessions.as_ref().unwrap().turns;
    assert_eq!(turns.iter().filter(|turn| turn.number == 0).count(), 18);
    // An answer takes 50 ms: requests are sent late, and their latency counts from when they were due.
    let (record, sent) = users(50 * MS);
    assert_eq!(record.scheduled_at[..6], [0, 20, 40, 60, 80, 100].map(|ms| ms * MS));
    assert_eq!(sent[..6], [0, 20, 50, 70, 100, 120].map(|ms| ms * MS));
    let latency = |query: usize| record.completed_at[query] - record.scheduled_at[query];
    assert_eq!([0, 2, 4].map(latency), [50, 60, 70].map(|ms| ms * MS));
    assert_eq!(record.sessions.unwrap().ready_at[..6], [0, 0, 50, 70, 100, 120].map(|ms| ms * MS));
}

#[test]
fn an_interval_needs_users() {
    let open = plan(&settings(Arrivals::Poisson)).with_sessions(sessions(4, 3)).unwrap();
    assert!(open.with_turn_interval(1).unwrap_err().contains("--max-concurrency N"));
    let single = plan(&settings(Arrivals::Concurrency(2)));
    assert!(single.with_turn_interval(1).unwrap_err().contains("sessions=live"));
}

#[test]
fn sessions_begin_one_after_the_other_in_a_ramp() {
    let mut settings = settings(Arrivals::Concurrency(4));
    settings.min_duration_ms = 500;
    let plan = plan(&settings).with_sessions(sessions(8, 3)).unwrap();
    let mut system = echo(10 * MS);
    let run = play(&mut system, plan.with_ramp(400 * MS).unwrap());
    for at in (0..500).step_by(10).map(|ms| ms * MS) {
        let found = system.queries.iter().filter(|query| query.0 == at).count();
        let expected = (0..4).filter(|number| *number * 100 * MS <= at).count();
        assert_eq!(found, expected, "{} ms", at / MS);
    }
    let excluded = run.record.excluded.unwrap();
    assert_eq!((excluded.ramp, run.record.issued_at.len()), (100, 200));
    assert_eq!(run.record.sessions.unwrap().turns.len(), 200);
}
