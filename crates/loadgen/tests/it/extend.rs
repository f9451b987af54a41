//! Runs that extend themselves until the percentile is certain.

use std::sync::Arc;

use dyno_loadgen::clock::{Nanos, WallTime};
use dyno_loadgen::drive::sim::VirtualTime;
use dyno_loadgen::record::Outcome;
use dyno_loadgen::run::{RecordRetention, run};
use dyno_loadgen::session::EndReason;
use dyno_loadgen::settings::{Arrivals, EarlyStopping, Scenario, TestSettings};
use dyno_loadgen::sut::{ResponseId, SimulatedCompletion, SimulatedQuery, SimulatedSystem};

use crate::null::{NullLibrary, tenant};
use crate::scenarios::{echo, play, settings};

const MS: Nanos = 1_000_000;

fn extend(scenario: Scenario) -> TestSettings {
    TestSettings {
        early_stopping: EarlyStopping::Extend,
        server_arrivals: Arrivals::Constant,
        server_target_qps: 1_000.0,
        ..settings(scenario)
    }
}

#[test]
fn a_trace_that_gives_out_ends_the_run() {
    let times: Arc<[Nanos]> = (0..50).map(|i| i * MS).collect();
    let replay =
        TestSettings { server_arrivals: Arrivals::Replay(times), ..extend(Scenario::Server) };
    let unique = TestSettings { performance_issue_unique: true, ..extend(Scenario::Server) };
    for (wanted, queries) in [(replay, 50), (unique, 20)] {
        let run = play(&TestSettings { max_duration_ms: 60_000, ..wanted }, &mut echo(MS));
        assert_eq!((run.ended, run.record.query_count()), (EndReason::TraceIssued, queries));
    }
}

#[test]
fn the_cap_is_on_the_extension_and_not_on_the_trace() {
    // 2 s of trace, 10 times a minimum of 0.1 s.
    let long =
        TestSettings { min_duration_ms: 100, min_query_count: 2_000, ..extend(Scenario::Server) };
    let run = play(&long, &mut echo(MS));
    assert_eq!((run.ended, run.record.query_count()), (EndReason::TraceIssued, 2_000));
    // A minimum of 0 s does not forbid the extension.
    let run =
        play(&TestSettings { min_query_count: 100, ..extend(Scenario::Server) }, &mut echo(MS));
    assert_eq!(run.ended, EndReason::TraceIssued);
    assert!(run.record.query_count() >= 459, "{}", run.record.query_count());
    // A hopeless run ends at 10 times its own trace.
    let hopeless = TestSettings { min_query_count: 100, ..extend(Scenario::Server) };
    let run = play(&hopeless, &mut echo(200 * MS));
    let EndReason::MaxDuration { at } = run.ended else { panic!("{:?}", run.ended) };
    assert!((900 * MS..1_300 * MS).contains(&at), "{at}");
    // A closed loop reaches its minimum however slow the system is.
    let single = TestSettings { min_duration_ms: 10, ..extend(Scenario::SingleStream) };
    let run = play(&single, &mut echo(20 * MS));
    assert_eq!((run.ended, run.record.query_count()), (EndReason::Naturally, 100));
}

/// A system that answers after 1 ms, except for some slow queries.
#[derive(Default)]
struct SlowSystem {
    slow: std::ops::Range<u64>,
    pending: std::collections::BTreeMap<(Nanos, u64), ResponseId>,
    queries: u64,
    flushed_at: Vec<u64>,
}

impl SimulatedSystem for SlowSystem {
    fn name(&self) -> &str {
        "slow for some"
    }
    fn issue(&mut self, now: Nanos, query: &SimulatedQuery<'_>) {
        let latency = if self.slow.contains(&self.queries) { 300 * MS } else { MS };
        self.pending.insert((now + latency, self.queries), query.first);
        self.queries += 1;
    }
    fn next_event(&self) -> Option<Nanos> {
        self.pending.first_key_value().map(|(at, _)| at.0)
    }
    fn advance(&mut self, now: Nanos, completions: &mut Vec<SimulatedCompletion>) {
        while let Some(entry) = self.pending.first_entry().filter(|entry| entry.key().0 <= now) {
            let id = entry.remove();
            let outcome = Outcome::Ok { tokens: 0 };
            completions.push(SimulatedCompletion { id, first_token_at: None, outcome });
        }
    }
    fn flush(&mut self, _now: Nanos) {
        self.flushed_at.push(self.queries);
    }
}

#[test]
fn a_run_that_goes_on_after_its_last_look_is_flushed_again() {
    // The last ones are open when the trace ends, and over the bound when all
    // is complete.
    let mut system = SlowSystem { slow: 590..600, ..SlowSystem::default() };
    let wanted = TestSettings { min_query_count: 600, ..extend(Scenario::Server) };
    let library = NullLibrary::new(100, 100);
    let mut driver = VirtualTime::new(&mut system, WallTime { unix_ns: 0 });
    let log = run(&mut driver, &[tenant(&wanted, &library)], RecordRetention::Every, &mut |_| {})
        .swap_remove(0);
    let run = log.runs().last().unwrap();
    assert_eq!(run.ended, EndReason::TraceIssued);
    assert!(system.queries > 1_500, "{} queries", system.queries);
    assert_eq!(system.flushed_at.last(), Some(&system.queries), "{:?}", system.flushed_at);
    assert!(system.flushed_at.len() >= 2, "{:?}", system.flushed_at);
    let due = &run.record.scheduled_at;
    assert!(due.is_sorted() && due[600] - due[599] > 200 * MS, "arrivals stand still meanwhile");
}
