//! Answers of the interfaces besides chats and completions. The bodies follow the examples in the
//! references of OpenAI (Responses, embeddings), Jina (rerank), Text Embeddings Inference, and SGLang.

use std::sync::Arc;

use dyno_net::ledger::{Class, Entry, Finish, HiddenTokens, Oddity};
use dyno_net::openai::{Api, Input, Message, OpenAi, Settings};
use dyno_net::protocol::{Protocol, TokenCounter};
use dyno_net::trouble::{Kind, Trouble};
use dyno_net::workload::{Prompt, Workload};
use serde_json::{Value, json};

use crate::fields;

pub fn protocol(api: Api, input: Input, settings: Settings) -> OpenAi {
    let workload = Workload { prompts: vec![Prompt::new(input)], ..Workload::default() };
    let settings = Settings {
        api: Some(api),
        model: "m".into(),
        is_streaming: api.is_text(),
        asks_usage: true,
        ..settings
    };
    OpenAi::new(Arc::new(workload), settings)
}

pub fn text(api: Api) -> OpenAi {
    protocol(api, Input::Text("Say".into()), Settings::default())
}

/// An answer, the parts with output, and its account.
pub type Read = (Result<String, Trouble>, u32, Entry);

/// Reads an answer in pieces of several sizes; neither outcome nor account depends on them.
#[track_caller]
pub fn read(protocol: &OpenAi, kind: &str, body: &str) -> Read {
    let once = |piece: usize| {
        let mut reader = protocol.reader();
        reader.expect(0);
        reader.begin(200, &fields(&[("content-type", kind)])).unwrap();
        let mut beats = 0;
        for piece in body.as_bytes().chunks(piece) {
            match reader.data(piece) {
                Ok(progress) => beats += progress.beats,
                Err(trouble) => return (Err(trouble), beats, reader.entry().unwrap_or_default()),
            }
        }
        beats += reader.finish().unwrap().beats;
        let read = reader.end(None).map(|answer| String::from_utf8(answer.data.to_vec()).unwrap());
        (read, beats, reader.entry().unwrap_or_default())
    };
    let found = once(1 << 20);
    assert_eq!(found, once(7), "{body}");
    found
}

pub const EVENTS: &str = "text/event-stream";
pub const JSON: &str = "application/json";

/// Events of the Responses interface, with their types in both places.
pub fn events(all: &[Value]) -> String {
    let event =
        |data: &Value| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap());
    all.iter().map(event).collect()
}

pub fn delta(kind: &str, text: &str) -> Value {
    json!({"type": format!("response.{kind}.delta"), "item_id": "msg_1", "output_index": 0,
        "content_index": 0, "delta": text, "sequence_number": 4})
}

pub fn end(status: &str, more: Value) -> Value {
    let mut response = json!({"id": "resp_1", "object": "response", "status": status,
        "error": null, "incomplete_details": null, "model": "m",
        "output": [{"type": "message", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "Hi there", "annotations": []}]}],
        "usage": {"input_tokens": 37, "output_tokens": 11, "total_tokens": 48,
            "input_tokens_details": {"cached_tokens": 16},
            "output_tokens_details": {"reasoning_tokens": 4}}});
    let Value::Object(more) = more else { unreachable!("it is an object") };
    response.as_object_mut().unwrap().extend(more);
    json!({"type": format!("response.{status}"), "response": response, "sequence_number": 9})
}

