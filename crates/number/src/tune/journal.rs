//! The journal of a tuner: one line of JSON per evaluation, written at once. A tuner that is
//! started again asks for the same configurations and reads their evaluations from the journal.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

use serde_json::{Value, json};
use thiserror::Error;

use super::trial::{Evaluation, Subset, Trial, formats_json};
use crate::assignment::Assignment;
use crate::format::Format;

/// Evaluations of an earlier run, and the file to which further ones are written.
///
/// ```
/// use dyno_number::tune::Journal;
/// // Keeps nothing; `Journal::open` reads and writes a file.
/// let journal = Journal::disabled();
/// assert_eq!((journal.read, journal.skipped, journal.problem()), (0, 0, None));
/// ```
pub struct Journal {
    known: HashMap<(Subset, Vec<Format>), VecDeque<Evaluation>>,
    sink: Option<Box<dyn Write>>,
    // Lines that could not be written yet.
    unwritten: String,
    problem: Option<String>,
    /// Number of evaluations that were read.
    pub read: u64,
    /// Number of lines that could not be read. Their configurations are evaluated again.
    pub skipped: u64,
    is_torn: bool,
}

/// Error of opening a journal.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The file cannot be read or written.
    #[error("{0}")]
    Io(io::Error),
    /// Another process is writing it.
    #[error("another process is writing it")]
    InUse,
    /// The file is not a journal; holds its first characters.
    #[error("expected the journal of a tuner, found {0:?}")]
    NoJournal(String),
    /// It is the journal of another job; lists the differences.
    #[error("it is the journal of another job: {}", .0.join("; "))]
    Differs(Vec<String>),
}

const SCHEMA: &str = "dyno.tune.journal";

/// Rejects what is no regular file: a pipe would block the reader, and a device may have no end.
fn check_regular(about: &Metadata) -> Result<(), JournalError> {
    if about.is_file() {
        return Ok(());
    }
    Err(JournalError::Io(io::Error::other("expected a regular file")))
}

impl Journal {
    /// Returns a journal that stores nothing.
    pub fn disabled() -> Self {
        Self {
            known: HashMap::new(),
            sink: None,
            unwritten: String::new(),
            problem: None,
            read: 0,
            skipped: 0,
            is_torn: false,
        }
    }

    /// Opens or creates the journal of the job that `about` describes. `about` holds everything on
    /// which the job's decisions depend; see [`describe`](super::describe).
    ///
    /// # Errors
    /// The file cannot be read or written, another process is writing it, it is not a journal, or
    /// it is the journal of another job.
    pub fn open(path: &Path, about: &Value) -> Result<Self, JournalError> {
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .map_err(JournalError::Io)?;
        check_regular(&file.metadata().map_err(JournalError::Io)?)?;
        match file.try_lock() {
            Err(std::fs::TryLockError::WouldBlock) => return Err(JournalError::InUse),
            // Some file systems do not support locks.
            Err(std::fs::TryLockError::Error(_)) | Ok(()) => {}
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(JournalError::Io)?;
        let mut journal = Self::disabled();
        let text = String::from_utf8_lossy(&bytes);
        let head = json!({"schema": SCHEMA, "schema_version": 1, "about": about});
        if !text.contains('\n') && head.to_string().starts_with(&*text) {
            // A file with an incomplete first line contains no evaluation.
            file.set_len(0).map_err(JournalError::Io)?;
            journal.queue(&head);
        } else {
            journal.take(&text, about)?;
            journal.is_torn = !text.ends_with('\n');
        }
        journal.writing_to(file)
    }

    fn writing_to(mut self, file: File) -> Result<Self, JournalError> {
        self.sink = Some(Box::new(file));
        self.flush();
        match self.problem.take() {
            Some(problem) => Err(JournalError::Io(io::Error::other(problem))),
            None => Ok(self),
        }
    }

    /// Returns a journal without earlier evaluations that writes to `sink`.
    pub fn with_sink(sink: Box<dyn Write>) -> Self {
        Self { sink: Some(sink), ..Self::disabled() }
    }

    fn take(&mut self, text: &str, about: &Value) -> Result<(), JournalError> {
        let mut lines = text.lines();
        let head = lines.next().unwrap_or("");
        let none = || JournalError::NoJournal(head.chars().take(60).collect());
        let head: Value = serde_json::from_str(head).map_err(|_| none())?;
        if head["schema"] != SCHEMA || head["schema_version"] != 1 {
            return Err(none());
        }
        let differences = differences(&head["about"], about);
        if !differences.is_empty() {
            return Err(JournalError::Differs(differences));
        }
        for line in lines.filter(|line| !line.is_empty()) {
            match entry(line) {
                Some((key, evaluation)) => {
                    self.read += 1;
                    self.known.entry(key).or_default().push_back(evaluation);
                }
                None => self.skipped += 1,
            }
        }
        Ok(())
    }

    /// Takes evaluations from the journal of another search of the same network by the same samples. They are not
    /// written again. Bounds of accuracies are left out, because they decide only what that search asked. Returns how
    /// many were taken.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn import(&mut self, path: &Path) -> Result<u64, JournalError> {
        check_regular(&std::fs::metadata(path).map_err(JournalError::Io)?)?;
        let bytes = std::fs::read(path).map_err(JournalError::Io)?;
        let text = String::from_utf8_lossy(&bytes);
        let mut count = 0;
        let entries = text.lines().skip(1).filter_map(entry);
        for (key, evaluation) in entries.filter(|(_, evaluation)| !evaluation.is_bound) {
            self.known.entry(key).or_default().push_back(evaluation);
            count += 1;
        }
        Ok(count)
    }

