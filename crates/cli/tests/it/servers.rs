//! Servers as systems: requests sent, observations of the client, and what counts.

use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::http_request::{read_request, target};
use crate::program::Folder;

pub mod gateways;
mod hostile;
mod tensors;
mod urls;

/// What a server answers to a path with a body: status, type, body.
pub type Answer = fn(&str, &Value) -> (u16, &'static str, String);

/// Requests received so far.
type RequestLog<T> = Arc<Mutex<Vec<T>>>;

/// A server with a thread for each connection, for as long as the tests run.
pub struct Server {
    pub address: SocketAddr,
    /// Request heads received.
    heads: RequestLog<String>,
    /// Request bodies received.
    pub bodies: RequestLog<Value>,
}

impl Server {
    pub fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (heads, bodies) = (Arc::default(), Arc::default());
        let address = listener.local_addr().unwrap();
        let log = (Arc::clone(&heads), Arc::clone(&bodies));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let log = log.clone();
                std::thread::spawn(move || serve(stream.unwrap(), answer, &log));
            }
        });
        Self { address, heads, bodies }
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

/// Answers one request after the other, until the client goes away.
fn serve(
    stream: TcpStream,
    answer: Answer,
    (heads, bodies): &(RequestLog<String>, RequestLog<Value>),
) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    while let Some((head, body)) = read_request(&mut reader) {
        let path = target(&head).to_owned();
        // Its metrics page is another test's.
        if path == "/metrics" {
            let none = b"HTTP/1.1 404 X\r\ncontent-length: 0\r\n\r\n";
            if writer.write_all(none).is_err() {
                return;
            }
            continue;
        }
        heads.lock().unwrap().push(head);
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        bodies.lock().unwrap().push(body.clone());
        let (status, kind, body) = answer(&path, &body);
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n"
        );
        if writer.write_all(format!("{head}{body}").as_bytes()).is_err() {
            return;
        }
    }
}

pub const JSON: &str = "application/json";

/// A model whose scores are its input.
fn echo(path: &str, body: &Value) -> (u16, &'static str, String) {
    match path {
        "/v2/models/echo" => {
            let tensor = |name| json!({"name": name, "datatype": "FP32", "shape": [-1, 3]});
            let model = json!({"name": "echo", "versions": ["1"], "platform": "test",
                "inputs": [tensor("x")], "outputs": [tensor("y")]});
            (200, JSON, model.to_string())
        }
        "/v2/models/echo/infer" => {
            let x = &body["inputs"][0];
            let y =
                json!({"name": "y", "datatype": "FP32", "shape": x["shape"], "data": x["data"]});
            (200, JSON, json!({"model_name": "echo", "outputs": [y]}).to_string())
        }
        _ => (404, JSON, json!({"error": format!("no {path}")}).to_string()),
    }
}

/// Returns four words for each prompt, and their count if requested.
fn four_words(_: &str, body: &Value) -> (u16, &'static str, String) {
    let mut events = String::new();
    for word in ["one ", "two ", "three ", "four"] {
        let choice = match body.get("messages") {
            Some(_) => json!({"delta": {"content": word}}),
            None => json!({"text": word}),
        };
        events += &format!("data: {}\n\n", json!({"choices": [choice]}));
    }
    if body["stream_options"]["include_usage"] == true {
        events += "data: {\"choices\":[],\"usage\":{\"completion_tokens\":9}}\n\n";
    }
    (200, "text/event-stream", events + "data: [DONE]\n\n")
}

fn full(_: &str, _: &Value) -> (u16, &'static str, String) {
    (429, JSON, json!({"error": {"message": "queue full"}}).to_string())
}

fn summary(folder: &Folder) -> Value {
    serde_json::from_str(&folder.read("out/summary.json")).unwrap()
}

/// An array of NumPy, version 1.0 of its format.
fn npy(folder: &Folder, name: &str, descr: &str, shape: &str, data: &[u8]) {
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let length = u16::try_from(header.len()).unwrap().to_le_bytes();
    let bytes = [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), data].concat();
    std::fs::write(folder.0.join(name), bytes).unwrap();
}

