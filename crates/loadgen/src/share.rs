//! A load that several clients generate: who issues which queries, and the one
//! record that their parts make up.
//!
//! Every client draws the whole trace from the same seeds and issues its share,
//! so that the trace is that of one client whatever their number. Of N clients
//! client i issues every N-th query from the i-th on; the one query of Offline
//! is cut into N runs of samples; queries in flight are divided. A share numbers
//! its queries from 0; [`join`] gives them their place in the trace.

use std::fmt;
use std::ops::Range;

use crate::drive::PlayedTenant;
use crate::plan::{Load, Plan};
use crate::record::{LoggedResponse, Record, Responses};
use crate::session::Ended;
use crate::settings::{Arrivals, EarlyStopping, Scenario};

/// The part of a load that one of several clients issues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// In `0..of`.
    pub index: u32,
    /// Number of clients (>= 1).
    pub of: u32,
}

impl Default for Share {
    fn default() -> Self {
        Self::WHOLE
    }
}

impl Share {
    /// That of the only client.
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    /// Whether query `sequence` of the trace is in it.
    #[inline]
    #[must_use]
    pub fn has(self, sequence: u64) -> bool {
        sequence % u64::from(self.of) == u64::from(self.index)
    }

    /// How many of the first `count` queries are in it.
    #[must_use]
    pub fn part(self, count: u64) -> u64 {
        let (index, of) = (u64::from(self.index), u64::from(self.of));
        count / of + u64::from(index < count % of)
    }

