//! The verdict of a run: its word, and the order, causes and advice of its reasons.

use serde_json::Value;

use crate::program::Folder;

const MODEL: &str = "run --mode performance --system model:exponential=2ms,servers=4";

/// A run that has too few queries and no other fault.
fn short() -> String {
    format!("{MODEL} --scenario server --qps 300 --duration 1s")
}

fn run(folder: &Folder, arguments: &str, code: i32) -> (String, Value) {
    let ran = folder.dyno(&format!("{arguments} --no-progress --out out")).exits(code);
    (ran.stdout, summary(folder, "out"))
}

fn summary(folder: &Folder, directory: &str) -> Value {
    serde_json::from_str(&folder.read(&format!("{directory}/summary.json"))).unwrap()
}

fn reasons(test: &Value) -> Vec<String> {
    let reasons = test["reasons"].as_array().unwrap().iter();
    reasons.map(|reason| reason.as_str().unwrap().to_owned()).collect()
}

fn kinds(test: &Value) -> Vec<&str> {
    let causes = test["causes"].as_array().unwrap().iter();
    causes.map(|reason| reason["kind"].as_str().unwrap()).collect()
}

/// Queries without any over the bound after which p99 is certain at 99 %: the least n for which
/// 0.99^n is at most 0.01.
fn needed() -> u64 {
    (0.01_f64.ln() / 0.99_f64.ln()).ceil() as u64
}

/// M/M/1 with a utilization of 0.7: by Little's law and the distribution of its queue, the mean
/// latency is the mean service time / (1 - 0.7).
#[test]
fn services_do_not_depend_on_arrivals_with_the_same_seed() {
    let folder = Folder::new();
    let queue = "run --mode performance --system model:exponential=1ms";
    for (spec, flags) in [
        ("", "--seed 1"),
        ("", "--seed 12345"),
        (",seed=7", "--seed 7"),
        (",seed=7", "--set schedule_rng_seed=7 --set sample_index_rng_seed=7"),
        ("", "--set schedule_rng_seed=0"),
    ] {
        let load = "--scenario server --qps 700 --duration 200s";
        folder.dyno(&format!("{queue}{spec} {load} {flags} -q --out out")).exits(0);
        let mean = summary(&folder, "out")["tests"][0]["metrics"]["latency_ns"]["mean"].clone();
        let expected = 1e6 / (1.0 - 0.7);
        let distance = mean.as_f64().unwrap() / expected - 1.0;
        assert!(distance.abs() < 0.15, "{spec} {flags}: {mean} instead of {expected}");
        std::fs::remove_dir_all(folder.0.join("out")).unwrap();
    }
}

#[test]
fn too_few_queries_are_undecided_and_not_invalid() {
    let folder = Folder::new();
    let (text, summary) = run(&folder, &short(), 1);
    let test = &summary["tests"][0];
    assert!(text.contains("Verdict: UNDECIDED"), "{text}");
    assert_eq!([&summary["verdict"], &test["verdict"]], ["UNDECIDED"; 2]);
    assert_eq!(kinds(test), ["early_stopping"]);
    let queries = test["metrics"]["query_count"].as_u64().unwrap();
    let missing = needed() - queries;
    let reason = &reasons(test)[0];
    assert!(reason.starts_with(&format!("p99 <= 50.0 ms holds for the {queries}")), "{reason}");
    assert!(reason.contains(&format!("{missing} more queries are needed")), "{reason}");
    assert!(reason.contains(&format!("min_query_count={}", needed())), "{reason}");
    // With so many it is decided.
    let enough = format!("{} --set min_query_count={}", short(), needed());
    folder.dyno(&format!("{enough} --out enough -q")).exits(0);
}

