//! The assignment of a value to a setting, with its origin.

use dyno_loadgen::clock::MILLISECOND;
use dyno_loadgen::settings::{FIELDS, Origin, Scenario, Settings, intended};
use dyno_results::units;

use super::keys;

/// Assigns `value` to the setting `key`, in one scenario or in all.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// Scenario that it is limited to; `None` is all.
    pub scenario: Option<Scenario>,
    /// Name of the setting.
    pub key: &'static str,
    /// Value in the spelling that the setting parses.
    pub value: String,
    /// Where it was set.
    pub origin: Origin,
}

/// An invalid assignment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {problem}")]
pub struct BadAssignment {
    /// Where it was found: a file with its line, a flag, or a variable.
    pub origin: Origin,
    /// The error and a remedy.
    pub problem: String,
}

impl Assignment {
    /// Checks key and value. Settings in ms and ns also accept units, such as `10s`.
    ///
    /// # Errors
    /// An unknown key, with the nearest one, or an invalid value.
    pub fn new(
        scenario: Option<Scenario>,
        key: &str,
        value: &str,
        origin: &Origin,
    ) -> Result<Self, BadAssignment> {
        let bad = |problem| BadAssignment { origin: origin.clone(), problem };
        let Some(field) = FIELDS.iter().find(|field| field.name == key) else {
            return Err(bad(match keys::find(key) {
                Ok(of_run) => not_a_setting(of_run.name),
                Err(_) => match intended(key, FIELDS.iter().map(|field| field.name)) {
                    Some(near) => format!("unknown key `{key}`; the nearest key is `{near}`"),
                    None => format!("unknown key `{key}`; dyno info settings lists the keys"),
                },
            }));
        };
        if matches!(key, "scenario" | "mode") {
            return Err(bad(not_a_setting(key)));
        }
        let value = in_unit(field.unit, value).map_err(|why| bad(format!("`{key}`: {why}")))?;
        let mut trial = Settings::default();
        match trial.set(key, &value, origin.clone()) {
            Ok(()) => Ok(Self { scenario, key: field.name, value, origin: origin.clone() }),
            Err(error) => Err(bad(error.to_string())),
        }
    }

    /// Parses `key=value` or `Scenario.key=value`.
    ///
    /// # Errors
    /// As [`Assignment::new`].
    pub fn parse(text: &str, origin: &Origin) -> Result<Self, BadAssignment> {
        let bad = |problem| BadAssignment { origin: origin.clone(), problem };
        let (key, value) = text
            .split_once('=')
            .ok_or_else(|| bad(format!("expected key=value, found `{text}`")))?;
        let (scenario, key) = match key.trim().split_once('.') {
            Some((name, key)) => (Some(keys::scenario(name).map_err(bad)?), key),
            None => (None, key.trim()),
        };
        Self::new(scenario, key, value.trim(), origin)
    }
}

/// Returns the message for a flag in the place of a setting.
fn not_a_setting(flag: &str) -> String {
    let key = flag.replace('-', "_");
    format!("`{key}` is not a setting; use --{flag}, or `{key}` under [run]")
}

/// Returns a value with a unit of time as the whole number of the setting; other values as they are.
fn in_unit(unit: &str, value: &str) -> Result<String, String> {
    match (unit, units::parse_duration(value)) {
        // All settings in ns are latencies.
        ("ns", Ok(_)) => units::parse_bound(value).map(|ns| ns.to_string()),
        ("ms", Ok(ns)) if ns % MILLISECOND != 0 => {
            Err(format!("expected a whole number of ms, found `{value}`"))
        }
        ("ms", Ok(ns)) => Ok((ns / MILLISECOND).to_string()),
        _ => Ok(value.to_owned()),
    }
}

/// Applies a layer's assignments for one scenario: first those for all scenarios, then those for
/// this one.
pub fn apply(layer: &[Assignment], settings: &mut Settings, scenario: Scenario) {
    for only in [None, Some(scenario)] {
        for assignment in layer.iter().filter(|a| a.scenario == only) {
            settings
                .set(assignment.key, &assignment.value, assignment.origin.clone())
                .expect("assignments are checked when they are made");
        }
    }
}
