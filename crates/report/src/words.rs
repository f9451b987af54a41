//! Numbers and texts as HTML: narrow spaces before units, the micro sign, and escaped markup.

use std::path::{Component, Path};

use dyno_loadgen::message::is_control;
use dyno_results::summary::{Accuracy, Division, QualityUnit};
use dyno_results::units;
pub use dyno_results::units::counted;

/// Narrow no-break space between a number and its unit.
const NARROW: char = '\u{202f}';

/// Escapes a text for HTML, SVG and attributes in quotes. Control characters other than line feed
/// and tab, and marks that change the direction of text, become U+FFFD.
///
/// ```
/// use dyno_report::words::escaped;
///
/// assert_eq!(escaped("a < b\u{202e}"), "a &lt; b\u{fffd}");
/// ```
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // HTML forbids control characters, and marks of direction disguise the text around them.
            c if is_control(c) && !matches!(c, '\n' | '\t') => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// Returns whether a run is eligible for MLPerf submission, as a sentence.
pub fn division(division: &Division) -> String {
    format!("{}.", division_open(division))
}

/// Returns the sentence of [`division`] with the first reason against a better division.
pub fn division_and_why(division: &Division) -> String {
    let why = division.reasons.first().map(|why| format!(": {}", why.trim_end_matches('.')));
    format!("{}{}.", division_open(division), why.unwrap_or_default())
}

fn division_open(division: &Division) -> String {
    let provided = if division.provided.is_empty() { "" } else { ", on conditions" };
    match division.could_be.as_str() {
        "closed" => format!("Eligible for the Closed division of MLPerf{provided}"),
        "open" => format!("Eligible for the Open division of MLPerf{provided}, not for Closed"),
        _ => "Not eligible for MLPerf submission".into(),
    }
}

/// Returns the link to a path below the page; `None` for a path that is absolute or contains `..`.
pub fn href(path: &Path) -> Option<String> {
    let parts = path.components().map(|part| match part {
        Component::Normal(part) => Some(part.to_str()?.chars().map(coded).collect::<String>()),
        _ => None,
    });
    Some(parts.collect::<Option<Vec<String>>>()?.join("/"))
}

/// Percent-encodes a character unless it is safe in a link.
fn coded(c: char) -> String {
    if c.is_ascii_alphanumeric() || "-_.=+,".contains(c) {
        return c.to_string();
    }
    let mut bytes = [0; 4];
    c.encode_utf8(&mut bytes).bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Returns a duration in ns with three digits: `4.21 µs`; `–` if it is not finite.
pub fn time(nanos: f64) -> String {
    if !nanos.is_finite() {
        return "–".into();
    }
    spaced(&units::duration(nanos.round() as i64))
}

/// Returns a duration with narrow spaces, the micro sign, and `min` for minutes.
fn spaced(text: &str) -> String {
    match text.split_once("m ") {
        Some((minutes, seconds)) => {
            format!("{minutes}{NARROW}min {}{NARROW}s", seconds.trim_end_matches('s'))
        }
        None => text.replace(" us", " µs").replace(' ', &NARROW.to_string()),
    }
}

/// Returns a bound in ns exactly: as a [`round_time`] if two decimals show it, else with all its digits.
pub fn bound(nanos: u64) -> String {
    let round = round_time(nanos as f64);
    let plain = round.replace(NARROW, "").replace('µ', "u");
    match units::parse_duration(&plain) {
        Ok(shown) if shown == nanos => round,
        _ => spaced(&units::bound(nanos)),
    }
}

/// Returns [`time`] of a signed number of ns.
pub(crate) fn time_ns(nanos: i64) -> String {
    time(nanos as f64)
}

/// Returns [`time`] of an unsigned number of ns.
pub fn span_ns(nanos: u64) -> String {
    time(nanos as f64)
}

/// Returns a time since the start, given in ns.
pub fn elapsed(nanos: f64) -> String {
    time(nanos)
}

/// Returns a round time in ns without trailing zeros: `2 µs`, `2.5 min`, `0`.
pub(crate) fn round_time(nanos: f64) -> String {
    if nanos == 0.0 {
        return "0".into();
    }
    let (unit, name) = match nanos.abs() {
        ..999.5 => (1.0, "ns"),
        ..999.5e3 => (1e3, "µs"),
        ..999.5e6 => (1e6, "ms"),
        ..119e9 => (1e9, "s"),
        ..7_199e9 => (60e9, "min"),
        _ => (3_600e9, "h"),
    };
    format!("{}{NARROW}{name}", trimmed(nanos / unit, 2))
}

/// Returns a round number: `200`, `5,000`, `200k`, `1.5M`, `8.2G`, `3T`.
pub(crate) fn round_number(value: f64) -> String {
    match value.abs() {
        ..1_000.0 => trimmed(value, 3),
        ..10_000.0 => units::count(value.round() as u64),
        ..999_500.0 => format!("{}k", trimmed(value / 1e3, 1)),
        ..999.5e6 => format!("{}M", trimmed(value / 1e6, 1)),
        ..999.5e9 => format!("{}G", trimmed(value / 1e9, 1)),
        _ => format!("{}T", trimmed(value / 1e12, 1)),
    }
}

/// Returns a quality figure in its unit.
pub fn quality(accuracy: &Accuracy, figure: f64) -> String {
    match accuracy.unit {
        QualityUnit::Share => share(figure),
        QualityUnit::Points => trimmed(figure, 4),
    }
}

/// Returns a share in percent: 0.99 is `99 %`.
pub fn share(share: f64) -> String {
    if !share.is_finite() {
        return "–".into();
    }
    let percent = share * 100.0;
    // More digits near 0 and 100 %, where two decimals would round to them.
    let is_extreme = (percent > 99.9 && percent < 100.0) || (percent > 0.0 && percent < 0.1);
    format!("{}{NARROW}%", trimmed(percent, if is_extreme { 4 } else { 2 }))
}

/// Returns a number with at most `decimals` decimals and no trailing zeros.
pub fn trimmed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_string()
    } else {
        text
    }
}

