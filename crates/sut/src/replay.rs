//! An earlier run once more, in virtual time: each sample takes what it took.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::record::{Failure, Outcome, Record};
use dyno_loadgen::sut::{ResponseId, SimulatedCompletion, SimulatedQuery, SimulatedSystem};

/// What happened to one sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// From the issue of its query to its completion, ns; `None` if it was
    /// never complete.
    pub after: Option<Nanos>,
    /// From the issue of its query to its first token, ns.
    pub first_token_after: Option<Nanos>,
    /// How it ended.
    pub outcome: Outcome,
}

/// Repeats recorded replies: sample `i` of the run gets reply `i`, beginning
/// again at the end and in each run.
///
/// The recorded latencies hold the queueing of the recorded run, so they are
/// not queued again. To queue recorded *service times*, use
/// [`ServiceTime::Listed`](crate::model::ServiceTime::Listed).
#[derive(Debug, Clone)]
pub struct Replay {
    replies: Vec<Reply>,
    issued: usize,
    /// By time, then by order of issue.
    pending: BinaryHeap<Reverse<(Nanos, usize, ResponseId)>>,
    first_tokens: HashMap<ResponseId, Nanos>,
    /// The run is over; the next query begins another, with the first reply.
    flushed: bool,
}

impl Replay {
    /// Replies in the order of issue.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
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

    /// Answers after these latencies, ns.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    pub fn of_latencies(latencies: &[Nanos]) -> Self {
        let outcome = Outcome::Ok { tokens: 0 };
        let reply = |&after| Reply { after: Some(after), first_token_after: None, outcome };
        Self::new(latencies.iter().map(reply).collect())
    }

    /// The replies of a recorded run, with its failures and its missing answers.
    ///
    /// # Panics
    /// If the run has no samples.
    #[must_use]
    pub fn of_record(record: &Record) -> Self {
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
                after: since_issue(completed_at),
                first_token_after: since_issue(first_token_at),
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
            if let Some(after) = reply.after {
                self.pending.push(Reverse((now + after, self.issued, id)));
                if let Some(first) = reply.first_token_after {
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
