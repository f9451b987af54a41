//! Work spread over the cores.
//!
//! Items are independent and there are many more than cores, so that a counter shared
//! by plain threads balances them; a pool with work stealing would bring nothing.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};
use std::thread;

/// Asking takes as long as starting a thread does.
static CORES: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from));

/// Returns what the work makes of each item, in the order of the items.
///
/// # Panics
/// If the work does.
pub fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let cores = (*CORES).min(items.len().max(1));
    if cores == 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let turn = || {
        let mut done = Vec::new();
        while let at = next.fetch_add(1, Ordering::Relaxed)
            && let Some(item) = items.get(at)
        {
            done.push((at, work(item)));
        }
        done
    };
    let mut done: Vec<(usize, R)> = thread::scope(|scope| {
        let threads: Vec<_> = (1..cores).map(|_| scope.spawn(turn)).collect();
        let mut done = turn();
        for thread in threads {
            done.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, made)| made).collect()
}

/// Does the work for every item.
pub fn for_each<T: Send>(items: &mut [T], work: impl Fn(&mut T) + Sync) {
    let cores = (*CORES).min(items.len().max(1));
    let items = Mutex::new(items.iter_mut());
    let turn = || {
        while let Some(item) = items.lock().map_or(None, |mut items| items.next()) {
            work(item);
        }
    };
    thread::scope(|scope| {
        for _ in 1..cores {
            scope.spawn(turn);
        }
        turn();
    });
}
