//! Why there is no package.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::{Part, TruncateError};
use dyno_rules::{Scenario, Suite, Version};

/// Why run directories do not make a submission. Nothing is written then.
#[derive(Debug, PartialEq, Eq)]
pub enum PackageError {
    /// A file or folder cannot be read or written.
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        problem: String,
    },
    /// A name that a folder of a submission cannot have.
    BadName {
        /// What it is the name of.
        of: &'static str,
        /// As it was given.
        name: String,
    },
    /// The round has no such benchmark.
    UnknownBenchmark {
        /// As it was given.
        name: String,
        /// The round.
        round: Version,
        /// One that is close.
        nearest: Option<String>,
        /// Whether another model may stand for it: in the open division alone.
        may_be_own: bool,
    },
    /// The round began to have this division later.
    NoDivision {
        /// The division.
        division: &'static str,
        /// The round.
        round: Version,
    },
    /// The benchmark is none of the suite.
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
        /// Those that it has.
        wanted: Vec<Scenario>,
    },
    /// Scenarios that the suite requires.
    ScenariosMissing {
        /// Which.
        missing: Vec<Scenario>,
        /// Whether all of them could be inferred from what there is.
        can_be_inferred: bool,
    },
    /// No folder with a detail log.
    NoTests {
        /// The run directory.
        directory: PathBuf,
    },
    /// A detail log does not have a key.
    LogSaysNothing {
        /// The log.
        log: PathBuf,
        /// The key.
        key: &'static str,
    },
    /// A log of a mode that is no part of a submission.
    UnsuitableMode {
        /// The log.
        log: PathBuf,
        /// The mode.
        mode: String,
    },
    /// An audit that does not say of which scenario.
    AuditOfNothing {
        /// Its folder.
        folder: PathBuf,
    },
    /// An audit of a scenario without a result.
    AuditWithoutResult {
        /// Its folder.
        folder: PathBuf,
        /// The scenario.
        scenario: Scenario,
    },
    /// More tests than a result has.
    TooMany {
        /// The scenario.
        scenario: Scenario,
        /// The part.
        part: Part,
        /// Where they are.
        folders: Vec<PathBuf>,
        /// How many there may be.
        most: usize,
    },
    /// Two audits of one name for one scenario.
    AuditTwice {
        /// Their folders.
        folders: [PathBuf; 2],
    },
    /// The tree is laid out as other rounds are.
    OtherLayout {
        /// A folder that the round does not have.
        path: PathBuf,
        /// The round.
        round: Version,
    },
    /// The own model stands for another official one already.
    MappedAlready {
        /// The own model.
        model: String,
        /// What it stands for in `model_mapping.json`, as JSON.
        official: String,
    },
    /// A result without one of its parts.
    PartMissing {
        /// The scenario.
        scenario: Scenario,
        /// The part.
        part: Part,
    },
    /// An accuracy run that was not scored.
    NotScored {
        /// Its folder.
        folder: PathBuf,
    },
    /// The log is not one to infer from.
    NoEstimate {
        /// The folder of the log.
        folder: PathBuf,
        /// What was to be inferred.
        scenario: Scenario,
    },
    /// An accuracy log cannot be cut.
    Truncate(TruncateError),
    /// A description does not read, or has a field that there is none of.
    Description {
        /// What is wrong.
        problem: String,
    },
    /// The description that the tree has of the system says something else.
    SystemDiffers {
        /// Its file, relative to the root of the tree.
        path: PathBuf,
        /// Each field.
        conflicts: Vec<Conflict>,
    },
    /// What is to be the tree is no folder.
    NoFolder {
        /// What it is.
        path: PathBuf,
    },
    /// What is to be the tree is a run, or has runs in it.
    RunsInTree {
        /// The tree.
        tree: PathBuf,
        /// The first of them; the same if it is one.
        run: PathBuf,
    },
    /// The tree has this already.
    Exists {
        /// Which folder.
        path: PathBuf,
    },
}

/// A field that a kept description and a flag do not say alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Its name.
    pub field: &'static str,
    /// What the description says.
    pub kept: String,
    /// What the flag says.
    pub said: String,
    /// The flag.
    pub flag: &'static str,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, kept, said, flag } = self;
        write!(f, "`{field}` is `{kept}` there, and {flag} says `{said}`")
    }
}

impl PackageError {
    pub(super) fn file(path: &Path, error: &io::Error) -> Self {
        Self::File { path: path.to_owned(), problem: error.to_string() }
    }

    /// What to do about it, where the message does not say.
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
            Self::TooMany { .. } | Self::AuditTwice { .. } => {
                Some("name only the run directories that count")
            }
            _ => None,
        }
    }
}

impl PackageError {
    /// What is wrong with run directories.
    fn tell_of_runs(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
            Self::AuditTwice { folders: [one, other] } => write!(
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
            Self::BadName { of, name } => write!(
                f,
                "`{name}` cannot be the name of a {of}: it must have no blank and no `/`, and not \
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
            of_runs => of_runs.tell_of_runs(f),
        }
    }
}

impl std::error::Error for PackageError {}
