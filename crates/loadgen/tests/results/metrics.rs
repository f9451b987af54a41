use dyno_loadgen::metrics::{
    Definitions, Distribution, FinalQuery, Metrics, OverBoundCounts, PERCENTILES, PaceBasis, Rates,
    TokenRates,
};
use dyno_loadgen::plan::{Load, PeakSettings, Plan, Server, StreamPacing, Tokens};
use dyno_loadgen::record::{Failure, Record};
use dyno_loadgen::search::Unit;
use dyno_loadgen::settings::Arrivals;
use proptest::prelude::*;

use crate::{every, plan, record, server};

const SINGLE_STREAM: Load = Load::SingleStream { percentile: 0.9 };
const MULTI_STREAM: Load =
    Load::MultiStream { percentile: 0.5, pacing: StreamPacing::OnCompletion };

/// Relative distance that rounding of a quotient of doubles may take.
const ROUNDING: f64 = 1e-15;

fn assert_close(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() <= ROUNDING, "{found} instead of {expected}");
}

#[test]
fn percentiles_are_the_values_at_the_rounded_down_index() {
    let descending: Vec<u64> = (1..=100).rev().collect();
    let metrics = Metrics::from_record(&every(1000, &descending), &plan(SINGLE_STREAM));
    // Index 100 * 0.9 = 90 holds 91; there is no interpolation.
    assert_eq!(
        metrics.latency,
        Distribution {
            count: 100,
            min: 1,
            max: 100,
            mean: 50,
            percentiles: [51, 91, 96, 98, 100, 100],
            target: 91,
        }
    );
}

#[test]
fn server_counts_from_the_schedule_and_rates_from_the_last_query() {
    let record = Record {
        samples_per_query: 1,
        scheduled_at: vec![0, 100, 200, 300, 400],
        issued_at: vec![0, 110, 200, 305, 400],
        client_lag: vec![0, 4, 0, 5, 0],
        completed_at: vec![50, 350, 260, 900, 500],
        ..Record::default()
    };
    let metrics = Metrics::from_record(&record, &server(0.5, 100));
    assert_eq!((metrics.query_count, metrics.sample_count), (5, 5));
    assert_eq!(
        metrics.latency,
        Distribution {
            count: 5,
            min: 50,
            max: 600,
            mean: 212,
            percentiles: [100, 600, 600, 600, 600, 600],
            target: 100,
        }
    );
    assert_eq!(metrics.over, OverBoundCounts { latency: 2, ..OverBoundCounts::default() });
    assert_eq!(metrics.max_latency, 600);
    // The fourth query is complete later, but the fifth is the last issued.
    assert_eq!(metrics.final_query, FinalQuery { scheduled: 400, issued: 400, done: 500 });
    assert_eq!(metrics.rates, Rates::Server { scheduled: 1e7, completed: 8e6 });
    let lag = metrics.lag.unwrap();
    assert_eq!((lag.count, lag.max, lag.mean, lag.target), (5, 10, 3, 0));
    let client_lag = metrics.client_lag.unwrap();
    assert_eq!((client_lag.count, client_lag.max, client_lag.mean), (5, 5, 1));
}

#[test]
fn single_stream_rates_with_and_without_overhead() {
    let mut record = record(&[0, 10, 30], &[8, 15, 30]);
    record.scheduled_at.clear();
    record.client_lag.clear();
    let metrics = Metrics::from_record(&record, &plan(SINGLE_STREAM));
    let Rates::SingleStream { with_overhead, without_overhead } = metrics.rates else {
        panic!("rates of another scenario: {:?}", metrics.rates);
    };
    assert_close(with_overhead, 2.0 / 30e-9);
    // The mean is 53 / 3 in whole nanoseconds.
    assert_close(without_overhead, 1.0 / 17e-9);
    assert_eq!((metrics.lag, metrics.client_lag), (None, None));
}

