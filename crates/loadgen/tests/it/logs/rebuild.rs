//! What Dyno would keep of a test, rebuilt from the reference's logs of it.

use dyno_loadgen::clock::{MILLISECOND, Nanos, SECOND, WallTime};
use dyno_loadgen::drive::{Process, ThreadReport};
use dyno_loadgen::early_stopping::{Criterion, Estimate, Params};
use dyno_loadgen::log::Report;
use dyno_loadgen::log::read::{AccuracyEntry, Detail, Entry, Summary, Value};
use dyno_loadgen::message::{Message, Severity};
use dyno_loadgen::metrics::{
    Distribution, Estimates, FailureCounts, FinalQuery, Metrics, OverBoundCounts, PERCENTILES,
    Pace, Rates, ScenarioEstimates, TokenRates,
};
use dyno_loadgen::plan::{
    AccuracyLog, Load, PeakSettings, Plan, SampleChoice, Seeds, Server, StreamPacing, Tokens,
};
use dyno_loadgen::record::{LoggedResponse, Record};
use dyno_loadgen::run::{Event, RunLog, Span, TestLog};
use dyno_loadgen::search::Unit;
use dyno_loadgen::session::EndReason;
use dyno_loadgen::settings::{
    Arrivals, EarlyStopping, Origin, Repetition, Scenario, Setting, Settings, TestMode, TraceRules,
};
use dyno_loadgen::verdict::{Judgement, judge};

/// A test with the reported run of its logs.
pub struct RebuiltTest {
    pub log: TestLog,
    pub reported: Option<RunLog>,
    pub metrics: Option<Metrics>,
    pub judgement: Option<Judgement>,
}

impl RebuiltTest {
    pub fn reports(&self) -> Vec<Report<'_>> {
        let Some(run) = &self.reported else { return Vec::new() };
        let metrics = self.metrics.clone().unwrap();
        vec![Report { run, metrics, judgement: self.judgement.clone().unwrap() }]
    }
}

pub fn test_log(detail: &Detail, summary: &Summary<'_>, accuracy: &[AccuracyEntry]) -> RebuiltTest {
    let requested = settings(detail);
    let plan = plan(detail);
    let mut events = events(detail, &plan);
    if let Some(Event::Run(run)) = events.iter_mut().find(|e| matches!(e, Event::Run(_))) {
        keep_responses(&mut run.record, accuracy);
    }
    let runs = events.iter().rev().find_map(|event| match event {
        Event::Run(run) => Some((**run).clone()),
        _ => None,
    });
    let mut reported = runs.filter(|_| detail.value("result_validity").is_some());
    let metrics = reported.as_mut().map(|run| {
        // A search reports its best run, whose rate only the summary has.
        run.plan.target_qps = summary.value("target_qps").unwrap().parse().unwrap();
        metrics(detail, summary, &run.plan)
    });
    let judgement = reported
        .as_ref()
        .zip(metrics.as_ref())
        .map(|(run, metrics)| judge(metrics, &run.plan, run.ended));
    let log = TestLog {
        sut_name: detail.text("sut_name").unwrap().into(),
        sut_name_duration: whole(detail, "get_sut_name_duration_ns"),
        qsl_name: detail.text("qsl_name").unwrap().into(),
        qsl_total: whole(detail, "qsl_reported_total_count"),
        qsl_performance: whole(detail, "qsl_reported_performance_count"),
        process: Process::default(),
        origin_wall: iso(detail.text("test_datetime").unwrap()),
        requested,
        plan,
        events,
        complete: true,
        search: None,
    };
    RebuiltTest { log, reported, metrics, judgement }
}

fn whole(detail: &Detail, key: &str) -> u64 {
    detail.whole(key).unwrap_or_else(|| panic!("{key} is a whole number"))
}

