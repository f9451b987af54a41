//! One simulated run: settings, service times and faults, drawn from a seed.

use std::fmt;

use dyno_loadgen::plan::Library;
use dyno_loadgen::settings::{Arrivals, EarlyStopping, Scenario, TestMode, TestSettings};

use super::law::{Law, ServiceTimes};
use crate::rng::Stream;

dyno_loadgen::named_enum! {
    /// Kind of fault.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Fault {
        /// A sample is never answered.
        Lost = "lost",
        /// A sample is answered again, at once or later.
        Duplicate = "duplicate",
        /// An answer waits for a random time and is overtaken by others.
        Reordered = "reordered",
        /// An answer takes a thousand times as long.
        Late = "late",
        /// A sample is answered again long after its run.
        AfterEnd = "after-end",
        /// A completion names an id that the run never issued.
        Unknown = "unknown",
        /// The system reports that it could not answer.
        Failed = "failed",
        /// Nothing is answered for a while.
        Stall = "stall",
        /// Nothing is answered any more.
        Crash = "crash",
        /// The client sleeps, so that it issues and notices late.
        ClientPause = "client-pause",
        /// The wall clock jumps.
        WallStep = "wall-step",
    }
}

impl Fault {
    /// Returns the kind with this name.
    ///
    /// # Errors
    /// The names that exist.
    pub fn named(name: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|fault| fault.name() == name);
        found.ok_or_else(|| format!("expected one of {}, found `{name}`", known()))
    }
}

/// Simplifications of a drawn case.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Simplification {
    /// Upper limit of the number of queries that the case aims at.
    pub queries: Option<u64>,
    /// The only faults left.
    pub faults: Option<Vec<Fault>>,
    /// The law of the service times.
    pub law: Option<Law>,
}

impl fmt::Display for Simplification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(queries) = self.queries {
            write!(f, " --queries {queries}")?;
        }
        if let Some(faults) = &self.faults {
            let names: Vec<_> = faults.iter().map(|fault| fault.name()).collect();
            write!(
                f,
                " --faults {}",
                if names.is_empty() { "none".into() } else { names.join(",") }
            )?;
        }
        if let Some(law) = self.law {
            write!(f, " --law {}", law.name())?;
        }
        Ok(())
    }
}

/// A run to simulate.
#[derive(Debug, Clone)]
pub struct Case {
    /// Seed of all runs.
    pub seed: u64,
    /// Number of the run.
    pub index: u64,
    /// Settings for Dyno.
    pub settings: TestSettings,
    /// Sizes of the sample library.
    pub library: Library,
    /// How long the system works on a sample.
    pub service: ServiceTimes,
    /// Samples that the system works on at a time; 0 is no limit.
    pub servers: usize,
    /// Faults, each with its probability per sample (or per call, for stalls and pauses).
    pub faults: Vec<(Fault, f64)>,
}

impl Case {
    /// Returns run `index` of `seed`, simplified.
    pub fn draw(seed: u64, index: u64, simple: &Simplification) -> Self {
        let mut draw = Stream::new(seed, index, 0);
        let most = if draw.chance(0.02) { 8_000.0 } else { 1_200.0 };
        let drawn = draw.log_uniform(1.0, most) as u64;
        let queries = simple.queries.map_or(drawn, |limit| drawn.min(limit)).max(1);
        let law = draw.pick(&Law::ALL);
        let servers = draw.pick(&[0, 0, 1, 1, 2, 7]);
        let scenario = draw.pick(Scenario::ALL);
        let mean_ns = draw.log_uniform(50.0, 2e7);
        let service = ServiceTimes { law: simple.law.unwrap_or(law), mean_ns, shape: draw.unit() };
        let mut settings = TestSettings { scenario, ..TestSettings::default() };
        draw_common(&mut draw, &mut settings, queries);
        let per_query = match scenario {
            Scenario::SingleStream => draw_single_stream(&mut draw, &mut settings, mean_ns),
            Scenario::MultiStream => draw_multi_stream(&mut draw, &mut settings, mean_ns),
            Scenario::Server => draw_server(&mut draw, &mut settings, mean_ns, servers, queries),
            Scenario::Offline => draw_offline(&mut draw, &mut settings, queries),
        };
        draw_lengths(&mut draw, &mut settings, queries, per_query);
        let performance = draw.log_uniform(1.0, 64.0) as u64;
        let library = Library { total: performance * (1 + draw.below(3)), performance };
        let mut faults = draw_faults(seed, index);
        if let Some(only) = &simple.faults {
            faults.retain(|(fault, _)| only.contains(fault));
        }
        Self { seed, index, settings, library, service, servers, faults }
    }

    /// Returns the probability of a fault.
    pub fn rate(&self, fault: Fault) -> f64 {
        self.faults.iter().find(|(kind, _)| *kind == fault).map_or(0.0, |(_, rate)| *rate)
    }

    /// Returns the stream of random numbers of a fault.
    pub fn stream(&self, fault: Fault) -> Stream {
        Stream::new(self.seed, self.index, 10 + fault as u64)
    }

    /// Returns whether the client can be late or its wall clock can jump.
    pub fn has_faulty_client(&self) -> bool {
        self.rate(Fault::ClientPause) > 0.0 || self.rate(Fault::WallStep) > 0.0
    }
}

