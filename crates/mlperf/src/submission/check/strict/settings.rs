//! Which samples a run issues: settings that belong to audits make a result of one sample
//! that is VALID, and an accuracy of one sample beside it.

use std::path::Path;

use crate::finding::counted;
use crate::submission::check::catalogue::{ACCURACY_SAMPLES, LOG_SETTINGS};
use crate::submission::check::issues::{At, Issues};
use crate::submission::check::place::Place;
use crate::submission::facts::detail::DetailLog;
use crate::submission::facts::text;
use crate::submission::layout::{ACCURACY_TEXT, DETAIL};
use crate::submission::tree::Node;

/// Settings that only audits have.
const OF_AUDITS: [&str; 2] =
    ["effective_performance_issue_same", "effective_performance_issue_unique"];
const CONCATENATES: &str = "effective_sample_concatenate_permutation";

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

/// A script that counts what it has scored has scored every sample. Recommenders have
/// more than one answer to each.
fn check_total(folder: Option<Node<'_>>, log: &DetailLog, issues: &mut Issues) {
    let Some(folder) = folder else { return };
    let keys = ["effective_accuracy_sample_count", "qsl_reported_total_count"];
    let samples = keys.iter().find_map(|key| log.whole(key).filter(|count| *count > 0));
    let (Some(samples), Ok(text)) = (samples, text::read(folder.file(ACCURACY_TEXT))) else {
        return;
    };
    let path = folder.path().join(ACCURACY_TEXT);
    for (at, line) in text.text.lines().enumerate() {
        let after = line.starts_with("accuracy=").then(|| line.split_once("total=")).flatten();
        let Some((_, after)) = after else { continue };
        let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        let Ok(total) = after[..digits].parse::<u64>() else { continue };
        if total < samples {
            let at = At::path(&path).line(Some(at + 1));
            let issued = counted(samples, "sample", "samples");
            let message = format!("total is {total}, and the accuracy run has {issued}");
            issues.add_expected(&ACCURACY_SAMPLES, at, message, samples.to_string());
        }
    }
}
