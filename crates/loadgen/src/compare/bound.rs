//! Decides whether one run keeps an upper bound: on a percentile of its times, or on a share of its
//! events.
//!
//! A percentile is at most the bound if and only if the share of times over the bound is at most what
//! the percentile allows. The count of such times is compared with the binomial distribution, for the
//! number of independent queries. That number is smaller than the number of queries if the times of
//! neighbors are similar. It follows from sums over blocks of the run: those of independent events have
//! a known variance.
//!
//! Runs of fewer than 100 queries have too few blocks. They decide nothing about times. A share of
//! events is met if it is far below the bound: a row of events counts as one, and rare events as four.
//!
//! A run without a time over the bound does not show in which rows such times come. The times above its
//! median and above its p90 then show it. A rise that is small against the distance to the bound does
//! not matter, such as a drift by 1 % under a bound of twice the times.
//!
//! Events that are closer to each other than by chance come in rows. A run with few rows hardly shows
//! their length: the events of one row count as 15 times as many, those of three rows as twice as many.
//! If rows differ in length, as in a queue with heavy-tailed service, most events come in few long rows,
//! and a run that lacks some of them does not show it. A bound is therefore met only if it is still met
//! with one and a half further rows as long as the longest one. Rows of the times over the percentile of
//! the run count too: they resemble those over the bound.
//!
//! The limits of a percentile are bounds of the same test: the smallest one that is not missed, and the
//! smallest one that is met. They are as certain as the finding, and never contradict it. The times over
//! another bound may be more similar, so its count of independent queries would give wrong limits. The
//! longest time is the largest bound that is tried, because times above it were not seen. If it is not
//! met, the upper limit is the bound itself if that is met, and there is none otherwise.
//!
//! A run without an event shows nothing about rows. A bound that it meets is met on the
//! assumption that events come independently, or as independently as the other times.
//!
//! ```
//! use dyno_loadgen::compare::bound::{Finding, judge_times};
//!
//! // 299 times without one over the bound show that at most 1 % are: 0.99^299 < 0.05.
//! let run: Vec<u64> = (0..299).map(|query| 10 + query % 4).collect();
//! assert_eq!(judge_times(&run, 0.01, 500, 0.05).finding, Finding::Met);
//! let short = judge_times(&run[..200], 0.01, 500, 0.05);
//! assert_eq!((short.finding, short.more), (Finding::Undecided, Some(99)));
//! ```
//!
//! Sources: as of the intervals of a run, and Clopper and Pearson, 1934.

use super::cluster::{Rows, SHORT_EFFECT, count, design_effect, effect_of_few};
use super::probability::{at_most, share_limits};
use crate::clock::Nanos;

/// Result of a comparison with a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// The bound is kept, with the confidence.
    Met,
    /// The bound is not kept, with the confidence.
    Missed,
    /// The run proves neither.
    Undecided,
}

/// Judgment on a bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judgment {
    /// The finding, which is wrong with probability `risk` at most.
    pub finding: Finding,
    /// Lower confidence limit of the bounded figure: the smallest bound that is not missed. `None` if the
    /// run is too short for limits.
    pub low: Option<f64>,
    /// Upper confidence limit: the smallest bound that is met. It is at most the bound if that is met, and
    /// above it otherwise. `None` if the run does not limit the figure.
    pub high: Option<f64>,
    /// Approximate number of further queries that decide an undecided finding if the share of events
    /// stays; `None` if no feasible number does.
    pub more: Option<u64>,
    /// Whether the bound would be met if the queries were independent, and the run shows that they are
    /// not.
    pub is_correlated: bool,
    /// Whether the bound is met and the run has no event. It then does not show in which rows events
    /// come: the finding assumes that they are as independent as the other times, or independent.
    pub assumes_independence: bool,
}

