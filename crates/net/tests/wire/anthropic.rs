//! Answers of Anthropic's Messages interface and of Text Generation Inference. The bodies follow the
//! examples in Anthropic's reference ("Streaming Messages") and TGI's OpenAPI description.

use std::sync::Arc;

use dyno_net::ledger::{Class, Contradiction, Finish, HiddenTokens, Oddity};
use dyno_net::openai::{Api, Input, Message, OpenAi, Settings};
use dyno_net::protocol::{Protocol, TokenCounter};
use dyno_net::trouble::Kind;
use dyno_net::workload::{Prompt, Workload};
use serde_json::{Value, json};

use crate::interfaces::{EVENTS, JSON, events, protocol, read, text};

fn messages() -> OpenAi {
    let input = Input::Messages(vec![Message::new("user", "Say")]);
    protocol(Api::Messages, input, Settings::default())
}

fn begin(input: u64, cached: u64) -> Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "type": "message",
        "role": "assistant", "content": [], "model": "m", "stop_reason": null,
        "stop_sequence": null, "usage": {"input_tokens": input, "output_tokens": 1,
            "cache_read_input_tokens": cached, "cache_creation_input_tokens": 3}}})
}

fn block(index: u64, block: &Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u64, delta: &Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn stop(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn end(reason: &str, output: u64) -> [Value; 2] {
    [
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
            "usage": {"output_tokens": output}}),
        json!({"type": "message_stop"}),
    ]
}

#[test]
fn a_stream_of_messages_is_read_with_thoughts_and_tokens() {
    let [last, over] = end("end_turn", 5);
    let body = events(&[
        begin(20, 8),
        block(0, &json!({"type": "thinking", "thinking": "", "signature": ""})),
        json!({"type": "ping"}),
        delta(0, &json!({"type": "thinking_delta", "thinking": "hm"})),
        delta(0, &json!({"type": "signature_delta", "signature": "EqQB"})),
        stop(0),
        block(1, &json!({"type": "text", "text": ""})),
        delta(1, &json!({"type": "text_delta", "text": "Hello"})),
        delta(1, &json!({"type": "text_delta", "text": "!"})),
        stop(1),
        last,
        over,
    ]);
    let (said, beats, entry) = read(&messages(), EVENTS, &body);
    assert_eq!((said.unwrap().as_str(), beats), ("hmHello!", 3));
    assert_eq!((entry.class, entry.finish), (Class::Whole, Finish::Stop));
    // Tokens of the cache are beside the others in this interface, and part of the input in Dyno.
    assert_eq!((entry.input, entry.cached, entry.output), (Some(31), Some(8), Some(5)));
    assert_eq!(entry.counted_by, TokenCounter::Server);
    assert!(entry.contradictions.is_empty(), "{entry:?}");
    assert_eq!(entry.oddities.iter().collect::<Vec<_>>(), [Oddity::SignsOfLife]);
}

#[test]
fn input_tokens_that_the_end_states_without_the_cache_are_those_of_the_begin() {
    // Some gateways state 0 or an estimate at the begin.
    for (start, last, expected) in [(20, 20, 31), (0, 40, 40), (90, 40, 40)] {
        let [mut end, over] = end("end_turn", 1);
        end["usage"]["input_tokens"] = json!(last);
        let text = delta(0, &json!({"type": "text_delta", "text": "Hello"}));
        let body = events(&[begin(start, 8), text, end, over]);
        let (_, _, entry) = read(&messages(), EVENTS, &body);
        assert_eq!((entry.input, entry.cached), (Some(expected), Some(8)));
        assert!(entry.contradictions.is_empty(), "{entry:?}");
    }
}

#[test]
fn thoughts_of_messages_that_are_not_shown_are_no_contradiction() {
    let thinking = json!({"type": "thinking", "thinking": "", "signature": ""});
    let signature = json!({"type": "signature_delta", "signature": "EqQB"});
    let redacted = json!({"type": "redacted_thinking", "data": "EmwK"});
    let says = delta(1, &json!({"type": "text_delta", "text": "Hello"}));
    for thought in [
        vec![block(0, &thinking), delta(0, &signature)],
        vec![block(0, &redacted)],
        vec![block(0, &json!({"type": "thinking", "thinking": "", "signature": "EqQB"}))],
    ] {
        let [last, over] = end("end_turn", 210);
        let rest = [stop(0), says.clone(), last, over];
        let all: Vec<Value> = [vec![begin(9, 0)], thought, rest.to_vec()].concat();
        let (said, _, entry) = read(&messages(), EVENTS, &events(&all));
        assert_eq!((said.unwrap().as_str(), entry.output), ("Hello", Some(210)));
        assert!(entry.contradictions.is_empty(), "{entry:?}");
        assert_eq!(entry.hidden, HiddenTokens::Unknown);
    }
    // Without a thought, so many tokens are a contradiction.
    let [last, over] = end("end_turn", 210);
    let all = [begin(9, 0), block(0, &thinking), says, last, over];
    let (_, _, entry) = read(&messages(), EVENTS, &events(&all));
    assert!(entry.contradictions.contains(Contradiction::MoreTokensThanBytes));
    let whole = json!({"type": "message", "content": [redacted, {"type": "text", "text": "Hi"}],
        "stop_reason": "end_turn", "usage": {"input_tokens": 5, "output_tokens": 210}});
    let (_, _, entry) = read(&messages(), JSON, &whole.to_string());
    assert!(entry.contradictions.is_empty(), "{entry:?}");
}

