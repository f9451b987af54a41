//! What is found in a run directory: everything that reads, and in sentences
//! what does not. Nothing that a disk can hold makes this panic.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::rebuilt;
use crate::records::{self, Records};
use crate::series;
use crate::summary::Run;
use crate::summary::{self, ReadError, State};

/// A run as its directory has it.
#[derive(Debug)]
pub struct Found {
    /// The directory that was read.
    pub path: PathBuf,
    /// The run, or what was left of it.
    pub run: Run,
    /// Its plots, or those that were left.
    pub series: series::Run,
    /// What is missing or damaged.
    pub missing: Vec<String>,
}

/// How deep run directories are looked for.
const DEPTH: usize = 6;

impl Found {
    /// Reads a run directory, or the unfinished one of a run that was killed.
    ///
    /// # Errors
    /// If nothing of a run is there; the sentences say what was tried.
    pub fn read(directory: &Path) -> Result<Self, Vec<String>> {
        let mut missing = Vec::new();
        let mut path = directory.to_path_buf();
        if !path.exists()
            && let Some(partial) = partial_of(directory)
        {
            missing.push(format!("{} is missing", directory.display()));
            path = partial;
        }
        if is_partial(&path) {
            missing.push(format!(
                "The run was ended before it was over: {} is what it left.",
                path.display()
            ));
        }
        if !path.is_dir() {
            missing.push(format!("{} is no folder", path.display()));
            return Err(missing);
        }
        let run = match Run::read(&path) {
            Ok(run) => run,
            Err(error) => {
                missing.push(format!("{error}."));
                let found = salvaged(&path, &error, &mut missing)
                    .or_else(|| rebuilt::run(&path, &mut missing));
                match found {
                    Some(run) => run,
                    None => {
                        missing.push(format!("{} holds no run", path.display()));
                        return Err(missing);
                    }
                }
            }
        };
        let series = match series::Run::read(&path) {
            Ok(series) => series,
            Err(error) => {
                missing.push(format!("{error}."));
                rebuilt::series(&path, &run, &mut missing)
            }
        };
        check_files(&path, &run, &mut missing);
        Ok(Self { path, run, series, missing })
    }

    /// What the run is called where there are several: its folder.
    pub fn label(&self) -> String {
        let name = self.path.file_name().map(|name| name.to_string_lossy().into_owned());
        name.unwrap_or_else(|| self.run.name.clone())
    }
}

/// The run directories at and below a path, in order of their names.
pub fn directories(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(path, DEPTH, &mut found);
    if found.is_empty() {
        found.push(path.to_path_buf());
    }
    found
}

fn collect(path: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    if path.join(summary::FILE).exists() || path.join(series::FILE).exists() || is_partial(path) {
        found.push(path.to_path_buf());
        return;
    }
    let Ok(entries) = fs::read_dir(path) else { return };
    let folders = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|t| t.is_dir()));
    let mut folders: Vec<PathBuf> = folders.map(|entry| entry.path()).collect();
    folders.sort();
    for folder in folders.iter().filter(|_| depth > 0) {
        collect(folder, depth - 1, found);
    }
}

/// Whether a folder is what a run writes to until it is over.
pub fn is_partial(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    name.is_some_and(|name| name.starts_with('.') && name.ends_with(".partial"))
}

/// Where a run that was killed left what it had written.
fn partial_of(directory: &Path) -> Option<PathBuf> {
    let name = directory.file_name()?.to_string_lossy();
    Some(directory.with_file_name(format!(".{name}.partial"))).filter(|path| path.is_dir())
}

/// The tests of a summary that is JSON, but not of the shape of this version.
fn salvaged(path: &Path, error: &ReadError, missing: &mut Vec<String>) -> Option<Run> {
    if matches!(error, ReadError::Missing { .. } | ReadError::Unreadable { .. }) {
        return None;
    }
    let text = fs::read(path.join(summary::FILE)).ok()?;
    let value: Value = serde_json::from_str(&String::from_utf8_lossy(&text)).ok()?;
    let mut run = rebuilt::empty(path);
    let text = |key: &str| value[key].as_str().map(str::to_string);
    run.name = text("name").unwrap_or(run.name);
    run.system = text("system").unwrap_or_default();
    run.profile = text("profile").unwrap_or_default();
    run.time = text("time").unwrap_or_default();
    run.started_at = text("started_at").unwrap_or_default();
    if let Ok(environment) = serde_json::from_value(value["environment"].clone()) {
        run.environment = environment;
    }
    for (number, test) in (1..).zip(value["tests"].as_array()?) {
        match serde_json::from_value(test.clone()) {
            Ok(test) => run.tests.push(test),
            Err(error) => missing.push(format!("Test {number} of summary.json: {error}.")),
        }
    }
    (!run.tests.is_empty()).then(|| {
        run.state = serde_json::from_value(value["state"].clone()).unwrap_or(State::Interrupted);
        run.verdict = "INCOMPLETE".into();
        run
    })
}

/// The files that each test must have left.
fn check_files(path: &Path, run: &Run, missing: &mut Vec<String>) {
    for test in &run.tests {
        let folder = path.join(&test.folder);
        if !folder.is_dir() {
            missing.push(format!("The folder {} of a test is missing.", test.folder));
            continue;
        }
        for log in ["mlperf_log_summary.txt", "mlperf_log_detail.txt"] {
            let name = format!("{}/{log}", test.folder);
            match last_byte(&folder.join(log)) {
                Err(error) => missing.push(format!("{name} does not read: {error}.")),
                Ok(None) => missing.push(format!("{name} is empty.")),
                Ok(Some(b'\n')) => {}
                Ok(Some(_)) => {
                    missing.push(format!("{name} is cut off: its last line has no end."));
                }
            }
        }
        let records = folder.join(records::FILE);
        if records.exists()
            && let Err(error) = Records::read(&records)
        {
            missing.push(format!("{error}."));
        }
    }
}

fn last_byte(path: &Path) -> io::Result<Option<u8>> {
    let mut file = File::open(path)?;
    if file.metadata()?.len() == 0 {
        return Ok(None);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(Some(last[0]))
}
