//! Keys that every detail log of a run has: a log without one of them was put together,
//! and what follows from the key cannot be checked.

use std::path::Path;

use crate::round::{Round, Scenario, Version};
use crate::submission::check::catalogue::{ACCURACY_KEY, RUN_KEY};
use crate::submission::check::issues::{At, Issues};
use crate::submission::facts::detail::DetailLog;

use super::logs::Purpose;

/// The first round of whose load generators logs were read for these lists; those of
/// 5.0.22, 5.0.25, 5.1.0 and 6.0.17 have all of these keys.
const SINCE: Version = Version::new(5, 0);

const ALWAYS: [&str; 27] = [
    "effective_accuracy_log_probability",
    "effective_accuracy_log_rng_seed",
    "effective_accuracy_log_sampling_target",
    "effective_min_duration_ms",
    "effective_min_query_count",
    "effective_min_sample_count",
    "effective_performance_issue_same",
    "effective_performance_issue_same_index",
    "effective_performance_issue_unique",
    "effective_performance_sample_count",
    "effective_qsl_rng_seed",
    "effective_sample_concatenate_permutation",
    "effective_sample_index_rng_seed",
    "effective_samples_per_query",
    "effective_scenario",
    "effective_schedule_rng_seed",
    "effective_target_latency_ns",
    "effective_target_latency_percentile",
    "effective_test_mode",
    "generated_query_count",
    "generated_samples_per_query",
    "loadgen_version",
    "power_begin",
    "power_end",
    "qsl_reported_total_count",
    "sut_name",
    "test_datetime",
];
const PERFORMANCE: [&str; 15] = [
    "early_stopping_met",
    "num_errors",
    "result_50.00_percentile_latency_ns",
    "result_90.00_percentile_latency_ns",
    "result_95.00_percentile_latency_ns",
    "result_97.00_percentile_latency_ns",
    "result_99.00_percentile_latency_ns",
    "result_99.90_percentile_latency_ns",
    "result_max_latency_ns",
    "result_mean_latency_ns",
    "result_min_duration_met",
    "result_min_latency_ns",
    "result_min_queries_met",
    "result_query_count",
    "result_validity",
];
const SINGLE_STREAM: [&str; 4] = [
    "early_stopping_latency_ms",
    "early_stopping_latency_ss",
    "result_qps_with_loadgen_overhead",
    "result_qps_without_loadgen_overhead",
];
const MULTI_STREAM: [&str; 10] = [
    "early_stopping_latency_ms",
    "result_50.00_percentile_per_query_latency_ns",
    "result_90.00_percentile_per_query_latency_ns",
    "result_95.00_percentile_per_query_latency_ns",
    "result_97.00_percentile_per_query_latency_ns",
    "result_99.00_percentile_per_query_latency_ns",
    "result_99.90_percentile_per_query_latency_ns",
    "result_max_query_latency_ns",
    "result_mean_query_latency_ns",
    "result_min_query_latency_ns",
];
const OFFLINE: [&str; 1] = ["result_samples_per_second"];
const SERVER: [&str; 4] = [
    "result_completed_samples_per_sec",
    "result_overlatency_query_count",
    "result_perf_constraints_met",
    "result_scheduled_samples_per_sec",
];
/// What early stopping says, without and with latencies of tokens.
const STOPPING: [&str; 1] = ["early_stopping_result"];
const STOPPING_TOKENS: [&str; 2] = ["early_stopping_tpot_result", "early_stopping_ttft_result"];
const TOKENS: [&str; 4] = [
    "result_first_token_99.00_percentile_latency_ns",
    "result_first_token_99.90_percentile_latency_ns",
    "result_time_per_output_token_99.00_percentile_ns",
    "result_time_per_output_token_99.90_percentile_ns",
];
const TOKENS_OFFLINE: [&str; 1] = ["result_tokens_per_second"];

/// Says which keys are missing, in one finding.
pub(super) fn check(
    log: &DetailLog,
    path: &Path,
    purpose: Purpose,
    round: &Round,
    issues: &mut Issues,
) {
    // A log that does not read is missing everything.
    if round.version < SINCE || !log.malformed.is_empty() || !log.is_utf8 {
        return;
    }
    let missing = wanted(log, purpose).filter(|key| log.value(key).is_none());
    let missing: Vec<String> = missing.map(|key| format!("`{key}`")).collect();
    if missing.is_empty() {
        return;
    }
    let check = match purpose {
        Purpose::Performance => &RUN_KEY,
        Purpose::Accuracy => &ACCURACY_KEY,
    };
    issues.add(check, At::path(path), format!("the log has no {}", missing.join(", ")));
}

fn wanted(log: &DetailLog, purpose: Purpose) -> impl Iterator<Item = &'static str> {
    let played = log.text("effective_scenario").and_then(Scenario::named);
    let tokens = log.flag("requested_use_token_latencies") == Some(true);
    let mut lists: Vec<&'static [&'static str]> = vec![&ALWAYS];
    if purpose == Purpose::Performance {
        lists.push(&PERFORMANCE);
        lists.push(if tokens { &STOPPING_TOKENS } else { &STOPPING });
        lists.push(match played {
            Some(Scenario::SingleStream) => &SINGLE_STREAM,
            Some(Scenario::MultiStream) => &MULTI_STREAM,
            Some(Scenario::Offline) => &OFFLINE,
            Some(Scenario::Server | Scenario::Interactive) => &SERVER,
            None => &[],
        });
        lists.push(match played {
            Some(Scenario::Offline) if tokens => &TOKENS_OFFLINE,
            Some(Scenario::SingleStream | Scenario::Server | Scenario::Interactive) if tokens => {
                &TOKENS
            }
            _ => &[],
        });
    }
    lists.into_iter().flatten().copied()
}
