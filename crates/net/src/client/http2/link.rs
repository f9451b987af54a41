//! An HTTP/2 connection, as seen by its senders.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use dyno_loadgen::clock::Nanos;
use dyno_loadgen::drive::real::Responder;
use h2::client::SendRequest;

use super::super::statistics::ThreadCounters;
use super::super::{ClientCore, Job};
use super::arrivals::Arrivals;

/// An established connection. Only its lane's thread changes it.
pub(super) struct Link {
    pub node: usize,
    pub requests: Mutex<SendRequest<Bytes>>,
    pub departures: Arc<Departures>,
    pub arrivals: Arc<Arrivals>,
    /// Open streams.
    pub streams: AtomicUsize,
    /// Answers received.
    pub answers: AtomicU64,
    /// Bytes of the bodies of requests, without those that had no answer.
    pub body_bytes: AtomicU64,
    /// Whether any stream was opened.
    pub is_asked: AtomicBool,
    pub is_closed: AtomicBool,
    /// Whether it is in the list of connections with room.
    pub is_listed: AtomicBool,
}

impl Link {
    /// Returns whether one more stream may be opened. Records the server's limit if it is below the
    /// client's and reached.
    pub(super) fn has_room(&self, shared: &ClientCore) -> bool {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let (permitted, most) = (requests.current_max_send_streams(), shared.options.streams);
        if self.streams.load(Relaxed) >= permitted.min(most) {
            if permitted < most {
                shared.counters.streams_limited(permitted as u64);
            }
            return false;
        }
        // No task waits for a place here: the code that closes a stream checks again.
        match requests.poll_ready(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(())) => !self.is_closed.load(Relaxed),
            Poll::Ready(Err(_)) => {
                self.is_closed.store(true, Relaxed);
                false
            }
            Poll::Pending => false,
        }
    }

    /// Returns how many streams the server permits.
    pub(super) fn permitted(&self) -> usize {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.current_max_send_streams()
    }

    /// Returns whether the connection takes no further stream although open ones go on.
    pub(super) fn is_ending(&self) -> bool {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let polled = requests.poll_ready(&mut Context::from_waker(Waker::noop()));
        matches!(polled, Poll::Ready(Err(_)))
    }
}

/// Requests that were handed to a connection and may not have been sent.
#[derive(Default)]
pub(super) struct Departures {
    departing: Mutex<Vec<Departure>>,
    /// Start of the last write to the socket, by the client's clock.
    written_at: AtomicU64,
}

/// A request that may not have been sent.
struct Departure {
    job: Job,
    responder: Responder,
    /// How long it waited for any connection to be established, in ns.
    connecting: Nanos,
    /// Start of the first write after it was handed over for which the socket had no room, by the
    /// client's clock. That the socket takes the rest later is no delay of the client.
    blocked_at: Option<Nanos>,
}

impl Departures {
    fn departing(&self) -> MutexGuard<'_, Vec<Departure>> {
        self.departing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a request was handed over, which waited for so long for any connection to be
    /// established, in ns.
    pub(super) fn note(&self, job: Job, responder: Responder, connecting: Nanos) {
        self.departing().push(Departure { job, responder, connecting, blocked_at: None });
    }

    /// Records that a write to the socket begins.
    pub(super) fn writes(&self, now: Nanos) {
        self.written_at.store(now, Relaxed);
    }

    /// Records that the socket has no room for a write that began at `at`.
    pub(super) fn is_blocked(&self, at: Nanos) {
        for departure in &mut *self.departing() {
            departure.blocked_at.get_or_insert(at);
        }
    }

    /// Withdraws the last write, which wrote nothing.
    pub(super) fn withdraw(&self) {
        self.departing().pop();
    }

    /// Records that all requests were sent, the last of them with the last write.
    pub(super) fn departed(&self, shared: &ClientCore, counters: &ThreadCounters) {
        let mut departing = self.departing();
        if departing.is_empty() {
            return;
        }
        let written_at = self.written_at.load(Relaxed);
        for Departure { job, responder, connecting, blocked_at } in &*departing {
            let at = responder.time_of(&shared.clock, blocked_at.unwrap_or(written_at));
            // The wait for a connection is no delay of the client.
            shared.accepted.stamp_first(job.id, at.saturating_sub(*connecting));
            if job.tries > 0 || job.resent > 0 {
                shared.retries.note_sent(job.id, at);
            }
        }
        let counted = departing.iter().filter(|one| one.responder.is_measured(one.job.id));
        counters.sent.fetch_add(counted.count() as u64, Relaxed);
        departing.clear();
    }
}
