//! NPU descriptions in TOML. All problems of a description are reported together, each with its line and key.

use std::fmt;

use thiserror::Error;
use toml::de::{DeTable, DeValue};

use super::{Energy, Npu, NpuParameters};
use crate::arithmetic::Arithmetic;
use crate::nearest::nearest;

/// Problems of an invalid NPU description.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct DescriptionError {
    /// Problems sorted by line; at least one.
    pub problems: Vec<KeyProblem>,
}

/// One problem of a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyProblem {
    /// Line number, counted from 1.
    pub line: usize,
    /// Key with the problem; empty if the problem concerns the whole text.
    pub key: String,
    /// Expected and found values.
    pub problem: String,
}

impl fmt::Display for DescriptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, KeyProblem { line, key, problem }) in self.problems.iter().enumerate() {
            let end = if at == 0 { "" } else { "\n" };
            match key.as_str() {
                "" => write!(f, "{end}line {line}: {problem}")?,
                key => write!(f, "{end}line {line}: `{key}`: {problem}")?,
            }
        }
        Ok(())
    }
}

/// Keys with text values. Keys of numbers, whose units are in their names, are in [`FIGURES`].
const KEYS: &[&str] = &["name", "base", "arithmetic"];
const FIGURES: [&str; 9] = [
    "pes",
    "frequency_mhz",
    "memory_gb_per_s",
    "weight_buffer_mb",
    "activation_buffer_mb",
    "switch_us",
    "mac_pj",
    "memory_byte_pj",
    "static_w",
];

/// Keys that are required without a `base`.
const REQUIRED: &[&str] = &["pes", "frequency_mhz", "memory_gb_per_s", "weight_buffer_mb"];

impl Npu {
    /// Parses a description in TOML.
    ///
    /// Required keys are `pes`, `frequency_mhz`, `memory_gb_per_s` (10^9 bytes/s) and `weight_buffer_mb` (10^6 bytes),
    /// or `base`, the name of a preset that provides them. Optional keys and their defaults are `name` (`npu`, or that
    /// of the base), `activation_buffer_mb` (any activation fits), `switch_us` (0), and the energy figures `mac_pj`,
    /// `memory_byte_pj` and `static_w` (unknown; 0 if another of them is set), and `arithmetic` (`fixed`).
    ///
    /// # Errors
    /// Returns all problems with their lines and keys.
    pub fn from_toml(text: &str) -> Result<Self, DescriptionError> {
        let mut reader = Reader { text, problems: Vec::new() };
        let npu = match DeTable::parse(text) {
            Ok(document) => reader.npu(document.get_ref()),
            Err(error) => {
                let at = error.span().map_or(0, |span| span.start);
                reader.problem(at, "", format_args!("not valid TOML: {}", error.message()));
                None
            }
        };
        reader.problems.sort_by_key(|problem| problem.line);
        match npu {
            Some(npu) if reader.problems.is_empty() => Ok(npu),
            _ => Err(DescriptionError { problems: reader.problems }),
        }
    }
}

impl NpuParameters {
    /// Sets a figure by its key, in the unit that the key names, such as `memory_gb_per_s`. Returns false if the key
    /// does not exist or the figure is not in 0 to 10^12.
    ///
    /// If the energy was unknown, setting one energy figure sets the others to 0.
    pub fn set(&mut self, key: &str, figure: f64) -> bool {
        if !FIGURES.contains(&key) || !(0.0..=MOST).contains(&figure) {
            return false;
        }
        let whole = |unit: f64| (figure * unit).round() as u64;
        let nothing = Energy { mac_pj: 0.0, memory_byte_pj: 0.0, static_watts: 0.0 };
        let energy = self.energy.unwrap_or(nothing);
        match key {
            "pes" => self.pes = whole(1.0),
            "frequency_mhz" => self.hertz = whole(1e6),
            "memory_gb_per_s" => self.bytes_per_second = whole(1e9),
            "weight_buffer_mb" => self.weight_buffer = whole(1e6),
            "activation_buffer_mb" => self.activation_buffer = Some(whole(1e6)),
            "switch_us" => self.switch = whole(1e6),
            "mac_pj" => self.energy = Some(Energy { mac_pj: figure, ..energy }),
            "memory_byte_pj" => self.energy = Some(Energy { memory_byte_pj: figure, ..energy }),
            _ => self.energy = Some(Energy { static_watts: figure, ..energy }),
        }
        true
    }
}

