//! The responder: takes the answers of a system under test.

use std::cell::Cell;
use std::ops::{Deref, Range};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::failing::{Control, FailureNote, MassFailure};
use super::notes::Notes;
use super::slab::{CachePadded, Slab, StampedBatch};
use super::{AsResponse, ResponseId};
use crate::clock::{Clock, Nanos};
use crate::record::{Failure, Misuse};
use crate::sync::{AtomicBool, AtomicU64, thread};

/// Takes completions of one run, from any thread, in any order and in batches of any size.
///
/// A completion costs one clock read, one atomic operation per 64 samples and one to count. It
/// takes no lock, allocates nothing and makes no system call, unless the issuing thread has
/// parked and must be woken. Responses that are logged are copied after they are stamped.
#[derive(Debug, Clone)]
pub struct Responder {
    pub(crate) run: Arc<RunState>,
}

/// Largest epoch. It keeps ids below 2^53: a harness may pass ids through doubles, which hold the
/// addresses that the reference uses as ids.
const MOST_EPOCHS: u64 = 511;

/// Returns the epoch of the next run, for [`Driver::epoch`](crate::drive::Driver::epoch). Epochs are
/// counted over all tests of the process, because a system may complete a sample of an earlier test.
#[must_use]
pub fn next_epoch() -> u16 {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed) as u64;
    u16::try_from(run % MOST_EPOCHS + 1).expect("at most 511")
}

/// State of one run that the issuing thread and the completing threads share.
#[derive(Debug)]
pub(crate) struct RunState {
    /// Shows ns since the start of the run.
    pub(crate) clock: Clock,
    /// [`ResponseId::run`] of tenant 0.
    pub(crate) first_run: u64,
    pub(crate) slabs: Box<[Slab]>,
    pub(crate) notes: Notes,
    control: Arc<Control>,
    pub(crate) misuse: ForeignIds,
    parked: CachePadded<AtomicBool>,
    issuer: thread::Thread,
    /// Number of shards, a power of two so that a shard is found without a division.
    shards: usize,
}

/// Counts of completions that belong to no tenant of the run, and of impossible times.
#[derive(Debug, Default)]
pub(crate) struct ForeignIds {
    stale: AtomicU64,
    unknown: AtomicU64,
    /// Times later than their report.
    impossible_times: AtomicU64,
    /// Whether the system reported its own times.
    has_times: AtomicBool,
}

impl ForeignIds {
    pub(crate) fn total(&self) -> Misuse {
        Misuse {
            stale: self.stale.load(Ordering::Relaxed),
            unknown: self.unknown.load(Ordering::Relaxed),
            impossible_times: self.impossible_times.load(Ordering::Relaxed),
            ..Misuse::default()
        }
    }

    /// Returns whether the system reported its own times, which are checked after the run.
    pub(crate) fn has_times(&self) -> bool {
        self.has_times.load(Ordering::Relaxed)
    }
}

impl RunState {
    /// Returns the state of a run that the current thread issues; that thread may park.
    pub(crate) fn new(
        clock: Clock,
        epoch: u16,
        slabs: Box<[Slab]>,
        control: Arc<Control>,
        notes: Notes,
        shards: usize,
    ) -> Self {
        assert!(shards.is_power_of_two(), "the number of shards is a power of two");
        Self {
            clock,
            first_run: ResponseId::new(epoch, 0, 0).run(),
            slabs,
            notes,
            control,
            misuse: ForeignIds::default(),
            parked: CachePadded::default(),
            issuer: thread::current(),
            shards,
        }
    }

    /// Returns the slab of `samples` ids from this one on; counts them as misuse if there is none.
    #[inline]
    fn slab(&self, id: ResponseId, samples: usize) -> Option<&Slab> {
        let tenant = id.run().wrapping_sub(self.first_run);
        let slab = usize::try_from(tenant).ok().and_then(|at| self.slabs.get(at));
        if slab.is_none() {
            // Epochs repeat, so that a larger epoch may also be an earlier one.
            let own = ResponseId(self.first_run << ResponseId::SEQUENCE_BITS).epoch();
            let earlier = id.0 != 0 && id.epoch() <= MOST_EPOCHS && id.epoch() != own;
            let counter = if earlier { &self.misuse.stale } else { &self.misuse.unknown };
            counter.fetch_add(samples as u64, Ordering::Relaxed);
        }
        slab
    }

