//! One simulated run of a text server with one or several tenants, drawn from a seed.

use std::sync::Arc;

use dyno_loadgen::clock::{MILLISECOND, Nanos};
use dyno_loadgen::plan::{Chain, Library, Plan};
use dyno_loadgen::settings::{Arrivals, Scenario, TestMode, TestSettings};

use super::answer::{Form, Pace};
use super::oracle;
use crate::rng::Stream;

/// A run to simulate.
#[derive(Debug, Clone)]
pub struct Case {
    /// Seed of all runs.
    pub seed: u64,
    /// Number of the run.
    pub index: u64,
    /// Requests that the server works on at a time; 0 is no limit.
    pub slots: usize,
    /// The tenants.
    pub tenants: Vec<TenantCase>,
}

/// A tenant of a run.
#[derive(Debug, Clone)]
pub struct TenantCase {
    /// Settings for Dyno.
    pub settings: TestSettings,
    /// Samples in the library.
    pub samples: u64,
    /// Times of its answers.
    pub pace: Pace,
    /// Conversations.
    pub conversations: Option<oracle::Conversations>,
    /// Length of the ramp.
    pub ramp_ns: Nanos,
    /// Limits of goodput.
    pub limits: oracle::Limits,
    /// Forms of answers other than plain streams, each with its probability.
    pub forms: Vec<(Form, f64)>,
}

impl Case {
    /// Returns run `index` of `seed`.
    pub fn draw(seed: u64, index: u64) -> Self {
        let mut draw = Stream::new(seed, index, 400);
        let slots = draw.pick(&[0, 0, 1, 2, 8, 32]);
        let count = draw.pick(&[1, 1, 1, 2, 3, 4]);
        let mean_ns = draw.log_uniform(1e4, 1e9);
        let tenants = (0..count)
            .map(|tenant| {
                // Tenants have their own paces and loads, and work of their own weight.
                let mut own = Stream::new(seed, index, 410 + tenant);
                let weight = own.log_uniform(0.2, 5.0);
                TenantCase::draw(&mut own, mean_ns * weight, slots)
            })
            .collect();
        Self { seed, index, slots, tenants }
    }
}

impl TenantCase {
    fn draw(draw: &mut Stream, mean_ns: f64, slots: usize) -> Self {
        let queries = draw.log_uniform(1.0, 150.0) as u64;
        let scenario = match draw.below(10) {
            0 => Scenario::SingleStream,
            1 => Scenario::Offline,
            _ => Scenario::Server,
        };
        let has_conversations = scenario == Scenario::Server && draw.chance(0.4);
        let pace = Pace {
            first_ns: mean_ns * draw.log_uniform(0.2, 1.0),
            gap_ns: mean_ns * draw.log_uniform(0.005, 0.1),
            // In virtual time, the next turn follows the completion of the one before it.
            has_tail: !has_conversations,
            is_exact: draw.chance(0.3),
        };
        let mut tenant = Self {
            settings: TestSettings { scenario, ..TestSettings::default() },
            samples: draw.log_uniform(1.0, 40.0) as u64,
            pace,
            conversations: None,
            ramp_ns: 0,
            limits: draw_limits(draw, &pace),
            forms: draw_forms(draw, scenario),
        };
        tenant.draw_settings(draw, mean_ns, queries);
        match scenario {
            Scenario::Server => tenant.draw_server(draw, mean_ns, queries, slots),
            Scenario::Offline => {
                tenant.settings.min_duration_ms = 0;
                tenant.settings.min_query_count = queries;
            }
            _ => tenant.settings.single_stream_expected_latency_ns = mean_ns,
        }
        if has_conversations {
            tenant.draw_conversations(draw, mean_ns);
        }
        let is_recorded = matches!(tenant.settings.server_arrivals, Arrivals::Replay(_));
        let is_once = tenant.settings.performance_issue_unique;
        if scenario == Scenario::Server && !is_recorded && !is_once && draw.chance(0.25) {
            let length = tenant.settings.min_duration_ms.max(1) * MILLISECOND;
            tenant.ramp_ns = (length as f64 * draw.log_uniform(0.01, 1.0)) as Nanos;
        }
        tenant.lift_bounds(draw);
        tenant
    }

