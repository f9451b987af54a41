//! Client side: requests of samples and readers of answers.

use std::sync::Arc;

use dyno_loadgen::qsl::SampleIndex;
use serde_json::{Map, Value};

use super::builder::{AnswerBuilder, Form};
use super::{Request as Body, error_words};
use crate::exchange::{Fields, HttpVersion, Method, Request};
use crate::ledger::{AcceptedClasses, Class, Demand, Entry, Oddity, settle};
use crate::protocol::{
    Answer, COPIED_PER_PARSED, PARSED_PER_TOKENIZED, Protocol, ReadProgress, Reader, ReaderCall,
};
use crate::sse;
use crate::tokens::Tokenize;
use crate::trouble::{Kind, Trouble};
use crate::workload::Workload;

/// Maximum bytes of a whole answer or an error.
const LONGEST_ANSWER: usize = 64 << 20;

/// Settings of requests for text.
#[derive(Clone)]
pub struct Settings {
    /// Model; empty if the server has only one.
    pub model: String,
    /// Answers come in parts.
    pub is_streaming: bool,
    /// Whether to request `usage` at the end of a stream, which few servers refuse, and to trust
    /// it. If false, usage is ignored.
    pub asks_usage: bool,
    /// Maximum number of output tokens, for samples without their own.
    pub max_tokens: Option<u64>,
    /// Further members of each request, such as `temperature`.
    pub others: Map<String, Value>,
    /// Counts tokens if the server does not, or contradicts itself.
    pub tokenizer: Option<Arc<dyn Tokenize>>,
    /// Classes of answers that count as success beside whole ones.
    pub accepted: AcceptedClasses,
    /// HTTP version.
    pub version: HttpVersion,
}

/// A workload for a server of the OpenAI interface.
pub struct OpenAi {
    workload: Arc<Workload>,
    settings: Settings,
}

impl OpenAi {
    /// Creates the protocol of a workload. Messages go to the chat endpoint, other prompts to
    /// completions.
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
        let Settings { tokenizer, asks_usage, accepted, is_streaming, .. } = &self.settings;
        Box::new(AnswerReader {
            workload: self.workload.clone(),
            demands: Demands::new(&self.settings),
            tokenizer: tokenizer.clone(),
            ignores_usage: !asks_usage,
            accepted: *accepted,
            was_asked_to_stream: *is_streaming,
            demand: Demand::default(),
            status: 0,
            is_stream: false,
            events: sse::Parser::default(),
            body: Vec::new(),
            builder: AnswerBuilder::default(),
            entry: None,
        })
    }
}

/// Demands of requests on their answers, by the settings.
#[derive(Debug, Clone, Copy)]
struct Demands {
    /// Default of samples without their own limit.
    most: Option<u64>,
    /// Limit in the members of every request, which replaces that of a sample.
    fixed_most: Option<u64>,
    least: Option<u64>,
    ignores_end: bool,
    choices: u16,
}

impl Demands {
    fn new(settings: &Settings) -> Self {
        let count = |name: &str| settings.others.get(name).and_then(Value::as_u64);
        Self {
            most: settings.max_tokens,
            // The newer name takes precedence, as in OpenAI's own service.
            fixed_most: count("max_completion_tokens").or_else(|| count("max_tokens")),
            least: count("min_tokens"),
            ignores_end: settings.others.get("ignore_eos") == Some(&Value::Bool(true)),
            choices: count("n").and_then(|n| u16::try_from(n).ok()).unwrap_or(1).max(1),
        }
    }

    /// Returns the demand of a request whose sample has this limit.
    fn demand(&self, max_tokens: Option<u64>) -> Demand {
        let count = |tokens: u64| u32::try_from(tokens).unwrap_or(u32::MAX);
        let most = self.fixed_most.or(max_tokens).or(self.most);
        let least = if self.ignores_end { most } else { self.least };
        Demand { most: most.map(count), least: least.map(count), choices: self.choices }
    }
}

struct AnswerReader {
    workload: Arc<Workload>,
    demands: Demands,
    tokenizer: Option<Arc<dyn Tokenize>>,
    ignores_usage: bool,
    accepted: AcceptedClasses,
    was_asked_to_stream: bool,
    /// Demand of the current request.
    demand: Demand,
    status: u16,
    is_stream: bool,
    events: sse::Parser,
    /// Body of an answer that is not an event stream.
    body: Vec<u8>,
    builder: AnswerBuilder,
    /// Account of the finished answer.
    entry: Option<Entry>,
}

impl AnswerReader {
    fn form(&self) -> Form {
        if self.is_stream { Form::Stream } else { Form::Whole }
    }

