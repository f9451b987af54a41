//! Profiles: sets of settings under a name, below whatever is said explicitly.

use dyno_loadgen::settings::{Origin, Scenario, Settings};

/// A set of settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// A look at a system in seconds. Durations are below the rules'.
    Quick,
    /// What the rules ask for, as far as the built-in table knows it.
    Rules,
}

type Row = (Option<Scenario>, &'static str, &'static str);

/// Five seconds a test; counts stay as the built-in table has them, because
/// percentiles need them. The latency bound is one that an idle engine on a busy
/// machine keeps, since nothing is known of the system.
const QUICK: &[Row] = &[
    (None, "min_duration_ms", "5000"),
    (None, "continue_trace", "true"),
    (Some(Scenario::Server), "server_target_latency_ns", "50000000"),
];

const RULES: &[Row] = &[(None, "continue_trace", "true")];

impl Profile {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Rules => "rules",
        }
    }

    /// Reads a name.
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

    /// Sets what the profile says of a scenario. A model of the built-in table
    /// keeps its latency bounds and counts.
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

    /// What a reader of its results must know.
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
