//! Judges a result by all its files.

use std::path::Path;

use super::copies::SubmittedLog;
use super::logs::Purpose;
use super::{
    SystemInfo, audits, bounds, conf, copies, datacenter, derive, inferred, keys, logs, lower,
    marks, quality, runs, settings, summary,
};
use crate::check::catalogue::*;
use crate::check::endpoint::EndpointResult;
use crate::check::files;
use crate::check::issues::{Issues, Location};
use crate::check::performance::{Metric, Run};
use crate::check::place::Place;
use crate::check::provenance::Judge;
use crate::check::rows::ValidResult;
use crate::check::system::suite;
use crate::check::work::Work;
use crate::check::{Program, Skip, accuracy, audits as texts, measurement, modular, powered};
use crate::entry::Entry;
use crate::facts::Facts;
use crate::facts::detail::DetailLog;
use crate::layout::{ACCURACY_LOG, ACCURACY_TEXT, DETAIL, SUMMARY};
use crate::power::Energy;
use crate::table::{Column, Row};
use crate::tree::Node;
use dyno_rules::{RuleScenario, Suite, Version};

const UNFETCHED: &str = "is a pointer of Git LFS instead of the log; run `git lfs pull`";

/// Outcome of a model.
pub(super) struct ModelOutcome {
    pub(super) issues: Issues,
    /// Results that are not skipped, with their index in the model's results.
    pub(super) results: Vec<(usize, ResultOutcome)>,
}

/// Outcome of a result.
pub(super) struct ResultOutcome {
    pub(super) issues: Issues,
    pub(super) metric: Option<f64>,
    pub(super) rows: Vec<Row>,
    pub(super) logs: Vec<SubmittedLog>,
}

impl ModelOutcome {
    /// Judges all results of the model. One may be inferred from another.
    pub(super) fn judge(work: &Work<'_, '_, SystemInfo>) -> Self {
        let mut issues = Issues::new(Judge::new(work.round.version, work.options));
        super::check_model(work, &mut issues);
        let read: Vec<(&Entry<'_>, Facts<'_>)> =
            work.model.results.iter().map(|entry| (entry, work.facts(entry))).collect();
        let judge = |(index, (entry, facts)): (usize, &(&Entry<'_>, Facts<'_>))| {
            let mut judged = work.judge(entry, facts);
            inferred::check_copy(&read, index, &mut judged.issues);
            (index, judged)
        };
        // Another result may be inferred from a skipped one.
        let skipped = &work.options.scenarios_to_skip;
        let chosen =
            read.iter().enumerate().filter(|(_, (entry, _))| !skipped.contains(&entry.name));
        Self { issues, results: chosen.map(judge).collect() }
    }
}

impl Work<'_, '_, SystemInfo> {
    fn judge(&self, entry: &Entry<'_>, facts: &Facts<'_>) -> ResultOutcome {
        let mut issues = Issues::new(Judge::new(self.round.version, self.options));
        let place = self.place(entry, entry.scenario, self.system_info.json());
        if entry.scenario.is_none() {
            let path = entry.folder.path();
            issues.add(&SCENARIO_UNKNOWN, Location::path(&path), "is not a scenario");
        }
        self.check_measurement(&place, facts, &mut issues);
        let endpoint_result = EndpointResult::find(&place, facts);
        let (quality, metric) = match &endpoint_result {
            Some(result) => (result.accuracy(&mut issues), result.performance(&mut issues)),
            None => {
                let quality = self.check_accuracy(&place, facts, &mut issues);
                quality::check_length(&place, facts, &mut issues);
                (quality, self.check_performance(&place, facts, &mut issues))
            }
        };
        lower::check_copy(&place, &mut issues);
        runs::check(&place, facts, &mut issues);
        conf::check(&place, facts, &mut issues);
        let energy = entry.power().and_then(|_| powered::judge(&place, facts, &mut issues));
        if let Some(result) = &endpoint_result {
            result.audits(&mut issues);
        } else if self.submitter.division.is_closed_or_network()
            && !place.options.skips(Skip::Compliance)
        {
            self.check_audits(&place, facts, &mut issues);
        }
        audits::warn_of_others(&place, facts, self.submitter.division, &mut issues);
        if let Some(metric) = &metric {
            datacenter::check_bandwidth(&place, facts, metric.value, &mut issues);
        }
        let rows = self.rows(&place, metric.as_ref(), &quality, energy, facts, &mut issues);
        let logs = copies::logs_of(&place, facts);
        ResultOutcome { issues, metric: metric.map(|metric| metric.value), rows, logs }
    }

