//! Checks early stopping: its decision follows from two counts, and its estimates are between
//! percentiles.

use dyno_loadgen::early_stopping::{Params, largest_overlatency, minimum_queries};

use super::derive::{Decision, RANKS, Run, STOPPING};
use crate::check::catalogue::RUN_STOPPING;
use crate::check::issues::Issues;
use crate::finding::counted;
use dyno_rules::RuleScenario;

/// Text of a run with too many queries above the bound.
const UNSUCCESSFUL: &str = "Run unsuccessful";

impl Run<'_> {
    /// Checks the decision, its numbers and its texts.
    pub(super) fn check_stopping(&self, issues: &mut Issues) {
        self.check_words(issues);
        let Some(queries) = self.log.whole("result_query_count").filter(|count| *count < 1 << 40)
        else {
            return;
        };
        let estimates: &[(f64, &str)] = match (self.rules.played, self.rules.decision) {
            (RuleScenario::Server | RuleScenario::Interactive, _) => {
                return self.check_server(queries, issues);
            }
            (RuleScenario::SingleStream, Decision::EarlyStopping) => &[
                (self.percentile().unwrap_or(0.9), "early_stopping_latency_ss"),
                (0.99, "early_stopping_latency_ms"),
            ],
            (RuleScenario::MultiStream, Decision::EarlyStopping) => {
                &[(self.percentile().unwrap_or(0.99), "early_stopping_latency_ms")]
            }
            (_, Decision::Percentile) | (RuleScenario::Offline, _) => &[],
        };
        for (percentile, key) in estimates {
            self.check_estimate(queries, *percentile, key, issues);
        }
    }

    /// Returns the percentile that decided: the log's, or else the rules'.
    fn percentile(&self) -> Option<f64> {
        let own = self.log.number("effective_target_latency_percentile");
        own.filter(|share| (0.5..1.0).contains(share)).or(self.rules.percentile)
    }

    /// Checks Server. With token latencies, the count of queries above the bound has no meaning.
    fn check_server(&self, queries: u64, issues: &mut Issues) {
        let Some(over) = self.log.whole("result_overlatency_query_count") else { return };
        let bound = self.log.number("effective_target_latency_ns").filter(|bound| *bound > 0.0);
        let tokens = self.log.flag("requested_use_token_latencies") == Some(true);
        let Some((bound, percentile)) = bound.filter(|_| !tokens).zip(self.percentile()) else {
            return;
        };
        // Reported by the check of counts.
        if over > queries {
            return;
        }
        self.check_over(queries, over, bound, issues);
        let needed = minimum_queries(over, &Params::rules(percentile));
        let met = queries >= needed;
        let logged = self.log.flag("early_stopping_met");
        let logged = logged.filter(|_| self.rules.decision == Decision::EarlyStopping);
        if logged.is_some_and(|logged| logged != met) {
            let message = format!(
                "early stopping is {}, with {over} of {queries} queries over the bound",
                !met
            );
            let expected = format!("{met}: that needs {needed} queries");
            issues.add_expected(&RUN_STOPPING, self.at("early_stopping_met"), message, expected);
        }
    }

    /// Checks the count of queries over the bound by minimum, percentiles and maximum. Queries
    /// without an answer are over the bound, and have no latency.
    fn check_over(&self, queries: u64, over: u64, bound: f64, issues: &mut Issues) {
        let (queries, over, lost) = (queries as f64, over as f64, self.lost());
        let answered = (queries - lost).max(0.0);
        let rank = |(name, share): (&str, f64)| {
            let key = format!("result_{name}_percentile_latency_ns");
            // One query more or less may be the one at the percentile.
            (key, ((1.0 - share) * answered - 2.0, (1.0 - share) * answered + 2.0))
        };
        let [least, most] = ["min", "max"].map(|edge| format!("result_{edge}_latency_ns"));
        // All queries are at least the minimum. One or more are the maximum.
        let known = std::iter::once((least, (answered, f64::MAX)))
            .chain(RANKS.into_iter().map(rank))
            .chain(std::iter::once((most, (1.0, 0.0))));
        for (key, (fewest, most)) in known {
            let Some(reached) = self.log.number(&key) else { continue };
            let contradicts =
                if reached > bound { over < fewest + lost } else { over > most + lost };
            if contradicts {
                let message =
                    format!("{key} is {reached}, with {over} of {queries} queries over {bound} ns");
                return issues.add(&RUN_STOPPING, self.at(&key), message);
            }
        }
        if over < lost {
            let message = format!("{over} queries are over {bound} ns, but {lost} have no answer");
            issues.add(&RUN_STOPPING, self.at("result_overlatency_query_count"), message);
        }
    }

    /// Checks an estimate. It is the latency of the worst query that remains after as many as
    /// allowed are discarded, so it must be between the percentiles around that rank.
    fn check_estimate(&self, queries: u64, percentile: f64, key: &str, issues: &mut Issues) {
        let Some(estimate) = self.log.number(key) else { return };
        let params = Params::rules(percentile);
        let enough = queries >= minimum_queries(1, &params);
        let discarded = largest_overlatency(queries, &params).filter(|_| enough);
        let Some(discarded) = discarded else {
            if estimate > 0.0 {
                let needed = minimum_queries(1, &params);
                let count = counted(queries, "query", "queries");
                let message = format!("{key} is {estimate}, but {count} too few for an estimate");
                issues.add_expected(
                    &RUN_STOPPING,
                    self.at(key),
                    message,
                    format!("{needed} queries"),
                );
            }
            return;
        };
        // LoadGen discards one less, because the reported query may exceed the bound as well.
        let discarded = discarded.saturating_sub(1);
        let rank = (queries - discarded) as f64;
        // With token latencies, the estimate refers to the first token.
        let tokens = self.log.flag("requested_use_token_latencies") == Some(true);
        let (begin, family) = if tokens {
            ("result_first_token_", "_percentile_latency_ns")
        } else if self.log.number("result_99.00_percentile_per_query_latency_ns").is_some() {
            ("result_", "_percentile_per_query_latency_ns")
        } else {
            ("result_", "_percentile_latency_ns")
        };
        for (name, share) in RANKS {
            let percentile_key = format!("{begin}{name}{family}");
            let Some(value) = self.log.number(&percentile_key) else { continue };
            let position = share * queries as f64;
            let too_low = position + 2.0 < rank && estimate < value;
            let too_high = position - 2.0 > rank && estimate > value;
            if too_low || too_high {
                let side = if too_low { "at least" } else { "at most" };
                let message = format!(
                    "{key} is {estimate}: with {discarded} of {queries} queries set aside, it is \
                     {side} {percentile_key}"
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

    /// Checks that the texts of early stopping match its decision.
    fn check_words(&self, issues: &mut Issues) {
        let is_met = self.log.flag("early_stopping_met") == Some(true);
        let says = |key: &&str| self.log.text(key).is_some_and(|text| text.contains(UNSUCCESSFUL));
        for key in STOPPING.into_iter().filter(|_| is_met).filter(says) {
            let message = format!("{key} is `{UNSUCCESSFUL}`, but early_stopping_met is true");
            issues.add(&RUN_STOPPING, self.at(key), message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::strict::derive::tests::found_by;

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
            found_by(by, RuleScenario::Server, &pairs)
        };
        let run = |over, met, p99| by(Decision::EarlyStopping, over, met, p99);
        assert_eq!(run("900", "true", "14900000"), [""; 0]);
        // 1000 of 100000 is the boundary itself, which gives no confidence.
        assert!(run("990", "true", "14900000")[0].contains("early stopping is true"));
        assert_eq!(run("990", "false", "14900000"), [""; 0]);
        assert!(run("100", "true", "15100000")[0].contains("result_99.00"));
        assert!(run("200000", "true", "1")[0].contains("result_overlatency_query_count"));
        // Before v2.0 the percentile itself decides.
        let early = |over, p99| by(Decision::Percentile, over, "true", p99);
        assert_eq!(early("990", "14900000"), [""; 0]);
        assert!(early("1100", "14900000")[0].contains("result_99.00"));
    }

    /// 10 of 10 000 latencies are at least the percentile 99.9, and one is the maximum.
    #[test]
    fn every_percentile_bounds_the_queries_over_the_bound() {
        let run = |over: &'static str, p999: &'static str, most: &'static str, failed| {
            let pairs = [
                ("effective_target_latency_ns", "100"),
                ("effective_target_latency_percentile", "0.99"),
                ("result_query_count", "10000"),
                ("result_overlatency_query_count", over),
                ("result_min_latency_ns", "1"),
                ("result_99.90_percentile_latency_ns", p999),
                ("result_max_latency_ns", most),
                ("dyno_failed_samples", failed),
            ];
            found_by(Decision::EarlyStopping, RuleScenario::Server, &pairs)
        };
        assert_eq!(run("0", "90", "100", "0"), [""; 0]);
        assert_eq!(run("1", "90", "101", "0"), [""; 0]);
        assert_eq!(run("10", "101", "110", "0"), [""; 0]);
        assert_eq!(run("3", "90", "100", "3"), [""; 0]);
        for (over, p999, most, failed, part) in [
            ("1", "90", "100", "0", "result_max"),
            ("0", "90", "101", "0", "result_max"),
            ("20", "90", "110", "0", "result_99.90"),
            ("7", "101", "110", "0", "result_99.90"),
            ("2", "90", "100", "3", "3 have no answer"),
        ] {
            let found = run(over, p999, most, failed);
            let [message] = &found[..] else { panic!("{over} {p999} {most}: {found:?}") };
            assert!(message.contains(part), "{message}");
        }
    }
}
