//! Metrics and verdicts of records made by hand, and of random records against
//! a naive oracle.

mod metrics;
mod verdict;

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::early_stopping::Criterion;
use dyno_loadgen::plan::{AccuracyLog, Load, PeakSettings, Plan, SampleChoice, Seeds, Server};
use dyno_loadgen::record::Record;
use dyno_loadgen::search::Unit;
use dyno_loadgen::settings::{Arrivals, EarlyStopping, Repetition, TestMode, TraceRules};

/// A plan without minimums: every run that passes early stopping is valid.
fn plan(load: Load) -> Plan {
    Plan {
        load,
        mode: TestMode::PerformanceOnly,
        target_qps: 1.0,
        samples_per_query: 1,
        max_async_queries: 0,
        target_duration: 0,
        min_duration: 0,
        max_duration: 0,
        min_query_count: 1,
        max_query_count: 0,
        min_sample_count: 1,
        performance_sample_count: 1,
        accuracy_sample_count: 1,
        choice: SampleChoice::Random,
        concatenate_permutation: false,
        seeds: Seeds::default(),
        accuracy_log: AccuracyLog::default(),
        tokens: None,
        early_stopping: Criterion {
            policy: EarlyStopping::AfterRun,
            confidence: 0.99,
            tolerance: 0.0,
        },
        trace_rules: TraceRules::Current,
        continue_trace: false,
        response_deadline: 0,
        max_client_lag: 0,
        performance_issue_same_index: 0,
        print_timestamps: false,
        repetition: Repetition::Once,
        sessions: None,
        turn_interval: 0,
        steps: 1,
        ramp: 0,
    }
}

fn server(percentile: f64, target_latency: Nanos) -> Plan {
    plan(Load::Server(Server {
        percentile,
        target_latency,
        arrivals: Arrivals::Poisson,
        coalesce: false,
        issue_threads: 0,
        peak: PeakSettings { unit: Unit::Rate, decimals: 1, step_size: 1.0 },
    }))
}

/// Queries of one sample that are issued when they are due.
fn record(issued_at: &[Nanos], latencies: &[Nanos]) -> Record {
    Record {
        samples_per_query: 1,
        scheduled_at: issued_at.to_vec(),
        issued_at: issued_at.to_vec(),
        client_lag: vec![0; issued_at.len()],
        completed_at: issued_at.iter().zip(latencies).map(|(at, latency)| at + latency).collect(),
        ..Record::default()
    }
}

/// Queries of one sample, each `gap` after the last, in the order of `latencies`.
fn every(gap: Nanos, latencies: &[Nanos]) -> Record {
    let issued: Vec<Nanos> = (0..latencies.len() as u64).map(|query| query * gap).collect();
    record(&issued, latencies)
}
