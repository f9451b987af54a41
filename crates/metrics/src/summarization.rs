//! ROUGE of texts, with one reference each.
//!
//! Source: the accuracy scripts of the benchmarks GPT-J, Llama 2 70B and Llama 3.1 8B, which print
//! four decimals of percent.

pub mod porter;
pub mod rouge;
pub mod sequence;

use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::text::{self, TextDecoder};
use super::{
    AnswerError, Choice, DataError, Figure, Inputs, Method, Need, Scorer, Scores, reference_of,
};
use dyno_tensors::files;
use rouge::{Rouge, Text, Vocabulary};

const REFERENCE: Need = Need {
    name: "reference",
    help: "cnn_eval.json, or open_orca written as JSON by pandas.read_pickle(..).to_json(.., \
           orient='records'): a list of texts, or of objects with them as `output`",
    is_required: true,
};

const SCRIPT: Choice = Choice {
    name: "script",
    values: &["gptj", "llama2-70b"],
    help: "format of the printed lines; that of llama2-70b includes the tokens",
};

/// Method of `gptj`, `llama2-70b` and `llama3.1-8b`.
pub const ROUGE: Method = Method {
    name: "rouge",
    title: "F-measures of shared words, pairs of words and sequences of words, in percent",
    answer: text::ANSWER,
    element: None,
    needs: &[REFERENCE, text::TOKENIZER, text::PUNKT],
    choices: &[SCRIPT, text::SPACES],
    open: |inputs| Ok(Box::new(Summaries::open(inputs)?)),
};

/// Sums of ROUGE over samples.
#[derive(Debug, Default)]
pub(super) struct Sums {
    pub vocabulary: Vocabulary,
    /// Sums over samples.
    sums: Rouge,
    pub samples: u64,
    characters: u64,
}

impl Sums {
    /// Adds a text with one sentence per line.
    pub fn add(&mut self, reference: &Text, lines: &str) {
        self.samples += 1;
        self.characters += lines.chars().count() as u64;
        let found = Rouge::score(reference, &Text::new(lines, &mut self.vocabulary));
        self.sums.rouge_1 += found.rouge_1;
        self.sums.rouge_2 += found.rouge_2;
        self.sums.rouge_l += found.rouge_l;
        self.sums.rouge_l_sum += found.rouge_l_sum;
    }

    /// Counts a sample that shares nothing with its reference.
    pub(crate) fn add_none(&mut self) {
        self.samples += 1;
    }

    /// Returns the means in percent, and the number of characters of all texts.
    pub fn figures(&self) -> Vec<Figure> {
        let mean = |sum: f64| 100.0 * (sum / self.samples.max(1) as f64);
        let Rouge { rouge_1, rouge_2, rouge_l, rouge_l_sum } = self.sums;
        let figure = |metric, value| Figure { metric, value };
        vec![
            figure("ROUGE1", mean(rouge_1)),
            figure("ROUGE2", mean(rouge_2)),
            figure("ROUGEL", mean(rouge_l)),
            figure("ROUGELSUM", mean(rouge_l_sum)),
            figure("GEN_LEN", self.characters as f64),
        ]
    }

    /// Formats the means as a Python dictionary does. `quote` surrounds each value.
    pub fn formatted(&self, quote: &str) -> Vec<String> {
        let names = ["rouge1", "rouge2", "rougeL", "rougeLsum"];
        let figures = self.figures();
        let formatted = |(name, figure): (&&str, &Figure)| {
            format!("'{name}': {quote}{}{quote}", rounded::<4>(figure.value))
        };
        names.iter().zip(&figures).map(formatted).collect()
    }

    pub fn characters(&self) -> u64 {
        self.characters
    }
}

/// Formats counts of tokens as a Python dictionary does.
pub(super) fn format_tokens(tokens: u64, samples: u64) -> String {
    let each = rounded::<1>(tokens_per_sample(tokens, samples).value);
    format!("'gen_tok_len': {tokens}, 'tokens_per_sample': {each}")
}

pub(super) fn tokens_per_sample(tokens: u64, samples: u64) -> Figure {
    Figure { metric: "TOKENS_PER_SAMPLE", value: tokens as f64 / samples.max(1) as f64 }
}

/// Reads a JSON list.
pub(super) fn read_list<T: DeserializeOwned>(
    path: &Path,
    expected: &str,
) -> Result<Vec<T>, DataError> {
    let bytes = files::read(path).map_err(|error| DataError::unreadable(path, &error))?;
    serde_json::from_slice(&bytes)
        .map_err(|error| DataError::malformed(path, error.line(), expected, error.to_string()))
}

