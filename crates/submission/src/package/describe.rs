//! System descriptions and measurement files: what was captured, what the submitter
//! says, and marks where somebody must still say something.

use serde_json::{Map, Value};

use super::capture::Fields;
use super::{Asked, PackageError};
use crate::entry::DivisionFolder;
use dyno_loadgen::settings::nearest;
use dyno_rules::Round;

/// What a field begins with that somebody must fill in.
pub const MARKER: &str = "FILL IN";

/// Fields of a measurement file, each of which must say something, with what it is.
const MEASUREMENT: [(&str, &str); 5] = [
    ("input_data_types", "data type of the inputs, such as fp32"),
    ("retraining", "yes or no, and how"),
    ("starting_weights_filename", "file or address of the weights that were started from"),
    ("weight_data_types", "data type of the weights, such as int8"),
    ("weight_transformations", "what was done to the weights, or none"),
];

/// What to write to fields that a machine cannot tell.
const HINTS: [(&str, &str); 20] = [
    ("cooling", "air, liquid or passive"),
    ("framework", "framework and its version"),
    ("host_networking", "kind of network, such as 10 Gbit/s Ethernet"),
    ("host_networking_topology", "how the nodes are connected, or N/A"),
    ("host_network_card_count", "number of network cards"),
    ("host_memory_capacity", "such as 512 GB"),
    ("host_processor_model_name", "as its maker calls it"),
    ("host_processors_per_node", "number of processors in a node"),
    ("host_processor_core_count", "number of cores in a processor"),
    ("accelerator_model_name", "as its maker calls it"),
    ("other_software_stack", "drivers, libraries, kernel, with versions"),
    ("host_memory_configuration", "modules, kind, with or without ECC"),
    ("host_storage_capacity", "such as 2 TB"),
    ("host_storage_type", "such as NVMe SSD"),
    ("accelerator_memory_capacity", "such as 80 GB"),
    ("accelerator_memory_configuration", "such as HBM3, with or without ECC"),
    ("accelerator_host_interconnect", "such as PCIe Gen5 x16"),
    ("accelerator_interconnect", "such as NVLink, or N/A"),
    ("operating_system", "name and version"),
    ("system_type_detail", "such as edge server"),
];

/// What the submitter says of the system and of the measurements, over what was
/// captured.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Description {
    /// Fields of the system description.
    pub system: Fields,
    /// Fields of the measurement files.
    pub measurement: Fields,
    /// Text of the pages: `calibration`, `code`.
    pub pages: Fields,
}

/// The pages, and what they are to tell.
const PAGES: [(&str, &str); 2] = [
    (
        "calibration",
        "how weights and activations were quantised and calibrated, or that neither was",
    ),
    ("code", "where the code is that computes the answers, and how to run it"),
];

impl Description {
    /// Reads a TOML file with the tables `system`, `measurement` and `pages`.
    ///
    /// # Errors
    /// It is no TOML, or has another table or an unknown field of a measurement.
    pub fn read(text: &str) -> Result<Self, PackageError> {
        let wrong = |problem: String| PackageError::Description { problem };
        let table: toml::Table =
            toml::from_str(text).map_err(|error| wrong(error.message().to_owned()))?;
        let mut description = Self::default();
        for (name, value) in table {
            let fields = match name.as_str() {
                "system" => &mut description.system,
                "measurement" => &mut description.measurement,
                "pages" => &mut description.pages,
                other => {
                    return Err(wrong(format!(
                        "there is no table `{other}`; there are `system`, `measurement` and `pages`"
                    )));
                }
            };
            let toml::Value::Table(values) = value else {
                return Err(wrong(format!("`{name}` must be a table")));
            };
            for (field, value) in values {
                let value = match value {
                    toml::Value::String(text) => text.into(),
                    // What is zero as a number is nothing to the official checkers.
                    toml::Value::Integer(0) => "0".into(),
                    toml::Value::Integer(number) => number.into(),
                    toml::Value::Float(number) => number.into(),
                    toml::Value::Boolean(flag) => flag.into(),
                    _ => return Err(wrong(format!("`{name}.{field}` must be a text or a number"))),
                };
                fields.insert(field, value);
            }
        }
        let known = [(&description.measurement, &MEASUREMENT[..]), (&description.pages, &PAGES)];
        for (said, known) in known {
            let known: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            if let Some(field) = said.keys().find(|field| !known.contains(&field.as_str())) {
                let known = known.join(", ");
                return Err(wrong(format!("there is no field `{field}`; there are {known}")));
            }
        }
        Ok(description)
    }
}

