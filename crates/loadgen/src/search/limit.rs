//! Limits of a search: a bound, and the share of queries that may be over it.

use std::collections::HashSet;

use crate::clock::Nanos;
use crate::record::Record;

/// Quantity of a query that is bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Quantity {
    /// Time from the due time to the last answer.
    Latency,
    /// Time from the due time to the first token.
    FirstToken,
    /// Time between tokens after the first.
    TimePerOutputToken,
    /// Whether the query failed; has no bound.
    Errors,
    /// Lateness of the issue caused by the client.
    ClientLag,
}

impl Quantity {
    /// Returns whether the quantity grows while queries pile up.
    pub fn waits(self) -> bool {
        matches!(self, Self::Latency | Self::FirstToken)
    }
}

/// A limit: at most the share `allowed` of the queries may be over `bound`.
///
/// "p99 <= 100 ms" is a share of 0.01 over 100 ms. Queries that fail or are never answered are over
/// every bound except that of the client lag. Answers of one token have no time between tokens, so
/// that a limit on it does not count them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    /// Bounded quantity.
    pub quantity: Quantity,
    /// Share that may be over the bound, in (0, 1).
    pub allowed: f64,
    /// Bound in ns; ignored for errors.
    pub bound: Nanos,
}

/// Query counts of one stretch of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Block {
    /// Queries due in the stretch that count for the limit.
    pub queries: u64,
    /// Queries over the bound.
    pub over: u64,
}

impl Block {
    /// Returns the sum of several stretches.
    pub fn sum(blocks: &[Self]) -> Self {
        let add =
            |a: Self, b: &Self| Self { queries: a.queries + b.queries, over: a.over + b.over };
        blocks.iter().fold(Self::default(), add)
    }
}

/// Number of stretches of equal length per run. They show how strongly queries near each other in
/// time are over a bound together.
pub const BLOCKS: usize = 40;

impl Limit {
    /// Returns whether these stretches together keep the limit.
    pub fn is_kept(&self, blocks: &[Block]) -> bool {
        let all = Block::sum(blocks);
        all.over as f64 <= self.allowed * all.queries as f64
    }

    /// Returns the counts of each stretch of a run of about this length, ns.
    pub fn blocks(&self, record: &Record, duration: Nanos) -> Vec<Block> {
        self.blocks_after(record, duration, |_| 0)
    }

    /// Returns the counts without the lag of the client: the times of each query count from its due
    /// time plus that lag.
    pub fn blocks_without_lag(&self, record: &Record, duration: Nanos) -> Vec<Block> {
        let lag = |query: usize| record.client_lag.get(query).copied().unwrap_or(0).into();
        self.blocks_after(record, duration, lag)
    }

    /// Returns the counts with times counted from `later` ns after the due time of each query.
    fn blocks_after(
        &self,
        record: &Record,
        duration: Nanos,
        later: impl Fn(usize) -> Nanos,
    ) -> Vec<Block> {
        let failed: HashSet<u64> = record.failed.iter().map(|failed| failed.0).collect();
        let mut blocks = vec![Block::default(); BLOCKS];
        let spq = record.samples_per_query.max(1);
        for query in 0..record.query_count() {
            let due = record.scheduled(query);
            let at = u128::from(due) * BLOCKS as u128 / u128::from(duration.max(1));
            let block = &mut blocks[usize::try_from(at).unwrap_or(usize::MAX).min(BLOCKS - 1)];
            let samples = query * spq..((query + 1) * spq).min(record.completed_at.len());
            let over = match self.quantity {
                Quantity::ClientLag => {
                    record.client_lag.get(query).is_some_and(|&lag| Nanos::from(lag) > self.bound)
                }
                _ => {
                    let from = due.saturating_add(later(query));
                    let is_over =
                        |s: usize| failed.contains(&(s as u64)) || self.is_over(record, s, from);
                    samples.clone().any(is_over)
                }
            };
            let is_counted = over
                || self.quantity != Quantity::TimePerOutputToken
                || samples.clone().any(|s| record.timed_tokens(s).is_some_and(|tokens| tokens > 1));
            block.queries += u64::from(is_counted);
            block.over += u64::from(over);
        }
        blocks
    }

