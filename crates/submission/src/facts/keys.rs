//! Keys of a detail log that checks use, and the round since which every load generator writes
//! each.
//!
//! Sources: LoadGen as of v1.0 (loadgen.cc, test_settings_internal.cc) and v4.0 (results.cc);
//! logs of 5.0.13 to 5.0.15, 5.0.22, 5.0.25, 5.1.0 and 6.0.17; and the checkers of v1.0, v1.1,
//! v2.1, v3.1 and v4.1, which end with a traceback if a key that they read is missing. Where these
//! leave a gap, [`Requirement::perhaps`] is the first round of the gap. Before v1.0 LoadGen wrote
//! logs without keys (`plain`), so a log with keys is from a later load generator. LoadGen writes
//! `num_errors` since a commit after 5.0.15 (fd021be1); logs of 5.0.22 have it.

use serde_json::Value;

use crate::power::clock::Stamp;
use dyno_rules::{RuleScenario, Version};

use ValueType::{Flag, Number, Stamp as Time, Text, Whole};

use RunFilter::{
    Any, MultiStream, Offline, OfflineTokens, Performance, Server, SingleStream, TimedTokens,
    WithTokens, WithoutTokens,
};

const V1_0: Version = Version::new(1, 0);
const V1_1: Version = Version::new(1, 1);
const V2_0: Version = Version::new(2, 0);
const V4_0: Version = Version::new(4, 0);
const V4_1: Version = Version::new(4, 1);
const V5_0: Version = Version::new(5, 0);

/// A key of the detail log.
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) value_type: ValueType,
    requirements: &'static [Requirement],
}

dyno_loadgen::named_enum! {
    /// ValueType of the value of a key, the same in every log.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ValueType {
        /// A non-negative integer.
        Whole = "a whole number",
        /// A non-negative number.
        Number = "a number",
        /// A boolean.
        Flag = "true or false",
        /// A text.
        Text = "a text",
        /// A text with a wall-clock time in milliseconds.
        Stamp = "a time such as `07-23-2025 02:30:20.039`",
    }
}

impl ValueType {
    /// Whether a value has this type.
    pub fn has(self, value: &Value) -> bool {
        match self {
            Self::Whole => value.is_u64(),
            Self::Number => value.as_f64().is_some_and(|number| number >= 0.0),
            Self::Flag => value.is_boolean(),
            Self::Text => value.is_string(),
            Self::Stamp => value.as_str().and_then(Stamp::parse).is_some(),
        }
    }
}

/// Runs and rounds whose logs have a key.
struct Requirement {
    runs: RunFilter,
    /// First round in which all logs are known to have the key.
    known: Version,
    /// First round in which logs may have the key.
    perhaps: Version,
    /// Within the release of the round `known`: the first patch whose logs may have the key, and the first
    /// whose logs are known to have it. Both are 0 if all have it.
    patches: [u32; 2],
}

/// Selects runs whose logs have a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RunFilter {
    Any,
    Performance,
    /// Performance runs of one scenario, as the load generator runs it.
    SingleStream,
    MultiStream,
    Offline,
    Server,
    /// Performance runs with or without token latencies.
    WithTokens,
    WithoutTokens,
    /// Runs with token latencies in which each token is timed, and Offline runs with token
    /// latencies.
    TimedTokens,
    OfflineTokens,
}

/// Properties of a run that determine its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunKind {
    /// An accuracy run.
    Accuracy,
    /// A performance run.
    Performance {
        /// Scenario, if the log states it.
        played: Option<RuleScenario>,
        /// Whether token latencies were measured.
        has_tokens: bool,
    },
}

/// Whether the log of a round must have a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Certainty {
    /// It is unknown whether every load generator of the round wrote the key.
    Unknown,
    /// Every load generator of the round wrote the key.
    Known,
}

impl RunFilter {
    fn has(self, run: RunKind) -> bool {
        let RunKind::Performance { played, has_tokens } = run else {
            return self == Any;
        };
        let is = |scenario| played == Some(scenario);
        let is_server = is(RuleScenario::Server) || is(RuleScenario::Interactive);
        match self {
            Any | Performance => true,
            SingleStream => is(RuleScenario::SingleStream),
            MultiStream => is(RuleScenario::MultiStream),
            Offline => is(RuleScenario::Offline),
            Server => is_server,
            WithTokens => has_tokens,
            WithoutTokens => !has_tokens,
            TimedTokens => has_tokens && (is_server || is(RuleScenario::SingleStream)),
            OfflineTokens => has_tokens && is(RuleScenario::Offline),
        }
    }
}

