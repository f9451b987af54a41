//! Token counters of the client.

#[cfg(feature = "tokenizer")]
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Counts tokens of a text.
pub trait Tokenize: Send + Sync {
    /// Returns the number of tokens; `None` if the tokenizer cannot encode the text.
    fn count(&self, text: &str) -> Option<usize>;
}

/// A `tokenizer.json` file.
#[cfg(feature = "tokenizer")]
pub struct FileTokenizer(tokenizers::Tokenizer);

#[cfg(feature = "tokenizer")]
impl FileTokenizer {
    /// Reads the content of a `tokenizer.json` file, but not its truncation and its padding: they limit
    /// the input of a model, and do not change the tokens of a text.
    ///
    /// # Errors
    /// The error, as a sentence.
    pub fn from_json(json: &[u8]) -> Result<Self, String> {
        let mut tokenizer =
            tokenizers::Tokenizer::from_bytes(json).map_err(|error| error.to_string())?;
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|error| error.to_string())?;
        Ok(Self(tokenizer))
    }
}

#[cfg(feature = "tokenizer")]
impl Tokenize for FileTokenizer {
    fn count(&self, text: &str) -> Option<usize> {
        // Special tokens that a model adds at the start of an input are not part of its output. The
        // library may panic on the tables of a damaged file.
        let encode = || self.0.encode_fast(text, false);
        let encoding = catch_unwind(AssertUnwindSafe(encode)).ok()?.ok()?;
        Some(encoding.len())
    }
}

#[cfg(all(test, feature = "tokenizer"))]
mod tests {
    use super::*;

    /// A tokenizer of words, of which `a` is the only known one.
    fn tokenizer(unknown: &str, truncation: &str, padding: &str) -> FileTokenizer {
        let json = format!(
            r#"{{"version": "1.0", "truncation": {truncation}, "padding": {padding},
            "added_tokens": [], "normalizer": null, "pre_tokenizer": {{"type": "Whitespace"}},
            "post_processor": null, "decoder": null,
            "model": {{"type": "WordLevel", "vocab": {{"a": 0}}, "unk_token": "{unknown}"}}}}"#
        );
        FileTokenizer::from_json(json.as_bytes()).unwrap()
    }

    #[test]
    fn truncation_and_padding_of_a_file_do_not_change_counts() {
        let truncation = r#"{"direction": "Right", "max_length": 2, "strategy": "LongestFirst",
            "stride": 0}"#;
        let padding = r#"{"strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": null,
            "pad_id": 0, "pad_type_id": 0, "pad_token": "a"}"#;
        for (truncation, padding) in
            [(truncation, "null"), ("null", padding), (truncation, padding)]
        {
            assert_eq!(tokenizer("a", truncation, padding).count("a b c"), Some(3));
        }
    }

    #[test]
    fn a_text_that_cannot_be_encoded_has_no_count() {
        let tokenizer = tokenizer("missing", "null", "null");
        assert_eq!((tokenizer.count("a a"), tokenizer.count("a b")), (Some(2), None));
    }
}
