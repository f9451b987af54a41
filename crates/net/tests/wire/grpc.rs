use bytes::Bytes;
use dyno_net::grpc::{Code, Deframer, decoded, encoded, framed, status};
use dyno_net::oip::messages::ModelName;
use dyno_net::trouble::Kind;
use proptest::prelude::*;

use crate::fields;

#[test]
fn a_message_has_its_length_before_it() {
    let name = ModelName { name: "iris".into(), version: "2".into() };
    // Not compressed; 9 bytes; field 1 (bytes) of 4, field 2 (bytes) of 1.
    assert_eq!(&framed(&name)[..], b"\0\0\0\0\x09\x0a\x04iris\x12\x012");
}

#[test]
fn odd_messages_are_told() {
    let kind = |bytes: &[u8]| {
        let mut messages = Deframer::default();
        messages.push(bytes);
        messages.pop().map_err(|trouble| trouble.kind)
    };
    assert_eq!(kind(b"\0\0\0\0\x02a"), Ok(None));
    assert_eq!(kind(b"\0\0\0\0"), Ok(None));
    assert_eq!(kind(b"\x01\0\0\0\0"), Err(Kind::Malformed));
    assert_eq!(kind(b"\x07\0\0\0\0"), Err(Kind::Malformed));
    // Nobody waits for 4 GiB.
    assert_eq!(kind(b"\0\xff\xff\xff\xff"), Err(Kind::Malformed));
}

#[test]
fn a_status_is_told_with_its_words() {
    assert_eq!(status(&fields(&[])), Ok(None));
    assert_eq!(status(&fields(&[("grpc-status", "0")])), Ok(Some(())));
    let full = fields(&[("grpc-status", "8"), ("grpc-message", "queue%20full: 100%25%")]);
    let full = status(&full).unwrap_err();
    assert_eq!(full.kind, Kind::Refused);
    assert_eq!(full.words, "gRPC status RESOURCE_EXHAUSTED: queue full: 100%%");
    for (number, kind) in [("3", Kind::Request), ("4", Kind::TimedOut), ("13", Kind::Server)] {
        assert_eq!(status(&fields(&[("grpc-status", number)])).unwrap_err().kind, kind);
    }
    assert_eq!(Code::parse(b"99"), Code::Unknown);
    assert_eq!(Code::parse(b"x"), Code::Unknown);
    for (number, code) in Code::ALL.iter().enumerate() {
        assert_eq!(*code as usize, number);
    }
}

#[test]
fn words_are_encoded_as_the_specification_says() {
    assert_eq!(encoded("a b%~\u{e9}\n"), "a b%25~%C3%A9%0A");
    assert_eq!(decoded(b"%zz%4"), b"%zz%4");
}

proptest! {
    #[test]
    fn words_come_back(words in "\\PC*") {
        prop_assert_eq!(decoded(encoded(&words).as_bytes()), words.as_bytes());
    }

    #[test]
    fn messages_come_back_from_any_cut(
        bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..6),
        piece in 1_usize..9,
    ) {
        let mut stream = Vec::new();
        for body in &bodies {
            stream.push(0);
            stream.extend((body.len() as u32).to_be_bytes());
            stream.extend(body);
        }
        let (mut messages, mut found) = (Deframer::default(), Vec::<Bytes>::new());
        for piece in stream.chunks(piece) {
            messages.push(piece);
            while let Some(message) = messages.pop().unwrap() {
                found.push(message);
            }
        }
        prop_assert_eq!(messages.left(), 0);
        prop_assert_eq!(found, bodies);
    }
}
