//! Parser of `mlperf_log_detail.txt`. It accepts what the reference writes: unescaped strings,
//! `nan` and `inf`, and a single `]` for an empty list.

use std::io::{self, Read as _};
use std::path::Path;

use super::cursor::Cursor;
use super::{LogReadProblem, ProblemKind, open_file};
use crate::clock::Nanos;

/// Number with its exact text in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Number {
    /// Text of the number.
    pub text: String,
}

impl Number {
    /// Returns the number, which may be NaN or infinite.
    pub fn as_f64(&self) -> f64 {
        self.text.parse().unwrap_or(f64::NAN)
    }

    /// Returns the number if it is whole and not negative.
    pub fn as_u64(&self) -> Option<u64> {
        self.text.parse().ok()
    }
}

/// Value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Null, which Dyno writes for `nan` and `inf` of the reference.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string: decoded if it is valid JSON, otherwise unchanged.
    Text(String),
    /// A list of whole numbers.
    List(Vec<u64>),
    /// A map of strings, in the order of the log.
    Map(Vec<(String, String)>),
}

/// Line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Line, from 1.
    pub line: usize,
    /// Key.
    pub key: String,
    /// Value.
    pub value: Value,
    /// Time in ns since the origin of the log.
    pub at: Nanos,
    /// Whether it counts as an error.
    pub is_error: bool,
    /// Whether it counts as a warning.
    pub is_warning: bool,
    /// Source file that wrote it.
    pub file: String,
    /// Line of that file.
    pub line_no: u64,
    /// Process id.
    pub pid: u64,
    /// Thread id.
    pub tid: u64,
}

/// Parsed detail log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Detail {
    /// All readable lines, in order.
    pub entries: Vec<Entry>,
}

impl Detail {
    /// Returns the value of a key from the last line that has it, like the official parsers.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.entries.iter().rev().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// Returns all values of a key, in order.
    pub fn values<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a Value> {
        self.entries.iter().filter(move |entry| entry.key == key).map(|entry| &entry.value)
    }

    /// Returns the value of a key if it is a whole number.
    pub fn whole(&self, key: &str) -> Option<u64> {
        match self.value(key)? {
            Value::Number(number) => number.as_u64(),
            _ => None,
        }
    }

    /// Returns the value of a key if it is a number.
    pub fn number(&self, key: &str) -> Option<f64> {
        match self.value(key)? {
            Value::Number(number) => Some(number.as_f64()),
            _ => None,
        }
    }

    /// Returns the value of a key if it is a string.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.value(key)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the value of a key if it is a boolean.
    pub fn flag(&self, key: &str) -> Option<bool> {
        match self.value(key)? {
            Value::Bool(flag) => Some(*flag),
            _ => None,
        }
    }

    /// Returns the lines that count as errors.
    pub fn errors(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.is_error)
    }
}

/// Reads and parses the file of a detail log; also returns the problems of unreadable lines.
///
/// # Errors
/// If the file cannot be read.
pub fn read_detail_file(path: &Path) -> io::Result<(Detail, Vec<LogReadProblem>)> {
    let mut bytes = Vec::new();
    open_file(path)?.read_to_end(&mut bytes)?;
    Ok(read_detail(&String::from_utf8_lossy(&bytes)))
}

/// Parses a detail log; also returns the problems of unreadable lines.
#[must_use]
pub fn read_detail(text: &str) -> (Detail, Vec<LogReadProblem>) {
    let mut detail = Detail::default();
    let mut problems = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        match read_line(at + 1, line) {
            Ok(entry) => detail.entries.push(entry),
            Err(kind) => problems.push(LogReadProblem { line: at + 1, kind }),
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        let kind = ProblemKind::Truncated { expected: "a line end" };
        problems.push(LogReadProblem { line: text.lines().count(), kind });
    }
    (detail, problems)
}

fn read_line(line: usize, text: &str) -> Result<Entry, ProblemKind> {
    const START: &str = ":::MLLOG {\"key\": \"";
    let foreign = ProblemKind::Foreign { expected: "a line that begins with `:::MLLOG {\"key\":`" };
    let (_, rest) = text.split_once(START).ok_or(foreign)?;
    let field = |field| ProblemKind::Field { field };
    let (key, rest) = rest.split_once("\", \"value\": ").ok_or(field("key"))?;
    // Searched from the right, because an unescaped string may contain anything.
    let (value, rest) = rest.rsplit_once(", \"time_ms\": ").ok_or(field("value"))?;
    let (time, rest) = rest.split_once(", \"namespace\": ").ok_or(field("time_ms"))?;
    let tail = |name: &'static str| after(rest, name).ok_or(ProblemKind::Field { field: name });
    let number = |name| tail(name)?.parse().map_err(|_| field(name));
    let flag = |name| tail(name)?.parse().map_err(|_| field(name));
    if !rest.trim_end().ends_with("}}") {
        return Err(ProblemKind::Truncated { expected: "`}}` at the end of the line" });
    }
    Ok(Entry {
        line,
        key: key.to_string(),
        value: read_value(value).ok_or_else(|| ProblemKind::Value { key: key.to_string() })?,
        at: milliseconds(time).ok_or(field("time_ms"))?,
        is_error: flag("is_error")?,
        is_warning: flag("is_warning")?,
        file: tail("file")?.trim_matches('"').to_string(),
        line_no: number("line_no")?,
        pid: number("pid")?,
        tid: number("tid")?,
    })
}

