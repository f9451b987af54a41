//! How much another machine's clock is ahead, and how sure that is.
//!
//! As NTP does (RFC 5905, section 8): of several round trips the one with the least
//! delay says most. Of a round trip that takes `d`, the answer was written at any
//! time within it, so that the offset from its middle is wrong by `d / 2` at most.

use dyno_loadgen::clock::Nanos;

/// One round trip, by two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrip {
    /// When it was asked, by the asking clock.
    pub asked: Nanos,
    /// What the other clock showed.
    pub told: Nanos,
    /// When the answer came, by the asking clock.
    pub heard: Nanos,
}

/// How much the other clock is ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offset {
    /// Its time less that of the asking clock, ns.
    pub ahead: i64,
    /// The most by which that is wrong, ns.
    pub error: Nanos,
}

impl RoundTrip {
    /// What it alone says.
    #[must_use]
    pub fn offset(self) -> Offset {
        let delay = self.heard.saturating_sub(self.asked);
        let middle = self.asked + delay / 2;
        let ahead = i128::from(self.told) - i128::from(middle);
        let ahead = i64::try_from(ahead).unwrap_or(if ahead < 0 { i64::MIN } else { i64::MAX });
        Offset { ahead, error: delay.div_ceil(2) }
    }
}

/// The last round trips with one peer.
#[derive(Debug, Clone, Default)]
pub struct Offsets {
    recent: std::collections::VecDeque<RoundTrip>,
}

/// Round trips that are looked at. More would mix in how the clocks drift.
const RECENT: usize = 16;

impl Offsets {
    /// Takes in one more.
    pub fn add(&mut self, trip: RoundTrip) {
        self.recent.truncate(RECENT - 1);
        self.recent.push_front(trip);
    }

    /// How many are known.
    #[must_use]
    pub fn count(&self) -> usize {
        self.recent.len()
    }

    /// That of the shortest recent one; `None` if there was none.
    #[must_use]
    pub fn best(&self) -> Option<Offset> {
        self.recent.iter().map(|trip| trip.offset()).min_by_key(|offset| offset.error)
    }
}

impl Offset {
    /// What the other clock shows at `at` of the asking one; 0 before its origin.
    #[must_use]
    pub fn there(self, at: Nanos) -> Nanos {
        at.saturating_add_signed(self.ahead)
    }

    /// The most by which times of a run are wrong against those of other workers,
    /// if this was known at its start and `later` at its end.
    #[must_use]
    pub fn error_until(self, later: Self) -> Nanos {
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
                let told = (now + there).checked_add_signed(truth).unwrap();
                offsets.add(RoundTrip { asked: now, told, heard: now + there + back });
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
        offsets.add(RoundTrip { asked: 1_000, told: 9_000, heard: 5_000 });
        offsets.add(RoundTrip { asked: 10_000, told: 15_010, heard: 10_020 });
        offsets.add(RoundTrip { asked: 20_000, told: 25_500, heard: 21_000 });
        assert_eq!(offsets.best(), Some(Offset { ahead: 5_000, error: 10 }));
        let later = Offset { ahead: 5_300, error: 40 };
        assert_eq!(offsets.best().unwrap().error_until(later), 350);
    }
}
