//! `records.bin`: measurements of each query, in columns. `docs/reference/records.md`
//! describes the format.
//!
//! A row is a query; in Offline, whose one query holds every sample, a row is a
//! sample. Of a run with many rows, the file has a random selection unless all are requested: one
//! row in each stretch of `stride` rows. `summary.json` has the exact numbers.

mod codec;
mod file;
mod observation;

use dyno_loadgen::record::{Failure, Record};
use serde::{Deserialize, Serialize};

use crate::selection::Selection;

pub use file::{FILE, RecordsError};

/// Maximum number of rows unless all are requested. Percentiles up to p99.9 rest on more than 250
/// rows then, in 3 MB per test.
pub const ROWS_KEPT: usize = 1 << 18;

/// Latency, or time to first token, of an answer that never arrived.
pub const NEVER: i64 = -1;

dyno_loadgen::named_enum! {
    /// Selection of the rows that are written.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum Keep {
        /// At most [`ROWS_KEPT`] rows: a random one in each stretch of equal length.
        #[default]
        Thinned = "thinned",
        /// Every row.
        All = "all",
        /// No file.
        Nothing = "none",
    }
}

/// Meaning of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Row {
    /// Query; complete when its last sample is.
    Query,
    /// Sample of the single query of Offline.
    Sample,
}

/// Raw records of one run. Each column has one entry per row, or is empty.
///
/// ```
/// use dyno_loadgen::record::Record;
/// use dyno_results::records::{Keep, Records};
///
/// let record = Record {
///     samples_per_query: 1,
///     issued_at: vec![10, 20],
///     completed_at: vec![15, 28],
///     indices: vec![0, 1],
///     ..Record::default()
/// };
/// let records = Records::from_record(&record, Keep::All).expect("rows are kept");
/// assert_eq!(records.latency_ns, [5, 8]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Records {
    /// Meaning of a row.
    pub row: Row,
    /// Rows before thinning.
    pub total: u64,
    /// Number of rows that a kept row stands for (>= 1).
    pub stride: u64,
    /// Samples in each query.
    pub samples_per_query: u64,
    /// Scheduled time, in ns since the start of the run.
    pub scheduled_ns: Vec<i64>,
    /// Issue - scheduled time, in ns.
    pub issue_delay_ns: Vec<i64>,
    /// Completion - scheduled time, in ns; [`NEVER`] without completion.
    pub latency_ns: Vec<i64>,
    /// Index of the first sample in the data set.
    pub sample: Vec<i64>,
    /// Part of the issue delay that the client caused, in ns. May be empty.
    pub client_lag_ns: Vec<i64>,
    /// First token - scheduled time, in ns; [`NEVER`] without a token. Empty unless tokens are
    /// measured.
    pub first_token_ns: Vec<i64>,
    /// Output tokens. Empty unless tokens are measured.
    pub tokens: Vec<i64>,
    /// Output tokens that came from the first one to the end; [`NEVER`] if this is unknown. Empty if
    /// these are all tokens of every answer.
    pub timed_tokens: Vec<i64>,
    /// Code of the first failed sample, see [`failure_name`]; 0 if none failed. Empty if no sample of
    /// the run failed.
    pub failure: Vec<i64>,
    /// Number of the session, in the order of their beginning, from 1. Empty unless queries are turns of
    /// sessions.
    pub session: Vec<i64>,
    /// Number of the turn in its session, from 1. Empty as `session` is.
    pub turn: Vec<i64>,
    /// How often requests were sent again. Empty if none of the run was.
    pub retries: Vec<i64>,
    /// Time between failed attempts and their retries, in ns, as the server asked (`Retry-After`) or by
    /// the client's own times. Empty as `retries` is.
    pub retry_wait_ns: Vec<i64>,
    /// Number of the row before thinning, from 0. Empty if every row is kept, and in files of earlier
    /// versions, which kept rows at even distances.
    pub number: Vec<i64>,
}

/// Retries of the requests of a run, by sample.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RetryColumns {
    /// How often the request was sent again.
    pub counts: Vec<u64>,
    /// How long it waited before that, in ns.
    pub waits_ns: Vec<u64>,
}

/// Returns the failure with this code; `None` for 0. Unknown codes count as internal.
pub(crate) fn failure_of(code: i64) -> Option<Failure> {
    let position = usize::try_from(code).ok()?.checked_sub(1)?;
    Some(Failure::ALL.get(position).copied().unwrap_or(Failure::Internal))
}

/// Returns the name of the failure with this code; empty for 0.
pub fn failure_name(code: i64) -> &'static str {
    failure_of(code).map_or("", Failure::name)
}

