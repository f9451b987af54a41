//! Numbers with units: durations, rates, counts, percentiles, dates.

use std::borrow::Cow;

use dyno_loadgen::clock::{MILLISECOND, Nanos, SECOND, WallTime};

/// Returns a duration with three significant digits: `4.21 us`, `12.0 ms`, `9m 30s`, `2h 05m`.
///
/// ```
/// use dyno_results::units::duration;
///
/// assert_eq!(duration(4_213), "4.21 us");
/// ```
pub fn duration(nanos: i64) -> String {
    let size = nanos.unsigned_abs();
    // A unit ends where three digits would be rounded up to four.
    let (unit, name) = match size {
        ..1_000 => return format!("{nanos} ns"),
        1_000..999_500 => (1e3, "us"),
        999_500..999_500_000 => (1e6, "ms"),
        999_500_000..119_500_000_000 => (1e9, "s"),
        _ => {
            let sign = if nanos < 0 { "-" } else { "" };
            let (seconds, minutes) = ((size + SECOND / 2) / SECOND, (size / SECOND + 30) / 60);
            return match seconds {
                ..7_200 => format!("{sign}{}m {:02}s", seconds / 60, seconds % 60),
                _ => format!("{sign}{}h {:02}m", minutes / 60, minutes % 60),
            };
        }
    };
    format!("{} {name}", three_digits(nanos as f64 / unit))
}

/// Returns a bound exactly: as a [`duration`] if three digits show it, else with all its digits.
///
/// ```
/// use dyno_results::units::bound;
///
/// assert_eq!([bound(5_000_000), bound(4_999_999)], ["5.00 ms", "4.999999 ms"]);
/// ```
pub fn bound(nanos: Nanos) -> String {
    let rounded = duration(i64::try_from(nanos).unwrap_or(i64::MAX));
    let is_exact = match nanos {
        ..119_500_000_000 => parse_duration(&rounded) == Ok(nanos),
        119_500_000_000..7_200_000_000_000 => nanos.is_multiple_of(SECOND),
        _ => nanos.is_multiple_of(60 * SECOND) || nanos > i64::MAX as Nanos,
    };
    if is_exact {
        return rounded;
    }
    let (unit, digits, name) = match nanos {
        ..MILLISECOND => (1_000, 3, "us"),
        MILLISECOND..SECOND => (MILLISECOND, 6, "ms"),
        SECOND.. => (SECOND, 9, "s"),
    };
    let number = format!("{}.{:0digits$}", nanos / unit, nanos % unit);
    format!("{} {name}", number.trim_end_matches('0').trim_end_matches('.'))
}

/// Returns a size: `512 B`, `26.5 kB`, `17.1 MB`, `1.20 GB`.
pub fn bytes(count: u64) -> String {
    let size = count as f64;
    match count {
        ..1_000 => format!("{count} B"),
        1_000..1_000_000 => format!("{} kB", three_digits(size / 1e3)),
        1_000_000..1_000_000_000 => format!("{} MB", three_digits(size / 1e6)),
        _ => format!("{} GB", three_digits(size / 1e9)),
    }
}

fn three_digits(value: f64) -> String {
    let decimals = match value.abs() {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// Returns a rate: `232,119`, `998.4`, `0.512`; `-` if it is not finite.
pub fn rate(per_second: f64) -> String {
    match per_second {
        _ if !per_second.is_finite() => "-".into(),
        1_000.0.. => count(per_second.round() as u64),
        100.0.. => format!("{per_second:.1}"),
        10.0.. => format!("{per_second:.2}"),
        _ => format!("{per_second:.3}"),
    }
}

/// Returns a count with commas, such as `1,234`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a count with its noun, such as `1 query` or `2,000 queries`.
///
/// ```
/// use dyno_results::units::counted;
///
/// assert_eq!(counted(1, "query", "queries"), "1 query");
/// assert_eq!(counted(2_000, "query", "queries"), "2,000 queries");
/// ```
pub fn counted(value: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(value), if value == 1 { one } else { many })
}

/// Returns a count with its noun and verb.
///
/// ```
/// use dyno_results::units::counted_with_verb;
///
/// assert_eq!(counted_with_verb(1, "query", "queries"), "1 query is");
/// assert_eq!(counted_with_verb(2_000, "query", "queries"), "2,000 queries are");
/// ```
pub fn counted_with_verb(value: u64, one: &str, many: &str) -> String {
    format!("{} {}", counted(value, one, many), if value == 1 { "is" } else { "are" })
}

/// Returns the ending of a regular noun behind a count: empty for 1, else `s`.
pub fn plural_ending(value: u64) -> &'static str {
    if value == 1 { "" } else { "s" }
}

