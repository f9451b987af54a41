//! A load that several clients generate: who issues which queries, and the one
//! record that their parts make up.
//!
//! Every client draws the whole trace from the same seeds and issues its share,
//! so that the trace is that of one client whatever their number. Of N clients
//! client i issues every N-th query from the i-th on; the one query of Offline
//! is cut into N runs of samples; queries in flight are divided. A share numbers
//! its queries from 0; [`join`](crate::drive::join) gives them their place in the trace.

use std::fmt;
use std::ops::Range;

use crate::plan::{Load, Plan};
use crate::settings::{Arrivals, EarlyStopping, Scenario};

/// The part of a load that one of several clients issues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Number of this client, in `0..clients`.
    pub index: u32,
    /// Number of clients (>= 1).
    pub clients: u32,
}

impl Default for Share {
    fn default() -> Self {
        Self::WHOLE
    }
}

impl Share {
    /// That of the only client.
    pub const WHOLE: Self = Self { index: 0, clients: 1 };

    /// Whether query `sequence` of the trace is in it.
    #[inline]
    #[must_use]
    pub fn has(self, sequence: u64) -> bool {
        sequence % u64::from(self.clients) == u64::from(self.index)
    }

    /// How many of the first `count` queries are in it.
    #[must_use]
    pub fn part(self, count: u64) -> u64 {
        let clients = u64::from(self.clients);
        count / clients + u64::from(u64::from(self.index) < count % clients)
    }

    /// Which of the samples of the one Offline query are in it.
    #[must_use]
    pub fn range(self, samples: usize) -> Range<usize> {
        let cut = |i: u32| (samples as u128 * u128::from(i) / u128::from(self.clients)) as usize;
        cut(self.index)..cut(self.index + 1)
    }
}

/// Where the samples of a share stand in the trace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbering {
    share: Share,
    samples_per_query: u64,
    /// Samples of the trace before the first one.
    offset: u64,
}

impl Numbering {
    /// Of queries that are dealt out in turn.
    pub(crate) fn dealt(share: Share, samples_per_query: usize) -> Self {
        Self { share, samples_per_query: samples_per_query.max(1) as u64, offset: 0 }
    }

    /// Of a run of the samples of one query.
    pub(crate) fn cut(range: &Range<usize>) -> Self {
        Self { share: Share::WHOLE, samples_per_query: 1, offset: range.start as u64 }
    }

    /// The number in the trace of the share's `sample`-th sample.
    pub(crate) fn trace_number(&self, sample: u64) -> u64 {
        let (query, within) = (sample / self.samples_per_query, sample % self.samples_per_query);
        let (index, clients) = (u64::from(self.share.index), u64::from(self.share.clients));
        self.offset + (query * clients + index) * self.samples_per_query + within
    }
}

/// Why a load cannot be divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndivisibleLoad {
    /// Each query waits for the one before it.
    OneAtATime(Scenario),
    /// There are more clients than queries in flight.
    TooFewInFlight {
        /// Queries in flight.
        in_flight: u32,
        /// Clients.
        clients: u32,
    },
    /// Whether to go on depends on the latencies of all.
    Extended,
}

impl fmt::Display for IndivisibleLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OneAtATime(scenario) => write!(
                f,
                "{scenario} issues a query when the one before it is complete, which cannot be \
                 divided"
            ),
            Self::TooFewInFlight { in_flight, clients } => {
                write!(f, "{in_flight} queries in flight cannot be divided among {clients}")
            }
            Self::Extended => f.write_str(
                "a Server run under early_stopping = extend looks at all latencies while it is \
                 on, which none of several clients can",
            ),
        }
    }
}

impl std::error::Error for IndivisibleLoad {}

/// Whether `clients` clients can share the load of this plan.
///
/// # Errors
/// Why they cannot.
pub fn divisible(plan: &Plan, clients: u32) -> Result<(), IndivisibleLoad> {
    match &plan.load {
        _ if clients <= 1 => Ok(()),
        Load::SingleStream { .. } | Load::MultiStream { .. } => {
            Err(IndivisibleLoad::OneAtATime(plan.scenario()))
        }
        Load::Server(server) => match server.arrivals {
            Arrivals::Concurrency(in_flight) if in_flight < clients => {
                Err(IndivisibleLoad::TooFewInFlight { in_flight, clients })
            }
            Arrivals::Concurrency(_) => Ok(()),
            _ if plan.early_stopping.policy == EarlyStopping::Extend => {
                Err(IndivisibleLoad::Extended)
            }
            _ => Ok(()),
        },
        Load::Offline => Ok(()),
    }
}
