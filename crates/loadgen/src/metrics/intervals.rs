//! Skipped intervals of MultiStream at a fixed interval.

use super::distribution::{PERCENTILES, rank};
use crate::clock::{Nanos, SECOND};
use crate::plan::Plan;
use crate::record::Record;

/// How many intervals lay between a query and the next one. One is as it should
/// be; each more is an interval that the query made the next one skip.
///
/// Of the last query, which has no next one, its latency in intervals counts,
/// rounded up. The counts and their percentiles are the reference's (v0.5 to
/// v1.0); which intervals the client itself skipped is ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Intervals {
    /// At [`PERCENTILES`].
    pub percentiles: [u64; 6],
    /// At the plan's target percentile.
    pub target: u64,
    /// Queries that were not answered whole or made the next one skip.
    pub over: u64,
    /// Of a run of so many queries, how many may be: one less than its part beyond
    /// the target percentile, for the reference's index.
    pub allowed: u64,
    /// Intervals skipped in all.
    pub skipped: u64,
    /// Queries that were complete in time for a tick that was skipped all the
    /// same, or would have been had the client not issued them late. They are
    /// among those over.
    pub by_client: u64,
}

impl Intervals {
    /// `None` unless the plan has a fixed interval.
    pub(super) fn from_record(record: &Record, plan: &Plan) -> Option<Self> {
        plan.interval()?;
        let queries = record.query_count();
        let samples = record.samples_per_query.max(1);
        let mut failed = vec![false; if record.failed.is_empty() { 0 } else { queries }];
        for &(sequence, _) in &record.failed {
            let query = usize::try_from(sequence).unwrap_or(usize::MAX) / samples;
            if let Some(flag) = failed.get_mut(query) {
                *flag = true;
            }
        }
        let mut found = Self::default();
        let mut counts = Vec::with_capacity(queries);
        for query in 0..queries {
            let due = record.scheduled(query);
            let stamps = record.completed_at.get(query * samples..).unwrap_or_default();
            let stamps = &stamps[..stamps.len().min(samples)];
            let is_complete = stamps.len() == samples && !stamps.contains(&0);
            let done = if is_complete { stamps.iter().copied().max() } else { None };
            let next = (query + 1 < queries).then(|| record.scheduled(query + 1));
            let count = match (next, done) {
                (Some(next), _) => tick_at(plan, next) - tick_at(plan, due),
                (None, Some(done)) => in_intervals(plan, done.saturating_sub(due)),
                // It never was complete.
                (None, None) => 2,
            };
            let own_failure = done.is_none() || failed.get(query).is_some_and(|&failed| failed);
            found.over += u64::from(count > 1 || own_failure);
            found.skipped += count.saturating_sub(1);
            // A query that the client issued late is answered late.
            let lag = record.client_lag.get(query).map_or(0, |lag| Nanos::from(*lag));
            let next_tick = plan.tick(tick_at(plan, due) + 1);
            let in_time = done.is_some_and(|done| next_tick >= done.saturating_sub(lag));
            found.by_client += u64::from(next.is_some() && count > 1 && in_time);
            counts.push(count);
        }
        counts.sort_unstable();
        let at = |q| counts.get(rank(counts.len() as u64, q) as usize).copied().unwrap_or(0);
        found.percentiles = PERCENTILES.map(at);
        found.target = at(plan.percentile());
        let most = counts.len() as u64 - rank(counts.len() as u64, plan.percentile());
        found.allowed = most.saturating_sub(1);
        Some(found)
    }
}

/// The number of the tick at which something was due.
fn tick_at(plan: &Plan, due: Nanos) -> u64 {
    (due as f64 / SECOND as f64 * plan.target_qps).round() as u64
}

fn in_intervals(plan: &Plan, latency: Nanos) -> u64 {
    (latency as f64 / SECOND as f64 * plan.target_qps).ceil() as u64
}
