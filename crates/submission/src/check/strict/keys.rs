//! Checks that a detail log has all keys of its run with values of the right types. A log
//! without one of them was edited, and values that follow from the key cannot be checked.

use std::path::Path;

use crate::check::catalogue::{ACCURACY_KEY, LOG_KEY, LOG_KEY_UNKNOWN, RUN_CLOCK};
use crate::check::issues::{Issues, Location};
use crate::facts::detail::DetailLog;
use crate::facts::keys::{Certainty, RunKind, required_keys};
use crate::facts::loadgen;
use dyno_rules::{Round, RuleScenario};
use serde_json::Value;

use super::logs::Purpose;

/// Maximum number of characters shown of a value with the wrong type.
const SHOWN: usize = 60;

/// Reports required keys that are missing, in one finding for certain ones and in one for
/// possible ones. Reports values with the wrong type.
pub(super) fn check(
    log: &DetailLog,
    path: &Path,
    purpose: Purpose,
    round: &Round,
    issues: &mut Issues,
) {
    // A malformed log would lack all keys.
    if !log.begins_with_marker || log.broken(false).is_some() {
        return;
    }
    let (run, check) = match purpose {
        Purpose::Accuracy => (RunKind::Accuracy, &ACCURACY_KEY),
        Purpose::Performance => {
            let played = log.text("effective_scenario").and_then(RuleScenario::named);
            let has_tokens = log.flag("requested_use_token_latencies") == Some(true);
            (RunKind::Performance { played, has_tokens }, &LOG_KEY)
        }
    };
    for (key, value_type, entry) in log.mistyped() {
        let found: String = entry.value.to_string().chars().take(SHOWN).collect();
        let at = Location::path(path).line(Some(entry.line));
        if is_before_its_begin(key, &entry.value) {
            let message = format!("{key} is {found}: the clock was set back during the run");
            issues.add_expected(&RUN_CLOCK, at, message, "a clock that is not set during the run");
            continue;
        }
        issues.add_expected(check, at, format!("`{key}` is {found}"), value_type.name());
    }
    let version = loadgen::version_of(log, round.version);
    let patch = loadgen::patch_of(log, round.version);
    let missing = |wanted: Certainty| {
        let keys = required_keys(version, patch, run).filter(|(_, certainty)| *certainty == wanted);
        let missing = keys.filter(|(key, _)| log.value(key).is_none());
        missing.map(|(key, _)| format!("`{key}`")).collect::<Vec<_>>().join(", ")
    };
    let (known, unknown) = (missing(Certainty::Known), missing(Certainty::Unknown));
    if !known.is_empty() {
        issues.add(check, Location::path(path), format!("the log has no {known}"));
    }
    if !unknown.is_empty() {
        let message = format!(
            "the log has no {unknown}; it is not known whether every LoadGen {version} wrote it"
        );
        issues.add(&LOG_KEY_UNKNOWN, Location::path(path), message);
    }
}

/// Whether a latency is negative. LoadGen measures latencies with a clock that can be set: each then
/// ends before it began.
fn is_before_its_begin(key: &str, value: &Value) -> bool {
    key.ends_with("_latency_ns") && value.as_i64().is_some_and(i64::is_negative)
}
