//! Checks the description of a measurement: its folder, its JSON file, its code.

use std::path::Path;

use super::catalogue::*;
use super::issues::{Issues, Location};
use super::{Place, Skip};
use crate::entry::Submitter;
use crate::facts::MeasurementFile;
use crate::facts::json::JsonFile;
use crate::facts::text;
use crate::python;
use crate::tree::Node;
use dyno_rules::Behavior;

/// File with the settings of the round.
const ROUND_SETTINGS: &str = "mlperf.conf";
/// Required fields of the JSON file.
const FIELDS: [&str; 5] = [
    "input_data_types",
    "retraining",
    "starting_weights_filename",
    "weight_data_types",
    "weight_transformations",
];
/// Name prefixes of the files that describe a power measurement.
const POWER: [&str; 2] = ["analyzer_table", "power_settings"];

/// Checks that the files of the folder exist.
pub fn check_files(place: &Place<'_, '_>, folder: Node<'_>, issues: &mut Issues) {
    let files = place.round.measurement_files.iter().map(String::as_str);
    let is_asked = place.options.program.does(Behavior::MlperfConf);
    let more =
        Some(ROUND_SETTINGS).filter(|name| is_asked && files.clone().all(|one| one != *name));
    check_listed(place, more.into_iter().chain(files), folder, issues);
}

/// Checks the files of an endpoint's result, whose settings are in the client's configuration
/// instead of `user.conf`.
pub fn check_endpoint_files(place: &Place<'_, '_>, folder: Node<'_>, issues: &mut Issues) {
    let files = place.round.measurement_files.iter().map(String::as_str);
    check_listed(place, files.filter(|name| *name != "user.conf"), folder, issues);
}

fn check_listed<'f>(
    place: &Place<'_, '_>,
    files: impl Iterator<Item = &'f str>,
    folder: Node<'_>,
    issues: &mut Issues,
) {
    let path = folder.path();
    for name in files {
        let path = path.join(name);
        let at = Location::path(&path);
        match folder.file(name) {
            None => issues.add(&MEASUREMENT_FILES, at, format!("{name} is missing")),
            Some(file) if file.size() == 0 && !place.options.skips(Skip::EmptyFiles) => {
                issues.add(&MEASUREMENT_EMPTY, at, format!("{name} is empty"));
            }
            Some(_) => {}
        }
    }
}

/// Checks that the files on the power measurement exist, in the folder or up to three folders
/// above.
pub fn check_power_files(place: &Place<'_, '_>, folder: Node<'_>, issues: &mut Issues) {
    if place.options.skips(Skip::PowerDescription) {
        return;
    }
    let above = std::iter::successors(Some(folder), |folder| folder.parent()).take(4);
    let is_one_file = place.options.program.one_file().is_some();
    let files = above.flat_map(|folder| {
        let mut files: Vec<Node<'_>> = folder.files().collect();
        if is_one_file {
            // It looks at the last file that the operating system lists.
            files.sort_by_key(|file| file.position());
        }
        files
    });
    let files: Vec<Node<'_>> = files.collect();
    let path = folder.path();
    for name in POWER {
        // The official checker uses a regular expression in which the dot matches any character.
        let fits =
            |file: &&Node<'_>| file.text().strip_prefix(name).is_some_and(|rest| !rest.is_empty());
        match files.iter().rfind(fits) {
            None => {
                let message = format!("{name}.* is missing");
                issues.add(&POWER_DESCRIPTION, Location::path(&path), message);
            }
            Some(file) if file.size() == 0 && !place.options.skips(Skip::EmptyFiles) => {
                let path = file.path();
                issues.add(&POWER_DESCRIPTION, Location::path(&path), "the file is empty");
            }
            Some(_) => {}
        }
    }
}

/// Checks that the JSON file has its fields.
pub fn check_fields(place: &Place<'_, '_>, json: &JsonFile, path: &Path, issues: &mut Issues) {
    for field in FIELDS {
        match json.get(field) {
            None => {
                let message = format!("the field `{field}` is missing");
                issues.add(&MEASUREMENT_FIELD, Location::path(path), message);
            }
            Some(value) if !python::is_true(value) && !place.options.skips(Skip::EmptyFields) => {
                let at = Location::path(path).line(json.line_of(field));
                let message = format!("the field `{field}` is empty");
                issues.add(&MEASUREMENT_FIELD_EMPTY, at, message);
            }
            Some(_) => {}
        }
    }
}

/// Checks that the submitter has a folder of code.
pub fn check_code_folder(submitter: &Submitter<'_>, issues: &mut Issues) {
    let code = submitter.layout.code();
    if submitter.folder.child(code).is_none() {
        let path = submitter.folder.path().join(code);
        let message = format!("the folder {code} is missing");
        issues.add(&CODE_ALL_MISSING, Location::path(&path), message);
    }
}

/// Checks that the code exists: a folder of the model, or a folder of the implementation that
/// the name of the JSON file contains; or a file with the name of the folder.
pub fn check_code(place: &Place<'_, '_>, measurement: &MeasurementFile<'_>, issues: &mut Issues) {
    let name = measurement.file.text();
    let scenario = format!("_{}.json", place.entry.name);
    let stem = name.strip_suffix(scenario.as_str()).or_else(|| name.strip_suffix(".json"));
    let stem = stem.unwrap_or(&name);
    let implementation = stem.get(place.system.name.len() + 1..).unwrap_or_default();
    let code = place.submitter.layout.code();
    let model_folder = format!("{code}/{}", place.model.name);
    let folder = match place.submitter.folder.file(&model_folder) {
        None => model_folder,
        Some(file) => {
            let named = text::read(Some(file));
            let is_text = named.as_ref().is_ok_and(|named| named.is_utf8);
            if place.options.program.one_file().is_some() && !is_text {
                issues.crash(Location::path(&file.path()), "the file is not UTF-8");
            }
            format!("{code}/{}", named.map(|named| named.text).unwrap_or_default().trim())
        }
    };
    // An implementation without its own folder is in the model's folder.
    let exists = |path: &str| {
        let submitter = place.submitter.folder;
        match place.options.program.one_file() {
            // This program follows `..`.
            Some(_) => submitter.absolute().join(path).exists(),
            None => submitter.below(path).is_some(),
        }
    };
    if !exists(&format!("{folder}/{implementation}")) && !exists(&folder) {
        let path = place.submitter.folder.path().join(&folder);
        issues.add(&CODE_MISSING, Location::path(&path), "the code of the model is missing");
    }
}
