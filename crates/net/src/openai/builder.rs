//! State of an answer during its arrival: text, choices, counts.

mod account;
mod calls;
mod details;
mod repeats;

use self::calls::OpenCalls;
use self::repeats::{Generation, RepeatedText};
use super::answer::{
    AnswerSink, CallPart, TextKind, in_band, no_answer, read_into, without_choices,
};
use super::responses::Contents;
use super::usage::{Claim, PartCounts};
use super::vectors::Expectation;
use super::{
    Api, cohere, gemini, generate, images, messages, ollama, responses, tgi, transcription, triton,
    vectors,
};
use crate::ledger::Finish;
use crate::openai::DONE;
use crate::protocol::Reply;
use crate::sse::Event;
use crate::trouble::{Kind, Trouble, in_short};

/// Maximum number of distinct choices; further ones count as the last.
const MOST_CHOICES: usize = 128;

/// Types of events that only keep a connection open, and data of such events.
const SIGNS_OF_LIFE: [&[u8]; 4] = [b"ping", b"keepalive", b"keep-alive", b"heartbeat"];

/// Form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Stream,
    Whole,
}

/// A choice of an answer.
#[derive(Debug, Clone, Copy, Default)]
struct Choice {
    is_there: bool,
    bytes: u32,
    /// Bytes of thoughts among them.
    thought_bytes: u32,
    /// Its output came as additions, apart from thoughts.
    has_additions: bool,
    /// Its thoughts came as additions.
    has_added_thoughts: bool,
    finish: Option<Finish>,
}

/// An answer as far as received.
#[derive(Debug)]
pub(super) struct AnswerBuilder {
    api: Api,
    /// Its content comes in parts of a stream.
    is_stream: bool,
    expected: Expectation,
    /// Output of all choices, in order of arrival.
    pub text: Vec<u8>,
    /// Parts with output, or with a counted token after output.
    pub parts: u32,
    /// Model that answers, if it is named.
    pub model: String,
    /// The current part has a counted token without text, such as the end of a sequence.
    pub has_silent_token: bool,
    /// Calls of tools come with an event before their content.
    pub announces_calls: bool,
    /// Items of the Responses interface whose content came.
    pub contents: Contents,
    /// Bytes of output before the content of the item that was added last.
    pub bytes_before: usize,
    /// `[DONE]` came.
    pub is_done: bool,
    /// The server gets its calls of tools back with the next turn.
    pub returns_calls: bool,
    /// Message of the first choice, if it is collected.
    pub reply: Option<Reply>,
    /// Trouble that makes further reading pointless.
    pub trouble: Option<Trouble>,
    /// Vectors, ranks or images that came, and those expected, if they differ.
    pub items: Option<(usize, usize)>,
    /// The server has thoughts whose text it does not send.
    pub has_hidden_thought: bool,
    /// The text of a thought is a summary.
    pub has_summary: bool,
    /// Bytes of thoughts before the current block of the Messages interface.
    pub shown_before: u32,
    /// Input tokens beside those of the cache, as the begin of a stream of that interface states them.
    pub beside_cache: Option<u32>,
    /// Texts whose parts may repeat what came before, by their kind.
    repeats: [RepeatedText; 2],
    /// Choices of an interface whose parts repeat the text so far.
    generations: Vec<Generation>,
    /// State of the calls of the reply.
    open_calls: OpenCalls,
    claim: Option<Claim>,
    /// Counts within a choice, the last ones.
    choice_claim: Option<Claim>,
    /// Counts in the current part.
    part_claim: Option<Claim>,
    part_counts: PartCounts,
    choices: Vec<Choice>,
    /// Index of the current choice.
    current: usize,
    thought_bytes: u32,
    /// Bytes of output that is no text.
    media_bytes: u32,
    /// Parts of a stream with only such output, which tokens need not count.
    media_parts: u32,
    tool_calls: u32,
    has_content_parts: bool,
    has_signs_of_life: bool,
    /// `[DONE]` has another spelling, or blanks around it.
    has_other_done: bool,
    /// Begin of the first part of a stream without `choices`; empty if there is none.
    other_part: String,
    /// A part has an error that is empty or 0.
    has_empty_error: bool,
    is_decreasing: bool,
    is_usage_late: bool,
    /// Output came behind `[DONE]`.
    has_late_output: bool,
    /// The end of the stream or of the body came within an event or within the JSON.
    is_cut_off: bool,
    /// Finish reason of the first choice with a bad one, otherwise of the last choice.
    reason: String,
    /// The server's explanation.
    explanation: String,
}

