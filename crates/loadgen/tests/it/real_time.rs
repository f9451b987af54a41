//! The driver in real time: the completion path under any threads, order and
//! batch, misuse, waiting, ending. Bounds of time are never asserted.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use dyno_loadgen::drive::real::{
    AnswerWindow, IssueThreads, MassFailure, RealTime, Responder, WaitStrategy,
};
use dyno_loadgen::metrics::Metrics;
use dyno_loadgen::record::{Failure, Misuse, Record};
use dyno_loadgen::run::{RecordRetention, RunLog, run};
use dyno_loadgen::session::EndReason;
use dyno_loadgen::settings::{Repetition, Scenario, TestMode, TestSettings};
use dyno_loadgen::sut::{QuerySample, Response, ResponseId, SystemUnderTest};

use crate::null::{NullLibrary, tenant};

/// A system that calls a function with each query.
pub struct FunctionSystem<F>(pub F);

impl<F: Fn(&[QuerySample], &Responder) + Send + Sync> SystemUnderTest for FunctionSystem<F> {
    fn name(&self) -> &str {
        "does"
    }
    fn issue(&self, samples: &[QuerySample], responder: &Responder) {
        (self.0)(samples, responder);
    }
}

pub fn answer(samples: &[QuerySample], responder: &Responder) {
    let responses: Vec<_> = samples.iter().map(|s| Response::empty(s.id)).collect();
    responder.complete(&responses);
}

pub fn settings(scenario: Scenario, queries: u64) -> TestSettings {
    TestSettings {
        scenario,
        min_duration_ms: 0,
        min_query_count: queries,
        server_target_qps: 1e5,
        ..TestSettings::default()
    }
}

pub fn play_with(settings: &TestSettings, mut driver: RealTime) -> RunLog {
    let library = NullLibrary::new(100, 100);
    let log = run(&mut driver, &[tenant(settings, &library)], RecordRetention::Every, &mut |_| {})
        .swap_remove(0);
    log.runs().last().unwrap().clone()
}

pub fn play(
    settings: &TestSettings,
    issue: impl Fn(&[QuerySample], &Responder) + Send + Sync + 'static,
) -> RunLog {
    play_with(settings, RealTime::new(Arc::new(FunctionSystem(issue))))
}

pub fn assert_sound(record: &Record) {
    assert_eq!(record.missing(), 0);
    for (sample, &done) in record.completed_at.iter().enumerate() {
        assert!(done >= record.issued_at[sample / record.samples_per_query], "sample {sample}");
    }
}

#[test]
fn every_scenario_completes_inline() {
    for scenario in Scenario::ALL {
        let run = play(&settings(*scenario, 5_000), answer);
        assert_sound(&run.record);
        assert_eq!(run.record.misuse, Misuse::default(), "{scenario}");
        let queries = if *scenario == Scenario::Offline { 1 } else { 5_000 };
        assert_eq!(run.record.query_count(), queries, "{scenario}");
    }
}

#[test]
fn completions_come_from_any_thread_in_any_order_and_batch() {
    // 200,000 samples span several chunks of the slab.
    let run = play(&settings(Scenario::Offline, 200_000), |samples, responder| {
        let mut ids: Vec<ResponseId> = samples.iter().map(|s| s.id).collect();
        // A stride that is prime to the count visits every id once, scattered.
        let n = ids.len();
        ids = (0..n).map(|i| ids[i * 7_919 % n]).collect();
        let (scattered, contiguous) = ids.split_at_mut(n / 2);
        contiguous.sort_unstable();
        thread::scope(|scope| {
            for (part, batch) in [(scattered, 13), (contiguous, 1_000)] {
                for chunk in part.chunks(n / 6) {
                    scope.spawn(move || {
                        for batch in chunk.chunks(batch) {
                            let batch: Vec<_> =
                                batch.iter().map(|&id| Response::empty(id)).collect();
                            responder.complete(&batch);
                        }
                    });
                }
            }
        });
    });
    assert_sound(&run.record);
    assert_eq!(run.record.misuse, Misuse::default());
    assert_eq!(run.record.completed_at.len(), 200_000);
}

