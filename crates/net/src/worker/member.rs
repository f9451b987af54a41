//! The side that joins: it plays its share of each run and sends its record.

use std::fmt;
use std::io;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dyno_loadgen::clock::{Clock, MILLISECOND, Nanos};
use dyno_loadgen::drive::real::{AnswerWindow, Monitor, StartGate};
use dyno_loadgen::drive::{Driver, Job, JobTenant, RunOutcome, TenantOutcome};
use dyno_loadgen::plan::{Library, Plan};
use dyno_loadgen::qsl::SampleLibrary;
use dyno_loadgen::settings::Scenario;
use dyno_loadgen::share::Share;
use dyno_loadgen::trace::LoadedSet;

use super::door::{self, Role};
use super::wire::{
    self, Beat, Body, CHUNK, Chunk, Column, Hello, MOST, MOST_OF_STRANGERS, Pair, Play, Pong,
    Ready, WireError,
};
use super::{columns, plans};

/// Whom to join, and as whom.
#[derive(Debug, Clone)]
pub struct Join {
    /// Such as `host:7700`.
    pub address: String,
    /// Secret of both sides. A worker without one joins coordinators of its machine only.
    pub token: String,
    /// Secret that processes of this machine know, and others do not; `None` if the machine
    /// has none.
    pub machine: Option<String>,
    /// Release of this program.
    pub release: String,
    /// For people.
    pub name: String,
    /// The place that this worker wants, from 1; 0 is any.
    pub seat: u32,
}

/// What a worker measures. The system and its data are its own.
pub trait Rig {
    /// Sets up the system that these options are about.
    ///
    /// # Errors
    /// In words, which the coordinator says.
    fn set_up(&mut self, options: &[Pair]) -> Result<(), String>;
    /// The name of the system.
    fn system_name(&self) -> String;
    /// What the system said of the samples that it failed.
    fn words_of_failure(&self) -> Option<String> {
        None
    }
    /// Its data set.
    fn library(&self) -> &dyn SampleLibrary;
    /// Starts the system for a test.
    ///
    /// # Errors
    /// In words.
    fn begin(&self, scenario: Scenario, gate: &Gate) -> Result<Instrument<'_>, String>;
    /// Returns what the coordinator's side gets of a run besides its record, in a format of its
    /// own. Called after each run.
    fn report(&self, _job: &Job<'_>, _played: &RunOutcome) -> Vec<u8> {
        Vec::new()
    }
}

/// What plays the runs of a test.
pub struct Instrument<'a> {
    /// Asks the [`Gate`] before each run begins.
    pub driver: Box<dyn Driver + 'a>,
    /// Of that driver, if it has one.
    pub monitor: Option<Monitor>,
}

/// Why a worker has nothing more to do, before it was told so.
#[derive(Debug)]
#[non_exhaustive]
pub enum MemberError {
    /// The coordinator cannot be reached.
    Unreachable {
        /// Where.
        address: String,
        /// Why.
        error: io::Error,
    },
    /// It does not know the token.
    NotTheCoordinator,
    /// This worker has no token, and the coordinator has one or is elsewhere.
    NoToken,
    /// The coordinator does not want this worker.
    Refused(String),
    /// The connection ended.
    Gone(WireError),
    /// An order could not be carried out.
    Failed(String),
    /// Somebody ended this worker.
    Interrupted,
}

impl fmt::Display for MemberError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { address, error } => {
                write!(f, "no coordinator can be reached at {address}: {error}")
            }
            Self::NotTheCoordinator => {
                f.write_str("the coordinator does not know this worker's token and is not joined")
            }
            Self::NoToken => f.write_str(
                "this worker has no token: it joins a coordinator only on its own machine, over \
                 loopback, and only if that has no token either",
            ),
            Self::Refused(why) => write!(f, "the coordinator refused this worker: {why}"),
            Self::Gone(error) => write!(f, "the coordinator is gone: {error}"),
            Self::Failed(why) => f.write_str(why),
            Self::Interrupted => f.write_str("this worker was interrupted"),
        }
    }
}

impl std::error::Error for MemberError {}

/// A worker that has joined.
#[derive(Debug)]
pub struct Member {
    share: Share,
    is_local: bool,
    shared: Arc<Shared>,
    orders: Receiver<Result<Body, WireError>>,
}

/// Where a driver waits for the start of its run.
#[derive(Debug, Clone)]
pub struct Gate(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    clock: Clock,
    writer: Mutex<TcpStream>,
    run: Mutex<RunState>,
    changed: Condvar,
    monitor: Mutex<Option<Monitor>>,
}

