//! Reads descriptors in TOML. All problems are reported together, each with its line and key.

use std::fmt;

use thiserror::Error;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Error of reading a descriptor.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct DescriptorError {
    /// At least one problem, sorted by line.
    pub problems: Vec<Problem>,
}

/// One problem of a descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line number, counted from 1.
    pub line: usize,
    /// Name of the key; empty if the text is not valid TOML.
    pub key: String,
    /// What was expected and what was found.
    pub problem: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key.as_str() {
            "" => write!(f, "line {}: {}", self.line, self.problem),
            key => write!(f, "line {}: `{key}`: {}", self.line, self.problem),
        }
    }
}

/// A value with its key and its position.
#[derive(Clone, Copy)]
pub(crate) struct Item<'t> {
    pub key: &'t str,
    pub at: usize,
    pub value: &'t DeValue<'t>,
}

/// Collects problems while a descriptor is read.
pub(crate) struct Reader {
    /// Positions of the ends of lines.
    ends: Vec<usize>,
    problems: Vec<Problem>,
}

impl Reader {
    pub fn new(text: &str) -> Self {
        let ends = text.match_indices('\n').map(|(at, _)| at).collect();
        Self { ends, problems: Vec::new() }
    }

    fn line(&self, at: usize) -> usize {
        self.ends.partition_point(|&end| end < at) + 1
    }

    pub fn problem(&mut self, at: usize, key: &str, problem: impl fmt::Display) {
        let line = self.line(at);
        let key = key.to_owned();
        let problem = problem.to_string();
        self.problems.push(Problem { line, key, problem });
    }

    /// Returns what was read, or all problems if there are any.
    pub fn finish<T>(mut self, read: Option<T>) -> Result<T, DescriptorError> {
        self.problems.sort_by_key(|problem| problem.line);
        // A list of formats may be read twice, for weights and for activations.
        self.problems.dedup();
        match read {
            Some(read) if self.problems.is_empty() => Ok(read),
            _ => Err(DescriptorError { problems: self.problems }),
        }
    }

    pub fn no_toml(&mut self, error: &toml::de::Error) {
        let at = error.span().map_or(0, |span| span.start);
        self.problem(at, "", format_args!("not valid TOML: {}", error.message()));
    }

    /// Returns the value of a key with its position.
    pub fn item<'v>(table: &'v DeTable<'v>, key: &'v str) -> Option<Item<'v>> {
        let (name, value) = table.get_key_value(key)?;
        Some(Item { key, at: name.span().start, value: value.get_ref() })
    }

    /// Reports keys that are not known, with the nearest known key.
    pub fn unknown_keys(&mut self, table: &DeTable<'_>, known: &[&str]) {
        for name in table.keys() {
            let key = &**name.get_ref();
            if !known.contains(&key) {
                let near = nearest(key, known.iter().copied());
                self.problem(name.span().start, key, format_args!("there is no such key{near}"));
            }
        }
    }

    pub fn text(&mut self, item: Item<'_>) -> Option<String> {
        let text = item.value.as_str().map(str::to_owned);
        if text.is_none() {
            self.expected(item, "a text");
        }
        text
    }

    /// Reads a finite number of at least 0.
    pub fn number(&mut self, item: Item<'_>) -> Option<f64> {
        let number = number(item.value).filter(|number| number.is_finite() && *number >= 0.0);
        if number.is_none() {
            self.expected(item, "a number of at least 0");
        }
        number
    }

    pub fn count(&mut self, item: Item<'_>) -> Option<u64> {
        let count = count(item.value);
        if count.is_none() {
            self.expected(item, "a whole number of at least 0");
        }
        count
    }

    /// Returns the elements of an array.
    pub fn array<'v>(&mut self, item: Item<'v>, what: &str) -> Option<Vec<Item<'v>>> {
        let Some(array) = item.value.as_array() else {
            self.expected(item, what);
            return None;
        };
        let element = |value: &'v Spanned<DeValue<'v>>| {
            let key = item.key;
            let at = value.span().start;
            Item { key, at, value: value.get_ref() }
        };
        Some(array.iter().map(element).collect())
    }

    pub fn texts(&mut self, item: Item<'_>) -> Option<Vec<String>> {
        self.array(item, "an array of texts")?.into_iter().map(|item| self.text(item)).collect()
    }

    pub fn expected(&mut self, item: Item<'_>, what: &str) {
        self.problem(
            item.at,
            item.key,
            format_args!("expected {what}, found {}", describe(item.value)),
        );
    }
}

/// Describes a value briefly.
fn describe(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Integer(number) => number.as_str().to_owned(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(_) => "a date".into(),
        DeValue::Array(array) => format!("an array of {}", array.len()),
        DeValue::Table(_) => "a table".into(),
    }
}

pub(crate) fn number(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Integer(_) => count(value).map(|count| count as f64),
        DeValue::Float(number) => number.as_str().replace('_', "").parse().ok(),
        _ => None,
    }
}

pub(crate) fn count(value: &DeValue<'_>) -> Option<u64> {
    let number = value.as_integer()?;
    u64::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok()
}

/// Returns `; the nearest is ...` if a known word is similar: at most a third of the characters differ, and at
/// most three.
pub(crate) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> String {
    let most = (word.chars().count() / 3).clamp(1, 3);
    let near = known.map(|name| (distance(word, name), name)).min_by_key(|(distance, _)| *distance);
    let near = near.filter(|(distance, _)| *distance <= most);
    near.map_or(String::new(), |(_, near)| format!("; the nearest is `{near}`"))
}

/// Returns the edit distance of two words.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut before = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = before + usize::from(x != *y);
            before = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(before + 1);
        }
    }
    row[b.len()]
}