    fn draw_settings(&mut self, draw: &mut Stream, mean_ns: f64, queries: u64) {
        let s = &mut self.settings;
        s.mode = TestMode::PerformanceOnly;
        s.sample_index_rng_seed = draw.bits();
        s.schedule_rng_seed = draw.bits();
        s.continue_trace = true;
        let percentile = draw.pick(&[0.5, 0.5, 0.8, 0.8, 0.9, 0.95, 0.99]);
        s.single_stream_target_latency_percentile = percentile;
        s.server_target_latency_percentile = percentile;
        s.server_target_latency_ns = (mean_ns * draw.log_uniform(0.5, 500.0)) as u64;
        s.use_token_latencies = draw.chance(0.8);
        s.server_ttft_latency = (self.pace.first_ns * draw.log_uniform(0.5, 500.0)) as u64 + 1;
        s.server_tpot_latency = (self.pace.gap_ns * draw.log_uniform(0.2, 100.0)) as u64 + 1;
        s.min_query_count = if draw.chance(0.5) { queries } else { 1 };
        s.min_duration_ms = (queries as f64 * mean_ns / 1e6 * draw.unit()) as u64;
    }

    fn lift_bounds(&mut self, draw: &mut Stream) {
        let s = &mut self.settings;
        let bounds = [
            &mut s.server_target_latency_ns,
            &mut s.server_ttft_latency,
            &mut s.server_tpot_latency,
        ];
        let is_any_lifted = draw.chance(0.2);
        for bound in bounds {
            if is_any_lifted && draw.chance(0.7) {
                *bound = oracle::NO_BOUND;
            }
        }
    }

    fn draw_server(&mut self, draw: &mut Stream, mean_ns: f64, queries: u64, slots: usize) {
        let load = draw.log_uniform(0.05, 2.0);
        let gap_ns = mean_ns / (load * slots.max(1) as f64);
        let s = &mut self.settings;
        s.server_target_qps = 1e9 / gap_ns;
        s.min_duration_ms = (queries as f64 * gap_ns / 1e6 * draw.unit()) as u64;
        s.server_arrivals = match draw.below(8) {
            0 => Arrivals::Constant,
            1 => Arrivals::Gamma(draw.log_uniform(0.2, 5.0)),
            2 => Arrivals::Burst(1 + draw.below(20) as u32),
            3 | 4 => {
                let in_flight = 1 + draw.below(12);
                s.min_duration_ms = (queries as f64 * mean_ns / 1e6 / in_flight as f64) as u64;
                Arrivals::Concurrency(in_flight as u32)
            }
            5 | 6 => {
                let mut at = 0;
                // Whole steps, so that events coincide.
                let step = if draw.chance(0.5) { (gap_ns as u64).max(1) } else { 1 };
                let next = |_| {
                    let now = at;
                    at += (-draw.unit().ln() * gap_ns) as u64 / step * step;
                    now
                };
                Arrivals::Replay((0..queries).map(next).collect())
            }
            _ => Arrivals::Poisson,
        };
    }

    fn draw_conversations(&mut self, draw: &mut Stream, mean_ns: f64) {
        let least = match self.settings.server_arrivals {
            Arrivals::Concurrency(in_flight) => f64::from(in_flight),
            _ => 1.0,
        };
        let count = (least + draw.log_uniform(1.0, 12.0) - 1.0) as usize;
        let think_ns = mean_ns * draw.log_uniform(0.01, 10.0);
        let has_thinks = draw.chance(0.8);
        let mut first = 0;
        let chain = |_| {
            let turns = draw.log_uniform(1.0, 8.0) as usize;
            let think = |_| {
                let is_long = has_thinks && draw.chance(0.9);
                if is_long { (think_ns * draw.exponential()) as u64 } else { 0 }
            };
            let thinks: Vec<u64> = (0..turns).map(think).collect();
            let begin = first;
            first += turns as u32;
            (begin, thinks)
        };
        let chains: Vec<_> = (0..count).map(chain).collect();
        self.samples = u64::from(first);
        let is_once = draw.chance(0.3);
        self.settings.performance_issue_unique = is_once;
        let is_closed = matches!(self.settings.server_arrivals, Arrivals::Concurrency(_));
        let every_ns = if is_closed && draw.chance(0.3) {
            (mean_ns * draw.log_uniform(0.3, 10.0)) as u64 + 1
        } else {
            0
        };
        self.conversations = Some(oracle::Conversations { chains, every_ns, is_once });
    }

