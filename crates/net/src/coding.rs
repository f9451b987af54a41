//! Content codings, which compress bodies and messages.
//!
//! Sources: RFC 9110, section 8.4 (HTTP); RFC 7932 (Brotli); "gRPC compression", where each message is
//! compressed separately.

use std::io::{self, Write as _};
use std::str::FromStr;

use brotli_decompressor::DecompressorWriter;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::{DeflateDecoder, GzEncoder, MultiGzDecoder, ZlibDecoder, ZlibEncoder};

use crate::protocol::{ReadProgress, Reader};
use crate::trouble::{Kind, Trouble};

/// A content coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// RFC 1952.
    Gzip,
    /// RFC 1950, which HTTP and gRPC call deflate.
    Deflate,
}

impl Coding {
    /// Name in header fields.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
        }
    }

    /// Returns the coding of a `content-encoding` or `grpc-encoding` value; `None` for uncompressed
    /// content.
    ///
    /// # Errors
    /// The name of another coding.
    pub(crate) fn of_field(value: Option<&[u8]>) -> Result<Option<Self>, String> {
        let name = coding_name(value);
        match &*name {
            "" => Ok(None),
            "gzip" | "x-gzip" => Ok(Some(Self::Gzip)),
            "deflate" => Ok(Some(Self::Deflate)),
            _ => Err(name),
        }
    }

    /// Returns the first supported coding in a client's `accept-encoding` or
    /// `grpc-accept-encoding`.
    pub fn accepted(value: &str) -> Option<Self> {
        value.split(',').find_map(|one| {
            let (name, weight) = one.split_once(';').unwrap_or((one, ""));
            let weight = weight.trim().strip_prefix("q=").map(str::parse);
            let is_refused = weight.is_some_and(|weight| weight.unwrap_or(0.0) <= 0.0);
            name.trim().parse().ok().filter(|_| !is_refused)
        })
    }

    /// Returns the compressed content.
    pub fn compressed(self, content: &[u8]) -> Bytes {
        let (out, level) = (Vec::new(), Compression::default());
        let written = match self {
            Self::Gzip => {
                let mut to = GzEncoder::new(out, level);
                to.write_all(content).and_then(|()| to.finish())
            }
            Self::Deflate => {
                let mut to = ZlibEncoder::new(out, level);
                to.write_all(content).and_then(|()| to.finish())
            }
        };
        written.expect("memory takes all").into()
    }

    /// Returns the decompressed content.
    ///
    /// # Errors
    /// Bytes that do not have this coding, more than `most` bytes of content, or more than [`RATIO`]
    /// bytes of content for each compressed one.
    pub fn decompressed(self, bytes: &[u8], most: usize) -> Result<Bytes, DecodeError> {
        Decoder::new(self).decompressed(bytes, most)
    }
}

/// Returns the name in a `content-encoding` or `grpc-encoding` value, or the whole value if it has several;
/// empty for uncompressed content.
fn coding_name(value: Option<&[u8]>) -> String {
    let names = value.unwrap_or_default().trim_ascii().to_ascii_lowercase();
    let codings = names.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    let mut codings = codings.filter(|name| !matches!(*name, b"" | b"identity"));
    let first = codings.next().unwrap_or_default();
    // A gateway may repeat the field of the server behind it.
    let has_one = codings.all(|name| name == first);
    String::from_utf8_lossy(if has_one { first } else { &names }).into_owned()
}

impl FromStr for Coding {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        [Self::Gzip, Self::Deflate].into_iter().find(|coding| coding.name() == text).ok_or(())
    }
}

/// Returns the message about an answer with an unsupported coding.
pub(crate) fn unsupported(name: &str) -> String {
    format!("the answer is compressed with '{name}'; expected gzip, deflate, br or none")
}

/// Maximum ratio of decompressed to compressed bytes. Tensors and texts are below 20; content that was
/// made to keep a server busy reaches 1,032.
pub const RATIO: usize = 128;

/// Bytes of decompressed content that are accepted at any ratio.
pub(crate) const RATIO_FREE: usize = 1 << 20;

