//! Answers whose bodies end too early. What is expected follows from the definition of the class "cut" in
//! `docs/concepts/verdicts.md`.

use dyno_net::ledger::{Class, Entry};
use dyno_net::openai::{Api, Settings};
use dyno_net::protocol::{Protocol as _, TokenCounter};
use dyno_net::trouble::Kind;
use serde_json::json;

use crate::answers::{DONE, EVENTS, JSON, ends, read, says, settings, stream, usage};
use crate::{fields, interfaces};

const WITHIN: &str = "cut off in the middle of an event or of its JSON";

#[track_caller]
fn check_cut(body: &str) -> Entry {
    let (found, entry) = read(&settings(), EVENTS, body);
    let entry = entry.expect("an account");
    assert_eq!((found.unwrap_err().kind, entry.class), (Kind::Cut, Class::Cut), "{body}");
    entry
}

#[test]
fn a_stream_that_ends_anywhere_within_an_event_is_cut() {
    let (first, second) = (stream(&[&says("a")]), stream(&[&says("b")]));
    // An event that lacks the last byte of its JSON, and the two line ends, cannot be read.
    for length in 0..second.len() - 2 {
        let entry = check_cut(&format!("{first}{}", &second[..length]));
        assert_eq!((entry.bytes, entry.parts), (1, 1), "{length}");
    }
    // The bytes do not matter.
    for rest in ["data: <html>", "data: {\"choices\":3}", "data: 7", "data: {]", "data: \"b"] {
        let (found, _) = read(&settings(), EVENTS, &format!("{first}{rest}"));
        assert!(found.unwrap_err().words.contains(WITHIN), "{rest}");
        // Complete, it is malformed.
        let (found, _) = read(&settings(), EVENTS, &format!("{first}{rest}\n\n"));
        assert_eq!(found.unwrap_err().kind, Kind::Malformed, "{rest}");
    }
}

#[test]
fn done_is_no_end_where_the_interface_has_an_end_event() {
    for (api, event) in [
        (Api::Responses, json!({"type": "response.output_text.delta", "delta": "a"})),
        (Api::Messages, json!({"type": "content_block_delta", "delta": {"text": "a"}})),
        (Api::Tgi, json!({"token": {"id": 1, "text": "a", "special": false}})),
    ] {
        let settings = Settings { api: Some(api), ..settings() };
        let (found, entry) = read(&settings, EVENTS, &stream(&[&event.to_string(), DONE]));
        assert_eq!((found.unwrap_err().kind, entry.unwrap().class), (Kind::Cut, Class::Cut));
    }
}

#[test]
fn what_is_lost_behind_a_finish_reason_is_a_cut_too() {
    let text = stream(&[&says("a"), &ends("stop")]);
    let counts = usage(&json!({"prompt_tokens": 5, "completion_tokens": 1}));
    for rest in [&counts[..9], &counts[..counts.len() - 1], "[", "[DONE"] {
        check_cut(&format!("{text}data: {rest}"));
    }
    // Some servers omit the empty line after their last event.
    for line_end in ["", "\n"] {
        let (found, entry) = read(&settings(), EVENTS, &format!("{text}data: {counts}{line_end}"));
        let entry = entry.unwrap();
        assert_eq!((found, entry.class), (Ok(("a".into(), 1)), Class::Whole));
        assert_eq!(entry.counted_by, TokenCounter::Server);
        let (found, _) = read(&settings(), EVENTS, &format!("{text}data: {DONE}{line_end}"));
        assert!(found.is_ok(), "{found:?}");
    }
    // Nothing after [DONE] is part of the answer.
    let (found, _) = read(&settings(), EVENTS, &format!("{text}data: {DONE}\n\ndata: {{\"us"));
    assert!(found.is_ok(), "{found:?}");
}

#[test]
fn an_error_that_is_cut_off_is_a_cut_and_a_complete_one_an_error() {
    let text = stream(&[&says("a")]);
    check_cut(&format!("{text}event: error\ndata: {{\"message\":\"over"));
    check_cut(&format!("{text}data: {{\"error\":{{\"message\":\"over"));
    for rest in ["event: error\ndata: {\"message\":\"full\"}", "data: {\"error\":\"full\"}\n"] {
        let (found, entry) = read(&settings(), EVENTS, &format!("{text}{rest}"));
        assert_eq!(entry.unwrap().class, Class::InBand, "{rest}");
        assert!(found.unwrap_err().words.ends_with(": full"), "{rest}");
    }
}

#[test]
fn a_whole_body_that_ends_within_its_json_is_cut() {
    let body = r#"{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}"#;
    for settings in [settings(), Settings { is_streaming: false, ..settings() }] {
        for length in 1..body.len() {
            let (found, entry) = read(&settings, JSON, &body[..length]);
            let trouble = found.unwrap_err();
            assert_eq!((trouble.kind, entry.unwrap().class), (Kind::Cut, Class::Cut));
            assert!(trouble.words.contains(WITHIN), "{}", trouble.words);
        }
        let (found, _) = read(&settings, JSON, "");
        assert_eq!(found.unwrap_err().kind, Kind::Malformed);
        let (found, _) = read(&settings, JSON, &format!("{body}{body}"));
        assert_eq!(found.unwrap_err().kind, Kind::Malformed);
    }
}

#[test]
fn content_that_is_still_compressed_is_named() {
    for (api, kind) in
        [(Api::Chat, JSON), (Api::Chat, EVENTS), (Api::Ollama, JSON), (Api::Tgi, EVENTS)]
    {
        let mut reader = interfaces::text(api).reader();
        reader.expect(0);
        reader.begin(200, &fields(&[("content-type", kind)])).unwrap();
        // The begin of a member in gzip, with a line end in it.
        for byte in [0x1f, 0x8b, 8, 0, b'\n', 0xff] {
            reader.data(&[byte]).unwrap();
        }
        reader.finish().unwrap();
        let trouble = reader.end(None).unwrap_err();
        assert_eq!(trouble.kind, Kind::Malformed, "{api:?}, {kind}");
        let found = "found: content in gzip, compressed again or without content-encoding";
        assert!(trouble.words.ends_with(found), "{trouble}");
    }
}
