//! Measurements of a run, in plain columns: one row per query and one row per sample.

mod excluded;
mod responses;

use crate::clock::Nanos;
use crate::qsl::SampleIndex;
use crate::settings::Scenario;

pub use excluded::ExcludedQueries;
pub use responses::Responses;

/// How a sample ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The system answered, with this many output tokens (0 without tokens).
    Ok {
        /// Output tokens.
        tokens: i64,
    },
    /// The system reported that it could not answer. Never counted as throughput.
    Failed(Failure),
}

crate::named_enum! {
    /// Why a system could not answer. Positions are codes in files and in the worker protocol: append
    /// only.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[non_exhaustive]
    pub enum Failure {
        /// The system refused it (full queue, rejected request).
        Rejected = "rejected",
        /// The system took too long by its own clock.
        TimedOut = "timed_out",
        /// The connection to the system was lost.
        Disconnected = "disconnected",
        /// The system reported an error.
        Internal = "internal",
        /// The answer held no output.
        Empty = "empty",
        /// The answer was truncated.
        Cut = "cut",
        /// The system gave up on the answer.
        Aborted = "aborted",
        /// A filter of the system withheld the answer or a part of it.
        Filtered = "filtered",
        /// The answer has fewer tokens than the request demanded.
        Short = "short",
        /// The client gave the request up on purpose, as its load asks. Such a query is
        /// [excluded](Record::exclude) from a record, so that it is neither a success nor a failure.
        Cancelled = "cancelled",
    }
}

impl Failure {
    /// Returns the position in [`ALL`](Self::ALL).
    pub fn position(self) -> usize {
        self as usize
    }
}

/// Counts of wrong calls by the system. They are reported and never cause a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Misuse {
    /// Repeated completions and repeated first tokens of a sample; the first one counts.
    pub duplicate: u64,
    /// Completions with an id of an earlier run.
    pub stale: u64,
    /// Completions with an id that was never issued.
    pub unknown: u64,
    /// Samples completed without a first token in a run that measures tokens.
    pub first_token_missing: u64,
    /// First tokens reported after the sample was complete.
    pub first_token_late: u64,
    /// Samples with a token count of 0, 1, or below 0 in a run that measures tokens.
    pub tokens_zero: u64,
    /// Token count of exactly 1: no time per output token exists.
    pub tokens_one: u64,
    /// Negative token count.
    pub tokens_negative: u64,
    /// Times reported by the system that lie before the issue of their sample or after the report.
    /// The nearest possible time is recorded instead.
    pub impossible_times: u64,
}

impl Misuse {
    /// Adds other counts to these.
    pub fn add(&mut self, other: Self) {
        self.duplicate = self.duplicate.saturating_add(other.duplicate);
        self.stale = self.stale.saturating_add(other.stale);
        self.unknown = self.unknown.saturating_add(other.unknown);
        self.first_token_missing =
            self.first_token_missing.saturating_add(other.first_token_missing);
        self.first_token_late = self.first_token_late.saturating_add(other.first_token_late);
        self.tokens_zero = self.tokens_zero.saturating_add(other.tokens_zero);
        self.tokens_one = self.tokens_one.saturating_add(other.tokens_one);
        self.tokens_negative = self.tokens_negative.saturating_add(other.tokens_negative);
        self.impossible_times = self.impossible_times.saturating_add(other.impossible_times);
    }

    /// Returns the sum of all counts.
    pub fn total(&self) -> u64 {
        [
            self.duplicate,
            self.stale,
            self.unknown,
            self.first_token_missing,
            self.first_token_late,
            self.tokens_zero,
            self.tokens_one,
            self.tokens_negative,
            self.impossible_times,
        ]
        .into_iter()
        .fold(0, u64::saturating_add)
    }
}

/// Response that is kept for the accuracy log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoggedResponse<'a> {
    /// Sequence number of the sample in the run.
    pub sequence: u64,
    /// Answer of the system.
    pub data: &'a [u8],
    /// Payload of the first token; `None` unless tokens are measured.
    pub first_token: Option<&'a [u8]>,
    /// Output tokens.
    pub tokens: i64,
}

/// The sessions of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlayedSessions {
    /// Per query: which turn of which session it is.
    pub turns: Vec<Turn>,
    /// Sessions that were due while all sessions were in progress, so that they began later or never.
    pub held: u64,
    /// Until when turns could begin: think times at the end of a run are part of its length.
    pub ended_at: Nanos,
    /// Per query: when it could be issued at the earliest, because the turn before it was complete.
    /// Later than its due time only if turns are due at an interval.
    pub ready_at: Vec<Nanos>,
    /// Sessions in the record that ended because the client cancelled a later turn.
    pub cancelled: u64,
    /// Sessions after the ramp whose first turn the client cancelled. They are not in the record.
    pub cancelled_at_first: u64,
}

/// A query as a turn of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// Number of the session, in the order in which the run began them, from 0.
    pub session: u32,
    /// Number of the turn in its session, from 0.
    pub number: u32,
    /// Turns of the whole session.
    pub turns: u32,
    /// In sessions of [tasks](crate::plan::Plan::with_tasks): whether the task is not answered with
    /// this turn. The answer asked for a further turn, or the run ended before that was known. Not
    /// used for failed turns.
    pub continues: bool,
}

