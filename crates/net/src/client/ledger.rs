//! The accounts of the answers of a run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use dyno_loadgen::sut::ResponseId;

use crate::ledger::Entry;

/// Answers in a chunk: about half a megabyte.
const CHUNK_SAMPLES: usize = 1 << 12;
/// 2^14 chunks: 67 million answers. No entry is made of further ones.
const CHUNKS: usize = 1 << 14;

/// Entries of samples that follow each other; `None` where no account was made.
type Chunk = Mutex<Box<[Option<Entry>]>>;

/// The entries of one tenant. Chunks are made as they are needed, each behind a lock of its own:
/// two answers seldom end within one chunk at once.
struct Column(Box<[OnceLock<Chunk>]>);

/// Entries of the run that is on.
pub(super) struct Ledger {
    /// By tenant, as they come.
    columns: Box<[OnceLock<Column>]>,
    /// The last run that began.
    last: Mutex<u64>,
    /// The run whose answers are entered; 0 while the next one is expected.
    current: AtomicU64,
}

impl Ledger {
    pub(super) fn new() -> Self {
        let columns = (0..=usize::from(u8::MAX)).map(|_| OnceLock::new()).collect();
        Self { columns, last: Mutex::new(0), current: AtomicU64::new(0) }
    }

    /// The next answer of another run than the last begins that run.
    pub(super) fn expect_run(&self) {
        self.current.store(0, Ordering::Release);
    }

    /// Enters the account of an answer. A later one of the same sample replaces it; one of an
    /// earlier run is passed over.
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

    /// Forgets the entries of the run before; false if `run` is not the one that is expected.
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

    /// The entries of the first `samples` samples of a tenant in the last run; empty if there is
    /// none.
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
