//! Gemini's own interface. The bodies follow the examples in its API reference.

use std::sync::Arc;

use dyno_net::ledger::{Class, Finish, HiddenTokens, Oddity};
use dyno_net::openai::{Api, Input, Message, OpenAi, Settings, split_url_of_gemini};
use dyno_net::protocol::{Protocol, TokenCounter};
use dyno_net::trouble::Kind;
use dyno_net::workload::{Prompt, Workload};
use serde_json::{Value, json};

use crate::interfaces::{EVENTS, JSON, protocol, read};

fn gemini() -> OpenAi {
    let input = Input::Messages(vec![Message::new("user", "Say")]);
    protocol(Api::Gemini, input, Settings::default())
}

fn stream(parts: &[Value]) -> String {
    parts.iter().map(|part| format!("data: {part}\r\n\r\n")).collect()
}

/// A part of a stream with these parts of a message.
fn says(parts: &Value, output: u64) -> Value {
    json!({"candidates": [{"content": {"parts": parts, "role": "model"}, "index": 0}],
        "usageMetadata": {"promptTokenCount": 8, "candidatesTokenCount": output,
            "totalTokenCount": 8 + output,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 8}]},
        "modelVersion": "m", "responseId": "r"})
}

fn text(text: &str, output: u64) -> Value {
    says(&json!([{"text": text}]), output)
}

fn ended(mut part: Value, reason: &str) -> Value {
    part["candidates"][0]["finishReason"] = json!(reason);
    part
}

#[test]
fn a_stream_of_gemini_is_read_with_its_tokens() {
    let body = stream(&[text("Hi", 1), ended(text(" there, you", 4), "STOP")]);
    let (said, beats, entry) = read(&gemini(), EVENTS, &body);
    assert_eq!((said.unwrap().as_str(), beats), ("Hi there, you", 2));
    assert_eq!((entry.class, entry.finish), (Class::Whole, Finish::Stop));
    assert_eq!((entry.input, entry.output, entry.total), (Some(8), Some(4), Some(12)));
    assert_eq!((entry.counted_by, entry.hidden), (TokenCounter::Server, HiddenTokens::None));
    assert!(entry.oddities.is_empty() && entry.contradictions.is_empty(), "{entry:?}");
    // Earlier models state a reason in each part.
    let body = stream(&[ended(text("Hi", 1), "STOP"), ended(text(" you", 2), "MAX_TOKENS")]);
    let (said, beats, entry) = read(&gemini(), EVENTS, &body);
    assert_eq!((said.unwrap().as_str(), beats), ("Hi you", 2));
    assert_eq!((entry.class, entry.finish), (Class::Whole, Finish::Length));
}

#[test]
fn thoughts_and_cached_tokens_of_gemini_are_counted() {
    let usage = json!({"promptTokenCount": 30, "toolUsePromptTokenCount": 4,
        "cachedContentTokenCount": 16, "candidatesTokenCount": 3, "thoughtsTokenCount": 20,
        "totalTokenCount": 57});
    let mut last = ended(text(" you", 3), "STOP");
    last["candidates"][0]["content"]["parts"][0]["thoughtSignature"] = json!("QUJD");
    last["usageMetadata"] = usage;
    let (said, _, entry) = read(&gemini(), EVENTS, &stream(&[text("Hi", 1), last.clone()]));
    assert_eq!(said.unwrap(), "Hi you");
    assert_eq!((entry.input, entry.cached), (Some(34), Some(16)));
    assert_eq!((entry.output, entry.reasoning, entry.total), (Some(23), Some(20), Some(57)));
    assert_eq!(entry.hidden, HiddenTokens::Some(20));
    assert!(entry.contradictions.is_empty(), "{entry:?}");
    let thought = says(&json!([{"text": "hm", "thought": true}]), 0);
    let (said, beats, entry) = read(&gemini(), EVENTS, &stream(&[thought, last]));
    assert_eq!((said.unwrap().as_str(), beats), ("hm you", 2));
    assert_eq!(entry.hidden, HiddenTokens::Unknown, "summaries have fewer tokens than thoughts");
    // The limit ended the answer within its thoughts, so that nothing came.
    let usage = json!({"promptTokenCount": 8, "thoughtsTokenCount": 7, "totalTokenCount": 15});
    let part = json!({"candidates": [{"finishReason": "MAX_TOKENS", "index": 0}],
        "usageMetadata": usage});
    let (said, _, entry) = read(&gemini(), EVENTS, &stream(&[part]));
    assert_eq!((said.unwrap_err().kind, entry.class), (Kind::Empty, Class::Empty));
    assert_eq!((entry.output, entry.reasoning), (Some(7), Some(7)));
}

