//! Parser of answers: whole answers and parts of streams have the same members.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::content::Content;
use super::form::GZIP;
use super::repair::{parsed, without_list};
use super::usage::Claim;
use crate::trouble::{Kind, Trouble, in_short};

/// Token counts of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Input tokens.
    pub prompt_tokens: u64,
    /// Output tokens, thoughts included.
    pub completion_tokens: u64,
}

/// Content of a part, or of a whole answer, besides its text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Part {
    /// There is output.
    pub has_output: bool,
    /// A choice states why it has ended.
    pub is_finished: bool,
    /// Tokens so far, or of the whole answer.
    pub usage: Option<Claim>,
}

/// Receiver of the content of an answer, in order.
pub(super) trait AnswerSink {
    /// Returns whether the content is a part of a stream.
    fn is_stream(&self) -> bool {
        false
    }
    /// A choice by its number.
    fn choice(&mut self, index: usize);
    /// Output of the last choice.
    fn output(&mut self, text: &str, is_thought: bool);
    /// A call of a tool by the last choice.
    fn tool_call(&mut self);
    /// Content of the message of the last choice, which is output, too.
    fn said(&mut self, _text: &str) {}
    /// A thought of the last choice, which is output, too, and the name of its member; empty if it is not sent
    /// back.
    fn thought(&mut self, _member: &'static str, _text: &str) {}
    /// A part of a call of a tool by the last choice. Names and arguments are output, too.
    fn called(&mut self, _index: usize, _part: CallPart, _text: &str) {}
    /// The model that answers, as JSON.
    fn model(&mut self, _json: &str) {}
    /// Why the last choice ended.
    fn finish(&mut self, reason: &str);
    /// Words of the server on the end of the last choice.
    fn explain(&mut self, _words: &str) {}
    /// Output of the last choice that is no text, such as a recording: its size.
    fn media(&mut self, _bytes: usize) {}
    /// The last choice has got an addition.
    fn added(&mut self) {}
    /// Returns whether additions have made up the output of the last choice so far, apart from thoughts.
    fn has_additions(&self) -> bool {
        false
    }
    /// Returns whether thoughts of the last choice came as additions.
    fn has_added_thoughts(&self) -> bool {
        false
    }
    /// Returns how many bytes at the begin of a text repeat the texts of its kind before it in the stream.
    fn repeated_bytes(&mut self, _text: &str, _kind: TextKind, _is_addition: bool) -> usize {
        0
    }
    /// Content is a list of parts.
    fn content_parts(&mut self);
    /// Counts of tokens.
    fn usage(&mut self, claim: Claim);
    /// Counts of tokens within a choice.
    fn choice_usage(&mut self, _claim: Claim) {}
    /// Details of a thought, as JSON.
    fn thought_details(&mut self, _json: &str) {}
    /// An error that is empty or 0, beside choices.
    fn empty_error(&mut self) {}
}

/// Kind of a text of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextKind {
    Message,
    Thought,
}

/// What a text of a tool call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallPart {
    Id,
    Name,
    Arguments,
    /// What the server wants back with the call, as JSON.
    Extra,
}

#[derive(Deserialize)]
struct Wire<'a> {
    /// The outer option states whether the member exists.
    #[serde(borrow, default, deserialize_with = "present")]
    choices: Option<Option<Vec<Choice<'a>>>>,
    model: Option<&'a RawValue>,
    usage: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    /// State of an answer of MiniMax, which may be an error.
    base_resp: Option<&'a RawValue>,
    object: Option<&'a RawValue>,
    message: Option<&'a RawValue>,
    detail: Option<&'a RawValue>,
    /// Errors under the names that Cloudflare, Baidu and others use.
    errors: Option<&'a RawValue>,
    error_code: Option<&'a RawValue>,
    error_msg: Option<&'a RawValue>,
    error_message: Option<&'a RawValue>,
    /// What Groq adds to the last part of a stream.
    x_groq: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct GroqWire<'a> {
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    /// Why the stream was stopped.
    error: Option<&'a RawValue>,
}

fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(of: D) -> Result<Option<T>, D::Error> {
    T::deserialize(of).map(Some)
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    index: Option<&'a RawValue>,
    text: Option<Content<'a>>,
    delta: Option<MessageText<'a>>,
    message: Option<MessageText<'a>>,
    finish_reason: Option<&'a RawValue>,
    usage: Option<&'a RawValue>,
    /// Error of this choice, as OpenRouter states it.
    error: Option<&'a RawValue>,
}

/// A message, or the addition to a message.
#[derive(Deserialize)]
pub(super) struct MessageText<'a> {
    /// Thoughts, under one of the names that servers use.
    #[serde(borrow)]
    reasoning_content: Option<Content<'a>>,
    reasoning: Option<Content<'a>>,
    thinking: Option<Content<'a>>,
    /// OpenRouter states here whether they are a summary or encrypted, and repeats their text.
    reasoning_details: Option<&'a RawValue>,
    content: Option<Content<'a>>,
    refusal: Option<Content<'a>>,
    tool_calls: Option<Vec<ToolCall<'a>>>,
    function_call: Option<Function<'a>>,
    /// Speech and its text.
    audio: Option<&'a RawValue>,
    /// Generated images, as OpenRouter sends them.
    images: Option<&'a RawValue>,
}

impl<'a> MessageText<'a> {
    /// Returns the thought, and the name of its member; that of details is empty. One server sends the same
    /// thought under several names.
    fn take_thought(&mut self) -> Option<(&'static str, Content<'a>)> {
        let named = [
            ("reasoning_content", &mut self.reasoning_content),
            ("reasoning", &mut self.reasoning),
            ("thinking", &mut self.thinking),
        ];
        let mut thoughts = named.into_iter().filter_map(|(name, text)| Some((name, text.take()?)));
        if let Some(thought) = thoughts.find(|(_, text)| text.has_text()) {
            return Some(thought);
        }
        let details: Content<'a> = serde_json::from_str(self.reasoning_details?.get()).ok()?;
        details.has_text().then_some(("", details))
    }
}

/// Speech: parts of a recording, and of its transcript.
#[derive(Deserialize)]
struct Speech<'a> {
    #[serde(borrow)]
    transcript: Option<Content<'a>>,
    data: Option<Content<'a>>,
}

#[derive(Deserialize)]
struct ToolCall<'a> {
    #[serde(borrow)]
    index: Option<&'a RawValue>,
    id: Option<Content<'a>>,
    function: Option<Function<'a>>,
    /// A tool that takes a text instead of JSON.
    custom: Option<Function<'a>>,
    /// Gemini wants it back with the call.
    extra_content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    name: Option<Content<'a>>,
    /// A string that contains JSON, or the JSON itself; the input of a tool that takes a text.
    #[serde(alias = "input")]
    arguments: Option<&'a RawValue>,
}

/// Reads a part or a whole answer, and appends its output to `text`: thoughts, content, refusals
/// and tool calls in this order, of all choices.
///
/// # Errors
/// Not a valid answer, or the server's message if it reports an error.
pub fn read_part(json: &[u8], text: &mut Vec<u8>) -> Result<Part, Trouble> {
    struct PartSink<'t> {
        text: &'t mut Vec<u8>,
        part: Part,
    }
    impl AnswerSink for PartSink<'_> {
        fn choice(&mut self, _: usize) {}
        fn output(&mut self, text: &str, _: bool) {
            self.part.has_output |= !text.is_empty();
            self.text.extend_from_slice(text.as_bytes());
        }
        fn media(&mut self, bytes: usize) {
            self.part.has_output |= bytes > 0;
        }
        fn tool_call(&mut self) {}
        fn finish(&mut self, _: &str) {
            self.part.is_finished = true;
        }
        fn content_parts(&mut self) {}
        fn usage(&mut self, claim: Claim) {
            self.part.usage = Some(claim);
        }
        fn choice_usage(&mut self, claim: Claim) {
            self.part.usage = Some(claim);
        }
    }
    let mut alone = PartSink { text, part: Part::default() };
    if read_into(json, &mut alone)? { Ok(alone.part) } else { Err(without_choices()) }
}

/// Returns the trouble of an answer that lacks what answers consist of.
pub(super) fn without_choices() -> Trouble {
    Trouble::new(Kind::Malformed, "an answer without 'choices'")
}

