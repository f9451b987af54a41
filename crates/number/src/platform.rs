//! Platforms: the formats in which weights and activations can be computed.

mod literal;

use toml::de::DeTable;

use crate::descriptor::{DescriptorError, Item, Reader, nearest};
use crate::format::{Format, Kind};

/// Formats that a platform supports, widest first. Only type, width and exponent bits matter; the
/// tuner chooses the biases.
///
/// ```
/// use dyno_number::{Format, Platform, Role};
/// let platform = Platform::named("mlperf-v0.7").unwrap();
/// assert_eq!(platform.formats(Role::Weight)[0], Format::F32);
/// assert!(platform.formats(Role::Activation).contains(&Format::UINT8));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Platform {
    /// Name in descriptors.
    pub name: String,
    /// Formats of weights.
    pub weight: Vec<Format>,
    /// Formats of activations.
    pub activation: Vec<Format>,
}

/// Role of an object in its layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Constant weights.
    Weight,
    /// Input of the layer.
    Activation,
}

/// Platforms that need no descriptor: name and formats.
///
/// `paper` has the 42 formats of the thesis (chapter III). `paper-unsigned` adds FIXED without a
/// sign for objects without negative values. `onnx` has the formats that [`QdqModel`] can write. The
/// others are the numeric formats of the closed division of MLPerf Inference rounds.
///
/// [`QdqModel`]: crate::evaluate::graph::QdqModel
pub const BUILT_IN: &[(&str, &[&str])] = &[
    ("paper", &["FLOAT 32", "FLOAT 16", "FIXED 1..32", "EXP 2..9"]),
    ("paper-unsigned", &["FLOAT 32", "FLOAT 16", "FIXED 1..32", "UFIXED 1..31", "EXP 2..9"]),
    ("onnx", &["FLOAT 32", "FIXED 2..16", "UFIXED 1..16"]),
    ("mlperf-v0.5", MLPERF),
    ("mlperf-v0.7", MLPERF),
];

/// INT4, INT8 and INT16 as FIXED: integers whose scale is a power of two, without the most negative
/// integer. UINT8 and UINT16 are FIXED without a sign, with a zero point of 0.
const MLPERF: &[&str] =
    &["FIXED 4", "FIXED 8", "FIXED 16", "UINT8", "UINT16", "FP11", "FP16", "bfloat16", "FP32"];

impl Platform {
    /// Returns the platform of [`BUILT_IN`] with this name.
    pub fn named(name: &str) -> Option<Self> {
        let (name, formats) = BUILT_IN.iter().find(|(known, _)| *known == name)?;
        let formats: Vec<Format> =
            formats.iter().flat_map(|text| read(text).expect("its own formats read")).collect();
        let formats = sorted(formats);
        Some(Self { name: (*name).into(), weight: formats.clone(), activation: formats })
    }

    /// Reads the platform `name` from a descriptor: a TOML table `[supported_formats]`, or the
    /// thesis' `supported_formats = {...}` in Python. Its keys are `NAME`, `NAME.weight` and
    /// `NAME.activation`; the latter two override `NAME` for their role.
    ///
    /// # Errors
    /// All problems with their lines. A missing platform is reported with the nearest name.
    pub fn from_descriptor(text: &str, name: &str) -> Result<Self, DescriptorError> {
        let mut reader = Reader::new(text);
        // A Python literal is not valid TOML, because colons separate its keys and values.
        let read = match DeTable::parse(text) {
            Ok(document) => {
                let table = document.get_ref();
                let found = Reader::item(table, "supported_formats");
                if found.is_none() {
                    let problem = "expected a table of the formats of each platform";
                    reader.problem(0, "supported_formats", problem);
                }
                found.and_then(|item| Self::from_item(&mut reader, item, name))
            }
            Err(error) => match literal::read(text) {
                Some(Ok(entries)) => Self::from_entries(&mut reader, 0, &entries, name),
                Some(Err((at, problem))) => {
                    reader.problem(at, "supported_formats", problem);
                    None
                }
                None => {
                    reader.no_toml(&error);
                    None
                }
            },
        };
        reader.finish(read)
    }