#[test]
fn multi_stream_waits_for_the_last_sample_of_a_query() {
    let record = Record {
        samples_per_query: 2,
        issued_at: vec![10, 100],
        completed_at: vec![20, 35, 130, 110],
        ..Record::default()
    };
    let metrics =
        Metrics::from_record(&record, &Plan { samples_per_query: 2, ..plan(MULTI_STREAM) });
    let of_queries = metrics.query_latency.unwrap();
    assert_eq!((metrics.query_count, metrics.sample_count), (2, 4));
    assert_eq!((of_queries.count, of_queries.min, of_queries.max), (2, 25, 30));
    assert_eq!((metrics.latency.min, metrics.latency.max, metrics.latency.mean), (10, 30, 18));
    assert_eq!(metrics.final_query, FinalQuery { scheduled: 100, issued: 100, done: 130 });
    assert_eq!(metrics.estimates.unwrap().latency.target.processed, 2);
    assert_eq!(metrics.rates, Rates::MultiStream);
}

#[test]
fn an_interval_that_the_client_noticed_too_late_is_told_apart() {
    let peak = PeakSettings { unit: Unit::Whole, decimals: 0, step_size: 1.0 };
    let pacing = StreamPacing::FixedInterval { peak };
    let load = Load::MultiStream { percentile: 0.5, pacing };
    // Ticks of 100 ns. The first query skips one by itself, the second is done
    // before tick 4 and followed at tick 5 all the same, the last takes 1.5.
    let plan = Plan { target_qps: 1e7, ..plan(load) };
    let record = record(&[100, 300, 500, 600], &[150, 60, 100, 150]);
    let metrics = Metrics::from_record(&record, &plan);
    let found = metrics.intervals.unwrap();
    assert_eq!(found.percentiles, [2, 2, 2, 2, 2, 2]);
    assert_eq!((found.over, found.skipped, found.by_client), (3, 3, 1));
    assert!(metrics.estimates.is_none());
}

#[test]
fn an_interval_that_was_skipped_for_a_late_issue_is_the_clients() {
    let peak = PeakSettings { unit: Unit::Whole, decimals: 0, step_size: 1.0 };
    let pacing = StreamPacing::FixedInterval { peak };
    let load = Load::MultiStream { percentile: 0.5, pacing };
    let plan = Plan { target_qps: 1e7, ..plan(load) };
    // The first query takes 60 of 100 ns once it is issued, the second 140.
    let record =
        Record { client_lag: vec![90, 30, 0], ..record(&[100, 300, 500], &[150, 170, 60]) };
    let found = Metrics::from_record(&record, &plan).intervals.unwrap();
    assert_eq!((found.over, found.by_client), (2, 1));
}

#[test]
fn offline_divides_by_the_longest_latency() {
    let record = Record {
        samples_per_query: 4,
        issued_at: vec![5],
        completed_at: vec![105, 205, 155, 55],
        ..Record::default()
    };
    let metrics = Metrics::from_record(&record, &plan(Load::Offline));
    assert_eq!(metrics.rates, Rates::Offline { samples: 4.0 / 200e-9 });
    assert_eq!((metrics.max_latency, metrics.estimates), (200, None));
    let inferred =
        Plan { tokens: Some(Tokens::Inferred { scaling_factor: 21 }), ..plan(Load::Offline) };
    let metrics = Metrics::from_record(&record, &inferred);
    assert_eq!(metrics.token_rates, Some(TokenRates::Inferred { tokens: 84.0 / 200e-9 }));
}

fn token_record() -> Record {
    Record {
        first_token_at: vec![30, 140, 260],
        tokens: vec![5, 2, 0],
        ..record(&[0, 100, 200], &[101, 150, 160])
    }
}

fn token_server(ttft: u64, tpot: u64) -> Plan {
    Plan { tokens: Some(Tokens::Measured { ttft, tpot }), ..server(0.5, 100) }
}

#[test]
fn tokens_have_their_own_distributions() {
    let metrics = Metrics::from_record(&token_record(), &token_server(35, 20));
    let first_token = metrics.first_token.unwrap();
    assert_eq!((first_token.count, first_token.min, first_token.max), (3, 30, 60));
    assert_eq!((first_token.mean, first_token.target), (43, 40));
    // (101 - 30) / 4, (150 - 40) / 1, and (160 - 60) / (0 - 1).
    let per_token = metrics.time_per_output_token.unwrap();
    assert_eq!((per_token.min, per_token.target, per_token.max), (-100, 17, 110));
    assert_eq!((per_token.mean, metrics.token_count), (9, 7));
    assert_eq!(
        metrics.over,
        OverBoundCounts { latency: 3, first_token: 2, time_per_output_token: 1 }
    );
    let Some(TokenRates::Measured {
        with_overhead,
        without_overhead,
        without_overhead_per_ns,
        completed,
    }) = metrics.token_rates
    else {
        panic!("no measured tokens: {:?}", metrics.token_rates);
    };
    assert_close(with_overhead, 7.0 / 200e-9);
    assert_close(without_overhead, 7.0 / (137e-9 * 3.0));
    assert_close(without_overhead_per_ns, 7.0 / (137.0 * 3.0));
    assert_close(completed, 7.0 / 360e-9);
}

