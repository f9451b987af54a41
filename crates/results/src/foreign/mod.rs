//! Results of other tools, for comparison: figures, and raw records where the tool writes them. The
//! format is detected from the content.
//!
//! Latencies of other tools rarely count from a schedule, so a client that waits for a slow system
//! hides its queue. [`Test::remarks`] state what latencies count from.

pub mod aiperf;
mod figures;
mod guidellm;
mod loadgen;
mod requests;
mod vllm;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use dyno_loadgen::log::read::open_file;
use serde_json::Value;
use thiserror::Error;

pub use figures::{Figures, of_summary};

use crate::records::Records;
use crate::summary::{Data, Plan};

dyno_loadgen::named_enum! {
    /// Tool that wrote a result.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Tool {
        /// The reference load generator, or one that writes its logs.
        LoadGen = "LoadGen",
        /// `vllm bench serve --save-result`.
        Vllm = "vLLM",
        /// `python -m sglang.bench_serving --output-file`.
        Sglang = "SGLang",
        /// guidellm's `benchmarks.json`.
        Guidellm = "guidellm",
        /// aiperf's `profile_export*`.
        Aiperf = "aiperf",
    }
}

impl Tool {
    /// Returns how to make the tool write raw records.
    pub fn how_to_keep_records(self) -> &'static str {
        match self {
            Self::LoadGen => "set LogSettings.enable_trace",
            Self::Vllm => "vllm bench serve --save-result --save-detailed",
            Self::Sglang => "python -m sglang.bench_serving --output-file FILE --output-details",
            Self::Guidellm => "save benchmarks.json with all requests",
            Self::Aiperf => "keep profile_export.jsonl beside the summary (--export-level records)",
        }
    }
}

/// Result of another tool.
///
/// ```no_run
/// use std::path::Path;
///
/// use dyno_results::foreign::{self, ForeignError};
///
/// let result = foreign::read(Path::new("benchmarks.json"))?;
/// println!("{}: p99 {:?} ns", result.tool.name(), result.tests[0].figures.get("p99"));
/// # Ok::<(), ForeignError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ForeignResult {
    /// Tool that wrote it.
    pub tool: Tool,
    /// Version of the tool; empty if unknown.
    pub version: String,
    /// Benchmarks, at least one.
    pub tests: Vec<Test>,
}

/// Benchmark of another tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Test {
    /// Title in the tool.
    pub title: String,
    /// Closest scenario of Dyno.
    pub scenario: String,
    /// Model or other system that was measured.
    pub system: String,
    /// Data set; without a name if unknown.
    pub data: Data,
    /// Settings that Dyno has, too.
    pub plan: Plan,
    /// Figures over all requests.
    pub figures: Figures,
    /// Raw records of the requests, if the tool wrote them.
    pub records: Option<Records>,
    /// Whether the records have times of issue and completion, and not only durations.
    pub has_times: bool,
    /// Why the figures do not count, if the tool judges its runs; `None` if they do.
    pub invalid: Option<String>,
    /// Remarks on how to interpret the figures.
    pub remarks: Vec<String>,
}

/// Error of reading a result of another tool.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ForeignError {
    /// The file or folder is missing, or the operating system cannot read it.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// Path of the file or folder.
        path: PathBuf,
        /// Reason, as the end of a sentence.
        reason: String,
    },
    /// The file begins like a JSON object but is cut off or damaged.
    #[error("{}: not valid JSON: {reason}", path.display())]
    NotJson {
        /// Path of the file.
        path: PathBuf,
        /// Message of the JSON parser, with line and column.
        reason: String,
    },
    /// The content matches none of the known formats.
    #[error(
        "{} is neither a Dyno run nor a result of LoadGen (a folder with mlperf_log_summary.txt), \
         vLLM (bench serve --save-result), SGLang (bench_serving --output-file), guidellm (benchmarks.json) or aiperf \
         (profile_export.jsonl, profile_export_aiperf.json)",
        path.display()
    )]
    Unknown {
        /// Path of the file or folder.
        path: PathBuf,
    },
    /// The format is known, but the file is damaged or of an unsupported version.
    #[error("{}: not as {} writes it: {reason}", path.display(), tool.name())]
    Malformed {
        /// Path of the file.
        path: PathBuf,
        /// Tool whose format the file has.
        tool: Tool,
        /// Key, line or value, and what is wrong with it.
        reason: String,
    },
}

/// Reads a file or folder that another tool left.
///
/// # Errors
/// See [`ForeignError`].
pub fn read(path: &Path) -> Result<ForeignResult, ForeignError> {
    let mut result = if path.is_dir() { read_folder(path)? } else { read_file(path)? };
    number_titles(&mut result.tests);
    Ok(result)
}

/// Numbers the further tests of a title, because tests are selected and compared by their titles.
fn number_titles(tests: &mut [Test]) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for test in tests {
        let count = counts.entry(test.title.clone()).or_default();
        *count += 1;
        if *count > 1 {
            test.title += &format!(" #{count}");
        }
    }
}

