//! Sequence of the official modular checker, used for v6.0 and v6.1.
//!
//! It first loads all files of the results and ends with a traceback if that fails. Then it
//! judges each result independently. It does not check names, sizes and structure.

use super::accuracy::{self, Accuracy};
use super::catalogue::*;
use super::endpoint::EndpointResult;
use super::issues::{Issues, Location};
use super::performance::{Metric, Run};
use super::rows::ValidResult;
use super::work::{self, ModelReport, Work};
use super::{
    CheckReport, Options, Outcome, Place, Program, Skip, audits, measurement, mono, powered,
    structure, system,
};
use crate::entry::{Entry, Guesses, Submitter, System, is_in_round, submitters};
use crate::facts::detail::DetailLog;
use crate::facts::json::{self, JsonFile, JsonProblem};
use crate::facts::{Audit, Facts, ReadError, text};
use crate::layout::{ACCURACY_TEXT, DETAIL, Layout, SYSTEMS};
use crate::power::nameplate::{self, NameplateError};
use crate::python;
use crate::table::Column;
use crate::tree::{Node, Tree};
use dyno_rules::{Round, RuleScenario, Version};

/// Checks a tree.
pub fn check(tree: &Tree, round: &'static Round, options: &Options) -> CheckReport {
    let mut report = ModelReport::new(Program::Modular);
    let found = submitters(tree, round, Guesses::Modular);
    let mut systems = Vec::new();
    for submitter in found.iter().filter(|one| options.wants(one)) {
        load_submitter(submitter, &mut report.issues);
        for system in &submitter.systems {
            let system_info = describe(submitter, system, round, options, &mut report.issues);
            systems.push((submitter, system, system_info));
        }
    }
    work::judge(tree, &systems, round, options, report, judge)
}

fn load_submitter(submitter: &Submitter<'_>, issues: &mut Issues) {
    let path = submitter.folder.path();
    if submitter.results.is_none() {
        issues.add(&NO_RESULTS_FOLDER, Location::path(&path), "the folder results is missing");
        issues.crash(Location::path(&path), "the folder results is missing");
    }
    structure::check_mapping(submitter, issues);
}

/// Data on a system, valid or not.
struct SystemInfo {
    json: JsonFile,
    passes: bool,
    /// Design power in W, if known; an error if the program cannot compute it.
    design_power: Result<Option<String>, String>,
}

fn describe(
    submitter: &Submitter<'_>,
    system: &System<'_>,
    round: &'static Round,
    options: &Options,
    issues: &mut Issues,
) -> Option<SystemInfo> {
    let Some(file) = system.description else {
        let path = system.folder.path();
        issues.add(&SYSTEM_MISSING, Location::path(&path), "the system is not described");
        issues.crash(Location::path(&path), "the system is not described");
        return None;
    };
    let path = file.path();
    let json = match json::read(file).or_else(JsonProblem::to_python) {
        Ok(json) if json.object().is_some() => json,
        read => {
            let line = read.as_ref().err().and_then(|problem| problem.line);
            let why = read.err().map_or("no JSON object".to_owned(), |problem| problem.to_string());
            let at = Location::path(&path).line(line);
            issues.add(&SYSTEM_JSON, at, why);
            issues.crash(at, "the description cannot be parsed");
            return None;
        }
    };
    let mut own = Issues::new(Program::Modular);
    system::SystemDescription { json: &json, path: &path, submitter, round, options }
        .judge(&mut own);
    let passes = own.passes();
    issues.append(own);
    load_nameplate(submitter, system, round, issues);
    let design_power = design_power(submitter, system, &json, round, options.program);
    Some(SystemInfo { json, passes, design_power })
}

/// Returns the file that describes the power supplies of a system, from v6.1 on.
pub(super) fn nameplate_file<'t>(
    submitter: &Submitter<'t>,
    system: &System<'t>,
    round: &Round,
) -> Option<Node<'t>> {
    let file = submitter.folder.file(format!("{SYSTEMS}/{}_power.yaml", system.name));
    file.filter(|_| round.version >= Version::new(6, 1))
}

