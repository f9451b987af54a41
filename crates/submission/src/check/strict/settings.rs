//! Checks the settings that select samples. With settings of audits, a VALID result could be
//! based on one sample.

use std::path::Path;

use crate::check::catalogue::{ACCURACY_COUNTS, ACCURACY_SAMPLES, LOG_SETTINGS};
use crate::check::issues::{Issues, Location};
use crate::check::place::Place;
use crate::facts::detail::DetailLog;
use crate::facts::text;
use crate::finding::counted;
use crate::layout::{ACCURACY_TEXT, DETAIL};
use crate::tree::Node;

/// Settings that only audits use.
const AUDIT_SETTINGS: [&str; 2] =
    ["effective_performance_issue_same", "effective_performance_issue_unique"];
const CONCATENATES: &str = "effective_sample_concatenate_permutation";
/// Accuracies have three decimals.
const PERCENT_TOLERANCE: f64 = 0.001;

/// Checks the log of a result's performance or accuracy run.
pub(super) fn check(place: &Place<'_, '_>, log: &DetailLog, path: &Path, issues: &mut Issues) {
    let at = |key: &str| Location::path(path).line(log.line_of(key));
    for key in AUDIT_SETTINGS.into_iter().filter(|key| log.flag(key) == Some(true)) {
        let message = format!("{key} is true, which only audits permit");
        issues.add_expected(&LOG_SETTINGS, at(key), message, "false");
    }
    let is_own = place.model.benchmark.is_some_and(|benchmark| !benchmark.equal_issue)
        && place.submitter.division.is_closed_or_network();
    if is_own && log.flag(CONCATENATES) == Some(true) {
        // Every sample is still issued equally often, so this is only a warning.
        let mut own = issues.another();
        let message = format!("{CONCATENATES} is true, but not permitted for this model");
        own.add_expected(&LOG_SETTINGS, at(CONCATENATES), message, "false");
        own.waive(&[&LOG_SETTINGS]);
        issues.append(own);
    }
    if path.ends_with(Path::new("accuracy").join(DETAIL)) {
        check_total(place.entry.accuracy(), log, issues);
    }
}

/// Checks the counts of an accuracy script: every sample was scored, and the accuracy follows
/// from the counts. Recommenders have several answers per sample.
fn check_total(folder: Option<Node<'_>>, log: &DetailLog, issues: &mut Issues) {
    let Some(folder) = folder else { return };
    let keys = ["effective_accuracy_sample_count", "qsl_reported_total_count"];
    let samples = keys.iter().find_map(|key| log.whole(key).filter(|count| *count > 0));
    let (Some(samples), Ok(text)) = (samples, text::read(folder.file(ACCURACY_TEXT))) else {
        return;
    };
    let path = folder.path().join(ACCURACY_TEXT);
    for (index, line) in text.text.lines().enumerate() {
        let Some(counts) = line.strip_prefix("accuracy=") else { continue };
        let count = |name| {
            let (_, after) = counts.split_once(name)?;
            let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
            after[..digits].parse::<u64>().ok()
        };
        let Some(total) = count("total=") else { continue };
        let at = Location::path(&path).line(Some(index + 1));
        if total < samples {
            let issued = counted(samples, "sample", "samples");
            let message = format!("total is {total}, but the accuracy run has {issued}");
            issues.add_expected(&ACCURACY_SAMPLES, at, message, samples.to_string());
        }
        let percent = counts.split_once('%').and_then(|(percent, _)| percent.parse::<f64>().ok());
        let Some((percent, good)) = percent.zip(count("good=")) else { continue };
        let counted = 100.0 * good as f64 / total as f64;
        // Negated so that NaN fails.
        let is_same = (percent - counted).abs() <= PERCENT_TOLERANCE;
        if !is_same {
            let message = format!(
                "accuracy is {percent} %, but {good} of {total} answers are \
                 good"
            );
            issues.add_expected(&ACCURACY_COUNTS, at, message, format!("{counted:.3} %"));
        }
    }
}
