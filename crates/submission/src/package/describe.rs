//! System descriptions and measurement files, from captured properties and the submitter's
//! description. Unknown fields get markers.

use serde_json::{Map, Value};

use super::capture::Fields;
use super::{PackageError, PackageRequest};
use crate::entry::DivisionFolder;
use dyno_loadgen::settings::similar;
use dyno_rules::Round;

/// Start of the value of a field that the submitter must fill in.
pub const MARKER: &str = "FILL IN";

/// Required fields of a measurement file, with their hints.
const MEASUREMENT: [(&str, &str); 5] = [
    ("input_data_types", "data type of the inputs, such as fp32"),
    ("retraining", "yes or no, and how"),
    ("starting_weights_filename", "file or URL of the starting weights"),
    ("weight_data_types", "data type of the weights, such as int8"),
    ("weight_transformations", "changes to the weights, or none"),
];

/// Hints for fields that cannot be captured from the machine.
const HINTS: [(&str, &str); 20] = [
    ("cooling", "air, liquid or passive"),
    ("framework", "framework and its version"),
    ("host_networking", "kind of network, such as 10 Gbit/s Ethernet"),
    ("host_networking_topology", "how the nodes are connected, or N/A"),
    ("host_network_card_count", "number of network cards"),
    ("host_memory_capacity", "such as 512 GB"),
    ("host_processor_model_name", "the manufacturer's name"),
    ("host_processors_per_node", "number of processors in a node"),
    ("host_processor_core_count", "number of cores in a processor"),
    ("accelerator_model_name", "the manufacturer's name"),
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

/// Description by the submitter, which overrides captured properties.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Description {
    /// Fields of the system description.
    pub system: Fields,
    /// Fields of the measurement files.
    pub measurement: Fields,
    /// Text of the pages `calibration` and `code`.
    pub pages: Fields,
}

/// Pages, with their hints.
const PAGES: [(&str, &str); 2] = [
    (
        "calibration",
        "how weights and activations were quantized and calibrated, or a statement that neither \
         was",
    ),
    ("code", "location of the code that computes the answers, and how to run it"),
];

impl Description {
    /// Parses a TOML file with the tables `system`, `measurement` and `pages`.
    ///
    /// # Errors
    /// Fails if the text is not TOML, or has an unknown table or an unknown measurement field.
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
                        "unknown table `{other}`; use `system`, `measurement` or `pages`"
                    )));
                }
            };
            let toml::Value::Table(values) = value else {
                return Err(wrong(format!("`{name}` must be a table")));
            };
            for (field, value) in values {
                let value = match value {
                    toml::Value::String(text) => text.into(),
                    // The official checkers treat the number 0 as missing.
                    toml::Value::Integer(0) => "0".into(),
                    toml::Value::Integer(number) => number.into(),
                    toml::Value::Float(number) => number.into(),
                    toml::Value::Boolean(flag) => flag.into(),
                    _ => {
                        return Err(wrong(format!(
                            "`{name}.{field}` must be a string or a number"
                        )));
                    }
                };
                fields.insert(field, value);
            }
        }
        let known = [(&description.measurement, &MEASUREMENT[..]), (&description.pages, &PAGES)];
        for (fields, known) in known {
            let known: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            if let Some(field) = fields.keys().find(|field| !known.contains(&field.as_str())) {
                let known = known.join(", ");
                return Err(wrong(format!("unknown field `{field}`; use one of {known}")));
            }
        }
        Ok(description)
    }
}

/// A field that the submitter must fill in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingField {
    /// Path of the file, relative to the root of the tree.
    pub path: std::path::PathBuf,
    /// Name of the field.
    pub field: String,
    /// Hint: what to write there.
    pub with: String,
}

pub(super) fn marker(what: &str) -> Value {
    format!("{MARKER}: {what}").into()
}

/// Returns the hint of a marked value.
pub(super) fn hint_in(mark: &str) -> Option<&str> {
    Some(mark.strip_prefix(MARKER)?.trim_start_matches([':', ' ']))
}

