//! The accuracy of a result.

use std::path::{Path, PathBuf};

use super::catalogue::*;
use super::issues::{At, Issues};
use super::{Place, Program, Skip};
use crate::entry::DivisionFolder;
use crate::facts::detail::DetailLog;
use crate::layout::{ACCURACY_LOG, ACCURACY_TEXT, DETAIL};
use crate::python;
use crate::tree::Node;
use dyno_rules::accuracy::AccuracyText;

/// Size that the accuracy log is cut to, at most.
const LARGEST_LOG: u64 = 10240;

/// The metric that is an error.
pub const ERROR: &str = "DLRM_NE";

/// The metrics that were found, in the order in which they were: what the table of
/// results says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Accuracy(Vec<(String, String)>);

impl Accuracy {
    /// One metric.
    pub fn of(metric: &str, value: &str) -> Self {
        Self(vec![(metric.to_owned(), value.to_owned())])
    }

    fn set(&mut self, metric: &str, value: &str) {
        match self.0.iter_mut().find(|(known, _)| known == metric) {
            Some((_, old)) => value.clone_into(old),
            None => self.0.push((metric.to_owned(), value.to_owned())),
        }
    }

    /// `METRIC: value` pairs, two blanks between.
    pub fn text(&self) -> String {
        let pairs = self.0.iter().map(|(metric, value)| format!("{metric}: {value}"));
        pairs.collect::<Vec<_>>().join("  ")
    }
}

/// Whether `accuracy.txt` says that every target is met, as the official programs read
/// it: line by line, until every metric and the hash were seen. By the rules, what
/// follows counts as well.
pub fn check_text(
    place: &Place<'_, '_>,
    said: &AccuracyText,
    path: &Path,
    issues: &mut Issues,
) -> Accuracy {
    let at = At::path(path);
    let mut accuracy = Accuracy::default();
    if !said.is_utf8 {
        issues.add(&ACCURACY_UNREADABLE, at, "accuracy.txt is no UTF-8");
        return accuracy;
    }
    let targets = place.targets();
    let mut seen = vec![false; targets.len()];
    let mut hash = None;
    let mut found = said.metrics.iter().peekable();
    let mut hashes = said.hashes.iter().filter(|hash| hash.is_word()).peekable();
    while let Some(line) =
        [found.peek().map(|f| f.line), hashes.peek().map(|h| h.line)].into_iter().flatten().min()
    {
        let at = at.line(Some(line));
        while let Some(found) = found.next_if(|found| found.line == line) {
            let Some(value) = found.number() else {
                issues.add(&ACCURACY_UNREADABLE, at, format!("`{}` is no number", found.value));
                return accuracy;
            };
            for (target, seen) in targets.iter().zip(&mut seen) {
                if target.metric != found.metric {
                    continue;
                }
                let message = format!("{} is {}", found.metric, found.value);
                if let Some(least) = target.at_least {
                    accuracy.set(&found.metric, &found.value);
                    // The rules have the bound of an error with its unit.
                    if value >= least || is_error(&found.metric, issues) {
                        *seen = true;
                    } else {
                        issues.add_expected(
                            &ACCURACY_LOW,
                            at,
                            message.clone(),
                            format!("at least {least}"),
                        );
                    }
                }
                if let Some(most) = target.at_most.filter(|most| value > *most) {
                    issues.add_expected(&ACCURACY_HIGH, at, message, format!("at most {most}"));
                }
            }
        }
        if let Some(line) = hashes.next_if(|hash| hash.line == line) {
            hash = Some(&line.text);
        }
        let all =
            targets.iter().zip(&seen).all(|(target, seen)| *seen || target.at_least.is_none());
        if all && hash.is_some() && issues.program() != Program::Strict {
            break;
        }
    }
    for (target, seen) in targets.iter().zip(seen) {
        let found = accuracy.0.iter().any(|(metric, _)| *metric == target.metric);
        if target.at_least.is_some() && !seen && !found {
            issues.add(&ACCURACY_METRIC_MISSING, at, format!("there is no {}", target.metric));
        }
    }
    if hash.is_none() {
        issues.add(&ACCURACY_HASH, at, "there is no line `hash=` with letters and digits");
    }
    accuracy
}

/// Whether less is better, by the rules.
fn is_error(metric: &str, issues: &Issues) -> bool {
    metric == ERROR && issues.program() == Program::Strict
}