#[test]
fn a_model_behind_the_protocol_is_scored_and_measured() {
    let (server, folder) = (Server::start(echo), Folder::new());
    let scores = [[0.0_f32, 2.0, 1.0], [5.0, 1.0, 1.0], [0.0, 0.0, 3.0], [9.0, 0.0, 0.0]];
    let bytes: Vec<u8> = scores.iter().flatten().flat_map(|x| x.to_le_bytes()).collect();
    npy(&folder, "x.npy", "<f4", "(4, 3)", &bytes);
    // The last label differs from the scores.
    let labels: Vec<u8> = [1_i64, 0, 2, 2].iter().flat_map(|x| x.to_le_bytes()).collect();
    npy(&folder, "y.npy", "<i8", "(4,)", &labels);
    let ran = folder.dyno(&format!(
        "run --system oip:http://{}/echo --data x.npy --labels y.npy --scenario SingleStream \
         --duration 50ms --set min_query_count=100 --goodput e2el:60000 --out out -q",
        server.address
    ));
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
    let summary = summary(&folder);
    let [accuracy, performance] = &summary["tests"].as_array().unwrap()[..] else {
        panic!("two tests")
    };
    assert_eq!(accuracy["accuracy"]["value"], 0.75);
    let metrics = &performance["metrics"];
    assert_eq!(metrics["goodput"]["share"], 1.0);
    let client = &summary["clients"][1];
    assert!(client["sent"].as_u64() >= metrics["sample_count"].as_u64(), "{client}");
    assert_eq!(client["tokens_counted_by"], json!({"nobody": client["sent"]}));
    assert_eq!(client["latency_from_issue_ns"]["count"], metrics["sample_count"]);
    let heads = server.heads();
    assert!(heads[0].starts_with("GET /v2/models/echo HTTP/1.1"), "{}", heads[0]);
    assert!(heads.last().unwrap().starts_with("POST /v2/models/echo/infer"));
}

#[test]
fn what_a_model_does_not_take_is_refused_before_it_is_measured() {
    let (server, folder) = (Server::start(echo), Folder::new());
    npy(&folder, "x.npy", "<f4", "(1, 2)", &[0; 8]);
    let ran = folder.dyno(&format!("run --system oip:http://{}/echo --data x.npy", server.address));
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("[2], but model 'echo' expects [-1, 3]"), "{}", ran.stderr);
    npy(&folder, "y.npy", "<f4", "(1, 3)", &[0; 12]);
    let system = format!("--system oip:http://{}/echo", server.address);
    let ran = folder.dyno(&format!("run {system} --data x.npy --data y.npy"));
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("has two files: x.npy and y.npy"), "{}", ran.stderr);
    let ran = folder.dyno(&format!("run --system oip:http://{}/other", server.address));
    assert_eq!(ran.code, Some(3));
    assert!(ran.stderr.contains("HTTP status 404: no /v2/models/other"), "{}", ran.stderr);
    assert!(server.heads().iter().all(|head| head.starts_with("GET ")), "nothing was measured");
}

