//! Start of a run: at once, or at a time that a gate sets.

use std::sync::Arc;

use super::wait::Waiter;
use super::{ABORT_NOTICED_WITHIN, RealTime};
use crate::clock::{Clock, Nanos};

/// Callback that is called when a run is ready. It blocks until the start time is known and returns
/// it, by the driver's clock; `None` starts the run at once. If that time has passed, the run still
/// counts from it, and queries due since then are late.
pub type StartGate = Arc<dyn Fn() -> Option<Nanos> + Send + Sync>;

impl RealTime {
    /// Sets a gate that is called before each run: for clients that begin together.
    #[must_use]
    pub fn start(mut self, gate: StartGate) -> Self {
        self.start = Some(gate);
        self
    }

    /// Returns the clock of the driver, which [`StartGate`] times refer to.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Waits for the start of a run and returns its time: now, or the time of the gate.
    pub(super) fn begin(&self) -> Nanos {
        let Some(at) = self.start.as_ref().and_then(|gate| gate()) else {
            return self.clock.now();
        };
        let mut waiter = Waiter::new(self.clock, self.waiting, self.cores);
        loop {
            let now = self.clock.now();
            if now >= at {
                return at;
            }
            if self.monitor.is_aborted() {
                return now;
            }
            waiter.towards(at.min(now + ABORT_NOTICED_WITHIN));
        }
    }
}
