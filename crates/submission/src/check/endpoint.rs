//! Checks a result measured on an endpoint. It has no LoadGen logs; the checks use the values
//! that the client provides.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::accuracy::{self, Accuracy};
use super::catalogue::*;
use super::issues::{Issues, Location};
use super::performance::{Metric, Run, is_language};
use super::{Place, Program, Skip};
use crate::facts::endpoint::{CONFIG, Endpoint, SCORES, SUMMARY};
use crate::facts::{Facts, json};
use crate::python;
use dyno_rules::{Endpoints, RuleScenario};

/// Permitted relative difference between rates of a run, because the client counts until the
/// last answer or until the last request.
const RATE_TOLERANCE: f64 = 0.02;
/// Key of the client's rate of tokens.
const TOKEN_RATE: &str = "result_completed_tokens_per_second";
/// The only model whose scores the official checker compares with their targets.
const JUDGED_OFFICIALLY: &str = "qwen3-vl-235b-a22b";

/// A result that was measured on an endpoint.
pub struct EndpointResult<'a, 't> {
    /// Place of the result.
    pub place: &'a Place<'a, 't>,
    /// Values of the client.
    pub client: &'a Endpoint,
    /// Rules of the round.
    pub endpoints: &'static Endpoints,
}

impl<'a, 't> EndpointResult<'a, 't> {
    /// Returns the result if it was measured on an endpoint.
    pub fn find(place: &'a Place<'a, 't>, facts: &'a Facts<'_>) -> Option<Self> {
        let (client, endpoints) = facts.endpoint.as_ref().zip(place.round.endpoints)?;
        Some(Self { place, client, endpoints })
    }
}

impl EndpointResult<'_, '_> {
    fn path(&self, name: &str) -> PathBuf {
        self.place.entry.folder.path().join(name)
    }

    /// Judges the performance run; returns the metric if the client provides it.
    pub fn performance(&self, issues: &mut Issues) -> Option<Metric> {
        for (name, why) in &self.client.unreadable {
            issues.add(&ENDPOINT_FILES, Location::path(&self.path(name)), why.clone());
        }
        if let Some(why) = self.client.crash {
            issues.crash(Location::path(&self.path(SCORES)), why);
        }
        let model = &self.place.model.official;
        if !self.endpoints.models.contains(model) {
            let path = self.place.entry.folder.path();
            let message = format!("{model} was measured on an endpoint");
            let wanted = format!("one of {}", self.endpoints.models.join(", "));
            issues.add_expected(&ENDPOINT, Location::path(&path), message, wanted);
        }
        let path = self.path(SUMMARY);
        let run =
            Run { place: self.place, log: &self.client.performance, path: &path, is_audit: false };
        let played = self.played(issues)?;
        run.errors(issues);
        run.seeds_of_issue(issues);
        if is_language(model) {
            // The official checker looks up these limits by the spelling of the scenario; other
            // spellings have no limits.
            let limited = match issues.program() {
                Program::Strict => self.place.scenario,
                Program::Mono | Program::Tag(_) | Program::Modular => played.spelled,
            };
            if let Some(limited @ (RuleScenario::Server | RuleScenario::Interactive)) = limited {
                let _ = run.token_limits(limited, issues);
            }
        } else {
            let _ = self.place.scenario.map(|limited| run.tail(limited, issues));
        }
        let _ = run.duration(issues);
        run.network(issues);
        let Some(scenario) = played.scenario else {
            let message = "the scenario that the client states is not in the rules";
            issues.add(&RUN_KEY, Location::path(&path), message);
            return None;
        };
        run.inference(scenario, issues);
        self.rates(&path, issues);
        // The general key must exist even if the model has its own key.
        let general = self.endpoints.result_keys.get(&scenario)?;
        let metric = run.metric_of(scenario, general, issues).ok()?;
        match self.own_key(scenario, played.spelled, issues.program()) {
            Some(key) => run.metric_of(scenario, key, issues).ok(),
            None => Some(metric),
        }
    }

