//! Models of an issuing thread that parks, and of an observer; see [`crate::sync`].
//!
//! The issuing thread joins no other thread: a wake-up that it does not need would end the join of
//! a model.

use super::monitor::{Monitor, Shape, WatchedRun};
use super::wait::{WaitStrategy, Waiter};
use crate::clock::{Clock, Nanos};
use crate::sut::models::{id, issued, responder_of};
use crate::sut::{RunState, Slab};
use crate::sync::{all_orders, thread};
use crate::trace::ResponseFilter;

/// Parks until `ready` holds. A lost wake-up leaves the thread parked, which fails the model.
fn park(run: &RunState, ready: impl FnMut() -> bool) {
    let waiter = Waiter::new(Clock::start(), WaitStrategy::Sleep, 1);
    waiter.park(Nanos::MAX, ready, || run.announce_park(), || run.withdraw_park());
}

#[test]
fn completions_of_two_threads_wake_the_parked_issuer() {
    all_orders(2, || {
        let responder = responder_of(issued(2, false, ResponseFilter::None));
        for sequence in 0..2 {
            let completing = responder.clone();
            thread::spawn(move || completing.complete(&[id(sequence)]));
        }
        let run = &responder.run;
        park(run, || run.slabs[0].completed() > 0);
        park(run, || run.slabs[0].completed() == 2);
        assert_eq!(run.slabs[0].completed_at(2).iter().filter(|&&at| at == 0).count(), 0);
    });
}

#[test]
fn a_wake_up_for_nothing_costs_no_later_one() {
    all_orders(3, || {
        let responder = responder_of(issued(2, false, ResponseFilter::None));
        let completing = responder.clone();
        thread::spawn(move || {
            completing.complete(&[id(0)]);
            // Repeated: it completes nothing.
            completing.complete(&[id(0)]);
            completing.complete(&[id(1)]);
        });
        let run = &responder.run;
        park(run, || run.slabs[0].completed() == 2);
        assert_eq!(run.slabs[0].completed(), 2);
    });
}

#[test]
fn a_released_turn_wakes_the_parked_issuer() {
    all_orders(3, || {
        let responder = responder_of(issued(1, false, ResponseFilter::None));
        let releasing = responder.clone();
        thread::spawn(move || releasing.release_turn(id(0), 1));
        let run = &responder.run;
        park(run, || run.released() == 1);
        assert_eq!(run.released(), 1);
    });
}

#[test]
fn a_glance_counts_the_queries_of_lanes_until_their_run_ends() {
    all_orders(3, || {
        let monitor = Monitor::default();
        let slab = Slab::new(3, false, ResponseFilter::None, 1);
        // One query, the third of the trace: the other lanes have issued none.
        slab.admit_at_least(3);
        let shapes = vec![Shape { samples_per_query: 1, is_offline: false }];
        monitor.watch(Some(WatchedRun { responder: responder_of(slab), epoch: 2, shapes }));
        monitor.count_of_lane(1);
        let observed = monitor.clone();
        let observer = thread::spawn(move || observed.progress());
        monitor.watch(None);
        let progress = observer.join().expect("no thread fails");
        assert!(progress.is_none_or(|(queries, ..)| queries == 1), "{progress:?}");
    });
}
