//! What there is in a run directory, of Dyno or of any harness with LoadGen: every
//! folder with a detail log is a test, and the log says which.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use dyno_loadgen::log::read::{Detail, read_detail_file};
use serde::Deserialize;

use super::PackageError;
use crate::layout::{ACCURACY_LOG, DETAIL};
use dyno_rules::Scenario;

/// Folders are looked through so deep: deeper than any harness puts its logs.
const DEPTH: usize = 8;

/// What a test is in a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Every sample once, with its answer.
    Accuracy,
    /// What is timed.
    Performance,
}

impl Part {
    /// Name of its folder.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Accuracy => "accuracy",
            Self::Performance => "performance",
        }
    }
}

/// A test that was run.
#[derive(Debug, Clone, PartialEq)]
pub struct Test {
    /// Where its logs are.
    pub folder: PathBuf,
    /// As the rules call it.
    pub scenario: Scenario,
    /// Which part of a result it is.
    pub part: Part,
    /// Its detail log.
    pub detail: Detail,
    /// What Dyno scored, where it ran the test.
    pub quality: Option<Quality>,
    /// The command that ran it, where that is known.
    pub command: Option<String>,
    /// The folder of `dyno audit` that it was run for, to compare with.
    pub audit: Option<PathBuf>,
}

/// The files of one audit of a scenario, as a submission has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditFiles {
    /// Such as `TEST01`.
    pub name: String,
    /// Of the result that was audited.
    pub scenario: Scenario,
    /// Where the files are.
    pub folder: PathBuf,
}

/// What run directories hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// In the order of the directories, and of their folders' names.
    pub tests: Vec<Test>,
    /// In the same order.
    pub audits: Vec<AuditFiles>,
}

/// Top-1 accuracy of a run of Dyno, as its `summary.json` has it.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct Quality {
    /// Samples whose answer is their label.
    pub correct: u64,
    /// Samples in the accuracy log.
    pub scored: u64,
}

impl Quality {
    /// What an official accuracy script would print: that of classifiers, and that of
    /// segmentation, whose metric is a mean over the samples as well.
    #[must_use]
    pub fn text(self) -> String {
        let Self { correct, scored } = self;
        let mean = if scored == 0 { 0.0 } else { correct as f64 / scored as f64 };
        let percent = 100.0 * mean;
        format!(
            "accuracy={percent:.3}%, good={correct}, total={scored}\nAccuracy: mean = {mean:.5}\n"
        )
    }
}

/// Looks through run directories.
///
/// # Errors
/// One of them cannot be listed or holds no test, or a log in it does not say what
/// it is of.
pub fn find(directories: &[PathBuf]) -> Result<Found, PackageError> {
    let mut found = Found::default();
    for directory in directories {
        let before = (found.tests.len(), found.audits.len());
        look(directory, directory, DEPTH, &Summary::default(), &mut found)?;
        if before == (found.tests.len(), found.audits.len()) {
            return Err(PackageError::NoTests { directory: directory.clone() });
        }
    }
    give_way(&mut found.tests);
    Ok(found)
}

/// Every audit compares with a run of its own. It counts where there is no other, and of
/// several that of the first audit: the check of a tree compares them all with what counts.
fn give_way(tests: &mut Vec<Test>) {
    let of = |test: &Test| (test.scenario, test.part);
    let mut counting: BTreeMap<_, Option<PathBuf>> = BTreeMap::new();
    for test in tests.iter() {
        let first = counting.entry(of(test)).or_insert_with(|| test.audit.clone());
        if test.audit.is_none() {
            *first = None;
        }
    }
    tests.retain(|test| counting[&of(test)] == test.audit);
}

