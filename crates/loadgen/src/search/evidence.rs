//! What the counts of runs show without a model: whether a load clearly misses a limit, and whether the
//! loads below a peak clearly keep it.
//!
//! Failures and the tail of the service take a part of the allowed share at any load. If that part is
//! large, short runs far below the peak miss a limit by chance. No such run decides.

use super::fit::long_run;
use super::{Block, LEAST_REFINEMENTS, NEARLY, Observation, Peak, Purpose, Quantity, Search, Unit};
use crate::clock::SECOND;

/// Distance from the allowed number of queries over a limit that is no chance, in standard deviations.
const CLEAR: f64 = 2.6;
/// Length of all runs at a load that does not clearly miss a limit, after which it counts as one that
/// passes, in lengths of the first runs.
pub const LONG_ENOUGH: u64 = 5;

/// Weight of the dispersion of all runs against that within the runs on a side, as a number of runs.
const WEIGHT: f64 = 2.0;

/// Distance of the load of a run that shows whether there is a limit at the peak, as a factor.
const CHECK: f64 = 1.25;
/// Number of refining runs of which one is such a run if the peak is nearly known.
const CHECK_EVERY: usize = 3;
/// Number of refining runs far from the peak on one side of it, after which further ones would not show that
/// there is a limit, either.
const MOST_CHECKS: usize = 12;

/// Side of a peak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The loads below it.
    Below,
    /// The loads above it.
    Above,
}

/// What all runs at a load show together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Result {
    /// They keep every limit.
    Passed,
    /// They miss a limit by no more than chance explains, or do not measure one, and are short.
    Open,
    /// They clearly miss a limit.
    Failed,
}

/// Returns whether clearly more queries are over a limit than it allows.
pub fn is_clear_miss(all: Block, allowed: f64) -> bool {
    let expected = allowed * all.queries as f64;
    all.over as f64 - expected > CLEAR * (expected * (1.0 - allowed)).sqrt() + 1.0
}

impl Search {
    /// Returns the counts of all runs at this load for a limit.
    pub(super) fn pooled_at(&self, load: f64, limit: usize) -> Block {
        let runs = self.observations.iter().filter(|run| run.probe.load == load);
        let counts: Vec<Block> = runs.map(|run| self.total(run, limit)).collect();
        Block::sum(&counts)
    }

    /// Returns the counts of a run for a limit.
    pub(super) fn total(&self, run: &Observation, limit: usize) -> Block {
        Block::sum(&self.counted(run, limit))
    }

    /// Returns what all runs at this load show.
    pub(super) fn result_at(&self, load: f64) -> Result {
        let (mut passes, mut fails) = (true, false);
        for (at, limit) in self.rules.limits.iter().enumerate() {
            let all = self.pooled_at(load, at);
            // Answers of one token show nothing about the time per output token.
            let is_measured = all.queries > 0 || limit.quantity != Quantity::TimePerOutputToken;
            passes &= is_measured && limit.is_kept(&[all]);
            fails |= is_clear_miss(all, limit.allowed);
        }
        let runs = self.observations.iter().filter(|run| run.probe.load == load);
        let lengths = runs.map(|run| run.probe.duration).fold(0_u64, u64::saturating_add);
        let is_long = lengths >= self.rules.short.saturating_mul(LONG_ENOUGH);
        match (fails, passes || is_long) {
            (true, _) => Result::Failed,
            (false, true) => Result::Passed,
            (false, false) => Result::Open,
        }
    }

    /// Returns a side of the peak on which no runs show that its loads keep all limits, or miss one.
    pub(super) fn unshown_side(&self, peak: &Peak) -> Option<Side> {
        // The neighbors of a step show both sides.
        if self.rules.unit == Unit::Whole || self.step().is_some() {
            return None;
        }
        let limits = self.rules.limits.iter().enumerate();
        let shows = |side: Side| {
            let found = limits
                .clone()
                .map(|(at, limit)| self.deviation(side, at, limit.allowed, peak) >= CLEAR);
            match side {
                Side::Below => found.into_iter().all(|is_shown| is_shown),
                Side::Above => found.into_iter().any(|is_shown| is_shown),
            }
        };
        let is_highest = self.rules.to.is_some_and(|to| peak.high >= to);
        if !shows(Side::Below) {
            return Some(Side::Below);
        }
        (!is_highest && !shows(Side::Above)).then_some(Side::Above)
    }

    /// Returns a load at which a run shows whether there is a limit at the peak, if the peak is known well
    /// enough but no runs on one side of it show that.
    pub(super) fn check(&self, peak: &Peak) -> Option<f64> {
        let refinements = self.refinements();
        let tolerance = self.rules.tolerance;
        let is_due = peak.spread <= tolerance
            || (peak.spread <= NEARLY * tolerance && refinements.is_multiple_of(CHECK_EVERY));
        let is_due = refinements >= LEAST_REFINEMENTS && is_due;
        let side = self.unshown_side(peak).filter(|_| is_due)?;
        Some(match side {
            Side::Below => peak.middle / CHECK,
            Side::Above => peak.middle * CHECK,
        })
    }

