//! Accuracy of an audited run, and of the accuracy run on the same samples, for systems with known
//! labels.

use std::collections::BTreeMap;
use std::path::Path;

use dyno_loadgen::log::read::{AccuracyEntry, open_accuracy};
use dyno_rules::Round;
use dyno_submission::audit::{Accuracies, Evidence};
use dyno_sut::top1;

use crate::failure::Failure;

/// Returns the top-1 accuracies of both runs as an accuracy script of the rules prints them.
///
/// # Errors
/// A log cannot be read.
pub fn accuracies(
    evidence: &Evidence,
    labels: &[i64],
    round: &Round,
) -> Result<Option<Accuracies>, Failure> {
    let (Some(accuracy), Some(audited)) = (&evidence.accuracy, evidence.audited.last()) else {
        return Ok(None);
    };
    let logged = answers(&audited.accuracy_path(), |_| true)?;
    let known = answers(&accuracy.accuracy_path(), |index| logged.contains_key(&index))?;
    let is_right = |index: u64, class: Option<i64>| is_right(labels, index, class);
    let text = |answers: &BTreeMap<u64, Vec<Option<i64>>>| {
        let first = answers.iter().filter_map(|(index, classes)| Some((*index, *classes.first()?)));
        let good = first.filter(|(index, class)| is_right(*index, *class)).count();
        let percent = 100.0 * good as f64 / answers.len().max(1) as f64;
        format!("accuracy={percent:.3}%, good={good}, total={}\n", answers.len())
    };
    // Samples that were logged several times have the same weight in both runs.
    let (mut total, mut good) = (0_usize, [0_usize; 2]);
    for (index, classes) in &logged {
        let Some(before) = known.get(index).and_then(|known| known.first()) else { continue };
        total += classes.len();
        good[0] += classes.len() * usize::from(is_right(*index, *before));
        good[1] += classes.iter().filter(|class| is_right(*index, **class)).count();
    }
    let of_every_answer = good.map(|good| 100.0 * good as f64 / total.max(1) as f64);
    let accuracies = Accuracies::from_texts(round, None, [text(&known), text(&logged)]);
    Ok(Some(Accuracies { of_every_answer: Some(of_every_answer), ..accuracies }))
}

/// Returns the top-1 accuracy of all answers of the audited run, in percent; `None` without a run.
///
/// # Errors
/// A log cannot be read.
pub fn audited_accuracy(evidence: &Evidence, labels: &[i64]) -> Result<Option<f64>, Failure> {
    let Some(audited) = evidence.audited.last() else { return Ok(None) };
    let logged = answers(&audited.accuracy_path(), |_| true)?;
    let every = || logged.iter().flat_map(|(index, of)| of.iter().map(|class| (*index, *class)));
    let good = every().filter(|(index, class)| is_right(labels, *index, *class)).count();
    Ok(Some(100.0 * good as f64 / every().count().max(1) as f64))
}

fn is_right(labels: &[i64], index: u64, class: Option<i64>) -> bool {
    let label = usize::try_from(index).ok().and_then(|at| labels.get(at));
    class.is_some() && class.as_ref() == label
}

/// Returns the answers to each requested sample, in the order of the log.
fn answers(
    path: &Path,
    is_wanted: impl Fn(u64) -> bool,
) -> Result<BTreeMap<u64, Vec<Option<i64>>>, Failure> {
    let failed = |problem: String| Failure::set_up(format!("{}: {problem}", path.display()));
    let mut answers: BTreeMap<u64, Vec<Option<i64>>> = BTreeMap::new();
    for entry in open_accuracy(path).map_err(|error| failed(error.to_string()))? {
        let AccuracyEntry { qsl_idx, data, .. } =
            entry.map_err(|problem| failed(problem.to_string()))?;
        if is_wanted(qsl_idx) {
            answers.entry(qsl_idx).or_default().push(top1::decode(&data));
        }
    }
    Ok(answers)
}