/// Loads the power supplies of a system. From v6.1 the checker does this first and crashes if
/// the file is not YAML.
fn load_nameplate(
    submitter: &Submitter<'_>,
    system: &System<'_>,
    round: &Round,
    issues: &mut Issues,
) {
    let Some(file) = nameplate_file(submitter, system, round) else { return };
    let path = file.path();
    match text::read(Some(file)) {
        Ok(file) if file.is_utf8 => {
            if let Err(problem @ NameplateError::Unreadable { .. }) =
                nameplate::design_watts(&file.text)
            {
                issues.crash(Location::path(&path), &problem.to_string());
            }
        }
        _ => issues.crash(Location::path(&path), "is not UTF-8, or cannot be read"),
    }
}

/// Returns the design power for the table, if it is known: from the description, or from the power
/// supplies. By the rules, it is unknown if the description of the supplies is incomplete.
///
/// # Errors
/// Fails if the official program cannot add the capacities of the power supplies.
pub(super) fn design_power(
    submitter: &Submitter<'_>,
    system: &System<'_>,
    json: &JsonFile,
    round: &Round,
    program: Program,
) -> Result<Option<String>, String> {
    if round.version < Version::new(6, 1) {
        return Ok(None);
    }
    if let Some(capacity) = json.get("system_power_capacity") {
        return Ok(Some(python::text(capacity)));
    }
    let Some(file) = nameplate_file(submitter, system, round) else { return Ok(None) };
    let text = text::read(Some(file)).map_err(|_| "cannot be read".to_owned())?;
    if program == Program::Strict && nameplate::design_watts(&text.text).is_err() {
        return Ok(None);
    }
    let watts = nameplate::official_watts(&text.text);
    watts.map(Some).ok_or_else(|| "the capacities of the power supplies cannot be added".to_owned())
}

fn judge(work: &Work<'_, '_, Option<SystemInfo>>) -> ModelReport {
    let mut report = ModelReport::new(Program::Modular);
    let names = &work.submitter.names;
    if names.is_no_object && !is_in_round(work.round, &work.model.name) {
        let path = work.model.folder.path();
        let message = "model_mapping.json has no names to look up";
        report.issues.crash(Location::path(&path), message);
    }
    let is_complete = scenarios(work, &mut report.issues);
    for entry in &work.model.results {
        if work.options.scenarios_to_skip.contains(&entry.name) {
            continue;
        }
        let outcome = match work.system_info {
            Some(system_info) => self::entry(work, entry, system_info, is_complete, &mut report),
            None => Outcome::Invalid,
        };
        report.listed.push((entry.folder.path(), outcome));
    }
    report
}

