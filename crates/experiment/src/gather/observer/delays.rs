//! The client's part of each latency, and its effect on percentiles.

use std::collections::HashMap;

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::metrics::Definitions;
use dyno_net::client::LateRead;
use dyno_results::summary::goodput;
use dyno_results::summary::observer::{Figure, Loss, Pause};
use dyno_results::units;

use super::{LEAST_DELAY, Part, Reach};

/// Sources of the client's part of each latency.
pub(super) struct Delays<'a> {
    pub reach: Reach,
    pub part: &'a Part<'a>,
    /// Late reads, by their time.
    pub late: &'a HashMap<Nanos, &'a LateRead>,
    pub pauses: &'a [Pause],
}

impl Delays<'_> {
    /// Returns whether any sample can have a delay that counts.
    pub(super) fn are_possible(&self) -> bool {
        let is_long = |delay: &Nanos| *delay > LEAST_DELAY;
        let is_sent_late = self.part.sent_late.iter().any(is_long);
        let is_read_late = match self.reach {
            Reach::Network => {
                self.late.values().any(|read| is_long(&read.waited.max(read.thread_waited)))
            }
            Reach::NetworkUnstamped | Reach::InProcess => !self.pauses.is_empty(),
        };
        is_sent_late || is_read_late
    }

    /// Returns the times of all answered samples.
    pub(super) fn of_answers(&self) -> AnswerTimes {
        let record = self.part.record;
        let is_offline = record.issued_at.len() == 1;
        let mut found = AnswerTimes::default();
        let mut last = None;
        for (sample, due, at) in goodput::answered(record) {
            let (is_first_joined, is_last_joined) =
                self.part.joined.get(sample).copied().unwrap_or_default();
            let latency = self.time(sample, (due, at), is_last_joined);
            let query = if is_offline { sample } else { self.query_of(sample) };
            found.add_latency(latency, last == Some(query));
            last = Some(query);
            let mut delay = latency.measured - latency.at_least;
            if let Some(&at) = record.first_token_at.get(sample).filter(|&&at| at != 0) {
                // Without an account, as for a tensor server, this is the only sign of more tokens.
                let has_more = record.tokens.get(sample).is_some_and(|&tokens| tokens > 1);
                let is_last = record.completed_at.get(sample) == Some(&at);
                let is_joined = is_first_joined || has_more && is_last;
                let first = self.time(sample, (due, at), is_joined);
                found.first_tokens.push(first);
                delay = delay.max(first.measured - first.at_least);
                let tokens = record.timed_tokens(sample).unwrap_or(0);
                let ends = (at, record.completed_at[sample]);
                found.per_token.extend(self.per_token(tokens, ends, is_last_joined));
            }
            found.delayed += u64::from(delay > LEAST_DELAY);
            found.longest = found.longest.max(delay);
        }
        found
    }

    /// Returns the time from when a sample was due to `at`. `is_joined`: the same read returned
    /// later bytes, whose time is the one that the kernel reports.
    fn time(&self, sample: usize, (due, at): (Nanos, Nanos), is_joined: bool) -> Time {
        let measured = at.saturating_sub(due);
        let known = self.client_part(sample, (due, at)).min(measured);
        let possible = if is_joined {
            self.possible_part(sample, (due, at)).min(measured).max(known)
        } else {
            known
        };
        Time { measured, without: measured - known, at_least: measured - possible }
    }

    /// Returns the time per output token; `None` if it is not defined. `is_joined`: the read of the last
    /// token returned later bytes, too.
    ///
    /// A request that was sent late shifts both ends equally. A first token that was read late makes the
    /// measured time too short; a delay of it that is only possible is judged at the time to first token.
    fn per_token(
        &self,
        tokens: i64,
        (first, last): (Nanos, Nanos),
        is_joined: bool,
    ) -> Option<Time> {
        Definitions::Native.time_per_output_token(first, last, tokens)?;
        let first_late = match self.reach {
            Reach::Network => self.read_late((0, first)),
            // A pause before the first token delays both ends.
            Reach::NetworkUnstamped | Reach::InProcess => 0,
        };
        let known = self.read_late((first, last));
        let possible =
            if is_joined { self.possibly_read_late((first, last)).max(known) } else { known };
        let gaps = tokens.cast_unsigned() - 1;
        let without = |late: Nanos| (last - first + first_late).saturating_sub(late) / gaps;
        Some(Time {
            measured: (last - first) / gaps,
            without: without(known),
            at_least: without(possible),
        })
    }

    fn query_of(&self, sample: usize) -> usize {
        sample / self.part.record.samples_per_query.max(1)
    }

    /// Returns the client's part of the span from when a sample was due to `at`.
    fn client_part(&self, sample: usize, (due, at): (Nanos, Nanos)) -> Nanos {
        let sent_late = self.sent_late(sample);
        sent_late + self.read_late((due + sent_late, at))
    }

    /// Returns an upper bound on the client's part of the span if the read at `at` also returned
    /// later bytes.
    fn possible_part(&self, sample: usize, (due, at): (Nanos, Nanos)) -> Nanos {
        let sent_late = self.sent_late(sample);
        sent_late + self.possibly_read_late((due + sent_late, at))
    }

    fn sent_late(&self, sample: usize) -> Nanos {
        self.part.sent_late.get(sample).copied().unwrap_or(0)
    }

    /// Returns how late the output was read that came in this span and was read at its end.
    fn read_late(&self, (from, at): (Nanos, Nanos)) -> Nanos {
        match self.reach {
            Reach::Network => self.late.get(&at).map_or(0, |read| read.waited),
            Reach::NetworkUnstamped => self.paused((from, at), |_| true),
            Reach::InProcess => self.paused((from, at), |loss| loss == Loss::Stopped),
        }
    }

    /// Returns an upper bound on [`Self::read_late`] if the read also returned later bytes, whose time
    /// is the one that the kernel reports: the time in which the reading thread or the process did
    /// not run.
    fn possibly_read_late(&self, (from, at): (Nanos, Nanos)) -> Nanos {
        let thread_waited = self.late.get(&at).map_or(0, |read| read.thread_waited);
        thread_waited + self.paused((from, at), |loss| loss == Loss::Stopped)
    }

    /// Returns how much of a span the process did not run for the losses that count.
    fn paused(&self, (from, to): (Nanos, Nanos), counts: impl Fn(Loss) -> bool) -> Nanos {
        let begun = self.pauses.partition_point(|pause| pause.at_ns + pause.lasted_ns <= from);
        let own = self.pauses[begun..].iter().take_while(|pause| pause.at_ns < to);
        let within = |pause: &Pause| {
            (pause.at_ns + pause.lasted_ns).min(to).saturating_sub(pause.at_ns.max(from))
        };
        own.filter(|pause| counts(pause.loss)).map(within).sum()
    }
}

