//! Times without any connection, which the client does not cause.

use dyno_loadgen::clock::Nanos;

/// The last time in which a lane had no connection, by the client's clock.
#[derive(Debug, Default)]
pub(super) struct Outage {
    begun: Nanos,
    /// `None` while it lasts.
    ended: Option<Nanos>,
}

impl Outage {
    /// Records that the last connection has ended.
    pub(super) fn begin(&mut self, now: Nanos) {
        *self = Self { begun: now, ended: None };
    }

    /// Records that a connection is established.
    pub(super) fn end(&mut self, now: Nanos) {
        self.ended.get_or_insert(now);
    }

    /// Returns when it ended; 0 while it lasts.
    pub(super) fn ended(&self) -> Nanos {
        self.ended.unwrap_or(0)
    }

    /// Returns the part of a wait since `since` in which there was no connection, in ns. The wait ends now,
    /// with a connection.
    pub(super) fn part_of_wait(&self, since: Nanos) -> Nanos {
        self.ended.map_or(0, |ended| ended.saturating_sub(self.begun.max(since)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_without_a_connection_is_no_delay_of_the_client() {
        let mut outage = Outage::default();
        outage.end(5);
        assert_eq!((outage.part_of_wait(2), outage.part_of_wait(9)), (3, 0));
        outage.begin(20);
        assert_eq!(outage.ended(), 0);
        outage.end(30);
        // A second connection changes nothing.
        outage.end(40);
        assert_eq!((outage.part_of_wait(12), outage.part_of_wait(26)), (10, 4));
        assert_eq!((outage.part_of_wait(33), outage.ended()), (0, 30));
    }
}