fn look(
    root: &Path,
    folder: &Path,
    depth: usize,
    summary: &Summary,
    found: &mut Found,
) -> Result<(), PackageError> {
    // Of an audit the run that it is compared with counts, and what it found.
    let is_of_audit = folder.join("audit.json").is_file();
    let made_for = if is_of_audit { Some(folder.to_owned()) } else { summary.audit.clone() };
    let own = Summary::read(folder).unwrap_or_else(|| summary.clone());
    let summary = &Summary { audit: made_for, ..own };
    let mut folders = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| PackageError::file(folder, &error))? {
        let entry = entry.map_err(|error| PackageError::file(folder, &error))?;
        // Links may lead round in a circle.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            folders.push(entry.path());
        }
    }
    folders.sort();
    // Of a test that was repeated its runs count, not what was made of them.
    let is_repeated = folder.join("run_1").join(DETAIL).is_file();
    if folder.join(DETAIL).is_file()
        && !is_repeated
        && let Some(test) = test(root, folder, summary)?
    {
        found.tests.push(test);
    }
    for folder in folders {
        match name_of(&folder) {
            name if is_of_audit && !AUDIT_FOLDERS.contains(&name) => {}
            name if name.starts_with('.') => {}
            // The ranging run of a power measurement goes with the run it was made for.
            "ranging" | "power" => {}
            name if is_audit(name) && is_judged(&folder) => {
                found.audits.push(audit(root, &folder)?);
            }
            name if is_audit(name) => {}
            _ if depth > 0 => look(root, &folder, depth - 1, summary, found)?,
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// What `dyno audit` leaves for a submission, beside the runs that it judged; the
/// last two by the round.
const AUDIT_FOLDERS: [&str; 3] = ["baseline", "compliance", "audit"];

/// `TEST01`, `TEST04-A`.
fn is_audit(name: &str) -> bool {
    name.strip_prefix("TEST").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Whether it has what an audit said, or at least the run or the answers that it judges.
fn is_judged(folder: &Path) -> bool {
    let texts = ["verify_accuracy.txt", "verify_performance.txt", "verify_output_len.txt"];
    texts.iter().any(|text| folder.join(text).is_file())
        || folder.join("performance/run_1").is_dir()
        || folder.join("accuracy").join(ACCURACY_LOG).is_file()
}

/// The scenario of the last folder that is named after one.
fn named_scenario(root: &Path, folder: &Path) -> Option<Scenario> {
    let below = folder.strip_prefix(root.parent().unwrap_or(root)).unwrap_or(folder);
    below.components().rev().find_map(|part| Scenario::named(part.as_os_str().to_str()?))
}

fn read(folder: &Path) -> Result<Detail, PackageError> {
    let path = folder.join(DETAIL);
    let (detail, _) = read_detail_file(&path).map_err(|error| PackageError::file(&path, &error))?;
    Ok(detail)
}

fn scenario_of(root: &Path, folder: &Path, detail: &Detail) -> Result<Scenario, PackageError> {
    let played = detail.text("effective_scenario").and_then(Scenario::named);
    let played = played.ok_or_else(|| PackageError::LogSaysNothing {
        log: folder.join(DETAIL),
        key: "effective_scenario",
    })?;
    // LoadGen has no scenario of that name: its logs say Server.
    let is_interactive = named_scenario(root, folder) == Some(Scenario::Interactive);
    match played {
        Scenario::Server if is_interactive => Ok(Scenario::Interactive),
        played => Ok(played),
    }
}

/// The test of a folder; none of one that only looked for the peak.
fn test(root: &Path, folder: &Path, summary: &Summary) -> Result<Option<Test>, PackageError> {
    let detail = read(folder)?;
    let scenario = match scenario_of(root, folder, &detail)? {
        Scenario::Server if summary.is_interactive => Scenario::Interactive,
        scenario => scenario,
    };
    let log = || folder.join(DETAIL);
    let part = match detail.text("effective_test_mode") {
        Some("AccuracyOnly") => Part::Accuracy,
        Some("PerformanceOnly") => Part::Performance,
        Some("FindPeakPerformance") => return Ok(None),
        Some(mode) => {
            return Err(PackageError::UnsuitableMode { log: log(), mode: mode.to_owned() });
        }
        None => {
            return Err(PackageError::LogSaysNothing { log: log(), key: "effective_test_mode" });
        }
    };
    let below = folder.strip_prefix(&summary.directory).unwrap_or(folder);
    let below = below.to_string_lossy().into_owned();
    Ok(Some(Test {
        folder: folder.to_owned(),
        scenario,
        part,
        detail,
        quality: summary.quality.get(&below).copied(),
        command: summary.command.clone(),
        audit: summary.audit.clone(),
    }))
}

fn audit(root: &Path, folder: &Path) -> Result<AuditFiles, PackageError> {
    let run = folder.join("performance/run_1");
    let scenario = if run.join(DETAIL).is_file() {
        scenario_of(root, &run, &read(&run)?)?
    } else {
        named_scenario(root, folder)
            .ok_or_else(|| PackageError::AuditOfNothing { folder: folder.to_owned() })?
    };
    Ok(AuditFiles { name: name_of(folder).to_owned(), scenario, folder: folder.to_owned() })
}

/// What is of use in the summary of a run of Dyno.
#[derive(Debug, Clone, Default)]
struct Summary {
    /// Of the run.
    directory: PathBuf,
    /// The folder of `dyno audit` that the run is of.
    audit: Option<PathBuf>,
    command: Option<String>,
    /// Whether Server was played by the rules of Interactive.
    is_interactive: bool,
    /// By the folder of the test.
    quality: BTreeMap<String, Quality>,
}

impl Summary {
    /// Of a directory that has none, or one that does not read, nothing.
    fn read(directory: &Path) -> Option<Self> {
        #[derive(Deserialize)]
        struct File {
            #[serde(default)]
            command: Vec<String>,
            rules: Option<Rules>,
            tests: Vec<Entry>,
        }
        #[derive(Deserialize)]
        struct Rules {
            interactive: bool,
        }
        #[derive(Deserialize)]
        struct Entry {
            folder: String,
            accuracy: Option<serde_json::Value>,
        }
        let text = fs::read(directory.join("summary.json")).ok()?;
        let file: File = serde_json::from_slice(&text).ok()?;
        let quality = |entry: Entry| {
            let quality = serde_json::from_value(entry.accuracy?).ok()?;
            Some((entry.folder, quality))
        };
        let command =
            (!file.command.is_empty()).then(|| format!("dyno {}", file.command.join(" ")));
        let quality = file.tests.into_iter().filter_map(quality).collect();
        let is_interactive = file.rules.is_some_and(|rules| rules.interactive);
        let directory = directory.to_owned();
        Some(Self { directory, audit: None, command, is_interactive, quality })
    }
}