    /// Returns whether a sample that did not fail is over the bound.
    fn is_over(&self, record: &Record, sample: usize, due: Nanos) -> bool {
        let done = record.completed_at[sample];
        if done == 0 {
            return true;
        }
        let first = record.first_token_at.get(sample).copied().unwrap_or(0);
        match self.quantity {
            Quantity::Latency => done.saturating_sub(due) > self.bound,
            Quantity::FirstToken => first == 0 || first.saturating_sub(due) > self.bound,
            Quantity::TimePerOutputToken => {
                // Neither do answers of which it is unknown how many tokens came in their time.
                let Some(tokens) = record.timed_tokens(sample) else { return true };
                let after_first = u64::try_from(tokens.saturating_sub(1)).unwrap_or(0);
                let spent = done.saturating_sub(first);
                // Several tokens that came at once have no time between them, as in
                // `Definitions::Native`. Like answers without a first token, they do not keep a limit.
                let is_over = || spent == 0 || spent / after_first > self.bound;
                first == 0 || (after_first > 0 && is_over())
            }
            Quantity::Errors | Quantity::ClientLag => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Failure;

    fn check(quantity: Quantity, bound: Nanos, expected: &[(usize, u64, u64)]) {
        let record = Record {
            samples_per_query: 1,
            scheduled_at: vec![0, 10, 500, 990],
            issued_at: vec![0, 40, 500, 990],
            client_lag: vec![0, 30, 0, 0],
            completed_at: vec![20, 200, 600, 0],
            first_token_at: vec![10, 30, 520, 0],
            tokens: vec![1, 11, 3, 0],
            failed: vec![(2, Failure::Rejected)],
            ..Record::default()
        };
        let limit = Limit { quantity, allowed: 0.01, bound };
        let blocks = limit.blocks(&record, 1_000);
        let filled = blocks.iter().enumerate().filter(|(_, block)| block.queries > 0);
        let found: Vec<_> = filled.map(|(at, block)| (at, block.queries, block.over)).collect();
        assert_eq!(found, expected, "{quantity:?}");
    }

    #[test]
    fn each_query_counts_where_it_was_due() {
        // Of four queries the third failed and the fourth never came back.
        check(Quantity::Latency, 100, &[(0, 2, 1), (20, 1, 1), (39, 1, 1)]);
        check(Quantity::FirstToken, 15, &[(0, 2, 1), (20, 1, 1), (39, 1, 1)]);
        // 170 ns for ten further tokens; one token has no time between tokens.
        check(Quantity::TimePerOutputToken, 16, &[(0, 1, 1), (20, 1, 1), (39, 1, 1)]);
        check(Quantity::TimePerOutputToken, 17, &[(0, 1, 0), (20, 1, 1), (39, 1, 1)]);
        check(Quantity::Errors, 0, &[(0, 2, 0), (20, 1, 1), (39, 1, 1)]);
        check(Quantity::ClientLag, 20, &[(0, 2, 1), (20, 1, 0), (39, 1, 0)]);
    }

    #[test]
    fn tokens_that_came_at_once_keep_no_limit() {
        let record = Record {
            samples_per_query: 1,
            scheduled_at: vec![0, 10],
            issued_at: vec![0, 10],
            client_lag: vec![0, 0],
            completed_at: vec![50, 60],
            first_token_at: vec![50, 60],
            tokens: vec![20, 1],
            ..Record::default()
        };
        let limit = Limit { quantity: Quantity::TimePerOutputToken, allowed: 0.01, bound: 1_000 };
        assert_eq!(Block::sum(&limit.blocks(&record, 100)).over, 1);
    }

    #[test]
    fn tokens_of_another_time_keep_no_limit() {
        let record = |timed: Option<i64>| Record {
            samples_per_query: 1,
            issued_at: vec![0],
            completed_at: vec![50],
            first_token_at: vec![20],
            tokens: vec![300],
            timed_tokens: vec![(0, timed)],
            ..Record::default()
        };
        // 30 ns for the two tokens after the first.
        let limit = Limit { quantity: Quantity::TimePerOutputToken, allowed: 0.01, bound: 15 };
        let over = |limit: Limit, timed| Block::sum(&limit.blocks(&record(timed), 100)).over;
        assert_eq!(over(limit, Some(3)), 0);
        assert_eq!(over(Limit { bound: 14, ..limit }, Some(3)), 1);
        assert_eq!(over(limit, None), 1);
    }

    #[test]
    fn the_lag_of_the_client_is_taken_off_its_queries_alone() {
        let record = Record {
            samples_per_query: 1,
            scheduled_at: vec![0, 10, 20],
            issued_at: vec![0, 110, 120],
            client_lag: vec![0, 100, 100],
            // 50 ns; 150 ns of which 100 are the client's; 250 ns of which 100 are.
            completed_at: vec![50, 160, 270],
            ..Record::default()
        };
        let limit = Limit { quantity: Quantity::Latency, allowed: 0.01, bound: 60 };
        let over = |blocks: &[Block]| Block::sum(blocks).over;
        assert_eq!(over(&limit.blocks(&record, 100)), 2);
        assert_eq!(over(&limit.blocks_without_lag(&record, 100)), 1);
    }
}
