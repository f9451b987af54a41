//! Compares every value of `shared/reference/rules/<round>.json`, the constants of the official
//! checkers, with ours. Intended differences are in [`INTENDED`]. Errors that v0.5 and v0.7
//! ignore (`ignore_errors`) are those of their own load generators, whose logs have no keys and
//! are not read.

use std::collections::BTreeMap;
use std::fmt::Debug;

use dyno_rules::{Availability, Benchmark, Division, Round, RuleScenario, Seeds, Suite};
use serde_json::Value;

/// Intended differences: round, value, reason.
const INTENDED: &[(&str, &str, &str)] = &[
    ("v0.5", "gnmt performance samples", "3,903,900 is more than the data set; the rules say 3003"),
    ("v0.5", "result key MultiStream", "the checker has streams under `MultiStreamLegacy`"),
    ("v0.7", "availabilities", "`on-premise` was a status of its own, beside available"),
    (
        "v4.0",
        "llama2-70b-99 result keys",
        "the checker's table of this tag has no rounds (v4.0:1383)",
    ),
    ("v4.0", "llama2-70b-99.9 result keys", "the checker's table of this tag has no rounds"),
    ("v0.5", "system fields required", "this round had the first list alone"),
    ("v0.5", "system fields meaningful", "a rule of v3.1"),
    ("v0.5", "system fields network", "a rule of v2.1"),
    ("v0.5", "system fields power", "a rule of v1.0"),
];

#[test]
fn every_value_of_the_official_checkers_is_ours_too() {
    let Some(rules) = crate::shared::find("reference/rules") else { return };
    let mut found = Vec::new();
    for name in Round::names() {
        let text = std::fs::read_to_string(rules.join(format!("{name}.json"))).unwrap();
        let json: Value = serde_json::from_str(&text).unwrap();
        let mut compared =
            Comparison { round: Round::named(name).unwrap(), json: &json, found: vec![] };
        compared.all();
        found.extend(compared.found.into_iter().map(|(what, how)| (name, what, how)));
    }
    let is_unintended = |(name, what, _): &&(&str, String, String)| {
        !INTENDED.iter().any(|(round, meant, _)| round == name && meant == what)
    };
    let unintended: Vec<_> = found.iter().filter(is_unintended).collect();
    assert!(unintended.is_empty(), "{unintended:#?}");
    for (round, what, _) in INTENDED {
        let is_there = found.iter().any(|(name, found, _)| name == round && found == what);
        assert!(is_there, "{round} {what} is the checker's value now");
    }
}

struct Comparison<'a> {
    round: &'static Round,
    json: &'a Value,
    found: Vec<(String, String)>,
}

