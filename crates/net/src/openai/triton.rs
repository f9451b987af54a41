//! Answers of Triton's generate extension: `/generate`, and the stream of `/generate_stream`.
//!
//! Source: Triton's documentation ("Generate Extension"), and the names of texts in its backends of TensorRT-LLM
//! and vLLM. The extension has neither counts of tokens nor an event that ends a stream.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::answer::{AnswerSink as _, TextKind, in_band, shown, states_error};
use super::builder::AnswerBuilder;
use super::content::Content;
use super::repair::parsed;
use crate::trouble::{Kind, Trouble};

/// A part of a stream, or a whole answer.
#[derive(Deserialize)]
struct Wire<'a> {
    /// An addition to the text, or the whole text.
    #[serde(borrow)]
    text_output: Option<Content<'a>>,
    error: Option<&'a RawValue>,
}

/// Reads a part or a whole answer.
///
/// # Errors
/// Not an answer of the extension, or the server's message if it reports an error.
pub(super) fn read(json: &[u8], take: &mut AnswerBuilder) -> Result<bool, Trouble> {
    let no_answer = || {
        let found = shown(json);
        let words = format!("expected an answer of Triton with text_output, found: {found}");
        Trouble::new(Kind::Malformed, words)
    };
    let mut repair = Vec::new();
    let wire: Wire<'_> = parsed(json, &mut repair).ok_or_else(no_answer)?;
    if states_error(wire.error, wire.text_output.is_some(), take) {
        return Err(in_band(json));
    }
    let text = wire.text_output.ok_or_else(no_answer)?;
    take.choice(0);
    text.each_text(|text| {
        // Models that accumulate tokens repeat the text so far.
        let repeated = take.repeated_bytes(text, TextKind::Message, true);
        take.output(&text[repeated..], false);
    });
    Ok(true)
}
