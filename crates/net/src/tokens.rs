//! Counters of tokens of the client's own.

/// Counts tokens of a text.
pub trait Tokenize: Send + Sync {
    /// How many there are.
    fn count(&self, text: &str) -> usize;
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
