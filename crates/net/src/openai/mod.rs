//! The OpenAI-compatible interface for text, in both directions and without sockets:
//! `/v1/completions` and `/v1/chat/completions`, whole answers and streams of events.
//!
//! Source: the API reference ("Completions", "Chat", "Streaming"), and what servers are seen to
//! do beside it: no `usage`, a new `id` in each chunk, chunks of several or no characters,
//! errors in the middle of a stream.

mod answer;
mod client;
mod content;
mod request;
mod said;
mod usage;
mod write;

pub use answer::{Part, Usage, error_words, read_part};
pub use client::{OpenAi, Settings};
pub use request::{Input, Message, Request};
pub use usage::Claim;
pub use write::{Writer, error_body, models_body, write_done};

/// What the last event of a stream has as its data.
pub const DONE: &[u8] = b"[DONE]";

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Api {
    /// A prompt is continued.
    Completions,
    /// Messages are answered.
    Chat,
}

impl Api {
    /// Path below that of the interface, which mostly is `/v1`.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Self::Completions => "/completions",
            Self::Chat => "/chat/completions",
        }
    }
}
