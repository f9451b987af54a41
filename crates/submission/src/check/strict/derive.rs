//! Checks that the values in the detail log of a run are consistent.
//!
//! The official programs trust every number of a log, but percentiles, counts and rates of a run
//! depend on each other. `rates` checks rates, `wall_clock` times, and `stopping` early
//! stopping.

use std::borrow::Cow;
use std::iter::once;
use std::path::Path;

use crate::check::catalogue::RUN_CONSISTENT;
use crate::check::issues::{Issues, Location};
use crate::check::place::Place;
use crate::facts::detail::DetailLog;
use crate::facts::loadgen::{OfflineCounts, is_wrapped};
use dyno_rules::RuleScenario;

/// Percentiles in keys, with their ranks in ascending order.
pub(super) const RANKS: [(&str, f64); 6] = [
    ("50.00", 0.5),
    ("90.00", 0.9),
    ("95.00", 0.95),
    ("97.00", 0.97),
    ("99.00", 0.99),
    ("99.90", 0.999),
];
/// Keys with texts of early stopping.
pub(super) const STOPPING: [&str; 3] =
    ["early_stopping_result", "early_stopping_ttft_result", "early_stopping_tpot_result"];
/// Keys of Dyno with samples that have no answer.
const LOST: [&str; 2] = ["dyno_failed_samples", "dyno_missing_samples"];
/// Beginning of the percentiles of the time per output token.
const TIME_PER_TOKEN: &str = "result_time_per_output_token_";
/// Scenario of a run, and how the rules of the round judge it.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunRules {
    pub(super) played: RuleScenario,
    /// Percentile that the rules specify; `None` in the open division.
    pub(super) percentile: Option<f64>,
    pub(super) decision: Decision,
}

/// How the rules decide whether a percentile meets its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// By the measured percentile: before v2.0.
    Percentile,
    /// With statistical confidence, by early stopping.
    EarlyStopping,
}

impl RunRules {
    /// Returns the rules for a run of this scenario.
    pub(super) fn new(place: &Place<'_, '_>, played: RuleScenario) -> Self {
        let rules = place.round.scenarios.get(&played);
        let decision = if rules.is_some_and(|rules| rules.stops_early) {
            Decision::EarlyStopping
        } else {
            Decision::Percentile
        };
        let is_fixed = place.submitter.division.is_closed_or_network();
        let benchmark = place.model.benchmark.filter(|_| is_fixed);
        let percentile = benchmark.and_then(|benchmark| place.round.percentile(benchmark, played));
        Self { played, percentile, decision }
    }
}

/// Checks the consistency of a run.
pub(super) fn check(log: &DetailLog, path: &Path, rules: RunRules, issues: &mut Issues) {
    let run = Run { log, path, rules };
    run.check_flags(issues);
    run.check_least(issues);
    for family in &FAMILIES {
        run.check_order(family, issues);
        run.check_mean(family, issues);
    }
    run.check_percentile(issues);
    run.check_first_tokens(issues);
    run.check_counts(issues);
    run.check_rates(issues);
    run.check_span(issues);
    run.check_stopping(issues);
}

/// Keys of one quantity: percentiles, minimum, mean and maximum.
struct Family {
    begin: &'static str,
    end: &'static str,
    least: &'static str,
    mean: &'static str,
    most: &'static str,
}

const FAMILIES: [Family; 4] = [
    Family {
        begin: "result_",
        end: "_percentile_per_query_latency_ns",
        least: "result_min_query_latency_ns",
        mean: "result_mean_query_latency_ns",
        most: "result_max_query_latency_ns",
    },
    LATENCY,
    FIRST_TOKEN,
    Family {
        begin: TIME_PER_TOKEN,
        end: "_percentile_ns",
        least: "result_time_to_output_token_min",
        mean: "result_time_to_output_token_mean",
        most: "result_time_to_output_token_max",
    },
];
const LATENCY: Family = Family {
    begin: "result_",
    end: "_percentile_latency_ns",
    least: "result_min_latency_ns",
    mean: "result_mean_latency_ns",
    most: "result_max_latency_ns",
};
const FIRST_TOKEN: Family = Family {
    begin: "result_first_token_",
    end: "_percentile_latency_ns",
    least: "result_first_token_min_latency_ns",
    mean: "result_first_token_mean_latency_ns",
    most: "result_first_token_max_latency_ns",
};

