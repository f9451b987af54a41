//! Parser of HTTP/1.1 answers from bytes that are cut anywhere.

use std::borrow::Cow;

use super::chunked::{ChunkDecoder, ChunkPart};
use crate::exchange::Fields;
use crate::secrets::CUT;
use crate::trouble::{Kind, Trouble};

/// Reads consecutive answers from a connection.
///
/// ```
/// use dyno_net::client::{Framing, Part};
///
/// let mut framing = Framing::new();
/// let mut bytes = &b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"[..];
/// let head = framing.next(&mut bytes, |status, _fields| {
///     assert_eq!(status, 200);
///     Ok(())
/// });
/// assert_eq!(head.unwrap(), Some(Part::Head));
/// assert_eq!(framing.next(&mut bytes, |_, _| Ok(())).unwrap(), Some(Part::Data(b"hi")));
/// assert_eq!(framing.next(&mut bytes, |_, _| Ok(())).unwrap(), Some(Part::End));
/// ```
#[derive(Debug)]
pub struct Framing {
    at: FramingState,
    /// Incomplete head.
    head: Vec<u8>,
    /// Whether the connection may carry another request after this answer.
    is_reusable: bool,
}

#[derive(Debug)]
enum FramingState {
    Head,
    /// This many bytes remain.
    Sized(u64),
    Chunked(ChunkDecoder),
    UntilClose,
    /// The answer is complete.
    End,
}

/// A part of an answer, in the order head, data, end.
#[derive(Debug, PartialEq, Eq)]
pub enum Part<'b> {
    /// The head, which was handed to the caller's function.
    Head,
    /// Some of the body (at least one byte).
    Data(&'b [u8]),
    /// The answer is complete. Bytes behind it belong to no answer that was requested.
    End,
}

/// Number of fields in a head that need no memory of their own; inference servers send fewer.
const FEW_FIELDS: usize = 96;
/// Maximum number of fields in a head; gateways may add some for each filter that an answer passes.
pub(crate) const MOST_FIELDS: usize = 1_024;
/// Maximum length of a head, in bytes.
const LONGEST_HEAD: usize = 64 << 10;

/// Maximum number of bytes of what is no answer in a message.
const SHOWN_BYTES: usize = 24;

struct Head<'a>(&'a [httparse::Header<'a>]);

impl Fields for Head<'_> {
    fn field(&self, name: &str) -> Option<&[u8]> {
        self.0.field(name)
    }

    fn list(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        self.0.list(name)
    }
}

impl Framing {
    /// Returns the state before the first answer of a connection.
    #[expect(clippy::new_without_default, reason = "a connection begins with it")]
    pub fn new() -> Self {
        Self { at: FramingState::Head, head: Vec::new(), is_reusable: true }
    }

    /// Prepares for the next answer.
    pub fn restart(&mut self) {
        self.at = FramingState::Head;
        self.head.clear();
    }

    /// Returns whether the connection may carry another request after this answer.
    pub fn is_reusable(&self) -> bool {
        self.is_reusable
    }

    /// Returns whether the end of the connection ends the answer.
    pub fn ends_with_connection(&self) -> bool {
        matches!(self.at, FramingState::UntilClose)
    }

