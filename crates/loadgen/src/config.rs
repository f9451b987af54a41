//! LoadGen's `.conf` files: their grammar, the built-in table, and their effect on the settings.
//!
//! A key is `model.scenario.name`; `*` stands for every model and every
//! scenario. Quirks of the reference are kept, so that a file has the same meaning. [`Conf::lint`]
//! warns about lines with surprising effects. Source: SPEC sections 2.4 and 2.5.
//!
//! ```
//! use std::path::Path;
//!
//! use dyno_loadgen::config::{Conf, ConfType};
//! use dyno_loadgen::settings::Settings;
//!
//! let conf = Conf::parse("*.Server.target_qps = 250\n", Path::new("user.conf")).unwrap();
//! let mut settings = Settings::default();
//! let effect = conf.apply(&mut settings, "resnet50", "Server", ConfType::User);
//! assert_eq!(settings.values.server_target_qps, 250.0);
//! assert_eq!(effect.changes[0].to_string(), "user.conf:1: server_target_qps 1 -> 250");
//! ```

use std::collections::HashSet;
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

/// Type of a configuration, which determines the keys that it may set. Only the built-in table sets
/// seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfType {
    /// Built-in table (`mlperf.conf`; 0 in the reference).
    BuiltIn,
    /// File of the submitter (`user.conf`; 1).
    User,
    /// File of an audit (`audit.config`; 2).
    Audit,
}

/// Source of a configuration.
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

/// A parsed configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conf {
    source: Source,
    entries: Vec<Entry>,
    idle: Vec<IdleLine>,
}

/// Error of a file that cannot be used. None of its keys applies.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be opened or read.
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Message of the operating system.
        reason: String,
    },
    /// The file has lines that break the grammar.
    BadLines {
        /// Path of the file.
        path: PathBuf,
        /// All such lines.
        lines: Vec<BadLine>,
    },
    /// The file has lines that the reference ignores and `dyno run` rejects.
    Refused(Vec<ConfigWarning>),
}

/// Maximum number of lines that the message of a [`ConfigError`] shows.
const MOST_SHOWN: usize = 20;

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut shown, all): (Vec<String>, usize) = match self {
            Self::Unreadable { path, reason } => {
                (vec![format!("cannot read {}: {reason}", path.display())], 1)
            }
            Self::BadLines { path, lines } => {
                let path = path.display();
                let line = |bad: &BadLine| {
                    format!("{path}:{}: `{}`: expected {}", bad.line, bad.text, bad.expected)
                };
                (lines.iter().take(MOST_SHOWN).map(line).collect(), lines.len())
            }
            Self::Refused(warnings) => (
                warnings.iter().take(MOST_SHOWN).map(ToString::to_string).collect(),
                warnings.len(),
            ),
        };
        if all > shown.len() {
            shown.push("further problems are not listed".to_string());
        }
        f.write_str(&shown.join("\n"))
    }
}

impl std::error::Error for ConfigError {}

/// Effect of [`Conf::apply`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConfigEffect {
    /// Fields whose values changed.
    pub changes: Vec<Change>,
    /// Warnings about rows that matched without changing a field.
    pub warnings: Vec<ConfigWarning>,
}

impl Conf {
    /// Returns the built-in table.
    pub fn built_in() -> Self {
        Self { source: Source::BuiltIn, entries: built_in::entries(), idle: Vec::new() }
    }

    /// Reads and parses a file.
    ///
    /// # Errors
    /// [`ConfigError::Unreadable`], or the errors of [`Conf::parse`].
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let unreadable = |error: std::io::Error| ConfigError::Unreadable {
            path: path.to_path_buf(),
            reason: error.to_string(),
        };
        let bytes = std::fs::read(path).map_err(unreadable)?;
        Self::parse(&String::from_utf8_lossy(&bytes), path)
    }

    /// Parses the text of a file; the path is used in messages and origins.
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

    /// Rejects lines that the reference ignores and that are always mistakes: unknown keys and
    /// `key=value` without spaces.
    ///
    /// # Errors
    /// [`ConfigError::Refused`] names every such line and the nearest key.
    pub fn refuse_ignored(&self) -> Result<(), ConfigError> {
        let warnings = self.lint(ConfType::User, None).into_iter();
        let refused: Vec<_> = warnings.filter(ConfigWarning::is_refused).collect();
        if refused.is_empty() { Ok(()) } else { Err(ConfigError::Refused(refused)) }
    }

    /// Returns the models that rows name, in order, each once; `*` is every model.
    pub fn models(&self) -> Vec<&str> {
        let mut seen = HashSet::new();
        let models = self.entries.iter().filter_map(|entry| grammar::parts(&entry.key).0);
        models.filter(|model| seen.insert(*model)).collect()
    }

    /// Returns whether a row names this model.
    pub fn has_rows_of(&self, model: &str) -> bool {
        self.entries.iter().any(|entry| grammar::parts(&entry.key).0 == Some(model))
    }

    /// Sets every field that a row for this model and scenario sets.
    ///
    /// `scenario` is the word to look up (such as `Server`); it does not set the scenario of the
    /// test. Keys that belong to one scenario are always looked up under that scenario.
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

    /// Applies the file of an audit: rows for the model `*` and the scenario of the settings. Rows
    /// of other models never match, and seeds cannot be changed.
    pub fn apply_audit(&self, settings: &mut Settings) -> ConfigEffect {
        let scenario = settings.values.scenario.name();
        self.apply(settings, "*", scenario, ConfType::Audit)
    }

    /// Returns the last row of the best match: a row of a scenario precedes one of a model.
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

/// Applies the built-in table if `built_in` is set, then each file in order, like calls of
/// `FromConfig` of the reference.
///
/// # Errors
/// The first file that cannot be used; configurations before it stay applied.
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
