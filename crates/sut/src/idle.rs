//! The choice among sessions that run one call at a time.

use std::borrow::Borrow;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Locks an idle slot, preferably number `first`. If none is idle, waits for number `first`.
///
/// # Panics
/// If there is no slot with this number.
pub fn idle<T>(slots: &[impl Borrow<Mutex<T>>], first: usize) -> MutexGuard<'_, T> {
    let (before, from) = slots.split_at(first);
    for slot in from.iter().chain(before) {
        match slot.borrow().try_lock() {
            Ok(slot) => return slot,
            Err(TryLockError::Poisoned(slot)) => return slot.into_inner(),
            Err(TryLockError::WouldBlock) => {}
        }
    }
    slots[first].borrow().lock().unwrap_or_else(PoisonError::into_inner)
}
