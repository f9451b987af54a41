//! The detail log of a run, as strict as the official parsers: a line with the
//! marker must be JSON. The reader of `loadgen` mends what the reference gets wrong;
//! a checker must see it.

use std::borrow::Cow;
use std::io::{BufRead, Read};

use memchr::memchr;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use sha1::{Digest, Sha1};

use super::Missing;
use super::keys::{KEYS, Type, place};
use super::line;
use crate::python;
use crate::tree::Node;

const MARKER: &str = ":::MLLOG";
/// A longer line does not read; the longest that the reference writes, the samples of
/// a data set, have a few MiB.
const LONGEST_LINE: u64 = 32 << 20;
/// Of errors and of lines that do not read, this many are kept.
const KEPT: usize = 16;
/// Of the text of an error, this many characters are kept.
const LONGEST_ERROR: usize = 300;

/// What a detail log says of the keys that checks ask for.
#[derive(Debug, Clone, PartialEq)]
pub struct DetailLog {
    held: Vec<Option<Held>>,
    /// Lines that are errors.
    pub errors: Errors,
    /// Lines with the marker that are no JSON, have no key, or a number that is too large
    /// to have a value: the first ones.
    pub malformed: Vec<usize>,
    /// The first of them that is not JSON to Python either, which knows `NaN`.
    pub malformed_to_python: Option<usize>,
    /// The first line that does not say whether it is an error.
    pub unmarked: Option<usize>,
    /// Whether the first line has the marker.
    pub begins_with_marker: bool,
    /// Whether every line is UTF-8.
    pub is_utf8: bool,
    /// How many lines there are.
    pub lines: usize,
}

/// A key of a log.
#[derive(Debug, Clone, PartialEq)]
pub struct Held {
    /// Value of the first line that has it, which is what counts.
    pub value: Value,
    /// That line, from 1.
    pub line: usize,
    /// How many lines have it.
    pub times: usize,
    /// The last line that has it with another value, and that value.
    pub other: Option<Box<(usize, Value)>>,
}

/// The lines of a log that are errors.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Errors {
    /// How many.
    pub count: usize,
    /// Those that do not say that LoadGen was built with uncommitted changes.
    pub not_uncommitted: usize,
    /// Those that say that several configuration files were used.
    pub several_confs: usize,
    /// Those that say neither.
    pub others: usize,
    /// Line and text of the first ones.
    pub first: Vec<(usize, String)>,
}

impl Errors {
    fn add(&mut self, line: usize, raw: &str) {
        let uncommitted = raw.contains("Loadgen built with uncommitted changes!");
        let several = raw.contains("Multiple conf files are used");
        self.count += 1;
        self.not_uncommitted += usize::from(!uncommitted);
        self.several_confs += usize::from(several);
        self.others += usize::from(!uncommitted && !several);
        if self.first.len() < KEPT {
            let text = serde_json::from_str(raw).unwrap_or_else(|_| raw.to_owned());
            let cut =
                text.char_indices().nth(LONGEST_ERROR).map(|(at, _)| format!("{} ..", &text[..at]));
            self.first.push((line, cut.unwrap_or(text)));
        }
    }
}

impl DetailLog {
    /// A key, `None` if no line has it.
    ///
    /// # Panics
    /// In debug builds, if it is none of the keys that are kept.
    #[must_use]
    pub fn held(&self, key: &str) -> Option<&Held> {
        debug_assert!(
            place(key.as_bytes()).is_some(),
            "`{key}` is not kept: add it to facts/keys.rs"
        );
        self.find(key)
    }

    /// A key, `None` also if it is none of those that are kept.
    #[must_use]
    pub fn find(&self, key: &str) -> Option<&Held> {
        self.held.get(place(key.as_bytes())?)?.as_ref()
    }

