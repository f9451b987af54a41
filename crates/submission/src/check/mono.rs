//! The sequence of the official checker in one file, as of v5.1.1, used for the rounds
//! up to v5.1.
//!
//! It gives up at the first level where something is wrong: a tree, a division, a
//! submitter, a system, a model; what is below it is then not listed at all.

use std::path::PathBuf;

use super::accuracy::{self, Accuracy};
use super::catalogue::*;
use super::issues::{At, Issues};
use super::performance::{Metric, Run};
use super::rows::Result_;
use super::work::{self, Judged, Work};
use super::{
    Checked, Options, Outcome, Place, Program, Skip, audits, files, measurement, powered,
    structure, system,
};
use crate::entry::{DivisionFolder, Entry, Guesses, Submitter, System, submitters};
use crate::facts::json::{self, JsonFile, JsonProblem};
use crate::facts::{Facts, Measurement};
use crate::layout::{ACCURACY_LOG, ACCURACY_TEXT, DETAIL, RESULTS, SUMMARY};
use crate::power::Energy;
use crate::table::Column;
use crate::tree::{Node, Tree};
use dyno_rules::{Round, Scenario, Suite};

/// Folders of the root that are no divisions and yet no mistakes.
const NO_DIVISIONS: [&str; 3] = [".git", ".github", "assets"];

/// Checks a tree.
pub fn check(tree: &Tree, round: &'static Round, options: &Options) -> Checked {
    let mut around = Judged::new(Program::Mono);
    let Judged { issues, listed, .. } = &mut around;
    let found = submitters(tree, round, Guesses::Mono);
    let mut kept = Vec::new();
    for division in divisions(tree, options, issues, listed) {
        let all = found.iter().filter(|submitter| submitter.division == division);
        for submitter in all.filter(|one| options.wants(one) && one.results.is_some()) {
            let systems = self::submitter(tree, submitter, options, issues, listed);
            kept.extend(systems.map(|system| (submitter, system)));
        }
    }
    let describe = |(submitter, system)| {
        let described = describe(submitter, system, round, options, issues, listed)?;
        Some((submitter, system, described))
    };
    let systems: Vec<_> = kept.into_iter().filter_map(describe).collect();
    work::judge(tree, &systems, (round, options), around, |work| Progress::of(work).judge())
}

type Listed = Vec<(PathBuf, Outcome)>;

fn divisions(
    tree: &Tree,
    options: &Options,
    issues: &mut Issues,
    listed: &mut Listed,
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
                issues.add(&FOREIGN_FOLDER, At::path(&path), "the folder is no division");
            }
            continue;
        };
        if !extra.is_empty() && !options.skips(Skip::RootFiles) {
            for file in &extra {
                issues.add(&ROOT_FILES, At::path(&file.path()), "the file lies in the root");
            }
            listed.push(("root".into(), Outcome::Invalid));
            break;
        }
        let mut files = folder.files().peekable();
        if files.peek().is_some() {
            for file in files {
                let message = "the file lies outside of any submitter's folder";
                issues.add(&DIVISION_FILES, At::path(&file.path()), message);
            }
            listed.push((path, Outcome::Invalid));
            continue;
        }
        divisions.push(division);
    }
    divisions
}

/// Checks a submitter's folder; the systems that are looked at.
fn submitter<'a, 't>(
    tree: &Tree,
    submitter: &'a Submitter<'t>,
    options: &Options,
    issues: &mut Issues,
    listed: &mut Listed,
) -> impl Iterator<Item = &'a System<'t>> + use<'a, 't> {
    let mut names = Issues::new(Program::Mono);
    structure::check_names(tree, submitter.folder, &mut names);
    let kept = names.passes();
    issues.append(names);
    if kept {
        let mut unused = Issues::new(Program::Mono);
        structure::check_use(submitter, options, &mut unused);
        if !unused.passes() {
            listed.push((submitter.folder.path().join(RESULTS), Outcome::Invalid));
        }
        issues.append(unused);
        if let Some(problem) = &submitter.names.problem {
            let path = submitter.folder.path().join("model_mapping.json");
            let at = At::path(&path).line(problem.line);
            issues.add(&MODEL_NAMES, at, problem.to_string());
            issues.crash(at, "model_mapping.json does not read");
        }
    } else {
        listed.push((submitter.folder.path(), Outcome::Invalid));
    }
    submitter.systems.iter().filter(move |_| kept)
}

