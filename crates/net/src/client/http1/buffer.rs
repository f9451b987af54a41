//! Memory for socket reads. A large read passes its memory to a parser thread and gets it back
//! afterwards, so nothing is copied and no page is touched twice.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// Maximum bytes of one read.
const BUFFER: usize = 256 << 10;
/// Reads of at least this size pass on their memory: smaller ones are cheaper to copy.
const LARGE: usize = BUFFER / 2;
/// Maximum number of spare buffers.
const MOST_SPARE: usize = 64;

type Spare = Mutex<Vec<Vec<u8>>>;

/// Memory of a thread that reads sockets.
#[derive(Debug)]
pub(super) struct Buffer {
    memory: Vec<u8>,
    spare: Arc<Spare>,
}

impl Buffer {
    pub(super) fn new() -> Self {
        Self { memory: vec![0; BUFFER], spare: Arc::default() }
    }

    /// Returns the whole buffer.
    pub(super) fn whole(&mut self) -> &mut [u8] {
        &mut self.memory
    }

    /// Returns the last read of `len` bytes. `goes_along`: another thread will need it.
    pub(super) fn read(&mut self, len: usize, goes_along: bool) -> Chunk<'_> {
        if len < LARGE || !goes_along {
            return Chunk { bytes: &self.memory[..len], owner: None, spare: &self.spare };
        }
        let memory = std::mem::replace(&mut self.memory, memory(&self.spare));
        let owner = Bytes::from_owner(PooledMemory { memory, len, home: self.spare.clone() });
        Chunk { bytes: &[], owner: Some(owner), spare: &self.spare }
    }
}

fn memory(spare: &Spare) -> Vec<u8> {
    let used = spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
    used.unwrap_or_else(|| vec![0; BUFFER])
}

/// Bytes of one read.
pub(super) struct Chunk<'a> {
    bytes: &'a [u8],
    owner: Option<Bytes>,
    spare: &'a Arc<Spare>,
}

impl Chunk<'_> {
    pub(super) fn bytes(&self) -> &[u8] {
        self.owner.as_ref().map_or(self.bytes, |owner| owner)
    }

    /// Returns a part of the read for another thread.
    pub(super) fn owned(&self, part: &[u8]) -> Bytes {
        match &self.owner {
            Some(owner) => owner.slice_ref(part),
            None if part.len() < LARGE => Bytes::copy_from_slice(part),
            None => {
                let mut memory = memory(self.spare);
                memory[..part.len()].copy_from_slice(part);
                Bytes::from_owner(PooledMemory {
                    memory,
                    len: part.len(),
                    home: self.spare.clone(),
                })
            }
        }
    }
}

/// Memory that returns to the pool when it is dropped.
struct PooledMemory {
    memory: Vec<u8>,
    len: usize,
    home: Arc<Spare>,
}

impl AsRef<[u8]> for PooledMemory {
    fn as_ref(&self) -> &[u8] {
        &self.memory[..self.len]
    }
}

impl Drop for PooledMemory {
    fn drop(&mut self) {
        let mut spare = self.home.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < MOST_SPARE {
            spare.push(std::mem::take(&mut self.memory));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_large_reads_goes_along_and_comes_back() {
        let mut buffer = Buffer::new();
        buffer.whole()[..LARGE].fill(7);
        let first = buffer.read(LARGE, true);
        let kept = first.owned(&first.bytes()[1..3]);
        drop(first);
        buffer.whole().fill(8);
        assert_eq!(&kept[..], [7, 7], "the next read goes elsewhere");
        let memory = buffer.memory.as_ptr();
        drop(kept);
        drop(buffer.read(LARGE, true));
        assert_ne!(buffer.memory.as_ptr(), memory, "what came back is used again");
        assert_eq!(buffer.whole()[0], 7);
    }

    #[test]
    fn small_reads_are_copied() {
        let mut buffer = Buffer::new();
        buffer.whole()[..4].copy_from_slice(b"abcd");
        let memory = buffer.memory.as_ptr();
        let chunk = buffer.read(4, true);
        assert_eq!(
            (chunk.bytes(), &chunk.owned(&chunk.bytes()[2..])[..]),
            (&b"abcd"[..], &b"cd"[..])
        );
        assert_eq!(buffer.memory.as_ptr(), memory);
    }
}
