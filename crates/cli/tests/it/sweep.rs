//! `dyno sweep`: its results, its end, and resumption.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use serde_json::Value;

use crate::program::{Folder, ProgramResult};
use crate::schema::schema;

fn state(folder: &Folder) -> Value {
    serde_json::from_str(&folder.read("out/sweep.json")).unwrap()
}

/// The state of each point.
fn states(folder: &Folder) -> Vec<String> {
    let state = state(folder);
    let points = state["points"].as_array().unwrap();
    points.iter().map(|point| point["state"].as_str().unwrap().to_string()).collect()
}

/// Arguments that contain spaces come last, one string each.
fn dyno(folder: &Folder, arguments: &str, more: &[&str]) -> ProgramResult {
    folder.command(arguments).args(more).output().unwrap().into()
}

/// Relative tolerance of an Offline run in virtual time, whose last batch is not full.
const OFFLINE_TOLERANCE: f64 = 0.01;

#[test]
fn a_batching_system_is_as_fast_as_its_service_time_says() {
    let folder = Folder::new();
    let ran = folder
        .dyno(
            "sweep --system model:fixed=1ms,per-sample=100us,servers=2 --scenario offline \
             --mode performance --duration 1s --set offline_expected_qps=20000 \
             --over batch=1..16:x2 --over workers=1,2 --out out",
        )
        .exits(0);
    assert!(
        ran.stdout.contains("Offline, highest throughput: batch-16-workers-2 (12,"),
        "{}",
        ran.stdout
    );
    let state = state(&folder);
    assert_eq!(state["state"], "complete");
    let points = state["points"].as_array().unwrap();
    assert_eq!(points.len(), 10);
    for point in points {
        let of = |key: &str| point["assignments"][key].as_str().unwrap().parse::<f64>().unwrap();
        let expected = of("workers") * of("batch") / (1e-3 + of("batch") * 1e-4);
        let found = point["results"][0]["throughput"].as_f64().unwrap();
        assert!((found / expected - 1.0).abs() < OFFLINE_TOLERANCE, "{point} {expected}");
        let run = format!("out/{}/summary.json", point["folder"].as_str().unwrap());
        let run: Value = serde_json::from_str(&folder.read(&run)).unwrap();
        assert_eq!(run["verdict"], "VALID", "each point is a run directory");
    }
    assert!(folder.read("out/report.html").contains("batch-16-workers-2"), "it has its page");
    let csv = folder.read("out/sweep.csv");
    assert_eq!(csv.lines().count(), 11);
    assert!(csv.starts_with("number,repeat,name,state,axis.batch,axis.workers,scenario,"), "{csv}");
}

#[test]
fn sweep_json_is_as_documented() {
    let folder = Folder::new();
    folder
        .dyno(
            "sweep --system digits --scenario single-stream --mode accuracy --over seed=1,2 \
             --repeat 2 --out out",
        )
        .exits(0);
    let state = state(&folder);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/sweep.md");
    let text = std::fs::read_to_string(path).unwrap();
    let documented = |table: &str| -> Vec<String> {
        let table = text.split(&format!("| {table} | what |\n")).nth(1).unwrap();
        let rows = table.lines().take_while(|line| line.starts_with('|')).skip(1);
        let keys = rows.flat_map(|row| row.split('|').nth(1).unwrap().split(','));
        keys.map(|key| key.trim().trim_matches('`').to_string()).collect()
    };
    let keys =
        |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    assert_eq!(keys(&state), documented("key"));
    assert_eq!(keys(&state["definition"]), documented("key of `definition`"));
    let point = &state["points"][3];
    assert_eq!(keys(point), documented("key of a point"));
    assert_eq!(keys(&point["results"][0]), documented("key of a result"));
    assert_eq!(point["folder"], "points/0004-seed-2-repeat-2");
    assert_eq!(point["results"][0]["accuracy"], 519.0 / 540.0);
    assert!(schema("sweep").is_valid(&state));
    // 64 x 48 and 48 x 10 weights, a multiplication and an addition each.
    assert_eq!(point["operations"], 7_104.0);
}

