//! Log files: opened before the run and written after it, except the settings in the detail log.

use std::fmt;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

use super::format::iso_datetime;
use super::report::{Report, reports};
use super::stream::Stream;
use super::{accuracy, detail, summary, trace};
use crate::clock::WallTime;
use crate::plan::Plan;
use crate::run::TestLog;
use crate::settings::{Scenario, TestMode};

/// Output settings of the reference: folder and names of the log files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    /// Existing folder of the files.
    pub outdir: PathBuf,
    /// Prefix of file names.
    pub prefix: String,
    /// Suffix of file names, before `.txt` and `.json`.
    pub suffix: String,
    /// Adds the time of opening in UTC after the prefix.
    pub prefix_with_datetime: bool,
    /// Also prints the detail log.
    pub copy_detail_to_stdout: bool,
    /// Also prints the summary.
    pub copy_summary_to_stdout: bool,
    /// Writes the trace; otherwise the trace file is empty.
    pub enable_trace: bool,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            outdir: PathBuf::from("."),
            prefix: "mlperf_log_".into(),
            suffix: String::new(),
            prefix_with_datetime: false,
            copy_detail_to_stdout: false,
            copy_summary_to_stdout: false,
            enable_trace: true,
        }
    }
}

impl LogSettings {
    /// Returns the paths of summary, detail, accuracy and trace, in this order. `tenant` is the
    /// name of the tenant if a test has several.
    pub fn paths(&self, tenant: Option<&str>, opened: WallTime) -> [PathBuf; 4] {
        let mut prefix = self.prefix.clone();
        if self.prefix_with_datetime {
            prefix += &format!("{}_", iso_datetime(opened));
        }
        if let Some(tenant) = tenant {
            let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
            let tenant = tenant.replace(|c| !allowed(c), "-");
            prefix += &format!("{tenant}_");
        }
        // A prefix that begins with a slash is in the folder, too.
        let prefix = prefix.trim_start_matches(std::path::is_separator);
        let path = |kind: &str, extension: &str| {
            self.outdir.join(format!("{prefix}{kind}{}.{extension}", self.suffix))
        };
        [
            path("summary", "txt"),
            path("detail", "txt"),
            path("accuracy", "json"),
            path("trace", "json"),
        ]
    }
}

/// File that could not be opened or written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Kind of the error.
    pub kind: io::ErrorKind,
    /// Message of the operating system.
    pub message: String,
}

impl FailedFile {
    fn new(path: &Path, error: &io::Error) -> Self {
        Self { path: path.to_path_buf(), kind: error.kind(), message: error.to_string() }
    }
}

/// Error when log files are opened or written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogError {
    /// Before the run: a file cannot be opened.
    Open(FailedFile),
    /// Before the run: the disk is too full for what the run will write.
    NoSpace {
        /// Folder of the files.
        outdir: PathBuf,
        /// Estimated size of the logs, bytes.
        needed: u64,
        /// Free space, bytes.
        free: u64,
        /// Whether the logs have a trace, which takes most of the space.
        has_trace: bool,
    },
    /// After the run: some files are incomplete. The measurements are still in memory; open other
    /// [`LogFiles`] and write again.
    Write {
        /// Complete files.
        written: Vec<PathBuf>,
        /// Incomplete files.
        failed: Vec<FailedFile>,
    },
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MB: f64 = 1e6;
        match self {
            Self::Open(FailedFile { path, kind, message }) => {
                write!(f, "cannot open the log `{}`: {message}; ", path.display())?;
                f.write_str(match kind {
                    io::ErrorKind::NotFound => "create the folder, or choose another one",
                    io::ErrorKind::PermissionDenied => {
                        "choose a folder that you may write to, or change its permissions"
                    }
                    io::ErrorKind::StorageFull => "free some space, or choose another folder",
                    io::ErrorKind::InvalidFilename => "choose a shorter name",
                    _ => "choose another folder",
                })
            }
            Self::NoSpace { outdir, needed, free, has_trace } => write!(
                f,
                "the logs will take about {:.0} MB and `{}` has {:.0} MB free; free some space{}",
                (*needed as f64 / MB).ceil(),
                outdir.display(),
                *free as f64 / MB,
                if *has_trace {
                    ", choose another folder, or disable the trace"
                } else {
                    ", or choose another folder"
                }
            ),
            Self::Write { written, failed } => {
                f.write_str(
                    "the run is over and in memory, but its logs could not all be written",
                )?;
                for FailedFile { path, message, .. } in failed {
                    write!(f, "; `{}`: {message}", path.display())?;
                }
                let whole: Vec<String> = written.iter().map(|p| p.display().to_string()).collect();
                if !whole.is_empty() {
                    write!(f, "; whole are {}", whole.join(", "))?;
                }
                f.write_str("; write them again to another folder")
            }
        }
    }
}

