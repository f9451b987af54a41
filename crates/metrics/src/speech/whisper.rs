//! Word error rate of normalized English, in which one side may join words that the other
//! separates.
//!
//! Source: `accuracy_eval.py` of the benchmark Whisper on LibriSpeech, which prints all digits and
//! counts every entry of the log.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use dyno_tensors::files;

use super::super::edits::{Word, distance};
use super::super::payload::{self, Element};
use super::super::unicode::words;
use super::super::{
    AnswerError, Choice, DataError, Figure, Inputs, Method, Need, RepeatPolicy, Scorer, Scores,
    reference_of,
};
use super::normalizer::Normalizer;
use super::{WordErrors, manifest};

const MANIFEST: Need = Need {
    name: "manifest",
    help: "dev-all-repack.json of LibriSpeech: a list of objects with transcript and \
           original_duration",
    is_required: true,
};

const SPELLINGS: Need = Need {
    name: "spellings",
    help: "english.json of the normalizer of Whisper: an object that maps British to American \
           spellings; without it, they count as different",
    is_required: false,
};

const LABELS: Choice = Choice {
    name: "labels",
    values: &["42", "45", "text"],
    help: "meaning of the numbers in an answer: 42 for space, a-z, apostrophe, 0-9 and $%+-; 45 \
           with $¢£€%+- instead of $%+-; text for UTF-8 instead of numbers",
};

/// Method of `whisper`.
pub(crate) const NORMALIZED_WORD_ERRORS: Method = Method {
    name: "normalized-word-errors",
    title: "100 minus the word error rate of normalized English in percent",
    answer: "the transcript, one element per character",
    element: Some(Element::I64),
    needs: &[MANIFEST, SPELLINGS],
    choices: &[LABELS],
    open: |inputs| Ok(Box::new(NormalizedTranscripts::read(inputs)?)),
};

/// Characters by their number in an answer.
const LABELS_42: &str = " abcdefghijklmnopqrstuvwxyz'0123456789$%+-";
const LABELS_45: &str = " abcdefghijklmnopqrstuvwxyz'0123456789$¢£€%+-";

/// Maximum duration of an utterance in the data set, in seconds.
const LONGEST_SECONDS: f64 = 30.0;

/// Maximum number of words that are joined.
const LONGEST_RUN: usize = 3;

impl WordErrors {
    /// Adds a transcript and its reference. Up to three words of one side that together form the
    /// next word of the other count as that word. Words are joined from front to back, without
    /// backtracking.
    ///
    /// ```
    /// use dyno_metrics::speech::WordErrors;
    ///
    /// let mut errors = WordErrors::default();
    /// errors.add_joined(&["ice", "cream"], &["icecream"]);
    /// assert_eq!(errors, WordErrors { errors: 0, words: 1 });
    /// ```
    pub fn add_joined(&mut self, found: &[&str], expected: &[&str]) {
        self.words += expected.len() as u64;
        let (found, expected) = join_words(found, expected);
        let [found, expected] = [&found, &expected]
            .map(|side| side.iter().map(|word| Word::new(word)).collect::<Vec<_>>());
        self.errors += distance(&found, &expected) as u64;
    }
}

/// Returns both texts with words joined that the other has as one.
fn join_words<'a>(
    mut found: &[&'a str],
    mut expected: &[&'a str],
) -> (Vec<Cow<'a, str>>, Vec<Cow<'a, str>>) {
    let (mut found_out, mut expected_out) = (Vec::new(), Vec::new());
    while let (Some(one), Some(other)) = (found.first(), expected.first()) {
        let lengths = (1..=LONGEST_RUN).find_map(|length| {
            let is_run = |words: &[&str], word: &str| {
                words.get(..length).is_some_and(|take_run| is_concatenation(take_run, word))
            };
            if is_run(expected, one) {
                Some((1, length))
            } else {
                is_run(found, other).then_some((length, 1))
            }
        });
        let (found_length, expected_length) = lengths.unwrap_or((1, 1));
        found_out.push(take_run(&mut found, found_length));
        expected_out.push(take_run(&mut expected, expected_length));
    }
    found_out.extend(found.iter().map(|word| Cow::Borrowed(*word)));
    expected_out.extend(expected.iter().map(|word| Cow::Borrowed(*word)));
    (found_out, expected_out)
}

fn is_concatenation(take_run: &[&str], word: &str) -> bool {
    take_run.iter().try_fold(word, |rest, part| rest.strip_prefix(part)).is_some_and(str::is_empty)
}

/// Removes the first `length` words and returns them joined.
fn take_run<'a>(words: &mut &[&'a str], length: usize) -> Cow<'a, str> {
    let (take_run, rest) = words.split_at(length);
    *words = rest;
    if let [word] = take_run { Cow::Borrowed(word) } else { Cow::Owned(take_run.concat()) }
}

/// Scores transcripts after normalization.
#[derive(Debug)]
pub struct NormalizedTranscripts {
    normalizer: Normalizer,
    /// Normalized reference transcripts.
    references: Vec<String>,
    answers: AnswerFormat,
    has_spellings: bool,
    errors: WordErrors,
}

/// Format of answers.
#[derive(Debug)]
enum AnswerFormat {
    /// Numbers of characters.
    Numbers(Element, Vec<char>),
    /// UTF-8.
    Text,
}

