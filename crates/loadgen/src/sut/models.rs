//! Models of threads that complete samples, see [`crate::sync`].

use std::sync::Arc;

use super::failing::FailureNote;
use super::{Notes, Responder, Response, ResponseId, RunState, Slab};
use crate::clock::Clock;
use crate::record::Failure;
use crate::sync::{all_orders, thread};
use crate::trace::ResponseFilter;

const EPOCH: u16 = 2;

/// Returns the id of a sample of the modeled run.
pub(crate) fn id(sequence: u64) -> ResponseId {
    ResponseId::new(EPOCH, 0, sequence)
}

/// Returns the slab of a run that has issued these samples.
pub(crate) fn issued(samples: usize, tokens: bool, kept: ResponseFilter) -> Slab {
    let slab = Slab::new(samples, tokens, kept, 2);
    slab.admit(samples as u64);
    slab
}

/// Returns the responder of a run that the calling thread issues.
pub(crate) fn responder_of(slab: Slab) -> Responder {
    let (clock, slabs) = (Clock::start(), Box::new([slab]));
    let run = RunState::new(clock, EPOCH, slabs, Arc::default(), Notes::none(), 1);
    Responder { run: Arc::new(run) }
}

#[test]
fn one_of_two_reports_of_a_sample_counts() {
    let failures = all_orders(4, || {
        let slab = Arc::new(issued(2, false, ResponseFilter::None));
        let completing = slab.clone();
        let other = thread::spawn(move || {
            let fresh = completing.stamp(&[id(0), id(1)], 10).expect("both are issued").fresh();
            completing.count(fresh, 0);
            fresh
        });
        let failed = u64::from(slab.fail(id(1), Failure::Internal, 20) != FailureNote::Stale);
        slab.count(failed, 1);
        let answered = other.join().expect("no thread fails");
        assert_eq!((answered + failed, slab.completed()), (2, 2));
        let stamps = slab.stamps(2);
        assert_eq!(stamps.completed_at, [10, if failed == 1 { 20 } else { 10 }]);
        assert_eq!((stamps.failed.len() as u64, stamps.misuse.duplicate), (failed, 1));
        failed
    });
    assert_eq!(failures, [0, 1].into());
}

#[test]
fn what_a_completion_stored_is_visible_once_it_is_counted() {
    let counts = all_orders(3, || {
        let responder = responder_of(issued(2, true, ResponseFilter::All));
        let completing = responder.clone();
        thread::spawn(move || {
            completing.first_token(&[Response { id: id(0), data: b"first", tokens: 0 }]);
            completing.complete(&[Response { id: id(0), data: b"all", tokens: 7 }]);
            completing.fail(&[id(1)], Failure::Internal);
        });
        let slab = &responder.run.slabs[0];
        let completed = slab.completed();
        let stamps = slab.stamps(2);
        if completed >= 1 {
            assert_ne!(stamps.first_token_at[0], 0);
            assert_ne!(stamps.completed_at[0], 0);
            assert_eq!(stamps.tokens[0], 7);
            let logged = stamps.responses.iter().next().expect("all responses are logged");
            assert_eq!((logged.data, logged.first_token), (&b"all"[..], Some(&b"first"[..])));
        }
        if completed == 2 {
            assert_ne!(stamps.completed_at[1], 0);
            assert_eq!(stamps.failed, [(1, Failure::Internal)]);
        }
        completed
    });
    assert_eq!(counts, [0, 1, 2].into());
}

#[test]
fn a_sample_that_fails_while_stamps_are_copied_is_no_answer() {
    let completions = all_orders(4, || {
        let responder = responder_of(issued(1, false, ResponseFilter::None));
        let failing = responder.clone();
        thread::spawn(move || failing.fail_at(&[id(0)], Failure::Internal, 1));
        let stamps = responder.run.slabs[0].stamps(1);
        let is_complete = stamps.completed_at[0] != 0;
        assert_eq!(stamps.failed.len(), usize::from(is_complete));
        assert!(!is_complete || responder.run.misuse.has_times(), "the time is checked");
        is_complete
    });
    assert_eq!(completions, [false, true].into());
}

#[test]
fn a_late_completion_of_an_earlier_run_completes_no_sample() {
    all_orders(4, || {
        let responder = responder_of(issued(2, false, ResponseFilter::None));
        let late = responder.clone();
        let other = thread::spawn(move || late.complete(&[ResponseId::new(EPOCH - 1, 0, 1)]));
        responder.complete(&[id(0)]);
        other.join().expect("no thread fails");
        let slab = &responder.run.slabs[0];
        let stamps = slab.stamps(2);
        assert_eq!((slab.completed(), responder.run.misuse.total().stale), (1, 1));
        assert!(stamps.completed_at[0] != 0 && stamps.completed_at[1] == 0);
        assert_eq!(stamps.misuse.duplicate, 0);
    });
}

#[test]
fn lanes_that_issue_at_once_admit_all_of_their_samples() {
    let issue = |slab: &Slab, sequence: u64, shard: usize| {
        slab.admit_at_least(sequence + 1);
        let stamped = slab.stamp(&[id(sequence)], 5).expect("the sample is issued");
        slab.count(stamped.fresh(), shard);
    };
    all_orders(4, move || {
        let slab = Arc::new(Slab::new(2, false, ResponseFilter::None, 2));
        let second = slab.clone();
        let other = thread::spawn(move || issue(&second, 1, 1));
        issue(&slab, 0, 0);
        other.join().expect("no thread fails");
        assert_eq!((slab.issued(), slab.completed()), (2, 2));
        assert_eq!(slab.completed_at(2), [5, 5]);
    });
}

#[test]
fn an_observer_reads_whole_notes_in_their_order() {
    let sequences = all_orders(4, || {
        let notes = Arc::new(Notes::expecting(1));
        let observed = notes.clone();
        let observer = thread::spawn(move || {
            let (mut from, mut sequences) = (0, Vec::new());
            for _ in 0..2 {
                from = observed.read(from, |note| {
                    let sequence = note.first.sequence();
                    assert_eq!((note.due, note.client_lag), (sequence + 10, Some(sequence + 20)));
                    sequences.push(sequence);
                });
            }
            sequences
        });
        // The ring holds two notes.
        for number in 0..3 {
            notes.write(number, 1, |_| (id(number), number + 10, Some(number + 20)));
        }
        observer.join().expect("no thread fails")
    });
    let all: [&[u64]; 7] = [&[], &[0], &[0, 1], &[0, 2], &[1], &[1, 2], &[2]];
    assert_eq!(sequences, all.map(<[u64]>::to_vec).into());
}
