//! The time over which the answers of a run count in completed rates.
//!
//! A load needs time to fill the system, and the system drains when the load is over. Both belong to the
//! run and not to the system: a rate over the whole run is too low, and the more so the shorter the run.

use crate::backlog::Growth;
use crate::clock::Nanos;
use crate::plan::{Load, Plan, SampleChoice};
use crate::record::Record;

/// How the time was determined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PaceBasis {
    /// The reference: until the query that was issued last was done.
    #[default]
    LastQuery,
    /// Until the last completion.
    WholeRun,
    /// A closed loop: at the pace at which queries were issued while all of them were in flight.
    Rounds,
    /// A closed loop with fewer queries than two rounds: until the last completion, so that the rate
    /// includes the fill and the drain.
    FillAndDrain,
    /// An open loop: until the last query was due, longer by the growth of the backlog.
    Arrivals,
}

/// The time over which the answers of a run count: all answers divided by it are the completed rate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pace {
    /// Time in ns; 0 if the run has no rate.
    pub length: Nanos,
    /// How it was determined.
    pub basis: PaceBasis,
}

impl Pace {
    /// Returns the time by the native definitions.
    pub fn from_record(record: &Record, plan: &Plan) -> Self {
        let whole = Self { length: record.lasted(), basis: PaceBasis::WholeRun };
        if let Some(in_flight) = plan.in_flight() {
            let settled = record.completed_at.iter().filter(|at| **at != 0).count();
            let length = closed_loop(&issued_at_full_load(record, plan), settled, in_flight);
            return match length {
                Some(length) => Self { length, basis: PaceBasis::Rounds },
                None => Self { basis: PaceBasis::FillAndDrain, ..whole },
            };
        }
        // Turns of sessions are due after the answers before them.
        if !matches!(plan.load, Load::Server(_)) || record.sessions.is_some() {
            return whole;
        }
        match open_loop(&record.scheduled_at, &answered_at(record), whole.length) {
            Some(length) => Self { length, basis: PaceBasis::Arrivals },
            None => whole,
        }
    }

    /// Returns the time by the definition of the reference, whose rate counts the gaps between
    /// `answers`.
    pub(super) fn until_last_query(answers: u64, last_done: Nanos) -> Self {
        let gaps = u128::from(answers.saturating_sub(1)).max(1);
        let length = (u128::from(last_done) * u128::from(answers)).div_ceil(gaps);
        let length = if answers < 2 { 0 } else { Nanos::try_from(length).unwrap_or(Nanos::MAX) };
        Self { length, basis: PaceBasis::LastQuery }
    }
}

/// Returns the time in ns that a closed loop takes for `settled` queries (answered or failed) at the
/// pace of its whole rounds of `in_flight` queries; `None` without two rounds.
///
/// In a closed loop with all queries in flight, each issue follows a completion. Queries of equal
/// latency stay together as one round: only whole rounds have the right rate.
///
/// ```
/// use dyno_loadgen::metrics::closed_loop;
///
/// // Two queries in flight, each for 10 ns: 5 queries take 25 ns.
/// assert_eq!(closed_loop(&[0, 0, 10, 10, 20], 5, 2), Some(25));
/// assert_eq!(closed_loop(&[0, 0, 10], 3, 2), None);
/// ```
pub fn closed_loop(issued_at: &[Nanos], settled: usize, in_flight: usize) -> Option<Nanos> {
    let rounds = issued_at.len().checked_div(in_flight).filter(|rounds| *rounds >= 2)?;
    // Clients that share a load issue at the same time.
    let mut issued = issued_at.to_vec();
    issued.sort_unstable();
    let (from, to) = (issued[in_flight - 1], issued[rounds * in_flight - 1]);
    let until = |time: Nanos| issued.partition_point(|at| *at <= time);
    let count = until(to) - until(from);
    if count == 0 || settled == 0 {
        return None;
    }
    let length = u128::from(to - from) * settled as u128 / count as u128;
    Nanos::try_from(length).ok()
}

/// Returns the time in ns over which the answers of an open loop count; `None` unless queries are due
/// at different times. `due` has each query, and `answered_at` when it was answered, 0 if it was not.
///
/// A system that never queues has a latency that shifts the answers and does not slow them down. A queue
/// makes the answers take longer than the arrivals, in whatever order they come: by the growth of the
/// backlog ([`Growth`]).
///
/// ```
/// use dyno_loadgen::metrics::open_loop;
///
/// // One query each 10 ns, and a latency of 50 ns: 3 answers in 30 ns.
/// assert_eq!(open_loop(&[0, 10, 20], &[50, 60, 70], 70), Some(30));
/// // The system answers one query each 20 ns.
/// assert_eq!(open_loop(&[0, 10, 20], &[20, 40, 60], 60), Some(60));
/// ```
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time >= 0")]
pub fn open_loop(due: &[Nanos], answered_at: &[Nanos], lasted: Nanos) -> Option<Nanos> {
    let last = due.iter().copied().max().filter(|last| *last > 0)?;
    let gaps = due.len().checked_sub(1).filter(|gaps| *gaps > 0)?;
    // As many intervals as queries, because each query brings an answer.
    let load = last as f64 * (due.len() as f64 / gaps as f64);
    let pairs = due.iter().copied().zip(answered_at.iter().copied());
    let answered = pairs.filter(|(_, at)| *at > 0).collect();
    let length = load * (1.0 + Growth::of_times(answered).map_or(0.0, |growth| growth.of_rate()));
    Some(length.min((lasted as f64).max(load)).round() as Nanos)
}

