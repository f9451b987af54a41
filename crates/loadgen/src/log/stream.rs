//! Large files in few writes.

use std::io::{self, Write};

/// Bytes gathered before a write.
const BUFFER_BYTES: usize = 2 << 20;

/// A buffer that formatters append to directly, and that empties itself into the
/// file between entries.
pub struct Stream<'a> {
    /// What is not yet written.
    pub buffer: Vec<u8>,
    file: &'a mut dyn Write,
}

impl<'a> Stream<'a> {
    /// A stream into `file`.
    pub fn new(file: &'a mut dyn Write) -> Self {
        Self { buffer: Vec::with_capacity(BUFFER_BYTES + (BUFFER_BYTES >> 4)), file }
    }

    /// To be called after each entry: writes if enough has gathered.
    #[inline]
    pub fn entry_done(&mut self) -> io::Result<()> {
        if self.buffer.len() >= BUFFER_BYTES { self.write() } else { Ok(()) }
    }

    /// Bytes that still fit before a write is due.
    pub fn room(&self) -> usize {
        BUFFER_BYTES.saturating_sub(self.buffer.len())
    }

    /// Writes what is there.
    pub fn write(&mut self) -> io::Result<()> {
        self.file.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}
