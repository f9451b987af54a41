//! Server side: parts, whole answers, errors.

use serde_json::json;

use super::{Api, DONE, Usage};
use crate::sse;

/// Writer of the answer to one chat or completion.
#[derive(Debug, Clone)]
pub struct Writer {
    api: Api,
    /// Beginning of each part: `{"id":...,"object":...,"created":...,"model":...,`.
    head: Vec<u8>,
    /// Beginning of a whole answer.
    whole_head: Vec<u8>,
}

impl Writer {
    /// Creates a writer; `created` is in seconds since 1970.
    pub fn new(api: Api, id: &str, model: &str, created: u64) -> Self {
        let (whole, part) = match api {
            Api::Chat => ("chat.completion", "chat.completion.chunk"),
            _ => ("text_completion", "text_completion"),
        };
        let head = |object: &str| {
            let head = json!({"id": id, "object": object, "created": created, "model": model});
            let mut head = head.to_string().into_bytes();
            head.pop();
            head.push(b',');
            head
        };
        Self { api, head: head(part), whole_head: head(whole) }
    }

    /// Appends the event with the role, with which a chat starts.
    pub fn write_role(&self, out: &mut Vec<u8>) {
        if self.api == Api::Chat {
            let delta = br#"{"role":"assistant","content":""}"#;
            self.event(out, |out| choice(out, b"delta", |out| out.extend_from_slice(delta), None));
        }
    }

    /// Appends an event with text, and with the finish reason if it is the last one.
    pub fn write_part(&self, text: &str, finish_reason: Option<&str>, out: &mut Vec<u8>) {
        self.event(out, |out| match self.api {
            Api::Chat => choice(out, b"delta", |out| delta(out, None, text), finish_reason),
            _ => choice(out, b"text", |out| string(out, text), finish_reason),
        });
    }

    /// Appends the event with token counts and without choices.
    pub fn write_usage(&self, tokens: Usage, out: &mut Vec<u8>) {
        self.event(out, |out| {
            out.extend_from_slice(b"\"choices\":[],");
            usage(out, tokens);
        });
    }

    /// Returns a whole answer.
    pub fn whole(&self, text: &str, finish_reason: &str, tokens: Usage) -> Vec<u8> {
        let mut out = self.whole_head.clone();
        let reason = Some(finish_reason);
        match self.api {
            Api::Chat => {
                choice(&mut out, b"message", |out| delta(out, Some("assistant"), text), reason);
            }
            _ => choice(&mut out, b"text", |out| string(out, text), reason),
        }
        out.push(b',');
        usage(&mut out, tokens);
        out.push(b'}');
        out
    }

    fn event(&self, out: &mut Vec<u8>, inside: impl FnOnce(&mut Vec<u8>)) {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(&self.head);
        inside(out);
        out.extend_from_slice(b"}\n\n");
    }
}

/// Appends the event that ends a stream.
pub fn write_done(out: &mut Vec<u8>) {
    sse::write(DONE, out);
}

/// Returns the body of an error; `kind` is a type such as `invalid_request_error`.
pub fn error_body(words: &str, kind: &str, status: u16) -> Vec<u8> {
    let error = json!({"message": words, "type": kind, "param": null, "code": status});
    json!({"error": error}).to_string().into_bytes()
}

/// Returns the answer to `GET /v1/models`.
pub fn models_body<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    let model = |name| json!({"id": name, "object": "model", "created": 0, "owned_by": "dyno"});
    let models: Vec<_> = names.into_iter().map(model).collect();
    json!({"object": "list", "data": models}).to_string().into_bytes()
}

fn string(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("a string is JSON");
}

fn choice(
    out: &mut Vec<u8>,
    name: &[u8],
    value: impl FnOnce(&mut Vec<u8>),
    finish_reason: Option<&str>,
) {
    out.extend_from_slice(b"\"choices\":[{\"index\":0,\"");
    out.extend_from_slice(name);
    out.extend_from_slice(b"\":");
    value(out);
    out.extend_from_slice(b",\"logprobs\":null,\"finish_reason\":");
    match finish_reason {
        Some(reason) => string(out, reason),
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b"}]");
}

fn delta(out: &mut Vec<u8>, role: Option<&str>, text: &str) {
    out.push(b'{');
    if let Some(role) = role {
        out.extend_from_slice(b"\"role\":");
        string(out, role);
        out.push(b',');
    }
    out.extend_from_slice(b"\"content\":");
    string(out, text);
    out.push(b'}');
}

fn usage(out: &mut Vec<u8>, tokens: Usage) {
    let Usage { prompt_tokens, completion_tokens } = tokens;
    let total_tokens = prompt_tokens.saturating_add(completion_tokens);
    let usage = format!(
        "\"usage\":{{\"prompt_tokens\":{prompt_tokens},\"completion_tokens\":{completion_tokens},\
         \"total_tokens\":{total_tokens}}}"
    );
    out.extend_from_slice(usage.as_bytes());
}
