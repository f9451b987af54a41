//! Checks that models with samples of different sizes issue each sample equally often.
//!
//! LoadGen logs whether it does since the middle of 4.1. The settings beside a measurement prove it
//! for logs that cannot.

use std::path::PathBuf;

use serde_json::Value;

use super::Program;
use super::catalogue::RUN_EQUAL_ISSUE;
use super::issues::Issues;
use super::performance::Run;
use super::place::Place;
use crate::facts::text::{self, TextFile};
use crate::python;
use crate::tree::Node;
use dyno_rules::{Behavior, Version};

const KEY: &str = "effective_sample_concatenate_permutation";
const SETTING: &str = "sample_concatenate_permutation";
/// Files with settings; a later file overrides an earlier one.
const FILES: [&str; 2] = ["mlperf.conf", "user.conf"];

/// Checks a run.
pub(super) fn check(run: &Run<'_, '_>, issues: &mut Issues) {
    let is_on = match issues.program() {
        Program::Modular => return,
        Program::Strict => by_the_rules(run),
        Program::Mono | Program::Tag(_) => as_one_file(run, issues.program()),
    };
    if !is_on {
        let message = match run.log.value(KEY) {
            Some(_) => format!("{KEY} is off"),
            None => format!(
                "{KEY} is missing in the log, and {SETTING} is missing in {}",
                FILES.join(" or ")
            ),
        };
        issues.add_expected(&RUN_EQUAL_ISSUE, run.at(KEY), message, "true");
    }
}

fn by_the_rules(run: &Run<'_, '_>) -> bool {
    let place = run.place;
    let is_asked = place.model.benchmark.is_some_and(|benchmark| benchmark.equal_issue)
        && place.submitter.division.is_closed_or_network()
        && place.round.version >= Version::new(4, 1);
    if !is_asked || run.is_audit {
        return true;
    }
    run.log.value(KEY).map_or_else(|| is_in_settings(place), is_true)
}

fn as_one_file(run: &Run<'_, '_>, program: Program) -> bool {
    let Run { place, .. } = *run;
    let Some(checker) = program.one_file() else { return true };
    let closed = place.submitter.division.is_closed_or_network();
    if program.does(Behavior::EqualIssueByConf) {
        // It compares the logged truth value with a text, so that no log is proof.
        let is_logged = run.log.text(KEY) == Some("true");
        let is_asked = closed && !run.is_audit && checker.requires_equal_issue(run.model());
        let is_set = || checker.requires_equal_issue(&place.model.name) && is_in_settings(place);
        return !is_asked || is_logged || is_set();
    }
    let is_asked = checker.requires_equal_issue(run.model())
        && (closed || !program.does(Behavior::EqualIssueOfClosed));
    !is_asked || run.log.value(KEY).is_some_and(equals_true)
}

/// Whether a value equals `True` in Python, as 1 does and a text does not.
fn equals_true(value: &Value) -> bool {
    !value.is_string() && python::number(value) == Some(1.0)
}

fn is_true(value: &Value) -> bool {
    match value {
        Value::String(text) => text == "true",
        value => python::is_true(value),
    }
}

/// Whether the settings beside the measurement issue each sample equally often.
fn is_in_settings(place: &Place<'_, '_>) -> bool {
    let Some(folder) = place.entry.measurements else { return false };
    let name = &place.model.name;
    let model = name.strip_suffix("-99.9").or_else(|| name.strip_suffix("-99")).unwrap_or(name);
    let set = |file: &&str| setting_of(folder, file, model, &place.entry.name);
    FILES.iter().rev().find_map(set).unwrap_or(false)
}

/// Returns the first value that a file sets for a model and a scenario, if it sets one.
fn setting_of(folder: Node<'_>, file: &str, model: &str, scenario: &str) -> Option<bool> {
    let content = text::read(folder.file(file)).ok()?;
    content.text.lines().find_map(|line| value_of(line, model, scenario))
}

