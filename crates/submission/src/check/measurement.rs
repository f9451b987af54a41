//! The description of a measurement: its folder, its JSON file, its code.

use std::path::Path;

use super::catalogue::*;
use super::issues::{At, Issues};
use super::{Place, Skip};
use crate::facts::Measurement;
use crate::facts::json::JsonFile;
use crate::facts::text;
use crate::python;
use crate::tree::Node;

/// Fields of the JSON file.
const FIELDS: [&str; 5] = [
    "input_data_types",
    "retraining",
    "starting_weights_filename",
    "weight_data_types",
    "weight_transformations",
];
/// Files that describe how power was measured, by the beginning of their names.
const POWER: [&str; 2] = ["analyzer_table", "power_settings"];

/// Whether the files of the folder are there.
pub fn check_files(place: &Place<'_, '_>, folder: Node<'_>, issues: &mut Issues) {
    check_listed(place, &place.round.measurement_files, folder, issues);
}

/// As [`check_files`] for a result of an endpoint, whose settings are in the client's
/// configuration and not in LoadGen's.
pub fn check_files_of_endpoint(place: &Place<'_, '_>, folder: Node<'_>, issues: &mut Issues) {
    let files = place.round.measurement_files.iter().filter(|name| *name != "user.conf");
    check_listed(place, files, folder, issues);
}

fn check_listed<'f>(
    place: &Place<'_, '_>,
    files: impl IntoIterator<Item = &'f String>,
    folder: Node<'_>,
    issues: &mut Issues,
) {
    let path = folder.path();
    for name in files {
        let at = path.join(name);
        let at = At::path(&at);
        match folder.file(name) {
            None => issues.add(&MEASUREMENT_FILES, at, format!("there is no {name}")),
            Some(file) if file.size() == 0 && !place.options.skips(Skip::EmptyFiles) => {
                issues.add(&MEASUREMENT_EMPTY, at, format!("{name} is empty"));
            }
            Some(_) => {}
        }
    }
}

/// Whether the files are there that describe how power was measured: in the folder, or
/// up to three folders above.
pub fn check_power_files(place: &Place<'_, '_>, folder: Node<'_>, issues: &mut Issues) {
    if place.options.skips(Skip::PowerDescription) {
        return;
    }
    let above = std::iter::successors(Some(folder), |folder| folder.parent()).take(4);
    let files: Vec<Node<'_>> = above.flat_map(Node::files).collect();
    let path = folder.path();
    for name in POWER {
        // The pattern of the official program: the dot stands for any character.
        let fits =
            |file: &&Node<'_>| file.text().strip_prefix(name).is_some_and(|rest| !rest.is_empty());
        match files.iter().rfind(fits) {
            None => {
                let message = format!("there is no {name}.*");
                issues.add(&POWER_DESCRIPTION, At::path(&path), message);
            }
            Some(file) if file.size() == 0 && !place.options.skips(Skip::EmptyFiles) => {
                let path = file.path();
                issues.add(&POWER_DESCRIPTION, At::path(&path), "the file is empty");
            }
            Some(_) => {}
        }
    }
}

/// Whether the JSON file has its fields.
pub fn check_fields(place: &Place<'_, '_>, json: &JsonFile, path: &Path, issues: &mut Issues) {
    for field in FIELDS {
        match json.get(field) {
            None => {
                let message = format!("there is no field `{field}`");
                issues.add(&MEASUREMENT_FIELD, At::path(path), message);
            }
            Some(value) if !python::is_true(value) && !place.options.skips(Skip::EmptyFields) => {
                let at = At::path(path).line(json.line_of(field));
                let message = format!("the field `{field}` says nothing");
                issues.add(&MEASUREMENT_FIELD_EMPTY, at, message);
            }
            Some(_) => {}
        }
    }
}

/// Whether the code of the model is there: a folder for it, or for this implementation
/// of it, which stands in the name of the JSON file; or a file that names the folder.
pub fn check_code(place: &Place<'_, '_>, measurement: &Measurement<'_>, issues: &mut Issues) {
    let name = measurement.file.text();
    let scenario = format!("_{}.json", place.entry.name);
    let stem = name.strip_suffix(scenario.as_str()).or_else(|| name.strip_suffix(".json"));
    let stem = stem.unwrap_or(&name);
    let implementation = stem.get(place.system.name.len() + 1..).unwrap_or_default();
    let code = place.submitter.layout.code();
    let of_model = format!("{code}/{}", place.model.name);
    let folder = match place.submitter.folder.file(&of_model) {
        None => of_model,
        Some(file) => {
            let named = text::read(Some(file)).map(|file| file.text).unwrap_or_default();
            format!("{code}/{}", named.trim())
        }
    };
    // An implementation without a folder of its own is in that of the model.
    let there = |path: &str| place.submitter.folder.below(path).is_some();
    if !there(&format!("{folder}/{implementation}")) && !there(&folder) {
        let path = place.submitter.folder.path().join(&folder);
        issues.add(&CODE_MISSING, At::path(&path), "there is no code of the model");
    }
}
