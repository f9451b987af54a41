//! Resolves settings to a plan, with the arithmetic and the checks of the reference.
//!
//! A resolution collects problems and continues with safe values. [`Plan::resolve`] fails if there
//! are problems; [`Plan::resolve_as_reference`] returns them for the log.

use super::problem::{ReferenceBehavior, SettingsErrors, SettingsProblem};
use super::{AccuracyLog, Library, Load, Plan, SampleChoice, Seeds};
use crate::clock::{MILLISECOND, Nanos, SECOND};
use crate::early_stopping::{self, Criterion};
use crate::settings::{
    Arrivals, Change, FIELDS, Origin, Scenario, Settings, TestMode, TestSettings,
};

/// Maximum length of a trace, in samples. At five million samples/s it lasts a quarter of an hour
/// and fills 100 GB of memory.
pub const MAX_TRACE_SAMPLES: u64 = 1 << 32;

/// Longest expected time until the last query that a test of Server must issue, in s: 30 years. Times in ns
/// have 64 bits, which hold 585 years.
const LONGEST_TRACE_S: f64 = 30.0 * 365.25 * 86_400.0;

/// Key of the reference's log for invalid settings.
pub(super) const INVALID_SETTINGS: &str = "error_invalid_test_settings";

impl Plan {
    /// Resolves the settings and rejects invalid ones, as `dyno run` does.
    ///
    /// # Errors
    /// [`SettingsErrors`] holds every problem, not just the first.
    pub fn resolve(settings: &TestSettings, library: Library) -> Result<Self, SettingsErrors> {
        let (plan, problems) = Self::resolve_as_reference(settings, library);
        if problems.is_empty() { Ok(plan) } else { Err(SettingsErrors(problems)) }
    }

    /// Resolves the settings like the reference, as the drop-in does.
    ///
    /// If the reference would divide by zero, loop forever or read past an array, the plan has a
    /// safe value and a problem states which. The plan must not be run if a problem
    /// [stops](SettingsProblem::stops) it.
    #[must_use]
    pub fn resolve_as_reference(
        settings: &TestSettings,
        library: Library,
    ) -> (Self, Vec<SettingsProblem>) {
        let mut effective = settings.clone();
        replace_for_test05(&mut effective);
        let mut resolution = Resolution { settings: &effective, library, problems: Vec::new() };
        let plan = resolution.plan();
        (plan, resolution.problems)
    }
}

/// Applies audit TEST05: a performance run with the alternative seeds. Call it after the audit file
/// and before the settings are logged as requested; log a warning if `test05` is set.
///
/// Resolving applies it again, which changes nothing.
pub fn apply_test05(settings: &mut Settings) -> Vec<Change> {
    let before = settings.clone();
    if replace_for_test05(&mut settings.values) {
        for key in ["mode", "qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed"] {
            settings.record(key, Origin::Code("test05"));
        }
    }
    settings.changes_since(&before)
}

/// Raises the minimum query count to the formula of the rules, if the caller set a percentile other
/// than the default of the scenario and did not set the count. Values of the built-in table do not
/// count as set. A percentile near 1 needs more queries.
pub fn raise_query_count_for_percentile(settings: &mut Settings) -> Vec<Change> {
    let before = settings.clone();
    let (values, usual) = (&settings.values, TestSettings::default());
    let (key, percentile, default) = match values.scenario {
        Scenario::SingleStream => (
            "single_stream_target_latency_percentile",
            values.single_stream_target_latency_percentile,
            usual.single_stream_target_latency_percentile,
        ),
        Scenario::MultiStream => (
            "multi_stream_target_latency_percentile",
            values.multi_stream_target_latency_percentile,
            usual.multi_stream_target_latency_percentile,
        ),
        Scenario::Server => (
            "server_target_latency_percentile",
            values.server_target_latency_percentile,
            usual.server_target_latency_percentile,
        ),
        Scenario::Offline => return Vec::new(),
    };
    let is_free =
        |key| matches!(settings.origin(key), Some(Origin::Default | Origin::BuiltIn { .. }));
    let chosen = !is_free(key) && percentile != default;
    if chosen && is_free("min_query_count") && percentile > 0.0 && percentile < 1.0 {
        settings.values.min_query_count = early_stopping::minimum_query_count(percentile);
        settings.record("min_query_count", Origin::Code("query-count formula of the percentile"));
    }
    settings.changes_since(&before)
}