#[test]
fn a_parked_issuer_is_woken_by_each_completion() {
    let (sender, receiver) = mpsc::channel::<(Vec<QuerySample>, Responder)>();
    let worker = thread::spawn(move || {
        for (samples, responder) in receiver {
            // Longer than the issuer spins, so that it parks.
            thread::park_timeout(std::time::Duration::from_micros(300));
            answer(&samples, &responder);
        }
    });
    let sender = Mutex::new(sender);
    for waiting in [WaitStrategy::Auto, WaitStrategy::Sleep, WaitStrategy::Spin] {
        let sender = sender.lock().unwrap().clone();
        let sender = Mutex::new(sender);
        let system = FunctionSystem(move |samples: &[QuerySample], responder: &Responder| {
            sender.lock().unwrap().send((samples.to_vec(), responder.clone())).unwrap();
        });
        let driver = RealTime::new(Arc::new(system)).waiting(waiting);
        let run = play_with(&settings(Scenario::SingleStream, 200), driver);
        assert_sound(&run.record);
        assert_eq!(run.record.query_count(), 200);
    }
    drop(sender);
    worker.join().unwrap();
}

#[test]
fn misuse_is_counted_and_changes_nothing() {
    let earlier = Mutex::new(None::<ResponseId>);
    let run = play(&settings(Scenario::SingleStream, 100), move |samples, responder| {
        let id = samples[0].id;
        let mut earlier = earlier.lock().unwrap();
        if let Some(before) = earlier.replace(id) {
            // Complete already: a duplicate.
            responder.complete(&[Response::empty(before)]);
        }
        // Reserved, of an earlier run, of another tenant, never issued.
        let stale = ResponseId(ResponseId::new(0, 0, 5).0);
        let tenant = ResponseId(id.0 + (1 << 40));
        let future = ResponseId(id.0 + 1_000_000);
        for bad in [ResponseId(0), stale, tenant, future, ResponseId(u64::MAX)] {
            responder.complete(&[Response::empty(bad)]);
            responder.fail(&[bad], Failure::Internal);
            responder.first_token(&[Response::empty(bad)]);
        }
        // One id three times in a batch, with an unknown one between.
        let responses = [id, id, ResponseId(id.0 + 7), id].map(Response::empty);
        responder.complete(&responses);
    });
    assert_sound(&run.record);
    assert_eq!(run.record.query_count(), 100);
    let misuse = run.record.misuse;
    assert_eq!(misuse.duplicate, 99 + 2 * 100);
    assert_eq!(misuse.stale, 3 * 100);
    assert_eq!(misuse.unknown, 4 * 3 * 100 + 100);
}

#[test]
fn a_completion_of_an_earlier_run_changes_nothing() {
    let kept = Arc::new(Mutex::new(None::<(ResponseId, Responder)>));
    let system = {
        let kept = kept.clone();
        FunctionSystem(move |samples: &[QuerySample], responder: &Responder| {
            if let Some((id, old)) =
                kept.lock().unwrap().replace((samples[0].id, responder.clone()))
            {
                old.complete(&[Response::empty(id)]);
                responder.complete(&[Response::empty(id)]);
            }
            answer(samples, responder);
        })
    };
    let wanted = TestSettings { mode: TestMode::SubmissionRun, ..settings(Scenario::Offline, 50) };
    let run = play_with(&wanted, RealTime::new(Arc::new(system)));
    assert_sound(&run.record);
    assert_eq!(run.record.misuse.stale, 1);
    let (id, responder) = kept.lock().unwrap().take().unwrap();
    responder.complete(&[Response::empty(id)]);
}

