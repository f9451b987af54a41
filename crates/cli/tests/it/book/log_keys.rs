//! The page of log keys: the keys that simulated runs of every kind write, and their meanings. A
//! key without a text fails.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use dyno_loadgen::log::read::{read_detail, read_summary};
use dyno_loadgen::settings::{FIELDS, Scenario};

use crate::program::Folder;

/// Runs that together write every key: scenario, and other flags.
const RUNS: [(Scenario, &str); 14] = [
    (Scenario::SingleStream, "--mode performance"),
    (Scenario::MultiStream, "--mode performance"),
    (Scenario::Server, "--mode performance --qps 100"),
    (Scenario::Offline, "--mode performance"),
    (Scenario::SingleStream, "--mode accuracy"),
    (Scenario::SingleStream, "--mode performance --set use_token_latencies=true"),
    (Scenario::MultiStream, "--mode performance --set use_token_latencies=true"),
    (Scenario::Server, "--mode performance --qps 100 --set use_token_latencies=true"),
    (Scenario::Offline, "--mode performance --set use_token_latencies=true"),
    (
        Scenario::Server,
        "--mode performance --qps 100 --set server_target_latency_ns=1ns --set \
         infer_token_latencies=true --set token_latency_scaling_factor=7 --set \
         server_arrivals=constant",
    ),
    (
        Scenario::Offline,
        "--mode performance --set infer_token_latencies=true --set token_latency_scaling_factor=7",
    ),
    (
        Scenario::Server,
        "--mode peak --qps 10 --set server_find_peak_qps_decimals_of_precision=0 --set \
         server_target_latency_ns=50ms",
    ),
    (Scenario::MultiStream, "--mode performance --set multi_stream_target_qps=20"),
    (Scenario::Server, "--mode performance --qps 100 --set repetition=minimum:2"),
];