#[test]
fn repeats_in_virtual_time_have_other_random_numbers() {
    let folder = Folder::new();
    folder
        .dyno(
            "sweep --system model:exponential=1ms --scenario server --mode performance \
             --duration 5s --over qps=500 --repeat 3 --set server_target_latency_ns=1s --out out",
        )
        .exits(0);
    let state = state(&folder);
    let p99 = |point: &Value| point["results"][0]["p99_ns"].as_u64().unwrap();
    let all: BTreeSet<u64> = state["points"].as_array().unwrap().iter().map(p99).collect();
    assert_eq!(all.len(), 3, "{state}");
}

const FILE: &str = r#"
version = 1

[run]
system = "model:exponential=1ms"
scenario = "Server"
mode = "performance"
duration = "3s"

[sweep]
order = "random"
order_seed = 3

[sweep.over]
"settings.server_target_qps" = "400..500:50"
batch = [1, 2]

[[sweep.exclude]]
batch = 2
"settings.server_target_qps" = [400, 450]

[[sweep.points]]
batch = 2
name = "pairs"
operations = 5e6
"#;

#[test]
fn a_file_says_what_varies_and_flags_come_before_it() {
    let folder = Folder::new();
    folder.write("sweep.toml", FILE);
    let plan = |more: &str| {
        folder.dyno(&format!("sweep --config sweep.toml --dry-run {more}")).exits(0).stdout
    };
    let said = plan("");
    for text in ["sweep of 4: settings.server_target_qps (3) x batch (2), some excluded", "pairs"] {
        assert!(said.contains(text), "{text}: {said}");
    }
    assert!(plan("--repeat 3 --order given").contains("sweep of 12"), "{said}");
    assert!(!folder.0.join("runs").exists(), "nothing ran");

    let ran = folder.dyno("sweep --config sweep.toml --out out").exits(0);
    let state = state(&folder);
    let points = state["points"].as_array().unwrap();
    assert_eq!(points[3]["name"], "pairs");
    assert_eq!(points[3]["operations"], 5e6);
    assert_eq!(state["definition"]["files"][0]["path"], "sweep.toml");
    // The seed decides which order it is, and this one is not that of the file.
    let said = ran.stderr.lines().filter(|line| line.starts_with("point "));
    let names: Vec<&str> = said.filter_map(|line| line.split("  ").nth(1)).collect();
    let given: Vec<&str> = points.iter().map(|point| point["name"].as_str().unwrap()).collect();
    assert_ne!(names, given);
    // `dyno run` with such a file reports what it leaves out.
    let run = folder.dyno("run --config sweep.toml --dry-run").exits(0);
    assert!(run.stderr.contains("[sweep] has no effect in dyno run"), "{}", run.stderr);
}

#[test]
fn files_of_one_name_in_two_folders_are_told_apart() {
    let folder = Folder::new();
    let over = ["--over", "system=tract:a/m.onnx,tract:b/m.onnx,tract:c/n.onnx"];
    let ran = dyno(&folder, "sweep --dry-run", &over).exits(0);
    for name in ["tract:a/m.onnx", "tract:b/m.onnx", "tract-n "] {
        assert!(ran.stdout.contains(name), "{name}: {}", ran.stdout);
    }
}

