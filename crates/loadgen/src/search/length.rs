//! How long runs must be, so that their length does not decide whether they keep a limit.
//!
//! A queue near its capacity fills and empties slowly. A run that ends before a queue could form keeps a
//! wide limit at any load, even above the capacity. For random arrivals and service times, the queue
//! whose time in the system exceeds a bound `B` with probability `a` forgets its state within about
//! `4 B² load / ln² a`. Bounds for which that takes longer than `16 / (tolerance² load)` are reached
//! within half a tolerance of the capacity, so that runs need not be longer.

use super::{Block, LONGEST, Limit, Observation, Peak, Probe, Purpose, Quantity, Search, Unit};
use crate::backlog::Growth;
use crate::clock::{Nanos, SECOND};
use crate::record::Record;

/// Difference of two loads near the capacity that runs of the greatest length of a memory hardly show, in
/// tolerances: the standard deviation of their arrivals and completions is `sqrt(2 / (load length))`.
pub const RESOLUTION: f64 = 0.354;

/// Length of a full run, in times within which the queue forgets its state.
const FULL_MEMORIES: u64 = 4;
/// Minimum number of queries of a refining run, as a multiple of the number of which one may be over the
/// limit: with the allowed share, 5 % of such runs have no query over it.
const LEAST_EVENTS: f64 = 3.0;
/// Least number of queries up to which a full run is made longer after one that failed, likewise.
const MOST_EVENTS: f64 = 100.0;
/// Maximum minimum of the length of a refining run, as a divisor of the time limit of the search.
const PARTS: u64 = 60;
/// Refining runs after which a search may find that its load has no effect on errors.
const LEAST_FLAT_RUNS: usize = 24;
/// Minimum number of queries at the lowest and at the highest loads, likewise.
const FLAT_EVENTS: f64 = 20.0;
/// Share of errors at the lowest loads that is clearly more than allowed, as a multiple.
const CLEARLY_OVER: f64 = 3.0;
/// Share of errors at the highest loads that is clearly more than that at the lowest, as a multiple.
const CLEARLY_MORE: f64 = 2.0;

impl Search {
    /// Returns how long a queue takes to forget its state, ns, if the peak is at this load; 0 without a
    /// limit on a time that includes waiting.
    fn memory(&self, load: f64) -> Nanos {
        if self.rules.unit == Unit::Whole {
            return 0;
        }
        let seconds = |limit: &Limit| {
            let bound = limit.bound as f64 / SECOND as f64;
            4.0 * bound.powi(2) * load / limit.allowed.ln().powi(2)
        };
        let bounded = self.rules.limits.iter().filter(|limit| limit.quantity.waits());
        // The limit with the shortest memory is reached at the lowest load.
        let Some(least) = bounded.map(seconds).reduce(f64::min) else { return 0 };
        let near_capacity = 16.0 / (self.rules.tolerance.powi(2) * load);
        (least.min(near_capacity) * SECOND as f64) as Nanos
    }

    /// Returns whether a limit is so wide that the first runs are too short to miss it near the peak.
    pub(super) fn is_wide_at(&self, load: f64) -> bool {
        self.memory(load) > self.rules.short
    }

    /// Returns whether a run at a rate that kept every limit fails by its backlog. If its limits are so wide
    /// that a growing queue may keep them until its end, a full run passes only if its backlog returned to
    /// its earlier level, and a refining run if its backlog is not likely to grow.
    pub fn fails_by_backlog(&self, probe: &Probe, record: &Record) -> bool {
        if probe.purpose == Purpose::Bracket || !self.is_wide_at(probe.load) {
            return false;
        }
        let Some(growth) = Growth::of_record(record) else { return false };
        match probe.purpose {
            Purpose::Confirm { .. } => !growth.returned,
            Purpose::Bracket | Purpose::Refine => growth.is_likely(),
        }
    }

    /// Returns the minimum and the maximum length of a refining run at this load, ns.
    pub fn refining_at(&self, load: f64) -> [Nanos; 2] {
        let short = self.rules.short;
        let most = self.rules.max_time / PARTS;
        let queries = match self.rules.unit {
            Unit::Rate => LEAST_EVENTS / self.strictest_share(),
            Unit::Whole => 0.0,
        };
        let by_count = (queries / load * SECOND as f64) as Nanos;
        let memory = self.memory(load);
        let least = short.max(memory.max(by_count).min(most));
        let longer = memory.saturating_mul(FULL_MEMORIES).max(by_count.saturating_mul(LONGEST));
        [least, self.longest().max(least).max(longer.min(most))]
    }

