//! Token counters of the client.

/// Counts tokens of a text.
pub trait Tokenize: Send + Sync {
    /// Returns the number of tokens.
    fn count(&self, text: &str) -> usize;
}

/// A `tokenizer.json` file.
#[cfg(feature = "tokenizer")]
pub struct FileTokenizer(tokenizers::Tokenizer);

#[cfg(feature = "tokenizer")]
impl FileTokenizer {
    /// Reads the content of a `tokenizer.json` file.
    ///
    /// # Errors
    /// The error, as a sentence.
    pub fn from_json(json: &[u8]) -> Result<Self, String> {
        tokenizers::Tokenizer::from_bytes(json).map(Self).map_err(|error| error.to_string())
    }
}

#[cfg(feature = "tokenizer")]
impl Tokenize for FileTokenizer {
    fn count(&self, text: &str) -> usize {
        // Special tokens that a model adds at the start of an input are not part of its output.
        self.0.encode_fast(text, false).map_or(0, |encoding| encoding.len())
    }
}