    /// Returns the key of a result that is not the general one of the scenario: tokens per second, or
    /// a latency. The official checker looks it up by the spelling of the scenario, and has none for
    /// Interactive.
    fn own_key(
        &self,
        scenario: RuleScenario,
        spelled: Option<RuleScenario>,
        program: Program,
    ) -> Option<&'static str> {
        let benchmark = self.place.model.benchmark?;
        let is_tokens = benchmark.units.get(&scenario).is_some_and(|unit| unit == "Tokens/s");
        let scenario = match program {
            Program::Strict if is_tokens => return Some(TOKEN_RATE),
            Program::Strict => scenario,
            Program::Mono | Program::Tag(_) | Program::Modular => spelled?,
        };
        benchmark.result_keys.get(&scenario).map(String::as_str)
    }

    /// Returns the scenario of the run. The folder determines SingleStream and Interactive, which
    /// the client does not know; otherwise the client does, which uses `online` for Server. By the
    /// rules, a run of which the client reports Offline is Offline in any folder.
    fn played(&self, issues: &mut Issues) -> Option<ClientScenario> {
        use RuleScenario::{Interactive, Offline, Server, SingleStream};
        let name = self.client.performance.text("effective_scenario");
        let reported = name.and_then(RuleScenario::named);
        let is_offline = issues.program() == Program::Strict && reported == Some(Offline);
        let by_folder = self.place.scenario.filter(|one| matches!(one, SingleStream | Interactive));
        let known = by_folder.filter(|_| !is_offline);
        let known = known.or(reported.filter(|one| *one == Interactive));
        if known.is_some() {
            return Some(ClientScenario { scenario: known, spelled: known });
        }
        let Some(name) = name else {
            let path = self.path(CONFIG[0]);
            issues.add(&RUN_KEY, Location::path(&path), "the client states no scenario");
            issues.crash(Location::path(&path), "the client states no scenario");
            return None;
        };
        if name.eq_ignore_ascii_case("online") {
            return Some(ClientScenario { scenario: Some(Server), spelled: Some(Server) });
        }
        let spelled = reported.filter(|scenario| scenario.name() == name);
        Some(ClientScenario { scenario: reported, spelled })
    }

    /// Checks that completed queries, duration and rate are consistent, and that the run had the
    /// minimum duration.
    fn rates(&self, path: &Path, issues: &mut Issues) {
        let number = |key: &str| self.client.performance.number(key);
        let took = number("generated_query_duration").map(|ns| ns / 1e6);
        let pair = took.zip(number("effective_min_duration_ms"));
        if let Some((took, least)) =
            pair.filter(|(took, least)| took * (1.0 + RATE_TOLERANCE) < *least)
        {
            let message = format!("the run took {:.3} s", took / 1e3);
            let expected = format!("at least {:.3} s, the minimum duration", least / 1e3);
            issues.add_expected(&RUN_CONSISTENT, Location::path(path), message, expected);
        }
        let keys = ["result_query_count", "generated_query_duration"];
        let Some((count, ns)) = number(keys[0]).zip(number(keys[1])) else { return };
        let Some(rate) = number("result_completed_samples_per_sec") else { return };
        let derived = count / (ns / 1e9);
        // Negated so that NaN fails.
        let is_near = (rate - derived).abs() <= RATE_TOLERANCE * derived.abs();
        if !is_near {
            let message = format!("the client reports {rate} per second");
            let expected = format!("{count} in {ns} ns, which is {derived}");
            issues.add_expected(&RUN_CONSISTENT, Location::path(path), message, expected);
        }
    }

    /// Judges the accuracy run.
    pub fn accuracy(&self, issues: &mut Issues) -> Accuracy {
        let (place, path) = (self.place, self.path(SCORES));
        let at = Location::path(&path);
        accuracy::check_errors(place, &self.client.accuracy, &path, issues);
        accuracy::check_samples(place, &self.client.accuracy, &path, issues);
        match place.entry.accuracy() {
            Some(folder) => accuracy::check_outputs(place, folder, issues),
            None => issues.add(&ACCURACY_OUTPUTS, at, "the accuracy run is missing"),
        }
        let Some(first) = self.client.scores.first() else {
            issues.add(&ACCURACY_METRIC_MISSING, at, "the client reports no score");
            return Accuracy::default();
        };
        let mut own = issues.another();
        self.targets(at, &mut own);
        if !place.submitter.division.is_closed_or_network() {
            own.waive(&[&ACCURACY_LOW, &ACCURACY_HIGH, &ACCURACY_METRIC_MISSING]);
        }
        issues.append(own);
        let targets = place.targets();
        let metric = targets.first().map_or("score", |target| target.metric.as_str());
        match (issues.program(), first) {
            (Program::Strict, Value::Object(scores)) => {
                Accuracy::from_metrics(scores.iter().map(|(name, value)| (&**name, value)))
            }
            (Program::Strict, score) => Accuracy::from_metrics([(metric, score)]),
            _ => Accuracy::from_text(written(first)),
        }
    }

    /// Checks the scores against their targets. The official checker does this for one model, and
    /// looks at the first score alone.
    fn targets(&self, at: Location<'_>, issues: &mut Issues) {
        let is_strict = issues.program() == Program::Strict;
        let is_official = self.place.model.official == JUDGED_OFFICIALLY;
        if !is_strict && !is_official {
            return;
        }
        let scores = &self.client.scores;
        let score = scores.first().filter(|_| !is_strict || scores.len() == 1);
        // Python takes `true` for 1.
        let read = |value: &Value| {
            let number = python::number(value).filter(|_| !(is_strict && value.is_boolean()));
            number.or_else(|| value.as_str().and_then(python::float_of))
        };
        let targets = self.place.targets();
        let bounded = targets.iter().filter(|target| target.at_least.is_some()).count();
        for target in &targets {
            let metric = &target.metric;
            let is_only = bounded == 1 && target.at_least.is_some();
            let named = score.filter(|_| is_strict).and_then(|score| named_value(score, metric));
            let named = named.and_then(read);
            let only = || only_value(score.filter(|_| is_only)?, metric, read);
            let Some(value) = named.or_else(only) else {
                let message = format!("{metric} cannot be derived from the report of the client");
                let is_required = is_official && score.is_some();
                let check = if is_required { &ACCURACY_METRIC_MISSING } else { &ENDPOINT_SCORE };
                issues.add(check, at, message);
                continue;
            };
            let message = format!("{metric} is {}", python::float(value));
            if is_strict && !value.is_finite() {
                issues.add_expected(&ACCURACY_LOW, at, message, "a finite number");
                continue;
            }
            if let Some(least) = target.at_least.filter(|least| value < *least) {
                let expected = format!("at least {least}");
                issues.add_expected(&ACCURACY_LOW, at, message.clone(), expected);
            }
            if let Some(most) = target.at_most.filter(|most| value > *most) {
                issues.add_expected(&ACCURACY_HIGH, at, message, format!("at most {most}"));
            }
        }
    }

    /// Judges the audits. The official checker requires them in the open division, too.
    pub fn audits(&self, issues: &mut Issues) {
        let place = self.place;
        let is_asked =
            issues.program() == Program::Modular || place.submitter.division.is_closed_or_network();
        if !is_asked || place.options.skips(Skip::Compliance) {
            return;
        }
        for audit in place.model.benchmark.into_iter().flat_map(|benchmark| &benchmark.audits) {
            if let Some(name) = self.endpoints.audits.get(audit) {
                self.audit(audit, name, issues);
            }
            if audit == "TEST09" {
                self.output_length(issues);
            }
        }
    }

    fn audit(&self, audit: &str, name: &str, issues: &mut Issues) {
        let file = format!("audit/audit_{name}.json");
        let path = self.path(&file);
        let at = Location::path(&path);
        let Some(node) = self.place.entry.folder.file(&file) else {
            // Clients support no other audit yet.
            if audit == "TEST04" && self.endpoints.models.contains(&self.place.model.official) {
                issues.add(&AUDIT_TEST_MISSING, at, format!("{audit} is missing"));
            }
            return;
        };
        let verdict = match json::read(node) {
            Ok(verdict) => verdict,
            Err(problem) => {
                let at = at.line(problem.line);
                return issues.add(&AUDIT_TEXT_MISSING, at, problem.to_string());
            }
        };
        if verdict.get("test").and_then(Value::as_str) != Some(name) {
            let found = verdict.get("test").map_or("nothing".to_owned(), Value::to_string);
            let message = format!("is a result of the audit {found}");
            issues.add_expected(&AUDIT_TEXT_MISSING, at, message, name);
        } else if !verdict.get("passed").is_some_and(python::is_true) {
            issues.add(&AUDIT_PERFORMANCE, at, format!("{audit} fails"));
        }
    }

    fn output_length(&self, issues: &mut Issues) {
        let path = self.path(SUMMARY);
        let (least, most) = self.endpoints.output_tokens;
        let found = self.client.performance.value("mean_output_tokens").and_then(python::number);
        if !found.is_some_and(|mean| (least..=most).contains(&mean)) {
            let found = found.map_or("not told".to_owned(), python::float);
            let message = format!("the mean number of output tokens is {found}");
            let expected = format!("{least} to {most}");
            issues.add_expected(&AUDIT_OUTPUT_LENGTH, Location::path(&path), message, expected);
        }
    }
}

