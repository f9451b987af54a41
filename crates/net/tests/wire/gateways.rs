//! Peculiarities of servers and gateways that no figure may depend on. The bodies are what such servers
//! send; what is expected follows from the meaning of their members.

use dyno_net::ledger::{Class, Entry, Finish, Oddity};
use dyno_net::openai::{Api, Settings};
use dyno_net::protocol::TokenCounter;
use dyno_net::trouble::Kind;
use serde_json::json;

use crate::answers::{DONE, EVENTS, JSON, ends, read, says, settings, stream, usage};

/// Reads a stream that is an answer.
#[track_caller]
fn answer(events: &[&str]) -> (String, Entry) {
    let (found, entry) = read(&settings(), EVENTS, &stream(events));
    let entry = entry.expect("an account");
    assert_eq!(entry.class, Class::Whole);
    (found.unwrap().0, entry)
}

#[test]
fn a_message_beside_an_addition_is_not_output_twice() {
    let part = |addition: &str, so_far: &str, reason: Option<&str>| {
        let choice = json!({"index": 0, "finish_reason": reason,
            "delta": {"role": "assistant", "content": addition},
            "message": {"role": "assistant", "content": so_far}});
        json!({"choices": [choice]}).to_string()
    };
    let events = [part("a", "a", None), part("b", "ab", None), part("", "ab", Some("stop"))];
    let (text, entry) = answer(&[&events[0], &events[1], &events[2], DONE]);
    assert_eq!((text.as_str(), entry.parts), ("ab", 2));
    // A whole answer has an empty addition.
    let (found, _) = read(&settings(), JSON, &part("", "ab", Some("stop")));
    assert_eq!(found.unwrap().0, "ab");
    // Some servers name their additions messages.
    let message = json!({"choices": [{"message": {"content": "a"}}]}).to_string();
    assert_eq!(answer(&[&message, &message, DONE]).0, "aa");
}

#[test]
fn messages_that_repeat_the_text_so_far_are_output_once() {
    let message = |text: &str, reason: Option<&str>| {
        let choice = json!({"index": 0, "finish_reason": reason, "message": {"content": text}});
        json!({"choices": [choice]}).to_string()
    };
    let so_far = |end: &str| {
        let events = [message("a", None), message("ab", None), message("abc", None)];
        answer(&[&events[0], &events[1], &events[2], &message(end, Some("stop")), DONE])
    };
    for end in ["abc", ""] {
        let (text, entry) = so_far(end);
        assert_eq!((text.as_str(), entry.parts, entry.output), ("abc", 3, Some(3)), "{end}");
    }
    assert_eq!(so_far("abcd").0, "abcd");
    // Messages that are additions do not begin with the text so far.
    let additions = [message("a", None), message("b", None), message("ab", Some("stop"))];
    assert_eq!(answer(&[&additions[0], &additions[1], &additions[2], DONE]).0, "abab");
    // Another choice may begin with the text of the first one.
    let other = json!({"choices": [{"index": 1, "finish_reason": "stop",
        "message": {"content": "ab"}}]})
    .to_string();
    assert_eq!(answer(&[&message("a", Some("stop")), &other, DONE]).0, "aab");
}

