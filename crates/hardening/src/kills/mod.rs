//! Commands that are stopped at a random moment. Nothing that they leave may look like a whole result
//! without being one, and the same command, or `--resume`, must finish with the result of a run that
//! was never stopped.

mod jobs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use dyno_loadgen::clock::Clock;
use serde_json::Value;

pub use jobs::{JOBS, Job};

use crate::oracle::Finding;
use crate::rng::Stream;

dyno_loadgen::named_enum! {
    /// How a command is stopped.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Stop {
        /// SIGINT, as Ctrl-C.
        Interrupt = "INT",
        /// SIGTERM, as job schedulers do.
        Terminate = "TERM",
        /// SIGKILL, as when memory runs out.
        Kill = "KILL",
    }
}

/// A job with what it does when it is not stopped.
#[derive(Debug)]
pub struct Reference {
    /// The job.
    pub job: &'static Job,
    /// Its program.
    program: PathBuf,
    /// How long it takes.
    takes: Duration,
    /// Its exit code.
    code: i32,
    /// Its result, without times.
    result: Value,
}

/// A stopped job.
#[derive(Debug)]
pub struct StopTrial {
    /// Index of the job in the list of references.
    pub job: usize,
    /// How it was stopped.
    pub stop: Stop,
    /// Whether it was still running then.
    pub was_running: bool,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

/// Time within which a command that was asked to end must end.
const LIMIT: Duration = Duration::from_secs(20);

impl Reference {
    /// Plays a job without stopping it.
    ///
    /// # Errors
    /// The program does not start, or leaves no result.
    pub fn play(program: &Path, job: &'static Job) -> Result<Self, String> {
        let folder = job.folder().map_err(|error| error.to_string())?;
        let clock = Clock::start();
        let status = start(program, job.arguments, folder.path())?.wait();
        let takes = Duration::from_nanos(clock.now());
        let code = status.ok().and_then(|status| status.code());
        let code = code.ok_or_else(|| format!("{} ended by a signal", job.name))?;
        let result = job.result(folder.path()).ok_or_else(|| format!("{}: no result", job.name))?;
        Ok(Self { job, program: program.to_owned(), takes, code, result })
    }

    /// Plays the job, stops it at a random moment, and finishes it.
    ///
    /// # Errors
    /// The program does not start, or no folder can be made.
    pub fn stop(
        &self,
        number: usize,
        stop: Stop,
        stream: &mut Stream,
    ) -> Result<StopTrial, String> {
        let folder = self.job.folder().map_err(|error| error.to_string())?;
        let root = folder.path();
        let mut child = start(&self.program, self.job.arguments, root)?;
        std::thread::park_timeout(self.takes.mul_f64(1.1 * stream.unit()));
        let was_running = child.try_wait().is_ok_and(|ended| ended.is_none());
        if was_running {
            signal(&child, stop)?;
        }
        let mut findings = Vec::new();
        match wait(&mut child) {
            None => findings.push(finding("end", "within 20 s of the signal", "it went on")),
            Some(status) => findings.extend(self.check_end(status, stop)),
        }
        findings.extend(check_files(&root.join("out")));
        findings.extend(self.finish(root)?);
        Ok(StopTrial { job: number, stop, was_running, findings })
    }

    fn check_end(&self, status: ExitStatus, stop: Stop) -> Option<Finding> {
        let code = status.code();
        let is_right = match stop {
            Stop::Kill => code.is_none() || code == Some(self.code),
            // A signal may come before the program listens to it, and after its work is done.
            _ => code.is_none_or(|code| code == self.code || code == 130),
        };
        let expected = format!("{}, 130 or the end by the signal", self.code);
        (!is_right).then(|| finding("exit code", expected, format!("{code:?}")))
    }

