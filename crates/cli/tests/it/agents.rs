//! Turns that go on while the server calls tools, checked by a server that knows how often it does.

use std::collections::BTreeMap;
use std::time::Duration;
#[cfg(unix)]
use std::time::Instant;

use serde_json::{Value, json};

use crate::program::Folder;
use crate::sessions::{ChatServer, Exchange, sessions, summary};
use crate::workers::shared_by_two;

/// Returns the messages of a request.
fn messages(body: &Value) -> &[Value] {
    body["messages"].as_array().unwrap()
}

/// Returns the last text of the user in a request, and the number of answers with calls after it.
fn task(body: &Value) -> (&str, usize) {
    let all = messages(body);
    let user = all.iter().rposition(|message| message["role"] == "user").unwrap();
    let calls = all[user..].iter().filter(|message| message["tool_calls"].is_array()).count();
    (all[user]["content"].as_str().unwrap(), calls)
}

/// Answers a task `calls N` with N answers that call one tool, or two tools in each second one, and then
/// with a text.
fn reply(number: usize, body: &Value) -> Value {
    let (asked, before) = task(body);
    let wanted: usize = asked.split(' ').nth(1).unwrap().parse().unwrap();
    if before >= wanted {
        return json!({"role": "assistant", "content": format!("answer {number}")});
    }
    let call = |n: usize| {
        json!({"id": format!("call-{number}-{n}"), "type": "function",
            "function": {"name": "find", "arguments": "{}"}})
    };
    let calls: Vec<Value> = (0..=before % 2).map(call).collect();
    json!({"role": "assistant", "content": null, "tool_calls": calls})
}

fn start() -> ChatServer {
    ChatServer::replying(|_| 200, reply)
}

/// Six tasks with 0 to 5 answers that call tools, as conversations of one message each.
fn tasks() -> String {
    let line = |calls| json!({"turns": [format!("calls {calls}")]}).to_string() + "\n";
    (0..6).map(line).collect()
}

/// Returns the number of requests for each task.
fn requests(exchanges: &[Exchange]) -> BTreeMap<String, usize> {
    let mut requests = BTreeMap::new();
    for exchange in exchanges {
        *requests.entry(task(&exchange.body).0.to_owned()).or_default() += 1;
    }
    requests
}

fn expected(requests: [usize; 6]) -> BTreeMap<String, usize> {
    requests.into_iter().enumerate().map(|(calls, n)| (format!("calls {calls}"), n)).collect()
}

/// Asserts that the calls in each request are answered by as many results with their ids.
fn assert_results(exchanges: &[Exchange], is_result: impl Fn(&str) -> bool) {
    for exchange in exchanges {
        let all = messages(&exchange.body);
        for (at, message) in all.iter().enumerate() {
            for (n, call) in message["tool_calls"].as_array().into_iter().flatten().enumerate() {
                let result = &all[at + 1 + n];
                assert_eq!(
                    (&result["role"], &result["tool_call_id"]),
                    (&json!("tool"), &call["id"])
                );
                assert!(is_result(result["content"].as_str().unwrap()), "{result}");
            }
        }
    }
}

fn counts<const N: usize>(object: &Value, keys: [&str; N]) -> [u64; N] {
    keys.map(|key| object[key].as_u64().unwrap_or_else(|| panic!("{key} in {object}")))
}

#[cfg(unix)]
fn write_tool(folder: &Folder, script: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    folder.write("tool.sh", &format!("#!/bin/sh\n{script}\n"));
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.0.join("tool.sh"), mode).unwrap();
}

/// Returns the longest time from the first request of a task to its last answer, by the server's clock.
#[cfg(unix)]
fn longest(exchanges: &[Exchange], tasks: &[&str]) -> Duration {
    let span = |name: &&str| {
        let own = exchanges.iter().filter(|exchange| task(&exchange.body).0 == *name);
        let own: Vec<&Exchange> = own.collect();
        let first: Instant = own.iter().map(|exchange| exchange.arrived).min().unwrap();
        let last = own.iter().filter_map(|exchange| exchange.answered).map(|(begun, _)| begun);
        last.max().unwrap() - first
    };
    tasks.iter().map(span).max().unwrap()
}

