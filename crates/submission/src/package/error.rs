//! Errors of packaging.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::{TestPart, TruncateError};
use dyno_rules::{RuleScenario, Suite, Version};
use thiserror::Error;

/// Error: run directories cannot be packaged. Nothing is written then.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum PackageError {
    /// A file or folder cannot be read or written.
    #[error("{}: {problem}", path.display())]
    File {
        /// Path.
        path: PathBuf,
        /// Error of the operating system, or description of the problem.
        problem: String,
    },
    /// A name that cannot be a folder of a submission.
    #[error(
        "`{name}` cannot be the name of a {kind}: it must have no blank and no `/`, and not begin \
         with a dot"
    )]
    BadName {
        /// Kind of the name.
        kind: &'static str,
        /// Name as the user wrote it.
        name: String,
    },
    /// The round has no such benchmark.
    #[error(
        "round {round} has no benchmark `{name}`{}",
        nearest.as_ref().map(|nearest| format!("; did you mean `{nearest}`?")).unwrap_or_default()
    )]
    UnknownBenchmark {
        /// Name as the user wrote it.
        name: String,
        /// Round.
        round: Version,
        /// A similar name.
        nearest: Option<String>,
        /// Whether a custom model may stand for an official one, which is only possible in the
        /// open division.
        may_be_own: bool,
    },
    /// The round does not have this division yet.
    #[error("round {round} has no {division} division; it began with v2.1")]
    NoDivision {
        /// The division.
        division: &'static str,
        /// The round.
        round: Version,
    },
    /// The suite does not include the benchmark.
    #[error("`{benchmark}` is not a benchmark of the suite {}", suite.name())]
    NotInSuite {
        /// The benchmark.
        benchmark: String,
        /// The suite.
        suite: Suite,
    },
    /// The suite does not have the benchmark in this scenario.
    #[error(
        "the suite does not have `{benchmark}` in {}, only in {}",
        scenario.name(), list(wanted)
    )]
    ScenarioNotWanted {
        /// The benchmark.
        benchmark: String,
        /// The scenario.
        scenario: RuleScenario,
        /// Scenarios of the benchmark in the suite.
        wanted: Vec<RuleScenario>,
    },
    /// Required scenarios have no result.
    #[error("the suite requires {}, but no run has it", list(missing))]
    ScenariosMissing {
        /// Missing scenarios.
        missing: Vec<RuleScenario>,
        /// Whether all of them can be inferred.
        can_be_inferred: bool,
    },
    /// A run directory contains no detail log.
    #[error("{} has no test", directory.display())]
    NoTests {
        /// The run directory.
        directory: PathBuf,
    },
    /// A detail log does not contain a required key.
    #[error("{} has no line `{key}`; it is not a complete detail log", log.display())]
    LogSaysNothing {
        /// The log.
        log: PathBuf,
        /// The key.
        key: &'static str,
    },
    /// A log has a mode that a submission does not use.
    #[error(
        "{} is of mode {mode}; a submission has an AccuracyOnly and a PerformanceOnly run of each \
         scenario",
        log.display()
    )]
    UnsuitableMode {
        /// The log.
        log: PathBuf,
        /// The mode.
        mode: String,
    },
    /// The scenario of an audit is unknown.
    #[error(
        "{} neither has performance/run_1 nor is in a folder named after a scenario",
        folder.display()
    )]
    AuditOfNothing {
        /// Its folder.
        folder: PathBuf,
    },
    /// An audit belongs to a scenario without a result.
    #[error("{} audits {}, which has no result", folder.display(), scenario.name())]
    AuditWithoutResult {
        /// Its folder.
        folder: PathBuf,
        /// The scenario.
        scenario: RuleScenario,
    },
    /// There are more tests than a result has.
    #[error(
        "{} has {} {} runs ({}), expected {most} at most",
        scenario.name(), folders.len(), part.name(), paths(folders)
    )]
    TooMany {
        /// The scenario.
        scenario: RuleScenario,
        /// The part.
        part: TestPart,
        /// Folders of the tests.
        folders: Vec<PathBuf>,
        /// Maximum number.
        most: usize,
    },
    /// Two audits have the same name and scenario.
    #[error(
        "{} and {} are the same audit of the same scenario",
        folders[0].display(), folders[1].display()
    )]
    DuplicateAudit {
        /// Their folders.
        folders: [PathBuf; 2],
    },
    /// The tree has the layout of other rounds.
    #[error("{} is not of {round}, which has no such folder", path.display())]
    OtherLayout {
        /// Folder that does not exist in the round's layout.
        path: PathBuf,
        /// The round.
        round: Version,
    },
    /// `model_mapping.json` already maps the custom model to another official model.
    #[error("model_mapping.json already maps `{model}` to {official}")]
    MappedAlready {
        /// Custom model.
        model: String,
        /// Mapped model, as JSON.
        official: String,
    },
    /// A result lacks one of its parts.
    #[error("{} has no {} run", scenario.name(), part.name())]
    PartMissing {
        /// The scenario.
        scenario: RuleScenario,
        /// The part.
        part: TestPart,
    },
    /// An accuracy run was not scored.
    #[error("{} has no accuracy", folder.display())]
    NotScored {
        /// Its folder.
        folder: PathBuf,
    },
    /// The output of the accuracy script lacks a metric of the benchmark.
    #[error("the accuracy in {} has no {metric}, which {benchmark} requires", folder.display())]
    MetricMissing {
        /// Folder of the accuracy run.
        folder: PathBuf,
        /// Benchmark.
        benchmark: String,
        /// Metric of the round.
        metric: String,
    },
    /// The log does not allow inference.
    #[error(
        "{} cannot be inferred from the log in {}: it has no early-stopping estimate of the 99th \
         percentile",
        scenario.name(), folder.display()
    )]
    NoEstimate {
        /// Folder of the log.
        folder: PathBuf,
        /// Scenario to infer.
        scenario: RuleScenario,
    },
    /// An accuracy log cannot be truncated.
    #[error("{0}")]
    Truncate(#[from] TruncateError),
    /// A description is invalid or has an unknown field.
    #[error("{problem}")]
    Description {
        /// Description of the problem.
        problem: String,
    },
    /// The tree's description of the system differs.
    #[error(
        "the tree already has {}: {}",
        path.display(), conflicts.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    )]
    SystemDiffers {
        /// Path of the file, relative to the root of the tree.
        path: PathBuf,
        /// Conflicting fields.
        conflicts: Vec<Conflict>,
    },
    /// The tree is not a folder.
    #[error("{} is a file; pass a new folder, or one that has other results", path.display())]
    NoFolder {
        /// Path.
        path: PathBuf,
    },
    /// The tree is a run or contains runs.
    #[error("{}", runs_in_tree_text(tree, run))]
    RunsInTree {
        /// The tree.
        tree: PathBuf,
        /// First such run; equals `tree` if the tree is a run.
        run: PathBuf,
    },
    /// The tree already contains this result.
    #[error("{} already exists", path.display())]
    Exists {
        /// Folder.
        path: PathBuf,
    },
}

