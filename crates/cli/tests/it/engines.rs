//! Engines that users write in Python and C, measured without a server.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;

use crate::probe::npy;
use crate::program::Folder;

/// Whether a tool is installed; says so where it is not.
pub fn has(tool: &str, argument: &str) -> bool {
    let runs = Command::new(tool).arg(argument).output();
    let is_there = runs.is_ok_and(|output| output.status.success());
    if !is_there {
        eprintln!("SKIPPED: there is no {tool}");
    }
    is_there
}

fn repository(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn summary(folder: &Folder) -> Value {
    serde_json::from_str(&folder.read("out/summary.json")).unwrap()
}

const QUICK: &str = "--scenario single-stream --mode performance --duration 200ms --out out";

#[test]
fn functions_of_python_are_measured() {
    if !has("python3", "--version") {
        return;
    }
    let folder = Folder::new();
    std::fs::copy(repository("examples/python/engine.py"), folder.0.join("engine.py")).unwrap();
    folder.write("lines.txt", "a b a\n\nc\n");
    let system = "--system py:engine.py:count_words --data lines.txt";
    let ran = folder.dyno(&format!("run {system} {QUICK}"));
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
    let test = &summary(&folder)["tests"][0];
    assert_eq!(test["state"], "complete");
    assert!(test["metrics"]["sample_count"].as_u64() > Some(0));
    // What it answers is in the accuracy log: bytes as hexadecimal digits.
    let offline = "--scenario offline --mode accuracy --out right";
    let ran = folder.dyno(&format!("run {system} {offline}"));
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
    let log = folder.read("right/Offline/accuracy/mlperf_log_accuracy.json");
    let hexadecimal =
        |text: &str| text.bytes().map(|byte| format!("{byte:02X}")).collect::<String>();
    for answer in ["{\"a\": 2, \"b\": 1}", "{\"c\": 1}"] {
        assert!(log.contains(&hexadecimal(answer)), "{answer}: {log}");
    }
}

/// A function that does not return would hold the output of Dyno open, as in `dyno run ... | tee log`.
#[test]
fn processes_of_python_end_with_dyno() {
    if !has("python3", "--version") {
        return;
    }
    for (signals, code) in [(&["-TERM", "-TERM"][..], Some(130)), (&["-KILL"][..], None)] {
        let folder = Folder::new();
        folder.write(
            "m.py",
            "import time\ncalls = []\n\ndef f(samples):\n    calls.append(0)\n    \
             if len(calls) > 1:\n        print('called', flush=True)\n        time.sleep(600)\n    \
             return [0 for _ in samples]\n",
        );
        let mut command = folder.command(&format!("run --system py:m.py:f {QUICK}"));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        assert!(lines.any(|line| line.is_ok_and(|line| line.contains("called"))), "{signals:?}");
        for signal in signals {
            let kill = Command::new("kill").args([signal, &child.id().to_string()[..]]).status();
            assert!(kill.unwrap().success());
        }
        assert_eq!(child.wait().unwrap().code(), code);
        let (over, is_over) = mpsc::channel();
        std::thread::spawn(move || {
            lines.for_each(drop);
            over.send(()).unwrap();
        });
        let ended = is_over.recv_timeout(Duration::from_secs(120));
        assert!(ended.is_ok(), "{signals:?}: a process of Python still holds the output");
    }
}

#[test]
fn a_function_that_fails_ends_the_run_with_the_words_of_its_exception() {
    if !has("python3", "--version") {
        return;
    }
    let folder = Folder::new();
    folder.write("m.py", "def f(samples):\n    return samples if samples == [0] else nothing\n");
    let ran = folder.dyno(&format!("run --system py:m.py:f {QUICK}")).exits(4);
    assert!(ran.stderr.contains("name 'nothing' is not defined"), "{}", ran.stderr);
    for (system, words) in
        [("py:none.py:f", "none.py does not exist"), ("py:m.py:g", "has no attribute 'g'")]
    {
        let ran = folder.dyno(&format!("run --system {system} {QUICK}")).exits(3);
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
    }
    folder.dyno(&format!("run --system py:m.py {QUICK}")).exits(2);
    let dry = QUICK.replace("--out out", "--dry-run");
    let ran = folder.dyno(&format!("run --system py:m.py:f,workers=1,workers=2 {dry}")).exits(2);
    assert!(ran.stderr.contains("workers= is given twice"), "{}", ran.stderr);
}

/// Returns a folder with `engine.so`, which is compiled from a source of the repository; `None` without a compiler.
fn plug_in(source: &str) -> Option<Folder> {
    if !has("cc", "--version") {
        return None;
    }
    let folder = Folder::new();
    let built = Command::new("cc")
        .args(["-O2", "-shared", "-fPIC", "-o", "engine.so"])
        .arg(repository(source))
        .arg("-I")
        .arg(repository("crates/plugin/include"))
        .arg("-lpthread")
        .current_dir(&folder.0)
        .status();
    assert!(built.unwrap().success());
    Some(folder)
}

#[test]
fn engines_in_c_are_measured() {
    let Some(folder) = plug_in("examples/c/engine.c") else { return };
    let ran = folder.dyno(&format!("run --system plugin:./engine.so {QUICK}"));
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
    let test = &summary(&folder)["tests"][0];
    assert_eq!(test["state"], "complete");
    assert!(test["metrics"]["sample_count"].as_u64() > Some(0));
    let wrong = folder.dyno(&format!("run --system plugin:./engine.so,a=b {QUICK}")).exits(3);
    assert!(
        wrong.stderr.contains("engine.so does not open: expected no options"),
        "{}",
        wrong.stderr
    );
}

#[test]
fn a_plug_in_that_calls_exit_does_not_choose_the_exit_code() {
    let Some(folder) = plug_in("crates/plugin/tests/c/engine.c") else { return };
    let functions: &[&str] = if cfg!(all(target_os = "linux", target_env = "gnu")) {
        &["exit", "quick_exit", "_exit"]
    } else {
        &["exit"]
    };
    for function in functions {
        let run = format!("run --system plugin:./engine.so,{function} {QUICK}");
        let ran = folder.dyno(&run).exits(4);
        assert!(ran.stderr.contains("engine.so: it called exit"), "{}", ran.stderr);
    }
    // Without it, the exit code is that of the verdict.
    let ran = folder.dyno(&format!("run --system plugin:./engine.so {QUICK}"));
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
}

#[test]
fn a_plug_in_that_changes_the_working_folder_does_not_move_the_results() {
    let Some(folder) = plug_in("crates/plugin/tests/c/engine.c") else { return };
    let ran = folder.dyno(&format!("run --system plugin:./engine.so,chdir {QUICK}"));
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
    assert_eq!(summary(&folder)["tests"][0]["state"], "complete", "{}", ran.stderr);
}

#[test]
fn a_plug_in_that_crashes_is_named() {
    let Some(folder) = plug_in("crates/plugin/tests/c/engine.c") else { return };
    let ran = folder.dyno(&format!("run --system plugin:./engine.so,crash {QUICK}"));
    // A signal ended it.
    assert_eq!(ran.code, None, "{}", ran.stderr);
    let words = "error: the process crashed, probably in plug-in ./engine.so\n";
    assert!(ran.stderr.contains(words), "{}", ran.stderr);
}

#[test]
fn a_plug_in_that_does_not_return_ends_the_process_with_its_name() {
    let Some(folder) = plug_in("crates/plugin/tests/c/engine.c") else { return };
    let ran = |function: &str| {
        let out = format!("--scenario offline --mode performance --duration 50ms --out {function}");
        let system = format!("plugin:./engine.so,hang-{function},timeout=1s");
        folder.dyno(&format!("run --system {system} {out}")).exits(4).stderr
    };
    // Each waits for 10 s.
    std::thread::scope(|scope| {
        let functions = ["issue", "flush", "close"];
        let all = functions.map(|function| (function, scope.spawn(move || ran(function))));
        for (function, one) in all {
            let stderr = one.join().unwrap();
            let words = format!("engine.so: dyno_engine_{function} has not returned for 10 s");
            assert!(stderr.contains(&words), "{stderr}");
            let is_silent = stderr.contains("no completion, and none came for 1 s");
            assert!(is_silent || function != "issue", "{stderr}");
        }
    });
    // The engine was closed after the results had been written.
    let summary: Value = serde_json::from_str(&folder.read("close/summary.json")).unwrap();
    assert_eq!(summary["tests"][0]["state"], "complete");
}

/// The limit on answers does not apply to the end of an engine, which may free much memory.
#[test]
fn a_plug_in_may_close_slowly() {
    let Some(folder) = plug_in("crates/plugin/tests/c/engine.c") else { return };
    let ran =
        folder.dyno(&format!("run --system plugin:./engine.so,slow-close,timeout=1s {QUICK}"));
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
}

#[test]
fn a_streaming_plug_in_without_first_tokens_is_not_called_slow() {
    let Some(folder) = plug_in("crates/plugin/tests/c/engine.c") else { return };
    let load = "--scenario server --qps 200 --duration 1s --mode performance --out out";
    let ran = folder
        .command("run --system")
        .args(["plugin:./engine.so,no token"])
        .args(load.split_whitespace())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&ran.stderr);
    let summary = summary(&folder);
    let reasons = summary["tests"][0]["reasons"].to_string();
    assert!(reasons.contains("have no first token, because the system reported none"), "{text}");
    assert!(!reasons.contains("make the system faster"), "{reasons}");
}

