//! Loads that users of servers have: ramps, cancelled requests, mixes of models, recorded traces of a length.
//! The server's own counts decide.

use std::collections::BTreeMap;
use std::io::{BufReader, ErrorKind, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dyno_net::faults::{FaultServer, Mode};
use serde_json::{Value, json};

use crate::http_request::read_request;
use crate::program::{Folder, ProgramResult};

/// A request for an answer, and what became of it.
#[derive(Clone)]
struct SeenRequest {
    body: Value,
    arrived: Instant,
    /// Parts with a word that were written.
    parts: usize,
    /// When the answer was whole, or when the client was seen to have closed the connection.
    ended: Option<Instant>,
    is_whole: bool,
}

/// A chat server that streams words at a fixed pace, and notices when its client leaves.
struct PacedServer {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<SeenRequest>>>,
}

impl PacedServer {
    fn start(parts: usize, pause: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen: Arc<Mutex<Vec<SeenRequest>>> = Arc::default();
        let log = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let log = Arc::clone(&log);
                std::thread::spawn(move || serve(&stream.unwrap(), parts, pause, &log));
            }
        });
        Self { address, seen }
    }

    /// Runs a test whose verdict depends on the load of the machine.
    #[track_caller]
    fn measure(&self, folder: &Folder, keys: &str, options: &str) -> ProgramResult {
        let ran = self.run(folder, keys, options);
        assert!(matches!(ran.code, Some(0 | 1)), "{}\n{}", ran.stdout, ran.stderr);
        ran
    }

    fn run(&self, folder: &Folder, keys: &str, options: &str) -> ProgramResult {
        folder.dyno(&format!(
            "run --system openai:http://{},chat=true{keys} --set max_client_lag_ns=0 {options}",
            self.address
        ))
    }

    /// Returns the requests in the order of their arrival, once the server knows how all of them ended.
    #[expect(clippy::disallowed_methods, reason = "the server works on threads of its own")]
    fn seen(&self) -> Vec<SeenRequest> {
        for _ in 0..200 {
            if self.seen.lock().unwrap().iter().all(|one| one.ended.is_some()) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut seen = self.seen.lock().unwrap().clone();
        seen.sort_by_key(|one| one.arrived);
        seen
    }
}

#[expect(clippy::disallowed_methods, reason = "a clock that shares nothing with the program")]
fn serve(stream: &TcpStream, parts: usize, pause: Duration, log: &Mutex<Vec<SeenRequest>>) {
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream);
    while let Some((_, body)) = read_request(&mut reader) {
        let arrived = Instant::now();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        // A question of the client before its run, or for the metrics of the server.
        let is_asked = body.is_null() || body["max_tokens"] == 1;
        let number = (!is_asked).then(|| {
            let mut log = log.lock().unwrap();
            log.push(SeenRequest { body, arrived, parts: 0, ended: None, is_whole: false });
            log.len() - 1
        });
        let (parts, pause) = if is_asked { (1, Duration::ZERO) } else { (parts, pause) };
        let note = |change: &dyn Fn(&mut SeenRequest)| {
            if let Some(number) = number {
                change(&mut log.lock().unwrap()[number]);
            }
        };
        if !answer(stream, parts, pause, &note) {
            note(&|seen| (seen.ended, seen.is_whole) = (Some(Instant::now()), false));
            return;
        }
    }
}

/// Function that changes what is known of a request.
type NoteFn<'a> = dyn Fn(&dyn Fn(&mut SeenRequest)) + 'a;

/// Streams words, and notes how far it came; returns false if the client closed the connection before
/// the end.
#[expect(clippy::disallowed_methods, reason = "a clock that shares nothing with the program")]
fn answer(stream: &TcpStream, parts: usize, pause: Duration, note: &NoteFn<'_>) -> bool {
    let mut writer = stream;
    let mut chunk = |text: &str| {
        let chunk = format!("{:x}\r\n{text}\r\n", text.len());
        writer.write_all(chunk.as_bytes()).is_ok()
    };
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                transfer-encoding: chunked\r\n\r\n";
    let mut socket = stream;
    if socket.write_all(head.as_bytes()).is_err() {
        return false;
    }
    for part in 1..=parts {
        if has_left(stream, pause) {
            return false;
        }
        let event = json!({"choices": [{"index": 0, "delta": {"content": "word "}}]});
        if !chunk(&format!("data: {event}\n\n")) {
            return false;
        }
        note(&|seen| seen.parts = part);
    }
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": parts, "total_tokens": 7 + parts}});
    // Before its end is written: the client may then send the next request at once.
    note(&|seen| (seen.ended, seen.is_whole) = (Some(Instant::now()), true));
    chunk(&format!("data: {end}\n\ndata: [DONE]\n\n")) && chunk("")
}

