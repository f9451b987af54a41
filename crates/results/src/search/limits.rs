//! The grammar of limits: `p99 <= 100ms`, `ttft.p90 <= 200ms`, `errors <= 0.1%`.

use crate::units;
use dyno_loadgen::search::{Limit, Quantity};
use dyno_loadgen::settings::similar;

/// Examples of limits, for help texts and messages.
pub const GRAMMAR: &str = "p99<=100ms, ttft.p99<=200ms, tpot.p90<=50ms, errors<=0.1%, lag.p99<=1ms";

const NAMES: [(&str, Quantity); 7] = [
    ("latency", Quantity::Latency),
    ("e2el", Quantity::Latency),
    ("ttft", Quantity::FirstToken),
    ("tpot", Quantity::TimePerOutputToken),
    ("errors", Quantity::Errors),
    ("lag", Quantity::ClientLag),
    // Another tool's word.
    ("e2e", Quantity::Latency),
];

/// Figures that are no limits, each with what to use instead.
const OTHERS: [(&[&str], &str); 4] = [
    (
        &["itl"],
        "inter-token times are reported, but not judged; use tpot, the time per output token",
    ),
    (
        &["mean", "avg", "average"],
        "means are reported, but not judged; use a percentile such as p50",
    ),
    (&["accuracy"], "an accuracy has a target instead of a limit; use --accuracy-target SHARE"),
    (
        &["throughput", "qps", "rps", "rate", "requests", "tokens", "goodput"],
        "a throughput has no limit; drive that rate with --qps RATE and limit the latency, as in \
         p99<=100ms, which a rate beyond the capacity exceeds",
    ),
];

/// Parses a limit. `percentile` in (0, 1) applies to a limit that names none.
///
/// # Errors
/// What is wrong, and what was expected.
///
/// ```
/// use dyno_results::search::limits;
///
/// let limit = limits::parse("ttft.p90 <= 200ms", 0.99)?;
/// assert_eq!(limits::show(&limit), "TTFT p90 <= 200 ms");
/// # Ok::<(), String>(())
/// ```
pub fn parse(text: &str, percentile: f64) -> Result<Limit, String> {
    let expected = |what: &str| format!("limit `{text}`: expected {what}, such as {GRAMMAR}");
    let at = text.find(['<', '≤', '>', '≥', '=']).ok_or_else(|| expected("METRIC <= VALUE"))?;
    let (left, right) = text.split_at(at);
    let digits = |c: char| matches!(c, '<' | '≤' | '=');
    let value = right.trim_start_matches(digits).trim();
    let sign = &right[..right.len() - right.trim_start_matches(digits).len()];
    let left = left.trim().to_ascii_lowercase();
    let (name, at) = match left.split_once(['.', ' ', '_']) {
        // The dot of `p99.9` does not separate a metric.
        _ if is_percentile(&left) => ("latency", Some(&left[..])),
        Some((name, at)) => (name.trim(), Some(at.trim())),
        None => (&left[..], None),
    };
    if let Some((_, instead)) = OTHERS.iter().find(|(names, _)| names.contains(&name)) {
        return Err(format!("limit `{text}`: {instead}"));
    }
    if !matches!(sign, "<" | "<=" | "≤" | "=<") {
        return Err(expected("`<=`, because all limits are upper limits"));
    }
    let quantity = NAMES.iter().find(|(known, _)| *known == name).map(|(_, quantity)| *quantity);
    let quantity = quantity.ok_or_else(|| {
        let near = similar(name, NAMES.iter().map(|(name, _)| *name));
        let near = near.map(|near| format!("; the nearest is `{near}`")).unwrap_or_default();
        let metrics = NAMES.map(|(name, _)| name).join(", ");
        format!(
            "limit `{text}`: unknown metric `{name}`{near}. Metrics are {metrics}, and percentiles \
             such as p99"
        )
    })?;
    if quantity == Quantity::Errors {
        if at.is_some() {
            return Err(expected("no percentile for errors"));
        }
        if value.trim_end_matches('%').trim().parse::<f64>() == Ok(0.0) {
            return Err(format!(
                "limit `{text}`: no run proves that nothing ever fails; use a share above 0, such as \
                 errors<=0.1%, or remove the limit: in profile llm any failure makes a run INVALID"
            ));
        }
        let allowed = units::parse_share(value).map_err(|why| format!("limit `{text}`: {why}"))?;
        if !(0.0 < allowed && allowed < 1.0) {
            return Err(expected("a share above 0 and below 100 %"));
        }
        return Ok(Limit { quantity, allowed, bound: 0 });
    }
    let percentile = match at {
        Some(at) => {
            read_percentile(at).ok_or_else(|| expected("a percentile above p0 and below p100"))?
        }
        None => percentile,
    };
    let bound =
        units::parse_bound(value).map_err(|expected| format!("limit `{text}`: {expected}"))?;
    if bound == 0 {
        return Err(expected("a bound above 0"));
    }
    Ok(Limit { quantity, allowed: allowed(percentile), bound })
}

