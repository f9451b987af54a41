//! Compares two sides by the latencies of single queries: whether one side is better or worse.
//!
//! With one run per side, limits come from batches of the run ([`within`]) and are widened by an
//! assumed deviation between runs ([`Options::between_runs`]). With several runs, each run is one
//! observation ([`between`]) and the deviation is measured. A run may be played in slices that
//! alternate with those of the other side; then two slices of each side are one observation. If
//! runs are added until the result is conclusive, limits hold at every look ([`anytime`]).
//!
//! All limits of a comparison hold together with the stated confidence, and the verdict follows
//! only from them: the probability of a false alarm in the whole comparison stays below
//! [`Options::risk`]. `examples/compare_trials` measures both.
//!
//! ```
//! use dyno_loadgen::compare::{Metric, Options, Pairing, Run, Series, Verdict, compare};
//!
//! let run = |offset: u64| Run {
//!     latency: (0..1_000).map(|query| 1_000_000 + offset + query * 7_919 % 1_000).collect(),
//!     ..Run::default()
//! };
//! let median = Metric::Percentile(Series::Latency, 0.5);
//! let options = Options::new(median, Vec::new(), Pairing::None);
//! let comparison = compare(&[run(0)], &[run(200_000)], &options);
//! assert_eq!(comparison.verdict, Verdict::Worse);
//! assert!((comparison.rows[0].change.value - 0.2).abs() < 0.001);
//! ```

mod anytime;
mod between;
pub mod bound;
mod cluster;
mod drift;
pub mod probability;
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

/// Data of a run, in columns in the order of its schedule.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Run {
    /// Latencies of the answered queries, ns.
    pub latency: Vec<Nanos>,
    /// Times to first token, ns after the due time, of queries whose first token is known.
    pub first_token: Vec<Nanos>,
    /// Times per output token, ns, of queries with several tokens.
    pub time_per_output_token: Vec<Nanos>,
    /// Completion times of queries, ns since the start, ascending. Of a closed loop, those up to the
    /// last issue.
    pub completed: Vec<Nanos>,
    /// Time over which the completions count, ns; `None` until the last of them. See
    /// [`Pace`](crate::metrics::Pace).
    pub length: Option<Nanos>,
    /// Queries in flight of a closed loop, whose completions come in rounds; 0 for other loads.
    pub in_flight: usize,
    /// Per query: whether it failed.
    pub failed: Vec<bool>,
    /// Number of queries that one record represents (> 0).
    pub stride: f64,
    /// Figures of all queries, if the columns are a random selection of them: ns, or the share of
    /// failures. They are the values of the metrics; the columns give their limits.
    pub exact: Vec<(Metric, f64)>,
    /// Position in the playing order of all runs of the comparison, if known.
    pub position: Option<f64>,
}

/// Kind of time of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Series {
    /// Time from the due time to the answer.
    Latency,
    /// Time from the due time to the first token.
    FirstToken,
    /// Time between tokens.
    TimePerOutputToken,
}

/// Metric that is compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Metric {
    /// Percentile, in (0, 1).
    Percentile(Series, f64),
    /// Mean.
    Mean(Series),
    /// Answers per second.
    Throughput,
    /// Share of failed queries.
    Failures,
}

impl Metric {
    /// Returns whether higher values are better.
    pub fn is_better_high(self) -> bool {
        self == Self::Throughput
    }

    /// Returns whether its difference is a share of all queries; otherwise it is a share of the
    /// baseline's value.
    pub fn is_absolute(self) -> bool {
        self == Self::Failures
    }
}

/// Correspondence between the runs of the two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairing {
    /// No correspondence.
    None,
    /// Run `i` of one side was played beside run `i` of the other side. For single runs, query `i`
    /// was scheduled at the same time.
    InOrder,
}