/// Waits for a time; returns whether the client closed the connection meanwhile.
fn has_left(stream: &TcpStream, pause: Duration) -> bool {
    if pause.is_zero() {
        return false;
    }
    stream.set_read_timeout(Some(pause)).unwrap();
    let peeked = stream.peek(&mut [0]);
    stream.set_read_timeout(None).unwrap();
    match peeked {
        Ok(bytes) => bytes == 0,
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    }
}

/// Returns the first test of the run in `out`.
fn first_test(folder: &Folder) -> Value {
    let run: Value = serde_json::from_str(&folder.read("out/summary.json")).unwrap();
    run["tests"][0].clone()
}

#[test]
fn a_ramp_of_a_rate_is_sent_and_not_measured() {
    let (server, folder) = (PacedServer::start(2, Duration::ZERO), Folder::new());
    let options = "--request-rate 50 --ramp 2s --num-prompts 60 --seed 5 --out out";
    let planned = server.run(&folder, ",model=m", &format!("{options} --dry-run")).exits(0);
    assert!(planned.stdout.contains("a ramp of 2.00 s before the measured"), "{}", planned.stdout);
    let ran = server.measure(&folder, ",model=m", options);
    let seen = server.seen();
    let test = first_test(&folder);
    let (metrics, excluded) = (&test["metrics"], &test["metrics"]["excluded"]);
    let ramp = seen.len() - 60;
    assert_eq!((&metrics["query_count"], &metrics["sample_count"]), (&json!(60), &json!(60)));
    assert_eq!(
        (&excluded["ramp_requests"], &excluded["ramp_ns"]),
        (&json!(ramp), &json!(2e9 as u64))
    );
    // A rate that rises to 50/s in 2 s: 50 requests, and a quarter of them in the first second. Within 4
    // standard deviations of a Poisson distribution.
    assert!((22..=78).contains(&ramp), "{ramp}");
    let after = |one: &&SeenRequest, ms| one.arrived >= seen[0].arrived + Duration::from_millis(ms);
    let early = seen[..ramp].iter().filter(|one| !after(one, 800)).count();
    let late = seen[..ramp].iter().filter(|one| after(one, 800)).count();
    assert!(2 * early < late, "{early} and {late}");
    let note = format!("The ramp of 2.00 s before the measured part sent {ramp} requests");
    assert!(test["notes"].to_string().contains(&note), "{}", test["notes"]);
    assert!(ran.stdout.contains(&format!(", {ramp} in the ramp")), "{}", ran.stdout);
    // Tokens and answers are those of the measured requests.
    assert_eq!(metrics["tokens"]["output"], 120);
    assert_eq!(metrics["answers"]["whole"], 60);
}

#[test]
fn the_client_counts_no_request_that_was_due_in_the_ramp() {
    let (server, folder) = (PacedServer::start(2, Duration::from_millis(20)), Folder::new());
    // About 25 requests are due in the ramp, and 12 of them are answered in it, one by one. The others
    // are sent after it.
    let options = "--request-rate 100 --ramp 500ms --max-concurrency 1 --num-prompts 20 --seed 5 \
                   --stop-on-saturation off --out out";
    server.measure(&folder, ",model=m", options);
    let run: Value = serde_json::from_str(&folder.read("out/summary.json")).unwrap();
    let (metrics, client) = (&run["tests"][0]["metrics"], &run["clients"][0]);
    assert!(metrics["excluded"]["ramp_requests"].as_u64() > Some(12), "{}", metrics["excluded"]);
    assert_eq!((&metrics["query_count"], &client["sent"]), (&json!(20), &json!(20)));
    assert_eq!(client["tokens_counted_by"], json!({"server": 20}));
    assert!(client["limit_waits"].as_u64() <= Some(20), "{client}");
}

#[test]
fn a_ramp_of_a_concurrency_grows_one_request_at_a_time() {
    let (server, folder) = (PacedServer::start(2, Duration::from_millis(10)), Folder::new());
    let options = "--max-concurrency 8 --ramp 800ms --num-prompts 100 --out out";
    server.measure(&folder, ",model=m", options);
    let seen = server.seen();
    let test = first_test(&folder);
    assert_eq!(test["metrics"]["query_count"], 100);
    assert_eq!(test["metrics"]["excluded"]["ramp_requests"], seen.len() - 100);
    assert!(seen.len() > 130, "{}", seen.len());
    let begun = seen[0].arrived;
    for (number, one) in seen.iter().enumerate() {
        let is_present = |other: &&SeenRequest| other.ended.is_none_or(|ended| ended > one.arrived);
        let present = 1 + seen[..number].iter().filter(is_present).count();
        // The first request may arrive some ms after its time.
        let passed = (one.arrived - begun).as_secs_f64() + 0.2;
        let most = 1.0 + (7.0 * passed / 0.8).floor();
        assert!(present as f64 <= most.min(8.0), "{present} after {passed} s");
    }
    let told = server.run(&folder, ",model=m", "--ramp 1s --stages 2s@5 --out other").exits(2);
    assert!(told.stderr.contains("--stages has several"), "{}", told.stderr);
}

