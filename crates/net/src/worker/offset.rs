//! Estimates of the offset of another machine's clock.
//!
//! As in NTP (RFC 5905, section 8), the round trip with the least delay gives the best estimate. In
//! a round trip of duration `d`, the answer was written at any time within it, so the offset from
//! its middle is wrong by at most `d / 2`.

use dyno_loadgen::clock::Nanos;

/// One round trip, by two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrip {
    /// Time of the request, by the requesting clock.
    pub sent: Nanos,
    /// Time of the other clock.
    pub remote: Nanos,
    /// Time of the answer, by the requesting clock.
    pub received: Nanos,
}

/// Offset of the other clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offset {
    /// Its time minus that of the requesting clock, in ns.
    pub ahead: i64,
    /// Maximum error of that offset, in ns.
    pub error: Nanos,
}

impl RoundTrip {
    /// Returns the offset estimated from this round trip.
    pub fn offset(self) -> Offset {
        let delay = self.received.saturating_sub(self.sent);
        let middle = self.sent + delay / 2;
        let ahead = i128::from(self.remote) - i128::from(middle);
        let ahead = i64::try_from(ahead).unwrap_or(if ahead < 0 { i64::MIN } else { i64::MAX });
        Offset { ahead, error: delay.div_ceil(2) }
    }
}

/// The last round trips with one peer.
#[derive(Debug, Clone, Default)]
pub struct Offsets {
    recent: std::collections::VecDeque<RoundTrip>,
}

/// Number of round trips considered. More would include clock drift.
const RECENT: usize = 16;

impl Offsets {
    /// Adds a round trip.
    pub fn add(&mut self, trip: RoundTrip) {
        self.recent.truncate(RECENT - 1);
        self.recent.push_front(trip);
    }

    /// Returns the number of known round trips.
    pub fn count(&self) -> usize {
        self.recent.len()
    }

    /// Returns the offset from the shortest recent round trip; `None` without any.
    pub fn best(&self) -> Option<Offset> {
        self.recent.iter().map(|trip| trip.offset()).min_by_key(|offset| offset.error)
    }
}

impl Offset {
    /// Returns the time of the other clock at `at` of the requesting one; 0 before its origin.
    pub fn there(self, at: Nanos) -> Nanos {
        at.saturating_add_signed(self.ahead)
    }

    /// Returns the maximum error of times of a run relative to other workers, if this was known at
    /// its start and `later` at its end.
    pub(crate) fn error_until(self, later: Self) -> Nanos {
        self.error + self.ahead.abs_diff(later.ahead) + later.error
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_true_offset_is_within_the_bound(
            truth in -1_000_000_000_000_i64..1_000_000_000_000,
            trips in prop::collection::vec((0_u64..5_000_000, 0_u64..5_000_000), 1..40),
        ) {
            let mut offsets = Offsets::default();
            let mut now = 2_000_000_000_000_u64;
            for (there, back) in trips {
                let remote = (now + there).checked_add_signed(truth).unwrap();
                offsets.add(RoundTrip { sent: now, remote, received: now + there + back });
                now += 10_000_000;
                let best = offsets.best().unwrap();
                prop_assert!(best.ahead.abs_diff(truth) <= best.error);
                prop_assert_eq!(best.there(now), now.checked_add_signed(best.ahead).unwrap());
            }
        }
    }

    #[test]
    fn the_shortest_round_trip_counts() {
        let mut offsets = Offsets::default();
        assert_eq!(offsets.best(), None);
        offsets.add(RoundTrip { sent: 1_000, remote: 9_000, received: 5_000 });
        offsets.add(RoundTrip { sent: 10_000, remote: 15_010, received: 10_020 });
        offsets.add(RoundTrip { sent: 20_000, remote: 25_500, received: 21_000 });
        assert_eq!(offsets.best(), Some(Offset { ahead: 5_000, error: 10 }));
        let later = Offset { ahead: 5_300, error: 40 };
        assert_eq!(offsets.best().unwrap().error_until(later), 350);
    }
}
