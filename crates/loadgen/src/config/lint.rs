//! What a `.conf` file says in vain, or otherwise than it looks.

use std::fmt;

use super::grammar::Entry;
use super::keys::{KEYS, Key, ValueReader};
use super::number::strtoull;
use super::{Conf, ConfType, Source, built_in_models};
use crate::settings::{Scenario, nearest};

/// A line of a file that is accepted and yet not what it seems.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigWarning {
    /// The file.
    pub source: Source,
    /// Line, from 1.
    pub line: usize,
    /// What is the matter.
    pub kind: WarningKind,
}

/// What is the matter with a line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WarningKind {
    /// It sets nothing, as `key=value` without spaces.
    SetsNothing {
        /// The line.
        text: String,
    },
    /// There is no such key.
    UnknownKey {
        /// What was given.
        key: String,
        /// The key that is nearest.
        nearest: String,
    },
    /// Releases of the reference had or have it in their files, and none reads it.
    NeverRead {
        /// The key.
        key: String,
    },
    /// The key exists, but under another scenario.
    WrongScenario {
        /// What was given.
        key: String,
        /// Where it would be read.
        read_under: &'static str,
    },
    /// The built-in table alone may set it.
    BuiltInOnly {
        /// The key.
        key: String,
    },
    /// No test looks for rows of this model.
    OtherModel {
        /// The key.
        key: String,
        /// The model that is looked for, or `*`.
        model: String,
    },
    /// The value reads as another number than it looks.
    ReadAs {
        /// The key.
        key: String,
        /// The value as it stands there.
        text: String,
        /// What the key makes of it.
        number: u64,
    },
    /// A flag that is neither 0 nor 1.
    Flag {
        /// The key.
        key: String,
        /// The value as it stands there.
        text: String,
        /// What the key makes of it.
        is_set: bool,
    },
    /// A mode that is none of 0 to 3; the mode stays as it was.
    UnknownMode {
        /// The key.
        key: String,
        /// The value as it stands there.
        text: String,
    },
    /// A later line sets the same key.
    Overwritten {
        /// The key.
        key: String,
        /// The later line.
        by: usize,
    },
    /// There are several values, of which the last counts.
    SeveralValues {
        /// The key.
        key: String,
        /// The value that counts.
        last: String,
    },
    /// It is not read because another setting is false.
    Needs {
        /// The key.
        key: String,
        /// The setting that must be true.
        flag: &'static str,
    },
}

impl ConfigWarning {
    /// Whether `dyno run` refuses the file for it: nobody writes such a line on purpose.
    #[must_use]
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
            WarningKind::UnknownKey { key, nearest } => {
                write!(f, "unknown key `{key}`; the nearest key is `{nearest}`")
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
    /// What is silently ignored or surprising, in the order of the lines.
    ///
    /// With the `model` of the test, rows of models that neither it nor the
    /// built-in table knows are named, too.
    #[must_use]
    pub fn lint(&self, conf_type: ConfType, model: Option<&str>) -> Vec<ConfigWarning> {
        let mut warnings = Vec::new();
        let mut warn = |line, kind| {
            warnings.push(ConfigWarning { source: self.source.clone(), line, kind });
        };
        for idle in &self.idle {
            warn(idle.line, WarningKind::SetsNothing { text: idle.text.clone() });
        }
        for (at, entry) in self.entries.iter().enumerate() {
            let key = || entry.key.clone();
            if let Some(later) = self.entries[at + 1..].iter().find(|e| e.key == entry.key) {
                warn(entry.line, WarningKind::Overwritten { key: key(), by: later.line });
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

/// The model and the key of a row, or why nothing ever reads it.
fn find(row: &str) -> Result<(&str, &'static Key), WarningKind> {
    // Model names have dots (`wan-2.2-t2v-a14b`), scenarios and names have none.
    let mut parts = row.rsplitn(3, '.');
    let name = parts.next().unwrap_or_default();
    let word = parts.next().unwrap_or("*");
    let model = parts.next();
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
    let nearest = nearest_key(model.unwrap_or("*"), word, name);
    Err(WarningKind::UnknownKey { key: row.to_string(), nearest })
}

fn nearest_key(model: &str, word: &str, name: &str) -> String {
    let words = Scenario::ALL.iter().map(|s| s.name()).chain(["*"]);
    let word = nearest(word, words).unwrap_or("*");
    let name = nearest(name, KEYS.iter().map(|key| key.name)).unwrap_or("mode");
    let mut named = KEYS.iter().filter(|key| key.name == name);
    let fits = named.clone().any(|key| key.is_read_under(word));
    let scenario = named.find_map(|key| key.scenario).filter(|_| !fits);
    format!("{model}.{}.{name}", scenario.map_or(word, Scenario::name))
}

/// Why a row with a good key is not read by this test.
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

/// Whether the value reads otherwise than it looks.
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