    fn rows(
        &self,
        place: &Place<'_, '_>,
        metric: Option<&Metric>,
        accuracy: &accuracy::Accuracy,
        energy: Option<Energy>,
        facts: &Facts<'_>,
        issues: &mut Issues,
    ) -> Vec<Row> {
        let measurement = facts.measurement.as_ref().and_then(|file| file.json.as_ref().ok());
        let Some((metric, measurement)) = metric.zip(measurement) else { return Vec::new() };
        let audited = self.submitter.division.is_closed_or_network()
            && !place.options.skips(Skip::Compliance);
        let status = self.system_info.json().get("status").and_then(serde_json::Value::as_str);
        let scenario = match place.scenario {
            Some(scenario) => scenario.name(),
            None => &place.entry.name,
        };
        let own = vec![
            (Column::Availability, status.unwrap_or_default().to_lowercase()),
            (Column::Scenario, scenario.to_owned()),
            (Column::Location, place.entry.folder.path().to_string_lossy().into_owned()),
            (Column::Compliance, u8::from(audited).to_string()),
            (Column::Errors, "0".to_owned()),
            (Column::Inferred, u8::from(metric.is_inferred).to_string()),
            (Column::TotalAccelerators, modular::total_accelerators(self.system_info.json())),
            (Column::PrivateId, self.system_info.private_id.clone()),
            (
                Column::DesignPower,
                modular::design_power(
                    self.submitter,
                    self.system,
                    self.system_info.json(),
                    place.round,
                    Program::Strict,
                )
                .unwrap_or_default()
                .unwrap_or_default(),
            ),
        ];
        ValidResult { place, metric, accuracy, energy, measurement, own }.rows(issues)
    }

    fn check_measurement(&self, place: &Place<'_, '_>, facts: &Facts<'_>, issues: &mut Issues) {
        let Some(folder) = place.entry.measurements else {
            let path = place.entry.folder.path();
            return issues.add(
                &MEASUREMENT_FOLDER,
                Location::path(&path),
                "the measurement is not described",
            );
        };
        if facts.endpoint.is_some() {
            measurement::check_endpoint_files(place, folder, issues);
        } else {
            measurement::check_files(place, folder, issues);
        }
        if place.entry.power().is_some() {
            measurement::check_power_files(place, folder, issues);
        }
        if let Some((file, json)) = facts
            .measurement
            .as_ref()
            .and_then(|measurement| Some((measurement.file, measurement.json.as_ref().ok()?)))
        {
            marks::check_fields(json, &file.path(), issues);
        }
        let Some(measurement) = &facts.measurement else {
            let path = folder.path();
            return issues.add(
                &MEASUREMENT_JSON_MISSING,
                Location::path(&path),
                "the JSON file that describes the measurement is missing",
            );
        };
        let path = measurement.file.path();
        match &measurement.json {
            Ok(json) => measurement::check_fields(place, json, &path, issues),
            Err(problem) => {
                issues.add(
                    &MEASUREMENT_JSON,
                    Location::path(&path).line(problem.line),
                    problem.why.clone(),
                );
            }
        }
        measurement::check_code(place, measurement, issues);
    }

    fn may_infer(&self) -> bool {
        matches!(suite(self.system_info.json(), self.round), Some(Suite::Edge | Suite::Both))
    }
}

