//! The metrics pages of servers, compared with what the server itself noted. The server and its pages are
//! written here, and share nothing with the code that reads them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};

use crate::http_request::{read_request, target};
use crate::program::Folder;
use crate::schema::keeps_to_schemas;

/// A server of texts that answers one request after the other, with a metrics page in the style of vLLM.
struct Server {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    counts: Mutex<Counts>,
    /// Held by the request that is in work.
    turn: Mutex<()>,
}

/// What happened on the server.
#[derive(Debug, Default, Clone)]
struct Counts {
    waiting: u64,
    running: u64,
    most_waiting: u64,
    answered: u64,
    tokens: u64,
    /// Waiting requests and tokens on each page that was sent.
    pages: Vec<(u64, u64)>,
    /// Heads of the requests for pages.
    heads: Vec<String>,
}

/// Time that an answer takes.
const SERVICE: Duration = Duration::from_millis(20);
/// Tokens of an answer.
const TOKENS: u64 = 7;

/// Waits as a server does that computes.
fn compute() {
    let (_sender, never) = std::sync::mpsc::channel::<()>();
    let _ = never.recv_timeout(SERVICE);
}

impl Server {
    /// Starts a server; `page` returns its metrics, or the path that it redirects to.
    fn start(page: fn(&Counts, &str) -> Result<String, &'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::<State>::default();
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let state = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream.unwrap(), &state, page));
            }
        });
        Self { address, state }
    }

    fn counts(&self) -> Counts {
        self.state.counts().clone()
    }
}

impl State {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap()
    }

    fn complete(&self) -> String {
        let mut counts = self.counts();
        counts.waiting += 1;
        counts.most_waiting = counts.most_waiting.max(counts.waiting);
        drop(counts);
        let turn = self.turn.lock().unwrap();
        let mut counts = self.counts();
        (counts.waiting, counts.running) = (counts.waiting - 1, counts.running + 1);
        drop(counts);
        compute();
        let mut counts = self.counts();
        counts.running -= 1;
        counts.answered += 1;
        counts.tokens += TOKENS;
        drop((counts, turn));
        let choice = json!({"index": 0, "text": "one two three four five six seven", "finish_reason": "stop"});
        let usage = json!({"prompt_tokens": 3, "completion_tokens": TOKENS, "total_tokens": 10});
        json!({"object": "text_completion", "choices": [choice], "usage": usage}).to_string()
    }
}

fn serve(
    stream: TcpStream,
    state: &State,
    page: fn(&Counts, &str) -> Result<String, &'static str>,
) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    while let Some((head, _)) = read_request(&mut reader) {
        let path = target(&head).to_owned();
        let answer = if path.starts_with("/v1/completions") {
            let body = state.complete();
            format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
        } else {
            let mut counts = state.counts();
            counts.heads.push(head.clone());
            match page(&counts, &path) {
                Ok(body) => {
                    let shown = (counts.waiting, counts.tokens);
                    counts.pages.push(shown);
                    let kind = "text/plain; version=0.0.4; charset=utf-8";
                    let length = body.len();
                    format!(
                        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}"
                    )
                }
                Err("") => "HTTP/1.1 404 X\r\ncontent-length: 0\r\n\r\n".to_owned(),
                Err(to) => format!("HTTP/1.1 307 X\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n"),
            }
        };
        if writer.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// A page as vLLM writes it, at the path with a slash to which it redirects.
fn vllm(counts: &Counts, path: &str) -> Result<String, &'static str> {
    if path != "/metrics/" {
        return Err("/metrics/");
    }
    let Counts { waiting, running, tokens, .. } = counts;
    Ok(format!(
        "# HELP python_gc_objects_collected_total Objects collected during gc\n\
         # TYPE python_gc_objects_collected_total counter\n\
         python_gc_objects_collected_total{{generation=\"0\"}} 9.1e+02\n\
         # HELP vllm:num_requests_running Number of requests in model execution batches.\n\
         # TYPE vllm:num_requests_running gauge\n\
         vllm:num_requests_running{{engine=\"0\",model_name=\"a \\\"b\\\"\"}} {running}.0\n\
         # TYPE vllm:num_requests_waiting gauge\n\
         vllm:num_requests_waiting{{engine=\"0\",model_name=\"a \\\"b\\\"\"}} {waiting}.0\n\
         vllm:kv_cache_usage_perc{{engine=\"0\"}} 0.25\n\
         vllm:generation_tokens_total{{engine=\"0\"}} {tokens}.0\n\
         # TYPE vllm:time_to_first_token_seconds histogram\n\
         vllm:time_to_first_token_seconds_bucket{{le=\"+Inf\"}} {tokens}.0\n\
         what is this line\n"
    ))
}

