//! Anthropic's Messages interface: its bodies, whole answers, and streams of typed events.
//!
//! Source: Anthropic's API reference ("Create a Message", "Streaming Messages"), and the
//! implementations in vLLM and llama.cpp.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::Message;
use super::answer::{AnswerSink as _, in_band, shown, states_error};
use super::builder::AnswerBuilder;
use super::message::inline_image;
use super::repair::parsed;
use super::usage::Claim;
use crate::trouble::{Kind, Trouble};

/// An event.
#[derive(Deserialize)]
struct EventWire<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<Cow<'a, str>>,
    message: Option<AnswerWire<'a>>,
    content_block: Option<Block<'a>>,
    delta: Option<Delta<'a>>,
    usage: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

/// A whole answer, or the empty one at the begin of a stream.
#[derive(Deserialize)]
struct AnswerWire<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<Cow<'a, str>>,
    content: Option<Vec<Block<'a>>>,
    model: Option<&'a RawValue>,
    stop_reason: Option<Cow<'a, str>>,
    usage: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

/// A text, a thought or a call of a tool. Streams begin a block with what it has so far.
#[derive(Deserialize)]
struct Block<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<Cow<'a, str>>,
    text: Option<Cow<'a, str>>,
    thinking: Option<Cow<'a, str>>,
    signature: Option<Cow<'a, str>>,
    name: Option<Cow<'a, str>>,
    input: Option<&'a RawValue>,
}

/// An addition to a block, or to the message.
#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    thinking: Option<Cow<'a, str>>,
    signature: Option<Cow<'a, str>>,
    partial_json: Option<Cow<'a, str>>,
    stop_reason: Option<Cow<'a, str>>,
}

fn no_answer(json: &[u8]) -> Trouble {
    let found = shown(json);
    let words = format!("expected an answer of the Messages interface, found: {found}");
    Trouble::new(Kind::Malformed, words)
}

/// Returns the counts of a usage. Its input tokens are those beside the cache.
fn claim(usage: &RawValue) -> Option<Claim> {
    const CACHED: &str = "cache_read_input_tokens";
    let inputs = ["input_tokens", CACHED, "cache_creation_input_tokens"];
    Claim::read_named(usage.get(), &inputs, CACHED, "output_tokens")
}

/// Returns the input tokens of a usage beside those of the cache.
fn beside_cache(usage: &RawValue) -> Option<u32> {
    Claim::read_named(usage.get(), &["input_tokens"], "", "output_tokens")?.input
}

/// Reads an event. `name` is its type where its data have none.
///
/// # Errors
/// Not an event of the interface, or the server's message if it reports an error.
pub(super) fn event(json: &[u8], name: &[u8], take: &mut AnswerBuilder) -> Result<(), Trouble> {
    let mut repair = Vec::new();
    let wire: EventWire<'_> = parsed(json, &mut repair).ok_or_else(|| no_answer(json))?;
    let kind = wire.kind.unwrap_or_else(|| String::from_utf8_lossy(name));
    match &*kind {
        "message_start" => {
            take.choice(0);
            let model = wire.message.as_ref().and_then(|message| message.model);
            model.iter().for_each(|model| take.model(model.get()));
            let usage = wire.message.and_then(|message| message.usage);
            take.beside_cache = usage.and_then(beside_cache);
            if let Some(begin) = usage.and_then(claim) {
                // Its output tokens are those of the begin, not of the answer.
                take.usage(Claim { output: None, ..begin });
            }
        }
        "content_block_start" => {
            if let Some(begun) = wire.content_block {
                take.choice(0);
                block(Block { input: None, ..begun }, take);
            }
        }
        "content_block_delta" => {
            let Some(delta) = wire.delta else { return Ok(()) };
            take.choice(0);
            say(delta.thinking, true, take);
            signature(delta.signature.as_deref(), take);
            say(delta.text, false, take);
            say(delta.partial_json, false, take);
        }
        "message_delta" => {
            take.choice(0);
            if let Some(end) = wire.usage.and_then(claim) {
                // Some servers state the input again without that from the cache. Others state an estimate
                // at the begin.
                let input = end.input.filter(|_| end.input != take.beside_cache);
                take.usage(Claim { input, ..end });
            }
            if let Some(reason) = wire.delta.and_then(|delta| delta.stop_reason) {
                take.finish(&reason);
            }
        }
        "message_stop" => take.is_done = true,
        "error" => return Err(in_band(json)),
        // Some gateways report errors without a type.
        "" if states_error(wire.error, false, take) => return Err(in_band(json)),
        // A ping, the end of a block, or an event of a later version.
        _ => {}
    }
    Ok(())
}

