//! Tables as CSV and JSON.

use serde_json::{Map, Value, json};

use super::{Matrix, Record, Results, Sheet, Spread};

/// Formats a value with three decimals and thousands separators, as published.
pub fn grouped(value: f64) -> String {
    if !value.is_finite() {
        return String::new();
    }
    let text = format!("{:.3}", value.abs());
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, "000"));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{grouped}.{fraction}")
}

impl Sheet {
    /// Returns the sheet as CSV: a header line, then one line per system. Values are the
    /// shortest numbers that round-trip.
    pub fn csv(&self) -> String {
        let keys = self
            .columns
            .iter()
            .map(|key| quoted(&format!("{} {} [{}]", key.model, key.scenario.name(), key.units)));
        let names = self.index.iter().map(|name| quoted(name)).chain(keys);
        let mut text = names.collect::<Vec<_>>().join(",");
        text.push('\n');
        for line in &self.lines {
            let index = line.index.iter().map(|cell| quoted(cell));
            let values = line.values.iter();
            let values = values.map(|value| value.map_or(String::new(), |value| value.to_string()));
            text += &index.chain(values).collect::<Vec<_>>().join(",");
            text.push('\n');
        }
        text
    }
}

/// Characters at which spreadsheets recognize a formula. An apostrophe before them makes the
/// cell a text.
const FORMULA: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

fn quoted(cell: &str) -> String {
    let text = if cell.starts_with(FORMULA) { format!("'{cell}") } else { cell.to_owned() };
    let cell = text.as_str();
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

impl Results {
    /// Returns all tables as one JSON document. A result and its power measurement are one
    /// entry.
    pub fn json(&self) -> Value {
        let power = |result: &Record| {
            self.records.iter().find(|record| {
                record.is_power
                    && (record.suite, &record.location) == (result.suite, &result.location)
            })
        };
        let results = self.records.iter().filter(|record| !record.is_power);
        let results = results.map(|record| entry(record, power(record)));
        // Records whose power alone was submitted.
        let power_only = self.records.iter().filter(|record| {
            record.is_power
                && !self.records.iter().any(|other| {
                    !other.is_power
                        && (other.suite, &other.location) == (record.suite, &record.location)
                })
        });
        let power_only = power_only.map(|record| entry(record, Some(record)));
        let results: Vec<Value> = results.chain(power_only).collect();
        let statistics = &self.statistics;
        json!({
            "schema": "dyno.results",
            "schema_version": 1,
            "round": self.round.to_string(),
            "disclaimer": "not official MLPerf results",
            "results": results,
            "told": self.notices,
            "statistics": {
                "results_by_division_and_suite": matrix(&statistics.divisions),
                "results_by_model_and_scenario": matrix(&statistics.scenarios),
                "systems_by_framework_and_processor": matrix(&statistics.frameworks),
                "closed_results_by_model_and_scenario": matrix(&statistics.closed.scenarios),
                "closed_systems_by_framework_and_processor":
                    matrix(&statistics.closed.frameworks),
                "spreads": statistics.spreads.iter().map(spread).collect::<Vec<_>>(),
            },
        })
    }
}

fn entry(record: &Record, power: Option<&Record>) -> Value {
    let mut fields = Map::new();
    let texts = [
        ("ID", &record.id),
        ("Unique ID (e.g. for Audit)", &record.unique_id),
        ("PrivateID", &record.private_id),
        ("Suite", &record.suite.to_owned()),
        ("Category", &record.division),
        ("Submitter", &record.submitter),
        ("Availability", &record.availability),
        ("System", &record.system),
        ("Nodes", &record.nodes),
        ("Processor", &record.processor),
        ("p#", &record.processors),
        ("Accelerator", &record.accelerator),
        ("a#", &record.accelerators),
        ("Total Accelerators", &record.total_accelerators),
        ("Software", &record.software),
        ("Notes", &record.notes),
        ("Details", &record.details),
        ("Code", &record.code),
        ("UsedModel", &record.used_model),
        ("Accuracy", &record.accuracy),
        ("Model", &record.model),
        ("Scenario", &record.scenario.name().to_owned()),
        ("Location", &record.location),
    ];
    for (name, text) in texts {
        fields.insert(name.to_owned(), text.as_str().into());
    }
    fields.insert("Inferred".to_owned(), record.is_inferred.into());
    if !record.is_power {
        fields.insert("Performance_Result".to_owned(), record.result.into());
        fields.insert("Performance_Units".to_owned(), record.units.as_str().into());
    }
    if let Some(power) = power {
        fields.insert("Power_Result".to_owned(), power.result.into());
        fields.insert("Power_Units".to_owned(), power.units.as_str().into());
    }
    Value::Object(fields)
}

fn matrix(matrix: &Matrix) -> Value {
    json!({ "lines": matrix.lines, "columns": matrix.columns, "counts": matrix.counts })
}

fn spread(spread: &Spread) -> Value {
    let speeds = spread.speeds;
    json!({
        "model": spread.model,
        "scenario": spread.scenario.name(),
        "suite": spread.suite,
        "units": spread.units,
        "results": spread.results,
        "slowest": spread.slowest,
        "fastest": spread.fastest,
        "leader": spread.leader,
        "best_to_worst": spread.ratio(),
        "speed_over_slowest": {
            "min": speeds.least, "q1": speeds.first, "median": speeds.median,
            "q3": speeds.third, "max": speeds.greatest,
        },
    })
}
