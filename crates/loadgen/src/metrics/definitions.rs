//! Two definitions of what tokens come to; `docs/fidelity.md` compares them.

use super::span;
use crate::clock::Nanos;

/// What is a token, and what is the time per output token.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Definitions {
    /// As LoadGen has it, for logs in its format, the drop-in, and runs under the rules: a count
    /// below 2 is 0 tokens, and the time per output token is then negative.
    #[default]
    Reference,
    /// Each token counts. The time per output token is that between the first token and the
    /// last, and is defined where there are two of them at different times.
    Native,
}

impl Definitions {
    /// Name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Native => "native",
        }
    }

    /// Time per output token of a sample with so many tokens, whose first came at `first` and
    /// which was complete at `last`, in ns; `None` where it is not defined.
    #[must_use]
    pub fn time_per_output_token(self, first: Nanos, last: Nanos, tokens: i64) -> Option<i64> {
        match self {
            // The reference reports counts below 2 as errors and goes on with 0.
            Self::Reference => Some(span(first, last) / (if tokens < 2 { -1 } else { tokens - 1 })),
            Self::Native => (tokens >= 2 && first != 0 && last > first)
                .then(|| span(first, last) / (tokens - 1)),
        }
    }

    /// What a count of tokens adds to the total.
    pub(super) fn counted(self, tokens: i64) -> i64 {
        match self {
            Self::Reference if tokens < 2 => 0,
            Self::Reference => tokens,
            Self::Native => tokens.max(0),
        }
    }
}
