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
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    meta_info: Option<&'a RawValue>,
    #[serde(borrow, default)]
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
    let json = without_list(json);
    let mut repair = Vec::new();
    let wire: Wire<'_> = parsed(json, &mut repair).ok_or_else(|| no_answer(json))?;
    if states_error(wire.error, wire.text.is_some(), take) {
        return Err(in_band(json));
    }
    let Some(text) = wire.text else { return Ok(false) };
    let meta = wire.meta_info.map(RawValue::get);
    let claim = meta.and_then(Claim::read);
    take.choice(0);
    let meta: Option<MetaInfo> =
        meta.map(serde_json::from_str).transpose().map_err(|_| no_answer(json))?;
    let reason = meta.as_ref().map(|meta| &meta.finish_reason);
    let reason = reason.map(|reason| reason.get("type").unwrap_or(reason)).and_then(Value::as_str);
    let is_stopped = reason.is_some_and(|reason| Finish::of_reason(reason) == Finish::Stop);
    take.output_so_far(&text, claim.and_then(|claim| claim.output), is_stopped);
    if let Some(claim) = claim {
        take.usage(claim);
    }
    if let Some(reason) = reason {
        let said = meta.as_ref().and_then(|meta| meta.finish_reason.get("message")?.as_str());
        take.explain(said.unwrap_or_default());
        take.finish(reason);
    }
    Ok(true)
}
