//! Samples that a plug-in has not completed, and what it does wrong.

use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::slice;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use dyno_loadgen::record::Failure;
use dyno_loadgen::sut::{Responder, Response, ResponseId};

use crate::abi::{self, Answer};
use crate::system::Inputs;

/// What answers refer to. The plug-in has its address as the context.
pub(crate) struct Pending {
    path: PathBuf,
    /// Whether the engine reports first tokens.
    is_streaming: bool,
    samples: Mutex<Samples>,
    /// The first breach of the interface, which ends the run.
    breach: OnceLock<String>,
    /// The message of the first sample that the plug-in failed.
    failure: OnceLock<String>,
    call: Mutex<Call>,
}

/// Calls of the plug-in's functions, which come one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Call {
    /// Function whose call is in progress.
    pub function: Option<&'static str>,
    /// Calls that have begun.
    pub count: u64,
}

/// Maximum number of tokens of an answer.
const MOST_TOKENS: i64 = u32::MAX as i64;

/// Samples of all runs.
#[derive(Default)]
struct Samples {
    open: HashMap<u64, PendingSample>,
    /// Completed samples so far.
    completed: u64,
    /// The highest sequence number of each run and tenant, to recognize a second completion.
    issued: HashMap<u64, u64>,
}

/// A sample that is issued and not complete.
pub(crate) struct PendingSample {
    pub responder: Responder,
    /// Memory that the plug-in reads until the sample is complete.
    #[expect(dead_code, reason = "it is owned, and only the plug-in reads it")]
    pub inputs: Inputs,
}

/// State of the samples, for the watch over silent plug-ins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Progress {
    pub open: usize,
    pub completed: u64,
    pub call: Call,
}

impl Pending {
    pub fn new(path: PathBuf, is_streaming: bool) -> Self {
        let (breach, failure) = (OnceLock::new(), OnceLock::new());
        let (samples, call) = (Mutex::default(), Mutex::default());
        Self { path, is_streaming, samples, breach, failure, call }
    }

    fn lock(&self) -> MutexGuard<'_, Samples> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a call of a function begins; the caller keeps other calls out.
    pub fn begin_call(&self, function: &'static str) {
        let mut call = self.call.lock().unwrap_or_else(PoisonError::into_inner);
        *call = Call { function: Some(function), count: call.count + 1 };
    }

    /// Notes that the call has returned.
    pub fn end_call(&self) {
        self.call.lock().unwrap_or_else(PoisonError::into_inner).function = None;
    }

    /// Returns the sentence of an error about this plug-in.
    pub fn sentence(&self, why: impl Display) -> String {
        format!("plug-in {}: {why}", self.path.display())
    }

    /// Returns the first breach of the interface.
    pub fn breach(&self) -> Option<&str> {
        self.breach.get().map(String::as_str)
    }

    /// Returns the first breach, or the message of the first failed sample.
    pub fn reason(&self) -> Option<&str> {
        self.breach().or_else(|| self.failure.get().map(String::as_str))
    }

    pub fn progress(&self) -> Progress {
        let call = *self.call.lock().unwrap_or_else(PoisonError::into_inner);
        let samples = self.lock();
        Progress { open: samples.open.len(), completed: samples.completed, call }
    }

    /// Adds samples before the plug-in gets them.
    pub fn add(&self, added: impl Iterator<Item = (ResponseId, PendingSample)>) {
        let mut samples = self.lock();
        for (id, sample) in added {
            let highest = samples.issued.entry(id.run()).or_default();
            *highest = id.sequence().max(*highest);
            samples.open.insert(id.0, sample);
        }
    }

    /// Fails samples that the plug-in refused. It must not have completed one of them.
    pub fn refuse(&self, ids: impl Iterator<Item = ResponseId>, why: impl Display) {
        self.failure.get_or_init(|| self.sentence(&why));
        let mut was_completed = false;
        for id in ids {
            let removed = self.lock().open.remove(&id.0);
            match removed {
                Some(sample) => sample.responder.fail(&[id], Failure::Internal),
                None => was_completed = true,
            }
        }
        if was_completed {
            self.break_off(format_args!("{why}, although a sample of the call is complete"));
        }
    }