/// Meanings of keys that are not names of settings.
const TEXTS: [(&str, &str); 92] = [
    ("loadgen_version", "The release of LoadGen whose behaviour this is, and Dyno's own"),
    ("loadgen_build_date_local", "`NA`: a log does not claim that another program wrote it"),
    ("loadgen_build_date_utc", "`NA`"),
    ("loadgen_git_commit_date", "`NA`"),
    ("loadgen_git_log_message", "`NA`"),
    ("loadgen_git_status_message", "`NA`"),
    ("loadgen_file_sha1", "Hash of each source file of the load generator that is in the build"),
    ("test_datetime", "Start of the test, UTC"),
    ("sut_name", "Name of the system under test"),
    ("get_sut_name_duration_ns", "Time until the system returned its name, ns"),
    ("qsl_name", "Name of the data set"),
    ("qsl_reported_total_count", "Samples in the data set"),
    ("qsl_reported_performance_count", "Samples that fit into memory, as the data set reports"),
    ("requested_test_mode", "Requested. Performance, accuracy, both, or the search for the peak."),
    ("effective_test_mode", "In effect. Performance, accuracy, both, or the search for the peak."),
    ("effective_samples_per_query", "Samples in a query; in Offline all of them"),
    (
        "effective_target_qps",
        "Rate from which the trace is generated, queries/s; without a rate, from the expected \
         latency",
    ),
    ("effective_target_latency_ns", "The latency bound; 0 without a bound"),
    ("effective_target_latency_percentile", "Percentile that is judged or is the result"),
    ("effective_max_async_queries", "Maximum number of outstanding queries"),
    ("effective_target_duration_ms", "Minimum time to issue queries, ms; 0 in Offline"),
    ("effective_min_sample_count", "Minimum number of samples"),
    ("effective_performance_sample_count", "Samples in the performance set"),
    ("effective_accuracy_sample_count", "Samples of an accuracy run"),
    ("dyno_fingerprint", "One hash over all source files of the load generator"),
    ("dyno_SETTING", "A setting of Dyno only, if it differs from its default"),
    (
        "dyno_origin_SETTING",
        "Origin of the setting: a file with its line, a flag, an environment variable, a round, \
         the profile, or the built-in table",
    ),
    ("generic_message", "Free text: how the run ended, rates that the peak search tried"),
    ("loaded_qsl_set", "Loaded samples in order, as positions in the data set"),
    ("generated_query_count", "Queries in the trace"),
    ("generated_samples_per_query", "Samples in each query"),
    ("generated_query_duration", "Due time of the last query of the trace, ns"),
    (
        "logger_swap_request_slots_retry_count",
        "Always 0: Dyno has no logger thread, but parsers expect the key",
    ),
    ("logger_swap_request_slots_retry_retry_count", "0"),
    ("logger_swap_request_slots_retry_reencounter_count", "0"),
    ("logger_start_reading_entries_retry_count", "0"),
    ("logger_tls_total_log_cas_fail_count", "0"),
    ("logger_tls_total_swap_buffers_slot_retry_count", "0"),
    ("power_begin", "Start of the run, for power meters"),
    ("power_end", "End of the run"),
    ("result_validity", "`VALID` or `INVALID`"),
    ("result_perf_constraints_met", "Whether the percentile is within its bound"),
    ("result_min_duration_met", "Whether the run had its minimum duration"),
    ("result_min_queries_met", "Whether enough queries were issued"),
    ("early_stopping_met", "Whether the run has enough queries to judge the percentile"),
    (
        "early_stopping_result",
        "Result of early stopping as text, with the number of missing \
         queries",
    ),
    ("early_stopping_ttft_result", "Result of early stopping for the time to first token"),
    ("early_stopping_tpot_result", "Result of early stopping for the time per output token"),
    ("result_invalid_reason", "Recommendation after `INVALID`"),
    ("result_query_count", "Queries issued"),
    (
        "result_P_percentile_num_intervals_between_queries",
        "At a fixed interval: `sorted[floor(count * q)]` of the intervals that queries took",
    ),
    (
        "dyno_skipping_queries",
        "Queries that made the next query skip an interval, or lost a \
         sample",
    ),
    ("dyno_skipping_queries_allowed", "Maximum number of such queries for the length of the run"),
    ("dyno_skipped_intervals", "Total number of skipped intervals"),
    (
        "dyno_skipped_by_client",
        "Skipping queries that were answered in time, but noticed late by \
         the client",
    ),
    ("dyno_result_samples_per_query", "Number of streams of this run"),
    ("dyno_result_target_qps", "Rate of this run, if the run is repeated"),
    ("result_overlatency_query_count", "Queries over the bound, failed and missing ones included"),
    ("result_qps_with_loadgen_overhead", "Queries/s over the whole run"),
    ("result_qps_without_loadgen_overhead", "1 / mean latency"),
    (
        "early_stopping_latency_ss",
        "Latency at the target percentile that holds with 99 % confidence",
    ),
    ("early_stopping_latency_ms", "Latency at the 99th percentile that holds with 99 % confidence"),
    ("result_min_latency_ns", "Shortest latency of a sample"),
    ("result_max_latency_ns", "Longest"),
    ("result_mean_latency_ns", "Mean, truncated"),
    ("result_P_percentile_latency_ns", "`sorted[floor(count * q)]`"),
    (
        "result_min_query_latency_ns",
        "Shortest latency of a query, which is the latency of its last sample",
    ),
    ("result_max_query_latency_ns", "Longest"),
    ("result_mean_query_latency_ns", "Mean, truncated"),
    ("result_P_percentile_per_query_latency_ns", "`sorted[floor(count * q)]`"),
    ("result_scheduled_samples_per_sec", "Rate of scheduled arrivals, samples/s"),
    (
        "result_completed_samples_per_sec",
        "(answered - 1) / time until the last issued query completed",
    ),
    ("result_samples_per_second", "Answered samples / longest latency"),
    ("result_first_token_min_latency_ns", "Shortest time to first token"),
    ("result_first_token_max_latency_ns", "Longest"),
    ("result_first_token_mean_latency_ns", "Mean, truncated"),
    ("result_first_token_P_percentile_latency_ns", "`sorted[floor(count * q)]`"),
    (
        "result_token_throughput_with_loadgen_overhead",
        "Tokens/s over the time until the last issue",
    ),
    ("result_token_throughput", "Tokens per ns of latency, as in LoadGen"),
    (
        "result_time_per_output_token_P_percentile_ns",
        "`sorted[floor(count * q)]` of (completion - first token) / (tokens - 1)",
    ),
    ("result_time_to_output_token_min", "Shortest time per output token"),
    ("result_time_to_output_token_max", "Longest"),
    ("result_time_to_output_token_mean", "Mean, truncated"),
    ("result_completed_tokens_per_second", "Tokens/s over the time until the last query completed"),
    ("result_tokens_per_second", "Tokens / longest latency"),
    (
        "result_inferred_completed_tokens_per_second",
        "Completed samples/s times `token_latency_scaling_factor`",
    ),
    ("result_inferred_tokens_per_second", "Samples/s times `token_latency_scaling_factor`"),
    (
        "dyno_client_lag_P_percentile_ns",
        "Delay with which the client issued (50.00 and 99.00 \
         only)",
    ),
    ("dyno_client_lag_max_ns", "Maximum delay with which the client issued"),
    ("dyno_failed_samples", "Samples that the system reported as failed"),
    ("dyno_missing_samples", "Samples that were never answered"),
    ("num_errors", "Errors in this log"),
];

/// Placeholder of the percentiles 50.00, 90.00, 95.00, 97.00, 99.00 and 99.90.
const PERCENTILE: &str = "P";

