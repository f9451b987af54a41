//! Expected values: SPEC section 2.3 worked by hand, and the `effective_*`
//! lines that the reference logged for the settings beside them.

use std::path::PathBuf;

use super::*;
use crate::message::Severity;
use crate::settings::{Origin, Repetition, Settings, TestSettings};

const LIBRARY: Library = Library { total: 200, performance: 64 };

/// Fields and their values as text.
type Rows<'a> = &'a [(&'a str, &'a str)];

fn settings(rows: Rows<'_>) -> TestSettings {
    let mut settings = Settings::default();
    for (key, text) in rows {
        settings.set(key, text, Origin::Code("test")).unwrap();
    }
    settings.values
}

fn plan(rows: Rows<'_>) -> Plan {
    Plan::resolve(&settings(rows), LIBRARY).unwrap()
}

/// The one message that `dyno run` gives, and how the drop-in takes it.
fn refusal(rows: Rows<'_>, library: Library) -> (String, Plan, SettingsProblem) {
    let settings = settings(rows);
    let (plan, problems) = Plan::resolve_as_reference(&settings, library);
    let refused = Plan::resolve(&settings, library).unwrap_err();
    assert_eq!(refused.0, problems, "both ways see the same problems");
    assert_eq!(problems.len(), 1, "{rows:?}: {refused}");
    (refused.to_string(), plan, problems[0].clone())
}

#[test]
fn offline_query_is_a_tenth_longer_than_the_run() {
    let offline = [("scenario", "Offline"), ("min_duration_ms", "600_000")];
    let rate = |qps| [&offline[..], &[("offline_expected_qps", qps)]].concat();
    // u64(1.1 * 600.0 * 12.34) = u64(8144.4)
    let plan = plan(&rate("12.34"));
    assert_eq!(plan.samples_per_query, 8144);
    assert_eq!(plan.min_sample_count, 8144);
    assert_eq!((plan.min_query_count, plan.target_duration), (1, 0));
    assert_eq!(plan.min_duration, 600_000_000_000);
    assert_eq!(plan.percentile(), 0.99);
}

#[test]
fn offline_query_holds_at_least_min_query_count_or_the_unique_set() {
    let rows = [("scenario", "Offline"), ("min_query_count", "24576")];
    assert_eq!(plan(&rows).samples_per_query, 24_576);
    let unique = [&rows[..], &[("performance_issue_unique", "true")]].concat();
    assert_eq!(plan(&unique).samples_per_query, 64);
    assert_eq!(plan(&unique).choice, SampleChoice::Unique);
}

#[test]
fn equal_issue_single_stream_pads_by_the_count_of_the_library() {
    let rows = |count| {
        [
            ("sample_concatenate_permutation", "true"),
            ("performance_sample_count_override", "100"),
            ("single_stream_expected_latency_ns", "1e7"),
            ("min_duration_ms", "1000"),
            ("min_query_count", count),
        ]
    };
    // e = u64(2.0 * 1.0 * 100) = 200, then to the next multiple of 64, not of 100.
    assert_eq!(plan(&rows("10")).min_query_count, 256);
    assert_eq!(plan(&rows("201")).min_query_count, 256);
    // A multiple already: a whole set more.
    assert_eq!(plan(&rows("256")).min_query_count, 320);
    assert_eq!(plan(&rows("10")).performance_sample_count, 100);
}

#[test]
fn rates_and_limits_of_each_scenario() {
    let single = plan(&[("single_stream_expected_latency_ns", "4e6")]);
    assert_eq!((single.target_qps, single.max_async_queries), (250.0, 1));
    let multi = plan(&[("scenario", "MultiStream"), ("multi_stream_samples_per_query", "4")]);
    assert_eq!((multi.target_qps, multi.samples_per_query), (125.0, 4));
    assert_eq!(multi.min_sample_count, 400);
    let server = plan(&[("scenario", "Server"), ("server_max_async_queries", "7")]);
    assert_eq!((server.max_async_queries, server.target_latency()), (7, 100_000_000));
    assert_eq!(server.target_duration, 10_000_000_000);
    assert_eq!(single.target_latency(), 0);
}