/// Measurements of one tenant in one run.
///
/// Times are ns since the start of the run. Query `q` has the samples
/// `q * samples_per_query .. (q + 1) * samples_per_query`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// Samples in each query (>= 1).
    pub samples_per_query: usize,
    /// Sequence number of the first sample within the whole test.
    pub first_sample: u64,
    /// Sequence number of the first query within the whole test.
    pub first_query: u64,
    /// Per query: when it was due. Empty if queries are due when they are issued (SingleStream,
    /// MultiStream, fixed concurrency).
    pub scheduled_at: Vec<Nanos>,
    /// Per query: when it was issued to the system.
    pub issued_at: Vec<Nanos>,
    /// Per query that was due at a set time: the part of its lateness in ns that the client caused,
    /// as opposed to the system by blocking the issuing thread.
    pub client_lag: Vec<u32>,
    /// Per sample: its index in the data set.
    pub indices: Vec<SampleIndex>,
    /// Per sample: when it was complete; 0 if never.
    pub completed_at: Vec<Nanos>,
    /// Per sample: when its first token came; 0 if never. Empty unless tokens are measured.
    pub first_token_at: Vec<Nanos>,
    /// Per sample: output tokens. Empty unless tokens are measured.
    pub tokens: Vec<i64>,
    /// Samples with tokens that came neither at nor after the first one, such as thoughts that are
    /// counted but not sent: the number of the other tokens, or `None` if it is unknown. By sample.
    pub timed_tokens: Vec<(u64, Option<i64>)>,
    /// Sequence numbers of failed samples, with the reason.
    pub failed: Vec<(u64, Failure)>,
    /// Counts of wrong calls by the system.
    pub misuse: Misuse,
    /// Responses for the accuracy log.
    pub responses: Responses,
    /// The sessions; `None` if queries are independent.
    pub sessions: Option<PlayedSessions>,
    /// Queries that were played and are not measured; `None` if all are.
    pub excluded: Option<Box<ExcludedQueries>>,
}

impl Record {
    /// Returns the length of the run in ns: until the last completion or cancellation, or, with
    /// sessions, until no further turn could begin if that is later.
    pub fn lasted(&self) -> Nanos {
        let done = self.completed_at.iter().copied().max().unwrap_or(0);
        let done = self.excluded.as_ref().map_or(done, |excluded| excluded.last.max(done));
        self.sessions.as_ref().map_or(done, |played| played.ended_at.max(done))
    }

    /// Returns the number of queries issued.
    pub fn query_count(&self) -> usize {
        self.issued_at.len()
    }

    /// Returns when query `q` was due.
    #[inline]
    pub fn scheduled(&self, q: usize) -> Nanos {
        if self.scheduled_at.is_empty() { self.issued_at[q] } else { self.scheduled_at[q] }
    }

    /// Returns how many tokens of a sample came from its first token to its completion; `None` if this
    /// is unknown.
    pub fn timed_tokens(&self, sample: usize) -> Option<i64> {
        match self.timed_tokens.binary_search_by_key(&(sample as u64), |(at, _)| *at) {
            Ok(at) => self.timed_tokens[at].1,
            Err(_) => Some(self.tokens.get(sample).copied().unwrap_or(0)),
        }
    }

    /// Returns the record with only the tokens that came in the time of their sample, 0 if this is unknown;
    /// `None` if these are all tokens.
    pub fn with_timed_tokens(&self) -> Option<Self> {
        let timed = |sample: usize| self.timed_tokens(sample).unwrap_or(0);
        (!self.timed_tokens.is_empty()).then(|| Self {
            tokens: (0..self.tokens.len()).map(timed).collect(),
            timed_tokens: Vec::new(),
            ..self.clone()
        })
    }

    /// Returns whether the time per output token of an answered sample is undefined although it may
    /// have several tokens: they came at once, or it is unknown how many of them came in its time.
    pub fn lacks_time_per_token(&self, sample: usize) -> bool {
        let of = |column: &[Nanos]| column.get(sample).copied().unwrap_or(0);
        self.timed_tokens(sample)
            .is_none_or(|tokens| tokens > 1 && of(&self.completed_at) <= of(&self.first_token_at))
    }

    /// Counts misuse in the token columns. A correct sample reports its first token, then completes
    /// with a token count above 1. In Offline the first token may be missing.
    pub fn count_token_misuse(&mut self, scenario: Scenario) {
        let waits = scenario != Scenario::Offline;
        let mut failed: Vec<u64> = self.failed.iter().map(|(sequence, _)| *sequence).collect();
        failed.sort_unstable();
        for (sample, (&tokens, &first)) in self.tokens.iter().zip(&self.first_token_at).enumerate()
        {
            let answered = self.completed_at[sample] != 0;
            if !answered || failed.binary_search(&(sample as u64)).is_ok() {
                continue;
            }
            self.misuse.first_token_missing += u64::from(waits && first == 0);
            match tokens {
                0 => self.misuse.tokens_zero += 1,
                1 => self.misuse.tokens_one += 1,
                ..0 => self.misuse.tokens_negative += 1,
                _ => {}
            }
        }
    }

    /// Replaces times before the issue of their sample by the time of its issue, and counts them.
    pub(crate) fn clamp_to_issue(&mut self) {
        for (query, &issued) in self.issued_at.iter().enumerate() {
            let first = query * self.samples_per_query;
            for column in [&mut self.completed_at, &mut self.first_token_at] {
                let samples = column.iter_mut().skip(first).take(self.samples_per_query);
                for at in samples.filter(|at| **at != 0 && **at < issued) {
                    *at = issued;
                    self.misuse.impossible_times += 1;
                }
            }
        }
    }

    /// Returns the number of samples issued and never completed.
    pub fn missing(&self) -> usize {
        self.completed_at.iter().filter(|&&at| at == 0).count()
    }
}
