//! Answers in several pieces: parts of items of the Responses interface, and choices of SGLang. The bodies follow
//! their references.

use dyno_net::ledger::Class;
use dyno_net::openai::{Api, Input, Settings};
use serde_json::{Value, json};

use crate::interfaces::{EVENTS, JSON, delta, end, events, protocol, read, text};

#[test]
fn each_part_of_an_item_is_output_of_responses_once() {
    let text_of = |part: u64, text: &str| {
        json!({"type": "response.output_text.done", "output_index": 0, "content_index": part,
            "text": text})
    };
    let summary = |part: u64, text: &str| {
        json!({"type": "response.reasoning_summary_text.done", "output_index": 0,
            "summary_index": part, "text": text})
    };
    let content =
        json!([{"type": "output_text", "text": "Hi"}, {"type": "output_text", "text": " there"}]);
    let item = json!({"type": "response.output_item.done", "output_index": 0,
        "item": {"type": "message", "content": content}});
    let arguments = |index: u64, text: &str| {
        json!({"type": "response.function_call_arguments.done", "output_index": index,
            "arguments": text})
    };
    for (all, expected, parts) in [
        (vec![text_of(0, "Hi"), text_of(1, " there"), item.clone()], "Hi there", 2),
        (vec![delta("output_text", "Hi"), text_of(0, "Hi"), text_of(1, " there")], "Hi there", 2),
        (vec![item, text_of(0, "Hi"), text_of(1, " there")], "Hi there", 1),
        (vec![summary(0, "Hi"), summary(1, " there"), summary(1, " there")], "Hi there", 2),
        (vec![arguments(1, "{}"), arguments(0, "[]"), arguments(1, "{}")], "{}[]", 2),
    ] {
        let end = end("completed", json!({"output": [], "usage": null}));
        let (said, beats, _) =
            read(&text(Api::Responses), EVENTS, &events(&[all, vec![end]].concat()));
        assert_eq!((said.unwrap().as_str(), beats), (expected, parts));
    }
}

#[test]
fn several_generations_are_choices_with_their_own_counts() {
    let others = [("n".to_owned(), json!(2))].into_iter().collect();
    let settings = Settings { others, ..Settings::default() };
    let two = protocol(Api::Generate, Input::Text("Say".into()), settings);
    let part = |index: Option<u8>, text: &str, tokens: u32, reason: Value| {
        let meta =
            json!({"finish_reason": reason, "prompt_tokens": 6, "completion_tokens": tokens});
        json!({"index": index, "text": text, "meta_info": meta})
    };
    let length = || json!({"type": "length"});
    let streamed = |second: [&str; 2]| {
        let parts = [
            part(Some(0), "ab", 1, Value::Null),
            part(Some(1), "AB", 1, Value::Null),
            part(Some(0), second[0], 2, length()),
            part(Some(1), second[1], 2, length()),
        ];
        parts.map(|part| format!("data: {part}\n\n")).concat() + "data: [DONE]\n\n"
    };
    for (kind, body, expected, parts) in [
        (EVENTS, streamed(["abcd", "ABCD"]), "abABcdCD", 4),
        (EVENTS, streamed(["cd", "CD"]), "abABcdCD", 4),
        (
            JSON,
            json!([part(None, "abcd", 2, length()), part(None, "ABCD", 2, length())]).to_string(),
            "abcdABCD",
            0,
        ),
    ] {
        let (said, beats, entry) = read(&two, kind, &body);
        assert_eq!((said.unwrap().as_str(), beats, entry.class), (expected, parts, Class::Whole));
        assert_eq!((entry.input, entry.output, entry.choices), (Some(6), Some(4), 2));
        assert!(entry.contradictions.is_empty(), "{entry:?}");
    }
}
