//! Sessions with live answers, checked by a server that knows what it answered.

use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http_request::read_request;
use crate::program::Folder;
use crate::workers::shared_by_two;

/// A request for an answer and what became of it.
#[derive(Clone)]
pub struct Exchange {
    pub body: Value,
    /// The message that the server answered with.
    pub answer: Value,
    pub arrived: Instant,
    /// Just before the first bytes of the answer were written, and just before its last one.
    pub answered: Option<(Instant, Instant)>,
    status: u16,
}

/// A chat server whose every answer is another text.
pub struct ChatServer {
    pub address: SocketAddr,
    exchanges: Arc<Mutex<Vec<Exchange>>>,
}

/// Returns the status for a request, by its last message.
type Status = fn(&str) -> u16;

/// Returns the message that answers a request, by its number and its body.
type Reply = fn(usize, &Value) -> Value;

impl ChatServer {
    fn start(status: Status) -> Self {
        Self::replying(status, |number, body| message(number, last_text(body)))
    }

    /// Starts a server with other answers.
    pub fn replying(status: Status, reply: Reply) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let exchanges = Arc::default();
        let log = Arc::clone(&exchanges);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let log = Arc::clone(&log);
                std::thread::spawn(move || serve(stream.unwrap(), (status, reply), &log));
            }
        });
        Self { address, exchanges }
    }

    /// Returns the exchanges of runs, without the short requests before them.
    pub fn exchanges(&self) -> Vec<Exchange> {
        let all = self.exchanges.lock().unwrap();
        all.iter().filter(|one| one.body["max_tokens"] != 1).cloned().collect()
    }
}

#[expect(clippy::disallowed_methods, reason = "a clock that shares nothing with the program")]
fn serve(stream: TcpStream, (status, reply): (Status, Reply), log: &Mutex<Vec<Exchange>>) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    while let Some((_, body)) = read_request(&mut reader) {
        let arrived = Instant::now();
        let body: Value = serde_json::from_slice(&body).unwrap();
        let asked = last_text(&body).to_owned();
        let status = status(&asked);
        let (number, answer) = {
            let mut log = log.lock().unwrap();
            let number = log.len();
            let answer = reply(number, &body);
            let (body, answer) = (body.clone(), answer.clone());
            log.push(Exchange { body, answer: answer.clone(), arrived, answered: None, status });
            (number, answer)
        };
        let (kind, text) = match status {
            200 if body["stream"] == true => ("text/event-stream", events(&answer)),
            200 => {
                let choice = json!({"index": 0, "message": answer, "finish_reason": "stop"});
                ("application/json", json!({"choices": [choice]}).to_string())
            }
            _ => ("application/json", json!({"error": {"message": "no"}}).to_string()),
        };
        let length = text.len();
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n"
        );
        // The last bytes go alone, so that an answer is not complete before they are written.
        let whole = format!("{head}{text}");
        let (begin, end) = whole.as_bytes().split_at(whole.len() - 1);
        let begun = Instant::now();
        if writer.write_all(begin).is_err() {
            return;
        }
        log.lock().unwrap()[number].answered = Some((begun, Instant::now()));
        if writer.write_all(end).is_err() {
            return;
        }
    }
}

fn last_text(body: &Value) -> &str {
    body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap_or_default()
}

/// Returns an answer that no other request gets, with characters that JSON escapes.
fn message(number: usize, asked: &str) -> Value {
    if asked.starts_with("tool") {
        let call = |n: usize| {
            let arguments = format!("{{\"n\": {number}, \"s\": \"\\\"\"}}");
            json!({"id": format!("call-{number}-{n}"), "type": "function",
                "function": {"name": "find", "arguments": arguments}})
        };
        return json!({"role": "assistant", "content": null, "reasoning_content": "hm",
            "tool_calls": [call(0), call(1)]});
    }
    json!({"role": "assistant", "content": format!("answer {number} to \"{asked}\"\n\té \u{1f600}")})
}

