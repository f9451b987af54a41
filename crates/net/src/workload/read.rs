//! Readers of prompts in rows: JSON lines, a JSON list, or CSV.
//!
//! Supported are the columns of common collections: a text (`prompt`, `text`, ...), its tokens
//! (`input_ids`, ...), `messages` of a chat, `conversations` as in ShareGPT, and the lengths and
//! times of recorded traces (see `trace.rs`).

use std::fmt;

use serde_json::{Map, Value};

use super::synthetic::Shape;
use super::trace::{self, TraceReader};
use super::{Prompt, Workload};
use crate::openai::{Input, Message};

/// A row: values by column name.
pub type Row = Map<String, Value>;

/// Format of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One JSON object per line.
    JsonLines,
    /// A JSON list of objects.
    Json,
    /// Comma-separated values, with column names in the first line.
    Csv,
}

/// Error in a workload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{why}", row_label(*.row))]
pub struct ReadError {
    /// Number of the row or line, from 1; 0 means the whole file.
    pub row: usize,
    /// The error.
    pub why: String,
}

fn row_label(row: usize) -> String {
    if row == 0 { String::new() } else { format!("row {row}: ") }
}

const TEXT: &[&str] = &["prompt", "text", "text_input", "input", "question", "query"];
const TOKENS: &[&str] = &["input_ids", "prompt_token_ids", "token_ids", "tok_input", "tokens"];
const MESSAGES: &[&str] = &["messages", "conversations", "conversation"];
const SYSTEM: &[&str] = &["system_prompt", "system"];
const MOST: &[&str] = &["max_tokens", "max_completion_tokens", "max_new_tokens", "output_tokens"];
const REFERENCE: &[&str] = &["reference", "answer", "output", "completion", "response"];

impl Format {
    /// Returns the format of a file with this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        let (_, extension) = name.rsplit_once('.')?;
        match extension.to_ascii_lowercase().as_str() {
            "jsonl" | "ndjson" => Some(Self::JsonLines),
            "json" => Some(Self::Json),
            "csv" => Some(Self::Csv),
            _ => None,
        }
    }

    /// Reads rows.
    ///
    /// # Errors
    /// An invalid row, and its position.
    pub fn rows(self, bytes: &[u8]) -> Result<Vec<Row>, ReadError> {
        let wrong = |row: usize, why: &dyn fmt::Display| ReadError { row, why: why.to_string() };
        // Some editors start a UTF-8 file with a byte order mark.
        let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
        match self {
            Self::Json => serde_json::from_slice(bytes).map_err(|error| wrong(0, &error)),
            Self::JsonLines => {
                let lines = bytes.split(|&byte| byte == b'\n').enumerate();
                let lines = lines.filter(|(_, line)| !line.trim_ascii().is_empty());
                let row = |(at, line): (usize, &[u8])| {
                    serde_json::from_slice(line).map_err(|error| wrong(at + 1, &error))
                };
                lines.map(row).collect()
            }
            Self::Csv => {
                let mut reader = csv::Reader::from_reader(bytes);
                let names = reader.headers().map_err(|error| wrong(1, &error))?.clone();
                let is_repeated = |at: usize| names.iter().take(at).any(|name| name == &names[at]);
                if let Some(at) = (0..names.len()).find(|at| is_repeated(*at)) {
                    return Err(wrong(1, &format!("two columns are called `{}`", &names[at])));
                }
                let row = |(at, record): (usize, csv::Result<csv::StringRecord>)| {
                    let record = record.map_err(|error| wrong(at + 2, &error))?;
                    let cells = names.iter().zip(record.iter());
                    Ok(cells.map(|(name, cell)| (name.to_owned(), cell.into())).collect())
                };
                reader.records().enumerate().map(row).collect()
            }
        }
    }
}

impl Workload {
    /// Returns the prompts of rows. Rows with lengths instead of texts get synthetic prompts of
    /// this shape and seed.
    ///
    /// A row with a conversation that ends with an answer gives one sample for each of its answers,
    /// with all preceding messages; the history contains the recorded answers, not those of the
    /// server.
    ///
    /// # Errors
    /// A row that is not a prompt.
    pub fn of_rows(rows: &[Row], shape: Shape, seed: u64) -> Result<Self, ReadError> {
        if rows.is_empty() {
            return Err(ReadError { row: 0, why: "there are no rows".into() });
        }
        let mut workload = Self::default();
        let mut recorded = TraceReader::new(shape, seed);
        for (at, row) in rows.iter().enumerate() {
            let wrong = |why| ReadError { row: at + 1, why };
            let before = workload.prompts.len();
            prompts(row, &mut recorded, &mut workload).map_err(wrong)?;
            let turns = workload.prompts.len() - before;
            recorded.time(row, turns).map_err(wrong)?;
        }
        recorded.finish(&mut workload).map_err(|(row, why)| ReadError { row, why })?;
        Ok(workload)
    }
}

