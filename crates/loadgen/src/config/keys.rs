//! Keys of `.conf` files: the field that each sets, how its value is parsed, and which files may
//! set it.

use super::ConfType;
use super::number::{strtod, strtoull};
use crate::settings::{Scenario, TestMode, TestSettings};

/// Key: the last part of `model.scenario.name`.
pub(super) struct Key {
    pub name: &'static str,
    /// Scenario under which it is looked up; `None` is the scenario of the test.
    pub scenario: Option<Scenario>,
    /// Whether only the built-in table may set it.
    built_in_only: bool,
    /// Field that must be true for this key to be read.
    pub needs: Option<Flag>,
    /// Field of [`TestSettings`].
    pub field: &'static str,
    pub reads: ValueReader,
}

/// Field that enables another key.
#[derive(Clone, Copy)]
pub(super) struct Flag {
    pub name: &'static str,
    pub is_set: fn(&TestSettings) -> bool,
}

/// How a value is parsed. Factors convert the unit of the key to that of the field.
pub(super) enum ValueReader {
    /// 0 to 3, in the order of [`TestMode::ALL`].
    Mode,
    /// 1 is true, other values are false.
    One(fn(&mut TestSettings) -> &mut bool),
    /// 0 is false, other values are true.
    NonZero(fn(&mut TestSettings) -> &mut bool),
    /// A whole number.
    Whole(fn(&mut TestSettings) -> &mut u64, u64),
    /// A whole number that is converted through a C `int`: 2^32 - 1 becomes 2^64 - 1.
    Int(fn(&mut TestSettings) -> &mut u64),
    /// A number.
    Number(fn(&mut TestSettings) -> &mut f64, f64),
}

const MS_TO_NS: u64 = 1_000_000;
const MS_TO_NS_F64: f64 = 1e6;
const PERCENT: f64 = 0.01;

const fn key(name: &'static str, field: &'static str, reads: ValueReader) -> Key {
    Key { name, scenario: None, built_in_only: false, needs: None, field, reads }
}

impl Key {
    const fn under(mut self, scenario: Scenario) -> Self {
        self.scenario = Some(scenario);
        self
    }

    const fn built_in_only(mut self) -> Self {
        self.built_in_only = true;
        self
    }

    const fn needs(mut self, flag: Flag) -> Self {
        self.needs = Some(flag);
        self
    }

    /// Returns whether a configuration of this type may set it.
    pub fn is_read_from(&self, conf_type: ConfType) -> bool {
        conf_type == ConfType::BuiltIn || !self.built_in_only
    }

    /// Returns whether a row under this scenario word, `*` included, can set it.
    pub fn is_read_under(&self, word: &str) -> bool {
        word == "*" || self.scenario.is_none_or(|scenario| scenario.name() == word)
    }

    /// Returns the whole number that this key parses from a text; `None` if the key has other
    /// values.
    pub fn whole(&self, text: &str) -> Option<u64> {
        (!matches!(self.reads, ValueReader::Number(..))).then(|| strtoull(text).0)
    }

    /// Sets the field; returns false for an unknown mode.
    pub fn set(&self, settings: &mut TestSettings, text: &str) -> bool {
        let whole = strtoull(text).0;
        match &self.reads {
            ValueReader::Mode => {
                let mode = usize::try_from(whole).ok().and_then(|at| TestMode::ALL.get(at));
                settings.mode = *mode.unwrap_or(&settings.mode);
                return mode.is_some();
            }
            ValueReader::One(field) => *field(settings) = whole == 1,
            ValueReader::NonZero(field) => *field(settings) = whole != 0,
            ValueReader::Whole(field, factor) => *field(settings) = whole.wrapping_mul(*factor),
            ValueReader::Int(field) => *field(settings) = through_int(whole),
            ValueReader::Number(field, factor) => *field(settings) = strtod(text).0 * factor,
        }
        true
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the reference's conversion"
)]
fn through_int(whole: u64) -> u64 {
    whole as i32 as u64
}

const MEASURES_TOKENS: Flag =
    Flag { name: "use_token_latencies", is_set: |s| s.use_token_latencies };
const INFERS_TOKENS: Flag =
    Flag { name: "infer_token_latencies", is_set: |s| s.infer_token_latencies };

use Scenario::{MultiStream, Offline, Server, SingleStream};
use ValueReader::{Int, Mode, NonZero, Number, One, Whole};

