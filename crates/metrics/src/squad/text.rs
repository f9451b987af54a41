//! Answers as texts: their location in the context, and their agreement with the accepted answers.
//!
//! Source: `evaluate_v1.1.py` of SQuAD, and the projection of the accuracy script.

use std::collections::HashMap;

use super::super::unicode::{is_word, words};
use super::wordpiece::WordPieces;

/// Returns the part of `original` that `pieces` stand for. `original` are words of the context,
/// separated by spaces. Returns all of `original` if the part cannot be determined, for example if
/// a word consists of several pieces.
///
/// ```
/// use dyno_metrics::squad::text::project;
/// use dyno_metrics::squad::wordpiece::WordPieces;
///
/// let tokenizer = WordPieces::new(["[UNK]", "steve", "smith", "s", "'"].into_iter());
/// assert_eq!(project("Steve Smith's", "steve smith", &tokenizer), "Steve Smith");
/// ```
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
    // Both texts have equal numbers of characters, which correspond one by one.
    let before = not_spaces(&found[..start]);
    let length = not_spaces(pieces);
    let mut places = original.char_indices().filter(|(_, character)| *character != ' ');
    let (first, _) = places.clone().nth(before)?;
    let (last, character) = places.nth(before + length.checked_sub(1)?)?;
    original.get(first..last + character.len_utf8())
}

/// Agreement of an answer with the accepted answers.
///
/// ```
/// use dyno_metrics::squad::text::Quality;
///
/// let accepted = ["The black cat".to_owned(), "cat".to_owned()];
/// assert_eq!(Quality::best("a cat!", &accepted), Quality { exact: 1.0, f1: 1.0 });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Quality {
    /// 1 for an exact match, otherwise 0.
    pub exact: f64,
    /// Harmonic mean of precision and recall of words, in [0, 1].
    pub f1: f64,
}

impl Quality {
    /// Returns the best of each figure over all accepted answers.
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

/// Returns the words in lower case, without ASCII punctuation and articles.
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
        // Example in BERT's own script.
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
        // Two empty answers match exactly and share no word.
        assert_eq!(Quality::best("the", &["a".to_owned()]), Quality { exact: 1.0, f1: 0.0 });
        assert_eq!(normalized_words("a\u{2013}b an_x U.S."), ["\u{2013}b", "anx", "us"]);
    }
}