    /// Finishes a stopped job as a user would, and compares its result.
    fn finish(&self, root: &Path) -> Result<Vec<Finding>, String> {
        let job = self.job;
        let is_begun = root.join("out").exists();
        let is_whole = job.result(root).as_ref() == Some(&self.result);
        let arguments = match job.resume {
            _ if is_whole => return Ok(Vec::new()),
            Some(resume) if is_begun && job.is_resumable(root) => resume,
            // It was killed before it wrote anything.
            Some(_) => job.arguments,
            _ => {
                if is_begun {
                    // An interrupted run is a result, which another one does not replace.
                    fs::rename(root.join("out"), root.join("kept")).map_err(|e| e.to_string())?;
                }
                job.arguments
            }
        };
        let output = command(&self.program, arguments, root).output().map_err(|e| e.to_string())?;
        if output.status.code() != Some(self.code) {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let found = format!("{:?}: {}", output.status.code(), said.trim());
            return Ok(vec![finding("exit code afterwards", self.code.to_string(), found)]);
        }
        let mut findings = check_files(&root.join("out"));
        match job.result(root) {
            None => findings.push(finding("result afterwards", "one", "none")),
            Some(result) => findings.extend(difference(&self.result, &result, "")),
        }
        let left: Vec<String> =
            names(root).into_iter().filter(|name| job.is_foreign(name)).collect();
        if !left.is_empty() {
            findings.push(finding("files left over", "none", left.join(", ")));
        }
        Ok(findings)
    }
}

fn command(program: &Path, arguments: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::piped());
    command
}

fn start(program: &Path, arguments: &[&str], folder: &Path) -> Result<Child, String> {
    let mut command = command(program, arguments, folder);
    command.stderr(Stdio::null());
    command.spawn().map_err(|error| format!("cannot start {}: {error}", program.display()))
}

fn signal(child: &Child, stop: Stop) -> Result<(), String> {
    let signal = match stop {
        Stop::Interrupt => rustix::process::Signal::INT,
        Stop::Terminate => rustix::process::Signal::TERM,
        Stop::Kill => rustix::process::Signal::KILL,
    };
    let id = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    // The process is not yet waited for, so that its number is not reused.
    match id.map(|id| rustix::process::kill_process(id, signal)) {
        Some(Err(error)) => Err(format!("cannot send {}: {error}", stop.name())),
        _ => Ok(()),
    }
}

/// Waits for a process; kills it and returns `None` if it does not end in time.
fn wait(child: &mut Child) -> Option<ExitStatus> {
    let clock = Clock::start();
    while Duration::from_nanos(clock.now()) < LIMIT {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        std::thread::park_timeout(Duration::from_millis(2));
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

/// Empty in LoadGen's runs, too, unless a trace is asked for.
const EMPTY: &str = "mlperf_log_trace.json";

/// Checks that each document below a folder is whole.
fn check_files(folder: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    // Hidden folders are those of results that are not complete.
    for name in names(folder).into_iter().filter(|name| !name.starts_with('.')) {
        let path = folder.join(&name);
        if path.is_dir() {
            findings.extend(check_files(&path));
        } else if name.ends_with(".json") && name != EMPTY {
            let text = fs::read_to_string(&path).unwrap_or_default();
            if let Err(error) = serde_json::from_str::<Value>(&text) {
                let found = format!("{}: {error}, {} bytes", path.display(), text.len());
                findings.push(finding("document", "whole, or not there", found));
            }
        }
    }
    findings
}

/// Returns the first place where a result differs from that of an undisturbed run.
fn difference(expected: &Value, found: &Value, place: &str) -> Option<Finding> {
    match (expected, found) {
        (Value::Object(a), Value::Object(b)) if a.keys().eq(b.keys()) => {
            a.iter().find_map(|(key, value)| difference(value, &b[key], &format!("{place}/{key}")))
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let mut items = a.iter().zip(b).enumerate();
            items.find_map(|(at, (a, b))| difference(a, b, &format!("{place}/{at}")))
        }
        _ if expected == found => None,
        _ => {
            let shown = |value: &Value| format!("{place} {:.120}", value.to_string());
            Some(finding("result afterwards", shown(expected), shown(found)))
        }
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn finding(
    field: &'static str,
    expected: impl Into<String>,
    reported: impl Into<String>,
) -> Finding {
    let rule = "a stopped command loses nothing that it reported";
    Finding { field, expected: expected.into(), reported: reported.into(), rule }
}
