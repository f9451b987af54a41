//! The rules of the round: what both official programs ask where they are right, and
//! what can be derived from the files again instead of being believed.
//!
//! The predicates are those of the official programs with the rules' own severities;
//! what follows from comparing files lies in this folder. Each file of a result is read
//! once, by its facts; summaries and accuracy logs are read here.

mod audits;
mod datacenter;
mod derive;
mod inferred;
mod keys;
mod logs;
mod lower;
mod marks;
mod network;
mod quality;
mod result;
mod summary;

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::catalogue::*;
use super::issues::{At, Issues};
use super::structure;
use super::system::{Description, suite};
use super::{Checked, Options, Outcome, Program, parallel};
use crate::power::nameplate;
use crate::round::{Round, Scenario, Suite, Version};
use crate::submission::entry::{Division, Guesses, Model, Submitter, System, submitters};
use crate::submission::facts::accuracy::Patterns;
use crate::submission::facts::json::{self, JsonFile};
use crate::submission::facts::text;
use crate::submission::table::Row;
use crate::submission::tree::{Node, Tree};

use result::Judged;

/// Entries of the root that are no part of the submission.
const BESIDE: [&str; 3] = [".git", ".github", "assets"];

/// Checks a tree by the rules.
pub(super) fn check(tree: &Tree, round: &'static Round, options: &Options) -> Checked {
    let mut found = Issues::new(Program::Strict);
    check_root(tree, options, &mut found);
    let root_counts = found.passes();
    let mut divisions = BTreeMap::new();
    for division in Division::ALL {
        let mut own = Issues::new(Program::Strict);
        check_division(tree, division, &mut own);
        divisions.insert(division, own.passes());
        found.append(own);
    }
    let mut checked = Checked {
        findings: Vec::new(),
        results: BTreeMap::new(),
        rows: Vec::new(),
        crashes: false,
        entries: tree.len(),
    };
    let all = submitters(tree, round, Guesses::Modular);
    let wanted = |submitter: &&Submitter<'_>| {
        options.submitter.as_ref().is_none_or(|name| *name == submitter.name)
    };
    let chosen: Vec<&Submitter<'_>> = all.iter().filter(wanted).collect();
    let patterns = Patterns::new(round);
    let work: Vec<(&Submitter<'_>, &System<'_>)> = chosen
        .iter()
        .flat_map(|submitter| submitter.systems.iter().map(|system| (*submitter, system)))
        .collect();
    let context = Context { round, options, patterns: &patterns };
    let mut parts =
        parallel::map(&work, |(submitter, system)| context.system(submitter, system)).into_iter();
    for submitter in chosen {
        let mut own = Issues::new(Program::Strict);
        check_submitter(tree, submitter, options, &mut own);
        let mut rows = inferred::Rows::default();
        let parts: Vec<Part<'_>> = parts.by_ref().take(submitter.systems.len()).collect();
        let counts = root_counts && divisions[&submitter.division] && own.passes();
        found.append(own);
        for part in parts {
            part.settle(counts, &mut rows, &mut found, &mut checked);
        }
    }
    checked.findings = found.into_findings();
    checked
}

fn check_root(tree: &Tree, options: &Options, issues: &mut Issues) {
    let names = Division::ALL.map(Division::name);
    for node in tree.top().children() {
        let (name, path) = (node.text(), node.path());
        let at = At::path(&path);
        if BESIDE.contains(&name.as_ref()) || names.contains(&name.as_ref()) && node.is_folder() {
            continue;
        }
        if node.is_folder() {
            let message = "is no division, so that nothing in it is checked";
            let meant = dyno_loadgen::settings::nearest(&name.to_lowercase(), names.into_iter());
            let expected = meant.map_or_else(|| names.join(", "), |meant| format!("`{meant}`"));
            issues.add_expected(&FOREIGN_FOLDER, at, message, expected);
        } else if !name.ends_with(".md")
            && !name.ends_with(".pdf")
            && !options.skips(super::Skip::RootFiles)
        {
            issues.add(&ROOT_FILES, at, "lies outside of the divisions");
        }
    }
}

