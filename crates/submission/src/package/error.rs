//! Errors of packaging.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::{TestPart, TruncateError};
use dyno_rules::{Scenario, Suite, Version};

/// Error: run directories cannot be packaged. Nothing is written then.
#[derive(Debug, PartialEq, Eq)]
pub enum PackageError {
    /// A file or folder cannot be read or written.
    File {
        /// Path.
        path: PathBuf,
        /// Error of the operating system, or description of the problem.
        problem: String,
    },
    /// A name that cannot be a folder of a submission.
    BadName {
        /// Kind of the name.
        kind: &'static str,
        /// Name as the user wrote it.
        name: String,
    },
    /// The round has no such benchmark.
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
    NoDivision {
        /// The division.
        division: &'static str,
        /// The round.
        round: Version,
    },
    /// The suite does not include the benchmark.
    NotInSuite {
        /// The benchmark.
        benchmark: String,
        /// The suite.
        suite: Suite,
    },
    /// The suite does not have the benchmark in this scenario.
    ScenarioNotWanted {
        /// The benchmark.
        benchmark: String,
        /// The scenario.
        scenario: Scenario,
        /// Scenarios of the benchmark in the suite.
        wanted: Vec<Scenario>,
    },
    /// Required scenarios have no result.
    ScenariosMissing {
        /// Missing scenarios.
        missing: Vec<Scenario>,
        /// Whether all of them can be inferred.
        can_be_inferred: bool,
    },
    /// A run directory contains no detail log.
    NoTests {
        /// The run directory.
        directory: PathBuf,
    },
    /// A detail log does not contain a required key.
    LogSaysNothing {
        /// The log.
        log: PathBuf,
        /// The key.
        key: &'static str,
    },
    /// A log has a mode that a submission does not use.
    UnsuitableMode {
        /// The log.
        log: PathBuf,
        /// The mode.
        mode: String,
    },
    /// The scenario of an audit is unknown.
    AuditOfNothing {
        /// Its folder.
        folder: PathBuf,
    },
    /// An audit belongs to a scenario without a result.
    AuditWithoutResult {
        /// Its folder.
        folder: PathBuf,
        /// The scenario.
        scenario: Scenario,
    },
    /// There are more tests than a result has.
    TooMany {
        /// The scenario.
        scenario: Scenario,
        /// The part.
        part: TestPart,
        /// Folders of the tests.
        folders: Vec<PathBuf>,
        /// Maximum number.
        most: usize,
    },
    /// Two audits have the same name and scenario.
    DuplicateAudit {
        /// Their folders.
        folders: [PathBuf; 2],
    },
    /// The tree has the layout of other rounds.
    OtherLayout {
        /// Folder that does not exist in the round's layout.
        path: PathBuf,
        /// The round.
        round: Version,
    },
    /// `model_mapping.json` already maps the custom model to another official model.
    MappedAlready {
        /// Custom model.
        model: String,
        /// Mapped model, as JSON.
        official: String,
    },
    /// A result lacks one of its parts.
    PartMissing {
        /// The scenario.
        scenario: Scenario,
        /// The part.
        part: TestPart,
    },
    /// An accuracy run was not scored.
    NotScored {
        /// Its folder.
        folder: PathBuf,
    },
    /// The log does not allow inference.
    NoEstimate {
        /// Folder of the log.
        folder: PathBuf,
        /// Scenario to infer.
        scenario: Scenario,
    },
    /// An accuracy log cannot be truncated.
    Truncate(TruncateError),
    /// A description is invalid or has an unknown field.
    Description {
        /// Description of the problem.
        problem: String,
    },
    /// The tree's description of the system differs.
    SystemDiffers {
        /// Path of the file, relative to the root of the tree.
        path: PathBuf,
        /// Conflicting fields.
        conflicts: Vec<Conflict>,
    },
    /// The tree is not a folder.
    NoFolder {
        /// Path.
        path: PathBuf,
    },
    /// The tree is a run or contains runs.
    RunsInTree {
        /// The tree.
        tree: PathBuf,
        /// First such run; equals `tree` if the tree is a run.
        run: PathBuf,
    },
    /// The tree already contains this result.
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
        write!(f, "`{field}` is `{existing}` there, and {flag} says `{requested}`")
    }
}

impl PackageError {
    pub(super) fn file(path: &Path, error: &io::Error) -> Self {
        Self::File { path: path.to_owned(), problem: error.to_string() }
    }

    /// Returns advice, if the message does not contain it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::UnknownBenchmark { may_be_own: true, .. } => Some(
                "name the official model that yours stands for: --benchmark OWN=OFFICIAL, \
                 such as digits=resnet",
            ),
            Self::NoTests { .. } => {
                Some("name a run directory of `dyno run`, or a folder with mlperf_log_detail.txt")
            }
            Self::NotScored { .. } => Some(
                "write what the benchmark's accuracy script prints to accuracy.txt beside the log",
            ),
            Self::ScenariosMissing { can_be_inferred: true, .. } => {
                Some("--infer takes MultiStream and Offline from SingleStream or MultiStream")
            }
            Self::Exists { .. } => Some("remove it first, or choose another tree"),
            Self::OtherLayout { .. } => Some("a tree is of one round: choose another"),
            Self::SystemDiffers { .. } => Some(
                "the file is of all results of the system: give the flags its values, change the \
                 file for all of them, or choose another --system",
            ),
            Self::NoFolder { .. } => Some("the tree comes first: dyno package TREE RUN..."),
            Self::RunsInTree { .. } => {
                Some("the tree comes first, and beside the runs: dyno package TREE RUN...")
            }
            Self::TooMany { .. } | Self::DuplicateAudit { .. } => {
                Some("name only the run directories that count")
            }
            _ => None,
        }
    }
}

