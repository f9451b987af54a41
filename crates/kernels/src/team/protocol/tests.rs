//! Model checking of all interleavings of threads, and of all values that the memory model lets
//! them see. Guarded data is in cells that fail on concurrent access.

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering, fence};
use loom::thread;

use super::{AtomicWord, END, Jobs, Shares, Turns, Wait};

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
    fn replace(&self, last: u32, number: u32) -> bool {
        let order = if SOUND { Ordering::AcqRel } else { Ordering::Relaxed };
        self.0.compare_exchange(last, number, order, Ordering::Acquire).is_ok()
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

/// How workers other than the caller wait.
#[derive(Clone, Copy)]
enum Patience {
    /// Take any free share at once.
    Eager,
    /// Never take the share of another worker.
    Owner,
    /// Give up at the first wait.
    Leaves,
}

/// For each share, a number for even and for odd phases.
type Cells = Vec<[UnsafeCell<u32>; 2]>;

/// Runs phases on all shares. Each reads what all shares wrote in the phase before, and writes what
/// none reads in the same phase.
fn visit<const SOUND: bool>(
    shares: &Shares<ModelWord<SOUND>>,
    cells: &Cells,
    (worker, before, phases): (usize, u32, u32),
    patience: Patience,
) {
    let mut turns = Turns::new(shares, (cells.len(), worker), before, phases);
    while let Some(turn) = turns.next(|_| {
        thread::yield_now();
        match patience {
            Patience::Eager => Wait::Take,
            Patience::Owner => Wait::On,
            Patience::Leaves => Wait::Leave,
        }
    }) {
        let time = before.wrapping_add(turn.phase);
        let [from, to] = [time as usize % 2, (time as usize + 1) % 2];
        for cell in cells {
            // SAFETY: the model fails if another thread writes the cell.
            assert_eq!(cell[from].with(|cell| unsafe { *cell }), time, "all of the phase before");
        }
        cells[turn.share][to].with_mut(|cell| {
            // SAFETY: the model fails if another thread accesses the cell.
            let cell = unsafe { &mut *cell };
            assert_eq!(*cell, time.wrapping_sub(1), "once per phase");
            *cell = time.wrapping_add(1);
        });
    }
}

/// A job of `phases` phases after the time `first`, which some threads visit at once.
fn phases<const SOUND: bool>(first: u32, phases: u32, workers: &'static [Patience]) {
    let shares = Arc::new(Shares::<ModelWord<SOUND>>::new(workers.len()));
    shares.set(0, first);
    let cell = || [0, 1].map(|at| UnsafeCell::new(first.wrapping_sub((first ^ at) & 1)));
    let cells: Arc<Cells> = Arc::new(workers.iter().map(|_| cell()).collect());
    let visit = |worker: usize| {
        let (shares, cells) = (Arc::clone(&shares), Arc::clone(&cells));
        move || visit(&shares, &cells, (worker, first, phases), workers[worker])
    };
    let others: Vec<_> = (1..workers.len()).map(|worker| thread::spawn(visit(worker))).collect();
    visit(0)();
    assert!((0..workers.len()).all(|share| shares.is_done(share, first.wrapping_add(phases))));
    for other in others {
        other.join().expect("no thread fails");
    }
}

#[test]
fn each_share_runs_once_per_phase_and_after_the_phase_before() {
    use Patience::{Eager, Leaves, Owner};
    all_orders(2, || phases::<true>(0, 2, &[Owner, Owner]));
    all_orders(2, || phases::<true>(0, 2, &[Eager, Eager]));
    all_orders(2, || phases::<true>(0, 2, &[Eager, Leaves]));
    all_orders(1, || phases::<true>(0, 1, &[Eager, Owner, Leaves]));
    // The time wraps to 0.
    all_orders(2, || phases::<true>(u32::MAX, 2, &[Eager, Eager]));
    assert!(fails(2, || phases::<false>(0, 2, &[Owner, Owner])), "words that order nothing");
}

/// The loop of a worker as in `SharedState::work`, which checks for a job once and then sleeps.
fn work<const SOUND: bool>(
    (jobs, shares): (&Jobs<ModelWord<SOUND>>, &Shares<ModelWord<SOUND>>),
    worker: usize,
    before: &UnsafeCell<u32>,
    cells: &Cells,
) {
    let mut last = 0;
    loop {
        let job = jobs.next(last).unwrap_or_else(|| jobs.sleep(worker, last, thread::park));
        if job == END {
            return;
        }
        last = job;
        if jobs.enter(worker, job) {
            // SAFETY: the model fails if another thread writes the number.
            let before = before.with(|before| unsafe { *before });
            visit(shares, cells, (worker + 1, before, 1), Patience::Leaves);
            jobs.leave(worker);
        }
    }
}

/// Jobs of one phase, whose caller takes the shares of workers that come late.
fn jobs<const SOUND: bool>(workers: usize, count: u32) {
    let protocol = Arc::new((Jobs::new(workers), Shares::new(workers + 1)));
    let before = Arc::new(UnsafeCell::new(0));
    let cell = || [0, u32::MAX].map(UnsafeCell::new);
    let cells: Arc<Cells> = Arc::new((0..=workers).map(|_| cell()).collect());
    let start = |worker: usize| {
        let (protocol, before) = (Arc::clone(&protocol), Arc::clone(&before));
        let cells = Arc::clone(&cells);
        thread::spawn(move || work::<SOUND>((&protocol.0, &protocol.1), worker, &before, &cells))
    };
    let threads: Vec<_> = (0..workers).map(start).collect();
    let wake = |worker: usize| threads[worker].thread().unpark();
    let (jobs, shares) = &*protocol;
    for time in 0..count {
        // SAFETY: the model fails if another thread reads the number.
        before.with_mut(|before| unsafe { *before = time });
        let job = jobs.open(workers, wake);
        visit(shares, &cells, (0, time, 1), Patience::Eager);
        jobs.close(job, thread::yield_now);
        assert!((0..=workers).all(|share| shares.is_done(share, time + 1)));
    }
    // As when a team is dropped: all workers are woken, asleep or not.
    jobs.end();
    (0..workers).for_each(wake);
    for thread in threads {
        thread.join().expect("no thread fails");
    }
}

/// A lost wake-up would leave a thread asleep, which the model reports as a failure.
#[test]
fn no_worker_uses_the_data_of_a_job_that_is_closed() {
    all_orders(2, || jobs::<true>(1, 1));
    all_orders(1, || jobs::<true>(1, 2));
    all_orders(0, || jobs::<true>(2, 1));
    assert!(fails(2, || jobs::<false>(1, 2)), "words that order nothing");
}