/// Minimum number of queries for limits of times: blocks of shorter runs show no correlation.
pub const FEWEST_QUERIES: usize = 100;
/// Minimum number of queries of a missed bound.
const FEWEST_MISSED: f64 = 20.0;
/// Minimum number of independent queries of a met bound.
const FEWEST_INDEPENDENT: f64 = 30.0;
/// Minimum number of independent queries of a met share of events in a short run.
const FEWEST_OF_FEW: f64 = 20.0;
/// Minimum number of independent queries if it is estimated from the similarity of neighbors.
const FEWEST_STRETCHES: f64 = 100.0;
/// Design effect from which on queries count as correlated.
const CORRELATED: f64 = 1.5;
/// Share of the distance to the bound that is no rise.
const NO_RISE: u64 = 50;
/// Number of rows as long as the longest one that a run may lack. It is (z² + 2) / 3 for the 95 % limit
/// of a Poisson count, rounded: the part of the limit that does not grow with the count.
const MISSING_ROWS: f64 = 1.5;
/// Maximum number of independent queries of advice; above it, the share hardly differs from the bound.
const MOST_ADVISED: f64 = 1e9;

/// Compares the percentile of `times` that a share `allowed` may exceed (0.01 for p99) with an upper
/// bound. The times are in the order of the run. Each limit is wrong with probability `risk`.
///
/// # Panics
/// Without times.
#[must_use]
pub fn judge_times(times: &[Nanos], allowed: f64, bound: Nanos, risk: f64) -> Judgment {
    let run = TimedRun::new(times, allowed, risk);
    let found = run.judgment(bound);
    if times.len() < FEWEST_QUERIES {
        return found;
    }
    let low = Some(run.low(bound, found.finding) as f64);
    let high = run.high(bound, found.finding).map(|high| high as f64);
    Judgment { low, high, ..found }
}

/// Compares a percentile with a bound as [`judge_times`] does, without limits, which take ten times as
/// long as the finding.
///
/// # Panics
/// Without times.
#[must_use]
pub fn find_times(times: &[Nanos], allowed: f64, bound: Nanos, risk: f64) -> Judgment {
    TimedRun::new(times, allowed, risk).judgment(bound)
}

/// Compares the share of `events`, which are in the order of the run, with an upper bound `allowed`.
/// Each limit is wrong with probability `risk`. The run has at least one query.
#[must_use]
pub fn judge_events(events: &[bool], allowed: f64, risk: f64) -> Judgment {
    let is_short = events.len() < FEWEST_QUERIES;
    let effect = if is_short { effect_of_few(events) } else { design_effect(events, false) };
    let effects = Effects { all: effect, rises: effect };
    let fewest = is_short.then_some(FEWEST_OF_FEW);
    let rows = if is_short { Rows::NONE } else { Rows::new(events) };
    let counts = Counts { fewest, rows, ..Counts::new(count(events), events.len(), allowed, risk) };
    let limits =
        |happened: f64, effect: f64| share_limits(happened / effect, counts.trials / effect, risk);
    let most = counts.with_missing_rows().min(counts.trials);
    let of_high = counts.with_rows(effect);
    let high = counts.is_enough_for_met(of_high).then(|| limits(most, of_high)[1]);
    let low = counts.is_enough_for_missed().then(|| limits(counts.events, effect)[0]);
    counts.judgment(effects, [low, high])
}

/// Times of a run, and what a percentile of them may exceed.
#[derive(Debug)]
struct TimedRun<'t> {
    /// In the order of the run.
    times: &'t [Nanos],
    sorted: Vec<Nanos>,
    /// Allowed share of times over a bound.
    allowed: f64,
    risk: f64,
}

impl<'t> TimedRun<'t> {
    fn new(times: &'t [Nanos], allowed: f64, risk: f64) -> Self {
        let mut sorted = times.to_vec();
        sorted.sort_unstable();
        Self { times, sorted, allowed, risk }
    }

    fn over(&self, bound: Nanos) -> Vec<bool> {
        self.times.iter().map(|&time| time > bound).collect()
    }

    /// Returns the number of times up to the bound.
    fn rank(&self, bound: Nanos) -> usize {
        self.sorted.partition_point(|&time| time <= bound)
    }

    /// Returns the counts as if the times were independent.
    fn independent(&self, bound: Nanos) -> Counts {
        let trials = self.sorted.len();
        Counts::new(trials - self.rank(bound), trials, self.allowed, self.risk)
    }

    fn counts(&self, bound: Nanos) -> Counts {
        Counts { rows: Rows::new(&self.over(bound)), ..self.independent(bound) }
    }

    fn effects(&self, bound: Nanos) -> Effects {
        Effects::of_times(self.times, &self.sorted, self.allowed, bound)
    }

    /// Returns the judgment without limits.
    fn judgment(&self, bound: Nanos) -> Judgment {
        self.counts(bound).judgment(self.effects(bound), [None; 2])
    }

