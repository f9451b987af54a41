//! Answers of a text server by class, and their tokens with the source of each count.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::metrics::Distribution;

/// Samples of a server of texts by what became of them. Only a whole answer is a success, unless
/// `accept-answers` accepts its class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Answers {
    /// every choice holds output and is finished
    pub whole: u64,
    /// no output, or a choice without output
    pub empty: u64,
    /// ended before every choice was finished
    pub cut: u64,
    /// the server gave up on it, such as finish_reason `abort`
    pub aborted: u64,
    /// a filter stopped it, such as finish_reason `content_filter`
    pub filtered: u64,
    /// the server reports an error within the answer
    pub error: u64,
    /// fewer tokens than the request demanded
    pub short: u64,
    /// no answer: failed on the wire, or with a status of an error
    pub failed_on_the_wire: u64,
    /// classes that count as success beside whole, where such answers came
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accepted: Vec<String>,
    /// answers by why they ended, as the server states it: `stop`, `length`, `tool_calls`,
    /// `content_filter`, `abort`, or `not stated`; of several choices the worst
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub finish_reasons: BTreeMap<String, u64>,
    /// peculiarities of the server that change no figure, by the number of answers
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub oddities: BTreeMap<String, u64>,
    /// end of the stream - scheduled time, of answers that came as a stream; the latency ends at
    /// the last output
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_of_stream_ns: Option<Distribution>,
}

/// Tokens of answered samples. A count is null where an answer does not have it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Tokens {
    /// input tokens, as the server counts them
    pub input: Option<u64>,
    /// input tokens from the cache of the server; null where no answer states them
    pub cached: Option<u64>,
    /// output tokens
    pub output: Option<u64>,
    /// output tokens that are thoughts; null where no answer states them
    pub reasoning: Option<u64>,
    /// input + output
    pub total: Option<u64>,
    /// input / the time until the last query issued was done (Offline: the longest latency)
    pub input_per_s: Option<f64>,
    /// output / the same time
    pub output_per_s: Option<f64>,
    /// total / the same time
    pub total_per_s: Option<f64>,
    /// answers by the source of their count of output tokens: `server` (usage), `tokenizer`,
    /// `events` (one for each part with output) or `nobody`
    pub output_counted_by: BTreeMap<String, u64>,
    /// answers by the source of their count of input tokens: `server` (usage) or `nobody`
    pub input_counted_by: BTreeMap<String, u64>,
    /// what the requests limited and what was delivered; null where no request has a limit
    pub lengths: Option<Lengths>,
    /// counts that cannot all be right, by kind
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

/// Answers with one kind of contradiction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Contradiction {
    /// how many
    pub answers: u64,
    /// the first of them
    pub first: String,
}

impl Answers {
    /// Returns the count of each class, with its key.
    pub fn by_class(&self) -> [(&'static str, u64); 8] {
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
