//! Estimate of a metric from one run, with limits, for runs whose neighboring queries are
//! correlated.
//!
//! A run is cut into [`BATCHES`] batches. The differences between batches determine the equivalent
//! number of independent queries, for any kind of correlation (a queue, a clock frequency, pauses).
//! The limits of a percentile are order statistics: the ranks between which the percentile lies by
//! the binomial distribution for that number of queries. No density is estimated. There is no upper
//! limit if too few queries are beyond the percentile.
//!
//! Sources: Woodruff, "Confidence intervals for medians and other position measures", 1952; Korn
//! and Graubard, "Confidence intervals for proportions with small expected number of positive
//! counts", 1998, for the number of independent observations; Schmeiser, "Batch size effects in the
//! analysis of simulation output", 1982, for few and long batches.

use super::probability::{binomial_low, normal, student};
use crate::metrics::rank;

/// Number of batches: few, so that a batch is much longer than the correlation of its queries.
pub const BATCHES: usize = 20;

/// Minimum number of values per batch.
const BATCH_FEWEST: usize = 5;

/// Minimum number of rounds of a closed loop.
const ROUNDS_FEWEST: usize = 10;

/// Minimum number of values beyond a percentile.
const BEYOND_FEWEST: f64 = 5.0;

/// Shortage of data: a metric has fewer values than it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataShortage {
    /// Values in the run that has the fewest.
    pub values: u64,
    /// Minimum number of values.
    pub needed: u64,
}

/// Estimate as a logarithm, or as a share.
#[derive(Debug, Clone)]
pub struct Estimate {
    /// Value of the metric.
    pub value: f64,
    /// Distance from the lower limit to the value (>= 0).
    pub below: f64,
    /// Distance from the value to the upper limit (>= 0); infinite without one.
    pub above: f64,
    /// Values of the batches, which increase with the metric.
    pub batches: Vec<f64>,
}

impl Estimate {
    /// Returns the estimate with the figure of all queries, of which the values are a selection. The
    /// limits stay where they are, unless the figure lies beyond them.
    pub fn with_exact(self, exact: Option<f64>) -> Self {
        let Some(value) = exact.map(ln) else { return self };
        let (low, high) = (self.value - self.below, self.value + self.above);
        Self { value, below: (value - low).max(0.0), above: (high - value).max(0.0), ..self }
    }
}

/// Returns the logarithm of percentile `p` for both sides; values are in the order of their runs.
///
/// Both sides use the mean of their design effects. Otherwise a run that happened to miss the
/// bursts of its system would have too narrow limits: false alarms of a queue at load 0.8 were
/// twice as many.
///
/// # Errors
/// If there are too few values.
pub fn percentiles(sides: [&[u64]; 2], p: f64, risk: f64) -> Result<[Estimate; 2], DataShortage> {
    let [a, b] = sides.map(|values| Percentile::from_values(values, p));
    let (a, b) = (a?, b?);
    let effect = 0.5 * (a.effect + b.effect);
    Ok([a.limited(effect, risk), b.limited(effect, risk)])
}

struct Percentile {
    p: f64,
    sorted: Vec<u64>,
    /// Share of values beyond the percentile, per batch.
    over: Vec<f64>,
    /// Design effect: number of queries that are equivalent to one independent query.
    effect: f64,
}

impl Percentile {
    fn from_values(values: &[u64], p: f64) -> Result<Self, DataShortage> {
        let sorted = sorted(values, p)?;
        let value = at(&sorted, p);
        let batches = |is_beyond: &dyn Fn(u64) -> bool| {
            let sum = |range: std::ops::Range<usize>| {
                values[range].iter().filter(|&&other| is_beyond(other)).count() as f64
            };
            let share = sum(0..values.len()) / values.len() as f64;
            let batches = means(values.len(), BATCHES, sum);
            (design_effect(&batches, values.len() as f64, share), batches)
        };
        // If latencies tie, the percentile is on a step of their distribution: almost no value may
        // be above it, or almost all values at or above it. The other end of the step then shows
        // how they cluster.
        let above = batches(&|other| other > value);
        let from = batches(&|other| other >= value);
        let (effect, over) = if from.0 > above.0 { from } else { above };
        Ok(Self { p, over, effect, sorted })
    }

