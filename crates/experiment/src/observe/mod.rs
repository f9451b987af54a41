//! Observes this process while a test runs: when it did not run, for how long, and why.
//!
//! A thread beats a hundred times a second. A late beat shows a pause of the process, and the
//! counters of the operating system show the cause: a CPU quota, other programs, or the hypervisor.
//! Without such a cause the process was stopped, for example by a signal.
//! [`crate::gather::observer`] judges the effect of pauses on the samples of a run.

pub mod energy;
mod machine;
pub mod servers;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use dyno_loadgen::clock::{Clock, MILLISECOND, Nanos};
use dyno_loadgen::drive::real::RunAnnouncer;
use dyno_loadgen::rng::Mt19937;
use dyno_results::summary::observer::{Loss, Pause};

use machine::Counters;

/// Mean interval between beats. Each interval is random between half and one and a half of it:
/// otherwise stops at regular times would hit all beats or none.
pub const BEAT: Nanos = 10 * MILLISECOND;
/// Smallest lateness of a beat that is a pause. A busy machine may take this long to wake a thread.
const LEAST_PAUSE: Nanos = 10 * MILLISECOND;
/// Smallest lateness of a beat without a known cause that is a brief stop. On a quiet virtual
/// machine one beat in twenty is 0.6 ms late, and one in two hundred 1.7 ms.
pub const LEAST_STOP: Nanos = 2 * MILLISECOND;
/// Number of beats between two reads of the hypervisor's time, which takes long with many
/// processors.
const BEATS_TO_STEAL: u64 = 100;

/// Observation of this process during a test. Times are ns since the start of its last run.
#[derive(Debug, Clone)]
pub struct Observation {
    /// Clock in which that run began at 0.
    pub clock: Clock,
    /// Start of that run by [`Heart::clock`].
    pub began: Nanos,
    /// Pauses of that run, in order.
    pub pauses: Vec<Pause>,
    /// Beats of that run that fell into a stop too short for a pause: due time and lateness. Beats
    /// are spread evenly over time, so that each stands for [`BEAT`].
    pub brief_stops: Vec<(Nanos, Nanos)>,
    /// How long threads waited for a processor during the test, by name, ns.
    pub run_delay: BTreeMap<String, Nanos>,
    /// How long the control group was throttled, over all processors, ns; `None` if unknown.
    pub throttled: Option<Nanos>,
    /// How much time of all processors the hypervisor took, ns; `None` if unknown.
    pub stolen: Option<Nanos>,
}

/// Late beats, in the clock of their thread.
#[derive(Debug, Default)]
struct Beats {
    pauses: Vec<Pause>,
    brief_stops: Vec<(Nanos, Nanos)>,
}

/// A thread that beats until the test ends.
#[derive(Debug)]
pub struct Heart {
    clock: Clock,
    /// Start of the last run in that clock.
    run_began: Arc<AtomicU64>,
    before: machine::Totals,
    beats: Option<(mpsc::Sender<()>, JoinHandle<Beats>)>,
}

impl Heart {
    /// Starts the observation. If no thread can be started, no pause is observed.
    pub fn begin() -> Self {
        let (clock, counters) = (Clock::start(), Counters::find());
        let before = counters.totals();
        let (sender, is_over) = mpsc::channel();
        let beat = move || beat(clock, &counters, &is_over);
        let thread = std::thread::Builder::new().name("heartbeat".into()).spawn(beat);
        let beats = thread.ok().map(|thread| (sender, thread));
        Self { clock, run_began: Arc::default(), before, beats }
    }

    /// Returns the clock of the observation.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Returns a function that records when each run begins, for
    /// [`dyno_loadgen::drive::real::RealTime::announce`].
    pub fn announce(&self) -> RunAnnouncer {
        let (clock, run_began) = (self.clock, self.run_began.clone());
        Arc::new(move |responder| {
            if let Some(responder) = responder {
                let now = clock.now();
                let began = now.saturating_sub(responder.time_of(&clock, now));
                run_began.store(began, Ordering::Relaxed);
            }
        })
    }

