//! Atomics, locks and threads of what several threads share: those of the standard library, or those
//! of the model checker loom, which tries all interleavings.
//!
//! The models are tests next to what they check. `.ci/daily` runs them with `--cfg loom`, under which
//! no other test of this crate works.

#[cfg(not(loom))]
pub(crate) use std::{
    sync::atomic::{AtomicBool, AtomicI64, AtomicU64},
    sync::{Condvar, Mutex, MutexGuard},
    thread::{Thread, current},
};

#[cfg(loom)]
pub(crate) use loom::{
    sync::atomic::{AtomicBool, AtomicI64, AtomicU64},
    sync::{Condvar, Mutex, MutexGuard},
    thread::{Thread, current},
};

/// Keeps a sequentially consistent write before later reads in models: loom knows sequential
/// consistency of fences only. Does nothing in other builds, where the accesses have that order.
#[inline(always)]
pub(crate) fn order_in_model() {
    #[cfg(loom)]
    loom::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// Tries all interleavings with at most `switches` preemptions.
#[cfg(all(test, loom))]
pub(crate) fn all_orders(switches: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(switches);
    builder.max_branches = 20_000;
    builder.check(model);
}
