//! Normalization of English text, after which equal words are written in one way.
//!
//! Source: Radford et al., *Robust Speech Recognition via Large-Scale Weak Supervision*, appendix
//! C. The order and the quirks are those of its implementation: each step processes the result of
//! the steps before.

use std::collections::HashMap;

use unicode_normalization::UnicodeNormalization;

use super::super::unicode::{
    digit, is_in_word, is_mark_or_symbol, is_nonspacing_mark, is_space, words,
};
use super::numbers::NumberWords;
use super::replacements::Replacements;

/// Symbols that numbers may contain.
const NUMBER_SYMBOLS: &str = ".%$¢€£";

/// Normalizes English text.
///
/// ```
/// use std::collections::HashMap;
///
/// use dyno_metrics::speech::normalizer::Normalizer;
///
/// let spellings = HashMap::from([("colour".to_owned(), "color".to_owned())]);
/// let normalizer = Normalizer::new(spellings);
/// assert_eq!(normalizer.normalize("Uh, I won't: COLOUR twenty-one!"), "i will not color 21");
/// ```
#[derive(Debug)]
pub struct Normalizer {
    fillers: Replacements,
    contractions: Replacements,
    numbers: NumberWords,
    /// American spellings by British ones.
    spellings: HashMap<String, String>,
}

impl Normalizer {
    /// Creates a normalizer. `spellings` maps British spellings to American ones.
    pub fn new(spellings: HashMap<String, String>) -> Self {
        Self {
            fillers: Replacements::fillers(),
            contractions: Replacements::contractions(),
            numbers: NumberWords::default(),
            spellings,
        }
    }

    /// Returns the normalized text: lower-case words and numbers, separated by single spaces. A
    /// space may remain at either end.
    pub fn normalize(&self, text: &str) -> String {
        let text = without_asides(&text.to_lowercase());
        let text = self.fillers.apply(text);
        let text = without_space_before_apostrophes(&text);
        let text = self.contractions.apply(text);
        let text = without_stops(&without_commas_in_numbers(&text));
        let text = without_symbols(&text);
        let text = self.with_numbers(&text);
        let spelt = |word| self.spellings.get(word).map_or(word, String::as_str);
        let text = words(&text).map(spelt).collect::<Vec<_>>().join(" ");
        collapse_spaces(&without_lonely_symbols(&text))
    }

    fn with_numbers(&self, text: &str) -> String {
        let text = separate_numbers(&self.with_halves(text));
        let words: Vec<&str> = words(&text).collect();
        name_ones(&combine_cents(&self.numbers.rewrite(&words).join(" ")))
    }

    /// Rewrites `two and a half` as `two point five`.
    fn with_halves(&self, text: &str) -> String {
        let parts = split_at_halves(text);
        let (last, others) = parts.split_last().expect("a text has a part at least");
        let mut joined: Vec<&str> = Vec::new();
        for &part in others {
            // The source drops a half without a word before it.
            if let Some(word) = words(part).next_back() {
                let is_number = self.numbers.may_have_half(word);
                joined.extend([part, if is_number { "point five" } else { "and a half" }]);
            }
        }
        if words(last).next().is_some() {
            joined.push(last);
        }
        joined.join(" ")
    }
}

/// Removes text in brackets and parentheses.
fn without_asides(text: &str) -> String {
    let text = without(text, ['<', '['], ['>', ']'], 0);
    without(&text, ['('; 2], [')'; 2], 1)
}

/// Removes text from an opening character to the next closing one, if at least `least` bytes are
/// between.
fn without(text: &str, open: [char; 2], close: [char; 2], least: usize) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(start) = rest.find(open) {
        let Some(length) = rest[start + 1..].find(close) else { break };
        let end = start + 1 + if length < least { 0 } else { length + 1 };
        out.push_str(&rest[..if length < least { end } else { start }]);
        rest = &rest[end..];
    }
    out + rest
}

fn without_space_before_apostrophes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character == '\'' {
            out.truncate(out.trim_end_matches(is_space).len());
        }
        out.push(character);
    }
    out
}

/// Rewrites `12,000` as `12000`. A digit belongs to one comma only: `1,2,3` becomes `12,3`.
fn without_commas_in_numbers(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    let mut is_after_digit = false;
    while let Some(character) = characters.next() {
        if character == ','
            && is_after_digit
            && let Some(next) = characters.next_if(|next| digit(*next).is_some())
        {
            out.push(next);
            is_after_digit = false;
            continue;
        }
        out.push(character);
        is_after_digit = digit(character).is_some();
    }
    out
}

