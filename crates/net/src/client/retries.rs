//! Retries: when a failed request is sent again, and the requests that wait for that time.

use std::str::FromStr as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use dyno_loadgen::clock::{MILLISECOND, Nanos, SECOND, WallTime};
use dyno_loadgen::drive::real::Responder;
use dyno_loadgen::sut::ResponseId;
use serde::{Deserialize, Serialize};

use super::accepted::SampleTimes;
use super::{Client, ClientCore, Job};
use crate::exchange::Fields;
use crate::trouble::{Kind, Trouble};

/// Longest wait before the first retry of a request that the server refused without stating a time; the
/// shortest is half of it. Each further wait is twice as long.
const FIRST_WAIT: Nanos = 100 * MILLISECOND;
/// Longest wait that a server did not ask for.
const LONGEST_WAIT: Nanos = 5 * SECOND;
/// How often a request is sent again because servers end connections without processing it.
const MOST_RESENT: u8 = 3;

/// Returns the time for which an answer of a full server asks to wait, in ns (RFC 9110, section
/// 10.2.3): seconds, or a date, which a server writes by its own clock. OpenAI and Azure also state
/// milliseconds, which are more precise.
pub(super) fn requested_wait(status: u16, fields: &dyn Fields) -> Option<Nanos> {
    if !matches!(status, 429 | 503 | 529) {
        return None;
    }
    let field = |name| std::str::from_utf8(fields.field(name)?).ok();
    let milliseconds = field("retry-after-ms").and_then(|text| text.trim().parse::<f64>().ok());
    if let Some(milliseconds) = milliseconds.filter(|milliseconds| *milliseconds >= 0.0) {
        return Some((milliseconds * MILLISECOND as f64) as Nanos);
    }
    let text = field("retry-after")?;
    let Ok(seconds) = text.trim().parse::<f64>() else {
        let date = httpdate::HttpDate::from_str(text.trim()).ok()?;
        let sent = fields.field("date").and_then(|date| std::str::from_utf8(date).ok());
        let sent = sent.and_then(|date| httpdate::HttpDate::from_str(date.trim()).ok());
        // The difference of two times by one clock is right even if that clock is not.
        let now = sent.map_or_else(|| WallTime::now().unix_ns, unix_ns);
        return Some(unix_ns(date).saturating_sub(now));
    };
    // A time that is too long for a number is longer than any that is waited for.
    (seconds >= 0.0).then_some((seconds * SECOND as f64) as Nanos)
}

fn unix_ns(date: httpdate::HttpDate) -> Nanos {
    let since = SystemTime::from(date).duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| Nanos::try_from(since.as_nanos()).unwrap_or(Nanos::MAX))
}

/// Returns how long to wait before a retry, in ns: as long as the server asked, and up to a tenth
/// longer, because many requests may have been refused at once; without a request of the server,
/// times that grow with the number of earlier `tries`. Only refusals wait. `number` spreads the waits
/// of different requests.
pub(super) fn wait(kind: Kind, requested: Option<Nanos>, tries: u8, number: u64) -> Nanos {
    // The high bits of a product with a large odd number are well mixed.
    let spread = |span: Nanos| {
        let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        ((u128::from(span) * u128::from(mixed)) >> 32) as Nanos
    };
    match (kind, requested) {
        (_, Some(asked)) => asked.saturating_add(spread(asked / 10)),
        (Kind::Refused, None) => {
            let longest = (FIRST_WAIT << tries.min(16)).min(LONGEST_WAIT);
            longest / 2 + spread(longest / 2)
        }
        _ => 0,
    }
}

/// Times of a request that was sent again, in ns since the start of the run. It is not on the wire
/// between an attempt that failed and the next one. All are 0 if it was not sent again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryTimes {
    /// When the first attempt failed.
    pub first_failed: Nanos,
    /// When the last attempt before a retry failed.
    pub last_failed: Nanos,
    /// When it was last sent again; 0 if it still waited for that.
    pub last_sent: Nanos,
}