#[test]
fn streams_are_timed_and_whoever_counts_tokens_is_told() {
    let (server, folder) = (Server::start(four_words), Folder::new());
    folder.write(
        "prompts.jsonl",
        "{\"prompt\":\"a\",\"answer\":\"one two three four\"}\n{\"prompt\":\"b\",\"answer\":\"5\"}\n",
    );
    let run = |options: &str| {
        let ran = folder.dyno(&format!(
            "run --system openai:http://{},model=m{options} --data prompts.jsonl --scenario \
             SingleStream --duration 50ms --mode both --set min_query_count=20 --goodput ttft:60000 --out out -q",
            server.address
        ));
        assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
        let summary = summary(&folder);
        let report = folder.read("out/report.html");
        for shown in ["<h3>The client</h3>", "Inter-token latency", "between two parts"] {
            assert!(report.contains(shown), "{shown}");
        }
        std::fs::remove_dir_all(folder.0.join("out")).unwrap();
        summary
    };
    let counted = run("");
    assert_eq!(counted["tests"][0]["accuracy"]["value"], 0.5);
    assert_eq!(counted["tests"][0]["accuracy"]["metric"], "exact match");
    let (test, client) = (&counted["tests"][1], &counted["clients"][1]);
    let samples = test["metrics"]["sample_count"].as_u64().unwrap();
    assert_eq!(test["metrics"]["token_count"], 9 * samples);
    assert_eq!(test["metrics"]["first_token_ns"]["count"], samples);
    assert_eq!(test["metrics"]["goodput"]["samples"], samples);
    assert_eq!(client["inter_token_ns"]["count"], 3 * samples);
    assert_eq!(client["tokens_counted_by"], json!({"server": samples}));
    let guessed = run(",usage=false,chat=true");
    let (test, client) = (&guessed["tests"][1], &guessed["clients"][1]);
    let samples = test["metrics"]["sample_count"].as_u64().unwrap();
    assert_eq!(test["metrics"]["token_count"], 4 * samples);
    assert_eq!(client["tokens_counted_by"], json!({"events": samples}));
    assert!(test["notes"].to_string().contains("assumes one token per part"), "{}", test["notes"]);
}

#[test]
fn tenants_load_servers_of_their_own() {
    let (texts, full, folder) = (Server::start(four_words), Server::start(full), Folder::new());
    let tenant = |name: &str, system: &str| {
        format!(
            "[[tenants]]\nname = \"{name}\"\n{system}[tenants.settings]\nserver_target_qps = 200\n\
             server_ttft_latency = \"60s\"\nserver_tpot_latency = \"60s\"\n"
        )
    };
    let other = format!("system = \"openai:http://{},model=n,max-tokens=5\"\n", full.address);
    folder.write("prompts.jsonl", "{\"prompt\":\"a\"}\n{\"prompt\":\"b\"}\n");
    folder.write(
        "dyno.toml",
        &format!(
            "version = 1\n[run]\nsystem = \"openai:http://{},model=m\"\nscenario = \"Server\"\n\
             data = \"prompts.jsonl\"\nduration = \"200ms\"\nout = \"out\"\n{}{}",
            texts.address,
            tenant("one", ""),
            tenant("other", &other)
        ),
    );
    let ran = folder.dyno("run --config dyno.toml -q").exits(2);
    assert!(ran.stderr.contains("tenant other has its own system"), "{}", ran.stderr);
    folder.dyno("run --config dyno.toml --mode performance --fail-fast off -q").exits(1);
    let summary = summary(&folder);
    let failed = |at: usize| &summary["tests"][at]["metrics"]["failed"];
    let samples = |at: usize| &summary["tests"][at]["metrics"]["sample_count"];
    assert_eq!(summary["tests"][0]["tenant"], "one");
    assert_eq!(failed(0)["rejected"], 0, "{summary}");
    // Every request of the other tenant went to the server that is full, as did the short one before
    // the clock.
    assert_eq!(failed(1)["rejected"].as_u64(), Some(full.heads().len() as u64 - 1), "{summary}");
    let bodies = full.bodies.lock().unwrap();
    assert!(bodies[1..].iter().all(|body| body["model"] == "n" && body["max_tokens"] == 5));
    assert_eq!(bodies[0]["max_tokens"], 1);
    assert_eq!(samples(0).as_u64(), Some(texts.heads().len() as u64 - 1));
}

