//! Rebuilds a run without its own files from the logs and the raw records of its tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::records::{self, NEVER, Records, Row};
use crate::series;
use crate::summary::metrics::{
    Conditions, Distribution, FailureCounts, Intervals, OverBound, Rates,
};
use crate::summary::{
    self, Accuracy, Data, Headline, Metrics, Plan, Reason, ReasonKind, Run, Setting, State, Test,
};
use crate::units::{counted, percentile_or_extreme};
use dyno_loadgen::clock::Nanos;
use dyno_loadgen::log::read::{Detail, Value, open_accuracy, read_detail_file};
use dyno_loadgen::metrics::Definitions;
use dyno_loadgen::record::Record;
use dyno_loadgen::settings::{FIELDS, Scenario, TestMode};

/// Depth of the folders of tests: scenario, mode, tenant.
const DEPTH: usize = 3;

/// Verdict of a run with missing parts.
pub const INCOMPLETE: &str = "INCOMPLETE";

/// Returns a run of which only the name is known.
pub fn empty(path: &Path) -> Run {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_else(|| "run".into());
    let name = name.trim_start_matches('.').trim_end_matches(".partial").to_string();
    Run {
        schema: summary::SCHEMA.into(),
        schema_version: summary::SCHEMA_VERSION,
        state: State::Interrupted,
        verdict: INCOMPLETE.into(),
        official: false,
        disclaimer: summary::DISCLAIMER.into(),
        name,
        system: String::new(),
        time: String::new(),
        profile: String::new(),
        definitions: Definitions::Reference.name().into(),
        rules: None,
        started_at: String::new(),
        finished_at: String::new(),
        duration_ns: 0,
        command: Vec::new(),
        remarks: Vec::new(),
        division: None,
        tests: Vec::new(),
        probe: None,
        accelerators: Vec::new(),
        clients: Vec::new(),
        observers: Vec::new(),
        servers: Vec::new(),
        energy: Vec::new(),
        environment: summary::Environment {
            processor: None,
            kernel: None,
            cores: 0,
            os: "not known".into(),
            arch: "not known".into(),
            build: "not known".into(),
            dyno_version: "not known".into(),
            git_commit: None,
            loadgen_fingerprint: "not known".into(),
        },
    }
}

/// Rebuilds a run from the logs of its tests; `None` without logs.
pub fn run(path: &Path, missing: &mut Vec<String>) -> Option<Run> {
    let mut run = empty(path);
    tests(path, path, DEPTH, &mut run.tests);
    if run.tests.is_empty() {
        return None;
    }
    // In the order of a run.
    let place = |test: &Test| Scenario::ALL.iter().position(|s| s.name() == test.scenario);
    run.tests.sort_by_key(place);
    // If every test is complete, only files of the run are missing.
    let is_over = run.tests.iter().all(|test| test.state == State::Complete);
    if is_over && !crate::contents::is_partial(path) {
        run.state = State::Complete;
    }
    missing.push(format!(
        "{} rebuilt from the logs; reasons, settings and bounds may be incomplete.",
        if run.tests.len() == 1 { "One test was" } else { "The tests were" }
    ));
    Some(run)
}

fn tests(root: &Path, folder: &Path, depth: usize, found: &mut Vec<Test>) {
    let detail = folder.join("mlperf_log_detail.txt");
    if detail.is_file()
        && let Ok((detail, _)) = read_detail_file(&detail)
        && let Some(test) = test(root, folder, &detail)
    {
        found.push(test);
        // Folders below hold the repeated runs of this test.
        return;
    }
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut folders: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    folders.sort();
    for inner in folders.iter().filter(|path| depth > 0 && path.is_dir()) {
        tests(root, inner, depth - 1, found);
    }
}

