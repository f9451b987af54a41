//! Texts as tokens of CLIP (Radford et al. 2021): pairs of bytes that stand together often
//! are one token, the last of a word is marked, and a text is cut or padded to one length.
//!
//! Tokens are those of `CLIPTokenizer` of transformers 5 with tokenizers 0.23; the reference
//! has an older one, which cuts Chinese otherwise. A text that spells a mark is that mark:
//! so every `!` becomes padding for the second tokenizer of Stable Diffusion XL.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use unicode_normalization::UnicodeNormalization as _;

use super::bpe::{self, Kind, Merge, Model};
use super::texts::TextsError;

/// Behind the last byte of a word.
const LAST: &str = "</w>";
const BEGIN: &str = "<|startoftext|>";
const END: &str = "<|endoftext|>";

/// What is a token of its own behind an apostrophe.
const SHORTENED: [&str; 7] = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"];

/// A tokenizer.
#[derive(Debug)]
pub struct Clip {
    vocabulary: HashMap<String, u32>,
    /// Which pair is put together first.
    ranks: HashMap<(String, String), usize>,
    /// Texts that are tokens as they stand, with what they are.
    marks: Vec<(String, u32)>,
    ends: [u32; 2],
    padding: u32,
}

/// `tokenizer.json`, as far as it matters.
#[derive(Deserialize)]
struct Whole {
    model: Model,
}

/// `special_tokens_map.json` and `tokenizer_config.json`, as far as they matter.
#[derive(Deserialize)]
struct Special {
    pad_token: Option<Token>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Token {
    Plain(String),
    Described { content: String },
}

impl Clip {
    /// Reads the folder of a tokenizer: `vocab.json` and `merges.txt`, or `tokenizer.json`,
    /// and beside them what says how texts are padded.
    ///
    /// # Errors
    /// A file is missing, is not of its format, or its vocabulary has no marks.
    pub fn open(folder: &Path) -> Result<Self, TextsError> {
        let (vocabulary, merges, path) = tables(folder)?;
        let mut ranks = HashMap::with_capacity(merges.len());
        for (rank, pair) in merges.into_iter().enumerate() {
            ranks.entry(pair).or_insert(rank);
        }
        let padding = padding(folder)?;
        let id = |mark: &str| {
            let found = || format!("no token {mark}");
            vocabulary
                .get(mark)
                .copied()
                .ok_or_else(|| refused(&path, "the marks of CLIP's tokens", found()))
        };
        let marks = [BEGIN, END, &padding].map(|mark| Ok((mark.to_owned(), id(mark)?)));
        let marks: Vec<_> = marks.into_iter().collect::<Result<_, TextsError>>()?;
        let [ends @ .., padding] = [marks[0].1, marks[1].1, marks[2].1];
        Ok(Self { vocabulary, ranks, marks, ends, padding })
    }

    /// The tokens of a text between its marks, so many: cut off, or padded behind them.
    ///
    /// # Panics
    /// If there is no room for the marks.
    #[must_use]
    pub fn tokens(&self, text: &str, length: usize) -> Vec<i64> {
        assert!(length >= self.ends.len(), "the marks are tokens, too");
        let most = length - self.ends.len();
        let mut within = Vec::new();
        let mut rest = text;
        // What is behind the last token that counts is not looked at, however long it is.
        while let Some((at, mark, token)) = self.next_mark(rest).filter(|_| within.len() < most) {
            self.append(&rest[..at], most, &mut within);
            within.push(token);
            rest = &rest[at + mark.len()..];
        }
        self.append(rest, most, &mut within);
        within.truncate(most);
        let [begin, end] = self.ends;
        let all = [begin].into_iter().chain(within).chain([end]);
        let all = all.chain(std::iter::repeat(self.padding)).take(length);
        all.map(i64::from).collect()
    }

    /// The first mark that a text spells.
    fn next_mark(&self, text: &str) -> Option<(usize, &str, u32)> {
        let places = self
            .marks
            .iter()
            .filter_map(|(mark, token)| Some((text.find(mark.as_str())?, mark.as_str(), *token)));
        places.min_by_key(|(at, mark, _)| (*at, usize::MAX - mark.len()))
    }

    /// Appends the tokens of a text, and goes on to none of its words behind so many in all.
    fn append(&self, text: &str, most: usize, tokens: &mut Vec<u32>) {
        if tokens.len() >= most {
            return;
        }
        // Each letter alone: the library knows no sigma that ends a word.
        let text: String = text.nfc().flat_map(char::to_lowercase).collect();
        for word in words(&text) {
            if tokens.len() >= most {
                break;
            }
            let [_, unknown] = self.ends;
            let ids = self.pieces(word).into_iter();
            tokens.extend(ids.map(|piece| self.vocabulary.get(&piece).copied().unwrap_or(unknown)));
        }
    }