fn read_file(path: &Path) -> Result<ForeignResult, ForeignError> {
    let is_log = |name: &str| name.starts_with("mlperf_log_");
    if path.file_name().and_then(|name| name.to_str()).is_some_and(is_log) {
        return loadgen::read(path.parent().unwrap_or(Path::new(".")));
    }
    let text = text(path)?;
    // Most formats are one JSON value; the others have one a line.
    let value = serde_json::from_str::<Value>(&text);
    match value {
        Ok(value) if vllm::is(&value) => vllm::read(path, &[value]),
        // `vllm bench sweep serve` writes a list.
        Ok(Value::Array(values)) if values.first().is_some_and(vllm::is) => {
            vllm::read(path, &values)
        }
        Ok(value) if guidellm::is(&value) => guidellm::read(path, &value),
        Ok(value) if aiperf::is_summary(&value) => aiperf::read_summary(path, &value),
        Ok(value) if !aiperf::is_record(&value) => Err(ForeignError::Unknown { path: path.into() }),
        Ok(_) => read_lines(path, &text, None),
        Err(error) => read_lines(path, &text, Some(&error)),
    }
}

fn read_folder(path: &Path) -> Result<ForeignResult, ForeignError> {
    let has = |name: &str| path.join(name).is_file();
    if has(loadgen::SUMMARY) {
        loadgen::read(path)
    } else if has(aiperf::RECORDS) || has(aiperf::SUMMARY) {
        aiperf::read_folder(path)
    } else if has(guidellm::FILE) {
        read_file(&path.join(guidellm::FILE))
    } else {
        Err(ForeignError::Unknown { path: path.into() })
    }
}

/// Reads one JSON value per line. `error` is why the whole text is not JSON.
fn read_lines(
    path: &Path,
    text: &str,
    error: Option<&serde_json::Error>,
) -> Result<ForeignResult, ForeignError> {
    let mut values = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let parsed = serde_json::from_str::<Value>(line);
        let value = match (parsed, values.first()) {
            (Ok(value), _) => value,
            (Err(_), None) => {
                let path = path.into();
                return Err(match error.filter(|_| text.trim_start().starts_with('{')) {
                    Some(error) => ForeignError::NotJson { path, reason: error.to_string() },
                    None => ForeignError::Unknown { path },
                });
            }
            (Err(error), Some(first)) => {
                let tool = if vllm::is(first) { vllm::tool(first) } else { Tool::Aiperf };
                let reason = format!("line {number}: {error}");
                return Err(ForeignError::Malformed { path: path.into(), tool, reason });
            }
        };
        values.push(value);
    }
    match values.first() {
        Some(first) if vllm::is(first) => vllm::read(path, &values),
        Some(first) if aiperf::is_record(first) => aiperf::read_records(path, &values),
        _ => Err(ForeignError::Unknown { path: path.into() }),
    }
}

/// Replaces `Infinity`, `-Infinity` and `NaN` outside of strings by `null`: Python writes them, and JSON
/// has no such numbers.
fn finite(text: &str) -> Cow<'_, str> {
    const NAMES: [&str; 3] = ["-Infinity", "Infinity", "NaN"];
    if !NAMES.iter().any(|name| text.contains(name)) {
        return Cow::Borrowed(text);
    }
    let mut numbers = String::with_capacity(text.len());
    let (mut rest, mut is_string) = (text, false);
    while let Some(first) = rest.chars().next() {
        let name = NAMES.iter().find(|name| !is_string && rest.starts_with(**name));
        let taken = match (name, first) {
            (Some(name), _) => {
                numbers.push_str("null");
                rest = &rest[name.len()..];
                continue;
            }
            // What follows a backslash in a string does not end it.
            (None, '\\') if is_string => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            (None, _) => first.len_utf8(),
        };
        is_string ^= first == '"';
        numbers.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    Cow::Owned(numbers)
}

fn text(path: &Path) -> Result<String, ForeignError> {
    let text = open_file(path).and_then(std::io::read_to_string);
    let text = text.map_err(|error| ForeignError::Unreadable {
        path: path.into(),
        reason: match error.kind() {
            ErrorKind::NotFound => "it is missing".into(),
            ErrorKind::InvalidData => "it is not a string".into(),
            _ => error.to_string(),
        },
    })?;
    // Editors on Windows begin a file with a byte order mark.
    let text = text.strip_prefix('\u{feff}').map(str::to_string).unwrap_or(text);
    let replaced = match finite(&text) {
        Cow::Owned(replaced) => Some(replaced),
        Cow::Borrowed(_) => None,
    };
    Ok(replaced.unwrap_or(text))
}

/// Converts a time in units of `unit` ns to ns.
///
/// # Errors
/// If the time is negative or does not fit in 63 bits.
fn ns(time: f64, unit: f64) -> Result<i64, String> {
    let ns = (time * unit).round();
    if (0.0..i64::MAX as f64).contains(&ns) {
        Ok(ns as i64)
    } else {
        Err(format!("{time} is no time"))
    }
}

const SECOND: f64 = 1e9;
const MILLISECOND: f64 = 1e6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_json_does_not_have_are_null_but_words_stay() {
        let read = |text: &str| serde_json::from_str::<Value>(&finite(text)).unwrap();
        let found =
            read(r#"{"a": Infinity, "b": [NaN, -Infinity], "Infinity": "NaN \" Infinity"}"#);
        let expected = serde_json::json!({"a": null, "b": [null, null],
            "Infinity": "NaN \" Infinity"});
        assert_eq!(found, expected);
        assert_eq!(read(r#"{"é": "\\", "a": NaN}"#), serde_json::json!({"é": "\\", "a": null}));
        assert!(matches!(finite("{}"), Cow::Borrowed("{}")));
        assert_eq!(finite("NaN \"\\"), "null \"\\");
    }
}
