//! The keys of a detail log that checks ask for.

/// In the order of their bytes.
pub(super) const KEYS: [&str; 108] = [
    "early_stopping_latency_ms",
    "early_stopping_latency_ss",
    "early_stopping_met",
    "early_stopping_result",
    "early_stopping_tpot_result",
    "early_stopping_ttft_result",
    "effective_accuracy_log_probability",
    "effective_accuracy_log_rng_seed",
    "effective_accuracy_log_sampling_target",
    "effective_accuracy_sample_count",
    "effective_max_async_queries",
    "effective_max_duration_ms",
    "effective_max_query_count",
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
    "effective_target_duration_ms",
    "effective_target_latency_ns",
    "effective_target_latency_percentile",
    "effective_target_qps",
    "effective_test_mode",
    "generated_query_count",
    "generated_query_duration",
    "generated_samples_per_query",
    "loadgen_version",
    "mean_output_tokens",
    "num_errors",
    "num_warnings",
    "power_begin",
    "power_end",
    "qsl_name",
    "qsl_reported_performance_count",
    "qsl_reported_total_count",
    "requested_accuracy_log_sampling_target",
    "requested_min_duration_ms",
    "requested_min_query_count",
    "requested_performance_issue_same",
    "requested_performance_issue_same_index",
    "requested_performance_issue_unique",
    "requested_performance_sample_count_override",
    "requested_qsl_rng_seed",
    "requested_sample_concatenate_permutation",
    "requested_sample_index_rng_seed",
    "requested_scenario",
    "requested_schedule_rng_seed",
    "requested_server_tpot_latency",
    "requested_server_ttft_latency",
    "requested_test_mode",
    "requested_use_token_latencies",
    "result_50.00_percentile_latency_ns",
    "result_50.00_percentile_per_query_latency_ns",
    "result_90.00_percentile_latency_ns",
    "result_90.00_percentile_per_query_latency_ns",
    "result_95.00_percentile_latency_ns",
    "result_95.00_percentile_per_query_latency_ns",
    "result_97.00_percentile_latency_ns",
    "result_97.00_percentile_per_query_latency_ns",
    "result_99.00_percentile_latency_ns",
    "result_99.00_percentile_per_query_latency_ns",
    "result_99.90_percentile_latency_ns",
    "result_99.90_percentile_per_query_latency_ns",
    "result_completed_samples_per_sec",
    "result_completed_tokens_per_second",
    "result_first_token_50.00_percentile_latency_ns",
    "result_first_token_90.00_percentile_latency_ns",
    "result_first_token_95.00_percentile_latency_ns",
    "result_first_token_97.00_percentile_latency_ns",
    "result_first_token_99.00_percentile_latency_ns",
    "result_first_token_99.90_percentile_latency_ns",
    "result_first_token_max_latency_ns",
    "result_first_token_mean_latency_ns",
    "result_first_token_min_latency_ns",
    "result_max_latency_ns",
    "result_max_query_latency_ns",
    "result_mean_latency_ns",
    "result_mean_query_latency_ns",
    "result_min_duration_met",
    "result_min_latency_ns",
    "result_min_queries_met",
    "result_min_query_latency_ns",
    "result_overlatency_query_count",
    "result_perf_constraints_met",
    "result_qps_with_loadgen_overhead",
    "result_qps_without_loadgen_overhead",
    "result_query_count",
    "result_samples_per_second",
    "result_scheduled_samples_per_sec",
    "result_time_per_output_token_50.00_percentile_ns",
    "result_time_per_output_token_90.00_percentile_ns",
    "result_time_per_output_token_95.00_percentile_ns",
    "result_time_per_output_token_97.00_percentile_ns",
    "result_time_per_output_token_99.00_percentile_ns",
    "result_time_per_output_token_99.90_percentile_ns",
    "result_token_throughput",
    "result_tokens_per_second",
    "result_validity",
    "sut_name",
    "test_datetime",
];

/// Slots of the table of hashes: about twice the keys.
const SLOTS: usize = 256;

/// For each slot, the place of a key and 1; 0 if it is free. A key that finds its slot
/// taken goes to the next that is free.
const TABLE: [u8; SLOTS] = {
    assert!(KEYS.len() < SLOTS);
    let mut table = [0; SLOTS];
    let mut key = 0;
    while key < KEYS.len() {
        let mut slot = slot(KEYS[key].as_bytes());
        while table[slot] != 0 {
            slot = (slot + 1) % SLOTS;
        }
        key += 1;
        #[expect(clippy::cast_possible_truncation, reason = "there are fewer keys than slots")]
        {
            table[slot] = key as u8;
        }
    }
    table
};

/// Where to begin to look for a key: by its length and the bytes of its begin, middle
/// and end, which tell most keys apart.
const fn slot(key: &[u8]) -> usize {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = key.len() as u64;
    if key.len() >= 8 {
        let starts = [0, key.len() / 2 - 4, key.len() - 8, 7 * (key.len() - 8) / 10];
        let mut at = 0;
        while at < starts.len() {
            let (_, from) = key.split_at(starts[at]);
            let (word, _) = from.split_at(8);
            let word = [word[0], word[1], word[2], word[3], word[4], word[5], word[6], word[7]];
            hash = (hash.rotate_left(23) ^ u64::from_le_bytes(word)).wrapping_mul(MIX);
            at += 1;
        }
    }
    (hash >> 56) as usize
}

/// Place of a key in the table.
pub(super) fn place(key: &[u8]) -> Option<usize> {
    let mut slot = slot(key);
    while let Some(place) = usize::from(TABLE[slot]).checked_sub(1) {
        if KEYS[place].as_bytes() == key {
            return Some(place);
        }
        slot = (slot + 1) % SLOTS;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_found_at_its_place_and_no_other() {
        for (at, key) in KEYS.iter().enumerate() {
            assert_eq!(place(key.as_bytes()), Some(at), "{key}");
            assert_eq!(place(&key.as_bytes()[1..]), None, "{key}");
        }
        assert_eq!(place(b""), None);
        assert_eq!(place(b"result_"), None);
    }

    #[test]
    fn few_keys_share_their_slot() {
        let looks: usize = KEYS
            .iter()
            .map(|key| {
                let found = TABLE.iter().position(|at| {
                    usize::from(*at).checked_sub(1).is_some_and(|at| KEYS[at] == *key)
                });
                found.map_or(SLOTS, |found| (found + SLOTS - slot(key.as_bytes())) % SLOTS)
            })
            .sum();
        assert!(looks < KEYS.len(), "{looks} steps beyond the first slot");
    }
}
