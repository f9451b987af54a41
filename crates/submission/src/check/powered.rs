//! Checks results with power measurements.

use super::catalogue::*;
use super::files;
use super::issues::{Issues, Location};
use super::performance::Run;
use super::{Place, Program, Skip};
use crate::facts::{Facts, detail};
use crate::layout::{ACCURACY_LOG, DETAIL, SUMMARY};
use dyno_rules::Behavior;

use crate::power::{self, Energy, Measurement, RunLog};
use crate::tree::Node;

const RUN: [&str; 3] = [SUMMARY, DETAIL, "spl.txt"];
const POWER: [&str; 5] = ["client.json", "client.log", "ptd_logs.txt", "server.json", "server.log"];

/// Judges the measurement; returns the metric if the files contain it.
pub fn judge(place: &Place<'_, '_>, facts: &Facts<'_>, issues: &mut Issues) -> Option<Energy> {
    let folder = place.entry.folder.folder("performance")?;
    for (name, required, optional) in [
        ("run_1", &RUN[..], &[ACCURACY_LOG][..]),
        ("ranging", &RUN[..], &[ACCURACY_LOG][..]),
        ("power", &POWER[..], &[][..]),
    ] {
        let path = folder.path().join(name);
        match folder.folder(name) {
            None => issues.add(&POWER_FILES, Location::path(&path), "the folder does not exist"),
            Some(folder) => check_files(folder, required, optional, issues),
        }
    }
    check_ranging(place, folder, issues);
    let path = folder.path();
    let Some(scenario) = place.scenario else {
        issues.add(
            &POWER_METRIC,
            Location::path(&path),
            "the scenario is unknown and has no power metric",
        );
        return None;
    };
    let absolute = folder.absolute();
    let round = place.round.version;
    let log = log_of_run(facts);
    let log = log.as_ref();
    let measurement = Measurement { folder: &absolute, shown: &path, round, scenario, log };
    let early = issues.program().one_file().filter(|tag| tag.does(Behavior::AllReadings));
    let program = match early {
        Some(tag) => power::PowerChecker::Early(tag),
        None if issues.program() == Program::Strict => power::PowerChecker::Rules,
        None => power::PowerChecker::Official,
    };
    let power = power::check(&measurement, program);
    if !place.options.skips(Skip::Power) {
        issues.extend(power.findings);
    }
    // Python also reads `inf` and `nan` as readings of the analyzer.
    let is_strict = issues.program() == Program::Strict;
    let energy = power.energy.filter(|energy| !is_strict || energy.value.is_finite());
    if energy.is_none() {
        issues.add(&POWER_METRIC, Location::path(&path), "the power metric cannot be computed");
    }
    energy
}

/// Checks that the log of ranging has a metric, which the single-file checker reads from v3.1 on.
fn check_ranging(place: &Place<'_, '_>, folder: Node<'_>, issues: &mut Issues) {
    let checker = issues.program().one_file();
    if checker.is_none_or(|tag| tag.does(Behavior::AllReadings)) {
        return;
    }
    let path = folder.path().join("ranging").join(DETAIL);
    let has_metric = detail::read(folder.file(format!("ranging/{DETAIL}")))
        .is_ok_and(|log| Run { place, log: &log, path: &path, is_audit: false }.has_metric(issues));
    if !has_metric {
        let message = "the log of ranging cannot be read, or has no metric";
        issues.add(&POWER_METRIC, Location::path(&path), message);
    }
}

/// Returns the values of the detail log that has been read already, so that no file is read
/// twice.
fn log_of_run(facts: &Facts<'_>) -> Option<RunLog> {
    let (log, sha1) = facts.performance.as_ref().ok().zip(facts.performance_sha1.clone())?;
    let text = |key: &str| log.text(key).map(str::to_owned);
    Some(RunLog {
        sha1,
        begin: text("power_begin"),
        end: text("power_end"),
        queries: log.whole("result_query_count"),
        rate: log.number("result_qps_with_loadgen_overhead"),
        generated: log
            .whole("generated_query_count")
            .and_then(|queries| queries.checked_mul(log.whole("generated_samples_per_query")?)),
        scenario: text("effective_scenario"),
    })
}

fn check_files(folder: Node<'_>, required: &[&str], optional: &[&str], issues: &mut Issues) {
    if let Some(mismatch) = files::mismatch(folder, required, optional) {
        let path = folder.path();
        issues.add(&POWER_FILES, Location::path(&path), mismatch);
    }
}
