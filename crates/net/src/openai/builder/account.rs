//! The account of a finished answer: its counts, what contradicts them, and its class.

use super::super::Api;
use super::super::usage::Claim;
use super::{AnswerBuilder, Choice, Form, is_cut_off};
use crate::ledger::{Class, Contradiction, Demand, Entry, Finish, HiddenTokens, Oddity};
use crate::protocol::TokenCounter;
use crate::tokens::Tokenize;

/// Maximum number of markup tokens of a tool call beside its name and arguments.
const MARKUP_OF_CALL: u32 = 32;

/// Maximum number of further tokens of an answer that may have no bytes, such as those of an empty
/// thought that a parser removes.
const MOST_INVISIBLE: u32 = 8;

/// What models write after a thought within a text.
const END_OF_THOUGHT: &[u8] = b"</think>";

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

impl AnswerBuilder {
    /// Returns the account of the finished answer; `tokenizer` counts if the server does not, or
    /// contradicts itself.
    pub fn entry(
        &self,
        demand: Demand,
        form: Form,
        tokenizer: Option<&dyn Tokenize>,
        ignores_usage: bool,
    ) -> Entry {
        let claim = self.whole_claim().filter(|_| !ignores_usage);
        let shown = claim.unwrap_or_default();
        let mut entry = Entry {
            // A request has input, so that a count of 0 is no count.
            input: shown.input.filter(|tokens| *tokens > 0),
            cached: shown.cached,
            reasoning: shown.reasoning,
            claimed: shown.output,
            total: shown.total,
            demand,
            finish: self.choices().filter_map(|choice| choice.finish).max().unwrap_or_default(),
            choices: self.choices().count() as u16,
            images: self.images(),
            finished: self.finished_choices() as u16,
            parts: if form == Form::Stream { self.parts } else { 0 },
            bytes: u32::try_from(self.output_bytes()).unwrap_or(u32::MAX),
            oddities: shown.oddities,
            ..Entry::default()
        };
        self.note_oddities(&mut entry, form, claim);
        if let Some(claim) = claim {
            self.find_contradictions(&claim, &mut entry);
        }
        self.count_output(&mut entry, form, tokenizer);
        entry.hidden = self.hidden_tokens(&entry, form);
        entry.class = self.class(&entry, form);
        entry
    }

    /// Returns the counts of the whole answer.
    fn whole_claim(&self) -> Option<Claim> {
        let mut claim = self.claim.or_else(|| {
            let mut within = self.choice_claim?;
            within.oddities.insert(Oddity::ChoiceUsage);
            Some(within)
        })?;
        // As the counts of the whole answer they would contradict its parts.
        let is_fewer = claim.output.is_some_and(|last| last < self.text_parts());
        let is_of_part = is_fewer && !self.is_usage_late;
        if let Some(sum) = self.part_counts.sum().filter(|_| is_of_part) {
            (claim.output, claim.total) = (Some(sum), None);
            claim.oddities.insert(Oddity::PartUsage);
        }
        Some(claim.with_thoughts())
    }

    /// Returns the number of parts with text.
    fn text_parts(&self) -> u32 {
        self.parts.saturating_sub(self.media_parts)
    }

    /// Returns the number of images.
    fn images(&self) -> u16 {
        let is_there = |choice: &Choice| self.api == Api::Images && choice.bytes > 0;
        self.choices().filter(is_there).count() as u16
    }

    /// Returns the number of choices that state why they have ended.
    pub fn finished_choices(&self) -> usize {
        self.choices().filter(|choice| choice.finish.is_some()).count()
    }

    /// Iterates over the received choices.
    fn choices(&self) -> impl Iterator<Item = Choice> {
        self.choices.iter().copied().filter(|choice| choice.is_there)
    }

    fn note_oddities(&self, entry: &mut Entry, form: Form, claim: Option<Claim>) {
        let found = [
            (Oddity::ContentParts, self.has_content_parts),
            (Oddity::LateUsage, self.is_usage_late && claim.is_some()),
            (Oddity::LateOutput, self.has_late_output),
            (Oddity::RepeatedText, self.has_repeats()),
            (Oddity::NoInput, claim.is_some_and(|claim| claim.input == Some(0))),
            (Oddity::NoDone, form == Form::Stream && !self.is_done && !self.api.ends_with_body()),
            (Oddity::OtherDone, self.has_other_done),
            (Oddity::SignsOfLife, self.has_signs_of_life),
            (Oddity::NoChoices, !self.other_part.is_empty()),
            (Oddity::EmptyError, self.has_empty_error),
            (
                Oddity::NoFinishReason,
                entry.choices > 0
                    && entry.finished == 0
                    && self.items.is_none()
                    && self.api.has_finish_reasons(),
            ),
        ];
        for (oddity, _) in found.into_iter().filter(|(_, is_found)| *is_found) {
            entry.oddities.insert(oddity);
        }
    }

