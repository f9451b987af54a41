//! The completion slab: stamps completions of any thread, in any order and in batches of any
//! size, without a lock, an allocation or a system call.
//!
//! It has one stamp per sample and a bitmap of claims. A completion claims its bits with one
//! `fetch_or` per word of 64 samples, which detects duplicate ids, and then stores the stamps. A
//! reader that finds a claim without a stamp has read between the two; it treats the sample as
//! not complete yet.

use std::sync::atomic::Ordering;
use std::sync::{OnceLock, PoisonError};

use super::failing::{FailureNote, Failures};
use super::ramp::RampSamples;
use super::{AsResponse, ResponseId, SettledSample};
use crate::clock::Nanos;
use crate::record::{Failure, LoggedResponse, Misuse, Responses};
use crate::sync::{AtomicI64, AtomicU64, IS_MODEL, Mutex, MutexGuard};
use crate::trace::ResponseFilter;

/// Samples in a chunk. Chunks are allocated before the run. Only a run that continues past its
/// trace allocates more, on the issuing thread.
const CHUNK_SAMPLES: usize = if IS_MODEL { WORD_SAMPLES } else { 1 << 16 };
const WORD_SAMPLES: usize = 64;
/// Minimum number of chunk slots. 2^14 chunks of 2^16 samples let a run that continues past its
/// trace reach a billion samples.
const LEAST_SLOTS: usize = if IS_MODEL { 1 } else { 1 << 14 };

/// Returns the maximum number of chunks of a run with a trace of this many samples.
fn chunk_slots(samples: usize) -> usize {
    LEAST_SLOTS.max(samples.div_ceil(CHUNK_SAMPLES).saturating_mul(2))
}

/// A value padded to two cache lines: prefetchers fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct CachePadded<T>(pub(crate) T);

#[derive(Debug)]
struct Chunk {
    completed_at: Box<[AtomicU64]>,
    claims: Box<[AtomicU64]>,
    tokens: Option<TokenColumns>,
}

#[derive(Debug)]
struct TokenColumns {
    first_at: Box<[AtomicU64]>,
    first_claims: Box<[AtomicU64]>,
    counts: Box<[AtomicI64]>,
}

fn zeroed(n: usize) -> Box<[AtomicU64]> {
    let column: Box<[AtomicU64]> = (0..n).map(|_| AtomicU64::new(0)).collect();
    // Touch each page, so that page faults occur here and not between two stamps.
    for page in column.iter().step_by(512) {
        page.store(0, Ordering::Relaxed);
    }
    column
}

impl Chunk {
    fn new(tokens: bool) -> Self {
        let words = CHUNK_SAMPLES / WORD_SAMPLES;
        Self {
            completed_at: zeroed(CHUNK_SAMPLES),
            claims: zeroed(words),
            tokens: tokens.then(|| TokenColumns {
                first_at: zeroed(CHUNK_SAMPLES),
                first_claims: zeroed(words),
                counts: (0..CHUNK_SAMPLES).map(|_| AtomicI64::new(0)).collect(),
            }),
        }
    }
}

/// Answer to a turn of a session, as far as the turn after it depends on it.
#[derive(Debug, Clone, Copy, Default)]
struct TurnAnswer {
    /// When it was whole, if that was later than it counts as complete; otherwise 0.
    whole_at: Nanos,
    /// Whether the turn after it is held.
    is_held: bool,
    /// Whether it asks for a further turn of its task.
    continues: bool,
}

