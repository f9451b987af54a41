//! Rows of valid results in the table of results.

use serde_json::Value;

use super::accuracy::Accuracy;
use super::issues::{Issues, Location};
use super::performance::Metric;
use super::{Place, Program};
use crate::facts::json::JsonFile;
use crate::power::Energy;
use crate::python;
use crate::table::{Column, Row};
use dyno_rules::{Behavior, OneFileChecker, RuleScenario, Version};

/// Language models whose results are in tokens.
const TOKENS: [&str; 9] = [
    "gptj-99",
    "gptj-99.9",
    "llama2-70b-99",
    "llama2-70b-99.9",
    "mixtral-8x7b",
    "llama3.1-405b",
    "llama3.1-8b",
    "deepseek-r1",
    "gpt-oss-120b",
];

/// A result that counts.
pub struct ValidResult<'a, 't> {
    /// Place of the result.
    pub place: &'a Place<'a, 't>,
    /// Metric.
    pub metric: &'a Metric,
    /// Accuracy.
    pub accuracy: &'a Accuracy,
    /// Power metric, if power was measured.
    pub energy: Option<Energy>,
    /// Description of the measurement.
    pub measurement: &'a JsonFile,
    /// Cells that each program fills in differently.
    pub own: Vec<(Column, String)>,
}

impl ValidResult<'_, '_> {
    /// Returns the row of the result and, if power was measured, the row of the power metric.
    pub fn rows(&self, issues: &mut Issues) -> Vec<Row> {
        self.crash_while_writing(issues);
        let mut row = self.row(issues);
        row.set(Column::Power, self.energy.map_or("0".to_owned(), |e| python::float(e.value)));
        if issues.program().does(Behavior::PowerColumn) || issues.program().does(Behavior::NoPower)
        {
            return vec![row];
        }
        let Some(energy) = self.energy.filter(|energy| energy.value > 0.0) else {
            return vec![row];
        };
        let mut rows = Vec::new();
        let only_power = self.place.description.get("system_power_only").is_some_and(is_set);
        let is_beside = issues.program().does(Behavior::ResultBesidePower);
        if issues.program().one_file().is_none() || !only_power || is_beside {
            rows.push(row.clone());
        }
        row.value = energy.value;
        row.set(Column::Result, python::float(energy.value));
        row.set(Column::Units, energy.unit.name());
        rows.push(row);
        rows
    }

    fn row(&self, issues: &mut Issues) -> Row {
        let Place { round, submitter, system, model, .. } = *self.place;
        let mut row = Row::default();
        row.value = self.metric.value;
        row.set(Column::Organization, &*submitter.name);
        row.set(Column::Division, submitter.division.name());
        row.set(Column::Platform, &*system.name);
        row.set(Column::Model, &*model.name);
        row.set(Column::MlperfModel, &*model.official);
        row.set(Column::Result, &*self.metric.text);
        row.set(Column::Accuracy, self.accuracy_text());
        row.set(Column::Version, round.version.to_string());
        row.set(Column::HasPower, if self.energy.is_some() { "True" } else { "False" });
        row.set(Column::Units, self.unit(issues.program()));
        for (column, field, must_be_text) in [
            (Column::Availability, "status", true),
            (Column::SystemType, "system_type", true),
            (Column::SystemName, "system_name", true),
            (Column::Nodes, "number_of_nodes", false),
            (Column::Processor, "host_processor_model_name", true),
            (Column::Processors, "host_processors_per_node", false),
            (Column::Cores, "host_processor_core_count", false),
            (Column::Accelerator, "accelerator_model_name", true),
            (Column::Accelerators, "accelerators_per_node", false),
            (Column::Framework, "framework", true),
            (Column::OperatingSystem, "operating_system", true),
        ] {
            let value = self.place.description.get(field);
            self.must_be_text(field, value.filter(|_| must_be_text), issues);
            row.set(column, self.place.description.python_text(field).unwrap_or_default());
        }
        row.set(Column::Notes, self.notes());
        let weights = self.measurement.get("weight_data_types");
        // The last single-file checker concatenates them in a row of power only.
        let has_power = self.energy.is_some_and(|energy| energy.value > 0.0);
        let is_written = !issues.program().does(Behavior::NoWeightTypes)
            && (has_power || issues.program().does(Behavior::WeightsAreText));
        self.must_be_text("weight_data_types", weights.filter(|_| is_written), issues);
        let weights = weights.map(python::text).unwrap_or_default();
        let replaces = issues.program().one_file().is_some()
            && !issues.program().does(Behavior::WeightsAreText);
        let weights = if replaces { weights.replace('"', "'") } else { weights };
        row.set(Column::WeightDataTypes, weights);
        for (column, text) in &self.own {
            row.set(*column, &**text);
        }
        row
    }

