//! Answers of the Responses interface: whole ones, and streams of typed events.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::answer::{AnswerSink as _, in_band, no_answer, states_error};
use super::builder::AnswerBuilder;
use super::content::Content;
use super::repair::parsed;
use super::usage::Claim;
use crate::trouble::Trouble;

/// A typed event.
#[derive(Deserialize)]
struct EventWire<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<Cow<'a, str>>,
    delta: Option<Content<'a>>,
    /// The whole text, in the event that ends it.
    text: Option<Content<'a>>,
    /// The whole refusal, in the event that ends it.
    refusal: Option<Content<'a>>,
    /// The whole arguments or input of a call, in the event that ends them.
    #[serde(alias = "input")]
    arguments: Option<Content<'a>>,
    /// Position of the item.
    output_index: Option<&'a RawValue>,
    /// Position of the part of a message or of a thought in its item.
    content_index: Option<&'a RawValue>,
    /// Position of the part of a summary in its item.
    summary_index: Option<&'a RawValue>,
    item: Option<Item<'a>>,
    response: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

impl EventWire<'_> {
    /// Returns the text of an event that ends an item or a part, without blanks around it.
    fn whole(&self) -> Vec<u8> {
        let own = [self.text.as_ref(), self.refusal.as_ref(), self.arguments.as_ref()];
        let of_item = self.item.iter().flat_map(Item::texts);
        let mut whole = Vec::new();
        for text in own.into_iter().chain(of_item).flatten() {
            text.each_text(|text| whole.extend_from_slice(text.as_bytes()));
        }
        whole.trim_ascii().to_vec()
    }
}

/// A whole answer.
#[derive(Deserialize)]
struct ResponseWire<'a> {
    #[serde(borrow)]
    status: Option<Cow<'a, str>>,
    output: Option<Vec<Item<'a>>>,
    model: Option<&'a RawValue>,
    incomplete_details: Option<Incomplete<'a>>,
    usage: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Incomplete<'a> {
    #[serde(borrow)]
    reason: Option<Cow<'a, str>>,
}

/// A message, a thought or a call of a function.
#[derive(Deserialize)]
struct Item<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<Cow<'a, str>>,
    name: Option<Content<'a>>,
    arguments: Option<Content<'a>>,
    /// What a custom tool takes instead of arguments.
    input: Option<Content<'a>>,
    /// What an interpreter takes.
    code: Option<Content<'a>>,
    content: Option<Content<'a>>,
    summary: Option<Content<'a>>,
}

impl<'a> Item<'a> {
    fn is_call(&self) -> bool {
        matches!(self.kind.as_deref(), Some("function_call" | "custom_tool_call" | "mcp_call"))
    }

    /// Returns the output, and whether each part is a thought.
    fn output(self) -> impl Iterator<Item = (Content<'a>, bool)> {
        let is_thought = self.kind.as_deref() == Some("reasoning");
        // A summary repeats the thought where both are sent.
        let content = self.content.filter(|content| *content != Content::Nothing);
        let said = content.or(self.summary).map(|content| (content, is_thought));
        let call = [self.name, self.arguments, self.input, self.code].into_iter().flatten();
        let call = call.map(|text| (text, false));
        said.into_iter().chain(call)
    }

    /// Returns the texts that additions may have brought before.
    fn texts(&self) -> [Option<&Content<'a>>; 4] {
        let content = self.content.as_ref().filter(|content| content.has_text());
        let content = content.or(self.summary.as_ref());
        [content, self.arguments.as_ref(), self.input.as_ref(), self.code.as_ref()]
    }
}

/// Positions of items and of their parts whose content came.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Items with a part of each. Content without the position of its part belongs to [`ANY_PART`].
    parts: BTreeSet<(u32, u32)>,
    /// Content without the position of its item came: nothing with one is certain to be new.
    has_unplaced: bool,
    /// Where the text begins that came since the last begin or end of an item or a part.
    open_from: usize,
}

