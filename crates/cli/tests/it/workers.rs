//! Runs that `dyno worker` processes share, over loopback.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::program::{Folder, Ran};
use crate::schema::keeps_to_schemas;

/// A coordinator, and where it waits for its workers.
struct Coordinator {
    child: Child,
    address: String,
    said: std::thread::JoinHandle<String>,
}

fn coordinator(folder: &Folder, arguments: &str) -> Coordinator {
    let mut command = folder.command(&format!("{arguments} --listen 127.0.0.1:0"));
    command.env("DYNO_WORKER_TOKEN", "of this test").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.find(|line| line.starts_with("waiting for ")).expect("it waits for workers");
    let address = line.split(" at ").nth(1).unwrap().split(": ").next().unwrap().to_string();
    // Keeps the pipe from closing under the program.
    let said = std::thread::spawn(move || lines.collect::<Vec<_>>().join("\n"));
    Coordinator { child, address, said }
}

impl Coordinator {
    fn worker(&self, folder: &Folder) -> Child {
        self.command(folder, "of this test").spawn().unwrap()
    }

    fn command(&self, folder: &Folder, token: &str) -> Command {
        let mut command = folder.command(&format!("worker --join {} --within 8s", self.address));
        command.env("DYNO_WORKER_TOKEN", token).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn ends(self) -> (Option<i32>, String) {
        let code = self.child.wait_with_output().unwrap().status.code();
        (code, self.said.join().unwrap())
    }
}

/// The samples of the trace log, in order, with the times at which they were due.
fn trace(folder: &Folder, out: &str) -> Vec<(u64, u64)> {
    let log: Value = serde_json::from_str(
        &folder.read(&format!("{out}/Server/performance/mlperf_log_trace.json")),
    )
    .unwrap();
    let events = log["traceEvents"].as_array().unwrap();
    let mut samples: Vec<(u64, u64)> = events
        .iter()
        .filter(|event| event["name"] == "Sample")
        .filter_map(|event| {
            let args = &event["args"];
            Some((args["sample_seq"].as_u64()?, args["sample_idx"].as_u64()?))
        })
        .collect();
    samples.sort_unstable();
    samples.dedup();
    samples
}

const SERVER: &str = "run --system digits --scenario server --qps 300 --duration 500ms --seed 5 \
                      --set server_target_latency_ns=2000000000 --trace-log --no-progress";

#[test]
fn workers_issue_the_trace_of_a_single_client_and_score_its_answers() {
    let folder = Folder::new();
    folder.dyno(&format!("{SERVER} --out alone"));
    let expected = trace(&folder, "alone");
    assert!(expected.len() >= 100, "{expected:?}");
    for workers in [1, 2] {
        let out = format!("of-{workers}");
        let run = format!("{SERVER} --out {out} --remote-workers {workers}");
        let coordinator = coordinator(&folder, &run);
        let children: Vec<Child> = (0..workers).map(|_| coordinator.worker(&folder)).collect();
        for child in children {
            Ran::from(child.wait_with_output().unwrap()).exits(0);
        }
        let (_, said) = coordinator.ends();
        assert!(said.contains("joined"), "{said}");
        assert_eq!(trace(&folder, &out), expected);
        let summary = keeps_to_schemas(&folder, &out);
        let tests = summary["tests"].as_array().unwrap();
        assert_eq!(tests[0]["accuracy"]["scored"], 540);
        assert_eq!(tests[0]["accuracy"]["correct"], 519);
        assert_eq!(tests[1]["metrics"]["missing"], 0);
        let remarks = summary["remarks"].to_string();
        assert!(remarks.contains(&format!("{workers} workers shared the load")), "{remarks}");
    }
}

const LONG: &str = "run --system null --scenario server --mode both --qps 200 --duration 300s \
                    --seed 5 --out out --no-progress --remote-workers 2";

/// Waits until both workers have joined and have had time to begin, then does this
/// to one of them.
fn lost(signal: &str) -> (Folder, Option<i32>, String) {
    let folder = Folder::new();
    let coordinator = coordinator(&folder, LONG);
    let mut victim = coordinator.worker(&folder);
    let other = coordinator.worker(&folder);
    let joined = BufReader::new(victim.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut joined = joined.take_while(|line| !line.contains("joined"));
    assert!(joined.next().is_none());
    // The accuracy test is over in no time: what follows lasts for minutes.
    let begun = folder.0.join(".out.partial/Server/accuracy/mlperf_log_summary.txt");
    while std::fs::metadata(&begun).map_or(0, |file| file.len()) == 0 {
        std::thread::yield_now();
    }
    send(signal, victim.id());
    let ended = coordinator.ends();
    let _ = victim.kill();
    victim.wait().unwrap();
    Ran::from(other.wait_with_output().unwrap()).exits(0);
    (folder, ended.0, ended.1)
}

fn send(signal: &str, process: u32) {
    let kill = Command::new("kill").args([signal, &process.to_string()]).status().unwrap();
    assert!(kill.success());
}

fn names_the_lost_worker(folder: &Folder) {
    let summary = keeps_to_schemas(folder, "out");
    assert_eq!(summary["verdict"], "INVALID");
    let test = summary["tests"].as_array().unwrap().last().unwrap();
    let reasons = test["reasons"].to_string();
    assert!(reasons.contains("of 2 was lost"), "{reasons}");
    let remarks = summary["remarks"].to_string();
    assert!(remarks.contains("process "), "{remarks}");
    assert_eq!(test["metrics"]["ended"], "worker lost");
}

#[test]
fn a_worker_that_is_killed_makes_the_run_invalid() {
    let (folder, code, _) = lost("-KILL");
    assert_eq!(code, Some(1));
    names_the_lost_worker(&folder);
}

#[test]
fn a_worker_that_hangs_makes_the_run_invalid() {
    let (folder, code, _) = lost("-STOP");
    assert_eq!(code, Some(1));
    names_the_lost_worker(&folder);
}

#[test]
fn a_coordinator_that_is_killed_ends_its_workers() {
    let folder = Folder::new();
    let mut coordinator = coordinator(&folder, LONG);
    let workers = [coordinator.worker(&folder), coordinator.worker(&folder)];
    coordinator.child.kill().unwrap();
    for worker in workers {
        let ran = Ran::from(worker.wait_with_output().unwrap());
        assert!(ran.code != Some(0), "{}", ran.stderr);
        assert!(ran.stderr.contains("coordinator"), "{}", ran.stderr);
    }
}

#[test]
fn strangers_do_not_join() {
    let folder = Folder::new();
    let mut coordinator = coordinator(&folder, LONG);
    let stranger = coordinator.command(&folder, "a guess").output().unwrap();
    let ran = Ran::from(stranger).exits(3);
    assert!(ran.stderr.contains("does not know this worker's token"), "{}", ran.stderr);
    assert!(ran.stderr.contains("DYNO_WORKER_TOKEN"), "{}", ran.stderr);
    coordinator.child.kill().unwrap();
    coordinator.ends();
}

#[test]
fn what_cannot_be_shared_is_refused_before_anybody_waits() {
    let folder = Folder::new();
    let says = |arguments: &str, words: &str| {
        let ran = folder.dyno(arguments).exits(2);
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
    };
    says("run --system null --remote-workers 2", "SingleStream issues a query when");
    says(
        "run --system model:fixed=1ms --scenario offline --remote-workers 2",
        "virtual time by one process",
    );
    says(
        "run --system null --scenario offline --remote-workers 2 --listen 0.0.0.0:0",
        "could join",
    );
    says("run --system null --listen 127.0.0.1:0", "--remote-workers");
    says(
        "run --system null --scenario server --remote-workers 3 --set server_arrivals=concurrency:2",
        "2 queries in flight",
    );
}

/// A server that answers every request with 401, until the tests are over.
fn refusing() -> std::net::SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || {
                let mut writer = stream.unwrap();
                let mut lines = BufReader::new(writer.try_clone().unwrap()).lines();
                // Requests have no body: each ends with an empty line.
                while lines.by_ref().map_while(Result::ok).any(|line| line.is_empty()) {
                    let answer = "HTTP/1.1 401 X\r\ncontent-length: 6\r\n\r\nno key";
                    if std::io::Write::write_all(&mut writer, answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

#[test]
fn a_worker_whose_first_answers_all_fail_ends_the_run() {
    let folder = Folder::new();
    let coordinator = coordinator(
        &folder,
        &format!(
            "run --system raw:http://{}/x --scenario server --qps 500 --mode performance \
             --duration 300s --remote-workers 2 --out out",
            refusing()
        ),
    );
    let workers = [coordinator.worker(&folder), coordinator.worker(&folder)];
    let (code, said) = coordinator.ends();
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("all of the first 20 answers failed: HTTP status 401: no key"), "{said}");
    assert_eq!(keeps_to_schemas(&folder, "out")["tests"][0]["failing"]["failed"], 20);
    for worker in workers {
        assert_eq!(worker.wait_with_output().unwrap().status.code(), Some(0));
    }
}
