//! MultiStream at a fixed interval, and repeated runs, from the command line.

use serde_json::json;

use crate::book::repeated_runs;
use crate::program::Folder;

/// A query of n samples takes 2 ms and 1 ms a sample: less than 50 ms up to 47.
const SYSTEM: &str = "--system model:fixed=2ms,per-sample=1ms --workers 1 --batch 64 \
                      --scenario MultiStream --set multi_stream_target_qps=20";

#[test]
fn a_fixed_interval_has_a_number_of_streams_as_its_result() {
    let folder = Folder::new();
    let at = |streams: u64, more: &str| {
        let streams = format!("--set multi_stream_samples_per_query={streams}");
        folder.dyno(&format!("run {SYSTEM} {streams} --mode performance --json {more}"))
    };
    let found = at(47, "--out kept").exits(0).json();
    let test = &found["tests"][0];
    assert_eq!(test["result"]["value"], 47.0);
    assert_eq!(test["result"]["unit"], "streams");
    assert_eq!(test["plan"]["interval_ns"], 50_000_000);
    assert_eq!(test["metrics"]["intervals"]["over"], 0);
    assert_eq!(test["metrics"]["early_stopping"], serde_json::json!([]));
    // The logs alone show the same.
    std::fs::remove_file(folder.0.join("kept/summary.json")).unwrap();
    std::fs::remove_file(folder.0.join("kept/report.html")).unwrap();
    folder.dyno("report kept").exits(0);
    assert!(folder.read("kept/report.html").contains("47 streams"));

    let missed = at(49, "--out missed").exits(1).json();
    let test = &missed["tests"][0];
    let queries = &test["metrics"]["query_count"];
    assert_eq!(&test["metrics"]["intervals"]["over"], queries);
    assert_eq!(&test["metrics"]["intervals"]["skipped"], queries, "each skips one");
    let reason = test["reasons"][0].as_str().unwrap();
    assert!(reason.contains("made the next one skip an interval"), "{reason}");
}

#[test]
fn streams_are_searched_and_confirmed() {
    let folder = Folder::new();
    let streams = |arguments: &str| {
        let found = folder.dyno(&format!("run {SYSTEM} --json {arguments}")).exits(0).json();
        let test = &found["tests"][0];
        (test["result"]["value"].clone(), test["plan"]["repetition"].clone())
    };
    let from_1 = "--set multi_stream_samples_per_query=1";
    let (found, _) = streams(&format!("{from_1} --mode peak --out peak"));
    assert_eq!(found, 47.0);
    let confirm = "--set repetition=confirm:5";
    let (found, rule) = streams(&format!("{from_1} --mode peak {confirm} --out confirmed"));
    assert_eq!((found, rule), (47.0.into(), "confirm:5:1".into()));
    // Without a search: 50, 49 and 48 fail at their first run.
    let from_50 = "--set multi_stream_samples_per_query=50 --mode performance";
    let (found, _) = streams(&format!("{from_50} {confirm} --out lowered"));
    assert_eq!(found, 47.0);
    let log = folder.read("lowered/MultiStream/performance/mlperf_log_detail.txt");
    assert!(log.contains("Repetition: run 1 of 5 at 49"), "{log}");
    assert!(log.contains("Repetition: 5 VALID runs at 47; the lowest counts"), "{log}");
    // 80 to 70 fail, and so would many below.
    let from_80 = from_50.replace("50", "80");
    let ran = folder.dyno(&format!("run {SYSTEM} --json {from_80} {confirm} --out high")).exits(1);
    let test = &ran.json()["tests"][0];
    assert_eq!((&test["result"]["value"], &test["notes"]), (&70.0.into(), &json!([])));
    assert_eq!(
        test["reasons"][1],
        "No number of streams was confirmed, from 80 down to 70. Begin with a lower \
         multi_stream_samples_per_query, or find the peak first, with --mode peak."
    );
    // The other search takes the interval as the bound of latency.
    let search = format!("search {SYSTEM} --no-confirm --json --tolerance 5%");
    let found = folder.dyno(&search).exits(0).json();
    assert_eq!(found["peak"]["binds"], "latency p99 <= 50.0 ms");
    let peak = found["peak"]["load"].as_f64().unwrap();
    assert!((46.0..=48.0).contains(&peak), "{peak}");
}