#[test]
fn test05_is_a_performance_run_with_the_other_seeds() {
    let mut settings = Settings::from(settings(&[
        ("test05", "true"),
        ("mode", "AccuracyOnly"),
        ("test05_qsl_rng_seed", "11"),
        ("test05_sample_index_rng_seed", "12"),
        ("test05_schedule_rng_seed", "13"),
        ("accuracy_log_rng_seed", "14"),
    ]));
    let plan = Plan::resolve(&settings.values, LIBRARY).unwrap();
    assert_eq!(plan.mode, TestMode::PerformanceOnly);
    let seeds = Seeds { qsl: 11, sample_index: 12, schedule: 13, accuracy_log: 14 };
    assert_eq!(plan.seeds, seeds);

    let changes = apply_test05(&mut settings);
    assert_eq!(changes.len(), 4);
    assert_eq!(changes[0].to_string(), "test05: mode AccuracyOnly -> PerformanceOnly");
    assert_eq!(Plan::resolve(&settings.values, LIBRARY).unwrap(), plan);
    assert!(apply_test05(&mut Settings::default()).is_empty());
}

#[test]
fn tokens_are_measured_or_inferred() {
    let measured = plan(&[("use_token_latencies", "true"), ("server_ttft_latency", "5")]);
    assert_eq!(measured.tokens, Some(Tokens::Measured { ttft: 5, tpot: 100_000_000 }));
    assert!(measured.measures_tokens());
    let rows = [("infer_token_latencies", "true"), ("token_latency_scaling_factor", "69")];
    assert_eq!(plan(&rows).tokens, Some(Tokens::Inferred { scaling_factor: 69 }));
    // The built-in table sets the end-to-end bound of token models to 0.
    let server = [
        ("scenario", "Server"),
        ("use_token_latencies", "true"),
        ("server_target_latency_ns", "0"),
    ];
    assert!(plan(&server).measures_tokens());
}