    /// Reads the platform `name` from the table `supported_formats` of a descriptor.
    pub(crate) fn from_item(reader: &mut Reader, item: Item<'_>, name: &str) -> Option<Self> {
        let Some(table) = item.value.as_table() else {
            reader.expected(item, "a table of the formats of each platform");
            return None;
        };
        let mut entries = Vec::new();
        for key in table.keys() {
            let list = Reader::item(table, key.get_ref()).expect("it is one of its keys");
            let texts = reader.array(list, "an array of formats such as \"FIXED 8\"")?;
            let texts: Option<Vec<_>> = texts
                .into_iter()
                .map(|item| reader.text(item).map(|text| (item.at, text)))
                .collect();
            entries.push(literal::Entry { name: key.get_ref().to_string(), formats: texts? });
        }
        Self::from_entries(reader, item.at, &entries, name)
    }

    fn from_entries(
        reader: &mut Reader,
        at: usize,
        entries: &[literal::Entry],
        name: &str,
    ) -> Option<Self> {
        let find = |key: String| entries.iter().find(|entry| entry.name == key);
        let plain = find(name.to_owned());
        let weight = find(format!("{name}.weight")).or(plain);
        let activation = find(format!("{name}.activation")).or(plain);
        let (Some(weight), Some(activation)) = (weight, activation) else {
            let known = entries.iter().map(|entry| entry.name.split('.').next().unwrap_or(""));
            let near = nearest(name, known);
            let problem = format!("there are no formats of the platform `{name}`{near}");
            reader.problem(at, "supported_formats", problem);
            return None;
        };
        let mut formats = |entry: &literal::Entry| {
            let mut all = Vec::new();
            for (at, text) in &entry.formats {
                match self::read(text) {
                    Ok(formats) => all.extend(formats),
                    Err(problem) => reader.problem(*at, &entry.name, problem),
                }
            }
            sorted(all)
        };
        let (weight, activation) = (formats(weight), formats(activation));
        Some(Self { name: name.into(), weight, activation })
    }

    /// Returns the formats of objects in this role, widest first.
    pub fn formats(&self, role: Role) -> &[Format] {
        match role {
            Role::Weight => &self.weight,
            Role::Activation => &self.activation,
        }
    }
}

/// Sorts formats widest first without duplicates; FLOAT, FIXED, EXP within one width.
fn sorted(mut formats: Vec<Format>) -> Vec<Format> {
    let rank = |format: &Format| match format.kind() {
        Kind::Float => 0,
        Kind::Fixed => 1,
        Kind::Exp => 2,
        Kind::Binary => 3,
    };
    formats.sort_by_key(|format| (std::cmp::Reverse(format.bits()), rank(format)));
    formats.dedup();
    formats
}

/// Names of formats in rules and papers, with the names that [`Format`] parses.
const ALIASES: &[(&str, &str)] = &[
    ("fp32", "F32"),
    ("float", "F32"),
    ("fp16", "F16"),
    ("half", "F16"),
    ("bfloat16", "bf16"),
    ("e4m3", "fp8-e4m3fn"),
    ("e5m2", "fp8-e5m2"),
];

/// Reads formats of a list: `FIXED 8`, `FIXED 1..32`, `UFIXED 1..8`, `FLOAT32`, `I8`, `INT8`,
/// `bfloat16`.
fn read(text: &str) -> Result<Vec<Format>, String> {
    let text = text.trim();
    let split = text.find(|c: char| c.is_ascii_digit()).unwrap_or(text.len());
    let (head, bits) = text.split_at(split);
    let head = head.trim_end_matches(|c: char| c.is_whitespace() || c == '(').to_ascii_uppercase();
    let is_family = matches!(head.as_str(), "FLOAT" | "FIXED" | "UFIXED" | "EXP" | "BIN");
    if is_family && let Some((first, last)) = bits.split_once("..") {
        let number = |text: &str| {
            let number = text.trim_matches(|c: char| c.is_whitespace() || c == '=' || c == ')');
            number.parse::<u32>().map_err(|_| unknown(text))
        };
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(format!("expected the fewer bits first, found {text:?}"));
        }
        // A huge upper bound ends at the first width that no family has.
        return (first..=last.min(64)).map(|bits| one(&format!("{head} {bits}"))).collect();
    }
    if is_family && !bits.is_empty() {
        return Ok(vec![one(&format!("{head} {}", bits.trim_end_matches(')')))?]);
    }
    let alias = ALIASES.iter().find(|(alias, _)| text.eq_ignore_ascii_case(alias));
    Ok(vec![one(alias.map_or(text, |(_, name)| name))?])
}

fn one(text: &str) -> Result<Format, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    Format::from_words(&words).map_err(|error| error.to_string())
}

fn unknown(text: &str) -> String {
    format!("expected bits of a format such as `FIXED 1..32`, found {text:?}")
}

#[cfg(test)]
mod tests;
