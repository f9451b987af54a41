//! Results of a run: how they are stored, and how a command with them ends.

use std::path::Path;
use std::sync::Arc;

use dyno_loadgen::log::{Report, reports};
use dyno_loadgen::run::TestLog;
use dyno_results::run_directory::FinishedDirectory;
use dyno_results::summary::{self, State};

use super::{OutcomeSink, warn};
use crate::End;
use crate::failure::Failure;
use crate::outcome::Outcome;
use crate::watch::Watch;

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
        self.take_not_stored().map_or(Ok(self), Err)
    }

    /// Returns the run if its results are stored in the requested folder, where a command that makes
    /// several runs reads them again. `remedy` is what the user can do otherwise.
    ///
    /// # Errors
    /// The folder could not be written.
    pub fn stored_in(mut self, folder: &Path, remedy: &str) -> Result<Self, Failure> {
        match self.take_not_stored_in(folder) {
            Some(failure) => Err(failure.hint(remedy)),
            None => Ok(self),
        }
    }

    /// Returns why the results are not stored in the requested folder; `None` if they are.
    pub fn take_not_stored_in(&mut self, folder: &Path) -> Option<Failure> {
        self.take_not_stored().or_else(|| {
            let path = &self.directory.path;
            (path != folder).then(|| {
                let (folder, path) = (folder.display(), path.display());
                let problem = format!("{folder} could not be written; its results are in {path}");
                Failure::set_up(problem).hint("free some space")
            })
        })
    }

    fn take_not_stored(&mut self) -> Option<Failure> {
        self.directory.not_stored.take().map(Failure::from)
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

impl OutcomeSink<'_> {
    /// Writes the logs and records of a tenant, and those of its repeated runs. Returns false if the former
    /// cannot be written; the caller then holds them.
    pub(super) fn store(
        &mut self,
        watch: &Arc<dyn Watch>,
        folder: &str,
        log: &TestLog,
        judged: &[Report<'_>],
        outcome: &Outcome,
    ) -> bool {
        let is_written = self.directory.write_test(folder, log, judged, outcome.records.as_ref());
        warn(watch, &self.directory.take_warnings());
        // A submission has one folder per repeated run.
        for (number, run) in (1..).zip(log.repeated()) {
            let folder = format!("{folder}/run_{number}");
            if !self.directory.write_test(&folder, &run, &reports(&run), None) {
                self.directory.hold(folder, run, None);
            }
            warn(watch, &self.directory.take_warnings());
        }
        is_written
    }

    /// Keeps the logs and records of tenants that could not be written.
    pub(super) fn hold(
        &mut self,
        unwritten: Vec<(usize, String)>,
        logs: Vec<TestLog>,
        outcomes: &mut [Outcome],
    ) {
        let mut logs: Vec<_> = logs.into_iter().map(Some).collect();
        for (tenant, folder) in unwritten {
            let log = logs[tenant].take().expect("each tenant has one folder");
            self.directory.hold(folder, log, outcomes[tenant].records.take());
        }
    }
}
