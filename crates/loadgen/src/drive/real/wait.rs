//! Waiting in real time: sleep until shortly before the time, then spin; for completions spin
//! briefly, then park.

use std::time::Duration;

use crate::clock::{Clock, Nanos};
use crate::sync::thread;

/// How the issuing thread waits for the time of the next query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WaitStrategy {
    /// Spin if the process has more than one core, otherwise sleep only.
    #[default]
    Auto,
    /// Sleep until a guard time before the due time, then spin: least lateness, but needs a core.
    Spin,
    /// Sleep only: a few microseconds late, but leaves the core to the system.
    Sleep,
}

/// Initial guard: sleeps end this long before the due time, in ns. It adapts to observed overshoot.
const FIRST_GUARD: Nanos = 60_000;
const LEAST_GUARD: Nanos = 20_000;
const MOST_GUARD: Nanos = 500_000;

/// Maximum spin for a completion before the thread parks, in ns.
const MOST_SPIN: Nanos = 100_000;
const LEAST_SPIN: Nanos = 200;
const FIRST_SPIN: Nanos = 20_000;

const FIRST_NAP: Nanos = 20_000;
const LONGEST_NAP: Nanos = 1_000_000;

/// Guard that sets the timer slack of its thread to 1 ns, so that sleeps end on time.
///
/// The default timer slack of 50 us would be added to every sleep. The previous slack is restored
/// on drop, because the thread belongs to the caller.
pub(super) struct PunctualThread {
    #[cfg(target_os = "linux")]
    slack: Option<std::num::NonZeroU64>,
}

impl PunctualThread {
    #[cfg(target_os = "linux")]
    pub(super) fn enter() -> Self {
        let slack = rustix::thread::current_timer_slack().ok().and_then(std::num::NonZeroU64::new);
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        Self { slack }
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn enter() -> Self {
        Self {}
    }
}

impl Drop for PunctualThread {
    fn drop(&mut self) {
        #[cfg(target_os = "linux")]
        let _ = rustix::thread::set_current_timer_slack(self.slack);
    }
}

/// Waits on behalf of one issuing thread.
#[derive(Debug, Clone)]
pub(super) struct Waiter {
    clock: Clock,
    spins: bool,
    /// Time before the due time at which a sleep ends.
    guard: Nanos,
    /// Time to spin for a completion before parking.
    spin: Nanos,
    /// Length of the next nap.
    nap: Nanos,
}

impl Waiter {
    /// Returns a waiter that uses this clock.
    pub(super) fn new(clock: Clock, waiting: WaitStrategy, cores: usize) -> Self {
        let spins = match waiting {
            WaitStrategy::Auto => cores > 1,
            WaitStrategy::Spin => true,
            WaitStrategy::Sleep => false,
        };
        Self {
            clock,
            spins,
            guard: FIRST_GUARD,
            spin: if spins { FIRST_SPIN } else { LEAST_SPIN },
            nap: FIRST_NAP,
        }
    }

    /// Waits for `time` in two stages and returns the current time: the first call sleeps until the
    /// guard time before it, the next call spins until it.
    ///
    /// Data that the caller uses between the two stages is in the caches when the time comes.
    #[expect(clippy::disallowed_methods, reason = "the driver waits here")]
    pub(super) fn towards(&mut self, time: Nanos) -> Nanos {
        let mut now = self.clock.now();
        let guard = if self.spins { self.guard } else { 0 };
        if time > now + guard {
            std::thread::sleep(Duration::from_nanos(time - guard - now));
            now = self.clock.now();
            self.adapt_guard(now, time);
            return now;
        }
        while now < time {
            std::hint::spin_loop();
            now = self.clock.now();
        }
        now
    }

    /// Adapts the guard so that about one sleep in a thousand overshoots it: up by a tenth after an
    /// overshoot, down by a ten-thousandth otherwise.
    fn adapt_guard(&mut self, woken: Nanos, time: Nanos) {
        if woken > time {
            self.guard = (self.guard + self.guard / 10).min(MOST_GUARD);
        } else {
            self.guard = (self.guard - self.guard / 10_000).max(LEAST_GUARD);
        }
    }

