//! Click logs of Criteo as the reference prepares them: one binary file for DLRM, NumPy arrays for
//! DLRMv2. A sample consists of many user-item pairs.
//!
//! Source: `criteo.py`, `multihot_criteo.py` and `data_loader_terabyte.py` of the reference's
//! recommendation benchmarks. Files are hundreds of gigabytes, so samples are read from disk when
//! they are loaded.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use dyno_loadgen::qsl::SampleIndex;
use dyno_sut::tensors::{Element, Elements, SampleTensor, Source};
use dyno_tensors::files;
use dyno_tensors::npy::{Header, NpyError};
use zip::{CompressionMethod, ZipArchive};

use super::FileError;
use super::aggregation::{Aggregation, write_trace};
use crate::card::Input;
use crate::files::{CacheKey, Files, OpenError};
use crate::system::Samples;

/// Numerical features of a pair.
const DENSE: usize = 13;
/// Categorical features of a pair.
const SPARSE: usize = 26;
/// Values of a pair in the binary file: its label, then both kinds of features.
const VALUES: usize = 1 + DENSE + SPARSE;
/// Bytes of a value.
const BYTES: u64 = 4;
/// Categories are folded to the size of the largest table: `--max-ind-range` of the official model.
const LARGEST_TABLE: i32 = 40_000_000;
/// Pairs that are compared with the click logs. One in thirty is clicked, so the labels of another
/// day differ in hundreds of them.
const COMPARED: u64 = 1 << 12;
/// Samples of up to this many pairs share the offsets of their size. Offsets are half of the memory
/// of a DLRM sample; those of the trace's 601 sizes take 50 MB.
const SHARED: usize = 1 << 10;
/// Upper bound of the length of a NumPy header, in bytes.
const LONGEST_HEAD: u64 = 1 << 12;

/// User-item pairs, aggregated to samples.
#[derive(Debug)]
pub struct ClickLog {
    format: ClickFormat,
    /// Starts of the samples, and the end of the last.
    starts: Vec<u64>,
    inputs: Vec<String>,
}

/// File format of the pairs.
#[derive(Debug)]
enum ClickFormat {
    /// DLRM's: 40 integers per pair.
    Binary(PathBuf),
    /// DLRMv2's: the numerical features, and for each categorical feature the rows of its table.
    Arrays { dense: ArrayRows, sparse: Vec<ArrayRows> },
}

/// A two-dimensional array in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ArrayRows {
    path: PathBuf,
    /// Offset of the first element, in bytes.
    start: u64,
    width: usize,
}

/// Opens the pairs of a task, aggregated by its trace. Also returns the trace for the judge if it
/// was derived here.
///
/// # Errors
/// A file is missing or wrong; the error names it.
pub(crate) fn read(
    files: &Files<'_>,
    samples: Samples,
) -> Result<(ClickLog, BTreeMap<String, PathBuf>), OpenError> {
    let inputs = &files.card().data.inputs;
    let (format, pairs) = match samples {
        Samples::CriteoMultihot => {
            let width = inputs.last().and_then(|input| input.shape.last()).copied();
            arrays(&files.path("dense")?, &files.path("sparse")?, width.unwrap_or(SPARSE))
        }
        _ => binary(files.path("pairs")?),
    }
    .map_err(OpenError::content)?;
    let day = files.path("day_23")?;
    match &format {
        ClickFormat::Binary(path) => check_labels(path, pairs, &day),
        ClickFormat::Arrays { dense, .. } => check_features(dense, pairs, &day),
    }
    .map_err(OpenError::content)?;
    let path = files.path("trace")?;
    let aggregation = Aggregation::read(&path).map_err(OpenError::content)?;
    let starts = aggregation.starts(pairs).map_err(|end| {
        let expected = format!("samples of {pairs} pairs");
        OpenError::content(FileError::new(&path, expected, format!("{end} pairs")))
    })?;
    let mut references = BTreeMap::new();
    if !matches!(aggregation, Aggregation::Trace(_)) {
        let key = format!("{aggregation:?} {pairs}");
        let made = files.derive("trace", 1, CacheKey::Text(&key), |file| {
            write_trace(&starts, file).map_err(OpenError::content)
        })?;
        references.insert("trace".to_owned(), made);
    }
    let inputs = inputs.iter().map(|Input { name, .. }| name.clone()).collect();
    Ok((ClickLog { format, starts, inputs }, references))
}

