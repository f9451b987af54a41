//! Model checking of all interleavings of threads, and of all values that the memory model lets
//! them see. Guarded data is in cells that fail on concurrent access.

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering, fence};
use loom::thread;

use super::{Arrivals, AtomicWord, Jobs};

/// A word of the model; an unsound one does not order memory accesses.
struct ModelWord<const SOUND: bool>(AtomicU32);

impl<const SOUND: bool> Default for ModelWord<SOUND> {
    fn default() -> Self {
        Self(AtomicU32::new(0))
    }
}

impl<const SOUND: bool> AtomicWord for ModelWord<SOUND> {
    fn latest(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }
    fn publish(&self, number: u32) {
        self.0.store(number, if SOUND { Ordering::Release } else { Ordering::Relaxed });
    }
    fn between() {
        if SOUND {
            fence(Ordering::SeqCst);
        }
    }
}

/// Tries all interleavings with at most `switches` preemptions; with more, a model of spinning
/// threads takes minutes.
fn all_orders(switches: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(switches);
    builder.max_branches = 10_000;
    builder.check(model);
}

/// Whether the model finds a failing interleaving.
fn fails(
    switches: usize,
    model: impl Fn() + Sync + Send + std::panic::UnwindSafe + 'static,
) -> bool {
    std::panic::catch_unwind(move || all_orders(switches, model)).is_err()
}

/// Workers that each write a cell, synchronize, read all cells, and synchronize before the next
/// write.
fn barriers<const SOUND: bool>(workers: usize, rounds: u32, first: u32) {
    let arrivals = Arc::new(Arrivals::<ModelWord<SOUND>>::new(workers));
    // As if all earlier barriers had been passed.
    for word in &arrivals.0 {
        word.0.publish(first);
    }
    let cells: Arc<Vec<UnsafeCell<u32>>> =
        Arc::new((0..workers).map(|_| UnsafeCell::new(0)).collect());
    let work = |worker: usize| {
        let (arrivals, cells) = (Arc::clone(&arrivals), Arc::clone(&cells));
        move || {
            for round in 1..=rounds {
                // SAFETY: the model fails if another thread accesses the cell.
                cells[worker].with_mut(|cell| unsafe { *cell = round });
                arrivals.arrive(worker, first.wrapping_add(2 * round - 1), thread::yield_now);
                for cell in cells.iter() {
                    // SAFETY: the model fails if another thread writes the cell.
                    assert_eq!(cell.with(|cell| unsafe { *cell }), round);
                }
                if round < rounds {
                    arrivals.arrive(worker, first.wrapping_add(2 * round), thread::yield_now);
                }
            }
        }
    };
    let others: Vec<_> = (1..workers).map(|worker| thread::spawn(work(worker))).collect();
    work(0)();
    for other in others {
        other.join().expect("no thread fails");
    }
}

#[test]
fn what_is_written_before_a_barrier_is_seen_after_it_and_not_before() {
    all_orders(3, || barriers::<true>(2, 1, 0));
    all_orders(1, || barriers::<true>(2, 2, 0));
    all_orders(0, || barriers::<true>(3, 1, 0));
    // The count wraps to 0.
    all_orders(2, || barriers::<true>(2, 1, u32::MAX));
    assert!(fails(1, || barriers::<false>(2, 1, 0)), "words that order nothing");
}

const END: u32 = u32::MAX;

/// The loop of a worker as in `SharedState::work`, which checks for a job once and then sleeps.
fn work<const SOUND: bool>(
    jobs: &Jobs<ModelWord<SOUND>>,
    worker: usize,
    job: &UnsafeCell<u32>,
    result: &UnsafeCell<u32>,
) {
    let mut last = 0;
    loop {
        let current = match jobs.current() {
            current if current != last => current,
            _ => jobs.sleep(worker, last, thread::park),
        };
        if current == END {
            return;
        }
        last = current;
        // SAFETY: the model fails if another thread writes the job.
        let number = job.with(|job| unsafe { *job });
        // SAFETY: the model fails if another thread accesses the result.
        result.with_mut(|result| unsafe { *result = number * 10 });
        jobs.end(worker, current);
    }
}

fn jobs<const SOUND: bool>(workers: usize, count: u32) {
    let jobs = Arc::new(Jobs::<ModelWord<SOUND>>::new(workers));
    let job = Arc::new(UnsafeCell::new(0));
    let results: Arc<Vec<UnsafeCell<u32>>> =
        Arc::new((0..workers).map(|_| UnsafeCell::new(0)).collect());
    let start = |worker: usize| {
        let (jobs, job, results) = (Arc::clone(&jobs), Arc::clone(&job), Arc::clone(&results));
        thread::spawn(move || work(&jobs, worker, &job, &results[worker]))
    };
    let threads: Vec<_> = (0..workers).map(start).collect();
    let wake = |worker: usize| threads[worker].thread().unpark();
    for number in 1..=count {
        // SAFETY: the model fails if another thread accesses the cell.
        job.with_mut(|job| unsafe { *job = number });
        jobs.begin(number, wake);
        jobs.wait(number, thread::yield_now);
        for result in results.iter() {
            // SAFETY: the model fails if another thread writes the result.
            assert_eq!(result.with(|result| unsafe { *result }), number * 10);
        }
    }
    // As when a team is dropped: all workers are woken, asleep or not.
    jobs.begin(END, |_| ());
    (0..workers).for_each(wake);
    for thread in threads {
        thread.join().expect("no thread fails");
    }
}

/// A lost wake-up would leave all threads asleep, which the model reports as a failure.
#[test]
fn every_worker_does_every_job_whether_it_slept_or_not() {
    all_orders(3, || jobs::<true>(1, 2));
    all_orders(1, || jobs::<true>(2, 1));
    assert!(fails(2, || jobs::<false>(1, 1)), "words that order nothing");
}
