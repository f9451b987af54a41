//! Answers over HTTP/1.1 with server-sent events, cut at any byte, through the parsers of the
//! client. An independent splitter and the generator itself state what the parsers must find.

mod draw;
mod splitter;

use dyno_net::client::{Framing, Part};
use dyno_net::exchange::Fields;
use dyno_net::sse::{Event, Parser};

use crate::oracle::Finding;
use crate::rng::Stream;
pub use draw::{Body, Connection, draw_connection, draw_events};
use splitter::events_of;

dyno_loadgen::named_enum! {
    /// Kind of what is done to the bytes.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Fault {
        /// The bytes come in pieces.
        Cut = "cut",
        /// Each byte comes alone.
        EachByte = "each-byte",
        /// The connection ends before the last byte.
        Truncated = "truncated",
        /// Chunks have extensions, or the body has trailers.
        ChunkDetails = "chunk-details",
        /// Interim answers come before an answer.
        Interim = "interim",
        /// The head is longer than the client accepts.
        LongHead = "long-head",
    }
}

/// An event as its type and its data.
pub type OwnedEvent = (Vec<u8>, Vec<u8>);

/// What the parsers found on a connection.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ParsedConnection {
    /// Per answer: its status, its body, and whether it was complete.
    pub answers: Vec<(u16, Vec<u8>, bool)>,
    /// Values of the field `x-case` per answer.
    pub fields: Vec<Vec<u8>>,
    /// Events of all complete and incomplete bodies.
    pub events: Vec<OwnedEvent>,
    /// Whether the parser rejected the bytes.
    pub is_rejected: bool,
}

/// Draws a connection, parses it in pieces, and returns what is wrong. `injected` counts the faults.
#[must_use]
pub fn check(seed: u64, index: u64, injected: &mut [u64; Fault::ALL.len()]) -> Vec<Finding> {
    let mut draw = Stream::new(seed, index, 300);
    let connection = draw_connection(&mut draw);
    for fault in &connection.faults {
        injected[*fault as usize] += 1;
    }
    let mut bytes = &connection.bytes[..];
    let is_truncated = draw.chance(0.3);
    if is_truncated {
        bytes = &bytes[..draw.below(bytes.len() as u64) as usize];
        injected[Fault::Truncated as usize] += 1;
    }
    let pieces = if draw.chance(0.1) {
        injected[Fault::EachByte as usize] += 1;
        bytes.chunks(1).collect()
    } else {
        injected[Fault::Cut as usize] += 1;
        cut(bytes, &mut draw)
    };
    let found = parse(&pieces);
    let expected = connection.expected_of(bytes.len());
    let mut findings = Vec::new();
    let mut compare = |field, expected: String, reported: String, rule| {
        if expected != reported {
            findings.push(Finding { field, expected, reported, rule });
        }
    };
    let show = |found: &ParsedConnection| {
        let answers: Vec<_> = found
            .answers
            .iter()
            .map(|(status, body, whole)| {
                format!("{status} {:?} {whole}", String::from_utf8_lossy(body))
            })
            .collect();
        let fields: Vec<_> = found.fields.iter().map(|f| String::from_utf8_lossy(f)).collect();
        format!("rejected: {}, {fields:?} {answers:?}", found.is_rejected)
    };
    compare("answers", show(&expected), show(&found), "RFC 9112, sections 6 and 7");
    let whole = parse(&[bytes]);
    compare("cuts", show(&whole), show(&found), "cuts change nothing");
    let bodies = expected.answers.iter().flat_map(|(_, body, _)| events_of(body));
    let bodies = format!("{:?}", bodies.collect::<Vec<_>>());
    compare("events", bodies, format!("{:?}", found.events), "HTML standard, section 9.2.6");
    findings
}

/// Cuts bytes into pieces at random places; some pieces are empty.
fn cut<'b>(bytes: &'b [u8], draw: &mut Stream) -> Vec<&'b [u8]> {
    let count = draw.log_uniform(1.0, 40.0) as usize;
    let mut places: Vec<usize> =
        (0..count).map(|_| draw.below(bytes.len() as u64 + 1) as usize).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|place| &bytes[place[0]..place[1]]).collect()
}

/// Parses the pieces of a connection that then ends.
pub fn parse(pieces: &[&[u8]]) -> ParsedConnection {
    let (mut framing, mut found) = (Framing::new(), ParsedConnection::default());
    let mut sse = Parser::default();
    for piece in pieces {
        let mut rest = *piece;
        loop {
            let mut head = None;
            let next = framing.next(&mut rest, |status, fields: &dyn Fields| {
                head = Some((status, fields.field("x-case").unwrap_or_default().to_vec()));
                Ok(())
            });
            if let Some((status, field)) = head {
                found.answers.push((status, Vec::new(), false));
                found.fields.push(field);
            }
            match next {
                Ok(None) => break,
                Ok(Some(Part::Head)) => {}
                Ok(Some(Part::Data(data))) => {
                    let body = &mut found.answers.last_mut().expect("after a head").1;
                    body.extend_from_slice(data);
                    read_events(&mut found.events, |take| sse.push(data, take).is_ok());
                }
                Ok(Some(Part::End)) => {
                    found.answers.last_mut().expect("after a head").2 = true;
                    read_events(&mut found.events, |take| sse.finish(take).is_ok());
                    framing.restart();
                }
                Err(_) => {
                    found.is_rejected = true;
                    return found;
                }
            }
        }
    }
    if let Some(last) = found.answers.last_mut()
        && !last.2
    {
        last.2 = framing.ends_with_connection();
        read_events(&mut found.events, |take| sse.finish(take).is_ok());
    }
    found
}

fn read_events(events: &mut Vec<OwnedEvent>, read: impl FnOnce(&mut dyn FnMut(Event<'_>)) -> bool) {
    let mut take = |event: Event<'_>| events.push((event.name.to_vec(), event.data.to_vec()));
    assert!(read(&mut take), "streams of this size are accepted");
}
