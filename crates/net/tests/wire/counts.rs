//! Ways in which servers count tokens and write errors that deviate from the API reference of OpenAI. What is
//! expected is computed by hand from the meaning of the members.

use dyno_net::ledger::{Class, Contradiction, Entry, HiddenTokens, Oddity};
use dyno_net::openai::Settings;
use dyno_net::protocol::TokenCounter;
use serde_json::{Value, json};

use crate::answers::{DONE, EVENTS, JSON, ends, read, says, settings, stream, usage, with};

/// The account of a stream that is a whole answer.
#[track_caller]
fn account(events: &[&str]) -> Entry {
    let (found, entry) = read(&settings(), EVENTS, &stream(events));
    assert!(found.is_ok(), "{found:?}");
    entry.expect("an account")
}

/// The account of the text "ab", in two parts, with these counts.
#[track_caller]
fn counted(counts: &Value) -> Entry {
    account(&[&says("a"), &says("b"), &ends("stop"), &usage(counts), DONE])
}

#[test]
fn thoughts_beside_the_output_are_output() {
    // 5 + 2 + 300 = 307.
    let beside = counted(&json!({"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 307,
        "completion_tokens_details": {"reasoning_tokens": 300}}));
    assert_eq!((beside.output, beside.reasoning), (Some(302), Some(300)));
    assert_eq!(beside.counted_by, TokenCounter::Server);
    assert!(beside.contradictions.is_empty(), "{beside:?}");
    assert!(beside.oddities.contains(Oddity::ThoughtsBeside));
    // 5 + 302 = 307: the thoughts are among the output.
    let within =
        counted(&json!({"prompt_tokens": 5, "completion_tokens": 302, "total_tokens": 307,
        "completion_tokens_details": {"reasoning_tokens": 300}}));
    assert_eq!((within.output, within.oddities.is_empty()), (Some(302), true));
    // Thoughts that no member states.
    let unstated = json!({"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 307});
    let unstated = counted(&unstated);
    assert_eq!((unstated.output, unstated.total), (Some(2), Some(307)));
    assert!(unstated.contradictions.is_empty(), "{unstated:?}");
    assert!(unstated.oddities.contains(Oddity::LargerTotal));
    // 5 + 2 + 300 is not 306, and no total is less than its parts.
    for (total, thoughts) in [(306, Some(300)), (6, None), (6, Some(1))] {
        let details = json!({"reasoning_tokens": thoughts});
        let entry = counted(&json!({"prompt_tokens": 5, "completion_tokens": 2,
            "total_tokens": total, "completion_tokens_details": details}));
        assert!(entry.contradictions.contains(Contradiction::TotalDiffers), "{entry:?}");
    }
    // The total does not excuse fewer tokens than parts.
    let few = counted(&json!({"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 90}));
    assert!(few.contradictions.contains(Contradiction::FewerTokensThanParts), "{few:?}");
}

/// The parts of a stream after which usage counts 212 output tokens, among them 200 of thoughts.
#[track_caller]
fn check_hidden(deltas: &[Value], hidden: HiddenTokens) {
    let part = |delta: &Value| json!({"choices": [{"index": 0, "delta": delta}]}).to_string();
    let counts = usage(&json!({"prompt_tokens": 5, "completion_tokens": 212,
        "completion_tokens_details": {"reasoning_tokens": 200}}));
    let mut all: Vec<String> = deltas.iter().map(part).collect();
    all.extend([ends("stop"), counts, DONE.into()]);
    let entry = account(&all.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!((entry.output, entry.hidden), (Some(212), hidden), "{deltas:?}");
    assert!(entry.contradictions.is_empty(), "{entry:?}");
}

#[test]
fn thoughts_that_do_not_come_are_hidden_tokens() {
    let says = json!({"content": "Of course"});
    let thinks = |text: &str| json!({"reasoning_content": text});
    let shown = HiddenTokens::Some(200);
    check_hidden(&[says.clone(), says.clone()], shown);
    check_hidden(&[thinks(&"hm ".repeat(200)), says.clone()], HiddenTokens::None);
    // A thought of fewer bytes than tokens is a part or a summary.
    check_hidden(&[thinks("I thought."), says.clone()], HiddenTokens::Unknown);
    // Servers that do not separate thoughts.
    let within = json!({"content": format!("{}</think>", "hm ".repeat(200))});
    check_hidden(&[within, says.clone()], HiddenTokens::None);
    check_hidden(&vec![says.clone(); 13], HiddenTokens::Unknown);
    // OpenRouter says what it shows.
    let summary = json!({"reasoning": "hm ".repeat(200),
        "reasoning_details": [{"type": "reasoning.summary", "summary": "hm"}]});
    check_hidden(&[summary, says.clone()], HiddenTokens::Unknown);
    let encrypted = json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]});
    check_hidden(&[encrypted, says], shown);
    assert_eq!(HiddenTokens::Some(200).timed(212), Some(12));
    assert_eq!((HiddenTokens::None.timed(3), HiddenTokens::Unknown.timed(3)), (Some(3), None));
}

#[test]
fn counts_of_0_beside_others_are_no_counts() {
    let entry = counted(&json!({"prompt_tokens": 0, "completion_tokens": 2, "total_tokens": 2}));
    assert_eq!((entry.input, entry.output), (None, Some(2)));
    assert!(entry.contradictions.is_empty(), "{entry:?}");
    assert!(entry.oddities.contains(Oddity::NoInput));
    let none = counted(&json!({"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 0}));
    assert_eq!((none.input, none.output), (Some(5), Some(2)));
    assert!(none.contradictions.is_empty(), "{none:?}");
    // A total alone counts neither.
    let total = counted(&json!({"total_tokens": 7}));
    assert_eq!((total.input, total.output), (None, Some(2)));
    assert_eq!(total.counted_by, TokenCounter::Events);
    assert!(total.contradictions.is_empty(), "{total:?}");
}

#[test]
fn tokens_of_several_choices_have_no_times() {
    let part = |index: u8, text: &str, reason: Option<&str>| {
        let delta = json!({"content": text});
        json!({"choices": [{"index": index, "delta": delta, "finish_reason": reason}]}).to_string()
    };
    let parts = [part(0, "a", None), part(1, "A", None), part(0, "b", None), part(1, "B", None)];
    let ends = [part(0, "", Some("stop")), part(1, "", Some("stop"))];
    let counts = usage(&json!({"prompt_tokens": 5, "completion_tokens": 4}));
    let [a, b, c, d] = &parts;
    // They come also if the request asks for one choice.
    let entry = account(&[a, b, c, d, &ends[0], &ends[1], &counts, DONE]);
    assert_eq!((entry.choices, entry.output), (2, Some(4)));
    assert_eq!(entry.hidden, HiddenTokens::Unknown);
    let entry = account(&[a, c, &ends[0], &counts, DONE]);
    assert_eq!((entry.choices, entry.hidden), (1, HiddenTokens::None));
}

#[test]
fn usage_within_a_choice_counts_where_there_is_no_other() {
    let end = |tokens: u32| {
        let counts = json!({"prompt_tokens": 5, "completion_tokens": tokens});
        let choice = json!({"index": 0, "delta": {}, "finish_reason": "stop", "usage": counts});
        json!({"choices": [choice]}).to_string()
    };
    let within = account(&[&says("a"), &says("b"), &end(2), DONE]);
    assert_eq!((within.input, within.output), (Some(5), Some(2)));
    assert_eq!(within.counted_by, TokenCounter::Server);
    assert!(within.oddities.contains(Oddity::ChoiceUsage));
    let last = account(&[&says("abcd"), &end(1), &end(3), DONE]);
    assert_eq!((last.output, last.contradictions.is_empty()), (Some(3), true));
    let beside = usage(&json!({"prompt_tokens": 6, "completion_tokens": 3}));
    let beside = account(&[&says("a"), &says("b"), &end(2), &beside, DONE]);
    assert_eq!((beside.input, beside.output), (Some(6), Some(3)));
    assert!(beside.oddities.is_empty(), "{beside:?}");
    let ignored = Settings { asks_usage: false, ..settings() };
    let body = stream(&[&says("a"), &end(9), DONE]);
    assert_eq!(read(&ignored, EVENTS, &body).1.unwrap().output, Some(1));
}

/// A part with text and its own usage.
fn part(text: &str, tokens: u32) -> String {
    let choice = json!({"index": 0, "delta": {"content": text}});
    let counts =
        json!({"prompt_tokens": 5, "completion_tokens": tokens, "total_tokens": 5 + tokens});
    json!({"choices": [choice], "usage": counts}).to_string()
}

#[test]
fn counts_of_single_parts_are_added_up_where_nothing_else_is_possible() {
    let own = |counts: [u32; 3], end: &str| {
        let [a, b, c] = counts.map(|tokens| part("word ", tokens));
        account(&[&a, &b, &c, end, DONE])
    };
    for counts in [[1, 1, 1], [4, 2, 1]] {
        let entry = own(counts, &ends("stop"));
        assert_eq!((entry.input, entry.output), (Some(5), Some(counts.iter().sum::<u32>())));
        assert_eq!(entry.counted_by, TokenCounter::Server);
        assert!(entry.contradictions.is_empty(), "{entry:?}");
        assert!(entry.oddities.contains(Oddity::PartUsage));
    }
    // A sum so far, also one that every part repeats.
    for (counts, sum) in [([1, 2, 3], 3), ([9, 9, 9], 9)] {
        let entry = own(counts, &ends("stop"));
        assert_eq!((entry.output, entry.contradictions.is_empty()), (Some(sum), true));
        assert!(!entry.oddities.contains(Oddity::PartUsage));
    }
    // Neither a sum so far nor clearly one of each part: a part of 5 bytes has no 6 tokens, a later count
    // grows, or one without text counts something.
    let end = usage(&json!({"prompt_tokens": 5, "completion_tokens": 1}));
    for (counts, end) in [([6, 1, 1], &ends("stop")), ([1, 2, 1], &ends("stop")), ([1, 1, 1], &end)]
    {
        let entry = own(counts, end);
        let few = Contradiction::FewerTokensThanParts;
        assert!(entry.contradictions.contains(few), "{counts:?}: {entry:?}");
    }
}

#[test]
fn a_few_tokens_without_text_are_noted_and_more_contradict() {
    // Two bytes and the end of the choice: 3 tokens, and 8 that a parser may have removed.
    for (tokens, is_noted, is_contradicted) in
        [(3, false, false), (4, true, false), (11, true, false), (12, false, true)]
    {
        let entry = counted(&json!({"prompt_tokens": 5, "completion_tokens": tokens}));
        let more = Contradiction::MoreTokensThanBytes;
        assert_eq!(entry.oddities.contains(Oddity::InvisibleTokens), is_noted, "{tokens}");
        assert_eq!(entry.contradictions.contains(more), is_contradicted, "{tokens}");
        assert_eq!((entry.bytes, entry.unseen), (2, 1));
    }
}

#[test]
fn an_error_that_is_empty_beside_an_answer_is_not_an_error() {
    let message = json!({"message": {"content": "a"}, "finish_reason": "stop"});
    let body = |error: &Value| json!({"choices": [&message], "error": error}).to_string();
    for empty in [json!({}), json!(0), json!(""), json!([]), json!(false)] {
        let (found, entry) = read(&settings(), JSON, &body(&empty));
        let entry = entry.unwrap();
        assert_eq!((found.unwrap().0.as_str(), entry.class), ("a", Class::Whole), "{empty}");
        assert!(entry.oddities.contains(Oddity::EmptyError), "{empty}");
    }
    let (_, null) = read(&settings(), JSON, &body(&Value::Null));
    assert!(!null.unwrap().oddities.contains(Oddity::EmptyError));
    for error in [json!({"code": 500}), json!(1), json!("overloaded"), json!(["x"]), json!(true)] {
        let (found, entry) = read(&settings(), JSON, &body(&error));
        assert!(found.is_err(), "{error}");
        assert_eq!(entry.unwrap().class, Class::InBand, "{error}");
    }
    // Without an answer it is one.
    let (_, entry) = read(&settings(), EVENTS, &stream(&[&says("a"), "{\"error\":{}}", DONE]));
    assert_eq!(entry.unwrap().class, Class::InBand);
}

#[test]
fn choices_without_an_index_are_numbered_by_position() {
    let two = with(&json!({"n": 2}));
    let choice = |text: &str, index: Value| json!({"message": {"content": text}, "finish_reason": "stop", "index": index});
    let mut bare = choice("b", Value::Null);
    bare.as_object_mut().unwrap().remove("index");
    for second in [bare, choice("b", Value::Null)] {
        let body = json!({"choices": [choice("a", json!(0)), second]}).to_string();
        let (found, entry) = read(&two, JSON, &body);
        let entry = entry.unwrap();
        assert_eq!((entry.choices, entry.finished, entry.class), (2, 2, Class::Whole), "{found:?}");
    }
}
