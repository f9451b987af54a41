//! Results of a run and how a command with it ends.

use dyno_results::run_directory::FinishedDirectory;
use dyno_results::summary::{self, State};

use crate::End;
use crate::failure::Failure;

/// Results of a run.
pub struct MeasuredRun {
    /// Summary of the run.
    pub summary: summary::Run,
    /// Run directory.
    pub directory: FinishedDirectory,
}

impl MeasuredRun {
    /// Returns the run if its results are stored.
    ///
    /// # Errors
    /// Neither the run directory nor the system's temporary directory could be written.
    pub fn stored(mut self) -> Result<Self, Failure> {
        self.directory.not_stored.take().map_or(Ok(self), |error| Err(error.into()))
    }

    /// Returns the failures that ended the run early.
    pub fn failing(&self) -> Option<&summary::Failing> {
        self.summary.tests.iter().find_map(|test| test.failing.as_ref())
    }

    /// Returns how a command ends that only made this run.
    pub fn end(&self) -> End {
        match self.summary.state {
            State::Interrupted => End::Interrupted,
            State::Aborted => End::Aborted,
            State::Complete if self.summary.is_valid() => End::Valid,
            State::Complete => End::Invalid,
        }
    }
}
