//! Tables of results of a submission, as MLCommons publishes them for a round. There is no
//! summary score.
//!
//! [`Results::from_rows`] converts the rows of valid results, which a check returns. There is
//! one sheet for each suite and division, with results by model, scenario and unit.
//!
//! ```
//! use dyno_rules::Round;
//! use dyno_submission::results::{Ids, Results};
//! use dyno_submission::table::{Column, Row};
//!
//! let mut row = Row::default();
//! row.value = 100.0;
//! for (column, text) in [
//!     (Column::Division, "closed"),
//!     (Column::SystemType, "edge"),
//!     (Column::MlperfModel, "resnet"),
//!     (Column::Scenario, "Offline"),
//!     (Column::Units, "Samples/s"),
//! ] {
//!     row.set(column, text);
//! }
//! let results = Results::from_rows(&[row], Round::named("v5.1").unwrap(), &mut Ids::new());
//! assert_eq!(results.sheets[0].name(), "edge - closed");
//! ```

mod rounded;
mod sheet;
mod statistics;
mod write;

use std::collections::BTreeMap;

pub use rounded::five_digits;
pub use sheet::{Key, Line, Sheet};
pub use statistics::{
    ClosedDivision, Matrix, Quartiles, Spread, Statistics, framework, processor_type,
};
pub use write::grouped;

use super::layout::Layout;
use super::table::{Column, Row};
use dyno_rules::{Round, RuleScenario, Suite, Version};

/// Published numbers of systems, by unique id.
pub type Ids = BTreeMap<String, u64>;

/// Content of a sheet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SheetKind {
    /// Performance results only.
    Performance,
    /// Performance and power of systems with power measurements.
    Power,
}

/// A result in a suite, or its power measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Round and number of the system.
    pub id: String,
    /// Suite, division, submitter, system, and in the open division the model.
    pub unique_id: String,
    /// `datacenter` or `edge`; empty in v0.5, which has no suites.
    pub suite: &'static str,
    /// `closed`, `open` or `network`.
    pub division: String,
    /// Submitter.
    pub submitter: String,
    /// Availability category.
    pub availability: String,
    /// Name of the system.
    pub system: String,
    /// Number of nodes.
    pub nodes: String,
    /// Processor model.
    pub processor: String,
    /// Processors per node.
    pub processors: String,
    /// Accelerator model; empty if there is none.
    pub accelerator: String,
    /// Accelerators per node; empty if there are none.
    pub accelerators: String,
    /// Accelerators in all nodes; empty if the counts are not numbers.
    pub total_accelerators: String,
    /// Software framework.
    pub software: String,
    /// Notes on hardware and software.
    pub notes: String,
    /// Folder of the system's results.
    pub details: String,
    /// Folder of the code.
    pub code: String,
    /// Model name in the tree.
    pub used_model: String,
    /// Accuracy with five significant digits.
    pub accuracy: String,
    /// Official model name.
    pub model: String,
    /// Scenario.
    pub scenario: RuleScenario,
    /// Value of the result.
    pub result: f64,
    /// Unit of the value.
    pub units: String,
    /// Whether the system's power was measured.
    pub has_power: bool,
    /// Whether this record is the power measurement.
    pub is_power: bool,
    /// Whether the result was inferred from another scenario.
    pub is_inferred: bool,
    /// Folder of the result.
    pub location: String,
    /// Information of the system that is in no other field.
    pub private_id: String,
}

/// All tables of a submission.
#[derive(Debug, Clone, PartialEq)]
pub struct Results {
    /// The round.
    pub round: Version,
    /// Records, in the order of the sheets.
    pub records: Vec<Record>,
    /// Sheets that are not empty.
    pub sheets: Vec<Sheet>,
    /// Statistics of the round.
    pub statistics: Statistics,
    /// Messages about results that are in no sheet, or several times in one.
    pub notices: Vec<String>,
}

