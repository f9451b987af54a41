//! The ramp of a tenant: queries before the measured part.

use super::{Pacing, Tenant};
use crate::clock::Nanos;

impl Tenant {
    /// Puts the arrivals of the ramp before the trace, which begins when the ramp ends. Their samples
    /// come from a generator of their own, so that the trace is the same with and without a ramp.
    pub(super) fn prepend_ramp(&mut self) {
        if self.accuracy || !matches!(self.pacing, Pacing::OpenLoop { .. }) || self.plan.ramp == 0 {
            return;
        }
        let times = self.plan.ramp_arrivals();
        let samples = self.trace.other_samples(!self.plan.seeds.sample_index, times.len());
        self.shift = self.plan.ramp;
        self.scheduled.iter_mut().for_each(|due| *due = due.saturating_add(self.shift));
        self.known += times.len();
        self.ramp_queries = times.len() as u64;
        self.indices.splice(0..0, samples);
        self.scheduled.splice(0..0, times);
    }

    /// Notes that query number `first` is issued at `now`. Those of a trace are known before.
    #[inline]
    pub(super) fn note_ramp(&mut self, first: usize, now: Nanos) {
        if self.plan.ramp > 0 && !matches!(self.pacing, Pacing::OpenLoop { .. }) {
            let due = self.scheduled.get(first).copied().unwrap_or(now);
            self.ramp_queries += u64::from(due < self.plan.ramp);
        }
    }

    /// Returns the number of queries issued after the ramp.
    pub(super) fn measured(&self) -> u64 {
        (self.issued as u64).saturating_sub(self.ramp_queries)
    }

    /// Returns when queries have been issued for the target duration.
    pub(super) fn end_of_duration(&self) -> Nanos {
        self.plan.target_duration.saturating_add(self.plan.ramp)
    }
}