impl AnswerSink for AnswerBuilder {
    fn is_stream(&self) -> bool {
        self.is_stream
    }

    fn choice(&mut self, index: usize) {
        self.current = index.min(MOST_CHOICES - 1);
        if self.choices.len() <= self.current {
            self.choices.resize(self.current + 1, Choice::default());
        }
        self.choices[self.current].is_there = true;
    }

    fn output(&mut self, text: &str, is_thought: bool) {
        let bytes = u32::try_from(text.len()).unwrap_or(u32::MAX);
        self.text.extend_from_slice(text.as_bytes());
        if is_thought {
            self.thought_bytes = self.thought_bytes.saturating_add(bytes);
        }
        if let Some(choice) = self.choices.get_mut(self.current) {
            choice.bytes = choice.bytes.saturating_add(bytes);
            if is_thought {
                choice.thought_bytes = choice.thought_bytes.saturating_add(bytes);
            }
        }
    }

    fn tool_call(&mut self) {
        self.tool_calls = self.tool_calls.saturating_add(1);
    }

    fn said(&mut self, text: &str) {
        if let Some(reply) = self.reply.as_mut().filter(|_| self.current == 0) {
            reply.text.push_str(text);
        }
    }

    fn thought(&mut self, member: &'static str, text: &str) {
        let is_kept = self.current == 0 && !member.is_empty();
        if let Some(reply) = self.reply.as_mut().filter(|_| is_kept) {
            reply.thought_member = member;
            reply.thought.push_str(text);
        }
    }

    fn called(&mut self, index: usize, part: CallPart, text: &str) {
        if let Some(reply) = self.reply.as_mut().filter(|_| self.current == 0) {
            self.open_calls.take(&mut reply.calls, index, part, text);
        }
    }

    fn model(&mut self, json: &str) {
        if self.model.is_empty() {
            // A name of another type is ignored.
            self.model = serde_json::from_str(json).unwrap_or_default();
        }
    }

    fn finish(&mut self, reason: &str) {
        let finish = Finish::of_reason(reason);
        if finish == Finish::Unstated {
            return;
        }
        let is_bad = |finish| matches!(finish, Finish::Abort | Finish::Filter);
        if !is_bad(Finish::of_reason(&self.reason)) {
            self.reason.clear();
            self.reason.push_str(reason);
        }
        if let Some(choice) = self.choices.get_mut(self.current) {
            choice.finish = choice.finish.max(Some(finish));
        }
    }

    fn explain(&mut self, words: &str) {
        if self.explanation.is_empty() {
            self.explanation.push_str(words);
        }
    }

    fn media(&mut self, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.media_bytes = self.media_bytes.saturating_add(bytes);
        if let Some(choice) = self.choices.get_mut(self.current) {
            choice.bytes = choice.bytes.saturating_add(bytes);
        }
    }

    fn added(&mut self) {
        if let Some(choice) = self.choices.get_mut(self.current) {
            choice.has_additions |= choice.bytes > choice.thought_bytes;
            choice.has_added_thoughts |= choice.thought_bytes > 0;
        }
    }

    fn has_additions(&self) -> bool {
        self.choices.get(self.current).is_some_and(|choice| choice.has_additions)
    }

    fn has_added_thoughts(&self) -> bool {
        self.choices.get(self.current).is_some_and(|choice| choice.has_added_thoughts)
    }

    fn repeated_bytes(&mut self, text: &str, kind: TextKind, is_addition: bool) -> usize {
        self.repeated_before(text, kind, is_addition)
    }

    fn content_parts(&mut self) {
        self.has_content_parts = true;
    }

    fn usage(&mut self, claim: Claim) {
        self.is_usage_late |= self.is_done;
        self.part_claim = Some(claim);
        match &mut self.claim {
            Some(before) => self.is_decreasing |= before.update(claim),
            before => *before = Some(claim),
        }
    }

    fn choice_usage(&mut self, claim: Claim) {
        self.choice_claim = Some(claim);
    }

    fn empty_error(&mut self) {
        self.has_empty_error = true;
    }

