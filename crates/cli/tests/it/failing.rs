//! Systems that fail most answers end a run soon, with the server's message; and a probe sends
//! only the requested queries.

use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::http_request::read_request;
use crate::program::{Folder, ProgramResult};

/// Status and body of the n-th answer, from 0.
type Answer = fn(u64) -> (&'static str, &'static str);

/// A server that counts its requests.
struct Server {
    address: SocketAddr,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    requests: AtomicU64,
    in_flight: AtomicU64,
    most_in_flight: AtomicU64,
}

impl Server {
    /// Duration of each answer.
    fn start(answer: Answer, takes: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, counts) = (listener.local_addr().unwrap(), Arc::<Counts>::default());
        let shared = counts.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let counts = shared.clone();
                std::thread::spawn(move || serve(stream.unwrap(), answer, takes, &counts));
            }
        });
        Self { address, counts }
    }

    fn requests(&self) -> u64 {
        self.counts.requests.load(Ordering::SeqCst)
    }

    fn most_in_flight(&self) -> u64 {
        self.counts.most_in_flight.load(Ordering::SeqCst)
    }

    /// The arguments of a run of this server.
    fn arguments(&self, more: &str) -> String {
        format!("--system raw:http://{}/x --samples 8 --out out {more}", self.address)
    }
}

/// Answers one request after the other, until the client goes away.
fn serve(stream: TcpStream, answer: Answer, takes: Duration, counts: &Counts) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    let (_never, nothing) = std::sync::mpsc::channel::<()>();
    while let Some(_request) = read_request(&mut reader) {
        let number = counts.requests.fetch_add(1, Ordering::SeqCst);
        let in_flight = counts.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        counts.most_in_flight.fetch_max(in_flight, Ordering::SeqCst);
        let _ = nothing.recv_timeout(takes);
        let (status, body) = answer(number);
        counts.in_flight.fetch_sub(1, Ordering::SeqCst);
        let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n", body.len());
        if writer.write_all(format!("{head}{body}").as_bytes()).is_err() {
            return;
        }
    }
}

const KEY: &str = "Incorrect API key provided";

fn no_key(_: u64) -> (&'static str, &'static str) {
    ("401 Unauthorized", KEY)
}

fn good(_: u64) -> (&'static str, &'static str) {
    ("200 OK", "{}")
}

/// Succeeds at first.
fn breaks(number: u64) -> (&'static str, &'static str) {
    if number < 300 { good(number) } else { ("500 Internal Server Error", "engine died") }
}

/// A third of the answers fail.
fn flaky(number: u64) -> (&'static str, &'static str) {
    if number.is_multiple_of(3) { no_key(number) } else { good(number) }
}

const NO_WAIT: Duration = Duration::ZERO;

fn summary(folder: &Folder) -> Value {
    serde_json::from_str(&folder.read("out/summary.json")).unwrap()
}

#[track_caller]
fn has_words(ran: &ProgramResult, words: &str) {
    assert!(ran.stderr.contains(words), "stdout:\n{}\nstderr:\n{}", ran.stdout, ran.stderr);
}

#[test]
fn a_run_whose_first_answers_all_fail_ends_with_the_words_of_the_server() {
    let (server, folder) = (Server::start(no_key, NO_WAIT), Folder::new());
    let long = "--scenario SingleStream --mode performance --duration 300s";
    let ran = folder.dyno(&format!("run {}", server.arguments(long))).exits(4);
    let words = "all of the first 20 answers failed: HTTP status 401: Incorrect API key provided";
    has_words(&ran, words);
    assert!(ran.stdout.contains("Incorrect API key"), "{}", ran.stdout);
    assert_eq!(server.requests(), 20);
    let summary = summary(&folder);
    assert_eq!((&summary["state"], &summary["verdict"]), (&"aborted".into(), &"ABORTED".into()));
    let test = &summary["tests"][0];
    assert_eq!(test["failing"]["window"], "first");
    assert_eq!(test["failing"]["failed"], 20);
    let reason = test["reasons"][0].as_str().unwrap();
    assert!(reason.contains(words), "{reason}");
    let folder = folder.0.join("out/SingleStream/performance");
    assert!(folder.join("records.bin").is_file(), "the answers so far are kept");
}

