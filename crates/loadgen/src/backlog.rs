//! Growth of the backlog of an open loop: whether the answers fall more and more behind the arrivals.
//!
//! The backlog is measured as a time: by how much the k-th answer comes after the k-th arrival, whichever
//! query it answers. So the order of the answers does not matter, and an answer that merely takes long is no
//! growth. Answers count until the last arrival, because the system drains afterwards, and without their
//! first quarter, in which the system fills.

use crate::clock::{Nanos, SECOND};
use crate::record::Record;

/// Growth of the backlog over the last three quarters of the answers that came until the last arrival.
///
/// ```
/// use dyno_loadgen::backlog::Growth;
/// use dyno_loadgen::clock::{MILLISECOND, Nanos};
///
/// // 100 queries/s for 10 s. The server answers 80/s.
/// let due: Vec<Nanos> = (0..1_000).map(|query| query * 10 * MILLISECOND).collect();
/// let done = (1..=1_000).map(|answer| answer * 25 * MILLISECOND / 2).collect();
/// let growth = Growth::of_times(due, done).unwrap();
/// assert!(growth.is_found() && (growth.answers_per_s - 80.0).abs() < 1e-6);
/// assert!((growth.share - 0.25).abs() < 1e-6, "each second of arrivals takes 1.25 s");
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    /// Requests that arrived, per second.
    pub arrivals_per_s: f64,
    /// Requests that were answered, per second.
    pub answers_per_s: f64,
    /// Requests outstanding when the last request arrived.
    pub outstanding: u64,
    /// Time by which the answers take longer than the arrivals, per time of arrivals.
    pub share: f64,
    /// Standard error of the share: that of the sum of [`INTERVALS`] intervals; infinite if there are too
    /// few answers.
    pub error: f64,
    /// Whether the backlog was again about as small in the last quarter of the answers as in the second
    /// quarter. The queue of a stable system empties again and again.
    pub returned: bool,
    /// Parts of the share that belong to the first and to the second half.
    halves: [f64; 2],
    /// Answers of the second half of the time, divided by those of the first.
    speed_up: f64,
    /// Arrivals of the run, and answers that the share counts.
    counts: [usize; 2],
}

/// Number of intervals whose growth is compared.
const INTERVALS: usize = 16;
/// Least answers until the last arrival. With fewer, those after it count, too.
const LEAST_ANSWERS: usize = 2 * INTERVALS;
/// Least arrivals of a finding: a few requests do not tell a trend.
const LEAST_ARRIVALS: usize = 100;
/// Least growth of a finding, in standard errors.
const LEAST_ERRORS: f64 = 3.5;
/// Least growth of a likely one, in standard errors.
const LIKELY_ERRORS: f64 = 2.0;
/// Least share of a finding. A smaller one is that of whole requests.
const LEAST_SHARE: f64 = 0.002;
/// Least growth of the second half as a share of that of the first. Below, the backlog levels off.
const LEAST_LATE_GROWTH: f64 = 0.5;
/// Most answers of the second half as a multiple of those of the first. Above, the first answers were still
/// awaited.
const MOST_SPEED_UP: f64 = 1.2;
/// Difference of two least backlogs that chance makes, in standard deviations of a random number of queries
/// in work.
const DEVIATIONS: f64 = 2.0;

impl Growth {
    /// Returns the growth in a recorded run, as [`Growth::of_times`] defines it. A failed request is answered,
    /// and one that never came back is not.
    #[must_use]
    pub fn of_record(record: &Record) -> Option<Self> {
        let each = record.samples_per_query.max(1);
        let queries = record.query_count();
        let due = (0..queries * each).map(|sample| record.scheduled(sample / each)).collect();
        let done = record.completed_at.iter().take(queries * each).copied().filter(|at| *at > 0);
        Self::of_times(due, done.collect())
    }

    /// Returns the growth from when each request was due and when the answers came, both in any order; `None`
    /// for fewer than two answers or arrivals at one time.
    #[must_use]
    pub fn of_times(mut due: Vec<Nanos>, mut done: Vec<Nanos>) -> Option<Self> {
        due.sort_unstable();
        done.sort_unstable();
        done.truncate(due.len());
        let until = |times: &[Nanos], at: Nanos| times.partition_point(|time| *time <= at);
        let answered = until(&done, *due.last()?);
        let count = if answered < LEAST_ANSWERS { done.len() } else { answered };
        let delay = |at: usize| done[at] as f64 - due[at] as f64;
        let (first, last) = (count / 4, count.checked_sub(1)?);
        let intervals = INTERVALS.min(last - first);
        let span = due[last].saturating_sub(due[first]) as f64;
        if span == 0.0 {
            return None;
        }
        let bound = |at: usize| first + (last - first) * at / intervals;
        let growths: Vec<f64> =
            (0..intervals).map(|at| delay(bound(at + 1)) - delay(bound(at))).collect();
        let mean = growths.iter().sum::<f64>() / intervals as f64;
        let squares: f64 = growths.iter().map(|growth| (growth - mean).powi(2)).sum();
        let sum = (squares / (intervals as f64 - 1.0) * intervals as f64).sqrt();
        let half = bound(intervals / 2);
        let (begin, end) = (done[first], done[last]);
        let middle = until(&done, begin + (end - begin) / 2);
        let least = |from: usize, to: usize| (from..to).map(delay).fold(f64::INFINITY, f64::min);
        let (before, after) = (least(first, count / 2), least(count - count / 4, count));
        let in_work = before * (last - first) as f64 / span;
        let random = DEVIATIONS * (in_work.max(0.0) + 1.0).sqrt() * span / (last - first) as f64;
        let per_s = |time: f64| (last - first) as f64 * SECOND as f64 / time;
        Some(Self {
            arrivals_per_s: per_s(span),
            answers_per_s: per_s((end - begin) as f64),
            outstanding: (due.len() - answered) as u64,
            share: (delay(last) - delay(first)) / span,
            error: if sum.is_nan() { f64::INFINITY } else { sum / span },
            returned: after <= before + random,
            halves: [delay(half) - delay(first), delay(last) - delay(half)].map(|of| of / span),
            speed_up: (last + 1 - middle) as f64 / (middle - first) as f64,
            counts: [due.len(), last - first],
        })
    }

