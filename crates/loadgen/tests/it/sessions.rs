//! Sessions: turns follow their own answers, whatever else is played.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use dyno_loadgen::clock::{Nanos, WallTime};
use dyno_loadgen::drive::Driver;
use dyno_loadgen::drive::real::{RealTime, Responder, WaitStrategy};
use dyno_loadgen::drive::sim::VirtualTime;
use dyno_loadgen::metrics::Metrics;
use dyno_loadgen::plan::{Chain, Library, Plan};
use dyno_loadgen::record::{Failure, Outcome, Turn};
use dyno_loadgen::rng::Mt19937;
use dyno_loadgen::run::{RecordRetention, RunLog, Tenant, run};
use dyno_loadgen::session::EndReason;
use dyno_loadgen::settings::{Arrivals, Scenario, Settings, TestSettings};
use dyno_loadgen::sut::{
    QuerySample, Response, ResponseId, SimulatedCompletion, SimulatedQuery, SimulatedSystem,
    SystemUnderTest,
};
use dyno_loadgen::verdict::judge;

use crate::null::{Echo, NullLibrary};
use crate::queueing::OneServer;
use crate::real_time::FunctionSystem;

const MS: Nanos = 1_000_000;

fn settings(arrivals: Arrivals, min_duration_ms: u64) -> TestSettings {
    TestSettings {
        scenario: Scenario::Server,
        server_arrivals: arrivals,
        min_query_count: 1,
        min_duration_ms,
        ..TestSettings::default()
    }
}

/// Sessions of these think times, whose samples lie one behind the other.
fn chains<T: AsRef<[Nanos]>>(thinks: &[T]) -> Arc<[Chain]> {
    let mut first = 0;
    let chain = |thinks: &T| {
        let thinks = thinks.as_ref();
        let chain = Chain { first, thinks: thinks.into() };
        first += u32::try_from(thinks.len()).unwrap();
        chain
    };
    thinks.iter().map(chain).collect()
}

fn plan(settings: &TestSettings, chains: &Arc<[Chain]>) -> Result<Plan, String> {
    let total = chains.iter().map(|chain| chain.thinks.len() as u64).sum();
    let plan = Plan::resolve(settings, Library { total, performance: total }).unwrap();
    plan.with_sessions(chains.clone())
}

fn play(driver: &mut dyn Driver, settings: &TestSettings, chains: &Arc<[Chain]>) -> RunLog {
    play_plan(driver, settings, plan(settings, chains).unwrap())
}

fn play_plan(driver: &mut dyn Driver, settings: &TestSettings, plan: Plan) -> RunLog {
    let total = plan.performance_sample_count as usize;
    let library = NullLibrary::new(total, total);
    let settings = Settings::from(settings.clone());
    let tenant = Tenant { settings, plan, library: &library, messages: Vec::new() };
    let log = run(driver, &[tenant], RecordRetention::Every, &mut |_| {}).swap_remove(0);
    log.runs().next().unwrap().clone()
}

fn simulate(
    system: &mut dyn SimulatedSystem,
    settings: &TestSettings,
    chains: &Arc<[Chain]>,
) -> RunLog {
    play(&mut VirtualTime::new(system, WallTime { unix_ns: 0 }), settings, chains)
}

fn turn(session: u32, number: u32, turns: u32) -> Turn {
    Turn { session, number, turns, continues: false }
}

fn turns(run: &RunLog) -> &[Turn] {
    &run.record.sessions.as_ref().unwrap().turns
}

#[test]
fn a_fixed_number_of_sessions_is_in_progress_and_turns_follow_after_their_think_times() {
    let chains = chains(&[[0, 5 * MS, 7 * MS]; 3]);
    let mut echo = Echo { latency: 10 * MS, ..Echo::default() };
    let run = simulate(&mut echo, &settings(Arrivals::Concurrency(2), 1_000), &chains);
    // By hand: a session lasts 10 + 5 + 10 + 7 + 10 ms, and two begin whenever two end.
    let mut expected = Vec::new();
    for pair in 0..24_u32 {
        for (number, after) in [(0, 0), (1, 15 * MS), (2, 32 * MS)] {
            for session in [2 * pair, 2 * pair + 1] {
                let at = u64::from(pair) * 42 * MS + after;
                let sample = session % 3 * 3 + number;
                expected.push((at, sample, turn(session, number, 3)));
            }
        }
    }
    expected.retain(|(at, ..)| *at < 1_000 * MS);
    let found: Vec<_> =
        echo.queries.iter().zip(turns(&run)).map(|(q, t)| (q.0, q.2[0], *t)).collect();
    assert_eq!(found, expected);
    assert_eq!(run.record.scheduled_at, run.record.issued_at);
    assert_eq!(run.ended, EndReason::Naturally);
    assert_eq!(run.record.missing(), 0);
    let metrics = Metrics::from_record(&run.record, &run.plan);
    let judgement = judge(&metrics, &run.plan, run.ended);
    assert!(judgement.min_duration_met, "{judgement:?}");
}

