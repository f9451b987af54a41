//! Several workers that share a load measure what one would have: same trace,
//! same record, whatever their number.

use std::collections::BinaryHeap;
use std::sync::Arc;

use dyno_loadgen::clock::{Nanos, WallTime};
use dyno_loadgen::drive::sim::VirtualTime;
use dyno_loadgen::drive::{Driver, Job, JobTenant, TenantOutcome, join};
use dyno_loadgen::plan::{Chain, Library, Plan};
use dyno_loadgen::record::{Failure, Outcome, Record, Turn};
use dyno_loadgen::session::EndReason;
use dyno_loadgen::settings::{Arrivals, EarlyStopping, Scenario, TestMode, TestSettings};
use dyno_loadgen::share::{IndivisibleLoad, Share, divisible};
use dyno_loadgen::sut::{ResponseId, SimulatedCompletion, SimulatedQuery, SimulatedSystem};
use dyno_loadgen::trace::loadable_sets;
use proptest::prelude::*;

const LIBRARY: Library = Library { total: 50, performance: 40 };

/// A system whose answer to a sample depends only on its index.
#[derive(Default)]
struct IndexedSystem {
    events: BinaryHeap<std::cmp::Reverse<(Nanos, u64, u32)>>,
    /// Completions of the last advance.
    answered: Vec<(u64, u32)>,
}

impl SimulatedSystem for IndexedSystem {
    fn name(&self) -> &str {
        "by index"
    }
    fn issue(&mut self, now: Nanos, query: &SimulatedQuery<'_>) {
        for (i, &index) in (0..).zip(query.indices) {
            let at = now + 1_000_000 + 77_777 * u64::from(index);
            self.events.push(std::cmp::Reverse((at, query.first.0 + i, index)));
        }
    }
    fn next_event(&self) -> Option<Nanos> {
        self.events.peek().map(|event| event.0.0)
    }
    fn advance(&mut self, now: Nanos, completions: &mut Vec<SimulatedCompletion>) {
        self.answered.clear();
        while self.next_event() == Some(now) {
            let Some(std::cmp::Reverse((_, id, index))) = self.events.pop() else { return };
            let outcome = match index % 17 {
                3 => Outcome::Failed(Failure::Rejected),
                _ => Outcome::Ok { tokens: i64::from(index) + 2 },
            };
            self.answered.push((id, index));
            let first_token_at = Some(now - 10_000);
            completions.push(SimulatedCompletion { id: ResponseId(id), first_token_at, outcome });
        }
    }
    fn answer(&self, id: ResponseId, data: &mut Vec<u8>) {
        data.extend(self.answered_index(id).to_le_bytes());
    }
    fn continues_task(&self, id: ResponseId) -> bool {
        self.answered_index(id) % 3 == 1
    }
}

impl IndexedSystem {
    /// Returns the index of a sample that the last advance completed.
    fn answered_index(&self, id: ResponseId) -> u32 {
        self.answered.iter().find(|(answered, _)| *answered == id.0).unwrap().1
    }
}

fn played(settings: &TestSettings, accuracy: bool, share: Share) -> TenantOutcome {
    played_plan(Plan::resolve(settings, LIBRARY).unwrap(), accuracy, share)
}

fn played_plan(plan: Plan, accuracy: bool, share: Share) -> TenantOutcome {
    let plan = Arc::new(plan);
    let set = loadable_sets(&plan, accuracy, 50).swap_remove(0);
    let mut system = IndexedSystem::default();
    let mut driver = VirtualTime::new(&mut system, WallTime { unix_ns: 0 });
    let tenants = vec![JobTenant { plan, set: &set, samples_before: 7 }];
    driver.play(&Job { tenants, accuracy, share, epoch: 1 }).tenants.swap_remove(0)
}

fn joined(settings: &TestSettings, accuracy: bool, clients: u32) -> TenantOutcome {
    let plan = Plan::resolve(settings, LIBRARY).unwrap();
    let shares = (0..clients).map(|index| Share { index, clients });
    join(&plan, shares.map(|share| played(settings, accuracy, share)).collect())
}

