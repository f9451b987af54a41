//! Settings that a round fixes for the load generator.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dyno_loadgen::config::{Conf, ConfType};
use dyno_loadgen::settings::{Origin, Settings, TraceRules};
use dyno_rules::{FixedSetting, Leeway, Round, RuleScenario};
use serde_json::Value;

fn fixed(round: &str, benchmark: &str, scenario: RuleScenario) -> BTreeMap<&'static str, String> {
    let round = Round::named(round).unwrap();
    let settings = round.settings(round.benchmark(benchmark).unwrap(), scenario);
    settings.into_iter().map(|fixed| (fixed.key, fixed.value)).collect()
}

#[track_caller]
fn check(round: &str, benchmark: &str, scenario: RuleScenario, expected: &[(&str, &str)]) {
    // Other tests check these.
    let others = ["trace_rules", "repetition", "server_arrivals", "accuracy_sample_count_override"];
    let of_all = ["_rng_seed", "early_stopping", "performance_issue"];
    let has_own_test =
        |key: &str| others.contains(&key) || of_all.iter().any(|part| key.contains(part));
    let mut got = fixed(round, benchmark, scenario);
    got.retain(|key, _| !has_own_test(key));
    let got: Vec<_> = got.iter().map(|(key, value)| (*key, value.as_str())).collect();
    assert_eq!(got, expected);
}

#[test]
fn each_scenario_of_a_current_round() {
    check(
        "v5.1",
        "resnet50",
        RuleScenario::SingleStream,
        &[
            ("min_duration_ms", "600000"),
            ("min_query_count", "100"),
            ("performance_sample_count_override", "1024"),
            ("sample_concatenate_permutation", "false"),
            ("single_stream_target_latency_percentile", "0.9"),
            ("use_token_latencies", "false"),
        ],
    );
    check(
        "v5.1",
        "resnet50",
        RuleScenario::MultiStream,
        &[
            ("min_duration_ms", "600000"),
            ("min_query_count", "662"),
            ("multi_stream_samples_per_query", "8"),
            ("multi_stream_target_latency_percentile", "0.99"),
            ("multi_stream_target_qps", "0"),
            ("performance_sample_count_override", "1024"),
            ("sample_concatenate_permutation", "false"),
            ("use_token_latencies", "false"),
        ],
    );
    check(
        "v5.1",
        "resnet50",
        RuleScenario::Server,
        &[
            ("min_duration_ms", "600000"),
            ("min_query_count", "100"),
            ("performance_sample_count_override", "1024"),
            ("sample_concatenate_permutation", "false"),
            ("server_target_latency_ns", "15000000"),
            ("server_target_latency_percentile", "0.99"),
            ("use_token_latencies", "false"),
        ],
    );
    check(
        "v5.1",
        "resnet50",
        RuleScenario::Offline,
        &[
            ("min_duration_ms", "600000"),
            ("min_query_count", "24576"),
            ("performance_sample_count_override", "1024"),
            ("sample_concatenate_permutation", "false"),
            ("use_token_latencies", "false"),
        ],
    );
}

#[test]
fn what_no_round_leaves_to_the_submitter_is_fixed() {
    let round = Round::named("v5.1").unwrap();
    let settings = round.settings(round.benchmark("resnet50").unwrap(), RuleScenario::Server);
    let broken = |key: &str, value: &str| {
        let rule = settings.iter().find(|rule| rule.key == key);
        rule.unwrap_or_else(|| panic!("{key} is not fixed")).is_broken_by(value)
    };
    for (key, kept, departed) in [
        ("server_arrivals", "poisson", "constant"),
        ("early_stopping_confidence", "0.999", "0.5"),
        ("early_stopping_tolerance", "0", "0.01"),
        ("performance_issue_same", "false", "true"),
        ("performance_issue_unique", "false", "true"),
        ("accuracy_sample_count_override", "0", "5"),
        // 0 is the whole data set.
        ("performance_sample_count_override", "0", "1023"),
    ] {
        assert!(!broken(key, kept), "{key} = {kept}");
        assert!(broken(key, departed), "{key} = {departed}");
    }
    let whole = Round::named("v2.0").unwrap();
    let whole = whole.settings(whole.benchmark("3d-unet-99").unwrap(), RuleScenario::Offline);
    let whole = whole.iter().find(|rule| rule.key == "performance_sample_count_override").unwrap();
    assert!(whole.is_broken_by("16") && !whole.is_broken_by("0"));
}

