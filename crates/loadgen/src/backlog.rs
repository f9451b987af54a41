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
/// let done = (1..=1_000).map(|answer| answer * 25 * MILLISECOND / 2);
/// let growth = Growth::of_times(due.into_iter().zip(done).collect()).unwrap();
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
    /// Whether the system was only filling: the answers became more frequent, or were still awaited, and
    /// late requests take as long as early ones.
    fills: bool,
    /// Parts of the share that belong to the first and to the second half.
    halves: [f64; 2],
    /// Times of the run at which requests arrived.
    arrivals: usize,
    /// Answers that the share counts.
    answers: usize,
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
/// Difference of two least backlogs that chance makes, in standard deviations of a random number of queries
/// in work.
const DEVIATIONS: f64 = 2.0;
/// More answers in the second half of the load than in the first, in standard errors of their difference.
const SPEED_UP_ERRORS: f64 = 2.0;
/// Least growth of the latency as a share of that in a queue that answers in order, and in standard errors.
const LEAST_CHANGE: f64 = 0.33;
const CHANGE_ERRORS: f64 = 3.0;

impl Growth {
    /// Returns the growth in a recorded run, as [`Growth::of_times`] defines it. A failed request is answered,
    /// and one that never came back is not.
    pub fn of_record(record: &Record) -> Option<Self> {
        let each = record.samples_per_query.max(1);
        let done = record.completed_at.iter().take(record.query_count() * each);
        let times = done.enumerate().map(|(sample, at)| (record.scheduled(sample / each), *at));
        Self::of_times(times.collect())
    }

    /// Returns the growth from when each request was due and when it was answered, 0 if never; `None` for fewer
    /// than two answers or arrivals at one time.
    pub fn of_times(mut times: Vec<(Nanos, Nanos)>) -> Option<Self> {
        times.sort_unstable();
        let end = times.last()?.0;
        let due: Vec<Nanos> = times.iter().map(|(due, _)| *due).collect();
        let mut done: Vec<Nanos> = times.iter().map(|(_, at)| *at).filter(|at| *at > 0).collect();
        done.sort_unstable();
        let answered = done.partition_point(|at| *at <= end);
        let count = if answered < LEAST_ANSWERS { done.len() } else { answered };
        let (first, last) = (count / 4, count.checked_sub(1)?);
        let span = (due[last] - due[first]) as f64;
        if span == 0.0 {
            return None;
        }
        let delay = |at: usize| done[at] as f64 - due[at] as f64;
        let (answers, intervals) = (last - first, INTERVALS.min(last - first));
        let bound = |at: usize| first + answers * at / intervals;
        let growth = |from: usize, to: usize| (delay(bound(to)) - delay(bound(from))) / span;
        let share = growth(0, intervals);
        let mean = share / intervals as f64;
        let squares = (0..intervals).map(|at| (growth(at, at + 1) - mean).powi(2)).sum::<f64>();
        let error = (squares / (intervals as f64 - 1.0) * intervals as f64).sqrt();
        let least = |from: usize, to: usize| (from..to).map(delay).fold(f64::INFINITY, f64::min);
        let (before, after) = (least(first, count / 2), least(count - count / 4, count));
        let gap = span / answers as f64;
        let random = DEVIATIONS * (before.max(0.0) / gap + 1.0).sqrt() * gap;
        let early = done.partition_point(|at| *at <= end / 2) as f64;
        let late = answered as f64 - early;
        let speeds_up = late - early > SPEED_UP_ERRORS * (early + late).sqrt();
        let per_s = |time: f64| answers as f64 * SECOND as f64 / time;
        Some(Self {
            arrivals_per_s: per_s(span),
            answers_per_s: per_s((done[last] - done[first]) as f64),
            outstanding: (due.len() - answered) as u64,
            share,
            error: if error.is_nan() { f64::INFINITY } else { error },
            returned: after <= before + random,
            fills: (speeds_up || answered < LEAST_ANSWERS) && !latency_grows(&times, share),
            halves: [growth(0, intervals / 2), growth(intervals / 2, intervals)],
            arrivals: due.chunk_by(|a, b| a == b).count(),
            answers,
        })
    }

    /// Returns whether the backlog grew by far more than chance explains, until the end of the run.
    pub fn is_found(&self) -> bool {
        self.is_significant(LEAST_ERRORS) && self.share >= LEAST_SHARE
    }

    /// Returns whether the backlog grew by more than chance often explains: also by more than two standard
    /// errors of the counts of random arrivals and answers.
    pub fn is_likely(&self) -> bool {
        let answers = self.answers as f64;
        self.is_significant(LIKELY_ERRORS)
            && self.share * answers > LIKELY_ERRORS * (2.0 * answers).sqrt()
    }

    fn is_significant(&self, errors: f64) -> bool {
        self.arrivals >= LEAST_ARRIVALS
            && self.share > errors * self.error
            && self.halves[1] >= LEAST_LATE_GROWTH * self.halves[0]
            && !self.fills
    }

    /// Returns the share for a rate, >= 0: one within the standard error is 0. A growth in one interval
    /// equals its error, but for rounding.
    pub(crate) fn of_rate(&self) -> f64 {
        let is_chance = self.share <= self.error * (1.0 + 1e-9);
        if self.fills || is_chance { 0.0 } else { self.share }
    }
}

