//! Issues that a sequence of checks found, with the severities of one program.

use std::path::{Path, PathBuf};

use super::Program;
use super::catalogue::{Check, PROGRAM_CRASH};
use super::provenance::Judge;
use crate::finding::{Finding, Severity};
use dyno_rules::Leniency;

/// Location of a finding.
#[derive(Debug, Clone, Copy)]
pub struct Location<'a> {
    /// File or folder, relative to the root.
    pub path: &'a Path,
    /// Line number, from 1.
    pub line: Option<usize>,
}

impl<'a> Location<'a> {
    /// Creates the location of a file or folder.
    pub fn path(path: &'a Path) -> Self {
        Self { path, line: None }
    }

    /// Sets the line, if there is one.
    pub fn line(self, line: Option<usize>) -> Self {
        // Values that are not from a log have line 0.
        Self { line: line.filter(|line| *line > 0), ..self }
    }
}

/// Issues, in the order in which they were found.
#[derive(Debug)]
pub struct Issues {
    judge: Judge,
    findings: Vec<Finding>,
    crashes: bool,
}

impl Issues {
    /// Creates an empty list.
    pub fn new(judge: impl Into<Judge>) -> Self {
        Self { judge: judge.into(), findings: Vec::new(), crashes: false }
    }

    /// Returns the program that judges.
    pub fn program(&self) -> Program {
        self.judge.program
    }

    /// Creates an empty list of the same judge.
    pub fn another(&self) -> Self {
        Self::new(self.judge)
    }

    /// Records a failed check, unless the program skips the check.
    pub fn add(&mut self, check: &'static Check, at: Location<'_>, message: impl Into<String>) {
        self.note(check, at, message.into(), None);
    }

    /// Records a failed check with the expected value.
    pub fn add_expected(
        &mut self,
        check: &'static Check,
        at: Location<'_>,
        message: impl Into<String>,
        expected: impl Into<String>,
    ) {
        self.note(check, at, message.into(), Some(expected.into()));
    }

    /// Records that the official checker ends with a traceback here.
    pub fn crash(&mut self, at: Location<'_>, why: &str) {
        self.crashes = true;
        self.add(&PROGRAM_CRASH, at, format!("the official program crashes here: {why}"));
    }

    fn note(
        &mut self,
        check: &'static Check,
        at: Location<'_>,
        message: String,
        expected: Option<String>,
    ) {
        let Some(severity) = check.severity_by(self.judge) else { return };
        let path: PathBuf = at.path.to_owned();
        let mend = check.mend.to_owned();
        let check = check.id;
        self.findings.push(Finding {
            check,
            severity,
            path,
            line: at.line,
            message,
            expected,
            mend,
        });
    }

    /// Whether there are no errors.
    pub fn passes(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity != Severity::Error)
    }

    /// Whether no failed check has an id with this prefix.
    pub fn has_none_of(&self, prefix: &str) -> bool {
        self.findings.iter().all(|finding| !finding.check.starts_with(prefix))
    }

    /// Whether the official checker crashes.
    pub fn crashes(&self) -> bool {
        self.crashes
    }

    /// Reduces errors of these checks to warnings. The open division does so for accuracy
    /// targets.
    pub fn waive(&mut self, checks: &[&Check]) {
        let waived = |finding: &&mut Finding| checks.iter().any(|check| check.id == finding.check);
        for finding in self.findings.iter_mut().filter(waived) {
            finding.severity = finding.severity.min(Severity::Warning);
        }
    }

    /// Adds the issues of another sequence.
    pub fn append(&mut self, mut other: Self) {
        self.findings.append(&mut other.findings);
        self.crashes |= other.crashes;
    }

    /// Adds existing findings.
    pub fn extend(&mut self, findings: impl IntoIterator<Item = Finding>) {
        for mut finding in findings {
            let is_warning = match self.judge.program {
                Program::Tag(checker) => match checker.instead(finding.check) {
                    Some(Leniency::Off) => continue,
                    other => other.is_some(),
                },
                // The official program of the round did not run these checks.
                _ => self.judge.limit(finding.check).is_some(),
            };
            if is_warning {
                finding.severity = finding.severity.min(Severity::Warning);
            }
            self.findings.push(finding);
        }
    }

    /// Returns the findings.
    pub fn into_findings(self) -> Vec<Finding> {
        self.findings
    }
}
