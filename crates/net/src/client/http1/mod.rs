//! HTTP/1.1 without a runtime: the issuing thread writes requests itself, event loops read answers.

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

pub(crate) use answer::MOST_FIELDS;
pub use answer::{Framing, Part};

use super::answering::Carrier;
use super::{ClientCore, FailedAttempt, Job, WaitCause, make_room};
use crate::trouble::Trouble;
use connection::{Connection, Flight, UnsentRequest, WriteOutcome};
use places::Places;

/// Connections to all nodes and the event loops that read from them.
pub(super) struct Http1 {
    pool: Arc<Pool>,
    threads: Vec<JoinHandle<()>>,
}

/// State shared by issuing threads and event loops.
struct Pool {
    shared: Arc<ClientCore>,
    state: Mutex<PoolState>,
    /// Notified when connections are established or given up.
    settled: Condvar,
    is_closing: AtomicBool,
    /// By event loop.
    wakers: Vec<mio::Waker>,
}

struct PoolState {
    /// By node, with the time at which each became idle. The last one is taken first because its
    /// data is in the caches.
    idle: Vec<Vec<(Arc<Connection>, Nanos)>>,
    /// Time of the last tick of an event loop, by the client's clock.
    now: Nanos,
    /// When the last attempt at a connection began, by the client's clock.
    dialed_at: Nanos,
    /// Next node in turn.
    next_node: usize,
    /// Samples that found no connection, in order. While there are any, no connection is idle.
    waiting: VecDeque<(Job, Nanos)>,
    /// Responder of the waiting samples' run. Kept only while there are any, so that an idle client
    /// does not hold the memory of the last run.
    responder: Option<Responder>,
    places: Places,
    /// Whether the last connection could not be made because there was no descriptor left for it. Samples
    /// then wait in a queue of the client's own: neither for the server nor for the limit of requests.
    lacks_descriptors: bool,
}

/// Reason why a connection is free.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReleaseCause {
    /// It was just established.
    New {
        /// When the oldest attempt began that was in progress until then. It is that of the sample that has
        /// waited longest, which takes the first new connection.
        begun: Nanos,
        /// When the connection was established, before this thread noticed it.
        ready: Nanos,
    },
    /// It has carried an answer.
    Answered,
}

/// Result of sending a request.
enum SendOutcome {
    /// It is sent or queued; the event loop does the rest.
    Away,
    /// It is answered already, and the connection is free.
    Answered,
    /// The connection was dead, and no byte of the request was sent.
    Not,
}

