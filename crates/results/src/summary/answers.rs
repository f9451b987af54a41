//! Answers of a text server by class, and their tokens with the source of each count.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::metrics::Distribution;

/// Samples of a text server by outcome. Only a complete answer is a success, unless
/// `accept-answers` accepts its class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Answers {
    /// every choice has output and is finished
    pub whole: u64,
    /// no output, or a choice without output
    pub empty: u64,
    /// ended before every choice was finished
    pub cut: u64,
    /// the server aborted it, such as finish_reason `abort`
    pub aborted: u64,
    /// a filter stopped it, such as finish_reason `content_filter`
    pub filtered: u64,
    /// the server reports an error within the answer
    pub error: u64,
    /// fewer tokens than the request demanded
    pub short: u64,
    /// no answer: failed on the wire, or with an error status
    pub failed_on_the_wire: u64,
    /// further classes that count as success, if such answers occurred
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accepted: Vec<String>,
    /// answers by their finish reason, as the server states it: `stop`, `length`, `tool_calls`,
    /// `content_filter`, `abort`, or `not stated`; the worst of several choices
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub finish_reasons: BTreeMap<String, u64>,
    /// peculiarities of the server that do not affect figures, with the number of answers
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub oddities: BTreeMap<String, u64>,
    /// end of the stream - scheduled time, of answers that came as a stream; the latency ends at
    /// the last output
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_of_stream_ns: Option<Distribution>,
}

/// Tokens of answered samples. A count is null if an answer lacks it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Tokens {
    /// input tokens, as the server counts them
    pub input: Option<u64>,
    /// input tokens from the cache of the server; null if no answer states them
    pub cached: Option<u64>,
    /// output tokens
    pub output: Option<u64>,
    /// reasoning tokens among the output tokens; null if no answer states them
    pub reasoning: Option<u64>,
    /// input + output
    pub total: Option<u64>,
    /// input / the time until the last issued query completed (Offline: the longest latency)
    pub input_per_s: Option<f64>,
    /// output / the same time
    pub output_per_s: Option<f64>,
    /// total / the same time
    pub total_per_s: Option<f64>,
    /// answers by the source of their output token count: `server` (usage), `tokenizer`, `events`
    /// (one for each part with output) or `nobody` (no count)
    pub output_counted_by: BTreeMap<String, u64>,
    /// answers by the source of their input token count: `server` (usage) or `nobody` (no count)
    pub input_counted_by: BTreeMap<String, u64>,
    /// requested and delivered lengths; null if no request has a limit
    pub lengths: Option<Lengths>,
    /// inconsistent counts, by kind
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub contradictions: BTreeMap<String, Contradiction>,
}

/// Requested and delivered lengths of answers whose request has a limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Lengths {
    /// answers with a limit and a count of output tokens
    pub answers: u64,
    /// mean output tokens that a request allows
    pub requested: f64,
    /// mean output tokens that an answer has
    pub delivered: f64,
    /// answers with fewer output tokens than the request allows
    pub shorter: u64,
}

/// Answers with one kind of inconsistent counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Contradiction {
    /// number of them
    pub answers: u64,
    /// the first of them
    pub first: String,
}

impl Answers {
    /// Returns the count of each class, with its key.
    pub(crate) fn by_class(&self) -> [(&'static str, u64); 8] {
        [
            ("whole", self.whole),
            ("empty", self.empty),
            ("cut", self.cut),
            ("aborted", self.aborted),
            ("filtered", self.filtered),
            ("error", self.error),
            ("short", self.short),
            ("failed_on_the_wire", self.failed_on_the_wire),
        ]
    }

    /// Returns the classes that have answers, such as `12 whole, 3 empty`.
    pub fn list(&self) -> String {
        let classes = self.by_class().into_iter().filter(|(_, count)| *count > 0);
        let shown = |key| match key {
            "error" => "with an error in the answer",
            "failed_on_the_wire" => "failed on the wire",
            key => key,
        };
        let classes = classes.map(|(key, n)| format!("{} {}", crate::units::count(n), shown(key)));
        classes.collect::<Vec<_>>().join(", ")
    }
}