impl std::error::Error for LogError {}

/// Returns the expected number of samples that a test measures for performance.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate, not negative"
)]
pub fn expected_samples(plan: &Plan) -> u64 {
    if plan.mode == TestMode::AccuracyOnly {
        return 0;
    }
    let by_time = (plan.target_qps * plan.min_duration as f64 * 1e-9) as u64;
    let by_time = if plan.scenario() == Scenario::Offline { 0 } else { by_time };
    plan.min_query_count.max(by_time).saturating_mul(plan.samples_per_query)
}

/// Returns an upper estimate of the size of the logs of a test in bytes, without responses, whose
/// size is unknown before the run. `library` is its number of samples: a larger override loads no
/// more.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate, not negative"
)]
pub fn expected_bytes(plan: &Plan, library: u64, enable_trace: bool) -> u64 {
    /// Settings, results, and the hashes of the sources.
    const FIXED: u64 = 64 << 10;
    /// A response of a few bytes with its numbers; measured at 52 for 4 bytes.
    const ENTRY: u64 = 80;
    /// The events of a sample; measured at 300 to 520.
    const TRACED: u64 = 520;
    /// An index in the list of loaded samples.
    const LOADED: u64 = 9;
    let measured = expected_samples(plan);
    let answered = match plan.mode {
        TestMode::AccuracyOnly | TestMode::SubmissionRun => plan.accuracy_sample_count.min(library),
        TestMode::PerformanceOnly | TestMode::FindPeakPerformance => 0,
    };
    let logged = answered.saturating_add((measured as f64 * plan.accuracy_log.probability) as u64);
    let traced = if enable_trace { measured.saturating_add(answered) } else { 0 };
    let loaded = plan.performance_sample_count.min(library).saturating_add(answered);
    FIXED
        .saturating_add(logged.saturating_mul(ENTRY))
        .saturating_add(traced.saturating_mul(TRACED))
        .saturating_add(loaded.saturating_mul(LOADED))
}

/// Open log files of one tenant.
#[derive(Debug)]
pub struct LogFiles {
    settings: LogSettings,
    /// Summary, detail, accuracy, trace.
    files: [(PathBuf, File); 4],
    /// Beginning of the detail log that its file already has.
    head: Vec<u8>,
}

impl LogFiles {
    /// Creates or empties all four files and checks that the disk has room for `expected_bytes`
    /// (see [`expected_bytes`]; 0 disables the check), so that a long run does not end without
    /// space for its logs.
    ///
    /// # Errors
    /// [`LogError::Open`] or [`LogError::NoSpace`]; both say what to do.
    pub fn open(
        settings: &LogSettings,
        tenant: Option<&str>,
        expected_bytes: u64,
    ) -> Result<Self, LogError> {
        let [summary, detail, accuracy, trace] = settings.paths(tenant, WallTime::now());
        let open = |path: PathBuf| match File::create(&path) {
            Ok(file) => Ok((path, file)),
            Err(error) => Err(LogError::Open(FailedFile::new(&path, &error))),
        };
        let files = [open(summary)?, open(detail)?, open(accuracy)?, open(trace)?];
        // After opening, because that frees the space of older logs.
        match free_bytes(&settings.outdir) {
            Some(free) if free < expected_bytes => Err(LogError::NoSpace {
                outdir: settings.outdir.clone(),
                needed: expected_bytes,
                free,
                has_trace: settings.enable_trace,
            }),
            _ => Ok(Self { settings: settings.clone(), files, head: Vec::new() }),
        }
    }

