//! Texts that a server is asked to go on with: from files, from recorded traces, or made up by
//! lengths.

mod lengths;
mod made;
mod read;
mod trace;

use std::sync::Arc;

use dyno_loadgen::clock::Nanos;

pub use lengths::Lengths;
pub use made::{Made, Shape};
pub use read::{Format, ReadError, Row};

use crate::openai::Input;

/// Prompts, each of which is a sample.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Workload {
    /// In the order of the samples.
    pub prompts: Vec<Prompt>,
    /// When each was sent, where that was recorded: since the first, ascending.
    pub arrivals: Option<Arc<[Nanos]>>,
    /// Conversations that the prompts are turns of; 0 where each stands alone.
    pub sessions: usize,
    /// What is to be told of it.
    pub remarks: Vec<String>,
}

/// A prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// What is sent.
    pub input: Input,
    /// Output tokens at most, where it says so.
    pub max_tokens: Option<u64>,
    /// The answer that is right, where it is known.
    pub reference: Option<String>,
}

impl Prompt {
    /// A prompt of which no more is known.
    #[must_use]
    pub fn of(input: Input) -> Self {
        Self { input, max_tokens: None, reference: None }
    }
}

impl Workload {
    /// Times of a recorded trace, played so many times as fast; `None` where there are none.
    ///
    /// # Panics
    /// If `speed_up` is not above 0.
    #[must_use]
    pub fn schedule(&self, speed_up: f64) -> Option<Arc<[Nanos]>> {
        assert!(speed_up > 0.0, "a trace is played forwards");
        let times = self.arrivals.as_ref()?;
        Some(times.iter().map(|&at| (at as f64 / speed_up).round() as Nanos).collect())
    }

    /// The same prompts as messages of a chat, each by itself from the user; what is a
    /// conversation already stays one.
    #[must_use]
    pub fn as_chat(mut self) -> Self {
        for prompt in &mut self.prompts {
            if let Input::Text(text) = &mut prompt.input {
                let message = crate::openai::Message::new("user", std::mem::take(text));
                prompt.input = Input::Messages(vec![message]);
            }
        }
        self
    }
}
