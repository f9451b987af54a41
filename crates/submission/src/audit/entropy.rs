//! TEST08: compares answers of a streaming recommender by their normalized entropy.
//!
//! Its samples are identified by a time and a query, because the load generator's sample order
//! has no meaning for it. The answers of the audited run, whose number the audit bounds, are
//! kept in memory. Those of the accuracy run are streamed.

use std::collections::HashMap;
use std::path::Path;

use super::data::read_entries;
use super::reason::Reason;
use super::text::{self, verdict};
use super::{Figure, Part, Verdict, VerdictFile};

/// Time and query, which identify a sample.
type Key = (i64, i64);

/// An answer of the audited run, and the result of its comparison.
struct Answer {
    sample: u64,
    predictions: Vec<f32>,
    outcome: Outcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Nothing,
    Same,
    Different,
    /// The number of candidates differs from the accuracy run's; the script stops.
    OtherShape,
}

/// Keeps logarithms finite.
const EPSILON: f64 = 1e-7;

/// Compares the entropies of both logs, which may differ by the share `tolerance` of the
/// accuracy run's entropy.
///
/// `wrong` contains reasons that already speak against the audited run.
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
    let logged = counts.logged;
    if counts.different > 0 {
        let (different, first) = (counts.different, counts.first_different);
        corrected.push(Reason::Answers { different, total: counts.matched, first });
    }
    if counts.missing > 0 {
        corrected.push(Reason::Unmatched { count: counts.missing, total: logged });
    }
    if counts.matched == 0 {
        corrected.push(Reason::NothingLogged);
    }
    let mut official = corrected.clone();
    if let Some(first) = malformed.first {
        corrected.push(Reason::Malformed { count: malformed.count, first });
        official.push(Reason::ScriptStops { why: "an answer does not have its stated length" });
    }
    corrected.extend(wrong);
    let is_passed = corrected.is_empty() && official.is_empty();
    let text = format!(
        "num_acc_log_entries = {}\nnum_perf_log_entries = {logged}\nnum_matched = {}\n\
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
        corrected: Verdict::from_reasons(corrected),
        official: Verdict::from_reasons(official),
        figures: vec![
            figure("answers of the accuracy run", counts.entries),
            figure("logged answers", logged),
            figure("compared answers", counts.matched),
            figure("different answers", counts.different),
        ],
        file: Some(VerdictFile { path: text::ACCURACY, text }),
    }
}

#[derive(Debug, Default)]
struct MalformedAnswers {
    count: u64,
    first: Option<u64>,
}

impl MalformedAnswers {
    fn add(&mut self, sample: u64) {
        self.count += 1;
        self.first.get_or_insert(sample);
    }
}

fn read(
    reference: &Path,
    audited: &Path,
    tolerance: f64,
) -> Result<(text::Counts, MalformedAnswers), Reason> {
    let mut counts = text::Counts::default();
    let mut malformed = MalformedAnswers::default();
    let mut answers: HashMap<Key, Vec<Answer>> = HashMap::new();
    read_entries(audited, |entry| {
        counts.logged += 1;
        let sample = entry.qsl_idx;
        match floats(&entry.data).as_deref() {
            Some([time, query, predictions @ ..]) => {
                let predictions = predictions.to_vec();
                let answer = Answer { sample, predictions, outcome: Outcome::Nothing };
                answers.entry(key(*time, *query)).or_default().push(answer);
            }
            _ => malformed.add(sample),
        }
    })?;
    read_entries(reference, |entry| {
        counts.entries += 1;
        let data = floats(&entry.data);
        let Some(reference) = data.as_deref().and_then(ReferenceAnswer::parse) else {
            malformed.add(entry.qsl_idx);
            return;
        };
        // If a sample has several entries, the last one counts.
        for answer in answers.get_mut(&reference.key).into_iter().flatten() {
            answer.outcome = reference.against(&answer.predictions, tolerance);
        }
    })?;
    let mut different: Vec<u64> = Vec::new();
    for answer in answers.values().flatten() {
        match answer.outcome {
            Outcome::Nothing => counts.missing += 1,
            Outcome::Same => counts.matched += 1,
            Outcome::Different => {
                counts.matched += 1;
                different.push(answer.sample);
            }
            Outcome::OtherShape => {
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
struct ReferenceAnswer<'a> {
    key: Key,
    predictions: &'a [f32],
    labels: &'a [f32],
    weights: &'a [f32],
}

impl<'a> ReferenceAnswer<'a> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count that is too large or negative has no such length"
    )]
    fn parse(data: &'a [f32]) -> Option<Self> {
        let [time, query, lists @ .., count] = data else { return None };
        let count = *count as usize;
        if lists.len() % 3 != 0 || lists.len() / 3 != count {
            return None;
        }
        let (predictions, rest) = lists.split_at(count);
        let (labels, weights) = rest.split_at(count);
        Some(Self { key: key(*time, *query), predictions, labels, weights })
    }

    fn against(&self, predictions: &[f32], tolerance: f64) -> Outcome {
        if predictions.len() != self.labels.len() {
            return Outcome::OtherShape;
        }
        let before = entropy(self.predictions, self.labels, self.weights);
        let now = entropy(predictions, self.labels, self.weights);
        // `<=` instead of `>`, so that NaN counts as different.
        let is_same = before == now || (now - before).abs() / before.abs() <= tolerance;
        let one_is_none = (before == 0.0) != (now == 0.0);
        if is_same && !one_is_none { Outcome::Same } else { Outcome::Different }
    }
}

/// Returns the cross entropy of the predictions divided by the entropy of the mean label, or 0
/// if all weights are 0.
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
    let mean_entropy = -mean * mean.ln() - (1.0 - mean) * (1.0 - mean).ln();
    cross / (mean_entropy * total)
}
