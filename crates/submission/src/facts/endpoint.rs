//! Results measured on an endpoint (from v6.1). The client's JSON and configuration are
//! converted to the keys of LoadGen's logs.

use serde_json::{Map, Value};

use super::detail::DetailLog;
use super::text;
use crate::tree::Node;
use crate::{python, yaml};
use dyno_rules::{EndpointFact, Endpoints};

/// The client's summary of the performance run.
pub const SUMMARY: &str = "performance/result_summary.json";
/// The client's results of the accuracy run.
pub const SCORES: &str = "accuracy/accuracy_results.json";
/// Names of the client's configuration; the first that exists is read.
pub const CONFIG: [&str; 2] = ["config.yaml", "config.yml"];

/// Files of a result measured on an endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Endpoint {
    /// Files that could not be read, with the reason.
    pub unreadable: Vec<(&'static str, String)>,
    /// Values of the performance run, by LoadGen's keys.
    pub performance: DetailLog,
    /// Values of the accuracy run, by LoadGen's keys.
    pub accuracy: DetailLog,
    /// Scores of the data sets that have one.
    pub scores: Vec<Value>,
    /// Why the official checker crashes while it reads the scores; `None` if it does not.
    pub crash: Option<&'static str>,
}

impl Endpoint {
    /// Reads the files in the folder of a result.
    pub fn read(folder: Node<'_>, endpoints: &Endpoints) -> Self {
        let mut unreadable = Vec::new();
        let config = config(folder, &mut unreadable);
        let summary = json(folder, SUMMARY, &mut unreadable);
        let results = json(folder, SCORES, &mut unreadable);
        let facts_in = |data: &Value| {
            let facts = endpoints.facts.iter();
            let pairs =
                facts.filter_map(|fact| Some((fact.key.clone(), fact_value(fact, data, &config)?)));
            pairs.collect::<Vec<_>>()
        };
        let (samples, scores, crash) = match scores(&results) {
            Ok((samples, scores)) => (samples, scores, None),
            Err(why) => (None, Vec::new(), Some(why)),
        };
        let count = samples.map(|samples| ("effective_accuracy_sample_count".into(), samples));
        let accuracy = count.into_iter().chain(facts_in(&results)).collect();
        let performance = facts_in(&summary);
        Self { unreadable, performance: log(performance), accuracy: log(accuracy), scores, crash }
    }
}

/// Creates a log from facts and adds the values that follow from them.
fn log(mut pairs: Vec<(String, Value)>) -> DetailLog {
    let get = |pairs: &[(String, Value)], key: &str| {
        pairs.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone())
    };
    let number = |key: &str| get(&pairs, key).as_ref().and_then(python::number);
    let rate = number("generated_query_count").zip(number("generated_query_duration"));
    let rate = rate.filter(|(count, ns)| *count != 0.0 && *ns != 0.0);
    let scenario = get(&pairs, "effective_scenario");
    if let Some(((count, ns), scenario)) = rate.zip(scenario.as_ref().and_then(Value::as_str)) {
        let key = if scenario.eq_ignore_ascii_case("offline") {
            "result_samples_per_second"
        } else {
            "result_completed_samples_per_sec"
        };
        // Added last: the first value of a key counts, so the client's own value takes
        // precedence.
        pairs.push((key.to_owned(), (count / (ns / 1e9)).into()));
    }
    let mut log = DetailLog::from_pairs(pairs);
    let failed = log.value("num_errors").filter(|failed| python::is_true(failed));
    if let Some(failed) = failed.map(python::text) {
        log.errors.count = 1;
        log.errors.first.push((0, format!("requests that failed: {failed}")));
    }
    log
}

/// Returns the value of a fact from the JSON or from the configuration.
fn fact_value(fact: &EndpointFact, data: &Value, config: &Value) -> Option<Value> {
    let other = |data, path: &Option<String>| nested(data, path.as_deref()?);
    let value = nested(data, &fact.path).or_else(|| other(data, &fact.other));
    let value = value.or_else(|| other(config, &fact.config));
    value.or_else(|| nested(config, &fact.path)).cloned()
}

/// Returns the value at a dotted path. Names may contain dots, so the longest matching name is
/// used, and `50.0` also matches `50`.
fn nested<'v>(data: &'v Value, path: &str) -> Option<&'v Value> {
    let parts: Vec<&str> = path.split('.').collect();
    let mut current = data;
    let mut index = 0;
    while index < parts.len() {
        let Some(fields) = current.as_object() else {
            let is_whole = parts[index..] == ["0"] && index > 0 && !current.is_array();
            return Some(current).filter(|value| is_whole && !value.is_null());
        };
        let longest = (index + 1..=parts.len()).rev();
        let found = longest
            .into_iter()
            .find_map(|end| Some((end, fields.get(&parts[index..end].join("."))?)));
        (index, current) = found?;
    }
    let is_empty = match current {
        Value::Null => true,
        Value::Array(values) => values.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    (!is_empty).then_some(current)
}

/// Number of samples over all accuracy data sets, and the scores.
type Scores = (Option<Value>, Vec<Value>);

fn scores(results: &Value) -> Result<Scores, &'static str> {
    let none = Vec::new();
    let all = match results.get("accuracy_scores") {
        None => &none,
        Some(all) => all.as_array().ok_or("`accuracy_scores` is not a list")?,
    };
    let mut samples = None;
    let mut scores = Vec::new();
    for one in all {
        let one = one.as_object().ok_or("an entry of `accuracy_scores` is not an object")?;
        scores.extend(one.get("score").filter(|score| !score.is_null()).cloned());
        let is_accuracy =
            one.get("dataset_type").is_none_or(|kind| kind.is_null() || kind == "accuracy");
        if let Some(count) = issued(one).filter(|_| is_accuracy) {
            samples = Some(samples.unwrap_or(0_u64).saturating_add(whole(count)?));
        }
    }
    Ok((samples.map(Value::from), scores))
}

fn issued(one: &Map<String, Value>) -> Option<&Value> {
    let total = one.get("total_samples").filter(|total| !total.is_null());
    total.or_else(|| one.get("response_counts")?.get("issued").filter(|count| !count.is_null()))
}

fn whole(count: &Value) -> Result<u64, &'static str> {
    let number = match count {
        Value::String(text) => text.trim().parse().ok(),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "as `int` does"
        )]
        count => count.as_u64().or_else(|| count.as_f64().map(|count| count as u64)),
    };
    number.ok_or("a number of samples is none")
}

fn json(
    folder: Node<'_>,
    name: &'static str,
    unreadable: &mut Vec<(&'static str, String)>,
) -> Value {
    let read = match folder.file(name) {
        None => Err("the file is missing".to_owned()),
        Some(file) => super::json::read(file).map_err(|problem| problem.to_string()),
    };
    match read {
        Ok(file) if file.object().is_some() => return file.value,
        Ok(_) => unreadable.push((name, "is not a JSON object".to_owned())),
        Err(why) => unreadable.push((name, why)),
    }
    Value::Null
}

fn config(folder: Node<'_>, unreadable: &mut Vec<(&'static str, String)>) -> Value {
    let mut why = "the file is missing".to_owned();
    for name in CONFIG {
        let Ok(file) = text::read(folder.file(name)) else { continue };
        match yaml::from_text::<Value>(&file.text) {
            Ok(value) if value.is_object() => return value,
            Ok(_) => why = "is not a mapping".to_owned(),
            Err(error) => why = format!("is not YAML: {error}"),
        }
    }
    unreadable.push((CONFIG[0], why));
    Value::Null
}
