//! Sockets that count bytes and record when requests leave and frames arrive.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use super::Lane;
use super::arrivals::Arrivals;
use super::link::Departures;
use crate::client::kernel;

/// A socket that records when it last delivered bytes, before decryption.
pub(super) struct StampedSocket {
    pub stream: TcpStream,
    pub lane: Arc<Lane>,
    /// Time of the last read, by the client's clock.
    pub read_at: Arc<AtomicU64>,
    pub departures: Arc<Departures>,
}

impl StampedSocket {
    /// Writes with a function, and records when.
    fn write(
        &mut self,
        write: impl FnOnce(Pin<&mut TcpStream>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let now = self.lane.shared.clock.now();
        self.departures.writes(now);
        let written = write(Pin::new(&mut self.stream));
        if written.is_pending() {
            self.departures.is_blocked(now);
        }
        written
    }
}

/// Maximum bytes of one read, because its memory is cleared first.
const MOST_BYTES: usize = 16 << 10;

impl AsyncRead for StampedSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let most = buffer.remaining().min(MOST_BYTES);
        loop {
            ready!(this.stream.poll_read_ready(cx))?;
            let free = buffer.initialize_unfilled_to(most);
            let receive = || kernel::receive(&this.stream, free);
            match this.stream.try_io(Interest::READABLE, receive) {
                Ok((n, waited)) => {
                    let at = this.lane.shared.clock.now();
                    this.read_at.store(at, Relaxed);
                    this.lane.shared.late_reads.note(at, waited);
                    buffer.advance(n);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for StampedSocket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().write(|stream| stream.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().write(|stream| stream.poll_write_vectored(cx, parts))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

/// Socket that reads and writes as `io` does.
///
/// After a flush the socket has everything that was written before, so the requests recorded as
/// departing have been accepted. (The body of a request whose window is too small is sent later;
/// its head has been accepted.)
pub(super) struct MeteredSocket<T> {
    pub io: T,
    pub lane: Arc<Lane>,
    pub departures: Arc<Departures>,
    pub arrivals: Arc<Arrivals>,
    /// Time at which the socket below last delivered bytes.
    pub read_at: Arc<AtomicU64>,
}

impl<T: AsyncRead + Unpin> AsyncRead for MeteredSocket<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.io).poll_read(cx, buffer);
        let read = &buffer.filled()[before..];
        this.lane.counters().bytes_received.fetch_add(read.len() as u64, Relaxed);
        this.arrivals.read(read, this.read_at.load(Relaxed));
        polled
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for MeteredSocket<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.io).poll_write(cx, bytes);
        this.wrote(&polled);
        polled
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.io).poll_write_vectored(cx, parts);
        this.wrote(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.io).poll_flush(cx);
        if let Poll::Ready(Ok(())) = polled {
            this.departures.departed(&this.lane.shared, this.lane.counters());
        }
        polled
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}

impl<T> MeteredSocket<T> {
    fn wrote(&self, polled: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(written)) = polled {
            self.lane.counters().bytes_sent.fetch_add(*written as u64, Relaxed);
        }
    }
}
