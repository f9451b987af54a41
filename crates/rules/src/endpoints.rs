//! `rounds/endpoints.toml`: results that were measured on an endpoint.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;

use super::file::{PerScenario, per_scenario, version};
use super::{Scenario, Version};

const TEXT: &str = include_str!("../rounds/endpoints.toml");

/// What a round takes of results that were measured on an endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Endpoints {
    /// Models that may be measured so, by their official names.
    pub models: Vec<String>,
    /// Where the client says what LoadGen's log has.
    pub facts: Vec<EndpointFact>,
    /// Keys of the results.
    pub result_keys: BTreeMap<Scenario, String>,
    /// By audit, the name of what `audit/audit_NAME.json` holds.
    pub audits: BTreeMap<String, String>,
    /// Least and greatest mean number of output tokens by TEST09.
    pub output_tokens: (f64, f64),
}

/// Where the client says what a key of LoadGen's log has. Paths have dots.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndpointFact {
    /// Key of the log.
    pub key: String,
    /// Path in the client's JSON, then in its configuration.
    pub path: String,
    /// Another path in the JSON.
    #[serde(rename = "or")]
    pub other: Option<String>,
    /// The path in the configuration that goes before.
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

/// Those of a round; rounds before have none.
pub(super) fn of(round: Version) -> Option<&'static Endpoints> {
    static READ: OnceLock<(Version, Endpoints)> = OnceLock::new();
    let (since, endpoints) = READ.get_or_init(|| {
        let file: File = toml::from_str(TEXT).expect("the rules are tested");
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
