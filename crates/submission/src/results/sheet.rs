//! A table: a line for each system, a column for each model, scenario and unit.

use super::{Kind, Record};
use dyno_rules::{Round, Scenario};

/// A column of values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Official model.
    pub model: String,
    /// Scenario.
    pub scenario: Scenario,
    /// Unit.
    pub units: String,
}

/// A line: what it is of, and its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// In the order of [`Sheet::index`].
    pub index: Vec<String>,
    /// In the order of [`Sheet::columns`].
    pub values: Vec<Option<f64>>,
}

/// The results of a division, in one suite where the round has any.
#[derive(Debug, Clone, PartialEq)]
pub struct Sheet {
    /// `datacenter` or `edge`; empty in v0.5, which has no suites.
    pub suite: &'static str,
    /// `closed`, `open` or `network`.
    pub division: &'static str,
    /// With power or without.
    pub kind: Kind,
    /// Names of what a line is of.
    pub index: Vec<&'static str>,
    /// By the order of the round's models, scenarios, units.
    pub columns: Vec<Key>,
    /// By availability, submitter and system.
    pub lines: Vec<Line>,
}

impl Sheet {
    /// Such as `datacenter - closed`, `edge - open - power`; `closed` in v0.5.
    #[must_use]
    pub fn name(&self) -> String {
        let power = if self.kind == Kind::Power { "power" } else { "" };
        let parts = [self.suite, self.division, power];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join(" - ")
    }
}

/// In the order in which the results are published.
const SCENARIOS: [Scenario; 5] = [
    Scenario::SingleStream,
    Scenario::MultiStream,
    Scenario::Server,
    Scenario::Offline,
    Scenario::Interactive,
];

/// Names of what a line is of, and how a record says it.
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

/// Where those of the open division stand, whose lines differ by model.
const BEFORE_DETAILS: usize = 15;
const OF_OPEN: [Index; 2] =
    [("UsedModel", |r| r.used_model.clone()), ("Accuracy", |r| r.accuracy.clone())];

pub(super) fn sheets(records: &[Record], round: &Round, told: &mut Vec<String>) -> Vec<Sheet> {
    let mut sheets = Vec::new();
    for division in ["closed", "open", "network"] {
        for suite in ["datacenter", "edge", ""] {
            for kind in [Kind::Performance, Kind::Power] {
                let is_of = |record: &&Record| {
                    record.suite == suite
                        && record.division == division
                        && match kind {
                            Kind::Performance => !record.is_power,
                            Kind::Power => record.has_power,
                        }
                };
                let records: Vec<&Record> = records.iter().filter(is_of).collect();
                if !records.is_empty() {
                    sheets.push(sheet(&records, (suite, division, kind), round, told));
                }
            }
        }
    }
    sheets
}

fn sheet(
    records: &[&Record],
    (suite, division, kind): (&'static str, &'static str, Kind),
    round: &Round,
    told: &mut Vec<String>,
) -> Sheet {
    let mut index = INDEX.to_vec();
    if division == "open" {
        index.splice(BEFORE_DETAILS..BEFORE_DETAILS, OF_OPEN);
    }
    let columns = columns(records, round);
    let names = index.iter().map(|(name, _)| *name).collect();
    let lines = Vec::new();
    let mut sheet = Sheet { suite, division, kind, index: names, columns, lines };
    for record in records {
        let of: Vec<String> = index.iter().map(|(_, say)| say(record)).collect();
        let column = sheet.columns.iter().position(|key| is_of(record, key));
        let column = column.expect("the columns are of these records");
        let mut of_system = sheet.lines.iter_mut().filter(|line| line.index == of).peekable();
        let is_again = of_system.peek().is_some();
        match of_system.find(|line| line.values[column].is_none()) {
            Some(line) => line.values[column] = Some(record.result),
            None => {
                let mut values = vec![None; sheet.columns.len()];
                values[column] = Some(record.result);
                // The second of a kind stands below the first, and is not averaged away.
                let at = sheet.lines.iter().rposition(|line| line.index == of);
                let at = at.map_or(sheet.lines.len(), |at| at + 1);
                sheet.lines.insert(at, Line { index: of, values });
                if is_again {
                    told.push(format!(
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

fn is_of(record: &Record, key: &Key) -> bool {
    (record.scenario, &record.model, &record.units) == (key.scenario, &key.model, &key.units)
}

/// Those of the records, without the empty ones.
fn columns(records: &[&Record], round: &Round) -> Vec<Key> {
    let mut columns: Vec<Key> = Vec::new();
    for record in records {
        if !columns.iter().any(|key| is_of(record, key)) {
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