#[test]
fn a_single_token_counts_and_has_no_time_per_output_token() {
    // Five tokens, one token, and two tokens at once.
    let record =
        Record { tokens: vec![5, 1, 2], first_token_at: vec![30, 140, 360], ..token_record() };
    let native = |record: &Record| {
        Metrics::with_definitions(Definitions::Native, record, &token_server(1000, 10))
    };
    let metrics = native(&record);
    // (101 - 30) / 4.
    let per_token = metrics.time_per_output_token.unwrap();
    assert_eq!((per_token.count, per_token.min, per_token.max), (1, 17, 17));
    assert_eq!((metrics.token_count, metrics.first_token.unwrap().count), (8, 3));
    // What is not defined is not over the bound; a missing first token is.
    assert_eq!(metrics.over.time_per_output_token, 1);
    let Some(TokenRates::Measured { completed, .. }) = metrics.token_rates else { panic!() };
    assert_close(completed, 8.0 / 360e-9);
    let missing = native(&Record { first_token_at: vec![0, 140, 360], ..record.clone() });
    assert_eq!(missing.over.time_per_output_token, 1);
    assert_eq!(missing.time_per_output_token, None);
    // One token each, and a count that cannot be.
    let single = native(&Record { tokens: vec![1, 1, -7], ..record });
    assert_eq!((single.token_count, single.time_per_output_token), (2, None));
    assert_eq!((single.over.time_per_output_token, single.first_token.unwrap().count), (0, 3));
}

#[test]
fn tokens_that_came_in_another_time_shorten_no_time_per_output_token() {
    // Four of 204 tokens, three of nine, and an unknown number of nine came in the time of their sample.
    let record = Record {
        tokens: vec![204, 9, 9],
        first_token_at: vec![30, 140, 260],
        timed_tokens: vec![(0, Some(4)), (1, Some(3)), (2, None)],
        ..token_record()
    };
    let plan = token_server(1000, 10);
    let native = Metrics::with_definitions(Definitions::Native, &record, &plan);
    // (101 - 30) / 3 and (250 - 140) / 2.
    let per_token = native.time_per_output_token.unwrap();
    assert_eq!((per_token.count, per_token.min, per_token.max), (2, 23, 55));
    assert_eq!((native.token_count, native.over.time_per_output_token), (222, 2));
    let reference = Metrics::from_record(&record, &plan);
    let whole = Record { timed_tokens: Vec::new(), ..record };
    assert_eq!(reference, Metrics::from_record(&whole, &plan));
}

#[test]
fn the_reference_keeps_its_arithmetic_of_tokens() {
    let (record, plan) = (token_record(), token_server(35, 20));
    assert_eq!(
        Metrics::from_record(&record, &plan),
        Metrics::with_definitions(Definitions::Reference, &record, &plan)
    );
    let native = Metrics::with_definitions(Definitions::Native, &record, &plan);
    let reference = Metrics::from_record(&record, &plan);
    assert_eq!(reference.time_per_output_token.unwrap().min, -100);
    assert_eq!(native.time_per_output_token.unwrap().min, 17);
    // Nothing but tokens and completed rates differs.
    let time_per_output_token = reference.time_per_output_token;
    let Metrics { rates, pace, .. } = reference;
    assert_eq!(Metrics { time_per_output_token, rates, pace, ..native }, reference);
}

#[test]
fn native_rates_of_an_open_loop_leave_out_the_drain() {
    // The first query takes longest, so that the latency does not grow: the rate is that of the arrivals.
    let record = Record { completed_at: vec![900, 160, 360], ..token_record() };
    let completed = |definitions| {
        let metrics = Metrics::with_definitions(definitions, &record, &token_server(35, 20));
        let Rates::Server { completed, scheduled } = metrics.rates else { panic!() };
        let Some(TokenRates::Measured { completed: tokens, .. }) = metrics.token_rates else {
            panic!()
        };
        (completed, scheduled, tokens, metrics.token_count as f64)
    };
    let (queries, offered, tokens, count) = completed(Definitions::Native);
    assert_close(queries, offered);
    assert_close(tokens, count / 300e-9);
    let (queries, _, tokens, count) = completed(Definitions::Reference);
    assert_close(queries, 2.0 / 360e-9);
    assert_close(tokens, count / 360e-9);
}