    fn thought_details(&mut self, json: &str) {
        self.has_summary |= json.contains("\"reasoning.summary\"");
        self.has_hidden_thought |= json.contains("\"reasoning.encrypted\"");
        if let Some(reply) = self.reply.as_mut().filter(|_| self.current == 0) {
            details::add(&mut reply.details, json);
        }
    }
}

impl AnswerBuilder {
    /// Creates the builder of an answer of this endpoint.
    pub fn new(api: Api, expected: Expectation) -> Self {
        Self {
            api,
            is_stream: false,
            expected,
            text: Vec::new(),
            parts: 0,
            model: String::new(),
            has_silent_token: false,
            announces_calls: false,
            contents: Contents::default(),
            bytes_before: 0,
            is_done: false,
            returns_calls: false,
            reply: None,
            trouble: None,
            items: None,
            has_hidden_thought: false,
            has_summary: false,
            shown_before: 0,
            beside_cache: None,
            repeats: <[RepeatedText; 2]>::default(),
            generations: Vec::new(),
            open_calls: OpenCalls::default(),
            claim: None,
            choice_claim: None,
            part_claim: None,
            part_counts: PartCounts::default(),
            choices: Vec::new(),
            current: 0,
            thought_bytes: 0,
            media_bytes: 0,
            media_parts: 0,
            tool_calls: 0,
            has_content_parts: false,
            has_signs_of_life: false,
            has_other_done: false,
            other_part: String::new(),
            has_empty_error: false,
            is_decreasing: false,
            is_usage_late: false,
            has_late_output: false,
            is_cut_off: false,
            reason: String::new(),
            explanation: String::new(),
        }
    }

    /// Prepares for the next answer, and keeps the memory.
    pub fn clear(&mut self, api: Api, expected: Expectation) {
        let (mut text, mut choices) =
            (std::mem::take(&mut self.text), std::mem::take(&mut self.choices));
        text.clear();
        choices.clear();
        let reply = self.reply.take().map(|mut reply| {
            reply.text.clear();
            reply.thought.clear();
            reply.details.clear();
            reply.calls.clear();
            reply
        });
        *self = Self { text, choices, reply, ..Self::new(api, expected) };
    }

    /// Frees the memory of the text.
    pub fn free(&mut self) {
        self.text = Vec::new();
        if let Some(reply) = &mut self.reply {
            (reply.text, reply.thought) = (String::new(), String::new());
            reply.details = Vec::new();
        }
    }

    /// Returns the bytes of thoughts that came.
    pub fn thought_bytes(&self) -> u32 {
        self.thought_bytes
    }

    /// Returns the bytes of output that came.
    pub fn output_bytes(&self) -> usize {
        self.text.len().saturating_add(self.media_bytes as usize)
    }

    /// Returns whether a tool was called.
    pub fn has_tool_calls(&self) -> bool {
        self.tool_calls > 0
    }

    /// Returns whether the server has counted tokens.
    pub fn has_usage(&self) -> bool {
        self.claim.or(self.choice_claim).is_some()
    }

    /// Processes an event of a stream.
    pub fn event(&mut self, event: Event<'_>) {
        if self.trouble.is_some() {
            return;
        }
        if event.name == b"error" && (!self.is_done || self.has_late_output) {
            self.trouble = Some(in_band(event.data));
            return;
        }
        let data = unquoted(event.data.trim_ascii());
        let is_sign =
            |word: &[u8]| SIGNS_OF_LIFE.iter().any(|sign| word.eq_ignore_ascii_case(sign));
        if data.is_empty() || data == b"null" || is_sign(event.name) || is_sign(data) {
            self.has_signs_of_life = true;
            return;
        }
        if data.eq_ignore_ascii_case(DONE) || data == b"DONE" {
            self.has_other_done |= event.data != DONE;
            self.is_done |= !self.api.has_end_event();
            return;
        }
        if !self.is_done {
            self.part(data, event.name);
        } else if self.api.has_end_event() {
            self.usage_behind_the_end(data);
        } else {
            // Some gateways join streams that each end. Data behind the end are an error only if they report
            // one and the answer has gone on.
            let before = self.output_bytes();
            self.part(data, event.name);
            self.has_late_output |= self.output_bytes() > before;
            let has_gone_on = self.has_late_output;
            let trouble = self.trouble.take();
            self.trouble = trouble.filter(|trouble| has_gone_on && Self::is_in_band(trouble));
        }
    }

