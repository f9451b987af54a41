//! One run with workers: settings, and what goes wrong with one of them.

use dyno_loadgen::settings::{Arrivals, Scenario, TestMode, TestSettings};

use crate::rng::Stream;

/// What is wrong with a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing.
    Honest,
    /// It is slow at each step.
    Lagging,
    /// Its connection is cut after a number of bytes.
    Cut,
    /// Its connection goes silent after a number of bytes.
    Silent,
    /// It leaves at some moment.
    Leaving,
    /// It reports queries with another number of samples than the plan has.
    OtherShape,
    /// It reports columns that other workers do not have, or lacks theirs.
    OtherColumns,
    /// It reports times at the end of all times.
    HugeTimes,
    /// It reports answers before their queries.
    EarlyAnswers,
    /// It reports samples that were not loaded.
    OtherSamples,
    /// It reports one failure twice.
    FailedTwice,
    /// It reports counts of misuse and of queries that overflow when they are added.
    HugeCounts,
    /// It reports fewer queries than its share.
    FewerQueries,
    /// It reports more queries than its share.
    MoreQueries,
}

impl Trouble {
    /// All kinds.
    pub const ALL: [Self; 14] = [
        Self::Honest,
        Self::Lagging,
        Self::Cut,
        Self::Silent,
        Self::Leaving,
        Self::OtherShape,
        Self::OtherColumns,
        Self::HugeTimes,
        Self::EarlyAnswers,
        Self::OtherSamples,
        Self::FailedTwice,
        Self::HugeCounts,
        Self::FewerQueries,
        Self::MoreQueries,
    ];

    /// Returns the name in outputs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Honest => "honest",
            Self::Lagging => "lagging",
            Self::Cut => "cut",
            Self::Silent => "silent",
            Self::Leaving => "leaving",
            Self::OtherShape => "other-shape",
            Self::OtherColumns => "other-columns",
            Self::HugeTimes => "huge-times",
            Self::EarlyAnswers => "early-answers",
            Self::OtherSamples => "other-samples",
            Self::FailedTwice => "failed-twice",
            Self::HugeCounts => "huge-counts",
            Self::FewerQueries => "fewer-queries",
            Self::MoreQueries => "more-queries",
        }
    }

    /// Returns whether the record contradicts itself or the plan. Repeated queries and overstated
    /// counts do not: the coordinator trusts a worker that they happened.
    #[must_use]
    pub fn is_noticed(self) -> bool {
        self.is_lie() && !matches!(self, Self::HugeCounts | Self::MoreQueries)
    }

    /// Returns whether the worker reports a record that is not what it measured.
    #[must_use]
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
    #[must_use]
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
