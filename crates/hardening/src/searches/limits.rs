//! Searches of `dyno search` for a peak that is known: each run is drawn from the share of queries over
//! the bound at its load.

use dyno_loadgen::clock::{MILLISECOND, SECOND};
use dyno_loadgen::search::{
    self, BLOCKS, Block, End, Limit, Observation, Probe, Quantity, Rules, Search, Step, Unit,
};

use super::oracle::{Purpose, SearchReport, SearchRun, SearchSettings};
use crate::rng::Stream;

/// A search to play.
#[derive(Debug, Clone, Copy)]
pub struct SearchCase {
    /// Settings in the oracle's words.
    pub settings: SearchSettings,
    /// Share of the queries that may be over the bound.
    pub allowed: f64,
    /// The odds of being over the bound grow with this power of the load; unused for a step.
    pub power: f64,
}

/// Draws a search.
#[must_use]
pub fn draw(draw: &mut Stream) -> SearchCase {
    let is_whole = draw.chance(0.3);
    let is_step = draw.chance(0.5);
    let peak =
        if is_whole { draw.log_uniform(1.5, 500.0) } else { draw.log_uniform(10.0, 5_000.0) };
    let from = match (is_whole, draw.chance(0.15)) {
        (true, _) => 1.0,
        (false, true) => peak * draw.log_uniform(1.1, 20.0),
        (false, false) => peak * draw.log_uniform(0.02, 0.9),
    };
    let to = draw.chance(0.2).then(|| (peak * draw.log_uniform(0.5, 8.0)).max(from + 1.0));
    let settings = SearchSettings {
        from,
        to: if is_whole { to.map(f64::round) } else { to },
        is_whole,
        tolerance: draw.pick(&[0.01, 0.02, 0.05]),
        short_ns: draw.log_uniform(2.0, 20.0) as u64 * SECOND,
        full_ns: draw.log_uniform(60.0, 600.0) as u64 * SECOND,
        max_time_ns: draw.log_uniform(300.0, 400_000.0) as u64 * SECOND,
        confirmations: draw.pick(&[0, 1, 4, 4]),
        peak,
        is_step,
    };
    SearchCase {
        settings,
        allowed: draw.pick(&[0.01, 0.02, 0.1]),
        power: draw.log_uniform(10.0, 60.0),
    }
}

impl SearchCase {
    fn rules(&self) -> Rules {
        let s = &self.settings;
        Rules {
            limits: vec![Limit {
                quantity: Quantity::Latency,
                allowed: self.allowed,
                // Short against every run, so that a wide limit lengthens none.
                bound: MILLISECOND,
            }],
            from: s.from,
            to: s.to,
            unit: if s.is_whole { Unit::Whole } else { Unit::Rate },
            tolerance: s.tolerance,
            short: s.short_ns,
            full: s.full_ns,
            full_queries: 0,
            certain_queries: 0,
            full_runs: 1,
            most_queries: u64::MAX,
            max_time: s.max_time_ns,
            confirmations: s.confirmations as u32,
        }
    }

    fn share_over(&self, load: f64) -> f64 {
        let s = &self.settings;
        if s.is_step {
            return f64::from(u8::from(load > s.peak));
        }
        let odds = self.allowed / (1.0 - self.allowed) * (load / s.peak).powf(self.power);
        odds / (1.0 + odds)
    }

    /// Returns the counts of a run.
    fn blocks(&self, probe: &Probe, draw: &mut Stream) -> Vec<Block> {
        let share = self.share_over(probe.load);
        // Enough queries that chance does not hide a peak of steep odds.
        let rate = if self.settings.is_whole { probe.load * 20.0 } else { probe.load };
        let queries = (rate * probe.duration as f64 / SECOND as f64 / BLOCKS as f64).ceil();
        let block = |_| {
            let (mean, spread) = (queries * share, (queries * share * (1.0 - share)).sqrt());
            let over = (mean + spread * draw.normal()).round().clamp(0.0, queries);
            Block { queries: queries as u64, over: over as u64 }
        };
        (0..BLOCKS).map(block).collect()
    }

    /// Returns whether a run keeps its limit: a full run as a whole, others without their first fifth,
    /// of which at most `--short` does not count (docs/concepts/search.md).
    fn passes(&self, probe: &Probe, blocks: &[Block]) -> bool {
        let ignored = (probe.duration / 5).min(self.settings.short_ns);
        let ignored = match probe.purpose {
            search::Purpose::Confirm { .. } => 0,
            _ => (ignored * BLOCKS as u64).div_ceil(probe.duration),
        };
        let counted = &blocks[ignored as usize..];
        let queries: u64 = counted.iter().map(|block| block.queries).sum();
        let over: u64 = counted.iter().map(|block| block.over).sum();
        over as f64 <= self.allowed * queries as f64
    }
}

/// Plays a search. Returns its runs and what Dyno reports.
#[must_use]
pub fn play(case: &SearchCase, draw: &mut Stream) -> (Vec<SearchRun>, SearchReport) {
    let mut search = Search::new(case.rules());
    let mut runs = Vec::new();
    let outcome = loop {
        let probe = match search.next() {
            Step::Run(probe) => probe,
            Step::Done(outcome) => break outcome,
        };
        let blocks = case.blocks(&probe, draw);
        let passed = case.passes(&probe, &blocks);
        let purpose = match probe.purpose {
            search::Purpose::Bracket => Purpose::Bracket,
            search::Purpose::Refine => Purpose::Refine,
            search::Purpose::Confirm { .. } => Purpose::Confirm,
        };
        runs.push(SearchRun {
            purpose,
            load: probe.load,
            duration_ns: probe.duration,
            took_ns: probe.duration,
            passed,
        });
        let (took, blocks) = (probe.duration, vec![blocks]);
        search.observe(Observation { probe, took, overloaded: false, passed, blocks });
    };
    let report = SearchReport {
        state: state(outcome.end),
        peak: outcome.peak.map(|peak| [peak.load, peak.low, peak.high]),
        confirmed: outcome.confirmed,
    };
    (runs, report)
}

/// Returns the state in `search.json`.
fn state(end: End) -> &'static str {
    match end {
        End::Confirmed => "confirmed",
        End::Estimated => "estimated",
        End::Unconfirmed => "unconfirmed",
        End::OutOfTime => "out_of_time",
        End::Unclear => "unclear",
        End::NothingPasses => "nothing_passes",
        End::NothingFails => "nothing_fails",
    }
}
