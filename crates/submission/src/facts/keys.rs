//! The keys of a detail log that checks ask for, and since which round every load
//! generator writes them.
//!
//! Sources: LoadGen as it stood for v1.0 (loadgen.cc, test_settings_internal.cc) and for
//! v4.0 (results.cc); logs of 5.0.22, 5.0.25, 5.1.0 and 6.0.17; and the checkers of v1.0,
//! v1.1, v2.1, v3.1 and v4.1, which end with a traceback where a key that they read is
//! missing. Where these leave a gap, [`Asked::perhaps`] is the first round of it. Before
//! v1.0 LoadGen wrote a log without keys: one with keys is of a later load generator.

use serde_json::Value;

use crate::power::clock::Stamp;
use dyno_rules::{Scenario, Version};

use Type::{Flag, Number, Stamp as Time, Text, Whole};

use Of::{
    Any, MultiStream, Offline, OfflineTokens, Performance, Server, SingleStream, TimedTokens,
    WithTokens, WithoutTokens,
};

const V1_0: Version = Version::new(1, 0);
const V1_1: Version = Version::new(1, 1);
const V2_0: Version = Version::new(2, 0);
const V4_0: Version = Version::new(4, 0);
const V4_1: Version = Version::new(4, 1);
const V5_0: Version = Version::new(5, 0);

/// A key.
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) is: Type,
    asked: &'static [Asked],
}

/// What the value of a key is, in every log that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// A whole number that is not negative.
    Whole,
    /// A number that is not negative.
    Number,
    /// A truth value.
    Flag,
    /// A text.
    Text,
    /// A text that is a time of the wall clock, to a millisecond.
    Stamp,
}

impl Type {
    /// Whether a value is one.
    #[must_use]
    pub fn has(self, value: &Value) -> bool {
        match self {
            Self::Whole => value.is_u64(),
            Self::Number => value.as_f64().is_some_and(|number| number >= 0.0),
            Self::Flag => value.is_boolean(),
            Self::Text => value.is_string(),
            Self::Stamp => value.as_str().and_then(Stamp::parse).is_some(),
        }
    }

    /// In words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Whole => "a whole number",
            Self::Number => "a number",
            Self::Flag => "true or false",
            Self::Text => "a text",
            Self::Stamp => "a time such as `07-23-2025 02:30:20.039`",
        }
    }
}

/// Which logs have a key.
struct Asked {
    of: Of,
    /// First round in which it is known that all of them have it.
    known: Version,
    /// First round in which they may have it.
    perhaps: Version,
}

/// Runs with a key in their logs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Any,
    Performance,
    /// Performance runs of a scenario, as the load generator plays it.
    SingleStream,
    MultiStream,
    Offline,
    Server,
    /// Performance runs that measure, or do not measure, latencies of tokens.
    WithTokens,
    WithoutTokens,
    /// Those with tokens in which each is timed, and the others.
    TimedTokens,
    OfflineTokens,
}

/// A run, as far as its keys depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Run {
    /// An accuracy run.
    Accuracy,
    /// A performance run.
    Performance {
        /// What was played, if the log says so.
        played: Option<Scenario>,
        /// Whether latencies of tokens were measured.
        has_tokens: bool,
    },
}

/// Whether a log of a round must have a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Certainty {
    /// It is not known whether every load generator of the round wrote it.
    Unknown,
    /// Every one did.
    Known,
}

impl Of {
    fn has(self, run: Run) -> bool {
        let Run::Performance { played, has_tokens } = run else {
            return self == Any;
        };
        let is = |scenario| played == Some(scenario);
        let is_server = is(Scenario::Server) || is(Scenario::Interactive);
        match self {
            Any | Performance => true,
            SingleStream => is(Scenario::SingleStream),
            MultiStream => is(Scenario::MultiStream),
            Offline => is(Scenario::Offline),
            Server => is_server,
            WithTokens => has_tokens,
            WithoutTokens => !has_tokens,
            TimedTokens => has_tokens && (is_server || is(Scenario::SingleStream)),
            OfflineTokens => has_tokens && is(Scenario::Offline),
        }
    }
}

impl Asked {
    fn in_round(&self, round: Version) -> Option<Certainty> {
        if round < V1_0 {
            return (self.known == V1_0).then_some(Certainty::Unknown);
        }
        let known = (round >= self.known).then_some(Certainty::Known);
        known.or((round >= self.perhaps).then_some(Certainty::Unknown))
    }
}