    /// Iterates over configurations with the latency in ns that an earlier run measured.
    pub fn latencies(&self) -> impl Iterator<Item = (Vec<Format>, f64)> {
        self.known.iter().filter_map(|((_, formats), evaluations)| {
            let latency = evaluations.iter().find_map(|found| found.latency_ns)?;
            Some((formats.clone(), latency))
        })
    }

    /// Takes the next evaluation of this configuration that an earlier run recorded.
    pub(crate) fn recall(&mut self, subset: Subset, assignment: &Assignment) -> Option<Evaluation> {
        let answers = self.known.get_mut(&(subset, assignment.formats().to_vec()))?;
        answers.pop_front()
    }

    /// Writes an evaluation. If that fails, the line is kept and written together with the next
    /// one.
    pub(crate) fn add(&mut self, trial: &Trial, evaluation: &Evaluation) {
        if self.sink.is_none() {
            return;
        }
        let formats = trial.assignment.formats().iter().map(|format| Value::from(format.words()));
        let line = json!({
            "number": trial.number,
            "set": trial.subset,
            "slots": formats.collect::<Vec<_>>(),
            "formats": formats_json(&trial.assignment),
            "result": evaluation,
        });
        self.queue(&line);
        self.flush();
    }

    fn queue(&mut self, line: &Value) {
        self.unwritten.push_str(&line.to_string());
        self.unwritten.push('\n');
    }

    fn flush(&mut self) {
        let Some(sink) = &mut self.sink else { return };
        if self.is_torn {
            self.unwritten.insert(0, '\n');
            self.is_torn = false;
        }
        match sink.write_all(self.unwritten.as_bytes()).and_then(|()| sink.flush()) {
            Ok(()) => {
                self.unwritten.clear();
                self.problem = None;
            }
            Err(error) => {
                // A part of the lines may have been written.
                self.is_torn = true;
                self.problem = Some(error.to_string());
            }
        }
    }

    /// Returns why evaluations could not be written, if so.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Returns the lines that could not be written; empty if there are none.
    pub fn unwritten(&self) -> &str {
        &self.unwritten
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let read = self.read;
        let problem = &self.problem;
        f.debug_struct("Journal")
            .field("read", &read)
            .field("problem", problem)
            .finish_non_exhaustive()
    }
}

fn entry(line: &str) -> Option<((Subset, Vec<Format>), Evaluation)> {
    let line: Value = serde_json::from_str(line).ok()?;
    let subset: Subset = serde_json::from_value(line["set"].clone()).ok()?;
    let formats = line["slots"].as_array()?.iter().map(|words| {
        let words: Vec<&str> = words.as_str()?.split_whitespace().collect();
        Format::from_words(&words).ok()
    });
    let evaluation: Evaluation = serde_json::from_value(line["result"].clone()).ok()?;
    Some(((subset, formats.collect::<Option<_>>()?), evaluation))
}

/// Keys that the journals of earlier versions lack although their jobs had them.
const ADDED_LATER: [&str; 1] = ["files"];

/// Lists what differs between two descriptions, key by key. A key without a value is equal to none.
fn differences(old: &Value, new: &Value) -> Vec<String> {
    let (Some(olds), Some(news)) = (old.as_object(), new.as_object()) else {
        return if old == new { Vec::new() } else { vec![format!("was {old}, is {new}")] };
    };
    let keys = olds.keys().chain(news.keys().filter(|key| !olds.contains_key(*key)));
    let keys = keys.filter(|key| olds.contains_key(*key) || !ADDED_LATER.contains(&key.as_str()));
    let value = |map: &serde_json::Map<String, Value>, key: &str| {
        map.get(key).filter(|value| !value.is_null()).cloned()
    };
    keys.filter(|key| value(olds, key) != value(news, key))
        .flat_map(|key| difference(key, value(olds, key), value(news, key)))
        .collect()
}

/// Describes a key whose values differ. Equal parts of objects, and of lists of equal length, are left out.
fn difference(key: &str, old: Option<Value>, new: Option<Value>) -> Vec<String> {
    let text = |value: Option<Value>| match value {
        Some(value) => value.to_string(),
        // A job without restarts does not write their number.
        None if key == "restarts" => "0".to_owned(),
        None => "not set".to_owned(),
    };
    match (old, new) {
        (Some(old @ Value::Object(_)), Some(new @ Value::Object(_))) => {
            let parts = differences(&old, &new).into_iter();
            parts.map(|part| format!("{key}.{part}")).collect()
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) if old.len() == new.len() => {
            let pairs = old.into_iter().zip(new).filter(|(old, new)| old != new);
            let (old, new): (Vec<Value>, Vec<Value>) = pairs.unzip();
            vec![format!("{key} was {}, is {}", Value::Array(old), Value::Array(new))]
        }
        (old, new) => vec![format!("{key} was {}, is {}", text(old), text(new))],
    }
}