fn settings(detail: &Detail) -> Settings {
    let mut settings = Settings::default();
    for entry in &detail.entries {
        let Some(name) = entry.key.strip_prefix("requested_") else { continue };
        let name = if name == "test_mode" { "mode" } else { name };
        let text = match &entry.value {
            Value::Number(number) => number.text.clone(),
            Value::Text(text) => text.clone(),
            Value::Bool(flag) => flag.to_string(),
            other => panic!("{name} is {other:?}"),
        };
        settings.set(name, &text, Origin::Default).unwrap();
    }
    settings
}

fn plan(detail: &Detail) -> Plan {
    let whole = |key: &str| whole(detail, &format!("effective_{key}"));
    let percentile = detail.number("effective_target_latency_percentile").unwrap();
    let unique = detail.flag("effective_performance_issue_unique").unwrap();
    Plan {
        load: match Scenario::parse(detail.text("effective_scenario").unwrap()).unwrap() {
            Scenario::SingleStream => Load::SingleStream { percentile },
            Scenario::MultiStream => {
                Load::MultiStream { percentile, pacing: StreamPacing::OnCompletion }
            }
            Scenario::Server => Load::Server(Server {
                percentile,
                target_latency: whole("target_latency_ns"),
                arrivals: Arrivals::Poisson,
                coalesce: false,
                issue_threads: 0,
                peak: PeakSettings { unit: Unit::Rate, decimals: 0, step_size: 1.0 },
            }),
            Scenario::Offline => Load::Offline,
        },
        mode: TestMode::parse(detail.text("effective_test_mode").unwrap()).unwrap(),
        target_qps: detail.number("effective_target_qps").unwrap(),
        samples_per_query: whole("samples_per_query"),
        max_async_queries: whole("max_async_queries"),
        target_duration: whole("target_duration_ms") * MILLISECOND,
        min_duration: whole("min_duration_ms") * MILLISECOND,
        max_duration: whole("max_duration_ms") * MILLISECOND,
        min_query_count: whole("min_query_count"),
        max_query_count: whole("max_query_count"),
        min_sample_count: whole("min_sample_count"),
        performance_sample_count: whole("performance_sample_count"),
        accuracy_sample_count: whole("accuracy_sample_count"),
        choice: if unique { SampleChoice::Unique } else { SampleChoice::Random },
        concatenate_permutation: detail.flag("effective_sample_concatenate_permutation").unwrap(),
        seeds: Seeds {
            qsl: whole("qsl_rng_seed"),
            sample_index: whole("sample_index_rng_seed"),
            schedule: whole("schedule_rng_seed"),
            accuracy_log: whole("accuracy_log_rng_seed"),
        },
        accuracy_log: AccuracyLog {
            probability: detail.number("effective_accuracy_log_probability").unwrap(),
            sampling_target: whole("accuracy_log_sampling_target"),
        },
        tokens: tokens(detail),
        early_stopping: Criterion {
            policy: EarlyStopping::AfterRun,
            confidence: 0.99,
            tolerance: 0.0,
        },
        trace_rules: TraceRules::Current,
        continue_trace: false,
        response_deadline: 0,
        max_client_lag: 0,
        performance_issue_same_index: whole("performance_issue_same_index"),
        print_timestamps: detail.flag("effective_print_timestamps").unwrap(),
        repetition: Repetition::Once,
        sessions: None,
        turn_interval: 0,
        steps: 1,
        ramp: 0,
    }
}

fn tokens(detail: &Detail) -> Option<Tokens> {
    if detail.flag("requested_use_token_latencies") == Some(true) {
        // Offline does not log its bounds; its summary shows the defaults.
        let bound = |key| detail.whole(key).unwrap_or(100_000_000);
        let ttft = bound("requested_server_ttft_latency");
        return Some(Tokens::Measured { ttft, tpot: bound("requested_server_tpot_latency") });
    }
    let inferred = detail.value("result_inferred_tokens_per_second");
    inferred.map(|_| Tokens::Inferred { scaling_factor: 1 })
}