/// Parses a limit that a user requests, as [`parse`] does. A percentile below p1 is rejected: nearly every run
/// keeps it. Limits in results may have one.
///
/// # Errors
/// As [`parse`].
pub fn parse_requested(text: &str, percentile: f64) -> Result<Limit, String> {
    let limit = parse(text, percentile)?;
    let percent = 100.0 * (1.0 - limit.allowed);
    match units::percent_of_fraction(percent).filter(|_| limit.quantity != Quantity::Errors) {
        Some(meant) => Err(format!(
            "limit `{text}`: expected a percentile of at least p1, found {}; write p{meant}",
            units::percentile(1.0 - limit.allowed)
        )),
        None => Ok(limit),
    }
}

/// Parses a limit in the spelling of other tools, such as `ttft:200` in ms.
///
/// # Errors
/// What is wrong, and what was expected.
pub fn parse_goodput(text: &str, percentile: f64) -> Result<Limit, String> {
    let expected = || format!("goodput `{text}`: expected ttft:MS, tpot:MS or e2el:MS");
    let (name, value) = text.split_once(':').ok_or_else(expected)?;
    let name = name.trim().to_ascii_lowercase();
    if !matches!(&name[..], "ttft" | "tpot" | "e2el") {
        return Err(expected());
    }
    let value: f64 = value.trim().parse().map_err(|_| expected())?;
    parse_requested(&format!("{name}<={value}ms"), percentile)
}

/// Returns the share of queries that may exceed the limit, such as 0.01 for p99. It is rounded, so
/// that the subtraction adds no noise.
pub fn allowed(percentile: f64) -> f64 {
    ((1.0 - percentile) * 1e12).round() / 1e12
}

fn is_percentile(text: &str) -> bool {
    text.strip_prefix('p').is_some_and(|digits| digits.starts_with(|c: char| c.is_ascii_digit()))
}

fn read_percentile(text: &str) -> Option<f64> {
    let percent: f64 = text.strip_prefix('p')?.parse().ok()?;
    (0.0 < percent && percent < 100.0).then_some(percent / 100.0)
}

/// Risk that a run keeps a limit by chance although the system does not.
const RISK: f64 = 0.05;

/// Returns how many queries prove a limit on a percentile if all of them keep it; `None` for other
/// limits. A system that just misses the limit has so many queries in time with a probability of 5 %.
pub fn queries_to_be_certain(limit: &Limit) -> Option<u64> {
    match limit.quantity {
        Quantity::Errors | Quantity::ClientLag => None,
        Quantity::Latency | Quantity::FirstToken | Quantity::TimePerOutputToken => {
            let queries = RISK.ln() / (1.0 - limit.allowed).ln();
            queries.is_finite().then(|| queries.ceil() as u64)
        }
    }
}

/// Returns a limit for display: `TTFT p99 <= 200 ms`.
pub fn show(limit: &Limit) -> String {
    let name = match limit.quantity {
        Quantity::Latency => "latency",
        Quantity::FirstToken => "TTFT",
        Quantity::TimePerOutputToken => "TPOT",
        Quantity::ClientLag => "client lag",
        Quantity::Errors => return format!("errors <= {}", exact_percent(limit.allowed)),
    };
    let bound = units::bound(limit.bound);
    format!("{name} {} <= {bound}", units::percentile(1.0 - limit.allowed))
}

/// Returns a limit in the grammar of [`parse`]: `ttft.p99<=200000000ns`.
pub fn key(limit: &Limit) -> String {
    let name = match limit.quantity {
        Quantity::Latency => "latency",
        Quantity::FirstToken => "ttft",
        Quantity::TimePerOutputToken => "tpot",
        Quantity::ClientLag => "lag",
        Quantity::Errors => return format!("errors<={}%", limit.allowed * 100.0),
    };
    format!("{name}.{}<={}ns", units::percentile(1.0 - limit.allowed), limit.bound)
}

/// Returns a share in percent with up to three decimals: `0.1 %`, `12.4 %`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    trimmed(percent, if percent >= 10.0 { 1 } else { 3 })
}