/// All samples of one tenant in one run.
#[derive(Debug)]
pub(crate) struct Slab {
    chunks: Box<[OnceLock<Box<Chunk>>]>,
    /// Samples issued so far; larger ids are unknown.
    issued: CachePadded<AtomicU64>,
    /// Samples complete, counted per shard of completing threads.
    completed: Box<[CachePadded<AtomicU64>]>,
    tokens: bool,
    kept: ResponseFilter,
    responses: Box<[CachePadded<Mutex<Responses>>]>,
    first_tokens: Mutex<std::collections::HashMap<u64, Vec<u8>>>,
    /// Answers to turns of sessions, until they are settled. An answer that is not here has the default.
    turn_answers: Mutex<std::collections::HashMap<u64, TurnAnswer>>,
    /// Tokens in the time of a sample, where these are not all of its tokens, as in a record.
    timed_tokens: Mutex<std::collections::BTreeMap<u64, Option<i64>>>,
    /// Turns that were held and are not any more.
    released: AtomicU64,
    failed: Mutex<Failures>,
    /// Samples that are not measured; `None` without a ramp.
    ramp: Option<RampSamples>,
    duplicate: AtomicU64,
    unknown: AtomicU64,
    first_token_late: AtomicU64,
}

impl Slab {
    /// Returns a slab with memory for `samples` samples; it grows on demand.
    pub(crate) fn new(samples: usize, tokens: bool, kept: ResponseFilter, shards: usize) -> Self {
        let slab = Self {
            chunks: (0..chunk_slots(samples)).map(|_| OnceLock::new()).collect(),
            issued: CachePadded::default(),
            completed: (0..shards).map(|_| CachePadded::default()).collect(),
            tokens,
            kept,
            responses: (0..shards).map(|_| CachePadded::default()).collect(),
            first_tokens: Mutex::default(),
            turn_answers: Mutex::default(),
            timed_tokens: Mutex::default(),
            released: AtomicU64::new(0),
            failed: Mutex::default(),
            ramp: None,
            duplicate: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
            first_token_late: AtomicU64::new(0),
        };
        slab.provide(samples);
        slab
    }

    /// Sets the length of the ramp before the measured part, ns; 0 without one.
    #[must_use]
    pub(crate) fn with_ramp(self, length: Nanos) -> Self {
        Self { ramp: (length > 0).then(|| RampSamples::new(length)), ..self }
    }

    /// Returns the samples of the ramp; `None` without one.
    #[inline]
    pub(crate) fn ramp(&self) -> Option<&RampSamples> {
        self.ramp.as_ref()
    }

    /// Allocates memory for `samples` samples in all.
    #[inline]
    pub(crate) fn provide(&self, samples: usize) {
        let chunks = samples.div_ceil(CHUNK_SAMPLES);
        assert!(chunks <= self.chunks.len(), "a run is not extended beyond 2^30 samples");
        if chunks > 0 && self.chunks[chunks - 1].get().is_none() {
            for chunk in &self.chunks[..chunks] {
                chunk.get_or_init(|| Box::new(Chunk::new(self.tokens)));
            }
        }
    }

    /// Admits ids below `samples`; called before the query is issued.
    #[inline]
    pub(crate) fn admit(&self, samples: u64) {
        self.issued.0.store(samples, Ordering::Release);
    }

    /// Admits ids below `samples`, for runs with several issuing threads.
    pub(crate) fn admit_at_least(&self, samples: u64) {
        self.issued.0.fetch_max(samples, Ordering::Release);
    }

    /// Returns the samples issued so far.
    pub(crate) fn issued(&self) -> u64 {
        self.issued.0.load(Ordering::Acquire)
    }

    /// Returns the samples complete so far, failed ones included.
    #[inline]
    pub(crate) fn completed(&self) -> u64 {
        self.completed.iter().map(|shard| shard.0.load(Ordering::SeqCst)).sum()
    }