impl Comparison<'_> {
    #[expect(clippy::needless_pass_by_value, reason = "most of what is compared is made for it")]
    fn same<T: PartialEq + Debug>(&mut self, what: impl Into<String>, json: T, ours: T) {
        if json != ours {
            self.found.push((what.into(), format!("{json:?} in the checker, {ours:?} here")));
        }
    }

    fn all(&mut self) {
        let (round, json) = (self.round, self.json);
        self.same("published", text(&json["published"]), round.published.clone());
        self.same("seeds", seeds(&json["seeds"]), Some(round.seeds));
        self.same("TEST05 seeds", seeds(&json["test05_seeds"]), round.test05_seeds);
        let names = json["model_mapping"].as_object().unwrap();
        let names: BTreeMap<_, _> = names.iter().map(|(k, v)| (k.clone(), text(v))).collect();
        self.same("names", names, round.names.clone());
        let models: Vec<_> = round.benchmarks.iter().map(|b| b.name.clone()).collect();
        self.same("models", texts(&json["models"]), models);
        for benchmark in &round.benchmarks {
            self.benchmark(benchmark);
        }
        self.globals();
    }

    fn benchmark(&mut self, ours: &Benchmark) {
        let (json, globals) = (self.json, &self.json["globals"]);
        let name = &ours.name;
        let of = |table: &str| &json[table][name];
        self.quality(ours);
        let delta = numbers(of("accuracy_delta_perc"));
        self.same(format!("{name} delta"), delta, ours.audit_accuracy_delta_percent.clone());
        let loaded = of("performance_sample_count").as_u64();
        self.same(format!("{name} performance samples"), loaded, ours.performance_samples);
        let size = of("dataset_size").as_u64();
        self.same(format!("{name} data set"), size, ours.dataset_samples);
        let scored = match of("accuracy_sample_count") {
            Value::Number(all) => BTreeMap::from([("all".to_string(), all.as_u64().unwrap())]),
            per_scenario => {
                counts(per_scenario).into_iter().map(|(s, n)| (s.name().to_string(), n)).collect()
            }
        };
        self.same(format!("{name} accuracy samples"), scored, ours.accuracy_samples.clone());
        if let Some(samples) = globals["offline_min_spq_since_v4"][name].as_u64() {
            // The checker also lists this for v0.5, whose minimum is the general one.
            if self.round.version.major >= 4 {
                self.same(format!("{name} Offline samples"), Some(samples), ours.offline_samples);
            }
        }
        // v0.5's checker compared no counts; its counts and bounds are from the rules.
        if self.json.get("min_queries").is_some() {
            let queries = counts(of("min_queries"));
            self.same(format!("{name} queries"), queries, ours.min_queries.clone());
            let bounds = counts(of("latency_constraint"));
            self.same(format!("{name} latency"), bounds, ours.latency.clone());
        }
        self.same(format!("{name} audits"), texts(of("compliance_tests")), ours.audits.clone());
        let keys = per_scenario(&globals["result_field_benchmark_overwrite"][name]);
        self.same(format!("{name} result keys"), keys, ours.result_keys.clone());
        let units = per_scenario(&globals["special_unit_dict"][name]);
        self.same(format!("{name} units"), units, ours.units.clone());
        let outputs = globals["required_acc_benchmark"][name].as_object();
        let outputs = outputs.into_iter().flatten().map(|(k, v)| (k.clone(), texts(v)));
        self.same(format!("{name} outputs"), outputs.collect(), ours.accuracy_outputs.clone());
        self.tokens(ours);
        for (suite, word) in [
            (Suite::Datacenter, "datacenter"),
            (Suite::Edge, "edge"),
            (Suite::Both, "datacenter_edge"),
        ] {
            let wanted = ours.suites.get(&suite).cloned().unwrap_or_default();
            let required = scenarios(of(&format!("required_scenarios_{word}")));
            self.same(format!("{name} {word} required"), required, wanted.required);
            let optional = scenarios(of(&format!("optional_scenarios_{word}")));
            self.same(format!("{name} {word} optional"), optional, wanted.optional);
        }
    }

    fn quality(&mut self, ours: &Benchmark) {
        let name = &ours.name;
        let rows = |list: &Value, scenario: Option<&str>| -> Vec<(String, f64, Option<String>)> {
            let rows = list.as_array().into_iter().flatten();
            let row = |row: &Value| {
                (text(&row["metric"]), row["value"].as_f64().unwrap(), scenario.map(str::to_string))
            };
            rows.map(row).collect()
        };
        let targets = match &self.json["accuracy_target"][name] {
            Value::Object(per_scenario) => per_scenario
                .iter()
                .flat_map(|(scenario, list)| rows(list, Some(scenario)))
                .collect(),
            list => rows(list, None),
        };
        let least = ours.accuracy.iter().filter_map(|t| {
            Some((t.metric.clone(), t.at_least?, t.scenario.map(|s| s.name().to_string())))
        });
        self.same(format!("{name} accuracy"), targets, least.collect());
        let limits = rows(&self.json["accuracy_upper_limit"][name], None);
        let most = ours.accuracy.iter().filter_map(|t| Some((t.metric.clone(), t.at_most?, None)));
        self.same(format!("{name} upper limits"), limits, most.collect());
    }

    fn tokens(&mut self, ours: &Benchmark) {
        let globals = &self.json["globals"];
        let limits = match &globals["llm_latency_limits"] {
            Value::Null if self.round.version.major == 4 && ours.name.starts_with("llama2") => {
                globals["llama2_latency_limits"]["conversational"].clone()
            }
            Value::Null => Value::Null,
            by_model => by_model[&ours.name].clone(),
        };
        let bounds = |b: &Value| Some((b["ttft"].as_u64()?, b["tpot"].as_u64()?));
        let expected: BTreeMap<RuleScenario, (u64, u64)> = match bounds(&limits) {
            Some(server) => BTreeMap::from([(RuleScenario::Server, server)]),
            None => limits
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, b)| (RuleScenario::named(name).unwrap(), bounds(b).unwrap()))
                .collect(),
        };
        let got = ours.token_latency.iter().map(|(s, b)| (*s, (b.ttft, b.tpot)));
        self.same(format!("{} tokens", ours.name), expected, got.collect());
    }

    fn globals(&mut self) {
        let (round, globals) = (self.round, &self.json["globals"]);
        let sorted = |mut texts: Vec<String>| {
            texts.sort();
            texts
        };
        let fields = &round.system_fields;
        let mut required = texts(&globals["system_desc_required_fields"]);
        required.extend(texts(&globals["system_desc_required_fields_since_v1"]));
        required.extend(texts(&globals["system_desc_required_fields_since_v3_1"]));
        for (what, json, ours) in [
            ("required", required, &fields.required),
            (
                "meaningful",
                texts(&globals["system_desc_meaningful_response_required_fields"]),
                &fields.meaningful,
            ),
            (
                "network",
                texts(&globals["system_desc_required_fields_network_mode"]),
                &fields.network,
            ),
            ("power", texts(&globals["system_desc_required_fields_power"]), &fields.power),
        ] {
            self.same(format!("system fields {what}"), sorted(json), sorted(ours.clone()));
        }
        let files = texts(&globals["required_measure_files"]);
        self.same("measurement files", files, round.measurement_files.clone());
        // Our patterns use another syntax; other tests check what they match.
        for (metric, _) in globals["acc_pattern"].as_object().unwrap() {
            let is_used = round.benchmarks.iter().flat_map(|b| &b.accuracy);
            if is_used.into_iter().any(|target| target.metric == *metric) {
                let is_ours = round.accuracy_patterns.contains_key(metric);
                self.same(format!("pattern {metric}"), true, is_ours);
            }
        }
        for scenario in RuleScenario::ALL {
            if let Some(key) = globals["result_field_new"][scenario.name()].as_str() {
                let what = format!("result key {}", scenario.name());
                self.same(what, Some(key.to_string()), round.result_keys.get(&scenario).cloned());
            }
        }
        self.same(
            "Offline samples",
            globals["offline_min_spq"].as_u64(),
            Some(round.offline_samples),
        );
        let before = globals["test_duration_ms_pre_1_0"].as_u64();
        let is_before = round.version.major == 0;
        let duration = before.filter(|_| is_before).or(globals["test_duration_ms"].as_u64());
        let ours = Some(round.scenarios[&RuleScenario::Offline].min_duration_ms);
        self.same("duration", duration, ours);
        let divisions = sorted(texts(&globals["valid_divisions"]));
        let known: Vec<_> = divisions.iter().filter_map(|name| Division::named(name)).collect();
        self.same("divisions", divisions.len(), known.len());
        let valid =
            ["valid_availabilities", "valid_status"].map(|key| texts(&globals[key])).concat();
        let known: Vec<_> = valid.iter().filter_map(|name| Availability::named(name)).collect();
        self.same("availabilities", valid.len(), known.len());
        let words = globals["network_mode_required_substring_in_sut_name"].as_str();
        if let (Some(words), Some(network)) = (words, &round.network) {
            self.same("network name", words.to_string(), network.name_of_system.clone());
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_string()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(text).collect()
}

fn numbers(value: &Value) -> BTreeMap<String, f64> {
    let rows = value.as_object().into_iter().flatten();
    rows.map(|(key, number)| (key.clone(), number.as_f64().unwrap())).collect()
}

fn counts(value: &Value) -> BTreeMap<RuleScenario, u64> {
    let rows = value.as_object().into_iter().flatten();
    rows.map(|(name, n)| (RuleScenario::named(name).unwrap(), n.as_u64().unwrap())).collect()
}

fn scenarios(value: &Value) -> Vec<RuleScenario> {
    texts(value).iter().map(|name| RuleScenario::named(name).unwrap()).collect()
}

/// Returns values by scenario; the checker repeats some in lower case.
fn per_scenario(value: &Value) -> BTreeMap<RuleScenario, String> {
    let rows = value.as_object().into_iter().flatten();
    let rows = rows.filter(|(name, _)| name.starts_with(|first: char| first.is_uppercase()));
    rows.map(|(name, value)| (RuleScenario::named(name).unwrap(), text(value))).collect()
}

fn seeds(value: &Value) -> Option<Seeds> {
    let seed = |name: &str| value[format!("{name}_rng_seed")].as_u64();
    Some(Seeds {
        qsl: seed("qsl")?,
        sample_index: seed("sample_index")?,
        schedule: seed("schedule")?,
    })
}