/// Returns the format of a binary file and its number of pairs.
fn binary(path: PathBuf) -> Result<(ClickFormat, u64), FileError> {
    let bytes = std::fs::metadata(&path).map_err(FileError::unreadable(&path))?.len();
    let pair = VALUES as u64 * BYTES;
    if bytes == 0 || !bytes.is_multiple_of(pair) {
        let expected = format!("{pair} bytes for each pair");
        return Err(FileError::new(&path, expected, format!("{bytes} bytes")));
    }
    Ok((ClickFormat::Binary(path), bytes / pair))
}

/// Returns the first lines of the click logs.
fn first_lines(day: &Path) -> Result<impl Iterator<Item = Result<Vec<u8>, FileError>>, FileError> {
    // Lines are shorter than 64 KiB.
    let day_23 = files::open(day).map_err(FileError::unreadable(day))?.take(COMPARED << 16);
    let lines = BufReader::new(day_23).split(b'\n');
    Ok(lines.map(|line| line.map_err(FileError::unreadable(day))))
}

/// Compares the labels of the first pairs with the click logs that the judge reads: logs of another
/// day would give a meaningless figure.
fn check_labels(path: &Path, pairs: u64, day: &Path) -> Result<(), FileError> {
    let rows = ArrayRows { path: path.to_owned(), start: 0, width: VALUES };
    let bytes = rows.read(0, pairs.min(COMPARED) as usize)?;
    let all = bytes.chunks_exact(VALUES * BYTES as usize);
    for ((pair, line), values) in (0..).zip(first_lines(day)?).zip(all) {
        let line = line?;
        // The judge reports malformed labels with their line.
        let found = line.first().filter(|label| matches!(label, b'0' | b'1'));
        let of_pair = integers(values).next().unwrap_or_default();
        if let Some(found) = found.map(|label| i32::from(label - b'0'))
            && found != of_pair
        {
            let expected = format!("the label {of_pair} of pair {pair} of {}", path.display());
            return Err(FileError::new(day, expected, found));
        }
    }
    Ok(())
}

/// Compares the numerical features of the first pairs with the click logs: DLRMv2's arrays have no
/// labels, and the features are logarithms of those of the logs plus three.
fn check_features(dense: &ArrayRows, pairs: u64, day: &Path) -> Result<(), FileError> {
    let bytes = dense.read(0, pairs.min(COMPARED) as usize)?;
    let all = bytes.chunks_exact(DENSE * BYTES as usize);
    for ((pair, line), values) in (0..).zip(first_lines(day)?).zip(all) {
        let line = line?;
        // The label precedes the features; a missing feature is 0.
        let numbers = line.split(|byte| *byte == b'\t').skip(1).map(|number| {
            str::from_utf8(number).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0_i32)
        });
        for ((feature, number), found) in (1..).zip(numbers).zip(floats(values)) {
            let expected = (number as f32 + 3.0).ln();
            // Implementations of the logarithm differ in the last digits. Values of -3 and below
            // have none.
            let is_near = (expected - found).abs() <= 1e-4 * expected.abs().max(1.0);
            if expected.is_finite() && !is_near {
                let day = day.display();
                let of_day = format!("the logarithm of {number} + 3 of line {} of {day}", pair + 1);
                let expected = format!("{expected} as feature {feature} of pair {pair}, {of_day}");
                return Err(FileError::new(&dense.path, expected, found));
            }
        }
    }
    Ok(())
}

