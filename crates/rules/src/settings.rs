//! Load generator settings that a round fixes for a benchmark in a scenario.

use dyno_loadgen::clock::{Nanos, SECOND};
use dyno_loadgen::settings::{
    self, EarlyStopping, Origin, Repetition, Setting as _, Settings, TestSettings,
};

use super::{ArrivalPattern, Benchmark, Round, RuleScenario, ScenarioRules};

/// Setting for which 0 means the whole data set.
const WHOLE_SET_IS_0: &str = "performance_sample_count_override";

/// Permitted departure from a fixed value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leeway {
    /// None: the value must be equal.
    None,
    /// Upwards: the value is a minimum.
    More,
    /// Downwards: the value is a maximum.
    Less,
}

/// A setting whose value a round fixes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixedSetting {
    /// Name of the setting.
    pub key: &'static str,
    /// Value, in the text form of the setting.
    pub value: String,
    /// Permitted departure.
    pub leeway: Leeway,
}

impl FixedSetting {
    /// Whether another value of the setting departs further than permitted.
    pub fn is_broken_by(&self, value: &str) -> bool {
        if value == self.value {
            return false;
        }
        let number = |text: &str| match text.parse::<f64>() {
            // 0 selects the whole data set, so it is larger than any count.
            Ok(0.0) if self.key == WHOLE_SET_IS_0 => Ok(f64::INFINITY),
            read => read,
        };
        let (Ok(fixed), Ok(given)) = (number(&self.value), number(value)) else {
            return true;
        };
        match self.leeway {
            Leeway::None => true,
            Leeway::More => given < fixed,
            Leeway::Less => given > fixed,
        }
    }
}

impl Round {
    /// Returns the settings that the round fixes for a run. Settings that the submitter chooses,
    /// such as the rate of Server, are not included.
    pub fn settings(&self, benchmark: &Benchmark, scenario: RuleScenario) -> Vec<FixedSetting> {
        let mut fixed = List(Vec::new());
        fixed.seeds(self);
        fixed.samples(benchmark, scenario);
        if let Some(rules) = self.scenarios.get(&scenario) {
            fixed.lengths(self, benchmark, scenario, rules);
            fixed.shape(benchmark, rules, scenario);
        }
        fixed.bounds(self, benchmark, scenario);
        fixed.exactly("trace_rules", &self.trace_rules().show());
        fixed.0
    }

    /// Sets every setting that the round fixes, with the round as its origin.
    ///
    /// # Panics
    /// Panics if a setting rejects its value. Tests set every value of every round.
    pub fn apply(&self, settings: &mut Settings, benchmark: &Benchmark, scenario: RuleScenario) {
        let origin = Origin::Rules(format!("round {}, {}", self.version, benchmark.name));
        for fixed in self.settings(benchmark, scenario) {
            let set = settings.set(fixed.key, &fixed.value, origin.clone());
            set.expect("tests set every value of every round");
        }
    }
}

/// Settings collected so far.
struct List(Vec<FixedSetting>);

impl List {
    fn add(&mut self, key: &'static str, value: &impl ToString, leeway: Leeway) {
        self.0.push(FixedSetting { key, value: value.to_string(), leeway });
    }

    fn exactly(&mut self, key: &'static str, value: &impl ToString) {
        self.add(key, value, Leeway::None);
    }

    fn seeds(&mut self, round: &Round) {
        self.exactly("qsl_rng_seed", &round.seeds.qsl);
        self.exactly("sample_index_rng_seed", &round.seeds.sample_index);
        self.exactly("schedule_rng_seed", &round.seeds.schedule);
        if let Some(seeds) = &round.test05_seeds {
            self.exactly("test05_qsl_rng_seed", &seeds.qsl);
            self.exactly("test05_sample_index_rng_seed", &seeds.sample_index);
            self.exactly("test05_schedule_rng_seed", &seeds.schedule);
        }
    }

    fn samples(&mut self, benchmark: &Benchmark, scenario: RuleScenario) {
        let rows = &benchmark.loadgen;
        let interactive =
            rows.interactive_samples.filter(|_| scenario == RuleScenario::Interactive);
        let loaded = interactive.or(rows.performance_samples).or(benchmark.performance_samples);
        // 0 selects the whole data set.
        let loaded = if rows.loads_all { Some(0) } else { loaded };
        if let Some(loaded) = loaded {
            self.add(WHOLE_SET_IS_0, &loaded, Leeway::More);
        }
        let accuracy = &benchmark.accuracy_samples;
        let scored = accuracy.get(scenario.name()).or_else(|| accuracy.get("all"));
        self.exactly("accuracy_sample_count_override", scored.unwrap_or(&0));
        self.exactly("sample_concatenate_permutation", &benchmark.equal_issue);
        // Only audits set these, and an audit's plan records it.
        self.exactly("performance_issue_same", &false);
        self.exactly("performance_issue_unique", &false);
    }

