//! Ollama's own interface for chats: its messages, whole answers, and streams of JSON lines.
//!
//! Source: Ollama's API reference ("Generate a chat message", "Streaming", "Tool calling").

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::Message;
use super::answer::{AnswerSink as _, MessageText, in_band, read_message, shown, states_error};
use super::builder::AnswerBuilder;
use super::message::inline_image;
use super::repair::parsed;
use super::usage::Claim;
use crate::trouble::{Kind, Trouble};

/// A line of a stream, or a whole answer.
#[derive(Deserialize)]
struct Wire<'a> {
    /// An addition to the message, or the whole message.
    #[serde(borrow)]
    message: Option<MessageText<'a>>,
    model: Option<&'a RawValue>,
    done: Option<bool>,
    done_reason: Option<Cow<'a, str>>,
    error: Option<&'a RawValue>,
}

/// Reads a line or a whole answer. The last line counts the tokens.
///
/// # Errors
/// Not an answer of the interface, or the server's message if it reports an error.
pub(super) fn read(json: &[u8], take: &mut AnswerBuilder) -> Result<bool, Trouble> {
    let no_answer = || {
        let found = shown(json);
        Trouble::new(Kind::Malformed, format!("expected an answer of Ollama, found: {found}"))
    };
    let mut repair = Vec::new();
    let wire: Wire<'_> = parsed(json, &mut repair).ok_or_else(no_answer)?;
    if states_error(wire.error, wire.message.is_some(), take) {
        return Err(in_band(json));
    }
    let is_last = wire.done == Some(true);
    if wire.message.is_none() && !is_last {
        return Err(no_answer());
    }
    take.choice(0);
    wire.model.iter().for_each(|model| take.model(model.get()));
    if let Some(message) = wire.message {
        read_message(message, true, take);
    }
    if is_last {
        let counts = String::from_utf8_lossy(json);
        let claim = Claim::read_named(&counts, &["prompt_eval_count"], "", "eval_count");
        // Some answers have no counts, such as those of a model that is only loaded.
        let is_counted = |claim: &Claim| claim.input.is_some() || claim.output.is_some();
        if let Some(claim) = claim.filter(is_counted) {
            take.usage(claim);
        }
        if let Some(reason) = wire.done_reason {
            take.finish(&reason);
        }
        take.is_done = true;
    }
    Ok(true)
}

/// Returns a message of a chat as this interface has it: images beside the text, and arguments of calls as
/// JSON.
pub(super) fn message(message: &Message) -> Value {
    let mut members = Map::new();
    members.insert("role".into(), json!(message.role));
    members.insert("content".into(), json!(message.text()));
    let parts = message.content.as_array().into_iter().flatten();
    let images: Vec<&str> = parts.filter_map(|part| Some(inline_image(part)?.1)).collect();
    if !images.is_empty() {
        members.insert("images".into(), json!(images));
    }
    for (name, value) in &message.others {
        let value: Value = match (name.as_str(), value) {
            ("tool_calls", Value::Array(calls)) => calls.iter().map(call).collect(),
            _ => value.clone(),
        };
        members.insert(name.clone(), value);
    }
    Value::Object(members)
}

/// Returns whether this interface has a form for all parts of a message: texts, and images that are sent as
/// data.
pub(crate) fn takes(message: &Message) -> bool {
    let mut parts = message.content.as_array().into_iter().flatten();
    parts.all(|part| part["type"] == "text" || inline_image(part).is_some())
}

/// Returns a call of a tool whose arguments are JSON instead of a text that contains it.
fn call(call: &Value) -> Value {
    let mut call = call.clone();
    let arguments = call.pointer_mut("/function/arguments");
    if let Some(arguments) = arguments
        && let Some(json) =
            arguments.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok())
    {
        *arguments = json;
    }
    call
}
