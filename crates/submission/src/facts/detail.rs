//! Reader of the detail log of a run that is as strict as the official parsers: a line with the
//! marker must be JSON. The reader of `dyno_loadgen` repairs known errors of the reference; a
//! checker must report them.

use std::borrow::Cow;
use std::io::{BufRead, Read};

use memchr::memchr;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use sha1::{Digest, Sha1};

use super::ReadError;
use super::keys::{KEYS, ValueType, place};
use super::plain::{self, Section};
use super::{line, text};
use crate::layout::SUMMARY;
use crate::python;
use crate::tree::Node;

const MARKER: &str = ":::MLLOG";
/// Begin of the first line of a file that Git LFS puts in place of a large file.
const POINTER: &str = "version https://git-lfs.github.com/spec/";
/// Text of errors before v1.0 that do not count: the checkers of v0.5 and v0.7 skip them.
pub(super) const IGNORED: &str = "CAS failed";
/// Further errors that the checker skips in v0.5 (submission-checker.py r0.7:63).
const SKIPPED_IN_V0_5: [&str; 3] = [
    "check for ERROR in detailed",
    "Loadgen built with uncommitted changes",
    "Ran out of generated queries to issue before the minimum query count and test duration were reached",
];
/// Maximum length of a line in bytes; longer lines are malformed. The longest lines of the
/// reference list the samples of a data set and have a few MiB. The official parsers know no limit,
/// but no file may have more than 50 MiB.
const LONGEST_LINE: u64 = 64 << 20;
/// Maximum number of errors and of malformed lines that are stored.
const MOST_STORED: usize = 16;
/// Maximum number of characters stored of an error message.
const LONGEST_ERROR: usize = 300;

/// Values of a detail log for the keys that checks use.
///
/// ```
/// use dyno_submission::facts::detail::scan;
///
/// let line = r#":::MLLOG {"key": "num_errors", "value": 0, "metadata": {"is_error": false}}"#;
/// let log = scan(&mut line.as_bytes()).unwrap();
/// assert_eq!((log.whole("num_errors"), log.lines), (Some(0), 1));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct DetailLog {
    values: Vec<Option<LoggedValue>>,
    /// Lines with errors.
    pub errors: Errors,
    /// The first lines with the marker that are not JSON, have no key or no value, or contain a
    /// number that overflows.
    pub malformed: Vec<usize>,
    /// The first malformed line that Python rejects, too. Python accepts `NaN`.
    pub malformed_to_python: Option<usize>,
    /// The first line without a flag that marks errors.
    pub unmarked: Option<usize>,
    /// Whether the first line has the marker.
    pub begins_with_marker: bool,
    /// Whether every line is UTF-8.
    pub is_utf8: bool,
    /// Number of lines.
    pub lines: usize,
    /// Whether it has lines of LoadGen before v1.0, which wrote text instead of keys.
    pub is_plain: bool,
    /// Whether the file only points to the log, which Git LFS did not fetch.
    pub is_pointer: bool,
    section: Section,
}

/// Value of a key in a log.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedValue {
    /// Value in the first line with the key. Later values are ignored.
    pub value: Value,
    /// Number of that line, from 1; 0 if the value is not from a log.
    pub line: usize,
    /// Number of lines with the key.
    pub times: usize,
    /// The last line with a different value, and that value.
    pub other: Option<Box<(usize, Value)>>,
}

/// Lines of a log that report errors.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Errors {
    /// Number of errors.
    pub count: usize,
    /// Errors other than "Loadgen built with uncommitted changes".
    pub not_uncommitted: usize,
    /// Errors which report that several configuration files were used.
    pub several_confs: usize,
    /// Errors of neither kind.
    pub others: usize,
    /// Line number and text of the first error that the checker does not skip in v0.5.
    pub first_in_v0_5: Option<(usize, String)>,
    /// Lines of a log before v1.0 with the word ERROR, except those on failed atomic operations.
    /// The checker of v0.7 searched for it, also in the history of the source.
    pub words: usize,
    /// Line numbers and texts of the first errors.
    pub first: Vec<(usize, String)>,
}

impl Errors {
    fn add(&mut self, line: usize, raw: &str) {
        let uncommitted = raw.contains("Loadgen built with uncommitted changes!");
        let several = raw.contains("Multiple conf files are used");
        let skipped = SKIPPED_IN_V0_5.iter().any(|text| raw.contains(text));
        self.count += 1;
        self.not_uncommitted += usize::from(!uncommitted);
        self.several_confs += usize::from(several);
        self.others += usize::from(!uncommitted && !several);
        let shown = || {
            let text = serde_json::from_str(raw).unwrap_or_else(|_| raw.to_owned());
            let cut = text
                .char_indices()
                .nth(LONGEST_ERROR)
                .map(|(end, _)| format!("{} ..", &text[..end]));
            (line, cut.unwrap_or(text))
        };
        if self.first.len() < MOST_STORED {
            self.first.push(shown());
        }
        if !skipped && self.first_in_v0_5.is_none() {
            self.first_in_v0_5 = Some(shown());
        }
    }
}