#[test]
fn native_rates_of_a_closed_loop_are_those_of_its_whole_rounds() {
    let Load::Server(open) = server(0.5, 100).load else { panic!() };
    let load = Load::Server(Server { arrivals: Arrivals::Concurrency(4), ..open });
    let plan = Plan { tokens: Some(Tokens::Measured { ttft: 1, tpot: 1 }), ..plan(load) };
    let native = |queries: u64| {
        let issued_at: Vec<u64> = (0..queries).map(|query| query / 4 * 100).collect();
        let record = Record {
            samples_per_query: 1,
            completed_at: issued_at.iter().map(|at| at + 100).collect(),
            first_token_at: issued_at.iter().map(|at| at + 10).collect(),
            tokens: vec![3; issued_at.len()],
            issued_at,
            ..Record::default()
        };
        let metrics = Metrics::with_definitions(Definitions::Native, &record, &plan);
        let Rates::Server { completed, .. } = metrics.rates else { panic!() };
        let Some(TokenRates::Measured { completed: tokens, .. }) = metrics.token_rates else {
            panic!()
        };
        assert_close(tokens, 3.0 * completed);
        (completed, metrics.pace.basis)
    };
    // Three rounds, with and without a part of a fourth.
    for queries in [12, 14] {
        let (completed, basis) = native(queries);
        assert_close(completed, 4.0 / 100e-9);
        assert_eq!(basis, PaceBasis::Rounds);
    }
    // Fewer than two rounds show the rate of the whole run: 7 answers in 200 ns.
    let (completed, basis) = native(7);
    assert_close(completed, 7.0 / 200e-9);
    assert_eq!(basis, PaceBasis::FillAndDrain);
}

#[test]
fn a_token_count_without_a_gap_is_taken_as_none() {
    let record = Record { tokens: vec![1, -3, 0], ..token_record() };
    let metrics = Metrics::from_record(&record, &token_server(35, 20));
    let per_token = metrics.time_per_output_token.unwrap();
    assert_eq!((per_token.min, per_token.max), (-110, -71));
    assert_eq!(metrics.token_count, 0);
}

#[test]
fn neighbouring_values_are_told_apart() {
    let metrics = Metrics::from_record(&every(100, &[6, 5, 6, 6, 6]), &plan(SINGLE_STREAM));
    assert_eq!(metrics.latency.percentiles, [6; 6]);
    let metrics = Metrics::from_record(&every(100, &[6, 5, 5, 5, 5]), &plan(SINGLE_STREAM));
    assert_eq!(metrics.latency.percentiles, [5, 6, 6, 6, 6, 6]);
}

#[test]
fn a_missing_first_token_is_over_the_bound_and_no_latency() {
    let mut record = token_record();
    record.first_token_at[0] = 0;
    let metrics = Metrics::from_record(&record, &token_server(1000, 1000));
    assert_eq!(metrics.first_token.unwrap().count, 2);
    assert_eq!((metrics.over.first_token, metrics.over.time_per_output_token), (1, 1));

    record.first_token_at = vec![0; 3];
    let metrics = Metrics::from_record(&record, &token_server(1000, 1000));
    assert_eq!((metrics.first_token, metrics.time_per_output_token), (None, None));
    assert_eq!((metrics.token_count, metrics.over.first_token), (7, 3));
}

#[test]
fn failed_and_missing_samples_are_over_the_bound_and_never_throughput() {
    let mut record = every(100, &[10, 20, 30, 40, 5000]);
    record.failed = vec![(1, Failure::TimedOut), (4, Failure::Rejected)];
    record.completed_at[2] = 0;
    let metrics = Metrics::from_record(&record, &server(0.5, 1000));
    assert_eq!((metrics.query_count, metrics.sample_count, metrics.missing), (5, 2, 1));
    assert_eq!((metrics.failed.timed_out, metrics.failed.rejected), (1, 1));
    assert_eq!(metrics.failed.total(), 2);
    assert_eq!((metrics.latency.count, metrics.latency.min, metrics.latency.max), (2, 10, 40));
    assert_eq!(metrics.over.latency, 3);
    assert_eq!(metrics.max_latency, 5000);
    assert_eq!(metrics.final_query.done, 5400);
    assert_eq!(metrics.rates, Rates::Server { scheduled: 4.0 / 400e-9, completed: 1.0 / 5400e-9 });
}

