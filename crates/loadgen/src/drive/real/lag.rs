//! The client's own part of the lateness of queries that are due at set times.

use crate::clock::Nanos;

/// Splits the lateness of each query into the system's part and the client's.
///
/// The system causes the time that its own `issue` call takes: until the call returns, no further
/// query can be issued. The client causes all other lateness, and that of the whole backlog that
/// follows: after a pause of the client, the queries that were due in the pause are issued back to
/// back, each of them late because of the client.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ClientLag {
    /// When the system last returned from taking a query.
    free_at: Nanos,
    /// The part of the present backlog that the client caused, ns.
    backlog: Nanos,
}

/// Minimum delay of the client that counts as a backlog, in ns. Without it, the usual fractions of
/// a microsecond would add up to milliseconds behind a system that is overloaded for long.
const LEAST_PAUSE: Nanos = 50_000;

impl ClientLag {
    /// Returns the client's part of the lateness of a query that was due at `due` and is issued
    /// at `now`, in ns.
    #[inline]
    pub(super) fn of_query(&self, due: Nanos, now: Nanos) -> Nanos {
        now.saturating_sub(due.max(self.free_at)) + self.inherited(due)
    }

    /// Records that a query which was due at `due` was issued at `now`.
    #[inline]
    pub(super) fn issued(&mut self, due: Nanos, now: Nanos) {
        let own = now.saturating_sub(due.max(self.free_at));
        self.backlog = self.inherited(due) + if own > LEAST_PAUSE { own } else { 0 };
    }

    /// Records that the system has returned from taking a query.
    #[inline]
    pub(super) fn returned(&mut self, now: Nanos) {
        self.free_at = now;
    }

    /// Returns the client's backlog, limited to how late a query due at `due` was when the system
    /// returned.
    #[inline]
    fn inherited(&self, due: Nanos) -> Nanos {
        self.backlog.min(self.free_at.saturating_sub(due))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    /// Plays queries `(due, issued, time that the system takes)` and returns each one's lag.
    fn lags(queries: &[(Nanos, Nanos, Nanos)]) -> Vec<Nanos> {
        let mut lag = ClientLag::default();
        let play = |&(due, issued, takes): &(Nanos, Nanos, Nanos)| {
            let found = lag.of_query(due, issued);
            lag.issued(due, issued);
            lag.returned(issued + takes);
            found
        };
        queries.iter().map(play).collect()
    }

    #[test]
    fn every_query_of_a_backlog_that_the_client_caused_is_charged_to_it() {
        // One query a millisecond, and the client is paused from 1 to 5 ms; each call takes 1 us.
        let us = 1_000;
        let late = [
            (0, 0, us),
            (MS, 5 * MS, us),
            (2 * MS, 5 * MS + us, us),
            (3 * MS, 5 * MS + 2 * us, us),
            (4 * MS, 5 * MS + 3 * us, us),
            (6 * MS, 6 * MS, us),
            (7 * MS, 7 * MS, us),
        ];
        // Within the microseconds that the system took for the ones before.
        let found: Vec<Nanos> = lags(&late).iter().map(|lag| lag.div_ceil(MS) * MS).collect();
        assert_eq!(found, [0, 4 * MS, 4 * MS, 3 * MS, 2 * MS, 0, 0]);
    }

    #[test]
    fn what_the_system_blocks_is_not_the_clients() {
        // The system takes 3 ms for each query, and one is due each millisecond.
        let slow = [(0, 0, 3 * MS), (MS, 3 * MS, 3 * MS), (2 * MS, 6 * MS, 3 * MS)];
        assert_eq!(lags(&slow), [0, 0, 0]);
        // A pause of 2 ms on top of that stays with the queries behind it, and no more.
        let paused = [
            (0, 0, 3 * MS),
            (MS, 5 * MS, 3 * MS),
            (2 * MS, 8 * MS, 3 * MS),
            (10 * MS, 11 * MS, 3 * MS),
        ];
        assert_eq!(lags(&paused), [0, 2 * MS, 2 * MS, MS]);
    }

    #[test]
    fn usual_delays_do_not_add_up_behind_an_overloaded_system() {
        let takes = 10_000;
        let queries: Vec<_> = (0..10_000).map(|q| (q, q * (takes + 100), takes)).collect();
        assert_eq!(lags(&queries).iter().max(), Some(&100));
    }
}
