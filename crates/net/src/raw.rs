//! Any other interface over HTTP: a template, filled in with the fields of each sample.

use std::collections::BTreeSet;

use dyno_loadgen::qsl::SampleIndex;
use serde_json::Value;

use crate::exchange::{Fields, HttpVersion, Method, Request};
use crate::ledger::{AcceptedClasses, Class, Entry, settle};
use crate::oip::http::error_words;
use crate::protocol::{
    Answer, COPIED_PER_PARSED, LONGEST_ANSWER, Protocol, ReadProgress, Reader, ReaderCall,
};
use crate::trouble::{Kind, Trouble, in_short};
use crate::workload::Row;

/// Request template, and selection of the answer. `{NAME}` is replaced by a field of the sample: as
/// JSON in bodies, including the quotes of strings; `{NAME:text}` as plain text. In paths and
/// header fields both are plain text, percent-encoded in paths. Braces around anything else stay
/// unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// `GET` or `POST`.
    pub method: Method,
    /// Path and query below that of the endpoint.
    pub path: String,
    /// Header fields, with names in lower case.
    pub fields: Vec<(&'static str, String)>,
    /// Body.
    pub body: String,
    /// JSON pointer (RFC 6901) to the answer; `None` takes the whole body.
    pub pointer: Option<String>,
    /// Classes of answers that count as success beside whole ones. Only the value at a pointer is
    /// classified: it may be empty.
    pub accepted: AcceptedClasses,
}

/// A template with its samples.
#[derive(Debug, Clone)]
pub struct Raw {
    template: Template,
    /// Fields of the samples that the template uses.
    names: Vec<String>,
    rows: Vec<Row>,
    version: HttpVersion,
}

/// Reason why a template cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// There are no samples.
    #[error("expected at least one sample")]
    NoSamples,
    /// A sample lacks a field of the template.
    #[error("row {row} has no `{field}`, which the template needs")]
    NoField {
        /// Number of the sample, from 1.
        row: usize,
        /// The field.
        field: String,
    },
}

impl Raw {
    /// Combines a template with its samples. A name in braces is a field if the first sample has
    /// it.
    ///
    /// # Errors
    /// [`TemplateError`].
    pub fn new(
        template: Template,
        rows: Vec<Row>,
        version: HttpVersion,
    ) -> Result<Self, TemplateError> {
        let first = rows.first().ok_or(TemplateError::NoSamples)?;
        let texts = template.fields.iter().map(|(_, value)| value.as_str());
        let mut names = Vec::new();
        for text in texts.chain([template.path.as_str(), template.body.as_str()]) {
            let named = pieces(text, first).filter_map(|piece| match piece {
                Piece::Field(name, _) => Some(name.to_owned()),
                Piece::Text(_) => None,
            });
            names.extend(named);
        }
        for (at, row) in rows.iter().enumerate() {
            if let Some(field) = names.iter().find(|name| !row.contains_key(*name)) {
                return Err(TemplateError::NoField { row: at + 1, field: field.clone() });
            }
        }
        Ok(Self { template, names, rows, version })
    }

    /// Returns whether the template uses any field of the samples.
    pub fn uses_samples(&self) -> bool {
        !self.names.is_empty()
    }

    /// Returns names in braces that no sample has; they are sent unchanged.
    pub fn unknown_names(&self) -> Vec<&str> {
        let Template { path, fields, body, .. } = &self.template;
        let texts = fields.iter().map(|(_, value)| value.as_str());
        let mut found = BTreeSet::new();
        for text in texts.chain([path.as_str(), body.as_str()]) {
            let inside = text.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0));
            let names = inside.map(|name| name.strip_suffix(":text").unwrap_or(name));
            found.extend(names.filter(|name| is_name(name) && !self.rows[0].contains_key(*name)));
        }
        found.into_iter().collect()
    }
}

/// Returns whether a text can be the name of a field.
fn is_name(text: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    text.starts_with(|c: char| c.is_alphabetic() || c == '_') && text.chars().all(is_part)
}

/// A piece of a template.
enum Piece<'a> {
    Text(&'a str),
    /// A field by its name, and whether it is inserted as plain text.
    Field(&'a str, bool),
}

/// Returns the pieces of a template for a row.
fn pieces<'a>(template: &'a str, row: &Row) -> impl Iterator<Item = Piece<'a>> {
    let mut rest = template;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let field = rest.strip_prefix('{').and_then(|inside| {
            let (name, after) = inside.split_once('}')?;
            let (name, is_text) = match name.strip_suffix(":text") {
                Some(name) => (name, true),
                None => (name, false),
            };
            row.contains_key(name).then_some((name, is_text, after))
        });
        if let Some((name, is_text, after)) = field {
            rest = after;
            return Some(Piece::Field(name, is_text));
        }
        let mut others = rest.char_indices().skip(1);
        let end = others.find(|(_, character)| *character == '{').map_or(rest.len(), |(at, _)| at);
        let (text, after) = rest.split_at(end);
        rest = after;
        Some(Piece::Text(text))
    })
}