/// Returns a message as a stream, cut into small parts.
fn events(message: &Value) -> String {
    let mut deltas = vec![json!({"role": "assistant", "content": ""})];
    // Thoughts are a part only of messages that call tools.
    deltas.push(json!({"reasoning_content": "hm"}));
    if let Some(text) = message["content"].as_str() {
        let all: Vec<char> = text.chars().collect();
        deltas.extend(all.chunks(5).map(|part| json!({"content": String::from_iter(part)})));
    }
    for (index, call) in message["tool_calls"].as_array().into_iter().flatten().enumerate() {
        let (function, id) = (&call["function"], &call["id"]);
        deltas.push(json!({"tool_calls": [{"index": index, "id": id, "type": "function",
            "function": {"name": function["name"], "arguments": ""}}]}));
        let arguments: Vec<char> = function["arguments"].as_str().unwrap().chars().collect();
        deltas.extend(arguments.chunks(3).map(|part| {
            let part = json!({"arguments": String::from_iter(part)});
            json!({"tool_calls": [{"index": index, "function": part}]})
        }));
    }
    let event = |choice: Value| format!("data: {}\n\n", json!({"choices": [choice]}));
    let parts = deltas.into_iter().map(|delta| event(json!({"index": 0, "delta": delta})));
    let end = event(json!({"index": 0, "delta": {}, "finish_reason": "stop"}));
    parts.chain([end, "data: [DONE]\n\n".into()]).collect()
}

/// Conversations of three turns, the second one 30 ms after the first answer.
fn conversations(count: usize) -> String {
    let line = |number| {
        let user = |turn: &str| json!({"role": "user", "content": format!("{turn} {number}")});
        let recorded = json!({"role": "assistant", "content": "recorded"});
        let system = json!({"role": "system", "content": "be \"brief\""});
        let messages =
            [system, user("one"), recorded.clone(), user("two"), recorded, user("three")];
        json!({"messages": messages, "think_ms": [0, 30, 0]}).to_string() + "\n"
    };
    (0..count).map(line).collect()
}

/// Returns the number of assistant messages in a request: that of the turn, from 0.
fn turn_of(exchange: &Exchange) -> usize {
    let all = exchange.body["messages"].as_array().unwrap();
    all.iter().filter(|message| message["role"] == "assistant").count()
}

/// Asserts that every later turn holds the request before it, the answer to it, and what the
/// recording adds; and that it came after that answer. Returns the number of later turns.
fn assert_live(exchanges: &[Exchange], least_pause: impl Fn(usize) -> Duration) -> usize {
    let mut later = 0;
    for exchange in exchanges {
        let turn = turn_of(exchange);
        let messages = exchange.body["messages"].as_array().unwrap();
        assert!(!exchange.body.to_string().contains("recorded"), "{}", exchange.body);
        if turn == 0 {
            continue;
        }
        later += 1;
        let answer = messages.iter().rposition(|m| m["role"] == "assistant").unwrap();
        let same = |before: &&Exchange| before.answer == messages[answer];
        let before: Vec<&Exchange> = exchanges.iter().filter(same).collect();
        let [before] = before[..] else { panic!("one answer is this: {}", exchange.body) };
        assert_eq!(before.body["messages"].as_array().unwrap()[..], messages[..answer]);
        let (begun, answered) = before.answered.unwrap();
        assert!(exchange.arrived >= answered, "turn {turn} overlaps the one before");
        assert!(exchange.arrived >= begun + least_pause(turn), "turn {turn} came too soon");
    }
    later
}

pub fn summary(folder: &Folder) -> Value {
    serde_json::from_str(&folder.read("out/summary.json")).unwrap()
}

pub fn sessions(summary: &Value) -> &Value {
    &summary["tests"][0]["metrics"]["sessions"]
}