    fn lengths(
        &mut self,
        round: &Round,
        benchmark: &Benchmark,
        scenario: RuleScenario,
        rules: &ScenarioRules,
    ) {
        if let Some(duration) = round.min_duration_ms(benchmark, scenario) {
            self.add("min_duration_ms", &duration, Leeway::More);
        }
        let counted = benchmark.min_queries.get(&scenario).copied();
        let queries = match scenario {
            // LoadGen interprets this setting as the number of samples of the single query.
            RuleScenario::Offline => {
                let own = benchmark.loadgen.offline_samples.or(benchmark.offline_samples);
                Some(own.unwrap_or(round.offline_samples))
            }
            // Early stopping decides. LoadGen's own minimum remains, unless the checker requires
            // fewer.
            _ if rules.stops_early => {
                let usual = TestSettings::default().min_query_count;
                Some(rules.min_queries.unwrap_or(counted.unwrap_or(usual).min(usual)))
            }
            _ => counted,
        };
        if let Some(queries) = queries {
            self.add("min_query_count", &queries, Leeway::More);
        }
    }

    fn shape(&mut self, benchmark: &Benchmark, rules: &ScenarioRules, scenario: RuleScenario) {
        if scenario == RuleScenario::MultiStream {
            if let Some(samples) = rules.samples_per_query {
                self.exactly("multi_stream_samples_per_query", &samples);
            }
            let interval = benchmark.latency.get(&scenario);
            let interval = interval.filter(|_| rules.arrivals == ArrivalPattern::FixedInterval);
            self.exactly("multi_stream_target_qps", &interval.map_or(0.0, |ns| rate_of(*ns)));
        }
        if rules.percentile.is_some() {
            let stopping =
                if rules.stops_early { EarlyStopping::AfterRun } else { EarlyStopping::Never };
            self.exactly("early_stopping", &stopping);
            if rules.stops_early {
                let usual = TestSettings::default();
                self.add(
                    "early_stopping_confidence",
                    &usual.early_stopping_confidence,
                    Leeway::More,
                );
                self.add("early_stopping_tolerance", &usual.early_stopping_tolerance, Leeway::Less);
            }
        }
        let runs = |runs: u64| u32::try_from(runs).unwrap_or(u32::MAX);
        // A result without a bound needs no confirmation.
        let has_bound = benchmark.latency.contains_key(&scenario);
        let repetition = match &rules.confirmation {
            Some(confirmation) if has_bound => {
                Repetition::Confirm { runs: runs(confirmation.runs), decrement: None }
            }
            None if rules.runs > 1 => Repetition::Minimum(runs(rules.runs)),
            _ => Repetition::Once,
        };
        self.exactly("repetition", &repetition.show());
    }

    fn bounds(&mut self, round: &Round, benchmark: &Benchmark, scenario: RuleScenario) {
        let key = match scenario {
            RuleScenario::SingleStream => Some("single_stream_target_latency_percentile"),
            RuleScenario::MultiStream => Some("multi_stream_target_latency_percentile"),
            RuleScenario::Server | RuleScenario::Interactive => {
                Some("server_target_latency_percentile")
            }
            RuleScenario::Offline => None,
        };
        if let Some((key, percentile)) = key.zip(round.percentile(benchmark, scenario)) {
            self.add(key, &percentile, Leeway::More);
        }
        // If any scenario has bounds on tokens, all scenarios report token latencies.
        let has_tokens = !benchmark.token_latency.is_empty() || benchmark.tokens_measured;
        self.exactly("use_token_latencies", &has_tokens);
        if !matches!(scenario, RuleScenario::Server | RuleScenario::Interactive) {
            return;
        }
        self.exactly("server_arrivals", &settings::Arrivals::Poisson.show());
        if let Some(bounds) = benchmark.token_latency.get(&scenario) {
            self.add("server_ttft_latency", &bounds.ttft, Leeway::Less);
            self.add("server_tpot_latency", &bounds.tpot, Leeway::Less);
        } else {
            let table_bound = benchmark.loadgen.server_latency;
            let bound = table_bound.or_else(|| benchmark.latency.get(&scenario).copied());
            if let Some(bound) = bound {
                self.add("server_target_latency_ns", &bound, Leeway::Less);
            }
        }
    }
}

/// Returns the rate, in queries/s, of one query per interval.
#[expect(clippy::cast_precision_loss, reason = "intervals are far below 2^53 ns")]
fn rate_of(interval: Nanos) -> f64 {
    SECOND as f64 / interval as f64
}
