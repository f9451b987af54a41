//! Features of servers against Python's own HTTP and TLS: what happened is in the log of the server.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::program::{Folder, ProgramResult};
use crate::servers::gateways::files_with;

const SCRIPT: &str = include_str!("python_server/server.py");
/// Module of which small servers are made.
const HANDLER: &str = include_str!("python_server/handler.py");

/// A server in Python, which is stopped at the end of a test.
pub struct PythonServer {
    child: Child,
    pub port: u16,
}

impl PythonServer {
    /// Starts a script that prints its port; `None` without Python. It can import the module `handler`.
    pub fn of_script(folder: &Folder, script: &str, argument: &str) -> Option<Self> {
        folder.write("handler.py", HANDLER);
        folder.write("server.py", script);
        let mut command = Command::new("python3");
        command.arg("server.py").arg(argument).current_dir(&folder.0);
        let Ok(mut child) = command.stdout(Stdio::piped()).spawn() else {
            println!("skipped: there is no python3");
            return None;
        };
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().parse().expect("the server prints its port");
        Some(Self { child, port })
    }

    /// Starts the server of completions with these options, and an empty log.
    fn start(folder: &Folder, options: &Value) -> Option<Self> {
        let mut options = options.clone();
        options["log"] = json!("log.jsonl");
        folder.write("log.jsonl", "");
        Self::of_script(folder, SCRIPT, &options.to_string())
    }

    /// Runs the program with this system; client delays do not matter here.
    fn run(&self, folder: &Folder, keys: &str, options: &str) -> ProgramResult {
        folder.dyno(&format!(
            "run --system openai:http://127.0.0.1:{}{keys} --mode performance {options} \
             --set max_client_lag_ns=0 --out out",
            self.port
        ))
    }
}

impl Drop for PythonServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Requests in the log of the server, without those of a single token before a run, by arrival.
fn requests(folder: &Folder) -> Vec<Value> {
    let log = folder.read("log.jsonl");
    let all = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let is_probe = |one: &Value| {
        ["max_tokens", "max_completion_tokens"].iter().any(|name| one["body"][name] == 1)
    };
    let mut all: Vec<Value> = all.filter(|one| !is_probe(one)).collect();
    all.sort_by_key(|one| one["arrived"].as_u64());
    all
}

fn test(folder: &Folder) -> Value {
    let summary: Value = serde_json::from_str(&folder.read("out/summary.json")).unwrap();
    summary["tests"][0].clone()
}

#[test]
fn a_rate_sends_so_many_requests_and_its_warm_up_and_keeps_to_its_cap() {
    // A connection whose answer is complete may stay open; another one takes its place.
    for rest in [0.0, 0.012] {
        let folder = Folder::new();
        let options = json!({"pause": 0.05, "rest": rest});
        let Some(server) = PythonServer::start(&folder, &options) else { return };
        let load = "--request-rate 200 --max-concurrency 3 --num-prompts 40 --warm-up 7";
        let ran = server.run(&folder, "/v1,model=only", load);
        let requests = requests(&folder);
        assert_eq!(requests.len(), 47, "{}", ran.stderr);
        assert_eq!(test(&folder)["metrics"]["answers"]["whole"], 40);
        let most = requests.iter().map(|one| one["in_flight"].as_u64().unwrap()).max();
        assert_eq!(most, Some(3), "in flight at the server");
    }
}

/// What the client of the run counted.
fn client(folder: &Folder) -> Value {
    let summary: Value = serde_json::from_str(&folder.read("out/summary.json")).unwrap();
    summary["clients"][0].clone()
}

