//! Waiting times between failed connection attempts, and the messages about them.

use std::io;

use dyno_loadgen::clock::{MILLISECOND, Nanos, SECOND};

use crate::endpoint::Endpoint;
use crate::trouble::{Kind, Trouble};

/// Waits between attempts grow from the first to the last of these.
const FIRST_WAIT: Nanos = 10 * MILLISECOND;
pub(super) const LONGEST_WAIT: Nanos = 100 * MILLISECOND;
/// Longest wait if other connections to the node are open: it works, and takes no further ones.
const LONGEST_WAIT_OF_USED: Nanos = SECOND;
/// Time that samples wait for an unreachable server, which may be restarting.
const PATIENCE: Nanos = 500 * MILLISECOND;

/// State of one thread's connections to a node.
#[derive(Debug, Default)]
pub(super) struct DialState {
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

    /// Records a failed attempt. `is_used`: other connections to the node are open.
    pub(super) fn failed(&mut self, now: Nanos, is_used: bool) {
        self.failures += 1;
        self.wait(now, is_used);
    }

    /// Records a connection that ended at once and without a request. `is_used`: others are open.
    pub(super) fn was_fruitless(&mut self, now: Nanos, is_used: bool) {
        self.fruitless += 1;
        self.wait(now, is_used);
    }

    fn wait(&mut self, now: Nanos, is_used: bool) {
        self.failing_since.get_or_insert(now);
        let doublings = (self.failures + self.fruitless - 1).min(10);
        let longest = if is_used { LONGEST_WAIT_OF_USED } else { LONGEST_WAIT };
        self.next_at = now + (FIRST_WAIT << doublings).min(longest);
    }

    pub(super) fn connected(&mut self) {
        self.failures = 0;
        self.recover();
    }

    /// Records an answer. Only the first one of a connection shows that the node takes further
    /// connections; any shows that samples may wait for it.
    pub(super) fn answered(&mut self, is_first: bool, now: Nanos) {
        if is_first && self.fruitless > 0 {
            self.fruitless = 0;
            self.recover();
        }
        self.failing_since = self.failing_since.map(|_| now);
    }

    fn recover(&mut self) {
        if self.failures + self.fruitless == 0 {
            self.failing_since = None;
        }
    }
}

/// End of the message about a connection for which the process, or the whole system, has no descriptor left.
pub const NO_DESCRIPTOR: &str = "; the client cannot open more files (ulimit -n)";

/// Returns the trouble of a connection that could not be made.
pub(super) fn not_reached(endpoint: &Endpoint, error: &io::Error) -> Trouble {
    let hint = match error.kind() {
        io::ErrorKind::ConnectionRefused => "; is the server running there?",
        _ if lacks_descriptor(error) => NO_DESCRIPTOR,
        _ => "",
    };
    Trouble::new(Kind::Connect, format!("{} cannot be reached: {error}{hint}", endpoint.route()))
}

/// Returns whether the process, or the whole system, has no descriptor left.
#[cfg(unix)]
pub(super) fn lacks_descriptor(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

#[cfg(not(unix))]
pub(super) fn lacks_descriptor(_error: &io::Error) -> bool {
    false
}

/// Returns the trouble of a TLS error; `None` for other errors.
pub(super) fn tls_error(endpoint: &Endpoint, error: &io::Error) -> Option<Trouble> {
    let inner = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    Some(crate::tls::trouble(endpoint, inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the waits after each of so many connections that a node closed at once, in ms.
    fn waits(dialed: &mut DialState, is_used: bool, count: usize) -> Vec<Nanos> {
        let wait = |dialed: &mut DialState, now: Nanos| {
            dialed.connected();
            dialed.was_fruitless(now, is_used);
            assert!(!dialed.may_dial(dialed.next_at - 1) && dialed.may_dial(dialed.next_at));
            dialed.next_at - now
        };
        let mut now = 0;
        let waits = (0..count).map(|_| {
            let span = wait(dialed, now);
            now += span;
            span / MILLISECOND
        });
        waits.collect()
    }

    #[cfg(unix)]
    #[test]
    fn a_connection_without_a_descriptor_names_the_limit_of_the_client() {
        let endpoint: Endpoint = "http://h".parse().unwrap();
        let words = |error: rustix::io::Errno| not_reached(&endpoint, &error.into()).words;
        assert!(words(rustix::io::Errno::MFILE).ends_with(NO_DESCRIPTOR));
        assert!(!words(rustix::io::Errno::CONNREFUSED).contains(NO_DESCRIPTOR));
    }

    #[test]
    fn answers_of_other_connections_do_not_end_the_waits_of_a_node_that_takes_no_more() {
        let mut dialed = DialState::default();
        assert_eq!(waits(&mut dialed, true, 9), [10, 20, 40, 80, 160, 320, 640, 1_000, 1_000]);
        dialed.answered(false, 5 * SECOND);
        assert_eq!(waits(&mut dialed, true, 1), [1_000]);
        assert!(!dialed.is_hopeless(5 * SECOND + PATIENCE - 1), "it has just answered");
        assert!(dialed.is_hopeless(5 * SECOND + PATIENCE));
        dialed.answered(true, 6 * SECOND);
        assert!(!dialed.is_failing() && dialed.may_dial(6 * SECOND));
        assert_eq!(waits(&mut dialed, false, 6), [10, 20, 40, 80, 100, 100]);
    }
}
