//! Decoder of token ids: the decoding side of a Hugging Face `tokenizer.json`.
//!
//! It reads only the vocabulary, the added tokens and the decoder. The crate `tokenizers` also
//! contains trainers and the encoding side, and takes longer to compile than all crates of Dyno.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use dyno_tensors::files;
use serde::Deserialize;

use super::super::{AnswerError, DataError};

/// Limit of ids, which bounds the memory for an invalid file.
const MAX_IDS: u32 = 1 << 24;

/// Decodes ids of tokens to text.
///
/// ```
/// use std::path::Path;
///
/// use dyno_metrics::text::tokenizer::Tokenizer;
///
/// let json = br#"{
///     "model": {"vocab": {"Hello": 0, "\u0120world": 1}},
///     "added_tokens": [{"id": 2, "content": "</s>", "special": true}],
///     "decoder": {"type": "ByteLevel"}
/// }"#;
/// let tokenizer = Tokenizer::parse(Path::new("tokenizer.json"), json).unwrap();
/// assert_eq!(tokenizer.decode([0, 1, 2].into_iter()).unwrap(), "Hello world");
/// ```
#[derive(Debug)]
pub struct Tokenizer {
    /// Tokens by id; `None` for an id without token.
    tokens: Vec<Option<Token>>,
    /// Rules of the decoding; `None` joins tokens with spaces.
    decoder: Option<Decoder>,
}

#[derive(Debug)]
struct Token {
    text: String,
    /// A special token, such as the end of text, which the decoded text omits.
    is_special: bool,
}

#[derive(Deserialize)]
struct Document {
    model: Model,
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
    decoder: Option<Decoder>,
}

#[derive(Deserialize)]
struct Model {
    vocab: Vocabulary,
}

/// Ids by token, or tokens with weights in the order of their ids.
#[derive(Deserialize)]
#[serde(untagged)]
enum Vocabulary {
    Ids(HashMap<String, u32>),
    Weights(Vec<(String, f64)>),
}

// The name `Added` is part of error messages.
#[derive(Deserialize)]
#[serde(expecting = "struct Added")]
struct AddedToken {
    id: u32,
    content: String,
    #[serde(default)]
    special: bool,
}

/// Rules that decode tokens to text. They must match the library exactly.
#[derive(Debug, Deserialize)]
#[serde(tag = "type")]
enum Decoder {
    Sequence {
        decoders: Vec<Decoder>,
    },
    /// Each character stands for a byte.
    ByteLevel,
    Replace {
        pattern: Pattern,
        content: String,
    },
    /// A token such as `<0x0A>` stands for a byte.
    ByteFallback,
    /// Joins all tokens.
    Fuse,
    Strip {
        content: char,
        start: usize,
        stop: usize,
    },
    Metaspace {
        replacement: char,
        prepend_scheme: Option<Prepend>,
        add_prefix_space: Option<bool>,
    },
}

#[derive(Debug, Deserialize)]
enum Pattern {
    String(String),
}

/// Tokens before which encoding inserts a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Prepend {
    Never,
    First,
    Always,
}

impl Tokenizer {
    /// Reads `tokenizer.json`.
    ///
    /// # Errors
    /// [`DataError`] if the file cannot be read, is not in the format, or has an unknown decoder.
    pub fn read(path: &Path) -> Result<Self, DataError> {
        let bytes = files::read(path).map_err(|error| DataError::unreadable(path, &error))?;
        Self::parse(path, &bytes)
    }

    /// Parses the content of `tokenizer.json`. `path` appears in errors.
    ///
    /// # Errors
    /// [`DataError`] if the content is not in the format, or has an unknown decoder.
    pub fn parse(path: &Path, json: &[u8]) -> Result<Self, DataError> {
        let document: Document = serde_json::from_slice(json).map_err(|error| {
            let expected = "tokenizer.json of Hugging Face, with model.vocab, added_tokens and a \
                            decoder of ByteLevel, ByteFallback, Fuse, Metaspace, Replace, Sequence \
                            and Strip";
            DataError::malformed(path, error.line(), expected, error.to_string())
        })?;
        let too_high = |id: u32| {
            DataError::malformed(path, None, format!("ids below {MAX_IDS}"), id.to_string())
        };
        let mut tokens = Vec::new();
        let mut set = |id: u32, text: String, is_special| {
            if id >= MAX_IDS {
                return Err(too_high(id));
            }
            let at = id as usize;
            if at >= tokens.len() {
                tokens.resize_with(at + 1, || None);
            }
            tokens[at] = Some(Token { text, is_special });
            Ok(())
        };
        match document.model.vocab {
            Vocabulary::Ids(ids) => {
                ids.into_iter().try_for_each(|(text, id)| set(id, text, false))?;
            }
            Vocabulary::Weights(weights) => {
                (0..).zip(weights).try_for_each(|(id, (text, _))| set(id, text, false))?;
            }
        }
        for AddedToken { id, content, special } in document.added_tokens {
            set(id, content, special)?;
        }
        Ok(Self { tokens, decoder: document.decoder })
    }

