//! Requests of the interface.

use serde_json::{Map, Value};

use super::{Api, Input, Message, body};
use crate::trouble::{Kind, Trouble};

/// A request for one answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Model; empty if the server has only one.
    pub model: String,
    /// Prompt or messages.
    pub input: Input,
    /// Maximum number of output tokens.
    pub max_tokens: Option<u64>,
    /// Whether the answer is streamed.
    pub stream: bool,
    /// Whether the last part has the token counts.
    pub include_usage: bool,
    /// All other members, such as `temperature`, unchanged.
    pub others: Map<String, Value>,
}

impl Request {
    /// Creates a request for one whole answer of any length.
    pub fn new(model: impl Into<String>, input: Input) -> Self {
        Self {
            model: model.into(),
            input,
            max_tokens: None,
            stream: false,
            include_usage: false,
            others: Map::new(),
        }
    }

    /// Returns the JSON body for the endpoint of the input.
    pub fn to_json(&self) -> Vec<u8> {
        Value::Object(body::members(self, self.input.api())).to_string().into_bytes()
    }

    /// Reads a body of chats or completions.
    ///
    /// # Errors
    /// A missing member or one of another type, or several prompts, which would each need an
    /// answer.
    pub fn from_json(api: Api, body: &[u8]) -> Result<Self, Trouble> {
        let body: Value = serde_json::from_slice(body)
            .map_err(|error| wrong(&format!("the body is not JSON: {error}")))?;
        let Value::Object(mut body) = body else {
            return Err(wrong("the body is not a JSON object"));
        };
        let input = match api {
            Api::Chat => Input::Messages(messages(body.shift_remove("messages"))?),
            _ => prompt(body.shift_remove("prompt"))?,
        };
        let model = match body.shift_remove("model") {
            Some(Value::String(model)) => model,
            None | Some(Value::Null) => String::new(),
            Some(_) => return Err(wrong("'model' is not a string")),
        };
        // The newer name takes precedence, as in OpenAI's own service.
        let older = body.shift_remove("max_tokens").filter(|value| !value.is_null());
        let newer = body.shift_remove("max_completion_tokens").filter(|value| !value.is_null());
        let max_tokens = match newer.or(older) {
            None => None,
            Some(value) => {
                Some(value.as_u64().ok_or_else(|| wrong("'max_tokens' is not a token count"))?)
            }
        };
        let stream = truth("stream", body.shift_remove("stream").as_ref())?;
        let include_usage = match body.shift_remove("stream_options") {
            Some(Value::Object(mut options)) => {
                truth("include_usage", options.shift_remove("include_usage").as_ref())?
            }
            None | Some(Value::Null) => false,
            Some(_) => return Err(wrong("'stream_options' is not an object")),
        };
        Ok(Self { model, input, max_tokens, stream, include_usage, others: body })
    }
}

fn wrong(words: &str) -> Trouble {
    Trouble::new(Kind::Malformed, words)
}

fn truth(name: &str, value: Option<&Value>) -> Result<bool, Trouble> {
    match value {
        Some(Value::Bool(value)) => Ok(*value),
        None | Some(Value::Null) => Ok(false),
        Some(_) => Err(wrong(&format!("'{name}' is neither true nor false"))),
    }
}

/// Reads a text, its tokens, or a list of one of these.
fn prompt(value: Option<Value>) -> Result<Input, Trouble> {
    let odd = || wrong("'prompt' is neither a string nor a list of tokens");
    match value {
        Some(Value::String(text)) => Ok(Input::Text(text)),
        Some(Value::Array(mut all)) => match all.first() {
            Some(Value::Number(_)) => {
                let tokens = all.iter().map(Value::as_u64).collect::<Option<_>>();
                tokens.map(Input::Tokens).ok_or_else(odd)
            }
            Some(Value::String(_) | Value::Array(_)) if all.len() == 1 => prompt(all.pop()),
            Some(Value::String(_) | Value::Array(_)) => {
                let words = format!("'prompt' has {} prompts; send each by itself", all.len());
                Err(wrong(&words))
            }
            _ => Err(odd()),
        },
        None => Err(wrong("the request has no 'prompt'")),
        Some(_) => Err(odd()),
    }
}

fn messages(value: Option<Value>) -> Result<Vec<Message>, Trouble> {
    match value {
        Some(Value::Array(all)) if !all.is_empty() => {
            all.into_iter().map(|one| Message::from_json(one).map_err(|why| wrong(&why))).collect()
        }
        Some(Value::Array(_)) => Err(wrong("'messages' is empty")),
        Some(_) => Err(wrong("'messages' is not a list")),
        None => Err(wrong("the request has no 'messages'")),
    }
}
