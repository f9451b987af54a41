//! Sequence of the official single-file checker as of v5.1.1, used for rounds up to v5.1.
//!
//! It stops at the first level with a problem: tree, division, submitter, system or model.
//! Results below that level are not listed.

mod runs;

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::accuracy::{self, Accuracy};
use super::catalogue::*;
use super::issues::{Issues, Location};
use super::rows::ValidResult;
use super::work::{self, ModelReport, Work};
use super::{
    CheckReport, Options, Outcome, Place, Skip, audits, equal_issue, errors, files, measurement,
    structure, system,
};
use crate::entry::{DivisionFolder, Entry, Guesses, Submitter, System, is_in_round, submitters};
use crate::facts::detail::DetailLog;
use crate::facts::json::{self, JsonFile, JsonProblem};
use crate::facts::{Facts, MeasurementFile, ReadError};
use crate::layout::{ACCURACY_LOG, ACCURACY_TEXT, DETAIL, RESULTS, SUMMARY, SYSTEMS};
use crate::python;
use crate::table::Column;
use crate::tree::{EntryKind, Node, Tree};
use dyno_rules::{Behavior, OneFileChecker, Round, RuleScenario, Suite};
use runs::performance_of;

/// Top-level folders that are ignored, although they are not divisions.
const NO_DIVISIONS: [&str; 3] = [".git", ".github", "assets"];

/// Checks a tree.
pub fn check(tree: &Tree, round: &'static Round, options: &Options) -> CheckReport {
    let mut report = ModelReport::new(options.program);
    let ModelReport { issues, listed, .. } = &mut report;
    let checker = options.program.one_file().unwrap_or(OneFileChecker::LAST);
    let found = submitters(tree, round, Guesses::OneFile(checker));
    let mut candidates = Vec::new();
    for division in divisions(tree, options, issues, listed) {
        let all = found.iter().filter(|submitter| submitter.division == division);
        for submitter in all.filter(|one| options.wants(one)) {
            let results = submitter.folder.below(RESULTS);
            let exists = |node: &Node<'_>| node.kind() != EntryKind::BrokenLink;
            let Some(results) = results.filter(exists) else { continue };
            if results.is_file() {
                issues.crash(Location::path(&results.path()), "a file is in place of a folder");
            }
            let systems = self::submitter(tree, submitter, options, issues, listed);
            candidates.extend(systems.map(|system| (submitter, system)));
        }
    }
    let describe = |(submitter, system)| {
        let system_info = describe(submitter, system, round, options, issues, listed)?;
        Some((submitter, system, system_info))
    };
    let systems: Vec<_> = candidates.into_iter().filter_map(describe).collect();
    work::judge(tree, &systems, round, options, report, |work| Progress::new(work).judge())
}

type Outcomes = Vec<(PathBuf, Outcome)>;

fn divisions(
    tree: &Tree,
    options: &Options,
    issues: &mut Issues,
    listed: &mut Outcomes,
) -> Vec<DivisionFolder> {
    let mut divisions = Vec::new();
    let is_extra = |file: &Node<'_>| {
        let name = file.text();
        !name.ends_with(".md") && !name.ends_with(".pdf")
    };
    let extra: Vec<Node<'_>> = tree.top().files().filter(is_extra).collect();
    for folder in tree.top().folders() {
        let path = folder.path();
        let Some(division) = DivisionFolder::named(&folder.text()) else {
            if !NO_DIVISIONS.contains(&&*folder.text()) {
                issues.add(&FOREIGN_FOLDER, Location::path(&path), "the folder is not a division");
            }
            continue;
        };
        // Early tags do not check where files lie.
        let mut in_root = Issues::new(options.program);
        for file in extra.iter().filter(|_| !options.skips(Skip::RootFiles)) {
            in_root.add(&ROOT_FILES, Location::path(&file.path()), "the file is in the root");
        }
        let is_accepted = in_root.passes();
        issues.append(in_root);
        if !is_accepted {
            listed.push(("root".into(), Outcome::Invalid));
            break;
        }
        let mut in_division = Issues::new(options.program);
        for file in folder.files() {
            let message = "the file is outside the submitters' folders";
            in_division.add(&DIVISION_FILES, Location::path(&file.path()), message);
        }
        let is_accepted = in_division.passes();
        issues.append(in_division);
        if !is_accepted {
            listed.push((path, Outcome::Invalid));
            continue;
        }
        divisions.push(division);
    }
    divisions
}

