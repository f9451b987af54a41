//! The coordinator, which gathers workers and gives them orders.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dyno_loadgen::clock::{Clock, MILLISECOND, Nanos, SECOND};
use dyno_loadgen::drive::Glance;
use dyno_loadgen::drive::real::{AnswerWindow, MassFailure};

use super::channel::{Channel, ChannelReader, Identity};
use super::door::{self, Role};
use super::peer::{self, Event, Peer};
use super::seats;
use super::strangers::Strangers;
use super::wire::{self, Body, Challenge, MOST_OF_STRANGERS, Pair, Ready, SetUp, Welcome, plain};

/// Settings of the listening side.
#[derive(Debug, Clone)]
pub struct ListenSettings {
    /// Address such as `0.0.0.0:7700`; port 0 is any free one.
    pub address: String,
    /// Workers that share the load (>= 1).
    pub workers: u32,
    /// Secret of both sides. If it is empty, only workers of this user on this machine can join.
    pub token: String,
    /// Secret that only processes on this machine know; `None` if the machine has none.
    pub machine: Option<String>,
    /// Release of this program, which the workers must have as well.
    pub release: String,
    /// Time without a message after which a worker counts as lost, in ns.
    pub silence: Nanos,
}

/// Default time without a message after which a worker is lost. Workers send a message four times a
/// second, from a separate thread.
pub const SILENCE: Nanos = 10 * SECOND;

/// Time limit for the authentication handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Period of checks for an abort.
pub(super) const GLANCE: Duration = Duration::from_millis(50);
/// Messages of workers that wait to be taken, besides two of each worker. Others wait unread.
const MOST_WAITING: usize = 8;
/// Period of pings after the first ones.
const PULSE: Duration = Duration::from_millis(200);
/// Period of the first pings, which estimate the offsets of clocks.
const FIRST_PULSE: Duration = Duration::from_millis(10);
const FIRST_PULSES: u32 = 16;

/// Loss of a worker.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("worker {} {}: {why}", .worker + 1, if *.has_left { "left" } else { "was lost" })]
pub struct LostWorker {
    /// Index of the worker, from 0.
    pub worker: u32,
    /// Reason.
    pub why: String,
    /// Whether the worker announced that it leaves.
    pub has_left: bool,
}

/// Reason why there is no coordinator.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatherError {
    /// The address cannot be bound.
    #[error("cannot listen at {address}: {error}")]
    Bind {
        /// The address.
        address: String,
        /// The error.
        error: io::Error,
    },
    /// The wait was ended.
    #[error("ended when {joined} workers had joined")]
    Ended {
        /// Number of workers that had joined.
        joined: u32,
    },
    /// The system starts no further thread.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// A listening socket for workers.
#[derive(Debug)]
pub struct WorkerListener {
    listen: ListenSettings,
    address: SocketAddr,
    door: Arc<Door>,
    visits: Receiver<Visit>,
}

/// State shared by the accepting thread and the coordinator.
#[derive(Debug)]
struct Door {
    /// All workers have joined.
    is_full: AtomicBool,
    is_closed: AtomicBool,
    strangers: Mutex<Strangers>,
}

/// Result of a handshake.
#[derive(Debug)]
enum Visit {
    Candidate(Candidate),
    /// The worker refuses this coordinator.
    Refusal {
        name: String,
        why: String,
    },
}

/// A worker that knows the token.
#[derive(Debug)]
struct Candidate {
    channel: Arc<Channel>,
    reader: ChannelReader,
    name: String,
    /// Requested seat from 1; 0 means any.
    seat: u32,
}

/// The workers of a run. Dropping it dismisses them.
#[derive(Debug)]
pub struct Coordinator {
    pub(super) listen: ListenSettings,
    address: SocketAddr,
    door: Arc<Door>,
    pub(super) clock: Clock,
    pub(super) peers: Vec<Arc<Peer>>,
    pub(super) events: Mutex<Receiver<(usize, Event)>>,
    lost: Mutex<Option<LostWorker>>,
    pub(super) is_aborted: AtomicBool,
    /// The failures of a worker that ended the test.
    failing: Mutex<Option<(MassFailure, Option<String>)>>,
    /// Precision of clocks and starts, over all runs.
    pub(super) precision: Mutex<Precision>,
    /// Shares of the last run.
    pub(super) shares: Mutex<Vec<WorkerShare>>,
    /// Dropping it stops the pings.
    _pulses: Vec<Sender<()>>,
}

