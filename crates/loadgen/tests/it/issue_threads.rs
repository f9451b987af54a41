//! Registered issue threads that panic, leave or end at different places.

use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use dyno_loadgen::drive::ThreadReport;
use dyno_loadgen::drive::real::{IssueThreads, RealTime, Responder};
use dyno_loadgen::run::{RecordRetention, run};
use dyno_loadgen::session::EndReason;
use dyno_loadgen::settings::{EarlyStopping, Scenario, TestSettings};
use dyno_loadgen::sut::{QuerySample, Response, ResponseId, SystemUnderTest};

use crate::null::{NullLibrary, tenant};
use crate::real_time::{FunctionSystem, answer, assert_sound, play, play_with, settings};

fn lanes(count: u64, queries: u64) -> TestSettings {
    TestSettings {
        server_num_issue_query_threads: count,
        server_target_qps: 1e6,
        ..settings(Scenario::Server, queries)
    }
}

fn pool_of(threads: usize) -> (Arc<IssueThreads>, Vec<thread::JoinHandle<()>>) {
    let pool = IssueThreads::new();
    let serve = |pool: Arc<IssueThreads>| thread::spawn(move || pool.serve());
    let workers = (0..threads).map(|_| serve(pool.clone())).collect();
    assert_eq!(pool.wait_for(threads, 10_000), threads);
    (pool, workers)
}

#[test]
fn a_panic_of_the_system_is_the_callers_and_the_threads_stay() {
    let (pool, workers) = pool_of(2);
    let system = FunctionSystem(|samples: &[QuerySample], responder: &_| {
        assert!(samples[0].id.sequence() != 5, "broken system");
        answer(samples, responder);
    });
    let driver = RealTime::new(Arc::new(system)).issue_threads(pool.clone());
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        play_with(&lanes(2, 50), driver);
    }));
    assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"broken system"));
    assert_eq!(pool.registered(), 2);
    let driver = RealTime::new(Arc::new(FunctionSystem(answer))).issue_threads(pool.clone());
    assert_sound(&play_with(&lanes(2, 50), driver).record);
    pool.close();
    for worker in workers {
        worker.join().unwrap();
    }
}

#[test]
fn a_pool_that_closes_during_a_run_finishes_it() {
    let (pool, workers) = pool_of(1);
    // Fewer threads than lanes that are taken: the second lane waits for the
    // first, and the pool is closed meanwhile.
    let (entered, wait_entered) = mpsc::channel();
    let entered = Mutex::new(entered);
    let closer = thread::spawn({
        let pool = pool.clone();
        move || {
            wait_entered.recv().unwrap();
            pool.close();
        }
    });
    let system = FunctionSystem(move |samples: &[QuerySample], responder: &_| {
        let _ = entered.lock().unwrap().send(());
        answer(samples, responder);
    });
    let driver = RealTime::new(Arc::new(system)).issue_threads(pool.clone());
    assert_sound(&play_with(&lanes(1, 2_000), driver).record);
    closer.join().unwrap();
    for worker in workers {
        worker.join().unwrap();
    }
    // No thread is registered: the driver starts its own.
    let driver = RealTime::new(Arc::new(FunctionSystem(answer))).issue_threads(pool);
    assert_sound(&play_with(&lanes(2, 50), driver).record);
}

#[test]
fn lanes_that_end_apart_leave_a_record_without_gaps() {
    // Lane 0 is answered by another thread, long after lane 1 has issued all.
    let (sender, receiver) = mpsc::channel::<(ResponseId, Responder)>();
    let sender = Mutex::new(sender);
    let worker = thread::spawn(move || {
        let held: Vec<_> = receiver.iter().take(11).collect();
        thread::park_timeout(std::time::Duration::from_millis(5));
        for (id, responder) in held.into_iter().chain(receiver) {
            responder.complete(&[Response::empty(id)]);
        }
    });
    let wanted = TestSettings {
        server_max_async_queries: 10,
        accuracy_log_probability: 1.0,
        ..lanes(2, 4_000)
    };
    let system = FunctionSystem(move |samples: &[QuerySample], responder: &Responder| {
        if samples[0].id.sequence().is_multiple_of(2) {
            let _ = sender.lock().unwrap().send((samples[0].id, responder.clone()));
        } else {
            answer(samples, responder);
        }
    });
    let library = NullLibrary::new(100, 100);
    let mut driver = RealTime::new(Arc::new(system));
    let log = run(&mut driver, &[tenant(&wanted, &library)], RecordRetention::Every, &mut |_| {})
        .swap_remove(0);
    drop(driver);
    worker.join().unwrap();
    let record = &log.runs().last().unwrap().record;
    assert!(matches!(log.runs().last().unwrap().ended, EndReason::TooManyOutstanding { .. }));
    assert_sound(record);
    assert_eq!(record.responses.len(), record.indices.len());
}