    /// The value of a key: of the first line that has it.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.held(key).map(|held| &held.value)
    }

    /// A number.
    #[must_use]
    pub fn number(&self, key: &str) -> Option<f64> {
        self.value(key)?.as_f64()
    }

    /// A whole number that is not negative.
    #[must_use]
    pub fn whole(&self, key: &str) -> Option<u64> {
        self.value(key)?.as_u64()
    }

    /// A text.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        self.value(key)?.as_str()
    }

    /// A truth value.
    #[must_use]
    pub fn flag(&self, key: &str) -> Option<bool> {
        self.value(key)?.as_bool()
    }

    /// The line of a key, from 1; `None` of what was never a line.
    #[must_use]
    pub fn line_of(&self, key: &str) -> Option<usize> {
        self.held(key).map(|held| held.line).filter(|line| *line > 0)
    }

    /// What others say in other files, under the keys of LoadGen: the first of a key
    /// counts, and keys that no check asks for are left out.
    #[must_use]
    pub fn of(pairs: impl IntoIterator<Item = (String, Value)>) -> Self {
        let mut log = Self { begins_with_marker: true, ..Self::empty() };
        for (key, value) in pairs {
            if let Some(held) = place(key.as_bytes()).map(|place| &mut log.held[place]) {
                held.get_or_insert(Held { value, line: 0, times: 1, other: None });
            }
        }
        log
    }

    fn empty() -> Self {
        Self {
            held: vec![None; KEYS.len()],
            errors: Errors::default(),
            malformed: Vec::new(),
            malformed_to_python: None,
            unmarked: None,
            begins_with_marker: false,
            is_utf8: true,
            lines: 0,
        }
    }

    /// The line that keeps the log from being read, if any does: by the rules, or to
    /// Python. Line 0 is one that is not UTF-8.
    #[must_use]
    pub fn broken(&self, to_python: bool) -> Option<usize> {
        let first = match to_python {
            true => self.malformed_to_python,
            false => self.malformed.first().copied(),
        };
        first.or((!self.is_utf8).then_some(0))
    }

    /// Every key that a line has.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &Held)> {
        let keys = KEYS.iter().zip(&self.held);
        keys.filter_map(|(key, held)| Some((key.name, held.as_ref()?)))
    }

    /// The keys whose value is of another type than every load generator writes.
    pub fn mistyped(&self) -> impl Iterator<Item = (&'static str, Type, &Held)> {
        let keys = KEYS.iter().zip(&self.held);
        let all = keys.filter_map(|(key, held)| Some((key.name, key.is, held.as_ref()?)));
        all.filter(|(_, is, held)| !is.has(&held.value))
    }

    /// The keys with more than one value: each with the last line that has another one.
    pub fn contradicted(&self) -> impl Iterator<Item = (&'static str, &Held, &(usize, Value))> {
        self.all().filter_map(|(key, held)| Some((key, held, held.other.as_deref()?)))
    }
}

/// Reads a detail log.
///
/// # Errors
/// There is no file, or it cannot be read.
pub fn read(file: Option<Node<'_>>) -> Result<DetailLog, Missing> {
    super::scanned(file, |mut log| scan(&mut log))
}

/// As [`read`], with the SHA-1 of the file.
///
/// # Errors
/// There is no file, or it cannot be read.
pub fn read_hashed(file: Option<Node<'_>>) -> Result<(DetailLog, String), Missing> {
    super::scanned(file, |inner| {
        let mut hashed = Hashed { inner, sum: Sha1::new() };
        let log = scan(&mut hashed)?;
        Ok((log, hashed.sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect()))
    })
}

/// A reader that hashes what is taken from it.
struct Hashed<R> {
    inner: R,
    sum: Sha1,
}

impl<R: BufRead> Read for Hashed<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let count = self.fill_buf()?.read(into)?;
        self.consume(count);
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Hashed<R> {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        // What is taken was there before, so that nothing is read here.
        if let Some(taken) = self.inner.fill_buf().ok().and_then(|ready| ready.get(..count)) {
            self.sum.update(taken);
        }
        self.inner.consume(count);
    }
}