#[test]
fn sessions_begin_at_the_times_of_the_arrivals() {
    let chains = chains(&[[0, 30 * MS]; 4]);
    let mut echo = Echo { latency: 10 * MS, ..Echo::default() };
    let mut settings = settings(Arrivals::Constant, 1_000);
    settings.server_target_qps = 10.0;
    let run = simulate(&mut echo, &settings, &chains);
    let mut expected = Vec::new();
    for session in 0..10 {
        let (at, first) = (session * 100 * MS, session % 4 * 2);
        expected.extend([(at, first), (at + 40 * MS, first + 1)]);
    }
    let found: Vec<_> = echo.queries.iter().map(|q| (q.0, u64::from(q.2[0]))).collect();
    assert_eq!(found, expected);
    assert_eq!(run.record.sessions.as_ref().unwrap().held, 0);
}

#[test]
fn a_session_is_never_in_progress_twice() {
    let chains = chains(&[[0, 30 * MS]]);
    let mut echo = Echo { latency: 10 * MS, ..Echo::default() };
    let mut settings = settings(Arrivals::Constant, 200);
    settings.server_target_qps = 50.0;
    let run = simulate(&mut echo, &settings, &chains);
    // Due each 20 ms, and one lasts 50 ms: the second begins when the first has ended.
    let found: Vec<_> = echo.queries.iter().map(|q| q.0 / MS).collect();
    assert_eq!(found, [0, 40, 50, 90, 100, 140, 150, 190]);
    assert_eq!(run.record.scheduled_at, run.record.issued_at);
    // Those at 20, 40 and 60 ms, which began at 50, 100 and 150, and those from 80 to 180 ms, which
    // never began.
    assert_eq!(run.record.sessions.as_ref().unwrap().held, 9);
}

#[test]
fn sessions_that_are_held_together_are_due_when_their_places_are_free() {
    // Two sessions begin at 0 and end together at 10 ms; two more were due at 2 and 4 ms.
    let chains = chains(&[[0], [0]]);
    let mut echo = Echo { latency: 10 * MS, ..Echo::default() };
    let times = [0, 0, 2 * MS, 4 * MS];
    let run = simulate(&mut echo, &settings(Arrivals::Replay(times.into()), 100), &chains);
    assert_eq!(run.record.issued_at, [0, 0, 10 * MS, 10 * MS]);
    assert_eq!(run.record.scheduled_at, run.record.issued_at);
    assert_eq!(run.record.sessions.as_ref().unwrap().held, 2);
}

#[test]
fn sessions_that_are_played_once_end_the_run() {
    let chains = chains(&[vec![0, 1, 1], vec![0], vec![0, 1]]);
    let mut echo = Echo { latency: 10 * MS, ..Echo::default() };
    let mut settings = settings(Arrivals::Concurrency(2), 60_000);
    settings.performance_issue_unique = true;
    let run = simulate(&mut echo, &settings, &chains);
    let mut samples: Vec<_> = echo.queries.iter().map(|q| q.2[0]).collect();
    samples.sort_unstable();
    assert_eq!(samples, [0, 1, 2, 3, 4, 5]);
    assert_eq!(run.ended, EndReason::TraceIssued);
    let judgement = judge(&Metrics::from_record(&run.record, &run.plan), &run.plan, run.ended);
    assert!(judgement.min_duration_met);
}

/// An [`Echo`] that fails some queries, by their number.
struct Failing(Echo, fn(u64) -> bool);

