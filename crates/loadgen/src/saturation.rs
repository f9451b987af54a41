//! Detects during a run at a rate that the system does not keep up: more queries arrive than it
//! completes, so that its queue grows for as long as the run lasts.
//!
//! A queue also grows by chance, and while the first queries are still in work. A run is over-saturated
//! only if all of this holds over its last three quarters:
//!
//! 1. The backlog grew in most of 16 equal intervals: their mean is at least 5 standard errors above 0.
//!    A stable system at 95 % utilization has such a run less than once in a thousand.
//! 2. It grew by at least a twentieth of the arrivals.
//! 3. It grew in the second half at least half as fast as in the first: it does not level off, as it
//!    does when answers simply take long.
//! 4. Completions do not speed up by more than a fifth, as they do while the first answers are awaited.
//! 5. It grew by at least 2 s of completions.
//! 6. Queries take longer and longer. Otherwise a share of long answers accumulates.
//! 7. The system works off its queue roughly in order: few queries wait for much longer than those take
//!    that are answered. Otherwise the long answers of the first queries are still awaited.

use crate::clock::{MILLISECOND, Nanos, SECOND};
use crate::drive::Glance;

/// An over-saturated run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Saturation {
    /// Time of the run when it was detected, ns.
    pub at: Nanos,
    /// Samples that arrived, per second.
    pub arrivals_per_s: f64,
    /// Samples that were completed, per second.
    pub completions_per_s: f64,
    /// Samples that were issued and not complete.
    pub backlog: u64,
}

/// Number of intervals whose growth is compared.
const INTERVALS: usize = 16;
/// Least growth, in standard errors.
const LEAST_ERRORS: f64 = 5.0;
/// Least growth as a share of the arrivals.
const LEAST_SHARE: f64 = 0.05;
/// Least growth of the second half as a share of that of the first.
const LEAST_LATE_GROWTH: f64 = 0.5;
/// Most completions of the second half as a multiple of those of the first.
const MOST_SPEED_UP: f64 = 1.2;
/// Least growth in seconds of completions.
const LEAST_BACKLOG_S: f64 = 2.0;
/// Least growth of the latency as a share of what a queue in order would cause.
const LEAST_LATENCY_GROWTH: f64 = 0.33;
/// Most share of waiting queries that are older than this multiple of the latency.
const MOST_OVERTAKEN: f64 = 0.05;
const OVERTAKEN_AFTER: f64 = 1.5;
/// Least completions in each half.
const LEAST_COMPLETIONS: f64 = 20.0;
/// Time of the first look. The next one is a tenth later, so that an hour has about sixty.
const FIRST_LOOK: Nanos = 5 * SECOND;
/// Least time between two points that are kept.
const LEAST_SPACING: Nanos = 100 * MILLISECOND;
/// Most points that are kept: beyond that every second one is dropped.
const MOST_POINTS: usize = 2_048;

/// Progress of a run at one time.
#[derive(Debug, Clone, Copy)]
struct Point {
    now: Nanos,
    issued: u64,
    completed: u64,
    /// Median latency of the queries answered since the last point.
    latency: Option<Nanos>,
}

impl Point {
    fn backlog(&self) -> f64 {
        self.issued as f64 - self.completed as f64
    }
}

/// Watches the backlog of a run by its glances.
///
/// ```
/// use dyno_loadgen::clock::SECOND;
/// use dyno_loadgen::drive::{AnsweredQuery, Glance};
/// use dyno_loadgen::saturation::SaturationDetector;
///
/// let mut detector = SaturationDetector::default();
/// let found = (1..=600).find_map(|tenth| {
///     // 100 arrive a second, and 50 are completed.
///     let latency = tenth * SECOND / 20;
///     let (tenant, stands_for, first_token, client_lag) = (0, 1, None, None);
///     let due = tenth * SECOND / 10 - latency;
///     detector.look(&Glance {
///         epoch: 1,
///         now: tenth * SECOND / 10,
///         issued_samples: tenth * 10,
///         completed_samples: tenth * 5,
///         answered: vec![AnsweredQuery { tenant, due, latency, first_token, client_lag, stands_for }],
///         ..Glance::default()
///     })
/// });
/// let found = found.expect("the backlog grows");
/// assert!((found.arrivals_per_s - found.completions_per_s - 50.0).abs() < 1.0);
/// ```
#[derive(Debug, Default)]
pub struct SaturationDetector {
    epoch: u16,
    points: Vec<Point>,
    next_look: Nanos,
}

