//! Validates the results of a tree and explains the invalid ones.
//!
//! Three programs use the same facts and predicates: the rules ([`Program::Strict`]) and the two
//! official checkers, which disagree with each other. Each program is a sequence of checks
//! (`mono`, `modular`, `strict`); the [`catalogue`] defines the severity of each check in
//! each program.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use dyno_rules::{Behavior, OneFileChecker, Round};
//! use dyno_submission::check::{Options, Program, check};
//!
//! let round = Round::named("v5.1").unwrap();
//! let report = check(Path::new("submission"), round, &Options::new(Program::Strict)).unwrap();
//! for finding in &report.findings {
//!     println!("{finding}");
//! }
//! ```

mod accuracy;
mod audits;
pub mod catalogue;
pub mod causes;
mod endpoint;
mod equal_issue;
mod errors;
mod files;
mod issues;
mod measurement;
mod modular;
mod mono;
mod performance;
mod place;
mod powered;
mod provenance;
mod published;
mod rows;
mod strict;
mod structure;
mod system;
mod work;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::finding::{Finding, Severity};
use dyno_rules::{Behavior, OneFileChecker, Round};

use super::entry::{DivisionFolder, Submitter};
use super::table::Row;
use super::tree::{Node, Tree, TreeError};
use issues::{Issues, Location};
use place::Place;
use provenance::Judge;

pub use provenance::Provenance;
pub use published::{PublishedResults, published};

/// Program that judges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Program {
    /// The rules of the round.
    Strict,
    /// The official single-file checker, as of v5.1.1.
    Mono,
    /// The official single-file checker, as of the tag of a round.
    Tag(OneFileChecker),
    /// The official modular checker, of v6.0 and v6.1.
    Modular,
}

impl Program {
    /// Returns the single-file checker that this is.
    pub(crate) fn one_file(self) -> Option<OneFileChecker> {
        match self {
            Self::Mono => Some(OneFileChecker::LAST),
            Self::Tag(checker) => Some(checker),
            Self::Strict | Self::Modular => None,
        }
    }

    /// Whether this is a single-file checker with a behavior of early tags.
    pub(crate) fn does(self, behavior: Behavior) -> bool {
        self.one_file().is_some_and(|checker| checker.does(behavior))
    }
}

dyno_loadgen::named_enum! {
    /// Checks that can be skipped, named after the flags of the official checkers without dashes, in the
    /// order of the official help.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Skip {
        /// Audits: `--skip_compliance`.
        Compliance = "skip_compliance",
        /// The checks of the power working group: `--skip-power-check`.
        Power = "skip-power-check",
        /// Empty fields: `--skip-meaningful-fields-emptiness-check`.
        EmptyFields = "skip-meaningful-fields-emptiness-check",
        /// `analyzer_table.*` and `power_settings.*`: `--skip-check-power-measure-files`.
        PowerDescription = "skip-check-power-measure-files",
        /// Empty files: `--skip-empty-files-check`.
        EmptyFiles = "skip-empty-files-check",
        /// Files in the root: `--skip-extra-files-in-root-check`.
        RootFiles = "skip-extra-files-in-root-check",
        /// Outputs such as images: `--skip-extra-accuracy-files-check`.
        AccuracyOutputs = "skip-extra-accuracy-files-check",
        /// Systems without results: `--skip-all-systems-have-results-check`.
        SystemsWithoutResults = "skip-all-systems-have-results-check",
        /// The calibration page: `--skip-calibration-check`.
        Calibration = "skip-calibration-check",
        /// The size of the data set: `--skip-dataset-size-check`.
        DatasetSize = "skip-dataset-size-check",
    }
}

/// Options of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Program that judges.
    pub program: Program,
    /// Check only this submitter; `None` means all.
    pub submitter: Option<String>,
    /// Checks to skip.
    pub skip: Vec<Skip>,
    /// Scenarios to skip, by the names of their folders.
    pub scenarios_to_skip: Vec<String>,
    /// Whether to accept the errors that `--submission-exceptions` of the official checkers
    /// accepts.
    pub submission_exceptions: bool,
    /// Whether Dyno's own checks, which no rule and no official program asks for, reject results.
    pub forensic: bool,
}