#[test]
fn one_stream_that_fails_is_not_told_to_be_fewer() {
    let folder = Folder::new();
    let slow = "run --system model:fixed=60ms --scenario MultiStream --json \
                --set multi_stream_target_qps=20 --set multi_stream_samples_per_query=1";
    for (more, told) in [
        ("--mode peak", "The search found no number of streams: one already skips too many"),
        ("--mode performance --set repetition=confirm:2", "no lower value than 1 exists."),
    ] {
        let ran = folder.dyno(&format!("{slow} {more}")).exits(1).json();
        let reason = ran["tests"][0]["reasons"].as_array().unwrap().last().unwrap().to_string();
        assert!(reason.contains(told), "{reason}");
        assert!(reason.contains("Make the system faster, or the interval longer."), "{reason}");
        assert!(!reason.contains("lower multi_stream"), "{reason}");
    }
}

#[test]
fn a_repetition_that_failed_says_at_which_run() {
    let folder = Folder::new();
    let late = "run --system model:exponential=2ms --scenario Server --qps 450 --duration 2s \
                --mode performance --set early_stopping=never --set repetition=minimum:1000 \
                --set server_target_latency_ns=90ms --out late";
    let ran = folder.dyno(late).exits(1);
    let runs = std::fs::read_dir(folder.0.join("late/Server/performance")).unwrap();
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
    let runs = runs.map(name).filter(|name| name.to_string_lossy().starts_with("run_")).count();
    assert!(ran.stdout.contains(&format!("run {runs} of 1000 is INVALID")), "{}", ran.stdout);
    // Without early stopping the percentile decides how many may be late.
    assert!(ran.stdout.contains("over 90.0 ms,"), "{}", ran.stdout);
    let many = folder.dyno(&late.replace(":1000", ":100000000")).exits(2);
    assert!(many.stderr.contains("kept of 100000000 runs"), "{}", many.stderr);
}

#[test]
fn the_minimum_of_five_server_runs_is_told() {
    let folder = Folder::new();
    let five = "run --system model:exponential=2ms --scenario Server --qps 100 \
                --mode performance --set repetition=minimum:5 --out five";
    let ran = folder.dyno(five).exits(0);
    assert!(ran.stdout.contains("the lowest of 5 runs"), "{}", ran.stdout);
    let log = folder.read("five/Server/performance/mlperf_log_detail.txt");
    assert_eq!(log.matches("\"key\": \"power_begin\"").count(), 5);
    assert_eq!(log.matches("\"key\": \"result_validity\"").count(), 1);
    // Each run has the logs of a run.
    for number in 1..=5 {
        let log =
            folder.read(&format!("five/Server/performance/run_{number}/mlperf_log_detail.txt"));
        assert_eq!(log.matches("\"key\": \"power_begin\"").count(), 1);
        assert!(log.contains("\"key\": \"result_validity\", \"value\": \"VALID\""), "{log}");
    }
    assert!(!folder.0.join("five/Server/performance/run_6").exists());
    std::fs::remove_file(folder.0.join("five/summary.json")).unwrap();
    let page = folder.dyno("report five --out page.html").exits(0);
    assert!(page.stderr.contains("One test was rebuilt"), "{}", page.stderr);

    let plan = folder.dyno(&format!("{five}-dry --dry-run")).exits(0);
    assert!(plan.stdout.contains("at least 25.0 s"), "five of 5 s: {}", plan.stdout);

    let none = folder.dyno("run --system null --set repetition=confirm:5").exits(2);
    assert!(none.stderr.contains("a load that a failure can lower"), "{}", none.stderr);
}

#[test]
fn confirmations_find_what_probability_says() {
    let [_, _, _, (_, search)] = repeated_runs::rules();
    let found = repeated_runs::play(&search, 7);
    let mut reached = 1.0;
    for streams in (18..=24).rev() {
        let all = repeated_runs::chance(streams).powi(5);
        let share = found.shares[streams - 18];
        // Four standard deviations of 20,000 tests are at most 0.014.
        assert!((share - reached * all).abs() < 0.014, "{streams}: {share}");
        reached *= 1.0 - all;
    }
    assert_eq!(reached, 0.0, "18 streams always pass");
}
