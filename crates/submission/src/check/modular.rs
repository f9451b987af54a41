//! The sequence of the official checker in modules, used for v6.0 and v6.1.
//!
//! It loads everything a result has, and ends with a traceback where that fails; then
//! it judges each result by itself. It has no checks of names, sizes and structure.

use serde_json::Value;

use super::accuracy::{self, Accuracy};
use super::catalogue::*;
use super::endpoint::OnEndpoint;
use super::issues::{At, Issues};
use super::performance::{Metric, Run};
use super::rows::Result_;
use super::work::{self, Judged, Work};
use super::{
    Checked, Options, Outcome, Place, Program, Skip, audits, measurement, powered, system,
};
use crate::entry::{Entry, Guesses, Submitter, System, submitters};
use crate::facts::detail::DetailLog;
use crate::facts::json::{self, JsonFile, JsonProblem};
use crate::facts::{Facts, Missing, text};
use crate::layout::{DETAIL, Layout, SYSTEMS};
use crate::power::nameplate::{self, NameplateError};
use crate::python;
use crate::table::Column;
use crate::tree::{Node, Tree};
use dyno_rules::{Round, Scenario, Version};

/// Checks a tree.
pub fn check(tree: &Tree, round: &'static Round, options: &Options) -> Checked {
    let mut around = Judged::new(Program::Modular);
    let found = submitters(tree, round, Guesses::Modular);
    let mut systems = Vec::new();
    for submitter in found.iter().filter(|one| options.wants(one)) {
        load_submitter(submitter, &mut around.issues);
        for system in &submitter.systems {
            let described = describe(submitter, system, round, options, &mut around.issues);
            systems.push((submitter, system, described));
        }
    }
    work::judge(tree, &systems, (round, options), around, judge)
}

fn load_submitter(submitter: &Submitter<'_>, issues: &mut Issues) {
    let path = submitter.folder.path();
    if submitter.results.is_none() {
        issues.add(&NO_RESULTS_FOLDER, At::path(&path), "there is no folder results");
        issues.crash(At::path(&path), "there is no folder results");
    }
    if let Some(problem) = &submitter.names.problem {
        let path = path.join("model_mapping.json");
        let at = At::path(&path).line(problem.line);
        issues.add(&MODEL_NAMES, at, problem.to_string());
        issues.crash(at, "model_mapping.json does not read");
    }
}

/// A system with the description that it has, whatever is wrong with it.
struct Described {
    json: JsonFile,
    passes: bool,
    /// Design power, W, where it is told.
    design_power: String,
}

fn describe(
    submitter: &Submitter<'_>,
    system: &System<'_>,
    round: &'static Round,
    options: &Options,
    issues: &mut Issues,
) -> Option<Described> {
    let Some(file) = system.description else {
        let path = system.folder.path();
        issues.add(&SYSTEM_MISSING, At::path(&path), "the system is not described");
        issues.crash(At::path(&path), "the system is not described");
        return None;
    };
    let path = file.path();
    let json = match json::read(file).or_else(JsonProblem::to_python) {
        Ok(json) if json.object().is_some() => json,
        read => {
            let line = read.as_ref().err().and_then(|problem| problem.line);
            let why = read.err().map_or("no JSON object".to_owned(), |problem| problem.to_string());
            let at = At::path(&path).line(line);
            issues.add(&SYSTEM_JSON, at, why);
            issues.crash(at, "the description does not read");
            return None;
        }
    };
    let mut own = Issues::new(Program::Modular);
    system::Description { json: &json, path: &path, submitter, round, options }.judge(&mut own);
    let passes = own.passes();
    issues.append(own);
    load_nameplate(submitter, system, round, issues);
    let design_power = design_power(submitter, system, &json, round);
    Some(Described { json, passes, design_power })
}

/// What describes the power supplies of a system, from v6.1.
pub(super) fn nameplate_file<'t>(
    submitter: &Submitter<'t>,
    system: &System<'t>,
    round: &Round,
) -> Option<Node<'t>> {
    let file = submitter.folder.file(format!("{SYSTEMS}/{}_power.yaml", system.name));
    file.filter(|_| round.version >= Version::new(6, 1))
}

