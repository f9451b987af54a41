//! Answers of Text Generation Inference: `/generate`, and the stream of `/generate_stream`.
//!
//! Source: its OpenAPI description (`StreamResponse`, `GenerateResponse`, `ErrorResponse`).

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::answer::{AnswerSink as _, in_band, shown, states_error};
use super::builder::AnswerBuilder;
use super::repair::{parsed, without_list};
use super::usage::Claim;
use crate::trouble::{Kind, Trouble};

/// A part of a stream with one token, or a whole answer.
#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow)]
    token: Option<Token<'a>>,
    /// The whole text; in a stream only in the last part.
    generated_text: Option<Cow<'a, str>>,
    details: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Token<'a> {
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    /// It is no text, such as the end of a sequence.
    #[serde(default)]
    special: bool,
}

#[derive(Deserialize)]
struct Details<'a> {
    #[serde(borrow)]
    finish_reason: Option<Cow<'a, str>>,
}

/// Reads a part or a whole answer.
///
/// # Errors
/// Not an answer of the interface, or the server's message if it reports an error.
pub(super) fn read(json: &[u8], take: &mut AnswerBuilder) -> Result<bool, Trouble> {
    let no_answer = || {
        let found = shown(json);
        let words = format!("expected an answer of Text Generation Inference, found: {found}");
        Trouble::new(Kind::Malformed, words)
    };
    let json = without_list(json);
    let mut repair = Vec::new();
    let wire: Wire<'_> = parsed(json, &mut repair).ok_or_else(no_answer)?;
    let is_answer = wire.token.is_some() || wire.generated_text.is_some();
    if states_error(wire.error, is_answer, take) {
        return Err(in_band(json));
    }
    if !is_answer {
        return Err(no_answer());
    }
    take.choice(0);
    let is_part = wire.token.is_some();
    // The server counts it, so its time is that of an output token.
    take.has_silent_token = wire.token.as_ref().is_some_and(|token| token.special);
    if let Some(text) = wire.token.filter(|token| !token.special).and_then(|token| token.text) {
        take.output(&text, false);
    }
    if let Some(text) = wire.generated_text.as_ref().filter(|_| !is_part) {
        take.output(text, false);
    }
    if let Some(details) = wire.details.map(RawValue::get).filter(|details| *details != "null") {
        if let Some(claim) = Claim::read_named(details, &["input_length"], "", "generated_tokens") {
            take.usage(claim);
        }
        let details: Details<'_> = serde_json::from_str(details).map_err(|_| no_answer())?;
        if let Some(reason) = details.finish_reason {
            take.finish(&reason);
        }
    }
    take.is_done = is_part && wire.generated_text.is_some();
    Ok(true)
}