/// Returns the text of a metadata field, up to the next comma or brace.
fn after<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("\"{name}\": "))?;
    Some(&rest[..rest.find([',', '}'])?])
}

/// Parses milliseconds such as `12.000345` as ns without rounding.
fn milliseconds(text: &str) -> Option<Nanos> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 6 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let nanos: u64 = format!("{fraction:0<6}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(nanos)
}

fn read_value(text: &str) -> Option<Value> {
    match text {
        "null" => return Some(Value::Null),
        "true" => return Some(Value::Bool(true)),
        "false" => return Some(Value::Bool(false)),
        "]" | "[]" => return Some(Value::List(Vec::new())),
        _ => {}
    }
    match text.bytes().next()? {
        b'"' => {
            let body = text.strip_prefix('"')?.strip_suffix('"')?;
            let mut cursor = Cursor::new(text.as_bytes());
            let decoded = cursor.string().filter(|_| cursor.at_end());
            Some(Value::Text(decoded.unwrap_or_else(|| body.to_string())))
        }
        b'[' => {
            let body = text.strip_prefix('[')?.strip_suffix(']')?;
            body.split(',').map(|n| n.trim().parse().ok()).collect::<Option<_>>().map(Value::List)
        }
        b'{' => read_map(text).map(Value::Map),
        _ => {
            let number = Number { text: text.to_string() };
            text.parse::<f64>().ok().map(|_| Value::Number(number))
        }
    }
}

fn read_map(text: &str) -> Option<Vec<(String, String)>> {
    let mut cursor = Cursor::new(text.as_bytes());
    let mut pairs = Vec::new();
    if !cursor.eat(b'{') {
        return None;
    }
    if cursor.eat(b'}') {
        return cursor.at_end().then_some(pairs);
    }
    loop {
        let key = cursor.string()?;
        if !cursor.eat(b':') {
            return None;
        }
        pairs.push((key, cursor.string()?));
        if !cursor.eat(b',') {
            return (cursor.eat(b'}') && cursor.at_end()).then_some(pairs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(value: &str) -> String {
        format!(
            ":::MLLOG {{\"key\": \"k\", \"value\": {value}, \"time_ms\": 1011.999820, \"namespace\": \
             \"mlperf::logging\", \"event_type\": \"POINT_IN_TIME\", \"metadata\": {{\"is_error\": \
             false, \"is_warning\": true, \"file\": \"loadgen.cc\", \"line_no\": 562, \"pid\": 7, \
             \"tid\": 8}}}}\n"
        )
    }

    fn value_of(text: &str) -> Value {
        let (detail, problems) = read_detail(&line(text));
        assert_eq!(problems, []);
        detail.entries[0].value.clone()
    }

    #[test]
    fn values_that_are_not_json_read_as_they_stand() {
        let text = |s: &str| Value::Text(s.into());
        assert_eq!(value_of(r#""C:\models\new""#), text(r"C:\models\new"));
        assert_eq!(value_of(r#""a "quoted" name""#), text(r#"a "quoted" name"#));
        assert_eq!(value_of(r#""x", "time_ms": 3""#), text(r#"x", "time_ms": 3"#));
        assert_eq!(value_of(r#""one\ntwo""#), text("one\ntwo"));
        assert_eq!(value_of("]"), Value::List(vec![]));
        assert_eq!(value_of("[3,1,2]"), Value::List(vec![3, 1, 2]));
        assert_eq!(value_of("nan"), Value::Number(Number { text: "nan".into() }));
        assert_eq!(value_of("-inf"), Value::Number(Number { text: "-inf".into() }));
        assert_eq!(value_of("null"), Value::Null);
        assert_eq!(value_of("{}"), Value::Map(vec![]));
    }

    #[test]
    fn every_field_is_read() {
        let (detail, _) = read_detail(&line("18446744073709551615"));
        let entry = &detail.entries[0];
        assert_eq!((entry.at, entry.is_error, entry.is_warning), (1_011_999_820, false, true));
        assert_eq!((entry.file.as_str(), entry.line_no), ("loadgen.cc", 562));
        assert_eq!((entry.pid, entry.tid), (7, 8));
        assert_eq!(detail.whole("k"), Some(u64::MAX));
    }

    #[test]
    fn a_cut_or_foreign_line_is_named() {
        let good = line("1");
        let cut = &good[..good.len() - 30];
        let (detail, problems) = read_detail(&format!("{good}Segmentation fault\n{good}{cut}"));
        assert_eq!(detail.entries.len(), 2);
        let lines: Vec<usize> = problems.iter().map(|p| p.line).collect();
        assert_eq!(lines, [2, 4, 4]);
        assert!(problems[0].to_string().starts_with("line 2: expected a line that begins with"));
        assert!(problems[2].to_string().contains("the file ends early"));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text: String, cut in 0usize..300, value in "[\\[\\]{}\":,\\\\a0 .]*") {
            let whole = line(&value);
            let part = whole.get(..cut.min(whole.len())).unwrap_or("");
            for text in [&text[..], &whole, part] {
                let (_, problems) = read_detail(text);
                prop_assert!(problems.iter().all(|p| p.line <= text.lines().count()));
            }
        }
    }
}
