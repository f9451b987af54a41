//! Prompts for text servers: from files, from recorded traces, or synthetic.

mod lengths;
mod read;
mod synthetic;
mod trace;

use std::sync::Arc;

use dyno_loadgen::clock::Nanos;

pub use lengths::Lengths;
pub use read::{Format, ReadError, Row};
pub use synthetic::{Shape, SyntheticPrompts};

use crate::openai::Input;

/// Prompts, each of which is a sample.
///
/// ```
/// use dyno_net::openai::Input;
/// use dyno_net::workload::{Format, Shape, Workload};
///
/// let rows = Format::JsonLines.rows(br#"{"prompt": "Once upon"}"#)?;
/// let workload = Workload::of_rows(&rows, Shape::Words, 1)?;
/// assert_eq!(workload.prompts[0].input, Input::Text("Once upon".into()));
/// # Ok::<(), dyno_net::workload::ReadError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Workload {
    /// In the order of the samples.
    pub prompts: Vec<Prompt>,
    /// Send times, if recorded: since the first prompt, ascending.
    pub arrivals: Option<Arc<[Nanos]>>,
    /// Number of conversations that the prompts are turns of; 0 if each is independent.
    pub sessions: usize,
    /// Notes for the user.
    pub remarks: Vec<String>,
}

/// A prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Content to send.
    pub input: Input,
    /// Maximum number of output tokens, if given.
    pub max_tokens: Option<u64>,
    /// Correct answer, if known.
    pub reference: Option<String>,
}

impl Prompt {
    /// Creates a prompt without a limit or a reference.
    #[must_use]
    pub fn new(input: Input) -> Self {
        Self { input, max_tokens: None, reference: None }
    }
}

impl Workload {
    /// Returns the times of a recorded trace, sped up by this factor; `None` if there are none.
    ///
    /// # Panics
    /// If `speed_up` is not above 0.
    #[must_use]
    pub fn schedule(&self, speed_up: f64) -> Option<Arc<[Nanos]>> {
        assert!(speed_up > 0.0, "a trace is played forwards");
        let times = self.arrivals.as_ref()?;
        Some(times.iter().map(|&at| (at as f64 / speed_up).round() as Nanos).collect())
    }

    /// Returns the prompts as chat messages of the user; prompts that are conversations stay
    /// unchanged.
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