    /// Processes an event that the stream ended without an empty line, which some servers omit after
    /// their last event. One that cannot be read was cut off.
    pub fn unended_event(&mut self, event: Event<'_>) {
        let data = unquoted(event.data.trim_ascii());
        let is_part_of_done = !data.is_empty() && data != DONE && DONE.starts_with(data);
        if !self.is_done && (is_part_of_done || is_cut_off(data)) {
            self.is_cut_off = true;
            return;
        }
        self.event(event);
        self.is_cut_off |= self.trouble.take_if(|trouble| !Self::is_in_band(trouble)).is_some();
    }

    /// Processes the lines between the events of a stream that has ended. JSON that ends too early was cut off.
    pub fn unended_line(&mut self, lines: &[u8]) {
        self.is_cut_off |= !self.is_done && is_cut_off(lines);
    }

    /// Processes a part of a stream. Some gateways send parts about their filters or their state,
    /// which have no choices.
    fn part(&mut self, json: &[u8], name: &[u8]) {
        let (before, text_before) = (self.output_bytes(), self.text.len());
        self.has_silent_token = false;
        self.part_claim = None;
        self.is_stream = true;
        let read = match self.api {
            Api::Responses => responses::event(json, name, self).map(|()| true),
            Api::Generate => generate::read(json, self),
            Api::Messages => messages::event(json, name, self).map(|()| true),
            Api::Gemini => gemini::read(json, self),
            Api::Ollama => ollama::read(json, self),
            Api::Cohere => cohere::event(json, name, self).map(|()| true),
            Api::Tgi => tgi::read(json, self),
            Api::Triton => triton::read(json, self),
            Api::Transcriptions => transcription::event(json, self),
            Api::Images => images::event(json, name, self.expected.items, self),
            _ => read_into(json, self),
        };
        match read {
            Err(trouble) if !self.ends_with_words(json, &trouble) => self.trouble = Some(trouble),
            Ok(false) | Err(_) if self.other_part.is_empty() => {
                self.other_part = in_short(&String::from_utf8_lossy(json));
            }
            _ => {}
        }
        if !self.api.is_text() {
            return;
        }
        let (bytes, is_silent) =
            (self.output_bytes().saturating_sub(before), before > 0 && self.has_silent_token);
        self.part_counts.add(bytes, self.part_claim);
        self.parts += u32::from(bytes > 0 || is_silent);
        self.media_parts += u32::from(bytes > 0 && self.text.len() == text_before);
    }

    /// Returns whether data that cannot be read are words of a server behind the end of each choice.
    fn ends_with_words(&self, data: &[u8], trouble: &Trouble) -> bool {
        let is_words = trouble.kind == Kind::Malformed && !data.starts_with(b"{");
        let mut choices = self.choices.iter().filter(|choice| choice.is_there);
        is_words && !self.choices.is_empty() && choices.all(|choice| choice.finish.is_some())
    }

    /// Processes a whole answer.
    pub fn whole(&mut self, json: &[u8]) {
        let expected = self.expected;
        let read = match self.api {
            Api::Completions | Api::Chat => read_into(json, self),
            Api::Responses => responses::whole(json, self),
            Api::Generate => generate::read(json, self),
            Api::Messages => messages::whole(json, self),
            Api::Gemini => gemini::whole(json, self),
            Api::Ollama => ollama::read(json, self),
            Api::Cohere => cohere::whole(json, self),
            Api::Tgi => tgi::read(json, self),
            Api::Triton => triton::read(json, self),
            Api::Transcriptions => transcription::whole(json, self),
            Api::Embeddings => vectors::embeddings(json, expected, self),
            Api::Rerank => vectors::ranks(json, expected, self),
            Api::Images => images::whole(json, expected.items, self),
        };
        self.trouble = match read {
            Ok(true) => None,
            Ok(false) if matches!(self.api, Api::Completions | Api::Chat) => {
                let found = in_short(&String::from_utf8_lossy(json));
                let words = format!("{}: {found}", without_choices().words);
                Some(Trouble::new(Kind::Malformed, words))
            }
            Ok(false) => Some(no_answer(json)),
            Err(trouble) if trouble.kind == Kind::Malformed && is_cut_off(json) => {
                self.is_cut_off = true;
                None
            }
            Err(trouble) => Some(trouble),
        };
    }

