//! Contention: when the caller of a team does better without the other workers, because other
//! programs use their cores.

use std::time::{Duration, Instant};

/// Maximum of [`Contention::factor`]. A try that fails costs about one time slice of the scheduler,
/// so that a contended team loses about 1/64 of its time to tries.
const MOST: u32 = 64;

/// Decides whether the caller works alone.
///
/// After a job in which the caller waited so long for descheduled workers that it would have been
/// faster alone, it works alone for as long as it lost. If the next try fails too, it works alone
/// for a larger multiple of the loss, up to [`MOST`]. Tries that succeed for as long as the caller
/// worked alone before reduce the multiple again.
#[derive(Debug)]
pub(super) struct Contention {
    factor: u32,
    /// End and duration of the time that the caller works alone.
    alone: Option<(Instant, Duration)>,
}

impl Contention {
    pub(super) fn new() -> Self {
        Self { factor: 1, alone: None }
    }

    /// Whether there was contention recently, so that a call has to ask [`Contention::is_alone`].
    #[inline(always)]
    pub(super) fn is_recent(&self) -> bool {
        self.alone.is_some()
    }

    /// Whether the caller works alone now.
    pub(super) fn is_alone(&mut self, now: Instant) -> bool {
        let Some((end, alone)) = self.alone else { return false };
        if now < end {
            return true;
        }
        if now - end > alone {
            self.factor = (self.factor / 4).max(1);
            self.alone = (self.factor > 1).then_some((now, alone / 4));
        }
        false
    }

    /// Records a job of `took` in which the caller of `workers` workers waited for `waited`.
    pub(super) fn record(&mut self, now: Instant, took: Duration, waited: Duration, workers: u32) {
        // Alone, the caller would have done every worker's share itself.
        let alone = took.saturating_sub(waited) * workers;
        let Some(lost) = took.checked_sub(alone).filter(|lost| !lost.is_zero()) else { return };
        let alone = lost * self.factor;
        self.alone = Some((now + alone, alone));
        self.factor = (self.factor * 4).min(MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Fraction of the time in which the caller works alone, if each try within `busy` of `all`
    /// milliseconds waits for 3 ms, and a job takes one worker 2 ms.
    fn alone(all: u32, busy: impl Fn(u32) -> bool) -> f64 {
        let start = super::super::now();
        let mut contention = Contention::new();
        let (mut at, mut alone) = (0, 0);
        while at < all {
            let now = start + MS * at;
            if contention.is_alone(now) {
                (at, alone) = (at + 2, alone + 2);
            } else if busy(at) {
                at += 4;
                contention.record(start + MS * at, MS * 4, MS * 3, 2);
            } else {
                at += 1;
            }
        }
        f64::from(alone) / f64::from(all)
    }

    #[test]
    fn a_contended_caller_works_alone_nearly_all_the_time() {
        let found = alone(10_000, |_| true);
        assert!(found > 0.95, "{found}");
    }

    #[test]
    fn it_tries_again_and_stays_with_the_others_once_they_are_back() {
        let found = alone(10_000, |at| at < 1000);
        assert!((0.08..0.15).contains(&found), "{found}");
    }

    #[test]
    fn a_rare_hitch_costs_no_more_than_its_own_time() {
        let found = alone(100_000, |at| at % 1000 < 2);
        assert!(found < 0.005, "{found}");
    }

    #[test]
    fn waits_that_two_workers_make_up_for_are_no_contention() {
        let mut contention = Contention::new();
        contention.record(super::super::now(), MS * 10, MS * 4, 2);
        assert!(!contention.is_recent());
    }
}