/// Returns whether the mean latency of the late requests exceeds that of the early ones by more than chance
/// explains, and by what an overload causes that makes the answers longer by this share. `times` are in
/// order.
fn latency_grows(times: &[(Nanos, Nanos)], share: f64) -> bool {
    let answered = times.iter().filter(|(_, at)| *at > 0);
    let latencies: Vec<f64> = answered.map(|(due, at)| at.saturating_sub(*due) as f64).collect();
    let (early, late) = latencies.split_at(latencies.len() / 2);
    // The mean and the square of its standard error.
    let moments = |part: &[f64]| {
        let count = part.len() as f64;
        let mean = part.iter().sum::<f64>() / count;
        (mean, part.iter().map(|at| (at - mean).powi(2)).sum::<f64>() / count / count)
    };
    let (early, late) = (moments(early), moments(late));
    let load = (times[times.len() - 1].0 - times[0].0) as f64;
    let change = late.0 - early.0;
    change > LEAST_CHANGE * share * load / 2.0 && change > CHANGE_ERRORS * (early.1 + late.1).sqrt()
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

    /// Plays a server that completes one request/s on average. Returns when each request was due and
    /// answered, of a run with `rate` arrivals/s for `seconds`.
    fn play(seed: u64, rate: f64, seconds: f64, order: &Order) -> Vec<(Nanos, Nanos)> {
        let mut random = Uniform(seed * 7_919 + 1);
        let (mut waiting, mut now) = (Vec::new(), 0.0);
        while now < seconds {
            now += random.exponential(1.0 / rate);
            waiting.push((now, now));
        }
        let (mut times, mut free) = (Vec::new(), 0.0_f64);
        while !waiting.is_empty() {
            let next = match order {
                Order::First => 0,
                Order::Last => waiting.partition_point(|(at, _)| *at <= free).saturating_sub(1),
                Order::Refused => {
                    while waiting[0].0 < free {
                        let (at, due) = waiting.remove(0);
                        let again = at + 1.0 + random.next() / 10.0;
                        let place = waiting.partition_point(|(at, _)| *at < again);
                        waiting.insert(place, (again, due));
                    }
                    0
                }
            };
            let (at, due) = waiting.remove(next);
            free = at.max(free) + random.exponential(1.0);
            times.push(((due * 1e9) as Nanos, (free * 1e9) as Nanos));
        }
        times
    }

    /// Returns how many of `runs` runs are found to grow.
    fn found(runs: u64, rate: f64, seconds: f64, order: &Order) -> usize {
        let grows = |seed| growth(play(seed, rate, seconds, order)).is_found();
        (1..=runs).filter(|seed| grows(*seed)).count()
    }

    fn growth(times: Vec<(Nanos, Nanos)>) -> Growth {
        Growth::of_times(times).unwrap()
    }

    #[test]
    fn overload_is_found_in_whatever_order_requests_are_answered() {
        for order in [Order::First, Order::Last, Order::Refused] {
            let found = found(30, 1.5, 800.0, &order);
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

    #[test]
    fn answers_that_take_long_are_no_growth() {
        // 10 requests/s for 60 s, each answered after 5 s, 20 s, 50 s and 100 s.
        for latency in [5, 20, 50, 100] {
            let due = (0..600).map(|at| at * SECOND / 10);
            let found = growth(due.map(|due| (due, due + latency * SECOND)).collect());
            assert!(!found.is_found() && !found.is_likely(), "{latency} s");
            assert!(found.share.abs() < 1e-9 && found.returned, "{latency} s");
        }
        assert_eq!(Growth::of_times(Vec::new()), None);
        assert_eq!(Growth::of_times(vec![(0, Nanos::MAX); 200]), None);
        assert_eq!(Growth::of_times(vec![(Nanos::MAX, 0); 200]), None);
        assert_eq!(Growth::of_times(vec![(7, SECOND); 200]), None);
    }

    #[test]
    fn a_small_overload_is_likely_and_a_smaller_one_is_chance() {
        // 18.7 requests/s, which are completed at 16/s in their order.
        let due = |at: u64| at * SECOND * 10 / 187;
        let of_first = |queries: u64| {
            growth((0..queries).map(|at| (due(at), (at + 1) * SECOND / 16)).collect())
        };
        let found = of_first(561);
        assert!(found.is_likely());
        assert!((found.arrivals_per_s - 18.7).abs() < 1e-6, "{found:?}");
        assert!((found.answers_per_s - 16.0).abs() < 1e-6, "{found:?}");
        assert!(!of_first(40).is_likely());
        // A queue that grows by 3 % of the arrivals.
        let slight = |at: u64| (due(at), due(at) * 103 / 100);
        assert!(!growth((0..5_000).map(slight).collect()).is_likely());
    }

    #[test]
    fn a_stable_queue_is_rarely_noted() {
        let noted = |rate: f64, order: &Order| {
            let is_noted = |seed: &u64| growth(play(*seed, rate, 600.0, order)).is_likely();
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
        let due = (0..1_000).map(|at| at * 10 * MILLISECOND);
        growth(due.map(|due| (due, due + latency(due))).collect())
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
        let record = Record {
            samples_per_query: 1,
            issued_at: due.clone(),
            completed_at: due.iter().map(|due| due * u64::from(due % 40_000_000 > 0)).collect(),
            ..Record::default()
        };
        let found = Growth::of_record(&record).unwrap();
        assert!(found.is_found() && found.outstanding == 500, "{found:?}");
    }
}
