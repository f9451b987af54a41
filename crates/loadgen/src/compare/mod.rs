//! Whether one side of a comparison is better or worse than the other, from the
//! latencies of single queries.
//!
//! With one run a side, limits come from batches of the run ([`within`]) and are
//! widened by an assumed deviation between runs ([`Options::between_runs`]). With
//! several runs, each run is one observation ([`between`]) and the deviation is
//! measured. A run may be played in slices that alternate with those of the other
//! side; then two slices of each side are one observation. Where runs are added
//! until the result is conclusive, limits hold at every look ([`anytime`]).
//!
//! All limits of a comparison hold together with the stated confidence, and a
//! verdict follows from them alone: the false alarms of the whole comparison
//! stay below [`Options::risk`]. `examples/compare_trials` measures both.

mod anytime;
mod between;
mod drift;
mod probability;
pub mod single_run;
pub mod slices;
mod verdict;
mod within;

use crate::clock::{Nanos, SECOND};

pub use self::anytime::LookPolicy;
pub use self::between::Interval;
pub use self::drift::Drift;
pub use self::verdict::{Doubt, Finding, Verdict};
pub use self::within::{BATCHES, DataShortage};

use self::between::Moments;
use self::probability::normal;
use self::verdict::{DriftEffect, Tolerance};
use self::within::{Estimate, Share};

/// What a run left, in columns in the order of its schedule.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Run {
    /// Of the answered queries, ns.
    pub latency: Vec<Nanos>,
    /// Of the queries whose first token is known, ns after they were scheduled.
    pub first_token: Vec<Nanos>,
    /// Of the queries with several tokens, ns.
    pub time_per_output_token: Vec<Nanos>,
    /// When queries were answered, ns since the start, ascending.
    pub completed: Vec<Nanos>,
    /// Of every query, whether it failed.
    pub failed: Vec<bool>,
    /// Queries that one record stands for (above 0).
    pub stride: f64,
    /// When it was played among all runs of the comparison, if that is known.
    pub position: Option<f64>,
}

/// Times of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Series {
    /// From scheduled to answered.
    Latency,
    /// From scheduled to the first token.
    FirstToken,
    /// Between tokens.
    TimePerOutputToken,
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Metric {
    /// A percentile, in (0, 1).
    Percentile(Series, f64),
    /// The mean.
    Mean(Series),
    /// Answers a second.
    Throughput,
    /// The share of queries that failed.
    Failures,
}

impl Metric {
    /// Whether more of it is better.
    #[must_use]
    pub fn is_better_high(self) -> bool {
        self == Self::Throughput
    }

    /// Whether its difference is in shares of all queries; else it is in shares
    /// of the baseline's value.
    #[must_use]
    pub fn is_absolute(self) -> bool {
        self == Self::Failures
    }
}

/// How runs of the two sides belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairing {
    /// Not at all.
    None,
    /// Run `i` of one side was played beside run `i` of the other; of single
    /// runs, query `i` was scheduled at the same time.
    InOrder,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The metric that has most of the risk.
    pub headline: Metric,
    /// The others.
    pub further: Vec<Metric>,
    /// How runs belong together.
    pub pairing: Pairing,
    /// Changes up to this share of the baseline's value are neither better nor worse
    /// (>= 0). Of failures, which are no share of it, every change is.
    pub threshold: f64,
    /// Changes up to this share of the baseline's value are equivalent (>= 0).
    pub margin: f64,
    /// Probability of any false alarm among all metrics, in (0, 1).
    pub risk: f64,
    /// How often the comparison is made while runs are added.
    pub looks: LookPolicy,
    /// Standard deviation of the logarithm of a metric between runs of one system
    /// (>= 0), assumed where each side has a single run.
    pub between_runs: f64,
    /// Runs in a row that may be pooled into one observation where each alone has
    /// too few values (>= 1); for [`Pairing::InOrder`].
    pub pooled_most: usize,
}

/// Default probability of a false alarm.
pub const RISK: f64 = 0.05;

/// Default of [`Options::margin`].
pub const MARGIN: f64 = 0.05;

