//! Systems that answer late, twice, partly or not at all, in real time.

use std::sync::Mutex;

use dyno_loadgen::record::Failure;
use dyno_loadgen::session::Ended;
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
    assert_eq!(run.ended, Ended::TraceIssued);
    assert_sound(&run.record);
}
