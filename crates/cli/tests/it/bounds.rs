//! Bounds and plans of scripts: a bound that is written slightly wrong must not pass, and a plan is JSON
//! where results are.

use dyno_sut::digits;

use crate::probe::npy;
use crate::program::Folder;
use crate::schema::schema;
use crate::tuned;

const SERVER: &str =
    "--system model:exponential=2ms --scenario server --mode performance --qps 100";

/// Rejects each of these commands with exit code 2 and a message.
#[track_caller]
fn check_rejected(folder: &Folder, commands: &[(&str, &str)]) {
    for (command, expected) in commands {
        let ran = folder.dyno(command).exits(2);
        assert!(ran.stderr.contains(expected), "{command}: {expected:?} in\n{}", ran.stderr);
        assert_eq!(ran.stdout, "", "{command}");
    }
    assert!(!folder.0.join("runs").exists(), "something was run");
}

/// `p0.99` would bound the fastest queries, and `5m` is 5 minutes: both would pass every run.
#[test]
fn a_bound_that_would_always_pass_is_rejected() {
    let folder = Folder::new();
    let openai = "run --system openai:http://127.0.0.1:1,model=m --dry-run";
    check_rejected(
        &folder,
        &[
            (&format!("run {SERVER} --require p0.99<=5ms"), "found p0.99; write p99"),
            (&format!("run {SERVER} --require server:p0.5<=5ms"), "found p0.5; write p50"),
            (&format!("run {SERVER} --require p0.001<=5ms"), "found p0.001; write p1\n"),
            (&format!("run {SERVER} --require p99<=5m"), "write 5ms or 5min"),
            (&format!("run {SERVER} --set server_target_latency_ns=5m"), "write 5ms or 5min"),
            ("search --limit p0.9<=5ms", "found p0.9; write p90"),
            ("search --limit p99<=5m", "write 5ms or 5min"),
            ("sweep --over qps=1,2 --p99-below 20m", "write 20ms or 20min"),
            ("compare a b --metric p0.99", "write p99"),
            (&format!("{openai} --metric-percentiles 0.5,0.99"), "found `0.5`; write 50"),
            // `$((95 / 100))` of a shell is 0.
            ("run --accuracy-target 0", "--accuracy-target has no effect: no accuracy is below 0"),
            // 0 ms is no limit.
            (&format!("run {SERVER} --set max_duration_ms=900us"), "expected a whole number of ms"),
            (&format!("run {SERVER} --set max_duration_ms=1500us"), "found `1500us`"),
        ],
    );
    folder.write(
        "sweep.toml",
        "version = 1\n[sweep]\np99_below = \"20m\"\n[sweep.over]\nqps = [1, 2]\n",
    );
    check_rejected(&folder, &[("sweep --config sweep.toml", "write 20ms or 20min")]);
    folder.dyno(&format!("run {SERVER} --require p99<=5min --dry-run")).exits(0);
}

/// Each point judges one of the two kinds of bounds that are set. Answers take longer than 1 us.
#[test]
fn a_sweep_may_vary_which_bounds_are_judged() {
    let folder = Folder::new();
    let sweep = "sweep --system model:fixed=1ms,tokens=2-3,per-token=1ms --scenario server \
                 --mode performance --qps 100 --num-prompts 1000 --quiet --out out";
    let over = "--over settings.use_token_latencies=true,false";
    let latency = "--set server_target_latency_ns=1us";
    let both = format!("{latency} --set server_ttft_latency=1s --set server_tpot_latency=1s");
    let expected = "--set server_target_latency_ns has no effect";
    check_rejected(
        &folder,
        &[
            // Its first point would judge no bound.
            (&format!("{sweep} {over} {latency}"), expected),
            // No point would judge the tokens.
            (
                &format!("{sweep} --over seed=1,2 {both}"),
                "--set server_ttft_latency has no effect: use_token_latencies is false",
            ),
        ],
    );
    folder.dyno(&format!("{sweep} {over} {both}")).exits(1);
    let csv = folder.read("out/sweep.csv");
    let points: Vec<&str> = csv.lines().skip(1).collect();
    assert_eq!(points.len(), 2, "{csv}");
    assert!(points[0].contains(",true,Server,,VALID,"), "{csv}");
    assert!(points[1].contains(",false,Server,,INVALID,"), "{csv}");

    // A system that is loaded only when its points are run.
    let engine = "sweep --system rnn:lstm:4x8,tune=0s --scenario server --mode performance --qps 100 \
                  --duration 200ms --quiet --over seed=1,2 --out engine";
    let ttft = "--set server_target_latency_ns=1s --set server_ttft_latency=1s";
    folder.dyno(&format!("{engine} {ttft}")).exits(1);
    let csv = folder.read("engine/sweep.csv");
    let expected = "--set server_ttft_latency has no effect: system `rnn` reports no tokens";
    assert_eq!(csv.matches(expected).count(), 2, "{csv}");
}