#[test]
fn a_stream_of_responses_is_read_with_its_tokens() {
    let body = events(&[
        json!({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress",
            "output": []}, "sequence_number": 0}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"id": "msg_1",
            "type": "message", "status": "in_progress", "content": []}}),
        delta("reasoning_summary_text", "hm"),
        delta("output_text", "Hi"),
        delta("output_text", " there"),
        json!({"type": "response.output_text.done", "text": "Hi there"}),
        end("completed", json!({})),
    ]);
    let (said, beats, entry) = read(&text(Api::Responses), EVENTS, &body);
    assert_eq!((said.unwrap().as_str(), beats), ("hmHi there", 3));
    assert_eq!((entry.class, entry.finish), (Class::Whole, Finish::Stop));
    assert_eq!((entry.input, entry.output, entry.cached), (Some(37), Some(11), Some(16)));
    assert_eq!((entry.reasoning, entry.counted_by), (Some(4), TokenCounter::Server));
    assert!(entry.oddities.is_empty() && entry.contradictions.is_empty(), "{entry:?}");
    // How many tokens the summary has is unknown.
    assert_eq!(entry.hidden, HiddenTokens::Unknown);
    let all =
        [delta("output_text", "Hi"), delta("output_text", " there"), end("completed", json!({}))];
    let (_, _, entry) = read(&text(Api::Responses), EVENTS, &events(&all));
    assert_eq!((entry.output, entry.hidden), (Some(11), HiddenTokens::Some(4)));
}

#[test]
fn an_answer_that_never_begins_has_no_account() {
    let protocol = text(Api::Responses);
    let mut reader = protocol.reader();
    reader.expect(0);
    reader.begin(200, &fields(&[("content-type", EVENTS)])).unwrap();
    let body = events(&[delta("output_text", "Hi"), end("completed", json!({}))]);
    reader.data(body.as_bytes()).unwrap();
    reader.finish().unwrap();
    reader.end(None).unwrap();
    assert!(reader.entry().is_some());
    reader.expect(0);
    assert_eq!(reader.entry(), None);
}

#[test]
fn responses_that_are_not_whole_are_no_success() {
    let class = |last: Option<Value>| {
        let all: Vec<Value> = [delta("output_text", "Hi there")].into_iter().chain(last).collect();
        let (said, _, entry) = read(&text(Api::Responses), EVENTS, &events(&all));
        (said.is_ok(), entry.class, entry.finish)
    };
    let reason = |reason| json!({"incomplete_details": {"reason": reason}});
    let limit = end("incomplete", reason("max_output_tokens"));
    assert_eq!(class(Some(limit)), (true, Class::Whole, Finish::Length));
    let filter = end("incomplete", reason("content_filter"));
    assert_eq!(class(Some(filter)), (false, Class::Filtered, Finish::Filter));
    assert_eq!(class(None), (false, Class::Cut, Finish::Unstated));
    assert_eq!(class(Some(end("cancelled", json!({})))).1, Class::Aborted);
    assert_eq!(class(Some(end("incomplete", json!({})))).1, Class::Aborted);
    for failed in [
        end("failed", json!({"error": {"code": "server_error", "message": "out of memory"}})),
        json!({"type": "error", "code": "server_error", "message": "out of memory", "param": null}),
    ] {
        let body = events(&[delta("output_text", "Hi"), failed]);
        let (said, _, entry) = read(&text(Api::Responses), EVENTS, &body);
        let trouble = said.unwrap_err();
        assert_eq!((trouble.kind, entry.class), (Kind::InBand, Class::InBand));
        assert!(trouble.words.contains("out of memory"), "{}", trouble.words);
    }
    // Nothing was said.
    let (said, _, entry) =
        read(&text(Api::Responses), EVENTS, &events(&[end("completed", json!({"output": []}))]));
    assert_eq!((said.unwrap_err().kind, entry.class), (Kind::Empty, Class::Empty));
}

