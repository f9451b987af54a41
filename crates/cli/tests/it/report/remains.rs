//! Reports of incomplete runs: with missing or damaged files, or killed.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{RUN, SMALL, well_formed};
use crate::program::Folder;

/// Every scenario of a system that never fails.
const SMALL_OF_ALL: &str = "run -q --system model:fixed=1ms --qps 200 --duration 500ms \
                            --set min_query_count=70 --set multi_stream_target_latency_percentile=0.9 \
                            --out out";

/// Every file of a run directory that a report looks at.
fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.retain(|path| !path.ends_with("report.html") && !path.ends_with("mlperf_log_trace.json"));
    found.sort();
    found
}

#[test]
fn damaged_directories_are_shown_as_far_as_they_go() {
    let folder = Folder::new();
    folder.dyno(&format!("{SMALL} --out out")).exits(0);
    let out = folder.0.join("out");
    for path in files(&out) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let whole = fs::read(&path).unwrap();
        let mut damaged = vec![None, Some(Vec::new())];
        for part in [1, 3, 7] {
            damaged.push(Some(whole[..whole.len() * part / 8].to_vec()));
            let mut flipped = whole.clone();
            for at in (part..whole.len()).step_by(97) {
                flipped[at] ^= 1 << part;
            }
            damaged.push(Some(flipped));
        }
        for (number, bytes) in damaged.into_iter().enumerate() {
            let _ = fs::remove_file(out.join("report.html"));
            match &bytes {
                None => fs::remove_file(&path).unwrap(),
                Some(bytes) => fs::write(&path, bytes).unwrap(),
            }
            let ran = folder.dyno("report out").exits(0);
            let page = folder.read("out/report.html");
            assert!(!ran.stderr.contains("panicked"), "{name} {number}: {}", ran.stderr);
            well_formed(&page);
            assert!(page.contains("Server performance"), "{name} {number}: the test is shown");
            // A cut or flipped letter may be part of a comment, or have no effect.
            let is_told = match (&bytes, &name[..]) {
                (None, _) => true,
                (_, "effective.toml") => false,
                (Some(bytes), _) => bytes.trim_ascii_end() != whole.trim_ascii_end(),
            };
            if is_told {
                assert!(page.contains("Incomplete data"), "{name} {number}");
                assert!(ran.stderr.contains(&name), "{name} {number}: {}", ran.stderr);
            }
            if bytes.is_none() {
                assert!(!page.contains(&format!("{name}\">")), "a link to {name}, which is gone");
            }
        }
        fs::write(&path, whole).unwrap();
    }
    folder.dyno("report out").exits(0);
    assert!(!folder.read("out/report.html").contains("Incomplete data"));
}

/// Without a check, a report waits for a writer of the pipe, and reads the device without end.
#[cfg(unix)]
#[test]
fn pipes_and_devices_in_place_of_files_count_as_damage() {
    let folder = Folder::new();
    folder.dyno(&format!("{SMALL} --out out")).exits(0);
    let (pipe, aside) = (folder.0.join("pipe"), folder.0.join("aside"));
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    for special in [pipe.as_path(), Path::new("/dev/zero")] {
        for path in files(&folder.0.join("out")) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            fs::rename(&path, &aside).unwrap();
            std::os::unix::fs::symlink(special, &path).unwrap();
            let ran = folder.dyno("report out").exits(0);
            assert!(ran.stderr.contains(&name), "{name}: {}", ran.stderr);
            fs::rename(&aside, &path).unwrap();
        }
    }
}