/// Checks a submitter's folder; returns the systems to check.
fn submitter<'a, 't>(
    tree: &Tree,
    submitter: &'a Submitter<'t>,
    options: &Options,
    issues: &mut Issues,
    listed: &mut Outcomes,
) -> impl Iterator<Item = &'a System<'t>> + use<'a, 't> {
    let mut names = Issues::new(options.program);
    structure::check_names(tree, submitter.folder, &mut names);
    let is_accepted = names.passes();
    issues.append(names);
    if is_accepted {
        let mut unused = Issues::new(options.program);
        structure::check_use(submitter, options, &mut unused);
        if !unused.passes() {
            listed.push((submitter.folder.path().join(RESULTS), Outcome::Invalid));
        }
        issues.append(unused);
        structure::crash_without_folders(submitter, options, issues);
        structure::check_mapping(submitter, issues);
    } else {
        listed.push((submitter.folder.path(), Outcome::Invalid));
    }
    submitter.systems.iter().filter(move |_| is_accepted)
}

/// Data on a system with a valid description.
struct SystemInfo {
    json: JsonFile,
    suite: Suite,
}

fn describe(
    submitter: &Submitter<'_>,
    system: &System<'_>,
    round: &'static Round,
    options: &Options,
    issues: &mut Issues,
    listed: &mut Outcomes,
) -> Option<SystemInfo> {
    let mut own = Issues::new(options.program);
    let system_info = match system.description {
        None => {
            let path = system.folder.path();
            own.add(&SYSTEM_MISSING, Location::path(&path), "the system is not described");
            let file = Path::new(SYSTEMS).join(format!("{}.json", system.name));
            if submitter.folder.folder(&file).is_some() {
                own.crash(Location::path(&path), "a folder is in place of the description");
            }
            None
        }
        Some(file) => {
            let path = file.path();
            match json::read(file).or_else(JsonProblem::to_python) {
                Ok(json) if json.object().is_some() => {
                    let description = system::SystemDescription {
                        json: &json,
                        path: &path,
                        submitter,
                        round,
                        options,
                    };
                    description.judge(&mut own);
                    system::suite(&json, round).map(|suite| SystemInfo { json, suite })
                }
                Ok(_) => {
                    own.crash(Location::path(&path), "the description is not a JSON object");
                    None
                }
                Err(problem) => {
                    let at = Location::path(&path).line(problem.line);
                    own.add(&SYSTEM_JSON, at, problem.to_string());
                    own.crash(at, "the description cannot be parsed");
                    None
                }
            }
        }
    };
    let system_info = system_info.filter(|_| own.passes());
    if system_info.is_none() {
        listed.push((system.folder.path(), Outcome::Invalid));
    }
    issues.append(own);
    system_info
}

/// State of judging a model.
struct Progress<'a, 't> {
    work: &'a Work<'a, 't, SystemInfo>,
    report: ModelReport,
    /// Number of failed parts of the present result.
    errors: usize,
    counted: Vec<CountedErrors>,
    /// Scenarios with a valid performance run.
    valid_scenarios: Vec<RuleScenario>,
}

/// Failed parts of a result, for the table of results.
struct CountedErrors {
    /// Place of its folder in the listing of the model's folder.
    position: usize,
    errors: usize,
    /// Its rows in the report.
    rows: Range<usize>,
}

impl<'a, 't> Progress<'a, 't> {
    fn new(work: &'a Work<'a, 't, SystemInfo>) -> Self {
        Self {
            work,
            report: ModelReport::new(work.options.program),
            errors: 0,
            counted: Vec::new(),
            valid_scenarios: Vec::new(),
        }
    }

