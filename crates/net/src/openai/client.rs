//! Client side: requests of samples and readers of answers.

use std::sync::Arc;

use dyno_loadgen::qsl::SampleIndex;
use serde_json::{Map, Value};

use super::answer::{in_band, without_choices};
use super::builder::{AnswerBuilder, Form, is_cut_off, is_event};
use super::demands::Demands;
use super::form::{MARK, form_of, form_of_lines, has_events, has_lines};
use super::live::{LiveConversations, goes_on_after_calls, recorded};
use super::vectors::Expectation;
use super::{Api, Input, Request as Body, body, error_words, gemini, images, transcription};
use crate::ask::HttpAnswer;
use crate::exchange::{Fields, HttpVersion, Method, Request};
use crate::ledger::{AcceptedClasses, Class, Demand, Entry, Oddity, settle};
use crate::protocol::{
    Answer, COPIED_PER_PARSED, LONGEST_ANSWER, NextTurn, OtherModel, PARSED_PER_TOKENIZED,
    Protocol, ReadProgress, Reader, ReaderCall, Reply,
};
use crate::sse;
use crate::tokens::Tokenize;
use crate::trouble::{Kind, Trouble};
use crate::workload::{Prompt, UNIQUE_MARK, Workload};

/// Settings of requests.
#[derive(Clone, Default)]
pub struct Settings {
    /// Endpoint; `None` takes that of each input.
    pub api: Option<Api>,
    /// Model; empty if the server has only one.
    pub model: String,
    /// Answers come in parts.
    pub is_streaming: bool,
    /// Whether to request `usage` at the end of a stream, which few servers refuse, and to trust
    /// it. If false, usage is ignored.
    pub asks_usage: bool,
    /// Maximum number of output tokens, for samples without their own.
    pub max_tokens: Option<u64>,
    /// Member of a request that holds this maximum.
    pub limit_member: LimitMember,
    /// Further members of each request, such as `temperature`. Those of a prompt replace them.
    pub others: Map<String, Value>,
    /// Members that no request has.
    pub without: Vec<String>,
    /// Each request has digits of its own in place of
    /// [`UNIQUE_MARK`](crate::workload::UNIQUE_MARK).
    pub is_unique: bool,
    /// The limit of an answer is its minimum, too.
    pub limit_is_least: bool,
    /// Numbers in each vector of an answer, if known.
    pub dimension: Option<usize>,
    /// Counts tokens if the server does not, or contradicts itself.
    pub tokenizer: Option<Arc<dyn Tokenize>>,
    /// Classes of answers that count as success beside whole ones.
    pub accepted: AcceptedClasses,
    /// HTTP version.
    pub version: HttpVersion,
}

/// Member of a request that limits its output tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LimitMember {
    /// `max_tokens`.
    #[default]
    MaxTokens,
    /// `max_completion_tokens`, which newer models of OpenAI demand.
    MaxCompletionTokens,
}

impl LimitMember {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::MaxTokens => "max_tokens",
            Self::MaxCompletionTokens => "max_completion_tokens",
        }
    }
}

impl Settings {
    /// Returns the endpoint for an input.
    fn api(&self, input: &Input) -> Api {
        self.api.unwrap_or_else(|| input.api())
    }

    /// Returns whether an answer is requested in parts.
    fn streams(&self, api: Api) -> bool {
        self.is_streaming && api.can_stream()
    }
}

/// A workload for a server of the OpenAI interface.
pub struct OpenAi {
    workload: Arc<Workload>,
    settings: Settings,
    /// The sessions, if the workload has conversations.
    live: Option<LiveConversations>,
}

impl OpenAi {
    /// Creates the protocol of a workload. Messages go to the chat endpoint, other prompts to
    /// completions.
    pub fn new(workload: Arc<Workload>, settings: Settings) -> Self {
        Self { live: LiveConversations::new(&workload), workload, settings }
    }

    /// Returns the endpoint of the first sample.
    pub(super) fn first_api(&self) -> Api {
        self.settings.api(&self.workload.prompts[0].input)
    }

    /// Returns the request of a sample, limited to one token, or to the fewest that the interface allows.
    pub(super) fn short_request(&self, sample: SampleIndex) -> Request {
        let least = if self.first_api() == Api::Responses { 16 } else { 1 };
        self.request_of(sample, Some(least))
    }