impl Http1 {
    pub(super) fn start(shared: Arc<ClientCore>) -> io::Result<Self> {
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
            dialed_at: 0,
            next_node: 0,
            waiting: VecDeque::new(),
            responder: None,
            places,
            lacks_descriptors: false,
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

    /// Opens the connections that the next run needs and closes others.
    pub(super) fn expect(&self, in_flight: &[InFlight]) {
        let shared = &self.pool.shared;
        let (connections, most) = shared.options.places(shared.nodes.len(), Some(in_flight));
        let mut state = self.pool.lock();
        state.places.provide(connections, most);
        state.lacks_descriptors = false;
        if shared.options.grows && in_flight.contains(&InFlight::Unknown) {
            state.places.open_on_demand();
        }
        drop(state);
        self.pool.wake();
    }

    /// Drops waiting samples of an aborted run, and waits until connections are established or
    /// known to fail.
    pub(super) fn prepare(&self, samples: usize) {
        let mut state = self.pool.lock();
        make_room(&mut state.waiting, samples);
        state.responder = None;
        let longest = Duration::from_nanos(self.pool.shared.options.connect_limit);
        let is_unsettled = |state: &mut PoolState| !state.places.is_settled();
        let waited = self.pool.settled.wait_timeout_while(state, longest, is_unsettled);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns the number of established connections.
    pub(super) fn open(&self) -> usize {
        self.pool.lock().places.open()
    }

    #[inline]
    pub(super) fn issue(&self, samples: &[QuerySample], responder: &Responder) {
        match samples {
            [sample] => {
                let (shared, mut job) = (&self.pool.shared, Job::for_sample(sample));
                if let Some(nodes) = &shared.session_nodes {
                    job.node = nodes.node_of(&shared.requests, job.index);
                }
                self.pool.dispatch(job, responder);
            }
            samples => self.pool.dispatch_all(samples, responder),
        }
    }
}

impl Drop for Http1 {
    fn drop(&mut self) {
        self.pool.is_closing.store(true, Ordering::Release);
        self.pool.wake();
        for thread in self.threads.drain(..) {
            // A panic was already printed on standard error.
            let _ = thread.join();
        }
    }
}

impl PoolState {
    /// Takes an idle connection, to the given node if there is one.
    #[inline]
    fn take_idle(&mut self, node: Option<u16>) -> Option<Arc<Connection>> {
        if let Some(node) = node {
            return self.idle[usize::from(node)].pop().map(|(connection, _)| connection);
        }
        for _ in 0..self.idle.len() {
            let node = self.next_node;
            self.next_node = if node + 1 == self.idle.len() { 0 } else { node + 1 };
            if let Some((connection, _)) = self.idle[node].pop() {
                return Some(connection);
            }
        }
        None
    }

    /// Takes the longest-waiting sample that may go to a node.
    fn take_waiting(&mut self, node: usize) -> Option<(Job, Nanos)> {
        let at = self.waiting.iter().position(|(job, _)| job.may_go_to(node))?;
        self.waiting.remove(at)
    }

    /// Gives up a place of an event loop without a connection that no sample waits for.
    fn give_up_missing(&mut self, thread: usize, node: usize) -> bool {
        let missing = self.places.share_mut(thread, node).missing();
        if missing == 0 {
            return false;
        }
        let all = self.waiting.len();
        let own = self.waiting.iter().filter(|(job, _)| job.may_go_to(node));
        // More need not be counted.
        let own = own.take(self.places.wanted_at(node)).count();
        self.places.give_up_missing((thread, node), (all, own))
    }

    /// Takes an event loop's connection to a node that has been idle since before that time.
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
    fn shared(&self) -> &Arc<ClientCore> {
        &self.shared
    }

    fn failed(&self, job: Job, to: &Responder, failed: &FailedAttempt<'_>, at: Nanos) {
        if let Some(again) = self.shared.settle_failure(job, to, failed, at) {
            self.dispatch(again, to);
        }
    }
}

impl Pool {
    /// Locks the state, which is consistent even if a thread panicked.
    #[inline]
    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes all event loops. A loop that cannot be woken wakes up at its next tick.
    fn wake(&self) {
        for waker in &self.wakers {
            let _ = waker.wake();
        }
    }

    /// Queues samples for a connection, and opens more if permitted.
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
        let sticky = state.waiting.back().and_then(|(job, _)| job.node);
        let has_grown = match sticky {
            Some(node) => {
                let is_own = |(job, _): &&(Job, Nanos)| job.node == sticky;
                let own = state.waiting.iter().filter(is_own).count();
                state.places.grow_at(usize::from(node), own)
            }
            None => state.places.grow(waiting),
        };
        drop(state);
        if has_grown {
            self.wake();
        }
    }

    /// Sends a sample over a free connection, or queues it.
    #[inline]
    fn dispatch(&self, job: Job, responder: &Responder) {
        loop {
            let connection = {
                let mut state = self.lock();
                let Some(connection) = state.take_idle(job.node) else {
                    return self.wait(state, std::iter::once(job), responder);
                };
                connection
            };
            match self.send(&connection, (job, 0), responder) {
                SendOutcome::Away => return,
                SendOutcome::Answered => return self.release(connection, ReleaseCause::Answered),
                SendOutcome::Not => {}
            }
        }
    }

    /// Sends many samples as [`dispatch`](Self::dispatch) does; queues the rest at once.
    fn dispatch_all(&self, samples: &[QuerySample], responder: &Responder) {
        if samples.is_empty() {
            return;
        }
        let mut taken = Vec::new();
        {
            let mut state = self.lock();
            while taken.len() < samples.len()
                && let Some(connection) = state.take_idle(None)
            {
                taken.push(connection);
            }
            let rest = &samples[taken.len()..];
            if !rest.is_empty() {
                self.wait(state, rest.iter().map(Job::for_sample), responder);
            }
        }
        for (connection, sample) in taken.into_iter().zip(samples) {
            match self.send(&connection, (Job::for_sample(sample), 0), responder) {
                SendOutcome::Away => {}
                SendOutcome::Answered => self.release(connection, ReleaseCause::Answered),
                SendOutcome::Not => self.dispatch(Job::for_sample(sample), responder),
            }
        }
    }

    /// Passes a free connection to the longest-waiting sample, or to the idle ones.
    fn release(&self, connection: Arc<Connection>, freed: ReleaseCause) {
        loop {
            let mut state = self.lock();
            let Some((job, since)) = state.take_waiting(connection.node) else {
                let now = state.now;
                state.idle[connection.node].push((connection, now));
                return;
            };
            let (is_full, dialed_at) = (state.places.is_full(), state.dialed_at);
            let lacks_descriptors = state.lacks_descriptors;
            let is_connecting = state.places.is_connecting(state.waiting.len());
            let responder = if state.waiting.is_empty() {
                state.responder.take()
            } else {
                state.responder.clone()
            };
            drop(state);
            let responder = responder.expect("samples wait for somebody");
            if responder.is_over() {
                self.drop_waiting();
                continue;
            }
            let now = self.shared.clock.now();
            let (cause, connecting) = match freed {
                ReleaseCause::New { begun, ready } => {
                    (WaitCause::Connecting, ready.saturating_sub(begun.max(since)))
                }
                ReleaseCause::Answered if lacks_descriptors => (WaitCause::Queue, 0),
                ReleaseCause::Answered
                    if is_full && self.shared.options.max_in_flight.is_some() =>
                {
                    (WaitCause::Limit, 0)
                }
                // It would have waited longer for the connection that is opened for it.
                ReleaseCause::Answered if is_connecting => {
                    (WaitCause::Connecting, now.saturating_sub(dialed_at.max(since)))
                }
                ReleaseCause::Answered => (WaitCause::Queue, 0),
            };
            let span = now.saturating_sub(since);
            self.shared.note_wait(job, &responder, span, connection.thread, cause);
            match self.send(&connection, (job, connecting), &responder) {
                SendOutcome::Away => return,
                SendOutcome::Answered => {}
                // Its event loop notices that the connection is dead.
                SendOutcome::Not => return self.dispatch(job, &responder),
            }
        }
    }

    /// Writes the request of a sample to a connection on which no other thread writes. The connection
    /// took `connecting` ns of the sample's wait to be established, which is no delay of the client.
    #[inline]
    fn send(
        &self,
        connection: &Connection,
        (job, connecting): (Job, Nanos),
        responder: &Responder,
    ) -> SendOutcome {
        let request = self.shared.requests.for_node(job.index, connection.node);
        if let Some(wrong) = &request.wrong {
            let failed = FailedAttempt::unheard(wrong);
            self.failed(job, responder, &failed, self.shared.clock.now());
            return SendOutcome::Answered;
        }
        // Before the write: the answer may arrive before this thread continues.
        let sent_at = {
            let mut state = connection.state();
            if state.is_dead {
                return SendOutcome::Not;
            }
            let sent_at = self.shared.clock.now();
            state.flight = Some(Flight { job, responder: responder.clone(), sent_at });
            (state.is_sending, state.is_answered) = (true, false);
            sent_at
        };
        let written = connection.write(&request, 0);
        if let WriteOutcome::All = written {
            self.accepted(connection, (job, responder), &request, sent_at - connecting);
        }
        let mut state = connection.state();
        state.is_sending = false;
        match written {
            WriteOutcome::All if state.is_answered && !state.is_dead => SendOutcome::Answered,
            WriteOutcome::All => SendOutcome::Away,
            WriteOutcome::UpTo(from) if !state.is_answered && !state.is_dead => {
                let (responder, tried_at) = (responder.clone(), self.shared.clock.now());
                let sent_at = sent_at - connecting;
                let unsent = UnsentRequest { request, from, sent_at, tried_at, job, responder };
                state.unsent = Some(unsent);
                // The socket may have become writable meanwhile, which raises no further event.
                self.write_rest(connection, &mut state, tried_at);
                SendOutcome::Away
            }
            WriteOutcome::Broken(0) if state.flight.take().is_some() => {
                state.is_dead = true;
                drop(state);
                connection.shut_down();
                SendOutcome::Not
            }
            WriteOutcome::UpTo(_) | WriteOutcome::Broken(_) => {
                state.is_dead = true;
                drop(state);
                connection.shut_down();
                SendOutcome::Away
            }
        }
    }

    /// Continues a request that the socket did not take at once. The socket may have been writable since
    /// `ready`; that it was not before is no delay of the client.
    fn write_rest(&self, connection: &Connection, state: &mut connection::State, ready: Nanos) {
        let Some(unsent) = &mut state.unsent else { return };
        let now = self.shared.clock.now();
        unsent.sent_at += now.saturating_sub(ready.max(unsent.tried_at));
        match connection.write(&unsent.request, unsent.from) {
            WriteOutcome::All => {
                let asked = (unsent.job, &unsent.responder);
                self.accepted(connection, asked, &unsent.request, unsent.sent_at);
                state.unsent = None;
            }
            WriteOutcome::UpTo(from) => {
                (unsent.from, unsent.tried_at) = (from, self.shared.clock.now());
            }
            WriteOutcome::Broken(_) => {
                (state.is_dead, state.unsent) = (true, None);
                connection.shut_down();
            }
        }
    }

    /// Records that a socket took a request, whose first write began at `sent_at`, or later by the
    /// client's delays. The time after the write would include this thread's wait for a processor when
    /// the server, woken by the request, has taken its own.
    #[inline]
    fn accepted(
        &self,
        connection: &Connection,
        (job, responder): (Job, &Responder),
        request: &super::library::EncodedRequest,
        sent_at: Nanos,
    ) {
        let sent_at = responder.time_of(&self.shared.clock, sent_at);
        self.shared.accepted.stamp_first(job.id, sent_at);
        if job.tries > 0 {
            self.shared.retries.note_sent(job.id, sent_at);
        }
        let is_counted = responder.is_measured(job.id);
        self.shared.threads[connection.thread].request(request.len(connection.node), is_counted);
    }

    /// Drops the waiting samples of a run that was ended early.
    fn drop_waiting(&self) {
        let mut state = self.lock();
        if state.responder.as_ref().is_some_and(Responder::is_over) {
            state.waiting.clear();
            state.responder = None;
        }
    }

    /// Fails the samples that wait for a connection to a node: there is none, and none can be made.
    /// While another node has connections, those are the samples that must go to this one.
    fn node_failed(&self, node: usize, trouble: &Trouble) {
        let mut state = self.lock();
        if state.places.open() == 0 {
            drop(state);
            return self.waiting_failed(trouble);
        }
        if state.places.open_at(node) > 0 {
            return;
        }
        let all = std::mem::take(&mut state.waiting);
        let is_own = |(job, _): &(Job, Nanos)| job.node.is_some_and(|own| usize::from(own) == node);
        let (own, others) = all.into_iter().partition(is_own);
        state.waiting = others;
        let responder =
            if state.waiting.is_empty() { state.responder.take() } else { state.responder.clone() };
        drop(state);
        self.fail(&own, responder, trouble);
    }

    /// Fails all waiting samples.
    fn waiting_failed(&self, trouble: &Trouble) {
        let mut state = self.lock();
        let waiting = std::mem::take(&mut state.waiting);
        let responder = state.responder.take();
        drop(state);
        self.fail(&waiting, responder, trouble);
    }

    fn fail(
        &self,
        waiting: &VecDeque<(Job, Nanos)>,
        responder: Option<Responder>,
        trouble: &Trouble,
    ) {
        for (job, _) in waiting {
            self.shared.session_nodes.iter().for_each(|nodes| nodes.ended(job.node));
        }
        if let Some(responder) = responder.filter(|_| !waiting.is_empty()) {
            let ids: Vec<_> = waiting.iter().map(|(job, _)| job.id).collect();
            self.shared.counters.all_failed(trouble, ids.len() as u64);
            responder.fail(&ids, trouble.kind.failure());
        }
    }
}
