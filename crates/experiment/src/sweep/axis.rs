//! Axes: what `--over KEY=VALUES` says, and the combinations of several.

use std::collections::{BTreeMap, HashSet};

use dyno_loadgen::settings::nearest;
use dyno_results::sweep::{Axis, Selection};
use dyno_results::units;

use crate::options::Swept;

/// Values of one axis at most.
const MOST_VALUES: usize = 1_000;

/// Combinations times repeats at most: a month of five-minute points.
pub const MOST_POINTS: usize = 10_000;

/// Reads `KEY=VALUES`. Values are separated by commas, or by semicolons
/// where a value holds commas itself; each may be a range.
///
/// # Errors
/// What is wrong, in a sentence.
pub fn read_axis(text: &str) -> Result<Axis, String> {
    let (key, values) = text
        .split_once('=')
        .ok_or_else(|| format!("expected KEY=VALUE,VALUE, such as batch=1,2,4, found `{text}`"))?;
    axis(key.trim(), &split(values))
}

/// An axis of these values, of which each may be a range.
///
/// # Errors
/// What is wrong, in a sentence.
pub fn axis(key: &str, values: &[String]) -> Result<Axis, String> {
    let swept = Swept::find(key)?;
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
                2.. if value.contains('=') => {
                    "; values that hold commas are separated by semicolons"
                }
                _ => "",
            };
            format!("`{key}`: {expected}{hint}")
        })?;
        if !seen.insert(value) {
            return Err(format!("`{key}` has the value `{value}` twice; --repeat runs it twice"));
        }
    }
    Ok(Axis { key, values: all })
}

/// The parts of a list as the command line has it.
pub fn split(text: &str) -> Vec<String> {
    let separator = if text.contains(';') { ';' } else { ',' };
    let parts = text.strip_suffix(separator).unwrap_or(text).split(separator);
    parts.map(|part| part.trim().to_string()).collect()
}

/// `1..8:x2` is 1, 2, 4, 8; `100..400:100` is 100, 200, 300, 400; numbers may
/// have a unit. What does not begin like a range is itself.
///
/// # Errors
/// What is wrong with the range, in a sentence.
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
    let differ = || format!("the units of `{value}` differ");
    let last = in_unit(last, last_unit, unit).ok_or_else(differ)?;
    let step = match step_unit {
        "" => step,
        _ if is_factor => return Err(differ()),
        _ => in_unit(step, step_unit, unit).ok_or_else(differ)?,
    };
    if [first, last].iter().any(|end| end.abs() > MOST_EXACT) {
        return Err(format!("numbers of a range are at most 2^53, found `{value}`"));
    }
    let is_growing = if is_factor { first > 0.0 && step > 1.0 } else { step > 0.0 };
    if !is_growing || last < first {
        return Err(format!("`{value}` must grow from its first number to its last"));
    }
    let mut values = Vec::new();
    for at in 0..=MOST_VALUES {
        let power = i32::try_from(at).expect("a thousand");
        let next = if is_factor { first * step.powi(power) } else { first + step * at as f64 };
        // A tenth has no exact binary form.
        if next > last * (1.0 + 1e-12) + f64::MIN_POSITIVE {
            return Ok(values);
        }
        values.push(format!("{}{unit}", plain(next)));
    }
    Err(format!("`{value}` has more than {MOST_VALUES} values"))
}

/// A number and its unit, if it begins with a digit.
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

/// Beyond it, not every whole number is told from the next: 2^53.
const MOST_EXACT: f64 = (1_u64 << f64::MANTISSA_DIGITS) as f64;

/// A number in another unit: times have several.
fn in_unit(number: f64, unit: &str, wanted: &str) -> Option<f64> {
    if unit == wanted {
        return Some(number);
    }
    let ns = |unit: &str| units::parse_duration(&format!("1{unit}")).ok();
    Some(number * ns(unit)? as f64 / ns(wanted)? as f64)
}