    /// Reads an answer to the request of a sample. Returns its account, and why it is no success.
    ///
    /// # Errors
    /// An answer that cannot be read.
    pub(super) fn read_answer(
        &self,
        sample: SampleIndex,
        answer: &HttpAnswer,
    ) -> Result<(Entry, Option<Trouble>), Trouble> {
        let mut reader = self.reader();
        reader.expect(sample);
        reader.begin(answer.status, answer.fields())?;
        reader.data(answer.body())?;
        reader.finish()?;
        let error = reader.end(None).map(|_| ()).err();
        match reader.entry() {
            Some(entry) => Ok((entry, error)),
            None => Err(error.unwrap_or_else(without_choices)),
        }
    }

    /// Returns the sample of the shortest prompt that differs from the first one, or the begin of another
    /// session; `None` if there is none.
    pub(super) fn other_sample(&self) -> Option<SampleIndex> {
        let other = match self.workload.conversations.as_slice() {
            [] => {
                let prompts = &self.workload.prompts;
                let differs = |sample: &usize| prompts[*sample].input != prompts[0].input;
                let others = (1..prompts.len()).filter(differs);
                others.min_by_key(|sample| prompts[*sample].input.size())?
            }
            [_] => return None,
            [_, second, ..] => second.first,
        };
        SampleIndex::try_from(other).ok()
    }

    /// Returns the request of a sample. That of a later turn of a session holds its recorded messages
    /// alone.
    pub(super) fn request_of(&self, sample: SampleIndex, limit: Option<u64>) -> Request {
        let prompt = &self.workload.prompts[sample as usize];
        match recorded(&self.workload, sample).filter(|_| self.live.is_some()) {
            Some((_, turn)) => {
                let messages = serde_json::to_vec(&turn.messages).expect("values are JSON");
                self.with_messages(prompt, limit, &messages)
            }
            None => self.limited_request(prompt, limit),
        }
    }

    /// Returns the request of a prompt with these messages, a list in JSON.
    fn with_messages(&self, prompt: &Prompt, limit: Option<u64>, messages: &[u8]) -> Request {
        const EMPTY: &[u8] = b"\"messages\":[]";
        let mut request = self.limited_request(prompt, limit);
        let body = &request.body;
        // The quotes of a text before it would be escaped.
        let at = body.windows(EMPTY.len()).position(|part| part == EMPTY);
        let at = at.expect("a prompt of a session has no messages of its own") + EMPTY.len() - 2;
        request.body = [&body[..at], messages, &body[at + 2..]].concat().into();
        request
    }

    fn limit(&self, sample: SampleIndex) -> Option<u64> {
        self.workload.prompts[sample as usize].max_tokens.or(self.settings.max_tokens)
    }

    fn limited_request(&self, prompt: &Prompt, limit: Option<u64>) -> Request {
        let Settings { model, asks_usage, limit_member, others, without, .. } = &self.settings;
        let api = self.settings.api(&prompt.input);
        let stream = self.settings.streams(api);
        let mut request = Body {
            model: model.clone(),
            input: prompt.input.clone(),
            max_tokens: limit,
            stream,
            include_usage: *asks_usage,
            others: others.clone(),
        };
        if *limit_member != LimitMember::MaxTokens
            && matches!(api, Api::Chat | Api::Completions)
            && let Some(limit) = request.max_tokens.take()
        {
            request.others.entry(limit_member.name()).or_insert_with(|| limit.into());
        }
        let mut members = body::members(&request, api);
        if let (true, Some(limit), Some(name)) = (self.settings.limit_is_least, limit, api.least())
        {
            body::set(&mut members, api, name, limit.into());
        }
        for (name, value) in &prompt.members {
            body::set(&mut members, api, name, value.clone());
        }
        for name in without {
            body::remove(&mut members, api, name);
        }
        let path = match &prompt.input {
            Input::Messages(_) if api == Api::Images => images::EDITS.into(),
            _ if api == Api::Gemini => gemini::path(&mut members, model, stream),
            _ if stream => api.path().into(),
            _ => api.whole_path().into(),
        };
        let accept = match (stream, api) {
            (false, _) => "application/json",
            (true, Api::Ollama) => "application/x-ndjson",
            (true, _) => "text/event-stream",
        };
        let (kind, body) = match &prompt.input {
            Input::Recording(recording) => transcription::form(&members, recording),
            Input::Messages(all) if api == Api::Images => images::edit_form(&members, all),
            _ => ("application/json".into(), Value::Object(members).to_string().into_bytes()),
        };
        Request {
            method: Method::Post,
            path,
            fields: vec![("content-type", kind), ("accept", accept.into())],
            body: body.into(),
        }
    }
}