/// Returns the name of a percentile: 0.99 is `p99`, 0.999 is `p99.9`.
pub fn percentile(fraction: f64) -> String {
    let percent = format!("{:.8}", fraction * 100.0);
    format!("p{}", percent.trim_end_matches('0').trim_end_matches('.'))
}

/// Parses a duration such as `10s`, `250ms`, `1.5m`, `2h`, `80us` or `100ns` to ns.
///
/// # Errors
/// A sentence fragment that begins with "expected".
pub fn parse_duration(text: &str) -> Result<Nanos, String> {
    let expected = || format!("expected a duration such as 10s, 250ms or 2m, found `{text}`");
    let digits = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(expected)?;
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => MILLISECOND,
        "s" => SECOND,
        "m" | "min" => 60 * SECOND,
        "h" => 3_600 * SECOND,
        _ => return Err(expected()),
    };
    let number: f64 = number.trim().parse().map_err(|_| expected())?;
    let nanos = number * unit as f64;
    let most = u64::MAX as f64 / 2.0;
    if nanos > most {
        return Err(format!("expected a duration of at most 2562047h, found `{text}`"));
    }
    if !(0.0..=most).contains(&nanos) {
        return Err(expected());
    }
    Ok(nanos.round() as Nanos)
}

/// Parses a bound on a latency to ns, as [`parse_duration`] does. The unit `m` is rejected: a bound of minutes
/// in place of milliseconds passes every run.
///
/// # Errors
/// A sentence fragment that begins with "expected".
pub fn parse_bound(text: &str) -> Result<Nanos, String> {
    let bound = parse_duration(text)?;
    match text.strip_suffix('m') {
        Some(number) => {
            let number = number.trim_end();
            Err(format!(
                "expected the unit ms or min, found `{text}`; write {number}ms or {number}min"
            ))
        }
        None => Ok(bound),
    }
}

/// Returns the percentage that a number states as a fraction, such as 99 for 0.99, at least 1; `None` for
/// other numbers. A percentile below p1 is such a fraction: a bound on it would pass although most queries
/// exceed it.
pub fn percent_of_fraction(number: f64) -> Option<f64> {
    // Exact to eight decimals: 100 * 0.07 has a tail of rounding.
    (0.0 < number && number < 1.0).then(|| ((number * 1e10).round() / 1e8).max(1.0))
}

/// Parses a share such as `2%` to 0.02. A number without the sign is rejected: `0.5` could be half a
/// percent or one half.
///
/// # Errors
/// A sentence fragment that begins with "expected".
pub fn parse_share(text: &str) -> Result<f64, String> {
    let wrong = || format!("expected a share such as 2%, found `{text}`");
    if let Some(number) = text.strip_suffix('%') {
        return number.trim().parse::<f64>().map(|percent| percent / 100.0).map_err(|_| wrong());
    }
    let number: f64 = text.trim().parse().map_err(|_| wrong())?;
    let without_sign = format!("expected a share with a percent sign, found `{text}`; write");
    if number > 0.0 && number < 1.0 {
        let percent = format!("{:.8}", number * 100.0);
        let percent = percent.trim_end_matches('0').trim_end_matches('.');
        return Err(format!("{without_sign} {percent}% if it is a fraction, {number}% if not"));
    }
    Err(format!("{without_sign} {number}%"))
}

