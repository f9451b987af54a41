//! Threads that parse large answers on behalf of the threads that read sockets.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use dyno_loadgen::clock::{MILLISECOND, Nanos};
use http::HeaderMap;

use super::answering::{Carrier, PendingAnswer};
use super::statistics::thread_cpu_time;
use crate::exchange::Fields;
use crate::protocol::Reader;
use crate::trouble::Trouble;

/// Maximum number of threads; more would take cores from socket reading.
const MOST_THREADS: usize = 4;
/// Maximum bytes that wait to be parsed, which bounds memory; further reads block.
const MOST_BYTES: usize = 256 << 20;

/// An answer in progress is collected up to this size, or for this time, before it is parsed,
/// because a parser thread takes memory bandwidth and time from the reading thread.
const BATCH_BYTES: usize = 8 << 20;
const BATCH_TIME: Nanos = 10 * MILLISECOND;

/// Parser threads, which start with the first large answer.
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
    /// How often, and for how many ns, a reading thread waited for room.
    waits: AtomicU64,
}

#[derive(Default)]
struct State {
    answers: VecDeque<Arc<OffloadedAnswer>>,
    /// Bytes that wait or are being parsed.
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
                assert!(thread > 0 || started.is_ok(), "cannot start a parser thread");
            }
            queue
        })
    }

    /// Returns the CPU time of all threads, in ns.
    pub(super) fn cpu_ns(&self) -> Nanos {
        let times = self.queue.get().map(|queue| &queue.cpu_ns);
        times.into_iter().flatten().map(|ns| ns.load(Ordering::Relaxed)).sum()
    }

    /// Returns how often a reading thread waited because too much was queued.
    pub(super) fn waits(&self) -> u64 {
        self.queue.get().map_or(0, |queue| queue.waits.load(Ordering::Relaxed))
    }
}

/// Queued answers are still parsed; their samples may belong to a finished run.
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
    /// Locks the state, which is consistent even if a thread panicked.
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

    /// Waits until there is room for this many bytes; a single answer always has room.
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

    fn add(&self, away: Arc<OffloadedAnswer>) {
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

/// Gives the calling thread a tenth of the normal weight if the system has thread priorities:
/// parsing an answer later loses no time, but reading it later shifts its timestamps.
fn yield_to_readers() {
    #[cfg(target_os = "linux")]
    {
        let thread = rustix::thread::gettid();
        // On failure the thread keeps its normal weight.
        let _ = rustix::process::setpriority_process(Some(thread), 10);
    }
}

/// An answer that is read on a parser thread: by one thread at a time, in the order of its pieces.
pub(super) struct OffloadedAnswer {
    carrier: Arc<dyn Carrier>,
    inbox: Mutex<Inbox>,
    /// `None` once the answer was handed over or has failed.
    answering: Mutex<Option<PendingAnswer>>,
    /// Set once it is known: `None` if the answer declared itself complete, otherwise its trouble.
    found: OnceLock<Option<Trouble>>,
}

#[derive(Default)]
struct Inbox {
    pieces: VecDeque<Piece>,
    /// Bytes received since the last parse, and the time of the first of them.
    bytes: usize,
    since: Option<Nanos>,
    /// Whether it is queued or being parsed.
    is_queued: bool,
}

enum Piece {
    /// Bytes and the time of their read.
    Data(Bytes, Nanos),
    /// The end, with any trailers.
    End(Option<HeaderMap>, Nanos),
    /// The rest will not come.
    Broke(Trouble, Nanos),
}

impl OffloadedAnswer {
    pub(super) fn new<C: Carrier + 'static>(carrier: Arc<C>) -> Arc<Self> {
        Arc::new(Self {
            carrier,
            inbox: Mutex::default(),
            answering: Mutex::default(),
            found: OnceLock::new(),
        })
    }

    pub(super) fn take(&self, answering: PendingAnswer) {
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

    /// Returns whether the answer is known to have declared itself complete; an error if it is
    /// known to be invalid.
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

    /// Parses the received data now, although more may come.
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

    /// Reads all pending pieces.
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

    /// Reads a piece; returns the reader when the answer is over.
    fn read(&self, answering: &mut Option<PendingAnswer>, piece: Piece) -> Option<Box<dyn Reader>> {
        let carrier = &*self.carrier;
        let is_done = self.found() == Ok(true);
        match piece {
            Piece::Data(bytes, at) => {
                match answering.as_mut()?.data(carrier.shared(), &bytes, at) {
                    Ok(false) => None,
                    Ok(true) => {
                        let _ = self.found.set(None);
                        None
                    }
                    // What comes after the answer declared itself complete cannot make it invalid.
                    Err(_) if is_done => None,
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
            Piece::Broke(trouble, at) => {
                let answering = answering.take()?;
                Some(if is_done {
                    answering.end(carrier, None, at)
                } else {
                    answering.broke(carrier, &trouble, at)
                })
            }
        }
    }
}
