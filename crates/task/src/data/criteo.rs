//! Click logs of Criteo as the reference prepares them, a sample being many pairs of user
//! and item: of DLRM one binary file, of DLRMv2 arrays of NumPy.
//!
//! Source: `criteo.py`, `multihot_criteo.py` and `data_loader_terabyte.py` of the
//! reference's recommendation benchmarks. Files are hundreds of gigabytes, so that a
//! sample is read where it lies, when it is loaded.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use dyno_loadgen::qsl::SampleIndex;
use dyno_sut::tensors::{ElementType, Elements, NpyHead, SampleTensor, Source};
use zip::{CompressionMethod, ZipArchive};

use super::aggregation::{Aggregation, write_trace};
use crate::card::Input;
use crate::files::{Files, Of, OpenError};
use crate::system::Samples;

/// Numerical features of a pair.
const DENSE: usize = 13;
/// Features of a pair that are categories.
const SPARSE: usize = 26;
/// Values of a pair in the binary file: its label, then both.
const VALUES: usize = 1 + DENSE + SPARSE;
/// Bytes of a value.
const BYTES: u64 = 4;
/// Categories count up to the largest table: `--max-ind-range` of the official model.
const LARGEST_TABLE: i32 = 40_000_000;
/// Pairs whose labels are compared. One in thirty is clicked, so that those of another day
/// differ in hundreds of them.
const LABELS: u64 = 1 << 12;
/// Headers of arrays are shorter.
const LONGEST_HEAD: u64 = 1 << 12;

/// Why a file is not the data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CriteoError {
    /// The file.
    pub path: PathBuf,
    /// What there should be.
    pub expected: String,
    /// What there is.
    pub found: String,
}

impl fmt::Display for CriteoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, expected, found } = self;
        write!(f, "{}: expected {expected}, found {found}", path.display())
    }
}

impl std::error::Error for CriteoError {}

/// Pairs put together to samples.
#[derive(Debug)]
pub struct Clicks {
    format: Format,
    /// Where samples begin, and where the last ends.
    starts: Vec<u64>,
    inputs: Vec<String>,
}

/// How pairs lie in files.
#[derive(Debug)]
enum Format {
    /// Of DLRM: 40 integers a pair.
    Binary(PathBuf),
    /// Of DLRMv2: numerical features, and rows of tables of each feature.
    Arrays { dense: Rows, sparse: Vec<Rows> },
}

/// An array of two dimensions in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rows {
    path: PathBuf,
    /// Of its first element.
    start: u64,
    width: usize,
}

/// The pairs of a task as its trace puts them together, and the trace for the judge where
/// it was made here.
///
/// # Errors
/// What is missing or wrong, and where.
pub(crate) fn read(
    files: &Files<'_>,
    samples: Samples,
) -> Result<(Clicks, BTreeMap<String, PathBuf>), OpenError> {
    let inputs = &files.card().data.inputs;
    let (format, pairs) = match samples {
        Samples::CriteoMultihot => {
            let width = inputs.last().and_then(|input| input.shape.last()).copied();
            arrays(&files.path("dense")?, &files.path("sparse")?, width.unwrap_or(SPARSE))
        }
        _ => binary(files.path("pairs")?),
    }
    .map_err(OpenError::content)?;
    if let Format::Binary(path) = &format {
        same_labels(path, pairs, &files.path("day_23")?).map_err(OpenError::content)?;
    }
    let path = files.path("trace")?;
    let aggregation = Aggregation::read(&path).map_err(OpenError::content)?;
    let starts = aggregation.starts(pairs).map_err(|end| {
        let (expected, found) = (format!("samples of {pairs} pairs"), format!("{end} pairs"));
        OpenError::content(CriteoError { path: path.clone(), expected, found })
    })?;
    let mut references = BTreeMap::new();
    if !matches!(aggregation, Aggregation::Trace(_)) {
        let of = format!("{aggregation:?} {pairs}");
        let made = files.made("trace", 1, Of::Text(&of), |file| {
            write_trace(&starts, file).map_err(OpenError::content)
        })?;
        references.insert("trace".to_owned(), made);
    }
    let inputs = inputs.iter().map(|Input { name, .. }| name.clone()).collect();
    Ok((Clicks { format, starts, inputs }, references))
}

fn unreadable(path: &Path) -> impl FnOnce(std::io::Error) -> CriteoError {
    let (path, expected) = (path.to_owned(), "a file that can be read".to_owned());
    |error| CriteoError { path, expected, found: error.to_string() }
}

