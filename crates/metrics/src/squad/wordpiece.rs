//! WordPiece tokenizer of uncased BERT.
//!
//! Source: `BertTokenizer` of the package transformers, which the accuracy script applies to
//! questions, contexts and answers.

use std::path::Path;

use foldhash::HashMap;
use memchr::memchr_iter;
use unicode_normalization::UnicodeNormalization;

use super::super::DataError;
use super::super::data::read_text;
use super::super::unicode::{
    is_nonspacing_mark, is_other, is_punctuation, is_space_separator, words,
};

/// Token of a word that the vocabulary cannot represent.
const UNKNOWN: &str = "[UNK]";

/// Prefix of pieces that continue a word.
const CONTINUATION: &str = "##";

/// Tokens that are recognized verbatim in texts.
const SPECIAL: [&str; 5] = ["[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"];

/// Maximum length of a word, in characters. Longer words are unknown.
const LONGEST_WORD: usize = 100;

/// Index of a piece in the tokenizer.
pub type Piece = u32;

/// A tokenizer that splits texts into pieces.
#[derive(Debug)]
pub struct WordPieces {
    /// Pieces of the vocabulary, then the tokens of [`SPECIAL`] that it lacks.
    pieces: Vec<PieceEntry>,
    /// Index of each piece.
    places: HashMap<String, Piece>,
    unknown: Piece,
    /// Length of the longest piece of the vocabulary, in bytes.
    longest: usize,
}

#[derive(Debug)]
struct PieceEntry {
    text: String,
    /// `None` for a token that the vocabulary lacks.
    id: Option<u32>,
}

impl WordPieces {
    /// Reads a vocabulary with a piece per line.
    ///
    /// # Errors
    /// [`DataError`] if the file cannot be read or lacks `[UNK]`.
    pub fn read(path: &Path) -> Result<Self, DataError> {
        let text = read_text(path)?;
        let pieces =
            Self::new(text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)));
        if pieces.id(UNKNOWN).is_some() {
            return Ok(pieces);
        }
        let lines = pieces.pieces.iter().filter(|piece| piece.id.is_some()).count();
        let lines = format!("{lines} lines without it");
        Err(DataError::malformed(path, None, "a piece a line, with [UNK] among them", lines))
    }

    /// Creates a tokenizer. The id of a piece is its position. Pieces that continue a word begin
    /// with `##`.
    ///
    /// ```
    /// use dyno_metrics::squad::wordpiece::WordPieces;
    ///
    /// let tokenizer = WordPieces::new(["[UNK]", "token", "##izer", "s"].into_iter());
    /// assert_eq!(tokenizer.join(&tokenizer.split("Tokenizer S x")), "token ##izer s [UNK]");
    /// assert_eq!(tokenizer.id("##izer"), Some(2));
    /// ```
    pub fn new<'a>(pieces: impl Iterator<Item = &'a str>) -> Self {
        Self::with_ids(pieces.map(str::to_owned).zip(0..))
    }

    /// Creates a tokenizer from pieces and their ids. The last id of a repeated piece counts.
    pub fn with_ids(pieces: impl Iterator<Item = (String, u32)>) -> Self {
        let mut all =
            Self { pieces: Vec::new(), places: HashMap::default(), unknown: 0, longest: 0 };
        for (text, id) in pieces.filter(|(text, _)| !text.is_empty()) {
            all.longest = all.longest.max(text.len());
            all.place(text, Some(id));
        }
        for token in SPECIAL {
            if !all.places.contains_key(token) {
                all.place(token.to_owned(), None);
            }
        }
        all.unknown = all.places[UNKNOWN];
        all
    }

    fn place(&mut self, text: String, id: Option<u32>) {
        let next = self.pieces.len() as Piece;
        let place = *self.places.entry(text.clone()).or_insert(next);
        if place == next {
            self.pieces.push(PieceEntry { text, id });
        } else {
            self.pieces[place as usize].id = id;
        }
    }

    /// Returns the id of a piece as models expect it.
    pub fn id(&self, piece: &str) -> Option<u32> {
        self.places.get(piece).and_then(|place| self.pieces[*place as usize].id)
    }

    /// Returns the id of a piece of this tokenizer; `None` for a token that its vocabulary lacks.
    ///
    /// # Panics
    /// Panics if the tokenizer has no such piece.
    pub fn id_of(&self, piece: Piece) -> Option<u32> {
        self.pieces[piece as usize].id
    }

    /// Returns the text of a piece.
    ///
    /// # Panics
    /// Panics if the tokenizer has no such piece.
    pub fn text(&self, piece: Piece) -> &str {
        &self.pieces[piece as usize].text
    }

    /// Returns the texts of pieces, separated by spaces.
    #[must_use]
    pub fn join(&self, pieces: &[Piece]) -> String {
        let mut joined = String::new();
        for (at, piece) in pieces.iter().enumerate() {
            joined.push_str(if at == 0 { "" } else { " " });
            joined.push_str(self.text(*piece));
        }
        joined
    }

    /// Splits a text into pieces.
    pub fn split(&self, text: &str) -> Vec<Piece> {
        let mut pieces = Vec::new();
        self.append(text, &mut pieces);
        pieces
    }

    /// Appends the pieces of a text.
    pub(super) fn append(&self, text: &str, pieces: &mut Vec<Piece>) {
        let mut rest = text;
        while let Some((at, token)) = first_special(rest) {
            self.append_plain(&rest[..at], pieces);
            pieces.push(self.places[token]);
            rest = &rest[at + token.len()..];
        }
        self.append_plain(rest, pieces);
    }

    fn append_plain(&self, text: &str, pieces: &mut Vec<Piece>) {
        if is_plain(text) {
            self.append_word(text, pieces);
        } else {
            words(&plain(text)).for_each(|word| self.append_word(word, pieces));
        }
    }

    /// Appends the longest piece with which the word begins, then continues after it.
    fn append_word(&self, word: &str, pieces: &mut Vec<Piece>) {
        let (before, mut rest) = (pieces.len(), word);
        if word.len() > LONGEST_WORD && word.chars().count() > LONGEST_WORD {
            rest = "";
            pieces.push(self.unknown);
        }
        let mut marked = String::new();
        while !rest.is_empty() {
            // Pieces that continue a word have a prefix.
            let marks = if rest.len() < word.len() { CONTINUATION.len() } else { 0 };
            let text = if marks == 0 {
                rest
            } else {
                marked.clear();
                marked.extend([CONTINUATION, rest]);
                marked.as_str()
            };
            let Some((place, end)) = self.longest_piece(text, marks) else {
                pieces.truncate(before);
                pieces.push(self.unknown);
                return;
            };
            pieces.push(place);
            rest = &rest[end - marks..];
        }
    }

    /// Returns the longest piece of the vocabulary with which a text begins, and its end. The piece
    /// has more than `marks` bytes.
    fn longest_piece(&self, text: &str, marks: usize) -> Option<(Piece, usize)> {
        let most = text.floor_char_boundary(self.longest);
        let ends = (marks + 1..=most).rev().filter(|end| text.is_char_boundary(*end));
        ends.map(|end| (self.places.get(&text[..end]), end)).find_map(|(place, end)| {
            let place = *place?;
            self.pieces[place as usize].id.map(|_| (place, end))
        })
    }
}

