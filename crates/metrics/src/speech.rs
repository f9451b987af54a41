//! Word error rate: the minimum number of words to change, insert or delete, divided by the number
//! of words in the reference.
//!
//! Source: `accuracy_eval.py` of the benchmark RNN-T on LibriSpeech, which prints all digits and
//! counts every entry of the log.

mod manifest;
pub mod normalizer;
pub mod numbers;
pub mod phonemes;
mod replacements;
pub mod whisper;

use std::ops::AddAssign;

use super::edits::{distance, words};
use super::payload::{self, Element};
use super::{
    AnswerError, Figure, Method, Need, Rejection, RepeatPolicy, Scorer, Scores, judge_all,
    reference_of, single_result,
};

pub use manifest::{AudioFile, Utterance, read_transcripts, read_utterances};

const MANIFEST: Need = Need {
    name: "manifest",
    help: "dev-clean-wav.json of LibriSpeech: a list of objects with transcript and \
           original_duration",
    is_required: true,
};

/// Method of `rnnt`.
pub(crate) const WORD_ERRORS: Method = Method {
    name: "word-errors",
    title: "100 minus the word error rate in percent",
    answer: "the transcript, one element per character: 0 to 27 for space, a to z and apostrophe",
    element: Some(Element::I64),
    needs: &[MANIFEST],
    choices: &[],
    open: |inputs| {
        let transcripts = read_transcripts(inputs.file(&MANIFEST)?, LONGEST_SECONDS)?;
        let element = inputs.element.unwrap_or(Element::I64);
        Ok(Box::new(Transcripts::new(transcripts, element)))
    },
};

/// Characters by their number in an answer.
const LABELS: &[u8] = b" abcdefghijklmnopqrstuvwxyz'";

/// Maximum duration of an utterance in the data set, in seconds.
pub const LONGEST_SECONDS: f64 = 15.0;

/// Word errors, summed over transcripts.
///
/// ```
/// use dyno_metrics::speech::WordErrors;
///
/// let mut errors = WordErrors::default();
/// errors.add("the cat sat", "the bat sat");
/// assert_eq!(errors, WordErrors { errors: 1, words: 3 });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WordErrors {
    /// Minimum number of words to change, insert or delete.
    pub errors: u64,
    /// Words of the references.
    pub words: u64,
}

impl WordErrors {
    /// Adds a transcript and its reference. White space separates words. O(words of the one × words
    /// of the other).
    pub fn add(&mut self, found: &str, expected: &str) {
        let [found, expected] = [found, expected].map(|text| words(text, |word| word));
        self.errors += distance(&found, &expected) as u64;
        self.words += expected.len() as u64;
    }

    /// Returns the errors per word. It exceeds 1 if many words were inserted.
    pub fn rate(&self) -> f64 {
        self.errors as f64 / self.words as f64
    }
}

impl AddAssign for WordErrors {
    fn add_assign(&mut self, more: Self) {
        self.errors += more.errors;
        self.words += more.words;
    }
}

/// Scores transcripts.
#[derive(Debug)]
pub struct Transcripts {
    references: Vec<String>,
    element: Element,
    errors: WordErrors,
}

impl Transcripts {
    /// Creates the scorer. References are lower-case words, separated by spaces.
    pub fn new(references: Vec<String>, element: Element) -> Self {
        Self { references, element, errors: WordErrors::default() }
    }

    fn judge(&self, errors: &mut WordErrors, index: u64, answer: &[u8]) -> Result<(), AnswerError> {
        let reference = reference_of(&self.references, index)?;
        let text = text(self.element, answer);
        // A malformed transcript counts as empty: all words of the reference are errors.
        errors.add(text.as_deref().unwrap_or_default(), reference);
        text.map(drop)
    }
}

/// Converts numbers of characters to text.
fn text(element: Element, answer: &[u8]) -> Result<String, AnswerError> {
    let numbers = payload::wholes(element, answer)?;
    let mut text = String::with_capacity(numbers.len());
    for number in numbers {
        let label = usize::try_from(number).ok().and_then(|at| LABELS.get(at));
        let label = label.ok_or_else(|| AnswerError::Content {
            expected: format!("characters from 0 to {}", LABELS.len() - 1),
            found: number.to_string(),
        })?;
        text.push(char::from(*label));
    }
    Ok(text)
}

impl Scorer for Transcripts {
    fn take(&mut self, index: u64, answer: &[u8]) -> Result<(), AnswerError> {
        single_result(self.take_all(&[(index, answer)]))
    }

    fn take_all(&mut self, answers: &[(u64, &[u8])]) -> Vec<Rejection> {
        let (errors, wrong) =
            judge_all(answers, |errors, index, answer| self.judge(errors, index, answer));
        self.errors += errors;
        wrong
    }

    fn repeat_policy(&self) -> RepeatPolicy {
        RepeatPolicy::All
    }

    fn references(&self) -> Option<u64> {
        Some(self.references.len() as u64)
    }

    fn scores(&mut self) -> Scores {
        let rate = self.errors.rate();
        let (percent, value) = (100.0 * rate, 100.0 * (1.0 - rate));
        Scores {
            figures: vec![Figure { metric: "WER", value }],
            text: format!("Word Error Rate: {percent:?}%, accuracy={value:?}%\n"),
            ..Scores::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::assert_checker_reads;
    use super::*;

    fn numbers(text: &str) -> Vec<u8> {
        let number = |letter| LABELS.iter().position(|label| *label == letter).unwrap() as u8;
        text.bytes().map(number).collect()
    }

    #[test]
    fn what_is_no_transcript_has_every_word_wrong() {
        let references = vec!["a cat sat".to_owned(), "it's one".to_owned()];
        let mut transcripts = Transcripts::new(references, Element::I8);
        assert_eq!(transcripts.take(0, &numbers("the cat  sat on")), Ok(()));
        let error = transcripts.take(1, &[1, 28]).unwrap_err();
        assert_eq!(error.to_string(), "expected characters from 0 to 27, found 28");
        assert_eq!(transcripts.errors, WordErrors { errors: 4, words: 5 });
        let scores = transcripts.scores();
        assert_checker_reads("v1.1", "rnnt", &scores);
        let text = scores.text;
        assert_eq!(text, "Word Error Rate: 80.0%, accuracy=19.999999999999996%\n");
    }

    #[test]
    fn errors_keep_the_names_of_records() {
        let error = serde_json::from_str::<AudioFile>("1").expect_err("1 is no object").to_string();
        assert!(error.contains("expected struct Recorded "), "{error}");
    }
}