#[test]
fn runs_are_repeated_where_there_is_a_bound() {
    let of = |benchmark| fixed("v0.7", benchmark, RuleScenario::MultiStream)["repetition"].clone();
    assert_eq!(["resnet", "3d-unet-99"].map(of), ["confirm:5", "once"]);
}

#[test]
fn rounds_are_named_in_one_way_with_or_without_the_letter() {
    assert!(["v5.1", "5.1"].iter().all(|name| Round::named(name).is_ok()));
    for name in ["v+5.1", "v05.01", "5.01", "vv5.1", "5.1 ", ""] {
        assert!(Round::named(name).is_err(), "{name}");
    }
}

#[test]
fn interactive_is_server_with_its_own_bounds() {
    check(
        "v5.1",
        "llama3.1-8b",
        RuleScenario::Interactive,
        &[
            ("min_duration_ms", "600000"),
            ("min_query_count", "100"),
            ("performance_sample_count_override", "13368"),
            ("sample_concatenate_permutation", "true"),
            ("server_target_latency_percentile", "0.99"),
            ("server_tpot_latency", "30000000"),
            ("server_ttft_latency", "500000000"),
            ("use_token_latencies", "true"),
        ],
    );
    let server = fixed("v5.1", "llama3.1-8b", RuleScenario::Server);
    assert_eq!(server["server_ttft_latency"], "2000000000");
    // Interactive has its own data set, and a bound on the complete answer.
    let vl = fixed("v6.1", "qwen3-vl-235b-a22b", RuleScenario::Interactive);
    assert_eq!(vl["performance_sample_count_override"], "8000");
    assert_eq!(vl["server_target_latency_ns"], "1500000000");
    assert_eq!(vl["accuracy_sample_count_override"], "8000");
}

#[test]
fn rounds_before_early_stopping_count_queries() {
    check(
        "v0.5",
        "gnmt",
        RuleScenario::Server,
        &[
            ("min_duration_ms", "60000"),
            ("min_query_count", "90112"),
            ("performance_sample_count_override", "3003"),
            ("sample_concatenate_permutation", "false"),
            ("server_target_latency_ns", "250000000"),
            ("server_target_latency_percentile", "0.97"),
            ("use_token_latencies", "false"),
        ],
    );
    check(
        "v0.7",
        "bert-99",
        RuleScenario::SingleStream,
        &[
            ("min_duration_ms", "60000"),
            ("min_query_count", "1024"),
            ("performance_sample_count_override", "10833"),
            ("sample_concatenate_permutation", "false"),
            ("single_stream_target_latency_percentile", "0.9"),
            ("use_token_latencies", "false"),
        ],
    );
    assert_eq!(fixed("v0.7", "dlrm-99", RuleScenario::Offline)["min_query_count"], "24576");
    assert_eq!(fixed("v1.1", "resnet", RuleScenario::Server)["min_query_count"], "270336");
    // From KiTS on, the whole data set.
    let loaded = |round| {
        fixed(round, "3d-unet-99", RuleScenario::Offline)["performance_sample_count_override"]
            .clone()
    };
    assert_eq!(["v0.7", "v2.0"].map(loaded), ["16", "0"]);
    // Fewer than LoadGen's own minimum if the checker requires fewer.
    let wan = fixed("v6.0", "wan-2.2-t2v-a14b", RuleScenario::SingleStream);
    assert_eq!(wan["min_query_count"], "50");
    // LoadGen's table has no row for these; the checker has (constants.py b66003e1,
    // `OFFLINE_MIN_SPQ_SINCE_V4` and `accuracy-sample-count`).
    let gpt = fixed("v6.1", "gpt-oss-120b", RuleScenario::Offline);
    assert_eq!(gpt["min_query_count"], "6396");
    let wan = fixed("v6.1", "wan-2.2-t2v-a14b", RuleScenario::Offline);
    assert_eq!(wan["accuracy_sample_count_override"], "248");
}

