//! LoadGen's `.conf` files: the grammar, the built-in table, and what they do
//! to the settings.
//!
//! A key is `model.scenario.name`; `*` stands for every model and every
//! scenario. Quirks of the reference are kept, so that a file means what it
//! means there; [`Conf::lint`] names those that bite. Source: SPEC sections 2.4
//! and 2.5.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::settings::{Change, Origin, Settings};

mod built_in;
mod grammar;
mod keys;
mod lint;
mod number;
#[cfg(test)]
mod tests;

pub use built_in::built_in_models;
pub use grammar::BadLine;
pub use lint::{ConfigWarning, WarningKind};

use grammar::{Entry, IdleLine};
use keys::KEYS;

/// What a configuration may set. Seeds come from the built-in table alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfType {
    /// The built-in table (`mlperf.conf`; 0 in the reference).
    BuiltIn,
    /// The submitter's file (`user.conf`; 1).
    User,
    /// An audit's file (`audit.config`; 2).
    Audit,
}

/// Where a configuration comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The built-in table.
    BuiltIn,
    /// A file.
    File(PathBuf),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built-in table"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A configuration that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conf {
    source: Source,
    entries: Vec<Entry>,
    idle: Vec<IdleLine>,
}

/// A file that cannot be used. None of its keys applies.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// It cannot be opened or read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        reason: String,
    },
    /// It has lines that break the grammar.
    BadLines {
        /// The file.
        path: PathBuf,
        /// All of them.
        lines: Vec<BadLine>,
    },
    /// It has lines that the reference ignores and `dyno run` refuses.
    Refused(Vec<ConfigWarning>),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = match self {
            Self::Unreadable { path, reason } => {
                vec![format!("cannot read {}: {reason}", path.display())]
            }
            Self::BadLines { path, lines } => {
                let path = path.display();
                let line = |bad: &BadLine| {
                    format!("{path}:{}: `{}`: expected {}", bad.line, bad.text, bad.expected)
                };
                lines.iter().map(line).collect()
            }
            Self::Refused(warnings) => warnings.iter().map(ToString::to_string).collect(),
        };
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for ConfigError {}

/// What [`Conf::apply`] did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConfigEffect {
    /// The fields that have another value now.
    pub changes: Vec<Change>,
    /// The rows that matched and yet changed nothing.
    pub warnings: Vec<ConfigWarning>,
}

impl Conf {
    /// The built-in table.
    #[must_use]
    pub fn built_in() -> Self {
        Self { source: Source::BuiltIn, entries: built_in::entries(), idle: Vec::new() }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`ConfigError::Unreadable`], or what [`Conf::parse`] says.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let unreadable = |error: std::io::Error| ConfigError::Unreadable {
            path: path.to_path_buf(),
            reason: error.to_string(),
        };
        let bytes = std::fs::read(path).map_err(unreadable)?;
        Self::parse(&String::from_utf8_lossy(&bytes), path)
    }

    /// Reads the text of a file; the path is for messages and origins.
    ///
    /// # Errors
    /// [`ConfigError::BadLines`] names every line that breaks the grammar.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let lines = grammar::read(text);
        let path = path.to_path_buf();
        if !lines.bad.is_empty() {
            return Err(ConfigError::BadLines { path, lines: lines.bad });
        }
        Ok(Self { source: Source::File(path), entries: lines.entries, idle: lines.idle })
    }

    /// Refuses what the reference ignores and nobody writes on purpose: unknown
    /// keys and `key=value` without spaces.
    ///
    /// # Errors
    /// [`ConfigError::Refused`] names every such line and the nearest key.
    pub fn refuse_ignored(&self) -> Result<(), ConfigError> {
        let warnings = self.lint(ConfType::User, None).into_iter();
        let refused: Vec<_> = warnings.filter(ConfigWarning::is_refused).collect();
        if refused.is_empty() { Ok(()) } else { Err(ConfigError::Refused(refused)) }
    }

    /// Returns whether a row names this model.
    #[must_use]
    pub fn has_rows_of(&self, model: &str) -> bool {
        self.entries.iter().any(|entry| entry.key.split('.').next() == Some(model))
    }

    /// Sets every field that a row for this model and scenario sets.
    ///
    /// `scenario` is a word to look up (`Server`); it does not set the scenario
    /// of the test. Keys that belong to one scenario are looked up under it
    /// whatever the word is.
    pub fn apply(
        &self,
        settings: &mut Settings,
        model: &str,
        scenario: &str,
        conf_type: ConfType,
    ) -> ConfigEffect {
        let before = settings.clone();
        let mut warnings = Vec::new();
        for key in KEYS.iter().filter(|key| key.is_read_from(conf_type)) {
            let word = key.scenario.map_or(scenario, |scenario| scenario.name());
            let Some(entry) = self.look_up(model, word, key.name) else { continue };
            let mut warn = |kind| {
                let source = self.source.clone();
                warnings.push(ConfigWarning { source, line: entry.line, kind });
            };
            if let Some(flag) = key.needs.filter(|flag| !(flag.is_set)(&settings.values)) {
                warn(WarningKind::Needs { key: entry.key.clone(), flag: flag.name });
            } else if key.set(&mut settings.values, &entry.value) {
                settings.record(key.field, self.origin(entry));
            } else {
                let (key, text) = (entry.key.clone(), entry.value.clone());
                warn(WarningKind::UnknownMode { key, text });
            }
        }
        ConfigEffect { changes: settings.changes_since(&before), warnings }
    }

    /// Applies an audit's file: rows for the model `*` and the scenario of the
    /// settings. Rows of a model never match, and seeds cannot be changed.
    pub fn apply_audit(&self, settings: &mut Settings) -> ConfigEffect {
        let scenario = settings.values.scenario.name();
        self.apply(settings, "*", scenario, ConfType::Audit)
    }

    /// The last row of the best match: a scenario's row beats a model's.
    fn look_up(&self, model: &str, scenario: &str, name: &str) -> Option<&Entry> {
        let rows = [(model, scenario), ("*", scenario), (model, "*"), ("*", "*")];
        rows.into_iter().find_map(|(model, scenario)| {
            let key = format!("{model}.{scenario}.{name}");
            self.entries.iter().rfind(|entry| entry.key == key)
        })
    }

    fn origin(&self, entry: &Entry) -> Origin {
        match &self.source {
            Source::BuiltIn => Origin::BuiltIn { key: entry.key.clone() },
            Source::File(path) => Origin::File { path: path.clone(), line: entry.line },
        }
    }
}

/// What `FromConfig` of the reference does in one call or several: the built-in
/// table if asked for, then each file in order.
///
/// # Errors
/// The first file that cannot be used; what was applied before it stays.
pub fn from_files(
    settings: &mut Settings,
    model: &str,
    scenario: &str,
    built_in: bool,
    files: &[(&Path, ConfType)],
) -> Result<ConfigEffect, ConfigError> {
    let mut all = ConfigEffect::default();
    let mut add = |applied: ConfigEffect| {
        all.changes.extend(applied.changes);
        all.warnings.extend(applied.warnings);
    };
    if built_in {
        add(Conf::built_in().apply(settings, model, scenario, ConfType::BuiltIn));
    }
    for (path, conf_type) in files {
        add(Conf::load(path)?.apply(settings, model, scenario, *conf_type));
    }
    Ok(all)
}