fn assert_same(a: &TenantOutcome, b: &TenantOutcome) {
    assert_eq!(a.ended, b.ended);
    assert_eq!(a.generated, b.generated);
    // Samples that complete at the same instant have no order.
    let sorted = |part: &TenantOutcome| {
        let mut failed = part.record.failed.clone();
        failed.sort_unstable();
        let mut responses: Vec<_> = part
            .record
            .responses
            .iter()
            .map(|r| (r.sequence, r.data.to_vec(), r.first_token.map(<[u8]>::to_vec), r.tokens))
            .collect();
        responses.sort_unstable();
        (failed, responses)
    };
    assert_eq!(sorted(a), sorted(b));
    let bare = |part: &TenantOutcome| {
        let mut record = part.record.clone();
        record.failed.clear();
        record.responses = Default::default();
        record
    };
    assert_eq!(bare(a), bare(b));
}

fn divisible_settings() -> impl Strategy<Value = (TestSettings, bool)> {
    let arrivals = prop_oneof![
        Just(Arrivals::Poisson),
        Just(Arrivals::Constant),
        Just(Arrivals::Gamma(0.5)),
        Just(Arrivals::Burst(3)),
        Just(Arrivals::Replay([5, 5, 900, 70_000_000, 90_000_000].into())),
    ];
    let fields =
        (any::<u64>(), arrivals, any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    fields.prop_map(|(seed, arrivals, offline, accuracy, equal, tokens)| {
        let settings = TestSettings {
            scenario: if offline { Scenario::Offline } else { Scenario::Server },
            mode: if accuracy { TestMode::AccuracyOnly } else { TestMode::PerformanceOnly },
            server_target_qps: 900.0,
            server_arrivals: arrivals,
            offline_expected_qps: 313.0,
            min_duration_ms: 300,
            min_query_count: if offline { 1 } else { 17 },
            qsl_rng_seed: seed,
            sample_index_rng_seed: seed ^ 5,
            schedule_rng_seed: seed ^ 77,
            accuracy_log_rng_seed: seed ^ 9,
            accuracy_log_probability: 0.3,
            sample_concatenate_permutation: equal,
            use_token_latencies: tokens,
            ..TestSettings::default()
        };
        (settings, accuracy)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_number_of_workers_measures_what_one_does((settings, accuracy) in divisible_settings()) {
        let whole = played(&settings, accuracy, Share::WHOLE);
        prop_assert!(whole.record.query_count() > 0);
        for clients in [1, 2, 4, 7] {
            assert_same(&whole, &joined(&settings, accuracy, clients));
        }
    }
}

/// Returns what clients play together of a plan.
fn joined_plan(plan: &Plan, clients: u32) -> TenantOutcome {
    let shares = (0..clients).map(|index| Share { index, clients });
    join(plan, shares.map(|share| played_plan(plan.clone(), false, share)).collect())
}

#[test]
fn a_ramp_of_a_rate_is_divided_like_the_load_behind_it() {
    for arrivals in [Arrivals::Poisson, Arrivals::Constant, Arrivals::Gamma(0.5)] {
        for seed in 0..10 {
            let settings = TestSettings {
                scenario: Scenario::Server,
                server_arrivals: arrivals.clone(),
                server_target_qps: 900.0,
                min_duration_ms: 300,
                min_query_count: 17,
                schedule_rng_seed: seed,
                sample_index_rng_seed: seed ^ 5,
                use_token_latencies: true,
                ..TestSettings::default()
            };
            let ramp = |settings: &TestSettings| {
                Plan::resolve(settings, LIBRARY).unwrap().with_ramp(201_000_000).unwrap()
            };
            let plan = ramp(&settings);
            let whole = played_plan(plan.clone(), false, Share::WHOLE);
            let in_ramp = whole.record.scheduled_at.iter().filter(|due| **due < 201_000_000);
            assert!(in_ramp.count() > 30, "90 are expected");
            // The ramp's length is no multiple of these numbers at every seed.
            for clients in [1, 2, 4, 7] {
                assert_same(&whole, &joined_plan(&plan, clients));
            }
            let capped = ramp(&TestSettings { max_query_count: 50, ..settings });
            let whole = played_plan(capped.clone(), false, Share::WHOLE).record;
            let joined = joined_plan(&capped, 4).record;
            assert_eq!((joined.indices, joined.scheduled_at), (whole.indices, whole.scheduled_at));
        }
    }
}

#[test]
fn queries_in_flight_of_a_ramp_grow_one_by_one_over_all_clients() {
    let settings = TestSettings {
        scenario: Scenario::Server,
        server_arrivals: Arrivals::Concurrency(6),
        min_duration_ms: 300,
        min_query_count: 100,
        ..TestSettings::default()
    };
    let ramp: Nanos = 500_000_000;
    let plan = Plan::resolve(&settings, LIBRARY).unwrap().with_ramp(ramp).unwrap();
    let record = joined_plan(&plan, 4).record;
    let in_flight = |at: Nanos| {
        let issued = record.issued_at.iter().filter(|issued| **issued <= at).count();
        issued - record.completed_at.iter().filter(|done| **done <= at && **done > 0).count()
    };
    assert_eq!(in_flight(0), 1);
    for at in record.issued_at.iter().copied().filter(|at| *at < ramp) {
        // By hand: the second one after a fifth of the ramp, and so on.
        let most = 1 + usize::try_from(5 * at / ramp).unwrap();
        assert!(in_flight(at) <= most, "{} at {at} ns", in_flight(at));
    }
    assert_eq!(in_flight(ramp), 6);
}

#[test]
fn a_client_without_a_part_of_the_ramp_begins_behind_it() {
    let settings = TestSettings {
        scenario: Scenario::Server,
        server_arrivals: Arrivals::Concurrency(1),
        min_duration_ms: 300,
        min_query_count: 10,
        ..TestSettings::default()
    };
    let ramp: Nanos = 500_000_000;
    let plan = Plan::resolve(&settings, LIBRARY).unwrap().with_ramp(ramp).unwrap();
    let begins = |index| {
        let record = played_plan(plan.clone(), false, Share { index, clients: 2 }).record;
        record.issued_at.first().copied()
    };
    assert_eq!([begins(0), begins(1)], [Some(0), Some(ramp)]);
}

#[test]
fn more_workers_than_queries_leave_some_idle() {
    let settings = TestSettings {
        scenario: Scenario::Server,
        server_target_qps: 10.0,
        min_duration_ms: 100,
        min_query_count: 3,
        ..TestSettings::default()
    };
    let whole = played(&settings, false, Share::WHOLE);
    assert!(whole.record.query_count() < 9);
    assert_same(&whole, &joined(&settings, false, 9));
    let capped = TestSettings { min_query_count: 2, max_query_count: 2, ..settings };
    assert_eq!(joined(&capped, false, 4).record.query_count(), 2);
}

#[test]
fn queries_in_flight_are_divided() {
    let settings = TestSettings {
        scenario: Scenario::Server,
        server_arrivals: Arrivals::Concurrency(6),
        min_duration_ms: 500,
        min_query_count: 300,
        server_target_qps: 1.0,
        continue_trace: true,
        ..TestSettings::default()
    };
    let clients = 4;
    let parts: Vec<_> = (0..clients)
        .map(|index| played(&settings, false, Share { index, clients }).record)
        .collect();
    for (part, in_flight) in parts.iter().zip([2, 2, 1, 1]) {
        let begun_together = part.issued_at.iter().filter(|&&at| at == 0).count();
        assert_eq!(begun_together, in_flight);
    }
    let whole = joined(&settings, false, clients);
    assert_eq!(whole.ended, EndReason::Naturally);
    let queries: usize = parts.iter().map(Record::query_count).sum();
    assert_eq!(whole.record.query_count(), queries, "none that was measured is left out");
    // As long as every worker goes on, the samples are those of the trace.
    let shortest = parts.iter().map(dyno_loadgen::record::Record::query_count).min().unwrap();
    let alone = played(&settings, false, Share::WHOLE).record;
    let same = (shortest * clients as usize).min(alone.query_count());
    assert!(same >= 100);
    assert_eq!(whole.record.indices[..same], alone.indices[..same]);
}

/// A client with twice as many queries in flight issues twice as many: otherwise it would be ready
/// when the others have half of theirs before them.
#[test]
fn a_number_of_queries_is_divided_like_the_queries_in_flight() {
    for (in_flight, clients, queries, parts) in
        [(3, 2, 101, vec![67, 34]), (5, 2, 101, vec![61, 40]), (7, 3, 70, vec![30, 20, 20])]
    {
        let settings = TestSettings {
            scenario: Scenario::Server,
            server_arrivals: Arrivals::Concurrency(in_flight),
            min_duration_ms: 0,
            min_query_count: queries,
            max_query_count: queries,
            performance_issue_same: true,
            ..TestSettings::default()
        };
        let shares = (0..clients).map(|index| Share { index, clients });
        let shares = shares.map(|share| played(&settings, false, share).record);
        let shares: Vec<Record> = shares.collect();
        let counts: Vec<usize> = shares.iter().map(Record::query_count).collect();
        assert_eq!(counts, parts);
        // All answers take equally long, so that all clients end with the same round.
        let whole = joined(&settings, false, clients).record;
        let alone = played(&settings, false, Share::WHOLE).record;
        let ends = |record: &Record| record.completed_at.iter().max().copied();
        assert_eq!(ends(&whole), ends(&alone));
        assert_eq!(whole.indices, alone.indices);
    }
    // Without repetition: the samples are those of one client.
    let settings = TestSettings {
        scenario: Scenario::Server,
        server_arrivals: Arrivals::Concurrency(3),
        min_duration_ms: 0,
        min_query_count: 40,
        max_query_count: 40,
        performance_issue_unique: true,
        ..TestSettings::default()
    };
    let whole = joined(&settings, false, 2).record;
    assert_eq!(whole.indices, played(&settings, false, Share::WHOLE).record.indices);
}

#[test]
fn what_waits_for_itself_cannot_be_divided() {
    let plan = |scenario, arrivals: Arrivals, early_stopping| {
        let settings = TestSettings {
            scenario,
            server_arrivals: arrivals,
            early_stopping,
            ..TestSettings::default()
        };
        Plan::resolve(&settings, LIBRARY).unwrap()
    };
    let single = plan(Scenario::SingleStream, Arrivals::Poisson, EarlyStopping::AfterRun);
    assert_eq!(divisible(&single, 1), Ok(()));
    assert_eq!(divisible(&single, 2), Err(IndivisibleLoad::OneAtATime(Scenario::SingleStream)));
    let few = plan(Scenario::Server, Arrivals::Concurrency(3), EarlyStopping::AfterRun);
    assert_eq!(divisible(&few, 3), Ok(()));
    assert!(divisible(&few, 4).unwrap_err().to_string().contains("3 queries in flight"));
    let extended = plan(Scenario::Server, Arrivals::Poisson, EarlyStopping::Extend);
    assert_eq!(divisible(&extended, 2), Err(IndivisibleLoad::Extended));
}

/// Returns ten sessions of four turns, whose think times differ.
fn sessions() -> Arc<[Chain]> {
    let think = |number: u32, turn: u32| Nanos::from(7 * number + turn) * 1_000_000;
    let chain = |number| Chain {
        first: 4 * number,
        thinks: (0..4).map(|turn| think(number, turn)).collect(),
    };
    (0..10).map(chain).collect()
}

#[test]
fn sessions_that_begin_at_arrivals_are_those_of_one_client() {
    for arrivals in [Arrivals::Poisson, Arrivals::Constant] {
        for (seed, ramp) in (0..10).zip([0, 0, 201_000_000].into_iter().cycle()) {
            let settings = TestSettings {
                scenario: Scenario::Server,
                server_arrivals: arrivals.clone(),
                server_target_qps: 60.0,
                min_duration_ms: 300,
                min_query_count: 12,
                performance_issue_unique: true,
                schedule_rng_seed: seed,
                ..TestSettings::default()
            };
            let plan = Plan::resolve(&settings, LIBRARY).unwrap();
            let plan = if ramp > 0 { plan.with_ramp(ramp).unwrap() } else { plan };
            let plan = plan.with_sessions(sessions()).unwrap();
            let whole = played_plan(plan.clone(), false, Share::WHOLE);
            // Samples 3, 20 and 37 fail: turn 3 of session 0, turn 0 of session 5 and turn 1 of
            // session 9. The others have four turns.
            assert_eq!(whole.record.query_count(), 7 * 4 + 4 + 1 + 2);
            for clients in [1, 2, 4, 7] {
                assert_same(&whole, &joined_plan(&plan, clients));
            }
        }
    }
}

/// Returns the requests of a session of two tasks of up to two turns, by the rules alone.
fn requests_of_tasks(first: u32) -> usize {
    let mut requests = 0;
    for task in [first, first + 2] {
        for step in [0, 1] {
            let index = task + step;
            requests += 1;
            let (is_failed, continues) = (index % 17 == 3, index % 3 == 1);
            if is_failed || continues && step == 1 {
                return requests;
            }
            if !continues {
                break;
            }
        }
    }
    requests
}

#[test]
fn tasks_are_those_of_one_client() {
    let settings = TestSettings {
        scenario: Scenario::Server,
        server_target_qps: 60.0,
        min_duration_ms: 300,
        min_query_count: 12,
        performance_issue_unique: true,
        ..TestSettings::default()
    };
    let plan = Plan::resolve(&settings, LIBRARY).unwrap();
    let plan = plan.with_sessions(sessions()).unwrap().with_tasks(2).unwrap();
    let whole = played_plan(plan.clone(), false, Share::WHOLE);
    let expected: usize = (0..10).map(|session| requests_of_tasks(4 * session)).sum();
    assert!(expected > 20 && expected < 40);
    assert_eq!((whole.record.query_count(), whole.record.missing()), (expected, 0));
    for clients in [1, 2, 4, 7] {
        assert_same(&whole, &joined_plan(&plan, clients));
    }
}

#[test]
fn a_session_is_played_whole_by_one_client_and_users_begin_one_after_the_other() {
    let settings = TestSettings {
        scenario: Scenario::Server,
        server_arrivals: Arrivals::Concurrency(3),
        min_duration_ms: 2_000,
        min_query_count: 1,
        ..TestSettings::default()
    };
    let plan = Plan::resolve(&settings, LIBRARY).unwrap().with_sessions(sessions()).unwrap();
    let plan = plan.with_turn_interval(300_000_000).unwrap();
    for index in 0..2 {
        let record = played_plan(plan.clone(), false, Share { index, clients: 2 }).record;
        assert!(record.query_count() > 4);
        // Session i has the samples 4 i to 4 i + 3. The first client has the users 0 and 2, and two of
        // three sessions.
        let owner = |sample: &u32| [0, 1, 0][*sample as usize / 4 % 3];
        assert!(record.indices.iter().all(|sample| owner(sample) == index));
    }
    let record = joined_plan(&plan, 2).record;
    assert_eq!(record.scheduled_at[..3], [0, 100_000_000, 200_000_000]);
    assert_eq!(record.indices[..3], [0, 4, 8]);
    let turns = record.sessions.unwrap().turns;
    let first = |number| Turn { session: number, number: 0, turns: 4, continues: false };
    assert_eq!(turns[..3], [first(0), first(1), first(2)]);
    // Turns of one session follow each other.
    for session in 0..3 {
        let own = turns.iter().filter(|turn| turn.session == session);
        assert!(own.zip(0..).all(|(turn, number)| turn.number == number));
    }
}

#[test]
fn few_sessions_and_a_number_of_turns_cannot_be_divided() {
    let settings =
        TestSettings { scenario: Scenario::Server, min_query_count: 1, ..TestSettings::default() };
    let plan = |settings: &TestSettings| {
        Plan::resolve(settings, LIBRARY).unwrap().with_sessions(sessions()).unwrap()
    };
    assert_eq!(divisible(&plan(&settings), 10), Ok(()));
    let few = IndivisibleLoad::TooFewSessions { sessions: 10, clients: 11 };
    assert_eq!(divisible(&plan(&settings), 11), Err(few));
    let limited = TestSettings { max_query_count: 30, ..settings };
    assert_eq!(divisible(&plan(&limited), 2), Ok(()));
    let once = TestSettings { performance_issue_unique: true, ..limited };
    assert_eq!(divisible(&plan(&once), 2), Err(IndivisibleLoad::LimitedSessions));
    assert_eq!(divisible(&plan(&once), 1), Ok(()));
}