impl Options {
    /// Returns the defaults for these metrics, in virtual time.
    #[must_use]
    pub fn new(headline: Metric, further: Vec<Metric>, pairing: Pairing) -> Self {
        Self {
            headline,
            further,
            pairing,
            threshold: 0.0,
            margin: MARGIN,
            risk: RISK,
            looks: LookPolicy::One,
            between_runs: 0.0,
            pooled_most: 1,
        }
    }
}

/// The headline's part of the risk, if it is not alone. The others share the rest
/// evenly: theirs must be large changes to count.
const HEADLINE_PART: f64 = 0.8;

/// The power at which [`Row::detectable`] is told.
pub const POWER: f64 = 0.8;

/// One metric of both sides.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Which.
    pub metric: Metric,
    /// Of the baseline: ns, answers a second, or a share. Of several runs, the
    /// geometric mean.
    pub baseline: f64,
    /// Of the candidate.
    pub candidate: f64,
    /// From baseline to candidate, as a share of the baseline; a difference of
    /// shares for [`Metric::Failures`]. 0.02 is 2 % more.
    pub change: Interval,
    /// Of this row's limits, such that those of all rows hold together.
    pub confidence: f64,
    /// The smallest change that would have been found in [`POWER`] of all
    /// comparisons like this one; infinite if none.
    pub detectable: f64,
    /// Its trend over all runs.
    pub drift: Option<Drift>,
    /// What follows.
    pub finding: Finding,
}

/// A metric that could not be compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OmittedMetric {
    /// Which.
    pub metric: Metric,
    /// Why.
    pub reason: DataShortage,
}

/// What came of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The headline first, if it could be compared.
    pub rows: Vec<Row>,
    /// What could not.
    pub omitted: Vec<OmittedMetric>,
    /// Of all.
    pub verdict: Verdict,
}

/// Compares two sides of at least one run each.
///
/// # Panics
/// If a side has no run.
#[must_use]
pub fn compare(baseline: &[Run], candidate: &[Run], options: &Options) -> Comparison {
    assert!(!baseline.is_empty() && !candidate.is_empty(), "a side without runs");
    let sides = Sides { baseline, candidate, options };
    let (mut rows, mut omitted) = (Vec::new(), Vec::new());
    let metrics = std::iter::once(&options.headline).chain(&options.further);
    for (at, &metric) in metrics.enumerate() {
        let risk = match (at, options.further.len()) {
            (0, 0) => options.risk,
            (0, _) => options.risk * HEADLINE_PART,
            (_, others) => options.risk * (1.0 - HEADLINE_PART) / others as f64,
        };
        match sides.row(metric, risk) {
            Ok(row) => rows.push(row),
            Err(reason) => omitted.push(OmittedMetric { metric, reason }),
        }
    }
    let verdict = Verdict::new(&rows, options.headline);
    Comparison { rows, omitted, verdict }
}

struct Sides<'a> {
    baseline: &'a [Run],
    candidate: &'a [Run],
    options: &'a Options,
}

/// What the two sides have of a metric, and how they differ.
struct Difference {
    baseline: f64,
    candidate: f64,
    interval: Interval,
    drift: Option<Drift>,
}

impl Comparison {
    /// Makes these metrics inconclusive because of the runs' conditions. A metric that
    /// is worse stays worse unless `also_worse`.
    pub fn doubt(
        &mut self,
        headline: Metric,
        is_doubted: impl Fn(Metric) -> bool,
        also_worse: bool,
    ) {
        for row in &mut self.rows {
            let is_worse = row.finding == Finding::Worse;
            if is_doubted(row.metric) && (also_worse || !is_worse) {
                row.finding = Finding::Inconclusive(Doubt::Conditions);
            }
        }
        self.verdict = Verdict::new(&self.rows, headline);
    }
}