/// Rebuilds a test; `None` if the log does not name its scenario.
fn test(root: &Path, folder: &Path, detail: &Detail) -> Option<Test> {
    let scenario = detail.text("effective_scenario")?;
    let scenario = Scenario::ALL.iter().find(|s| s.name() == scenario)?.name();
    let mode = detail.text("effective_test_mode").unwrap_or_default();
    let all = [TestMode::PerformanceOnly, TestMode::AccuracyOnly, TestMode::FindPeakPerformance];
    let mode =
        all.into_iter().find(|m| format!("{m:?}") == mode).unwrap_or(TestMode::PerformanceOnly);
    let inside: Vec<String> = folder
        .strip_prefix(root)
        .ok()?
        .components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect();
    let is_accuracy = mode == TestMode::AccuracyOnly;
    let metrics = (!is_accuracy).then(|| metrics(detail)).flatten();
    let accuracy = is_accuracy.then(|| accuracy(folder));
    // The log of an unfinished test lacks its end.
    let is_over = metrics.is_some() || (is_accuracy && detail.value("power_end").is_some());
    let state = if is_over { state(detail) } else { State::Interrupted };
    let (reasons, is_judged) = match &accuracy {
        Some(accuracy) => accuracy_judged(accuracy, detail, state),
        None if is_over => (reasons(detail), true),
        None => (Vec::new(), true),
    };
    let mut test = Test {
        tenant: inside.get(2).cloned(),
        folder: inside.join("/"),
        state,
        notes: vec!["Rebuilt from the logs.".into()],
        result: metrics.as_ref().and_then(|metrics| headline(scenario, metrics, detail)),
        accuracy,
        metrics,
        data: data_of(detail),
        plan: plan(scenario, detail),
        settings: settings(detail),
        ..Test::new(scenario, summary::mode_name(mode))
    };
    reasons.into_iter().for_each(|reason| test.add_reason(reason));
    test.settle();
    if !is_judged {
        test.verdict = "not judged".into();
    }
    Some(test)
}

/// Returns the data that a log names.
pub(crate) fn data_of(detail: &Detail) -> Data {
    let performance = detail.whole("effective_performance_sample_count");
    let performance = performance.or_else(|| detail.whole("qsl_reported_performance_count"));
    Data {
        name: detail.text("qsl_name").unwrap_or_default().into(),
        total: detail.whole("qsl_reported_total_count").unwrap_or(0),
        performance: performance.unwrap_or(0),
        ..Data::default()
    }
}

/// Returns the state of a test whose log is complete, from the errors in the log.
fn state(detail: &Detail) -> State {
    let said = |start: &str| {
        detail.errors().any(|e| matches!(&e.value, Value::Text(text) if text.starts_with(start)))
    };
    if said("Ending early: nothing completed") {
        State::Aborted
    } else if said("The test ended before it was complete") {
        State::Interrupted
    } else {
        State::Complete
    }
}

/// Returns why a performance test is not VALID. The logs know only VALID and INVALID; a test with
/// too few queries and no other reason is undecided.
fn reasons(detail: &Detail) -> Vec<Reason> {
    let other = |text: &str| Reason::new(ReasonKind::Other, text);
    match detail.text("result_validity") {
        Some("VALID") => {
            let text = "The log says VALID. It does not record Dyno's checks of the client, the \
                 requirements and the server's answers.";
            return vec![other(text).undecided()];
        }
        Some(_) => {}
        None => return vec![other("The log does not say whether the test is VALID.")],
    }
    let mut reasons = Vec::new();
    let said = detail.text("result_invalid_reason").map(str::trim).unwrap_or_default();
    if !said.is_empty() {
        reasons.push(other(said));
    }
    // The log has this reason under another key, as a list in one line.
    if detail.flag("early_stopping_met") == Some(false) {
        let said = detail.text("early_stopping_result").unwrap_or_default();
        let said: Vec<&str> = said.split_whitespace().filter(|word| *word != "*").collect();
        let text = format!("too few queries to be certain of the percentile: {}", said.join(" "));
        reasons.push(Reason::new(ReasonKind::EarlyStopping, text).undecided());
    }
    if reasons.is_empty() {
        reasons.push(other("The log says INVALID without a reason."));
    }
    reasons
}

