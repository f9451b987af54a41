//! Which samples a run issues: settings that belong to audits make a result of one sample
//! that is VALID, and an accuracy of one sample beside it.

use std::path::Path;

use crate::check::catalogue::{ACCURACY_COUNTS, ACCURACY_SAMPLES, LOG_SETTINGS};
use crate::check::issues::{At, Issues};
use crate::check::place::Place;
use crate::facts::detail::DetailLog;
use crate::facts::text;
use crate::finding::counted;
use crate::layout::{ACCURACY_TEXT, DETAIL};
use crate::tree::Node;

/// Settings that only audits have.
const OF_AUDITS: [&str; 2] =
    ["effective_performance_issue_same", "effective_performance_issue_unique"];
const CONCATENATES: &str = "effective_sample_concatenate_permutation";
/// Accuracies are written with three decimals.
const PERCENT_TOLERANCE: f64 = 0.001;

/// Checks the log of a result's run, for performance or accuracy.
pub(super) fn check(place: &Place<'_, '_>, log: &DetailLog, path: &Path, issues: &mut Issues) {
    let at = |key: &str| At::path(path).line(log.line_of(key));
    for key in OF_AUDITS.into_iter().filter(|key| log.flag(key) == Some(true)) {
        let message = format!("{key} is true, as in audits alone");
        issues.add_expected(&LOG_SETTINGS, at(key), message, "false");
    }
    let is_own = place.model.benchmark.is_some_and(|benchmark| !benchmark.equal_issue)
        && place.submitter.division.is_closed_or_network();
    if is_own && log.flag(CONCATENATES) == Some(true) {
        // Every sample still comes as often as the others: nothing is gained.
        let mut own = Issues::new(issues.program());
        let message = format!("{CONCATENATES} is true, and not for this model");
        own.add_expected(&LOG_SETTINGS, at(CONCATENATES), message, "false");
        own.waive(&[&LOG_SETTINGS]);
        issues.append(own);
    }
    if path.ends_with(Path::new("accuracy").join(DETAIL)) {
        check_total(place.entry.accuracy(), log, issues);
    }
}

/// A script that counts what it has scored has scored every sample, and its accuracy is
/// that of the counts. Recommenders have more than one answer to each.
fn check_total(folder: Option<Node<'_>>, log: &DetailLog, issues: &mut Issues) {
    let Some(folder) = folder else { return };
    let keys = ["effective_accuracy_sample_count", "qsl_reported_total_count"];
    let samples = keys.iter().find_map(|key| log.whole(key).filter(|count| *count > 0));
    let (Some(samples), Ok(text)) = (samples, text::read(folder.file(ACCURACY_TEXT))) else {
        return;
    };
    let path = folder.path().join(ACCURACY_TEXT);
    for (at, line) in text.text.lines().enumerate() {
        let Some(told) = line.strip_prefix("accuracy=") else { continue };
        let count = |name| {
            let (_, after) = told.split_once(name)?;
            let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
            after[..digits].parse::<u64>().ok()
        };
        let Some(total) = count("total=") else { continue };
        let at = At::path(&path).line(Some(at + 1));
        if total < samples {
            let issued = counted(samples, "sample", "samples");
            let message = format!("total is {total}, and the accuracy run has {issued}");
            issues.add_expected(&ACCURACY_SAMPLES, at, message, samples.to_string());
        }
        let percent = told.split_once('%').and_then(|(percent, _)| percent.parse::<f64>().ok());
        let Some((percent, good)) = percent.zip(count("good=")) else { continue };
        let counted = 100.0 * good as f64 / total as f64;
        // Written so that what is no number fails.
        let is_same = (percent - counted).abs() <= PERCENT_TOLERANCE;
        if !is_same {
            let message = format!("accuracy is {percent} %, of {good} good answers in {total}");
            issues.add_expected(&ACCURACY_COUNTS, at, message, format!("{counted:.3} %"));
        }
    }
}
