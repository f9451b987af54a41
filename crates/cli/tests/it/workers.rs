//! Runs that `dyno worker` processes share, over loopback.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::program::{Folder, ProgramResult};
use crate::schema::keeps_to_schemas;

/// A coordinator, and the address at which it waits for its workers.
struct Coordinator {
    child: Child,
    address: String,
    said: std::thread::JoinHandle<String>,
}

fn coordinator(folder: &Folder, arguments: &str) -> Coordinator {
    coordinator_with(folder, arguments, "of this test")
}

fn coordinator_with(folder: &Folder, arguments: &str, token: &str) -> Coordinator {
    let mut command = folder.command(&format!("{arguments} --listen 127.0.0.1:0"));
    command.env("DYNO_WORKER_TOKEN", token).env("DYNO_TEST_SECRET", "open sesame");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
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
        joining(folder, &self.address, token, "")
    }

    fn ends(self) -> (Option<i32>, String) {
        let code = self.child.wait_with_output().unwrap().status.code();
        (code, self.said.join().unwrap())
    }
}

fn joining(folder: &Folder, address: &str, token: &str, arguments: &str) -> Command {
    let mut command = folder.command(&format!("worker --join {address} --within 8s {arguments}"));
    command.env("DYNO_WORKER_TOKEN", token).env("DYNO_TEST_SECRET", "the victim's");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
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
            ProgramResult::from(child.wait_with_output().unwrap()).exits(0);
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

/// Waits until both workers have joined and have had time to begin, then applies this to one of
/// them.
fn lost(signal: &str) -> (Folder, Option<i32>, String) {
    let folder = Folder::new();
    let coordinator = coordinator(&folder, LONG);
    let mut victim = coordinator.worker(&folder);
    let other = coordinator.worker(&folder);
    let joined = BufReader::new(victim.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut joined = joined.take_while(|line| !line.contains("joined"));
    assert!(joined.next().is_none());
    // The accuracy test ends at once; the next test lasts for minutes.
    let begun = folder.0.join(".out.partial/Server/accuracy/mlperf_log_summary.txt");
    while std::fs::metadata(&begun).map_or(0, |file| file.len()) == 0 {
        std::thread::yield_now();
    }
    send(signal, victim.id());
    let ended = coordinator.ends();
    let _ = victim.kill();
    victim.wait().unwrap();
    ProgramResult::from(other.wait_with_output().unwrap()).exits(0);
    (folder, ended.0, ended.1)
}

/// Sends a signal to a process.
pub fn send(signal: &str, process: u32) {
    let kill = Command::new("kill").args([signal, &process.to_string()]).status().unwrap();
    assert!(kill.success());
}

fn names_the_lost_worker(folder: &Folder) {
    let summary = keeps_to_schemas(folder, "out");
    assert_eq!(summary["verdict"], "INVALID");
    let test = summary["tests"].as_array().unwrap().last().unwrap();
    let reasons = test["reasons"].to_string();
    assert!(reasons.contains("of 2 was lost"), "{reasons}");
    // What follows from the loss is no reason of its own, and not the fault of the system.
    let causes = test["causes"].as_array().unwrap();
    let blames = |cause: &&Value| cause["cause"] == "system" || cause["kind"] == "missing";
    assert_eq!(causes.iter().find(blames), None, "{causes:?}");
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
        let ran = ProgramResult::from(worker.wait_with_output().unwrap());
        assert!(ran.code != Some(0), "{}", ran.stderr);
        assert!(ran.stderr.contains("coordinator"), "{}", ran.stderr);
    }
}

#[test]
fn strangers_do_not_join() {
    let folder = Folder::new();
    let mut coordinator = coordinator(&folder, LONG);
    let stranger = coordinator.command(&folder, "a guess").output().unwrap();
    let ran = ProgramResult::from(stranger).exits(3);
    assert!(ran.stderr.contains("does not have this worker's token"), "{}", ran.stderr);
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
        "virtual time in one process",
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

/// Returns a non-loopback address of this machine that forwards connections to `to`; `None`, with
/// a note, if the machine has none.
fn tunnel(to: &str) -> Option<String> {
    let probe = UdpSocket::bind("0.0.0.0:0").unwrap();
    // Nothing is sent: the system only looks up a route.
    let own = probe.connect("192.0.2.1:9").and_then(|()| probe.local_addr());
    let Some(own) = own.ok().filter(|own| !own.ip().is_loopback()) else {
        println!("skipped: this machine has no address beside loopback");
        return None;
    };
    let listener = TcpListener::bind((own.ip(), 0)).unwrap();
    let (address, to) = (listener.local_addr().unwrap(), to.to_owned());
    std::thread::spawn(move || {
        for from in listener.incoming() {
            let (from, to) = (from.unwrap(), TcpStream::connect(&to).unwrap());
            let ends = [(from.try_clone().unwrap(), to.try_clone().unwrap()), (to, from)];
            for (mut from, mut to) in ends {
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
    Some(address.to_string())
}

const SHORT: &str = "--scenario server --mode performance --qps 50 --duration 300ms --out out \
                     --no-progress --remote-workers 1";

#[test]
fn without_a_token_only_processes_of_one_machine_meet() {
    let folder = Folder::new();
    let run = format!("run --system null {SHORT}");
    let mut coordinator = coordinator_with(&folder, &run, "");
    if let Some(address) = tunnel(&coordinator.address) {
        let ran =
            ProgramResult::from(joining(&folder, &address, "", "").output().unwrap()).exits(3);
        assert!(ran.stderr.contains("has no token"), "{}", ran.stderr);
        assert!(ran.stderr.contains("DYNO_WORKER_TOKEN"), "{}", ran.stderr);
    }
    // A coordinator with a token is not one of this worker's, nor the other way round.
    let stranger = joining(&folder, &coordinator.address, "a guess", "").output().unwrap();
    ProgramResult::from(stranger).exits(3);
    let address = coordinator.address.clone();
    ProgramResult::from(joining(&folder, &address, "", "").output().unwrap()).exits(0);
    assert!(coordinator.child.wait().unwrap().code().is_some());
    let (_, said) = coordinator.ends();
    assert!(said.contains("1 of 1"), "{said}");
}

/// The summary of a run of this system on two workers.
pub fn shared_by_two(folder: &Folder, run: &str) -> Value {
    let coordinator = coordinator(folder, &format!("{run} --out out --remote-workers 2"));
    let workers = [coordinator.worker(folder), coordinator.worker(folder)];
    for worker in workers {
        ProgramResult::from(worker.wait_with_output().unwrap()).exits(0);
    }
    coordinator.ends();
    keeps_to_schemas(folder, "out")
}

/// The summary of a run on two workers of a server whose answers have this fault, or `ok`.
fn server_shared_by_two(fault: &str, flags: &str) -> Value {
    let server = dyno_net::faults::FaultServer::start("127.0.0.1:0").unwrap();
    let run = format!("run --system openai:http://{}/{fault},model=m {flags}", server.address);
    shared_by_two(&Folder::new(), &run)
}

#[test]
fn what_the_clients_of_all_workers_saw_is_put_together() {
    let summary = server_shared_by_two(
        "ok",
        "--scenario server --mode performance --qps 40 --duration 1s --no-progress",
    );
    let test = &summary["tests"][0];
    let samples = test["metrics"]["sample_count"].as_u64().unwrap();
    assert!(samples >= 20, "{samples}");
    let client = &summary["clients"][0];
    assert_eq!(client["sent"], samples);
    assert!(client["bytes_received"].as_u64().unwrap() > 500 * samples);
    assert!(client["lateness_ns"]["count"] == samples);
    // Each answer has three tokens in three parts, and reports that.
    assert_eq!(client["tokens_counted_by"]["server"], samples);
    assert_eq!(client["inter_token_ns"]["count"], 2 * samples);
    assert_eq!(test["metrics"]["tokens"]["output"], 3 * samples);
    let workers = client["workers"].as_array().unwrap();
    let sent: Vec<u64> = workers.iter().map(|worker| worker["sent"].as_u64().unwrap()).collect();
    assert_eq!((sent.len(), sent.iter().sum::<u64>()), (2, samples));
    assert!(sent.iter().all(|&sent| sent >= samples / 2), "{sent:?}");
}

#[test]
fn a_ramp_is_shared_by_workers_and_not_measured() {
    let summary = server_shared_by_two(
        "ok",
        "--scenario server --mode performance --request-rate 50 --ramp 1s --num-prompts 60 \
         --seed 5 --no-progress",
    );
    let (test, client) = (&summary["tests"][0], &summary["clients"][0]);
    let metrics = &test["metrics"];
    // A rate that rises to 50/s in 1 s: 25 requests, within 4 standard deviations.
    let ramp = metrics["excluded"]["ramp_requests"].as_u64().unwrap();
    assert!((5..=45).contains(&ramp), "{ramp}");
    assert_eq!(metrics["query_count"], 60);
    assert_eq!(metrics["answers"]["whole"], 60);
    assert_eq!(metrics["tokens"]["output"], 180, "three tokens an answer");
    assert_eq!(client["sent"], 60);
    assert_eq!(client["lateness_ns"]["count"], 60);
    let workers = client["workers"].as_array().unwrap();
    for key in ["queries", "sent"] {
        let all: Vec<u64> = workers.iter().map(|worker| worker[key].as_u64().unwrap()).collect();
        assert_eq!(all, [30, 30], "{key}: every second query");
    }
}

#[test]
fn answers_of_a_test_after_a_warm_up_are_those_of_the_test() {
    let summary = server_shared_by_two(
        "ok",
        "--num-prompts 40 --max-concurrency 4 --warm-up 6 --set max_client_lag_ns=0 \
         --no-progress",
    );
    let metrics = &summary["tests"][0]["metrics"];
    assert_eq!(metrics["sample_count"], 40);
    assert_eq!(
        (&metrics["answers"]["whole"], &metrics["tokens"]["output"]),
        (&40.into(), &120.into())
    );
}

#[test]
fn failures_on_workers_are_counted_with_the_words_of_the_server() {
    let summary = server_shared_by_two(
        "event_error_json",
        "--scenario server --mode performance --qps 20 --duration 500ms --no-progress",
    );
    assert_ne!(summary["verdict"], "VALID");
    let troubles = &summary["clients"][0]["troubles"];
    assert!(troubles.to_string().contains("overloaded"), "{troubles}");
}

#[test]
fn a_worker_that_was_stopped_is_charged_and_named() {
    let folder = Folder::new();
    let coordinator = coordinator(
        &folder,
        "run --system null --scenario server --mode performance --qps 200 --duration 8s \
         --no-progress --out out --remote-workers 2",
    );
    let [mut victim, mut other] = [coordinator.worker(&folder), coordinator.worker(&folder)];
    for worker in [&mut victim, &mut other] {
        let mut lines = BufReader::new(worker.stderr.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("joined")));
    }
    // The run begins at once, and lasts for longer than this test needs.
    pause(2);
    send("-STOP", victim.id());
    pause(3);
    send("-CONT", victim.id());
    let process = format!("process {}", victim.id());
    for worker in [victim, other] {
        ProgramResult::from(worker.wait_with_output().unwrap()).exits(0);
    }
    coordinator.ends();
    let summary = keeps_to_schemas(&folder, "out");
    let test = &summary["tests"][0];
    assert_eq!(test["verdict"], "INVALID");
    let first = test["reasons"][0].as_str().unwrap();
    assert!(first.starts_with("Worker ") && first.contains(&process), "{first}");
    assert_eq!(test["causes"][0]["cause"], "client");
}

/// Waits for this many seconds.
fn pause(seconds: u64) {
    let clock = dyno_loadgen::clock::Clock::start();
    while clock.now() < seconds * dyno_loadgen::clock::SECOND {
        std::thread::park_timeout(std::time::Duration::from_millis(50));
    }
}

#[test]
fn a_signal_ends_a_worker_in_a_run_and_the_run_with_it() {
    let (folder, code, _) = lost("-TERM");
    assert_eq!(code, Some(1));
    names_the_lost_worker(&folder);
    let summary = folder.read("out/summary.json");
    assert!(summary.contains("it was interrupted"), "{summary}");
}

/// Returns the arguments of a short run of this system with its own output folder.
fn short(spec: &str, out: &str) -> String {
    format!("run --system {spec} {}", SHORT.replace("--out out", &format!("--out {out}")))
}

#[test]
fn a_worker_elsewhere_uses_what_it_was_allowed_to() {
    let folder = Folder::new();
    let server = dyno_net::faults::FaultServer::start("127.0.0.1:0").unwrap();
    folder.write("secret.txt", "{\"secret\": 1}");
    let spec = format!(
        "raw:http://{}/conc,method=POST,body=@secret.txt,token-env=DYNO_TEST_SECRET",
        server.address
    );
    let grants = [
        ("", ["hosts:127.0.0.1", "files:secret.txt", "env:DYNO_TEST_SECRET"].as_slice()),
        ("--allow hosts --allow files", ["env:DYNO_TEST_SECRET"].as_slice()),
        ("--allow hosts --allow files:secret.txt --allow env:DYNO_TEST_SECRET", [].as_slice()),
    ];
    for (number, (allow, missing)) in grants.into_iter().enumerate() {
        let mut coordinator = coordinator(&folder, &short(&spec, &format!("out-{number}")));
        let Some(address) = tunnel(&coordinator.address) else {
            coordinator.child.kill().unwrap();
            return;
        };
        let before = server.requests().len();
        let worker = joining(&folder, &address, "of this test", allow).output().unwrap();
        let ran = ProgramResult::from(worker).exits(if missing.is_empty() { 0 } else { 3 });
        let (code, said) = coordinator.ends();
        for flag in missing {
            for said in [&ran.stderr, &said] {
                assert!(said.contains(&format!("--allow {flag}")), "{flag}: {said}");
            }
        }
        let sent = server.requests().split_off(before);
        let keys = sent.iter().filter_map(|request| request.field("authorization"));
        let of_victim = keys.filter(|key| key.contains("the victim's")).count();
        assert_eq!(of_victim > 0, missing.is_empty(), "{said}");
        assert_eq!(code == Some(3), !missing.is_empty(), "{said}");
    }
}

#[test]
fn a_secret_is_not_used_for_a_coordinator_of_this_machine_either() {
    let folder = Folder::new();
    let server = dyno_net::faults::FaultServer::start("127.0.0.1:0").unwrap();
    let spec = format!("raw:http://{}/conc,method=POST", server.address);
    let run = |spec: &str, out: &str, code: i32| {
        let coordinator = coordinator(&folder, &short(spec, out));
        let worker = coordinator.worker(&folder).wait_with_output().unwrap();
        let ran = ProgramResult::from(worker).exits(code);
        coordinator.ends();
        ran.stderr
    };
    // The server itself needs no grant there.
    run(&spec, "one", 0);
    let said = run(&format!("{spec},token-env=DYNO_TEST_SECRET"), "two", 3);
    assert!(said.contains("--allow env:DYNO_TEST_SECRET"), "{said}");
    let requests = server.requests();
    let keys = requests.iter().filter_map(|request| request.field("authorization"));
    assert_eq!(keys.filter(|key| key.contains("the victim's")).count(), 0);
}

#[test]
#[cfg(target_os = "linux")]
fn a_signal_ends_a_worker_that_waits() {
    let folder = Folder::new();
    // One listener that accepts connections and sends nothing, and one address without a listener.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    // A free port could become that of another test.
    let unused = "127.0.0.1:1";
    let mut waiting = coordinator(&folder, LONG);
    let addresses =
        [silent.local_addr().unwrap().to_string(), unused.to_string(), waiting.address.clone()];
    for address in addresses {
        let mut command = folder.command(&format!("worker --join {address} --within 300s"));
        command.env("DYNO_WORKER_TOKEN", "of this test").stderr(Stdio::piped());
        let mut worker = command.spawn().unwrap();
        let expected = match &address {
            address if *address == waiting.address => Some("joined"),
            address if address == unused => Some("waiting for a coordinator at 127.0.0.1:1"),
            _ => None,
        };
        if let Some(expected) = expected {
            let mut lines = BufReader::new(worker.stderr.take().unwrap()).lines();
            assert!(lines.any(|line| line.unwrap().contains(expected)), "{expected}");
        }
        while worker.try_wait().unwrap().is_none() && !handles_signals(worker.id()) {
            std::thread::yield_now();
        }
        send("-TERM", worker.id());
        assert_eq!(worker.wait().unwrap().code(), Some(130), "{address}");
    }
    waiting.child.kill().unwrap();
    waiting.ends();
}

/// Whether a process has a handler for SIGTERM.
#[cfg(target_os = "linux")]
fn handles_signals(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask & (1 << (15 - 1)) != 0)
}
