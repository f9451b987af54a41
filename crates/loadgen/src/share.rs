//! A load that several clients generate: which client issues which queries.
//!
//! Every client draws the whole trace from the same seeds and issues its share. The trace is
//! therefore the same for any number of clients. At a rate, client i of N issues every N-th query from
//! the i-th on. The single query of Offline is cut into N ranges of samples. Of C queries in flight,
//! client i has the numbers i, i + N and so on, and it issues their part of each C queries: a client
//! with twice as many in flight issues twice as many. The sessions of a plan are dealt like queries,
//! each with all its turns. A share numbers its queries from 0; [`join`](crate::drive::join) puts them
//! back at their position in the trace.
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
    pub fn has(self, sequence: u64) -> bool {
        sequence % u64::from(self.clients) == u64::from(self.index)
    }

    /// Returns how many of the first `count` queries are in the share.
    pub fn part(self, count: u64) -> u64 {
        let clients = u64::from(self.clients);
        count / clients + u64::from(u64::from(self.index) < count % clients)
    }

    /// Returns which samples of the single Offline query are in the share.
    pub fn range(self, samples: usize) -> Range<usize> {
        let cut = |i: u32| (samples as u128 * u128::from(i) / u128::from(self.clients)) as usize;
        cut(self.index)..cut(self.index + 1)
    }
}

/// The queries, or the sessions, of a trace that a client is dealt: of each round, those whose numbers
/// within the round are in its share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Deal {
    share: Share,
    /// Queries of a round (at least the number of clients).
    round: u64,
}

impl Deal {
    /// Returns the deal of a plan. A round has a query for each one in flight, so that clients that
    /// have more in flight issue more; at a rate it has one for each client.
    pub(crate) fn new(plan: &Plan, share: Share) -> Self {
        let sessions = plan.sessions.as_ref().map_or(usize::MAX, |chains| chains.len());
        let in_flight = plan.in_flight().map_or(0, |queries| queries.min(sessions));
        Self { share, round: (in_flight as u64).max(u64::from(share.clients)) }
    }

    /// Returns whether query `sequence` of the trace is dealt to the client.
    #[inline]
    pub(crate) fn has(self, sequence: u64) -> bool {
        self.share.has(sequence % self.round)
    }

    /// Returns how many of the first `count` queries of the trace are dealt to the client.
    pub(crate) fn part(self, count: u64) -> u64 {
        let whole_rounds = (count / self.round).saturating_mul(self.share.part(self.round));
        whole_rounds.saturating_add(self.share.part(count % self.round))
    }

    /// Returns the position in the trace of query `query` of the client.
    pub(crate) fn trace_number(self, query: u64) -> u64 {
        let (index, clients) = (u64::from(self.share.index), u64::from(self.share.clients));
        let own = self.share.part(self.round);
        query / own * self.round + query % own * clients + index
    }
}

/// Maps the samples of a share to their positions in the trace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbering {
    deal: Deal,
    samples_per_query: u64,
    /// Samples of the trace before the first sample of the share.
    offset: u64,
}

impl Numbering {
    /// Numbering of queries that are dealt to clients.
    pub(crate) fn dealt(deal: Deal, samples_per_query: usize) -> Self {
        Self { deal, samples_per_query: samples_per_query.max(1) as u64, offset: 0 }
    }

    /// Numbering of a contiguous range of the samples of one query.
    pub(crate) fn cut(range: &Range<usize>) -> Self {
        let deal = Deal { share: Share::WHOLE, round: 1 };
        Self { deal, samples_per_query: 1, offset: range.start as u64 }
    }

    /// Returns the position in the trace of sample `sample` of the share.
    pub(crate) fn trace_number(&self, sample: u64) -> u64 {
        let (query, within) = (sample / self.samples_per_query, sample % self.samples_per_query);
        self.offset + self.deal.trace_number(query) * self.samples_per_query + within
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
                "a number of turns cannot be divided if each session runs once: run all turns, or \
                 repeat the sessions",
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Library;
    use crate::settings::TestSettings;

    #[test]
    fn each_query_is_dealt_to_one_client_in_proportion_to_its_queries_in_flight() {
        for (in_flight, clients) in [(3, 2), (5, 2), (7, 3), (4, 4), (8, 4), (6, 1)] {
            let settings = TestSettings {
                scenario: Scenario::Server,
                server_arrivals: Arrivals::Concurrency(in_flight),
                min_query_count: 1,
                ..TestSettings::default()
            };
            let plan = Plan::resolve(&settings, Library { total: 9, performance: 9 }).unwrap();
            let deals = (0..clients).map(|index| Deal::new(&plan, Share { index, clients }));
            let deals: Vec<Deal> = deals.collect();
            let mut dealt = vec![0; deals.len()];
            for sequence in 0..1_000 {
                let owners = deals.iter().enumerate().filter(|(_, deal)| deal.has(sequence));
                let owners: Vec<usize> = owners.map(|(client, _)| client).collect();
                let [owner] = owners[..] else { panic!("{sequence} is dealt to {owners:?}") };
                assert_eq!(deals[owner].trace_number(dealt[owner]), sequence);
                assert_eq!(deals[owner].part(sequence), dealt[owner]);
                dealt[owner] += 1;
                if (sequence + 1) % u64::from(in_flight) == 0 {
                    let rounds = (sequence + 1) / u64::from(in_flight);
                    for (index, dealt) in (0..clients).zip(&dealt) {
                        let own = Share { index, clients }.part(u64::from(in_flight));
                        assert_eq!(*dealt, rounds * own, "{in_flight} in flight");
                    }
                }
            }
        }
    }
}