#[test]
fn requests_without_an_answer_fail_one_by_one() {
    let folder = Folder::new();
    let Some(server) = PythonServer::start(&folder, &json!({"closed": [20, 60]})) else { return };
    let load = "--request-rate 200 --num-prompts 120 --fail-fast off";
    let ran = server.run(&folder, "/v1,model=only", load);
    let requests = requests(&folder);
    let closed = requests.iter().filter(|one| one["status"] == 0).count();
    assert_eq!((requests.len(), closed), (120, 40), "all are sent: {}", ran.stderr);
    let metrics = &test(&folder)["metrics"];
    assert_eq!((&metrics["answers"]["whole"], &client(&folder)["sent"]), (&json!(80), &json!(120)));
}

#[test]
fn a_failure_is_invalid_unless_a_requirement_allows_it() {
    for (stream, require, verdict) in [
        ("", "", "INVALID"),
        (",stream=false", "", "INVALID"),
        ("", "--require errors<=5%", "VALID"),
    ] {
        let folder = Folder::new();
        let Some(server) = PythonServer::start(&folder, &json!({"broken": 1})) else { return };
        let load = format!("--max-concurrency 4 --num-prompts 200 {require}");
        let ran = server.run(&folder, &format!("/v1,model=only{stream}"), &load);
        let test = test(&folder);
        assert_eq!(test["verdict"], verdict, "{stream} {require}: {}", ran.stdout);
        let reason = test["reasons"][0].as_str().unwrap_or_default();
        assert_eq!(
            reason.starts_with("1 of 200 samples failed (0.5 %): 1 server error"),
            verdict == "INVALID"
        );
        let words: Vec<&str> = ran.stdout.split_whitespace().filter(|word| *word != "│").collect();
        let text = words.join(" ");
        assert!(text.contains("1 failed, peak concurrency"), "one name for a failure: {text}");
        assert!(text.contains("1 failed (server error)"), "{text}");
    }
}

#[test]
fn figures_of_the_client_are_those_of_the_measured_requests() {
    let folder = Folder::new();
    let Some(server) = PythonServer::start(&folder, &json!({"words": 8})) else { return };
    server.run(&folder, "/v1,model=only", "--request-rate 80 --ramp 500ms --num-prompts 60");
    let (test, client) = (test(&folder), client(&folder));
    assert!(requests(&folder).len() > 60, "the ramp is sent");
    assert_eq!(test["metrics"]["answers"]["whole"], 60);
    assert_eq!((&client["sent"], &client["tokens_counted_by"]["events"]), (&json!(60), &json!(60)));
    assert_eq!(client["inter_token_ns"]["count"], 60 * 7);
}

