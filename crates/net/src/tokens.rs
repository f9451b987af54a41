//! Who counts the output tokens of an answer.

use crate::openai::Usage;
use crate::protocol::Counted;

/// Counts tokens of a text.
pub trait Tokenize: Send + Sync {
    /// How many there are.
    fn count(&self, text: &str) -> usize;
}

/// Output tokens: as the server says in `usage`, else as a tokenizer counts them, else one for
/// each event with output. A whole answer without either has none.
#[must_use]
pub fn count(
    usage: Option<Usage>,
    tokenizer: Option<&dyn Tokenize>,
    text: &[u8],
    events: Option<u32>,
) -> (i64, Counted) {
    if let Some(usage) = usage {
        return (i64::try_from(usage.completion_tokens).unwrap_or(i64::MAX), Counted::Server);
    }
    if let Some(tokenizer) = tokenizer {
        let tokens = tokenizer.count(&String::from_utf8_lossy(text));
        return (i64::try_from(tokens).unwrap_or(i64::MAX), Counted::Tokenizer);
    }
    match events {
        Some(events) => (events.into(), Counted::Events),
        None => (0, Counted::Nobody),
    }
}

/// A `tokenizer.json` file.
#[cfg(feature = "tokenizer")]
pub struct FileTokenizer(tokenizers::Tokenizer);

#[cfg(feature = "tokenizer")]
impl FileTokenizer {
    /// Reads the content of such a file.
    ///
    /// # Errors
    /// What is wrong with it, as a sentence.
    pub fn of(json: &[u8]) -> Result<Self, String> {
        tokenizers::Tokenizer::from_bytes(json).map(Self).map_err(|error| error.to_string())
    }
}

#[cfg(feature = "tokenizer")]
impl Tokenize for FileTokenizer {
    fn count(&self, text: &str) -> usize {
        // The marks that a model adds at the start of an input are none of its output.
        self.0.encode_fast(text, false).map_or(0, |encoding| encoding.len())
    }
}
