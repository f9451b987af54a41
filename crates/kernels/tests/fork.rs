//! A child process after `fork` has the memory of a team but not its threads.

#![cfg(unix)]
#![expect(unsafe_code, reason = "fork is a function of C")]

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dyno_kernels::Team;

unsafe extern "C" {
    fn fork() -> c_int;
    fn waitpid(child: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn kill(child: c_int, signal: c_int) -> c_int;
    fn _exit(status: c_int) -> !;
}

const WNOHANG: c_int = 1;
const SIGKILL: c_int = 9;

/// Runs a function in a child process. Returns its exit code; `None` if it hangs or is killed.
fn in_child(work: impl FnOnce() -> bool) -> Option<c_int> {
    // SAFETY: the child uses memory, locks and threads as this program does between its calls; other
    // threads of this program hold no lock that it needs, except perhaps that of stdout.
    let child = unsafe { fork() };
    if child == 0 {
        // A panic must not unwind into this process's copy of the test harness.
        let is_right = catch_unwind(AssertUnwindSafe(work)).unwrap_or(false);
        let code = c_int::from(!is_right);
        // SAFETY: ends this process without destructors of the parent's test harness.
        unsafe { _exit(code) }
    }
    for _ in 0..3000 {
        let mut status = 0;
        // SAFETY: the status is a local number.
        if unsafe { waitpid(child, &raw mut status, WNOHANG) } == child {
            return (status & 0x7f == 0).then_some(status >> 8 & 0xff);
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    // SAFETY: the process is a child of this one that has not ended.
    unsafe {
        kill(child, SIGKILL);
        waitpid(child, std::ptr::null_mut(), 0);
    }
    None
}

/// Runs all shares a few times; returns whether each ran once per job.
fn runs(team: &mut Team) -> bool {
    let counts: Vec<AtomicUsize> = (0..team.workers()).map(|_| AtomicUsize::new(0)).collect();
    for _ in 0..100 {
        team.run(&|share| {
            counts[share].fetch_add(1, Ordering::Relaxed);
        });
    }
    counts.into_iter().all(|count| count.into_inner() == 100)
}

#[test]
fn a_team_works_in_a_child_and_in_a_child_of_it() {
    let mut team = Team::with_workers(3);
    assert!(runs(&mut team));
    let grandchild = |team: &mut Team| in_child(|| runs(team)) == Some(0);
    assert_eq!(in_child(|| runs(&mut team) && grandchild(&mut team)), Some(0));
    assert!(runs(&mut team), "the parent's threads are not affected");
}

#[test]
fn a_child_may_drop_a_team_used_or_not() {
    let mut team = Some(Team::with_workers(2));
    let unused = || {
        drop(team.take());
        true
    };
    assert_eq!(in_child(unused), Some(0));
    let mut team = Team::with_workers(2);
    let used = move || {
        let is_right = runs(&mut team);
        drop(team);
        is_right
    };
    assert_eq!(in_child(used), Some(0));
}