/// Removes full stops without a digit after them. The second of two full stops follows the first
/// one and remains.
fn without_stops(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character != '.' {
            out.push(character);
            continue;
        }
        match characters.next_if(|next| !next.is_ascii_digit()) {
            Some(next) => out.extend([' ', next]),
            None if characters.peek().is_none() => out.push(' '),
            None => out.push('.'),
        }
    }
    out
}

/// Removes diacritics from letters, and replaces symbols outside numbers by spaces.
fn without_symbols(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.nfkd() {
        match (character, ascii_letters(character)) {
            (_, Some(ascii_letters)) => out.push_str(ascii_letters),
            _ if character.is_ascii_alphanumeric() || NUMBER_SYMBOLS.contains(character) => {
                out.push(character);
            }
            _ if is_nonspacing_mark(character) => {}
            _ => out.push(if is_mark_or_symbol(character) { ' ' } else { character }),
        }
    }
    out
}

/// Returns the ASCII letters for a letter that Unicode does not decompose.
fn ascii_letters(character: char) -> Option<&'static str> {
    Some(match character {
        'œ' => "oe",
        'Œ' => "OE",
        'ø' => "o",
        'Ø' => "O",
        'æ' => "ae",
        'Æ' => "AE",
        'ß' => "ss",
        'ẞ' => "SS",
        'đ' | 'ð' => "d",
        'Đ' | 'Ð' => "D",
        'þ' | 'Þ' => "th",
        'ł' => "l",
        'Ł' => "L",
        _ => return None,
    })
}

/// Returns the texts between occurrences of `and a half`.
fn split_at_halves(text: &str) -> Vec<&str> {
    let (mut parts, mut done, mut at) = (Vec::new(), 0, 0);
    while let Some(found) = text[at..].find("and") {
        let start = at + found;
        at = start + 1;
        if let Some(end) = end_of_half(text, start) {
            parts.push(&text[done..start]);
            (done, at) = (end, end);
        }
    }
    parts.push(&text[done..]);
    parts
}

/// Returns the end of an `and a half` that begins at `start`.
fn end_of_half(text: &str, start: usize) -> Option<usize> {
    let after_space = |text: &'static str, from: &str| {
        let trimmed = from.trim_start_matches(is_space);
        (trimmed.len() < from.len()).then(|| trimmed.strip_prefix(text).map(str::len)).flatten()
    };
    if is_in_word(text, start) {
        return None;
    }
    let left = after_space("a", &text[start + 3..])?;
    let left = after_space("half", &text[text.len() - left..])?;
    let end = text.len() - left;
    (!is_in_word(text, end)).then_some(end)
}

/// Inserts spaces between digits and letters, except in forms such as `1960s` and `2nd`.
fn separate_numbers(text: &str) -> String {
    let mut apart = String::with_capacity(text.len() + 8);
    let mut before = ' ';
    for character in text.chars() {
        let is_edge = (before.is_ascii_lowercase() && character.is_ascii_digit())
            || (before.is_ascii_digit() && character.is_ascii_lowercase());
        if is_edge {
            apart.push(' ');
        }
        apart.push(character);
        before = character;
    }
    let mut out = String::with_capacity(apart.len());
    let mut rest = apart.as_str();
    while let Some(at) = rest.find(|character: char| character.is_ascii_digit()) {
        out.push_str(&rest[..=at]);
        rest = &rest[at + 1..];
        let trimmed = rest.trim_start_matches(is_space);
        let is_suffix =
            |suffix: &&str| trimmed.starts_with(*suffix) && !is_in_word(trimmed, suffix.len());
        if trimmed.len() < rest.len() && ["st", "nd", "rd", "th", "s"].iter().any(is_suffix) {
            rest = trimmed;
        }
    }
    out + rest
}

