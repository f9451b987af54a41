//! Expected values: SPEC section 2.4 (cases probed on the reference), ISO C for
//! the numbers, and the settings that the reference's `FromConfig` produced for
//! `reference/loadgen/traces/from-config.json`.

use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::number::{strtod, strtoull};
use super::*;
use crate::settings::{FIELDS, Scenario, TestMode, TestSettings};

fn path() -> &'static Path {
    Path::new("user.conf")
}

fn conf(text: &str) -> Conf {
    Conf::parse(text, path()).unwrap()
}

/// Returns the effect of a text on the defaults, in a Server test of `resnet50`.
fn applied(text: &str, conf_type: ConfType) -> Settings {
    let mut settings = Settings::default();
    conf(text).apply(&mut settings, "resnet50", "Server", conf_type);
    settings
}

fn user(text: &str) -> TestSettings {
    applied(text, ConfType::User).values
}

fn lint(text: &str) -> Vec<String> {
    let warnings = conf(text).lint(ConfType::User, None);
    warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn lines_that_are_accepted() {
    let min_duration = |text: &str| user(text).min_duration_ms;
    let default = TestSettings::default().min_duration_ms;
    #[rustfmt::skip]
    let cases = [
        ("*.*.min_duration = 5", 5),
        ("  *.*.min_duration\t=\x0b 5 \r\n", 5),
        // The last value and the last line win.
        ("*.*.min_duration = 5 6 7", 7),
        ("*.*.min_duration = 5\n*.*.min_duration = 6", 6),
        // A comment ends the line as its first or second token.
        ("# *.*.min_duration = 5", default),
        ("*.*.min_duration # = 5", default),
        ("#comment", default),
        // Nothing is set, without a warning.
        ("*.*.min_duration=5", default),
        ("*.*.min_duration", default),
        ("*.*.min_duration =", default),
        ("", default),
        // Whole numbers in the bases of C, and prefixes of other numbers.
        ("*.*.min_duration = 0x1F", 31),
        ("*.*.min_duration = 010", 8),
        ("*.*.min_duration = 6e5", 6),
        ("*.*.min_duration = 0.5", 0),
        ("*.*.min_duration = 08", 0),
        ("*.*.min_duration = inf", 0),
        ("*.*.min_duration = -1", u64::MAX),
        ("*.*.min_duration = 99999999999999999999", u64::MAX),
        // Scenario beats model; the other scenario and the other model do not count.
        ("*.Server.min_duration = 5\nresnet50.*.min_duration = 6\n*.*.min_duration = 7", 5),
        ("resnet50.*.min_duration = 6\n*.*.min_duration = 7", 6),
        ("resnet50.Server.min_duration = 4\n*.Server.min_duration = 5", 4),
        ("*.Offline.min_duration = 5\nbert.*.min_duration = 6", default),
    ];
    for (text, expected) in cases {
        assert_eq!(min_duration(text), expected, "{text:?}");
    }
}

#[test]
fn lines_that_void_their_file() {
    #[rustfmt::skip]
    let cases = [
        ("*.*.min_duration =5", "user.conf:1: `*.*.min_duration =5`: expected ` = ` after the key `*.*.min_duration`, found `=5`"),
        ("*.*.min_duration = 5 # ms", "expected no comment behind a value"),
        ("*.*.min_duration = 5 #ms", "expected no comment behind a value"),
        ("*.*.min_duration = #", "expected no comment behind a value"),
        ("#a comment", "expected a space after the `#`"),
        ("*.*.mode = Accuracy", "expected a number for the key `*.*.mode`, found `Accuracy`"),
        ("*.*.min_duration = 5ms", "found `5ms`"),
        ("*.*.min_duration = 0x", "found `0x`"),
        ("*.*.min_duration = 1_000", "found `1_000`"),
        ("*.*.min_duration = 5 x 6", "found `x`"),
        ("*.*.min_duration == 5", "found `==`"),
        ("*.*.min_duration = 1\u{a0}", "found `1\u{a0}`"),
    ];
    for (line, expected) in cases {
        let error = Conf::parse(line, path()).unwrap_err().to_string();
        assert!(error.contains(expected), "{line:?}: {error}");
    }
    // Good lines beside them are void, too, and every bad line is named.
    let error = Conf::parse("*.*.mode = 2\na b\n\nc = d\n", path()).unwrap_err().to_string();
    assert_eq!(
        error,
        "user.conf:2: `a b`: expected ` = ` after the key `a`, found `b`\n\
         user.conf:4: `c = d`: expected a number for the key `c`, found `d`"
    );
}

#[test]
fn numbers_read_as_in_c() {
    let whole = [
        ("0", 0, 1),
        ("18446744073709551615", u64::MAX, 20),
        ("18446744073709551616", u64::MAX, 20),
        ("-2", u64::MAX - 1, 2),
        ("+7", 7, 2),
        ("0xfG", 15, 3),
        ("0X", 0, 1),
        ("0777x", 511, 4),
        ("09", 0, 1),
        ("-", 0, 0),
        ("x", 0, 0),
        ("1e3", 1, 1),
    ];
    for (text, value, length) in whole {
        assert_eq!(strtoull(text), (value, length), "{text}");
    }
    let inf = f64::INFINITY;
    let real = [
        ("010", 10.0, 3),
        ("1e3", 1000.0, 3),
        ("1e", 1.0, 1),
        ("1e+", 1.0, 1),
        (".5", 0.5, 2),
        ("5.", 5.0, 2),
        (".", 0.0, 0),
        ("-.e1", 0.0, 0),
        ("-2.5E-1x", -0.25, 7),
        ("1e999", inf, 5),
        ("Inf", inf, 3),
        ("-INFINITY", -inf, 9),
        ("infinit", inf, 3),
        ("0x10", 16.0, 4),
        ("0x1.8p3", 12.0, 7),
        ("0x.8", 0.5, 4),
        ("0x.p1", 0.0, 1),
        ("0x1p-1074", 5e-324, 9),
        ("0x1p99999999999999999999", inf, 24),
        ("0x0p9999", 0.0, 8),
        // 2^53 + 1 lies between two doubles, and a digit beyond them decides.
        ("0x20000000000001", 9_007_199_254_740_992.0, 16),
        ("0x20000000000001.00000000000000000001", 9_007_199_254_740_994.0, 37),
    ];
    for (text, value, length) in real {
        assert_eq!(strtod(text), (value, length), "{text}");
    }
    for (text, length) in [("nan", 3), ("NaN(1_x)", 8), ("nan(", 3), ("nan(-)", 3)] {
        let (value, read) = strtod(text);
        assert!(value.is_nan() && read == length, "{text}: {value}, {read}");
    }
}

#[test]
fn every_key_sets_its_field_in_its_unit() {
    #[rustfmt::skip]
    let cases = [
        ("*.*.mode = 0", "mode", "SubmissionRun"),
        ("*.*.mode = 3", "mode", "FindPeakPerformance"),
        ("*.SingleStream.target_latency_percentile = 50", "single_stream_target_latency_percentile", "0.5"),
        ("*.MultiStream.target_latency_percentile = 50", "multi_stream_target_latency_percentile", "0.5"),
        ("*.Server.target_latency_percentile = 50", "server_target_latency_percentile", "0.5"),
        ("*.SingleStream.target_latency = 0.25", "single_stream_expected_latency_ns", "250000"),
        ("*.MultiStream.target_latency = 0.25", "multi_stream_expected_latency_ns", "250000"),
        // Server takes whole milliseconds.
        ("*.Server.target_latency = 15.9", "server_target_latency_ns", "15000000"),
        ("*.MultiStream.samples_per_query = 4", "multi_stream_samples_per_query", "4"),
        ("*.Server.target_qps = 1234.5", "server_target_qps", "1234.5"),
        ("*.Offline.target_qps = 1e4", "offline_expected_qps", "10000"),
        ("*.Server.coalesce_queries = 2", "server_coalesce_queries", "true"),
        ("*.Server.max_async_queries = 7", "server_max_async_queries", "7"),
        ("*.Server.max_async_queries = 4294967295", "server_max_async_queries", "18446744073709551615"),
        ("*.*.max_duration = 9", "max_duration_ms", "9"),
        ("*.*.min_query_count = 9", "min_query_count", "9"),
        ("*.*.max_query_count = 9", "max_query_count", "9"),
        ("*.*.performance_issue_unique = 2", "performance_issue_unique", "true"),
        ("*.*.performance_issue_same = 1", "performance_issue_same", "true"),
        ("*.*.performance_issue_same_index = 3", "performance_issue_same_index", "3"),
        ("*.*.performance_sample_count_override = 9", "performance_sample_count_override", "9"),
        ("*.*.accuracy_sample_count_override = 9", "accuracy_sample_count_override", "9"),
        ("*.*.sample_concatenate_permutation = 1", "sample_concatenate_permutation", "true"),
        ("*.*.print_timestamps = 1", "print_timestamps", "true"),
        ("*.*.accuracy_log_rng_seed = 9", "accuracy_log_rng_seed", "9"),
        ("*.*.accuracy_log_sampling_target = 9", "accuracy_log_sampling_target", "9"),
    ];
    for (line, field, expected) in cases {
        let mut settings = Settings::default();
        let applied = conf(line).apply(&mut settings, "any", "Server", ConfType::User);
        let [change] = &applied.changes[..] else { panic!("{line}: {applied:?}") };
        assert_eq!((change.key, change.to.as_str()), (field, expected), "{line}");
        assert_eq!(change.origin, Origin::File { path: path().into(), line: 1 });
    }
}

#[test]
fn flags_that_only_1_sets() {
    for key in ["sample_concatenate_permutation", "use_token_latencies", "infer_token_latencies"] {
        let text = |value| format!("*.*.{key} = {value}");
        let default = TestSettings::default();
        assert_eq!(user(&text("2")), default, "{key}");
        assert_ne!(user(&text("1")), default, "{key}");
    }
}

#[test]
fn token_keys_are_read_only_when_tokens_are_used() {
    let bounds = "*.Server.ttft_latency = 2000\n*.Server.tpot_latency = 200\n\
                  *.*.token_latency_scaling_factor = 69";
    assert_eq!(user(bounds), TestSettings::default());
    let flags = "*.*.use_token_latencies = 1\n*.*.infer_token_latencies = 1\n";
    // The bounds are looked up under Server, whatever the scenario.
    let mut settings = Settings::default();
    conf(&format!("{bounds}\n{flags}")).apply(&mut settings, "any", "Offline", ConfType::User);
    let values = settings.values;
    assert_eq!(values.server_ttft_latency, 2_000_000_000);
    assert_eq!(values.server_tpot_latency, 200_000_000);
    assert_eq!(values.token_latency_scaling_factor, 69);

    let ignored = conf(bounds).apply(&mut Settings::default(), "any", "Server", ConfType::User);
    assert_eq!(
        ignored.warnings[0].to_string(),
        "user.conf:1: `*.Server.ttft_latency` is not read while `use_token_latencies` is false"
    );
}

#[test]
fn seeds_come_from_the_built_in_table_alone() {
    let text = "*.*.qsl_rng_seed = 5\n*.*.sample_index_rng_seed = 5\n*.*.schedule_rng_seed = 5\n\
                *.*.accuracy_log_probability = 50\n*.*.test05 = 1\n*.*.test05_qsl_rng_seed = 5\n\
                *.*.test05_sample_index_rng_seed = 5\n*.*.test05_schedule_rng_seed = 5";
    assert_eq!(user(text), TestSettings::default());
    assert_eq!(applied(text, ConfType::Audit).values, TestSettings::default());
    let built_in = applied(text, ConfType::BuiltIn).values;
    assert_eq!((built_in.qsl_rng_seed, built_in.test05), (5, true));
    assert_eq!(built_in.accuracy_log_probability, 0.5);
    let warnings = lint(text);
    assert_eq!(warnings.len(), 8);
    assert!(warnings[0].starts_with("user.conf:1: `*.*.qsl_rng_seed` is ignored"));
}

#[test]
fn a_mode_that_does_not_exist_changes_nothing() {
    let mut settings = Settings::default();
    let applied = conf("*.*.mode = 4").apply(&mut settings, "any", "Server", ConfType::User);
    assert_eq!(settings.values.mode, TestMode::PerformanceOnly);
    assert!(applied.warnings[0].to_string().contains("`4` changes nothing"));
}

#[test]
fn the_scenario_is_a_word_to_look_up() {
    let mut settings = Settings::default();
    Conf::built_in().apply(&mut settings, "any", "Offline", ConfType::BuiltIn);
    assert_eq!(settings.values.scenario, Scenario::SingleStream);
}

/// Settings after `FromConfig` of mlcommons-loadgen 6.0.17 with model
/// `resnet50`, scenario `Server` and the three lines below.
#[test]
fn the_built_in_table_then_a_user_file_as_the_reference_reads_them() {
    let text = "*.Server.target_qps = 1234.5\n*.Server.min_duration = 300\n\
                *.Server.min_query_count = 50\n";
    let mut settings = Settings::default();
    Conf::built_in().apply(&mut settings, "resnet50", "Server", ConfType::BuiltIn);
    let applied = conf(text).apply(&mut settings, "resnet50", "Server", ConfType::User);
    let expected = TestSettings {
        min_duration_ms: 300,
        min_query_count: 50,
        multi_stream_expected_latency_ns: 80_000_000.0,
        multi_stream_samples_per_query: 8,
        multi_stream_target_latency_percentile: 0.99,
        offline_expected_qps: 1.0,
        performance_sample_count_override: 1024,
        qsl_rng_seed: 2_085_463_073_848_966_840,
        sample_index_rng_seed: 2_747_215_439_041_700_203,
        schedule_rng_seed: 16_159_082_839_903_944_936,
        server_target_latency_ns: 15_000_000,
        server_target_latency_percentile: 0.99,
        server_target_qps: 1234.5,
        single_stream_expected_latency_ns: 10_000_000.0,
        single_stream_target_latency_percentile: 0.9,
        test05_qsl_rng_seed: 7_975_553_102_935_885_558,
        test05_sample_index_rng_seed: 11_403_566_307_062_068_064,
        test05_schedule_rng_seed: 15_816_800_565_822_761_601,
        ..TestSettings::default()
    };
    assert_eq!(settings.values, expected);

    let origin = |key| settings.origin(key).unwrap().to_string();
    assert_eq!(origin("server_target_qps"), "user.conf:1");
    assert_eq!(
        origin("server_target_latency_ns"),
        "built-in table, resnet50.Server.target_latency"
    );
    assert_eq!(origin("max_duration_ms"), "default");
    let lines: Vec<String> = applied.changes.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "user.conf:1: server_target_qps 1 -> 1234.5",
            "user.conf:2: min_duration_ms 600000 -> 300",
            "user.conf:3: min_query_count 100 -> 50",
        ]
    );
}

