//! The backlog of a run at a rate: whether it still grew when the run ended.

use std::iter;

use dyno_loadgen::clock::{Nanos, SECOND};
use dyno_loadgen::record::Record;

use super::{Reason, ReasonKind};
use crate::units;

/// Growth of the backlog over the last three quarters of a run at a rate. The backlog is the number of
/// requests that were due and not answered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BacklogGrowth {
    /// Requests that arrived, per second.
    pub arrivals_per_s: f64,
    /// Requests that were answered, per second.
    pub completions_per_s: f64,
    /// Requests outstanding when the last request arrived.
    pub backlog: u64,
}

/// Advice if nothing else than the server limits the completions.
pub(super) const GROWTH_ADVICE: &str =
    "Lower the rate, or run longer to see whether the server keeps up.";

/// Number of intervals whose growth is compared.
const INTERVALS: usize = 16;
/// Least growth, in standard errors of the mean of an interval.
const LEAST_ERRORS: f64 = 3.5;
/// Least growth as a share of the arrivals. A smaller one is that of whole requests.
const LEAST_SHARE: f64 = 0.002;
/// Least growth of the second half as a share of that of the first. Below, the backlog levels off.
const LEAST_LATE_GROWTH: f64 = 0.5;
/// Most completions of the second half as a multiple of those of the first. Above, the first answers
/// were still awaited.
const MOST_SPEED_UP: f64 = 1.2;
/// Least requests in the last three quarters: a few requests do not tell a trend.
const LEAST_ARRIVALS: usize = 100;

impl BacklogGrowth {
    /// Returns the growth of the backlog of a recorded run, as [`BacklogGrowth::find`] defines it.
    #[must_use]
    pub fn in_record(record: &Record) -> Option<Self> {
        let each = record.samples_per_query.max(1);
        let due = |query: usize| iter::repeat_n(record.scheduled(query), each);
        let due = (0..record.query_count()).flat_map(due).collect();
        let done = record.completed_at.iter().copied().filter(|at| *at > 0).collect();
        Self::find(due, done)
    }

    /// Returns the growth if it is significant; `None` if the backlog is as large as chance makes it.
    ///
    /// `due` has the time at which each request was due, `done` the times at which they were answered or
    /// failed. Requests that never came back are missing from `done`. The order does not matter.
    ///
    /// Unlike [`dyno_loadgen::saturation::SaturationDetector`], which ends runs and must not be wrong,
    /// this makes no assumption about the order in which the system answers.
    #[must_use]
    pub fn find(mut due: Vec<Nanos>, mut done: Vec<Nanos>) -> Option<Self> {
        due.sort_unstable();
        done.sort_unstable();
        let (begin, end) = (due.last()? / 4, *due.last()?);
        let before = |times: &[Nanos], at: Nanos| times.partition_point(|time| *time <= at);
        let bound =
            |at: usize| begin + (u128::from(end - begin) * at as u128 / INTERVALS as u128) as Nanos;
        // Arrivals and completions until each bound.
        let bounds: Vec<[f64; 2]> = (0..=INTERVALS)
            .map(|at| [before(&due, bound(at)) as f64, before(&done, bound(at)) as f64])
            .collect();
        let backlog = |at: usize| bounds[at][0] - bounds[at][1];
        let completed = |from: usize, to: usize| bounds[to][1] - bounds[from][1];
        let growths: Vec<f64> = (1..=INTERVALS).map(|at| backlog(at) - backlog(at - 1)).collect();
        let mean = growths.iter().sum::<f64>() / INTERVALS as f64;
        let squares: f64 = growths.iter().map(|growth| (growth - mean).powi(2)).sum();
        let error = (squares / (INTERVALS - 1) as f64 / INTERVALS as f64).sqrt();
        let half = INTERVALS / 2;
        let growth = backlog(INTERVALS) - backlog(0);
        let arrivals = bounds[INTERVALS][0] - bounds[0][0];
        let is_growing = arrivals >= LEAST_ARRIVALS as f64
            && mean > LEAST_ERRORS * error
            && growth >= LEAST_SHARE * arrivals
            && backlog(INTERVALS) - backlog(half)
                >= LEAST_LATE_GROWTH * (backlog(half) - backlog(0))
            && completed(half, INTERVALS) <= MOST_SPEED_UP * completed(0, half);
        let seconds = (end - begin) as f64 / SECOND as f64;
        is_growing.then(|| Self {
            arrivals_per_s: arrivals / seconds,
            completions_per_s: completed(0, INTERVALS) / seconds,
            backlog: backlog(INTERVALS) as u64,
        })
    }