    fn judge(mut self) -> ModelReport {
        let Work { round, options, submitter, system_info, model, .. } = *self.work;
        let path = model.folder.path();
        let closed = submitter.division.is_closed_or_network();
        if !is_in_round(round, &model.name) && submitter.names.ends_program_at(&model.name) {
            let message = "model_mapping.json maps the name to no text";
            self.report.issues.crash(Location::path(&path), message);
        }
        let wanted = model.benchmark.and_then(|b| b.scenarios_in(system_info.suite));
        let Some(wanted) = wanted else {
            let (check, message) = if model.benchmark.is_none() {
                (&MODEL_UNKNOWN, format!("{} is not a benchmark of the round", model.official))
            } else {
                let suite = system_info.suite.name();
                (&MODEL_SUITE, format!("{} has no {suite} scenarios", model.official))
            };
            self.report.issues.add(check, Location::path(&path), message);
            self.report.listed.push((path, Outcome::Invalid));
            return self.report;
        };
        for entry in &model.results {
            if options.scenarios_to_skip.contains(&entry.name) {
                continue;
            }
            let name = entry.folder.path();
            let scenario = scenario(&entry.name);
            let all = || wanted.required.iter().chain(&wanted.optional);
            let known = scenario.is_some_and(|scenario| all().any(|one| *one == scenario));
            let first = self.report.rows.len();
            self.errors = 0;
            let outcome = if closed && !known {
                let message = format!("{} is not a scenario of {}", entry.name, model.official);
                self.report.issues.add(&SCENARIO_UNKNOWN, Location::path(&name), message);
                self.errors += usize::from(!options.program.does(Behavior::GoesOn));
                Outcome::Invalid
            } else {
                self.entry(entry, scenario)
            };
            self.report.listed.push((name, outcome));
            let (errors, rows) = (self.errors, first..self.report.rows.len());
            self.counted.push(CountedErrors { position: entry.folder.position(), errors, rows });
        }
        self.set_errors();
        let is_missing = |scenario: &&RuleScenario| {
            let skipped = &options.scenarios_to_skip;
            !self.valid_scenarios.contains(scenario)
                && !skipped.iter().any(|name| name == scenario.name())
        };
        let mut missing: Vec<&str> =
            wanted.required.iter().filter(is_missing).map(|scenario| scenario.name()).collect();
        let either = [RuleScenario::Server, RuleScenario::Interactive];
        let mut rejected = Some(&path).filter(|_| !missing.is_empty()).cloned();
        let is_either = !options.program.does(Behavior::NoServerOrInteractive);
        if is_either && either.iter().all(|one| wanted.optional.contains(one) && is_missing(&one)) {
            missing.push("Server or Interactive");
            rejected = rejected.or_else(|| self.last_listed());
        }
        if closed && !missing.is_empty() {
            let rejected = rejected.unwrap_or_else(|| path.clone());
            let message = self.missing_message(&missing, &rejected);
            self.report.issues.add(&SCENARIOS_MISSING, Location::path(&path), message);
            self.report.listed.push((rejected, Outcome::Invalid));
        }
        self.report
    }

    /// Describes missing scenarios, and the valid result that the program rejects for them.
    fn missing_message(&self, missing: &[&str], rejected: &Path) -> String {
        let text = format!("no valid {}", missing.join(", "));
        let is_valid =
            |(path, outcome): &(PathBuf, Outcome)| path == rejected && *outcome != Outcome::Invalid;
        if self.report.listed.iter().any(is_valid) {
            return format!("{text}; the program rejects {} for it", rejected.display());
        }
        text
    }

    /// Returns the result that the operating system lists last. The program rejects this one if
    /// Server and Interactive are both missing, because it uses the name of the last one
    /// (v5.1.1:2872).
    fn last_listed(&self) -> Option<PathBuf> {
        let skipped = &self.work.options.scenarios_to_skip;
        let listed = self.work.model.results.iter().filter(|one| !skipped.contains(&one.name));
        listed.max_by_key(|one| one.folder.position()).map(|one| one.folder.path())
    }

    /// Sets the column of errors. The count goes on from result to result of a model, in the order
    /// in which the operating system lists their folders.
    fn set_errors(&mut self) {
        for one in &self.counted {
            let before = self.counted.iter().filter(|other| other.position <= one.position);
            let errors: usize = before.map(|other| other.errors).sum();
            for row in &mut self.report.rows[one.rows.clone()] {
                row.set(Column::Errors, errors.to_string());
            }
        }
    }

    fn entry(&mut self, entry: &'a Entry<'t>, scenario: Option<RuleScenario>) -> Outcome {
        let Self { work, report, errors, valid_scenarios, .. } = self;
        let Work { options, submitter, .. } = **work;
        let description = &work.system_info.json;
        let place = work.place(entry, scenario, description);
        let facts = work.facts(entry);
        let empty = JsonFile::empty();
        let Some(measurement) = described(&place, &facts, &empty, report, errors) else {
            return Outcome::Invalid;
        };
        let accuracy = accuracy_of(&place, &facts, &mut report.issues);
        if accuracy.is_none() && !options.program.does(Behavior::GoesOnWithoutAccuracy) {
            *errors += 1;
            return Outcome::Invalid;
        }
        // Programs that go on do not count a missing text.
        *errors += usize::from(matches!(accuracy, Some((_, false))));
        let (accuracy, is_accurate) = accuracy.unwrap_or_default();
        let performance = performance_of(&place, &facts, &mut report.issues);
        *errors += performance.failed;
        if performance.result.is_some() {
            valid_scenarios.extend(scenario);
        }
        let mut audited = Issues::new(options.program);
        let closed = submitter.division.is_closed_or_network();
        let audits = closed && !options.skips(Skip::Compliance);
        if audits {
            audits::judge(&place, &facts, &mut audited);
        }
        let passes = audited.passes();
        let is_compliant = if place.reads_audits_as_texts() {
            audits::pass_in_table(&facts)
        } else {
            audited.has_none_of("audit.")
        };
        report.issues.append(audited);
        let Some((metric, energy)) = performance.result.filter(|_| passes && is_accurate) else {
            return Outcome::Invalid;
        };
        let own = vec![
            (Column::Availability, system::availability(text(description, "status"))),
            (
                Column::Scenario,
                scenario.map_or(entry.name.clone(), |scenario| scenario.name().to_owned()),
            ),
            (Column::Location, entry.folder.path().to_string_lossy().replace('\\', "/")),
            (Column::Compliance, u8::from(!closed || (audits && is_compliant)).to_string()),
            (Column::Inferred, u8::from(metric.is_inferred).to_string()),
        ];
        let result = ValidResult {
            place: &place,
            metric: &metric,
            accuracy: &accuracy,
            energy,
            measurement,
            own,
        };
        if metric.value != 0.0 {
            report.rows.extend(result.rows(&mut report.issues));
        }
        Outcome::Valid { metric: metric.value }
    }
}