#[test]
fn a_cancelled_request_is_neither_success_nor_failure() {
    for (keys, http) in [("cancel=30%@100ms", true), ("cancel=30%@5tok", false)] {
        let (server, folder) = (PacedServer::start(40, Duration::from_millis(5)), Folder::new());
        let options = "--max-concurrency 8 --num-prompts 60 --seed 3 --out out";
        let ran = server.measure(&folder, &format!(",model=m,{keys}"), options);
        let seen = server.seen();
        let left: Vec<&SeenRequest> = seen.iter().filter(|one| !one.is_whole).collect();
        let test = first_test(&folder);
        let metrics = &test["metrics"];
        assert_eq!(seen.len(), 60);
        // Within 4 standard deviations of a binomial distribution.
        assert!((4..=32).contains(&left.len()), "{}", left.len());
        assert_eq!(metrics["excluded"]["cancelled"], left.len());
        assert_eq!(metrics["query_count"], 60 - left.len());
        assert_eq!(metrics["answers"]["whole"], 60 - left.len());
        assert_eq!((&metrics["error_rate"], &metrics["missing"]), (&json!(0.0), &json!(0)));
        assert_eq!(metrics["conditions"]["min_queries_met"], true);
        assert!(!test["reasons"].to_string().contains("failed"), "{}", test["reasons"]);
        let note = format!("The client cancelled {} of 60 requests on purpose", left.len());
        assert!(test["notes"].to_string().contains(&note), "{}", test["notes"]);
        assert!(ran.stdout.contains(&format!(", {} cancelled", left.len())), "{}", ran.stdout);
        for one in left {
            if http {
                let took = one.ended.unwrap() - one.arrived;
                assert!(took >= Duration::from_millis(95), "{took:?}");
            } else {
                assert!((5..40).contains(&one.parts), "{}", one.parts);
            }
        }
    }
    let (server, folder) = (PacedServer::start(2, Duration::ZERO), Folder::new());
    let whole = server.run(&folder, ",model=m,stream=false,cancel=5%@5tok", "--dry-run").exits(2);
    assert!(whole.stderr.contains("cancel=5%@2s"), "{}", whole.stderr);
    let odd = server.run(&folder, ",model=m,cancel=5@2s", "--dry-run").exits(2);
    assert!(odd.stderr.contains("expected SHARE%@TIME"), "{}", odd.stderr);
    let all = server.run(&folder, ",model=m,cancel=5%@2s", "--scenario Offline --dry-run").exits(2);
    assert!(all.stderr.contains("--scenario Server"), "{}", all.stderr);
}

#[test]
fn cancelled_requests_are_part_of_the_offered_rate() {
    let (server, folder) = (PacedServer::start(40, Duration::from_millis(5)), Folder::new());
    let load = "--request-rate 50 --set server_arrivals=constant --num-prompts 40 --seed 3";
    let ran = server.measure(&folder, ",model=m,cancel=30%@20ms", &format!("{load} --out out"));
    let metrics = &first_test(&folder)["metrics"];
    assert!(metrics["excluded"]["cancelled"].as_u64() > Some(0), "{metrics}");
    // One request each 20 ms, whichever are cancelled.
    let offered = metrics["rates"]["scheduled_samples_per_s"].as_f64().unwrap();
    assert!((offered - 50.0).abs() < 0.1, "{offered}");
    assert!(ran.stdout.contains("offered 50.00/s"), "{}", ran.stdout);
}

