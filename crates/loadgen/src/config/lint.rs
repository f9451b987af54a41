//! Warnings about lines of a `.conf` file that have no effect, or a surprising one.

use std::collections::HashMap;
use std::fmt;

use super::grammar::{Entry, parts};
use super::keys::{KEYS, Key, ValueReader};
use super::number::strtoull;
use super::{Conf, ConfType, Source, built_in_models};
use crate::settings::{Scenario, intended, similar};

/// Warning about a line that is accepted but has no effect, or a surprising one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigWarning {
    /// Source of the line.
    pub source: Source,
    /// Line, from 1.
    pub line: usize,
    /// Kind of the warning.
    pub kind: WarningKind,
}

/// Kind of a warning about a line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WarningKind {
    /// The line sets nothing, such as `key=value` without spaces.
    SetsNothing {
        /// Text of the line.
        text: String,
    },
    /// No key has this name.
    UnknownKey {
        /// The given key.
        key: String,
    },
    /// The key occurs in files of the reference, but no release reads it.
    NeverRead {
        /// Key of the line.
        key: String,
    },
    /// The key belongs to another scenario.
    WrongScenario {
        /// The given key.
        key: String,
        /// Scenario under which it is read.
        read_under: &'static str,
    },
    /// Only the built-in table may set the key.
    BuiltInOnly {
        /// Key of the line.
        key: String,
    },
    /// The row is for another model.
    OtherModel {
        /// Key of the line.
        key: String,
        /// Model of the test, or `*`.
        model: String,
    },
    /// The value is parsed as a different number than it seems.
    ReadAs {
        /// Key of the line.
        key: String,
        /// Text of the value.
        text: String,
        /// Parsed value.
        number: u64,
    },
    /// The value of a flag is neither 0 nor 1.
    Flag {
        /// Key of the line.
        key: String,
        /// Text of the value.
        text: String,
        /// Parsed value.
        is_set: bool,
    },
    /// The mode is not 0 to 3; the mode is unchanged.
    UnknownMode {
        /// Key of the line.
        key: String,
        /// Text of the value.
        text: String,
    },
    /// A later line sets the same key.
    Overwritten {
        /// Key of the line.
        key: String,
        /// Number of the later line.
        by: usize,
    },
    /// The line has several values; the last one counts.
    SeveralValues {
        /// Key of the line.
        key: String,
        /// Last value.
        last: String,
    },
    /// The key is not read because another setting is false.
    Needs {
        /// Key of the line.
        key: String,
        /// Setting that must be true.
        flag: &'static str,
    },
}

impl ConfigWarning {
    /// Returns whether `dyno run` rejects the file because of it: such a line is always a mistake.
    pub fn is_refused(&self) -> bool {
        matches!(self.kind, WarningKind::SetsNothing { .. } | WarningKind::UnknownKey { .. })
    }
}

impl fmt::Display for ConfigWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.source, self.line)?;
        match &self.kind {
            WarningKind::SetsNothing { text } => {
                write!(
                    f,
                    "`{text}` sets nothing; expected `key = value` with spaces around the `=`"
                )
            }
            WarningKind::UnknownKey { key } => {
                write!(f, "unknown key `{key}`")?;
                nearest_key(key).map_or(Ok(()), |near| write!(f, "; the nearest key is `{near}`"))
            }
            WarningKind::NeverRead { key } => {
                write!(f, "`{key}` is read by no release; remove the line")
            }
            WarningKind::WrongScenario { key, read_under } => {
                write!(f, "`{key}` is never read: this key belongs to {read_under}")
            }
            WarningKind::BuiltInOnly { key } => {
                write!(f, "`{key}` is ignored: the rules fix this value, no file can change it")
            }
            WarningKind::OtherModel { key, model } if model == "*" => {
                write!(f, "`{key}` never matches: an audit file is read for the model `*` only")
            }
            WarningKind::OtherModel { key, model } => {
                write!(f, "`{key}` never matches: the model is `{model}`")
            }
            WarningKind::ReadAs { key, text, number } => {
                write!(f, "`{key}` takes whole numbers and reads `{text}` as {number}")
            }
            WarningKind::Flag { key, text, is_set } => {
                write!(f, "`{key}` is 0 or 1; `{text}` reads as {is_set}")
            }
            WarningKind::UnknownMode { key, text } => {
                write!(
                    f,
                    "`{key}` is 0 (submission), 1 (accuracy), 2 (performance) or 3 (find peak); \
                     `{text}` changes nothing"
                )
            }
            WarningKind::Overwritten { key, by } => {
                write!(f, "`{key}` is set again in line {by}, which counts")
            }
            WarningKind::SeveralValues { key, last } => {
                write!(f, "`{key}` has several values, of which the last counts: {last}")
            }
            WarningKind::Needs { key, flag } => {
                write!(f, "`{key}` is not read while `{flag}` is false")
            }
        }
    }
}