/// Reason why content cannot be decompressed.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// It exceeds the limit.
    #[error("it is too long")]
    TooLong,
    /// It expands too much.
    #[error("it expands to more than {RATIO} times its size")]
    TooDense,
    /// The bytes are invalid for their coding, or incomplete.
    #[error("{0}")]
    Broken(io::Error),
}

impl From<DecodeError> for Trouble {
    fn from(error: DecodeError) -> Self {
        Self::new(Kind::Malformed, format!("compressed content cannot be read: {error}"))
    }
}

/// Compressed bytes per step, which limits the memory of highly compressed content.
const PIECE: usize = 4 << 10;

/// Lower half of the first byte of content by RFC 1950: the method deflate.
const WRAPPED: u8 = 8;

/// Maximum number of bytes of content per step. Deflate reaches half of it.
const MOST_PER_PIECE: usize = PIECE << 11;

/// Size of the buffer of a decompressor of Brotli.
const BUFFER: usize = 4 << 10;

/// Content that has not been passed on.
#[derive(Default)]
pub(crate) struct Content(Vec<u8>);

impl io::Write for Content {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MOST_PER_PIECE {
            return Err(io::Error::other(DecodeError::TooDense));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Decompressor of bytes that are cut anywhere.
pub(crate) enum Decoder {
    Gzip(MultiGzDecoder<Content>),
    Deflate(ZlibDecoder<Content>),
    /// Deflate without the wrapper of RFC 1950, as some servers send it (RFC 9110, section 8.4.1.2).
    Bare(DeflateDecoder<Content>),
    /// RFC 7932. Requests do not permit it, but some gateways compress all answers with it.
    Brotli(Box<DecompressorWriter<Content>>),
}

impl Decoder {
    pub(crate) fn new(coding: Coding) -> Self {
        match coding {
            Coding::Gzip => Self::Gzip(MultiGzDecoder::new(Content::default())),
            Coding::Deflate => Self::Deflate(ZlibDecoder::new(Content::default())),
        }
    }

    /// Returns the decompressor of the body of an answer with this `content-encoding`; `None` if it is not
    /// compressed.
    ///
    /// # Errors
    /// The name of an unsupported coding.
    pub(crate) fn of_answer(value: Option<&[u8]>) -> Result<Option<Self>, String> {
        if coding_name(value) == "br" {
            let writer = DecompressorWriter::new(Content::default(), BUFFER);
            return Ok(Some(Self::Brotli(Box::new(writer))));
        }
        Ok(Coding::of_field(value)?.map(Self::new))
    }

    /// Returns the content of a whole body.
    ///
    /// # Errors
    /// As [`Coding::decompressed`].
    pub(crate) fn decompressed(mut self, bytes: &[u8], most: usize) -> Result<Bytes, DecodeError> {
        let mut all = Vec::new();
        let dense = bytes.len().saturating_mul(RATIO).max(RATIO_FREE);
        let grown = self.push(bytes, |content| {
            all.extend_from_slice(content);
            match all.len() {
                length if length > most => Err(DecodeError::TooLong),
                length if length > dense => Err(DecodeError::TooDense),
                _ => Ok(()),
            }
        });
        grown?;
        self.end()?;
        Ok(all.into())
    }

    /// Takes bytes, and passes on their content in pieces.
    pub(crate) fn push<E: From<DecodeError>>(
        &mut self,
        bytes: &[u8],
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let broken = |error| E::from(DecodeError::Broken(error));
        if let (Self::Deflate(to), [first, ..]) = (&*self, bytes)
            && to.total_in() == 0
            && first & 0xf != WRAPPED
        {
            *self = Self::Bare(DeflateDecoder::new(Content::default()));
        }
        for piece in bytes.chunks(PIECE) {
            let written = match self {
                Self::Gzip(to) => to.write_all(piece).and_then(|()| to.flush()),
                Self::Deflate(to) => to.write_all(piece).and_then(|()| to.flush()),
                Self::Bare(to) => to.write_all(piece).and_then(|()| to.flush()),
                Self::Brotli(to) => to.write_all(piece),
            };
            written.map_err(broken)?;
            self.hand_on(&mut take)?;
        }
        Ok(())
    }