struct Reader<'t> {
    text: &'t str,
    problems: Vec<KeyProblem>,
}

/// Largest valid figure, far above real hardware.
const MOST: f64 = 1e12;

impl Reader<'_> {
    fn problem(&mut self, at: usize, key: &str, problem: impl fmt::Display) {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        let (key, problem) = (key.to_owned(), problem.to_string());
        self.problems.push(KeyProblem { line, key, problem });
    }

    fn npu(&mut self, table: &DeTable<'_>) -> Option<Npu> {
        for name in table.keys() {
            let key = &**name.get_ref();
            if !KEYS.iter().chain(&FIGURES).any(|known| *known == key) {
                let near = nearest(key, KEYS.iter().chain(&FIGURES).copied());
                self.problem(name.span().start, key, format_args!("unknown key{near}"));
            }
        }
        let base = self.base(table);
        for key in REQUIRED.iter().filter(|key| base.is_none() && !table.contains_key(**key)) {
            self.problem(0, key, "is missing; add it, or a `base` that defines it");
        }
        let mut parameters = base.as_ref().map_or(EMPTY, |base| *base.parameters());
        for key in FIGURES {
            if let Some(figure) = self.figure(table, key) {
                parameters.set(key, figure);
            }
        }
        if let Some(arithmetic) = self.arithmetic(table) {
            parameters.arithmetic = arithmetic;
        }
        let name = self.text_of(table, "name");
        let name = name.or(base.map(|npu| npu.name().to_owned())).unwrap_or("npu".into());
        if !self.problems.is_empty() {
            return None;
        }
        let npu = Npu::new(&name, parameters);
        npu.map_err(|error| self.problem(0, "", error)).ok()
    }

    fn base(&mut self, table: &DeTable<'_>) -> Option<Npu> {
        let name = self.text_of(table, "base")?;
        let at = table.get_key_value("base").map_or(0, |(key, _)| key.span().start);
        Npu::preset(&name).map_err(|error| self.problem(at, "base", error)).ok()
    }

    fn arithmetic(&mut self, table: &DeTable<'_>) -> Option<Arithmetic> {
        let name = self.text_of(table, "arithmetic")?;
        let at = table.get_key_value("arithmetic").map_or(0, |(key, _)| key.span().start);
        name.parse().map_err(|error| self.problem(at, "arithmetic", error)).ok()
    }

    fn text_of(&mut self, table: &DeTable<'_>, key: &str) -> Option<String> {
        let (name, value) = table.get_key_value(key)?;
        let text = value.get_ref().as_str().map(str::to_owned);
        if text.is_none() {
            self.problem(name.span().start, key, "expected a string");
        }
        text
    }

    fn figure(&mut self, table: &DeTable<'_>, key: &str) -> Option<f64> {
        let (name, value) = table.get_key_value(key)?;
        let shown = match value.get_ref() {
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.as_str().to_owned(),
            DeValue::String(text) => format!("the string {text:?}"),
            _ => "another type".to_owned(),
        };
        let found: Option<f64> = match value.get_ref() {
            DeValue::Integer(_) | DeValue::Float(_) => shown.replace('_', "").parse().ok(),
            _ => None,
        };
        let at = name.span().start;
        match found {
            Some(found) if (0.0..=MOST).contains(&found) => Some(found),
            _ => {
                let problem = format!("expected a number of 0 to {MOST:e}, found {shown}");
                self.problem(at, key, problem);
                None
            }
        }
    }
}

/// Parameters before any key is read.
const EMPTY: NpuParameters = NpuParameters {
    pes: 0,
    hertz: 0,
    bytes_per_second: 0,
    weight_buffer: 0,
    activation_buffer: None,
    switch: 0,
    energy: None,
    arithmetic: Arithmetic::Fixed,
};