impl Requirement {
    fn in_round(&self, round: Version, patch: Option<u32>) -> Option<Certainty> {
        if round < V1_0 {
            return (self.known == V1_0).then_some(Certainty::Unknown);
        }
        if round == self.known {
            let [perhaps, known] = self.patches;
            return match patch {
                Some(patch) if patch < perhaps => None,
                Some(patch) if patch < known => Some(Certainty::Unknown),
                None if known > 0 => Some(Certainty::Unknown),
                _ => Some(Certainty::Known),
            };
        }
        let known = (round > self.known).then_some(Certainty::Known);
        known.or((round >= self.perhaps).then_some(Certainty::Unknown))
    }
}

/// Returns the keys that the log of a run has in a round, with their certainty. `patch` is the third
/// number of the release of LoadGen, if the log states it.
pub(crate) fn required_keys(
    round: Version,
    patch: Option<u32>,
    run: RunKind,
) -> impl Iterator<Item = (&'static str, Certainty)> {
    KEYS.iter().filter_map(move |key| {
        let requirements = key.requirements.iter().filter(|one| one.runs.has(run));
        Some((key.name, requirements.filter_map(|one| one.in_round(round, patch)).max()?))
    })
}

const fn required(runs: RunFilter, known: Version) -> Requirement {
    Requirement { runs, known, perhaps: known, patches: [0; 2] }
}

const fn perhaps(runs: RunFilter, perhaps: Version, known: Version) -> Requirement {
    Requirement { runs, known, perhaps, patches: [0; 2] }
}

/// A key that checks read where it exists but do not require.
const fn optional(name: &'static str, value_type: ValueType) -> Key {
    Key { name, value_type, requirements: &[] }
}