#[test]
fn what_waits_is_not_sent_when_a_run_has_ended() {
    for (scenario, more) in [
        ("offline", "--set offline_expected_qps=1000 --duration 300s"),
        ("server", "--qps 1000 --duration 300s"),
        ("server", "--set server_arrivals=concurrency:4 --duration 300s"),
        ("multi-stream", "--duration 300s"),
    ] {
        let wait = Duration::from_millis(2);
        let (server, folder) = (Server::start(no_key, wait), Folder::new());
        let more = format!("--scenario {scenario} --mode performance {more}");
        let ran = folder.dyno(&format!("run {}", server.arguments(&more))).exits(4);
        has_words(&ran, "Incorrect API key provided");
        // Queries in flight, and those sent meanwhile on a busy machine.
        assert!(server.requests() < 5_000, "{scenario}: {}", server.requests());
    }
}

#[test]
fn an_accuracy_run_ends_as_well() {
    let (server, folder) = (Server::start(no_key, NO_WAIT), Folder::new());
    let more = server.arguments("--scenario SingleStream --samples 5000");
    let ran = folder.dyno(&format!("run {more}")).exits(4);
    has_words(&ran, "Incorrect API key provided");
    assert_eq!(server.requests(), 20);
    let tests = summary(&folder)["tests"].clone();
    assert_eq!(tests.as_array().unwrap().len(), 1, "no performance test follows");
    assert_eq!(tests[0]["accuracy"]["value"], Value::Null);
}

#[test]
fn a_server_that_breaks_ends_the_run_and_one_that_fails_now_and_then_does_not() {
    let (server, folder) = (Server::start(breaks, NO_WAIT), Folder::new());
    let long = "--scenario SingleStream --mode performance --duration 300s";
    let ran = folder.dyno(&format!("run {}", server.arguments(long))).exits(4);
    has_words(&ran, "HTTP status 500");
    assert_eq!(server.requests(), 401, "101 of the last 200 failed then");
    assert_eq!(summary(&folder)["tests"][0]["failing"]["window"], "last");

    let (server, folder) = (Server::start(flaky, NO_WAIT), Folder::new());
    let short = "--scenario SingleStream --mode performance --duration 50ms \
                 --set min_query_count=600";
    folder.dyno(&format!("run {}", server.arguments(short))).exits(1);
    assert!(server.requests() >= 600);
    assert_eq!(summary(&folder)["tests"][0].get("failing"), None);
}

#[test]
fn a_run_without_answers_is_not_advised_to_last_longer() {
    let (server, folder) = (Server::start(no_key, NO_WAIT), Folder::new());
    let more = "--scenario Server --mode performance --set server_arrivals=concurrency:8 \
                --num-prompts 8 --fail-fast off";
    folder.dyno(&format!("run {}", server.arguments(more)));
    let test = &summary(&folder)["tests"][0];
    assert_ne!(test["verdict"], "VALID");
    assert_eq!(test["metrics"]["sample_count"], 0, "{test}");
    let notes = test["notes"].to_string();
    assert!(!notes.contains("Run longer") && !notes.contains("the fill and the drain"), "{notes}");
}

