//! The OpenAI interface.

use std::net::SocketAddr;
use std::time::Duration;

use dyno_net::serve::{Answers, DrainOutcome, Limits, Model, Pace, Server, Text, Tokens};
use dyno_net::sse::Parser;
use serde_json::{Value, json};

use super::wire::{get, post};
use super::{digits, server_of, until};

fn tokens(text: Text, pace: Pace, slots: usize) -> (Server, SocketAddr) {
    let answers = Answers::Text(Tokens::new(text, vec![pace], slots, 1));
    server_of(Limits::default(), vec![Model { name: "words".into(), answers }])
}

fn pace(first: u64, each: u64, tokens: u64) -> Pace {
    let ms = Duration::from_millis;
    Pace { first: ms(first), gaps: vec![ms(each)], tokens }
}

/// The data of all events.
fn events(body: &[u8]) -> Vec<String> {
    let mut parser = Parser::default();
    let mut events = Vec::new();
    let read = parser.push(body, |event| {
        events.push(String::from_utf8_lossy(event.data).into_owned());
    });
    read.unwrap();
    events
}

#[test]
fn whole_answers_and_streams_say_the_same() {
    let (_server, address) = tokens(Text::Echo, pace(1, 1, 8), 4);
    for (path, prompt, text, delta) in [
        ("/v1/completions", json!({"prompt": "to be or not"}), "/text", "/text"),
        (
            "/v1/chat/completions",
            json!({"messages": [{"role": "user", "content": "to be or not"}]}),
            "/message/content",
            "/delta/content",
        ),
    ] {
        let mut asked = prompt;
        asked["model"] = "words".into();
        asked["max_tokens"] = 3.into();
        let answer = post(address, path, "", asked.to_string().as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.text());
        let whole: Value = serde_json::from_slice(&answer.body).unwrap();
        let choice = &whole["choices"][0];
        assert_eq!(choice.pointer(text).unwrap(), "to be or");
        assert_eq!(choice["finish_reason"], "length");
        let usage = json!({"prompt_tokens": 4, "completion_tokens": 3, "total_tokens": 7});
        assert_eq!(whole["usage"], usage);

        asked["stream"] = true.into();
        asked["stream_options"] = json!({"include_usage": true});
        asked["max_tokens"] = 9.into();
        let answer = post(address, path, "", asked.to_string().as_bytes());
        assert_eq!(answer.field("content-type"), Some("text/event-stream"));
        let events = events(&answer.body);
        let (done, events) = events.split_last().unwrap();
        assert_eq!(done, "[DONE]");
        let events: Vec<Value> =
            events.iter().map(|event| serde_json::from_str(event).unwrap()).collect();
        let said = events.iter().filter_map(|event| event["choices"][0].pointer(delta)?.as_str());
        assert_eq!(said.collect::<String>(), "to be or not to be or not");
        let last = events.last().unwrap();
        assert_eq!(
            (&last["choices"], &last["usage"]["completion_tokens"]),
            (&json!([]), &json!(8))
        );
        let ends = events.iter().filter(|event| event["choices"][0]["finish_reason"] == "stop");
        assert_eq!(ends.count(), 1);
    }
    let models: Value = serde_json::from_slice(&get(address, "/v1/models").body).unwrap();
    assert_eq!(models["data"][0]["id"], "words");
    assert!(get(address, "/metrics").text().contains("\ndyno_tokens_total 22\n"));
}

#[test]
fn the_first_token_and_the_others_take_their_times_at_least() {
    let (_server, address) = tokens(Text::Words, pace(80, 20, 4), 1);
    let clock = dyno_loadgen::clock::Clock::start();
    let asked = json!({"prompt": "a", "stream": true}).to_string();
    assert_eq!(post(address, "/v1/completions", "", asked.as_bytes()).status, 200);
    assert!(clock.now() >= 140_000_000, "80 ms and three gaps of 20 ms");
}

#[test]
fn what_is_wrong_is_told_in_the_words_of_the_interface() {
    let (_server, address) = tokens(Text::Words, pace(0, 0, 2), 1);
    let (_digits, tensors) = digits(Limits::default());
    for (address, body, status, words) in [
        (address, "{", 400, "not JSON"),
        (address, r#"{"model":"words"}"#, 400, "no 'prompt'"),
        (
            address,
            r#"{"model":"gpt","prompt":"a"}"#,
            404,
            "unknown model 'gpt'; the server has words",
        ),
        (tensors, r#"{"model":"digits","prompt":"a"}"#, 400, "takes tensors, not text"),
    ] {
        let answer = post(address, "/v1/completions", "", body.as_bytes());
        assert_eq!(answer.status, status, "{body}: {}", answer.text());
        let error: Value = serde_json::from_slice(&answer.body).unwrap();
        let said = error["error"]["message"].as_str().unwrap();
        assert!(said.contains(words), "{body}: {said}");
    }
    let answer = post(address, "/v2/models/words/infer", "", br#"{"inputs":[]}"#);
    assert!(answer.text().contains("generates text"), "{}", answer.text());
}

#[test]
fn slots_are_few_and_streams_end_before_the_server_does() {
    let (server, address) = tokens(Text::Words, pace(0, 200, 4), 1);
    let asked = json!({"prompt": "a", "stream": true}).to_string();
    let ask = || {
        let asked = asked.clone();
        std::thread::spawn(move || post(address, "/v1/completions", "", asked.as_bytes()))
    };
    let in_flight = |count: usize| {
        let line = format!("dyno_requests_in_flight {count}\n");
        until("they are in flight", || get(address, "/metrics").text().contains(&line));
    };
    let first = ask();
    in_flight(1);
    let second = ask();
    in_flight(2);
    let refused = post(address, "/v1/completions", "", asked.as_bytes());
    assert_eq!(refused.status, 429, "{}", refused.text());
    assert!(refused.text().contains("rate_limit_error"), "{}", refused.text());
    assert_eq!(server.drain(Duration::from_secs(60)), DrainOutcome::Answered);
    for one in [first, second] {
        assert!(one.join().unwrap().text().ends_with("data: [DONE]\n\n"));
    }
}
