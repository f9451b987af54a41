//! Settings at the ends of their ranges.

use dyno_loadgen::plan::{Library, MAX_TRACE_SAMPLES, Plan};
use dyno_loadgen::session::Ended;
use dyno_loadgen::settings::{Arrivals, Scenario, TestMode, TestSettings};

use crate::real_time;
use crate::scenarios::{echo, play, play_many, settings};

#[test]
fn times_beyond_the_clock_saturate() {
    // A deadline that is never reached.
    let patient = TestSettings { response_deadline_ms: u64::MAX, ..settings(Scenario::Server) };
    let patient = TestSettings { server_target_qps: 1_000.0, ..patient };
    assert_eq!(play(&patient, &mut echo(1_000)).ended, Ended::TraceIssued);
    let wanted = TestSettings {
        response_deadline_ms: u64::MAX,
        ..real_time::settings(Scenario::Offline, 10)
    };
    real_time::assert_sound(&real_time::play(&wanted, real_time::answer).record);

    // An accuracy run has no duration, whatever a performance run would have.
    let accuracy = TestSettings {
        mode: TestMode::AccuracyOnly,
        min_duration_ms: u64::MAX,
        ..settings(Scenario::SingleStream)
    };
    assert_eq!(play(&accuracy, &mut echo(1_000)).ended, Ended::TraceIssued);

    // An expected latency of ages: the trace is only an estimate.
    let slow = TestSettings {
        single_stream_expected_latency_ns: 1e300,
        min_query_count: 10,
        ..settings(Scenario::SingleStream)
    };
    let run = play(&slow, &mut echo(1_000));
    assert_eq!((run.ended, run.record.query_count()), (Ended::Naturally, 10));
}
