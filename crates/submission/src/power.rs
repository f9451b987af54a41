//! Measured power: the checks of the power working group over a performance folder,
//! and the metric that goes beside the result.
//!
//! A measurement is two runs of the load generator, one to find the ranges of the
//! analyzer (`ranging/`) and one that counts (`run_1/`), with what the client, the
//! server and PTDaemon say of both in `power/`. Start reading at [`check`].

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
use dyno_rules::{Scenario, Version};

pub use energy::{Energy, PowerUnit};

/// Whose reading of the checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// As the checks are meant: every line of PTDaemon's log counts, and tolerances are
    /// milliseconds.
    Rules,
    /// As the official program does it. It stops at the first warning in PTDaemon's log,
    /// so that errors after it are never seen, and it takes its tolerance of
    /// milliseconds for seconds, so that warnings of a ten minute test are never seen.
    Official,
}

/// What is to be checked.
#[derive(Debug, Clone, Copy)]
pub struct Measurement<'a> {
    /// The performance folder, which holds `power`, `ranging` and `run_1`.
    pub folder: &'a Path,
    /// The same folder as findings name it.
    pub shown: &'a Path,
    /// Round of the submission.
    pub round: Version,
    /// Scenario that the result is submitted for.
    pub scenario: Scenario,
    /// The detail log of the run that counts, where it was read already.
    pub log: Option<&'a RunLog>,
}

/// What a measurement needs of the detail log of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunLog {
    /// SHA-1 of the file.
    pub sha1: String,
    /// `power_begin`, as it stands there.
    pub begin: Option<String>,
    /// `power_end`.
    pub end: Option<String>,
    /// `result_query_count`.
    pub queries: Option<u64>,
    /// `effective_scenario`.
    pub scenario: Option<String>,
}

/// What a measurement says.
#[derive(Debug, Clone, PartialEq)]
pub struct Power {
    /// What is wrong with it; the result counts while none is an error.
    pub findings: Vec<Finding>,
    /// The metric, where the files have it.
    pub energy: Option<Energy>,
}

impl Power {
    /// Whether the measurement counts.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.energy.is_some() && self.findings.iter().all(|f| f.severity != Severity::Error)
    }
}

/// Ids of the checks, with what holds where they pass.
pub const CHECKS: [(&str, &str); 13] = [
    ("power.files", "all files of the two runs are there"),
    ("power.session", "client.json and server.json are as they were written, with all fields"),
    ("power.sources", "client and server are an unchanged release"),
    (
        "power.daemon",
        "PTDaemon and analyzer are supported, did as they were told, and were set back",
    ),
    ("power.uuid", "both sides name the same session"),
    ("power.session_name", "both sides name it alike"),
    ("power.phases", "clocks agree, the runs lie within their phases, and draw alike"),
    ("power.samples", "the analyzer's readings can be read, and some lie within each run"),
    ("power.messages", "both sides tell the same messages, and are the same version"),
    ("power.checksums", "every file has the SHA-1 that was recorded for it"),
    ("power.daemon_log", "uncertainty was watched, and nothing went wrong while the run counted"),
    ("power.devices", "the devices are supported, with two channels where they have several"),
    ("power.debug", "the server did not run in debug mode"),
];

/// Files that a measurement consists of, below the performance folder.
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

/// Runs the eleven checks and computes the metric. Each file is read once.
#[must_use]
pub fn check(measurement: &Measurement<'_>, program: Program) -> Power {
    let mut report = Report { shown: measurement.shown.to_owned(), findings: Vec::new() };
    let files = recorded::Files::read(measurement.folder, measurement.log, &mut report);
    let rules = equipment::of(measurement.round);
    let client = session::read("power/client.json", files.text("power/client.json"), &mut report);
    let server = session::read("power/server.json", files.text("power/server.json"), &mut report);
    let runs = run::Runs::of(&files, measurement.log);
    if let Some(client) = &client {
        equipment::check_sources(client, &mut report);
    }
    if let Some(server) = &server {
        equipment::check_sources(server, &mut report);
        messages::check_daemon(server, &rules, &mut report);
        equipment::check_devices(server, &mut report);
        session::check_debug(server, &mut report);
        daemon_log::check(server, &files, &runs.testing, program, &mut report);
    }
    if let (Some(client), Some(server)) = (&client, &server) {
        session::check_identity(client, server, &mut report);
        messages::check_session(client, server, &mut report);
        phases::check((client, server), &runs, &rules, program, &mut report);
        recorded::check(client, server, &files, &mut report);
    }
    let sides = client.as_ref().zip(server.as_ref());
    let energy = energy::measure(measurement, &runs.testing, sides, &mut report);
    Power { findings: report.findings, energy }
}

/// Where findings go.
struct Report {
    shown: PathBuf,
    findings: Vec<Finding>,
}

impl Report {
    fn say(&mut self, found: Found<'_>) {
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

/// A finding in the making; most are errors without a line.
struct Found<'a> {
    check: &'static str,
    severity: Severity,
    file: &'a str,
    line: Option<usize>,
    message: String,
    expected: Option<String>,
    mend: &'static str,
}

impl<'a> Found<'a> {
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
