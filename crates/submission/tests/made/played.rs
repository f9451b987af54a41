//! Runs tests of the load generator in virtual time and writes their logs.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;

use dyno_loadgen::clock::{Nanos, WallTime};
use dyno_loadgen::drive::sim::VirtualTime;
use dyno_loadgen::log::{LogFiles, LogSettings};
use dyno_loadgen::plan::{Library, Plan};
use dyno_loadgen::qsl::SampleLibrary;
use dyno_loadgen::record::Outcome;
use dyno_loadgen::run::{RecordRetention, Tenant, run};
use dyno_loadgen::settings::{Scenario, Settings, TestSettings};
use dyno_loadgen::sut::{ResponseId, SimulatedCompletion, SimulatedQuery, SimulatedSystem};
use dyno_rules::Round;

/// Number of samples in the performance set, and in the data set of most tests.
pub const SAMPLES: u64 = 1_024;

/// A system with constant speed: the first sample of a query takes `first_ns`, each further one
/// `next_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SteadySystem {
    pub first_ns: Nanos,
    pub next_ns: Nanos,
}

/// 50 ms, and 200 samples/s.
pub const STEADY: SteadySystem = SteadySystem { first_ns: 50_000_000, next_ns: 5_000_000 };

impl SteadySystem {
    /// Returns settings by the rules of the round, which the system passes.
    pub fn settings(self, round: &Round, scenario: Scenario) -> TestSettings {
        let per_second = 1e9 / self.next_ns as f64;
        TestSettings {
            scenario,
            min_duration_ms: 600_000,
            min_query_count: match scenario {
                Scenario::MultiStream => 662,
                Scenario::Offline => 24_576,
                Scenario::SingleStream | Scenario::Server => 1_024,
            },
            single_stream_expected_latency_ns: self.first_ns as f64,
            multi_stream_expected_latency_ns: self.first_ns as f64,
            server_target_qps: per_second / 20.0,
            server_target_latency_ns: self.first_ns + 2 * self.next_ns,
            offline_expected_qps: per_second,
            qsl_rng_seed: round.seeds.qsl,
            sample_index_rng_seed: round.seeds.sample_index,
            schedule_rng_seed: round.seeds.schedule,
            ..TestSettings::default()
        }
    }

    /// Runs a test on a data set with this many samples, and writes its logs.
    pub fn play(self, settings: &TestSettings, samples: u64, folder: &Path) {
        let mut system = RunningSystem { speed: self, pending: VecDeque::new() };
        let sizes = Library { total: samples, performance: SAMPLES };
        let (plan, _) = Plan::resolve_as_reference(settings, sizes);
        let settings = Settings::from(settings.clone());
        let library = Images(samples);
        let tenant = Tenant { settings, plan, library: &library, messages: Vec::new() };
        let mut time = VirtualTime::new(&mut system, WallTime { unix_ns: 0 });
        let logs = run(&mut time, &[tenant], RecordRetention::Every, &mut |_| {});
        fs::create_dir_all(folder).unwrap();
        let settings = LogSettings { outdir: folder.to_owned(), ..LogSettings::default() };
        LogFiles::open(&settings, None, 0).unwrap().write(&logs[0]).unwrap();
    }
}

/// A library with this many samples.
struct Images(u64);

impl SampleLibrary for Images {
    fn name(&self) -> &str {
        "images"
    }
    fn total_sample_count(&self) -> usize {
        self.0 as usize
    }
    fn performance_sample_count(&self) -> usize {
        SAMPLES as usize
    }
}

/// State of a steady system during a run.
struct RunningSystem {
    speed: SteadySystem,
    pending: VecDeque<(Nanos, ResponseId)>,
}

impl SimulatedSystem for RunningSystem {
    fn name(&self) -> &str {
        "steady"
    }
    fn issue(&mut self, now: Nanos, query: &SimulatedQuery<'_>) {
        for at in 0..query.indices.len() as u64 {
            let id = ResponseId(query.first.0 + at);
            let takes = self.speed.first_ns + at * self.speed.next_ns;
            self.pending.push_back((now + takes, id));
        }
    }
    fn next_event(&self) -> Option<Nanos> {
        self.pending.front().map(|(at, _)| *at)
    }
    fn advance(&mut self, now: Nanos, completions: &mut Vec<SimulatedCompletion>) {
        while self.pending.front().is_some_and(|(at, _)| *at <= now) {
            let (_, id) = self.pending.pop_front().unwrap();
            let outcome = Outcome::Ok { tokens: 0 };
            completions.push(SimulatedCompletion { id, first_token_at: None, outcome });
        }
    }
}
