//! Content of the files of a result. Each file is read once, and only what checks need is
//! stored.
//!
//! This module neither judges nor repairs: it records malformed lines like any other content.

pub mod detail;
pub mod endpoint;
pub mod json;
pub mod keys;
mod line;
pub mod loadgen;
mod plain;
pub mod text;

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};

use self::detail::DetailLog;
use self::endpoint::Endpoint;
use self::json::{JsonFile, JsonProblem};
use self::text::TextFile;
use super::entry::{Entry, Model, System};
use super::layout::{ACCURACY_TEXT, DETAIL, Layout};
use super::tree::Node;
use dyno_rules::Endpoints;
use dyno_rules::accuracy::{self, AccuracyText, Patterns};

/// Error: a file could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadError {
    /// There is no such file.
    Absent,
    /// It cannot be read.
    Unreadable {
        /// Error of the operating system.
        why: String,
    },
}

/// Files up to this size, in bytes, are read at once; larger files in parts.
const LONGEST_AT_ONCE: u64 = 1 << 20;
const PART: usize = 1 << 18;

/// Files up to this size, in bytes, are read. Logs of runs have a few MB, and no file of a submission may
/// have more than 50 MB.
const LONGEST: u64 = 512 << 20;

/// Reads `accuracy.txt` or another output of an accuracy script.
///
/// # Errors
/// Fails if the file does not exist or cannot be read.
pub(crate) fn read_accuracy(
    file: Option<Node<'_>>,
    patterns: &[accuracy::Pattern],
) -> Result<AccuracyText, ReadError> {
    scan_file(file, |mut text| accuracy::scan(&mut text, patterns))
}

/// Opens a file and scans it.
fn scan_file<T>(
    file: Option<Node<'_>>,
    scan: impl FnOnce(&mut dyn BufRead) -> io::Result<T>,
) -> Result<T, ReadError> {
    thread_local! {
        /// Reused for thousands of logs.
        static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    let file = file.ok_or(ReadError::Absent)?;
    if file.size() > LONGEST {
        let why = format!("has {} bytes, expected at most {LONGEST}", file.size());
        return Err(ReadError::Unreadable { why });
    }
    let content = if file.size() > LONGEST_AT_ONCE {
        let opened = File::open(file.absolute());
        opened.and_then(|opened| scan(&mut BufReader::with_capacity(PART, opened.take(LONGEST))))
    } else {
        BUFFER.with_borrow_mut(|buffer| scan(&mut file.read(LONGEST_AT_ONCE, buffer)?))
    };
    content.map_err(|error| ReadError::Unreadable { why: error.to_string() })
}

/// Content of the files of a result.
#[derive(Debug)]
pub struct Facts<'t> {
    /// Detail log of the performance run.
    pub performance: Result<DetailLog, ReadError>,
    /// SHA-1 of that log, if power was measured.
    pub performance_sha1: Option<String>,
    /// Detail log of the accuracy run.
    pub accuracy: Result<DetailLog, ReadError>,
    /// Content of `accuracy.txt`.
    pub accuracy_text: Result<AccuracyText, ReadError>,
    /// The file that describes the measurement.
    pub measurement: Option<MeasurementFile<'t>>,
    /// Audits, in the order of their folders.
    pub audits: Vec<Audit<'t>>,
    /// Files of an endpoint's client, if neither run has a LoadGen log.
    pub endpoint: Option<Endpoint>,
}

/// File that describes the measurement.
#[derive(Debug)]
pub struct MeasurementFile<'t> {
    /// The file.
    pub file: Node<'t>,
    /// Its content.
    pub json: Result<JsonFile, JsonProblem>,
}

/// Content of the files of an audit.
#[derive(Debug)]
pub struct Audit<'t> {
    /// Name, such as `TEST01`.
    pub name: String,
    /// Its folder.
    pub folder: Node<'t>,
    /// Detail log of the performance run of the audit.
    pub performance: Result<DetailLog, ReadError>,
    /// `verify_accuracy.txt`.
    pub verify_accuracy: Result<TextFile, ReadError>,
    /// `verify_performance.txt`.
    pub verify_performance: Result<TextFile, ReadError>,
    /// `verify_output_len.txt`.
    pub verify_output_length: Result<TextFile, ReadError>,
    /// `accuracy/baseline_accuracy.txt`.
    pub baseline_accuracy: Result<AccuracyText, ReadError>,
    /// `accuracy/compliance_accuracy.txt`.
    pub compliance_accuracy: Result<AccuracyText, ReadError>,
}

