//! `dyno compare --with`: another load generator in turn with Dyno. A script stands for aiperf: it
//! writes files in aiperf's format with times that are known here.

use std::process::Command;

use serde_json::Value;

use crate::program::{Folder, ProgramResult};
use crate::serve::ServerProcess;
use crate::servers::{JSON, Server};

/// Writes the results of requests that are 100 ms apart: each is sent 4 ms after its release, its
/// first token comes 25 ms later, and its last of 8 after 95 ms. The first one takes 6 ms to connect. No two
/// runs are equal: in the n-th one, the requests are n ns further apart.
const SCRIPT: &str = r#"#!/bin/sh
echo "$@" >> aiperf.arguments
while [ $# -gt 0 ]; do
    case $1 in --artifact-dir) out=$2 ;; --request-count) requests=$2 ;; esac
    shift
done
[ -e fail ] && { echo "ERROR    no tokenizer"; exit 7; }
[ -e silent ] && exit 0
reused=0 number=0 run=$(wc -l < aiperf.arguments)
while [ $number -lt $requests ]; do
    released=$((1700000000000000000 + number * (100000000 + run)))
    sent=$((released + 4000000)) ended=$((released + 99000000))
    echo "{\"metadata\":{\"session_num\":$number,\"credit_issued_ns\":$released,\"request_start_ns\":$sent,\"request_end_ns\":$ended,\"benchmark_phase\":\"profiling\",\"was_cancelled\":false},\"metrics\":{\"output_sequence_length\":{\"value\":8,\"unit\":\"tokens\"},\"request_latency\":{\"value\":95.0,\"unit\":\"ms\"},\"time_to_first_token\":{\"value\":25.0,\"unit\":\"ms\"},\"http_req_connection_reused\":{\"value\":$reused,\"unit\":\"ratio\"},\"http_req_connecting\":{\"value\":6.0,\"unit\":\"ms\"},\"usage_prompt_tokens\":{\"value\":128,\"unit\":\"tokens\"}}}" >> "$out/profile_export.jsonl"
    reused=1 number=$((number + 1))
done
echo '{"aiperf_version":"0.13.0","input_config":{"endpoint":{"use_server_token_count":true}}}' > "$out/profile_export_aiperf.json"
"#;

/// A folder with a script `bin/aiperf`.
fn with_script() -> Folder {
    let folder = Folder::new();
    folder.write("bin/aiperf", SCRIPT);
    let status = Command::new("chmod").arg("+x").arg(folder.0.join("bin/aiperf")).status();
    assert!(status.unwrap().success());
    folder
}

/// Runs the program with the script on the path.
fn dyno(folder: &Folder, arguments: &str) -> ProgramResult {
    let path = std::env::var("PATH").unwrap();
    let mut command = folder.command(arguments);
    command.env("PATH", format!("{}:{path}", folder.0.join("bin").display()));
    command.env_remove("VIRTUAL_ENV").env_remove("CONDA_PREFIX").output().unwrap().into()
}

fn row<'a>(report: &'a Value, metric: &str) -> &'a Value {
    let metrics = report["tests"][0]["metrics"].as_array().unwrap();
    metrics.iter().find(|row| row["metric"] == metric).unwrap_or_else(|| panic!("{report:#}"))
}

fn reason<'a>(report: &'a Value, kind: &str) -> &'a Value {
    let reasons = report["peer"]["reasons"].as_array().unwrap();
    reasons.iter().find(|reason| reason["kind"] == kind).unwrap_or_else(|| panic!("{report:#}"))
}

