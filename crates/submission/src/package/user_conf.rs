//! The `user.conf` with which a harness plays a test again, from what the test's log
//! says was asked for.

use std::fmt::Write as _;

use dyno_loadgen::log::read::Detail;

use dyno_rules::{Round, Scenario};

/// What a number of the log is in the file.
#[derive(Clone, Copy)]
enum In {
    /// The same number.
    Itself,
    /// Nanoseconds in the log, milliseconds in the file.
    Milliseconds,
    /// A fraction in the log, percent in the file.
    Percent,
}

/// Key of the log after `requested_`, scenario, name in the file, unit. A scenario
/// of `*` holds for every test.
const KEYS: &[(&str, &str, &str, In)] = &[
    ("single_stream_expected_latency_ns", "SingleStream", "target_latency", In::Milliseconds),
    (
        "single_stream_target_latency_percentile",
        "SingleStream",
        "target_latency_percentile",
        In::Percent,
    ),
    ("multi_stream_expected_latency_ns", "MultiStream", "target_latency", In::Milliseconds),
    (
        "multi_stream_target_latency_percentile",
        "MultiStream",
        "target_latency_percentile",
        In::Percent,
    ),
    ("multi_stream_samples_per_query", "MultiStream", "samples_per_query", In::Itself),
    ("server_target_qps", "Server", "target_qps", In::Itself),
    ("server_target_latency_ns", "Server", "target_latency", In::Milliseconds),
    ("server_target_latency_percentile", "Server", "target_latency_percentile", In::Percent),
    ("offline_expected_qps", "Offline", "target_qps", In::Itself),
    ("min_duration_ms", "*", "min_duration", In::Itself),
    ("max_duration_ms", "*", "max_duration", In::Itself),
    ("min_query_count", "*", "min_query_count", In::Itself),
    ("max_query_count", "*", "max_query_count", In::Itself),
    ("performance_sample_count_override", "*", "performance_sample_count_override", In::Itself),
    ("use_token_latencies", "*", "use_token_latencies", In::Itself),
    ("server_ttft_latency", "Server", "ttft_latency", In::Milliseconds),
    ("server_tpot_latency", "Server", "tpot_latency", In::Milliseconds),
    ("sample_concatenate_permutation", "*", "sample_concatenate_permutation", In::Itself),
];

/// The file for the performance test of this log. What the log has as zero is left
/// out: it is what no file would say.
#[must_use]
pub fn user_conf(detail: &Detail, scenario: Scenario) -> String {
    let played = scenario.loadgen_scenario().name();
    let mut text = String::from("# What the test was run with, from its detail log.\n");
    for (key, of, name, unit) in KEYS {
        let key = format!("requested_{key}");
        let value = match detail.flag(&key) {
            Some(flag) => f64::from(u8::from(flag)),
            None => detail.number(&key).unwrap_or(0.0),
        };
        if value == 0.0 || !value.is_finite() || (*of != "*" && *of != played) {
            continue;
        }
        let value = match unit {
            In::Itself => value,
            In::Milliseconds => value / 1e6,
            In::Percent => value * 100.0,
        };
        let _ = writeln!(text, "*.{played}.{name} = {}", without_noise(value));
    }
    text
}

/// The number with at most nine digits behind the point, so that 0.07 x 100 is 7.
fn without_noise(value: f64) -> String {
    let text = format!("{value:.9}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// What the rules fix for a test of the round, which rounds up to v4.0 want beside
/// the user's file.
#[must_use]
pub fn mlperf_conf(round: &Round) -> String {
    let seeds = round.seeds;
    format!(
        "# What round {} fixes for every test.\n*.*.qsl_rng_seed = {}\n\
         *.*.sample_index_rng_seed = {}\n*.*.schedule_rng_seed = {}\n",
        round.version, seeds.qsl, seeds.sample_index, seeds.schedule
    )
}
