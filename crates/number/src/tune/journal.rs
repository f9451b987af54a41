//! The journal of a tuner: a line of JSON an evaluation, written as soon as it is there. Whoever has it
//! need not evaluate again: the same tuner asks the same questions.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

use serde_json::{Value, json};

use super::trial::{Evaluation, Subset, Trial, formats_json};
use crate::assignment::Assignment;
use crate::format::Format;

/// Evaluations that were written down, and where further ones go.
pub struct Journal {
    known: HashMap<(Subset, Vec<Format>), VecDeque<Evaluation>>,
    sink: Option<Box<dyn Write>>,
    // what could not be written yet
    held: String,
    problem: Option<String>,
    /// Evaluations that were read.
    pub read: u64,
    /// Lines that could not be read: their evaluations are made again.
    pub skipped: u64,
    is_torn: bool,
}

/// A journal that cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum JournalError {
    /// It cannot be read or written.
    Io(io::Error),
    /// Another process writes it.
    InUse,
    /// It is none.
    NoJournal(String),
    /// It is that of something else: what differs.
    Differs(Vec<String>),
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::InUse => f.write_str("another process is writing it"),
            Self::NoJournal(found) => write!(f, "expected the journal of a tuner, found {found:?}"),
            Self::Differs(all) => write!(f, "it is the journal of another job: {}", all.join("; ")),
        }
    }
}

impl std::error::Error for JournalError {}

const SCHEMA: &str = "dyno.tune.journal";

impl Journal {
    /// Nothing is kept.
    #[must_use]
    pub fn none() -> Self {
        Self {
            known: HashMap::new(),
            sink: None,
            held: String::new(),
            problem: None,
            read: 0,
            skipped: 0,
            is_torn: false,
        }
    }

    /// Opens or begins the journal of the job that `about` describes: whatever its decisions depend on.
    ///
    /// # Errors
    /// The file cannot be read or written, another process writes it, it is none, or it is that of another job.
    pub fn open(path: &Path, about: &Value) -> Result<Self, JournalError> {
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .map_err(JournalError::Io)?;
        match file.try_lock() {
            Err(std::fs::TryLockError::WouldBlock) => return Err(JournalError::InUse),
            // Not every file system can.
            Err(std::fs::TryLockError::Error(_)) | Ok(()) => {}
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(JournalError::Io)?;
        let mut journal = Self::none();
        let text = String::from_utf8_lossy(&bytes);
        let head = json!({"schema": SCHEMA, "schema_version": 1, "about": about});
        if !text.contains('\n') && head.to_string().starts_with(&*text) {
            // A head that was torn is no evaluation lost.
            file.set_len(0).map_err(JournalError::Io)?;
            journal.hold(&head);
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

    /// Writes to this instead of a file, and knows nothing.
    #[must_use]
    pub fn to(sink: Box<dyn Write>) -> Self {
        Self { sink: Some(sink), ..Self::none() }
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

    /// What an earlier run measured of configurations, slot by slot: their latencies in ns.
    pub fn latencies(&self) -> impl Iterator<Item = (Vec<Format>, f64)> {
        self.known.iter().filter_map(|((_, formats), evaluations)| {
            let latency = evaluations.iter().find_map(|found| found.latency_ns)?;
            Some((formats.clone(), latency))
        })
    }

    /// What an earlier run had as the next answer to this question.
    pub(crate) fn recall(&mut self, subset: Subset, assignment: &Assignment) -> Option<Evaluation> {
        let answers = self.known.get_mut(&(subset, assignment.formats().to_vec()))?;
        answers.pop_front()
    }

    /// Writes down an evaluation. What cannot be written is held, and written with the next one.
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
        self.hold(&line);
        self.flush();
    }

    fn hold(&mut self, line: &Value) {
        self.held.push_str(&line.to_string());
        self.held.push('\n');
    }

    fn flush(&mut self) {
        let Some(sink) = &mut self.sink else { return };
        if self.is_torn {
            self.held.insert(0, '\n');
            self.is_torn = false;
        }
        match sink.write_all(self.held.as_bytes()).and_then(|()| sink.flush()) {
            Ok(()) => {
                self.held.clear();
                self.problem = None;
            }
            Err(error) => {
                // A part of it may stand there.
                self.is_torn = true;
                self.problem = Some(error.to_string());
            }
        }
    }

    /// Why evaluations are held that should be written.
    #[must_use]
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Lines that could not be written; empty if all were.
    #[must_use]
    pub fn held(&self) -> &str {
        &self.held
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (read, problem) = (self.read, &self.problem);
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

/// What differs between two descriptions, key by key.
fn differences(old: &Value, new: &Value) -> Vec<String> {
    let (Some(olds), Some(news)) = (old.as_object(), new.as_object()) else {
        return if old == new { Vec::new() } else { vec![format!("was {old}, is {new}")] };
    };
    let shown = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
    let keys = olds.keys().chain(news.keys().filter(|key| !olds.contains_key(*key)));
    keys.filter(|key| olds.get(*key) != news.get(*key))
        .map(|key| format!("{key} was {}, is {}", shown(olds.get(key)), shown(news.get(key))))
        .collect()
}