#[test]
fn each_turn_holds_the_servers_own_answers() {
    for keys in ["", ",stream=false"] {
        let (server, folder) = (ChatServer::start(|_| 200), Folder::new());
        folder.write("chats.jsonl", &conversations(7));
        let ran = folder.dyno(&format!(
            "run --system openai:http://{},model=m,sessions=live{keys} --data chats.jsonl \
             --max-concurrency 3 --duration 500ms --records all --out out -q",
            server.address
        ));
        assert!(matches!(ran.code, Some(0 | 1)), "{}\n{}", ran.stdout, ran.stderr);
        let exchanges = server.exchanges();
        let pause = |turn| Duration::from_millis(if turn == 1 { 30 } else { 0 });
        let later = assert_live(&exchanges, pause);
        let summary = summary(&folder);
        let found = sessions(&summary);
        let firsts = exchanges.len() - later;
        assert!(firsts > 7, "conversations begin again: {firsts}");
        assert_eq!(found["started"], firsts, "{found}");
        assert_eq!((&found["aborted"], &found["turns_not_sent"]), (&json!(0), &json!(0)));
        // By turn, the server saw what the summary counts.
        for turn in 0..3 {
            let seen = exchanges.iter().filter(|exchange| turn_of(exchange) == turn).count();
            let row = &found["by_turn"][turn];
            assert_eq!((&row["turn"], &row["issued"]), (&json!(turn + 1), &json!(seen)));
            assert_eq!(row["first_token_ns"].is_null(), !keys.is_empty());
        }
        // At most three sessions are between their first request and their last answer.
        let mut begun: Vec<&Exchange> = exchanges.iter().filter(|e| turn_of(e) == 0).collect();
        begun.sort_by_key(|exchange| exchange.arrived);
        let ends = exchanges.iter().filter(|e| turn_of(e) == 2).filter_map(|e| e.answered);
        let ends: Vec<Instant> = ends.map(|(_, end)| end).collect();
        for (number, exchange) in begun.iter().enumerate() {
            let ended = ends.iter().filter(|end| **end <= exchange.arrived).count();
            assert!(number + 1 - ended <= 3, "{} in progress", number + 1 - ended);
        }
        assert!(
            folder.read("out/report.html").contains("Turns of sessions</h3><div class=\"scroll\"")
        );
        let csv = folder.dyno("export out --format csv").exits(0).stdout;
        assert!(csv.lines().next().unwrap().ends_with("failure,session,turn"), "{csv}");
        let thirds = csv.lines().skip(1).filter(|line| line.ends_with(",3")).count();
        assert_eq!(found["by_turn"][2]["issued"], thirds);
        let jsonl = folder.dyno("export out --format jsonl").exits(0).stdout;
        let first: Value = serde_json::from_str(jsonl.lines().next().unwrap()).unwrap();
        assert_eq!((&first["session"], &first["turn"]), (&json!(1), &json!(1)));
    }
}

