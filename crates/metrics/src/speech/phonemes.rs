//! Phoneme error rate of pronunciations against a dictionary.
//!
//! An answer is compared with the nearest of several pronunciations, as is usual for
//! grapheme-to-phoneme conversion (Bisani and Ney, *Joint-sequence models for grapheme-to-phoneme
//! conversion*, Speech Communication 50, 2008).

use std::ops::AddAssign;
use std::path::Path;

use foldhash::{HashMap, HashMapExt};
use memchr::memchr_iter;

use super::super::data::read_text;
use super::super::edits::{Word, distance, words};
use super::super::payload;
use super::super::{
    AnswerError, Choice, DataError, Figure, Inputs, Method, Need, Rejection, Scorer, Scores,
    judge_all, reference_of, single_result,
};

const DICTIONARY: Need = Need {
    name: "dictionary",
    help: "cmudict.dict: one line per pronunciation, with the word and its phonemes; further \
           pronunciations of a word as word(2)",
    is_required: true,
};

const WORDS: Need = Need {
    name: "words",
    help: "the word of each sample in the spelling of the dictionary, one per line",
    is_required: true,
};

const STRESS: Choice = Choice {
    name: "stress",
    values: &["kept", "dropped"],
    help: "whether the stress digits of vowels count: AH0 and AH1 are then two phonemes, otherwise \
           one",
};

/// Method for grapheme-to-phoneme conversion.
pub(crate) const PHONEME_ERRORS: Method = Method {
    name: "phoneme-errors",
    title: "wrong phonemes and wrong words, in percent",
    answer: "the phonemes, separated by spaces, in UTF-8",
    element: None,
    needs: &[DICTIONARY, WORDS],
    choices: &[STRESS],
    open: |inputs| Ok(Box::new(Pronunciations::read(inputs)?)),
};

/// Phoneme and word errors, summed over words.
///
/// ```
/// use dyno_metrics::speech::phonemes::PhonemeErrors;
///
/// let mut errors = PhonemeErrors::default();
/// errors.add(&["R", "EH", "D"], [["R", "IY", "D"], ["R", "EH", "D"]]);
/// errors.add(&["K", "AE"], [["K", "AE", "T"]]);
/// assert_eq!(errors, PhonemeErrors { errors: 1, phonemes: 6, wrong: 1, words: 2 });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PhonemeErrors {
    /// Minimum number of phonemes to change, insert or delete.
    pub errors: u64,
    /// Phonemes of the pronunciations that answers were compared with.
    pub phonemes: u64,
    /// Words with an error.
    pub wrong: u64,
    /// All words.
    pub words: u64,
}

impl PhonemeErrors {
    /// Adds an answer and the pronunciations of its word. The nearest pronunciation counts, and the
    /// first of several at equal distance.
    pub fn add<T: PartialEq, P: AsRef<[T]>>(
        &mut self,
        found: &[T],
        pronunciations: impl IntoIterator<Item = P>,
    ) {
        let compare = |pronunciation: P| {
            let pronunciation = pronunciation.as_ref();
            (distance(found, pronunciation) as u64, pronunciation.len() as u64)
        };
        let nearest = pronunciations.into_iter().map(compare).min_by_key(|(distance, _)| *distance);
        let (errors, phonemes) = nearest.unwrap_or_default();
        self.errors += errors;
        self.phonemes += phonemes;
        self.wrong += u64::from(errors > 0);
        self.words += 1;
    }
}

impl AddAssign for PhonemeErrors {
    fn add_assign(&mut self, more: Self) {
        self.errors += more.errors;
        self.phonemes += more.phonemes;
        self.wrong += more.wrong;
        self.words += more.words;
    }
}

/// Scores phonemes.
#[derive(Debug)]
pub struct Pronunciations {
    /// Text of the dictionary.
    text: String,
    /// Pronunciations, in the order of the dictionary.
    entries: Vec<DictionaryEntry>,
    /// Index of the first pronunciation of each sample.
    references: Vec<usize>,
    is_stress_dropped: bool,
    errors: PhonemeErrors,
}

