//! Runs at a rate that the server does not keep up with.

use std::io::{BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use crate::http_request::read_request;
use crate::program::Folder;

/// What a server does with requests while it answers another one.
#[derive(Clone, Copy, PartialEq)]
enum Busy {
    /// They wait.
    Queues,
    /// They are refused (429).
    Refuses,
}

/// Starts a server of texts that answers 50 requests/s, one after the other. Returns its address and the
/// number of its answers.
fn start(busy: Busy) -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (turn, answers) = (Arc::new(Mutex::new(())), Arc::<AtomicU64>::default());
    let counted = Arc::clone(&answers);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (turn, answers) = (Arc::clone(&turn), Arc::clone(&counted));
            std::thread::spawn(move || serve(stream.unwrap(), &turn, &answers, busy));
        }
    });
    (address, answers)
}

fn serve(stream: TcpStream, turn: &Mutex<()>, answers: &AtomicU64, busy: Busy) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    let (_sender, never) = std::sync::mpsc::channel::<()>();
    while let Some((_, body)) = read_request(&mut reader) {
        let turn = match busy {
            Busy::Queues => turn.lock().ok(),
            Busy::Refuses => turn.try_lock().ok(),
        };
        if turn.is_none() {
            let refused =
                "HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n";
            if writer.write_all(refused.as_bytes()).is_err() {
                return;
            }
            continue;
        }
        if !body.is_empty() {
            let _ = never.recv_timeout(Duration::from_millis(20));
        }
        drop(turn);
        answers.fetch_add(1, Ordering::Relaxed);
        let body = r#"{"choices":[{"index":0,"text":"one","finish_reason":"stop"}],"usage":{"completion_tokens":1}}"#;
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        if writer.write_all(format!("{head}{body}").as_bytes()).is_err() {
            return;
        }
    }
}

fn run(folder: &Folder, address: SocketAddr, options: &str) -> (Option<i32>, Value) {
    let ran = folder.dyno(&format!(
        "run --system openai:http://{address},model=m,stream=false,metrics=off --scenario Server \
         --out out -q {options}"
    ));
    let summary = std::fs::read_to_string(folder.0.join("out/summary.json"));
    let summary = summary.unwrap_or_else(|error| panic!("{error}: {}", ran.stderr));
    (ran.code, serde_json::from_str(&summary).unwrap())
}

#[test]
fn a_queue_without_bound_ends_the_run_with_that_finding() {
    let ((address, answers), folder) = (start(Busy::Queues), Folder::new());
    let (code, summary) = run(&folder, address, "--qps 150 --duration 120s");
    let test = &summary["tests"][0];
    assert_eq!((code, &test["verdict"]), (Some(1), &"INVALID".into()), "{test}");
    let reason = test["reasons"][0].as_str().unwrap();
    assert!(reason.starts_with("Over-saturated: the queue grew by "), "{reason}");
    assert_eq!(test["causes"][0]["kind"], "saturated");
    assert_eq!(test["causes"][0]["cause"], "system", "it is not the client's fault");
    // The run is far shorter than it was to be.
    let at = test["saturated"]["at_ns"].as_u64().unwrap();
    assert!(at < 90_000_000_000, "{at}");
    // The rate is that of the answers that the server counted, over the whole time.
    let found = test["saturated"]["completions_per_s"].as_f64().unwrap();
    let counted = answers.load(Ordering::Relaxed) as f64 / (at as f64 / 1e9);
    assert!((found / counted - 1.0).abs() < 0.4, "{found} and {counted} by the server");
    assert!(test["saturated"]["backlog"].as_u64().unwrap() > 100, "{test}");
}

#[test]
fn a_backlog_of_refused_requests_leaves_the_verdict_undecided() {
    let ((address, _), folder) = (start(Busy::Refuses), Folder::new());
    let ran = folder.dyno(&format!(
        "run --system openai:http://{address},model=m,stream=false,metrics=off,retries=250 \
         --scenario Server --out out -q --qps 100 --duration 12s"
    ));
    let summary = std::fs::read_to_string(folder.0.join("out/summary.json"));
    let summary = summary.unwrap_or_else(|error| panic!("{error}: {}", ran.stderr));
    let summary: Value = serde_json::from_str(&summary).unwrap();
    let test = &summary["tests"][0];
    // Requests come back in any order, so that the run is not ended.
    assert_eq!((ran.code, &test["verdict"]), (Some(1), &"UNDECIDED".into()), "{test}");
    let reason = test["reasons"].to_string();
    assert!(reason.contains("The backlog still grew when the run ended"), "{reason}");
}