fn events(detail: &Detail, plan: &Plan) -> Vec<Event> {
    let mut events = Vec::new();
    let mut run = empty_run(plan);
    for (at, entry) in detail.entries.iter().enumerate() {
        let count = || match &entry.value {
            Value::Number(number) => number.as_u64().unwrap(),
            other => panic!("{} is {other:?}", entry.key),
        };
        match entry.key.as_str() {
            "generic_message" | "error_runtime" | "warning_generic_message" => {
                match ended(text(entry)) {
                    Some(ended) => run.ended = ended,
                    None => events.push(Event::Message(message(entry))),
                }
            }
            "loaded_qsl_set" => {
                let Value::List(loaded) = &entry.value else { panic!("a list") };
                let samples = loaded.iter().map(|&i| u32::try_from(i).unwrap()).collect();
                let span = Span { begin: entry.at, end: entry.at };
                // A search loads once for several runs and logs that between them.
                if detail.entries[at + 1].key == "generic_message" {
                    events.push(Event::Loaded { span, samples });
                } else {
                    (run.loaded, run.load) = (samples, span);
                }
            }
            "generated_query_count" => run.generated_queries = count(),
            "generated_samples_per_query" => run.generated_samples_per_query = count(),
            "generated_query_duration" => run.generated_duration = count(),
            "power_begin" => run.started_wall = power(text(entry)),
            "power_end" => {
                let lasted = power(text(entry)).unix_ns - run.started_wall.unix_ns;
                run.record.completed_at = vec![lasted];
                run.finished_at = entry.at;
                events.push(Event::Run(Box::new(run.clone())));
                run = empty_run(plan);
            }
            "result_validity" => events.push(Event::Result { runs_back: 0, at: entry.at }),
            _ => {}
        }
    }
    events
}

fn empty_run(plan: &Plan) -> RunLog {
    RunLog {
        accuracy: false,
        plan: plan.clone(),
        loaded: Vec::new(),
        generated_queries: 0,
        generated_samples_per_query: 0,
        generated_duration: 0,
        ended: EndReason::TraceIssued,
        threads: ThreadReport::default(),
        record: Record::default(),
        dropped: None,
        load: Span::default(),
        generate: Span::default(),
        started_at: 0,
        started_wall: WallTime { unix_ns: 0 },
        finished_at: 0,
        unload: Span::default(),
    }
}

fn text(entry: &Entry) -> &str {
    match &entry.value {
        Value::Text(text) => text,
        other => panic!("{} is {other:?}", entry.key),
    }
}

fn message(entry: &Entry) -> Message {
    let key = ["generic_message", "error_runtime", "warning_generic_message"]
        .into_iter()
        .find(|key| *key == entry.key)
        .unwrap();
    let severity = match (entry.is_error, entry.is_warning) {
        (true, _) => Severity::Error,
        (_, true) => Severity::Warning,
        _ => Severity::Info,
    };
    Message { at: entry.at, key, severity, text: text(entry).into() }
}

fn ended(text: &str) -> Option<EndReason> {
    let number = || text.rsplit(' ').next().unwrap().parse().unwrap();
    if text.starts_with("Ending naturally") {
        Some(EndReason::Naturally)
    } else if text.starts_with("Ending early: Ran out") {
        Some(EndReason::RanOut)
    } else if text.contains("Max query count reached") {
        Some(EndReason::MaxQueryCount { issued: number() })
    } else {
        None
    }
}

fn keep_responses(record: &mut Record, accuracy: &[AccuracyEntry]) {
    for entry in accuracy {
        let at = usize::try_from(entry.seq_id).unwrap();
        if record.indices.len() <= at {
            record.indices.resize(at + 1, 0);
        }
        record.indices[at] = u32::try_from(entry.qsl_idx).unwrap();
        record.responses.push(&LoggedResponse {
            sequence: entry.seq_id,
            data: &entry.data,
            first_token: entry.token_data.as_deref(),
            tokens: entry.token_count.unwrap_or(0),
        });
    }
}

