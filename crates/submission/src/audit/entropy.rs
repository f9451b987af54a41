//! TEST08: the answers of a streaming recommender, by their normalised entropy.
//!
//! Its samples have names of their own, a time and a query, because the order of
//! the load generator means nothing to it. The answers of the audited run are kept
//! (their number is bounded by the audit), those of the accuracy run go by.

use std::collections::HashMap;
use std::path::Path;

use super::data::read_entries;
use super::reason::Reason;
use super::text::{self, verdict};
use super::{Figure, Part, TextFile, Verdict};

/// Time and query.
type Key = (i64, i64);

/// An answer of the audited run, and how it compares.
struct Answer {
    sample: u64,
    predictions: Vec<f32>,
    found: Found,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Nothing,
    Same,
    Different,
    /// Other candidates than the accuracy run has; the script stops.
    OtherShape,
}

/// Keeps logarithms finite.
const EPSILON: f64 = 1e-7;

/// Compares the entropies of both logs, which may differ by `tolerance` of that of
/// the accuracy run.
///
/// `wrong`: what speaks against the audited run already.
pub(super) fn compare(
    reference: &Path,
    audited: &Path,
    tolerance: f64,
    wrong: Vec<Reason>,
) -> Part {
    let name = "answers";
    let (counts, malformed) = match read(reference, audited, tolerance) {
        Ok(found) => found,
        Err(reason) => return Part::failed(name, text::ACCURACY, &reason),
    };
    let mut corrected = Vec::new();
    let of = counts.logged;
    if counts.different > 0 {
        let (different, first) = (counts.different, counts.first_different);
        corrected.push(Reason::Answers { different, of: counts.matched, first });
    }
    if counts.missing > 0 {
        corrected.push(Reason::Unmatched { count: counts.missing, of });
    }
    if counts.matched == 0 {
        corrected.push(Reason::NothingLogged);
    }
    let mut official = corrected.clone();
    if let Some(first) = malformed.first {
        corrected.push(Reason::Malformed { count: malformed.count, first });
        official.push(Reason::ScriptStops { why: "an answer has another length than it says" });
    }
    corrected.extend(wrong);
    let is_passed = corrected.is_empty() && official.is_empty();
    let text = format!(
        "num_acc_log_entries = {}\nnum_perf_log_entries = {of}\nnum_matched = {}\n\
         num_unmatched = {}\nnum_ne_mismatch = {}\ntolerance = {:.2}%\n\n{}\n\
         TEST08 verification complete\n",
        counts.entries,
        counts.matched,
        counts.missing,
        counts.different,
        tolerance * 100.0,
        verdict(is_passed)
    );
    let figure = |name, count: u64| Figure { name, value: count as f64, unit: "" };
    Part {
        name,
        corrected: Verdict::of(corrected),
        official: Verdict::of(official),
        figures: vec![
            figure("answers of the accuracy run", counts.entries),
            figure("logged answers", of),
            figure("compared answers", counts.matched),
            figure("different answers", counts.different),
        ],
        file: Some(TextFile { path: text::ACCURACY, text }),
    }
}

#[derive(Debug, Default)]
struct Malformed {
    count: u64,
    first: Option<u64>,
}

impl Malformed {
    fn add(&mut self, sample: u64) {
        self.count += 1;
        self.first.get_or_insert(sample);
    }
}

fn read(
    reference: &Path,
    audited: &Path,
    tolerance: f64,
) -> Result<(text::Counts, Malformed), Reason> {
    let mut counts = text::Counts::default();
    let mut malformed = Malformed::default();
    let mut answers: HashMap<Key, Vec<Answer>> = HashMap::new();
    read_entries(audited, |entry| {
        counts.logged += 1;
        let sample = entry.qsl_idx;
        match floats(&entry.data).as_deref() {
            Some([time, query, predictions @ ..]) => {
                let predictions = predictions.to_vec();
                let answer = Answer { sample, predictions, found: Found::Nothing };
                answers.entry(key(*time, *query)).or_default().push(answer);
            }
            _ => malformed.add(sample),
        }
    })?;
    read_entries(reference, |entry| {
        counts.entries += 1;
        let data = floats(&entry.data);
        let Some(whole) = data.as_deref().and_then(Whole::of) else {
            malformed.add(entry.qsl_idx);
            return;
        };
        // The last of several entries counts.
        for answer in answers.get_mut(&whole.key).into_iter().flatten() {
            answer.found = whole.against(&answer.predictions, tolerance);
        }
    })?;
    let mut different: Vec<u64> = Vec::new();
    for answer in answers.values().flatten() {
        match answer.found {
            Found::Nothing => counts.missing += 1,
            Found::Same => counts.matched += 1,
            Found::Different => {
                counts.matched += 1;
                different.push(answer.sample);
            }
            Found::OtherShape => {
                counts.matched += 1;
                malformed.add(answer.sample);
            }
        }
    }
    counts.different = different.len() as u64;
    counts.first_different = different.into_iter().min().unwrap_or(0);
    Ok((counts, malformed))
}

fn floats(data: &[u8]) -> Option<Vec<f32>> {
    data.chunks(4).map(|bytes| Some(f32::from_le_bytes(bytes.try_into().ok()?))).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "names of samples are whole")]
fn key(time: f32, query: f32) -> Key {
    (time as i64, query as i64)
}

/// An answer of the accuracy run: `time, query, predictions.., labels.., weights.., count`.
struct Whole<'a> {
    key: Key,
    predictions: &'a [f32],
    labels: &'a [f32],
    weights: &'a [f32],
}

impl<'a> Whole<'a> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count that is too large or negative has no such length"
    )]
    fn of(data: &'a [f32]) -> Option<Self> {
        let [time, query, lists @ .., count] = data else { return None };
        let count = *count as usize;
        if lists.len() % 3 != 0 || lists.len() / 3 != count {
            return None;
        }
        let (predictions, rest) = lists.split_at(count);
        let (labels, weights) = rest.split_at(count);
        Some(Self { key: key(*time, *query), predictions, labels, weights })
    }

    fn against(&self, predictions: &[f32], tolerance: f64) -> Found {
        if predictions.len() != self.labels.len() {
            return Found::OtherShape;
        }
        let before = entropy(self.predictions, self.labels, self.weights);
        let now = entropy(predictions, self.labels, self.weights);
        // Not `>`: what is no number is not the same.
        let is_same = before == now || (now - before).abs() / before.abs() <= tolerance;
        let one_is_none = (before == 0.0) != (now == 0.0);
        if is_same && !one_is_none { Found::Same } else { Found::Different }
    }
}

/// Cross entropy of the predictions over the entropy of the mean label; 0 if
/// nothing has a weight.
fn entropy(predictions: &[f32], labels: &[f32], weights: &[f32]) -> f64 {
    let clipped = |value: f32| f64::from(value).clamp(EPSILON, 1.0 - EPSILON);
    let (mut cross, mut total, mut positive) = (0.0, 0.0, 0.0);
    for ((prediction, label), weight) in predictions.iter().zip(labels).zip(weights) {
        let (p, y, w) = (clipped(*prediction), clipped(*label), f64::from(*weight));
        cross -= w * (y * p.ln() + (1.0 - y) * (1.0 - p).ln());
        total += w;
        positive += w * y;
    }
    if total == 0.0 {
        return 0.0;
    }
    let mean = (positive / total).clamp(EPSILON, 1.0 - EPSILON);
    let of_mean = -mean * mean.ln() - (1.0 - mean) * (1.0 - mean).ln();
    cross / (of_mean * total)
}