/// A time with and without the client's part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Time {
    /// Time with the client's part.
    pub measured: Nanos,
    /// Time without the known client's part.
    pub without: Nanos,
    /// Time without the largest possible client's part.
    pub at_least: Nanos,
}

/// Times of answered samples.
#[derive(Default)]
pub(super) struct AnswerTimes {
    /// Latencies by query, which is as slow as its slowest sample; by sample for an Offline query.
    pub latencies: Vec<Time>,
    pub first_tokens: Vec<Time>,
    /// Times per output token, of samples for which they are defined.
    pub per_token: Vec<Time>,
    /// Number of samples whose delay counts.
    pub delayed: u64,
    pub longest: Nanos,
}

impl AnswerTimes {
    fn add_latency(&mut self, time: Time, is_of_last_query: bool) {
        match self.latencies.last_mut().filter(|_| is_of_last_query) {
            Some(slowest) => {
                slowest.measured = slowest.measured.max(time.measured);
                slowest.without = slowest.without.max(time.without);
                slowest.at_least = slowest.at_least.max(time.at_least);
            }
            None => self.latencies.push(time),
        }
    }
}

/// Returns p50, p90, p99 and the `further` percentiles with and without the client's delays.
pub(super) fn figures(tenant: u32, name: &str, times: &[Time], further: &[f64]) -> Vec<Figure> {
    if times.is_empty() {
        return Vec::new();
    }
    let sorted = |of: fn(&Time) -> Nanos| {
        let mut all: Vec<Nanos> = times.iter().map(of).collect();
        all.sort_unstable();
        all
    };
    let mut points = vec![0.5, 0.9, 0.99];
    for &point in further.iter().filter(|&&point| point > 0.0 && point < 1.0) {
        // 1 - (1 - 0.999) is not exactly 0.999.
        if points.iter().all(|&other: &f64| (other - point).abs() > 1e-9) {
            points.push(point);
        }
    }
    let measured = sorted(|time| time.measured);
    let (without, at_least) = (sorted(|time| time.without), sorted(|time| time.at_least));
    let figure = |q: f64| {
        let at = ((times.len() as f64 * q) as usize).min(times.len() - 1);
        Figure {
            tenant,
            name: format!("{name} {}", units::percentile(q)),
            measured_ns: measured[at],
            without_client_ns: without[at],
            at_least_ns: Some(at_least[at]).filter(|least| *least != without[at]),
        }
    };
    points.into_iter().map(figure).collect()
}
