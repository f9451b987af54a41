//! The client's side: what is sent for a sample, and how answers are read.

use std::sync::Arc;

use dyno_loadgen::qsl::SampleIndex;
use serde_json::{Map, Value};

use super::said::{Form, Said};
use super::{Request as Body, error_words};
use crate::exchange::{Fields, HttpVersion, Method, Request};
use crate::ledger::{Accepted, Class, Demand, Entry, Oddity, settle};
use crate::protocol::{
    Answer, COPIED_PER_PARSED, Heard, Next, PARSED_PER_TOKENIZED, Protocol, Reader,
};
use crate::sse;
use crate::tokens::Tokenize;
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
    /// Requests `usage` at the end of a stream, which few servers refuse, and believes it. If
    /// not, usage is ignored wherever it comes.
    pub asks_usage: bool,
    /// Output tokens at most, where a sample says nothing.
    pub max_tokens: Option<u64>,
    /// Further members of each request, such as `temperature`.
    pub others: Map<String, Value>,
    /// Counts tokens where the server does not, or contradicts itself.
    pub tokenizer: Option<Arc<dyn Tokenize>>,
    /// Classes of answers that count as success beside whole ones.
    pub accepted: Accepted,
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
            said: Said::default(),
            entry: None,
        })
    }
}

/// What requests demand of their answers, by the settings.
#[derive(Debug, Clone, Copy)]
struct Demands {
    /// Where a sample states nothing.
    most: Option<u64>,
    /// What the members of every request state, which replaces the limit of a sample.
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
            // The newer name wins, as it does with the interface's owner.
            fixed_most: count("max_completion_tokens").or_else(|| count("max_tokens")),
            least: count("min_tokens"),
            ignores_end: settings.others.get("ignore_eos") == Some(&Value::Bool(true)),
            choices: count("n").and_then(|n| u16::try_from(n).ok()).unwrap_or(1).max(1),
        }
    }

    /// The demand of a request whose sample states this limit.
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
    accepted: Accepted,
    was_asked_to_stream: bool,
    /// Of the request that is answered.
    demand: Demand,
    status: u16,
    is_stream: bool,
    events: sse::Parser,
    /// What is no stream of events.
    body: Vec<u8>,
    said: Said,
    /// Of the answer that has ended.
    entry: Option<Entry>,
}

impl AnswerReader {
    fn form(&self) -> Form {
        if self.is_stream { Form::Stream } else { Form::Whole }
    }

    /// Takes the trouble that reading met, and makes the account of the answer.
    fn settle(&mut self) -> Result<(), Trouble> {
        let form = self.form();
        let trouble = self.said.trouble.take();
        let tokenizer = self.tokenizer.as_deref().filter(|_| trouble.is_none());
        let mut entry = self.said.entry(self.demand, form, tokenizer, self.ignores_usage);
        if self.was_asked_to_stream && !self.is_stream {
            entry.oddities.insert(Oddity::NoStream);
        }
        match trouble {
            Some(trouble) if Said::is_in_band(&trouble) => {
                entry.class = Class::InBand;
                self.entry = Some(entry);
                Err(trouble)
            }
            Some(trouble) => Err(trouble),
            None => {
                self.entry = Some(entry);
                settle(entry.class, self.accepted, || self.said.words(&entry))
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
        self.said.clear();
        self.entry = None;
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
        let before = self.said.parts;
        let (said, mut has_more) = (&mut self.said, false);
        let event = |event: sse::Event<'_>| {
            let parts = said.parts;
            said.event(event);
            has_more = said.parts == parts;
        };
        self.events.push(bytes, event).map_err(too_long)?;
        if said.trouble.is_some() {
            self.settle()?;
        }
        Ok(Heard { beats: self.said.parts - before, is_done: self.said.is_done, has_more })
    }

    fn finish(&mut self) -> Result<Heard, Trouble> {
        let (before, said) = (self.said.parts, &mut self.said);
        if self.is_stream {
            self.events.finish(|event| said.event(event)).map_err(too_long)?;
        }
        Ok(Heard { beats: said.parts - before, is_done: said.is_done, has_more: false })
    }

    fn effort(&self, next: Next) -> usize {
        let is_tokenized = self.tokenizer.is_some() && !self.said.has_usage();
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
        self.settle()?;
        let entry = self.entry.unwrap_or_default();
        let tokens = entry.output.map_or(0, i64::from);
        let counted_by = entry.counted_by;
        Ok(Answer { data: &self.said.text, tokens, counted_by, entry: self.entry })
    }

    fn entry(&self) -> Option<Entry> {
        self.entry
    }
}

fn too_long(_: sse::TooLong) -> Trouble {
    let words = format!("an event of more than {} bytes", sse::Parser::LIMIT);
    Trouble::new(Kind::Malformed, words)
}
