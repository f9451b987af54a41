//! Answers of every framing, cut anywhere, and invalid bytes.

use proptest::prelude::*;

use super::*;

/// Content of a connection: status and body of each whole answer, and the state after it.
#[derive(Debug, PartialEq, Eq)]
struct AnswerLog {
    answers: Vec<(u16, Vec<u8>, bool)>,
    begun: bool,
    wrong: Option<String>,
}

fn read(pieces: &[&[u8]]) -> AnswerLog {
    let (mut framing, mut status, mut body) = (Framing::new(), 0, Vec::new());
    let mut read = AnswerLog { answers: Vec::new(), begun: false, wrong: None };
    for piece in pieces {
        let mut bytes = *piece;
        loop {
            let part = framing.next(&mut bytes, |code, fields| {
                status = code;
                assert_eq!(fields.field("x-absent"), None);
                Ok(())
            });
            match part {
                Ok(None) => break,
                Ok(Some(Part::Head)) => {}
                Ok(Some(Part::Data(data))) => body.extend_from_slice(data),
                Ok(Some(Part::End)) => {
                    read.answers.push((status, std::mem::take(&mut body), framing.is_reusable()));
                    framing.restart();
                    if bytes.is_empty() {
                        break;
                    }
                }
                Err(trouble) => {
                    read.wrong = Some(trouble.words);
                    return read;
                }
            }
        }
    }
    read.begun = !matches!(framing.at, FramingState::Head) || !framing.head.is_empty();
    if framing.ends_with_connection() {
        read.answers.push((status, body, false));
        read.begun = false;
    }
    read
}

const WIRE: &[&[u8]] = &[
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x\r\nde\r\n0\r\nt: u\r\n\r\n",
    b"HTTP/1.1 103 Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 429 Later\r\ncontent-length: 2, 2\r\n\r\nno",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: Identity\r\ncontent-length: 2\r\n\r\nid",
    b"HTTP/1.0 200 OK\r\nconnection: Keep-Alive\r\ncontent-length: 1\r\n\r\n!",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: identity\r\ntransfer-encoding: chunked\r\n\r\n1\r\n?\r\n0\r\n\r\n",
];

fn expected() -> Vec<(u16, Vec<u8>, bool)> {
    let of = |status, body: &[u8]| (status, body.to_vec(), true);
    vec![
        of(200, b"hello"),
        of(200, b""),
        of(204, b""),
        of(503, b"abcde"),
        of(429, b"no"),
        of(200, b"id"),
        of(200, b"!"),
        of(200, b"?"),
    ]
}

#[test]
fn each_kind_of_body_ends_where_it_should() {
    let wire = WIRE.concat();
    assert_eq!(read(&[&wire]), AnswerLog { answers: expected(), begun: false, wrong: None });
    let bytes: Vec<&[u8]> = wire.chunks(1).collect();
    assert_eq!(read(&bytes), AnswerLog { answers: expected(), begun: false, wrong: None });
}

#[test]
fn a_body_without_length_ends_with_the_connection() {
    let wire: &[u8] = b"HTTP/1.0 200 OK\r\n\r\nall of it";
    let read = read(&[wire]);
    assert_eq!(read.answers, [(200, b"all of it".to_vec(), false)]);
}

#[test]
fn a_head_may_have_many_fields() {
    for fields in [FEW_FIELDS, MOST_FIELDS, MOST_FIELDS + 1] {
        let fields: String = (1..fields).map(|n| format!("x-{n}: a\r\n")).collect();
        let wire = format!("HTTP/1.1 200 OK\r\n{fields}content-length: 2\r\n\r\nhi");
        let bytes: Vec<&[u8]> = wire.as_bytes().chunks(1_000).collect();
        let is_read = wire.len() <= LONGEST_HEAD && fields.lines().count() < MOST_FIELDS;
        for read in [read(&[wire.as_bytes()]), read(&bytes)] {
            match &read.wrong {
                None => assert_eq!(read.answers, [(200, b"hi".to_vec(), true)]),
                Some(words) => assert!(words.contains("too many headers"), "{words}"),
            }
            assert_eq!(read.wrong.is_none(), is_read);
        }
    }
}