fn nothing_known(_: &Counts, _: &str) -> Result<String, &'static str> {
    Ok("go_goroutines 8\n".into())
}

fn missing(_: &Counts, _: &str) -> Result<String, &'static str> {
    Err("")
}

/// Runs for a second at four requests in flight and returns the summary.
fn measured(folder: &Folder, server: &Server, options: &str) -> Value {
    let ran = folder.dyno(&format!(
        "run --system openai:http://{}/v1,model=m,stream=false,metrics-interval=100ms{options} \
         --max-concurrency 4 --duration 1s --out out -q",
        server.address
    ));
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
    serde_json::from_str(&folder.read("out/summary.json")).unwrap()
}

#[test]
fn readings_are_those_that_the_server_gave() {
    let (server, folder) = (Server::start(vllm), Folder::new());
    let summary = measured(&folder, &server, "");
    let counts = server.counts();
    let series: Value = serde_json::from_str(&folder.read("out/series.json")).unwrap();
    let readings = &series["servers"][0];
    let column = |name: &str| -> Vec<f64> {
        let values = readings["values"][name].as_array().unwrap();
        values.iter().map(|value| value.as_f64().unwrap()).collect()
    };
    // Every page, in order.
    let given = |of: fn(&(u64, u64)) -> u64| -> Vec<f64> {
        counts.pages.iter().map(|page| of(page) as f64).collect()
    };
    assert_eq!(column("waiting"), given(|page| page.0));
    assert_eq!(column("generated_tokens"), given(|page| page.1));
    let times = readings["at_ns"].as_array().unwrap();
    let times: Vec<i64> = times.iter().map(|time| time.as_i64().unwrap()).collect();
    assert!(times.is_sorted() && times[0] < 0, "the first one is before the run: {times:?}");
    assert!(times.len() > 4, "{times:?}");

    let found = &summary["servers"][0];
    assert_eq!(found["servers"], json!(["vLLM"]));
    assert_eq!(found["page"], format!("http://{}/metrics", server.address));
    // Four in flight of which one is in work.
    let waiting = &found["gauges"]["waiting"];
    assert!(waiting["max"].as_f64().unwrap() <= counts.most_waiting as f64, "{waiting}");
    assert!(waiting["mean"].as_f64().unwrap() > 1.0, "{waiting}");
    assert_eq!(found["gauges"]["kv_cache_use"], json!({"mean": 0.25, "max": 0.25, "last": 0.25}));
    assert_eq!(found["malformed_lines"].as_u64(), Some(counts.pages.len() as u64));
    // The request before the clock is not part of the growth, and both count the same answers.
    let test = &summary["tests"][0];
    let samples = test["metrics"]["sample_count"].as_u64().unwrap();
    assert_eq!(found["counters"]["generated_tokens"].as_f64(), Some((TOKENS * samples) as f64));
    assert_eq!(test["metrics"]["token_count"], TOKENS * samples);
    assert!(!test["notes"].to_string().contains("own counter"), "{}", test["notes"]);
    let report = folder.read("out/report.html");
    assert!(report.contains("Server metrics</h3>") && report.contains("Requests in the server"));
    assert!(report.contains("data-label=\"quantity\""), "rows become blocks in a narrow window");
    keeps_to_schemas(&folder, "out");
}

#[test]
fn pages_without_known_metrics_are_asked_once_and_told_as_absent() {
    for (page, why) in [
        (missing as fn(&Counts, &str) -> _, "HTTP status 404"),
        (nothing_known, "the page has no metric that Dyno knows"),
    ] {
        let (server, folder) = (Server::start(page), Folder::new());
        let summary = measured(&folder, &server, "");
        assert_eq!(summary["servers"][0]["absent"], why);
        assert_eq!(summary["servers"][0]["readings"], 0);
        assert_eq!(server.counts().heads.len(), 1);
    }
}