impl Family {
    /// Returns the keys of the percentiles, in the order of their ranks.
    fn ranked(&self) -> impl Iterator<Item = Cow<'static, str>> {
        RANKS.iter().map(|(rank, _)| format!("{}{rank}{}", self.begin, self.end).into())
    }

    /// Returns the keys of minimum, percentiles and maximum.
    fn ordered(&self) -> impl Iterator<Item = Cow<'static, str>> {
        once(self.least.into()).chain(self.ranked()).chain(once(self.most.into()))
    }
}

/// A log, and the rules by which it is checked.
pub(super) struct Run<'a> {
    pub(super) log: &'a DetailLog,
    path: &'a Path,
    pub(super) rules: RunRules,
}

impl Run<'_> {
    pub(super) fn at(&self, key: &str) -> Location<'_> {
        Location::path(self.path).line(self.log.line_of(key))
    }

    /// Checks that a valid run meets each of its conditions.
    fn check_flags(&self, issues: &mut Issues) {
        let flags = [
            "result_min_duration_met",
            "result_min_queries_met",
            "result_perf_constraints_met",
            "early_stopping_met",
        ];
        let valid = self.log.text("result_validity") == Some("VALID");
        for key in flags.into_iter().filter(|key| valid && self.log.flag(key) == Some(false)) {
            let message = format!("{key} is false, but result_validity is VALID");
            issues.add_expected(&RUN_CONSISTENT, self.at(key), message, "true");
        }
    }

    /// Checks that the run issued as much as its settings require. Audits that issue each sample
    /// once may issue less.
    fn check_least(&self, issues: &mut Issues) {
        let is_met = self.log.flag("result_min_queries_met") == Some(true);
        let is_offline = self.rules.played == RuleScenario::Offline
            && self.log.flag("effective_performance_issue_unique") != Some(true);
        for (key, least_key, asked) in [
            ("result_query_count", "effective_min_query_count", is_met),
            ("generated_samples_per_query", "effective_samples_per_query", is_offline),
        ] {
            let Some((found, least)) = self.log.whole(key).zip(self.log.whole(least_key)) else {
                continue;
            };
            if asked && found < least {
                let message = format!("{key} is {found}");
                let expected = format!("at least {least} ({least_key})");
                issues.add_expected(&RUN_CONSISTENT, self.at(key), message, expected);
            }
        }
    }

    fn check_order(&self, family: &Family, issues: &mut Issues) {
        let known = |key: Cow<'static, str>| Some((self.log.number(&key)?, key));
        let latencies: Vec<_> = family.ordered().filter_map(known).collect();
        for pair in latencies.windows(2) {
            let [(low, low_key), (high, high_key)] = pair else { continue };
            if low > high {
                let message = format!("{high_key} is {high}, below {low_key}");
                let expected = format!("at least {low}");
                issues.add_expected(&RUN_CONSISTENT, self.at(high_key), message, expected);
            }
        }
        let edges = self.log.number(family.least).zip(self.log.number(family.most));
        let mean = self.log.number(family.mean).zip(edges);
        let is_outside =
            |m: f64, low: f64, high: f64| (m < low || m > high) && !self.is_wrapped(m, low, high);
        if let Some((mean, (least, most))) =
            mean.filter(|(m, (low, high))| is_outside(*m, *low, *high))
        {
            let message = format!("{} is {mean}, outside minimum and maximum", family.mean);
            let expected = format!("{least} to {most}");
            issues.add_expected(&RUN_CONSISTENT, self.at(family.mean), message, expected);
        }
    }

    /// Checks that the percentiles permit the mean. The percentiles are latencies at known places
    /// in ascending order, so each other latency lies between two of them.
    fn check_mean(&self, family: &Family, issues: &mut Issues) {
        // Samples of one token have no time per output token, so that the count is unknown.
        let has_count = family.begin != TIME_PER_TOKEN;
        let Some(count) = self.answered().filter(|_| has_count) else { return };
        let shares = once(0.0).chain(RANKS.map(|(_, share)| share)).chain(once(1.0));
        let known: Vec<(f64, f64)> = shares
            .zip(family.ordered())
            .filter_map(|(share, key)| Some((share, self.log.number(&key)?)))
            .collect();
        let edges = self.log.number(family.least).zip(self.log.number(family.most));
        let Some(((least, most), mean)) = edges.zip(self.log.number(family.mean)) else { return };
        // `check_order` reports the other contradictions.
        let is_ordered = known.windows(2).all(|pair| pair[0].1 <= pair[1].1);
        if !is_ordered || mean < least || mean > most {
            return;
        }
        let sum = |side: usize| -> f64 {
            known.windows(2).map(|pair| (pair[1].0 - pair[0].0) * pair[side].1).sum()
        };
        // Indices are whole, and so are means.
        let tolerance = 2.0 * (most - least) / count + 1.0;
        let (low, high) = (sum(0) - tolerance, sum(1) + tolerance);
        if (mean < low || mean > high) && !self.is_wrapped(mean, low, high) {
            let message = format!("{} is {mean}, which the percentiles exclude", family.mean);
            let expected = format!("{:.0} to {:.0}", low.ceil(), high.floor());
            issues.add_expected(&RUN_CONSISTENT, self.at(family.mean), message, expected);
        }
    }

    /// Returns the smallest number of answers from which the percentiles may be.
    fn answered(&self) -> Option<f64> {
        let issued = match self.rules.played {
            RuleScenario::Offline => {
                OfflineCounts::read(self.log)?.samples().fold(f64::MAX, f64::min)
            }
            _ => self.log.number("result_query_count")?,
        };
        Some((issued - self.lost()).max(1.0))
    }

    /// Returns how many samples have no answer. Only Dyno completes such runs.
    pub(super) fn lost(&self) -> f64 {
        LOST.iter().filter_map(|key| self.log.number(key)).sum()
    }

    /// Checks that the percentile of the bound is a share. Offline has no bound, and early releases
    /// logged uninitialized memory.
    fn check_percentile(&self, issues: &mut Issues) {
        let key = "effective_target_latency_percentile";
        let Some(share) = self.log.number(key) else { return };
        if self.rules.played != RuleScenario::Offline && (share <= 0.0 || share >= 1.0) {
            let message = format!("{key} is {share}");
            issues.add_expected(&RUN_CONSISTENT, self.at(key), message, "above 0 and below 1");
        }
    }

    /// Whether a mean outside of its bounds is due to a sum that overflowed.
    fn is_wrapped(&self, mean: f64, least: f64, most: f64) -> bool {
        let counts = OfflineCounts::read(self.log);
        let mut samples = counts.into_iter().flat_map(OfflineCounts::samples);
        samples.any(|count| is_wrapped(mean, count, least, most))
    }

    /// Checks that no answer ends before its first token.
    fn check_first_tokens(&self, issues: &mut Issues) {
        let keys =
            |family: &Family| family.ordered().chain(once(family.mean.into())).collect::<Vec<_>>();
        for (first_key, key) in keys(&FIRST_TOKEN).iter().zip(keys(&LATENCY)) {
            let pair = self.log.number(first_key).zip(self.log.number(&key));
            if let Some((first, whole)) = pair.filter(|(first, whole)| first > whole) {
                let message = format!("{first_key} is {first}, but {key} is {whole}");
                let expected = format!("at most {whole}");
                issues.add_expected(&RUN_CONSISTENT, self.at(first_key), message, expected);
            }
        }
    }

    /// Whether the run generates more queries after the prepared ones. The reference stops
    /// there. Offline has a single query.
    fn goes_on(&self) -> bool {
        let is_offline = self.rules.played == RuleScenario::Offline;
        !is_offline
            && [("dyno_continue_trace", "true"), ("dyno_early_stopping", "extend")]
                .iter()
                .any(|(key, value)| self.log.text(key) == Some(value))
    }

    /// Checks that the run did not complete more queries than it generated, and that early
    /// stopping reports the same count.
    fn check_counts(&self, issues: &mut Issues) {
        let key = "result_query_count";
        let Some(queries) = self.log.whole(key) else { return };
        let mut wrong = |key: &str, count: u64, expected: String| {
            let message = format!("{key} is {count}");
            issues.add_expected(&RUN_CONSISTENT, self.at(key), message, expected);
        };
        if queries == 0 {
            wrong(key, queries, "at least 1".to_owned());
        }
        let generated = self.log.whole("generated_query_count").filter(|_| !self.goes_on());
        if let Some(generated) = generated.filter(|generated| queries > *generated) {
            wrong(key, queries, format!("at most {generated} (generated_query_count)"));
        }
        let reported = STOPPING.into_iter().find_map(|text| queries_in(self.log.text(text)?));
        if let Some(reported) = reported.filter(|reported| *reported != queries) {
            wrong(key, queries, format!("{reported}, the count in the text of early stopping"));
        }
        let key = "result_overlatency_query_count";
        if let Some(over) = self.log.whole(key).filter(|over| *over > queries) {
            wrong(key, over, format!("at most {queries} (result_query_count)"));
        }
    }
}