/// Options of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Metric with most of the risk.
    pub headline: Metric,
    /// Further metrics.
    pub further: Vec<Metric>,
    /// Correspondence between the runs.
    pub pairing: Pairing,
    /// Changes up to this share of the baseline's value are neither better nor worse (>= 0). It
    /// does not apply to failures, where every change counts.
    pub threshold: f64,
    /// Changes up to this share of the baseline's value are equivalent (>= 0).
    pub margin: f64,
    /// Probability of any false alarm among all metrics, in (0, 1).
    pub risk: f64,
    /// When the comparison is evaluated while runs are added.
    pub looks: LookPolicy,
    /// Standard deviation of the logarithm of a metric between runs of one system
    /// (>= 0), assumed if each side has a single run.
    pub between_runs: f64,
    /// Maximum number of consecutive runs that are pooled into one observation if single runs have
    /// too few values (>= 1); for [`Pairing::InOrder`].
    pub pooled_most: usize,
}

/// Default probability of a false alarm.
pub const RISK: f64 = 0.05;

/// Default of [`Options::margin`].
pub const MARGIN: f64 = 0.05;

impl Options {
    /// Returns the defaults for these metrics, in virtual time.
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

/// Part of the risk for the headline if there are further metrics. These share the rest evenly, so
/// that only large changes of them count.
const HEADLINE_PART: f64 = 0.8;

/// Statistical power of [`Row::detectable`].
pub const POWER: f64 = 0.8;

/// Comparison of one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Metric.
    pub metric: Metric,
    /// Value of the baseline: ns, answers per second, or a share. The geometric mean of several
    /// runs.
    pub baseline: f64,
    /// Value of the candidate.
    pub candidate: f64,
    /// Change from baseline to candidate, as a share of the baseline; a difference of shares for
    /// [`Metric::Failures`]. 0.02 is 2 % more.
    pub change: Interval,
    /// Confidence of the limits of this row, chosen such that those of all rows hold together.
    pub confidence: f64,
    /// Smallest change that is found in [`POWER`] of all such comparisons; infinite if there is
    /// none.
    pub detectable: f64,
    /// Trend over all runs.
    pub drift: Option<Drift>,
    /// Conclusion.
    pub finding: Finding,
}

/// A metric that could not be compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OmittedMetric {
    /// Metric.
    pub metric: Metric,
    /// Why it could not be compared.
    pub reason: DataShortage,
}

/// Result of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Compared metrics; the headline is first, if it could be compared.
    pub rows: Vec<Row>,
    /// Metrics that could not be compared.
    pub omitted: Vec<OmittedMetric>,
    /// Conclusion of the whole comparison.
    pub verdict: Verdict,
    /// Whether the failures of all runs of the candidate together exceed those of the baseline beyond
    /// chance, but not in each run, so that they are inconclusive.
    pub has_more_failures: bool,
}

/// Compares two sides of at least one run each.
///
/// # Panics
/// If a side has no run.
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
    let open = rows.iter().find(|row| {
        row.metric == Metric::Failures && matches!(row.finding, Finding::Inconclusive(_))
    });
    let has_more_failures =
        open.is_some_and(|row| sides.increase_of_failures(1.0 - row.confidence).is_some());
    Comparison { rows, omitted, verdict, has_more_failures }
}

/// Returns the difference of two shares, candidate minus baseline. Each is a share with the number
/// of its independent trials; `risk` is the probability that the interval misses the truth.
///
/// ```
/// use dyno_loadgen::compare::share_difference;
///
/// // 64 of 64 correct answers, then 5 of 64.
/// let change = share_difference([(1.0, 64.0), (5.0 / 64.0, 64.0)], 0.05);
/// assert!(change.high < -0.8);
/// ```
pub fn share_difference(sides: [(f64, f64); 2], risk: f64) -> Interval {
    let [a, b] = sides.map(|(value, trials)| Share { value, trials, independent: trials });
    between::shares(a, b, normal(risk / 2.0))
}

struct Sides<'a> {
    baseline: &'a [Run],
    candidate: &'a [Run],
    options: &'a Options,
}

/// Values of a metric on both sides, and their difference.
struct Difference {
    baseline: f64,
    candidate: f64,
    interval: Interval,
    drift: Option<Drift>,
}

