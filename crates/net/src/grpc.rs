//! The parts of gRPC above HTTP/2, without sockets: length-prefixed messages, status codes, and
//! percent-encoded status messages.
//!
//! Source: "gRPC over HTTP2" (`PROTOCOL-HTTP2.md`) and "Status codes and their use in gRPC".

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;

use crate::coding::Coding;
use crate::exchange::Fields;
pub use crate::percent::decoded;
use crate::trouble::{Kind, Trouble, in_short};

/// The value of `content-type`; `application/grpc+proto` is the same.
pub const CONTENT_TYPE: &str = "application/grpc";
/// Field of the status, in trailers or in a head without a body.
pub const STATUS: &str = "grpc-status";
/// Field of the status message, percent-encoded.
pub const MESSAGE: &str = "grpc-message";
/// Field of the coding of compressed messages.
pub const ENCODING: &str = "grpc-encoding";
/// Field of the codings accepted in answers.
pub(crate) const ACCEPT_ENCODING: &str = "grpc-accept-encoding";
/// Bytes before each message: a compression flag and the length.
pub const PREFIX: usize = 5;
/// Maximum length of a message; longer ones are refused before they are received.
pub const MAX_MESSAGE: usize = 256 << 20;

dyno_loadgen::named_enum! {
    /// A status code. Each is at the position of its number in [`ALL`](Self::ALL).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[expect(missing_docs, reason = "the names are the specification's")]
    pub enum Code {
        Ok = "OK",
        Cancelled = "CANCELLED",
        Unknown = "UNKNOWN",
        InvalidArgument = "INVALID_ARGUMENT",
        DeadlineExceeded = "DEADLINE_EXCEEDED",
        NotFound = "NOT_FOUND",
        AlreadyExists = "ALREADY_EXISTS",
        PermissionDenied = "PERMISSION_DENIED",
        ResourceExhausted = "RESOURCE_EXHAUSTED",
        FailedPrecondition = "FAILED_PRECONDITION",
        Aborted = "ABORTED",
        OutOfRange = "OUT_OF_RANGE",
        Unimplemented = "UNIMPLEMENTED",
        Internal = "INTERNAL",
        Unavailable = "UNAVAILABLE",
        DataLoss = "DATA_LOSS",
        Unauthenticated = "UNAUTHENTICATED",
    }
}

impl Code {
    /// Returns the code of a number in a header field; [`Code::Unknown`] for any other text.
    #[must_use]
    pub fn parse(digits: &[u8]) -> Self {
        let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
        number.and_then(|number: usize| Self::ALL.get(number)).copied().unwrap_or(Self::Unknown)
    }

    /// Returns the kind of trouble of this code; `None` for success.
    pub fn kind(self) -> Option<Kind> {
        match self {
            Self::Ok => None,
            Self::ResourceExhausted | Self::Unavailable => Some(Kind::Refused),
            Self::InvalidArgument
            | Self::NotFound
            | Self::AlreadyExists
            | Self::PermissionDenied
            | Self::FailedPrecondition
            | Self::OutOfRange
            | Self::Unimplemented
            | Self::Unauthenticated => Some(Kind::Request),
            Self::DeadlineExceeded => Some(Kind::TimedOut),
            Self::Cancelled | Self::Unknown | Self::Aborted | Self::Internal | Self::DataLoss => {
                Some(Kind::Server)
            }
        }
    }
}

/// Returns an uncompressed message with its prefix.
pub fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut out = BytesMut::with_capacity(PREFIX + length);
    out.put_u8(0);
    out.put_u32(u32::try_from(length).expect("a message has less than 4 GiB"));
    message.encode(&mut out).expect("there is room for it");
    out.freeze()
}

/// Returns the single message of a body, compressed and flagged as such.
pub fn message_compressed(framed: &Bytes, coding: Coding) -> Bytes {
    let content = coding.compressed(framed.get(PREFIX..).unwrap_or_default());
    let mut out = BytesMut::with_capacity(PREFIX + content.len());
    out.put_u8(1);
    out.put_u32(u32::try_from(content.len()).expect("a message has less than 4 GiB"));
    out.extend_from_slice(&content);
    out.freeze()
}

/// Assembler of messages from bytes that are cut anywhere.
#[derive(Debug)]
pub struct Deframer {
    buffer: BytesMut,
    /// Coding of compressed messages.
    coding: Option<Coding>,
    /// Maximum bytes of a message, before and after decompression.
    most: usize,
}

