//! Parts of a stream that repeat the text so far.

use super::AnswerBuilder;
use crate::openai::answer::{AnswerSink as _, TextKind};
use crate::openai::usage::Claim;

/// A text of one kind whose parts may repeat what came before.
#[derive(Debug, Default)]
pub(super) struct RepeatedText {
    /// Where it begins in the output of the answer.
    begin: usize,
    /// Bytes of each part, as long as each repeats all text before it.
    lengths: Vec<usize>,
    /// Its parts are additions by the interface, not messages.
    has_additions: bool,
    /// A part does not repeat the text before it.
    is_additive: bool,
}

impl RepeatedText {
    /// Returns the bytes of the text so far.
    fn length(&self) -> usize {
        self.lengths.last().copied().unwrap_or(0)
    }

    /// Returns the number of parts that repeat text before them.
    fn repeats(&self) -> usize {
        self.lengths.len().saturating_sub(1)
    }

    /// Returns whether a text that begins with the first part consists of it alone, again and again. Additions
    /// of such texts are likelier than a text that grows in this way, unless it grows steadily.
    fn is_periodic(&self, text: &[u8]) -> bool {
        let first = &text[..self.lengths[0]];
        text.chunks(first.len()).all(|part| first.starts_with(part))
    }

    /// Returns whether the next part, of this many bytes, has the first part once more than the last one, or is
    /// the last one again after many such parts.
    fn is_steady(&self, length: usize) -> bool {
        let is_next = length == self.lengths[0] * (self.lengths.len() + 1);
        is_next || (length == self.length() && self.repeats() >= LEAST_STEADY_REPEATS)
    }
}

/// Minimum number of additions that repeat all text before them, from which on all of them do.
const LEAST_REPEATS: usize = 2;

/// The least number where the text is one part again and again.
const LEAST_STEADY_REPEATS: usize = 4;

/// The output of a choice whose parts may repeat the text so far.
#[derive(Debug, Default)]
pub(super) struct Generation {
    text: Vec<u8>,
    /// Bytes of text of the last part that repeated the text so far.
    repeated: usize,
    /// Bytes of the first part, as long as all parts are the same.
    same: usize,
    /// Counts with the last part.
    claim: Option<Claim>,
}

impl AnswerBuilder {
    /// Takes a text of a part. Returns how many bytes at its begin repeat the texts of its kind before it.
    ///
    /// A text that extends all text before it repeats that text. So does one that is equal to it, if another
    /// one has extended it before. If a later part does not, all parts are additions. So they are if they consist
    /// of one text again and again, unless each part has it once more.
    pub(super) fn repeated_before(
        &mut self,
        text: &str,
        kind: TextKind,
        is_addition: bool,
    ) -> usize {
        if text.is_empty() || !self.is_stream {
            return 0;
        }
        if self.choices.len() != 1 {
            self.restore(TextKind::Message);
            self.restore(TextKind::Thought);
            return 0;
        }
        let end = self.text.len();
        let known = &mut self.repeats[kind as usize];
        if known.is_additive {
            return 0;
        }
        if known.lengths.is_empty() {
            (known.begin, known.has_additions) = (end, is_addition);
            known.lengths.push(text.len());
            return 0;
        }
        let before = known.length();
        let begins = text.as_bytes().starts_with(&self.text[known.begin..known.begin + before]);
        let is_longer = text.len() > before && known.begin + before == end;
        let is_equal = text.len() == before && known.repeats() > 0;
        if begins
            && (is_longer || is_equal)
            && (!known.has_additions
                || known.is_steady(text.len())
                || !known.is_periodic(text.as_bytes()))
        {
            known.lengths.push(text.len());
            return before;
        }
        self.restore(kind);
        0
    }

    /// Ends the texts of a stream. Few additions that seem to repeat the text so far are additions, and so are
    /// those beside texts of the other kind that do not repeat it.
    pub fn end_repeats(&mut self) {
        let repeated = || self.repeats.iter().filter(|text| text.repeats() > 0);
        let has_additions = repeated().any(|text| text.has_additions);
        let repeats: usize = repeated().map(RepeatedText::repeats).sum();
        let has_others = self.repeats.iter().any(|text| text.is_additive);
        let is_periodic = repeated().any(|text| {
            let so_far = &self.text[text.begin..text.begin + text.length()];
            text.has_additions && text.is_periodic(so_far)
        });
        let least = if is_periodic { LEAST_STEADY_REPEATS } else { LEAST_REPEATS };
        if has_additions && (has_others || repeats < least) {
            self.restore(TextKind::Message);
            self.restore(TextKind::Thought);
        }
    }

