//! Runs whose client is slowed down: they do not count.

use std::process::Stdio;
use std::time::Duration;

use dyno_net::faults::FaultServer;
use serde_json::Value;

use crate::program::Folder;
use crate::schema::keeps_to_schemas;
use crate::workers::send;

/// Runs the program and stops it for half of the time, again and again, until it ends.
fn stopped(folder: &Folder, arguments: &str) -> Value {
    let mut child = folder.command(arguments).stdout(Stdio::null()).spawn().unwrap();
    // A child that has not been waited for keeps its process id.
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        for signal in ["-STOP", "-CONT"] {
            std::thread::park_timeout(Duration::from_millis(200));
            send(signal, child.id());
        }
    };
    assert_eq!(status.code(), Some(1));
    keeps_to_schemas(folder, "out")
}

/// The client is named first as the cause, and its lost time is shown.
fn check_charged(summary: &Value) {
    let test = &summary["tests"][0];
    assert_eq!(test["verdict"], "INVALID");
    assert_eq!(test["causes"][0]["cause"], "client", "{}", test["reasons"]);
    let reason = test["reasons"][0].as_str().unwrap();
    assert!(reason.contains("stopped") && !reason.contains("faster"), "{reason}");
    let observer = &summary["observers"][0];
    assert!(observer["lost_ns"]["stopped"].as_u64() > Some(100_000_000), "{observer}");
    assert!(!observer["longest"].as_array().unwrap().is_empty());
}

#[test]
fn a_client_that_is_stopped_is_charged_in_every_scenario() {
    for scenario in ["single-stream", "multi-stream", "server", "offline"] {
        let folder = Folder::new();
        let run = "run --system digits --mode performance --duration 2s --no-progress --out out";
        check_charged(&stopped(&folder, &format!("{run} --scenario {scenario}")));
        assert!(folder.read("out/report.html").contains("Time lost by the client"), "{scenario}");
    }
}

#[test]
fn a_client_that_is_stopped_is_charged_over_a_network() {
    let server = FaultServer::start("127.0.0.1:0").unwrap();
    for scenario in ["single-stream", "server --qps 50"] {
        let folder = Folder::new();
        folder.write("prompts.jsonl", "{\"prompt\": \"a\", \"max_tokens\": 4}\n");
        let summary = stopped(
            &folder,
            &format!(
                "run --system openai:http://{}/ok,model=m --data prompts.jsonl --mode performance \
                 --duration 2s --no-progress --out out --scenario {scenario}",
                server.address
            ),
        );
        check_charged(&summary);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn threads_that_wait_for_a_processor_are_named() {
    let folder = Folder::new();
    // The process may run on this processor.
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let core = allowed.trim().split([',', '-']).next().unwrap();
    // Four threads share it.
    let run = format!("run --scenario offline --mode performance --workers 4 --cores {core}");
    // Whether the test is VALID depends on the machine.
    let ran = folder.dyno(&format!("{run} --duration 1s --no-progress --out out"));
    assert!(
        ran.stdout.contains("Offline performance: threads named sut-worker-"),
        "{}",
        ran.stdout
    );
    assert!(folder.read("out/report.html").contains("threads named sut-worker-"));
}

/// An engine that shares its processor with another process.
#[cfg(target_os = "linux")]
const CROWDED: &str = r#"
import os, subprocess, sys, time

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
spin = "import time\nend = time.time() + 5\nwhile time.time() < end: pass"
quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
subprocess.Popen([sys.executable, "-c", spin], **quiet)


def busy(samples):
    end = time.perf_counter() + 0.005
    while time.perf_counter() < end:
        pass
    return [0 for _ in samples]
"#;

#[cfg(target_os = "linux")]
#[test]
fn the_process_of_an_engine_that_waits_for_a_processor_is_named() {
    if !crate::engines::has("python3", "--version") {
        return;
    }
    let folder = Folder::new();
    folder.write("engine.py", CROWDED);
    let run = "run --system py:engine.py:busy --scenario single-stream --mode performance";
    // Whether the test is VALID depends on the machine.
    let ran = folder.dyno(&format!("{run} --duration 1s --no-progress --out out"));
    assert!(
        ran.stdout.contains("SingleStream performance: threads named python"),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
}

#[test]
fn simulated_time_has_no_observer() {
    let folder = Folder::new();
    let run = "run --system model:fixed=1ms --scenario server --qps 100 --mode performance";
    let summary = folder.dyno(&format!("{run} --json --out out")).json();
    assert_eq!(summary.get("observers"), None);
}
