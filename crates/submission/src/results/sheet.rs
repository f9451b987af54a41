//! A table with one line per system and one column per model, scenario and unit.

use super::{Record, SheetKind};
use dyno_rules::{Round, RuleScenario};

/// Key of a column of values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Official model name.
    pub model: String,
    /// Scenario.
    pub scenario: RuleScenario,
    /// Unit.
    pub units: String,
}

/// A line: index cells and values.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Index cells, in the order of [`Sheet::index`].
    pub index: Vec<String>,
    /// Values, in the order of [`Sheet::columns`].
    pub values: Vec<Option<f64>>,
}

/// Results of a division, in one suite if the round has suites.
#[derive(Debug, Clone, PartialEq)]
pub struct Sheet {
    /// `datacenter` or `edge`; empty in v0.5, which has no suites.
    pub suite: &'static str,
    /// `closed`, `open` or `network`.
    pub division: &'static str,
    /// Whether the sheet includes power.
    pub kind: SheetKind,
    /// Names of the index cells.
    pub index: Vec<&'static str>,
    /// Keys of the columns, in the order of the round's models, scenarios, units.
    pub columns: Vec<Key>,
    /// Lines, sorted by availability, submitter and system.
    pub lines: Vec<Line>,
}

impl Sheet {
    /// Returns the name, such as `datacenter - closed` or `edge - open - power`; `closed` in
    /// v0.5.
    pub fn name(&self) -> String {
        let power = if self.kind == SheetKind::Power { "power" } else { "" };
        let parts = [self.suite, self.division, power];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join(" - ")
    }
}

/// Order of the scenarios in published results.
const SCENARIOS: [RuleScenario; 5] = [
    RuleScenario::SingleStream,
    RuleScenario::MultiStream,
    RuleScenario::Server,
    RuleScenario::Offline,
    RuleScenario::Interactive,
];

/// Name of an index cell, and the function that returns its text.
type Index = (&'static str, fn(&Record) -> String);

const INDEX: [Index; 17] = [
    ("ID", |r| r.id.clone()),
    ("Unique ID (e.g. for Audit)", |r| r.unique_id.clone()),
    ("ColorKey", |r| format!("{}{}", r.availability, r.submitter)),
    ("PrivateID", |r| r.private_id.clone()),
    ("Submitter", |r| r.submitter.clone()),
    ("Availability", |r| r.availability.clone()),
    ("System", |r| r.system.clone()),
    ("Nodes", |r| r.nodes.clone()),
    ("Processor", |r| r.processor.clone()),
    ("p#", |r| r.processors.clone()),
    ("Accelerator", |r| r.accelerator.clone()),
    ("a#", |r| r.accelerators.clone()),
    ("Total Accelerators", |r| r.total_accelerators.clone()),
    ("Software", |r| r.software.clone()),
    ("Notes", |r| r.notes.clone()),
    ("Details", |r| r.details.clone()),
    ("Code", |r| r.code.clone()),
];

/// Position of the additional cells of the open division, whose lines differ by model.
const BEFORE_DETAILS: usize = 15;
const OPEN_INDEX: [Index; 2] =
    [("UsedModel", |r| r.used_model.clone()), ("Accuracy", |r| r.accuracy.clone())];

pub(super) fn sheets(records: &[Record], round: &Round, notices: &mut Vec<String>) -> Vec<Sheet> {
    let mut sheets = Vec::new();
    for division in ["closed", "open", "network"] {
        for suite in ["datacenter", "edge", ""] {
            for kind in [SheetKind::Performance, SheetKind::Power] {
                let is_included = |record: &&Record| {
                    record.suite == suite
                        && record.division == division
                        && match kind {
                            SheetKind::Performance => !record.is_power,
                            SheetKind::Power => record.has_power,
                        }
                };
                let records: Vec<&Record> = records.iter().filter(is_included).collect();
                if !records.is_empty() {
                    sheets.push(sheet(&records, suite, division, kind, round, notices));
                }
            }
        }
    }
    sheets
}

fn sheet(
    records: &[&Record],
    suite: &'static str,
    division: &'static str,
    kind: SheetKind,
    round: &Round,
    notices: &mut Vec<String>,
) -> Sheet {
    let mut index = INDEX.to_vec();
    if division == "open" {
        index.splice(BEFORE_DETAILS..BEFORE_DETAILS, OPEN_INDEX);
    }
    let columns = columns(records, round);
    let names = index.iter().map(|(name, _)| *name).collect();
    let lines = Vec::new();
    let mut sheet = Sheet { suite, division, kind, index: names, columns, lines };
    for record in records {
        let cells: Vec<String> = index.iter().map(|(_, text)| text(record)).collect();
        let column = sheet.columns.iter().position(|key| matches_key(record, key));
        let column = column.expect("the columns are of these records");
        let mut same_system = sheet.lines.iter_mut().filter(|line| line.index == cells).peekable();
        let is_again = same_system.peek().is_some();
        match same_system.find(|line| line.values[column].is_none()) {
            Some(line) => line.values[column] = Some(record.result),
            None => {
                let mut values = vec![None; sheet.columns.len()];
                values[column] = Some(record.result);
                // A second result of the same kind gets its own line below the first; results
                // are not averaged.
                let previous = sheet.lines.iter().rposition(|line| line.index == cells);
                let position = previous.map_or(sheet.lines.len(), |index| index + 1);
                sheet.lines.insert(position, Line { index: cells, values });
                if is_again {
                    notices.push(format!(
                        "{}: another result of the same system, model and scenario is in the \
                         table {}; both are shown",
                        record.location,
                        sheet.name()
                    ));
                }
            }
        }
    }
    sheet
}

fn matches_key(record: &Record, key: &Key) -> bool {
    (record.scenario, &record.model, &record.units) == (key.scenario, &key.model, &key.units)
}

/// Returns the columns for which there are records.
fn columns(records: &[&Record], round: &Round) -> Vec<Key> {
    let mut columns: Vec<Key> = Vec::new();
    for record in records {
        if !columns.iter().any(|key| matches_key(record, key)) {
            columns.push(Key {
                model: record.model.clone(),
                scenario: record.scenario,
                units: record.units.clone(),
            });
        }
    }
    let place = |key: &Key| {
        let model = round.benchmarks.iter().position(|benchmark| benchmark.name == key.model);
        let scenario = SCENARIOS.iter().position(|scenario| *scenario == key.scenario);
        let is_power = key.units.contains("Watt") || key.units.contains("joule");
        (model, scenario, is_power, key.units.clone())
    };
    columns.sort_by_cached_key(place);
    columns
}
