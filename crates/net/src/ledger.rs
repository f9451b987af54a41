//! The account of an answer: its class, its tokens, the source of each count, and contradictions
//! between counts.
//!
//! A [`Reader`](crate::protocol::Reader) of a text protocol creates one [`Entry`] per answer.
//! [`Client::ledger`](crate::client::Client::ledger) returns those of a run.
//!
//! ```
//! use dyno_net::ledger::{AcceptedClasses, Class, settle};
//!
//! let mut accepted = AcceptedClasses::default();
//! assert!(accepted.insert("empty"));
//! assert!(settle(Class::Empty, accepted, || "no output".into()).is_ok());
//! assert!(settle(Class::Cut, accepted, || "ended early".into()).is_err());
//! ```

mod flags;

use dyno_loadgen::clock::Nanos;
use serde::{Deserialize, Serialize};

use crate::protocol::TokenCounter;
use crate::trouble::{Kind, Trouble};

pub use flags::{Flag, Flags};

dyno_loadgen::named_enum! {
    /// Class of an answer. Only a whole answer is a success, unless a setting accepts its class.
    #[derive(
        Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
    )]
    pub enum Class {
        /// Every choice holds output and is finished.
        #[default]
        Whole = "whole",
        /// There is no output, or a choice without output.
        Empty = "empty",
        /// The answer ended before every choice was finished.
        Cut = "cut",
        /// The server gave up on it: a finish reason such as `abort` or `error`.
        Aborted = "aborted",
        /// A filter stopped it: a finish reason such as `content_filter`.
        Filtered = "filtered",
        /// The server reports an error within the answer.
        InBand = "error",
        /// It has fewer tokens than the request demanded.
        Short = "short",
    }
}

impl Class {
    /// Returns the kind of trouble of an answer of this class; `None` for a whole one.
    pub fn trouble(self) -> Option<Kind> {
        Some(match self {
            Self::Whole => return None,
            Self::Empty => Kind::Empty,
            Self::Cut => Kind::Cut,
            Self::Aborted => Kind::Aborted,
            Self::Filtered => Kind::Filtered,
            Self::InBand => Kind::InBand,
            Self::Short => Kind::Short,
        })
    }
}

/// Classes that count as success beside whole answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AcceptedClasses(u8);

impl AcceptedClasses {
    /// Names of the classes that a setting can accept.
    pub const NAMES: [&'static str; 5] = ["empty", "cut", "aborted", "filtered", "short"];

    /// Adds the class of this name; returns false if it is not in [`NAMES`](Self::NAMES).
    pub fn insert(&mut self, name: &str) -> bool {
        let class = Class::ALL.into_iter().find(|class| class.name() == name);
        match class.filter(|_| Self::NAMES.contains(&name)) {
            Some(class) => {
                self.0 |= 1 << class as u8;
                true
            }
            None => false,
        }
    }

    /// Returns whether an answer of this class counts as success.
    pub fn contains(self, class: Class) -> bool {
        class == Class::Whole || self.0 & (1 << class as u8) != 0
    }

    /// Iterates over the accepted classes except whole.
    pub fn iter(self) -> impl Iterator<Item = Class> {
        Class::ALL.into_iter().filter(move |class| self.0 & (1 << *class as u8) != 0)
    }
}

/// Why an answer ended.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub enum Finish {
    /// The server did not state it.
    #[default]
    Unstated,
    /// `stop`, and vendor-specific synonyms.
    Stop,
    /// `length`: the limit of tokens.
    Length,
    /// `tool_calls`, `function_call`.
    Tools,
    /// A filter.
    Filter,
    /// The server gave up.
    Abort,
}