/// A system whose description is right.
struct Described {
    json: JsonFile,
    suite: Suite,
}

fn describe(
    submitter: &Submitter<'_>,
    system: &System<'_>,
    round: &'static Round,
    options: &Options,
    issues: &mut Issues,
    listed: &mut Listed,
) -> Option<Described> {
    let mut own = Issues::new(Program::Mono);
    let described = match system.description {
        None => {
            let path = system.folder.path();
            own.add(&SYSTEM_MISSING, At::path(&path), "the system is not described");
            None
        }
        Some(file) => {
            let path = file.path();
            match json::read(file).or_else(JsonProblem::to_python) {
                Ok(json) if json.object().is_some() => {
                    let description =
                        system::Description { json: &json, path: &path, submitter, round, options };
                    description.judge(&mut own);
                    system::suite(&json, round).map(|suite| Described { json, suite })
                }
                Ok(_) => {
                    own.crash(At::path(&path), "the description is no JSON object");
                    None
                }
                Err(problem) => {
                    let at = At::path(&path).line(problem.line);
                    own.add(&SYSTEM_JSON, at, problem.to_string());
                    own.crash(at, "the description does not read");
                    None
                }
            }
        }
    };
    let described = described.filter(|_| own.passes());
    if described.is_none() {
        listed.push((system.folder.path(), Outcome::Invalid));
    }
    issues.append(own);
    described
}

/// How far a model is judged.
struct Progress<'a, 't> {
    work: &'a Work<'a, 't, Described>,
    judged: Judged,
    /// Parts that failed so far, which the table counts.
    errors: usize,
    /// Scenarios with a performance that counts.
    seen: Vec<Scenario>,
}

impl<'a, 't> Progress<'a, 't> {
    fn of(work: &'a Work<'a, 't, Described>) -> Self {
        Self { work, judged: Judged::new(Program::Mono), errors: 0, seen: Vec::new() }
    }

    fn judge(mut self) -> Judged {
        let Work { options, submitter, described, model, .. } = *self.work;
        let path = model.folder.path();
        let closed = submitter.division.is_closed_or_network();
        let wanted = model.benchmark.and_then(|b| b.scenarios_in(described.suite));
        let Some(wanted) = wanted else {
            let (check, message) = if model.benchmark.is_none() {
                (&MODEL_UNKNOWN, format!("the round has no model {}", model.official))
            } else {
                let suite = described.suite.name();
                (&MODEL_SUITE, format!("{} has no scenarios of {suite}", model.official))
            };
            self.judged.issues.add(check, At::path(&path), message);
            self.judged.listed.push((path, Outcome::Invalid));
            return self.judged;
        };
        for entry in &model.results {
            if options.scenarios_to_skip.contains(&entry.name) {
                continue;
            }
            let name = entry.folder.path();
            let scenario = scenario(&entry.name);
            let all = || wanted.required.iter().chain(&wanted.optional);
            let known = scenario.is_some_and(|scenario| all().any(|one| *one == scenario));
            if closed && !known {
                let message = format!("{} is no scenario of {}", entry.name, model.official);
                self.judged.issues.add(&SCENARIO_UNKNOWN, At::path(&name), message);
                self.judged.listed.push((name, Outcome::Invalid));
                self.errors += 1;
                continue;
            }
            let outcome = self.entry(entry, scenario);
            self.judged.listed.push((name, outcome));
        }
        let is_missing = |scenario: &&Scenario| {
            let skipped = &options.scenarios_to_skip;
            !self.seen.contains(scenario) && !skipped.iter().any(|name| name == scenario.name())
        };
        let mut missing: Vec<&str> =
            wanted.required.iter().filter(is_missing).map(|scenario| scenario.name()).collect();
        let either = [Scenario::Server, Scenario::Interactive];
        if either.iter().all(|one| wanted.optional.contains(one) && is_missing(&one)) {
            missing.push("Server or Interactive");
        }
        if closed && !missing.is_empty() {
            let message = format!("there is no {} that counts", missing.join(", "));
            self.judged.issues.add(&SCENARIOS_MISSING, At::path(&path), message);
            self.judged.listed.push((path, Outcome::Invalid));
        }
        self.judged
    }

