//! Cases on several threads.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Adds all numbered cases to tallies on `threads` threads, and returns the joined tally.
///
/// # Panics
/// If a case panics.
pub fn spread<T: Default + Send>(
    numbers: Range<u64>,
    threads: usize,
    add: impl Fn(&mut T, u64) + Sync,
    join: impl Fn(T, T) -> T,
) -> T {
    let next = AtomicU64::new(numbers.start);
    let work = || {
        let mut tally = T::default();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= numbers.end {
                return tally;
            }
            add(&mut tally, number);
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        let tallies = threads.into_iter().map(|thread| thread.join().expect("no case panics"));
        tallies.fold(T::default(), join)
    })
}
