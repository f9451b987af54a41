//! BLEU of a corpus: shared runs of one to four words, and a penalty for short translations.
//!
//! Source: Papineni et al., *BLEU: a method for automatic evaluation of machine translation*, ACL
//! 2002, without smoothing; `process_accuracy.py` of the benchmark GNMT, which prints one decimal.

use std::collections::HashMap;
use std::path::Path;

use super::data::read_text;
use super::payload;
use super::{AnswerError, DataError, Figure, Method, Need, Scorer, Scores, reference_of};

const REFERENCE: Need = Need {
    name: "reference",
    help: "newstest2014.tok.bpe.32000.de: one line per sentence, with words and their pieces \
           separated by spaces; a piece that ends in @@ continues in the next one",
    is_required: true,
};

/// Method of `gnmt`.
pub const BLEU: Method = Method {
    name: "bleu",
    title: "BLEU of the corpus with sequences of up to four words, in percent",
    answer: "the words of the sentence, separated by spaces, in UTF-8",
    element: None,
    needs: &[REFERENCE],
    choices: &[],
    open: |inputs| Ok(Box::new(Translations::read(inputs.file(&REFERENCE)?)?)),
};

/// Maximum length of runs.
const ORDER: usize = 4;

/// Number of all words that the references lack. No shared run contains it.
const UNKNOWN: u32 = u32::MAX;

/// Counts for BLEU, summed over sentences.
///
/// ```
/// use dyno_metrics::translation::Bleu;
///
/// let mut bleu = Bleu::default();
/// bleu.add(&[1, 2, 3, 4, 5], &[1, 2, 3, 4, 5]);
/// assert!((bleu.score() - 100.0).abs() < 1e-9);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bleu {
    /// Runs of 1 to 4 words that the reference contains, each counted at most as often as there.
    pub shared: [u64; ORDER],
    /// Runs of 1 to 4 words.
    pub runs: [u64; ORDER],
    /// Words of the translations.
    pub words: u64,
    /// Words of the references.
    pub reference_words: u64,
}

impl Bleu {
    /// Adds a sentence and its reference. Equal numbers stand for equal words.
    pub fn add(&mut self, sentence: &[u32], reference: &[u32]) {
        self.words += sentence.len() as u64;
        self.reference_words += reference.len() as u64;
        self.add_runs::<1>(sentence, reference);
        self.add_runs::<2>(sentence, reference);
        self.add_runs::<3>(sentence, reference);
        self.add_runs::<4>(sentence, reference);
    }

    fn add_runs<const N: usize>(&mut self, sentence: &[u32], reference: &[u32]) {
        let [found, expected] = [sentence, reference].map(sorted_runs::<N>);
        self.runs[N - 1] += found.len() as u64;
        let mut expected = expected.iter().peekable();
        for run in &found {
            while expected.next_if(|other| *other < run).is_some() {}
            self.shared[N - 1] += u64::from(expected.next_if_eq(&run).is_some());
        }
    }

    /// Returns BLEU in percent; 0 if no run of some length is shared.
    pub fn score(&self) -> f64 {
        if self.shared.contains(&0) {
            return 0.0;
        }
        let share = |at: usize| (self.shared[at] as f64 / self.runs[at] as f64).ln();
        let mean = (0..ORDER).map(share).sum::<f64>() / ORDER as f64;
        let brevity = (1.0 - self.reference_words as f64 / self.words as f64).min(0.0);
        100.0 * (mean + brevity).exp()
    }
}

fn sorted_runs<const N: usize>(words: &[u32]) -> Vec<[u32; N]> {
    let run = |window: &[u32]| window.try_into().expect("windows have the length of runs");
    let mut runs: Vec<[u32; N]> = words.windows(N).map(run).collect();
    runs.sort_unstable();
    runs
}

/// Scores sentences against one reference each.
#[derive(Debug)]
pub struct Translations {
    numbers: HashMap<String, u32>,
    references: Vec<Vec<u32>>,
    bleu: Bleu,
}

