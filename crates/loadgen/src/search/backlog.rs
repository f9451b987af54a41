//! How the backlog of a run at one rate changes.
//!
//! The queue of a stable system empties again and again. Above the capacity, its least length grows with
//! the run, however wide the limit on the latency is. At the capacity, it returns to its earlier level in
//! fewer than half of the runs.

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

/// Change of the backlog from the second quarter of a run to the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It became about as small as before: the system keeps up.
    Returned,
    /// It stayed larger than its least value before, which chance may explain.
    Open,
    /// It stayed above its greatest value before: the system most likely does not keep up.
    Grown,
}

impl Change {
    /// Returns the change of a run at one rate; `None` if the run is too short to judge it.
    pub fn of_run(record: &Record) -> Option<Self> {
        let each = record.samples_per_query.max(1);
        let count = record.completed_at.len().min(record.query_count() * each);
        if count < LEAST_SAMPLES {
            return None;
        }
        let completed = &record.completed_at[..count];
        let mut due: Vec<Nanos> =
            (0..count).map(|sample| record.scheduled(sample / each)).collect();
        let end = due.iter().copied().max()?;
        let is_slow = |(due, done): (&Nanos, &Nanos)| {
            usize::from(*done == 0 || done.saturating_sub(*due) > end / PARTS)
        };
        if due.iter().zip(completed).map(is_slow).sum::<usize>() > count / SLOW_SAMPLES {
            return None;
        }
        let mut done: Vec<Nanos> = completed.iter().copied().filter(|at| *at > 0).collect();
        due.sort_unstable();
        done.sort_unstable();
        let [least, greatest] = backlog(&due, &done, [end / 4, end / 2]);
        let [late, _] = backlog(&due, &done, [end - end / 4, end]);
        let random = DEVIATIONS * (least as f64 + 1.0).sqrt();
        Some(if late as f64 <= least as f64 + random {
            Self::Returned
        } else if late <= greatest {
            Self::Open
        } else {
            Self::Grown
        })
    }
}

/// Returns the least and the greatest number of samples that were due and not complete between two times.
fn backlog(due: &[Nanos], done: &[Nanos], [from, to]: [Nanos; 2]) -> [usize; 2] {
    let before = |times: &[Nanos], at: Nanos| times.partition_point(|time| *time <= at);
    let (mut arrived, mut complete) = (before(due, from), before(done, from));
    let start = arrived.saturating_sub(complete);
    let (mut least, mut greatest) = (start, start);
    let next = |times: &[Nanos], at: usize| times.get(at).copied().filter(|time| *time <= to);
    loop {
        match (next(due, arrived), next(done, complete)) {
            (None, None) => return [least, greatest],
            (Some(due), done) if done.is_none_or(|done| due <= done) => arrived += 1,
            _ => complete += 1,
        }
        let now = arrived.saturating_sub(complete);
        (least, greatest) = (least.min(now), greatest.max(now));
    }
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
        assert_eq!(Change::of_run(&constant(5 * MILLISECOND)), Some(Change::Returned));
        // 100 in work at any time.
        assert_eq!(Change::of_run(&constant(1_000 * MILLISECOND)), Some(Change::Returned));
        // A server of 10.5 ms a sample: a delay of 0.5 s after 1,000. Between 2.5 s and 5 s, 12 to 25
        // wait (delays of 125 ms to 250 ms), from 7.5 s on at least 35 (of 375 ms).
        let growing = run(|due| due + 11 * MILLISECOND + due / 20);
        assert_eq!(Change::of_run(&growing), Some(Change::Grown));
        // Between 2.5 s and 5 s, one waits at first and 50 later on; at the end always 30.
        let varying = run(|due| match due / MILLISECOND {
            ..3_500 => due + 10 * MILLISECOND,
            3_500..5_100 => due + 500 * MILLISECOND,
            _ => due + 300 * MILLISECOND,
        });
        assert_eq!(Change::of_run(&varying), Some(Change::Open));
    }

    #[test]
    fn a_run_that_is_too_short_is_not_judged() {
        // Answers take 2 s of a run of 10 s.
        assert_eq!(Change::of_run(&run(|due| due + 2_000 * MILLISECOND)), None);
        // None is answered.
        assert_eq!(Change::of_run(&run(|_| 0)), None);
        assert_eq!(Change::of_run(&Record::default()), None);
    }
}