/// Counts the answers in the accuracy log; the log does not show whether they are right.
fn accuracy(folder: &Path) -> Accuracy {
    let log = open_accuracy(&folder.join("mlperf_log_accuracy.json"));
    Accuracy {
        answered: log.map_or(0, |log| log.filter(Result::is_ok).count() as u64),
        ..Accuracy::default()
    }
}

/// Returns why an accuracy test is not VALID, and whether the logs suffice to judge it.
fn accuracy_judged(accuracy: &Accuracy, detail: &Detail, state: State) -> (Vec<Reason>, bool) {
    let wanted = detail.whole("effective_accuracy_sample_count").unwrap_or(0);
    if state != State::Complete {
        (Vec::new(), true)
    } else if accuracy.answered < wanted {
        let lost = counted(wanted - accuracy.answered, "sample has", "samples have");
        let reason = format!("{lost} no answer in the log; accuracy needs every sample.");
        (vec![Reason::new(ReasonKind::Missing, reason)], true)
    } else {
        let text = "Every sample was answered; the logs do not record how many answers are \
             correct.";
        (vec![Reason::new(ReasonKind::Accuracy, text)], false)
    }
}

fn headline(scenario: &str, metrics: &Metrics, detail: &Detail) -> Option<Headline> {
    let at = detail.number("effective_target_latency_percentile").unwrap_or(0.9);
    let at = percentile_or_extreme(at);
    let (name, value, unit) = match scenario {
        "Server" => ("completed rate".into(), metrics.rates.completed_samples_per_s?, "queries/s"),
        "Offline" => ("throughput".into(), metrics.rates.samples_per_s?, "samples/s"),
        "MultiStream" if metrics.intervals.is_some() => {
            let found = detail.whole("dyno_result_samples_per_query");
            let streams = found.or_else(|| detail.whole("effective_samples_per_query"))?;
            ("streams".into(), streams as f64, "streams")
        }
        "MultiStream" => (format!("{at} query latency"), metrics.answered()?.target as f64, "ns"),
        _ => (format!("{at} latency"), metrics.answered()?.target as f64, "ns"),
    };
    Some(Headline { name, value: Some(value), unit: unit.into(), interval: None })
}

fn plan(scenario: &str, detail: &Detail) -> Plan {
    let whole = |key: &str| detail.whole(&format!("effective_{key}")).unwrap_or(0);
    let is_server = scenario == "Server";
    Plan {
        percentile: detail.number("effective_target_latency_percentile").unwrap_or(0.0),
        latency_bound_ns: is_server.then(|| whole("target_latency_ns")).filter(|bound| *bound > 0),
        repetition: detail.text("dyno_repetition").map(Into::into),
        interval_ns: intervals(detail)
            .map(|_| whole("target_latency_ns"))
            .filter(|interval| *interval > 0),
        target_qps: detail.number("effective_target_qps").unwrap_or(0.0),
        samples_per_query: whole("samples_per_query"),
        min_duration_ns: whole("min_duration_ms").saturating_mul(1_000_000),
        min_query_count: whole("min_query_count"),
        seeds: ["qsl", "sample_index", "schedule"].map(|of| whole(&format!("{of}_rng_seed"))),
        ..Plan::default()
    }
}