/// Returns the format of the arrays and the number of pairs that are measured: the first half of
/// the day.
fn arrays(dense: &Path, sparse: &Path, width: usize) -> Result<(ClickFormat, u64), FileError> {
    let mut file = files::open(dense).map_err(FileError::unreadable(dense))?;
    let (pairs, dense) = rows(&mut file, dense, "", 0, Element::F32)?;
    let refused = |expected: &str, found: String| FileError::new(sparse, expected, found);
    let file = files::open(sparse).map_err(FileError::unreadable(sparse))?;
    let not_npz = |error: zip::result::ZipError| refused("an npz of 26 arrays", error.to_string());
    let mut archive = ZipArchive::new(file).map_err(not_npz)?;
    let mut file = files::open(sparse).map_err(FileError::unreadable(sparse))?;
    let mut features = Vec::new();
    for feature in 0..SPARSE {
        let name = format!("{feature}.npy");
        let entry = archive.by_name(&name).map_err(|error| refused(&name, error.to_string()))?;
        let start = entry.data_start().filter(|_| entry.compression() == CompressionMethod::Stored);
        let start = start.ok_or_else(|| {
            refused("arrays as numpy.savez writes them", format!("{name} compressed"))
        })?;
        let (count, found) = rows(&mut file, sparse, &name, start, Element::I32)?;
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
            return Err(FileError::new(path, expected, found));
        }
    }
    Ok((ClickFormat::Arrays { dense, sparse: features }, pairs.div_ceil(2)))
}

/// Returns the number of rows and the array that begins at `start` in a file; all rows must be
/// there.
fn rows(
    file: &mut File,
    path: &Path,
    name: &str,
    start: u64,
    element: Element,
) -> Result<(u64, ArrayRows), FileError> {
    let refused = |expected: String, found: String| {
        let suffix = if name.is_empty() { String::new() } else { format!(" as {name}") };
        FileError::new(path, format!("{expected}{suffix}"), found)
    };
    let mut head = Vec::new();
    let length = file.metadata().map_err(FileError::unreadable(path))?.len();
    file.seek(SeekFrom::Start(start)).map_err(FileError::unreadable(path))?;
    file.take(LONGEST_HEAD).read_to_end(&mut head).map_err(FileError::unreadable(path))?;
    let wrong = |problem: NpyError| refused("an array of NumPy".into(), problem.to_string());
    let head = Header::parse(&head).map_err(wrong)?;
    let found = head.row_major_element().map_err(wrong)?;
    let (count, width) = match head.shape[..] {
        [count, width] if found == element && count > 0 && width > 0 => (count as u64, width),
        _ => {
            let expected = format!("rows of {element}");
            return Err(refused(expected, format!("{} {:?}", found, head.shape)));
        }
    };
    let start = start + head.start as u64;
    let row = (width as u64).saturating_mul(BYTES);
    let end = count.saturating_mul(row).saturating_add(start);
    if end > length {
        return Err(refused(format!("{end} bytes at least"), length.to_string()));
    }
    Ok((count, ArrayRows { path: path.to_owned(), start, width }))
}

impl ArrayRows {
    /// Reads `count` rows as bytes, four per value.
    fn read(&self, from: u64, count: usize) -> Result<Vec<u8>, FileError> {
        let row = self.width as u64 * BYTES;
        let mut file = files::open(&self.path).map_err(FileError::unreadable(&self.path))?;
        let at = SeekFrom::Start(self.start + from * row);
        file.seek(at).map_err(FileError::unreadable(&self.path))?;
        let mut bytes = vec![0; count * row as usize];
        file.read_exact(&mut bytes).map_err(FileError::unreadable(&self.path))?;
        Ok(bytes)
    }
}

