//! CLIP's tokenizer (Radford et al. 2021): byte pairs whose last piece in a word is marked, in
//! texts that are cut or padded to one length.
//!
//! Tokens are those of `CLIPTokenizer` of transformers 5 with tokenizers 0.23; the reference
//! uses an older one, which splits Chinese differently. A text that spells a special token
//! becomes that token: each `!` is padding for the second tokenizer of Stable Diffusion XL.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use dyno_tensors::files;
use unicode_normalization::UnicodeNormalization as _;

use super::bpe::{self, BpeModel, BpeRules, BytePairEncoder, CharacterClass, Merge};
use super::texts::TextsError;

/// Suffix of the last piece of a word.
const END_OF_WORD: &str = "</w>";
const BEGIN: &str = "<|startoftext|>";
const END: &str = "<|endoftext|>";

/// CLIP's tokenizer, read from a folder.
///
/// ```no_run
/// use std::path::Path;
///
/// use dyno_task::data::clip::ClipTokenizer;
///
/// let tokenizer = ClipTokenizer::open(Path::new("model/tokenizer")).unwrap();
/// assert_eq!(tokenizer.tokens("A cat", 77).len(), 77);
/// ```
#[derive(Debug)]
pub struct ClipTokenizer {
    encoder: BytePairEncoder,
    begin: u32,
    end: u32,
    padding: u32,
}

/// The fields of `tokenizer.json` that are read.
#[derive(Deserialize)]
struct Document {
    model: BpeModel,
}

/// The fields of `special_tokens_map.json` and `tokenizer_config.json` that are read.
#[derive(Deserialize)]
struct SpecialTokens {
    pad_token: Option<Token>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Token {
    Plain(String),
    Described { content: String },
}

impl ClipTokenizer {
    /// Reads the folder of a tokenizer: `vocab.json` and `merges.txt`, or `tokenizer.json`,
    /// and the file that names the padding token.
    ///
    /// # Errors
    /// A file is missing or malformed, or the vocabulary lacks a special token or a piece of a
    /// merge.
    pub fn open(folder: &Path) -> Result<Self, TextsError> {
        let (vocabulary, merges, path) = tables(folder)?;
        let missing =
            |piece| refused(&path, "the marks of CLIP's tokens", format!("no token {piece}"));
        let special = [BEGIN, END, &padding(folder)?].map(|text| match vocabulary.get(text) {
            Some(id) => Ok((text.to_owned(), *id)),
            None => Err(missing(text.to_owned())),
        });
        let special: Vec<_> = special.into_iter().collect::<Result<_, TextsError>>()?;
        let [begin, end, padding] = [0, 1, 2].map(|place| special[place].1);
        let rules = BpeRules {
            end_of_word: END_OF_WORD,
            unknown: Some(end),
            // Each letter by itself: the library has no form of sigma for the end of a word.
            normalize: |text| text.nfc().flat_map(char::to_lowercase).collect(),
            split_word,
        };
        let encoder = BytePairEncoder::new(&vocabulary, merges, special, rules).map_err(missing)?;
        Ok(Self { encoder, begin, end, padding })
    }

    /// Exactly `length` tokens of a text, between the tokens of begin and end: cut off, or padded
    /// behind the end.
    ///
    /// # Panics
    /// If `length` is below 2.
    pub fn tokens(&self, text: &str, length: usize) -> Vec<i64> {
        assert!(length >= 2, "the marks are tokens, too");
        let within = self.encoder.encode(text, length - 2);
        let all = [self.begin].into_iter().chain(within).chain([self.end]);
        let all = all.chain(std::iter::repeat(self.padding)).take(length);
        all.map(i64::from).collect()
    }
}

fn refused(path: &Path, expected: &'static str, found: String) -> TextsError {
    TextsError { path: path.to_owned(), line: None, expected, found }
}

type Tables = (HashMap<String, u32>, Vec<(String, String)>, PathBuf);

/// The vocabulary, the merges, and the file that the vocabulary is from.
fn tables(folder: &Path) -> Result<Tables, TextsError> {
    const PAIRS: &str = "merges.txt of CLIP: two pieces per line";
    let pair = |merge: Merge, number: u64, path: &Path| {
        merge.pair().map_err(|line| TextsError {
            line: Some(number),
            ..refused(path, PAIRS, format!("`{line}`"))
        })
    };
    let words = folder.join("vocab.json");
    let whole = folder.join("tokenizer.json");
    if !words.is_file() && whole.is_file() {
        const WHOLE: &str = "tokenizer.json of CLIP, with a model that has vocab and merges";
        let Document { model } = json(&whole, WHOLE)?;
        if !model.is_plain(END_OF_WORD) {
            let found = format!("ignore_merges, or pieces that are not marked by {END_OF_WORD}");
            return Err(refused(&whole, WHOLE, found));
        }
        let merges = (1..).zip(model.merges).map(|(number, merge)| pair(merge, number, &whole));
        let merges = merges.collect::<Result<_, _>>()?;
        return Ok((model.vocab, merges, whole));
    }
    let vocabulary =
        json(&words, "vocab.json of the CLIP tokenizer (or tokenizer.json): the id of each token")?;
    let path = folder.join("merges.txt");
    let text = files::read_to_string(&path);
    let text = text.map_err(|error| refused(&path, PAIRS, error.to_string()))?;
    let lines = (1..).zip(text.lines());
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with("#version"));
    let merges = lines.map(|(number, line)| pair(Merge::Line(line.to_owned()), number, &path));
    Ok((vocabulary, merges.collect::<Result<_, _>>()?, words))
}