fn check_division(tree: &Tree, division: Division, issues: &mut Issues) {
    let folder = tree.top().folder(division.name());
    for file in folder.into_iter().flat_map(Node::children).filter(|node| !node.is_folder()) {
        let path = file.path();
        issues.add(&DIVISION_FILES, At::path(&path), "lies outside of the submitters' folders");
    }
}

fn check_submitter(tree: &Tree, submitter: &Submitter<'_>, options: &Options, issues: &mut Issues) {
    structure::check_names(tree, submitter.folder, issues);
    structure::check_use(submitter, options, issues);
    marks::check_page(submitter, issues);
    let path = submitter.folder.path();
    if submitter.results.is_none() {
        issues.add(&NO_RESULTS_FOLDER, At::path(&path), "there is no folder results");
    }
    if let Some(problem) = &submitter.names.problem {
        let path = path.join("model_mapping.json");
        issues.add(&MODEL_NAMES, At::path(&path).line(problem.line), problem.why.clone());
    }
    if submitter.names.is_no_mapping {
        let path = path.join("model_mapping.json");
        issues.add(&MODEL_NAMES, At::path(&path), "is no object with names as its values");
    }
    if submitter.division == Division::Network {
        network::check_diagram(submitter, issues);
    }
}

/// From v6.1, design power may be described; what is described must be computable.
fn check_nameplate(
    submitter: &Submitter<'_>,
    system: &System<'_>,
    round: &Round,
    issues: &mut Issues,
) {
    let name = format!("systems/{}_power.yaml", system.name);
    let Some(file) = submitter.folder.file(name).filter(|_| round.version >= Version::new(6, 1))
    else {
        return;
    };
    let problem = match text::read(Some(file)) {
        Ok(text) => nameplate::design_watts(&text.text).err().map(|problem| problem.to_string()),
        Err(_) => Some("cannot be read".to_owned()),
    };
    if let Some(problem) = problem {
        issues.add(&SYSTEM_NAMEPLATE, At::path(&file.path()), problem);
    }
}

/// What every system is checked with.
struct Context<'a> {
    round: &'static Round,
    options: &'a Options,
    patterns: &'a Patterns,
}

/// A system, judged by itself.
struct Part<'t> {
    /// Of the system and its models.
    issues: Issues,
    description: Option<JsonFile>,
    models: Vec<(&'t str, Issues, Vec<Judged<'t>>)>,
}