#[test]
fn a_run_of_the_rules_and_one_that_is_to_go_on_do() {
    for more in ["--profile rules", "--fail-fast off"] {
        let (server, folder) = (Server::start(no_key, NO_WAIT), Folder::new());
        let short = "--scenario SingleStream --mode performance --duration 50ms \
                     --set min_query_count=300";
        let ran = folder.dyno(&format!("run {}", server.arguments(&format!("{short} {more}"))));
        assert_eq!(ran.exits(1).code, Some(1), "{more}");
        assert!(server.requests() >= 300, "{more}");
    }
    let (server, folder) = (Server::start(no_key, NO_WAIT), Folder::new());
    folder.write("dyno.toml", "version = 1\n[run]\nprofile = \"rules\"\nfail_fast = \"on\"\n");
    let more = "--config dyno.toml --scenario SingleStream --mode performance";
    folder.dyno(&format!("run {}", server.arguments(more))).exits(4);
    assert_eq!(server.requests(), 20);
}

#[test]
fn a_probe_that_fails_is_a_set_up_that_fails() {
    for scenario in ["server", "offline"] {
        let (server, folder) = (Server::start(no_key, NO_WAIT), Folder::new());
        let more = format!("--scenario {scenario} --mode performance");
        let ran = folder.dyno(&format!("run {}", server.arguments(&more))).exits(3);
        has_words(&ran, "rejects each request before the test: HTTP status 401: Incorrect API key");
        has_words(&ran, "token-env=NAME");
        assert!((1..20).contains(&server.requests()), "{}", server.requests());
        assert!(!folder.0.join("out").exists());
    }
}

#[test]
fn a_single_probe_shows_the_message_of_the_server_and_advice() {
    let (server, folder) = (Server::start(no_key, NO_WAIT), Folder::new());
    let ran = folder.dyno(&format!("probe --system raw:http://{}/x --samples 8", server.address));
    let shown = ran.exits(1).stdout;
    for words in ["Incorrect API key", "token-env=NAME", "It answers each request with an error."] {
        assert!(shown.contains(words), "{shown}");
    }
}

#[test]
fn a_method_that_is_not_allowed_is_answered_with_the_keys_of_a_body() {
    let not_allowed: Answer = |_| ("405 Method Not Allowed", "{\"detail\":\"Method Not Allowed\"}");
    let (server, folder) = (Server::start(not_allowed, NO_WAIT), Folder::new());
    let ran = folder
        .dyno(&format!("run {}", server.arguments("--scenario server --mode performance")))
        .exits(3);
    has_words(&ran, "HTTP status 405");
    let keys = "POST with body=@FILE, body=TEXT or method=POST";
    assert!(ran.stderr.contains(keys), "{}", ran.stderr);
}

#[test]
fn a_warm_up_that_is_rejected_is_a_set_up_that_fails() {
    let (server, folder) = (Server::start(no_key, NO_WAIT), Folder::new());
    let more = "--scenario SingleStream --mode performance --warm-up 3";
    let ran = folder.dyno(&format!("run {}", server.arguments(more))).exits(3);
    has_words(&ran, "rejects each request before the test: HTTP status 401: Incorrect API key");
    assert_eq!(server.requests(), 3);
}

#[test]
fn a_warm_up_that_fails_ends_as_early_as_its_run() {
    let broken: Answer = |_| ("500 Internal Server Error", "{\"error\":\"out of memory\"}");
    let (server, folder) = (Server::start(broken, NO_WAIT), Folder::new());
    let more = "--scenario SingleStream --mode performance --num-prompts 400 --warm-up 400";
    let ran = folder.dyno(&format!("run {}", server.arguments(more))).exits(4);
    has_words(&ran, "all of the first 20 answers failed");
    // 20 requests before the test and 20 of it, each with one that was on its way.
    assert!((40..=42).contains(&server.requests()), "{}", server.requests());
}

/// The first test has 40 requests, and 3 before it.
#[test]
fn a_set_up_that_fails_after_a_test_names_the_results_of_that_test() {
    let later: Answer = |n| if n < 43 { good(n) } else { no_key(n) };
    let (server, folder) = (Server::start(later, NO_WAIT), Folder::new());
    let more =
        "--scenario SingleStream,MultiStream --mode performance --warm-up 3 --num-prompts 40";
    let ran = folder.dyno(&format!("run {}", server.arguments(more))).exits(3);
    has_words(&ran, "dyno report .out.partial shows the results of the tests before");
    assert!(folder.0.join(".out.partial/SingleStream/performance/records.bin").is_file());
    folder.dyno("report .out.partial").exits(0);
}

