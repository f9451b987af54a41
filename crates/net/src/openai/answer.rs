//! What is answered: whole answers and parts of them have the same members.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::trouble::{Kind, Trouble, in_short};

/// Tokens, as the server counted them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Of the input.
    pub prompt_tokens: u64,
    /// Of the output, thoughts included.
    pub completion_tokens: u64,
}

/// What a part, or a whole answer, held beside its text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Part {
    /// There was output.
    pub has_output: bool,
    /// A choice says why it has ended.
    pub is_finished: bool,
    /// Tokens so far, or of all.
    pub usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(default)]
    usage: Option<Usage>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow, default)]
    text: Option<Text<'a>>,
    #[serde(borrow, default)]
    delta: Option<Said<'a>>,
    #[serde(borrow, default)]
    message: Option<Said<'a>>,
    #[serde(borrow, default)]
    finish_reason: Option<&'a RawValue>,
}

/// A message, or what is added to it.
#[derive(Deserialize)]
struct Said<'a> {
    /// Thoughts, by either of the two names that servers have for them.
    #[serde(borrow, default)]
    reasoning_content: Option<Text<'a>>,
    #[serde(borrow, default)]
    reasoning: Option<Text<'a>>,
    #[serde(borrow, default)]
    content: Option<Text<'a>>,
    #[serde(borrow, default)]
    refusal: Option<Text<'a>>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<ToolCall<'a>>>,
}

#[derive(Deserialize)]
struct ToolCall<'a> {
    #[serde(borrow, default)]
    function: Option<Function<'a>>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow, default)]
    name: Option<Text<'a>>,
    #[serde(borrow, default)]
    arguments: Option<Text<'a>>,
}

/// Borrowed where nothing is escaped; only a field of its own is.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Reads a part or a whole answer, and appends its output to `text`: thoughts, content,
/// refusals and calls of tools in this order, of all choices.
///
/// # Errors
/// What is no answer; what the server says if it reports an error.
pub fn read_part(json: &[u8], text: &mut Vec<u8>) -> Result<Part, Trouble> {
    match serde_json::from_slice(json) {
        Ok(wire) => part(wire, text),
        Err(error) => match String::from_utf8_lossy(json) {
            // Half a character in a string is what some servers make of a byte token.
            Cow::Owned(mended) => match serde_json::from_str(&mended) {
                Ok(wire) => part(wire, text),
                Err(error) => Err(no_answer(json, &error)),
            },
            Cow::Borrowed(_) => Err(no_answer(json, &error)),
        },
    }
}

fn no_answer(json: &[u8], error: &serde_json::Error) -> Trouble {
    let found = in_short(&String::from_utf8_lossy(json));
    Trouble::new(Kind::Malformed, format!("no answer of the interface: {error}: {found}"))
}

fn part(wire: Wire<'_>, text: &mut Vec<u8>) -> Result<Part, Trouble> {
    if let Some(error) = wire.error.filter(|error| error.get() != "null") {
        return Err(said(error.get()));
    }
    if wire.choices.is_none() && wire.usage.is_none() {
        return Err(Trouble::new(Kind::Malformed, "an answer without 'choices'"));
    }
    let before = text.len();
    let mut is_finished = false;
    let mut add = |piece: Option<Text<'_>>| {
        if let Some(Text(piece)) = piece {
            text.extend_from_slice(piece.as_bytes());
        }
    };
    for choice in wire.choices.into_iter().flatten() {
        add(choice.text);
        for message in [choice.delta, choice.message].into_iter().flatten() {
            // One server sends the same thought by both names.
            add(message.reasoning_content.or(message.reasoning));
            add(message.content);
            add(message.refusal);
            let calls = message.tool_calls.into_iter().flatten();
            for function in calls.filter_map(|call| call.function) {
                add(function.name);
                add(function.arguments);
            }
        }
        is_finished |= choice.finish_reason.is_some_and(|reason| reason.get() != "null");
    }
    Ok(Part { has_output: text.len() > before, is_finished, usage: wire.usage })
}

/// What an error of the interface says, in a stream whose status was one of success.
fn said(error: &str) -> Trouble {
    #[derive(Default, Deserialize)]
    struct Error {
        #[serde(default)]
        code: serde_json::Value,
        #[serde(default, rename = "type")]
        kind: serde_json::Value,
    }
    let known: Error = serde_json::from_str(error).unwrap_or_default();
    // Codes are numbers, numbers as strings, or names.
    let status = match &known.code {
        serde_json::Value::String(code) => code.parse().ok(),
        code => code.as_u64(),
    };
    let kind = match (status, known.kind.as_str()) {
        (Some(429 | 503), _) | (_, Some("rate_limit_error" | "overloaded_error")) => Kind::Refused,
        (Some(400..500), _) | (_, Some("invalid_request_error" | "BadRequestError")) => {
            Kind::Request
        }
        _ => Kind::Server,
    };
    let words = error_words(format!("{{\"error\":{error}}}").as_bytes());
    Trouble::new(kind, format!("the server says in its answer: {words}"))
}

/// What the body of an answer says whose status is none of success.
#[must_use]
pub fn error_words(body: &[u8]) -> String {
    crate::oip::http::error_words(body)
}