/// The text of additions of a chat, and their account.
#[track_caller]
fn added(deltas: &[serde_json::Value], end: &serde_json::Value) -> (String, Entry) {
    let part = |delta: &serde_json::Value, reason: Option<&str>| {
        json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}).to_string()
    };
    let mut events: Vec<String> = deltas.iter().map(|delta| part(delta, None)).collect();
    events.extend([part(end, Some("stop")), DONE.to_owned()]);
    answer(&events.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn additions_that_repeat_the_text_so_far_are_output_once() {
    // DashScope repeats the text so far unless `incremental_output` is set.
    let said = |texts: &[&str], end: &str| {
        let deltas: Vec<_> = texts.iter().map(|text| json!({"content": text})).collect();
        added(&deltas, &json!({"content": end}))
    };
    for end in ["abc", ""] {
        let (text, entry) = said(&["", "a", "ab", "abc"], end);
        assert_eq!((text.as_str(), entry.parts, entry.bytes), ("abc", 3, 3), "{end}");
        assert!(entry.oddities.contains(Oddity::RepeatedText));
    }
    // One text again and again, but each time once more.
    let words: Vec<String> = (1..=5).map(|count| "w ".repeat(count)).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (text, entry) = said(&words, words[4]);
    assert_eq!((text.as_str(), entry.parts, entry.bytes), (words[4], 5, 10));
    assert!(entry.oddities.contains(Oddity::RepeatedText));
    // Additions that do not all repeat it, too few that might, and one text again and again.
    for (texts, expected, parts) in [
        (&["a", "ab", "abc", "x"][..], "aababcx", 4),
        (&["a", "ab", "ab", "x"][..], "aababx", 4),
        (&["a", "ab"][..], "aab", 2),
        (&["-", "--", "---"][..], "------", 3),
        (&["ha", "ha", "ha"][..], "hahaha", 3),
        (&["a ", "a a ", "a a "][..], "a a a a a ", 3),
    ] {
        let (text, entry) = said(texts, "");
        assert_eq!((text.as_str(), entry.parts), (expected, parts), "{texts:?}");
        assert_eq!(entry.bytes as usize, expected.len(), "{texts:?}");
        assert!(!entry.oddities.contains(Oddity::RepeatedText), "{texts:?}");
    }
    let both = |thought: &str, text: &str| json!({"reasoning_content": thought, "content": text});
    let deltas = [both("r", ""), both("rs", ""), both("rs", "a"), both("rs", "ab")];
    let (text, entry) = added(&deltas, &both("rs", "ab"));
    assert_eq!((text.as_str(), entry.parts, entry.bytes), ("rsab", 4, 4));
    let (text, _) = added(&[both("r", ""), both("rs", "a"), both("", "bc")], &both("t", ""));
    assert_eq!(text, "rrsabct");
    // Thoughts show how the texts beside them come.
    let deltas = [both("r", ""), both("s", ""), both("", "a"), both("", "ab")];
    let (text, entry) = added(&deltas, &both("", "abc"));
    assert_eq!((text.as_str(), entry.parts, entry.bytes), ("rsaababc", 5, 8));
    assert!(!entry.oddities.contains(Oddity::RepeatedText));
    let texts = ["a", "ab", "abc"].map(|text| json!({"choices": [{"text": text}]}).to_string());
    assert_eq!(answer(&[&texts[0], &texts[1], &texts[2], DONE]).0, "abc");
}

#[test]
fn messages_that_turn_out_to_be_additions_lose_nothing() {
    let message = |text: &str| json!({"choices": [{"message": {"content": text}}]}).to_string();
    let (text, entry) = answer(&[&message("a"), &message("ab"), &message("c"), DONE]);
    assert_eq!((text.as_str(), entry.bytes), ("aabc", 4));
}

#[test]
fn output_behind_the_end_is_output() {
    let counts = usage(&json!({"prompt_tokens": 5, "completion_tokens": 2}));
    let (text, entry) = answer(&[&says("a"), &ends("stop"), DONE, &says("b"), &counts, DONE]);
    assert_eq!((text.as_str(), entry.parts, entry.output), ("ab", 2, Some(2)));
    assert!(entry.oddities.contains(Oddity::LateOutput));
    for other in [r#"{"error":"lost"}"#, r#"{"cost":"0"}"#, "bye"] {
        let (text, entry) = answer(&[&says("a"), &ends("stop"), DONE, other]);
        assert_eq!(text, "a", "{other}");
        assert!(!entry.oddities.contains(Oddity::LateOutput), "{other}");
    }
    // An answer that has gone on may fail.
    let error = r#"{"error":"lost"}"#;
    let body = stream(&[&says("a"), &ends("stop"), DONE, &says("b"), error]);
    let named = stream(&[&says("a"), DONE, &says("b")]) + "event: error\ndata: lost\n\n";
    for body in [body, named] {
        let (found, entry) = read(&settings(), EVENTS, &body);
        assert_eq!((found.unwrap_err().kind, entry.unwrap().class), (Kind::InBand, Class::InBand));
    }
}

#[test]
fn a_stream_may_end_with_other_words() {
    for (end, oddity) in [
        ("DONE", Oddity::OtherDone),
        ("[done]", Oddity::OtherDone),
        ("null", Oddity::SignsOfLife),
        ("ping", Oddity::SignsOfLife),
        ("[]", Oddity::NoChoices),
        ("bye", Oddity::NoChoices),
    ] {
        let (text, entry) = answer(&[&says("a"), &ends("stop"), end]);
        assert_eq!((text.as_str(), entry.oddities.contains(oddity)), ("a", true), "{end}");
    }
    for sign in ["ping", "keepalive", "null"] {
        assert_eq!(answer(&[sign, &says("a"), sign, &ends("stop"), DONE]).0, "a", "{sign}");
    }
    // Before the end such words may be those of an error, and JSON that is damaged holds anything.
    for events in [[says("a"), "bye".into()], [ends("stop"), r#"{"usage":{]"#.into()]] {
        let (found, _) = read(&settings(), EVENTS, &stream(&[&events[0], &events[1], DONE]));
        assert_eq!(found.unwrap_err().kind, Kind::Malformed, "{events:?}");
    }
}

#[test]
fn thoughts_as_additions_do_not_replace_a_message() {
    let thought = json!({"choices": [{"delta": {"reasoning_content": "t"}}]}).to_string();
    for message in [json!({"content": "ab"}), json!({"content": "ab", "reasoning_content": "t"})] {
        let end = json!({"choices": [{"message": message, "finish_reason": "stop"}]}).to_string();
        let (text, entry) = answer(&[&thought, &end, DONE]);
        assert_eq!((text.as_str(), entry.parts), ("tab", 2), "{end}");
    }
}

#[test]
fn text_that_comes_twice_is_output_once() {
    // Together names the text of an addition twice.
    let part = |text: &str| {
        let choice = json!({"index": 0, "text": text, "delta": {"content": text}});
        json!({"choices": [choice]}).to_string()
    };
    let (text, entry) = answer(&[&part("a"), &part("b"), &part(""), &ends("stop"), DONE]);
    assert_eq!((text.as_str(), entry.parts, entry.bytes), ("ab", 2, 2));
    // MiniMax ends a stream with the whole message.
    let whole = json!({"object": "chat.completion", "choices": [{"index": 0, "finish_reason": "stop",
        "message": {"role": "assistant", "content": "ab", "reasoning_content": "t"}}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}});
    let thought = json!({"choices": [{"delta": {"reasoning_content": "t"}}]}).to_string();
    let events = [&thought, &says("a"), &says("b"), &whole.to_string(), DONE];
    let (text, entry) = answer(&events);
    assert_eq!((text.as_str(), entry.parts, entry.output), ("tab", 3, Some(3)));
    assert!(entry.contradictions.is_empty(), "{entry:?}");
    // A stream may begin with an addition without text, and go on with messages.
    let role = json!({"choices": [{"delta": {"role": "assistant"}}]}).to_string();
    let message = json!({"choices": [{"message": {"content": "a"}}]}).to_string();
    assert_eq!(answer(&[&role, &message, &message, DONE]).0, "aa");
    let body = json!({"choices": [{"text": "a", "message": {"content": "a"}}]}).to_string();
    assert_eq!(read(&settings(), JSON, &body).0.unwrap().0, "a");
}

#[test]
fn speech_and_images_are_output_that_takes_its_time() {
    let part = |delta: serde_json::Value| json!({"choices": [{"delta": delta}]}).to_string();
    let said = part(json!({"audio": {"id": "a", "transcript": "hi"}}));
    let sound = part(json!({"audio": {"id": "a", "data": "QUJD"}}));
    let end = part(json!({"audio": {"id": "a", "expires_at": 1}}));
    let (text, entry) = answer(&[&said, &sound, &sound, &end, &ends("stop"), DONE]);
    assert_eq!((text.as_str(), entry.parts, entry.bytes), ("hi", 3, 10));
    // Some servers count only the tokens of the text.
    let counts = usage(&json!({"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}));
    let (_, entry) = answer(&[&said, &sound, &sound, &ends("stop"), &counts, DONE]);
    assert_eq!((entry.output, entry.parts), (Some(1), 3));
    assert!(entry.contradictions.is_empty(), "{entry:?}");
    let (text, entry) = answer(&[&sound, &ends("stop"), DONE]);
    assert_eq!((text.as_str(), entry.parts), ("", 1));
    let image = part(json!({"content": "", "images": [{"image_url": {"url": "data:x"}}]}));
    assert_eq!(answer(&[&image, &ends("stop"), DONE]).1.parts, 1);
    let none = part(json!({"content": "", "images": [], "audio": null}));
    let (_, entry) = read(&settings(), EVENTS, &stream(&[&none, &ends("stop"), DONE]));
    assert_eq!(entry.unwrap().class, Class::Empty);
}

#[test]
fn a_thought_is_read_under_the_name_that_has_it() {
    let part = |delta: serde_json::Value| json!({"choices": [{"delta": delta}]}).to_string();
    for delta in [
        json!({"reasoning_content": "", "reasoning": "t"}),
        json!({"reasoning_content": null, "reasoning": "t"}),
        json!({"reasoning_content": "t", "reasoning": ""}),
        json!({"reasoning_content": "t", "reasoning": "t"}),
        json!({"content": "", "thinking": "t"}),
        json!({"reasoning_details": [{"type": "reasoning.text", "text": "t"}]}),
        json!({"reasoning": "t", "reasoning_details": [{"type": "reasoning.text", "text": "t"}]}),
    ] {
        let (text, entry) = answer(&[&part(delta.clone()), &ends("stop"), DONE]);
        assert_eq!((text.as_str(), entry.parts), ("t", 1), "{delta}");
    }
}

#[test]
fn a_text_that_is_cut_within_a_surrogate_pair_is_read() {
    let part = |text: &str| format!("{{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}");
    let halves = [part(r"a\ud83d"), part(r"\ude00 \\ud83d \ud83d\ude00")];
    let (text, entry) = answer(&[&halves[0], &halves[1], &ends("stop"), DONE]);
    assert_eq!(text, "a\u{fffd}\u{fffd} \\ud83d \u{1f600}");
    assert_eq!(entry.parts, 2);
    let events = [
        r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"a\ud83d"}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#,
        r#"{"type":"message_stop"}"#,
    ];
    let messages = Settings { api: Some(Api::Messages), ..settings() };
    let (found, _) = read(&messages, EVENTS, &stream(&events));
    assert_eq!(found.unwrap().0, "a\u{fffd}");
}

#[test]
fn the_last_of_several_members_counts() {
    let part = r#"{"choices":[{"delta":{"content":"x","reasoning":null,"content":"a"}}],
        "usage":null,"usage":{"prompt_tokens":5,"completion_tokens":1}}"#
        .replace('\n', "");
    let (text, entry) = answer(&[&part, &ends("stop"), DONE]);
    assert_eq!((text.as_str(), entry.input, entry.output), ("a", Some(5), Some(1)));
}

#[test]
fn probabilities_may_be_infinite() {
    let part = r#"{"choices":[{"delta":{"content":"NaN"},"logprobs":{"content":
        [{"token":"NaN","logprob":-Infinity},{"token":"x","logprob":NaN}]}}]}"#
        .replace('\n', "");
    assert_eq!(answer(&[&part, &ends("stop"), DONE]).0, "NaN");
}