impl Options {
    /// Creates options with all checks of a program.
    pub fn new(program: Program) -> Self {
        let (skip, scenarios_to_skip) = (Vec::new(), Vec::new());
        Self {
            program,
            submitter: None,
            skip,
            scenarios_to_skip,
            submission_exceptions: false,
            forensic: false,
        }
    }

    /// Whether to check this submitter.
    fn wants(&self, submitter: &Submitter<'_>) -> bool {
        self.submitter.as_ref().is_none_or(|name| *name == submitter.name)
    }

    /// Whether a check is skipped.
    pub fn skips(&self, skip: Skip) -> bool {
        self.skip.contains(&skip)
    }
}

/// Outcome of a result, or of a part of the tree that a program rejected as a whole.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome {
    /// Valid: the result counts.
    Valid {
        /// Metric of the result.
        metric: f64,
    },
    /// Invalid: it does not count.
    Invalid,
}

/// Result of checking a tree.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckReport {
    /// Problems, in the order of the tree.
    pub findings: Vec<Finding>,
    /// Outcomes, by folder. The official checkers also list rejected parts, such as a whole
    /// system.
    pub results: BTreeMap<PathBuf, Outcome>,
    /// Rows of valid results for the table of results.
    pub rows: Vec<Row>,
    /// Whether the official checker ends with a traceback.
    pub crashes: bool,
    /// Number of files and folders in the tree.
    pub entries: usize,
}

impl CheckReport {
    /// Whether the program accepts everything that it lists. The official checkers also accept a
    /// tree without results.
    pub fn looks_fine(&self) -> bool {
        let counts = |outcome: &Outcome| *outcome != Outcome::Invalid;
        !self.crashes && self.results.values().all(counts)
    }

    /// Whether there are results and no errors.
    pub fn is_valid(&self) -> bool {
        !self.results.is_empty()
            && self.looks_fine()
            && self.findings.iter().all(|finding| finding.severity != Severity::Error)
    }

    /// Returns the number of valid results.
    pub fn valid(&self) -> usize {
        let valid = |outcome: &&Outcome| matches!(outcome, Outcome::Valid { .. });
        self.results.values().filter(valid).count()
    }
}

/// Checks a tree.
///
/// # Errors
/// Fails if the root cannot be listed. Problems below it are findings.
pub fn check(
    root: &Path,
    round: &'static Round,
    options: &Options,
) -> Result<CheckReport, TreeError> {
    let tree = Tree::walk(root)?;
    let mut checked = match options.program {
        Program::Mono | Program::Tag(_) => mono::check(&tree, round, options),
        Program::Strict => strict::check(&tree, round, options),
        Program::Modular => modular::check(&tree, round, options),
    };
    let mut issues = Issues::new(Judge::new(round.version, options));
    for (path, outcome) in &mut checked.results {
        // The official checkers silently treat 0 as no result.
        if matches!(outcome, Outcome::Valid { metric } if *metric == 0.0) {
            *outcome = Outcome::Invalid;
            issues.add(&catalogue::RUN_ZERO, Location::path(path), "the result is 0");
        }
    }
    for unlisted in tree.unlisted() {
        issues.add(&catalogue::UNLISTED, Location::path(&unlisted.path), unlisted.why.clone());
    }
    if checked.results.is_empty() {
        let message = "no results in closed/, open/ or network/";
        let at = Location::path(Path::new(""));
        match intended_tree(root, &tree) {
            None => issues.add(&catalogue::NO_RESULTS, at, message),
            Some(intended) => {
                let expected = format!("the whole tree, such as {}", intended.display());
                issues.add_expected(&catalogue::NO_RESULTS, at, message, expected);
            }
        }
    }
    checked.findings.splice(0..0, issues.into_findings());
    checked.entries = tree.len();
    Ok(checked)
}

/// Returns the tree that the user probably meant: one above or below the given folder.
fn intended_tree(root: &Path, tree: &Tree) -> Option<PathBuf> {
    let is_division = |folder: &&Path| {
        folder.file_name().and_then(OsStr::to_str).and_then(DivisionFolder::named).is_some()
    };
    let absolute = root.canonicalize().ok()?;
    let around = absolute.ancestors().find(is_division).and_then(Path::parent);
    let holds = |folder: &Node<'_>| {
        folder.folders().any(|one| DivisionFolder::named(&one.text()).is_some())
    };
    let inside = || tree.top().folders().find(holds).map(|folder| root.join(folder.path()));
    around.map(Path::to_owned).or_else(inside)
}