impl<'t> Facts<'t> {
    /// Reads the files of a result.
    pub fn read(
        layout: Layout,
        system: &System<'t>,
        model: &Model<'t>,
        entry: &Entry<'t>,
        patterns: &Patterns,
        endpoints: Option<&Endpoints>,
    ) -> Self {
        let log = entry.accuracy().and_then(|folder| folder.file(DETAIL));
        // A result with a log is not one of an endpoint.
        let endpoints = endpoints.filter(|_| log.is_none());
        let metrics = patterns.for_benchmark(model.benchmark);
        Self {
            accuracy: detail::read(log),
            audits: entry.audits().map(|folder| audit(folder, metrics)).collect(),
            ..Self::read_result(layout, system, model, entry, patterns, endpoints)
        }
    }

    /// Reads the files of a result that its row needs: neither the log of the accuracy run nor
    /// audits.
    #[must_use]
    pub fn read_result(
        layout: Layout,
        system: &System<'t>,
        model: &Model<'t>,
        entry: &Entry<'t>,
        patterns: &Patterns,
        endpoints: Option<&Endpoints>,
    ) -> Self {
        let log = entry.run().and_then(|run| run.file(DETAIL));
        let (performance, performance_sha1) = performance(log, entry);
        let endpoint = endpoints.filter(|_| log.is_none());
        let text = entry.accuracy().and_then(|folder| folder.file(ACCURACY_TEXT));
        Self {
            endpoint: endpoint.map(|endpoints| Endpoint::read(entry.folder, endpoints)),
            performance,
            performance_sha1,
            accuracy: Err(ReadError::Absent),
            accuracy_text: read_accuracy(text, patterns.for_benchmark(model.benchmark)),
            measurement: measurement(layout, system, entry),
            audits: Vec::new(),
        }
    }

    /// Reads the description of the measurement again if the operating system lists another file
    /// first, which the official checkers take.
    pub(crate) fn take_first_listed_measurement(&mut self, system: &System<'t>, entry: &Entry<'t>) {
        let Some(folder) = entry.measurements else { return };
        let first = descriptions(system, folder).min_by_key(|file| file.position());
        let known = self.measurement.as_ref().map(|found| found.file.position());
        if let Some(file) = first.filter(|file| known != Some(file.position())) {
            self.measurement = Some(MeasurementFile { file, json: json::read(file) });
        }
    }

    /// Returns the audit with this name.
    pub fn audit(&self, name: &str) -> Option<&Audit<'t>> {
        self.audits.iter().find(|audit| audit.name == name)
    }
}

/// Reads the detail log of the performance run, with its SHA-1 if power was measured.
fn performance(
    log: Option<Node<'_>>,
    entry: &Entry<'_>,
) -> (Result<DetailLog, ReadError>, Option<String>) {
    match entry.power() {
        None => (detail::read(log), None),
        Some(_) => match detail::read_hashed(log) {
            Ok((log, sha1)) => (Ok(log), Some(sha1)),
            Err(missing) => (Err(missing), None),
        },
    }
}

fn audit<'t>(folder: Node<'t>, metrics: &[accuracy::Pattern]) -> Audit<'t> {
    Audit {
        name: folder.text().into_owned(),
        folder,
        performance: detail::read(folder.file(format!("performance/run_1/{DETAIL}"))),
        verify_accuracy: text::read(folder.file("verify_accuracy.txt")),
        verify_performance: text::read(folder.file("verify_performance.txt")),
        verify_output_length: text::read(folder.file("verify_output_len.txt")),
        baseline_accuracy: read_accuracy(folder.file("accuracy/baseline_accuracy.txt"), metrics),
        compliance_accuracy: read_accuracy(
            folder.file("accuracy/compliance_accuracy.txt"),
            metrics,
        ),
    }
}

/// Returns the measurement file. Up to v5.1 its name starts with the name of the system and may
/// end with the implementation and the scenario.
fn measurement<'t>(
    layout: Layout,
    system: &System<'t>,
    entry: &Entry<'t>,
) -> Option<MeasurementFile<'t>> {
    let folder = entry.measurements?;
    let file = match layout {
        Layout::Together => folder.file("measurements.json")?,
        Layout::First | Layout::Apart => descriptions(system, folder).next()?,
    };
    Some(MeasurementFile { file, json: json::read(file) })
}

/// Returns the files that may describe a measurement up to v5.1, by name.
fn descriptions<'a, 't>(
    system: &'a System<'t>,
    folder: Node<'t>,
) -> impl Iterator<Item = Node<'t>> + use<'a, 't> {
    folder.files().filter(move |file| {
        let name = file.text();
        name.starts_with(&system.name) && name.ends_with(".json")
    })
}