/// From v6.1 the program loads what describes the power supplies before it looks at
/// anything, so that a file that is no YAML ends it.
fn load_nameplate(
    submitter: &Submitter<'_>,
    system: &System<'_>,
    round: &Round,
    issues: &mut Issues,
) {
    let Some(file) = nameplate_file(submitter, system, round) else { return };
    let path = file.path();
    match text::read(Some(file)) {
        Ok(said) if said.is_utf8 => {
            if let Err(problem @ NameplateError::Unreadable { .. }) =
                nameplate::design_watts(&said.text)
            {
                issues.crash(At::path(&path), &problem.to_string());
            }
        }
        _ => issues.crash(At::path(&path), "is no UTF-8, or cannot be read"),
    }
}

/// Design power as the table has it: of the description, or of the power supplies.
pub(super) fn design_power(
    submitter: &Submitter<'_>,
    system: &System<'_>,
    json: &JsonFile,
    round: &Round,
) -> String {
    if round.version < Version::new(6, 1) {
        return String::new();
    }
    if let Some(capacity) = json.get("system_power_capacity").filter(|value| python::is_true(value))
    {
        return python::text(capacity);
    }
    let file = nameplate_file(submitter, system, round);
    let text = text::read(file).map(|file| file.text).unwrap_or_default();
    nameplate::design_watts(&text).map(python::float).unwrap_or_default()
}

fn judge(work: &Work<'_, '_, Option<Described>>) -> Judged {
    let mut judged = Judged::new(Program::Modular);
    let is_complete = scenarios(work, &mut judged.issues);
    for entry in &work.model.results {
        if work.options.scenarios_to_skip.contains(&entry.name) {
            continue;
        }
        let outcome = match work.described {
            Some(described) => self::entry(work, entry, described, is_complete, &mut judged),
            None => Outcome::Invalid,
        };
        judged.listed.push((entry.folder.path(), outcome));
    }
    judged
}

/// Whether the model is known and its scenarios are complete; asked of the closed
/// and network divisions.
fn scenarios(work: &Work<'_, '_, Option<Described>>, issues: &mut Issues) -> bool {
    let path = work.model.folder.path();
    let at = At::path(&path);
    if work.model.benchmark.is_none() {
        issues.add(&MODEL_UNKNOWN, at, format!("the round has no model {}", work.model.official));
    }
    if !work.submitter.division.is_closed_or_network() {
        return work.model.benchmark.is_some();
    }
    let Some(described) = work.described else { return false };
    let Some(suite) = system::suite(&described.json, work.round) else {
        issues.crash(at, "the type of the system is none");
        return false;
    };
    let Some(wanted) = work.model.benchmark.and_then(|b| b.scenarios_in(suite)) else {
        let message = format!("{} has no scenarios of {}", work.model.official, suite.name());
        issues.add(&MODEL_SUITE, at, message);
        issues.crash(at, "the model has no scenarios for this type of system");
        return false;
    };
    let there = |scenario: &Scenario| {
        work.model.results.iter().any(|entry| entry.scenario == Some(*scenario))
    };
    let missing = wanted.required.iter().filter(|scenario| !there(scenario));
    let mut missing: Vec<&str> = missing.map(|scenario| scenario.name()).collect();
    let either = [Scenario::Server, Scenario::Interactive];
    if either.iter().all(|one| wanted.optional.contains(one) && !there(one)) {
        missing.push("Server or Interactive");
    }
    if !missing.is_empty() {
        issues.add(&SCENARIOS_MISSING, at, format!("there is no {}", missing.join(", ")));
    }
    let mut is_complete = missing.is_empty();
    for entry in &work.model.results {
        let known = |one: &Scenario| Some(*one) == entry.scenario;
        if !wanted.required.iter().chain(&wanted.optional).any(known) {
            let path = entry.folder.path();
            let message = format!("{} is no scenario of {}", entry.name, work.model.official);
            issues.add(&SCENARIO_UNKNOWN, At::path(&path), message);
            is_complete = false;
        }
    }
    is_complete
}