/// Returns the marked fields with their hints.
pub(super) fn marks(fields: &Map<String, Value>) -> impl Iterator<Item = (&str, &str)> {
    fields.iter().filter_map(|(field, value)| Some((field.as_str(), hint_in(value.as_str()?)?)))
}

/// Returns fields that no round has but that resemble a known one, with that one. Such fields
/// are allowed.
pub(super) fn unknown(fields: &Fields) -> impl Iterator<Item = (&str, &'static str)> {
    let newest = Round::names().into_iter().next_back().and_then(|name| Round::named(name).ok());
    let lists = newest.into_iter().map(|round| &round.system_fields);
    let known: Vec<&str> = lists
        .flat_map(|fields| [&fields.required, &fields.power, &fields.network])
        .flatten()
        .map(String::as_str)
        .collect();
    fields.keys().filter_map(move |field| {
        let is_known = known.contains(&field.as_str());
        let near = similar(field, known.iter().copied()).filter(|_| !is_known)?;
        Some((field.as_str(), near))
    })
}

/// Returns the fields that flags determine: field, value, flag. They override the description.
pub(super) fn flag_fields<'a>(
    request: &'a PackageRequest<'_>,
) -> Vec<(&'static str, &'a str, &'static str)> {
    let mut fields = vec![
        ("division", request.division.name(), "--division"),
        ("submitter", request.submitter.as_str(), "--submitter"),
        ("status", request.availability.name(), "--availability"),
    ];
    // v0.5 has no suites.
    if request.round.system_fields.required.iter().any(|field| field == "system_type") {
        fields.push(("system_type", request.suite.name(), "--suite"));
    }
    if request.division == DivisionFolder::Network {
        fields.push(("is_network", "true", "--division"));
    }
    fields
}

/// Returns the system description: the fields of the round in its order, then additional fields
/// of the submitter.
pub(super) fn system(request: &PackageRequest<'_>, captured: &Fields) -> Map<String, Value> {
    let round = &request.round.system_fields;
    let mut values = request.description.system.clone();
    values.entry("system_name".to_owned()).or_insert_with(|| request.system.as_str().into());
    for (name, value, _) in flag_fields(request) {
        values.insert(name.to_owned(), value.into());
    }
    let mut names: Vec<&str> = round.required.iter().map(String::as_str).collect();
    if request.division == DivisionFolder::Network {
        names.extend(round.network.iter().map(String::as_str));
    }
    let must_say = |name: &str| {
        round.meaningful.iter().any(|field| field == name)
            || round.network.iter().any(|field| field == name)
            // Before v3.1 the rules listed no such fields.
            || (round.meaningful.is_empty() && HINTS.iter().any(|(field, _)| *field == name))
    };
    let mut fields = Map::new();
    for name in names {
        let value = values.remove(name).or_else(|| captured.get(name).cloned());
        let value = value.unwrap_or_else(|| {
            let hint = HINTS.iter().find(|(field, _)| *field == name).map(|(_, hint)| *hint);
            if must_say(name) { marker(hint.unwrap_or("see the rules")) } else { "".into() }
        });
        fields.insert(name.to_owned(), value);
    }
    fields.extend(values);
    fields
}

/// Returns the submitter's text for a page.
pub(super) fn page<'a>(request: &'a PackageRequest<'_>, name: &str) -> Option<&'a str> {
    request.description.pages.get(name)?.as_str()
}

/// Returns the hint of a page.
pub(super) fn page_hint(name: &str) -> &'static str {
    PAGES.iter().find(|(page, _)| *page == name).map_or("", |(_, what)| *what)
}

/// Returns the measurement file.
pub(super) fn measurement(request: &PackageRequest<'_>) -> Map<String, Value> {
    let values = &request.description.measurement;
    let field = |(name, what): (&str, &str)| {
        (name.to_owned(), values.get(name).cloned().unwrap_or_else(|| marker(what)))
    };
    MEASUREMENT.map(field).into_iter().collect()
}
