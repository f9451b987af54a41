use dyno_loadgen::metrics::Metrics;
use dyno_loadgen::plan::{Load, Plan, Tokens};
use dyno_loadgen::record::{Failure, Record};
use dyno_loadgen::session::EndReason;
use dyno_loadgen::settings::EarlyStopping;
use dyno_loadgen::verdict::{
    BoundedTime, EXTENDED_RUN_NOTE, EarlyStoppingResult, Judgement, Recommendations, Verdict,
    Violation, judge, performance_met,
};

use crate::{every, plan, server};

const SINGLE_STREAM: Load = Load::SingleStream { percentile: 0.9 };

fn judged(record: &Record, plan: &Plan) -> Judgement {
    judge(&Metrics::from_record(record, plan), plan, EndReason::Naturally)
}

/// The kinds of the violations, as the names of their variants.
fn kinds(judgement: &Judgement) -> Vec<String> {
    let Verdict::Invalid(violations) = &judgement.verdict else { return Vec::new() };
    let name = |text: String| text.split([' ', '{']).next().unwrap_or_default().to_string();
    violations.iter().map(|violation| name(format!("{violation:?}"))).collect()
}

fn text(judgement: &Judgement) -> String {
    match judgement.early_stopping {
        EarlyStoppingResult::Latency(finding) => finding.text(),
        ref other => panic!("judged something else: {other:?}"),
    }
}

#[test]
fn a_server_run_within_its_bound_is_valid() {
    let judgement = judged(&every(100, &[10; 459]), &server(0.99, 10));
    assert_eq!(judgement.verdict, Verdict::Valid);
    assert_eq!(judgement.performance_met, Some(true));
    assert!(judgement.min_duration_met && judgement.min_queries_met);
    assert!(judgement.early_stopping_met);
    assert_eq!(text(&judgement), " * Run successful.");
    assert_eq!((judgement.client_lag_met, judgement.notes.len()), (None, 0));
}

#[test]
fn a_failing_server_run_gets_the_texts_of_the_reference() {
    // As the reference's Server-PerformanceOnly-invalid: 40 queries, all over.
    let plan = Plan {
        min_duration: 1_000_000_000,
        min_query_count: 100,
        min_sample_count: 100,
        ..server(0.99, 10)
    };
    let judgement = judged(&every(100, &[11; 40]), &plan);
    assert_eq!(kinds(&judgement), ["Bound", "Duration", "Count", "EarlyStopping"]);
    assert_eq!(judgement.performance_met, Some(false));
    assert_eq!(
        text(&judgement),
        " * Run unsuccessful.\n * Processed 40 queries.\n * Would need to run at least 5687 more \
         queries,\n with the run being successful if every additional\n query were under latency."
    );
    assert_eq!(
        judgement.recommendations(),
        Recommendations {
            performance: "Reduce target QPS to improve latency.".into(),
            min_duration: "Increase the target QPS so the loadgen pre-generates more queries."
                .into(),
            min_queries: "The test exited early, before enough queries were issued.\n   See the \
                          detailed log for why this may have occurred."
                .into(),
        }
    );
    let Verdict::Invalid(violations) = judgement.verdict else { panic!("valid") };
    let sentences: Vec<String> = violations.iter().map(ToString::to_string).collect();
    assert_eq!(
        sentences,
        [
            "40 of 40 samples exceed the bound of 10 ns on latency, and 99% must meet it (latency \
             at that percentile: 11 ns); lower server_target_qps or make the system faster",
            "the run lasted 3.900 us and must last 1.000 s; raise server_target_qps so that more \
             is generated, or lower min_duration_ms",
            "40 of at least 100 queries were issued and 40 of at least 100 samples came back; the \
             run ended early, see why in the detail log",
            "too few queries to be certain of the percentile: 5687 more are needed, if all of them \
             are fast; raise min_query_count or min_duration_ms",
        ]
    );
}

#[test]
fn a_system_that_only_fails_has_no_latency_to_lower() {
    let bound = Violation::Bound {
        bounded: BoundedTime::Latency,
        percentile: 0.99,
        bound: 10,
        measured: 0,
        over: 40,
        samples: 40,
    };
    let expected = "40 of 40 samples exceed the bound of 10 ns on latency, and 99% must meet it; \
                    see why the system fails";
    assert_eq!(bound.to_string(), expected);
}

#[test]
fn the_bound_holds_at_the_index_of_the_percentile() {
    // The 90th percentile of 100 is at index 90: nine may be over, ten may not.
    let with_over = |over: usize| {
        let latencies: Vec<u64> = (0..100).map(|at| if at < over { 11 } else { 10 }).collect();
        let plan = server(0.90, 10);
        performance_met(&Metrics::from_record(&every(100, &latencies), &plan), &plan)
    };
    assert_eq!((with_over(9), with_over(10)), (Some(true), Some(false)));
}

#[test]
fn single_stream_estimates_with_the_texts_of_the_reference() {
    let descending = |count: u64| every(1000, &(1..=count).rev().collect::<Vec<_>>());
    let judgement = judged(&descending(20), &plan(SINGLE_STREAM));
    assert_eq!(kinds(&judgement), ["EarlyStopping"]);
    assert_eq!(judgement.recommendations(), Recommendations::default());
    assert_eq!(
        text(&judgement),
        " * Only processed 20 queries.\n * Need to process at least 64 queries for early stopping."
    );

    let judgement = judged(&descending(100), &plan(SINGLE_STREAM));
    assert_eq!(judgement.verdict, Verdict::Valid);
    assert_eq!(
        text(&judgement),
        " * Processed at least 64 queries (100).\n * Would discard 2 highest latency queries.\n * \
         Early stopping 90.0th percentile estimate: 98\n * Not enough queries processed for 99.0th \
         percentile\n early stopping estimate (would need to process at\n least 662 total queries)."
    );

    let judgement = judged(&descending(1000), &plan(SINGLE_STREAM));
    assert!(text(&judgement).ends_with("\n * Early stopping 99.0th percentile estimate: 999"));
    let logged = judgement.early_stopping.logged_estimates().unwrap();
    assert_eq!((logged.target.latency, logged.tail.unwrap().latency), (1000 - 77, 999));
}

