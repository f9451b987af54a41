//! All interleavings of the thread that writes notes and of one that reads them.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::sync::all_orders;

fn note(number: u64) -> (ResponseId, Nanos, Option<Nanos>) {
    (ResponseId::new(1, 0, number), number + 10, Some(number + 20))
}

/// Reads all notes there are, from note `from` on; each must be whole, and later than the one
/// before.
fn read(notes: &Notes, from: u64) -> u64 {
    let mut last = None;
    notes.read(from, |read| {
        let number = read.first.sequence();
        assert_eq!((read.due, read.client_lag), (number + 10, Some(number + 20)));
        assert!(number >= from && last < Some(number), "{number} after {last:?}");
        last = Some(number);
    })
}

/// One note more than the ring holds, so that a slot is overwritten while it is read.
#[test]
fn a_reader_gets_whole_notes_while_slots_are_overwritten() {
    all_orders(2, || {
        let notes = Arc::new(Notes::expecting(1));
        let writer = notes.clone();
        let thread = thread::spawn(move || {
            for number in 0..=SLOTS {
                writer.write(number, 1, |_| note(number));
            }
        });
        let from = read(&notes, 0);
        read(&notes, from);
        thread.join().expect("no thread fails");
        assert_eq!(read(&notes, 0), SLOTS + 1);
    });
}