#[cfg(unix)]
#[test]
fn a_task_goes_on_while_the_server_calls_tools_and_has_a_limit() {
    for keys in ["", ",stream=false"] {
        let (server, folder) = (start(), Folder::new());
        folder.write("tasks.jsonl", &tasks());
        write_tool(&folder, "cat >> calls.jsonl; sleep 0.02; echo result");
        let ran = folder.dyno(&format!(
            "run --system openai:http://{},model=m,sessions=once,steps=4,tools=./tool.sh{keys} \
             --data tasks.jsonl --max-concurrency 2 --out out",
            server.address
        ));
        assert!(matches!(ran.code, Some(0 | 1)), "{}\n{}", ran.stdout, ran.stderr);
        let exchanges = server.exchanges();
        assert_eq!(requests(&exchanges), expected([1, 2, 3, 4, 4, 4]));
        assert_results(&exchanges, |text| text == "result");
        // The calls of the fourth answer are not answered: 8 calls of the first four tasks, and 4 of
        // each other one.
        assert_eq!(folder.read("calls.jsonl").lines().count(), 16);
        let summary = summary(&folder);
        let found = sessions(&summary);
        let keys = ["started", "completed", "at_limit", "aborted", "cut_off", "turns_not_sent"];
        assert_eq!(counts(found, keys), [6, 4, 2, 0, 0, 0]);
        let tasks = &found["tasks"];
        let keys = ["max_steps", "started", "answered", "at_limit", "failed", "unfinished"];
        assert_eq!(counts(tasks, keys), [4, 6, 4, 2, 0, 0]);
        assert_eq!(counts(tasks, ["calls_answered", "calls_failed"]), [16, 0]);
        assert_eq!(tasks["steps"], json!({"mean": 2.5, "p50": 3, "p90": 4, "max": 4}));
        assert_eq!(tasks["tool_calls"], json!({"mean": 2.0, "p50": 3, "p90": 4, "max": 4}));
        let duration = &tasks["duration_ns"];
        assert_eq!(duration["count"], 4);
        let by_server = longest(&exchanges, &["calls 0", "calls 1", "calls 2", "calls 3"]);
        assert!(u128::from(duration["max"].as_u64().unwrap()) >= by_server.as_nanos());
        let by_turn = found["by_turn"].as_array().unwrap();
        let issued: Vec<u64> = by_turn.iter().map(|row| row["issued"].as_u64().unwrap()).collect();
        assert_eq!(issued, [6, 5, 4, 3]);
        // Requests that no answer asked for are not missing.
        let metrics = &summary["tests"][0]["metrics"];
        assert_eq!((&metrics["missing"], &metrics["query_count"]), (&json!(0), &json!(18)));
        assert_eq!(metrics["conditions"]["min_duration_met"], true);
        assert!(ran.stdout.contains("6 tasks begun, 4 answered"), "{}", ran.stdout);
        let notes = summary["tests"][0]["notes"].to_string();
        assert!(notes.contains("2 of 6 tasks had no answer after 4 requests"), "{notes}");
        let page = folder.read("out/report.html");
        assert!(page.contains("6 tasks begun, 4 answered, 2 without an answer after 4 requests"));
        assert!(page.contains("on average 2.5 requests, 2.0 calls of tools"));
        // 0, 1, 3 and 4 calls of 20 ms each are in no latency.
        let latency = &tasks["latency_ns"];
        let [whole, of_server] = [duration, latency].map(|of| of["mean"].as_u64().unwrap());
        assert!(latency["count"] == 4 && whole + 1 >= of_server + 40_000_000, "{tasks}");
    }
}

