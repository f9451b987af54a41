//! Watch over a plug-in that does not answer, or whose function does not return.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use dyno_loadgen::clock::{MILLISECOND, Nanos, SECOND};

use crate::exit;
use crate::pending::{Pending, Progress};

/// Function that ends an engine. No run waits for samples during its call.
pub(crate) const CLOSE: &str = "dyno_engine_close";

/// Time between two looks at a plug-in.
const LOOK: Nanos = 50 * MILLISECOND;

/// Least limit of a call: the end of an engine may take much longer than its answers.
const LEAST_LIMIT: Nanos = 10 * SECOND;

/// A thread that watches a plug-in, until this is dropped.
pub(crate) struct Watch {
    running: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Begins to watch. `timeout` is the maximum time without a completion while samples are open.
    ///
    /// # Errors
    /// A sentence if there are no more threads.
    pub fn begin(pending: &'static Pending, timeout: Nanos) -> Result<Self, String> {
        let (running, is_over) = mpsc::channel();
        let thread = thread::Builder::new().name("plugin-watch".into());
        let thread = thread.spawn(move || watch(pending, timeout, &is_over));
        let thread = thread.map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Self { running: Some(running), thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.running = None;
        if let Some(thread) = self.thread.take() {
            // It has no panics of its own.
            let _ = thread.join();
        }
    }
}

/// Breaks a run off when samples are open and none was completed for `timeout`. Ends the process when
/// a call neither returns nor completes a sample for twice as long: the process waits for the call.
fn watch(pending: &Pending, timeout: Nanos, is_over: &mpsc::Receiver<()>) {
    let limit = timeout.saturating_mul(2).max(LEAST_LIMIT);
    let seconds = |time: Nanos| time as f64 / 1e9;
    let mut silence = Silence { before: pending.progress(), samples: 0, call: 0 };
    while is_over.recv_timeout(Duration::from_nanos(LOOK)) == Err(RecvTimeoutError::Timeout) {
        let now = pending.progress();
        silence.look(now);
        if silence.samples >= timeout.max(LOOK) && now.call.function != Some(CLOSE) {
            let (open, seconds) = (now.open, seconds(timeout));
            let samples = if open == 1 { "sample has" } else { "samples have" };
            pending.break_off(format_args!(
                "{open} {samples} no completion, and none came for {seconds} s; timeout=TIME sets \
                 the limit"
            ));
        }
        if let Some(function) = now.call.function
            && silence.call >= limit
        {
            let (seconds, least) = (seconds(limit), seconds(LEAST_LIMIT));
            // A breach may be why the call does not return.
            let mut problems = Vec::from_iter(pending.breach().map(str::to_owned));
            problems.push(pending.sentence(format_args!(
                "{function} has not returned for {seconds} s, and no sample was completed; the \
                 limit is twice timeout=TIME, at least {least} s"
            )));
            exit::end(&problems.join("\nerror: "));
        }
    }
}

/// How long a plug-in has been silent.
///
/// It counts looks instead of reading a clock: while the process is stopped or the machine stalls, the
/// plug-in cannot answer either.
struct Silence {
    before: Progress,
    /// Time without a completion while samples are open.
    samples: Nanos,
    /// Time of the present call, or of the time between calls, without a completion.
    call: Nanos,
}

impl Silence {
    fn look(&mut self, now: Progress) {
        let is_progress = now.completed != self.before.completed;
        self.samples += LOOK;
        self.call += LOOK;
        // A run that begins after a pause starts the time anew.
        if is_progress || now.open == 0 || self.before.open == 0 {
            self.samples = 0;
        }
        if is_progress || now.call != self.before.call {
            self.call = 0;
        }
        self.before = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pending::Call;

    #[test]
    fn completions_and_new_calls_end_a_silence() {
        let issue = Call { function: Some("dyno_engine_issue"), count: 1 };
        let first = Progress { open: 2, completed: 0, call: issue };
        let mut silence = Silence { before: first, samples: 0, call: 0 };
        let mut check = |now: Progress, samples: Nanos, call: Nanos| {
            silence.look(now);
            assert_eq!((silence.samples, silence.call), (samples * LOOK, call * LOOK), "{now:?}");
        };
        check(first, 1, 1);
        check(first, 2, 2);
        let half = Progress { open: 1, completed: 1, ..first };
        check(half, 0, 0);
        check(half, 1, 1);
        // The call has returned, then another one begins.
        let returned = Progress { call: Call { function: None, count: 1 }, ..half };
        check(returned, 2, 0);
        check(Progress { call: Call { count: 2, ..issue }, ..half }, 3, 0);
        // Without open samples, only the call is silent.
        let done = Progress { open: 0, call: Call { count: 2, ..issue }, ..half };
        check(done, 0, 1);
        check(done, 0, 2);
    }
}