/// The padding token, which one of two files names.
fn padding(folder: &Path) -> Result<String, TextsError> {
    const EXPECTED: &str = "special_tokens_map.json or tokenizer_config.json with a pad_token";
    for name in ["special_tokens_map.json", "tokenizer_config.json"] {
        let path = folder.join(name);
        if path.is_file()
            && let SpecialTokens { pad_token: Some(token) } = json(&path, EXPECTED)?
        {
            return Ok(match token {
                Token::Plain(content) | Token::Described { content } => content,
            });
        }
    }
    Err(refused(folder, EXPECTED, "none".to_owned()))
}

fn json<T: for<'a> Deserialize<'a>>(path: &Path, expected: &'static str) -> Result<T, TextsError> {
    let bytes = files::read(path).map_err(|error| refused(path, expected, error.to_string()))?;
    serde_json::from_slice(&bytes).map_err(|error| TextsError {
        line: Some(error.line() as u64),
        ..refused(path, expected, error.to_string())
    })
}

/// Splits the first word off, without the spaces before it: a contraction, a single digit, or a
/// run of letters or of other characters.
fn split_word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start_matches(char::is_whitespace);
    let first = text.chars().next()?;
    let length = match (bpe::contraction(text), bpe::class_of(first)) {
        (Some(part), _) => part.len(),
        (None, CharacterClass::Number) => first.len_utf8(),
        (None, class) => text.find(|next| bpe::class_of(next) != class).unwrap_or(text.len()),
    };
    Some(text.split_at(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Ã©` is how é is spelled, byte by byte.
    const VOCABULARY: &str = r#"{"!": 0, "a": 1, "b": 2, "c": 3, "t": 4, "'": 5, "s": 6, "!</w>": 7,
        "a</w>": 8, "b</w>": 9, "c</w>": 10, "t</w>": 11, "s</w>": 12, "'s</w>": 13, "at</w>": 14,
        "cat</w>": 15, "ab": 16, "aba": 17, "1</w>": 18, "2</w>": 19, "Ã": 20, "©</w>": 21,
        "Ã©</w>": 22, "!!</w>": 23, ".</w>": 24, "<|startoftext|>": 25, "<|endoftext|>": 26}"#;
    const MERGES: &str = "#version: 0.2\na t</w>\nc at</w>\na b\nab a\n' s</w>\nÃ ©</w>\n! !</w>\n";

    /// Texts with their tokens by transformers 5.23 of these files, padded with the mark of the end and with `!`.
    const CUT: [(&str, [i64; 12], [i64; 12]); 8] = [
        (
            "A cat!",
            [25, 8, 15, 7, 26, 26, 26, 26, 26, 26, 26, 26],
            [25, 8, 15, 0, 26, 0, 0, 0, 0, 0, 0, 0],
        ),
        (
            "cats' tat",
            [25, 3, 1, 4, 12, 26, 4, 14, 26, 26, 26, 26],
            [25, 3, 1, 4, 12, 26, 4, 14, 26, 0, 0, 0],
        ),
        (
            "it's abab",
            [25, 26, 11, 13, 17, 9, 26, 26, 26, 26, 26, 26],
            [25, 26, 11, 13, 17, 9, 26, 0, 0, 0, 0, 0],
        ),
        (
            "Cat's  1 22",
            [25, 15, 13, 18, 19, 19, 26, 26, 26, 26, 26, 26],
            [25, 15, 13, 18, 19, 19, 26, 0, 0, 0, 0, 0],
        ),
        (
            "É á",
            [25, 22, 20, 26, 26, 26, 26, 26, 26, 26, 26, 26],
            [25, 22, 20, 26, 26, 0, 0, 0, 0, 0, 0, 0],
        ),
        (
            "!! .!?",
            [25, 23, 26, 0, 26, 26, 26, 26, 26, 26, 26, 26],
            [25, 0, 0, 24, 0, 26, 26, 0, 0, 0, 0, 0],
        ),
        (
            "<|endoftext|>a!b",
            [25, 26, 8, 7, 9, 26, 26, 26, 26, 26, 26, 26],
            [25, 26, 8, 0, 9, 26, 0, 0, 0, 0, 0, 0],
        ),
        (
            "",
            [25, 26, 26, 26, 26, 26, 26, 26, 26, 26, 26, 26],
            [25, 26, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ),
    ];

    fn folder(name: &str, files: &[(&str, &str)]) -> Result<ClipTokenizer, TextsError> {
        let folder = std::env::temp_dir().join(format!("dyno-clip-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for (name, text) in files {
            std::fs::write(folder.join(name), text).unwrap();
        }
        let opened = ClipTokenizer::open(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
        opened
    }

    fn clip(name: &str, padding: &str) -> ClipTokenizer {
        let special = format!(r#"{{"pad_token": {padding}}}"#);
        let files = [("vocab.json", VOCABULARY), ("merges.txt", MERGES)];
        folder(name, &[&files[..], &[("special_tokens_map.json", &special)]].concat()).unwrap()
    }

    #[test]
    fn texts_are_the_tokens_of_transformers() {
        let first = clip("first", r#"{"content": "<|endoftext|>", "lstrip": false}"#);
        let second = clip("second", r#""!""#);
        for (text, one, other) in CUT {
            assert_eq!(first.tokens(text, 12), one, "{text}");
            assert_eq!(second.tokens(text, 12), other, "{text}");
        }
        assert_eq!(first.tokens("cat cat cat", 4), [25, 15, 15, 26]);
        // A text of megabytes is cut before it is read to its end.
        assert_eq!(second.tokens(&"!".repeat(4_000_000), 4), [25, 0, 0, 26]);
    }

    #[test]
    fn letters_become_small_each_alone() {
        // Bytes of the sigma in the middle of words, and of the one at their ends.
        let vocabulary = r#"{"!": 0, "\u00cf": 1, "\u0125</w>": 2, "\u0124</w>": 3,
            "<|startoftext|>": 4, "<|endoftext|>": 5}"#;
        let special = ("special_tokens_map.json", r#"{"pad_token": "!"}"#);
        let files = [("vocab.json", vocabulary), ("merges.txt", ""), special];
        let clip = folder("sigma", &files).unwrap();
        assert_eq!(clip.tokens("\u{3a3}\u{3a3}", 6)[..], clip.tokens("\u{3c3}\u{3c3}", 6)[..]);
        assert_ne!(clip.tokens("\u{3a3}", 6), clip.tokens("\u{3c2}", 6));
    }

    #[test]
    fn one_file_gives_the_same_tokenizer_as_two() {
        let lines = MERGES.lines().skip(1);
        let pairs: Vec<_> = lines.clone().map(|line| line.split(' ').collect::<Vec<_>>()).collect();
        let lines: Vec<&str> = lines.collect();
        let config = ("tokenizer_config.json", r#"{"pad_token": "!", "model_max_length": 77}"#);
        let two = clip("two", r#""!""#);
        for merges in [serde_json::json!(pairs), serde_json::json!(lines)] {
            let vocabulary: serde_json::Value = serde_json::from_str(VOCABULARY).unwrap();
            let whole = serde_json::json!({"model": {"vocab": vocabulary, "merges": merges}});
            let one = folder("one", &[("tokenizer.json", &whole.to_string()), config]).unwrap();
            for (text, ..) in CUT {
                assert_eq!(one.tokens(text, 9), two.tokens(text, 9), "{text}");
            }
        }
    }

    #[test]
    fn malformed_tokenizers_are_rejected_with_their_file() {
        let vocabulary = ("vocab.json", VOCABULARY);
        let told = |files: &[(&str, &str)]| folder("wrong", files).unwrap_err().to_string();
        let found = told(&[]);
        assert!(found.contains("vocab.json: expected vocab.json of the CLIP tokenizer"), "{found}");
        let found = told(&[vocabulary, ("merges.txt", "a b\na b c\n")]);
        assert!(found.contains("merges.txt:2: ") && found.ends_with("found `a b c`"), "{found}");
        let found = told(&[vocabulary, ("merges.txt", MERGES)]);
        assert!(found.contains("with a pad_token, found none"), "{found}");
        let other = ("special_tokens_map.json", r#"{"pad_token": "[PAD]"}"#);
        let found = told(&[vocabulary, ("merges.txt", MERGES), other]);
        assert!(found.ends_with("found no token [PAD]"), "{found}");
        assert!(told(&[("vocab.json", "{\n]")]).contains("vocab.json:2: "));
        let whole = r#"{"model": {"vocab": {}, "merges": [], "end_of_word_suffix": "@"}}"#;
        let found = told(&[("tokenizer.json", whole)]);
        assert!(found.ends_with("or pieces that are not marked by </w>"), "{found}");
    }
}
