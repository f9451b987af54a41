//! Profiles: named sets of settings, which explicit settings override.

use dyno_loadgen::settings::{Origin, Scenario, Settings};
#[cfg(doc)]
use dyno_results::summary::NO_BOUND;

use super::FailureRule;

dyno_loadgen::named_enum! {
    /// A named set of settings.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Profile {
        /// A quick measurement in seconds. Durations are shorter than in the rules.
        Quick = "quick",
        /// Settings of the rules, as far as the built-in table has them.
        Rules = "rules",
        /// A language model behind a server: half a minute under load. No bound of MLPerf is judged,
        /// and a run is VALID if its answers are whole and the client did not disturb it.
        Llm = "llm",
    }
}

type Row = (Option<Scenario>, &'static str, &'static str);

/// Five seconds per test. Counts stay as in the built-in table, because percentiles need them. An
/// idle engine on a busy machine meets the latency bound, because nothing is known of the system.
const QUICK: &[Row] = &[
    (None, "min_duration_ms", "5000"),
    (None, "continue_trace", "true"),
    (Some(Scenario::Server), "server_target_latency_ns", "50000000"),
];

/// [`NO_BOUND`] as a value of a setting.
const NO_BOUND_TEXT: &str = "1152921504606846976";

/// Half a minute, however few answers that brings. What the client's lag does to the latencies is judged
/// by the observers of the client; there is no bound that it could be a share of.
const LLM: &[Row] = &[
    (None, "min_duration_ms", "30000"),
    (None, "min_query_count", "1"),
    (None, "continue_trace", "true"),
    (None, "early_stopping", "never"),
    (Some(Scenario::Server), "server_target_latency_ns", NO_BOUND_TEXT),
    (Some(Scenario::Server), "server_ttft_latency", NO_BOUND_TEXT),
    (Some(Scenario::Server), "server_tpot_latency", NO_BOUND_TEXT),
    (Some(Scenario::Server), "max_client_lag_ns", "1000000000"),
];

const RULES: &[Row] = &[(None, "continue_trace", "true")];

impl Profile {
    /// Parses the name of a profile.
    ///
    /// # Errors
    /// A sentence fragment that begins with "expected".
    pub fn parse(text: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|profile| profile.name() == text);
        named.ok_or_else(|| {
            let expected = format!("expected quick, rules or llm, found `{text}`");
            match text {
                "sweep" | "throughput" => format!("{expected}; --sweep measures several loads"),
                "synchronous" | "concurrent" => {
                    format!("{expected}; --max-concurrency N sets the requests in flight")
                }
                "constant" | "poisson" | "async" => {
                    format!("{expected}; --request-rate RATE sets the rate of the requests")
                }
                _ => expected,
            }
        })
    }

    /// Applies the profile to the settings of a scenario. A model of the built-in table keeps its
    /// latency bounds and counts.
    pub fn apply(self, settings: &mut Settings, scenario: Scenario, is_known_model: bool) {
        let (rows, origin) = match self {
            Self::Quick => (QUICK, "profile quick"),
            Self::Rules => (RULES, "profile rules"),
            Self::Llm => (LLM, "profile llm"),
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

    /// Returns a remark for readers of results whose failed requests are judged by this rule.
    pub fn remark(self, failures: FailureRule) -> Option<&'static str> {
        match self {
            Self::Quick => Some(
                "Profile quick: tests are shorter than the 600 s of the rules; use --profile \
                 rules for full-length runs.",
            ),
            Self::Rules => None,
            Self::Llm => Some(match failures {
                FailureRule::None => {
                    "Profile llm has no MLPerf bounds: VALID means complete answers and an \
                     undisturbed client. Add your own limits with --require."
                }
                FailureRule::Requirement => {
                    "Profile llm has no MLPerf bounds: VALID means an undisturbed client, \
                     requirements that are met, and no more failed requests than --require allows."
                }
                FailureRule::Bound => {
                    "Profile llm has no MLPerf bounds: VALID means an undisturbed client. The \
                     limits of the search judge failed requests."
                }
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use dyno_results::summary::NO_BOUND;

    use super::*;

    #[test]
    fn profiles_of_guidellm_are_answered_with_flags() {
        for (text, flag) in [
            ("sweep", "--sweep"),
            ("concurrent", "--max-concurrency N"),
            ("poisson", "--request-rate RATE"),
        ] {
            let error = Profile::parse(text).unwrap_err();
            assert!(error.contains(&format!("found `{text}`; {flag}")), "{error}");
        }
        assert_eq!(
            Profile::parse("fast").unwrap_err(),
            "expected quick, rules or llm, found `fast`"
        );
    }

    #[test]
    fn valid_means_complete_answers_only_where_no_request_may_fail() {
        let remark = |failures| Profile::Llm.remark(failures).unwrap();
        assert!(remark(FailureRule::None).contains("VALID means complete answers"));
        for failures in [FailureRule::Requirement, FailureRule::Bound] {
            assert!(!remark(failures).contains("complete answers"));
        }
    }

    #[test]
    fn the_bound_of_no_bound_is_written_as_a_number() {
        assert_eq!(NO_BOUND_TEXT, NO_BOUND.to_string());
    }
}
