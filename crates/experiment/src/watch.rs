//! Observation and interruption of running experiments.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::drive::Glance;
use dyno_results::summary::Verdict;

use crate::goals::Goals;
use crate::test::PlannedTest;

/// An observer of an experiment. Its methods are called from several threads, between tests and
/// while they are on; they must return soon.
pub trait Watch: Send + Sync + std::fmt::Debug {
    /// Takes a sentence that a user should read now, such as a warning.
    fn say(&self, _sentence: &str) {}

    /// Takes a line about a run of a job that begins or is over, such as the next run of a search.
    fn step(&self, line: &str) {
        self.say(line);
    }

    /// Receives the planned tests.
    fn plan(&self, _heading: &str, _tests: &[PlannedTest]) {}

    /// Receives the start of a test.
    fn begin(&self, _title: &str, _goals: Goals) {}

    /// Receives the start of a run within the test, such as the next run of a search.
    fn remark(&self, _remark: &str) {}

    /// Returns whether progress of tests is wanted, which costs some time.
    fn wants_glances(&self) -> bool {
        false
    }

    /// Receives the progress of the running test; `None` if there is nothing new.
    fn saw(&self, _glance: Option<&Glance>) {}

    /// Receives the latest values of the servers' metrics pages in words, such as `8 running, 3
    /// waiting`.
    fn servers(&self, _words: &str) {}

    /// Receives the end of the test.
    fn clear(&self) {}

    /// Receives the result of a planned test.
    fn result(&self, _result: TestResult) {}
}

#[derive(Debug, Clone, Copy)]
struct Quiet;

impl Watch for Quiet {}

/// Returns an observer that ignores everything.
pub fn quiet() -> Arc<dyn Watch> {
    Arc::new(Quiet)
}

/// The result of a test in a few words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestResult {
    /// Headline, such as `998.4 queries/s`.
    pub text: String,
    /// The worst verdict of the tenants.
    pub verdict: Verdict,
}

/// A flag that requests the end of an experiment. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    is_asked: Arc<AtomicBool>,
    is_writing: Arc<AtomicBool>,
}

impl Interrupt {
    /// Requests the end: nothing more is issued, and results are written. Returns whether it was
    /// already requested.
    pub fn ask(&self) -> bool {
        self.is_asked.swap(true, Ordering::Relaxed)
    }

    /// Returns whether the end was requested.
    pub fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed)
    }

    /// Notes whether results are being written, which should not be cut off.
    pub fn set_writing(&self, is_on: bool) {
        self.is_writing.store(is_on, Ordering::Relaxed);
    }

    /// Returns whether results are being written.
    pub fn is_writing(&self) -> bool {
        self.is_writing.load(Ordering::Relaxed)
    }
}

/// Observer and limits of an experiment.
#[derive(Debug, Clone, Copy)]
pub struct Control<'a> {
    /// Observer.
    pub watch: &'a Arc<dyn Watch>,
    /// Flag that ends the experiment.
    pub interrupt: Option<&'a Interrupt>,
    /// Time limit of a test, ns.
    pub most: Option<Nanos>,
}

impl Control<'_> {
    /// Records whether results are being written.
    pub fn writes(&self, is_on: bool) {
        if let Some(interrupt) = self.interrupt {
            interrupt.set_writing(is_on);
        }
    }

    pub(crate) fn ends(&self, now: Nanos) -> bool {
        self.interrupt.is_some_and(Interrupt::is_asked) || self.most.is_some_and(|most| now >= most)
    }
}
