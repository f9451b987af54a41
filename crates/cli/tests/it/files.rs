//! Files that a run writes.

use serde_json::Value;

use crate::program::Folder;

const FILES: [&str; 5] = [
    "records.bin",
    "mlperf_log_accuracy.json",
    "mlperf_log_detail.txt",
    "mlperf_log_summary.txt",
    "mlperf_log_trace.json",
];

/// A very short run. Whether it is valid depends on the machine.
const SHORT: &str = "run --out out --duration 200ms --set min_query_count=70";

/// A run of all scenarios: the percentile of MultiStream needs more queries.
const ALL: &str = "--settings.MultiStream.min_query_count 662";

#[test]
fn a_short_run_writes_every_file() {
    let folder = Folder::new();
    let ran =
        folder.dyno(&format!("{SHORT} {ALL} --qps 400 --trace-log --mode both")).exits_either();
    assert!(ran.stdout.contains("not an official MLPerf result"), "{}", ran.stdout);
    assert!(ran.stdout.contains("top-1 96.11 % (519 of 540)"), "{}", ran.stdout);
    // Each reason why a test does not count adds its lines.
    let of = |verdict| ran.stdout.matches(verdict).count();
    let reasons = of("INVALID:") + of("UNDECIDED:");
    // So does what a busy machine did before the run, to a test of performance, and to the probe.
    let notes = of("This machine was busy") + 2 * (of("performance: ") + of("The probe "));
    assert!(
        ran.stdout.lines().count() <= 26 + 8 * reasons + notes,
        "fits a screen:\n{}",
        ran.stdout
    );
    assert!(ran.stdout.lines().all(|l| l.chars().count() <= 80), "fits a screen:\n{}", ran.stdout);
    for scenario in ["SingleStream", "MultiStream", "Server", "Offline"] {
        for mode in ["accuracy", "performance"] {
            for log in FILES.iter().skip(usize::from(mode == "accuracy")) {
                let path = folder.0.join("out").join(scenario).join(mode).join(log);
                assert!(path.is_file(), "{}", path.display());
            }
        }
        let text = folder.read(&format!("out/{scenario}/performance/mlperf_log_summary.txt"));
        assert!(text.contains("Result is : "), "{scenario}:\n{text}");
        let trace = folder.read(&format!("out/{scenario}/performance/mlperf_log_trace.json"));
        assert!(trace.contains("traceEvents"), "{scenario}: trace");
    }
    let report = folder.read("out/report.html");
    assert!(report.contains("<svg") && report.contains("light-dark("), "report");
    assert!(!report.contains("http://") && !report.contains("https://"), "self-contained");
    assert!(!report.contains("NaN"), "charts have numbers");
    let hidden = |name: &str| name.starts_with('.');
    let mut left = std::fs::read_dir(&folder.0).unwrap();
    assert!(!left.any(|entry| hidden(&entry.unwrap().file_name().to_string_lossy())), "no partial");

    // The effective configuration reads back, to the same plan.
    let plan = |arguments: &str| folder.dyno(&format!("run --dry-run {arguments}")).exits(0).stdout;
    let again = plan("--config out/effective.toml");
    assert!(again.contains("server_target_qps = 400 queries/s  (out/effective.toml:"), "{again}");
    assert!(again.contains("8 tests, at least 800 ms in total"), "{again}");
}

/// Keys of an object that `docs/reference/summary-json.md` documents under a heading.
fn documented(heading: &str) -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/summary-json.md");
    let text = std::fs::read_to_string(path).unwrap();
    let section = text.split(&format!("\n## {heading}\n")).nth(1);
    let section = section.unwrap_or_else(|| panic!("no section {heading}"));
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split_once('`')).map(|(key, _)| key.to_string()).collect()
}

#[track_caller]
fn has_documented_keys(value: &Value, heading: &str) {
    let object = value.as_object().unwrap_or_else(|| panic!("{heading}: {value}"));
    let keys: Vec<String> = object.keys().cloned().collect();
    assert_eq!(keys, documented(heading), "{heading}");
}

