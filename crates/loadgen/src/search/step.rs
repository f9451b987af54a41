//! Steps: systems whose share of queries over a limit jumps from far below the allowed one to far above
//! it at one load.
//!
//! The odds of a step are no power of the load, so that the posterior of [`fit`](super::fit) can exclude
//! the step, and a long run widens it. The neighbors of the step need no model.

use super::fit::FAR;
use super::limit::{Block, Limit};

/// Minimum allowed number of queries over a limit in a run that shows that the load is below the step.
const ALLOWED_EVENTS: f64 = 5.0;
/// Divisor of the allowed share up to which a share is far below it.
const FAR_BELOW: f64 = 4.0;

/// Returns the neighbors of a step: the highest load that passed in a run with enough queries, and the lowest
/// one that failed. `runs` has the load of each run, and its counts for each of `limits`. Returns `None` if
/// the share of a run is near the allowed one, or if a load passed above one that failed.
pub fn neighbors(
    runs: impl Iterator<Item = (f64, Vec<Block>)>,
    limits: &[Limit],
) -> Option<[f64; 2]> {
    let (mut passed, mut known, mut failed) = (0.0_f64, 0.0_f64, f64::INFINITY);
    for (load, counts) in runs {
        let counts = || counts.iter().zip(limits).map(|(all, limit)| (*all, limit.allowed));
        if counts().any(|(all, allowed)| is_far_above(all, allowed)) {
            failed = failed.min(load);
        } else if counts().all(|(all, allowed)| is_far_below(all, allowed)) {
            passed = passed.max(load);
            if counts().all(|(all, allowed)| all.queries as f64 * allowed >= ALLOWED_EVENTS) {
                known = known.max(load);
            }
        } else {
            return None;
        }
    }
    (known > 0.0 && passed < failed && failed.is_finite()).then_some([known, failed])
}

fn is_far_above(all: Block, allowed: f64) -> bool {
    let (over, kept) = (all.over as f64, all.queries.saturating_sub(all.over) as f64);
    all.over > 0 && over * (1.0 - allowed) >= FAR * allowed * kept
}

fn is_far_below(all: Block, allowed: f64) -> bool {
    FAR_BELOW * all.over as f64 <= all.queries as f64 * allowed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Quantity;

    fn found(runs: &[(f64, u64, u64)]) -> Option<[f64; 2]> {
        let limit = Limit { quantity: Quantity::Latency, allowed: 0.01, bound: 1 };
        let counts =
            |&(load, queries, over): &(f64, u64, u64)| (load, vec![Block { queries, over }]);
        neighbors(runs.iter().map(counts), &[limit])
    }

    #[test]
    fn the_neighbors_of_a_step_are_those_that_clear_runs_show() {
        let clear = [(50.0, 500, 0), (100.0, 1_000, 0), (101.0, 1_000, 1_000), (200.0, 900, 900)];
        assert_eq!(found(&clear), Some([100.0, 101.0]));
        // 100 queries may have one over the limit, and none by chance.
        let short = [(50.0, 500, 0), (100.0, 100, 0), (101.0, 1_000, 1_000)];
        assert_eq!(found(&short), Some([50.0, 101.0]));
        // Odds of 30 times the allowed ones are a share of 23.3 %.
        let steep = |over| found(&[(100.0, 1_000, 2), (101.0, 1_000, over)]);
        assert_eq!((steep(233), steep(232)), (Some([100.0, 101.0]), None));
        assert_eq!(found(&[(100.0, 1_000, 3), (101.0, 1_000, 1_000)]), None);
    }

    #[test]
    fn runs_that_contradict_each_other_are_no_step() {
        assert_eq!(found(&[(102.0, 1_000, 0), (101.0, 1_000, 1_000)]), None);
        assert_eq!(found(&[(101.0, 1_000, 0), (101.0, 1_000, 1_000)]), None);
        assert_eq!(found(&[(100.0, 1_000, 0)]), None);
        assert_eq!(found(&[(101.0, 1_000, 1_000)]), None);
    }
}
