//! Form of an answer, by its content type and its first bytes.

use serde::Deserialize;

use super::builder::Form;

/// Content types of JSON lines.
const LINES: [&str; 4] =
    ["application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"];

/// Byte order mark of UTF-8.
pub(super) const MARK: &[u8] = b"\xef\xbb\xbf";

/// First bytes of content in gzip (RFC 1952), with which no text begins.
pub(super) const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Returns whether a content type is that of an event stream.
pub(super) fn has_events(kind: &[u8]) -> bool {
    is_kind(kind, "text/event-stream")
}

/// Returns whether a content type is that of JSON lines.
pub(super) fn has_lines(kind: &[u8]) -> bool {
    LINES.iter().any(|name| is_kind(kind, name))
}

/// Returns whether a content type has this name, perhaps with parameters behind it.
fn is_kind(kind: &[u8], name: &str) -> bool {
    kind.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name.as_bytes()))
}

/// Returns the form of an answer that begins with these bytes; `None` if more are needed. What claims
/// to be a stream is one unless it begins as JSON does. Anything else is one if it begins with a
/// field or a comment, perhaps behind a byte order mark and line ends.
pub(super) fn form_of(begin: &[u8], claims_stream: bool) -> Option<Form> {
    const FIELDS: [&[u8]; 6] = [b"data:", b"error:", b"event:", b"id:", b"retry:", b":"];
    if begin.len() < MARK.len() && MARK.starts_with(begin) || *begin == GZIP[..1] {
        return None;
    }
    if begin.starts_with(&GZIP) {
        return Some(Form::Whole);
    }
    let begin = begin.strip_prefix(MARK).unwrap_or(begin).trim_ascii_start();
    if claims_stream {
        return begin.first().map(|&b| if b == b'{' { Form::Whole } else { Form::Stream });
    }
    if FIELDS.iter().any(|field| begin.starts_with(field)) {
        Some(Form::Stream)
    } else if FIELDS.iter().any(|field| field.starts_with(begin)) {
        None
    } else {
        Some(Form::Whole)
    }
}

/// Returns the form of an answer of Ollama whose content type is not that of lines: a stream if its first line
/// is not its last part; `None` if that line has not ended.
pub(super) fn form_of_lines(begin: &[u8]) -> Option<Form> {
    #[derive(Deserialize)]
    struct Line {
        done: Option<bool>,
    }
    let end = memchr::memchr(b'\n', begin)?;
    let line = serde_json::from_slice::<Line>(&begin[..end]);
    let is_part = line.is_ok_and(|line| line.done == Some(false));
    Some(if is_part { Form::Stream } else { Form::Whole })
}
