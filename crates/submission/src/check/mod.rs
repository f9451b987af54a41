//! Which results of a tree count, and what is wrong with the others.
//!
//! Three programs judge by the same facts and the same predicates: the rules
//! ([`Program::Strict`]) and the two official checkers, which disagree. Each program is
//! a sequence ([`mono`], [`modular`]); how grave a check is in which of them stands in
//! the [`catalogue`].

mod accuracy;
mod audits;
pub mod catalogue;
mod endpoint;
mod files;
mod issues;
mod measurement;
mod modular;
mod mono;
mod performance;
mod place;
mod powered;
mod rows;
mod strict;
mod structure;
mod system;
mod work;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::finding::{Finding, Severity};
use dyno_rules::Round;

use super::entry::{DivisionFolder, Submitter};
use super::table::Row;
use super::tree::{Node, Tree, TreeError};
use issues::{At, Issues};
use place::Place;

/// Who judges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Program {
    /// The rules of the round.
    Strict,
    /// The official checker in one file, as of v5.1.1.
    Mono,
    /// The official checker in modules, of v6.0 and v6.1.
    Modular,
}

/// Checks that can be left out, by the flags of the official programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Skip {
    /// Audits: `--skip_compliance`.
    Compliance,
    /// The checks of the power working group: `--skip-power-check`.
    Power,
    /// Fields that are empty: `--skip-meaningful-fields-emptiness-check`.
    EmptyFields,
    /// `analyzer_table.*` and `power_settings.*`: `--skip-check-power-measure-files`.
    PowerDescription,
    /// Files that are empty: `--skip-empty-files-check`.
    EmptyFiles,
    /// Files in the root: `--skip-extra-files-in-root-check`.
    RootFiles,
    /// Outputs such as images: `--skip-extra-accuracy-files-check`.
    AccuracyOutputs,
    /// Systems without results: `--skip-all-systems-have-results-check`.
    SystemsWithoutResults,
    /// The calibration page: `--skip-calibration-check`.
    Calibration,
    /// The size of the data set: `--skip-dataset-size-check`.
    DatasetSize,
}

impl Skip {
    /// All of them, in the order of the official help.
    pub const ALL: [Self; 10] = [
        Self::Compliance,
        Self::Power,
        Self::EmptyFields,
        Self::PowerDescription,
        Self::EmptyFiles,
        Self::RootFiles,
        Self::AccuracyOutputs,
        Self::SystemsWithoutResults,
        Self::Calibration,
        Self::DatasetSize,
    ];

    /// The flag of the official programs, without its dashes.
    #[must_use]
    pub fn flag(self) -> &'static str {
        match self {
            Self::Compliance => "skip_compliance",
            Self::Power => "skip-power-check",
            Self::EmptyFields => "skip-meaningful-fields-emptiness-check",
            Self::PowerDescription => "skip-check-power-measure-files",
            Self::EmptyFiles => "skip-empty-files-check",
            Self::RootFiles => "skip-extra-files-in-root-check",
            Self::AccuracyOutputs => "skip-extra-accuracy-files-check",
            Self::SystemsWithoutResults => "skip-all-systems-have-results-check",
            Self::Calibration => "skip-calibration-check",
            Self::DatasetSize => "skip-dataset-size-check",
        }
    }
}

/// How to check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Who judges.
    pub program: Program,
    /// Only this submitter.
    pub submitter: Option<String>,
    /// Checks that are left out.
    pub skip: Vec<Skip>,
    /// Scenarios that are left out, by the names of their folders.
    pub scenarios_to_skip: Vec<String>,
    /// Errors that the official checkers can be told to accept:
    /// `--submission-exceptions`.
    pub submission_exceptions: bool,
}

impl Options {
    /// All checks of a program.
    #[must_use]
    pub fn new(program: Program) -> Self {
        let (skip, scenarios_to_skip) = (Vec::new(), Vec::new());
        Self { program, submitter: None, skip, scenarios_to_skip, submission_exceptions: false }
    }