/// Returns the value of the first of these columns that exists.
pub(super) fn cell<'a>(row: &'a Row, names: &[&str]) -> Option<(&'a str, &'a Value)> {
    let found = names.iter().find_map(|name| row.get_key_value(*name))?;
    let is_empty = found.1.is_null() || found.1.as_str().is_some_and(str::is_empty);
    (!is_empty).then_some((found.0.as_str(), found.1))
}

/// Up to 2^53 each integer is exact in floating point.
const MOST_EXACT: f64 = (1_u64 << f64::MANTISSA_DIGITS) as f64;

/// Returns an integer, which CSV contains as text.
pub(super) fn number(row: &Row, names: &[&str]) -> Result<Option<u64>, String> {
    let Some((name, value)) = cell(row, names) else {
        return Ok(None);
    };
    let whole = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok());
    // Table tools write integers as 3.0 if other values of the column are missing.
    let real = || value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
    let is_whole = |number: &f64| (0.0..=MOST_EXACT).contains(number) && number.fract() == 0.0;
    let number = whole.or_else(|| real().filter(is_whole).map(|number| number as u64));
    number.map(Some).ok_or_else(|| format!("`{name}` is no whole number: {value}"))
}

fn text<'a>(row: &'a Row, names: &[&str]) -> Result<Option<&'a str>, String> {
    match cell(row, names) {
        None => Ok(None),
        Some((_, Value::String(text))) => Ok(Some(text)),
        Some((name, _)) => Err(format!("`{name}` is no text")),
    }
}

/// Appends the prompts of a row.
fn prompts(row: &Row, recorded: &mut TraceReader, workload: &mut Workload) -> Result<(), String> {
    let most = match number(row, MOST)? {
        None => trace::output_length(row)?,
        most => most,
    };
    let system = text(row, SYSTEM)?;
    // Lists under these names would be choices, not one answer.
    let reference = cell(row, REFERENCE).and_then(|(_, value)| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    });
    let input = if let Some((name, value)) = cell(row, MESSAGES) {
        let mut all = messages(name, value)?;
        if let Some(system) = system {
            all.insert(0, Message::new("system", system));
        }
        if all.last().is_some_and(|last| last.role == "assistant") {
            workload.sessions += 1;
            return turns(&all, most, workload);
        }
        Input::Messages(all)
    } else if let Some((name, value)) = cell(row, TOKENS) {
        let tokens = value.as_array().and_then(|all| all.iter().map(Value::as_u64).collect());
        Input::Tokens(tokens.ok_or_else(|| format!("`{name}` is no list of tokens"))?)
    } else if let Some(text) = text(row, TEXT)? {
        match system {
            Some(system) => {
                Input::Messages(vec![Message::new("system", system), Message::new("user", text)])
            }
            None => Input::Text(text.into()),
        }
    } else if let Some(input) = recorded.input(row)? {
        input
    } else {
        let there: Vec<&str> = row.keys().map(String::as_str).collect();
        return Err(format!(
            "neither a text ({}), nor tokens, messages or a length; there are {}",
            TEXT.join(", "),
            there.join(", ")
        ));
    };
    workload.prompts.push(Prompt { input, max_tokens: most, reference });
    Ok(())
}

/// Appends one prompt for each answer of a conversation.
fn turns(all: &[Message], most: Option<u64>, workload: &mut Workload) -> Result<(), String> {
    let mut count = 0;
    for (at, message) in all.iter().enumerate() {
        if message.role != "assistant" || at == 0 {
            continue;
        }
        count += 1;
        workload.prompts.push(Prompt {
            input: Input::Messages(all[..at].to_vec()),
            max_tokens: most,
            reference: Some(message.content.clone()),
        });
    }
    match count {
        0 => Err("a conversation of nothing but an answer".into()),
        _ => Ok(()),
    }
}

