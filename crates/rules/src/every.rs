//! Reads `rounds/every_round.toml`: the rules that apply to several rounds.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;

use super::file::{PerScenario, parse_embedded, per_scenario, scenario, suite, version};
use super::{
    ArrivalPattern, Availability, Confidence, Confirmation, Division, NetworkRules, Requirements,
    RuleScenario, ScenarioRules, SystemFields, Version,
};

const TEXT: &str = include_str!("../rounds/every_round.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EveryRound {
    accuracy_patterns: Vec<Pattern>,
    system_fields: Vec<Fields>,
    measurement_files: Vec<Files>,
    result_keys: Vec<Keys>,
    scenarios: Vec<Scenarios>,
    offline_samples: Vec<OfflineSamples>,
    #[serde(deserialize_with = "confidence")]
    pub(super) confidence: Vec<Confidence>,
    divisions: Vec<Title>,
    availabilities: Vec<Title>,
    network: Vec<Network>,
    datacenter: Vec<Datacenter>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pattern {
    since: String,
    metric: String,
    pattern: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    since: String,
    #[serde(default)]
    required: Vec<String>,
    #[serde(default)]
    meaningful: Vec<String>,
    #[serde(default)]
    network: Vec<String>,
    #[serde(default)]
    power: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Files {
    since: String,
    required: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Keys {
    since: String,
    #[serde(flatten)]
    keys: PerScenario<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenarios {
    since: String,
    name: String,
    arrivals: String,
    percentile: Option<f64>,
    samples_per_query: Option<u64>,
    min_duration_ms: u64,
    runs: Option<u64>,
    confirmations: Option<ConfirmationEntry>,
    #[serde(default)]
    stops_early: bool,
    min_queries: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfirmationEntry {
    runs: u64,
    lower_by: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfflineSamples {
    since: String,
    samples: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Title {
    since: Option<String>,
    name: String,
    title: String,
    asks: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Network {
    since: String,
    permitted: Vec<String>,
    also_named: Vec<String>,
    forbidden: Vec<String>,
    forbidden_also_named: Vec<String>,
    name_of_system: String,
    suite: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Datacenter {
    since: String,
    asks: Vec<String>,
}

fn confidence<'de, D: serde::Deserializer<'de>>(reader: D) -> Result<Vec<Confidence>, D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Row {
        percentile: f64,
        margin: f64,
        queries: u64,
        rounded: u64,
    }
    let row = |Row { percentile, margin, queries, rounded }| Confidence {
        percentile,
        margin,
        queries,
        rounded,
    };
    Ok(Vec::deserialize(reader)?.into_iter().map(row).collect())
}

/// Returns the parsed file. It is compiled into the program, and tests parse it.
pub(super) fn rules() -> &'static EveryRound {
    static RULES: OnceLock<EveryRound> = OnceLock::new();
    RULES.get_or_init(|| parse_embedded(TEXT))
}

fn is_active(since: &str, round: Version) -> bool {
    version(since) <= round
}

impl EveryRound {
    pub(super) fn system_fields(&self, round: Version) -> SystemFields {
        let mut all = SystemFields::default();
        for fields in self.system_fields.iter().filter(|fields| is_active(&fields.since, round)) {
            all.required.extend(fields.required.clone());
            all.meaningful.extend(fields.meaningful.clone());
            all.network.extend(fields.network.clone());
            all.power.extend(fields.power.clone());
        }
        all
    }

    pub(super) fn measurement_files(&self, round: Version) -> Vec<String> {
        let files = self.measurement_files.iter().rfind(|files| is_active(&files.since, round));
        files.map(|files| files.required.clone()).unwrap_or_default()
    }

    pub(super) fn accuracy_patterns(&self, round: Version) -> BTreeMap<String, String> {
        let active =
            self.accuracy_patterns.iter().filter(|pattern| is_active(&pattern.since, round));
        active.map(|pattern| (pattern.metric.clone(), pattern.pattern.clone())).collect()
    }

    pub(super) fn result_keys(&self, round: Version) -> BTreeMap<RuleScenario, String> {
        let active = self.result_keys.iter().filter(|keys| is_active(&keys.since, round));
        active.flat_map(|keys| per_scenario(keys.keys.clone())).collect()
    }

    pub(super) fn scenarios(&self, round: Version) -> BTreeMap<RuleScenario, ScenarioRules> {
        let active = self.scenarios.iter().filter(|rules| is_active(&rules.since, round));
        active.map(|rules| (scenario(&rules.name), scenario_rules(rules))).collect()
    }

    pub(super) fn offline_samples(&self, round: Version) -> u64 {
        let active = self.offline_samples.iter().rfind(|rule| is_active(&rule.since, round));
        active.expect("the first holds from the first round on").samples
    }

    pub(super) fn divisions(&self, round: Version) -> BTreeMap<Division, Requirements> {
        let active = self.divisions.iter();
        let active = active.filter(|title| title.since.iter().all(|since| is_active(since, round)));
        let named = |name: &str| Division::named(name).expect("divisions of the rules read");
        active.map(|title| (named(&title.name), requirements(title))).collect()
    }

    pub(super) fn availabilities(&self) -> BTreeMap<Availability, Requirements> {
        let named = |name: &str| Availability::named(name).expect("availabilities read");
        self.availabilities.iter().map(|title| (named(&title.name), requirements(title))).collect()
    }

    pub(super) fn network(&self, round: Version) -> Option<NetworkRules> {
        let active = self.network.iter().rfind(|rules| is_active(&rules.since, round))?;
        Some(NetworkRules {
            permitted: active.permitted.clone(),
            also_named: active.also_named.clone(),
            forbidden: active.forbidden.clone(),
            forbidden_also_named: active.forbidden_also_named.clone(),
            name_of_system: active.name_of_system.clone(),
            suite: suite(&active.suite),
        })
    }

    pub(super) fn datacenter(&self, round: Version) -> Vec<String> {
        let active = self.datacenter.iter().filter(|rules| is_active(&rules.since, round));
        active.flat_map(|rules| rules.asks.clone()).collect()
    }
}

fn scenario_rules(rules: &Scenarios) -> ScenarioRules {
    let mut named = ArrivalPattern::NAMES.into_iter().filter(|(name, _)| *name == rules.arrivals);
    let (_, arrivals) = named.next().expect("arrivals of the rules read");
    ScenarioRules {
        arrivals,
        percentile: rules.percentile,
        samples_per_query: rules.samples_per_query,
        min_duration_ms: rules.min_duration_ms,
        runs: rules.runs.unwrap_or(1),
        confirmation: rules.confirmations.as_ref().map(|confirmations| Confirmation {
            runs: confirmations.runs,
            lower_by: confirmations.lower_by.clone(),
        }),
        stops_early: rules.stops_early,
        min_queries: rules.min_queries,
    }
}

fn requirements(title: &Title) -> Requirements {
    Requirements { title: title.title.clone(), items: title.asks.clone() }
}
