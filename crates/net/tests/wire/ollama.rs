//! Ollama's own interface. The bodies follow the examples in its API reference.

use dyno_net::ledger::{Class, Finish, HiddenTokens, Oddity};
use dyno_net::openai::{Api, Input, Message, OpenAi, Settings};
use dyno_net::protocol::Protocol;
use dyno_net::trouble::Kind;
use dyno_net::workload::{Prompt, Workload};
use serde_json::{Value, json};

use crate::interfaces::{JSON, protocol, read};

const LINES: &str = "application/x-ndjson";

fn ollama() -> OpenAi {
    let input = Input::Messages(vec![Message::new("user", "Say")]);
    protocol(Api::Ollama, input, Settings::default())
}

/// A line with an addition to the message.
fn line(message: &Value) -> String {
    let created = "2026-08-01T12:00:00.1Z";
    let line = json!({"model": "m", "created_at": created, "message": message, "done": false});
    format!("{line}\n")
}

fn says(text: &str) -> String {
    line(&json!({"role": "assistant", "content": text}))
}

/// The last line.
fn end(reason: &str) -> Value {
    json!({"model": "m", "created_at": "2026-08-01T12:00:01Z",
        "message": {"role": "assistant", "content": ""}, "done": true, "done_reason": reason,
        "total_duration": 4_883_583_458_u64, "load_duration": 1_334_875, "prompt_eval_count": 26,
        "prompt_eval_duration": 342_546_000, "eval_count": 4, "eval_duration": 4_535_599_000_u64})
}

#[test]
fn a_stream_of_lines_is_read_with_thoughts_and_tokens() {
    let thought = line(&json!({"role": "assistant", "content": "", "thinking": "hm"}));
    let lines = [thought, says("Hi"), says(" you"), end("stop").to_string()].concat();
    for body in [lines.clone(), lines.clone() + "\n", lines.replace('\n', "\r\n")] {
        let (said, beats, entry) = read(&ollama(), LINES, &body);
        assert_eq!((said.unwrap().as_str(), beats), ("hmHi you", 3));
        assert_eq!((entry.class, entry.finish), (Class::Whole, Finish::Stop));
        assert_eq!((entry.input, entry.output), (Some(26), Some(4)));
        assert_eq!(entry.hidden, HiddenTokens::None);
        assert!(entry.oddities.is_empty() && entry.contradictions.is_empty(), "{entry:?}");
    }
    let (_, _, entry) = read(&ollama(), LINES, &(says("Hi") + &end("length").to_string()));
    assert_eq!((entry.class, entry.finish), (Class::Whole, Finish::Length));
}

#[test]
fn lines_may_have_the_content_type_of_a_whole_answer() {
    let lines = [says("Hi"), says(" you"), end("stop").to_string()].concat();
    for kind in [JSON, "text/plain", ""] {
        let (said, beats, entry) = read(&ollama(), kind, &lines);
        assert_eq!((said.unwrap().as_str(), beats, entry.class), ("Hi you", 2, Class::Whole));
        assert!(entry.oddities.contains(Oddity::ContentType), "{entry:?}");
    }
    let mut whole = end("stop");
    whole["message"]["content"] = json!("Hi you");
    let (said, beats, _) = read(&ollama(), JSON, &format!("{whole}\n"));
    assert_eq!((said.unwrap().as_str(), beats), ("Hi you", 0));
}

#[test]
fn a_whole_answer_is_read() {
    let mut whole = end("stop");
    whole["message"]["content"] = json!("Hi you");
    let (said, beats, entry) = read(&ollama(), JSON, &whole.to_string());
    assert_eq!((said.unwrap().as_str(), beats, entry.output), ("Hi you", 0, Some(4)));
    assert_eq!(entry.class, Class::Whole);
    assert!(entry.oddities.contains(Oddity::NoStream), "a stream was requested");
    let (said, _, entry) = read(&ollama(), JSON, says("Hi").trim_end());
    assert_eq!((said.unwrap_err().kind, entry.class), (Kind::Cut, Class::Cut));
}