#[test]
fn a_name_of_several_points_says_what_differs_and_a_long_one_is_cut_in_its_folder() {
    let folder = Folder::new();
    let long = "n".repeat(300);
    let file = format!("version = 1\n[[sweep.points]]\nbatch = 2\nname = \"{long}\"\n");
    folder.write("sweep.toml", &file);
    folder
        .dyno(
            "sweep --config sweep.toml --system model:fixed=1ms --scenario single-stream \
             --mode performance --duration 10ms --set min_query_count=64 --over batch=1,2 \
             --over seed=1,2 --out out",
        )
        .exits(0);
    assert_eq!(states(&folder), ["done"; 4]);
    let state = state(&folder);
    let points = state["points"].as_array().unwrap();
    assert_eq!(points[2]["name"], format!("{long}-seed-1"));
    assert_eq!(points[3]["name"], format!("{long}-seed-2"));
    assert_eq!(points[3]["folder"], format!("points/0004-{}", &long[..60]));
}

#[test]
fn a_scenario_that_varies_has_a_column_of_its_own() {
    let folder = Folder::new();
    let ran = folder
        .dyno(
            "sweep --system null --mode performance --duration 10ms --set min_query_count=64 \
             --over scenario=single-stream,multi-stream --out out --max-time 0s --json",
        )
        .exits(1);
    assert_eq!(ran.json()["points"].as_array().unwrap().len(), 2);
    let csv = folder.read("out/sweep.csv");
    let head: Vec<&str> = csv.split("\r\n").next().unwrap().split(',').collect();
    let distinct: std::collections::BTreeSet<&&str> = head.iter().collect();
    assert_eq!(distinct.len(), head.len(), "{head:?}");
}

#[track_caller]
fn check_refused(arguments: &str, expected: &[&str]) {
    let folder = Folder::new();
    let ran = folder.dyno(&format!("sweep {arguments}")).exits(2);
    for text in expected {
        assert!(ran.stderr.contains(text), "expected {text:?} in:\n{}", ran.stderr);
    }
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0, "nothing ran");
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_runs() {
    check_refused("--system null", &["nothing varies", "hint: select what varies with --over"]);
    check_refused("--over batsh=1,2", &["flag --over", "the nearest key is `batch`"]);
    check_refused("--over batch=1..8", &["expected a range such as"]);
    check_refused("--over batch=0,1", &["expected a number of at least 1, found `0`"]);
    check_refused("--batch 4 --over batch=1,2", &["`batch` varies, and --batch 4 fixes it"]);
    check_refused("--over batch=1,2 --over batch=4", &["`batch` varies twice"]);
    check_refused("--over batch=1,2 --over seed=1 --zip", &["must have the same length"]);
    check_refused("--over batch=1..1000:1 --over seed=1..100:1", &["exceed 10000 points"]);
    check_refused("--over system=digits,nul", &["unknown system `nul`; the nearest is `null`"]);
    check_refused("--over system=model:fixed=1ms,servers=2", &["by semicolons"]);
    check_refused("--over system=null --operations digits=5", &["no axis has the value `digits`"]);
    check_refused("--repeat 0 --over seed=1", &["--repeat"]);
    check_refused(
        "--system null --scenario server --qps 5 --over settings.server_target_qps=1,2",
        &["server_target_qps is 1 here and 5 by flag --qps; keep one"],
    );
    check_refused(
        "--over mode=peak,performance --over scenario=offline,server --system null",
        &["only Server has a rate", "in point 1 (mode-peak-offline)", "[[sweep.exclude]]"],
    );
    check_refused(
        "--over qps=100,200 --over scenario=server,offline --system null --mode performance",
        &["points 2 (qps-100-offline) and 4 (qps-200-offline) are the same run", "`qps` has no"],
    );
    check_refused(
        "--over settings.server_target_qps=100,200 --over settings.server_arrivals=poisson,concurrency:3 \
         --scenario server --system null --mode performance",
        &["are the same run: `settings.server_target_qps` has no effect"],
    );
    check_refused("--retry-failed --over seed=1", &["--resume"]);
    check_refused("--limit 0 --over seed=1", &["--limit"]);
}