impl Sides<'_> {
    fn row(&self, metric: Metric, risk: f64) -> Result<Row, DataShortage> {
        let found = match (metric, self.baseline, self.candidate) {
            (Metric::Failures, ..) => self.failures(risk)?,
            (_, [a], [b]) => self.of_single_runs(a, b, metric, risk)?,
            _ => self.of_several_runs(metric, risk)?,
        };
        let Options { threshold, margin, .. } = *self.options;
        let tolerance = Tolerance { threshold, margin }.for_metric(metric);
        let drift = DriftEffect {
            could_explain: found
                .drift
                .is_some_and(|drift| drift.could_explain(&found.interval, tolerance.threshold)),
            reach: found.drift.filter(Drift::is_seen).map_or(0.0, |drift| drift.explains),
        };
        let detectable = found.interval.detectable(risk);
        let (change, detectable) = if metric.is_absolute() {
            (found.interval, detectable)
        } else {
            (found.interval.exponential(), detectable.exp_m1())
        };
        let finding = Finding::new(metric, &change, tolerance, drift);
        let confidence = 1.0 - risk;
        let Difference { baseline, candidate, drift, .. } = found;
        Ok(Row { metric, baseline, candidate, change, confidence, detectable, drift, finding })
    }

    fn of_single_runs(
        &self,
        baseline: &Run,
        candidate: &Run,
        metric: Metric,
        risk: f64,
    ) -> Result<Difference, DataShortage> {
        let [a, b] = estimates([baseline, candidate], metric, risk)?;
        // A query that failed on one side only would shift all that follow.
        let is_paired =
            self.options.pairing == Pairing::InOrder && baseline.failed == candidate.failed;
        let interval = between::single(&a, &b, is_paired);
        Ok(Difference {
            baseline: a.value.exp(),
            candidate: b.value.exp(),
            interval: interval.widened(self.options.between_runs, risk),
            drift: None,
        })
    }

    fn of_several_runs(&self, metric: Metric, risk: f64) -> Result<Difference, DataShortage> {
        let is_paired =
            self.options.pairing == Pairing::InOrder && self.baseline.len() == self.candidate.len();
        if !is_paired {
            return self.of_observations(self.baseline, self.candidate, metric, risk);
        }
        let mut found = self.of_observations(self.baseline, self.candidate, metric, risk);
        let mut size = 2;
        while found.is_err() && size <= self.options.pooled_most && self.baseline.len() >= 2 * size
        {
            let pooled = |runs: &[Run]| -> Vec<Run> { runs.chunks(size).map(Run::pool).collect() };
            let (a, b) = (pooled(self.baseline), pooled(self.candidate));
            found = self.of_observations(&a, &b, metric, risk);
            size *= 2;
        }
        found
    }

    fn of_observations(
        &self,
        baseline: &[Run],
        candidate: &[Run],
        metric: Metric,
        risk: f64,
    ) -> Result<Difference, DataShortage> {
        let each = |runs: &[Run]| -> Result<Vec<f64>, DataShortage> {
            runs.iter().map(|run| estimate_alone(run, metric)).collect()
        };
        let (a, b) = (each(baseline)?, each(candidate)?);
        let interval = match self.options.pairing {
            Pairing::InOrder if a.len() == b.len() => {
                between::paired(&a, &b, risk, self.options.looks)
            }
            _ => between::independent(&a, &b, risk),
        };
        let mean = |values: &[f64]| Moments::from_values(values).mean.exp();
        let drift = self.drift((baseline, &a), (candidate, &b));
        Ok(Difference { baseline: mean(&a), candidate: mean(&b), interval, drift })
    }

    fn failures(&self, risk: f64) -> Result<Difference, DataShortage> {
        let [mut a, mut b] = [self.baseline, self.candidate].map(|runs| share(runs, risk));
        if let (Ok(a), Ok(b)) = (&mut a, &mut b) {
            // A side without failures does not say how they cluster.
            let clustered = |one: &Share| one.independent / one.trials;
            let most = clustered(a).min(clustered(b));
            a.independent = most * a.trials;
            b.independent = most * b.trials;
        }
        let (a, b) = (a?, b?);
        let reach = match self.options.looks {
            LookPolicy::One => normal(risk / 2.0),
            LookPolicy::Any => anytime::normal(self.baseline.len() as f64, risk),
        };
        let interval = between::shares(a, b, reach);
        Ok(Difference { baseline: a.value, candidate: b.value, interval, drift: None })
    }

    fn drift(&self, baseline: (&[Run], &[f64]), candidate: (&[Run], &[f64])) -> Option<Drift> {
        let placed = |(runs, values): (&[Run], &[f64])| -> Option<Vec<(f64, f64)>> {
            runs.iter().zip(values).map(|(run, &value)| Some((run.position?, value))).collect()
        };
        drift::estimate(&placed(baseline)?, &placed(candidate)?)
    }
}

