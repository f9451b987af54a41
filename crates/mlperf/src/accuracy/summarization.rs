//! ROUGE of texts against one reference each.
//!
//! Source: the accuracy scripts of the benchmarks GPT-J, Llama 2 and 3.1, and
//! Mixtral, which print four decimals of percent.

pub mod porter;
pub mod rouge;

use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::{AnswerError, DataError, Figure, Method, Need, Scorer, Scores};
use rouge::{Rouge, Text, Words};

const REFERENCE: Need = Need {
    name: "reference",
    what: "cnn_eval.json: a list with the text of each sample, or of objects with it as `output`",
    is_required: true,
};

/// `gptj`, `llama2-70b` and `llama3.1-8b`.
pub const ROUGE: Method = Method {
    name: "rouge",
    title: "F-measures of words, pairs and sequences of words that are shared, in percent",
    answer: "the text, as UTF-8",
    element: None,
    needs: &[REFERENCE],
    choices: &[],
    open: |inputs| Ok(Box::new(Summaries::read(inputs.file(&REFERENCE)?)?)),
};

/// Scores texts.
#[derive(Debug)]
pub struct Summaries {
    words: Words,
    references: Vec<Text>,
    /// Sums over samples.
    sums: Rouge,
    samples: u64,
    characters: u64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Reference {
    Text(String),
    Object { output: String },
}

impl Summaries {
    /// Reads references.
    ///
    /// # Errors
    /// The file does not read, or is not of the format.
    pub fn read(path: &Path) -> Result<Self, DataError> {
        let bytes = fs::read(path).map_err(|error| DataError::unreadable(path, &error))?;
        let references: Vec<Reference> = serde_json::from_slice(&bytes).map_err(|error| {
            let expected = "a list of texts, or of objects with `output`";
            DataError::malformed(path, error.line(), expected, error.to_string())
        })?;
        let mut words = Words::default();
        let text = |reference: &Reference| {
            let (Reference::Text(text) | Reference::Object { output: text }) = reference;
            Text::new(text.trim(), &mut words)
        };
        let references = references.iter().map(text).collect();
        Ok(Self { words, references, sums: Rouge::default(), samples: 0, characters: 0 })
    }
}

impl Scorer for Summaries {
    fn take(&mut self, index: u64, answer: &[u8]) -> Result<(), AnswerError> {
        let reference = usize::try_from(index).ok().and_then(|at| self.references.get(at));
        let references = self.references.len() as u64;
        let reference = reference.ok_or(AnswerError::Sample { references })?;
        self.samples += 1;
        let text = std::str::from_utf8(answer).map_err(|error| AnswerError::Content {
            expected: "UTF-8".to_owned(),
            found: error.to_string(),
        })?;
        let text = text.trim();
        self.characters += text.chars().count() as u64;
        let found = Rouge::of(reference, &Text::new(text, &mut self.words));
        self.sums.rouge_1 += found.rouge_1;
        self.sums.rouge_2 += found.rouge_2;
        self.sums.rouge_l += found.rouge_l;
        self.sums.rouge_l_sum += found.rouge_l_sum;
        Ok(())
    }

    fn references(&self) -> Option<u64> {
        Some(self.references.len() as u64)
    }

    fn scores(&mut self) -> Scores {
        let mean = |sum: f64| 100.0 * (sum / self.samples.max(1) as f64);
        let Rouge { rouge_1, rouge_2, rouge_l, rouge_l_sum } = self.sums;
        let figure = |metric, value| Figure { metric, value };
        let figures = vec![
            figure("ROUGE1", mean(rouge_1)),
            figure("ROUGE2", mean(rouge_2)),
            figure("ROUGEL", mean(rouge_l)),
            figure("ROUGELSUM", mean(rouge_l_sum)),
            figure("GEN_LEN", self.characters as f64),
        ];
        let names = ["rouge1", "rouge2", "rougeL", "rougeLsum"];
        let shown: Vec<String> = names
            .iter()
            .zip(&figures)
            .map(|(name, figure)| format!("'{name}': '{}'", four_decimals(figure.value)))
            .collect();
        let (length, count) = (self.characters, self.samples);
        let text = format!("{{{}, 'gen_len': {length}, 'gen_num': {count}}}\n", shown.join(", "));
        Scores { figures, text, ..Scores::default() }
    }
}

/// As Python shows `round(value, 4)`.
fn four_decimals(value: f64) -> String {
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0');
    if text.ends_with('.') { format!("{text}0") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::super::assert_checker_reads;
    use super::*;

    #[test]
    fn the_checker_reads_the_scores() {
        let mut words = Words::default();
        let references = vec![Text::new("The cat sat.\nIt purred.", &mut words)];
        let mut summaries =
            Summaries { words, references, sums: Rouge::default(), samples: 0, characters: 0 };
        assert_eq!(summaries.take(0, b" A cat sits, purring. "), Ok(()));
        let scores = summaries.scores();
        assert_eq!(scores.figure("GEN_LEN"), Some(20.0));
        assert_checker_reads("v5.0", "gptj-99", &scores);
        assert_checker_reads("v6.0", "llama3.1-8b", &scores);
    }

    #[test]
    fn figures_look_as_python_shows_them() {
        assert_eq!([43.0, 42.9865, 0.10004].map(four_decimals), ["43.0", "42.9865", "0.1"]);
    }
}