    /// Reports a crash of the single-file checker, which concatenates these values as texts.
    fn must_be_text(&self, field: &str, value: Option<&Value>, issues: &mut Issues) {
        if issues.program().one_file().is_some() && value.is_some_and(|value| !value.is_string()) {
            let path = self.place.entry.folder.path();
            issues.crash(Location::path(&path), &format!("`{field}` is not a string"));
        }
    }

    /// Reports what ends an official program while it writes the row.
    fn crash_while_writing(&self, issues: &mut Issues) {
        let Place { round, entry, description, .. } = *self.place;
        let is_one_file = issues.program().one_file().is_some();
        if !is_one_file && issues.program() != Program::Modular {
            return;
        }
        let path = entry.folder.path();
        let at = Location::path(&path);
        let [hardware, software] = ["hw_notes", "sw_notes"].map(|field| description.get(field));
        let is_no_text = |value: &&Value| !value.is_string();
        let follows = software.is_some_and(python::is_true);
        let replaced = follows && !hardware.is_some_and(python::is_true);
        // The program in modules writes any value to which it appends nothing.
        let hardware = hardware.filter(|_| !replaced && (is_one_file || follows));
        if [hardware, software.filter(|_| follows)].iter().flatten().any(is_no_text) {
            issues.crash(at, "a note is not a string");
        }
        if !is_one_file {
            return;
        }
        if path.to_str().is_none() {
            issues.crash(at, "the path is not UTF-8");
        }
        // Tags that accept a datacenter result without Server and Interactive have no unit for
        // Interactive.
        let no_interactive = issues.program().does(Behavior::NoServerOrInteractive);
        let has_unit = match self.place.scenario {
            None => false,
            Some(RuleScenario::Interactive) => !no_interactive,
            Some(_) => true,
        };
        if !has_unit && round.version >= Version::new(2, 0) {
            issues.crash(at, "the scenario has no unit");
        }
    }

    fn notes(&self) -> String {
        let description = self.place.description;
        let follows = description.get("sw_notes").is_some_and(python::is_true);
        if self.place.options.program == Program::Modular && !follows {
            return description.python_text("hw_notes").unwrap_or_default();
        }
        let note = |field| description.get(field).and_then(Value::as_str).unwrap_or("");
        let (hardware, software) = (note("hw_notes"), note("sw_notes"));
        match (hardware.is_empty(), software.is_empty()) {
            (_, true) => hardware.to_owned(),
            (true, false) if !self.place.options.program.does(Behavior::DottedNotes) => {
                software.to_owned()
            }
            (_, false) => format!("{hardware}. {software}"),
        }
    }

    fn accuracy_text(&self) -> String {
        if !self.place.options.program.does(Behavior::FirstAccuracy) {
            return self.accuracy.text();
        }
        let targets = self.place.targets();
        let first = targets.first().and_then(|target| self.accuracy.value(&target.metric));
        first.unwrap_or("None").to_owned()
    }

    fn unit(&self, program: Program) -> &'static str {
        let scenario = self.place.scenario.unwrap_or(RuleScenario::Offline);
        // The checkers of these rounds wrote no unit.
        if scenario == RuleScenario::MultiStream && self.place.round.version < Version::new(2, 0) {
            return "Streams";
        }
        unit(&self.place.model.official, scenario, program)
    }
}

/// Returns the unit of a result in the table of a program.
pub fn unit(model: &str, scenario: RuleScenario, program: Program) -> &'static str {
    let has_tokens = !program.does(Behavior::PlainUnits);
    let is_one_file = program.one_file().is_some();
    let is_later = program == Program::Modular || program.one_file() == Some(OneFileChecker::LAST);
    use RuleScenario::{Interactive, MultiStream, Offline, Server, SingleStream};
    match (model, scenario) {
        ("wan-2.2-t2v-a14b", SingleStream) => "Latency (s)",
        (_, SingleStream | MultiStream) => "Latency (ms)",
        ("llama3.1-8b-edge", Offline) if has_tokens => "Tokens/s",
        // The table of units of the single-file checker lacks this one.
        ("llama3.1-8b", Interactive) if is_one_file => "Queries/s",
        ("e2e-rag-qna", Offline) => "Tasks/s",
        (model, Offline | Server | Interactive) if has_tokens && TOKENS.contains(&model) => {
            "Tokens/s"
        }
        // The later programs have no unit for these models of v5.0.
        (model, Offline | Server) if model.starts_with("llama2-70b-interactive-") && !is_later => {
            "Tokens/s"
        }
        (_, Offline) => "Samples/s",
        (_, Server | Interactive) => "Queries/s",
    }
}

fn is_set(value: &Value) -> bool {
    match value {
        Value::String(text) => text.eq_ignore_ascii_case("true"),
        value => python::is_true(value),
    }
}