/// Returns the scenario of a folder name in the spelling of the rules or in lower case.
pub(super) fn scenario(folder: &str) -> Option<RuleScenario> {
    RuleScenario::named(folder)
        .filter(|scenario| folder == scenario.name() || folder == scenario.name().to_lowercase())
}

fn text<'a>(json: &'a JsonFile, field: &str) -> &'a str {
    json.get(field).and_then(serde_json::Value::as_str).unwrap_or_default()
}

/// Checks the description of the measurement and returns it, or `empty` if the program goes on
/// without it.
fn described<'a>(
    place: &Place<'_, '_>,
    facts: &'a Facts<'_>,
    empty: &'a JsonFile,
    report: &mut ModelReport,
    errors: &mut usize,
) -> Option<&'a JsonFile> {
    let Place { submitter, system, model, entry, options, .. } = *place;
    let mut measured = Issues::new(options.program);
    let (folder, measurement) = match entry.measurements {
        None => {
            let path = submitter.folder.path().join(submitter.layout.measurements());
            let path = path.join(&system.name).join(&model.name).join(&entry.name);
            let message = "the measurement is not described";
            measured.add(&MEASUREMENT_FOLDER, Location::path(&path), message);
            crash_at_file(place, &path, &mut measured);
            report.listed.push((path.clone(), Outcome::Invalid));
            (path, None)
        }
        Some(folder) => {
            let file = facts.measurement.as_ref();
            (folder.path(), measurement_of(place, folder, file, &mut measured))
        }
    };
    // Early programs count a problem, although they accept the result.
    *errors += usize::from(!measured.has_none_of("measurement."));
    let measurement = measurement.filter(|_| measured.passes());
    report.issues.append(measured);
    if measurement.is_some() {
        return measurement;
    }
    if options.program.does(Behavior::GoesOn) {
        return Some(empty);
    }
    report.listed.push((folder, Outcome::Invalid));
    None
}

/// Reports a file in place of a folder, which the program lists.
fn crash_at_file(place: &Place<'_, '_>, path: &Path, issues: &mut Issues) {
    let folder = place.submitter.folder;
    let is_file = |below: &Path| folder.below(below).is_some_and(Node::is_file);
    if path.strip_prefix(folder.path()).is_ok_and(is_file) {
        issues.crash(Location::path(path), "a file is in place of a folder");
    }
}

/// Checks the measurement's folder and returns its JSON file.
fn measurement_of<'a>(
    place: &Place<'_, '_>,
    folder: Node<'_>,
    file: Option<&'a MeasurementFile<'_>>,
    issues: &mut Issues,
) -> Option<&'a JsonFile> {
    measurement::check_files(place, folder, issues);
    if place.entry.power().is_some() {
        measurement::check_power_files(place, folder, issues);
    }
    let Some(found) = file else {
        let path = folder.path();
        let expected = format!("{}*.json", place.system.name);
        let message = "no JSON file describes the measurement";
        let at = Location::path(&path);
        issues.add_expected(&MEASUREMENT_JSON_MISSING, at, message, expected);
        if place.options.program.does(Behavior::EqualIssueByConf) {
            issues.crash(at, "it returns a value that only the JSON file sets");
        }
        return None;
    };
    let path = found.file.path();
    match found.json.as_ref().or_else(|problem| problem.as_python()) {
        Err(problem) => {
            let at = Location::path(&path).line(problem.line);
            issues.add(&MEASUREMENT_JSON, at, problem.to_string());
            issues.crash(at, "the description of the measurement cannot be parsed");
            None
        }
        Ok(json) => {
            measurement::check_fields(place, json, &path, issues);
            let has_weights = !place.options.program.does(Behavior::NoWeightTypes);
            if json.value.is_null() || python::number(&json.value).is_some() {
                let why = "fields cannot be looked up in a number, `null`, `true` or `false`";
                issues.crash(Location::path(&path), why);
            } else if has_weights && json.get("weight_data_types").is_none() {
                issues.crash(Location::path(&path), "`weight_data_types` is missing");
            }
            measurement::check_code(place, found, issues);
            if let Some((path, line)) = equal_issue::broken_settings(place) {
                let at = Location::path(&path).line(Some(line));
                issues.crash(at, "the line is not MODEL.SCENARIO.KEY = VALUE in UTF-8");
            }
            Some(json)
        }
    }
}

