//! All scenarios from C, and their logs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use dyno_loadgen::log::read::AccuracyEntry;

use crate::logs::{accuracy, detail, grave};
use crate::program::{Language, Link, build, folder, output, run};

const SCENARIOS: [&str; 4] = ["SingleStream", "MultiStream", "Server", "Offline"];

/// Samples in the library of `scenario.c`.
const SAMPLES: usize = 1024;

/// Enough queries for every early-stopping criterion, and bounds that no busy
/// machine misses.
const COMMON: [&str; 5] = [
    "min_duration_ms=0",
    "min_query_count=700",
    "server_target_latency_ns=100000000000",
    "server_ttft_latency=100000000000",
    "server_tpot_latency=100000000000",
];

/// Runs `scenario.c` linked in both ways for each scenario with these
/// arguments; shows the scenario, the folder and what was printed to `check`.
fn check_scenarios(case: &str, arguments: &[&str], check: impl Fn(&str, &Path, &str)) {
    for link in Link::BOTH {
        let folder = folder(&format!("{case}-{link:?}"));
        let Some(program) = build("tests/c/scenario.c", Language::C, link) else { return };
        for scenario in SCENARIOS {
            let chosen = format!("scenario={scenario}");
            let rate = "server_target_qps=100000";
            let arguments = [&[chosen.as_str(), rate], &COMMON[..], arguments].concat();
            let printed = run(&program, &folder, &arguments);
            assert_eq!(grave(&folder), [""; 0], "{scenario}");
            check(scenario, &folder, &printed);
        }
    }
}

fn check_valid(scenario: &str, folder: &Path) {
    let detail = detail(folder);
    assert_eq!(detail.text("result_validity"), Some("VALID"), "{scenario}");
    assert_eq!(detail.text("sut_name"), Some("C harness"));
    assert_eq!(detail.text("effective_scenario"), Some(scenario));
}

/// Each sample of the library is answered once (MultiStream may pad) with its
/// position in text.
fn check_answers(scenario: &str, entries: &[AccuracyEntry]) {
    let mut seen = vec![0; SAMPLES];
    for entry in entries {
        assert_eq!(entry.data, entry.qsl_idx.to_string().as_bytes(), "{scenario}");
        seen[usize::try_from(entry.qsl_idx).unwrap()] += 1;
    }
    let most = if scenario == "MultiStream" { 2 } else { 1 };
    assert!(seen.iter().all(|count| (1..=most).contains(count)), "{scenario}: {seen:?}");
}

#[test]
fn performance_of_each_scenario_is_valid() {
    check_scenarios("performance", &[], |scenario, folder, _| check_valid(scenario, folder));
}

#[test]
fn performance_is_valid_with_threads_that_complete() {
    let arguments = ["--complete=threads", "--batch=8"];
    check_scenarios("threads", &arguments, |scenario, folder, _| check_valid(scenario, folder));
}

#[test]
fn performance_is_valid_with_samples_in_memory_of_the_program() {
    let arguments = ["--own-memory", "server_coalesce_queries=true"];
    check_scenarios("memory", &arguments, |scenario, folder, _| check_valid(scenario, folder));
}

#[test]
fn answers_of_an_accuracy_run_are_in_its_log() {
    let arguments = ["mode=AccuracyOnly", "--payload", "--complete=threads"];
    check_scenarios("accuracy", &arguments, |scenario, folder, _| {
        let entries = accuracy(folder);
        check_answers(scenario, &entries);
        assert!(entries.iter().all(|e| e.token_count.is_none() && e.token_data.is_none()));
    });
}

#[test]
fn tokens_are_in_the_accuracy_log_and_in_the_result() {
    let tokens = ["use_token_latencies=true", "--tokens", "--payload"];
    let arguments = [&tokens[..], &["mode=AccuracyOnly"]].concat();
    check_scenarios("tokens-accuracy", &arguments, |scenario, folder, _| {
        let entries = accuracy(folder);
        check_answers(scenario, &entries);
        for entry in &entries {
            assert_eq!(entry.token_count, Some(3 + i64::try_from(entry.qsl_idx % 5).unwrap()));
            let first = (scenario != "Offline").then_some(&entry.data);
            assert_eq!(entry.token_data.as_ref(), first, "{scenario}");
        }
    });
    check_scenarios("tokens-performance", &tokens, |scenario, folder, _| {
        check_valid(scenario, folder);
        let key = match scenario {
            "Offline" => "result_tokens_per_second",
            _ => "result_completed_tokens_per_second",
        };
        assert!(detail(folder).number(key).unwrap() > 0.0, "{scenario}");
    });
}

