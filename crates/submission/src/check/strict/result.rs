//! A result of a scenario: everything its files say, and whether it counts.

use std::path::Path;

use super::logs::Purpose;
use super::{
    Described, audits, bounds, datacenter, derive, inferred, keys, logs, lower, marks, quality,
    settings, summary,
};
use crate::check::catalogue::*;
use crate::check::endpoint::OnEndpoint;
use crate::check::files;
use crate::check::issues::{At, Issues};
use crate::check::performance::{Metric, Run};
use crate::check::place::Place;
use crate::check::rows::Result_;
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
use dyno_rules::{Scenario, Suite};

/// A model whose results are judged, each by itself.
pub(super) struct Part {
    pub(super) issues: Issues,
    /// Those that are not left out, with their places among the results of the model.
    pub(super) results: Vec<(usize, Judged)>,
}

/// A result, judged by itself.
pub(super) struct Judged {
    pub(super) issues: Issues,
    pub(super) metric: Option<f64>,
    pub(super) rows: Vec<Row>,
}

impl Part {
    /// All results of the model: one may be inferred from another.
    pub(super) fn of(work: &Work<'_, '_, Described>) -> Self {
        let mut issues = Issues::new(Program::Strict);
        super::check_model(work, &mut issues);
        let read: Vec<(&Entry<'_>, Facts<'_>)> =
            work.model.results.iter().map(|entry| (entry, work.facts(entry))).collect();
        let judge = |(at, (entry, facts)): (usize, &(&Entry<'_>, Facts<'_>))| {
            let mut judged = work.judge(entry, facts);
            inferred::check_copy(&read, at, &mut judged.issues);
            (at, judged)
        };
        // What is left out may still be what another result is inferred from.
        let left_out = &work.options.scenarios_to_skip;
        let kept =
            read.iter().enumerate().filter(|(_, (entry, _))| !left_out.contains(&entry.name));
        Self { issues, results: kept.map(judge).collect() }
    }
}

impl Work<'_, '_, Described> {
    fn judge(&self, entry: &Entry<'_>, facts: &Facts<'_>) -> Judged {
        let mut issues = Issues::new(Program::Strict);
        let place = self.place(entry, entry.scenario, self.described.json());
        if entry.scenario.is_none() {
            let path = entry.folder.path();
            issues.add(&SCENARIO_UNKNOWN, At::path(&path), "is no scenario");
        }
        self.check_measurement(&place, facts, &mut issues);
        let on_endpoint = OnEndpoint::of(&place, facts);
        let (quality, metric) = match &on_endpoint {
            Some(on) => (on.accuracy(&mut issues), on.performance(&mut issues)),
            None => {
                let quality = self.check_accuracy(&place, facts, &mut issues);
                quality::check_length(&place, facts, &mut issues);
                (quality, self.check_performance(&place, facts, &mut issues))
            }
        };
        lower::check_copy(&place, &mut issues);
        let energy = entry.power().and_then(|_| powered::judge(&place, facts, &mut issues));
        if let Some(on) = &on_endpoint {
            on.audits(&mut issues);
        } else if self.submitter.division.is_closed_or_network()
            && !place.options.skips(Skip::Compliance)
        {
            self.check_audits(&place, facts, &mut issues);
        }
        audits::tell_others(&place, facts, self.submitter.division, &mut issues);
        if let Some(metric) = &metric {
            datacenter::check_bandwidth(&place, facts, metric.value, &mut issues);
        }
        let rows = self.rows(&place, metric.as_ref(), &quality, energy, facts, &mut issues);
        Judged { issues, metric: metric.map(|metric| metric.value), rows }
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
        let status = self.described.json().get("status").and_then(serde_json::Value::as_str);
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
            (Column::TotalAccelerators, modular::total_accelerators(self.described.json())),
            (Column::PrivateId, self.described.private_id.clone()),
            (
                Column::DesignPower,
                modular::design_power(
                    self.submitter,
                    self.system,
                    self.described.json(),
                    place.round,
                ),
            ),
        ];
        Result_ { place, metric, accuracy, energy, measurement, own }.rows(issues)
    }

    fn check_measurement(&self, place: &Place<'_, '_>, facts: &Facts<'_>, issues: &mut Issues) {
        let Some(folder) = place.entry.measurements else {
            let path = place.entry.folder.path();
            return issues.add(
                &MEASUREMENT_FOLDER,
                At::path(&path),
                "the measurement is not described",
            );
        };
        if facts.endpoint.is_some() {
            measurement::check_files_of_endpoint(place, folder, issues);
        } else {
            measurement::check_files(place, folder, issues);
        }
        if place.entry.power().is_some() {
            measurement::check_power_files(place, folder, issues);
        }
        if let Some((file, json)) =
            facts.measurement.as_ref().and_then(|of| Some((of.file, of.json.as_ref().ok()?)))
        {
            marks::check_fields(json, &file.path(), issues);
        }
        let Some(described) = &facts.measurement else {
            let path = folder.path();
            return issues.add(
                &MEASUREMENT_JSON_MISSING,
                At::path(&path),
                "there is no JSON file that describes the measurement",
            );
        };
        let path = described.file.path();
        match &described.json {
            Ok(json) => measurement::check_fields(place, json, &path, issues),
            Err(problem) => {
                issues.add(
                    &MEASUREMENT_JSON,
                    At::path(&path).line(problem.line),
                    problem.why.clone(),
                );
            }
        }
        measurement::check_code(place, described, issues);
    }

    fn may_infer(&self) -> bool {
        matches!(suite(self.described.json(), self.round), Some(Suite::Edge | Suite::Both))
    }
}