#[test]
fn summary_json_is_as_documented() {
    let folder = Folder::new();
    let ran = folder.dyno(&format!("{SHORT} --json --scenario server --qps 500")).exits_either();
    let mut printed = ran.json();
    let mut summary: Value = serde_json::from_str(&folder.read("out/summary.json")).unwrap();
    assert_eq!(printed.as_object_mut().unwrap().remove("run_directory").unwrap(), "out");
    assert_eq!(printed, summary, "stdout and file agree");

    assert_eq!(summary["schema"], "dyno.summary");
    assert_eq!(summary["official"], false);
    let observer = summary.as_object_mut().unwrap().shift_remove("observers").unwrap();
    has_documented_keys(&observer[0], "An observer");
    has_documented_keys(&summary, "The run");
    has_documented_keys(&summary["environment"], "Environment");
    let [accuracy, performance] = &summary["tests"].as_array().unwrap()[..] else {
        panic!("{}", summary["tests"]);
    };
    has_documented_keys(accuracy, "A test");
    has_documented_keys(performance, "A test");
    has_documented_keys(&accuracy["accuracy"], "Accuracy");
    assert_eq!(accuracy["accuracy"]["scored"], 540);
    has_documented_keys(&performance["metrics"], "Metrics");
    has_documented_keys(&performance["metrics"]["latency_ns"], "A distribution");
    let rates = performance["metrics"]["rates"].as_object().unwrap();
    assert_eq!(rates.len(), 3, "{rates:?}");
    let documented = documented("Rates");
    assert!(rates.keys().all(|key| documented.contains(key)), "{rates:?}");
    assert_eq!(performance["result"]["unit"], "queries/s");
    has_documented_keys(&performance["result"], "The result");
    has_documented_keys(&performance["plan"], "The plan");
    has_documented_keys(&performance["metrics"]["early_stopping"][0], "Early stopping");
    let qps = &performance["settings"]["server_target_qps"];
    assert_eq!(qps["value"], "500");
    assert_eq!(qps["origin"], "flag --qps");
}

impl crate::program::ProgramResult {
    /// Asserts that the run ended normally. Whether its figures are valid depends on the load of the
    /// machine.
    #[track_caller]
    fn exits_either(self) -> Self {
        let Self { code, stdout, stderr } = &self;
        assert!(matches!(code, Some(0 | 1)), "{code:?}\n{stdout}\n{stderr}");
        self
    }
}

#[test]
fn invalid_results_and_missed_targets_exit_with_1() {
    let folder = Folder::new();
    let model = "run --system model:fixed=2ms --scenario server --qps 100 --mode performance";
    let ran = folder.dyno(&format!("{model} --set server_target_latency_ns=1ms --out a")).exits(1);
    assert!(ran.stdout.contains("Server performance INVALID:"), "{}", ran.stdout);
    folder.dyno(&format!("{model} --set server_target_latency_ns=9ms --out b")).exits(0);
    let ran = folder
        .dyno("run --mode accuracy --scenario offline --accuracy-target 0.99 --out c")
        .exits(1);
    assert!(ran.stdout.contains("below the target of 99.00 %"), "{}", ran.stdout);
}

#[test]
fn a_search_for_the_peak_finds_the_capacity_of_a_queue() {
    let folder = Folder::new();
    // One server, 1 ms a query: no more than 1,000 queries/s get through.
    folder
        .dyno(
            "run --mode peak --system model:fixed=1ms --qps 100 --duration 20s --json --out out \
             --set server_target_latency_ns=50ms --set server_find_peak_qps_decimals_of_precision=0",
        )
        .exits(0);
    let summary: Value = serde_json::from_str(&folder.read("out/summary.json")).unwrap();
    let peak = summary["tests"][0]["result"]["value"].as_f64().unwrap();
    assert!((900.0..1_000.0).contains(&peak), "{peak}");
}