#[test]
fn calls_of_tools_are_output_of_messages() {
    let [last, over] = end("tool_use", 20);
    let tool = json!({"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}});
    let body = events(&[
        begin(9, 0),
        block(0, &tool),
        delta(0, &json!({"type": "input_json_delta", "partial_json": ""})),
        delta(0, &json!({"type": "input_json_delta", "partial_json": "{\"city\": "})),
        delta(0, &json!({"type": "input_json_delta", "partial_json": "\"Paris\"}"})),
        stop(0),
        last,
        over,
    ]);
    let (said, beats, entry) = read(&messages(), EVENTS, &body);
    assert_eq!((said.unwrap().as_str(), beats), ("weather{\"city\": \"Paris\"}", 3));
    assert_eq!((entry.class, entry.finish), (Class::Whole, Finish::Tools));
    assert!(entry.contradictions.is_empty(), "{entry:?}");
}

#[test]
fn messages_that_are_not_whole_are_no_success() {
    let said = delta(0, &json!({"type": "text_delta", "text": "Hi"}));
    let class = |last: &[Value]| {
        let all: Vec<Value> = [begin(9, 0), said.clone()].iter().chain(last).cloned().collect();
        let (said, _, entry) = read(&messages(), EVENTS, &events(&all));
        (said.is_ok(), entry.class, entry.finish)
    };
    assert_eq!(class(&end("max_tokens", 2)), (true, Class::Whole, Finish::Length));
    assert_eq!(class(&end("refusal", 2)), (false, Class::Filtered, Finish::Filter));
    assert_eq!(class(&[]), (false, Class::Cut, Finish::Unstated));
    let failed = json!({"type": "error",
        "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let (answer, _, entry) = read(&messages(), EVENTS, &events(&[begin(9, 0), said, failed]));
    let trouble = answer.unwrap_err();
    assert_eq!((trouble.kind, entry.class), (Kind::Refused, Class::InBand));
    assert!(trouble.words.contains("Overloaded"), "{}", trouble.words);
    let [last, over] = end("end_turn", 1);
    let (answer, _, entry) = read(&messages(), EVENTS, &events(&[begin(9, 0), last, over]));
    assert_eq!((answer.unwrap_err().kind, entry.class), (Kind::Empty, Class::Empty));
}

#[test]
fn a_whole_message_is_read() {
    let body = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [{"type": "thinking", "thinking": "hm", "signature": "x"},
            {"type": "text", "text": "Hi"}],
        "stop_reason": "stop_sequence", "stop_sequence": "\n",
        "usage": {"input_tokens": 5, "output_tokens": 4}});
    let (said, _, entry) = read(&messages(), JSON, &body.to_string());
    assert_eq!((said.unwrap().as_str(), entry.finish), ("hmHi", Finish::Stop));
    assert_eq!((entry.input, entry.output, entry.cached), (Some(5), Some(4), None));
    let error = json!({"type": "error", "error": {"type": "api_error", "message": "no model"}});
    let (said, _, _) = read(&messages(), JSON, &error.to_string());
    assert!(said.unwrap_err().words.contains("no model"));
    let (said, _, _) = read(&messages(), JSON, "{\"choices\":[]}");
    let trouble = said.unwrap_err();
    assert!(trouble.words.contains("Messages interface"), "{}", trouble.words);
}

fn sent(api: Api, prompt: Prompt, settings: Settings) -> (String, Value) {
    let workload = Arc::new(Workload { prompts: vec![prompt], ..Workload::default() });
    let settings = Settings { api: Some(api), model: "m".into(), ..settings };
    let request = OpenAi::new(workload, settings).request(0);
    (request.path, serde_json::from_slice(&request.body).unwrap())
}

#[test]
fn conversations_are_sent_as_the_messages_interface_names_them() {
    let message = |json: Value| Message::from_json(json).unwrap();
    let call = json!([{"id": "c1", "type": "function",
        "function": {"name": "weather", "arguments": "{\"city\":\"Paris\"}"}}]);
    let image = |url: &str| json!({"type": "image_url", "image_url": {"url": url}});
    let all = vec![
        message(json!({"role": "system", "content": "Be short."})),
        message(json!({"role": "user", "content": [{"type": "text", "text": "See"},
            image("data:image/png;base64,AAAA"), image("http://h/a.png")]})),
        message(json!({"role": "assistant", "content": "I look.", "tool_calls": call})),
        message(json!({"role": "tool", "tool_call_id": "c1", "content": "rain"})),
        message(json!({"role": "user", "content": "And now?"})),
    ];
    let prompt = Prompt { max_tokens: Some(8), ..Prompt::new(Input::Messages(all)) };
    let settings = Settings { is_streaming: true, asks_usage: true, ..Settings::default() };
    let (path, body) = sent(Api::Messages, prompt, settings);
    assert_eq!(path, "/messages");
    let expected = json!({"model": "m", "system": "Be short.", "max_tokens": 8, "stream": true,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "See"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png",
                    "data": "AAAA"}},
                {"type": "image", "source": {"type": "url", "url": "http://h/a.png"}}]},
            {"role": "assistant", "content": [{"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Paris"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1",
                "content": "rain"}]},
            {"role": "user", "content": "And now?"}]});
    assert_eq!(body, expected);
    let plain =
        Workload { prompts: vec![Prompt::new(Input::Text("a".into()))], ..Workload::default() };
    let plain = plain.for_api(Api::Messages).unwrap();
    assert_eq!(plain.prompts[0].input, Input::Messages(vec![Message::new("user", "a")]));
}

