//! Triton's generate extension. The bodies follow the examples in its documentation, and those of its backends of
//! TensorRT-LLM and vLLM.

use std::sync::Arc;

use dyno_net::ledger::{Class, Entry, Oddity};
use dyno_net::openai::{Api, Input, OpenAi, Settings};
use dyno_net::protocol::{Protocol as _, TokenCounter};
use dyno_net::trouble::Kind;
use dyno_net::workload::{Prompt, Workload};
use serde_json::{Value, json};

use crate::interfaces::{EVENTS, JSON, read, text};

/// Returns a part of a stream, or a whole answer.
fn says(output: &str) -> String {
    json!({"model_name": "ensemble", "model_version": "1", "sequence_id": 0, "text_output": output})
        .to_string()
}

fn stream(outputs: &[&str]) -> String {
    outputs.iter().map(|output| format!("data: {}\n\n", says(output))).collect()
}

fn check_whole(entry: &Entry) {
    assert_eq!(entry.class, Class::Whole);
    assert!(entry.contradictions.is_empty() && entry.oddities.is_empty(), "{entry:?}");
}

#[test]
fn a_stream_of_triton_ends_with_its_body_and_its_events_are_counted() {
    let triton = text(Api::Triton);
    for outputs in [&[" a", " b", " c"][..], &[" a", " a", " a", ""]] {
        let (said, beats, entry) = read(&triton, EVENTS, &stream(outputs));
        assert_eq!((said.unwrap(), beats), (outputs.concat(), 3));
        assert_eq!((entry.output, entry.counted_by), (Some(3), TokenCounter::Events));
        check_whole(&entry);
    }
    // Models that accumulate tokens.
    let (said, beats, entry) = read(&triton, EVENTS, &stream(&["a", "ab", "abc", "abcd"]));
    assert_eq!((said.unwrap().as_str(), beats, entry.class), ("abcd", 4, Class::Whole));
    let (said, _, entry) = read(&triton, JSON, &says(" a b"));
    assert_eq!((said.unwrap().as_str(), entry.counted_by), (" a b", TokenCounter::Nobody));
    // A stream was requested.
    assert_eq!((entry.class, entry.oddities.contains(Oddity::NoStream)), (Class::Whole, true));
}

#[test]
fn errors_of_triton_and_other_outputs_are_no_answers() {
    let triton = text(Api::Triton);
    let cut = stream(&[" a", " b"]);
    let (said, _, entry) = read(&triton, EVENTS, &cut[..cut.len() - 9]);
    assert_eq!((said.unwrap_err().kind, entry.class), (Kind::Cut, Class::Cut));
    let failed = format!("{}data: {{\"error\":\"no memory\"}}\n\n", stream(&[" a"]));
    let (said, _, entry) = read(&triton, EVENTS, &failed);
    assert!(said.unwrap_err().words.ends_with(": no memory"));
    assert_eq!(entry.class, Class::InBand);
    let (said, _, entry) = read(&triton, EVENTS, &stream(&[""]));
    assert_eq!((said.unwrap_err().kind, entry.class), (Kind::Empty, Class::Empty));
    let other = json!({"model_name": "m", "model_version": "1", "OUTPUT": "a"}).to_string();
    let trouble = read(&triton, JSON, &other).0.unwrap_err();
    assert_eq!(trouble.kind, Kind::Malformed);
    assert!(trouble.words.contains("with text_output, found: {\"model_name\""), "{trouble}");
}

#[test]
fn requests_of_triton_have_their_parameters_in_one_object() {
    for (is_streaming, path) in [(true, "/generate_stream"), (false, "/generate")] {
        let others = [("temperature".to_owned(), json!(0))].into_iter().collect();
        let settings = Settings {
            api: Some(Api::Triton),
            model: "m".into(),
            is_streaming,
            asks_usage: true,
            max_tokens: Some(5),
            others,
            ..Settings::default()
        };
        let prompts = vec![Prompt::new(Input::Text("Say".into()))];
        let workload = Arc::new(Workload { prompts, ..Workload::default() });
        let request = OpenAi::new(workload, settings).request(0);
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        assert_eq!(request.path, path);
        let parameters = json!({"max_tokens": 5, "stream": is_streaming,
            "exclude_input_in_output": true, "temperature": 0});
        assert_eq!(body, json!({"text_input": "Say", "parameters": parameters}));
    }
}