#[test]
fn every_reader_knows_the_word_undecided_and_logs_keep_two() {
    let folder = Folder::new();
    run(&folder, &short(), 1);
    let log = folder.read("out/Server/performance/mlperf_log_summary.txt");
    assert!(log.contains("Result is : INVALID"), "{log}");
    let xml = folder.dyno("export out --format junit").exits(0).stdout;
    assert!(xml.contains("<failure type=\"UNDECIDED\"") && xml.contains("failures=\"1\""), "{xml}");
    let text = folder.dyno("export out --format prometheus").exits(0).stdout;
    let value = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.rsplit(' ').next().unwrap().to_owned()
    };
    let names = ["dyno_run_valid", "dyno_run_undecided", "dyno_test_valid", "dyno_test_undecided"];
    assert_eq!(names.map(value), ["0", "1", "0", "1"]);
    let page = folder.read("out/report.html");
    assert!(page.contains("<span class=\"badge open\">? UNDECIDED</span>"));
    assert!(page.contains("The test is undecided"));
    let division = summary(&folder, "out")["division"]["reasons"].to_string();
    assert!(division.contains("UNDECIDED; its logs have INVALID"), "{division}");
    // The logs alone show that only queries are missing.
    std::fs::remove_file(folder.0.join("out/summary.json")).unwrap();
    folder.dyno("report out --out rebuilt.html").exits(0);
    assert!(folder.read("rebuilt.html").contains("? UNDECIDED</span>"));
}

#[test]
fn a_minimum_of_queries_that_is_missed_is_undecided_without_a_round() {
    let folder = Folder::new();
    // One query each 10 ms, for a second.
    let few = "run --mode performance --system model:fixed=10ms --scenario singlestream --set \
               min_duration_ms=100 --set max_duration_ms=1000 --set min_query_count=150";
    let (_, free) = run(&folder, few, 1);
    let test = &free["tests"][0];
    assert_eq!((&test["verdict"], kinds(test)), (&"UNDECIDED".into(), vec!["query_count"]));
    let missing = 150 - test["metrics"]["query_count"].as_u64().unwrap();
    let reason = &reasons(test)[0];
    let expected = format!("{missing} more queries needed; raise max_duration_ms");
    assert!(reason.contains(&expected), "{reason}");
    folder.dyno(&format!("{few} --round v5.1 --benchmark resnet --out round -q")).exits(1);
    assert_eq!(summary(&folder, "round")["tests"][0]["verdict"], "INVALID");
}

#[test]
fn invalid_wins_over_undecided() {
    let folder = Folder::new();
    let both = format!(
        "{MODEL} --scenario singlestream --scenario server --qps 300 --duration 1s --set \
         SingleStream.min_query_count=10 --set SingleStream.min_duration_ms=1 --set \
         single_stream_expected_latency_ns=100000000 --set server_target_latency_ns=1us"
    );
    let (_, summary) = run(&folder, &both, 1);
    let words = ["UNDECIDED", "INVALID"];
    assert_eq!([0, 1].map(|at| summary["tests"][at]["verdict"].clone()), words);
    assert_eq!(summary["verdict"], "INVALID");
}

#[test]
fn a_sweep_counts_undecided_points_apart() {
    let folder = Folder::new();
    let sweep = "sweep --system model:exponential=2ms,servers=4 --scenario server --mode \
                 performance --duration 1s --over qps=300,1000 --out swept";
    let text = folder.dyno(sweep).exits(1).stdout;
    assert!(text.contains("2 points: 1 done, 1 undecided"), "{text}");
    let state: Value = serde_json::from_str(&folder.read("swept/sweep.json")).unwrap();
    assert_eq!(state["points"][0]["state"], "undecided");
    assert_eq!(state["points"][0]["results"][0]["verdict"], "UNDECIDED");
    assert_eq!(state["points"][0]["exit_code"], 1);
}

#[test]
fn failures_come_first_and_no_speed_is_advised() {
    let folder = Folder::new();
    let failing = "run --mode performance --system model:exponential=2ms,servers=4,failed=0.03 \
                   --scenario server --qps 1000";
    let (text, summary) = run(&folder, failing, 1);
    let test = &summary["tests"][0];
    let failed = test["metrics"]["failed"]["internal"].as_u64().unwrap();
    let answered = test["metrics"]["sample_count"].as_u64().unwrap();
    let reasons = reasons(test);
    assert_eq!(kinds(test)[0], "failures");
    assert_eq!(test["causes"][0]["cause"], "system");
    assert!(reasons[0].starts_with(&format!("{failed} of ")), "{reasons:?}");
    assert!(reasons[0].contains("p99 <= 50.0 ms holds for the 4,880 answered"), "{reasons:?}");
    assert_eq!(answered, 4_880);
    for advice in ["faster", "lower server_target_qps", "--qps"] {
        assert!(!reasons.iter().any(|reason| reason.contains(advice)), "{advice}: {reasons:?}");
    }
    // Offered and completed stand side by side, and neither is called the capacity.
    let scheduled = test["metrics"]["rates"]["scheduled_samples_per_s"].as_f64().unwrap();
    assert_eq!(scheduled.round(), 1_006.0);
    let text = text.replace('│', " ").split_whitespace().collect::<Vec<_>>().join(" ");
    let offered = "offered 1,006/s (target 1,000/s), poisson, completed ";
    assert!(text.contains(offered), "{text}");
    assert!(text.contains("0 of 4,880 answered over 50.0 ms, 150 not answered"), "{text}");
    // Only the bound that is judged is counted.
    let over = &test["metrics"]["over_bound"];
    assert_eq!([&over["latency"], &over["first_token"]], [&Value::from(failed), &Value::Null]);
}

