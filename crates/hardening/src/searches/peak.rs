//! Searches by `FindPeakPerformance` of a system with a known peak, played in virtual time.

use std::collections::BTreeMap;

use dyno_loadgen::clock::{MILLISECOND, Nanos, WallTime};
use dyno_loadgen::drive::sim::VirtualTime;
use dyno_loadgen::peak::End;
use dyno_loadgen::plan::{Library, Plan};
use dyno_loadgen::record::Outcome;
use dyno_loadgen::run::{RecordRetention, Tenant, run};
use dyno_loadgen::settings::{Arrivals, Scenario, Settings, TestMode, TestSettings};
use dyno_loadgen::sut::{ResponseId, SimulatedCompletion, SimulatedQuery, SimulatedSystem};

use super::oracle::{PeakReport, PeakRun, PeakSettings};
use crate::rng::Stream;
use crate::simulate::system::CountingLibrary;

/// Draws the settings of a search.
#[must_use]
pub fn draw(draw: &mut Stream) -> PeakSettings {
    let service_ns = draw.log_uniform(1e5, 1e7) as u64;
    let servers = draw.pick(&[1, 1, 2, 5]);
    let capacity = servers as f64 * 1e9 / service_ns as f64;
    let queries = draw.log_uniform(300.0, 3_000.0);
    let duration_ms = (queries / capacity * 1e3).max(10.0) as u64;
    PeakSettings {
        // Some first rates are too high.
        from: capacity * draw.log_uniform(0.03, 1.3),
        step: draw.log_uniform(0.2, 3.0),
        decimals: draw.pick(&[0, 1, 2]),
        percentile: draw.pick(&[0.5, 0.9, 0.97, 0.99]),
        bound_ns: (service_ns as f64 * draw.log_uniform(1.5, 30.0)) as u64,
        duration_ns: duration_ms * MILLISECOND,
        service_ns,
        servers,
    }
}

/// Servers that each take the same time for a query.
struct Servers {
    service_ns: Nanos,
    free_at: Vec<Nanos>,
    pending: BTreeMap<(Nanos, u64), ResponseId>,
    order: u64,
    /// By run: latencies.
    runs: Vec<(u64, Vec<Nanos>)>,
}

impl SimulatedSystem for Servers {
    fn name(&self) -> &str {
        "servers"
    }

    fn issue(&mut self, now: Nanos, query: &SimulatedQuery<'_>) {
        let run = query.first.run();
        if self.runs.last().is_none_or(|(last, _)| *last != run) {
            self.runs.push((run, Vec::new()));
            // Each run begins with idle servers.
            self.free_at.fill(now);
        }
        let first_free = self.free_at.iter_mut().min().expect("there are servers");
        *first_free = (*first_free).max(now) + self.service_ns;
        let done = *first_free;
        self.order += 1;
        self.pending.insert((done, self.order), query.first);
        if let Some((_, latencies)) = self.runs.last_mut() {
            latencies.push(done - now);
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        self.pending.first_key_value().map(|((at, _), _)| *at)
    }

    fn advance(&mut self, now: Nanos, completions: &mut Vec<SimulatedCompletion>) {
        while let Some(next) = self.pending.first_entry().filter(|next| next.key().0 <= now) {
            let (id, outcome) = (next.remove(), Outcome::Ok { tokens: 0 });
            completions.push(SimulatedCompletion { id, first_token_at: None, outcome });
        }
    }
}

/// Plays a search. Returns its runs and what Dyno reports.
pub fn play(s: &PeakSettings) -> Option<(Vec<PeakRun>, PeakReport)> {
    let settings = TestSettings {
        scenario: Scenario::Server,
        mode: TestMode::FindPeakPerformance,
        server_target_qps: s.from,
        server_target_latency_ns: s.bound_ns,
        server_target_latency_percentile: s.percentile,
        server_arrivals: Arrivals::Constant,
        server_find_peak_qps_decimals_of_precision: s.decimals,
        server_find_peak_qps_boundary_step_size: s.step,
        min_duration_ms: s.duration_ns / MILLISECOND,
        min_query_count: 1,
        ..TestSettings::default()
    };
    let plan = Plan::resolve(&settings, Library { total: 8, performance: 8 }).ok()?;
    let library = CountingLibrary { total: 8, performance: 8, loads: 0.into() };
    let mut system = Servers {
        service_ns: s.service_ns,
        free_at: vec![0; s.servers as usize],
        pending: BTreeMap::new(),
        order: 0,
        runs: Vec::new(),
    };
    let tenant = Tenant {
        settings: Settings::from(settings),
        plan,
        library: &library,
        messages: Vec::new(),
    };
    let log = {
        let mut driver = VirtualTime::new(&mut system, WallTime { unix_ns: 0 });
        run(&mut driver, &[tenant], RecordRetention::Every, &mut |_| {}).swap_remove(0)
    };
    let rates = log.runs().map(|run| run.plan.target_qps);
    let runs = rates.zip(system.runs).map(|(rate, (_, latencies))| PeakRun { rate, latencies });
    let found = match log.search.as_ref()?.end? {
        End::Found { load } => Some(load),
        End::Failed { .. } => None,
    };
    let result = log.result().map(|run| run.plan.target_qps);
    Some((runs.collect(), PeakReport { found, result }))
}