#[test]
fn refused_samples_are_counted_explained_and_no_throughput() {
    let (server, folder) = (Server::start(full), Folder::new());
    let ran = folder.dyno(&format!(
        "run --system openai:http://{},retries=1 --samples 8 --scenario Server --qps 200 --mode \
         performance --duration 100ms --set min_query_count=20 --goodput e2el:60000 --out out -q \
         --fail-fast off --set max_client_lag_ns=0",
        server.address
    ));
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let summary = summary(&folder);
    let (metrics, client) = (&summary["tests"][0]["metrics"], &summary["clients"][0]);
    assert_eq!(metrics["sample_count"], 0);
    assert_eq!(metrics["failed"]["rejected"], metrics["query_count"]);
    assert_eq!(metrics["goodput"]["samples"], 0);
    let refused = &client["troubles"]["refused"];
    assert_eq!(refused["samples"], metrics["query_count"]);
    assert_eq!(refused["first"], "HTTP status 429: queue full");
    assert_eq!(client["retries"]["refused"], metrics["query_count"]);
    let reasons = summary["tests"][0]["reasons"].to_string();
    assert!(reasons.contains("refused, the first: HTTP status 429: queue full"), "{reasons}");
    assert!(!reasons.contains("faster"), "speed is no cure for failures: {reasons}");
}

#[test]
fn a_token_is_sent_and_written_nowhere() {
    let (server, folder) = (Server::start(four_words), Folder::new());
    let spec = format!("openai:http://{},token-env=DYNO_IT_TOKEN", server.address);
    let ran = folder
        .command(&format!(
            "run --system {spec} --samples 4 --scenario Offline --mode performance --set \
             offline_expected_qps=10 --duration 50ms --set min_query_count=4 --out out -q"
        ))
        .env("DYNO_IT_TOKEN", "s3cr3t-of-the-test")
        .output()
        .unwrap();
    assert!(matches!(ran.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&ran.stderr));
    let sent = "authorization: bearer s3cr3t-of-the-test";
    assert!(server.heads().iter().any(|head| head.to_ascii_lowercase().contains(sent)));
    let mut folders = vec![folder.0.join("out")];
    let mut files = 0;
    while let Some(path) = folders.pop() {
        for entry in std::fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let bytes = std::fs::read(&path).unwrap();
                let has_it = bytes.windows(6).any(|window| window == b"s3cr3t");
                assert!(!has_it, "{}", path.display());
                files += 1;
            }
        }
    }
    assert!(files > 4);
}

#[test]
fn a_recorded_trace_is_played_at_its_times() {
    let (server, folder) = (Server::start(four_words), Folder::new());
    // As many tokens at most as its number.
    let row = |n: u64| json!({"timestamp": n * 100, "input_length": 3, "output_length": n + 1});
    let rows: Vec<String> = (0..20).map(|n| row(n).to_string()).collect();
    folder.write("trace.jsonl", &rows.join("\n"));
    let ran = folder.dyno(&format!(
        "run --system openai:http://{},speed=10,connections=1 --data trace.jsonl --scenario Server --mode \
         performance --duration 1ms --set min_query_count=20 --out out -q",
        server.address
    ));
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
    let summary = summary(&folder);
    let (plan, metrics) = (&summary["tests"][0]["plan"], &summary["tests"][0]["metrics"]);
    assert_eq!(plan["arrivals"], "replay of 20 times");
    assert_eq!(metrics["query_count"], 20);
    let most: Vec<u64> = server
        .bodies
        .lock()
        .unwrap()
        .iter()
        .map(|body| body["max_tokens"].as_u64().unwrap())
        .collect();
    assert_eq!(
        most.iter().rev().take(20).rev().copied().collect::<Vec<_>>(),
        (1..=20).collect::<Vec<_>>()
    );
    // The 20th of one each 10 ms.
    assert!(metrics["lasted_ns"].as_u64().unwrap() >= 190_000_000, "{metrics}");
    // The rate is that of the times that were played: 19 gaps of 10 ms.
    assert!((plan["target_qps"].as_f64().unwrap() - 100.0).abs() < 0.01, "{plan}");
}

