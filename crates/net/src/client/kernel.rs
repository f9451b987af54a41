//! Arrival times of received bytes, as recorded by the kernel.
//!
//! A client that waits for a processor, or is stopped, reads an answer long after it arrived and
//! attributes the delay to the answer. Where the system stamps received data (Linux:
//! `SO_TIMESTAMPNS`), each read reports how long its last byte had been available. Late reads are
//! kept so that a run can separate the client's delays from the server's.
//!
//! A late read may bring a token together with later data, such as the next token or `[DONE]`; the
//! stamp is that of the later data. How late the token can be follows from how long the thread had
//! waited for a processor. Where that does not explain the delay of the later data, the process was
//! stopped, which the kernel does not count; the token may then have come at any time since the thread
//! last looked for data.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use dyno_loadgen::clock::{Clock, Nanos};

/// Limits of recording: this many reads with at least this delay (ns), then only longer delays,
/// because the long ones show the effect of rare delays on a figure.
const KEPT: [(usize, Nanos); 3] = [(2 << 20, 5_000), (4 << 20, 50_000), (8 << 20, 500_000)];

/// A read of a socket at least 5 us after its bytes arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LateRead {
    /// Time of the read.
    pub at: Nanos,
    /// How long the last of its bytes had been available, in ns.
    pub waited: Nanos,
    /// How long the reading thread may not have run before, in ns: the first byte may be older than
    /// the last by this much. 0 if unknown.
    pub thread_waited: Nanos,
}

/// Late reads of a run, by the client's clock.
#[derive(Debug)]
pub(super) struct LateReads {
    reads: Mutex<Vec<LateRead>>,
    /// Delays below this are not kept.
    least: AtomicU64,
}

impl LateReads {
    pub(super) fn new() -> Self {
        Self { reads: Mutex::default(), least: AtomicU64::new(KEPT[0].1) }
    }

    /// Drops the reads of the previous run.
    pub(super) fn expect_run(&self) {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.least.store(KEPT[0].1, Relaxed);
    }

    /// Records a read by this thread at `at` of bytes that had waited this long, if that is long.
    #[inline]
    pub(super) fn note(&self, at: Nanos, waited: Nanos) {
        if waited >= self.least.load(Relaxed) {
            let thread_waited = RUN_DELAY.with_borrow_mut(|delay| delay.not_run(at, waited));
            self.keep(LateRead { at, waited, thread_waited });
        }
    }

    fn keep(&self, read: LateRead) {
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        reads.push(read);
        if KEPT.iter().any(|(most, _)| reads.len() == *most) {
            let next = KEPT.iter().find(|(most, _)| reads.len() < *most);
            self.least.store(next.map_or(Nanos::MAX, |(_, least)| *least), Relaxed);
        }
    }

    /// Returns the late reads of the last run with times by another clock.
    pub(super) fn by(&self, clock: &Clock, own: &Clock) -> Vec<LateRead> {
        let reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        reads.iter().map(|read| LateRead { at: clock.when(own, read.at), ..*read }).collect()
    }
}

thread_local! {
    static RUN_DELAY: RefCell<RunDelay> = RefCell::new(RunDelay::of_this_thread());
}

/// Records that this thread, which reads sockets, is about to wait for events.
pub(super) fn is_about_to_wait(now: Nanos) {
    RUN_DELAY.with_borrow_mut(|delay| delay.is_about_to_wait(now));
}

/// Returns how long this thread, which reads sockets, was ready to run without a processor since it last
/// waited for events, in ns; may include up to one more millisecond.
pub(super) fn ready_to_run() -> Nanos {
    RUN_DELAY.with_borrow_mut(RunDelay::since_wait)
}

/// Time that the owning thread was ready to run and waited for a processor, from Linux's
/// `/proc/thread-self/schedstat`.
#[derive(Debug)]
struct RunDelay {
    counter: Option<std::fs::File>,
    /// Last value of the counter and the time of that reading.
    before: (Nanos, Nanos),
    /// Growth since then, if already read.
    grown: Option<Nanos>,
    /// When the thread last looked for data.
    looked_at: Nanos,
}

impl RunDelay {
    /// Minimum time between two readings of the counter, each of which takes a microsecond or two.
    const BETWEEN: Nanos = dyno_loadgen::clock::MILLISECOND;

