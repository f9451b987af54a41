//! The worker, which executes its share of each run and sends its record.

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

use super::channel::{Channel, ChannelReader};
use super::door::{self, Role};
use super::plans::{Additions, PlannedSessions};
use super::wire::{
    self, Beat, Body, CHUNK, Chunk, Column, Hello, MOST, MOST_OF_STRANGERS, Pair, Play, Pong,
    Ready, WireError,
};
use super::{columns, plans};

/// Settings of the joining side.
#[derive(Debug, Clone)]
pub struct JoinSettings {
    /// Address such as `host:7700`.
    pub address: String,
    /// Secret of both sides. If it is empty, the worker joins only coordinators of its user and machine.
    pub token: String,
    /// Secret that only processes on this machine know; `None` if the machine has none.
    pub machine: Option<String>,
    /// Release of this program.
    pub release: String,
    /// Display name.
    pub name: String,
    /// Requested seat, from 1; 0 means any.
    pub seat: u32,
}

/// Measuring side of a worker. Its system and data are its own.
pub trait Rig {
    /// Sets up the system of these options.
    ///
    /// # Errors
    /// A message, which the coordinator reports.
    fn set_up(&mut self, options: &[Pair]) -> Result<(), String>;
    /// Returns the name of the system.
    fn system_name(&self) -> String;
    /// Returns the system's message about failed samples.
    fn words_of_failure(&self) -> Option<String> {
        None
    }
    /// Returns the data set.
    fn library(&self) -> &dyn SampleLibrary;
    /// Returns the sessions that performance runs of the system play; `None` if queries are
    /// independent.
    fn sessions(&self) -> Option<PlannedSessions> {
        None
    }
    /// Starts the system for a test.
    ///
    /// # Errors
    /// A message.
    fn begin(&self, scenario: Scenario, gate: &Gate) -> Result<Instrument<'_>, String>;
    /// Returns data for the coordinator besides the record of a run, in a format of its own. Called
    /// after each run.
    fn report(&self, _job: &Job<'_>, _played: &RunOutcome) -> Vec<u8> {
        Vec::new()
    }
}

/// Driver of the runs of a test.
pub struct Instrument<'a> {
    /// Waits for the [`Gate`] before each run.
    pub driver: Box<dyn Driver + 'a>,
    /// Monitor of the driver, if it has one.
    pub monitor: Option<Monitor>,
}

/// Reason why a worker stopped without an order.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemberError {
    /// The coordinator cannot be reached.
    #[error("cannot reach a coordinator at {address}: {error}")]
    Unreachable {
        /// The address.
        address: String,
        /// The error.
        error: io::Error,
    },
    /// What listens at the address does not speak TLS 1.3.
    #[error(
        "the listener is not a coordinator of this release: the connection cannot be encrypted \
         ({0})"
    )]
    NotEncrypted(io::Error),
    /// The peer does not know the token.
    #[error("the coordinator does not have this worker's token; not joined")]
    NotTheCoordinator,
    /// This worker has no token, and the coordinator has one, runs on another machine or belongs to
    /// another user.
    #[error(
        "this worker has no token; without tokens both must belong to one user of one machine and \
         use loopback"
    )]
    NoToken,
    /// The coordinator refused this worker.
    #[error("the coordinator refused this worker: {0}")]
    Refused(String),
    /// The connection ended.
    #[error("the connection to the coordinator was lost: {0}")]
    Gone(WireError),
    /// An order failed.
    #[error("{0}")]
    Failed(String),
    /// The worker was interrupted.
    #[error("this worker was interrupted")]
    Interrupted,
}

/// A worker that has joined.
#[derive(Debug)]
pub struct Member {
    share: Share,
    is_local: bool,
    shared: Arc<MemberState>,
    orders: Receiver<Result<Body, WireError>>,
}

/// Gate at which a driver waits for the start of its run.
#[derive(Debug, Clone)]
pub struct Gate(Arc<MemberState>);

#[derive(Debug)]
struct MemberState {
    clock: Clock,
    channel: Arc<Channel>,
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const CONNECT: Duration = Duration::from_secs(5);
/// Period of heartbeats.
const BEAT: Nanos = 250 * MILLISECOND;
/// Period of checks for an interrupt.
const GLANCE: Duration = Duration::from_millis(50);

impl Gate {
    /// Reports that the run is ready, and returns its start by the member's clock; `None` if it
    /// does not start.
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

