//! Design effects of events: how many trials are equivalent to one independent trial.

use super::probability::{binomial_at_least, normal, student};
use super::within::BATCHES;

/// Assumed design effect of a run that is too short to show it.
pub(super) const SHORT_EFFECT: f64 = 4.0;
/// Minimum number of events, and of other trials, that show in a short run whether events come in rows.
const FEWEST_SHOWN: usize = 5;

/// Returns the design effect of a run that is too short for blocks. It is at least the longest row of
/// the rarer kind (events or other trials), and the assumed effect if that kind is too rare to show
/// rows. Isolated events thus count as independent.
pub(super) fn effect_of_few(events: &[bool]) -> f64 {
    let happened = count(events);
    let rarer = happened.min(events.len() - happened);
    let rarer_kind = 2 * happened <= events.len();
    let rows = events.split(|&event| event != rarer_kind).map(<[bool]>::len);
    let effect = design_effect(events, false).max(rows.max().unwrap_or(0) as f64);
    if rarer < FEWEST_SHOWN { effect.max(SHORT_EFFECT) } else { effect }
}

/// Sums of events over blocks of equal length.
struct Blocks {
    length: usize,
    count: usize,
    /// Variance of a sum, divided by that of independent events.
    effect: f64,
    /// Correlation of neighboring sums, at most [`CORRELATION_MOST`].
    correlation: f64,
}

/// Shortest block, unless the run is shorter than [`BATCHES`] of them.
const SHORTEST: usize = 16;
/// Length of a block in design effects from which on its sums are nearly independent.
const LONG_ENOUGH: f64 = 10.0;
/// Deviations of a variance of blocks that independent events hardly ever reach.
const DEVIATIONS: f64 = 3.0;
/// Maximum correlation of blocks: above it, the run is too short for them.
const CORRELATION_MOST: f64 = 0.9;

impl Blocks {
    /// Returns the blocks of this length; `before[n]` is the number of events before trial `n`.
    fn new(before: &[u32], length: usize, share: f64) -> Self {
        let (count, mean) = ((before.len() - 1) / length, length as f64 * share);
        let deviations: Vec<f64> = (0..count)
            .map(|block| f64::from(before[(block + 1) * length] - before[block * length]) - mean)
            .collect();
        let squares: f64 = deviations.iter().map(|of| of * of).sum();
        let products: f64 = deviations.windows(2).map(|pair| pair[0] * pair[1]).sum();
        let variance = squares / (count as f64 - 1.0);
        let correlation = if squares > 0.0 { products / squares } else { 0.0 };
        Self {
            length,
            count,
            effect: variance / (mean * (1.0 - share)),
            correlation: correlation.clamp(0.0, CORRELATION_MOST),
        }
    }

    /// Returns whether the blocks are so long that their sums are nearly independent.
    fn is_long(&self) -> bool {
        self.length as f64 >= LONG_ENOUGH * self.effect.max(1.0)
    }

    /// Returns whether the sums differ more than those of independent events, of which the rarer kind
    /// occurs this many times.
    fn is_clustered(&self, rarer: f64) -> bool {
        let variance = 2.0 / (self.count as f64 - 1.0) + 1.0 / rarer;
        self.effect > 1.0 + DEVIATIONS * variance.sqrt()
    }

    /// Returns the design effect. Neighboring sums of the longest blocks may still be correlated, as in
    /// an autoregressive process.
    fn corrected(&self, is_longest: bool) -> f64 {
        let correlation = if is_longest { self.correlation } else { 0.0 };
        self.effect * (1.0 + correlation) / (1.0 - correlation)
    }
}