/// Both points are equal: a query of 100 samples takes 200 ms.
#[test]
fn the_first_of_equal_points_of_a_sweep_is_named() {
    let sweep = "sweep --system model:fixed=2ms --scenario offline --mode performance \
                 --num-prompts 100 --over seed=1,2 --out out";
    let ran = Folder::new().dyno(sweep).exits(0);
    for figure in ["highest throughput", "lowest p99"] {
        let expected = format!("Offline, {figure}: seed-1 (500.0 samples/s");
        assert!(ran.stdout.contains(&expected), "{expected}\n{}", ran.stdout);
    }
}

#[test]
fn a_rate_whose_queries_are_never_due_is_rejected() {
    let folder = Folder::new();
    let run = "run --system null --scenario server";
    let expected = "a rate at which the 100 queries of the test are due within 30 years";
    check_rejected(
        &folder,
        &[
            (&format!("{run} --mode performance --qps 1e-300"), expected),
            (&format!("{run} --mode accuracy --qps 1e-300"), "queries of the test are due within"),
        ],
    );
    folder.dyno(&format!("{run} --mode performance --qps 1e-6 --dry-run")).exits(0);
}

/// With this seed, the first request of a rate of 1/s comes after more than 2 s.
#[test]
fn stages_without_an_arrival_are_rejected() {
    let folder = Folder::new();
    let run = "run --system model:fixed=1ms --scenario server --mode performance --seed 1";
    let none = "expected at least one arrival time; add one; stages need higher rates";
    check_rejected(
        &folder,
        &[(&format!("{run} --stages 2s@1"), none), (&format!("{run} --stages 99s@0.0001"), none)],
    );
    folder.dyno(&format!("{run} --stages 99s@1 --dry-run")).exits(0);
}

#[test]
fn early_stopping_has_no_effect_in_offline_and_accuracy_tests() {
    let folder = Folder::new();
    let none = "Offline and accuracy tests have no early stopping";
    let offline = "run --system model:fixed=1ms --scenario Offline --mode performance --set";
    let accuracy = "run --scenario Server --mode accuracy --set";
    check_rejected(
        &folder,
        &[
            (&format!("{offline} early_stopping=never"), none),
            (&format!("{offline} early_stopping_confidence=0.9"), none),
            (&format!("{offline} early_stopping_tolerance=0.1"), none),
            (&format!("{accuracy} early_stopping=extend"), none),
        ],
    );
    let both = offline.replace("Offline", "Offline,Server");
    // Server has no early stopping by its own setting, and Offline never has.
    let never = "Server.early_stopping=never --set early_stopping_tolerance=0.1";
    check_rejected(&folder, &[(&format!("{both} {never}"), "early_stopping is never")]);
    folder.dyno(&format!("{both} early_stopping=never --dry-run")).exits(0);
}

/// The search would begin above its maximum.
#[test]
fn a_search_begins_below_its_maximum_and_has_limits_that_are_measured() {
    let folder = Folder::new();
    let search = "search --system model:exponential=2ms --limit p99<=20ms";
    let lag =
        "client lag p99 <= 1.00 ms is not measured: a client lags in Server at a rate and in real";
    let in_flight = "search --system null --load concurrency --limit p99<=20ms";
    check_rejected(
        &folder,
        &[
            (
                &format!("{search} --qps 100 --to 5"),
                "the first load, server_target_qps 100, is not below --to 5",
            ),
            (
                &format!("{in_flight} --set server_arrivals=concurrency:100 --to 5"),
                "the first load, server_arrivals concurrency:100, is not below --to 5",
            ),
            (&format!("{search} --limit lag.p99<=1ms"), lag),
            (&format!("{in_flight} --limit lag.p99<=1ms --dry-run"), lag),
        ],
    );
}

