//! What a sequence of checks found, as one program sees it.

use std::path::{Path, PathBuf};

use super::Program;
use super::catalogue::{Check, PROGRAM_CRASH};
use crate::finding::{Finding, Severity};

/// File or folder and line of a finding.
#[derive(Debug, Clone, Copy)]
pub struct At<'a> {
    /// Relative to the root.
    pub path: &'a Path,
    /// Line, from 1.
    pub line: Option<usize>,
}

impl<'a> At<'a> {
    /// A whole file or folder.
    pub fn path(path: &'a Path) -> Self {
        Self { path, line: None }
    }

    /// A line of it, where there is one.
    pub fn line(self, line: Option<usize>) -> Self {
        // What was never a line of a log has line 0.
        Self { line: line.filter(|line| *line > 0), ..self }
    }
}

/// What was found, in the order in which it was.
#[derive(Debug)]
pub struct Issues {
    program: Program,
    findings: Vec<Finding>,
    crashes: bool,
}

impl Issues {
    /// Nothing so far.
    pub fn new(program: Program) -> Self {
        Self { program, findings: Vec::new(), crashes: false }
    }

    /// Whose eyes these are.
    pub fn program(&self) -> Program {
        self.program
    }

    /// Notes that a check fails, if the program looks at all.
    pub fn add(&mut self, check: &'static Check, at: At<'_>, message: impl Into<String>) {
        self.note(check, at, message.into(), None);
    }

    /// As [`Self::add`], with what was expected.
    pub fn add_expected(
        &mut self,
        check: &'static Check,
        at: At<'_>,
        message: impl Into<String>,
        expected: impl Into<String>,
    ) {
        self.note(check, at, message.into(), Some(expected.into()));
    }

    /// Notes that the official program ends with a traceback here.
    pub fn crash(&mut self, at: At<'_>, why: &str) {
        self.crashes = true;
        self.add(&PROGRAM_CRASH, at, format!("the official program crashes here: {why}"));
    }

    fn note(
        &mut self,
        check: &'static Check,
        at: At<'_>,
        message: String,
        expected: Option<String>,
    ) {
        let Some(severity) = check.severity(self.program) else { return };
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

    /// Whether nothing was found that makes a result not count.
    pub fn passes(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity != Severity::Error)
    }

    /// Whether the official program crashes.
    pub fn crashes(&self) -> bool {
        self.crashes
    }

    /// Makes errors of these checks warnings, as the open division does with targets of
    /// accuracy.
    pub fn waive(&mut self, checks: &[&Check]) {
        let waived = |finding: &&mut Finding| checks.iter().any(|check| check.id == finding.check);
        for finding in self.findings.iter_mut().filter(waived) {
            finding.severity = finding.severity.min(Severity::Warning);
        }
    }

    /// Adds what another sequence found.
    pub fn append(&mut self, mut other: Self) {
        self.findings.append(&mut other.findings);
        self.crashes |= other.crashes;
    }

    /// Adds findings that are made elsewhere.
    pub fn extend(&mut self, findings: impl IntoIterator<Item = Finding>) {
        self.findings.extend(findings);
    }

    /// What was found.
    pub fn into_findings(self) -> Vec<Finding> {
        self.findings
    }
}