    /// Returns the least share that a limit other than that on errors allows; 1 without one.
    fn strictest_share(&self) -> f64 {
        let limits = self.rules.limits.iter().filter(|limit| limit.quantity != Quantity::Errors);
        limits.map(|limit| limit.allowed).fold(1.0, f64::min)
    }

    /// Returns the length of a full run at this load by the settings of the run, ns.
    fn set_length(&self, load: f64) -> Nanos {
        let by_count = match self.rules.unit {
            Unit::Rate => self.rules.full_queries as f64 / load * SECOND as f64,
            Unit::Whole => 0.0,
        };
        self.rules.full.max(by_count as Nanos)
    }

    /// Returns the length of the first full run at this load, ns.
    pub fn full_at(&self, load: f64) -> Nanos {
        let certain = match self.rules.unit {
            Unit::Rate => self.rules.certain_queries as f64 / load * SECOND as f64,
            Unit::Whole => 0.0,
        };
        let memories = self.memory(load).saturating_mul(FULL_MEMORIES);
        self.set_length(load).max(certain as Nanos).max(memories)
    }

    /// Returns the length of a full run after this many that failed, ns. Early stopping demands a lower
    /// share over the limit of a run with few queries, so that each is four times as long as the one before,
    /// until it has enough to pass slightly below the peak. It takes at most half of the time that is left.
    pub(super) fn full_after(&self, failed: u32, peak: &Peak, load: f64) -> Nanos {
        let first = self.full_at(load);
        if self.rules.unit == Unit::Whole || failed == 0 {
            return first;
        }
        let queries = MOST_EVENTS / self.strictest_share();
        let queries = queries.max(peak.queries_that_pass(&self.rules));
        // The queries of a run are in memory.
        let enough = queries.min(self.rules.most_queries as f64) / load * SECOND as f64;
        let longer = first.saturating_mul(1 << (2 * failed).min(16));
        let most = self.left() / (2 * u64::from(self.rules.full_runs));
        first.max(longer.min(enough as Nanos).min(most))
    }

    /// Returns the length of a full run, ns, if it must be longer than the settings of the run make it.
    pub fn extended_length(&self, probe: &Probe) -> Option<Nanos> {
        let is_longer = probe.duration > self.set_length(probe.load);
        (is_longer && self.rules.unit == Unit::Rate).then_some(probe.duration)
    }

    /// Returns whether clearly more queries fail at the lowest loads than a limit on errors allows, and
    /// hardly more at the highest ones.
    pub(super) fn fails_at_any_load(&self) -> bool {
        let mut limits = self.rules.limits.iter().enumerate();
        self.refinements() >= LEAST_FLAT_RUNS
            && limits.any(|(at, limit)| {
                limit.quantity == Quantity::Errors && self.is_flat(at, limit.allowed)
            })
    }

    fn is_flat(&self, limit: usize, allowed: f64) -> bool {
        let counts = |run: &Observation| (run.probe.load, Block::sum(&self.counted(run, limit)));
        let mut runs: Vec<(f64, Block)> = self.observations.iter().map(counts).collect();
        runs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let least = FLAT_EVENTS / allowed;
        let all: Vec<Block> = runs.into_iter().map(|(_, block)| block).collect();
        let Some((lowest, few)) = pooled(all.iter(), least) else { return false };
        let Some((highest, more)) = pooled(all.iter().rev(), least) else { return false };
        few + more <= all.len()
            && lowest > CLEARLY_OVER * allowed
            && highest < CLEARLY_MORE * lowest
    }
}

/// Returns the share over a limit of the first runs that together have this many queries, and the number
/// of these runs.
fn pooled<'a>(runs: impl Iterator<Item = &'a Block>, least: f64) -> Option<(f64, usize)> {
    let mut sum = Block::default();
    for (at, block) in runs.enumerate() {
        sum = Block::sum(&[sum, *block]);
        if sum.queries as f64 >= least {
            return Some((sum.over as f64 / sum.queries as f64, at + 1));
        }
    }
    None
}
