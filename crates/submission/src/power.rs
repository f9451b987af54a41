//! Power measurements: the checks of the power working group on a performance folder, and the
//! metric that is published with the result.
//!
//! A measurement consists of two runs of the load generator: one to find the ranges of the
//! analyzer (`ranging/`) and one that counts (`run_1/`). The client, the server and PTDaemon log
//! both in `power/`. [`check`] is the entry point.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use dyno_rules::RuleScenario;
//! use dyno_submission::power::{Measurement, PowerChecker, check};
//!
//! let folder = Path::new("closed/A/results/sut/resnet/Offline/performance");
//! let round = "v5.1".parse().unwrap();
//! let scenario = RuleScenario::Offline;
//! let measurement = Measurement { folder, shown: folder, round, scenario, log: None };
//! let power = check(&measurement, PowerChecker::Rules);
//! assert!(power.is_valid(), "{:?}", power.findings);
//! ```

pub(crate) mod clock;
mod daemon_log;
mod energy;
mod equipment;
mod messages;
pub mod nameplate;
mod phases;
mod recorded;
mod run;
mod session;

use std::path::{Path, PathBuf};

use crate::finding::{Finding, Severity};
use dyno_rules::{Behavior, OneFileChecker, RuleScenario, Version};

pub use energy::{Energy, PowerUnit};

/// Interpretation of the checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerChecker {
    /// As intended: every line of PTDaemon's log counts, and tolerances are milliseconds.
    Rules,
    /// As the official program implements them. It stops at the first warning in PTDaemon's log,
    /// so it misses later errors. It also uses its tolerance of milliseconds as seconds, so it
    /// misses all warnings of a ten-minute test.
    Official,
    /// As the official program up to v3.0: as [`Self::Official`], but every reading counts for the
    /// metric, and the unit of energy and the zone of times depend on the tag.
    Early(OneFileChecker),
}

/// A measurement to check.
#[derive(Debug, Clone, Copy)]
pub struct Measurement<'a> {
    /// Performance folder, which contains `power`, `ranging` and `run_1`.
    pub folder: &'a Path,
    /// Path of that folder in findings.
    pub shown: &'a Path,
    /// Round of the submission.
    pub round: Version,
    /// Scenario of the submitted result.
    pub scenario: RuleScenario,
    /// Detail log of the run that counts, if it has been read already.
    pub log: Option<&'a RunLog>,
}

/// Values of a run's detail log that a measurement needs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunLog {
    /// SHA-1 of the file.
    pub sha1: String,
    /// Value of `power_begin`.
    pub begin: Option<String>,
    /// Value of `power_end`.
    pub end: Option<String>,
    /// Value of `result_query_count`, which exists from v2.0 on.
    pub queries: Option<u64>,
    /// Value of `result_qps_with_loadgen_overhead`.
    pub rate: Option<f64>,
    /// Product of `generated_query_count` and `generated_samples_per_query`.
    pub generated: Option<u64>,
    /// Value of `effective_scenario`.
    pub scenario: Option<String>,
}

/// Result of the checks.
#[derive(Debug, Clone, PartialEq)]
pub struct Power {
    /// Problems. The result is valid if none is an error.
    pub findings: Vec<Finding>,
    /// Metric, if the files contain it.
    pub energy: Option<Energy>,
}

impl Power {
    /// Whether the measurement is valid.
    pub fn is_valid(&self) -> bool {
        self.energy.is_some() && self.findings.iter().all(|f| f.severity != Severity::Error)
    }
}

/// Ids of the checks, with what holds if they pass.
pub const CHECKS: [(&str, &str); 13] = [
    ("power.files", "all files of the two runs exist"),
    ("power.session", "client.json and server.json are unchanged and complete"),
    ("power.sources", "client and server are unchanged releases"),
    ("power.daemon", "PTDaemon and analyzer are supported, obeyed their commands, and were reset"),
    ("power.uuid", "client and server have the same session UUID"),
    ("power.session_name", "client and server have the same session name"),
    (
        "power.phases",
        "clocks agree, each run is within its phase, and both runs draw about the \
         same power",
    ),
    ("power.samples", "the analyzer's readings can be parsed, and each run has some"),
    ("power.messages", "client and server record the same messages, and have the same version"),
    ("power.checksums", "every file has its recorded SHA-1"),
    (
        "power.daemon_log",
        "uncertainty was checked, and PTDaemon reported no problem during the \
         measured run",
    ),
    ("power.devices", "the devices are supported; multichannel devices use two channels"),
    ("power.debug", "the server did not run in debug mode"),
];

