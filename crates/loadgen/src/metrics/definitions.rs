//! Two definitions of token metrics and of completed rates; `docs/fidelity.md` compares them.

use super::{Pace, gaps, span};
use crate::clock::Nanos;
use crate::plan::Plan;
use crate::record::Record;

/// Definitions of the token count, of the time per output token and of completed rates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Definitions {
    /// Definitions of LoadGen, for logs in its format, the drop-in, and runs under the rules: a
    /// count below 2 is 0 tokens, and the time per output token is then negative.
    #[default]
    Reference,
    /// Each token counts. The time per output token is the mean time between the first token and
    /// the last; it is defined for at least two tokens at different times, and does not count tokens
    /// that came in another time ([`Record::timed_tokens`]). Completed rates are those of
    /// the system under the load: they include neither the fill at its start nor the drain at its end.
    Native,
}

impl Definitions {
    /// Returns the name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Native => "native",
        }
    }

    /// Returns the time per output token in ns of a sample with `tokens` tokens, whose first token
    /// came at `first` and which was complete at `last`; `None` if it is not defined.
    pub fn time_per_output_token(self, first: Nanos, last: Nanos, tokens: i64) -> Option<i64> {
        match self {
            // The reference reports counts below 2 as errors and continues with 0.
            Self::Reference => Some(span(first, last) / (if tokens < 2 { -1 } else { tokens - 1 })),
            Self::Native => (tokens >= 2 && first != 0 && last > first)
                .then(|| span(first, last) / (tokens - 1)),
        }
    }

    /// Returns the time per output token in ns of a sample of a record, which came from `first` to
    /// `last`; `None` if it is not defined.
    pub fn time_per_token_of(
        self,
        record: &Record,
        sample: usize,
        (first, last): (Nanos, Nanos),
    ) -> Option<i64> {
        let tokens = match self {
            Self::Reference => record.tokens.get(sample).copied().unwrap_or(0),
            Self::Native => record.timed_tokens(sample)?,
        };
        self.time_per_output_token(first, last, tokens)
    }

    /// Returns the time over which completed rates count the `answers` of a run. `last_done`: when the
    /// query that was issued last was done.
    pub(super) fn pace(self, record: &Record, plan: &Plan, answers: u64, last_done: Nanos) -> Pace {
        match self {
            Self::Reference => Pace::until_last_query(answers, last_done),
            Self::Native => Pace::from_record(record, plan),
        }
    }

    /// Returns the completions and the time in ns of which completed rates are the ratio. The reference
    /// counts the gaps between answers until the last query was done, which exaggerates if earlier
    /// queries take longer.
    pub(super) fn throughput_span(
        self,
        answers: u64,
        last_done: Nanos,
        pace: Pace,
    ) -> (f64, Nanos) {
        match self {
            Self::Reference => (gaps(answers), last_done),
            Self::Native => (answers as f64, pace.length),
        }
    }

    /// Returns what a count of tokens adds to the total.
    pub(super) fn counted(self, tokens: i64) -> i64 {
        match self {
            Self::Reference if tokens < 2 => 0,
            Self::Reference => tokens,
            Self::Native => tokens.max(0),
        }
    }
}
