//! Keys that every detail log of a run has, and the types of their values: a log without
//! one of them, or with a text for a number, was put together, and what follows from the
//! key cannot be checked.

use std::path::Path;

use crate::check::catalogue::{ACCURACY_KEY, LOG_KEY_UNKNOWN, RUN_KEY};
use crate::check::issues::{At, Issues};
use crate::facts::detail::DetailLog;
use crate::facts::keys::{Certainty, Run, asked};
use dyno_rules::{Round, Scenario};

use super::logs::Purpose;

/// Of a value of the wrong type, this many characters are shown.
const SHOWN: usize = 60;

/// Says which keys are missing, in one finding for those that must be there, and in one
/// for those that may have to; and of each key that is there, whether its value can be
/// one of it.
pub(super) fn check(
    log: &DetailLog,
    path: &Path,
    purpose: Purpose,
    round: &Round,
    issues: &mut Issues,
) {
    // A log that does not read is missing everything.
    if !log.begins_with_marker || log.broken(false).is_some() {
        return;
    }
    let (run, check) = match purpose {
        Purpose::Accuracy => (Run::Accuracy, &ACCURACY_KEY),
        Purpose::Performance => {
            let played = log.text("effective_scenario").and_then(Scenario::named);
            let has_tokens = log.flag("requested_use_token_latencies") == Some(true);
            (Run::Performance { played, has_tokens }, &RUN_KEY)
        }
    };
    for (key, is, held) in log.mistyped() {
        let found: String = held.value.to_string().chars().take(SHOWN).collect();
        let at = At::path(path).line(Some(held.line));
        issues.add_expected(check, at, format!("`{key}` is {found}"), is.name());
    }
    let missing = |wanted: Certainty| {
        let keys = asked(round.version, run).filter(|(_, certainty)| *certainty == wanted);
        let missing = keys.filter(|(key, _)| log.value(key).is_none());
        missing.map(|(key, _)| format!("`{key}`")).collect::<Vec<_>>().join(", ")
    };
    let (known, unknown) = (missing(Certainty::Known), missing(Certainty::Unknown));
    if !known.is_empty() {
        issues.add(check, At::path(path), format!("the log has no {known}"));
    }
    if !unknown.is_empty() {
        let message = format!(
            "the log has no {unknown}; whether every LoadGen of {} wrote that is not known",
            round.version
        );
        issues.add(&LOG_KEY_UNKNOWN, At::path(path), message);
    }
}
