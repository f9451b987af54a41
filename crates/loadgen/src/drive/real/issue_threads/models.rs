//! All interleavings of threads that register, of a run that gives them work, and of the end of the
//! pool.

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::*;
use crate::sync::all_orders;

/// Starts a thread that serves the pool. The pool itself is behind a pointer of the standard library,
/// which takes no part in the model.
fn serve(pool: &Arc<IssueThreads>) -> thread::JoinHandle<()> {
    let pool = pool.clone();
    thread::spawn(move || pool.serve())
}

#[test]
fn each_thread_does_its_own_work_once() {
    all_orders(2, || {
        let pool = IssueThreads::new();
        let threads = [serve(&pool), serve(&pool)];
        assert_eq!(pool.wait_for(2, 1_000_000), 2);
        let done = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        for lane in 0..2 {
            let done = done.clone();
            let work = move || {
                done[lane].fetch_add(1, Ordering::Relaxed);
            };
            assert!(pool.submit(lane, Box::new(work)).is_ok(), "both threads are registered");
        }
        pool.close();
        for thread in threads {
            thread.join().expect("no thread fails");
        }
        assert_eq!([0, 1].map(|lane| done[lane].load(Ordering::Relaxed)), [1, 1]);
        assert_eq!(pool.registered(), 0);
    });
}

#[test]
fn work_is_done_or_returned_while_the_pool_closes() {
    all_orders(3, || {
        let pool = IssueThreads::new();
        let thread = serve(&pool);
        let closing = pool.clone();
        let closer = thread::spawn(move || closing.close());
        let registered = pool.wait_for(1, 1_000_000);
        let done = Arc::new(AtomicU64::new(0));
        let counter = done.clone();
        let work = move || {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        let is_taken = pool.submit(0, Box::new(work)).is_ok();
        thread.join().expect("no thread fails");
        closer.join().expect("no thread fails");
        assert!(!is_taken || registered == 1, "a thread that is not registered takes no work");
        assert_eq!(done.load(Ordering::Relaxed), u64::from(is_taken));
    });
}
