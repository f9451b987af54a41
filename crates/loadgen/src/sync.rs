//! Atomics, locks and parking of the state that threads share: those of the standard library.
//!
//! With `--cfg loom`, unit tests use the types of loom instead. Tests in modules named `models` then
//! try all orders of the threads:
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test -p dyno-loadgen --lib --target-dir target/loom models::
//! ```

#[cfg(all(test, loom))]
mod model;

#[cfg(all(test, loom))]
pub(crate) use model::{
    AtomicBool, AtomicI64, AtomicU64, Condvar, Mutex, MutexGuard, all_orders, thread,
};
#[cfg(not(all(test, loom)))]
pub(crate) use std::{
    sync::atomic::{AtomicBool, AtomicI64, AtomicU64},
    sync::{Condvar, Mutex, MutexGuard},
    thread,
};

/// Whether loom's types are used. Rings and chunks are then as small as possible.
pub(crate) const IS_MODEL: bool = cfg!(all(test, loom));