#[test]
fn trials_of_other_commands_end_with_the_same_words() {
    let (server, folder) = (Server::start(no_key, NO_WAIT), Folder::new());
    let arguments = server.arguments("--limit p99<=50ms --from 100");
    let ran = folder.dyno(&format!("search {arguments}")).exits(4);
    has_words(&ran, "all of the first 20 answers failed: HTTP status 401: Incorrect API key");
    let of_search = server.requests();
    assert!(of_search < 1_000, "{of_search}");

    let config = format!("version = 1\n[run]\nsystem = \"raw:http://{}/x\"\n", server.address);
    folder.write("a.toml", &config);
    folder.write("b.toml", &config);
    let ran = folder.dyno(
        "compare --interleave 3 a.toml b.toml --scenario SingleStream --samples 8 --out pairs",
    );
    has_words(&ran.exits(4), "Incorrect API key provided");
    assert_eq!(server.requests(), of_search + 20, "the first run ends it");

    let arguments = "sweep --config a.toml --over seed=1,2,3,4,5 --scenario SingleStream \
                     --mode performance --samples 8 --out points";
    let ran = folder.dyno(arguments).exits(4);
    has_words(&ran, "Incorrect API key provided");
    assert_eq!(server.requests(), of_search + 60, "after two points");
}

#[test]
fn answers_of_a_text_server_have_classes_also_if_every_request_fails() {
    let server = Server::start(|_| ("500 Internal Server Error", "{}"), Duration::ZERO);
    let folder = Folder::new();
    let ran = folder.dyno(&format!(
        "run --system openai:http://{},model=m --num-prompts 5 --max-concurrency 2 --fail-fast off \
         --out out",
        server.address
    ));
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let answers = &summary(&folder)["tests"][0]["metrics"]["answers"];
    assert_eq!(answers["whole"], 0, "{answers}");
    assert_eq!(answers["failed_on_the_wire"], 5, "{answers}");
}

/// Returns the lines that state the problems and their remedies.
fn problems(ran: &ProgramResult) -> Vec<String> {
    let is_problem = |line: &&str| line.starts_with("error: ") || line.starts_with("hint: ");
    ran.stderr.lines().filter(is_problem).map(String::from).collect()
}

#[test]
fn a_sweep_without_a_point_that_can_begin_ends_like_a_run() {
    let folder = Folder::new();
    // Its listener is closed at once.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for system in [
        format!("openai:http://{address},model=m"),
        format!("raw:http://{address}/x,token-env=NO_SUCH_TOKEN"),
        "tract:missing.onnx".into(),
    ] {
        let more = format!("--system {system} --scenario SingleStream --mode performance");
        let run = folder.dyno(&format!("run {more} --seed 1 --out out")).exits(3);
        let sweep = folder.dyno(&format!("sweep {more} --over seed=1,2 --out out")).exits(3);
        assert_eq!(problems(&sweep), problems(&run));
        assert!(!folder.0.join("out").exists(), "{system}");
    }
    let plan = "--system tract:missing.onnx --scenario SingleStream --dry-run";
    let run = folder.dyno(&format!("run {plan}")).exits(3);
    let sweep = folder.dyno(&format!("sweep {plan} --over seed=1,2")).exits(3);
    assert_eq!(problems(&sweep), problems(&run));
}

#[test]
fn a_fixed_number_of_queries_in_flight_needs_no_probe_and_is_never_exceeded() {
    let wait = Duration::from_millis(5);
    let (server, folder) = (Server::start(good, wait), Folder::new());
    let more = "--scenario server --mode performance --duration 100ms --set min_query_count=20 \
                --set server_arrivals=concurrency:2";
    let ran = folder.dyno(&format!("run {}", server.arguments(more)));
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
    assert!(server.most_in_flight() <= 2, "{}", server.most_in_flight());
    assert_eq!(summary(&folder).get("probe"), None);
}

