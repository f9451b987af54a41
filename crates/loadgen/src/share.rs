//! A load that several clients generate: which client issues which queries.
//!
//! Every client draws the whole trace from the same seeds and issues its share. The trace is
//! therefore the same for any number of clients. Client i of N issues every N-th query from the
//! i-th on. The single query of Offline is cut into N ranges of samples. Queries in flight are
//! divided among the clients. Of the sessions of a plan, client i of N plays every N-th one from the
//! i-th on, each with all its turns. A share numbers its queries from 0;
//! [`join`](crate::drive::join) puts them back at their position in the trace.
//!
//! ```
//! use dyno_loadgen::share::Share;
//!
//! let share = Share { index: 1, clients: 3 };
//! let queries: Vec<u64> = (0..9).filter(|&sequence| share.has(sequence)).collect();
//! assert_eq!(queries, [1, 4, 7]);
//! assert_eq!(share.part(9), 3);
//! assert_eq!(share.range(10), 3..6);
//! ```

use std::fmt;
use std::ops::Range;

use crate::plan::{Load, Plan, SampleChoice};
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
    /// The share of a single client: the whole load.
    pub const WHOLE: Self = Self { index: 0, clients: 1 };

    /// Returns whether query `sequence` of the trace is in the share.
    #[inline]
    #[must_use]
    pub fn has(self, sequence: u64) -> bool {
        sequence % u64::from(self.clients) == u64::from(self.index)
    }

    /// Returns how many of the first `count` queries are in the share.
    #[must_use]
    pub fn part(self, count: u64) -> u64 {
        let clients = u64::from(self.clients);
        count / clients + u64::from(u64::from(self.index) < count % clients)
    }

    /// Returns which samples of the single Offline query are in the share.
    #[must_use]
    pub fn range(self, samples: usize) -> Range<usize> {
        let cut = |i: u32| (samples as u128 * u128::from(i) / u128::from(self.clients)) as usize;
        cut(self.index)..cut(self.index + 1)
    }
}

/// Maps the samples of a share to their positions in the trace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbering {
    share: Share,
    samples_per_query: u64,
    /// Samples of the trace before the first sample of the share.
    offset: u64,
}

impl Numbering {
    /// Numbering of queries that clients issue in turn.
    pub(crate) fn dealt(share: Share, samples_per_query: usize) -> Self {
        Self { share, samples_per_query: samples_per_query.max(1) as u64, offset: 0 }
    }

    /// Numbering of a contiguous range of the samples of one query.
    pub(crate) fn cut(range: &Range<usize>) -> Self {
        Self { share: Share::WHOLE, samples_per_query: 1, offset: range.start as u64 }
    }

    /// Returns the position in the trace of sample `sample` of the share.
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
    /// Whether the run is extended depends on the latencies of all clients.
    Extended,
    /// There are more clients than sessions, each of which one client plays.
    TooFewSessions {
        /// Sessions.
        sessions: usize,
        /// Clients.
        clients: u32,
    },
    /// A number of turns is taken from sessions that are played once, and have different numbers of
    /// turns.
    LimitedSessions,
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
            Self::TooFewSessions { sessions, clients } => {
                write!(f, "{sessions} sessions cannot be divided among {clients}")
            }
            Self::LimitedSessions => f.write_str(
                "a number of turns of sessions that are played once cannot be divided: play all \
                 turns, or repeat the sessions",
            ),
        }
    }
}

impl std::error::Error for IndivisibleLoad {}

/// Checks that `clients` clients can share the load of this plan.
///
/// # Errors
/// The reason why the load cannot be divided.
pub fn divisible(plan: &Plan, clients: u32) -> Result<(), IndivisibleLoad> {
    if clients <= 1 {
        return Ok(());
    }
    if let Some(chains) = &plan.sessions {
        let sessions = chains.len();
        if (sessions as u64) < u64::from(clients) {
            return Err(IndivisibleLoad::TooFewSessions { sessions, clients });
        }
        if plan.choice == SampleChoice::Unique && plan.max_query_count > 0 {
            return Err(IndivisibleLoad::LimitedSessions);
        }
    }
    match &plan.load {
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