    /// Processes data after the end, where some servers send usage; other data is ignored.
    fn usage_behind_the_end(&mut self, json: &[u8]) {
        #[derive(serde::Deserialize)]
        struct UsageOnly<'a> {
            #[serde(borrow)]
            usage: Option<&'a serde_json::value::RawValue>,
        }
        let late = serde_json::from_slice::<UsageOnly<'_>>(json).ok();
        if let Some(claim) = late.and_then(|late| Claim::read(late.usage?.get())) {
            self.usage(claim);
        }
    }

    /// Returns whether trouble is an error that the server reported within its answer.
    pub fn is_in_band(trouble: &Trouble) -> bool {
        matches!(trouble.kind, Kind::InBand | Kind::Refused | Kind::Request)
    }
}

/// Returns `[DONE]` without the quotes that some servers write around it; other data unchanged.
fn unquoted(data: &[u8]) -> &[u8] {
    let inside = data.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    inside.filter(|inside| *inside == DONE).unwrap_or(data)
}

/// Returns whether a line of a stream is an event whatever follows it: a JSON object, or `[DONE]`.
pub(super) fn is_event(line: &[u8]) -> bool {
    let line = unquoted(line.trim_ascii());
    let has_braces = line.starts_with(b"{") && line.ends_with(b"}");
    line == DONE || has_braces && serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok()
}

/// Returns whether more bytes could make these complete JSON.
pub(super) fn is_cut_off(json: &[u8]) -> bool {
    let read = serde_json::from_slice::<serde::de::IgnoredAny>(json);
    read.is_err_and(|error| Kind::of_invalid_json(json, &error) == Kind::Cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reply of a stream of additions to a message.
    fn reply(additions: &[serde_json::Value]) -> Reply {
        let mut answer = AnswerBuilder::new(Api::Chat, Expectation::default());
        answer.reply = Some(Reply::default());
        for addition in additions {
            let part = serde_json::json!({"choices": [{"delta": addition}]}).to_string();
            answer.event(Event { name: b"", data: part.as_bytes() });
        }
        answer.end_repeats();
        answer.reply.unwrap()
    }

    #[test]
    fn a_reply_holds_repeated_text_once() {
        for member in ["content", "reasoning_content"] {
            let said = |texts: &[&str]| {
                let additions: Vec<_> =
                    texts.iter().map(|text| serde_json::json!({member: text})).collect();
                let reply = reply(&additions);
                reply.thought + &reply.text
            };
            assert_eq!(said(&["a", "ab", "abc"]), "abc", "{member}");
            assert_eq!(said(&["a", "ab", "b"]), "aabb", "{member}");
            assert_eq!(said(&["a", "ab"]), "aab", "{member}");
        }
    }

    #[test]
    fn a_reply_holds_thoughts_and_their_member() {
        for member in ["reasoning_content", "reasoning", "thinking"] {
            let reply = reply(&[
                serde_json::json!({member: "h"}),
                serde_json::json!({member: "m", "content": null}),
                serde_json::json!({"content": "x"}),
            ]);
            assert_eq!((reply.thought.as_str(), reply.thought_member), ("hm", member));
            assert_eq!(reply.text, "x");
        }
    }

    #[test]
    fn a_reply_holds_details_of_thoughts() {
        let details = serde_json::json!([{"type": "reasoning.encrypted", "data": "A"}]);
        let reply = reply(&[serde_json::json!({"reasoning_details": details})]);
        assert_eq!(serde_json::json!(reply.details), details);
    }

    #[test]
    fn a_call_of_a_reply_keeps_what_the_server_wants_back() {
        let extra = serde_json::json!({"google": {"thought_signature": "AA"}});
        let function = serde_json::json!({"name": "f", "arguments": "{}"});
        let call = serde_json::json!({"id": "c", "function": function, "extra_content": extra});
        let other = serde_json::json!({"index": 7, "extra_content": {"a": 1}});
        let reply = reply(&[
            serde_json::json!({"tool_calls": [call]}),
            serde_json::json!({"tool_calls": [other]}),
        ]);
        let found: Vec<_> = reply.calls.iter().map(|call| (&*call.id, &*call.extra)).collect();
        assert_eq!(found, [("c", extra.to_string().as_str())]);
    }
}