#[test]
fn offline_has_no_early_stopping_and_lasts_as_long_as_its_slowest_sample() {
    let record = Record {
        samples_per_query: 3,
        issued_at: vec![0],
        completed_at: vec![10, 30, 20],
        ..Record::default()
    };
    let lasting = |min_duration| {
        judged(&record, &Plan { min_duration, min_sample_count: 3, ..plan(Load::Offline) })
    };
    assert_eq!(lasting(30).verdict, Verdict::Valid);
    assert_eq!(lasting(30).early_stopping, EarlyStoppingResult::None);
    assert_eq!((lasting(30).performance_met, lasting(30).early_stopping_met), (None, true));
    assert_eq!(kinds(&lasting(31)), ["Duration"]);
    assert_eq!(
        lasting(31).recommendations().min_duration,
        "Increase expected QPS so the loadgen pre-generates a larger (coalesced) query."
    );
}

#[test]
fn tokens_are_judged_instead_of_latency() {
    let record = Record {
        first_token_at: (0..459).map(|query| 1 + query * 100 + 20).collect(),
        tokens: vec![11; 459],
        ..every(100, &[121; 459])
    };
    let bounds = |ttft, tpot| {
        let tokens = Some(Tokens::Measured { ttft, tpot });
        judged(&record, &Plan { tokens, ..server(0.99, 1) })
    };
    let met = bounds(21, 10);
    assert_eq!((met.verdict.clone(), met.performance_met), (Verdict::Valid, Some(true)));
    assert!(matches!(met.early_stopping, EarlyStoppingResult::Tokens { first_token: Some(_), .. }));

    // Where the time per output token fails, the first token is not judged.
    let slow = bounds(20, 9);
    assert_eq!(kinds(&slow), ["Bound", "Bound", "EarlyStopping"]);
    assert!(matches!(slow.early_stopping, EarlyStoppingResult::Tokens { first_token: None, .. }));
    assert_eq!(
        slow.recommendations().performance,
        "TTFT constrain not met: Reduce target QPS to improve latency.\n * TPOT constrain not met: \
         Reduce target QPS to improve latency."
    );
}

#[test]
fn server_tolerates_failures_within_its_percentile_only() {
    let with_failures = |count: u64, plan: &Plan| {
        let mut record = every(100, &[10; 1000]);
        record.failed = (0..count).map(|sample| (sample, Failure::Rejected)).collect();
        judged(&record, plan)
    };
    let server = Plan { min_sample_count: 1000, ..server(0.90, 10) };
    assert_eq!(with_failures(50, &server).verdict, Verdict::Valid);
    assert_eq!(kinds(&with_failures(90, &server)), ["EarlyStopping"]);
    assert_eq!(kinds(&with_failures(101, &server)), ["Bound", "EarlyStopping"]);
    assert_eq!(kinds(&with_failures(1, &plan(SINGLE_STREAM))), ["Failed"]);
    assert_eq!(kinds(&with_failures(1, &plan(Load::Offline))), ["Failed"]);
}

#[test]
fn incomplete_runs_do_not_count() {
    let mut record = every(100, &[10; 1000]);
    let plan = server(0.90, 10);
    let aborted = judge(&Metrics::from_record(&record, &plan), &plan, EndReason::Aborted);
    assert_eq!(kinds(&aborted), ["Aborted"]);

    record.completed_at[999] = 0;
    let metrics = Metrics::from_record(&record, &plan);
    assert_eq!(kinds(&judge(&metrics, &plan, EndReason::Deadline { missing: 1 })), ["Missing"]);
    assert_eq!(kinds(&judge(&metrics, &plan, EndReason::Aborted)), ["Aborted"]);

    let empty = Metrics::from_record(&Record::default(), &plan);
    assert_eq!(
        kinds(&judge(&empty, &plan, EndReason::Aborted)),
        ["Bound", "Count", "EarlyStopping", "Aborted"]
    );
}

#[test]
fn a_late_client_makes_the_run_invalid_where_a_budget_is_set() {
    let mut record = every(100, &[10; 1000]);
    for lag in &mut record.client_lag[..100] {
        *lag = 501;
    }
    let within = |max_client_lag| judged(&record, &Plan { max_client_lag, ..server(0.90, 10) });
    assert_eq!((within(0).verdict, within(0).client_lag_met), (Verdict::Valid, None));
    assert_eq!((within(501).verdict, within(501).client_lag_met), (Verdict::Valid, Some(true)));
    assert_eq!(kinds(&within(500)), ["ClientLag"]);
    assert_eq!(within(500).client_lag_met, Some(false));
}

#[test]
fn an_extended_run_says_what_its_verdict_is_worth() {
    let mut extended = server(0.99, 10);
    extended.early_stopping.policy = EarlyStopping::Extend;
    assert_eq!(judged(&every(100, &[10; 459]), &extended).notes, [EXTENDED_RUN_NOTE]);
}