#[test]
fn plans_are_json_where_results_are() {
    let folder = Folder::new();
    let run = format!("run {SERVER} --require server:p99<=20ms --duration 3s --dry-run");
    let plan = folder.dyno(&format!("{run} --json")).exits(0).json();
    assert_eq!(plan["time"], "virtual", "{plan}");
    assert_eq!(plan["samples"], 1024, "{plan}");
    let test = &plan["tests"][0];
    assert_eq!(test["requirements"], serde_json::json!(["Server:p99<=20ms"]));
    assert_eq!(test["least_duration_ns"], 3_000_000_000_u64);
    let rate = &test["tenants"][0]["settings"]["server_target_qps"];
    assert_eq!(
        *rate,
        serde_json::json!({"value": "100", "unit": "queries/s", "origin": "flag --qps"})
    );
    let text = folder.dyno(&run).exits(0).stdout;
    assert!(text.contains("\n  requires Server:p99<=20ms\n"), "{text}");

    let search = "search --system model:exponential=2ms --limit p99<=20ms --dry-run --json";
    let known = folder.dyno(&format!("{search} --from 50")).exits(0).json();
    assert!(schema("search").is_valid(&known), "{known}");
    assert_eq!(known["definition"]["from"], 50.0);
    // Only a probe finds the first load.
    let plan = folder.dyno(search).exits(0).json();
    assert_eq!(plan["definition"]["from"], serde_json::Value::Null);
    assert_eq!(plan["definition"]["limits"], serde_json::json!(["latency.p99<=20000000ns"]));
    let text = "--json has no effect with --dry-run";
    let compare = "compare --interleave 2 a.toml b.toml --dry-run --json";
    check_rejected(&folder, &[(compare, text)]);
}

#[test]
fn a_plan_states_how_long_its_queries_take_at_a_low_rate() {
    let folder = Folder::new();
    let run = "run --system model:fixed=1ms --scenario server --mode performance --dry-run";
    let plan = |arguments: &str| folder.dyno(&format!("{run} {arguments}")).exits(0).stdout;
    let slow = plan("--qps 1");
    let expected = "performance (at least 5.0 s; 100 queries take about 100 s at this rate)";
    assert!(slow.contains(expected), "{slow}");
    let fast = plan("--qps 100");
    assert!(fast.contains("performance (at least 5.0 s)\n"), "{fast}");
    // A part of a ms does not become 0 ms.
    let short = plan("--qps 100 --duration 900us");
    assert!(short.contains("min_duration_ms = 1  ("), "{short}");
}

#[test]
fn an_export_states_which_folder_it_needs() {
    let folder = Folder::new();
    let sweep = format!("sweep {SERVER} --duration 1s --over seed=1,2 --out swept -q");
    folder.dyno(&sweep).exits(1);
    for path in ["swept", "swept/sweep.json"] {
        let ran = folder.dyno(&format!("export {path}")).exits(3);
        let hint = "hint: it holds several runs: pass the folder of one, with a summary.json";
        assert!(ran.stderr.contains(hint), "{}", ran.stderr);
    }
    folder.dyno(&format!("run {SERVER} --duration 1s -q --out out")).exits(1);
    let ran = folder.dyno("export out/summary.json").exits(3);
    assert!(ran.stderr.contains("hint: pass the folder of the run, out"), "{}", ran.stderr);
    // Another tool's file of this name is in no folder of a run.
    folder.write("summary.json", "{}");
    let ran = folder.dyno("export summary.json").exits(3);
    assert!(!ran.stderr.contains("pass the folder"), "{}", ran.stderr);
    // An unset variable of a script does not mean all tests.
    let ran = folder.command("export out --test").arg("").output().unwrap();
    assert_eq!(ran.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&ran.stderr).contains("--test: expected a test"));
}

#[test]
fn a_byte_order_mark_in_a_user_conf_is_named() {
    let folder = Folder::new();
    folder.write("user.conf", "\u{feff}*.Server.target_qps = 20\n");
    let run = "run --system model:fixed=2ms --scenario server --mode performance --conf user.conf";
    check_rejected(&folder, &[(run, "user.conf begins with a byte order mark")]);
}

/// Labels of other samples would give the same accuracy.
#[test]
fn an_accuracy_that_any_order_of_the_answers_reaches_has_a_note() {
    let folder = tuned::folder();
    let count = digits::test_digits().count();
    let same = npy("<i8", &format!("({count},)"), &3_i64.to_le_bytes().repeat(count));
    tuned::write(&folder, "same.npy", &same);
    let run = "run --system tuned:model=digits.onnx --data test.npy --mode accuracy \
               --scenario offline --json";
    let notes = |labels: &str| {
        let ran = folder.dyno(&format!("{run} --labels {labels}")).exits(0).json();
        ran["tests"][0]["notes"].to_string()
    };
    let note = "The same answers in a random order could be right at least as often";
    let told = notes("same.npy");
    assert!(told.contains(note), "{told}");
    let told = notes("test-labels.npy");
    assert!(!told.contains(note), "{told}");
}