    /// Announces that the issuer parks. It must check the counts once more before
    /// [`std::thread::park`].
    pub(crate) fn announce_park(&self) {
        self.parked.0.store(true, Ordering::SeqCst);
    }

    pub(crate) fn withdraw_park(&self) {
        self.parked.0.store(false, Ordering::SeqCst);
    }

    /// Returns how many held turns were released.
    pub(crate) fn released(&self) -> u64 {
        self.slabs.iter().map(Slab::released).sum()
    }

    #[inline]
    fn wake(&self) {
        if self.parked.0.load(Ordering::SeqCst) && self.parked.0.swap(false, Ordering::SeqCst) {
            self.issuer.unpark();
        }
    }

    /// Returns the time since the start of the run in ns, at least 1: a stamp of 0 means not
    /// complete.
    #[inline]
    fn stamp(&self) -> Nanos {
        self.clock.now().max(1)
    }

    /// Returns the stamp for a time that the system reported: never later than now.
    #[inline]
    fn stamp_of(&self, at: Nanos) -> Nanos {
        if !self.misuse.has_times.load(Ordering::Relaxed) {
            self.misuse.has_times.store(true, Ordering::Relaxed);
        }
        let now = self.stamp();
        if at > now {
            self.misuse.impossible_times.fetch_add(1, Ordering::Relaxed);
        }
        at.clamp(1, now)
    }

    #[inline]
    fn shard(&self) -> usize {
        thread_shard() & (self.shards - 1)
    }
}

/// Returns a number for the calling thread. Completing threads share counters only if there are
/// more threads than shards.
#[inline]
fn thread_shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SHARD: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    SHARD.with(|shard| {
        if shard.get() == usize::MAX {
            shard.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        shard.get()
    })
}

impl Responder {
    /// Returns the time since the start of the run, ns, by the clock of completion stamps.
    #[inline]
    pub fn now(&self) -> Nanos {
        self.run.clock.now()
    }

    /// Returns what the run's clock showed when `clock` showed `at`; 0 before the run began.
    /// Both clocks read the same monotonic clock, so that the conversion is exact.
    #[inline]
    pub fn time_of(&self, clock: &Clock, at: Nanos) -> Nanos {
        self.run.clock.when(clock, at)
    }

    /// Returns whether an issued sample is measured: its query is not due in the ramp before the
    /// measured part.
    #[inline]
    pub fn is_measured(&self, id: ResponseId) -> bool {
        let slab = self.run.slabs.get(usize::from(id.tenant()));
        slab.and_then(Slab::ramp).is_none_or(|ramp| ramp.is_measured(id.sequence()))
    }