#[test]
fn calls_of_tools_are_output() {
    let call = json!({"function": {"name": "f", "arguments": {"a": 1}}});
    let called = line(&json!({"role": "assistant", "content": "", "tool_calls": [call]}));
    let (said, beats, entry) = read(&ollama(), LINES, &(called + &end("stop").to_string()));
    assert_eq!((said.unwrap().as_str(), beats), ("f{\"a\":1}", 1));
    assert_eq!(entry.class, Class::Whole);
}

#[test]
fn answers_that_are_not_whole_are_no_success() {
    let (begin, last) = (says("Hi"), end("stop").to_string());
    let within = "the answer was cut off in the middle of an event or of its JSON";
    for (rest, words) in [
        ("", "the answer ended without done: true"),
        ("{", within),
        ("{\"model\":\"m\",\"mess", within),
        (&last[..last.len() - 1], within),
    ] {
        let (said, _, entry) = read(&ollama(), LINES, &format!("{begin}{rest}"));
        let trouble = said.unwrap_err();
        assert_eq!((trouble.kind, entry.class), (Kind::Cut, Class::Cut), "{rest}");
        assert_eq!(trouble.words, words);
    }
    let error = begin + "{\"error\":\"the runner has stopped\"}\n";
    let (said, _, entry) = read(&ollama(), LINES, &error);
    assert!(said.unwrap_err().words.ends_with(": the runner has stopped"));
    assert_eq!(entry.class, Class::InBand);
    // An answer to a request that only loads the model.
    let loaded = json!({"model": "m", "message": {"role": "assistant", "content": ""},
        "done": true, "done_reason": "load"});
    let (said, _, entry) = read(&ollama(), LINES, &loaded.to_string());
    assert_eq!((said.unwrap_err().kind, entry.class), (Kind::Empty, Class::Empty));
    let (said, _, _) = read(&ollama(), JSON, "{\"choices\":[]}");
    assert!(said.unwrap_err().words.contains("expected an answer of Ollama"));
}

fn messages(all: &Value) -> Input {
    let all = all.as_array().unwrap().iter();
    Input::Messages(all.map(|one| Message::from_json(one.clone()).unwrap()).collect())
}

#[test]
fn a_request_has_its_options_and_images_beside_the_messages() {
    let call = |arguments: Value| json!({"function": {"name": "f", "arguments": arguments}});
    let input = messages(&json!([
        {"role": "user", "content": [{"type": "text", "text": "see"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]},
        {"role": "assistant", "content": null, "tool_calls": [call(json!("{\"a\":1}"))]},
        {"role": "tool", "content": "3", "tool_name": "f"},
    ]));
    let others = json!({"temperature": 0, "keep_alive": "5m", "think": false,
        "truncate": false});
    let settings = Settings {
        max_tokens: Some(8),
        others: others.as_object().unwrap().clone(),
        ..Settings::default()
    };
    let request = protocol(Api::Ollama, input, settings).request(0);
    assert_eq!(request.path, "/api/chat");
    assert!(request.fields.contains(&("accept", LINES.to_owned())));
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    let expected = json!({
        "model": "m",
        "messages": [
            {"role": "user", "content": "see", "images": ["AAAA"]},
            {"role": "assistant", "content": "", "tool_calls": [call(json!({"a": 1}))]},
            {"role": "tool", "content": "3", "tool_name": "f"},
        ],
        "stream": true,
        "options": {"num_predict": 8, "temperature": 0},
        "keep_alive": "5m",
        "think": false,
        "truncate": false,
    });
    assert_eq!(body, expected);
}

#[test]
fn texts_become_messages_and_other_parts_are_rejected() {
    let adapted = |input: Input| {
        let workload = Workload { prompts: vec![Prompt::new(input)], ..Workload::default() };
        workload.for_api(Api::Ollama)
    };
    let plain = adapted(Input::Text("Say".into())).unwrap();
    assert_eq!(plain.prompts[0].input, Input::Messages(vec![Message::new("user", "Say")]));
    let image = messages(&json!([{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": "https://a/b.png"}}]}]));
    let why = adapted(image).unwrap_err();
    assert!(why.starts_with("sample 1 has a part that /api/chat does not accept"), "{why}");
    assert!(adapted(Input::Tokens(vec![1])).is_err());
}