/// Reads messages with `role` and `content`, or with `from` and `value` as in ShareGPT.
fn messages(name: &str, value: &Value) -> Result<Vec<Message>, String> {
    let all = value.as_array().filter(|all| !all.is_empty());
    let all = all.ok_or_else(|| format!("`{name}` is no list of messages"))?;
    let message = |value: &Value| {
        let said = |names: [&str; 2]| names.iter().find_map(|name| value.get(name)?.as_str());
        let role = match said(["role", "from"]) {
            Some("human") => "user",
            Some("gpt" | "model" | "bing" | "chatgpt") => "assistant",
            Some(role) => role,
            None => return Err(format!("a message of `{name}` has no `role`")),
        };
        let content = said(["content", "value"]);
        let content = content.ok_or_else(|| format!("a message of `{name}` has no `content`"))?;
        Ok(Message::new(role, content))
    };
    all.iter().map(message).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(format: Format, text: &str) -> Result<Workload, ReadError> {
        Workload::of_rows(&format.rows(text.as_bytes())?, Shape::Words, 1)
    }

    #[test]
    fn texts_tokens_and_messages_are_prompts() {
        let lines = "{\"prompt\": \"a b\", \"max_tokens\": 7, \"answer\": 42}\n\n\
                     {\"input_ids\": [1, 2]}\n\
                     {\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}\n\
                     {\"question\": \"why\", \"system_prompt\": \"be short\"}\n";
        let workload = workload(Format::JsonLines, lines).unwrap();
        let user = |text: &str| Message::new("user", text);
        assert_eq!(
            workload.prompts.iter().map(|prompt| prompt.input.clone()).collect::<Vec<_>>(),
            [
                Input::Text("a b".into()),
                Input::Tokens(vec![1, 2]),
                Input::Messages(vec![user("hi")]),
                Input::Messages(vec![Message::new("system", "be short"), user("why")]),
            ]
        );
        let first = &workload.prompts[0];
        assert_eq!((first.max_tokens, first.reference.as_deref()), (Some(7), Some("42")));
        assert_eq!((workload.sessions, workload.arrivals), (0, None));
    }

    #[test]
    fn a_conversation_is_a_prompt_for_each_answer() {
        let text = r#"[{"conversations": [
            {"from": "human", "value": "one"}, {"from": "gpt", "value": "1"},
            {"from": "human", "value": "two"}, {"from": "gpt", "value": "2"}]}]"#;
        let workload = workload(Format::Json, text).unwrap();
        let lengths: Vec<usize> = workload
            .prompts
            .iter()
            .map(|prompt| match &prompt.input {
                Input::Messages(all) => all.len(),
                _ => 0,
            })
            .collect();
        assert_eq!((workload.sessions, lengths), (1, vec![1, 3]));
        assert_eq!(workload.prompts[1].reference.as_deref(), Some("2"));
    }

    #[test]
    fn csv_has_its_names_in_the_first_line() {
        let read = workload(Format::Csv, "text,max_tokens\n\"a, b\",3\nc,\n").unwrap();
        assert_eq!(read.prompts[0].input, Input::Text("a, b".into()));
        assert_eq!(read.prompts[0].max_tokens, Some(3));
        assert_eq!(read.prompts[1].max_tokens, None);
        assert_eq!(Format::of_name("a.b/PROMPTS.CSV"), Some(Format::Csv));
        let error = workload(Format::Csv, "text,n,text\na,1,b\n").unwrap_err().to_string();
        assert_eq!(error, "row 1: two columns are called `text`");
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_row() {
        for (format, text) in [
            (Format::JsonLines, "\u{feff}{\"text\": \"a\"}"),
            (Format::Json, "\u{feff}[{\"text\": \"a\"}]"),
            (Format::Csv, "\u{feff}text\na\n"),
        ] {
            assert_eq!(workload(format, text).unwrap().prompts[0].input, Input::Text("a".into()));
        }
    }

    #[test]
    fn a_length_is_a_whole_number() {
        let read = |length: &str| {
            let rows = format!("{{\"text\": \"a\", \"max_tokens\": {length}}}");
            workload(Format::JsonLines, &rows).map(|workload| workload.prompts[0].max_tokens)
        };
        for whole in ["3", "3.0", "\"3\"", "\"3.0\"", "3e0"] {
            assert_eq!(read(whole), Ok(Some(3)), "{whole}");
        }
        for other in ["1.5", "-1", "\"1.5\"", "\"NaN\"", "1e30", "true"] {
            assert!(read(other).is_err(), "{other}");
        }
    }

    #[test]
    fn what_is_no_prompt_is_told_with_its_row() {
        let of = |text| workload(Format::JsonLines, text).unwrap_err().to_string();
        assert_eq!(of(""), "there are no rows");
        assert!(of("{\"prompt\": \"a\"}\n{\"promt\": 1}").starts_with("row 2: neither a text"));
        assert!(of("{}\n{").starts_with("row 2: EOF"));
        assert!(of("{\"prompt\": 1}").contains("`prompt` is no text"));
        assert!(of("{\"messages\": [{\"content\": \"x\"}]}").contains("no `role`"));
        assert!(of("{\"prompt\":\"a\",\"max_tokens\":\"x\"}").contains("no whole number"));
    }
}