#[test]
fn a_query_with_a_failed_sample_has_no_latency() {
    let record = Record {
        samples_per_query: 2,
        issued_at: vec![0, 100, 200],
        completed_at: vec![10, 20, 110, 120, 210, 0],
        failed: vec![(2, Failure::Internal)],
        ..Record::default()
    };
    let metrics = Metrics::from_record(&record, &plan(MULTI_STREAM));
    assert_eq!((metrics.query_latency.unwrap().count, metrics.sample_count), (1, 4));
    // The last query was never done: the last completion of the run stands in.
    assert_eq!((metrics.missing, metrics.final_query.done), (1, 210));
}

#[test]
fn single_queries_and_empty_records_have_no_finite_rates() {
    let one = Metrics::from_record(&every(100, &[50]), &server(0.99, 100));
    let Rates::Server { scheduled, completed } = one.rates else { panic!("{:?}", one.rates) };
    assert!(scheduled.is_nan(), "0 / 0, as the reference prints it");
    assert_eq!((completed, one.latency.target), (0.0, 50));

    for load in [SINGLE_STREAM, MULTI_STREAM, server(0.99, 100).load, Load::Offline] {
        let tokens = Some(Tokens::Measured { ttft: 1, tpot: 1 });
        let none = Metrics::from_record(&Record::default(), &Plan { tokens, ..plan(load) });
        assert_eq!((none.query_count, none.sample_count, none.latency.max), (0, 0, 0));
        assert_eq!(none.latency, Distribution::default());
    }
}

/// The definition, word for word: sort, then index.
fn by_sorting(values: &[u64], target: f64) -> Distribution {
    let mut sorted: Vec<i64> = values.iter().map(|&value| value as i64).collect();
    sorted.sort_unstable();
    let at = |q: f64| sorted[(sorted.len() as f64 * q).floor() as usize];
    Distribution {
        count: sorted.len() as u64,
        min: sorted[0],
        max: sorted[sorted.len() - 1],
        mean: sorted.iter().sum::<i64>() / sorted.len() as i64,
        percentiles: PERCENTILES.map(at),
        target: at(target),
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(200)
    })]

    #[test]
    fn selection_agrees_with_sorting(
        latencies in prop::collection::vec(prop_oneof![1_u64..50, 1_u64..1 << 40], 1..2000),
        percentile in 0.01..0.9999_f64,
    ) {
        let record = every(1000, &latencies);
        let metrics = Metrics::from_record(&record, &plan(Load::SingleStream { percentile }));
        prop_assert_eq!(metrics.latency, by_sorting(&latencies, percentile));

        let mut sorted = latencies;
        sorted.sort_unstable();
        let estimates = metrics.estimates.unwrap().latency;
        for estimate in [Some(estimates.target), estimates.tail].into_iter().flatten() {
            let expected = estimate.rank.map_or(0, |t| sorted[sorted.len() - t as usize] as i64);
            prop_assert_eq!(estimate.latency, expected);
        }
    }

    #[test]
    fn every_sample_is_answered_failed_or_missing(
        fates in prop::collection::vec((1_u64..1000, 0_u8..10), 1..300),
        bound in 1_u64..1000,
    ) {
        let latencies: Vec<u64> = fates.iter().map(|(latency, _)| *latency).collect();
        let mut record = every(10, &latencies);
        for (sample, (_, fate)) in fates.iter().enumerate() {
            match fate {
                0 => record.completed_at[sample] = 0,
                1 => record.failed.push((sample as u64, Failure::Internal)),
                _ => {}
            }
        }
        let metrics = Metrics::from_record(&record, &server(0.9, bound));
        prop_assert_eq!(metrics.issued_samples(), fates.len() as u64);
        let within = |(latency, fate): &&(u64, u8)| *fate > 1 && *latency <= bound;
        let within = fates.iter().filter(within).count() as u64;
        prop_assert_eq!(metrics.over.latency, fates.len() as u64 - within);
        prop_assert_eq!(metrics.missing, record.missing() as u64);
    }
}
