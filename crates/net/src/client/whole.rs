//! Hands a whole answer to the instrument.

use std::sync::Arc;

use dyno_loadgen::clock::{MILLISECOND, Nanos};
use dyno_loadgen::drive::real::Responder;
use dyno_loadgen::sut::Response;

use super::{ClientCore, Job};
use crate::ledger::{Entry, HiddenTokens};
use crate::protocol::Reply;

/// A whole answer. Times are those of the run.
pub(super) struct WholeAnswer<'a> {
    pub job: Job,
    /// Node that answered.
    pub node: usize,
    pub data: &'a [u8],
    pub tokens: i64,
    pub entry: Option<Entry>,
    /// Its message, if samples are turns of live sessions.
    pub reply: Option<&'a Reply>,
    /// When it was complete.
    pub at: Nanos,
    /// When its body ended.
    pub ended_at: Nanos,
}

/// Body that ends this much after the last output, in ns: the next turn of a session cannot be sent before,
/// and the wait for it is no delay of the client.
const LATE_END: Nanos = MILLISECOND;

impl WholeAnswer<'_> {
    /// Hands the answer over, and starts tools that must answer its calls before the next turn.
    pub(super) fn settle(self, shared: &Arc<ClientCore>, to: &Responder) {
        let mut entry = self.entry;
        let (job, node) = (self.job, self.node);
        if let Some(reply) = self.reply.filter(|reply| !reply.calls.is_empty()) {
            to.continue_task(job.id);
            let calls = u32::try_from(reply.calls.len()).unwrap_or(u32::MAX);
            entry.iter_mut().for_each(|entry| entry.tool_calls = calls);
        }
        if let Some(reply) = self.reply.filter(|_| !to.is_over()) {
            let has_calls = !reply.calls.is_empty() && shared.requests.has_next_turn(job.index);
            match shared.options.tools.as_ref().filter(|_| has_calls) {
                Some(tools) => shared.answer_calls(tools, (job, node), reply, to),
                None => {
                    shared.continue_session(job, reply, node, &mut entry);
                    to.whole_at(job.id, self.ended_at);
                }
            }
        } else if self.ended_at.saturating_sub(self.at) > LATE_END {
            to.whole_at(job.id, self.ended_at);
        }
        if let Some(entry) = &entry
            && entry.hidden != HiddenTokens::None
        {
            to.timed_tokens(job.id, entry.hidden.timed(self.tokens));
        }
        shared.enter(job, entry, self.ended_at);
        shared.keep_text(job, Ok(self.data));
        let response = Response { id: job.id, data: self.data, tokens: self.tokens };
        to.complete_at(&[response], self.at);
    }
}
