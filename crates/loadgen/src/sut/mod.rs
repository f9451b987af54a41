//! The system under test: its interface in real time and in virtual time, and the [`Responder`]
//! that takes its answers.
//!
//! ```
//! use dyno_loadgen::sut::{QuerySample, Responder, Response, SystemUnderTest};
//!
//! /// Answers each query at once, without a payload.
//! struct Echo;
//!
//! impl SystemUnderTest for Echo {
//!     fn name(&self) -> &str {
//!         "echo"
//!     }
//!     fn issue(&self, samples: &[QuerySample], responder: &Responder) {
//!         for sample in samples {
//!             responder.complete(&[Response::empty(sample.id)]);
//!         }
//!     }
//! }
//! # assert_eq!(Echo.name(), "echo");
//! ```

mod failing;
#[cfg(all(test, loom))]
pub(crate) mod models;
mod notes;
mod ramp;
mod responder;
mod slab;

use std::ops::DerefMut;

use crate::clock::Nanos;
use crate::qsl::SampleIndex;
use crate::record::Outcome;

pub use failing::{AnswerWindow, FIRST_ANSWERS, LAST_ANSWERS, MassFailure};
pub use responder::{Responder, next_epoch};

pub(crate) use failing::Control;
pub(crate) use notes::{CHOSEN_AT_ONCE, Notes};
pub(crate) use responder::RunState;
pub(crate) use slab::{CachePadded, Slab};

/// Identifies one sample of one query of one run. The system receives it with the query and
/// returns it with the response.
///
/// An id is never 0. Bits 44-59 hold the epoch of the run, bits 36-43 the tenant, and bits 0-35
/// the sequence number of the sample in the run plus 1. Stale and foreign ids are therefore
/// detected and counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct ResponseId(pub u64);

impl ResponseId {
    pub(crate) const SEQUENCE_BITS: u32 = 36;
    const TENANT_BITS: u32 = 8;

    /// Returns the id of sample `sequence` (below 2^36 - 1) of `tenant` in run `epoch`.
    #[inline]
    pub fn new(epoch: u16, tenant: u8, sequence: u64) -> Self {
        Self(Self::base(epoch, tenant) + sequence + 1)
    }

    fn base(epoch: u16, tenant: u8) -> u64 {
        (u64::from(epoch) << Self::TENANT_BITS | u64::from(tenant)) << Self::SEQUENCE_BITS
    }

    /// Returns epoch and tenant as one word, equal for all ids of a tenant's run.
    #[inline]
    #[must_use]
    pub fn run(self) -> u64 {
        self.0 >> Self::SEQUENCE_BITS
    }

    /// Returns the epoch of the run.
    pub(crate) fn epoch(self) -> u64 {
        self.run() >> Self::TENANT_BITS
    }

    /// Returns the tenant.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the tenant is the low byte of the run")]
    pub fn tenant(self) -> u8 {
        self.run() as u8
    }

    /// Returns the sequence number of the sample in the run; `u64::MAX` for the reserved id 0.
    #[inline]
    pub fn sequence(self) -> u64 {
        (self.0 & ((1 << Self::SEQUENCE_BITS) - 1)).wrapping_sub(1)
    }
}

/// One sample of a query, as the system receives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct QuerySample {
    /// Id that the response must carry.
    pub id: ResponseId,
    /// Position in the data set.
    pub index: u64,
}

/// Answer to one sample. The payload is borrowed and copied only if it is logged.
#[derive(Debug, Clone, Copy)]
pub struct Response<'a> {
    /// Id of the sample.
    pub id: ResponseId,
    /// Payload for the accuracy log, byte for byte.
    pub data: &'a [u8],
    /// Output tokens; 0 without tokens.
    pub tokens: i64,
}

impl Response<'static> {
    /// Returns a response without a payload.
    #[inline]
    pub fn empty(id: ResponseId) -> Self {
        Self { id, data: &[], tokens: 0 }
    }
}