#[test]
fn calls_of_functions_are_output_of_responses() {
    let item = |arguments: &str| {
        json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather",
            "arguments": arguments})
    };
    let streamed = events(&[
        json!({"type": "response.output_item.added", "item": item("")}),
        delta("function_call_arguments", "{\"city\":"),
        delta("function_call_arguments", "\"Paris\"}"),
        json!({"type": "response.output_item.done", "item": item("{\"city\":\"Paris\"}")}),
        end("completed", json!({"output": [item("{\"city\":\"Paris\"}")]})),
    ]);
    // Some servers send a call only when it is complete.
    let complete = events(&[
        json!({"type": "response.output_item.done", "item": item("{\"city\":\"Paris\"}")}),
        end("completed", json!({"output": [item("{\"city\":\"Paris\"}")]})),
    ]);
    for (body, beats) in [(streamed, 3), (complete, 1)] {
        let (said, found, entry) = read(&text(Api::Responses), EVENTS, &body);
        assert_eq!((said.unwrap().as_str(), found), ("weather{\"city\":\"Paris\"}", beats));
        assert_eq!((entry.class, entry.finish), (Class::Whole, Finish::Tools));
    }
}

#[test]
fn several_calls_and_those_of_custom_tools_are_output_of_responses() {
    let call = |name: &str| json!({"type": "function_call", "name": name, "arguments": "{}"});
    let done = |item: &Value| json!({"type": "response.output_item.done", "item": item});
    let calls = [call("f"), call("g")];
    let body = events(&[
        done(&calls[0]),
        done(&calls[1]),
        end("completed", json!({"output": calls, "usage": null})),
    ]);
    let (said, beats, entry) = read(&text(Api::Responses), EVENTS, &body);
    assert_eq!((said.unwrap().as_str(), beats, entry.finish), ("f{}g{}", 2, Finish::Tools));
    let custom = |input: &str| json!({"type": "custom_tool_call", "name": "sh", "input": input});
    let body = events(&[
        json!({"type": "response.output_item.added", "item": custom("")}),
        delta("custom_tool_call_input", "l"),
        delta("custom_tool_call_input", "s"),
        done(&custom("ls")),
        end("completed", json!({"output": [custom("ls")], "usage": null})),
    ]);
    let (said, beats, entry) = read(&text(Api::Responses), EVENTS, &body);
    assert_eq!((said.unwrap().as_str(), beats, entry.finish), ("shls", 3, Finish::Tools));
    let whole = end("completed", json!({"output": [custom("ls")]}))["response"].to_string();
    assert_eq!(read(&text(Api::Responses), JSON, &whole).0.unwrap(), "shls");
    // Other names of thoughts, and of what is said.
    let body = events(&[
        delta("reasoning", "h"),
        delta("reasoning_summary", "m"),
        delta("output_audio_transcript", "Hi"),
        end("completed", json!({"usage": null})),
    ]);
    let (said, beats, _) = read(&text(Api::Responses), EVENTS, &body);
    assert_eq!((said.unwrap().as_str(), beats), ("hmHi", 3));
}

#[test]
fn what_comes_only_when_it_is_complete_is_output_of_responses() {
    let at = |index: u64, mut event: Value| {
        event["output_index"] = json!(index);
        event
    };
    let added = |index: u64, item: &Value| {
        at(index, json!({"type": "response.output_item.added", "item": item}))
    };
    let done = |index: u64, item: &Value| {
        at(index, json!({"type": "response.output_item.done", "item": item}))
    };
    let call =
        |arguments: &str| json!({"type": "function_call", "name": "f", "arguments": arguments});
    let thought = at(0, json!({"type": "response.reasoning_text.done", "text": "hm"}));
    let said = at(1, json!({"type": "response.output_text.done", "text": "Hi"}));
    let item = |kind: &str| json!({"type": kind});
    let end = end("completed", json!({"output": [], "usage": null}));
    let body = events(&[
        added(0, &item("reasoning")),
        thought.clone(),
        done(0, &item("reasoning")),
        added(1, &item("message")),
        said.clone(),
        said.clone(),
        done(1, &item("message")),
        added(2, &call("")),
        done(2, &call("{}")),
        end.clone(),
    ]);
    let (text_of, beats, entry) = read(&text(Api::Responses), EVENTS, &body);
    assert_eq!((text_of.unwrap().as_str(), beats, entry.class), ("hmHif{}", 4, Class::Whole));
    // An item that ends after the next one has begun repeats what came before.
    let body = events(&[
        added(0, &item("reasoning")),
        at(0, delta("reasoning_text", "hm")),
        added(1, &item("message")),
        thought,
        at(1, delta("output_text", "Hi")),
        added(2, &call("")),
        said,
        at(2, delta("function_call_arguments", "{}")),
        done(2, &call("{}")),
        end,
    ]);
    let (text_of, beats, _) = read(&text(Api::Responses), EVENTS, &body);
    assert_eq!((text_of.unwrap().as_str(), beats), ("hmHif{}", 4));
}