#[test]
fn a_probe_keeps_to_the_connections_and_is_reported() {
    let wait = Duration::from_millis(5);
    let (server, folder) = (Server::start(good, wait), Folder::new());
    let more = "--scenario offline --mode performance --duration 100ms";
    let arguments = server.arguments(more).replace("/x", "/x,connections=3");
    let ran = folder.dyno(&format!("run {arguments}"));
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
    assert!(server.most_in_flight() <= 3, "{}", server.most_in_flight());
    let summary = summary(&folder);
    let probe = &summary["probe"];
    let sent = summary["clients"][0]["sent"].as_u64().unwrap();
    let probed = probe["requests"].as_u64().unwrap();
    assert_eq!(probed + sent, server.requests(), "all that was sent is reported");
    assert_eq!(probe["failed"], 0);
    assert!(probe["most_in_flight"].as_u64().unwrap() <= 3, "{probe}");
    let remarks = summary["remarks"].to_string();
    assert!(
        remarks.contains(&format!("A probe before the run sent {probed} requests")),
        "{remarks}"
    );
}

/// Refuses the first eight of each ten.
fn full(number: u64) -> (&'static str, &'static str) {
    if number % 10 < 8 { ("429 Too Many Requests", "{}") } else { good(number) }
}

#[test]
fn a_probe_tells_that_the_server_is_full() {
    let (server, folder) = (Server::start(full, Duration::from_millis(2)), Folder::new());
    let more = "--scenario server --mode performance --duration 50ms --fail-fast off";
    let ran = folder.dyno(&format!("run {}", server.arguments(more)));
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
    let summary = summary(&folder);
    let (probe, remarks) = (&summary["probe"], summary["remarks"].to_string());
    assert!(probe["refused"].as_u64().unwrap() > 0, "{probe}");
    assert!(remarks.contains("because it was full"), "{remarks}");
}

/// Fails all answers after the first 300.
fn broken(number: u64) -> (&'static str, &'static str) {
    if number < 300 { good(number) } else { ("500 Internal Server Error", "{}") }
}

/// Rejects all requests after the first 300, as a server with a limit on the requests per hour.
fn limited(number: u64) -> (&'static str, &'static str) {
    if number < 300 { good(number) } else { ("429 Too Many Requests", "{}") }
}

const SEARCH: &str =
    "--scenario server --limit p99<=1s --from 50 --short 500ms --set max_client_lag_ns=0";

/// Every load fails then. The search went down to a fraction of a query per second.
#[test]
fn a_server_that_breaks_ends_a_search() {
    let (server, folder) = (Server::start(broken, Duration::from_millis(2)), Folder::new());
    let ran = folder.dyno(&format!("search {}", server.arguments(SEARCH))).exits(4);
    assert!(ran.stderr.contains("dyno search --resume out"), "{}", ran.stderr);
    let state: Value = serde_json::from_str(&folder.read("out/search.json")).unwrap();
    assert_eq!((&state["state"], &state["peak"]), (&"aborted".into(), &Value::Null));
    // The loads of its last runs are not too high: it was broken already.
    assert_eq!(state["points"].as_array().unwrap().last().unwrap()["passed"], true);
    assert!(!state["unfinished"].as_array().unwrap().is_empty());
}

#[test]
fn a_server_that_rejects_what_is_above_its_limit_ends_no_search() {
    let (server, folder) = (Server::start(limited, Duration::from_millis(2)), Folder::new());
    let search = format!("search {} --no-confirm --max-time 8s", server.arguments(SEARCH));
    folder.dyno(&search).exits(1);
    assert!(!folder.read("out/search.json").contains("\"aborted\""));
}
