//! Export of runs in the formats of other tools.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::process::Stdio;

use serde_json::Value;

use crate::program::Folder;
use crate::prometheus::{self, Family};

/// Tests in virtual time, whose numbers are the same everywhere, with tokens and
/// failures.
fn runs() -> Folder {
    run("server,offline", "", 1)
}

/// A run with queries that never come back, which ends it.
fn unanswered() -> Folder {
    run("server", ",unanswered=0.02", 4)
}

fn run(scenarios: &str, system: &str, code: i32) -> Folder {
    let folder = Folder::new();
    let system = format!(
        "model:exponential=2ms,servers=2,tokens=4-9,per-token=100us,failed=0.05,seed=3{system}"
    );
    let mut settings =
        "--set min_query_count=100 --set use_token_latencies=true --deadline 10s".to_string();
    // Flags without effect are errors.
    if scenarios.contains("offline") {
        settings += " --set offline_expected_qps=400";
    }
    let run = format!("run --quiet --system {system} --scenario {scenarios} --mode performance");
    folder.dyno(&format!("{run} --qps 200 --duration 2s {settings} --out out")).exits(code);
    folder
}

const SERVER: &str = "Server/performance";

/// A table by RFC 4180, strictly: each line ends with CR LF and has every cell.
fn csv(text: &str) -> Vec<BTreeMap<String, String>> {
    let mut lines = text.split("\r\n");
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    let mut rows = Vec::new();
    let mut is_over = false;
    for line in lines {
        assert!(!is_over && !line.contains(['\r', '\n', '"']), "{line:?}");
        if line.is_empty() {
            is_over = true;
            continue;
        }
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!(cells.len(), head.len(), "{line}");
        let row = head.iter().zip(cells);
        rows.push(row.map(|(name, cell)| ((*name).into(), cell.into())).collect());
    }
    assert!(is_over, "the last line ends, too");
    rows
}

#[test]
fn csv_and_jsonl_hold_the_same_rows_as_the_summary_counts() {
    for (folder, missing) in [(runs(), false), (unanswered(), true)] {
        check_rows(&folder, missing);
    }
}

