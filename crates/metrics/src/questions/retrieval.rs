//! ROUGE-L of texts, and exact matches of facts in a long context.
//!
//! Source: `evaluate-accuracy.py` of the benchmark Llama 3.1 405B, which prints all digits. The
//! data set defines the metric of each sample.

use serde::Deserialize;

use super::super::summarization::rouge::{Rouge, Text, Vocabulary};
use super::super::summarization::{self, NO_TOKENS, read_list};
use super::super::text::{self, TextDecoder};
use super::super::{
    AnswerError, DataError, Figure, Inputs, Method, Need, Scorer, Scores, reference_of,
};
use super::matches;

const REFERENCE: Need = Need {
    name: "reference",
    help: "the data set written as JSON by pandas.read_pickle(..).to_json(.., \
           orient='records'): a list of objects with gt_output and metric (rouge, niah_em or \
           qa_em)",
    is_required: true,
};

/// Method of `llama3.1-405b`.
pub(crate) const ROUGE_EXACT_MATCH: Method = Method {
    name: "rouge-exact-match",
    title: "ROUGE-L of summaries, and exact matches of retrieved texts, in percent",
    answer: text::ANSWER,
    element: None,
    needs: &[REFERENCE, text::TOKENIZER, text::PUNKT],
    choices: &[text::SPACES],
    open: |inputs| Ok(Box::new(Retrieval::open(inputs)?)),
};

#[derive(Deserialize)]
struct Record {
    gt_output: String,
    metric: Metric,
}

#[derive(Debug, Clone, Copy, Deserialize)]
enum Metric {
    #[serde(rename = "rouge")]
    Rouge,
    #[serde(rename = "niah_em")]
    Identifiers,
    #[serde(rename = "qa_em")]
    Answer,
}

/// Reference of a sample.
#[derive(Debug)]
enum Reference {
    Text(Text),
    Identifiers(String),
    Answer(String),
}

/// A sum of percentages over samples.
#[derive(Debug, Default)]
struct Sum {
    percent: f64,
    samples: u64,
}

impl Sum {
    fn add(&mut self, percent: f64) {
        self.percent += percent;
        self.samples += 1;
    }

    /// Returns the mean; `None` without samples.
    fn mean(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.percent / self.samples as f64)
    }
}

/// Scores answers to questions with long contexts.
#[derive(Debug, Default)]
pub struct Retrieval {
    decoder: TextDecoder,
    vocabulary: Vocabulary,
    references: Vec<Reference>,
    rouge_l: Sum,
    exact: Sum,
    characters: u64,
    tokens: u64,
}

impl Retrieval {
    fn open(inputs: &Inputs) -> Result<Self, DataError> {
        let mut retrieval = Self { decoder: TextDecoder::open(inputs)?, ..Self::default() };
        let expected = "a list of objects with gt_output and metric (rouge, niah_em or qa_em)";
        let records: Vec<Record> = read_list(inputs.file(&REFERENCE)?, expected)?;
        for Record { gt_output, metric } in &records {
            retrieval.add_reference(gt_output, *metric);
        }
        Ok(retrieval)
    }

    fn add_reference(&mut self, text: &str, metric: Metric) {
        let lines = self.decoder.sentence_lines(text);
        self.references.push(match metric {
            Metric::Rouge => Reference::Text(Text::new(&lines, &mut self.vocabulary)),
            Metric::Identifiers => Reference::Identifiers(lines),
            Metric::Answer => Reference::Answer(lines),
        });
    }
}

impl Scorer for Retrieval {
    fn take(&mut self, index: u64, answer: &[u8]) -> Result<(), AnswerError> {
        let reference = reference_of(&self.references, index)?;
        let decoded = self.decoder.decode(answer);
        let lines = decoded.as_ref().map(|decoded| self.decoder.sentence_lines(&decoded.text));
        match (reference, &lines) {
            (Reference::Text(_), Err(_)) => self.rouge_l.add(0.0),
            (_, Err(_)) => self.exact.add(0.0),
            (Reference::Text(reference), Ok(lines)) => {
                let found = Text::new(lines, &mut self.vocabulary);
                self.rouge_l.add(100.0 * Rouge::rouge_l(reference, &found));
            }
            (Reference::Identifiers(expected), Ok(lines)) => {
                self.exact.add(matches::identifiers(expected, lines));
            }
            (Reference::Answer(expected), Ok(lines)) => {
                self.exact.add(if matches::is_answer(expected, lines) { 100.0 } else { 0.0 });
            }
        }
        self.characters += lines.map_or(0, |lines| lines.chars().count() as u64);
        self.tokens += decoded.as_ref().map_or(0, |decoded| decoded.tokens);
        decoded.map(drop)
    }

    fn references(&self) -> Option<u64> {
        Some(self.references.len() as u64)
    }

    fn scores(&mut self) -> Scores {
        let (mut figures, mut formatted) = (Vec::new(), Vec::new());
        for (metric, name, sum) in
            [("ROUGEL", "rougeL", &self.rouge_l), ("exact_match", "exact_match", &self.exact)]
        {
            if let Some(value) = sum.mean() {
                figures.push(Figure { metric, value });
                formatted.push(format!("'{name}': {value:?}"));
            }
        }
        let (length, count) = (self.characters, self.rouge_l.samples + self.exact.samples);
        figures.push(Figure { metric: "GEN_LEN", value: length as f64 });
        formatted.push(format!("'gen_len': {length}, 'gen_num': {count}"));
        let mut notes = self.decoder.notes();
        if self.decoder.has_tokens() {
            figures.push(summarization::tokens_per_sample(self.tokens, count));
            formatted.push(summarization::format_tokens(self.tokens, count));
        } else {
            notes.push(NO_TOKENS.to_owned());
        }
        Scores { figures, text: format!("{{{}}}\n", formatted.join(", ")), notes }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::assert_checker_reads;
    use super::*;

    #[test]
    fn each_sample_has_its_metric() {
        let decoder = TextDecoder::with_words(&["The", " cat", " Answer: ", "NYC"]);
        let mut retrieval = Retrieval { decoder, ..Retrieval::default() };
        retrieval.add_reference("The cat sat", Metric::Rouge);
        retrieval.add_reference("New York|NYC", Metric::Answer);
        retrieval.add_reference("00000000-0000-0000-0000-000000000000", Metric::Identifiers);
        let answer = |ids: &[i64]| ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>();
        assert_eq!(retrieval.take(0, &answer(&[0, 1])), Ok(()));
        assert_eq!(retrieval.take(1, &answer(&[0, 2, 3])), Ok(()));
        assert!(matches!(retrieval.take(2, &answer(&[-1])), Err(AnswerError::Content { .. })));
        let scores = retrieval.scores();
        assert_eq!(
            scores.text,
            "{'rougeL': 80.0, 'exact_match': 50.0, 'gen_len': 22, 'gen_num': 3, \
             'gen_tok_len': 5, 'tokens_per_sample': 1.7}\n"
        );
        assert_checker_reads("v5.0", "llama3.1-405b", &scores);
    }
}