/// A field that somebody must fill in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToFill {
    /// File, relative to the root of the tree.
    pub path: std::path::PathBuf,
    /// Its field.
    pub field: String,
    /// What belongs there.
    pub with: String,
}

pub(super) fn marker(what: &str) -> Value {
    format!("{MARKER}: {what}").into()
}

/// What belongs in place of a mark.
pub(super) fn wanted(mark: &str) -> Option<&str> {
    Some(mark.strip_prefix(MARKER)?.trim_start_matches([':', ' ']))
}

/// The fields that have a mark, and what belongs there.
pub(super) fn marks(fields: &Map<String, Value>) -> impl Iterator<Item = (&str, &str)> {
    fields.iter().filter_map(|(field, value)| Some((field.as_str(), wanted(value.as_str()?)?)))
}

/// Fields that no round has, each with the one that may be meant. They are allowed.
pub(super) fn unknown(said: &Fields) -> impl Iterator<Item = (&str, &'static str)> {
    let newest = Round::names().into_iter().next_back().and_then(|name| Round::named(name).ok());
    let lists = newest.into_iter().map(|round| &round.system_fields);
    let known: Vec<&str> = lists
        .flat_map(|fields| [&fields.required, &fields.power, &fields.network])
        .flatten()
        .map(String::as_str)
        .collect();
    said.keys().filter_map(move |field| {
        let is_known = known.contains(&field.as_str());
        let near = nearest(field, known.iter().copied()).filter(|_| !is_known)?;
        Some((field.as_str(), near))
    })
}

/// What the flags say of a system: field, value, flag. It counts, whatever the
/// description says.
pub(super) fn of_flags<'a>(asked: &'a Asked<'_>) -> Vec<(&'static str, &'a str, &'static str)> {
    let mut said = vec![
        ("division", asked.division.name(), "--division"),
        ("submitter", asked.submitter.as_str(), "--submitter"),
        ("status", asked.availability.name(), "--availability"),
    ];
    // v0.5 has no suites.
    if asked.round.system_fields.required.iter().any(|field| field == "system_type") {
        said.push(("system_type", asked.suite.name(), "--suite"));
    }
    if asked.division == DivisionFolder::Network {
        said.push(("is_network", "true", "--division"));
    }
    said
}

/// The system description: fields of the round in its order, then what the submitter
/// has beside them.
pub(super) fn system(asked: &Asked<'_>, captured: &Fields) -> Map<String, Value> {
    let round = &asked.round.system_fields;
    let mut said = asked.description.system.clone();
    said.entry("system_name".to_owned()).or_insert_with(|| asked.system.as_str().into());
    for (name, value, _) in of_flags(asked) {
        said.insert(name.to_owned(), value.into());
    }
    let mut names: Vec<&str> = round.required.iter().map(String::as_str).collect();
    if asked.division == DivisionFolder::Network {
        names.extend(round.network.iter().map(String::as_str));
    }
    let must_say = |name: &str| {
        round.meaningful.iter().any(|field| field == name)
            || round.network.iter().any(|field| field == name)
            // Before v3.1 the rules named no such fields.
            || (round.meaningful.is_empty() && HINTS.iter().any(|(field, _)| *field == name))
    };
    let mut fields = Map::new();
    for name in names {
        let value = said.remove(name).or_else(|| captured.get(name).cloned());
        let value = value.unwrap_or_else(|| {
            let hint = HINTS.iter().find(|(field, _)| *field == name).map(|(_, hint)| *hint);
            if must_say(name) { marker(hint.unwrap_or("see the rules")) } else { "".into() }
        });
        fields.insert(name.to_owned(), value);
    }
    fields.extend(said);
    fields
}

/// What the submitter says in a page.
pub(super) fn page<'a>(asked: &'a Asked<'_>, name: &str) -> Option<&'a str> {
    asked.description.pages.get(name)?.as_str()
}

/// What a page is to tell.
pub(super) fn page_tells(name: &str) -> &'static str {
    PAGES.iter().find(|(page, _)| *page == name).map_or("", |(_, what)| *what)
}

/// The file of a measurement.
pub(super) fn measurement(asked: &Asked<'_>) -> Map<String, Value> {
    let said = &asked.description.measurement;
    let field = |(name, what): (&str, &str)| {
        (name.to_owned(), said.get(name).cloned().unwrap_or_else(|| marker(what)))
    };
    MEASUREMENT.map(field).into_iter().collect()
}
