//! Replay of a recorded run in virtual time: each sample takes as long as it took before.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::record::{Failure, Outcome, Record};
use dyno_loadgen::sut::{ResponseId, SimulatedCompletion, SimulatedQuery, SimulatedSystem};

/// Recorded reply to one sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// Time from the issue of its query to its completion, ns; `None` if it was never completed.
    pub latency: Option<Nanos>,
    /// Time from the issue of its query to its first token, ns.
    pub first_token_latency: Option<Nanos>,
    /// Outcome of the sample.
    pub outcome: Outcome,
}

/// Repeats recorded replies: sample `i` of a run gets reply `i`. The list repeats after its end and
/// restarts in each run.
///
/// The recorded latencies contain the queueing of the recorded run, so they are not queued again.
/// To queue recorded *service times*, use
/// [`ServiceTime::Listed`](crate::model::ServiceTime::Listed).
///
/// ```
/// use dyno_loadgen::sut::{ResponseId, SimulatedQuery, SimulatedSystem};
/// use dyno_sut::replay::Replay;
///
/// let mut replay = Replay::from_latencies(&[300, 100]);
/// let query = SimulatedQuery { tenant: 0, first: ResponseId::new(1, 0, 0), indices: &[0, 1] };
/// replay.issue(1_000, &query);
/// let mut completions = Vec::new();
/// replay.advance(1_100, &mut completions);
/// assert_eq!(completions[0].id, ResponseId::new(1, 0, 1));
/// assert_eq!(replay.next_event(), Some(1_300));
/// ```
#[derive(Debug, Clone)]
pub struct Replay {
    replies: Vec<Reply>,
    issued: usize,
    /// Pending samples, ordered by time and then by issue.
    pending: BinaryHeap<Reverse<(Nanos, usize, ResponseId)>>,
    first_tokens: HashMap<ResponseId, Nanos>,
    /// The run is over: the next query begins another run, with the first reply.
    flushed: bool,
}

impl Replay {
    /// Returns a system with these replies, in the order of issue.
    ///
    /// # Panics
    /// If there are no replies.
    pub fn new(replies: Vec<Reply>) -> Self {
        assert!(!replies.is_empty(), "a replay needs at least one reply");
        Self {
            replies,
            issued: 0,
            pending: BinaryHeap::new(),
            first_tokens: HashMap::new(),
            flushed: false,
        }
    }

    /// Returns a system that answers after these latencies, ns.
    ///
    /// # Panics
    /// If there are no latencies.
    pub fn from_latencies(latencies: &[Nanos]) -> Self {
        let outcome = Outcome::Ok { tokens: 0 };
        let reply = |&latency| Reply { latency: Some(latency), first_token_latency: None, outcome };
        Self::new(latencies.iter().map(reply).collect())
    }

    /// Returns a system with the replies of a recorded run, including its failures and missing
    /// answers.
    ///
    /// # Panics
    /// If the run has no samples.
    pub fn from_record(record: &Record) -> Self {
        let failed: HashMap<u64, Failure> = record.failed.iter().copied().collect();
        let replies = record.completed_at.iter().enumerate().map(|(i, &completed_at)| {
            let issued_at = record.issued_at[i / record.samples_per_query];
            let since_issue = |at: Nanos| (at != 0).then(|| at.saturating_sub(issued_at));
            let outcome = match failed.get(&(i as u64)) {
                Some(&failure) => Outcome::Failed(failure),
                None => Outcome::Ok { tokens: record.tokens.get(i).copied().unwrap_or(0) },
            };
            let first_token_at = record.first_token_at.get(i).copied().unwrap_or(0);
            Reply {
                latency: since_issue(completed_at),
                first_token_latency: since_issue(first_token_at),
                outcome,
            }
        });
        Self::new(replies.collect())
    }
}

impl SimulatedSystem for Replay {
    fn name(&self) -> &str {
        "replay"
    }

    fn issue(&mut self, now: Nanos, query: &SimulatedQuery<'_>) {
        if std::mem::take(&mut self.flushed) {
            self.issued = 0;
            self.pending.clear();
            self.first_tokens.clear();
        }
        for i in 0..query.indices.len() as u64 {
            let id = ResponseId(query.first.0 + i);
            let reply = self.replies[self.issued % self.replies.len()];
            if let Some(latency) = reply.latency {
                self.pending.push(Reverse((now + latency, self.issued, id)));
                if let Some(first) = reply.first_token_latency {
                    self.first_tokens.insert(id, now + first);
                }
            }
            self.issued += 1;
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        self.pending.peek().map(|next| next.0.0)
    }

    fn advance(&mut self, now: Nanos, completions: &mut Vec<SimulatedCompletion>) {
        while let Some(&Reverse((at, number, id))) = self.pending.peek()
            && at <= now
        {
            self.pending.pop();
            let outcome = self.replies[number % self.replies.len()].outcome;
            let first_token_at = self.first_tokens.remove(&id);
            completions.push(SimulatedCompletion { id, first_token_at, outcome });
        }
    }

    fn flush(&mut self, _now: Nanos) {
        self.flushed = true;
    }
}