#[test]
fn built_in_rows_of_some_models() {
    let built_in = |model: &str, scenario: Scenario| {
        let mut settings = Settings::default();
        Conf::built_in().apply(&mut settings, model, scenario.name(), ConfType::BuiltIn);
        settings.values
    };
    let llama = built_in("llama2-70b-interactive", Scenario::Server);
    assert!(llama.use_token_latencies && llama.sample_concatenate_permutation);
    assert_eq!((llama.server_ttft_latency, llama.server_tpot_latency), (450_000_000, 40_000_000));
    assert_eq!(llama.server_target_latency_ns, 0);
    let gptj = built_in("gptj", Scenario::Offline);
    assert!(gptj.infer_token_latencies && !gptj.use_token_latencies);
    assert_eq!((gptj.token_latency_scaling_factor, gptj.min_query_count), (69, 13_368));
    // The dot in the name is harmless.
    let wan = built_in("wan-2.2-t2v-a14b", Scenario::SingleStream);
    assert_eq!((wan.performance_sample_count_override, wan.min_query_count), (248, 100));
    let unknown = built_in("mine", Scenario::MultiStream);
    assert_eq!((unknown.min_query_count, unknown.min_duration_ms), (662, 600_000));
    assert_eq!(built_in_models().count(), 29);
    assert_eq!(Conf::built_in().lint(ConfType::BuiltIn, None), []);
}

