//! What gRPC adds to HTTP/2, without sockets: messages with their lengths, status codes, and
//! percent-encoded words.
//!
//! Source: "gRPC over HTTP2" (`PROTOCOL-HTTP2.md`) and "Status codes and their use in gRPC".

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;

use crate::exchange::Fields;
use crate::trouble::{Kind, Trouble, in_short};

/// The value of `content-type`; `application/grpc+proto` is the same.
pub const CONTENT_TYPE: &str = "application/grpc";
/// Field of the status, in trailers or in a head without a body.
pub const STATUS: &str = "grpc-status";
/// Field of its words, percent-encoded.
pub const MESSAGE: &str = "grpc-message";
/// Bytes before each message: whether it is compressed, and its length.
pub const PREFIX: usize = 5;
/// A message that is longer is refused before it is collected.
pub const MAX_MESSAGE: usize = 1 << 30;

/// A status code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the specification's")]
pub enum Code {
    Ok = 0,
    Cancelled = 1,
    Unknown = 2,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    DataLoss = 15,
    Unauthenticated = 16,
}

impl Code {
    /// All of them; each is at the position of its number.
    pub const ALL: &[Self] = &[
        Self::Ok,
        Self::Cancelled,
        Self::Unknown,
        Self::InvalidArgument,
        Self::DeadlineExceeded,
        Self::NotFound,
        Self::AlreadyExists,
        Self::PermissionDenied,
        Self::ResourceExhausted,
        Self::FailedPrecondition,
        Self::Aborted,
        Self::OutOfRange,
        Self::Unimplemented,
        Self::Internal,
        Self::Unavailable,
        Self::DataLoss,
        Self::Unauthenticated,
    ];

    /// The code of this number, as a field has it; an odd one is [`Code::Unknown`].
    #[must_use]
    pub fn parse(digits: &[u8]) -> Self {
        let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
        number.and_then(|number: usize| Self::ALL.get(number)).copied().unwrap_or(Self::Unknown)
    }

    /// As the specification writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Cancelled => "CANCELLED",
            Self::Unknown => "UNKNOWN",
            Self::InvalidArgument => "INVALID_ARGUMENT",
            Self::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Self::NotFound => "NOT_FOUND",
            Self::AlreadyExists => "ALREADY_EXISTS",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Self::FailedPrecondition => "FAILED_PRECONDITION",
            Self::Aborted => "ABORTED",
            Self::OutOfRange => "OUT_OF_RANGE",
            Self::Unimplemented => "UNIMPLEMENTED",
            Self::Internal => "INTERNAL",
            Self::Unavailable => "UNAVAILABLE",
            Self::DataLoss => "DATA_LOSS",
            Self::Unauthenticated => "UNAUTHENTICATED",
        }
    }

    /// What a client makes of it; `None` for success.
    #[must_use]
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

/// A message with its prefix, not compressed.
#[must_use]
pub fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut out = BytesMut::with_capacity(PREFIX + length);
    out.put_u8(0);
    out.put_u32(u32::try_from(length).expect("a message has less than 4 GiB"));
    message.encode(&mut out).expect("there is room for it");
    out.freeze()
}

/// Puts messages together from bytes that are cut anywhere.
#[derive(Debug, Default)]
pub struct Deframer {
    buffer: BytesMut,
}

impl Deframer {
    /// Forgets what is left of the answer before.
    pub fn clear(&mut self) {
        self.buffer.clear();
    }

    /// Takes bytes of the body.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next message that is complete.
    ///
    /// # Errors
    /// A message that is compressed, which nobody asked for, or longer than [`MAX_MESSAGE`].
    pub fn pop(&mut self) -> Result<Option<Bytes>, Trouble> {
        let Some((&[flag, ref length @ ..], rest)) = self.buffer.split_first_chunk::<PREFIX>()
        else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length) as usize;
        match flag {
            0 if length > MAX_MESSAGE => {
                let words = format!("a message of {length} bytes, of which {MAX_MESSAGE} may be");
                Err(Trouble::new(Kind::Malformed, words))
            }
            0 if rest.len() < length => Ok(None),
            0 => {
                let mut whole = self.buffer.split_to(PREFIX + length);
                Ok(Some(whole.split_off(PREFIX).freeze()))
            }
            1 => Err(Trouble::new(Kind::Malformed, "a compressed message, which nobody asked for")),
            flag => Err(Trouble::new(Kind::Malformed, format!("a message with flag {flag}"))),
        }
    }

    /// Bytes of a message that is not complete.
    #[must_use]
    pub fn left(&self) -> usize {
        self.buffer.len()
    }
}

/// What trailers, or the head of an answer without a body, say of the call.
///
/// # Errors
/// A status that is none of success; `None` is one that is missing.
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

/// Words as a field can hold them: bytes from space to `~`, others and `%` as `%XX`.
#[must_use]
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

/// The reverse. What is no `%XX` stays as it is.
#[must_use]
pub fn decoded(field: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let pair = after.first_chunk::<2>().filter(|_| byte == b'%');
        let code = pair.and_then(|&[high, low]| Some(digit(high)? * 16 + digit(low)?));
        match code {
            Some(code) => {
                out.push(code as u8);
                rest = &after[2..];
            }
            None => {
                out.push(byte);
                rest = after;
            }
        }
    }
    out
}