#[test]
fn recorded_results_answer_calls_after_a_stated_delay() {
    let (server, folder) = (start(), Folder::new());
    let message = |role: &str, text: &str| json!({"role": role, "content": text});
    let recorded = [
        message("user", "calls 1"),
        message("assistant", "calls"),
        message("tool", "r1"),
        message("assistant", "calls"),
        message("tool", "r2"),
        message("assistant", "answer"),
        message("user", "calls 0"),
    ];
    folder.write("tasks.jsonl", &(json!({"messages": recorded}).to_string() + "\n"));
    let run = |keys: &str| {
        format!(
            "run --system openai:http://{},model=m,sessions=once,steps=3{keys} --data tasks.jsonl \
             --max-concurrency 1 --out out -q",
            server.address
        )
    };
    let ran = folder.dyno(&run(",tools-delay=60ms"));
    assert!(matches!(ran.code, Some(0 | 1)), "{}\n{}", ran.stdout, ran.stderr);
    let exchanges = server.exchanges();
    let last = |exchange: &Exchange| messages(&exchange.body).last().unwrap()["content"].clone();
    // The server answers without the second recorded result, which is then not sent.
    assert_eq!(exchanges.iter().map(last).collect::<Vec<_>>(), ["calls 1", "r1", "calls 0"]);
    assert_results(&exchanges, |text| text == "r1");
    let (begun, _) = exchanges[0].answered.unwrap();
    assert!(exchanges[1].arrived >= begun + Duration::from_millis(60));
    let summary = summary(&folder);
    let tasks = &sessions(&summary)["tasks"];
    assert_eq!(counts(tasks, ["started", "answered", "unfinished"]), [2, 2, 0]);
    assert_eq!(tasks["steps"]["max"], 2);
    assert!(tasks["calls_answered"].is_null() && tasks["tool_calls"]["max"] == 1, "{tasks}");
    // Turn 3 is a further request of the first message, which was not needed.
    let by_turn = sessions(&summary)["by_turn"].as_array().unwrap();
    let turns: Vec<&Value> = by_turn.iter().map(|row| &row["turn"]).collect();
    assert_eq!(turns, [&json!(1), &json!(2), &json!(4)]);
    let oddities = &summary["tests"][0]["metrics"]["answers"]["oddities"];
    assert!(!oddities.to_string().contains("tool calls"), "{oddities}");
    for (keys, expected) in [
        (",history=recorded", "steps: has no effect"),
        (",every=1s", "remove every or steps"),
        (",tools-delay=soon", "tools-delay"),
    ] {
        let ran = folder.dyno(&run(keys)).exits(2);
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    }
    let ran = folder.dyno(&(run("") + " --num-prompts 99")).exits(2);
    let expected = "found conversations of at most 6 requests in all";
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);
}

#[test]
fn a_call_that_was_cut_off_ends_its_task() {
    let cut = |number: usize, body: &Value| {
        let mut message = reply(number, body);
        let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
        for call in calls.into_iter().flatten() {
            call["function"]["arguments"] = json!("{\"query\": \"par");
        }
        message
    };
    for keys in ["", ",stream=false"] {
        let (server, folder) = (ChatServer::replying(|_| 200, cut), Folder::new());
        folder.write("tasks.jsonl", &tasks());
        folder.dyno(&format!(
            "run --system openai:http://{},model=m,sessions=once,steps=4,tools-result=7{keys} --data \
             tasks.jsonl --max-concurrency 1 --fail-fast off --out out -q",
            server.address
        ));
        let exchanges = server.exchanges();
        assert_eq!(requests(&exchanges), expected([1; 6]), "no cut call goes back");
        let summary = summary(&folder);
        let tasks = &sessions(&summary)["tasks"];
        assert_eq!(counts(tasks, ["started", "answered", "failed"]), [6, 1, 5]);
        assert!(tasks["calls_answered"].is_null(), "no call was answered: {tasks}");
        let words = "a call of a tool was cut off before the end of its arguments";
        assert!(summary["clients"].to_string().contains(words), "{}", summary["clients"]);
    }
}

#[test]
fn random_words_answer_calls_without_a_program() {
    let (server, folder) = (start(), Folder::new());
    folder.write("tasks.jsonl", &tasks());
    let ran = folder.dyno(&format!(
        "run --system openai:http://{},model=m,sessions=once,steps=4,tools-result=7,\
         tools-delay=30ms --data tasks.jsonl --max-concurrency 3 --out out -q",
        server.address
    ));
    assert!(matches!(ran.code, Some(0 | 1)), "{}\n{}", ran.stdout, ran.stderr);
    let exchanges = server.exchanges();
    assert_eq!(requests(&exchanges), expected([1, 2, 3, 4, 4, 4]));
    assert_results(&exchanges, |text| text.split(' ').count() == 7);
    let summary = summary(&folder);
    let tasks = &sessions(&summary)["tasks"];
    assert_eq!(counts(tasks, ["calls_answered", "calls_failed"]), [16, 0]);
    // The longest answered task has three delays.
    assert!(tasks["duration_ns"]["max"].as_u64().unwrap() >= 90_000_000, "{tasks}");
}