#[derive(Debug, Default)]
struct RunState {
    start: Option<Nanos>,
    is_aborted: bool,
    late: Nanos,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

const CONNECT: Duration = Duration::from_secs(5);
/// Between two signs of life.
const BEAT: Nanos = 250 * MILLISECOND;
/// How often an interrupt is looked for.
const GLANCE: Duration = Duration::from_millis(50);

impl Gate {
    /// Says that the run is ready, and waits for its start by the member's clock;
    /// `None` if there is none.
    #[must_use]
    pub fn wait(&self) -> Option<Nanos> {
        let shared = &self.0;
        if shared.send(Body::Armed(true)).is_err() {
            return None;
        }
        let mut run = lock(&shared.run);
        while run.start.is_none() && !run.is_aborted {
            run = shared.changed.wait(run).unwrap_or_else(PoisonError::into_inner);
        }
        let start = run.start.filter(|_| !run.is_aborted)?;
        run.late = shared.clock.now().saturating_sub(start);
        Some(start)
    }

    /// For a driver in real time, which has a clock of its own.
    #[must_use]
    pub fn by(&self, clock: Clock) -> StartGate {
        let gate = self.clone();
        Arc::new(move || gate.wait().map(|at| clock.when(&gate.0.clock, at)))
    }
}

impl Shared {
    fn send(&self, body: Body) -> io::Result<()> {
        wire::write(&mut *lock(&self.writer), body)
    }

    /// Tells the coordinator why this worker goes away, ends its run and the connection.
    fn leave(&self, why: &str) {
        // A connection that is gone needs no word.
        let _ = self.send(Body::Refused(why.into()));
        self.abort();
        let _ = lock(&self.writer).shutdown(std::net::Shutdown::Both);
    }

    fn abort(&self) {
        lock(&self.run).is_aborted = true;
        self.changed.notify_all();
        if let Some(monitor) = &*lock(&self.monitor) {
            monitor.abort();
        }
    }

    /// Reads what the coordinator says; answers at once what cannot wait.
    fn hear(&self, mut stream: TcpStream, orders: &Sender<Result<Body, WireError>>) {
        loop {
            let body = match wire::read(&mut stream, MOST) {
                Ok(Body::Ping(asked)) => {
                    let at = self.clock.now();
                    // The next read tells of a connection that is gone.
                    let _ = self.send(Body::Pong(Pong { asked, at }));
                    continue;
                }
                Ok(Body::Start(at)) => {
                    lock(&self.run).start = Some(at);
                    self.changed.notify_all();
                    continue;
                }
                Ok(Body::Abort(_)) => {
                    self.abort();
                    continue;
                }
                // Here and not where it is played: an abort may follow at once.
                Ok(Body::Play(play)) => {
                    *lock(&self.run) = RunState::default();
                    Ok(Body::Play(play))
                }
                other => other,
            };
            let is_over = body.is_err();
            if is_over {
                self.abort();
            }
            if orders.send(body).is_err() || is_over {
                return;
            }
        }
    }

    /// Reports the progress of the run until the worker is done, or leaves when `goes_on` ends.
    fn beat(&self, is_over: &Receiver<()>, goes_on: &(dyn Fn() -> bool + Sync)) {
        let mut last = self.clock.now();
        while is_over.recv_timeout(GLANCE) == Err(RecvTimeoutError::Timeout) {
            if !goes_on() {
                self.leave("it was interrupted");
                return;
            }
            if self.clock.now() < last + BEAT {
                continue;
            }
            last = self.clock.now();
            let progress = lock(&self.monitor).as_ref().and_then(Monitor::progress);
            let beat = match progress {
                Some((issued, completed, now)) => Beat { now, issued, completed },
                None => Beat::default(),
            };
            if self.send(Body::Beat(beat)).is_err() {
                return;
            }
        }
    }
}

impl Member {
    /// Joins a coordinator.
    ///
    /// # Errors
    /// [`MemberError`].
    pub fn join(join: &Join) -> Result<Self, MemberError> {
        let unreachable = |error| MemberError::Unreachable { address: join.address.clone(), error };
        let mut stream = connect(&join.address).map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        stream.set_read_timeout(Some(CONNECT)).map_err(unreachable)?;
        stream.set_write_timeout(Some(CONNECT)).map_err(unreachable)?;
        let is_local = admit(join, &mut stream)?;
        let Body::Welcome(welcome) = heard(&mut stream)? else {
            return Err(MemberError::Gone(WireError::Malformed));
        };
        let silence = Some(Duration::from_nanos(welcome.silence.max(1)));
        stream.set_read_timeout(silence).map_err(unreachable)?;
        stream.set_write_timeout(silence).map_err(unreachable)?;
        let share = Share { index: welcome.index, clients: welcome.of.max(1) };
        let shared = Arc::new(Shared {
            clock: Clock::start(),
            writer: Mutex::new(stream.try_clone().map_err(unreachable)?),
            run: Mutex::default(),
            changed: Condvar::new(),
            monitor: Mutex::default(),
        });
        let (sender, orders) = mpsc::channel();
        let hearing = shared.clone();
        std::thread::spawn(move || hearing.hear(stream, &sender));
        Ok(Self { share, is_local, shared, orders })
    }