impl Work<'_, '_, Described> {
    fn check_accuracy(
        &self,
        place: &Place<'_, '_>,
        facts: &Facts<'_>,
        issues: &mut Issues,
    ) -> accuracy::Accuracy {
        let Some(folder) = place.entry.accuracy() else {
            let path = place.entry.folder.path().join("accuracy");
            issues.add(&ACCURACY_FILES, At::path(&path), "there is no such folder");
            return accuracy::Accuracy::default();
        };
        check_files(
            &ACCURACY_FILES,
            folder,
            &[ACCURACY_LOG, SUMMARY, DETAIL, ACCURACY_TEXT],
            &[],
            issues,
        );
        accuracy::check_log(folder, issues);
        accuracy::check_outputs(place, folder, issues);
        let (text, detail) = accuracy::paths(folder);
        let mut found = accuracy::Accuracy::default();
        let mut own = Issues::new(Program::Strict);
        match &facts.accuracy_text {
            Ok(said) => {
                found = accuracy::check_text(place, said, &text, &mut own);
                quality::check_hash(said, &text, folder.file(ACCURACY_LOG), issues);
                if let Some(benchmark) = self.model.benchmark {
                    quality::check_units(benchmark, place.scenario, said, &text, &mut own);
                }
            }
            Err(_) => issues.add(&ACCURACY_TEXT_MISSING, At::path(&text), "cannot be read"),
        }
        // The open division may have any accuracy, but must say which.
        if !self.submitter.division.is_closed_or_network() {
            own.waive(&[&ACCURACY_LOW, &ACCURACY_HIGH, &ACCURACY_UNIT]);
        }
        issues.append(own);
        match &facts.accuracy {
            Ok(log) => {
                self.check_log(place, log, &detail, Purpose::Accuracy, issues);
                settings::check(place, log, &detail, issues);
                accuracy::check_errors(place, log, &detail, issues);
                accuracy::check_samples(place, log, &detail, issues);
                self.check_scenario(place, log, &detail, issues);
                check_summary(folder, log, Purpose::Accuracy, issues);
            }
            Err(_) => issues.add(
                &ACCURACY_UNREADABLE,
                At::path(&detail),
                "there is no detail log that reads",
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
        // Of a performance run its own checks say so.
        if let Some(line) = log.broken(false).filter(|_| purpose == Purpose::Accuracy) {
            let at = At::path(path).line(Some(line));
            let message = "a line is no JSON object with a key, or no UTF-8";
            issues.add(&ACCURACY_UNREADABLE, at, message);
        }
        logs::check(log, path, purpose, place.round, &place.round.seeds, issues);
        keys::check(log, path, purpose, place.round, issues);
    }

    /// The log must be of this scenario, or of one that may stand for it.
    fn check_scenario(
        &self,
        place: &Place<'_, '_>,
        log: &DetailLog,
        path: &Path,
        issues: &mut Issues,
    ) {
        let Some(wanted) = place.scenario else { return };
        if !logs::stands_for(log, wanted, self.may_infer()) {
            let played = log.text("effective_scenario").unwrap_or("none");
            let at = At::path(path).line(log.line_of("effective_scenario"));
            issues.add_expected(
                &LOG_SCENARIO,
                at,
                format!("is of a run of {played}"),
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
        for (at, (number, log)) in logs.iter().enumerate() {
            let log = log.as_ref().as_ref().ok();
            metrics.push(self.check_run(place, *number, log, issues));
            let mut before = logs[..at].iter().filter(|_| log.is_some());
            if let Some((first, _)) = before.find(|(_, other)| other.as_ref().as_ref().ok() == log)
            {
                let path = place.entry.folder.path().join(format!("performance/run_{number}"));
                issues.add(&RUN_TWICE, At::path(&path), format!("is a copy of run_{first}"));
            }
        }
        // Each must count, and the least of them is the result.
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
            let at = At::path(&path);
            match place.runs() {
                1 => issues.add(&RUN_FOLDER, at, "there is no performance run"),
                runs => {
                    let expected = format!("{runs} runs, the least of which is the result");
                    issues.add_expected(&RUN_FOLDER, at, "there is no such run", expected);
                }
            }
            return None;
        };
        let required: &[&str] = match place.entry.power() {
            Some(_) => &[SUMMARY, DETAIL, "spl.txt"],
            None => &[SUMMARY, DETAIL],
        };
        check_files(&RUN_FILES, folder, required, &[ACCURACY_LOG], issues);
        let path = folder.path().join(DETAIL);
        let Some(log) = log else {
            issues.add(&RUN_UNREADABLE, At::path(&path), "there is no detail log that reads");
            return None;
        };
        self.check_log(place, log, &path, Purpose::Performance, issues);
        settings::check(place, log, &path, issues);
        check_summary(folder, log, Purpose::Performance, issues);
        check_least_queries(log, &path, issues);
        let played = log.text("effective_scenario").and_then(Scenario::named);
        if let Some(played) = played {
            derive::check(log, &path, derive::Judged::of(place, played), issues);
            bounds::check(place, log, &path, played, issues);
        }
        if matches!(place.scenario, Some(Scenario::Server | Scenario::Interactive)) {
            say_server_metric(place, log, &path, issues);
        }
        Run { place, log, path: &path, is_audit: false }.judge(issues)
    }

    fn check_audits(&self, place: &Place<'_, '_>, facts: &Facts<'_>, issues: &mut Issues) {
        texts::judge(place, facts, issues);
        let Ok(run) = &facts.performance else { return };
        let Some(played) = run.text("effective_scenario").and_then(Scenario::named) else { return };
        let wanted = place.model.benchmark.map_or(&[][..], |benchmark| &benchmark.audits);
        for audit in facts.audits.iter().filter(|audit| wanted.contains(&audit.name)) {
            audits::check(place, facts, audit, played, issues);
            let Ok(log) = &audit.performance else { continue };
            let folder = audit.folder.folder("performance/run_1");
            let path = audit.folder.path().join("performance/run_1").join(DETAIL);
            derive::check(log, &path, derive::Judged::of(place, played), issues);
            bounds::check(place, log, &path, played, issues);
            self.check_log(place, log, &path, Purpose::Performance, issues);
            if let Some(folder) = folder {
                check_summary(folder, log, Purpose::Performance, issues);
            }
        }
    }
}

fn check_files(
    check: &'static Check,
    folder: Node<'_>,
    required: &[&str],
    optional: &[&str],
    issues: &mut Issues,
) {
    let path = folder.path();
    if let Some(mismatch) = files::mismatch(folder, required, optional) {
        issues.add(check, At::path(&path), mismatch);
    }
    let empty = |name: &&&str| folder.file(name).is_some_and(|file| file.size() == 0);
    for name in required.iter().filter(empty).filter(|name| **name != ACCURACY_LOG) {
        issues.add(check, At::path(&path.join(name)), "is empty");
    }
}

fn check_summary(folder: Node<'_>, log: &DetailLog, purpose: Purpose, issues: &mut Issues) {
    // That it is missing or empty is a matter of the list of files.
    if let Some(file) = folder.file(SUMMARY).filter(|file| file.size() > 0) {
        summary::check(file, log, purpose, issues);
    }
}

/// Early stopping says how many queries a run needs; a least number of none says that
/// nobody asked for any.
fn check_least_queries(log: &DetailLog, path: &Path, issues: &mut Issues) {
    let key = "effective_min_query_count";
    if log.whole(key) == Some(0) {
        let at = At::path(path).line(log.line_of(key));
        issues.add_expected(&RUN_MIN_QUERIES, at, format!("{key} is 0"), "at least 1");
    }
}

/// Two numbers are called the result of Server: what was scheduled, by the FAQ of the
/// rules, and what was completed, by the official programs from v5.0 on.
fn say_server_metric(place: &Place<'_, '_>, log: &DetailLog, path: &Path, issues: &mut Issues) {
    let pair = log
        .number("result_scheduled_samples_per_sec")
        .zip(log.number("result_completed_samples_per_sec"));
    let Some((scheduled, completed)) = pair else { return };
    let scenario = place.scenario.unwrap_or(Scenario::Server);
    let own = place.model.benchmark.and_then(|benchmark| benchmark.result_keys.get(&scenario));
    let key = own.or_else(|| place.round.result_keys.get(&scenario));
    let key = key.map_or("result_scheduled_samples_per_sec", String::as_str);
    let at = At::path(path).line(log.line_of("result_completed_samples_per_sec"));
    let message = format!(
        "{} takes {key}; samples/s are {scheduled} as scheduled, {completed} as completed",
        place.round.version
    );
    issues.add(&SERVER_METRIC, at, message);
}