#[test]
fn a_recorded_trace_has_no_other_rate() {
    let (server, folder) = (Server::start(one_model), Folder::new());
    let row = |n: u64| json!({"timestamp": n * 5, "input_length": 3, "output_length": 2});
    let rows: Vec<String> = (0..20).map(|n| row(n).to_string()).collect();
    folder.write("trace.jsonl", &rows.join("\n"));
    let ran = folder
        .dyno(&format!("run {} --data trace.jsonl --request-rate 5 --out out", server.address))
        .exits(2);
    assert!(ran.stderr.contains("recorded times have no rate"), "{}", ran.stderr);
    assert!(ran.stderr.contains("speed=X"), "{}", ran.stderr);
    // The trace has a length of its own, which the default duration must not exceed.
    let ran = folder.dyno(&format!("run {} --data trace.jsonl --out out", server.address));
    assert!(!ran.stdout.contains("must last 30"), "{}", ran.stdout);
    let stops = "--data trace.jsonl --stop-on-saturation on --out stops";
    let ran = folder.dyno(&format!("run {} {stops}", server.address)).exits(2);
    assert!(ran.stderr.contains("the rate of stages and recorded times varies"), "{}", ran.stderr);
    let at_once: Vec<String> =
        (0..5).map(|_| json!({"timestamp": 7, "input_length": 3}).to_string()).collect();
    folder.write("once.jsonl", &at_once.join("\n"));
    let ran = folder.dyno(&format!("run {} --data once.jsonl --out once", server.address));
    assert!(ran.stdout.contains("offered all at once"), "{}", ran.stdout);
    assert!(folder.read("once/report.html").contains("Queries arrived all at once"));
}

/// The model of [`echo`], which stops answering after the third request.
fn hangs(path: &str, body: &Value) -> (u16, &'static str, String) {
    static ANSWERED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    if path.ends_with("/infer") {
        while ANSWERED.fetch_add(1, std::sync::atomic::Ordering::SeqCst) >= 3 {
            std::thread::park();
        }
    }
    echo(path, body)
}

#[test]
fn an_accuracy_run_that_is_interrupted_has_no_figure() {
    let (server, folder) = (Server::start(hangs), Folder::new());
    npy(&folder, "x.npy", "<f4", "(9, 3)", &[0; 9 * 3 * 4]);
    npy(&folder, "y.npy", "<i8", "(9,)", &[0; 9 * 8]);
    let mut command = folder.command(&format!(
        "run --system oip:http://{}/echo --data x.npy --labels y.npy --scenario SingleStream \
         --mode accuracy --out out",
        server.address
    ));
    let child = command.stderr(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let child = child.spawn().unwrap();
    // The request for the model's name, three answers, and a request that hangs.
    while server.heads().len() < 5 {
        std::thread::yield_now();
    }
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130));
    let test = &summary(&folder)["tests"][0];
    assert_eq!((&test["state"], &test["verdict"]), (&"interrupted".into(), &"INTERRUPTED".into()));
    let accuracy = &test["accuracy"];
    assert_eq!((&accuracy["value"], &accuracy["scored"]), (&Value::Null, &3.into()), "{accuracy}");
    assert!(!String::from_utf8(ended.stdout).unwrap().contains("100.00 %"));
    assert!(!folder.read("out/SingleStream/accuracy/mlperf_log_accuracy.json").is_empty());
}

/// A server with one model, which chats.
pub fn one_model(path: &str, body: &Value) -> (u16, &'static str, String) {
    match path {
        "/v1/models" => (200, JSON, json!({"data": [{"id": "tiny"}]}).to_string()),
        "/v1/chat/completions" if body["stream"] == true => four_words(path, body),
        "/v1/chat/completions" => {
            let choice = json!({"message": {"content": "one"}, "finish_reason": "length"});
            (200, JSON, json!({"choices": [choice]}).to_string())
        }
        _ => (404, JSON, json!({"error": {"message": "no such path"}}).to_string()),
    }
}

