//! Loads of servers: ladders with their knee.

use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::http_request::{read_request, target};
use crate::program::Folder;
use crate::workers::shared_by_two;

/// Which answers come as a stream.
#[derive(Clone, Copy, PartialEq)]
enum Streams {
    All,
    EveryOther,
    None,
}

/// A server of texts with a fixed service time and a number of slots. Requests wait for a slot.
struct SlotServer {
    address: SocketAddr,
    state: Arc<(Mutex<State>, Condvar)>,
}

/// What the server knows of its own load.
#[derive(Default)]
struct State {
    in_service: usize,
    answered: usize,
    /// Most requests that were in service or waited.
    most_present: usize,
    present: usize,
}

impl SlotServer {
    fn start(slots: usize, service: Duration) -> Self {
        Self::streaming(slots, service, Streams::All)
    }

    fn streaming(slots: usize, service: Duration, streams: Streams) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new((Mutex::new(State::default()), Condvar::new()));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || {
                    serve(stream.unwrap(), (slots, service, streams), &shared);
                });
            }
        });
        Self { address, state }
    }
}

#[expect(clippy::disallowed_methods, reason = "a clock that shares nothing with the program")]
fn serve(
    stream: TcpStream,
    (slots, service, streams): (usize, Duration, Streams),
    (state, changed): &(Mutex<State>, Condvar),
) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    while let Some((head, _)) = read_request(&mut reader) {
        let path = target(&head);
        let http = |kind: &str, body: &str| {
            let length = body.len();
            format!(
                "HTTP/1.1 200 X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}"
            )
        };
        let usage = json!({"prompt_tokens": 7, "completion_tokens": 4, "total_tokens": 11});
        let answer = if path == "/v1/models" {
            http("application/json", &json!({"data": [{"id": "tiny"}]}).to_string())
        } else {
            let mut now = state.lock().unwrap();
            now.present += 1;
            now.most_present = now.most_present.max(now.present);
            let mut now = changed.wait_while(now, |now| now.in_service >= slots).unwrap();
            now.in_service += 1;
            drop(now);
            std::thread::sleep(service);
            let mut now = state.lock().unwrap();
            now.in_service -= 1;
            now.present -= 1;
            now.answered += 1;
            let is_streamed = match streams {
                Streams::All => true,
                Streams::EveryOther => now.answered.is_multiple_of(2),
                Streams::None => false,
            };
            drop(now);
            changed.notify_all();
            let mut events = String::new();
            let whole = json!({"choices": [{"message": {"content": "one two three four"},
                "finish_reason": "stop"}], "usage": usage});
            for word in ["one ", "two ", "three ", "four"] {
                let choice = json!({"delta": {"content": word}});
                events += &format!("data: {}\n\n", json!({"choices": [choice]}));
            }
            let end = json!({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": usage});
            events += &format!("data: {end}\n\ndata: [DONE]\n\n");
            if is_streamed {
                http("text/event-stream", &events)
            } else {
                http("application/json", &whole.to_string())
            }
        };
        if writer.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

#[test]
fn a_ladder_of_loads_finds_the_slots_of_a_server() {
    let (slots, seconds) = (4.0, 0.05);
    let server = SlotServer::start(4, Duration::from_secs_f64(seconds));
    let folder = Folder::new();
    let ran = folder.dyno(&format!(
        "run {} --sweep --max-concurrency 128 --duration 1500ms --set max_client_lag_ns=0 --out out",
        server.address
    ));
    let sweep: Value = serde_json::from_str(&folder.read("out/sweep.json")).unwrap();
    let points = sweep["points"].as_array().unwrap();
    assert_eq!(points.len(), 8, "1, 2, 4, ... 128");
    assert!(ran.stderr.contains("the sweep ends after 58.0 s at the latest"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("virtual time"), "{}", ran.stderr);
    for point in points.iter().filter(|point| point["state"] != "skipped") {
        let load: f64 = point["assignments"]["max_concurrency"].as_str().unwrap().parse().unwrap();
        let found = point["results"][0]["throughput"].as_f64().unwrap();
        // A service is never shorter than its time, whatever the machine does.
        assert!(found <= load.min(slots) / seconds * 1.02, "{point}");
        let tokens = point["results"][0]["output_tokens_per_s"].as_f64().unwrap();
        assert!((tokens / found / 4.0 - 1.0).abs() < 0.01, "four tokens each: {point}");
    }
    // 8 and 16 in flight bring no more than 4 do.
    let state = |at: usize| points[at]["state"].as_str().unwrap();
    assert_eq!(state(7), "skipped", "{}", ran.stdout);
    assert!(ran.stdout.contains("Knee: concurrency 4,"), "{}\n{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.lines().all(|line| line.chars().count() == 80), "{}", ran.stdout);
    let page = folder.read("out/report.html");
    assert!(page.contains("Time to first token by load") && page.contains("Knee: concurrency 4."));
    // The server saw no more at once than the loads that were played.
    let most: usize = points
        .iter()
        .filter(|point| point["state"] != "skipped")
        .map(|point| point["assignments"]["max_concurrency"].as_str().unwrap().parse().unwrap())
        .max()
        .unwrap();
    let state = server.state.0.lock().unwrap();
    assert!(state.most_present <= most && state.answered > 0, "{} {most}", state.most_present);
}

#[test]
fn every_command_that_measures_takes_a_url() {
    let server = SlotServer::start(64, Duration::from_millis(2));
    let folder = Folder::new();
    let ran = folder.dyno(&format!("probe {}", server.address)).exits(0);
    assert!(ran.stdout.contains("It answers."), "{}", ran.stdout);
    let ran = folder.dyno(&format!(
        "sweep {} --over request-rate=20,40 --num-prompts 10 --dry-run",
        server.address
    ));
    assert!(ran.stdout.contains("2 points to run, each takes"), "{}", ran.stdout);
    let ran = folder.dyno(&format!("search {} --limit p99<=1s --dry-run --from 5", server.address));
    assert!(ran.stdout.contains(&server.address.to_string()), "{}", ran.stdout);
    let ran = folder.dyno(&format!("run {} --num-prompts 10", server.address));
    assert!(ran.stderr.contains("OpenAI-compatible: model tiny"), "{}", ran.stderr);
    for command in ["probe", "sweep --over seed=1,2", "search", "run --sweep"] {
        let ran = folder.dyno(&format!("{command} {} --system null", server.address)).exits(2);
        assert!(ran.stderr.contains("select a system"), "{command}: {}", ran.stderr);
    }
    let ran = folder.dyno(&format!("run {} --sweep=8,4", server.address)).exits(2);
    assert!(ran.stderr.contains("ascending loads"), "{}", ran.stderr);
}

/// Returns the first test of the run in `out`.
fn first_test(folder: &Folder) -> Value {
    let run: Value = serde_json::from_str(&folder.read("out/summary.json")).unwrap();
    run["tests"][0].clone()
}

#[test]
fn each_metric_of_a_server_has_a_row_with_its_distribution() {
    let server = SlotServer::start(64, Duration::from_millis(20));
    let folder = Folder::new();
    let ran = folder.dyno(&format!(
        "run {} --num-prompts 30 --max-concurrency 3 --metric-percentiles 99.9,25,50 \
         --percentile-metrics ttft --out out",
        server.address
    ));
    let test = first_test(&folder);
    let metrics = &test["metrics"];
    let names: Vec<&str> = metrics["distributions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|of| of["metric"].as_str().unwrap())
        .collect();
    for name in ["ttft", "e2el", "requests_per_s", "input_tokens", "output_tokens"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    let of = |name: &str| {
        let at = names.iter().position(|other| *other == name).unwrap();
        metrics["distributions"][at].clone()
    };
    assert_eq!(
        (&of("output_tokens")["mean"], &of("output_tokens")["std"]),
        (&json!(4.0), &json!(0.0))
    );
    assert_eq!(of("input_tokens")["max"], 7.0);
    assert!(of("e2el")["min"].as_f64().unwrap() >= 20e6, "no answer is faster than the service");
    assert_eq!(of("e2el")["percentiles"], json!([]));
    let percents: Vec<f64> = of("ttft")["percentiles"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| found["percent"].as_f64().unwrap())
        .collect();
    assert_eq!(percents, [25.0, 50.0, 99.9]);
    assert_eq!(metrics["peak_concurrency"], 3);
    assert_eq!(server.state.0.lock().unwrap().most_present, 3, "the server counts the same");
    assert!(
        ran.stdout.contains("30 requests answered, 0 failed, peak concurrency 3"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.lines().all(|line| line.chars().count() == 80), "{}", ran.stdout);
    let csv = folder.dyno("export out --format metrics").exits(0).stdout;
    assert!(csv.starts_with("test,metric,unit,count,mean,std,min,max,p25,p50,p99.9\r\n"), "{csv}");
    assert_eq!(csv.lines().count(), 1 + names.len(), "a line a metric: {csv}");
    let ran =
        folder.dyno("run --system openai:http://127.0.0.1:1 --metric-percentiles 100").exits(2);
    assert!(ran.stderr.contains("above 0 and below 100"), "{}", ran.stderr);
    let ran = folder.dyno("run --system null --metric-percentiles 50").exits(2);
    assert!(ran.stderr.contains("metric-percentiles"), "{}", ran.stderr);
}

#[test]
fn limits_on_tokens_need_answers_that_are_streamed() {
    let folder = Folder::new();
    let run = |streams| {
        let server = SlotServer::streaming(64, Duration::from_millis(1), streams);
        let _ = std::fs::remove_dir_all(folder.0.join("out"));
        let ran = folder.dyno(&format!(
            "run {} --num-prompts 400 --max-concurrency 4 --goodput ttft:10000 \
             --require ttft.p50<=10s --out out",
            server.address
        ));
        (ran, first_test(&folder))
    };
    let (ran, whole) = run(Streams::None);
    assert_eq!(whole["metrics"]["goodput"]["share"], Value::Null);
    // The box breaks the sentence.
    let words = ran.stdout.replace('│', " ");
    let words: Vec<&str> = words.split_whitespace().collect();
    let words = words.join(" ");
    assert!(words.contains("is not measured, because no answer was streamed"), "{}", ran.stdout);
    let (_, half) = run(Streams::EveryOther);
    assert!((half["metrics"]["goodput"]["share"].as_f64().unwrap() - 0.5).abs() < 0.05);
    let requirement = &half["requirements"][0];
    assert_eq!(requirement["finding"], "undecided", "{requirement}");
    let unmeasured = requirement["unmeasured"].as_u64().unwrap();
    assert!((190..=210).contains(&unmeasured), "every other of 400: {unmeasured}");
    assert_ne!(half["verdict"], "VALID");
    let (_, all) = run(Streams::All);
    assert_eq!(all["requirements"][0]["finding"], "met", "{all}");
}

#[test]
fn stages_have_the_arrivals_of_the_integral_of_their_rates() {
    let folder = Folder::new();
    // 100 s from 0 to 20/s and 100 s at 20/s, in virtual time: 1,000 and 2,000 arrivals.
    folder.dyno(
        "run --system model:fixed=1ms,servers=64 --scenario server --mode performance \
         --stages 100s@0-20,100s@20 --out out",
    );
    let test = first_test(&folder);
    assert_eq!(test["plan"]["arrivals"], "stages 100s@0-20,100s@20");
    let count = test["metrics"]["query_count"].as_f64().unwrap();
    assert!((count - 3_000.0).abs() < 4.0 * f64::sqrt(3_000.0), "{count}");
    let lasted = test["metrics"]["lasted_ns"].as_f64().unwrap() / 1e9;
    assert!((190.0..=200.1).contains(&lasted), "{lasted}");
    for (flags, other) in [
        ("--request-rate 5", "--request-rate"),
        ("--duration 5s", "--duration"),
        ("--set server_arrivals=constant", "another setting"),
    ] {
        let ran = folder
            .dyno(&format!(
                "run --system model:fixed=1ms --scenario server --mode performance --stages 1s@5 {flags}"
            ))
            .exits(2);
        assert!(ran.stderr.contains(other), "{}", ran.stderr);
    }
}

#[test]
fn each_stage_and_the_steady_part_have_figures_of_their_own() {
    let server = SlotServer::start(64, Duration::from_millis(5));
    let folder = Folder::new();
    let ran =
        folder.dyno(&format!("run {} --stages 1s@10,1s@60,1s@60-0 --out out", server.address));
    let metrics = first_test(&folder)["metrics"].clone();
    let stages = metrics["stages"].as_array().unwrap();
    let of = |key: &str| -> Vec<f64> { stages.iter().map(|s| s[key].as_f64().unwrap()).collect() };
    assert_eq!(of("requests").iter().sum::<f64>(), metrics["query_count"].as_f64().unwrap());
    assert!(of("offered_per_s")[1] > of("offered_per_s")[0], "{stages:?}");
    assert_eq!(of("to_ns"), [1e9, 2e9, 3e9]);
    assert_eq!(metrics["steady"], Value::Null, "the load changes");
    // The last stage has about 30 requests: too few for a p99.
    let row = ran.stdout.lines().find(|line| line.starts_with("│ 1s@60-0"));
    assert!(row.is_some_and(|row| row.contains('*')), "{}", ran.stdout);
    let explained = "* too few values for this percentile; shown is the largest one";
    assert!(ran.stdout.contains(explained), "{}", ran.stdout);
    let page = folder.read("out/report.html");
    let (_, table) = page.split_once("<h3>Stages of the load</h3>").expect("a table of stages");
    let table = table.split("</table>").next().unwrap();
    for stage in stages {
        let name = stage["name"].as_str().unwrap();
        assert!(table.contains(&format!("<th scope=\"row\">{name}</th>")), "{table}");
    }
    assert!(!page.contains("Steady part"), "the load changes");
    assert!(ran.stdout.lines().all(|line| line.chars().count() == 80), "{}", ran.stdout);
    std::fs::remove_dir_all(folder.0.join("out")).unwrap();
    folder.dyno(&format!("run {} --num-prompts 600 --out out", server.address));
    let metrics = first_test(&folder)["metrics"].clone();
    // A busy machine may disturb even a constant service; a steady part then is null.
    if let Some(steady) = metrics["steady"].as_object() {
        assert!(steady["requests"].as_u64().unwrap() >= 300, "{steady:?}");
        assert_eq!(steady["lost"], 0);
        assert!(folder.read("out/report.html").contains("<h3>Steady part</h3>"));
    }
}

#[test]
fn a_sweep_of_offline_has_the_tokens_per_second() {
    let folder = Folder::new();
    let system = "model:fixed=1ms,tokens=4-4,per-token=100us";
    let ran = folder.dyno(&format!(
        "sweep --over settings.offline_expected_qps=1000,2000 --system {system} --scenario offline \
         --mode performance --duration 1s --set use_token_latencies=true --no-progress --out out"
    ));
    assert!(matches!(ran.code, Some(0 | 1)), "{}{}", ran.stdout, ran.stderr);
    let sweep: Value = serde_json::from_str(&folder.read("out/sweep.json")).unwrap();
    for point in sweep["points"].as_array().unwrap() {
        let result = &point["results"][0];
        let [rate, tokens] =
            ["throughput", "output_tokens_per_s"].map(|key| result[key].as_f64().unwrap());
        assert!((tokens / rate - 4.0).abs() < 1e-6, "four tokens each: {point}");
    }
}

/// Each worker has an equal part of the limit, whichever way it is given.
#[test]
fn workers_share_the_limit_of_requests_in_flight() {
    for (keys, flag) in [("", "--max-concurrency 2"), (",max-concurrency=2", "")] {
        let (server, folder) = (SlotServer::start(8, Duration::from_millis(50)), Folder::new());
        let load = "--request-rate 100 --num-prompts 30 --set max_client_lag_ns=0 --no-progress";
        let system = format!("openai:http://{},model=tiny,metrics=off{keys}", server.address);
        let summary = shared_by_two(&folder, &format!("run --system {system} {flag} {load}"));
        assert_eq!(server.state.0.lock().unwrap().most_present, 2, "{keys}{flag}");
        // Requests that wait in a worker are not in flight.
        let metrics = &summary["tests"][0]["metrics"];
        assert_eq!(
            (&metrics["peak_concurrency"], &metrics["sample_count"]),
            (&2.into(), &30.into())
        );
    }
    let folder = Folder::new();
    let few = "run --system openai:http://127.0.0.1:9,model=m --max-concurrency 2 --request-rate 9 \
               --remote-workers 3 --dry-run";
    let ran = folder.dyno(few).exits(2);
    assert!(ran.stderr.contains("--max-concurrency 2 cannot be divided among 3"), "{}", ran.stderr);
    // Each worker issues half of the queries, and one of them could have two in flight.
    for limit in [
        "openai:http://127.0.0.1:9,model=m --max-concurrency 3",
        "openai:http://127.0.0.1:9,model=m,max-concurrency=3",
    ] {
        let ran = folder
            .dyno(&format!("run --system {limit} --request-rate 9 --remote-workers 2 --dry-run"));
        let ran = ran.exits(2);
        assert!(ran.stderr.contains("use a multiple of 2"), "{}", ran.stderr);
    }
}

#[test]
fn a_closed_loop_of_profile_llm_is_noted() {
    let folder = Folder::new();
    let notes = |options: &str| {
        let ran = folder.dyno(&format!(
            "run --system model:fixed=10ms,servers=8 --scenario server --mode performance \
             --duration 1s --json {options}"
        ));
        ran.json()["tests"][0]["notes"].to_string()
    };
    assert!(notes("--profile llm --out default").contains("Closed loop: "));
    let closed = "--set server_arrivals=concurrency:2";
    assert!(notes(&format!("--profile llm {closed} --out closed")).contains("Closed loop: "));
    assert!(!notes("--profile llm --qps 100 --out open").contains("Closed loop"));
    assert!(!notes(&format!("{closed} --out quick")).contains("Closed loop"));
}