#[test]
fn figures_of_both_tools_stand_in_one_table_with_proven_reasons() {
    let folder = with_script();
    let server =
        ServerProcess::start(&folder, "--system tokens:first=5ms,each=1ms,tokens=8,slots=2");
    let arguments = format!(
        "compare --with aiperf http://{} --num-prompts 20 --max-concurrency 2 \
         --set max_client_lag_ns=0 --out pairs",
        server.address()
    );
    let report = dyno(&folder, &format!("{arguments} --json")).exits(0).json();
    let labels = ["Dyno", "aiperf 0.13.0"];
    assert_eq!(report["labels"], serde_json::json!(labels));
    assert_eq!(report["tests"][0]["runs"], serde_json::json!([3, 3]));
    assert_eq!(report["tests"][0]["headline"], "ttft-mean");
    // The times count from the release: 25 + 4, 95 + 4, and (95 - 25) / 7 ms.
    let expected = [("ttft-mean", 29e6), ("mean", 99e6), ("tpot-mean", 10e6)];
    for (metric, ns) in expected {
        let found = row(&report, metric)["candidate"].as_f64().unwrap();
        assert!((found / ns - 1.0).abs() < 1e-6, "{metric}: {found}");
        let [low, high] = ["low", "high"].map(|limit| row(&report, metric)[limit].as_f64());
        assert!(low.unwrap() <= high.unwrap(), "{metric} has an interval");
    }
    // 6 ms of one of 20 requests.
    assert_eq!(reason(&report, "connections")["difference"], 0.3e6);
    let waiting = reason(&report, "waiting");
    assert!(waiting["difference"].as_f64().unwrap() <= 4e6, "4 ms, less what Dyno waits");
    let text = waiting["text"].as_str().unwrap();
    assert!(text.starts_with("aiperf sends a request 4.00 ms after it releases it"), "{text}");
    let text = reason(&report, "in_flight")["text"].as_str().unwrap();
    // 20 times 95 ms within 1,999 ms.
    assert!(text.starts_with("aiperf keeps 0.95 of 2 requests in flight"), "{text}");
    let same = |kind: &str| reason(&report, kind)["difference"].as_f64().unwrap().abs() < 1e-9;
    assert!(same("output_tokens") && same("input_tokens"), "{report:#}");

    // The folder is read again.
    let again = folder.dyno("compare pairs").exits(0);
    assert!(
        again.stdout.contains("aiperf 0.13.0: pairs/b-1, pairs/b-2, pairs/b-3"),
        "{}",
        again.stdout
    );
    assert!(again.stdout.contains("throughput: aiperf keeps 0.95 of 2"), "{}", again.stdout);
    assert!(
        again.stdout.contains("│ DIFFERENT ") && again.stdout.contains("  different"),
        "{}",
        again.stdout
    );
    assert!(
        !again.stdout.contains("worse") && !again.stdout.contains("better"),
        "{}",
        again.stdout
    );
    folder.dyno("compare pairs --strict").exits(1);
}

#[test]
fn metrics_that_one_tool_does_not_measure_are_left_out_in_one_line() {
    let folder = with_script();
    let served = "--system tokens:first=5ms,each=1ms,tokens=8,slots=2 --model-name m";
    let server = ServerProcess::start(&folder, served);
    // Whole answers have no times of tokens; the script reports some nevertheless.
    let arguments = format!(
        "compare --with aiperf --interleave 2 --system openai:http://{}/v1,model=m,stream=false \
         --num-prompts 20 --max-concurrency 2 --set max_client_lag_ns=0 --out pairs",
        server.address()
    );
    let report = dyno(&folder, &format!("{arguments} --json")).exits(0).json();
    assert_eq!(report["tests"][0]["headline"], "mean");
    assert!(!report["tests"][0]["metrics"].to_string().contains("ttft"), "{report:#}");
    assert!(!report["tests"][0]["omitted"].to_string().contains("ttft"), "{report:#}");
    let notes = report["tests"][0]["notes"].to_string();
    let note = "because not every run measures them: ttft-mean, ttft-p50, ttft-p99, tpot-mean";
    assert_eq!(notes.matches(note).count(), 1, "{notes}");
    let asked = folder.dyno("compare pairs --metric ttft-mean").exits(2).stderr;
    let reason = "the baseline does not measure the mean time to first token";
    assert!(asked.contains(reason), "{asked}");
}

