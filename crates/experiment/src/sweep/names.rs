//! Names of the points of a sweep.

use std::collections::BTreeMap;
use std::path::Path;

use dyno_results::sweep::Axis;

use super::combinations::{Combination, is_selected};
use crate::options::{Annotation, SweepTable};

/// Maximum number of characters of a name made of values, and of any name of a folder. File systems
/// allow some 250 bytes.
pub(super) const NAME_CHARS: usize = 60;

/// Returns unique names of the points. They are short, unless files with equal names in several
/// folders need longer ones. A name that is given to several points is followed by the values that
/// differ, and names that are equal after truncation by numbers.
pub(super) fn names(all: &[Combination], axes: &[Axis], table: &SweepTable) -> Vec<String> {
    let names =
        |stem| all.iter().map(move |combination| name(combination, axes, &table.points, stem));
    let mut found: Vec<String> = names(stem as fn(&str) -> String).collect();
    let whole: Vec<String> = names(str::to_string).collect();
    for at in ambiguous(&found).into_values().flatten() {
        found[at].clone_from(&whole[at]);
    }
    for group in ambiguous(&found).into_values() {
        let differs =
            |axis: &&Axis| group.iter().any(|&at| all[at][&axis.key] != all[group[0]][&axis.key]);
        let differing: Vec<&Axis> = axes.iter().filter(differs).collect();
        for &at in &group {
            let parts = differing.iter().map(|axis| part(axis, &all[at], str::to_string));
            let parts: Vec<String> = parts.collect();
            found[at] = format!("{}-{}", found[at], parts.join("-"));
        }
    }
    for at in ambiguous(&found).into_values().flatten() {
        found[at] = format!("{}-{}", found[at], at + 1);
    }
    found
}

/// Returns the positions of names that occur several times.
fn ambiguous(names: &[String]) -> BTreeMap<String, Vec<usize>> {
    let mut places = BTreeMap::<String, Vec<usize>>::new();
    for (at, name) in names.iter().enumerate() {
        places.entry(name.clone()).or_default().push(at);
    }
    places.retain(|_, places| places.len() > 1);
    places
}

/// Returns the name of a point from the file, or made of its values. `stem` shortens values.
fn name(
    combination: &Combination,
    axes: &[Axis],
    annotations: &[Annotation],
    stem: fn(&str) -> String,
) -> String {
    let said = annotations.iter().rev().filter(|a| is_selected(combination, &a.selection));
    if let Some(name) = said.filter_map(|a| a.name.clone()).next() {
        return name;
    }
    let parts: Vec<String> = axes.iter().map(|axis| part(axis, combination, stem)).collect();
    parts.join("-").chars().take(NAME_CHARS).collect()
}

/// Returns the part of a name for the value of an axis.
fn part(axis: &Axis, combination: &Combination, stem: fn(&str) -> String) -> String {
    let value = &combination[&axis.key];
    let key = axis.key.rsplit('.').next().unwrap_or(&axis.key);
    match key {
        "scenario" => value.clone(),
        "server_target_qps" => format!("qps-{value}"),
        "system" | "model" | "data" | "labels" => stem(value),
        _ => format!("{key}-{value}"),
    }
}

/// Shortens a value: `onnx:models/a.onnx` is `onnx-a`, which distinguishes the models of a list.
fn stem(value: &str) -> String {
    let (system, file) = value.split_once(':').unwrap_or(("", value));
    let stem = Path::new(file).file_stem().and_then(|stem| stem.to_str()).unwrap_or(file);
    if system.is_empty() { stem.to_string() } else { format!("{system}-{stem}") }
}