/// Synchronization of the workers in all runs so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Precision {
    /// Number of runs.
    pub runs: u32,
    /// Maximum error between times of different workers, in ns.
    pub error: Nanos,
    /// Maximum delay of a worker's start, in ns.
    pub late: Nanos,
}

/// Share of one worker in a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkerShare {
    /// Index of the worker, from 0.
    pub worker: u32,
    /// Display name, such as `host-3, process 77`.
    pub name: String,
    /// Number of queries that it issued.
    pub queries: u64,
    /// Delay of its start relative to the others, in ns.
    pub late: Nanos,
    /// Duration of its part of the run, in ns.
    pub lasted: Nanos,
    /// Longest time in the run without a message from it, in ns. Workers send several a second.
    pub longest_silence: Nanos,
    /// Issue delay of each query that was due at a set time, in ns, in ascending order; one entry
    /// per tenant.
    pub client_lag: Vec<Vec<u32>>,
    /// Positions of its samples in the record of the run; one entry per tenant.
    pub places: Vec<Vec<usize>>,
    /// Report of its rig.
    pub report: Vec<u8>,
}

impl WorkerListener {
    /// Starts to listen.
    ///
    /// # Errors
    /// [`GatherError::Bind`] or [`GatherError::Thread`].
    pub fn begin(listen: ListenSettings) -> Result<Self, GatherError> {
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
            strangers: Mutex::default(),
        });
        let (sender, visits) = mpsc::channel();
        let (acceptor, settings) = (door.clone(), listen.clone());
        let identity = Identity::new()
            .map_err(|error| GatherError::Bind { address: listen.address.clone(), error })?;
        super::start(move || acceptor.accept(&listener, &settings, &identity, &sender))
            .map_err(GatherError::Thread)?;
        Ok(Self { listen, address, door, visits })
    }

    /// Returns the bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until all workers have joined, as long as `goes_on` returns true; calls `say` for each
    /// of them.
    ///
    /// # Errors
    /// [`GatherError::Ended`] or [`GatherError::Thread`].
    pub fn gather(
        self,
        goes_on: &dyn Fn() -> bool,
        say: &mut dyn FnMut(&str),
    ) -> Result<Coordinator, GatherError> {
        let clock = Clock::start();
        let waiting = 2 * self.listen.workers as usize + MOST_WAITING;
        let (sender, events) = mpsc::sync_channel::<(usize, Event)>(waiting);
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
                    say(&format!("{} left before the run: {why}", peer.name));
                }
            }
            // Joined workers need messages while they wait for others.
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
            let at = match seats::choose(&seats, candidate.seat) {
                Ok(at) => at,
                Err(why) => {
                    say(&format!("{} did not join: {why}", candidate.name));
                    let _ = wire::send(&candidate.channel, Body::Refused(why));
                    continue;
                }
            };
            let name = candidate.name.clone();
            if let Some(peer) = self.seat(candidate, at, clock, &sender) {
                seats[at] = Some(peer);
                let (joined, of) = (count(&seats), seats.len());
                say(&format!("worker {} of {of} joined: {name} ({joined} of {of})", at + 1));
            }
        }
        self.door.is_full.store(true, Ordering::Relaxed);
        let peers: Vec<Arc<Peer>> = seats.into_iter().flatten().collect();
        // A worker that reads slowly delays no other one.
        let pulses = peers.iter().map(|peer| {
            let (pulse, is_over) = mpsc::channel::<()>();
            let peer = Arc::clone(peer);
            super::start(move || pulse_of(&peer, clock, &is_over)).map(|()| pulse)
        });
        let pulses = pulses.collect::<io::Result<Vec<_>>>().map_err(GatherError::Thread)?;
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
            _pulses: pulses,
        })
    }

    /// Gives a candidate its seat; `None` if it has left, or if the system starts no thread for it.
    fn seat(
        &self,
        candidate: Candidate,
        at: usize,
        clock: Clock,
        events: &SyncSender<(usize, Event)>,
    ) -> Option<Arc<Peer>> {
        let Candidate { channel, mut reader, name, .. } = candidate;
        reader.wait_for_each(Duration::from_nanos(self.listen.silence)).ok()?;
        let peer = Arc::new(Peer::new(name, channel));
        let (index, of, silence) = (at as u32, self.listen.workers, self.listen.silence);
        peer.send(Body::Welcome(Welcome { index, of, silence })).ok()?;
        let (heard, events) = (peer.clone(), events.clone());
        super::start(move || heard.hear(reader, clock, (at, &events))).ok()?;
        Some(peer)
    }
}

