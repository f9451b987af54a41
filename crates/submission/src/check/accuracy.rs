//! Checks the accuracy of a result.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::catalogue::*;
use super::errors::{check_marks, first_error, has_errors, has_errors_by_rules};
use super::issues::{Issues, Location};
use super::{Place, Program, Skip};
use crate::entry::DivisionFolder;
use crate::facts::detail::DetailLog;
use crate::layout::{ACCURACY_LOG, ACCURACY_TEXT, DETAIL};
use crate::python;
use crate::tree::{EntryKind, Node};
use dyno_rules::Behavior;
use dyno_rules::accuracy::{AccuracyText, MetricValue};

/// Maximum size of a truncated accuracy log, in bytes.
const LARGEST_LOG: u64 = 10240;
/// Maximum number of characters of a value in a finding.
const LONGEST_SHOWN: usize = 40;

/// Metric that is an error, so that lower is better.
pub const ERROR: &str = "DLRM_NE";

/// Metrics of a result in the order of the text, for the table of results.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Accuracy(Vec<(String, String)>);

impl Accuracy {
    /// Creates the accuracy of metrics with their values.
    pub fn from_metrics<'v>(metrics: impl IntoIterator<Item = (&'v str, &'v Value)>) -> Self {
        let metrics = metrics.into_iter();
        Self(metrics.map(|(metric, value)| (metric.to_owned(), python::text(value))).collect())
    }

    /// Creates an accuracy whose text does not name its metrics.
    pub fn from_text(text: String) -> Self {
        Self(vec![(String::new(), text)])
    }

    fn set(&mut self, metric: &str, value: &str) {
        match self.0.iter_mut().find(|(known, _)| known == metric) {
            Some((_, old)) => value.clone_into(old),
            None => self.0.push((metric.to_owned(), value.to_owned())),
        }
    }

    /// Whether no metric is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the value of a metric.
    pub fn value(&self, metric: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == metric).map(|(_, value)| value.as_str())
    }

    /// Formats `METRIC: value` pairs, separated by two blanks; a value without a metric stands alone.
    pub fn text(&self) -> String {
        let pairs = self.0.iter().map(|(metric, value)| match metric.as_str() {
            "" => value.clone(),
            metric => format!("{metric}: {value}"),
        });
        pairs.collect::<Vec<_>>().join("  ")
    }
}

