//! Notes of the issuing thread for observers: the due time of one random query in each stretch of n, in
//! a ring that only this thread writes. Every n-th query would show a system with a period always at the
//! same phase. Without an observer nothing is noted. With one, about a thousand
//! queries are noted between two glances.

use std::sync::atomic::Ordering;

use super::ResponseId;
use super::slab::CachePadded;
use crate::clock::Nanos;
use crate::rng::split_mix_at;
use crate::sync::{AtomicU64, IS_MODEL};

/// Maximum number of queries chosen per glance.
pub(crate) const CHOSEN_AT_ONCE: u64 = 1_024;

/// Capacity of the ring: larger than the number of notes wanted between two glances, because the
/// rate of the following queries is unknown.
const SLOTS: u64 = if IS_MODEL { 2 } else { 4 * CHOSEN_AT_ONCE };

/// Assumed minimum number of glances per run. It sets the share of queries noted before the first
/// glance.
const LEAST_GLANCES: u64 = 64;

/// Mask of a ring that notes no query.
const NOTHING: u64 = u64::MAX;

/// Stored instead of a client lag for queries that are due when they are issued.
const NO_LAG: u64 = u64::MAX;

/// Ring of notes.
#[derive(Debug)]
pub(crate) struct Notes {
    /// Length of a stretch, a power of two, minus 1; or [`NOTHING`].
    mask: AtomicU64,
    /// Notes written so far.
    written: CachePadded<AtomicU64>,
    /// Empty without an observer.
    slots: Box<[Slot]>,
}

#[derive(Debug, Default)]
struct Slot {
    first: AtomicU64,
    due: AtomicU64,
    client_lag: AtomicU64,
    stands_for: AtomicU64,
}

/// One query, as noted when it was issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Note {
    /// Id of its first sample.
    pub(crate) first: ResponseId,
    /// When it was due.
    pub(crate) due: Nanos,
    /// Lag caused by the client; `None` unless queries are due at set times.
    pub(crate) client_lag: Option<Nanos>,
    /// Queries issued per noted query.
    pub(crate) stands_for: u64,
}

impl Notes {
    /// Returns empty notes, for a run without an observer.
    pub(crate) fn none() -> Self {
        Self {
            mask: AtomicU64::new(NOTHING),
            written: CachePadded::default(),
            slots: Box::default(),
        }
    }

    /// Returns notes for an observer of a run of about this many queries.
    pub(crate) fn expecting(queries: u64) -> Self {
        let slots = (0..SLOTS).map(|_| Slot::default()).collect();
        let notes = Self { slots, ..Self::none() };
        notes.aim(queries / LEAST_GLANCES);
        notes
    }

    /// Sets the share of noted queries: about [`CHOSEN_AT_ONCE`] of the next `queries`.
    pub(crate) fn aim(&self, queries: u64) {
        let every = queries.div_ceil(CHOSEN_AT_ONCE).max(1).next_power_of_two();
        self.mask.store(every - 1, Ordering::Relaxed);
    }

    /// Returns whether the query with this number is noted.
    #[inline]
    pub(crate) fn wants(&self, number: u64) -> bool {
        is_chosen(number, self.mask.load(Ordering::Relaxed))
    }

    /// Writes the notes of one call. Only one thread may write. `note` returns the id, the due time
    /// and the client lag of query i of the call.
    pub(crate) fn write(
        &self,
        number: u64,
        queries: u64,
        note: impl Fn(u64) -> (ResponseId, Nanos, Option<Nanos>),
    ) {
        let mask = self.mask.load(Ordering::Relaxed);
        let mut written = self.written.0.load(Ordering::Relaxed);
        for i in (0..queries).filter(|i| is_chosen(number + i, mask)) {
            let Some(slot) = self.slots.get((written % SLOTS) as usize) else { return };
            let (first, due, client_lag) = note(i);
            // Each store releases: a reader of any of these values sees the earlier notes and
            // therefore knows that this slot was overwritten.
            slot.first.store(first.0, Ordering::Release);
            slot.due.store(due, Ordering::Release);
            slot.client_lag.store(client_lag.unwrap_or(NO_LAG), Ordering::Release);
            slot.stands_for.store(mask.wrapping_add(1).max(1), Ordering::Release);
            written += 1;
            self.written.0.store(written, Ordering::Release);
        }
    }

