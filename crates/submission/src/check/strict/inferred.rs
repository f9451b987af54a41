//! Results that stand for another scenario, and results that are there twice.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use crate::check::catalogue::{RESULT_TWICE, RUN_COPY};
use crate::check::issues::{At, Issues};
use crate::entry::Entry;
use crate::facts::Facts;
use dyno_rules::Scenario;

/// An inferred result is a copy of its source, so that the logs must be the same.
pub(super) fn check_copy(results: &[(&Entry<'_>, Facts<'_>)], at: usize, issues: &mut Issues) {
    let Some((entry, facts)) = results.get(at) else { return };
    let Ok(log) = &facts.performance else { return };
    let Some(played) = log.text("effective_scenario").and_then(Scenario::named) else { return };
    let Some(wanted) = entry.scenario else { return };
    if wanted == played || (played, wanted) == (Scenario::Server, Scenario::Interactive) {
        return;
    }
    let path = entry.folder.path();
    let source = results.iter().find(|(other, _)| other.scenario == Some(played));
    let Some((source, from)) = source else {
        let message = format!("is inferred from {}, which is not submitted", played.name());
        return issues.add(&RUN_COPY, At::path(&path), message);
    };
    for (what, same) in [
        ("performance/run_1/mlperf_log_detail.txt", facts.performance == from.performance),
        ("accuracy/mlperf_log_detail.txt", facts.accuracy == from.accuracy),
        ("accuracy/accuracy.txt", facts.accuracy_text == from.accuracy_text),
    ] {
        if !same {
            let file = path.join(what);
            let message = format!("is inferred from {}, and not the same as there", source.name);
            let expected = source.folder.path().join(what).display().to_string();
            issues.add_expected(&RUN_COPY, At::path(&file), message, expected);
        }
    }
}

/// Fields that a table of results tells systems apart by.
const APART: [&str; 11] = [
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

/// Rows of a table of results, as far as it can tell them apart. Tables average rows that
/// they cannot.
#[derive(Debug, Default)]
pub(super) struct Rows(BTreeMap<(String, String, Scenario), PathBuf>);

impl Rows {
    /// Adds a result of a submitter.
    pub(super) fn add(
        &mut self,
        description: &Value,
        model: &str,
        entry: &Entry<'_>,
        issues: &mut Issues,
    ) {
        let Some(scenario) = entry.scenario else { return };
        let field =
            |name: &&str| description.get(*name).map(ToString::to_string).unwrap_or_default();
        let system = APART.iter().map(field).collect::<Vec<_>>().join("\u{1f}");
        let path = entry.folder.path();
        let before =
            self.0.entry((system, model.to_owned(), scenario)).or_insert_with(|| path.clone());
        if *before != path {
            let message = format!("cannot be told from {} in a table of results", before.display());
            let expected = "another system_name, or one of the two";
            issues.add_expected(&RESULT_TWICE, At::path(&path), message, expected);
        }
    }
}
