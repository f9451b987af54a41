//! Clocks: the only module that reads one.
//!
//! ```
//! use dyno_loadgen::clock::{Clock, SECOND, WallTime};
//!
//! let clock = Clock::start();
//! let (first, second) = (clock.now(), clock.now());
//! assert!(first <= second);
//! let date = WallTime { unix_ns: 86_400 * SECOND }.utc();
//! assert_eq!((date.year, date.month, date.day), (1970, 1, 2));
//! ```

use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds: a span, or a time since the origin of a run or log.
pub type Nanos = u64;

/// Nanoseconds in one second.
pub const SECOND: Nanos = 1_000_000_000;

/// Nanoseconds in one millisecond.
pub const MILLISECOND: Nanos = 1_000_000;

/// A monotonic clock with an origin of its own (`CLOCK_MONOTONIC` on Unix).
///
/// The time stamp counter is not read directly: the vDSO is cheap enough, and the
/// kernel's clock is steered and consistent over cores.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// Origin, by the system's monotonic clock.
    origin: Nanos,
}

impl Clock {
    /// Returns a clock whose origin is now.
    pub fn start() -> Self {
        Self { origin: monotonic() }
    }

    /// Returns the nanoseconds since the origin; 0 before it.
    #[inline]
    pub fn now(&self) -> Nanos {
        monotonic().saturating_sub(self.origin)
    }

    /// Returns what this clock shows when another clock of this machine shows `at`; 0 before the
    /// origin.
    pub fn when(&self, other: &Self, at: Nanos) -> Nanos {
        (other.origin + at).saturating_sub(self.origin)
    }

    /// Returns this clock with its origin moved `later` nanoseconds forward.
    #[must_use]
    pub fn shifted(&self, later: Nanos) -> Self {
        Self { origin: self.origin + later }
    }
}

/// Returns the system's monotonic time.
///
/// [`std::time::Instant`] is avoided because its arithmetic adds a fifth to the cost of reading.
#[cfg(unix)]
#[inline]
fn monotonic() -> Nanos {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    // Both are positive: the clock starts at 0 when the machine does.
    time.tv_sec.cast_unsigned() * SECOND + time.tv_nsec.cast_unsigned()
}

#[cfg(not(unix))]
#[expect(clippy::disallowed_methods, reason = "this module reads the clocks")]
#[expect(clippy::cast_possible_truncation, reason = "2^64 ns are 584 years")]
fn monotonic() -> Nanos {
    static ORIGIN: std::sync::LazyLock<std::time::Instant> =
        std::sync::LazyLock::new(std::time::Instant::now);
    let origin = *ORIGIN;
    std::time::Instant::now().duration_since(origin).as_nanos() as Nanos
}

/// Wall-clock time, for log headers, power markers and dates in requests only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WallTime {
    /// Nanoseconds since 1970-01-01 00:00 UTC.
    pub unix_ns: u64,
}

impl WallTime {
    /// Returns the wall-clock time now.
    #[expect(clippy::disallowed_methods, reason = "this module reads the clocks")]
    #[expect(clippy::cast_possible_truncation, reason = "2^64 ns after 1970 is the year 2554")]
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { unix_ns: since.as_nanos() as u64 }
    }

    /// Returns the calendar date and time of day in UTC.
    ///
    /// Source: the civil-from-days algorithm for the proleptic Gregorian
    /// calendar, eras of 400 years counted from 0000-03-01.
    pub fn utc(self) -> CivilTime {
        let seconds = self.unix_ns / SECOND;
        let days = seconds / 86_400 + 719_468;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        CivilTime {
            year: year_of_era + era * 400 + u64::from(month <= 2),
            month,
            day: day_of_year - (153 * shifted_month + 2) / 5 + 1,
            hour: seconds / 3_600 % 24,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            millisecond: self.unix_ns / MILLISECOND % 1_000,
        }
    }
}

/// A date and a time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub struct CivilTime {
    pub year: u64,
    pub month: u64,
    pub day: u64,
    pub hour: u64,
    pub minute: u64,
    pub second: u64,
    pub millisecond: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn civil_time_of_known_instants() {
        let at = |unix_s: u64| WallTime { unix_ns: unix_s * SECOND }.utc();
        let date = |c: CivilTime| (c.year, c.month, c.day, c.hour, c.minute, c.second);
        assert_eq!(date(at(0)), (1970, 1, 1, 0, 0, 0));
        assert_eq!(date(at(951_826_154)), (2000, 2, 29, 12, 9, 14));
        assert_eq!(date(at(1_795_223_775)), (2026, 11, 21, 1, 16, 15));
    }
}