impl Translations {
    /// Reads references, one per line, and joins parts of words.
    ///
    /// # Errors
    /// [`DataError`] if the file cannot be read.
    ///
    /// ```
    /// use dyno_metrics::Scorer;
    /// use dyno_metrics::translation::Translations;
    ///
    /// let file = tempfile::NamedTempFile::new().unwrap();
    /// std::fs::write(&file, "das ist ein Te@@ st\n").unwrap();
    /// let mut scorer = Translations::read(file.path()).unwrap();
    /// scorer.take(0, b"das ist ein Test").unwrap();
    /// assert!((scorer.scores().figure("bleu").unwrap() - 100.0).abs() < 1e-9);
    /// ```
    pub fn read(path: &Path) -> Result<Self, DataError> {
        let text = read_text(path)?;
        let mut numbers = HashMap::new();
        let mut number = |word: &str| {
            if let Some(number) = numbers.get(word) {
                return *number;
            }
            let next = numbers.len() as u32;
            numbers.insert(word.to_owned(), next);
            next
        };
        let sentence =
            |line: &str| line.trim().replace("@@ ", "").split(' ').map(&mut number).collect();
        let references = text.lines().map(sentence).collect();
        Ok(Self { numbers, references, bleu: Bleu::default() })
    }
}

impl Scorer for Translations {
    fn take(&mut self, index: u64, answer: &[u8]) -> Result<(), AnswerError> {
        let reference = reference_of(&self.references, index)?;
        let text = payload::text(answer);
        // The script splits an empty translation into one unknown word. Otherwise an empty answer
        // would score better than a bad one.
        let words = text.as_deref().ok();
        let number = |word| self.numbers.get(word).copied().unwrap_or(UNKNOWN);
        let sentence: Vec<u32> =
            words.into_iter().flat_map(|text| text.split(' ')).map(number).collect();
        self.bleu.add(&sentence, reference);
        text.map(drop)
    }

    fn references(&self) -> Option<u64> {
        Some(self.references.len() as u64)
    }

    fn scores(&mut self) -> Scores {
        let value = self.bleu.score();
        Scores {
            figures: vec![Figure { metric: "bleu", value }],
            text: format!("BLEU: {value:.1}\n"),
            ..Scores::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::assert_checker_reads;
    use super::*;

    fn bleu(sentence: &str, reference: &str) -> Bleu {
        let words = |text: &str| text.bytes().map(u32::from).collect::<Vec<_>>();
        let mut bleu = Bleu::default();
        bleu.add(&words(sentence), &words(reference));
        bleu
    }

    #[test]
    fn a_run_is_shared_as_often_as_the_reference_has_it() {
        // Example of the paper, section 2.1: "the the the ..." against two of them.
        let found = bleu("aaaaaaa", "abca");
        assert_eq!((found.shared, found.runs), ([2, 0, 0, 0], [7, 6, 5, 4]));
        assert_eq!(found.score(), 0.0);
    }

    #[test]
    fn the_checker_reads_the_score() {
        let bleu = bleu("abcdefg", "abcdeff");
        let (numbers, references) = (HashMap::new(), Vec::new());
        let scores = Translations { numbers, references, bleu }.scores();
        assert_checker_reads("v0.5", "gnmt", &scores);
    }

    #[test]
    fn what_is_empty_is_a_word_and_what_is_no_sentence_none() {
        let (numbers, references) = (HashMap::from([("a".to_owned(), 0)]), vec![vec![0; 5]; 3]);
        let mut scorer = Translations { numbers, references, bleu: Bleu::default() };
        assert_eq!(scorer.take(0, b"a a a a a"), Ok(()));
        let all = scorer.bleu.score();
        assert_eq!(scorer.take(1, b""), Ok(()));
        let with_empty = scorer.bleu;
        assert!(with_empty.score() < all);
        assert!(scorer.take(1, &[0xff]).is_err());
        let counts = |bleu: &Bleu| (bleu.words, bleu.reference_words);
        assert_eq!((counts(&with_empty), counts(&scorer.bleu)), ((6, 10), (6, 15)));
    }

    #[test]
    fn being_short_costs_and_being_long_does_not() {
        assert!((bleu("abcdef", "abcdef").score() - 100.0).abs() < 1e-12);
        let short = bleu("abcd", "abcdefgh").score();
        assert!((short - 100.0 * (-1.0_f64).exp()).abs() < 1e-12, "{short}");
        let long = bleu("abcdef", "abcde");
        assert_eq!((long.words, long.reference_words), (6, 5));
        let shares = [5.0 / 6.0, 4.0 / 5.0, 3.0 / 4.0, 2.0 / 3.0_f64];
        let mean = shares.iter().product::<f64>().powf(0.25);
        assert!((long.score() - 100.0 * mean).abs() < 1e-12);
    }
}