#[test]
fn failures_are_complete_and_not_answers() {
    let run = play(&settings(Scenario::Server, 300), |samples, responder| {
        let ids: Vec<_> = samples.iter().map(|s| s.id).collect();
        match samples[0].id.sequence() % 3 {
            0 => responder.fail(&ids, Failure::Rejected),
            _ => answer(samples, responder),
        }
    });
    assert_sound(&run.record);
    let mut failed = run.record.failed.clone();
    failed.sort_unstable();
    let want: Vec<_> = (0..300).step_by(3).map(|s| (s, Failure::Rejected)).collect();
    assert_eq!(failed, want);
}

#[test]
fn tokens_are_recorded_with_their_misuse() {
    let wanted = TestSettings { use_token_latencies: true, ..settings(Scenario::Server, 400) };
    let run = play(&wanted, |samples, responder| {
        let id = samples[0].id;
        let response = |tokens| Response { id, data: b"ab", tokens };
        match id.sequence() % 4 {
            0 => {
                responder.first_token(&[response(0)]);
                responder.complete(&[response(5)]);
            }
            1 => responder.complete(&[response(5)]),
            2 => {
                responder.first_token(&[response(0)]);
                responder.first_token(&[response(0)]);
                responder.complete(&[response(-3)]);
            }
            _ => {
                responder.first_token(&[response(0)]);
                responder.complete(&[response(1)]);
                responder.first_token(&[response(0)]);
            }
        }
    });
    let record = &run.record;
    assert_sound(record);
    assert_eq!(record.tokens[..4], [5, 5, -3, 1]);
    assert!(record.first_token_at[0] > 0 && record.first_token_at[1] == 0);
    assert_eq!(record.misuse.first_token_missing, 100);
    // The reference distinguishes a second first token from a late one.
    assert_eq!((record.misuse.first_token_late, record.misuse.duplicate), (100, 100));
    assert_eq!((record.misuse.tokens_negative, record.misuse.tokens_one), (100, 100));
}

/// The time that a system reports is recorded, whenever it reports it; what cannot be is
/// moved to the nearest possible time, and counted.
#[test]
fn times_of_the_system_are_recorded_and_impossible_ones_counted() {
    let reported = Arc::new(Mutex::new(Vec::new()));
    let times = reported.clone();
    let wanted = TestSettings { use_token_latencies: true, ..settings(Scenario::Server, 300) };
    let run = play(&wanted, move |samples, responder| {
        let (id, response) =
            (samples[0].id, |tokens| [Response { id: samples[0].id, data: b"", tokens }]);
        let at = responder.now();
        times.lock().unwrap().push(at);
        // What happens between the event and its report must not count.
        while responder.now() == at {}
        match id.sequence() % 3 {
            0 => {
                responder.first_token_at(&response(0), at);
                responder.complete_at(&response(5), at);
            }
            1 => {
                responder.first_token_at(&response(0), 0);
                responder.fail_at(&[id], Failure::Internal, at);
            }
            _ => {
                responder.first_token_at(&response(0), at);
                responder.complete_at(&response(5), u64::MAX);
            }
        }
    });
    let record = &run.record;
    assert_sound(record);
    for (sample, &at) in reported.lock().unwrap().iter().enumerate() {
        let (first, last) = (record.first_token_at[sample], record.completed_at[sample]);
        match sample % 3 {
            0 => assert_eq!((first, last), (at, at)),
            1 => assert_eq!((first, last), (record.issued_at[sample], at)),
            _ => assert!(first == at && last > at),
        }
    }
    assert_eq!(record.misuse.impossible_times, 200);
}

#[test]
fn responses_of_an_accuracy_run_are_copied() {
    let wanted = TestSettings { mode: TestMode::AccuracyOnly, ..settings(Scenario::Server, 1) };
    let run = play(&wanted, |samples, responder| {
        let data = samples[0].index.to_le_bytes();
        responder.complete(&[Response { id: samples[0].id, data: &data, tokens: 0 }]);
    });
    assert_eq!(run.record.responses.len(), 100);
    for response in run.record.responses.iter() {
        let index = u64::from(run.record.indices[response.sequence as usize]);
        assert_eq!(response.data, index.to_le_bytes());
    }
}