impl Results {
    /// Creates the tables from rows of valid results. Systems in `ids` keep their numbers; new
    /// systems get new numbers and are added.
    #[must_use]
    pub fn from_rows(rows: &[Row], round: &Round, ids: &mut Ids) -> Self {
        let mut notices = Vec::new();
        let mut records = Vec::new();
        for row in rows {
            let before = records.len();
            records.extend(records_of(row, round));
            if records.len() == before {
                let cell = |column| row.get(column);
                let suite = match cell(Column::SystemType) {
                    "" => "the round".to_owned(),
                    suite => format!("the suite {suite}"),
                };
                notices.push(format!(
                    "{}: {suite} does not have {} in {}; no table lists it",
                    cell(Column::Location),
                    cell(Column::MlperfModel),
                    cell(Column::Scenario)
                ));
            }
        }
        records.sort_by(|a, b| sort_key(a).cmp(&sort_key(b)));
        number(&mut records, round.version, ids);
        let sheets = sheet::sheets(&records, round, &mut notices);
        let statistics = Statistics::from_records(&records, round);
        Self { round: round.version, records, sheets, statistics, notices }
    }
}

fn sort_key(record: &Record) -> impl Ord + use<'_> {
    (&record.division, &record.availability, &record.submitter, &record.unique_id)
}

/// Assigns ids to records. New numbers continue after the existing ones.
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

/// Returns a record for each suite of the system that has the model in the scenario, or one
/// record in a round without suites.
fn records_of<'a>(row: &'a Row, round: &'a Round) -> impl Iterator<Item = Record> + use<'a> {
    let cell = |column| row.get(column).to_owned();
    let scenario = RuleScenario::named(row.get(Column::Scenario));
    let benchmark = round.benchmark(row.get(Column::MlperfModel));
    let kind = row.get(Column::SystemType).to_lowercase();
    let has_suites = benchmark.is_some_and(|benchmark| !benchmark.suites.is_empty());
    let suites: &[Suite] =
        if has_suites { &[Suite::Datacenter, Suite::Edge] } else { &[Suite::Both] };
    suites.iter().filter_map(move |&suite| {
        let scenario = scenario?;
        let has = benchmark?.scenarios_in(suite)?.has(scenario);
        let name = if has_suites { suite.name() } else { "" };
        if !has || !kind.contains(name) {
            return None;
        }
        let division = cell(Column::Division);
        let (submitter, platform) = (cell(Column::Organization), cell(Column::Platform));
        let used_model = cell(Column::Model);
        let suite_prefix = if has_suites { format!("{name}/") } else { String::new() };
        let mut unique_id = format!("{suite_prefix}{division}/{submitter}/{platform}");
        if division == "open" {
            unique_id = format!("{unique_id}/{used_model}");
        }
        let units = cell(Column::Units);
        let accelerators = Some(cell(Column::Accelerators)).filter(|count| count != "0");
        let whole = |column| row.get(column).trim().parse::<u64>().ok();
        let total = whole(Column::Nodes).zip(whole(Column::Accelerators));
        let total = total.and_then(|(nodes, per_node)| nodes.checked_mul(per_node));
        let availability = cell(Column::Availability);
        Some(Record {
            id: String::new(),
            unique_id,
            suite: name,
            // The first rounds used `on-premise` for `available`.
            availability: match availability.as_str() {
                "on-premise" => "available".to_owned(),
                _ => availability,
            },
            system: cell(Column::SystemName),
            nodes: cell(Column::Nodes),
            processor: cell(Column::Processor),
            processors: cell(Column::Processors),
            accelerator: Some(cell(Column::Accelerator)).filter(|a| a != "-").unwrap_or_default(),
            accelerators: accelerators.unwrap_or_default(),
            total_accelerators: total.map_or_else(String::new, |total| total.to_string()),
            software: cell(Column::Framework),
            notes: cell(Column::Notes),
            details: format!("{division}/{submitter}/results/{platform}"),
            code: format!("{division}/{submitter}/{}", Layout::for_round(round.version).code()),
            division,
            submitter,
            used_model,
            accuracy: rounded::accuracy(row.get(Column::Accuracy)),
            model: cell(Column::MlperfModel),
            scenario,
            result: row.value,
            is_power: units.contains("Watt") || units.contains("joule"),
            units,
            has_power: row.get(Column::HasPower) == "True",
            is_inferred: row.get(Column::Inferred) == "1",
            location: cell(Column::Location),
            private_id: cell(Column::PrivateId),
        })
    })
}