    /// Delay of data that a wait for a processor need not explain, in ns: taking several reads after one
    /// another takes some time.
    const UNEXPLAINED: Nanos = dyno_loadgen::clock::MILLISECOND / 10;

    /// Opens the counter of the calling thread.
    fn of_this_thread() -> Self {
        let counter = std::fs::File::open("/proc/thread-self/schedstat").ok();
        let mut new = Self { counter, before: (0, 0), grown: None, looked_at: 0 };
        new.before.0 = new.count();
        new
    }

    /// Records the counter; call it before the thread waits for events.
    fn is_about_to_wait(&mut self, now: Nanos) {
        (self.grown, self.looked_at) = (None, now);
        if self.counter.is_some() && now.saturating_sub(self.before.1) >= Self::BETWEEN {
            self.before = (self.count(), now);
        }
    }

    /// Returns for how long before a read at `at` the thread may not have run, if the last byte had
    /// been available for `waited`.
    fn not_run(&mut self, at: Nanos, waited: Nanos) -> Nanos {
        let grown = self.since_wait();
        if self.counter.is_some() && waited > grown + Self::UNEXPLAINED {
            at.saturating_sub(self.looked_at).max(grown)
        } else {
            grown
        }
    }

    /// Returns how long the thread has waited for a processor since it last waited for events; may
    /// include up to one more millisecond.
    fn since_wait(&mut self) -> Nanos {
        if let Some(grown) = self.grown {
            return grown;
        }
        let grown = self.count().saturating_sub(self.before.0);
        self.grown = Some(grown);
        grown
    }

    /// Returns the second number of `on a processor`, `ready and waiting`, `turns`; 0 if
    /// unavailable.
    fn count(&self) -> Nanos {
        let mut text = [0; 96];
        let Some(file) = &self.counter else { return 0 };
        let read = read_at_start(file, &mut text).unwrap_or(0);
        let text = std::str::from_utf8(&text[..read]).unwrap_or_default();
        let delay = text.split_whitespace().nth(1).and_then(|number| number.parse().ok());
        delay.unwrap_or(0)
    }
}

#[cfg(unix)]
fn read_at_start(file: &std::fs::File, buffer: &mut [u8]) -> std::io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, 0)
}

/// Other systems have no such file.
#[cfg(not(unix))]
fn read_at_start(_file: &std::fs::File, _buffer: &mut [u8]) -> std::io::Result<usize> {
    Ok(0)
}

pub(super) use system::{receive, stamp_arrivals};

#[cfg(target_os = "linux")]
mod system {
    use std::cell::RefCell;
    use std::io::{self, IoSliceMut};
    use std::os::fd::{AsFd, AsRawFd};

    use dyno_loadgen::clock::{Nanos, SECOND, WallTime};
    use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
    use nix::sys::time::TimeSpec;

    thread_local! {
        /// Memory for the ancillary data of reads.
        static BESIDE: RefCell<Vec<u8>> = RefCell::new(nix::cmsg_space!(TimeSpec));
    }

    /// Asks the kernel to stamp arrivals; failure only means that they are unknown.
    pub(in super::super) fn stamp_arrivals(socket: &impl AsFd) {
        let _ = setsockopt(socket, sockopt::ReceiveTimestampns, &true);
    }

    /// Reads available bytes. Returns their number and how long the last of them had been
    /// available, in ns; 0 if unknown.
    pub(in super::super) fn receive(
        socket: &impl AsFd,
        buffer: &mut [u8],
    ) -> io::Result<(usize, Nanos)> {
        BESIDE.with_borrow_mut(|beside| {
            let mut parts = [IoSliceMut::new(buffer)];
            let fd = socket.as_fd().as_raw_fd();
            let read = recvmsg::<()>(fd, &mut parts, Some(beside), MsgFlags::empty())?;
            let came_at = read.cmsgs().ok().and_then(|mut beside| {
                beside.find_map(|message| match message {
                    ControlMessageOwned::ScmTimestampns(time) => Some(unix_ns(time)),
                    _ => None,
                })
            });
            // Setting the clock in between gives wrong values; negative ones are dropped.
            let waited = came_at.map_or(0, |at| WallTime::now().unix_ns.saturating_sub(at));
            Ok((read.bytes, waited))
        })
    }

