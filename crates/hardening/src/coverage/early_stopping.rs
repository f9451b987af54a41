//! Early stopping: VALID verdicts of systems that just miss their bound, and estimates of
//! percentiles. Runs are played in virtual time by Dyno's sessions and judged by its verdict.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::AtomicU32;

use dyno_loadgen::clock::{Nanos, WallTime};
use dyno_loadgen::drive::sim::VirtualTime;
use dyno_loadgen::plan::{Library, Plan};
use dyno_loadgen::record::Outcome;
use dyno_loadgen::run::{RecordRetention, Tenant, run};
use dyno_loadgen::settings::{EarlyStopping, Scenario, Settings, TestSettings};
use dyno_loadgen::sut::{SimulatedCompletion, SimulatedQuery, SimulatedSystem};

use super::law::Law;
use super::{Case, Claim, Trial};
use crate::oracle::RunReport;
use crate::rng::Stream;
use crate::simulate::play::report;
use crate::simulate::system::CountingLibrary;

/// Probability of a right verdict or estimate by the rules.
const CONFIDENCE: f64 = 0.99;

/// Longest extended run, in multiples of its minimum.
const EXTENDED: u64 = 10;

/// Returns the cases.
pub fn cases() -> Vec<Case> {
    use Claim::{Fails, Holds};
    let rows = [
        (Law::Exponential, Holds),
        (Law::Pareto, Holds),
        (Law::Lognormal(1.5), Holds),
        (Law::Autoregressive(0.9), Fails),
        (Law::Autoregressive(0.99), Fails),
        (Law::Bursts, Fails),
        (Law::Queue(0.8), Fails),
        (Law::Degrading, Holds),
    ];
    let mut all = Vec::new();
    for (law, claim) in rows {
        all.push(verdict_case(law, 0.99, 3_000, EarlyStopping::AfterRun, claim));
    }
    all.push(verdict_case(Law::Exponential, 0.9, 1_000, EarlyStopping::AfterRun, Holds));
    all.push(verdict_case(Law::Queue(0.8), 0.9, 1_000, EarlyStopping::AfterRun, Fails));
    all.push(verdict_case(Law::Exponential, 0.9, 1_000, EarlyStopping::Extend, Fails));
    for (law, claim) in rows {
        all.push(estimate_case(law, 0.9, 1_000, claim));
    }
    all
}

/// A Server run of a system whose percentile equals the bound: the share of queries over it is
/// exactly what the rules want to exclude.
fn verdict_case(law: Law, p: f64, queries: u64, policy: EarlyStopping, claim: Claim) -> Case {
    let bound = law.percentile(p) as u64;
    let (extended, cap) = match policy {
        EarlyStopping::Extend => (", extended until it holds", EXTENDED),
        _ => ("", 1),
    };
    let statement =
        format!("early stopping: VALID at p{} after {queries} queries{extended}", p * 100.0);
    let data = format!("{}, percentile at the bound", law.name());
    Case::new((statement, data), CONFIDENCE, claim, move |random| {
        let settings = TestSettings {
            scenario: Scenario::Server,
            server_target_qps: 1_000.0,
            server_target_latency_percentile: p,
            server_target_latency_ns: bound,
            early_stopping: policy,
            max_query_count: if cap > 1 { queries * cap } else { 0 },
            ..shortest_run(queries)
        };
        let reported = play(settings, law, queries * cap, random);
        Trial::from_statement(!reported.is_valid)
    })
}

/// A SingleStream run, whose result is an estimate that the percentile is at most as high as, with
/// the confidence of the rules.
fn estimate_case(law: Law, p: f64, queries: u64, claim: Claim) -> Case {
    let truth = law.percentile(p);
    let statement =
        format!("early stopping: estimated p{} of {queries} queries is not too low", p * 100.0);
    Case::new((statement, law.name()), CONFIDENCE, claim, move |random| {
        let settings = TestSettings {
            scenario: Scenario::SingleStream,
            single_stream_target_latency_percentile: p,
            ..shortest_run(queries)
        };
        let reported = play(settings, law, queries, random);
        reported
            .result
            .map_or(Trial::None, |estimate| Trial::from_statement(estimate >= truth * (1.0 - 1e-9)))
    })
}

fn shortest_run(queries: u64) -> TestSettings {
    TestSettings { min_query_count: queries, min_duration_ms: 0, ..TestSettings::default() }
}

/// Plays a run whose latencies are a sequence of the law, and returns what Dyno reports.
fn play(settings: TestSettings, law: Law, queries: u64, random: &mut Stream) -> RunReport {
    const SAMPLES: usize = 16;
    let settings = TestSettings { schedule_rng_seed: random.bits(), ..settings };
    let size = Library { total: SAMPLES as u64, performance: SAMPLES as u64 };
    let plan = Plan::resolve(&settings, size).expect("Dyno accepts the settings of the cases");
    let library =
        CountingLibrary { total: SAMPLES, performance: SAMPLES, loads: AtomicU32::new(0) };
    let mut system = LawSystem {
        latencies: law.draw(queries as usize, random),
        issued: 0,
        pending: BinaryHeap::new(),
    };
    let tenant =
        Tenant { settings: Settings::from(settings), plan, library: &library, messages: vec![] };
    let mut driver = VirtualTime::new(&mut system, WallTime { unix_ns: 0 });
    let log = run(&mut driver, &[tenant], RecordRetention::Every, &mut |_| {}).swap_remove(0);
    report(log.runs().last().expect("a test has a run"))
}

/// A system whose queries take the times of a sequence, however many are in flight.
struct LawSystem {
    latencies: Vec<u64>,
    issued: usize,
    pending: BinaryHeap<Reverse<(Nanos, u64)>>,
}

impl SimulatedSystem for LawSystem {
    fn name(&self) -> &str {
        "law"
    }
    fn issue(&mut self, now: Nanos, query: &SimulatedQuery<'_>) {
        let latency = self.latencies[self.issued.min(self.latencies.len() - 1)];
        self.issued += 1;
        self.pending.push(Reverse((now + latency, query.first.0)));
    }
    fn next_event(&self) -> Option<Nanos> {
        self.pending.peek().map(|Reverse((at, _))| *at)
    }
    fn advance(&mut self, now: Nanos, completions: &mut Vec<SimulatedCompletion>) {
        while let Some(&Reverse((at, id))) = self.pending.peek().filter(|next| next.0.0 <= now) {
            debug_assert_eq!(at, now);
            self.pending.pop();
            completions.push(SimulatedCompletion {
                id: dyno_loadgen::sut::ResponseId(id),
                first_token_at: None,
                outcome: Outcome::Ok { tokens: 0 },
            });
        }
    }
}