#[test]
fn calls_of_tools_and_media_are_output_of_gemini() {
    let call = json!([{"functionCall": {"name": "f", "args": {"a": 1}}}]);
    let (said, beats, entry) = read(&gemini(), EVENTS, &stream(&[ended(says(&call, 9), "STOP")]));
    assert_eq!((said.unwrap().as_str(), beats), ("f{\"a\":1}", 1));
    assert_eq!((entry.class, entry.output), (Class::Whole, Some(9)));
    let image = json!([{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]);
    let (said, _, entry) = read(&gemini(), EVENTS, &stream(&[ended(says(&image, 1290), "STOP")]));
    assert_eq!((said.unwrap().as_str(), entry.bytes, entry.class), ("", 4, Class::Whole));
}

#[test]
fn a_whole_answer_of_gemini_is_read() {
    let whole = ended(text("Hi there", 2), "STOP");
    let list = json!([text("Hi", 1), ended(text(" there", 2), "STOP")]);
    for body in [&whole, &list] {
        let (said, beats, entry) = read(&gemini(), JSON, &body.to_string());
        assert_eq!((said.unwrap().as_str(), beats), ("Hi there", 0));
        assert_eq!((entry.class, entry.output), (Class::Whole, Some(2)));
        assert!(entry.oddities.contains(Oddity::NoStream), "a stream was requested");
    }
    let (said, _, _) = read(&gemini(), JSON, "{\"choices\":[]}");
    assert!(
        said.unwrap_err().words.ends_with("expected an answer of Gemini, found: {\"choices\":[]}")
    );
}

#[test]
fn answers_of_gemini_that_are_not_whole_are_no_success() {
    let class = |parts: &[Value]| {
        let (said, _, entry) = read(&gemini(), EVENTS, &stream(parts));
        (entry.class, said.unwrap_err().words)
    };
    for (reason, expected) in [
        ("SAFETY", Class::Filtered),
        ("RECITATION", Class::Filtered),
        ("PROHIBITED_CONTENT", Class::Filtered),
        ("SPII", Class::Filtered),
        ("OTHER", Class::Aborted),
        ("LANGUAGE", Class::Aborted),
        ("MALFORMED_FUNCTION_CALL", Class::Aborted),
        ("FINISH_REASON_UNSPECIFIED", Class::Cut),
    ] {
        let (found, words) = class(&[text("Hi", 1), ended(text(" you", 2), reason)]);
        assert_eq!(found, expected, "{reason}: {words}");
    }
    let (found, words) = class(&[text("Hi", 1)]);
    assert_eq!((found, &*words), (Class::Cut, "the stream ended without finishReason"));
    let blocked = json!({"promptFeedback": {"blockReason": "OTHER", "safetyRatings": []},
        "usageMetadata": {"promptTokenCount": 8, "totalTokenCount": 8}, "modelVersion": "m"});
    let (found, words) = class(std::slice::from_ref(&blocked));
    assert_eq!(found, Class::Filtered);
    assert!(words.contains("blocked prompt: OTHER"), "{words}");
    let (said, _, entry) = read(&gemini(), JSON, &blocked.to_string());
    assert_eq!((said.unwrap_err().kind, entry.class), (Kind::Filtered, Class::Filtered));
    let error = json!({"error": {"code": 503, "message": "The model is overloaded.",
        "status": "UNAVAILABLE"}});
    for (kind, body) in [
        (EVENTS, stream(&[text("Hi", 1), error.clone()])),
        (JSON, json!([error.clone()]).to_string()),
    ] {
        let (said, _, entry) = read(&gemini(), kind, &body);
        let trouble = said.unwrap_err();
        assert_eq!((trouble.kind, entry.class), (Kind::Refused, Class::InBand));
        assert!(trouble.words.ends_with(": The model is overloaded."), "{trouble}");
    }
}

fn sent(messages: &Value, settings: Settings) -> (String, Value) {
    let all = messages.as_array().unwrap().iter();
    let all = all.map(|one| Message::from_json(one.clone()).unwrap()).collect();
    let request = protocol(Api::Gemini, Input::Messages(all), settings).request(0);
    (request.path, serde_json::from_slice(&request.body).unwrap())
}

#[test]
fn a_request_of_gemini_has_its_contents_and_its_model_in_the_path() {
    let others = json!({"temperature": 0, "candidateCount": 1, "safetySettings": [],
        "generationConfig": {"topK": 3}, "tools": [{"functionDeclarations": []}]});
    let settings = Settings {
        max_tokens: Some(8),
        others: others.as_object().unwrap().clone(),
        ..Settings::default()
    };
    let call = |name: &str| {
        json!({"id": name, "type": "function",
            "function": {"name": name, "arguments": "{\"a\":1}"}})
    };
    let messages = json!([
        {"role": "system", "content": "Be brief"},
        {"role": "user", "content": [{"type": "text", "text": "see"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]},
        {"role": "assistant", "content": null, "tool_calls": [call("f"), call("g")]},
        {"role": "tool", "tool_call_id": "f", "content": "3"},
        {"role": "tool", "tool_call_id": "g", "content": "4"},
    ]);
    let (path, body) = sent(&messages, settings);
    assert_eq!(path, "/models/m:streamGenerateContent?alt=sse");
    let image = json!({"mimeType": "image/png", "data": "AAAA"});
    let call = |name: &str| json!({"functionCall": {"name": name, "args": {"a": 1}}});
    let result = |name: &str, text: &str| json!({"functionResponse": {"name": name, "response": {"result": text}}});
    let expected = json!({
        "systemInstruction": {"parts": [{"text": "Be brief"}]},
        "contents": [
            {"role": "user", "parts": [{"text": "see"}, {"inlineData": image}]},
            {"role": "model", "parts": [call("f"), call("g")]},
            // The interface rejects results of one message that come in several.
            {"role": "user", "parts": [result("f", "3"), result("g", "4")]},
        ],
        "generationConfig": {"maxOutputTokens": 8, "temperature": 0, "candidateCount": 1, "topK": 3},
        "safetySettings": [],
        "tools": [{"functionDeclarations": []}],
    });
    assert_eq!(body, expected);
}

#[test]
fn the_path_of_gemini_has_the_model_of_each_prompt() {
    let prompt = |model: &str| Prompt {
        members: json!({"model": model}).as_object().unwrap().clone(),
        ..Prompt::new(Input::Messages(vec![Message::new("user", "Say")]))
    };
    let prompts = Vec::from(["a b", "tunedModels/t"].map(prompt));
    let workload = Workload { prompts, ..Workload::default() };
    let settings = Settings { api: Some(Api::Gemini), model: "m".into(), ..Settings::default() };
    let protocol = OpenAi::new(Arc::new(workload), settings);
    for (sample, path) in
        [(0, "/models/a%20b:generateContent"), (1, "/tunedModels/t:generateContent")]
    {
        let request = protocol.request(sample);
        assert_eq!(request.path, path);
        let contents = json!([{"role": "user", "parts": [{"text": "Say"}]}]);
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        assert_eq!(body, json!({"contents": contents}));
    }
}

#[test]
fn a_url_of_gemini_is_split_as_its_path_is_joined() {
    for (url, expected) in [
        ("http://h/v1beta/models/m:generateContent", Some(("http://h/v1beta", "m"))),
        ("http://h/models/m:streamGenerateContent", Some(("http://h", "m"))),
        ("http://h/v1/tunedModels/t:generateContent", Some(("http://h/v1", "tunedModels/t"))),
        ("http://h/v1/models/o/m:generateContent", Some(("http://h/v1/models", "o/m"))),
        ("http://h/v1beta/models/m", Some(("http://h/v1beta", "m"))),
        ("http://h/v1beta", None),
        ("http://h/m:generateContent", None),
        ("http://models/m:generateContent", None),
        ("http://h:generateContent", None),
    ] {
        assert_eq!(split_url_of_gemini(url), expected, "{url}");
    }
}
