//! What the files of a result say: each is read once, of each only what a check
//! asks for is kept.
//!
//! Nothing is judged here, and nothing is repaired: a line that does not read is a
//! fact like another.

pub mod detail;
pub mod endpoint;
pub mod json;
pub mod keys;
mod line;
pub mod text;

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufRead, BufReader};

use self::detail::DetailLog;
use self::endpoint::Endpoint;
use self::json::{JsonFile, JsonProblem};
use self::text::TextFile;
use super::entry::{Entry, Model, System};
use super::layout::{ACCURACY_TEXT, DETAIL, Layout};
use super::tree::Node;
use dyno_rules::Endpoints;
use dyno_rules::accuracy::{self, AccuracyText, Patterns};

/// Why there is nothing of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// There is no such file.
    Absent,
    /// It cannot be read.
    Unreadable {
        /// What the system said.
        why: String,
    },
}

/// A file up to this size is read at once, a longer one in parts.
const LONGEST_AT_ONCE: u64 = 1 << 20;
const PART: usize = 1 << 18;

/// Reads `accuracy.txt`, or another text of an accuracy script.
///
/// # Errors
/// There is no file, or it cannot be read.
pub fn read_accuracy(
    file: Option<Node<'_>>,
    patterns: &[accuracy::Pattern],
) -> Result<AccuracyText, Missing> {
    scanned(file, |mut text| accuracy::scan(&mut text, patterns))
}

/// What a scan makes of a file.
fn scanned<T>(
    file: Option<Node<'_>>,
    scan: impl FnOnce(&mut dyn BufRead) -> io::Result<T>,
) -> Result<T, Missing> {
    thread_local! {
        /// Thousands of logs go through the same memory, one after the other.
        static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    let file = file.ok_or(Missing::Absent)?;
    let said = if file.size() > LONGEST_AT_ONCE {
        let opened = File::open(file.absolute());
        opened.and_then(|opened| scan(&mut BufReader::with_capacity(PART, opened)))
    } else {
        BUFFER.with_borrow_mut(|buffer| scan(&mut file.read(LONGEST_AT_ONCE, buffer)?))
    };
    said.map_err(|error| Missing::Unreadable { why: error.to_string() })
}

/// What the files of a result say.
#[derive(Debug)]
pub struct Facts<'t> {
    /// Detail log of the performance run.
    pub performance: Result<DetailLog, Missing>,
    /// SHA-1 of that log, where power was measured.
    pub performance_sha1: Option<String>,
    /// Detail log of the accuracy run.
    pub accuracy: Result<DetailLog, Missing>,
    /// `accuracy.txt`.
    pub accuracy_text: Result<AccuracyText, Missing>,
    /// The file that describes the measurement.
    pub measurement: Option<Measurement<'t>>,
    /// Audits, by name.
    pub audits: Vec<Audit<'t>>,
    /// What the client of an endpoint says, where neither run has a log of LoadGen.
    pub endpoint: Option<Endpoint>,
}

/// The file that describes a measurement.
#[derive(Debug)]
pub struct Measurement<'t> {
    /// The file.
    pub file: Node<'t>,
    /// Its content.
    pub json: Result<JsonFile, JsonProblem>,
}

/// What the files of an audit say.
#[derive(Debug)]
pub struct Audit<'t> {
    /// Name, such as `TEST01`.
    pub name: String,
    /// Its folder.
    pub folder: Node<'t>,
    /// Detail log of its performance run.
    pub performance: Result<DetailLog, Missing>,
    /// `verify_accuracy.txt`.
    pub verify_accuracy: Result<TextFile, Missing>,
    /// `verify_performance.txt`.
    pub verify_performance: Result<TextFile, Missing>,
    /// `verify_output_len.txt`.
    pub verify_output_length: Result<TextFile, Missing>,
    /// `accuracy/baseline_accuracy.txt`.
    pub baseline_accuracy: Result<AccuracyText, Missing>,
    /// `accuracy/compliance_accuracy.txt`.
    pub compliance_accuracy: Result<AccuracyText, Missing>,
}

impl<'t> Facts<'t> {
    /// Reads the files of a result.
    #[must_use]
    pub fn read(
        layout: Layout,
        system: &System<'t>,
        model: &Model<'t>,
        entry: &Entry<'t>,
        patterns: &Patterns,
        endpoints: Option<&Endpoints>,
    ) -> Self {
        let metrics = patterns.for_benchmark(model.benchmark);
        let run = entry.run().and_then(|run| run.file(DETAIL));
        let accuracy = entry.accuracy();
        let logs = [run, accuracy.and_then(|folder| folder.file(DETAIL))];
        let (performance, performance_sha1) = match entry.power() {
            None => (detail::read(logs[0]), None),
            Some(_) => match detail::read_hashed(logs[0]) {
                Ok((log, sha1)) => (Ok(log), Some(sha1)),
                Err(missing) => (Err(missing), None),
            },
        };
        let endpoint = endpoints.filter(|_| logs == [None, None]);
        Self {
            endpoint: endpoint.map(|endpoints| Endpoint::read(entry.folder, endpoints)),
            performance,
            performance_sha1,
            accuracy: detail::read(logs[1]),
            accuracy_text: read_accuracy(
                accuracy.and_then(|folder| folder.file(ACCURACY_TEXT)),
                metrics,
            ),
            measurement: measurement(layout, system, entry),
            audits: entry.audits().map(|folder| audit(folder, metrics)).collect(),
        }
    }

    /// The audit of that name.
    #[must_use]
    pub fn audit(&self, name: &str) -> Option<&Audit<'t>> {
        self.audits.iter().find(|audit| audit.name == name)
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

/// Up to v5.1 the file begins with the name of the system, and may end with the
/// implementation and the scenario.
fn measurement<'t>(
    layout: Layout,
    system: &System<'t>,
    entry: &Entry<'t>,
) -> Option<Measurement<'t>> {
    let folder = entry.measurements?;
    let file = match layout {
        Layout::Together => folder.file("measurements.json")?,
        Layout::First | Layout::Apart => folder.files().find(|file| {
            let name = file.text();
            name.starts_with(&system.name) && name.ends_with(".json")
        })?,
    };
    Some(Measurement { file, json: json::read(file) })
}