#[test]
fn an_abort_ends_a_run_that_waits() {
    let driver = RealTime::new(Arc::new(FunctionSystem(|_: &[QuerySample], _: &Responder| {})));
    let monitor = driver.monitor();
    let aborter = thread::spawn(move || {
        while monitor.progress().is_none_or(|(issued, ..)| issued == 0) {
            thread::yield_now();
        }
        monitor.abort();
    });
    let run = play_with(&settings(Scenario::SingleStream, 10), driver);
    aborter.join().unwrap();
    assert_eq!((run.ended, run.record.missing()), (EndReason::Aborted, 1));
}

#[test]
fn a_silent_system_ends_by_the_deadline() {
    let wanted = TestSettings { response_deadline_ms: 20, ..settings(Scenario::MultiStream, 10) };
    let run = play(&wanted, |samples, responder| answer(&samples[1..], responder));
    assert_eq!(run.ended, EndReason::Deadline { missing: 1 });
    assert_eq!(run.record.missing(), 1);
}

#[test]
fn issue_threads_issue_each_query_once_test_after_test() {
    let threads_seen = Arc::new(AtomicUsize::new(0));
    let pool = IssueThreads::new();
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let pool = pool.clone();
            thread::spawn(move || pool.serve())
        })
        .collect();
    let wanted = TestSettings {
        server_num_issue_query_threads: 3,
        server_target_qps: 1e6,
        ..settings(Scenario::Server, 3_000)
    };
    let alone = play(&TestSettings { server_num_issue_query_threads: 0, ..wanted.clone() }, answer);
    for _ in 0..2 {
        let seen = threads_seen.clone();
        let main = thread::current().id();
        let system = FunctionSystem(move |samples: &[QuerySample], responder: &Responder| {
            seen.fetch_add(usize::from(thread::current().id() != main), Ordering::Relaxed);
            answer(samples, responder);
        });
        let driver = RealTime::new(Arc::new(system)).issue_threads(pool.clone());
        let run = play_with(&wanted, driver);
        assert_sound(&run.record);
        assert_eq!(run.record.indices, alone.record.indices);
        assert_eq!(run.record.scheduled_at, alone.record.scheduled_at);
    }
    assert_eq!(threads_seen.load(Ordering::Relaxed), 2 * 3_000, "all from the pool's threads");
    pool.close();
    for worker in workers {
        worker.join().unwrap();
    }
    // Without a pool the driver brings its own threads.
    assert_sound(&play(&wanted, answer).record);
}

#[test]
fn the_completion_path_allocates_nothing() {
    let run = play(&settings(Scenario::Server, 2_000), |samples, responder| {
        let measured = allocation_counter::measure(|| {
            for sample in samples {
                responder.complete(&[Response::empty(sample.id)]);
            }
        });
        assert_eq!(measured.count_total, 0, "sample {}", samples[0].id.sequence());
    });
    assert_sound(&run.record);
}

/// Waits for what never comes.
fn wait_ms(ms: u64) {
    let (_sender, receiver) = mpsc::channel::<()>();
    let _ = receiver.recv_timeout(std::time::Duration::from_millis(ms));
}