#[test]
fn a_run_of_which_every_request_was_cancelled_proves_nothing() {
    let (server, folder) = (PacedServer::start(40, Duration::from_millis(5)), Folder::new());
    let options = "--max-concurrency 4 --num-prompts 8 --out out";
    let ran = server.run(&folder, ",model=m,cancel=100%@50ms", options);
    let ran = ran.exits(1);
    let test = first_test(&folder);
    assert_eq!(
        (&test["verdict"], &test["metrics"]["sample_count"]),
        (&json!("UNDECIDED"), &json!(0))
    );
    assert!(test["reasons"][0].as_str().unwrap().starts_with("No answer was measured"), "{test}");
    // The length is that of the cancelled requests: two rounds of four, each of at least 50 ms.
    assert!(test["metrics"]["lasted_ns"].as_u64() >= Some(90_000_000), "{}", ran.stdout);
    let text = folder.dyno("export out --format prometheus").exits(0).stdout;
    let cancelled = text.lines().find(|line| line.starts_with("dyno_queries_cancelled{"));
    assert!(cancelled.is_some_and(|line| line.ends_with(" 8")), "{text}");
}

#[test]
fn a_mix_of_models_has_figures_by_model() {
    let (server, folder) = (PacedServer::start(2, Duration::ZERO), Folder::new());
    let options = "--max-concurrency 8 --num-prompts 200 --seed 9 --out out";
    let ran = server.measure(&folder, ",models=org/small*3+large", options);
    let mut by_model = BTreeMap::<String, usize>::new();
    for one in server.seen() {
        *by_model.entry(one.body["model"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    let test = first_test(&folder);
    let models = test["metrics"]["models"].as_array().unwrap();
    assert_eq!(models.len(), 2);
    for model in models {
        assert_eq!(model["requests"], by_model[model["name"].as_str().unwrap()], "{model}");
        assert_eq!(model["lost"], 0);
        assert_eq!(model["distributions"][0]["metric"], "ttft");
    }
    // Three of four samples; within 4 standard deviations of a binomial distribution.
    assert!((125..=175).contains(&by_model["org/small"]), "{by_model:?}");
    assert!(ran.stdout.contains("org/small"), "{}", ran.stdout);
    let page = folder.read("out/report.html");
    let (_, table) = page.split_once("<h3>Models</h3>").expect("a table of models");
    assert!(table.contains("<th scope=\"row\">org/small</th>"));
    let odd = server.run(&folder, ",models=a+b,model=c", "--dry-run").exits(2);
    assert!(odd.stderr.contains("remove model"), "{}", odd.stderr);
    let odd = server.run(&folder, ",models=a", "--dry-run").exits(2);
    assert!(odd.stderr.contains("two or more different models"), "{}", odd.stderr);
}

#[test]
fn the_rate_of_a_recorded_trace_is_neither_searched_nor_swept() {
    let (server, folder) = (PacedServer::start(1, Duration::ZERO), Folder::new());
    let row = |ms: u32| json!({"prompt": format!("at {ms}"), "timestamp": ms}).to_string() + "\n";
    folder.write("trace.jsonl", &[0, 40, 100].map(row).concat());
    let load = format!("--system openai:http://{},model=m --data trace.jsonl", server.address);
    let told = folder.dyno(&format!("search {load} --limit p99<=1s --out searched")).exits(2);
    assert!(told.stderr.contains("fixed by a recorded trace"), "{}", told.stderr);
    let swept = "--scenario server --mode performance --over qps=1,2 --out swept";
    let told = folder.dyno(&format!("sweep {load} {swept}"));
    assert_ne!(told.code, Some(0), "{}", told.stdout);
    let state: serde_json::Value = serde_json::from_str(&folder.read("swept/sweep.json")).unwrap();
    for point in state["points"].as_array().unwrap() {
        assert_eq!(
            (&point["state"], &point["exit_code"]),
            (&json!("failed"), &json!(2)),
            "{point}"
        );
        assert!(point["message"].to_string().contains("recorded times have no rate"), "{point}");
    }
    let prompts = server.seen();
    let is_of_trace = |one: &SeenRequest| one.body["messages"].to_string().contains("at 40");
    assert!(!prompts.iter().any(is_of_trace), "nothing was measured");
}

/// The tokens of two choices come mixed.
#[test]
fn answers_with_several_choices_have_no_limit_on_tpot() {
    let (server, folder) = (PacedServer::start(1, Duration::ZERO), Folder::new());
    for limit in ["--require tpot.p99<=50ms", "--goodput tpot:50"] {
        let told = server.run(&folder, ",model=m,n:=2", &format!("{limit} --dry-run")).exits(2);
        assert!(told.stderr.contains("several choices have no TPOT"), "{}", told.stderr);
        server.run(&folder, ",model=m,n:=1", &format!("{limit} --dry-run")).exits(0);
    }
    server.run(&folder, ",model=m,n:=2", "--dry-run").exits(0);
}

#[test]
fn a_duration_beyond_a_recorded_trace_is_rejected_before_the_run() {
    let (server, folder) = (PacedServer::start(1, Duration::ZERO), Folder::new());
    let row = |ms: u32| json!({"prompt": format!("at {ms}"), "timestamp": ms}).to_string() + "\n";
    folder.write("trace.jsonl", &[0, 500, 1_000].map(row).concat());
    let options = "--data trace.jsonl --scenario server --mode performance --dry-run";
    let told = server.run(&folder, ",model=m", &format!("{options} --duration 3s")).exits(2);
    assert!(told.stderr.contains("due after 1.00 s; lower the duration"), "{}", told.stderr);
    assert!(told.stderr.contains("repeat=N"), "{}", told.stderr);
    server.run(&folder, ",model=m", &format!("{options} --duration 1s")).exits(0);
    server.run(&folder, ",model=m,repeat=4", &format!("{options} --duration 3s")).exits(0);
}

/// A point takes as long as its trace, which is longer than a run of the profile.
#[test]
fn a_sweep_over_a_recorded_trace_announces_its_length() {
    let (server, folder) = (PacedServer::start(1, Duration::ZERO), Folder::new());
    let row = |ms: u32| json!({"prompt": format!("at {ms}"), "timestamp": ms}).to_string() + "\n";
    folder.write("trace.jsonl", &[0, 40_000, 7_200_000].map(row).concat());
    let sweep = format!(
        "sweep --system openai:http://{},model=m --data trace.jsonl --scenario server --mode \
         performance --over seed=1,2 --dry-run",
        server.address
    );
    let plan = folder.dyno(&sweep).exits(0).stdout;
    assert!(plan.contains("at least 4h 00m in total"), "{plan}");
}

#[test]
fn more_requests_than_a_recorded_trace_has_are_rejected_unless_it_is_repeated() {
    let (server, folder) = (PacedServer::start(1, Duration::ZERO), Folder::new());
    let row = |ms: u32| json!({"prompt": format!("at {ms}"), "timestamp": ms}).to_string() + "\n";
    folder.write("trace.jsonl", &[0, 40, 100].map(row).concat());
    let run = |keys: &str, options: &str| {
        server.run(&folder, &format!(",model=m{keys}"), &format!("--data trace.jsonl {options}"))
    };
    let told = run("", "--num-prompts 4").exits(2);
    assert!(told.stderr.contains("a recorded trace of 3 requests"), "{}", told.stderr);
    assert!(told.stderr.contains("repeat=N"), "{}", told.stderr);
    assert!(server.seen().is_empty());
    run("", "--num-prompts 3 --dry-run").exits(0);
    run(",repeat=2", "--num-prompts 7 --dry-run").exits(2);
    assert!(matches!(run(",repeat=2", "--num-prompts 6 --out out").code, Some(0 | 1)));
    let seen = server.seen();
    let texts: Vec<&str> =
        seen.iter().map(|one| one.body["messages"][0]["content"].as_str().unwrap()).collect();
    assert_eq!(texts, ["at 0", "at 40", "at 100", "at 0", "at 40", "at 100"]);
    // The second round begins a mean gap after the first one.
    let at = |number: usize| (seen[number].arrived - seen[0].arrived).as_millis();
    // At 100, 150 and 250 ms; the first request may come late.
    assert!(at(2) >= 50 && at(3) >= 100 && at(5) >= 200, "{:?}", [2, 3, 5].map(at));
    let once = run(",sessions=once", "--max-concurrency 1 --num-prompts 4 --dry-run").exits(2);
    assert!(once.stderr.contains("conversations of 3 turns"), "{}", once.stderr);
}

#[test]
fn a_share_of_the_requests_hangs() {
    let mode = Mode::parse("hang:20%").unwrap();
    let server = FaultServer::start_in("127.0.0.1:0", mode).unwrap();
    let folder = Folder::new();
    folder.dyno(&format!(
        "run --system openai:http://{},model=m,timeout=1s --max-concurrency 5 --num-prompts 20 \
         --fail-fast off --out out -q",
        server.address
    ));
    let failed = &first_test(&folder)["metrics"]["failed"];
    // The requests before the run are counted by the server, too.
    let before = server.counts().requests - 20;
    assert!(before <= 3, "{before}");
    let late = failed["timed_out"].as_u64().unwrap();
    assert!((3..=5).contains(&late), "a fifth of 20 requests: {failed}");
    for (odd, expected) in [
        ("hang:0%", "expected MODE:SHARE%"),
        ("hang:5", "expected MODE:SHARE%"),
        ("no:5%", "unknown mode"),
    ] {
        let told = folder.dyno(&format!("serve --faults {odd}")).exits(2);
        assert!(told.stderr.contains(expected), "{}", told.stderr);
    }
}
