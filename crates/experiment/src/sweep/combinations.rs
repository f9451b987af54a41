//! Combinations of the values of several axes.

use std::collections::BTreeMap;

use dyno_loadgen::settings::known_names;
use dyno_results::sweep::{Axis, Selection};

/// Maximum number of combinations times repeats: a month of five-minute points.
pub const MOST_POINTS: usize = 10_000;

/// The values of one combination, by axis.
pub type Combination = BTreeMap<String, String>;

/// Returns all combinations that are not excluded; the last axis varies fastest.
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
            "{count} combinations, {repeat} times, exceed {MOST_POINTS} points; use fewer values \
             or repeats"
        ));
    }
    let combination = |mut at: usize| {
        let mut combination = Combination::new();
        for axis in axes.iter().rev() {
            let value = if is_zip { at } else { at % axis.values.len() };
            combination.insert(axis.key.clone(), axis.values[value].clone());
            if !is_zip {
                at /= axis.values.len();
            }
        }
        combination
    };
    let kept: Vec<Combination> = (0..count)
        .map(combination)
        .filter(|combination| !exclude.iter().any(|selection| is_selected(combination, selection)))
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
            "zipped lists must have the same length: `{}` has {} values, `{}` has {}",
            first.key,
            first.values.len(),
            other.key,
            other.values.len()
        )),
    }
}

/// Returns whether a combination has one of the values of each key.
pub fn is_selected(combination: &Combination, selection: &Selection) -> bool {
    selection
        .iter()
        .all(|(key, values)| combination.get(key).is_some_and(|value| values.contains(value)))
}

/// Rejects a selection that no combination can match, because a misspelled exclusion would run what
/// it should exclude.
///
/// # Errors
/// The unknown key or value, with the nearest one.
pub fn check_selection(selection: &Selection, axes: &[Axis]) -> Result<(), String> {
    for (key, values) in selection {
        let Some(axis) = axes.iter().find(|axis| axis.key == *key) else {
            let known = known_names(key, "axis", axes.iter().map(|axis| axis.key.as_str()));
            return Err(format!("`{key}` does not vary; {known}"));
        };
        for value in values {
            if !axis.values.contains(value) {
                let known = known_names(value, "value", axis.values.iter().map(String::as_str));
                return Err(format!("`{key}` is never `{value}`; {known}"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::read_axis;

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
        let combination = |c: &Combination| (c["batch"].clone(), c["workers"].clone());
        let pairs: Vec<_> = all.iter().map(combination).collect();
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
        assert!(problem(&axes(), false, &[], usize::MAX).contains("exceed"));
        assert_eq!(problem(&[], false, &[], 1), "nothing varies");
    }
}