    fn is_met(&self, bound: Nanos) -> bool {
        self.independent(bound).is_met(1.0) && self.counts(bound).is_met(self.effects(bound).rises)
    }

    fn is_missed(&self, bound: Nanos) -> bool {
        let independent = self.independent(bound);
        independent.is_missed(1.0) && independent.is_missed(self.effects(bound).all)
    }

    /// Returns the smallest time that is met as a bound, at most `bound` if that is met. If the longest
    /// time is not met, the limit is `bound` if that is met, and `None` otherwise.
    fn high(&self, bound: Nanos, finding: Finding) -> Option<Nanos> {
        let first = |times: &[Nanos]| {
            times.last().filter(|&&longest| self.is_met(longest))?;
            times.get(times.partition_point(|&time| !self.is_met(time))).copied()
        };
        let (high, is_met) = (first(&self.sorted), finding == Finding::Met);
        if high.is_some_and(|high| high <= bound) == is_met {
            return high;
        }
        // A larger bound than one that is met may not be met: other times then show the correlation.
        let (below, above) = self.sorted.split_at(self.rank(bound));
        if is_met { first(below).or(Some(bound)) } else { first(above) }
    }

    /// Returns the smallest time that is not missed as a bound, at most `bound` if that is not missed; 0
    /// if not even a bound below all times is missed.
    fn low(&self, bound: Nanos, finding: Finding) -> Nanos {
        let first = |times: &[Nanos]| {
            times.get(times.partition_point(|&time| self.is_missed(time))).copied()
        };
        let is_above_0 = self.is_missed(self.sorted[0].saturating_sub(1));
        let low = if is_above_0 { first(&self.sorted) } else { None }.unwrap_or(0);
        let is_missed = finding == Finding::Missed;
        if (low > bound) == is_missed {
            return low;
        }
        let (below, above) = self.sorted.split_at(self.rank(bound));
        first(if is_missed { above } else { below }).unwrap_or(bound)
    }
}

/// Design effects: how many queries are equivalent to one independent query.
#[derive(Debug, Clone, Copy)]
struct Effects {
    /// By all differences of times.
    all: f64,
    /// By those that are large against the distance to the bound, and by the rows of the highest times.
    rises: f64,
}

impl Effects {
    fn of_times(times: &[Nanos], sorted: &[Nanos], allowed: f64, bound: Nanos) -> Self {
        let over = |threshold: Nanos| -> Vec<bool> {
            times.iter().map(|&time| time > threshold).collect()
        };
        let own = design_effect(&over(bound), false);
        let (mut all, mut rises) = (own, own);
        for (percent, is_below) in [(10, false), (50, false), (50, true), (90, true)] {
            let at = sorted[sorted.len() * percent / 100];
            // Times between the bound and the median show more about the bound than others.
            if is_below != (at < bound) {
                continue;
            }
            let rise = at.abs_diff(bound) / NO_RISE;
            let beyond = if is_below { at + rise } else { at - rise };
            let risen = design_effect(&over(beyond), true);
            rises = rises.max(risen);
            all = all.max(risen).max(design_effect(&over(at), true));
        }
        if let Some(above) = above_percentile(sorted, allowed, bound) {
            let highest = over(above);
            rises = rises.max(Rows::new(&highest).effect(count(&highest) as f64));
        }
        Self { all: of_length(all, times.len()), rises: of_length(rises, times.len()) }
    }
}

/// Returns the time above which times are higher than the percentile of the run, and no small rise;
/// `None` if the run is too short, or if the percentile is over the bound.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below the length")]
fn above_percentile(sorted: &[Nanos], allowed: f64, bound: Nanos) -> Option<Nanos> {
    let beyond = (allowed * sorted.len() as f64) as usize;
    let percentile = sorted[(sorted.len() - 1).saturating_sub(beyond)];
    let is_shown = sorted.len() >= FEWEST_QUERIES && percentile < bound;
    is_shown.then(|| percentile + (bound - percentile) / NO_RISE)
}

/// Returns the design effect that counts for a run of this length.
fn of_length(effect: f64, queries: usize) -> f64 {
    if queries < FEWEST_QUERIES { effect.max(SHORT_EFFECT) } else { effect }
}