#[test]
fn pages_are_not_asked_for_where_they_are_not_wanted() {
    let (server, folder) = (Server::start(vllm), Folder::new());
    let summary = measured(&folder, &server, ",metrics=off");
    assert_eq!(summary["servers"], Value::Null);
    assert_eq!(server.counts().heads.len(), 0);
}

#[test]
fn other_clients_of_a_server_are_noted() {
    let (server, folder) = (Server::start(vllm), Folder::new());
    let others = Arc::clone(&server.state);
    let (running, is_over) = std::sync::mpsc::channel::<()>();
    let other = std::thread::spawn(move || {
        while is_over.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            others.complete();
        }
    });
    let summary = measured(&folder, &server, "");
    drop(running);
    other.join().unwrap();
    let notes = summary["tests"][0]["notes"].to_string();
    assert!(notes.contains("The server's own counter grew by"), "{notes}");
    assert_eq!(summary["tests"][0]["reasons"], json!([]), "it is no reason");
}

#[test]
fn credentials_reach_the_page_of_the_server_alone() {
    let (server, other, folder) = (Server::start(vllm), Server::start(vllm), Folder::new());
    let pages = format!(
        ",metrics=http://{}/metrics,metrics=http://{}/metrics,header.x-key=sesame-of-the-test",
        server.address, other.address
    );
    let summary = measured(&folder, &server, &pages);
    let pages: Vec<&Value> = summary["servers"].as_array().unwrap().iter().collect();
    assert_eq!(pages.len(), 3, "two pages, and both together");
    assert_eq!(pages[2]["page"], "all");
    let has_key = |server: &Server| {
        server.counts().heads.iter().any(|head| head.contains("sesame-of-the-test"))
    };
    assert!(has_key(&server) && !has_key(&other));
    assert!(!folder.read("out/summary.json").contains("sesame"));
}

#[test]
fn runs_are_compared_with_the_values_of_their_servers() {
    let (server, folder) = (Server::start(vllm), Folder::new());
    measured(&folder, &server, "");
    std::fs::rename(folder.0.join("out"), folder.0.join("a")).unwrap();
    measured(&folder, &server, "");
    let compared = folder.dyno("compare a out --json");
    let row = &compared.json()["tests"][0]["server"];
    let quantities: Vec<&str> =
        row.as_array().unwrap().iter().filter_map(|row| row["quantity"].as_str()).collect();
    assert_eq!(quantities, ["running", "waiting", "kv_cache_use"]);
    assert_eq!(row[2]["baseline"], 0.25);
    let text = folder.dyno("compare a out").stdout;
    assert!(text.contains("server: waiting") && text.contains("not judged"), "{text}");
}

#[test]
fn dyno_serve_has_a_page_that_is_read() {
    let folder = Folder::new();
    let mut serve =
        folder.command("serve --http 127.0.0.1:0 --system tokens:first=20ms,each=1ms,tokens=9");
    let mut serve = serve.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(serve.stdout.take().unwrap()).lines().map_while(Result::ok);
    let said: Vec<String> = lines.take_while(|line| line != "ready").collect();
    let address = said.iter().find_map(|line| line.strip_prefix("http http://")).unwrap();
    let ran = folder.dyno(&format!(
        "run --system openai:http://{address},metrics-interval=100ms --max-concurrency 4 \
         --duration 1s --out out -q"
    ));
    serve.kill().unwrap();
    serve.wait().unwrap();
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
    let summary: Value = serde_json::from_str(&folder.read("out/summary.json")).unwrap();
    let found = &summary["servers"][0];
    assert_eq!(found["servers"], json!(["dyno serve"]));
    let running = found["gauges"]["running"]["mean"].as_f64().unwrap();
    assert!(running > 1.0 && running <= 4.0, "{running}");
    assert_eq!(
        found["counters"]["generated_tokens"].as_f64(),
        summary["tests"][0]["metrics"]["token_count"].as_f64()
    );
}