    /// Stamps the responses of `run`, which have consecutive ids within one word. Returns `None`
    /// and stamps nothing if some of the ids were never issued.
    #[inline]
    pub(crate) fn stamp<R: AsResponse>(&self, run: &[R], at: Nanos) -> Option<StampedBatch> {
        let sequence = run[0].id().sequence();
        let (chunk, within, mask) = self.admitted(sequence, run.len())?;
        let claims = &chunk.claims[within / WORD_SAMPLES];
        let before = if run.len() == 1 {
            // Written this way, one sample compiles to one `bts` instead of a loop.
            let bit = 1 << (within % WORD_SAMPLES);
            claims.fetch_or(bit, Ordering::AcqRel) & bit
        } else {
            claims.fetch_or(mask, Ordering::AcqRel)
        };
        let stamps = &chunk.completed_at[within..within + run.len()];
        if let Some(columns) = &chunk.tokens {
            for (i, response) in run.iter().enumerate() {
                if before >> ((within + i) % WORD_SAMPLES) & 1 == 0 {
                    columns.counts[within + i].store(response.tokens(), Ordering::Relaxed);
                }
            }
        }
        let duplicates = before & mask;
        if duplicates == 0 {
            for stamp in stamps {
                stamp.store(at, Ordering::Release);
            }
        } else {
            for (i, stamp) in stamps.iter().enumerate() {
                if duplicates >> ((within + i) % WORD_SAMPLES) & 1 == 0 {
                    stamp.store(at, Ordering::Release);
                }
            }
            self.duplicate.fetch_add(u64::from(duplicates.count_ones()), Ordering::Relaxed);
        }
        let fresh = (mask & !duplicates) >> (within % WORD_SAMPLES);
        Some(StampedBatch { fresh })
    }