/// Answers all samples in the flush.
struct Held(Mutex<Vec<(ResponseId, Responder)>>);

impl SystemUnderTest for Held {
    fn name(&self) -> &'static str {
        "held"
    }

    fn issue(&self, samples: &[QuerySample], responder: &Responder) {
        let held = samples.iter().map(|sample| (sample.id, responder.clone()));
        self.0.lock().unwrap().extend(held);
    }

    fn flush(&self) {
        for (id, responder) in self.0.lock().unwrap().drain(..) {
            responder.complete(&[Response::empty(id)]);
        }
    }
}

#[test]
fn outstanding_queries_of_all_threads_count_together() {
    for threads in 1..4 {
        let (pool, workers) = pool_of(threads);
        let driver = RealTime::new(Arc::new(Held(Mutex::default()))).issue_threads(pool.clone());
        let threads = threads as u64;
        let wanted = TestSettings { server_max_async_queries: 10, ..lanes(threads, 4_000) };
        let run = play_with(&wanted, driver);
        // Each thread may notice the limit one query late.
        let limits = 11..=10 + threads;
        for ended in &run.threads.ends {
            let EndReason::TooManyOutstanding { issued, outstanding } = *ended else {
                panic!("{ended:?}");
            };
            assert_eq!(issued, outstanding);
            assert!(limits.contains(&issued), "{ended:?} with {threads} threads");
        }
        assert!(run.record.query_count() as u64 <= 10 + threads);
        assert_sound(&run.record);
        pool.close();
        for worker in workers {
            worker.join().unwrap();
        }
    }
}

#[test]
fn a_run_that_extends_itself_is_issued_by_the_calling_thread() {
    let wanted = TestSettings { early_stopping: EarlyStopping::Extend, ..lanes(2, 100) };
    let wanted = TestSettings { server_target_latency_ns: 60_000_000_000, ..wanted };
    // The trace takes 100 us; an extended run may take ten times that, unless this sets a limit.
    let wanted = TestSettings { max_duration_ms: 60_000, ..wanted };
    let run = play(&wanted, answer);
    assert_eq!(run.ended, EndReason::TraceIssued);
    assert!(run.record.query_count() >= 459);
}

#[test]
fn each_thread_that_a_limit_ends_is_reported() {
    let (pool, workers) = pool_of(2);
    let driver = RealTime::new(Arc::new(FunctionSystem(answer))).issue_threads(pool.clone());
    let run = play_with(&TestSettings { max_query_count: 11, ..lanes(2, 40) }, driver);
    let ends = [6, 5].map(|issued| EndReason::MaxQueryCount { issued });
    assert_eq!(run.threads, ThreadReport { mismatch: None, ends: ends.to_vec() });
    pool.close();
    for worker in workers {
        worker.join().unwrap();
    }
}

#[test]
fn threads_that_the_settings_do_not_request_are_an_error_in_each_scenario() {
    let (pool, workers) = pool_of(2);
    let text = |requested: u64| {
        format!(
            "Mismatch between settings and number of registered IssueQueryThreads! \
             settings.server_num_issue_query_threads = {requested} but 2 threads registered."
        )
    };
    for scenario in Scenario::ALL {
        for requested in 0..3 {
            let driver = RealTime::new(Arc::new(FunctionSystem(answer)))
                .issue_threads(pool.clone())
                .requested_threads(requested);
            let run = play_with(&settings(*scenario, 10), driver);
            let mismatch = (requested != 2).then(|| text(requested));
            assert_eq!(run.threads, ThreadReport { mismatch, ends: Vec::new() }, "{scenario}");
        }
    }
    let driver = RealTime::new(Arc::new(FunctionSystem(answer))).issue_threads(pool.clone());
    let mismatch = play_with(&lanes(1, 10), driver).threads.mismatch;
    assert_eq!(mismatch, Some(format!("{} 1 threads issue.", text(1))));
    pool.close();
    for worker in workers {
        worker.join().unwrap();
    }
}
