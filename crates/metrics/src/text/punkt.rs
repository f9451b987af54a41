//! Sentence splitting with the tokenizer Punkt and pretrained parameters.
//!
//! Source: Kiss and Strunk, *Unsupervised multilingual sentence boundary detection*, Computational
//! Linguistics 32(4), 2006, as implemented by `nltk.sent_tokenize`: a decision depends only on the
//! words around a mark.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::super::DataError;
use super::super::data::read_text;
use super::words::{self, is_closing, is_end};

/// Contexts in which a word occurred in training, as bits of `ortho_context.tab`.
mod orthography {
    /// Upper case within a sentence.
    pub(crate) const UPPER_WITHIN: u32 = 1 << 2;
    /// Upper case anywhere.
    pub(crate) const UPPER: u32 = 1 << 1 | UPPER_WITHIN | 1 << 3;
    /// Lower case at the beginning of a sentence.
    pub(crate) const LOWER_FIRST: u32 = 1 << 4;
    /// Lower case anywhere.
    pub const LOWER: u32 = LOWER_FIRST | 1 << 5 | 1 << 6;
}

/// Type of all numbers.
const NUMBER: &str = "##number##";

/// Splits texts into sentences.
///
/// ```
/// use dyno_metrics::text::punkt::Punkt;
///
/// // Without parameters, each period ends a sentence.
/// assert_eq!(Punkt::default().sentences("One. Two?  Three"), ["One.", "Two?", "Three"]);
/// ```
#[derive(Debug, Default)]
pub struct Punkt {
    abbreviations: HashSet<String>,
    /// Words that often begin a sentence.
    starters: HashSet<String>,
    /// Second words of collocations by their first word, whose period does not end a sentence.
    collocations: HashMap<String, HashSet<String>>,
    contexts: HashMap<String, u32>,
}

/// A word or a mark of a text, and its classification.
#[derive(Debug)]
struct Token<'a> {
    text: &'a str,
    /// Type: the lower case, or one type for all numbers.
    kind: String,
    is_end: bool,
    is_abbreviation: bool,
    is_ellipsis: bool,
}

/// A mark that may end a sentence, and the text after it.
#[derive(Debug, Clone, Copy)]
struct Mark {
    /// Offset of the mark.
    at: usize,
    /// End of the following closing mark or word.
    end: usize,
    /// Start of the next word; `None` if a closing mark follows.
    next: Option<usize>,
}

impl Punkt {
    /// Reads `abbrev_types.txt`, `collocations.tab`, `ortho_context.tab` and `sent_starters.txt` in
    /// a folder, such as `punkt_tab/english` of NLTK.
    ///
    /// # Errors
    /// [`DataError`] if a file cannot be read or a line is not in the format.
    pub fn read(folder: &Path) -> Result<Self, DataError> {
        let mut punkt = Self {
            abbreviations: line_set(&read_text(&folder.join("abbrev_types.txt"))?),
            starters: line_set(&read_text(&folder.join("sent_starters.txt"))?),
            ..Self::default()
        };
        let path = folder.join("collocations.tab");
        for (at, line) in lines(&read_text(&path)?) {
            let (first, second) = line.split_once('\t').ok_or_else(|| {
                DataError::malformed(&path, at, "two words with a tab between", line)
            })?;
            punkt.collocations.entry(first.to_owned()).or_default().insert(second.to_owned());
        }
        let path = folder.join("ortho_context.tab");
        for (at, line) in lines(&read_text(&path)?) {
            let pair = line
                .split_once('\t')
                .and_then(|(word, bits)| Some((word.to_owned(), bits.parse().ok()?)));
            let (word, bits) = pair.ok_or_else(|| {
                DataError::malformed(&path, at, "a word, a tab and a number", line)
            })?;
            punkt.contexts.insert(word, bits);
        }
        Ok(punkt)
    }

