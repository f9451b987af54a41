//! Converts request logs of other tools to raw records.

use crate::records::{NEVER, Records, Row};
use crate::units::counted;

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

/// Request that was in flight when a tool cut it off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingRequest {
    /// The request, without a completion.
    pub request: Request,
    /// Time that it had waited since it was sent, or since its last token, ns.
    pub waited: i64,
}

/// A request that was cut off has failed if it had waited for more than this many times the longest answer.
/// Requests in flight are longer than others, and the last ones of a queue may have waited for the whole run.
const OVERDUE: i64 = 2;

/// Returns the requests that waited so much longer than any answer took that they count as failed. The others
/// may have been about to be answered.
pub fn overdue(requests: &[Request], pending: &[PendingRequest]) -> Vec<Request> {
    let took = |request: &Request| Some(request.completed?.saturating_sub(request.issued));
    let longest = requests.iter().filter_map(took).max().unwrap_or(0);
    let most = longest.saturating_mul(OVERDUE);
    pending.iter().filter(|one| one.waited > most).map(|one| one.request).collect()
}

/// Returns the remarks about requests that a tool cut off, `overdue` of which count as failed.
pub fn cut_off_remarks(cut_off: usize, overdue: usize, what: &str) -> Vec<String> {
    let requests = |count: usize| counted(count as u64, "request was", "requests were");
    let left_out = cut_off - overdue;
    let left_out = (left_out > 0).then(|| format!("{} {what} and left out", requests(left_out)));
    let failed = (overdue > 0).then(|| {
        format!(
            "{} {what} after a wait of more than {OVERDUE} times as long as any answer took, and \
             counted as failed",
            requests(overdue)
        )
    });
    left_out.into_iter().chain(failed).collect()
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
    fn requests_that_waited_far_longer_than_any_answer_took_have_failed() {
        let request = |issued: i64, completed: Option<i64>| Request {
            scheduled: issued,
            issued,
            completed,
            first_token: None,
            tokens: None,
        };
        let answered = [request(0, Some(100)), request(50, Some(400)), request(60, None)];
        let pending = |issued, waited| PendingRequest { request: request(issued, None), waited };
        let cut_off = [pending(1_000, 701), pending(1_001, 700), pending(1_002, 1)];
        assert_eq!(overdue(&answered, &cut_off), [request(1_000, None)]);
        // Nothing was ever answered.
        assert_eq!(overdue(&answered[2..], &cut_off).len(), 3);
        let remarks = cut_off_remarks(3, 1, "cancelled");
        assert_eq!(remarks.len(), 2, "{remarks:?}");
        assert_eq!(remarks[0], "2 requests were cancelled and left out");
        assert!(
            remarks[1].starts_with("1 request was cancelled after a wait of more than 2 times")
        );
        assert!(cut_off_remarks(0, 0, "cancelled").is_empty());
    }

    /// A burst of 512 requests, of which a server answers 10 a second in order, is cut off after 30 s. The last
    /// ones have waited a little longer than any answer took.
    #[test]
    fn the_rest_of_a_queue_has_not_failed() {
        let begin =
            Request { scheduled: 0, issued: 0, completed: None, first_token: None, tokens: None };
        let answered: Vec<Request> =
            (1..300).map(|at| Request { completed: Some(at * 100_000_000), ..begin }).collect();
        let rest = vec![PendingRequest { request: begin, waited: 30_000_000_000 }; 213];
        assert!(overdue(&answered, &rest).is_empty());
    }

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
