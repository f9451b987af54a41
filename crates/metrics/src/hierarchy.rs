//! Hierarchical F1 of category paths: levels that match from the top.
//!
//! Source: `evaluation.py` of the benchmark Qwen3-VL on the product catalog of Shopify, which
//! counts every entry of the log.

use std::borrow::Cow;
use std::fmt;
use std::ops::AddAssign;

use memchr::memchr_iter;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::summarization::read_list;
use super::text::is_space;
use super::{
    AnswerError, DataError, Figure, Inputs, Method, Need, Rejection, RepeatPolicy, Scorer, Scores,
    judge_all, payload, reference_of, single_result,
};

const REFERENCE: Need = Need {
    name: "reference",
    help: "the data set as JSON: a list of objects with ground_truth_category, whose levels are \
           separated by ' > '",
    is_required: true,
};

/// Method of `qwen3-vl-235b-a22b`.
pub(crate) const HIERARCHICAL_F1: Method = Method {
    name: "hierarchical-f1",
    title: "F1 of the levels of category paths that are correct from the top level down",
    answer: "a JSON object with category, brand and is_secondhand",
    element: None,
    needs: &[REFERENCE],
    choices: &[],
    open: |inputs| Ok(Box::new(Categories::open(inputs)?)),
};

/// Numbers of levels in paths, summed over samples.
///
/// ```
/// use dyno_metrics::hierarchy::Levels;
///
/// let mut levels = Levels::default();
/// levels.add("A > B > X", "A > B > C");
/// assert_eq!(levels, Levels { shared: 2, predicted: 3, expected: 3 });
/// assert_eq!(levels.f1(), 2.0 / 3.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Levels {
    /// Levels that both paths share from the top.
    pub shared: u64,
    /// Levels of predicted paths.
    pub predicted: u64,
    /// Levels of expected paths.
    pub expected: u64,
}

impl Levels {
    /// Adds a predicted and an expected path. Levels are separated by ` > `.
    pub fn add(&mut self, predicted: &str, expected: &str) {
        let (mut predicted, mut expected) = (levels(predicted), levels(expected));
        let mut is_right = true;
        loop {
            let pair = (predicted.next(), expected.next());
            self.predicted += u64::from(pair.0.is_some());
            self.expected += u64::from(pair.1.is_some());
            is_right &= pair.0 == pair.1;
            match pair {
                (None, None) => break,
                _ => self.shared += u64::from(is_right),
            }
        }
    }

    /// Returns the harmonic mean of precision and recall, in [0, 1].
    pub fn f1(&self) -> f64 {
        let share = |total: u64| self.shared as f64 / total.max(1) as f64;
        let (precision, recall) = (share(self.predicted), share(self.expected));
        if self.shared == 0 { 0.0 } else { 2.0 * (precision * recall) / (precision + recall) }
    }
}

impl AddAssign for Levels {
    fn add_assign(&mut self, more: Self) {
        self.shared += more.shared;
        self.predicted += more.predicted;
        self.expected += more.expected;
    }
}

/// Splits a path into levels, from the top. They are separated by ` > `.
fn levels(path: &str) -> impl Iterator<Item = &str> {
    let bytes = path.as_bytes();
    // `>` is the rarest character of the separator.
    let is_separator =
        move |at: &usize| *at > 0 && bytes[*at - 1] == b' ' && bytes.get(*at + 1) == Some(&b' ');
    let mut separators = memchr_iter(b'>', bytes).filter(is_separator);
    let mut rest = Some(0);
    std::iter::from_fn(move || {
        let start = rest?;
        // Separators do not overlap.
        let next = separators.find(|at| *at > start);
        rest = next.map(|at| at + 2);
        let end = next.map_or(path.len(), |at| at - 1);
        Some(path[start..end].trim_matches(is_space))
    })
}

#[derive(Deserialize)]
struct Record {
    ground_truth_category: String,
}

/// Fields of an answer that its schema requires. The last of repeated fields counts.
#[derive(Default)]
struct Answer<'a> {
    category: Field<'a>,
    brand: Field<'a>,
    is_secondhand: Field<'a>,
    has_other: bool,
}

/// Value of a field.
#[derive(Default)]
enum Field<'a> {
    Text(Cow<'a, str>),
    /// A number or boolean that pydantic accepts as a boolean.
    Truth,
    /// Another value, or a missing one.
    #[default]
    Other,
}

struct AnswerVisitor;
struct FieldVisitor;

impl<'de> Deserialize<'de> for Answer<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(AnswerVisitor)
    }
}

impl<'de> Visitor<'de> for AnswerVisitor {
    type Value = Answer<'de>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Answer<'de>, A::Error> {
        let mut answer = Answer::default();
        while let Some(Field::Text(key)) = map.next_key()? {
            let field = map.next_value()?;
            match &*key {
                "category" => answer.category = field,
                "brand" => answer.brand = field,
                "is_secondhand" => answer.is_secondhand = field,
                _ => answer.has_other = true,
            }
        }
        Ok(answer)
    }
}

impl<'de> Deserialize<'de> for Field<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(FieldVisitor)
    }
}

/// Returns the field of a number, which pydantic accepts as a boolean if it is 0 or 1.
fn truth_value<'a>(number: f64) -> Field<'a> {
    if number == 0.0 || number == 1.0 { Field::Truth } else { Field::Other }
}