/// e2e-rag/user.conf of mlcommons/inference, and its checker.
#[test]
fn one_pass_over_the_data_set_has_no_minimum_duration() {
    for (name, queries) in [("e2e-rag-qna", "824"), ("e2e-rag-db", "2515")] {
        let got = fixed("v6.1", name, RuleScenario::Offline);
        assert_eq!((&*got["min_duration_ms"], &*got["min_query_count"]), ("0", queries), "{name}");
    }
}

#[test]
fn intervals_and_repeated_runs_are_those_of_the_first_rounds() {
    let row = |round: &str, name: &str, scenario| {
        let got = fixed(round, name, scenario);
        let of = |key: &str| got.get(key).cloned().unwrap_or_default();
        (of("multi_stream_target_qps"), of("early_stopping"), of("repetition"))
    };
    let expected = |qps: &str, stopping: &str, repetition: &str| {
        (qps.to_string(), stopping.to_string(), repetition.to_string())
    };
    let (multi, server) = (RuleScenario::MultiStream, RuleScenario::Server);
    // One query every 50, 66 and 100 ms.
    assert_eq!(row("v0.5", "resnet", multi), expected("20", "never", "confirm:5"));
    assert_eq!(row("v0.5", "gnmt", multi), expected("10", "never", "confirm:5"));
    let every_66_ms = expected("15.151515151515152", "never", "confirm:5");
    assert_eq!(row("v0.7", "ssd-large", multi), every_66_ms);
    assert_eq!(row("v1.0", "resnet", multi), expected("20", "never", "once"));
    assert_eq!(row("v2.0", "resnet", multi), expected("0", "after-run", "once"));
    assert_eq!(row("v0.5", "resnet", server), expected("", "never", "minimum:5"));
    assert_eq!(row("v0.7", "resnet", server), expected("", "never", "confirm:5"));
    assert_eq!(row("v1.1", "resnet", server), expected("", "never", "once"));
    assert_eq!(row("v0.7", "resnet", RuleScenario::SingleStream), expected("", "never", "once"));
    // One query has no percentile to stop at.
    assert_eq!(row("v0.7", "resnet", RuleScenario::Offline), expected("", "", "once"));
}

#[test]
fn seeds_and_traces_are_the_rounds() {
    let v41 = fixed("v4.1", "resnet", RuleScenario::Server);
    assert_eq!(v41["sample_index_rng_seed"], "10688027786191513374");
    assert_eq!(v41["test05_schedule_rng_seed"], "5435552105434836064");
    assert_eq!(v41["trace_rules"], "up-to-5.1");
    let v60 = fixed("v6.0", "resnet", RuleScenario::Server);
    assert_eq!(v60["trace_rules"], "current");
    assert!(!v60.contains_key("test05_qsl_rng_seed"), "no TEST05 any more");
    assert_eq!(Round::named("v5.1").unwrap().trace_rules(), TraceRules::UpTo5_1);
}

#[test]
fn every_value_of_every_round_can_be_set() {
    for name in Round::names() {
        let round = Round::named(name).unwrap();
        for benchmark in &round.benchmarks {
            for scenario in benchmark.scenarios() {
                let mut settings = Settings::default();
                round.apply(&mut settings, benchmark, scenario);
                let origin = Origin::Rules(format!("round {name}, {}", benchmark.name));
                assert_eq!(settings.origin("qsl_rng_seed"), Some(&origin));
                assert!(round.scenarios.contains_key(&scenario), "{name} {scenario:?}");
            }
        }
    }
}

/// LoadGen's own table is that of v6.1's release. It must agree with the round wherever it has a
/// value. The table comes from the reference, our data from the checker's constants and the
/// rules.
#[test]
fn the_newest_round_agrees_with_the_table_of_its_loadgen() {
    let round = Round::named("v6.1").unwrap();
    let mut differing = Vec::new();
    for benchmark in &round.benchmarks {
        let Some(model) = &benchmark.loadgen.model else { continue };
        for scenario in benchmark.scenarios() {
            let model = match scenario {
                RuleScenario::Interactive => format!("{model}-interactive"),
                _ => model.clone(),
            };
            let word = scenario.loadgen_scenario().name();
            let mut table = Settings::default();
            Conf::built_in().apply(&mut table, &model, word, ConfType::BuiltIn);
            let mut both = table.clone();
            round.apply(&mut both, benchmark, scenario);
            for change in both.changes_since(&table) {
                let is_told = matches!(table.origin(change.key), Some(Origin::BuiltIn { .. }));
                if is_told {
                    differing.push(format!(
                        "{model} {word}: {} {} -> {}",
                        change.key, change.from, change.to
                    ));
                }
            }
        }
    }
    // The table has no row for Interactive of qwen3-vl, so the defaults for all models apply.
    differing.retain(|line| !line.starts_with("qwen3-vl-235b-a22b-interactive"));
    assert_eq!(differing, Vec::<String>::new());
}