/// Parts of the stream of Text Generation Inference, the last one a special token.
fn generated(texts: &[&str], reason: Option<&str>) -> String {
    let last = reason.map(|reason| {
        json!({"index": texts.len() + 1, "token": {"id": 2, "text": "</s>", "logprob": -0.1,
            "special": true}, "generated_text": texts.concat(), "details": {
            "finish_reason": reason, "generated_tokens": texts.len() + 1, "seed": null,
            "input_length": 6}})
    });
    let part = |(at, text): (usize, &&str)| {
        json!({"index": at + 1, "token": {"id": 7, "text": text, "logprob": -0.5,
            "special": false}, "generated_text": null, "details": null})
    };
    let parts = texts.iter().enumerate().map(part).chain(last);
    parts.map(|part| format!("data:{part}\n\n")).collect()
}

#[test]
fn a_stream_of_text_generation_inference_is_read_with_its_tokens() {
    for (reason, finish) in
        [("eos_token", Finish::Stop), ("length", Finish::Length), ("stop_sequence", Finish::Stop)]
    {
        let body = generated(&[" Paris", " is"], Some(reason));
        let (said, beats, entry) = read(&text(Api::Tgi), EVENTS, &body);
        // The server counts the special token, so it is an event like those of the others.
        assert_eq!((said.unwrap().as_str(), beats), (" Paris is", 3));
        assert_eq!((entry.class, entry.finish), (Class::Whole, finish));
        assert_eq!((entry.input, entry.output), (Some(6), Some(3)));
        assert!(entry.contradictions.is_empty() && entry.oddities.is_empty(), "{entry:?}");
    }
    // An answer without output has no first token.
    let (said, beats, _) = read(&text(Api::Tgi), EVENTS, &generated(&[], Some("eos_token")));
    assert_eq!((said.unwrap_err().kind, beats), (Kind::Empty, 0));
    let (said, _, entry) = read(&text(Api::Tgi), EVENTS, &generated(&[" a"], None));
    assert_eq!((said.unwrap_err().kind, entry.class), (Kind::Cut, Class::Cut));
    let error = "data:{\"error\":\"Model is overloaded\",\"error_type\":\"overloaded\"}\n\n";
    let (said, _, entry) = read(&text(Api::Tgi), EVENTS, error);
    assert!(said.unwrap_err().words.contains("overloaded"));
    assert_eq!(entry.class, Class::InBand);
    let whole = json!({"generated_text": " Paris", "details": {"finish_reason": "length",
        "generated_tokens": 1, "seed": null, "prefill": [], "tokens": []}});
    for body in [whole.to_string(), format!("[{whole}]")] {
        let (said, beats, entry) = read(&text(Api::Tgi), JSON, &body);
        assert_eq!((said.unwrap().as_str(), beats, entry.output), (" Paris", 0, Some(1)));
        assert_eq!(entry.finish, Finish::Length);
    }
    let (said, _, _) = read(&text(Api::Tgi), JSON, "{\"text\":\"a\"}");
    assert!(said.unwrap_err().words.contains("Text Generation Inference"));
}

#[test]
fn requests_of_text_generation_inference_have_their_parameters_in_one_object() {
    let prompt = Prompt {
        max_tokens: Some(5),
        members: [("top_k".to_owned(), json!(3))].into_iter().collect(),
        ..Prompt::new(Input::Text("a".into()))
    };
    let settings = |is_streaming| Settings {
        is_streaming,
        others: [
            ("temperature".to_owned(), json!(0.5)),
            ("parameters".to_owned(), json!({"seed": 1})),
        ]
        .into_iter()
        .collect(),
        ..Settings::default()
    };
    let expected = json!({"inputs": "a", "parameters":
        {"max_new_tokens": 5, "details": true, "temperature": 0.5, "seed": 1, "top_k": 3}});
    let stream = sent(Api::Tgi, prompt.clone(), settings(true));
    assert_eq!(stream, ("/generate_stream".to_owned(), expected.clone()));
    assert_eq!(sent(Api::Tgi, prompt, settings(false)), ("/generate".to_owned(), expected));
}
