//! Creates the `user.conf` that repeats a test, from the requested settings in its log.

use std::fmt::Write as _;

use dyno_loadgen::log::read::Detail;

use dyno_rules::{Round, RuleScenario};

/// Conversion of a number from the log to the file.
#[derive(Clone, Copy)]
enum ConfUnit {
    /// Same number.
    Itself,
    /// Nanoseconds in the log, milliseconds in the file.
    Milliseconds,
    /// Fraction in the log, percent in the file.
    Percent,
}

/// Key in the log after `requested_`, scenario, name in the file, conversion. The scenario `*`
/// matches all tests.
const KEYS: &[(&str, &str, &str, ConfUnit)] = &[
    ("single_stream_expected_latency_ns", "SingleStream", "target_latency", ConfUnit::Milliseconds),
    (
        "single_stream_target_latency_percentile",
        "SingleStream",
        "target_latency_percentile",
        ConfUnit::Percent,
    ),
    ("multi_stream_expected_latency_ns", "MultiStream", "target_latency", ConfUnit::Milliseconds),
    (
        "multi_stream_target_latency_percentile",
        "MultiStream",
        "target_latency_percentile",
        ConfUnit::Percent,
    ),
    ("multi_stream_samples_per_query", "MultiStream", "samples_per_query", ConfUnit::Itself),
    ("server_target_qps", "Server", "target_qps", ConfUnit::Itself),
    ("server_target_latency_ns", "Server", "target_latency", ConfUnit::Milliseconds),
    ("server_target_latency_percentile", "Server", "target_latency_percentile", ConfUnit::Percent),
    ("offline_expected_qps", "Offline", "target_qps", ConfUnit::Itself),
    ("min_duration_ms", "*", "min_duration", ConfUnit::Itself),
    ("max_duration_ms", "*", "max_duration", ConfUnit::Itself),
    ("min_query_count", "*", "min_query_count", ConfUnit::Itself),
    ("max_query_count", "*", "max_query_count", ConfUnit::Itself),
    (
        "performance_sample_count_override",
        "*",
        "performance_sample_count_override",
        ConfUnit::Itself,
    ),
    ("use_token_latencies", "*", "use_token_latencies", ConfUnit::Itself),
    ("server_ttft_latency", "Server", "ttft_latency", ConfUnit::Milliseconds),
    ("server_tpot_latency", "Server", "tpot_latency", ConfUnit::Milliseconds),
    ("sample_concatenate_permutation", "*", "sample_concatenate_permutation", ConfUnit::Itself),
];

/// Returns the `user.conf` of the performance test of this log. Zero values are omitted, because
/// zero is the value without a file.
pub fn user_conf(detail: &Detail, scenario: RuleScenario) -> String {
    let played = scenario.loadgen_scenario().name();
    let mut text = String::from("# Settings of the test, from its detail log.\n");
    for (key, for_scenario, name, unit) in KEYS {
        let key = format!("requested_{key}");
        let value = match detail.flag(&key) {
            Some(flag) => f64::from(u8::from(flag)),
            None => detail.number(&key).unwrap_or(0.0),
        };
        if value == 0.0 || !value.is_finite() || (*for_scenario != "*" && *for_scenario != played) {
            continue;
        }
        let value = match unit {
            ConfUnit::Itself => value,
            ConfUnit::Milliseconds => value / 1e6,
            ConfUnit::Percent => value * 100.0,
        };
        let _ = writeln!(text, "*.{played}.{name} = {}", without_noise(value));
    }
    text
}

/// Formats a number with at most nine decimals, so that 0.07 x 100 is 7.
fn without_noise(value: f64) -> String {
    let text = format!("{value:.9}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns the `mlperf.conf` with the settings that the round fixes. Rounds up to v4.0 require
/// it next to the `user.conf`.
pub fn mlperf_conf(round: &Round) -> String {
    let seeds = round.seeds;
    format!(
        "# Settings that round {} fixes for every test.\n*.*.qsl_rng_seed = {}\n\
         *.*.sample_index_rng_seed = {}\n*.*.schedule_rng_seed = {}\n",
        round.version, seeds.qsl, seeds.sample_index, seeds.schedule
    )
}