#[test]
fn a_failed_turn_ends_its_session_and_what_was_not_sent_is_reported() {
    let status = |asked: &str| if asked == "two 1" { 500 } else { 200 };
    let (server, folder) = (ChatServer::start(status), Folder::new());
    folder.write("chats.jsonl", &conversations(4));
    let ran = folder.dyno(&format!(
        "run --system openai:http://{},model=m,sessions=once --data chats.jsonl \
         --max-concurrency 2 --out out",
        server.address
    ));
    assert!(matches!(ran.code, Some(0 | 1)), "{}\n{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("1 ended by a failed turn"), "{}", ran.stdout);
    let exchanges = server.exchanges();
    assert_live(&exchanges, |_| Duration::ZERO);
    assert!(exchanges.iter().all(|exchange| last_text(&exchange.body) != "three 1"));
    assert_eq!(exchanges.iter().filter(|exchange| exchange.status == 500).count(), 1);
    // Each conversation once: three of three turns, and one of two.
    assert_eq!(exchanges.len(), 11);
    let summary = summary(&folder);
    let found = sessions(&summary);
    let counts = ["started", "completed", "aborted", "turns_not_sent", "cut_off"];
    assert_eq!(counts.map(|name| found[name].as_u64().unwrap()), [4, 3, 1, 1, 0]);
    let conditions = &summary["tests"][0]["metrics"]["conditions"];
    assert_eq!(conditions["min_duration_met"], true, "{conditions}");
}

#[test]
fn results_of_tools_answer_the_calls_of_the_server() {
    for keys in ["", ",stream=false"] {
        let (server, folder) = (ChatServer::start(|_| 200), Folder::new());
        let result =
            |n: u32| json!({"role": "tool", "tool_call_id": "old", "content": format!("r{n}")});
        let messages = [
            json!({"role": "user", "content": "tool please"}),
            json!({"role": "assistant", "content": null, "tool_calls": []}),
            result(1),
            result(2),
            json!({"role": "assistant", "content": "recorded"}),
            json!({"role": "user", "content": "thanks"}),
        ];
        let other = [
            json!({"role": "user", "content": "no call"}),
            json!({"role": "assistant", "content": null, "tool_calls": []}),
            json!({"role": "tool", "tool_call_id": "old", "content": "unasked"}),
        ];
        let lines = [json!({"messages": messages}), json!({"messages": other})];
        folder.write("chats.jsonl", &lines.map(|line| line.to_string() + "\n").concat());
        folder.dyno(&format!(
            "run --system openai:http://{},model=m,sessions=once{keys} --data chats.jsonl \
             --max-concurrency 1 --out out -q",
            server.address
        ));
        let exchanges = server.exchanges();
        assert_eq!(assert_live(&exchanges, |_| Duration::ZERO), 3);
        let asked = |text: &str| {
            let found = exchanges.iter().find(|exchange| last_text(&exchange.body) == text);
            found.unwrap_or_else(|| panic!("no request ends with {text}"))
        };
        let messages = asked("r2").body["messages"].as_array().unwrap();
        let calls = messages[1]["tool_calls"].as_array().unwrap();
        assert_eq!(calls.len(), 2);
        for (call, result) in calls.iter().zip(&messages[2..]) {
            assert_eq!((&result["role"], &result["tool_call_id"]), (&json!("tool"), &call["id"]));
        }
        let unasked = asked("unasked").body["messages"].as_array().unwrap();
        assert_eq!(unasked[2]["role"], "user");
        let summary = summary(&folder);
        let oddities = &summary["tests"][0]["metrics"]["answers"]["oddities"];
        assert_eq!(oddities["tool calls that differ from the recorded ones"], 1, "{oddities}");
    }
}

#[cfg(unix)]
#[test]
fn a_program_answers_the_calls_of_the_server_in_think_time() {
    use std::os::unix::fs::PermissionsExt as _;
    let (server, folder) = (ChatServer::start(|_| 200), Folder::new());
    let turns = json!({"turns": ["tool please", "thanks", "tool at the end"]});
    folder.write("chats.jsonl", &format!("{turns}\n"));
    folder.write("tool.sh", "#!/bin/sh\nsleep 0.3\ncat >> calls.jsonl\necho \"$1 weather\"\n");
    let path = folder.0.join("tool.sh");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let ran = folder.dyno(&format!(
        "run --system openai:http://{},model=m,sessions=once,tools=./tool.sh --data chats.jsonl \
         --max-concurrency 1 --out out",
        server.address
    ));
    let exchanges = server.exchanges();
    assert_eq!(exchanges.len(), 3, "{}", ran.stderr);
    let messages = exchanges[1].body["messages"].as_array().unwrap();
    let calls = messages[1]["tool_calls"].as_array().unwrap();
    for (call, result) in calls.iter().zip(&messages[2..4]) {
        let id = &call["id"];
        assert_eq!(result, &json!({"role": "tool", "content": " weather", "tool_call_id": id}));
    }
    assert_eq!(messages[4], json!({"role": "user", "content": "thanks"}));
    // The program got each call of the first turn; no turn follows the calls of the last one.
    let lines = folder.read("calls.jsonl");
    let asked: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(asked.len(), 2);
    assert_eq!((&asked[0]["name"], &asked[1]["id"]), (&json!("find"), &calls[1]["id"]));
    assert!(asked[0]["arguments"]["n"].is_u64(), "{}", asked[0]);
    // Two calls of 0.3 s each lie between the turns, and in no latency.
    let (_, answered) = exchanges[0].answered.unwrap();
    assert!(exchanges[1].arrived >= answered + Duration::from_millis(600));
    let summary = summary(&folder);
    for turn in sessions(&summary)["by_turn"].as_array().unwrap() {
        assert!(turn["latency_ns"]["max"].as_u64().unwrap() < 550_000_000, "{turn}");
    }
    let notes = summary["tests"][0]["notes"].to_string();
    assert!(notes.contains("Tools of the client answered 2 calls"), "{notes}");
    let other = folder.dyno("run --system openai:http://127.0.0.1:1,tools=./tool.sh").exits(2);
    assert!(other.stderr.contains("add sessions=live"), "{}", other.stderr);
}

/// Returns whether a process runs, other than one that is only not reaped yet.
#[cfg(target_os = "linux")]
fn is_running(id: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[cfg(target_os = "linux")]
#[test]
fn tools_end_with_the_run_and_keep_no_answer_from_being_complete() {
    use std::os::unix::fs::PermissionsExt as _;
    let turns = json!({"turns": ["tool please", "thanks"]});
    // The tool of one run is interrupted; the other run lasts long enough without it.
    for (options, is_interrupted) in
        [("sessions=once", true), ("sessions=live --duration 50ms --set min_query_count=1", false)]
    {
        let (server, folder) = (ChatServer::start(|_| 200), Folder::new());
        folder.write("chats.jsonl", &format!("{turns}\n"));
        folder.write("tool.sh", "#!/bin/sh\nsleep 300 &\necho $! $$ > new\nmv new started\nwait\n");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.0.join("tool.sh"), mode).unwrap();
        let mut command = folder.command(&format!(
            "run --system openai:http://{},model=m,tools=./tool.sh,tools-limit=300s,{options} --data \
             chats.jsonl --max-concurrency 1 --out out -q",
            server.address
        ));
        let mut child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
        let started = folder.0.join("started");
        while !started.exists() && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        if is_interrupted {
            let id = child.id().to_string();
            assert!(
                std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success()
            );
        }
        let code = child.wait().unwrap().code();
        assert_eq!(code == Some(130), is_interrupted, "{options}: {code:?}");
        for id in folder.read("started").split_whitespace() {
            assert!(!is_running(id), "{options}: process {id} of the tool still runs");
        }
        let metrics = &summary(&folder)["tests"][0]["metrics"];
        assert_eq!(
            (&metrics["sample_count"], &metrics["answers"]["whole"]),
            (&json!(1), &json!(1))
        );
        let failed = metrics["failed"].as_object().unwrap();
        assert!(failed.values().all(|count| count == 0), "{options}: {metrics}");
    }
}

#[test]
fn users_send_at_an_interval_and_latency_counts_from_it() {
    let (server, folder) = (ChatServer::start(|_| 200), Folder::new());
    let ran = folder.dyno(&format!(
        "run --system openai:http://{},model=m,sessions=live,turns=3,every=120ms --samples 16 \
         --max-concurrency 4 --duration 1200ms --set max_client_lag_ns=0 --out out",
        server.address
    ));
    assert!(matches!(ran.code, Some(0 | 1)), "{}\n{}", ran.stdout, ran.stderr);
    let exchanges = server.exchanges();
    // Four users, each every 120 ms for 1.2 s, 30 ms apart. With late answers there may be fewer.
    assert!((36..=40).contains(&exchanges.len()), "{}", exchanges.len());
    let mut arrived: Vec<Instant> = exchanges.iter().map(|exchange| exchange.arrived).collect();
    arrived.sort_unstable();
    for (number, at) in arrived.iter().enumerate() {
        // No request comes before it is due; the first one may come late.
        let passed = (*at - arrived[0]).as_millis() + 100;
        assert!(passed >= 30 * number as u128, "{number}: {passed} ms");
    }
    let later = assert_live(&exchanges, |_| Duration::ZERO);
    assert!(later >= 20, "{later}");
    let wrong = folder.dyno(
        "run --system openai:http://127.0.0.1:1,sessions=live,every=1s --request-rate 2 --dry-run",
    );
    assert!(wrong.exits(2).stderr.contains("--max-concurrency N without a rate"));
}

#[test]
fn a_session_stays_at_one_of_several_servers() {
    let servers = [ChatServer::start(|_| 200), ChatServer::start(|_| 200)];
    let folder = Folder::new();
    folder.write("chats.jsonl", &conversations(8));
    let ran = folder.dyno(&format!(
        "run --system openai:http://{},model=m,sessions=live,node=http://{} --data chats.jsonl \
         --max-concurrency 4 --duration 400ms --out out -q",
        servers[0].address, servers[1].address
    ));
    assert!(matches!(ran.code, Some(0 | 1)), "{}\n{}", ran.stdout, ran.stderr);
    for server in &servers {
        // Each finds its own answers in all turns that it gets.
        let later = assert_live(&server.exchanges(), |_| Duration::ZERO);
        assert!(later > 4, "{later}");
    }
}

#[test]
fn a_run_that_cannot_play_sessions_is_refused_before_it_begins() {
    let (server, folder) = (ChatServer::start(|_| 200), Folder::new());
    folder.write("chats.jsonl", &conversations(2));
    let run = |options: &str| {
        folder.dyno(&format!(
            "run --system openai:http://{},model=m,sessions=live --data chats.jsonl {options}",
            server.address
        ))
    };
    let ran = run("--max-concurrency 3").exits(2);
    assert!(ran.stderr.contains("at least 3 sessions to keep 3 in progress"), "{}", ran.stderr);
    let ran = run("--scenario Offline").exits(2);
    assert!(ran.stderr.contains("--scenario server"), "{}", ran.stderr);
    let ran = run("--max-concurrency 1 --remote-workers 2").exits(2);
    assert!(ran.stderr.contains("cannot be divided among 2 workers"), "{}", ran.stderr);
    let ran = run("--request-rate 9 --remote-workers 3").exits(2);
    assert!(ran.stderr.contains("2 sessions cannot be divided among 3"), "{}", ran.stderr);
    assert!(server.exchanges().is_empty());
}

#[test]
fn two_workers_share_conversations_and_one_plays_each_whole() {
    let status = |asked: &str| if asked == "two 1" { 500 } else { 200 };
    let (server, folder) = (ChatServer::start(status), Folder::new());
    folder.write("chats.jsonl", &conversations(6));
    let summary = shared_by_two(
        &folder,
        &format!(
            "run --system openai:http://{},model=m,sessions=once --data chats.jsonl \
             --scenario server --mode performance --max-concurrency 4 --no-progress",
            server.address
        ),
    );
    // Each conversation once: five of three turns, and one of two.
    let exchanges = server.exchanges();
    assert_eq!(exchanges.len(), 17);
    assert_eq!(assert_live(&exchanges, |_| Duration::ZERO), 11);
    let found = sessions(&summary);
    let counts = ["started", "completed", "aborted", "turns_not_sent", "cut_off"];
    assert_eq!(counts.map(|name| found[name].as_u64().unwrap()), [6, 5, 1, 1, 0]);
    let by_turn = found["by_turn"].as_array().unwrap();
    let row = |row: &Value| ["issued", "answered"].map(|name| row[name].as_u64().unwrap());
    assert_eq!(by_turn.iter().map(row).collect::<Vec<_>>(), [[6, 6], [6, 5], [5, 5]]);
    // Conversations 0, 2 and 4 are those of the first worker: 9 requests. The other one has 8.
    let workers = summary["clients"][0]["workers"].as_array().unwrap();
    let queries: Vec<u64> = workers.iter().map(|one| one["queries"].as_u64().unwrap()).collect();
    assert_eq!(queries, [9, 8]);
}