impl PackageError {
    /// Formats the errors that concern run directories.
    fn fmt_run_error(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTests { directory } => {
                write!(f, "there is no test in {}", directory.display())
            }
            Self::LogSaysNothing { log, key } => {
                write!(f, "{} has no line `{key}`: it is no whole detail log", log.display())
            }
            Self::UnsuitableMode { log, mode } => write!(
                f,
                "{} is of mode {mode}; a submission has an AccuracyOnly and a PerformanceOnly \
                 run of each scenario",
                log.display()
            ),
            Self::AuditOfNothing { folder } => write!(
                f,
                "{} neither has performance/run_1 nor lies below a folder named after a scenario",
                folder.display()
            ),
            Self::AuditWithoutResult { folder, scenario } => write!(
                f,
                "{} audits {}, of which there is no result",
                folder.display(),
                scenario.name()
            ),
            Self::TooMany { scenario, part, folders, most } => {
                let folders: Vec<_> = folders.iter().map(|f| f.display().to_string()).collect();
                write!(
                    f,
                    "{} has {} {} runs ({}), expected {most} at most",
                    scenario.name(),
                    folders.len(),
                    part.name(),
                    folders.join(", ")
                )
            }
            Self::DuplicateAudit { folders: [one, other] } => write!(
                f,
                "{} and {} are the same audit of the same scenario",
                one.display(),
                other.display()
            ),
            Self::MappedAlready { model, official } => {
                write!(f, "`{model}` stands for {official} in model_mapping.json already")
            }
            Self::PartMissing { scenario, part } => {
                write!(f, "{} has no {} run", scenario.name(), part.name())
            }
            Self::NotScored { folder } => write!(f, "{} has no accuracy", folder.display()),
            _ => Ok(()),
        }
    }
}

impl From<TruncateError> for PackageError {
    fn from(error: TruncateError) -> Self {
        Self::Truncate(error)
    }
}

fn list(scenarios: &[Scenario]) -> String {
    scenarios.iter().map(|scenario| scenario.name()).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for PackageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, problem } => write!(f, "{}: {problem}", path.display()),
            Self::BadName { kind, name } => write!(
                f,
                "`{name}` cannot be the name of a {kind}: it must have no blank and no `/`, and not \
                 begin with a dot"
            ),
            Self::UnknownBenchmark { name, round, nearest, .. } => {
                write!(f, "round {round} has no benchmark `{name}`")?;
                nearest.iter().try_for_each(|nearest| write!(f, "; did you mean `{nearest}`?"))
            }
            Self::NoDivision { division, round } => {
                write!(f, "round {round} has no {division} division; it began with v2.1")
            }
            Self::NotInSuite { benchmark, suite } => {
                write!(f, "`{benchmark}` is no benchmark of the suite {}", suite.name())
            }
            Self::ScenarioNotWanted { benchmark, scenario, wanted } => write!(
                f,
                "the suite does not have `{benchmark}` in {}, only in {}",
                scenario.name(),
                list(wanted)
            ),
            Self::ScenariosMissing { missing, .. } => {
                write!(f, "the suite requires {}, and there is no run of that", list(missing))
            }
            Self::NoEstimate { folder, scenario } => write!(
                f,
                "{} cannot be inferred from the log in {}: it has no early-stopping estimate of \
                 the 99th percentile",
                scenario.name(),
                folder.display()
            ),
            Self::Truncate(error) => error.fmt(f),
            Self::Description { problem } => f.write_str(problem),
            Self::SystemDiffers { path, conflicts } => {
                let all: Vec<_> = conflicts.iter().map(ToString::to_string).collect();
                write!(f, "the tree has {} already: {}", path.display(), all.join("; "))
            }
            Self::NoFolder { path } => write!(
                f,
                "{} is a file; a tree is a new folder, or one that has other results",
                path.display()
            ),
            Self::RunsInTree { tree, run } if tree == run => {
                write!(f, "{} is a run, and no tree of submissions", tree.display())
            }
            Self::RunsInTree { tree, run } => write!(
                f,
                "the run {} lies in the tree {}, which may hold nothing but submissions",
                run.display(),
                tree.display()
            ),
            Self::Exists { path } => write!(f, "{} is there already", path.display()),
            Self::OtherLayout { path, round } => {
                write!(
                    f,
                    "{} is of another round than {round}, which has no such folder",
                    path.display()
                )
            }
            run_error => run_error.fmt_run_error(f),
        }
    }
}

impl std::error::Error for PackageError {}