impl DetailLog {
    /// Returns the value of a key with its line, or `None` if no line has the key.
    ///
    /// # Panics
    /// In debug builds, panics if the key is not in the table of keys.
    pub fn entry(&self, key: &str) -> Option<&LoggedValue> {
        debug_assert!(
            place(key.as_bytes()).is_some(),
            "`{key}` is not kept: add it to facts/keys.rs"
        );
        self.find(key)
    }

    /// Returns the value of a key with its line, or `None` if no line has the key or the key is
    /// not in the table.
    pub fn find(&self, key: &str) -> Option<&LoggedValue> {
        self.values.get(place(key.as_bytes())?)?.as_ref()
    }

    /// Returns the value of a key in the first line that has it.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// Returns the value of a key as a number.
    pub fn number(&self, key: &str) -> Option<f64> {
        self.value(key)?.as_f64()
    }

    /// Returns the value of a key as a non-negative integer.
    pub fn whole(&self, key: &str) -> Option<u64> {
        self.value(key)?.as_u64()
    }

    /// Returns the value of a key as a text.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.value(key)?.as_str()
    }

    /// Returns the value of a key as a boolean.
    pub fn flag(&self, key: &str) -> Option<bool> {
        self.value(key)?.as_bool()
    }

    /// Returns the line number of a key, from 1, or `None` if its value is not from a log.
    pub fn line_of(&self, key: &str) -> Option<usize> {
        self.entry(key).map(|entry| entry.line).filter(|line| *line > 0)
    }

    /// Creates a log from values of other files, under the keys of LoadGen. The first value of a
    /// key counts; keys that are not in the table are ignored.
    pub fn from_pairs(pairs: impl IntoIterator<Item = (String, Value)>) -> Self {
        let mut log = Self { begins_with_marker: true, ..Self::empty() };
        for (key, value) in pairs {
            if let Some(entry) = place(key.as_bytes()).map(|place| &mut log.values[place]) {
                entry.get_or_insert(LoggedValue { value, line: 0, times: 1, other: None });
            }
        }
        log
    }

    fn empty() -> Self {
        Self {
            values: vec![None; KEYS.len()],
            errors: Errors::default(),
            malformed: Vec::new(),
            malformed_to_python: None,
            unmarked: None,
            begins_with_marker: false,
            is_utf8: true,
            lines: 0,
            is_plain: false,
            is_pointer: false,
            section: Section::default(),
        }
    }

    /// Returns the first line that makes the log unreadable, by the rules or for Python. Line 0
    /// means that a line is not UTF-8.
    pub fn broken(&self, to_python: bool) -> Option<usize> {
        let first =
            if to_python { self.malformed_to_python } else { self.malformed.first().copied() };
        first.or((!self.is_utf8).then_some(0))
    }

    /// Returns all keys in the log.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &LoggedValue)> {
        let keys = KEYS.iter().zip(&self.values);
        keys.filter_map(|(key, entry)| Some((key.name, entry.as_ref()?)))
    }

    /// Returns the keys whose value does not have the type that every load generator writes.
    pub(crate) fn mistyped(&self) -> impl Iterator<Item = (&'static str, ValueType, &LoggedValue)> {
        let keys = KEYS.iter().zip(&self.values);
        let all = keys.filter_map(|(key, entry)| Some((key.name, key.value_type, entry.as_ref()?)));
        all.filter(|(_, value_type, entry)| !value_type.has(&entry.value))
    }

    /// Returns the keys with contradicting values: each with the last line that has another
    /// value.
    pub fn contradicted(
        &self,
    ) -> impl Iterator<Item = (&'static str, &LoggedValue, &(usize, Value))> {
        self.all().filter_map(|(key, entry)| Some((key, entry, entry.other.as_deref()?)))
    }
}

/// Reads a detail log. Before v1.0, LoadGen wrote the result to the summary only, so that of the
/// same folder is read, too.
///
/// # Errors
/// Fails if the file does not exist or cannot be read.
pub fn read(file: Option<Node<'_>>) -> Result<DetailLog, ReadError> {
    let mut log = super::scan_file(file, |mut log| scan(&mut log))?;
    let summary = || file?.parent()?.file(SUMMARY);
    if log.is_plain
        && let Ok(summary) = text::read(summary())
    {
        plain::take_summary(&mut log, &summary.text);
    }
    Ok(log)
}

