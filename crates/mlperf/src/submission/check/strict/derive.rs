//! A run against itself: what its detail log says must follow from what else it says.
//!
//! The official programs take every number of a log as it stands. Percentiles, counts
//! and rates of one run are not independent, though, and the decision of early stopping
//! follows from two counts. Of rates and times see `rates`.

use std::path::Path;

use dyno_loadgen::early_stopping::{Params, largest_overlatency, minimum_queries};

use crate::round::Scenario;
use crate::submission::check::catalogue::{RUN_CONSISTENT, RUN_STOPPING};
use crate::submission::check::issues::{At, Issues};
use crate::submission::check::place::Place;
use crate::submission::facts::detail::DetailLog;

/// Keys of percentiles, in the order of their ranks.
const RANKS: [(&str, f64); 6] = [
    ("50.00", 0.5),
    ("90.00", 0.9),
    ("95.00", 0.95),
    ("97.00", 0.97),
    ("99.00", 0.99),
    ("99.90", 0.999),
];
/// What was played, and what the rules of the round decide it by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judged {
    pub(super) played: Scenario,
    /// The percentile that the rules fix; none in the open division.
    percentile: Option<f64>,
    by: Decision,
}

/// How a percentile is known to be within its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    /// It is, of the queries that there were: before v2.0.
    Percentile,
    /// With confidence.
    EarlyStopping,
}

impl Judged {
    /// A run at this place that was played as this scenario.
    pub(super) fn of(place: &Place<'_, '_>, played: Scenario) -> Self {
        let rules = place.round.scenarios.get(&played);
        let by = match rules.is_some_and(|rules| rules.stops_early) {
            true => Decision::EarlyStopping,
            false => Decision::Percentile,
        };
        let is_fixed = place.submitter.division.is_closed_or_network();
        let benchmark = place.model.benchmark.filter(|_| is_fixed);
        let percentile = benchmark.and_then(|of| place.round.percentile(of, played));
        Self { played, percentile, by }
    }
}

/// Checks a run.
pub(super) fn check(log: &DetailLog, path: &Path, judged: Judged, issues: &mut Issues) {
    let run = Run { log, path, judged };
    run.check_flags(issues);
    for family in [
        Family {
            begin: "result_",
            end: "_percentile_per_query_latency_ns",
            of: "query_latency_ns",
        },
        Family { begin: "result_", end: "_percentile_latency_ns", of: "latency_ns" },
    ] {
        run.check_order(&family.latencies(log), issues);
    }
    for (begin, end) in [
        ("result_first_token_", "_percentile_latency_ns"),
        ("result_time_per_output_token_", "_percentile_ns"),
    ] {
        run.check_order(&ranked(log, begin, end), issues);
    }
    run.check_counts(issues);
    run.check_rates(issues);
    run.check_stopping(issues);
}

struct Family {
    begin: &'static str,
    end: &'static str,
    of: &'static str,
}

impl Family {
    /// Minimum, percentiles and maximum, with their keys.
    fn latencies(&self, log: &DetailLog) -> Vec<(String, f64)> {
        let edge = |name: &str| {
            let key = format!("result_{name}_{}", self.of);
            log.number(&key).map(|value| (key, value))
        };
        let middle = ranked(log, self.begin, self.end);
        if middle.is_empty() {
            return middle;
        }
        edge("min").into_iter().chain(middle).chain(edge("max")).collect()
    }
}

fn ranked(log: &DetailLog, begin: &str, end: &str) -> Vec<(String, f64)> {
    let keys = RANKS.iter().map(|(rank, _)| format!("{begin}{rank}{end}"));
    keys.filter_map(|key| log.number(&key).map(|value| (key, value))).collect()
}

/// A log, and what it is held against.
pub(super) struct Run<'a> {
    pub(super) log: &'a DetailLog,
    path: &'a Path,
    pub(super) judged: Judged,
}