    /// Returns whether the backlog grew by far more than chance explains, until the end of the run.
    #[must_use]
    pub fn is_found(&self) -> bool {
        self.is_significant(LEAST_ERRORS) && self.share >= LEAST_SHARE
    }

    /// Returns whether the backlog grew by more than chance often explains: also by more than two standard
    /// errors of the counts of random arrivals and answers.
    #[must_use]
    pub fn is_likely(&self) -> bool {
        let counted = self.counts[1] as f64;
        self.is_significant(LIKELY_ERRORS)
            && self.share * counted > LIKELY_ERRORS * (2.0 * counted).sqrt()
    }

    fn is_significant(&self, errors: f64) -> bool {
        self.counts[0] >= LEAST_ARRIVALS
            && self.share > errors * self.error
            && !self.returned
            && !self.levels_off()
            && self.speed_up <= MOST_SPEED_UP
    }

    /// Returns whether the second half of the answers added much less than the first.
    fn levels_off(&self) -> bool {
        self.halves[1] < LEAST_LATE_GROWTH * self.halves[0]
    }

    /// Returns the share for a rate: 0 if it is negative, within one standard error, or clearly that of a
    /// system that fills.
    pub(crate) fn of_rate(&self) -> f64 {
        let [early, late] = self.halves;
        let fills = self.levels_off() && early - late > LIKELY_ERRORS * self.error;
        if fills || self.share <= self.error { 0.0 } else { self.share.max(0.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::MILLISECOND;

    /// Uniform numbers in (0, 1) from a multiplicative generator (Park and Miller).
    struct Uniform(u64);

    impl Uniform {
        fn next(&mut self) -> f64 {
            self.0 = self.0 * 48_271 % 0x7fff_ffff;
            self.0 as f64 / f64::from(0x7fff_ffff)
        }

        fn exponential(&mut self, mean: f64) -> f64 {
            -mean * self.next().ln()
        }
    }

    enum Order {
        First,
        Last,
        /// Requests that find the server busy come again after 1 s.
        Refused,
    }

    /// Plays a server that completes one request/s on average. Returns the times of arrivals and of
    /// completions of a run with `rate` arrivals/s for `seconds`.
    fn play(seed: u64, rate: f64, seconds: f64, order: &Order) -> [Vec<Nanos>; 2] {
        let mut random = Uniform(seed * 7_919 + 1);
        let (mut due, mut now) = (Vec::new(), 0.0);
        while now < seconds {
            now += random.exponential(1.0 / rate);
            due.push(now);
        }
        let mut waiting = due.clone();
        let (mut done, mut free) = (Vec::new(), 0.0_f64);
        while !waiting.is_empty() {
            let next = match order {
                Order::First => 0,
                Order::Last => waiting.partition_point(|at| *at <= free).saturating_sub(1),
                Order::Refused => {
                    while waiting[0] < free {
                        let again = waiting.remove(0) + 1.0 + random.next() / 10.0;
                        waiting.insert(waiting.partition_point(|at| *at < again), again);
                    }
                    0
                }
            };
            free = waiting.remove(next).max(free) + random.exponential(1.0);
            done.push(free);
        }
        let nanos = |times: Vec<f64>| times.iter().map(|at| (at * 1e9) as Nanos).collect();
        [nanos(due), nanos(done)]
    }

    /// Returns how many of `runs` runs are found to grow.
    fn found(runs: u64, rate: f64, seconds: f64, order: &Order) -> usize {
        let grows = |seed| {
            let [due, done] = play(seed, rate, seconds, order);
            Growth::of_times(due, done).is_some_and(|growth| growth.is_found())
        };
        (1..=runs).filter(|seed| grows(*seed)).count()
    }

    #[test]
    fn overload_is_found_in_whatever_order_requests_are_answered() {
        for order in [Order::First, Order::Last, Order::Refused] {
            let found = found(30, 1.5, 600.0, &order);
            assert!(found >= 26, "{found}");
        }
        let found = found(40, 1.2, 1_800.0, &Order::First);
        assert!(found >= 30, "{found}");
    }

    #[test]
    fn a_stable_queue_is_rarely_suspected() {
        let [first, last] = [Order::First, Order::Last].map(|order| found(200, 0.8, 600.0, &order));
        assert!(first <= 1 && last <= 1, "{first}, {last}");
        let near = found(200, 0.95, 600.0, &Order::First);
        assert!(near <= 6, "{near}");
    }

    fn growth(due: Vec<Nanos>, done: Vec<Nanos>) -> Growth {
        Growth::of_times(due, done).unwrap()
    }

    #[test]
    fn answers_that_take_long_are_no_growth() {
        // 10 requests/s for 60 s, each answered after 5 s, 20 s, 50 s and 100 s.
        for latency in [5, 20, 50, 100] {
            let due: Vec<Nanos> = (0..600).map(|at| at * SECOND / 10).collect();
            let done = due.iter().map(|due| due + latency * SECOND).collect();
            let found = growth(due, done);
            assert!(!found.is_found() && !found.is_likely(), "{latency} s");
            assert!(found.share.abs() < 1e-9 && found.returned, "{latency} s");
        }
        assert_eq!(Growth::of_times(Vec::new(), Vec::new()), None);
        assert_eq!(Growth::of_times(vec![0; 200], vec![Nanos::MAX; 200]), None);
        assert_eq!(Growth::of_times(vec![Nanos::MAX; 200], Vec::new()), None);
        assert_eq!(Growth::of_times(vec![7; 200], vec![SECOND; 200]), None);
    }

    #[test]
    fn a_small_overload_is_likely_and_a_smaller_one_is_chance() {
        // 18.7 requests/s, which are completed at 16/s in their order.
        let due = |at: u64| at * SECOND * 10 / 187;
        let of_first = |queries: u64| {
            let done = (0..queries).map(|at| (at + 1) * SECOND / 16).collect();
            growth((0..queries).map(due).collect(), done)
        };
        let found = of_first(561);
        assert!(found.is_likely());
        assert!((found.arrivals_per_s - 18.7).abs() < 1e-6, "{found:?}");
        assert!((found.answers_per_s - 16.0).abs() < 1e-6, "{found:?}");
        assert!(!of_first(40).is_likely());
        // A queue that grows by 3 % of the arrivals.
        let slight = (0..5_000).map(|at| due(at) * 103 / 100).collect();
        assert!(!growth((0..5_000).map(due).collect(), slight).is_likely());
    }

    #[test]
    fn a_stable_queue_is_rarely_noted() {
        let noted = |rate: f64, order: &Order| {
            let is_noted = |seed: &u64| {
                let [due, done] = play(*seed, rate, 600.0, order);
                growth(due, done).is_likely()
            };
            (1..=200).filter(is_noted).count()
        };
        for order in [Order::First, Order::Last] {
            assert!(noted(0.8, &order) <= 1);
            assert!(noted(0.95, &order) <= 6);
            let over = noted(1.5, &order);
            assert!(over >= 190, "{over}");
        }
    }

    /// Returns the growth of 1,000 queries, one each 10 ms, that are answered after these times.
    fn after(latency: impl Fn(Nanos) -> Nanos) -> Growth {
        let due: Vec<Nanos> = (0..1_000).map(|at| at * 10 * MILLISECOND).collect();
        let done = due.iter().map(|due| due + latency(*due)).collect();
        growth(due, done)
    }

    #[test]
    fn a_queue_that_empties_returns_and_one_that_grows_does_not() {
        assert!(after(|_| 5 * MILLISECOND).returned);
        // 100 in work at any time.
        assert!(after(|_| SECOND).returned);
        // A server of 10.5 ms a query: a delay of 0.5 s after 1,000.
        assert!(!after(|due| 11 * MILLISECOND + due / 20).returned);
        // In the second quarter, one waits at first and 50 later on; at the end always 30.
        let varying = after(|due| match due / MILLISECOND {
            ..3_500 => 10 * MILLISECOND,
            3_500..5_100 => 500 * MILLISECOND,
            _ => 300 * MILLISECOND,
        });
        assert!(!varying.returned && !varying.is_likely());
    }

    #[test]
    fn requests_that_never_come_back_are_part_of_the_backlog() {
        let due: Vec<Nanos> = (0..2_000).map(|at| at * 10 * MILLISECOND).collect();
        let kept = due.iter().enumerate().filter(|(at, _)| at % 4 > 0);
        let record = Record {
            samples_per_query: 1,
            issued_at: due.clone(),
            completed_at: due.iter().map(|due| due * u64::from(due % 40_000_000 > 0)).collect(),
            ..Record::default()
        };
        let found = Growth::of_record(&record).unwrap();
        assert_eq!(Some(found), Growth::of_times(due.clone(), kept.map(|(_, at)| *at).collect()));
        assert!(found.is_found() && found.outstanding == 500, "{found:?}");
    }
}