#[test]
fn a_finish_reason_is_a_reason() {
    // A missing reason as a text ends no answer.
    for none in ["null", "None", ""] {
        let part = json!({"choices": [{"delta": {"content": "a"}, "finish_reason": none}]});
        let (_, entry) = read(&settings(), EVENTS, &stream(&[&part.to_string()]));
        assert_eq!(entry.unwrap().class, Class::Cut, "{none}");
    }
    for (reason, class) in [
        (json!({"type": "abort", "message": "out of memory"}), Class::Aborted),
        (json!({"type": "length", "length": 9}), Class::Whole),
        (json!("network_error"), Class::Aborted),
        (json!("engine_error"), Class::Aborted),
        (json!("ContentFilter"), Class::Filtered),
    ] {
        let part = json!({"choices": [{"delta": {}, "finish_reason": reason}]}).to_string();
        let (_, entry) = read(&settings(), EVENTS, &stream(&[&says("a"), &part, DONE]));
        assert_eq!(entry.unwrap().class, class, "{reason}");
    }
}

#[test]
fn a_finish_reason_may_be_an_object_with_a_reason() {
    let part = json!({"choices": [{"delta": {}, "finish_reason": {"reason": "length"}}]});
    let (_, entry) = answer(&[&says("a"), &part.to_string(), DONE]);
    assert_eq!(entry.finish, Finish::Length);
}

