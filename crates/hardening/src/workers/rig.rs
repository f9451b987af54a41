//! The measuring side of a worker: a system in virtual time whose answers depend only on the sample,
//! so that the record of a run does not depend on the worker that plays it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use dyno_loadgen::clock::{Nanos, WallTime};
use dyno_loadgen::drive::sim::VirtualTime;
use dyno_loadgen::drive::{Driver, Job, Process, RunOutcome};
use dyno_loadgen::plan::Library;
use dyno_loadgen::qsl::SampleLibrary;
use dyno_loadgen::record::{Failure, Outcome};
use dyno_loadgen::settings::Scenario;
use dyno_loadgen::sut::{ResponseId, SimulatedCompletion, SimulatedQuery, SimulatedSystem};
use dyno_net::worker::member::{Gate, Instrument, Rig};
use dyno_net::worker::wire::Pair;

use super::case::Trouble;
use super::lie::alter;
use crate::rng::Stream;

/// Sizes of the data set.
pub const SIZE: Library = Library { total: 50, performance: 40 };

/// The data set.
#[derive(Debug)]
pub struct Numbers;

impl SampleLibrary for Numbers {
    fn name(&self) -> &str {
        "numbers"
    }
    fn total_sample_count(&self) -> usize {
        SIZE.total as usize
    }
    fn performance_sample_count(&self) -> usize {
        SIZE.performance as usize
    }
}

/// The system. One sample of 17 fails.
#[derive(Debug, Default)]
pub struct ByIndex {
    events: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
    answered: Vec<(u64, u32)>,
    fails: bool,
}

impl ByIndex {
    /// Returns a system; without failures unless `fails`.
    pub fn new(fails: bool) -> Self {
        Self { fails, ..Self::default() }
    }
}

impl SimulatedSystem for ByIndex {
    fn name(&self) -> &str {
        "by index"
    }
    fn issue(&mut self, now: Nanos, query: &SimulatedQuery<'_>) {
        for (id, &index) in (query.first.0..).zip(query.indices) {
            let at = now + 1_000_000 + 77_777 * u64::from(index);
            self.events.push(Reverse((at, id, index)));
        }
    }
    fn next_event(&self) -> Option<Nanos> {
        self.events.peek().map(|event| event.0.0)
    }
    fn advance(&mut self, now: Nanos, completions: &mut Vec<SimulatedCompletion>) {
        self.answered.clear();
        while self.next_event() == Some(now) {
            let Some(Reverse((_, id, index))) = self.events.pop() else { return };
            let outcome = if self.fails && index % 17 == 3 {
                Outcome::Failed(Failure::TimedOut)
            } else {
                Outcome::Ok { tokens: 0 }
            };
            self.answered.push((id, index));
            let id = ResponseId(id);
            completions.push(SimulatedCompletion { id, first_token_at: None, outcome });
        }
    }
    fn answer(&self, id: ResponseId, data: &mut Vec<u8>) {
        let found = self.answered.iter().find(|(answered, _)| *answered == id.0);
        data.extend(found.map_or(0, |(_, index)| *index).to_le_bytes());
    }
}

/// A worker's rig with a trouble.
#[derive(Debug)]
pub struct TroubledRig {
    /// What is wrong.
    pub trouble: Trouble,
    /// Seed of the details.
    pub details: u64,
    /// Whether some samples fail.
    pub fails: bool,
    /// Set when the worker leaves.
    pub leaves: Arc<AtomicBool>,
    /// Set when a record was altered.
    pub lied: Arc<AtomicBool>,
}

impl TroubledRig {
    fn stream(&self, number: u64) -> Stream {
        Stream::new(self.details, number, 71)
    }

    /// Waits if the worker lags, and leaves if this is the step at which it leaves.
    fn step(&self, number: u64) {
        match self.trouble {
            Trouble::Lagging => pause(self.stream(number).below(60)),
            Trouble::Leaving if self.stream(9).below(4) == number => {
                self.leaves.store(true, Ordering::Relaxed);
                // The worker notices within one of its glances.
                pause(100);
            }
            _ => {}
        }
    }
}

/// Waits without a sleep, which only the driver of Dyno may call.
fn pause(milliseconds: u64) {
    let (_sender, receiver) = mpsc::channel::<()>();
    // Nothing is ever sent.
    let _ = receiver.recv_timeout(Duration::from_millis(milliseconds));
}

impl Rig for TroubledRig {
    fn set_up(&mut self, _options: &[Pair]) -> Result<(), String> {
        self.step(0);
        Ok(())
    }
    fn system_name(&self) -> String {
        "by index".into()
    }
    fn library(&self) -> &dyn SampleLibrary {
        &Numbers
    }
    fn begin(&self, _scenario: Scenario, gate: &Gate) -> Result<Instrument<'_>, String> {
        self.step(1);
        let driver =
            TroubledDriver { rig: self, system: ByIndex::new(self.fails), gate: gate.clone() };
        Ok(Instrument { driver: Box::new(driver), monitor: None })
    }
}

struct TroubledDriver<'a> {
    rig: &'a TroubledRig,
    system: ByIndex,
    gate: Gate,
}

impl Driver for TroubledDriver<'_> {
    fn system_name(&self) -> String {
        self.system.name().into()
    }
    fn now(&self) -> Nanos {
        0
    }
    fn wall_now(&self) -> WallTime {
        WallTime { unix_ns: 0 }
    }
    fn process(&self) -> Process {
        Process::default()
    }
    fn aborted(&self) -> bool {
        false
    }
    fn play(&mut self, job: &Job<'_>) -> RunOutcome {
        self.rig.step(2);
        let _ = self.gate.wait();
        self.rig.step(3);
        let mut driver = VirtualTime::new(&mut self.system, WallTime { unix_ns: 0 });
        let mut played = driver.play(job);
        let is_altered = alter(self.rig.trouble, job, &mut played, &mut self.rig.stream(20));
        self.rig.lied.fetch_or(is_altered, Ordering::Relaxed);
        played
    }
}