/// All keys, sorted by their bytes.
#[rustfmt::skip]
pub(super) const KEYS: [Key; 127] = [
    optional("dyno_continue_trace", Text),
    optional("dyno_early_stopping", Text),
    optional("dyno_failed_samples", Whole),
    optional("dyno_missing_samples", Whole),
    optional("dyno_result_samples_per_query", Whole),
    optional("dyno_result_target_qps", Number),
    Key { name: "early_stopping_latency_ms", value_type: Whole, requirements: &[required(SingleStream, V2_0), required(MultiStream, V2_0)] },
    Key { name: "early_stopping_latency_ss", value_type: Whole, requirements: &[required(SingleStream, V2_0)] },
    Key { name: "early_stopping_met", value_type: Flag, requirements: &[required(Performance, V2_0)] },
    Key { name: "early_stopping_result", value_type: Text, requirements: &[required(WithoutTokens, V2_0)] },
    Key { name: "early_stopping_tpot_result", value_type: Text, requirements: &[required(WithTokens, V4_0)] },
    Key { name: "early_stopping_ttft_result", value_type: Text, requirements: &[required(WithTokens, V4_0)] },
    Key { name: "effective_accuracy_log_probability", value_type: Number, requirements: &[required(Any, V1_0)] },
    Key { name: "effective_accuracy_log_rng_seed", value_type: Whole, requirements: &[required(Any, V1_0)] },
    Key { name: "effective_accuracy_log_sampling_target", value_type: Whole, requirements: &[required(Any, V1_0)] },
    optional("effective_accuracy_sample_count", Whole),
    optional("effective_max_async_queries", Whole),
    optional("effective_max_duration_ms", Whole),
    optional("effective_max_query_count", Whole),
    Key { name: "effective_min_duration_ms", value_type: Whole, requirements: &[required(Any, V1_0)] },
    Key { name: "effective_min_query_count", value_type: Whole, requirements: &[required(Any, V1_0)] },
    Key { name: "effective_min_sample_count", value_type: Whole, requirements: &[required(Any, V1_0)] },
    Key { name: "effective_performance_issue_same", value_type: Flag, requirements: &[required(Any, V1_0)] },
    Key { name: "effective_performance_issue_same_index", value_type: Whole, requirements: &[required(Any, V1_0)] },
    Key { name: "effective_performance_issue_unique", value_type: Flag, requirements: &[required(Any, V1_0)] },
    Key { name: "effective_performance_sample_count", value_type: Whole, requirements: &[required(Any, V1_0)] },
    optional("effective_print_timestamps", Flag),
    Key { name: "effective_qsl_rng_seed", value_type: Whole, requirements: &[required(Any, V1_0)] },
    Key { name: "effective_sample_concatenate_permutation", value_type: Flag, requirements: &[perhaps(Any, V4_1, V5_0)] },
    Key { name: "effective_sample_index_rng_seed", value_type: Whole, requirements: &[required(Any, V1_0)] },
    Key { name: "effective_samples_per_query", value_type: Whole, requirements: &[required(Any, V1_0)] },
    Key { name: "effective_scenario", value_type: Text, requirements: &[required(Any, V1_0)] },
    Key { name: "effective_schedule_rng_seed", value_type: Whole, requirements: &[required(Any, V1_0)] },
    optional("effective_target_duration_ms", Whole),
    Key { name: "effective_target_latency_ns", value_type: Whole, requirements: &[required(Any, V1_0)] },
    Key { name: "effective_target_latency_percentile", value_type: Number, requirements: &[required(Any, V1_0)] },
    optional("effective_target_qps", Number),
    Key { name: "effective_test_mode", value_type: Text, requirements: &[required(Any, V1_0)] },
    Key { name: "generated_query_count", value_type: Whole, requirements: &[required(Any, V1_0)] },
    optional("generated_query_duration", Whole),
    Key { name: "generated_samples_per_query", value_type: Whole, requirements: &[required(Any, V1_0)] },
    Key { name: "loadgen_version", value_type: Text, requirements: &[required(Any, V1_0)] },
    optional("mean_output_tokens", Number),
    Key { name: "num_errors", value_type: Whole, requirements: &[Requirement { patches: [16, 22], ..required(Performance, V5_0) }] },
    optional("num_warnings", Whole),
    Key { name: "power_begin", value_type: Time, requirements: &[required(Any, V1_0)] },
    Key { name: "power_end", value_type: Time, requirements: &[required(Any, V1_0)] },
    optional("qsl_name", Text),
    optional("qsl_reported_performance_count", Whole),
    Key { name: "qsl_reported_total_count", value_type: Whole, requirements: &[required(Any, V1_0)] },
    optional("requested_accuracy_log_sampling_target", Whole),
    optional("requested_min_duration_ms", Whole),
    optional("requested_min_query_count", Whole),
    optional("requested_performance_issue_same", Flag),
    optional("requested_performance_issue_same_index", Whole),
    optional("requested_performance_issue_unique", Flag),
    optional("requested_performance_sample_count_override", Whole),
    optional("requested_qsl_rng_seed", Whole),
    optional("requested_sample_concatenate_permutation", Flag),
    optional("requested_sample_index_rng_seed", Whole),
    optional("requested_scenario", Text),
    optional("requested_schedule_rng_seed", Whole),
    optional("requested_server_tpot_latency", Whole),
    optional("requested_server_ttft_latency", Whole),
    optional("requested_test_mode", Text),
    optional("requested_use_token_latencies", Flag),
    Key { name: "result_50.00_percentile_latency_ns", value_type: Whole, requirements: &[required(Performance, V1_0)] },
    optional("result_50.00_percentile_num_intervals_between_queries", Whole),
    Key { name: "result_50.00_percentile_per_query_latency_ns", value_type: Whole, requirements: &[required(MultiStream, V1_0)] },
    Key { name: "result_90.00_percentile_latency_ns", value_type: Whole, requirements: &[required(Performance, V1_0)] },
    optional("result_90.00_percentile_num_intervals_between_queries", Whole),
    Key { name: "result_90.00_percentile_per_query_latency_ns", value_type: Whole, requirements: &[required(MultiStream, V1_0)] },
    Key { name: "result_95.00_percentile_latency_ns", value_type: Whole, requirements: &[required(Performance, V1_0)] },
    optional("result_95.00_percentile_num_intervals_between_queries", Whole),
    Key { name: "result_95.00_percentile_per_query_latency_ns", value_type: Whole, requirements: &[required(MultiStream, V1_0)] },
    Key { name: "result_97.00_percentile_latency_ns", value_type: Whole, requirements: &[required(Performance, V1_0)] },
    optional("result_97.00_percentile_num_intervals_between_queries", Whole),
    Key { name: "result_97.00_percentile_per_query_latency_ns", value_type: Whole, requirements: &[required(MultiStream, V1_0)] },
    Key { name: "result_99.00_percentile_latency_ns", value_type: Whole, requirements: &[required(Performance, V1_0)] },
    optional("result_99.00_percentile_num_intervals_between_queries", Whole),
    Key { name: "result_99.00_percentile_per_query_latency_ns", value_type: Whole, requirements: &[required(MultiStream, V1_0)] },
    Key { name: "result_99.90_percentile_latency_ns", value_type: Whole, requirements: &[required(Performance, V1_0)] },
    optional("result_99.90_percentile_num_intervals_between_queries", Whole),
    Key { name: "result_99.90_percentile_per_query_latency_ns", value_type: Whole, requirements: &[required(MultiStream, V1_0)] },
    Key { name: "result_completed_samples_per_sec", value_type: Number, requirements: &[required(Server, V1_0)] },
    optional("result_completed_tokens_per_second", Number),
    optional("result_first_token_50.00_percentile_latency_ns", Whole),
    optional("result_first_token_90.00_percentile_latency_ns", Whole),
    optional("result_first_token_95.00_percentile_latency_ns", Whole),
    optional("result_first_token_97.00_percentile_latency_ns", Whole),
    Key { name: "result_first_token_99.00_percentile_latency_ns", value_type: Whole, requirements: &[required(TimedTokens, V4_0)] },
    Key { name: "result_first_token_99.90_percentile_latency_ns", value_type: Whole, requirements: &[required(TimedTokens, V4_0)] },
    optional("result_first_token_max_latency_ns", Whole),
    optional("result_first_token_mean_latency_ns", Whole),
    optional("result_first_token_min_latency_ns", Whole),
    optional("result_inferred_completed_tokens_per_second", Number),
    optional("result_inferred_tokens_per_second", Number),
    Key { name: "result_max_latency_ns", value_type: Whole, requirements: &[required(Performance, V1_0)] },
    Key { name: "result_max_query_latency_ns", value_type: Whole, requirements: &[perhaps(MultiStream, V1_1, V4_0)] },
    Key { name: "result_mean_latency_ns", value_type: Whole, requirements: &[required(Performance, V1_0)] },
    Key { name: "result_mean_query_latency_ns", value_type: Whole, requirements: &[perhaps(MultiStream, V1_1, V2_0)] },
    Key { name: "result_min_duration_met", value_type: Flag, requirements: &[required(Performance, V1_0)] },
    Key { name: "result_min_latency_ns", value_type: Whole, requirements: &[required(Performance, V1_0)] },
    Key { name: "result_min_queries_met", value_type: Flag, requirements: &[required(Performance, V1_0)] },
    Key { name: "result_min_query_latency_ns", value_type: Whole, requirements: &[perhaps(MultiStream, V1_1, V4_0)] },
    Key { name: "result_overlatency_query_count", value_type: Whole, requirements: &[perhaps(Server, V1_1, V4_0)] },
    Key { name: "result_perf_constraints_met", value_type: Flag, requirements: &[required(Server, V1_0)] },
    Key { name: "result_qps_with_loadgen_overhead", value_type: Number, requirements: &[required(SingleStream, V1_0)] },
    Key { name: "result_qps_without_loadgen_overhead", value_type: Number, requirements: &[required(SingleStream, V1_0)] },
    Key { name: "result_query_count", value_type: Whole, requirements: &[required(Performance, V2_0)] },
    Key { name: "result_samples_per_second", value_type: Number, requirements: &[required(Offline, V1_0)] },
    Key { name: "result_scheduled_samples_per_sec", value_type: Number, requirements: &[required(Server, V1_0)] },
    optional("result_time_per_output_token_50.00_percentile_ns", Whole),
    optional("result_time_per_output_token_90.00_percentile_ns", Whole),
    optional("result_time_per_output_token_95.00_percentile_ns", Whole),
    optional("result_time_per_output_token_97.00_percentile_ns", Whole),
    Key { name: "result_time_per_output_token_99.00_percentile_ns", value_type: Whole, requirements: &[required(TimedTokens, V4_0)] },
    Key { name: "result_time_per_output_token_99.90_percentile_ns", value_type: Whole, requirements: &[required(TimedTokens, V4_0)] },
    optional("result_time_to_output_token_max", Whole),
    optional("result_time_to_output_token_mean", Whole),
    optional("result_time_to_output_token_min", Whole),
    optional("result_token_throughput", Number),
    optional("result_token_throughput_with_loadgen_overhead", Number),
    Key { name: "result_tokens_per_second", value_type: Number, requirements: &[required(OfflineTokens, V4_0)] },
    Key { name: "result_validity", value_type: Text, requirements: &[required(Performance, V1_0)] },
    Key { name: "sut_name", value_type: Text, requirements: &[required(Any, V1_0)] },
    Key { name: "test_datetime", value_type: Text, requirements: &[required(Any, V1_0)] },
];