#[test]
fn groq_counts_tokens_in_its_own_member() {
    let counts = json!({"queue_time": 0.1, "prompt_tokens": 7, "completion_tokens": 3,
        "total_tokens": 10, "total_time": 0.2});
    let begin = json!({"choices": [{"delta": {"content": "a"}}], "x_groq": {"id": "r"}});
    let end = json!({"choices": [{"delta": {}, "finish_reason": "stop"}],
        "x_groq": {"id": "r", "usage": counts}});
    let alone = json!({"x_groq": {"id": "r", "usage": end["x_groq"]["usage"]}});
    for rest in [vec![end.to_string()], vec![ends("stop"), alone.to_string()]] {
        let events = [vec![begin.to_string(), says("bc")], rest, vec![DONE.to_owned()]].concat();
        let events: Vec<&str> = events.iter().map(String::as_str).collect();
        let (text, entry) = answer(&events);
        assert_eq!((text.as_str(), entry.input, entry.output), ("abc", Some(7), Some(3)));
        assert_eq!(entry.counted_by, TokenCounter::Server);
    }
}

#[test]
fn errors_under_other_names_are_errors() {
    for error in [
        json!({"success": false, "errors": [{"code": 1, "message": "lost"}]}),
        json!({"error_code": 336_003, "error_msg": "lost"}),
        json!({"error_message": "lost"}),
        json!({"choices": [{"delta": {}, "finish_reason": "stop"}],
            "x_groq": {"id": "r", "error": "lost"}}),
    ] {
        let body = stream(&[&says("a"), &error.to_string(), DONE]);
        let (found, entry) = read(&settings(), EVENTS, &body);
        let trouble = found.unwrap_err();
        assert_eq!((trouble.kind, entry.unwrap().class), (Kind::InBand, Class::InBand), "{error}");
        assert!(trouble.words.ends_with(": lost"), "{trouble}");
    }
    for none in [
        json!({"success": true, "errors": []}),
        json!({"error_code": 0, "error_msg": ""}),
        json!({"error_code": "0", "error_msg": "success"}),
        json!({"error_msg": ""}),
        json!({"error_message": null}),
    ] {
        assert_eq!(answer(&[&says("a"), &none.to_string(), &ends("stop"), DONE]).0, "a", "{none}");
    }
}