/// Content of an item that may be that of any of its parts.
const ANY_PART: u32 = u32::MAX;

impl Contents {
    /// Returns whether no content of this part of an item came; without a part, of the whole item.
    fn is_new(&self, item: u32, part: Option<u32>) -> bool {
        let has_come = match part {
            Some(part) => [part, ANY_PART].iter().any(|part| self.parts.contains(&(item, *part))),
            None => self.parts.range((item, 0)..=(item, ANY_PART)).next().is_some(),
        };
        !self.has_unplaced && !has_come
    }

    fn insert(&mut self, item: Option<u32>, part: Option<u32>) {
        match item {
            Some(item) => {
                self.parts.insert((item, part.unwrap_or(ANY_PART)));
            }
            None => self.has_unplaced = true,
        }
    }
}

/// Reads an event. `name` is its type where its data have none.
///
/// # Errors
/// Not an event of the interface, or the server's message if it reports an error.
pub(super) fn event(json: &[u8], name: &[u8], take: &mut AnswerBuilder) -> Result<(), Trouble> {
    let mut repair = Vec::new();
    let mut wire: EventWire<'_> = parsed(json, &mut repair).ok_or_else(|| no_answer(json))?;
    let kind = wire.kind.take().unwrap_or_else(|| String::from_utf8_lossy(name));
    let stated = position(wire.output_index);
    let part = position(wire.content_index.or(wire.summary_index)).filter(|_| wire.item.is_none());
    let before = take.output_bytes();
    let whole = if kind.ends_with(".done") { wire.whole() } else { Vec::new() };
    // vLLM and TensorRT-LLM count positions on between additions and the end that repeats them.
    let open = take.text.get(take.contents.open_from..).unwrap_or_default();
    let is_repeat = !whole.is_empty() && whole == open.trim_ascii();
    let is_new = !is_repeat
        && match stated {
            Some(item) => take.contents.is_new(item, part),
            None => before == take.bytes_before,
        };
    match &*kind {
        "response.audio.delta" | "response.output_audio.delta" => {
            take.choice(0);
            wire.delta.iter().for_each(|data| data.each_text(|data| take.media(data.len())));
        }
        "response.output_item.added" => {
            if let Some(item) = wire.item.filter(Item::is_call) {
                take.choice(0);
                take.tool_call();
                take.announces_calls = true;
                say(item.name, false, take);
            }
            take.bytes_before = take.output_bytes();
            take.contents.open_from = take.text.len();
            // The name of a call is not the content of its item.
            return Ok(());
        }
        "response.output_item.done" => match wire.item {
            Some(call) if call.is_call() => {
                // Unless calls have a begin, nothing of one without a position has come before.
                let is_unplaced = stated.is_none() && !take.announces_calls;
                end_call(call, is_new || is_unplaced && !is_repeat, take);
            }
            Some(item) if is_new && stated.is_some() => say_all(item, take),
            _ => {}
        },
        // Some servers end every answer with this event.
        "response.done" => end(wire.response, "completed", take)?,
        "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
            end(wire.response, kind.rsplit('.').next().unwrap_or_default(), take)?;
        }
        "error" => return Err(in_band(json)),
        // Some gateways report errors without a type.
        "" if states_error(wire.error, false, take) => return Err(in_band(json)),
        kind if kind.ends_with(".delta") => addition(kind, wire.delta, take),
        // Some servers send a text only when it is complete.
        kind if kind.ends_with(".done") && is_new => {
            addition(kind, wire.text.or(wire.refusal).or(wire.arguments), take);
        }
        // Further events repeat the output, or announce it.
        _ => {}
    }
    if take.output_bytes() > before || is_repeat && stated.is_some() {
        take.contents.insert(stated, part);
    }
    if !whole.is_empty() {
        take.contents.open_from = take.text.len();
    }
    Ok(())
}

/// Returns a position that an event states.
fn position(index: Option<&RawValue>) -> Option<u32> {
    index?.get().parse().ok()
}

