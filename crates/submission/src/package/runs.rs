//! Finds the tests in run directories of Dyno or of any harness with LoadGen. Every folder with
//! a detail log is a test, and the log states its kind.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use dyno_loadgen::log::read::{Detail, read_detail_file};
use serde::Deserialize;

use super::PackageError;
use crate::layout::{ACCURACY_LOG, DETAIL};
use dyno_rules::RuleScenario;
use dyno_tensors::files;

/// Maximum depth of folders to search, deeper than harnesses store logs.
const DEPTH: usize = 8;

/// Part of a result that a test provides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TestPart {
    /// Every sample once, with its answer.
    Accuracy,
    /// The timed run.
    Performance,
}

impl TestPart {
    /// Returns the name of its folder.
    pub fn name(self) -> &'static str {
        match self {
            Self::Accuracy => "accuracy",
            Self::Performance => "performance",
        }
    }
}

/// A finished test.
#[derive(Debug, Clone, PartialEq)]
pub struct TestRun {
    /// Folder of its logs.
    pub folder: PathBuf,
    /// Scenario, by the name in the rules.
    pub scenario: RuleScenario,
    /// Part of the result.
    pub part: TestPart,
    /// Detail log.
    pub detail: Detail,
    /// Quality, if Dyno ran and scored the test.
    pub quality: Option<Quality>,
    /// Command that ran the test, if known.
    pub command: Option<String>,
    /// Folder of the `dyno audit` for which the test was run as the reference.
    pub audit: Option<PathBuf>,
}

/// Files of one audit of a scenario, as a submission has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditFiles {
    /// Name, such as `TEST01`.
    pub name: String,
    /// Scenario of the audited result.
    pub scenario: RuleScenario,
    /// Folder of the files.
    pub folder: PathBuf,
}

/// Content of run directories.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunContents {
    /// Tests, in the order of the directories and of the folder names.
    pub tests: Vec<TestRun>,
    /// Audits, in the same order.
    pub audits: Vec<AuditFiles>,
}

/// Top-1 accuracy of a Dyno run, from its `summary.json`.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct Quality {
    /// Number of samples whose answer equals the label.
    pub correct: u64,
    /// Number of samples in the accuracy log.
    pub scored: u64,
}

impl Quality {
    /// Returns the output of official accuracy scripts for classification and for segmentation,
    /// whose metric is a mean over the samples, too.
    pub fn text(self) -> String {
        let Self { correct, scored } = self;
        let mean = if scored == 0 { 0.0 } else { correct as f64 / scored as f64 };
        let percent = 100.0 * mean;
        format!(
            "accuracy={percent:.3}%, good={correct}, total={scored}\nAccuracy: mean = {mean:.5}\n"
        )
    }
}

/// Searches run directories for tests and audits.
///
/// # Errors
/// Fails if a directory cannot be listed or contains no test, or if a log does not state its
/// scenario or mode.
pub fn find(directories: &[PathBuf]) -> Result<RunContents, PackageError> {
    let mut found = RunContents::default();
    for directory in directories {
        let before = (found.tests.len(), found.audits.len());
        search(directory, directory, DEPTH, &Summary::default(), &mut found)?;
        if before == (found.tests.len(), found.audits.len()) {
            return Err(PackageError::NoTests { directory: directory.clone() });
        }
    }
    select_counting(&mut found.tests);
    Ok(found)
}

/// Removes reference runs of audits if another run exists, and keeps only the first audit's run
/// otherwise. A check of the tree compares all audits with the run that counts.
fn select_counting(tests: &mut Vec<TestRun>) {
    let key = |test: &TestRun| (test.scenario, test.part);
    let mut counting: BTreeMap<_, Option<PathBuf>> = BTreeMap::new();
    for test in tests.iter() {
        let first = counting.entry(key(test)).or_insert_with(|| test.audit.clone());
        if test.audit.is_none() {
            *first = None;
        }
    }
    tests.retain(|test| counting[&key(test)] == test.audit);
}