/// Reads a part or a whole answer into `take`. Returns whether it has choices, or at least counts of
/// tokens.
///
/// # Errors
/// Not a valid answer, or the server's message if it reports an error.
pub(super) fn read_into(json: &[u8], take: &mut dyn AnswerSink) -> Result<bool, Trouble> {
    let mut repair = Vec::new();
    let wire = parsed(without_list(json), &mut repair).ok_or_else(|| no_answer(json))?;
    part(wire, json, take)
}

/// Omits the message of the parser, which names types of this program.
pub(super) fn no_answer(json: &[u8]) -> Trouble {
    let words = format!("expected an answer of the OpenAI interface, found: {}", shown(json));
    Trouble::new(Kind::Malformed, words)
}

/// Returns what came in place of an answer, for a message.
pub(super) fn shown(json: &[u8]) -> String {
    if json.starts_with(&GZIP) {
        return "content in gzip, compressed again or without content-encoding".to_owned();
    }
    match String::from_utf8_lossy(json).trim() {
        "" => "an empty body".to_owned(),
        text => in_short(text),
    }
}

fn part(wire: Wire<'_>, json: &[u8], take: &mut dyn AnswerSink) -> Result<bool, Trouble> {
    let is_set = |value: &&RawValue| !matches!(value.get(), "null" | "false" | "\"\"");
    let is_answer = matches!(wire.choices, Some(Some(_)));
    // Older servers send the error itself instead of a member of this name.
    let is_error_itself = wire.object.is_some_and(|object| object.get() == "\"error\"")
        || (wire.choices.is_none()
            && wire.usage.is_none()
            && [wire.message, wire.detail].into_iter().flatten().any(|value| is_set(&value)));
    if is_error_itself || states_error(wire.error, is_answer, take) {
        return Err(in_band(json));
    }
    if let Some(state) = wire.base_resp.filter(|state| !is_answer && states_failure(state)) {
        return Err(in_band(state.get().as_bytes()));
    }
    if !is_answer && states_error_otherwise(&wire, take) {
        return Err(in_band(json));
    }
    let groq = wire.x_groq.and_then(|groq| serde_json::from_str::<GroqWire<'_>>(groq.get()).ok());
    let groq = groq.unwrap_or_default();
    if states_error(groq.error, true, take) {
        return Err(in_band(wire.x_groq.map_or("{}", RawValue::get).as_bytes()));
    }
    let usage = wire.usage.or(groq.usage);
    let Some(choices) = wire.choices.or_else(|| usage.map(|_| None)) else {
        return Ok(false);
    };
    wire.model.iter().for_each(|model| take.model(model.get()));
    for (position, choice) in choices.into_iter().flatten().enumerate() {
        let index = choice.index.and_then(|index| index.get().parse().ok());
        take.choice(index.unwrap_or(position));
        if states_error(choice.error, true, take) {
            let error = choice.error.map_or("{}", RawValue::get);
            return Err(in_band(error.as_bytes()));
        }
        let is_addition = choice.delta.is_some();
        let message = match (choice.delta, choice.message) {
            // Some gateways repeat the text so far beside each addition. Others give a whole message
            // an empty addition.
            (Some(delta), Some(_)) if take.is_stream() => Some(delta),
            // Some servers repeat the whole message at the end.
            (None, Some(_)) if take.has_additions() => None,
            (delta, message) => message.or(delta),
        };
        // Some servers repeat the content beside the message.
        let is_repeated =
            message.as_ref().and_then(|of| of.content.as_ref()).is_some_and(Content::has_text);
        let text = choice.text.filter(|_| !is_repeated);
        content(text.map(|text| new_content(text, TextKind::Message, true, take)), false, take);
        if let Some(message) = message {
            read_message(message, is_addition, take);
        }
        if is_addition {
            take.added();
        }
        if let Some(reason) = choice.finish_reason.filter(is_set) {
            let (reason, words) = reason_text(reason.get());
            take.explain(&words);
            if !reason.is_empty() {
                take.finish(&reason);
            }
        }
        if let Some(claim) = choice.usage.and_then(|usage| Claim::read(usage.get())) {
            take.choice_usage(claim);
        }
    }
    if let Some(claim) = usage.and_then(|usage| Claim::read(usage.get())) {
        take.usage(claim);
    }
    Ok(true)
}

/// Reads a message or an addition. Messages of a stream may repeat what came before.
pub(super) fn read_message(
    mut message: MessageText<'_>,
    is_addition: bool,
    take: &mut dyn AnswerSink,
) {
    message.reasoning_details.iter().for_each(|of| take.thought_details(of.get()));
    let thought = message.take_thought().filter(|_| is_addition || !take.has_added_thoughts());
    if let Some((member, text)) = thought {
        let text = new_content(text, TextKind::Thought, is_addition, take);
        text.each_text(|text| take.thought(member, text));
        content(Some(text), true, take);
    }
    let text = message.content.take();
    message.content = text.map(|text| new_content(text, TextKind::Message, is_addition, take));
    if let Some(said) = &message.content {
        said.each_text(|text| take.said(text));
    }
    content(message.content, false, take);
    content(message.refusal, false, take);
    media(message.audio, message.images, take);
    for (position, call) in message.tool_calls.into_iter().flatten().enumerate() {
        let index = call.index.and_then(|index| index.get().parse().ok());
        let index = index.unwrap_or(position);
        if let Some(id) = &call.id {
            id.each_text(|id| take.called(index, CallPart::Id, id));
        }
        if let Some(called) = call.function.or(call.custom) {
            function(called, Some(index), take);
        }
        if let Some(extra) = call.extra_content.map(RawValue::get).filter(|json| *json != "null") {
            take.called(index, CallPart::Extra, extra);
        }
    }
    if let Some(called) = message.function_call {
        function(called, None, take);
    }
}

/// Returns a text without what it repeats of the texts of its kind before it.
fn new_content<'a>(
    content: Content<'a>,
    kind: TextKind,
    is_addition: bool,
    take: &mut dyn AnswerSink,
) -> Content<'a> {
    match content {
        Content::Text(text) => match take.repeated_bytes(&text, kind, is_addition) {
            0 => Content::Text(text),
            repeated => Content::Text(Cow::Owned(text[repeated..].to_owned())),
        },
        other => other,
    }
}