    /// Returns the sentences of a text, in their order.
    pub fn sentences<'a>(&self, text: &'a str) -> Vec<&'a str> {
        let mut slices = Vec::new();
        let mut start = 0;
        for (mark, context) in contexts(text) {
            if self.is_cut(context) {
                slices.push((start, mark.at + 1));
                start = mark.next.unwrap_or(mark.at + 1);
            }
        }
        slices.push((start, text.trim_end().len()));
        realign(text, &slices)
    }

    /// Returns whether a sentence ends within the words around a mark.
    fn is_cut(&self, context: &str) -> bool {
        let mut tokens: Vec<Token<'_>> =
            context.split('\n').flat_map(words::split).map(|word| self.token(word)).collect();
        for second in 1..tokens.len() {
            let (before, after) = tokens.split_at_mut(second);
            self.reconsider(&mut before[second - 1], &after[0]);
            if before[second - 1].is_end {
                return true;
            }
        }
        false
    }

    /// Classifies a word on its own (section 3 of the paper).
    fn token<'a>(&self, text: &'a str) -> Token<'a> {
        let lower = text.to_lowercase();
        let kind = if is_number(&lower) { NUMBER.to_owned() } else { lower };
        let mut token =
            Token { text, kind, is_end: false, is_abbreviation: false, is_ellipsis: false };
        if matches!(text, "." | "?" | "!") {
            token.is_end = true;
        } else if text.len() > 1 && text.bytes().all(|byte| byte == b'.') {
            token.is_ellipsis = true;
        } else if let Some(word) = text.strip_suffix('.').filter(|word| !word.ends_with('.')) {
            let word = word.to_lowercase();
            let last = word.rsplit('-').next().unwrap_or_default();
            token.is_abbreviation =
                self.abbreviations.contains(&word) || self.abbreviations.contains(last);
            token.is_end = !token.is_abbreviation;
        }
        token
    }

    /// Reclassifies a word with a period by the word after it (section 4).
    fn reconsider(&self, token: &mut Token<'_>, next: &Token<'_>) {
        if !token.text.ends_with('.') {
            return;
        }
        let (kind, next_kind) = (without_period(&token.kind).to_owned(), next.kind_in_sentence());
        let is_known =
            self.collocations.get(&kind).is_some_and(|seconds| seconds.contains(next_kind));
        if is_known {
            (token.is_end, token.is_abbreviation) = (false, true);
            return;
        }
        let is_initial = is_initial(token.text);
        let begins = self.begins_sentence(next);
        if (token.is_abbreviation || token.is_ellipsis) && !is_initial {
            let is_starter = next.is_upper() && self.starters.contains(next_kind);
            if begins == Some(true) || is_starter {
                token.is_end = true;
                return;
            }
        }
        if is_initial || kind == NUMBER {
            // Names after initials, such as "J. Bach", are mostly unknown.
            let is_name = || {
                begins.is_none()
                    && is_initial
                    && next.is_upper()
                    && self.context(next_kind) & orthography::LOWER == 0
            };
            if begins == Some(false) || is_name() {
                (token.is_end, token.is_abbreviation) = (false, true);
            }
        }
    }

    fn context(&self, kind: &str) -> u32 {
        self.contexts.get(kind).copied().unwrap_or_default()
    }

    /// Returns whether a sentence begins with a word, by its case; `None` if the case does not
    /// decide.
    fn begins_sentence(&self, token: &Token<'_>) -> Option<bool> {
        if matches!(token.text, ";" | ":" | "," | "." | "!" | "?") {
            return Some(false);
        }
        let context = self.context(token.kind_in_sentence());
        let is_seen = |bits| context & bits != 0;
        if token.is_upper() && is_seen(orthography::LOWER) && !is_seen(orthography::UPPER_WITHIN) {
            return Some(true);
        }
        let is_lower = token.text.starts_with(char::is_lowercase);
        (is_lower && (is_seen(orthography::UPPER) || !is_seen(orthography::LOWER_FIRST)))
            .then_some(false)
    }
}

impl Token<'_> {
    /// Returns the type, without a period that ends a sentence.
    fn kind_in_sentence(&self) -> &str {
        if self.is_end { without_period(&self.kind) } else { &self.kind }
    }

    fn is_upper(&self) -> bool {
        self.text.starts_with(char::is_uppercase)
    }
}

fn without_period(kind: &str) -> &str {
    kind.strip_suffix('.').filter(|rest| !rest.is_empty()).unwrap_or(kind)
}

/// Returns whether a text is a letter and a period.
fn is_initial(text: &str) -> bool {
    let mut letters = text.chars();
    let is_letter = letters.next().is_some_and(|letter| letter.is_alphabetic() || letter == '_');
    is_letter && letters.as_str() == "."
}

/// Returns whether a text consists of digits with signs, commas and periods, and begins with a
/// digit after at most one of each.
fn is_number(text: &str) -> bool {
    let text = text.strip_prefix('-').unwrap_or(text);
    let text = text.strip_prefix(['.', ',']).unwrap_or(text);
    let is_digit = |byte: u8| byte.is_ascii_digit();
    text.bytes().next().is_some_and(is_digit)
        && text.bytes().all(|byte| is_digit(byte) || matches!(byte, b',' | b'.' | b'-'))
}

fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(at, line)| (at + 1, line)).filter(|(_, line)| !line.is_empty())
}

fn line_set(text: &str) -> HashSet<String> {
    lines(text).map(|(_, line)| line.to_owned()).collect()
}

/// Returns marks that may end a sentence, each with the words around it. Only the last of several
/// marks after a word is returned.
fn contexts(text: &str) -> Vec<(Mark, &str)> {
    let mut found = Vec::new();
    let (mut start, mut stop, mut last) = (0, 0, None);
    for mark in marks(text) {
        let before = &text.as_bytes()[stop..mark.at];
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c);
        // White space at the beginning does not count, as in NLTK.
        let word = match before.iter().rposition(is_space) {
            None | Some(0) => start,
            Some(at) => stop + at + 1,
        };
        let is_apart = stop <= word;
        found.extend(last.filter(|_| is_apart).map(|last: Mark| (last, &text[start..last.end])));
        (start, stop, last) = (word, mark.at, Some(mark));
    }
    found.extend(last.map(|last| (last, &text[start..last.end])));
    found
}

