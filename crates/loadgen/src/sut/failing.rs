//! Detects during a run that the system fails most samples.

use std::collections::VecDeque;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use crate::record::Failure;
use crate::sync::{AtomicBool, Mutex};

/// Number of answers in the window at the start of a run.
pub const FIRST_ANSWERS: u64 = 20;
/// Number of answers in the window of the latest answers.
pub const LAST_ANSWERS: u64 = 200;
/// Number of failures that is more than half of the latest answers.
const TOO_MANY: usize = 101;
const _: () =
    assert!(TOO_MANY as u64 * 2 > LAST_ANSWERS && (TOO_MANY as u64 - 1) * 2 <= LAST_ANSWERS);

/// Window of answers in which failures are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerWindow {
    /// The first answers of the run.
    First,
    /// The last answers before the run was ended.
    Last,
}

/// Report of a system that failed all of its first answers, or more than half of its latest ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MassFailure {
    /// The tenant whose samples failed.
    pub tenant: usize,
    /// Window in which the failures were counted.
    pub window: AnswerWindow,
    /// Answers in that window that failed.
    pub failed: u64,
    /// Answers in that window.
    pub answers: u64,
}

/// Abort flags that other threads than the issuing one may set. Shared by all runs of a test.
#[derive(Debug, Default)]
pub(crate) struct Control {
    abort: AtomicBool,
    fails_fast: AtomicBool,
    failing: Mutex<Option<MassFailure>>,
}

impl Control {
    pub(crate) fn abort(&self) {
        self.abort.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_aborted(&self) -> bool {
        self.abort.load(Ordering::Relaxed)
    }

    pub(crate) fn fail_fast(&self, is_on: bool) {
        self.fails_fast.store(is_on, Ordering::Relaxed);
    }

    /// Ends the run of a failing system, if fail-fast is enabled.
    pub(crate) fn report(&self, failing: MassFailure) {
        if self.fails_fast.load(Ordering::Relaxed) && !self.is_aborted() {
            self.failing.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failing);
            self.abort();
        }
    }

    pub(crate) fn failing(&self) -> Option<MassFailure> {
        *self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Effect of a reported failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureNote {
    /// No effect: the sample was complete before, or was never issued.
    Stale,
    /// One more failure.
    Failed,
    /// One more failure, which exceeds the limit of a window.
    Failing { window: AnswerWindow, failed: u64, answers: u64 },
}

/// The failures of a tenant in one run.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    /// Sequence number of the sample, and the reason.
    pub(crate) list: Vec<(u64, Failure)>,
    /// Number of answers up to and including each of the latest failures.
    answers: VecDeque<u64>,
    /// Samples in the list that the client cancelled, which are no failures of the system.
    pub(crate) cancelled: u64,
}

impl Failures {
    /// Records a failure, which is answer number `answers` of the run.
    ///
    /// Answers are counted at failures alone, so that an answered sample costs nothing.
    pub(crate) fn add(&mut self, sequence: u64, why: Failure, answers: u64) -> FailureNote {
        self.list.push((sequence, why));
        if why == Failure::Cancelled {
            self.cancelled += 1;
            return FailureNote::Failed;
        }
        self.answers.push_back(answers);
        if self.answers.len() > TOO_MANY {
            self.answers.pop_front();
        }
        let failed = self.list.len() as u64 - self.cancelled;
        if failed == FIRST_ANSWERS && answers <= failed {
            return FailureNote::Failing { window: AnswerWindow::First, failed, answers: failed };
        }
        let within = answers.saturating_sub(self.answers[0]) + 1;
        let is_failing = self.answers.len() == TOO_MANY && within <= LAST_ANSWERS;
        if !is_failing {
            return FailureNote::Failed;
        }
        let failed = TOO_MANY as u64;
        FailureNote::Failing { window: AnswerWindow::Last, failed, answers: within.max(failed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns which answer ends the run; `fails` returns whether an answer fails, from 0.
    fn ended_by(answers: u64, fails: impl Fn(u64) -> bool) -> Option<(u64, AnswerWindow)> {
        let mut failures = Failures::default();
        (0..answers).filter(|&answer| fails(answer)).find_map(|answer| {
            match failures.add(answer, Failure::Internal, answer + 1) {
                FailureNote::Failing { window, .. } => Some((answer + 1, window)),
                FailureNote::Failed | FailureNote::Stale => None,
            }
        })
    }

    /// Computes the same directly from the rule, with a list of all answers.
    fn by_the_words(answers: u64, fails: impl Fn(u64) -> bool) -> Option<(u64, AnswerWindow)> {
        let failed: Vec<bool> = (0..answers).map(fails).collect();
        (1..=failed.len()).find_map(|seen| {
            let first = seen == 20 && failed[..20].iter().all(|&is_failed| is_failed);
            let last = &failed[seen.saturating_sub(200)..seen];
            let many = last.iter().filter(|&&is_failed| is_failed).count() > 100;
            let window = if first { AnswerWindow::First } else { AnswerWindow::Last };
            (first || many).then_some((seen as u64, window))
        })
    }

    #[test]
    fn a_run_ends_as_the_words_of_the_rule_say() {
        let cases: [(&str, &dyn Fn(u64) -> bool); 7] = [
            ("all", &|_| true),
            ("all but the first", &|answer| answer != 0),
            ("all but the 20th", &|answer| answer != 19),
            ("every second", &|answer| answer % 2 == 0),
            ("two of three", &|answer| answer % 3 != 0),
            ("none, then all", &|answer| answer >= 1_000),
            ("99 of each 200", &|answer| answer % 200 < 99),
        ];
        for (name, fails) in cases {
            assert_eq!(ended_by(3_000, fails), by_the_words(3_000, fails), "{name}");
        }
        assert_eq!(ended_by(3_000, |_| true), Some((20, AnswerWindow::First)));
        assert_eq!(ended_by(3_000, |answer| answer % 2 == 0), None);
        assert_eq!(ended_by(3_000, |answer| answer >= 1_000).unwrap().0, 1_101);
    }

    #[test]
    fn only_a_run_that_is_to_fail_fast_is_ended() {
        let (window, failed, answers) = (AnswerWindow::First, 20, 20);
        let failing = MassFailure { tenant: 1, window, failed, answers };
        let control = Control::default();
        control.report(failing);
        assert_eq!((control.is_aborted(), control.failing()), (false, None));
        control.fail_fast(true);
        control.report(failing);
        control.report(MassFailure { tenant: 0, ..failing });
        assert_eq!((control.is_aborted(), control.failing()), (true, Some(failing)));
    }
}
