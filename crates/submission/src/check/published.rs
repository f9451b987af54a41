//! Results of a published tree, without the checks: its reviewers have judged it already.

use std::path::Path;

use super::accuracy::{self, Accuracy};
use super::endpoint::EndpointResult;
use super::issues::Issues;
use super::performance::{Metric, Run, is_language};
use super::rows::ValidResult;
use super::work::{self, Work};
use super::{Options, Place, Program, powered};
use crate::entry::{Entry, Guesses, Submitter, System, submitters};
use crate::facts::detail::{self, DetailLog};
use crate::facts::json::{self, JsonFile};
use crate::facts::{Facts, ReadError};
use crate::layout::{DETAIL, SUMMARY};
use crate::table::{Column, Row};
use crate::tree::{Node, Tree, TreeError};
use dyno_rules::{Round, RuleScenario, Version};

/// Results of a published tree.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PublishedResults {
    /// One row per result whose performance run is VALID by its own log, and one per power
    /// measurement.
    pub rows: Vec<Row>,
    /// Results without a row, with the reason, and systems without a description.
    pub notices: Vec<String>,
}

/// Reads the results of a published tree.
///
/// A result is every folder of a scenario with a VALID performance run. Before v1.0, Server has
/// several runs, of which the lowest is the result.
///
/// # Errors
/// Fails if the root cannot be listed.
pub fn published(root: &Path, round: &'static Round) -> Result<PublishedResults, TreeError> {
    let tree = Tree::walk(root)?;
    let options = Options::new(Program::Strict);
    let all = submitters(&tree, round, Guesses::of_round(round));
    let mut published = PublishedResults::default();
    let systems: Vec<(&Submitter<'_>, &System<'_>, JsonFile)> = all
        .iter()
        .flat_map(|submitter| submitter.systems.iter().map(move |system| (submitter, system)))
        .map(|(submitter, system)| (submitter, system, describe(system, &mut published)))
        .collect();
    let models = work::each_model(&systems, round, &options, |work| {
        let results = work.model.results.iter().map(|entry| work.published(entry));
        results.collect::<Vec<Result<Vec<Row>, String>>>()
    });
    for result in models.into_iter().flatten() {
        match result {
            Ok(rows) => published.rows.extend(rows),
            Err(why) => published.notices.push(why),
        }
    }
    Ok(published)
}

/// Returns the description of a system, which is empty if there is none.
fn describe(system: &System<'_>, published: &mut PublishedResults) -> JsonFile {
    let json = system.description.and_then(|file| json::read(file).ok());
    json.unwrap_or_else(|| {
        let path = system.folder.path();
        let notice = format!("{}: no description of the system can be read", path.display());
        published.notices.push(notice);
        JsonFile::empty()
    })
}

impl<'a, 't> Work<'a, 't, JsonFile> {
    /// Returns the rows of a result, or why it has none.
    fn published(&self, entry: &'a Entry<'t>) -> Result<Vec<Row>, String> {
        let why = |text: &str| format!("{}: {text}", entry.folder.path().display());
        let scenario = entry.scenario.ok_or_else(|| why("the folder is not a scenario"))?;
        let facts = self.facts_of_row(entry);
        let place = self.place(entry, Some(scenario), self.system_info);
        let mut issues = Issues::new(Program::Strict);
        let metric = match EndpointResult::find(&place, &facts) {
            Some(result) => result.performance(&mut issues),
            None => metric_of(&place, &facts),
        };
        let metric = metric.ok_or_else(|| why("no VALID performance run"))?;
        let accuracy = match (&facts.accuracy_text, entry.accuracy()) {
            (Ok(text), Some(folder)) => {
                accuracy::check_text(&place, text, &accuracy::paths(folder).0, &mut issues)
            }
            _ => Accuracy::default(),
        };
        let energy = entry.power().and_then(|_| powered::judge(&place, &facts, &mut issues));
        let empty = JsonFile::empty();
        let status = self.system_info.get("status").and_then(serde_json::Value::as_str);
        let own = vec![
            (Column::Availability, status.unwrap_or_default().to_lowercase()),
            (Column::Scenario, scenario.name().to_owned()),
            (Column::Location, entry.folder.path().to_string_lossy().into_owned()),
            (Column::Inferred, u8::from(metric.is_inferred).to_string()),
        ];
        let result = ValidResult {
            place: &place,
            metric: &metric,
            accuracy: &accuracy,
            energy,
            measurement: measurement_of(&facts, &empty),
            own,
        };
        Ok(result.rows(&mut issues))
    }
}

fn measurement_of<'a>(facts: &'a Facts<'_>, empty: &'a JsonFile) -> &'a JsonFile {
    let json = facts.measurement.as_ref().and_then(|file| file.json.as_ref().ok());
    json.unwrap_or(empty)
}

/// Returns the metric of the run that counts: the lowest of several in Server, otherwise the first
/// that is VALID.
fn metric_of(place: &Place<'_, '_>, facts: &Facts<'_>) -> Option<Metric> {
    if place.round.version >= Version::new(1, 0) {
        let run = place.entry.run()?;
        return match &facts.performance {
            Ok(log) if !log.is_pointer => metric_of_run(place, log, &run.path()),
            _ => metric_of_run(place, &read(run).ok()?, &run.path()),
        };
    }
    let mut lowest: Option<Metric> = None;
    for run in runs(place) {
        let log = read(run).ok();
        let metric = log.and_then(|log| metric_of_run(place, &log, &run.path()));
        let Some(metric) = metric else { continue };
        if place.scenario != Some(RuleScenario::Server) {
            return Some(metric);
        }
        if lowest.as_ref().is_none_or(|lowest| metric.value < lowest.value) {
            lowest = Some(metric);
        }
    }
    lowest
}

/// Returns the metric of a run if it is VALID.
fn metric_of_run(place: &Place<'_, '_>, log: &DetailLog, folder: &Path) -> Option<Metric> {
    // Limits of token latencies may decide in place of LoadGen's verdict.
    let is_valid = log.text("result_validity") == Some("VALID");
    if !is_valid && !is_language(&place.model.official) {
        return None;
    }
    let path = folder.join(DETAIL);
    let run = Run { place, log, path: &path, is_audit: false };
    run.judge(&mut Issues::new(Program::Strict))
}

/// Returns the log of a run. If the detail log is missing or was not fetched, the summary suffices.
fn read(run: Node<'_>) -> Result<DetailLog, ReadError> {
    let log = detail::read(run.file(DETAIL)).ok().filter(|log| !log.is_pointer);
    log.map_or_else(|| detail::read_summary(run.file(SUMMARY)), Ok)
}

/// Returns the folders of the performance runs before v1.0. The names were not enforced: logs are in `Performance`, in `run_0`, or in no folder of a run.
fn runs<'t>(place: &Place<'_, 't>) -> Vec<Node<'t>> {
    let is_performance = |folder: &Node<'_>| folder.text().eq_ignore_ascii_case("performance");
    let Some(folder) = place.entry.folder.folders().find(is_performance) else {
        return Vec::new();
    };
    let has_log = |run: &Node<'_>| run.file(DETAIL).or(run.file(SUMMARY)).is_some();
    std::iter::once(folder).chain(folder.folders()).filter(has_log).collect()
}