    fn hand_on<E>(&mut self, take: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let Content(content) = match self {
            Self::Gzip(to) => to.get_mut(),
            Self::Deflate(to) => to.get_mut(),
            Self::Bare(to) => to.get_mut(),
            Self::Brotli(to) => to.get_mut(),
        };
        let taken = if content.is_empty() { Ok(()) } else { take(content) };
        content.clear();
        taken
    }

    /// Takes bytes of a body, and passes their content on to the reader of the answer.
    pub(crate) fn read(
        &mut self,
        bytes: &[u8],
        reader: &mut dyn Reader,
    ) -> Result<ReadProgress, Trouble> {
        let mut heard = ReadProgress::default();
        self.push::<Trouble>(bytes, |content| {
            let more = reader.data(content)?;
            heard.beats = heard.beats.saturating_add(more.beats);
            heard.is_done |= more.is_done;
            heard.has_more = more.has_more || more.beats == 0 && heard.has_more;
            Ok(())
        })?;
        Ok(heard)
    }

    /// Checks that the content is complete.
    pub(crate) fn end(&mut self) -> Result<(), DecodeError> {
        let ended = match self {
            Self::Gzip(to) => to.try_finish(),
            Self::Deflate(to) => to.try_finish(),
            Self::Bare(to) => to.try_finish(),
            Self::Brotli(to) => to.close(),
        };
        ended.map_err(DecodeError::Broken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_bounded_while_it_grows() {
        for coding in [Coding::Gzip, Coding::Deflate] {
            let bomb = coding.compressed(&vec![b' '; 4 << 20]);
            assert!(matches!(coding.decompressed(&bomb, 1 << 20), Err(DecodeError::TooLong)));
            assert!(matches!(coding.decompressed(&bomb, 4 << 20), Err(DecodeError::TooDense)));
            let small = coding.compressed(&vec![b' '; RATIO_FREE]);
            assert_eq!(coding.decompressed(&small, 4 << 20).unwrap().len(), RATIO_FREE);
            assert!(matches!(coding.decompressed(&bomb[1..], 9), Err(DecodeError::Broken(_))));
            let cut = &small[..small.len() / 2];
            assert!(matches!(coding.decompressed(cut, 4 << 20), Err(DecodeError::Broken(_))));
        }
    }

    #[test]
    fn a_client_takes_what_it_names_with_a_weight_above_0() {
        for (value, expected) in [
            ("gzip", Some(Coding::Gzip)),
            ("br, deflate;q=0.5, gzip", Some(Coding::Deflate)),
            ("gzip;q=0, deflate", Some(Coding::Deflate)),
            ("gzip; q=0", None),
            ("identity,*", None),
            ("", None),
        ] {
            assert_eq!(Coding::accepted(value), expected, "{value}");
        }
    }

    #[test]
    fn deflate_may_lack_its_wrapper() {
        use flate2::write::DeflateEncoder;
        let content = b"data: {}\n\n".repeat(99);
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&content).unwrap();
        let bare = encoder.finish().unwrap();
        for bytes in [&bare[..], &Coding::Deflate.compressed(&content)] {
            assert_eq!(Coding::Deflate.decompressed(bytes, 4 << 10).unwrap(), content);
            let (mut decoder, mut all) = (Decoder::new(Coding::Deflate), Vec::new());
            for byte in bytes.chunks(1) {
                let take = |content: &[u8]| {
                    all.extend_from_slice(content);
                    Ok::<(), DecodeError>(())
                };
                decoder.push(byte, take).unwrap();
            }
            decoder.end().unwrap();
            assert_eq!(all, content);
        }
        assert!(Coding::Deflate.decompressed(&bare[..bare.len() / 2], 4 << 10).is_err());
    }

    /// Events in Brotli, each flushed, as Python's package brotli writes them.
    const EVENTS: [(&[u8], &str); 4] = [
        (b"\x03\x05\x80\x64\x61\x74\x61\x3a\x20\x6f\x6e\x65\x0a\x0a", "data: one\n\n"),
        (b"\x50\x00\x00\x40\x5a\xe1\x8d\xee\x4e\x11\xa2\x4a\x04\xb6\x60\x00", "data: two\n\n"),
        (b"\x60\x00\x00\x40\x5a\xa1\x0c\x4d\x4e\x15\x20\x4b\x00\x6a\x05\x03", "data: three\n\n"),
        (b"\x03", ""),
    ];

    /// 4 MiB and 16 MiB of blanks in Brotli.
    const BLANKS: [&[u8]; 2] = [
        b"\x9b\xff\xff\x3f\xf8\x25\x40\xe2\xb1\x40\x20\xf7\xfe\x07",
        b"\xcb\xff\xff\x3f\xf8\x25\x40\xe2\xb1\x40\x20\xf7\xfe\
          \x8f\xff\xff\x7f\xf0\x4b\x00\xc4\x61\x11\x80\xee\xfd\xdf",
    ];

    fn brotli() -> Decoder {
        Decoder::of_answer(Some(b"br, BR")).unwrap().unwrap()
    }

    #[test]
    fn events_in_brotli_come_with_the_bytes_that_hold_them() {
        let mut decoder = brotli();
        for (bytes, event) in EVENTS {
            let mut content = Vec::new();
            for byte in bytes.chunks(1) {
                let take = |more: &[u8]| {
                    content.extend_from_slice(more);
                    Ok::<(), DecodeError>(())
                };
                decoder.push(byte, take).unwrap();
            }
            assert_eq!(content, event.as_bytes());
        }
        decoder.end().unwrap();
        let all = EVENTS.map(|(bytes, _)| bytes).concat();
        let expected = EVENTS.map(|(_, event)| event).concat();
        assert_eq!(brotli().decompressed(&all, 1 << 10).unwrap(), expected.as_bytes());
        for broken in [&all[..all.len() - 1], &all[1..], &[&all[..], b"x"].concat()] {
            let error = brotli().decompressed(broken, 1 << 10).unwrap_err();
            assert!(matches!(error, DecodeError::Broken(_)), "{error}");
        }
    }

    #[test]
    fn content_in_brotli_is_bounded_while_it_grows() {
        let [small, large] = BLANKS;
        assert!(matches!(brotli().decompressed(small, 1 << 20), Err(DecodeError::TooLong)));
        assert!(matches!(brotli().decompressed(small, 4 << 20), Err(DecodeError::TooDense)));
        let mut length = 0;
        let pushed = brotli().push(large, |content| {
            length += content.len();
            Ok::<(), DecodeError>(())
        });
        assert!(matches!(pushed, Err(DecodeError::Broken(_))));
        assert_eq!(length, 0, "no step exceeds its limit");
    }

    #[test]
    fn fields_name_what_they_are() {
        assert_eq!(Coding::of_field(Some(b"x-gzip")), Ok(Some(Coding::Gzip)));
        assert_eq!(Coding::of_field(Some(b"GZIP ")), Ok(Some(Coding::Gzip)));
        assert_eq!(Coding::of_field(Some(b"Identity")), Ok(None));
        assert_eq!(Coding::of_field(None), Ok(None));
        assert_eq!(Coding::of_field(Some(b"identity, gzip,")), Ok(Some(Coding::Gzip)));
        assert_eq!(Coding::of_field(Some(b"gzip,GZIP")), Ok(Some(Coding::Gzip)));
        assert_eq!(Coding::of_field(Some(b"zstd")), Err("zstd".to_owned()));
        assert_eq!(Coding::of_field(Some(b"gzip, br")), Err("gzip, br".to_owned()));
        assert_eq!(Coding::of_field(Some(b"br")), Err("br".to_owned()), "only of answers");
        assert!(Decoder::of_answer(Some(b"identity")).unwrap().is_none());
    }
}