impl Protocol for OpenAi {
    fn name(&self) -> &str {
        if self.is_streaming() { "openai-stream" } else { "openai" }
    }

    fn version(&self) -> HttpVersion {
        self.settings.version
    }

    fn sample_count(&self) -> usize {
        self.workload.prompts.len()
    }

    fn request(&self, sample: SampleIndex) -> Request {
        self.request_of(sample, self.limit(sample))
    }

    fn is_later_turn(&self, sample: SampleIndex) -> bool {
        self.live.is_some() && recorded(&self.workload, sample).is_some_and(|(turn, _)| turn > 0)
    }

    fn next_turn(&self, sample: SampleIndex, reply: &Reply) -> Option<NextTurn> {
        let next = self.live.as_ref()?.continued(&self.workload, sample, reply)?;
        let prompt = &self.workload.prompts[next.sample as usize];
        let request = self.with_messages(prompt, self.limit(next.sample), &next.messages);
        let has_other_tools = next.has_other_tools;
        Some(NextTurn { sample: next.sample, request, has_other_tools })
    }

    fn has_next_turn(&self, sample: SampleIndex) -> bool {
        self.live.is_some() && goes_on_after_calls(&self.workload, sample)
    }

    fn has_sessions(&self) -> bool {
        self.live.is_some()
    }

    fn is_streaming(&self) -> bool {
        let api = self.first_api();
        self.settings.streams(api) && api.is_text()
    }

    fn unique_mark(&self) -> Option<&'static str> {
        self.settings.is_unique.then_some(UNIQUE_MARK)
    }

    fn reader(&self) -> Box<dyn Reader> {
        let Settings { tokenizer, asks_usage, accepted, is_streaming, dimension, .. } =
            &self.settings;
        let api = self.first_api();
        let mut builder = AnswerBuilder::new(api, Expectation::default());
        builder.reply = self.live.is_some().then(Reply::default);
        Box::new(AnswerReader {
            workload: self.workload.clone(),
            demands: Demands::new(&self.settings),
            tokenizer: tokenizer.clone(),
            ignores_usage: !asks_usage,
            accepted: *accepted,
            was_asked_to_stream: *is_streaming,
            expects: (api, Expectation { items: 1, inputs: 1, dimension: *dimension }),
            demand: Demand::default(),
            sample: 0,
            status: 0,
            form: None,
            claims_stream: false,
            events: sse::Parser::for_lines(is_event),
            body: Vec::new(),
            has_mark: false,
            builder,
            entry: None,
        })
    }
}

struct AnswerReader {
    workload: Arc<Workload>,
    demands: Demands,
    tokenizer: Option<Arc<dyn Tokenize>>,
    ignores_usage: bool,
    accepted: AcceptedClasses,
    was_asked_to_stream: bool,
    /// Endpoint of the current request, and what its answer holds if it is no text.
    expects: (Api, Expectation),
    /// Demand of the current request.
    demand: Demand,
    /// Sample of the current request.
    sample: usize,
    status: u16,
    /// Form of the answer; `None` until its first bytes show it.
    form: Option<Form>,
    /// The content type is that of a stream of this interface.
    claims_stream: bool,
    events: sse::Parser,
    /// Body of an answer that is not, or not yet known to be, an event stream.
    body: Vec<u8>,
    /// The body of a whole answer begins with a byte order mark.
    has_mark: bool,
    builder: AnswerBuilder,
    /// Account of the finished answer.
    entry: Option<Entry>,
}

impl AnswerReader {
    /// Returns the form of the answer; before the first bytes, that of the content type.
    fn form(&self) -> Form {
        let claimed = if self.claims_stream { Form::Stream } else { Form::Whole };
        self.form.unwrap_or(claimed)
    }