/// Size of the hash table: about twice the number of keys.
const SLOTS: usize = 256;

/// Hash table: for each slot, the index of a key plus 1, or 0 if the slot is free. A key whose
/// slot is occupied uses the next free slot.
const TABLE: [u8; SLOTS] = {
    assert!(KEYS.len() < SLOTS);
    let mut table = [0; SLOTS];
    let mut key = 0;
    while key < KEYS.len() {
        let mut slot = slot(KEYS[key].name.as_bytes());
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

/// Returns the first slot to try for a key: a hash of its length and of bytes from its start,
/// middle and end, which distinguish most keys.
const fn slot(key: &[u8]) -> usize {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = key.len() as u64;
    if key.len() >= 8 {
        let starts = [
            if key.len() < 13 { 0 } else { 5 },
            key.len() / 2 - 4,
            key.len() - 8,
            7 * (key.len() - 8) / 10,
        ];
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

/// Returns the type of the value of a key, or `None` if no check uses the key.
pub(super) fn value_type(key: &str) -> Option<ValueType> {
    place(key.as_bytes()).map(|place| KEYS[place].value_type)
}

/// Returns the index of a key in [`KEYS`].
pub(super) fn place(key: &[u8]) -> Option<usize> {
    let mut slot = slot(key);
    while let Some(place) = usize::from(TABLE[slot]).checked_sub(1) {
        if KEYS[place].name.as_bytes() == key {
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
        for (index, Key { name: key, .. }) in KEYS.iter().enumerate() {
            assert_eq!(place(key.as_bytes()), Some(index), "{key}");
            assert_eq!(place(&key.as_bytes()[1..]), None, "{key}");
        }
        assert_eq!(place(b""), None);
        assert_eq!(place(b"result_"), None);
    }

    #[test]
    fn few_keys_share_their_slot() {
        let looks: usize = KEYS
            .iter()
            .map(|Key { name: key, .. }| {
                let found = TABLE.iter().position(|at| {
                    usize::from(*at).checked_sub(1).is_some_and(|at| KEYS[at].name == *key)
                });
                found.map_or(SLOTS, |found| (found + SLOTS - slot(key.as_bytes())) % SLOTS)
            })
            .sum();
        assert!(looks < KEYS.len(), "{looks} steps beyond the first slot");
    }

    #[test]
    fn keys_are_asked_for_from_the_round_that_writes_them() {
        let server = RunKind::Performance { played: Some(RuleScenario::Server), has_tokens: false };
        let certainty_of = |round: Version, run: RunKind, key: &str| {
            required_keys(round, None, run)
                .find(|(name, _)| *name == key)
                .map(|(_, certainty)| certainty)
        };
        for (key, round, certainty) in [
            ("result_validity", Version::new(0, 7), Some(Certainty::Unknown)),
            ("result_validity", V1_0, Some(Certainty::Known)),
            ("early_stopping_met", V1_1, None),
            ("early_stopping_met", V2_0, Some(Certainty::Known)),
            ("result_overlatency_query_count", V1_0, None),
            ("result_overlatency_query_count", V2_0, Some(Certainty::Unknown)),
            ("result_overlatency_query_count", V4_0, Some(Certainty::Known)),
            ("effective_sample_concatenate_permutation", V4_0, None),
            ("effective_sample_concatenate_permutation", V4_1, Some(Certainty::Unknown)),
            ("effective_sample_concatenate_permutation", V5_0, Some(Certainty::Known)),
            ("num_errors", V4_1, None),
            ("num_errors", V5_0, Some(Certainty::Unknown)),
            ("num_errors", Version::new(5, 1), Some(Certainty::Known)),
        ] {
            assert_eq!(certainty_of(round, server, key), certainty, "{key} {round}");
        }
        assert_eq!(certainty_of(V1_0, RunKind::Accuracy, "power_end"), Some(Certainty::Known));
        assert_eq!(certainty_of(V5_0, RunKind::Accuracy, "result_validity"), None);
        let known =
            |round| required_keys(round, None, server).filter(|(_, one)| *one == Certainty::Known);
        let counts =
            [V1_0, V2_0, V4_0, V4_1, V5_0, Version::new(5, 1)].map(|round| known(round).count());
        assert!(counts.is_sorted(), "{counts:?}");
        let errors = |patch: u32| {
            required_keys(V5_0, Some(patch), server).find(|(name, _)| *name == "num_errors")
        };
        let certainties = [15, 16, 22].map(|patch| errors(patch).map(|(_, certainty)| certainty));
        assert_eq!(certainties, [None, Some(Certainty::Unknown), Some(Certainty::Known)]);
    }
}
