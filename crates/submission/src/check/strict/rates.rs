//! Checks the rates of a run against its counts, its latencies and the wall clock.

use crate::check::catalogue::RUN_CONSISTENT;
use crate::check::issues::Issues;
use crate::facts::loadgen::OfflineCounts;
use dyno_rules::RuleScenario;

use super::derive::Run;
use super::wall_clock::SPAN_TOLERANCE_S;

const NS: f64 = 1e9;
/// Some rates count to slightly different ends.
const RATE_TOLERANCE: f64 = 0.01;
/// Rates that count the same things in the same time have six digits. In the published rounds, they
/// agree to these.
const EXACT_RATE_TOLERANCE: f64 = 0.0005;
/// Number of queries by which the ends of two rates of arrivals may differ.
const ENDS: f64 = 4.0;
/// Arrivals are random: the relative standard deviation of the mean of n intervals is 1/sqrt(n),
/// and more than four of them occur once in ten thousand runs.
const ARRIVAL_DEVIATIONS: f64 = 4.0;

impl Run<'_> {
    /// Checks the rates.
    pub(super) fn check_rates(&self, issues: &mut Issues) {
        self.check_rate(issues);
        self.check_server_rates(issues);
        self.check_tokens(issues);
    }

    /// Checks the rate that follows from latencies if nothing overlaps, or if all samples start
    /// at once.
    fn check_rate(&self, issues: &mut Issues) {
        let number = |key: &str| self.log.number(key);
        let (key, rates): (_, Vec<f64>) = match self.rules.played {
            RuleScenario::SingleStream => {
                let mean = number("result_mean_latency_ns").filter(|mean| *mean > 0.0);
                (
                    "result_qps_without_loadgen_overhead",
                    mean.map(|mean| NS / mean).into_iter().collect(),
                )
            }
            RuleScenario::Offline => {
                let last = number("result_max_latency_ns").filter(|last| *last > 0.0);
                let counts = OfflineCounts::read(self.log).zip(last);
                let rates =
                    counts.map(|(counts, last)| counts.samples().map(move |n| n * NS / last));
                ("result_samples_per_second", rates.into_iter().flatten().collect())
            }
            _ => return,
        };
        let (Some(rate), Some(logged)) = (rates.first(), number(key)) else { return };
        // Before v1.0, rates have two decimals.
        let tolerance = if self.log.is_plain { RATE_TOLERANCE } else { EXACT_RATE_TOLERANCE };
        // Means are whole nanoseconds, which matters for those of a few of them.
        let whole_ns = match self.rules.played {
            RuleScenario::SingleStream => rate / NS,
            _ => 0.0,
        };
        let is_near = |rate: &f64| (logged - rate).abs() <= (tolerance + whole_ns) * rate;
        if !rates.iter().any(is_near) {
            let message =
                format!("{key} is {logged}, but the latencies of the same log contradict it");
            issues.add_expected(&RUN_CONSISTENT, self.at(key), message, format!("{rate:.6}"));
        }
    }

    /// Checks Server: queries arrive as generated, complete after their arrival, and complete
    /// during the run by the wall clock.
    fn check_server_rates(&self, issues: &mut Issues) {
        if !matches!(self.rules.played, RuleScenario::Server | RuleScenario::Interactive) {
            return;
        }
        let number = |key: &str| self.log.number(key).filter(|number| *number > 0.0);
        let (scheduled_key, completed_key) =
            ("result_scheduled_samples_per_sec", "result_completed_samples_per_sec");
        let each = number("generated_samples_per_query").unwrap_or(1.0);
        let mut contradicts = |key: &str, logged: f64, source: &str, expected: String| {
            let message = format!("{key} is {logged}, but {source} of the same log contradict it");
            issues.add_expected(&RUN_CONSISTENT, self.at(key), message, expected);
        };
        let scheduled = number(scheduled_key);
        // A failure may have lowered the initial load.
        let generated = number("generated_query_count").zip(number("generated_query_duration"));
        let generated = generated.filter(|_| self.log.value("dyno_result_target_qps").is_none());
        if let Some((logged, (count, ns))) = scheduled.zip(generated) {
            let rate = count * each * NS / ns;
            let issued = self.log.whole("result_query_count");
            // Early releases log no number of issued queries. Since v1.0 they issue all.
            let are_all_issued = match issued {
                None => !self.log.is_plain,
                Some(_) => issued == self.log.whole("generated_query_count"),
            };
            let tolerance = if are_all_issued {
                EXACT_RATE_TOLERANCE + ENDS / count
            } else {
                let issued = number("result_query_count").unwrap_or(count);
                RATE_TOLERANCE + ARRIVAL_DEVIATIONS / issued.sqrt()
            };
            if (logged - rate).abs() > tolerance * rate {
                contradicts(scheduled_key, logged, "the generated queries", format!("{rate:.6}"));
            }
        }
        let Some(queries) = number("result_query_count") else { return };
        let Some(completed) = number(completed_key) else { return };
        if let Some(most) = scheduled.filter(|most| completed > most * (1.0 + RATE_TOLERANCE)) {
            contradicts(completed_key, completed, "the arrivals", format!("at most {most}"));
        }
        let times = self.span_s().zip(number("result_max_latency_ns"));
        let Some((span, slowest)) = times else { return };
        // The last query to arrive need not be the last to complete.
        let slack = slowest / NS + SPAN_TOLERANCE_S;
        let took = queries * each / completed;
        if took * (1.0 + RATE_TOLERANCE) + slack < span {
            let expected = format!("about {:.6}", queries * each / span);
            contradicts(completed_key, completed, "power_begin and power_end", expected);
        }
        let most = span * (1.0 + RATE_TOLERANCE) + SPAN_TOLERANCE_S;
        if took - self.lost() / completed > most {
            let expected = format!("at most {:.0}", most * completed / each);
            contradicts("result_query_count", queries, "the rates and the times", expected);
        }
    }

    /// Checks that both pairs of rates imply the same number of tokens per sample.
    fn check_tokens(&self, issues: &mut Issues) {
        let ratio = |tokens: &str, samples: &str| {
            let pair = self.log.number(tokens).zip(self.log.number(samples));
            pair.filter(|(_, samples)| *samples > 0.0).map(|(tokens, samples)| tokens / samples)
        };
        let key = "result_completed_tokens_per_second";
        let completed = ratio(key, "result_completed_samples_per_sec");
        let offered = ratio(
            "result_token_throughput_with_loadgen_overhead",
            "result_scheduled_samples_per_sec",
        );
        let Some((completed, offered)) = completed.zip(offered) else { return };
        if (completed - offered).abs() > EXACT_RATE_TOLERANCE * offered {
            let message = format!("{key} implies {completed:.3} tokens per sample");
            let expected =
                format!("{offered:.3}, from result_token_throughput_with_loadgen_overhead");
            issues.add_expected(&RUN_CONSISTENT, self.at(key), message, expected);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::strict::derive::tests::found;

    #[test]
    fn rates_follow_from_latencies() {
        let single = |rate| {
            let pairs = [
                ("result_mean_latency_ns", "1000000"),
                ("result_qps_without_loadgen_overhead", rate),
            ];
            found(RuleScenario::SingleStream, &pairs)
        };
        assert_eq!(single("1000.2"), [""; 0]);
        assert_eq!(single("1100").len(), 1);
        let offline = |rate| {
            let pairs = [
                ("generated_query_count", "1"),
                ("generated_samples_per_query", "66000"),
                ("result_max_latency_ns", "600000000000"),
                ("result_samples_per_second", rate),
            ];
            found(RuleScenario::Offline, &pairs)
        };
        assert_eq!(offline("110.0"), [""; 0]);
        assert_eq!(offline("110.001"), [""; 0]);
        assert_eq!(offline("111.1").len(), 1);
        assert_eq!(offline("1100.0").len(), 1);
        // A log of v2.0: 586 permutations of 42 volumes are 24,612 samples.
        let volumes = |release| {
            let pairs = [
                ("loadgen_version", release),
                ("effective_performance_sample_count", "42"),
                ("generated_query_count", "1"),
                ("generated_samples_per_query", "24576"),
                ("result_max_latency_ns", "1836824203239"),
                ("result_samples_per_second", "13.3992"),
            ];
            found(RuleScenario::Offline, &pairs)
        };
        assert_eq!(volumes("\"2.0 @ 701847516c\""), [""; 0]);
        assert_eq!(volumes("\"4.0 @ e34bdc6e82\""), [""; 0]);
        assert_eq!(volumes("\"5.0.25 @ 1bc3e998cb\"").len(), 1);
        assert_eq!(volumes("\"1.1 @ 4a4a4a4a4a\"").len(), 1);
    }

    #[test]
    fn queries_of_server_fit_into_the_run() {
        let run = |queries| {
            let pairs = [
                ("result_query_count", queries),
                ("dyno_early_stopping", "\"extend\""),
                ("generated_query_count", "26736"),
                ("generated_samples_per_query", "1"),
                ("result_max_latency_ns", "5399301127"),
                ("power_begin", "\"07-23-2025 02:30:20.000\""),
                ("power_end", "\"07-23-2025 02:41:35.734\""),
                ("result_scheduled_samples_per_sec", "39.6388"),
                ("result_completed_samples_per_sec", "39.5644"),
            ];
            found(RuleScenario::Server, &pairs)
        };
        assert_eq!(run("26736"), [""; 0]);
        // 53472 queries at 39.5644 queries/s take 1351.5 s. The run took 675.7 s.
        assert!(run("53472")[0].contains("result_query_count is 53472"));
    }

    /// Values of Server runs of real systems, for images and for text.
    #[test]
    fn rates_of_server_follow_from_counts_and_from_the_wall_clock() {
        let run = |scheduled: &'static str, completed: &'static str, tokens: &'static str| {
            let pairs = [
                ("result_query_count", "26736"),
                ("generated_query_count", "26736"),
                ("generated_samples_per_query", "1"),
                ("generated_query_duration", "674472826893"),
                ("result_max_latency_ns", "5399301127"),
                ("power_begin", "\"07-23-2025 02:30:20.000\""),
                ("power_end", "\"07-23-2025 02:41:35.734\""),
                ("result_scheduled_samples_per_sec", scheduled),
                ("result_completed_samples_per_sec", completed),
                ("result_completed_tokens_per_second", tokens),
                ("result_token_throughput_with_loadgen_overhead", "5113.59"),
            ];
            found(RuleScenario::Server, &pairs)
        };
        assert_eq!(run("39.6388", "39.5644", "5103.99"), [""; 0]);
        for (scheduled, completed, tokens, part) in [
            ("42.8", "39.5644", "5103.99", "the generated queries"),
            ("39.7", "39.5644", "5103.99", "the generated queries"),
            ("39.6388", "39.5644", "5110", "129.157"),
            ("39.6388", "42.8", "5103.99", "the arrivals"),
            ("42.8", "42.8", "5521", "power_begin and power_end"),
            ("39.6388", "39.5644", "10208", "258.0"),
        ] {
            let found = run(scheduled, completed, tokens);
            assert!(found.iter().any(|message| message.contains(part)), "{part}: {found:?}");
        }
    }
}
