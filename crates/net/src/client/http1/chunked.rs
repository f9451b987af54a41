//! Bodies in chunks (RFC 9112, section 7.1), cut anywhere.

/// Where in a chunked body the next byte is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Before or within the digits of a size.
    Size { size: u64, digits: u8 },
    /// Behind the digits, up to the end of the line.
    Extension { size: u64 },
    /// Within a chunk, so many bytes before its end.
    Data { left: u64 },
    /// Behind a chunk, before the end of the line.
    DataEnd,
    /// Within trailers; whether their line is empty so far.
    Trailers { is_empty: bool },
    /// Behind it all.
    End,
}

/// Reads a chunked body.
#[derive(Debug)]
pub(super) struct Chunked {
    at: At,
    /// Bytes of the current extension, or of all trailers.
    overhead: usize,
}

/// What is wrong with a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoChunk(pub &'static str);

/// What a call found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<'b> {
    /// Bytes of the body (at least one).
    Data(&'b [u8]),
    /// The body is complete; what follows is not of it.
    End,
    /// All bytes are used up.
    Nothing,
}

/// An extension or trailers of more bytes than this are no honest answer.
const MOST_OVERHEAD: usize = 16 << 10;
/// Digits of 2^60 bytes; more would overflow.
const MOST_DIGITS: u8 = 15;

impl Chunked {
    pub(super) fn new() -> Self {
        Self { at: At::Size { size: 0, digits: 0 }, overhead: 0 }
    }

    /// Takes what comes next from the front of `bytes`.
    pub(super) fn next<'b>(&mut self, bytes: &mut &'b [u8]) -> Result<Found<'b>, NoChunk> {
        while let Some(&byte) = bytes.first() {
            if let At::Data { left } = self.at {
                let n = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                let (data, rest) = bytes.split_at(n);
                *bytes = rest;
                self.at = match left - n as u64 {
                    0 => At::DataEnd,
                    left => At::Data { left },
                };
                return Ok(Found::Data(data));
            }
            *bytes = &bytes[1..];
            self.at = self.after(byte)?;
            if self.at == At::End {
                return Ok(Found::End);
            }
        }
        Ok(Found::Nothing)
    }

    fn after(&mut self, byte: u8) -> Result<At, NoChunk> {
        Ok(match (self.at, byte) {
            (At::Size { size, digits }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                if digits == MOST_DIGITS {
                    return Err(NoChunk("the size of a chunk has more than 15 digits"));
                }
                let digit = char::from(byte).to_digit(16).expect("a hexadecimal digit");
                At::Size { size: size << 4 | u64::from(digit), digits: digits + 1 }
            }
            (At::Size { digits: 0, .. }, _) => {
                return Err(NoChunk("a chunk begins with no hexadecimal size"));
            }
            (At::Size { size, .. } | At::Extension { size }, b'\n') => {
                self.overhead = 0;
                match size {
                    0 => At::Trailers { is_empty: true },
                    left => At::Data { left },
                }
            }
            (At::Size { size, .. }, b'\r' | b';' | b' ' | b'\t') => At::Extension { size },
            (At::Size { .. }, _) => return Err(NoChunk("the size of a chunk is no number")),
            (At::Extension { size }, _) => {
                self.count_overhead()?;
                At::Extension { size }
            }
            (At::DataEnd, b'\r') => At::DataEnd,
            (At::DataEnd, b'\n') => At::Size { size: 0, digits: 0 },
            (At::DataEnd, _) => return Err(NoChunk("a chunk is longer than its size")),
            (At::Trailers { is_empty: true }, b'\n') => At::End,
            (At::Trailers { is_empty }, b'\r') => At::Trailers { is_empty },
            (At::Trailers { .. }, byte) => {
                self.count_overhead()?;
                At::Trailers { is_empty: byte == b'\n' }
            }
            (At::Data { .. } | At::End, _) => unreachable!("the caller handles both"),
        })
    }

    fn count_overhead(&mut self) -> Result<(), NoChunk> {
        self.overhead += 1;
        if self.overhead > MOST_OVERHEAD {
            return Err(NoChunk("an extension or trailers of more than 16 KiB"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&[u8]]) -> Result<(Vec<u8>, Option<usize>), NoChunk> {
        let (mut chunked, mut body) = (Chunked::new(), Vec::new());
        for piece in pieces {
            let mut bytes = *piece;
            loop {
                match chunked.next(&mut bytes)? {
                    Found::Data(data) => body.extend_from_slice(data),
                    Found::End => return Ok((body, Some(bytes.len()))),
                    Found::Nothing => break,
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
        assert!(wrong(b"\r\n").contains("no hexadecimal size"));
        assert!(wrong(b"-1\r\n").contains("no hexadecimal size"));
        assert!(wrong(b"5g\r\n").contains("no number"));
        assert!(wrong(b"1\r\nab").contains("longer than its size"));
        assert!(wrong(b"1234567890123456\r\n").contains("15 digits"));
        let mut long = b"1;".to_vec();
        long.resize(MOST_OVERHEAD + 10, b'x');
        assert!(wrong(&long).contains("16 KiB"));
    }
}