#[test]
fn complete_items_without_a_begin_are_output_of_responses_once() {
    let at = |index: u64, kind: &str, name: &str, content: Value| json!({"type": format!("response.{kind}.done"), "output_index": index, name: content});
    let message = json!({"type": "message", "content": [{"type": "output_text", "text": "Hi"}]});
    let whole = at(1, "output_item", "item", message);
    let said = at(1, "output_text", "text", json!("Hi"));
    let thought = || at(0, "reasoning_text", "text", json!("hm"));
    let mut with_null = said.clone();
    with_null["refusal"] = json!(null);
    let refused = at(1, "refusal", "refusal", json!("Hi"));
    for rest in [
        vec![thought(), whole.clone()],
        vec![thought(), said.clone(), whole.clone()],
        vec![thought(), with_null],
        vec![thought(), refused, whole.clone()],
        vec![delta("reasoning_text", "hm"), thought(), whole.clone(), said.clone()],
    ] {
        let all = [rest, vec![end("completed", json!({"output": [], "usage": null}))]].concat();
        let (found, beats, entry) = read(&text(Api::Responses), EVENTS, &events(&all));
        assert_eq!((found.unwrap().as_str(), beats, entry.class), ("hmHi", 2, Class::Whole));
    }
    // Additions without a position may be those of any item.
    let mut addition = delta("output_text", "Hi");
    addition.as_object_mut().unwrap().remove("output_index");
    let body = events(&[addition, said, whole, end("completed", json!({"usage": null}))]);
    assert_eq!(read(&text(Api::Responses), EVENTS, &body).0.unwrap(), "Hi");
}

#[test]
fn responses_may_end_with_another_event_and_have_other_additions() {
    for (status, finish) in [("completed", Finish::Stop), ("incomplete", Finish::Length)] {
        let mut last = end(status, json!({"incomplete_details": {"reason": "max_output_tokens"}}));
        last["type"] = json!("response.done");
        let body = events(&[delta("content_part", "Hi"), delta("content_part", " there"), last]);
        let (said, beats, entry) = read(&text(Api::Responses), EVENTS, &body);
        assert_eq!((said.unwrap().as_str(), beats), ("Hi there", 2));
        assert_eq!((entry.class, entry.finish), (Class::Whole, finish));
    }
}

#[test]
fn code_and_speech_are_output_of_responses() {
    let body = events(&[
        delta("code_interpreter_call_code", "x=1"),
        delta("output_audio", "QUJD"),
        end("completed", json!({})),
    ]);
    let (said, beats, entry) = read(&text(Api::Responses), EVENTS, &body);
    assert_eq!((said.unwrap().as_str(), beats, entry.bytes), ("x=1", 2, 7));
}

#[test]
fn a_whole_response_is_read() {
    let body = end("completed", json!({}))["response"].to_string();
    let settings = Settings::default();
    let whole = protocol(Api::Responses, Input::Text("Say".into()), settings);
    let (said, beats, entry) = read(&whole, JSON, &body);
    assert_eq!((said.unwrap().as_str(), beats, entry.output), ("Hi there", 0, Some(11)));
    assert_eq!((entry.class, entry.finish), (Class::Whole, Finish::Stop));
    assert!(entry.oddities.contains(Oddity::NoStream), "a stream was requested");
    let (said, _, _) = read(&whole, JSON, "{\"choices\":[]}");
    assert_eq!(said.unwrap_err().kind, Kind::Malformed);
}

