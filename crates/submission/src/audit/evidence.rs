//! Evidence of an audit: the logs of finished runs.

use std::path::{Path, PathBuf};

use dyno_loadgen::log::read::{Detail, read_detail_file, read_summary};
use dyno_loadgen::settings::{Scenario, TestMode};

use super::quality::Accuracies;
use super::reason::Reason;
use dyno_rules::RuleScenario;
use dyno_tensors::{Element, files};

const DETAIL: &str = "mlperf_log_detail.txt";
const SUMMARY: &str = "mlperf_log_summary.txt";
const ACCURACY: &str = "mlperf_log_accuracy.json";

/// A finished run, by the folders of its logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFolder {
    /// Folder of `mlperf_log_summary.txt` and `mlperf_log_detail.txt`.
    pub folder: PathBuf,
    /// Folder of `mlperf_log_accuracy.json`.
    pub answers: PathBuf,
}

impl RunFolder {
    /// Creates a run whose logs are all in this folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        Self { answers: folder.clone(), folder }
    }

    /// Finds the run at or below a folder: a folder of logs, a test in a run directory or a
    /// submission, or an audit in a submission. An audit stores the accuracy log in a separate
    /// folder, and TEST06 may have only that log. Returns `None` if there is no log.
    pub fn find(folder: &Path, mode: TestMode) -> Option<Self> {
        let below: &[&str] = match mode {
            TestMode::AccuracyOnly => &["accuracy", ""],
            _ => &["performance/run_1", "performance", ""],
        };
        let has = |folder: &PathBuf, name: &str| folder.join(name).is_file();
        let mut folders = below.iter().map(|part| folder.join(part));
        let is_run =
            |path: &PathBuf| [SUMMARY, DETAIL, ACCURACY].iter().any(|name| has(path, name));
        let answers = folder.join("accuracy");
        let found = folders.find(is_run);
        let found = found.or_else(|| has(&answers, ACCURACY).then(|| folder.join(below[0])))?;
        let is_apart = !has(&found, ACCURACY) && has(&answers, ACCURACY);
        Some(Self { answers: if is_apart { answers } else { found.clone() }, folder: found })
    }

    /// Whether the run has answers but neither a detail log nor a summary.
    pub(super) fn has_answers_alone(&self) -> bool {
        let logs = [self.detail_path(), self.summary_path()];
        self.accuracy_path().is_file() && !logs.iter().any(|log| log.exists())
    }

    /// Returns the scenario that the logs state.
    pub fn scenario(&self) -> Option<Scenario> {
        let detail = self.detail().ok();
        let logged = detail.as_ref().and_then(|detail| detail.text("effective_scenario"));
        let text = self.summary().unwrap_or_default();
        let summary = read_summary(&text).0;
        scenario_named(logged.or_else(|| summary.value("Scenario"))?)
    }

    /// Returns the path of the detail log.
    pub fn detail_path(&self) -> PathBuf {
        self.folder.join(DETAIL)
    }

    /// Returns the path of the summary log.
    pub fn summary_path(&self) -> PathBuf {
        self.folder.join(SUMMARY)
    }

    /// Returns the path of the accuracy log.
    pub fn accuracy_path(&self) -> PathBuf {
        self.answers.join(ACCURACY)
    }

    pub(super) fn detail(&self) -> Result<Detail, Reason> {
        let path = self.detail_path();
        match read_detail_file(&path) {
            Ok((detail, _)) => Ok(detail),
            Err(error) => Err(unreadable(&path, &error)),
        }
    }

    /// Reads the summary.
    pub(super) fn summary(&self) -> Result<String, Reason> {
        let path = self.summary_path();
        let bytes = files::read(&path).map_err(|error| unreadable(&path, &error))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Parses a scenario name. Old summaries write `Single Stream`.
pub(super) fn scenario_named(name: &str) -> Option<Scenario> {
    RuleScenario::named(&name.replace(' ', "")).map(RuleScenario::loadgen_scenario)
}

pub(super) fn unreadable(path: &Path, problem: &impl ToString) -> Reason {
    Reason::Unreadable { path: path.to_owned(), problem: problem.to_string() }
}

/// Evidence of an audit. Runs that a test does not need may be absent.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// The accuracy run of the submission.
    pub accuracy: Option<RunFolder>,
    /// The performance run of the submission.
    pub performance: Option<RunFolder>,
    /// The runs of the audit, in the order of the plan.
    pub audited: Vec<RunFolder>,
    /// Element type of the answers.
    pub element: Element,
    /// TEST06: the token that ends a text.
    pub end_of_text: i64,
    /// TEST01: qualities of both runs over the same samples, for nondeterministic systems.
    pub qualities: Option<Accuracies>,
    /// TEST07: the quality of the audited run.
    pub quality: Option<f64>,
    /// TEST07 and TEST09: number of distinct samples that must be logged, if known.
    pub samples: Option<u64>,
}

impl Evidence {
    /// Creates evidence with the runs of an audit only; `element` is the element type of the
    /// answers.
    pub fn new(audited: Vec<RunFolder>, element: Element) -> Self {
        Self {
            accuracy: None,
            performance: None,
            audited,
            element,
            end_of_text: 2,
            qualities: None,
            quality: None,
            samples: None,
        }
    }
}