    /// Takes the next part from the front of `bytes`; `None` if they are used up.
    ///
    /// # Errors
    /// The bytes are not an HTTP/1.1 answer; the connection is unusable afterwards.
    pub fn next<'b>(
        &mut self,
        bytes: &mut &'b [u8],
        on_head: impl FnOnce(u16, &dyn Fields) -> Result<(), Trouble>,
    ) -> Result<Option<Part<'b>>, Trouble> {
        match &mut self.at {
            FramingState::Head => self.next_head(bytes, on_head),
            FramingState::Sized(0) => {
                self.at = FramingState::End;
                Ok(Some(Part::End))
            }
            FramingState::UntilClose | FramingState::Sized(_) | FramingState::Chunked(_)
                if bytes.is_empty() =>
            {
                Ok(None)
            }
            FramingState::Sized(left) => {
                let n = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                let (data, rest) = bytes.split_at(n);
                (*bytes, *left) = (rest, *left - n as u64);
                Ok(Some(Part::Data(data)))
            }
            FramingState::Chunked(chunked) => match chunked.next(bytes) {
                Ok(ChunkPart::Data(data)) => Ok(Some(Part::Data(data))),
                Ok(ChunkPart::Nothing) => Ok(None),
                Ok(ChunkPart::End) => {
                    self.at = FramingState::End;
                    Ok(Some(Part::End))
                }
                Err(wrong) => Err(malformed(wrong.0)),
            },
            FramingState::UntilClose => Ok(Some(Part::Data(std::mem::take(bytes)))),
            FramingState::End => Ok(None),
        }
    }

    fn next_head<'b>(
        &mut self,
        bytes: &mut &'b [u8],
        on_head: impl FnOnce(u16, &dyn Fields) -> Result<(), Trouble>,
    ) -> Result<Option<Part<'b>>, Trouble> {
        let known = self.head.len();
        if known > 0 {
            // The head is collected until it is complete and parsed only after a line end, so that
            // a head that comes byte by byte does not cost quadratic time.
            let n = bytes.len().min(LONGEST_HEAD - known);
            self.head.extend_from_slice(&bytes[..n]);
            if memchr::memchr(b'\n', &bytes[..n]).is_none() && self.head.len() < LONGEST_HEAD {
                *bytes = &[];
                return Ok(None);
            }
        }
        let head = std::mem::take(&mut self.head);
        // The limit also holds for a head that comes in one piece.
        let begin = if known > 0 { &head } else { &bytes[..bytes.len().min(LONGEST_HEAD)] };
        let parsed = self.parse_heads(begin, on_head);
        self.head = head;
        match parsed? {
            Some(len) => {
                *bytes = &bytes[len - known..];
                self.head.clear();
                Ok(Some(Part::Head))
            }
            None => {
                if known == 0 {
                    self.head.extend_from_slice(bytes);
                }
                if self.head.len() >= LONGEST_HEAD {
                    return Err(malformed("its header is longer than 64 KiB"));
                }
                *bytes = &[];
                Ok(None)
            }
        }
    }

    /// Parses the head of an answer and those of interim answers (1xx) before it. Returns their
    /// length; `None` if they are incomplete.
    fn parse_heads(
        &mut self,
        bytes: &[u8],
        on_head: impl FnOnce(u16, &dyn Fields) -> Result<(), Trouble>,
    ) -> Result<Option<usize>, Trouble> {
        let mut from = 0;
        loop {
            let (mut few, mut many) = ([httparse::EMPTY_HEADER; FEW_FIELDS], Vec::new());
            let mut response = httparse::Response::new(&mut few);
            // A field that continues on the next line is obsolete, but a client must read it (RFC 9112,
            // section 5.2). Blanks before the colon are read as by other clients.
            let mut config = httparse::ParserConfig::default();
            config
                .allow_obsolete_multiline_headers_in_responses(true)
                .allow_spaces_after_header_name_in_responses(true);
            let mut parsed = config.parse_response(&mut response, &bytes[from..]);
            if parsed == Err(httparse::Error::TooManyHeaders) {
                many.resize(MOST_FIELDS, httparse::EMPTY_HEADER);
                response = httparse::Response::new(&mut many);
                parsed = config.parse_response(&mut response, &bytes[from..]);
            }
            let len = match parsed {
                Ok(httparse::Status::Complete(len)) => len,
                Ok(httparse::Status::Partial) => return Ok(None),
                Err(error) => return Err(no_http(&bytes[from..], error)),
            };
            from += len;
            let status = response.code.expect("a whole head has a status");
            match status {
                100 | 102..=199 => continue,
                101 => {
                    return Err(malformed(
                        "it switches to a protocol that the client did not \
                     request",
                    ));
                }
                _ => {}
            }
            let fields = Head(response.headers);
            let is_first = response.version == Some(1);
            self.is_reusable = keeps_alive(is_first, fields.list("connection").as_deref());
            self.at = body(status, &fields)?;
            if matches!(self.at, FramingState::UntilClose) {
                self.is_reusable = false;
            }
            on_head(status, &fields)?;
            return Ok(Some(from));
        }
    }
}

fn malformed(why: &str) -> Trouble {
    Trouble::new(Kind::Malformed, format!("the answer is not HTTP/1.1: {why}"))
}

fn no_http(bytes: &[u8], error: httparse::Error) -> Trouble {
    let hint = match bytes {
        // HTTP/2 begins with a SETTINGS frame; the other pattern is a TLS alert.
        [0, 0, _, 4, ..] => "; the server uses HTTP/2",
        [0x15, 3, ..] => "; the server uses https",
        _ => "",
    };
    let is_cut = bytes.len() > SHOWN_BYTES;
    let begin = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_BYTES)]);
    // The mark lets a secret that is cut off be hidden; half a character could not precede it.
    let begin = if is_cut {
        format!("{}{CUT}", begin.trim_end_matches('\u{fffd}'))
    } else {
        begin.into_owned()
    };
    malformed(&format!("{error}; it begins with {begin:?}{hint}"))
}

/// Returns whether the connection persists (RFC 9112, section 9.3).
fn keeps_alive(is_1_1: bool, connection: Option<&[u8]>) -> bool {
    let says = |word: &str| {
        connection.is_some_and(|value| {
            value
                .split(|&b| b == b',')
                .any(|one| one.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
        })
    };
    !says("close") && (is_1_1 || says("keep-alive"))
}

/// Returns how the body of an answer ends (RFC 9112, section 6.3); no request is a HEAD.
fn body(status: u16, fields: &Head<'_>) -> Result<FramingState, Trouble> {
    if matches!(status, 204 | 304) {
        return Ok(FramingState::Sized(0));
    }
    // An older form of no coding (RFC 2616, section 3.6).
    let is_coding = |coding: &&[u8]| !coding.eq_ignore_ascii_case(b"identity");
    let codings = fields.list("transfer-encoding").unwrap_or_default();
    let mut codings = codings.split(|&b| b == b',').map(<[u8]>::trim_ascii);
    if let Some(last) = codings.rfind(|coding| !coding.is_empty() && is_coding(coding)) {
        return Ok(if last.eq_ignore_ascii_case(b"chunked") {
            FramingState::Chunked(ChunkDecoder::new())
        } else {
            FramingState::UntilClose
        });
    }
    let mut length = None;
    let lengths = fields.0.iter().filter(|f| f.name.eq_ignore_ascii_case("content-length"));
    for value in lengths.flat_map(|field| field.value.split(|&b| b == b',')) {
        let value = value.trim_ascii();
        let is_number =
            !value.is_empty() && value.len() <= 18 && value.iter().all(u8::is_ascii_digit);
        if !is_number {
            let value = String::from_utf8_lossy(value).into_owned();
            return Err(malformed(&format!("its content-length is {value:?}")));
        }
        let value = value.iter().fold(0, |n, digit| n * 10 + u64::from(digit - b'0'));
        if length.is_some_and(|other| other != value) {
            return Err(malformed("it has two different lengths"));
        }
        length = Some(value);
    }
    Ok(length.map_or(FramingState::UntilClose, FramingState::Sized))
}

#[cfg(test)]
mod tests;