impl Run<'_> {
    pub(super) fn at(&self, key: &str) -> At<'_> {
        At::path(self.path).line(self.log.line_of(key))
    }

    /// A run is valid if each of its conditions is met.
    fn check_flags(&self, issues: &mut Issues) {
        let flags = [
            "result_min_duration_met",
            "result_min_queries_met",
            "result_perf_constraints_met",
            "early_stopping_met",
        ];
        let valid = self.log.text("result_validity") == Some("VALID");
        for key in flags.into_iter().filter(|key| valid && self.log.flag(key) == Some(false)) {
            let message = format!("{key} is false in a run that says it is VALID");
            issues.add_expected(&RUN_CONSISTENT, self.at(key), message, "true");
        }
    }

    fn check_order(&self, latencies: &[(String, f64)], issues: &mut Issues) {
        for pair in latencies.windows(2) {
            let [(low_key, low), (high_key, high)] = pair else { continue };
            if low > high {
                let message = format!("{high_key} is {high}, below {low_key}");
                let expected = format!("at least {low}");
                issues.add_expected(&RUN_CONSISTENT, self.at(high_key), message, expected);
            }
        }
        let (Some((_, least)), Some((_, most))) = (latencies.first(), latencies.last()) else {
            return;
        };
        let of_mean = match latencies.first().map(|(key, _)| key.as_str()) {
            Some("result_min_latency_ns") => "result_mean_latency_ns",
            Some("result_min_query_latency_ns") => "result_mean_query_latency_ns",
            _ => return,
        };
        if let Some(mean) = self.log.number(of_mean).filter(|mean| mean < least || mean > most) {
            let message = format!("{of_mean} is {mean}, outside of minimum and maximum");
            let expected = format!("{least} to {most}");
            issues.add_expected(&RUN_CONSISTENT, self.at(of_mean), message, expected);
        }
    }

    /// Whether the run draws further queries when those that were made beforehand are over.
    /// The reference ends.
    fn goes_on(&self) -> bool {
        [("dyno_continue_trace", "true"), ("dyno_early_stopping", "extend")]
            .iter()
            .any(|(key, value)| self.log.text(key) == Some(value))
    }

    /// No more queries are done than were made, and early stopping says how many it saw.
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
        let made = self.log.whole("generated_query_count").filter(|_| !self.goes_on());
        if let Some(made) = made.filter(|made| queries > *made) {
            wrong(key, queries, format!("at most {made}, which is generated_query_count"));
        }
        let texts = ["early_stopping_result", "early_stopping_ttft_result"];
        let seen = texts.into_iter().find_map(|text| queries_seen(self.log.text(text)?));
        if let Some(seen) = seen.filter(|seen| *seen != queries) {
            wrong(key, queries, format!("{seen}, of which early stopping says that it saw them"));
        }
        let key = "result_overlatency_query_count";
        if let Some(over) = self.log.whole(key).filter(|over| *over > queries) {
            wrong(key, over, format!("at most {queries}, which is result_query_count"));
        }
    }

    /// The percentile that decided: the log's own, or else the rules'.
    fn percentile(&self) -> Option<f64> {
        let own = self.log.number("effective_target_latency_percentile");
        own.filter(|share| (0.5..1.0).contains(share)).or(self.judged.percentile)
    }

    fn check_stopping(&self, issues: &mut Issues) {
        let Some(queries) = self.log.whole("result_query_count").filter(|count| *count < 1 << 40)
        else {
            return;
        };
        let estimates: &[(f64, &str)] = match (self.judged.played, self.judged.by) {
            (Scenario::Server | Scenario::Interactive, _) => {
                return self.check_server(queries, issues);
            }
            (Scenario::SingleStream, Decision::EarlyStopping) => &[
                (self.percentile().unwrap_or(0.9), "early_stopping_latency_ss"),
                (0.99, "early_stopping_latency_ms"),
            ],
            (Scenario::MultiStream, Decision::EarlyStopping) => {
                &[(self.percentile().unwrap_or(0.99), "early_stopping_latency_ms")]
            }
            (_, Decision::Percentile) | (Scenario::Offline, _) => &[],
        };
        for (percentile, key) in estimates {
            self.check_estimate(queries, *percentile, key, issues);
        }
    }

    /// With latencies of tokens, the count of queries over the bound means nothing.
    fn check_server(&self, queries: u64, issues: &mut Issues) {
        let Some(over) = self.log.whole("result_overlatency_query_count") else { return };
        let bound = self.log.number("effective_target_latency_ns").filter(|bound| *bound > 0.0);
        let tokens = self.log.flag("requested_use_token_latencies") == Some(true);
        let Some((bound, percentile)) = bound.filter(|_| !tokens).zip(self.percentile()) else {
            return;
        };
        // Told among the counts.
        if over > queries {
            return;
        }
        let needed = minimum_queries(over, &Params::rules(percentile));
        let met = queries >= needed;
        let told = self.log.flag("early_stopping_met");
        let told = told.filter(|_| self.judged.by == Decision::EarlyStopping);
        if told.is_some_and(|told| told != met) {
            let message = format!(
                "early stopping is {}, with {over} of {queries} queries over the bound",
                !met
            );
            let expected = format!("{met}: so many need {needed} queries");
            issues.add_expected(&RUN_STOPPING, self.at("early_stopping_met"), message, expected);
        }
        let name =
            RANKS.iter().find(|(_, share)| (share - percentile).abs() < 1e-9).map(|(name, _)| name);
        let key = format!("result_{}_percentile_latency_ns", name.unwrap_or(&"99.00"));
        let Some(reached) = self.log.number(&key).filter(|_| name.is_some()) else { return };
        let share = over as f64 / queries as f64;
        // One query more or less may be the one at the percentile.
        let slack = 2.0 / queries as f64;
        let contradicts = if reached > bound {
            share < 1.0 - percentile - slack
        } else {
            share > 1.0 - percentile + slack
        };
        if contradicts {
            let message =
                format!("{key} is {reached}, with {over} of {queries} queries over {bound} ns");
            issues.add(&RUN_STOPPING, self.at(&key), message);
        }
    }

    /// The estimate is a latency of the run: that of the worst query that is left when as
    /// many as allowed are set aside. It lies where that rank lies among the percentiles.
    fn check_estimate(&self, queries: u64, percentile: f64, key: &str, issues: &mut Issues) {
        let Some(estimate) = self.log.number(key) else { return };
        let params = Params::rules(percentile);
        let enough = queries >= minimum_queries(1, &params);
        let discarded = largest_overlatency(queries, &params).filter(|_| enough);
        let Some(discarded) = discarded else {
            if estimate > 0.0 {
                let needed = minimum_queries(1, &params);
                let message =
                    format!("{key} is {estimate}, and {queries} queries allow no estimate");
                issues.add_expected(
                    &RUN_STOPPING,
                    self.at(key),
                    message,
                    format!("{needed} queries"),
                );
            }
            return;
        };
        // LoadGen sets one less aside, as the query that it reports may be over as well.
        let discarded = discarded.saturating_sub(1);
        let rank = (queries - discarded) as f64;
        // With latencies of tokens, the estimate is of the first token.
        let tokens = self.log.flag("requested_use_token_latencies") == Some(true);
        let (begin, family) = if tokens {
            ("result_first_token_", "_percentile_latency_ns")
        } else if self.log.number("result_99.00_percentile_per_query_latency_ns").is_some() {
            ("result_", "_percentile_per_query_latency_ns")
        } else {
            ("result_", "_percentile_latency_ns")
        };
        for (name, share) in RANKS {
            let of = format!("{begin}{name}{family}");
            let Some(value) = self.log.number(&of) else { continue };
            let at = share * queries as f64;
            let too_low = at + 2.0 < rank && estimate < value;
            let too_high = at - 2.0 > rank && estimate > value;
            if too_low || too_high {
                let side = if too_low { "at least" } else { "at most" };
                let message = format!(
                    "{key} is {estimate}: with {discarded} of {queries} queries set aside, it is \
                     {side} {of}"
                );
                issues.add_expected(
                    &RUN_STOPPING,
                    self.at(key),
                    message,
                    format!("{side} {value}"),
                );
                return;
            }
        }
    }
}