#[test]
fn errors_without_a_type_are_errors_of_typed_interfaces() {
    let error = json!({"error": {"message": "lost", "code": 500}}).to_string();
    for api in [Api::Messages, Api::Responses] {
        let typed = Settings { api: Some(api), ..settings() };
        for (kind, body) in [(EVENTS, stream(&[&error])), (JSON, error.clone())] {
            let (found, entry) = read(&typed, kind, &body);
            assert!(found.unwrap_err().words.ends_with(": lost"), "{body}");
            assert_eq!(entry.unwrap().class, Class::InBand, "{body}");
        }
    }
}

#[test]
fn lines_of_json_are_a_stream() {
    let counts = usage(&json!({"prompt_tokens": 5, "completion_tokens": 2}));
    let lines = [says("a"), says("b"), ends("stop"), counts].join("\n");
    let (found, entry) = read(&settings(), "application/x-ndjson", &lines);
    let entry = entry.unwrap();
    assert_eq!((found, entry.parts), (Ok(("ab".into(), 2)), 2));
    assert!(entry.oddities.contains(Oddity::ContentType));
    assert!(entry.oddities.contains(Oddity::JoinedEvents));
    // A line that is cut off is no error of the server, also after the finish reason.
    for length in [lines.find(&ends("stop")).unwrap() + 9, lines.len() - 1] {
        let (found, _) = read(&settings(), "application/x-ndjson", &lines[..length]);
        assert_eq!(found.unwrap_err().kind, Kind::Cut, "{length}");
    }
}

#[test]
fn lines_end_in_any_way_and_data_have_several() {
    let counts = usage(&json!({"prompt_tokens": 5, "completion_tokens": 2}));
    let events = stream(&[&says("a"), &says("b"), &ends("stop"), &counts, DONE]);
    for line_end in ["\n", "\r\n", "\r"] {
        let body = format!(":\n: ping\n\nevent: message\nid: 7\nretry: 9\n{events}");
        let (found, entry) = read(&settings(), EVENTS, &body.replace('\n', line_end));
        assert_eq!((found, entry.unwrap().parts), (Ok(("ab".into(), 2)), 2));
    }
    let lines = "data: {\"choices\":[{\"delta\":\ndata: {\"content\":\"a\"},\n\
                 data: \"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    assert_eq!(read(&settings(), EVENTS, lines).0, Ok(("a".into(), 1)));
}

#[test]
fn events_need_no_empty_line_between_them() {
    let counts = usage(&json!({"prompt_tokens": 5, "completion_tokens": 2}));
    let events = stream(&[&says("a"), &says("b"), &ends("stop"), &counts, DONE]);
    for line_end in ["\n", "\r\n", "\r"] {
        let body = events.replace("\n\n", line_end);
        let (found, entry) = read(&settings(), EVENTS, &body);
        let entry = entry.unwrap();
        assert_eq!((found, entry.parts), (Ok(("ab".into(), 2)), 2), "{line_end:?}");
        assert!(entry.oddities.contains(Oddity::JoinedEvents));
    }
    let (_, entry) = read(&settings(), EVENTS, &events);
    assert!(!entry.unwrap().oddities.contains(Oddity::JoinedEvents));
}

