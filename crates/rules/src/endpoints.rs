//! Reads `rounds/endpoints.toml`: the rules for results that were measured on an endpoint.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;

use super::file::{PerScenario, parse_embedded, per_scenario, version};
use super::{RuleScenario, Version};

const TEXT: &str = include_str!("../rounds/endpoints.toml");

/// Rules of a round for results that were measured on an endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Endpoints {
    /// Official names of the models that may be measured on an endpoint.
    pub models: Vec<String>,
    /// Location in the client's files of each value that LoadGen would log.
    pub facts: Vec<EndpointFact>,
    /// Key of the result in the client's JSON, by scenario.
    pub result_keys: BTreeMap<RuleScenario, String>,
    /// Name of the test inside `audit/audit_NAME.json`, by audit.
    pub audits: BTreeMap<String, String>,
    /// Minimum and maximum mean number of output tokens in TEST09.
    pub output_tokens: (f64, f64),
}

/// Location in the client's files of one value that LoadGen would log. Paths are separated by
/// dots.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndpointFact {
    /// Key in LoadGen's log.
    pub key: String,
    /// Path that is searched in the client's JSON, then in its configuration.
    pub path: String,
    /// Alternative path in the JSON.
    #[serde(rename = "or")]
    pub other: Option<String>,
    /// Path in the configuration that takes precedence over `path`.
    pub config: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    since: String,
    models: Vec<String>,
    output_tokens: Tokens,
    result_keys: PerScenario<String>,
    audits: BTreeMap<String, String>,
    fact: Vec<EndpointFact>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tokens {
    least: f64,
    most: f64,
}

/// Returns the rules of a round. Rounds before v6.1 have none.
pub(super) fn endpoints_of(round: Version) -> Option<&'static Endpoints> {
    static ENDPOINTS: OnceLock<(Version, Endpoints)> = OnceLock::new();
    let (since, endpoints) = ENDPOINTS.get_or_init(|| {
        let file: File = parse_embedded(TEXT);
        let endpoints = Endpoints {
            models: file.models,
            facts: file.fact,
            result_keys: per_scenario(file.result_keys),
            audits: file.audits,
            output_tokens: (file.output_tokens.least, file.output_tokens.most),
        };
        (version(&file.since), endpoints)
    });
    (round >= *since).then_some(endpoints)
}