impl SaturationDetector {
    /// Adds a glance. Returns the finding if the run is over-saturated. A glance of another run of the
    /// test begins anew.
    pub fn look(&mut self, glance: &Glance) -> Option<Saturation> {
        if glance.epoch != self.epoch {
            *self = Self { epoch: glance.epoch, points: Vec::new(), next_look: FIRST_LOOK };
        }
        let mut latencies: Vec<Nanos> = glance.answered.iter().map(|query| query.latency).collect();
        let middle = latencies.len() / 2;
        let latency = (!latencies.is_empty()).then(|| *latencies.select_nth_unstable(middle).1);
        let is_soon = |last: &Point| glance.now < last.now + LEAST_SPACING;
        if !self.points.last().is_some_and(is_soon) {
            let (issued, completed) = (glance.issued_samples, glance.completed_samples);
            self.points.push(Point { now: glance.now, issued, completed, latency });
        }
        if self.points.len() > MOST_POINTS {
            let mut number = 0;
            self.points.retain(|_| {
                number += 1;
                number % 2 == 0
            });
        }
        if glance.now < self.next_look.max(FIRST_LOOK) {
            return None;
        }
        self.next_look = glance.now + glance.now / 10;
        self.judge(glance)
    }

    fn judge(&self, glance: &Glance) -> Option<Saturation> {
        let now = glance.now;
        let begin = now / 4;
        let nearest = |time: Nanos| {
            let at = self.points.partition_point(|point| point.now < time);
            self.points.get(at).or(self.points.last()).copied()
        };
        let bound = |at: usize| begin + (now - begin) * at as u64 / INTERVALS as u64;
        let bounds: Vec<Point> = (0..=INTERVALS).map_while(|at| nearest(bound(at))).collect();
        let [first, .., last] = bounds[..] else { return None };
        let middle = bounds[INTERVALS / 2];
        let growths: Vec<f64> =
            bounds.windows(2).map(|pair| pair[1].backlog() - pair[0].backlog()).collect();
        let count = growths.len() as f64;
        let mean = growths.iter().sum::<f64>() / count;
        let variance =
            growths.iter().map(|growth| (growth - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let is_significant = mean > LEAST_ERRORS * (variance / count).sqrt();

        let growth = last.backlog() - first.backlog();
        let arrivals = last.issued.saturating_sub(first.issued);
        let (early, late) = (middle.backlog() - first.backlog(), last.backlog() - middle.backlog());
        let completed = |from: Point, to: Point| to.completed.saturating_sub(from.completed) as f64;
        let (early_completions, late_completions) =
            (completed(first, middle), completed(middle, last));
        let seconds = last.now.saturating_sub(first.now) as f64 / SECOND as f64;
        let completions_per_s = completed(first, last) / seconds;
        let is_over = is_significant
            && early_completions.min(late_completions) >= LEAST_COMPLETIONS
            && late_completions <= MOST_SPEED_UP * early_completions
            && growth >= LEAST_SHARE * arrivals as f64
            && late >= LEAST_LATE_GROWTH * early
            && growth >= LEAST_BACKLOG_S * completions_per_s
            && self.latency_grows(glance, first.now, growth / arrivals as f64);
        is_over.then_some(Saturation {
            at: now,
            arrivals_per_s: arrivals as f64 / seconds,
            completions_per_s,
            backlog: last.issued.saturating_sub(last.completed),
        })
    }

    /// Returns whether the latency grows between the first and the last third of the time since `from`,
    /// and few queries wait for much longer than that. A queue in order adds `per_second` to the latency
    /// in each second.
    fn latency_grows(&self, glance: &Glance, from: Nanos, per_second: f64) -> bool {
        let (to, third) = (glance.now, (glance.now - from) / 3);
        let median = |from: Nanos, to: Nanos| {
            let within = self.points.iter().filter(|point| (from..=to).contains(&point.now));
            let mut latencies: Vec<Nanos> = within.filter_map(|point| point.latency).collect();
            let middle = latencies.len() / 2;
            (!latencies.is_empty()).then(|| *latencies.select_nth_unstable(middle).1 as f64)
        };
        let (Some(early), Some(late)) = (median(from, from + third), median(to - third, to)) else {
            return false;
        };
        // Early in a run no query can have waited for a multiple of the latency.
        let much_longer = (OVERTAKEN_AFTER * late).min(late.midpoint(to as f64));
        let is_overtaken = |due: Nanos| to.saturating_sub(due) as f64 > much_longer;
        let overtaken = glance.waiting.iter().filter(|query| is_overtaken(query.due)).count();
        let expected = per_second * 2.0 * third as f64;
        late - early >= LEAST_LATENCY_GROWTH * expected
            && overtaken as f64 <= MOST_OVERTAKEN * glance.waiting.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::{AnsweredQuery, WaitingQuery};
    use crate::rng::Mt19937;

    /// Time between two glances.
    const GLANCE: Nanos = 200 * MILLISECOND;

    /// Plays a run of `seconds`. `gap` and `service` return times in seconds; `begins` returns when a
    /// query begins that was due at the first time, and before which the system is free at the second.
    /// Returns when the rule ends it.
    fn played(
        seconds: u64,
        mut gap: impl FnMut() -> f64,
        mut service: impl FnMut() -> f64,
        begins: impl Fn(f64, f64) -> f64,
    ) -> Option<Saturation> {
        let (mut due, mut free, mut queries) = (0.0, 0.0_f64, Vec::new());
        while due < seconds as f64 {
            due += gap();
            let done = begins(due, free) + service();
            free = free.max(done);
            queries.push((due, done));
        }
        let mut by_done: Vec<(f64, f64)> = queries.iter().map(|&(due, done)| (done, due)).collect();
        by_done.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut detector = SaturationDetector::default();
        let (mut issued, mut completed, mut oldest) = (0, 0, 0);
        (1..=seconds * SECOND / GLANCE).find_map(|glance| {
            let now = glance * GLANCE;
            let time = now as f64 / SECOND as f64;
            issued += queries[issued..].iter().take_while(|query| query.0 <= time).count();
            let answered = by_done[completed..].iter().take_while(|query| query.0 <= time);
            let answered: Vec<AnsweredQuery> = answered
                .map(|&(done, due)| AnsweredQuery {
                    tenant: 0,
                    due: (due * 1e9) as Nanos,
                    latency: ((done - due) * 1e9) as Nanos,
                    first_token: None,
                    client_lag: None,
                    stands_for: 1,
                })
                .collect();
            completed += answered.len();
            let (issued_samples, completed_samples) = (issued as u64, completed as u64);
            let is_waiting = |query: &&(f64, f64)| query.1 > time;
            oldest += queries[oldest..issued].iter().take_while(|query| query.1 <= time).count();
            let wait = |&(due, _): &(f64, f64)| {
                let due = (due * 1e9) as Nanos;
                WaitingQuery { tenant: 0, due, stands_for: 1 }
            };
            let waiting = queries[oldest..issued].iter().filter(is_waiting).map(wait).collect();
            let (epoch, issued_queries, failed_samples) = (1, issued_samples, 0);
            detector.look(&Glance {
                epoch,
                now,
                issued_queries,
                issued_samples,
                completed_samples,
                failed_samples,
                answered,
                waiting,
            })
        })
    }

    /// One server that works off its queue in order.
    fn in_order(due: f64, free: f64) -> f64 {
        due.max(free)
    }

    /// As many servers as there are queries.
    fn at_once(due: f64, _free: f64) -> f64 {
        due
    }

    /// Returns how many of `runs` runs are ended: arrivals at `rate` times the load, service of a mean
    /// of `1 / rate`.
    fn ended(runs: u32, load: f64, rate: f64, gap: impl Fn(&mut Mt19937) -> f64) -> usize {
        let is_ended = |seed: &u32| {
            let (mut arrivals, mut service) =
                (Mt19937::new(u64::from(*seed)), Mt19937::new(u64::from(*seed) + 1_000_000));
            let gap = || gap(&mut arrivals) / (load * rate);
            played(60, gap, || service.exponential(rate), in_order).is_some()
        };
        (0..runs).filter(is_ended).count()
    }

    fn poisson(random: &mut Mt19937) -> f64 {
        random.exponential(1.0)
    }

    #[test]
    fn a_thousand_stable_runs_at_95_percent_are_not_ended() {
        assert_eq!(ended(500, 0.95, 40.0, poisson), 0);
        assert_eq!(ended(250, 0.95, 40.0, |random| random.gamma_of_mean_one(0.25)), 0);
        // Groups of eight.
        let bursts = |random: &mut Mt19937| {
            if random.canonical() < 0.125 { 8.0 * random.exponential(1.0) } else { 0.0 }
        };
        assert_eq!(ended(250, 0.95, 40.0, bursts), 0);
    }

    #[test]
    fn runs_at_120_percent_are_ended() {
        assert_eq!(ended(50, 1.2, 100.0, poisson), 50);
        assert!(ended(50, 1.2, 100.0, |random| random.gamma_of_mean_one(0.5)) > 45);
        // A slow server is found as long as it is far beyond its limit.
        assert!(ended(50, 2.0, 5.0, poisson) > 45);
    }

    #[test]
    fn the_finding_holds_the_rates() {
        let found = played(60, || 0.01, || 0.02, in_order).unwrap();
        assert!((found.arrivals_per_s - 100.0).abs() < 1.0, "{found:?}");
        assert!((found.completions_per_s - 50.0).abs() < 1.0, "{found:?}");
        assert!(found.at < 10 * SECOND && found.backlog > 200, "{found:?}");
    }

    #[test]
    fn answers_that_take_long_are_no_growing_queue() {
        for latency in [1.0, 10.0, 30.0, 50.0, 100.0] {
            assert_eq!(played(60, || 0.02, || latency, at_once), None, "{latency} s");
            for seed in 0..10 {
                let mut random = Mt19937::new(seed);
                let service = || random.exponential(1.0 / latency);
                assert_eq!(played(90, || 0.02, service, at_once), None, "about {latency} s");
                let mut random = Mt19937::new(seed);
                let service = || latency * random.canonical();
                assert_eq!(played(90, || 0.02, service, at_once), None, "up to {latency} s");
            }
        }
        // Ten times as many as it completes are found at once.
        assert!(played(60, || 0.005, || 0.05, in_order).is_some());
        assert!(played(60, || 0.002, || 0.05, in_order).is_some());
        // One answer in five takes longer than the run.
        let mut random = Mt19937::new(7);
        let service = || if random.canonical() < 0.2 { 100.0 } else { 0.5 };
        assert_eq!(played(90, || 0.02, service, at_once), None);
    }

    #[test]
    fn a_long_run_keeps_few_points() {
        let mut detector = SaturationDetector::default();
        for tenth in 1..100_000 {
            let (now, samples) = (tenth * SECOND / 10, tenth);
            let (issued_samples, completed_samples) = (samples, samples);
            let epoch = 1;
            let glance =
                Glance { epoch, now, issued_samples, completed_samples, ..Glance::default() };
            assert_eq!(detector.look(&glance), None);
        }
        assert!(detector.points.len() <= MOST_POINTS);
    }
}
