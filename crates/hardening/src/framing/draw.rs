//! Random connections: answers, and where each of their parts ends.

use super::{Fault, ParsedConnection};
use crate::rng::Stream;

/// How a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// After the length that the head states.
    Sized,
    /// After a chunk of length 0.
    Chunked,
    /// With the connection.
    UntilClose,
}

/// An answer and the places of its parts among the bytes of the connection.
#[derive(Debug, Clone)]
struct Answer {
    status: u16,
    field: Vec<u8>,
    body: Vec<u8>,
    kind: Body,
    /// Place after the head.
    head_end: usize,
    /// Per byte of the body: the place after it.
    places: Vec<usize>,
    /// Place after the answer.
    end: usize,
}

/// The bytes of a connection.
#[derive(Debug, Clone, Default)]
pub struct Connection {
    /// All bytes.
    pub bytes: Vec<u8>,
    /// Faults in them.
    pub faults: Vec<Fault>,
    answers: Vec<Answer>,
    /// Place up to which the parser must have rejected the bytes.
    rejected_at: Option<usize>,
}

impl Connection {
    /// Returns what a parser must find among the first `length` bytes.
    pub fn expected_of(&self, length: usize) -> ParsedConnection {
        let mut found = ParsedConnection::default();
        for answer in self.answers.iter().filter(|answer| answer.head_end <= length) {
            let body: Vec<u8> = answer
                .body
                .iter()
                .zip(&answer.places)
                .map_while(|(byte, place)| (*place <= length).then_some(*byte))
                .collect();
            let whole = answer.end <= length || answer.kind == Body::UntilClose;
            found.answers.push((answer.status, body, whole));
            found.fields.push(answer.field.clone());
        }
        found.is_rejected = self.rejected_at.is_some_and(|at| length >= at);
        found
    }
}

/// Draws a stream of events with everything that the standard allows.
pub fn draw_events(draw: &mut Stream) -> Vec<u8> {
    let mut body = Vec::new();
    let ends: &[&[u8]] = &[b"\n", b"\n", b"\r\n", b"\r"];
    for _ in 0..draw.log_uniform(1.0, 30.0) as usize {
        let end = draw.pick(ends);
        for _ in 0..draw.below(4) {
            if draw.chance(0.05) {
                body.extend_from_slice(b"\xEF\xBB\xBF");
            }
            let field: &[u8] = draw.pick(&[
                &b"data: "[..],
                b"data:",
                b"data",
                b"data:  ",
                b"event: ",
                b"event",
                b": ",
                b"id: ",
                b"retry:",
                b"dat",
                b"datax:",
                b"data :",
                b"",
            ]);
            body.extend_from_slice(field);
            let is_bare = matches!(field, b"data" | b"event" | b"dat" | b"");
            if !is_bare || draw.chance(0.3) {
                for _ in 0..draw.log_uniform(1.0, 60.0) as usize {
                    let byte = draw.pick(&[b'a', b'{', b'"', b':', b' ', 0, 0xC3, 0xFF, b'z']);
                    body.push(byte);
                }
            }
            body.extend_from_slice(end);
        }
        if draw.chance(0.9) {
            body.extend_from_slice(end);
        }
    }
    if draw.chance(0.8) {
        body.extend_from_slice(b"data: [DONE]\n\n");
    }
    body
}

/// Draws the answers of a connection.
pub fn draw_connection(draw: &mut Stream) -> Connection {
    let mut connection = Connection::default();
    let last = draw.below(4);
    for number in 0..=last {
        let kind = match draw.below(4) {
            0 => Body::Sized,
            1 if number == last => Body::UntilClose,
            _ => Body::Chunked,
        };
        draw_answer(&mut connection, kind, draw);
        if connection.rejected_at.is_some() {
            break;
        }
    }
    connection
}

fn draw_answer(connection: &mut Connection, kind: Body, draw: &mut Stream) {
    if draw.chance(0.1) {
        connection.faults.push(Fault::Interim);
        let interim: &[u8] = draw.pick(&[
            &b"HTTP/1.1 100 Continue\r\n\r\n"[..],
            b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n",
        ]);
        connection.bytes.extend_from_slice(interim);
    }
    let status = draw.pick(&[200, 200, 200, 429, 500]);
    let body = draw_events(draw);
    let field: Vec<u8> = (0..draw.below(20)).map(|_| b'a' + draw.below(26) as u8).collect();
    let begin = connection.bytes.len();
    let head = match kind {
        Body::Sized => format!("content-length: {}\r\n", body.len()),
        Body::Chunked => "Transfer-Encoding: chunked\r\n".into(),
        Body::UntilClose => "connection: close\r\n".into(),
    };
    connection
        .bytes
        .extend_from_slice(format!("HTTP/1.1 {status} Fine\r\n{head}x-case:").as_bytes());
    connection.bytes.extend_from_slice(&field);
    if draw.chance(0.03) {
        // The client accepts heads below 64 KiB.
        connection.faults.push(Fault::LongHead);
        let length = draw.pick(&[60_000, 70_000, 200_000]);
        let name = format!("\r\nx-long: {}", "y".repeat(length));
        connection.bytes.extend_from_slice(name.as_bytes());
    }
    connection.bytes.extend_from_slice(b"\r\n\r\n");
    let head_end = connection.bytes.len();
    if head_end - begin > 64 << 10 {
        connection.rejected_at = Some(begin + (64 << 10));
        return;
    }
    let places = match kind {
        Body::Chunked => write_chunks(connection, &body, draw),
        Body::Sized | Body::UntilClose => {
            connection.bytes.extend_from_slice(&body);
            (head_end + 1..=connection.bytes.len()).collect()
        }
    };
    let end = connection.bytes.len();
    connection.answers.push(Answer { status, field, body, kind, head_end, places, end });
}

/// Appends the body in chunks; returns the place after each byte of the body.
fn write_chunks(connection: &mut Connection, body: &[u8], draw: &mut Stream) -> Vec<usize> {
    let (mut places, mut rest) = (Vec::new(), body);
    let has_details = draw.chance(0.3);
    if has_details {
        connection.faults.push(Fault::ChunkDetails);
    }
    let bytes = &mut connection.bytes;
    while !rest.is_empty() {
        let length = 1 + draw.below(rest.len() as u64) as usize;
        let (chunk, after) = rest.split_at(length);
        let size = draw
            .pick(
                &[format!("{length:x}"), format!("{length:X}"), format!("000{length:x}")]
                    .each_ref()
                    .map(String::as_str),
            )
            .to_owned();
        bytes.extend_from_slice(size.as_bytes());
        if has_details {
            let extension: &[u8] = draw.pick(&[&b""[..], b";a=b", b"; q=\"x;y\"", b" "]);
            bytes.extend_from_slice(extension);
        }
        bytes.extend_from_slice(b"\r\n");
        for byte in chunk {
            bytes.push(*byte);
            places.push(bytes.len());
        }
        bytes.extend_from_slice(b"\r\n");
        rest = after;
    }
    bytes.extend_from_slice(b"0\r\n");
    if has_details && draw.chance(0.5) {
        bytes.extend_from_slice(b"x-trailer: 1\r\nx-other: 2\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
    places
}