impl Comparison {
    /// Makes metrics inconclusive because of the conditions of the runs. A metric that is worse
    /// stays worse unless `also_worse` is set.
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
        // Queries do not correspond after a query that failed on one side only.
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
            share_clusters(a, b);
        }
        let (a, b) = (a?, b?);
        let between_runs = between::shares(a, b, self.reach(risk));
        // Few runs give wide limits, whatever the number of their queries.
        let interval = match self.increase_of_failures(risk) {
            Some(pooled) if between_runs.low <= 0.0 && self.fails_more_in_each_run() => pooled,
            _ => between_runs,
        };
        Ok(Difference { baseline: a.value, candidate: b.value, interval, drift: None })
    }

    /// Returns the distance of the limits of a share, in standard errors.
    fn reach(&self, risk: f64) -> f64 {
        match self.options.looks {
            LookPolicy::One => normal(risk / 2.0),
            LookPolicy::Any => anytime::normal(self.baseline.len() as f64, risk),
        }
    }

    /// Returns the increase of the failures over all queries of each side, if it is beyond chance within
    /// the runs. It does not include differences between runs.
    fn increase_of_failures(&self, risk: f64) -> Option<Interval> {
        let (mut a, mut b) = (pooled(self.baseline, risk)?, pooled(self.candidate, risk)?);
        share_clusters(&mut a, &mut b);
        Some(between::shares(a, b, self.reach(risk))).filter(|increase| increase.low > 0.0)
    }

    /// Returns whether each run of the candidate has more failures than its pair, or than every run of the
    /// baseline without pairs.
    fn fails_more_in_each_run(&self) -> bool {
        let shares = |runs: &[Run]| -> Vec<f64> {
            runs.iter().map(|run| run.failures() / run.failed.len().max(1) as f64).collect()
        };
        let (a, b) = (shares(self.baseline), shares(self.candidate));
        match self.options.pairing {
            Pairing::InOrder if a.len() == b.len() => a.iter().zip(&b).all(|(a, b)| b > a),
            _ => b.iter().all(|b| a.iter().all(|a| b > a)),
        }
    }

    fn drift(&self, baseline: (&[Run], &[f64]), candidate: (&[Run], &[f64])) -> Option<Drift> {
        let placed = |(runs, values): (&[Run], &[f64])| -> Option<Vec<(f64, f64)>> {
            runs.iter().zip(values).map(|(run, &value)| Some((run.position?, value))).collect()
        };
        drift::estimate(&placed(baseline)?, &placed(candidate)?)
    }
}

impl Run {
    /// Pools consecutive runs, such as the slices of a run.
    ///
    /// # Panics
    /// If there are no runs.
    pub fn pool(runs: &[Self]) -> Self {
        let first = runs.first().expect("at least one run is pooled");
        let mut pooled =
            Self { stride: first.stride, in_flight: first.in_flight, ..Self::default() };
        let mut begin = 0;
        for run in runs {
            pooled.latency.extend_from_slice(&run.latency);
            pooled.first_token.extend_from_slice(&run.first_token);
            pooled.time_per_output_token.extend_from_slice(&run.time_per_output_token);
            pooled.completed.extend(run.completed.iter().map(|at| at.saturating_add(begin)));
            pooled.failed.extend_from_slice(&run.failed);
            begin = pooled.completed.last().copied().unwrap_or(begin);
        }
        if runs.iter().any(|run| run.length.is_some()) {
            pooled.length = Some(runs.iter().map(Self::length).fold(0, Nanos::saturating_add));
        }
        let positions: Option<Vec<f64>> = runs.iter().map(|run| run.position).collect();
        pooled.position = positions.map(|at| at.iter().sum::<f64>() / at.len() as f64);
        pooled
    }

    /// Returns the number of failures; of all queries if the columns are a selection, scaled to these.
    fn failures(&self) -> f64 {
        let counted = || self.failed.iter().filter(|&&failed| failed).count() as f64;
        let scaled = |share: f64| share * self.failed.len() as f64;
        self.exact(Metric::Failures).map_or_else(counted, scaled)
    }

    /// Returns the figure of all queries; `None` if the columns have all of them.
    fn exact(&self, metric: Metric) -> Option<f64> {
        self.exact.iter().find(|(of, _)| *of == metric).map(|(_, value)| *value)
    }

    fn times(&self, series: Series) -> &[Nanos] {
        match series {
            Series::Latency => &self.latency,
            Series::FirstToken => &self.first_token,
            Series::TimePerOutputToken => &self.time_per_output_token,
        }
    }

