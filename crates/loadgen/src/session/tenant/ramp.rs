//! The ramp of a tenant: queries before the measured part.

use super::{Pacing, Tenant};
use crate::clock::Nanos;
use crate::plan::{Load, Server};
use crate::qsl::SampleIndex;
use crate::settings::Arrivals;

impl Tenant {
    /// Returns the arrivals of the ramp of all clients; `None` if no ramp precedes the trace.
    pub(super) fn ramp_arrivals(&self) -> Option<Vec<Nanos>> {
        let is_open = matches!(self.pacing, Pacing::OpenLoop { .. });
        (is_open && !self.accuracy && self.plan.ramp > 0).then(|| self.plan.ramp_arrivals())
    }

    /// Puts the arrivals of the ramp before the trace, which begins when the ramp ends. Their samples
    /// come from a generator of their own, so that the trace is the same with and without a ramp.
    /// Clients issue the queries of ramp and trace in turn.
    pub(super) fn prepend_ramp(&mut self, times: Vec<Nanos>) {
        let samples = self.trace.other_samples(!self.plan.seeds.sample_index, times.len());
        let (deal, all) = (self.deal, (0..).zip(times.into_iter().zip(samples)));
        let own = all.filter(|(number, _)| deal.has(*number)).map(|(_, query)| query);
        let (times, samples): (Vec<Nanos>, Vec<SampleIndex>) = own.unzip();
        let last = self.before.saturating_add(self.plan.max_query_count);
        self.max_queries = deal.part(last) - deal.part(self.before);
        self.shift = self.plan.ramp;
        self.scheduled.iter_mut().for_each(|due| *due = due.saturating_add(self.shift));
        self.known += times.len();
        self.ramp_queries = times.len() as u64;
        self.indices.splice(0..0, samples);
        self.scheduled.splice(0..0, times);
    }

    /// Returns how many queries of this client may be in flight at `now`, if `in_flight` may after the
    /// ramp, and when that number grows. The clients together have one more after the other.
    #[inline]
    pub(super) fn ramped(&self, in_flight: u64, now: Nanos) -> (u64, Option<Nanos>) {
        match &self.plan.load {
            Load::Server(Server { arrivals: Arrivals::Concurrency(all), .. })
                if now < self.plan.ramp =>
            {
                let (all, next_at) = self.plan.ramped(u64::from(*all), now);
                // After the ramp each client has at least one.
                (self.share.part(all), next_at.or(Some(self.plan.ramp)))
            }
            _ => (in_flight, None),
        }
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
