//! Classes of answers and their tokens. The bodies are what servers send; what is expected
//! follows from the definitions in `docs/concepts/verdicts.md` and `docs/fidelity.md`.

use std::sync::Arc;

use dyno_net::ledger::{AcceptedClasses, Class, Contradiction, Entry, Finish, Oddity};
use dyno_net::openai::{Input, LimitMember, OpenAi, Settings};
use dyno_net::protocol::{Protocol, TokenCounter};
use dyno_net::tokens::Tokenize;
use dyno_net::trouble::{Kind, Trouble};
use dyno_net::workload::{Prompt, Workload};
use serde_json::{Map, Value, json};

use crate::fields;

/// One token a byte, which no server here claims.
struct Bytes;

impl Tokenize for Bytes {
    fn count(&self, text: &str) -> Option<usize> {
        Some(text.len())
    }
}

pub fn settings() -> Settings {
    Settings {
        model: "m".into(),
        is_streaming: true,
        asks_usage: true,
        max_tokens: Some(9),
        limit_member: LimitMember::default(),
        others: Map::new(),
        tokenizer: None,
        accepted: AcceptedClasses::default(),
        ..Settings::default()
    }
}

pub fn with(others: &Value) -> Settings {
    Settings { others: others.as_object().unwrap().clone(), ..settings() }
}

/// Reads an answer in pieces; the outcome and the account must not depend on the cuts.
pub fn read(
    settings: &Settings,
    kind: &str,
    body: &str,
) -> (Result<(String, i64), Trouble>, Option<Entry>) {
    let prompts = vec![Prompt::new(Input::Text("Say".into()))];
    let workload = Arc::new(Workload { prompts, ..Workload::default() });
    let protocol = OpenAi::new(workload, settings.clone());
    let once = |piece: usize| {
        let mut reader = protocol.reader();
        reader.expect(0);
        let head = fields(&[("content-type", kind)]);
        reader.begin(200, &head).unwrap();
        for piece in body.as_bytes().chunks(piece) {
            if let Err(trouble) = reader.data(piece) {
                return (Err(trouble), reader.entry());
            }
        }
        if let Err(trouble) = reader.finish() {
            return (Err(trouble), reader.entry());
        }
        let read = reader.end(None).map(|answer| {
            assert!(answer.entry.is_some(), "an answer has an account");
            (String::from_utf8(answer.data.to_vec()).unwrap(), answer.tokens)
        });
        (read, reader.entry())
    };
    let found = once(1 << 20);
    assert_eq!(found, once(11), "{body}");
    found
}

/// The client has a limit on this memory: a stream can have any number of events.
#[test]
fn the_text_and_the_open_event_of_a_stream_are_held_until_they_are_freed() {
    let prompts = vec![Prompt::new(Input::Text("Say".into()))];
    let workload = Arc::new(Workload { prompts, ..Workload::default() });
    let mut reader = OpenAi::new(workload, settings()).reader();
    reader.expect(0);
    reader.begin(200, &fields(&[("content-type", EVENTS)])).unwrap();
    let long = "x".repeat(1_000);
    reader.data(stream(&[&says(&long)]).as_bytes()).unwrap();
    assert!((1_000..2_000).contains(&reader.held()), "{}", reader.held());
    reader.data(format!("data: {long}").as_bytes()).unwrap();
    assert!(reader.held() >= 2_000, "{}", reader.held());
    reader.free();
    assert_eq!(reader.held(), 0);
}

/// The events of a stream.
pub fn stream(events: &[&str]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

/// An event of a chat with text, or with a reason.
pub fn says(text: &str) -> String {
    json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]})
        .to_string()
}

pub fn ends(reason: &str) -> String {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}).to_string()
}

pub fn usage(usage: &Value) -> String {
    json!({"choices": [], "usage": usage}).to_string()
}

pub const EVENTS: &str = "text/event-stream";
pub const JSON: &str = "application/json";
pub const DONE: &str = "[DONE]";

