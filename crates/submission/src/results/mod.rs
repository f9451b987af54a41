//! The tables of results of a submission: what the organisation publishes of a round,
//! and what a reader asks of it. There is no summary score.
//!
//! [`Results::of`] takes the rows of a check, which count; a sheet for each suite and
//! division has the results by model, scenario and unit.

mod rounded;
mod sheet;
mod statistics;
mod write;

use std::collections::BTreeMap;

pub use rounded::five_digits;
pub use sheet::{Key, Line, Sheet};
pub use statistics::{Box5, Matrix, Spread, Statistics, framework, processor_type};
pub use write::grouped;

use super::layout::Layout;
use super::table::{Column, Row};
use dyno_rules::{Round, Scenario, Suite, Version};

/// Numbers of systems, by their unique ids; what is published keeps them.
pub type Ids = BTreeMap<String, u64>;

/// Whether a sheet has results or what they took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Rates and latencies.
    Performance,
    /// Of systems whose power was measured, both.
    Power,
}

/// A result in a suite.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Round and number.
    pub id: String,
    /// Suite, division, submitter, system, and in the open division the model.
    pub unique_id: String,
    /// `datacenter` or `edge`; empty in v0.5, which has no suites.
    pub suite: &'static str,
    /// `closed`, `open` or `network`.
    pub division: String,
    /// Who submitted it.
    pub submitter: String,
    /// Whether it can be bought.
    pub availability: String,
    /// Name of the system.
    pub system: String,
    /// Number of nodes.
    pub nodes: String,
    /// Processor model.
    pub processor: String,
    /// Processors in a node.
    pub processors: String,
    /// Accelerator model; empty without one.
    pub accelerator: String,
    /// Accelerators in a node; empty for none.
    pub accelerators: String,
    /// Accelerators in all nodes; empty where the numbers are none.
    pub total_accelerators: String,
    /// Framework.
    pub software: String,
    /// Notes on hardware and software.
    pub notes: String,
    /// Folder of the system's results.
    pub details: String,
    /// Folder of the code.
    pub code: String,
    /// Model by its name in the tree.
    pub used_model: String,
    /// Accuracy with five significant digits.
    pub accuracy: String,
    /// Official model.
    pub model: String,
    /// Scenario.
    pub scenario: Scenario,
    /// The value.
    pub result: f64,
    /// Its unit.
    pub units: String,
    /// Whether the system's power was measured.
    pub has_power: bool,
    /// Whether this is the power.
    pub is_power: bool,
    /// Whether it was inferred from another scenario.
    pub is_inferred: bool,
    /// Folder of the result.
    pub location: String,
    /// What the system said of itself that is no other field.
    pub private_id: String,
}

/// All tables of a submission.
#[derive(Debug, Clone, PartialEq)]
pub struct Results {
    /// The round.
    pub round: Version,
    /// Each result, in the order of the sheets.
    pub records: Vec<Record>,
    /// Those that are not empty.
    pub sheets: Vec<Sheet>,
    /// What a round shows as a whole.
    pub statistics: Statistics,
    /// Results that are in no sheet or several times in one, in words.
    pub told: Vec<String>,
}

impl Results {
    /// The tables of rows that count. `ids` keeps the numbers of before, and takes
    /// those of new systems.
    #[must_use]
    pub fn of(rows: &[Row], round: &Round, ids: &mut Ids) -> Self {
        let mut told = Vec::new();
        let mut records = Vec::new();
        for row in rows {
            let before = records.len();
            records.extend(records_of(row, round));
            if records.len() == before {
                let of = |column| row.get(column);
                let suite = match of(Column::SystemType) {
                    "" => "the round".to_owned(),
                    suite => format!("the suite {suite}"),
                };
                told.push(format!(
                    "{}: {suite} does not have {} in {}; it is in no table",
                    of(Column::Location),
                    of(Column::MlperfModel),
                    of(Column::Scenario)
                ));
            }
        }
        records.sort_by(|a, b| sorted_by(a).cmp(&sorted_by(b)));
        number(&mut records, round.version, ids);
        let sheets = sheet::sheets(&records, round, &mut told);
        let statistics = Statistics::of(&records, round);
        Self { round: round.version, records, sheets, statistics, told }
    }
}