/// A field in which the existing description and a flag differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Name of the field.
    pub field: &'static str,
    /// Value in the description.
    pub existing: String,
    /// Value of the flag.
    pub requested: String,
    /// Flag.
    pub flag: &'static str,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, existing, requested, flag } = self;
        write!(f, "`{field}` is `{existing}` there, but {flag} is `{requested}`")
    }
}

impl PackageError {
    pub(super) fn file(path: &Path, error: &io::Error) -> Self {
        Self::File { path: path.to_owned(), problem: error.to_string() }
    }

    /// Returns advice, if the message does not contain it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::UnknownBenchmark { may_be_own: true, .. } => Some(
                "pass the official name of your model: --benchmark OWN=OFFICIAL, such as \
                 digits=resnet",
            ),
            Self::NoTests { .. } => {
                Some("name a run directory of `dyno run`, or a folder with mlperf_log_detail.txt")
            }
            Self::NotScored { .. } | Self::MetricMissing { .. } => Some(
                "write the output of the benchmark's accuracy script to accuracy.txt beside the \
                 log",
            ),
            Self::ScenariosMissing { can_be_inferred: true, .. } => {
                Some("--infer infers MultiStream and Offline from SingleStream or MultiStream")
            }
            Self::Exists { .. } => Some("remove it first, or choose another tree"),
            Self::OtherLayout { .. } => Some(
                "a tree has results of one round; choose another \
                 tree",
            ),
            Self::SystemDiffers { .. } => Some(
                "the file describes all results of the system; pass the same values, change the \
                 file for all results, or choose another --system",
            ),
            Self::NoFolder { .. } => Some("pass the tree first: dyno package TREE RUN..."),
            Self::RunsInTree { .. } => {
                Some("pass the tree first, as a folder outside the runs: dyno package TREE RUN...")
            }
            Self::TooMany { .. } | Self::DuplicateAudit { .. } => {
                Some("pass only the run directories that count")
            }
            _ => None,
        }
    }
}

fn paths(folders: &[PathBuf]) -> String {
    folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn runs_in_tree_text(tree: &Path, run: &Path) -> String {
    if tree == run {
        return format!("{} is a run, not a submission tree", tree.display());
    }
    format!(
        "the run {} is in the tree {}, which may contain only submissions",
        run.display(),
        tree.display()
    )
}

fn list(scenarios: &[RuleScenario]) -> String {
    scenarios.iter().map(|scenario| scenario.name()).collect::<Vec<_>>().join(", ")
}
