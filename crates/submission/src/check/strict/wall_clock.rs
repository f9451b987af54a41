//! Compares a run with the wall-clock times of its start and end. Forged latencies that are too
//! short leave unexplained time.

use crate::check::catalogue::RUN_CONSISTENT;
use crate::check::issues::Issues;
use crate::power::clock::Stamp;
use dyno_rules::RuleScenario;

use super::derive::{Decision, Run};

const NS: f64 = 1e9;
/// Start and end are recorded slightly inside the duration of a run.
pub(super) const SPAN_TOLERANCE_S: f64 = 2.0;
/// Rates have six digits, and both clocks drift.
const SHARE_TOLERANCE: f64 = 0.01;
/// Maximum idle time from an answer to the next query, s. LoadGen takes some microseconds; a
/// system in Python may wait for the interpreter lock, which changes hands every 5 ms.
const BETWEEN_QUERIES_S: f64 = 0.005;
/// Permitted additional time as a share of the latencies.
const BETWEEN_QUERIES_SHARE: f64 = 0.1;

impl Run<'_> {
    /// Checks the times of start and end.
    pub(super) fn check_span(&self, issues: &mut Issues) {
        let Some(span) = self.span_s() else { return };
        self.check_least_duration(span, issues);
        match (self.rules.played, self.rules.decision) {
            // All samples start at once, and the last to complete ends the run.
            (RuleScenario::Offline, _) => {
                let key = "result_max_latency_ns";
                if let Some(slowest) = self.log.number(key) {
                    self.check_time(key, slowest / NS, span..=span, issues);
                }
            }
            (RuleScenario::SingleStream, _) => {
                let key = "result_qps_with_loadgen_overhead";
                let rate = self.log.number(key).filter(|rate| *rate > 0.0);
                if let Some((queries, rate)) = self.log.number("result_query_count").zip(rate) {
                    // The rate counts up to the last query, not to the last answer.
                    let slowest = self.log.number("result_max_latency_ns").unwrap_or(0.0) / NS;
                    self.check_time(key, queries / rate, span - slowest..=span + slowest, issues);
                }
                self.check_one_after_another("result_mean_latency_ns", span, issues);
            }
            // Before early stopping, queries waited for their interval.
            (RuleScenario::MultiStream, Decision::EarlyStopping) => {
                self.check_one_after_another("result_mean_query_latency_ns", span, issues);
            }
            _ => {}
        }
    }

    /// Checks that sequential queries fill the time.
    fn check_one_after_another(&self, mean_key: &str, span: f64, issues: &mut Issues) {
        let pair = self.log.number("result_query_count").zip(self.log.number(mean_key));
        let Some((queries, mean)) = pair else { return };
        let least = (span - queries * BETWEEN_QUERIES_S) / (1.0 + BETWEEN_QUERIES_SHARE);
        self.check_time(mean_key, queries * mean / NS, least..=span, issues);
    }

    /// Checks that the time which a key implies is within the range by the wall clock.
    fn check_time(
        &self,
        key: &str,
        took: f64,
        possible: std::ops::RangeInclusive<f64>,
        issues: &mut Issues,
    ) {
        let least = possible.start() * (1.0 - SHARE_TOLERANCE) - SPAN_TOLERANCE_S;
        let most = possible.end() * (1.0 + SHARE_TOLERANCE) + SPAN_TOLERANCE_S;
        if !(least..=most).contains(&took) {
            let message = format!("the queries took {took:.3} s according to {key}");
            let (side, limit) = if took < least { ("least", least) } else { ("most", most) };
            let expected = format!(
                "at {side} {limit:.3} s, the time between power_begin and \
                 power_end"
            );
            issues.add_expected(&RUN_CONSISTENT, self.at(key), message, expected);
        }
    }

    /// Returns the wall-clock seconds from start to end.
    pub(super) fn span_s(&self) -> Option<f64> {
        let stamp = |key: &str| self.log.text(key).and_then(Stamp::parse);
        let (begin, end) = stamp("power_begin").zip(stamp("power_end"))?;
        Some(end.seconds_since(begin))
    }

    /// Checks that the wall-clock time reaches the minimum duration.
    fn check_least_duration(&self, span: f64, issues: &mut Issues) {
        let Some(least) = self.log.number("effective_min_duration_ms") else { return };
        let met = self.log.flag("result_min_duration_met") != Some(false);
        if met && span + SPAN_TOLERANCE_S < least / 1e3 {
            let message = format!("power_begin and power_end are {span:.3} s apart");
            let expected = format!("at least {:.3} s, the minimum duration", least / 1e3);
            issues.add_expected(&RUN_CONSISTENT, self.at("power_end"), message, expected);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::strict::derive::tests::found;

    const BEGIN: (&str, &str) = ("power_begin", "\"07-23-2025 02:30:20.039\"");

    #[test]
    fn the_wall_clock_must_have_seen_the_least_duration() {
        let run = |end| {
            let pairs = [("effective_min_duration_ms", "600000"), BEGIN, ("power_end", end)];
            found(RuleScenario::Server, &pairs)
        };
        assert_eq!(run("\"07-23-2025 02:40:20.040\""), [""; 0]);
        assert_eq!(run("\"07-23-2025 02:31:20.040\"").len(), 1);
    }

    #[test]
    fn latencies_fill_the_time_that_the_wall_clock_has_seen() {
        let end = ("power_end", "\"07-23-2025 02:40:20.040\"");
        let offline = |slowest| {
            found(RuleScenario::Offline, &[BEGIN, end, ("result_max_latency_ns", slowest)])
        };
        assert_eq!(offline("599998700000"), [""; 0]);
        for forged in ["300000000000", "700000000000"] {
            assert_eq!(offline(forged).len(), 1, "{forged}");
        }
        let streams = |scenario, key: &'static str, mean| {
            let pairs = [BEGIN, end, ("result_query_count", "1200"), (key, mean)];
            found(scenario, &pairs)
        };
        for (scenario, key) in [
            (RuleScenario::SingleStream, "result_mean_latency_ns"),
            (RuleScenario::MultiStream, "result_mean_query_latency_ns"),
        ] {
            assert_eq!(streams(scenario, key, "499000000"), [""; 0]);
            for forged in ["430000000", "520000000"] {
                assert_eq!(streams(scenario, key, forged).len(), 1, "{scenario:?} {forged}");
            }
        }
        let rate = |rate| {
            let key = "result_qps_with_loadgen_overhead";
            let pairs = [BEGIN, end, ("result_query_count", "1200"), (key, rate)];
            found(RuleScenario::SingleStream, &pairs)
        };
        assert_eq!(rate("2.0"), [""; 0]);
        assert_eq!((rate("2.1").len(), rate("1.9").len()), (1, 1));
    }
}