/// Reads the summary of a run as a detail log. It has the settings and the result, but no errors.
///
/// # Errors
/// Fails if the file does not exist or cannot be read.
pub fn read_summary(file: Option<Node<'_>>) -> Result<DetailLog, ReadError> {
    let summary = text::read(file)?;
    let mut log = DetailLog::empty();
    plain::take_summary(&mut log, &summary.text);
    Ok(log)
}

/// Reads a detail log and computes the SHA-1 of the file.
///
/// # Errors
/// Fails if the file does not exist or cannot be read.
pub fn read_hashed(file: Option<Node<'_>>) -> Result<(DetailLog, String), ReadError> {
    super::scan_file(file, |inner| {
        let mut reader = HashingReader { inner, sum: Sha1::new() };
        let log = scan(&mut reader)?;
        Ok((log, reader.sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect()))
    })
}

/// Reader that hashes the bytes read through it.
struct HashingReader<R> {
    inner: R,
    sum: Sha1,
}

impl<R: BufRead> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

impl<R: BufRead> BufRead for HashingReader<R> {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        // The consumed bytes are still in the buffer, so this reads nothing.
        if let Some(taken) = self.inner.fill_buf().ok().and_then(|ready| ready.get(..count)) {
            self.sum.update(taken);
        }
        self.inner.consume(count);
    }
}

/// Reads a detail log from any reader.
///
/// # Errors
/// Fails if the reader fails.
pub fn scan(reader: &mut impl BufRead) -> std::io::Result<DetailLog> {
    let mut log = DetailLog::empty();
    let mut line = Vec::new();
    loop {
        let ready = reader.fill_buf()?;
        if let Some(end) = memchr(b'\n', ready).filter(|end| (*end as u64) < LONGEST_LINE) {
            log.lines += 1;
            log.line(&ready[..=end]);
            reader.consume(end + 1);
            continue;
        }
        // The end of the log, or a line longer than the buffer.
        line.clear();
        reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(log);
        }
        log.lines += 1;
        if line.len() as u64 == LONGEST_LINE && !line.ends_with(b"\n") {
            reader.skip_until(b'\n')?;
            log.malformed();
            log.malformed_to_python.get_or_insert(log.lines);
            continue;
        }
        log.line(&line);
    }
}

/// Fields of a line that checks use.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    value: Option<&'a RawValue>,
    metadata: Option<&'a RawValue>,
}

impl DetailLog {
    fn line(&mut self, line: &[u8]) {
        let canonical = line.strip_prefix(MARKER.as_bytes()).and_then(line::read);
        if let Some(line::Line { key, value, is_error }) = canonical {
            self.begins_with_marker |= self.lines == 1;
            if is_error || place(key).is_some() {
                let value = std::str::from_utf8(value).expect("the value is ASCII");
                self.take(key, Some(value), is_error);
            }
            return;
        }
        let Ok(text) = std::str::from_utf8(line) else {
            self.is_utf8 = false;
            return;
        };
        // Python also ends a line at a carriage return.
        for (part, text) in text.trim_end_matches(['\n', '\r']).split('\r').enumerate() {
            self.text_line(text, self.lines == 1 && part == 0);
        }
    }

