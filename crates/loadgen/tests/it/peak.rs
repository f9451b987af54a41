//! The search for the peak where it goes wrong, in virtual time.

use dyno_loadgen::run::{Event, TestLog};
use dyno_loadgen::session::EndReason;
use dyno_loadgen::settings::{EarlyStopping, Repetition, Scenario, TestMode, TestSettings};

use crate::null::Echo;
use crate::scenarios::{echo, play_many, settings};

fn search() -> TestSettings {
    TestSettings {
        mode: TestMode::FindPeakPerformance,
        server_target_qps: 1_000.0,
        ..settings(Scenario::Server)
    }
}

fn texts(log: &TestLog) -> Vec<&str> {
    let mut texts = Vec::new();
    for event in &log.events {
        if let Event::Message(message) = event {
            texts.push(message.text.as_str());
        }
    }
    texts
}

#[test]
fn a_system_that_meets_every_rate_ends_the_search() {
    // 100 queries whatever the rate: no run is ever long.
    let logs = play_many(&[search()], &mut echo(1_000));
    let run = logs[0].result().unwrap();
    assert!(run.plan.target_qps >= 1e8 && run.plan.target_qps <= 1e9, "{}", run.plan.target_qps);
    assert!(logs[0].complete);
    assert!(texts(&logs[0]).iter().any(|text| text.contains("no rate that fails")));
}

#[test]
fn the_end_of_the_search_is_confirmed_all_the_same() {
    let wanted = TestSettings {
        repetition: Repetition::Minimum(5),
        early_stopping: EarlyStopping::Never,
        ..search()
    };
    let logs = play_many(&[wanted], &mut echo(1_000));
    let found = logs[0].result().unwrap().plan.target_qps;
    assert!(found >= 1e8, "{found}");
    assert!(logs[0].runs().filter(|run| run.plan.target_qps == found).count() == 6);
    assert!(texts(&logs[0]).iter().any(|text| text.ends_with("run 5 of 5")));
}

#[test]
fn a_silent_system_is_not_told_to_be_slow() {
    let wanted = TestSettings { response_deadline_ms: 50, ..search() };
    let mut system = Echo { silent_from: Some(10), ..echo(1_000) };
    let logs = play_many(&[wanted], &mut system);
    assert!(!logs[0].complete);
    assert!(matches!(logs[0].runs().last().unwrap().ended, EndReason::Deadline { .. }));
    assert!(!texts(&logs[0]).iter().any(|text| text.contains("Initial lower bound")));
}

#[test]
fn the_advice_is_that_of_the_bound_that_failed() {
    let tokens = TestSettings { use_token_latencies: true, ..search() };
    let logs = play_many(&[tokens], &mut echo(1_000));
    let told = texts(&logs[0]).iter().any(|text| {
        text.contains("Initial lower bound") && text.contains("TTFT constrain not met")
    });
    assert!(told, "{:?}", texts(&logs[0]));
}

#[test]
fn sample_numbers_of_extended_runs_do_not_overlap() {
    let wanted = TestSettings { early_stopping: EarlyStopping::Extend, ..search() };
    let wanted = TestSettings { server_target_latency_ns: 1_000_000, ..wanted };
    let logs = play_many(&[wanted], &mut echo(900_000));
    let mut next = 0;
    for run in logs[0].runs().take(3) {
        assert!(run.record.first_sample >= next, "{} < {next}", run.record.first_sample);
        next = run.record.first_sample + run.record.indices.len() as u64;
    }
    assert!(next > 459);
}
