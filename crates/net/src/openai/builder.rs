//! State of an answer during its arrival (text, choices, counts) and its account.

use super::answer::{AnswerSink, CallPart, in_band, no_answer, read_into, without_choices};
use super::usage::Claim;
use super::vectors::Expectation;
use super::{Api, generate, images, messages, responses, tgi, transcription, vectors};
use crate::ledger::{Class, Contradiction, Demand, Entry, Finish, Oddity};
use crate::openai::DONE;
use crate::protocol::{Reply, TokenCounter};
use crate::sse::Event;
use crate::tokens::Tokenize;
use crate::trouble::{Kind, Trouble};

/// Maximum number of distinct choices; further ones count as the last.
const MOST_CHOICES: usize = 128;

/// Maximum number of distinct calls of tools; further ones count as the last.
const MOST_CALLS: usize = 128;

/// Types of events that only keep a connection open.
const SIGNS_OF_LIFE: [&[u8]; 4] = [b"ping", b"keepalive", b"keep-alive", b"heartbeat"];

/// Maximum number of markup tokens of a tool call beside its name and arguments.
const MARKUP_OF_CALL: u32 = 32;

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
    /// `[DONE]` came.
    pub is_done: bool,
    /// Message of the first choice, if it is collected.
    pub reply: Option<Reply>,
    /// Trouble that makes further reading pointless.
    pub trouble: Option<Trouble>,
    /// Vectors, ranks or images that came, and those expected, if they differ.
    pub items: Option<(usize, usize)>,
    /// Bytes of text of the last part that repeated the text so far.
    repeated: usize,
    claim: Option<Claim>,
    choices: Vec<Choice>,
    /// Index of the current choice.
    current: usize,
    thought_bytes: u32,
    tool_calls: u32,
    has_content_parts: bool,
    has_signs_of_life: bool,
    /// There are blanks around `[DONE]`.
    has_blanks: bool,
    /// A part of a stream has no `choices`.
    lacks_choices: bool,
    is_decreasing: bool,
    is_usage_late: bool,
    /// The end of the stream or of the body came within an event or within the JSON.
    is_cut_off: bool,
    /// Finish reason of the first choice with a bad one, otherwise of the last choice.
    reason: String,
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

    fn called(&mut self, index: usize, part: CallPart, text: &str) {
        let Some(reply) = self.reply.as_mut().filter(|_| self.current == 0) else { return };
        let index = index.min(MOST_CALLS - 1);
        if reply.calls.len() <= index {
            reply.calls.resize_with(index + 1, Default::default);
        }
        let call = &mut reply.calls[index];
        match part {
            // Some servers repeat the id, or the name, with each part.
            CallPart::Id if call.id == text => {}
            CallPart::Name if call.name == text => {}
            CallPart::Id => call.id.push_str(text),
            CallPart::Name => call.name.push_str(text),
            CallPart::Arguments => call.arguments.push_str(text),
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

    fn content_parts(&mut self) {
        self.has_content_parts = true;
    }

    fn usage(&mut self, claim: Claim) {
        self.is_usage_late |= self.is_done;
        match &mut self.claim {
            Some(before) => self.is_decreasing |= before.update(claim),
            before => *before = Some(claim),
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
            is_done: false,
            reply: None,
            trouble: None,
            items: None,
            repeated: 0,
            claim: None,
            choices: Vec::new(),
            current: 0,
            thought_bytes: 0,
            tool_calls: 0,
            has_content_parts: false,
            has_signs_of_life: false,
            has_blanks: false,
            lacks_choices: false,
            is_decreasing: false,
            is_usage_late: false,
            is_cut_off: false,
            reason: String::new(),
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
            reply.calls.clear();
            reply
        });
        *self = Self { text, choices, reply, ..Self::new(api, expected) };
    }

    /// Returns whether a tool was called.
    pub fn has_tool_calls(&self) -> bool {
        self.tool_calls > 0
    }

    /// Takes the text so far, or an addition to it, as some versions of the server send.
    pub fn output_so_far(&mut self, text: &str) {
        let is_repeated =
            self.repeated == self.text.len() && text.as_bytes().starts_with(&self.text);
        let new = if is_repeated { &text[self.text.len()..] } else { text };
        self.output(new, false);
        if is_repeated {
            self.repeated = self.text.len();
        }
    }

    /// Returns whether the server has counted tokens.
    pub fn has_usage(&self) -> bool {
        self.claim.is_some()
    }

    /// Processes an event of a stream.
    pub fn event(&mut self, event: Event<'_>) {
        if self.trouble.is_some() {
            return;
        }
        if event.name == b"error" && !self.is_done {
            self.trouble = Some(in_band(event.data));
            return;
        }
        let data = event.data.trim_ascii();
        if data.is_empty() || SIGNS_OF_LIFE.iter().any(|name| event.name.eq_ignore_ascii_case(name))
        {
            self.has_signs_of_life = true;
            return;
        }
        if data == DONE {
            self.has_blanks = data != event.data;
            self.is_done = true;
            return;
        }
        if self.is_done {
            self.behind_the_end(data);
            return;
        }
        self.part(data, event.name);
    }

    /// Processes an event that the stream ended without an empty line, which some servers omit after
    /// their last event. One that cannot be read was cut off.
    pub fn unended_event(&mut self, event: Event<'_>) {
        let data = event.data.trim_ascii();
        let is_part_of_done = !data.is_empty() && data != DONE && DONE.starts_with(data);
        if !self.is_done && (is_part_of_done || is_cut_off(data)) {
            self.is_cut_off = true;
            return;
        }
        self.event(event);
        self.is_cut_off |= self.trouble.take_if(|trouble| !Self::is_in_band(trouble)).is_some();
    }

    /// Processes a part of a stream. Some gateways send parts about their filters or their state,
    /// which have no choices.
    fn part(&mut self, json: &[u8], name: &[u8]) {
        let before = self.text.len();
        self.has_silent_token = false;
        self.is_stream = true;
        let read = match self.api {
            Api::Responses => responses::event(json, name, self).map(|()| true),
            Api::Generate => generate::read(json, self),
            Api::Messages => messages::event(json, name, self).map(|()| true),
            Api::Tgi => tgi::read(json, self),
            Api::Transcriptions => transcription::event(json, self),
            _ => read_into(json, self),
        };
        match read {
            Ok(has_choices) => self.lacks_choices |= !has_choices,
            Err(trouble) => self.trouble = Some(trouble),
        }
        let is_silent = before > 0 && self.has_silent_token;
        self.parts += u32::from(self.text.len() > before || is_silent);
    }

    /// Processes a whole answer.
    pub fn whole(&mut self, json: &[u8]) {
        let expected = self.expected;
        let read = match self.api {
            Api::Completions | Api::Chat => read_into(json, self),
            Api::Responses => responses::whole(json, self),
            Api::Generate => generate::read(json, self),
            Api::Messages => messages::whole(json, self),
            Api::Tgi => tgi::read(json, self),
            Api::Transcriptions => transcription::whole(json, self),
            Api::Embeddings => vectors::embeddings(json, expected, self),
            Api::Rerank => vectors::ranks(json, expected, self),
            Api::Images => images::whole(json, expected.items, self),
        };
        self.trouble = match read {
            Ok(true) => None,
            Ok(false) if matches!(self.api, Api::Completions | Api::Chat) => {
                Some(without_choices())
            }
            Ok(false) => Some(no_answer(json)),
            Err(trouble) if trouble.kind == Kind::Malformed && is_cut_off(json) => {
                self.is_cut_off = true;
                None
            }
            Err(trouble) => Some(trouble),
        };
    }

    /// Processes data after `[DONE]`, where some servers send usage; other data is ignored.
    fn behind_the_end(&mut self, json: &[u8]) {
        #[derive(serde::Deserialize)]
        struct UsageOnly<'a> {
            #[serde(borrow, default)]
            usage: Option<&'a serde_json::value::RawValue>,
        }
        let late = serde_json::from_slice::<UsageOnly<'_>>(json).ok();
        if let Some(claim) = late.and_then(|late| Claim::read(late.usage?.get())) {
            self.usage(claim);
        }
    }

    /// Returns the account of the finished answer; `tokenizer` counts if the server does not, or
    /// contradicts itself.
    pub fn entry(
        &self,
        demand: Demand,
        form: Form,
        tokenizer: Option<&dyn Tokenize>,
        ignores_usage: bool,
    ) -> Entry {
        let claim = self.claim.filter(|_| !ignores_usage);
        let shown = claim.unwrap_or_default();
        let finished = self.choices().filter(|choice| choice.finish.is_some()).count();
        let mut entry = Entry {
            input: shown.input,
            cached: shown.cached,
            reasoning: shown.reasoning,
            claimed: shown.output,
            total: shown.total,
            demand,
            finish: self.choices().filter_map(|choice| choice.finish).max().unwrap_or_default(),
            choices: self.choices().count() as u16,
            images: self.images(),
            finished: finished as u16,
            parts: if form == Form::Stream { self.parts } else { 0 },
            bytes: u32::try_from(self.text.len()).unwrap_or(u32::MAX),
            oddities: shown.oddities,
            ..Entry::default()
        };
        self.note_oddities(&mut entry, form, claim.is_some());
        if let Some(claim) = claim {
            self.find_contradictions(&claim, &mut entry);
        }
        self.count_output(&mut entry, form, tokenizer);
        entry.class = self.class(&entry, form);
        entry
    }

    /// Returns the number of images.
    fn images(&self) -> u16 {
        let is_there = |choice: &Choice| self.api == Api::Images && choice.bytes > 0;
        self.choices().filter(is_there).count() as u16
    }

    /// Iterates over the received choices.
    fn choices(&self) -> impl Iterator<Item = Choice> {
        self.choices.iter().copied().filter(|choice| choice.is_there)
    }

    fn note_oddities(&self, entry: &mut Entry, form: Form, has_usage: bool) {
        let found = [
            (Oddity::ContentParts, self.has_content_parts),
            (Oddity::LateUsage, self.is_usage_late && has_usage),
            (Oddity::NoDone, form == Form::Stream && !self.is_done),
            (Oddity::DoneBlanks, self.has_blanks),
            (Oddity::SignsOfLife, self.has_signs_of_life),
            (Oddity::NoChoices, self.lacks_choices),
            (
                Oddity::NoFinishReason,
                entry.choices > 0 && entry.finished == 0 && self.items.is_none(),
            ),
        ];
        for (oddity, _) in found.into_iter().filter(|(_, is_found)| *is_found) {
            entry.oddities.insert(oddity);
        }
    }

    fn find_contradictions(&self, claim: &Claim, entry: &mut Entry) {
        let output = claim.output.unwrap_or(0);
        let has_output = entry.bytes > 0 || self.tool_calls > 0;
        // Thoughts that are counted but not sent have no bytes.
        let hidden = if self.thought_bytes == 0 { claim.reasoning.unwrap_or(0) } else { 0 };
        let sent = u64::from(output.saturating_sub(hidden));
        // A token has at least one byte, except for end-of-choice tokens and markup.
        let most = u64::from(entry.bytes)
            + u64::from(entry.choices.max(1))
            + u64::from(self.tool_calls) * u64::from(MARKUP_OF_CALL);
        let sum = claim.input.zip(claim.output).map(|(a, b)| u64::from(a) + u64::from(b));
        let is_more = |part: Option<u32>, whole: Option<u32>| {
            part.is_some_and(|part| whole.is_some_and(|whole| part > whole))
        };
        // Usage without any count is not a count of 0, but it is not reliable either.
        let counts_nothing = claim.output.is_none() && claim.input.is_none();
        // Vectors, ranks and images have no output tokens to count.
        let is_zero = self.api.is_text()
            && (claim.output == Some(0)
                || (counts_nothing && !claim.oddities.contains(Oddity::NoCount)));
        let is_counted = output > 0;
        let found = [
            (Contradiction::NoTokens, has_output && is_zero),
            (Contradiction::MoreTokensThanBytes, has_output && is_counted && sent > most),
            (Contradiction::FewerTokensThanParts, is_counted && output < entry.parts),
            (Contradiction::Decreasing, self.is_decreasing),
            (Contradiction::ReasoningExceedsOutput, is_more(claim.reasoning, claim.output)),
            (Contradiction::CachedExceedsInput, is_more(claim.cached, claim.input)),
            (
                Contradiction::TotalDiffers,
                sum.is_some_and(|sum| claim.total.is_some_and(|total| sum != u64::from(total))),
            ),
        ];
        for (contradiction, _) in found.into_iter().filter(|(_, is_found)| *is_found) {
            entry.contradictions.insert(contradiction);
        }
    }

    /// Counts output tokens: by the server unless something contradicts its count, otherwise by the
    /// tokenizer, otherwise one per part with output.
    fn count_output(&self, entry: &mut Entry, form: Form, tokenizer: Option<&dyn Tokenize>) {
        use Contradiction::{FewerTokensThanParts, MoreTokensThanBytes, NoTokens};
        let is_absurd = [NoTokens, MoreTokensThanBytes, FewerTokensThanParts]
            .iter()
            .any(|flag| entry.contradictions.contains(*flag));
        let is_doubtful = entry.is_output_doubtful();
        let claimed = entry.claimed.filter(|_| !is_absurd);
        (entry.output, entry.counted_by) = match (claimed, tokenizer) {
            (Some(tokens), _) if !is_doubtful => (Some(tokens), TokenCounter::Server),
            (_, Some(tokenizer)) => {
                let tokens = tokenizer.count(&String::from_utf8_lossy(&self.text));
                (Some(u32::try_from(tokens).unwrap_or(u32::MAX)), TokenCounter::Tokenizer)
            }
            (Some(tokens), None) => (Some(tokens), TokenCounter::Server),
            (None, None) if form == Form::Stream => (Some(self.parts), TokenCounter::Events),
            (None, None) => (None, TokenCounter::Nobody),
        };
    }

    fn class(&self, entry: &Entry, form: Form) -> Class {
        let is_short = |entry: &Entry| {
            let least = entry.demand.least.map(u64::from).filter(|least| *least > 0);
            let all = least.map(|least| least * u64::from(entry.demand.choices.max(1)));
            // Only the server's own count, and only without contradictions.
            let output = entry.output.filter(|_| {
                entry.counted_by == TokenCounter::Server && !entry.is_output_doubtful()
            });
            all.zip(output).is_some_and(|(least, output)| u64::from(output) < least)
        };
        match entry.finish {
            Finish::Abort => return Class::Aborted,
            Finish::Filter => return Class::Filtered,
            _ => {}
        }
        let is_over = form == Form::Whole || self.is_done;
        let is_partly_finished = (1..entry.choices).contains(&entry.finished);
        // Demanded choices that never came, if at least one came.
        let lacks_choices = (1..entry.demand.choices).contains(&entry.choices);
        let is_cut_off = self.is_cut_off && !self.is_done;
        let is_partial = is_partly_finished || lacks_choices || self.items.is_some() || is_cut_off;
        if is_partial || (!is_over && entry.finished == 0) {
            return Class::Cut;
        }
        let is_without = |choice: Choice| choice.bytes == 0;
        if self.text.is_empty() || self.choices().any(is_without) {
            Class::Empty
        } else if is_short(entry) {
            Class::Short
        } else {
            Class::Whole
        }
    }

    /// Explains the class of an answer for people.
    pub fn words(&self, entry: &Entry) -> String {
        let reason = match &*self.reason {
            "" => String::new(),
            reason => format!(" (finish_reason {:?})", crate::trouble::in_short(reason)),
        };
        let (choices, demanded) = (entry.choices, entry.demand.choices);
        match entry.class {
            Class::Whole | Class::InBand => String::new(),
            Class::Empty if choices > 1 => {
                let empty = self.choices().filter(|choice| choice.bytes == 0).count();
                format!("{empty} of {choices} choices have no output{reason}")
            }
            Class::Empty => format!("the answer has no output{reason}"),
            Class::Cut if self.is_cut_off && !self.is_done => {
                "the answer was cut off in the middle of an event or of its JSON".into()
            }
            Class::Cut if choices > 0 && choices < demanded => {
                format!("the answer has {choices} of the {demanded} requested choices")
            }
            Class::Cut if self.items.is_some() => {
                let (items, expected) = self.items.unwrap_or_default();
                format!("the answer has {items} of the {expected} requested results")
            }
            Class::Cut if entry.finished > 0 => {
                format!(
                    "the answer ended when {} of {choices} choices had finished",
                    entry.finished
                )
            }
            Class::Cut if self.api == Api::Responses => {
                "the answer has no end event such as response.completed".into()
            }
            Class::Cut if self.api == Api::Messages => {
                "the answer has neither a stop_reason nor the event message_stop".into()
            }
            Class::Cut if self.api == Api::Tgi => "the stream ended without generated_text".into(),
            Class::Cut => "the stream ended with neither [DONE] nor a finish_reason".into(),
            Class::Aborted => format!("the server aborted the answer{reason}"),
            Class::Filtered => format!("a filter of the server stopped the answer{reason}"),
            Class::Short => format!(
                "the answer has {} output tokens, but the request demanded {}{reason}",
                entry.output.unwrap_or(0),
                u64::from(entry.demand.least.unwrap_or(0)) * u64::from(demanded.max(1))
            ),
        }
    }

    /// Returns whether trouble is an error that the server reported within its answer.
    pub fn is_in_band(trouble: &Trouble) -> bool {
        matches!(trouble.kind, Kind::InBand | Kind::Refused | Kind::Request)
    }
}

/// Returns whether more bytes could make these complete JSON.
fn is_cut_off(json: &[u8]) -> bool {
    let read = serde_json::from_slice::<serde::de::IgnoredAny>(json);
    read.is_err_and(|error| Kind::of_invalid_json(json, &error) == Kind::Cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_and_a_name_that_each_part_repeats_are_those_of_one_call() {
        let mut answer = AnswerBuilder::new(Api::Chat, Expectation::default());
        answer.reply = Some(Reply::default());
        for arguments in ["{\\\"a\\\":", "1}"] {
            let call = format!(
                "{{\"index\":0,\"id\":\"c\",\"function\":{{\"name\":\"f\",\"arguments\":\"{arguments}\"}}}}"
            );
            let part = format!("{{\"choices\":[{{\"delta\":{{\"tool_calls\":[{call}]}}}}]}}");
            answer.event(Event { name: b"", data: part.as_bytes() });
        }
        let reply = answer.reply.unwrap();
        let call = &reply.calls[0];
        assert_eq!([&*call.id, &*call.name, &*call.arguments], ["c", "f", "{\"a\":1}"]);
    }
}