#[track_caller]
fn check_class(events: &[&str], expected: Class, words: &str) -> Entry {
    let (read, entry) = read(&settings(), EVENTS, &stream(events));
    let entry = entry.expect("an account");
    assert_eq!(entry.class, expected);
    match expected.trouble() {
        None => assert!(read.is_ok(), "{read:?}"),
        Some(kind) => {
            let trouble = read.unwrap_err();
            assert_eq!(trouble.kind, kind);
            assert!(trouble.words.contains(words), "{}", trouble.words);
        }
    }
    entry
}

#[test]
fn only_a_finished_answer_with_output_is_whole() {
    check_class(&[&says("a"), &ends("stop"), DONE], Class::Whole, "");
    // Without [DONE], and with reasons of vendors.
    let entry = check_class(&[&says("a"), &ends("eos")], Class::Whole, "");
    assert!(entry.oddities.contains(Oddity::NoDone));
    assert_eq!(entry.finish, Finish::Stop);
    // Servers that never state a reason, but end with [DONE].
    let entry = check_class(&[&says("a"), DONE], Class::Whole, "");
    assert!(entry.oddities.contains(Oddity::NoFinishReason));
    // White space is output.
    check_class(&[&says(" \n"), &ends("stop"), DONE], Class::Whole, "");
    // A reason of no characters is none.
    let unstated = r#"{"choices":[{"delta":{"content":"a"},"finish_reason":""}]}"#;
    check_class(&[unstated], Class::Cut, "neither [DONE] nor a finish_reason");
}

#[test]
fn answers_without_output_are_empty() {
    let role = r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#;
    let zero = usage(&json!({"prompt_tokens": 5, "completion_tokens": 0}));
    let words = "the answer has no output (finish_reason \"stop\")";
    check_class(&[role, &ends("stop"), &zero, DONE], Class::Empty, words);
    check_class(&[role, &ends("stop"), DONE], Class::Empty, words);
    check_class(&[DONE], Class::Empty, "no output");
    check_class(&["\"[DONE]\""], Class::Empty, "no output");
    // Errors that no interface describes.
    let busy = r#"{"code":1002,"msg":"busy"}"#;
    let words = "the answer has no output; it has {\"code\":1002,\"msg\":\"busy\"}";
    check_class(&[busy, DONE], Class::Empty, words);
    check_class(&[busy], Class::Cut, &busy[1..]);
    let trouble = read(&settings(), JSON, busy).0.unwrap_err();
    assert_eq!(trouble.words, format!("an answer without 'choices': {busy}"));
    // One token that ends the answer is no contradiction.
    let one = usage(&json!({"prompt_tokens": 5, "completion_tokens": 1}));
    let entry = check_class(&[role, &ends("stop"), &one, DONE], Class::Empty, "no output");
    assert!(entry.contradictions.is_empty());
    // One of two choices.
    let second = r#"{"choices":[{"index":1,"delta":{"content":""},"finish_reason":"stop"}]}"#;
    check_class(
        &[&says("a"), &ends("stop"), second, DONE],
        Class::Empty,
        "1 of 2 choices have no output",
    );
}