/// A pronunciation of a dictionary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DictionaryEntry {
    /// Start of the phonemes in the text.
    start: usize,
    end: usize,
    /// Index of the next pronunciation of the word, or [`NO_ENTRY`].
    next: usize,
}

/// Index that marks the last pronunciation of a word.
const NO_ENTRY: usize = usize::MAX;

/// Pronunciations, and the indices of the first and last of each word.
type Dictionary<'a> = (Vec<DictionaryEntry>, HashMap<&'a str, (usize, usize)>);

impl Pronunciations {
    fn read(inputs: &Inputs) -> Result<Self, DataError> {
        let is_stress_dropped = inputs.choice(&STRESS) == "dropped";
        let path = inputs.file(&DICTIONARY)?;
        let text = read_text(path)?;
        let (entries, first) = parse_dictionary(path, &text)?;
        let path = inputs.file(&WORDS)?;
        let words = read_text(path)?;
        let mut references = Vec::new();
        for (at, line) in words.lines().enumerate() {
            let (first, _) = first.get(line.trim()).ok_or_else(|| {
                DataError::malformed(path, at + 1, "a word of the dictionary", line)
            })?;
            references.push(*first);
        }
        drop(first);
        let errors = PhonemeErrors::default();
        Ok(Self { text, entries, references, is_stress_dropped, errors })
    }

    /// Splits a text into phonemes.
    fn phonemes<'a>(&self, text: &'a str) -> Vec<Word<'a>> {
        let is_stress = |character: char| character.is_ascii_digit() && self.is_stress_dropped;
        words(text, |phoneme| phoneme.trim_end_matches(is_stress))
    }

    fn judge(
        &self,
        errors: &mut PhonemeErrors,
        index: u64,
        answer: &[u8],
    ) -> Result<(), AnswerError> {
        let first = *reference_of(&self.references, index)?;
        let text = payload::text(answer);
        // A malformed text counts as empty: all phonemes are errors.
        let found = self.phonemes(text.as_deref().unwrap_or_default());
        let entry_at = |at: usize| self.entries.get(at);
        let all = std::iter::successors(entry_at(first), |entry| entry_at(entry.next));
        errors.add(&found, all.map(|entry| self.phonemes(&self.text[entry.start..entry.end])));
        text.map(drop)
    }
}

/// Parses a dictionary.
fn parse_dictionary<'a>(path: &Path, text: &'a str) -> Result<Dictionary<'a>, DataError> {
    let mut entries: Vec<DictionaryEntry> = Vec::new();
    let mut words: HashMap<&str, (usize, usize)> = HashMap::new();
    for (at, line) in text.lines().enumerate() {
        if line.starts_with(";;;") || line.trim().is_empty() {
            continue;
        }
        let is_remark = |at: &usize| *at > 0 && line.as_bytes()[at - 1] == b' ';
        let remark = memchr_iter(b'#', line.as_bytes()).find(is_remark);
        let entry = remark.map_or(line, |remark| &line[..remark - 1]);
        let (word, phonemes) = entry.split_once(char::is_whitespace).unwrap_or((entry, ""));
        if phonemes.trim().is_empty() {
            let expected = "a word and its phonemes, with spaces between";
            return Err(DataError::malformed(path, at + 1, expected, line));
        }
        let start = phonemes.as_ptr().addr() - text.as_ptr().addr();
        let own = entries.len();
        entries.push(DictionaryEntry { start, end: start + phonemes.len(), next: NO_ENTRY });
        let (_, last) = words.entry(without_variant(word)).or_insert((own, own));
        let before = std::mem::replace(last, own);
        if before != own {
            entries[before].next = own;
        }
    }
    Ok((entries, words))
}

/// Returns `word` for `word(2)`.
fn without_variant(word: &str) -> &str {
    let parts = word.strip_suffix(')').and_then(|word| word.rsplit_once('('));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    parts
        .filter(|(word, number)| !word.is_empty() && is_number(number))
        .map_or(word, |(word, _)| word)
}

impl Scorer for Pronunciations {
    fn take(&mut self, index: u64, answer: &[u8]) -> Result<(), AnswerError> {
        single_result(self.take_all(&[(index, answer)]))
    }