fn check_rows(folder: &Folder, has_missing: bool) {
    let table = csv(&folder.dyno("export out").exits(0).stdout);
    let jsonl = folder.dyno("export out --format jsonl").exits(0).stdout;
    let objects: Vec<Value> = jsonl.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(table.len(), objects.len());
    for (row, object) in table.iter().zip(&objects) {
        assert_eq!(row.len(), object.as_object().unwrap().len());
        for (key, value) in object.as_object().unwrap() {
            let text = match value {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                number => number.to_string(),
            };
            assert_eq!(row[key], text, "{key}");
        }
    }

    let summary: Value = serde_json::from_str(&folder.read("out/summary.json")).unwrap();
    for test in summary["tests"].as_array().unwrap() {
        let metrics = &test["metrics"];
        let of = |row: &&BTreeMap<String, String>| row["test"] == test["folder"].as_str().unwrap();
        let rows: Vec<_> = table.iter().filter(of).collect();
        let count = |is: fn(&BTreeMap<String, String>) -> bool| {
            rows.iter().filter(|row| is(row)).count() as u64
        };
        let failed: u64 =
            metrics["failed"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
        assert_eq!(count(|row| row["completed_ns"].is_empty()), metrics["missing"]);
        assert_eq!(count(|row| !row["failure"].is_empty()), failed);
        let answered = count(|row| !row["latency_ns"].is_empty() && row["failure"].is_empty());
        assert_eq!(answered, metrics["sample_count"]);
        assert!(failed > 0, "{metrics}");
        assert_eq!(metrics["missing"].as_u64().unwrap() > 0, has_missing, "{metrics}");
        let largest = rows
            .iter()
            .filter(|row| row["failure"].is_empty())
            .filter_map(|row| row["latency_ns"].parse().ok())
            .max();
        assert_eq!(largest, metrics["latency_ns"]["max"].as_i64());
        for row in rows.iter().filter(|row| !row["latency_ns"].is_empty()) {
            let ns = |key: &str| row[key].parse::<i64>().unwrap();
            assert_eq!(ns("scheduled_ns") + ns("latency_ns"), ns("completed_ns"));
        }
    }
    assert!(table.iter().any(|row| !row["time_to_first_token_ns"].is_empty()));
}

#[test]
fn a_test_is_chosen_by_its_folder() {
    let folder = runs();
    let tests = |arguments: &str| -> BTreeSet<String> {
        let ran = folder.dyno(&format!("export out --test {arguments}")).exits(0);
        csv(&ran.stdout).into_iter().map(|mut row| row.remove("test").unwrap()).collect()
    };
    assert_eq!(tests(SERVER), BTreeSet::from([SERVER.into()]));
    assert_eq!(tests("offline"), BTreeSet::from(["Offline/performance".into()]));
    let ran = folder.dyno("export out --test Serv").exits(2);
    assert!(ran.stderr.contains("out has no test Serv"), "{}", ran.stderr);
    assert!(ran.stderr.contains(SERVER), "says which there are: {}", ran.stderr);
}

#[test]
fn files_are_named_by_their_format_and_never_half_there() {
    let folder = runs();
    folder.dyno("export out --out rows.jsonl").exits(0);
    let first = folder.read("rows.jsonl");
    assert!(first.starts_with("{\"test\":\"Server/performance\",\"row\":0,"), "{first:.80}");
    folder.dyno("export out --out run.prom").exits(0);
    assert!(folder.read("run.prom").starts_with("# HELP dyno_run_info "));
    for name in ["x.json", "rows"] {
        let ran = folder.dyno(&format!("export out --out {name}")).exits(2);
        assert!(ran.stderr.contains("--format"), "{}", ran.stderr);
        folder.dyno(&format!("export out --out {name} --format jsonl")).exits(0);
        assert_eq!(folder.read(name), first);
    }
    let ran = folder.dyno("export out --out nowhere/rows.csv").exits(3);
    assert!(ran.stderr.contains("cannot write nowhere/rows.csv"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: create the folder nowhere\n"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("free some space"), "{}", ran.stderr);
    let left: Vec<_> =
        std::fs::read_dir(&folder.0).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with('.')), "{left:?}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let folder = Folder::new();
    let run = "run --quiet --system model:fixed=1ms,servers=64 --scenario server --qps 20000 \
               --mode performance --duration 2s --out out";
    folder.dyno(run);
    let mut command = folder.command("export out");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut some = [0; 64];
    child.stdout.take().unwrap().read_exact(&mut some).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn thinned_records_are_told() {
    let folder = Folder::new();
    let run = "run --quiet --system model:fixed=1us --scenario offline --mode performance \
               --set min_query_count=300000 --duration 1ms";
    folder.dyno(&format!("{run} --out thin"));
    let ran = folder.dyno("export thin").exits(0);
    let rows = csv(&ran.stdout);
    assert!(ran.stderr.contains("the records keep one random row in 2"), "{}", ran.stderr);
    let numbers = rows.iter().map(|row| row["row"].parse::<u64>().unwrap());
    assert!((0..).zip(numbers).all(|(at, number)| number / 2 == at), "rows keep their numbers");
    folder.dyno(&format!("{run} --records none --out none"));
    let ran = folder.dyno("export none").exits(3);
    assert!(ran.stderr.contains("no test has raw records"), "{}", ran.stderr);
    assert!(ran.stderr.contains("--records none"), "{}", ran.stderr);
    let ran = folder.dyno("export nothing-here").exits(3);
    assert!(ran.stderr.contains("cannot read nothing-here: it is missing"), "{}", ran.stderr);
}

#[test]
fn damaged_or_missing_records_of_one_test_fail_the_export() {
    let folder = runs();
    let file = "out/Server/performance/records.bin";
    folder.write(file, "dyno.records 1\nnonsense");
    for format in ["csv", "jsonl"] {
        for test in ["", " --test server"] {
            let ran = folder.dyno(&format!("export out --format {format}{test}")).exits(3);
            assert!(ran.stderr.contains("records.bin: the header is damaged"), "{}", ran.stderr);
            assert!(ran.stderr.contains("--test"), "{}", ran.stderr);
        }
    }
    folder.dyno("export out --out rows.csv").exits(3);
    assert!(!folder.0.join("rows.csv").exists());
    let others = csv(&folder.dyno("export out --test offline").exits(0).stdout);
    assert!(others.iter().all(|row| row["test"] == "Offline/performance"));
    assert!(!others.is_empty());

    // Damage of all tests is not a matter of options.
    folder.write("out/Offline/performance/records.bin", "");
    let ran = folder.dyno("export out").exits(3);
    assert!(ran.stderr.contains("records.bin"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("no test has raw records"), "{}", ran.stderr);

    let folder = runs();
    std::fs::remove_file(folder.0.join(file)).unwrap();
    let ran = folder.dyno("export out").exits(3);
    assert!(ran.stderr.contains("Server/performance/records.bin is missing"), "{}", ran.stderr);
}

#[cfg(not(feature = "parquet"))]
#[test]
fn without_parquet_the_error_says_how_to_get_it() {
    let ran = Folder::new().dyno("export out --format parquet").exits(2);
    assert!(ran.stderr.contains("--features parquet"), "{}", ran.stderr);
    assert!(ran.stderr.contains("--format csv"), "{}", ran.stderr);
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_has_its_marks_at_both_ends() {
    // Another reader checks the contents: `cargo xtask peers interop`.
    let folder = runs();
    folder.dyno("export out --out rows.parquet").exits(0);
    let bytes = std::fs::read(folder.0.join("rows.parquet")).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
}

fn gauge<'a>(families: &'a BTreeMap<String, Family>, name: &str, label: (&str, &str)) -> &'a f64 {
    let family = &families[name];
    assert_eq!(family.kind, "gauge", "{name}");
    let found = family.samples.iter().find(|s| s.labels.get(label.0).is_some_and(|v| v == label.1));
    &found.unwrap_or_else(|| panic!("{name} of {label:?}")).value
}

#[test]
fn the_prometheus_snapshot_is_strict_and_agrees_with_the_summary() {
    let folder = unanswered();
    let families =
        prometheus::parse(&folder.dyno("export out --format prometheus").exits(0).stdout);
    let summary: Value = serde_json::from_str(&folder.read("out/summary.json")).unwrap();
    let server = &summary["tests"][0];
    let of_server = |name: &str| *gauge(&families, name, ("scenario", "Server"));
    let metrics = &server["metrics"];
    assert_eq!(of_server("dyno_queries_issued"), metrics["query_count"].as_f64().unwrap());
    assert_eq!(of_server("dyno_samples_missing"), metrics["missing"].as_f64().unwrap());
    assert_eq!(of_server("dyno_error_ratio"), metrics["error_rate"].as_f64().unwrap());
    assert_eq!(of_server("dyno_test_valid"), 0.0, "missing samples");
    let about = gauge(&families, "dyno_run_info", ("verdict", "ABORTED"));
    assert_eq!(*about, 1.0);
    let p99 = *gauge(&families, "dyno_latency_quantile_seconds", ("quantile", "0.99"));
    assert_eq!(p99, metrics["latency_ns"]["p99"].as_f64().unwrap() / 1e9);

    let latency = &families["dyno_latency_seconds"];
    assert_eq!(latency.kind, "histogram");
    let is_server = |labels: &BTreeMap<String, String>| labels["scenario"] == "Server";
    let count = latency.samples.iter().find(|s| s.name.ends_with("_count") && is_server(&s.labels));
    assert_eq!(count.unwrap().value, metrics["latency_ns"]["count"].as_f64().unwrap());
    // The bucket in which a bound lies agrees with the raw records.
    let rows = csv(&folder.dyno("export out --test server").exits(0).stdout);
    let answered: Vec<f64> = rows
        .iter()
        .filter(|row| row["failure"].is_empty())
        .filter_map(|row| row["latency_ns"].parse().ok())
        .collect();
    let buckets =
        latency.samples.iter().filter(|s| s.labels.contains_key("le") && is_server(&s.labels));
    for bucket in buckets {
        let le: f64 = bucket.labels["le"].parse().unwrap();
        let within = answered.iter().filter(|ns| **ns <= (le * 1e9).round()).count();
        assert_eq!(within as f64, bucket.value, "le {le}");
    }
    assert!(families.contains_key("dyno_time_to_first_token_seconds"));
}

/// A collector rejects the whole page otherwise.
#[test]
fn requirements_that_look_alike_are_one_sample() {
    let folder = Folder::new();
    let run = "run --system model:exponential=1ms --scenario single-stream --mode performance";
    let alike = "--require p99<=1s --require latency.p99<=1s --require p99<=1000ms";
    let other = "--require p99<=1000.001ms";
    folder.dyno(&format!("{run} --duration 5s {alike} {other} --out out")).exits(0);
    let families =
        prometheus::parse(&folder.dyno("export out --format prometheus").exits(0).stdout);
    assert_eq!(families["dyno_requirement_met"].samples.len(), 2);
}

#[test]
fn names_with_quotes_are_escaped_in_labels() {
    let folder = runs();
    let text = folder.read("out/summary.json");
    let mut summary: Value = serde_json::from_str(&text).unwrap();
    let name = "a \"quoted\" \\ name\nof two lines";
    summary["name"] = name.into();
    folder.write("out/summary.json", &summary.to_string());
    std::fs::remove_file(folder.0.join("out/series.json")).unwrap();
    let ran = folder.dyno("export out --format prometheus").exits(0);
    assert!(
        ran.stderr.contains("series.json is missing; histograms are left out"),
        "{}",
        ran.stderr
    );
    let families = prometheus::parse(&ran.stdout);
    gauge(&families, "dyno_run_valid", ("name", name));
    let xml = folder.dyno("export out --format junit").exits(0).stdout;
    assert!(xml.contains("name=\"a &quot;quoted&quot; \\ name&#10;of two lines\""), "{xml}");
}

#[test]
fn damaged_summaries_are_not_green() {
    let folder = Folder::new();
    let run = "run --quiet --system model:fixed=1ms --scenario single-stream --mode performance \
               --duration 3s --out out";
    folder.dyno(run).exits(0);
    let whole: Value = serde_json::from_str(&folder.read("out/summary.json")).unwrap();
    let exported = |summary: &Value, format: &str| {
        folder.write("out/summary.json", &summary.to_string());
        folder.dyno(&format!("export out --format {format}")).exits(0).stdout
    };
    let is_valid = |summary: &Value| {
        let text = exported(summary, "prometheus");
        let line = text.lines().find(|line| line.starts_with("dyno_run_valid{")).unwrap();
        line.ends_with(" 1")
    };
    assert!(is_valid(&whole));
    assert!(exported(&whole, "junit").contains("failures=\"0\" errors=\"0\""));
    let mut untested = whole.clone();
    untested["tests"] = serde_json::json!([]);
    let mut other = whole.clone();
    other["verdict"] = "INVALID".into();
    let mut unknown = whole.clone();
    unknown["tests"][0]["verdict"] = "GREEN".into();
    for (damaged, expected) in [
        (&untested, "<error type=\"INVALID\" message=\"the run has no tests\"/>"),
        (&other, "the stated verdict is INVALID, but its tests make it VALID"),
        (&unknown, "<failure type=\"INVALID\" message=\"the stated verdict is GREEN"),
    ] {
        assert!(!is_valid(damaged), "{expected}");
        let xml = exported(damaged, "junit");
        assert!(xml.contains(expected), "{xml}");
    }
}

#[test]
fn junit_counts_failures_and_gives_reasons() {
    let folder = runs();
    let xml = folder.dyno("export out --format junit").exits(0).stdout;
    assert!(
        xml.contains("<testsuite name=\"model\" tests=\"2\" failures=\"2\" errors=\"0\""),
        "{xml}"
    );
    assert!(xml.contains("<failure type=\"INVALID\" message=\""), "{xml}");
    // Every element that begins ends, in order.
    let mut open = Vec::new();
    for tag in xml.split('<').skip(2).map(|tag| tag.split('>').next().unwrap()) {
        let name = tag.split_whitespace().next().unwrap();
        match name.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "{xml}"),
            None if tag.ends_with('/') => {}
            None => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?}");
    let aborted = "run --quiet --system model:exponential=100h --scenario server --deadline 1s \
                   --mode performance --qps 50 --duration 100ms --set min_query_count=5 --out gone";
    folder.dyno(aborted).exits(4);
    let xml = folder.dyno("export gone --out tests.xml").exits(0);
    assert!(xml.stdout.is_empty());
    assert!(folder.read("tests.xml").contains("errors=\"1\""));
    assert!(folder.read("tests.xml").contains("<error type=\"ABORTED\""));
}

#[test]
fn an_export_does_not_replace_results() {
    let folder = runs();
    for command in [
        "export out --format csv --out out/summary.json",
        "export out --format jsonl --out out/series.json",
    ] {
        let before = folder.read("out/summary.json");
        let ran = folder.dyno(command).exits(2);
        assert!(ran.stderr.contains("json holds results"), "{command}: {}", ran.stderr);
        assert_eq!(folder.read("out/summary.json"), before, "{command}");
    }
    // A new file may have any name.
    folder.dyno("export out --format jsonl --out summary.json").exits(0);
    // Results may have another one.
    for (file, name) in
        [("summary.json", "baseline.csv"), ("Server/performance/records.bin", "records.csv")]
    {
        std::fs::copy(folder.0.join("out").join(file), folder.0.join(name)).unwrap();
        let before = std::fs::read(folder.0.join(name)).unwrap();
        let ran = folder.dyno(&format!("export out --out {name}")).exits(2);
        assert!(ran.stderr.contains("csv holds results"), "{}", ran.stderr);
        assert_eq!(std::fs::read(folder.0.join(name)).unwrap(), before, "{name}");
    }
}

/// Others may write in the folder, too, and can guess the name.
#[cfg(unix)]
#[test]
fn a_temporary_name_that_is_a_link_is_not_followed() {
    let folder = runs();
    folder.write("precious", "kept");
    for (name, command) in [
        ("page.html", "report out --out page.html"),
        ("rows.csv", "export out --test Server --out rows.csv"),
    ] {
        let partial = folder.0.join(format!(".{name}.partial"));
        std::os::unix::fs::symlink("precious", partial).unwrap();
        folder.dyno(command).exits(0);
        assert_eq!(folder.read("precious"), "kept", "{command}");
        assert!(!folder.0.join(name).is_symlink(), "{command}");
    }
}

#[cfg(unix)]
#[test]
fn an_export_leaves_a_pipe_a_pipe_and_a_link_a_link() {
    let folder = runs();
    let made = std::process::Command::new("mkfifo").arg(folder.0.join("pipe")).status().unwrap();
    assert!(made.success());
    let path = folder.0.join("pipe");
    let reader = std::thread::spawn(move || std::fs::read_to_string(path).unwrap());
    folder.dyno("export out --test Server --out pipe --format csv").exits(0);
    let piped = reader.join().unwrap();

    folder.write("real.csv", "old");
    std::os::unix::fs::symlink("real.csv", folder.0.join("link.csv")).unwrap();
    folder.dyno("export out --test Server --out link.csv").exits(0);
    assert!(folder.0.join("link.csv").is_symlink());
    assert_eq!(folder.read("real.csv"), piped);
    assert!(!piped.is_empty() && csv(&piped).len() > 100, "{piped}");
    folder.dyno("export out --test Server --out /dev/null --format csv").exits(0);
}