    fn find_contradictions(&self, claim: &Claim, entry: &mut Entry) {
        let output = claim.output.unwrap_or(0);
        let has_output = entry.bytes > 0 || self.tool_calls > 0;
        // Thoughts that are counted but not sent have no bytes. A summary has fewer than its tokens.
        let hidden = match claim.reasoning {
            Some(thoughts) => thoughts.saturating_sub(self.thought_bytes),
            None if self.has_hidden_thought => output,
            None => 0,
        };
        // A token has at least one byte, except for end-of-choice tokens and markup.
        let markup = self.tool_calls.saturating_mul(MARKUP_OF_CALL);
        let unseen = markup.saturating_add(hidden).saturating_add(entry.choices.max(1).into());
        entry.unseen = unseen;
        let most = entry.bytes.saturating_add(unseen);
        let beyond = if has_output { output.saturating_sub(most) } else { 0 };
        if (1..=MOST_INVISIBLE).contains(&beyond) {
            entry.oddities.insert(Oddity::InvisibleTokens);
        }
        let sum = claim.input.zip(claim.output).map(|(a, b)| u64::from(a) + u64::from(b));
        let is_more = |part: Option<u32>, whole: Option<u32>| {
            part.is_some_and(|part| whole.is_some_and(|whole| part > whole))
        };
        // Usage without any count is not a count of 0, but it is not reliable either.
        let counts_nothing = [claim.input, claim.output, claim.total].iter().all(Option::is_none);
        // Vectors, ranks and images have no output tokens to count.
        let is_zero = self.api.is_text()
            && (claim.output == Some(0)
                || (counts_nothing && !claim.oddities.contains(Oddity::NoCount)));
        let is_counted = output > 0;
        let parts = entry.parts.saturating_sub(self.media_parts);
        let is_odd = |oddity| claim.oddities.contains(oddity);
        let found = [
            (Contradiction::NoTokens, has_output && is_zero),
            (Contradiction::MoreTokensThanBytes, beyond > MOST_INVISIBLE),
            (Contradiction::FewerTokensThanParts, is_counted && output < parts),
            (Contradiction::Decreasing, self.is_decreasing && !is_odd(Oddity::PartUsage)),
            (Contradiction::ReasoningExceedsOutput, is_more(claim.reasoning, claim.output)),
            (Contradiction::CachedExceedsInput, is_more(claim.cached, claim.input)),
            (
                Contradiction::TotalDiffers,
                // A total of 0 beside counts is no total.
                sum.zip(claim.total.filter(|total| *total > 0))
                    .is_some_and(|(sum, total)| sum != u64::from(total))
                    && !is_odd(Oddity::LargerTotal),
            ),
        ];
        for (contradiction, _) in found.into_iter().filter(|(_, is_found)| *is_found) {
            entry.contradictions.insert(contradiction);
        }
    }

    /// Counts output tokens: by the server unless something contradicts its count, otherwise by the
    /// tokenizer if it can encode the text, otherwise one per part with output.
    fn count_output(&self, entry: &mut Entry, form: Form, tokenizer: Option<&dyn Tokenize>) {
        use Contradiction::{FewerTokensThanParts, MoreTokensThanBytes, NoTokens};
        let is_absurd = [NoTokens, MoreTokensThanBytes, FewerTokensThanParts]
            .iter()
            .any(|flag| entry.contradictions.contains(*flag));
        let is_doubtful =
            entry.is_output_doubtful() || entry.oddities.contains(Oddity::InvisibleTokens);
        let claimed = entry.claimed.filter(|_| !is_absurd);
        let counted = tokenizer
            .filter(|_| claimed.is_none() || is_doubtful)
            .and_then(|tokenizer| tokenizer.count(&String::from_utf8_lossy(&self.text)));
        (entry.output, entry.counted_by) = match (claimed, counted) {
            (_, Some(tokens)) => {
                (Some(u32::try_from(tokens).unwrap_or(u32::MAX)), TokenCounter::Tokenizer)
            }
            (Some(tokens), None) => (Some(tokens), TokenCounter::Server),
            (None, None) if form == Form::Stream && self.api.is_text() => {
                (Some(self.parts), TokenCounter::Events)
            }
            (None, None) => (None, TokenCounter::Nobody),
        };
    }