/// Checks that the model is known and, in the closed and network divisions, that its scenarios
/// are complete.
fn scenarios(work: &Work<'_, '_, Option<SystemInfo>>, issues: &mut Issues) -> bool {
    let path = work.model.folder.path();
    let at = Location::path(&path);
    if work.model.benchmark.is_none() {
        issues.add(&MODEL_UNKNOWN, at, format!("the round has no model {}", work.model.official));
    }
    if !work.submitter.division.is_closed_or_network() {
        return work.model.benchmark.is_some();
    }
    let Some(system_info) = work.system_info else { return false };
    let Some(suite) = system::suite(&system_info.json, work.round) else {
        issues.crash(at, "the type of the system is missing");
        return false;
    };
    let Some(wanted) = work.model.benchmark.and_then(|b| b.scenarios_in(suite)) else {
        let message = format!("{} has no scenarios of {}", work.model.official, suite.name());
        issues.add(&MODEL_SUITE, at, message);
        issues.crash(at, "the model has no scenarios for this type of system");
        return false;
    };
    let has_result = |scenario: &RuleScenario| {
        work.model.results.iter().any(|entry| entry.scenario == Some(*scenario))
    };
    let missing = wanted.required.iter().filter(|scenario| !has_result(scenario));
    let mut missing: Vec<&str> = missing.map(|scenario| scenario.name()).collect();
    let either = [RuleScenario::Server, RuleScenario::Interactive];
    if either.iter().all(|one| wanted.optional.contains(one) && !has_result(one)) {
        missing.push("Server or Interactive");
    }
    if !missing.is_empty() {
        issues.add(&SCENARIOS_MISSING, at, format!("{} is missing", missing.join(", ")));
    }
    let mut is_complete = missing.is_empty();
    for entry in &work.model.results {
        let known = |one: &RuleScenario| Some(*one) == entry.scenario;
        if !wanted.required.iter().chain(&wanted.optional).any(known) {
            let path = entry.folder.path();
            let message = format!("{} is not a scenario of {}", entry.name, work.model.official);
            issues.add(&SCENARIO_UNKNOWN, Location::path(&path), message);
            is_complete = false;
        }
    }
    is_complete
}

fn entry<'a, 't>(
    work: &Work<'a, 't, Option<SystemInfo>>,
    entry: &'a Entry<'t>,
    system_info: &SystemInfo,
    is_complete: bool,
    report: &mut ModelReport,
) -> Outcome {
    let Work { options, submitter, .. } = *work;
    let place = work.place(entry, entry.scenario, &system_info.json);
    let facts = work.facts(entry);
    let is_audited = facts.endpoint.is_none() && submitter.division.is_closed_or_network();
    let mut own = Issues::new(Program::Modular);
    load(&place, &facts, &mut own);
    if entry.scenario.is_none() && facts.endpoint.is_none() && !is_audited {
        let path = entry.folder.path();
        let message = format!("{} is not a scenario", entry.name);
        own.add(&SCENARIO_UNKNOWN, Location::path(&path), message);
    }
    let (metric, accuracy) = match EndpointResult::find(&place, &facts) {
        Some(result) => {
            let metric = result.performance(&mut own);
            let accuracy = result.accuracy(&mut own);
            result.audits(&mut own);
            (metric, accuracy)
        }
        None => {
            let metric = performance(&place, &facts, &mut own);
            (metric, accuracy_of(&place, &facts, &mut own))
        }
    };
    let measurement = measurement_of(&place, &facts, &mut own);
    if is_audited && !options.skips(Skip::Compliance) {
        audits::judge(&place, &facts, &mut own);
    }
    let has_power = entry.power().is_some();
    let energy = if has_power { powered::judge(&place, &facts, &mut own) } else { None };
    if has_power && let Err(why) = &system_info.design_power {
        let path =
            submitter.folder.path().join(format!("{SYSTEMS}/{}_power.yaml", work.system.name));
        own.add(&SYSTEM_NAMEPLATE, Location::path(&path), why.clone());
    }
    let passes = own.passes() && system_info.passes && is_complete;
    report.issues.append(own);
    let (Some(metric), Some(measurement)) = (metric.filter(|_| passes), measurement) else {
        return Outcome::Invalid;
    };
    let own = own_columns(&place, system_info, &facts, &mut report.issues);
    let result = ValidResult {
        place: &place,
        metric: &metric,
        accuracy: &accuracy,
        energy,
        measurement,
        own,
    };
    report.rows.extend(result.rows(&mut report.issues));
    Outcome::Valid { metric: metric.value }
}

