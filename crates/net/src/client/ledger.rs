//! Accounts of the answers of a run.

use std::sync::{Mutex, OnceLock, PoisonError};

use dyno_loadgen::sut::ResponseId;

use super::run_chunks::{Chunk, RunChunks};
use crate::ledger::Entry;

/// Entries of consecutive samples; `None` if no account was made. Each chunk has its own lock: two
/// answers seldom end within one chunk at once. All chunks of a tenant have 67 million answers;
/// further ones get no entry.
struct EntryChunk(Mutex<Box<[Option<Entry>]>>);

impl Chunk for EntryChunk {
    /// About half a megabyte of entries.
    const SAMPLES: usize = 1 << 12;

    fn empty() -> Self {
        Self(Mutex::new(vec![None; Self::SAMPLES].into()))
    }

    fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).fill(None);
    }
}

/// Entries of the current run.
pub(super) struct Ledger(RunChunks<EntryChunk>);

impl Ledger {
    pub(super) fn new() -> Self {
        Self(RunChunks::new())
    }

    /// Lets the next answer of a run other than the last begin that run.
    pub(super) fn expect_run(&self) {
        self.0.expect_run();
    }

    /// Returns the last run that began; 0 if none did.
    pub(super) fn last_run(&self) -> u64 {
        self.0.last_run()
    }

    /// Records the account of an answer. A later one of the same sample replaces it; accounts of
    /// earlier runs are ignored.
    pub(super) fn enter(&self, id: ResponseId, entry: Entry) {
        let Some((chunk, place)) = self.0.chunk(id) else { return };
        chunk.0.lock().unwrap_or_else(PoisonError::into_inner)[place] = Some(entry);
    }

    /// Removes the account of a sample, whose request is sent again.
    pub(super) fn forget(&self, id: ResponseId) {
        let is_of_run = self.last_run() == id.run() >> 8;
        let Some(chunks) = self.0.tenant(id.tenant()).filter(|_| is_of_run) else { return };
        let at = id.sequence() as usize;
        if let Some(chunk) = chunks.get(at / EntryChunk::SAMPLES).and_then(OnceLock::get) {
            let mut entries = chunk.0.lock().unwrap_or_else(PoisonError::into_inner);
            entries[at % EntryChunk::SAMPLES] = None;
        }
    }

    /// Returns the entries of the first `samples` samples of a tenant in the last run; empty if
    /// there are none.
    pub(super) fn entries(&self, tenant: u8, samples: usize) -> Vec<Option<Entry>> {
        let Some(chunks) = self.0.tenant(tenant) else { return Vec::new() };
        let mut entries = Vec::with_capacity(samples);
        for chunk in chunks {
            let left = (samples - entries.len()).min(EntryChunk::SAMPLES);
            if left == 0 {
                break;
            }
            match chunk.get() {
                Some(chunk) => {
                    let chunk = chunk.0.lock().unwrap_or_else(PoisonError::into_inner);
                    entries.extend_from_slice(&chunk[..left]);
                }
                None => entries.resize(entries.len() + left, None),
            }
        }
        if entries.iter().all(Option::is_none) { Vec::new() } else { entries }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_its_own_entries_alone() {
        let ledger = Ledger::new();
        let entry = |bytes| Entry { bytes, ..Entry::default() };
        let bytes = |tenant, samples| {
            let entries = ledger.entries(tenant, samples);
            entries.iter().map(|of| of.map_or(0, |of| of.bytes)).collect::<Vec<_>>()
        };
        ledger.enter(ResponseId::new(1, 0, 1), entry(7));
        ledger.enter(ResponseId::new(1, 0, 1), entry(8));
        ledger.enter(ResponseId::new(1, 2, 5_000), entry(9));
        assert_eq!(bytes(0, 3), [0, 8, 0]);
        assert_eq!(bytes(2, 5_001)[4_999..], [0, 9]);
        // One of a sample without an account, of another run, and of one that is sent again.
        ledger.forget(ResponseId::new(1, 3, 7));
        ledger.forget(ResponseId::new(2, 0, 1));
        assert_eq!(bytes(0, 3), [0, 8, 0]);
        ledger.forget(ResponseId::new(1, 2, 5_000));
        assert_eq!(bytes(2, 5_001), [0; 0]);
        ledger.expect_run();
        ledger.enter(ResponseId::new(1, 0, 2), entry(1));
        ledger.enter(ResponseId::new(2, 0, 0), entry(2));
        ledger.enter(ResponseId::new(1, 0, 2), entry(3));
        assert_eq!(bytes(0, 3), [2, 0, 0]);
        assert_eq!(bytes(2, 5_001), [0; 0]);
        assert_eq!(bytes(9, 2), [0; 0]);
    }
}