/// Returns a value as text: strings without their quotes.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Fills in a template with the fields of a row.
fn filled(template: &str, row: &Row, show: impl Fn(&Value, bool) -> String) -> String {
    let show = |piece: Piece<'_>| match piece {
        Piece::Text(text) => text.to_owned(),
        Piece::Field(name, is_text) => row.get(name).map(|v| show(v, is_text)).unwrap_or_default(),
    };
    pieces(template, row).map(show).collect()
}

impl Protocol for Raw {
    fn name(&self) -> &str {
        "raw"
    }

    fn version(&self) -> HttpVersion {
        self.version
    }

    fn sample_count(&self) -> usize {
        self.rows.len()
    }

    fn request(&self, sample: SampleIndex) -> Request {
        let Template { method, path, fields, body, .. } = &self.template;
        let row = &self.rows[sample as usize];
        // A line break would end the field and start another one.
        let line = |value: &Value, _| text(value).replace(['\r', '\n'], " ");
        Request {
            method: *method,
            path: filled(path, row, |value, _| crate::oip::http::escaped(&text(value))),
            fields: fields.iter().map(|(name, value)| (*name, filled(value, row, line))).collect(),
            body: filled(
                body,
                row,
                |value, is_text| {
                    if is_text { text(value) } else { value.to_string() }
                },
            )
            .into(),
        }
    }

    fn is_streaming(&self) -> bool {
        false
    }

    fn reader(&self) -> Box<dyn Reader> {
        let pointer = self.template.pointer.clone();
        let accepted = self.template.accepted;
        Box::new(WholeReader { pointer, accepted, status: 0, body: Vec::new(), entry: None })
    }
}

/// Reader of whole answers.
struct WholeReader {
    pointer: Option<String>,
    accepted: AcceptedClasses,
    status: u16,
    body: Vec<u8>,
    /// Account of the selected value.
    entry: Option<Entry>,
}

impl WholeReader {
    /// Selects the value at the pointer. Null and an empty string are not output.
    fn point(&mut self, pointer: &str) -> Result<(), Trouble> {
        let malformed = |words: String| Trouble::new(Kind::Malformed, words);
        let json: Value = serde_json::from_slice(&self.body).map_err(|error| {
            let kind = Kind::of_invalid_json(&self.body, &error);
            Trouble::new(kind, format!("the answer is not JSON: {error}"))
        })?;
        let found = json.pointer(pointer);
        let found = found.ok_or_else(|| {
            let said = in_short(&String::from_utf8_lossy(&self.body));
            malformed(format!("the answer has no {pointer}: {said}"))
        })?;
        let text = if found.is_null() { String::new() } else { text(found) };
        let class = if text.is_empty() { Class::Empty } else { Class::Whole };
        self.body = text.into_bytes();
        let bytes = u32::try_from(self.body.len()).unwrap_or(u32::MAX);
        self.entry = Some(Entry { class, bytes, ..Entry::default() });
        settle(class, self.accepted, || format!("{pointer} of the answer is empty"))
    }
}

impl Reader for WholeReader {
    fn begin(&mut self, status: u16, _fields: &dyn Fields) -> Result<(), Trouble> {
        self.status = status;
        self.body.clear();
        self.entry = None;
        Ok(())
    }

    fn data(&mut self, bytes: &[u8]) -> Result<ReadProgress, Trouble> {
        if self.body.len() + bytes.len() > LONGEST_ANSWER {
            let words = format!("an answer of more than {LONGEST_ANSWER} bytes");
            return Err(Trouble::new(Kind::Malformed, words));
        }
        self.body.extend_from_slice(bytes);
        Ok(ReadProgress::default())
    }

    fn held(&self) -> usize {
        self.body.len()
    }

    fn free(&mut self) {
        self.body = Vec::new();
    }

    fn effort(&self, next: ReaderCall) -> usize {
        match next {
            ReaderCall::Data(bytes) => bytes / COPIED_PER_PARSED,
            ReaderCall::End if self.pointer.is_some() => self.body.len(),
            ReaderCall::End => 0,
        }
    }

