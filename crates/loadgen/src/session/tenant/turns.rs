//! The sessions of a tenant: when their turns are due, and when a run of sessions ends.

use std::sync::Arc;

use super::{Pacing, Tenant, TenantStep};
use crate::clock::Nanos;
use crate::plan::{Chain, Plan, SampleChoice};
use crate::session::Lane;
use crate::session::sessions::Sessions;
use crate::share::{Deal, Share};
use crate::sut::SettledSample;

impl Tenant {
    /// Draws the trace, or the times at which sessions begin. Sessions are played by one thread. Of
    /// several clients, each plays the sessions that it is dealt.
    pub(super) fn prepare(&mut self) {
        let is_whole = self.lane == Lane::WHOLE;
        let all = self.plan.sessions.clone().filter(|_| is_whole && !self.accuracy);
        let Some(all) = all else { return self.generate() };
        let (share, own_sessions) = (self.share, shared(&all, self.deal));
        let is_once = self.plan.choice == SampleChoice::Unique;
        let Plan { ramp, turn_interval: interval, steps, .. } = *self.plan;
        let sessions = if let Some(places) = self.plan.in_flight() {
            // Users at an interval begin one after the other, so that their requests do.
            let spread = if ramp > 0 { ramp } else { interval };
            let begins = begins(places.min(all.len()) as u64, spread, share);
            Sessions::with_places(own_sessions, is_once, begins).with_interval(interval)
        } else {
            let (mut times, mut samples) = (self.plan.ramp_arrivals(), Vec::new());
            while let Some(at) = self.trace.next_query(&mut samples) {
                samples.clear();
                times.push(at.saturating_add(ramp));
            }
            self.generated = self.trace.generated();
            let own = (0..).zip(times).filter(|(number, _)| self.deal.has(*number));
            let own = own.map(|(_, at)| at).collect();
            Sessions::at_times(own_sessions, is_once, own)
        };
        (self.sessions, self.pacing) = (Some(sessions.with_tasks(steps)), Pacing::Sessions);
    }

    /// Returns whether a run of sessions, or of a fixed number of queries in flight, has lasted long
    /// enough, so that nothing more is issued. Sessions that are played once all come to their end.
    pub(super) fn is_long_enough(&self, now: Nanos) -> bool {
        let ends = match &self.sessions {
            Some(sessions) => !sessions.is_once(),
            None => !self.accuracy && self.issued > 0 && self.plan.in_flight().is_some(),
        };
        ends && self.measured() >= self.min_queries && now >= self.end_of_duration()
    }

    /// Waits for the next turn, whose time is `at` if it is known, but not beyond the end of the
    /// run.
    pub(super) fn until_turn(&self, at: Option<Nanos>, is_any_outstanding: bool) -> TenantStep {
        let is_ending = self.is_long_enough(self.end_of_duration());
        let end = is_ending.then_some(self.end_of_duration());
        let until = at.into_iter().chain(end).chain(self.deadline()).min();
        TenantStep::Wait { until, on_completion: is_any_outstanding }
    }

    /// Reports complete samples to the sessions, unless their number is known already and no turn was
    /// released.
    #[inline]
    pub(in crate::session) fn settle(
        &mut self,
        samples: u64,
        has_released: bool,
        look: impl Fn(u64) -> Option<SettledSample>,
    ) {
        if let Some(sessions) = &mut self.sessions
            && (samples != self.completed_samples || has_released)
        {
            sessions.settle(look);
        }
    }
}

/// Returns the sessions of a client.
fn shared(all: &Arc<[Chain]>, deal: Deal) -> Arc<[Chain]> {
    let sessions = all.len() as u64;
    if deal.part(sessions) == sessions {
        return Arc::clone(all);
    }
    let own = (0..).zip(all.iter()).filter(|(number, _)| deal.has(*number));
    own.map(|(_, chain)| chain.clone()).collect()
}

/// Returns when the places of a client begin, ns. The `places` of all clients begin one after the other,
/// spread evenly over `spread` ns.
fn begins(places: u64, spread: Nanos, share: Share) -> impl Iterator<Item = Nanos> {
    let begin = move |number: u64| u128::from(spread) * u128::from(number) / u128::from(places);
    (0..places)
        .filter(move |number| share.has(*number))
        .map(move |number| Nanos::try_from(begin(number)).unwrap_or(Nanos::MAX))
}