/// As [`read`], of any bytes.
///
/// # Errors
/// The reader fails.
pub fn scan(log: &mut impl BufRead) -> std::io::Result<DetailLog> {
    let mut said = DetailLog::empty();
    let mut line = Vec::new();
    loop {
        let ready = log.fill_buf()?;
        if let Some(end) = memchr(b'\n', ready).filter(|end| (*end as u64) < LONGEST_LINE) {
            said.lines += 1;
            said.line(&ready[..=end]);
            log.consume(end + 1);
            continue;
        }
        // The rest of the log, or a line that goes on beyond the buffer.
        line.clear();
        log.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(said);
        }
        said.lines += 1;
        if line.len() as u64 == LONGEST_LINE && !line.ends_with(b"\n") {
            log.skip_until(b'\n')?;
            said.malformed();
            said.malformed_to_python.get_or_insert(said.lines);
            continue;
        }
        said.line(&line);
    }
}

/// A line, as far as it is asked for.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
    #[serde(borrow)]
    metadata: Option<Metadata<'a>>,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    #[serde(borrow)]
    is_error: Option<&'a RawValue>,
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
        let Some(json) = text.strip_prefix(MARKER) else { return };
        self.begins_with_marker |= self.lines == 1;
        let json = &*python::with_marks(json);
        let short = without_list(json);
        if let Ok(line) = serde_json::from_str::<Line<'_>>(short.as_deref().unwrap_or(json)) {
            return self.take_parsed(&line);
        }
        // Fields that are there twice, of which the last counts, or of other types.
        let with_key = |json: &str| {
            let line = serde_json::from_str::<Value>(json).ok();
            line.filter(|line| line.get("key").is_some())
        };
        let Some(mended) = with_key(json).or_else(|| {
            self.malformed();
            let to_python = python::json(json).and_then(|json| with_key(&json));
            if to_python.is_none() {
                self.malformed_to_python.get_or_insert(self.lines);
            }
            to_python
        }) else {
            return;
        };
        match serde_json::from_str::<Line<'_>>(&mended.to_string()) {
            Ok(line) => self.take_parsed(&line),
            Err(_) => _ = self.unmarked.get_or_insert(self.lines),
        }
    }

    fn malformed(&mut self) {
        if self.malformed.len() < KEPT {
            self.malformed.push(self.lines);
        }
    }

    fn take_parsed(&mut self, line: &Line<'_>) {
        let is_error = line.metadata.as_ref().and_then(|metadata| metadata.is_error);
        if is_error.is_none() {
            self.unmarked.get_or_insert(self.lines);
        }
        self.take(
            line.key.as_bytes(),
            line.value.map(RawValue::get),
            is_error.is_some_and(is_true),
        );
    }

    /// What a line says; `null` is no value.
    fn take(&mut self, key: &[u8], value: Option<&str>, is_error: bool) {
        if is_error {
            self.errors.add(self.lines, value.unwrap_or_default());
        }
        let Some(place) = place(key) else { return };
        let json = value.unwrap_or("null");
        // What is JSON and still has no value is a number beyond all that there are.
        let to_python = || {
            self.malformed();
            parsed(&python::json(json)?)
        };
        let Some(value) = parsed(json).or_else(to_python) else { return };
        match &mut self.held[place] {
            Some(held) => {
                held.times += 1;
                if value != held.value {
                    held.other = Some(Box::new((self.lines, value)));
                }
            }
            empty => *empty = Some(Held { value, line: self.lines, times: 1, other: None }),
        }
    }
}

/// A line whose value is a long list of whole numbers, such as the samples that were
/// loaded, with a short list in its place: no check asks for it, and to read it as JSON
/// takes most of the time.
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

/// A value of JSON; the most common ones without a parser.
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

/// What the official parsers, which are in Python, take for true.
fn is_true(value: &RawValue) -> bool {
    !matches!(value.get(), "false" | "null" | "0" | "0.0" | "\"\"" | "[]" | "{}")
}