    /// Whether this submitter is to be checked.
    fn wants(&self, submitter: &Submitter<'_>) -> bool {
        self.submitter.as_ref().is_none_or(|name| *name == submitter.name)
    }

    /// Whether a check is left out.
    #[must_use]
    pub fn skips(&self, skip: Skip) -> bool {
        self.skip.contains(&skip)
    }
}

/// A result of a scenario, or a part of the tree that a program gave up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome {
    /// It counts.
    Valid {
        /// The metric.
        metric: f64,
    },
    /// It does not.
    Invalid,
}

/// What a check of a tree says.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// What is wrong, in the order of the tree.
    pub findings: Vec<Finding>,
    /// Each result by its folder. The official programs list more than results: a
    /// system, say, that was given up as a whole.
    pub results: BTreeMap<PathBuf, Outcome>,
    /// Rows of the table of results that count.
    pub rows: Vec<Row>,
    /// Whether the official program ends with a traceback.
    pub crashes: bool,
    /// Entries of the tree.
    pub entries: usize,
}

impl Checked {
    /// Whether the program calls the tree fine: nothing that it lists is without a
    /// result. The official programs call a tree with nothing in it fine as well.
    #[must_use]
    pub fn looks_fine(&self) -> bool {
        let counts = |outcome: &Outcome| *outcome != Outcome::Invalid;
        !self.crashes && self.results.values().all(counts)
    }

    /// Whether there are results, and the tree is fine.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.results.is_empty()
            && self.looks_fine()
            && self.findings.iter().all(|finding| finding.severity != Severity::Error)
    }

    /// How many results count.
    #[must_use]
    pub fn valid(&self) -> usize {
        let valid = |outcome: &&Outcome| matches!(outcome, Outcome::Valid { .. });
        self.results.values().filter(valid).count()
    }
}

/// Checks a tree.
///
/// # Errors
/// The root cannot be listed. What is wrong below it is a finding.
pub fn check(root: &Path, round: &'static Round, options: &Options) -> Result<Checked, TreeError> {
    let tree = Tree::walk(root)?;
    let mut checked = match options.program {
        Program::Mono => mono::check(&tree, round, options),
        Program::Strict => strict::check(&tree, round, options),
        Program::Modular => modular::check(&tree, round, options),
    };
    let mut issues = Issues::new(options.program);
    for (path, outcome) in &mut checked.results {
        // The official programs take 0 for no result, without a word.
        if matches!(outcome, Outcome::Valid { metric } if *metric == 0.0) {
            *outcome = Outcome::Invalid;
            issues.add(&catalogue::RUN_ZERO, At::path(path), "the result is 0");
        }
    }
    for unlisted in tree.unlisted() {
        issues.add(&catalogue::UNLISTED, At::path(&unlisted.path), unlisted.why.clone());
    }
    if checked.results.is_empty() {
        let message = "there are no results below closed/, open/ or network/";
        let at = At::path(Path::new(""));
        match meant(root, &tree) {
            None => issues.add(&catalogue::NO_RESULTS, at, message),
            Some(meant) => {
                let expected = format!("the whole tree, such as {}", meant.display());
                issues.add_expected(&catalogue::NO_RESULTS, at, message, expected);
            }
        }
    }
    checked.findings.splice(0..0, issues.into_findings());
    checked.entries = tree.len();
    Ok(checked)
}

/// The tree that was meant where a folder in it was named, or one that holds it.
fn meant(root: &Path, tree: &Tree) -> Option<PathBuf> {
    let is_division = |folder: &&Path| {
        folder.file_name().and_then(OsStr::to_str).and_then(DivisionFolder::named).is_some()
    };
    let whole = root.canonicalize().ok()?;
    let around = whole.ancestors().find(is_division).and_then(Path::parent);
    let holds = |folder: &Node<'_>| {
        folder.folders().any(|one| DivisionFolder::named(&one.text()).is_some())
    };
    let inside = || tree.top().folders().find(holds).map(|folder| root.join(folder.path()));
    around.map(Path::to_owned).or_else(inside)
}
