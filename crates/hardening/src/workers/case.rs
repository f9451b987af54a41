//! One run with workers: settings, and what goes wrong with one of them.

use dyno_loadgen::settings::{Arrivals, Scenario, TestMode, TestSettings};

use crate::rng::Stream;

dyno_loadgen::named_enum! {
    /// What is wrong with a worker.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Trouble {
        /// Nothing.
        Honest = "honest",
        /// It is slow at each step.
        Lagging = "lagging",
        /// Its connection is cut after a number of bytes.
        Cut = "cut",
        /// Its connection goes silent after a number of bytes.
        Silent = "silent",
        /// It leaves at some moment.
        Leaving = "leaving",
        /// It reports queries with another number of samples than the plan has.
        OtherShape = "other-shape",
        /// It reports columns that other workers do not have, or lacks theirs.
        OtherColumns = "other-columns",
        /// It reports times at the end of all times.
        HugeTimes = "huge-times",
        /// It reports answers before their queries.
        EarlyAnswers = "early-answers",
        /// It reports samples that were not loaded.
        OtherSamples = "other-samples",
        /// It reports one failure twice.
        FailedTwice = "failed-twice",
        /// It reports counts of misuse and of queries that overflow when they are added.
        HugeCounts = "huge-counts",
        /// It reports fewer queries than its share.
        FewerQueries = "fewer-queries",
        /// It reports more queries than its share.
        MoreQueries = "more-queries",
    }
}

impl Trouble {
    /// Returns whether the record contradicts itself or the plan. Repeated queries and overstated
    /// counts do not: the coordinator trusts a worker that they happened.
    pub fn is_noticed(self) -> bool {
        self.is_lie() && !matches!(self, Self::HugeCounts | Self::MoreQueries)
    }

    /// Returns whether the worker reports a record that is not what it measured.
    pub fn is_lie(self) -> bool {
        !matches!(self, Self::Honest | Self::Lagging | Self::Cut | Self::Silent | Self::Leaving)
    }
}

/// A run with workers.
#[derive(Debug, Clone)]
pub struct Case {
    /// Settings of the run.
    pub settings: TestSettings,
    /// Workers that share the load.
    pub workers: u32,
    /// What is wrong with one of them.
    pub trouble: Trouble,
    /// Seed of the details.
    pub details: u64,
}

impl Case {
    /// Returns run `index` of `seed`.
    pub fn draw(seed: u64, index: u64) -> Self {
        let mut draw = Stream::new(seed, index, 70);
        let trouble = Trouble::ALL[(index % Trouble::ALL.len() as u64) as usize];
        let queries = draw.log_uniform(8.0, 800.0) as u64;
        let mut settings = TestSettings {
            scenario: draw.pick(&[Scenario::Server, Scenario::Server, Scenario::Offline]),
            mode: TestMode::PerformanceOnly,
            server_target_qps: 2_000.0,
            server_target_latency_ns: 1_000_000_000,
            offline_expected_qps: 2_000.0,
            min_query_count: queries,
            min_duration_ms: draw.below(200),
            qsl_rng_seed: draw.bits(),
            sample_index_rng_seed: draw.bits(),
            schedule_rng_seed: draw.bits(),
            accuracy_log_rng_seed: draw.bits(),
            accuracy_log_probability: draw.pick(&[0.0, 0.0, 0.2]),
            ..TestSettings::default()
        };
        if draw.chance(0.3) {
            let is_steady = draw.chance(0.5);
            settings.server_arrivals =
                if is_steady { Arrivals::Constant } else { Arrivals::Burst(4) };
        }
        Self { settings, workers: 1 + draw.below(3) as u32, trouble, details: draw.bits() }
    }
}