fn code(failure: Failure) -> i64 {
    failure.position() as i64 + 1
}

impl Records {
    /// Returns the selected rows of a record; `None` for [`Keep::Nothing`].
    pub fn from_record(record: &Record, keep: Keep) -> Option<Self> {
        let is_one = record.query_count() == 1;
        let samples = if is_one { 1 } else { record.samples_per_query.max(1) };
        let total = if is_one { record.completed_at.len() } else { record.query_count() };
        let selection = match keep {
            Keep::Nothing => return None,
            Keep::All => Selection::new(total, total.max(1)),
            Keep::Thinned => Selection::new(total, ROWS_KEPT),
        };
        let mut failed = record.failed.clone();
        failed.sort_unstable_by_key(|(sequence, _)| *sequence);
        let row = if is_one { Row::Sample } else { Row::Query };
        let mut records = Self::empty(row, total as u64, selection.stride() as u64);
        records.samples_per_query = record.samples_per_query.max(1) as u64;
        for row in selection.rows() {
            let query = if is_one { 0 } else { row };
            records.push(record, query, row * samples..(row + 1) * samples, &failed);
        }
        if selection.stride() > 1 {
            records.number = selection.rows().map(|row| row as i64).collect();
        }
        Some(records)
    }

    /// Returns an upper estimate of the size of the file in bytes, for a run of so many samples.
    pub fn expected_bytes(samples: u64, keep: Keep) -> u64 {
        /// A row of a server; measured at 9 to 21.
        const ROW: u64 = 24;
        match keep {
            Keep::Nothing => 0,
            Keep::Thinned => samples.min(ROWS_KEPT as u64) * ROW,
            Keep::All => samples.saturating_mul(ROW),
        }
    }

    /// Returns records without rows.
    fn empty(row: Row, total: u64, stride: u64) -> Self {
        Self {
            row,
            total,
            stride,
            samples_per_query: 1,
            scheduled_ns: Vec::new(),
            issue_delay_ns: Vec::new(),
            latency_ns: Vec::new(),
            sample: Vec::new(),
            client_lag_ns: Vec::new(),
            first_token_ns: Vec::new(),
            tokens: Vec::new(),
            timed_tokens: Vec::new(),
            failure: Vec::new(),
            session: Vec::new(),
            turn: Vec::new(),
            retries: Vec::new(),
            retry_wait_ns: Vec::new(),
            number: Vec::new(),
        }
    }

    /// Returns the records with the retries of their requests.
    #[must_use]
    pub fn with_retries(mut self, retries: &RetryColumns) -> Self {
        if retries.counts.iter().all(|&count| count == 0) {
            return self;
        }
        let each = match self.row {
            Row::Query => usize::try_from(self.samples_per_query).unwrap_or(1),
            Row::Sample => 1,
        };
        let column = |values: &[u64]| {
            let of_row = |row: usize| {
                let number = usize::try_from(self.row_number(row)).unwrap_or(usize::MAX);
                let samples = values.iter().skip(number.saturating_mul(each)).take(each);
                samples.sum::<u64>().cast_signed()
            };
            (0..self.row_count()).map(of_row).collect::<Vec<_>>()
        };
        let (counts, waits) = (column(&retries.counts), column(&retries.waits_ns));
        (self.retries, self.retry_wait_ns) = (counts, waits);
        self
    }

    fn push(
        &mut self,
        record: &Record,
        query: usize,
        samples: std::ops::Range<usize>,
        failed: &[(u64, Failure)],
    ) {
        let due = record.scheduled(query);
        let since = |at: u64| at.wrapping_sub(due).cast_signed();
        let stamps = record.completed_at.get(samples.clone()).unwrap_or_default();
        let done = stamps.iter().copied().max().filter(|_| !stamps.contains(&0));
        self.scheduled_ns.push(due.cast_signed());
        self.issue_delay_ns.push(since(record.issued_at[query]));
        self.latency_ns.push(done.map_or(NEVER, since));
        self.sample.push(record.indices.get(samples.start).map_or(0, |&index| i64::from(index)));
        if let Some(&lag) = record.client_lag.get(query) {
            self.client_lag_ns.push(lag.into());
        }
        if let Some(&first) = record.first_token_at.get(samples.start) {
            self.first_token_ns.push(if first == 0 { NEVER } else { since(first) });
        }
        if let Some(tokens) = record.tokens.get(samples.clone()) {
            self.tokens.push(tokens.iter().sum());
        }
        if !record.timed_tokens.is_empty() {
            let timed: Option<i64> = samples.clone().map(|at| record.timed_tokens(at)).sum();
            self.timed_tokens.push(timed.unwrap_or(NEVER));
        }
        if let Some(turn) = record.sessions.as_ref().and_then(|played| played.turns.get(query)) {
            self.session.push(i64::from(turn.session) + 1);
            self.turn.push(i64::from(turn.number) + 1);
        }
        if !failed.is_empty() {
            let at = failed.partition_point(|(sequence, _)| *sequence < samples.start as u64);
            let first = failed.get(at).filter(|(sequence, _)| *sequence < samples.end as u64);
            self.failure.push(first.map_or(0, |(_, failure)| code(*failure)));
        }
    }

