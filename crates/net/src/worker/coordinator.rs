//! The side that workers join: it gathers them and gives them orders.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dyno_loadgen::clock::{Clock, MILLISECOND, Nanos, SECOND};
use dyno_loadgen::drive::Glance;
use dyno_loadgen::drive::real::{AnswerWindow, MassFailure};

use super::door::{self, Role};
use super::peer::{Event, Peer};
use super::wire::{self, Body, Challenge, MOST_OF_STRANGERS, Pair, Ready, SetUp, Welcome, plain};

/// Whom to wait for, and where.
#[derive(Debug, Clone)]
pub struct Listen {
    /// Such as `0.0.0.0:7700`; port 0 is any free one.
    pub address: String,
    /// Workers that share the load (>= 1).
    pub workers: u32,
    /// Secret of both sides. Without one only workers of this machine join.
    pub token: String,
    /// Secret that processes of this machine know, and others do not; `None` if the machine
    /// has none.
    pub machine: Option<String>,
    /// Release of this program, which must be the workers' as well.
    pub release: String,
    /// Of a worker that says nothing for this long nothing more is expected, ns.
    pub silence: Nanos,
}

/// A worker that sends nothing for this long is lost, where nobody says otherwise.
/// Workers send something four times a second, from a thread of its own.
pub const SILENCE: Nanos = 10 * SECOND;

/// A stranger has so long to prove that it is none.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Strangers at the same time.
const MOST_STRANGERS: usize = 64;
/// How often an abort is looked for.
pub(super) const GLANCE: Duration = Duration::from_millis(50);
/// Between two pings once there were some.
const PULSE: Duration = Duration::from_millis(200);
/// Between the first ones, which estimate the offsets of clocks.
const FIRST_PULSE: Duration = Duration::from_millis(10);
const FIRST_PULSES: u32 = 16;

/// Why a run lacks a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// Which one, from 0.
    pub worker: u32,
    /// What is known of it.
    pub why: String,
    /// Whether it said so itself.
    pub has_left: bool,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.has_left { "left" } else { "was lost" };
        write!(f, "worker {} {how}: {}", self.worker + 1, self.why)
    }
}

impl std::error::Error for Lost {}

/// Why there is no coordinator.
#[derive(Debug)]
#[non_exhaustive]
pub enum GatherError {
    /// The address cannot be listened at.
    Bind {
        /// The address.
        address: String,
        /// Why.
        error: io::Error,
    },
    /// Somebody ended the wait.
    Ended {
        /// Workers that had come.
        joined: u32,
    },
}

impl fmt::Display for GatherError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind { address, error } => write!(f, "cannot listen at {address}: {error}"),
            Self::Ended { joined } => write!(f, "ended when {joined} workers had joined"),
        }
    }
}

impl std::error::Error for GatherError {}

/// A place at which workers can join.
#[derive(Debug)]
pub struct Listening {
    listen: Listen,
    address: SocketAddr,
    door: Arc<Door>,
    visits: Receiver<Visit>,
}

/// What the thread that accepts connections shares with the coordinator.
#[derive(Debug)]
struct Door {
    /// All workers are there.
    is_full: AtomicBool,
    is_closed: AtomicBool,
    strangers: AtomicUsize,
}

/// What came of a handshake.
#[derive(Debug)]
enum Visit {
    Candidate(Candidate),
    /// The worker does not want this coordinator.
    Refusal {
        name: String,
        why: String,
    },
}

/// A worker that knows the token.
#[derive(Debug)]
struct Candidate {
    stream: TcpStream,
    name: String,
    /// From 1; 0 is any.
    seat: u32,
}