/// Returns whether a text is a single word that needs no cleaning.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

fn first_special(text: &str) -> Option<(usize, &'static str)> {
    memchr_iter(b'[', text.as_bytes()).find_map(|at| {
        let token = SPECIAL.into_iter().find(|token| text[at..].starts_with(token));
        token.map(|token| (at, token))
    })
}

/// Converts a text to lower case without accents. Surrounds punctuation and Chinese characters with
/// spaces, and removes control characters.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let append_character = |character: char, out: &mut String| {
        if character.is_ascii_alphanumeric() {
            out.push(character);
        } else if is_split(character) {
            out.extend([' ', character, ' ']);
        } else if !is_nonspacing_mark(character) {
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
            // Converts characters one by one, so that a final sigma becomes an ordinary one.
            for lower in character.to_lowercase() {
                lower.nfd().for_each(|part| append_character(part, &mut out));
            }
            out.extend(is_chinese.then_some(' '));
        }
    }
    out
}

/// Returns whether the character is a word of its own: punctuation, or an ASCII symbol.
fn is_split(character: char) -> bool {
    character.is_ascii_punctuation() || (!character.is_ascii() && is_punctuation(character))
}

/// Returns whether the character is in a block of ideographs. 2B820 to 2CEAF adjoins the block
/// before.
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
        // Results of transformers 4.57.
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
            let found = pieces.split(text);
            let found: Vec<&str> = found.iter().map(|piece| pieces.text(*piece)).collect();
            assert_eq!(found, expected, "{text}");
        }
        assert_eq!(
            ["[UNK]", "##able", "un##"].map(|piece| pieces.id(piece)),
            [Some(0), Some(3), None]
        );
    }
}