#[test]
fn every_impossible_setting_is_refused_with_the_field_and_the_remedy() {
    use ReferenceBehavior::Runs;
    let replaced = |by: &str| ReferenceBehavior::Replaced { by: by.into() };
    let stops = || ReferenceBehavior::Stops { key: "error_invalid_test_settings" };
    let server = ("scenario", "Server");
    let offline = ("scenario", "Offline");
    let multi = ("scenario", "MultiStream");
    let peak = ("mode", "FindPeakPerformance");
    let p = "server_target_latency_percentile";
    #[rustfmt::skip]
    let cases: &[(Rows<'_>, &str, ReferenceBehavior)] = &[
        (&[server, (p, "0")], "`server_target_latency_percentile` is 0: expected a fraction above 0 and below 1", replaced("the default 0.99")),
        (&[server, (p, "99")], "did you mean 0.99?", replaced("the default 0.99")),
        (&[server, (p, "1")], "a share of 1 leaves out no query; use one such as 0.999", replaced("the default 0.99")),
        (&[server, (p, "NaN")], "below 1", replaced("the default 0.99")),
        (&[("single_stream_target_latency_percentile", "1")], "single_stream", replaced("the default 0.9")),
        (&[multi, ("multi_stream_target_latency_percentile", "-0.5")], "multi_stream", replaced("the default 0.99")),
        (&[server, ("server_target_qps", "-5")], "`server_target_qps` is -5: expected a rate above 0 queries/s; set it to", replaced("1 query/s")),
        (&[server, ("server_target_qps", "0")], "server_target_qps", replaced("1 query/s")),
        (&[server, ("server_target_qps", "NaN")], "server_target_qps", replaced("1 query/s")),
        (&[offline, ("offline_expected_qps", "-1")], "offline_expected_qps", replaced("1 query/s")),
        (&[offline, ("offline_expected_qps", "0")], "offline_expected_qps", Runs),
        (&[("single_stream_expected_latency_ns", "-1")], "a latency above 0 ns", replaced("1 query/s")),
        (&[("single_stream_expected_latency_ns", "0"), ("min_duration_ms", "0")], "a latency above 0 ns", Runs),
        (&[multi, ("multi_stream_expected_latency_ns", "NaN")], "a latency above 0 ns", replaced("1 query/s")),
        (&[("performance_sample_count_override", "201")], "`performance_sample_count_override` is 201 and `library.total` is 200: expected at most the 200 samples", Runs),
        (&[("accuracy_sample_count_override", "201")], "at most the 200 samples", Runs),
        (&[multi, ("multi_stream_samples_per_query", "0")], "at least 1 sample", replaced("1 sample in a query")),
        (&[offline, ("min_query_count", "0"), ("min_duration_ms", "0")], "a query of at least 1 sample", replaced("1 sample in a query")),
        (&[("min_query_count", "0"), ("min_duration_ms", "0")], "at least one of them above 0", replaced("a minimum of 1 query")),
        (&[server, ("min_query_count", "0"), ("sample_concatenate_permutation", "true")], "permutations", replaced("a minimum of 1 query")),
        (&[("performance_issue_same", "true"), ("performance_issue_same_index", "64")], "a position below the 64 samples", replaced("position 0")),
        (&[("performance_issue_same", "true"), ("performance_issue_unique", "true")], "at most one of them", Runs),
        (&[server, ("server_arrivals", "gamma:0")], "a gamma shape from 0.001 to 1000000", replaced("Poisson arrivals")),
        (&[server, ("server_arrivals", "gamma:NaN")], "a gamma shape from 0.001 to 1000000", replaced("Poisson arrivals")),
        (&[server, ("server_arrivals", "burst:0")], "at least 1 query", replaced("Poisson arrivals")),
        (&[server, ("server_arrivals", "concurrency:0")], "in flight", replaced("Poisson arrivals")),
        (&[server, ("server_arrivals", "replay:5,4")], "ascend", replaced("Poisson arrivals")),
        (&[server, ("server_arrivals", "burst:9"), ("server_max_async_queries", "8")], "may be outstanding", Runs),
        (&[server, ("server_arrivals", "constant"), ("server_num_issue_query_threads", "2")], "Poisson arrivals only", replaced("the calling thread")),
        (&[server, ("server_target_latency_ns", "0")], "a bound above 0 ns", Runs),
        (&[("max_duration_ms", "9999")], "`max_duration_ms` is 9999 and `min_duration_ms` is 10000", Runs),
        (&[("max_query_count", "99")], "at least the 100 queries", Runs),
        (&[("early_stopping_confidence", "1")], "early_stopping_confidence", replaced("the default 0.99")),
        (&[("early_stopping_tolerance", "0.9")], "below the percentile 0.9", replaced("the default 0")),
        (&[("early_stopping_tolerance", "-0.1")], "below the percentile 0.9", replaced("the default 0")),
        (&[("accuracy_log_probability", "1.5")], "from 0 to 1", Runs),
        (&[("accuracy_log_probability", "NaN")], "from 0 to 1", Runs),
        (&[peak], "expected scenario Server", ReferenceBehavior::Stops { key: "error_invalid_config" }),
        (&[server, peak, ("server_find_peak_qps_boundary_step_size", "0")], "a factor above 0", replaced("the default 1")),
        (&[server, peak, ("server_find_peak_qps_decimals_of_precision", "-1")], "0 to 9 decimals", replaced("0 decimals")),
        (&[server, peak, ("server_arrivals", "concurrency:4")], "arrivals that have a rate", stops()),
        (&[("use_token_latencies", "true"), ("infer_token_latencies", "true")], "at most one", Runs),
        (&[offline, ("infer_token_latencies", "true")], "1 token/sample", Runs),
        (&[server, ("use_token_latencies", "true"), ("server_tpot_latency", "0")], "bounds above 0 ns", Runs),
        (&[server, ("server_target_qps", "1e12")], "a trace of at most 4294967296 samples", stops()),
        (&[offline, ("offline_expected_qps", "1e300")], "a trace of at most", stops()),
        (&[("min_query_count", "4_294_967_297")], "a trace of at most", stops()),
        (&[server, ("server_target_qps", "1e-300")], "a rate at which the 100 queries of the test are due within 30 years", Runs),
        (&[server, ("mode", "AccuracyOnly"), ("server_target_qps", "1e-7")], "the 200 queries of the test", Runs),
        // A period below 1 ns: the reference generates for ever.
        (&[("single_stream_expected_latency_ns", "0.5")], "a trace of at most", stops()),
    ];
    check_refusals(cases);
}

#[track_caller]
fn check_refusals(cases: &[(Rows<'_>, &str, ReferenceBehavior)]) {
    for (rows, text, in_reference) in cases {
        let (message, plan, problem) = refusal(rows, LIBRARY);
        assert!(message.contains(text), "{rows:?}: {message}");
        assert_eq!(problem.in_reference, *in_reference, "{rows:?}");
        assert!(plan.samples_per_query >= 1 && plan.performance_sample_count >= 1);
    }
}

#[test]
fn a_fixed_interval_and_a_repetition_are_refused_where_they_make_no_sense() {
    let replaced = |by: &str| ReferenceBehavior::Replaced { by: by.into() };
    let stops = || ReferenceBehavior::Stops { key: "error_invalid_test_settings" };
    let server = ("scenario", "Server");
    let multi = ("scenario", "MultiStream");
    let peak = ("mode", "FindPeakPerformance");
    let ms = "multi_stream_target_qps";
    #[rustfmt::skip]
    let cases: &[(Rows<'_>, &str, ReferenceBehavior)] = &[
        (&[multi, (ms, "-20")], "a rate of 0.001 to 1000000 queries/s; 20 is an interval of 50 ms", replaced("1 query/s")),
        (&[multi, (ms, "1e-300")], "0.001 to 1000000", replaced("1 query/s")),
        (&[multi, (ms, "NaN")], "multi_stream_target_qps", replaced("1 query/s")),
        (&[multi, (ms, "1e7")], "0.001 to 1000000", replaced("1 query/s")),
        (&[multi, (ms, "20"), ("early_stopping", "extend")], "no early stopping at a fixed interval", replaced("a run that is not extended")),
        (&[multi, (ms, "20"), ("server_num_issue_query_threads", "2")], "no issue threads at a fixed interval", replaced("the calling thread")),
        (&[multi, (ms, "20"), ("min_query_count", "4_294_967_296")], "`multi_stream_target_qps` is 20 and `min_duration_ms`", stops()),
        (&[multi, peak], "or MultiStream with multi_stream_target_qps", ReferenceBehavior::Stops { key: "error_invalid_config" }),
        (&[("repetition", "minimum:0")], "at least 1 run", replaced("one run")),
        (&[server, ("repetition", "confirm:0:1")], "at least 1 run", replaced("one run")),
        (&[("repetition", "confirm:5")], "a load that a failure can lower; choose minimum:RUNS", replaced("one run")),
        (&[multi, ("repetition", "confirm:5")], "or MultiStream with multi_stream_target_qps", replaced("one run")),
        (&[multi, (ms, "20"), ("repetition", "confirm:5:0.5")], "at least 1 whole stream", replaced("one run")),
        (&[server, ("repetition", "confirm:5:NaN")], "a decrement above 0 queries/s", replaced("one run")),
        (&[server, ("repetition", "confirm:5:1"), ("server_arrivals", "concurrency:4")], "arrivals that have a rate", replaced("one run")),
    ];
    check_refusals(cases);
}

#[test]
fn a_senseless_setting_is_told_in_the_references_words_and_explained_in_a_note() {
    let said = |rows: Rows<'_>| -> Vec<(&'static str, Severity, String)> {
        let problems = Plan::resolve_as_reference(&settings(rows), LIBRARY).1;
        let messages = problems.iter().flat_map(SettingsProblem::messages);
        messages.map(|message| (message.key, message.severity, message.text)).collect()
    };
    let [error, note] = &said(&[("scenario", "Server"), ("server_target_qps", "-2.5")])[..] else {
        panic!("an error and a note")
    };
    let text = "Invalid value for server_target_qps requested. requested: -2.5 using: 1";
    assert_eq!(*error, ("error_invalid_test_settings", Severity::Error, text.to_string()));
    assert_eq!((note.0, note.1), ("dyno_note", Severity::Info));
    assert!(note.2.contains("set it to the mean arrival rate"), "{note:?}");

    // Two errors of the reference, in its order.
    let both = [
        ("performance_issue_unique", "true"),
        ("performance_issue_same", "true"),
        ("performance_issue_same_index", "64"),
    ];
    let errors: Vec<String> = said(&both)
        .into_iter()
        .filter(|(_, severity, _)| *severity == Severity::Error)
        .map(|(_, _, text)| text)
        .collect();
    assert_eq!(
        errors,
        [
            "Sample Idx to be repeated in performance_issue_same mode cannot be greater than \
             loaded performance_sample_count. performance_issue_same_index: 64 \
             performance_sample_count: 64",
            "Performance_issue_unique and performance_issue_same, both cannot be true at the same \
             time. performance_issue_unique: 1 performance_issue_same: 1",
        ]
    );

    // What the reference runs without a word is no error here either.
    let quiet = said(&[("max_query_count", "99")]);
    assert!(
        quiet.iter().all(|(key, severity, _)| (*key, *severity) == ("dyno_note", Severity::Info))
    );
    assert_eq!(quiet.len(), 1);
}

#[test]
fn a_library_without_samples_or_beyond_the_index_is_refused() {
    let library = |total, performance| Library { total, performance };
    let (message, _, problem) = refusal(&[], library(0, 0));
    assert!(message.starts_with("`library.total` is 0: expected 1 to 4294967295 samples"));
    assert!(problem.stops());
    assert!(refusal(&[], library(1 << 32, 64)).2.stops());
    let (_, plan, problem) = refusal(&[], library(50, 0));
    assert_eq!(plan.performance_sample_count, 50);
    let [message] = &problem.messages()[..] else { panic!("{problem:?}") };
    assert_eq!((message.key, message.severity), ("error_invalid_test_settings", Severity::Error));
    assert!(message.text.ends_with(". Running with all 50 samples."));
}

#[test]
fn what_the_reference_does_with_the_impossible_is_kept() {
    // Offline looks at "same" first, the other scenarios at "unique".
    let both = [("performance_issue_same", "true"), ("performance_issue_unique", "true")];
    assert_eq!(refusal(&both, LIBRARY).1.choice, SampleChoice::Unique);
    let offline = [&both[..], &[("scenario", "Offline")]].concat();
    let plan = refusal(&offline, LIBRARY).1;
    assert_eq!((plan.choice, plan.samples_per_query), (SampleChoice::Same(0), 64));
    // The effective count stays at the override; only the loaded set is capped.
    let rows = [("performance_sample_count_override", "500")];
    assert_eq!(refusal(&rows, LIBRARY).1.performance_sample_count, 500);
    // A negative rate is 1.
    let rows = [("scenario", "Server"), ("server_target_qps", "-5")];
    assert_eq!(refusal(&rows, LIBRARY).1.target_qps, 1.0);
}

#[test]
fn every_problem_is_named_at_once_with_its_origin() {
    let mut settings = Settings::default();
    let file = Origin::File { path: PathBuf::from("user.conf"), line: 3 };
    settings.set("scenario", "Server", Origin::Flag("--scenario".into())).unwrap();
    settings.set("server_target_qps", "-1", file).unwrap();
    settings.set("max_query_count", "1", Origin::Default).unwrap();
    let errors = Plan::resolve(&settings.values, LIBRARY).unwrap_err();
    assert_eq!(
        errors.describe(&settings),
        "`server_target_qps` is -1 (user.conf:3): expected a rate above 0 queries/s; \
         set it to the mean arrival rate\n\
         `max_query_count` is 1 and `min_query_count` is 100: expected a maximum of at least \
         the 100 queries of a valid run; raise it, or set it to 0 for none"
    );
}

#[test]
fn a_replay_needs_an_arrival() {
    let mut settings = settings(&[("scenario", "Server")]);
    settings.server_arrivals = Arrivals::Replay([].into());
    let message = Plan::resolve(&settings, LIBRARY).unwrap_err().to_string();
    assert!(message.contains("at least one arrival time"), "{message}");
    settings.server_arrivals = Arrivals::Replay([0, 5, 5].into());
    Plan::resolve(&settings, LIBRARY).unwrap();
}

#[test]
fn an_accuracy_run_needs_no_query_count() {
    let rows = [("mode", "AccuracyOnly"), ("min_query_count", "0"), ("min_duration_ms", "0")];
    assert_eq!(plan(&rows).min_query_count, 0);
    // A peak search that is not made cannot be set wrongly.
    assert_eq!(plan(&[("server_find_peak_qps_boundary_step_size", "0")]).target_qps, 1000.0);
}

/// `testdata/effective_settings.json`: the `effective_*` values and the errors
/// that the mlcommons-loadgen 6.0.17 wheel logged for random settings of
/// accuracy runs of a library of 100 samples, 64 of them for performance.
#[test]
fn effective_settings_equal_those_of_the_reference_for_random_settings() {
    let golden = include_str!("../../testdata/effective_settings.json");
    let golden: serde_json::Value = serde_json::from_str(golden).unwrap();
    let cases = golden["cases"].as_array().unwrap();
    for case in cases {
        let mut settings = Settings::default();
        for (key, value) in case["settings"].as_object().unwrap() {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_string);
            settings.set(key, &text, Origin::Code("golden")).unwrap();
        }
        let library = Library { total: 100, performance: 64 };
        let (plan, problems) = Plan::resolve_as_reference(&settings.values, library);
        let ours_and_theirs = effective(&plan).into_iter().map(|(key, ours)| {
            let theirs = case["effective"][key].as_str().unwrap();
            (key, ours, theirs)
        });
        for (key, ours, theirs) in ours_and_theirs {
            // The plan holds one choice, so that of two flags it keeps the one that wins.
            let flags = ["performance_issue_unique", "performance_issue_same"];
            let contradict =
                settings.values.performance_issue_unique && settings.values.performance_issue_same;
            if !(contradict && flags.contains(&key)) {
                assert!(agrees(&ours, theirs), "{key}: {ours}, {theirs}: {case}");
            }
        }
        for error in case["errors"].as_array().unwrap() {
            let said = problems.iter().filter_map(|p| p.reference_text.as_deref());
            let said: Vec<&str> = said.collect();
            assert!(said.contains(&error.as_str().unwrap()), "{error}: {said:?}");
        }
    }
    assert!(cases.len() >= 60);
}

/// Returns the folder of the reference's logs, if this machine has it.
fn shared() -> Option<PathBuf> {
    let path = std::env::var_os("DYNO_SHARED").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")),
        PathBuf::from,
    );
    let logs = path.join("reference/loadgen");
    logs.is_dir().then_some(logs)
}

/// The `effective_*` values as the reference names them.
fn effective(plan: &Plan) -> Vec<(&'static str, String)> {
    let flag = |choice: bool| choice.to_string();
    vec![
        ("scenario", plan.scenario().to_string()),
        ("test_mode", plan.mode.to_string()),
        ("samples_per_query", plan.samples_per_query.to_string()),
        ("target_qps", plan.target_qps.to_string()),
        ("target_latency_ns", plan.target_latency().to_string()),
        ("target_latency_percentile", plan.percentile().to_string()),
        ("max_async_queries", plan.max_async_queries.to_string()),
        ("target_duration_ms", (plan.target_duration / 1_000_000).to_string()),
        ("min_duration_ms", (plan.min_duration / 1_000_000).to_string()),
        ("max_duration_ms", (plan.max_duration / 1_000_000).to_string()),
        ("min_query_count", plan.min_query_count.to_string()),
        ("max_query_count", plan.max_query_count.to_string()),
        ("min_sample_count", plan.min_sample_count.to_string()),
        ("qsl_rng_seed", plan.seeds.qsl.to_string()),
        ("sample_index_rng_seed", plan.seeds.sample_index.to_string()),
        ("schedule_rng_seed", plan.seeds.schedule.to_string()),
        ("accuracy_log_rng_seed", plan.seeds.accuracy_log.to_string()),
        ("accuracy_log_probability", plan.accuracy_log.probability.to_string()),
        ("accuracy_log_sampling_target", plan.accuracy_log.sampling_target.to_string()),
        ("print_timestamps", flag(plan.print_timestamps)),
        ("performance_issue_unique", flag(plan.choice == SampleChoice::Unique)),
        ("performance_issue_same", flag(matches!(plan.choice, SampleChoice::Same(_)))),
        ("performance_issue_same_index", plan.performance_issue_same_index.to_string()),
        ("performance_sample_count", plan.performance_sample_count.to_string()),
        ("accuracy_sample_count", plan.accuracy_sample_count.to_string()),
        ("sample_concatenate_permutation", flag(plan.concatenate_permutation)),
    ]
}

fn logged<'a>(log: &'a str, key: &str) -> &'a str {
    let start = log.find(&format!("\"key\": \"effective_{key}\", \"value\": ")).expect(key);
    let value = &log[start..].split_once("\"value\": ").unwrap().1;
    value.split_once(", \"time_ms\"").unwrap().0.trim_matches('"')
}