/// Parts of SGLang's stream.
fn generated(texts: &[&str], reason: &Value) -> String {
    let part = |(at, text): (usize, &&str)| {
        let is_last = at + 1 == texts.len();
        let meta = json!({"id": "f1", "finish_reason": if is_last { reason } else { &Value::Null },
            "prompt_tokens": 6, "completion_tokens": at + 1, "cached_tokens": 2});
        format!("data: {}\n\n", json!({"text": text, "meta_info": meta}))
    };
    texts.iter().enumerate().map(part).collect::<String>()
}

#[test]
fn text_that_is_repeated_in_each_part_counts_once() {
    let length = json!({"type": "length", "length": 3});
    let so_far = generated(&[" Paris", " Paris is", " Paris is it"], &length) + "data: [DONE]\n\n";
    let additions = generated(&[" Paris", " is", " it"], &length) + "data: [DONE]\n\n";
    for body in [so_far, additions] {
        let (said, beats, entry) = read(&text(Api::Generate), EVENTS, &body);
        assert_eq!((said.unwrap().as_str(), beats), (" Paris is it", 3));
        assert_eq!((entry.class, entry.finish), (Class::Whole, Finish::Length));
        assert_eq!((entry.input, entry.output, entry.cached), (Some(6), Some(3), Some(2)));
        assert!(entry.contradictions.is_empty() && entry.oddities.is_empty(), "{entry:?}");
    }
    // Additions that are all the same, the texts so far of tokens without text, and the end of a text.
    let same = generated(&["x", "x", "x"], &length) + "data: [DONE]\n\n";
    let silent = generated(&["x", "x", "xy"], &length) + "data: [DONE]\n\n";
    let ended = generated(&["x", "x"], &json!({"type": "stop"})) + "data: [DONE]\n\n";
    for (body, expected) in [(same, "xxx"), (silent, "xy"), (ended, "x")] {
        let (said, _, entry) = read(&text(Api::Generate), EVENTS, &body);
        assert_eq!(said.unwrap(), expected);
        assert!(entry.contradictions.is_empty(), "{entry:?}");
    }
    let whole = json!({"text": " Paris", "meta_info": {"finish_reason": {"type": "stop",
        "matched": 2}, "prompt_tokens": 6, "completion_tokens": 1}});
    let (said, beats, entry) = read(&text(Api::Generate), JSON, &whole.to_string());
    assert_eq!((said.unwrap().as_str(), beats), (" Paris", 0));
    assert_eq!((entry.finish, entry.output), (Finish::Stop, Some(1)));
}

#[test]
fn generations_that_are_not_whole_are_no_success() {
    let abort = json!({"type": "abort", "message": "out of memory", "status_code": 500});
    let (said, _, entry) = read(&text(Api::Generate), EVENTS, &generated(&["a"], &abort));
    let trouble = said.unwrap_err();
    assert_eq!((trouble.kind, entry.class), (Kind::Aborted, Class::Aborted));
    assert!(trouble.words.ends_with(": out of memory"), "{}", trouble.words);
    let (_, _, entry) = read(&text(Api::Generate), EVENTS, &generated(&["a"], &Value::Null));
    assert_eq!(entry.class, Class::Cut);
    let error = "data: {\"error\": {\"message\": \"too long\"}}\n\n";
    let (said, _, _) = read(&text(Api::Generate), EVENTS, error);
    assert!(said.unwrap_err().words.contains("too long"));
}

fn embeddings(vectors: &[&[f64]]) -> String {
    let item = |(at, vector): (usize, &&[f64])| json!({"object": "embedding", "index": at, "embedding": vector});
    let data: Vec<Value> = vectors.iter().enumerate().map(item).collect();
    // vLLM counts output tokens of 0.
    json!({"object": "list", "data": data, "model": "m", "usage": {"prompt_tokens": 8,
        "total_tokens": 8, "completion_tokens": 0, "prompt_tokens_details": null}})
    .to_string()
}