/// Answers of a model to completions.
fn texts(path: &str, body: &Value) -> (u16, &'static str, String) {
    if path == "/v1/models" {
        return (200, JSON, r#"{"object":"list","data":[{"id":"only","object":"model"}]}"#.into());
    }
    assert_eq!(body["model"], "only", "{body}");
    let events = "data: {\"choices\":[{\"index\":0,\"text\":\"word\",\"finish_reason\":\"stop\"}]}\n\n\
                  data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}\n\n\
                  data: [DONE]\n\n";
    (200, "text/event-stream", events.into())
}

#[test]
fn the_other_tool_gets_the_bodies_that_dyno_sends_in_its_order() {
    let folder = with_script();
    let server = Server::start(texts);
    folder.write(
        "rows.jsonl",
        &(0..9)
            .map(|n| format!("{{\"prompt\":\"row {n}\",\"max_tokens\":{}}}\n", n + 2))
            .collect::<String>(),
    );
    let arguments = format!(
        "compare --with aiperf --interleave 2 --system openai:http://{}/v1,model=only,temperature:=0.5 \
         --data rows.jsonl --num-prompts 12 --max-concurrency 1 --quiet --out pairs",
        server.address
    );
    dyno(&folder, &arguments).exits(0);
    let sent = server.bodies.lock().unwrap().clone();
    let prompts: Vec<&Value> =
        sent.iter().filter(|body| body["max_tokens"].as_u64() > Some(1)).collect();
    assert_eq!(prompts.len(), 24, "12 of each run of Dyno");
    // Dyno plays a-1 first and a-2 last.
    for (run, sent) in ["pairs/b-1", "pairs/b-2"].into_iter().zip(prompts.chunks(12)) {
        let given: Value =
            serde_json::from_str(&folder.read(&format!("{run}/requests.json"))).unwrap();
        let given: Vec<&Value> =
            given["data"].as_array().unwrap().iter().map(|one| &one["payloads"][0]).collect();
        assert_eq!(given, sent, "{run}");
    }
    let arguments = folder.read("aiperf.arguments");
    assert_eq!(arguments.lines().count(), 2);
    for part in [
        "profile --model only --url http://127.0.0.1:",
        "--custom-endpoint /v1/completions --endpoint-type completions",
        "--request-count 12 --concurrency 1",
        "--use-server-token-count",
        "--streaming",
    ] {
        assert!(arguments.contains(part), "{part}: {arguments}");
    }
}

#[test]
fn a_rate_has_the_arrivals_of_dyno_and_its_cap() {
    let folder = with_script();
    let server = Server::start(texts);
    let arguments = format!(
        "compare --with aiperf http://{} --num-prompts 4 --request-rate 50 --burstiness 2 \
         --max-concurrency 3 --warm-up 2 --dry-run",
        server.address
    );
    let plan = dyno(&folder, &arguments).exits(0).stdout;
    for part in [
        "4 requests, 50.00/s, at most 3 in flight",
        "--arrival-smoothness 2 --request-rate 50 --arrival-pattern gamma --concurrency 3",
        "--warmup-request-count 2",
        "3 pairs, in the order a b b a a b",
    ] {
        assert!(plan.contains(part), "{part}: {plan}");
    }
}

#[test]
fn a_tool_that_is_missing_or_fails_is_reported_with_what_to_do() {
    let folder = with_script();
    let server = Server::start(texts);
    let arguments = format!(
        "compare --with aiperf http://{} --num-prompts 4 --max-concurrency 1",
        server.address
    );
    let mut command = folder.command(&arguments);
    command.env("PATH", "empty").env_remove("VIRTUAL_ENV").env_remove("CONDA_PREFIX");
    let ran = ProgramResult::from(command.output().unwrap()).exits(3);
    assert!(ran.stderr.contains("hint: install it: pip install aiperf"), "{}", ran.stderr);
    // The active environment counts, too.
    let mut command = folder.command(&format!("{arguments} --dry-run"));
    command.env("PATH", "empty").env("VIRTUAL_ENV", &folder.0);
    ProgramResult::from(command.output().unwrap()).exits(0);

    folder.write("fail", "");
    let ran = dyno(&folder, &format!("{arguments} --out failed")).exits(4);
    assert!(
        ran.stderr.contains("aiperf failed (exit status: 7): ERROR    no tokenizer"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("failed/b-1/aiperf.txt"), "{}", ran.stderr);
    std::fs::remove_file(folder.0.join("fail")).unwrap();
    folder.write("silent", "");
    let ran = dyno(&folder, &format!("{arguments} --out silent-runs")).exits(4);
    assert!(ran.stderr.contains("aiperf wrote no profile_export.jsonl"), "{}", ran.stderr);
}

#[test]
fn what_the_other_tool_cannot_repeat_is_rejected() {
    let folder = with_script();
    let server = Server::start(texts);
    let system = format!("openai:http://{}/v1,model=only", server.address);
    let table = [
        ("--system model:fixed=1ms", "`model:fixed=1ms` is not a server"),
        (
            &*format!("--system {system},unique-prefix=true --max-concurrency 1"),
            "each request is unique",
        ),
        (
            &*format!("--system {system},header.x-key=secret --max-concurrency 1"),
            "header fields or a token",
        ),
        (&*format!("--system {system} --max-concurrency 1 --duration 5s"), "--duration 5.00 s"),
        (&*format!("--system {system} --scenario offline"), "Offline is no load of servers"),
        ("http://127.0.0.1:1 http://127.0.0.1:2", "needs one server, found 2 arguments"),
    ];
    for (arguments, expected) in table {
        let ran = dyno(&folder, &format!("compare --with aiperf {arguments} --dry-run")).exits(2);
        assert!(ran.stderr.contains(expected), "{arguments}: {}", ran.stderr);
        assert!(ran.stderr.contains("hint: "), "{}", ran.stderr);
    }
}
