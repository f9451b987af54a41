//! Checks that models with samples of different sizes issue each sample equally often.
//!
//! LoadGen logs whether it does since the middle of 4.1. The settings beside a measurement prove it
//! for logs that cannot.

use serde_json::Value;

use super::Program;
use super::catalogue::RUN_EQUAL_ISSUE;
use super::issues::Issues;
use super::performance::Run;
use super::place::Place;
use crate::facts::text;
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
    let is_asked = closed && !run.is_audit && checker.requires_equal_issue(run.model());
    !is_asked || run.log.value(KEY).is_some_and(is_true)
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