    /// Ends the run: notes what the plug-in did, and fails all samples. The memory of samples that it
    /// has not completed stays, because it may still read it.
    pub fn break_off(&self, why: impl Display) {
        if self.breach.set(self.sentence(why)).is_err() {
            return;
        }
        let open = std::mem::take(&mut self.lock().open);
        for (id, sample) in &open {
            sample.responder.fail(&[ResponseId(*id)], Failure::Internal);
        }
        std::mem::forget(open);
    }

    /// Takes one answer.
    fn take(&self, answer: &Answer) {
        let id = ResponseId(answer.id);
        if answer.size > 0 && answer.data.is_null() {
            self.break_off(format_args!("an answer has {} bytes at NULL", answer.size));
            return;
        }
        if answer.size > isize::MAX as usize {
            self.break_off(format_args!("an answer has {} bytes", answer.size));
            return;
        }
        let data: &[u8] = if answer.size == 0 {
            &[]
        } else {
            // SAFETY: not NULL, no longer than memory, and the header requires this many bytes during
            // the callback.
            unsafe { slice::from_raw_parts(answer.data.cast(), answer.size) }
        };
        if answer.kind == abi::DONE && !(0..=MOST_TOKENS).contains(&answer.tokens) {
            let tokens = answer.tokens;
            self.break_off(format_args!("an answer has {tokens} tokens"));
            return;
        }
        if answer.kind == abi::FIRST_TOKEN {
            let responder = self.lock().open.get(&answer.id).map(|sample| sample.responder.clone());
            match responder {
                // Without the flag, Dyno has no place for first tokens and would drop them.
                Some(_) if !self.is_streaming => {
                    self.break_off("it reported a first token, but its flags lack DYNO_STREAMING");
                }
                Some(responder) => responder.first_token(&[Response { id, data, tokens: 0 }]),
                None => self.report_stray(id, "reported a first token of"),
            }
            return;
        }
        let removed = {
            let mut samples = self.lock();
            let removed = samples.open.remove(&answer.id);
            samples.completed += u64::from(removed.is_some());
            removed
        };
        let Some(PendingSample { responder, .. }) = removed else {
            return self.report_stray(id, "completed");
        };
        match answer.kind {
            abi::DONE => responder.complete(&[Response { id, data, tokens: answer.tokens }]),
            kind => {
                responder.fail(&[id], Failure::Internal);
                if kind == abi::FAILED {
                    let words = match String::from_utf8_lossy(data) {
                        words if words.is_empty() => "it failed a sample without a message".into(),
                        words => words,
                    };
                    self.failure.get_or_init(|| self.sentence(words));
                } else {
                    self.break_off(format_args!("an answer has the unknown kind {kind}"));
                }
            }
        }
    }

    fn report_stray(&self, id: ResponseId, verb: &str) {
        let is_issued =
            self.lock().issued.get(&id.run()).is_some_and(|highest| id.sequence() <= *highest);
        let ResponseId(number) = id;
        // Samples that were open when the run was broken off may still be completed.
        if is_issued {
            self.break_off(format_args!("it {verb} sample {number}, which was complete before"));
        } else {
            self.break_off(format_args!("it {verb} sample {number}, which was never issued"));
        }
    }
}

/// Takes answers of a plug-in: `dyno_complete`.
///
/// # Safety
/// `context` leads to a [`Pending`] that is never freed, and `answers` to `count` answers, as the
/// header requires.
pub(crate) unsafe extern "C" fn complete(
    context: *mut c_void,
    answers: *const Answer,
    count: usize,
) {
    // SAFETY: as the caller states. A plug-in that passes something else breaks the header's rule.
    let Some(pending) = (unsafe { context.cast::<Pending>().as_ref() }) else { return };
    if count == 0 {
        return;
    }
    let most = isize::MAX as usize / size_of::<Answer>();
    if answers.is_null() || !answers.is_aligned() || count > most {
        pending.break_off(format_args!("it passed {count} answers at {answers:p}"));
        return;
    }
    // SAFETY: not NULL, aligned, no longer than memory, and as the caller states.
    let answers = unsafe { slice::from_raw_parts(answers, count) };
    let taken = catch_unwind(AssertUnwindSafe(|| answers.iter().for_each(|one| pending.take(one))));
    if taken.is_err() {
        // No panic crosses into C. Its message is on standard error.
        pending.break_off("Dyno panicked while it took an answer");
    }
}
