//! Checks a performance run by its detail log.

use std::path::Path;

use serde_json::Value;

use super::catalogue::*;
use super::errors::{check_marks, first_error, has_errors, has_errors_by_rules, unflagged_line};
use super::issues::{Issues, Location};
use super::{Place, Program, equal_issue};
use crate::facts::detail::DetailLog;
use crate::python;
use dyno_rules::{Behavior, OneFileChecker, RuleScenario, Seeds, Version};

/// Language models, which require token latencies.
const LANGUAGE: [&str; 7] = [
    "llama2-70b",
    "mixtral-8x7b",
    "llama3.1-405b",
    "llama3.1-8b",
    "llama3.1-8b-edge",
    "deepseek-r1",
    "gpt-oss-120b",
];
const NS_PER_MS: f64 = 1e6;
const NS_PER_S: u64 = 1_000_000_000;
const MS_PER_S: f64 = 1e3;
/// Samples per MultiStream query.
const STREAMS: f64 = 8.0;

/// A run to judge.
pub struct Run<'a, 't> {
    /// Place of its result.
    pub place: &'a Place<'a, 't>,
    /// Its detail log.
    pub log: &'a DetailLog,
    /// Path of the log.
    pub path: &'a Path,
    /// Whether it is a run of an audit, which may have several configuration files.
    pub is_audit: bool,
}

/// Metric of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// The value.
    pub value: f64,
    /// Text, as the official checkers print it.
    pub text: String,
    /// Whether the value was inferred from another scenario.
    pub is_inferred: bool,
}

impl Metric {
    fn from_value(value: f64) -> Self {
        Self { value, text: python::float(value), is_inferred: false }
    }
}

/// Error: a value is missing in the log, or is not a number.
pub(super) struct MissingNumber;

impl Run<'_, '_> {
    /// Judges the run; returns the metric if the log contains it.
    pub fn judge(&self, issues: &mut Issues) -> Option<Metric> {
        if let Some(line) = self.log.broken(issues.program() != Program::Strict) {
            let at = self.at("").line(Some(line));
            issues.add(
                &RUN_UNREADABLE,
                at,
                "a line is not a JSON object with key and value, or not UTF-8",
            );
            return None;
        }
        // LoadGen writes keys from v1.0 on.
        let is_too_old = self.log.is_plain && self.place.round.version >= Version::new(1, 0);
        let scenario = self.log.text("effective_scenario").filter(|_| !is_too_old);
        let Some(scenario) = scenario.and_then(exact_scenario) else {
            issues.add(&RUN_KEY, self.at("effective_scenario"), "the log states no scenario");
            return None;
        };
        let tokens_decide = issues.program().does(Behavior::TokenLimitsDecide)
            && contains_model(&LANGUAGE, self.model());
        if self.log.text("result_validity") != Some("VALID") && !tokens_decide {
            let found = self.log.text("result_validity").unwrap_or("nothing");
            let at = self.at("result_validity");
            issues.add_expected(&RUN_INVALID, at, format!("the result is {found}"), "VALID");
        }
        let _ = self.tokens(scenario, issues);
        equal_issue::check(self, issues);
        self.errors(issues);
        let _ = self.samples(issues);
        self.seeds(issues);
        // The single-file checker skips these in the first round.
        if issues.program().one_file().is_none() || self.place.round.version > Version::new(0, 5) {
            let _ = self.latency(scenario, issues);
            let _ = self.queries(scenario, issues);
            let _ = self.duration(issues);
        }
        self.network(issues);
        self.inference(scenario, issues);
        self.metric(scenario, issues).ok()
    }