    /// Returns the number of rows.
    pub fn row_count(&self) -> usize {
        self.latency_ns.len()
    }

    /// Returns the number of a row before thinning, from 0.
    pub(crate) fn row_number(&self, row: usize) -> i64 {
        let even = || (row as u64).wrapping_mul(self.stride).cast_signed();
        self.number.get(row).copied().unwrap_or_else(even)
    }

    /// Returns whether a row was answered without failure.
    pub fn is_answered(&self, row: usize) -> bool {
        self.latency_ns[row] != NEVER && self.failure.get(row).is_none_or(|&code| code == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(samples_per_query: usize) -> Record {
        Record {
            samples_per_query,
            scheduled_at: vec![0, 100, 200],
            issued_at: vec![5, 105, 230],
            client_lag: vec![5, 5, 0],
            indices: (10..10 + 3 * samples_per_query as u32).collect(),
            completed_at: (1..=3 * samples_per_query as u64).map(|n| 200 + n * 100).collect(),
            ..Record::default()
        }
    }

    #[test]
    fn a_query_is_done_when_its_last_sample_is_and_fails_with_its_first() {
        let mut of = record(2);
        of.completed_at[5] = 0;
        of.failed = vec![(3, Failure::TimedOut), (2, Failure::Rejected)];
        let found = Records::from_record(&of, Keep::Thinned).unwrap();
        assert_eq!(found.latency_ns, [400, 500, NEVER]);
        assert_eq!(found.issue_delay_ns, [5, 5, 30]);
        assert_eq!(found.sample, [10, 12, 14]);
        assert_eq!(found.failure, [0, 1, 0]);
        assert_eq!([0, 1, 2].map(|row| found.is_answered(row)), [true, false, false]);
        assert_eq!(Records::from_record(&of, Keep::Nothing), None);
    }

    #[test]
    fn the_one_query_of_offline_has_a_row_a_sample() {
        let one = Record {
            samples_per_query: 3,
            issued_at: vec![7],
            indices: vec![4, 5, 6],
            completed_at: vec![107, 207, 157],
            ..Record::default()
        };
        let found = Records::from_record(&one, Keep::All).unwrap();
        assert_eq!((found.row, found.total, found.row_count()), (Row::Sample, 3, 3));
        assert_eq!(found.latency_ns, [100, 200, 150]);
        assert_eq!(found.sample, [4, 5, 6]);
    }

    #[test]
    fn retries_belong_to_the_queries_of_their_samples() {
        let of = Records::from_record(&record(2), Keep::All).unwrap();
        let none = RetryColumns { counts: vec![0; 6], waits_ns: vec![0; 6] };
        assert_eq!(of.clone().with_retries(&none), of);
        let some =
            RetryColumns { counts: vec![0, 1, 0, 0, 2, 1], waits_ns: vec![0, 70, 0, 0, 50, 5] };
        let found = Records { stride: 2, ..of.clone() }.with_retries(&some);
        assert_eq!(found.retries[..2], [1, 3], "every other query");
        let found = of.with_retries(&some);
        assert_eq!((found.retries, found.retry_wait_ns), (vec![1, 0, 3], vec![70, 0, 55]));
    }

    #[test]
    fn long_runs_are_thinned_at_random() {
        let n = 2 * ROWS_KEPT + 1;
        let long = Record {
            samples_per_query: 1,
            issued_at: (0..n as u64).collect(),
            indices: vec![0; n],
            completed_at: (1..=n as u64).collect(),
            ..Record::default()
        };
        let found = Records::from_record(&long, Keep::Thinned).unwrap();
        assert_eq!((found.total, found.stride), (n as u64, 3));
        assert_eq!(found.scheduled_ns, found.number, "query i was due at i ns");
        assert!((0..found.row_count()).all(|row| found.row_number(row) / 3 == row as i64));
        assert!(found.number.iter().any(|number| number % 3 != 0), "not each third");
        assert!(found.row_count() <= ROWS_KEPT);
        let all = Records::from_record(&long, Keep::All).unwrap();
        assert_eq!((all.row_count(), all.number.len(), all.row_number(7)), (n, 0, 7));
    }
}
