//! Completed rates in virtual time: they are those of the system, whatever the length of the run.

use serde_json::Value;

use crate::program::Folder;

/// A system that answers all requests after a fixed time.
fn run(folder: &Folder, latency: &str, load: &str) -> Value {
    let ran = folder.dyno(&format!(
        "run --system model:fixed={latency},servers=1000 --scenario server --mode performance \
         --profile llm {load} --quiet --out out"
    ));
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
    let summary: Value = serde_json::from_str(&folder.read("out/summary.json")).unwrap();
    summary["tests"][0].clone()
}

fn rate(test: &Value, key: &str) -> f64 {
    test["metrics"]["rates"][key].as_f64().unwrap_or_else(|| panic!("{key} in {test}"))
}

#[test]
fn a_closed_loop_has_the_rate_of_its_system_for_any_duration() {
    for (duration, queries) in [("30s", 24), ("25s", 24), ("41s", 40)] {
        let folder = Folder::new();
        let load = format!("--set server_arrivals=concurrency:8 --duration {duration}");
        let test = run(&folder, "10s", &load);
        assert_eq!(test["metrics"]["query_count"], queries, "none after the duration");
        let completed = rate(&test, "completed_samples_per_s");
        assert!((completed - 0.8).abs() < 1e-9, "{duration}: {completed}");
        assert!(rate(&test, "goodput_samples_per_s") <= completed);
        assert_eq!(test["result"]["value"].as_f64(), Some(completed));
        let page = folder.read("out/report.html");
        assert!(page.contains("8 in flight until the last request was sent at "), "{duration}");
    }
}

#[test]
fn a_closed_loop_of_one_round_states_what_its_rate_includes() {
    let folder = Folder::new();
    let load = "--set server_arrivals=concurrency:4 --num-prompts 4";
    let test = run(&folder, "1s", load);
    let completed = rate(&test, "completed_samples_per_s");
    assert!((completed - 4.0).abs() < 1e-9, "{completed}");
    assert!(rate(&test, "goodput_samples_per_s") <= completed);
    assert_eq!(test["result"]["interval"], Value::Null);
    let notes = test["notes"].to_string();
    assert!(notes.contains("includes the fill and the drain") && notes.contains("8 requests"));
}

#[test]
fn an_open_loop_that_never_queues_completes_what_it_is_offered() {
    let folder = Folder::new();
    let test = run(&folder, "10s", "--qps 10 --duration 20s");
    let offered = rate(&test, "scheduled_samples_per_s");
    let completed = rate(&test, "completed_samples_per_s");
    assert!((completed / offered - 1.0).abs() < 1e-6, "{completed} of {offered}");
    assert!(rate(&test, "goodput_samples_per_s") <= completed);
}

#[test]
fn the_sweep_of_a_linear_system_is_linear() {
    let folder = Folder::new();
    folder
        .dyno(
            "sweep --system model:fixed=1300ms,servers=1000 --scenario server --mode performance \
             --profile llm --duration 3s --over \
             settings.server_arrivals=concurrency:1,concurrency:4,concurrency:16,concurrency:64 \
             --out out",
        )
        .exits(0);
    let sweep: Value = serde_json::from_str(&folder.read("out/sweep.json")).unwrap();
    let points = sweep["points"].as_array().unwrap();
    for (point, in_flight) in points.iter().zip([1.0, 4.0, 16.0, 64.0]) {
        let found = point["results"][0]["throughput"].as_f64().unwrap();
        let expected = in_flight / 1.3;
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} instead of {expected}");
    }
}