impl Work<'_, '_, SystemInfo> {
    fn check_accuracy(
        &self,
        place: &Place<'_, '_>,
        facts: &Facts<'_>,
        issues: &mut Issues,
    ) -> accuracy::Accuracy {
        let Some(folder) = place.entry.accuracy() else {
            let path = place.entry.folder.path().join("accuracy");
            let message = "the accuracy run is missing";
            issues.add(&ACCURACY_TEXT_MISSING, Location::path(&path), message);
            return accuracy::Accuracy::default();
        };
        let required = [ACCURACY_LOG, SUMMARY, DETAIL, ACCURACY_TEXT];
        let exact_since = Version::new(4, 1);
        check_files(place, &ACCURACY_FILES, exact_since, folder, &required, &[], issues);
        accuracy::check_log(folder, issues);
        let (text, detail) = accuracy::paths(folder);
        let mut found = accuracy::Accuracy::default();
        let mut own = issues.another();
        accuracy::check_outputs(place, folder, &mut own);
        match &facts.accuracy_text {
            Ok(content) => {
                found = accuracy::check_text(place, content, &text, &mut own);
                quality::check_hash(content, &text, folder.file(ACCURACY_LOG), issues);
                quality::check_answers(folder.file(ACCURACY_LOG), issues);
                quality::check_repeats(content, &text, issues);
                if let Some(benchmark) = self.model.benchmark {
                    quality::check_units(benchmark, place.scenario, content, &text, &mut own);
                }
            }
            Err(_) => issues.add(&ACCURACY_TEXT_MISSING, Location::path(&text), "cannot be read"),
        }
        // The open division allows any accuracy but requires that it is stated.
        if !self.submitter.division.is_closed_or_network() {
            own.waive(&[&ACCURACY_LOW, &ACCURACY_HIGH, &ACCURACY_UNIT, &ACCURACY_OUTPUTS]);
        }
        issues.append(own);
        match &facts.accuracy {
            Ok(log) if log.is_pointer => {
                issues.add(&ACCURACY_UNREADABLE, Location::path(&detail), UNFETCHED);
            }
            Ok(log) => {
                self.check_log(place, log, &detail, Purpose::Accuracy, issues);
                settings::check(place, log, &detail, issues);
                accuracy::check_errors(place, log, &detail, issues);
                accuracy::check_samples(place, log, &detail, issues);
                self.check_scenario(place, facts, &detail, issues);
                check_summary(folder, log, Purpose::Accuracy, issues);
            }
            Err(_) => issues.add(
                &ACCURACY_UNREADABLE,
                Location::path(&detail),
                "no detail log can be read",
            ),
        }
        found
    }

    fn check_log(
        &self,
        place: &Place<'_, '_>,
        log: &DetailLog,
        path: &Path,
        purpose: Purpose,
        issues: &mut Issues,
    ) {
        // Performance runs have their own check for this.
        if let Some(line) = log.broken(false).filter(|_| purpose == Purpose::Accuracy) {
            let at = Location::path(path).line(Some(line));
            let message = "a line is not a JSON object with key and value, or not UTF-8";
            issues.add(&ACCURACY_UNREADABLE, at, message);
        }
        logs::check_identity(log, path, purpose, issues);
        logs::check(log, path, purpose, place.round, &place.round.seeds, issues);
        keys::check(log, path, purpose, place.round, issues);
    }

    /// Checks that the accuracy run has the scenario of the result, or that of the run from which the
    /// result is inferred.
    fn check_scenario(
        &self,
        place: &Place<'_, '_>,
        facts: &Facts<'_>,
        path: &Path,
        issues: &mut Issues,
    ) {
        let (Some(wanted), Ok(log)) = (place.scenario, &facts.accuracy) else { return };
        let played = log.text("effective_scenario");
        let measured = facts.performance.as_ref().ok();
        let measured = measured.and_then(|log| log.text("effective_scenario"));
        let is_free = !self.submitter.division.is_closed_or_network();
        let is_inferred = is_free || measured.is_none() || measured == played;
        if !logs::may_stand_for(log, wanted, self.may_infer() && is_inferred) {
            let played = played.unwrap_or("none");
            let at = Location::path(path).line(log.line_of("effective_scenario"));
            issues.add_expected(
                &LOG_SCENARIO,
                at,
                format!("belongs to a run of {played}"),
                wanted.name(),
            );
        }
    }