    /// Returns the paths of summary, detail, accuracy and trace.
    pub fn paths(&self) -> [&Path; 4] {
        self.files.each_ref().map(|(path, _)| path.as_path())
    }

    /// Writes the settings to the detail log at the start of a test, so that they can be read while
    /// it runs and remain if the process is killed. `log` is the log before the first run. An error
    /// is ignored: [`LogFiles::write`] writes the whole log.
    pub fn write_head(&mut self, log: &TestLog) {
        // That the test is not complete is no error yet.
        let log = TestLog { complete: true, ..log.clone() };
        let mut head = Vec::new();
        detail::write(&log, &[], &mut head).expect("memory does not fail");
        let (_, file) = &mut self.files[1];
        if file.write_all(&head).is_ok() {
            self.head = head;
        }
    }

    /// Computes the reports and writes all four files.
    ///
    /// # Errors
    /// [`LogError::Write`] lists the complete and the incomplete files.
    pub fn write(&mut self, log: &TestLog) -> Result<(), LogError> {
        self.write_reports(log, &reports(log))
    }

    /// Writes all four files. After an error in one file the others are still written, and the log
    /// can be written again.
    ///
    /// `reports` is what [`reports`] returned for this log.
    ///
    /// # Errors
    /// [`LogError::Write`] lists the complete and the incomplete files.
    pub fn write_reports(&mut self, log: &TestLog, reports: &[Report]) -> Result<(), LogError> {
        // The detail log is formatted in memory, because the summary needs its counts even if the
        // file cannot be written.
        let mut detail_text = Vec::new();
        let counts = detail::write(log, reports, &mut detail_text).expect("memory does not fail");
        let summary_text = summary::text(log, reports, counts);
        // A second call writes whole files.
        let head = std::mem::take(&mut self.head);
        let rest = detail_text.strip_prefix(&head[..]).filter(|_| !head.is_empty());
        let mut written = Vec::new();
        let mut failed = Vec::new();
        for (i, (path, file)) in self.files.iter_mut().enumerate() {
            // A reader that follows the detail log must not see it shrink.
            let rest = rest.filter(|_| i == 1 && ends_at(file, head.len() as u64));
            let begun = if rest.is_some() { Ok(()) } else { emptied(file) };
            let result = begun.and_then(|()| match i {
                0 => file.write_all(summary_text.as_bytes()),
                1 => file.write_all(rest.unwrap_or(&detail_text)),
                2 => Stream::overlapped(file).and_then(|out| accuracy::write(log, out)),
                _ if self.settings.enable_trace => {
                    Stream::overlapped(file).and_then(|out| trace::write(log, out))
                }
                _ => Ok(()),
            });
            match result {
                Ok(()) => written.push(path.clone()),
                Err(error) => failed.push(FailedFile::new(path, &error)),
            }
        }
        // A closed stdout is not an error.
        if self.settings.copy_detail_to_stdout {
            let _ = io::stdout().write_all(&detail_text);
        }
        if self.settings.copy_summary_to_stdout {
            let _ = io::stdout().write_all(summary_text.as_bytes());
        }
        if failed.is_empty() { Ok(()) } else { Err(LogError::Write { written, failed }) }
    }
}

/// Returns whether a file has this length and is written from there on. A process that was forked
/// during the test may have written to it. Other files than regular ones have no length.
fn ends_at(file: &mut File, length: u64) -> bool {
    match (file.metadata(), file.stream_position()) {
        (Ok(metadata), Ok(at)) if metadata.is_file() => metadata.len() == length && at == length,
        _ => true,
    }
}

/// Empties a file that was written before. Other files than regular ones cannot and need not be
/// emptied.
fn emptied(file: &mut File) -> io::Result<()> {
    if file.metadata()?.is_file() {
        file.set_len(0)?;
        file.rewind()?;
    }
    Ok(())
}

#[cfg(unix)]
fn free_bytes(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(not(unix))]
fn free_bytes(_folder: &Path) -> Option<u64> {
    None
}
