//! The system under test, in real time and in virtual time.

mod failing;
mod notes;
mod responder;
mod slab;

use std::ops::DerefMut;

use crate::clock::Nanos;
use crate::qsl::SampleIndex;
use crate::record::Outcome;

pub use failing::{AnswerWindow, FIRST_ANSWERS, LAST_ANSWERS, MassFailure};
pub use responder::Responder;

pub(crate) use failing::Control;
pub(crate) use notes::{CHOSEN_AT_ONCE, Notes};
pub(crate) use responder::{RunState, next_epoch};
pub(crate) use slab::{CachePadded, Slab, Stamps};

/// Names one sample of one query of one run; handed to the system with the
/// query and handed back with the response.
///
/// Never 0. Bits 44-59 hold the epoch of the run, bits 36-43 the tenant, bits
/// 0-35 the sample's sequence number in the run plus 1, so that a stale or
/// foreign id is an error that is counted and never a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct ResponseId(pub u64);

impl ResponseId {
    pub(crate) const SEQUENCE_BITS: u32 = 36;
    const TENANT_BITS: u32 = 8;

    /// The id of sample `sequence` (below 2^36 - 1) of `tenant` in run `epoch`.
    #[inline]
    #[must_use]
    pub fn new(epoch: u16, tenant: u8, sequence: u64) -> Self {
        Self(Self::base(epoch, tenant) + sequence + 1)
    }

    fn base(epoch: u16, tenant: u8) -> u64 {
        (u64::from(epoch) << Self::TENANT_BITS | u64::from(tenant)) << Self::SEQUENCE_BITS
    }

    /// Epoch and tenant as one word, equal for all ids of a tenant's run.
    #[inline]
    #[must_use]
    pub fn run(self) -> u64 {
        self.0 >> Self::SEQUENCE_BITS
    }

    /// Epoch of the run.
    pub(crate) fn epoch(self) -> u64 {
        self.run() >> Self::TENANT_BITS
    }

    /// Tenant.
    #[inline]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the tenant is the low byte of the run")]
    pub fn tenant(self) -> u8 {
        self.run() as u8
    }

    /// Sequence number of the sample in the run; `u64::MAX` for the reserved id 0.
    #[inline]
    #[must_use]
    pub fn sequence(self) -> u64 {
        (self.0 & ((1 << Self::SEQUENCE_BITS) - 1)).wrapping_sub(1)
    }
}

/// One sample of a query, as the system receives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct QuerySample {
    /// To be handed back with the response.
    pub id: ResponseId,
    /// Position in the data set.
    pub index: u64,
}

/// The answer to one sample. The payload is borrowed and copied only if it is
/// to be logged.
#[derive(Debug, Clone, Copy)]
pub struct Response<'a> {
    /// The sample's id.
    pub id: ResponseId,
    /// What the accuracy log gets, byte for byte.
    pub data: &'a [u8],
    /// Output tokens; 0 where there are none.
    pub tokens: i64,
}

impl Response<'static> {
    /// A response with no payload.
    #[inline]
    #[must_use]
    pub fn empty(id: ResponseId) -> Self {
        Self { id, data: &[], tokens: 0 }
    }
}

/// What a completing thread hands back for one sample. Besides [`Response`],
/// the foreign layouts of the C and Python interfaces are responses, so that
/// nothing is converted on the way.
pub trait AsResponse {
    /// The sample's id.
    fn id(&self) -> ResponseId;
    /// What the accuracy log gets, byte for byte. Read only if it is logged.
    fn data(&self) -> &[u8];
    /// Output tokens; 0 where there are none.
    fn tokens(&self) -> i64;
}

impl AsResponse for Response<'_> {
    #[inline]
    fn id(&self) -> ResponseId {
        self.id
    }

    #[inline]
    fn data(&self) -> &[u8] {
        self.data
    }

    #[inline]
    fn tokens(&self) -> i64 {
        self.tokens
    }
}

/// A response with no payload.
impl AsResponse for ResponseId {
    #[inline]
    fn id(&self) -> ResponseId {
        *self
    }

    #[inline]
    fn data(&self) -> &[u8] {
        &[]
    }

    #[inline]
    fn tokens(&self) -> i64 {
        0
    }
}

/// Where the samples of queries are listed before they are handed over.
pub type SampleMemory = Box<dyn DerefMut<Target = [QuerySample]> + Send>;

/// A system that is measured in real time.
///
/// `issue` runs on the issuing thread; a system that computes elsewhere clones
/// the [`Responder`] and returns at once. Completions may come from any thread,
/// in any order and any batch.
pub trait SystemUnderTest: Send + Sync {
    /// Name for the logs.
    fn name(&self) -> &str;
    /// Takes the samples of one query (or of several, when queries coalesce).
    fn issue(&self, samples: &[QuerySample], responder: &Responder);
    /// Called after the last query of a run: whatever was held back to fill a
    /// batch must now be worked off.
    fn flush(&self);
    /// Called before each run, outside the timed part: how many samples each tenant has in
    /// flight at once. A system that needs a place for each of them, such as a connection,
    /// provides these places now.
    fn expect(&self, _in_flight: &[InFlight]) {}
    /// Memory for at least `samples` samples (>= 1), for one issuing thread of
    /// one run; asked for before the run starts. A system that needs samples in
    /// a container of its own provides that, and is handed slices of it.
    ///
    /// It should be touched, so that the page faults fall before the timed part.
    fn sample_memory(&self, samples: usize) -> SampleMemory {
        // Not zero, which the allocator provides without touching anything.
        Box::new(vec![QuerySample { id: ResponseId(1), index: 1 }; samples])
    }
}

/// How many samples a tenant of a run has in flight at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InFlight {
    /// At most so many: the next are issued when these are complete.
    AtMost(u64),
    /// So many are issued together.
    AtOnce(u64),
    /// As many as are due before earlier ones are complete.
    Unknown,
}

/// A query in virtual time.
#[derive(Debug, Clone, Copy)]
pub struct SimulatedQuery<'a> {
    /// Which tenant issued it.
    pub tenant: usize,
    /// Id of the first sample; sample `i` has `first.0 + i`.
    pub first: ResponseId,
    /// Positions in the data set.
    pub indices: &'a [SampleIndex],
}

/// What a simulated system says of one sample.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulatedCompletion {
    /// The sample.
    pub id: ResponseId,
    /// When its first token was there, where tokens are simulated.
    pub first_token_at: Option<Nanos>,
    /// Answer or failure.
    pub outcome: Outcome,
}

/// A system that is measured in virtual time. All times are ns since the start
/// of the test, over all its runs.
pub trait SimulatedSystem {
    /// Name for the logs.
    fn name(&self) -> &str;
    /// Takes a query at time `now`.
    fn issue(&mut self, now: Nanos, query: &SimulatedQuery<'_>);
    /// When something next happens inside, if anything is going on.
    fn next_event(&self) -> Option<Nanos>;
    /// Plays everything that happens at `now` (the time of the next event) and
    /// appends what is thereby complete.
    fn advance(&mut self, now: Nanos, completions: &mut Vec<SimulatedCompletion>);
    /// Called after the last query of a run.
    fn flush(&mut self, now: Nanos);
    /// Appends what the accuracy log gets of a sample that the last
    /// [`advance`](Self::advance) has handed over; asked only where it is logged.
    /// A system that answers with nothing need not say so.
    fn answer(&self, _id: ResponseId, _data: &mut Vec<u8>) {}
    /// Appends the first tokens of such a sample; asked only where tokens are measured.
    fn first_tokens(&self, _id: ResponseId, _data: &mut Vec<u8>) {}
}