/// The binary file with its count of pairs.
fn binary(path: PathBuf) -> Result<(Format, u64), CriteoError> {
    let bytes = std::fs::metadata(&path).map_err(unreadable(&path))?.len();
    let pair = VALUES as u64 * BYTES;
    if bytes == 0 || !bytes.is_multiple_of(pair) {
        let expected = format!("{pair} bytes for each pair");
        return Err(CriteoError { path, expected, found: format!("{bytes} bytes") });
    }
    Ok((Format::Binary(path), bytes / pair))
}

/// Holds the labels of the first pairs against those of the click logs, which the judge
/// takes: logs of another day would be a figure of nothing.
fn same_labels(path: &Path, pairs: u64, day: &Path) -> Result<(), CriteoError> {
    let count = pairs.min(LABELS) as usize;
    let rows = Rows { path: path.to_owned(), start: 0, width: VALUES };
    let bytes = rows.read(0, count)?;
    // Lines of the day are shorter than 64 KiB.
    let day_23 = File::open(day).map_err(unreadable(day))?.take(LABELS << 16);
    let lines = BufReader::new(day_23).split(b'\n');
    for ((pair, line), values) in (0..).zip(lines).zip(bytes.chunks_exact(VALUES * BYTES as usize))
    {
        let line = line.map_err(unreadable(day))?;
        // What is no label is told with its line by whoever reads all of them.
        let found = line.first().filter(|label| matches!(label, b'0' | b'1'));
        let of_pair = integers(values).next().unwrap_or_default();
        if let Some(found) = found.map(|label| i32::from(label - b'0'))
            && found != of_pair
        {
            return Err(CriteoError {
                path: day.to_owned(),
                expected: format!("the label {of_pair} of pair {pair} of {}", path.display()),
                found: found.to_string(),
            });
        }
    }
    Ok(())
}

/// The arrays with their count of pairs: the first half of the day is measured.
fn arrays(dense: &Path, sparse: &Path, width: usize) -> Result<(Format, u64), CriteoError> {
    let mut file = File::open(dense).map_err(unreadable(dense))?;
    let (pairs, dense) = rows(&mut file, dense, "", 0, ElementType::F32)?;
    let refused = |expected: &str, found: String| CriteoError {
        path: sparse.to_owned(),
        expected: expected.to_owned(),
        found,
    };
    let file = File::open(sparse).map_err(unreadable(sparse))?;
    let not_npz = |error: zip::result::ZipError| refused("an npz of 26 arrays", error.to_string());
    let mut archive = ZipArchive::new(file).map_err(not_npz)?;
    let mut file = File::open(sparse).map_err(unreadable(sparse))?;
    let mut features = Vec::new();
    for feature in 0..SPARSE {
        let name = format!("{feature}.npy");
        let entry = archive.by_name(&name).map_err(|error| refused(&name, error.to_string()))?;
        let start = entry.data_start().filter(|_| entry.compression() == CompressionMethod::Stored);
        let start = start.ok_or_else(|| {
            refused("arrays as numpy.savez writes them", format!("{name} compressed"))
        })?;
        let (count, found) = rows(&mut file, sparse, &name, start, ElementType::I32)?;
        if count != pairs {
            return Err(refused(
                &format!("{pairs} rows, as dense has"),
                format!("{count} in {name}"),
            ));
        }
        features.push(found);
    }
    let found: usize = features.iter().map(|rows| rows.width).sum();
    for (what, expected, found) in
        [("rows of tables", width, found), ("features", DENSE, dense.width)]
    {
        if expected != found {
            let path = if what == "features" { &dense.path } else { sparse };
            let expected = format!("{expected} {what} a pair");
            return Err(CriteoError { path: path.to_owned(), expected, found: found.to_string() });
        }
    }
    Ok((Format::Arrays { dense, sparse: features }, pairs.div_ceil(2)))
}

/// The array that begins there in a file, with its count of rows; all of them must be there.
fn rows(
    file: &mut File,
    path: &Path,
    name: &str,
    start: u64,
    element: ElementType,
) -> Result<(u64, Rows), CriteoError> {
    let refused = |expected: String, found: String| {
        let of = if name.is_empty() { String::new() } else { format!(" as {name}") };
        CriteoError { path: path.to_owned(), expected: format!("{expected}{of}"), found }
    };
    let mut head = Vec::new();
    let length = file.metadata().map_err(unreadable(path))?.len();
    file.seek(SeekFrom::Start(start)).map_err(unreadable(path))?;
    file.take(LONGEST_HEAD).read_to_end(&mut head).map_err(unreadable(path))?;
    let head = NpyHead::parse(&head);
    let head = head.map_err(|problem| refused("an array of NumPy".into(), problem.to_string()))?;
    let (count, width) = match head.shape[..] {
        [count, width] if head.element == element && width > 0 => (count as u64, width),
        _ => {
            let expected = format!("rows of {element}");
            return Err(refused(expected, format!("{} {:?}", head.element, head.shape)));
        }
    };
    let start = start + head.start as u64;
    let end = count.saturating_mul(width as u64 * BYTES).saturating_add(start);
    if end > length {
        return Err(refused(format!("{end} bytes at least"), length.to_string()));
    }
    Ok((count, Rows { path: path.to_owned(), start, width }))
}