/// Returns periods, question marks and exclamation marks before white space or closing marks.
fn marks(text: &str) -> impl Iterator<Item = Mark> {
    let ends = text.bytes().enumerate().filter(|(_, byte)| is_end(char::from(*byte)));
    ends.filter_map(move |(at, _)| {
        let rest = &text[at + 1..];
        let following = rest.chars().next()?;
        if is_closing(following) {
            return Some(Mark { at, end: at + 1 + following.len_utf8(), next: None });
        }
        let word = rest.trim_start();
        let next = at + 1 + (rest.len() - word.len());
        let length = word.find(char::is_whitespace).unwrap_or(word.len());
        let is_apart = following.is_whitespace() && length > 0;
        is_apart.then_some(Mark { at, end: next + length, next: Some(next) })
    })
}

/// Moves closing quotation marks and brackets to the sentences that they close.
fn realign<'a>(text: &'a str, slices: &[(usize, usize)]) -> Vec<&'a str> {
    let mut sentences = Vec::new();
    let mut shift = 0;
    for (at, (start, stop)) in slices.iter().enumerate() {
        let start = start + shift;
        let Some((next_start, next_stop)) = slices.get(at + 1) else {
            sentences.extend(text.get(start..*stop).filter(|sentence| !sentence.is_empty()));
            break;
        };
        let next = text.get(*next_start..*next_stop).unwrap_or_default();
        match closing_marks(next) {
            Some((closing, with_space)) => {
                sentences.extend(text.get(start..next_start + closing));
                shift = with_space;
            }
            None => {
                sentences.extend(text.get(start..*stop).filter(|sentence| !sentence.is_empty()));
                shift = 0;
            }
        }
    }
    sentences
}

/// Returns the length of the closing marks with which a sentence begins, without and with the white
/// space after them.
fn closing_marks(sentence: &str) -> Option<(usize, usize)> {
    let closes = |letter| {
        let ascii = ['"', '\'', ')', ']', '}'];
        let others = ['\u{2018}', '\u{2019}', '\u{201c}', '\u{201d}', '\u{ab}', '\u{bb}'];
        ascii.contains(&letter) || others.contains(&letter)
    };
    let rest = sentence.trim_start_matches(closes);
    let closing = sentence.len() - rest.len();
    let after = rest.trim_start();
    let is_closed =
        closing > 0 && (after.len() < rest.len() || rest.is_empty() || rest.starts_with("--"));
    is_closed.then_some((closing, sentence.len() - after.len()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn punkt() -> Punkt {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let the = orthography::LOWER_FIRST | 1 << 1;
        let contexts =
            [("the", the), ("he", orthography::LOWER), ("smith", orthography::UPPER_WITHIN)];
        Punkt {
            abbreviations: words(&["mr", "u.s", "inc"]),
            starters: words(&["however"]),
            collocations: HashMap::from([("b".to_owned(), words(&["smith"]))]),
            contexts: contexts.map(|(word, bits)| (word.to_owned(), bits)).into(),
        }
    }

    #[test]
    fn words_and_what_follows_them_say_where_a_sentence_ends() {
        // Expected sentences by the rules of the paper, sections 3 and 4.
        let cases: [(&str, &[&str]); 9] = [
            ("", &[]),
            ("One. Two", &["One.", "Two"]),
            ("Mr. Smith left. He waved!", &["Mr. Smith left.", "He waved!"]),
            ("In the U.S. He won.", &["In the U.S.", "He won."]),
            ("Of Foo Inc. However it fell.", &["Of Foo Inc.", "However it fell."]),
            ("By J. Bach and B. Smith.", &["By J. Bach and B. Smith."]),
            ("He said \"no.\" The end.", &["He said \"no.\"", "The end."]),
            ("What?! Yes... The end", &["What?!", "Yes...", "The end"]),
            ("No. 5. the fifth", &["No.", "5. the fifth"]),
        ];
        for (text, expected) in cases {
            assert_eq!(punkt().sentences(text), expected, "{text}");
        }
    }

    #[test]
    fn a_line_without_a_tab_is_named() {
        let folder = std::env::temp_dir().join(format!("dyno-punkt-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["abbrev_types.txt", "sent_starters.txt", "collocations.tab"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        std::fs::write(folder.join("ortho_context.tab"), "the\t18\nand\n").unwrap();
        let error = Punkt::read(&folder).unwrap_err().to_string();
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(error.ends_with(":2: expected a word, a tab and a number, found and"), "{error}");
    }

    proptest! {
        #[test]
        fn cutting_takes_nothing_away_but_white_space(text in "([A-Ca-c5é.!?\"')“”«,;:() \n-]|Mr\\. |B\\. Smith){0,60}") {
            let bare = |text: &str| text.split_whitespace().collect::<String>();
            let sentences: String = punkt().sentences(&text).concat();
            prop_assert_eq!(bare(&sentences), bare(&text));
        }
    }
}
