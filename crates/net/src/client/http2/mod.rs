//! HTTP/2: samples as streams, many per connection, on threads with one runtime each.

mod arrivals;
mod blocked;
mod growth;
mod keep;
mod link;
mod metered;
mod outage;
mod stream;

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::drive::real::Responder;
use dyno_loadgen::sut::QuerySample;
use tokio::sync::Notify;

use super::answering::Carrier;
use super::statistics::ThreadCounters;
use super::{ClientCore, FailedAttempt, Job, WaitCause, kernel, make_room};
use crate::client::backoff::DialState;
use crate::trouble::Trouble;
use growth::Growth;
use link::Link;
use outage::Outage;

/// Lanes: threads with their own connections, used in turn.
pub(super) struct Http2 {
    lanes: Vec<Arc<Lane>>,
    threads: Vec<JoinHandle<()>>,
    /// Next lane in turn.
    next: AtomicUsize,
}

/// A thread of the client and the state that it shares with issuing threads.
pub(super) struct Lane {
    shared: Arc<ClientCore>,
    thread: usize,
    /// Samples that wait for a stream.
    mailbox: Mutex<Mailbox>,
    /// Notified when a sample or a place for one is available.
    work: Notify,
    is_closing: AtomicBool,
    /// Open streams.
    streams: AtomicUsize,
    /// Time at which a sample last waited for the limit of concurrent requests, by the client's
    /// clock.
    limited_at: AtomicU64,
    /// Time at which no connection had room for a stream, by the client's clock.
    crowded_at: AtomicU64,
    /// Time at which part of an answer was last received, by the client's clock.
    heard_at: AtomicU64,
    /// State that only this lane's thread uses.
    own: Mutex<LaneState>,
    settled: Condvar,
}

#[derive(Default)]
struct Mailbox {
    waiting: VecDeque<(Job, Nanos)>,
    /// Responder of the waiting samples' run; kept only while there are any.
    responder: Option<Responder>,
}

#[derive(Default)]
struct LaneState {
    /// Connections with room for one more stream, used in turn.
    with_room: VecDeque<Arc<Link>>,
    /// Established connections.
    links: Vec<Arc<Link>>,
    /// Since when no connection permits any stream while samples wait, by the client's clock.
    blocked_since: Option<Nanos>,
    open: usize,
    outage: Outage,
    /// Connections that are neither established nor known to fail.
    unsettled: usize,
    growth: Growth,
    dialed: Vec<DialState>,
}

impl Http2 {
    pub(super) fn start(shared: &Arc<ClientCore>) -> io::Result<Self> {
        let mut http2 = Self { lanes: Vec::new(), threads: Vec::new(), next: AtomicUsize::new(0) };
        // A single lane counts all streams if their number is limited, and has all connections.
        let is_limited = shared.options.max_in_flight.is_some();
        let lanes = if is_limited { 1 } else { shared.threads.len() };
        for thread in 0..lanes {
            let clock = shared.clock;
            let runtime = tokio::runtime::Builder::new_current_thread()
                .on_thread_park(move || kernel::is_about_to_wait(clock.now()))
                .enable_all()
                .build()?;
            let nodes = shared.nodes.len();
            let connections = 0..nodes * shared.options.connections;
            let mine = connections.filter(|n| n / nodes % lanes == thread);
            let mine: Vec<usize> = mine.map(|number| number % nodes).collect();
            if mine.is_empty() {
                continue;
            }
            let lane = Arc::new(Lane {
                shared: shared.clone(),
                thread,
                mailbox: Mutex::default(),
                work: Notify::new(),
                is_closing: AtomicBool::new(false),
                streams: AtomicUsize::new(0),
                limited_at: AtomicU64::new(0),
                crowded_at: AtomicU64::new(0),
                heard_at: AtomicU64::new(0),
                own: Mutex::new(LaneState {
                    dialed: shared.nodes.iter().map(|_| DialState::default()).collect(),
                    growth: Growth::new(mine, nodes),
                    ..LaneState::default()
                }),
                settled: Condvar::new(),
            });
            let first = if shared.options.grows { nodes } else { usize::MAX };
            lane.own().provide(first);
            http2.lanes.push(lane.clone());
            let builder = std::thread::Builder::new().name(format!("net-client-{thread}"));
            http2.threads.push(builder.spawn(move || {
                runtime.block_on(lane.run());
                // Tasks hold the lane and end with the runtime.
                drop(runtime);
            })?);
        }
        Ok(http2)
    }