impl Context<'_> {
    fn system<'t>(&self, submitter: &'t Submitter<'t>, system: &'t System<'t>) -> Part<'t> {
        let mut issues = Issues::new(Program::Strict);
        let description = self.description(submitter, system, &mut issues);
        let mut part = Part { issues, description: None, models: Vec::new() };
        let nothing = JsonFile::empty();
        let read = description.as_ref().unwrap_or(&nothing);
        for model in &system.models {
            let mut issues = Issues::new(Program::Strict);
            self.check_model(submitter, read, model, &mut issues);
            let around =
                result::Around { context: self, submitter, system, description: read, model };
            let name = match submitter.division {
                Division::Open => model.name.as_str(),
                Division::Closed | Division::Network => model.official.as_str(),
            };
            part.models.push((name, issues, around.judge_all()));
        }
        part.description = description;
        part
    }

    fn description(
        &self,
        submitter: &Submitter<'_>,
        system: &System<'_>,
        issues: &mut Issues,
    ) -> Option<JsonFile> {
        let Some(file) = system.description else {
            let path =
                submitter.folder.path().join("systems").join(format!("{}.json", system.name));
            issues.add(&SYSTEM_MISSING, At::path(&path), "there is no description of the system");
            return None;
        };
        let path = file.path();
        let json = match json::read(file) {
            Ok(json) if json.object().is_some() => json,
            Ok(_) => {
                issues.add(&SYSTEM_JSON, At::path(&path), "the description is no object");
                return None;
            }
            Err(problem) => {
                issues.add(&SYSTEM_JSON, At::path(&path).line(problem.line), problem.why);
                return None;
            }
        };
        let (round, options) = (self.round, self.options);
        Description { json: &json, path: &path, submitter, round, options }.judge(issues);
        marks::check_fields(&json, &path, issues);
        network::check(&json, &path, round, issues);
        if submitter.division == Division::Network {
            network::check_suite(&json, &path, round, issues);
        }
        let is_datacenter = matches!(suite(&json), Some(Suite::Datacenter | Suite::Both));
        if is_datacenter && submitter.division.is_closed_or_network() {
            datacenter::check_memory(&json, &path, issues);
        }
        check_nameplate(submitter, system, self.round, issues);
        Some(json)
    }

    fn check_model(
        &self,
        submitter: &Submitter<'_>,
        description: &JsonFile,
        model: &Model<'_>,
        issues: &mut Issues,
    ) {
        let path = model.folder.path();
        let at = At::path(&path);
        if !submitter.division.is_closed_or_network() {
            return;
        }
        let Some(benchmark) = model.benchmark else {
            let message = format!("`{}` is no benchmark of {}", model.official, self.round.version);
            return issues.add(&MODEL_UNKNOWN, at, message);
        };
        let Some(suite) = suite(description) else { return };
        let Some(wanted) = benchmark.suites.get(&suite) else {
            let message = format!("{} is no benchmark of {} systems", benchmark.name, suite.name());
            return issues.add(&MODEL_SUITE, at, message);
        };
        let has = |scenario: Scenario| model.results.iter().any(|r| r.scenario == Some(scenario));
        for scenario in wanted.required.iter().filter(|scenario| !has(**scenario)) {
            let path = path.join(scenario.name());
            issues.add(&SCENARIOS_MISSING, At::path(&path), "is required, and not there");
        }
        // Where both are optional, one of the two must be there.
        let pair = [Scenario::Server, Scenario::Interactive];
        if pair.iter().all(|scenario| wanted.optional.contains(scenario))
            && !pair.into_iter().any(has)
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
                issues.add(
                    &SCENARIO_UNKNOWN,
                    At::path(&path),
                    "is no scenario that is asked of the model",
                );
            }
        }
    }
}

impl Part<'_> {
    /// Adds it to what was found; `counts` if everything around the system does.
    fn settle(
        self,
        counts: bool,
        rows: &mut inferred::Rows,
        found: &mut Issues,
        checked: &mut Checked,
    ) {
        let counts = counts && self.issues.passes();
        found.append(self.issues);
        for (name, issues, results) in self.models {
            let counts = counts && issues.passes();
            found.append(issues);
            for mut judged in results {
                if let Some(description) = &self.description {
                    rows.add(&description.value, name, judged.entry, &mut judged.issues);
                }
                let metric = judged.metric.filter(|_| counts && judged.issues.passes());
                let outcome = metric.map_or(Outcome::Invalid, |metric| Outcome::Valid { metric });
                let path: PathBuf = judged.entry.folder.path();
                if metric.is_some() {
                    let kept: Vec<Row> = judged.rows;
                    checked.rows.extend(kept);
                }
                checked.results.insert(path, outcome);
                found.append(judged.issues);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::submission::facts::detail::{DetailLog, scan};
    use crate::submission::facts::json::JsonFile;

    /// A description.
    pub(super) fn json(text: &str) -> JsonFile {
        let mut file = JsonFile::empty();
        file.value = serde_json::from_str(text).unwrap();
        file
    }

    /// A detail log with these keys and values.
    pub(super) fn log(pairs: &[(&str, &str)]) -> DetailLog {
        let line = |(key, value): &(&str, &str)| {
            format!(":::MLLOG {{\"key\": \"{key}\", \"value\": {value}, \"metadata\": {{}}}}\n")
        };
        let text: String = pairs.iter().map(line).collect();
        scan(&mut text.as_bytes()).unwrap()
    }
}
