//! Two definitions of token metrics; `docs/fidelity.md` compares them.

use super::span;
use crate::clock::Nanos;

/// Definitions of the token count and of the time per output token.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Definitions {
    /// Definitions of LoadGen, for logs in its format, the drop-in, and runs under the rules: a
    /// count below 2 is 0 tokens, and the time per output token is then negative.
    #[default]
    Reference,
    /// Each token counts. The time per output token is the mean time between the first token and
    /// the last; it is defined for at least two tokens at different times.
    Native,
}

impl Definitions {
    /// Returns the name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Native => "native",
        }
    }

    /// Returns the time per output token in ns of a sample with `tokens` tokens, whose first token
    /// came at `first` and which was complete at `last`; `None` if it is not defined.
    #[must_use]
    pub fn time_per_output_token(self, first: Nanos, last: Nanos, tokens: i64) -> Option<i64> {
        match self {
            // The reference reports counts below 2 as errors and continues with 0.
            Self::Reference => Some(span(first, last) / (if tokens < 2 { -1 } else { tokens - 1 })),
            Self::Native => (tokens >= 2 && first != 0 && last > first)
                .then(|| span(first, last) / (tokens - 1)),
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
