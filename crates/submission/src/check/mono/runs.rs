//! Performance runs of a result, as the single-file checker judges them.

use crate::check::catalogue::*;
use crate::check::issues::{Issues, Location};
use crate::check::performance::{Metric, Run};
use crate::check::{Place, files, powered};
use crate::facts::Facts;
use crate::layout::{ACCURACY_LOG, DETAIL, SUMMARY};
use crate::power::Energy;
use dyno_rules::Behavior;

use super::crash_at_file;

/// Outcome of the performance runs of a result.
#[derive(Default)]
pub(super) struct Performance {
    pub(super) result: Option<(Metric, Option<Energy>)>,
    /// Number of runs that were judged and are invalid.
    pub(super) failed: usize,
}

/// Outcome of a performance run.
enum RunOutcome {
    Valid(Metric, Option<Energy>),
    Invalid,
    /// The folder or one of its files is missing. The programs do not count this as an error.
    NotJudged,
}

/// Judges the performance runs. Of the five Server runs before v1.0, the last valid one is the
/// result, and problems of the others have no effect then.
pub(super) fn performance_of(
    place: &Place<'_, '_>,
    facts: &Facts<'_>,
    issues: &mut Issues,
) -> Performance {
    let mut performance = Performance::default();
    let mut wrong = Issues::new(place.options.program);
    for number in 1..=place.runs() {
        let mut own = Issues::new(place.options.program);
        match run_of(place, number, facts, &mut own) {
            RunOutcome::Valid(metric, energy) => {
                performance.result = Some((metric, energy));
                issues.append(own);
            }
            RunOutcome::Invalid => {
                performance.failed += 1;
                wrong.append(own);
            }
            RunOutcome::NotJudged => wrong.append(own),
        }
    }
    if performance.result.is_some() {
        wrong.waive(ALL);
    }
    issues.append(wrong);
    performance
}

/// Returns the metric and the power of a run, if it is valid.
fn run_of(
    place: &Place<'_, '_>,
    number: u64,
    facts: &Facts<'_>,
    issues: &mut Issues,
) -> RunOutcome {
    let knows_power = !issues.program().does(Behavior::NoPower);
    let has_power = place.entry.power().is_some() && knows_power;
    let path = place.entry.folder.path().join(format!("performance/run_{number}"));
    let Some(run) = place.entry.numbered_run(number) else {
        issues.add(
            &RUN_FOLDER,
            Location::path(&path),
            format!("performance/run_{number} is missing"),
        );
        crash_at_file(place, &path, issues);
        return RunOutcome::NotJudged;
    };
    let required = [SUMMARY, DETAIL, "spl.txt"];
    let required = if has_power { &required[..] } else { &required[..2] };
    if let Some(mismatch) = files::mismatch(run, required, &[ACCURACY_LOG]) {
        issues.add(&RUN_FILES, Location::path(&path), mismatch);
        if !place.options.program.does(Behavior::GoesOn) {
            return RunOutcome::NotJudged;
        }
    }
    let path = path.join(DETAIL);
    let log = place.log_of_run(number, facts);
    let metric = match log.as_ref() {
        Ok(log) => Run { place, log, path: &path, is_audit: false }.judge(issues),
        Err(_) => {
            issues.add(&RUN_UNREADABLE, Location::path(&path), "the detail log cannot be parsed");
            None
        }
    };
    let energy = if has_power { powered::judge(place, facts, issues) } else { None };
    let metric = metric.filter(|_| issues.passes());
    metric.map_or(RunOutcome::Invalid, |metric| RunOutcome::Valid(metric, energy))
}