impl<'de> Visitor<'de> for FieldVisitor {
    type Value = Field<'de>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Field<'de>, E> {
        Ok(Field::Truth)
    }

    fn visit_i64<E>(self, number: i64) -> Result<Field<'de>, E> {
        Ok(truth_value(number as f64))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Field<'de>, E> {
        Ok(truth_value(number as f64))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Field<'de>, E> {
        Ok(truth_value(number))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Field<'de>, E> {
        Ok(Field::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Field<'de>, E> {
        Ok(Field::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Field<'de>, E> {
        Ok(Field::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Field<'de>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Field::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Field<'de>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Field::Other)
    }
}

impl Field<'_> {
    /// Returns whether pydantic accepts the value as a boolean.
    fn is_truth(&self) -> bool {
        const WORDS: [&str; 12] =
            ["0", "off", "f", "false", "n", "no", "1", "on", "t", "true", "y", "yes"];
        match self {
            Self::Truth => true,
            Self::Text(word) => WORDS.contains(&word.to_lowercase().as_str()),
            Self::Other => false,
        }
    }
}

/// Returns the category of an answer. As in pydantic, an answer must have the three fields of the
/// schema and no other.
fn category(answer: &[u8]) -> Result<Cow<'_, str>, AnswerError> {
    let problem = |found| AnswerError::Content {
        expected: "an object with the texts category and brand, and is_secondhand".to_owned(),
        found,
    };
    let answer: Answer<'_> =
        serde_json::from_str(payload::text(answer)?).map_err(|error| problem(error.to_string()))?;
    match answer {
        Answer {
            category: Field::Text(category),
            brand: Field::Text(_),
            is_secondhand,
            has_other,
        } if is_secondhand.is_truth() && !has_other => Ok(category),
        _ => Err(problem("another".to_owned())),
    }
}

/// Scores category paths.
#[derive(Debug, Default)]
pub struct Categories {
    references: Vec<String>,
    levels: Levels,
}

impl Categories {
    fn open(inputs: &Inputs) -> Result<Self, DataError> {
        let expected = "a list of objects with ground_truth_category";
        let records: Vec<Record> = read_list(inputs.file(&REFERENCE)?, expected)?;
        let references = records.into_iter().map(|record| record.ground_truth_category).collect();
        Ok(Self { references, ..Self::default() })
    }

    fn judge(&self, sums: &mut Levels, index: u64, answer: &[u8]) -> Result<(), AnswerError> {
        let reference = reference_of(&self.references, index)?;
        let category = category(answer).inspect_err(|_| {
            // A malformed answer counts as a path of as many levels, all wrong.
            let levels = levels(reference).count() as u64;
            sums.predicted += levels;
            sums.expected += levels;
        })?;
        sums.add(&category, reference);
        Ok(())
    }
}

impl Scorer for Categories {
    fn take(&mut self, index: u64, answer: &[u8]) -> Result<(), AnswerError> {
        single_result(self.take_all(&[(index, answer)]))
    }

    fn take_all(&mut self, answers: &[(u64, &[u8])]) -> Vec<Rejection> {
        let (levels, wrong) =
            judge_all(answers, |levels, index, answer| self.judge(levels, index, answer));
        self.levels += levels;
        wrong
    }

    fn repeat_policy(&self) -> RepeatPolicy {
        RepeatPolicy::All
    }

    fn references(&self) -> Option<u64> {
        Some(self.references.len() as u64)
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
    fn of_a_field_that_stands_there_twice_the_second_counts() {
        let category = |more: &str| {
            let answer = format!(r#"{{"brand": "\u00e9", "category": [1, {{"a": null}}]{more}}}"#);
            category(answer.as_bytes()).map(Cow::into_owned)
        };
        let right = r#", "category": "caf\u00e9 > A", "is_secondhand": 1.0"#;
        assert_eq!(category(right), Ok("café > A".to_owned()));
        for wrong in ["", r#", "is_secondhand": 0"#, r#", "category": "A", "is_secondhand": null"#]
        {
            assert!(category(wrong).is_err(), "{wrong}");
        }
        assert!(category(&format!(r#"{right}, "brand": -1"#)).is_err());
        assert!(super::category(b"\xff").is_err());
    }

    #[test]
    fn separators_do_not_overlap() {
        // Python splits them in this way.
        for (path, expected) in [
            ("a > b", &["a", "b"][..]),
            ("a >  > b", &["a", "", "b"]),
            ("a > > b", &["a", "> b"]),
            (" > ", &["", ""]),
            (">", &[">"]),
            ("", &[""]),
            (" >é> > é", &[">é>", "é"]),
        ] {
            assert_eq!(levels(path).collect::<Vec<_>>(), expected, "{path}");
        }
    }

    #[test]
    fn levels_count_up_to_the_first_that_is_wrong() {
        let references = ["A > B > C", "A > D"].map(str::to_owned).to_vec();
        let mut categories = Categories { references, ..Categories::default() };
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
        assert_eq!(categories.levels, Levels { shared: 3, predicted: 11, expected: 11 });
        let scores = categories.scores();
        assert_eq!(scores.figure("F1_HIERARCHICAL"), Some(3.0 / 11.0));
        assert_checker_reads("v6.0", "qwen3-vl-235b-a22b", &scores);
    }
}
