//! What can be seen of a run while it is on: counts that are exact, and the
//! latencies of an evenly spread share of the queries.
//!
//! Latencies so far are an estimate, and for display only: the result of a run
//! is computed from all stamps when it is over.

use crate::clock::Nanos;
use crate::sut::CHOSEN_AT_ONCE;

/// What one look at a run tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Glance {
    /// Tells the runs of a test apart: a search for the peak has many.
    pub epoch: u16,
    /// Time of the run, ns.
    pub now: Nanos,
    /// Queries issued so far.
    pub issued_queries: u64,
    /// Samples issued so far.
    pub issued_samples: u64,
    /// Samples complete so far, failed ones included.
    pub completed_samples: u64,
    /// Samples that failed so far.
    pub failed_samples: u64,
    /// Queries that were looked at and found answered since the last glance.
    pub answered: Vec<AnsweredQuery>,
    /// Queries that were looked at and are not answered yet.
    pub waiting: Vec<WaitingQuery>,
}

impl Glance {
    /// Samples issued and not complete.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.issued_samples.saturating_sub(self.completed_samples)
    }
}

/// A query that was looked at and is answered, or failed. Of the one query of
/// Offline it is a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnsweredQuery {
    /// Whose it is.
    pub tenant: usize,
    /// When it was due, ns since the start of the run.
    pub due: Nanos,
    /// From then to its last completion, ns.
    pub latency: Nanos,
    /// From then to its first token, ns, where tokens are measured.
    pub first_token: Option<Nanos>,
    /// The client's own lag, ns, where queries are due at set times.
    pub client_lag: Option<Nanos>,
    /// About how many queries it stands for (>= 1).
    pub stands_for: u64,
}

/// A query that was looked at and is not answered yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitingQuery {
    /// Whose it is.
    pub tenant: usize,
    /// When it was due, ns since the start of the run.
    pub due: Nanos,
    /// About how many queries it stands for (>= 1).
    pub stands_for: u64,
}

/// Queries that are followed at the same time at most. What is chosen beyond
/// them is not looked at.
const MOST_FOLLOWED: usize = 4_096;

/// Of a query with more samples than this, so many are looked at.
const SAMPLES_LOOKED_AT: u64 = 64;

/// A query that is looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChosenQuery {
    pub(super) tenant: usize,
    /// Sequence number of its first sample.
    pub(super) first: u64,
    /// Its samples (>= 1).
    pub(super) samples: u64,
    pub(super) due: Nanos,
    pub(super) client_lag: Option<Nanos>,
    pub(super) stands_for: u64,
}

impl ChosenQuery {
    /// The positions of its samples that are looked at; the last is among them.
    fn positions(&self) -> impl Iterator<Item = u64> {
        let (first, samples) = (self.first, self.samples);
        let looked_at = samples.min(SAMPLES_LOOKED_AT);
        (1..=looked_at).map(move |i| first + samples * i / looked_at - 1)
    }
}

/// The queries that are looked at and were not answered when last looked at.
#[derive(Debug, Default)]
pub(super) struct FollowedQueries {
    queries: Vec<ChosenQuery>,
}

impl FollowedQueries {
    /// Follows one more, if there is room.
    pub(super) fn follow(&mut self, query: ChosenQuery) {
        if self.queries.len() < MOST_FOLLOWED {
            self.queries.push(query);
        }
    }

    /// Follows evenly spread samples of a single query that is due at 0.
    pub(super) fn follow_samples(&mut self, tenant: usize, samples: u64) {
        let chosen = samples.min(CHOSEN_AT_ONCE);
        for i in 0..chosen {
            self.follow(ChosenQuery {
                tenant,
                first: samples * i / chosen,
                samples: 1,
                due: 0,
                client_lag: None,
                stands_for: samples / chosen,
            });
        }
    }

    pub(super) fn clear(&mut self) {
        self.queries.clear();
    }

    /// Moves what is answered into the glance. `completed` and `first_token`
    /// tell the stamp of a tenant's sample, if there is one.
    pub(super) fn settle(
        &mut self,
        glance: &mut Glance,
        completed: impl Fn(usize, u64) -> Option<Nanos>,
        first_token: impl Fn(usize, u64) -> Option<Nanos>,
    ) {
        self.queries.retain(|query| {
            let ChosenQuery { tenant, due, stands_for, .. } = *query;
            let stamps = query.positions().map(|sample| completed(tenant, sample));
            let last = stamps.reduce(|a, b| Some(a?.max(b?))).flatten();
            let Some(last) = last else {
                glance.waiting.push(WaitingQuery { tenant, due, stands_for });
                return true;
            };
            let since = |at: Nanos| at.saturating_sub(due);
            glance.answered.push(AnsweredQuery {
                tenant,
                due,
                latency: since(last),
                first_token: first_token(tenant, query.first).map(since),
                client_lag: query.client_lag,
                stands_for,
            });
            false
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_answered_when_its_last_sample_is() {
        let mut followed = FollowedQueries::default();
        for (first, samples) in [(0, 8), (8, 1_000)] {
            let (tenant, due, stands_for) = (0, 100, 3);
            let client_lag = None;
            followed.follow(ChosenQuery { tenant, first, samples, due, client_lag, stands_for });
        }
        let mut glance = Glance::default();
        followed.settle(&mut glance, |_, sample| (sample < 1_007).then_some(sample), |_, _| None);
        assert_eq!(glance.waiting, [WaitingQuery { tenant: 0, due: 100, stands_for: 3 }]);
        assert_eq!(glance.answered[0].latency, 0, "stamps before the due time are no time");
        let mut glance = Glance::default();
        followed.settle(&mut glance, |_, sample| Some(sample), |_, _| Some(150));
        let [answered] = glance.answered[..] else { panic!("{glance:?}") };
        assert_eq!((answered.latency, answered.first_token), (907, Some(50)));
    }
}
