//! Transcription of recordings: forms with a file, and answers as text, JSON or a stream of events.
//!
//! Source: the API reference of OpenAI ("Create transcription", "Transcript text delta"), and the
//! parts of chats that vLLM streams instead.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::answer::{AnswerSink as _, in_band, read_into, states_error};
use super::builder::AnswerBuilder;
use super::message::Recording;
use super::multipart::{self, FormFile};
use super::repair::parsed;
use super::usage::Claim;
use crate::trouble::{Kind, Trouble, in_short};

/// A whole answer, or an event.
#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<Cow<'a, str>>,
    text: Option<Cow<'a, str>>,
    delta: Option<Cow<'a, str>>,
    usage: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct UsageKind<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<Cow<'a, str>>,
}

/// Reads an event of a stream.
///
/// # Errors
/// Not an event of the interface, or the server's message if it reports an error.
pub(super) fn event(json: &[u8], take: &mut AnswerBuilder) -> Result<bool, Trouble> {
    // Parts of chats have choices, and a `delta` that is no text.
    let mut repair = Vec::new();
    let wire = parsed::<Wire<'_>>(json, &mut repair);
    let Some(wire) = wire else { return read_into(json, take) };
    match wire.kind.as_deref() {
        Some("transcript.text.delta") => {
            take.choice(0);
            take.output(&wire.delta.unwrap_or_default(), false);
        }
        Some("transcript.text.done") => {
            take.choice(0);
            if take.text.is_empty() {
                take.output(&wire.text.unwrap_or_default(), false);
            }
            count(wire.usage, take);
            take.finish("stop");
            take.is_done = true;
        }
        Some("error") => return Err(in_band(json)),
        // Such as segments, which repeat the text.
        Some(_) => {}
        None => return read_into(json, take),
    }
    Ok(true)
}

/// Reads a whole answer: an object with the text, or the text itself.
///
/// # Errors
/// An object without a text, or the server's message if it reports an error.
pub(super) fn whole(body: &[u8], take: &mut AnswerBuilder) -> Result<bool, Trouble> {
    let refused = || {
        let found = in_short(&String::from_utf8_lossy(body));
        Trouble::new(Kind::Malformed, format!("expected a transcription, found: {found}"))
    };
    if body.trim_ascii_start().first() != Some(&b'{') {
        // Formats such as `text` and `vtt` are no JSON.
        let text = std::str::from_utf8(body).map_err(|_| refused())?;
        take.choice(0);
        take.output(text.trim_ascii(), false);
        take.finish("stop");
        return Ok(true);
    }
    let mut repair = Vec::new();
    let wire: Wire<'_> = parsed(body, &mut repair).ok_or_else(refused)?;
    if states_error(wire.error, wire.text.is_some(), take) {
        return Err(in_band(body));
    }
    let Some(text) = wire.text else { return Err(refused()) };
    take.choice(0);
    take.output(&text, false);
    count(wire.usage, take);
    take.finish("stop");
    Ok(true)
}

/// Takes counts of tokens. Some models count seconds of audio instead.
fn count(usage: Option<&RawValue>, take: &mut AnswerBuilder) {
    let Some(usage) = usage.map(RawValue::get) else { return };
    let kind = serde_json::from_str::<UsageKind<'_>>(usage).ok().and_then(|usage| usage.kind);
    if kind.as_deref() != Some("duration")
        && let Some(claim) = Claim::read(usage)
    {
        take.usage(claim);
    }
}

/// Returns the content type and the body of a form with these members and a recording.
pub(super) fn form(members: &Map<String, Value>, recording: &Recording) -> (String, Vec<u8>) {
    let (name, media_type) = (recording.name.clone(), recording.media_type());
    let file = FormFile { field: "file", name, media_type, bytes: &recording.bytes };
    multipart::form(members, &[file])
}
