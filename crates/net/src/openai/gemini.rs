//! Gemini's own interface: its bodies, whole answers of `:generateContent`, and streams of
//! `:streamGenerateContent?alt=sse`.
//!
//! Source: the reference of the Gemini API ("Generating content": `GenerateContentResponse`, `Candidate`,
//! `PromptFeedback`, `UsageMetadata`; "Caching": `Content`, `Part`).

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::answer::{AnswerSink as _, in_band, shown, states_error};
use super::builder::AnswerBuilder;
use super::message::inline_image;
use super::repair::parsed;
use super::usage::Claim;
use super::{Api, Message};
use crate::percent::PercentEncoding;
use crate::trouble::{Kind, Trouble};

/// A part of a stream, or a whole answer.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire<'a> {
    #[serde(borrow)]
    candidates: Option<Vec<Candidate<'a>>>,
    prompt_feedback: Option<PromptFeedback<'a>>,
    usage_metadata: Option<&'a RawValue>,
    model_version: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

/// A choice, or the addition to one.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    index: Option<usize>,
    #[serde(borrow)]
    content: Option<ContentWire<'a>>,
    finish_reason: Option<Cow<'a, str>>,
    finish_message: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct ContentWire<'a> {
    #[serde(borrow)]
    parts: Option<Vec<Part<'a>>>,
}

/// A text, a thought, a call of a tool, an image or a recording, or code that the server runs.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    /// The text is a summary of a thought.
    thought: Option<bool>,
    thought_signature: Option<&'a RawValue>,
    function_call: Option<Call<'a>>,
    inline_data: Option<Blob<'a>>,
    executable_code: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    args: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Blob<'a> {
    #[serde(borrow)]
    data: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptFeedback<'a> {
    #[serde(borrow)]
    block_reason: Option<Cow<'a, str>>,
    block_reason_message: Option<Cow<'a, str>>,
}

fn no_answer(json: &[u8]) -> Trouble {
    let found = shown(json);
    Trouble::new(Kind::Malformed, format!("expected an answer of Gemini, found: {found}"))
}

/// Returns the counts of `usageMetadata`. Its output tokens are those beside the thoughts, and its input
/// tokens those beside the results of the server's tools.
fn claim(usage: &RawValue) -> Option<Claim> {
    const INPUTS: [&str; 2] = ["promptTokenCount", "toolUsePromptTokenCount"];
    let (cached, output) = ("cachedContentTokenCount", "candidatesTokenCount");
    let shown = Claim::read_named(usage.get(), &INPUTS, cached, output)?;
    let others = Claim::read_named(usage.get(), &["thoughtsTokenCount"], "", "totalTokenCount")?;
    let output = match (shown.output, others.input) {
        (Some(shown), Some(thoughts)) => Some(shown.saturating_add(thoughts)),
        (shown, thoughts) => shown.or(thoughts),
    };
    Some(Claim { output, reasoning: others.input, total: others.output, ..shown })
}

/// Reads a whole answer.
///
/// # Errors
/// Not an answer of the interface, or the server's message if it reports an error.
pub(super) fn whole(json: &[u8], take: &mut AnswerBuilder) -> Result<bool, Trouble> {
    if read(json, take)? { Ok(true) } else { Err(no_answer(json)) }
}

/// Reads a part or a whole answer, and returns whether it is one. A stream without `alt=sse` is a list of parts.
///
/// # Errors
/// Not an answer of the interface, or the server's message if it reports an error.
pub(super) fn read(json: &[u8], take: &mut AnswerBuilder) -> Result<bool, Trouble> {
    let all = json.trim_ascii_start().starts_with(b"[").then(|| serde_json::from_slice(json));
    let Some(Ok(all)) = all else { return part(json, take) };
    let all: Vec<&RawValue> = all;
    let mut is_answer = false;
    for one in all {
        is_answer |= part(one.get().as_bytes(), take)?;
    }
    Ok(is_answer)
}

fn part(json: &[u8], take: &mut AnswerBuilder) -> Result<bool, Trouble> {
    let mut repair = Vec::new();
    let wire: Wire<'_> = parsed(json, &mut repair).ok_or_else(|| no_answer(json))?;
    let is_answer = wire.candidates.is_some() || wire.prompt_feedback.is_some();
    if states_error(wire.error, is_answer, take) {
        return Err(in_band(json));
    }
    wire.model_version.iter().for_each(|model| take.model(model.get()));
    for (position, candidate) in wire.candidates.into_iter().flatten().enumerate() {
        take.choice(candidate.index.unwrap_or(position));
        let parts = candidate.content.and_then(|content| content.parts);
        parts.into_iter().flatten().for_each(|part| add(part, take));
        take.explain(&candidate.finish_message.unwrap_or_default());
        take.finish(&candidate.finish_reason.unwrap_or_default());
    }
    let feedback = wire.prompt_feedback;
    if let Some((reason, words)) =
        feedback.and_then(|of| Some((of.block_reason?, of.block_reason_message)))
    {
        take.choice(0);
        take.explain(&words.unwrap_or_default());
        take.finish(&format!("blocked prompt: {reason}"));
    }
    let counts = wire.usage_metadata.and_then(claim);
    counts.iter().for_each(|counts| take.usage(*counts));
    Ok(is_answer || counts.is_some())
}

