//! Systems that answer late, twice, partly or not at all, in real time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use dyno_loadgen::record::Failure;
use dyno_loadgen::session::EndReason;
use dyno_loadgen::settings::{Arrivals, EarlyStopping, Scenario, TestSettings};
use dyno_loadgen::sut::{Response, ResponseId};

use crate::real_time::{answer, assert_sound, play, settings};

#[test]
fn every_id_of_a_foreign_batch_is_counted() {
    let run = play(&settings(Scenario::SingleStream, 10), |samples, responder| {
        // In a row and within one word of 64 samples, the last one wrapping to 0.
        let stale: Vec<_> =
            (0..10).map(|i| Response::empty(ResponseId::new(0, 0, 64 + i))).collect();
        responder.complete(&stale);
        let end = [ResponseId(u64::MAX), ResponseId(0)].map(Response::empty);
        responder.complete(&end);
        answer(samples, responder);
    });
    assert_sound(&run.record);
    assert_eq!((run.record.misuse.stale, run.record.misuse.unknown), (10 * 10, 2 * 10));
}

#[test]
fn a_deadline_spares_a_system_that_answers_while_queries_go_out_late() {
    // All queries are due at once, so that the issuer never waits; each answer
    // is there in a tenth of the deadline.
    let wanted = TestSettings {
        response_deadline_ms: 20,
        server_target_qps: 1e9,
        ..settings(Scenario::Server, 60)
    };
    let run = play(&wanted, |samples, responder| {
        std::thread::park_timeout(std::time::Duration::from_millis(2));
        answer(samples, responder);
    });
    assert_eq!(run.ended, EndReason::TraceIssued);
    assert_sound(&run.record);
}

#[test]
fn outstanding_queries_are_counted_after_the_system_took_the_query() {
    // A burst of 8 that is answered inline leaves nothing outstanding.
    let burst = TestSettings {
        server_coalesce_queries: true,
        server_arrivals: Arrivals::Burst(8),
        server_max_async_queries: 3,
        ..settings(Scenario::Server, 400)
    };
    let run = play(&burst, answer);
    assert_eq!((run.ended, run.record.query_count()), (EndReason::TraceIssued, 400));

    // Each query is answered when the next one comes: one is outstanding.
    let one = TestSettings { server_max_async_queries: 1, ..settings(Scenario::Server, 400) };
    let before = Mutex::new(None::<ResponseId>);
    let run = play(&one, move |samples, responder| {
        let last = samples[0].id.sequence() == 399;
        if let Some(id) = before.lock().unwrap().replace(samples[0].id) {
            responder.complete(&[Response::empty(id)]);
        }
        if last {
            answer(samples, responder);
        }
    });
    assert_eq!((run.ended, run.record.query_count()), (EndReason::TraceIssued, 400));
}

#[test]
fn a_failed_sample_is_over_the_bound_when_a_run_extends_itself() {
    let wanted = TestSettings {
        early_stopping: EarlyStopping::Extend,
        // Ten times the 5 ms of the trace is too short for a busy machine.
        max_duration_ms: 60_000,
        server_target_latency_ns: 60_000_000_000,
        ..settings(Scenario::Server, 500)
    };
    let run = play(&wanted, |samples, responder| {
        if samples[0].id.sequence() == 0 {
            responder.fail(&[samples[0].id], Failure::Rejected);
        } else {
            answer(samples, responder);
        }
    });
    // By the rules' table 661 further queries forgive one at 99 %.
    assert!(run.record.query_count() >= 662, "{}", run.record.query_count());
}

#[test]
fn any_token_count_is_survived() {
    let wanted = TestSettings {
        use_token_latencies: true,
        early_stopping: EarlyStopping::Extend,
        max_duration_ms: 60_000,
        server_ttft_latency: 60_000_000_000,
        server_tpot_latency: 60_000_000_000,
        ..settings(Scenario::Server, 500)
    };
    let run = play(&wanted, |samples, responder| {
        let tokens = [i64::MIN, i64::MAX, 0, -1][samples[0].id.sequence() as usize % 4];
        responder.first_token(&[Response::empty(samples[0].id)]);
        responder.complete(&[Response { id: samples[0].id, data: &[], tokens }]);
    });
    assert_sound(&run.record);
    assert!(run.record.misuse.tokens_negative > 0);
}

#[test]
fn samples_are_complete_although_fetching_a_payload_panics() {
    let wanted = TestSettings {
        // Without these samples, the run ends at the deadline.
        response_deadline_ms: 1_000,
        accuracy_log_probability: 1.0,
        ..settings(Scenario::Offline, 100)
    };
    let run = play(&wanted, |samples, responder| {
        let mut responses: Vec<_> = samples.iter().map(|s| Response::empty(s.id)).collect();
        let mut calls = 0;
        let caught = catch_unwind(AssertUnwindSafe(|| {
            responder.complete_fetching(&mut responses, |_| {
                calls += 1;
                assert!(calls < 3, "no payload");
            });
        }));
        assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"no payload"));
        assert_eq!(calls, 3);
    });
    assert_sound(&run.record);
    assert!(run.record.indices.len() > 64, "more than a word of samples");
    assert_eq!(run.record.responses.len(), 2);
}
