//! Checks a tree by the rules of the round: the checks of both official programs where they are
//! correct, and values that can be derived from the files instead of trusted.
//!
//! The predicates are those of the official programs, with the severities of the rules. Modules
//! in this folder compare files with each other. Each file of a result is read once, as facts;
//! summaries and accuracy logs are read here.

mod answers;
mod audits;
mod bounds;
mod conf;
mod copies;
mod datacenter;
mod derive;
mod inferred;
mod keys;
mod logs;
mod lower;
mod marks;
mod network;
mod quality;
mod rates;
mod result;
mod runs;
mod settings;
mod stopping;
mod summary;
mod wall_clock;

use std::collections::BTreeMap;

use super::catalogue::*;
use super::issues::{Issues, Location};
use super::provenance::Judge;
use super::system::{SystemDescription, suite};
use super::work::{self, Work};
use super::{CheckReport, Options, Outcome, measurement, modular, structure};
use crate::entry::{DivisionFolder, Entry, Guesses, Model, Submitter, System, submitters};
use crate::facts::json::{self, JsonFile};
use crate::facts::text;
use crate::power::nameplate::{self, NameplateError};
use crate::python;
use crate::tree::{Node, Tree};
use dyno_metrics::parallel;
use dyno_rules::{Round, RuleScenario, Suite};

/// Top-level entries that are not part of the submission.
const IGNORED: [&str; 3] = [".git", ".github", "assets"];

/// Checks a tree by the rules.
pub(super) fn check(tree: &Tree, round: &'static Round, options: &Options) -> CheckReport {
    let judge = Judge::new(round.version, options);
    let mut found = Issues::new(judge);
    check_root(tree, options, &mut found);
    let root_counts = found.passes();
    let mut divisions = BTreeMap::new();
    for division in DivisionFolder::ALL {
        let mut own = Issues::new(judge);
        check_division(tree, division, &mut own);
        divisions.insert(division, own.passes());
        found.append(own);
    }
    let mut report = CheckReport {
        findings: Vec::new(),
        results: BTreeMap::new(),
        rows: Vec::new(),
        crashes: false,
        entries: tree.len(),
    };
    let all = submitters(tree, round, Guesses::of_round(round));
    let chosen: Vec<&Submitter<'_>> = all.iter().filter(|one| options.wants(one)).collect();
    let pairs: Vec<(&Submitter<'_>, &System<'_>)> =
        chosen.iter().flat_map(|one| one.systems.iter().map(|system| (*one, system))).collect();
    let system_info = parallel::map(&pairs, |(submitter, system)| {
        SystemInfo::read(submitter, system, round, options)
    });
    let join = |((submitter, system), system_info)| (submitter, system, system_info);
    let systems: Vec<_> = pairs.into_iter().zip(system_info).map(join).collect();
    let mut models =
        work::each_model(&systems, round, options, result::ModelOutcome::judge).into_iter();
    let mut systems = systems.into_iter();
    let mut copies = copies::Copies::default();
    for submitter in chosen {
        let mut own = Issues::new(judge);
        check_submitter(tree, submitter, options, &mut own);
        let mut rows = inferred::Rows::default();
        let parent_counts = root_counts && divisions[&submitter.division] && own.passes();
        found.append(own);
        for (_, system, system_info) in systems.by_ref().take(submitter.systems.len()) {
            let counts = parent_counts && system_info.issues.passes();
            found.append(system_info.issues);
            for (model, part) in system.models.iter().zip(models.by_ref()) {
                let results =
                    ModelResults { submitter, model, description: system_info.json.as_ref() };
                results.add(part, counts, (&mut rows, &mut copies), &mut found, &mut report);
            }
        }
    }
    report.findings = found.into_findings();
    report
}

fn check_root(tree: &Tree, options: &Options, issues: &mut Issues) {
    let names = DivisionFolder::ALL.map(DivisionFolder::name);
    for node in tree.top().children() {
        let (name, path) = (node.text(), node.path());
        let at = Location::path(&path);
        if IGNORED.contains(&name.as_ref()) || names.contains(&name.as_ref()) && node.is_folder() {
            continue;
        }
        if node.is_folder() {
            let message = "is not a division; its content is not checked";
            let lower = name.to_lowercase();
            let nearest = dyno_loadgen::settings::nearest(&lower, names.into_iter());
            // Every name has a nearest division, so the distance is limited.
            let is_near = |nearest: &&str| {
                lower.contains(*nearest)
                    || lower.chars().next() == nearest.chars().next()
                        && lower.len().abs_diff(nearest.len()) <= 1
            };
            let nearest = nearest.filter(is_near);
            let expected =
                nearest.map_or_else(|| names.join(", "), |nearest| format!("`{nearest}`"));
            issues.add_expected(&FOREIGN_FOLDER, at, message, expected);
        } else if !name.ends_with(".md")
            && !name.ends_with(".pdf")
            && !options.skips(super::Skip::RootFiles)
        {
            issues.add(&ROOT_FILES, at, "is outside the divisions");
        }
    }
}

