//! ROUGE of answers to OpenOrca, and the share of right numbers in answers to GSM8K.
//!
//! Source: `evaluate-accuracy.py` of the benchmark Mixtral 8x7B. Answers to MBXP, the third part of
//! its data set, are programs. They are counted but not executed.

use serde::Deserialize;
use serde_json::Value;

use super::super::sample_set::SampleSet;
use super::super::summarization::rouge::Text;
use super::super::summarization::{self, NO_TOKENS, Sums, read_list};
use super::super::text::{self, TextDecoder};
use super::super::{
    AnswerError, DataError, Figure, Inputs, Method, Need, RepeatPolicy, Scorer, Scores,
    reference_of,
};
use super::matches;

const REFERENCE: Need = Need {
    name: "reference",
    help: "the data set written as JSON by pandas.read_pickle(..).to_json(.., \
           orient='records'): a list of objects with dataset (OpenOrca, GSM8K or MBXP) and \
           gt_output",
    is_required: true,
};

/// Method of `mixtral-8x7b`.
pub(crate) const ROUGE_GSM8K: Method = Method {
    name: "rouge-gsm8k",
    title: "ROUGE of answers of OpenOrca, and the share of correct numbers of GSM8K, in percent",
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

/// Reference of a sample.
#[derive(Debug)]
enum Reference {
    Text(Text),
    /// `None` if the data set has no number.
    Number(Option<f64>),
    /// Tests of a program.
    Program,
}

/// Scores answers of the three parts.
#[derive(Debug, Default)]
pub struct Mixture {
    decoder: TextDecoder,
    references: Vec<Reference>,
    answered: SampleSet,
    sums: Sums,
    numbers: u64,
    right: u64,
    programs: u64,
    /// All answers, including repeated ones.
    entries: u64,
    tokens: u64,
}

impl Mixture {
    fn open(inputs: &Inputs) -> Result<Self, DataError> {
        let mut mixture = Self { decoder: TextDecoder::open(inputs)?, ..Self::default() };
        let path = inputs.file(&REFERENCE)?;
        let records: Vec<Record> = read_list(path, "a list of objects with dataset and gt_output")?;
        for (at, Record { dataset, gt_output }) in records.iter().enumerate() {
            let reference = match (dataset.as_str(), gt_output) {
                ("GSM8K", output) => Reference::Number(parse_number(output)),
                ("OpenOrca", Value::String(text)) => mixture.text_reference(text),
                ("MBXP", _) => Reference::Program,
                _ => {
                    let expected = "OpenOrca with a text, GSM8K or MBXP";
                    let found = format!("{dataset} with {gt_output} as object {at}");
                    return Err(DataError::malformed(path, None, expected, found));
                }
            };
            mixture.references.push(reference);
        }
        Ok(mixture)
    }

    fn text_reference(&mut self, text: &str) -> Reference {
        Reference::Text(Text::new(&self.decoder.sentence_lines(text), &mut self.sums.vocabulary))
    }
}

fn parse_number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

impl Scorer for Mixture {
    fn take(&mut self, index: u64, answer: &[u8]) -> Result<(), AnswerError> {
        self.entries += 1;
        if !self.answered.insert(index) {
            return Ok(());
        }
        let reference = reference_of(&self.references, index)?;
        let decoded = self.decoder.decode(answer);
        self.tokens += decoded.as_ref().map_or(0, |decoded| decoded.tokens);
        match (reference, &decoded) {
            (Reference::Text(text), Ok(decoded)) => {
                self.sums.add(text, &self.decoder.sentence_lines(&decoded.text));
            }
            (Reference::Text(_), Err(_)) => self.sums.add_none(),
            (Reference::Number(expected), decoded) => {
                let number =
                    decoded.as_ref().ok().and_then(|decoded| matches::number(&decoded.text));
                self.numbers += 1;
                self.right += u64::from(number.is_some() && number == *expected);
            }
            (Reference::Program, _) => self.programs += 1,
        }
        decoded.map(drop)
    }

    /// Repeated answers count in the divisor of tokens per sample only.
    fn repeat_policy(&self) -> RepeatPolicy {
        RepeatPolicy::All
    }

    fn references(&self) -> Option<u64> {
        Some(self.references.len() as u64)
    }

    fn scores(&mut self) -> Scores {
        let (mut figures, mut formatted) = (Vec::new(), Vec::new());
        if self.sums.samples > 0 {
            figures = self.sums.figures();
            formatted = self.sums.formatted("");
        }
        if self.numbers > 0 {
            let value = 100.0 * self.right as f64 / self.numbers as f64;
            figures.push(Figure { metric: "gsm8k_accuracy", value });
            formatted.push(format!("'gsm8k': {value:?}"));
        }
        let (length, count) = (self.sums.characters(), self.entries);
        formatted.push(format!("'gen_len': {length}, 'gen_num': {count}"));
        let mut notes = self.decoder.notes();
        if self.decoder.has_tokens() {
            figures.push(summarization::tokens_per_sample(self.tokens, count));
            formatted.push(summarization::format_tokens(self.tokens, count));
        } else {
            notes.push(NO_TOKENS.to_owned());
        }
        notes.push(format!(
            "{} answers of MBXP are programs, which are not run: mbxp_accuracy is for the \
             container of the benchmark to find",
            self.programs
        ));
        Scores { figures, text: format!("{{{}}}\n", formatted.join(", ")), notes }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::assert_checker_reads_some;
    use super::*;

    #[test]
    fn each_part_has_its_metric_and_second_answers_only_count() {
        let decoder = TextDecoder::with_words(&["The", " cat", " The answer is 4", " of"]);
        let mut mixture = Mixture { decoder, ..Mixture::default() };
        let cat = mixture.text_reference("The cat");
        mixture.references =
            vec![cat, Reference::Number(Some(4.0)), Reference::Program, Reference::Number(None)];
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

    #[test]
    fn without_answers_of_a_part_its_metric_has_no_figure() {
        let mut mixture = Mixture::default();
        let cat = mixture.text_reference("The cat");
        mixture.references = vec![cat, Reference::Number(Some(4.0)), Reference::Program];
        assert_eq!(mixture.take(0, b"The cat"), Ok(()));
        let scores = mixture.scores();
        assert_eq!(scores.figure("ROUGE1"), Some(100.0));
        assert_eq!(scores.figure("gsm8k_accuracy"), None);
        let references = vec![Reference::Program];
        let mut programs = Mixture { references, ..Mixture::default() };
        assert_eq!(programs.take(0, b"def f(): pass"), Ok(()));
        assert!(programs.scores().figures.is_empty());
    }
}
