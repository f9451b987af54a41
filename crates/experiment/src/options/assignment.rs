//! One setting that somebody gave a value, and where.

use std::fmt;

use dyno_loadgen::clock::MILLISECOND;
use dyno_loadgen::settings::{FIELDS, Origin, Scenario, Settings, nearest_field};
use dyno_results::units;

use super::keys;

/// Sets `key` to `value`, in one scenario or in all.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// The only scenario it is meant for.
    pub scenario: Option<Scenario>,
    /// A field of the settings.
    pub key: &'static str,
    /// In the spelling that the field reads.
    pub value: String,
    /// Who said it.
    pub origin: Origin,
}

/// An assignment that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadAssignment {
    /// Where it stands: a file with its line, a flag, a variable.
    pub origin: Origin,
    /// What is wrong, and what to do.
    pub problem: String,
}

impl fmt::Display for BadAssignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.problem)
    }
}

impl Assignment {
    /// Checks key and value. Fields in ms and ns also read `10s` and the like.
    ///
    /// # Errors
    /// An unknown key with the nearest one, or a value that does not read.
    pub fn new(
        scenario: Option<Scenario>,
        key: &str,
        value: &str,
        origin: &Origin,
    ) -> Result<Self, BadAssignment> {
        let bad = |problem| BadAssignment { origin: origin.clone(), problem };
        let Some(field) = FIELDS.iter().find(|field| field.name == key) else {
            let near = nearest_field(key);
            return Err(bad(format!("unknown key `{key}`; the nearest key is `{near}`")));
        };
        if let Some(instead) = match key {
            "scenario" => Some("scenario"),
            "mode" => Some("mode"),
            _ => None,
        } {
            let problem = format!(
                "`{key}` is not a setting of its own here; use --{instead}, or `{instead}` under [run]"
            );
            return Err(bad(problem));
        }
        let value = match field.unit {
            "ns" => units::parse_duration(value).ok().map(|ns| ns.to_string()),
            "ms" => units::parse_duration(value).ok().map(|ns| (ns / MILLISECOND).to_string()),
            _ => None,
        }
        .unwrap_or_else(|| value.to_string());
        let mut trial = Settings::default();
        match trial.set(key, &value, origin.clone()) {
            Ok(()) => Ok(Self { scenario, key: field.name, value, origin: origin.clone() }),
            Err(error) => Err(bad(error.to_string())),
        }
    }

    /// Reads `key=value` or `Scenario.key=value`.
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

/// Makes a layer's assignments for one scenario: first those for all scenarios,
/// then those for this one.
pub fn apply(layer: &[Assignment], settings: &mut Settings, scenario: Scenario) {
    for only in [None, Some(scenario)] {
        for assignment in layer.iter().filter(|a| a.scenario == only) {
            settings
                .set(assignment.key, &assignment.value, assignment.origin.clone())
                .expect("assignments are checked when they are made");
        }
    }
}
