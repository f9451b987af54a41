//! Hierarchical F1 of category paths: levels that are right from the top on.
//!
//! Source: `evaluation.py` of the benchmark Qwen3-VL on the product catalogue of
//! Shopify, which counts every entry of the log.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::summarization::read_list;
use super::text::is_space;
use super::{
    AnswerError, DataError, Figure, Inputs, Method, Need, Repeats, Scorer, Scores, of_sample,
};

const REFERENCE: Need = Need {
    name: "reference",
    what: "the data set written as JSON: a list of objects with ground_truth_category, levels \
           with ' > ' between",
    is_required: true,
};

/// `qwen3-vl-235b-a22b`.
pub const HIERARCHICAL_F1: Method = Method {
    name: "hierarchical-f1",
    title: "F1 of the levels of category paths that are right from the top on",
    answer: "a JSON object with category, brand and is_secondhand",
    element: None,
    needs: &[REFERENCE],
    choices: &[],
    open: |inputs| Ok(Box::new(Categories::open(inputs)?)),
};

/// What stands between the levels of a path.
const SEPARATOR: &str = " > ";

/// Levels of paths, summed over samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Levels {
    /// That both paths have, from the top on.
    pub shared: u64,
    /// Of paths that were found.
    pub found: u64,
    /// Of paths that are right.
    pub wanted: u64,
}

impl Levels {
    /// Adds two paths.
    pub fn add(&mut self, found: &str, wanted: &str) {
        let levels = |path| str::split(path, SEPARATOR).map(|level| level.trim_matches(is_space));
        let is_same = |(found, wanted): &(&str, &str)| found == wanted;
        self.shared += levels(found).zip(levels(wanted)).take_while(is_same).count() as u64;
        self.found += levels(found).count() as u64;
        self.wanted += levels(wanted).count() as u64;
    }

    /// The harmonic mean of precision and recall, in [0, 1].
    #[must_use]
    pub fn f1(&self) -> f64 {
        let share = |of: u64| self.shared as f64 / of.max(1) as f64;
        let (precision, recall) = (share(self.found), share(self.wanted));
        if self.shared == 0 { 0.0 } else { 2.0 * (precision * recall) / (precision + recall) }
    }
}

#[derive(Deserialize)]
struct Record {
    ground_truth_category: String,
}

/// The category of an answer of the schema, as pydantic takes it: the three fields
/// and no other.
fn category(answer: &[u8]) -> Result<String, AnswerError> {
    let problem = |found| AnswerError::Content {
        expected: "an object with the texts category and brand, and is_secondhand".to_owned(),
        found,
    };
    let object: Map<String, Value> =
        serde_json::from_slice(answer).map_err(|error| problem(error.to_string()))?;
    let is_right = object.len() == 3
        && object.get("brand").is_some_and(Value::is_string)
        && object.get("is_secondhand").is_some_and(is_truth);
    match object.get("category") {
        Some(Value::String(category)) if is_right => Ok(category.clone()),
        _ => Err(problem("another".to_owned())),
    }
}

/// Whether pydantic takes a value for true or false.
fn is_truth(value: &Value) -> bool {
    const WORDS: [&str; 12] =
        ["0", "off", "f", "false", "n", "no", "1", "on", "t", "true", "y", "yes"];
    match value {
        Value::Bool(_) => true,
        Value::Number(number) => [Some(0.0), Some(1.0)].contains(&number.as_f64()),
        Value::String(word) => WORDS.contains(&word.to_lowercase().as_str()),
        _ => false,
    }
}

/// Scores category paths.
#[derive(Debug, Default)]
pub struct Categories {
    wanted: Vec<String>,
    levels: Levels,
}

impl Categories {
    fn open(inputs: &Inputs) -> Result<Self, DataError> {
        let expected = "a list of objects with ground_truth_category";
        let records: Vec<Record> = read_list(inputs.file(&REFERENCE)?, expected)?;
        let wanted = records.into_iter().map(|record| record.ground_truth_category).collect();
        Ok(Self { wanted, ..Self::default() })
    }
}

impl Scorer for Categories {
    fn take(&mut self, index: u64, answer: &[u8]) -> Result<(), AnswerError> {
        let wanted = of_sample(&self.wanted, index)?;
        let category = category(answer).inspect_err(|_| {
            // As many levels as are wanted, and none of them right.
            let levels = wanted.split(SEPARATOR).count() as u64;
            self.levels.found += levels;
            self.levels.wanted += levels;
        })?;
        self.levels.add(&category, wanted);
        Ok(())
    }

    fn repeats(&self) -> Repeats {
        Repeats::All
    }

    fn references(&self) -> Option<u64> {
        Some(self.wanted.len() as u64)
    }

    fn scores(&mut self) -> Scores {
        let value = self.levels.f1();
        Scores {
            figures: vec![Figure { metric: "F1_HIERARCHICAL", value }],
            text: format!("{{\"f1\": {value:?}}}\n"),
            ..Scores::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::assert_checker_reads;
    use super::*;

    #[test]
    fn levels_count_up_to_the_first_that_is_wrong() {
        let wanted = ["A > B > C", "A > D"].map(str::to_owned).to_vec();
        let mut categories = Categories { wanted, ..Categories::default() };
        let answer = |category: &str, is_secondhand: &str| {
            format!(
                r#"{{"category": "{category}", "brand": "x", "is_secondhand": {is_secondhand}}}"#
            )
        };
        assert_eq!(categories.take(0, answer("A > B > X > C", "false").as_bytes()), Ok(()));
        assert_eq!(categories.take(1, answer(" A ", "\"Yes\"").as_bytes()), Ok(()));
        for wrong in [answer("A", "2"), "```json".to_owned(), answer("A", "1, \"more\": 1")] {
            let taken = categories.take(1, wrong.as_bytes());
            assert!(matches!(taken, Err(AnswerError::Content { .. })), "{wrong}");
        }
        assert_eq!(categories.levels, Levels { shared: 3, found: 11, wanted: 11 });
        let scores = categories.scores();
        assert_eq!(scores.figure("F1_HIERARCHICAL"), Some(3.0 / 11.0));
        assert_checker_reads("v6.0", "qwen3-vl-235b-a22b", &scores);
    }
}