/// Returns the metrics in the log; `None` if it has no result.
fn metrics(detail: &Detail) -> Option<Metrics> {
    let queries = detail.whole("result_query_count").unwrap_or(0);
    // The query count includes queries that were not answered.
    let per_query = detail.whole("generated_samples_per_query").unwrap_or(1).max(1);
    let failed = detail.whole("dyno_failed_samples").unwrap_or(0);
    let missing = detail.whole("dyno_missing_samples").unwrap_or(0);
    let issued = queries.saturating_mul(per_query);
    let latency = distribution(detail, "", issued.saturating_sub(failed).saturating_sub(missing))?;
    let is = |key: &str| detail.flag(key);
    let lost = failed.saturating_add(missing) as f64;
    Some(Metrics {
        query_count: queries,
        sample_count: latency.count,
        failed: FailureCounts { internal: failed, ..FailureCounts::default() },
        missing,
        error_rate: lost / (lost + latency.count as f64).max(1.0),
        over_bound: OverBound {
            latency: detail.whole("result_overlatency_query_count"),
            ..OverBound::default()
        },
        intervals: intervals(detail),
        ended: "not known".into(),
        lasted_ns: lasted(detail),
        counted_over_ns: None,
        last_issue_ns: None,
        latency_ns: latency,
        query_latency_ns: distribution(detail, "per_query_", queries),
        first_token_ns: None,
        time_per_output_token_ns: None,
        token_count: None,
        answers: None,
        tokens: None,
        sessions: None,
        distributions: Vec::new(),
        stages: Vec::new(),
        models: Vec::new(),
        excluded: None,
        steady: None,
        peak_concurrency: None,
        rates: Rates {
            scheduled_samples_per_s: detail.number("result_scheduled_samples_per_sec"),
            completed_samples_per_s: detail.number("result_completed_samples_per_sec"),
            goodput_samples_per_s: None,
            samples_per_s: detail.number("result_samples_per_second"),
            queries_per_s_with_overhead: detail.number("result_qps_with_loadgen_overhead"),
            queries_per_s_without_overhead: detail.number("result_qps_without_loadgen_overhead"),
        },
        goodput: None,
        token_rates: None,
        lag_ns: None,
        client_lag_ns: None,
        conditions: Conditions {
            performance_met: is("result_perf_constraints_met"),
            min_duration_met: is("result_min_duration_met").unwrap_or(false),
            min_queries_met: is("result_min_queries_met").unwrap_or(false),
            early_stopping_met: is("early_stopping_met").unwrap_or(false),
            client_lag_met: None,
        },
        early_stopping: Vec::new(),
    })
}

/// Returns the intervals of MultiStream at a fixed interval. Counts that only Dyno logs are 0 in
/// logs of other tools.
fn intervals(detail: &Detail) -> Option<Intervals> {
    let at =
        |p: &str| detail.whole(&format!("result_{p}_percentile_num_intervals_between_queries"));
    let own = |key: &str| detail.whole(key).unwrap_or(0);
    let target = detail.number("effective_target_latency_percentile").unwrap_or(0.99) * 100.0;
    let (p50, p99) = (at("50.00")?, at("99.00")?);
    Some(Intervals {
        over: own("dyno_skipping_queries"),
        allowed: own("dyno_skipping_queries_allowed"),
        skipped: own("dyno_skipped_intervals"),
        by_client: own("dyno_skipped_by_client"),
        p50,
        p99,
        p99_9: at("99.90").unwrap_or(p99),
        target: at(&format!("{target:.2}")).unwrap_or(p99),
    })
}

/// Returns the time from when queries and samples were ready to the last answer, in ns.
fn lasted(detail: &Detail) -> u64 {
    let at = |key: &str| {
        let entry = detail.entries.iter().rev().find(|entry| entry.key == key);
        entry.map_or(0, |entry| entry.at)
    };
    at("power_end").saturating_sub(at("generated_query_duration").max(at("loaded_qsl_set")))
}