fn add(part: Part<'_>, take: &mut AnswerBuilder) {
    let is_thought = part.thought == Some(true);
    take.has_summary |= is_thought;
    take.has_hidden_thought |= part.thought_signature.is_some_and(|json| json.get() != "null");
    take.output(&part.text.unwrap_or_default(), is_thought);
    if let Some(call) = part.function_call {
        take.tool_call();
        take.output(&call.name.unwrap_or_default(), false);
        take.output(call.args.map_or("", RawValue::get), false);
    }
    if let Some(data) = part.inline_data.and_then(|blob| blob.data) {
        take.media(data.len());
    }
    take.output(part.executable_code.map_or("", RawValue::get), false);
}

/// Takes the model of a body, or else that of all requests, and returns its path below that of the version. A name
/// with slashes is the whole path.
pub(super) fn path(body: &mut Map<String, Value>, model: &str, is_stream: bool) -> String {
    let own = body.shift_remove("model");
    let model = own.as_ref().and_then(Value::as_str).unwrap_or(model);
    let encoded = |segment: &str| PercentEncoding(segment.as_bytes()).to_string();
    let name = model.split('/').map(encoded).collect::<Vec<_>>().join("/");
    let collection = if name.contains('/') { "" } else { "models/" };
    let method = if is_stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
    format!("/{collection}{name}:{method}")
}

/// Splits the URL of a model, without its query, into that of the version and the name of the model, which begins with
/// its collection unless that is `models`. `None` if the URL names no model.
pub fn split_url(url: &str) -> Option<(&str, &str)> {
    let methods = [Api::Gemini.path(), Api::Gemini.whole_path()];
    let split = if let Some(url) = methods.iter().find_map(|method| url.strip_suffix(method)) {
        let (collection, name) = url.rsplit_once('/')?;
        if let Some(base) = collection.strip_suffix("/models") {
            (base, name)
        } else {
            // Tuned models and endpoints are in collections of their own.
            let (base, _) = collection.rsplit_once('/')?;
            (base, &url[base.len() + 1..])
        }
    } else {
        let (base, model) = url.split_once("/models/")?;
        (base, model.split(':').next()?)
    };
    Some(split).filter(|(base, _)| base.contains("://"))
}

/// Adds the messages of a conversation to a body, in which those of the system have a member of their
/// own.
pub(super) fn add_messages(messages: &[Message], body: &mut Map<String, Value>) {
    let is_system = |message: &&Message| matches!(&*message.role, "system" | "developer");
    let system: Vec<_> = messages.iter().filter(is_system).map(|one| one.text()).collect();
    if !system.is_empty() {
        let parts = json!([{"text": system.join("\n\n")}]);
        body.insert("systemInstruction".into(), json!({"parts": parts}));
    }
    let others: Vec<_> = messages.iter().filter(|message| !is_system(message)).collect();
    // The results of all calls of one message are one message.
    let turns = others.chunk_by(|one, next| one.role == "tool" && next.role == "tool");
    body.insert("contents".into(), turns.map(|turn| content(turn, messages)).collect());
}

/// Returns a message of a chat, or several results of tools, as this interface has them.
fn content(turn: &[&Message], all: &[Message]) -> Value {
    let is_model = turn.iter().any(|message| message.role == "assistant");
    let parts: Vec<Value> = turn.iter().flat_map(|message| parts(message, all)).collect();
    json!({"role": if is_model { "model" } else { "user" }, "parts": parts})
}

/// Returns the parts of a message. The results of tools have their names, which the calls before them state.
fn parts(message: &Message, all: &[Message]) -> Vec<Value> {
    if message.role == "tool" {
        let id = message.others.get("tool_call_id");
        let named = message.others.get("name").cloned();
        let name = named.or_else(|| {
            let called = calls(all).find(|call| Some(&call["id"]) == id)?;
            Some(called["function"]["name"].clone())
        });
        let response = json!({"result": message.text()});
        let result = json!({"name": name.unwrap_or_default(), "response": response});
        return vec![json!({"functionResponse": result})];
    }
    let mut parts: Vec<Value> = match &message.content {
        Value::Array(parts) => parts.iter().map(part_of_request).collect(),
        Value::String(text) if !text.is_empty() => vec![json!({"text": text})],
        _ => Vec::new(),
    };
    parts.extend(calls(std::slice::from_ref(message)).map(|call| {
        let function = &call["function"];
        let arguments = function["arguments"].as_str().unwrap_or_default();
        let args: Value = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
        json!({"functionCall": {"name": function["name"], "args": args}})
    }));
    parts
}

/// Iterates over the calls of tools in messages.
fn calls(messages: &[Message]) -> impl Iterator<Item = &Value> {
    let calls = messages.iter().filter_map(|one| one.others.get("tool_calls")?.as_array());
    calls.flatten()
}

/// Returns a part of a chat message as this interface names it.
fn part_of_request(part: &Value) -> Value {
    match inline_image(part) {
        Some((kind, data)) => json!({"inlineData": {"mimeType": kind, "data": data}}),
        None => json!({"text": part["text"]}),
    }
}
