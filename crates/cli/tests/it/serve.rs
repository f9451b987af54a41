//! `dyno serve` as a program: its output and its end.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::program::Folder;
use crate::{rnn_whole, tuned_graph};

/// A server that is ready, and its output; stopped if a test fails.
pub struct ServerProcess {
    child: Child,
    said: Vec<String>,
}

impl ServerProcess {
    pub fn start(folder: &Folder, arguments: &str) -> Self {
        let mut command = folder.command(&format!("serve --http 127.0.0.1:0 {arguments}"));
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = Vec::new();
        for line in lines.map_while(Result::ok) {
            if line == "ready" {
                return Self { child, said };
            }
            said.push(line);
        }
        let _ = child.wait();
        panic!("it ended before it was ready: {said:?}");
    }

    pub fn address(&self) -> &str {
        let of = |line: &String| {
            line.split_once("http://").filter(|(name, _)| *name == "http ").is_some()
        };
        self.said.iter().find(|line| of(line)).unwrap().split_once("http://").unwrap().1
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    fn signal(&self, signal: &str) {
        let kill = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(kill.unwrap().success());
    }

    fn ask(&self, request: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    fn get(&self, path: &str) -> String {
        self.ask(&format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n"))
    }

    fn end(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn prompt(tokens: u64) -> String {
    let body = format!(r#"{{"prompt":"a","max_tokens":{tokens}}}"#);
    let length = body.len();
    format!(
        "POST /v1/completions HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
}

impl ServerProcess {
    /// Returns when a request is in progress.
    fn until_in_flight(&self) {
        while !self.get("/metrics").contains("dyno_requests_in_flight 1\n") {
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }
}

#[test]
fn it_tells_where_and_what_it_serves() {
    let folder = Folder::new();
    let serving = ServerProcess::start(&folder, "--grpc 127.0.0.1:0 --node rack-1");
    let said = serving.said.join("\n");
    for line in
        ["model digits: ink float32 [-1, 64] -> scores float32 [-1, 10]", "node Network SUT rack-1"]
    {
        assert!(said.contains(line), "{said}");
    }
    assert!(said.contains("\ngrpc http://127.0.0.1:"), "{said}");
    assert!(serving.get("/v2").contains(r#""name":"Network SUT rack-1""#));
    serving.signal("-TERM");
    assert_eq!(serving.end(), Some(0));
}

#[test]
fn what_is_compressed_is_shorter_and_answered_and_nodes_say_their_names() {
    let folder = Folder::new();
    let serving = ServerProcess::start(&folder, "--node rack-1 --compress");
    let address = serving.address();
    let requests = |system: &str, keys: &str, out: &str| {
        folder.dyno(&format!(
            "run --system {system}{keys},node=http://{address}/digits --mode performance \
             --scenario offline --duration 100ms --samples 9 --no-progress --out {out}"
        ));
        let text = folder.read(&format!("{out}/summary.json"));
        let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
        let metrics = &summary["tests"][0]["metrics"];
        let failed = metrics["failed"].as_object().unwrap();
        assert!(failed.values().all(|count| count == 0) && metrics["missing"] == 0, "{text}");
        let remarks = summary["remarks"].to_string();
        assert!(remarks.contains("servers are named `Network SUT rack-1`"), "{remarks}");
        let log = folder.read(&format!("{out}/Offline/performance/mlperf_log_detail.txt"));
        assert!(log.contains("Network SUT rack-1, Network SUT rack-1 (oip-"));
        let client = &summary["clients"][0];
        let of = |key: &str| client[key].as_f64().unwrap();
        [of("bytes_sent") / of("sent"), of("bytes_received") / of("sent")]
    };
    let json = format!("oip:http://{address}/digits,http2=true");
    let codings = ",compress=gzip,accept=deflate";
    let (plain, short) = (requests(&json, "", "plain"), requests(&json, codings, "short"));
    assert!(short[0] < 0.7 * plain[0] && short[1] < plain[1], "{plain:?} {short:?}");
    for (at, system) in [
        format!("oip:http://{address}/digits,binary=true"),
        format!("oip-grpc:{address}/digits"),
        format!("oip-grpc:{address}/digits,form=stream"),
    ]
    .iter()
    .enumerate()
    {
        assert!(requests(system, codings, &format!("out-{at}")).iter().all(|bytes| *bytes > 0.0));
    }
}

#[test]
fn what_is_in_work_is_answered_before_the_end() {
    let folder = Folder::new();
    let serving = ServerProcess::start(&folder, "--system tokens:first=700ms,tokens=2");
    let mut asked = serving.connect();
    asked.write_all(prompt(2).as_bytes()).unwrap();
    serving.until_in_flight();
    serving.signal("-INT");
    let mut answer = String::new();
    asked.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(serving.end(), Some(0));
}

#[test]
fn patience_ends_and_a_second_signal_ends_at_once() {
    let folder = Folder::new();
    let slow = "--system tokens:first=300s,tokens=2 --request-limit 600s";
    for (arguments, signals, code) in
        [("--drain-limit 100ms", 1, Some(4)), ("--drain-limit 300s", 2, Some(130))]
    {
        let serving = ServerProcess::start(&folder, &format!("{slow} {arguments}"));
        let mut asked = serving.connect();
        asked.write_all(prompt(2).as_bytes()).unwrap();
        serving.until_in_flight();
        serving.signal("-TERM");
        if signals == 2 {
            while !serving.get("/v2/health/ready").starts_with("HTTP/1.1 503") {
                std::thread::park_timeout(Duration::from_millis(10));
            }
            serving.signal("-INT");
        }
        assert_eq!(serving.end(), code, "{arguments}");
    }
}

#[test]
fn what_cannot_be_served_is_told_before_it_begins() {
    let folder = Folder::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = format!("--http {}", taken.local_addr().unwrap());
    for (arguments, code, words) in [
        ("--system model:fixed=1ms", 2, "systems that can be served: digits, digits-lstm, null"),
        ("--system tokens:frist=1ms", 2, "the nearest key is `first`"),
        ("--system onnx:none.onnx", 3, "model none.onnx does not exist"),
        ("--http nowhere", 2, "expected HOST:PORT"),
        ("--cert a.pem", 2, "--key"),
        ("--cert a.pem --key a.pem", 3, "a.pem"),
        (&taken[..], 3, "use port 0 to select a free port"),
    ] {
        let ran = folder.dyno(&format!("serve {arguments}"));
        assert_eq!(ran.code, Some(code), "{arguments}: {}", ran.stderr);
        assert!(ran.stderr.contains(words), "{arguments}: {}", ran.stderr);
    }
}

#[test]
fn whole_models_are_served_with_their_own_inputs_and_outputs() {
    let folder = tuned_graph::with_letters();
    folder.write(
        "formats.txt",
        "gru.weight FIXED 3 0\ngru.input FIXED 3 0\ntable.weight FIXED 2 0\n",
    );
    for system in ["tuned:model=letters.onnx,formats=formats.txt", "rnn:letters.onnx"] {
        let serving = ServerProcess::start(&folder, &format!("--system {system}"));
        let said = serving.said.join("\n");
        let expected = "letters int64 [-1, -1] -> scores float32 [-1, 4]";
        assert!(said.contains(expected), "{said}");
        let is_whole = system.starts_with("rnn:");
        assert_eq!(said.contains("Outputs were compared"), is_whole, "{said}");
        let name = said.split_once("model ").unwrap().1.split_once(':').unwrap().0;
        let served = format!("oip:http://{}/{name},binary=true", serving.address());
        let [served, here] =
            [&served, system].map(|system| tuned_graph::answers(&folder, system, "letters.npy"));
        // Calls of other sizes sum in another order.
        let numbers = |answer: &Vec<f32>| answer.len() == 4;
        assert!(here.iter().all(numbers) && served.iter().all(numbers), "{system}");
        for (served, here) in served.iter().flatten().zip(here.iter().flatten()) {
            assert!((served - here).abs() < 1e-6, "{system}: {served}, {here}");
        }
    }
}

#[test]
fn sequences_are_played_in_order_and_none_is_left_over() {
    let folder = Folder::new();
    let serving = ServerProcess::start(
        &folder,
        "--system rnn:lstm:3x8,tune=0s,outputs=last+Y --threads 1 --model-name m --sequences 64",
    );
    let said = serving.said.join("\n");
    let model =
        "model m: sequence float32 [-1, -1, 3] -> last float32 [-1, 8], Y float32 [-1, -1, 8]";
    assert!(said.contains(model), "{said}");
    let systems =
        ["oip:http://ADDRESS/m", "oip:http://ADDRESS/m,binary=true", "oip-grpc:ADDRESS/m"];
    for (at, system) in systems.into_iter().enumerate() {
        let system = system.replace("ADDRESS", serving.address());
        folder.dyno(&format!(
            "run --system {system},sequences=6,steps=3-5 --shape sequence=1x1x3 --scenario server --max-concurrency 4 \
             --mode performance --duration 300ms --no-progress --out {at}"
        ));
        let summary: serde_json::Value =
            serde_json::from_str(&folder.read(&format!("{at}/summary.json"))).unwrap();
        let sessions = &summary["tests"][0]["metrics"]["sessions"];
        assert!(sessions["completed"].as_u64().unwrap() >= 6, "{system}: {sessions}");
        assert_eq!(sessions["aborted"], 0, "{system}: {sessions}");
    }
}

#[test]
fn sequences_of_layers_that_run_backward_are_refused() {
    let folder = Folder::new();
    let serving = ServerProcess::start(&folder, "--system rnn:bilstm:3x8,tune=0s --model-name m");
    let body = r#"{"inputs":[{"name":"sequence","datatype":"FP32","shape":[1,1,3],"data":[0,0,0]}],
        "parameters":{"sequence_id":7,"sequence_start":true}}"#;
    let answer = serving.ask(&format!(
        "POST /v2/models/m/infer HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    ));
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert!(answer.contains("sequence 7: ") && answer.contains("runs backward"), "{answer}");
}

#[test]
fn flags_of_a_system_are_rejected_with_faults() {
    let folder = Folder::new();
    for flag in ["--system digits", "--queue 5", "--compress", "--request-limit 1s", "--node a"] {
        let ran = folder.dyno(&format!("serve --faults cut {flag}")).exits(2);
        let name = flag.split(' ').next().unwrap();
        assert!(ran.stderr.contains("cannot be used with"), "{flag}: {}", ran.stderr);
        assert!(ran.stderr.contains(name), "{flag}: {}", ran.stderr);
    }
}

#[test]
fn a_token_that_no_header_can_carry_is_rejected() {
    let folder = Folder::new();
    for token in ["secret\n", " secret", "se\ncret", "se\u{1}cret", "secret\t"] {
        let mut command = folder.command("serve --http 127.0.0.1:0");
        let output = command.env("DYNO_SERVE_TOKEN", token).output().unwrap();
        let ran = crate::program::ProgramResult::from(output).exits(2);
        let expected = "DYNO_SERVE_TOKEN has control characters, or blanks at its ends";
        assert!(ran.stderr.contains(expected), "{token:?}: {}", ran.stderr);
        assert!(!ran.stderr.contains("cret"), "{token:?}: {}", ran.stderr);
    }
}

#[test]
fn a_server_states_why_requests_share_no_calls() {
    let folder = Folder::new();
    rnn_whole::combining(&folder);
    let serving = ServerProcess::start(&folder, "--system rnn:one.onnx");
    let said = serving.said.join("\n");
    let expected = "Requests do not share calls: node `ReduceMax_0` (ReduceMax) combines";
    assert!(said.contains(expected), "{said}");
}

/// The sizes of a warm-up without `--shape` are guesses.
#[test]
fn a_model_that_accepts_no_guessed_size_is_served() {
    let folder = Folder::new();
    rnn_whole::five_numbers(&folder);
    let said = |options: &str| {
        let serving = ServerProcess::start(&folder, &format!("--system rnn:five.onnx{options}"));
        serving.said.join("\n")
    };
    let expected = "The model was not called before it was ready: ";
    let guessed = said("");
    assert!(guessed.contains(expected), "{guessed}");
    assert!(guessed.contains("expected rows of 5 numbers, found 1"), "{guessed}");
    let given = said(" --shape x=1x5");
    assert!(!given.contains(expected), "{given}");
}