#[test]
fn lint_names_what_is_ignored_or_surprising() {
    #[rustfmt::skip]
    let cases = [
        ("*.*.min_duration=5", "user.conf:1: `*.*.min_duration=5` sets nothing; expected `key = value`"),
        ("*.*.min_duration =", "sets nothing"),
        ("*.*.min_duration # 5", "sets nothing"),
        ("*.Server.target_qsp = 5", "unknown key `*.Server.target_qsp`; the nearest key is `*.Server.target_qps`"),
        ("resnet50.server.target_qps = 5", "the nearest key is `resnet50.Server.target_qps`"),
        ("Server.target_qps = 5", "the nearest key is `*.Server.target_qps`"),
        ("min_duratoin = 5", "the nearest key is `*.*.min_duration`"),
        ("*.Offline.coalesce_querie = 1", "the nearest key is `*.Server.coalesce_queries`"),
        ("*.Offline.target_latency_percentile = 90", "is never read: this key belongs to SingleStream"),
        ("*.Offline.max_async_queries = 1", "belongs to Server"),
        ("*.Server.target_duration = 0", "is read by no release"),
        ("*.*.test07_qsl_rng_seed = 0", "is read by no release"),
        ("*.*.qsl_rng_seed = 1", "is ignored"),
        ("*.*.min_duration = 6e5", "`*.*.min_duration` takes whole numbers and reads `6e5` as 6"),
        ("*.*.min_duration = 010", "reads `010` as 8"),
        ("*.*.min_duration = 08", "reads `08` as 0"),
        ("*.*.min_duration = -1", "reads `-1` as 18446744073709551615"),
        ("*.Server.target_latency = 0.5", "reads `0.5` as 0"),
        ("*.*.use_token_latencies = 2", "is 0 or 1; `2` reads as false"),
        ("*.*.print_timestamps = 2", "is 0 or 1; `2` reads as true"),
        ("*.*.mode = 7", "`7` changes nothing"),
        ("*.*.min_duration = 5\n*.*.min_duration = 6", "user.conf:1: `*.*.min_duration` is set again in line 2"),
        ("*.*.min_duration = 5 6", "has several values, of which the last counts: 6"),
    ];
    for (text, expected) in cases {
        let warnings = lint(text);
        assert!(warnings.len() == 1 && warnings[0].contains(expected), "{text}: {warnings:?}");
    }
    let clean = "# comment\n\n#word\nresnet50.Server.target_qps = 010.5\n\
                 wan-2.2-t2v-a14b.*.min_duration = 0x10\n*.*.target_qps = 5\n";
    assert_eq!(lint(clean), [""; 0]);
    // No key is similar.
    assert_eq!(lint("*.*.zebra = 5"), ["user.conf:1: unknown key `*.*.zebra`"]);
}