fn distribution(detail: &Detail, infix: &str, count: u64) -> Option<Distribution> {
    let signed = |key: String| detail.number(&key).map(|value| value as i64);
    let at = |q: &str| signed(format!("result_{q}_percentile_{infix}latency_ns"));
    // `per_query_` is `query_` in these.
    let of = |which: &str| {
        let infix = infix.strip_prefix("per_").unwrap_or(infix);
        signed(format!("result_{which}_{infix}latency_ns"))
    };
    let (p50, p90, p99) = (at("50.00")?, at("90.00")?, at("99.00")?);
    let target = detail.number("effective_target_latency_percentile").unwrap_or(0.9) * 100.0;
    Some(Distribution {
        count,
        min: of("min").unwrap_or(0),
        mean: of("mean").unwrap_or(0),
        p50,
        p90,
        p95: at("95.00").unwrap_or(p90),
        p97: at("97.00").unwrap_or(p90),
        p99,
        p99_9: at("99.90").unwrap_or(p99),
        max: of("max").unwrap_or(p99),
        target: at(&format!("{target:.2}")).unwrap_or(p99),
    })
}

/// Returns the requested settings in the log, with their origins.
fn settings(detail: &Detail) -> BTreeMap<String, Setting> {
    let mut found = BTreeMap::new();
    for field in FIELDS {
        let origin = detail.text(&format!("dyno_origin_{}", field.name));
        let value = detail.value(&format!("requested_{}", field.name));
        if let (Some(origin), Some(value)) = (origin, value) {
            let value = match value {
                Value::Number(number) => number.text.clone(),
                Value::Bool(flag) => flag.to_string(),
                Value::Text(text) => text.clone(),
                _ => continue,
            };
            let (unit, origin) = (field.unit.to_string(), origin.to_string());
            found.insert(field.name.to_string(), Setting { value, unit, origin });
        }
    }
    found
}

/// Rebuilds the plots from the raw records.
pub fn series(path: &Path, run: &Run, missing: &mut Vec<String>) -> series::Run {
    let mut tests = Vec::new();
    for test in run.tests.iter().filter(|test| test.mode != "accuracy") {
        let file = path.join(&test.folder).join(records::FILE);
        let Ok(records) = Records::read(&file) else { continue };
        if records.stride > 1 {
            missing.push(format!(
                "The plots of {} use one random query in {} and weight it accordingly; {} has no \
                 more.",
                test.title(),
                records.stride,
                records::FILE
            ));
        }
        tests.push(plots(&records, &test.folder));
    }
    if !tests.is_empty() {
        missing.push("The plots were rebuilt from the raw records.".into());
    }
    series::Run::new(tests)
}

fn plots(records: &Records, folder: &str) -> series::Test {
    let mut of = series::Test::from_record(&record_of(records), folder);
    scale(&mut of, records);
    of
}

/// Multiplies counts by the rows and samples that each kept row stands for.
fn scale(of: &mut series::Test, records: &Records) {
    let rows = records.stride;
    let samples = if records.row == Row::Sample { 1 } else { records.samples_per_query };
    for of in
        [&mut of.latency, &mut of.client_lag, &mut of.first_token, &mut of.time_per_output_token]
    {
        for (.., count) in &mut of.histogram.buckets {
            *count = count.saturating_mul(rows);
        }
    }
    for slice in &mut of.slices {
        // A failed query is counted as one failed sample; the others are not known to have failed.
        let more = slice.failed_samples.saturating_mul(samples.saturating_sub(1));
        let completed = slice.completed_samples.saturating_mul(samples).saturating_add(more);
        slice.completed_samples = completed.saturating_mul(rows);
        slice.due = slice.due.saturating_mul(rows);
        slice.failed_samples = slice.failed_samples.saturating_mul(rows);
        slice.in_flight = slice.in_flight.saturating_mul(samples).saturating_mul(rows);
        slice.tokens = slice.tokens.saturating_mul(rows.cast_signed());
    }
}