/// Returns the accuracy and whether it is valid; `None` if the folder is not checked.
fn accuracy_of(
    place: &Place<'_, '_>,
    facts: &Facts<'_>,
    issues: &mut Issues,
) -> Option<(Accuracy, bool)> {
    let entry = place.entry.folder.path().join("accuracy");
    let folder = place.entry.accuracy();
    let has_text = folder.is_some_and(|folder| folder.child(ACCURACY_TEXT).is_some());
    let Some(folder) = folder.filter(|_| has_text) else {
        issues.add(&ACCURACY_TEXT_MISSING, Location::path(&entry), "accuracy.txt is missing");
        return None;
    };
    let required = [SUMMARY, DETAIL, ACCURACY_TEXT, ACCURACY_LOG];
    if let Some(mismatch) = files::mismatch(folder, &required, &[]) {
        issues.add(&ACCURACY_FILES, Location::path(&entry), mismatch);
        if !place.options.program.does(Behavior::GoesOnWithoutAccuracy) {
            return None;
        }
    }
    let (text_path, log_path) = accuracy::paths(folder);
    let Ok(text) = &facts.accuracy_text else {
        issues.crash(Location::path(&entry), "accuracy.txt cannot be read");
        return None;
    };
    let mut own = Issues::new(place.options.program);
    let accuracy = accuracy::check_text(place, text, &text_path, &mut own);
    let is_no_number = !own.has_none_of(ACCURACY_UNREADABLE.id);
    accuracy::check_log(folder, &mut own);
    accuracy::check_outputs(place, folder, &mut own);
    let mut crashes = check_accuracy_run(place, &facts.accuracy, &log_path, &mut own);
    files::crash_at_folder(folder, DETAIL, &mut crashes);
    let needs_no_accuracy = place.options.program.does(Behavior::OpenWithoutAccuracy);
    if !place.submitter.division.is_closed_or_network()
        && (needs_no_accuracy || !accuracy.is_empty())
    {
        own.waive(ALL);
    }
    if !text.is_utf8 {
        crashes.crash(Location::path(&text_path), "accuracy.txt is not UTF-8");
    } else if is_no_number {
        crashes.crash(Location::path(&text_path), "an accuracy is not a number");
    }
    own.append(crashes);
    let is_accurate = own.passes();
    issues.append(own);
    Some((accuracy, is_accurate))
}

/// Checks the detail log of an accuracy run. Returns what ends the program there.
fn check_accuracy_run(
    place: &Place<'_, '_>,
    log: &Result<DetailLog, ReadError>,
    path: &Path,
    issues: &mut Issues,
) -> Issues {
    let mut crashes = issues.another();
    let at = Location::path(path);
    let log = match log {
        Ok(log) => log,
        Err(ReadError::Absent) => {
            issues.add(&ACCURACY_UNREADABLE, at, "the detail log is missing");
            return crashes;
        }
        Err(ReadError::Unreadable { .. }) => {
            crashes.crash(at, "the detail log cannot be read");
            return crashes;
        }
    };
    accuracy::check_samples(place, log, path, issues);
    let mut errors = issues.another();
    accuracy::check_errors(place, log, path, &mut errors);
    if !errors.passes() && place.options.program.does(Behavior::AccuracyErrorsCrash) {
        crashes.crash(at, "the accuracy run had errors");
    }
    issues.append(errors);
    if let Some(line) = errors::unflagged_line(log, place.options.program) {
        crashes.crash(at.line(Some(line)), "a line has no `metadata.is_error`");
    }
    if let Some(line) = log.broken(true) {
        let at = at.line(Some(line));
        crashes.add(&ACCURACY_UNREADABLE, at, "a line is not a JSON object with a key");
        crashes.crash(at, "the detail log cannot be parsed");
    }
    crashes
}
