//! Waiting times between failed connection attempts, and the messages about them.

use std::io;

use dyno_loadgen::clock::{MILLISECOND, Nanos};

use crate::endpoint::Endpoint;
use crate::trouble::{Kind, Trouble};

/// Waits between attempts grow from the first to the last of these.
const FIRST_WAIT: Nanos = 10 * MILLISECOND;
pub(super) const LONGEST_WAIT: Nanos = 100 * MILLISECOND;
/// Time that samples wait for an unreachable server, which may be restarting.
const PATIENCE: Nanos = 500 * MILLISECOND;

/// State of one thread's connections to a node.
#[derive(Debug, Default)]
pub(super) struct DialState {
    /// Address that was reached last; the others are tried after it.
    pub first_address: usize,
    /// Consecutive attempts that made no connection.
    failures: u32,
    /// Consecutive connections that ended at once and without a request.
    fruitless: u32,
    failing_since: Option<Nanos>,
    next_at: Nanos,
    /// Connection attempts in progress.
    pub under_way: usize,
}

impl DialState {
    /// Returns whether a connection may be tried now; a failing node gets one attempt at a time.
    pub(super) fn may_dial(&self, now: Nanos) -> bool {
        !self.is_failing() || (self.under_way == 0 && now >= self.next_at)
    }

    pub(super) fn is_failing(&self) -> bool {
        self.failing_since.is_some()
    }

    /// Returns whether the node has failed for so long that samples need not wait for it.
    pub(super) fn is_hopeless(&self, now: Nanos) -> bool {
        self.failing_since.is_some_and(|since| now - since >= PATIENCE)
    }

    pub(super) fn failed(&mut self, now: Nanos) {
        self.failures += 1;
        self.wait(now);
    }

    pub(super) fn was_fruitless(&mut self, now: Nanos) {
        self.fruitless += 1;
        self.wait(now);
    }

    fn wait(&mut self, now: Nanos) {
        self.failing_since.get_or_insert(now);
        let doublings = (self.failures + self.fruitless - 1).min(10);
        self.next_at = now + (FIRST_WAIT << doublings).min(LONGEST_WAIT);
    }

    pub(super) fn connected(&mut self) {
        self.failures = 0;
        self.recover();
    }

    pub(super) fn answered(&mut self) {
        if self.fruitless > 0 {
            self.fruitless = 0;
            self.recover();
        }
    }

    fn recover(&mut self) {
        if self.failures + self.fruitless == 0 {
            self.failing_since = None;
        }
    }
}

/// Returns the trouble of a connection that could not be made.
pub(super) fn not_reached(endpoint: &Endpoint, error: &io::Error) -> Trouble {
    let hint = match error.kind() {
        io::ErrorKind::ConnectionRefused => "; is the server running there?",
        _ => "",
    };
    Trouble::new(Kind::Connect, format!("{} cannot be reached: {error}{hint}", endpoint.route()))
}

/// Returns the trouble of a TLS error; `None` for other errors.
pub(super) fn tls_error(endpoint: &Endpoint, error: &io::Error) -> Option<Trouble> {
    let inner = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    Some(crate::tls::trouble(endpoint, inner))
}