    fn check_performance(
        &self,
        place: &Place<'_, '_>,
        facts: &Facts<'_>,
        issues: &mut Issues,
    ) -> Option<Metric> {
        let numbers = (1..=place.runs()).chain(place.confirming_runs());
        let logs: Vec<_> =
            numbers.map(|number| (number, place.log_of_run(number, facts))).collect();
        let mut metrics = Vec::new();
        for (index, (number, log)) in logs.iter().enumerate() {
            let log = log.as_ref().as_ref().ok();
            metrics.push(self.check_run(place, *number, log, issues));
            let mut before = logs[..index].iter().filter(|_| log.is_some());
            if let Some((first, _)) = before.find(|(_, other)| other.as_ref().as_ref().ok() == log)
            {
                let path = place.entry.folder.path().join(format!("performance/run_{number}"));
                issues.add(&RUN_TWICE, Location::path(&path), format!("is a copy of run_{first}"));
            }
        }
        // All runs must be valid; the lowest metric is the result.
        let metrics: Option<Vec<Metric>> = metrics.into_iter().collect();
        metrics?.into_iter().min_by(|a, b| a.value.total_cmp(&b.value))
    }

    fn check_run(
        &self,
        place: &Place<'_, '_>,
        number: u64,
        log: Option<&DetailLog>,
        issues: &mut Issues,
    ) -> Option<Metric> {
        let Some(folder) = place.entry.numbered_run(number) else {
            let path = place.entry.folder.path().join(format!("performance/run_{number}"));
            let at = Location::path(&path);
            match place.runs() {
                1 => issues.add(&RUN_FOLDER, at, "the performance run is missing"),
                runs => {
                    let expected = format!("{runs} runs; the lowest is the result");
                    issues.add_expected(&RUN_FOLDER, at, "the run is missing", expected);
                }
            }
            return None;
        };
        let required: &[&str] = match place.entry.power() {
            Some(_) => &[SUMMARY, DETAIL, "spl.txt"],
            None => &[SUMMARY, DETAIL],
        };
        let exact_since = Version::new(3, 1);
        check_files(place, &RUN_FILES, exact_since, folder, required, &[ACCURACY_LOG], issues);
        let path = folder.path().join(DETAIL);
        let Some(log) = log else {
            issues.add(&RUN_UNREADABLE, Location::path(&path), "no detail log can be read");
            return None;
        };
        if log.is_pointer {
            issues.add(&RUN_UNREADABLE, Location::path(&path), UNFETCHED);
            return None;
        }
        self.check_log(place, log, &path, Purpose::Performance, issues);
        settings::check(place, log, &path, issues);
        logs::check_simulation(log, &path, issues);
        check_summary(folder, log, Purpose::Performance, issues);
        check_min_queries(log, &path, issues);
        let played = log.text("effective_scenario").and_then(RuleScenario::named);
        if let Some(played) = played {
            derive::check(log, &path, derive::RunRules::new(place, played), issues);
            bounds::check(place, log, &path, played, issues);
        }
        if matches!(place.scenario, Some(RuleScenario::Server | RuleScenario::Interactive)) {
            note_server_metric(place, log, &path, issues);
        }
        Run { place, log, path: &path, is_audit: false }.judge(issues)
    }