#[test]
fn a_url_is_enough_to_measure_the_only_model_of_a_server() {
    let (server, folder) = (Server::start(one_model), Folder::new());
    for url in ["http://ADDRESS", "ADDRESS/v1", "http://ADDRESS/v1/chat/completions"] {
        let url = url.replace("ADDRESS", &server.address.to_string());
        let ran = folder.dyno(&format!(
            "run {url} --num-prompts 6 --max-concurrency 2 --warm-up 3 --set max_client_lag_ns=0 \
             --out out"
        ));
        assert!(ran.stderr.contains("OpenAI-compatible: model tiny"), "{}", ran.stderr);
        assert!(ran.stdout.contains("TTFT"), "{}", ran.stdout);
        let found = summary(&folder);
        assert_eq!(
            (&found["profile"], found["tests"].as_array().unwrap().len()),
            (&json!("llm"), 1)
        );
        let test = &found["tests"][0];
        assert_eq!(test["plan"]["arrivals"], "concurrency:2");
        assert_eq!(test["metrics"]["answers"]["whole"], 6, "{test}");
        assert_eq!(test["plan"]["first_token_bound_ns"], Value::Null);
        assert_eq!(test["metrics"]["over_bound"]["first_token"], Value::Null);
        let page = folder.read("out/report.html");
        assert!(page.contains("2 in flight until the last request was sent at "), "a closed loop");
        assert!(!page.contains("arrived at"), "it has no rate");
        assert!(!page.contains("percentile certain enough"), "it was not judged");
        assert!(!page.contains("<h3>Early stopping</h3>"), "it was not judged");
        std::fs::remove_dir_all(folder.0.join("out")).unwrap();
    }
    // A question with and one without a stream, and for each run the warm-up and the test.
    let bodies = server.bodies.lock().unwrap();
    let asked: Vec<&Value> = bodies.iter().filter(|body| body.is_object()).collect();
    assert_eq!(asked.len(), 3 * (3 + 6) + 3 + 2, "the last URL names its path");
    assert!(asked.iter().all(|body| body["model"] == "tiny"));
}

#[test]
fn a_server_that_is_not_ready_is_waited_for() {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let loading: Answer = |path, body| {
        if path == "/v1/models" && ASKED.fetch_add(1, Ordering::Relaxed) < 3 {
            return (503, JSON, json!({"error": {"message": "loading"}}).to_string());
        }
        one_model(path, body)
    };
    let (server, folder) = (Server::start(loading), Folder::new());
    let ran = folder.dyno(&format!("run http://{}", server.address)).exits(3);
    assert!(ran.stderr.contains("answered HTTP status 503: loading"), "{}", ran.stderr);
    let run = "--ready-timeout 60s --num-prompts 6 --set max_client_lag_ns=0 --out";
    folder.dyno(&format!("run http://{} {run} out", server.address));
    assert_eq!(summary(&folder)["tests"][0]["metrics"]["answers"]["whole"], 6);

    // A system that is named is asked for what it accepts, in place of its models.
    static NAMED: AtomicU32 = AtomicU32::new(0);
    let loading: Answer = |path, body| {
        if path == "/v1/chat/completions" && NAMED.fetch_add(1, Ordering::Relaxed) < 3 {
            return (503, JSON, json!({"error": {"message": "loading"}}).to_string());
        }
        one_model(path, body)
    };
    let server = Server::start(loading);
    let system = format!("--system openai:http://{},model=tiny,chat=true", server.address);
    std::fs::remove_dir_all(folder.0.join("out")).unwrap();
    folder.dyno(&format!("run {system} {run} out"));
    assert_eq!(summary(&folder)["tests"][0]["metrics"]["answers"]["whole"], 6);

    // A wrong token stays wrong: the server is asked once.
    let closed: Answer = |_, _| (401, JSON, json!({"error": {"message": "no key"}}).to_string());
    let server = Server::start(closed);
    folder.dyno(&format!("run http://{} {run} closed", server.address)).exits(3);
    assert_eq!(server.heads().len(), 1, "{:?}", server.heads());
}