/// All keys. A key that another key needs precedes it.
///
/// Source: SPEC section 2.4.
#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    key("qsl_rng_seed", "qsl_rng_seed", Whole(|s| &mut s.qsl_rng_seed, 1)).built_in_only(),
    key("sample_index_rng_seed", "sample_index_rng_seed", Whole(|s| &mut s.sample_index_rng_seed, 1)).built_in_only(),
    key("schedule_rng_seed", "schedule_rng_seed", Whole(|s| &mut s.schedule_rng_seed, 1)).built_in_only(),
    key("accuracy_log_probability", "accuracy_log_probability", Number(|s| &mut s.accuracy_log_probability, PERCENT)).built_in_only(),
    key("test05", "test05", One(|s| &mut s.test05)).built_in_only(),
    key("test05_qsl_rng_seed", "test05_qsl_rng_seed", Whole(|s| &mut s.test05_qsl_rng_seed, 1)).built_in_only(),
    key("test05_sample_index_rng_seed", "test05_sample_index_rng_seed", Whole(|s| &mut s.test05_sample_index_rng_seed, 1)).built_in_only(),
    key("test05_schedule_rng_seed", "test05_schedule_rng_seed", Whole(|s| &mut s.test05_schedule_rng_seed, 1)).built_in_only(),

    key("mode", "mode", Mode),
    key("use_token_latencies", "use_token_latencies", One(|s| &mut s.use_token_latencies)),
    key("ttft_latency", "server_ttft_latency", Whole(|s| &mut s.server_ttft_latency, MS_TO_NS)).under(Server).needs(MEASURES_TOKENS),
    key("tpot_latency", "server_tpot_latency", Whole(|s| &mut s.server_tpot_latency, MS_TO_NS)).under(Server).needs(MEASURES_TOKENS),
    key("infer_token_latencies", "infer_token_latencies", One(|s| &mut s.infer_token_latencies)),
    key("token_latency_scaling_factor", "token_latency_scaling_factor", Whole(|s| &mut s.token_latency_scaling_factor, 1)).needs(INFERS_TOKENS),

    key("target_latency_percentile", "single_stream_target_latency_percentile", Number(|s| &mut s.single_stream_target_latency_percentile, PERCENT)).under(SingleStream),
    key("target_latency_percentile", "multi_stream_target_latency_percentile", Number(|s| &mut s.multi_stream_target_latency_percentile, PERCENT)).under(MultiStream),
    key("target_latency_percentile", "server_target_latency_percentile", Number(|s| &mut s.server_target_latency_percentile, PERCENT)).under(Server),
    key("target_latency", "single_stream_expected_latency_ns", Number(|s| &mut s.single_stream_expected_latency_ns, MS_TO_NS_F64)).under(SingleStream),
    key("target_latency", "multi_stream_expected_latency_ns", Number(|s| &mut s.multi_stream_expected_latency_ns, MS_TO_NS_F64)).under(MultiStream),
    key("target_latency", "server_target_latency_ns", Whole(|s| &mut s.server_target_latency_ns, MS_TO_NS)).under(Server),
    key("samples_per_query", "multi_stream_samples_per_query", Whole(|s| &mut s.multi_stream_samples_per_query, 1)).under(MultiStream),
    key("target_qps", "server_target_qps", Number(|s| &mut s.server_target_qps, 1.0)).under(Server),
    key("target_qps", "offline_expected_qps", Number(|s| &mut s.offline_expected_qps, 1.0)).under(Offline),
    key("coalesce_queries", "server_coalesce_queries", NonZero(|s| &mut s.server_coalesce_queries)).under(Server),
    key("max_async_queries", "server_max_async_queries", Int(|s| &mut s.server_max_async_queries)).under(Server),

    key("min_duration", "min_duration_ms", Whole(|s| &mut s.min_duration_ms, 1)),
    key("max_duration", "max_duration_ms", Whole(|s| &mut s.max_duration_ms, 1)),
    key("min_query_count", "min_query_count", Whole(|s| &mut s.min_query_count, 1)),
    key("max_query_count", "max_query_count", Whole(|s| &mut s.max_query_count, 1)),
    key("performance_issue_unique", "performance_issue_unique", NonZero(|s| &mut s.performance_issue_unique)),
    key("performance_issue_same", "performance_issue_same", NonZero(|s| &mut s.performance_issue_same)),
    key("performance_issue_same_index", "performance_issue_same_index", Whole(|s| &mut s.performance_issue_same_index, 1)),
    key("performance_sample_count_override", "performance_sample_count_override", Whole(|s| &mut s.performance_sample_count_override, 1)),
    key("accuracy_sample_count_override", "accuracy_sample_count_override", Whole(|s| &mut s.accuracy_sample_count_override, 1)),
    key("sample_concatenate_permutation", "sample_concatenate_permutation", One(|s| &mut s.sample_concatenate_permutation)),
    key("print_timestamps", "print_timestamps", NonZero(|s| &mut s.print_timestamps)),
    key("accuracy_log_rng_seed", "accuracy_log_rng_seed", Whole(|s| &mut s.accuracy_log_rng_seed, 1)),
    key("accuracy_log_sampling_target", "accuracy_log_sampling_target", Whole(|s| &mut s.accuracy_log_sampling_target, 1)),
];