/// Rewrites `$2 and ¢7` as `$2.07`, and `$0.07` as `¢7`.
fn combine_cents(text: &str) -> String {
    let mut combined = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['€', '£', '$']) {
        let after = at + rest[at..].chars().next().map_or(0, char::len_utf8);
        combined.push_str(&rest[..after]);
        rest = &rest[after..];
        if let Some((whole, cents, end)) = whole_and_cents(rest) {
            combined.push_str(&format!("{whole}.{cents:02}"));
            rest = &rest[end..];
        }
    }
    combined.push_str(rest);

    let mut out = String::with_capacity(combined.len());
    let mut rest = combined.as_str();
    while let Some(at) = rest.find(['€', '£', '$']) {
        let after = at + rest[at..].chars().next().map_or(0, char::len_utf8);
        // The source accepts any character in place of the decimal point.
        let cents = rest[after..].strip_prefix('0').and_then(|rest| {
            let mut characters = rest.chars();
            characters.next()?;
            cents(characters.as_str())
        });
        match cents {
            Some((cents, left)) => {
                out.push_str(&rest[..at]);
                out.push_str(&format!("¢{cents}"));
                rest = &rest[rest.len() - left..];
            }
            None => {
                out.push_str(&rest[..after]);
                rest = &rest[after..];
            }
        }
    }
    out + rest
}

/// Returns the whole part, the cents after it, and the offset of their end.
fn whole_and_cents(text: &str) -> Option<(&str, u32, usize)> {
    let whole = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let rest = text[whole..].strip_prefix(' ').filter(|_| whole > 0)?;
    let rest = rest.strip_prefix("and ").unwrap_or(rest);
    let (cents, left) = cents(rest.strip_prefix('¢')?)?;
    Some((&text[..whole], cents, text.len() - left))
}

/// Returns a number of one or two digits at the end of a word, and the number of bytes after it.
fn cents(text: &str) -> Option<(u32, usize)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let is_end = (1..=2).contains(&digits) && !is_in_word(text, digits);
    is_end.then(|| text[..digits].parse().ok().map(|cents| (cents, text.len() - digits))).flatten()
}

/// Rewrites `1` as `one`, and `1s` as `ones`.
fn name_ones(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for (at, _) in text.match_indices('1') {
        let ends = [at + 1, at + 2];
        let is_plural = text[at + 1..].starts_with('s') && !is_in_word(text, ends[1]);
        if !is_in_word(text, at) && (is_plural || !is_in_word(text, ends[0])) {
            out.push_str(&text[done..at]);
            out.push_str("one");
            done = at + 1;
        }
    }
    out + &text[done..]
}

/// Removes symbols without a digit after or before them.
fn without_lonely_symbols(text: &str) -> String {
    let mut before = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if ".$¢€£".contains(character)
            && let Some(next) = characters.next_if(|next| !next.is_ascii_digit())
        {
            before.extend([' ', next]);
            continue;
        }
        before.push(character);
    }
    let mut out = String::with_capacity(before.len());
    let mut characters = before.chars().peekable();
    while let Some(character) = characters.next() {
        out.push(character);
        if !character.is_ascii_digit() && characters.next_if_eq(&'%').is_some() {
            out.push(' ');
        }
    }
    out
}

fn collapse_spaces(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match (is_space(character), out.ends_with(' ')) {
            (true, true) => {}
            (true, false) => out.push(' '),
            (false, _) => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_the_source() {
        // Results of openai-whisper 20250625. `cargo xtask peers` compares thousands of texts.
        let cases = [
            ("$20 million", "$20000000"),
            ("one oh one, double oh seven", "101007"),
            ("Mr. O'Neil's [noise] café (laughs)", "mister 0 neil is cafe"),
            ("two and a half and a half", "2.5"),
            ("the 1960 s, 2 nd of twenty-first", "the 1960s 2nd of 21st"),
            ("one dollar and seven cents", " one.07"),
            ("He won't realise; she's been 1,234,567", "he will not realize she has been 1234567"),
            ("fifty per cent % .x", "50% x"),
            ("\u{130}stanbul \u{153}uvre \u{bd}", "istanbul oeuvre one 2"),
            // Suffixes join figures, and no words.
            ("q 80 s, eighty s, eighty \u{2019}s", "q 80s 80 s 80 s"),
            ("five-s five th 5 th", "5 s 5 th 5th"),
            ("it \u{2019}s eighty \u{2019}s best", "it s 80 s best"),
        ];
        let spellings = HashMap::from([("realise".to_owned(), "realize".to_owned())]);
        let normalizer = Normalizer::new(spellings);
        for (text, expected) in cases {
            assert_eq!(normalizer.normalize(text), expected, "{text}");
        }
    }
}
