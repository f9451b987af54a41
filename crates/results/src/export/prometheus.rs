//! Results of a run in the Prometheus text format 0.0.4. Metrics are gauges because counts do not
//! accumulate from run to run.

use std::fmt::Write as _;

use crate::series::{self, Histogram};
use crate::summary::answers::{Answers, Contradiction};
use crate::summary::excluded::ExcludedRequests;
use crate::summary::metrics::Distribution;
use crate::summary::{Accuracy, Metrics, RequirementFinding, Run, State, Test};

/// Returns the metrics of a run.
pub fn text(run: &Run, series: &series::Run) -> String {
    let mut text = Text::default();
    of_run(&mut text, run);
    of_tests(&mut text, run);
    of_requirements(&mut text, run);
    of_accuracy(&mut text, run);
    of_metrics(&mut text, run);
    of_rates(&mut text, run);
    of_times(&mut text, run, series);
    text.0
}

/// Labels and value of a sample.
type Sample = (Vec<(&'static str, String)>, f64);

#[derive(Default)]
struct Text(String);

impl Text {
    fn gauge(&mut self, name: &str, help: &str, samples: impl IntoIterator<Item = Sample>) {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return;
        }
        self.head(name, "gauge", help);
        for (labels, value) in samples {
            self.sample(name, &labels, &value.to_string());
        }
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, String)], value: &str) {
        let labels: Vec<String> =
            labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
        let _ = writeln!(self.0, "{name}{{{}}} {value}", labels.join(","));
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn labels_of_run(run: &Run) -> Vec<(&'static str, String)> {
    vec![("name", run.name.clone()), ("system", run.system.clone())]
}

fn labels(run: &Run, test: &Test) -> Vec<(&'static str, String)> {
    let mut labels = labels_of_run(run);
    labels.push(("scenario", test.scenario.clone()));
    labels.push(("mode", test.mode.clone()));
    labels.extend(test.tenant.clone().map(|tenant| ("tenant", tenant)));
    labels
}

fn with(
    mut labels: Vec<(&'static str, String)>,
    name: &'static str,
    value: impl Into<String>,
) -> Vec<(&'static str, String)> {
    labels.push((name, value.into()));
    labels
}

fn of_run(text: &mut Text, run: &Run) {
    let environment = &run.environment;
    let mut about = labels_of_run(run);
    about.push(("dyno_version", environment.dyno_version.clone()));
    about.extend(environment.git_commit.clone().map(|commit| ("git_commit", commit)));
    about.push(("build", environment.build.clone()));
    about.push(("time", run.time.clone()));
    about.push(("profile", run.profile.clone()));
    about.push(("verdict", run.verdict.clone()));
    text.gauge("dyno_run_info", "Description of the run; always 1.", [(about, 1.0)]);
    let of_run = |value: f64| [(labels_of_run(run), value)];
    let valid = f64::from(u8::from(run.is_stated_valid()));
    text.gauge("dyno_run_valid", "1 if every test of the run is VALID, else 0.", of_run(valid));
    let undecided = f64::from(u8::from(run.is_undecided()));
    let help = "1 if the run is UNDECIDED (neither VALID nor INVALID is proven), else 0.";
    text.gauge("dyno_run_undecided", help, of_run(undecided));
    // Virtual time has no date.
    if let Some(finished) = unix_seconds(&run.finished_at) {
        let help = "End of the run, since 1970.";
        text.gauge("dyno_run_finished_timestamp_seconds", help, of_run(finished as f64));
        let help = "Duration of the whole run.";
        text.gauge("dyno_run_duration_seconds", help, of_run(seconds(run.duration_ns)));
    }
}

fn of_tests(text: &mut Text, run: &Run) {
    let flags = |is: fn(&Test) -> bool| {
        let flag = move |test| (labels(run, test), f64::from(u8::from(is(test))));
        run.tests.iter().map(flag)
    };
    text.gauge("dyno_test_valid", "1 if the test is VALID, else 0.", flags(Test::is_stated_valid));
    let help = "1 if the test is UNDECIDED (neither VALID nor INVALID is proven), else 0.";
    text.gauge("dyno_test_undecided", help, flags(Test::is_undecided));
    let is_complete = |test: &Test| test.state == State::Complete;
    text.gauge("dyno_test_complete", "1 if the test finished, else 0.", flags(is_complete));
}

fn of_requirements(text: &mut Text, run: &Run) {
    let all = run.tests.iter().flat_map(|test| test.requirements.iter().map(move |of| (test, of)));
    let mut met: Vec<Sample> = Vec::new();
    for (test, of) in all {
        let labels = with(labels(run, test), "requirement", of.requirement.clone());
        let labels = with(labels, "finding", of.finding.word());
        let sample = (labels, f64::from(u8::from(of.finding == RequirementFinding::Met)));
        // Two bounds may look alike, and a collector rejects a page with the same sample twice.
        if !met.contains(&sample) {
            met.push(sample);
        }
    }
    text.gauge("dyno_requirement_met", "1 if the requirement is met, else 0.", met);
}

fn of_accuracy(text: &mut Text, run: &Run) {
    let shares = |of: fn(&Accuracy) -> Option<f64>| {
        let tests = run.tests.iter();
        tests.filter_map(move |test| Some((labels(run, test), of(test.accuracy.as_ref()?)?)))
    };
    let help = "Share of correct answers.";
    text.gauge("dyno_accuracy_ratio", help, shares(Accuracy::share));
    let help = "Required share of correct answers.";
    text.gauge("dyno_accuracy_target_ratio", help, shares(Accuracy::target_share));
}

fn measured(run: &Run) -> impl Iterator<Item = (&Test, &Metrics)> {
    run.tests.iter().filter_map(|test| Some((test, test.metrics.as_ref()?)))
}

fn of_metrics(text: &mut Text, run: &Run) {
    let gauge = |of: fn(&Metrics) -> f64| {
        measured(run).map(move |(test, metrics)| (labels(run, test), of(metrics)))
    };
    let help = "From the start of the test to the last completion.";
    text.gauge("dyno_test_duration_seconds", help, gauge(|m| seconds(m.lasted_ns)));
    let help = "Queries issued and measured, without those of a ramp and cancelled ones.";
    text.gauge("dyno_queries_issued", help, gauge(|m| m.query_count as f64));
    let excluded = |of: fn(&ExcludedRequests) -> u64| {
        measured(run).filter_map(move |(test, metrics)| {
            Some((labels(run, test), of(metrics.excluded.as_ref()?) as f64))
        })
    };
    let help = "Queries that the client cancelled on purpose.";
    text.gauge("dyno_queries_cancelled", help, excluded(|excluded| excluded.cancelled));
    let help = "Queries of the ramp, which are not measured.";
    text.gauge("dyno_queries_in_ramp", help, excluded(|excluded| excluded.ramp_requests));
    text.gauge("dyno_samples_answered", "Samples answered.", gauge(|m| m.sample_count as f64));
    let help = "Samples that were never answered.";
    text.gauge("dyno_samples_missing", help, gauge(|m| m.missing as f64));
    let failed = measured(run).flat_map(|(test, metrics)| {
        let reasons = metrics.failed.by_reason();
        reasons.map(|(reason, count)| (with(labels(run, test), "reason", reason), count as f64))
    });
    text.gauge("dyno_samples_failed", "Samples that the system could not answer.", failed);
    let help = "Share of the samples issued that failed or are missing.";
    text.gauge("dyno_error_ratio", help, gauge(|m| m.error_rate));
    let over = measured(run).filter(|(test, _)| test.scenario == "Server");
    let over = over.flat_map(|(test, metrics)| {
        let over = &metrics.over_bound;
        let bounds = [
            ("latency", test.plan.latency_bound_ns, over.latency),
            ("first_token", test.plan.first_token_bound_ns, over.first_token),
            (
                "time_per_output_token",
                test.plan.time_per_output_token_bound_ns,
                over.time_per_output_token,
            ),
        ];
        let judged =
            bounds.into_iter().filter_map(|(of, bound, count)| Some((of, bound.and(count)?)));
        judged.map(|(of, count)| (with(labels(run, test), "bound", of), count as f64))
    });
    text.gauge("dyno_samples_over_bound", "Samples over a bound, failed ones included.", over);
}

fn of_rates(text: &mut Text, run: &Run) {
    type Kinds = Vec<(&'static str, Option<f64>)>;
    let rates = |of: fn(&Metrics) -> Kinds| {
        measured(run).flat_map(move |(test, metrics)| {
            let known = of(metrics).into_iter().filter_map(|(kind, rate)| Some((kind, rate?)));
            known.map(move |(kind, rate)| (with(labels(run, test), "kind", kind), rate))
        })
    };
    let help = "Samples per second: offered, answered, and answered within every bound, or within \
                the limits of --goodput.";
    let samples = rates(|m| {
        vec![
            ("scheduled", m.rates.scheduled_samples_per_s),
            ("completed", m.rates.completed_samples_per_s.or(m.rates.samples_per_s)),
            ("goodput", m.rates.goodput_samples_per_s),
        ]
    });
    text.gauge("dyno_samples_per_second", help, samples);
    let help = "Queries per second of SingleStream, with and without the client's overhead.";
    let queries = rates(|m| {
        vec![
            ("with_overhead", m.rates.queries_per_s_with_overhead),
            ("without_overhead", m.rates.queries_per_s_without_overhead),
        ]
    });
    text.gauge("dyno_queries_per_second", help, queries);
    let tokens = rates(|m| {
        let tokens = m.token_rates.clone().unwrap_or_default();
        vec![("completed", tokens.completed_tokens_per_s.or(tokens.tokens_per_s))]
    });
    text.gauge("dyno_tokens_per_second", "Output tokens per second.", tokens);
    of_answers(text, run);
}

/// Appends answers of text servers and their tokens.
fn of_answers(text: &mut Text, run: &Run) {
    let classes = measured(run).flat_map(|(test, metrics)| {
        let classes = metrics.answers.iter().flat_map(Answers::by_class);
        let labelled = move |(class, n)| (with(labels(run, test), "class", class), n as f64);
        classes.map(labelled).collect::<Vec<_>>()
    });
    let help = "Samples of text servers by outcome; only complete answers succeed.";
    text.gauge("dyno_answers", help, classes);
    let tokens = measured(run).flat_map(|(test, metrics)| {
        let totals = metrics.tokens.iter().flat_map(|tokens| {
            [
                ("input", tokens.input),
                ("cached", tokens.cached),
                ("output", tokens.output),
                ("reasoning", tokens.reasoning),
            ]
        });
        let known = totals.filter_map(|(kind, count)| Some((kind, count?)));
        let labelled = move |(kind, n)| (with(labels(run, test), "kind", kind), n as f64);
        known.map(labelled).collect::<Vec<_>>()
    });
    text.gauge("dyno_tokens", "Tokens of answered samples.", tokens);
    let inputs = measured(run).filter_map(|(test, metrics)| {
        Some((labels(run, test), metrics.tokens.as_ref()?.input_per_s?))
    });
    text.gauge("dyno_input_tokens_per_second", "Input tokens per second.", inputs);
    let contradictions = measured(run).flat_map(|(test, metrics)| {
        let all = metrics.tokens.iter().flat_map(|tokens| &tokens.contradictions);
        let labelled = move |(kind, of): (&String, &Contradiction)| {
            (with(labels(run, test), "kind", kind), of.answers as f64)
        };
        all.map(labelled).collect::<Vec<_>>()
    });
    let help = "Answers whose counts of tokens contradict each other.";
    text.gauge("dyno_token_contradictions", help, contradictions);
}

fn of_times(text: &mut Text, run: &Run, series: &series::Run) {
    let bounds = run
        .tests
        .iter()
        .filter_map(|test| Some((labels(run, test), seconds(test.plan.latency_bound_ns?))));
    text.gauge("dyno_latency_bound_seconds", "Bound of the latency.", bounds);
    let answered = measured(run).filter_map(|(test, metrics)| Some((test, metrics.answered()?)));
    let quantiles = answered.flat_map(|(test, d)| {
        let values =
            [("0.5", d.p50), ("0.9", d.p90), ("0.95", d.p95), ("0.99", d.p99), ("0.999", d.p99_9)];
        values.map(|(q, value)| (with(labels(run, test), "quantile", q), value as f64 / 1e9))
    });
    let help = "Latency from the scheduled time, by share of the queries that it does not exceed.";
    text.gauge("dyno_latency_quantile_seconds", help, quantiles);

    let tests: Vec<TestHistograms<'_>> = measured(run)
        .filter_map(|(test, metrics)| {
            let plots = series.tests.iter().find(|plots| plots.folder == test.folder)?;
            Some(TestHistograms { labels: labels(run, test), metrics, plots })
        })
        .collect();
    let help = "Latency from the scheduled time.";
    histograms(text, "dyno_latency_seconds", help, &tests, |t| {
        (&t.plots.latency.histogram, Some(t.metrics.timed()))
    });
    let help = "From the scheduled time to the first token.";
    histograms(text, "dyno_time_to_first_token_seconds", help, &tests, |t| {
        (&t.plots.first_token.histogram, t.metrics.first_token_ns.as_ref())
    });
    let help = "Time per output token after the first.";
    histograms(text, "dyno_time_per_output_token_seconds", help, &tests, |t| {
        (&t.plots.time_per_output_token.histogram, t.metrics.time_per_output_token_ns.as_ref())
    });
    let help = "Delay of the client after the scheduled time.";
    histograms(text, "dyno_client_lag_seconds", help, &tests, |t| {
        (&t.plots.client_lag.histogram, t.metrics.client_lag_ns.as_ref())
    });
}

/// Test with its histograms.
struct TestHistograms<'a> {
    labels: Vec<(&'static str, String)>,
    metrics: &'a Metrics,
    plots: &'a series::Test,
}

fn histograms<'a>(
    text: &mut Text,
    name: &str,
    help: &str,
    tests: &'a [TestHistograms<'a>],
    of: impl Fn(&'a TestHistograms<'a>) -> (&'a Histogram, Option<&'a Distribution>),
) {
    let mut has_head = false;
    for test in tests {
        let (histogram, distribution) = of(test);
        let Some(distribution) = distribution.filter(|_| !histogram.buckets.is_empty()) else {
            continue;
        };
        if !has_head {
            text.head(name, "histogram", help);
            has_head = true;
        }
        let total: u64 = histogram.buckets.iter().map(|(_, _, count)| count).sum();
        let bucket = format!("{name}_bucket");
        for (below, count) in cumulative(histogram) {
            // Our buckets exclude their end, buckets of Prometheus include it; times are integers.
            let labels = with(test.labels.clone(), "le", decimal_seconds(below - 1));
            text.sample(&bucket, &labels, &count.to_string());
        }
        let labels = with(test.labels.clone(), "le", "+Inf");
        text.sample(&bucket, &labels, &total.to_string());
        let sum = distribution.mean as f64 / 1e9 * total as f64;
        text.sample(&format!("{name}_sum"), &test.labels, &sum.to_string());
        text.sample(&format!("{name}_count"), &test.labels, &total.to_string());
    }
}

/// Returns cumulative counts of times below four bounds per octave, from the first bound with a
/// count to the first bound that covers all times. All runs share one grid of bounds, which are
/// ends of buckets, so the counts are exact.
fn cumulative(histogram: &Histogram) -> Vec<(u64, u64)> {
    let buckets = &histogram.buckets;
    let (Some(first), Some(last)) = (buckets.first(), buckets.last()) else { return Vec::new() };
    let octaves = (2..62).flat_map(|n| (4..8).map(move |quarter: u64| quarter << (n - 2)));
    let mut found = Vec::new();
    let (mut at, mut count) = (0, 0);
    for bound in octaves.skip_while(|&bound| bound <= first.0) {
        while let Some(bucket) = buckets.get(at).filter(|bucket| bucket.1 <= bound) {
            count += bucket.2;
            at += 1;
        }
        found.push((bound, count));
        if bound >= last.1 {
            break;
        }
    }
    found
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Returns a time in seconds without rounding.
fn decimal_seconds(ns: u64) -> String {
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    let text = text.trim_end_matches('0');
    text.strip_suffix('.').unwrap_or(text).into()
}

/// Returns the seconds since 1970 of a date such as `2026-11-21T04:14:21Z`. Leap days are counted
/// from March 1 of year 0.
fn unix_seconds(date: &str) -> Option<i64> {
    let digits = date.strip_suffix('Z')?.split(['-', 'T', ':']);
    let numbers: Vec<i64> = digits.map(str::parse).collect::<Result<_, _>>().ok()?;
    let [year, month, day, hour, minute, second] = numbers[..] else { return None };
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    Some((days - 719_468) * 86_400 + hour * 3_600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_seconds_since_1970() {
        assert_eq!(unix_seconds("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(unix_seconds("2000-02-29T12:09:14Z"), Some(951_826_154));
        assert_eq!(unix_seconds("2026-11-21T04:14:21Z"), Some(1_795_234_461));
        assert_eq!(unix_seconds(""), None);
    }

    #[test]
    fn counts_below_a_bound_are_exact() {
        let histogram = Histogram { buckets: vec![(5, 6, 1), (7, 8, 2), (1_984, 2_048, 4)] };
        let found = cumulative(&histogram);
        assert_eq!(found[..4], [(6, 1), (7, 1), (8, 3), (10, 3)]);
        assert_eq!(found.last(), Some(&(2_048, 7)));
        assert!(cumulative(&Histogram::default()).is_empty());
    }

    #[test]
    fn seconds_are_exact_and_labels_cannot_break_out() {
        let shown = [0, 1, 1_023, 2_000_000_000].map(decimal_seconds);
        assert_eq!(shown, ["0", "0.000000001", "0.000001023", "2"]);
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