    /// The part of the load that this worker has.
    #[must_use]
    pub fn share(&self) -> Share {
        self.share
    }

    /// Whether the coordinator runs on this machine and is reached over loopback.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.is_local
    }

    /// Carries out orders until there are no more, as long as `goes_on` returns true.
    ///
    /// # Errors
    /// [`MemberError`].
    pub fn serve(
        self,
        rig: &mut dyn Rig,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), MemberError> {
        let (beating, is_over) = mpsc::channel::<()>();
        let shared = &self.shared;
        std::thread::scope(|scope| {
            let beat = scope.spawn(move || shared.beat(&is_over, goes_on));
            let served = self.orders(rig, goes_on);
            drop(beating);
            if let Err(error) = &served {
                let _ = self.shared.send(Body::Refused(error.to_string()));
            }
            // It ends within one glance.
            let _ = beat.join();
            let _ = lock(&self.shared.writer).shutdown(std::net::Shutdown::Both);
            match served {
                Err(_) if !goes_on() => Err(MemberError::Interrupted),
                served => served,
            }
        })
    }

    fn orders(&self, rig: &mut dyn Rig, goes_on: &dyn Fn() -> bool) -> Result<(), MemberError> {
        let mut order = self.next(goes_on)?;
        loop {
            order = match order {
                Body::SetUp(set_up) => {
                    rig.set_up(&set_up.options).map_err(MemberError::Failed)?;
                    self.answer(Body::Ready(ready(rig)))?;
                    self.next(goes_on)?
                }
                Body::Begin(begin) => self.test(rig, &begin.scenario, goes_on)?,
                Body::Bye(_) => return Ok(()),
                _ => return Err(MemberError::Gone(WireError::Malformed)),
            };
        }
    }