/// Files of a measurement, below the performance folder.
const FILES: [&str; 11] = [
    "power/client.json",
    "power/client.log",
    "power/ptd_logs.txt",
    "power/server.json",
    "power/server.log",
    "ranging/mlperf_log_detail.txt",
    "ranging/mlperf_log_summary.txt",
    "ranging/spl.txt",
    "run_1/mlperf_log_detail.txt",
    "run_1/mlperf_log_summary.txt",
    "run_1/spl.txt",
];

/// Runs all checks and computes the metric. Each file is read once.
#[must_use]
pub fn check(measurement: &Measurement<'_>, program: PowerChecker) -> Power {
    let mut report = Report { shown: measurement.shown.to_owned(), findings: Vec::new() };
    let files = recorded::Files::read(measurement.folder, measurement.log, &mut report);
    let rules = equipment::equipment_of(measurement.round);
    let client = session::read("power/client.json", files.text("power/client.json"), &mut report);
    let server = session::read("power/server.json", files.text("power/server.json"), &mut report);
    let runs = run::Runs::from_files(&files, measurement.log);
    if let Some(client) = &client {
        equipment::check_sources(client, measurement.round, program, &mut report);
    }
    if let Some(server) = &server {
        equipment::check_sources(server, measurement.round, program, &mut report);
        messages::check_daemon(server, &rules, &mut report);
        equipment::check_devices(server, &mut report);
        session::check_debug(server, &mut report);
        daemon_log::check(server, &files, &runs.testing, program, &mut report);
    }
    if let (Some(client), Some(server)) = (&client, &server) {
        session::check_identity(client, server, &mut report);
        messages::check_session(client, server, &mut report);
        phases::check(client, server, &runs, &rules, program, &mut report);
        recorded::check(client, server, &files, &mut report);
    }
    let sides = client.as_ref().zip(server.as_ref());
    let is_local = matches!(program, PowerChecker::Early(tag) if tag.does(Behavior::LocalTimes));
    let energy = if is_local && !session::have_zones(&files, &mut report) {
        None
    } else {
        energy::measure(measurement, &runs.testing, sides, program, &mut report)
    };
    Power { findings: report.findings, energy }
}

/// Collects findings.
struct Report {
    shown: PathBuf,
    findings: Vec<Finding>,
}

impl Report {
    fn add(&mut self, found: PowerFinding<'_>) {
        self.findings.push(Finding {
            check: found.check,
            severity: found.severity,
            path: self.shown.join(found.file),
            line: found.line,
            message: found.message,
            expected: found.expected,
            mend: found.mend.to_owned(),
        });
    }
}

/// A finding before its path is resolved. Most are errors without a line.
struct PowerFinding<'a> {
    check: &'static str,
    severity: Severity,
    file: &'a str,
    line: Option<usize>,
    message: String,
    expected: Option<String>,
    mend: &'static str,
}

impl<'a> PowerFinding<'a> {
    fn error(check: &'static str, file: &'a str, message: String, mend: &'static str) -> Self {
        Self { check, severity: Severity::Error, file, line: None, message, expected: None, mend }
    }

    fn warning(check: &'static str, file: &'a str, message: String, mend: &'static str) -> Self {
        Self { severity: Severity::Warning, ..Self::error(check, file, message, mend) }
    }

    fn at(self, line: usize) -> Self {
        Self { line: Some(line), ..self }
    }

    fn expected(self, value: impl Into<String>) -> Self {
        Self { expected: Some(value.into()), ..self }
    }
}