#[cfg(unix)]
#[test]
fn tools_that_all_fail_are_a_failure_of_the_client() {
    let (server, folder) = (start(), Folder::new());
    folder.write("tasks.jsonl", &tasks());
    write_tool(&folder, "exit 3");
    let ran = folder.dyno(&format!(
        "run --system openai:http://{},model=m,sessions=once,steps=9,tools=./tool.sh --data \
         tasks.jsonl --max-concurrency 1 --out out",
        server.address
    ));
    let ran = ran.exits(1);
    let reason = "Every call of a tool failed in the client";
    assert!(ran.stdout.contains(reason), "{}", ran.stdout);
    let exchanges = server.exchanges();
    assert_eq!(requests(&exchanges), expected([1, 2, 3, 4, 5, 6]));
    assert_results(&exchanges, |text| text.starts_with("error: "));
    let summary = summary(&folder);
    let test = &summary["tests"][0];
    assert_eq!(test["verdict"], "INVALID");
    let causes = test["causes"].as_array().unwrap();
    let own = causes.iter().find(|cause| cause["text"].as_str().unwrap().starts_with(reason));
    assert_eq!(own.unwrap()["cause"], "client");
    let tasks = &sessions(&summary)["tasks"];
    // The server answered every request, so that no task failed.
    assert_eq!(counts(tasks, ["started", "answered", "failed"]), [6, 6, 0]);
    let [answered, failed] = counts(tasks, ["calls_answered", "calls_failed"]);
    assert!(answered == failed && failed > 0, "{tasks}");
}

#[cfg(unix)]
#[test]
fn a_task_whose_tools_run_at_the_end_is_unfinished() {
    let (server, folder) = (start(), Folder::new());
    folder.write("tasks.jsonl", &(json!({"turns": ["calls 1"]}).to_string() + "\n"));
    write_tool(&folder, "exec sleep 300");
    let ran = folder.dyno(&format!(
        "run --system openai:http://{},model=m,sessions=live,steps=3,tools=./tool.sh,tools-limit=300s \
         --data tasks.jsonl --max-concurrency 1 --duration 50ms --set min_query_count=1 --out out -q",
        server.address
    ));
    assert!(matches!(ran.code, Some(0 | 1)), "{}\n{}", ran.stdout, ran.stderr);
    assert_eq!(server.exchanges().len(), 1);
    let summary = summary(&folder);
    let found = sessions(&summary);
    assert_eq!(counts(found, ["started", "completed", "cut_off", "at_limit"]), [1, 0, 1, 0]);
    let keys = ["started", "answered", "at_limit", "failed", "unfinished"];
    assert_eq!(counts(&found["tasks"], keys), [1, 0, 0, 0, 1]);
    assert!(found["tasks"]["duration_ns"].is_null());
}

#[test]
fn two_workers_share_tasks() {
    let (server, folder) = (start(), Folder::new());
    let line = |calls| {
        let message = |role: &str, text: &str| json!({"role": role, "content": text});
        let user = message("user", &format!("calls {calls}"));
        let recorded = [user, message("assistant", "calls"), message("tool", "r")];
        json!({"messages": recorded}).to_string() + "\n"
    };
    folder.write("tasks.jsonl", &(0..6).map(line).collect::<String>());
    let summary = shared_by_two(
        &folder,
        &format!(
            "run --system openai:http://{},model=m,sessions=once,steps=4 --data tasks.jsonl \
             --scenario server --mode performance --max-concurrency 2 --no-progress",
            server.address
        ),
    );
    let exchanges = server.exchanges();
    assert_eq!(requests(&exchanges), expected([1, 2, 3, 4, 4, 4]));
    let found = sessions(&summary);
    let keys = ["started", "completed", "at_limit", "aborted", "cut_off"];
    assert_eq!(counts(found, keys), [6, 4, 2, 0, 0]);
    let keys = ["started", "answered", "at_limit", "failed", "unfinished"];
    assert_eq!(counts(&found["tasks"], keys), [6, 4, 2, 0, 0]);
    assert_eq!(found["tasks"]["tool_calls"]["max"], 4);
    assert_eq!(found["by_turn"][3]["issued"], 3);
}