/// Requests that wait for their retry, and the retries of each sample.
pub(super) struct Retries {
    waiting: Mutex<Vec<(Nanos, Job, Responder)>>,
    /// Earliest time of a retry plus one, so that 0 means none.
    next: AtomicU64,
    /// Number of retries of each sample.
    counts: SampleTimes,
    /// Total wait of each sample for its retries, in ns.
    waits: SampleTimes,
    /// [`RetryTimes::first_failed`] of each sample.
    first_failed: SampleTimes,
    /// [`RetryTimes::last_failed`] of each sample.
    last_failed: SampleTimes,
    /// [`RetryTimes::last_sent`] of each sample.
    last_sent: SampleTimes,
}

impl Retries {
    pub(super) fn new() -> Self {
        Self {
            waiting: Mutex::default(),
            next: AtomicU64::new(0),
            counts: SampleTimes::new(),
            waits: SampleTimes::new(),
            first_failed: SampleTimes::new(),
            last_failed: SampleTimes::new(),
            last_sent: SampleTimes::new(),
        }
    }

    /// Lets the next retry of a run other than the last begin a new run.
    pub(super) fn expect_run(&self) {
        for times in
            [&self.counts, &self.waits, &self.first_failed, &self.last_failed, &self.last_sent]
        {
            times.expect_run();
        }
    }

    /// Records that an attempt failed at `at`, in ns since the start of the run, and that the next one
    /// waits for this span, in ns.
    fn note(&self, id: ResponseId, at: Nanos, span: Nanos) {
        self.counts.add(id, 1);
        self.waits.add(id, span);
        self.first_failed.stamp_first(id, at);
        self.last_failed.stamp(id, at);
    }

    /// Records that a sample is on the wire since `at`, in ns since the start of the run.
    #[inline]
    pub(super) fn note_sent(&self, id: ResponseId, at: Nanos) {
        if self.first_failed.time(id).is_some() {
            self.last_sent.stamp(id, at);
        }
    }

    /// Adds a request that is sent again at `due`, by the client's clock.
    pub(super) fn add(&self, due: Nanos, job: Job, responder: Responder) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push((due, job, responder));
        self.note_next(&waiting);
    }

    /// Returns when the next retry is due; `None` without any.
    pub(super) fn next(&self) -> Option<Nanos> {
        self.next.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Takes the requests that are due; those of a run that is over are dropped.
    pub(super) fn take_due(&self, now: Nanos) -> Vec<(Job, Responder)> {
        if self.next().is_none_or(|due| due > now) {
            return Vec::new();
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let due = waiting.extract_if(.., |(due, _, responder)| *due <= now || responder.is_over());
        let mut due: Vec<_> = due.filter(|(.., responder)| !responder.is_over()).collect();
        self.note_next(&waiting);
        due.sort_by_key(|(due, ..)| *due);
        due.into_iter().map(|(_, job, responder)| (job, responder)).collect()
    }

    fn note_next(&self, waiting: &[(Nanos, Job, Responder)]) {
        let next = waiting.iter().map(|(due, ..)| due.saturating_add(1)).min().unwrap_or(0);
        self.next.store(next, Ordering::Relaxed);
    }
}

/// An attempt of a request that brought no answer.
pub(super) struct FailedAttempt<'a> {
    pub trouble: &'a Trouble,
    /// Part of an answer was already reported and cannot be retracted.
    pub is_heard: bool,
    /// Time for which the server asks to wait, in ns.
    pub requested_wait: Option<Nanos>,
}

impl<'a> FailedAttempt<'a> {
    /// Returns an attempt of whose answer nothing was reported.
    pub(super) fn unheard(trouble: &'a Trouble) -> Self {
        Self { trouble, is_heard: false, requested_wait: None }
    }
}

impl Client {
    /// Returns how often the request of each of the first `samples` samples of a tenant was sent again
    /// in the last run.
    pub fn retries(&self, tenant: u8, samples: usize) -> Vec<u64> {
        self.shared.retries.counts.stamps(tenant, samples)
    }