/// How many queries a text of early stopping is about, such as `Processed at least 64
/// queries (1167425).`.
fn queries_seen(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once(" queries (")?;
    rest.split_once(')')?.0.parse().ok()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::submission::check::Program;
    use crate::submission::check::strict::tests::log;

    /// Messages about a run with these values.
    pub(in super::super) fn found(played: Scenario, pairs: &[(&str, &str)]) -> Vec<String> {
        found_by(Decision::EarlyStopping, played, pairs)
    }

    fn found_by(by: Decision, played: Scenario, pairs: &[(&str, &str)]) -> Vec<String> {
        let mut issues = Issues::new(Program::Strict);
        let judged = Judged { played, percentile: Some(0.99), by };
        check(&log(pairs), Path::new("log"), judged, &mut issues);
        issues.into_findings().into_iter().map(|finding| finding.message).collect()
    }

    /// What a MultiStream run of a real system said.
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
        assert_eq!(found(Scenario::MultiStream, &MULTI_STREAM), [""; 0]);
    }

    #[test]
    fn what_contradicts_the_rest_of_a_log_is_found() {
        for (key, value, part) in [
            ("early_stopping_met", "false", "in a run that says it is VALID"),
            ("result_90.00_percentile_per_query_latency_ns", "1400000", "below result_50.00"),
            ("result_mean_query_latency_ns", "3000000", "outside of minimum and maximum"),
            // 3938 queries may be set aside, which leaves a latency beyond the 99th percentile ..
            (
                "early_stopping_latency_ms",
                "1482561",
                "3938 of 408675 queries set aside, it is at least",
            ),
            // .. and below the 99.9th.
            ("early_stopping_latency_ms", "1493883", "it is at most"),
            ("result_query_count", "600", "600 queries allow no estimate"),
        ] {
            let found = found(Scenario::MultiStream, &with(key, value));
            assert!(found.iter().any(|message| message.contains(part)), "{key} {value}: {found:?}");
        }
    }

    #[test]
    fn early_stopping_of_server_follows_from_two_counts() {
        let by = |by, over: &'static str, met: &'static str, p99: &'static str| {
            let pairs = [
                ("effective_target_latency_ns", "15000000"),
                ("effective_target_latency_percentile", "0.99"),
                ("result_query_count", "100000"),
                ("result_overlatency_query_count", over),
                ("early_stopping_met", met),
                ("result_99.00_percentile_latency_ns", p99),
            ];
            found_by(by, Scenario::Server, &pairs)
        };
        let run = |over, met, p99| by(Decision::EarlyStopping, over, met, p99);
        assert_eq!(run("900", "true", "14900000"), [""; 0]);
        // 1000 over of 100000 is the boundary itself, on which nobody can be confident.
        assert!(run("990", "true", "14900000")[0].contains("early stopping is true"));
        assert_eq!(run("990", "false", "14900000"), [""; 0]);
        assert!(run("100", "true", "15100000")[0].contains("result_99.00"));
        assert!(run("200000", "true", "1")[0].contains("result_overlatency_query_count"));
        // Before v2.0 the percentile itself decides.
        let early = |over, p99| by(Decision::Percentile, over, "true", p99);
        assert_eq!(early("990", "14900000"), [""; 0]);
        assert!(early("1100", "14900000")[0].contains("result_99.00"));
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
            found(Scenario::Offline, &pairs)
        };
        assert_eq!(run("generated_query_count", "1000"), [""; 0]);
        // A system that is faster than was expected of it.
        for goes_on in [("dyno_continue_trace", "\"true\""), ("dyno_early_stopping", "\"extend\"")]
        {
            let pairs = [("generated_query_count", "10"), ("result_query_count", "1000"), goes_on];
            assert_eq!(found(Scenario::SingleStream, &pairs), [""; 0]);
            assert!(!found(Scenario::SingleStream, &pairs[..2]).is_empty());
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
}