    /// Returns the form of an answer that begins with these bytes; `None` if more are needed.
    fn form_of_begin(&self, begin: &[u8]) -> Option<Form> {
        let may_have_lines = self.expects.0 == Api::Ollama && self.was_asked_to_stream;
        match form_of(begin, self.claims_stream) {
            Some(Form::Whole) if may_have_lines && !self.claims_stream => form_of_lines(begin),
            form => form,
        }
    }

    /// Returns the trouble of reading, and creates the account of the answer.
    fn settle(&mut self) -> Result<(), Trouble> {
        let form = self.form();
        let mut trouble = self.builder.trouble.take();
        self.builder.end_repeats();
        let is_text = self.expects.0.is_text();
        let tokenizer = self.tokenizer.as_deref().filter(|_| trouble.is_none() && is_text);
        let sample = SampleIndex::try_from(self.sample).unwrap_or(SampleIndex::MAX);
        self.builder.returns_calls = goes_on_after_calls(&self.workload, sample);
        let mut entry = self.builder.entry(self.demand, form, tokenizer, self.ignores_usage);
        let is_stream = form == Form::Stream;
        if self.was_asked_to_stream && is_text && !is_stream {
            entry.oddities.insert(Oddity::NoStream);
        }
        if self.claims_stream != is_stream {
            entry.oddities.insert(Oddity::ContentType);
        }
        if self.events.has_marks() || self.has_mark {
            entry.oddities.insert(Oddity::ByteOrderMark);
        }
        if self.events.has_joined_events() && self.expects.0 != Api::Ollama {
            entry.oddities.insert(Oddity::JoinedEvents);
        }
        // What a server writes between events explains why they end.
        let words = self.events.ignored();
        if trouble.is_none()
            && !words.is_empty()
            && !is_cut_off(words)
            && matches!(entry.class, Class::Cut | Class::Empty)
        {
            trouble = Some(in_band(words));
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
        // A connection that breaks before the answer begins has none.
        self.entry = None;
        self.sample = sample as usize;
        let Some(prompt) = self.workload.prompts.get(self.sample) else { return };
        self.demand = self.demands.demand(prompt);
        let (api, expected) = &mut self.expects;
        *api = self.demands.api.unwrap_or_else(|| prompt.input.api());
        expected.inputs = match &prompt.input {
            Input::Texts(texts) => texts.len(),
            Input::Ranking { documents, .. } => documents.len(),
            _ => 1,
        };
        let results = |member| self.demands.results(prompt, member);
        expected.items = match &prompt.input {
            _ if *api == Api::Images => results("n").unwrap_or(1),
            Input::Ranking { .. } => {
                results("top_n").map_or(expected.inputs, |most| most.min(expected.inputs))
            }
            _ => expected.inputs,
        };
    }

    fn begin(&mut self, status: u16, fields: &dyn Fields) -> Result<(), Trouble> {
        self.status = status;
        self.body.clear();
        self.has_mark = false;
        self.events.clear();
        let (api, expected) = self.expects;
        self.builder.clear(api, expected);
        self.entry = None;
        let kind = fields.field("content-type").unwrap_or_default();
        let has_lines = api.is_text() && has_lines(kind);
        self.claims_stream = has_events(kind) || (has_lines && api == Api::Ollama);
        // Some servers ignore `stream`, and some send events under another content type, so the
        // first bytes decide. JSON lines begin as a whole answer does, so their content type decides.
        self.form = match Kind::of_status(status) {
            Some(_) => Some(Form::Whole),
            None => has_lines.then_some(Form::Stream),
        };
        Ok(())
    }

    fn data(&mut self, bytes: &[u8]) -> Result<ReadProgress, Trouble> {
        if self.form.is_none() && self.body.is_empty() {
            self.form = self.form_of_begin(bytes);
        }
        if self.form == Some(Form::Stream) && self.body.is_empty() {
            return self.events(bytes);
        }
        if self.body.len() + bytes.len() > LONGEST_ANSWER {
            let words = format!("an answer of more than {LONGEST_ANSWER} bytes");
            return Err(Trouble::new(Kind::Malformed, words));
        }
        self.body.extend_from_slice(bytes);
        if self.form.is_none() {
            self.form = self.form_of_begin(&self.body);
            if self.form == Some(Form::Stream) {
                let begin = std::mem::take(&mut self.body);
                return self.events(&begin);
            }
        }
        Ok(ReadProgress::default())
    }

    fn finish(&mut self) -> Result<ReadProgress, Trouble> {
        let is_stream = self.form() == Form::Stream;
        let (before, builder) = (self.builder.parts, &mut self.builder);
        if is_stream {
            self.events.finish(|event| builder.unended_event(event)).map_err(too_long)?;
            builder.unended_line(self.events.ignored());
        }
        Ok(ReadProgress {
            beats: builder.parts - before,
            is_done: builder.is_done,
            has_more: false,
        })
    }

    fn held(&self) -> usize {
        self.body.len() + self.events.kept_bytes() + self.builder.text.len()
    }

    fn free(&mut self) {
        self.body = Vec::new();
        self.events.free();
        self.builder.free();
    }

    fn effort(&self, next: ReaderCall) -> usize {
        let is_stream = self.form() == Form::Stream;
        let is_tokenized = self.tokenizer.is_some() && !self.builder.has_usage();
        let per_byte = if is_tokenized { PARSED_PER_TOKENIZED } else { 1 };
        match next {
            ReaderCall::Data(bytes) if is_stream => self.events.kept_bytes() + bytes,
            ReaderCall::Data(bytes) => bytes / COPIED_PER_PARSED,
            ReaderCall::End if is_stream && is_tokenized => {
                self.builder.text.len() * PARSED_PER_TOKENIZED
            }
            ReaderCall::End if is_stream => self.events.kept_bytes(),
            ReaderCall::End => self.body.len() * per_byte,
        }
    }

    fn end(&mut self, _trailers: Option<&dyn Fields>) -> Result<Answer<'_>, Trouble> {
        if let Some(kind) = Kind::of_status(self.status) {
            return Err(Trouble::of_status(kind, self.status, &error_words(&self.body)));
        }
        if self.form() == Form::Whole {
            let body = self.body.strip_prefix(MARK);
            self.has_mark = body.is_some();
            self.builder.whole(body.unwrap_or(&self.body));
        }
        self.settle()?;
        let entry = self.entry.unwrap_or_default();
        let tokens = entry.output.map_or(0, i64::from);
        let counted_by = entry.counted_by;
        let (builder, prompt) = (&self.builder, self.workload.prompts.get(self.sample));
        let requested = prompt.map_or("", |prompt| self.demands.model(prompt));
        Ok(Answer {
            data: &builder.text,
            tokens,
            counted_by,
            entry: self.entry,
            reply: builder.reply.as_ref(),
            other_model: OtherModel::between(requested, &builder.model),
        })
    }