    /// Which of the samples of the one Offline query are in it.
    #[must_use]
    pub fn range(self, samples: usize) -> Range<usize> {
        let cut = |i: u32| (samples as u128 * u128::from(i) / u128::from(self.of)) as usize;
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
    pub(crate) fn of(&self, sample: u64) -> u64 {
        let (query, within) = (sample / self.samples_per_query, sample % self.samples_per_query);
        let (index, of) = (u64::from(self.share.index), u64::from(self.share.of));
        self.offset + (query * of + index) * self.samples_per_query + within
    }
}

/// Why a load cannot be divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Indivisible {
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

impl fmt::Display for Indivisible {
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

impl std::error::Error for Indivisible {}

/// Whether `clients` clients can share the load of this plan.
///
/// # Errors
/// Why they cannot.
pub fn divisible(plan: &Plan, clients: u32) -> Result<(), Indivisible> {
    match &plan.load {
        _ if clients <= 1 => Ok(()),
        Load::SingleStream { .. } | Load::MultiStream { .. } => {
            Err(Indivisible::OneAtATime(plan.scenario()))
        }
        Load::Server(server) => match server.arrivals {
            Arrivals::Concurrency(in_flight) if in_flight < clients => {
                Err(Indivisible::TooFewInFlight { in_flight, clients })
            }
            Arrivals::Concurrency(_) => Ok(()),
            _ if plan.early_stopping.policy == EarlyStopping::Extend => Err(Indivisible::Extended),
            _ => Ok(()),
        },
        Load::Offline => Ok(()),
    }
}

/// Puts the parts of one tenant's run together, in the order of the trace.
///
/// The parts are in the order of their shares; their times count from the same
/// instant. Where parts end at different places (closed loops, an abort) or one
/// is lost, gaps are closed: nothing that was measured is left out, and the
/// record then holds fewer queries than the trace up to its last one.
///
/// # Panics
/// If there are no parts.
#[must_use]
pub fn join(plan: &Plan, mut parts: Vec<PlayedTenant>) -> PlayedTenant {
    assert!(!parts.is_empty(), "a load is issued by somebody");
    if parts.len() == 1 {
        return parts.swap_remove(0);
    }
    let ended = parts.iter().map(|part| part.ended).reduce(and).expect("there are parts");
    let generated = parts[0].generated;
    let records: Vec<Record> = parts.into_iter().map(|part| part.record).collect();
    let record = match plan.scenario() {
        Scenario::Offline => concatenated(records),
        _ => dealt(&records),
    };
    PlayedTenant { ended, generated, record }
}

/// Why a run ended of which one part ended this way and another that way.
fn and(a: Ended, b: Ended) -> Ended {
    let rank = |ended: &Ended| match ended {
        Ended::TraceIssued => 0,
        Ended::Naturally => 1,
        Ended::RanOut => 2,
        Ended::MaxQueryCount { .. } => 3,
        Ended::MaxDuration { .. } => 4,
        Ended::TooManyOutstanding { .. } => 5,
        Ended::Deadline { .. } => 6,
        Ended::Aborted => 7,
        Ended::Lost { .. } => 8,
    };
    match (a, b) {
        (Ended::MaxQueryCount { issued: a }, Ended::MaxQueryCount { issued: b }) => {
            Ended::MaxQueryCount { issued: a + b }
        }
        (Ended::MaxDuration { at: a }, Ended::MaxDuration { at: b }) => {
            Ended::MaxDuration { at: a.max(b) }
        }
        (
            Ended::TooManyOutstanding { issued, outstanding },
            Ended::TooManyOutstanding { issued: more, outstanding: other },
        ) => Ended::TooManyOutstanding { issued: issued + more, outstanding: outstanding + other },
        (Ended::Deadline { missing: a }, Ended::Deadline { missing: b }) => {
            Ended::Deadline { missing: a + b }
        }
        (a, b) => {
            if rank(&b) > rank(&a) {
                b
            } else {
                a
            }
        }
    }
}

/// Queries in turn: the first of each part, the second of each part, and so on.
fn dealt(parts: &[Record]) -> Record {
    let samples_per_query = parts.iter().map(|p| p.samples_per_query).max().unwrap_or(1);
    let mut whole = Record { samples_per_query, ..Record::default() };
    let most = parts.iter().map(Record::query_count).max().unwrap_or(0);
    for query in 0..most {
        for part in parts.iter().filter(|part| query < part.query_count()) {
            whole.issued_at.push(part.issued_at[query]);
            whole.scheduled_at.extend(part.scheduled_at.get(query));
            whole.client_lag.extend(part.client_lag.get(query));
            let samples = query * samples_per_query..(query + 1) * samples_per_query;
            append_samples(&mut whole, part, samples);
        }
    }
    // Queries of the parts that come before a part's query.
    let lens: Vec<usize> = parts.iter().map(Record::query_count).collect();
    let place = |part: usize, sample: u64| {
        let spq = samples_per_query as u64;
        let (query, within) = ((sample / spq) as usize, sample % spq);
        let before = |(other, len): (usize, &usize)| (*len).min(query + usize::from(other < part));
        lens.iter().enumerate().map(before).sum::<usize>() as u64 * spq + within
    };
    tell(&mut whole, parts, place);
    whole
}

/// The samples of one query, part after part.
fn concatenated(parts: Vec<Record>) -> Record {
    // A part without a sample has issued nothing.
    let parts: Vec<Record> = parts.into_iter().filter(|part| part.query_count() > 0).collect();
    let mut whole = Record::default();
    let mut before = Vec::new();
    for part in &parts {
        before.push(whole.indices.len() as u64);
        append_samples(&mut whole, part, 0..part.indices.len());
    }
    let Some(first) = parts.first() else { return Record { samples_per_query: 1, ..whole } };
    whole.samples_per_query = whole.indices.len().max(1);
    whole.scheduled_at.clone_from(&first.scheduled_at);
    // The query is issued when the first part of it is; the lag is that of the last.
    whole.issued_at.extend(parts.iter().map(|part| part.issued_at[0]).min());
    whole.client_lag.extend(parts.iter().filter_map(|part| part.client_lag.first()).max());
    tell(&mut whole, &parts, |part, sample| before[part] + sample);
    whole
}

fn append_samples(whole: &mut Record, part: &Record, samples: Range<usize>) {
    whole.indices.extend_from_slice(&part.indices[samples.clone()]);
    whole.completed_at.extend_from_slice(&part.completed_at[samples.clone()]);
    if !part.tokens.is_empty() {
        whole.first_token_at.extend_from_slice(&part.first_token_at[samples.clone()]);
        whole.tokens.extend_from_slice(&part.tokens[samples]);
    }
}

/// Adds what is told of single samples, in the order of their completion.
fn tell(whole: &mut Record, parts: &[Record], place: impl Fn(usize, u64) -> u64) {
    let completed_at = |sample: u64| whole.completed_at.get(sample as usize).copied().unwrap_or(0);
    let mut failed = Vec::new();
    let mut responses = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        whole.misuse.add(part.misuse);
        failed.extend(part.failed.iter().map(|&(sample, why)| (place(number, sample), why)));
        let placed = part.responses.iter().map(|response| LoggedResponse {
            sequence: place(number, response.sequence),
            ..response
        });
        responses.extend(placed);
    }
    failed.sort_by_key(|&(sample, _)| (completed_at(sample), sample));
    responses.sort_by_key(|of| (completed_at(of.sequence), of.sequence));
    let mut kept = Responses::default();
    responses.iter().for_each(|response| kept.push(response));
    (whole.failed, whole.responses) = (failed, kept);
}
