//! Profiles: named sets of settings, which explicit settings override.

use dyno_loadgen::settings::{Origin, Scenario, Settings};

/// A named set of settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// A quick measurement in seconds. Durations are shorter than in the rules.
    Quick,
    /// Settings of the rules, as far as the built-in table has them.
    Rules,
}

type Row = (Option<Scenario>, &'static str, &'static str);

/// Five seconds per test. Counts stay as in the built-in table, because percentiles need them. An
/// idle engine on a busy machine meets the latency bound, because nothing is known of the system.
const QUICK: &[Row] = &[
    (None, "min_duration_ms", "5000"),
    (None, "continue_trace", "true"),
    (Some(Scenario::Server), "server_target_latency_ns", "50000000"),
];

const RULES: &[Row] = &[(None, "continue_trace", "true")];

impl Profile {
    /// Returns the name of the profile.
    pub fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Rules => "rules",
        }
    }

    /// Parses the name of a profile.
    ///
    /// # Errors
    /// A sentence fragment that begins with "expected".
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "quick" => Ok(Self::Quick),
            "rules" => Ok(Self::Rules),
            _ => Err(format!("expected quick or rules, found `{text}`")),
        }
    }

    /// Applies the profile to the settings of a scenario. A model of the built-in table keeps its
    /// latency bounds and counts.
    pub fn apply(self, settings: &mut Settings, scenario: Scenario, is_known_model: bool) {
        let (rows, origin) = match self {
            Self::Quick => (QUICK, "profile quick"),
            Self::Rules => (RULES, "profile rules"),
        };
        for &(only, key, value) in rows {
            let is_meant = only.is_none_or(|only| only == scenario);
            let is_of_table = is_known_model && key == "server_target_latency_ns";
            if is_meant && !is_of_table {
                let set = settings.set(key, value, Origin::Code(origin));
                set.expect("profiles hold values of known settings");
            }
        }
    }

    /// Returns a remark for readers of results.
    pub fn remark(self) -> Option<&'static str> {
        match self {
            Self::Quick => Some(
                "Profile quick: tests are shorter than the 600 s of the rules; use --profile rules \
                 for runs of that length.",
            ),
            Self::Rules => None,
        }
    }
}
