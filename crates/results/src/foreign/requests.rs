//! Converts request logs of other tools to raw records.

use crate::records::{NEVER, Records, Row};

/// Request of another tool. Times are ns by the clock of the tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Scheduled time, or the closest time that the tool logs.
    pub scheduled: i64,
    /// Time at which it was sent.
    pub issued: i64,
    /// Time of completion; `None` if it failed.
    pub completed: Option<i64>,
    /// Time of the first token.
    pub first_token: Option<i64>,
    /// Output tokens.
    pub tokens: Option<i64>,
}

/// Code of failures, of which other tools do not distinguish kinds.
const INTERNAL: i64 = 4;

/// Returns raw records by scheduled time; `None` without requests.
pub fn records(mut requests: Vec<Request>) -> Option<Records> {
    requests.sort_by_key(|request| request.scheduled);
    let origin = requests.first()?.scheduled;
    // Times of a damaged file must not overflow.
    let since = |at: i64, from: i64| at.saturating_sub(from);
    let column = |of: &dyn Fn(&Request) -> i64| requests.iter().map(of).collect::<Vec<i64>>();
    let has = |of: fn(&Request) -> bool| requests.iter().any(of);
    let optional = |is_there: bool, of: &dyn Fn(&Request) -> i64| {
        if is_there { column(of) } else { Vec::new() }
    };
    Some(Records {
        row: Row::Query,
        total: requests.len() as u64,
        stride: 1,
        samples_per_query: 1,
        scheduled_ns: column(&|r| since(r.scheduled, origin)),
        issue_delay_ns: column(&|r| since(r.issued, r.scheduled)),
        latency_ns: column(&|r| r.completed.map_or(NEVER, |at| since(at, r.scheduled))),
        // The sample is unknown.
        sample: vec![0; requests.len()],
        client_lag_ns: Vec::new(),
        first_token_ns: optional(has(|r| r.first_token.is_some()), &|r| {
            r.first_token.map_or(NEVER, |at| since(at, r.scheduled))
        }),
        tokens: optional(has(|r| r.tokens.is_some()), &|r| r.tokens.unwrap_or(0)),
        failure: optional(has(|r| r.completed.is_none()), &|r| match r.completed {
            Some(_) => 0,
            None => INTERNAL,
        }),
        timed_tokens: Vec::new(),
        session: Vec::new(),
        turn: Vec::new(),
        retries: Vec::new(),
        retry_wait_ns: Vec::new(),
        number: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_put_in_order_and_failures_are_told() {
        let answered = Request {
            scheduled: 1_000,
            issued: 1_010,
            completed: Some(1_500),
            first_token: Some(1_100),
            tokens: Some(7),
        };
        let failed = Request {
            scheduled: 900,
            issued: 900,
            completed: None,
            first_token: None,
            tokens: None,
        };
        let found = records(vec![answered, failed]).unwrap();
        assert_eq!(found.scheduled_ns, [0, 100]);
        assert_eq!(found.latency_ns, [NEVER, 500]);
        assert_eq!(found.first_token_ns, [NEVER, 100]);
        assert_eq!(found.failure, [INTERNAL, 0]);
        assert_eq!([0, 1].map(|row| found.is_answered(row)), [false, true]);
        assert_eq!(records(Vec::new()), None);
    }
}
