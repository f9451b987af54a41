//! What the kernel knows of the bytes that a socket delivers: when they came.
//!
//! A client that waits for a processor, or is stopped, reads an answer long after it came, and
//! takes that for the time of the answer. Where the system stamps what it receives (Linux:
//! `SO_TIMESTAMPNS`), each read tells how long its last byte had been there. Reads that were late
//! are kept, so that a run can tell the client's delays from the server's.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use dyno_loadgen::clock::{Clock, Nanos};

/// So many reads are kept that came at least so long (ns) behind their bytes, then only those that
/// came later: what few delays do to a figure shows in the long ones.
const KEPT: [(usize, Nanos); 3] = [(2 << 20, 5_000), (4 << 20, 50_000), (8 << 20, 500_000)];

/// Reads of sockets that came late: when, by the client's clock, and how late.
#[derive(Debug)]
pub(super) struct LateReads {
    reads: Mutex<Vec<(Nanos, Nanos)>>,
    /// Shorter delays are not kept.
    least: AtomicU64,
}

impl LateReads {
    pub(super) fn new() -> Self {
        Self { reads: Mutex::default(), least: AtomicU64::new(KEPT[0].1) }
    }

    /// Forgets the reads of the run before.
    pub(super) fn expect_run(&self) {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.least.store(KEPT[0].1, Relaxed);
    }

    /// Notes a read at `at` of bytes that had waited for so long.
    #[inline]
    pub(super) fn note(&self, at: Nanos, waited: Nanos) {
        if waited < self.least.load(Relaxed) {
            return;
        }
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        reads.push((at, waited));
        if KEPT.iter().any(|(most, _)| reads.len() == *most) {
            let next = KEPT.iter().find(|(most, _)| reads.len() < *most);
            self.least.store(next.map_or(Nanos::MAX, |(_, least)| *least), Relaxed);
        }
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
        let kept = late.by(&clock, &clock);
        assert_eq!(kept[KEPT[0].0..], [(50_000, 50_000), (80_000, 80_000)]);
        late.expect_run();
        late.note(1, 6_000);
        assert_eq!(late.by(&clock, &clock), [(1, 6_000)]);
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