    /// Returns the finding as a sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        format!(
            "The backlog still grew when the run ended: {} requests/s arrived and {} were \
             answered, with {} outstanding at the last arrival.",
            units::rate(self.arrivals_per_s),
            units::rate(self.completions_per_s),
            units::counted(self.backlog, "request", "requests"),
        )
    }

    /// Returns the finding as a reason for UNDECIDED, with advice.
    #[must_use]
    pub fn reason(&self) -> Reason {
        let text = format!(
            "{} The latencies depend on the length of the run. {GROWTH_ADVICE}",
            self.sentence()
        );
        Reason::new(ReasonKind::Saturated, text).undecided()
    }
}

/// Growth of the queue of a run at one rate, for a note: it may be too small to leave the verdict undecided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueueGrowth {
    /// Requests that were due, per second.
    pub offered_per_s: f64,
    /// Requests that the server completes per second, by the growth of the latency.
    pub completed_per_s: f64,
}

/// Least difference between the rates, in standard errors.
const NOTED_ERRORS: f64 = 2.0;
/// Least number of answers of a note.
const NOTED_ANSWERS: usize = 20;
/// Variance of the arrivals per interval, divided by their mean, above which they come in bursts.
const BURSTS: f64 = 2.0;

impl QueueGrowth {
    /// Returns the growth in a recorded run, as [`QueueGrowth::find`] defines it; `None` for sessions, whose
    /// turns are due after answers.
    #[must_use]
    pub fn in_record(record: &Record) -> Option<Self> {
        if record.sessions.is_some() {
            return None;
        }
        let each = record.samples_per_query.max(1);
        let mut answered = record.completed_at.clone();
        answered.truncate(record.query_count() * each);
        for (sample, _) in &record.failed {
            let at = usize::try_from(*sample).ok();
            if let Some(at) = at.and_then(|at| answered.get_mut(at)) {
                *at = 0;
            }
        }
        let times = answered.iter().enumerate().filter(|(_, at)| **at > 0);
        let times = times.map(|(sample, at)| (record.scheduled(sample / each), *at));
        Self::find(&times.collect::<Vec<_>>())
    }

    /// Returns the growth if the server completes at least 5 % less than is offered, and the difference is
    /// at least 2 standard errors: of Poisson counts, and of the trend of the latency. `times` has when
    /// each request was due and when it was answered.
    ///
    /// The trend is the time by which each second of arrivals takes longer to answer, so that answers
    /// that merely take long are no growth.
    #[must_use]
    pub fn find(times: &[(Nanos, Nanos)]) -> Option<Self> {
        let last = times.iter().map(|(due, _)| *due).max().filter(|last| *last > 0)?;
        if times.len() < NOTED_ANSWERS {
            return None;
        }
        let count = times.len() as f64;
        let points = || times.iter().map(|(due, at)| (*due as f64, at.saturating_sub(*due) as f64));
        let mean_due = points().map(|(due, _)| due).sum::<f64>() / count;
        let mean_latency = points().map(|(_, latency)| latency).sum::<f64>() / count;
        let (mut products, mut squares, mut spread) = (0.0, 0.0, 0.0);
        for (due, latency) in points() {
            products += (due - mean_due) * (latency - mean_latency);
            squares += (due - mean_due).powi(2);
            spread += (latency - mean_latency).powi(2);
        }
        let slope = products / squares;
        let residual = (spread - slope * products).max(0.0) / (count - 2.0);
        let offered_per_s = (count - 1.0) * SECOND as f64 / last as f64;
        let completed_per_s = offered_per_s / (1.0 + slope);
        let completed = count / (1.0 + slope);
        let counted = ((count + completed) * burstiness(times, last)).sqrt();
        let is_growing = slope > NOTED_ERRORS * (residual / squares).sqrt()
            && count - completed > LEAST_SHARE * count
            && count - completed > NOTED_ERRORS * counted;
        is_growing.then_some(Self { offered_per_s, completed_per_s })
    }