impl Rows {
    /// Rows of bytes, four a value.
    fn read(&self, from: u64, count: usize) -> Result<Vec<u8>, CriteoError> {
        let row = self.width as u64 * BYTES;
        let mut file = File::open(&self.path).map_err(unreadable(&self.path))?;
        let at = SeekFrom::Start(self.start + from * row);
        file.seek(at).map_err(unreadable(&self.path))?;
        let mut bytes = vec![0; count * row as usize];
        file.read_exact(&mut bytes).map_err(unreadable(&self.path))?;
        Ok(bytes)
    }
}

fn integers(bytes: &[u8]) -> impl Iterator<Item = i32> {
    bytes.as_chunks().0.iter().map(|bytes| i32::from_le_bytes(*bytes))
}

impl Source for Clicks {
    fn name(&self) -> &str {
        "criteo"
    }

    fn count(&self) -> usize {
        self.starts.len() - 1
    }

    fn inputs(&self) -> &[String] {
        &self.inputs
    }

    fn sample(&self, index: SampleIndex) -> Result<Vec<SampleTensor>, String> {
        let at = index as usize;
        let (Some(&from), Some(&to)) = (self.starts.get(at), self.starts.get(at + 1)) else {
            return Err(format!("expected a sample below {}, found {index}", self.count()));
        };
        let count = (to - from) as usize;
        match &self.format {
            Format::Binary(path) => of_binary(path, from, count),
            Format::Arrays { dense, sparse } => of_arrays(dense, sparse, from, count),
        }
        .map_err(|error| error.to_string())
    }
}

/// Logarithms of numerical features, and as many offsets and rows of tables for each
/// category as there are pairs.
fn of_binary(path: &Path, from: u64, count: usize) -> Result<Vec<SampleTensor>, CriteoError> {
    let rows = Rows { path: path.to_owned(), start: 0, width: VALUES };
    let bytes = rows.read(from, count)?;
    let values: Vec<i32> = integers(&bytes).collect();
    for (pair, values) in (from..).zip(values.chunks_exact(VALUES)) {
        // A label of 0 or 1, features from 0: the reference raises those below.
        let wrong = values.iter().find(|value| **value < 0);
        if let Some(wrong) = wrong.or(values.first().filter(|label| **label > 1)) {
            let expected = "labels of 0 or 1 and features from 0".to_owned();
            let found = format!("{wrong} in pair {pair}");
            return Err(CriteoError { path: path.to_owned(), expected, found });
        }
    }
    let pairs = || values.chunks_exact(VALUES);
    let dense = pairs().flat_map(|pair| &pair[1..=DENSE]).map(|value| (*value as f32 + 1.0).ln());
    let dense: Vec<f32> = dense.collect();
    let offsets: Vec<i64> = (0..SPARSE).flat_map(|_| 0..count as i64).collect();
    let category = |feature: usize| {
        pairs().map(move |pair| i64::from(pair[1 + DENSE + feature] % LARGEST_TABLE))
    };
    let indices: Vec<i64> = (0..SPARSE).flat_map(category).collect();
    let of = |shape: [usize; 2], elements| SampleTensor { shape: shape.to_vec(), elements };
    Ok(vec![
        of([count, DENSE], Elements::F32(Cow::Owned(dense))),
        of([SPARSE, count], Elements::I64(Cow::Owned(offsets))),
        of([SPARSE, count], Elements::I64(Cow::Owned(indices))),
    ])
}

/// Numerical features, and the rows of tables of all features side by side.
fn of_arrays(
    dense: &Rows,
    sparse: &[Rows],
    from: u64,
    count: usize,
) -> Result<Vec<SampleTensor>, CriteoError> {
    let bytes = dense.read(from, count)?;
    let features = bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let width: usize = sparse.iter().map(|rows| rows.width).sum();
    let mut tables = vec![0; count * width];
    let mut at = 0;
    for rows in sparse {
        let bytes = rows.read(from, count)?;
        let found: Vec<i32> = integers(&bytes).collect();
        for (into, row) in tables.chunks_exact_mut(width).zip(found.chunks_exact(rows.width)) {
            into[at..at + rows.width].copy_from_slice(row);
        }
        at += rows.width;
    }
    let of = |width, elements| SampleTensor { shape: vec![count, width], elements };
    Ok(vec![
        of(dense.width, Elements::F32(Cow::Owned(features))),
        of(width, Elements::I32(Cow::Owned(tables))),
    ])
}
