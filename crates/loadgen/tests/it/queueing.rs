//! The simulation agrees with queueing theory and with exact probability.

use std::collections::VecDeque;

use dyno_loadgen::clock::{Nanos, WallTime};
use dyno_loadgen::drive::sim::VirtualTime;
use dyno_loadgen::early_stopping::{Params, false_pass_rate};
use dyno_loadgen::metrics::Metrics;
use dyno_loadgen::record::Outcome;
use dyno_loadgen::rng::Mt19937;
use dyno_loadgen::run::{RecordRetention, TestLog, run};
use dyno_loadgen::settings::{Scenario, TestSettings};
use dyno_loadgen::sut::{ResponseId, SimulatedCompletion, SimulatedQuery, SimulatedSystem};
use dyno_loadgen::verdict;

use crate::null::{NullLibrary, tenant};

/// One server that works off its queue in order.
pub struct OneServer<F: FnMut() -> Nanos> {
    service: F,
    free_at: Nanos,
    queue: VecDeque<(Nanos, ResponseId)>,
}

impl<F: FnMut() -> Nanos> OneServer<F> {
    pub fn new(service: F) -> Self {
        Self { service, free_at: 0, queue: VecDeque::new() }
    }
}

impl<F: FnMut() -> Nanos> SimulatedSystem for OneServer<F> {
    fn name(&self) -> &str {
        "one server"
    }
    fn issue(&mut self, now: Nanos, query: &SimulatedQuery<'_>) {
        self.free_at = self.free_at.max(now) + (self.service)();
        self.queue.push_back((self.free_at, query.first));
    }
    fn next_event(&self) -> Option<Nanos> {
        self.queue.front().map(|q| q.0)
    }
    fn advance(&mut self, _now: Nanos, completions: &mut Vec<SimulatedCompletion>) {
        let (_, id) = self.queue.pop_front().unwrap();
        let outcome = Outcome::Ok { tokens: 0 };
        completions.push(SimulatedCompletion { id, first_token_at: None, outcome });
    }
}

pub fn simulate(settings: &TestSettings, system: &mut dyn SimulatedSystem) -> TestLog {
    let library = NullLibrary::new(1_000, 1_000);
    let mut driver = VirtualTime::new(system, WallTime { unix_ns: 0 });
    run(&mut driver, &[tenant(settings, &library)], RecordRetention::Every, &mut |_| {})
        .swap_remove(0)
}

pub fn server(qps: f64, queries: u64) -> TestSettings {
    TestSettings {
        scenario: Scenario::Server,
        server_target_qps: qps,
        min_query_count: queries,
        min_duration_ms: 0,
        schedule_rng_seed: 1,
        ..TestSettings::default()
    }
}

pub const SERVICE: Nanos = 1_000_000;
pub const MU: f64 = 1_000.0;

/// Mean time in system of a run at this load, in ns.
fn mean_latency(load: f64, queries: u64, service: impl FnMut() -> Nanos) -> f64 {
    let log = simulate(&server(load * MU, queries), &mut OneServer::new(service));
    let run = log.runs().next().unwrap();
    assert_eq!(run.record.missing(), 0);
    Metrics::from_record(&run.record, &run.plan).latency.mean as f64
}

fn assert_within_one_percent(got: f64, want: f64, what: &str) {
    assert!((got / want - 1.0).abs() < 0.01, "{what}: {got} against {want} by theory");
}

#[test]
fn mean_wait_of_m_d_1() {
    for load in [0.3, 0.5, 0.7] {
        // Pollaczek-Khinchine with no variance of service.
        let wait = load / (2.0 * (1.0 - load)) / MU * 1e9;
        let got = mean_latency(load, 2_000_000, || SERVICE) - SERVICE as f64;
        assert_within_one_percent(got, wait, &format!("M/D/1 at load {load}"));
    }
}

#[test]
fn mean_wait_of_m_m_1() {
    for load in [0.3, 0.5, 0.7] {
        let wait = load / (1.0 - load) / MU * 1e9;
        let mut rng = Mt19937::new(99);
        let (mut served, mut total) = (0.0, 0.0);
        let got = mean_latency(load, 4_000_000, || {
            let time = (rng.exponential(MU) * 1e9) as Nanos;
            served += 1.0;
            total += time as f64;
            time
        });
        assert_within_one_percent(got - total / served, wait, &format!("M/M/1 at load {load}"));
    }
}

/// Runs exactly on the boundary pass as often as the binomial distribution predicts.
#[test]
fn boundary_runs_pass_as_often_as_exact_probability_says() {
    const RUNS: u32 = 10_000;
    // 64 is the fewest queries at which one may be over; 500 is anywhere.
    for queries in [64, 500] {
        let params = Params::rules(0.9);
        let expected = false_pass_rate(queries, &params);
        assert!(expected < 0.01, "the criterion promises 1 %, has {expected}");

        let mut rng = Mt19937::new(2_026 + queries);
        let settings = TestSettings {
            server_target_latency_percentile: 0.9,
            server_target_latency_ns: SERVICE,
            ..server(1.0, queries)
        };
        let mut passed = 0;
        for _ in 0..RUNS {
            let mut latency = || if rng.canonical() < 0.9 { SERVICE } else { SERVICE + 1 };
            // One query a second: nothing queues, each latency is drawn anew.
            let log = simulate(&settings, &mut OneServer::new(&mut latency));
            let run = log.result().unwrap();
            let metrics = Metrics::from_record(&run.record, &run.plan);
            passed += u32::from(verdict::judge(&metrics, &run.plan, run.ended).early_stopping_met);
        }
        let mean = f64::from(RUNS) * expected;
        let sigma = (mean * (1.0 - expected)).sqrt();
        let off = (f64::from(passed) - mean).abs() / sigma;
        assert!(
            off < 3.0,
            "{queries} queries: {passed} passed, {mean:.1} expected, {off:.1} sigma"
        );
    }
}
