//! Threads that parse large answers, so that the threads that read sockets do not.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use dyno_loadgen::clock::{MILLISECOND, Nanos};
use http::HeaderMap;

use super::answering::{Answering, Carrier};
use super::seen::thread_cpu_time;
use crate::exchange::Fields;
use crate::protocol::Reader;
use crate::trouble::Trouble;

/// More threads would take the cores that read sockets.
const MOST_THREADS: usize = 4;
/// While so many bytes wait to be parsed, who brings more waits: memory is bounded.
const MOST_BYTES: usize = 256 << 20;

/// While an answer comes, so much of it is collected before it is parsed, by its bytes or by the
/// time in which they came: a thread that parses takes memory and time from the one that reads.
const BATCH_BYTES: usize = 8 << 20;
const BATCH_TIME: Nanos = 10 * MILLISECOND;

/// The threads, which start with the first large answer.
#[derive(Default)]
pub(super) struct Parsers {
    queue: OnceLock<Arc<Queue>>,
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    /// Notified when there is work.
    work: Condvar,
    /// Notified when there is room for more bytes.
    room: Condvar,
    /// By thread: CPU time, in ns.
    cpu_ns: [AtomicU64; MOST_THREADS],
    /// How often, and for how many ns, a thread that reads sockets waited for room.
    waits: AtomicU64,
}

#[derive(Default)]
struct State {
    answers: VecDeque<Arc<Away>>,
    /// Bytes that wait or are parsed.
    bytes: usize,
    is_closing: bool,
}

impl Parsers {
    fn queue(&self) -> &Arc<Queue> {
        self.queue.get_or_init(|| {
            let queue = Arc::new(Queue::default());
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            for thread in 0..cores.clamp(1, MOST_THREADS) {
                let own = queue.clone();
                let builder = std::thread::Builder::new().name(format!("net-parser-{thread}"));
                let started = builder.spawn(move || own.run(thread));
                assert!(thread > 0 || started.is_ok(), "the system starts no thread to parse on");
            }
            queue
        })
    }

    /// Returns the CPU time of all threads, in ns.
    pub(super) fn cpu_ns(&self) -> Nanos {
        let times = self.queue.get().map(|queue| &queue.cpu_ns);
        times.into_iter().flatten().map(|ns| ns.load(Ordering::Relaxed)).sum()
    }

    /// Returns how often a thread that reads sockets waited because too much was to be parsed.
    pub(super) fn waits(&self) -> u64 {
        self.queue.get().map_or(0, |queue| queue.waits.load(Ordering::Relaxed))
    }
}

/// What is queued is parsed; its samples may belong to a run that is over.
impl Drop for Parsers {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.get() {
            queue.lock().is_closing = true;
            queue.work.notify_all();
            queue.room.notify_all();
        }
    }
}