impl Finish {
    /// Returns the meaning of a finish reason. Each vendor has reasons of its own for failures and
    /// filters, whose words show what they are. Other unknown reasons end an answer as `stop` does.
    pub(crate) fn of_reason(reason: &str) -> Self {
        const FILTERS: &str = "filter safety recitation blocklist blocked prohibited sensitive \
            guardrail refusal toxic spii moderation censor model_armor";
        const ABORTS: &str = "abort error cancel fail interrupt timeout timed_out time_limit \
            overload insufficient malformed unexpected too_many_tool_calls exception preempt \
            killed crash disconnect out_of_memory unavailable shutdown";
        // Gemini writes its own reasons in capitals; other servers end answers of any kind with "other".
        match reason {
            "FINISH_REASON_UNSPECIFIED" => return Self::Unstated,
            "OTHER" | "LANGUAGE" | "NO_IMAGE" | "IMAGE_OTHER" | "MISSING_THOUGHT_SIGNATURE" => {
                return Self::Abort;
            }
            _ => {}
        }
        let reason = reason.trim().to_ascii_lowercase().replace(['-', ' '], "_");
        // Some vendors write the words of a reason without anything between them.
        let joined = reason.replace('_', "");
        let has_one = |words: &str| {
            words.split(' ').any(|word| reason.contains(word) || joined == word.replace('_', ""))
        };
        let is_oom = || reason.split(|c: char| !c.is_alphanumeric()).any(|word| word == "oom");
        match &*reason {
            // Some servers write the missing reason of a part as a text.
            "" | "null" | "none" => Self::Unstated,
            "length"
            | "max_tokens"
            | "max_output_tokens"
            | "max_length"
            | "model_length"
            | "token_limit"
            | "model_context_window_exceeded" => Self::Length,
            "tool_calls" | "tool_call" | "function_call" | "tool_use" => Self::Tools,
            _ if has_one(FILTERS) => Self::Filter,
            _ if has_one(ABORTS) || is_oom() => Self::Abort,
            _ => Self::Stop,
        }
    }
}

dyno_loadgen::named_enum! {
    /// Counts of an answer that cannot all be right.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Contradiction {
        /// Usage counts no output tokens, and there is output.
        NoTokens = "no_tokens",
        /// Usage counts more output tokens than the output has bytes: those of one answer, or of a run.
        MoreTokensThanBytes = "more_tokens_than_bytes",
        /// Usage counts fewer output tokens than parts with output.
        FewerTokensThanParts = "fewer_tokens_than_parts",
        /// The count of output tokens goes down from one part to the next.
        Decreasing = "decreasing",
        /// Usage counts more reasoning tokens than output tokens.
        ReasoningExceedsOutput = "reasoning_exceeds_output",
        /// Usage counts more cached tokens than input tokens.
        CachedExceedsInput = "cached_exceeds_input",
        /// Input and output do not sum to the total.
        TotalDiffers = "total_differs",
    }
}

dyno_loadgen::named_enum! {
    /// A peculiarity of a server that changes no figure.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Oddity {
        /// A member of usage is missing or null.
        PartialUsage = "usage lacks a member",
        /// A count is written as a number with a fraction or an exponent.
        FloatCount = "usage counts with fractions",
        /// A count is written as a string.
        TextCount = "usage counts as strings",
        /// A member of usage is not a count: negative, fractional, too large, or of another type.
        NoCount = "usage has a value that is not a count",
        /// The last usage counts nothing, but an earlier one does.
        ZeroLast = "the last usage has no counts",
        /// Usage came behind `[DONE]`.
        LateUsage = "usage after [DONE]",
        /// A stream without `[DONE]`.
        NoDone = "no [DONE]",
        /// An answer without a finish reason.
        NoFinishReason = "no finish_reason",
        /// Content is a list of parts.
        ContentParts = "content as a list of parts",
        /// A stream was requested, and a whole answer came.
        NoStream = "a whole answer instead of a stream",
        /// The content type is not that of the body.
        ContentType = "a content type that does not match the body",
        /// `[DONE]` has another spelling, or blanks around it.
        OtherDone = "another spelling of [DONE], or blanks around it",
        /// Events that only keep the connection open.
        SignsOfLife = "keep-alive events",
        /// A part of a stream without `choices`.
        NoChoices = "a part without choices",
        /// A byte order mark before the answer or its events.
        ByteOrderMark = "a byte order mark",
        /// In a live session: calls of tools that are not those whose results were recorded.
        OtherTools = "tool calls that differ from the recorded ones",
        /// Usage counts thoughts beside the output tokens; the total shows it.
        ThoughtsBeside = "usage counts thoughts beside the output",
        /// The total exceeds input and output, and no thoughts are stated.
        LargerTotal = "a total above input and output tokens",
        /// Usage is a member of a choice.
        ChoiceUsage = "usage within a choice",
        /// Usage of a part counts the tokens of this part alone.
        PartUsage = "usage of each part alone",
        /// Usage counts a few more output tokens than the output has bytes.
        InvisibleTokens = "usage counts tokens without text",
        /// Events that no empty line separates, or that are no data by the standard.
        JoinedEvents = "events without an empty line or without data:",
        /// An error that is empty or 0.
        EmptyError = "an empty error",
        /// Usage counts no input tokens, although the request has input.
        NoInput = "usage counts no input tokens",
        /// Output came behind `[DONE]`.
        LateOutput = "output after [DONE]",
        /// Parts of a stream repeat the text so far.
        RepeatedText = "parts that repeat the text so far",
    }
}