    fn take_all(&mut self, answers: &[(u64, &[u8])]) -> Vec<Rejection> {
        let (errors, wrong) =
            judge_all(answers, |errors, index, answer| self.judge(errors, index, answer));
        self.errors += errors;
        wrong
    }

    fn references(&self) -> Option<u64> {
        Some(self.references.len() as u64)
    }

    fn scores(&mut self) -> Scores {
        let PhonemeErrors { errors, phonemes, wrong, words } = self.errors;
        let percent = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
        let (phoneme, word) = (percent(errors, phonemes), percent(wrong, words));
        Scores {
            figures: vec![
                Figure { metric: "phoneme_error_rate", value: phoneme },
                Figure { metric: "word_error_rate", value: word },
            ],
            text: format!(
                "phoneme errors: {phoneme:.3}% ({errors} of {phonemes}), \
                 word errors: {word:.3}% ({wrong} of {words})\n"
            ),
            ..Scores::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_nearest_pronunciation_counts_and_the_first_of_equals() {
        let mut errors = PhonemeErrors::default();
        errors.add(&[1, 2, 3], &[vec![1, 2], vec![1, 2, 3]]);
        assert_eq!(errors, PhonemeErrors { errors: 0, phonemes: 3, wrong: 0, words: 1 });
        errors.add(&[1, 2, 3], &[vec![1, 2], vec![1, 2, 3, 4]]);
        assert_eq!(errors, PhonemeErrors { errors: 1, phonemes: 5, wrong: 1, words: 2 });
    }

    #[test]
    fn a_dictionary_has_variants_and_remarks() {
        let text = ";;; made by hand\naa AA1 # a name\naa(2)  EY1 EY1\n\n(x) AH0\n";
        let (entries, words) = parse_dictionary(Path::new("d"), text).unwrap();
        let texts = |word: &str| -> Vec<&str> {
            let all = std::iter::successors(entries.get(words[word].0), |of| entries.get(of.next));
            all.map(|of| &text[of.start..of.end]).collect()
        };
        assert_eq!(
            (words.len(), texts("aa"), texts("(x)")),
            (2, vec!["AA1", " EY1 EY1"], vec!["AH0"])
        );
        let error = parse_dictionary(Path::new("d"), "aa AA1\nb # c\n").unwrap_err();
        let expected = "d:2: expected a word and its phonemes, with spaces between, found b # c";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn what_is_no_text_has_every_phoneme_wrong() {
        let folder = std::env::temp_dir().join(format!("dyno-phonemes-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let [dictionary, words] = ["d", "w"].map(|name| folder.join(name));
        fs::write(&dictionary, "cat K AE1 T\nread R EH1 D\nread(2) R IY1 D\n").unwrap();
        fs::write(&words, "read\ncat\n").unwrap();
        let files = [("dictionary", dictionary), ("words", words)];
        let files = files.map(|(name, path)| (name.to_owned(), path)).into();
        let choices = [("stress".to_owned(), "dropped".to_owned())].into();
        let mut inputs = Inputs { files, choices, ..Inputs::default() };
        let mut scorer = Pronunciations::read(&inputs).unwrap();
        assert_eq!(scorer.take(0, b"R IY0 D"), Ok(()));
        assert!(matches!(scorer.take(1, b"\xff"), Err(AnswerError::Content { .. })));
        assert_eq!(scorer.take(2, b""), Err(AnswerError::Sample { references: 2 }));
        let text = "phoneme errors: 50.000% (3 of 6), word errors: 50.000% (1 of 2)\n";
        assert_eq!(scorer.scores().text, text);

        inputs.choices.clear();
        let mut scorer = Pronunciations::read(&inputs).unwrap();
        assert_eq!(scorer.take(0, b"R IY0 D"), Ok(()));
        assert_eq!(scorer.errors.errors, 1);
        fs::write(&inputs.files["words"], "read\ndog\n").unwrap();
        let error = Pronunciations::read(&inputs).unwrap_err();
        assert!(error.to_string().ends_with("w:2: expected a word of the dictionary, found dog"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
