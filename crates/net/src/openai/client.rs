//! The client's side: what is sent for a sample, and how answers are read.

use std::sync::Arc;

use dyno_loadgen::qsl::SampleIndex;
use serde_json::{Map, Value};

use super::{DONE, Request as Body, Usage, error_words, read_part};
use crate::exchange::{Fields, HttpVersion, Method, Request};
use crate::protocol::{
    Answer, COPIED_PER_PARSED, Heard, Next, PARSED_PER_TOKENIZED, Protocol, Reader,
};
use crate::sse::{self, Event};
use crate::tokens::{self, Tokenize};
use crate::trouble::{Kind, Trouble};
use crate::workload::Workload;

/// A whole answer, or what an error says, that is longer is given up.
const LONGEST_ANSWER: usize = 64 << 20;

/// How texts are asked for.
#[derive(Clone)]
pub struct Settings {
    /// The model; empty where the server has but one.
    pub model: String,
    /// Answers come in parts.
    pub is_streaming: bool,
    /// Asks for `usage` at the end of a stream. Few servers refuse that.
    pub asks_usage: bool,
    /// Output tokens at most, where a sample says nothing.
    pub max_tokens: Option<u64>,
    /// Further members of each request, such as `temperature`.
    pub others: Map<String, Value>,
    /// What counts tokens where the server does not.
    pub tokenizer: Option<Arc<dyn Tokenize>>,
    /// What carries it.
    pub version: HttpVersion,
}

/// Texts of a workload, sent to a server of the interface.
pub struct OpenAi {
    workload: Arc<Workload>,
    settings: Settings,
}

impl OpenAi {
    /// Sends the prompts of a workload. Those that are messages go to the chat, others are
    /// continued.
    #[must_use]
    pub fn new(workload: Arc<Workload>, settings: Settings) -> Self {
        Self { workload, settings }
    }
}

impl Protocol for OpenAi {
    fn name(&self) -> &str {
        if self.settings.is_streaming { "openai-stream" } else { "openai" }
    }

    fn version(&self) -> HttpVersion {
        self.settings.version
    }

    fn sample_count(&self) -> usize {
        self.workload.prompts.len()
    }

    fn request(&self, sample: SampleIndex) -> Request {
        let Settings { model, is_streaming, asks_usage, others, .. } = &self.settings;
        let prompt = &self.workload.prompts[sample as usize];
        let body = Body {
            model: model.clone(),
            input: prompt.input.clone(),
            max_tokens: prompt.max_tokens.or(self.settings.max_tokens),
            stream: *is_streaming,
            include_usage: *asks_usage,
            others: others.clone(),
        };
        let accept = if *is_streaming { "text/event-stream" } else { "application/json" };
        Request {
            method: Method::Post,
            path: prompt.input.api().path().into(),
            fields: vec![("content-type", "application/json".into()), ("accept", accept.into())],
            body: body.to_json().into(),
        }
    }

    fn is_streaming(&self) -> bool {
        self.settings.is_streaming
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::new(AnswerReader {
            tokenizer: self.settings.tokenizer.clone(),
            status: 0,
            is_stream: false,
            events: sse::Parser::default(),
            body: Vec::new(),
            said: Said::default(),
        })
    }
}

/// What an answer has said so far.
#[derive(Default)]
struct Said {
    text: Vec<u8>,
    usage: Option<Usage>,
    /// Events with output.
    beats: u32,
    is_finished: bool,
    is_done: bool,
    trouble: Option<Trouble>,
}

impl Said {
    fn clear(&mut self) {
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        *self = Self { text, ..Self::default() };
    }

    fn event(&mut self, event: Event<'_>) {
        if self.is_done || self.trouble.is_some() {
            return;
        }
        if event.data == DONE {
            self.is_done = true;
            return;
        }
        self.part(event.data);
    }