    /// Decodes ids to text. Omits special tokens and unknown ids.
    ///
    /// # Errors
    /// [`AnswerError::Content`] if an id is negative.
    pub fn decode(&self, ids: impl Iterator<Item = i64>) -> Result<String, AnswerError> {
        let mut tokens = Vec::new();
        for id in ids {
            if id < 0 {
                let expected = "ids of tokens".to_owned();
                return Err(AnswerError::Content { expected, found: id.to_string() });
            }
            let token = usize::try_from(id).ok().and_then(|at| self.tokens.get(at)?.as_ref());
            tokens.extend(
                token.filter(|token| !token.is_special).map(|token| Cow::from(&token.text)),
            );
        }
        Ok(match &self.decoder {
            Some(decoder) => decoder.decode(tokens).concat(),
            None => tokens.join(" "),
        })
    }
}

impl Decoder {
    fn decode<'a>(&self, tokens: Vec<Cow<'a, str>>) -> Vec<Cow<'a, str>> {
        match self {
            Self::Sequence { decoders } => {
                decoders.iter().fold(tokens, |tokens, decoder| decoder.decode(tokens))
            }
            Self::ByteLevel => vec![Cow::from(decode_byte_level(&tokens))],
            Self::Replace { pattern: Pattern::String(pattern), content } => {
                let replace = |token: Cow<'a, str>| {
                    if token.contains(pattern) {
                        Cow::from(token.replace(pattern, content))
                    } else {
                        token
                    }
                };
                tokens.into_iter().map(replace).collect()
            }
            Self::ByteFallback => decode_byte_fallback(tokens),
            Self::Fuse => vec![Cow::from(tokens.concat())],
            Self::Strip { content, start, stop } => {
                let cut = |token: Cow<'a, str>| {
                    Cow::from(strip(&token, *content, *start, *stop).to_owned())
                };
                tokens.into_iter().map(cut).collect()
            }
            Self::Metaspace { replacement, prepend_scheme, add_prefix_space } => {
                let default = match add_prefix_space {
                    Some(false) => Prepend::Never,
                    _ => Prepend::Always,
                };
                let is_prepended = prepend_scheme.unwrap_or(default) != Prepend::Never;
                let spaced = |(at, token): (usize, Cow<'a, str>)| {
                    let space = if at == 0 && is_prepended { "" } else { " " };
                    Cow::from(token.replace(*replacement, space))
                };
                tokens.into_iter().enumerate().map(spaced).collect()
            }
        }
    }
}

/// Returns the byte of a character in byte-level tokens. Printable characters of Latin-1 stand for
/// themselves. The characters from 256 on stand for the other bytes, in order.
fn byte_of(letter: char) -> Option<u8> {
    let number = u32::from(letter);
    let byte = match number {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => number,
        0x100..=0x120 => number - 0x100,
        0x121..=0x142 => number - 0x121 + 0x7f,
        0x143 => 0xad,
        _ => return None,
    };
    u8::try_from(byte).ok()
}

