//! Checks a detail log as a file, and that it belongs to the right run.

use std::path::Path;

use crate::check::catalogue::{
    ACCURACY_UNREADABLE, LOG_ERRORS, LOG_FIRST_LINE, LOG_MODE, LOG_REPEATED, LOG_SCENARIO,
    LOG_SEEDS, LOG_SIMULATED,
};
use crate::check::issues::{Issues, Location};
use crate::facts::detail::DetailLog;
use crate::facts::loadgen;
use crate::finding::counted;
use dyno_rules::{Round, RuleScenario, Seeds, Version};

/// Purpose of a run.
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
    let at = |key: &str| Location::path(path).line(log.line_of(key));
    let is_of_round = log.is_plain && round.version < Version::new(1, 0);
    if !log.begins_with_marker && !is_of_round {
        issues.add_expected(
            &LOG_FIRST_LINE,
            Location::path(path).line(Some(1)),
            "does not begin with a line of the load generator",
            "`:::MLLOG {...}`",
        );
    }
    // An accuracy run consists of parts with their own times and counts.
    let is_per_part = |key: &str| key.starts_with("generated_") || key.starts_with("power_");
    for (key, entry, (line, _)) in log.contradicted() {
        if purpose == Purpose::Accuracy && is_per_part(key) {
            continue;
        }
        let message = format!("{key} occurs {} times, with different values", entry.times);
        let expected = format!("{}, as in line {}", entry.value, entry.line);
        issues.add_expected(
            &LOG_REPEATED,
            Location::path(path).line(Some(*line)),
            message,
            expected,
        );
    }
    check_errors(log, path, issues);
    check_mode(log, purpose, at, issues);
    // Requested and effective seeds must be equal; otherwise the log was edited.
    let pairs =
        [("qsl", seeds.qsl), ("sample_index", seeds.sample_index), ("schedule", seeds.schedule)];
    for (name, wanted) in pairs {
        let requested = format!("requested_{name}_rng_seed");
        let used = format!("effective_{name}_rng_seed");
        let used_value = log.whole(&used);
        if let Some((first, second)) = log.whole(&requested).zip(used_value).filter(|(a, b)| a != b)
        {
            let message = format!("{requested} is {first}, but {used} is {second}");
            issues.add_expected(&LOG_SEEDS, at(&used), message, first.to_string());
        } else if purpose == Purpose::Accuracy && used_value.is_some_and(|used| used != wanted) {
            let message =
                format!("{used} of the accuracy run differs from that of {}", round.version);
            issues.add_expected(&LOG_SEEDS, at(&used), message, wanted.to_string());
        }
    }
}

/// Checks that the log states what it is a log of. Every LoadGen writes these keys in every round, so
/// that a log without one of them proves nothing.
pub(super) fn check_identity(log: &DetailLog, path: &Path, purpose: Purpose, issues: &mut Issues) {
    let is_accuracy = purpose == Purpose::Accuracy;
    if log.all().next().is_none() {
        if is_accuracy {
            let message = "is not a detail log: it has no key of the load generator";
            issues.add(&ACCURACY_UNREADABLE, Location::path(path), message);
        }
        return;
    }
    let texts = [("effective_test_mode", &LOG_MODE), ("effective_scenario", &LOG_SCENARIO)];
    let seeds = [
        ("effective_qsl_rng_seed", &LOG_SEEDS),
        ("effective_sample_index_rng_seed", &LOG_SEEDS),
        ("effective_schedule_rng_seed", &LOG_SEEDS),
    ];
    let missing_texts = texts.into_iter().filter(|(key, _)| log.text(key).is_none());
    let missing_seeds = seeds.into_iter().filter(|(key, _)| log.whole(key).is_none());
    for (key, check) in missing_texts.chain(missing_seeds) {
        // The checks of performance runs report the other keys.
        if is_accuracy || key == "effective_test_mode" {
            let at = Location::path(path).line(log.line_of(key));
            issues.add(check, at, format!("the log has no `{key}`, or a value of another type"));
        }
    }
}

/// Warns of a run that measured no system.
pub(super) fn check_simulation(log: &DetailLog, path: &Path, issues: &mut Issues) {
    let (version, begin) = (log.text("loadgen_version"), log.text("power_begin"));
    if loadgen::is_simulated(version, begin) {
        let at = Location::path(path).line(log.line_of("power_begin"));
        issues.add(&LOG_SIMULATED, at, "the run was simulated in virtual time: it begins in 1970");
    }
}