fn entry<'a, 't>(
    work: &Work<'a, 't, Option<Described>>,
    entry: &'a Entry<'t>,
    described: &Described,
    is_complete: bool,
    judged: &mut Judged,
) -> Outcome {
    let Work { options, submitter, .. } = *work;
    let place = work.place(entry, entry.scenario, &described.json);
    let facts = work.facts(entry);
    let mut own = Issues::new(Program::Modular);
    load(&place, &facts, &mut own);
    let (metric, accuracy) = match OnEndpoint::of(&place, &facts) {
        Some(on) => {
            let metric = on.performance(&mut own);
            let accuracy = on.accuracy(&mut own);
            on.audits(&mut own);
            (metric, accuracy)
        }
        None => {
            let metric = performance(&place, &facts, &mut own);
            (metric, accuracy_of(&place, &facts, &mut own))
        }
    };
    let measurement = measurement_of(&place, &facts, &mut own);
    let is_audited = facts.endpoint.is_none() && submitter.division.is_closed_or_network();
    if is_audited && !options.skips(Skip::Compliance) {
        audits::judge(&place, &facts, &mut own);
    }
    let has_power = entry.power().is_some();
    let energy = if has_power { powered::judge(&place, &facts, &mut own) } else { None };
    let passes = own.passes() && described.passes && is_complete;
    judged.issues.append(own);
    let (Some(metric), Some(measurement)) = (metric.filter(|_| passes), measurement) else {
        return Outcome::Invalid;
    };
    let own = own_columns(&place, described, &facts, &mut judged.issues);
    let result =
        Result_ { place: &place, metric: &metric, accuracy: &accuracy, energy, measurement, own };
    judged.rows.extend(result.rows(&mut judged.issues));
    Outcome::Valid { metric: metric.value }
}

/// What must load: without it the program ends.
fn load(place: &Place<'_, '_>, facts: &Facts<'_>, issues: &mut Issues) {
    let folder = place.entry.folder.path();
    let logs = [("performance/run_1", &facts.performance), ("accuracy", &facts.accuracy)];
    for (name, log) in logs.into_iter().filter(|_| facts.endpoint.is_none()) {
        let path = folder.join(name).join(DETAIL);
        if log.is_err() {
            issues.crash(At::path(&path), "there is no detail log");
        }
        load_log(At::path(&path), log, issues);
    }
    for audit in &facts.audits {
        if matches!(audit.name.as_str(), "TEST01" | "TEST04") {
            let path = audit.folder.path().join("performance/run_1").join(DETAIL);
            load_log(At::path(&path), &audit.performance, issues);
        }
    }
    if facts.accuracy_text.as_ref().is_ok_and(|said| !said.is_utf8) {
        let path = folder.join("accuracy/accuracy.txt");
        issues.crash(At::path(&path), "accuracy.txt is no UTF-8");
    }
    if place.submitter.layout != Layout::Together && place.entry.measurements.is_none() {
        issues.crash(At::path(&folder), "the folder that describes the measurement is missing");
    }
    if let Some(measurement) = &facts.measurement
        && let Err(problem) = measurement.json.as_ref().or_else(|problem| problem.as_python())
    {
        let path = measurement.file.path();
        let at = At::path(&path).line(problem.line);
        issues.add(&MEASUREMENT_JSON, at, problem.to_string());
        issues.crash(at, "the description of the measurement does not read");
    }
}

fn load_log(at: At<'_>, log: &Result<DetailLog, Missing>, issues: &mut Issues) {
    let Ok(log) = log else { return };
    if !log.begins_with_marker {
        issues.crash(at.line(Some(1)), "the first line is none of LoadGen's");
    } else if let Some(line) = log.broken(true) {
        issues.crash(at.line(Some(line)), "a line is no JSON object");
    }
}

fn performance(place: &Place<'_, '_>, facts: &Facts<'_>, issues: &mut Issues) -> Option<Metric> {
    let path = place.entry.folder.path().join("performance/run_1").join(DETAIL);
    match &facts.performance {
        Ok(log) => Run { place, log, path: &path, is_audit: false }.judge(issues),
        Err(_) => {
            issues.add(&RUN_UNREADABLE, At::path(&path), "there is no detail log");
            None
        }
    }
}