impl Door {
    /// Accepts connections until the door is closed. Waits if the system has no room for one.
    fn accept(
        self: &Arc<Self>,
        listener: &TcpListener,
        settings: &ListenSettings,
        identity: &Identity,
        visits: &Sender<Visit>,
    ) {
        for stream in listener.incoming() {
            if self.is_closed.load(Ordering::Relaxed) {
                return;
            }
            let Ok(stream) = stream.inspect_err(|_| std::thread::park_timeout(GLANCE)) else {
                continue;
            };
            let (Ok(socket), Ok(from)) = (stream.try_clone(), stream.peer_addr()) else { continue };
            let number = lock(&self.strangers).add(from.ip(), socket);
            let (door, settings) = (self.clone(), settings.clone());
            let (identity, visits) = (identity.clone(), visits.clone());
            let handshake = std::thread::Builder::new().spawn(move || {
                let visit = door.shake_hands(stream, &identity, &settings);
                lock(&door.strangers).remove(number);
                // The receiver is gone if the wait was ended.
                visit.map(|visit| visits.send(visit))
            });
            if handshake.is_err() {
                lock(&self.strangers).remove(number);
            }
        }
    }

    /// Performs the handshake with an unknown peer.
    fn shake_hands(
        &self,
        stream: TcpStream,
        identity: &Identity,
        settings: &ListenSettings,
    ) -> Option<Visit> {
        let (channel, mut reader) = Channel::accept(stream, identity, HANDSHAKE).ok()?;
        let Ok(Body::Hello(hello)) = wire::read(&mut reader, MOST_OF_STRANGERS) else {
            return None;
        };
        let refuse = |why: String| {
            let _ = wire::send(&channel, Body::Refused(why));
            channel.close();
            None
        };
        if (hello.protocol, &hello.release) != (wire::PROTOCOL, &settings.release) {
            return refuse(format!(
                "the coordinator is dyno {} with worker protocol {}, and this worker is dyno {} \
                 with worker protocol {}; install the same release on both sides",
                settings.release,
                wire::PROTOCOL,
                hello.release,
                hello.protocol
            ));
        }
        if settings.token.is_empty() && !door::is_local(channel.socket()) {
            return refuse(
                "the coordinator has no token, and this worker belongs to another machine or user"
                    .into(),
            );
        }
        let nonce = door::nonce();
        let binding = channel.binding();
        let session = [&hello.nonce[..], &nonce[..], &binding[..]];
        let key = door::key(&settings.token, settings.machine.as_deref());
        let proof = door::proof(&key, Role::Coordinator, session);
        let machine = settings.machine.as_ref().map_or_else(Vec::new, |machine| {
            door::proof(&door::machine_key(machine), Role::Coordinator, session)
        });
        let challenge = Challenge { nonce: nonce.clone(), proof, machine };
        wire::send(&channel, Body::Challenge(challenge)).ok()?;
        let answer = wire::read(&mut reader, MOST_OF_STRANGERS);
        let given = match answer {
            Ok(Body::Proof(given)) => given,
            Ok(Body::Refused(why)) => {
                return Some(Visit::Refusal { name: plain(&hello.name), why: plain(&why) });
            }
            _ => return None,
        };
        if !door::is_proof(&key, Role::Worker, session, &given) {
            return refuse("the token differs from that of the coordinator".into());
        }
        if self.is_full.load(Ordering::Relaxed) {
            let workers = settings.workers;
            return refuse(format!("all {workers} workers of the run have already joined"));
        }
        let (name, seat) = (plain(&hello.name), hello.seat);
        Some(Visit::Candidate(Candidate { channel, reader, name, seat }))
    }

    fn close(&self, address: SocketAddr) {
        self.is_closed.store(true, Ordering::Relaxed);
        // Wakes the accepting thread. If 0.0.0.0 is not a valid destination, the next connection
        // does.
        let _ = TcpStream::connect_timeout(&address, Duration::from_millis(200));
    }
}

