//! The client's part of each latency, sample by sample, and what it makes of percentiles.

use std::collections::HashMap;

use dyno_loadgen::clock::Nanos;
use dyno_net::client::LateRead;
use dyno_results::units;
use dyno_results::summary::goodput;
use dyno_results::summary::observer::{Figure, Loss, Pause};

use super::{LEAST_DELAY, Part, Reach};

/// What the client's part of each latency is made of.
pub(super) struct Delays<'a> {
    pub reach: Reach,
    pub part: &'a Part<'a>,
    /// Late reads, by their time.
    pub late: &'a HashMap<Nanos, &'a LateRead>,
    pub pauses: &'a [Pause],
}

impl Delays<'_> {
    /// Whether any sample can have been delayed by as much as is counted.
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

    /// The times of all answered samples.
    pub(super) fn of_answers(&self) -> Found {
        let record = self.part.record;
        let is_offline = record.issued_at.len() == 1;
        let mut found = Found::default();
        let mut last = None;
        for (sample, due, at) in goodput::answered(record) {
            let latency = at.saturating_sub(due);
            let mut delay = self.client_part(sample, (due, at)).min(latency);
            let query = if is_offline { sample } else { self.query_of(sample) };
            found.add_latency((latency, latency - delay), last == Some(query));
            last = Some(query);
            if let Some(&at) = record.first_token_at.get(sample).filter(|&&at| at != 0) {
                let time = at.saturating_sub(due);
                let of_first = self.client_part_of_first_token(sample, (due, at)).min(time);
                found.first_tokens.push((time, time - of_first));
                delay = delay.max(of_first);
            }
            found.delayed += u64::from(delay > LEAST_DELAY);
            found.longest = found.longest.max(delay);
        }
        found
    }

    fn query_of(&self, sample: usize) -> usize {
        sample / self.part.record.samples_per_query.max(1)
    }

    /// Returns the client's part of the span from when a sample was due to `at`.
    fn client_part(&self, sample: usize, (due, at): (Nanos, Nanos)) -> Nanos {
        let sent_late = self.part.sent_late.get(sample).copied().unwrap_or(0);
        let read_late = match self.reach {
            Reach::Network => self.late.get(&at).map_or(0, |read| read.waited),
            Reach::NetworkUnstamped => self.paused((due + sent_late, at), |_| true),
            Reach::InProcess => self.paused((due + sent_late, at), |loss| loss == Loss::Stopped),
        };
        sent_late + read_late
    }

    /// The client's part of a time to first token. If one read brought the first token together
    /// with the last, it may have been there for as long as the thread that read, or the process,
    /// did not run.
    fn client_part_of_first_token(&self, sample: usize, (due, at): (Nanos, Nanos)) -> Nanos {
        let known = self.client_part(sample, (due, at));
        let record = self.part.record;
        let has_more = record.tokens.get(sample).is_some_and(|&tokens| tokens > 1);
        let is_last = record.completed_at.get(sample) == Some(&at);
        let Some(read) = self.late.get(&at).filter(|_| has_more && is_last) else { return known };
        let sent_at = due + self.part.sent_late.get(sample).copied().unwrap_or(0);
        let stopped = self.paused((sent_at, at), |loss| loss == Loss::Stopped);
        known.max(sent_at - due + read.thread_waited + stopped)
    }

    /// How much of a span the process did not run for these reasons.
    fn paused(&self, (from, to): (Nanos, Nanos), counts: impl Fn(Loss) -> bool) -> Nanos {
        let begun = self.pauses.partition_point(|pause| pause.at_ns + pause.lasted_ns <= from);
        let own = self.pauses[begun..].iter().take_while(|pause| pause.at_ns < to);
        let within = |pause: &Pause| {
            (pause.at_ns + pause.lasted_ns).min(to).saturating_sub(pause.at_ns.max(from))
        };
        own.filter(|pause| counts(pause.loss)).map(within).sum()
    }
}

/// Times of answered samples, each with and without the client's part.
#[derive(Default)]
pub(super) struct Found {
    /// By query, which is as slow as its slowest sample; of an Offline query by sample.
    pub latencies: Vec<(Nanos, Nanos)>,
    pub first_tokens: Vec<(Nanos, Nanos)>,
    /// Samples with a part that counts.
    pub delayed: u64,
    pub longest: Nanos,
}

impl Found {
    fn add_latency(&mut self, (latency, without): (Nanos, Nanos), is_of_last_query: bool) {
        match self.latencies.last_mut().filter(|_| is_of_last_query) {
            Some(slowest) => *slowest = (latency.max(slowest.0), without.max(slowest.1)),
            None => self.latencies.push((latency, without)),
        }
    }
}

/// The percentiles that a test is known by, with and without the client's delays.
pub(super) fn figures(
    tenant: u32,
    name: &str,
    times: &[(Nanos, Nanos)],
    target: f64,
) -> Vec<Figure> {
    if times.is_empty() {
        return Vec::new();
    }
    let sorted = |of: fn(&(Nanos, Nanos)) -> Nanos| {
        let mut all: Vec<Nanos> = times.iter().map(of).collect();
        all.sort_unstable();
        all
    };
    let is_new = ![0.5, 0.9, 0.99].contains(&target) && target > 0.0 && target < 1.0;
    let (measured, without) = (sorted(|time| time.0), sorted(|time| time.1));
    let points = [0.5, 0.9, 0.99].into_iter().chain(is_new.then_some(target));
    let of = |q: f64| {
        let at = ((times.len() as f64 * q) as usize).min(times.len() - 1);
        Figure {
            tenant,
            name: format!("{name} {}", units::percentile(q)),
            measured_ns: measured[at],
            without_client_ns: without[at],
        }
    };
    points.map(of).collect()
}
