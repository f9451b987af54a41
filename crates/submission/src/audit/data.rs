//! TEST01: compares the answers of a performance run with those of the accuracy run.
//!
//! Only a digest of each answer is digest, so logs of several GB need memory in proportion to
//! their number of samples.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use dyno_loadgen::log::read::{AccuracyEntry, open_accuracy};
use dyno_tensors::Element;
use sha2::{Digest as _, Sha256};

use super::evidence::unreadable;
use super::reason::Reason;
use super::text::{self, Counts};
use super::{Figure, Part, Verdict, VerdictFile};
use crate::partial;

/// Types that answers can be lists of, little-endian, by the names that `--dtype` of the official
/// scripts has for them.
pub const DTYPES: [(&str, Element); 5] = [
    ("byte", Element::I8),
    ("int16", Element::I16),
    ("int32", Element::I32),
    ("int64", Element::I64),
    ("float32", Element::F32),
];

/// Returns the number that these bytes are, if they are one element; integers are exact up to 2^53.
pub(super) fn value(element: Element, bytes: &[u8]) -> Option<f64> {
    (bytes.len() == element.size()).then(|| element.real(bytes))
}

/// Digest of an answer, sufficient to compare it with another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AnswerDigest {
    length: usize,
    /// First bytes, for the comparison by the official script.
    first: [u8; 8],
    /// First half of a SHA-256, which an attacker who forges an answer cannot match.
    digest: [u8; 16],
}

impl AnswerDigest {
    fn new(data: &[u8]) -> Self {
        let mut digest = Self { length: data.len(), first: [0; 8], digest: [0; 16] };
        let begins = data.len().min(8);
        digest.first[..begins].copy_from_slice(&data[..begins]);
        if data.len() <= digest.digest.len() {
            digest.digest[..data.len()].copy_from_slice(data);
        } else {
            digest.digest.copy_from_slice(&Sha256::digest(data)[..16]);
        }
        digest
    }

    /// Whether the official script treats both as equal.
    ///
    /// # Errors
    ///
    /// Returns the reason if the script stops.
    fn agrees(&self, other: &Self, element: Element) -> Result<bool, Reason> {
        let size = element.size();
        if !self.length.is_multiple_of(size) || !other.length.is_multiple_of(size) {
            return Err(Reason::ScriptStops {
                why: "the size of an answer is not a multiple of the \
                 element size",
            });
        }
        if self.length == 0 || other.length == 0 {
            return Ok(self.length == other.length);
        }
        let [a, b] = [self, other].map(|digest| &digest.first[..size]);
        // For floats, 0 equals -0, and NaN equals nothing.
        Ok(match element {
            Element::F32 => value(element, a) == value(element, b),
            _ => a == b,
        })
    }
}

/// Reads an accuracy log and passes each entry to `each`.
pub(super) fn read_entries(path: &Path, mut each: impl FnMut(AccuracyEntry)) -> Result<(), Reason> {
    let entries = open_accuracy(path).map_err(|error| unreadable(path, &error))?;
    for entry in entries {
        each(entry.map_err(|problem| unreadable(path, &problem))?);
    }
    Ok(())
}

/// Result of comparing two logs.
#[derive(Debug, Default)]
struct Comparison {
    counts: Counts,
    different: u64,
    first_different: u64,
    unmatched: u64,
    stops: Option<Reason>,
}

/// Compares the answers of two logs, completely and as the official script does.
///
/// The script of v0.5 passed if nothing could be compared; `needs_match` is false for it.
/// `samples` is the number of samples to which the accuracy run must have an answer, if its log
/// states it. `wrong` contains reasons that already speak against the audited run.
pub(super) fn answers(
    reference: &Path,
    audited: &Path,
    element: Element,
    needs_match: bool,
    samples: Option<u64>,
    wrong: Vec<Reason>,
) -> Part {
    let compared = match compare(reference, audited, element) {
        Ok(compared) => compared,
        Err(reason) => return Part::failed("answers", text::ACCURACY, &reason),
    };
    let counts = compared.counts;
    let mut corrected = wrong;
    if compared.different > 0 {
        corrected.push(Reason::Answers {
            different: compared.different,
            total: counts.logged - compared.unmatched,
            first: compared.first_different,
        });
    }
    if compared.unmatched > 0 {
        corrected.push(Reason::Unmatched { count: compared.unmatched, total: counts.logged });
    }
    if counts.logged == compared.unmatched {
        corrected.push(Reason::NothingLogged);
    }
    let distinct = counts.entries - counts.repeated;
    if let Some(expected) = samples.filter(|samples| distinct < *samples) {
        corrected.push(Reason::FewSamples { found: distinct, expected });
    }
    let mut official: Vec<Reason> = compared.stops.into_iter().collect();
    if counts.different > 0 {
        let (different, total) = (counts.different, counts.matched);
        official.push(Reason::Answers { different, total, first: counts.first_different });
    }
    if needs_match && counts.matched == 0 {
        official.push(Reason::NothingLogged);
    }
    let count = |name, value: u64| Figure { name, value: value as f64, unit: "" };
    let figures = vec![
        count("answers of the accuracy run", counts.entries),
        count("logged answers", counts.logged),
        count("different answers", compared.different),
        count("different by the script", counts.different),
        count("samples without a counterpart", compared.unmatched),
    ];
    let is_passed = corrected.is_empty() && official.is_empty();
    let file = VerdictFile { path: text::ACCURACY, text: text::answers(&counts, is_passed) };
    Part {
        name: "answers",
        corrected: Verdict::from_reasons(corrected),
        official: Verdict::from_reasons(official),
        figures,
        file: Some(file),
    }
}