/// Keys of the detail log, with the corresponding settings.
const LOGGED: [(&str, &str); 7] = [
    ("effective_min_duration_ms", "min_duration_ms"),
    ("effective_performance_sample_count", "performance_sample_count_override"),
    ("effective_sample_concatenate_permutation", "sample_concatenate_permutation"),
    ("requested_use_token_latencies", "use_token_latencies"),
    ("effective_qsl_rng_seed", "qsl_rng_seed"),
    ("effective_sample_index_rng_seed", "sample_index_rng_seed"),
    ("effective_schedule_rng_seed", "schedule_rng_seed"),
];

/// Published results have the settings of the round. The open division may differ.
#[test]
fn published_runs_of_v51_have_these_settings() {
    let Some(tree) = crate::shared::find("reference/submissions/tree/closed") else { return };
    let round = Round::named("v5.1").unwrap();
    let mut compared = 0;
    for log in detail_logs(&tree) {
        let parts: Vec<String> =
            log.iter().rev().map(|part| part.to_string_lossy().into_owned()).collect();
        // Path: run_1/performance/SCENARIO/BENCHMARK/SYSTEM/results, reversed, after the file.
        let (scenario, benchmark) = (&parts[3], &parts[4]);
        if parts[6] != "results" {
            continue;
        }
        let benchmark = round.benchmark(benchmark).unwrap();
        let scenario = RuleScenario::named(scenario).unwrap();
        let fixed = round.settings(benchmark, scenario);
        let logged = logged(&log);
        let mut check = |key: &str, of: &str| {
            let rule = fixed.iter().find(|rule| rule.key == of);
            if let (Some(rule), Some(value)) = (rule, logged.get(key)) {
                assert!(!rule.is_broken_by(value), "{}: {key} = {value}, {rule:?}", log.display());
                compared += 1;
            }
        };
        LOGGED.iter().for_each(|(key, of)| check(key, of));
        match scenario {
            RuleScenario::Offline => check("effective_samples_per_query", "min_query_count"),
            _ => check("effective_min_query_count", "min_query_count"),
        }
        if scenario == RuleScenario::MultiStream {
            check("effective_samples_per_query", "multi_stream_samples_per_query");
        }
        if scenario == RuleScenario::Server {
            check("effective_target_latency_ns", "server_target_latency_ns");
        }
    }
    assert!(compared > 50, "{compared} values compared");
}

fn detail_logs(folder: &Path) -> Vec<PathBuf> {
    let (mut folders, mut logs) = (vec![folder.to_path_buf()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.ends_with("performance/run_1/mlperf_log_detail.txt") {
                logs.push(path);
            }
        }
    }
    logs
}

fn logged(path: &Path) -> BTreeMap<String, String> {
    let text = String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
    let lines = text.lines().filter_map(|line| line.strip_prefix(":::MLLOG "));
    let rows = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let row = |row: Value| Some((row["key"].as_str()?.to_string(), row["value"].to_string()));
    rows.filter_map(row).collect()
}

#[test]
fn what_may_be_raised_may_not_be_lowered() {
    let fixed = |leeway| FixedSetting { key: "min_duration_ms", value: "600000".into(), leeway };
    assert!(!fixed(Leeway::More).is_broken_by("700000"));
    assert!(fixed(Leeway::More).is_broken_by("5000"));
    assert!(!fixed(Leeway::Less).is_broken_by("5000"));
    assert!(fixed(Leeway::Less).is_broken_by("700000"));
    assert!(fixed(Leeway::None).is_broken_by("700000"));
    assert!(!fixed(Leeway::None).is_broken_by("600000"));
}