    /// Puts the bytes of a word together, the pair of the least rank first.
    fn pieces(&self, word: &str) -> Vec<String> {
        let mut pieces: Vec<String> =
            word.bytes().map(|byte| bpe::character(byte).to_string()).collect();
        if let Some(last) = pieces.last_mut() {
            last.push_str(LAST);
        }
        bpe::merged(pieces, |first, second| {
            let rank = self.ranks.get(&(first.clone(), second.clone()))?;
            Some((*rank, format!("{first}{second}")))
        })
    }
}

fn refused(path: &Path, expected: &'static str, found: String) -> TextsError {
    TextsError { path: path.to_owned(), line: None, expected, found }
}

type Tables = (HashMap<String, u32>, Vec<(String, String)>, PathBuf);

/// Vocabulary, merges and the file of the first.
fn tables(folder: &Path) -> Result<Tables, TextsError> {
    const PAIRS: &str = "merges.txt of CLIP: two pieces a line";
    let pair = |line: &str, number: usize, path: &Path| {
        let pair = line.split_once(' ').filter(|(_, second)| !second.contains(' '));
        let pair = pair.map(|(first, second)| (first.to_owned(), second.to_owned()));
        pair.ok_or_else(|| TextsError {
            line: Some(number as u64),
            ..refused(path, PAIRS, format!("`{line}`"))
        })
    };
    let (words, whole) = (folder.join("vocab.json"), folder.join("tokenizer.json"));
    if !words.is_file() && whole.is_file() {
        const WHOLE: &str = "tokenizer.json of CLIP, with a model that has vocab and merges";
        let Whole { model } = json(&whole, WHOLE)?;
        if !model.is_plain(LAST) {
            let found = format!("ignore_merges, or pieces that are not marked by {LAST}");
            return Err(refused(&whole, WHOLE, found));
        }
        let Model { vocab, merges, .. } = model;
        let merges = (1..).zip(merges).map(|(number, merge)| match merge {
            Merge::Pair(first, second) => Ok((first, second)),
            Merge::Line(line) => pair(&line, number, &whole),
        });
        let merges = merges.collect::<Result<_, _>>()?;
        return Ok((vocab, merges, whole));
    }
    let vocabulary =
        json(&words, "vocab.json of CLIP's tokenizer (or tokenizer.json): a number a token")?;
    let path = folder.join("merges.txt");
    let text = std::fs::read_to_string(&path);
    let text = text.map_err(|error| refused(&path, PAIRS, error.to_string()))?;
    let lines = (1..).zip(text.lines());
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with("#version"));
    let merges = lines.map(|(number, line)| pair(line, number, &path)).collect::<Result<_, _>>()?;
    Ok((vocabulary, merges, words))
}

/// What texts are padded with; it is said in one of two files.
fn padding(folder: &Path) -> Result<String, TextsError> {
    const EXPECTED: &str = "special_tokens_map.json or tokenizer_config.json with a pad_token";
    for name in ["special_tokens_map.json", "tokenizer_config.json"] {
        let path = folder.join(name);
        if path.is_file()
            && let Special { pad_token: Some(token) } = json(&path, EXPECTED)?
        {
            return Ok(match token {
                Token::Plain(content) | Token::Described { content } => content,
            });
        }
    }
    Err(refused(folder, EXPECTED, "none".to_owned()))
}

fn json<T: for<'a> Deserialize<'a>>(path: &Path, expected: &'static str) -> Result<T, TextsError> {
    let bytes = std::fs::read(path).map_err(|error| refused(path, expected, error.to_string()))?;
    serde_json::from_slice(&bytes).map_err(|error| TextsError {
        line: Some(error.line() as u64),
        ..refused(path, expected, error.to_string())
    })
}

/// Letters that stand together, single digits, and other characters that stand together.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(char::is_whitespace);
        let first = rest.chars().next()?;
        let shortened = SHORTENED.iter().find(|part| rest.starts_with(**part));
        let length = match (shortened, bpe::kind(first)) {
            (Some(part), _) => part.len(),
            (None, Kind::Number) => first.len_utf8(),
            (None, kind) => rest.find(|next| bpe::kind(next) != kind).unwrap_or(rest.len()),
        };
        let (word, behind) = rest.split_at(length);
        rest = behind;
        Some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Ã©` is how é is spelt, byte by byte.
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

    fn folder(name: &str, files: &[(&str, &str)]) -> Result<Clip, TextsError> {
        let folder = std::env::temp_dir().join(format!("dyno-clip-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for (name, text) in files {
            std::fs::write(folder.join(name), text).unwrap();
        }
        let opened = Clip::open(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
        opened
    }

    fn clip(name: &str, padding: &str) -> Clip {
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
    fn one_file_says_the_same_as_two() {
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
    fn what_is_wrong_is_told_with_the_file() {
        let vocabulary = ("vocab.json", VOCABULARY);
        let told = |files: &[(&str, &str)]| folder("wrong", files).unwrap_err().to_string();
        let found = told(&[]);
        assert!(found.contains("vocab.json: expected vocab.json of CLIP's tokenizer"), "{found}");
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