    /// Returns whether parts repeat the text so far.
    pub(super) fn has_repeats(&self) -> bool {
        self.repeats.iter().any(|text| text.repeats() > 0)
    }

    /// Restores what was omitted from a text, because its parts are additions.
    fn restore(&mut self, kind: TextKind) {
        let known = std::mem::take(&mut self.repeats[kind as usize]);
        self.repeats[kind as usize].is_additive = true;
        if known.repeats() == 0 {
            return;
        }
        let after = self.text.split_off(known.begin + known.length());
        let so_far = self.text.split_off(known.begin);
        let additions: Vec<u8> =
            known.lengths.iter().flat_map(|length| &so_far[..*length]).copied().collect();
        let more = additions.len() - so_far.len();
        self.text.extend_from_slice(&additions);
        self.text.extend_from_slice(&after);
        for other in self.repeats.iter_mut().filter(|other| other.begin > known.begin) {
            other.begin += more;
        }
        let is_equal = |pair: &&[usize]| pair[0] == pair[1];
        self.parts += known.lengths.windows(2).filter(is_equal).count() as u32;
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        let thoughts = if kind == TextKind::Thought { more } else { 0 };
        self.thought_bytes = self.thought_bytes.saturating_add(thoughts);
        if let Some(choice) = self.choices.iter_mut().find(|choice| choice.is_there) {
            choice.bytes = choice.bytes.saturating_add(more);
            choice.thought_bytes = choice.thought_bytes.saturating_add(thoughts);
        }
        let replied = self.reply.as_mut().map(|reply| match kind {
            TextKind::Message => &mut reply.text,
            TextKind::Thought => &mut reply.thought,
        });
        if let Some(text) = replied
            && let Some(begin) = text.len().checked_sub(so_far.len())
            && text.as_bytes()[begin..] == so_far
        {
            text.truncate(begin);
            text.push_str(&String::from_utf8_lossy(&additions));
        }
    }

    /// Takes the text of a choice so far, or an addition to it, as some versions of the server send, and the
    /// counts of that choice. `is_stopped`: the model ended the text itself.
    ///
    /// A first part that comes again, with more tokens, is an addition, unless a later part extends it:
    /// then the tokens had no text. The token that ends a text has none.
    pub fn output_so_far(&mut self, text: &str, claim: Option<Claim>, is_stopped: bool) {
        let known = self.current;
        if self.generations.len() <= known {
            self.generations.resize_with(known + 1, Generation::default);
        }
        let known = &mut self.generations[known];
        let tokens = |claim: Option<Claim>| claim.and_then(|claim| claim.output);
        let has_grown =
            tokens(claim).zip(tokens(known.claim)).is_some_and(|(now, then)| now > then);
        known.claim = claim.or(known.claim);
        let first = std::mem::take(&mut known.same);
        let is_end = is_stopped && known.text.len() == first;
        let is_first_again = first > 0 && text.as_bytes() == &known.text[..first];
        let new = if is_first_again && has_grown && !is_end {
            known.same = first;
            text
        } else {
            if first > 0 && text.len() > first && text.as_bytes().starts_with(&known.text[..first])
            {
                known.text.truncate(first);
            }
            if known.text.is_empty() {
                known.same = text.len();
            }
            let before = known.text.len();
            let is_repeated = known.repeated == before && text.as_bytes().starts_with(&known.text);
            if is_repeated {
                known.repeated = text.len();
                &text[before..]
            } else {
                text
            }
        };
        known.text.extend_from_slice(new.as_bytes());
        self.output(new, false);
        let length: usize = self.generations.iter().map(|one| one.text.len()).sum();
        if length < self.text.len() {
            self.text.clear();
            self.generations.iter().for_each(|one| self.text.extend_from_slice(&one.text));
        }
        if let Some(all) = claim.and_then(|_| self.claim_of_generations()) {
            self.usage(all);
        }
    }

    /// Returns the counts of all choices, each of which counts its own output.
    fn claim_of_generations(&self) -> Option<Claim> {
        let sum = |one: Option<u32>, other: Option<u32>| match (one, other) {
            (Some(one), Some(other)) => Some(one.saturating_add(other)),
            (one, other) => one.or(other),
        };
        self.generations.iter().filter_map(|one| one.claim).reduce(|all, one| Claim {
            output: sum(all.output, one.output),
            reasoning: sum(all.reasoning, one.reasoning),
            total: None,
            ..all
        })
    }
}
