//! All interleavings of completing threads and of a thread that reads their stamps.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::sync::all_orders;

fn ids(sequences: std::ops::Range<u64>) -> Vec<ResponseId> {
    sequences.map(|sequence| ResponseId::new(1, 0, sequence)).collect()
}

/// Completes samples as the responder does, and returns how many were new.
fn complete(slab: &Slab, sequences: std::ops::Range<u64>, at: Nanos, shard: usize) -> u64 {
    let stamped = slab.stamp(&ids(sequences), at).expect("the samples were issued");
    slab.count(stamped.fresh(), shard);
    stamped.fresh()
}

fn slab() -> Arc<Slab> {
    let slab = Slab::new(8, false, ResponseFilter::None, 2);
    slab.admit(8);
    Arc::new(slab)
}

#[test]
fn each_sample_counts_once_whoever_completes_it() {
    all_orders(3, || {
        let slab = slab();
        let other = slab.clone();
        let thread = thread::spawn(move || complete(&other, 1..4, 7, 1));
        let own = complete(&slab, 0..3, 5, 0);
        let theirs = thread.join().expect("no thread fails");
        assert_eq!((own + theirs, slab.completed()), (4, 4));
        let stamps = slab.stamps(4);
        assert_eq!((stamps.completed_at[0], stamps.completed_at[3]), (5, 7));
        // The first claim of the samples of both stamps all of them.
        let by_first = if own == 3 { 5 } else { 7 };
        assert_eq!(stamps.completed_at[1..3], [by_first; 2]);
        assert_eq!(stamps.misuse.duplicate, 2);
    });
}

#[test]
fn what_is_counted_as_complete_has_its_stamp() {
    all_orders(3, || {
        let slab = slab();
        let other = slab.clone();
        let thread = thread::spawn(move || {
            complete(&other, 0..2, 7, 1);
            complete(&other, 2..3, 8, 1);
        });
        let complete = slab.completed() as usize;
        let stamped = slab.completed_at(8).iter().filter(|&&at| at != 0).count();
        assert!(stamped >= complete, "{stamped} stamps of {complete} complete samples");
        thread.join().expect("no thread fails");
    });
}

#[test]
fn a_failure_and_an_answer_of_one_sample_count_once() {
    all_orders(3, || {
        let slab = slab();
        let other = slab.clone();
        let thread = thread::spawn(move || {
            let noted = other.fail(ResponseId::new(1, 0, 0), Failure::Internal, 7);
            let fresh = u64::from(noted != FailureNote::Stale);
            other.count(fresh, 1);
            fresh
        });
        let own = complete(&slab, 0..1, 5, 0);
        let theirs = thread.join().expect("no thread fails");
        assert_eq!((own + theirs, slab.completed(), slab.failed_count()), (1, 1, theirs));
        assert_eq!(slab.completed_at(1), [if own == 1 { 5 } else { 7 }]);
    });
}
