//! When a run begins: at once, or when somebody says so.

use std::sync::Arc;

use super::wait::Waiter;
use super::{ABORT_NOTICED_WITHIN, RealTime};
use crate::clock::{Clock, Nanos};

/// Asked when a run is ready to begin: says when by the driver's clock it does,
/// once that is known; `None` if it does not. A time that is over is that of the
/// run's start all the same, and what was due since then is late.
pub type StartGate = Arc<dyn Fn() -> Option<Nanos> + Send + Sync>;

impl RealTime {
    /// Asks this when each run begins: for clients that begin together.
    #[must_use]
    pub fn start(mut self, gate: StartGate) -> Self {
        self.start = Some(gate);
        self
    }

    /// The clock by which a [`StartGate`] tells times.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// When the run that is ready begins: now, or when the gate says.
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
