//! Failures that ended a test early.

use dyno_loadgen::drive::real::{self, AnswerWindow};
use serde::{Deserialize, Serialize};

use super::{Cause, Reason, ReasonKind, State, Test};

/// Failures that stopped a test early (`--fail-fast`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Failing {
    /// inspected answers: `first`, or `last` before the end
    pub window: String,
    /// failed samples
    pub failed: u64,
    /// number of inspected answers
    pub answers: u64,
    /// message of the system for the most frequent kind of failure; null without a message
    pub words: Option<String>,
}

/// Advice on a test that failures ended.
const ADVICE: &str = "Check the system and its requests; --fail-fast off continues despite \
     failures.";

impl Failing {
    /// Returns the failures of a run, with the message of the system.
    pub fn new(found: real::MassFailure, words: Option<String>) -> Self {
        let window = match found.window {
            AnswerWindow::First => "first",
            AnswerWindow::Last => "last",
        };
        Self { window: window.into(), failed: found.failed, answers: found.answers, words }
    }

    /// Returns a sentence without a final period: `all of the first 20 answers failed: HTTP status
    /// 401`.
    pub fn sentence(&self) -> String {
        let Self { window, failed, answers, words } = self;
        let part = if failed == answers { "all".into() } else { failed.to_string() };
        let words = words.as_ref().map(|words| format!(": {words}")).unwrap_or_default();
        format!("{part} of the {window} {answers} answers failed{words}")
    }

    /// Returns why the test was ended, with advice.
    pub fn reason(&self) -> String {
        format!("The run was stopped because {}. {ADVICE}", self.sentence().trim_end_matches('.'))
    }
}

impl Test {
    /// Marks a test as ended by failures, and makes that its first reason.
    pub fn end_failing(&mut self, failing: &Failing) {
        let ends = |reason: &Reason| reason.kind == ReasonKind::Ended;
        let texts: Vec<String> =
            self.causes.iter().filter(|reason| ends(reason)).map(|of| of.text.clone()).collect();
        self.causes.retain(|reason| !ends(reason));
        self.reasons.retain(|reason| !texts.contains(reason));
        let reason = Reason::new(ReasonKind::Ended, failing.reason());
        self.add_first_reason(reason.because_of(Cause::System));
        (self.state, self.failing) = (State::Aborted, Some(failing.clone()));
        self.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_the_system_are_in_the_reason() {
        let words = Some("HTTP status 401: no key".into());
        let found =
            real::MassFailure { tenant: 0, window: AnswerWindow::First, failed: 20, answers: 20 };
        let all = Failing::new(found, words);
        assert_eq!(all.sentence(), "all of the first 20 answers failed: HTTP status 401: no key");
        let last =
            real::MassFailure { window: AnswerWindow::Last, failed: 101, answers: 180, ..found };
        let reason = Failing::new(last, None).reason();
        let begin = "The run was stopped because 101 of the last 180 answers failed. Check ";
        assert!(reason.starts_with(begin), "{reason}");
    }
}