fn check_division(tree: &Tree, division: DivisionFolder, issues: &mut Issues) {
    let folder = tree.top().folder(division.name());
    for file in folder.into_iter().flat_map(Node::children).filter(|node| !node.is_folder()) {
        let path = file.path();
        issues.add(&DIVISION_FILES, Location::path(&path), "is outside the submitters' folders");
    }
}

fn check_submitter(tree: &Tree, submitter: &Submitter<'_>, options: &Options, issues: &mut Issues) {
    structure::check_names(tree, submitter.folder, issues);
    structure::check_use(submitter, options, issues);
    measurement::check_code_folder(submitter, issues);
    marks::check_page(submitter, issues);
    let path = submitter.folder.path();
    if submitter.results.is_none() {
        issues.add(&NO_RESULTS_FOLDER, Location::path(&path), "the folder results is missing");
    }
    if let Some(problem) = &submitter.names.problem {
        let path = path.join("model_mapping.json");
        issues.add(&MODEL_NAMES, Location::path(&path).line(problem.line), problem.why.clone());
    }
    if submitter.names.is_no_mapping {
        let path = path.join("model_mapping.json");
        issues.add(&MODEL_NAMES, Location::path(&path), "is not an object whose values are names");
    }
    if submitter.division == DivisionFolder::Network {
        network::check_diagram(submitter, issues);
    }
}

/// Checks that the power supplies of a system with a power measurement, if described, allow the
/// design power to be computed (from v6.1).
fn check_nameplate(
    submitter: &Submitter<'_>,
    system: &System<'_>,
    round: &Round,
    issues: &mut Issues,
) {
    let Some(file) = modular::nameplate_file(submitter, system, round) else { return };
    let mut results = system.models.iter().flat_map(|model| &model.results);
    let has_power = results.any(|entry| entry.power().is_some());
    let problem = match text::read(Some(file)) {
        // The program reads the file of every system, and needs its content for power only.
        Ok(text) => nameplate::design_watts(&text.text)
            .err()
            .filter(|problem| has_power || matches!(problem, NameplateError::Unreadable { .. }))
            .map(|problem| problem.to_string()),
        Err(_) => Some("cannot be read".to_owned()),
    };
    if let Some(problem) = problem {
        issues.add(&SYSTEM_NAMEPLATE, Location::path(&file.path()), problem);
    }
}

/// Data on a system.
struct SystemInfo {
    issues: Issues,
    /// Description, if it is valid.
    json: Option<JsonFile>,
    empty: JsonFile,
    /// Number of the system in the round's report, if it has one.
    private_id: String,
}

impl SystemInfo {
    fn read(
        submitter: &Submitter<'_>,
        system: &System<'_>,
        round: &'static Round,
        options: &Options,
    ) -> Self {
        let mut issues = Issues::new(Judge::new(round.version, options));
        let json = describe(submitter, system, round, options, &mut issues);
        // The official program creates this file when it needs the numbers.
        let ids = system.folder.file("privateid.json").and_then(|file| json::read(file).ok());
        let id = ids.as_ref().and_then(|ids| ids.get(&system.name)).map(python::text);
        Self { issues, json, empty: JsonFile::empty(), private_id: id.unwrap_or_default() }
    }

    /// Returns the description, or an empty one if it is invalid.
    fn json(&self) -> &JsonFile {
        self.json.as_ref().unwrap_or(&self.empty)
    }
}

fn describe(
    submitter: &Submitter<'_>,
    system: &System<'_>,
    round: &'static Round,
    options: &Options,
    issues: &mut Issues,
) -> Option<JsonFile> {
    let Some(file) = system.description else {
        let path = submitter.folder.path().join("systems").join(format!("{}.json", system.name));
        issues.add(
            &SYSTEM_MISSING,
            Location::path(&path),
            "the description of the system is \
             missing",
        );
        return None;
    };
    let path = file.path();
    let json = match json::read(file) {
        Ok(json) if json.object().is_some() => json,
        Ok(_) => {
            issues.add(&SYSTEM_JSON, Location::path(&path), "the description is not an object");
            return None;
        }
        Err(problem) => {
            issues.add(&SYSTEM_JSON, Location::path(&path).line(problem.line), problem.why);
            return None;
        }
    };
    SystemDescription { json: &json, path: &path, submitter, round, options }.judge(issues);
    marks::check_fields(&json, &path, issues);
    network::check(&json, &path, round, issues);
    if submitter.division == DivisionFolder::Network {
        network::check_suite(&json, &path, round, issues);
    }
    let is_datacenter = matches!(suite(&json, round), Some(Suite::Datacenter | Suite::Both))
        && !round.datacenter.is_empty();
    if is_datacenter && submitter.division.is_closed_or_network() {
        datacenter::check_memory(&json, &path, issues);
    }
    check_nameplate(submitter, system, round, issues);
    Some(json)
}