/// Checks the log's own count of errors.
fn check_errors(log: &DetailLog, path: &Path, issues: &mut Issues) {
    // Before v1.0, it also counts failed atomic operations.
    if log.is_plain {
        return;
    }
    let Some(counted_errors) = log.whole("num_errors") else { return };
    if counted_errors == log.errors.count as u64 {
        return;
    }
    let line =
        log.errors.first.first().map(|(line, _)| *line).or_else(|| log.line_of("num_errors"));
    let found = counted(log.errors.count as u64, "error line", "error lines");
    let message = format!("has {found}, but num_errors is {counted_errors}");
    issues.add(&LOG_ERRORS, Location::path(path).line(line), message);
}

fn check_mode<'a>(
    log: &DetailLog,
    purpose: Purpose,
    at: impl Fn(&str) -> Location<'a>,
    issues: &mut Issues,
) {
    let key = "effective_test_mode";
    let Some(mode) = log.text(key) else { return };
    let expected = match purpose {
        Purpose::Performance => "PerformanceOnly",
        Purpose::Accuracy => "AccuracyOnly",
    };
    // A submission run is both: an accuracy run, then a performance run.
    if mode != expected && mode != "SubmissionRun" {
        issues.add_expected(
            &LOG_MODE,
            at(key),
            format!("is the log of a run in mode {mode}"),
            expected,
        );
    }
}

/// Whether a log may be used for a scenario. For edge systems it may also be inferred.
pub(super) fn may_stand_for(log: &DetailLog, wanted: RuleScenario, may_infer: bool) -> bool {
    use RuleScenario::{Interactive, MultiStream, Offline, Server, SingleStream};
    // `check_identity` reports a missing scenario.
    let Some(name) = log.text("effective_scenario") else { return true };
    let Some(played) = RuleScenario::named(name) else { return false };
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
        // This includes a last value that equals the first.
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
    fn a_log_states_what_it_is_a_log_of() {
        let missing = |pairs: &[(&str, &str)], purpose| {
            let mut issues = Issues::new(Program::Strict);
            check_identity(&log(pairs), Path::new("log"), purpose, &mut issues);
            let found = issues.into_findings();
            found.into_iter().map(|finding| finding.check).collect::<Vec<_>>()
        };
        assert_eq!(missing(&[], Purpose::Accuracy), ["accuracy.readable"]);
        // The checks of performance runs report this.
        assert_eq!(missing(&[], Purpose::Performance), [""; 0]);
        assert_eq!(missing(&[("sut_name", "\"a\"")], Purpose::Performance), ["log.mode"]);
        let mut pairs = vec![
            ("effective_test_mode", "\"AccuracyOnly\""),
            ("effective_scenario", "\"Offline\""),
            ("effective_qsl_rng_seed", "1"),
            ("effective_sample_index_rng_seed", "2"),
            ("effective_schedule_rng_seed", "3"),
        ];
        assert_eq!(missing(&pairs, Purpose::Accuracy), [""; 0]);
        pairs[4].1 = "\"3\"";
        assert_eq!(missing(&pairs, Purpose::Accuracy), ["log.seeds"]);
        assert_eq!(missing(&pairs[1..4], Purpose::Accuracy), ["log.mode", "log.seeds"]);
        assert_eq!(missing(&pairs[..1], Purpose::Performance), [""; 0]);
    }

    #[test]
    fn a_log_may_stand_for_its_scenario_or_on_edge_systems_for_another() {
        let run_of = |played: &str| log(&[("effective_scenario", &format!("\"{played}\""))]);
        assert!(may_stand_for(&run_of("Server"), RuleScenario::Interactive, false));
        assert!(!may_stand_for(&run_of("SingleStream"), RuleScenario::Offline, false));
        assert!(may_stand_for(&run_of("SingleStream"), RuleScenario::Offline, true));
        assert!(!may_stand_for(&run_of("Offline"), RuleScenario::SingleStream, true));
        assert!(!may_stand_for(&run_of("Server2"), RuleScenario::Server, true));
    }
}
