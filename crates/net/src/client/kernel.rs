//! What the kernel knows of the bytes that a socket delivers: when they came.
//!
//! A client that waits for a processor, or is stopped, reads an answer long after it came, and
//! takes that for the time of the answer. Where the system stamps what it receives (Linux:
//! `SO_TIMESTAMPNS`), each read tells how long its last byte had been there. Reads that were late
//! are kept, so that a run can tell the client's delays from the server's.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use dyno_loadgen::clock::{Clock, Nanos};

/// Reads that came later than this behind their bytes are kept: a quarter of what figures may
/// differ by before anybody calls them wrong.
const LATE: Nanos = 50_000;
/// So many late reads are kept. Beyond that the shorter half of them is dropped.
const MOST: usize = 1 << 20;

/// Reads of sockets that came late: when, by the client's clock, and how late.
#[derive(Debug)]
pub(super) struct LateReads {
    reads: Mutex<Vec<(Nanos, Nanos)>>,
    /// Shorter delays are not kept.
    least: AtomicU64,
}

impl LateReads {
    pub(super) fn new() -> Self {
        Self { reads: Mutex::default(), least: AtomicU64::new(LATE) }
    }

    /// Forgets the reads of the run before.
    pub(super) fn expect_run(&self) {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.least.store(LATE, Relaxed);
    }

    /// Notes a read at `at` of bytes that had waited for so long.
    #[inline]
    pub(super) fn note(&self, at: Nanos, waited: Nanos) {
        if waited >= self.least.load(Relaxed) {
            self.keep(at, waited);
        }
    }

    #[cold]
    fn keep(&self, at: Nanos, waited: Nanos) {
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        if reads.len() >= MOST {
            let mut delays: Vec<Nanos> = reads.iter().map(|(_, waited)| *waited).collect();
            let (_, &mut median, _) = delays.select_nth_unstable(MOST / 2);
            reads.retain(|(_, waited)| *waited > median);
            self.least.store(median + 1, Relaxed);
        }
        reads.push((at, waited));
    }

    /// The late reads of the last run by another clock: when, and how late.
    pub(super) fn by(&self, clock: &Clock, own: &Clock) -> Vec<(Nanos, Nanos)> {
        let reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        reads.iter().map(|(at, waited)| (clock.when(own, *at), *waited)).collect()
    }
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
        /// Memory for what the kernel tells beside the bytes.
        static BESIDE: RefCell<Vec<u8>> = RefCell::new(nix::cmsg_space!(TimeSpec));
    }

    /// Asks the kernel to note when bytes come. Where it cannot, nothing is known of that.
    pub(in super::super) fn stamp_arrivals(socket: &impl AsFd) {
        let _ = setsockopt(socket, sockopt::ReceiveTimestampns, &true);
    }

    /// Reads what there is. Returns how many bytes, and how long the last of them had been there,
    /// ns; 0 where that is not known.
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
            // A clock that is set in between gives nonsense, of which the half is not believed.
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

    /// Elsewhere nothing is known of when bytes came.
    pub(in super::super) fn stamp_arrivals<S>(_socket: &S) {}

    /// Reads what there is.
    pub(in super::super) fn receive<S>(socket: &S, buffer: &mut [u8]) -> io::Result<(usize, Nanos)>
    where
        for<'a> &'a S: Read,
    {
        let mut socket = socket;
        socket.read(buffer).map(|n| (n, 0))
    }
}
