//! Progress of a run: exact counts, and the latencies of one random query in each of equal stretches.
//!
//! The latencies are an estimate for display only. The result of a run is computed from all
//! stamps after the run.

use crate::clock::Nanos;
use crate::rng::split_mix_at;
use crate::sut::CHOSEN_AT_ONCE;

/// Progress of a run at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Glance {
    /// Distinguishes the runs of a test; a search for the peak has many.
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
    /// Sampled queries that were answered since the last glance.
    pub answered: Vec<AnsweredQuery>,
    /// Sampled queries that are not answered yet.
    pub waiting: Vec<WaitingQuery>,
}

impl Glance {
    /// Returns the samples issued and not complete.
    pub fn in_flight(&self) -> u64 {
        self.issued_samples.saturating_sub(self.completed_samples)
    }
}

/// A sampled query that is answered or failed; in Offline a sample of its single query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnsweredQuery {
    /// Index of the tenant.
    pub tenant: usize,
    /// When it was due, ns since the start of the run.
    pub due: Nanos,
    /// Time from the due time to the last completion, ns.
    pub latency: Nanos,
    /// Time from the due time to the first token, ns; `None` unless tokens are measured.
    pub first_token: Option<Nanos>,
    /// Lag caused by the client, ns; `None` unless queries are due at set times.
    pub client_lag: Option<Nanos>,
    /// Number of queries that it represents, approximately (>= 1).
    pub stands_for: u64,
}

/// A sampled query that is not answered yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitingQuery {
    /// Index of the tenant.
    pub tenant: usize,
    /// When it was due, ns since the start of the run.
    pub due: Nanos,
    /// Number of queries that it represents, approximately (>= 1).
    pub stands_for: u64,
}

/// Maximum number of queries followed at the same time. Further chosen queries are ignored.
const MOST_FOLLOWED: usize = 4_096;

/// Maximum number of samples checked per query.
const SAMPLES_LOOKED_AT: u64 = 64;

/// A query chosen for observation.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChosenQuery {
    pub(super) tenant: usize,
    /// Sequence number of its first sample.
    pub(super) first: u64,
    /// Number of samples (>= 1).
    pub(super) samples: u64,
    pub(super) due: Nanos,
    pub(super) client_lag: Option<Nanos>,
    pub(super) stands_for: u64,
}

impl ChosenQuery {
    /// Returns the positions of the checked samples; the last sample is always among them.
    fn positions(&self) -> impl Iterator<Item = u64> {
        let (first, samples) = (self.first, self.samples);
        let looked_at = samples.min(SAMPLES_LOOKED_AT);
        (1..=looked_at).map(move |i| first + samples * i / looked_at - 1)
    }
}

/// The chosen queries that were not answered at the last glance.
#[derive(Debug, Default)]
pub(super) struct FollowedQueries {
    queries: Vec<ChosenQuery>,
}

impl FollowedQueries {
    /// Adds a query, if there is room.
    pub(super) fn follow(&mut self, query: ChosenQuery) {
        if self.queries.len() < MOST_FOLLOWED {
            self.queries.push(query);
        }
    }

    /// Adds one random sample of each of equal stretches of a single query that is due at 0.
    pub(super) fn follow_samples(&mut self, tenant: usize, samples: u64) {
        let chosen = samples.min(CHOSEN_AT_ONCE);
        for i in 0..chosen {
            let (begin, end) = (samples * i / chosen, samples * (i + 1) / chosen);
            self.follow(ChosenQuery {
                tenant,
                first: begin + split_mix_at(i) % (end - begin),
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

    /// Moves answered queries into the glance. `completed` and `first_token` return the stamp of
    /// a tenant's sample, if it has one.
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