fn search(
    root: &Path,
    folder: &Path,
    depth: usize,
    summary: &Summary,
    found: &mut RunContents,
) -> Result<(), PackageError> {
    // In the folder of an audit, only its reference run and its result count.
    let is_audit_folder = folder.join("audit.json").is_file();
    let audit_folder =
        if is_audit_folder { Some(folder.to_owned()) } else { summary.audit.clone() };
    let own = Summary::read(folder).unwrap_or_else(|| summary.clone());
    let summary = &Summary { audit: audit_folder, ..own };
    let mut folders = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| PackageError::file(folder, &error))? {
        let entry = entry.map_err(|error| PackageError::file(folder, &error))?;
        // Links are skipped because they may form cycles.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            folders.push(entry.path());
        }
    }
    folders.sort();
    // For a repeated test, its runs count and not the combined log.
    let is_repeated = folder.join("run_1").join(DETAIL).is_file();
    if folder.join(DETAIL).is_file()
        && !is_repeated
        && let Some(test) = test(root, folder, summary)?
    {
        found.tests.push(test);
    }
    for folder in folders {
        match name_of(&folder) {
            name if is_audit_folder && !AUDIT_FOLDERS.contains(&name) => {}
            name if name.starts_with('.') => {}
            // The ranging run of a power measurement belongs to the run next to it.
            "ranging" | "power" => {}
            name if is_audit(name) && is_judged(&folder) => {
                found.audits.push(audit(root, &folder)?);
            }
            name if is_audit(name) => {}
            _ if depth > 0 => search(root, &folder, depth - 1, summary, found)?,
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Folders in which `dyno audit` writes files for a submission. The last two depend on the
/// round.
const AUDIT_FOLDERS: [&str; 3] = ["baseline", "compliance", "audit"];

/// Whether a folder name is an audit's, such as `TEST01` or `TEST04-A`.
fn is_audit(name: &str) -> bool {
    name.strip_prefix("TEST").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Whether a folder contains the result of an audit, or the run or the answers that it judges.
fn is_judged(folder: &Path) -> bool {
    let texts = ["verify_accuracy.txt", "verify_performance.txt", "verify_output_len.txt"];
    texts.iter().any(|text| folder.join(text).is_file())
        || folder.join("performance/run_1").is_dir()
        || folder.join("accuracy").join(ACCURACY_LOG).is_file()
}

/// Returns the scenario of the innermost folder with a scenario name.
fn named_scenario(root: &Path, folder: &Path) -> Option<RuleScenario> {
    let below = folder.strip_prefix(root.parent().unwrap_or(root)).unwrap_or(folder);
    below.components().rev().find_map(|part| RuleScenario::named(part.as_os_str().to_str()?))
}

fn read(folder: &Path) -> Result<Detail, PackageError> {
    let path = folder.join(DETAIL);
    let (detail, _) = read_detail_file(&path).map_err(|error| PackageError::file(&path, &error))?;
    Ok(detail)
}

fn scenario_of(root: &Path, folder: &Path, detail: &Detail) -> Result<RuleScenario, PackageError> {
    let played = detail.text("effective_scenario").and_then(RuleScenario::named);
    let played = played.ok_or_else(|| PackageError::LogSaysNothing {
        log: folder.join(DETAIL),
        key: "effective_scenario",
    })?;
    // LoadGen does not know Interactive; its logs state Server.
    let is_interactive = named_scenario(root, folder) == Some(RuleScenario::Interactive);
    match played {
        RuleScenario::Server if is_interactive => Ok(RuleScenario::Interactive),
        played => Ok(played),
    }
}

/// Returns the test of a folder, or `None` for a search for the peak.
fn test(root: &Path, folder: &Path, summary: &Summary) -> Result<Option<TestRun>, PackageError> {
    let detail = read(folder)?;
    let scenario = match scenario_of(root, folder, &detail)? {
        RuleScenario::Server if summary.is_interactive => RuleScenario::Interactive,
        scenario => scenario,
    };
    let log = || folder.join(DETAIL);
    let part = match detail.text("effective_test_mode") {
        Some("AccuracyOnly") => TestPart::Accuracy,
        Some("PerformanceOnly") => TestPart::Performance,
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
    Ok(Some(TestRun {
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

/// Values of the `summary.json` of a Dyno run.
#[derive(Debug, Clone, Default)]
struct Summary {
    /// Run directory.
    directory: PathBuf,
    /// Folder of the `dyno audit` to which the run belongs.
    audit: Option<PathBuf>,
    command: Option<String>,
    /// Whether Server was run by the rules of Interactive.
    is_interactive: bool,
    /// Quality, by folder of the test.
    quality: BTreeMap<String, Quality>,
}

impl Summary {
    /// Reads the summary of a directory; returns `None` if it does not exist or is invalid.
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
        let text = files::read(directory.join("summary.json")).ok()?;
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