/// Returns when queries were issued while the closed loop had its full load. Sessions that are played
/// once become fewer after the last one began.
fn issued_at_full_load(record: &Record, plan: &Plan) -> Vec<Nanos> {
    let mut issued = record.issued_at.clone();
    if let (Some(played), SampleChoice::Unique) = (&record.sessions, plan.choice) {
        let turns = played.turns.iter().zip(&record.issued_at);
        let begins = turns.filter(|(turn, _)| turn.number == 0).map(|(_, at)| *at);
        let last = begins.max().unwrap_or(0);
        issued.retain(|at| *at <= last);
    }
    issued
}

/// Returns when each sample was answered; 0 if it failed or is missing.
fn answered_at(record: &Record) -> Vec<Nanos> {
    let mut answered = record.completed_at.clone();
    for (sequence, _) in &record.failed {
        let at = usize::try_from(*sequence).ok();
        if let Some(at) = at.and_then(|at| answered.get_mut(at)) {
            *at = 0;
        }
    }
    answered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SECOND;
    use crate::rng::Mt19937;

    /// Returns when the queries of a closed loop are issued in a run that issues for `duration`.
    fn issued(in_flight: usize, duration: Nanos, latency: &mut dyn FnMut() -> Nanos) -> Vec<Nanos> {
        let mut issued = Vec::new();
        for _ in 0..in_flight {
            let mut now = 0;
            while now == 0 || now < duration {
                issued.push(now);
                now += latency();
            }
        }
        issued
    }

    fn rate(issued: &[Nanos], in_flight: usize) -> f64 {
        let length = closed_loop(issued, issued.len(), in_flight).unwrap();
        issued.len() as f64 * SECOND as f64 / length as f64
    }

    #[test]
    fn a_closed_loop_of_constant_latency_has_its_rate_whatever_its_duration() {
        for (in_flight, latency, duration) in
            [(8, 10, 30), (8, 10, 25), (1, 7, 30), (64, 3, 10), (4, 13, 30)]
        {
            let times = issued(in_flight, duration * SECOND, &mut || latency * SECOND);
            let expected = in_flight as f64 / latency as f64;
            let found = rate(&times, in_flight);
            assert!((found / expected - 1.0).abs() < 1e-9, "{found} instead of {expected}");
        }
    }

    #[test]
    fn an_incomplete_round_does_not_change_the_rate() {
        // The third round has 4 of 8 queries, each a little later than the one before.
        let times: Vec<Nanos> =
            (0..20).map(|query| query / 8 * 10 * SECOND + query % 8 * 1_000).collect();
        assert!((rate(&times, 8) - 0.8).abs() < 1e-9);
    }

    #[test]
    fn a_closed_loop_of_random_latencies_has_the_rate_of_their_mean() {
        let mut rng = Mt19937::new(5);
        let mut latency = || (-(1.0 - rng.canonical()).ln() * 1e9).round() as Nanos + 1;
        // 16,000 answers: 4 standard deviations are 3.2 %.
        let found = rate(&issued(16, 1_000 * SECOND, &mut latency), 16);
        assert!((found / 16.0 - 1.0).abs() < 0.032, "{found}");
    }

    #[test]
    fn an_open_loop_that_never_queues_completes_what_it_is_offered() {
        // 10 queries per second for 20 s, each answered after 10 s.
        let due: Vec<Nanos> = (0..200).map(|query| query * SECOND / 10).collect();
        let done: Vec<Nanos> = due.iter().map(|at| at + 10 * SECOND).collect();
        let length = open_loop(&due, &done, done[199]).unwrap();
        let (offered, completed) = (199.0 / 19.9, 200.0 * SECOND as f64 / length as f64);
        assert!((completed - offered).abs() < 1e-6, "{completed}");
        // A system of 5 per second.
        let done: Vec<Nanos> = (1..=200).map(|query| query * SECOND / 5).collect();
        let length = open_loop(&due, &done, done[199]).unwrap();
        let completed = 200.0 * SECOND as f64 / length as f64;
        assert!((completed - 5.0).abs() < 0.01, "{completed}");
        // It was stopped when the load was over, with half of the answers.
        let stopped: Vec<Nanos> =
            done.iter().map(|at| if *at > 20 * SECOND { 0 } else { *at }).collect();
        let length = open_loop(&due, &stopped, 20 * SECOND).unwrap();
        let completed = 100.0 * SECOND as f64 / length as f64;
        assert!((completed - 5.0).abs() < 0.01, "{completed}");
    }

    /// A system that answers 16 queries per second, in any order, is offered 20 per second for 60 s.
    #[test]
    fn the_order_of_the_answers_does_not_change_the_rate() {
        let due: Vec<Nanos> = (0..1_200).map(|query| query * SECOND / 20).collect();
        let mut random = Mt19937::new(1);
        for is_last_first in [true, false] {
            let (mut waiting, mut done) = (Vec::new(), vec![0; due.len()]);
            let mut arrivals = due.iter().enumerate().peekable();
            for answer in 1..=due.len() as u64 {
                let now = answer * SECOND / 16;
                while let Some((query, _)) = arrivals.next_if(|(_, at)| **at <= now) {
                    waiting.push(query);
                }
                let newest = waiting.len() - 1;
                let drawn = (random.canonical() * waiting.len() as f64) as usize;
                let query = waiting.remove(if is_last_first { newest } else { drawn });
                done[query] = now;
            }
            let length = open_loop(&due, &done, *done.iter().max().unwrap()).unwrap();
            let completed = 1_200.0 * SECOND as f64 / length as f64;
            assert!((completed - 16.0).abs() < 0.1, "{completed}");
        }
    }

    #[test]
    fn the_time_of_the_reference_has_its_rate() {
        let pace = Pace::until_last_query(5, 400);
        // (5 - 1) / 400.
        assert_eq!(pace.length, 500);
        assert_eq!(Pace::until_last_query(1, 400).length, 0);
    }
}