/// Returns the number of queries in a text of early stopping, such as `Processed at least 64
/// queries (1167425).`.
fn queries_in(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once(" queries (")?;
    rest.split_once(')')?.0.parse().ok()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::check::Program;
    use crate::check::strict::tests::log;

    /// Returns the messages about a run with these values.
    pub(in super::super) fn found(played: RuleScenario, pairs: &[(&str, &str)]) -> Vec<String> {
        found_by(Decision::EarlyStopping, played, pairs)
    }

    pub(in super::super) fn found_by(
        decision: Decision,
        played: RuleScenario,
        pairs: &[(&str, &str)],
    ) -> Vec<String> {
        let mut issues = Issues::new(Program::Strict);
        let rules = RunRules { played, percentile: Some(0.99), decision };
        check(&log(pairs), Path::new("log"), rules, &mut issues);
        issues.into_findings().into_iter().map(|finding| finding.message).collect()
    }

    /// Values of a MultiStream run of a real system.
    const MULTI_STREAM: [(&str, &str); 12] = [
        ("result_validity", "\"VALID\""),
        ("early_stopping_met", "true"),
        ("result_query_count", "408675"),
        ("result_min_query_latency_ns", "1369296"),
        ("result_max_query_latency_ns", "2914698"),
        ("result_mean_query_latency_ns", "1460146"),
        ("result_50.00_percentile_per_query_latency_ns", "1461758"),
        ("result_90.00_percentile_per_query_latency_ns", "1470054"),
        ("result_97.00_percentile_per_query_latency_ns", "1474989"),
        ("result_99.00_percentile_per_query_latency_ns", "1482562"),
        ("result_99.90_percentile_per_query_latency_ns", "1493882"),
        ("early_stopping_latency_ms", "1482812"),
    ];

    fn with(key: &'static str, value: &'static str) -> Vec<(&'static str, &'static str)> {
        let set = |(k, v): (&'static str, &'static str)| (k, if k == key { value } else { v });
        MULTI_STREAM.into_iter().map(set).collect()
    }

    #[test]
    fn a_run_that_agrees_with_itself_is_fine() {
        assert_eq!(found(RuleScenario::MultiStream, &MULTI_STREAM), [""; 0]);
    }

    #[test]
    fn what_contradicts_the_rest_of_a_log_is_found() {
        for (key, value, part) in [
            ("early_stopping_met", "false", "but result_validity is VALID"),
            ("result_90.00_percentile_per_query_latency_ns", "1400000", "below result_50.00"),
            ("result_mean_query_latency_ns", "3000000", "outside minimum and maximum"),
            // 3938 queries may be set aside, which leaves a latency beyond the 99th percentile ..
            (
                "early_stopping_latency_ms",
                "1482561",
                "3938 of 408675 queries set aside, it is at least",
            ),
            // .. and below the 99.9th.
            ("early_stopping_latency_ms", "1493883", "it is at most"),
            ("result_query_count", "600", "but 600 queries too few for an estimate"),
            ("result_query_count", "1", "but 1 query too few for an estimate"),
        ] {
            let found = found(RuleScenario::MultiStream, &with(key, value));
            assert!(found.iter().any(|message| message.contains(part)), "{key} {value}: {found:?}");
        }
    }

    #[test]
    fn words_and_tokens_of_a_run_are_those_of_its_numbers() {
        let run = |key: &'static str, value: &'static str| {
            let mut pairs = vec![
                ("early_stopping_met", "true"),
                ("early_stopping_ttft_result", "\" * Run successful.\""),
                ("result_min_latency_ns", "1266580680"),
                ("result_99.00_percentile_latency_ns", "5050407029"),
                ("result_first_token_min_latency_ns", "27311099"),
                ("result_first_token_99.00_percentile_latency_ns", "1911170364"),
                ("result_first_token_max_latency_ns", "2283248914"),
                ("result_time_to_output_token_min", "8799072"),
                ("result_time_per_output_token_99.00_percentile_ns", "25128964"),
            ];
            pairs.retain(|(known, _)| *known != key);
            pairs.push((key, value));
            found(RuleScenario::Server, &pairs)
        };
        assert_eq!(run("early_stopping_met", "true"), [""; 0]);
        for (key, value) in [
            ("early_stopping_ttft_result", "\" * Run unsuccessful.\\n * Processed 9 queries.\""),
            ("result_first_token_99.00_percentile_latency_ns", "19111703"),
            ("result_time_per_output_token_99.00_percentile_ns", "251289"),
            ("result_min_latency_ns", "12665806"),
        ] {
            assert_eq!(run(key, value).len(), 1, "{key} {value}");
        }
    }

    #[test]
    fn counts_of_a_run_bound_one_another() {
        let run = |key: &'static str, value: &'static str| {
            let text = "\" * Processed at least 64 queries (1000). * Would discard 3\"";
            let mut pairs = vec![
                ("generated_query_count", "2000"),
                ("result_query_count", "1000"),
                ("early_stopping_result", text),
                ("result_overlatency_query_count", "10"),
            ];
            pairs.retain(|(known, _)| *known != key);
            pairs.push((key, value));
            found(RuleScenario::Offline, &pairs)
        };
        assert_eq!(run("generated_query_count", "1000"), [""; 0]);
        // A system that is faster than was expected of it.
        for goes_on in [("dyno_continue_trace", "\"true\""), ("dyno_early_stopping", "\"extend\"")]
        {
            let pairs = [("generated_query_count", "10"), ("result_query_count", "1000"), goes_on];
            assert_eq!(found(RuleScenario::SingleStream, &pairs), [""; 0]);
            assert!(!found(RuleScenario::SingleStream, &pairs[..2]).is_empty());
        }
        for (key, value) in [
            ("result_query_count", "0"),
            ("result_query_count", "500"),
            ("result_query_count", "2001"),
            ("generated_query_count", "999"),
            ("result_overlatency_query_count", "1001"),
        ] {
            assert!(!run(key, value).is_empty(), "{key} {value}");
        }
    }

    /// 1000 latencies: the percentiles are at indices 500, 900 and 990. At least 500 latencies are
    /// 100, 400 are 200, 90 are 300, 9 are 400 and the last is 1000: the sum is at least 161 600.
    /// At most 501 are 200, 400 are 300, 90 are 400 and 9 are 1000: the sum is at most 265 200. The
    /// tolerance of the mean is 2 * 900 / 1000 + 1 = 2.8.
    #[test]
    fn the_percentiles_bound_the_mean() {
        let run = |mean: &'static str| {
            let pairs = [
                ("result_query_count", "1000"),
                ("result_min_latency_ns", "100"),
                ("result_50.00_percentile_latency_ns", "200"),
                ("result_90.00_percentile_latency_ns", "300"),
                ("result_99.00_percentile_latency_ns", "400"),
                ("result_max_latency_ns", "1000"),
                ("result_mean_latency_ns", mean),
            ];
            found(RuleScenario::Server, &pairs)
        };
        for (mean, findings) in [("162", 0), ("265", 0), ("157", 1), ("270", 1), ("99", 1)] {
            let found = run(mean);
            assert_eq!(found.len(), findings, "{mean}: {found:?}");
        }
        assert!(run("157")[0].contains("which the percentiles exclude"));
    }

    #[test]
    fn the_percentile_of_a_bound_is_a_share() {
        let run = |played, value| found(played, &[("effective_target_latency_percentile", value)]);
        for value in ["1.0", "1.99", "8.98", "0.0", "-0.9"] {
            assert_eq!(run(RuleScenario::SingleStream, value).len(), 1, "{value}");
        }
        assert_eq!(run(RuleScenario::Server, "0.99"), [""; 0]);
        assert_eq!(run(RuleScenario::Offline, "0.0"), [""; 0]);
    }

    #[test]
    fn offline_issues_the_queries_that_it_generated() {
        let run = |queries| {
            let goes_on = ("dyno_early_stopping", "\"extend\"");
            let generated = ("generated_query_count", "1");
            found(RuleScenario::Offline, &[generated, ("result_query_count", queries), goes_on])
        };
        assert_eq!(run("1"), [""; 0]);
        assert_eq!(run("9").len(), 1);
    }

    #[test]
    fn a_run_issues_what_its_settings_ask_for() {
        let run = |key: &'static str, value: &'static str| {
            let mut pairs = vec![
                ("effective_min_query_count", "100"),
                ("result_query_count", "100"),
                ("result_min_queries_met", "true"),
                ("effective_samples_per_query", "24576"),
                ("generated_samples_per_query", "24576"),
                ("effective_performance_issue_unique", "false"),
            ];
            pairs.retain(|(known, _)| *known != key);
            pairs.push((key, value));
            found(RuleScenario::Offline, &pairs).len()
        };
        for (key, value, findings) in [
            ("result_query_count", "100", 0),
            ("result_query_count", "99", 1),
            ("generated_samples_per_query", "100", 1),
            ("generated_samples_per_query", "30000", 0),
        ] {
            assert_eq!(run(key, value), findings, "{key} {value}");
        }
        let unique = [
            ("effective_samples_per_query", "24576"),
            ("generated_samples_per_query", "1024"),
            ("effective_performance_issue_unique", "true"),
        ];
        assert_eq!(found(RuleScenario::Offline, &unique), [""; 0]);
    }
}
