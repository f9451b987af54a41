//! HTTP/1.1 without a runtime: the issuing thread writes requests itself, event loops read.

mod answer;
mod buffer;
mod chunked;
mod connection;
mod dial;
mod event_loop;
mod live;
mod places;

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::drive::real::Responder;
use dyno_loadgen::sut::{InFlight, QuerySample};

use super::answering::Carrier;
use super::{Job, Shared, Waited, make_room};
use crate::trouble::Trouble;
use connection::{Connection, Flight, Unsent, Written};
use places::Places;

/// Connections to all nodes, and the event loops that read from them.
pub(super) struct Http1 {
    pool: Arc<Pool>,
    threads: Vec<JoinHandle<()>>,
}

/// What issuing threads and event loops share.
struct Pool {
    shared: Arc<Shared>,
    state: Mutex<PoolState>,
    /// Notified when connections are made or given up.
    settled: Condvar,
    is_closing: AtomicBool,
    /// By event loop.
    wakers: Vec<mio::Waker>,
}

struct PoolState {
    /// By node, with the time since when they are idle. The last one is taken first: what it
    /// needs is in the caches.
    idle: Vec<Vec<(Arc<Connection>, Nanos)>>,
    /// By the client's clock, a tick of an event loop ago.
    now: Nanos,
    /// Whose turn it is.
    next_node: usize,
    /// Samples that found no connection, in their order. While there are any, no connection
    /// is idle.
    waiting: VecDeque<(Job, Nanos)>,
    /// Of the run whose samples wait. Kept only while there are any, so that an idle client
    /// does not hold on to the memory of the last run.
    responder: Option<Responder>,
    places: Places,
}

/// How a connection became free.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Freed {
    /// It was just made.
    New,
    /// It has carried an answer.
    Answered,
}

/// What became of a request.
enum Sent {
    /// It is under way; the event loop does the rest.
    Away,
    /// It is answered already, and the connection is free.
    Answered,
    /// The connection was dead, and nothing of the request left.
    Not,
}

impl Http1 {
    pub(super) fn start(shared: Arc<Shared>) -> io::Result<Self> {
        let (threads, nodes) = (shared.threads.len(), shared.nodes.len());
        let polls = (0..threads).map(|_| mio::Poll::new()).collect::<io::Result<Vec<_>>>()?;
        let waker = |poll: &mio::Poll| mio::Waker::new(poll.registry(), event_loop::WAKER);
        let wakers = polls.iter().map(waker).collect::<io::Result<_>>()?;
        let mut places = Places::new(nodes, threads);
        let (first, most) = shared.options.places(nodes, None);
        places.provide(first, most);
        let state = PoolState {
            idle: vec![Vec::new(); nodes],
            now: 0,
            next_node: 0,
            waiting: VecDeque::new(),
            responder: None,
            places,
        };
        let pool = Arc::new(Pool {
            shared,
            state: Mutex::new(state),
            settled: Condvar::new(),
            is_closing: AtomicBool::new(false),
            wakers,
        });
        let mut http1 = Self { pool, threads: Vec::new() };
        for (thread, poll) in polls.into_iter().enumerate() {
            let pool = http1.pool.clone();
            let builder = std::thread::Builder::new().name(format!("net-client-{thread}"));
            http1
                .threads
                .push(builder.spawn(move || event_loop::EventLoop::new(pool, thread, poll).run())?);
        }
        Ok(http1)
    }

    /// Makes the connections that the next run needs, and closes others.
    pub(super) fn expect(&self, in_flight: &[InFlight]) {
        let shared = &self.pool.shared;
        let (connections, most) = shared.options.places(shared.nodes.len(), Some(in_flight));
        self.pool.lock().places.provide(connections, most);
        self.pool.wake();
    }