    /// Counts a response to a sample that was never issued.
    #[cold]
    pub(crate) fn count_unknown(&self) {
        self.unknown.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether any responses are logged.
    #[inline]
    pub(crate) fn logs(&self) -> bool {
        !matches!(self.kept, ResponseFilter::None)
    }

    /// Returns whether the response to this sample is logged.
    pub(crate) fn keeps(&self, id: ResponseId) -> bool {
        self.kept.keeps(id.sequence())
    }

    /// Returns the chunk of these samples, their position in it and their mask; `None` if some were
    /// never issued.
    #[inline]
    fn admitted(&self, sequence: u64, len: usize) -> Option<(&Chunk, usize, u64)> {
        let end = sequence.checked_add(len as u64)?;
        if end > self.issued.0.load(Ordering::Acquire) {
            return None;
        }
        let at = sequence as usize;
        let chunk = self.chunks[at / CHUNK_SAMPLES].get()?;
        let within = at % CHUNK_SAMPLES;
        let mask = (u64::MAX >> (WORD_SAMPLES - len)) << (within % WORD_SAMPLES);
        Some((chunk, within, mask))
    }

    /// Copies the logged responses among those just stamped. `first` is the id of the first
    /// response as it was stamped: fetching a payload may have changed the response.
    pub(crate) fn keep<R: AsResponse>(
        &self,
        first: ResponseId,
        run: &[R],
        stamped: StampedBatch,
        shard: usize,
    ) {
        let mut responses = self.responses[shard].0.lock().unwrap_or_else(PoisonError::into_inner);
        for (i, response) in run.iter().enumerate() {
            let sequence = first.sequence() + i as u64;
            if !stamped.is_fresh(i) || !self.kept.keeps(sequence) {
                continue;
            }
            let first_token = self.tokens.then(|| {
                let mut kept = self.first_tokens.lock().unwrap_or_else(PoisonError::into_inner);
                kept.remove(&sequence).unwrap_or_default()
            });
            responses.push(&LoggedResponse {
                sequence,
                data: response.data(),
                first_token: first_token.as_deref(),
                tokens: response.tokens(),
            });
        }
    }

    /// Stamps a first token. The token columns exist only in runs that measure tokens.
    pub(crate) fn first_token<R: AsResponse>(&self, response: &R, at: Nanos) {
        let sequence = response.id().sequence();
        let Some((chunk, within, mask)) = self.admitted(sequence, 1) else {
            self.unknown.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let Some(columns) = &chunk.tokens else { return };
        let word = within / WORD_SAMPLES;
        let complete = chunk.claims[word].load(Ordering::Acquire) & mask != 0;
        let claimed = columns.first_claims[word].fetch_or(mask, Ordering::AcqRel) & mask != 0;
        if complete || claimed {
            let misuse = if complete { &self.first_token_late } else { &self.duplicate };
            misuse.fetch_add(1, Ordering::Relaxed);
            return;
        }
        columns.first_at[within].store(at, Ordering::Release);
        if self.kept.keeps(sequence) {
            let mut kept = self.first_tokens.lock().unwrap_or_else(PoisonError::into_inner);
            kept.insert(sequence, response.data().to_vec());
        }
    }

    /// Stamps a failure of a sample that is not complete.
    pub(crate) fn fail(&self, id: ResponseId, why: Failure, at: Nanos) -> FailureNote {
        let sequence = id.sequence();
        let Some((chunk, within, mask)) = self.admitted(sequence, 1) else {
            self.unknown.fetch_add(1, Ordering::Relaxed);
            return FailureNote::Stale;
        };
        let before = chunk.claims[within / WORD_SAMPLES].fetch_or(mask, Ordering::AcqRel);
        if before & mask != 0 {
            self.duplicate.fetch_add(1, Ordering::Relaxed);
            return FailureNote::Stale;
        }
        let answers = self.completed() + 1;
        let noted = self.failures().add(sequence, why, answers);
        chunk.completed_at[within].store(at, Ordering::Release);
        noted
    }

    /// Adds to the count of complete samples; after all stamps are stored.
    #[inline]
    pub(crate) fn count(&self, fresh: u64, shard: usize) {
        // Sequentially consistent: a waiter announces that it parks and then reads this count; a
        // completion adds to this count and then reads the announcement. One of the two must see
        // the other.
        self.completed[shard].0.fetch_add(fresh, Ordering::SeqCst);
    }

    /// Returns the completion stamps of the first `samples` samples; 0 means not complete.
    pub(crate) fn completed_at(&self, samples: usize) -> Vec<Nanos> {
        self.column(samples, |chunk| Some(&chunk.completed_at[..]), AtomicU64::load)
    }

    /// Returns the first-token stamps of the first `samples` samples; 0 means none.
    pub(crate) fn first_token_at(&self, samples: usize) -> Vec<Nanos> {
        self.column(samples, |c| c.tokens.as_ref().map(|t| &t.first_at[..]), AtomicU64::load)
    }

    /// Returns the token counts of the first `samples` samples.
    pub(crate) fn token_counts(&self, samples: usize) -> Vec<i64> {
        self.column(samples, |c| c.tokens.as_ref().map(|t| &t.counts[..]), AtomicI64::load)
    }

    fn column<A, T>(
        &self,
        samples: usize,
        values_of: impl Fn(&Chunk) -> Option<&[A]>,
        load: impl Fn(&A, Ordering) -> T,
    ) -> Vec<T> {
        let mut column = Vec::with_capacity(samples);
        for chunk in self.chunks.iter().map_while(|chunk| chunk.get()) {
            let Some(values) = values_of(chunk) else { return Vec::new() };
            let left = samples - column.len();
            column.extend(values.iter().take(left).map(|v| load(v, Ordering::Acquire)));
        }
        column
    }

    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the failures so far.
    pub(crate) fn failed(&self) -> Vec<(u64, Failure)> {
        self.failures().list.clone()
    }

    /// Returns the number of failures so far.
    pub(crate) fn failed_count(&self) -> u64 {
        let failures = self.failures();
        failures.list.len() as u64 - failures.cancelled
    }

    /// Returns the completion stamp of a sample, for observers.
    pub(crate) fn completion_of(&self, sample: u64) -> Option<Nanos> {
        let (chunk, within, _) = self.admitted(sample, 1)?;
        Some(chunk.completed_at[within].load(Ordering::Acquire)).filter(|&at| at != 0)
    }

    /// Records how many tokens came in the time of a sample.
    pub(crate) fn timed_tokens(&self, id: ResponseId, tokens: Option<i64>) {
        self.timed().insert(id.sequence(), tokens);
    }

    fn timed(&self) -> MutexGuard<'_, std::collections::BTreeMap<u64, Option<i64>>> {
        self.timed_tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the tokens in the times of samples, as a record has them.
    pub(crate) fn timed_tokens_of(&self, samples: usize) -> Vec<(u64, Option<i64>)> {
        let timed = self.timed();
        timed.range(..samples as u64).map(|(sample, tokens)| (*sample, *tokens)).collect()
    }

    /// Records when the answer to a turn of a session was whole.
    pub(crate) fn whole_at(&self, id: ResponseId, at: Nanos) {
        self.turn_answers().entry(id.sequence()).or_default().whole_at = at;
    }

    /// Records that the answer to a sample asks for a further turn of its task.
    pub(crate) fn continue_task(&self, id: ResponseId) {
        self.turn_answers().entry(id.sequence()).or_default().continues = true;
    }

    /// Holds the turn that follows a sample, until [`Slab::release`].
    pub(crate) fn hold(&self, id: ResponseId) {
        self.turn_answers().entry(id.sequence()).or_default().is_held = true;
    }

    /// Permits the turn that follows a sample, at `at` or later.
    pub(crate) fn release(&self, id: ResponseId, at: Nanos) {
        let mut answers = self.turn_answers();
        let answer = answers.entry(id.sequence()).or_default();
        (answer.whole_at, answer.is_held) = (at, false);
        drop(answers);
        // Sequentially consistent as in `count`: a waiter that has announced its park reads it.
        self.released.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns how many turns were released.
    pub(crate) fn released(&self) -> u64 {
        self.released.load(Ordering::SeqCst)
    }

    fn turn_answers(&self) -> MutexGuard<'_, std::collections::HashMap<u64, TurnAnswer>> {
        self.turn_answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how a sample ended; `None` while it is outstanding or holds the turn after it.
    pub(crate) fn settled(&self, sample: u64) -> Option<SettledSample> {
        let at = self.completion_of(sample)?;
        let mut answers = self.turn_answers();
        if answers.get(&sample).is_some_and(|answer| answer.is_held) {
            return None;
        }
        let TurnAnswer { whole_at, continues, .. } = answers.remove(&sample).unwrap_or_default();
        drop(answers);
        // A failure is listed before its stamp is stored. The latest ones are the likeliest.
        let is_failed = self.failures().list.iter().rev().any(|(failed, _)| *failed == sample);
        Some(SettledSample { at: at.max(whole_at), is_failed, continues })
    }

    /// Returns the first-token stamp of a sample, for observers.
    pub(crate) fn first_token_of(&self, sample: u64) -> Option<Nanos> {
        let (chunk, within, _) = self.admitted(sample, 1)?;
        let columns = chunk.tokens.as_ref()?;
        Some(columns.first_at[within].load(Ordering::Acquire)).filter(|&at| at != 0)
    }

    /// Returns a copy of all stamps of the first `samples` samples, of which some may complete
    /// meanwhile.
    pub(crate) fn stamps(&self, samples: usize) -> Stamps {
        let completed_at = self.completed_at(samples);
        let first_token_at = self.first_token_at(samples);
        let tokens = self.token_counts(samples);
        // Read after the stamps, so that every stamped failure is included: without its failure, a
        // sample would count as answered.
        let mut stamps = self.take_rest(samples);
        let is_complete = |sequence: u64| {
            completed_at.get(sequence as usize).is_some_and(|&completed_at| completed_at != 0)
        };
        stamps.failed.retain(|(sequence, _)| is_complete(*sequence));
        Stamps { completed_at, first_token_at, tokens, ..stamps }
    }

    /// Moves out all stamps of the first `samples` samples, freeing memory chunk by chunk.
    pub(crate) fn into_stamps(mut self, samples: usize) -> Stamps {
        let mut stamps = self.take_rest(samples);
        stamps.completed_at.reserve_exact(samples);
        if self.tokens {
            stamps.first_token_at.reserve_exact(samples);
            stamps.tokens.reserve_exact(samples);
        }
        let mut left = samples;
        for chunk in self.chunks.iter_mut().map_while(OnceLock::take) {
            let n = left.min(CHUNK_SAMPLES);
            left -= n;
            let values = chunk.completed_at.iter().take(n);
            stamps.completed_at.extend(values.map(|v| v.load(Ordering::Acquire)));
            if let Some(columns) = &chunk.tokens {
                let values = columns.first_at.iter().take(n);
                stamps.first_token_at.extend(values.map(|v| v.load(Ordering::Acquire)));
                let values = columns.counts.iter().take(n);
                stamps.tokens.extend(values.map(|v| v.load(Ordering::Acquire)));
            }
        }
        stamps
    }

    /// Takes responses, failures and misuse counts of the first `samples` samples. Lanes that ended
    /// at different queries may have issued more samples than the record holds.
    fn take_rest(&self, samples: usize) -> Stamps {
        let lock = |shard: &CachePadded<Mutex<Responses>>| {
            std::mem::take(&mut *shard.0.lock().unwrap_or_else(PoisonError::into_inner))
        };
        let mut responses = Responses::joined(self.responses.iter().map(lock).collect());
        if self.issued() > samples as u64 {
            responses.keep_below(samples as u64);
        }
        // With its counts: a failure may still be added.
        let mut failed = std::mem::take(&mut *self.failures()).list;
        failed.retain(|(sequence, _)| *sequence < samples as u64);
        Stamps {
            responses,
            failed,
            timed_tokens: self.timed_tokens_of(if self.tokens { samples } else { 0 }),
            misuse: Misuse {
                duplicate: self.duplicate.load(Ordering::Relaxed),
                unknown: self.unknown.load(Ordering::Relaxed),
                first_token_late: self.first_token_late.load(Ordering::Relaxed),
                ..Misuse::default()
            },
            ..Stamps::default()
        }
    }
}

/// Which responses of a batch were not complete before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StampedBatch {
    /// Bit i is set if response i of the batch is new.
    fresh: u64,
}

impl StampedBatch {
    /// A batch of one new response.
    pub(crate) const ONE: Self = Self { fresh: 1 };

    #[inline]
    pub(crate) fn fresh(self) -> u64 {
        u64::from(self.fresh.count_ones())
    }

    #[inline]
    pub(crate) fn is_fresh(self, response: usize) -> bool {
        self.fresh >> response & 1 == 1
    }
}

/// Contents of a slab, in plain columns.
#[derive(Debug, Default)]
pub(crate) struct Stamps {
    pub(crate) completed_at: Vec<Nanos>,
    pub(crate) first_token_at: Vec<Nanos>,
    pub(crate) tokens: Vec<i64>,
    pub(crate) timed_tokens: Vec<(u64, Option<i64>)>,
    pub(crate) failed: Vec<(u64, Failure)>,
    pub(crate) misuse: Misuse,
    pub(crate) responses: Responses,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::MAX_TRACE_SAMPLES;

    #[test]
    fn a_slab_has_room_for_every_trace_that_a_plan_allows() {
        for samples in [1, 1 << 30, (1 << 30) + 1, MAX_TRACE_SAMPLES] {
            let samples = usize::try_from(samples).unwrap();
            assert!(chunk_slots(samples) * CHUNK_SAMPLES >= samples, "{samples}");
            let last = u64::try_from(samples).unwrap() - 1;
            assert_eq!(ResponseId::new(1, 255, last).sequence(), last);
        }
    }

    #[test]
    fn samples_may_fail_after_the_stamps_were_copied() {
        let slab = Slab::new(4, false, ResponseFilter::None, 1);
        slab.admit(4);
        let fail = |sequence, why| slab.fail(ResponseId::new(1, 0, sequence), why, 5 + sequence);
        assert_eq!(fail(0, Failure::Cancelled), FailureNote::Failed);
        assert_eq!(fail(1, Failure::Cancelled), FailureNote::Failed);
        let stamps = slab.stamps(4);
        assert_eq!(stamps.failed, [(0, Failure::Cancelled), (1, Failure::Cancelled)]);
        assert_eq!(stamps.completed_at, [5, 6, 0, 0]);
        assert_eq!(fail(2, Failure::Internal), FailureNote::Failed);
        assert_eq!(slab.failed_count(), 1);
    }
}
