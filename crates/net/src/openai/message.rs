//! Content of requests: prompts, messages, and what other endpoints take.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::Api;

/// Content of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Input {
    /// A text to continue, or to embed.
    Text(String),
    /// Texts to embed together.
    Texts(Vec<String>),
    /// Tokens to continue, or to embed.
    Tokens(Vec<u64>),
    /// Conversation to answer.
    Messages(Vec<Message>),
    /// Documents to rank.
    Ranking {
        /// Question.
        query: String,
        /// Candidates (>= 1).
        documents: Vec<String>,
    },
    /// Recording to transcribe.
    Recording(Recording),
}

/// An audio file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Recording {
    /// Name that it is sent with.
    pub name: String,
    /// Content of the file.
    pub bytes: Bytes,
}

impl Recording {
    /// Returns the media type, by the name.
    pub fn media_type(&self) -> &'static str {
        match self.name.rsplit('.').next() {
            Some("wav") => "audio/wav",
            Some("flac") => "audio/flac",
            Some("ogg") => "audio/ogg",
            Some("mp3") => "audio/mpeg",
            _ => "application/octet-stream",
        }
    }
}

impl Input {
    /// Returns the content as JSON: a text, texts, tokens, messages, a query with documents, or the
    /// name and size of a file.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Text(text) => text.as_str().into(),
            Self::Texts(texts) => texts.as_slice().into(),
            Self::Tokens(tokens) => tokens.as_slice().into(),
            Self::Messages(messages) => messages.iter().map(Message::to_json).collect(),
            Self::Ranking { query, documents } => {
                serde_json::json!({"query": query, "documents": documents})
            }
            Self::Recording(file) => {
                serde_json::json!({"file": file.name, "bytes": file.bytes.len()})
            }
        }
    }

    /// Returns the endpoint for this input, unless a setting names another one.
    pub fn api(&self) -> Api {
        match self {
            Self::Text(_) | Self::Tokens(_) => Api::Completions,
            Self::Texts(_) => Api::Embeddings,
            Self::Messages(_) => Api::Chat,
            Self::Ranking { .. } => Api::Rerank,
            Self::Recording(_) => Api::Transcriptions,
        }
    }

    /// Returns the bytes of its texts, tokens and messages.
    pub fn size(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Texts(all) => all.iter().map(String::len).sum(),
            Self::Tokens(all) => all.len() * size_of::<u64>(),
            Self::Messages(all) => all.iter().map(Message::size).sum(),
            Self::Ranking { query, documents } => {
                query.len() + documents.iter().map(String::len).sum::<usize>()
            }
            Self::Recording(file) => file.bytes.len(),
        }
    }
}

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Message {
    /// `system`, `user`, `assistant` or `tool`.
    pub role: String,
    /// A text, a list of typed parts, or null.
    pub content: Value,
    /// All other members, such as `name`, `tool_calls` and `tool_call_id`, unchanged.
    pub others: Map<String, Value>,
}

impl Message {
    /// Creates a message of text.
    pub fn new(role: impl Into<String>, text: impl Into<String>) -> Self {
        let content = Value::String(text.into());
        Self { role: role.into(), content, others: Map::new() }
    }

    /// Returns the text of the message: of its parts, those that are text, in order.
    pub fn text(&self) -> Cow<'_, str> {
        match &self.content {
            Value::String(text) => text.into(),
            Value::Array(parts) => {
                parts.iter().filter_map(|part| part.get("text")?.as_str()).collect()
            }
            _ => "".into(),
        }
    }

    /// Reads a message with `role` and `content`.
    ///
    /// # Errors
    /// The deviation from a message.
    pub fn from_json(json: Value) -> Result<Self, String> {
        let Value::Object(mut others) = json else {
            return Err("a message is not an object".into());
        };
        let Some(Value::String(role)) = others.shift_remove("role") else {
            return Err("a message has no 'role'".into());
        };
        // An assistant message may have only tool calls.
        let content = others.shift_remove("content").unwrap_or_default();
        match &content {
            Value::String(_) | Value::Null => {}
            Value::Array(parts) if parts.iter().all(Value::is_object) => {}
            Value::Array(_) => return Err("a message has a part that is not an object".into()),
            _ => return Err("the 'content' of a message is neither a string nor a list".into()),
        }
        Ok(Self { role, content, others })
    }

    /// Returns the message for a chat.
    pub fn to_json(&self) -> Value {
        let mut members = Map::new();
        members.insert("role".into(), json!(self.role));
        members.insert("content".into(), self.content.clone());
        members.extend(self.others.clone());
        Value::Object(members)
    }

    /// Appends a typed part to the content, behind the text.
    pub fn push_part(&mut self, part: Value) {
        match &mut self.content {
            Value::Array(parts) => parts.push(part),
            content => {
                let text = content.take();
                let text = text.as_str().filter(|text| !text.is_empty());
                let text = text.map(|text| json!({"type": "text", "text": text}));
                *content = text.into_iter().chain([part]).collect();
            }
        }
    }

    /// Returns the bytes of the message and of its content.
    pub(crate) fn size(&self) -> usize {
        let parts = match &self.content {
            Value::String(text) => text.len(),
            Value::Array(parts) => parts.iter().map(|part| part.to_string().len()).sum(),
            _ => 0,
        };
        let others = self.others.values().map(|value| value.to_string().len());
        size_of::<Self>() + parts + others.sum::<usize>()
    }
}

/// Returns the media type and the Base64 of a part of a message; `None` unless it is an image with its
/// data.
pub(super) fn inline_image(part: &Value) -> Option<(&str, &str)> {
    let url = part.get("image_url").filter(|_| part["type"] == "image_url")?;
    let url = url.get("url").unwrap_or(url).as_str()?;
    url.strip_prefix("data:")?.split_once(";base64,")
}