/// Checks that `accuracy.txt` meets every target. The official checkers read lines only until
/// every metric and the hash have been found; the rules use all lines.
pub fn check_text(
    place: &Place<'_, '_>,
    content: &AccuracyText,
    path: &Path,
    issues: &mut Issues,
) -> Accuracy {
    let at = Location::path(path);
    let mut accuracy = Accuracy::default();
    if !content.is_utf8 {
        issues.add(&ACCURACY_UNREADABLE, at, "accuracy.txt is not UTF-8");
        return accuracy;
    }
    let targets = place.targets();
    let mut met = vec![false; targets.len()];
    let mut hash = None;
    let mut found = values(content, issues.program()).iter().peekable();
    let mut hashes = content.hashes.iter().filter(|hash| hash.is_word()).peekable();
    while let Some(line) =
        [found.peek().map(|f| f.line), hashes.peek().map(|h| h.line)].into_iter().flatten().min()
    {
        let at = at.line(Some(line));
        while let Some(found) = found.next_if(|found| found.line == line) {
            let Some(value) = number_of(found, at, issues) else { return accuracy };
            for (target, is_met) in targets.iter().zip(&mut met) {
                if target.metric != found.metric {
                    continue;
                }
                let message = format!("{} is {}", found.metric, found.value);
                if let Some(least) = target.at_least {
                    accuracy.set(&found.metric, &found.value);
                    // By the rules, the bound of an error is an upper bound, which is checked
                    // with its unit.
                    if value >= least || is_error(&found.metric, issues) {
                        *is_met = true;
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
            targets.iter().zip(&met).all(|(target, is_met)| *is_met || target.at_least.is_none());
        if all && hash.is_some() && issues.program() != Program::Strict {
            break;
        }
    }
    for (target, is_met) in targets.iter().zip(met) {
        let found = accuracy.0.iter().any(|(metric, _)| *metric == target.metric);
        if target.at_least.is_some() && !is_met && !found {
            issues.add(&ACCURACY_METRIC_MISSING, at, format!("{} is missing", target.metric));
        }
    }
    if hash.is_none() {
        issues.add(&ACCURACY_HASH, at, "the line `hash=` with letters and digits is missing");
    }
    accuracy
}

/// Returns the value of a metric, or reports that it is not a number. To Python, a number that is too
/// large is infinite.
fn number_of(found: &MetricValue, at: Location<'_>, issues: &mut Issues) -> Option<f64> {
    let is_strict = issues.program() == Program::Strict;
    let number = found.number().filter(|number| !is_strict || number.is_finite());
    if number.is_none() {
        let text: String = found.value.chars().take(LONGEST_SHOWN).collect();
        issues.add(&ACCURACY_UNREADABLE, at, format!("`{text}` is not a number"));
    }
    number
}

/// Returns the values that count. Early checkers read up to the line from which they know a value and
/// the hash, and take the last value.
fn values(content: &AccuracyText, program: Program) -> &[MetricValue] {
    let all = &content.metrics[..];
    if !program.does(Behavior::LastAccuracy) {
        return all;
    }
    let hash = content.hashes.iter().find(|hash| hash.is_word()).map(|hash| hash.line);
    let first = all.first().map(|found| found.line);
    let last_line = first.zip(hash).map_or(usize::MAX, |(first, hash)| first.max(hash));
    let read = &all[..all.partition_point(|found| found.line <= last_line)];
    &read[read.len().saturating_sub(1)..]
}

/// Whether lower values are better, by the rules.
fn is_error(metric: &str, issues: &Issues) -> bool {
    metric == ERROR && issues.program() == Program::Strict
}

/// Checks that the accuracy log exists and is truncated.
pub fn check_log(folder: Node<'_>, issues: &mut Issues) {
    let path = folder.path().join(ACCURACY_LOG);
    let at = Location::path(&path);
    match folder.child(ACCURACY_LOG).filter(|log| log.kind() != EntryKind::BrokenLink) {
        None => issues.add(&ACCURACY_LOG_MISSING, at, "the accuracy log is missing"),
        Some(log) if log.size() > LARGEST_LOG => {
            let message = format!("the accuracy log is {} bytes long", log.size());
            issues.add_expected(&ACCURACY_LOG_LARGE, at, message, format!("at most {LARGEST_LOG}"));
        }
        Some(_) => {}
    }
}

/// Checks that the accuracy run had no relevant errors.
pub fn check_errors(place: &Place<'_, '_>, log: &DetailLog, path: &Path, issues: &mut Issues) {
    check_marks(place, log, path, issues);
    let errors = &log.errors;
    let any = match issues.program() {
        program @ (Program::Mono | Program::Tag(_)) => has_errors(log, program),
        Program::Modular => errors.count > 0,
        Program::Strict => has_errors_by_rules(place.round, log),
    };
    let accepts = place.options.submission_exceptions && issues.program() != Program::Strict;
    if !any || (accepts && errors.not_uncommitted == 0) {
        return;
    }
    let (line, text) = first_error(place.round, log);
    let at = Location::path(path).line(line);
    issues.add(&ACCURACY_ERRORS, at, format!("the accuracy run had errors: {text}"));
}

/// Checks that the accuracy run covers the data set.
pub fn check_samples(place: &Place<'_, '_>, log: &DetailLog, path: &Path, issues: &mut Issues) {
    if place.options.skips(Skip::DatasetSize) {
        return;
    }
    let Some(benchmark) = place.model.benchmark else { return };
    let effective = "effective_accuracy_sample_count";
    let key = if log.value(effective).is_some() { effective } else { "qsl_reported_total_count" };
    let scenario_samples = place.scenario.and_then(|s| benchmark.accuracy_samples.get(s.name()));
    let wanted = scenario_samples.or_else(|| benchmark.accuracy_samples.get("all")).copied();
    let Some(wanted) = wanted.or(benchmark.dataset_samples) else {
        // Early rounds state no size, but every log states one.
        if issues.program() == Program::Strict && log.whole(key).is_none() {
            let at = Location::path(path).line(log.line_of(key));
            issues.add(&ACCURACY_SAMPLES, at, format!("the log has no `{key}`"));
        }
        return;
    };
    if log.whole(key) == Some(wanted) {
        return;
    }
    let found = log.value(key).map_or("missing".to_owned(), ToString::to_string);
    let at = Location::path(path).line(log.line_of(key));
    let is_own = place.submitter.division == DivisionFolder::Open && log.whole(key).is_some();
    if issues.program() == Program::Strict && is_own {
        // A custom model may use other data. The rules specify none for the open division, so
        // this is only a warning.
        let mut own = issues.another();
        let message = format!(
            "{key} is {found}, but the data set of {} has {wanted} samples; this may be another \
             data set",
            benchmark.name
        );
        own.add(&ACCURACY_SAMPLES, at, message);
        own.waive(&[&ACCURACY_SAMPLES]);
        return issues.append(own);
    }
    issues.add_expected(&ACCURACY_SAMPLES, at, format!("{key} is {found}"), wanted.to_string());
}

/// Checks that required outputs, such as images, exist.
pub fn check_outputs(place: &Place<'_, '_>, folder: Node<'_>, issues: &mut Issues) {
    let benchmark = place.model.benchmark.filter(|_| !place.options.skips(Skip::AccuracyOutputs));
    for (name, wanted) in benchmark.into_iter().flat_map(|benchmark| &benchmark.accuracy_outputs) {
        let path = folder.path().join(name);
        let existing: Vec<String> =
            folder.folder(name).into_iter().flat_map(Node::files).map(stem).collect();
        let missing: Vec<&str> =
            wanted.iter().filter(|name| !existing.contains(name)).map(String::as_str).collect();
        if !missing.is_empty() {
            let message = format!("the {name} {} are missing", missing.join(", "));
            issues.add(&ACCURACY_OUTPUTS, Location::path(&path), message);
        }
    }
}

/// Returns the name up to its first dot.
fn stem(file: Node<'_>) -> String {
    let name = file.text();
    name.split('.').next().unwrap_or_default().to_owned()
}

/// Returns the paths of `accuracy.txt` and of the detail log.
pub fn paths(folder: Node<'_>) -> (PathBuf, PathBuf) {
    let folder = folder.path();
    (folder.join(ACCURACY_TEXT), folder.join(DETAIL))
}
