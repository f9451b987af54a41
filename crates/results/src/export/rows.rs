//! Rows of raw records for exports: time stamps and durations, with empty cells for missing values.

use serde::Serialize;

use super::TestRecords;
use crate::records::{NEVER, failure_name};

/// Row of an export. The order of the fields is that of the columns, in every format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Row<'a> {
    /// Folder of the test.
    pub test: &'a str,
    /// Number of the query (Offline: of the sample) in the run, from 0.
    pub row: i64,
    /// Index of its (first) sample in the data set.
    pub sample: i64,
    /// Scheduled time, in ns since the start of the test.
    pub scheduled_ns: i64,
    /// Issue time, in ns since the start of the test.
    pub issued_ns: i64,
    /// Completion time, in ns since the start of the test.
    pub completed_ns: Option<i64>,
    /// Completion - scheduled time, in ns.
    pub latency_ns: Option<i64>,
    /// Part of issue - scheduled time that the client caused, in ns.
    pub client_lag_ns: Option<i64>,
    /// First token - scheduled time, in ns.
    pub time_to_first_token_ns: Option<i64>,
    /// Output tokens.
    pub output_tokens: Option<i64>,
    /// Kind of failure.
    pub failure: Option<&'static str>,
    /// Number of the session, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<i64>,
    /// Number of the turn in its session, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<i64>,
    /// How often requests were sent again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<i64>,
    /// Time between failed attempts and their retries, in ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_wait_ns: Option<i64>,
}

/// Names of the columns of a run with sessions beyond the others.
pub const SESSION_COLUMNS: [&str; 2] = ["session", "turn"];

/// Names of the columns of a run with retries beyond the others.
pub const RETRY_COLUMNS: [&str; 2] = ["retries", "retry_wait_ns"];

/// Names of the columns.
pub const COLUMNS: [&str; 11] = [
    "test",
    "row",
    "sample",
    "scheduled_ns",
    "issued_ns",
    "completed_ns",
    "latency_ns",
    "client_lag_ns",
    "time_to_first_token_ns",
    "output_tokens",
    "failure",
];

impl TestRecords<'_> {
    /// Returns all rows.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        (0..self.records.row_count()).map(|at| self.row(at))
    }

    /// Returns the row at a position.
    pub fn row(&self, at: usize) -> Row<'_> {
        let records = self.records;
        let time = |column: &[i64]| column.get(at).copied().filter(|&time| time != NEVER);
        let scheduled = records.scheduled_ns[at];
        let latency = time(&records.latency_ns);
        Row {
            test: self.name,
            row: records.row_number(at),
            sample: records.sample.get(at).copied().unwrap_or(0),
            scheduled_ns: scheduled,
            // A damaged file may hold any number.
            issued_ns: scheduled.wrapping_add(records.issue_delay_ns[at]),
            completed_ns: latency.map(|latency| scheduled.wrapping_add(latency)),
            latency_ns: latency,
            client_lag_ns: records.client_lag_ns.get(at).copied(),
            time_to_first_token_ns: time(&records.first_token_ns),
            output_tokens: records.tokens.get(at).copied().filter(|_| latency.is_some()),
            failure: records
                .failure
                .get(at)
                .map(|&code| failure_name(code))
                .filter(|n| !n.is_empty()),
            session: records.session.get(at).copied(),
            turn: records.turn.get(at).copied(),
            retries: records.retries.get(at).copied(),
            retry_wait_ns: records.retry_wait_ns.get(at).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_the_fields_of_a_row() {
        let row = Row {
            test: "",
            row: 0,
            sample: 0,
            scheduled_ns: 0,
            issued_ns: 0,
            completed_ns: None,
            latency_ns: None,
            client_lag_ns: None,
            time_to_first_token_ns: None,
            output_tokens: None,
            failure: None,
            session: None,
            turn: None,
            retries: None,
            retry_wait_ns: None,
        };
        let names = |row: Row<'_>| -> Vec<String> {
            let value = serde_json::to_value(row).unwrap();
            value.as_object().unwrap().keys().cloned().collect()
        };
        assert_eq!(names(row), COLUMNS);
        let of_session = Row { session: Some(1), turn: Some(2), ..row };
        assert_eq!(names(of_session)[11..], SESSION_COLUMNS);
        let of_retries = Row { retries: Some(1), retry_wait_ns: Some(2), ..row };
        assert_eq!(names(of_retries)[11..], RETRY_COLUMNS);
    }
}
