//! ROUGE: words and pairs of words that a summary shares with a reference, and their longest common
//! subsequences.
//!
//! Source: Lin, *ROUGE: a package for automatic evaluation of summaries*, 2004, with the words and
//! stems of the Python package `rouge_score`.

use std::collections::HashMap;

use super::porter;
use super::sequence::Places;

/// Maximum length of words that are not stemmed.
const LONGEST_WITHOUT_STEM: usize = 3;

/// F-measures of a summary, each in [0, 1].
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Rouge {
    /// F-measure of words.
    pub rouge_1: f64,
    /// F-measure of pairs of words.
    pub rouge_2: f64,
    /// F-measure of the longest common subsequence.
    pub rouge_l: f64,
    /// F-measure of the union of the sentences' longest common subsequences.
    pub rouge_l_sum: f64,
}

/// Table that numbers the stems of words.
#[derive(Debug, Default)]
pub struct Vocabulary {
    by_word: HashMap<String, u32>,
    by_stem: HashMap<String, u32>,
}

impl Vocabulary {
    /// Returns the numbers of the words in a text. Words are runs of ASCII letters and digits
    /// without case. Words of more than three letters are stemmed.
    pub fn numbers(&mut self, text: &str) -> Vec<u32> {
        let text = text.to_lowercase();
        let is_word = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
        text.split(|letter| !is_word(letter))
            .filter(|word| !word.is_empty())
            .map(|word| self.number(word))
            .collect()
    }

    fn number(&mut self, word: &str) -> u32 {
        if let Some(number) = self.by_word.get(word) {
            return *number;
        }
        let is_short = word.len() <= LONGEST_WITHOUT_STEM;
        let stem = if is_short { word.to_owned() } else { porter::stem(word) };
        let next = self.by_stem.len() as u32;
        let number = *self.by_stem.entry(stem).or_insert(next);
        self.by_word.insert(word.to_owned(), number);
        number
    }
}

/// A text as words, and as sentences of words.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Text {
    words: Vec<u32>,
    sentences: Vec<Vec<u32>>,
}

impl Text {
    /// Creates a text from one sentence per line.
    pub fn new(text: &str, vocabulary: &mut Vocabulary) -> Self {
        let sentences: Vec<Vec<u32>> = text
            .split('\n')
            .filter(|line| !line.is_empty())
            .map(|line| vocabulary.numbers(line))
            .collect();
        Self { words: sentences.concat(), sentences }
    }
}

impl Rouge {
    /// Scores a summary against its reference.
    ///
    /// ```
    /// use dyno_metrics::summarization::rouge::{Rouge, Text, Vocabulary};
    ///
    /// let mut vocabulary = Vocabulary::default();
    /// let reference = Text::new("police killed the gunman", &mut vocabulary);
    /// let summary = Text::new("the gunman police killed", &mut vocabulary);
    /// let rouge = Rouge::score(&reference, &summary);
    /// assert_eq!((rouge.rouge_1, rouge.rouge_2, rouge.rouge_l), (1.0, 2.0 / 3.0, 0.5));
    /// ```
    pub fn score(reference: &Text, summary: &Text) -> Self {
        let (expected, found) = (&reference.words, &summary.words);
        let f_measure = |shared, length: usize| {
            let runs = |words: &[u32]| (words.len() + 1).saturating_sub(length);
            f_measure(shared, runs(found), runs(expected))
        };
        Self {
            rouge_1: f_measure(shared_runs::<1>(expected, found), 1),
            rouge_2: f_measure(shared_runs::<2>(expected, found), 2),
            rouge_l: Self::rouge_l(reference, summary),
            rouge_l_sum: f_measure(union_matches(reference, summary), 1),
        }
    }

    /// Returns the F-measure of the longest common subsequence only.
    pub fn rouge_l(reference: &Text, summary: &Text) -> f64 {
        let (expected, found) = (&reference.words, &summary.words);
        f_measure(Places::new(expected).longest_common(found), found.len(), expected.len())
    }
}

/// Returns the harmonic mean of precision and recall.
fn f_measure(shared: usize, found: usize, expected: usize) -> f64 {
    let precision = shared as f64 / found.max(1) as f64;
    let recall = shared as f64 / expected.max(1) as f64;
    if shared == 0 { 0.0 } else { 2.0 * precision * recall / (precision + recall) }
}

/// Counts the runs of words that both texts share.
fn shared_runs<const N: usize>(expected: &[u32], found: &[u32]) -> usize {
    let sorted = |words: &[u32]| {
        let run = |window: &[u32]| window.try_into().expect("windows have the length of runs");
        let mut runs: Vec<[u32; N]> = words.windows(N).map(run).collect();
        runs.sort_unstable();
        runs
    };
    let (expected, found) = (sorted(expected), sorted(found));
    let mut expected = expected.iter().peekable();
    let is_shared = |run: &&[u32; N]| {
        while expected.next_if(|other| other < run).is_some() {}
        expected.next_if_eq(run).is_some()
    };
    found.iter().filter(is_shared).count()
}

/// Counts the words in the union of the longest common subsequences of each sentence of the
/// reference with the sentences of the summary. A word counts at most as often as each text
/// contains it.
fn union_matches(reference: &Text, summary: &Text) -> usize {
    let mut left: HashMap<u32, (u32, u32)> = HashMap::new();
    for word in &reference.words {
        left.entry(*word).or_default().0 += 1;
    }
    for word in &summary.words {
        left.entry(*word).or_default().1 += 1;
    }
    let mut hits = 0;
    for expected in &reference.sentences {
        let mut is_common = vec![false; expected.len()];
        let places = Places::new(expected);
        for found in &summary.sentences {
            places.mark(found, &mut is_common);
        }
        for (word, _) in expected.iter().zip(is_common).filter(|(_, is_common)| *is_common) {
            if let Some((expected, found)) = left.get_mut(word)
                && *expected > 0
                && *found > 0
            {
                (*expected, *found) = (*expected - 1, *found - 1);
                hits += 1;
            }
        }
    }
    hits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rouge(reference: &str, summary: &str) -> Rouge {
        let mut words = Vocabulary::default();
        let [reference, summary] = [reference, summary].map(|text| Text::new(text, &mut words));
        Rouge::score(&reference, &summary)
    }

    #[test]
    fn the_example_of_the_paper_has_its_scores() {
        // Section 3.1: S1 "police killed the gunman", S2 and S3.
        let score = |summary| rouge("police killed the gunman", summary);
        assert_eq!(score("police kill the gunman").rouge_l, 1.0, "kill and killed have one stem");
        assert_eq!(score("the gunman kill police").rouge_l, 0.5);
        assert_eq!(score("the gunman police killed").rouge_2, 2.0 / 3.0);
    }

    #[test]
    fn sentences_are_united_and_words_count_once() {
        // Section 3.2: w1 w2 w3 w4 w5 against w1 w2 w6 w7 w8 and w1 w3 w8 w9 w5.
        let found = rouge("a b c d e", "a b f g h\na c h i e");
        let (recall, precision) = (4.0 / 5.0, 4.0 / 10.0);
        assert_eq!(found.rouge_l_sum, 2.0 * precision * recall / (precision + recall));
    }

    #[test]
    fn nothing_has_a_score_of_zero() {
        assert_eq!(rouge("", "a"), Rouge::default());
        assert_eq!(rouge("a", "..."), Rouge::default());
    }
}