/// `off` lets the run go on, but its latencies still depend on its length.
#[test]
fn an_overloaded_run_that_may_go_on_is_not_valid() {
    let ((address, _), folder) = (start(Busy::Queues), Folder::new());
    let (code, summary) = run(&folder, address, "--qps 100 --duration 6s --stop-on-saturation off");
    let test = &summary["tests"][0];
    assert_eq!((code, &test["saturated"]), (Some(1), &Value::Null), "{test}");
    let reason = test["reasons"].to_string();
    assert!(reason.contains("The backlog still grew when the run ended"), "{reason}");
    // M/M/1 with 800 queries/s for 500/s, without a bound that would show it.
    let model = "run --system model:exponential=2ms --scenario server --mode performance --qps 800 \
                 --duration 10s --set server_target_latency_ns=1000s";
    let ran = folder.dyno(&format!("{model} --json --out model")).exits(1);
    let test = &ran.json()["tests"][0];
    assert_eq!(test["verdict"], "UNDECIDED", "{test}");
    assert!(test["reasons"].to_string().contains("The backlog still grew"), "{test}");
    let repeated = format!("{model} --set repetition=minimum:2 --json --out repeated");
    let ran = folder.dyno(&repeated).exits(1);
    assert!(ran.json()["tests"][0]["reasons"].to_string().contains("The backlog still grew"));
}

/// A server of 16 queries/s at 20 queries/s for 30 s: the queue grows by 120 queries, 3.6 standard errors of
/// the counts. It leaves the verdict undecided, or is noted.
#[test]
fn an_overload_is_noted_if_it_does_not_decide_the_verdict() {
    let folder = Folder::new();
    let model = "run --system model:fixed=62500us --scenario server --mode performance --qps 20 \
                 --duration 30s --set server_target_latency_ns=1000s";
    let has_growth = |seed: &u32| {
        let ran = folder.dyno(&format!("{model} --json --seed {seed} --out seed-{seed}"));
        let run = ran.json();
        let test = &run["tests"][0];
        let is_undecided = test["reasons"].to_string().contains("The backlog still grew");
        let is_noted = test["notes"].to_string().contains("/s offered: the queue grew during");
        assert!(!(is_undecided && is_noted), "{test}");
        is_undecided || is_noted
    };
    let grown = (1..=6).filter(has_growth).count();
    assert!(grown >= 4, "{grown}");
    // Half of that load is no overload.
    let half = model.replace("--qps 20 --duration 30s", "--qps 8 --duration 90s");
    let ran = folder.dyno(&format!("{half} --json --out half"));
    assert!(!ran.json()["tests"][0]["notes"].to_string().contains("the queue grew"));
}

#[test]
fn a_queue_for_the_limit_of_the_client_is_not_the_fault_of_the_server() {
    let ((address, _), folder) = (start(Busy::Queues), Folder::new());
    let options = "--qps 100 --duration 6s --stop-on-saturation off --max-concurrency 1";
    let (code, summary) = run(&folder, address, options);
    let test = &summary["tests"][0];
    assert_eq!(code, Some(1), "{test}");
    let reasons = test["reasons"].to_string();
    assert!(reasons.contains("--max-concurrency permits 1 request in flight"), "{reasons}");
    assert!(!reasons.contains("whether the server keeps up"), "{reasons}");
    assert_eq!(test["causes"][0]["text"], test["reasons"][0]);
}

#[test]
fn a_rate_that_the_server_keeps_is_not_ended() {
    let ((address, _), folder) = (start(Busy::Queues), Folder::new());
    let (_, summary) = run(&folder, address, "--qps 25 --duration 12s --stop-on-saturation on");
    let test = &summary["tests"][0];
    assert_eq!(test["saturated"], Value::Null);
    assert!(!test["reasons"].to_string().contains("saturated"), "{test}");
    assert!(test["metrics"]["sample_count"].as_u64() > Some(200), "{test}");
}

#[test]
fn the_option_belongs_to_runs_that_can_be_saturated() {
    let folder = Folder::new();
    let ran = folder.dyno("run --system model:fixed=1ms --scenario Server --stop-on-saturation on");
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("stop"), "{}", ran.stderr);
    let stages = "run --system digits --scenario Server --stages 1s@5 --stop-on-saturation on";
    let ran = folder.dyno(stages).exits(2);
    assert!(ran.stderr.contains("the rate of stages and recorded times varies"), "{}", ran.stderr);
    let ran = folder.dyno("run --system digits --scenario Offline --stop-on-saturation on");
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
}

/// 150 queries/s arrive and 100 are answered: after 20 s, 1,000 wait, for 10 s of the allowed 60 s.
#[test]
fn a_run_by_the_rules_notes_a_backlog_that_grew() {
    let folder = Folder::new();
    let run = "run --system model:fixed=10ms --scenario Server --profile rules --mode performance \
               --qps 150 --set server_target_latency_ns=60000000000 --set min_duration_ms=20000 \
               --set min_query_count=1 --json --out ruled";
    let found = folder.dyno(run).json();
    let notes = found["tests"][0]["notes"].to_string();
    assert!(notes.contains("The backlog still grew when the run ended"), "{found}");
    assert_ne!(found["verdict"], "UNDECIDED", "{found}");
}