/// Reports files that end the checker while it loads them.
fn load(place: &Place<'_, '_>, facts: &Facts<'_>, issues: &mut Issues) {
    let folder = place.entry.folder.path();
    let logs = [("performance/run_1", &facts.performance), ("accuracy", &facts.accuracy)];
    for (name, log) in logs.into_iter().filter(|_| facts.endpoint.is_none()) {
        let path = folder.join(name).join(DETAIL);
        if log.is_err() {
            issues.crash(Location::path(&path), "the detail log is missing");
        }
        load_log(Location::path(&path), log, issues);
    }
    for audit in &facts.audits {
        load_audit(audit, issues);
    }
    if let Some(folder) = place.entry.accuracy() {
        let is_utf8 = facts.accuracy_text.as_ref().is_ok_and(|text| text.is_utf8);
        load_text(folder, ACCURACY_TEXT, is_utf8, issues);
    }
    if let Some(folder) = place.entry.measurements
        && place.submitter.layout == Layout::Together
    {
        load_text(folder, "measurements.json", true, issues);
    }
    if place.submitter.layout != Layout::Together && place.entry.measurements.is_none() {
        issues
            .crash(Location::path(&folder), "the folder that describes the measurement is missing");
    }
    if let Some(measurement) = &facts.measurement
        && let Err(problem) = measurement.json.as_ref().or_else(|problem| problem.as_python())
    {
        let path = measurement.file.path();
        let at = Location::path(&path).line(problem.line);
        issues.add(&MEASUREMENT_JSON, at, problem.to_string());
        issues.crash(at, "the description of the measurement cannot be parsed");
    }
}

/// Reports files of an audit that end the checker while it loads them.
fn load_audit(audit: &Audit<'_>, issues: &mut Issues) {
    let name = audit.name.as_str();
    if matches!(name, "TEST01" | "TEST04") {
        let path = audit.folder.path().join("performance/run_1").join(DETAIL);
        load_log(Location::path(&path), &audit.performance, issues);
        if let Some(run) = audit.folder.folder("performance/run_1") {
            load_text(run, DETAIL, true, issues);
        }
    }
    let (file, text) = match name {
        "TEST01" | "TEST04" | "TEST06" | "TEST07" | "TEST08" => {
            ("verify_accuracy.txt", &audit.verify_accuracy)
        }
        "TEST09" => ("verify_output_len.txt", &audit.verify_output_length),
        _ => return,
    };
    load_text(audit.folder, file, text.as_ref().is_ok_and(|text| text.is_utf8), issues);
}

/// Reports a text that ends the checker: one that is not UTF-8, or a folder in its place.
fn load_text(folder: Node<'_>, name: &str, is_utf8: bool, issues: &mut Issues) {
    let path = folder.path().join(name);
    if folder.folder(name).is_some() {
        issues.crash(Location::path(&path), "a folder is in place of the file");
    } else if folder.file(name).is_some() && !is_utf8 {
        issues.crash(Location::path(&path), &format!("{name} is not UTF-8"));
    }
}

fn load_log(at: Location<'_>, log: &Result<DetailLog, ReadError>, issues: &mut Issues) {
    let Ok(log) = log else { return };
    if !log.begins_with_marker && log.lines > 0 {
        issues.crash(at.line(Some(1)), "the first line is not a LoadGen line");
    } else if let Some(line) = log.broken(true) {
        issues.crash(at.line(Some(line)), "a line is not a JSON object");
    }
}

fn performance(place: &Place<'_, '_>, facts: &Facts<'_>, issues: &mut Issues) -> Option<Metric> {
    let path = place.entry.folder.path().join("performance/run_1").join(DETAIL);
    match &facts.performance {
        Ok(log) => Run { place, log, path: &path, is_audit: false }.judge(issues),
        Err(_) => {
            issues.add(&RUN_UNREADABLE, Location::path(&path), "the detail log is missing");
            None
        }
    }
}

