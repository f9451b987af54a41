//! Models of threads that register, get work and are released; see [`crate::sync`].

use std::sync::Arc;

use super::{IssueThreads, Work};
use crate::sync::{Mutex, all_orders, thread};

type Log = Arc<Mutex<Vec<thread::Thread>>>;

/// Returns work that logs the thread that does it.
fn logged(log: &Log) -> Work {
    let log = log.clone();
    Box::new(move || log.lock().expect("no thread fails").push(thread::current()))
}

/// Registers a new thread.
fn serve(pool: &Arc<IssueThreads>) -> impl FnOnce() + use<> {
    let pool = pool.clone();
    let thread = thread::spawn(move || pool.serve());
    move || thread.join().expect("no thread fails")
}

#[test]
fn each_registered_thread_does_its_own_work() {
    all_orders(3, || {
        let (pool, log) = (IssueThreads::new(), Log::default());
        let joins = [serve(&pool), serve(&pool)];
        assert_eq!(pool.wait_for(2, 0), 2);
        for number in 0..2 {
            assert!(pool.submit(number, logged(&log)).is_ok(), "thread {number} is registered");
        }
        pool.close();
        for join in joins {
            join();
        }
        let log = log.lock().expect("no thread fails");
        assert_eq!(log.len(), 2);
        assert_ne!(log[0].id(), log[1].id());
        assert_eq!(pool.registered(), 0);
    });
}

#[test]
fn work_is_done_or_returned_while_a_pool_closes() {
    let accepted = all_orders(3, || {
        let (pool, log) = (IssueThreads::new(), Log::default());
        let join = serve(&pool);
        let closing = pool.clone();
        let closer = thread::spawn(move || closing.close());
        let _ = pool.wait_for(1, 0);
        let is_accepted = pool.submit(0, logged(&log)).is_ok();
        closer.join().expect("no thread fails");
        join();
        assert_eq!(log.lock().expect("no thread fails").len(), usize::from(is_accepted));
        is_accepted
    });
    assert_eq!(accepted, [false, true].into());
}

#[test]
fn work_of_two_runs_for_one_thread_is_done_or_returned() {
    let accepted = all_orders(3, || {
        let (pool, log) = (IssueThreads::new(), Log::default());
        let join = serve(&pool);
        assert_eq!(pool.wait_for(1, 0), 1);
        let (other_pool, other_log) = (pool.clone(), log.clone());
        let other = thread::spawn(move || other_pool.submit(0, logged(&other_log)).is_ok());
        let is_accepted = pool.submit(0, logged(&log)).is_ok();
        let is_other_accepted = other.join().expect("no thread fails");
        pool.close();
        join();
        let done = log.lock().expect("no thread fails").len();
        assert_eq!(done, usize::from(is_accepted) + usize::from(is_other_accepted));
        (is_accepted, is_other_accepted)
    });
    assert_eq!(accepted, [(true, true), (true, false), (false, true)].into());
}
