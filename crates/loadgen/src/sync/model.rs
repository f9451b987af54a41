//! The types of loom, with the operations that this crate uses.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LockResult, PoisonError};
use std::time::Duration;

use loom::model::Builder;
use loom::sync::atomic::fence;
pub(crate) use loom::sync::{Mutex, MutexGuard};

loom::thread_local! {
    /// Whether the last write of the thread was sequentially consistent.
    static LAST_WRITE_IS_ORDERED: Cell<bool> = Cell::new(false);
}

/// Defines an atomic that also models sequential consistency, which loom treats as acquire and
/// release.
///
/// A fence between such a write and such a read adds what threads rely on here: of two threads that
/// each write a word and then read that of the other, one sees the other. A weaker write or read is
/// not ordered in this way. A sequentially consistent store is a swap, because loom does not order a
/// store after the swap of another thread that read the store before it.
macro_rules! atomic {
    ($name:ident, $value:ty, $($operation:ident),*) => {
        #[derive(Debug, Default)]
        pub(crate) struct $name(loom::sync::atomic::$name);

        impl $name {
            pub(crate) fn load(&self, order: Ordering) -> $value {
                order_read(order);
                self.0.load(order)
            }

            pub(crate) fn store(&self, value: $value, order: Ordering) {
                if order == Ordering::SeqCst {
                    self.0.swap(value, Ordering::Release);
                } else {
                    self.0.store(value, order);
                }
                note_write(order);
            }

            $(pub(crate) fn $operation(&self, value: $value, order: Ordering) -> $value {
                order_read(order);
                let before = self.0.$operation(value, order);
                note_write(order);
                before
            })*
        }
    };
}

atomic!(AtomicBool, bool, swap);
atomic!(AtomicI64, i64,);
atomic!(AtomicU64, u64, fetch_add, fetch_max, fetch_min, fetch_or);

impl AtomicI64 {
    pub(crate) fn new(value: i64) -> Self {
        Self(loom::sync::atomic::AtomicI64::new(value))
    }
}

impl AtomicU64 {
    pub(crate) fn new(value: u64) -> Self {
        Self(loom::sync::atomic::AtomicU64::new(value))
    }
}

fn order_read(order: Ordering) {
    if order == Ordering::SeqCst && LAST_WRITE_IS_ORDERED.with(Cell::get) {
        fence(order);
    }
}

fn note_write(order: Ordering) {
    LAST_WRITE_IS_ORDERED.with(|last| last.set(order == Ordering::SeqCst));
}

/// A condition variable whose waits have no time limit, so that a missing notification fails a model.
#[derive(Debug, Default)]
pub(crate) struct Condvar(loom::sync::Condvar);

impl Condvar {
    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }

    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.0.wait(guard)
    }

    pub(crate) fn wait_timeout_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        _limit: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, ())> {
        while condition(&mut guard) {
            guard = self.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        Ok((guard, ()))
    }
}

/// Threads of a model.
pub(crate) mod thread {
    use std::time::Duration;

    pub(crate) use loom::thread::{Thread, current, spawn};

    /// Parks without a time limit, so that a lost wake-up fails a model.
    pub(crate) fn park_timeout(_limit: Duration) {
        loom::thread::park();
    }
}

/// Tries all orders of the threads of a model, and all values that the memory model lets them see.
/// At most `switches` threads are interrupted in each order. Returns all outcomes, which a test
/// compares: loom tries too few orders if a thread reads a word itself after another thread did, and
/// before it writes the word.
pub(crate) fn all_orders<T: Ord + Send + 'static>(
    switches: usize,
    model: impl Fn() -> T + Sync + Send + 'static,
) -> BTreeSet<T> {
    // Not of the model, because they outlive its orders.
    let outcomes = Arc::new(std::sync::Mutex::new(BTreeSet::new()));
    let seen = outcomes.clone();
    let mut builder = Builder::new();
    builder.preemption_bound = Some(switches);
    builder.max_branches = 10_000;
    builder.check(move || {
        let outcome = model();
        seen.lock().expect("no model fails here").insert(outcome);
    });
    std::mem::take(&mut *outcomes.lock().expect("no model fails here"))
}
