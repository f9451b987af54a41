//! Timestamps of the load generator and PTDaemon: `MM-DD-YYYY HH:MM:SS.fraction`.

/// Microseconds since 1970, treating the written time as UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(i64);

impl Stamp {
    /// Parses a complete text.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (date, time) = text.trim().split_once(' ')?;
        let [month, day, year] = numbers(date, '-')?;
        let (whole, fraction) = time.split_once('.')?;
        let [hour, minute, second] = numbers(whole, ':')?;
        let fits = (1..=12).contains(&month)
            && (1..=days_of(month, year)).contains(&day)
            && (1..=9999).contains(&year)
            && hour < 24
            && minute < 60
            && second < 60;
        if !fits || !(1..=6).contains(&fraction.len()) {
            return None;
        }
        let digits = digits(fraction)?;
        let scale = 10_i64.pow(6 - u32::try_from(fraction.len()).ok()?);
        let seconds =
            days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
        Some(Self(seconds * 1_000_000 + digits * scale))
    }

    /// Parses the timestamp at the start of a line of PTDaemon's log; returns it and the rest.
    pub(crate) fn leading(line: &str) -> Option<(Self, &str)> {
        const LENGTH: usize = "MM-DD-YYYY HH:MM:SS.mmm".len();
        let (stamp, rest) = (line.get(..LENGTH)?, line.get(LENGTH..)?);
        Some((Self::parse(stamp)?, rest))
    }

    /// Returns the seconds since 1970.
    pub(crate) fn seconds(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Returns the seconds since an earlier timestamp.
    pub(crate) fn seconds_since(self, earlier: Self) -> f64 {
        (self.0 - earlier.0) as f64 / 1e6
    }

    /// Adds seconds, which may be negative.
    pub(crate) fn shifted(self, seconds: i64) -> Self {
        Self(self.0.saturating_add(seconds.saturating_mul(1_000_000)))
    }

    /// Adds milliseconds, which may be negative.
    pub(crate) fn shifted_ms(self, milliseconds: i64) -> Self {
        Self(self.0.saturating_add(milliseconds.saturating_mul(1000)))
    }
}

fn numbers(text: &str, between: char) -> Option<[i64; 3]> {
    let mut parts = text.split(between).map(digits);
    let all = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(all)
}

fn digits(text: &str) -> Option<i64> {
    let plain = (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_of(month: i64, year: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let before = year - 1;
    let years = before * 365 + before / 4 - before / 100 + before / 400;
    let months: i64 = (1..month).map(|month| days_of(month, year)).sum();
    // Days from 1 January of year 1 to 1 January 1970.
    years + months + day - 1 - 719_162
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_seconds_since_1970() {
        // From `date -u -d '...' +%s.%N`.
        for (text, seconds) in [
            ("01-01-1970 00:00:00.0", 0.0),
            ("07-12-2025 23:43:14.455", 1_752_363_794.455),
            ("02-29-2024 12:00:00.000001", 1_709_208_000.000_001),
        ] {
            assert_eq!(Stamp::parse(text).map(Stamp::seconds), Some(seconds), "{text}");
        }
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in
            ["", "02-30-2025 00:00:00.0", "13-01-2025 00:00:00.0", "07-12-2025", "é-1-1 1:1:1.1"]
        {
            assert_eq!(Stamp::parse(text), None, "{text}");
            assert_eq!(Stamp::leading(text), None, "{text}");
        }
    }
}