fn integers(bytes: &[u8]) -> impl Iterator<Item = i32> {
    bytes.as_chunks().0.iter().map(|bytes| i32::from_le_bytes(*bytes))
}

fn floats(bytes: &[u8]) -> impl Iterator<Item = f32> {
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes))
}

/// Returns for each feature the offset of each pair's category; each pair has one row of a table.
fn offsets(pairs: usize) -> Cow<'static, [i64]> {
    static OFFSETS: [OnceLock<Vec<i64>>; SHARED + 1] = [const { OnceLock::new() }; SHARED + 1];
    let all = || (0..SPARSE).flat_map(|_| 0..pairs as i64).collect::<Vec<i64>>();
    match OFFSETS.get(pairs) {
        Some(held) => Cow::Borrowed(held.get_or_init(all)),
        None => Cow::Owned(all()),
    }
}

impl Source for ClickLog {
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
            ClickFormat::Binary(path) => binary_sample(path, from, count),
            ClickFormat::Arrays { dense, sparse } => array_sample(dense, sparse, from, count),
        }
        .map_err(|error| error.to_string())
    }
}

/// Returns the logarithms of the numerical features, and for each categorical feature an offset and
/// a table row per pair.
fn binary_sample(path: &Path, from: u64, count: usize) -> Result<Vec<SampleTensor>, FileError> {
    let rows = ArrayRows { path: path.to_owned(), start: 0, width: VALUES };
    let bytes = rows.read(from, count)?;
    let values: Vec<i32> = integers(&bytes).collect();
    for (pair, values) in (from..).zip(values.chunks_exact(VALUES)) {
        // Labels are 0 or 1 and features are from 0: the reference raises negative ones.
        let wrong = values.iter().find(|value| **value < 0);
        if let Some(wrong) = wrong.or(values.first().filter(|label| **label > 1)) {
            let expected = "labels of 0 or 1 and features from 0";
            return Err(FileError::new(path, expected, format!("{wrong} in pair {pair}")));
        }
    }
    let pairs = || values.chunks_exact(VALUES);
    let dense = pairs().flat_map(|pair| &pair[1..=DENSE]).map(|value| (*value as f32 + 1.0).ln());
    let dense: Vec<f32> = dense.collect();
    let category = |feature: usize| {
        pairs().map(move |pair| i64::from(pair[1 + DENSE + feature] % LARGEST_TABLE))
    };
    let indices: Vec<i64> = (0..SPARSE).flat_map(category).collect();
    let tensor = |shape: [usize; 2], elements| SampleTensor { shape: shape.to_vec(), elements };
    Ok(vec![
        tensor([count, DENSE], Elements::F32(Cow::Owned(dense))),
        tensor([SPARSE, count], Elements::I64(offsets(count))),
        tensor([SPARSE, count], Elements::I64(Cow::Owned(indices))),
    ])
}

/// Returns the numerical features, and the table rows of all categorical features side by side.
fn array_sample(
    dense: &ArrayRows,
    sparse: &[ArrayRows],
    from: u64,
    count: usize,
) -> Result<Vec<SampleTensor>, FileError> {
    let bytes = dense.read(from, count)?;
    let features = floats(&bytes).collect();
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
    let tensor = |width, elements| SampleTensor { shape: vec![count, width], elements };
    Ok(vec![
        tensor(dense.width, Elements::F32(Cow::Owned(features))),
        tensor(width, Elements::I32(Cow::Owned(tables))),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_of_a_size_are_held_once_where_many_samples_have_it() {
        let (first, again) = (offsets(3), offsets(3));
        assert_eq!(first[..], [0, 1, 2].repeat(SPARSE));
        assert_eq!(first.as_ptr(), again.as_ptr());
        let large = offsets(SHARED + 1);
        assert_eq!(large[SHARED..SHARED + 3], [SHARED as i64, 0, 1]);
        assert!(matches!(large, Cow::Owned(_)), "of rare sizes nothing is kept");
    }
}