#[test]
fn a_request_of_the_ramp_that_is_sent_again_later_is_not_measured() {
    let folder = Folder::new();
    // The server asks for a second, and the ramp is over by then.
    let Some(server) = PythonServer::start(&folder, &json!({"refusals": 1})) else { return };
    let load = "--request-rate 80 --ramp 500ms --num-prompts 120";
    let ran = server.run(&folder, "/v1,model=only,retries=1", load);
    let refused = requests(&folder).iter().filter(|one| one["status"] == 429).count();
    assert_eq!(refused, 1, "{}", ran.stderr);
    assert_eq!(test(&folder)["metrics"]["answers"]["whole"], 120);
    assert_eq!(client(&folder)["sent"], 120);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the log of a server is read until it has a request")]
fn a_server_that_dies_beside_another_one_is_reported() {
    let (folder, other) = (Folder::new(), Folder::new());
    let Some(server) = PythonServer::start(&folder, &json!({})) else { return };
    let Some(dying) = PythonServer::start(&other, &json!({})) else { return };
    let keys = format!("/v1,model=only,node=http://127.0.0.1:{}/v1", dying.port);
    let killer = std::thread::spawn(move || {
        while requests(&other).is_empty() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        drop(dying);
    });
    let ran = server.run(&folder, &keys, "--request-rate 50 --duration 3s --fail-fast off");
    killer.join().unwrap();
    let test = test(&folder);
    let reasons = test["reasons"].to_string();
    assert_eq!(test["verdict"], "INVALID", "{}", ran.stdout);
    assert!(reasons.contains("Not all of the 2 servers could be reached"), "{reasons}");
}

#[test]
fn a_refused_request_comes_again_when_the_server_allows_it() {
    let folder = Folder::new();
    let Some(server) = PythonServer::start(&folder, &json!({"refusals": 1})) else { return };
    let ran =
        server.run(&folder, "/v1,model=only,retries=2", "--max-concurrency 1 --num-prompts 5");
    let requests = requests(&folder);
    let statuses: Vec<u64> = requests.iter().map(|one| one["status"].as_u64().unwrap()).collect();
    assert_eq!(statuses, [429, 200, 200, 200, 200, 200], "{}", ran.stderr);
    assert_eq!(requests[0]["body"], requests[1]["body"], "the same request");
    let at = |row: usize| requests[row]["arrived"].as_u64().unwrap();
    assert!(at(1) - at(0) >= 1_000_000_000, "Retry-After: 1");
    let test = test(&folder);
    assert_eq!(test["metrics"]["answers"]["whole"], 5);
    let longest = test["metrics"]["latency_ns"]["max"].as_u64().unwrap();
    assert!(longest >= 1_000_000_000, "the wait counts: {longest}");
    let rows = folder.dyno("export out --format jsonl").exits(0).stdout;
    let rows: Vec<Value> = rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    let column =
        |name: &str| -> Vec<u64> { rows.iter().map(|row| row[name].as_u64().unwrap()).collect() };
    let (retries, waits) = (column("retries"), column("retry_wait_ns"));
    assert_eq!(retries, [1, 0, 0, 0, 0]);
    assert!((1_000_000_000..=at(1) - at(0)).contains(&waits[0]), "{waits:?}");
    let summary: Value = serde_json::from_str(&folder.read("out/summary.json")).unwrap();
    assert_eq!(summary["clients"][0]["retry_wait_ns"], waits.iter().sum::<u64>());
    let csv = folder.dyno("export out --format csv").exits(0).stdout;
    assert!(csv.lines().next().unwrap().ends_with("failure,retries,retry_wait_ns"), "{csv}");
    let metrics = folder.dyno("export out --format metrics").exits(0).stdout;
    assert!(metrics.contains(&format!(",retry_wait,ns,1,{},", waits[0])), "{metrics}");
}

/// Credentials of a client, of which no file may hold the last two.
const KEY_ID: &str = "AKIDPLANTED0815";
const SECRET_KEY: &str = "planted/key+4711";
const SESSION_TOKEN: &str = "planted/session+4711==";

/// Runs the program with signed requests at a server that computes each signature again. Returns the
/// requests that the server logged, in order.
fn run_signed(folder: &Folder, key_of_server: &str) -> Option<(ProgramResult, Vec<Value>)> {
    folder.write("log.jsonl", "");
    let options = json!({"log": "log.jsonl", "secret": key_of_server, "refusals": 1});
    let script = include_str!("python_server/signed.py");
    let server = PythonServer::of_script(folder, script, &options.to_string())?;
    let url = format!("http://127.0.0.1:{}/v1?b=2&a=x%20y", server.port);
    let keys = "api=completions,stream=false,retries=1,sigv4=bedrock/eu-test-1,sigv4-env=PLANTED";
    let mut command = folder.command(&format!(
        "run {url},{keys} --max-concurrency 1 --num-prompts 4 --set max_client_lag_ns=0 --out out"
    ));
    command.env("PLANTED_ACCESS_KEY_ID", KEY_ID).env("PLANTED_SECRET_ACCESS_KEY", SECRET_KEY);
    let output = command.env("PLANTED_SESSION_TOKEN", SESSION_TOKEN).output().unwrap();
    let log = folder.read("log.jsonl");
    Some((output.into(), log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()))
}

#[test]
fn signed_requests_are_valid_for_another_implementation_also_when_they_come_again() {
    let folder = Folder::new();
    let Some((ran, all)) = run_signed(&folder, SECRET_KEY) else { return };
    assert!(all.iter().all(|one| one["is_valid"] == true), "{all:#?}\n{}", ran.stderr);
    assert!(all.iter().any(|one| one["method"] == "GET"), "questions are signed: {all:#?}");
    let (date, _) = all[0]["date"].as_str().unwrap().split_once('T').unwrap();
    let scope = format!("Credential={KEY_ID}/{date}/eu-test-1/bedrock/aws4_request");
    assert!(all[0]["authorization"].as_str().unwrap().contains(&scope), "{scope}");
    let is_measured =
        |one: &&Value| one["body"]["max_tokens"].as_u64().is_some_and(|most| most > 1);
    let sent: Vec<&Value> = all.iter().filter(is_measured).collect();
    let statuses: Vec<u64> = sent.iter().map(|one| one["status"].as_u64().unwrap()).collect();
    assert_eq!(statuses, [429, 200, 200, 200, 200], "{}", ran.stderr);
    assert_eq!(sent[0]["body"], sent[1]["body"], "the same request");
    assert_ne!(sent[0]["signature"], sent[1]["signature"], "at another time");
    assert_eq!(test(&folder)["metrics"]["answers"]["whole"], 4);
    for secret in [SECRET_KEY, SESSION_TOKEN] {
        assert!(files_with(&folder.0.join("out"), secret).is_empty(), "{secret}");
    }
}

#[test]
fn signed_requests_that_a_server_rejects_and_repeats_are_not_shown() {
    let folder = Folder::new();
    let Some((ran, all)) = run_signed(&folder, "another key") else { return };
    let shown = ran.exits(3);
    assert!(shown.stderr.contains("The signature does not match"), "{}", shown.stderr);
    assert!(!all.is_empty() && all.iter().all(|one| one["status"] == 403), "{all:#?}");
    for one in &all {
        let signature = one["signature"].as_str().unwrap();
        assert!(!shown.stderr.contains(signature) && !shown.stdout.contains(signature));
    }
    assert!(!shown.stderr.contains(KEY_ID), "{}", shown.stderr);
}

#[test]
fn what_the_server_rejects_is_not_sent_in_the_run() {
    for (rejected, instead) in
        [("max_tokens", Some("max_completion_tokens")), ("stream_options", None)]
    {
        let folder = Folder::new();
        let options = json!({"rejects": rejected});
        let Some(server) = PythonServer::start(&folder, &options) else { return };
        server.run(&folder, "/v1,model=only,max-tokens=9", "--max-concurrency 2 --num-prompts 6");
        let requests = requests(&folder);
        assert_eq!(requests.len(), 6, "{rejected}");
        for one in &requests {
            assert_eq!((&one["status"], one["body"].get(rejected)), (&json!(200), None), "{one}");
            assert!(instead.is_none_or(|instead| one["body"][instead] == 9), "{one}");
        }
    }
}

#[test]
fn a_redirection_is_followed_before_the_run_and_a_query_is_in_every_request() {
    let folder = Folder::new();
    let Some(server) = PythonServer::start(&folder, &json!({"moved": "/old"})) else { return };
    server.run(&folder, "/old,model=only", "--max-concurrency 2 --num-prompts 6");
    let paths: Vec<Value> = requests(&folder).iter().map(|one| one["path"].clone()).collect();
    assert_eq!(paths, ["/v1/completions"; 6]);
    assert_eq!(test(&folder)["metrics"]["answers"]["whole"], 6);

    let folder = Folder::new();
    let Some(server) = PythonServer::start(&folder, &json!({"query": "api-version"})) else {
        return;
    };
    // The server is recognized by its URL, and its only model is selected.
    let url = format!("http://127.0.0.1:{}/v1?api-version=7", server.port);
    folder.dyno(&format!("run {url} --num-prompts 6 --max-concurrency 2 --out out"));
    let requests = requests(&folder);
    assert!(requests.len() >= 6, "{requests:?}");
    for one in &requests {
        assert!(one["path"].as_str().unwrap().ends_with("?api-version=7"), "{one}");
        assert_eq!((&one["body"]["model"], &one["status"]), (&json!("only"), &json!(200)));
    }
}

#[test]
fn a_server_that_listens_later_is_waited_for() {
    let folder = Folder::new();
    let Some(server) = PythonServer::start(&folder, &json!({"late": 1.0})) else { return };
    let load = "--max-concurrency 1 --num-prompts 3 --ready-timeout 60s";
    let ran = server.run(&folder, "/v1,model=only", load);
    assert_eq!(requests(&folder).len(), 3, "{}", ran.stderr);
}

#[test]
fn cancelled_requests_and_models_are_those_of_the_servers_log() {
    let folder = Folder::new();
    let Some(server) = PythonServer::start(&folder, &json!({"words": 60})) else { return };
    let load = "--max-concurrency 8 --num-prompts 40 --seed 3";
    server.run(&folder, "/v1,model=only,cancel=30%@5tok", load);
    let left = requests(&folder).iter().filter(|one| one["status"] == 0).count();
    let metrics = &test(&folder)["metrics"];
    assert_eq!((requests(&folder).len(), &metrics["excluded"]["cancelled"]), (40, &json!(left)));
    assert!(left > 0 && metrics["answers"]["whole"] == 40 - left, "{metrics:#}");
    assert_eq!(
        client(&folder)["inter_token_ns"]["count"],
        (40 - left) * 59,
        "answers have 60 events"
    );

    let folder = Folder::new();
    let Some(server) = PythonServer::start(&folder, &json!({})) else { return };
    server.run(&folder, "/v1,models=org/small*3+large", load);
    let mut by_model = BTreeMap::<String, u64>::new();
    for one in requests(&folder) {
        *by_model.entry(one["body"]["model"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    let models = test(&folder)["metrics"]["models"].clone();
    let shown = models.as_array().unwrap().iter().map(|model| {
        (model["name"].as_str().unwrap().to_owned(), model["requests"].as_u64().unwrap())
    });
    assert_eq!(shown.collect::<BTreeMap<_, _>>(), by_model);
    assert_eq!(by_model.keys().collect::<Vec<_>>(), ["large", "org/small"]);
}

#[test]
fn a_url_alone_selects_the_only_model_of_the_server() {
    let folder = Folder::new();
    let Some(server) = PythonServer::start(&folder, &json!({})) else { return };
    let ran = folder.dyno(&format!(
        "run http://127.0.0.1:{} --max-concurrency 2 --num-prompts 6 --set max_client_lag_ns=0 \
         --out out",
        server.port
    ));
    assert!(ran.stderr.contains("is OpenAI-compatible: model only"), "{}", ran.stderr);
    let requests = requests(&folder);
    assert_eq!(requests.len(), 6, "{}", ran.stderr);
    for one in &requests {
        assert_eq!((&one["body"]["model"], &one["status"]), (&json!("only"), &json!(200)), "{one}");
    }
    assert_eq!(test(&folder)["metrics"]["answers"]["whole"], 6);
}

#[test]
fn a_ramp_rises_by_the_servers_log_and_is_not_measured() {
    let folder = Folder::new();
    let Some(server) = PythonServer::start(&folder, &json!({})) else { return };
    let load = "--request-rate 50 --ramp 2s --num-prompts 60 --seed 5";
    let ran = server.run(&folder, "/v1,model=only", load);
    let seen = requests(&folder);
    let metrics = test(&folder)["metrics"].clone();
    assert_eq!(metrics["query_count"], 60, "{}", ran.stderr);
    let ramp = seen.len() - 60;
    assert_eq!(metrics["excluded"]["ramp_requests"], ramp);
    // 50 requests in a rise to 50/s, a quarter of them in its first half. Within 4 standard deviations of
    // a Poisson distribution.
    assert!((22..=78).contains(&ramp), "{ramp}");
    let arrived = |one: &Value| one["arrived"].as_u64().unwrap();
    let first_part = arrived(&seen[0]) + 800_000_000;
    let early = seen[..ramp].iter().filter(|one| arrived(one) < first_part).count();
    assert!(2 * early < ramp - early, "{early} of {ramp}");

    let folder = Folder::new();
    let Some(server) = PythonServer::start(&folder, &json!({"pause": 0.02})) else { return };
    let load = "--max-concurrency 8 --ramp 800ms --num-prompts 100";
    let ran = server.run(&folder, "/v1,model=only", load);
    let seen = requests(&folder);
    let excluded = test(&folder)["metrics"]["excluded"]["ramp_requests"].clone();
    assert_eq!(excluded, seen.len() - 100, "{}", ran.stderr);
    for one in &seen {
        // The first request may arrive some ms after its time.
        let passed = (arrived(one) - arrived(&seen[0])) as f64 / 1e9 + 0.2;
        let most = (1.0 + (7.0 * passed / 0.8).floor()).min(8.0);
        assert!(one["in_flight"].as_f64().unwrap() <= most, "after {passed} s: {one}");
    }
}

#[test]
fn users_send_their_turns_at_an_interval_by_the_servers_log() {
    let folder = Folder::new();
    let Some(server) = PythonServer::start(&folder, &json!({})) else { return };
    let load = "--samples 16 --max-concurrency 4 --duration 1200ms";
    let ran = server.run(&folder, "/v1,model=only,sessions=live,turns=3,every=120ms", load);
    let seen = requests(&folder);
    // Four users, each every 120 ms for 1.2 s, 30 ms apart. With late answers there may be fewer.
    assert!((36..=40).contains(&seen.len()), "{}: {}", seen.len(), ran.stderr);
    let arrived = |one: &Value| one["arrived"].as_u64().unwrap();
    for (number, one) in (0_u64..).zip(&seen) {
        // No request comes before it is due; the first one may come late.
        let passed = arrived(one) - arrived(&seen[0]) + 100_000_000;
        assert!(passed >= 30_000_000 * number, "{number}: {passed} ns");
    }
    let mut turns = [0; 3];
    for one in &seen {
        let messages = one["body"]["messages"].as_array().unwrap();
        let of_role = |role: &str| -> Vec<&Value> {
            messages.iter().filter(|message| message["role"] == role).collect()
        };
        let (asked, answered) = (of_role("user"), of_role("assistant"));
        assert_eq!(answered.len() + 1, asked.len(), "{one}");
        let is_answer =
            |message: &&Value| message["content"].as_str().unwrap().trim() == "word word word word";
        assert!(answered.iter().all(is_answer), "each turn has the answers of the server: {one}");
        turns[answered.len()] += 1;
    }
    assert!(turns[0] >= turns[1] && turns[1] >= turns[2] && turns[2] > 0, "{turns:?}");
}

#[test]
fn turns_with_recorded_answers_follow_each_other_by_the_servers_log() {
    let folder = Folder::new();
    let Some(server) = PythonServer::start(&folder, &json!({})) else { return };
    let message = |role: &str, conversation: usize, turn: usize| {
        let content = format!("{role} {conversation}.{turn}");
        json!({"role": role, "content": content})
    };
    let recorded = |conversation: usize| -> Vec<Value> {
        let turn = |turn| ["user", "assistant"].map(|role| message(role, conversation, turn));
        (0..3).flat_map(turn).collect()
    };
    let lines = (0..4).map(|number| json!({"messages": recorded(number)}).to_string() + "\n");
    folder.write("chats.jsonl", &lines.collect::<String>());
    let keys = "/v1,model=only,sessions=once,history=recorded";
    let ran = server.run(&folder, keys, "--data chats.jsonl --max-concurrency 2");
    let seen = requests(&folder);
    assert_eq!(seen.len(), 12, "{}", ran.stderr);
    // The server answers other words, which no request contains.
    let mut turns = [0; 4];
    for one in &seen {
        let messages = one["body"]["messages"].as_array().unwrap();
        let number = (0..4).find(|number| messages[0] == message("user", *number, 0)).unwrap();
        assert_eq!(messages[..], recorded(number)[..=2 * turns[number]], "{one}");
        turns[number] += 1;
    }
    assert_eq!(turns, [3; 4]);
    assert_eq!(test(&folder)["metrics"]["answers"]["whole"], 12);
}

/// Writes a certificate and its key for a name with the program openssl; `None` without it.
fn certify(folder: &Folder, name: &str) -> Option<()> {
    let mut openssl = Command::new("openssl");
    let subject = format!("/CN={name}");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]);
    openssl.args(["-nodes", "-days", "2", "-subj", &subject, "-keyout", &format!("{name}.key")]);
    openssl.args(["-out", &format!("{name}.pem"), "-addext", "subjectAltName=IP:127.0.0.1"]);
    let made = openssl.current_dir(&folder.0).stderr(Stdio::null()).status();
    if made.is_ok_and(|status| status.success()) {
        return Some(());
    }
    println!("skipped: there is no openssl");
    None
}

/// Fingerprint of a certificate by the program openssl, as digits.
fn fingerprint(folder: &Folder, name: &str) -> String {
    let mut openssl = Command::new("openssl");
    openssl.args(["x509", "-noout", "-fingerprint", "-sha256", "-in", &format!("{name}.pem")]);
    let output = openssl.current_dir(&folder.0).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.trim().split_once('=').unwrap().1.replace(':', "")
}

#[test]
fn certificates_are_checked_as_asked_by_another_implementation_of_tls() {
    let folder = Folder::new();
    if certify(&folder, "server").and_then(|()| certify(&folder, "guest")).is_none() {
        return;
    }
    let options = json!({"cert": "server.pem", "key": "server.key"});
    let Some(server) = PythonServer::start(&folder, &options) else { return };
    let run = |port: u16, keys: &str| {
        let _ = std::fs::remove_dir_all(folder.0.join("out"));
        folder.dyno(&format!(
            "run --system openai:https://127.0.0.1:{port}/v1,model=only{keys} --mode performance \
             --max-concurrency 2 --num-prompts 4 --set max_client_lag_ns=0 --out out"
        ))
    };
    let (right, wrong) = (fingerprint(&folder, "server"), fingerprint(&folder, "guest"));
    for (keys, is_trusted) in [
        ("", false),
        (",ca=server.pem", true),
        (",ca=guest.pem", false),
        (",insecure=true", true),
        (&*format!(",fingerprint={right}"), true),
        (&*format!(",fingerprint={wrong}"), false),
    ] {
        let before = requests(&folder).len();
        let ran = run(server.port, keys);
        let sent = requests(&folder).len() - before;
        assert_eq!(sent, if is_trusted { 4 } else { 0 }, "{keys}: {}", ran.stderr);
        assert_eq!(ran.code == Some(3), !is_trusted, "{keys}: {:?} {}", ran.code, ran.stderr);
    }

    let options = json!({"cert": "server.pem", "key": "server.key", "ca": "guest.pem"});
    let Some(server) = PythonServer::start(&folder, &options) else { return };
    let before = requests(&folder).len();
    run(server.port, ",ca=server.pem,client-cert=guest.pem,client-key=guest.key");
    let seen = requests(&folder).split_off(before);
    let names: Vec<&str> = seen.iter().map(|one| one["client"].as_str().unwrap()).collect();
    assert_eq!(names, ["guest"; 4]);
    assert_ne!(run(server.port, ",ca=server.pem").code, Some(0));
    assert_eq!(requests(&folder).len(), before + 4, "without a certificate nothing is answered");
}