    fn unix_ns(time: TimeSpec) -> Nanos {
        let (seconds, ns) = (time.tv_sec().cast_unsigned(), time.tv_nsec().cast_unsigned());
        seconds.saturating_mul(SECOND).saturating_add(ns)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io::{self, Read};

    use dyno_loadgen::clock::Nanos;

    /// Does nothing: other systems do not report arrival times.
    pub(in super::super) fn stamp_arrivals<S>(_socket: &S) {}

    /// Reads available bytes.
    pub(in super::super) fn receive<S>(socket: &S, buffer: &mut [u8]) -> io::Result<(usize, Nanos)>
    where
        for<'a> &'a S: Read,
    {
        let mut socket = socket;
        socket.read(buffer).map(|n| (n, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_reads_are_kept_the_later_they_have_to_be() {
        let (late, clock) = (LateReads::new(), Clock::start());
        (0..KEPT[0].0 as u64).for_each(|at| late.note(at, 6_000));
        for waited in [4_000, 49_000, 50_000, 80_000] {
            late.note(waited, waited);
        }
        let kept = |skipped: usize| -> Vec<(Nanos, Nanos)> {
            let reads = late.by(&clock, &clock);
            reads[skipped..].iter().map(|read| (read.at, read.waited)).collect()
        };
        assert_eq!(kept(KEPT[0].0), [(50_000, 50_000), (80_000, 80_000)]);
        late.expect_run();
        late.note(1, 6_000);
        assert_eq!(kept(0), [(1, 6_000)]);
    }

    #[test]
    fn a_late_read_has_the_wait_of_its_thread() {
        let (late, clock) = (LateReads::new(), Clock::start());
        RUN_DELAY.with_borrow_mut(|delay| delay.grown = Some(7));
        late.note(1, 50_000);
        let kept = late.by(&clock, &clock);
        assert_eq!(kept, [LateRead { at: 1, waited: 50_000, thread_waited: 7 }]);
    }

    #[cfg(unix)]
    #[test]
    fn a_delay_that_no_wait_explains_may_have_begun_with_the_last_look() {
        let text = std::env::temp_dir().join(format!("dyno-stopped-{}", std::process::id()));
        std::fs::write(&text, "900 100 3\n").unwrap();
        let counter = std::fs::File::open(&text).ok();
        let mut delay =
            RunDelay { counter, before: (100, 0), grown: Some(50_000), looked_at: 1_000 };
        // The thread waited for a processor as long as the data did.
        assert_eq!(delay.not_run(5_000_000, 60_000), 50_000);
        // It was stopped.
        assert_eq!(delay.not_run(5_000_000, 740_000), 4_999_000);
        delay.counter = None;
        assert_eq!(delay.not_run(5_000_000, 740_000), 50_000);
        std::fs::remove_file(&text).unwrap();
    }

    #[test]
    fn a_delay_counts_from_the_last_wait_on() {
        let text = std::env::temp_dir().join(format!("dyno-schedstat-{}", std::process::id()));
        let set = |delay: u64| std::fs::write(&text, format!("900 {delay} 3\n")).unwrap();
        set(100);
        let counter = std::fs::File::open(&text).ok();
        let mut delay = RunDelay { counter, before: (40, 0), grown: None, looked_at: 0 };
        assert_eq!(delay.since_wait(), if cfg!(unix) { 60 } else { 0 });
        // Too soon for another look: what was seen before counts once more.
        delay.is_about_to_wait(RunDelay::BETWEEN - 1);
        set(130);
        assert_eq!(delay.since_wait(), if cfg!(unix) { 90 } else { 0 });
        delay.is_about_to_wait(RunDelay::BETWEEN);
        set(180);
        assert_eq!(delay.since_wait(), if cfg!(unix) { 50 } else { 0 });
        set(500);
        assert_eq!(delay.since_wait(), if cfg!(unix) { 50 } else { 0 }, "until the next wait");
        std::fs::remove_file(&text).unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_read_knows_how_long_its_bytes_had_been_there() {
        use std::io::Write as _;

        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        stamp_arrivals(&receiver);
        // The system may need some time until it stamps.
        let mut buffer = [0; 8];
        let found = (0..100).find_map(|_| {
            sender.write_all(b"bytes").unwrap();
            std::thread::park_timeout(std::time::Duration::from_millis(20));
            let (n, waited) = receive(&receiver, &mut buffer).unwrap();
            assert_eq!(&buffer[..n], b"bytes");
            (waited > 1_000_000).then_some(waited)
        });
        assert!(found.is_some(), "Linux stamps what arrives");
    }
}