impl Flag for Contradiction {
    const ALL: &'static [Self] = &Self::ALL;

    fn position(self) -> u16 {
        self as u16
    }
}

impl Flag for Oddity {
    const ALL: &'static [Self] = &Self::ALL;

    fn position(self) -> u16 {
        self as u16
    }
}

/// Demands of a request on its answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Demand {
    /// Maximum number of output tokens of each choice.
    pub most: Option<u32>,
    /// Minimum number of output tokens of each choice: `min_tokens`, or the maximum with
    /// `ignore_eos`.
    pub least: Option<u32>,
    /// Choices (>= 1).
    pub choices: u16,
}

/// Output tokens that are counted and did not come with the output of a stream, such as thoughts that
/// the server does not show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HiddenTokens {
    /// Every token came with the output.
    #[default]
    None,
    /// This many (> 0) did not.
    Some(u32),
    /// Some did not, and it is unknown how many.
    Unknown,
}

impl HiddenTokens {
    /// Returns how many of `tokens` came with the output; `None` if this is unknown.
    pub fn timed(self, tokens: i64) -> Option<i64> {
        match self {
            Self::None => Some(tokens),
            Self::Some(hidden) => Some(tokens.saturating_sub(hidden.into()).max(0)),
            Self::Unknown => None,
        }
    }
}

/// The account of an answer. Counts are of all its choices. Workers send it to their coordinator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Entry {
    /// Its class.
    pub class: Class,
    /// Input tokens, as the server counts them.
    pub input: Option<u32>,
    /// Input tokens that the server took from its cache, as it counts them.
    pub cached: Option<u32>,
    /// Output tokens that are thoughts, as the server counts them.
    pub reasoning: Option<u32>,
    /// Output tokens.
    pub output: Option<u32>,
    /// Source of the count of output tokens.
    pub counted_by: TokenCounter,
    /// Output tokens that the server claims.
    pub claimed: Option<u32>,
    /// Total of tokens that the server claims.
    pub total: Option<u32>,
    /// What the request demanded.
    pub demand: Demand,
    /// Reason for the end; the worst reason of several choices.
    pub finish: Finish,
    /// Choices that came.
    pub choices: u16,
    /// Choices that are finished.
    pub finished: u16,
    /// Images that came; 0 of a text.
    pub images: u16,
    /// Parts with output; 0 of a whole answer.
    pub parts: u32,
    /// Calls of tools, in live sessions.
    pub tool_calls: u32,
    /// Bytes of output.
    pub bytes: u32,
    /// Output tokens that did not come with the output of the stream.
    pub hidden: HiddenTokens,
    /// Most counted output tokens without bytes: hidden thoughts, ends of choices, markup of calls.
    pub unseen: u32,
    /// Counts that cannot all be right.
    pub contradictions: Flags<Contradiction>,
    /// Peculiarities.
    pub oddities: Flags<Oddity>,
    /// Time at which its end was read, in ns since the start of the run; 0 before that.
    pub ended_at: Nanos,
    /// One read brought the first output together with later data: the kernel has only the time of
    /// the latter.
    pub is_first_joined: bool,
    /// One read brought the last output together with later data, such as `[DONE]`.
    pub is_last_joined: bool,
}

impl Entry {
    /// Returns whether its count of output tokens rests on a contradiction that no tokenizer
    /// resolved.
    pub fn is_output_doubtful(&self) -> bool {
        self.counted_by != TokenCounter::Tokenizer
            && self.contradictions.iter().any(|flag| flag != Contradiction::CachedExceedsInput)
    }

    /// Returns whether its count of input tokens rests on a contradiction.
    pub fn is_input_doubtful(&self) -> bool {
        [Contradiction::CachedExceedsInput, Contradiction::TotalDiffers]
            .into_iter()
            .any(|flag| self.contradictions.contains(flag))
    }
}

impl Contradiction {
    /// Describes this contradiction with the numbers of an answer that has it.
    pub fn example(self, entry: &Entry) -> String {
        let count = |count: Option<u32>| count.map_or_else(|| "no".into(), |n| n.to_string());
        let (claimed, input) = (count(entry.claimed), count(entry.input));
        match self {
            Self::NoTokens | Self::MoreTokensThanBytes => {
                format!("usage counts {claimed} output tokens for {} bytes of output", entry.bytes)
            }
            Self::FewerTokensThanParts => {
                format!(
                    "usage counts {claimed} output tokens for {} parts with output",
                    entry.parts
                )
            }
            Self::Decreasing => {
                format!("the count of output tokens decreases between parts, to {claimed}")
            }
            Self::ReasoningExceedsOutput => format!(
                "usage counts {} reasoning tokens among {claimed} output tokens",
                count(entry.reasoning)
            ),
            Self::CachedExceedsInput => format!(
                "usage counts {} cached tokens among {input} input tokens",
                count(entry.cached)
            ),
            Self::TotalDiffers => format!(
                "usage counts {input} input and {claimed} output tokens, and a total of {}",
                count(entry.total)
            ),
        }
    }
}

