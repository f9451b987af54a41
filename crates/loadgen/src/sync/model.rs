//! The types of loom, with the operations that this crate uses.

use std::sync::atomic::Ordering;
use std::sync::{LockResult, PoisonError};
use std::time::Duration;

use loom::model::Builder;
use loom::sync::atomic::fence;
pub(crate) use loom::sync::{Mutex, MutexGuard};

/// Defines an atomic that also models sequential consistency.
///
/// loom treats sequentially consistent accesses as acquire and release. The fence adds what threads
/// rely on here: of two threads that each write a word and then read that of the other, one sees the
/// other. It stands before the access, so that it does not order a weaker read that follows a write.
macro_rules! atomic {
    ($name:ident, $value:ty, $($operation:ident),*) => {
        #[derive(Debug, Default)]
        pub(crate) struct $name(loom::sync::atomic::$name);

        impl $name {
            pub(crate) fn load(&self, order: Ordering) -> $value {
                fence_before(order);
                self.0.load(order)
            }

            pub(crate) fn store(&self, value: $value, order: Ordering) {
                fence_before(order);
                self.0.store(value, order);
            }

            $(pub(crate) fn $operation(&self, value: $value, order: Ordering) -> $value {
                fence_before(order);
                self.0.$operation(value, order)
            })*
        }
    };
}

atomic!(AtomicBool, bool, swap);
atomic!(AtomicI64, i64,);
atomic!(AtomicU64, u64, fetch_add, fetch_max, fetch_or);

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

fn fence_before(order: Ordering) {
    if order == Ordering::SeqCst {
        fence(order);
    }
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
/// At most `switches` threads are interrupted in each order.
pub(crate) fn all_orders(switches: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(switches);
    builder.max_branches = 10_000;
    builder.check(model);
}
