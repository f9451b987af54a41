//! All interleavings of an issuing thread that parks and of completing threads that wake it. A lost
//! wake-up leaves the issuing thread asleep, which the model reports as a failure.
//!
//! Not modeled: a thread that waits again after it withdrew an announcement that another thread has
//! read. There loom 0.7.3 reports a lost wake-up, because it knows sequential consistency of fences
//! only: the completing thread reads an announcement that is older than the one before its own count
//! in the single order of sequentially consistent accesses.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::*;
use crate::sut::{Control, Notes, Responder, ResponseId, RunState, Slab};
use crate::sync::all_orders;
use crate::trace::ResponseFilter;

const SAMPLES: u64 = 2;

fn run() -> Responder {
    let slab = Slab::new(SAMPLES as usize, false, ResponseFilter::None, 2);
    slab.admit(SAMPLES);
    let control = Arc::new(Control::default());
    let run = RunState::new(Clock::start(), 1, [slab].into(), control, Notes::none(), 2);
    Responder { run: Arc::new(run) }
}

/// Waits as `Waiter::completion` does after it has spun, without a time limit.
fn wait(responder: &Responder, complete: u64) {
    let run = &responder.run;
    let ready = || run.slabs[0].completed() >= complete;
    let park = || {
        thread::park();
        true
    };
    park_until(ready, || run.announce_park(), park);
    run.withdraw_park();
}

#[test]
fn a_duplicate_that_wakes_the_thread_does_not_let_it_miss_the_next_answer() {
    all_orders(3, || {
        let responder = run();
        let other = responder.clone();
        let thread = thread::spawn(move || {
            for sequence in [0, 0, 1] {
                other.complete(&[ResponseId::new(1, 0, sequence)]);
            }
        });
        wait(&responder, SAMPLES);
        thread.join().expect("no thread fails");
        assert_eq!(responder.run.slabs[0].completed(), SAMPLES);
    });
}

#[test]
fn the_last_of_two_threads_wakes_one_that_parks() {
    all_orders(3, || {
        let responder = run();
        let complete = |sequence| {
            let responder = responder.clone();
            thread::spawn(move || responder.complete(&[ResponseId::new(1, 0, sequence)]))
        };
        let threads: Vec<_> = (0..SAMPLES).map(complete).collect();
        wait(&responder, SAMPLES);
        assert_eq!(responder.run.slabs[0].completed(), SAMPLES);
        for thread in threads {
            thread.join().expect("no thread fails");
        }
    });
}

/// The model can fail: without the announcement, a wake-up is lost.
#[test]
fn a_thread_that_does_not_announce_its_park_is_not_woken() {
    let lost = std::panic::catch_unwind(|| {
        all_orders(3, || {
            let responder = run();
            let (other, announced) = (responder.clone(), AtomicU64::new(0));
            let thread = thread::spawn(move || other.complete(&[ResponseId::new(1, 0, 0)]));
            let ready = || responder.run.slabs[0].completed() >= 1;
            let park = || {
                thread::park();
                true
            };
            park_until(ready, || announced.store(1, Ordering::SeqCst), park);
            thread.join().expect("no thread fails");
        });
    });
    assert!(lost.is_err());
}
