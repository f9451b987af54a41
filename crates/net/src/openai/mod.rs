//! The OpenAI-compatible interface for text, in both directions and without sockets:
//! `/v1/completions` and `/v1/chat/completions`, whole answers and streams of events.
//!
//! Source: the API reference ("Completions", "Chat", "Streaming"), and observed deviations of
//! servers: no `usage`, a new `id` in each chunk, chunks of several or no characters, errors in the
//! middle of a stream.

mod adapt;
mod answer;
mod builder;
mod client;
mod content;
mod request;
mod usage;
mod write;

pub use adapt::{AdaptedServer, adapt};
pub use answer::{Part, Usage, error_words, read_part};
pub use client::{LimitMember, OpenAi, Settings};
pub use request::{Input, Message, Request};
pub use usage::Claim;
pub use write::{Writer, error_body, models_body, write_done};

/// Data of the last event of a stream.
pub const DONE: &[u8] = b"[DONE]";

/// Endpoint of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Api {
    /// Continues a prompt.
    Completions,
    /// Answers messages.
    Chat,
}

impl Api {
    /// Returns the path below that of the interface, which usually is `/v1`.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Self::Completions => "/completions",
            Self::Chat => "/chat/completions",
        }
    }
}
