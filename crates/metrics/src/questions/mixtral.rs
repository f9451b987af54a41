//! ROUGE of answers to questions of OpenOrca, and numbers that are right of GSM8K.
//!
//! Source: `evaluate-accuracy.py` of the benchmark Mixtral 8x7B. The third part of
//! its data set, MBXP, is programs to run: they are counted, and not judged.

use serde::Deserialize;
use serde_json::Value;

use super::super::seen::Seen;
use super::super::summarization::rouge::Text;
use super::super::summarization::{self, NO_TOKENS, Sums, read_list};
use super::super::text::{self, Texts};
use super::super::{
    AnswerError, DataError, Figure, Inputs, Method, Need, Repeats, Scorer, Scores, of_sample,
};
use super::matches;

const REFERENCE: Need = Need {
    name: "reference",
    what: "the data set written as JSON by pandas.read_pickle(..).to_json(.., \
           orient='records'): a list of objects with dataset (OpenOrca, GSM8K or MBXP) and \
           gt_output",
    is_required: true,
};

/// `mixtral-8x7b`.
pub const ROUGE_GSM8K: Method = Method {
    name: "rouge-gsm8k",
    title: "ROUGE of answers of OpenOrca, and the share of right numbers of GSM8K, in percent",
    answer: text::ANSWER,
    element: None,
    needs: &[REFERENCE, text::TOKENIZER, text::PUNKT],
    choices: &[text::SPACES],
    open: |inputs| Ok(Box::new(Mixture::open(inputs)?)),
};

#[derive(Deserialize)]
struct Record {
    dataset: String,
    gt_output: Value,
}

/// What is right.
#[derive(Debug)]
enum Wanted {
    Text(Text),
    /// None where the data set has no number.
    Number(Option<f64>),
    /// Tests of a program.
    Program,
}

/// Scores answers of the three parts.
#[derive(Debug, Default)]
pub struct Mixture {
    texts: Texts,
    wanted: Vec<Wanted>,
    seen: Seen,
    sums: Sums,
    numbers: u64,
    right: u64,
    programs: u64,
    /// Answers, also second ones.
    entries: u64,
    tokens: u64,
}

impl Mixture {
    fn open(inputs: &Inputs) -> Result<Self, DataError> {
        let mut mixture = Self { texts: Texts::open(inputs)?, ..Self::default() };
        let path = inputs.file(&REFERENCE)?;
        let records: Vec<Record> = read_list(path, "a list of objects with dataset and gt_output")?;
        for (at, Record { dataset, gt_output }) in records.iter().enumerate() {
            let wanted = match (dataset.as_str(), gt_output) {
                ("GSM8K", output) => Wanted::Number(of_value(output)),
                ("OpenOrca", Value::String(text)) => mixture.text(text),
                ("MBXP", _) => Wanted::Program,
                _ => {
                    let expected = "OpenOrca with a text, GSM8K or MBXP";
                    let found = format!("{dataset} with {gt_output} as object {at}");
                    return Err(DataError::malformed(path, None, expected, found));
                }
            };
            mixture.wanted.push(wanted);
        }
        Ok(mixture)
    }

    fn text(&mut self, text: &str) -> Wanted {
        Wanted::Text(Text::new(&self.texts.lines(text), &mut self.sums.words))
    }
}

fn of_value(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

impl Scorer for Mixture {
    fn take(&mut self, index: u64, answer: &[u8]) -> Result<(), AnswerError> {
        self.entries += 1;
        if !self.seen.insert(index) {
            return Ok(());
        }
        let wanted = of_sample(&self.wanted, index)?;
        let said = self.texts.of(answer);
        self.tokens += said.as_ref().map_or(0, |said| said.tokens);
        match (wanted, &said) {
            (Wanted::Text(text), Ok(said)) => self.sums.add(text, &self.texts.lines(&said.text)),
            (Wanted::Text(_), Err(_)) => self.sums.add_none(),
            (Wanted::Number(wanted), said) => {
                let number = said.as_ref().ok().and_then(|said| matches::number(&said.text));
                self.numbers += 1;
                self.right += u64::from(number.is_some() && number == *wanted);
            }
            (Wanted::Program, _) => self.programs += 1,
        }
        said.map(drop)
    }

    /// A second answer counts as one where tokens are divided by answers.
    fn repeats(&self) -> Repeats {
        Repeats::All
    }

    fn references(&self) -> Option<u64> {
        Some(self.wanted.len() as u64)
    }

    fn scores(&mut self) -> Scores {
        let (mut figures, mut shown) = (Vec::new(), Vec::new());
        if self.sums.samples > 0 {
            figures = self.sums.figures();
            shown = self.sums.shown("");
        }
        let value = 100.0 * self.right as f64 / self.numbers.max(1) as f64;
        figures.push(Figure { metric: "gsm8k_accuracy", value });
        let (length, count) = (self.sums.characters(), self.entries);
        shown.push(format!("'gsm8k': {value:?}, 'gen_len': {length}, 'gen_num': {count}"));
        let mut notes = self.texts.notes();
        if self.texts.has_tokens() {
            figures.push(summarization::tokens_per_sample(self.tokens, count));
            shown.push(summarization::shown_tokens(self.tokens, count));
        } else {
            notes.push(NO_TOKENS.to_owned());
        }
        notes.push(format!(
            "{} answers of MBXP are programs, which are not run: mbxp_accuracy is for the \
             container of the benchmark to find",
            self.programs
        ));
        Scores { figures, text: format!("{{{}}}\n", shown.join(", ")), notes }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::assert_checker_reads_some;
    use super::*;

    #[test]
    fn each_part_has_its_metric_and_second_answers_only_count() {
        let texts = Texts::of_words(&["The", " cat", " The answer is 4", " of"]);
        let mut mixture = Mixture { texts, ..Mixture::default() };
        let cat = mixture.text("The cat");
        mixture.wanted =
            vec![cat, Wanted::Number(Some(4.0)), Wanted::Program, Wanted::Number(None)];
        let answer = |ids: &[i64]| ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>();
        assert_eq!(mixture.take(1, &answer(&[2, 3])), Ok(()));
        assert_eq!(mixture.take(1, &answer(&[3])), Ok(()));
        assert_eq!(mixture.take(0, &answer(&[0, 1])), Ok(()));
        assert_eq!(mixture.take(2, &answer(&[3])), Ok(()));
        assert!(matches!(mixture.take(3, &[0]), Err(AnswerError::Length { .. })));
        assert_eq!(mixture.take(4, &[]), Err(AnswerError::Sample { references: 4 }));
        let scores = mixture.scores();
        assert_eq!(
            scores.text,
            "{'rouge1': 100.0, 'rouge2': 100.0, 'rougeL': 100.0, 'rougeLsum': 100.0, \
             'gsm8k': 50.0, 'gen_len': 7, 'gen_num': 6, 'gen_tok_len': 5, \
             'tokens_per_sample': 0.8}\n"
        );
        assert_checker_reads_some("v4.1", "mixtral-8x7b", &scores, &["mbxp_accuracy"]);
        assert!(scores.notes[1].starts_with("1 answers of MBXP"));
    }
}