/// Equal as texts, or as numbers within the six digits that the reference logs.
fn agrees(ours: &str, theirs: &str) -> bool {
    let numbers = || Some((ours.parse::<f64>().ok()?, theirs.parse::<f64>().ok()?));
    let close = |(a, b): (f64, f64)| (a - b).abs() <= 5e-6 * b.abs();
    let is_whole = !(ours.contains('.') || theirs.contains(['.', 'e']));
    ours == theirs || (!is_whole && numbers().is_some_and(close))
}

#[test]
fn effective_settings_equal_those_in_the_logs_of_the_reference() {
    let Some(reference) = shared() else {
        println!("skipped: no reference logs (set DYNO_SHARED)");
        return;
    };
    let mut runs = 0;
    for entry in std::fs::read_dir(reference).unwrap() {
        let folder = entry.unwrap().path();
        let Ok(text) = std::fs::read_to_string(folder.join("settings.json")) else { continue };
        let log = std::fs::read_to_string(folder.join("mlperf_log_detail.txt")).unwrap();
        let run: serde_json::Value = serde_json::from_str(&text).unwrap();
        let mut settings = Settings::default();
        for (key, value) in run["test_settings"].as_object().unwrap() {
            let key = match key.as_str() {
                "ttft_latency" => "server_ttft_latency",
                "tpot_latency" => "server_tpot_latency",
                key => key,
            };
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_string);
            settings.set(key, &text, Origin::Code("test")).unwrap();
        }
        let count = |key: &str| run["qsl"][key].as_u64().unwrap();
        let library = Library {
            total: count("total_sample_count"),
            performance: count("performance_sample_count"),
        };
        let (plan, problems) = Plan::resolve_as_reference(&settings.values, library);
        assert!(problems.iter().all(|p| !p.stops()), "{}: {problems:?}", folder.display());
        for (key, ours) in effective(&plan) {
            let theirs = logged(&log, key);
            assert!(agrees(&ours, theirs), "{}: {key}: {ours}, {theirs}", folder.display());
        }
        runs += 1;
    }
    assert_eq!(runs, 23, "every reference run was compared");
}

