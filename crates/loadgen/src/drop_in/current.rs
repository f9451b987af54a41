//! The current run, shared with all completing threads.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use crate::sut::{CachePadded, Responder};

/// The responder of the current run, if there is one.
///
/// A thread that completes often keeps a copy, so that it finds the run with one load; a lock would
/// double the atomic operations of a completion. The copy is dropped at the thread's first
/// completion in a later run, or when the thread ends.
pub(super) struct CurrentRun {
    /// Number of the content of `run`; it changes with each new content.
    generation: CachePadded<AtomicU64>,
    run: RwLock<Option<Responder>>,
}

/// Number of completion calls in a run after which a thread keeps a copy. A thread with few calls
/// gains nothing from a copy, which would only keep the memory of the run alive.
const CALLS_BEFORE_COPY: u32 = 64;

/// A thread's copy of the responder of its last run.
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

    /// Returns the result of `f` for the current run, or `None` without one. `f` may call this
    /// function.
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

    /// Looks the run up and keeps a copy if this thread has called often.
    #[cold]
    fn with_lock<T>(
        &self,
        generation: u64,
        mut call: impl FnMut(&Responder) -> Option<T>,
    ) -> Option<T> {
        // Cloned, so that the lock is not held during `call`, which may end the run.
        let run = self.run.read().unwrap_or_else(PoisonError::into_inner).clone();
        // Fails if the thread is ending; then no copy is kept.
        let _ = THREAD_COPY.try_with(|known| known.update(generation, run.as_ref()));
        call(&run?)
    }

    pub(super) fn publish(&self, run: &Responder) {
        self.set(Some(run.clone()));
    }

    pub(super) fn withdraw(&self) {
        self.set(None);
        // An issuing thread that completed samples itself drops its copy.
        let _ = THREAD_COPY.try_with(|known| known.update(0, None));
    }

    fn set(&self, run: Option<Responder>) {
        // Shared by all load generators, because a thread has one copy.
        static GENERATIONS: AtomicU64 = AtomicU64::new(1);
        let mut place = self.run.write().unwrap_or_else(PoisonError::into_inner);
        *place = run;
        let next = GENERATIONS.fetch_add(1, Ordering::Relaxed);
        self.generation.0.store(next, Ordering::Release);
    }
}

impl ThreadCopy {
    fn update(&self, generation: u64, run: Option<&Responder>) {
        // In use by a call further up the stack.
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
