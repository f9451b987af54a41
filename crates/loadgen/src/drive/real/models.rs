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

/// Parks until `ready` holds, and returns whether it parked. A lost wake-up leaves the thread parked,
/// which fails the model.
fn park(run: &RunState, ready: impl Fn() -> bool) -> bool {
    let waiter = Waiter::new(Clock::start(), WaitStrategy::Sleep, 1);
    let mut looks = 0;
    let look = || {
        looks += 1;
        ready()
    };
    waiter.park(Nanos::MAX, look, || run.announce_park(), || run.withdraw_park());
    looks > 1
}

#[test]
fn completions_of_two_threads_wake_the_parked_issuer() {
    let parked = all_orders(3, || {
        let responder = responder_of(issued(2, false, ResponseFilter::None));
        for sequence in 0..2 {
            let completing = responder.clone();
            thread::spawn(move || completing.complete(&[id(sequence)]));
        }
        let run = &responder.run;
        let first = park(run, || run.slabs[0].completed() > 0);
        let second = park(run, || run.slabs[0].completed() == 2);
        assert!(run.slabs[0].completed_at(2).iter().all(|&at| at != 0));
        (first, second)
    });
    assert_eq!(parked.len(), 4, "{parked:?}");
}

#[test]
fn a_wake_up_for_nothing_costs_no_later_one() {
    let parked = all_orders(4, || {
        let responder = responder_of(issued(2, false, ResponseFilter::None));
        let completing = responder.clone();
        thread::spawn(move || {
            completing.complete(&[id(0)]);
            // Repeated: it completes nothing.
            completing.complete(&[id(0)]);
            completing.complete(&[id(1)]);
        });
        let run = &responder.run;
        park(run, || run.slabs[0].completed() == 2)
    });
    assert_eq!(parked, [false, true].into());
}

#[test]
fn a_released_turn_wakes_the_parked_issuer() {
    let parked = all_orders(4, || {
        let responder = responder_of(issued(1, false, ResponseFilter::None));
        let releasing = responder.clone();
        thread::spawn(move || releasing.release_turn(id(0), 1));
        let run = &responder.run;
        park(run, || run.released() == 1)
    });
    assert_eq!(parked, [false, true].into());
}

#[test]
fn a_glance_counts_the_queries_of_lanes_until_their_run_ends() {
    let counts = all_orders(4, || {
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
        observer.join().expect("no thread fails").map(|(queries, ..)| queries)
    });
    assert_eq!(counts, [None, Some(1)].into());
}