/// Returns whether a member states an error. Beside an answer, one that is 0 or empty states none, and is
/// noted.
pub(super) fn states_error(
    error: Option<&RawValue>,
    is_answer: bool,
    take: &mut dyn AnswerSink,
) -> bool {
    let Some(error) = error.map(RawValue::get) else { return false };
    let is_empty = match serde_json::from_str(error) {
        Ok(Value::Null) => return false,
        Ok(Value::Bool(is_error)) => !is_error,
        Ok(Value::String(text)) if text.is_empty() => true,
        Ok(Value::Number(number)) => is_answer && number.as_f64() == Some(0.0),
        Ok(Value::Array(list)) => is_answer && list.is_empty(),
        Ok(Value::Object(members)) => is_answer && members.is_empty(),
        Ok(Value::String(_)) | Err(_) => false,
    };
    if is_empty {
        take.empty_error();
    }
    !is_empty
}

/// Returns whether a part without choices states an error under another name than `error`.
fn states_error_otherwise(wire: &Wire<'_>, take: &mut dyn AnswerSink) -> bool {
    let is_success = wire.error_code.is_some_and(|code| matches!(code.get(), "0" | "\"0\""));
    let named = [wire.errors, wire.error_msg, wire.error_message, wire.error_code];
    !is_success && named.into_iter().any(|error| states_error(error, true, take))
}

/// Returns whether the state of an answer is that of a failure.
fn states_failure(state: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct State {
        #[serde(default)]
        status_code: i64,
    }
    serde_json::from_str(state.get()).is_ok_and(|state: State| state.status_code != 0)
}