impl NormalizedTranscripts {
    fn read(inputs: &Inputs) -> Result<Self, DataError> {
        let spellings = inputs.file(&SPELLINGS).ok().map(read_spellings).transpose()?;
        let has_spellings = spellings.is_some();
        let normalizer = Normalizer::new(spellings.unwrap_or_default());
        let element = inputs.element.unwrap_or(Element::I64);
        let answers = match inputs.choice(&LABELS) {
            "text" => AnswerFormat::Text,
            "45" => AnswerFormat::Numbers(element, LABELS_45.chars().collect()),
            _ => AnswerFormat::Numbers(element, LABELS_42.chars().collect()),
        };
        let mut references = manifest::read(inputs.file(&MANIFEST)?, LONGEST_SECONDS)?;
        for reference in &mut references {
            if let AnswerFormat::Numbers(_, labels) = &answers {
                reference.retain(|character| labels.contains(&character));
            }
            *reference = normalizer.normalize(reference);
        }
        Ok(Self { normalizer, references, answers, has_spellings, errors: WordErrors::default() })
    }
}

impl AnswerFormat {
    fn text<'a>(&self, answer: &'a [u8]) -> Result<Cow<'a, str>, AnswerError> {
        match self {
            Self::Numbers(element, labels) => characters(*element, labels, answer).map(Cow::Owned),
            Self::Text => payload::text(answer).map(Cow::Borrowed),
        }
    }
}

/// Converts numbers of characters to text.
fn characters(element: Element, labels: &[char], answer: &[u8]) -> Result<String, AnswerError> {
    let character = |number: i64| {
        let label = usize::try_from(number).ok().and_then(|at| labels.get(at));
        label.copied().ok_or_else(|| AnswerError::Content {
            expected: format!("characters from 0 to {}", labels.len() - 1),
            found: number.to_string(),
        })
    };
    payload::wholes(element, answer)?.map(character).collect()
}

fn read_spellings(path: &Path) -> Result<HashMap<String, String>, DataError> {
    let bytes = files::read(path).map_err(|error| DataError::unreadable(path, &error))?;
    serde_json::from_slice(&bytes).map_err(|error| {
        let expected = "an object with a spelling for each spelling";
        DataError::malformed(path, error.line(), expected, error.to_string())
    })
}

impl Scorer for NormalizedTranscripts {
    fn take(&mut self, index: u64, answer: &[u8]) -> Result<(), AnswerError> {
        let reference = reference_of(&self.references, index)?;
        let text = self.answers.text(answer);
        // A malformed transcript counts as empty: all words of the reference are errors.
        let normalized = self.normalizer.normalize(text.as_deref().unwrap_or_default());
        let [found, expected] =
            [&normalized, reference].map(|text| words(text).collect::<Vec<_>>());
        self.errors.add_joined(&found, &expected);
        text.map(drop)
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
        let notes = if self.has_spellings {
            Vec::new()
        } else {
            let note = "British and American spellings count as different words: the official \
                        script has one for the other; --with spellings=english.json does so";
            vec![note.to_owned()]
        };
        Scores {
            figures: vec![Figure { metric: "ACCURACY", value }],
            text: format!("Word Error Rate: {percent:?}%, accuracy={value:?}%\n"),
            notes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::assert_checker_reads;
    use super::*;

    fn errors(found: &str, expected: &str) -> u64 {
        let mut errors = WordErrors::default();
        let [found, expected] = [found, expected].map(|text| words(text).collect::<Vec<_>>());
        errors.add_joined(&found, &expected);
        errors.errors
    }

    #[test]
    fn up_to_three_words_are_one() {
        assert_eq!(errors("icecream never the less", "ice cream nevertheless"), 0);
        assert_eq!(errors("oneandtwoand", "one and two and"), 4);
        // A suffix that the normalizer leaves apart is joined, too. The script counts 0 and 1.
        assert_eq!(errors("q 80s", "q 80 s"), 0);
        assert_eq!(errors("q it is 80s best", "q it s 80 s best"), 1);
        // With the additional word no words are joined.
        assert_eq!(errors("so ice cream", "icecream"), 3);
        assert_eq!(errors("", "a b"), 2);
        assert_eq!(errors("a b", ""), 2);
    }

    #[test]
    fn what_is_no_transcript_has_every_word_wrong() {
        let labels = LABELS_42.chars().collect();
        let mut transcripts = NormalizedTranscripts {
            normalizer: Normalizer::new(HashMap::new()),
            references: vec!["a cat sat".to_owned(), "it is 20%".to_owned()],
            answers: AnswerFormat::Numbers(Element::I8, labels),
            has_spellings: false,
            errors: WordErrors::default(),
        };
        let number = |letter| LABELS_42.chars().position(|label| label == letter).unwrap() as u8;
        let numbers = |text: &str| text.chars().map(number).collect::<Vec<_>>();
        assert_eq!(transcripts.take(1, &numbers("it's twenty percent")), Ok(()));
        let error = transcripts.take(0, &[1, 42]).unwrap_err();
        assert_eq!(error.to_string(), "expected characters from 0 to 41, found 42");
        assert_eq!(transcripts.errors, WordErrors { errors: 3, words: 6 });
        let scores = transcripts.scores();
        assert_checker_reads("v6.0", "whisper", &scores);
        assert_eq!(scores.notes.len(), 1);
    }
}
