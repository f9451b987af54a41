//! ROUGE-L of texts, and exact matches of what was to be found in a long context.
//!
//! Source: `evaluate-accuracy.py` of the benchmark Llama 3.1 405B, which prints all
//! digits. Each sample says which metric it has.

use serde::Deserialize;

use super::super::summarization::rouge::{Rouge, Text, Words};
use super::super::summarization::{self, NO_TOKENS, read_list};
use super::super::text::{self, Texts};
use super::super::{
    AnswerError, DataError, Figure, Inputs, Method, Need, Scorer, Scores, of_sample,
};
use super::matches;

const REFERENCE: Need = Need {
    name: "reference",
    what: "the data set written as JSON by pandas.read_pickle(..).to_json(.., \
           orient='records'): a list of objects with gt_output and metric (rouge, niah_em or \
           qa_em)",
    is_required: true,
};

/// `llama3.1-405b`.
pub const ROUGE_EXACT_MATCH: Method = Method {
    name: "rouge-exact-match",
    title: "ROUGE-L of summaries, and exact matches of what was to be found, in percent",
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

/// What is right.
#[derive(Debug)]
enum Wanted {
    Text(Text),
    Identifiers(String),
    Answer(String),
}

/// A sum of percents over samples.
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

    /// None where there are no samples.
    fn mean(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.percent / self.samples as f64)
    }
}

/// Scores answers to questions with long contexts.
#[derive(Debug, Default)]
pub struct Retrieval {
    texts: Texts,
    words: Words,
    wanted: Vec<Wanted>,
    rouge_l: Sum,
    exact: Sum,
    characters: u64,
    tokens: u64,
}

impl Retrieval {
    fn open(inputs: &Inputs) -> Result<Self, DataError> {
        let mut retrieval = Self { texts: Texts::open(inputs)?, ..Self::default() };
        let expected = "a list of objects with gt_output and metric (rouge, niah_em or qa_em)";
        let records: Vec<Record> = read_list(inputs.file(&REFERENCE)?, expected)?;
        for Record { gt_output, metric } in &records {
            retrieval.add_reference(gt_output, *metric);
        }
        Ok(retrieval)
    }

    fn add_reference(&mut self, text: &str, metric: Metric) {
        let lines = self.texts.lines(text);
        self.wanted.push(match metric {
            Metric::Rouge => Wanted::Text(Text::new(&lines, &mut self.words)),
            Metric::Identifiers => Wanted::Identifiers(lines),
            Metric::Answer => Wanted::Answer(lines),
        });
    }
}

impl Scorer for Retrieval {
    fn take(&mut self, index: u64, answer: &[u8]) -> Result<(), AnswerError> {
        let wanted = of_sample(&self.wanted, index)?;
        let said = self.texts.of(answer);
        let lines = said.as_ref().map(|said| self.texts.lines(&said.text));
        match (wanted, &lines) {
            (Wanted::Text(_), Err(_)) => self.rouge_l.add(0.0),
            (_, Err(_)) => self.exact.add(0.0),
            (Wanted::Text(wanted), Ok(lines)) => {
                let found = Text::new(lines, &mut self.words);
                self.rouge_l.add(100.0 * Rouge::l(wanted, &found));
            }
            (Wanted::Identifiers(wanted), Ok(lines)) => {
                self.exact.add(matches::identifiers(wanted, lines));
            }
            (Wanted::Answer(wanted), Ok(lines)) => {
                self.exact.add(if matches::is_answer(wanted, lines) { 100.0 } else { 0.0 });
            }
        }
        self.characters += lines.map_or(0, |lines| lines.chars().count() as u64);
        self.tokens += said.as_ref().map_or(0, |said| said.tokens);
        said.map(drop)
    }

    fn references(&self) -> Option<u64> {
        Some(self.wanted.len() as u64)
    }

    fn scores(&mut self) -> Scores {
        let (mut figures, mut shown) = (Vec::new(), Vec::new());
        for (metric, name, sum) in
            [("ROUGEL", "rougeL", &self.rouge_l), ("exact_match", "exact_match", &self.exact)]
        {
            if let Some(value) = sum.mean() {
                figures.push(Figure { metric, value });
                shown.push(format!("'{name}': {value:?}"));
            }
        }
        let (length, count) = (self.characters, self.rouge_l.samples + self.exact.samples);
        figures.push(Figure { metric: "GEN_LEN", value: length as f64 });
        shown.push(format!("'gen_len': {length}, 'gen_num': {count}"));
        let mut notes = self.texts.notes();
        if self.texts.has_tokens() {
            figures.push(summarization::tokens_per_sample(self.tokens, count));
            shown.push(summarization::shown_tokens(self.tokens, count));
        } else {
            notes.push(NO_TOKENS.to_owned());
        }
        Scores { figures, text: format!("{{{}}}\n", shown.join(", ")), notes }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::assert_checker_reads;
    use super::*;

    #[test]
    fn each_sample_has_its_metric() {
        let texts = Texts::of_words(&["The", " cat", " Answer: ", "NYC"]);
        let mut retrieval = Retrieval { texts, ..Retrieval::default() };
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