    /// Returns whether enough refining runs were far from the peak on this side of it. Until then, those near
    /// the peak may hide it: their counts scatter around the allowed share.
    pub(super) fn is_checked(&self, side: Side, peak: &Peak) -> bool {
        let is_far = |run: &&Observation| match side {
            Side::Below => run.probe.load <= peak.middle / CHECK.sqrt(),
            Side::Above => run.probe.load >= peak.middle * CHECK.sqrt(),
        };
        self.refining().filter(is_far).count() >= MOST_CHECKS
    }

    /// Returns the lowest load of the runs that bracketed the peak.
    pub(super) fn lowest(&self) -> f64 {
        let runs = self.observations.iter();
        let brackets = runs.filter(|run| run.probe.purpose == Purpose::Bracket);
        brackets.map(|run| run.probe.load).fold(f64::INFINITY, f64::min)
    }

    /// Returns how long a run at a lower load must be, ns, so that it does not pass by having too
    /// few queries: with the share over a bound of the failed load, it would fail almost certainly.
    pub(super) fn length_that_can_pass(&self, failed: f64, load: f64) -> f64 {
        // The chance of a run without any query over the bound is then 5 %.
        const EVENTS: f64 = 3.0;
        // Distance of the share from what is allowed, in standard deviations of a run.
        const DEVIATIONS: f64 = 4.0;
        if self.rules.unit == Unit::Whole {
            return 0.0;
        }
        let (share, allowed) = self.missed_share(failed).unwrap_or((1e-9, 0.0));
        let clear = DEVIATIONS.powi(2) * share / (share - allowed).powi(2);
        // Half the load hardly changed the share, such as that of answers that fail at any load.
        let before = self.missed_share(2.0 * failed);
        let is_flat = before.is_some_and(|(before, _)| before < 2.0 * share);
        let most = if is_flat { f64::INFINITY } else { 4.0 * self.rules.short as f64 };
        let length = |queries: f64| queries / load * SECOND as f64;
        length(EVENTS / share).max(length(clear).min(most))
    }

    /// Returns the largest share over a limit that the runs at this load missed, and the share that the
    /// limit allows.
    fn missed_share(&self, load: f64) -> Option<(f64, f64)> {
        let limits = self.rules.limits.iter().enumerate();
        let pooled = limits.map(|(at, limit)| (self.pooled_at(load, at), limit));
        let missed = pooled.filter(|(all, limit)| !limit.is_kept(&[*all])).map(|(all, limit)| {
            let share = all.over as f64 / all.queries.max(1) as f64;
            (share.max(1e-9), limit.allowed)
        });
        missed.max_by(|(a, _), (b, _)| a.total_cmp(b))
    }

    /// Returns how far the runs on one side of the peak are from the allowed share of a limit, in standard
    /// deviations: the most of all loads up to which, or from which, they are added up.
    fn deviation(&self, side: Side, limit: usize, allowed: f64, peak: &Peak) -> f64 {
        let sign = if side == Side::Below { -1.0 } else { 1.0 };
        let is_on_side = |run: &&Observation| sign * (run.probe.load - peak.middle) >= 0.0;
        let mut runs: Vec<&Observation> = self.observations.iter().filter(is_on_side).collect();
        // From the farthest load to the nearest.
        runs.sort_by(|a, b| (sign * b.probe.load).total_cmp(&(sign * a.probe.load)));
        let (mut sum, mut most) = (Block::default(), f64::NEG_INFINITY);
        let mut known = WEIGHT * peak.dispersion(limit);
        let mut weight = WEIGHT;
        for run in runs {
            let blocks = self.counted(run, limit);
            sum = Block::sum(&[sum, Block::sum(&blocks)]);
            if let Some(dispersion) = within_run(&blocks) {
                (known, weight) = (known + dispersion, weight + 1.0);
            }
            let is_on_side = sign * (sum.over as f64 - allowed * sum.queries as f64) > 0.0;
            let dispersion = (known / weight).max(1.0);
            if is_on_side {
                most = most.max((deviance(sum, allowed) / dispersion).sqrt());
            }
        }
        most
    }
}

/// Returns twice the logarithm of the likelihood ratio of these counts to the allowed share.
fn deviance(all: Block, allowed: f64) -> f64 {
    let queries = all.queries.max(1) as f64;
    let share = all.over as f64 / queries;
    let term = |p: f64, q: f64| if p > 0.0 { p * (p / q).ln() } else { 0.0 };
    2.0 * queries * (term(share, allowed) + term(1.0 - share, 1.0 - allowed))
}

/// Returns the number of queries that count as one by the stretches of a run; `None` if none or all are over
/// the limit.
fn within_run(blocks: &[Block]) -> Option<f64> {
    let all = Block::sum(blocks);
    let share = all.over as f64 / all.queries.max(1) as f64;
    let variance = all.queries as f64 * share * (1.0 - share);
    let excess: Vec<f64> =
        blocks.iter().map(|block| block.over as f64 - block.queries as f64 * share).collect();
    (variance > 0.0).then(|| long_run(&excess) / variance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_queries_over_a_limit_are_no_clear_miss() {
        let is_clear = |queries, over| is_clear_miss(Block { queries, over }, 0.01);
        assert!(!is_clear(53, 1) && !is_clear(53, 3) && is_clear(53, 4));
        assert!(!is_clear(1, 1) && is_clear(2, 2));
        // 64 and 40 of 3,200, of which 32 are allowed with a standard deviation of 5.6.
        assert!(is_clear(3_200, 64) && !is_clear(3_200, 40));
    }
}