/// Returns the trouble of an answer of this class unless the class is accepted.
///
/// # Errors
/// The trouble of a class that is not accepted.
pub fn settle(
    class: Class,
    accepted: AcceptedClasses,
    words: impl FnOnce() -> String,
) -> Result<(), Trouble> {
    match class.trouble() {
        Some(kind) if !accepted.contains(class) => Err(Trouble::new(kind, words())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[test]
    fn flags_have_their_positions_in_the_list() {
        fn check<F: Flag + PartialEq + fmt::Debug>() {
            for (at, flag) in F::ALL.iter().enumerate() {
                assert_eq!(usize::from(flag.position()), at, "{flag:?}");
                let mut flags = Flags::default();
                flags.insert(*flag);
                assert_eq!(flags.iter().collect::<Vec<_>>(), [*flag]);
            }
        }
        check::<Contradiction>();
        check::<Oddity>();
    }

    #[test]
    fn only_classes_of_answers_can_be_accepted() {
        let mut accepted = AcceptedClasses::default();
        assert!(accepted.contains(Class::Whole) && !accepted.contains(Class::Empty));
        assert!(accepted.insert("empty") && accepted.contains(Class::Empty));
        for name in ["whole", "error", "Empty", ""] {
            assert!(!accepted.insert(name), "{name}");
        }
        assert_eq!(accepted.iter().collect::<Vec<_>>(), [Class::Empty]);
    }

    #[test]
    fn reasons_of_vendors_end_an_answer_and_those_of_failure_do_not() {
        for (reason, finish) in [
            ("stop", Finish::Stop),
            ("eos", Finish::Stop),
            ("eos_token", Finish::Stop),
            ("stop_sequence", Finish::Stop),
            ("STOP", Finish::Stop),
            ("length", Finish::Length),
            ("MAX_TOKENS", Finish::Length),
            ("model_length", Finish::Length),
            ("tool_calls", Finish::Tools),
            ("TOOL_CALL", Finish::Tools),
            ("MALFORMED_FUNCTION_CALL", Finish::Abort),
            ("USER_CANCEL", Finish::Abort),
            ("ERROR_TOXIC", Finish::Filter),
            ("SPII", Finish::Filter),
            ("abort", Finish::Abort),
            ("Error", Finish::Abort),
            ("cancelled", Finish::Abort),
            ("network_error", Finish::Abort),
            ("content_filter", Finish::Filter),
            ("SAFETY", Finish::Filter),
            ("ContentFilter", Finish::Filter),
            ("content-filter", Finish::Filter),
            ("MODEL_ARMOR", Finish::Filter),
            ("IMAGE_PROHIBITED_CONTENT", Finish::Filter),
            ("OTHER", Finish::Abort),
            ("LANGUAGE", Finish::Abort),
            ("MALFORMED_RESPONSE", Finish::Abort),
            ("FINISH_REASON_UNSPECIFIED", Finish::Unstated),
            ("other", Finish::Stop),
            ("moderation", Finish::Filter),
            ("blocked", Finish::Filter),
            ("abort: OOM", Finish::Abort),
            ("engine_error", Finish::Abort),
            ("client_abort", Finish::Abort),
            ("exception", Finish::Abort),
            ("preempted", Finish::Abort),
            ("killed", Finish::Abort),
            ("disconnected", Finish::Abort),
            ("out of memory", Finish::Abort),
            ("OutOfMemory", Finish::Abort),
            ("cuda_oom", Finish::Abort),
            ("TimedOut", Finish::Abort),
            ("service_unavailable", Finish::Abort),
            ("end_turn", Finish::Stop),
            ("pause_turn", Finish::Stop),
            ("COMPLETE", Finish::Stop),
            ("length_limit", Finish::Stop),
            ("no_room", Finish::Stop),
            ("TooManyTokens", Finish::Stop),
            ("", Finish::Unstated),
            ("null", Finish::Unstated),
            ("None", Finish::Unstated),
        ] {
            assert_eq!(Finish::of_reason(reason), finish, "{reason}");
        }
    }
}
