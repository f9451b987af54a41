//! An axis of a sweep: the grammar of `--over KEY=VALUES`.

use std::collections::HashSet;

use dyno_results::sweep::Axis;
use dyno_results::units;

use super::SweepKey;

/// Maximum number of values of one axis.
const MOST_VALUES: usize = 1_000;

/// Parses `KEY=VALUES`. Values are separated by commas, or by semicolons if a value contains
/// commas; each value may be a range.
///
/// # Errors
/// A sentence with the problem.
pub fn read_axis(text: &str) -> Result<Axis, String> {
    let (key, values) = text
        .split_once('=')
        .ok_or_else(|| format!("expected KEY=VALUE,VALUE, such as batch=1,2,4, found `{text}`"))?;
    axis(key.trim(), &split(values))
}

/// Returns an axis with these values, each of which may be a range.
///
/// # Errors
/// A sentence with the problem.
pub fn axis(key: &str, values: &[String]) -> Result<Axis, String> {
    let swept = SweepKey::find(key)?;
    let key = swept.name();
    let mut all = Vec::new();
    for value in values {
        let found = expand(value).map_err(|expected| format!("`{key}`: {expected}"))?;
        all.extend(found);
        if all.len() > MOST_VALUES {
            return Err(format!("`{key}` has more than {MOST_VALUES} values"));
        }
    }
    if all.is_empty() {
        return Err(format!("`{key}` has no values"));
    }
    let mut seen = HashSet::new();
    for value in &all {
        swept.check(value).map_err(|expected| {
            let hint = match values.len() {
                2.. if value.contains('=') => "; separate values that contain commas by semicolons",
                _ if is_like_range(value) => "; a range is such as 100..400:100 or 1..8:x2",
                _ => "",
            };
            format!("`{key}`: {expected}{hint}")
        })?;
        if !seen.insert(value) {
            return Err(format!(
                "`{key}` has the value `{value}` twice; use --repeat to run it \
                 twice"
            ));
        }
    }
    Ok(Axis { key, values: all })
}

/// Returns whether a value is a range in the form of another tool, such as `1-8` or `1:8`.
fn is_like_range(value: &str) -> bool {
    let ends = value.split_once(['-', ':']);
    ends.is_some_and(|(first, last)| number(first).is_some() && number(last).is_some())
}

/// Splits a list of the command line at semicolons, or else at commas.
pub fn split(text: &str) -> Vec<String> {
    let separator = if text.contains(';') { ';' } else { ',' };
    let parts = text.strip_suffix(separator).unwrap_or(text).split(separator);
    parts.map(|part| part.trim().to_string()).collect()
}

/// Expands a range: `1..8:x2` is 1, 2, 4, 8, and `100..400:100` is 100, 200, 300, 400. Numbers may
/// have a unit. Other values are returned unchanged.
///
/// # Errors
/// A sentence with the problem of the range.
pub fn expand(value: &str) -> Result<Vec<String>, String> {
    let Some((first, rest)) = value.split_once("..") else { return Ok(vec![value.to_string()]) };
    let Some((first, unit)) = number(first) else { return Ok(vec![value.to_string()]) };
    let expected = || format!("expected a range such as 100..400:100 or 1..8:x2, found `{value}`");
    let (last, step) = rest.split_once(':').ok_or_else(expected)?;
    let (last, last_unit) = number(last).ok_or_else(expected)?;
    let (is_factor, step) = match step.strip_prefix('x') {
        Some(factor) => (true, factor),
        None => (false, step),
    };
    let (step, step_unit) = number(step).ok_or_else(expected)?;
    let differ = || format!("`{value}` has different units");
    let last = in_unit(last, last_unit, unit).ok_or_else(differ)?;
    let step = match step_unit {
        "" => step,
        _ if is_factor => return Err(differ()),
        _ => in_unit(step, step_unit, unit).ok_or_else(differ)?,
    };
    if [first, last].iter().any(|end| end.abs() > MOST_EXACT) {
        return Err(format!("expected numbers of at most 2^53 in a range, found `{value}`"));
    }
    let is_growing = if is_factor { first > 0.0 && step > 1.0 } else { step > 0.0 };
    if !is_growing || last < first {
        return Err(format!("expected an ascending range, found `{value}`"));
    }
    let mut values = Vec::new();
    for at in 0..=MOST_VALUES {
        let power = i32::try_from(at).expect("a thousand");
        let next = if is_factor { first * step.powi(power) } else { first + step * at as f64 };
        // Steps such as 0.1 are not exact in binary.
        if next > last * (1.0 + 1e-12) + f64::MIN_POSITIVE {
            return Ok(values);
        }
        values.push(format!("{}{unit}", plain(next)));
    }
    Err(format!("`{value}` has more than {MOST_VALUES} values"))
}