    /// Returns the trouble of reading, and creates the account of the answer.
    fn settle(&mut self) -> Result<(), Trouble> {
        let form = self.form();
        let trouble = self.builder.trouble.take();
        let tokenizer = self.tokenizer.as_deref().filter(|_| trouble.is_none());
        let mut entry = self.builder.entry(self.demand, form, tokenizer, self.ignores_usage);
        if self.was_asked_to_stream && !self.is_stream {
            entry.oddities.insert(Oddity::NoStream);
        }
        match trouble {
            Some(trouble) if AnswerBuilder::is_in_band(&trouble) => {
                entry.class = Class::InBand;
                self.entry = Some(entry);
                Err(trouble)
            }
            Some(trouble) => Err(trouble),
            None => {
                self.entry = Some(entry);
                settle(entry.class, self.accepted, || self.builder.words(&entry))
            }
        }
    }
}

impl Reader for AnswerReader {
    fn expect(&mut self, sample: SampleIndex) {
        let prompt = self.workload.prompts.get(sample as usize);
        self.demand = self.demands.demand(prompt.and_then(|prompt| prompt.max_tokens));
    }

    fn begin(&mut self, status: u16, fields: &dyn Fields) -> Result<(), Trouble> {
        self.status = status;
        self.body.clear();
        self.events.clear();
        self.builder.clear();
        self.entry = None;
        // Decided by the content type, not by the request: some servers ignore `stream`.
        let kind = fields.field("content-type").unwrap_or_default();
        self.is_stream = Kind::of_status(status).is_none()
            && kind.get(..17).is_some_and(|kind| kind.eq_ignore_ascii_case(b"text/event-stream"));
        Ok(())
    }

    fn data(&mut self, bytes: &[u8]) -> Result<ReadProgress, Trouble> {
        if !self.is_stream {
            if self.body.len() + bytes.len() > LONGEST_ANSWER {
                let words = format!("an answer of more than {LONGEST_ANSWER} bytes");
                return Err(Trouble::new(Kind::Malformed, words));
            }
            self.body.extend_from_slice(bytes);
            return Ok(ReadProgress::default());
        }
        let before = self.builder.parts;
        let (builder, mut has_more) = (&mut self.builder, false);
        let event = |event: sse::Event<'_>| {
            let parts = builder.parts;
            builder.event(event);
            has_more = builder.parts == parts;
        };
        self.events.push(bytes, event).map_err(too_long)?;
        if builder.trouble.is_some() {
            self.settle()?;
        }
        Ok(ReadProgress {
            beats: self.builder.parts - before,
            is_done: self.builder.is_done,
            has_more,
        })
    }

    fn finish(&mut self) -> Result<ReadProgress, Trouble> {
        let (before, builder) = (self.builder.parts, &mut self.builder);
        if self.is_stream {
            self.events.finish(|event| builder.event(event)).map_err(too_long)?;
        }
        Ok(ReadProgress {
            beats: builder.parts - before,
            is_done: builder.is_done,
            has_more: false,
        })
    }

    fn effort(&self, next: ReaderCall) -> usize {
        let is_tokenized = self.tokenizer.is_some() && !self.builder.has_usage();
        let per_byte = if is_tokenized { PARSED_PER_TOKENIZED } else { 1 };
        match next {
            ReaderCall::Data(bytes) if self.is_stream => self.events.kept_bytes() + bytes,
            ReaderCall::Data(bytes) => bytes / COPIED_PER_PARSED,
            ReaderCall::End if self.is_stream && is_tokenized => {
                self.builder.text.len() * PARSED_PER_TOKENIZED
            }
            ReaderCall::End if self.is_stream => self.events.kept_bytes(),
            ReaderCall::End => self.body.len() * per_byte,
        }
    }

    fn end(&mut self, _trailers: Option<&dyn Fields>) -> Result<Answer<'_>, Trouble> {
        if let Some(kind) = Kind::of_status(self.status) {
            return Err(Trouble::of_status(kind, self.status, &error_words(&self.body)));
        }
        let builder = &mut self.builder;
        if !self.is_stream {
            builder.part(&self.body);
        }
        self.settle()?;
        let entry = self.entry.unwrap_or_default();
        let tokens = entry.output.map_or(0, i64::from);
        let counted_by = entry.counted_by;
        Ok(Answer { data: &self.builder.text, tokens, counted_by, entry: self.entry })
    }

    fn entry(&self) -> Option<Entry> {
        self.entry
    }
}

fn too_long(_: sse::TooLongError) -> Trouble {
    let words = format!("an event of more than {} bytes", sse::Parser::LIMIT);
    Trouble::new(Kind::Malformed, words)
}