    fn entry(&mut self, entry: &'a Entry<'t>, scenario: Option<Scenario>) -> Outcome {
        let Self { work, judged, errors, seen } = self;
        let Work { options, submitter, system, model, .. } = **work;
        let description = &work.described.json;
        let place = work.place(entry, scenario, description);
        let Some(folder) = entry.measurements else {
            let path = submitter.folder.path().join(submitter.layout.measurements());
            let path = path.join(&system.name).join(&model.name).join(&entry.name);
            let message = "the measurement is not described";
            judged.issues.add(&MEASUREMENT_FOLDER, At::path(&path), message);
            judged.listed.push((path, Outcome::Invalid));
            *errors += 1;
            return Outcome::Invalid;
        };
        let facts = work.facts(entry);
        let mut measured = Issues::new(Program::Mono);
        let measurement = measurement_of(&place, folder, facts.measurement.as_ref(), &mut measured);
        let is_measured = measured.passes();
        judged.issues.append(measured);
        let Some(measurement) = measurement.filter(|_| is_measured) else {
            judged.listed.push((folder.path(), Outcome::Invalid));
            *errors += 1;
            return Outcome::Invalid;
        };
        let Some((accuracy, is_accurate)) = accuracy_of(&place, &facts, &mut judged.issues) else {
            *errors += 1;
            return Outcome::Invalid;
        };
        *errors += usize::from(!is_accurate);
        let performance = performance_of(&place, &facts, &mut judged.issues);
        *errors += performance.failed;
        if performance.result.is_some() {
            seen.extend(scenario);
        }
        let mut audited = Issues::new(Program::Mono);
        let closed = submitter.division.is_closed_or_network();
        let audits = closed && !options.skips(Skip::Compliance);
        if audits {
            audits::judge(&place, &facts, &mut audited);
        }
        let passes = audited.passes();
        judged.issues.append(audited);
        let Some((metric, energy)) = performance.result.filter(|_| passes && is_accurate) else {
            return Outcome::Invalid;
        };
        let own = vec![
            (Column::Availability, text(description, "status").to_lowercase()),
            (
                Column::Scenario,
                scenario.map_or(entry.name.clone(), |scenario| scenario.name().to_owned()),
            ),
            (Column::Location, entry.folder.path().to_string_lossy().into_owned()),
            (Column::Compliance, u8::from(!closed || audits).to_string()),
            (Column::Errors, errors.to_string()),
            (Column::Inferred, u8::from(metric.is_inferred).to_string()),
        ];
        let result = Result_ {
            place: &place,
            metric: &metric,
            accuracy: &accuracy,
            energy,
            measurement,
            own,
        };
        if metric.value != 0.0 {
            judged.rows.extend(result.rows(&mut judged.issues));
        }
        Outcome::Valid { metric: metric.value }
    }
}

/// The scenario of a folder: in the spelling of the rules, or all in lower case.
fn scenario(folder: &str) -> Option<Scenario> {
    Scenario::named(folder)
        .filter(|scenario| folder == scenario.name() || folder == scenario.name().to_lowercase())
}

fn text<'a>(json: &'a JsonFile, field: &str) -> &'a str {
    json.get(field).and_then(serde_json::Value::as_str).unwrap_or_default()
}

/// The JSON file of the measurement, after its folder was checked.
fn measurement_of<'a>(
    place: &Place<'_, '_>,
    folder: Node<'_>,
    file: Option<&'a Measurement<'_>>,
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
        issues.add_expected(&MEASUREMENT_JSON_MISSING, At::path(&path), message, expected);
        return None;
    };
    let path = found.file.path();
    match found.json.as_ref().or_else(|problem| problem.as_python()) {
        Err(problem) => {
            let at = At::path(&path).line(problem.line);
            issues.add(&MEASUREMENT_JSON, at, problem.to_string());
            issues.crash(at, "the description of the measurement does not read");
            None
        }
        Ok(json) => {
            measurement::check_fields(place, json, &path, issues);
            if json.get("weight_data_types").is_none() {
                issues.crash(At::path(&path), "there is no `weight_data_types`");
            }
            measurement::check_code(place, found, issues);
            Some(json)
        }
    }
}