/// The workers of a run. Dropped, it sends them away.
#[derive(Debug)]
pub struct Coordinator {
    pub(super) listen: Listen,
    address: SocketAddr,
    door: Arc<Door>,
    pub(super) clock: Clock,
    pub(super) peers: Vec<Arc<Peer>>,
    pub(super) events: Mutex<Receiver<(usize, Event)>>,
    lost: Mutex<Option<Lost>>,
    pub(super) is_aborted: AtomicBool,
    /// The failures of a worker that ended the test.
    failing: Mutex<Option<(MassFailure, Option<String>)>>,
    /// What was seen of clocks and starts, over all runs.
    pub(super) precision: Mutex<Precision>,
    /// Of the last run.
    pub(super) shares: Mutex<Vec<WorkerShare>>,
    /// Its end stops the pulse.
    _pulse: Sender<()>,
}

/// How well the workers of all runs so far were in step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Precision {
    /// Runs.
    pub runs: u32,
    /// The most by which times of different workers are wrong against each other, ns.
    pub error: Nanos,
    /// The most by which a worker began late, ns.
    pub late: Nanos,
}

/// What one worker did in a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkerShare {
    /// Which one, from 0.
    pub worker: u32,
    /// Display name, such as `host-3, process 77`.
    pub name: String,
    /// Queries that it issued.
    pub queries: u64,
    /// How much later than the others it began, ns.
    pub late: Nanos,
    /// How long its part of the run took, ns.
    pub lasted: Nanos,
    /// The longest time in the run in which it sent no message, ns. Workers send several a second.
    pub longest_silence: Nanos,
    /// How late the client issued each query that was due at a set time, ns, in ascending order;
    /// an entry a tenant.
    pub client_lag: Vec<Vec<u32>>,
    /// Where its samples stand in the record of the run; an entry a tenant.
    pub places: Vec<Vec<usize>>,
    /// What its rig reports.
    pub report: Vec<u8>,
}

impl Listening {
    /// Begins to listen.
    ///
    /// # Errors
    /// [`GatherError::Bind`].
    pub fn begin(listen: Listen) -> Result<Self, GatherError> {
        let bind = || {
            let listener = TcpListener::bind(&listen.address)?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) =
            bind().map_err(|error| GatherError::Bind { address: listen.address.clone(), error })?;
        let door = Arc::new(Door {
            is_full: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            strangers: AtomicUsize::new(0),
        });
        let (sender, visits) = mpsc::channel();
        let (at, of) = (door.clone(), listen.clone());
        std::thread::spawn(move || at.keep(&listener, &of, &sender));
        Ok(Self { listen, address, door, visits })
    }

    /// Where.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until all workers have joined, as long as `goes_on` says so; `say` is
    /// told of each.
    ///
    /// # Errors
    /// [`GatherError::Ended`].
    pub fn gather(
        self,
        goes_on: &dyn Fn() -> bool,
        say: &mut dyn FnMut(&str),
    ) -> Result<Coordinator, GatherError> {
        let clock = Clock::start();
        let (sender, events) = mpsc::channel::<(usize, Event)>();
        let mut seats: Vec<Option<Arc<Peer>>> = vec![None; self.listen.workers as usize];
        let count = |seats: &[Option<Arc<Peer>>]| seats.iter().flatten().count();
        while count(&seats) < seats.len() {
            if !goes_on() {
                self.door.close(self.address);
                seats.iter().flatten().for_each(|peer| peer.hang_up());
                return Err(GatherError::Ended { joined: count(&seats) as u32 });
            }
            while let Ok((at, event)) = events.try_recv() {
                if let Event::Lost(why) = event
                    && let Some(peer) = seats[at].take()
                {
                    say(&format!("{} left before the run began: {why}", peer.name));
                }
            }
            // Who waits for others must hear something, too.
            for peer in seats.iter().flatten() {
                let _ = peer.send(Body::Ping(clock.now()));
            }
            let candidate = match self.visits.recv_timeout(GLANCE) {
                Ok(Visit::Candidate(candidate)) => candidate,
                Ok(Visit::Refusal { name, why }) => {
                    say(&format!("{name} did not join: {why}"));
                    continue;
                }
                Err(_) => continue,
            };
            let wanted = (candidate.seat as usize).checked_sub(1);
            let wanted = wanted.filter(|&at| seats.get(at).is_some_and(Option::is_none));
            let at = wanted.or_else(|| seats.iter().position(Option::is_none));
            let at = at.expect("some have not joined");
            let name = candidate.name.clone();
            if let Some(peer) = self.seat(candidate, at, clock, &sender) {
                seats[at] = Some(peer);
                let (joined, of) = (count(&seats), seats.len());
                say(&format!("worker {} of {of} joined: {name} ({joined} of {of})", at + 1));
            }
        }
        self.door.is_full.store(true, Ordering::Relaxed);
        let peers: Vec<Arc<Peer>> = seats.into_iter().flatten().collect();
        let (pulse, is_over) = mpsc::channel::<()>();
        let beaten = peers.clone();
        std::thread::spawn(move || pulse_of(&beaten, clock, &is_over));
        Ok(Coordinator {
            listen: self.listen,
            address: self.address,
            door: self.door,
            clock,
            peers,
            events: Mutex::new(events),
            lost: Mutex::default(),
            is_aborted: AtomicBool::new(false),
            failing: Mutex::default(),
            precision: Mutex::default(),
            shares: Mutex::default(),
            _pulse: pulse,
        })
    }