/// Returns the first line of settings beside the measurement that ends the checker of v4.1. It reads
/// them up to the line that it looks for, and splits each line.
pub(super) fn broken_settings(place: &Place<'_, '_>) -> Option<(PathBuf, usize)> {
    let model = &place.model.name;
    let checker = place.options.program.one_file()?;
    let is_read = checker.does(Behavior::EqualIssueByConf)
        && place.submitter.division.is_closed_or_network()
        && checker.requires_equal_issue(model);
    let folder = place.entry.measurements.filter(|_| is_read)?;
    FILES.iter().find_map(|name| {
        let file = folder.file(name)?;
        let content = text::read(Some(file)).ok()?;
        let line = broken_line(&content, &model_in_settings(model), &place.entry.name)?;
        Some((file.path(), line))
    })
}

/// Returns the number of the first line that Python's `split` does not split as the checker of v4.1
/// expects.
fn broken_line(content: &TextFile, model: &str, scenario: &str) -> Option<usize> {
    if !content.is_utf8 {
        return Some(1);
    }
    for (number, line) in (1..).zip(content.text.lines()) {
        let line = line.replace(' ', "");
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((key, value)) = line.split_once('=').filter(|(_, value)| !value.contains('='))
        else {
            return Some(number);
        };
        let &[of_model, of_scenario, setting] = &key.split('.').collect::<Vec<_>>()[..] else {
            return Some(number);
        };
        let is_it = setting == SETTING
            && (of_model == "*" || of_model == model)
            && (of_scenario == "*" || of_scenario == scenario);
        if is_it && !value.is_empty() && value.chars().all(char::is_numeric) {
            return None;
        }
    }
    None
}

/// Returns the name of a model in files with settings.
fn model_in_settings(name: &str) -> String {
    name.replace("-99.9", "").replace("-99", "")
}

/// Returns the value of a line such as `*.Offline.sample_concatenate_permutation = 1`.
fn value_of(line: &str, model: &str, scenario: &str) -> Option<bool> {
    let line: String = line.split('#').next()?.chars().filter(|c| !c.is_whitespace()).collect();
    let (key, value) = line.split_once('=')?;
    let (key, setting) = key.rsplit_once('.')?;
    // Names of models have dots, too.
    let (of_model, of_scenario) = key.rsplit_once('.')?;
    let is_it = setting == SETTING
        && (of_model == "*" || of_model == model)
        && (of_scenario == "*" || of_scenario.eq_ignore_ascii_case(scenario));
    value.parse::<u64>().ok().filter(|_| is_it).map(|value| value == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checker_of_v4_1_splits_each_line_up_to_the_setting() {
        let broken = |text: &str| {
            let content = TextFile { text: text.to_owned(), is_utf8: true };
            broken_line(&content, "3d-unet", "Offline")
        };
        let setting = "3d-unet.*.sample_concatenate_permutation = 1\n";
        assert_eq!(broken(&format!("# a = b\n\n*.*.qsl_rng_seed = 1\n{setting}")), None);
        assert_eq!(broken("\u{feff}# with a mark\n"), Some(1));
        assert_eq!(broken("*.Offline.target_qps = 7\n*.Offline.target_qps\n"), Some(2));
        assert_eq!(broken(&format!("{setting}cut")), None, "it stops at the setting");
        assert_eq!(broken("a.*.key = 1 # b = c\n"), Some(1));
        assert_eq!(broken("a.b.*.key = 1\n"), Some(1));
        let bytes = TextFile { text: String::new(), is_utf8: false };
        assert_eq!(broken_line(&bytes, "3d-unet", "Offline"), Some(1));
    }

    #[test]
    fn a_setting_is_of_its_model_and_scenario() {
        let value = |line| value_of(line, "3d-unet", "Offline");
        assert_eq!(value("3d-unet.*.sample_concatenate_permutation = 1"), Some(true));
        assert_eq!(value("*.Offline.sample_concatenate_permutation=1 # as asked"), Some(true));
        assert_eq!(value("*.*.sample_concatenate_permutation = 0"), Some(false));
        for other in [
            "gptj.*.sample_concatenate_permutation = 1",
            "3d-unet.Server.sample_concatenate_permutation = 1",
            "# 3d-unet.*.sample_concatenate_permutation = 1",
            "3d-unet.*.min_duration = 1",
            "3d-unet.*.sample_concatenate_permutation = true",
            "",
        ] {
            assert_eq!(value(other), None, "{other}");
        }
    }
}