#[test]
fn another_percentile_brings_the_rules_query_count() {
    let flag = || Origin::Flag("--set".into());
    let count = |rows: Rows<'_>| {
        let mut settings = Settings::default();
        for (key, text) in rows {
            settings.set(key, text, flag()).unwrap();
        }
        raise_query_count_for_percentile(&mut settings);
        settings.values.min_query_count
    };
    let server = |percentile| {
        count(&[("scenario", "Server"), ("server_target_latency_percentile", percentile)])
    };
    // The rules' table, rounded up to multiples of 2^13.
    assert_eq!([server("0.9"), server("0.95"), server("0.97")], [24_576, 57_344, 90_112]);
    assert_eq!(server("0.99"), 100, "the scenario's own percentile");
    let single = ("single_stream_target_latency_percentile", "0.99");
    assert_eq!(count(&[single]), 270_336);
    assert_eq!(count(&[single, ("min_query_count", "5")]), 5, "a count that somebody chose stays");
    assert_eq!(count(&[single, ("scenario", "Offline")]), 100);
}

#[test]
fn a_fixed_interval_is_a_rate_and_a_number_of_streams() {
    let multi = ("scenario", "MultiStream");
    let streams = ("multi_stream_samples_per_query", "12");
    let at = plan(&[multi, streams, ("multi_stream_target_qps", "15")]);
    assert_eq!((at.target_qps, at.interval()), (15.0, Some(66_666_666)));
    assert_eq!(at.target_latency(), 66_666_666);
    assert_eq!((at.tick(3), at.tick(15)), (200_000_000, 1_000_000_000));
    assert_eq!(at.tick_from(1, 200_000_000), 3, "a tick at this instant is not over");
    assert_eq!(at.tick_from(1, 200_000_001), 4);
    assert_eq!(at.tick_from(9, 5), 9);
    assert_eq!((at.peak_load(), at.at_load(30.0).min_sample_count), (12.0, 3_000));
    let now = plan(&[multi, streams]);
    assert_eq!((now.interval(), now.target_latency(), now.peak().is_none()), (None, 0, true));
}