    pub(super) fn prepare(&self, samples: usize) {
        let longest = Duration::from_nanos(self.lanes[0].shared.options.connect_limit);
        for lane in &self.lanes {
            let mut mailbox = lane.mailbox();
            make_room(&mut mailbox.waiting, samples.div_ceil(self.lanes.len()));
            mailbox.responder = None;
            drop(mailbox);
            let is_unsettled = |own: &mut LaneState| own.unsettled > 0;
            let waited = lane.settled.wait_timeout_while(lane.own(), longest, is_unsettled);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }

    pub(super) fn open(&self) -> usize {
        self.lanes.iter().map(|lane| lane.own().open).sum()
    }

    pub(super) fn issue(&self, samples: &[QuerySample], responder: &Responder) {
        let lanes = self.lanes.len();
        let first = self.next.fetch_add(samples.len(), Ordering::Relaxed);
        for (turn, lane) in self.lanes.iter().cycle().skip(first % lanes).take(lanes).enumerate() {
            let share = samples.iter().skip(turn).step_by(lanes);
            if share.len() > 0 {
                lane.take(share.map(Job::for_sample), responder);
            }
        }
    }
}

impl Drop for Http2 {
    fn drop(&mut self) {
        for lane in &self.lanes {
            lane.is_closing.store(true, Ordering::Release);
            lane.work.notify_one();
        }
        for thread in self.threads.drain(..) {
            // A panic was already printed on standard error.
            let _ = thread.join();
        }
    }
}

impl Carrier for Lane {
    fn shared(&self) -> &Arc<ClientCore> {
        &self.shared
    }

    fn failed(&self, job: Job, to: &Responder, failed: &FailedAttempt<'_>, at: Nanos) {
        if let Some(again) = self.shared.settle_failure(job, to, failed, at) {
            self.take(std::iter::once(again), to);
        }
    }
}

impl Lane {
    fn mailbox(&self) -> MutexGuard<'_, Mailbox> {
        self.mailbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn own(&self) -> MutexGuard<'_, LaneState> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counters(&self) -> &ThreadCounters {
        &self.shared.threads[self.thread]
    }

    /// Takes samples from an issuing thread.
    fn take(&self, jobs: impl Iterator<Item = Job>, responder: &Responder) {
        let now = self.shared.clock.now();
        let mut mailbox = self.mailbox();
        mailbox.waiting.extend(jobs.map(|job| (job, now)));
        mailbox.responder = Some(responder.clone());
        drop(mailbox);
        self.work.notify_one();
    }

    async fn run(self: &Arc<Self>) {
        /// Streams opened before the connections get their turn to write.
        const AT_ONCE: usize = 64;
        let tick = Duration::from_millis(20);
        let mut checked_at = 0;
        while !self.is_closing.load(Ordering::Acquire) {
            let now = self.shared.clock.now();
            if u128::from(now.saturating_sub(checked_at)) >= tick.as_nanos() {
                checked_at = now;
                self.check_permissions(now);
            }
            for (job, responder) in self.shared.due_retries(now) {
                self.take(std::iter::once(job), &responder);
            }
            self.grow();
            let mut opened = 0;
            while opened < AT_ONCE && self.open_stream() {
                opened += 1;
            }
            self.counters().note_cpu_time();
            if opened == AT_ONCE {
                tokio::task::yield_now().await;
            } else {
                let retry = self.shared.retries.next().map_or(Nanos::MAX, |due| due - now.min(due));
                let pause = tick.min(Duration::from_nanos(retry));
                // A timeout is as good as work: it records CPU time.
                let _ = tokio::time::timeout(pause, self.work.notified()).await;
            }
        }
    }

