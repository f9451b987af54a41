//! Content of a run directory: what can be read, and sentences about what cannot. No file content
//! causes a panic.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::records::{self, Keep, Records};
use crate::series;
use crate::summary::{self, ReadError, Run, State, Test};
use dyno_loadgen::log::read::{
    Detail, LogReadProblem, open_accuracy, open_file, read_detail, read_summary,
};
use serde_json::Value;
use toml::de::DeTable;

use crate::contents_rebuilt as rebuilt;
use crate::effective::FILE as EFFECTIVE;
pub use rebuilt::INCOMPLETE;

/// Content of a run directory.
#[derive(Debug)]
pub struct Contents {
    /// Path of the directory that was read.
    pub path: PathBuf,
    /// Summary of the run, rebuilt from the logs if it is missing or damaged.
    pub run: Run,
    /// Plots, rebuilt from the raw records if they are missing or damaged.
    pub series: series::Run,
    /// Sentences about what is missing or damaged.
    pub missing: Vec<String>,
    /// Missing files, relative to the directory.
    pub absent: Vec<String>,
}

/// Depth to which run directories are searched.
const DEPTH: usize = 6;

impl Contents {
    /// Reads a run directory, or the partial directory of a killed run.
    ///
    /// # Errors
    /// If the directory holds no run; returns sentences about what was tried.
    pub fn read(directory: &Path) -> Result<Self, Vec<String>> {
        let mut missing = Vec::new();
        let mut path = directory.to_path_buf();
        if !path.exists()
            && let Some(partial) = partial_of(directory)
        {
            missing.push(format!("{} is missing.", directory.display()));
            path = partial;
        }
        if is_partial(&path) {
            missing.push(format!(
                "A run was stopped before its end; {} holds what remains of it.",
                path.display()
            ));
        }
        if !path.is_dir() {
            let problem = if path.exists() { "is not a folder" } else { "does not exist" };
            missing.push(format!("{} {problem}.", path.display()));
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
                        missing.push(format!("{} has no run.", path.display()));
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
        let absent = check_files(&path, &run, &mut missing);
        Ok(Self { path, run, series, missing, absent })
    }

    /// Returns the name of the folder, which labels the run among several.
    pub fn label(&self) -> String {
        let name = self.path.file_name().map(|name| name.to_string_lossy().into_owned());
        name.unwrap_or_else(|| self.run.name.clone())
    }
}

/// Returns the run directories at and below a path, sorted by name; the path itself if there are
/// none.
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

/// Returns whether a folder is the partial directory of an unfinished run, by its name.
pub fn is_partial(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    name.is_some_and(|name| name.starts_with('.') && name.ends_with(".partial"))
}

/// Returns the partial directory of a killed run, if it exists.
fn partial_of(directory: &Path) -> Option<PathBuf> {
    let name = directory.file_name()?.to_string_lossy();
    Some(directory.with_file_name(format!(".{name}.partial"))).filter(|path| path.is_dir())
}

/// Reads the tests of a summary that is valid JSON but does not match this version of the schema.
fn salvaged(path: &Path, error: &ReadError, missing: &mut Vec<String>) -> Option<Run> {
    if matches!(error, ReadError::Missing { .. } | ReadError::Unreadable { .. }) {
        return None;
    }
    let text = read(&path.join(summary::FILE)).ok()?;
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
        run.verdict = rebuilt::INCOMPLETE.into();
        run
    })
}

/// Checks the files of each test, and returns the missing ones.
fn check_files(path: &Path, run: &Run, missing: &mut Vec<String>) -> Vec<String> {
    let mut absent = Vec::new();
    let keeps_records = check_settings(path, missing);
    for file in [summary::FILE, series::FILE, EFFECTIVE] {
        absent.extend((!path.join(file).exists()).then(|| file.to_string()));
    }
    for test in &run.tests {
        let folder = path.join(&test.folder);
        if !folder.is_dir() {
            missing.push(format!("The folder {} of a test is missing.", test.folder));
        }
        // A test that was rebuilt from a folder of logs has no folder of its own.
        let below = match test.folder.as_str() {
            "" => String::new(),
            folder => format!("{folder}/"),
        };
        for (file, check) in LOGS {
            let (name, file) = (format!("{below}{file}"), folder.join(file));
            if !file.exists() {
                absent.push(name.clone());
            }
            // A missing folder is already reported.
            if folder.is_dir()
                && let Err(problem) = check(&file, test)
            {
                missing.push(format!("{name} {problem}."));
            }
        }
        let (name, file) = (format!("{below}{}", records::FILE), folder.join(records::FILE));
        if file.exists() {
            missing.extend(Records::read(&file).err().map(|error| format!("{error}.")));
        } else {
            if test.metrics.is_some() && keeps_records && folder.is_dir() {
                missing.push(format!("{name} is missing; the run has no raw records."));
            }
            absent.push(name);
        }
    }
    absent
}

/// Returns whether the run keeps raw records: true unless its settings disable them.
fn check_settings(path: &Path, missing: &mut Vec<String>) -> bool {
    let text = match open_file(&path.join(EFFECTIVE)).and_then(io::read_to_string) {
        Ok(text) => text,
        Err(error) => {
            // The file is written last, so a partial directory lacks it.
            if !is_partial(path) {
                missing.push(format!("{EFFECTIVE} {}.", unreadable(&error)));
            }
            return true;
        }
    };
    let parsed = DeTable::parse(&text);
    match parsed {
        Ok(table) => {
            let kept = table.get_ref().get("run").and_then(|run| run.get_ref().get("records"));
            kept.and_then(|kept| kept.get_ref().as_str()) != Some(Keep::Nothing.name())
        }
        Err(error) => {
            missing.push(format!("{EFFECTIVE} cannot be parsed: {}.", error.message()));
            true
        }
    }
}

/// Check of a log. The error is the end of a sentence.
type Check = fn(&Path, &Test) -> Result<(), String>;

/// Logs of each test, with their checks.
const LOGS: [(&str, Check); 3] = [
    ("mlperf_log_summary.txt", |path, _| {
        let text = text_of(path)?;
        first_of(&read_summary(&text).1)
    }),
    ("mlperf_log_detail.txt", |path, test| {
        let (detail, problems) = read_detail(&text_of(path)?);
        first_of(&problems)?;
        let last = match test.metrics {
            None => "power_end",
            Some(_) if counts_errors(&detail) => "num_errors",
            Some(_) => "result_validity",
        };
        if test.state == State::Complete && detail.value(last).is_none() {
            Err(format!("is cut off: it has no {last}"))
        } else {
            Ok(())
        }
    }),
    ("mlperf_log_accuracy.json", |path, _| {
        let log = open_accuracy(path).map_err(|error| unreadable(&error))?;
        let problem = log.filter_map(Result::err).next();
        first_of(problem.as_slice())
    }),
];

/// Whether a detail log ends with the number of its errors, as those of LoadGen 5.0 and later do.
fn counts_errors(detail: &Detail) -> bool {
    let version = detail.text("loadgen_version").unwrap_or_default();
    let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    major.is_none_or(|major| major >= 5)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_file(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn text_of(path: &Path) -> Result<String, String> {
    let bytes = read(path).map_err(|error| unreadable(&error))?;
    if bytes.is_empty() {
        Err("is empty".into())
    } else {
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn unreadable(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "is missing".into(),
        _ => format!("cannot be parsed: {error}"),
    }
}

fn first_of(problems: &[LogReadProblem]) -> Result<(), String> {
    problems.first().map_or(Ok(()), |problem| Err(format!("is damaged: {problem}")))
}