fn metrics(detail: &Detail, summary: &Summary<'_>, plan: &Plan) -> Metrics {
    let query_count = whole(detail, "result_query_count");
    let sample_count = query_count * whole(detail, "generated_samples_per_query");
    let latencies = |prefix, suffix: &str, n| {
        let percentiles = format!("_percentile{suffix}");
        distribution(detail, plan, prefix, suffix, &percentiles, n)
    };
    let latency = latencies("result_", "_latency_ns", sample_count);
    let multi = plan.scenario() == Scenario::MultiStream;
    let query_latency = multi.then(|| {
        let percentiles = "_percentile_per_query_latency_ns";
        distribution(detail, plan, "result_", "_query_latency_ns", percentiles, query_count)
    });
    let tokens = plan.measures_tokens() && plan.scenario() != Scenario::Offline;
    // When the last query was due is not in the logs, only whether it was late enough.
    let long_enough = detail.flag("result_min_duration_met") == Some(true);
    let last = if long_enough { plan.min_duration } else { 0 };
    Metrics {
        query_count,
        cancelled: 0,
        cancelled_until: 0,
        lasted: 0,
        sample_count,
        failed: FailureCounts::default(),
        missing: 0,
        over: OverBoundCounts {
            latency: detail.whole("result_overlatency_query_count").unwrap_or(0),
            ..OverBoundCounts::default()
        },
        intervals: None,
        latency,
        query_latency,
        first_token: tokens.then(|| latencies("result_first_token_", "_latency_ns", sample_count)),
        time_per_output_token: tokens.then(|| per_token(detail, plan, sample_count)),
        token_count: 0,
        max_latency: latency.max.unsigned_abs(),
        final_query: FinalQuery { scheduled: last, issued: last, done: last },
        pace: Pace::default(),
        rates: rates(detail, summary, plan),
        token_rates: token_rates(detail, summary),
        lag: None,
        client_lag: None,
        estimates: estimates(detail, plan, query_count),
    }
}

fn distribution(
    detail: &Detail,
    plan: &Plan,
    prefix: &str,
    suffix: &str,
    percentile_suffix: &str,
    count: u64,
) -> Distribution {
    let value = |what: &str| signed(detail, &format!("{prefix}{what}{suffix}"));
    let percentiles = PERCENTILES
        .map(|p| signed(detail, &format!("{prefix}{:.2}{percentile_suffix}", 100.0 * p)));
    let target = PERCENTILES.iter().position(|p| *p == plan.percentile()).unwrap();
    Distribution {
        count,
        min: value("min"),
        max: value("max"),
        mean: value("mean"),
        percentiles,
        target: percentiles[target],
    }
}

fn per_token(detail: &Detail, plan: &Plan, count: u64) -> Distribution {
    let percentiles = PERCENTILES.map(|p| {
        signed(detail, &format!("result_time_per_output_token_{:.2}_percentile_ns", 100.0 * p))
    });
    let target = PERCENTILES.iter().position(|p| *p == plan.percentile()).unwrap();
    Distribution {
        count,
        min: signed(detail, "result_time_to_output_token_min"),
        max: signed(detail, "result_time_to_output_token_max"),
        mean: signed(detail, "result_time_to_output_token_mean"),
        percentiles,
        target: percentiles[target],
    }
}

fn signed(detail: &Detail, key: &str) -> i64 {
    match detail.value(key) {
        Some(Value::Number(number)) => number.text.parse().unwrap(),
        other => panic!("{key} is {other:?}"),
    }
}

/// A rate that reads as six digits in the detail log and as two decimals in the
/// summary: in the middle of what rounds to both.
fn rate(detail: &Detail, summary: &Summary<'_>, key: &str, label: &str) -> f64 {
    let six_digits = detail.number(key).unwrap();
    let half = 0.5 * 10f64.powf(six_digits.log10().floor() - 5.0);
    let (low, high) = (six_digits - half, six_digits + half);
    let text = summary.value(label).unwrap();
    let shown: f64 = text.parse().unwrap();
    // Offline shows six digits in both.
    let half = if label.starts_with("Samples") { half } else { 0.005 };
    f64::midpoint(low.max(shown - half), high.min(shown + half))
}