/// Returns a time in the format of RFC 3339: `2026-11-21T04:14:21Z`.
pub fn utc(at: WallTime) -> String {
    let c = at.utc();
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        c.year, c.month, c.day, c.hour, c.minute, c.second
    )
}

/// Returns a time for names of folders: `20261121T041421Z`.
pub(crate) fn utc_compact(at: WallTime) -> String {
    let c = at.utc();
    format!("{:04}{:02}{:02}T{:02}{:02}{:02}Z", c.year, c.month, c.day, c.hour, c.minute, c.second)
}

/// Returns the name of a percentile; 0 is `min` and 1 is `max`.
pub fn percentile_or_extreme(share: f64) -> String {
    match share {
        ..=0.0 => "min".into(),
        1.0.. => "max".into(),
        _ => percentile(share),
    }
}

/// Returns a reason or note with an initial capital and a final period, which those of the load generator lack.
/// Names such as `p99`, and options at the end, which users copy, stay as they are.
///
/// ```
/// use dyno_results::units::sentence;
///
/// assert_eq!(sentence("the run ended early"), "The run ended early.");
/// assert_eq!(sentence("p99 is unclear; use --set a=1"), "p99 is unclear; use --set a=1");
/// ```
pub fn sentence(text: &str) -> String {
    let (first, last) = (text.split(' ').next(), text.rsplit(' ').next());
    let is_word = first.is_some_and(|word| word.chars().all(char::is_alphabetic));
    let is_option = last.is_some_and(|word| word.contains('='));
    let mut letters = text.chars();
    let initial: String = match letters.next() {
        Some(letter) if is_word => letter.to_uppercase().collect(),
        letter => letter.into_iter().collect(),
    };
    let end = if is_option || text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{initial}{}{end}", letters.as_str())
}