/// Reads a whole answer.
///
/// # Errors
/// Not an answer of the interface, or the server's message if it reports an error.
pub(super) fn whole(json: &[u8], take: &mut AnswerBuilder) -> Result<bool, Trouble> {
    let mut repair = Vec::new();
    let wire: AnswerWire<'_> = parsed(json, &mut repair).ok_or_else(|| no_answer(json))?;
    let is_error = wire.kind.as_deref() == Some("error");
    if is_error || states_error(wire.error, wire.content.is_some(), take) {
        return Err(in_band(json));
    }
    let Some(blocks) = wire.content else { return Err(no_answer(json)) };
    take.choice(0);
    wire.model.iter().for_each(|model| take.model(model.get()));
    blocks.into_iter().for_each(|one| block(one, take));
    if let Some(claim) = wire.usage.and_then(claim) {
        take.usage(claim);
    }
    if let Some(reason) = wire.stop_reason {
        take.finish(&reason);
    }
    Ok(true)
}

fn block(block: Block<'_>, take: &mut AnswerBuilder) {
    if block.kind.as_deref().is_some_and(|kind| kind.ends_with("tool_use")) {
        take.tool_call();
    }
    take.has_hidden_thought |= block.kind.as_deref() == Some("redacted_thinking");
    take.shown_before = take.thought_bytes();
    say(block.thinking, true, take);
    signature(block.signature.as_deref(), take);
    say(block.text, false, take);
    say(block.name, false, take);
    say(block.input.map(|input| input.get().into()), false, take);
}

/// Takes the signature of the thought of a block. One of a block without text shows a thought that is not
/// sent.
fn signature(signature: Option<&str>, take: &mut AnswerBuilder) {
    let is_signed = signature.is_some_and(|signature| !signature.is_empty());
    take.has_hidden_thought |= is_signed && take.thought_bytes() == take.shown_before;
}

fn say(text: Option<Cow<'_, str>>, is_thought: bool, take: &mut AnswerBuilder) {
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        take.output(&text, is_thought);
    }
}

/// Adds the messages of a conversation to a body, in which those of the system have a member of their
/// own.
pub(super) fn add_messages(messages: &[Message], body: &mut Map<String, Value>) {
    let is_system = |message: &&Message| matches!(&*message.role, "system" | "developer");
    let system: Vec<_> = messages.iter().filter(is_system).map(|one| one.text()).collect();
    if !system.is_empty() {
        body.insert("system".into(), json!(system.join("\n\n")));
    }
    let others = messages.iter().filter(|message| !is_system(message));
    body.insert("messages".into(), others.map(message).collect());
}

/// Returns a message of a chat as this interface names it.
fn message(message: &Message) -> Value {
    if message.role == "tool" {
        let call = message.others.get("tool_call_id").cloned().unwrap_or_default();
        let result = json!({"type": "tool_result", "tool_use_id": call, "content": message.text()});
        return json!({"role": "user", "content": [result]});
    }
    let calls = message.others.get("tool_calls").and_then(Value::as_array);
    let content = match (&message.content, calls) {
        (Value::Array(parts), _) => parts.iter().map(part).collect(),
        (Value::String(text), Some(_)) if !text.is_empty() => {
            vec![json!({"type": "text", "text": text})]
        }
        (_, Some(_)) => Vec::new(),
        (content, None) => return json!({"role": message.role, "content": content}),
    };
    let uses = calls.into_iter().flatten().map(|call| {
        let function = &call["function"];
        let arguments = function["arguments"].as_str().unwrap_or_default();
        let input: Value = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
        json!({"type": "tool_use", "id": call["id"], "name": function["name"], "input": input})
    });
    json!({"role": message.role, "content": content.into_iter().chain(uses).collect::<Vec<_>>()})
}

/// Returns a part of a chat message as this interface names it.
fn part(part: &Value) -> Value {
    if part["type"] != "image_url" {
        return part.clone();
    }
    let source = match inline_image(part) {
        Some((kind, data)) => json!({"type": "base64", "media_type": kind, "data": data}),
        None => {
            let url = part["image_url"].get("url").unwrap_or(&part["image_url"]);
            json!({"type": "url", "url": url})
        }
    };
    json!({"type": "image", "source": source})
}