/// Returns a record with one sample per query, or with all samples in one query.
fn record_of(records: &Records) -> Record {
    let time = |value: i64| Nanos::try_from(value).unwrap_or(0);
    let scheduled = |row: usize| records.scheduled_ns.get(row).copied().unwrap_or(0);
    let after = |row: usize, column: &[i64]| -> Nanos {
        match column.get(row) {
            // 0 means "never" in a record, so an immediate completion becomes 1 ns.
            Some(&delay) if delay != NEVER => time(scheduled(row).saturating_add(delay)).max(1),
            _ => 0,
        }
    };
    let rows = records.row_count();
    let column = |of: &[i64]| -> Vec<Nanos> { (0..rows).map(|row| after(row, of)).collect() };
    let is_one = records.row == Row::Sample;
    let issued = column(&records.issue_delay_ns);
    let failed = records.failure.iter().enumerate();
    let failed = failed.filter_map(|(row, &code)| Some((row as u64, records::failure_of(code)?)));
    Record {
        samples_per_query: if is_one { rows.max(1) } else { 1 },
        scheduled_at: if is_one {
            Vec::new()
        } else {
            (0..rows).map(|row| time(scheduled(row))).collect()
        },
        issued_at: if is_one { vec![time(scheduled(0))] } else { issued },
        client_lag: records
            .client_lag_ns
            .iter()
            .take(if is_one { 0 } else { rows })
            .map(|&lag| u32::try_from(lag).unwrap_or(u32::MAX))
            .collect(),
        indices: vec![0; rows],
        completed_at: column(&records.latency_ns),
        first_token_at: if records.first_token_ns.len() == rows {
            column(&records.first_token_ns)
        } else {
            Vec::new()
        },
        tokens: if records.first_token_ns.len() == rows && records.tokens.len() == rows {
            records.tokens.clone()
        } else {
            vec![0; records.first_token_ns.len()]
        },
        timed_tokens: (0..)
            .zip(&records.timed_tokens)
            .map(|(row, &tokens)| (row, (tokens != NEVER).then_some(tokens)))
            .collect(),
        failed: failed.collect(),
        ..Record::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Keep;

    #[test]
    fn thinned_records_make_plots_of_as_many_samples_as_there_were() {
        // 4,000 queries of eight samples, a ms apart, each done after up to 50 ms.
        let (queries, samples) = (4_000, 8);
        let due: Vec<Nanos> = (0..queries).map(|n| n * 1_000_000).collect();
        let took = |query: u64| 1 + (query * 7_919_000) % 50_000_000;
        let record = Record {
            samples_per_query: samples as usize,
            scheduled_at: due.clone(),
            issued_at: due.clone(),
            completed_at: (0..queries * samples)
                .map(|n| due[(n / samples) as usize] + took(n / samples))
                .collect(),
            indices: vec![0; (queries * samples) as usize],
            ..Record::default()
        };
        let whole = series::Test::from_record(&record, "f");
        let mut records = Records::from_record(&record, Keep::All).unwrap();
        let every = plots(&records, "f");
        assert!(every.slices == whole.slices, "nothing is lost where nothing is thinned");

        records.stride = 4;
        for column in
            [&mut records.scheduled_ns, &mut records.issue_delay_ns, &mut records.latency_ns]
        {
            *column = column.iter().copied().step_by(4).collect();
        }
        let thinned = plots(&records, "f");
        let counted =
            |of: &series::Test| of.latency.histogram.buckets.iter().map(|b| b.2).sum::<u64>();
        let sum = |of: &series::Test, what: fn(&series::Slice) -> u64| {
            of.slices.iter().map(what).sum::<u64>()
        };
        for (found, expected) in [
            (counted(&thinned), queries),
            (sum(&thinned, |s| s.due), queries),
            (sum(&thinned, |s| s.completed_samples), queries * samples),
            (sum(&thinned, |s| s.in_flight), sum(&whole, |s| s.in_flight)),
        ] {
            // One query in four tells of the others by chance only.
            assert!(found.abs_diff(expected) * 10 <= expected, "{found} instead of {expected}");
        }
        assert_eq!(counted(&thinned), queries);
    }
}