#[test]
fn a_repetition_has_a_decrement() {
    let repetition = |rows: Rows<'_>| plan(rows).repetition;
    let confirm = |decrement| Repetition::Confirm { runs: 5, decrement: Some(decrement) };
    let rule = ("repetition", "confirm:5");
    let server = [("scenario", "Server"), ("server_target_qps", "300")];
    assert_eq!(repetition(&[server[0], server[1], rule]), confirm(3.0), "1 % of the rate");
    // Of the rate that is found, not of the one that a search begins with.
    let found = repetition(&[server[0], server[1], rule, ("mode", "FindPeakPerformance")]);
    assert_eq!(found, Repetition::Confirm { runs: 5, decrement: None });
    let multi = [("scenario", "MultiStream"), ("multi_stream_target_qps", "20")];
    assert_eq!(repetition(&[multi[0], multi[1], rule]), confirm(1.0), "one stream");
    assert_eq!(repetition(&[multi[0], multi[1], ("repetition", "confirm:5:2")]), confirm(2.0));
    assert_eq!(repetition(&[("repetition", "minimum:5")]), Repetition::Minimum(5));
    // An accuracy run is never repeated.
    let accuracy = ("mode", "AccuracyOnly");
    assert_eq!(repetition(&[accuracy, ("repetition", "confirm:5")]), Repetition::Once);
}
