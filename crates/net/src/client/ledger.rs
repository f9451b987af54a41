//! Accounts of the answers of a run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use dyno_loadgen::sut::ResponseId;

use crate::ledger::Entry;

/// Answers in a chunk: about half a megabyte.
const CHUNK_SAMPLES: usize = 1 << 12;
/// 2^14 chunks: 67 million answers. Further ones get no entry.
const CHUNKS: usize = 1 << 14;

/// Entries of consecutive samples; `None` if no account was made.
type Chunk = Mutex<Box<[Option<Entry>]>>;

/// Entries of one tenant. Chunks are created on demand, each behind its own lock: two answers
/// seldom end within one chunk at once.
struct Column(Box<[OnceLock<Chunk>]>);

/// Entries of the current run.
pub(super) struct Ledger {
    /// By tenant, created on demand.
    columns: Box<[OnceLock<Column>]>,
    /// The last run that began.
    last: Mutex<u64>,
    /// The run being recorded; 0 while the next one is expected.
    current: AtomicU64,
}

impl Ledger {
    pub(super) fn new() -> Self {
        let columns = (0..=usize::from(u8::MAX)).map(|_| OnceLock::new()).collect();
        Self { columns, last: Mutex::new(0), current: AtomicU64::new(0) }
    }

    /// Lets the next answer of a run other than the last begin that run.
    pub(super) fn expect_run(&self) {
        self.current.store(0, Ordering::Release);
    }

    /// Returns the last run that began; 0 if none did.
    pub(super) fn last_run(&self) -> u64 {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the account of an answer. A later one of the same sample replaces it; accounts of
    /// earlier runs are ignored.
    pub(super) fn enter(&self, id: ResponseId, entry: Entry) {
        let run = id.run() >> 8;
        if self.current.load(Ordering::Acquire) != run && !self.begin(run) {
            return;
        }
        let column = self.columns[usize::from(id.tenant())].get_or_init(Column::new);
        let sequence = id.sequence() as usize;
        let Some(chunk) = column.0.get(sequence / CHUNK_SAMPLES) else { return };
        let chunk = chunk.get_or_init(|| Mutex::new(vec![None; CHUNK_SAMPLES].into()));
        let mut chunk = chunk.lock().unwrap_or_else(PoisonError::into_inner);
        chunk[sequence % CHUNK_SAMPLES] = Some(entry);
    }

    /// Clears the entries of the previous run; returns false if `run` is not expected.
    #[cold]
    fn begin(&self, run: u64) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match self.current.load(Ordering::Acquire) {
            0 if *last != run => {}
            current => return current == run,
        }
        for column in self.columns.iter().filter_map(OnceLock::get) {
            for chunk in column.0.iter().filter_map(OnceLock::get) {
                chunk.lock().unwrap_or_else(PoisonError::into_inner).fill(None);
            }
        }
        *last = run;
        self.current.store(run, Ordering::Release);
        true
    }

    /// Returns the entries of the first `samples` samples of a tenant in the last run; empty if
    /// there are none.
    pub(super) fn entries(&self, tenant: u8, samples: usize) -> Vec<Option<Entry>> {
        let Some(column) = self.columns[usize::from(tenant)].get() else { return Vec::new() };
        let mut entries = Vec::with_capacity(samples);
        for chunk in &column.0 {
            let left = (samples - entries.len()).min(CHUNK_SAMPLES);
            if left == 0 {
                break;
            }
            match chunk.get() {
                Some(chunk) => {
                    let chunk = chunk.lock().unwrap_or_else(PoisonError::into_inner);
                    entries.extend_from_slice(&chunk[..left]);
                }
                None => entries.resize(entries.len() + left, None),
            }
        }
        if entries.iter().all(Option::is_none) { Vec::new() } else { entries }
    }
}

impl Column {
    fn new() -> Self {
        Self((0..CHUNKS).map(|_| OnceLock::new()).collect())
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
        ledger.expect_run();
        ledger.enter(ResponseId::new(1, 0, 2), entry(1));
        ledger.enter(ResponseId::new(2, 0, 0), entry(2));
        ledger.enter(ResponseId::new(1, 0, 2), entry(3));
        assert_eq!(bytes(0, 3), [2, 0, 0]);
        assert_eq!(bytes(2, 5_001), [0; 0]);
        assert_eq!(bytes(9, 2), [0; 0]);
    }
}
