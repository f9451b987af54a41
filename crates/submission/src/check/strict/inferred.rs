//! Checks results that are inferred from another scenario, and duplicate results.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use crate::check::catalogue::{RESULT_TWICE, RUN_COPY};
use crate::check::issues::{Issues, Location};
use crate::entry::Entry;
use crate::facts::Facts;
use dyno_rules::RuleScenario;
use dyno_rules::accuracy::AccuracyText;

/// Checks that an inferred result is a copy of its source.
pub(super) fn check_copy(results: &[(&Entry<'_>, Facts<'_>)], index: usize, issues: &mut Issues) {
    let Some((entry, facts)) = results.get(index) else { return };
    let Ok(log) = &facts.performance else { return };
    let Some(played) = log.text("effective_scenario").and_then(RuleScenario::named) else { return };
    let Some(wanted) = entry.scenario else { return };
    if wanted == played || (played, wanted) == (RuleScenario::Server, RuleScenario::Interactive) {
        return;
    }
    let path = entry.folder.path();
    let source = results.iter().find(|(other, _)| other.scenario == Some(played));
    let Some((source, source_facts)) = source else {
        let message = format!("is inferred from {}, which is not submitted", played.name());
        return issues.add(&RUN_COPY, Location::path(&path), message);
    };
    for (what, same) in [
        ("performance/run_1/mlperf_log_detail.txt", facts.performance == source_facts.performance),
        ("accuracy/mlperf_log_detail.txt", facts.accuracy == source_facts.accuracy),
        ("accuracy/accuracy.txt", says_the_same(facts, source_facts)),
    ] {
        if !same {
            let file = path.join(what);
            let message =
                format!("is inferred from {}, but differs from the file there", source.name);
            let expected = source.folder.path().join(what).display().to_string();
            issues.add_expected(&RUN_COPY, Location::path(&file), message, expected);
        }
    }
}

/// Whether both texts state the same accuracies and hashes. Other lines may differ.
fn says_the_same(facts: &Facts<'_>, source: &Facts<'_>) -> bool {
    let (Ok(text), Ok(of_source)) = (&facts.accuracy_text, &source.accuracy_text) else {
        return facts.accuracy_text.is_err() && source.accuracy_text.is_err();
    };
    let metrics = |text: &AccuracyText| -> Vec<(String, String)> {
        text.metrics.iter().map(|one| (one.metric.clone(), one.value.clone())).collect()
    };
    let hashes =
        |text: &AccuracyText| text.hashes.iter().map(|hash| hash.text.clone()).collect::<Vec<_>>();
    metrics(text) == metrics(of_source) && hashes(text) == hashes(of_source)
}

/// Fields by which a table of results distinguishes systems.
const DISTINGUISHING: [&str; 11] = [
    "system_name",
    "status",
    "number_of_nodes",
    "host_processor_model_name",
    "host_processors_per_node",
    "accelerator_model_name",
    "accelerators_per_node",
    "framework",
    "operating_system",
    "hw_notes",
    "sw_notes",
];

/// Rows of a table of results. Tables average rows that they cannot distinguish.
#[derive(Debug, Default)]
pub(super) struct Rows(BTreeMap<(String, String, RuleScenario), PathBuf>);

/// What a table shows of a result besides its figures.
pub(super) struct Row<'a> {
    pub description: &'a Value,
    pub model: &'a str,
    /// Whether the folder of the system distinguishes it from others of the same description.
    pub by_folder: bool,
}

impl Rows {
    /// Adds a result, or reports that it cannot be distinguished from another.
    pub(super) fn add(&mut self, row: &Row<'_>, entry: &Entry<'_>, issues: &mut Issues) {
        let Some(scenario) = entry.scenario else { return };
        let field =
            |name: &&str| row.description.get(*name).map(ToString::to_string).unwrap_or_default();
        let mut system = DISTINGUISHING.iter().map(field).collect::<Vec<_>>().join("\u{1f}");
        let path = entry.folder.path();
        // Folders of results are SYSTEM/BENCHMARK/SCENARIO.
        if let Some(folder) = path.ancestors().nth(2).filter(|_| row.by_folder) {
            system.push_str(&folder.to_string_lossy());
        }
        let key = (system, row.model.to_owned(), scenario);
        let before = self.0.entry(key).or_insert_with(|| path.clone());
        if *before != path {
            let message =
                format!("cannot be distinguished from {} in a table of results", before.display());
            let expected = "a different system_name, or only one of the two results";
            let mut own = issues.another();
            own.add_expected(&RESULT_TWICE, Location::path(&path), message, expected);
            // The rule on unique names is of the network division.
            if row.by_folder {
                own.waive(&[&RESULT_TWICE]);
            }
            issues.append(own);
        }
    }
}
