//! Streams of the Responses interface as inference servers write them, which number events otherwise than
//! OpenAI.

use dyno_net::ledger::Class;
use dyno_net::openai::Api;
use dyno_net::trouble::Kind;
use serde_json::{Value, json};

use crate::interfaces::{EVENTS, delta, end, events, read, text};

/// Events of a stream of Responses whose positions count on: `positions` are those of additions, and of the
/// end that repeats them, by item and number of the event in it.
fn counting_on(positions: impl Fn(u64, u64) -> (u64, u64)) -> String {
    let at = |item: u64, number: u64, mut event: Value| {
        let (output, content) = positions(item, number);
        (event["output_index"], event["content_index"]) = (json!(output), json!(content));
        event
    };
    let mut all = Vec::new();
    for (item, kind, content) in [(0, "reasoning", "reasoning_text"), (1, "message", "output_text")]
    {
        let part = json!({"type": content, "text": "a b c"});
        all.extend([
            at(item, 0, json!({"type": "response.output_item.added", "item": {"type": kind}})),
            at(item, 0, json!({"type": "response.content_part.added", "part": {"text": ""}})),
            at(item, 1, delta(content, "a")),
            at(item, 2, delta(content, " b")),
            at(item, 3, delta(content, " c")),
            at(item, 4, json!({"type": format!("response.{content}.done"), "text": "a b c"})),
            at(item, 5, json!({"type": "response.content_part.done", "part": part})),
            at(
                item,
                5,
                json!({"type": "response.output_item.done",
                    "item": {"type": kind, "content": [part]}}),
            ),
        ]);
    }
    events(&[all, vec![end("completed", json!({"usage": null}))]].concat())
}

#[test]
fn a_failed_response_has_the_words_and_the_kind_of_its_error() {
    for (code, kind) in [
        ("rate_limit_exceeded", Kind::Refused),
        ("invalid_prompt", Kind::Request),
        ("server_error", Kind::InBand),
    ] {
        let error = json!({"code": code, "message": "no"});
        let failed = json!({"type": "response.failed",
            "response": {"status": "failed", "error": error}});
        let (said, _, entry) = read(&text(Api::Responses), EVENTS, &events(&[failed]));
        let trouble = said.unwrap_err();
        assert_eq!((trouble.kind, entry.class), (kind, Class::InBand), "{code}");
        assert!(trouble.words.ends_with("in its answer: no"), "{trouble}");
    }
}

#[test]
fn the_end_of_an_item_repeats_it_whatever_positions_the_server_states() {
    for body in [
        counting_on(|item, _| (item, 0)),
        // vLLM without the format of gpt-oss.
        counting_on(|item, number| (item, number)),
        // vLLM and TensorRT-LLM with that format.
        counting_on(|item, number| (item + u64::from(number > 3), item)),
    ] {
        let (said, beats, entry) = read(&text(Api::Responses), EVENTS, &body);
        assert_eq!((said.unwrap().as_str(), beats), ("a b ca b c", 6), "{body}");
        assert_eq!((entry.class, entry.parts), (Class::Whole, 6));
    }
    // The end of a call.
    let call = json!({"type": "function_call", "name": "f", "arguments": "{\"a\":1}"});
    let begin = json!({"type": "response.output_item.added", "output_index": 0,
        "item": {"type": "function_call", "name": "f", "arguments": ""}});
    let rest = [
        delta("function_call_arguments", "{\"a\""),
        delta("function_call_arguments", ":1}"),
        json!({"type": "response.function_call_arguments.done", "output_index": 1,
            "arguments": "{\"a\":1}"}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": call}),
        end("completed", json!({"usage": null})),
    ];
    let body = events(&[vec![begin], rest.to_vec()].concat());
    let (said, beats, _) = read(&text(Api::Responses), EVENTS, &body);
    assert_eq!((said.unwrap().as_str(), beats), ("f{\"a\":1}", 3));
}
