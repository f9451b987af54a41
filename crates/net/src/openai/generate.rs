//! Answers of SGLang's `/generate`: whole ones, and streams whose parts repeat the text so far.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::answer::{AnswerSink as _, in_band, no_answer, states_error};
use super::builder::AnswerBuilder;
use super::repair::{parsed, without_list};
use super::usage::Claim;
use crate::ledger::Finish;
use crate::trouble::Trouble;

#[derive(Deserialize)]
struct Wire<'a> {
    /// Number of the choice, if there are several.
    #[serde(borrow)]
    index: Option<&'a RawValue>,
    text: Option<Cow<'a, str>>,
    meta_info: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct MetaInfo {
    /// An object with its type, a name, or null.
    #[serde(default)]
    finish_reason: Value,
}

/// Reads a part or a whole answer. Returns whether it is one.
///
/// # Errors
/// Not an answer of the interface, or the server's message if it reports an error.
pub(super) fn read(json: &[u8], take: &mut AnswerBuilder) -> Result<bool, Trouble> {
    // Several choices of a whole answer are a list.
    let all = json.trim_ascii_start().starts_with(b"[").then(|| serde_json::from_slice(json));
    let Some(Ok(all)) = all else { return choice(without_list(json), 0, take) };
    let all: Vec<&RawValue> = all;
    let mut is_answer = false;
    for (position, one) in all.into_iter().enumerate() {
        is_answer |= choice(one.get().as_bytes(), position, take)?;
    }
    Ok(is_answer)
}

/// Reads a choice with this number, unless it states another one. Returns whether it is one.
fn choice(json: &[u8], position: usize, take: &mut AnswerBuilder) -> Result<bool, Trouble> {
    let mut repair = Vec::new();
    let wire: Wire<'_> = parsed(json, &mut repair).ok_or_else(|| no_answer(json))?;
    if states_error(wire.error, wire.text.is_some(), take) {
        return Err(in_band(json));
    }
    let Some(text) = wire.text else { return Ok(false) };
    let meta = wire.meta_info.map(RawValue::get);
    let claim = meta.and_then(Claim::read);
    let index = wire.index.and_then(|index| index.get().parse().ok());
    take.choice(index.unwrap_or(position));
    let meta: Option<MetaInfo> =
        meta.map(serde_json::from_str).transpose().map_err(|_| no_answer(json))?;
    let reason = meta.as_ref().map(|meta| &meta.finish_reason);
    let reason = reason.map(|reason| reason.get("type").unwrap_or(reason)).and_then(Value::as_str);
    let is_stopped = reason.is_some_and(|reason| Finish::of_reason(reason) == Finish::Stop);
    take.output_so_far(&text, claim, is_stopped);
    if let Some(reason) = reason {
        let said = meta.as_ref().and_then(|meta| meta.finish_reason.get("message")?.as_str());
        take.explain(said.unwrap_or_default());
        take.finish(reason);
    }
    Ok(true)
}