    /// Plays the runs of a test, and returns the order after them.
    fn test(
        &self,
        rig: &dyn Rig,
        scenario: &str,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Body, MemberError> {
        let named = Scenario::ALL.iter().copied().find(|of| of.name() == scenario);
        let scenario = named.ok_or(MemberError::Gone(WireError::Malformed))?;
        let gate = Gate(self.shared.clone());
        let Instrument { mut driver, monitor } =
            rig.begin(scenario, &gate).map_err(MemberError::Failed)?;
        *lock(&self.shared.monitor) = monitor;
        self.answer(Body::Done(true))?;
        loop {
            match self.next(goes_on)? {
                Body::Load(set) => {
                    rig.library().load(&set.samples);
                    self.answer(Body::Done(true))?;
                }
                Body::Unload(set) => {
                    rig.library().unload(&set.samples);
                    self.answer(Body::Done(true))?;
                }
                Body::Play(play) => self.play(rig, &mut *driver, &play)?,
                other => {
                    *lock(&self.shared.monitor) = None;
                    return Ok(other);
                }
            }
        }
    }

    fn play(&self, rig: &dyn Rig, driver: &mut dyn Driver, play: &Play) -> Result<(), MemberError> {
        let (plans, sets) = self.understood(rig, play)?;
        let tenants = plans.into_iter().zip(&sets).zip(&play.tenants);
        let job = Job {
            tenants: tenants
                .map(|((plan, set), told)| JobTenant {
                    plan,
                    set,
                    samples_before: told.samples_before,
                })
                .collect(),
            accuracy: play.accuracy,
            share: self.share,
            epoch: u16::try_from(play.epoch).unwrap_or(1),
        };
        let played = driver.play(&job);
        let found = lock(&self.shared.monitor).as_ref().and_then(Monitor::failing);
        let failing = found.map(|found| wire::Failing {
            tenant: u32::try_from(found.tenant).unwrap_or(u32::MAX),
            is_last: found.window == AnswerWindow::Last,
            failed: found.failed,
            answers: found.answers,
            words: rig.words_of_failure(),
        });
        self.send(&played, rig.report(&job, &played), failing)
    }

    /// The plans and sets of a run, if this worker comes to the same ones.
    fn understood(
        &self,
        rig: &dyn Rig,
        play: &Play,
    ) -> Result<(Vec<Arc<Plan>>, Vec<LoadedSet>), MemberError> {
        let library = size(rig.library());
        let (mut plans, mut sets) = (Vec::new(), Vec::new());
        for told in &play.tenants {
            let plan = plans::plan(&told.settings, told.load, library, &told.plan_hash)
                .map_err(|error| MemberError::Failed(error.to_string()))?;
            plans.push(Arc::new(plan));
            let samples = told.set.clone();
            let end = usize::try_from(told.set_end).unwrap_or(usize::MAX).min(samples.len());
            if samples.iter().any(|&sample| u64::from(sample) >= library.total) {
                return Err(MemberError::Gone(WireError::Malformed));
            }
            sets.push(LoadedSet { samples, end });
        }
        if plans.is_empty() {
            return Err(MemberError::Gone(WireError::Malformed));
        }
        Ok((plans, sets))
    }

    fn send(
        &self,
        played: &RunOutcome,
        report: Vec<u8>,
        failing: Option<wire::Failing>,
    ) -> Result<(), MemberError> {
        let of_tenant = |(tenant, part): (u32, &TenantOutcome)| {
            columns::columns(&part.record).into_iter().map(move |column| (tenant, column))
        };
        let columns = (0..).zip(&played.tenants).flat_map(of_tenant);
        for (tenant, (column, bytes)) in columns.chain([(0, (Column::Report, report))]) {
            for bytes in bytes.chunks(CHUNK) {
                let (column, bytes) = (column as i32, bytes.to_vec());
                self.answer(Body::Chunk(Chunk { tenant, column, bytes }))?;
            }
        }
        self.answer(Body::Played(wire::Played {
            tenants: played.tenants.iter().map(columns::told).collect(),
            error: played.error.clone(),
            late: lock(&self.shared.run).late,
            lasted: played.finished_at.saturating_sub(played.started_at),
            failing,
        }))
    }

    fn answer(&self, body: Body) -> Result<(), MemberError> {
        self.shared.send(body).map_err(|error| MemberError::Gone(WireError::Io(error)))
    }

    fn next(&self, goes_on: &dyn Fn() -> bool) -> Result<Body, MemberError> {
        loop {
            match self.orders.recv_timeout(GLANCE) {
                Ok(Ok(body)) => return Ok(body),
                Ok(Err(error)) => return Err(MemberError::Gone(error)),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(MemberError::Gone(WireError::Closed));
                }
                Err(RecvTimeoutError::Timeout) if !goes_on() => {
                    return Err(MemberError::Interrupted);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

/// Exchanges proofs with the coordinator. Returns whether it runs on this machine.
fn admit(join: &Join, stream: &mut TcpStream) -> Result<bool, MemberError> {
    let unreachable = |error| MemberError::Unreachable { address: join.address.clone(), error };
    let own = door::nonce();
    let hello = Hello {
        protocol: wire::PROTOCOL,
        release: join.release.clone(),
        nonce: own.clone(),
        name: join.name.clone(),
        seat: join.seat,
    };
    wire::write(stream, Body::Hello(hello)).map_err(unreachable)?;
    let Body::Challenge(challenge) = heard(stream)? else {
        return Err(MemberError::Gone(WireError::Malformed));
    };
    let nonces = [&own[..], &challenge.nonce[..]];
    let is_neighbor = match &join.machine {
        Some(machine) => {
            let key = door::machine_key(machine);
            door::is_proof(&key, Role::Coordinator, nonces, &challenge.machine)
        }
        // The addresses are all there is to go by.
        None => true,
    };
    let is_local = is_neighbor && door::is_loopback(stream);
    let key = door::key(&join.token, join.machine.as_deref());
    let is_known = door::is_proof(&key, Role::Coordinator, nonces, &challenge.proof);
    let problem = match join.token.is_empty() {
        true if !(is_known && is_local) => MemberError::NoToken,
        false if !is_known => MemberError::NotTheCoordinator,
        _ => {
            let proof = door::proof(&key, Role::Worker, nonces);
            wire::write(stream, Body::Proof(proof)).map_err(unreachable)?;
            return Ok(is_local);
        }
    };
    // It need not wait for a worker that does not come.
    let _ = wire::write(stream, Body::Refused(problem.to_string()));
    Err(problem)
}

/// The next message of the coordinator.
fn heard(stream: &mut TcpStream) -> Result<Body, MemberError> {
    match wire::read(stream, MOST_OF_STRANGERS) {
        Ok(Body::Refused(why)) => Err(MemberError::Refused(wire::plain(&why))),
        Ok(body) => Ok(body),
        Err(error) => Err(MemberError::Gone(error)),
    }
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn size(library: &dyn SampleLibrary) -> Library {
    Library {
        total: library.total_sample_count() as u64,
        performance: library.performance_sample_count() as u64,
    }
}

fn ready(rig: &dyn Rig) -> Ready {
    let library = rig.library();
    let Library { total, performance } = size(library);
    let (system, library) = (rig.system_name(), library.name().to_string());
    Ready { system, library, total, performance }
}