fn accuracy_of(place: &Place<'_, '_>, facts: &Facts<'_>, issues: &mut Issues) -> Accuracy {
    let folder = place.entry.folder.path().join("accuracy");
    let at = At::path(&folder);
    let Some(node) = place.entry.accuracy() else {
        issues.add(&ACCURACY_TEXT_MISSING, at, "there is no accuracy run");
        return Accuracy::default();
    };
    let (text_path, log_path) = accuracy::paths(node);
    let accuracy = match &facts.accuracy_text {
        Ok(said) => {
            let mut own = Issues::new(Program::Modular);
            let accuracy = accuracy::check_text(place, said, &text_path, &mut own);
            if !place.submitter.division.is_closed_or_network() {
                own.waive(ALL);
            }
            issues.append(own);
            accuracy
        }
        Err(_) => {
            issues.add(&ACCURACY_TEXT_MISSING, at, "there is no accuracy.txt");
            Accuracy::default()
        }
    };
    accuracy::check_log(node, issues);
    if let Ok(log) = &facts.accuracy {
        accuracy::check_errors(place, log, &log_path, issues);
        accuracy::check_samples(place, log, &log_path, issues);
    }
    accuracy::check_outputs(place, node, issues);
    accuracy
}

fn measurement_of<'a>(
    place: &Place<'_, '_>,
    facts: &'a Facts<'_>,
    issues: &mut Issues,
) -> Option<&'a JsonFile> {
    let submitter = place.submitter.folder;
    let code = place.submitter.layout.code();
    if submitter.child(code).is_none() {
        let path = submitter.path().join(code);
        issues.add(&CODE_ALL_MISSING, At::path(&path), format!("there is no folder {code}"));
    }
    let path = place.entry.folder.path();
    let Some(folder) = place.entry.measurements else {
        issues.add(&MEASUREMENT_FOLDER, At::path(&path), "the measurement is not described");
        return None;
    };
    measurement::check_files(place, folder, issues);
    let Some(measurement) = &facts.measurement else {
        let path = folder.path();
        let message = "no JSON file describes the measurement";
        issues.add(&MEASUREMENT_JSON_MISSING, At::path(&path), message);
        return None;
    };
    let json = measurement.json.as_ref().or_else(|problem| problem.as_python()).ok()?;
    measurement::check_fields(place, json, &measurement.file.path(), issues);
    Some(json)
}

/// The columns that this program fills in its own way.
fn own_columns(
    place: &Place<'_, '_>,
    described: &Described,
    facts: &Facts<'_>,
    issues: &mut Issues,
) -> Vec<(Column, String)> {
    let location = place.entry.folder.path().join("performance/run_1");
    // Case counts here, and that LoadGen plays Interactive as Server does not.
    let of_client = facts.endpoint.as_ref().map(|said| &said.performance);
    let log = facts.performance.as_ref().ok().or(of_client);
    let played = log.and_then(|log| log.text("effective_scenario"));
    let inferred = u8::from(played != Some(place.entry.name.as_str()));
    let total = total_accelerators(&described.json);
    if total.is_empty() {
        let why = "nodes and accelerators are no whole numbers";
        issues.crash(At::path(&location), why);
    }
    vec![
        (Column::Scenario, place.entry.name.clone()),
        (Column::Location, location.to_string_lossy().into_owned()),
        (Column::Compliance, place.submitter.division.name().to_owned()),
        (Column::Errors, "0".to_owned()),
        (Column::Inferred, inferred.to_string()),
        (Column::TotalAccelerators, total),
        (Column::DesignPower, described.design_power.clone()),
    ]
}

/// Accelerators of all nodes; empty where one of the two counts is no whole number.
pub(super) fn total_accelerators(description: &JsonFile) -> String {
    let count = |field| description.get(field).and_then(whole);
    let total = count("number_of_nodes").zip(count("accelerators_per_node"));
    let total = total.and_then(|(nodes, accelerators)| nodes.checked_mul(accelerators));
    total.map(|total| total.to_string()).unwrap_or_default()
}

/// A whole number as Python's `int` makes one: of numbers and of texts.
fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::Bool(flag) => Some(i64::from(*flag)),
        Value::String(text) => text.trim().parse().ok(),
        #[expect(clippy::cast_possible_truncation, reason = "this is what `int` does")]
        value => value.as_i64().or_else(|| value.as_f64().map(|number| number as i64)),
    }
}
