//! Table of results as CSV, with the columns and the quoting of each official checker.

use std::io::{self, Write};

use dyno_rules::Behavior;

use super::check::Program;

/// A column of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the column of its name")]
pub enum Column {
    Organization,
    Availability,
    Division,
    SystemType,
    SystemName,
    Platform,
    Model,
    MlperfModel,
    Scenario,
    Result,
    Accuracy,
    Nodes,
    Processor,
    Processors,
    Cores,
    Accelerator,
    Accelerators,
    TotalAccelerators,
    Location,
    Framework,
    OperatingSystem,
    Notes,
    Compliance,
    Errors,
    Version,
    Inferred,
    HasPower,
    Units,
    WeightDataTypes,
    DesignPower,
    PrivateId,
    Power,
}

/// ColumnFormat and how a column is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ColumnFormat {
    /// By both checkers; the single-file one does not quote it.
    Plain,
    /// By both checkers, always quoted.
    Quoted,
    /// By the modular checker only.
    Modular,
    /// By the single-file checker of v1.0 only.
    First,
}

use ColumnFormat::{Modular, Plain, Quoted};

/// Columns in the order of [`Column`].
const COLUMNS: [(Column, &str, ColumnFormat); 32] = [
    (Column::Organization, "Organization", Plain),
    (Column::Availability, "Availability", Plain),
    (Column::Division, "Division", Plain),
    (Column::SystemType, "SystemType", Quoted),
    (Column::SystemName, "SystemName", Quoted),
    (Column::Platform, "Platform", Plain),
    (Column::Model, "Model", Plain),
    (Column::MlperfModel, "MlperfModel", Plain),
    (Column::Scenario, "Scenario", Plain),
    (Column::Result, "Result", Plain),
    (Column::Accuracy, "Accuracy", Plain),
    (Column::Nodes, "number_of_nodes", Plain),
    (Column::Processor, "host_processor_model_name", Quoted),
    (Column::Processors, "host_processors_per_node", Plain),
    (Column::Cores, "host_processor_core_count", Plain),
    (Column::Accelerator, "accelerator_model_name", Quoted),
    (Column::Accelerators, "accelerators_per_node", Quoted),
    (Column::TotalAccelerators, "total_accelerators", Modular),
    (Column::Location, "Location", Plain),
    (Column::Framework, "framework", Quoted),
    (Column::OperatingSystem, "operating_system", Quoted),
    (Column::Notes, "notes", Quoted),
    (Column::Compliance, "compliance", Plain),
    (Column::Errors, "errors", Plain),
    (Column::Version, "version", Plain),
    (Column::Inferred, "inferred", Plain),
    (Column::HasPower, "has_power", Plain),
    (Column::Units, "Units", Plain),
    (Column::WeightDataTypes, "weight_data_types", Quoted),
    (Column::DesignPower, "design_power_watts", Modular),
    (Column::PrivateId, "PrivateID", Modular),
    (Column::Power, "power", ColumnFormat::First),
];

/// A row: a result, or its power measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Value of the column `Result`.
    pub value: f64,
    cells: Vec<String>,
}

impl Default for Row {
    fn default() -> Self {
        Self { value: 0.0, cells: vec![String::new(); COLUMNS.len()] }
    }
}

impl Row {
    /// Returns the text of a column.
    pub fn get(&self, column: Column) -> &str {
        &self.cells[column as usize]
    }

    /// Sets the text of a column.
    pub fn set(&mut self, column: Column, text: impl Into<String>) {
        self.cells[column as usize] = text.into();
    }

    /// Returns the names and texts of the columns that a program writes.
    pub fn columns(&self, program: Program) -> impl Iterator<Item = (&'static str, &str)> {
        columns(program).map(|(column, name, _)| (name, self.get(column)))
    }
}

fn columns(program: Program) -> impl Iterator<Item = (Column, &'static str, ColumnFormat)> {
    let does = move |behavior| program.does(behavior);
    let is_written = move |column: Column, format: ColumnFormat| match (column, format) {
        (_, Modular) => program.one_file().is_none(),
        (Column::Power, _) => does(Behavior::PowerColumn),
        (Column::HasPower | Column::Units, _) => {
            !does(Behavior::PowerColumn) && !does(Behavior::NoPower)
        }
        (Column::WeightDataTypes, _) => !does(Behavior::NoWeightTypes),
        _ => true,
    };
    let chosen =
        COLUMNS.into_iter().filter(move |(column, _, format)| is_written(*column, *format));
    chosen.map(move |(column, name, format)| match column {
        Column::Compliance if does(Behavior::Compilance) => (column, "compilance", format),
        Column::Inferred if does(Behavior::Infered) => (column, "infered", format),
        Column::SystemType if does(Behavior::PlainSystemType) => (column, name, Plain),
        Column::Accelerators if does(Behavior::PlainAccelerators) => (column, name, Plain),
        _ => (column, name, format),
    })
}

/// Returns a prefix that prevents spreadsheets from reading a text as a formula.
fn guard(text: &str) -> &'static str {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if is_formula && text.parse::<f64>().is_err() { "'" } else { "" }
}

/// Writes the table as a program does. The official checkers do not escape quotes, so a quote in
/// a name breaks their row; [`Program::Strict`] doubles quotes.
///
/// # Errors
/// Fails if the writer fails.
pub fn write_csv(rows: &[Row], program: Program, out: &mut impl Write) -> io::Result<()> {
    let names: Vec<&str> = columns(program).map(|(_, name, _)| name).collect();
    writeln!(out, "{}", names.join(","))?;
    for row in rows {
        let cell = |(column, _, place): (Column, &str, ColumnFormat)| {
            let text = row.get(column);
            match (program, place) {
                (Program::Mono | Program::Tag(_), Plain | ColumnFormat::First) => text.to_owned(),
                (Program::Strict, _) => {
                    format!("\"{}{}\"", guard(text), text.replace('"', "\"\""))
                }
                (Program::Mono | Program::Tag(_) | Program::Modular, _) => format!("\"{text}\""),
            }
        };
        let cells: Vec<String> = columns(program).map(cell).collect();
        writeln!(out, "{}", cells.join(","))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_of_ours_is_a_formula() {
        let mut row = Row::default();
        row.set(Column::Platform, "=1+1");
        let text = |program| {
            let mut text = Vec::new();
            write_csv(std::slice::from_ref(&row), program, &mut text).unwrap();
            String::from_utf8(text).unwrap()
        };
        assert!(text(Program::Strict).contains("\"'=1+1\""));
        assert!(text(Program::Modular).contains("\"=1+1\""));
        assert_eq!((guard("-1.5"), guard("-x"), guard("a=b")), ("", "'", ""));
    }

    #[test]
    fn columns_lie_in_their_order() {
        for (index, (column, _, _)) in COLUMNS.iter().enumerate() {
            assert_eq!(*column as usize, index);
        }
    }
}