#[test]
fn a_fixed_interval_issues_at_ticks_and_never_two_queries_at_once() {
    // 1 ms, with a system that takes longer for every tenth query.
    let wanted = TestSettings {
        multi_stream_target_qps: 1_000.0,
        multi_stream_samples_per_query: 4,
        ..settings(Scenario::MultiStream, 100)
    };
    let number = AtomicUsize::new(0);
    let run = play(&wanted, move |samples, responder| {
        if number.fetch_add(1, Ordering::Relaxed) % 10 == 9 {
            wait_ms(3);
        }
        let (samples, responder) = (samples.to_vec(), responder.clone());
        thread::spawn(move || answer(&samples, &responder));
    });
    assert_sound(&run.record);
    let record = &run.record;
    assert_eq!((run.ended, record.query_count()), (EndReason::Naturally, 100));
    assert_eq!(record.client_lag.len(), 100);
    for (query, &due) in record.scheduled_at.iter().enumerate() {
        assert_eq!(due, run.plan.tick((due as f64 / 1e6).round() as u64), "on a tick");
        assert!(record.issued_at[query] >= due);
        if query > 0 {
            assert!(due > record.scheduled_at[query - 1]);
            let before = &record.completed_at[4 * (query - 1)..4 * query];
            assert!(before.iter().all(|&done| done <= record.issued_at[query]));
        }
    }
    let skipped = Metrics::from_record(record, &run.plan).intervals.unwrap().skipped;
    assert!(skipped >= 20, "two of each ten: {skipped}");
}

#[test]
fn an_abort_ends_a_repetition_and_a_run_between_ticks() {
    let wanted = TestSettings {
        // A tick every ten minutes.
        multi_stream_target_qps: 1.0 / 600.0,
        repetition: Repetition::Minimum(5),
        ..settings(Scenario::MultiStream, 3)
    };
    let driver = RealTime::new(Arc::new(FunctionSystem(answer)));
    let monitor = driver.monitor();
    let aborts = thread::spawn(move || {
        while monitor.progress().is_none() {
            thread::yield_now();
        }
        monitor.abort();
    });
    let run = play_with(&wanted, driver);
    aborts.join().unwrap();
    assert_eq!((run.ended, run.record.query_count()), (EndReason::Aborted, 0));
}

fn fails(samples: &[QuerySample], responder: &Responder) {
    samples.iter().for_each(|sample| responder.fail(&[sample.id], Failure::Rejected));
}

#[test]
fn a_system_that_fails_all_of_its_first_answers_ends_the_run() {
    for scenario in [Scenario::SingleStream, Scenario::MultiStream, Scenario::Server] {
        let driver = RealTime::new(Arc::new(FunctionSystem(fails)));
        let monitor = driver.monitor();
        monitor.fail_fast(true);
        let run = play_with(&settings(scenario, 5_000), driver);
        assert_eq!(run.ended, EndReason::Aborted, "{scenario}");
        let queries = 20_usize.div_ceil(run.record.samples_per_query);
        assert_eq!(run.record.query_count(), queries, "{scenario}");
        let (window, failed, answers) = (AnswerWindow::First, 20, 20);
        let failing = MassFailure { tenant: 0, window, failed, answers };
        assert_eq!(monitor.failing(), Some(failing), "{scenario}");
    }
    let driver = RealTime::new(Arc::new(FunctionSystem(fails)));
    let monitor = driver.monitor();
    let run = play_with(&settings(Scenario::SingleStream, 300), driver);
    assert_eq!((run.record.query_count(), monitor.failing()), (300, None), "it is not asked for");
}

#[test]
fn a_system_learns_that_the_run_is_over() {
    // A query of 1,000 samples, of which each is looked at before it is answered.
    let driver = RealTime::new(Arc::new(FunctionSystem(
        |samples: &[QuerySample], responder: &Responder| {
            for sample in samples.iter().take_while(|_| !responder.is_over()) {
                match sample.id.sequence() {
                    0..500 => answer(&[*sample], responder),
                    _ => fails(&[*sample], responder),
                }
            }
        },
    )));
    let monitor = driver.monitor();
    monitor.fail_fast(true);
    let run = play_with(&settings(Scenario::Offline, 1_000), driver);
    // 101 failures are more than half of the last 200 answers.
    assert_eq!((run.record.failed.len(), run.record.missing()), (101, 399));
    assert_eq!(run.ended, EndReason::Aborted);
    assert_eq!(monitor.failing().unwrap().window, AnswerWindow::Last);
    assert_eq!(
        Metrics::from_record(&run.record, &run.plan).sample_count,
        500,
        "the answers are kept"
    );
}