#[test]
fn each_text_has_a_vector_of_the_same_dimension() {
    let two = |dimension| {
        let settings = Settings { dimension, ..Settings::default() };
        protocol(Api::Embeddings, Input::Texts(vec!["a".into(), "b".into()]), settings)
    };
    let body = embeddings(&[&[0.5, -1e-3], &[1.0, 2.0]]);
    let (said, beats, entry) = read(&two(Some(2)), JSON, &body);
    assert!(said.unwrap().contains("-0.001"));
    assert_eq!((beats, entry.class, entry.output), (0, Class::Whole, None));
    assert_eq!((entry.input, entry.counted_by), (Some(8), TokenCounter::Nobody));
    assert!(entry.contradictions.is_empty() && entry.oddities.is_empty(), "{entry:?}");
    let words = |dimension, vectors: &[&[f64]]| {
        let (said, _, entry) = read(&two(dimension), JSON, &embeddings(vectors));
        let trouble = said.unwrap_err();
        (trouble.kind, trouble.words, entry.class)
    };
    let (kind, words_of_one, class) = words(None, &[&[0.5]]);
    assert_eq!((kind, class), (Kind::Cut, Class::Cut));
    assert_eq!(words_of_one, "the answer has 1 of the 2 requested results");
    assert_eq!(words(None, &[&[0.5], &[1.0, 2.0]]).0, Kind::Malformed);
    assert!(
        words(Some(3), &[&[0.5], &[1.0]]).1.contains("a vector of 1 numbers, but others have 3")
    );
    assert_eq!(words(None, &[&[], &[]]).0, Kind::Empty);
    // 0.5 and -1.5 as 32-bit numbers.
    let base64 = r#"{"data":[{"embedding":"AAAAPwAAwL8="},{"embedding":"AAAAPwAAwL8="}]}"#;
    assert_eq!(read(&two(Some(2)), JSON, base64).2.class, Class::Whole);
    // No Base64 of any length.
    let (said, _, _) = read(&two(None), JSON, &base64.replace("AAAAPwAAwL8=", "no memory, try!"));
    assert_eq!(said.unwrap_err().kind, Kind::Malformed);
    // Both vectors belong to one text, or one to no text of the request.
    let placed = |[first, second]: [u64; 2]| {
        let body = format!(
            r#"{{"data":[{{"index":{first},"embedding":[1]}},{{"index":{second},"embedding":[2]}}]}}"#
        );
        read(&two(None), JSON, &body)
    };
    assert_eq!(placed([1, 0]).2.class, Class::Whole);
    assert!(placed([1, 1]).0.unwrap_err().words.contains("text 1 has several vectors"));
    assert!(placed([0, 2]).0.unwrap_err().words.contains("a result for text 2"));
    let failed = r#"{"data":[{"index":0,"embedding":[1]},{"index":1,"error":"too long"}]}"#;
    let trouble = read(&two(None), JSON, failed).0.unwrap_err();
    assert!(trouble.words.ends_with("in its answer: too long"), "{trouble}");
    for odd in ["{\"data\":[{\"embedding\":[\"x\"]}]}", "{\"data\":[{\"embedding\":[NaN]}]}", "{}"]
    {
        assert_eq!(read(&two(None), JSON, odd).0.unwrap_err().kind, Kind::Malformed, "{odd}");
    }
}