#[test]
fn thoughts_refusals_and_calls_of_tools_are_output() {
    let delta = |delta: Value| json!({"choices": [{"index": 0, "delta": delta}]}).to_string();
    for delta in [
        delta(json!({"reasoning_content": "t"})),
        delta(json!({"reasoning": "t", "content": null})),
        delta(json!({"refusal": "no"})),
        delta(json!({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ""}}]})),
        delta(json!({"tool_calls": [{"function": {"arguments": {"a": 1}}}]})),
        delta(json!({"function_call": {"name": "f"}})),
        delta(json!({"tool_calls": [{"type": "custom", "custom": {"name": "f", "input": "x"}}]})),
        delta(json!({"audio": {"id": "a", "transcript": "t", "data": "AAAA"}})),
    ] {
        check_class(&[&delta, &ends("tool_calls"), DONE], Class::Whole, "");
    }
    // Markup of calls costs tokens that have no bytes.
    let call = delta(json!({"tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}));
    let tokens = usage(&json!({"prompt_tokens": 5, "completion_tokens": 18}));
    let entry = check_class(&[&call, &ends("tool_calls"), &tokens, DONE], Class::Whole, "");
    assert!(entry.contradictions.is_empty());
}

#[test]
fn an_answer_that_lacks_an_end_is_cut() {
    let neither = "neither [DONE] nor a finish_reason";
    check_class(&[&says("a"), &says("b")], Class::Cut, neither);
    check_class(&[], Class::Cut, neither);
    // Two choices, of which one has finished.
    let choice = |index: u8, text: &str, reason: Option<&str>| {
        let delta = json!({"content": text});
        json!({"choices": [{"index": index, "delta": delta, "finish_reason": reason}]}).to_string()
    };
    let (first, second) = (choice(0, "b", Some("stop")), choice(1, "B", None));
    check_class(&[&first, &second], Class::Cut, "when 1 of 2 choices had finished");
    check_class(&[&first, &second, DONE], Class::Cut, "when 1 of 2 choices had finished");
    let both =
        check_class(&[&first, &second, &choice(1, "", Some("length")), DONE], Class::Whole, "");
    assert_eq!((both.choices, both.finished, both.finish), (2, 2, Finish::Length));
    // A choice that was requested and never came.
    let two = with(&json!({"n": 2}));
    let (found, entry) = read(&two, EVENTS, &stream(&[&first, DONE]));
    assert_eq!(entry.unwrap().class, Class::Cut);
    assert_eq!(found.unwrap_err().words, "the answer has 1 of the 2 requested choices");
    let whole = r#"{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}"#;
    assert_eq!(read(&two, JSON, whole).1.unwrap().class, Class::Cut);
    // Servers may number from 1.
    let one = choice(1, "b", Some("stop"));
    assert_eq!(check_class(&[&one, DONE], Class::Whole, "").choices, 1);
}

#[test]
fn an_answer_that_was_given_up_or_filtered_is_no_success() {
    for reason in ["abort", "error", "cancelled", "MALFORMED_FUNCTION_CALL", "USER_CANCEL"] {
        let words = format!("the server aborted the answer (finish_reason \"{reason}\")");
        check_class(&[&says("a"), &ends(reason), DONE], Class::Aborted, &words);
    }
    let words = "stopped the answer (finish_reason \"content_filter\")";
    check_class(&[&says("a"), &ends("content_filter"), DONE], Class::Filtered, words);
    check_class(&[&ends("content_filter"), DONE], Class::Filtered, words);
    // The worst of two choices counts.
    let second = r#"{"choices":[{"index":1,"delta":{"content":"B"},"finish_reason":"stop"}]}"#;
    check_class(&[&says("a"), &ends("abort"), second, DONE], Class::Aborted, "\"abort\"");
}

#[test]
fn errors_within_an_answer_have_the_words_of_the_server() {
    let check = |body: &str, kind: Kind, words: &str| {
        let form = if body.starts_with('{') { JSON } else { EVENTS };
        let (read, entry) = read(&settings(), form, body);
        let trouble = read.unwrap_err();
        assert_eq!((trouble.kind, entry.unwrap().class), (kind, Class::InBand), "{body}");
        let expected = format!("the server reports an error in its answer: {words}");
        assert_eq!(trouble.words, expected);
    };
    let after = |rest: &str| format!("{}{rest}", stream(&[&says("a")]));
    let died = r#"{"error":{"message":"engine died","type":"InternalServerError","code":500}}"#;
    check(&after(&stream(&[died, DONE])), Kind::InBand, "engine died");
    let older = r#"{"object":"error","message":"too long","type":"BadRequestError","code":400}"#;
    check(&after(&stream(&[older])), Kind::Request, "too long");
    check(&after("event: error\ndata: \"overloaded\"\n\n"), Kind::InBand, "overloaded");
    check(&after("event: error\ndata: overloaded\n\n"), Kind::InBand, "overloaded");
    let status = "event: error\ndata: {\"message\":\"overloaded\",\"status\":503}\n\n";
    check(&after(status), Kind::Refused, "overloaded");
    check(&after(&stream(&[r#"{"detail":"no slot"}"#])), Kind::InBand, "no slot");
    check(
        r#"{"error":{"message":"model overloaded","code":"503"}}"#,
        Kind::Refused,
        "model overloaded",
    );
    check(r#"{"error":"model overloaded"}"#, Kind::InBand, "model overloaded");
    // Names of OpenAI and of Text Generation Inference, whatever the type beside them.
    let limit = r#"{"error":{"message":"slow","type":"tokens","code":"rate_limit_exceeded"}}"#;
    check(&after(&stream(&[limit])), Kind::Refused, "slow");
    let full = r#"{"error":"no room","error_type":"overloaded"}"#;
    check(&after(&stream(&[full])), Kind::Refused, "no room");
    check(r#"{"object":"error","message":"no","code":500}"#, Kind::InBand, "no");
    // The line of older versions of llama.cpp, also in answers that are not streamed.
    for body in ["error: {\"code\":500,\"message\":\"no slot\"}\n\n", "error: no slot"] {
        for form in [EVENTS, JSON] {
            let (found, entry) = read(&settings(), form, body);
            let trouble = found.unwrap_err();
            assert_eq!((trouble.kind, entry.unwrap().class), (Kind::InBand, Class::InBand));
            assert_eq!(trouble.words, "the server reports an error in its answer: no slot");
        }
    }
    // The error counts, whatever else the event holds.
    let both = r#"{"error":{"message":"x"},"choices":[{"delta":{},"finish_reason":"error"}]}"#;
    check(&after(&stream(&[both])), Kind::InBand, "x");
    // What is not an answer shows what came, and no type of this program.
    for odd in ["\"text\"", "{\"choices\":3}", "<html>"] {
        let words = read(&settings(), EVENTS, &stream(&[odd])).0.unwrap_err().words;
        assert_eq!(words, format!("expected an answer of the OpenAI interface, found: {odd}"));
    }
    // An error that is null is none.
    check_class(&[r#"{"error":null,"choices":[{"text":"a"}]}"#, DONE], Class::Whole, "");
}

#[test]
fn whole_bodies_have_the_same_classes() {
    let body = |message: Value, reason: Value| {
        json!({"choices": [{"index": 0, "message": message, "finish_reason": reason}]}).to_string()
    };
    for (body, expected) in [
        (body(json!({"content": "a"}), json!("stop")), Class::Whole),
        (body(json!({"content": "a"}), json!(null)), Class::Whole),
        (body(json!({"content": ""}), json!("stop")), Class::Empty),
        (body(json!({"content": null}), json!("length")), Class::Empty),
        (body(json!({"content": "a"}), json!("abort")), Class::Aborted),
        (body(json!({"content": "a"}), json!("content_filter")), Class::Filtered),
        (
            body(json!({"tool_calls": [{"function": {"name": "f"}}]}), json!("tool_calls")),
            Class::Whole,
        ),
        (r#"{"id":"","choices":null,"usage":null}"#.into(), Class::Empty),
        (r#"{"choices":[]}"#.into(), Class::Empty),
        (r#"{"choices":[{"text":"a","finish_reason":"length"}]}"#.into(), Class::Whole),
    ] {
        let whole = Settings { is_streaming: false, ..settings() };
        assert_eq!(read(&whole, JSON, &body).1.unwrap().class, expected, "{body}");
        let ignored = read(&settings(), JSON, &body).1.unwrap();
        assert!(ignored.oddities.contains(Oddity::NoStream));
        assert_eq!(ignored.parts, 0);
    }
    assert_eq!(read(&settings(), JSON, "{}").0.unwrap_err().kind, Kind::Malformed);
}

#[test]
fn an_answer_shorter_than_demanded_is_no_success() {
    let tokens = |n: u32| usage(&json!({"prompt_tokens": 5, "completion_tokens": n}));
    let check = |others: Value, tokens: &str, expected: Class| {
        let body = stream(&[&says("abcdefghijklmnopqrst"), &ends("stop"), tokens, DONE]);
        let (read, entry) = read(&with(&others), EVENTS, &body);
        assert_eq!(entry.unwrap().class, expected, "{others}");
        read
    };
    // The limit is 9.
    check(json!({"ignore_eos": true}), &tokens(9), Class::Whole).unwrap();
    let short = check(json!({"ignore_eos": true}), &tokens(4), Class::Short).unwrap_err();
    let words = "the answer has 4 output tokens, but the request demanded 9";
    assert!(short.words.starts_with(words), "{}", short.words);
    check(json!({"min_tokens": 5}), &tokens(4), Class::Short).unwrap_err();
    check(json!({"min_tokens": 4}), &tokens(4), Class::Whole).unwrap();
    check(json!({"ignore_eos": true, "max_completion_tokens": 4}), &tokens(4), Class::Whole)
        .unwrap();
    check(json!({"ignore_eos": false}), &tokens(4), Class::Whole).unwrap();
    // Parts are no count of tokens.
    let none = r#"{"choices":[]}"#;
    check(json!({"ignore_eos": true}), none, Class::Whole).unwrap();
}

#[test]
fn classes_that_are_accepted_are_answers() {
    let mut accepted = AcceptedClasses::default();
    assert!(accepted.insert("empty") && accepted.insert("cut"));
    let accepting = Settings { accepted, ..settings() };
    let (found, entry) = read(&accepting, EVENTS, &stream(&[&ends("stop"), DONE]));
    assert_eq!((found, entry.unwrap().class), (Ok((String::new(), 0)), Class::Empty));
    let (found, entry) = read(&accepting, EVENTS, &stream(&[&says("a")]));
    assert_eq!((found, entry.unwrap().class), (Ok(("a".into(), 1)), Class::Cut));
    let aborted = read(&accepting, EVENTS, &stream(&[&says("a"), &ends("abort"), DONE]));
    assert_eq!(aborted.0.unwrap_err().kind, Kind::Aborted);
}

/// The account of a whole answer of two parts, "a" and "b", with these events of usage.
fn account(events: &[String]) -> Entry {
    let (a, b, end) = (says("a"), says("b"), ends("stop"));
    let mut all: Vec<&str> = vec![&a, &b, &end];
    all.extend(events.iter().map(String::as_str));
    all.push(DONE);
    let (read, entry) = read(&settings(), EVENTS, &stream(&all));
    assert!(read.is_ok(), "{read:?}");
    entry.unwrap()
}

#[test]
fn usage_is_read_as_far_as_it_counts() {
    let of = |json: &str| account(&[format!("{{\"choices\":[],\"usage\":{json}}}")]);
    let counts = |entry: Entry| (entry.input, entry.output, entry.counted_by);
    let server = |input: Option<u32>| (input, Some(2), TokenCounter::Server);
    let plain = of(r#"{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}"#);
    assert_eq!((counts(plain), plain.oddities.is_empty()), (server(Some(5)), true));
    let null = of(r#"{"prompt_tokens":null,"completion_tokens":2,"total_tokens":null}"#);
    assert_eq!(counts(null), server(None));
    assert!(null.oddities.contains(Oddity::PartialUsage));
    let float = of(r#"{"prompt_tokens":5.0,"completion_tokens":2.0}"#);
    assert_eq!(counts(float), server(Some(5)));
    assert!(float.oddities.contains(Oddity::FloatCount));
    let negative = of(r#"{"prompt_tokens":-1,"completion_tokens":2}"#);
    assert_eq!(counts(negative), server(None));
    assert!(negative.oddities.contains(Oddity::NoCount));
    let text = of(r#"{"prompt_tokens":"5","completion_tokens":"2"}"#);
    assert_eq!(counts(text), server(Some(5)));
    let events = |input: Option<u32>| (input, Some(2), TokenCounter::Events);
    for odd in ["18446744073709551616", "1e99", "-2", "2.5", "\"two\"", "[2]"] {
        let odd = of(&format!("{{\"prompt_tokens\":5,\"completion_tokens\":{odd}}}"));
        assert_eq!(counts(odd), events(Some(5)));
        assert!(odd.contradictions.is_empty() && odd.oddities.contains(Oddity::NoCount));
    }
    assert_eq!(counts(of("\"many\"")), events(None));
    assert_eq!(counts(of("null")), events(None));
    for entry in [plain, null, float, negative, text] {
        assert!(entry.contradictions.is_empty(), "{entry:?}");
    }
}

#[test]
fn the_last_usage_that_counts_something_is_right() {
    let of = |output: u32| usage(&json!({"prompt_tokens": 5, "completion_tokens": output}));
    let each = account(&[of(1), of(2), of(2)]);
    assert_eq!((each.output, each.counted_by), (Some(2), TokenCounter::Server));
    assert!(each.contradictions.is_empty());
    for last in [of(0), usage(&json!({})), usage(&json!({"completion_tokens": null}))] {
        let zero = account(&[of(1), of(2), last]);
        assert_eq!(
            (zero.output, zero.input, zero.counted_by),
            (Some(2), Some(5), TokenCounter::Server)
        );
        assert!(zero.contradictions.is_empty() && zero.oddities.contains(Oddity::ZeroLast));
    }
    // Behind [DONE], where it has come together with it.
    let late = account(&[DONE.to_owned(), of(2)]);
    assert_eq!((late.output, late.counted_by), (Some(2), TokenCounter::Server));
    assert!(late.oddities.contains(Oddity::LateUsage));
    // Nothing else than output behind [DONE] is part of the answer.
    let (found, entry) = read(&settings(), EVENTS, &stream(&[&says("a"), DONE, &says("b"), "x"]));
    assert_eq!((found, entry.unwrap().bytes), (Ok(("ab".into(), 2)), 2));
}

#[track_caller]
fn check_contradiction(
    events: &[String],
    kind: Contradiction,
    output: u32,
    by: TokenCounter,
    example: &str,
) {
    let entry = account(events);
    assert!(entry.contradictions.contains(kind), "{entry:?}");
    assert!(entry.is_output_doubtful() || entry.is_input_doubtful());
    assert_eq!((entry.output, entry.counted_by), (Some(output), by));
    assert_eq!(kind.example(&entry), example);
}

#[test]
fn counts_that_contradict_each_other_are_found() {
    use Contradiction::*;
    use TokenCounter::{Events, Server};
    let of = |value: Value| [usage(&value)];
    let zero = "usage counts 0 output tokens for 2 bytes of output";
    check_contradiction(
        &of(json!({"prompt_tokens": 5, "completion_tokens": 0})),
        NoTokens,
        2,
        Events,
        zero,
    );
    let none = "usage counts no output tokens for 2 bytes of output";
    check_contradiction(&of(json!({})), NoTokens, 2, Events, none);
    let lies = of(json!({"prompt_tokens": 5, "completion_tokens": 1000}));
    let words = "usage counts 1000 output tokens for 2 bytes of output";
    check_contradiction(&lies, MoreTokensThanBytes, 2, Events, words);
    let few = of(json!({"prompt_tokens": 5, "completion_tokens": 1}));
    let words = "usage counts 1 output tokens for 2 parts with output";
    check_contradiction(&few, FewerTokensThanParts, 2, Events, words);
    let down = [3, 2].map(|n| usage(&json!({"prompt_tokens": 5, "completion_tokens": n})));
    let words = "the count of output tokens decreases between parts, to 2";
    check_contradiction(&down, Decreasing, 2, Server, words);
    let total = of(json!({"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 6}));
    let words = "usage counts 5 input and 2 output tokens, and a total of 6";
    check_contradiction(&total, TotalDiffers, 2, Server, words);
    let cached = of(json!({"prompt_tokens": 5, "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 6}}));
    let words = "usage counts 6 cached tokens among 5 input tokens";
    check_contradiction(&cached, CachedExceedsInput, 2, Server, words);
    let thoughts = of(json!({"prompt_tokens": 5, "completion_tokens": 2,
        "completion_tokens_details": {"reasoning_tokens": 3}}));
    let words = "usage counts 3 reasoning tokens among 2 output tokens";
    check_contradiction(&thoughts, ReasoningExceedsOutput, 2, Server, words);
}

#[test]
fn what_servers_rightly_count_is_no_contradiction() {
    let of = |value: Value| account(&[usage(&value)]);
    // The token that ends the answer has no bytes.
    assert!(of(json!({"prompt_tokens": 5, "completion_tokens": 3})).contradictions.is_empty());
    // Thoughts that are counted and not sent.
    let hidden = of(json!({"prompt_tokens": 5, "completion_tokens": 502,
        "completion_tokens_details": {"reasoning_tokens": 500}}));
    assert!(hidden.contradictions.is_empty());
    assert_eq!((hidden.output, hidden.reasoning), (Some(502), Some(500)));
    // Several tokens in a part, as of speculative decoding.
    let (part, end) = (says("aa bb cc dd "), ends("stop"));
    let tokens = usage(&json!({"prompt_tokens": 5, "completion_tokens": 4}));
    let spec = check_class(&[&part, &end, &tokens, DONE], Class::Whole, "");
    assert!(spec.contradictions.is_empty());
    assert_eq!((spec.output, spec.parts), (Some(4), 1));
}

#[test]
fn a_tokenizer_settles_contradictions_and_counts_where_usage_is_ignored() {
    let lies = usage(&json!({"prompt_tokens": 5, "completion_tokens": 1000}));
    let body = stream(&[&says("ab"), &ends("stop"), &lies, DONE]);
    let with = Settings { tokenizer: Some(Arc::new(Bytes)), ..settings() };
    let entry = read(&with, EVENTS, &body).1.unwrap();
    assert_eq!((entry.output, entry.counted_by), (Some(2), TokenCounter::Tokenizer));
    assert!(!entry.contradictions.is_empty() && !entry.is_output_doubtful());
    let without = Settings { asks_usage: false, ..settings() };
    let entry = read(&without, EVENTS, &body).1.unwrap();
    assert_eq!((entry.output, entry.counted_by), (Some(1), TokenCounter::Events));
    assert_eq!((entry.input, entry.contradictions.is_empty()), (None, true));
    // The server counts where nothing contradicts it.
    let right = usage(&json!({"prompt_tokens": 5, "completion_tokens": 1}));
    let body = stream(&[&says("ab"), &ends("stop"), &right, DONE]);
    let entry = read(&with, EVENTS, &body).1.unwrap();
    assert_eq!((entry.output, entry.counted_by), (Some(1), TokenCounter::Server));
}

#[test]
fn content_may_be_a_list_of_parts() {
    let thinking = r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":
        [{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}}]}"#;
    let list = r#"{"choices":[{"index":0,"delta":{"content":[{"type":"text","text":"y"}]}}]}"#;
    let tokens = usage(&json!({"prompt_tokens": 5, "completion_tokens": 3}));
    let thinking = thinking.replace('\n', "");
    let body = stream(&[&thinking, &says("x"), list, &ends("stop"), &tokens, DONE]);
    let (found, entry) = read(&settings(), EVENTS, &body);
    assert_eq!(found, Ok(("hmxy".into(), 3)));
    let entry = entry.unwrap();
    assert!(entry.oddities.contains(Oddity::ContentParts));
    assert_eq!((entry.parts, entry.bytes), (3, 4));
    let whole = r#"{"choices":[{"message":{"content":[{"type":"text","text":"y"}]},
        "finish_reason":"stop"}]}"#;
    assert_eq!(read(&settings(), JSON, whole).0.unwrap().0, "y");
}

#[test]
fn a_request_states_what_it_demands() {
    let demand = |settings: &Settings| {
        let body = stream(&[&says("a"), &ends("stop"), DONE]);
        let demand = read(settings, EVENTS, &body).1.unwrap().demand;
        (demand.most, demand.least, demand.choices)
    };
    assert_eq!(demand(&settings()), (Some(9), None, 1));
    assert_eq!(demand(&with(&json!({"max_tokens": 4}))), (Some(4), None, 1));
    let newer = json!({"max_tokens": 4, "max_completion_tokens": 6, "ignore_eos": true});
    assert_eq!(demand(&with(&newer)), (Some(6), Some(6), 1));
    let none = Settings { max_tokens: None, ..with(&json!({"min_tokens": 3})) };
    assert_eq!(demand(&none), (None, Some(3), 1));
}
