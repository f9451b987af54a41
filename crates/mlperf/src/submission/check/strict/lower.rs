//! Results that are there for two targets of one benchmark: what reaches 99.9 % of the
//! reference's quality may be submitted for 99 % as well.

use std::fs;

use crate::submission::check::catalogue::RUN_LOWER;
use crate::submission::check::issues::{At, Issues};
use crate::submission::check::place::Place;
use crate::submission::entry::Entry;
use crate::submission::layout::DETAIL;

/// Tells that a result of the lower target is a copy of the one of the high target.
pub(super) fn check_copy(place: &Place<'_, '_>, issues: &mut Issues) {
    let high = format!("{}.9", place.model.name);
    let model = place.system.models.iter().find(|model| model.name == high);
    if !place.model.name.ends_with("-99") || place.scenario.is_none() {
        return;
    }
    let same = |entry: &&Entry<'_>| entry.scenario == place.scenario;
    let source = model.and_then(|model| model.results.iter().find(same));
    if source.is_some_and(|source| is_same_run(source, place.entry)) {
        let path = place.entry.folder.path();
        let message = format!("is a copy of the result of {high}, which counts for both");
        issues.add(&RUN_LOWER, At::path(&path), message);
    }
}

fn is_same_run(one: &Entry<'_>, other: &Entry<'_>) -> bool {
    let logs = [one, other].map(|entry| entry.run()?.file(DETAIL));
    let [Some(one), Some(other)] = logs else { return false };
    let bytes = |log: crate::submission::tree::Node<'_>| fs::read(log.absolute()).ok();
    one.size() == other.size() && bytes(one).is_some_and(|log| Some(log) == bytes(other))
}