fn compare(reference: &Path, audited: &Path, element: Element) -> Result<Comparison, Reason> {
    let mut compared = Comparison::default();
    let mut known: HashMap<u64, AnswerDigest> = HashMap::new();
    read_entries(reference, |entry| {
        compared.counts.entries += 1;
        let digest = AnswerDigest::new(&entry.data);
        match known.entry(entry.qsl_idx) {
            Slot::Vacant(slot) => drop(slot.insert(digest)),
            Slot::Occupied(slot) => {
                compared.counts.repeated += 1;
                compared.counts.contradicting += u64::from(*slot.get() != digest);
            }
        }
    })?;
    // The script overwrites every compared answer with the audited one, and also stores those
    // that it could not compare.
    let mut overwritten: HashMap<u64, AnswerDigest> = HashMap::new();
    read_entries(audited, |entry| {
        let (index, digest) = (entry.qsl_idx, AnswerDigest::new(&entry.data));
        let counts = &mut compared.counts;
        counts.logged += 1;
        match known.get(&index) {
            Some(expected) if *expected != digest => {
                if compared.different == 0 {
                    compared.first_different = index;
                }
                compared.different += 1;
            }
            Some(_) => {}
            None => compared.unmatched += 1,
        }
        let Some(last) = overwritten.insert(index, digest).or_else(|| known.get(&index).copied())
        else {
            counts.missing += 1;
            return;
        };
        counts.matched += 1;
        match last.agrees(&digest, element) {
            Ok(true) => {}
            Ok(false) => {
                if counts.different == 0 {
                    counts.first_different = index;
                }
                counts.different += 1;
            }
            Err(reason) => compared.stops = Some(reason),
        }
    })?;
    Ok(compared)
}

/// Writes `mlperf_log_accuracy_baseline.json` for the accuracy script: the entries of the
/// accuracy run whose samples the audited run logged, each once. Returns the number of entries.
///
/// # Errors
/// Fails if a log cannot be read, or if the file cannot be written or is one of the logs.
pub fn baseline_log(reference: &Path, audited: &Path, into: &Path) -> Result<u64, Reason> {
    let real = |path: &Path| path.canonicalize().ok();
    if real(into).is_some() && [reference, audited].into_iter().any(|log| real(log) == real(into)) {
        return Err(unreadable(into, &"is a log of the runs; pass another file"));
    }
    let mut samples = std::collections::HashSet::new();
    read_entries(audited, |entry| {
        samples.insert(entry.qsl_idx);
    })?;
    let failed = |error: std::io::Error| unreadable(into, &error);
    // Pipes and devices are written directly, without a temporary file.
    let is_file = into.is_file() || !into.exists();
    let (partial, file) = if is_file {
        partial::create(into).map_err(failed)?
    } else {
        (into.to_owned(), File::create(into).map_err(failed)?)
    };
    let mut writer = BufWriter::new(file);
    let (mut count, mut written) = (0_u64, writer.write_all(b"[\n"));
    read_entries(reference, |entry| {
        if written.is_ok() && samples.remove(&entry.qsl_idx) {
            written = write_entry(&mut writer, &entry, count > 0);
            count += 1;
        }
    })?;
    let ended = written.and_then(|()| writer.write_all(b"\n]\n")).and_then(|()| writer.flush());
    ended
        .and_then(|()| if is_file { fs::rename(&partial, into) } else { Ok(()) })
        .map_err(failed)?;
    Ok(count)
}

fn write_entry(writer: &mut impl Write, entry: &AccuracyEntry, more: bool) -> std::io::Result<()> {
    let comma = if more { ",\n" } else { "" };
    write!(writer, "{comma}{{ \"seq_id\" : {}, \"qsl_idx\" : {}", entry.seq_id, entry.qsl_idx)?;
    let mut hex = |name: &str, data: &[u8]| {
        write!(writer, ", \"{name}\" : \"")?;
        data.iter().try_for_each(|byte| write!(writer, "{byte:02X}"))?;
        write!(writer, "\"")
    };
    hex("data", &entry.data)?;
    if let Some(data) = &entry.token_data {
        hex("token_data", data)?;
    }
    if let Some(count) = entry.token_count {
        write!(writer, ", \"token_count\" : {count}")?;
    }
    write!(writer, " }}")
}
