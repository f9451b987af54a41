use std::sync::Arc;

use dyno_net::ledger::AcceptedClasses;
use dyno_net::openai::{
    Api, Input, LimitMember, Message, OpenAi, Request, Settings, Usage, Writer, error_body,
    models_body, read_part, write_done,
};
use dyno_net::protocol::{Protocol, TokenCounter};
use dyno_net::tokens::Tokenize;
use dyno_net::trouble::{Kind, Trouble};
use dyno_net::workload::{Prompt, Workload};
use proptest::prelude::*;
use serde_json::{Map, json};

use crate::{Read, read as read_cut};

/// Counts words.
struct Words;

impl Tokenize for Words {
    fn count(&self, text: &str) -> Option<usize> {
        Some(text.split_whitespace().count())
    }
}

/// Can encode no text.
struct Damaged;

impl Tokenize for Damaged {
    fn count(&self, _text: &str) -> Option<usize> {
        None
    }
}

fn protocol(is_streaming: bool, tokenizer: Option<Arc<dyn Tokenize>>) -> OpenAi {
    let prompts = vec![
        Prompt { max_tokens: Some(3), ..Prompt::new(Input::Text("Say".into())) },
        Prompt::new(Input::Messages(vec![Message::new("user", "Hi \"you\"")])),
    ];
    let workload = Workload { prompts, ..Workload::default() };
    let mut others = Map::new();
    others.insert("temperature".into(), json!(0.5));
    let settings = Settings {
        model: "m".into(),
        is_streaming,
        asks_usage: true,
        max_tokens: Some(9),
        limit_member: LimitMember::default(),
        others,
        tokenizer,
        accepted: AcceptedClasses::default(),
        ..Settings::default()
    };
    OpenAi::new(Arc::new(workload), settings)
}

const EVENTS: &[(&str, &str)] = &[("content-type", "text/event-stream; charset=utf-8")];

fn read(body: &str) -> Result<Read, Trouble> {
    let found = read_cut(&protocol(true, None), 200, EVENTS, body.as_bytes(), None, 7);
    let whole = read_cut(&protocol(true, None), 200, EVENTS, body.as_bytes(), None, 1 << 20);
    assert_eq!(found, whole);
    let bytes = read_cut(&protocol(true, None), 200, EVENTS, body.as_bytes(), None, 1);
    assert_eq!(found, bytes);
    found
}

fn counted(read: &Read) -> (&str, i64, TokenCounter, u32) {
    (std::str::from_utf8(&read.data).unwrap(), read.tokens, read.counted_by, read.beats)
}

#[test]
fn prompts_are_sent_to_where_they_belong() {
    let request = protocol(true, None).request(0);
    assert_eq!(request.path, "/completions");
    assert_eq!(
        String::from_utf8_lossy(&request.body),
        r#"{"model":"m","prompt":"Say","max_tokens":3,"stream":true,"stream_options":{"include_usage":true},"temperature":0.5}"#
    );
    let request = protocol(false, None).request(1);
    assert_eq!(request.path, "/chat/completions");
    assert_eq!(
        String::from_utf8_lossy(&request.body),
        r#"{"model":"m","messages":[{"role":"user","content":"Hi \"you\""}],"max_tokens":9,"temperature":0.5}"#
    );
}

// As the reference of the interface shows streams, with usage.
#[test]
fn a_chat_is_read_with_the_tokens_of_the_server() {
    let found = read(concat!(
        r#"data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","#,
        r#""choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"#,
        r#""finish_reason":null}],"usage":null}"#,
        "\n\n",
        r#"data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"Hel"},"#,
        r#""finish_reason":null}],"usage":null}"#,
        "\n\n",
        r#"data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"lo \u00e9"},"#,
        r#""finish_reason":null}]}"#,
        "\n\n",
        r#"data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
        "\n\n",
        r#"data: {"id":"chatcmpl-1","choices":[],"usage":{"prompt_tokens":5,"#,
        r#""completion_tokens":7,"total_tokens":12,"completion_tokens_details":{"x":1}}}"#,
        "\n\n",
        "data: [DONE]\n\n",
    ));
    let found = found.unwrap();
    assert_eq!(counted(&found), ("Hello \u{e9}", 7, TokenCounter::Server, 2));
    assert!(found.is_done);
}

