//! Matching of answers: numbers, identifiers and words that an answer must contain.
//!
//! Source: `evaluate-accuracy.py` of the benchmarks Mixtral 8x7B and Llama 3.1 405B, including how
//! they treat unforeseen answers.

use std::sync::LazyLock;

use regex::Regex;

use super::super::text::is_space;

/// A number with a sign, commas between digits, and a decimal point.
static NUMBER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"-?[0-9,]*\.?[0-9]+").expect("a constant expression is right"));

/// Text that the prompt of Mixtral requires before the number.
const BEFORE_NUMBER: &str = "The answer is";

/// Beginning of further questions that the model makes up after its answer.
const AFTER_NUMBER: &str = "\nQ:";

/// Text that the prompt of Llama requires before the answer.
const BEFORE_ANSWER: &str = "Answer: ";

/// Lengths of the parts of an identifier, which dashes separate.
const UUID: [usize; 5] = [8, 4, 4, 4, 12];

/// Returns the number in an answer to GSM8K: the first one after the last "The answer is",
/// otherwise the last one.
///
/// ```
/// use dyno_metrics::questions::matches::number;
///
/// assert_eq!(number("2 and 3. The answer is 1,005."), Some(1005.0));
/// assert_eq!(number("none"), None);
/// ```
pub fn number(answer: &str) -> Option<f64> {
    let answer = answer.split(AFTER_NUMBER).next().unwrap_or_default();
    let introduced =
        answer.rsplit_once(BEFORE_NUMBER).and_then(|(_, introduced)| NUMBER.find(introduced));
    let found = introduced.or_else(|| NUMBER.find_iter(answer).last())?;
    found.as_str().replace(',', "").parse().ok()
}

/// Returns the share of characters of the expected identifiers that occur anywhere in the identifier
/// found in their place, as a mean in percent with two decimals. (The script iterates over the
/// characters of an identifier as if it were a list of identifiers.)
///
/// ```
/// use dyno_metrics::questions::matches::identifiers;
///
/// let expected = "123e4567-e89b-12d3-a456-426614174000";
/// assert_eq!(identifiers(expected, &format!("It is {expected}.")), 100.0);
/// assert_eq!(identifiers(expected, "I do not know."), 0.0);
/// ```
pub fn identifiers(expected: &str, found: &str) -> f64 {
    let (expected, found) = (uuids(expected), uuids(found));
    let shared = |(found, expected): (&String, &String)| {
        let found = found.to_lowercase();
        let is_shared = |letter: &char| found.contains(&letter.to_lowercase().to_string());
        expected.chars().filter(is_shared).count() as f64 / expected.chars().count() as f64
    };
    let sum: f64 = found.iter().zip(&expected).map(shared).sum();
    let percent = sum / found.len().max(1) as f64 * 100.0;
    format!("{percent:.2}").parse().unwrap_or(percent)
}

/// Returns texts in the form of a UUID, with any letters.
fn uuids(text: &str) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    let is_word = |letter: &char| letter.is_alphanumeric() || *letter == '_';
    let uuid_length = |text: &[char]| {
        let mut at = 0;
        for (part, length) in UUID.into_iter().enumerate() {
            let is_apart = part == 0 || text.get(at) == Some(&'-');
            at += usize::from(part > 0);
            let is_part = text.get(at..at + length).is_some_and(|word| word.iter().all(is_word));
            if !is_apart || !is_part {
                return None;
            }
            at += length;
        }
        Some(at)
    };
    let (mut found, mut at) = (Vec::new(), 0);
    while at < letters.len() {
        let length = uuid_length(&letters[at..]);
        found.extend(length.map(|length| letters[at..at + length].iter().collect()));
        at += length.unwrap_or(1);
    }
    found
}

/// Returns whether an answer is part of the expected text, or contains one of the expected answers,
/// which `|` separates. White space and case do not count for the latter.
///
/// ```
/// use dyno_metrics::questions::matches::is_answer;
///
/// assert!(is_answer("New York|NYC", "Answer: It is new york."));
/// assert!(!is_answer("New York|NYC", "Answer: Boston"));
/// ```
pub fn is_answer(expected: &str, found: &str) -> bool {
    let answer = found.rsplit_once(BEFORE_ANSWER).map_or(found, |(_, answer)| answer);
    let bare = |text: &str| {
        let letters: String = text.chars().filter(|letter| !is_space(*letter)).collect();
        letters.to_lowercase()
    };
    let bare_answer = bare(answer);
    expected.contains(answer)
        || expected.split('|').any(|expected| bare_answer.contains(&bare(expected)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_an_answer_is_where_the_prompt_asks_for_it() {
        let cases = [
            ("5 + 6. The answer is $1,234.50. Or 7", Some(1234.5)),
            ("The answer is 3. The answer is none, 4 or 5", Some(4.0)),
            ("It is 8, or 9. The answer is unknown", Some(9.0)),
            ("-,5 of them\nQ: 17?", Some(-5.0)),
            ("10-7", Some(-7.0)),
            ("none", None),
        ];
        for (answer, expected) in cases {
            assert_eq!(number(answer), expected, "{answer}");
        }
    }

    #[test]
    fn identifiers_share_characters() {
        let expected = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee";
        assert_eq!(identifiers(expected, &format!("It is {}!", expected.to_uppercase())), 100.0);
        assert_eq!(identifiers(expected, "none"), 0.0);
        // The dashes, the 8 of a and the 4 of b, of 36. The second identifier has no counterpart.
        let found = "abababab-0000-0000-0000-000000000000 x00000000-0000-0000-0000-000000000000";
        assert_eq!(identifiers(expected, found), 22.22);
    }

    #[test]
    fn an_answer_is_one_of_several_or_a_part_of_them() {
        let expected = "New York|NYC";
        for right in ["Answer: nyc", "Answer: it is NEW\nYORK.", "York", "", "New. Answer: "] {
            assert!(is_answer(expected, right), "{right}");
        }
        for wrong in ["Answer: Boston", "Answer: NYC. Answer: LA"] {
            assert!(!is_answer(expected, wrong), "{wrong}");
        }
    }
}