fn sorted_by(record: &Record) -> impl Ord + use<'_> {
    (&record.division, &record.availability, &record.submitter, &record.unique_id)
}

/// Numbers go on where those of before end.
fn number(records: &mut [Record], round: Version, ids: &mut Ids) {
    let mut last = ids.values().max().copied().unwrap_or(0);
    for record in records {
        let number = *ids.entry(record.unique_id.clone()).or_insert_with(|| {
            last = last.saturating_add(1);
            last
        });
        record.id = format!("{}.{}-{number:04}", round.major, round.minor);
    }
}

/// A row once for each suite of its system that has the model in the scenario; once in a
/// round without suites.
fn records_of<'a>(row: &'a Row, round: &'a Round) -> impl Iterator<Item = Record> + use<'a> {
    let of = |column| row.get(column).to_owned();
    let scenario = Scenario::named(row.get(Column::Scenario));
    let benchmark = round.benchmark(row.get(Column::MlperfModel));
    let kind = row.get(Column::SystemType).to_lowercase();
    let has_suites = benchmark.is_some_and(|benchmark| !benchmark.suites.is_empty());
    let suites: &[Suite] = match has_suites {
        true => &[Suite::Datacenter, Suite::Edge],
        false => &[Suite::Both],
    };
    suites.iter().filter_map(move |&suite| {
        let scenario = scenario?;
        let has = benchmark?.scenarios_in(suite)?.has(scenario);
        let name = if has_suites { suite.name() } else { "" };
        if !has || !kind.contains(name) {
            return None;
        }
        let division = of(Column::DivisionFolder);
        let (submitter, platform) = (of(Column::Organization), of(Column::Platform));
        let used_model = of(Column::Model);
        let of_suite = if has_suites { format!("{name}/") } else { String::new() };
        let mut unique_id = format!("{of_suite}{division}/{submitter}/{platform}");
        if division == "open" {
            unique_id = format!("{unique_id}/{used_model}");
        }
        let units = of(Column::Units);
        let accelerators = Some(of(Column::Accelerators)).filter(|count| count != "0");
        let whole = |column| row.get(column).trim().parse::<u64>().ok();
        let total = whole(Column::Nodes).zip(whole(Column::Accelerators));
        let total = total.and_then(|(nodes, of_node)| nodes.checked_mul(of_node));
        let availability = of(Column::Availability);
        Some(Record {
            id: String::new(),
            unique_id,
            suite: name,
            // As the first rounds called what can be bought.
            availability: match availability.as_str() {
                "on-premise" => "available".to_owned(),
                _ => availability,
            },
            system: of(Column::SystemName),
            nodes: of(Column::Nodes),
            processor: of(Column::Processor),
            processors: of(Column::Processors),
            accelerator: Some(of(Column::Accelerator)).filter(|a| a != "-").unwrap_or_default(),
            accelerators: accelerators.unwrap_or_default(),
            total_accelerators: total.map_or_else(String::new, |total| total.to_string()),
            software: of(Column::Framework),
            notes: of(Column::Notes),
            details: format!("{division}/{submitter}/results/{platform}"),
            code: format!("{division}/{submitter}/{}", Layout::for_round(round.version).code()),
            division,
            submitter,
            used_model,
            accuracy: rounded::accuracy(row.get(Column::Accuracy)),
            model: of(Column::MlperfModel),
            scenario,
            result: row.value,
            is_power: units.contains("Watt") || units.contains("joule"),
            units,
            has_power: row.get(Column::HasPower) == "True",
            is_inferred: row.get(Column::Inferred) == "1",
            location: of(Column::Location),
            private_id: of(Column::PrivateId),
        })
    })
}