impl SimulatedSystem for Failing {
    fn name(&self) -> &str {
        "failing"
    }
    fn issue(&mut self, now: Nanos, query: &SimulatedQuery<'_>) {
        self.0.issue(now, query);
    }
    fn next_event(&self) -> Option<Nanos> {
        self.0.next_event()
    }
    fn advance(&mut self, now: Nanos, completions: &mut Vec<SimulatedCompletion>) {
        self.0.advance(now, completions);
        for completion in completions.iter_mut().filter(|c| self.1(c.id.sequence())) {
            completion.outcome = Outcome::Failed(Failure::Internal);
        }
    }
    fn flush(&mut self, now: Nanos) {
        self.0.flush(now);
    }
}

#[test]
fn a_failed_turn_ends_its_session() {
    let chains = chains(&[[0, 0, 0]; 2]);
    let echo = Echo { latency: 10 * MS, ..Echo::default() };
    // Queries are numbered 0 and 1 for the first turns, 2 and 3 for the second ones.
    let mut system = Failing(echo, |query| query == 2);
    let mut settings = settings(Arrivals::Concurrency(2), 60_000);
    settings.performance_issue_unique = true;
    let run = simulate(&mut system, &settings, &chains);
    let expected = [turn(0, 0, 3), turn(1, 0, 3), turn(0, 1, 3), turn(1, 1, 3), turn(1, 2, 3)];
    assert_eq!(turns(&run), expected);
    assert_eq!((run.ended, run.record.failed.len()), (EndReason::TraceIssued, 1));
}