    fn end(&mut self, _trailers: Option<&dyn Fields>) -> Result<Answer<'_>, Trouble> {
        if let Some(kind) = Kind::of_status(self.status) {
            return Err(Trouble::of_status(kind, self.status, &error_words(&self.body)));
        }
        if let Some(pointer) = self.pointer.take() {
            let pointed = self.point(&pointer);
            self.pointer = Some(pointer);
            pointed?;
        }
        let entry = self.entry;
        Ok(Answer { entry, ..Answer::without_tokens(&self.body) })
    }

    fn entry(&self) -> Option<Entry> {
        self.entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Format;

    fn raw(path: &str, body: &str, rows: &str) -> Result<Raw, TemplateError> {
        let template = Template {
            method: Method::Post,
            path: path.into(),
            fields: vec![("x-name", "{name}".into())],
            body: body.into(),
            pointer: Some("/out/0".into()),
            accepted: AcceptedClasses::default(),
        };
        let rows = Format::JsonLines.rows(rows).unwrap().collect::<Result<_, _>>().unwrap();
        Raw::new(template, rows, HttpVersion::Http1)
    }

    fn answer(status: u16, body: &str) -> Result<String, Trouble> {
        let raw = raw("/", "", "{\"name\": \"a\"}").unwrap();
        let mut reader = raw.reader();
        let none = http::HeaderMap::new();
        reader.begin(status, &none).unwrap();
        for byte in body.as_bytes() {
            assert_eq!(reader.data(&[*byte]), Ok(ReadProgress::default()));
        }
        reader.end(None).map(|answer| String::from_utf8(answer.data.to_vec()).unwrap())
    }

    #[test]
    fn names_that_no_sample_has_are_known() {
        let rows = "{\"prompt\": \"a\", \"name\": \"b\"}";
        let some = raw("/a?q={prompt}", "{\"x\":{promt}, \"y\":{}, \"z\": { a }}", rows).unwrap();
        assert_eq!((some.uses_samples(), some.unknown_names()), (true, vec!["promt"]));
        let none = raw("/health", "", "{\"prompt\": \"a\"}").unwrap();
        assert_eq!((none.uses_samples(), none.unknown_names()), (false, vec!["name"]));
    }

    #[test]
    fn fields_of_a_sample_stand_where_the_template_names_them() {
        let body = r#"{"say": {name}, "n": {n}, "text": "<{name:text}>é{", "o": {other}, {n}é{n}}"#;
        let rows = "{\"name\": \"a \\\"b\\\"\\n/\", \"n\": [1, 2]}";
        let request = raw("/of/{name}?n={n}", body, rows).unwrap().request(0);
        assert_eq!(request.path, "/of/a%20%22b%22%0A%2F?n=%5B1%2C2%5D");
        let said = String::from_utf8(request.body.to_vec()).unwrap();
        let expected = "{\"say\": \"a \\\"b\\\"\\n/\", \"n\": [1,2], \"text\": \"<a \"b\"\n/>é{\", \"o\": {other}, \
             [1,2]é[1,2]}";
        assert_eq!(said, expected);
        assert_eq!(request.fields, [("x-name", "a \"b\" /".to_owned())]);
    }

    #[test]
    fn an_answer_has_an_end() {
        let raw = raw("/", "", "{\"name\": \"a\"}").unwrap();
        let (mut reader, piece) = (raw.reader(), vec![b' '; 1 << 20]);
        reader.begin(200, &http::HeaderMap::new()).unwrap();
        for _ in 0..64 {
            reader.data(&piece).unwrap();
        }
        let error = reader.data(b" ").unwrap_err();
        assert_eq!(error.words, "an answer of more than 67108864 bytes");
    }

    #[test]
    fn a_sample_without_a_field_is_told() {
        let error = raw("/", "{a}", "{\"name\": 1, \"a\": 1}\n{\"name\": 1}").unwrap_err();
        assert_eq!(error.to_string(), "row 2 has no `a`, which the template needs");
        assert_eq!(raw("/", "", "").unwrap_err(), TemplateError::NoSamples);
    }

    #[test]
    fn a_pointer_takes_the_answer_out_of_json() {
        assert_eq!(answer(200, "{\"out\": [\"x\"]}").unwrap(), "x");
        assert_eq!(answer(201, "{\"out\": [{\"y\": 1}]}").unwrap(), "{\"y\":1}");
        assert_eq!(answer(200, "{\"out\": []}").unwrap_err().kind, Kind::Malformed);
        assert_eq!(answer(200, "{\"out\": [\"\"]}").unwrap_err().kind, Kind::Empty);
        assert_eq!(answer(200, "{\"out\": [null]}").unwrap_err().kind, Kind::Empty);
        assert_eq!(answer(200, "no").unwrap_err().kind, Kind::Malformed);
        assert_eq!(answer(200, "").unwrap_err().kind, Kind::Malformed);
        assert_eq!(answer(200, "{\"out\": [\"x").unwrap_err().kind, Kind::Cut);
        let refused = answer(503, "full\nhouse").unwrap_err();
        assert_eq!((refused.kind, &*refused.words), (Kind::Refused, "HTTP status 503: full"));
        for body in ["{\n  \"error\": \"no model\"\n}", "<html>\n<title>no model</title>"] {
            assert_eq!(answer(500, body).unwrap_err().words, "HTTP status 500: no model");
        }
    }
}