#[test]
fn vectors_and_scores_have_no_output_tokens_that_a_count_could_contradict() {
    let of = |api, input| protocol(api, input, Settings::default());
    let texts = of(Api::Embeddings, Input::Texts(vec!["a".into()]));
    let documents = Input::Ranking { query: "q".into(), documents: vec!["d".into()] };
    let ranking = of(Api::Rerank, documents);
    for (usage, input) in [
        (r#"{"prompt_tokens":8,"total_tokens":8}"#, Some(8)),
        (r#"{"total_tokens":8}"#, None),
        (r#"{"total_tokens":8,"completion_tokens":0}"#, None),
        (r#"{"completion_tokens":0}"#, None),
        ("{}", None),
        ("null", None),
    ] {
        let vector = format!(r#"{{"data":[{{"index":0,"embedding":[1]}}],"usage":{usage}}}"#);
        let rank = format!(r#"{{"results":[{{"index":0,"score":1}}],"usage":{usage}}}"#);
        for (protocol, body) in [(&texts, vector), (&ranking, rank)] {
            let (said, _, entry) = read(protocol, JSON, &body);
            assert!(said.is_ok(), "{body}");
            assert_eq!((entry.class, entry.input, entry.output), (Class::Whole, input, None));
            assert!(entry.contradictions.is_empty(), "{body}: {entry:?}");
            assert!(!entry.is_output_doubtful(), "{body}");
        }
    }
}

#[test]
fn each_document_has_a_score() {
    let documents = ["hi", "it is a bear", "The giant panda"].map(str::to_owned).to_vec();
    let ranking = |top: Option<u64>| {
        let input =
            Input::Ranking { query: "What is a panda?".into(), documents: documents.clone() };
        let others = top.map(|top| ("top_n".to_owned(), json!(top))).into_iter().collect();
        protocol(Api::Rerank, input, Settings { others, ..Settings::default() })
    };
    let results = r#"[{"document":{"text":"The giant panda"},"index":2,"relevance_score":1.95},
        {"document":{"text":"it is a bear"},"index":1,"relevance_score":-3.73}"#;
    let hi = r#",{"index":0,"relevance_score":-6.15}"#;
    let usage = r#","usage":{"prompt_tokens":69,"total_tokens":69}"#;
    let all = format!("{{\"model\":\"m\",\"results\":{results}{hi}]{usage}}}");
    let (said, _, entry) = read(&ranking(None), JSON, &all);
    assert!(said.is_ok());
    assert_eq!((entry.class, entry.input, entry.output), (Class::Whole, Some(69), None));
    let two = format!("{{\"results\":{results}]{usage}}}");
    assert_eq!(read(&ranking(None), JSON, &two).2.class, Class::Cut);
    assert_eq!(read(&ranking(Some(2)), JSON, &two).2.class, Class::Whole);
    // Some servers state a score under both names.
    let both = r#"[{"index":0,"score":0.9,"relevance_score":0.9},{"index":1,"score":0.1},
        {"index":2,"relevance_score":0.2,"score":null}]"#;
    assert_eq!(read(&ranking(None), JSON, both).2.class, Class::Whole);
    let list = r#"[{"index":0,"score":0.9},{"index":1,"score":0.1},{"index":2,"score":0.2}]"#;
    assert_eq!(read(&ranking(None), JSON, list).2.class, Class::Whole);
    for odd in [
        r#"[{"index":0,"score":0.9},{"index":0,"score":0.1},{"index":2,"score":0.2}]"#,
        r#"[{"index":0,"score":0.9},{"index":1,"score":0.1},{"index":3,"score":0.2}]"#,
        r#"{"results":[{"index":0}]}"#,
        r#"{"results":{}}"#,
    ] {
        assert_eq!(read(&ranking(None), JSON, odd).0.unwrap_err().kind, Kind::Malformed, "{odd}");
    }
}

#[test]
fn requests_go_where_their_interface_is() {
    for (api, path) in [
        (Api::Responses, "/responses"),
        (Api::Generate, "/generate"),
        (Api::Messages, "/messages"),
        (Api::Embeddings, "/embeddings"),
    ] {
        let request = text(api).request(0);
        assert_eq!(request.path, path);
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        assert_eq!(body.get("stream"), api.is_text().then(|| json!(true)).as_ref());
        assert_eq!(body.get("stream_options"), None);
    }
    let prompt = Prompt {
        max_tokens: Some(5),
        members: [("seed".to_owned(), json!(1)), ("top_p".to_owned(), json!(1))]
            .into_iter()
            .collect(),
        ..Prompt::new(Input::Messages(vec![Message::new("user", "a")]))
    };
    let workload = Arc::new(Workload { prompts: vec![prompt], ..Workload::default() });
    let settings = Settings {
        model: "m".into(),
        others: [("seed".to_owned(), json!(7))].into_iter().collect(),
        without: vec!["max_tokens".into(), "top_p".into(), "model".into()],
        ..Settings::default()
    };
    let body = OpenAi::new(workload, settings).request(0).body;
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body, json!({"messages": [{"role": "user", "content": "a"}], "seed": 1}));
}

#[test]
fn an_answer_that_names_another_model_is_noticed() {
    let other = |api: Api, requested: &str, members: &[&str], kind: &str, body: Value| {
        let input = match api {
            Api::Embeddings => Input::Texts(vec!["a".into()]),
            Api::Completions => Input::Text("a".into()),
            _ => Input::Messages(vec![Message::new("user", "a")]),
        };
        let members = members.iter().map(|name| ("model".to_owned(), json!(name))).collect();
        let prompt = Prompt { members, ..Prompt::new(input) };
        let workload = Arc::new(Workload { prompts: vec![prompt], ..Workload::default() });
        let settings = Settings { api: Some(api), model: requested.into(), ..Settings::default() };
        let protocol = OpenAi::new(workload, settings);
        let mut reader = protocol.reader();
        reader.expect(0);
        reader.begin(200, &fields(&[("content-type", kind)])).unwrap();
        let text = if kind == JSON {
            body.to_string()
        } else {
            format!("data: {body}\n\ndata: [DONE]\n\n")
        };
        reader.data(text.as_bytes()).unwrap();
        reader.finish().unwrap();
        let models = reader.end(None).unwrap().other_model;
        models.map(|models| [models.requested.to_owned(), models.answered.to_owned()])
    };
    let choice =
        json!({"index": 0, "text": "x", "message": {"content": "x"}, "finish_reason": "stop"});
    let text = |model: Value| json!({"choices": [choice], "model": model});
    let found = |names: [&str; 2]| Some(names.map(str::to_owned));
    let stream = "text/event-stream";
    assert_eq!(other(Api::Completions, "a", &[], stream, text(json!("b"))), found(["a", "b"]));
    assert_eq!(other(Api::Chat, "a", &[], JSON, text(json!("b\"/"))), found(["a", "b\"/"]));
    // A row names its model itself, as those of a mix do.
    assert_eq!(other(Api::Chat, "a", &["b"], JSON, text(json!("b"))), None);
    assert_eq!(other(Api::Chat, "a", &["b"], JSON, text(json!("a"))), found(["b", "a"]));
    for same in [json!("a"), json!(""), json!(null), json!(7)] {
        assert_eq!(other(Api::Chat, "a", &[], JSON, text(same)), None);
    }
    assert_eq!(other(Api::Chat, "", &[], JSON, text(json!("b"))), None, "none is requested");
    let vector = json!({"data": [{"index": 0, "embedding": [1]}], "model": "b"});
    assert_eq!(other(Api::Embeddings, "a", &[], JSON, vector), found(["a", "b"]));
    let output = json!([{"type": "message", "content": [{"type": "output_text", "text": "x"}]}]);
    let response = json!({"status": "completed", "output": output, "model": "b"});
    assert_eq!(other(Api::Responses, "a", &[], JSON, response), found(["a", "b"]));
    let content = json!([{"type": "text", "text": "x"}]);
    let message =
        json!({"type": "message", "content": content, "stop_reason": "end_turn", "model": "b"});
    assert_eq!(other(Api::Messages, "a", &[], JSON, message), found(["a", "b"]));
}
