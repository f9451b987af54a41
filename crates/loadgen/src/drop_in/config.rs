//! `FromConfig`, with the reference's return codes and messages.

use std::path::Path;
use std::sync::atomic::Ordering;

use super::{LoadGen, error, lock};
use crate::config::{Conf, ConfType, ConfigEffect, ConfigError, WarningKind};
use crate::message::Message;
use crate::settings::{Settings, TestSettings};

/// Key of the reference's log for configuration files.
pub(super) const INVALID_CONFIG: &str = "error_invalid_config";

/// All keys of the file apply.
const OK: i32 = 0;
/// The file cannot be read (`-ENOENT`).
const UNREADABLE: i32 = -2;
/// A line breaks the grammar; no key of the file applies (`-EINVAL`).
const BAD_LINES: i32 = -22;

impl LoadGen {
    /// Applies a configuration file for a model and a scenario (a word to look up; it does not set
    /// the scenario).
    ///
    /// `conf_type` 1 is the user's file: the first such call in a process applies the built-in
    /// table before it; later calls do not, and are an error in the detail log of the next test. 0
    /// is only the built-in table (`path` is ignored), and 2 is the file of an audit; other values
    /// read the file as the user's.
    ///
    /// Returns 0, -22 if a line breaks the grammar, or -2 if the file cannot be read. The detail
    /// log of the next test has the details. Source: SPEC section 2.4.
    pub fn from_config(
        &self,
        settings: &mut TestSettings,
        path: &Path,
        model: &str,
        scenario: &str,
        conf_type: i32,
    ) -> i32 {
        let mut sourced = Settings::from(settings.clone());
        let mut messages = Vec::new();
        let mut apply = |conf: &Conf, conf_type| {
            let applied = conf.apply(&mut sourced, model, scenario, conf_type);
            messages.extend(invalid_modes(&applied));
        };
        let is_user = conf_type == 1;
        let earlier = if is_user { self.user_configs.fetch_add(1, Ordering::Relaxed) } else { 0 };
        if conf_type == 0 || (is_user && earlier == 0) {
            apply(&Conf::built_in(), ConfType::BuiltIn);
        }
        let file = (conf_type != 0).then(|| Conf::load(path));
        let code = match file {
            None => OK,
            Some(Ok(conf)) => {
                let conf_type = if conf_type == 2 { ConfType::Audit } else { ConfType::User };
                apply(&conf, conf_type);
                OK
            }
            Some(Err(problem)) => {
                messages.extend(bad_lines(&problem));
                if matches!(problem, ConfigError::Unreadable { .. }) {
                    UNREADABLE
                } else {
                    BAD_LINES
                }
            }
        };
        *settings = sourced.values;
        let mut pending = lock(&self.pending);
        if earlier > 0 {
            let text = "Multiple conf files are used. This is not valid for official submission.";
            pending.push(error(INVALID_CONFIG, text.into()));
        }
        pending.append(&mut messages);
        code
    }
}

/// Returns the reference's messages on a file that cannot be used.
pub(super) fn bad_lines(problem: &ConfigError) -> Vec<Message> {
    let texts = match problem {
        ConfigError::Unreadable { path, .. } => {
            vec![format!("can't open file {}", path.display())]
        }
        ConfigError::BadLines { lines, .. } => lines
            .iter()
            .map(|bad| {
                let expected = if bad.in_value {
                    "value needs to be integer or double"
                } else {
                    "expected 'key=value'"
                };
                format!("{expected}, line={}", bad.line)
            })
            .collect(),
        ConfigError::Refused(_) => vec![problem.to_string()],
    };
    texts.into_iter().map(|text| error(INVALID_CONFIG, text)).collect()
}

/// Returns the reference's messages on rows that it reports as errors.
pub(super) fn invalid_modes(applied: &ConfigEffect) -> impl Iterator<Item = Message> {
    let is_mode = |kind: &WarningKind| matches!(kind, WarningKind::UnknownMode { .. });
    let modes = applied.warnings.iter().filter(|warning| is_mode(&warning.kind)).count();
    let text = "Invalid value passed to Mode key in config.";
    (0..modes).map(|_| error(INVALID_CONFIG, text.into()))
}