#[test]
fn a_log_that_is_cut_between_two_lines_is_cut_all_the_same() {
    let folder = Folder::new();
    folder
        .dyno("run -q --system model:fixed=1ms --scenario offline --mode accuracy --out out")
        .exits(0);
    let log = "out/Offline/accuracy/mlperf_log_";
    let after =
        |text: &str, lines: usize| -> String { text.split_inclusive('\n').take(lines).collect() };
    for (file, lines) in
        [("summary.txt", 1), ("detail.txt", 90), ("accuracy.json", 30), ("accuracy.json", 1)]
    {
        let path = format!("{log}{file}");
        let whole = folder.read(&path);
        folder.write(&path, &after(&whole, lines));
        let ran = folder.dyno("report out").exits(0);
        assert!(ran.stderr.contains(&path[4..]), "{file}: {}", ran.stderr);
        folder.write(&path, &whole);
    }
    // Records that were not requested are not missing.
    folder.dyno(&format!("{SMALL} --records none --out none")).exits(0);
    let page = folder.read("none/report.html");
    assert!(!page.contains("records.bin"), "no link to what does not exist");
    let ran = folder.dyno("report none").exits(0);
    assert_eq!(ran.stderr.trim(), "report: none/report.html");
    assert_eq!(folder.read("none/report.html"), page);
    folder.dyno("report none --out page.htm").exits(0);
    assert!(folder.read("page.htm").contains("<title>model: VALID</title>"));
}

#[test]
fn numbers_that_no_run_has_make_no_endless_page() {
    let folder = Folder::new();
    folder.dyno(&format!("{SMALL} --out out")).exits(0);
    let files = ["summary.json", "series.json"].map(|name| folder.read(&format!("out/{name}")));
    for huge in ["18446744073709551615", "0", "1", "9223372036854775807"] {
        for (name, text) in ["summary.json", "series.json"].iter().zip(&files) {
            let mut value: Value = serde_json::from_str(text).unwrap();
            replace_numbers(&mut value, &huge.parse().unwrap());
            value["schema_version"] = 1.into();
            folder.write(&format!("out/{name}"), &value.to_string());
        }
        folder.dyno("report out").exits(0);
        let page = folder.read("out/report.html");
        well_formed(&page);
        assert!(page.len() < 300_000, "{huge} everywhere: {} bytes", page.len());
    }
}

/// Gives every whole number this value; keys that cannot hold it go wrong one by
/// one, as they would in a damaged file.
fn replace_numbers(value: &mut Value, with: &serde_json::Number) {
    match value {
        Value::Number(number) if number.is_u64() => *number = with.clone(),
        Value::Array(items) => items.iter_mut().for_each(|item| replace_numbers(item, with)),
        Value::Object(map) => map.values_mut().for_each(|item| replace_numbers(item, with)),
        _ => {}
    }
}

#[test]
fn what_a_killed_run_left_is_shown_from_its_logs() {
    let folder = Folder::new();
    folder.dyno(RUN).exits(1);
    for file in ["summary.json", "series.json", "report.html", "effective.toml"] {
        fs::remove_file(folder.0.join("out").join(file)).unwrap();
    }
    fs::rename(folder.0.join("out"), folder.0.join(".out.partial")).unwrap();
    let ran = folder.dyno("report out").exits(0);
    assert!(ran.stderr.contains("out is missing"), "{}", ran.stderr);
    assert!(ran.stderr.contains(".out.partial holds what remains of it"), "{}", ran.stderr);
    let page = folder.read(".out.partial/report.html");
    well_formed(&page);
    for said in ["Incomplete data", "INCOMPLETE", "Rebuilt from the logs", "Server performance"] {
        assert!(page.contains(said), "{said}");
    }
    assert!(page.contains("Latency by percentile"), "plots from the raw records");

    fs::create_dir(folder.0.join("nothing")).unwrap();
    let ran = folder.dyno("report nothing nowhere").exits(3);
    assert!(ran.stderr.contains("nothing has no run"), "{}", ran.stderr);
    assert!(ran.stderr.contains("nowhere does not exist"), "{}", ran.stderr);
    assert!(ran.stderr.contains("no results found"), "{}", ran.stderr);
}

