//! Data of the samples of the current run, in chunks that are created on demand.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use dyno_loadgen::sut::ResponseId;

/// Maximum number of chunks of a tenant.
const CHUNKS: usize = 1 << 14;

/// Chunks of the samples of one run, by tenant. The next run clears them and keeps their memory.
pub(super) struct RunChunks<C> {
    /// By tenant, created on demand.
    columns: Box<[OnceLock<Column<C>>]>,
    /// The last run that began. Several threads may record samples, but a run begins only once.
    last: Mutex<u64>,
    /// The run being recorded; 0 while the next one is expected.
    current: AtomicU64,
}

/// The chunks of one tenant.
struct Column<C>(Box<[OnceLock<C>]>);

/// Consecutive samples of a tenant.
pub(super) trait Chunk {
    /// Number of samples.
    const SAMPLES: usize;

    /// Returns a chunk without data.
    fn empty() -> Self;
    /// Removes the data.
    fn clear(&self);
}

impl<C: Chunk> RunChunks<C> {
    pub(super) fn new() -> Self {
        let columns = (0..=usize::from(u8::MAX)).map(|_| OnceLock::new()).collect();
        Self { columns, last: Mutex::new(0), current: AtomicU64::new(0) }
    }

    /// Lets the next sample of a run other than the last begin that run.
    pub(super) fn expect_run(&self) {
        self.current.store(0, Ordering::Release);
    }

    /// Returns the last run that began; 0 if none did.
    pub(super) fn last_run(&self) -> u64 {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the chunk of a sample, and its place there; `None` for samples of earlier runs, and
    /// beyond the last chunk.
    #[inline]
    pub(super) fn chunk(&self, id: ResponseId) -> Option<(&C, usize)> {
        let run = id.run() >> 8;
        if self.current.load(Ordering::Acquire) != run && !self.begin(run) {
            return None;
        }
        let column = self.columns[usize::from(id.tenant())].get_or_init(Column::new);
        let sequence = id.sequence() as usize;
        let chunk = column.0.get(sequence / C::SAMPLES)?;
        Some((chunk.get_or_init(C::empty), sequence % C::SAMPLES))
    }

    /// Returns the chunks of a tenant in order; `None` if it has none. If the expected run has not begun, the
    /// data are still those of the run before, which are no answer.
    pub(super) fn tenant(&self, tenant: u8) -> Option<&[OnceLock<C>]> {
        let has_begun = self.current.load(Ordering::Acquire) != 0;
        let column = self.columns[usize::from(tenant)].get().filter(|_| has_begun)?;
        Some(&*column.0)
    }

    /// Clears the data of the previous run; returns false if `run` is not expected.
    #[cold]
    fn begin(&self, run: u64) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match self.current.load(Ordering::Acquire) {
            0 if *last != run => {}
            current => return current == run,
        }
        for column in self.columns.iter().filter_map(OnceLock::get) {
            column.0.iter().filter_map(OnceLock::get).for_each(C::clear);
        }
        *last = run;
        self.current.store(run, Ordering::Release);
        true
    }
}

impl<C> Column<C> {
    fn new() -> Self {
        Self((0..CHUNKS).map(|_| OnceLock::new()).collect())
    }
}
