//! Problems of settings: what is wrong and what to change.

use std::fmt;

use super::resolve::INVALID_SETTINGS;
use crate::message::{Message, NOTE, Severity};
use crate::settings::{Origin, Settings};

/// Behavior of the drop-in for a [`SettingsProblem`]. The drop-in must accept what the reference
/// accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReferenceBehavior {
    /// Runs with the settings as they are.
    Runs,
    /// Runs with another value: the value that the reference uses, or a safe one if its behavior is
    /// undefined.
    Replaced {
        /// Value that is used, with its unit.
        by: String,
    },
    /// Does not run.
    Stops {
        /// Key of the error in the detail log.
        key: &'static str,
    },
}

/// A setting, or a combination of settings, that `dyno run` rejects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsProblem {
    /// Fields and their values. `library.total` and `library.performance` are the counts that the
    /// sample library reports.
    pub given: Vec<(&'static str, String)>,
    /// Accepted values.
    pub expected: String,
    /// Advice on what to change.
    pub change: String,
    /// Behavior of the drop-in.
    pub in_reference: ReferenceBehavior,
    /// Error in the reference's detail log, if the reference detects the problem.
    pub reference_text: Option<String>,
}

impl SettingsProblem {
    /// Returns whether the drop-in cannot run these settings either.
    #[must_use]
    pub fn stops(&self) -> bool {
        matches!(self.in_reference, ReferenceBehavior::Stops { .. })
    }

    /// Returns the entries in the detail log of the drop-in: the reference's error if it has one,
    /// and a note that states what to change. Notes are not counted, so that the log has as many
    /// errors and warnings as the reference's. Dyno reports an error if the reference would crash
    /// or hang.
    pub fn messages(&self) -> Vec<Message> {
        let error = |key, text| Message { at: 0, key, severity: Severity::Error, text };
        let ours = match &self.in_reference {
            ReferenceBehavior::Stops { key } => error(key, format!("{self}. The test is not run.")),
            ReferenceBehavior::Replaced { by } if self.reference_text.is_none() => {
                error(INVALID_SETTINGS, format!("{self}. Running with {by}."))
            }
            ReferenceBehavior::Runs | ReferenceBehavior::Replaced { .. } => {
                Message { at: 0, key: NOTE, severity: Severity::Info, text: format!("{self}.") }
            }
        };
        let theirs = self.reference_text.clone().map(|text| error(INVALID_SETTINGS, text));
        theirs.into_iter().chain([ours]).collect()
    }

    /// Describes the problem with the origin of each value, such as
    /// `` `server_target_qps` is 0 (user.conf:3) ``.
    pub fn describe(&self, settings: &Settings) -> String {
        let origin = |name: &str| settings.origin(name).filter(|o| **o != Origin::Default);
        self.sentence(|name| origin(name).map(ToString::to_string))
    }

    fn sentence(&self, origin: impl Fn(&str) -> Option<String>) -> String {
        let given: Vec<String> = self
            .given
            .iter()
            .map(|(name, value)| match origin(name) {
                Some(origin) => format!("`{name}` is {value} ({origin})"),
                None => format!("`{name}` is {value}"),
            })
            .collect();
        format!("{}: expected {}; {}", given.join(" and "), self.expected, self.change)
    }
}

impl fmt::Display for SettingsProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence(|_| None))
    }
}

/// All problems of a group of settings (at least one).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsErrors(pub Vec<SettingsProblem>);

impl SettingsErrors {
    /// Describes each problem on one line, with the origin of each value.
    pub fn describe(&self, settings: &Settings) -> String {
        let lines: Vec<String> = self.0.iter().map(|p| p.describe(settings)).collect();
        lines.join("\n")
    }
}

impl fmt::Display for SettingsErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SettingsErrors {}