#[test]
fn an_error_between_events_has_the_words_of_the_server() {
    let begin = stream(&[&says("a")]);
    for (line, kind, words) in [
        (
            "{\"error\": {\"message\": \"engine died\", \"code\": 500}}\n",
            Kind::InBand,
            "engine died",
        ),
        ("{\"error\": \"full\"}", Kind::InBand, "full"),
        ("{\"object\":\"error\",\"message\":\"busy\",\"code\":503}\n\n", Kind::Refused, "busy"),
        ("{\n  \"error\": {\"message\": \"lost\"}\n}\n", Kind::InBand, "lost"),
        ("upstream connect error: reset\n", Kind::InBand, "upstream connect error: reset"),
        ("Internal Server Error", Kind::InBand, "Internal Server Error"),
    ] {
        let (found, entry) = read(&settings(), EVENTS, &format!("{begin}{line}"));
        let trouble = found.unwrap_err();
        assert_eq!((trouble.kind, entry.unwrap().class), (kind, Class::InBand), "{line}");
        let expected = format!("the server reports an error in its answer: {words}");
        assert_eq!(trouble.words, expected);
    }
    // NVIDIA Dynamo writes the words of an error as a comment, also beside data without any.
    for (event, words) in [
        ("event: error\n: engine died\n\n", "engine died"),
        (":\nevent: error\n: engine died\ndata: {}\n\n", "engine died"),
        ("event: error\n: ping\ndata: {\"error\":{\"message\":\"lost\"}}\n\n", "lost"),
        ("event: error\n\n", "no message"),
    ] {
        for done in ["", "data: [DONE]\n\n"] {
            let body = format!("{begin}{event}{done}");
            let (found, entry) = read(&settings(), EVENTS, &body);
            let trouble = found.unwrap_err();
            assert_eq!((trouble.kind, entry.unwrap().class), (Kind::InBand, Class::InBand));
            let expected = format!("the server reports an error in its answer: {words}");
            assert_eq!(trouble.words, expected, "{body}");
        }
    }
    // A comment elsewhere is no error, nor is the type of an event that has ended.
    let comments = format!("{begin}: engine died\n\nevent: x\n: error\n\n");
    let whole = format!("{comments}{}", stream(&[&ends("stop"), DONE]));
    assert_eq!(read(&settings(), EVENTS, &whole).1.unwrap().class, Class::Whole);
    // Gemini sends a list of one error.
    let list = r#"[{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED"}}]"#;
    for (kind, body) in [(JSON, list.to_owned()), (EVENTS, format!("{begin}data: {list}\n\n"))] {
        let (found, entry) = read(&settings(), kind, &body);
        let trouble = found.unwrap_err();
        assert_eq!((trouble.kind, entry.unwrap().class), (Kind::Refused, Class::InBand));
        assert!(trouble.words.ends_with(": quota"), "{trouble}");
    }
    // A stream of nothing else.
    let (found, _) = read(&settings(), EVENTS, "no healthy upstream\n\n");
    assert!(found.unwrap_err().words.ends_with(": no healthy upstream"));
    // A whole answer needs no explanation.
    let (found, entry) =
        read(&settings(), EVENTS, &format!("{begin}x\n\n{}", stream(&[&ends("stop"), DONE])));
    assert_eq!((found.unwrap().0.as_str(), entry.unwrap().class), ("a", Class::Whole));
}

#[test]
fn an_error_of_a_choice_or_of_the_state_has_the_words_of_the_server() {
    // OpenRouter states the error of a choice, MiniMax the state of an answer.
    let choice = json!({"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error",
        "error": {"code": 502, "message": "engine died"}}]});
    let state = json!({"choices": null, "base_resp": {"status_code": 1004,
        "status_msg": "engine died"}});
    for body in [choice, state] {
        let event = stream(&[&says("a"), &body.to_string()]);
        for (kind, body) in [(JSON, body.to_string()), (EVENTS, event)] {
            let (found, entry) = read(&settings(), kind, &body);
            assert!(found.unwrap_err().words.ends_with(": engine died"), "{body}");
            assert_eq!(entry.unwrap().class, Class::InBand, "{body}");
        }
    }
    let success = json!({"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}],
        "base_resp": {"status_code": 0, "status_msg": ""}});
    assert_eq!(answer(&[&success.to_string(), DONE]).0, "a");
}
