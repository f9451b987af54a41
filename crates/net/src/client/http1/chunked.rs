//! Bodies in chunks (RFC 9112, section 7.1), cut anywhere.

/// Position of the next byte in a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChunkState {
    /// Before or within the digits of a size.
    Size { size: u64, digits: u8 },
    /// After the digits, up to the end of the line.
    Extension { size: u64 },
    /// Within a chunk, this many bytes before its end.
    Data { left: u64 },
    /// After a chunk, before the end of the line.
    DataEnd,
    /// Within trailers; whether their line is empty so far.
    Trailers { is_empty: bool },
    /// After the body.
    End,
}

/// Decoder of a chunked body.
#[derive(Debug)]
pub(super) struct ChunkDecoder {
    at: ChunkState,
    /// Bytes of the current extension, or of all trailers.
    overhead: usize,
}

/// Violation of the chunked coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChunkError(pub &'static str);

/// Result of one step.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChunkPart<'b> {
    /// Bytes of the body (at least one).
    Data(&'b [u8]),
    /// The body is complete; the following bytes do not belong to it.
    End,
    /// All bytes are used up.
    Nothing,
}

/// Maximum bytes of an extension or of trailers.
const MOST_OVERHEAD: usize = 16 << 10;
/// Digits of 2^60 bytes; more would overflow.
const MOST_DIGITS: u8 = 15;

impl ChunkDecoder {
    pub(super) fn new() -> Self {
        Self { at: ChunkState::Size { size: 0, digits: 0 }, overhead: 0 }
    }

    /// Takes the next part from the front of `bytes`.
    pub(super) fn next<'b>(&mut self, bytes: &mut &'b [u8]) -> Result<ChunkPart<'b>, ChunkError> {
        while let Some(&byte) = bytes.first() {
            if let ChunkState::Data { left } = self.at {
                let n = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                let (data, rest) = bytes.split_at(n);
                *bytes = rest;
                self.at = match left - n as u64 {
                    0 => ChunkState::DataEnd,
                    left => ChunkState::Data { left },
                };
                return Ok(ChunkPart::Data(data));
            }
            *bytes = &bytes[1..];
            self.at = self.after(byte)?;
            if self.at == ChunkState::End {
                return Ok(ChunkPart::End);
            }
        }
        Ok(ChunkPart::Nothing)
    }

    fn after(&mut self, byte: u8) -> Result<ChunkState, ChunkError> {
        Ok(match (self.at, byte) {
            (ChunkState::Size { size, digits }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                if digits == MOST_DIGITS {
                    return Err(ChunkError("the size of a chunk has more than 15 digits"));
                }
                let digit = char::from(byte).to_digit(16).expect("a hexadecimal digit");
                ChunkState::Size { size: size << 4 | u64::from(digit), digits: digits + 1 }
            }
            (ChunkState::Size { digits: 0, .. }, _) => {
                return Err(ChunkError("a chunk does not begin with a hexadecimal size"));
            }
            (ChunkState::Size { size, .. } | ChunkState::Extension { size }, b'\n') => {
                self.overhead = 0;
                match size {
                    0 => ChunkState::Trailers { is_empty: true },
                    left => ChunkState::Data { left },
                }
            }
            (ChunkState::Size { size, .. }, b'\r' | b';' | b' ' | b'\t') => {
                ChunkState::Extension { size }
            }
            (ChunkState::Size { .. }, _) => {
                return Err(ChunkError("the size of a chunk is not a number"));
            }
            (ChunkState::Extension { size }, _) => {
                self.count_overhead()?;
                ChunkState::Extension { size }
            }
            (ChunkState::DataEnd, b'\r') => ChunkState::DataEnd,
            (ChunkState::DataEnd, b'\n') => ChunkState::Size { size: 0, digits: 0 },
            (ChunkState::DataEnd, _) => return Err(ChunkError("a chunk is longer than its size")),
            (ChunkState::Trailers { is_empty: true }, b'\n') => ChunkState::End,
            (ChunkState::Trailers { is_empty }, b'\r') => ChunkState::Trailers { is_empty },
            (ChunkState::Trailers { .. }, byte) => {
                self.count_overhead()?;
                ChunkState::Trailers { is_empty: byte == b'\n' }
            }
            (ChunkState::Data { .. } | ChunkState::End, _) => {
                unreachable!("the caller handles both")
            }
        })
    }

    fn count_overhead(&mut self) -> Result<(), ChunkError> {
        self.overhead += 1;
        if self.overhead > MOST_OVERHEAD {
            return Err(ChunkError("an extension or trailers of more than 16 KiB"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&[u8]]) -> Result<(Vec<u8>, Option<usize>), ChunkError> {
        let (mut chunked, mut body) = (ChunkDecoder::new(), Vec::new());
        for piece in pieces {
            let mut bytes = *piece;
            loop {
                match chunked.next(&mut bytes)? {
                    ChunkPart::Data(data) => body.extend_from_slice(data),
                    ChunkPart::End => return Ok((body, Some(bytes.len()))),
                    ChunkPart::Nothing => break,
                }
            }
        }
        Ok((body, None))
    }

    #[test]
    fn any_cut_gives_the_same_body() {
        let wire = b"5;x=y\r\nhello\r\n1\r\n,\r\n6\r\n world\r\n0\r\na: b\r\nc: d\r\n\r\nrest";
        let whole = Ok((b"hello, world".to_vec(), Some(4)));
        assert_eq!(read(&[wire]), whole);
        for cut in 0..wire.len() - 4 {
            let expected_rest = read(&[&wire[..cut], &wire[cut..]]);
            assert_eq!(expected_rest, whole, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = wire.chunks(1).collect();
        assert_eq!(read(&bytes), Ok((b"hello, world".to_vec(), Some(0))));
    }

    #[test]
    fn what_is_no_chunk_is_said() {
        let wrong = |wire: &[u8]| read(&[wire]).map_err(|wrong| wrong.0).unwrap_err();
        assert!(wrong(b"\r\n").contains("not begin with a hexadecimal size"));
        assert!(wrong(b"-1\r\n").contains("not begin with a hexadecimal size"));
        assert!(wrong(b"5g\r\n").contains("not a number"));
        assert!(wrong(b"1\r\nab").contains("longer than its size"));
        assert!(wrong(b"1234567890123456\r\n").contains("15 digits"));
        let mut long = b"1;".to_vec();
        long.resize(MOST_OVERHEAD + 10, b'x');
        assert!(wrong(&long).contains("16 KiB"));
    }
}