#[test]
fn a_system_that_never_answers_is_given_up() {
    let folder = Folder::new();
    let ran = folder
        .dyno(
            "run --system model:fixed=1ms,unanswered=1 --scenario single-stream --out out \
             --mode performance --deadline 3s",
        )
        .exits(4);
    assert!(ran.stdout.contains("1 sample was outstanding after 3.00 s"), "{}", ran.stdout);
    let summary: Value = serde_json::from_str(&folder.read("out/summary.json")).unwrap();
    assert_eq!(summary["state"], "aborted");
    assert_eq!(summary["tests"][0]["metrics"]["missing"], 1);
}

#[test]
fn a_folder_that_cannot_be_written_is_told_before_the_run() {
    let folder = Folder::new();
    folder.write("file", "");
    let ran = folder.dyno("run --out file/out").exits(3);
    assert!(ran.stderr.contains("cannot write to file/out"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: choose a"), "{}", ran.stderr);

    std::fs::create_dir(folder.0.join("full")).unwrap();
    folder.write("full/precious", "");
    let ran = folder.dyno("run --out full").exits(3);
    assert!(ran.stderr.contains("full exists and is not empty"), "{}", ran.stderr);
    assert!(folder.0.join("full/precious").exists(), "nothing is lost");
}

#[test]
fn an_audit_overrides_all_and_is_told_in_the_log() {
    let folder = Folder::new();
    // As TEST01 is given out: a performance run that logs some responses.
    folder.write(
        "audit.config",
        "*.*.mode = 2\n*.*.accuracy_log_rng_seed = 720381539243781796\n\
         *.*.accuracy_log_sampling_target = 128\n*.*.min_query_count = 1000\n",
    );
    folder
        .dyno(
            "run --system model:fixed=1ms --scenario single-stream --duration 100ms --out out \
             --audit audit.config --set min_query_count=64",
        )
        .exits(0);
    let summary: Value = serde_json::from_str(&folder.read("out/summary.json")).unwrap();
    let tests = summary["tests"].as_array().unwrap();
    assert_eq!(tests.len(), 1, "the audit forces one mode");
    assert_eq!(tests[0]["mode"], "performance");
    assert_eq!(tests[0]["settings"]["min_query_count"]["value"], "1000");
    assert_eq!(tests[0]["settings"]["min_query_count"]["origin"], "audit.config:4");
    let detail = folder.read("out/SingleStream/performance/mlperf_log_detail.txt");
    assert!(detail.contains("audit.config:4: min_query_count 64 -> 1000"), "told in the log");
    let logged = folder.read("out/SingleStream/performance/mlperf_log_accuracy.json");
    assert!(logged.matches("qsl_idx").count() > 50, "some responses are logged");
}

const MODEL: &str = "run --system model:fixed=1ms --scenario single-stream --mode performance \
                     --duration 100ms --set min_query_count=64";

#[test]
fn runs_that_begin_at_once_have_a_folder_each() {
    const RUNS: usize = 6;
    let folder = Folder::new();
    let run = || folder.command(&format!("{MODEL} --name k --quiet")).spawn().unwrap();
    let children: Vec<_> = (0..RUNS).map(|_| run()).collect();
    for mut child in children {
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
    let left = std::fs::read_dir(folder.0.join("runs")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left.len(), RUNS, "{left:?}");
    assert!(left.iter().all(|path| path.join("summary.json").is_file()), "{left:?}");
}

#[cfg(unix)]
#[test]
fn a_folder_that_is_there_is_filled_and_stays_the_same() {
    use std::os::unix::fs::{MetadataExt, symlink};

    let folder = Folder::new();
    let inode = |name: &str| std::fs::metadata(folder.0.join(name)).unwrap().ino();
    for name in ["plain", "linked", "here"] {
        std::fs::create_dir(folder.0.join(name)).unwrap();
    }
    symlink("linked", folder.0.join("link")).unwrap();
    for name in ["plain", "link"] {
        let before = inode(name);
        let ran = folder.dyno(&format!("{MODEL} --out {name}")).exits(0);
        assert!(!ran.stderr.contains("warning"), "{}", ran.stderr);
        assert_eq!(inode(name), before, "a mount point would stay one");
        assert!(folder.0.join(name).join("summary.json").is_file());
    }
    assert!(folder.0.join("link").is_symlink(), "a link stays one");

    let mut command = folder.command(&format!("{MODEL} --out . --quiet"));
    let status = command.current_dir(folder.0.join("here")).status().unwrap();
    assert_eq!(status.code(), Some(0));
    let files: Vec<_> = std::fs::read_dir(folder.0.join("here")).unwrap().collect();
    assert_eq!(files.len(), 5, "the run and nothing hidden: {files:?}");

    symlink("nowhere", folder.0.join("dangling")).unwrap();
    let ran = folder.dyno(&format!("{MODEL} --out dangling")).exits(3);
    assert!(ran.stderr.contains("dangling is a broken link"), "{}", ran.stderr);
}

#[test]
fn of_a_system_that_only_fails_no_latency_is_told() {
    let folder = Folder::new();
    let failing = "--system model:fixed=1ms,failed=1 --duration 100ms --mode performance \
                   --scenario single-stream,multi-stream,server --qps 100";
    let ran = folder.dyno(&format!("run {failing} --out out")).exits(1);
    let mut rows = ran.stdout.lines().filter(|line| line.ends_with("INVALID   │"));
    assert!(rows.all(|row| row.contains("   -   ") && !row.contains("0 ns")), "{}", ran.stdout);
    let summary = crate::schema::keeps_to_schemas(&folder, "out");
    for test in [0, 1] {
        assert_eq!(summary["tests"][test]["result"]["value"], Value::Null);
    }
    let page = folder.read("out/report.html");
    assert!(page.contains("No query was answered."), "the page says so");
    assert!(!page.contains("class=\"number\">0<"), "and has no best result");
    let text = folder.dyno("export out --format prometheus").exits(0).stdout;
    assert!(!text.contains("dyno_latency_quantile_seconds{"), "{text}");

    folder.dyno(&format!("sweep --over batch=1,2 {failing} --out sweep")).exits(1);
    let sweep: Value = serde_json::from_str(&folder.read("sweep/sweep.json")).unwrap();
    assert_eq!(sweep["points"][0]["results"][0]["p99_ns"], Value::Null);
}

#[cfg(target_os = "linux")]
#[test]
fn names_that_are_no_text_are_told_and_panic_nowhere() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let folder = Folder::new();
    let odd = folder.0.join(OsStr::from_bytes(b"b\xff"));
    std::fs::create_dir(&odd).unwrap();
    let run = |arguments: &str| -> crate::program::ProgramResult {
        folder.command(arguments).current_dir(&odd).output().unwrap().into()
    };
    run(&format!("{MODEL} --out out")).exits(0);
    run("probe --system model:fixed=1ms").exits(0);
    let ran = run("sweep --over batch=1,2 --system null --out sweep").exits(2);
    assert!(ran.stderr.contains("is not UTF-8"), "{}", ran.stderr);

    std::fs::write(odd.join("dyno.toml"), "version = 1\n").unwrap();
    let mut command = folder.command(&format!("{MODEL} --out out --config"));
    let ran: crate::program::ProgramResult =
        command.arg(odd.join("dyno.toml")).output().unwrap().into();
    ran.exits(0);
    let summary: Value = serde_json::from_str(&folder.read("out/summary.json")).unwrap();
    let command = summary["command"].as_array().unwrap();
    assert!(command.iter().any(|word| word.as_str().unwrap().ends_with("b\u{fffd}/dyno.toml")));
}

#[test]
fn the_effective_configuration_says_all_that_was_said() {
    let folder = Folder::new();
    let mut command = folder.command(&format!("{MODEL} --trace-log --out out --name"));
    let ran: crate::program::ProgramResult =
        command.arg("e\u{301} \"\u{7f}\\").output().unwrap().into();
    ran.exits(0);
    folder.dyno("run --config out/effective.toml --out again").exits(0);
    let name = |out: &str| -> Value {
        let text = folder.read(&format!("{out}/summary.json"));
        serde_json::from_str::<Value>(&text).unwrap()["name"].clone()
    };
    assert_eq!(name("again"), name("out"));
    let trace = folder.read("again/SingleStream/performance/mlperf_log_trace.json");
    assert!(trace.contains("traceEvents"), "{trace}");
}

#[test]
fn numbers_at_their_ends_are_no_panic() {
    let folder = Folder::new();
    let most = u64::MAX;
    let ran = folder.dyno(&format!("run --dry-run --set min_duration_ms={most}"));
    assert!(matches!(ran.code, Some(0 | 2)), "{:?}: {}", ran.code, ran.stderr);
    let ran = folder.dyno(&format!("run --dry-run --set Offline.min_duration_ms={most}"));
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
}

/// Without the check, each command waits for a writer of the pipe.
#[cfg(unix)]
#[test]
fn named_pipes_and_devices_are_rejected_in_place_of_files() {
    let folder = Folder::new();
    let made = std::process::Command::new("mkfifo").arg(folder.0.join("pipe")).status().unwrap();
    assert!(made.success());
    let server = "run --system openai:http://127.0.0.1:9,model=m";
    for command in [
        "run --config FILE".into(),
        "run --system onnx:FILE".into(),
        format!("{server} --data FILE"),
        "compare FILE FILE".into(),
        "export FILE".into(),
        "task score top1 --log FILE --with labels=FILE".into(),
    ] {
        for (file, kind) in [("pipe", "named pipe"), ("/dev/zero", "device")] {
            let ran = folder.dyno(&command.replace("FILE", file));
            assert!(matches!(ran.code, Some(2 | 3)), "{command}: {:?} {}", ran.code, ran.stderr);
            assert!(ran.stderr.contains(kind), "{command} {file}: {}", ran.stderr);
        }
    }
}

/// A process substitution of a shell is such a pipe. Configurations and samples are read several times, of
/// which all but the first would find nothing.
#[cfg(target_os = "linux")]
#[test]
fn pipes_of_the_process_are_rejected_for_files_that_are_read_several_times() {
    use std::io::Write as _;

    let folder = Folder::new();
    for command in [
        "run --config /dev/stdin --dry-run",
        "run --system openai:http://127.0.0.1:9,model=m --data /dev/stdin",
    ] {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"version = 1\n").unwrap();
        drop(writer);
        let output = folder.command(command).stdin(reader).output().unwrap();
        let ran = crate::program::ProgramResult::from(output).exits(2);
        assert!(ran.stderr.contains("`/dev/stdin` is a pipe; expected a file"), "{}", ran.stderr);
    }
}

/// A command replaces the files that it wrote itself, and no results of others.
#[test]
fn results_are_not_replaced_by_files_of_other_commands() {
    let folder = Folder::new();
    let summary = "{\n  \"schema\": \"dyno.summary\"\n}\n";
    folder.write("formats.txt", "a.b FIXED 8\n");
    for (name, content) in [
        ("summary.json", summary),
        ("renamed.txt", summary),
        ("texts.jsonl", "{}\n"),
        ("records.bin", "dyno.records 1\n"),
        ("mlperf_log_accuracy.json", "[\n]\n"),
    ] {
        folder.write(name, content);
        for command in [
            format!("tune emit formats.txt --out {name}"),
            format!("npu sweep BB --rows seq=8 --passes 5 --csv {name}"),
            format!("init --force {name}"),
        ] {
            let ran = folder.dyno(&command).exits(3);
            let problem = format!("cannot write {name}: it holds results, which would be lost");
            assert!(ran.stderr.contains(&problem), "{command}: {}", ran.stderr);
            assert_eq!(folder.read(name), content, "{command}");
        }
    }
    // Tables of a submission, and documents of others with a name of ours.
    for (name, content) in
        [("tables.json", "{\"schema\": \"dyno.results\"}\n"), ("tune.json", "{\"method\": 1}\n")]
    {
        folder.write(name, content);
        folder.dyno(&format!("tune emit formats.txt --out {name}")).exits(0);
        assert!(folder.read(name).contains("namespace tuned"), "{name}");
    }
}