    /// Returns the finding as a note.
    #[must_use]
    pub fn note(&self) -> String {
        format!(
            "Completed {}/s of {}/s offered: the queue grew during the test; figures depend on the \
             length of the test.",
            units::rate(self.completed_per_s),
            units::rate(self.offered_per_s)
        )
    }
}

/// Returns by how much the variance of the arrivals is above that of a Poisson process, if they come in
/// bursts, and 1 otherwise.
fn burstiness(times: &[(Nanos, Nanos)], last: Nanos) -> f64 {
    let mut counts = [0.0_f64; INTERVALS];
    for (due, _) in times {
        let at = u128::from(*due) * INTERVALS as u128 / (u128::from(last) + 1);
        counts[at as usize] += 1.0;
    }
    let mean = times.len() as f64 / INTERVALS as f64;
    let squares: f64 = counts.iter().map(|count| (count - mean).powi(2)).sum();
    let dispersion = squares / (INTERVALS - 1) as f64 / mean;
    if dispersion > BURSTS { dispersion } else { 1.0 }
}

/// Lateness of turns that are due at an interval, which grew during a run: the users want more turns
/// than the server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LateTurns {
    /// Median lateness in the first quarter of the run, ns.
    pub first: Nanos,
    /// Median lateness in the last quarter, ns.
    pub last: Nanos,
}

/// Least growth of the lateness as a share of the time in which it grew.
const LEAST_DELAY: f64 = 0.05;

impl LateTurns {
    /// Returns the lateness if it grew from each quarter of the run to the next; `None` otherwise, and
    /// for turns that are due when the user sends them.
    #[must_use]
    pub fn find(record: &Record) -> Option<Self> {
        let played = record.sessions.as_ref()?;
        let late = |query: usize, ready: Nanos| ready.saturating_sub(record.scheduled(query));
        let mut turns: Vec<(Nanos, Nanos)> = (played.ready_at.iter().enumerate())
            .map(|(query, &ready)| (record.scheduled(query), late(query, ready)))
            .collect();
        if turns.len() < LEAST_ARRIVALS {
            return None;
        }
        turns.sort_unstable();
        let quarter = turns.len() / 4;
        let medians: Vec<Nanos> = (0..4)
            .map(|at| {
                let mut part: Vec<Nanos> =
                    turns[at * quarter..(at + 1) * quarter].iter().map(|(_, late)| *late).collect();
                part.sort_unstable();
                part[part.len() / 2]
            })
            .collect();
        let (first, last) = (medians[0], medians[3]);
        // The middles of the first and of the last quarter are three quarters apart.
        let passed = (turns[turns.len() - 1].0 - turns[0].0) as f64 * 0.75;
        let grows = medians.is_sorted() && medians[1] < last;
        (grows && (last - first) as f64 >= LEAST_DELAY * passed).then_some(Self { first, last })
    }

    /// Returns the finding as a reason for UNDECIDED, with advice.
    #[must_use]
    pub fn reason(&self) -> Reason {
        let text = format!(
            "The users fell behind their interval: a turn began {} late in the first quarter of the \
             run, and {} late in the last (medians). The server answers fewer turns than they want, \
             so that the latencies depend on the length of the run. Use fewer users, or a longer \
             interval.",
            units::duration(self.first.cast_signed()),
            units::duration(self.last.cast_signed()),
        );
        Reason::new(ReasonKind::Saturated, text).undecided()
    }
}

#[cfg(test)]
mod tests {
    use dyno_loadgen::record::PlayedSessions;

    use super::*;

    /// A user whose turns are due every 100 ms and begin at these times.
    fn user(ready_at: impl Fn(Nanos) -> Nanos) -> Record {
        let due: Vec<Nanos> = (0..400).map(|turn| turn * 100_000_000).collect();
        let ready_at = due.iter().map(|due| ready_at(*due).max(*due)).collect();
        let sessions = PlayedSessions { ready_at, ..PlayedSessions::default() };
        Record { issued_at: due, sessions: Some(sessions), ..Record::default() }
    }