/// Merges keys that differ only in a percentile or in the name of a setting.
fn folded(key: &str) -> String {
    let is_setting = |name: &str| FIELDS.iter().any(|field| field.name == name);
    if key.strip_prefix("dyno_origin_").is_some_and(is_setting) {
        return "dyno_origin_SETTING".into();
    }
    if key.strip_prefix("dyno_").is_some_and(is_setting) {
        return "dyno_SETTING".into();
    }
    let percentiles = ["50.00", "90.00", "95.00", "97.00", "99.00", "99.90"];
    let in_key = percentiles.into_iter().find(|p| key.contains(p));
    in_key.map_or(key.to_string(), |p| key.replace(p, PERCENTILE))
}

fn text_of(key: &str) -> String {
    if let Some((_, text)) = TEXTS.iter().find(|(of, _)| *of == key) {
        return text.to_string();
    }
    let asked = [("requested_", "Requested. "), ("effective_", "In effect. ")];
    let named = asked.into_iter().find_map(|(prefix, said)| {
        let name = key.strip_prefix(prefix)?;
        let field = FIELDS.iter().find(|field| field.name == name)?;
        Some(format!("{said}{}", field.help))
    });
    named.unwrap_or_else(|| panic!("log_keys.rs has no text for the key {key}"))
}

/// A key and the scenarios in which it was seen, in order of first appearance.
#[derive(Default)]
struct KeyScenarios(Vec<(String, BTreeSet<Scenario>)>);

impl KeyScenarios {
    fn note(&mut self, key: String, scenario: Scenario) {
        match self.0.iter_mut().find(|(of, _)| *of == key) {
            Some((_, scenarios)) => {
                scenarios.insert(scenario);
            }
            None => self.0.push((key, BTreeSet::from([scenario]))),
        }
    }
}

fn names(scenarios: &BTreeSet<Scenario>) -> String {
    if scenarios.len() == Scenario::ALL.len() {
        return "all".into();
    }
    scenarios.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The page.
pub fn page() -> String {
    let (mut detail, mut summary) = (KeyScenarios::default(), KeyScenarios::default());
    let folder = Folder::new();
    for (number, (scenario, more)) in RUNS.iter().enumerate() {
        // Accuracy tests are as long as the data set.
        let duration = if more.contains("accuracy") { "" } else { "--duration 200ms" };
        let ran = folder.dyno(&format!(
            "run --system model:fixed=1ms,tokens=5-9,per-token=1us --scenario {scenario} --out \
             {number} {duration} {more}"
        ));
        assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
        let mode = more.split_whitespace().nth(1).unwrap();
        let logs = format!("{number}/{scenario}/{mode}/mlperf_log_");
        let (entries, problems) = read_detail(&folder.read(&format!("{logs}detail.txt")));
        assert!(problems.is_empty(), "{problems:?}");
        for entry in entries.entries {
            detail.note(folded(&entry.key), *scenario);
        }
        let text = folder.read(&format!("{logs}summary.txt"));
        let (fields, problems) = read_summary(&text);
        assert!(problems.is_empty(), "{problems:?}");
        for (_, label, _) in fields.fields {
            summary.note(folded(label), *scenario);
        }
    }
    let mut page = String::from(
        "# Log keys\n\n<!-- Made from the code: UPDATE_EXPECT=1 cargo test -p dyno book \
         -->\n\nEach test writes four files: `mlperf_log_summary.txt` for people, \
         `mlperf_log_detail.txt` with one JSON object per line, `mlperf_log_accuracy.json` with \
         the answers, and `mlperf_log_trace.json` for trace viewers (empty without \
         `--trace-log`). Keys, order and arithmetic are those of LoadGen 6.0.17. Only Dyno writes \
         keys that begin with `dyno_`. [Fidelity](../fidelity.md) lists intentional differences. \
         `P` stands for 50.00, 90.00, 95.00, 97.00, 99.00 and 99.90.\n\n## \
         mlperf_log_detail.txt\n\n| key | scenarios | what |\n| --- | --- | --- |\n",
    );
    for (key, scenarios) in &detail.0 {
        let _ = writeln!(page, "| `{key}` | {} | {} |", names(scenarios), text_of(key));
    }
    page += "\nMessages: `error_invalid_config`, `error_invalid_test_settings` and \
         `error_runtime` are errors, `warning_generic_message` is a warning, `dyno_note` is an \
         explanation without effect on the verdict.\n";
    page += "\n## mlperf_log_summary.txt\n\n| label | scenarios |\n| --- | --- |\n";
    for (label, scenarios) in &summary.0 {
        let _ = writeln!(page, "| `{label}` | {} |", names(scenarios));
    }
    page
}