    /// Returns the plan; `None` if Dyno rejects it.
    pub fn plan(&self) -> Option<Plan> {
        let library = Library { total: self.samples, performance: self.samples };
        let mut plan = Plan::resolve(&self.settings, library).ok()?;
        if let Some(conversations) = &self.conversations {
            let chain = |(first, thinks): &(u32, Vec<u64>)| Chain {
                first: *first,
                thinks: thinks.clone().into(),
            };
            let chains: Arc<[Chain]> = conversations.chains.iter().map(chain).collect();
            plan = plan.with_sessions(chains).ok()?;
            if conversations.every_ns > 0 {
                plan = plan.with_turn_interval(conversations.every_ns).ok()?;
            }
        }
        if self.ramp_ns > 0 {
            plan = plan.with_ramp(self.ramp_ns).ok()?;
        }
        Some(plan)
    }

    /// Returns the settings in the oracle's words.
    pub fn oracle_settings(&self) -> oracle::Settings {
        let s = &self.settings;
        let (scenario, percentile) = match s.scenario {
            Scenario::Server => {
                (crate::oracle::Scenario::Server, s.server_target_latency_percentile)
            }
            Scenario::Offline => (crate::oracle::Scenario::Offline, 0.99),
            _ => {
                let percentile = s.single_stream_target_latency_percentile;
                (crate::oracle::Scenario::SingleStream, percentile)
            }
        };
        let arrivals = match &s.server_arrivals {
            Arrivals::Constant => oracle::Arrivals::Constant(1e9 / s.server_target_qps),
            Arrivals::Concurrency(in_flight) => oracle::Arrivals::InFlight(u64::from(*in_flight)),
            Arrivals::Replay(times) => {
                // The trace ends with the minimum of queries and of the duration (SPEC 3.3).
                let is_enough =
                    |count: &usize| times[*count - 1] >= s.min_duration_ms * MILLISECOND;
                let least = (s.min_query_count as usize).max(1);
                let enough =
                    (least..=times.len()).find(is_enough).filter(|_| !s.performance_issue_unique);
                let count = enough.unwrap_or(times.len());
                oracle::Arrivals::Recorded(times[..count].to_vec())
            }
            _ => oracle::Arrivals::Random,
        };
        // Offline has one query, of so many samples.
        let is_offline = s.scenario == Scenario::Offline;
        oracle::Settings {
            scenario,
            arrivals,
            percentile,
            latency_bound_ns: s.server_target_latency_ns,
            token_bounds: s
                .use_token_latencies
                .then_some((s.server_ttft_latency, s.server_tpot_latency)),
            min_queries: if is_offline { 1 } else { s.min_query_count },
            min_samples: s.min_query_count,
            min_duration_ns: s.min_duration_ms * MILLISECOND,
            conversations: self.conversations.clone(),
            ramp_ns: self.ramp_ns,
            limits: self.limits,
        }
    }
}

fn draw_limits(draw: &mut Stream, pace: &Pace) -> oracle::Limits {
    let kinds = 1 + draw.below(7);
    let mut limit = |bit: u64, ns: f64| {
        let value = (ns * draw.log_uniform(0.3, 10.0)) as u64 + 1;
        (kinds & bit != 0).then_some(value)
    };
    oracle::Limits {
        ttft: limit(1, pace.first_ns * 2.0),
        tpot: limit(2, pace.gap_ns),
        e2el: limit(4, pace.first_ns * 3.0),
    }
}

fn draw_forms(draw: &mut Stream, scenario: Scenario) -> Vec<(Form, f64)> {
    let kinds = draw.pick(&[0, 0, 1, 1, 2, 4]);
    let mut forms: Vec<(Form, f64)> = Vec::new();
    for _ in 0..kinds {
        let form = draw.pick(&Form::ALL);
        let rate = draw.log_uniform(0.002, 0.5);
        // Only Server has cancelled requests.
        let is_possible = form != Form::Cancel || scenario == Scenario::Server;
        if is_possible && forms.iter().all(|(known, _)| *known != form) {
            forms.push((form, rate));
        }
    }
    forms
}