    #[test]
    fn users_fall_behind_if_their_turns_take_longer_than_the_interval() {
        // Each turn takes 150 ms.
        let behind = LateTurns::find(&user(|due| due + due / 2)).unwrap();
        assert!(behind.first < SECOND * 4 && behind.last > SECOND * 15, "{behind:?}");
        assert!(behind.reason().undecided);
        assert_eq!(LateTurns::find(&user(|due| due)), None);
        // One answer was late, and all turns after it are on time again.
        assert_eq!(LateTurns::find(&user(|due| due.max(SECOND))), None);
        // A constant delay does not grow.
        assert_eq!(LateTurns::find(&user(|due| due + 80_000_000)), None);
        assert_eq!(LateTurns::find(&Record::default()), None);
    }

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
            BacklogGrowth::find(due, done).is_some()
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

    #[test]
    fn answers_that_take_long_are_no_growth() {
        // 10 requests/s for 60 s, each answered after 5 s, 20 s and 50 s.
        for latency in [5, 20, 50] {
            let due: Vec<Nanos> = (0..600).map(|at| at * SECOND / 10).collect();
            let done = due.iter().map(|due| due + latency * SECOND).collect();
            assert_eq!(BacklogGrowth::find(due, done), None, "{latency} s");
        }
        assert_eq!(BacklogGrowth::find(Vec::new(), Vec::new()), None);
        assert_eq!(BacklogGrowth::find(vec![0; 200], vec![Nanos::MAX; 200]), None);
        assert_eq!(BacklogGrowth::find(vec![Nanos::MAX; 200], Vec::new()), None);
    }

    #[test]
    fn an_overload_is_noted_with_both_rates() {
        // 561 requests at 18.7/s, which are completed at 16/s in their order.
        let due = |at: u64| at * SECOND * 10 / 187;
        let times: Vec<(Nanos, Nanos)> =
            (0..561).map(|at| (due(at), (at + 1) * SECOND / 16)).collect();
        let found = QueueGrowth::find(&times).unwrap();
        assert_eq!(
            found.note(),
            "Completed 16.00/s of 18.70/s offered: the queue grew during the test; figures depend \
             on the length of the test."
        );
        let record = Record {
            samples_per_query: 1,
            scheduled_at: times.iter().map(|time| time.0).collect(),
            issued_at: times.iter().map(|time| time.0).collect(),
            completed_at: times.iter().map(|time| time.1).collect(),
            ..Record::default()
        };
        assert_eq!(QueueGrowth::in_record(&record), Some(found));
        // 40 arrivals and 34 completions differ by less than 2 * sqrt(74).
        assert_eq!(QueueGrowth::find(&times[..40]), None);
        // Answers that take 20 s are no growth, nor is an overload by 3 %.
        let late = |time: &(Nanos, Nanos)| (time.0, time.0 + 20 * SECOND);
        assert_eq!(QueueGrowth::find(&times.iter().map(late).collect::<Vec<_>>()), None);
        let slight = |at: u64| (due(at), due(at) * 103 / 100);
        assert_eq!(QueueGrowth::find(&(0..5_000).map(slight).collect::<Vec<_>>()), None);
        assert_eq!(QueueGrowth::find(&[(0, SECOND); 200]), None);
        assert_eq!(QueueGrowth::find(&[(7, SECOND); 200]), None);
    }

    #[test]
    fn a_stable_queue_is_rarely_noted() {
        let noted = |rate: f64| {
            let is_noted = |seed: &u64| {
                let [due, done] = play(*seed, rate, 600.0, &Order::First);
                let times: Vec<(Nanos, Nanos)> = due.into_iter().zip(done).collect();
                QueueGrowth::find(&times).is_some()
            };
            (1..=200).filter(is_noted).count()
        };
        // By a simulation, of 400 such runs none at 80 % and one at 95 % of the load is noted.
        assert!(noted(0.8) <= 1);
        assert!(noted(0.95) <= 6);
    }

    #[test]
    fn the_reason_has_both_rates() {
        let due: Vec<Nanos> = (0..1_200).map(|at| at * SECOND / 20).collect();
        let done = (0..1_200).map(|at| (at + 1) * SECOND / 8).collect();
        let reason = BacklogGrowth::find(due, done).unwrap().reason();
        assert!(reason.undecided);
        assert!(reason.text.contains("20.02 requests/s arrived and 8.007 were"), "{}", reason.text);
    }
}