#[test]
fn lint_knows_the_model_of_the_test_and_of_audits() {
    let file = conf("mine.*.mode = 1\nbert.*.mode = 1\nother.*.mode = 1\n*.*.mode = 1");
    let lint = |conf_type, model| {
        let warnings = file.lint(conf_type, model);
        warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let user = lint(ConfType::User, Some("mine"));
    assert_eq!(user, ["user.conf:3: `other.*.mode` never matches: the model is `mine`"]);
    let audit = lint(ConfType::Audit, Some("mine"));
    assert_eq!(audit.len(), 3);
    assert!(audit[1].ends_with("an audit file is read for the model `*` only"), "{}", audit[1]);
}

#[test]
fn strictly_unknown_keys_and_missing_spaces_are_errors() {
    let error = conf("*.*.min_duration=5\n*.*.qsl_rng_seed = 1\n*.*.mod = 1").refuse_ignored();
    let message = error.unwrap_err().to_string();
    assert_eq!(
        message,
        "user.conf:1: `*.*.min_duration=5` sets nothing; expected `key = value` with spaces \
         around the `=`\n\
         user.conf:3: unknown key `*.*.mod`; the nearest key is `*.*.mode`"
    );
    conf("*.*.min_duration = 6e5").refuse_ignored().unwrap();
}

#[test]
fn only_the_first_of_many_problems_are_shown() {
    let unknown: String = (0..100_000).map(|n| format!("*.*.mod{n} = 1\n")).collect();
    let garbage: String = (0..100_000).map(|n| format!("garbage {n}\n")).collect();
    for (text, first) in [(&unknown, "unknown key `*.*.mod0`"), (&garbage, "`garbage 0`: expected")]
    {
        let error = Conf::parse(text, path()).and_then(|conf| conf.refuse_ignored()).unwrap_err();
        let message = error.to_string();
        let lines: Vec<&str> = message.lines().collect();
        assert!(lines[0].contains(first), "{}", lines[0]);
        assert_eq!((lines.len(), lines[20]), (21, "further problems are not listed"));
    }
}

#[test]
fn a_model_may_have_dots_in_its_name() {
    let text = "my-1.5b.Server.target_qps = 5\n*.*.mode = 2\nmy-1.5b.*.mode = 1\n";
    let file = conf(text);
    assert_eq!(file.models(), ["my-1.5b", "*"]);
    assert!(file.has_rows_of("my-1.5b") && !file.has_rows_of("my-1"));
    let mut settings = Settings::default();
    file.apply(&mut settings, "my-1.5b", "Server", ConfType::User);
    assert_eq!(settings.values.server_target_qps, 5.0);
}

/// The files of audits TEST01 and TEST04 (SPEC section 2.5).
#[test]
fn an_audit_file_overrides_and_says_what() {
    let mut settings = Settings::default();
    settings.set("scenario", "Server", Origin::Default).unwrap();
    let text = "*.*.mode = 2\n*.*.accuracy_log_rng_seed = 720381539243781796\n\
                *.Server.performance_issue_same = 1\n*.Server.performance_issue_same_index = 3\n\
                resnet50.*.min_duration = 1\n";
    let audit = Conf::parse(text, Path::new("audit.config")).unwrap();
    let changes = audit.apply_audit(&mut settings).changes;
    let lines: Vec<String> = changes.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "audit.config:2: accuracy_log_rng_seed 0 -> 720381539243781796",
            "audit.config:3: performance_issue_same false -> true",
            "audit.config:4: performance_issue_same_index 0 -> 3",
        ]
    );
}