impl Queue {
    /// The state is consistent wherever a thread may have panicked.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, thread: usize) {
        yield_to_readers();
        let mut state = self.lock();
        loop {
            if let Some(away) = state.answers.pop_front() {
                drop(state);
                away.work(self);
                drop(away);
                self.cpu_ns[thread].store(thread_cpu_time(), Ordering::Relaxed);
                state = self.lock();
            } else if state.is_closing {
                return;
            } else {
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Waits until there is room for so many bytes, which one answer alone always has.
    fn make_room(&self, bytes: usize) {
        let is_full = |state: &mut State| {
            state.bytes > 0 && state.bytes + bytes > MOST_BYTES && !state.is_closing
        };
        let mut state = self.lock();
        if is_full(&mut state) {
            self.waits.fetch_add(1, Ordering::Relaxed);
            let waited = self.room.wait_while(state, is_full);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state.bytes += bytes;
    }

    fn add(&self, away: Arc<Away>) {
        self.lock().answers.push_back(away);
        self.work.notify_one();
    }

    fn parsed(&self, bytes: usize) {
        if bytes > 0 {
            self.lock().bytes -= bytes;
            self.room.notify_all();
        }
    }
}

/// Gives the calling thread a tenth of the weight of others, where the system has priorities of
/// threads: no time is lost if an answer is parsed later, and one that is read later has a later
/// time.
fn yield_to_readers() {
    #[cfg(target_os = "linux")]
    {
        let thread = rustix::thread::gettid();
        // Without it the thread has the weight of others.
        let _ = rustix::process::setpriority_process(Some(thread), 10);
    }
}

/// An answer that is read on a thread for parsing: one at a time, in the order of its pieces.
pub(super) struct Away {
    carrier: Arc<dyn Carrier>,
    inbox: Mutex<Inbox>,
    /// Gone when the answer was handed over or has failed.
    answering: Mutex<Option<Answering>>,
    /// What is known of it: complete by its own word, or the trouble with it.
    found: OnceLock<Option<Trouble>>,
}

#[derive(Default)]
struct Inbox {
    pieces: VecDeque<Piece>,
    /// Bytes that came since it was last worked on, and when the first of them were read.
    bytes: usize,
    since: Option<Nanos>,
    /// Whether it stands in the queue, or a thread works on it.
    is_queued: bool,
}

enum Piece {
    /// Bytes, and when they were read.
    Data(Bytes, Nanos),
    /// The end, with trailers where there were some.
    End(Option<HeaderMap>, Nanos),
    /// The rest will not come.
    Broke(Trouble, Nanos),
}

impl Away {
    pub(super) fn new<C: Carrier + 'static>(carrier: Arc<C>) -> Arc<Self> {
        Arc::new(Self {
            carrier,
            inbox: Mutex::default(),
            answering: Mutex::default(),
            found: OnceLock::new(),
        })
    }

    pub(super) fn take(&self, answering: Answering) {
        *self.answering.lock().unwrap_or_else(PoisonError::into_inner) = Some(answering);
    }

    pub(super) fn data(self: &Arc<Self>, bytes: Bytes, at: Nanos) {
        self.carrier.shared().parsers.queue().make_room(bytes.len());
        self.push(Piece::Data(bytes, at));
    }

    pub(super) fn end(self: &Arc<Self>, trailers: Option<HeaderMap>, at: Nanos) {
        self.push(Piece::End(trailers, at));
    }

    pub(super) fn broke(self: &Arc<Self>, trouble: Trouble, at: Nanos) {
        self.push(Piece::Broke(trouble, at));
    }

    /// Whether the answer is known to be complete by its own word; its trouble, where it is
    /// known not to be an answer.
    pub(super) fn found(&self) -> Result<bool, Trouble> {
        match self.found.get() {
            None => Ok(false),
            Some(None) => Ok(true),
            Some(Some(trouble)) => Err(trouble.clone()),
        }
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(self: &Arc<Self>, piece: Piece) {
        let mut inbox = self.inbox();
        let goes_on = match &piece {
            Piece::Data(bytes, at) => {
                inbox.bytes += bytes.len();
                let since = *inbox.since.get_or_insert(*at);
                inbox.bytes < BATCH_BYTES && at.saturating_sub(since) < BATCH_TIME
            }
            Piece::End(..) | Piece::Broke(..) => false,
        };
        inbox.pieces.push_back(piece);
        if !goes_on {
            self.queue_up(inbox);
        }
    }

    /// Has what has come parsed now, although more may come.
    pub(super) fn nudge(self: &Arc<Self>) {
        let inbox = self.inbox();
        if !inbox.pieces.is_empty() {
            self.queue_up(inbox);
        }
    }

    fn queue_up(self: &Arc<Self>, mut inbox: MutexGuard<'_, Inbox>) {
        if !std::mem::replace(&mut inbox.is_queued, true) {
            drop(inbox);
            self.carrier.shared().parsers.queue().add(self.clone());
        }
    }

    /// Reads all pieces that there are.
    fn work(&self, queue: &Queue) {
        let mut answering = self.answering.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let piece = {
                let mut inbox = self.inbox();
                let Some(piece) = inbox.pieces.pop_front() else {
                    *inbox = Inbox::default();
                    return;
                };
                piece
            };
            let bytes = match &piece {
                Piece::Data(bytes, _) => bytes.len(),
                Piece::End(..) | Piece::Broke(..) => 0,
            };
            if let Some(reader) = self.read(&mut answering, piece) {
                self.carrier.shared().keep(reader);
            }
            queue.parsed(bytes);
        }
    }

    /// Reads a piece; the reader is returned when the answer is over.
    fn read(&self, answering: &mut Option<Answering>, piece: Piece) -> Option<Box<dyn Reader>> {
        let carrier = &*self.carrier;
        match piece {
            Piece::Data(bytes, at) => {
                match answering.as_mut()?.data(carrier.shared(), &bytes, at) {
                    Ok(false) => None,
                    Ok(true) => {
                        let reader = answering.take()?.end(carrier, None, at);
                        let _ = self.found.set(None);
                        Some(reader)
                    }
                    Err(trouble) => {
                        let reader = answering.take()?.broke(carrier, &trouble, at);
                        let _ = self.found.set(Some(trouble));
                        Some(reader)
                    }
                }
            }
            Piece::End(trailers, at) => {
                let trailers = trailers.as_ref().map(|fields| fields as &dyn Fields);
                Some(answering.take()?.end(carrier, trailers, at))
            }
            Piece::Broke(trouble, at) => Some(answering.take()?.broke(carrier, &trouble, at)),
        }
    }
}
