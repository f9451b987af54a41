//! An HTTP/2 connection, as seen by its senders.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use dyno_loadgen::clock::Nanos;
use dyno_loadgen::drive::real::Responder;
use dyno_loadgen::sut::ResponseId;
use h2::client::SendRequest;

use super::super::ClientCore;
use super::super::statistics::ThreadCounters;
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

    /// Returns whether the server permits no stream at all.
    pub(super) fn permits_none(&self) -> bool {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.current_max_send_streams() == 0
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
    departing: Mutex<Vec<(ResponseId, Responder)>>,
    /// Start of the last write to the socket, by the client's clock.
    written_at: AtomicU64,
}

impl Departures {
    fn departing(&self) -> MutexGuard<'_, Vec<(ResponseId, Responder)>> {
        self.departing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note(&self, id: ResponseId, responder: Responder) {
        self.departing().push((id, responder));
    }

    /// Records that a write to the socket begins.
    pub(super) fn writes(&self, now: Nanos) {
        self.written_at.store(now, Relaxed);
    }

    /// Withdraws the last write, which wrote nothing.
    pub(super) fn withdraw(&self) {
        self.departing().pop();
    }

    /// Records that all requests were sent, the last of them with the last write.
    pub(super) fn departed(&self, shared: &ClientCore, counters: &ThreadCounters) {
        let mut departing = self.departing();
        let Some((_, first)) = departing.first() else { return };
        let at = first.time_of(&shared.clock, self.written_at.load(Relaxed));
        for (id, _) in &*departing {
            shared.accepted.stamp_first(*id, at);
            if shared.options.retries > 0 {
                shared.retries.note_sent(*id, at);
            }
        }
        let counted = departing.iter().filter(|(id, responder)| responder.is_measured(*id));
        counters.sent.fetch_add(counted.count() as u64, Relaxed);
        departing.clear();
    }
}