    fn check_audits(&self, place: &Place<'_, '_>, facts: &Facts<'_>, issues: &mut Issues) {
        texts::judge(place, facts, issues);
        let Ok(run) = &facts.performance else { return };
        let Some(played) = run.text("effective_scenario").and_then(RuleScenario::named) else {
            return;
        };
        let wanted = place.audits();
        for audit in facts.audits.iter().filter(|audit| wanted.contains(&audit.name.as_str())) {
            audits::check(place, facts, audit, played, issues);
            let Ok(log) = &audit.performance else { continue };
            let folder = audit.folder.folder("performance/run_1");
            let path = audit.folder.path().join("performance/run_1").join(DETAIL);
            if log.is_pointer {
                let is_text = place.reads_audits_as_texts();
                let check = if is_text { &AUDIT_PERFORMANCE } else { &RUN_UNREADABLE };
                issues.add(check, Location::path(&path), UNFETCHED);
                continue;
            }
            // The runs of this pair end after the loaded samples.
            if !audit.name.starts_with("TEST04-") {
                derive::check(log, &path, derive::RunRules::new(place, played), issues);
                bounds::check(place, log, &path, played, issues);
            }
            self.check_log(place, log, &path, Purpose::Performance, issues);
            if let Some(folder) = folder {
                check_summary(folder, log, Purpose::Performance, issues);
            }
        }
    }
}

/// Checks that a folder of logs has the required files and, from `exact_since` up to v5.1, no others.
/// In other rounds, neither the rules nor the official program forbid other files.
fn check_files(
    place: &Place<'_, '_>,
    check: &'static Check,
    exact_since: Version,
    folder: Node<'_>,
    required: &[&str],
    optional: &[&str],
    issues: &mut Issues,
) {
    let path = folder.path();
    let mut difference = files::difference(folder, required, optional);
    if place.round.version < exact_since {
        difference.extra.clear();
    }
    if let Some(mismatch) = difference.sentence() {
        let mut own = issues.another();
        own.add(check, Location::path(&path), mismatch);
        let may_have_more = place.round.version > Version::new(5, 1) && !place.options.forensic;
        if may_have_more && difference.missing.is_empty() {
            own.waive(&[check]);
        }
        issues.append(own);
    }
    let empty = |name: &&&str| folder.file(name).is_some_and(|file| file.size() == 0);
    for name in required.iter().filter(empty).filter(|name| **name != ACCURACY_LOG) {
        issues.add(check, Location::path(&path.join(name)), "is empty");
    }
}

fn check_summary(folder: Node<'_>, log: &DetailLog, purpose: Purpose, issues: &mut Issues) {
    // Before v1.0, the values of a run are read from this summary.
    if log.is_plain {
        return;
    }
    // Missing and empty files are reported by the check of the file list.
    if let Some(file) = folder.file(SUMMARY).filter(|file| file.size() > 0) {
        summary::check(file, log, purpose, issues);
    }
}

/// Checks that the minimum number of queries is not 0, which would disable it. Early stopping
/// determines how many queries a run needs.
fn check_min_queries(log: &DetailLog, path: &Path, issues: &mut Issues) {
    let key = "effective_min_query_count";
    if log.whole(key) == Some(0) {
        let at = Location::path(path).line(log.line_of(key));
        issues.add_expected(&RUN_MIN_QUERIES, at, format!("{key} is 0"), "at least 1");
    }
}

/// Notes which of two rates the round uses as the result of Server: the scheduled rate by the
/// FAQ of the rules, or the completed rate by the official programs from v5.0 on.
fn note_server_metric(place: &Place<'_, '_>, log: &DetailLog, path: &Path, issues: &mut Issues) {
    let pair = log
        .number("result_scheduled_samples_per_sec")
        .zip(log.number("result_completed_samples_per_sec"));
    let Some((scheduled, completed)) = pair else { return };
    let scenario = place.scenario.unwrap_or(RuleScenario::Server);
    let own = place.model.benchmark.and_then(|benchmark| benchmark.result_keys.get(&scenario));
    let key = own.or_else(|| place.round.result_keys.get(&scenario));
    let key = key.map_or("result_scheduled_samples_per_sec", String::as_str);
    let at = Location::path(path).line(log.line_of("result_completed_samples_per_sec"));
    let message = format!(
        "{} uses {key}; samples/s: {scheduled} scheduled, {completed} completed",
        place.round.version
    );
    issues.add(&SERVER_METRIC, at, message);
}
