//! Prompts for text servers: from files, from recorded traces, or synthetic.

mod budget;
mod chats;
mod conversation;
pub mod images;
mod lengths;
mod members;
mod read;
pub mod recordings;
mod rows;
mod synthetic;
mod tasks;
mod trace;

use std::num::NonZero;
use std::sync::Arc;

use dyno_loadgen::clock::Nanos;
use serde_json::{Map, Value};

use budget::SizeBudget;
pub use conversation::{Conversation, History, RecordedTurn, SyntheticConversations, ThinkTimes};
pub use lengths::{LengthMix, LengthPair, Lengths};
pub use members::RowMembers;
pub use read::{Format, ReadError, Row, Rows};
pub use rows::RowOptions;
pub(crate) use synthetic::draw_words;
pub use synthetic::{Shape, SyntheticPrompts, WORDS_REMARK};

use crate::openai::{Api, Input, Message, edits_take, ollama_takes};

/// Text before a prompt in whose place each request has another number of as many digits.
pub const UNIQUE_MARK: &str = "000000000000000";

/// Prompts, each of which is a sample.
///
/// ```
/// use dyno_net::openai::Input;
/// use dyno_net::workload::{Format, RowOptions, Workload};
///
/// let rows = Format::JsonLines.rows(br#"{"prompt": "Once upon"}"#)?;
/// let workload = Workload::of_rows(rows, &RowOptions::default())?;
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
    /// Conversations that are played with live answers, whose turns the prompts are; their messages
    /// are here and not in the prompts. Empty if each prompt is independent.
    pub conversations: Vec<Conversation>,
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
    /// Input tokens that it should have, if it is made up.
    pub input_tokens: Option<u64>,
    /// Members of its request, which replace those of the settings.
    pub members: Map<String, Value>,
}

impl Prompt {
    /// Creates a prompt of nothing but its content.
    pub fn new(input: Input) -> Self {
        Self { input, max_tokens: None, reference: None, input_tokens: None, members: Map::new() }
    }
}

impl Workload {
    /// Returns what is sent for a sample, as JSON: its text, its messages, or for a turn of a live
    /// conversation the messages since the last answer. Null for a request with results of tools, which
    /// are only known in the run.
    pub fn input_json(&self, sample: usize) -> Value {
        let after = self.conversations.partition_point(|one| one.first <= sample);
        if let Some(conversation) = after.checked_sub(1).and_then(|at| self.conversations.get(at)) {
            let (turn, step) = conversation.place(sample);
            let turn = conversation.turns.get(turn).filter(|_| step == 0);
            return turn.map_or(Value::Null, |turn| turn.messages.clone().into());
        }
        self.prompts.get(sample).map_or(Value::Null, |prompt| prompt.input.to_json())
    }

    /// Returns the times of a recorded trace, sped up by this factor; `None` if there are none.
    ///
    /// # Panics
    /// If `speed_up` is not above 0.
    pub fn schedule(&self, speed_up: f64) -> Option<Arc<[Nanos]>> {
        assert!(speed_up > 0.0, "a trace is played forwards");
        let times = self.arrivals.as_ref()?;
        Some(times.iter().map(|&at| (at as f64 / speed_up).round() as Nanos).collect())
    }

    /// Returns a recorded trace that is played several times, one after the other. The mean gap of the
    /// trace lies between the last request of a round and the first of the next.
    ///
    /// # Errors
    /// Prompts without recorded times, or more than 512 MiB of them.
    pub fn repeated(mut self, times: NonZero<u32>) -> Result<Self, String> {
        let arrivals = self.arrivals.take().filter(|_| self.conversations.is_empty());
        let arrivals = arrivals.ok_or("it belongs to recorded traces of single requests")?;
        let bytes = self.prompts.iter().map(|prompt| prompt.input.to_json().to_string().len());
        let mut budget = SizeBudget::for_prompts(
            (self.prompts.len() as u64).saturating_mul(times.get().into()),
            0,
        )?;
        if times.get() > 1 {
            budget.bytes((bytes.sum::<usize>() as u64).saturating_mul(times.get().into()))?;
        }
        let span = arrivals.last().copied().unwrap_or(0);
        let gaps = (arrivals.len() as u64).saturating_sub(1).max(1);
        let round = span.saturating_add(span / gaps);
        let rounds = 0..u64::from(times.get());
        let at = |number: u64| arrivals.iter().map(move |at| at + number * round);
        self.arrivals = Some(rounds.flat_map(at).collect());
        let once = self.prompts.len();
        self.prompts =
            self.prompts.iter().cycle().take(once * times.get() as usize).cloned().collect();
        self.sessions *= times.get() as usize;
        if times.get() > 1 {
            self.remarks.push(format!(
                "The trace ({once} {}) is played {times} times.",
                if once == 1 { "request" } else { "requests" }
            ));
        }
        Ok(self)
    }

