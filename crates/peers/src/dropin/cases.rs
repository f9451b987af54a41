//! Tests whose measured cost is printed as it is, each with its figures.

use anyhow::Result;

use super::Bench;
use super::sides::{Measurement, Sides};
use crate::figure::{Better, Figure};

/// A test and its figures.
struct Case {
    /// Arguments of the harness, separated by spaces.
    words: String,
    readings: Vec<Reading>,
}

/// One figure of a test.
struct Reading {
    figure: Figure<'static>,
    value: fn(&Measurement) -> f64,
}

fn lower(name: &'static str, unit: &'static str, value: fn(&Measurement) -> f64) -> Reading {
    Reading { figure: Figure { name, unit, better: Better::Lower }, value }
}

fn higher(name: &'static str, unit: &'static str, value: fn(&Measurement) -> f64) -> Reading {
    Reading { figure: Figure { name, unit, better: Better::Higher }, value }
}

fn all(bench: &Bench) -> impl Iterator<Item = Case> {
    let groups = [single_stream, server, offline, completions, accuracy];
    groups.into_iter().flat_map(move |group| group(bench))
}

pub fn is_wanted(bench: &Bench) -> bool {
    all(bench).any(|case| case.readings.iter().any(|reading| bench.wants(reading.figure.name)))
}

/// Prints the wanted figures of all tests.
pub fn figures(bench: &Bench, sides: &Sides) -> Result<()> {
    for case in all(bench) {
        let figures: Vec<Figure> = case.readings.iter().map(|reading| reading.figure).collect();
        sides.figures(bench, &figures, |program| {
            let measurement = program.run_test(&case.words)?;
            Ok(case.readings.iter().map(|reading| (reading.value)(&measurement)).collect())
        })?;
    }
    Ok(())
}

fn single_stream(bench: &Bench) -> Vec<Case> {
    let queries = |full| format!("scenario=single queries={}", bench.queries(full));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    vec![
        Case {
            words: queries(1_000_000),
            readings: vec![
                lower("dropin.cpp.single_stream_ns", "ns/query", |m| m.per_sample("run_ns")),
                lower("dropin.cpp.single_stream_p50_ns", "ns, recorded latency", |m| {
                    m.get("result_50.00_percentile_latency_ns")
                }),
                lower("dropin.cpp.single_stream_p999_ns", "ns, recorded latency", |m| {
                    m.get("result_99.90_percentile_latency_ns")
                }),
                lower("dropin.cpp.single_stream_finish_ms", "ms after the last query", |m| {
                    m.ms("finish_ns")
                }),
            ],
        },
        Case {
            words: queries(100_000) + " system=workers threads=1",
            readings: vec![lower(
                "dropin.cpp.single_stream_worker_ns",
                "ns/query, answered by a spinning thread",
                |m| m.per_sample("run_ns"),
            )],
        },
        Case {
            words: queries(50_000) + &format!(" system=workers threads={cores}"),
            readings: vec![lower(
                "dropin.cpp.single_stream_crowded_us",
                "us/query, answered by as many spinning threads as cores",
                |m| m.per_sample("run_ns") / 1e3,
            )],
        },
        Case {
            words: "scenario=single queries=100".to_owned(),
            readings: vec![lower("dropin.cpp.shortest_test_ms", "ms, whole test", |m| {
                m.ms("wall_ns")
            })],
        },
    ]
}

fn server(bench: &Bench) -> Vec<Case> {
    let queries = |full| format!("scenario=server qps=1e8 queries={}", bench.queries(full));
    vec![
        Case {
            words: queries(1_000_000),
            readings: vec![
                higher("dropin.cpp.server_saturation_qps", "queries/s", |m| {
                    m.samples_per_s("run_ns")
                }),
                lower("dropin.cpp.server_finish_ms", "ms after the last query", |m| {
                    m.ms("finish_ns")
                }),
            ],
        },
        Case {
            words: queries(1_000_000) + " coalesce=1 batch=1024",
            readings: vec![higher("dropin.cpp.server_coalesced_qps", "queries/s", |m| {
                m.samples_per_s("run_ns")
            })],
        },
        Case {
            words: queries(10_000_000) + " coalesce=1 batch=1024",
            readings: vec![
                lower("dropin.cpp.server_prepare_ns", "ns/query", |m| m.per_sample("prepare_ns")),
                lower("dropin.cpp.server_prepared_bytes", "bytes/query before the first", |m| {
                    m.per_sample("prepared_bytes")
                }),
                lower("dropin.cpp.server_peak_bytes", "bytes/query at most", |m| {
                    m.per_sample("peak_bytes")
                }),
            ],
        },
    ]
}

fn offline(bench: &Bench) -> Vec<Case> {
    vec![Case {
        words: format!("scenario=offline batch=1024 queries={}", bench.queries(10_000_000)),
        readings: vec![
            higher("dropin.cpp.offline_samples_per_s", "samples/s", |m| m.samples_per_s("run_ns")),
            lower("dropin.cpp.offline_test_ms", "ms, whole test", |m| m.ms("wall_ns")),
            lower("dropin.cpp.offline_peak_bytes", "bytes/sample at most", |m| {
                m.per_sample("peak_bytes")
            }),
        ],
    }]
}

/// Completion time per sample, in tests that issue all samples before any is completed.
fn completions(bench: &Bench) -> Vec<Case> {
    let offline = "scenario=offline";
    let server = "scenario=server qps=1e8";
    let all = [
        ("dropin.cpp.complete_1_ns", offline, 1, 1),
        ("dropin.cpp.complete_8_ns", offline, 8, 1),
        ("dropin.cpp.complete_64_ns", offline, 64, 1),
        ("dropin.cpp.complete_1024_ns", offline, 1_024, 1),
        ("dropin.cpp.complete_1_by_two_ns", offline, 1, 2),
        ("dropin.cpp.server_complete_1_ns", server, 1, 1),
        ("dropin.cpp.server_complete_64_ns", server, 64, 1),
    ];
    let samples = bench.queries(1_000_000);
    let case = |(name, scenario, batch, threads)| Case {
        words: format!(
            "{scenario} system=holding queries={samples} batch={batch} threads={threads}"
        ),
        readings: vec![lower(name, "ns/sample", |m| m.per_sample("completing_ns"))],
    };
    all.into_iter().map(case).collect()
}

fn accuracy(bench: &Bench) -> Vec<Case> {
    let answers = |full, bytes| {
        let answers = bench.queries(full);
        format!("scenario=offline accuracy=1 library={answers} payload={bytes} batch=1024")
    };
    vec![
        Case {
            words: answers(1_000_000, 4),
            readings: vec![lower("dropin.cpp.accuracy_4b_ms", "ms, whole test", |m| {
                m.ms("wall_ns")
            })],
        },
        Case {
            words: answers(50_000, 4_096),
            readings: vec![
                lower("dropin.cpp.accuracy_4kib_ms", "ms, whole test", |m| m.ms("wall_ns")),
                higher("dropin.cpp.accuracy_4kib_accepted_per_s", "answers/s", |m| {
                    m.samples_per_s("run_ns")
                }),
            ],
        },
    ]
}
