//! Hands a whole answer to the instrument, at once, or after tools have answered its calls.
//!
//! Tools run on a thread of their own. The answer counts as complete when it was read; only the next turn
//! of its session waits for the tools, as it does for a think time.

use std::sync::Arc;

use dyno_loadgen::clock::{Clock, Nanos};
use dyno_loadgen::drive::real::Responder;
use dyno_loadgen::sut::Response;

use super::{ClientCore, Job};
use crate::ledger::Entry;
use crate::protocol::{Reply, ToolCall};

/// Function that answers the call of a tool. It may take its time.
///
/// # Errors
/// Why there is no result.
pub type ToolRunner = Arc<dyn Fn(&ToolCall) -> Result<String, String> + Send + Sync>;

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
    /// When its body had ended.
    pub ended_at: Nanos,
}

impl WholeAnswer<'_> {
    /// Hands the answer over, on another thread if tools must answer its calls first.
    pub(super) fn settle(self, shared: &Arc<ClientCore>, to: Responder) {
        let calls = self.reply.filter(|reply| !reply.calls.is_empty() && !to.is_over());
        let has_next = || shared.requests.has_next_turn(self.job.index);
        match (&shared.options.tools, calls) {
            (Some(tools), Some(reply)) if has_next() => {
                let (shared, tools) = (shared.clone(), tools.clone());
                let (mut reply, data) = (reply.clone(), self.data.to_vec());
                let Self { job, node, tokens, entry, at, ended_at, .. } = self;
                std::thread::spawn(move || {
                    shared.run_tools(&tools, &mut reply);
                    let ready_at = to.now();
                    let reply = Some(&reply);
                    let data = &data[..];
                    let whole = WholeAnswer { job, node, data, tokens, entry, reply, at, ended_at };
                    whole.hand_over(&shared, &to, ready_at);
                });
            }
            _ => {
                let ready_at = self.ended_at;
                self.hand_over(shared, &to, ready_at);
            }
        }
    }

    /// Hands the answer over. The next turn of its session is not due before `ready_at`.
    fn hand_over(self, shared: &ClientCore, to: &Responder, ready_at: Nanos) {
        let mut entry = self.entry;
        if let Some(reply) = self.reply.filter(|_| !to.is_over()) {
            shared.continue_session(self.job, reply, self.node, &mut entry);
        }
        shared.enter(self.job, entry, self.ended_at);
        shared.keep_text(self.job, Ok(self.data));
        let id = self.job.id;
        if self.reply.is_some() {
            to.whole_at(id, ready_at);
        }
        to.complete_at(&[Response { id, data: self.data, tokens: self.tokens }], self.at);
    }
}

impl ClientCore {
    /// Answers the calls of a reply, one after the other. A call without a result gets the reason as
    /// its result, as agents do, and is counted.
    fn run_tools(&self, tools: &ToolRunner, reply: &mut Reply) {
        for call in &mut reply.calls {
            let clock = Clock::start();
            let result = tools(call);
            self.counters.tool_called(clock.now(), result.is_err());
            call.result = Some(result.unwrap_or_else(|why| format!("error: {why}")));
        }
    }
}
