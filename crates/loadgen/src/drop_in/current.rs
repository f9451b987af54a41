//! The run that is on, where every completing thread finds it.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use crate::sut::{CachePadded, Responder};

/// The responder of the run that is on, if one is.
///
/// A thread that completes often keeps a copy, so that finding the run costs it
/// one load; a lock would double the atomic operations of a completion. The copy
/// is given up at the thread's first completion in a later run, or when it ends.
pub(super) struct CurrentRun {
    /// Names what `run` holds: another number each time that it changes.
    generation: CachePadded<AtomicU64>,
    run: RwLock<Option<Responder>>,
}

/// A thread keeps a copy from this completion of a run on: one that completes
/// everything in a few calls gains nothing, and would keep the run's memory.
const CALLS_BEFORE_COPY: u32 = 64;

/// What a thread knows of the run that it last completed samples of.
struct ThreadCopy {
    generation: Cell<u64>,
    calls: Cell<u32>,
    copy: RefCell<Option<Responder>>,
}

thread_local! {
    static THREAD_COPY: ThreadCopy = const {
        ThreadCopy { generation: Cell::new(0), calls: Cell::new(0), copy: RefCell::new(None) }
    };
}

impl CurrentRun {
    pub(super) const fn new() -> Self {
        Self { generation: CachePadded(AtomicU64::new(0)), run: RwLock::new(None) }
    }

    /// What `f` makes of the run, or `None` while none is on. `f` may call this.
    #[inline]
    pub(super) fn with<T>(&self, f: impl FnOnce(&Responder) -> T) -> Option<T> {
        let mut f = Some(f);
        let mut call = |run: &Responder| f.take().map(|f| f(run));
        let generation = self.generation.0.load(Ordering::Acquire);
        let known = THREAD_COPY.try_with(|known| {
            if known.generation.get() != generation {
                return None;
            }
            let copy = known.copy.try_borrow().ok()?;
            copy.as_ref().and_then(&mut call)
        });
        match known {
            Ok(Some(result)) => Some(result),
            _ => self.with_lock(generation, call),
        }
    }

    /// Looks the run up, and keeps a copy if this thread has done so often.
    #[cold]
    fn with_lock<T>(
        &self,
        generation: u64,
        mut call: impl FnMut(&Responder) -> Option<T>,
    ) -> Option<T> {
        // A copy, so that a callback under `call` does not wait for whoever ends the run.
        let run = self.run.read().unwrap_or_else(PoisonError::into_inner).clone();
        // Fails where the thread is ending; then nothing is kept.
        let _ = THREAD_COPY.try_with(|known| known.meet(generation, run.as_ref()));
        call(&run?)
    }

    pub(super) fn publish(&self, run: &Responder) {
        self.set(Some(run.clone()));
    }

    pub(super) fn withdraw(&self) {
        self.set(None);
        // An issuing thread that completed samples itself keeps nothing.
        let _ = THREAD_COPY.try_with(|known| known.meet(0, None));
    }

    fn set(&self, run: Option<Responder>) {
        // Over all load generators, because a thread knows one run.
        static GENERATIONS: AtomicU64 = AtomicU64::new(1);
        let mut place = self.run.write().unwrap_or_else(PoisonError::into_inner);
        *place = run;
        let next = GENERATIONS.fetch_add(1, Ordering::Relaxed);
        self.generation.0.store(next, Ordering::Release);
    }
}

impl ThreadCopy {
    fn meet(&self, generation: u64, run: Option<&Responder>) {
        // In use by a call further up: that one's run is over, or still on.
        let Ok(mut copy) = self.copy.try_borrow_mut() else { return };
        if self.generation.replace(generation) != generation {
            self.calls.set(0);
            *copy = None;
        }
        self.calls.set(self.calls.get().saturating_add(1));
        if self.calls.get() >= CALLS_BEFORE_COPY {
            *copy = run.cloned();
        }
    }
}
