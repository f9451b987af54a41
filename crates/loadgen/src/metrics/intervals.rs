//! Skipped intervals of MultiStream at a fixed interval.

use super::distribution::{PERCENTILES, rank};
use crate::clock::{Nanos, SECOND};
use crate::plan::Plan;
use crate::record::Record;

/// Numbers of intervals between a query and the next one. One is expected; each further interval
/// was skipped because of the query.
///
/// The last query counts with its latency in intervals, rounded up. The counts and their
/// percentiles are those of the reference (v0.5 to v1.0). Dyno adds which intervals the client
/// skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Intervals {
    /// Values at [`PERCENTILES`].
    pub percentiles: [u64; 6],
    /// Value at the plan's target percentile.
    pub target: u64,
    /// Queries that were not completely answered or made the next one skip.
    pub over: u64,
    /// Maximum of `over` for the number of queries of the run: one less than the part beyond the
    /// target percentile, because of the index that the reference uses.
    pub allowed: u64,
    /// Intervals skipped in all.
    pub skipped: u64,
    /// Queries that were complete in time for a skipped tick, or would have been if the client had
    /// issued them on time. They are included in `over`.
    pub by_client: u64,
}

impl Intervals {
    /// Returns the intervals of a run; `None` unless the plan has a fixed interval.
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
                // It was never complete.
                (None, None) => 2,
            };
            let own_failure = done.is_none() || failed.get(query).is_some_and(|&failed| failed);
            found.over += u64::from(count > 1 || own_failure);
            found.skipped += count.saturating_sub(1);
            // The lag of the client delays the answer.
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

/// Returns the number of the tick at which a query was due.
fn tick_at(plan: &Plan, due: Nanos) -> u64 {
    (due as f64 / SECOND as f64 * plan.target_qps).round() as u64
}

fn in_intervals(plan: &Plan, latency: Nanos) -> u64 {
    (latency as f64 / SECOND as f64 * plan.target_qps).ceil() as u64
}
