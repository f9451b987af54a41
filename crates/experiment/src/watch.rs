//! Watching an experiment while it is on, and ending it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::drive::Glance;
use dyno_results::summary::Verdict;

use crate::goals::Goals;
use crate::test::Test;

/// An observer of an experiment. Its methods are called from several threads, between tests and
/// while they are on; they must return soon.
pub trait Watch: Send + Sync + std::fmt::Debug {
    /// Takes a sentence that a user should read now, such as a warning.
    fn say(&self, _sentence: &str) {}

    /// The tests that are to come.
    fn plan(&self, _heading: &str, _tests: &[Test]) {}

    /// A test begins.
    fn begin(&self, _title: &str, _goals: Goals) {}

    /// A run within the test begins, such as the next one of a search.
    fn remark(&self, _remark: &str) {}

    /// Whether glances at a test are wanted; they cost some time.
    fn wants_glances(&self) -> bool {
        false
    }

    /// Takes what was seen of the test that is on; `None` if there is nothing new.
    fn saw(&self, _glance: Option<&Glance>) {}

    /// The test is over.
    fn clear(&self) {}

    /// A planned test has this result.
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
    /// Such as `998.4 queries/s`.
    pub text: String,
    /// The worst verdict of the tenants.
    pub verdict: Verdict,
}

/// A request to end an experiment. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    is_asked: Arc<AtomicBool>,
    is_writing: Arc<AtomicBool>,
}

impl Interrupt {
    /// Asks for an end: nothing more is issued, and what was measured is written. Returns whether
    /// it was asked for before.
    pub fn ask(&self) -> bool {
        self.is_asked.swap(true, Ordering::Relaxed)
    }

    /// Returns whether an end was asked for.
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

/// Who watches an experiment, and what ends it.
#[derive(Debug, Clone, Copy)]
pub struct Control<'a> {
    /// Its observer.
    pub watch: &'a Arc<dyn Watch>,
    /// Ends it.
    pub interrupt: Option<&'a Interrupt>,
    /// Ends a test, too, when it has taken so long, ns.
    pub most: Option<Nanos>,
}

impl Control<'_> {
    /// Notes that results are being written, or no longer.
    pub fn writes(&self, is_on: bool) {
        if let Some(interrupt) = self.interrupt {
            interrupt.set_writing(is_on);
        }
    }

    pub(crate) fn ends(&self, now: Nanos) -> bool {
        self.interrupt.is_some_and(Interrupt::is_asked) || self.most.is_some_and(|most| now >= most)
    }
}
