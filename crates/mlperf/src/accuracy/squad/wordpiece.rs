//! Words in pieces of a vocabulary, as BERT without upper case has them.
//!
//! Source: `BertTokenizer` of the package transformers, which the accuracy script
//! uses for questions, contexts and answers alike.

use std::collections::HashMap;
use std::path::Path;

use unicode_normalization::UnicodeNormalization;

use super::super::DataError;
use super::super::data::read_text;
use super::super::unicode::{
    is_mark_without_room, is_other, is_punctuation, is_space_separator, words,
};

/// What stands for a word that the vocabulary has no pieces for.
const UNKNOWN: &str = "[UNK]";

/// Tokens that are found in texts as they stand.
const SPECIAL: [&str; 5] = ["[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"];

/// Longer words are unknown.
const LONGEST_WORD: usize = 100;

/// Cuts texts into pieces.
#[derive(Debug)]
pub struct WordPieces {
    /// The id of each piece.
    vocabulary: HashMap<String, u32>,
    /// Bytes of the longest piece.
    longest: usize,
}

impl WordPieces {
    /// Reads a vocabulary: a piece a line.
    ///
    /// # Errors
    /// The file does not read, or has no `[UNK]`.
    pub fn read(path: &Path) -> Result<Self, DataError> {
        let text = read_text(path)?;
        let pieces =
            Self::new(text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)));
        if pieces.id(UNKNOWN).is_some() {
            return Ok(pieces);
        }
        let lines = format!("{} lines without it", pieces.vocabulary.len());
        Err(DataError::malformed(path, None, "a piece a line, with [UNK] among them", lines))
    }

    /// Of these pieces, whose ids are their positions; those that go on a word begin with
    /// `##`.
    pub fn new<'a>(pieces: impl Iterator<Item = &'a str>) -> Self {
        Self::numbered(pieces.map(str::to_owned).zip(0..))
    }

    /// Of these pieces and their ids.
    pub fn numbered(pieces: impl Iterator<Item = (String, u32)>) -> Self {
        let vocabulary: HashMap<String, u32> =
            pieces.filter(|(piece, _)| !piece.is_empty()).collect();
        let longest = vocabulary.keys().map(String::len).max().unwrap_or_default();
        Self { vocabulary, longest }
    }

    /// The id of a piece, as models take it.
    #[must_use]
    pub fn id(&self, piece: &str) -> Option<u32> {
        self.vocabulary.get(piece).copied()
    }

    /// The pieces of a text.
    #[must_use]
    pub fn of(&self, text: &str) -> Vec<String> {
        let (mut pieces, mut rest) = (Vec::new(), text);
        while let Some((at, token)) = first_special(rest) {
            self.add(&rest[..at], &mut pieces);
            pieces.push(token.to_owned());
            rest = &rest[at + token.len()..];
        }
        self.add(rest, &mut pieces);
        pieces
    }

    fn add(&self, text: &str, pieces: &mut Vec<String>) {
        for word in words(&plain(text)) {
            self.add_word(word, pieces);
        }
    }

    /// Adds the longest piece that the word begins with, and so on.
    fn add_word(&self, word: &str, pieces: &mut Vec<String>) {
        let (before, mut rest) = (pieces.len(), word);
        if word.chars().count() > LONGEST_WORD {
            rest = "";
            pieces.push(UNKNOWN.to_owned());
        }
        let mut piece = String::new();
        while !rest.is_empty() {
            piece.clear();
            piece.push_str(if rest.len() < word.len() { "##" } else { "" });
            let start = piece.len();
            piece.extend(
                rest.char_indices().take_while(|(at, _)| *at < self.longest).map(|(_, c)| c),
            );
            while piece.len() > start && !self.vocabulary.contains_key(&piece) {
                piece.pop();
            }
            if piece.len() == start {
                pieces.truncate(before);
                pieces.push(UNKNOWN.to_owned());
                return;
            }
            rest = &rest[piece.len() - start..];
            pieces.push(piece.clone());
        }
    }
}

fn first_special(text: &str) -> Option<(usize, &'static str)> {
    text.match_indices('[').find_map(|(at, _)| {
        let token = SPECIAL.into_iter().find(|token| text[at..].starts_with(token));
        token.map(|token| (at, token))
    })
}

/// Lower case without accents, with spaces around punctuation and Chinese
/// characters, and without what is no character to read.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let put = |character: char, out: &mut String| {
        if character.is_ascii_alphanumeric() {
            out.push(character);
        } else if is_split(character) {
            out.extend([' ', character, ' ']);
        } else if !is_mark_without_room(character) {
            out.push(character);
        }
    };
    for character in text.chars() {
        let is_space = matches!(character, '\t' | '\n' | '\r') || is_space_separator(character);
        if character.is_ascii_alphanumeric() {
            out.push(character.to_ascii_lowercase());
        } else if is_space {
            out.push(' ');
        } else if character != char::REPLACEMENT_CHARACTER && !is_other(character) {
            let is_chinese = is_chinese(character);
            out.extend(is_chinese.then_some(' '));
            // By characters, so that the last sigma of a word is as the others.
            for lower in character.to_lowercase() {
                lower.nfd().for_each(|part| put(part, &mut out));
            }
            out.extend(is_chinese.then_some(' '));
        }
    }
    out
}

/// Whether it is a word of its own: punctuation, and every other symbol of ASCII.
fn is_split(character: char) -> bool {
    character.is_ascii_punctuation() || (!character.is_ascii() && is_punctuation(character))
}

/// The blocks of the ideographs; 2B820 to 2CEAF are one with those before.
fn is_chinese(character: char) -> bool {
    matches!(character,
        '\u{4e00}'..='\u{9fff}'
            | '\u{3400}'..='\u{4dbf}'
            | '\u{20000}'..='\u{2a6df}'
            | '\u{2a700}'..='\u{2ceaf}'
            | '\u{f900}'..='\u{faff}'
            | '\u{2f800}'..='\u{2fa1f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_those_of_the_source() {
        let vocabulary = [
            "[UNK]",
            "un",
            "##aff",
            "##able",
            "a",
            "##b",
            "e",
            "!",
            "\u{4e2d}",
            "\u{3c3}",
            "##\u{3c3}",
        ];
        let pieces = WordPieces::new(vocabulary.into_iter());
        // By transformers 4.57.
        let cases: [(&str, &[&str]); 8] = [
            ("UNAFFABLE!", &["un", "##aff", "##able", "!"]),
            ("unaffably", &["[UNK]"]),
            ("a\u{301}b \u{e9}", &["a", "##b", "e"]),
            ("a\u{4e2d}a", &["a", "\u{4e2d}", "a"]),
            ("a[MASK]a [mask]", &["a", "[MASK]", "a", "[UNK]", "[UNK]", "[UNK]"]),
            ("\u{3a3}\u{3a3} a\u{200b}b", &["\u{3c3}", "##\u{3c3}", "a", "##b"]),
            ("", &[]),
            (&"a".repeat(101), &["[UNK]"]),
        ];
        for (text, expected) in cases {
            assert_eq!(pieces.of(text), expected, "{text}");
        }
        assert_eq!(
            ["[UNK]", "##able", "un##"].map(|piece| pieces.id(piece)),
            [Some(0), Some(3), None]
        );
    }
}
