//! Runs that the client or its machine disturbed. They show nothing about the system: they are
//! repeated, and a search that only gets such runs ends.

use dyno_loadgen::search::{Block, Limit, Quantity};
use dyno_results::search::limits;
use dyno_results::summary::{self, Cause};

/// Why a run shows nothing about the system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disturbance {
    /// Reason, as a part of a sentence.
    pub reason: String,
    /// Whether the client's lag is the only disturbance, so that the queries without it still
    /// measure the system.
    pub is_lag_alone: bool,
}

impl Disturbance {
    /// Returns the disturbance by the limits on the client's lag, from their counts.
    pub fn by_lag(limits: &[Limit], counts: &[Vec<Block>]) -> Option<Self> {
        let of_client = limits.iter().filter(|limit| limit.quantity == Quantity::ClientLag);
        let (limit, blocks) = of_client.zip(counts).find(|(limit, all)| !limit.is_kept(all))?;
        let all = Block::sum(blocks);
        let share = all.over as f64 / all.queries.max(1) as f64;
        let (share, limit) = (limits::percent(share), limits::show(limit));
        let reason = format!("the client issued {share} of the queries too late ({limit})");
        Some(Self { reason, is_lag_alone: true })
    }

    /// Combines this disturbance with another one that the verdict of the run names.
    #[must_use]
    pub fn and(self, other: &Self) -> Self {
        Self { is_lag_alone: self.is_lag_alone && other.is_lag_alone, ..self }
    }

    /// Returns the disturbance that the reasons of a test name.
    pub fn by_test(test: &summary::Test) -> Option<Self> {
        let mut of_client = test.causes.iter().filter(|reason| reason.cause == Some(Cause::Client));
        let reason = of_client.next()?;
        let is_lag_alone = test.metrics.as_ref().is_some_and(|metrics| {
            metrics.conditions.client_lag_met == Some(false) && of_client.next().is_none()
        });
        let reason = reason.text.lines().next().unwrap_or_default().to_owned();
        Some(Self { reason, is_lag_alone })
    }
}

/// Budget of repeats of a disturbed run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Maximum number of repeats of one run.
    pub most: u32,
    /// Repeats of the current run so far.
    spent: u32,
}

impl Patience {
    /// Returns a budget of at most this many repeats per run.
    pub fn new(most: u32) -> Self {
        Self { most, spent: 0 }
    }

    /// Takes a repeat. Returns its number; `None` if the budget is exhausted.
    pub fn repeat(&mut self) -> Option<u32> {
        let again = self.spent < self.most;
        self.spent += u32::from(again);
        again.then_some(self.spent)
    }

    /// Resets the budget for the next run.
    pub fn renew(&mut self) {
        self.spent = 0;
    }
}

/// Returns advice for searches that the client limits.
pub fn advice(is_remote: bool) -> &'static str {
    if is_remote {
        "share the load among several clients (--remote-workers N), reserve cores for Dyno \
         (taskset), or use fewer connections (connections=N) and more threads (threads=N)"
    } else {
        "reserve a core for Dyno (taskset, or fewer threads of the system), or use an idle \
         machine"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAG: Limit = Limit { quantity: Quantity::ClientLag, allowed: 0.01, bound: 1_000_000 };
    const LATENCY: Limit = Limit { quantity: Quantity::Latency, allowed: 0.01, bound: 50_000_000 };

    #[test]
    fn a_run_in_which_too_many_queries_were_late_is_disturbed() {
        let of = |over| vec![vec![Block { queries: 1_000, over }]];
        let found = Disturbance::by_lag(&[LATENCY, LAG], &of(124)).unwrap();
        let reason = "the client issued 12.4 % of the queries too late (client lag p99 <= 1.00 ms)";
        assert_eq!(found.reason, reason);
        assert_eq!(Disturbance::by_lag(&[LATENCY, LAG], &of(10)), None);
        assert_eq!(Disturbance::by_lag(&[LATENCY], &[]), None);
    }

    #[test]
    fn a_run_is_repeated_so_often_and_the_next_one_again() {
        let mut patience = Patience::new(2);
        assert_eq!([patience.repeat(), patience.repeat()], [Some(1), Some(2)]);
        assert_eq!(patience.repeat(), None);
        patience.renew();
        assert_eq!(patience.repeat(), Some(1));
        assert_eq!(Patience::new(0).repeat(), None);
    }
}