/// Returns the text of a finish reason: a string, or the type or reason of an object; and the words of
/// the object.
fn reason_text(json: &str) -> (String, String) {
    match serde_json::from_str(json) {
        Ok(Value::String(text)) => (text, String::new()),
        Ok(Value::Object(members)) => {
            let text = |name: &str| members.get(name).and_then(Value::as_str);
            let words = text("message").unwrap_or_default().to_owned();
            let reason = text("type").or_else(|| text("reason"));
            (reason.unwrap_or(json).to_owned(), words)
        }
        _ => (json.to_owned(), String::new()),
    }
}

/// Hands over speech with its text, and images.
fn media(audio: Option<&RawValue>, images: Option<&RawValue>, take: &mut dyn AnswerSink) {
    let speech = audio.and_then(|audio| serde_json::from_str::<Speech<'_>>(audio.get()).ok());
    if let Some(speech) = speech {
        speech.transcript.iter().for_each(|said| said.each_text(|text| take.output(text, false)));
        speech.data.iter().for_each(|data| data.each_text(|data| take.media(data.len())));
    }
    let images = images.map(RawValue::get).filter(|images| *images != "[]");
    images.iter().for_each(|images| take.media(images.len()));
}

fn content(content: Option<Content<'_>>, is_thought: bool, take: &mut dyn AnswerSink) {
    match content {
        None | Some(Content::Nothing) => {}
        Some(Content::Text(text)) => take.output(&text, is_thought),
        Some(Content::Parts(parts)) => {
            take.content_parts();
            for (is_thought_part, text) in parts {
                take.output(&text, is_thought || is_thought_part);
            }
        }
    }
}

/// Hands over a call of a function; `index` is that of a call of a tool.
fn function(called: Function<'_>, index: Option<usize>, take: &mut dyn AnswerSink) {
    take.tool_call();
    let part = |part: CallPart, text: &str, take: &mut dyn AnswerSink| {
        if let Some(index) = index {
            take.called(index, part, text);
        }
    };
    if let Some(name) = &called.name {
        name.each_text(|name| part(CallPart::Name, name, take));
    }
    content(called.name, false, take);
    let json = called.arguments.map(RawValue::get).filter(|json| *json != "null");
    let Some(json) = json else { return };
    let text = serde_json::from_str::<Cow<'_, str>>(json).unwrap_or(Cow::Borrowed(json));
    part(CallPart::Arguments, &text, take);
    take.output(&text, false);
}

/// Names of errors of servers that are full: of Anthropic, OpenAI and Text Generation Inference.
const REFUSALS: [&str; 4] =
    ["rate_limit_error", "overloaded_error", "rate_limit_exceeded", "overloaded"];

/// Names of errors of wrong requests: of OpenAI, vLLM, the Responses interface and Text Generation Inference.
const REJECTIONS: [&str; 4] =
    ["invalid_request_error", "BadRequestError", "invalid_prompt", "validation"];

/// Returns the trouble of an error within an answer whose status was success. `json` is the object
/// that holds the error, or the error itself.
pub(super) fn in_band(json: &[u8]) -> Trouble {
    let whole: Value = serde_json::from_slice(without_list(json)).unwrap_or(Value::Null);
    let error = whole.get("error").filter(|error| error.is_object()).unwrap_or(&whole);
    // Codes are numbers, numbers as strings, or names.
    let code = |name: &str| match error.get(name)? {
        Value::String(code) => code.parse().ok(),
        code => code.as_u64(),
    };
    let status = ["code", "status", "status_code"].iter().find_map(|name| code(name));
    let named = |name: &str| error.get(name).and_then(Value::as_str);
    let names = ["type", "code", "error_type"].map(named);
    let is_one_of = |known: &[&str]| names.iter().flatten().any(|name| known.contains(name));
    let kind = match status {
        Some(429 | 503 | 529) => Kind::Refused,
        _ if is_one_of(&REFUSALS) => Kind::Refused,
        Some(400..500) => Kind::Request,
        _ if is_one_of(&REJECTIONS) => Kind::Request,
        _ => Kind::InBand,
    };
    let said = error_words(json);
    let words = if said.is_empty() { "no message" } else { said.as_str() };
    Trouble::new(kind, format!("the server reports an error in its answer: {words}"))
}

/// Returns the message of the body of an answer whose status is not success.
pub fn error_words(body: &[u8]) -> String {
    crate::oip::http::error_words(body)
}