#[test]
fn a_hostile_file_is_answered_line_by_line() {
    let folder = Folder::new();
    folder.write(
        "sweep.toml",
        "version = 1\n[sweep]\norder = \"radnom\"\nparallel = 3\n[sweep.over]\nbatch = []\n\
         workers = [1, 1]\nqps = {a = 1}\nout = [\"a\"]\n[[sweep.exclude]]\nbatch = 1\n",
    );
    let ran = folder.dyno("sweep --config sweep.toml").exits(2);
    for text in [
        "sweep.toml:3: `order`: expected given or random, found `radnom`",
        "sweep.toml:4: unknown key `parallel` in [sweep]",
        "sweep.toml:6: `batch` has no values",
        "sweep.toml:7: `workers` has the value `1` twice",
        "sweep.toml:8: `qps` must have plain values",
        "sweep.toml:9: `out` names the sweep as a whole and cannot vary",
    ] {
        assert!(ran.stderr.contains(text), "expected {text:?} in:\n{}", ran.stderr);
    }
}

/// Two systems: the first one lacks its file.
const ONE_FAILS: &str = "sweep --scenario single-stream --mode performance --duration 10ms \
                         --set min_query_count=64 --out out";
const SYSTEMS: [&str; 2] = ["--over", "system=tract:missing.onnx;model:fixed=1ms,servers=2"];

#[test]
fn a_point_that_fails_does_not_end_the_sweep_and_can_be_tried_again() {
    let folder = Folder::new();
    let ran = dyno(&folder, ONE_FAILS, &SYSTEMS).exits(1);
    assert!(ran.stderr.contains("--retry-failed"), "{}", ran.stderr);
    assert_eq!(states(&folder), ["failed", "done"]);
    let first = &state(&folder)["points"][0];
    assert_eq!(first["exit_code"], 3);
    let message = first["message"].as_str().unwrap();
    assert!(message.contains("model missing.onnx does not exist"), "{message}");
    assert_eq!(state(&folder)["state"], "complete");

    let again = |more: &str| folder.dyno(&format!("sweep --resume out {more}")).exits(1).stderr;
    assert!(!again("").contains("point 1/"), "nothing is left to do");
    let said = again("--retry-failed");
    assert!(said.contains("\n1 point to run, "), "{said}");
    assert!(said.contains("point 1/1  tract-missing  failed"), "{said}");
}

/// Reads the messages of a sweep until a line contains this.
#[track_caller]
fn wait_for(child: &mut Child, text: &str) -> BufReader<ChildStderr> {
    let mut reader = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    loop {
        let from = said.len();
        assert_ne!(reader.read_line(&mut said).unwrap(), 0, "no {text} in:\n{said}");
        if said[from..].contains(text) {
            return reader;
        }
    }
}