// LitServe: a new id in each chunk, and no usage.
#[test]
fn chunks_without_usage_count_their_events_or_what_a_tokenizer_says() {
    let body = "data: {\"id\":\"a\",\"choices\":[{\"delta\":{\"content\":\"one two\"}}]}\n\n\
                : ping\n\n\
                data: {\"id\":\"b\",\"choices\":[{\"delta\":{\"content\":\" three\"}}]}\r\n\r\n\
                data: {\"id\":\"c\",\"choices\":[{\"delta\":{\"content\":null}}]}\n\n\
                data: [DONE]";
    assert_eq!(counted(&read(body).unwrap()), ("one two three", 2, TokenCounter::Events, 2));
    let with = protocol(true, Some(Arc::new(Words)));
    let found = read_cut(&with, 200, EVENTS, body.as_bytes(), None, 3).unwrap();
    assert_eq!(counted(&found), ("one two three", 3, TokenCounter::Tokenizer, 2));
    let damaged = protocol(true, Some(Arc::new(Damaged)));
    let found = read_cut(&damaged, 200, EVENTS, body.as_bytes(), None, 3).unwrap();
    assert_eq!(counted(&found), ("one two three", 2, TokenCounter::Events, 2));
}

// llama.cpp with tokens of a byte each: chunks hold several characters or none.
#[test]
fn chunks_of_several_or_no_characters_are_beats_where_they_have_some() {
    let body = "data: {\"choices\":[{\"text\":\"\"}]}\n\ndata: {\"choices\":[{\"text\":\"abc\"}]}\n\n\
                data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}],\
                \"usage\":{\"completion_tokens\":3}}\n\n";
    let found = read(body).unwrap();
    assert_eq!((counted(&found), found.is_done), (("abc", 3, TokenCounter::Server, 1), false));
}

#[test]
fn thoughts_and_calls_of_tools_are_output() {
    let body = "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\",\"reasoning\":\"hm\"}}]}\n\n\
                data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":\
                {\"name\":\"f\",\"arguments\":\"{}\"}}]}}]}\n\ndata: [DONE]\n\n";
    assert_eq!(counted(&read(body).unwrap()), ("hmf{}", 2, TokenCounter::Events, 2));
}

#[test]
fn half_a_character_is_replaced_and_breaks_nothing() {
    let body = b"data: {\"choices\":[{\"text\":\"a\xc3\"}]}\n\ndata: [DONE]\n\n";
    let found = read_cut(&protocol(true, None), 200, EVENTS, body, None, 2).unwrap();
    assert_eq!(counted(&found), ("a\u{fffd}", 1, TokenCounter::Events, 1));
}

#[test]
fn a_stream_that_breaks_is_told() {
    let start = "data: {\"choices\":[{\"text\":\"a\"}]}\n\n";
    let kind = |rest: &str| {
        let trouble = read(&format!("{start}{rest}")).unwrap_err();
        (trouble.kind, trouble.words)
    };
    let (error, words) = kind(
        r#"data: {"error":{"message":"out of memory","type":"server_error"}}

"#,
    );
    assert_eq!(error, Kind::InBand);
    assert_eq!(words, "the server reports an error in its answer: out of memory");
    assert_eq!(
        kind("data: {\"error\":{\"message\":\"slow\",\"code\":\"429\"}}\n\n").0,
        Kind::Refused
    );
    assert_eq!(kind("event: error\ndata: {\"error\":\"x\"}\n\n").0, Kind::InBand);
    assert_eq!(kind("data: {\"error\":{\"code\":400,\"message\":\"\"}}\n\n").0, Kind::Request);
    assert_eq!(kind("").0, Kind::Cut);
    assert_eq!(kind("data: <html>\n\n").0, Kind::Malformed);
    // A part without choices is read over, and the stream still has no end.
    assert_eq!(kind("data: {}\n\n").0, Kind::Cut);
}

#[test]
fn whole_answers_are_read_whether_or_not_a_stream_was_asked_for() {
    let body = r#"{"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":"yes"},
        "finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":4}}"#;
    let json = [("content-type", "application/json")];
    for is_streaming in [true, false] {
        let protocol = protocol(is_streaming, None);
        let found = read_cut(&protocol, 200, &json, body.as_bytes(), None, 4).unwrap();
        assert_eq!(counted(&found), ("yes", 4, TokenCounter::Server, 0));
    }
    let body = br#"{"choices":[{"text":"a b"}]}"#;
    let found = read_cut(&protocol(false, None), 200, &json, body, None, 4).unwrap();
    assert_eq!(counted(&found), ("a b", 0, TokenCounter::Nobody, 0));
    let words = protocol(false, Some(Arc::new(Words)));
    let found = read_cut(&words, 200, &json, body, None, 4).unwrap();
    assert_eq!(counted(&found), ("a b", 2, TokenCounter::Tokenizer, 0));
}