#[test]
fn answers_are_fetched_if_they_are_logged_and_not_else() {
    check_scenarios("fetch-none", &["--fetch"], |_, folder, printed| {
        assert_eq!(printed, "fetched 0\n");
        assert_eq!(accuracy(folder).len(), 0);
    });
    let some = ["--fetch", "accuracy_log_probability=0.5"];
    check_scenarios("fetch-some", &some, |scenario, folder, printed| {
        let entries = accuracy(folder);
        assert_eq!(printed, format!("fetched {}\n", entries.len()));
        assert!(entries.len() > 200, "{scenario}: {}", entries.len());
        assert!(entries.iter().all(|e| e.data == e.qsl_idx.to_string().as_bytes()));
    });
    let all = ["--fetch", "mode=AccuracyOnly"];
    check_scenarios("fetch-all", &all, |scenario, folder, printed| {
        let entries = accuracy(folder);
        assert_eq!(printed, format!("fetched {}\n", entries.len()));
        check_answers(scenario, &entries);
    });
}

#[test]
fn samples_held_until_the_flush_are_completed_in_batches() {
    for link in Link::BOTH {
        let folder = folder(&format!("flush-{link:?}"));
        let Some(program) = build("tests/c/scenario.c", Language::C, link) else { return };
        for (scenario, batch) in [("Offline", 1), ("Offline", 1024), ("Server", 64)] {
            let chosen = [format!("scenario={scenario}"), format!("--batch={batch}")];
            let flushed = [&*chosen[0], &*chosen[1], "--complete=flush", "server_target_qps=1e7"];
            let arguments = [&flushed[..], &COMMON[..]].concat();
            run(&program, &folder, &arguments);
            assert_eq!(grave(&folder), [""; 0], "{scenario}");
            check_valid(scenario, &folder);
        }
    }
}

#[test]
fn log_settings_name_the_files_and_copy_them() {
    for link in Link::BOTH {
        let folder = folder(&format!("logs-{link:?}"));
        let Some(program) = build("tests/c/scenario.c", Language::C, link) else { return };
        fs::create_dir(folder.join("logs")).unwrap();
        let arguments = [
            "min_duration_ms=0",
            "log.outdir=logs",
            "log.prefix=run7_",
            "log.suffix=_c",
            "log.copy_summary_to_stdout=true",
            "log.enable_trace=false",
        ];
        let printed = run(&program, &folder, &arguments);
        let file = |name: &str| fs::read_to_string(folder.join("logs").join(name)).unwrap();
        assert!(printed.contains(&file("run7_summary_c.txt")), "{printed}");
        assert!(file("run7_detail_c.txt").contains("\"result_validity\""));
        assert_eq!(file("run7_accuracy_c.json"), "[\n]\n");
        assert_eq!(file("run7_trace_c.json"), "");

        run(&program, &folder, &["min_duration_ms=0", "log.prefix_with_datetime=true"]);
        let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let dated: Vec<PathBuf> =
            names.filter(|p| p.to_string_lossy().ends_with("Z_summary.txt")).collect();
        assert_eq!(dated.len(), 1, "{dated:?}");
    }
}

#[test]
fn a_stdout_that_takes_nothing_loses_no_run() {
    let folder = folder("full-stdout");
    let Some(program) = build("tests/c/scenario.c", Language::C, Link::Static) else { return };
    let Ok(full) = fs::File::create("/dev/full") else {
        eprintln!("skipped: there is no /dev/full");
        return;
    };
    let arguments =
        ["min_duration_ms=0", "print_timestamps=true", "log.copy_summary_to_stdout=true"];
    output(Command::new(program).current_dir(&folder).args(arguments).stdout(full));
    assert_eq!(grave(&folder), [""; 0]);
    assert_eq!(detail(&folder).text("result_validity"), Some("VALID"));
}