/// The accuracy and whether it counts; `None` if the folder is not looked at.
fn accuracy_of(
    place: &Place<'_, '_>,
    facts: &Facts<'_>,
    issues: &mut Issues,
) -> Option<(Accuracy, bool)> {
    let entry = place.entry.folder.path().join("accuracy");
    let folder = place.entry.accuracy();
    let has_text = folder.is_some_and(|folder| folder.child(ACCURACY_TEXT).is_some());
    let Some(folder) = folder.filter(|_| has_text) else {
        issues.add(&ACCURACY_TEXT_MISSING, At::path(&entry), "there is no accuracy.txt");
        return None;
    };
    let required = [SUMMARY, DETAIL, ACCURACY_TEXT, ACCURACY_LOG];
    if let Some(mismatch) = files::mismatch(folder, &required, &[]) {
        issues.add(&ACCURACY_FILES, At::path(&entry), mismatch);
        return None;
    }
    let (text_path, log_path) = accuracy::paths(folder);
    let (Ok(said), Ok(log)) = (&facts.accuracy_text, &facts.accuracy) else {
        issues.crash(At::path(&entry), "a file of the accuracy run does not read");
        return None;
    };
    let mut own = Issues::new(Program::Mono);
    let accuracy = accuracy::check_text(place, said, &text_path, &mut own);
    accuracy::check_log(folder, &mut own);
    accuracy::check_outputs(place, folder, &mut own);
    accuracy::check_samples(place, log, &log_path, &mut own);
    if !place.submitter.division.is_closed_or_network() {
        own.waive(ALL);
    }
    let mut errors = Issues::new(Program::Mono);
    accuracy::check_errors(place, log, &log_path, &mut errors);
    if !errors.passes() {
        errors.crash(At::path(&log_path), "the accuracy run had errors");
    }
    if !said.is_utf8 {
        errors.crash(At::path(&text_path), "accuracy.txt is no UTF-8");
    }
    if let Some(line) = log.broken(true) {
        let at = At::path(&log_path).line(Some(line));
        errors.add(&ACCURACY_UNREADABLE, at, "a line is no JSON object with a key");
        errors.crash(at, "the detail log does not read");
    }
    own.append(errors);
    let is_accurate = own.passes();
    issues.append(own);
    Some((accuracy, is_accurate))
}

/// What the performance runs of a result say, if they count.
#[derive(Default)]
struct Performance {
    result: Option<(Metric, Option<Energy>)>,
    /// Runs that do not count.
    failed: usize,
}

/// One run; of the five of Server before v1.0, the last that counts is the result, and
/// what is wrong with the others changes nothing then.
fn performance_of(place: &Place<'_, '_>, facts: &Facts<'_>, issues: &mut Issues) -> Performance {
    let mut performance = Performance::default();
    let mut wrong = Issues::new(Program::Mono);
    for number in 1..=place.runs() {
        let mut own = Issues::new(Program::Mono);
        match run_of(place, number, facts, &mut own) {
            Some(result) => {
                performance.result = Some(result);
                issues.append(own);
            }
            None => {
                performance.failed += 1;
                wrong.append(own);
            }
        }
    }
    if performance.result.is_some() {
        wrong.waive(ALL);
    }
    issues.append(wrong);
    performance
}

/// The metric and the power of a run, if they count.
fn run_of(
    place: &Place<'_, '_>,
    number: u64,
    facts: &Facts<'_>,
    issues: &mut Issues,
) -> Option<(Metric, Option<Energy>)> {
    let has_power = place.entry.power().is_some();
    let path = place.entry.folder.path().join(format!("performance/run_{number}"));
    let Some(run) = place.entry.numbered_run(number) else {
        issues.add(&RUN_FOLDER, At::path(&path), format!("there is no performance/run_{number}"));
        return None;
    };
    let required = [SUMMARY, DETAIL, "spl.txt"];
    let required = if has_power { &required[..] } else { &required[..2] };
    if let Some(mismatch) = files::mismatch(run, required, &[ACCURACY_LOG]) {
        issues.add(&RUN_FILES, At::path(&path), mismatch);
        return None;
    }
    let path = path.join(DETAIL);
    let log = place.log_of_run(number, facts);
    let metric = match log.as_ref() {
        Ok(log) => Run { place, log, path: &path, is_audit: false }.judge(issues),
        Err(_) => {
            issues.add(&RUN_UNREADABLE, At::path(&path), "the detail log does not read");
            None
        }
    };
    let energy = if has_power { powered::judge(place, facts, issues) } else { None };
    metric.filter(|_| issues.passes()).map(|metric| (metric, energy))
}