#[test]
fn statuses_are_told_with_what_the_body_says() {
    let body = br#"{"error":{"message":"no model 'm'","type":"NotFoundError","code":404}}"#;
    let found = read_cut(&protocol(true, None), 404, &[], body, None, 9).unwrap_err();
    assert_eq!((found.kind, &*found.words), (Kind::Request, "HTTP status 404: no model 'm'"));
    let found = read_cut(&protocol(true, None), 429, EVENTS, b"", None, 9).unwrap_err();
    assert_eq!((found.kind, &*found.words), (Kind::Refused, "HTTP status 429"));
}

#[test]
fn what_a_server_is_asked_is_read() {
    let request = |api, body: &str| Request::from_json(api, body.as_bytes());
    let chat = r#"{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user",
        "content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
        {"role":"assistant","content":null}],"max_tokens":5,"max_completion_tokens":6,
        "stream":true,"stream_options":{"include_usage":true},"temperature":0,"stop":["x"]}"#;
    let chat = request(Api::Chat, chat).unwrap();
    let Input::Messages(messages) = &chat.input else { panic!("{:?}", chat.input) };
    let texts: Vec<_> = messages.iter().map(|one| (one.role.as_str(), one.text())).collect();
    assert_eq!(texts, [("system", "s".into()), ("user", "ab".into()), ("assistant", "".into())]);
    assert_eq!((chat.max_tokens, chat.stream, chat.include_usage), (Some(6), true, true));
    assert_eq!(chat.others.keys().collect::<Vec<_>>(), ["temperature", "stop"]);
    let prompt = |body| request(Api::Completions, body).map(|request| request.input);
    assert_eq!(prompt(r#"{"prompt":"a"}"#), Ok(Input::Text("a".into())));
    assert_eq!(prompt(r#"{"prompt":["a"]}"#), Ok(Input::Text("a".into())));
    assert_eq!(prompt(r#"{"prompt":[[1,2]]}"#), Ok(Input::Tokens(vec![1, 2])));
    let wrong = |api, body| request(api, body).unwrap_err().words;
    assert_eq!(wrong(Api::Chat, "{}"), "the request has no 'messages'");
    assert_eq!(
        wrong(Api::Completions, r#"{"prompt":["a","b"]}"#),
        "'prompt' has 2 prompts; send each by itself"
    );
    assert!(wrong(Api::Completions, r#"{"prompt":{}}"#).contains("neither a string"));
    assert!(wrong(Api::Completions, "[]").contains("not a JSON object"));
    assert!(
        wrong(Api::Chat, r#"{"messages":[{"role":"u","content":["x"]}]}"#)
            .contains("a part that is not an object")
    );
    assert!(wrong(Api::Completions, r#"{"prompt":"a","max_tokens":-1}"#).contains("max_tokens"));
}

#[test]
fn a_server_writes_what_the_reference_shows() {
    let writer = Writer::new(Api::Chat, "c-1", "m", 7);
    let mut out = Vec::new();
    writer.write_role(&mut out);
    writer.write_part("a\"", None, &mut out);
    writer.write_part("", Some("stop"), &mut out);
    writer.write_usage(Usage { prompt_tokens: 2, completion_tokens: 3 }, &mut out);
    write_done(&mut out);
    let head = r#"data: {"id":"c-1","object":"chat.completion.chunk","created":7,"model":"m","#;
    let choice = |delta: &str, reason: &str| {
        format!(
            "{head}\"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\
             \"finish_reason\":{reason}}}]}}\n\n"
        )
    };
    let expected = [
        choice(r#"{"role":"assistant","content":""}"#, "null"),
        choice(r#"{"content":"a\""}"#, "null"),
        choice(r#"{"content":""}"#, r#""stop""#),
        format!(
            "{head}\"choices\":[],\"usage\":{{\"prompt_tokens\":2,\"completion_tokens\":3,\"total_tokens\":5}}}}\n\n"
        ),
        "data: [DONE]\n\n".to_owned(),
    ];
    assert_eq!(String::from_utf8(out).unwrap(), expected.concat());
    let writer = Writer::new(Api::Completions, "c-2", "m", 7);
    let whole = writer.whole("x", "length", Usage::default());
    let whole: serde_json::Value = serde_json::from_slice(&whole).unwrap();
    assert_eq!(whole["object"], "text_completion");
    assert_eq!(whole["choices"][0]["text"], "x");
    assert_eq!(whole["choices"][0]["finish_reason"], "length");
    let error: serde_json::Value =
        serde_json::from_slice(&error_body("full", "overloaded_error", 429)).unwrap();
    assert_eq!(error["error"]["message"], "full");
    let models: serde_json::Value = serde_json::from_slice(&models_body(["a", "b"])).unwrap();
    assert_eq!(models["data"][1]["id"], "b");
}

proptest! {
    #[test]
    fn requests_come_back(
        text in "\\PC{0,9}",
        roles in prop::collection::vec(("user|assistant|system", "\\PC{0,9}"), 0..4),
        max_tokens in prop::option::of(0_u64..99),
        stream: bool,
    ) {
        let input = if roles.is_empty() {
            Input::Text(text)
        } else {
            Input::Messages(roles.iter().map(|(r, c)| Message::new(r, c)).collect())
        };
        let mut others = Map::new();
        others.insert("top_p".into(), json!(1));
        let request =
            Request { max_tokens, stream, include_usage: stream, others, ..Request::new("m", input) };
        let found = Request::from_json(request.input.api(), &request.to_json()).unwrap();
        prop_assert_eq!(found, request);
    }

    #[test]
    fn what_a_server_writes_a_client_reads(
        texts in prop::collection::vec("\\PC{0,6}", 1..6),
        is_chat: bool,
        piece in 1_usize..50,
    ) {
        let api = if is_chat { Api::Chat } else { Api::Completions };
        let writer = Writer::new(api, "id", "m", 0);
        let mut out = Vec::new();
        writer.write_role(&mut out);
        writer.write_part("x", None, &mut out);
        texts.iter().for_each(|text| writer.write_part(text, None, &mut out));
        writer.write_part("", Some("stop"), &mut out);
        // A token has at least a byte.
        let tokens = 1 + texts.concat().len() as u64;
        writer.write_usage(Usage { prompt_tokens: 1, completion_tokens: tokens }, &mut out);
        write_done(&mut out);
        let found = read_cut(&protocol(true, None), 200, EVENTS, &out, None, piece).unwrap();
        let beats = 1 + texts.iter().filter(|text| !text.is_empty()).count() as u32;
        let texts = format!("x{}", texts.concat());
        let tokens = tokens as i64;
        prop_assert_eq!(counted(&found), (&*texts, tokens, TokenCounter::Server, beats));
        let whole = writer.whole(&texts, "stop", Usage { prompt_tokens: 1, completion_tokens: 5 });
        let mut text = Vec::new();
        let part = read_part(&whole, &mut text).unwrap();
        prop_assert_eq!(text, texts.as_bytes());
        prop_assert_eq!(part.usage.unwrap().output, Some(5));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let found = Request::from_json(Api::Chat, &bytes);
        prop_assert!(found.is_err());
        prop_assert!(read_part(&bytes, &mut Vec::new()).is_err());
    }
}