#[test]
fn a_connection_is_used_again_only_if_both_sides_want_to() {
    let reusable = |head: &str| read(&[head.as_bytes()]).answers[0].2;
    assert!(reusable("HTTP/1.1 204 x\r\n\r\n"));
    assert!(reusable("HTTP/1.1 204 x\r\nConnection: upgrade, keep-alive\r\n\r\n"));
    assert!(!reusable("HTTP/1.1 204 x\r\nConnection: Upgrade , CLOSE\r\n\r\n"));
    assert!(!reusable("HTTP/1.1 204 x\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n"));
    assert!(!reusable("HTTP/1.0 204 x\r\n\r\n"));
    assert!(!reusable("HTTP/1.0 204 x\r\nConnection: keep-alive, close\r\n\r\n"));
}

#[test]
fn a_field_may_continue_on_the_next_line_and_have_blanks_before_its_colon() {
    let wire: &[u8] = b"HTTP/1.1 200 OK\r\nx-note: a\r\n  b\r\ncontent-length : 2\r\n\r\nok";
    let bytes: Vec<&[u8]> = wire.chunks(1).collect();
    for pieces in [vec![wire], bytes] {
        assert_eq!(read(&pieces).answers, [(200, b"ok".to_vec(), true)]);
    }
}

#[test]
fn what_is_no_answer_is_said() {
    let wrong = |wire: &[u8]| read(&[wire]).wrong.unwrap_or_default();
    assert!(wrong(b"SSH-2.0-OpenSSH\r\n").contains("\"SSH-2.0-OpenSSH\\r\\n\""));
    assert!(wrong(&[0, 0, 18, 4, 0, 0, 0, 0, 0, 0]).contains("uses HTTP/2"));
    assert!(wrong(&[0x15, 3, 1, 0, 2, 2, 22]).contains("uses https"));
    assert!(wrong(b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n").contains("\"-1\""));
    assert!(
        wrong(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n")
            .contains("two different lengths")
    );
    assert!(wrong(b"HTTP/1.1 101 Switch\r\n\r\n").contains("protocol that the client did not"));
    assert!(
        wrong(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz").contains("hexadecimal")
    );
    let long = [b"HTTP/1.1 200 OK\r\na: ".to_vec(), vec![b'x'; LONGEST_HEAD]].concat();
    assert!(wrong(&long).contains("64 KiB"));
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(MOST_FIELDS + 1));
    assert!(!wrong(many.as_bytes()).is_empty());
}

proptest! {
    #[test]
    fn any_cut_gives_the_same_answers(cuts in prop::collection::vec(0_usize..400, 0..12)) {
        let wire = WIRE.concat();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(wire.len())).collect();
        cuts.extend([0, wire.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &wire[pair[0]..pair[1]]).collect();
        prop_assert_eq!(read(&pieces), AnswerLog { answers: expected(), begun: false, wrong: None });
    }

    #[test]
    fn bytes_of_any_kind_end_in_words_and_never_in_a_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        which in 0..WIRE.len(),
        at in 0_usize..60,
    ) {
        let mut wire = WIRE[which].to_vec();
        let at = at.min(wire.len());
        wire.splice(at..at, bytes);
        let whole = read(&[&wire]);
        let pieces: Vec<&[u8]> = wire.chunks(3).collect();
        let cut = read(&pieces);
        prop_assert_eq!(whole.answers, cut.answers);
        prop_assert_eq!(whole.wrong.is_some(), cut.wrong.is_some());
    }
}

#[test]
fn a_secret_in_what_is_no_answer_can_be_hidden() {
    let secret = "sesame-0123456789".to_owned();
    let wrong = read(&[format!("HTTP/9 {secret}\r\n\r\n").as_bytes()]).wrong.unwrap();
    assert!(wrong.contains("it begins with \"HTTP/9 sesame-0123456789...\""), "{wrong}");
    let longer = read(&[format!("HTTP/9 no {secret}\r\n\r\n").as_bytes()]).wrong.unwrap();
    for wrong in [wrong, longer] {
        let shown = crate::secrets::hide(&wrong, &[], std::slice::from_ref(&secret));
        assert!(!shown.contains("sesame") && shown.contains("***..."), "{shown}");
    }
    let short = read(&[b"no http\r\n\r\n"]).wrong.unwrap();
    assert!(short.ends_with("it begins with \"no http\\r\\n\\r\\n\""), "{short}");
}