/// Returns a value with its unit, both from a summary.
pub fn in_unit(value: f64, unit: &str) -> String {
    match unit {
        "ns" => time(value),
        "streams" => format!("{value:.0} {unit}"),
        _ => format!("{} {unit}", units::rate(value)),
    }
}

/// Escapes a text of a summary and replaces `us` behind a number by `µs`.
pub(crate) fn typeset(text: &str) -> String {
    let mut set = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(" us") {
        let (before, after) = (&rest[..at], &rest[at + 3..]);
        let is_unit = before.ends_with(|c: char| c.is_ascii_digit())
            && !after.starts_with(|c: char| c.is_alphanumeric());
        set.push_str(before);
        set.push_str(if is_unit { "\u{202f}µs" } else { " us" });
        rest = after;
    }
    set.push_str(rest);
    escaped(&set)
}

/// Returns a requested rate without trailing zeros.
pub(crate) fn asked_rate(rate: f64) -> String {
    if rate >= 1_000.0 { units::rate(rate) } else { trimmed(rate, 3) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_units() {
        let plain = |text: String| text.replace(NARROW, " ");
        assert_eq!(plain(time(4_213.0)), "4.21 µs");
        assert_eq!(plain(time(570e9)), "9 min 30 s");
        assert_eq!([999_499.0, 999_500.0].map(time).map(plain), ["999 µs", "1.00 ms"]);
        assert_eq!(time(f64::NAN), "–");
        let round = [0.0, 2e3, 2.5e6, 1e9, 90e9, 150e9, 7_200e9].map(round_time).map(plain);
        assert_eq!(round, ["0", "2 µs", "2.5 ms", "1 s", "90 s", "2.5 min", "2 h"]);
        let bounds = [0, 10_000_000, 10_040_000, 10_040_001, 90_000_000_001].map(bound).map(plain);
        assert_eq!(bounds, ["0 ns", "10 ms", "10.04 ms", "10.040001 ms", "90.000000001 s"]);
        let numbers = [0.5, 200.0, 5_000.0, 200_000.0, 1.5e6, 8.2e9, 3e12].map(round_number);
        assert_eq!(numbers, ["0.5", "200", "5,000", "200k", "1.5M", "8.2G", "3T"]);
        let shares = [0.99, 0.9999, 0.5, 0.0004].map(share).map(plain);
        assert_eq!(shares, ["99 %", "99.99 %", "50 %", "0.04 %"]);
        assert_eq!(plain(typeset("4.21 us of 3 users use us")), "4.21 µs of 3 users use us");
        assert_eq!([20.0, 1_000.0].map(asked_rate), ["20", "1,000"]);
    }

    #[test]
    fn links_lead_below_the_page_or_nowhere() {
        let link = |path: &str| href(Path::new(path));
        assert_eq!(link("Server/a b/é?#%2e").unwrap(), "Server/a%20b/%C3%A9%3F%23%252e");
        assert_eq!(link("javascript:alert(1)/x").unwrap(), "javascript%3Aalert%281%29/x");
        for outside in ["../x", "/etc/x", "a/../../x"] {
            assert_eq!(link(outside), None, "{outside}");
        }
        #[cfg(not(windows))]
        assert_eq!(link("\\\\evil.example\\x").unwrap(), "%5C%5Cevil.example%5Cx");
    }

    #[test]
    fn markup_is_text() {
        let hostile = "<script>alert('1')</script>&\"\u{0}";
        let safe = "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;&quot;\u{fffd}";
        assert_eq!(escaped(hostile), safe);
    }
}