    fn text_line(&mut self, text: &str, is_first: bool) {
        let Some(json) = text.strip_prefix(MARKER) else {
            self.is_pointer |= is_first && text.starts_with(POINTER);
            self.errors.words += usize::from(text.contains("ERROR") && !text.contains(IGNORED));
            if let Some(text) = plain::text_of(text) {
                self.is_plain = true;
                plain::take(self, text);
            }
            return;
        };
        self.begins_with_marker |= is_first;
        let json = &*python::with_marks(json.trim_end_matches(python::is_space));
        let short = without_list(json);
        // A list of values could also be read as a line, but has no keys.
        let is_object = json.trim_start().starts_with('{');
        let parsed = serde_json::from_str::<Line<'_>>(short.as_deref().unwrap_or(json));
        if let Ok(line) = parsed
            && is_object
        {
            // A value of `null` is also read as `None`.
            let has_value = |line: Value| line.get("value").is_some();
            if line.value.is_none() && !serde_json::from_str(json).is_ok_and(has_value) {
                self.malformed();
            }
            return self.take_parsed(&line);
        }
        // Duplicate fields, of which the last counts, or fields of another type.
        let with_key = |json: &str| {
            let line = serde_json::from_str::<Value>(json).ok();
            line.filter(|line| line.get("key").is_some())
        };
        let Some(repaired) = with_key(json).or_else(|| {
            self.malformed();
            let to_python = python::json(json).and_then(|json| with_key(&json));
            if to_python.is_none() {
                self.malformed_to_python.get_or_insert(self.lines);
            }
            to_python
        }) else {
            return;
        };
        if repaired.get("value").is_none() {
            self.malformed();
        }
        match serde_json::from_str::<Line<'_>>(&repaired.to_string()) {
            Ok(line) => self.take_parsed(&line),
            Err(_) => self.take_foreign_key(&repaired),
        }
    }

    /// Takes a line whose key is not a text. Python accepts each value that can be a key.
    fn take_foreign_key(&mut self, line: &Value) {
        if line["key"].is_array() || line["key"].is_object() {
            self.malformed();
            self.malformed_to_python.get_or_insert(self.lines);
            return;
        }
        match line.get("metadata").and_then(|metadata| metadata.get("is_error")) {
            None => _ = self.unmarked.get_or_insert(self.lines),
            Some(flag) if python::is_true(flag) => {
                self.errors.add(self.lines, &line["value"].to_string());
            }
            Some(_) => {}
        }
    }

    fn malformed(&mut self) {
        if self.malformed.len() < MOST_STORED && self.malformed.last() != Some(&self.lines) {
            self.malformed.push(self.lines);
        }
    }

    fn take_parsed(&mut self, line: &Line<'_>) {
        let is_error = line.metadata.and_then(error_flag);
        if is_error.is_none() {
            self.unmarked.get_or_insert(self.lines);
        }
        let value = line.value.map(RawValue::get);
        self.take(line.key.as_bytes(), value, is_error.unwrap_or_default());
    }

    /// Records the value of a line; `null` means no value.
    fn take(&mut self, key: &[u8], value: Option<&str>, is_error: bool) {
        if is_error {
            self.errors.add(self.lines, value.unwrap_or_default());
        }
        let Some(place) = place(key) else { return };
        let json = value.unwrap_or("null");
        // Valid JSON without a value is a number that overflows.
        let to_python = || {
            self.malformed();
            parsed(&python::json(json)?)
        };
        let Some(value) = parsed(json).or_else(to_python) else { return };
        self.store(place, self.lines, value);
    }

    /// Records the value of a key in a line. Ignores keys that are not in the table.
    pub(super) fn put(&mut self, line: usize, key: &str, value: Value) {
        if let Some(place) = place(key.as_bytes()) {
            self.store(place, line, value);
        }
    }

    /// Records an error in the present line.
    pub(super) fn add_error(&mut self, text: &str) {
        self.errors.add(self.lines, text);
    }

    pub(super) fn section(&self) -> Section {
        self.section
    }

    pub(super) fn set_section(&mut self, section: Section) {
        self.section = section;
    }

    fn store(&mut self, place: usize, line: usize, value: Value) {
        match &mut self.values[place] {
            Some(entry) => {
                entry.times += 1;
                if value != entry.value {
                    entry.other = Some(Box::new((line, value)));
                }
            }
            empty => *empty = Some(LoggedValue { value, line, times: 1, other: None }),
        }
    }
}

/// Replaces a long list of integers in a line, such as the loaded samples, with an empty list.
/// No check uses it, and parsing it takes most of the time. Returns `None` if the line has no
/// such list.
fn without_list(json: &str) -> Option<String> {
    const VALUE: &str = "\"value\": [";
    let start = json.get(..json.len().min(256))?.find(VALUE)? + VALUE.len();
    let list = &json.as_bytes()[start..];
    let (mut digits, mut is_zero) = (0, false);
    let mut end = 0;
    for byte in list {
        match byte {
            b'0'..=b'9' if digits == 0 => (digits, is_zero) = (1, *byte == b'0'),
            b'0'..=b'9' if is_zero => return None,
            b'0'..=b'9' => digits += 1,
            b',' | b']' if digits == 0 => return None,
            b',' => digits = 0,
            b']' => break,
            _ => return None,
        }
        end += 1;
    }
    let rest = json.get(start + end..)?;
    rest.starts_with(']').then(|| format!("{}{rest}", &json[..start]))
}

/// Parses a JSON value; the most common forms without a parser.
fn parsed(json: &str) -> Option<Value> {
    match json.as_bytes() {
        b"true" => Some(Value::Bool(true)),
        b"false" => Some(Value::Bool(false)),
        [b'1'..=b'9', rest @ ..] if rest.len() < 19 && rest.iter().all(u8::is_ascii_digit) => {
            json.parse::<u64>().ok().map(Value::from)
        }
        [b'"', text @ .., b'"'] if memchr(b'\\', text).is_none() => {
            Some(Value::String(json[1..=text.len()].to_owned()))
        }
        _ => serde_json::from_str(json).ok(),
    }
}

/// Returns whether metadata flags an error for the official parsers, written in Python; `None` if it
/// has no flag. Of repeated fields, the last one counts.
fn error_flag(metadata: &RawValue) -> Option<bool> {
    let text = metadata.get();
    let metadata: Option<Value> = serde_json::from_str(text).ok();
    let metadata = metadata.or_else(|| serde_json::from_str(&python::json(text)?).ok())?;
    metadata.get("is_error").map(python::is_true)
}