fn start(folder: &Folder, arguments: &str) -> Child {
    let mut command = folder.command(arguments);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

const MANY: &str = "sweep --system model:fixed=1ms --scenario single-stream --mode performance \
                    --duration 10ms --set min_query_count=64 --over seed=1..4:1 --out out";

#[test]
fn a_sweep_that_was_killed_goes_on_where_it_was() {
    let folder = Folder::new();
    let mut child = start(&folder, &format!("{MANY} --pause 1h"));
    let _open = wait_for(&mut child, "point 1/4");
    // Lines read after that one were written before the pause.
    while states(&folder)[0] == "pending" {}
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(state(&folder)["state"], "running", "nobody could write another");
    let first = state(&folder)["points"][0].clone();

    let ran = folder.dyno("sweep --resume out").exits(0);
    assert!(ran.stderr.contains("point 3/3"), "{}", ran.stderr);
    assert_eq!(states(&folder), ["done"; 4]);
    assert_eq!(state(&folder)["points"][0], first, "what was measured stays");
    assert_eq!(state(&folder)["state"], "complete");
}

#[test]
fn limits_end_a_sweep_between_points() {
    let folder = Folder::new();
    folder.dyno(&format!("{MANY} --limit 3")).exits(1);
    assert_eq!(states(&folder), ["done", "done", "done", "pending"]);
    let ran = folder.dyno("sweep --resume out --max-time 0s").exits(1);
    assert!(ran.stderr.contains("continue with: dyno sweep --resume out"), "{}", ran.stderr);
    // A run that ended before that could be recorded is not run again.
    let done = folder.0.join("out/points/0003-seed-3");
    std::fs::rename(done, folder.0.join("out/points/0004-seed-4")).unwrap();
    folder.dyno("sweep --resume out").exits(0);
    assert_eq!(state(&folder)["points"][3]["took_ns"], Value::Null);
}

#[test]
fn another_sweep_is_not_resumed() {
    let folder = Folder::new();
    folder.write("user.conf", "*.*.min_query_count = 64\n");
    let many = MANY.replace("--set min_query_count=64", "--conf user.conf");
    folder.dyno(&format!("{many} --limit 1")).exits(1);
    let refused = |arguments: &str, expected: &str| {
        let ran = folder.dyno(arguments).exits(2);
        assert!(ran.stderr.contains(expected), "expected {expected:?} in:\n{}", ran.stderr);
    };
    let same = many.replace("--out out", "--resume out");
    folder.dyno(&format!("{same} --limit 1")).exits(1);
    refused(&same.replace("1..4:1", "1..5:1"), "axis `seed` was 1,2,3,4, but is 1,2,3,4,5");
    refused(&format!("{same} --over batch=1,2"), "axis `batch` was fixed, but is 1,2");
    refused(&format!("{same} --repeat 2"), "the number of repeats was 1, but is 2");
    refused(&same.replace("10ms", "20ms"), "the common argument list was");
    folder.write("user.conf", "*.*.min_query_count = 65\n");
    refused("sweep --resume out", "user.conf has changed since");
    folder.write("user.conf", "*.*.min_query_count = 64\n");
    let mut command = folder.command("sweep --resume out");
    command.env("DYNO_SETTINGS_MIN_QUERY_COUNT", "7");
    let ran = ProgramResult::from(command.output().unwrap()).exits(2);
    assert!(ran.stderr.contains("DYNO_SETTINGS_MIN_QUERY_COUNT was not set"), "{}", ran.stderr);
    folder.dyno("sweep --resume out").exits(0);

    // Existing files would be removed.
    let elsewhere = folder.read("out/sweep.json").replace("points/0002-seed-2", "../precious");
    std::fs::create_dir(folder.0.join("precious")).unwrap();
    folder.write("out/sweep.json", &elsewhere);
    let ran = folder.dyno("sweep --resume out").exits(3);
    assert!(ran.stderr.contains("`../precious`, which is not below points"), "{}", ran.stderr);
    assert!(folder.0.join("precious").exists());
    let ran = folder.dyno("sweep --resume nowhere").exits(3);
    assert!(ran.stderr.contains("nowhere/sweep.json is missing"), "{}", ran.stderr);
    folder.write("out/sweep.json", "{\"schema\": \"dyno.sweep\", \"schema_version\": 1}");
    let ran = folder.dyno("sweep --resume out").exits(3);
    assert!(ran.stderr.contains("missing field"), "{}", ran.stderr);
}

#[test]
fn a_sweep_goes_on_from_any_folder_with_what_its_file_says() {
    let folder = Folder::new();
    folder.write("sweep.toml", &format!("{FILE}\n"));
    folder.dyno("sweep --config sweep.toml --limit 2 --out out").exits(1);
    // Not the plan of this sweep.
    folder.write("else/sweep.toml", "version = 1\n[sweep.over]\nbatch = [64]\n");
    // Only a comment differs, and the limit of this part.
    let limited = FILE.replace("order_seed = 3", "order_seed = 3  # any\nlimit = 1");
    folder.write("sweep.toml", &limited);
    let resume = |more: &str| {
        let mut command = folder.command(&format!("sweep --resume ../out {more}"));
        ProgramResult::from(command.current_dir(folder.0.join("else")).output().unwrap())
    };
    let done = || states(&folder).iter().filter(|state| *state == "done").count();
    resume("").exits(1);
    assert_eq!(done(), 3, "the limit of the file holds");
    let said = resume("--limit 5").exits(0).stderr;
    assert!(said.contains("point 1/1"), "{said}");
    assert_eq!(done(), 4);
    folder.write("sweep.toml", &FILE.replace("duration = \"3s\"", "duration = \"4s\""));
    assert!(resume("").exits(2).stderr.contains("sweep.toml has changed since"));
}

#[test]
fn a_part_of_a_definition_is_not_passed_over() {
    let folder = Folder::new();
    folder.dyno(&format!("{MANY} --limit 1")).exits(1);
    for part in ["--repeat 5", "--order random", "--order-seed 1", "--zip", "--operations 1=5"] {
        let ran = folder.dyno(&format!("sweep --resume out {part}")).exits(2);
        assert!(
            ran.stderr.contains("belongs to the definition of the sweep"),
            "{part}: {}",
            ran.stderr
        );
    }
    let ran = folder.dyno("sweep --resume out --qps 200").exits(2);
    assert!(ran.stderr.contains("--resume takes no flags of runs"), "{}", ran.stderr);
    let same = MANY.replace("--out out", "--resume out");
    let ran = folder.dyno(&format!("{same} --operations 1=5")).exits(2);
    assert!(ran.stderr.contains("operations of seed-1 was unknown, but is 5"), "{}", ran.stderr);
    // A file may have axes, and none of them this value.
    folder.write("sweep.toml", FILE);
    let ran = folder.dyno("sweep --config sweep.toml --operations nothere=5").exits(2);
    assert!(ran.stderr.contains("no axis has the value `nothere`"), "{}", ran.stderr);
}

#[test]
fn a_pause_ends_with_the_time() {
    let folder = Folder::new();
    // The pause alone would last for an hour.
    folder.dyno(&format!("{MANY} --pause 1h --max-time 2s")).exits(1);
    assert_eq!(states(&folder)[3], "pending");
    let plan = folder.dyno("sweep --resume out --dry-run --json").exits(0).json();
    assert_eq!(plan["points"].as_array().unwrap().len(), 4);
}

/// Points in real time that last for minutes.
const LONG: &str = "sweep --system null --scenario server --mode performance --qps 100 \
                    --duration 100s --over seed=1,2 --out out";

/// Waits for the process of a point: its folder is there. Bounded by the test's own limit.
fn wait_for_folder(path: &Path) {
    // A wait: no message is ever sent.
    let (_sender, never) = std::sync::mpsc::channel::<()>();
    while !path.exists() {
        let _ = never.recv_timeout(std::time::Duration::from_millis(20));
    }
}

fn signal(name: &str, process: &str) {
    let killed = Command::new("kill").args([name, process]).status().unwrap();
    assert!(killed.success());
}

#[test]
fn ctrl_c_ends_the_point_and_keeps_the_state() {
    let folder = Folder::new();
    let mut child = start(&folder, LONG);
    let _open = wait_for(&mut child, "points to run");
    wait_for_folder(&folder.0.join("out/points/.0001-seed-1.partial"));
    // Another sweep must not join.
    let ran = folder.dyno("sweep --resume out").exits(3);
    assert!(ran.stderr.contains("a sweep is running in out"), "{}", ran.stderr);
    signal("-INT", &child.id().to_string());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(states(&folder), ["pending", "pending"]);
    assert_eq!(state(&folder)["state"], "interrupted");
    assert!(folder.0.join("out/sweep.csv").exists());
}

#[test]
fn a_sweep_that_is_killed_leaves_no_process_behind() {
    let folder = Folder::new();
    let mut child = start(&folder, LONG);
    let _open = wait_for(&mut child, "points to run");
    wait_for_folder(&folder.0.join("out/points/.0001-seed-1.partial"));
    child.kill().unwrap();
    child.wait().unwrap();
    // The run notices, ends as after Ctrl-C, and writes what it has.
    wait_for_folder(&folder.0.join("out/points/0001-seed-1/summary.json"));
    let run: Value =
        serde_json::from_str(&folder.read("out/points/0001-seed-1/summary.json")).unwrap();
    assert_eq!(run["state"], "interrupted");
}

#[test]
fn a_system_that_crashes_is_noted_and_the_next_point_runs() {
    let folder = Folder::new();
    let long = LONG.replace("--system null", "").replace("--over seed=1,2", "");
    let mut command = folder.command(&long);
    command.args(["--over", "system=null;model:fixed=1ms,servers=1"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut open = wait_for(&mut child, "points to run");
    wait_for_folder(&folder.0.join("out/points/.0001-null.partial"));
    let id = child.id();
    let Ok(children) = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")) else {
        eprintln!("skipped: this system does not tell the children of a process");
        signal("-INT", &id.to_string());
        child.wait().unwrap();
        return;
    };
    // As the kernel does when memory is short.
    signal("-KILL", children.trim());
    std::io::copy(&mut open, &mut std::io::sink()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert_eq!(states(&folder), ["failed", "done"]);
    let message = state(&folder)["points"][0]["message"].to_string();
    assert!(message.contains("the process ended without results (signal: 9"), "{message}");
}

#[test]
fn a_switch_that_a_point_turns_off_is_off() {
    let folder = Folder::new();
    folder.write("dyno.toml", "version = 1\n[run]\ntrace_log = true\n");
    folder
        .dyno(
            "sweep --config dyno.toml --system model:fixed=1ms --scenario offline --mode performance \
             --duration 100ms --over trace_log=true,false --out out",
        )
        .exits(0);
    let sweep: Value = serde_json::from_str(&folder.read("out/sweep.json")).unwrap();
    let length = |at: usize| {
        let point = sweep["points"][at]["folder"].as_str().unwrap();
        let trace = format!("out/{point}/Offline/performance/mlperf_log_trace.json");
        folder.read(&trace).len()
    };
    assert!(length(0) > 1_000 && length(1) == 0, "{} and {}", length(0), length(1));
}

#[test]
fn a_folder_of_a_sweep_that_was_killed_before_its_first_result_is_free() {
    let folder = Folder::new();
    let sweep = "sweep --system model:fixed=1ms --scenario server --mode performance --qps 100 \
                 --duration 1s --over seed=1,2 --quiet --out out";
    std::fs::create_dir_all(folder.0.join("out/points")).unwrap();
    folder.write("out/.lock", "");
    let ran = folder.dyno(sweep);
    assert!(folder.0.join("out/sweep.json").is_file(), "{}", ran.stderr);
    std::fs::remove_file(folder.0.join("out/sweep.json")).unwrap();
    let refused = folder.dyno(sweep).exits(3);
    assert!(refused.stderr.contains("is not empty"), "{}", refused.stderr);
    assert!(refused.stderr.contains("--resume"), "{}", refused.stderr);
}

/// M/M/1 with 500/s: throughput divided by the median of the response time, ln 2 / (500 - rate), is highest
/// at half the capacity.
#[test]
fn the_knee_does_not_depend_on_requirements() {
    let folder = Folder::new();
    let sweep = "sweep --system model:exponential=2ms --over qps=50,150,250,350,450 --scenario server \
                 --mode performance --duration 60s";
    let free = folder.dyno(&format!("{sweep} --out free")).stdout;
    assert!(free.contains("Knee: requests/s 250,"), "{free}");
    let bounded =
        folder.dyno(&format!("{sweep} --require p99<=20ms --out bounded")).exits(1).stdout;
    assert!(bounded.contains("Knee: requests/s 250,"), "{bounded}");
    assert!(bounded.contains("count for the knee"), "{bounded}");
}