    /// Passes the notes from number `from` on that the ring still holds to `visit`, and returns how
    /// many notes have been written in all.
    pub(crate) fn read(&self, from: u64, mut visit: impl FnMut(Note)) -> u64 {
        if self.slots.is_empty() {
            return 0;
        }
        let end = self.written.0.load(Ordering::Acquire);
        for number in from.max(end.saturating_sub(SLOTS))..end {
            let slot = &self.slots[(number % SLOTS) as usize];
            let note = Note {
                first: ResponseId(slot.first.load(Ordering::Acquire)),
                due: slot.due.load(Ordering::Acquire),
                client_lag: Some(slot.client_lag.load(Ordering::Acquire)).filter(|&l| l != NO_LAG),
                stands_for: slot.stands_for.load(Ordering::Acquire),
            };
            // Note `number + SLOTS` overwrites this slot after all notes before it.
            if self.written.0.load(Ordering::Acquire) < number + SLOTS {
                visit(note);
            }
        }
        end
    }
}

/// Returns whether a query is the random one of its stretch.
#[inline]
fn is_chosen(number: u64, mask: u64) -> bool {
    mask == 0 || (mask != NOTHING && (number ^ split_mix_at(number & !mask)) & mask == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(sequence: u64) -> (ResponseId, Nanos, Option<Nanos>) {
        (ResponseId::new(1, 0, sequence), sequence + 1, Some(sequence + 2))
    }

    #[test]
    fn a_reader_gets_whole_notes_while_they_are_written() {
        let notes = Notes::expecting(1);
        let writing = 50 * SLOTS;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..writing {
                    notes.write(number, 1, |_| note(number));
                }
            });
            let (mut from, mut last) = (0, None);
            while from < writing {
                from = notes.read(from, |read| {
                    let sequence = read.first.sequence();
                    assert_eq!((read.due, read.client_lag), (sequence + 1, Some(sequence + 2)));
                    assert!(last < Some(sequence), "{sequence} after {last:?}");
                    last = Some(sequence);
                });
            }
            assert_eq!(last, Some(writing - 1));
        });
    }

    #[test]
    fn a_period_has_its_share_of_the_notes() {
        let notes = Notes::expecting(1);
        notes.aim(1_000_000);
        let noted: Vec<u64> = (0..1_000_000).filter(|&number| notes.wants(number)).collect();
        assert!(noted.iter().map(|number| number / 1_024).eq(0..977), "one in each stretch");
        for period in [2, 8, 64] {
            let hits = noted.iter().filter(|number| number.is_multiple_of(period)).count();
            let (share, expected) = (hits as f64 / 977.0, 1.0 / period as f64);
            // Four standard deviations of a binomial share.
            let reach = 4.0 * (expected * (1.0 - expected) / 977.0).sqrt();
            assert!((share - expected).abs() < reach, "period {period}: {share}");
        }
    }

    #[test]
    fn about_as_many_are_noted_as_are_aimed_at() {
        let notes = Notes::expecting(1);
        notes.aim(1_000_000);
        let calls = (0..1_000_000).filter(|&number| notes.wants(number));
        for number in calls {
            notes.write(number, 1, |_| note(number));
        }
        let mut stand_for = 0;
        let written = notes.read(0, |read| stand_for += read.stands_for);
        assert!((CHOSEN_AT_ONCE / 2..=CHOSEN_AT_ONCE).contains(&written), "{written}");
        assert!(stand_for >= 1_000_000, "{stand_for}");
        // Coalesced queries are noted by the same numbers.
        let coalesced = Notes::expecting(1_000_000 * LEAST_GLANCES);
        for call in 0..1_000 {
            coalesced.write(call * 1_000, 1_000, |i| note(call * 1_000 + i));
        }
        assert_eq!(coalesced.read(0, |_| ()), written);
        let nobody = Notes::none();
        nobody.write(0, 1, note);
        assert_eq!(nobody.read(0, |read| panic!("{read:?}")), 0);
    }
}