#[test]
fn a_url_that_cannot_be_measured_says_what_to_do() {
    let many: Answer = |path, body| match path {
        "/v1/models" => {
            (200, JSON, json!(Vec::from_iter((0..102).map(|n| n.to_string()))).to_string())
        }
        _ => one_model(path, body),
    };
    let several: Answer = |path, body| match path {
        "/v1/models" => (200, JSON, json!({"data": [{"id": "a"}, {"id": "b"}]}).to_string()),
        _ => one_model(path, body),
    };
    let closed: Answer = |_, _| (401, JSON, json!({"error": {"message": "no key"}}).to_string());
    // It lists its models to everyone.
    let half_closed: Answer = |path, body| match path {
        "/v1/models" => one_model(path, body),
        _ => (403, JSON, json!({"error": {"message": "no key"}}).to_string()),
    };
    let other: Answer = |_, _| (404, "text/plain", "nothing here".into());
    let always: Answer = |_, _| (200, "text/html", "<html></html>".into());
    let broken: Answer = |_, _| (500, JSON, json!({"error": {"message": "no GPU"}}).to_string());
    let folder = Folder::new();
    for (answer, code, words) in [
        (several, 2, "the server has 2 models: a, b"),
        (many, 2, "98, 99, and 2 more"),
        (closed, 3, "no key"),
        (half_closed, 3, "HTTP status 403: no key"),
        (half_closed, 3, "token-env=NAME"),
        (other, 3, "neither OpenAI-compatible"),
        (always, 3, "neither OpenAI-compatible"),
        (broken, 3, "answered HTTP status 500: no GPU"),
    ] {
        let ran = folder.dyno(&format!("run http://{}", Server::start(answer).address)).exits(code);
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
    }
    let ran = folder.dyno("run http://localhost:1 --system null").exits(2);
    assert!(ran.stderr.contains("select a system"), "{}", ran.stderr);
    let ran = folder.dyno("run http://127.0.0.1:1").exits(3);
    assert!(ran.stderr.contains("hint: start the server"), "{}", ran.stderr);
}

#[test]
fn a_list_of_models_in_another_form_is_read_or_not_needed() {
    let bare: Answer = |path, body| match path {
        "/v1/models" => (200, JSON, json!([{"id": "tiny", "type": "chat"}]).to_string()),
        _ => one_model(path, body),
    };
    let unknown: Answer = |path, body| match path {
        "/v1/models" => (200, JSON, json!({"catalog": ["tiny"]}).to_string()),
        _ => one_model(path, body),
    };
    let empty: Answer = |path, body| match path {
        "/v1/models" => (200, JSON, json!({"data": []}).to_string()),
        _ => one_model(path, body),
    };
    let folder = Folder::new();
    for (answer, key) in [(bare, ""), (unknown, ",model=tiny"), (empty, ",model=tiny")] {
        let address = Server::start(answer).address;
        let ran = folder.dyno(&format!(
            "run http://{address}{key} --num-prompts 2 --max-concurrency 1 --out out"
        ));
        assert!(ran.stderr.contains("OpenAI-compatible: model tiny"), "{}", ran.stderr);
        assert_eq!(summary(&folder)["tests"][0]["metrics"]["answers"]["whole"], 2);
        std::fs::remove_dir_all(folder.0.join("out")).unwrap();
    }
}

#[test]
fn a_plan_contacts_no_server() {
    let (listener, folder) = (TcpListener::bind("127.0.0.1:0").unwrap(), Folder::new());
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    for command in [
        format!("run http://{address} --num-prompts 7"),
        format!("run {address}/v2/models/m"),
        format!("run --system openai:http://{address},model=m,exact-input=usage --sweep=4"),
        format!("run --system oip:http://{address}/m --scenario offline"),
        format!("run --system oip-grpc:{address}/m --scenario offline"),
        format!("run --system raw:http://{address}/ --scenario offline"),
        format!("sweep --system oip:http://{address}/m --scenario offline --over samples=8,16"),
        format!("search --system openai:http://{address},model=m --from 5 --limit p99<=1s"),
    ] {
        let ran = folder.dyno(&format!("{command} --dry-run")).exits(0);
        let contact = listener.accept().err().map(|error| error.kind());
        assert_eq!(contact, Some(std::io::ErrorKind::WouldBlock), "{command}: {}", ran.stdout);
    }
    let ran = folder.dyno(&format!("run http://{address} --dry-run")).exits(0);
    assert!(ran.stdout.contains("The server was not contacted"), "{}", ran.stdout);
}
