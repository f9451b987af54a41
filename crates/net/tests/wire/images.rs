//! Generation of images. The answers follow the example in OpenAI's reference.

use std::sync::Arc;

use dyno_net::ledger::{Class, Finish};
use dyno_net::openai::{Api, Input, OpenAi, Settings};
use dyno_net::protocol::{Protocol, TokenCounter};
use dyno_net::trouble::Kind;
use dyno_net::workload::{Prompt, Workload};
use serde_json::{Value, json};

use crate::interfaces::{EVENTS, JSON, protocol, read};

/// Returns requests for so many images each.
fn images(count: u64) -> OpenAi {
    let others = [("n".to_owned(), json!(count)), ("size".to_owned(), json!("8x8"))];
    let settings = Settings { others: others.into_iter().collect(), ..Settings::default() };
    protocol(Api::Images, Input::Text("A white cat".into()), settings)
}

fn answer(data: &Value) -> String {
    json!({"created": 1_589_478_378, "data": data}).to_string()
}

#[test]
fn a_request_has_a_prompt_and_its_members_and_is_not_streamed_unless_asked() {
    let request = images(2).request(0);
    assert_eq!(request.path, "/images/generations");
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(body, json!({"model": "m", "prompt": "A white cat", "n": 2, "size": "8x8"}));
}

#[test]
fn an_answer_has_all_images_as_urls_or_base64() {
    // "foobar" in Base64, by RFC 4648.
    let data = json!([{"url": "https://a/1.png", "b64_json": null}, {"b64_json": "Zm9vYmFy"}]);
    let (said, beats, entry) = read(&images(2), JSON, &answer(&data));
    assert_eq!((said.unwrap(), beats), ("https://a/1.png\nan image of 6 bytes".into(), 0));
    assert_eq!((entry.class, entry.finish, entry.images), (Class::Whole, Finish::Stop, 2));
    assert_eq!((entry.output, entry.counted_by), (None, TokenCounter::Nobody));

    let data = json!([{"url": "data:image/png;base64,Zm8="}]);
    let usage = json!({"input_tokens": 50, "output_tokens": 4160, "total_tokens": 4210});
    let body = json!({"data": data, "usage": usage}).to_string();
    let (said, _, entry) = read(&images(1), JSON, &body);
    assert_eq!((said.unwrap(), entry.class), ("an image of 2 bytes".into(), Class::Whole));
    assert_eq!((entry.input, entry.output, entry.images), (Some(50), None, 1));
    assert!(entry.contradictions.is_empty());
}

#[test]
fn urls_of_any_scheme_and_loose_base64_are_images() {
    // "foob" in Base64, by RFC 4648; decoders take it without padding, in digits of URLs, and in lines.
    for (image, expected) in [
        (json!({"b64_json": "Zm9vYg"}), "an image of 4 bytes"),
        (json!({"b64_json": "Zm9v\r\nYg==\n"}), "an image of 4 bytes"),
        (json!({"b64_json": "-_8"}), "an image of 2 bytes"),
        (json!({"b64_json": "data:image/png;base64,Zm9vYg"}), "an image of 4 bytes"),
        (json!({"url": "DATA:image/png;charset=x;BASE64,Zm9vYg%3D%3D"}), "an image of 4 bytes"),
        (json!({"url": "data:image/svg+xml,%3Csvg/%3E"}), "an image of 6 bytes"),
        (json!({"url": "s3://images/1.png"}), "s3://images/1.png"),
        (json!({"url": "file:///tmp/1.png"}), "file:///tmp/1.png"),
        (json!({"url": "HTTPS://a/1.png"}), "HTTPS://a/1.png"),
    ] {
        let (said, _, entry) = read(&images(1), JSON, &answer(&json!([image])));
        assert_eq!((said.unwrap(), entry.class), (expected.into(), Class::Whole), "{image}");
    }
    for wrong in ["data:image/png;base64", "data:image/png;base64,Zm9vY", "/1.png", "1x:a", "s3:"] {
        let trouble = read(&images(1), JSON, &answer(&json!([{"url": wrong}]))).0.unwrap_err();
        assert_eq!(trouble.kind, Kind::Malformed, "{wrong}");
    }
}

/// Returns an event of a stream with an image.
fn image_event(kind: &str, image: &str) -> String {
    let data = json!({"type": kind, "b64_json": image, "size": "8x8", "output_format": "png"});
    format!("event: {kind}\ndata: {data}\n\n")
}

fn streamed(count: u64) -> OpenAi {
    let others = [("n".to_owned(), json!(count)), ("partial_images".to_owned(), json!(2))];
    let prompts = vec![Prompt::new(Input::Text("A white cat".into()))];
    let settings = Settings {
        api: Some(Api::Images),
        is_streaming: true,
        others: others.into_iter().collect(),
        ..Settings::default()
    };
    OpenAi::new(Arc::new(Workload { prompts, ..Workload::default() }), settings)
}