    /// Sleeps while the system completes the issued samples. Each nap is a quarter longer than the
    /// last, up to 1 ms, so that the end is noticed within a fifth of the total wait.
    #[expect(clippy::disallowed_methods, reason = "the driver waits here")]
    pub(super) fn nap(&mut self, until: Option<Nanos>) {
        let left = until.map_or(self.nap, |until| until.saturating_sub(self.clock.now()));
        std::thread::sleep(Duration::from_nanos(self.nap.min(left)));
        self.nap = (self.nap + self.nap / 4).min(LONGEST_NAP);
    }

    /// Returns when `ready` holds or `until` has passed, and after [`LONGEST_PARK`] at the latest,
    /// so that the caller notices an abort. `announce` is called before each park and before
    /// `ready` is checked again; completing threads then wake this thread.
    pub(super) fn completion(
        &mut self,
        until: Option<Nanos>,
        mut ready: impl FnMut() -> bool,
        announce: impl Fn(),
        withdraw: impl Fn(),
    ) {
        let mut rounds = 0_u32;
        // Completions during the issue call cost no clock read.
        let mut is_ready = ready();
        let begin = if is_ready { 0 } else { self.clock.now() };
        loop {
            if is_ready {
                // The spin succeeded: allow a longer one next time.
                self.spin = (self.spin * 2).min(if self.spins { MOST_SPIN } else { LEAST_SPIN });
                return;
            }
            std::hint::spin_loop();
            is_ready = ready();
            rounds += 1;
            if rounds.is_multiple_of(32) && self.clock.now() - begin > self.spin {
                break;
            }
        }
        self.spin = (self.spin / 2).max(LEAST_SPIN);
        // A limit that also holds if this thread is often woken without a completion.
        let latest = until.unwrap_or(Nanos::MAX).min(begin + LONGEST_PARK);
        self.park(latest, ready, announce, withdraw);
    }

    /// Parks until `ready` holds or `latest` has passed.
    pub(super) fn park(
        &self,
        latest: Nanos,
        mut ready: impl FnMut() -> bool,
        announce: impl Fn(),
        withdraw: impl Fn(),
    ) {
        loop {
            // Announced before each park: a thread that wakes this one withdraws the
            // announcement, and may have completed nothing (for example a duplicate).
            announce();
            let now = self.clock.now();
            if ready() || now >= latest {
                break;
            }
            thread::park_timeout(Duration::from_nanos(latest - now));
        }
        withdraw();
    }
}

/// Longest park, in ns: the latest time in which an abort is noticed.
const LONGEST_PARK: Nanos = 100_000_000;

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn every_park_is_announced_even_after_a_wake_up_for_nothing() {
        let mut waiter = Waiter::new(Clock::start(), WaitStrategy::Sleep, 1);
        let (announced, wakes) = (Cell::new(false), Cell::new(0));
        let ready = || {
            // What a completing thread does that changes nothing for the waiter:
            // it takes the announcement back and wakes.
            if announced.replace(false) {
                wakes.set(wakes.get() + 1);
                std::thread::current().unpark();
            }
            wakes.get() == 3
        };
        waiter.completion(None, ready, || announced.set(true), || ());
        assert_eq!(wakes.get(), 3);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_gets_its_timer_slack_back() {
        use rustix::thread::{current_timer_slack, set_current_timer_slack};
        set_current_timer_slack(std::num::NonZeroU64::new(70_000)).unwrap();
        let punctual = PunctualThread::enter();
        assert_eq!(current_timer_slack(), Ok(1));
        drop(punctual);
        assert_eq!(current_timer_slack(), Ok(70_000));
    }

    #[test]
    fn wake_ups_for_nothing_do_not_keep_the_caller_from_an_abort() {
        let mut waiter = Waiter::new(Clock::start(), WaitStrategy::Sleep, 1);
        let looks = Cell::new(0_u64);
        let ready = || {
            looks.set(looks.get() + 1);
            assert!(looks.get() < 100_000_000, "the wait goes on for ever");
            std::thread::current().unpark();
            false
        };
        waiter.completion(None, ready, || (), || ());
        assert!(looks.get() > 1);
    }
}