/// Checks that the round includes the model and that all its scenarios exist.
fn check_model(work: &Work<'_, '_, SystemInfo>, issues: &mut Issues) {
    let Work { submitter, model, .. } = *work;
    let path = model.folder.path();
    let at = Location::path(&path);
    if !submitter.division.is_closed_or_network() {
        return;
    }
    let Some(benchmark) = model.benchmark else {
        let message = format!("`{}` is not a benchmark of {}", model.official, work.round.version);
        return issues.add(&MODEL_UNKNOWN, at, message);
    };
    let Some(suite) = suite(work.system_info.json(), work.round) else { return };
    let Some(wanted) = benchmark.scenarios_in(suite) else {
        let message = format!("{} is not a benchmark of {} systems", benchmark.name, suite.name());
        return issues.add(&MODEL_SUITE, at, message);
    };
    let has = |scenario: RuleScenario| model.results.iter().any(|r| r.scenario == Some(scenario));
    for scenario in wanted.required.iter().filter(|scenario| !has(**scenario)) {
        let path = path.join(scenario.name());
        issues.add(&SCENARIOS_MISSING, Location::path(&path), "is required, but missing");
    }
    // If both are optional, one of them is required.
    let pair = [RuleScenario::Server, RuleScenario::Interactive];
    if pair.iter().all(|scenario| wanted.optional.contains(scenario)) && !pair.into_iter().any(has)
    {
        issues.add_expected(
            &SCENARIOS_MISSING,
            at,
            "has neither Server nor Interactive",
            "one of them",
        );
    }
    for entry in &model.results {
        let known = entry
            .scenario
            .is_some_and(|s| wanted.required.contains(&s) || wanted.optional.contains(&s));
        if !known {
            let path = entry.folder.path();
            issues.add(&SCENARIO_UNKNOWN, Location::path(&path), "is not a scenario of the model");
        }
    }
}

/// A model whose results have been judged.
struct ModelResults<'a, 't> {
    submitter: &'a Submitter<'t>,
    model: &'a Model<'t>,
    description: Option<&'a JsonFile>,
}

impl ModelResults<'_, '_> {
    /// Adds the outcomes of a model to the report. `counts` is whether everything above the
    /// model is valid.
    fn add(
        &self,
        part: result::ModelOutcome,
        counts: bool,
        (rows, copies): (&mut inferred::Rows, &mut copies::Copies),
        found: &mut Issues,
        report: &mut CheckReport,
    ) {
        let counts = counts && part.issues.passes();
        found.append(part.issues);
        let name = match self.submitter.division {
            DivisionFolder::Open => &self.model.name,
            DivisionFolder::Closed | DivisionFolder::Network => &self.model.official,
        };
        for (index, mut judged) in part.results {
            let entry = &self.model.results[index];
            // The official tables also distinguish systems by their folder. The network division requires
            // unique names.
            let by_folder = self.submitter.division != DivisionFolder::Network;
            if let Some(description) = self.description {
                let row = inferred::Row { description: &description.value, model: name, by_folder };
                rows.add(&row, entry, &mut judged.issues);
            }
            for log in std::mem::take(&mut judged.logs) {
                copies.add(self.submitter.division, log, &mut judged.issues);
            }
            if counts && judged.issues.passes() {
                check_positive(judged.metric, entry, &mut judged.issues);
            }
            let metric = judged.metric.filter(|_| counts && judged.issues.passes());
            let outcome = metric.map_or(Outcome::Invalid, |metric| Outcome::Valid { metric });
            if metric.is_some() {
                report.rows.extend(judged.rows);
            }
            report.results.insert(entry.folder.path(), outcome);
            found.append(judged.issues);
        }
    }
}

/// Checks that a result that is otherwise valid is a positive, finite number.
fn check_positive(metric: Option<f64>, entry: &Entry<'_>, issues: &mut Issues) {
    if let Some(value) = metric.filter(|value| *value <= 0.0 || !value.is_finite()) {
        let path = entry.folder.path();
        issues.add(&RUN_ZERO, Location::path(&path), format!("the result is {value}"));
    }
}

#[cfg(test)]
mod tests {
    use crate::facts::detail::{DetailLog, scan};
    use crate::facts::json::JsonFile;

    /// Creates a description.
    pub(super) fn json(text: &str) -> JsonFile {
        let mut file = JsonFile::empty();
        file.value = serde_json::from_str(text).unwrap();
        file
    }

    /// Creates a detail log with these keys and values.
    pub(super) fn log(pairs: &[(&str, &str)]) -> DetailLog {
        let line = |(key, value): &(&str, &str)| {
            format!(":::MLLOG {{\"key\": \"{key}\", \"value\": {value}, \"metadata\": {{}}}}\n")
        };
        let text: String = pairs.iter().map(line).collect();
        scan(&mut text.as_bytes()).unwrap()
    }
}