/// Parses a number and its unit, if the text begins with a digit.
fn number(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if let Ok(value) = text.parse() {
        return Some((value, ""));
    }
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    Some((number.replace('_', "").parse().ok()?, unit))
}

/// Largest value up to which all integers are exact in `f64`: 2^53.
const MOST_EXACT: f64 = (1_u64 << f64::MANTISSA_DIGITS) as f64;

/// Converts a number to another unit of time.
fn in_unit(number: f64, unit: &str, wanted: &str) -> Option<f64> {
    if unit == wanted {
        return Some(number);
    }
    let ns = |unit: &str| units::parse_duration(&format!("1{unit}")).ok();
    Some(number * ns(unit)? as f64 / ns(wanted)? as f64)
}

/// Formats a value without rounding noise in the last digits.
fn plain(value: f64) -> String {
    let digits = format!("{value:.9}");
    digits.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(read_axis(text).unwrap().values, expected, "{text}");
    }

    #[track_caller]
    fn check_refused(text: &str, expected: &str) {
        let problem = read_axis(text).unwrap_err();
        assert!(problem.contains(expected), "{text}: {problem}");
    }

    #[test]
    fn lists_and_ranges_become_values() {
        check("batch=1,2, 4", &["1", "2", "4"]);
        check("batch=1..8:x2,20", &["1", "2", "4", "8", "20"]);
        check("settings.server_target_qps=100..400:100", &["100", "200", "300", "400"]);
        check("settings.server_target_latency_percentile=0.1..0.3:0.1", &["0.1", "0.2", "0.3"]);
        check("batch-wait=1ms..4ms:x2", &["1ms", "2ms", "4ms"]);
        check("duration=500ms..2s:x2", &["500ms", "1000ms", "2000ms"]);
        check("duration=1s..2s:500ms", &["1s", "1.5s", "2s"]);
        check("system=onnx:../a.onnx,digits", &["onnx:../a.onnx", "digits"]);
        check("system=model:fixed=1ms,servers=2;null", &["model:fixed=1ms,servers=2", "null"]);
        check("system=model:fixed=1ms,servers=2;", &["model:fixed=1ms,servers=2"]);
        assert_eq!(read_axis("run.batch_wait=0ns").unwrap().key, "batch_wait");
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_reason() {
        check_refused("batch", "expected KEY=VALUE");
        check_refused("batch=", "`batch`: expected a number");
        check_refused("batch=1,1", "`1` twice");
        check_refused("batch=1..8", "expected a range such as");
        check_refused("batch=1-8", "found `1-8`; a range is such as 100..400:100 or 1..8:x2");
        check_refused("qps=100:400", "found `100:400`; a range is such as");
        check_refused("batch=8..1:x2", "expected an ascending range");
        check_refused("batch=1..8:x1", "expected an ascending range");
        check_refused("batch=1..8:0", "expected an ascending range");
        check_refused("batch=1..1e9:1", "more than 1000 values");
        check_refused("batch-wait=1ms..4ks:x2", "different units");
        check_refused("batch-wait=1ms..4:x2", "different units");
        check_refused("seed=9007199254740993..9007199254740995:1", "at most 2^53");
        check_refused("batsch=1", "unknown key `batsch`; the nearest key is `batch`");
        check_refused("settings.min_query_cont=1", "the nearest key is `min_query_count`");
        check_refused("server_target_qps=1", "write `settings.server_target_qps`");
        check_refused("out=a,b", "`out`");
        check_refused("scenario=servre", "the nearest is Server");
    }
}