fn accuracy_of(place: &Place<'_, '_>, facts: &Facts<'_>, issues: &mut Issues) -> Accuracy {
    let folder = place.entry.folder.path().join("accuracy");
    let at = Location::path(&folder);
    let Some(node) = place.entry.accuracy() else {
        issues.add(&ACCURACY_TEXT_MISSING, at, "the accuracy run is missing");
        return Accuracy::default();
    };
    let (text_path, log_path) = accuracy::paths(node);
    let accuracy = match &facts.accuracy_text {
        Ok(text) => {
            let mut own = Issues::new(Program::Modular);
            let accuracy = accuracy::check_text(place, text, &text_path, &mut own);
            // A value that is not a number is an exception, also in the open division.
            let is_open = !place.submitter.division.is_closed_or_network();
            if is_open && own.has_none_of(ACCURACY_UNREADABLE.id) {
                own.waive(ALL);
            }
            issues.append(own);
            accuracy
        }
        Err(_) => {
            issues.add(&ACCURACY_TEXT_MISSING, at, "accuracy.txt is missing");
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
    measurement::check_code_folder(place.submitter, issues);
    let path = place.entry.folder.path();
    let Some(folder) = place.entry.measurements else {
        issues.add(&MEASUREMENT_FOLDER, Location::path(&path), "the measurement is not described");
        return None;
    };
    match facts.endpoint {
        Some(_) => measurement::check_endpoint_files(place, folder, issues),
        None => measurement::check_files(place, folder, issues),
    }
    let Some(measurement) = &facts.measurement else {
        let path = folder.path();
        let message = "no JSON file describes the measurement";
        issues.add(&MEASUREMENT_JSON_MISSING, Location::path(&path), message);
        return None;
    };
    let json = measurement.json.as_ref().or_else(|problem| problem.as_python()).ok()?;
    measurement::check_fields(place, json, &measurement.file.path(), issues);
    Some(json)
}

/// Returns the columns that this program fills in differently.
fn own_columns(
    place: &Place<'_, '_>,
    system_info: &SystemInfo,
    facts: &Facts<'_>,
    issues: &mut Issues,
) -> Vec<(Column, String)> {
    let location = place.entry.folder.path().join("performance/run_1");
    // The comparison is case-sensitive, and the log of Interactive states Server.
    let client_log = facts.endpoint.as_ref().map(|client| &client.performance);
    let log = facts.performance.as_ref().ok().or(client_log);
    let played = log.and_then(|log| log.text("effective_scenario"));
    let name = place.entry.name.as_str();
    let is_exempt = (played, name) == (Some("server"), "interactive");
    let inferred = u8::from(played != Some(name) && !is_exempt);
    let total = total_accelerators(&system_info.json);
    if total.is_empty() {
        let why = "nodes and accelerators are not whole numbers";
        issues.crash(Location::path(&location), why);
    }
    if facts.endpoint.is_none() && mono::scenario(&place.entry.name).is_none() {
        issues.crash(Location::path(&location), "the spelling of the scenario has no unit");
    }
    let power = system_info.design_power.as_ref().ok().cloned().flatten();
    let power = power.filter(|_| place.entry.power().is_some());
    // From v6.1 on the program looks for the design power of every result, and writes what it has.
    let unknown = if place.round.version < Version::new(6, 1) { "" } else { "None" };
    vec![
        (Column::Scenario, place.entry.name.clone()),
        (Column::Location, location.to_string_lossy().into_owned()),
        (Column::Compliance, place.submitter.division.name().to_owned()),
        (Column::Errors, "0".to_owned()),
        (Column::Inferred, inferred.to_string()),
        (Column::TotalAccelerators, total),
        (Column::DesignPower, power.unwrap_or_else(|| unknown.to_owned())),
    ]
}

/// Returns the number of accelerators in all nodes; empty if a count is not an integer.
pub(super) fn total_accelerators(description: &JsonFile) -> String {
    let count = |field| description.get(field).and_then(python::int);
    let total = count("number_of_nodes").zip(count("accelerators_per_node"));
    let total = total.and_then(|(nodes, accelerators)| nodes.checked_mul(accelerators));
    total.map(|total| total.to_string()).unwrap_or_default()
}