    /// Returns how long each of the first `samples` samples of a tenant waited for its retries in the
    /// last run, in ns: as long as the server asked (`Retry-After`), or the client's own times.
    pub fn retry_waits(&self, tenant: u8, samples: usize) -> Vec<Nanos> {
        self.shared.retries.waits.stamps(tenant, samples)
    }

    /// Returns when each of the first `samples` samples of a tenant was not on the wire because of its
    /// retries in the last run; empty if none was sent again.
    pub fn retry_times(&self, tenant: u8, samples: usize) -> Vec<RetryTimes> {
        let retries = &self.shared.retries;
        let first = retries.first_failed.stamps(tenant, samples);
        if first.iter().all(|at| *at == 0) {
            return Vec::new();
        }
        let last = retries.last_failed.stamps(tenant, samples);
        let sent = retries.last_sent.stamps(tenant, samples);
        let times = first.into_iter().zip(last).zip(sent);
        let times = times.map(|((first_failed, last_failed), last_sent)| RetryTimes {
            first_failed,
            last_failed,
            last_sent,
        });
        times.collect()
    }
}

impl ClientCore {
    /// Takes the retries that are due, and reports as cancelled those that the client gives up instead.
    pub(super) fn due_retries(&self, now: Nanos) -> Vec<(Job, Responder)> {
        let mut due = self.retries.take_due(now);
        due.retain(|(job, responder)| {
            let is_given_up =
                self.given_up_at(*job, responder, now).is_some_and(|until| until <= now);
            if is_given_up {
                let trouble = self.cancelled();
                self.settle_failure(*job, responder, &FailedAttempt::unheard(&trouble), now);
            }
            !is_given_up
        });
        due
    }

    /// Returns the job of a request that the server did not process, as known since `at`, to be sent again
    /// on another connection. That is no failure, and needs no permission (RFC 9113, section 8.7). `None`
    /// if it happened too often.
    pub(super) fn resent(&self, job: Job, responder: &Responder, at: Nanos) -> Option<Job> {
        if job.resent >= MOST_RESENT || responder.is_over() {
            return None;
        }
        if responder.is_measured(job.id) {
            self.counters.repeated(Kind::Closed, 0);
        }
        self.retries.note(job.id, responder.time_of(&self.clock, at), 0);
        Some(Job { resent: job.resent + 1, ..job })
    }

    /// Settles a failed attempt: retries it later, or counts the trouble of the sample and reports
    /// its failure at `at` by the client's clock. Returns the job if it is to be retried at once.
    pub(super) fn settle_failure(
        &self,
        job: Job,
        responder: &Responder,
        failed: &FailedAttempt<'_>,
        at: Nanos,
    ) -> Option<Job> {
        let kind = failed.trouble.kind;
        let span = wait(kind, failed.requested_wait, job.tries, job.id.sequence());
        // A server that asks for more is as good as one that does not answer.
        let is_soon = failed.requested_wait.unwrap_or(span) <= self.wait_limit();
        let may_repeat =
            kind.may_pass() && is_soon && !failed.is_heard && job.tries < self.options.retries;
        if may_repeat && !responder.is_over() {
            return self.repeat(job, responder, kind, span, at);
        }
        self.report_failure(job, responder, failed, at);
        None
    }

    /// Sends a request again after `span`. Returns the job if that is at once.
    fn repeat(
        &self,
        job: Job,
        responder: &Responder,
        kind: Kind,
        span: Nanos,
        at: Nanos,
    ) -> Option<Job> {
        let now = self.clock.now();
        let due = now.saturating_add(span);
        // The client gives the request up instead of sending it again.
        if let Some(until) = self.given_up_at(job, responder, now).filter(|at| *at <= due) {
            self.retries.add(until, job, responder.clone());
            return None;
        }
        if responder.is_measured(job.id) {
            self.counters.repeated(kind, span);
        }
        // The next attempt may bring no answer.
        self.ledger.forget(job.id);
        self.retries.note(job.id, responder.time_of(&self.clock, at), span);
        let again = Job { tries: job.tries + 1, ..job };
        if span == 0 {
            return Some(again);
        }
        self.retries.add(due, again, responder.clone());
        None
    }