    /// Returns the estimate, with limits for this design effect.
    fn limited(self, effect: f64, risk: f64) -> Estimate {
        let count = self.sorted.len() as f64;
        let independent = independent(count, effect, BATCHES, risk);
        let log = |position: f64| ln(self.sorted[index(position, self.sorted.len())] as f64);
        let value = ln(at(&self.sorted, self.p) as f64);
        let below = match binomial_low(independent, self.p, risk / 2.0) / independent {
            ..0.0 => f64::INFINITY,
            low => value - log((low * count).floor()),
        };
        // The upper limit, by symmetry.
        let above = match binomial_low(independent, 1.0 - self.p, risk / 2.0) / independent {
            ..0.0 => f64::INFINITY,
            beyond => log(((1.0 - beyond) * count).ceil()) - value,
        };
        Estimate { value, below: below.max(0.0), above: above.max(0.0), batches: self.over }
    }
}

/// Returns the logarithm of percentile `p` without limits.
///
/// # Errors
/// If there are too few values.
pub fn percentile_alone(values: &[u64], p: f64) -> Result<f64, DataShortage> {
    sorted(values, p).map(|sorted| ln(at(&sorted, p) as f64))
}

fn sorted(values: &[u64], p: f64) -> Result<Vec<u64>, DataShortage> {
    let beyond = (BEYOND_FEWEST / (1.0 - p).min(p)).ceil();
    enough(values.len(), (BATCHES * BATCH_FEWEST).max(index(beyond, usize::MAX)))?;
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    Ok(sorted)
}

/// Returns percentile `p` without interpolation, as in the logs.
#[expect(clippy::cast_possible_truncation, reason = "a rank is below the length of a slice")]
fn at(sorted: &[u64], p: f64) -> u64 {
    sorted[rank(sorted.len() as u64, p) as usize]
}

/// Returns the logarithm of the mean of `values`, which are in the order of the run.
///
/// # Errors
/// If there are too few values.
pub fn mean(values: &[u64], risk: f64) -> Result<Estimate, DataShortage> {
    enough(values.len(), BATCHES * BATCH_FEWEST)?;
    Ok(mean_of_batches(values, BATCHES, risk))
}

/// Returns the logarithm of the mean of `rounds`, each of which is a sum of many values, so that few of
/// them are enough.
///
/// # Errors
/// If there are too few rounds.
fn mean_of_rounds(rounds: &[u64], risk: f64) -> Result<Estimate, DataShortage> {
    enough(rounds.len(), ROUNDS_FEWEST)?;
    Ok(mean_of_batches(rounds, BATCHES.min(rounds.len()), risk))
}

fn mean_of_batches(values: &[u64], batches: usize, risk: f64) -> Estimate {
    let sum = |range: std::ops::Range<usize>| values[range].iter().map(|&v| v as f64).sum::<f64>();
    let batches = means(values.len(), batches, sum);
    let mean = sum(0..values.len()) / values.len() as f64;
    let error = variance_of_mean(&batches).sqrt() / mean.max(f64::MIN_POSITIVE);
    let reach = student(risk / 2.0, (batches.len() - 1) as f64) * error;
    Estimate { value: ln(mean), below: reach, above: reach, batches }
}

/// Returns the estimate of the mean time between completions. `between` has these times, in order;
/// `in_flight` is the number of queries in flight of a closed loop, 1 for other loads.
///
/// The queries of a closed loop may be complete together, and then none for a whole latency. Only the
/// times of whole rounds are alike.
///
/// # Errors
/// If there are too few completions.
pub fn mean_gap(between: &[u64], in_flight: usize, risk: f64) -> Result<Estimate, DataShortage> {
    enough(between.len(), BATCHES * BATCH_FEWEST)?;
    if in_flight <= 1 {
        return mean(between, risk);
    }
    let rounds: Vec<u64> =
        between.chunks_exact(in_flight).map(|round| round.iter().sum()).collect();
    let round = mean_of_rounds(&rounds, risk).map_err(|short| DataShortage {
        values: between.len() as u64,
        needed: short.needed.saturating_mul(in_flight as u64),
    })?;
    Ok(Estimate { value: round.value - ln(in_flight as f64), ..round })
}

/// Returns the logarithm of the mean without limits.
///
/// # Errors
/// If there is no value.
pub fn mean_alone(values: &[u64]) -> Result<f64, DataShortage> {
    enough(values.len(), 1)?;
    Ok(ln(values.iter().map(|&v| v as f64).sum::<f64>() / values.len() as f64))
}