/// Takes the text of an event of this type. Other types than those of thoughts are output.
fn addition(kind: &str, text: Option<Content<'_>>, take: &mut AnswerBuilder) {
    let is_thought = kind.starts_with("response.reasoning");
    let has_text = text.as_ref().is_some_and(Content::has_text);
    take.has_summary |= has_text && kind.starts_with("response.reasoning_summary");
    say(text, is_thought, take);
}

/// Takes the output of an item.
fn say_all(item: Item<'_>, take: &mut AnswerBuilder) {
    item.output().for_each(|(text, is_thought)| say(Some(text), is_thought, take));
}

/// Takes what has not come before of a call that is complete. Some servers send calls only when they are
/// complete, and some their arguments.
fn end_call(item: Item<'_>, is_new: bool, take: &mut AnswerBuilder) {
    if !take.announces_calls {
        take.choice(0);
        take.tool_call();
        say(item.name, false, take);
    }
    if is_new {
        [item.arguments, item.input, item.code].into_iter().for_each(|text| say(text, false, take));
    }
}

/// Takes the end of an answer, whose status is `status` if it states none.
///
/// # Errors
/// The server's message if it reports an error.
fn end(answer: Option<&RawValue>, status: &str, take: &mut AnswerBuilder) -> Result<(), Trouble> {
    response(answer.map_or("{}", RawValue::get).as_bytes(), Some(status), take)?;
    take.is_done = true;
    Ok(())
}

/// Reads a whole answer.
///
/// # Errors
/// Not an answer of the interface, or the server's message if it reports an error.
pub(super) fn whole(json: &[u8], take: &mut AnswerBuilder) -> Result<bool, Trouble> {
    response(json, None, take)
}

/// Reads a response whose status is `status` if it states none. Returns whether it is one. Its
/// output is read unless it came before.
fn response(json: &[u8], status: Option<&str>, take: &mut AnswerBuilder) -> Result<bool, Trouble> {
    let mut repair = Vec::new();
    let wire: ResponseWire<'_> = parsed(json, &mut repair).ok_or_else(|| no_answer(json))?;
    let status = wire.status.as_deref().or(status);
    if status == Some("failed") || states_error(wire.error, wire.output.is_some(), take) {
        return Err(in_band(json));
    }
    if wire.output.is_none() && status.is_none() {
        return Ok(false);
    }
    take.choice(0);
    wire.model.iter().for_each(|model| take.model(model.get()));
    if take.output_bytes() == 0 {
        for item in wire.output.into_iter().flatten() {
            if item.is_call() {
                take.tool_call();
            }
            say_all(item, take);
        }
    }
    if let Some(claim) = wire.usage.and_then(|usage| Claim::read(usage.get())) {
        take.usage(claim);
    }
    let incomplete = wire.incomplete_details.and_then(|details| details.reason);
    match (status, incomplete.as_deref()) {
        (Some("completed"), _) if take.has_tool_calls() => take.finish("tool_calls"),
        (Some("completed"), _) => take.finish("stop"),
        (Some("incomplete"), Some("max_output_tokens")) => take.finish("length"),
        (Some("incomplete"), Some(reason)) => take.finish(reason),
        // Without its reason an end before the end is no success.
        (Some("incomplete"), None) => take.finish("interrupted"),
        (Some("cancelled"), _) => take.finish("cancelled"),
        // `in_progress` and `queued` are no ends.
        _ => {}
    }
    Ok(true)
}

/// Takes a text, or a list of texts.
pub(super) fn say(content: Option<Content<'_>>, is_thought: bool, take: &mut AnswerBuilder) {
    match content {
        None | Some(Content::Nothing) => {}
        Some(Content::Text(text)) => {
            take.choice(0);
            take.output(&text, is_thought);
        }
        Some(Content::Parts(parts)) => {
            take.choice(0);
            for (is_thought_part, text) in parts {
                take.output(&text, is_thought || is_thought_part);
            }
        }
    }
}