/// Returns how many trials are equivalent to one independent trial; at least 1, and 1 for events that
/// never or always happen.
///
/// The blocks are those from the first length on that is much longer than the effect: shorter ones
/// overestimate the effect of a period. If `is_tested`, blocks whose sums do not differ more than those
/// of independent events do not count.
pub(super) fn design_effect(events: &[bool], is_tested: bool) -> f64 {
    let (trials, happened) = (events.len(), count(events));
    let longest = trials / BATCHES;
    if longest == 0 || happened == 0 || happened == trials {
        return 1.0;
    }
    let share = happened as f64 / trials as f64;
    let mut before = vec![0_u32];
    before.extend(events.iter().scan(0, |sum, &event| {
        *sum += u32::from(event);
        Some(*sum)
    }));
    let shorter = std::iter::successors(Some(SHORTEST), |length| Some(2 * length));
    let lengths = shorter.take_while(|&length| length < longest).chain([longest]);
    let mut blocks: Vec<Blocks> =
        lengths.map(|length| Blocks::new(&before, length, share)).collect();
    let first = blocks.iter().position(Blocks::is_long).unwrap_or(blocks.len() - 1);
    blocks.drain(..first);
    let rarer = happened.min(trials - happened) as f64;
    blocks.retain(|of| !is_tested || of.is_clustered(rarer));
    let effects = blocks.iter().map(|of| {
        let effect = of.corrected(of.length == longest);
        if is_tested { effect * uncertainty(of.count as f64 - 1.0) } else { effect }
    });
    effects.fold(1.0, f64::max)
}

/// Returns the factor of a variance that is estimated with this many degrees of freedom.
fn uncertainty(freedom: f64) -> f64 {
    const TAIL: f64 = 0.05;
    (student(TAIL, freedom) / normal(TAIL)).powi(2)
}

/// Rows of events: events that are closer to each other than by chance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rows {
    /// Length of the row of an average event, in events; at least 1.
    pub(super) length: f64,
    /// Length of the longest row, in events; 0 without rows.
    pub(super) longest: f64,
}

impl Rows {
    /// No rows.
    pub(super) const NONE: Self = Self { length: 1.0, longest: 0.0 };

    /// Returns the rows; none if chance alone brings events that close together.
    ///
    /// Events are in one row if the distance between neighbors is at most a gap. The gaps are parts of
    /// the mean distance: long ones show rows with other trials between the events, and short ones show
    /// a row of two or three events.
    pub(super) fn new(events: &[bool]) -> Self {
        /// The longest gap is this part of the mean distance, and each other one is this part of the one
        /// before.
        const PART: usize = 8;
        /// Number of gaps.
        const GAPS: usize = 4;
        let at: Vec<usize> = (0..events.len()).filter(|&at| events[at]).collect();
        if at.len() < 2 {
            return Self::NONE;
        }
        let share = at.len() as f64 / events.len() as f64;
        let longest = (events.len() / (PART * at.len())).max(1);
        let gaps =
            std::iter::successors(Some(longest), |&gap| (gap > 1).then(|| (gap / PART).max(1)));
        gaps.take(GAPS).map(|gap| Self::within(gap, &at, share)).fold(Self::NONE, |most, rows| {
            Self { length: most.length.max(rows.length), longest: most.longest.max(rows.longest) }
        })
    }

    /// Returns the rows of events with at most this gap between neighbors.
    fn within(gap: usize, at: &[usize], share: f64) -> Self {
        /// Probability of a row by chance, for each gap.
        const BY_CHANCE: f64 = 0.005;
        let rows: Vec<f64> = at
            .chunk_by(|before, after| after - before <= gap)
            .map(|row| row.len() as f64)
            .collect();
        let neighbors = [at.len() - rows.len(), at.len() - 1].map(|number| number as u64);
        let by_chance = 1.0 - (1.0 - share).powf(gap as f64);
        if binomial_at_least(neighbors[0], neighbors[1], by_chance) > BY_CHANCE {
            return Self::NONE;
        }
        let squares: f64 = rows.iter().map(|row| row * row).sum();
        // Rows of frequent events have a variance of 1 - share of that of rare ones.
        Self {
            length: (1.0 - share) * squares / at.len() as f64,
            longest: rows.iter().copied().fold(0.0, f64::max),
        }
    }

    /// Returns the design effect of this number of events. An estimate from few rows is uncertain.
    pub(super) fn effect(&self, events: f64) -> f64 {
        let Self { length, .. } = *self;
        if length <= 1.0 { 1.0 } else { length * uncertainty((events / length).max(1.0)) }
    }
}

pub(super) fn count(events: &[bool]) -> usize {
    events.iter().filter(|&&event| event).count()
}