impl Default for Deframer {
    /// Accepts uncompressed messages of up to [`MAX_MESSAGE`] bytes.
    fn default() -> Self {
        Self::new(None, MAX_MESSAGE)
    }
}

impl Deframer {
    /// Accepts messages of up to `most` bytes, of which some may be compressed.
    pub fn new(coding: Option<Coding>, most: usize) -> Self {
        Self { buffer: BytesMut::new(), coding, most }
    }

    /// Discards the rest of the previous answer, and reads the coding of the next one's messages
    /// from its head.
    ///
    /// # Errors
    /// An unsupported coding.
    pub fn begin(&mut self, fields: &dyn Fields) -> Result<(), Trouble> {
        self.buffer.clear();
        self.coding = Coding::of_field(fields.field(ENCODING)).map_err(|other| {
            let words = format!("messages are compressed as '{other}'");
            Trouble::new(Kind::Malformed, words)
        })?;
        Ok(())
    }

    /// Appends bytes of the body.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns whether messages are compressed.
    pub fn unpacks(&self) -> bool {
        self.coding.is_some()
    }

    /// Returns whether this many more bytes complete a message. Bytes that include the message's
    /// length are assumed to do so.
    pub fn completes(&self, bytes: usize) -> bool {
        match self.buffer.split_first_chunk::<PREFIX>() {
            Some((&[_, ref length @ ..], rest)) => {
                rest.len() + bytes >= u32::from_be_bytes(*length) as usize
            }
            None => true,
        }
    }

    /// Returns the next complete message, decompressed.
    ///
    /// # Errors
    /// A message above the limit, or compressed without a declared coding.
    pub fn pop(&mut self) -> Result<Option<Bytes>, Trouble> {
        Ok(match self.pop_compressed()? {
            Some((message, Some(coding))) => Some(coding.decompressed(&message, self.most)?),
            Some((message, None)) => Some(message),
            None => None,
        })
    }

    /// Returns the next complete message as it was sent, with its coding.
    ///
    /// # Errors
    /// A message above the limit, or compressed without a declared coding.
    pub(crate) fn pop_compressed(&mut self) -> Result<Option<(Bytes, Option<Coding>)>, Trouble> {
        let Some((&[flag, ref length @ ..], rest)) = self.buffer.split_first_chunk::<PREFIX>()
        else {
            return Ok(None);
        };
        let malformed = |words: String| Trouble::new(Kind::Malformed, words);
        let (length, most) = (u32::from_be_bytes(*length) as usize, self.most);
        if flag > 1 {
            return Err(malformed(format!("a message with flag {flag}")));
        }
        if length > most {
            return Err(malformed(format!("a message of {length} bytes; expected at most {most}")));
        }
        if rest.len() < length {
            return Ok(None);
        }
        let message = self.buffer.split_to(PREFIX + length).split_off(PREFIX);
        match (flag, self.coding) {
            (0, _) => Ok(Some((message.freeze(), None))),
            (_, Some(coding)) => Ok(Some((message.freeze(), Some(coding)))),
            (_, None) => Err(malformed("a compressed message without an encoding".into())),
        }
    }

    /// Returns the number of bytes of an incomplete message.
    pub fn left(&self) -> usize {
        self.buffer.len()
    }
}

/// Reads the status of a call from trailers, or from the head of an answer without a body; `None`
/// if it is missing.
///
/// # Errors
/// A status other than success.
pub fn status(fields: &dyn Fields) -> Result<Option<()>, Trouble> {
    let Some(status) = fields.field(STATUS) else {
        return Ok(None);
    };
    let code = Code::parse(status);
    match code.kind() {
        None => Ok(Some(())),
        Some(kind) => {
            let said = fields.field(MESSAGE).map(decoded).unwrap_or_default();
            let said = in_short(&String::from_utf8_lossy(&said));
            let words = match said.as_str() {
                "" => format!("gRPC status {}", code.name()),
                said => format!("gRPC status {}: {said}", code.name()),
            };
            Err(Trouble::new(kind, words))
        }
    }
}

/// Percent-encodes a text for a header field: bytes from space to `~` except `%` stay, others
/// become `%XX`.
pub fn encoded(words: &str) -> String {
    let mut out = String::with_capacity(words.len());
    for byte in words.bytes() {
        match byte {
            b'%' => out.push_str("%25"),
            b' '..=b'~' => out.push(byte.into()),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