/// Share of events, with its numbers of trials.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    /// Events / trials.
    pub value: f64,
    /// Trials.
    pub trials: f64,
    /// Number of independent trials with the same uncertainty.
    pub independent: f64,
}

/// Returns the share of `events`, which are in the order of the run.
///
/// Short runs are accepted, because shares have their own limits. Batches of few queries do not
/// show longer correlations; the design effect of a short run is therefore at least
/// [`BATCH_FEWEST`].
///
/// # Errors
/// If there are fewer than two events.
pub fn share(events: &[bool], risk: f64) -> Result<Share, DataShortage> {
    enough(events.len(), 2)?;
    let batches = means(events.len(), BATCHES.min(events.len()), |range| count(&events[range]));
    let is_short = events.len() < BATCHES * BATCH_FEWEST;
    let least = if is_short { BATCH_FEWEST as f64 } else { 1.0 };
    Ok(of_parts(&batches, count(events), events.len() as f64, risk, least))
}

/// Returns the share of events of several runs.
pub fn share_of_runs(runs: &[&[bool]], risk: f64) -> Share {
    let trials: usize = runs.iter().map(|run| run.len()).sum();
    let shares: Vec<f64> = runs.iter().map(|run| count(run) / run.len().max(1) as f64).collect();
    of_parts(&shares, runs.iter().map(|run| count(run)).sum(), trials as f64, risk, 1.0)
}

fn of_parts(shares: &[f64], events: f64, trials: f64, risk: f64, least: f64) -> Share {
    let value = events / trials.max(1.0);
    let effect = design_effect(shares, trials, value).max(least);
    Share { value, trials, independent: independent(trials, effect, shares.len(), risk) }
}

fn count(events: &[bool]) -> f64 {
    events.iter().filter(|&&event| event).count() as f64
}

fn enough(values: usize, needed: usize) -> Result<(), DataShortage> {
    if values >= needed {
        Ok(())
    } else {
        Err(DataShortage { values: values as u64, needed: needed as u64 })
    }
}

/// Returns the mean of each batch, from its sum.
fn means(count: usize, batches: usize, sum: impl Fn(std::ops::Range<usize>) -> f64) -> Vec<f64> {
    let bound = |batch: usize| batch * count / batches;
    let mean = |batch| {
        let range = bound(batch)..bound(batch + 1);
        let length = range.len() as f64;
        sum(range) / length
    };
    (0..batches).map(mean).collect()
}

/// Returns the variance of the mean of batches.
///
/// It is corrected for the correlation of neighboring batches as for an autoregressive process;
/// otherwise it would be too small.
fn variance_of_mean(batches: &[f64]) -> f64 {
    let count = batches.len() as f64;
    let mean = batches.iter().sum::<f64>() / count;
    let squares: f64 = batches.iter().map(|b| (b - mean).powi(2)).sum();
    let products: f64 = batches.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum();
    let correlation =
        if squares > 0.0 { (products / squares).clamp(0.0, CORRELATION_MOST) } else { 0.0 };
    squares / (count - 1.0) / count * (1.0 + correlation) / (1.0 - correlation)
}

/// Maximum correlation: above it, a run is too short for its batches to be useful.
const CORRELATION_MOST: f64 = 0.9;

/// Returns the design effect: how many observations are equivalent to one independent observation,
/// from the variation of the batches. At least 1, because batches can be more alike by chance. 1
/// for a share of 0 or 1, which has no variation.
fn design_effect(batches: &[f64], count: f64, share: f64) -> f64 {
    match share * (1.0 - share) / count {
        of_one if of_one > 0.0 => (variance_of_mean(batches) / of_one).max(1.0),
        _ => 1.0,
    }
}

/// Returns the number of independent observations in `count`; fewer than `count / effect`, because
/// `effect` is estimated from few batches.
fn independent(count: f64, effect: f64, batches: usize, risk: f64) -> f64 {
    let freedom = (batches - 1) as f64;
    let by_few = (normal(risk / 2.0) / student(risk / 2.0, freedom)).powi(2);
    (count / effect * by_few).max(1.0)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
fn index(position: f64, count: usize) -> usize {
    (position.max(0.0) as usize).min(count - 1)
}

/// Returns the logarithm of a time. Times of 0 ns are possible where nothing is computed.
pub fn ln(value: f64) -> f64 {
    value.max(0.5).ln()
}
