//! Version 2 of Cohere's interface for chats. The bodies follow the examples in its API reference.

use dyno_net::ledger::{Class, Finish};
use dyno_net::openai::{Api, Input, Message, OpenAi, Settings};
use dyno_net::protocol::{Protocol, TokenCounter};
use dyno_net::trouble::Kind;
use serde_json::{Value, json};

use crate::interfaces::{EVENTS, JSON, events, protocol, read};

fn cohere() -> OpenAi {
    let input = Input::Messages(vec![Message::new("user", "Say")]);
    protocol(Api::Cohere, input, Settings::default())
}

fn begin() -> Value {
    json!({"type": "message-start", "id": "m1", "delta": {"message": {"role": "assistant",
        "content": [], "tool_plan": "", "tool_calls": [], "citations": []}}})
}

/// An event with an addition to the message.
fn adds(kind: &str, message: &Value) -> Value {
    json!({"type": kind, "index": 0, "delta": {"message": message}})
}

fn text(text: &str) -> Value {
    adds("content-delta", &json!({"content": {"text": text}}))
}

fn usage() -> Value {
    json!({"billed_units": {"input_tokens": 3, "output_tokens": 2},
        "tokens": {"input_tokens": 11, "output_tokens": 4}})
}

fn end(reason: &str) -> Value {
    json!({"type": "message-end", "delta": {"finish_reason": reason, "usage": usage()}})
}

#[test]
fn a_stream_of_cohere_is_read_with_its_tokens() {
    let body = events(&[
        begin(),
        adds("content-start", &json!({"content": {"type": "thinking", "thinking": ""}})),
        adds("content-delta", &json!({"content": {"thinking": "hm"}})),
        json!({"type": "content-end", "index": 0}),
        adds("content-start", &json!({"content": {"type": "text", "text": ""}})),
        text("Hi"),
        text(" you"),
        json!({"type": "content-end", "index": 1}),
        end("MAX_TOKENS"),
    ]);
    let (said, beats, entry) = read(&cohere(), EVENTS, &body);
    assert_eq!((said.unwrap().as_str(), beats), ("hmHi you", 3));
    assert_eq!((entry.class, entry.finish), (Class::Whole, Finish::Length));
    assert_eq!((entry.input, entry.output), (Some(11), Some(4)));
    assert_eq!(entry.counted_by, TokenCounter::Server);
    assert!(entry.oddities.is_empty() && entry.contradictions.is_empty(), "{entry:?}");
}

#[test]
fn calls_of_tools_are_output_of_cohere() {
    let call = |name: Option<&str>, arguments: &str| json!({"tool_calls": {"function": {"name": name, "arguments": arguments}}});
    let body = events(&[
        begin(),
        adds("tool-plan-delta", &json!({"tool_plan": "I look"})),
        adds("tool-call-start", &call(Some("f"), "")),
        adds("tool-call-delta", &call(None, "{}")),
        json!({"type": "tool-call-end", "index": 0}),
        end("TOOL_CALL"),
    ]);
    let (said, beats, entry) = read(&cohere(), EVENTS, &body);
    assert_eq!((said.unwrap().as_str(), beats), ("I lookf{}", 3));
    assert_eq!((entry.class, entry.finish), (Class::Whole, Finish::Tools));
}

#[test]
fn a_whole_answer_of_cohere_is_read() {
    let body = json!({"id": "m1", "finish_reason": "COMPLETE", "usage": usage(), "message": {
        "role": "assistant", "content": [{"type": "text", "text": "Hi"}],
        "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}});
    let (said, beats, entry) = read(&cohere(), JSON, &body.to_string());
    assert_eq!((said.unwrap().as_str(), beats), ("Hif{}", 0));
    assert_eq!((entry.class, entry.finish), (Class::Whole, Finish::Stop));
    assert_eq!((entry.input, entry.output), (Some(11), Some(4)));
    for other in ["{}", r#"{"message":"lost"}"#] {
        let trouble = read(&cohere(), JSON, other).0.unwrap_err();
        let expected = format!("expected an answer of Cohere, found: {other}");
        assert_eq!((trouble.kind, trouble.words), (Kind::Malformed, expected));
    }
}

#[test]
fn answers_of_cohere_that_are_not_whole_are_no_success() {
    let ended = |last: &[Value]| {
        let (said, _, entry) =
            read(&cohere(), EVENTS, &events(&[&[begin(), text("Hi")][..], last].concat()));
        (said.unwrap_err(), entry.class)
    };
    let (trouble, class) = ended(&[]);
    assert_eq!((trouble.kind, class), (Kind::Cut, Class::Cut));
    assert!(trouble.words.contains("message-end"), "{trouble}");
    assert_eq!(ended(&[end("ERROR")]).1, Class::Aborted);
    assert_eq!(ended(&[end("ERROR_TOXIC")]).1, Class::Filtered);
    let error = json!({"type": "message-end", "delta": {"error": "lost"}});
    let (trouble, class) = ended(&[error]);
    assert_eq!((trouble.kind, class), (Kind::InBand, Class::InBand));
    assert!(trouble.words.ends_with(": lost"), "{trouble}");
    for error in [r#"{"message":"lost"}"#, r#"{"type":"error","message":"lost"}"#] {
        let (said, _, entry) = read(&cohere(), EVENTS, &format!("data: {error}\n\n"));
        assert!(said.unwrap_err().words.ends_with(": lost"), "{error}");
        assert_eq!(entry.class, Class::InBand);
    }
}

#[test]
fn a_request_of_cohere_is_that_of_a_chat() {
    let request = cohere().request(0);
    assert_eq!(request.path, "/v2/chat");
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    let expected =
        json!({"model": "m", "messages": [{"role": "user", "content": "Say"}], "stream": true});
    assert_eq!(body, expected);
}