fn draw_faults(seed: u64, index: u64) -> Vec<(Fault, f64)> {
    let mut draw = Stream::new(seed, index, 1);
    let kinds = draw.pick(&[0, 0, 1, 1, 2, 3, 5]);
    let mut faults: Vec<(Fault, f64)> = Vec::new();
    for _ in 0..kinds {
        let kind = draw.pick(&Fault::ALL);
        let rate = draw.log_uniform(0.000_5, 0.5);
        if faults.iter().all(|(known, _)| *known != kind) {
            faults.push((kind, rate));
        }
    }
    faults
}

fn draw_common(draw: &mut Stream, settings: &mut TestSettings, queries: u64) {
    settings.qsl_rng_seed = draw.bits();
    settings.sample_index_rng_seed = draw.bits();
    settings.schedule_rng_seed = draw.bits();
    settings.sample_concatenate_permutation = draw.chance(0.15);
    settings.performance_issue_unique = draw.chance(0.03);
    settings.performance_issue_same = draw.chance(0.05) && !settings.performance_issue_unique;
    settings.continue_trace = draw.chance(0.2);
    settings.early_stopping =
        if draw.chance(0.05) { EarlyStopping::Extend } else { EarlyStopping::AfterRun };
    settings.mode =
        if draw.chance(0.15) { TestMode::SubmissionRun } else { TestMode::PerformanceOnly };
    settings.max_query_count = if draw.chance(0.2) { 1 + draw.below(2 * queries) } else { 0 };
    settings.response_deadline_ms =
        if draw.chance(0.25) { draw.log_uniform(1.0, 2_000.0) as u64 } else { 0 };
}

fn draw_percentile(draw: &mut Stream, usual: f64) -> f64 {
    let any = (1.0 + draw.unit() * 997.0).round() / 1_000.0;
    draw.pick(&[usual, usual, 0.5, 0.9, 0.95, 0.97, 0.99, 0.999, any])
}

/// Returns the expected time per query, ns.
fn draw_single_stream(draw: &mut Stream, settings: &mut TestSettings, mean_ns: f64) -> f64 {
    settings.single_stream_target_latency_percentile = draw_percentile(draw, 0.9);
    settings.single_stream_expected_latency_ns = mean_ns * draw.log_uniform(0.6, 3.0);
    mean_ns
}

fn draw_multi_stream(draw: &mut Stream, settings: &mut TestSettings, mean_ns: f64) -> f64 {
    settings.multi_stream_target_latency_percentile = draw_percentile(draw, 0.99);
    settings.multi_stream_expected_latency_ns = mean_ns * draw.log_uniform(0.6, 3.0);
    settings.multi_stream_samples_per_query = draw.pick(&[1, 2, 3, 8, 8, 8, 17]);
    mean_ns
}

fn draw_server(
    draw: &mut Stream,
    settings: &mut TestSettings,
    mean_ns: f64,
    servers: usize,
    queries: u64,
) -> f64 {
    let load = draw.log_uniform(0.05, 1.5);
    let gap_ns = (mean_ns / (load * servers.max(1) as f64)).clamp(20.0, 5e7);
    settings.server_target_qps = 1e9 / gap_ns;
    settings.server_target_latency_percentile = draw_percentile(draw, 0.99);
    settings.server_target_latency_ns = (mean_ns * draw.log_uniform(0.5, 300.0)) as u64;
    settings.server_coalesce_queries = draw.chance(0.3);
    settings.server_max_async_queries = if draw.chance(0.15) { 1 + draw.below(60) } else { 0 };
    settings.server_arrivals = match draw.below(10) {
        0 => Arrivals::Constant,
        1 => Arrivals::Gamma(draw.log_uniform(0.2, 5.0)),
        2 => Arrivals::Burst(1 + draw.below(20) as u32),
        3 => Arrivals::Concurrency(1 + draw.below(20) as u32),
        4 => {
            let mut at = 0;
            let next = |_| {
                at += (-draw.unit().ln() * gap_ns) as u64;
                at
            };
            Arrivals::Replay((0..queries).map(next).collect())
        }
        _ => Arrivals::Poisson,
    };
    gap_ns
}

fn draw_offline(draw: &mut Stream, settings: &mut TestSettings, queries: u64) -> f64 {
    // A query has at least rate x duration x 1.1 samples.
    settings.offline_expected_qps = draw.log_uniform(1.0, 1e6);
    1e9 / settings.offline_expected_qps * draw.log_uniform(0.5, 2.0) * (1.0 + 1.0 / queries as f64)
}

/// Sets counts and durations such that the run has about `queries` queries.
fn draw_lengths(draw: &mut Stream, settings: &mut TestSettings, queries: u64, per_query_ns: f64) {
    let whole_ms = queries as f64 * per_query_ns / 1e6;
    settings.min_query_count = match draw.below(3) {
        0 => queries,
        1 => 1 + draw.below(queries),
        _ => 1,
    };
    settings.min_duration_ms = match draw.below(3) {
        0 => 0,
        1 => (whole_ms * draw.unit()) as u64,
        _ => whole_ms as u64,
    };
    settings.max_duration_ms = match draw.below(4) {
        0 => 1 + (whole_ms * draw.unit() * 2.0) as u64,
        _ => 0,
    };
}