/// Answer of a completing thread to one sample. The foreign layouts of the C and Python
/// interfaces implement it too, so that no response is converted.
pub trait AsResponse {
    /// Returns the id of the sample.
    fn id(&self) -> ResponseId;
    /// Returns the payload for the accuracy log. Called only if the response is logged.
    fn data(&self) -> &[u8];
    /// Returns the number of output tokens; 0 without tokens.
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

/// A response without a payload.
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

/// Memory in which the samples of a query are listed before the query is issued.
pub type SampleMemory = Box<dyn DerefMut<Target = [QuerySample]> + Send>;

/// A system that is measured in real time.
///
/// `issue` runs on the issuing thread; a system that computes elsewhere clones
/// the [`Responder`] and returns at once. Completions may come from any thread,
/// in any order and any batch.
pub trait SystemUnderTest: Send + Sync {
    /// Returns the name for the logs.
    fn name(&self) -> &str;
    /// Takes the samples of one query (or of several, when queries coalesce).
    fn issue(&self, samples: &[QuerySample], responder: &Responder);
    /// Called after the last query of a run: the system must now process all samples that it held
    /// back to fill a batch. Does nothing by default, for systems that hold none back.
    fn flush(&self) {}
    /// Called before each run, outside the timed part, with the number of samples that each tenant
    /// has in flight. A system that needs a resource per sample, such as a connection, allocates
    /// it now.
    fn expect(&self, _in_flight: &[InFlight]) {}
    /// Called after each run, outside the timed part, also after an interrupted one: work for queries
    /// that will not come, such as that of tools, must end now.
    fn end_run(&self) {}
    /// Returns memory for at least `samples` samples (>= 1), for one issuing thread of one run.
    /// Called before the run starts. A system that needs samples in a container of its own
    /// returns that container; `issue` then receives slices of it.
    ///
    /// The memory should have been written to, so that page faults occur before the timed part.
    fn sample_memory(&self, samples: usize) -> SampleMemory {
        // Not zero, because the allocator provides zeroed memory without touching its pages.
        Box::new(vec![QuerySample { id: ResponseId(1), index: 1 }; samples])
    }
}

/// How many samples a tenant of a run has in flight at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InFlight {
    /// At most this many: further samples are issued when these are complete.
    AtMost(u64),
    /// This many, issued together.
    AtOnce(u64),
    /// Unknown: queries are issued when they are due, whether or not earlier ones are complete.
    Unknown,
}

/// How a sample ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettledSample {
    /// When it was complete and its answer whole, ns since the start of the run.
    pub at: Nanos,
    /// Whether it failed.
    pub is_failed: bool,
    /// Whether its answer asks for a further turn of its [task](crate::plan::Plan::with_tasks).
    pub continues: bool,
}

/// A query in virtual time.
#[derive(Debug, Clone, Copy)]
pub struct SimulatedQuery<'a> {
    /// Index of the tenant.
    pub tenant: usize,
    /// Id of the first sample; sample `i` has `first.0 + i`.
    pub first: ResponseId,
    /// Indices in the data set.
    pub indices: &'a [SampleIndex],
}

/// Completion of one sample by a simulated system.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulatedCompletion {
    /// The sample.
    pub id: ResponseId,
    /// Time of its first token; `None` unless tokens are simulated.
    pub first_token_at: Option<Nanos>,
    /// Answer or failure.
    pub outcome: Outcome,
}

/// A system that is measured in virtual time. All times are ns since the start
/// of the test, over all its runs.
pub trait SimulatedSystem {
    /// Returns the name for the logs.
    fn name(&self) -> &str;
    /// Takes a query at time `now`.
    fn issue(&mut self, now: Nanos, query: &SimulatedQuery<'_>);
    /// Returns the time of the next event inside the system, if there is one.
    fn next_event(&self) -> Option<Nanos>;
    /// Processes all events at `now` (the time of the next event) and appends the completions.
    fn advance(&mut self, now: Nanos, completions: &mut Vec<SimulatedCompletion>);
    /// Called after the last query of a run. Does nothing by default.
    fn flush(&mut self, _now: Nanos) {}
    /// Appends the payload of a sample that the last [`advance`](Self::advance) completed. Called
    /// only for logged samples. The default appends nothing.
    fn answer(&self, _id: ResponseId, _data: &mut Vec<u8>) {}
    /// Appends the first tokens of a logged sample. Called only if tokens are measured.
    fn first_tokens(&self, _id: ResponseId, _data: &mut Vec<u8>) {}
    /// Returns whether the answer to a sample that the last [`advance`](Self::advance) completed asks
    /// for a further turn of its [task](crate::plan::Plan::with_tasks). Called only for sessions of
    /// tasks. By default no answer does.
    fn continues_task(&self, _id: ResponseId) -> bool {
        false
    }
}
