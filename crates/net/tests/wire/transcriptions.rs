//! Transcription of recordings. The answers follow the examples in OpenAI's reference, and the parts of
//! chats that vLLM documents for its stream.

use dyno_net::ledger::{Class, Finish};
use dyno_net::openai::{Api, Input, OpenAi, Recording, Settings};
use dyno_net::protocol::{Protocol, TokenCounter};
use dyno_net::trouble::Kind;
use serde_json::json;

use crate::interfaces::{EVENTS, JSON, protocol, read};

fn recording(name: &str, bytes: &'static [u8]) -> Input {
    Input::Recording(Recording { name: name.into(), bytes: bytes.into() })
}

fn speech() -> OpenAi {
    let input = recording("speech.wav", b"RIFF....WAVE");
    protocol(Api::Transcriptions, input, Settings::default())
}

#[test]
fn whole_answers_are_objects_or_plain_text() {
    let body = r#"{"text":"Imagine the wildest idea.","usage":{"type":"tokens","input_tokens":14,
        "input_token_details":{"text_tokens":0,"audio_tokens":14},"output_tokens":7,"total_tokens":21}}"#;
    let (said, _, entry) = read(&speech(), JSON, body);
    assert_eq!(said.unwrap(), "Imagine the wildest idea.");
    assert_eq!((entry.class, entry.finish), (Class::Whole, Finish::Stop));
    assert_eq!((entry.input, entry.output), (Some(14), Some(7)));
    // Some models count seconds, which are no tokens.
    let seconds = r#"{"text":"Yes.","usage":{"type":"duration","seconds":3}}"#;
    let (said, _, entry) = read(&speech(), JSON, seconds);
    assert_eq!((said.unwrap(), entry.class, entry.output), ("Yes.".into(), Class::Whole, None));
    assert_eq!(entry.counted_by, TokenCounter::Nobody);
    let (said, _, entry) = read(&speech(), "text/plain", "Plain words.\n");
    assert_eq!((said.unwrap(), entry.class), ("Plain words.".into(), Class::Whole));
    // Silence has no words.
    assert_eq!(read(&speech(), JSON, r#"{"text":""}"#).2.class, Class::Empty);
    let wrong = read(&speech(), JSON, r#"{"task":"transcribe"}"#).0.unwrap_err();
    assert_eq!(wrong.kind, Kind::Malformed, "{wrong}");
    let (_, _, entry) = read(&speech(), JSON, r#"{"error":{"message":"too long"}}"#);
    assert_eq!(entry.class, Class::InBand);
}

#[test]
fn streams_are_typed_events_or_parts_of_chats() {
    let delta = |text: &str| json!({"type": "transcript.text.delta", "delta": text});
    let done = json!({"type": "transcript.text.done", "text": "I see.",
        "usage": {"type": "tokens", "input_tokens": 14, "output_tokens": 3, "total_tokens": 17}});
    let events = [delta("I"), delta(" see"), delta("."), done];
    let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let (said, beats, entry) = read(&speech(), EVENTS, &body);
    assert_eq!((said.unwrap(), beats), ("I see.".into(), 3));
    assert_eq!((entry.class, entry.input, entry.output), (Class::Whole, Some(14), Some(3)));
    // Without its end it is cut off.
    let cut: String = events[..3].iter().map(|event| format!("data: {event}\n\n")).collect();
    assert_eq!(read(&speech(), EVENTS, &cut).2.class, Class::Cut);

    let part = |content: &str, reason: Option<&str>| {
        json!({"id": "trsc-1", "object": "transcription.chunk", "created": 1, "model": "m",
            "choices": [{"delta": {"content": content}, "finish_reason": reason}]})
    };
    let parts = [part(" I", None), part(" see", Some("stop"))];
    let body: String = parts.iter().map(|part| format!("data: {part}\n\n")).collect();
    let (said, beats, entry) = read(&speech(), EVENTS, &format!("{body}data: [DONE]\n\n"));
    assert_eq!((said.unwrap(), beats, entry.class), (" I see".into(), 2, Class::Whole));
}

#[test]
fn a_request_is_a_form_with_the_file() {
    let others = [("language".to_owned(), json!("en")), ("temperature".to_owned(), json!(0.5))];
    let settings = Settings { others: others.into_iter().collect(), ..Settings::default() };
    let input = recording("a \"b\".flac", b"fLaC\0\xff");
    let request = protocol(Api::Transcriptions, input, settings).request(0);
    assert_eq!(request.path, "/audio/transcriptions");
    let kind = &request.fields.iter().find(|(name, _)| *name == "content-type").unwrap().1;
    assert_eq!(kind, "multipart/form-data; boundary=dyno-form");
    let field = |name: &str, value: &str| {
        format!("--dyno-form\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    let mut expected = [
        field("model", "m"),
        field("response_format", "json"),
        field("stream", "true"),
        field("language", "en"),
        field("temperature", "0.5"),
    ]
    .concat()
    .into_bytes();
    expected.extend_from_slice(
        b"--dyno-form\r\nContent-Disposition: form-data; name=\"file\"; \
          filename=\"a %22b%22.flac\"\r\nContent-Type: audio/flac\r\n\r\nfLaC\0\xff\r\n--dyno-form--\r\n",
    );
    assert_eq!(String::from_utf8_lossy(&request.body), String::from_utf8_lossy(&expected));
    assert_eq!(request.body, expected);
    // The line between parts occurs in none of them.
    let odd = recording("a.wav", b"RIFF dyno-form dyno-form-");
    let request = protocol(Api::Transcriptions, odd, Settings::default()).request(0);
    let end = b"\r\n--dyno-form----\r\n";
    assert!(request.body.ends_with(end), "{:?}", String::from_utf8_lossy(&request.body));
}
