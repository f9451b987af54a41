//! Interfaces of servers of language models, without sockets: completions and chats in both
//! directions, and clients of Responses, transcriptions, embeddings, rankings, images, SGLang's `/generate`,
//! Anthropic's Messages, Gemini's own interface, Ollama's and Cohere's chats, Text Generation Inference, and Triton's
//! generate extension.
//!
//! Source: the API reference of OpenAI ("Completions", "Chat", "Responses", "Embeddings",
//! "Streaming"), those of Jina (rerank) and SGLang (native API), and observed deviations of
//! servers: no `usage`, a new `id` in each chunk, chunks of several or no characters, errors in the
//! middle of a stream.

mod adapt;
mod answer;
mod body;
mod builder;
mod client;
mod cohere;
mod content;
mod demands;
mod fit;
mod form;
mod gemini;
mod generate;
mod images;
mod live;
mod message;
mod messages;
mod multipart;
mod ollama;
mod repair;
mod request;
mod responses;
mod tgi;
mod transcription;
mod triton;
mod usage;
mod vectors;
mod write;

use std::str::FromStr;

pub use adapt::{AdaptedServer, adapt, force_lengths};
pub use answer::{Part, Usage, error_words, read_part};
pub use client::{LimitMember, OpenAi, Settings};
pub use fit::{FittedPrompts, TextCounter, fit};
pub use gemini::split_url as split_url_of_gemini;
pub use images::EDITS;
pub(crate) use images::takes as edits_take;
pub use message::{Input, Message, Recording};
pub(crate) use ollama::takes as ollama_takes;
pub use request::Request;
pub use usage::Claim;
pub use write::{Writer, error_body, models_body, write_done};

/// Data of the last event of a stream.
pub const DONE: &[u8] = b"[DONE]";

dyno_loadgen::named_enum! {
    /// Endpoint of a server.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Api {
        /// Continues a prompt.
        Completions = "completions",
        /// Answers messages.
        Chat = "chat",
        /// Answers messages, with typed events.
        Responses = "responses",
        /// Continues a prompt, in SGLang's own interface.
        Generate = "generate",
        /// Answers messages, in Anthropic's interface.
        Messages = "messages",
        /// Answers messages, in Gemini's own interface.
        Gemini = "gemini",
        /// Answers messages, in Ollama's own interface.
        Ollama = "ollama",
        /// Answers messages, in version 2 of Cohere's interface.
        Cohere = "cohere",
        /// Continues a prompt, in the interface of Text Generation Inference.
        Tgi = "tgi",
        /// Continues a prompt, in the generate extension of Triton.
        Triton = "triton",
        /// Returns the text of a recording.
        Transcriptions = "transcriptions",
        /// Returns a vector for each text.
        Embeddings = "embeddings",
        /// Returns a score for each document.
        Rerank = "rerank",
        /// Returns images for a description, or edits the images of a prompt.
        Images = "images",
    }
}

impl Api {
    /// Returns the path below that of the interface, which usually is `/v1`; those of SGLang, Ollama, Cohere and
    /// Text Generation Inference lie beside it, those of Triton and Gemini behind their model.
    pub fn path(self) -> &'static str {
        match self {
            Self::Completions => "/completions",
            Self::Chat => "/chat/completions",
            Self::Responses => "/responses",
            Self::Generate => "/generate",
            Self::Messages => "/messages",
            Self::Gemini => ":streamGenerateContent",
            Self::Ollama => "/api/chat",
            Self::Cohere => "/v2/chat",
            Self::Tgi | Self::Triton => "/generate_stream",
            Self::Transcriptions => "/audio/transcriptions",
            Self::Embeddings => "/embeddings",
            Self::Rerank => "/rerank",
            Self::Images => "/images/generations",
        }
    }

    /// Returns the path of requests whose answers come whole.
    pub fn whole_path(self) -> &'static str {
        match self {
            Self::Tgi | Self::Triton => "/generate",
            Self::Gemini => ":generateContent",
            other => other.path(),
        }
    }

    /// Returns whether its path lies beside `/v1`.
    pub fn is_beside_v1(self) -> bool {
        matches!(self, Self::Generate | Self::Ollama | Self::Cohere | Self::Tgi | Self::Triton)
    }

    /// Returns whether requests name a model.
    #[must_use]
    pub fn has_model(self) -> bool {
        !matches!(self, Self::Generate | Self::Tgi | Self::Triton)
    }

    /// Returns whether answers are texts.
    pub fn is_text(self) -> bool {
        !matches!(self, Self::Embeddings | Self::Rerank | Self::Images)
    }

    /// Returns whether answers can be streamed: texts, and images with preliminary ones.
    pub fn can_stream(self) -> bool {
        self.is_text() || self == Self::Images
    }

    /// Returns whether streams end with an event of their own, and not with `[DONE]`.
    fn has_end_event(self) -> bool {
        matches!(
            self,
            Self::Responses
                | Self::Messages
                | Self::Ollama
                | Self::Cohere
                | Self::Tgi
                | Self::Images
        )
    }

    /// Returns whether nothing but the end of the body ends a stream.
    fn ends_with_body(self) -> bool {
        matches!(self, Self::Triton | Self::Gemini)
    }

    /// Returns whether answers state why they end.
    fn has_finish_reasons(self) -> bool {
        self != Self::Triton
    }

    /// Returns the member that sets the number of choices of an answer.
    pub fn choices(self) -> &'static str {
        if self == Self::Gemini { "candidateCount" } else { "n" }
    }

    /// Returns the member that demands a number of output tokens; `None` if there is none.
    pub fn least(self) -> Option<&'static str> {
        match self {
            Self::Completions | Self::Chat => Some("min_tokens"),
            Self::Generate => Some("min_new_tokens"),
            Self::Responses
            | Self::Messages
            | Self::Gemini
            | Self::Ollama
            | Self::Cohere
            | Self::Tgi
            | Self::Triton
            | Self::Transcriptions
            | Self::Embeddings
            | Self::Rerank
            | Self::Images => None,
        }
    }

    /// Returns the member that limits output tokens; `None` if answers have none.
    pub fn limit(self) -> Option<&'static str> {
        match self {
            Self::Completions | Self::Chat | Self::Messages | Self::Cohere | Self::Triton => {
                Some("max_tokens")
            }
            Self::Responses => Some("max_output_tokens"),
            Self::Generate | Self::Tgi => Some("max_new_tokens"),
            Self::Ollama => Some("num_predict"),
            Self::Gemini => Some("maxOutputTokens"),
            Self::Transcriptions | Self::Embeddings | Self::Rerank | Self::Images => None,
        }
    }
}

impl FromStr for Api {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|api| api.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("expected one of {names}, found `{name}`")
        })
    }
}