    pub(super) fn at(&self, key: &str) -> Location<'_> {
        let line = if key.is_empty() { None } else { self.log.line_of(key) };
        Location::path(self.path).line(line)
    }

    /// Returns a number of the log, or reports that it is missing.
    fn number(&self, key: &str, issues: &mut Issues) -> Result<f64, MissingNumber> {
        let number = self.log.value(key).and_then(python::number);
        number.ok_or_else(|| {
            let message = match self.log.value(key) {
                None => format!("the log has no `{key}`"),
                Some(value) => format!("`{key}` is {value}, not a number"),
            };
            issues.add(&RUN_KEY, self.at(key), message);
            MissingNumber
        })
    }

    /// Whether early stopping decides the length of a run, from v2.0 on.
    fn stops_early(&self, scenario: RuleScenario) -> bool {
        !self.is_early()
            && matches!(
                scenario,
                RuleScenario::Server | RuleScenario::SingleStream | RuleScenario::MultiStream
            )
    }

    /// Whether the round precedes early stopping and uses a fixed interval in MultiStream.
    fn is_early(&self) -> bool {
        self.place.round.version < Version::new(2, 0)
    }

    pub(super) fn model(&self) -> &str {
        &self.place.model.official
    }

    /// Checks that token latencies of language models were measured and, under load, meet their
    /// limits.
    fn tokens(&self, scenario: RuleScenario, issues: &mut Issues) -> Result<(), MissingNumber> {
        if !contains_model(&LANGUAGE, self.model()) {
            return Ok(());
        }
        let on = self.log.value("requested_use_token_latencies").is_some_and(python::is_true);
        if !on {
            let at = self.at("requested_use_token_latencies");
            issues.add(&RUN_TOKENS_OFF, at, "token latencies were not measured");
            return Ok(());
        }
        // LoadGen logs Interactive as Server, so the modular checker applies the limits of
        // Server.
        let judged = match issues.program() {
            Program::Modular => Some(scenario),
            Program::Mono | Program::Tag(_) | Program::Strict => self.place.scenario,
        };
        use RuleScenario::{Interactive, MultiStream, Server, SingleStream};
        let are_streams_limited = issues.program().does(Behavior::TokenLimitsOfStreams);
        match judged {
            Some(judged @ (Server | Interactive)) => self.token_limits(judged, issues),
            Some(SingleStream | MultiStream) if are_streams_limited => {
                self.token_limits(Server, issues)
            }
            _ => Ok(()),
        }
    }

    /// Checks the token limits of a scenario under load.
    pub(super) fn token_limits(
        &self,
        judged: RuleScenario,
        issues: &mut Issues,
    ) -> Result<(), MissingNumber> {
        let limits = self.place.model.benchmark.and_then(|b| b.token_latency.get(&judged));
        let Some(limits) = limits else {
            let message = format!("{} has no limits in {}", self.model(), judged.name());
            issues.add(&RUN_TOKEN_LATENCY, self.at(""), message);
            return Ok(());
        };
        let pairs = [
            ("result_first_token_99.00_percentile_latency_ns", limits.ttft),
            ("result_time_per_output_token_99.00_percentile_ns", limits.tpot),
        ];
        for (key, limit) in pairs {
            let found = self.number(key, issues)?;
            #[expect(clippy::cast_precision_loss, reason = "limits are far below 2^53 ns")]
            let is_below = found < limit as f64;
            // Negated so that NaN fails.
            if !is_below {
                let message = format!("{key} is {}", python::float(found));
                issues.add_expected(
                    &RUN_TOKEN_LATENCY,
                    self.at(key),
                    message,
                    format!("less than {limit}"),
                );
            }
        }
        Ok(())
    }

    pub(super) fn errors(&self, issues: &mut Issues) {
        let errors = &self.log.errors;
        let exceptions = self.place.options.submission_exceptions;
        if let Some(line) = unflagged_line(self.log, issues.program()) {
            let message = "a line has no `metadata.is_error`, which the program reads";
            issues.add(&RUN_UNREADABLE, self.at("").line(Some(line)), message);
        }
        let fails = match issues.program() {
            Program::Mono | Program::Tag(_) => {
                has_errors(self.log, issues.program())
                    && (!exceptions || errors.not_uncommitted > 0)
            }
            // It checks only if it should accept some errors.
            Program::Modular => {
                exceptions && (errors.others > 0 || (!self.is_audit && errors.several_confs > 0))
            }
            Program::Strict => has_errors_by_rules(self.place.round, self.log),
        };
        check_marks(self.place, self.log, self.path, issues);
        if fails {
            let (line, text) = first_error(self.place.round, self.log);
            issues.add(&RUN_ERRORS, self.at("").line(line), format!("the run had errors: {text}"));
        }
    }

    fn samples(&self, issues: &mut Issues) -> Result<(), MissingNumber> {
        let key = "effective_performance_sample_count";
        let found = self.number(key, issues)?;
        let wanted = self.place.model.benchmark.and_then(|b| b.performance_samples);
        let Some(wanted) = wanted else {
            let message = format!("{} is not a benchmark of the round", self.model());
            issues.add(&MODEL_UNKNOWN, self.at(""), message);
            return Ok(());
        };
        self.at_least(&RUN_SAMPLES, key, found, wanted, issues);
        Ok(())
    }

    fn at_least(
        &self,
        check: &'static Check,
        key: &str,
        found: f64,
        wanted: u64,
        issues: &mut Issues,
    ) {
        #[expect(clippy::cast_precision_loss, reason = "counts and times far below 2^53")]
        if found < wanted as f64 {
            let message = format!("{key} is {found}");
            issues.add_expected(check, self.at(key), message, format!("at least {wanted}"));
        }
    }

    fn seeds(&self, issues: &mut Issues) {
        // The single-file checker searches the whole path.
        let is_test05 = match issues.program().one_file() {
            Some(_) => self.path.to_string_lossy().contains("TEST05"),
            None => self.path.components().any(|part| part.as_os_str() == "TEST05"),
        };
        let round = self.place.round;
        let seeds = round.test05_seeds.filter(|_| is_test05).unwrap_or(round.seeds);
        self.seed("effective_qsl_rng_seed", seeds.qsl, issues);
        self.seeds_of(seeds, issues);
    }

    /// Checks the seeds of issued samples. Clients of endpoints load no samples, so they have no
    /// QSL seed.
    pub(super) fn seeds_of_issue(&self, issues: &mut Issues) {
        self.seeds_of(self.place.round.seeds, issues);
    }

    fn seeds_of(&self, seeds: Seeds, issues: &mut Issues) {
        self.seed("effective_sample_index_rng_seed", seeds.sample_index, issues);
        self.seed("effective_schedule_rng_seed", seeds.schedule, issues);
    }

    fn seed(&self, key: &str, wanted: u64, issues: &mut Issues) {
        if self.log.whole(key) != Some(wanted) {
            let found = self.log.value(key).map_or("missing".to_owned(), Value::to_string);
            let at = self.at(key);
            issues.add_expected(&RUN_SEEDS, at, format!("{key} is {found}"), wanted.to_string());
        }
    }

    fn latency(&self, scenario: RuleScenario, issues: &mut Issues) -> Result<(), MissingNumber> {
        if !self.stops_early(scenario) {
            return self.tail(scenario, issues);
        }
        if !self.log.value("early_stopping_met").is_some_and(python::is_true) {
            let reason = self.log.text("early_stopping_result").unwrap_or("no reason given");
            let at = self.at("early_stopping_met");
            issues.add(&RUN_EARLY_STOPPING, at, format!("early stopping is not met: {reason}"));
        }
        self.bound(&RUN_TARGET_LATENCY, "effective_target_latency_ns", scenario, issues)
    }

    /// Checks the tail latency against the bound of a scenario, at the benchmark's percentile.
    /// The official checkers use the 99th percentile.
    pub(super) fn tail(
        &self,
        scenario: RuleScenario,
        issues: &mut Issues,
    ) -> Result<(), MissingNumber> {
        let benchmark = self.place.model.benchmark;
        let own = benchmark.and_then(|benchmark| self.place.round.percentile(benchmark, scenario));
        let own = own.filter(|_| issues.program() == Program::Strict);
        let percent = 100.0 * own.unwrap_or(0.99);
        let key = match scenario {
            RuleScenario::MultiStream => {
                format!("result_{percent:.2}_percentile_per_query_latency_ns")
            }
            _ => format!("result_{percent:.2}_percentile_latency_ns"),
        };
        self.bound(&RUN_LATENCY, &key, scenario, issues)
    }

    fn bound(
        &self,
        check: &'static Check,
        key: &str,
        scenario: RuleScenario,
        issues: &mut Issues,
    ) -> Result<(), MissingNumber> {
        let bound = self.place.model.benchmark.and_then(|b| b.latency.get(&scenario)).copied();
        let Some(bound) = bound.filter(|bound| *bound > 0) else { return Ok(()) };
        let has_interval = scenario == RuleScenario::MultiStream && self.is_early();
        let is_strict = issues.program() == Program::Strict;
        let bound = if has_interval && is_strict { interval(bound) } else { bound };
        let found = self.number(key, issues)?;
        #[expect(clippy::cast_precision_loss, reason = "bounds are far below 2^53 ns")]
        if found > bound as f64 {
            let message = format!("{key} is {found}");
            issues.add_expected(check, self.at(key), message, format!("at most {bound}"));
        }
        Ok(())
    }

    fn queries(&self, scenario: RuleScenario, issues: &mut Issues) -> Result<(), MissingNumber> {
        let benchmark = self.place.model.benchmark;
        let wanted = benchmark.and_then(|b| b.min_queries.get(&scenario)).copied();
        if let Some(wanted) = wanted.filter(|_| !self.stops_early(scenario)) {
            let key = "effective_min_query_count";
            let found = self.number(key, issues)?;
            self.at_least(&RUN_MIN_QUERIES, key, found, wanted, issues);
        }
        let closed = self.place.submitter.division == crate::entry::DivisionFolder::Closed;
        let judged = issues.program().one_file().is_some() || closed;
        if scenario == RuleScenario::Offline && judged {
            let key = "effective_samples_per_query";
            let found = self.number(key, issues)?;
            // One bound applied to all models until v4.0.
            let round_samples = benchmark.filter(|_| self.place.round.version < Version::new(4, 0));
            let round_samples = round_samples.map(|_| self.place.round.offline_samples);
            let own = benchmark.and_then(|b| b.offline_samples);
            match own.or(round_samples).filter(|_| !self.has_no_offline_bound(issues.program())) {
                Some(wanted) => self.at_least(&RUN_OFFLINE_SAMPLES, key, found, wanted, issues),
                None => {
                    let message = format!("{} has no Offline scenario", self.model());
                    issues.add(&RUN_OFFLINE_SAMPLES, self.at(key), message);
                }
            }
        }
        Ok(())
    }

    /// Whether the program rejects Offline results of the model, because its table of bounds lacks
    /// the model: the programs after v5.0 lack GPT-J of v5.0 (v5.1.1:700).
    fn has_no_offline_bound(&self, program: Program) -> bool {
        let is_later =
            program == Program::Modular || program.one_file() == Some(OneFileChecker::LAST);
        is_later
            && self.place.round.version == Version::new(5, 0)
            && contains_model(&["gptj"], self.model())
    }

    pub(super) fn duration(&self, issues: &mut Issues) -> Result<(), MissingNumber> {
        let early = self.place.round.version < Version::new(1, 0);
        let usual = if early { 60_000 } else { 600_000 };
        let own = self.place.model.benchmark.and_then(|benchmark| benchmark.min_duration_ms);
        let wanted = own.unwrap_or(usual);
        if wanted == 0 {
            return Ok(());
        }
        let key = "effective_min_duration_ms";
        let found = self.number(key, issues)?;
        self.at_least(&RUN_DURATION, key, found, wanted, issues);
        Ok(())
    }

    /// Checks the name of a system behind a network. The system description determines whether
    /// the division allows a network.
    pub(super) fn network(&self, issues: &mut Issues) {
        let network = self.place.description.get("is_network").and_then(Value::as_str);
        if !network.is_some_and(|text| text.eq_ignore_ascii_case("true")) {
            return;
        }
        let name = self.log.text("sut_name").unwrap_or_default();
        if !name.contains("Network SUT") {
            let message = format!("the system under test is named `{name}`");
            issues.add_expected(
                &RUN_NETWORK_NAME,
                self.at("sut_name"),
                message,
                "`Network SUT` in it",
            );
        }
    }

    /// Checks whether the result may be used for the scenario of its folder.
    pub(super) fn inference(&self, played: RuleScenario, issues: &mut Issues) {
        use RuleScenario::{Interactive, MultiStream, Offline, Server, SingleStream};
        let Some(folder) = self.place.scenario else { return };
        if folder == played || (played, folder) == (Server, Interactive) {
            return;
        }
        let pairs = [(SingleStream, Offline), (SingleStream, MultiStream), (MultiStream, Offline)];
        let pairs = if self.is_early() { &pairs[..1] } else { &pairs[..] };
        let kind = self.place.description.get("system_type").and_then(Value::as_str);
        let at = self.at("effective_scenario");
        let names = format!("{} from a run of {}", folder.name(), played.name());
        if issues.program().one_file().is_some() {
            // It infers what it can, and takes the result of the run itself otherwise.
            if folder == Interactive {
                issues.add(&RUN_INFERRED, at, format!("a result of {names} cannot be inferred"));
            }
            return;
        }
        if !kind.unwrap_or_default().to_lowercase().contains("edge") {
            issues.add(&RUN_INFERRED, at, format!("{names}, but the system is not an edge system"));
        } else if !pairs.contains(&(played, folder)) {
            issues.add(&RUN_INFERRED, at, format!("a result of {names} cannot be inferred"));
        }
    }

    /// Whether the official checkers read a metric from the log.
    pub(super) fn has_metric(&self, issues: &Issues) -> bool {
        let is_read = self.log.broken(true).is_none();
        let played = self.log.text("effective_scenario").filter(|_| is_read);
        let played = played.and_then(exact_scenario);
        played.is_some_and(|played| self.metric(played, &mut issues.another()).is_ok())
    }

    fn metric(&self, played: RuleScenario, issues: &mut Issues) -> Result<Metric, MissingNumber> {
        let round = self.place.round;
        let mut value = None;
        // The round's key must exist even if the model has its own key.
        let own = self.place.model.benchmark.and_then(|b| b.result_keys.get(&played));
        for key in round.result_keys.get(&played).into_iter().chain(own) {
            value = Some(self.number_or_text(key, issues)?);
        }
        self.in_units(played, value.ok_or(MissingNumber)?, issues)
    }

    /// Returns the metric of a key.
    pub(super) fn metric_of(
        &self,
        played: RuleScenario,
        key: &str,
        issues: &mut Issues,
    ) -> Result<Metric, MissingNumber> {
        let value = self.number_or_text(key, issues)?;
        self.in_units(played, value, issues)
    }

    fn in_units(
        &self,
        played: RuleScenario,
        value: f64,
        issues: &mut Issues,
    ) -> Result<Metric, MissingNumber> {
        let mut metric = Metric::from_value(value);
        let is_streams = played == RuleScenario::MultiStream && self.is_early();
        if matches!(played, RuleScenario::SingleStream | RuleScenario::MultiStream) && !is_streams {
            let mut ms = metric.value / NS_PER_MS;
            if self.model() == "wan-2.2-t2v-a14b" {
                ms /= MS_PER_S;
            }
            metric = Metric::from_value(ms);
        }
        match self.place.scenario {
            Some(folder) if folder != played => self.inferred(played, folder, metric, issues),
            _ => Ok(metric),
        }
    }

    fn number_or_text(&self, key: &str, issues: &mut Issues) -> Result<f64, MissingNumber> {
        let text = self.log.text(key).filter(|_| issues.program() != Program::Strict);
        match text.and_then(python::float_of) {
            Some(number) => Ok(number),
            None => self.number(key, issues),
        }
    }

    /// Returns the metric that the run implies for another scenario.
    fn inferred(
        &self,
        played: RuleScenario,
        folder: RuleScenario,
        metric: Metric,
        issues: &mut Issues,
    ) -> Result<Metric, MissingNumber> {
        let inferred = |value: f64| Metric { is_inferred: true, ..Metric::from_value(value) };
        let is_offline = (played, folder) == (RuleScenario::SingleStream, RuleScenario::Offline);
        if self.place.does(Behavior::OfflineOfSingleStream) && !is_offline {
            // These checkers give up an Offline result and infer no other.
            if folder == RuleScenario::Offline {
                let message =
                    format!("an Offline result cannot be inferred from {}", played.name());
                issues.add(&RUN_KEY, self.at("effective_scenario"), message);
                return Err(MissingNumber);
            }
            return Ok(metric);
        }
        match (played, folder) {
            (RuleScenario::SingleStream, RuleScenario::Offline) => {
                let key = "result_qps_without_loadgen_overhead";
                let value = self.number_or_text(key, issues)?;
                let text = self.log.value(key).map(python::text).unwrap_or_default();
                Ok(Metric { text, ..inferred(value) })
            }
            (RuleScenario::MultiStream, RuleScenario::Offline) => {
                let samples = self.number("effective_samples_per_query", issues)?;
                let key = "result_mean_query_latency_ns";
                let mean_ms = self.number(key, issues)? / NS_PER_MS;
                if mean_ms == 0.0 {
                    issues.add(&RUN_KEY, self.at(key), format!("`{key}` is 0"));
                    return Err(MissingNumber);
                }
                Ok(inferred(samples * MS_PER_S / mean_ms))
            }
            (RuleScenario::SingleStream, RuleScenario::MultiStream) => {
                let key = "early_stopping_latency_ms";
                let estimate = self.number(key, issues)?;
                if estimate == 0.0 && !issues.program().does(Behavior::ForgetsEstimate) {
                    let message = "early stopping has no estimate of the 99th percentile";
                    issues.add(&RUN_NO_ESTIMATE, self.at(key), message);
                }
                Ok(inferred(estimate * STREAMS / NS_PER_MS))
            }
            _ => Ok(metric),
        }
    }
}

/// Returns the interval between the queries of MultiStream for a bound in ns. LoadGen's settings of the
/// rounds with an interval have whole queries per second, such as 15 for 66 ms.
fn interval(bound: u64) -> u64 {
    NS_PER_S.checked_div(NS_PER_S / bound).unwrap_or(bound)
}

/// Whether a model is a language model, which requires token latencies.
pub(super) fn is_language(model: &str) -> bool {
    contains_model(&LANGUAGE, model)
}

/// Returns the scenario with exactly this name.
fn exact_scenario(name: &str) -> Option<RuleScenario> {
    RuleScenario::ALL.into_iter().find(|scenario| scenario.name() == name)
}

/// Whether a model is in a list, with any of its targets.
fn contains_model(models: &[&str], name: &str) -> bool {
    let base = name.strip_suffix("-99.9").or_else(|| name.strip_suffix("-99")).unwrap_or(name);
    models.contains(&base)
}
