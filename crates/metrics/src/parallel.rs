//! Parallel loops on all cores.
//!
//! Items are independent and far more than cores. Threads that share a counter balance them; a pool
//! with work stealing would gain nothing. If the system starts no further thread, the others do its
//! part.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};
use std::thread;

/// Number of cores. Determining it takes as long as starting a thread.
static CORES: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from));

/// Applies `work` to each item and returns the results in the order of the items.
///
/// # Panics
/// Panics if `work` panics.
///
/// ```
/// let squares = dyno_metrics::parallel::map(&[1, 2, 3], |n| n * n);
/// assert_eq!(squares, [1, 4, 9]);
/// ```
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
        let threads: Vec<_> = (1..cores)
            .filter_map(|_| thread::Builder::new().spawn_scoped(scope, turn).ok())
            .collect();
        let mut done = turn();
        for thread in threads {
            done.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, made)| made).collect()
}

/// Applies `work` to each item.
///
/// ```
/// let mut numbers = [1, 2, 3];
/// dyno_metrics::parallel::for_each(&mut numbers, |n| *n *= 2);
/// assert_eq!(numbers, [2, 4, 6]);
/// ```
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
            let _ = thread::Builder::new().spawn_scoped(scope, turn);
        }
        turn();
    });
}