/// An [`Echo`] whose answers to these samples ask for a further turn.
struct Asking(Echo, &'static [u32]);

impl SimulatedSystem for Asking {
    fn name(&self) -> &str {
        "asking"
    }
    fn issue(&mut self, now: Nanos, query: &SimulatedQuery<'_>) {
        self.0.issue(now, query);
    }
    fn next_event(&self) -> Option<Nanos> {
        self.0.next_event()
    }
    fn advance(&mut self, now: Nanos, completions: &mut Vec<SimulatedCompletion>) {
        self.0.advance(now, completions);
    }
    fn flush(&mut self, now: Nanos) {
        self.0.flush(now);
    }
    fn continues_task(&self, id: ResponseId) -> bool {
        let (_, _, samples) = &self.0.queries[id.sequence() as usize];
        self.1.contains(&samples[0])
    }
}

#[test]
fn a_task_goes_on_while_answers_ask_for_turns_and_its_limit_ends_the_session() {
    // Three sessions, each of two tasks of up to three turns.
    let chains = chains(&[[0, 5 * MS, 5 * MS, 20 * MS, 5 * MS, 5 * MS]; 3]);
    let mut settings = settings(Arrivals::Concurrency(1), 60_000);
    settings.performance_issue_unique = true;
    let plan = plan(&settings, &chains).unwrap().with_tasks(3).unwrap();
    let echo = Echo { latency: 10 * MS, ..Echo::default() };
    let mut system = Asking(echo, &[0, 9, 10, 11, 12, 13, 14]);
    let mut driver = VirtualTime::new(&mut system, WallTime { unix_ns: 0 });
    let run = play_plan(&mut driver, &settings, plan);
    // By hand: the sample of each turn, its time in ms, its session, its number, and whether it asked.
    let expected: [(u32, Nanos, u32, u32, bool); 10] = [
        (0, 0, 0, 0, true),
        (1, 15, 0, 1, false),
        (3, 45, 0, 3, false),
        (6, 55, 1, 0, false),
        (9, 85, 1, 3, true),
        (10, 100, 1, 4, true),
        (11, 115, 1, 5, true),
        (12, 125, 2, 0, true),
        (13, 140, 2, 1, true),
        (14, 155, 2, 2, true),
    ];
    let found: Vec<_> = run.record.indices.iter().zip(&run.record.scheduled_at).collect();
    let wanted: Vec<_> = expected.iter().map(|(sample, at, ..)| (*sample, at * MS)).collect();
    assert_eq!(found, wanted.iter().map(|(sample, at)| (sample, at)).collect::<Vec<_>>());
    let wanted = expected
        .map(|(_, _, session, number, continues)| Turn { continues, ..turn(session, number, 6) });
    assert_eq!(turns(&run), wanted);
    // Turns that no answer asked for are not missing.
    assert_eq!((run.ended, run.record.missing()), (EndReason::TraceIssued, 0));
    let judgement = judge(&Metrics::from_record(&run.record, &run.plan), &run.plan, run.ended);
    assert!(judgement.min_duration_met);
}

#[test]
fn tasks_are_played_again_until_the_time_is_over() {
    // Two users: one whose tasks have one turn, and one whose tasks have three.
    let chains = chains(&[[0, 0, 0]; 2]);
    let settings = settings(Arrivals::Concurrency(2), 1_000);
    let plan = plan(&settings, &chains).unwrap().with_tasks(3).unwrap();
    let echo = Echo { latency: 10 * MS, ..Echo::default() };
    let mut system = Asking(echo, &[3, 4]);
    let mut driver = VirtualTime::new(&mut system, WallTime { unix_ns: 0 });
    let run = play_plan(&mut driver, &settings, plan);
    // Two requests are in flight at all times.
    assert_eq!((run.ended, run.record.query_count()), (EndReason::Naturally, 200));
    let count = |sample: u32| run.record.indices.iter().filter(|index| **index == sample).count();
    assert_eq!((count(1), count(2)), (0, 0));
    let threes = [3, 4, 5].map(count);
    assert!(count(0) > 50 && threes[0] - threes[2] <= 1 && threes[2] > 20, "{threes:?}");
}

#[test]
fn in_real_time_a_task_whose_turn_is_held_at_the_end_is_not_answered() {
    let chains = chains(&[[0; 3]; 2]);
    let settings = settings(Arrivals::Concurrency(2), 60);
    let plan = plan(&settings, &chains).unwrap().with_tasks(3).unwrap();
    // Session 0 asks for one more turn each time; the turn after the first answer of session 1 is
    // held for ever.
    let system = FunctionSystem(|samples: &[QuerySample], to: &Responder| {
        for sample in samples {
            if matches!(sample.index, 0 | 3) {
                to.continue_task(sample.id);
            }
            if sample.index == 3 {
                to.hold_turn(sample.id);
            }
            to.complete(&[Response::empty(sample.id)]);
        }
    });
    let run = play_plan(&mut RealTime::new(Arc::new(system)), &settings, plan);
    assert_eq!((run.record.missing(), run.record.failed.len()), (0, 0));
    let all = || run.record.indices.iter().zip(turns(&run));
    assert!(all().all(|(sample, turn)| turn.continues == matches!(sample, 0 | 3)));
    assert!(run.record.indices.iter().all(|sample| matches!(sample, 0 | 1 | 3)));
    assert_eq!(all().filter(|(sample, _)| **sample == 3).count(), 1);
}

#[test]
fn a_load_that_cannot_play_the_sessions_is_refused() {
    let chains = chains(&[[0], [0]]);
    let told = plan(&settings(Arrivals::Concurrency(3), 1), &chains).unwrap_err();
    assert!(told.starts_with("expected at least 3 sessions to keep 3 in progress, found 2"));
    let offline = TestSettings { scenario: Scenario::Offline, ..TestSettings::default() };
    let told = plan(&offline, &chains).unwrap_err();
    assert!(told.starts_with("expected scenario Server for sessions, found Offline"), "{told}");
    let poisson = plan(&settings(Arrivals::Poisson, 1), &chains).unwrap();
    assert!(poisson.clone().with_sessions(Arc::from([])).is_err());
    let told = poisson.clone().with_tasks(2).unwrap_err();
    assert!(told.starts_with("expected sessions of tasks with 2 turns each"), "{told}");
    assert!(poisson.clone().with_tasks(0).is_err() && poisson.with_tasks(1).is_ok());
}

/// A closed network of a delay and one exponential server has the throughput of the machine-repair
/// model, whatever the distribution of the delay.
#[test]
fn sessions_with_think_times_are_a_closed_network() {
    let (sessions, think, service) = (5, 4 * MS, MS);
    let thinks = vec![think; 100_000];
    let chains = chains(&vec![&thinks[..]; sessions]);
    let mut rng = Mt19937::new(7);
    let mut server =
        OneServer::new(|| (-(1.0 - rng.canonical()).ln() * service as f64).round() as Nanos);
    let run = simulate(&mut server, &settings(Arrivals::Concurrency(5), 200_000), &chains);
    // P(idle) = 1 / sum of N! / (N - k)! (S / Z)^k.
    let ratio = service as f64 / think as f64;
    let (mut sum, mut term) = (1.0, 1.0);
    for k in 0..sessions {
        term *= (sessions - k) as f64 * ratio;
        sum += term;
    }
    let expected = (1.0 - 1.0 / sum) / (service as f64 / 1e9);
    let found = run.record.query_count() as f64 / 200.0;
    assert!((found / expected - 1.0).abs() < 0.01, "{found} against {expected} by theory");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a system that takes real time")]
fn in_real_time_a_turn_is_due_when_the_answer_before_it_came() {
    let chains = chains(&[[0, 2 * MS, 0, MS]; 20]);
    let in_flight: Arc<Mutex<Vec<u64>>> = Arc::default();
    let (seen, chains_of) = (in_flight.clone(), chains.clone());
    let system = FunctionSystem(move |samples: &[QuerySample], to: &Responder| {
        for sample in samples {
            let session = sample.index / 4;
            {
                let mut seen = seen.lock().unwrap();
                assert!(!seen.contains(&session), "session {session} is in progress twice");
                seen.push(session);
            }
            let (seen, to, id) = (seen.clone(), to.clone(), sample.id);
            thread::spawn(move || {
                thread::sleep(std::time::Duration::from_micros(300));
                seen.lock().unwrap().retain(|other| *other != session);
                if id.sequence() % 17 == 5 {
                    to.fail(&[id], Failure::Internal);
                } else {
                    to.complete(&[Response::empty(ResponseId(id.0))]);
                }
            });
        }
    });
    let mut driver = RealTime::new(Arc::new(system)).waiting(WaitStrategy::Sleep);
    let run = play(&mut driver, &settings(Arrivals::Concurrency(6), 300), &chains);
    let (record, turns) = (&run.record, turns(&run));
    assert_eq!(record.missing(), 0);
    assert!(record.query_count() > 20);
    for (query, turn) in turns.iter().enumerate().filter(|(_, turn)| turn.number > 0) {
        let is_before =
            |other: &Turn| (other.session, other.number + 1) == (turn.session, turn.number);
        let before = turns.iter().position(is_before).unwrap();
        assert!(record.failed.iter().all(|(failed, _)| *failed != before as u64));
        let chain = &chains_of[record.indices[query] as usize / 4];
        let due = record.completed_at[before] + chain.thinks[turn.number as usize];
        assert_eq!(record.scheduled_at[query], due);
        assert!(record.issued_at[query] >= due);
    }
}

/// A system that holds the turn after each answer until a thread of its own releases it, 20 ms later.
/// Every `stuck`-th answer is never released.
struct HoldingSystem {
    stuck: u64,
    is_over: Arc<AtomicBool>,
}

impl SystemUnderTest for HoldingSystem {
    fn name(&self) -> &str {
        "holds"
    }

    #[expect(clippy::disallowed_methods, reason = "a system that takes real time")]
    fn issue(&self, samples: &[QuerySample], to: &Responder) {
        for sample in samples {
            let (id, is_stuck) = (sample.id, sample.id.sequence() % self.stuck == self.stuck - 1);
            to.hold_turn(id);
            to.complete(&[Response::empty(id)]);
            let to = to.clone();
            thread::spawn(move || {
                thread::sleep(std::time::Duration::from_millis(20));
                if !is_stuck {
                    to.release_turn(id, to.now());
                }
            });
        }
    }

    fn end_run(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_held_turn_is_due_at_its_release_and_delays_neither_its_answer_nor_the_end() {
    let chains = chains(&[[0; 3]; 4]);
    let is_over = Arc::<AtomicBool>::default();
    for (stuck, settings) in [
        // Sessions end when their last turns are released, too.
        (
            u64::MAX,
            TestSettings {
                performance_issue_unique: true,
                ..settings(Arrivals::Concurrency(2), 0)
            },
        ),
        // The run does not wait for turns that are never released.
        (5, settings(Arrivals::Concurrency(4), 150)),
    ] {
        let system = HoldingSystem { stuck, is_over: is_over.clone() };
        let run = play(&mut RealTime::new(Arc::new(system)), &settings, &chains);
        assert!(is_over.swap(false, Ordering::SeqCst));
        let (record, turns) = (&run.record, turns(&run));
        assert_eq!((record.missing(), record.failed.len()), (0, 0));
        if stuck == u64::MAX {
            assert_eq!(turns.len(), 12);
        }
        for (query, turn) in turns.iter().enumerate().filter(|(_, turn)| turn.number > 0) {
            let is_before =
                |other: &Turn| (other.session, other.number + 1) == (turn.session, turn.number);
            let before = turns.iter().position(is_before).unwrap();
            assert!(before as u64 % stuck != stuck - 1, "a stuck turn has no next one");
            assert!(record.scheduled_at[query] >= record.completed_at[before] + 20 * MS);
        }
    }
}
