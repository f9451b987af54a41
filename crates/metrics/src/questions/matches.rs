//! Whether an answer is right: numbers, identifiers and words that it must hold.
//!
//! Source: `evaluate-accuracy.py` of the benchmarks Mixtral 8x7B and Llama 3.1
//! 405B, with what they do to answers that nobody had in mind.

use std::sync::LazyLock;

use regex::Regex;

use super::super::text::is_space;

/// With a sign, commas between digits, and a decimal point.
static NUMBER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"-?[0-9,]*\.?[0-9]+").expect("a constant expression is right"));

/// What Mixtral was told to say before its answer.
const BEFORE_NUMBER: &str = "The answer is";

/// What comes after its answer when it goes on with questions of its own.
const AFTER_NUMBER: &str = "\nQ:";

/// What Llama was told to say before its answer.
const BEFORE_ANSWER: &str = "Answer: ";

/// Characters of the parts of an identifier, with dashes between.
const UUID: [usize; 5] = [8, 4, 4, 4, 12];

/// The number that an answer of GSM8K gives: the first after its last "The answer
/// is", or else the last that there is.
#[must_use]
pub fn number(answer: &str) -> Option<f64> {
    let answer = answer.split(AFTER_NUMBER).next().unwrap_or_default();
    let introduced =
        answer.rsplit_once(BEFORE_NUMBER).and_then(|(_, introduced)| NUMBER.find(introduced));
    let found = introduced.or_else(|| NUMBER.find_iter(answer).last())?;
    found.as_str().replace(',', "").parse().ok()
}

/// How many characters of the wanted identifiers are somewhere in the one that was
/// found in their place, as a mean in percent with two decimals. (The script goes
/// through the characters of an identifier as if through a list of identifiers.)
#[must_use]
pub fn identifiers(wanted: &str, found: &str) -> f64 {
    let (wanted, found) = (uuids(wanted), uuids(found));
    let shared = |(found, wanted): (&String, &String)| {
        let found = found.to_lowercase();
        let is_shared = |letter: &char| found.contains(&letter.to_lowercase().to_string());
        wanted.chars().filter(is_shared).count() as f64 / wanted.chars().count() as f64
    };
    let sum: f64 = found.iter().zip(&wanted).map(shared).sum();
    let percent = sum / found.len().max(1) as f64 * 100.0;
    format!("{percent:.2}").parse().unwrap_or(percent)
}

/// Texts of the form of a UUID, whatever their letters.
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

/// Whether an answer is a part of what is wanted, or holds one of the answers that
/// are wanted, with `|` between, without white space and case.
#[must_use]
pub fn is_answer(wanted: &str, found: &str) -> bool {
    let answer = found.rsplit_once(BEFORE_ANSWER).map_or(found, |(_, answer)| answer);
    let bare = |text: &str| {
        let letters: String = text.chars().filter(|letter| !is_space(*letter)).collect();
        letters.to_lowercase()
    };
    let bare_answer = bare(answer);
    wanted.contains(answer) || wanted.split('|').any(|wanted| bare_answer.contains(&bare(wanted)))
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
        let wanted = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee";
        assert_eq!(identifiers(wanted, &format!("It is {}!", wanted.to_uppercase())), 100.0);
        assert_eq!(identifiers(wanted, "none"), 0.0);
        // The dashes, the 8 of a and the 4 of b, of 36; the second has no partner.
        let found = "abababab-0000-0000-0000-000000000000 x00000000-0000-0000-0000-000000000000";
        assert_eq!(identifiers(wanted, found), 22.22);
    }

    #[test]
    fn an_answer_is_one_of_several_or_a_part_of_them() {
        let wanted = "New York|NYC";
        for right in ["Answer: nyc", "Answer: it is NEW\nYORK.", "York", "", "New. Answer: "] {
            assert!(is_answer(wanted, right), "{right}");
        }
        for wrong in ["Answer: Boston", "Answer: NYC. Answer: LA"] {
            assert!(!is_answer(wanted, wrong), "{wrong}");
        }
    }
}
