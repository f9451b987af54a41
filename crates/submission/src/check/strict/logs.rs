//! What a detail log is as a file, and which run it is of.

use std::path::Path;

use crate::check::catalogue::{LOG_ERRORS, LOG_FIRST_LINE, LOG_MODE, LOG_REPEATED, LOG_SEEDS};
use crate::check::issues::{At, Issues};
use crate::facts::detail::DetailLog;
use crate::finding::counted;
use dyno_rules::{Round, Scenario, Seeds, Version};

/// What a run is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Performance,
    Accuracy,
}

/// Checks a log.
pub(super) fn check(
    log: &DetailLog,
    path: &Path,
    purpose: Purpose,
    round: &Round,
    seeds: &Seeds,
    issues: &mut Issues,
) {
    let at = |key: &str| At::path(path).line(log.line_of(key));
    if !log.begins_with_marker {
        let message = match round.version < Version::new(1, 0) {
            true => {
                "does not begin with a line of the load generator in the form of v1.0 and \
                     later; the logs of LoadGen before it are not read"
            }
            false => "does not begin with a line of the load generator",
        };
        issues.add_expected(
            &LOG_FIRST_LINE,
            At::path(path).line(Some(1)),
            message,
            "`:::MLLOG {...}`",
        );
    }
    // An accuracy run is made in parts, of which each has its own times and counts.
    let of_part = |key: &str| key.starts_with("generated_") || key.starts_with("power_");
    for (key, held, (line, _)) in log.contradicted() {
        if purpose == Purpose::Accuracy && of_part(key) {
            continue;
        }
        let message = format!("{key} is there {} times, with different values", held.times);
        let expected = format!("{}, as in line {}", held.value, held.line);
        issues.add_expected(&LOG_REPEATED, At::path(path).line(Some(*line)), message, expected);
    }
    check_errors(log, path, issues);
    check_mode(log, purpose, at, issues);
    // Effective and requested seeds are what the run was made with; a seed that was asked
    // for and not used, or the other way round, is a log that was put together.
    let pairs =
        [("qsl", seeds.qsl), ("sample_index", seeds.sample_index), ("schedule", seeds.schedule)];
    for (name, wanted) in pairs {
        let (asked, used) =
            (format!("requested_{name}_rng_seed"), format!("effective_{name}_rng_seed"));
        let (asked_value, used_value) = (log.whole(&asked), log.whole(&used));
        if let Some((first, second)) = asked_value.zip(used_value).filter(|(a, b)| a != b) {
            let message = format!("{asked} is {first}, and {used} is {second}");
            issues.add_expected(&LOG_SEEDS, at(&used), message, first.to_string());
        } else if purpose == Purpose::Accuracy && used_value.is_some_and(|used| used != wanted) {
            let message = format!("{used} of the accuracy run is not that of {}", round.version);
            issues.add_expected(&LOG_SEEDS, at(&used), message, wanted.to_string());
        }
    }
}

/// Errors count whether the log's own count knows of them or not.
fn check_errors(log: &DetailLog, path: &Path, issues: &mut Issues) {
    let told = log.whole("num_errors");
    if told == Some(log.errors.count as u64) || told.is_none() {
        return;
    }
    let line =
        log.errors.first.first().map(|(line, _)| *line).or_else(|| log.line_of("num_errors"));
    let told = told.unwrap_or_default();
    let found = counted(log.errors.count as u64, "line that is an error", "lines that are errors");
    let message = format!("has {found}, and counts {told}");
    issues.add(&LOG_ERRORS, At::path(path).line(line), message);
}

fn check_mode<'a>(
    log: &DetailLog,
    purpose: Purpose,
    at: impl Fn(&str) -> At<'a>,
    issues: &mut Issues,
) {
    let key = "effective_test_mode";
    let Some(mode) = log.text(key) else { return };
    let expected = match purpose {
        Purpose::Performance => "PerformanceOnly",
        Purpose::Accuracy => "AccuracyOnly",
    };
    if mode != expected {
        issues.add_expected(&LOG_MODE, at(key), format!("is of a run in mode {mode}"), expected);
    }
}

/// Whether a log may stand for a scenario; of an edge system one may be inferred.
pub(super) fn stands_for(log: &DetailLog, wanted: Scenario, may_infer: bool) -> bool {
    use Scenario::{Interactive, MultiStream, Offline, Server, SingleStream};
    // That no scenario is said is a matter of the keys.
    let Some(name) = log.text("effective_scenario") else { return true };
    let Some(played) = Scenario::named(name) else { return false };
    played == wanted
        || (played, wanted) == (Server, Interactive)
        || may_infer
            && matches!(
                (played, wanted),
                (SingleStream, MultiStream | Offline) | (MultiStream, Offline)
            )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Program;
    use crate::check::strict::tests::log;

    fn found(text_of: &[(&str, &str)], purpose: Purpose) -> Vec<&'static str> {
        let round = Round::named("v5.1").unwrap();
        let mut issues = Issues::new(Program::Strict);
        check(&log(text_of), Path::new("log"), purpose, round, &round.seeds, &mut issues);
        issues.into_findings().into_iter().map(|finding| finding.check).collect()
    }

    #[test]
    fn a_key_with_two_values_is_found_but_not_the_parts_of_an_accuracy_run() {
        let twice = [("generated_query_count", "1"), ("generated_query_count", "2")];
        assert_eq!(found(&twice, Purpose::Performance), ["log.repeated_keys"]);
        assert_eq!(found(&twice, Purpose::Accuracy), [""; 0]);
        let twice = [("result_query_count", "1"), ("result_query_count", "2")];
        assert_eq!(found(&twice, Purpose::Accuracy), ["log.repeated_keys"]);
        // Also where the last value is the first again.
        let between = ["1", "2", "1"].map(|value| ("result_query_count", value));
        assert_eq!(found(&between, Purpose::Performance), ["log.repeated_keys"]);
        let same = [("result_query_count", "1"), ("result_query_count", "1")];
        assert_eq!(found(&same, Purpose::Performance), [""; 0]);
    }

    #[test]
    fn seeds_and_modes_are_those_of_the_run() {
        let mode = [("effective_test_mode", "\"AccuracyOnly\"")];
        assert_eq!(found(&mode, Purpose::Performance), ["log.mode"]);
        assert_eq!(found(&mode, Purpose::Accuracy), [""; 0]);
        let seeds = [("requested_qsl_rng_seed", "1"), ("effective_qsl_rng_seed", "2")];
        assert_eq!(found(&seeds, Purpose::Performance), ["log.seeds"]);
        let seeds = [("effective_qsl_rng_seed", "18446744073709551615")];
        assert_eq!(found(&seeds, Purpose::Accuracy), ["log.seeds"]);
        assert_eq!(found(&[("num_errors", "3")], Purpose::Accuracy), ["log.error_count"]);
    }

    #[test]
    fn a_log_stands_for_its_scenario_or_on_edge_systems_for_another() {
        let of = |played: &str| log(&[("effective_scenario", &format!("\"{played}\""))]);
        assert!(stands_for(&of("Server"), Scenario::Interactive, false));
        assert!(!stands_for(&of("SingleStream"), Scenario::Offline, false));
        assert!(stands_for(&of("SingleStream"), Scenario::Offline, true));
        assert!(!stands_for(&of("Offline"), Scenario::SingleStream, true));
        assert!(!stands_for(&of("Server2"), Scenario::Server, true));
    }
}