#[test]
fn a_missed_bound_without_failures_advises_less_load() {
    let folder = Folder::new();
    let slow = format!("{MODEL} --scenario server --qps 1900 --set server_target_latency_ns=20ms");
    let (_, summary) = run(&folder, &slow, 1);
    let test = &summary["tests"][0];
    assert_eq!(kinds(test)[0], "bound");
    assert!(reasons(test)[0].contains("lower server_target_qps or make the system faster"));
}

#[test]
fn what_ended_the_run_comes_first() {
    let folder = Folder::new();
    let piled = "run --mode performance --system model:fixed=10ms --scenario server --qps 10000 \
                 --duration 5s --set server_max_async_queries=50";
    let (_, summary) = run(&folder, piled, 1);
    let test = &summary["tests"][0];
    assert_eq!((kinds(test)[0], &test["verdict"]), ("ended", &"INVALID".into()));
    let first = &reasons(test)[0];
    assert!(first.starts_with("the run ended early: "), "{first}");
    assert!(first.contains("server_max_async_queries allows 50"), "{first}");
}

#[test]
fn a_run_without_answers_shows_no_latency() {
    let folder = Folder::new();
    let dead = "run --mode performance --system model:fixed=2ms,failed=1 --scenario server \
                --qps 300 --duration 1s";
    let (text, summary) = run(&folder, dead, 1);
    let test = &summary["tests"][0];
    let latency = &test["metrics"]["latency_ns"];
    assert_eq!((&latency["count"], &latency["p50"]), (&0.into(), &Value::Null));
    assert_eq!(latency["target"], Value::Null);
    assert_eq!(kinds(test), ["failures"], "of nothing there is no bound and no percentile");
    assert!(text.contains("none of 298 answered"), "{text}");
}

/// A repetition shows its lowest run, and each of its runs must meet the requirements.
#[test]
fn a_repetition_is_judged_in_each_run_and_shows_one() {
    let folder = Folder::new();
    let repeated = format!("{MODEL} --scenario server --qps 1500 --set repetition=minimum:3");
    let (text, undecided) = run(&folder, &format!("{repeated} --require p99<=12ms"), 1);
    let test = &undecided["tests"][0];
    let found = test["requirements"].as_array().unwrap();
    // The requirement has the figure of the run whose latencies are shown.
    let [shown, required] = [&test["metrics"]["latency_ns"]["p99"], &found[0]["value"]];
    assert_eq!(shown.as_f64().unwrap(), required.as_f64().unwrap());
    let names: Vec<&str> = found.iter().map(|of| of["requirement"].as_str().unwrap()).collect();
    let named = |run: u32| format!("latency p99 <= 12.0 ms in run {run} of 3");
    assert_eq!(names[0], "latency p99 <= 12.0 ms");
    assert!((1..=3).any(|run| names.contains(&&named(run)[..])), "{names:?}");
    assert_eq!(reasons(test).len(), found.len(), "{test}");
    assert!(text.contains("Server: the lowest of 3 runs"), "{text}");
    let xml = folder.dyno("export out --format junit").exits(0).stdout;
    assert!(xml.contains("of 3: undecided"), "{xml}");

    // Half of the latencies of the shown run are at most its median.
    let median = test["metrics"]["latency_ns"]["p50"].as_f64().unwrap();
    let goodput = format!("{repeated} --goodput e2el:{} --out good -q", median / 1e6);
    folder.dyno(&goodput).exits(0);
    let metrics = &summary(&folder, "good")["tests"][0]["metrics"];
    let share = metrics["goodput"]["share"].as_f64().unwrap();
    let one = 1.0 / metrics["sample_count"].as_f64().unwrap();
    assert!((share - 0.5).abs() <= 2.0 * one, "{share}");
}