    /// Counts the trouble of a sample and reports its failure.
    fn report_failure(
        &self,
        job: Job,
        responder: &Responder,
        failed: &FailedAttempt<'_>,
        at: Nanos,
    ) {
        self.session_nodes.iter().for_each(|nodes| nodes.ended(job.node));
        let (kind, most) = (failed.trouble.kind, self.wait_limit());
        let mut words = self.hidden(&failed.trouble.words);
        if kind.may_pass()
            && self.options.retries > 0
            && let Some(asked) = failed.requested_wait.filter(|asked| *asked > most)
        {
            let [asked, most] = [asked, most].map(|ns| ns as f64 / SECOND as f64);
            words += &format!(
                " (not sent again: the server asks for a wait of {asked:.0} s, longer than \
                 timeout={most}s)"
            );
        }
        self.keep_text(job, Err(&words));
        if responder.is_measured(job.id) && kind != Kind::Cancelled {
            self.counters.failed(&Trouble::new(kind, words));
        }
        responder.fail_at(&[job.id], kind.failure(), responder.time_of(&self.clock, at));
    }

    /// Returns the longest wait that a server may ask for.
    fn wait_limit(&self) -> Nanos {
        self.options.time_limit.unwrap_or(Nanos::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requested(status: u16, value: &str) -> Option<Nanos> {
        let fields: http::HeaderMap =
            [("retry-after".parse().unwrap(), value.parse().unwrap())].into_iter().collect();
        requested_wait(status, &fields)
    }

    #[test]
    fn seconds_of_a_refusal_are_read() {
        assert_eq!(requested(429, "1"), Some(SECOND));
        assert_eq!(requested(503, " 2 "), Some(2 * SECOND));
        assert_eq!(requested(429, "0.5"), Some(SECOND / 2));
        assert_eq!(requested(429, "99999999999999999999999"), Some(Nanos::MAX));
        for odd in ["-1", "nan", "Wed, 21 Oct 2026", ""] {
            assert_eq!(requested(429, odd), None, "{odd}");
        }
        assert_eq!(requested(500, "1"), None);
        // A date in the past permits a retry at once.
        assert_eq!(requested(503, "Wed, 21 Oct 2015 07:28:00 GMT"), Some(0));
        let dated: http::HeaderMap = [
            ("date".parse().unwrap(), "Wed, 21 Oct 2015 07:28:00 GMT".parse().unwrap()),
            ("retry-after".parse().unwrap(), "Wed, 21 Oct 2015 07:28:03 GMT".parse().unwrap()),
        ]
        .into_iter()
        .collect();
        assert_eq!(requested_wait(503, &dated), Some(3 * SECOND));
        assert_eq!(requested_wait(429, &http::HeaderMap::new()), None);
        for (milliseconds, expected) in [("250", SECOND / 4), ("soon", SECOND), ("-1", SECOND)] {
            let both: http::HeaderMap = [
                ("retry-after-ms".parse().unwrap(), milliseconds.parse().unwrap()),
                ("retry-after".parse().unwrap(), "1".parse().unwrap()),
            ]
            .into_iter()
            .collect();
            assert_eq!(requested_wait(429, &both), Some(expected), "{milliseconds}");
        }
    }

    #[test]
    fn a_wait_is_at_least_what_the_server_asked_for() {
        for number in 0..1_000 {
            let asked = wait(Kind::Refused, Some(SECOND), 3, number);
            assert!((SECOND..=SECOND + SECOND / 10).contains(&asked));
            for tries in 0..=255 {
                let own = wait(Kind::Refused, None, tries, number);
                let longest = (FIRST_WAIT << tries.min(16)).min(LONGEST_WAIT);
                assert!((longest / 2..=longest).contains(&own));
            }
            assert_eq!(wait(Kind::Closed, None, 0, number), 0);
        }
        let waits: std::collections::BTreeSet<_> =
            (0..100).map(|number| wait(Kind::Refused, None, 0, number) / MILLISECOND).collect();
        assert!(waits.len() > 30, "{waits:?}");
    }
}
