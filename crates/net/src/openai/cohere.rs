//! Cohere's interface for chats, version 2: whole answers, and streams of typed events. Requests are those of
//! chats.
//!
//! Source: Cohere's API reference, version 2 ("Chat", "Chat with Streaming").

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::answer::{AnswerSink as _, in_band, shown, states_error};
use super::builder::AnswerBuilder;
use super::content::Content;
use super::repair::parsed;
use super::responses::say;
use super::usage::Claim;
use crate::trouble::{Kind, Trouble};

/// A typed event.
#[derive(Deserialize)]
struct EventWire<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<Cow<'a, str>>,
    delta: Option<&'a RawValue>,
}

/// A whole answer, or what an event adds to it.
#[derive(Deserialize)]
struct AnswerWire<'a> {
    #[serde(borrow)]
    message: Option<MessageWire<'a>>,
    finish_reason: Option<Cow<'a, str>>,
    usage: Option<UsageWire<'a>>,
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct MessageWire<'a> {
    #[serde(borrow)]
    content: Option<Content<'a>>,
    /// What the model writes before it calls tools.
    tool_plan: Option<Content<'a>>,
    /// A call, or a list of calls.
    tool_calls: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    function: Option<Function<'a>>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    arguments: Option<Cow<'a, str>>,
}

/// Counts of tokens: all, and those that are charged.
#[derive(Deserialize)]
struct UsageWire<'a> {
    #[serde(borrow)]
    tokens: Option<&'a RawValue>,
    billed_units: Option<&'a RawValue>,
}

fn no_answer(json: &[u8]) -> Trouble {
    let found = shown(json);
    Trouble::new(Kind::Malformed, format!("expected an answer of Cohere, found: {found}"))
}

/// Reads an event. `name` is its type where its data have none.
///
/// # Errors
/// Not an event of the interface, or the server's message if it reports an error.
pub(super) fn event(json: &[u8], name: &[u8], take: &mut AnswerBuilder) -> Result<(), Trouble> {
    let mut repair = Vec::new();
    let wire: EventWire<'_> = parsed(json, &mut repair).ok_or_else(|| no_answer(json))?;
    let kind = wire.kind.unwrap_or_else(|| String::from_utf8_lossy(name));
    match wire.delta {
        Some(delta) => {
            read(delta.get().as_bytes(), take)?;
        }
        // An error has a message, and no type but that of errors.
        None if kind.is_empty() || kind == "error" => return Err(in_band(json)),
        None => {}
    }
    take.is_done |= kind == "message-end";
    Ok(())
}

/// Reads a whole answer.
///
/// # Errors
/// Not an answer of the interface, or the server's message if it reports an error.
pub(super) fn whole(json: &[u8], take: &mut AnswerBuilder) -> Result<bool, Trouble> {
    if read(json, take)? { Ok(true) } else { Err(no_answer(json)) }
}

/// Reads a whole answer, or an addition to it. Returns whether it has a message.
fn read(json: &[u8], take: &mut AnswerBuilder) -> Result<bool, Trouble> {
    let mut repair = Vec::new();
    let wire: AnswerWire<'_> = parsed(json, &mut repair).ok_or_else(|| no_answer(json))?;
    if states_error(wire.error, wire.message.is_some(), take) {
        return Err(in_band(json));
    }
    take.choice(0);
    let has_message = wire.message.is_some();
    if let Some(message) = wire.message {
        say(message.tool_plan, false, take);
        say(message.content, false, take);
        message.tool_calls.iter().for_each(|calls| call(calls.get(), take));
    }
    let counts = wire.usage.and_then(|usage| usage.tokens.or(usage.billed_units));
    let claim = counts
        .and_then(|counts| Claim::read_named(counts.get(), &["input_tokens"], "", "output_tokens"));
    if let Some(claim) = claim {
        take.usage(claim);
    }
    if let Some(reason) = wire.finish_reason {
        take.finish(&reason);
    }
    Ok(has_message)
}

/// Takes a call of a tool, or a list of calls. Streams begin a call with its name.
fn call(json: &str, take: &mut AnswerBuilder) {
    let all = serde_json::from_str::<Vec<Call<'_>>>(json);
    let all = all.or_else(|_| serde_json::from_str::<Call<'_>>(json).map(|one| vec![one]));
    for function in all.into_iter().flatten().filter_map(|call| call.function) {
        if let Some(name) = function.name.filter(|name| !name.is_empty()) {
            take.tool_call();
            take.output(&name, false);
        }
        take.output(&function.arguments.unwrap_or_default(), false);
    }
}