    /// Forgets what still waits of an aborted run, and waits until connections stand or are
    /// known not to.
    pub(super) fn prepare(&self, samples: usize) {
        let mut state = self.pool.lock();
        make_room(&mut state.waiting, samples);
        state.responder = None;
        let longest = Duration::from_nanos(self.pool.shared.options.connect_limit);
        let is_unsettled = |state: &mut PoolState| !state.places.is_settled();
        let waited = self.pool.settled.wait_timeout_while(state, longest, is_unsettled);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Connections that stand.
    pub(super) fn open(&self) -> usize {
        self.pool.lock().places.open()
    }

    #[inline]
    pub(super) fn issue(&self, samples: &[QuerySample], responder: &Responder) {
        match samples {
            [sample] => self.pool.dispatch(Job::of(sample), responder),
            samples => self.pool.dispatch_all(samples, responder),
        }
    }
}

impl Drop for Http1 {
    fn drop(&mut self) {
        self.pool.is_closing.store(true, Ordering::Release);
        self.pool.wake();
        for thread in self.threads.drain(..) {
            // A panic is on standard error already.
            let _ = thread.join();
        }
    }
}

impl PoolState {
    #[inline]
    fn take_idle(&mut self) -> Option<Arc<Connection>> {
        for _ in 0..self.idle.len() {
            let node = self.next_node;
            self.next_node = if node + 1 == self.idle.len() { 0 } else { node + 1 };
            if let Some((connection, _)) = self.idle[node].pop() {
                return Some(connection);
            }
        }
        None
    }

    /// Takes a connection of an event loop to a node that is idle since before that time.
    fn take_idle_of(
        &mut self,
        thread: usize,
        node: usize,
        before: Nanos,
    ) -> Option<Arc<Connection>> {
        let idle = &mut self.idle[node];
        let at = idle.iter().position(|(one, since)| one.thread == thread && *since < before)?;
        Some(idle.remove(at).0)
    }
}

impl Carrier for Pool {
    fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    fn failed(&self, job: Job, to: &Responder, trouble: &Trouble, is_heard: bool, at: Nanos) {
        if self.shared.settle_failure(job, to, trouble, is_heard, at) {
            self.dispatch(Job { tries: job.tries + 1, ..job }, to);
        }
    }
}

impl Pool {
    /// The state is consistent wherever a thread may have panicked.
    #[inline]
    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes all event loops. One that cannot be woken wakes by itself soon.
    fn wake(&self) {
        for waker in &self.wakers {
            let _ = waker.wake();
        }
    }

    /// Lets samples wait for a connection, and makes more where there may be more.
    fn wait(
        &self,
        mut state: MutexGuard<'_, PoolState>,
        jobs: impl Iterator<Item = Job>,
        responder: &Responder,
    ) {
        let now = self.shared.clock.now();
        state.waiting.extend(jobs.map(|job| (job, now)));
        state.responder = Some(responder.clone());
        let waiting = state.waiting.len();
        let has_grown = state.places.grow(waiting);
        drop(state);
        if has_grown {
            self.wake();
        }
    }

    /// Sends a sample over a free connection, or lets it wait for one.
    #[inline]
    fn dispatch(&self, job: Job, responder: &Responder) {
        loop {
            let connection = {
                let mut state = self.lock();
                let Some(connection) = state.take_idle() else {
                    return self.wait(state, std::iter::once(job), responder);
                };
                connection
            };
            match self.send(&connection, job, responder) {
                Sent::Away => return,
                Sent::Answered => return self.release(connection, Freed::Answered),
                Sent::Not => {}
            }
        }
    }

    /// As [`dispatch`](Self::dispatch) for many, which are queued at once.
    fn dispatch_all(&self, samples: &[QuerySample], responder: &Responder) {
        if samples.is_empty() {
            return;
        }
        let mut taken = Vec::new();
        {
            let mut state = self.lock();
            while taken.len() < samples.len()
                && let Some(connection) = state.take_idle()
            {
                taken.push(connection);
            }
            let rest = &samples[taken.len()..];
            if !rest.is_empty() {
                self.wait(state, rest.iter().map(Job::of), responder);
            }
        }
        for (connection, sample) in taken.into_iter().zip(samples) {
            match self.send(&connection, Job::of(sample), responder) {
                Sent::Away => {}
                Sent::Answered => self.release(connection, Freed::Answered),
                Sent::Not => self.dispatch(Job::of(sample), responder),
            }
        }
    }

    /// Passes a free connection on: to the sample that has waited longest, or to the idle ones.
    fn release(&self, connection: Arc<Connection>, freed: Freed) {
        loop {
            let mut state = self.lock();
            let Some((job, since)) = state.waiting.pop_front() else {
                let now = state.now;
                state.idle[connection.node].push((connection, now));
                return;
            };
            let is_full = state.places.is_full();
            let responder = match state.waiting.is_empty() {
                true => state.responder.take(),
                false => state.responder.clone(),
            };
            drop(state);
            let responder = responder.expect("samples wait for somebody");
            if responder.is_over() {
                self.drop_waiting();
                continue;
            }
            let span = self.shared.clock.now().saturating_sub(since);
            let cause = match freed {
                Freed::New => Waited::Connecting,
                Freed::Answered if is_full && self.shared.options.max_in_flight.is_some() => {
                    Waited::Limit
                }
                Freed::Answered => Waited::Queue,
            };
            self.shared.waited((job, &responder), span, connection.thread, cause);
            match self.send(&connection, job, &responder) {
                Sent::Away => return,
                Sent::Answered => {}
                // Its event loop hears that it is dead.
                Sent::Not => return self.dispatch(job, &responder),
            }
        }
    }