#[test]
fn a_file_in_place_of_a_run_directory_is_answered_with_what_to_pass() {
    let folder = Folder::new();
    fs::create_dir(folder.0.join("out")).unwrap();
    folder.write("out/summary.json", "{}");
    folder.write("vllm.json", "{}");
    for (arguments, code, expected) in [
        ("report out/summary.json", 3, "hint: pass the run directory: dyno report out\n"),
        ("report vllm.json", 3, "dyno compare RUN vllm.json"),
        ("report vllm.json --out page.htm", 3, "dyno compare RUN vllm.json"),
        ("report out --out page.pdf", 2, "expected a name that ends in .html, found page.pdf"),
        ("report out --out -", 2, "expected a name that ends in .html, found -"),
    ] {
        let ran = folder.dyno(arguments).exits(code);
        assert!(ran.stderr.contains(expected), "{arguments}: {}", ran.stderr);
    }
}

/// The run as the page has it, for its download button.
#[track_caller]
fn embedded(page: &str) -> Value {
    let (_, rest) = page.split_once("id=\"summary\">").expect("a summary");
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn a_run_without_its_summary_has_the_numbers_of_its_logs() {
    // A log has six digits of a rate.
    const DIGITS: f64 = 1e-5;
    let folder = Folder::new();
    for run in [RUN, SMALL_OF_ALL] {
        folder.dyno(run);
        let summary: Value = serde_json::from_str(&folder.read("out/summary.json")).unwrap();
        fs::remove_file(folder.0.join("out/summary.json")).unwrap();
        folder.dyno("report out").exits(0);
        let page = folder.read("out/report.html");
        well_formed(&page);
        assert!(!page.contains("The run was interrupted"), "only a file is missing");
        let rebuilt = embedded(&page);
        assert_eq!(rebuilt["state"], "complete");
        let tests = rebuilt["tests"].as_array().unwrap();
        assert_eq!(tests.len(), 8);
        for (found, whole) in tests.iter().zip(summary["tests"].as_array().unwrap()) {
            let title = whole["folder"].as_str().unwrap();
            let mut verdict = whole["verdict"].clone();
            // The logs do not hold all that Dyno judges.
            match (whole["mode"].as_str(), verdict.as_str()) {
                (Some("accuracy"), Some("VALID")) => verdict = "not judged".into(),
                (_, Some("VALID")) => verdict = "UNDECIDED".into(),
                _ => {}
            }
            assert_eq!(found["verdict"], verdict, "{title}");
            for key in ["scenario", "mode", "folder", "state", "data"] {
                assert_eq!(found[key], whole[key], "{key} of {title}");
            }
            assert_eq!(found["accuracy"]["answered"], whole["accuracy"]["answered"], "{title}");
            assert_eq!(found["result"]["name"], whole["result"]["name"], "{title}");
            assert!(!found["reasons"].as_array().unwrap().is_empty(), "{title}");
            assert!(found["reasons"].as_array().unwrap().iter().all(|r| r != "" && r != "."));
            for key in [
                "/metrics/query_count",
                "/metrics/sample_count",
                "/metrics/missing",
                "/metrics/error_rate",
                "/metrics/lasted_ns",
                "/metrics/over_bound/latency",
                "/metrics/latency_ns",
                "/metrics/query_latency_ns/min",
                "/metrics/query_latency_ns/p99",
                "/metrics/query_latency_ns/max",
                "/metrics/query_latency_ns/mean",
                "/metrics/failed/internal",
                "/result/value",
                "/metrics/conditions/early_stopping_met",
            ] {
                match (found.pointer(key).and_then(Value::as_f64), whole.pointer(key)) {
                    (Some(f), Some(w)) => {
                        let w = w.as_f64().unwrap();
                        assert!((f - w).abs() <= w.abs() * DIGITS, "{key} of {title}: {f} for {w}");
                    }
                    (_, w) => assert_eq!(found.pointer(key), w, "{key} of {title}"),
                }
            }
        }
        fs::remove_dir_all(folder.0.join("out")).unwrap();
    }
}