fn rates(detail: &Detail, summary: &Summary<'_>, plan: &Plan) -> Rates {
    let rate = |key, label| rate(detail, summary, key, label);
    match plan.scenario() {
        Scenario::SingleStream => Rates::SingleStream {
            with_overhead: rate("result_qps_with_loadgen_overhead", "QPS w/ loadgen overhead"),
            without_overhead: rate(
                "result_qps_without_loadgen_overhead",
                "QPS w/o loadgen overhead",
            ),
        },
        Scenario::MultiStream => Rates::MultiStream,
        Scenario::Server => Rates::Server {
            scheduled: rate("result_scheduled_samples_per_sec", "Scheduled samples per second"),
            completed: rate("result_completed_samples_per_sec", "Completed samples per second"),
        },
        Scenario::Offline => {
            Rates::Offline { samples: rate("result_samples_per_second", "Samples per second") }
        }
    }
}

fn token_rates(detail: &Detail, summary: &Summary<'_>) -> Option<TokenRates> {
    if let Some(tokens) = detail.number("result_inferred_tokens_per_second") {
        return Some(TokenRates::Inferred { tokens });
    }
    if let Some(tokens) = detail.number("result_tokens_per_second") {
        return Some(TokenRates::MeasuredOffline { tokens });
    }
    let number = |key| detail.number(key);
    let without = summary.value("TPS w/o loadgen overhead");
    Some(TokenRates::Measured {
        with_overhead: number("result_token_throughput_with_loadgen_overhead")?,
        without_overhead: without.map_or(0.0, |text| text.parse().unwrap()),
        without_overhead_per_ns: number("result_token_throughput")?,
        completed: number("result_completed_tokens_per_second")?,
    })
}

fn estimates(detail: &Detail, plan: &Plan, queries: u64) -> Option<ScenarioEstimates> {
    if matches!(plan.load, Load::Server(_) | Load::Offline) {
        return None;
    }
    let finding = |key: &str| {
        let text = detail.text(key)?;
        let mut found = text
            .split("percentile estimate: ")
            .skip(1)
            .map(|rest| rest.split(' ').next().unwrap().parse().unwrap());
        let mut estimate = |percentile| Estimate {
            latency: found.next().unwrap_or(0),
            ..Estimate::for_count(queries, &Params::rules(percentile))
        };
        let target = estimate(plan.percentile());
        let single = plan.scenario() == Scenario::SingleStream;
        Some(Estimates { target, tail: single.then(|| estimate(0.99)) })
    };
    let none = Estimates {
        target: Estimate::for_count(queries, &Params::rules(plan.percentile())),
        tail: None,
    };
    Some(ScenarioEstimates {
        latency: finding("early_stopping_result").unwrap_or(none),
        first_token: finding("early_stopping_ttft_result"),
        time_per_output_token: finding("early_stopping_tpot_result"),
    })
}

/// `2026-11-21T01:16:16Z`.
fn iso(text: &str) -> WallTime {
    let n = |from: usize, to: usize| text[from..to].parse().unwrap();
    wall([n(0, 4), n(5, 7), n(8, 10), n(11, 13), n(14, 16), n(17, 19), 0])
}

/// `11-21-2026 01:16:16.119`.
fn power(text: &str) -> WallTime {
    let n = |from: usize, to: usize| text[from..to].parse().unwrap();
    wall([n(6, 10), n(0, 2), n(3, 5), n(11, 13), n(14, 16), n(17, 19), n(20, 23)])
}

/// Year, month, day, hour, minute, second, millisecond.
fn wall([year, month, day, hour, minute, second, milli]: [u64; 7]) -> WallTime {
    let leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    let days_of = |m: u64| match m {
        2 => 28 + u64::from(leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let days: u64 = (1970..year).map(|y| 365 + u64::from(leap(y))).sum::<u64>()
        + (1..month).map(days_of).sum::<u64>()
        + day
        - 1;
    let seconds: Nanos = ((days * 24 + hour) * 60 + minute) * 60 + second;
    WallTime { unix_ns: seconds * SECOND + milli * MILLISECOND }
}