    /// Puts [`UNIQUE_MARK`] in front of each prompt, so that no server finds the beginning of a
    /// request in a cache.
    ///
    /// # Errors
    /// A prompt that does not begin with a text.
    pub fn with_unique_prefix(mut self) -> Result<Self, String> {
        for (at, prompt) in self.prompts.iter_mut().enumerate() {
            let text = match &mut prompt.input {
                Input::Text(text) | Input::Ranking { query: text, .. } => Some(text),
                Input::Messages(all) => {
                    let content = all.first_mut().map(|first| &mut first.content);
                    match content {
                        Some(Value::String(text)) => Some(text),
                        Some(Value::Array(parts)) => {
                            match parts.first_mut().and_then(|part| part.get_mut("text")) {
                                Some(Value::String(text)) => Some(text),
                                _ => None,
                            }
                        }
                        _ => None,
                    }
                }
                Input::Texts(_) | Input::Tokens(_) | Input::Recording(_) => None,
            };
            let text = text.ok_or_else(|| format!("sample {} does not begin with text", at + 1))?;
            text.insert(0, ' ');
            text.insert_str(0, UNIQUE_MARK);
        }
        Ok(self)
    }

    /// Returns the prompts for an endpoint: texts for a chat become messages of the user.
    ///
    /// # Errors
    /// A prompt that the endpoint does not take.
    pub fn for_api(mut self, api: Api) -> Result<Self, String> {
        for (at, prompt) in self.prompts.iter_mut().enumerate() {
            let is_chat =
                matches!(api, Api::Chat | Api::Messages | Api::Gemini | Api::Ollama | Api::Cohere);
            if let (true, Input::Text(text)) = (is_chat, &mut prompt.input) {
                prompt.input = Input::Messages(vec![Message::new("user", std::mem::take(text))]);
            }
            let takes = match &prompt.input {
                Input::Text(_) => !is_chat && !matches!(api, Api::Rerank | Api::Transcriptions),
                Input::Tokens(_) => {
                    matches!(api, Api::Completions | Api::Generate | Api::Embeddings)
                }
                Input::Texts(_) => api == Api::Embeddings,
                Input::Messages(all) if matches!(api, Api::Gemini | Api::Ollama) => {
                    if !all.iter().all(ollama_takes) {
                        let path = api.path();
                        return Err(format!(
                            "sample {} has a part that {path} does not accept: expected texts, and \
                             images as files or data URIs",
                            at + 1
                        ));
                    }
                    true
                }
                Input::Messages(all) if api == Api::Images => {
                    if !edits_take(all) {
                        return Err(format!(
                            "sample {}: /images/edits accepts a text with images as files or \
                             data URIs, found another message",
                            at + 1
                        ));
                    }
                    true
                }
                Input::Messages(_) => is_chat || api == Api::Responses,
                Input::Ranking { .. } => api == Api::Rerank,
                Input::Recording(_) => api == Api::Transcriptions,
            };
            if !takes {
                let content = match &prompt.input {
                    Input::Text(_) => "a text",
                    Input::Texts(_) => "a list of texts",
                    Input::Tokens(_) => "tokens",
                    Input::Messages(_) => "messages",
                    Input::Ranking { .. } => "a question with documents",
                    Input::Recording(_) => "a recording",
                };
                let path = api.path();
                return Err(format!(
                    "sample {} is {content}, which {path} does not accept",
                    at + 1
                ));
            }
        }
        Ok(self)
    }
}
