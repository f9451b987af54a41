//! Answers as texts: where they stand in the context, and how far they are those that
//! are right.
//!
//! Source: `evaluate_v1.1.py` of SQuAD, and the projection of the accuracy script.

use std::collections::HashMap;

use super::super::unicode::{is_word, words};
use super::wordpiece::WordPieces;

/// What a model's pieces are in the context they come from: of `original`, words with
/// spaces between, what `pieces` stand for, where that can be said. Words of several
/// pieces cannot be matched, and leave the original as it is.
#[must_use]
pub fn project(original: &str, pieces: &str, tokenizer: &WordPieces) -> String {
    let found = tokenizer.join(&tokenizer.split(original));
    matching_part(original, pieces, &found).unwrap_or(original).to_owned()
}

fn matching_part<'a>(original: &'a str, pieces: &str, found: &str) -> Option<&'a str> {
    let start = found.find(pieces).filter(|_| !pieces.is_empty())?;
    let not_spaces = |text: &str| text.chars().filter(|character| *character != ' ').count();
    if not_spaces(original) != not_spaces(found) {
        return None;
    }
    // Both have as many characters, which belong to each other one by one.
    let before = not_spaces(&found[..start]);
    let length = not_spaces(pieces);
    let mut places = original.char_indices().filter(|(_, character)| *character != ' ');
    let (first, _) = places.clone().nth(before)?;
    let (last, character) = places.nth(before + length.checked_sub(1)?)?;
    original.get(first..last + character.len_utf8())
}

/// How good an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Quality {
    /// Whether it is right: 0 or 1.
    pub exact: f64,
    /// The harmonic mean of the share of words that are right and of right words that
    /// are there.
    pub f1: f64,
}

impl Quality {
    /// The best over answers that are right, of each figure by itself.
    #[must_use]
    pub fn best(answer: &str, right: &[String]) -> Self {
        let answer = normalized_words(answer);
        right.iter().map(|right| Self::compare(&answer, &normalized_words(right))).fold(
            Self::default(),
            |best, one| Self { exact: best.exact.max(one.exact), f1: best.f1.max(one.f1) },
        )
    }

    fn compare(answer: &[String], right: &[String]) -> Self {
        let mut left: HashMap<&str, u32> = HashMap::new();
        for word in right {
            *left.entry(word).or_default() += 1;
        }
        let mut shared = 0_u32;
        for word in answer {
            if let Some(count) = left.get_mut(word.as_str()).filter(|count| **count > 0) {
                *count -= 1;
                shared += 1;
            }
        }
        let exact = f64::from(u8::from(answer == right));
        if shared == 0 {
            return Self { exact, f1: 0.0 };
        }
        let share = |words: &[String]| f64::from(shared) / words.len() as f64;
        let (precision, recall) = (share(answer), share(right));
        Self { exact, f1: (2.0 * precision * recall) / (precision + recall) }
    }
}

/// Words in lower case, without the punctuation of ASCII and without articles.
fn normalized_words(text: &str) -> Vec<String> {
    let mut text = text.to_lowercase();
    text.retain(|character| !character.is_ascii_punctuation());
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let word = rest.find(|character| !is_word(character)).unwrap_or(rest.len());
        let is_article = matches!(&rest[..word], "a" | "an" | "the");
        out.push_str(if is_article { " " } else { &rest[..word] });
        let other = rest[word..].find(is_word).map_or(rest.len(), |length| word + length);
        out.push_str(&rest[word..other]);
        rest = &rest[other..];
    }
    words(&out).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_what_stands_in_the_context() {
        let vocabulary = ["[UNK]", "steve", "smith", "'", "s", "in", "par", "##is"];
        let tokenizer = WordPieces::new(vocabulary.into_iter());
        // The example of BERT's own script.
        assert_eq!(project("Steve Smith's", "steve smith", &tokenizer), "Steve Smith");
        assert_eq!(project("(in", "in", &tokenizer), "(in", "[UNK] has another length");
        assert_eq!(project("in Paris", "in", &tokenizer), "in Paris", "## is in the way");
        assert_eq!(project("in s", "smith", &tokenizer), "in s");
        assert_eq!(project("\u{cd}N s", "in", &tokenizer), "\u{cd}N");
    }

    #[test]
    fn words_count_without_articles_and_punctuation() {
        let right = ["The Denver Broncos!".to_owned(), "Denver".to_owned()];
        assert_eq!(Quality::best("denver  broncos", &right), Quality { exact: 1.0, f1: 1.0 });
        let half = Quality::best("an a Denver x", &["denver y".to_owned()]);
        assert_eq!(half, Quality { exact: 0.0, f1: 0.5 });
        // Nothing is nothing, and shares no word with it.
        assert_eq!(Quality::best("the", &["a".to_owned()]), Quality { exact: 1.0, f1: 0.0 });
        assert_eq!(normalized_words("a\u{2013}b an_x U.S."), ["\u{2013}b", "anx", "us"]);
    }
}