    /// Opens a stream for the longest-waiting sample; returns false if there is no sample or no
    /// place for it.
    fn open_stream(self: &Arc<Self>) -> bool {
        let limit = self.shared.options.max_in_flight;
        if limit.is_some_and(|limit| self.streams.load(Ordering::Relaxed) >= limit.get()) {
            self.limited_at.store(self.shared.clock.now(), Ordering::Relaxed);
            return false;
        }
        let link = {
            let mut own = self.own();
            loop {
                let Some(link) = own.with_room.front() else {
                    self.crowded_at.store(self.shared.clock.now(), Ordering::Relaxed);
                    return false;
                };
                if link.has_room(&self.shared) {
                    break link.clone();
                }
                link.is_listed.store(false, Ordering::Relaxed);
                own.with_room.pop_front();
            }
        };
        let mut mailbox = self.mailbox();
        let Some((job, since)) = mailbox.waiting.pop_front() else { return false };
        let responder = if mailbox.waiting.is_empty() {
            mailbox.responder.take()
        } else {
            mailbox.responder.clone()
        };
        drop(mailbox);
        let responder = responder.expect("samples wait for somebody");
        if responder.is_over() {
            self.drop_waiting();
            // Later samples come with their own notification.
            return false;
        }
        let span = self.shared.clock.now().saturating_sub(since);
        let (mut connecting, crowded_since) = {
            let mut own = self.own();
            // Moved to the end: the next stream uses another connection.
            own.with_room.rotate_left(1);
            (own.outage.part_of_wait(since), own.outage.ended().max(since))
        };
        let cause = if self.limited_at.load(Ordering::Relaxed) > since {
            // The limit held it until now, which is no delay of the client already.
            connecting = 0;
            Some(WaitCause::Limit)
        } else if span <= WAIT_OF_NOTE {
            None
        } else if self.crowded_at.load(Ordering::Relaxed) > crowded_since {
            Some(WaitCause::Queue)
        } else {
            // A sample that waited for this thread alone is late, but waited for no connection.
            (connecting > 0).then_some(WaitCause::Connecting)
        };
        if let Some(cause) = cause {
            self.shared.note_wait(job, &responder, span, self.thread, cause);
        }
        stream::open(self, link, (job, connecting), responder);
        true
    }

    /// Drops the waiting samples of a run that was ended early.
    fn drop_waiting(&self) {
        let mut mailbox = self.mailbox();
        if mailbox.responder.as_ref().is_some_and(Responder::is_over) {
            mailbox.waiting.clear();
            mailbox.responder = None;
        }
    }

    /// Lists a connection that may have room again.
    fn list(&self, link: &Arc<Link>) {
        if !link.is_listed.load(Ordering::Relaxed) && link.has_room(&self.shared) {
            link.is_listed.store(true, Ordering::Relaxed);
            self.own().with_room.push_back(link.clone());
        }
        self.work.notify_one();
    }

    fn hears(&self) {
        self.heard_at.store(self.shared.clock.now(), Ordering::Relaxed);
    }

    /// Returns whether no part of any answer came for a whole time limit.
    fn is_silent(&self) -> bool {
        let limit = self.shared.options.time_limit.unwrap_or(Nanos::MAX);
        self.heard_at.load(Ordering::Relaxed) <= self.shared.clock.now().saturating_sub(limit)
    }

    /// Fails all waiting samples.
    fn waiting_failed(&self, trouble: &Trouble, only_if_none_is_open: bool) {
        if only_if_none_is_open && self.own().open > 0 {
            return;
        }
        let Mailbox { waiting, responder } = std::mem::take(&mut *self.mailbox());
        if let Some(responder) = responder {
            let ids: Vec<_> = waiting.iter().map(|(job, _)| job.id).collect();
            self.shared.counters.all_failed(trouble, ids.len() as u64);
            responder.fail(&ids, trouble.kind.failure());
        }
    }
}

/// Least wait for a stream that is recorded. Handing a sample from thread to thread takes some
/// microseconds, and longer if the thread is busy.
const WAIT_OF_NOTE: Nanos = 1_000_000;