fn replace_for_test05(settings: &mut TestSettings) -> bool {
    if settings.test05 {
        settings.mode = TestMode::PerformanceOnly;
        settings.qsl_rng_seed = settings.test05_qsl_rng_seed;
        settings.sample_index_rng_seed = settings.test05_sample_index_rng_seed;
        settings.schedule_rng_seed = settings.test05_schedule_rng_seed;
    }
    settings.test05
}

/// State of a resolution: its input and the problems found so far.
pub(super) struct Resolution<'a> {
    pub(super) settings: &'a TestSettings,
    library: Library,
    pub(super) problems: Vec<SettingsProblem>,
}

/// Size of a query, number of queries, and how long they are issued.
struct Shape {
    samples_per_query: u64,
    min_query_count: u64,
    target_duration: Nanos,
    min_sample_count: u64,
}

impl Resolution<'_> {
    fn plan(&mut self) -> Plan {
        let s = self.settings;
        let performance_sample_count = self.performance_sample_count();
        let accuracy_sample_count = self.accuracy_sample_count();
        let target_qps = self.target_qps();
        let tokens = self.tokens();
        let load = self.load(tokens.is_some());
        let choice = self.choice(performance_sample_count);
        let shape = self.shape(target_qps, performance_sample_count);
        self.check_limits(&shape);
        self.check_trace_length(target_qps, &load, choice, &shape);
        let queries =
            if self.runs_performance() { shape.min_query_count } else { accuracy_sample_count };
        self.check_trace_end(target_qps, &load, queries);
        let early_stopping = self.criterion(load.percentile());
        Plan {
            mode: s.mode,
            target_qps,
            samples_per_query: shape.samples_per_query,
            max_async_queries: match &load {
                Load::Server(_) => s.server_max_async_queries,
                _ => 1,
            },
            target_duration: shape.target_duration,
            min_duration: nanos(s.min_duration_ms),
            max_duration: nanos(s.max_duration_ms),
            min_query_count: shape.min_query_count,
            max_query_count: s.max_query_count,
            min_sample_count: shape.min_sample_count,
            performance_sample_count,
            accuracy_sample_count,
            choice,
            concatenate_permutation: s.sample_concatenate_permutation,
            seeds: Seeds {
                qsl: s.qsl_rng_seed,
                sample_index: s.sample_index_rng_seed,
                schedule: s.schedule_rng_seed,
                accuracy_log: s.accuracy_log_rng_seed,
            },
            accuracy_log: AccuracyLog {
                probability: self.accuracy_log_probability(),
                sampling_target: s.accuracy_log_sampling_target,
            },
            tokens,
            early_stopping,
            trace_rules: s.trace_rules,
            continue_trace: s.continue_trace,
            response_deadline: nanos(s.response_deadline_ms),
            max_client_lag: s.max_client_lag_ns,
            performance_issue_same_index: s.performance_issue_same_index,
            print_timestamps: s.print_timestamps,
            repetition: self.repetition(&load),
            sessions: None,
            turn_interval: 0,
            steps: 1,
            ramp: 0,
            load,
        }
    }

    /// Adds a problem with these fields.
    pub(super) fn problem(
        &mut self,
        fields: &[&'static str],
        expected: impl Into<String>,
        change: impl Into<String>,
        in_reference: ReferenceBehavior,
    ) {
        let given = fields.iter().map(|&name| (name, self.given(name))).collect();
        let (expected, change) = (expected.into(), change.into());
        let reference_text = None;
        self.problems.push(SettingsProblem {
            given,
            expected,
            change,
            in_reference,
            reference_text,
        });
    }

    /// Sets the text of the reference's log for the last problem.
    pub(super) fn set_reference_text(&mut self, text: String) {
        let last = self.problems.last_mut().expect("a problem was collected just before");
        last.reference_text = Some(text);
    }

    fn given(&self, name: &str) -> String {
        match name {
            "library.total" => self.library.total.to_string(),
            "library.performance" => self.library.performance.to_string(),
            _ => {
                let field = FIELDS.iter().find(|f| f.name == name).expect("named as in FIELDS");
                shortened((field.get)(self.settings))
            }
        }
    }

    fn runs_performance(&self) -> bool {
        self.settings.mode != TestMode::AccuracyOnly
    }

    /// Returns the size of the performance set, at least 1.
    fn performance_sample_count(&mut self) -> u64 {
        let Library { total, performance } = self.library;
        let asked = self.settings.performance_sample_count_override;
        let stops = ReferenceBehavior::Stops { key: INVALID_SETTINGS };
        let expected_size = format!("1 to {} samples in the library", u32::MAX);
        if total == 0 {
            let change = "check where the samples come from";
            self.problem(&["library.total"], expected_size, change, stops);
        } else if total > u64::from(u32::MAX) {
            let change = "test with a part of the data set";
            self.problem(&["library.total"], expected_size, change, stops);
        } else if asked > total {
            self.problem(
                &["performance_sample_count_override", "library.total"],
                format!("at most the {total} samples of the library"),
                "lower it, or set it to 0 for what the library reports",
                ReferenceBehavior::Runs,
            );
        } else if asked == 0 && performance == 0 {
            self.problem(
                &["performance_sample_count_override", "library.performance"],
                "at least 1 performance sample",
                "set the override, or let the library report how many samples fit in memory",
                ReferenceBehavior::Replaced { by: format!("all {total} samples") },
            );
        }
        [asked, performance, total].into_iter().find(|&n| n > 0).unwrap_or(1)
    }

    /// Returns the number of samples of an accuracy run.
    fn accuracy_sample_count(&mut self) -> u64 {
        let total = self.library.total;
        let asked = self.settings.accuracy_sample_count_override;
        if asked > total && total > 0 {
            self.problem(
                &["accuracy_sample_count_override", "library.total"],
                format!("at most the {total} samples of the library"),
                "lower it, or set it to 0 for the whole library",
                ReferenceBehavior::Runs,
            );
        }
        if asked == 0 { total } else { asked }
    }

    fn choice(&mut self, performance_sample_count: u64) -> SampleChoice {
        let s = self.settings;
        let (unique, same) = (s.performance_issue_unique, s.performance_issue_same);
        let position = s.performance_issue_same_index;
        // The reference checks "same" first for Offline, "unique" first for other scenarios.
        let same_wins = same && (s.scenario == Scenario::Offline || !unique);
        let loaded = performance_sample_count.min(self.library.total.max(1));
        let beyond = position >= loaded;
        if same_wins && beyond {
            self.problem(
                &["performance_issue_same_index"],
                format!("a position below the {loaded} samples of the performance set"),
                "lower it",
                ReferenceBehavior::Replaced { by: "position 0".into() },
            );
        }
        if same && position >= performance_sample_count {
            if !same_wins {
                self.problem(
                    &["performance_issue_same_index", "performance_issue_unique"],
                    "an index within the performance set",
                    "lower it; it is not used, because each sample is issued once",
                    ReferenceBehavior::Runs,
                );
            }
            self.set_reference_text(format!(
                "Sample Idx to be repeated in performance_issue_same mode cannot be greater than \
                 loaded performance_sample_count. performance_issue_same_index: {position} \
                 performance_sample_count: {performance_sample_count}"
            ));
        }
        if unique && same {
            self.problem(
                &["performance_issue_unique", "performance_issue_same"],
                "at most one of them",
                "unset one",
                ReferenceBehavior::Runs,
            );
            self.set_reference_text(
                "Performance_issue_unique and performance_issue_same, both cannot be true at the \
                 same time. performance_issue_unique: 1 performance_issue_same: 1"
                    .into(),
            );
        }
        match (same_wins, unique) {
            (true, _) => SampleChoice::Same(if beyond { 0 } else { position }),
            (false, true) => SampleChoice::Unique,
            (false, false) => SampleChoice::Random,
        }
    }

    fn shape(&mut self, target_qps: f64, performance_sample_count: u64) -> Shape {
        let s = self.settings;
        let min_duration_s = s.min_duration_ms as f64 / 1000.0;
        let mut min_query_count = s.min_query_count;
        let mut target_duration = nanos(s.min_duration_ms);
        let samples_per_query = match s.scenario {
            Scenario::Offline if s.performance_issue_unique => performance_sample_count,
            // 1.1: the query is a tenth longer than the minimum duration.
            Scenario::Offline => min_query_count.max(truncated(1.1 * min_duration_s * target_qps)),
            Scenario::MultiStream => s.multi_stream_samples_per_query,
            Scenario::SingleStream | Scenario::Server => 1,
        };
        let samples_per_query = self.at_least_one_sample(samples_per_query);
        match s.scenario {
            Scenario::Offline => {
                min_query_count = 1;
                target_duration = 0;
            }
            Scenario::SingleStream if s.sample_concatenate_permutation => {
                // The reference pads by the library's own count, independent of the override, and
                // by a whole set even if no padding is needed.
                let set = [self.library.performance, performance_sample_count];
                let set = set.into_iter().find(|&n| n > 0).unwrap_or(1);
                let expected = truncated(2.0 * min_duration_s * target_qps);
                min_query_count = min_query_count.max(expected);
                min_query_count = min_query_count.saturating_add(set - min_query_count % set);
            }
            _ => min_query_count = self.at_least_one_query(min_query_count, target_duration),
        }
        Shape {
            samples_per_query,
            min_query_count,
            target_duration,
            min_sample_count: min_query_count.saturating_mul(samples_per_query),
        }
    }

    fn at_least_one_sample(&mut self, samples_per_query: u64) -> u64 {
        let one = ReferenceBehavior::Replaced { by: "1 sample in a query".into() };
        if samples_per_query > 0 {
            return samples_per_query;
        }
        if self.settings.scenario == Scenario::MultiStream {
            self.problem(
                &["multi_stream_samples_per_query"],
                "at least 1 sample",
                "a query without samples is never complete",
                one,
            );
        } else if self.runs_performance() {
            self.problem(
                &["min_duration_ms", "min_query_count", "offline_expected_qps"],
                "a query of at least 1 sample",
                "raise min_query_count, or min_duration_ms and offline_expected_qps",
                one,
            );
        }
        1
    }

    fn at_least_one_query(&mut self, min_query_count: u64, target_duration: Nanos) -> u64 {
        let s = self.settings;
        if min_query_count > 0 || !self.runs_performance() || s.performance_issue_unique {
            return min_query_count;
        }
        let one = ReferenceBehavior::Replaced { by: "a minimum of 1 query".into() };
        if s.scenario == Scenario::Server && s.sample_concatenate_permutation {
            self.problem(
                &["min_query_count", "sample_concatenate_permutation"],
                "at least 1 query, for the permutations to be generated",
                "raise min_query_count",
                one,
            );
            return 1;
        }
        if target_duration == 0 {
            self.problem(
                &["min_query_count", "min_duration_ms"],
                "at least one of them above 0",
                "else no query is issued",
                one,
            );
            return 1;
        }
        0
    }

    fn check_limits(&mut self, shape: &Shape) {
        let s = self.settings;
        if s.max_duration_ms > 0 && s.max_duration_ms < s.min_duration_ms {
            self.problem(
                &["max_duration_ms", "min_duration_ms"],
                "a maximum of at least the minimum",
                "such a run ends before it can be valid; set the maximum to 0 for none",
                ReferenceBehavior::Runs,
            );
        }
        if s.max_query_count > 0 && s.max_query_count < shape.min_query_count {
            let needed = shape.min_query_count;
            self.problem(
                &["max_query_count", "min_query_count"],
                format!("a maximum of at least the {needed} queries of a valid run"),
                "raise it, or set it to 0 for none",
                ReferenceBehavior::Runs,
            );
        }
    }

    /// Refuses what would exhaust memory, or loop for ever for a period of 0 ns.
    fn check_trace_length(
        &mut self,
        target_qps: f64,
        load: &Load,
        choice: SampleChoice,
        shape: &Shape,
    ) {
        if !self.runs_performance() || choice == SampleChoice::Unique {
            return;
        }
        let (rate_field, duration_s) = match load {
            Load::SingleStream { .. } => ("single_stream_expected_latency_ns", 2.0),
            Load::MultiStream { .. } if self.has_interval() => ("multi_stream_target_qps", 2.0),
            Load::MultiStream { .. } => ("multi_stream_expected_latency_ns", 2.0),
            Load::Server(_) => ("server_target_qps", 1.0),
            Load::Offline => ("offline_expected_qps", 0.0),
        };
        let duration_s = duration_s * (shape.target_duration as f64 / SECOND as f64);
        // The trace of a closed loop has its expected rate.
        let paced = !matches!(load, Load::Server(s) if matches!(s.arrivals, Arrivals::Replay(_)));
        // Gaps are whole ns, so that above 1e9 queries/s all queries would be due at once.
        let stands_still = target_qps > SECOND as f64;
        let in_duration = if duration_s > 0.0 && paced {
            if stands_still { f64::INFINITY } else { duration_s * target_qps }
        } else {
            0.0
        };
        let queries = in_duration.max(shape.min_query_count as f64);
        if queries * shape.samples_per_query as f64 <= MAX_TRACE_SAMPLES as f64 {
            return;
        }
        let mut fields = vec![rate_field, "min_duration_ms", "min_query_count"];
        if matches!(load, Load::MultiStream { .. }) {
            fields.push("multi_stream_samples_per_query");
        }
        self.problem(
            &fields,
            format!("a trace of at most {MAX_TRACE_SAMPLES} samples"),
            "lower the rate, the duration or the count",
            ReferenceBehavior::Stops { key: INVALID_SETTINGS },
        );
    }

    /// Rejects rates at which the last of `queries` is not due for decades.
    fn check_trace_end(&mut self, target_qps: f64, load: &Load, queries: u64) {
        let Load::Server(server) = load else { return };
        let has_rate = !matches!(server.arrivals, Arrivals::Concurrency(_) | Arrivals::Replay(_));
        if has_rate && queries as f64 / target_qps > LONGEST_TRACE_S {
            self.problem(
                &["server_target_qps"],
                format!(
                    "a rate at which the {queries} queries of the test are due within 30 years"
                ),
                "raise the rate",
                ReferenceBehavior::Runs,
            );
        }
    }

    fn accuracy_log_probability(&mut self) -> f64 {
        let given = self.settings.accuracy_log_probability;
        let share = if given.is_nan() { 0.0 } else { given.clamp(0.0, 1.0) };
        if share != given {
            self.problem(
                &["accuracy_log_probability"],
                "a fraction from 0 to 1",
                "1 logs every response",
                ReferenceBehavior::Runs,
            );
        }
        share
    }

    fn criterion(&mut self, percentile: f64) -> Criterion {
        let s = self.settings;
        let defaults = TestSettings::default();
        let (mut confidence, mut tolerance) =
            (s.early_stopping_confidence, s.early_stopping_tolerance);
        if !(confidence > 0.0 && confidence < 1.0) {
            confidence = defaults.early_stopping_confidence;
            self.problem(
                &["early_stopping_confidence"],
                "a fraction above 0 and below 1",
                "the rules use 0.99",
                ReferenceBehavior::Replaced { by: format!("the default {confidence}") },
            );
        }
        if !(tolerance >= 0.0 && tolerance < percentile) {
            tolerance = defaults.early_stopping_tolerance;
            self.problem(
                &["early_stopping_tolerance"],
                format!("a fraction of at least 0 and below the percentile {percentile}"),
                "the rules use 0",
                ReferenceBehavior::Replaced { by: format!("the default {tolerance}") },
            );
        }
        Criterion { policy: s.early_stopping, confidence, tolerance }
    }
}

fn nanos(milliseconds: u64) -> Nanos {
    milliseconds.saturating_mul(MILLISECOND)
}

/// Truncates towards zero, as C++ does for values in range. Other values saturate, and NaN becomes
/// 0.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "documented above")]
fn truncated(value: f64) -> u64 {
    value as u64
}

/// Shortens a value for a message: a recorded trace is identified by its beginning.
fn shortened(value: String) -> String {
    const CHARS_MAX: usize = 60;
    match value.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}...", &value[..end]),
        None => value,
    }
}