/// Returns a text that takes at most `columns` columns, cut off with an ellipsis if necessary. The
/// text must not contain color codes.
pub fn shortened(text: &str, columns: usize) -> Cow<'_, str> {
    match width(text) {
        short if short <= columns => text.into(),
        _ => text.chars().take(columns.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// Returns the columns that a text takes on a terminal, without color codes.
pub fn width(text: &str) -> usize {
    let mut columns = 0;
    let mut is_escape = false;
    for c in text.chars() {
        match c {
            '\x1b' => is_escape = true,
            'm' if is_escape => is_escape = false,
            _ => columns += usize::from(!is_escape),
        }
    }
    columns
}

/// Returns the command that repeats a run, quoted for a shell.
pub fn command(arguments: &[String]) -> String {
    let quoted = |argument: &String| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,:/+@%".contains(c);
        if !argument.is_empty() && argument.chars().all(is_plain) {
            argument.clone()
        } else {
            format!("'{}'", argument.replace('\'', "'\\''"))
        }
    };
    let words = std::iter::once("dyno".to_string()).chain(arguments.iter().map(quoted));
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits_and_read_back() {
        let shown = [7, 4_213, 12_000_000, 9_996_000, 2_500_000_000, 570_000_000_000].map(duration);
        assert_eq!(shown, ["7 ns", "4.21 us", "12.0 ms", "10.0 ms", "2.50 s", "9m 30s"]);
        assert_eq!(duration(-4_213), "-4.21 us");
        let ends = [999, 999_499, 999_999, 999_999_999, 119_499_000_000, 119_999_999_999];
        let shown = ends.map(duration);
        assert_eq!(shown, ["999 ns", "999 us", "1.00 ms", "1.00 s", "119 s", "2m 00s"]);
        let long = [-150 * 1_000_000_000, 7_199_400_000_000, 7_500_000_000_000, i64::MAX];
        assert_eq!(long.map(duration), ["-2m 30s", "119m 59s", "2h 05m", "2562047h 47m"]);
        assert_eq!(parse_duration("1.5m"), Ok(90 * SECOND));
        assert_eq!(parse_duration("250 ms"), Ok(250 * MILLISECOND));
        let long = parse_duration("999999999h").unwrap_err();
        assert_eq!(long, "expected a duration of at most 2562047h, found `999999999h`");
        for bad in ["10", "s", "-1s", "1 fortnight", "1e300h", ""] {
            assert!(parse_duration(bad).unwrap_err().starts_with("expected"), "{bad}");
        }
    }

    #[test]
    fn a_bound_is_shown_exactly() {
        let shown = [7, 50_000_000, 90_000_000_000, 300_000_000_000, 7_500_000_000_000].map(bound);
        assert_eq!(shown, ["7 ns", "50.0 ms", "90.0 s", "5m 00s", "2h 05m"]);
        for (nanos, expected) in [
            (4_999_999, "4.999999 ms"),
            (999_500, "999.5 us"),
            (1_234_567, "1.234567 ms"),
            (1_000_000_001, "1.000000001 s"),
            (119_600_000_000, "119.6 s"),
            (300_500_000_000, "300.5 s"),
            (7_201_000_000_000, "7201 s"),
        ] {
            assert_eq!(bound(nanos), expected);
            assert_eq!(parse_bound(expected), Ok(nanos));
        }
        assert_eq!(bound(Nanos::MAX), "2562047h 47m");
    }

    #[test]
    fn a_bound_has_an_unambiguous_unit() {
        assert_eq!(parse_bound("5ms"), Ok(5 * MILLISECOND));
        assert_eq!(parse_bound("5min"), Ok(300 * SECOND));
        assert!(parse_bound("5 m").unwrap_err().ends_with("write 5ms or 5min"));
        assert!(parse_bound("5").unwrap_err().starts_with("expected a duration"));
    }

    #[test]
    fn fractions_below_one_state_percentages() {
        assert_eq!(
            [0.99, 0.999, 0.07].map(percent_of_fraction),
            [Some(99.0), Some(99.9), Some(7.0)]
        );
        // The advice is never a percentage that is rejected, too.
        assert_eq!([0.001, 0.01].map(percent_of_fraction), [Some(1.0), Some(1.0)]);
        assert_eq!([0.0, 1.0, 99.0, f64::NAN].map(percent_of_fraction), [None; 4]);
    }

    #[test]
    fn a_share_needs_its_sign() {
        assert_eq!(parse_share("2%"), Ok(0.02));
        assert_eq!(parse_share("0.1 %"), Ok(0.001));
        for (text, advice) in [
            ("0.001", "found `0.001`; write 0.1% if it is a fraction, 0.001% if not"),
            ("0.07", "write 7% if it is a fraction, 0.07% if not"),
            ("5", "found `5`; write 5%"),
            ("1", "write 1%"),
            ("x%", "a share such as 2%, found `x%`"),
            ("", "a share such as 2%, found ``"),
        ] {
            let found = parse_share(text).unwrap_err();
            assert!(found.starts_with("expected") && found.ends_with(advice), "{found}");
        }
    }

    #[test]
    fn rates_counts_and_percentiles() {
        assert_eq!(rate(232_119.4), "232,119");
        assert_eq!(rate(998.44), "998.4");
        assert_eq!(rate(f64::NAN), "-");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!([0.5, 0.99, 0.999, 0.9].map(percentile), ["p50", "p99", "p99.9", "p90"]);
        assert_eq!([0.0, 0.999, 1.0].map(percentile_or_extreme), ["min", "p99.9", "max"]);
    }

    #[test]
    fn a_command_is_quoted_for_the_shell() {
        let arguments = ["run", "--system", "onnx:my model.onnx", "--name", "it's", ""];
        let shown = command(&arguments.map(str::to_string));
        assert_eq!(shown, "dyno run --system 'onnx:my model.onnx' --name 'it'\\''s' ''");
    }
}