    /// Gives a candidate its place. `None` if it is gone already.
    fn seat(
        &self,
        candidate: Candidate,
        at: usize,
        clock: Clock,
        events: &Sender<(usize, Event)>,
    ) -> Option<Arc<Peer>> {
        let Candidate { stream, name, .. } = candidate;
        let silence = Duration::from_nanos(self.listen.silence);
        stream.set_read_timeout(Some(silence)).ok()?;
        stream.set_write_timeout(Some(silence)).ok()?;
        let peer = Arc::new(Peer::new(name, &stream).ok()?);
        let (index, of, silence) = (at as u32, self.listen.workers, self.listen.silence);
        peer.send(Body::Welcome(Welcome { index, of, silence })).ok()?;
        let (heard, events) = (peer.clone(), events.clone());
        std::thread::spawn(move || heard.hear(stream, clock, (at, &events)));
        Some(peer)
    }
}

impl Door {
    /// Accepts connections until it is closed.
    fn keep(self: &Arc<Self>, listener: &TcpListener, of: &Listen, to: &Sender<Visit>) {
        for stream in listener.incoming() {
            if self.is_closed.load(Ordering::Relaxed) {
                return;
            }
            let Ok(stream) = stream else { continue };
            if self.strangers.fetch_add(1, Ordering::Relaxed) >= MOST_STRANGERS {
                self.strangers.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let (door, of, to) = (self.clone(), of.clone(), to.clone());
            std::thread::spawn(move || {
                let visit = door.ask(stream, &of);
                door.strangers.fetch_sub(1, Ordering::Relaxed);
                // The receiver is gone when the wait was ended.
                visit.map(|visit| to.send(visit))
            });
        }
    }

    /// Asks a stranger for its proof.
    fn ask(&self, mut stream: TcpStream, of: &Listen) -> Option<Visit> {
        stream.set_nodelay(true).ok()?;
        stream.set_read_timeout(Some(HANDSHAKE)).ok()?;
        stream.set_write_timeout(Some(HANDSHAKE)).ok()?;
        let is_loopback = door::is_loopback(&stream);
        let Ok(Body::Hello(hello)) = wire::read(&mut stream, MOST_OF_STRANGERS) else {
            return None;
        };
        let mut refuse = |why: String| {
            let _ = wire::write(&mut stream, Body::Refused(why));
            None
        };
        if (hello.protocol, &hello.release) != (wire::PROTOCOL, &of.release) {
            return refuse(format!(
                "the coordinator is dyno {} with worker protocol {}, and this worker is dyno {} \
                 with worker protocol {}; install the same release on both sides",
                of.release,
                wire::PROTOCOL,
                hello.release,
                hello.protocol
            ));
        }
        if of.token.is_empty() && !is_loopback {
            return refuse("the coordinator has no token, and this worker is elsewhere".into());
        }
        let nonce = door::nonce();
        let nonces = [&hello.nonce[..], &nonce[..]];
        let key = door::key(&of.token, of.machine.as_deref());
        let proof = door::proof(&key, Role::Coordinator, nonces);
        let machine = of.machine.as_ref().map_or_else(Vec::new, |machine| {
            door::proof(&door::machine_key(machine), Role::Coordinator, nonces)
        });
        let challenge = Challenge { nonce: nonce.clone(), proof, machine };
        wire::write(&mut stream, Body::Challenge(challenge)).ok()?;
        let answer = wire::read(&mut stream, MOST_OF_STRANGERS);
        let mut refuse = |why: String| {
            let _ = wire::write(&mut stream, Body::Refused(why));
            None
        };
        let given = match answer {
            Ok(Body::Proof(given)) => given,
            Ok(Body::Refused(why)) => {
                return Some(Visit::Refusal { name: plain(&hello.name), why: plain(&why) });
            }
            _ => return None,
        };
        if !door::is_proof(&key, Role::Worker, nonces, &given) {
            return refuse("the token is not that of the coordinator".into());
        }
        if self.is_full.load(Ordering::Relaxed) {
            return refuse(format!("all {} workers of the run have joined", of.workers));
        }
        Some(Visit::Candidate(Candidate { stream, name: plain(&hello.name), seat: hello.seat }))
    }

    fn close(&self, address: SocketAddr) {
        self.is_closed.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts. Where 0.0.0.0 is no destination, the next
        // stranger does.
        let _ = TcpStream::connect_timeout(&address, Duration::from_millis(200));
    }
}

/// Asks all workers for the time, often at first, until the run is over.
fn pulse_of(peers: &[Arc<Peer>], clock: Clock, is_over: &Receiver<()>) {
    for beat in 0_u32.. {
        for peer in peers {
            // Whoever reads its connection learns that it is lost.
            let _ = peer.send(Body::Ping(clock.now()));
        }
        let pause = if beat < FIRST_PULSES { FIRST_PULSE } else { PULSE };
        if is_over.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

impl Coordinator {
    /// Workers.
    #[must_use]
    pub fn workers(&self) -> u32 {
        self.listen.workers
    }

    /// Has every worker set up the system that these options are about, as long as `goes_on`
    /// says so.
    ///
    /// # Errors
    /// The first worker that could not, or is gone.
    pub fn set_up(&self, options: &[Pair], goes_on: &dyn Fn() -> bool) -> Result<Vec<Ready>, Lost> {
        let order = Body::SetUp(SetUp { options: options.to_vec() });
        self.order_while(goes_on, &order, |body| match body {
            Body::Ready(ready) => Some(ready),
            _ => None,
        })
    }

    /// Ends the run, as soon as the workers notice. From any thread.
    pub fn abort(&self) {
        if !self.is_aborted.swap(true, Ordering::Relaxed) {
            self.tell(&Body::Abort(true));
        }
    }

    /// Ends the test because the system failed most answers of a worker.
    pub(super) fn found(&self, failing: wire::Failing) {
        let window = if failing.is_last { AnswerWindow::Last } else { AnswerWindow::First };
        let found = MassFailure {
            tenant: failing.tenant as usize,
            window,
            failed: failing.failed,
            answers: failing.answers,
        };
        lock(&self.failing).get_or_insert((found, failing.words));
        self.abort();
    }

    /// The failures of a worker that ended the test, with what the system said.
    #[must_use]
    pub fn failing(&self) -> Option<(MassFailure, Option<String>)> {
        lock(&self.failing).clone()
    }

    /// How far all workers together are.
    #[must_use]
    pub fn glance(&self) -> Glance {
        let mut glance = Glance::default();
        for beat in self.peers.iter().map(|peer| peer.beat()) {
            glance.now = glance.now.max(beat.now);
            glance.issued_queries += beat.issued;
            glance.issued_samples += beat.issued.max(beat.completed);
            glance.completed_samples += beat.completed;
        }
        glance
    }

    /// How well they were in step.
    #[must_use]
    pub fn precision(&self) -> Precision {
        *lock(&self.precision)
    }

    /// The shares of the last run, one for each worker that sent its record.
    #[must_use]
    pub fn shares(&self) -> Vec<WorkerShare> {
        lock(&self.shares).clone()
    }

    /// The first worker that was lost.
    #[must_use]
    pub fn lost(&self) -> Option<Lost> {
        lock(&self.lost).clone()
    }

    /// Notes that a worker is lost; the first one is remembered.
    pub(super) fn lose(&self, worker: usize, why: &str) -> Lost {
        let peer = &self.peers[worker];
        let why = format!("{}: {why}", peer.name);
        let lost = Lost { worker: worker as u32, why, has_left: peer.has_left() };
        self.peers[worker].hang_up();
        lock(&self.lost).get_or_insert(lost).clone()
    }

    /// Says something to all.
    pub(super) fn tell(&self, body: &Body) {
        for peer in &self.peers {
            // Whoever reads its connection learns that it is lost.
            let _ = peer.send(body.clone());
        }
    }

    /// Gives all workers an order and waits for what each answers.
    pub(super) fn order<T>(
        &self,
        order: &Body,
        answer: impl Fn(Body) -> Option<T>,
    ) -> Result<Vec<T>, Lost> {
        self.order_while(&|| true, order, answer)
    }

    /// As [`Coordinator::order`], as long as `goes_on` says so. A worker that says nothing after
    /// an abort is lost.
    fn order_while<T>(
        &self,
        goes_on: &dyn Fn() -> bool,
        order: &Body,
        answer: impl Fn(Body) -> Option<T>,
    ) -> Result<Vec<T>, Lost> {
        if let Some(lost) = self.lost() {
            return Err(lost);
        }
        self.tell(order);
        let events = lock(&self.events);
        let mut answers: Vec<Option<T>> = self.peers.iter().map(|_| None).collect();
        let mut ending_at = None;
        while let Some(open) = answers.iter().position(Option::is_none) {
            if !goes_on() {
                return Err(self.lose(open, "the wait for it was interrupted"));
            }
            if self.is_aborted.load(Ordering::Relaxed) {
                let ending_at = *ending_at.get_or_insert(self.clock.now());
                let heard_at = self.peers[open].heard_at().max(ending_at);
                if self.clock.now() > heard_at + LAST_SILENCE {
                    return Err(self.lose(open, "it says nothing since the run was ended"));
                }
            }
            // Workers that are there beat; no answer is too late.
            match events.recv_timeout(GLANCE) {
                Ok((at, Event::Said(body))) => match answer(body) {
                    Some(answer) => answers[at] = Some(answer),
                    None => return Err(self.lose(at, "it answered something else")),
                },
                Ok((at, Event::Lost(why))) => return Err(self.lose(at, &why)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.lose(0, "its connection is not read"));
                }
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        self.tell(&Body::Bye(true));
        self.door.close(self.address);
        // What a process leaves unread when it ends would cut off the last word.
        let (events, gone) = (lock(&self.events), usize::from(self.lost().is_some()));
        let mut here = self.peers.len() - gone;
        let clock = Clock::start();
        while here > 0 && clock.now() < SECOND {
            if let Ok((_, Event::Lost(_))) = events.recv_timeout(GLANCE) {
                here -= 1;
            }
        }
    }
}

pub(super) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// After the end of a run a worker that says nothing for this long is lost. Those that are
/// there say something four times a second.
pub(super) const LAST_SILENCE: Nanos = 1_200 * MILLISECOND;

/// A run begins so much later than the last worker is ready, besides the time that
/// it takes to tell them.
pub(super) const LEAD: Nanos = 50 * MILLISECOND;