impl Run {
    /// Pools runs that were played one after the other, such as the slices of one.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn pool(runs: &[Self]) -> Self {
        let first = runs.first().expect("at least one run is pooled");
        let mut pooled = Self { stride: first.stride, ..Self::default() };
        let mut begin = 0;
        for run in runs {
            pooled.latency.extend_from_slice(&run.latency);
            pooled.first_token.extend_from_slice(&run.first_token);
            pooled.time_per_output_token.extend_from_slice(&run.time_per_output_token);
            pooled.completed.extend(run.completed.iter().map(|at| at.saturating_add(begin)));
            pooled.failed.extend_from_slice(&run.failed);
            begin = pooled.completed.last().copied().unwrap_or(begin);
        }
        let positions: Option<Vec<f64>> = runs.iter().map(|run| run.position).collect();
        pooled.position = positions.map(|at| at.iter().sum::<f64>() / at.len() as f64);
        pooled
    }

    fn times(&self, series: Series) -> &[Nanos] {
        match series {
            Series::Latency => &self.latency,
            Series::FirstToken => &self.first_token,
            Series::TimePerOutputToken => &self.time_per_output_token,
        }
    }

    /// Time from one answer to the next.
    fn gaps(&self) -> Vec<Nanos> {
        let before = std::iter::once(&0).chain(&self.completed);
        self.completed.iter().zip(before).map(|(at, before)| at.saturating_sub(*before)).collect()
    }

    /// ln of answers a second, where ln of the mean gap in ns is this.
    fn log_rate(&self, log_gap: f64) -> f64 {
        (self.stride * SECOND as f64).ln() - log_gap
    }
}

/// The logarithm of a metric of two runs, with limits.
fn estimates(runs: [&Run; 2], metric: Metric, risk: f64) -> Result<[Estimate; 2], DataShortage> {
    let each = |estimate: &dyn Fn(&Run) -> Result<Estimate, DataShortage>| {
        Ok([estimate(runs[0])?, estimate(runs[1])?])
    };
    match metric {
        Metric::Percentile(series, p) => {
            within::percentiles(runs.map(|run| run.times(series)), p, risk)
        }
        Metric::Mean(series) => each(&|run| within::mean(run.times(series), risk)),
        Metric::Throughput => each(&|run| {
            let gap = within::mean(&run.gaps(), risk)?;
            Ok(Estimate { value: run.log_rate(gap.value), ..gap })
        }),
        Metric::Failures => unreachable!("shares have no logarithm"),
    }
}

/// The logarithm of a metric of one run.
fn estimate_alone(run: &Run, metric: Metric) -> Result<f64, DataShortage> {
    match metric {
        Metric::Percentile(series, p) => within::percentile_alone(run.times(series), p),
        Metric::Mean(series) => within::mean_alone(run.times(series)),
        Metric::Throughput => within::mean_alone(&run.gaps()).map(|gap| run.log_rate(gap)),
        Metric::Failures => unreachable!("shares have no logarithm"),
    }
}

/// The share of failures on one side. Of several runs, their differences say how
/// failures cluster.
fn share(runs: &[Run], risk: f64) -> Result<Share, DataShortage> {
    match runs {
        [run] => within::share(&run.failed, risk),
        runs => {
            let of_runs: Vec<&[bool]> = runs.iter().map(|run| &run.failed[..]).collect();
            Ok(within::share_of_runs(&of_runs, risk))
        }
    }
}
