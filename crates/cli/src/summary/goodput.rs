//! Goodput: what a system delivers within its bounds.

use std::collections::HashSet;

use dyno_loadgen::metrics::{Metrics, Rates};
use dyno_loadgen::plan::{Load, Plan, Tokens};
use dyno_loadgen::record::Record;

/// Samples/s that were answered within every bound: the completed rate times
/// the share of the answered samples that were. `None` where nothing is bounded,
/// which is everywhere but in Server.
pub fn goodput(metrics: &Metrics, record: &Record, plan: &Plan) -> Option<f64> {
    let (Load::Server(server), Rates::Server { completed, .. }) = (&plan.load, metrics.rates)
    else {
        return None;
    };
    let within = match plan.tokens {
        Some(Tokens::Measured { ttft, tpot }) => within_both(record, ttft, tpot),
        _ => within(record, server.target_latency),
    };
    // A run of one query has no rate.
    Some(completed * (within as f64 / metrics.sample_count.max(1) as f64))
        .filter(|rate| rate.is_finite())
}

/// Answered samples: their number, when they were due, and when they were done.
fn answered(record: &Record) -> impl Iterator<Item = (usize, u64, u64)> {
    let failed: HashSet<u64> = record.failed.iter().map(|(sequence, _)| *sequence).collect();
    let samples = record.samples_per_query.max(1);
    let stamps = record.completed_at.iter().copied().enumerate();
    let answered = stamps.filter(move |(sample, at)| {
        *at != 0 && (failed.is_empty() || !failed.contains(&(*sample as u64)))
    });
    answered.map(move |(sample, at)| (sample, record.scheduled(sample / samples), at))
}

fn within(record: &Record, bound: u64) -> usize {
    answered(record).filter(|(_, due, at)| at.saturating_sub(*due) <= bound).count()
}

fn within_both(record: &Record, ttft: u64, tpot: u64) -> usize {
    let is_within = |&(sample, due, at): &(usize, u64, u64)| {
        let first = record.first_token_at.get(sample).copied().unwrap_or(0);
        // Of one token there is no time between tokens.
        let gaps = record.tokens.get(sample).map_or(0, |tokens| tokens.saturating_sub(1)).max(0);
        let after = at.saturating_sub(first);
        first != 0
            && first.saturating_sub(due) <= ttft
            && after.checked_div(gaps.unsigned_abs()).is_none_or(|time| time <= tpot)
    };
    answered(record).filter(is_within).count()
}

#[cfg(test)]
mod tests {
    use dyno_loadgen::record::Failure;

    use super::*;

    #[test]
    fn failed_missing_and_late_samples_are_no_goodput() {
        let record = Record {
            samples_per_query: 1,
            scheduled_at: vec![0, 100, 200, 300],
            issued_at: vec![0, 100, 200, 300],
            completed_at: vec![50, 151, 250, 0],
            failed: vec![(2, Failure::Rejected)],
            ..Record::default()
        };
        assert_eq!(within(&record, 50), 1);
        assert_eq!(within(&record, 51), 2);
    }

    #[test]
    fn a_sample_must_meet_both_bounds_of_tokens() {
        let record = Record {
            samples_per_query: 1,
            issued_at: vec![0; 5],
            // Good; a late first token; slow tokens; no first token; one token.
            first_token_at: vec![10, 30, 10, 0, 10],
            completed_at: vec![50, 50, 90, 50, 500],
            tokens: vec![5, 5, 5, 5, 1],
            ..Record::default()
        };
        assert_eq!(within_both(&record, 20, 10), 2);
    }
}