    /// Returns the counted tokens that did not come with the output of a stream. A tokenizer and events
    /// count only what came.
    fn hidden_tokens(&self, entry: &Entry, form: Form) -> HiddenTokens {
        if form == Form::Stream && entry.choices > 1 && self.api.is_text() {
            // The tokens of several choices come mixed.
            return HiddenTokens::Unknown;
        }
        if form != Form::Stream || entry.counted_by != TokenCounter::Server {
            return HiddenTokens::None;
        }
        let output = entry.output.unwrap_or(0);
        let thoughts = match entry.reasoning {
            None if self.has_hidden_thought || self.has_summary => return HiddenTokens::Unknown,
            None | Some(0) => return HiddenTokens::None,
            Some(thoughts) => thoughts,
        };
        if self.thought_bytes > 0 {
            // A token of a thought that came has at least one byte.
            let is_partial =
                self.has_summary || self.has_hidden_thought || self.thought_bytes < thoughts;
            return if is_partial { HiddenTokens::Unknown } else { HiddenTokens::None };
        }
        if contains(&self.text, END_OF_THOUGHT) {
            // The thought is within the text, because the server does not separate it.
            HiddenTokens::None
        } else if self.text_parts() > output.saturating_sub(thoughts) {
            // More parts than tokens that are no thoughts: some thoughts came, too.
            HiddenTokens::Unknown
        } else {
            HiddenTokens::Some(thoughts)
        }
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
        // A whole answer of Ollama states whether it is done.
        let is_over = self.is_done
            || !self.api.has_finish_reasons()
            || (form == Form::Whole && self.api != Api::Ollama);
        let is_partly_finished = (1..entry.choices).contains(&entry.finished);
        // Demanded choices that never came, if at least one came.
        let lacks_choices = (1..entry.demand.choices).contains(&entry.choices);
        let is_cut_off = self.is_cut_off && !self.is_done;
        let is_partial = is_partly_finished || lacks_choices || self.items.is_some() || is_cut_off;
        if is_partial || (!is_over && entry.finished == 0) {
            return Class::Cut;
        }
        if self.has_cut_call(entry.finish) {
            return Class::Cut;
        }
        let is_without = |choice: Choice| choice.bytes == 0;
        if self.output_bytes() == 0 || self.choices().any(is_without) {
            Class::Empty
        } else if is_short(entry) {
            Class::Short
        } else {
            Class::Whole
        }
    }

    /// Returns whether the answer ended within a call of a tool that the server would get back.
    fn has_cut_call(&self, finish: Finish) -> bool {
        let reply = self.reply.as_ref().filter(|_| self.returns_calls);
        let calls = reply.map_or(&[][..], |reply| &reply.calls[..]);
        let is_cut = |arguments: &str| {
            arguments.trim_start().starts_with('{') && is_cut_off(arguments.as_bytes())
        };
        let is_unbegun = calls.last().is_some_and(|call| call.arguments.is_empty());
        (is_unbegun && finish == Finish::Length) || calls.iter().any(|call| is_cut(&call.arguments))
    }

    /// Explains the class of an answer for people. A part that does not belong to an answer may hold the words of the
    /// server.
    pub fn words(&self, entry: &Entry) -> String {
        let words = self.words_of_class(entry);
        let is_unexplained =
            matches!(entry.class, Class::Empty | Class::Cut) && !self.other_part.is_empty();
        if is_unexplained { format!("{words}; it has {}", self.other_part) } else { words }
    }

    fn words_of_class(&self, entry: &Entry) -> String {
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
            Class::Cut
                if (self.is_done || !self.is_stream || choices <= entry.finished)
                    && self.has_cut_call(entry.finish) =>
            {
                format!("a call of a tool was cut off before the end of its arguments{reason}")
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
            Class::Cut if self.api == Api::Ollama => "the answer ended without done: true".into(),
            Class::Cut if self.api == Api::Cohere => {
                "the stream ended without the event message-end".into()
            }
            Class::Cut if self.api == Api::Gemini => "the stream ended without finishReason".into(),
            Class::Cut if self.api == Api::Tgi => "the stream ended without generated_text".into(),
            Class::Cut if self.api == Api::Images => "the stream ended before its image".into(),
            Class::Cut => "the stream ended with neither [DONE] nor a finish_reason".into(),
            Class::Aborted => {
                let said = match &*self.explanation {
                    "" => String::new(),
                    words => format!(": {}", crate::trouble::in_short(words)),
                };
                format!("the server aborted the answer{reason}{said}")
            }
            Class::Filtered => format!("a filter of the server stopped the answer{reason}"),
            Class::Short => format!(
                "the answer has {} output tokens, but the request demanded {}{reason}",
                entry.output.unwrap_or(0),
                u64::from(entry.demand.least.unwrap_or(0)) * u64::from(demanded.max(1))
            ),
        }
    }
}