    /// Returns a gate for a real-time driver, which has its own clock.
    pub fn by(&self, clock: Clock) -> StartGate {
        let gate = self.clone();
        Arc::new(move || gate.wait().map(|at| clock.when(&gate.0.clock, at)))
    }
}

impl MemberState {
    fn send(&self, body: Body) -> io::Result<()> {
        wire::send(&self.channel, body)
    }

    /// Reports why this worker leaves, and ends its run and the connection.
    fn leave(&self, why: &str) {
        // The message may fail if the connection is gone.
        let _ = self.send(Body::Refused(why.into()));
        self.abort();
        self.channel.close();
    }

    fn abort(&self) {
        lock(&self.run).is_aborted = true;
        self.changed.notify_all();
        if let Some(monitor) = &*lock(&self.monitor) {
            monitor.abort();
        }
    }

    /// Reads messages of the coordinator and answers urgent ones at once.
    fn hear(&self, mut reader: ChannelReader, orders: &Sender<Result<Body, WireError>>) {
        loop {
            let body = match wire::read(&mut reader, MOST) {
                Ok(Body::Ping(asked)) => {
                    let at = self.clock.now();
                    // The next read reports a lost connection.
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
                // Here and not in the thread that executes it: an abort may follow at once.
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

    /// Reports the progress of the run until the worker is done, or leaves when `goes_on` returns
    /// false.
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
    pub fn join(join: &JoinSettings) -> Result<Self, MemberError> {
        let unreachable = |error| MemberError::Unreachable { address: join.address.clone(), error };
        let stream = connect(&join.address).map_err(unreachable)?;
        let (channel, mut reader) =
            Channel::connect(stream, CONNECT).map_err(|error| no_handshake(join, error))?;
        let is_local = admit(join, &channel, &mut reader)?;
        let Body::Welcome(welcome) = receive(&mut reader)? else {
            return Err(MemberError::Gone(WireError::Malformed));
        };
        let silence = Duration::from_nanos(welcome.silence.max(1));
        reader.wait_for_each(silence).map_err(unreachable)?;
        let share = Share { index: welcome.index, clients: welcome.of.max(1) };
        let shared = Arc::new(MemberState {
            clock: Clock::start(),
            channel,
            run: Mutex::default(),
            changed: Condvar::new(),
            monitor: Mutex::default(),
        });
        let (sender, orders) = mpsc::channel();
        let hearing = shared.clone();
        super::start(move || hearing.hear(reader, &sender)).map_err(|error| no_thread(&error))?;
        Ok(Self { share, is_local, shared, orders })
    }

    /// Returns this worker's share of the load.
    #[must_use]
    pub fn share(&self) -> Share {
        self.share
    }

    /// Returns whether the coordinator belongs to this worker's user, runs on this machine and is
    /// reached over loopback.
    pub fn is_local(&self) -> bool {
        self.is_local
    }

    /// Executes orders until there are no more, as long as `goes_on` returns true.
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
            let beat = std::thread::Builder::new()
                .spawn_scoped(scope, move || shared.beat(&is_over, goes_on))
                .map_err(|error| no_thread(&error))?;
            let served = self.orders(rig, goes_on);
            drop(beating);
            if let Err(error) = &served {
                let _ = self.shared.send(Body::Refused(error.to_string()));
            }
            // It ends within one glance.
            let _ = beat.join();
            self.shared.channel.close();
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

    /// Executes the runs of a test, and returns the order after them.
    fn test(
        &self,
        rig: &dyn Rig,
        scenario: &str,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Body, MemberError> {
        let named = Scenario::ALL.iter().copied().find(|known| known.name() == scenario);
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
        let (plans, sets) = self.resolved_plans(rig, play)?;
        let tenants = plans.into_iter().zip(&sets).zip(&play.tenants);
        let job = Job {
            tenants: tenants
                .map(|((plan, set), sent)| JobTenant {
                    plan,
                    set,
                    samples_before: sent.samples_before,
                })
                .collect(),
            accuracy: play.accuracy,
            share: self.share,
            epoch: u16::try_from(play.epoch).unwrap_or(1),
        };
        let played = driver.play(&job);
        let found = lock(&self.shared.monitor).as_ref().and_then(Monitor::failing);
        let failing = found.map(|found| wire::FailingWindow {
            tenant: u32::try_from(found.tenant).unwrap_or(u32::MAX),
            is_last: found.window == AnswerWindow::Last,
            failed: found.failed,
            answers: found.answers,
            words: rig.words_of_failure(),
        });
        self.send(&played, rig.report(&job, &played), failing)
    }

    /// Returns the plans and sets of a run, if this worker derives equal ones.
    fn resolved_plans(
        &self,
        rig: &dyn Rig,
        play: &Play,
    ) -> Result<(Vec<Arc<Plan>>, Vec<LoadedSet>), MemberError> {
        let library = size(rig.library());
        let (mut plans, mut sets) = (Vec::new(), Vec::new());
        for sent in &play.tenants {
            let sessions = if sent.has_sessions { rig.sessions() } else { None };
            let additions = Additions { ramp: sent.ramp, sessions };
            let plan = plans::plan(&sent.settings, sent.load, &additions, library, &sent.plan_hash)
                .map_err(|error| MemberError::Failed(error.to_string()))?;
            plans.push(Arc::new(plan));
            let samples = sent.set.clone();
            let end = usize::try_from(sent.set_end).unwrap_or(usize::MAX).min(samples.len());
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
        failing: Option<wire::FailingWindow>,
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
        self.answer(Body::Played(wire::PlayReport {
            tenants: played.tenants.iter().map(columns::tenant_report).collect(),
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

/// Exchanges proofs with the coordinator. Returns whether it is one of this user on this machine.
fn admit(
    join: &JoinSettings,
    channel: &Channel,
    reader: &mut ChannelReader,
) -> Result<bool, MemberError> {
    let unreachable = |error| MemberError::Unreachable { address: join.address.clone(), error };
    let own = door::nonce();
    let hello = Hello {
        protocol: wire::PROTOCOL,
        release: join.release.clone(),
        nonce: own.clone(),
        name: join.name.clone(),
        seat: join.seat,
    };
    wire::send(channel, Body::Hello(hello)).map_err(unreachable)?;
    let Body::Challenge(challenge) = receive(reader)? else {
        return Err(MemberError::Gone(WireError::Malformed));
    };
    let binding = channel.binding();
    let session = [&own[..], &challenge.nonce[..], &binding[..]];
    let is_neighbor = match &join.machine {
        Some(machine) => {
            let key = door::machine_key(machine);
            door::is_proof(&key, Role::Coordinator, session, &challenge.machine)
        }
        // Only the addresses are available for the decision.
        None => true,
    };
    let is_local = is_neighbor && door::is_local(channel.socket());
    let key = door::key(&join.token, join.machine.as_deref());
    let is_known = door::is_proof(&key, Role::Coordinator, session, &challenge.proof);
    let problem = match join.token.is_empty() {
        true if !(is_known && is_local) => MemberError::NoToken,
        false if !is_known => MemberError::NotTheCoordinator,
        _ => {
            let proof = door::proof(&key, Role::Worker, session);
            wire::send(channel, Body::Proof(proof)).map_err(unreachable)?;
            return Ok(is_local);
        }
    };
    // The coordinator then need not wait for this worker.
    let _ = wire::send(channel, Body::Refused(problem.to_string()));
    Err(problem)
}

/// Receives the next message of the coordinator.
fn receive(reader: &mut ChannelReader) -> Result<Body, MemberError> {
    match wire::read(reader, MOST_OF_STRANGERS) {
        Ok(Body::Refused(why)) => Err(MemberError::Refused(wire::plain(&why))),
        Ok(body) => Ok(body),
        Err(error) => Err(MemberError::Gone(error)),
    }
}

fn no_thread(error: &io::Error) -> MemberError {
    MemberError::Failed(format!("cannot start a thread: {error}"))
}

/// Returns the error of a connection that cannot be encrypted. Where only a port forwarder accepts
/// it, the coordinator behind it may not listen yet.
fn no_handshake(join: &JoinSettings, error: io::Error) -> MemberError {
    let error = match error.kind() {
        io::ErrorKind::InvalidData => return MemberError::NotEncrypted(error),
        io::ErrorKind::UnexpectedEof => {
            io::Error::new(error.kind(), "the listener closed the connection")
        }
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            let seconds = CONNECT.as_secs();
            let problem = format!("the listener sent no handshake within {seconds} s");
            io::Error::new(io::ErrorKind::TimedOut, problem)
        }
        _ => error,
    };
    MemberError::Unreachable { address: join.address.clone(), error }
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