#[test]
fn files_apply_in_order_and_an_unusable_one_keeps_what_came_before() {
    let folder = std::env::temp_dir().join(format!("dyno-conf-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let [first, bad] = ["first.conf", "bad.conf"].map(|name| folder.join(name));
    std::fs::write(&first, "*.*.min_duration = 7\n").unwrap();
    std::fs::write(&bad, "*.*.min_duration = 8\nx y\n").unwrap();

    let run = |files: &[(&Path, ConfType)]| {
        let mut settings = Settings::default();
        let result = from_files(&mut settings, "resnet50", "Server", true, files);
        (settings.values, result)
    };
    let (values, applied) = run(&[(&first, ConfType::User)]);
    // The table sets it for Server, which beats `*.*` only within one file.
    assert_eq!((values.min_duration_ms, values.performance_sample_count_override), (7, 1024));
    assert_eq!(applied.unwrap().changes.last().unwrap().to, "7");
    let (values, error) = run(&[(&bad, ConfType::User)]);
    assert_eq!((values.min_duration_ms, values.performance_sample_count_override), (600_000, 1024));
    assert!(matches!(error, Err(ConfigError::BadLines { lines, .. }) if lines[0].line == 2));
    let missing = folder.join("none.conf");
    let (_, error) = run(&[(&missing, ConfType::User)]);
    assert!(matches!(error, Err(ConfigError::Unreadable { path, .. }) if path == missing));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn keys_name_existing_fields() {
    for key in KEYS {
        assert!(FIELDS.iter().any(|field| field.name == key.field), "{}", key.field);
    }
}

/// `testdata/from_config.json`: what `TestSettings.FromConfig` of the
/// mlcommons-loadgen 6.0.17 wheel returned and changed, each in a new process.
#[test]
fn every_text_means_what_it_means_to_the_reference() {
    let golden = include_str!("../../testdata/from_config.json");
    let golden: serde_json::Value = serde_json::from_str(golden).unwrap();
    let cases = golden["cases"].as_array().unwrap();
    for case in cases {
        let [model, scenario, text] =
            ["model", "scenario", "text"].map(|key| case[key].as_str().unwrap());
        let mut settings = Settings::default();
        let conf_type = case["type"].as_u64().unwrap();
        if conf_type < 2 {
            Conf::built_in().apply(&mut settings, model, scenario, ConfType::BuiltIn);
        }
        let parsed = if conf_type == 0 { None } else { Some(Conf::parse(text, path())) };
        if let Some(Ok(conf)) = &parsed {
            let conf_type = if conf_type == 1 { ConfType::User } else { ConfType::Audit };
            conf.apply(&mut settings, model, scenario, conf_type);
        }
        let accepted = !matches!(parsed, Some(Err(_)));
        assert_eq!(accepted, case["code"] == 0, "{case}");

        let mut expected = Settings::default();
        for (key, value) in case["changed"].as_object().unwrap() {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_string);
            expected.set(key, &text, Origin::Code("golden")).unwrap();
        }
        assert_eq!(settings.changes_since(&expected), [], "{case}");
    }
    assert!(cases.len() > 100);
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC*|[ =#.*\\n0-9a-fx_+-]*|(\\*\\.(Server|\\*)\\.(mode|target_qps) = [0-9a-fxpn.+-]{1,8}\n)*") {
        let path = PathBuf::from("any.conf");
        if let Ok(conf) = Conf::parse(&text, &path) {
            let lines = text.split('\n').count();
            let warnings = conf.lint(ConfType::User, Some("resnet50"));
            prop_assert!(warnings.iter().all(|w| (1..=lines).contains(&w.line)));
            conf.apply(&mut Settings::default(), "resnet50", "Server", ConfType::User);
        }
    }

    #[test]
    fn written_numbers_read_back(whole: u64, real: f64) {
        prop_assert_eq!(strtoull(&whole.to_string()).0, whole);
        prop_assert_eq!(strtoull(&format!("{whole:#x}")).0, whole);
        prop_assert_eq!(strtoull(&format!("0{whole:o}")).0, whole);
        let text = real.to_string();
        prop_assert_eq!(strtod(&text), (real, text.len()));
        prop_assert_eq!(strtod(&format!("{whole:#x}")).0, whole as f64);
    }

    #[test]
    fn a_number_never_reads_past_its_text(text in "[-+]?[0-9a-fxpnit.()+-]{0,12}") {
        prop_assert!(strtoull(&text).1 <= text.len());
        prop_assert!(strtod(&text).1 <= text.len());
    }
}