/// Counts of a run, and what is allowed.
#[derive(Debug, Clone, Copy)]
struct Counts {
    events: f64,
    trials: f64,
    /// Allowed share of events.
    allowed: f64,
    risk: f64,
    /// Minimum number of independent queries of a met bound, if it does not follow from the effect.
    fewest: Option<f64>,
    rows: Rows,
}

impl Counts {
    fn new(events: usize, trials: usize, allowed: f64, risk: f64) -> Self {
        let (events, trials) = (events as f64, trials as f64);
        Self { events, trials, allowed, risk, fewest: None, rows: Rows::NONE }
    }

    /// Returns whether the effect is the assumed one of a short run, which ends with its length.
    fn is_assumed(&self, effect: f64) -> bool {
        self.trials < FEWEST_QUERIES as f64 && effect <= SHORT_EFFECT
    }

    fn finding(&self, effects: Effects) -> Finding {
        if self.is_met(effects.rises) {
            Finding::Met
        } else if self.is_missed(effects.all) {
            Finding::Missed
        } else {
            Finding::Undecided
        }
    }

    /// Returns a design effect that is at least the one of the rows.
    fn with_rows(&self, effect: f64) -> f64 {
        effect.max(self.rows.effect(self.events))
    }

    /// Returns the number of events with the rows that the run may lack.
    fn with_missing_rows(&self) -> f64 {
        self.events + MISSING_ROWS * self.rows.longest
    }

    /// Returns whether the run has enough independent queries for an upper limit.
    fn is_enough_for_met(&self, effect: f64) -> bool {
        self.trials / effect >= self.fewest.unwrap_or_else(|| fewest(effect))
    }

    fn is_met(&self, effect: f64) -> bool {
        let effect = self.with_rows(effect);
        let [most, independent] = [self.with_missing_rows(), self.trials].map(|of| of / effect);
        self.is_enough_for_met(effect) && at_most(most, independent, self.allowed) <= self.risk
    }

    /// Returns whether the run has enough queries for a lower limit.
    fn is_enough_for_missed(&self) -> bool {
        self.trials >= FEWEST_MISSED
    }

    fn is_missed(&self, effect: f64) -> bool {
        let others = (self.trials - self.events) / effect;
        self.is_enough_for_missed()
            && at_most(others, self.trials / effect, 1.0 - self.allowed) <= self.risk
    }

    fn judgment(&self, effects: Effects, [low, high]: [Option<f64>; 2]) -> Judgment {
        let finding = self.finding(effects);
        let is_undecided = finding == Finding::Undecided;
        let independent = Self { rows: Rows::NONE, ..*self };
        Judgment {
            finding,
            low,
            high,
            more: if is_undecided { self.more(effects) } else { None },
            is_correlated: is_undecided
                && !self.is_assumed(effects.rises)
                && independent.is_met(1.0),
            assumes_independence: finding == Finding::Met && self.events == 0.0,
        }
    }

    /// Returns how many further queries decide, if the share of events and the correlation stay.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 10^18")]
    fn more(&self, effects: Effects) -> Option<u64> {
        let share = self.events / self.trials;
        let is_below = share < self.allowed;
        let effect = if is_below { effects.rises } else { effects.all };
        let effect = if self.is_assumed(effect) { 1.0 } else { effect };
        let decides = |trials: u64| {
            let longer = Self {
                events: share * trials as f64,
                trials: trials as f64,
                fewest: None,
                ..*self
            };
            trials >= FEWEST_QUERIES as u64
                && if is_below { longer.is_met(effect) } else { longer.is_missed(effect) }
        };
        let (now, most) = (self.trials as u64, (MOST_ADVISED * effect) as u64);
        let (mut fails, mut reach) = (now, now + 1);
        while !decides(reach) {
            (fails, reach) = (reach, reach * 2);
            if reach > most {
                return None;
            }
        }
        while reach - fails > 1 {
            let middle = fails + (reach - fails) / 2;
            if decides(middle) {
                reach = middle;
            } else {
                fails = middle;
            }
        }
        Some(reach - now)
    }
}

/// Returns the minimum number of independent queries of a met bound. An estimate from few stretches of
/// similar times is too uncertain.
fn fewest(effect: f64) -> f64 {
    if effect < CORRELATED { FEWEST_INDEPENDENT } else { FEWEST_STRETCHES }
}

#[cfg(test)]
mod tests;