    /// Returns whether the run was ended early. Samples that the system has not begun then need no
    /// answer: a system with a queue drops them.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.run.control.is_aborted()
    }

    /// Completes samples; the time is read once, on entry.
    #[inline]
    pub fn complete<R: AsResponse>(&self, responses: &[R]) {
        self.complete_stamped(responses, self.run.stamp());
    }

    /// Completes samples that were complete at `at`, in ns since the start of the run
    /// (see [`Responder::time_of`]).
    ///
    /// A time after now becomes now, and a time before a sample was issued becomes the time of
    /// its issue; both are counted in [`Misuse::impossible_times`].
    #[inline]
    pub fn complete_at<R: AsResponse>(&self, responses: &[R], at: Nanos) {
        self.complete_stamped(responses, self.run.stamp_of(at));
    }

    #[inline]
    fn complete_stamped<R: AsResponse>(&self, responses: &[R], at: Nanos) {
        self.settle(&mut { responses }, at, |slab, responses, range, stamped| {
            let first = responses[range.start].id();
            slab.keep(first, &responses[range], stamped, self.run.shard());
        });
    }

    /// Reports how many tokens of an answer came from its first token to its completion, if these are
    /// not all of its tokens; `None` if this is unknown. Called before the sample is completed.
    pub fn timed_tokens(&self, id: ResponseId, tokens: Option<i64>) {
        if let Some(slab) = self.slab_of(id) {
            slab.timed_tokens(id, tokens);
        }
    }

    /// Reports that an answer was whole only at `at`, in ns since the start of the run, although it
    /// counts as complete before. The next turn of its session is not due before that. Called before
    /// the sample is completed.
    pub fn whole_at(&self, id: ResponseId, at: Nanos) {
        if let Some(slab) = self.slab_of(id) {
            slab.whole_at(id, self.run.stamp_of(at));
        }
    }

    /// Reports that the answer to a sample asks for a further turn of its
    /// [task](crate::plan::Plan::with_tasks). Called before the sample is completed, and only for turns
    /// of sessions.
    pub fn continue_task(&self, id: ResponseId) {
        if let Some(slab) = self.slab_of(id) {
            slab.continue_task(id);
        }
    }

    /// Holds the turn that follows a sample in its session, because it is not known yet when it can be
    /// sent: until [`Responder::release_turn`]. Called before the sample is completed. The run does not
    /// wait for the turn once it has lasted long enough.
    pub fn hold_turn(&self, id: ResponseId) {
        if let Some(slab) = self.slab_of(id) {
            slab.hold(id);
        }
    }

    /// Permits the turn that follows a sample, at `at` (ns since the start of the run) or later.
    pub fn release_turn(&self, id: ResponseId, at: Nanos) {
        if let Some(slab) = self.slab_of(id) {
            slab.release(id, self.run.stamp_of(at));
            self.run.wake();
        }
    }

    fn slab_of(&self, id: ResponseId) -> Option<&Slab> {
        let tenant = id.run().wrapping_sub(self.run.first_run);
        usize::try_from(tenant).ok().and_then(|at| self.run.slabs.get(at))
    }

    /// Completes samples and fetches only the payloads that are logged.
    ///
    /// `fetch` is called for each logged response, after its time was stamped and before its
    /// payload is read. A payload on a device is therefore copied only if it is needed. The
    /// payload is read before the next call of `fetch`, which may reuse its memory.
    ///
    /// # Panics
    /// If `fetch` panics: its panic is passed on when all samples are complete. It is not called
    /// again, and the responses from this one on are not logged.
    pub fn complete_fetching<R: AsResponse>(
        &self,
        mut responses: &mut [R],
        mut fetch: impl FnMut(&mut R),
    ) {
        let at = self.run.stamp();
        let mut panicked = None;
        self.settle(&mut responses, at, |slab, responses, range, stamped| {
            for (i, response) in responses[range].iter_mut().enumerate() {
                let id = response.id();
                if panicked.is_some() || !stamped.is_fresh(i) || !slab.keeps(id) {
                    continue;
                }
                // Called without the lock, because `fetch` may complete other samples. A panic must
                // not leave samples stamped and not counted: the run would wait for them for ever.
                match catch_unwind(AssertUnwindSafe(|| fetch(response))) {
                    Ok(()) => {
                        let fetched = slice::from_ref(&*response);
                        slab.keep(id, fetched, StampedBatch::ONE, self.run.shard());
                    }
                    Err(panic) => panicked = Some(panic),
                }
            }
        });
        if let Some(panic) = panicked {
            resume_unwind(panic);
        }
    }

    /// Completes a batch; `keep` copies the logged responses of a range of it.
    #[inline]
    fn settle<R: AsResponse, B: Deref<Target = [R]>>(
        &self,
        batch: &mut B,
        at: Nanos,
        mut keep: impl FnMut(&Slab, &mut B, Range<usize>, StampedBatch),
    ) {
        let run = &*self.run;
        let shard = run.shard();
        let (mut counted, mut fresh): (Option<(u8, &Slab)>, u64) = (None, 0);
        let mut begin = 0;
        while begin < batch.len() {
            let first = batch[begin].id();
            let mut end = begin + contiguous_in_word(&batch[begin..]);
            let Some(slab) = run.slab(first, end - begin) else {
                begin = end;
                continue;
            };
            let stamped = slab.stamp(&batch[begin..end], at).or_else(|| {
                // Some of these ids were never issued: stamp one by one.
                end = begin + 1;
                slab.stamp(&batch[begin..end], at)
            });
            let Some(stamped) = stamped else {
                slab.count_unknown();
                begin = end;
                continue;
            };
            if slab.logs() {
                keep(slab, batch, begin..end, stamped);
            }
            begin = end;
            let tenant = first.tenant();
            if let Some((counted_tenant, counted_slab)) = counted
                && counted_tenant != tenant
            {
                counted_slab.count(fresh, shard);
                fresh = 0;
            }
            counted = Some((tenant, slab));
            fresh += stamped.fresh();
        }
        if let Some((_, slab)) = counted {
            slab.count(fresh, shard);
            run.wake();
        }
    }

    /// Reports the first tokens of samples. The `data` of each response is logged as the payload of
    /// the first token; its token count is ignored.
    pub fn first_token<R: AsResponse>(&self, responses: &[R]) {
        self.first_token_stamped(responses, self.run.stamp());
    }

    /// Reports first tokens that came at `at`, in ns since the start of the run. Impossible times
    /// are treated as in [`Responder::complete_at`].
    pub fn first_token_at<R: AsResponse>(&self, responses: &[R], at: Nanos) {
        self.first_token_stamped(responses, self.run.stamp_of(at));
    }

    fn first_token_stamped<R: AsResponse>(&self, responses: &[R], at: Nanos) {
        for response in responses {
            if let Some(slab) = self.run.slab(response.id(), 1) {
                slab.first_token(response, at);
            }
        }
    }

    /// Reports samples that the system cannot answer. They count as complete, but never as
    /// throughput.
    pub fn fail(&self, ids: &[ResponseId], why: Failure) {
        self.fail_stamped(ids, why, self.run.stamp());
    }

    /// Reports samples that failed at `at`, in ns since the start of the run. Impossible times
    /// are treated as in [`Responder::complete_at`].
    pub fn fail_at(&self, ids: &[ResponseId], why: Failure, at: Nanos) {
        self.fail_stamped(ids, why, self.run.stamp_of(at));
    }

    fn fail_stamped(&self, ids: &[ResponseId], why: Failure, at: Nanos) {
        let shard = self.run.shard();
        for &id in ids {
            let Some(slab) = self.run.slab(id, 1) else { continue };
            let noted = slab.fail(id, why, at);
            // Before the sample counts as complete: the issuing thread would send the next one.
            if let FailureNote::Failing { window, failed, answers } = noted {
                let tenant = id.tenant().into();
                self.run.control.report(MassFailure { tenant, window, failed, answers });
            }
            slab.count(u64::from(noted != FailureNote::Stale), shard);
        }
        self.run.wake();
    }
}

/// Returns how many of the first responses have consecutive ids within one word of 64 samples
/// (>= 1).
#[inline]
fn contiguous_in_word<R: AsResponse>(responses: &[R]) -> usize {
    let first = responses[0].id();
    let room = 64 - (first.sequence() % 64) as usize;
    let most = room.min(responses.len());
    let mut len = 1;
    while len < most && responses[len].id().0.wrapping_sub(first.0) == len as u64 {
        len += 1;
    }
    len
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_any_run_are_exact_in_a_double() {
        for _ in 0..2 * MOST_EPOCHS {
            let epoch = next_epoch();
            let end = ResponseId::new(epoch + 1, 0, 0);
            assert!(epoch > 0 && end.0 <= (1 << 53) + 1, "epoch {epoch}");
        }
    }
}