    fn part(&mut self, json: &[u8]) {
        match read_part(json, &mut self.text) {
            Ok(part) => {
                self.beats += u32::from(part.has_output);
                self.is_finished |= part.is_finished;
                // Some servers count on in each part: the last one is right.
                self.usage = part.usage.or(self.usage);
            }
            Err(trouble) => self.trouble = Some(trouble),
        }
    }
}

struct AnswerReader {
    tokenizer: Option<Arc<dyn Tokenize>>,
    status: u16,
    is_stream: bool,
    events: sse::Parser,
    /// What is no stream of events.
    body: Vec<u8>,
    said: Said,
}

impl Reader for AnswerReader {
    fn begin(&mut self, status: u16, fields: &dyn Fields) -> Result<(), Trouble> {
        self.status = status;
        self.body.clear();
        self.events.clear();
        self.said.clear();
        // By what came, not by what was asked for: some servers ignore `stream`.
        let kind = fields.field("content-type").unwrap_or_default();
        self.is_stream = Kind::of_status(status).is_none()
            && kind.get(..17).is_some_and(|kind| kind.eq_ignore_ascii_case(b"text/event-stream"));
        Ok(())
    }

    fn data(&mut self, bytes: &[u8]) -> Result<Heard, Trouble> {
        if !self.is_stream {
            if self.body.len() + bytes.len() > LONGEST_ANSWER {
                let words = format!("an answer of more than {LONGEST_ANSWER} bytes");
                return Err(Trouble::new(Kind::Malformed, words));
            }
            self.body.extend_from_slice(bytes);
            return Ok(Heard::default());
        }
        let before = self.said.beats;
        let said = &mut self.said;
        self.events.push(bytes, |event| said.event(event)).map_err(too_long)?;
        match said.trouble.take() {
            Some(trouble) => Err(trouble),
            None => Ok(Heard { beats: said.beats - before, is_done: said.is_done }),
        }
    }

    fn finish(&mut self) -> Result<Heard, Trouble> {
        let (before, said) = (self.said.beats, &mut self.said);
        if self.is_stream {
            self.events.finish(|event| said.event(event)).map_err(too_long)?;
        }
        Ok(Heard { beats: said.beats - before, is_done: said.is_done })
    }

    fn effort(&self, next: Next) -> usize {
        let is_tokenized = self.tokenizer.is_some() && self.said.usage.is_none();
        let per_byte = if is_tokenized { PARSED_PER_TOKENIZED } else { 1 };
        match next {
            Next::Data(bytes) if self.is_stream => self.events.kept() + bytes,
            Next::Data(bytes) => bytes / COPIED_PER_PARSED,
            Next::End if self.is_stream => match is_tokenized {
                true => self.said.text.len() * PARSED_PER_TOKENIZED,
                false => self.events.kept(),
            },
            Next::End => self.body.len() * per_byte,
        }
    }

    fn end(&mut self, _trailers: Option<&dyn Fields>) -> Result<Answer<'_>, Trouble> {
        if let Some(kind) = Kind::of_status(self.status) {
            return Err(Trouble::of_status(kind, self.status, &error_words(&self.body)));
        }
        let said = &mut self.said;
        if !self.is_stream {
            said.part(&self.body);
        }
        if let Some(trouble) = said.trouble.take() {
            return Err(trouble);
        }
        if self.is_stream && !said.is_done && !said.is_finished {
            let words = "the stream ended with neither [DONE] nor a finish_reason";
            return Err(Trouble::new(Kind::Closed, words));
        }
        let events = self.is_stream.then_some(said.beats);
        let (tokens, counted_by) =
            tokens::count(said.usage, self.tokenizer.as_deref(), &said.text, events);
        Ok(Answer { data: &said.text, tokens, counted_by })
    }
}

fn too_long(_: sse::TooLong) -> Trouble {
    let words = format!("an event of more than {} bytes", sse::Parser::LIMIT);
    Trouble::new(Kind::Malformed, words)
}