/// The keys that the log of such a run has in a round.
pub fn asked(round: Version, run: Run) -> impl Iterator<Item = (&'static str, Certainty)> {
    KEYS.iter().filter_map(move |key| {
        let asked = key.asked.iter().filter(|asked| asked.of.has(run));
        Some((key.name, asked.filter_map(|asked| asked.in_round(round)).max()?))
    })
}

const fn asked_of(of: Of, known: Version) -> Asked {
    Asked { of, known, perhaps: known }
}

const fn perhaps(of: Of, perhaps: Version, known: Version) -> Asked {
    Asked { of, known, perhaps }
}

/// A key that checks look at where it is.
const fn kept(name: &'static str, is: Type) -> Key {
    Key { name, is, asked: &[] }
}

/// In the order of their bytes.
#[rustfmt::skip]
pub(super) const KEYS: [Key; 125] = [
    kept("dyno_continue_trace", Text),
    kept("dyno_early_stopping", Text),
    kept("dyno_result_samples_per_query", Whole),
    kept("dyno_result_target_qps", Number),
    Key { name: "early_stopping_latency_ms", is: Whole, asked: &[asked_of(SingleStream, V2_0), asked_of(MultiStream, V2_0)] },
    Key { name: "early_stopping_latency_ss", is: Whole, asked: &[asked_of(SingleStream, V2_0)] },
    Key { name: "early_stopping_met", is: Flag, asked: &[asked_of(Performance, V2_0)] },
    Key { name: "early_stopping_result", is: Text, asked: &[asked_of(WithoutTokens, V2_0)] },
    Key { name: "early_stopping_tpot_result", is: Text, asked: &[asked_of(WithTokens, V4_0)] },
    Key { name: "early_stopping_ttft_result", is: Text, asked: &[asked_of(WithTokens, V4_0)] },
    Key { name: "effective_accuracy_log_probability", is: Number, asked: &[asked_of(Any, V1_0)] },
    Key { name: "effective_accuracy_log_rng_seed", is: Whole, asked: &[asked_of(Any, V1_0)] },
    Key { name: "effective_accuracy_log_sampling_target", is: Whole, asked: &[asked_of(Any, V1_0)] },
    kept("effective_accuracy_sample_count", Whole),
    kept("effective_max_async_queries", Whole),
    kept("effective_max_duration_ms", Whole),
    kept("effective_max_query_count", Whole),
    Key { name: "effective_min_duration_ms", is: Whole, asked: &[asked_of(Any, V1_0)] },
    Key { name: "effective_min_query_count", is: Whole, asked: &[asked_of(Any, V1_0)] },
    Key { name: "effective_min_sample_count", is: Whole, asked: &[asked_of(Any, V1_0)] },
    Key { name: "effective_performance_issue_same", is: Flag, asked: &[asked_of(Any, V1_0)] },
    Key { name: "effective_performance_issue_same_index", is: Whole, asked: &[asked_of(Any, V1_0)] },
    Key { name: "effective_performance_issue_unique", is: Flag, asked: &[asked_of(Any, V1_0)] },
    Key { name: "effective_performance_sample_count", is: Whole, asked: &[asked_of(Any, V1_0)] },
    kept("effective_print_timestamps", Flag),
    Key { name: "effective_qsl_rng_seed", is: Whole, asked: &[asked_of(Any, V1_0)] },
    Key { name: "effective_sample_concatenate_permutation", is: Flag, asked: &[perhaps(Any, V2_0, V4_1)] },
    Key { name: "effective_sample_index_rng_seed", is: Whole, asked: &[asked_of(Any, V1_0)] },
    Key { name: "effective_samples_per_query", is: Whole, asked: &[asked_of(Any, V1_0)] },
    Key { name: "effective_scenario", is: Text, asked: &[asked_of(Any, V1_0)] },
    Key { name: "effective_schedule_rng_seed", is: Whole, asked: &[asked_of(Any, V1_0)] },
    kept("effective_target_duration_ms", Whole),
    Key { name: "effective_target_latency_ns", is: Whole, asked: &[asked_of(Any, V1_0)] },
    Key { name: "effective_target_latency_percentile", is: Number, asked: &[asked_of(Any, V1_0)] },
    kept("effective_target_qps", Number),
    Key { name: "effective_test_mode", is: Text, asked: &[asked_of(Any, V1_0)] },
    Key { name: "generated_query_count", is: Whole, asked: &[asked_of(Any, V1_0)] },
    kept("generated_query_duration", Whole),
    Key { name: "generated_samples_per_query", is: Whole, asked: &[asked_of(Any, V1_0)] },
    Key { name: "loadgen_version", is: Text, asked: &[asked_of(Any, V1_0)] },
    kept("mean_output_tokens", Number),
    Key { name: "num_errors", is: Whole, asked: &[perhaps(Performance, V4_1, V5_0)] },
    kept("num_warnings", Whole),
    Key { name: "power_begin", is: Time, asked: &[asked_of(Any, V1_0)] },
    Key { name: "power_end", is: Time, asked: &[asked_of(Any, V1_0)] },
    kept("qsl_name", Text),
    kept("qsl_reported_performance_count", Whole),
    Key { name: "qsl_reported_total_count", is: Whole, asked: &[asked_of(Any, V1_0)] },
    kept("requested_accuracy_log_sampling_target", Whole),
    kept("requested_min_duration_ms", Whole),
    kept("requested_min_query_count", Whole),
    kept("requested_performance_issue_same", Flag),
    kept("requested_performance_issue_same_index", Whole),
    kept("requested_performance_issue_unique", Flag),
    kept("requested_performance_sample_count_override", Whole),
    kept("requested_qsl_rng_seed", Whole),
    kept("requested_sample_concatenate_permutation", Flag),
    kept("requested_sample_index_rng_seed", Whole),
    kept("requested_scenario", Text),
    kept("requested_schedule_rng_seed", Whole),
    kept("requested_server_tpot_latency", Whole),
    kept("requested_server_ttft_latency", Whole),
    kept("requested_test_mode", Text),
    kept("requested_use_token_latencies", Flag),
    Key { name: "result_50.00_percentile_latency_ns", is: Whole, asked: &[asked_of(Performance, V1_0)] },
    kept("result_50.00_percentile_num_intervals_between_queries", Whole),
    Key { name: "result_50.00_percentile_per_query_latency_ns", is: Whole, asked: &[asked_of(MultiStream, V1_0)] },
    Key { name: "result_90.00_percentile_latency_ns", is: Whole, asked: &[asked_of(Performance, V1_0)] },
    kept("result_90.00_percentile_num_intervals_between_queries", Whole),
    Key { name: "result_90.00_percentile_per_query_latency_ns", is: Whole, asked: &[asked_of(MultiStream, V1_0)] },
    Key { name: "result_95.00_percentile_latency_ns", is: Whole, asked: &[asked_of(Performance, V1_0)] },
    kept("result_95.00_percentile_num_intervals_between_queries", Whole),
    Key { name: "result_95.00_percentile_per_query_latency_ns", is: Whole, asked: &[asked_of(MultiStream, V1_0)] },
    Key { name: "result_97.00_percentile_latency_ns", is: Whole, asked: &[asked_of(Performance, V1_0)] },
    kept("result_97.00_percentile_num_intervals_between_queries", Whole),
    Key { name: "result_97.00_percentile_per_query_latency_ns", is: Whole, asked: &[asked_of(MultiStream, V1_0)] },
    Key { name: "result_99.00_percentile_latency_ns", is: Whole, asked: &[asked_of(Performance, V1_0)] },
    kept("result_99.00_percentile_num_intervals_between_queries", Whole),
    Key { name: "result_99.00_percentile_per_query_latency_ns", is: Whole, asked: &[asked_of(MultiStream, V1_0)] },
    Key { name: "result_99.90_percentile_latency_ns", is: Whole, asked: &[asked_of(Performance, V1_0)] },
    kept("result_99.90_percentile_num_intervals_between_queries", Whole),
    Key { name: "result_99.90_percentile_per_query_latency_ns", is: Whole, asked: &[asked_of(MultiStream, V1_0)] },
    Key { name: "result_completed_samples_per_sec", is: Number, asked: &[asked_of(Server, V1_0)] },
    kept("result_completed_tokens_per_second", Number),
    kept("result_first_token_50.00_percentile_latency_ns", Whole),
    kept("result_first_token_90.00_percentile_latency_ns", Whole),
    kept("result_first_token_95.00_percentile_latency_ns", Whole),
    kept("result_first_token_97.00_percentile_latency_ns", Whole),
    Key { name: "result_first_token_99.00_percentile_latency_ns", is: Whole, asked: &[asked_of(TimedTokens, V4_0)] },
    Key { name: "result_first_token_99.90_percentile_latency_ns", is: Whole, asked: &[asked_of(TimedTokens, V4_0)] },
    kept("result_first_token_max_latency_ns", Whole),
    kept("result_first_token_mean_latency_ns", Whole),
    kept("result_first_token_min_latency_ns", Whole),
    kept("result_inferred_completed_tokens_per_second", Number),
    kept("result_inferred_tokens_per_second", Number),
    Key { name: "result_max_latency_ns", is: Whole, asked: &[asked_of(Performance, V1_0)] },
    Key { name: "result_max_query_latency_ns", is: Whole, asked: &[perhaps(MultiStream, V1_1, V4_0)] },
    Key { name: "result_mean_latency_ns", is: Whole, asked: &[asked_of(Performance, V1_0)] },
    Key { name: "result_mean_query_latency_ns", is: Whole, asked: &[perhaps(MultiStream, V1_1, V2_0)] },
    Key { name: "result_min_duration_met", is: Flag, asked: &[asked_of(Performance, V1_0)] },
    Key { name: "result_min_latency_ns", is: Whole, asked: &[asked_of(Performance, V1_0)] },
    Key { name: "result_min_queries_met", is: Flag, asked: &[asked_of(Performance, V1_0)] },
    Key { name: "result_min_query_latency_ns", is: Whole, asked: &[perhaps(MultiStream, V1_1, V4_0)] },
    Key { name: "result_overlatency_query_count", is: Whole, asked: &[perhaps(Server, V1_1, V4_0)] },
    Key { name: "result_perf_constraints_met", is: Flag, asked: &[asked_of(Server, V1_0)] },
    Key { name: "result_qps_with_loadgen_overhead", is: Number, asked: &[asked_of(SingleStream, V1_0)] },
    Key { name: "result_qps_without_loadgen_overhead", is: Number, asked: &[asked_of(SingleStream, V1_0)] },
    Key { name: "result_query_count", is: Whole, asked: &[asked_of(Performance, V2_0)] },
    Key { name: "result_samples_per_second", is: Number, asked: &[asked_of(Offline, V1_0)] },
    Key { name: "result_scheduled_samples_per_sec", is: Number, asked: &[asked_of(Server, V1_0)] },
    kept("result_time_per_output_token_50.00_percentile_ns", Whole),
    kept("result_time_per_output_token_90.00_percentile_ns", Whole),
    kept("result_time_per_output_token_95.00_percentile_ns", Whole),
    kept("result_time_per_output_token_97.00_percentile_ns", Whole),
    Key { name: "result_time_per_output_token_99.00_percentile_ns", is: Whole, asked: &[asked_of(TimedTokens, V4_0)] },
    Key { name: "result_time_per_output_token_99.90_percentile_ns", is: Whole, asked: &[asked_of(TimedTokens, V4_0)] },
    kept("result_time_to_output_token_max", Whole),
    kept("result_time_to_output_token_mean", Whole),
    kept("result_time_to_output_token_min", Whole),
    kept("result_token_throughput", Number),
    kept("result_token_throughput_with_loadgen_overhead", Number),
    Key { name: "result_tokens_per_second", is: Number, asked: &[asked_of(OfflineTokens, V4_0)] },
    Key { name: "result_validity", is: Text, asked: &[asked_of(Performance, V1_0)] },
    Key { name: "sut_name", is: Text, asked: &[asked_of(Any, V1_0)] },
    Key { name: "test_datetime", is: Text, asked: &[asked_of(Any, V1_0)] },
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

/// Where to begin to look for a key: by its length and the bytes of its begin, middle
/// and end, which tell most keys apart.
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

/// Place of a key in the table.
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
        for (at, Key { name: key, .. }) in KEYS.iter().enumerate() {
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
        let server = Run::Performance { played: Some(Scenario::Server), has_tokens: false };
        let of = |round: Version, run: Run, key: &str| {
            asked(round, run).find(|(name, _)| *name == key).map(|(_, certainty)| certainty)
        };
        for (key, round, certainty) in [
            ("result_validity", Version::new(0, 7), Some(Certainty::Unknown)),
            ("result_validity", V1_0, Some(Certainty::Known)),
            ("early_stopping_met", V1_1, None),
            ("early_stopping_met", V2_0, Some(Certainty::Known)),
            ("result_overlatency_query_count", V1_0, None),
            ("result_overlatency_query_count", V2_0, Some(Certainty::Unknown)),
            ("result_overlatency_query_count", V4_0, Some(Certainty::Known)),
            ("num_errors", V4_0, None),
            ("num_errors", V4_1, Some(Certainty::Unknown)),
            ("num_errors", V5_0, Some(Certainty::Known)),
        ] {
            assert_eq!(of(round, server, key), certainty, "{key} {round}");
        }
        assert_eq!(of(V1_0, Run::Accuracy, "power_end"), Some(Certainty::Known));
        assert_eq!(of(V5_0, Run::Accuracy, "result_validity"), None);
        let known = |round| asked(round, server).filter(|(_, one)| *one == Certainty::Known);
        let counts = [V1_0, V2_0, V4_0, V4_1, V5_0].map(|round| known(round).count());
        assert!(counts.is_sorted(), "{counts:?}");
    }
}
