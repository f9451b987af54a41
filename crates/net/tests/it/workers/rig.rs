//! Workers in this process whose system answers in virtual time, by what the
//! sample is, so that a run comes to the same bytes whoever plays it.

use std::collections::BinaryHeap;
use std::net::SocketAddr;
use std::thread::JoinHandle;

use dyno_loadgen::clock::{Clock, Nanos, SECOND, WallTime};
use dyno_loadgen::drive::real::RealTime;
use dyno_loadgen::drive::sim::VirtualTime;
use dyno_loadgen::drive::{Driver, Job, Process, RunOutcome};
use dyno_loadgen::plan::{Library, Plan};
use dyno_loadgen::qsl::SampleLibrary;
use dyno_loadgen::record::{Failure, Outcome};
use dyno_loadgen::run::{RecordRetention, Tenant, TestLog, run};
use dyno_loadgen::settings::{Scenario, TestSettings};
use dyno_loadgen::sut::{ResponseId, SimulatedCompletion, SimulatedQuery, SimulatedSystem};
use dyno_net::worker::coordinator::{Coordinator, ListenSettings, WorkerListener};
use dyno_net::worker::member::{Gate, Instrument, JoinSettings, Member, MemberError, Rig};
use dyno_net::worker::wire::Pair;
use dyno_sut::null::Null;

pub const SIZE: Library = Library { total: 50, performance: 40 };

pub struct Numbers;

impl SampleLibrary for Numbers {
    fn name(&self) -> &str {
        "numbers"
    }
    fn total_sample_count(&self) -> usize {
        50
    }
    fn performance_sample_count(&self) -> usize {
        40
    }
}

#[derive(Default)]
pub struct ByIndex {
    events: BinaryHeap<std::cmp::Reverse<(Nanos, u64, u32)>>,
    answered: Vec<(u64, u32)>,
}

impl SimulatedSystem for ByIndex {
    fn name(&self) -> &str {
        "by index"
    }
    fn issue(&mut self, now: Nanos, query: &SimulatedQuery<'_>) {
        for (i, &index) in (0..).zip(query.indices) {
            let at = now + 1_000_000 + 77_777 * u64::from(index);
            self.events.push(std::cmp::Reverse((at, query.first.0 + i, index)));
        }
    }
    fn next_event(&self) -> Option<Nanos> {
        self.events.peek().map(|event| event.0.0)
    }
    fn advance(&mut self, now: Nanos, completions: &mut Vec<SimulatedCompletion>) {
        self.answered.clear();
        while self.next_event() == Some(now) {
            let Some(std::cmp::Reverse((_, id, index))) = self.events.pop() else { return };
            let outcome = match index % 17 {
                3 => Outcome::Failed(Failure::TimedOut),
                _ => Outcome::Ok { tokens: 0 },
            };
            self.answered.push((id, index));
            completions.push(SimulatedCompletion {
                id: ResponseId(id),
                first_token_at: None,
                outcome,
            });
        }
    }
    fn answer(&self, id: ResponseId, data: &mut Vec<u8>) {
        let index = self.answered.iter().find(|(answered, _)| *answered == id.0).unwrap().1;
        data.extend(index.to_le_bytes());
    }
}

/// In virtual time, once the gate opens; or the null system in real time.
pub enum Time {
    Virtual,
    Real,
}

pub struct TestRig(pub Time);

struct Gated(ByIndex, Gate);

impl Driver for Gated {
    fn system_name(&self) -> String {
        self.0.name().into()
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
        let _ = self.1.wait();
        VirtualTime::new(&mut self.0, WallTime { unix_ns: 0 }).play(job)
    }
}

impl Rig for TestRig {
    fn set_up(&mut self, options: &[Pair]) -> Result<(), String> {
        match options.first() {
            Some(pair) => Err(format!("there is no {}", pair.value)),
            None => Ok(()),
        }
    }
    fn system_name(&self) -> String {
        "by index".into()
    }
    fn library(&self) -> &dyn SampleLibrary {
        &Numbers
    }
    /// The samples of the first tenant.
    fn report(&self, _job: &Job<'_>, played: &RunOutcome) -> Vec<u8> {
        let indices = played.tenants[0].record.indices.iter();
        indices.flat_map(|index| index.to_le_bytes()).collect()
    }
    fn begin(&self, _scenario: Scenario, gate: &Gate) -> Result<Instrument<'_>, String> {
        Ok(match self.0 {
            Time::Virtual => Instrument {
                driver: Box::new(Gated(ByIndex::default(), gate.clone())),
                monitor: None,
            },
            Time::Real => {
                let driver = RealTime::new(std::sync::Arc::new(Null));
                let clock = driver.clock();
                let monitor = Some(driver.monitor());
                Instrument { driver: Box::new(driver.start(gate.by(clock))), monitor }
            }
        })
    }
}

pub fn listen(workers: u32) -> ListenSettings {
    ListenSettings {
        address: "127.0.0.1:0".into(),
        workers,
        token: "open sesame".into(),
        machine: None,
        release: "1.2.3".into(),
        silence: 30 * SECOND,
    }
}

pub fn join(address: SocketAddr) -> JoinSettings {
    JoinSettings {
        address: address.to_string(),
        token: "open sesame".into(),
        machine: None,
        release: "1.2.3".into(),
        name: "a thread".into(),
        seat: 0,
    }
}

pub type Worker = JoinHandle<Result<(), MemberError>>;

pub fn worker(address: SocketAddr, played: Time) -> Worker {
    std::thread::spawn(move || Member::join(&join(address))?.serve(&mut TestRig(played), &|| true))
}

/// Tests are patient, and never wait for ever.
pub fn patience() -> impl Fn() -> bool {
    let clock = Clock::start();
    move || clock.now() < 60 * SECOND
}

pub fn gathered(workers: u32, played: fn() -> Time) -> (Coordinator, Vec<Worker>) {
    let listening = WorkerListener::begin(listen(workers)).unwrap();
    let address = listening.address();
    let threads = (0..workers).map(|_| worker(address, played())).collect();
    (listening.gather(&patience(), &mut |_| {}).unwrap(), threads)
}

/// Returns a tenant with a ramp of this length before its load; 0 without one.
pub fn tenant<'a>(
    settings: &TestSettings,
    ramp: Nanos,
    library: &'a dyn SampleLibrary,
) -> Tenant<'a> {
    let plan = Plan::resolve(settings, SIZE).unwrap();
    let plan = if ramp > 0 { plan.with_ramp(ramp).unwrap() } else { plan };
    Tenant { settings: settings.clone().into(), plan, library, messages: Vec::new() }
}

pub fn played(coordinator: &Coordinator, settings: &TestSettings) -> TestLog {
    played_with_ramp(coordinator, settings, 0)
}

pub fn played_with_ramp(
    coordinator: &Coordinator,
    settings: &TestSettings,
    ramp: Nanos,
) -> TestLog {
    let library = coordinator.library(&Numbers);
    let system = ("by index", SIZE);
    let mut driver = coordinator.begin(system, settings.scenario, vec![settings.clone()]);
    let tenants = [tenant(settings, ramp, &library)];
    run(&mut driver, &tenants, RecordRetention::Every, &mut |_| {}).swap_remove(0)
}