/// Whether the accuracy log is there and cut.
pub fn check_log(folder: Node<'_>, issues: &mut Issues) {
    let path = folder.path().join(ACCURACY_LOG);
    let at = At::path(&path);
    match folder.child(ACCURACY_LOG) {
        None => issues.add(&ACCURACY_LOG_MISSING, at, "there is no accuracy log"),
        Some(log) if log.size() > LARGEST_LOG => {
            let message = format!("the accuracy log has {} bytes", log.size());
            issues.add_expected(&ACCURACY_LOG_LARGE, at, message, format!("at most {LARGEST_LOG}"));
        }
        Some(_) => {}
    }
}

/// Whether the accuracy run had errors that count.
pub fn check_errors(place: &Place<'_, '_>, log: &DetailLog, path: &Path, issues: &mut Issues) {
    if let Some(line) = log.unmarked {
        let at = At::path(path).line(Some(line));
        issues.add(&LOG_MARKS, at, "the line has no `metadata.is_error`");
    }
    let errors = &log.errors;
    let told = log.value("num_errors").and_then(python::number);
    let any = match issues.program() {
        Program::Mono => told.map_or(errors.count > 0, |told| told != 0.0),
        Program::Modular | Program::Strict => errors.count > 0,
    };
    let accepts = place.options.submission_exceptions && issues.program() != Program::Strict;
    if !any || (accepts && errors.not_uncommitted == 0) {
        return;
    }
    let (line, text) = errors.first.first().map_or((None, ""), |(line, text)| (Some(*line), text));
    let at = At::path(path).line(line);
    issues.add(&ACCURACY_ERRORS, at, format!("the accuracy run had errors: {text}"));
}

/// Whether the accuracy run covers the data set.
pub fn check_samples(place: &Place<'_, '_>, log: &DetailLog, path: &Path, issues: &mut Issues) {
    if place.options.skips(Skip::DatasetSize) {
        return;
    }
    let Some(benchmark) = place.model.benchmark else { return };
    let told = "effective_accuracy_sample_count";
    let key = if log.value(told).is_some() { told } else { "qsl_reported_total_count" };
    let of_scenario = place.scenario.and_then(|s| benchmark.accuracy_samples.get(s.name()));
    let wanted = of_scenario.or_else(|| benchmark.accuracy_samples.get("all")).copied();
    let Some(wanted) = wanted.or(benchmark.dataset_samples) else { return };
    if log.whole(key) == Some(wanted) {
        return;
    }
    let found = log.value(key).map_or("missing".to_owned(), ToString::to_string);
    let at = At::path(path).line(log.line_of(key));
    let is_own = place.submitter.division == DivisionFolder::Open && log.whole(key).is_some();
    if issues.program() == Program::Strict && is_own {
        // A model of one's own may be for other data. The rules do not name any for the
        // open division, so that it is told.
        let mut own = Issues::new(Program::Strict);
        let message = format!(
            "{key} is {found}, and the data set of {} has {wanted} samples: another data set?",
            benchmark.name
        );
        own.add(&ACCURACY_SAMPLES, at, message);
        own.waive(&[&ACCURACY_SAMPLES]);
        return issues.append(own);
    }
    issues.add_expected(&ACCURACY_SAMPLES, at, format!("{key} is {found}"), wanted.to_string());
}

/// Whether outputs that must be shown, such as images, are there.
pub fn check_outputs(place: &Place<'_, '_>, folder: Node<'_>, issues: &mut Issues) {
    let benchmark = place.model.benchmark.filter(|_| !place.options.skips(Skip::AccuracyOutputs));
    for (name, wanted) in benchmark.into_iter().flat_map(|benchmark| &benchmark.accuracy_outputs) {
        let path = folder.path().join(name);
        let there: Vec<String> =
            folder.folder(name).into_iter().flat_map(Node::files).map(stem).collect();
        let missing: Vec<&str> =
            wanted.iter().filter(|name| !there.contains(name)).map(String::as_str).collect();
        if !missing.is_empty() {
            let message = format!("there are no {name} {}", missing.join(", "));
            issues.add(&ACCURACY_OUTPUTS, At::path(&path), message);
        }
    }
}

/// A name up to its first dot.
fn stem(file: Node<'_>) -> String {
    let name = file.text();
    name.split('.').next().unwrap_or_default().to_owned()
}

/// Where the texts of the accuracy run lie.
pub fn paths(folder: Node<'_>) -> (PathBuf, PathBuf) {
    let folder = folder.path();
    (folder.join(ACCURACY_TEXT), folder.join(DETAIL))
}