    /// Writes the request of a sample to a connection that nobody else writes to.
    #[inline]
    fn send(&self, connection: &Connection, job: Job, responder: &Responder) -> Sent {
        let request = self.shared.requests.of(job.index);
        if let Some(wrong) = &request.wrong {
            self.failed(job, responder, wrong, false, self.shared.clock.now());
            return Sent::Answered;
        }
        // Before it is written: the answer may be here before this thread goes on.
        let sent_at = {
            let mut state = connection.state();
            if state.is_dead {
                return Sent::Not;
            }
            let sent_at = self.shared.clock.now();
            state.flight = Some(Flight { job, responder: responder.clone(), sent_at });
            (state.is_sending, state.is_answered) = (true, false);
            sent_at
        };
        let written = connection.write(&request, 0);
        if let Written::All = written {
            self.accepted(connection, (job, responder), &request, sent_at);
        }
        let mut state = connection.state();
        state.is_sending = false;
        match written {
            Written::All if state.is_answered && !state.is_dead => Sent::Answered,
            Written::All => Sent::Away,
            Written::UpTo(from) if !state.is_answered && !state.is_dead => {
                state.unsent = Some(Unsent { request, from, job, responder: responder.clone() });
                // The socket may have become writable in between, which nobody would hear of.
                self.write_rest(connection, &mut state);
                Sent::Away
            }
            Written::Broken(0) if state.flight.take().is_some() => {
                state.is_dead = true;
                drop(state);
                connection.shut_down();
                Sent::Not
            }
            Written::UpTo(_) | Written::Broken(_) => {
                state.is_dead = true;
                drop(state);
                connection.shut_down();
                Sent::Away
            }
        }
    }

    /// Goes on with a request that the socket did not take at once.
    fn write_rest(&self, connection: &Connection, state: &mut connection::State) {
        let Some(unsent) = &mut state.unsent else { return };
        let sent_at = self.shared.clock.now();
        match connection.write(&unsent.request, unsent.from) {
            Written::All => {
                let asked = (unsent.job, &unsent.responder);
                self.accepted(connection, asked, &unsent.request, sent_at);
                state.unsent = None;
            }
            Written::UpTo(from) => unsent.from = from,
            Written::Broken(_) => {
                (state.is_dead, state.unsent) = (true, None);
                connection.shut_down();
            }
        }
    }

    /// Notes that a socket took a request, the last of it with a write that began at `sent_at`.
    /// The time after the write would hold what this thread waits for a processor when the
    /// server, woken by the request, has taken its own.
    #[inline]
    fn accepted(
        &self,
        connection: &Connection,
        (job, responder): (Job, &Responder),
        request: &super::library::Encoded,
        sent_at: Nanos,
    ) {
        self.shared.accepted.stamp(job.id, responder.time_of(&self.shared.clock, sent_at));
        self.shared.threads[connection.thread].request(request.len(connection.node));
    }

    /// Drops the samples that wait in a run that was ended early.
    fn drop_waiting(&self) {
        let mut state = self.lock();
        if state.responder.as_ref().is_some_and(Responder::is_over) {
            state.waiting.clear();
            state.responder = None;
        }
    }

    /// All samples that wait have failed: there is no connection, and none can be made.
    fn waiting_failed(&self, trouble: &Trouble, only_if_none_is_open: bool) {
        let mut state = self.lock();
        if only_if_none_is_open && state.places.open() > 0 {
            return;
        }
        let waiting = std::mem::take(&mut state.waiting);
        let responder = state.responder.take();
        drop(state);
        if let Some(responder) = responder {
            let ids: Vec<_> = waiting.iter().map(|(job, _)| job.id).collect();
            self.shared.counters.all_failed(trouble, ids.len() as u64);
            responder.fail(&ids, trouble.kind.failure());
        }
    }
}