/// Scores texts.
#[derive(Debug, Default)]
pub struct Summaries {
    decoder: TextDecoder,
    references: Vec<Text>,
    sums: Sums,
    tokens: u64,
    prints_tokens: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Reference {
    Text(String),
    Object { output: String },
}

impl Summaries {
    /// Reads references.
    fn open(inputs: &Inputs) -> Result<Self, DataError> {
        let mut summaries = Self {
            decoder: TextDecoder::open(inputs)?,
            prints_tokens: inputs.choice(&SCRIPT) == SCRIPT.values[1],
            ..Self::default()
        };
        let expected = "a list of texts, or of objects with `output`";
        let references: Vec<Reference> = read_list(inputs.file(&REFERENCE)?, expected)?;
        for reference in &references {
            let (Reference::Text(text) | Reference::Object { output: text }) = reference;
            summaries.add_reference(text);
        }
        Ok(summaries)
    }

    fn add_reference(&mut self, text: &str) {
        self.references
            .push(Text::new(&self.decoder.sentence_lines(text), &mut self.sums.vocabulary));
    }
}

impl Scorer for Summaries {
    fn take(&mut self, index: u64, answer: &[u8]) -> Result<(), AnswerError> {
        let reference = reference_of(&self.references, index)?;
        let decoded = self.decoder.decode(answer).inspect_err(|_| self.sums.add_none())?;
        self.tokens += decoded.tokens;
        self.sums.add(reference, &self.decoder.sentence_lines(&decoded.text));
        Ok(())
    }

    fn references(&self) -> Option<u64> {
        Some(self.references.len() as u64)
    }

    fn scores(&mut self) -> Scores {
        let (length, count) = (self.sums.characters(), self.sums.samples);
        let quote = if self.prints_tokens { "" } else { "'" };
        let mut formatted = self.sums.formatted(quote);
        formatted.push(format!("'gen_len': {length}, 'gen_num': {count}"));
        let mut figures = self.sums.figures();
        let mut notes = self.decoder.notes();
        if self.decoder.has_tokens() {
            figures.push(tokens_per_sample(self.tokens, count));
        }
        if self.prints_tokens && self.decoder.has_tokens() {
            formatted.push(format_tokens(self.tokens, count));
        } else if self.prints_tokens {
            notes.push(NO_TOKENS.to_owned());
        }
        let text = format!("{{{}}}\n", formatted.join(", "));
        Scores { figures, text, notes }
    }
}

/// Note for answers that are texts.
pub(super) const NO_TOKENS: &str =
    "answers are texts, so that there is no tokens_per_sample: give tokenizer";

/// Formats `round(value, N)` as Python does.
pub(super) fn rounded<const N: usize>(value: f64) -> String {
    let text = format!("{value:.N$}");
    let text = text.trim_end_matches('0');
    if text.ends_with('.') { format!("{text}0") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::super::assert_checker_reads;
    use super::*;

    #[test]
    fn the_checker_reads_the_scores() {
        let mut summaries = Summaries::default();
        summaries.add_reference("The cat sat.\nIt purred.");
        assert_eq!(summaries.take(0, b" A cat sits, purring. "), Ok(()));
        let scores = summaries.scores();
        assert_eq!(scores.figure("GEN_LEN"), Some(20.0));
        assert_eq!(scores.notes.len(), 1, "sentences are lines");
        assert_checker_reads("v5.0", "gptj-99", &scores);
        assert_checker_reads("v6.0", "llama3.1-8b", &scores);
    }

    #[test]
    fn tokens_are_told_as_llama_2_has_them() {
        let decoder = TextDecoder::with_words(&["The", " cat", " sat"]);
        let mut summaries = Summaries { decoder, prints_tokens: true, ..Summaries::default() };
        summaries.add_reference("The cat sat.");
        summaries.add_reference("A dog.");
        let ids = [0_i64, 1, 2].map(i64::to_le_bytes).concat();
        assert_eq!(summaries.take(0, &ids), Ok(()));
        assert!(matches!(summaries.take(1, &ids[..5]), Err(AnswerError::Length { .. })));
        let scores = summaries.scores();
        assert_eq!(
            scores.text,
            "{'rouge1': 50.0, 'rouge2': 50.0, 'rougeL': 50.0, 'rougeLsum': 50.0, \
             'gen_len': 11, 'gen_num': 2, 'gen_tok_len': 3, 'tokens_per_sample': 1.5}\n"
        );
        assert_checker_reads("v4.0", "llama2-70b-99", &scores);
    }

    #[test]
    fn figures_look_as_python_shows_them() {
        assert_eq!([43.0, 42.9865, 0.10004].map(rounded::<4>), ["43.0", "42.9865", "0.1"]);
    }
}