/// Pings a worker, frequently at first, until the run is over.
fn pulse_of(peer: &Peer, clock: Clock, is_over: &Receiver<()>) {
    for beat in 0_u32.. {
        // The thread that reads the connection notices that it is lost.
        let _ = peer.send(Body::Ping(clock.now()));
        let pause = if beat < FIRST_PULSES { FIRST_PULSE } else { PULSE };
        if is_over.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

impl Coordinator {
    /// Returns the number of workers.
    pub fn workers(&self) -> u32 {
        self.listen.workers
    }

    /// Sets up the system of these options on every worker, as long as `goes_on` returns true.
    ///
    /// # Errors
    /// The first worker that failed or is lost.
    pub fn set_up(
        &self,
        options: &[Pair],
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Vec<Ready>, LostWorker> {
        let order = Body::SetUp(SetUp { options: options.to_vec() });
        self.order_while(goes_on, &order, |body| match body {
            Body::Ready(ready) => Some(ready),
            _ => None,
        })
    }

    /// Ends the run, as soon as the workers notice. Callable from any thread.
    pub fn abort(&self) {
        if !self.is_aborted.swap(true, Ordering::Relaxed) {
            let _ = self.tell(&Body::Abort(true));
        }
    }

    /// Ends the test because the system failed most answers of a worker.
    pub(super) fn note_failing(&self, failing: wire::FailingWindow) {
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

    /// Returns the failures of a worker that ended the test, with the system's message.
    #[must_use]
    pub fn failing(&self) -> Option<(MassFailure, Option<String>)> {
        lock(&self.failing).clone()
    }

    /// Returns the progress of all workers together.
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

    /// Returns the synchronization of the workers.
    pub fn precision(&self) -> Precision {
        *lock(&self.precision)
    }

    /// Returns the shares of the last run, one for each worker that sent its record.
    pub fn shares(&self) -> Vec<WorkerShare> {
        lock(&self.shares).clone()
    }

    /// Returns the first worker that was lost.
    pub fn lost(&self) -> Option<LostWorker> {
        lock(&self.lost).clone()
    }

    /// Records that a worker is lost; the first one is remembered.
    pub(super) fn lose(&self, worker: usize, why: &str) -> LostWorker {
        let peer = &self.peers[worker];
        let why = format!("{}: {why}", peer.name);
        let lost = LostWorker { worker: worker as u32, why, has_left: peer.has_left() };
        self.peers[worker].hang_up();
        lock(&self.lost).get_or_insert(lost).clone()
    }

    /// Sends a message to all workers. Fails only if it is longer than [`wire::MOST`].
    pub(super) fn tell(&self, body: &Body) -> io::Result<()> {
        peer::send_to_all(&self.peers, &wire::frame(body.clone())?);
        Ok(())
    }

    /// Sends an order to all workers and waits for their answers.
    pub(super) fn order<T>(
        &self,
        order: &Body,
        answer: impl Fn(Body) -> Option<T>,
    ) -> Result<Vec<T>, LostWorker> {
        self.order_while(&|| true, order, answer)
    }

    /// Sends an order as [`Coordinator::order`] does, as long as `goes_on` returns true. A worker
    /// without a message after an abort is lost.
    fn order_while<T>(
        &self,
        goes_on: &dyn Fn() -> bool,
        order: &Body,
        answer: impl Fn(Body) -> Option<T>,
    ) -> Result<Vec<T>, LostWorker> {
        if let Some(lost) = self.lost() {
            return Err(lost);
        }
        // Without this, the wait for the answers would not end.
        self.tell(order)
            .map_err(|error| self.lose(0, &format!("its order is not sent: {error}")))?;
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
                    return Err(self.lose(open, "it sends nothing since the end of the run"));
                }
            }
            // Live workers send heartbeats, so no answer has a deadline.
            match events.recv_timeout(GLANCE) {
                Ok((at, Event::Said(body))) => match answer(body) {
                    Some(answer) => answers[at] = Some(answer),
                    None => return Err(self.lose(at, "it sent an unexpected answer")),
                },
                Ok((at, Event::Lost(why))) => return Err(self.lose(at, &why)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.lose(0, "it does not read its connection"));
                }
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        let _ = self.tell(&Body::Bye(true));
        self.door.close(self.address);
        // Unread data at the end of a process would reset the connection before the last message is
        // read.
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

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Time without a message after which a worker is lost at the end of a run. Live workers send a
/// message four times a second.
pub(super) const LAST_SILENCE: Nanos = 1_200 * MILLISECOND;
