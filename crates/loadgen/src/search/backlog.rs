//! Whether the backlog of a run returns to its earlier level.
//!
//! The queue of a stable system empties again and again. Above the capacity, its least length grows with
//! the run, however wide the limit on the latency is. At the capacity, it returns in fewer than half of
//! the runs.

use crate::clock::Nanos;
use crate::record::Record;

/// Minimum number of samples of a run whose backlog is judged.
const LEAST_SAMPLES: usize = 100;
/// A run is judged if nearly all answers come within this part of it: otherwise the first ones are still
/// awaited in its first half.
const PARTS: Nanos = 8;
/// Divisor of the number of samples: so many may take longer.
const SLOW_SAMPLES: usize = 100;
/// Change of the least backlog that chance makes, in standard deviations of a random number of queries
/// in work.
const DEVIATIONS: f64 = 2.0;

/// Returns whether the least backlog of the last quarter of a run at one rate is about as small as that
/// of the second quarter. Returns `None` if the run is too short to judge it.
#[must_use]
pub fn backlog_returns(record: &Record) -> Option<bool> {
    let each = record.samples_per_query.max(1);
    let count = record.completed_at.len().min(record.query_count() * each);
    if count < LEAST_SAMPLES {
        return None;
    }
    let mut due: Vec<Nanos> = (0..count).map(|sample| record.scheduled(sample / each)).collect();
    let mut done: Vec<Nanos> =
        record.completed_at[..count].iter().copied().filter(|at| *at > 0).collect();
    let times = due.iter().zip(&record.completed_at[..count]);
    let end = due.iter().copied().max()?;
    let is_slow =
        |(due, done): &(&Nanos, &Nanos)| **done == 0 || done.saturating_sub(**due) > end / PARTS;
    if times.filter(is_slow).count() > count / SLOW_SAMPLES {
        return None;
    }
    due.sort_unstable();
    done.sort_unstable();
    let early = least_backlog(&due, &done, [end / 4, end / 2]);
    let late = least_backlog(&due, &done, [end - end / 4, end]);
    let random = DEVIATIONS * (early as f64 + 1.0).sqrt();
    Some(late as f64 <= early as f64 + random)
}

/// Returns the least number of samples that were due and not complete between two times.
fn least_backlog(due: &[Nanos], done: &[Nanos], [from, to]: [Nanos; 2]) -> usize {
    let before = |times: &[Nanos], at: Nanos| times.partition_point(|time| *time <= at);
    let (first, last) = (before(done, from), before(done, to));
    let backlog = |at: Nanos, complete: usize| before(due, at).saturating_sub(complete);
    let after = (first..last).map(|number| backlog(done[number], number + 1));
    after.fold(backlog(from, first), usize::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::MILLISECOND;

    /// Returns a run of 1,000 samples, one each 10 ms, that are answered at these times.
    fn run(done: impl Fn(Nanos) -> Nanos) -> Record {
        let due: Vec<Nanos> = (0..1_000).map(|at| at * 10 * MILLISECOND).collect();
        let completed_at = due.iter().map(|due| done(*due)).collect();
        Record { samples_per_query: 1, issued_at: due, completed_at, ..Record::default() }
    }

    #[test]
    fn a_queue_that_empties_returns_and_one_that_grows_does_not() {
        let constant = |latency: Nanos| run(move |due| due + latency);
        assert_eq!(backlog_returns(&constant(5 * MILLISECOND)), Some(true));
        // 100 in work at any time.
        assert_eq!(backlog_returns(&constant(1_000 * MILLISECOND)), Some(true));
        // A server of 10.5 ms a sample: a delay of 0.5 s after 1,000. Between 2.5 s and 5 s at least 12
        // wait (a delay of 125 ms), from 7.5 s on at least 35 (of 375 ms): 23 more, and chance makes 7.
        assert_eq!(backlog_returns(&run(|due| due + 11 * MILLISECOND + due / 20)), Some(false));
    }

    #[test]
    fn a_run_that_is_too_short_is_not_judged() {
        // Answers take 2 s of a run of 10 s.
        assert_eq!(backlog_returns(&run(|due| due + 2_000 * MILLISECOND)), None);
        // None is answered.
        assert_eq!(backlog_returns(&run(|_| 0)), None);
        assert_eq!(backlog_returns(&Record::default()), None);
    }
}