/// The first of two files of an input was dropped.
#[test]
fn an_input_has_one_file() {
    let folder = Folder::new();
    folder.write("m.py", "def f(samples):\n    return samples\n");
    for name in ["a.npy", "b.npy"] {
        std::fs::write(folder.0.join(name), npy("<f4", "(1, 1, 4)", &[0; 16])).unwrap();
    }
    for (system, data, input) in [
        ("py:m.py:f", "--data x=a.npy --data y=a.npy --data x=b.npy", "x"),
        ("rnn:lstm:4x4", "--data a.npy --data sequence=b.npy", "sequence"),
    ] {
        let ran = folder.dyno(&format!("run --system {system} {data} {QUICK}")).exits(2);
        let words = format!("input `{input}` has two files: a.npy and b.npy");
        assert!(ran.stderr.contains(&words), "{system}: {}", ran.stderr);
    }
}

#[test]
fn a_plug_in_without_inputs_has_no_shapes() {
    let Some(folder) = plug_in("crates/plugin/tests/c/engine.c") else { return };
    let shape = "--shape x=1x5";
    let ran = folder.dyno(&format!("run --system plugin:./engine.so {shape} {QUICK}")).exits(2);
    assert!(ran.stderr.contains("--shape has no effect"), "{}", ran.stderr);
}