    /// Returns the times between answers.
    fn gaps(&self) -> Vec<Nanos> {
        let before = std::iter::once(&0).chain(&self.completed);
        self.completed.iter().zip(before).map(|(at, before)| at.saturating_sub(*before)).collect()
    }

    /// Returns the time over which the completions count, ns.
    fn length(&self) -> Nanos {
        self.length.or_else(|| self.completed.last().copied()).unwrap_or(0)
    }

    /// Returns the logarithm of the mean time between answers, without limits.
    fn mean_gap(&self) -> Result<f64, DataShortage> {
        let found = within::mean_alone(&self.gaps())?;
        let count = self.completed.len() as f64;
        Ok(self.length.map_or(found, |length| (length as f64 / count).max(0.5).ln()))
    }

    /// Returns the logarithm of the answers per second for the logarithm of the mean gap in ns.
    fn log_rate(&self, log_gap: f64) -> f64 {
        (self.stride * SECOND as f64).ln() - log_gap
    }
}

/// Returns the logarithm of a metric of two runs, with limits.
fn estimates(runs: [&Run; 2], metric: Metric, risk: f64) -> Result<[Estimate; 2], DataShortage> {
    let [a, b] = estimates_of_columns(runs, metric, risk)?;
    Ok([a.with_exact(runs[0].exact(metric)), b.with_exact(runs[1].exact(metric))])
}

fn estimates_of_columns(
    runs: [&Run; 2],
    metric: Metric,
    risk: f64,
) -> Result<[Estimate; 2], DataShortage> {
    let each = |estimate: &dyn Fn(&Run) -> Result<Estimate, DataShortage>| {
        Ok([estimate(runs[0])?, estimate(runs[1])?])
    };
    match metric {
        Metric::Percentile(series, p) => {
            within::percentiles(runs.map(|run| run.times(series)), p, risk)
        }
        Metric::Mean(series) => each(&|run| within::mean(run.times(series), risk)),
        Metric::Throughput => each(&|run| {
            let gap = within::mean_gap(&run.gaps(), run.in_flight, risk)?;
            Ok(Estimate { value: run.log_rate(run.mean_gap()?), ..gap })
        }),
        Metric::Failures => unreachable!("shares have no logarithm"),
    }
}

/// Returns the logarithm of a metric of one run.
fn estimate_alone(run: &Run, metric: Metric) -> Result<f64, DataShortage> {
    if let Some(exact) = run.exact(metric) {
        return Ok(within::ln(exact));
    }
    match metric {
        Metric::Percentile(series, p) => within::percentile_alone(run.times(series), p),
        Metric::Mean(series) => within::mean_alone(run.times(series)),
        Metric::Throughput => run.mean_gap().map(|gap| run.log_rate(gap)),
        Metric::Failures => unreachable!("shares have no logarithm"),
    }
}

/// Returns the share of failures on one side. With several runs, their differences show how
/// failures cluster.
fn share(runs: &[Run], risk: f64) -> Result<Share, DataShortage> {
    let found = match runs {
        [run] => within::share(&run.failed, risk)?,
        runs => {
            let of_runs: Vec<&[bool]> = runs.iter().map(|run| &run.failed[..]).collect();
            within::share_of_runs(&of_runs, risk)
        }
    };
    let value = runs.iter().map(Run::failures).sum::<f64>() / found.trials.max(1.0);
    Ok(Share { value, ..found })
}

/// Returns the share of failures over all queries of one side. How failures cluster is estimated within each
/// run. `None` if a run is too short.
fn pooled(runs: &[Run], risk: f64) -> Option<Share> {
    let parts: Option<Vec<Share>> =
        runs.iter().map(|run| within::share(&run.failed, risk).ok()).collect();
    let parts = parts?;
    let trials: f64 = parts.iter().map(|part| part.trials).sum();
    let independent = parts.iter().map(|part| part.independent).sum();
    let value = runs.iter().map(Run::failures).sum::<f64>() / trials.max(1.0);
    Some(Share { value, trials, independent })
}

/// Gives both sides the stronger clustering: a side without failures does not show how failures cluster.
fn share_clusters(a: &mut Share, b: &mut Share) {
    let clustered = |one: &Share| one.independent / one.trials;
    let most = clustered(a).min(clustered(b));
    a.independent = most * a.trials;
    b.independent = most * b.trials;
}