impl Conf {
    /// Returns warnings about ignored and surprising lines, in the order of the lines.
    ///
    /// With the `model` of the test, this includes rows of models that are neither that model nor
    /// in the built-in table.
    #[must_use]
    pub fn lint(&self, conf_type: ConfType, model: Option<&str>) -> Vec<ConfigWarning> {
        let mut warnings = Vec::new();
        let mut warn = |line, kind| {
            warnings.push(ConfigWarning { source: self.source.clone(), line, kind });
        };
        for idle in &self.idle {
            warn(idle.line, WarningKind::SetsNothing { text: idle.text.clone() });
        }
        let mut later = HashMap::new();
        for entry in self.entries.iter().rev() {
            let key = || entry.key.clone();
            if let Some(by) = later.insert(&entry.key, entry.line) {
                warn(entry.line, WarningKind::Overwritten { key: key(), by });
            }
            if entry.values > 1 {
                let last = entry.value.clone();
                warn(entry.line, WarningKind::SeveralValues { key: key(), last });
            }
            match find(&entry.key) {
                Err(kind) => warn(entry.line, kind),
                Ok((row_model, found)) => {
                    if let Some(kind) = unmatched(entry, row_model, found, conf_type, model) {
                        warn(entry.line, kind);
                    } else if let Some(kind) = misread(entry, found) {
                        warn(entry.line, kind);
                    }
                }
            }
        }
        warnings.sort_by_key(|warning| warning.line);
        warnings
    }
}

/// Returns the model and the key of a row, or why it is never read.
fn find(row: &str) -> Result<(&str, &'static Key), WarningKind> {
    let (model, word, name) = parts(row);
    let named = || KEYS.iter().filter(|key| key.name == name);
    let is_scenario = word == "*" || Scenario::ALL.iter().any(|s| s.name() == word);
    if let (Some(model), true) = (model, is_scenario) {
        if let Some(key) = named().find(|key| key.is_read_under(word)) {
            return Ok((model, key));
        }
        if let Some(read_under) = named().find_map(|key| key.scenario) {
            let (key, read_under) = (row.to_string(), read_under.name());
            return Err(WarningKind::WrongScenario { key, read_under });
        }
    }
    if name == "target_duration" || name.starts_with("test07_") {
        return Err(WarningKind::NeverRead { key: row.to_string() });
    }
    Err(WarningKind::UnknownKey { key: row.to_string() })
}

/// Returns the known key that the key of a row probably means.
fn nearest_key(row: &str) -> Option<String> {
    let (model, word, name) = parts(row);
    let model = model.unwrap_or("*");
    let words = Scenario::ALL.iter().map(|s| s.name()).chain(["*"]);
    let word = similar(word, words).unwrap_or("*");
    let name = intended(name, KEYS.iter().map(|key| key.name))?;
    let mut named = KEYS.iter().filter(|key| key.name == name);
    let fits = named.clone().any(|key| key.is_read_under(word));
    let scenario = named.find_map(|key| key.scenario).filter(|_| !fits);
    Some(format!("{model}.{}.{name}", scenario.map_or(word, Scenario::name)))
}

/// Returns why a row with a valid key is not read by this test.
fn unmatched(
    entry: &Entry,
    row_model: &str,
    found: &Key,
    conf_type: ConfType,
    model: Option<&str>,
) -> Option<WarningKind> {
    let key = || entry.key.clone();
    if !found.is_read_from(conf_type) {
        return Some(WarningKind::BuiltInOnly { key: key() });
    }
    let looked_for = match conf_type {
        ConfType::Audit => "*",
        ConfType::BuiltIn | ConfType::User => model?,
    };
    let known = conf_type != ConfType::Audit && built_in_models().any(|m| m == row_model);
    let matches = row_model == "*" || row_model == looked_for;
    (!matches && !known)
        .then(|| WarningKind::OtherModel { key: key(), model: looked_for.to_string() })
}

/// Returns a warning if the value is parsed differently than it seems.
fn misread(entry: &Entry, found: &Key) -> Option<WarningKind> {
    let number = found.whole(&entry.value)?;
    let (key, text) = (entry.key.clone(), entry.value.clone());
    let in_full = strtoull(&text).1 == text.len();
    let is_decimal = text.parse() == Ok(number) && !(text.len() > 1 && text.starts_with('0'));
    let is_hexadecimal = text.starts_with("0x") || text.starts_with("0X");
    if !(in_full && (is_decimal || is_hexadecimal)) {
        return Some(WarningKind::ReadAs { key, text, number });
    }
    match &found.reads {
        ValueReader::Mode if number > 3 => Some(WarningKind::UnknownMode { key, text }),
        ValueReader::One(_) | ValueReader::NonZero(_) if number > 1 => {
            let is_set = matches!(found.reads, ValueReader::NonZero(_));
            Some(WarningKind::Flag { key, text, is_set })
        }
        _ => None,
    }
}
