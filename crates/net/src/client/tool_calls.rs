//! Calls of tools that the client answers between two turns of a session.
//!
//! They run on threads of their own. The answer that calls them is complete before that; only the next
//! turn of its session waits for them. They end with the run.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use dyno_loadgen::clock::Clock;
use dyno_loadgen::drive::real::Responder;
use dyno_loadgen::rng::Mt19937;

use super::{ClientCore, Job};
use crate::protocol::{Reply, ToolCall};
use crate::workload::{Lengths, draw_words};

/// Function that answers the call of a tool. It may take its time, but must return soon after the run is
/// over.
///
/// # Errors
/// Why there is no result.
pub type ToolRunner = Arc<dyn Fn(&ToolCall, &RunEnd) -> Result<String, String> + Send + Sync>;

/// Maximum words of a random result.
pub const MOST_RESULT_WORDS: u64 = 100_000;

/// Returns a function that answers each call with random words.
pub fn random_results(words: Lengths, seed: u64) -> ToolRunner {
    let rng = Mutex::new(Mt19937::new(seed));
    Arc::new(move |_: &ToolCall, _: &RunEnd| {
        let mut rng = rng.lock().unwrap_or_else(PoisonError::into_inner);
        let words = words.draw(&mut rng);
        if words > MOST_RESULT_WORDS {
            return Err(format!("a result of {words} words is longer than {MOST_RESULT_WORDS}"));
        }
        let mut text = String::new();
        draw_words(&mut text, &mut rng, words);
        Ok(text)
    })
}

/// Whether the run is over.
#[derive(Debug, Default)]
pub struct RunEnd(AtomicBool);

impl RunEnd {
    /// Returns whether the run is over.
    pub fn is_over(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Ends the run.
    pub fn end(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Calls of tools in progress.
#[derive(Default)]
pub(super) struct ToolCalls {
    end: RunEnd,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl ToolCalls {
    /// Permits calls again.
    pub(super) fn expect_run(&self) {
        self.end.0.store(false, Ordering::Release);
    }

    /// Starts a thread for calls, unless the run is over.
    ///
    /// # Errors
    /// The system starts no further thread.
    fn start(&self, calls: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.end.is_over() {
            threads.retain(|thread| !thread.is_finished());
            threads.push(std::thread::Builder::new().spawn(calls)?);
        }
        Ok(())
    }

    /// Ends all calls, and returns when they have ended.
    pub(super) fn end(&self) {
        self.end.end();
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // A panic was already printed on standard error.
            let _ = thread.join();
        }
    }
}

impl ClientCore {
    /// Holds the turn that follows a reply until tools have answered the calls of the reply. Called
    /// before the answer is reported as complete. Without a thread, each call fails.
    pub(super) fn answer_calls(
        self: &Arc<Self>,
        tools: &ToolRunner,
        turn: (Job, usize),
        reply: &Reply,
        to: &Responder,
    ) {
        to.hold_turn(turn.0.id);
        let (core, tools, own, waiting) = (self.clone(), tools.clone(), reply.clone(), to.clone());
        let calls = move || core.answer_and_release(&tools, turn, own, &waiting);
        if let Err(error) = self.tool_calls.start(calls) {
            let why = format!("cannot start a thread: {error}");
            let refuse: ToolRunner = Arc::new(move |_: &ToolCall, _: &RunEnd| Err(why.clone()));
            self.answer_and_release(&refuse, turn, reply.clone(), to);
        }
    }

    /// Answers the calls of a reply, and releases the turn that follows, unless the run is over.
    fn answer_and_release(
        &self,
        tools: &ToolRunner,
        (job, node): (Job, usize),
        mut reply: Reply,
        to: &Responder,
    ) {
        if self.run_tools(tools, &mut reply) {
            self.continue_session(job, &reply, node, &mut None);
            to.release_turn(job.id, to.now());
        }
    }

    /// Answers the calls of a reply, one after the other. A call without a result gets the reason as
    /// its result, as agents do, and is counted. Returns false if the run ended before that.
    fn run_tools(&self, tools: &ToolRunner, reply: &mut Reply) -> bool {
        let end = &self.tool_calls.end;
        for call in &mut reply.calls {
            let clock = Clock::start();
            let result = tools(call, end);
            if end.is_over() {
                return false;
            }
            self.counters.tool_called(clock.now(), result.is_err());
            call.result = Some(result.unwrap_or_else(|why| format!("error: {why}")));
        }
        true
    }
}