fn decode_byte_level(tokens: &[Cow<'_, str>]) -> String {
    let mut bytes = Vec::new();
    for token in tokens {
        let start = bytes.len();
        // A token with other characters, such as an added one, is plain text.
        for letter in token.chars() {
            let Some(byte) = byte_of(letter) else {
                bytes.truncate(start);
                bytes.extend(token.bytes());
                break;
            };
            bytes.push(byte);
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Decodes runs of byte tokens. Each byte of a run that is not UTF-8 becomes a replacement
/// character.
fn decode_byte_fallback(tokens: Vec<Cow<'_, str>>) -> Vec<Cow<'_, str>> {
    fn flush(bytes: &mut Vec<u8>, texts: &mut Vec<Cow<'_, str>>) {
        let run = std::mem::take(bytes);
        match String::from_utf8(run) {
            Ok(text) if text.is_empty() => {}
            Ok(text) => texts.push(Cow::from(text)),
            Err(error) => {
                texts.extend(error.as_bytes().iter().map(|_| Cow::from("\u{fffd}")));
            }
        }
    }
    let (mut bytes, mut texts) = (Vec::new(), Vec::with_capacity(tokens.len()));
    for token in tokens {
        let digits = token.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
        let digits = digits.filter(|digits| digits.len() == 2);
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => bytes.push(byte),
            None => {
                flush(&mut bytes, &mut texts);
                texts.push(token);
            }
        }
    }
    flush(&mut bytes, &mut texts);
    texts
}

/// Removes up to `start` characters `content` from the beginning and up to `stop` from the end.
fn strip(token: &str, content: char, start: usize, stop: usize) -> &str {
    let cut = |text, _| str::strip_prefix(text, content);
    let token = (0..start).try_fold(token, |text, at| cut(text, at).ok_or(text));
    let (Ok(token) | Err(token)) = token;
    let token = (0..stop).try_fold(token, |text, _| text.strip_suffix(content).ok_or(text));
    let (Ok(token) | Err(token)) = token;
    token
}

#[cfg(test)]
impl Tokenizer {
    /// Creates a tokenizer whose tokens are `words`.
    pub(super) fn with_words(words: &[&str]) -> Self {
        let token = |word: &&str| Some(Token { text: (*word).to_owned(), is_special: false });
        Self { tokens: words.iter().map(token).collect(), decoder: Some(Decoder::Fuse) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokenizer(decoder: &str, tokens: &[&str]) -> Tokenizer {
        let tokens = tokens
            .iter()
            .map(|text| Some(Token { text: (*text).to_owned(), is_special: *text == "</s>" }));
        Tokenizer { tokens: tokens.collect(), decoder: serde_json::from_str(decoder).unwrap() }
    }

    #[test]
    fn characters_of_byte_level_tokens_are_bytes() {
        let tokens = ["Hello", "Ġw", "ð", "ŁĻ", "Ĥ", "\u{2581}", "</s>"];
        let tokenizer = tokenizer(r#"{"type": "ByteLevel", "trim_offsets": true}"#, &tokens);
        let text = |ids: &[i64]| tokenizer.decode(ids.iter().copied()).unwrap();
        assert_eq!(text(&[0, 1, 2, 3, 4, 6, 99]), "Hello w\u{1f642}");
        assert_eq!(text(&[2, 3, 0, 5]), "\u{fffd}Hello\u{2581}", "a cut character, an added token");
        let error = tokenizer.decode([0, -1].into_iter()).unwrap_err();
        assert_eq!(error.to_string(), "expected ids of tokens, found -1");
    }

    #[test]
    fn every_byte_has_a_character() {
        let mut bytes: Vec<u8> =
            (0..0x200).filter_map(char::from_u32).filter_map(byte_of).collect();
        bytes.sort_unstable();
        assert_eq!(bytes, (0..=255).collect::<Vec<u8>>());
    }

    #[test]
    fn runs_of_byte_tokens_are_characters() {
        let decoder = r#"{"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}"#;
        let tokens = ["▁▁Hi", "<0xF0>", "<0x9F>", "<0x99>", "<0x82>", "</s>", "▁you"];
        let tokenizer = tokenizer(decoder, &tokens);
        let text = |ids: &[i64]| tokenizer.decode(ids.iter().copied()).unwrap();
        assert_eq!(text(&[0, 1, 2, 3, 4, 5, 6]), " Hi\u{1f642} you");
        assert_eq!(text(&[1, 2, 6, 4]), "\u{fffd}\u{fffd} you\u{fffd}");
    }

    #[test]
    fn errors_keep_the_names_of_records() {
        let error =
            serde_json::from_str::<AddedToken>("1").err().expect("1 is no object").to_string();
        assert!(error.contains("expected struct Added "), "{error}");
    }
}