    fn entry(&self) -> Option<Entry> {
        self.entry
    }
}

impl AnswerReader {
    /// Reads bytes of an event stream.
    fn events(&mut self, bytes: &[u8]) -> Result<ReadProgress, Trouble> {
        let (before, was_done) = (self.builder.parts, self.builder.is_done);
        let (builder, mut has_more) = (&mut self.builder, false);
        let event = |event: sse::Event<'_>| {
            let parts = builder.parts;
            builder.event(event);
            has_more = builder.parts == parts;
        };
        self.events.push(bytes, event).map_err(too_long)?;
        // Output behind the end shows that it was none.
        let goes_on = was_done && self.builder.parts > before;
        let mut is_done = self.builder.is_done && !goes_on;
        match &self.builder.trouble {
            // The rest of the body is of no interest, and the connection can carry the next
            // answer: the end of this one reports the error.
            Some(trouble) if AnswerBuilder::is_in_band(trouble) => is_done = true,
            Some(_) => self.settle()?,
            None => {}
        }
        Ok(ReadProgress { beats: self.builder.parts - before, is_done, has_more })
    }
}

/// Returns whether a status may concern one prompt, such as one that is too long, and not all requests.
pub(super) fn may_reject_prompt(status: u16) -> bool {
    matches!(status, 400 | 413 | 422)
}

fn too_long(_: sse::TooLongError) -> Trouble {
    let words = format!("an event of more than {} bytes", sse::Parser::LIMIT);
    Trouble::new(Kind::Malformed, words)
}
