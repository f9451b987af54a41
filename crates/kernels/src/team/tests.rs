//! Teams: each share runs once, in order of phases, whichever workers run.

use super::*;
use std::sync::atomic::AtomicUsize;

#[test]
fn each_share_runs_once_and_workers_sleep_between() {
    let mut team = Team::new(&[None, None], WaitPolicy { spin: Duration::ZERO });
    let counts: [AtomicUsize; 3] = Default::default();
    for _ in 0..100 {
        team.run(&|share| {
            counts[share].fetch_add(1, Ordering::Relaxed);
        });
    }
    assert_eq!(counts.map(AtomicUsize::into_inner), [100; 3]);
}

#[cfg(target_os = "linux")]
#[test]
fn the_caller_leaves_the_core_of_a_worker_and_may_return() {
    use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
    let cores = cores::usable();
    let [first, .., last] = cores.as_slice() else { return };
    let mut team = Team::new(&[Some(*last)], WaitPolicy::default());
    let mut both = CpuSet::new();
    both.set(*first);
    both.set(*last);
    // The system may move it back between the call and the job, though hardly most times; without
    // a step aside it would stay each time.
    let left = (0..100).filter(|_| {
        cores::bind(*last);
        sched_setaffinity(None, &both).expect("cores that it may use");
        let caller = std::thread::current().id();
        let on = AtomicUsize::new(*last);
        team.run(&|share| {
            if share == 0 && std::thread::current().id() == caller {
                on.store(sched_getcpu(), Ordering::Relaxed);
            }
        });
        on.into_inner() == *first
    });
    assert!(left.count() > 50);
    assert_eq!(cores::usable(), [*first, *last]);
    // With no other core it stays, and works all the same.
    cores::bind(*last);
    let ran = AtomicUsize::new(0);
    team.run(&|_| {
        ran.fetch_add(1, Ordering::Relaxed);
    });
    assert_eq!((cores::usable(), ran.into_inner()), (vec![*last], 2));
}

/// Runs phases in which each share checks that all shares of the phase before are done.
fn phases(team: &mut Team, shares: usize, phases: u32) {
    let done: Vec<AtomicU32> = (0..shares).map(|_| AtomicU32::new(0)).collect();
    team.run_phases(shares, phases, &|turns| {
        while let Some(turn) = turns.next() {
            let time = turn.phase;
            assert_eq!(done[turn.share].load(Ordering::Relaxed), time, "once per phase");
            let are_done = |share: &AtomicU32| share.load(Ordering::Relaxed) >= time;
            assert!(done.iter().all(are_done), "in order of phases");
            done[turn.share].store(time + 1, Ordering::Relaxed);
        }
    });
    assert!(done.iter().all(|share| share.load(Ordering::Relaxed) == phases));
}

#[test]
fn phases_follow_each_other_with_any_number_of_shares() {
    let mut team = Team::with_workers(3);
    for round in 0..300 {
        phases(&mut team, 1 + round % 3, 1 + round as u32 % 50);
    }
    assert_eq!(team.workers(), 3);
}

#[test]
fn shares_of_workers_that_do_not_run_are_run_by_others() {
    let mut team = Team::with_workers(3);
    // As if the system had refused to start a thread.
    team.shared.jobs.end();
    for thread in team.threads.drain(..) {
        thread.thread().unpark();
        thread.join().expect("a worker that ended");
    }
    team.shared = SharedState::new(3, WaitPolicy::default());
    phases(&mut team, 3, 100);
    assert_eq!(team.time, 100);
}

#[test]
fn waiting_long_for_a_worker_is_contention() {
    let mut team = Team::with_workers(2);
    let (caller, is_late) = (std::thread::current().id(), AtomicBool::new(false));
    team.run_phases(2, 100, &|turns| {
        while let Some(turn) = turns.next() {
            if std::thread::current().id() != caller && !is_late.swap(true, Ordering::Relaxed) {
                std::thread::park_timeout(Duration::from_millis(100));
            } else if turn.phase == 0 {
                // Time for the worker to wake up and take its share.
                std::thread::park_timeout(Duration::from_millis(5));
            }
        }
    });
    assert!(!is_late.into_inner() || team.contention.is_recent());
}

#[test]
fn a_panic_of_a_share_is_one_of_the_caller_and_the_team_goes_on() {
    let mut team = Team::with_workers(3);
    for share in 0..3 {
        let run = AssertUnwindSafe(|| {
            team.run_phases(3, 50, &|turns| {
                while let Some(turn) = turns.next() {
                    assert!((turn.share, turn.phase) != (share, 25), "share {share} fails");
                }
            });
        });
        let failure = catch_unwind(run).expect_err("a share panicked");
        let message = failure.downcast_ref::<String>().expect("a message");
        assert_eq!(*message, format!("share {share} fails"));
        phases(&mut team, 3, 50);
    }
}

#[test]
fn a_caller_under_contention_works_alone_on_all_shares() {
    let mut team = Team::with_workers(2);
    team.contention.record(now(), Duration::from_secs(9), Duration::from_secs(8), 2);
    let (caller, count) = (std::thread::current().id(), AtomicUsize::new(0));
    team.run(&|_| {
        assert_eq!(std::thread::current().id(), caller);
        count.fetch_add(1, Ordering::Relaxed);
    });
    assert_eq!(count.into_inner(), 2);
}