/// Returns the share of a limit in percent as it was given: `0.00015 %`. A rounded one could be 0.
pub fn exact_percent(share: f64) -> String {
    // An `f64` has about 16 significant digits; the last ones of a product are noise.
    let digits = (13.0 - (share * 100.0).log10()).clamp(0.0, 330.0);
    trimmed(share * 100.0, digits as usize)
}

fn trimmed(percent: f64, digits: usize) -> String {
    let text = format!("{percent:.digits$}");
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least n for which p^n is at most 5 %.
    #[test]
    fn so_many_queries_prove_a_percentile() {
        let needed = |text| queries_to_be_certain(&parse(text, 0.99).unwrap());
        for (text, percentile) in [("p99<=1s", 0.99), ("p50<=1s", 0.5), ("ttft.p90<=1s", 0.9)] {
            let least = (1..).find(|n| f64::powi(percentile, *n) <= 0.05).unwrap() as u64;
            assert_eq!(needed(text), Some(least), "{text}");
        }
        assert_eq!(needed("errors<=1%"), None);
    }

    #[track_caller]
    fn check(text: &str, shown: &str) {
        let limit = parse(text, 0.99).unwrap();
        assert_eq!(show(&limit), shown, "{text}");
        assert_eq!(parse(&key(&limit), 0.5), Ok(limit), "{text} by its key");
    }

    #[test]
    fn limits_read_in_each_spelling() {
        check("p99 <= 100 ms", "latency p99 <= 100 ms");
        check("p99.9<=1.5s", "latency p99.9 <= 1.50 s");
        check("latency<100ms", "latency p99 <= 100 ms");
        check("ttft.p90≤200ms", "TTFT p90 <= 200 ms");
        check("TPOT p50 <= 50ms", "TPOT p50 <= 50.0 ms");
        check("p99 <= 4.999999ms", "latency p99 <= 4.999999 ms");
        check("errors <= 0.1%", "errors <= 0.1 %");
        check("errors <= 0.0000001%", "errors <= 0.0000001 %");
        check("errors <= 0.00000000000000012%", "errors <= 0.00000000000000012 %");
        check("errors <= 12.34%", "errors <= 12.34 %");
        check("errors <= 7%", "errors <= 7 %");
        check("lag.p99<=1ms", "client lag p99 <= 1.00 ms");
        assert_eq!(parse_goodput("ttft:200", 0.99), parse("ttft.p99<=200ms", 0.5));
    }

    #[test]
    fn a_request_has_a_percentile_of_at_least_p1_and_a_result_may_have_any() {
        for (text, expected) in [
            ("p0.99 <= 5ms", "found p0.99; write p99"),
            ("ttft.p0.5 <= 5ms", "found p0.5; write p50"),
        ] {
            let problem = parse_requested(text, 0.99).unwrap_err();
            assert!(problem.contains(expected), "{text}: {problem}");
            let limit = parse(text, 0.99).unwrap();
            assert_eq!(parse(&key(&limit), 0.5), Ok(limit));
        }
        for text in ["p1 <= 5ms", "errors <= 99.5%"] {
            assert_eq!(parse_requested(text, 0.99), parse(text, 0.99));
        }
    }

    #[test]
    fn what_does_not_read_says_what_was_expected() {
        for (text, expected) in [
            ("p99", "expected METRIC <= VALUE"),
            ("p99 >= 5ms", "all limits are upper limits"),
            ("p99 <= 5", "expected a duration"),
            ("p100 <= 5ms", "below p100"),
            ("p99 <= 5m", "write 5ms or 5min"),
            ("tftt.p99 <= 5ms", "the nearest is `ttft`"),
            ("errors <= 0%", "any failure makes a run INVALID"),
            ("jitter <= 3ms", "`jitter`. Metrics are latency, e2el, ttft, tpot, errors, lag"),
            ("mean <= 3ms", "use a percentile such as p50"),
            ("throughput >= 100", "drive that rate with --qps RATE and limit the latency"),
            ("QPS>=100", "drive that rate with --qps RATE and limit the latency"),
            ("accuracy >= 0.9", "use --accuracy-target SHARE"),
            ("errors <= 100%", "below 100 %"),
            ("errors <= 0.5", "write 50% if it is a fraction, 0.5% if not"),
            ("errors <= 5", "write 5%"),
            ("errors <= few", "expected a share such as 2%"),
            ("errors.p99 <= 1%", "no percentile for errors"),
            ("p50 <= 0ms", "a bound above 0"),
        ] {
            let found = parse(text, 0.99).unwrap_err();
            assert!(found.contains(expected), "{text}: {found}");
        }
        assert!(parse_goodput("latency:5", 0.99).unwrap_err().contains("ttft:MS"));
    }
}