/// Scenario of a run. `spelled` is the scenario if its name is spelled as in the official tables.
struct ClientScenario {
    scenario: Option<RuleScenario>,
    spelled: Option<RuleScenario>,
}

/// Returns the value of a metric in a score that names its metrics.
fn named_value<'v>(score: &'v Value, metric: &str) -> Option<&'v Value> {
    let mut scores = score.as_object()?.iter();
    scores.find(|(name, _)| is_same(name, metric)).map(|(_, value)| value)
}

/// Returns the value of the only metric of a model, under the names by which the official checker
/// finds it (checks/accuracy_check.py b66003e1, `_numeric_accuracy_score`).
fn only_value(score: &Value, metric: &str, read: impl Fn(&Value) -> Option<f64>) -> Option<f64> {
    let Value::Object(scores) = score else { return read(score) };
    let lower = metric.to_lowercase();
    let last = lower.rsplit('_').next().unwrap_or_default();
    let names = [metric, &lower, last, "f1", "score", "accuracy"];
    names.into_iter().find_map(|name| scores.get(name).and_then(&read))
}

/// Returns a score as the official checker writes it into its table: JSON without commas, quotes and
/// braces.
fn written(score: &Value) -> String {
    python::dumps(score).replace(',', " ").replace(['"', '{', '}'], "").trim().to_owned()
}

/// Whether two metric names are equal, ignoring case and punctuation.
fn is_same(one: &str, other: &str) -> bool {
    let letters = |name: &str| -> String {
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
    };
    letters(one) == letters(other)
}