    /// Ends the observation. The observed run began with a ramp of this length, ns, which is left out.
    pub fn end(mut self, ramp: Nanos) -> Observation {
        let began = self.run_began.load(Ordering::Relaxed).saturating_add(ramp);
        let beats = self.beats.take().map(|(running, thread)| {
            drop(running);
            // A panic was already reported on standard error.
            thread.join().unwrap_or_default()
        });
        let Beats { pauses, brief_stops } = beats.unwrap_or_default();
        let after = Counters::find().totals();
        let of_run = |pause: Pause| {
            let end = pause.at_ns + pause.lasted_ns;
            let at_ns = pause.at_ns.max(began);
            let lasted_ns = end.checked_sub(at_ns).filter(|&lasted| lasted > 0)?;
            Some(Pause { at_ns: at_ns - began, lasted_ns, ..pause })
        };
        Observation {
            clock: self.clock.shifted(began),
            began,
            pauses: pauses.into_iter().filter_map(of_run).collect(),
            brief_stops: brief_stops
                .iter()
                .filter_map(|(at, late)| Some((at.checked_sub(began)?, *late)))
                .collect(),
            run_delay: after.run_delay_since(&self.before),
            throttled: after.throttled_since(&self.before),
            stolen: after.stolen_since(&self.before),
        }
    }
}

/// Beats until the other end of the channel is dropped.
fn beat(clock: Clock, counters: &Counters, is_over: &mpsc::Receiver<()>) -> Beats {
    let mut seen = Beats::default();
    let (mut delay, mut throttled) = (machine::own_run_delay(), counters.throttled());
    let mut stolen = machine::stolen();
    let mut beats = 0;
    let mut chance = Mt19937::new(clock.now());
    let mut pause = || BEAT / 2 + (chance.canonical() * BEAT as f64) as Nanos;
    let mut due = clock.now() + pause();
    loop {
        let left = Duration::from_nanos(due.saturating_sub(clock.now()));
        let waited = is_over.recv_timeout(left);
        let now = clock.now();
        beats += 1;
        let late = now.saturating_sub(due);
        let (delay_now, throttled_now) = (machine::own_run_delay(), counters.throttled());
        let since = |now: Option<Nanos>, then: Option<Nanos>| {
            now.zip(then).map_or(0, |(now, then)| now.saturating_sub(then))
        };
        let is_pause = late >= LEAST_PAUSE;
        let counted = since(delay_now, delay) + since(throttled_now, throttled);
        // Without the Linux counters, a late beat may have waited for a processor.
        if !is_pause && delay_now.is_some() && late.saturating_sub(counted) >= LEAST_STOP {
            seen.brief_stops.push((due, late));
        }
        if is_pause || beats % BEATS_TO_STEAL == 0 {
            let stolen_now = machine::stolen();
            if is_pause {
                let loss = loss_of(
                    late,
                    since(throttled_now, throttled),
                    since(delay_now, delay),
                    since(stolen_now, stolen),
                );
                seen.pauses.push(Pause { at_ns: due, lasted_ns: late, loss });
            }
            stolen = stolen_now;
        }
        (delay, throttled) = (delay_now, throttled_now);
        if waited != Err(RecvTimeoutError::Timeout) {
            return seen;
        }
        due = now + pause();
    }
}

/// Returns the cause of a pause from the growth of the system's counters during it: quota, wait for
/// a processor, hypervisor. A counter that explains half of the pause is the cause.
fn loss_of(lasted: Nanos, throttled: Nanos, delay: Nanos, stolen: Nanos) -> Loss {
    let explains = |grown: Nanos| grown >= lasted / 2;
    match () {
        () if explains(throttled) => Loss::Quota,
        () if explains(stolen) => Loss::Hypervisor,
        () if explains(delay) => Loss::Processors,
        () => Loss::Stopped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_explained_by_the_counter_that_grew_with_it() {
        let lasted = 100 * MILLISECOND;
        for (throttled, delay, stolen, expected) in [
            (0, 0, 0, Loss::Stopped),
            (0, 60, 0, Loss::Processors),
            (90, 90, 0, Loss::Quota),
            (0, 90, 70, Loss::Hypervisor),
            (20, 30, 10, Loss::Stopped),
        ] {
            let [throttled, delay, stolen] = [throttled, delay, stolen].map(|ms| ms * MILLISECOND);
            assert_eq!(loss_of(lasted, throttled, delay, stolen), expected);
        }
    }

    #[test]
    fn a_watch_ends_at_once_and_knows_its_threads() {
        let observation = Heart::begin().end(0);
        assert!(observation.pauses.iter().all(|pause| pause.lasted_ns >= LEAST_PAUSE));
        assert_eq!(cfg!(target_os = "linux"), !observation.run_delay.is_empty());
    }
}
