//! Files that are decoded while they are read.

use std::io::{self, Read};

use prost::bytes::Buf;

/// Maximum bytes of a file in memory.
const PART: usize = 1 << 20;

/// The bytes of a file, of which a part is in memory.
#[derive(Debug)]
pub struct FileBytes<R> {
    file: R,
    part: Vec<u8>,
    /// Position in the part.
    at: usize,
    /// Number of bytes of the file after the part.
    left: usize,
    /// First error. The bytes from there on are arbitrary.
    error: Option<io::Error>,
}

impl<R: Read> FileBytes<R> {
    /// Reads the first part of a file of this length.
    pub fn new(file: R, length: usize) -> Self {
        let mut bytes = Self { file, part: Vec::new(), at: 0, left: length, error: None };
        bytes.read_part();
        bytes
    }

    /// Returns the first error of the operating system. After an error, whatever was decoded is wrong.
    pub fn into_error(self) -> Option<io::Error> {
        self.error
    }

    fn read_part(&mut self) {
        self.at = 0;
        self.part.resize(self.left.min(PART), 0);
        self.left -= self.part.len();
        if self.error.is_none() {
            self.error = self.file.read_exact(&mut self.part).err();
        }
    }
}

impl<R: Read> Buf for FileBytes<R> {
    fn remaining(&self) -> usize {
        self.part.len() - self.at + self.left
    }

    fn chunk(&self) -> &[u8] {
        &self.part[self.at..]
    }

    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.remaining(), "at most {} bytes, found {count}", self.remaining());
        while count >= self.part.len() - self.at && self.left > 0 {
            count -= self.part.len() - self.at;
            self.read_part();
        }
        self.at += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_file_are_its_bytes() {
        let expected: Vec<u8> = (0..2 * PART + 5).map(|at| (at % 251) as u8).collect();
        for step in [7, PART - 1, PART, PART + 1, 2 * PART + 5] {
            let mut bytes = FileBytes::new(&expected[..], expected.len());
            let mut found = Vec::new();
            while bytes.has_remaining() {
                assert!(!bytes.chunk().is_empty());
                let count = step.min(bytes.remaining());
                found.extend(bytes.copy_to_bytes(count));
            }
            assert!(found == expected, "steps of {step} bytes");
            assert!(bytes.into_error().is_none());
        }
        let mut bytes = FileBytes::new(&expected[..], expected.len());
        bytes.advance(2 * PART + 4);
        assert_eq!(bytes.chunk(), [((2 * PART + 4) % 251) as u8]);
    }

    #[test]
    fn a_file_that_became_shorter_is_an_error() {
        let short = vec![1_u8; PART];
        let mut bytes = FileBytes::new(&short[..], PART + 1);
        bytes.advance(PART + 1);
        assert!(!bytes.has_remaining());
        assert_eq!(bytes.into_error().unwrap().kind(), io::ErrorKind::UnexpectedEof);
        let empty = FileBytes::new(&short[..0], 0);
        assert_eq!((empty.remaining(), empty.chunk().len()), (0, 0));
    }
}