#[test]
fn a_stream_of_images_ends_with_the_last_image_and_its_preliminary_ones_are_no_output() {
    const PART: &str = "image_generation.partial_image";
    const IMAGE: &str = "image_generation.completed";
    let protocol = streamed(1);
    let request = protocol.request(0);
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    let expected = json!({"prompt": "A white cat", "stream": true, "n": 1, "partial_images": 2});
    assert_eq!(body, expected);
    assert!(request.fields.contains(&("accept", "text/event-stream".into())));
    // Images have no tokens whose times could be measured.
    assert!(!protocol.is_streaming());

    let parts = [image_event(PART, "Zm9v"), image_event(PART, "Zm9vYg")].concat();
    let whole = parts.clone() + &image_event(IMAGE, "Zm9vYmFy");
    let (said, beats, entry) = read(&protocol, EVENTS, &whole);
    assert_eq!((said.unwrap(), beats), ("an image of 6 bytes".into(), 0));
    assert_eq!((entry.class, entry.images, entry.parts), (Class::Whole, 1, 0));
    assert_eq!((entry.output, entry.counted_by), (None, TokenCounter::Nobody));
    assert!(entry.oddities.is_empty() && entry.contradictions.is_empty());
    // Edits have types of their own.
    let edited = image_event("image_edit.partial_image", "Zm9v")
        + &image_event("image_edit.completed", "Zm8");
    let (said, _, entry) = read(&protocol, EVENTS, &edited);
    assert_eq!((said.unwrap(), entry.class), ("an image of 2 bytes".into(), Class::Whole));

    let (said, _, entry) = read(&protocol, EVENTS, &parts);
    assert_eq!(said.unwrap_err().words, "the stream ended before its image");
    assert_eq!((entry.class, entry.images), (Class::Cut, 0));
    let (said, _, entry) = read(&streamed(2), EVENTS, &whole);
    assert_eq!(said.unwrap_err().words, "the answer has 1 of the 2 requested results");
    assert_eq!((entry.class, entry.images), (Class::Cut, 1));
    let both = whole.clone() + &whole;
    let (said, _, entry) = read(&streamed(2), EVENTS, &both);
    assert_eq!(said.unwrap(), "an image of 6 bytes\nan image of 6 bytes");
    assert_eq!((entry.class, entry.images), (Class::Whole, 2));

    let odd = parts.clone() + &image_event(IMAGE, "Zm9vY");
    assert_eq!(read(&protocol, EVENTS, &odd).0.unwrap_err().kind, Kind::Malformed);
    let error = json!({"type": "error", "error": {"code": "blocked", "message": "not this"}});
    let blocked = parts + &format!("event: error\ndata: {error}\n\n");
    assert!(read(&protocol, EVENTS, &blocked).0.unwrap_err().words.contains("not this"));
}

#[test]
fn fewer_images_and_what_is_no_image_are_no_success() {
    let (said, _, entry) = read(&images(2), JSON, &answer(&json!([{"b64_json": "Zm9v"}])));
    assert_eq!(said.unwrap_err().words, "the answer has 1 of the 2 requested results");
    assert_eq!((entry.class, entry.images), (Class::Cut, 1));
    let (_, _, entry) = read(&images(1), JSON, &answer(&json!([])));
    assert_eq!((entry.class, entry.images), (Class::Cut, 0));
    for empty in [json!([{}]), json!([{"url": "", "b64_json": ""}]), json!([{"url": null}])] {
        assert_eq!(read(&images(1), JSON, &answer(&empty)).2.class, Class::Empty, "{empty}");
    }
    for (wrong, words) in [
        (json!([{"b64_json": "Zm9vY"}]), "expected an image as Base64, found: Zm9vY"),
        (json!([{"b64_json": "not an image"}]), "expected an image as Base64"),
        (json!([{"url": "cat.png"}]), "expected an image as a URL, found: cat.png"),
    ] {
        let trouble = read(&images(1), JSON, &answer(&wrong)).0.unwrap_err();
        assert_eq!(trouble.kind, Kind::Malformed, "{wrong}");
        assert!(trouble.words.starts_with(words), "{trouble}");
    }
    for malformed in ["{}", "[]", r#"{"data": [1]}"#, "no JSON"] {
        let trouble = read(&images(1), JSON, malformed).0.unwrap_err();
        assert_eq!(trouble.kind, Kind::Malformed, "{malformed}: {trouble}");
    }
    let refused = r#"{"error": {"message": "rejected by the safety system"}}"#;
    assert_eq!(read(&images(1), JSON, refused).2.class, Class::InBand);
    // Errors in place of images.
    for error in [json!({"code": "blocked", "message": "not this"}), json!("not this")] {
        let items = json!([{"b64_json": "Zm9v", "error": null}, {"url": null, "error": error}]);
        let (said, _, entry) = read(&images(2), JSON, &answer(&items));
        assert!(said.unwrap_err().words.ends_with("in its answer: not this"), "{error}");
        assert_eq!(entry.class, Class::InBand);
    }
}