/// Without the noise of the last digits.
fn plain(value: f64) -> String {
    let digits = format!("{value:.9}");
    digits.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// The values of one combination, by axis.
pub type Combination = BTreeMap<String, String>;

/// Every combination that is not left out, the last axis varying fastest.
///
/// # Errors
/// Lists that cannot be paired, selections that select nothing, or too many points.
pub fn combinations(
    axes: &[Axis],
    is_zip: bool,
    exclude: &[Selection],
    repeat: usize,
) -> Result<Vec<Combination>, String> {
    for selection in exclude {
        check_selection(selection, axes)?;
    }
    let count = count(axes, is_zip)?;
    if count.saturating_mul(repeat) > MOST_POINTS {
        return Err(format!(
            "{count} combinations, {repeat} times, are more than {MOST_POINTS} points; leave out \
             values or repeats"
        ));
    }
    let combination = |mut at: usize| {
        let mut of = Combination::new();
        for axis in axes.iter().rev() {
            let value = if is_zip { at } else { at % axis.values.len() };
            of.insert(axis.key.clone(), axis.values[value].clone());
            if !is_zip {
                at /= axis.values.len();
            }
        }
        of
    };
    let kept: Vec<Combination> = (0..count)
        .map(combination)
        .filter(|of| !exclude.iter().any(|selection| is_selected(of, selection)))
        .collect();
    if kept.is_empty() {
        return Err("every combination is excluded".into());
    }
    Ok(kept)
}

fn count(axes: &[Axis], is_zip: bool) -> Result<usize, String> {
    let Some(first) = axes.first() else {
        return Err("nothing varies".into());
    };
    if !is_zip {
        let product = axes.iter().try_fold(1_usize, |n, axis| n.checked_mul(axis.values.len()));
        return Ok(product.unwrap_or(usize::MAX));
    }
    match axes.iter().find(|axis| axis.values.len() != first.values.len()) {
        None => Ok(first.values.len()),
        Some(other) => Err(format!(
            "lists side by side must be equally long: `{}` has {} values, `{}` has {}",
            first.key,
            first.values.len(),
            other.key,
            other.values.len()
        )),
    }
}

/// Whether a combination has one of the values of each key.
pub fn is_selected(of: &Combination, selection: &Selection) -> bool {
    selection.iter().all(|(key, values)| of.get(key).is_some_and(|value| values.contains(value)))
}

/// Refuses what no combination can have: a misspelt exclusion would run what it
/// was to leave out.
///
/// # Errors
/// The key or value, and the nearest one.
pub fn check_selection(selection: &Selection, axes: &[Axis]) -> Result<(), String> {
    for (key, values) in selection {
        let Some(axis) = axes.iter().find(|axis| axis.key == *key) else {
            let near = nearest(key, axes.iter().map(|axis| axis.key.as_str())).unwrap_or("none");
            return Err(format!("`{key}` does not vary; the nearest axis is `{near}`"));
        };
        for value in values {
            if !axis.values.contains(value) {
                let near = nearest(value, axis.values.iter().map(String::as_str));
                let near = near.unwrap_or_default();
                return Err(format!("`{key}` is never `{value}`; the nearest value is `{near}`"));
            }
        }
    }
    Ok(())
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
        check_refused("batch=8..1:x2", "must grow");
        check_refused("batch=1..8:x1", "must grow");
        check_refused("batch=1..8:0", "must grow");
        check_refused("batch=1..1e9:1", "more than 1000 values");
        check_refused("batch-wait=1ms..4ks:x2", "units");
        check_refused("batch-wait=1ms..4:x2", "units");
        check_refused("seed=9007199254740993..9007199254740995:1", "at most 2^53");
        check_refused("batsch=1", "unknown key `batsch`; the nearest key is `batch`");
        check_refused("settings.min_query_cont=1", "the nearest key is `min_query_count`");
        check_refused("server_target_qps=1", "write `settings.server_target_qps`");
        check_refused("out=a,b", "`out`");
        check_refused("system=model:fixed=1ms,servers=2", "separated by semicolons");
        check_refused("scenario=servre", "the nearest is Server");
    }

    fn axes() -> [Axis; 2] {
        [read_axis("batch=1,2").unwrap(), read_axis("workers=1,2,3").unwrap()]
    }

    fn selection(key: &str, values: &[&str]) -> Selection {
        let values = values.iter().map(|&value| value.to_string()).collect();
        Selection::from([(key.to_string(), values)])
    }

    #[test]
    fn the_last_axis_varies_fastest_and_exclusions_are_left_out() {
        let all = combinations(&axes(), false, &[], 1).unwrap();
        let of = |c: &Combination| (c["batch"].clone(), c["workers"].clone());
        let pairs: Vec<_> = all.iter().map(of).collect();
        let expected = ["11", "12", "13", "21", "22", "23"];
        let got: Vec<String> = pairs.iter().map(|(b, w)| format!("{b}{w}")).collect();
        assert_eq!(got, expected);
        let mut exclusion = selection("workers", &["1", "3"]);
        exclusion.insert("batch".into(), vec!["2".into()]);
        assert_eq!(combinations(&axes(), false, &[exclusion], 1).unwrap().len(), 4);
    }

    #[test]
    fn combinations_that_cannot_be_are_refused() {
        let problem = |axes: &[Axis], zip, exclude: &[Selection], repeat| {
            combinations(axes, zip, exclude, repeat).unwrap_err()
        };
        assert!(problem(&axes(), true, &[], 1).contains("`batch` has 2 values, `workers` has 3"));
        assert!(problem(&axes(), false, &[selection("batsh", &[])], 1).contains("`batch`"));
        assert!(problem(&axes(), false, &[selection("batch", &["3"])], 1).contains("never `3`"));
        let all = selection("batch", &["1", "2"]);
        assert!(problem(&axes(), false, &[all], 1).contains("every combination"));
        assert!(problem(&axes(), false, &[], usize::MAX).contains("more than"));
        assert_eq!(problem(&[], false, &[], 1), "nothing varies");
    }
}
