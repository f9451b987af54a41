//! Ends connections whose clients do not read answers, rest for too long, or flood the server with
//! control frames of HTTP/2, each of which costs the server an answer and the client nothing.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::Limits;

/// A stream that ends with an error when its client misbehaves.
pub(super) struct GuardedStream<S> {
    inner: S,
    limits: Limits,
    /// Runs while a write waits for the client.
    stuck: Pin<Box<Sleep>>,
    is_stuck: bool,
    idle: Pin<Box<Sleep>>,
    /// When a request or an answer last moved over HTTP/2.
    moved: Instant,
    received: Frames,
    sent: Frames,
    credit: u64,
}

impl<S> GuardedStream<S> {
    pub fn new(inner: S, limits: Limits) -> Self {
        Self {
            inner,
            limits,
            stuck: Box::pin(sleep(Duration::ZERO)),
            is_stuck: false,
            idle: Box::pin(sleep(Duration::ZERO)),
            moved: Instant::now(),
            received: Frames::Preface(0),
            sent: Frames::Head([0; HEAD], 0),
            credit: CREDIT,
        }
    }

    /// Returns an error if a write has waited for too long.
    fn check_write<T>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.is_stuck = false;
            return polled;
        }
        if !self.is_stuck {
            self.is_stuck = true;
            self.stuck.as_mut().reset(Instant::now() + self.limits.request);
        }
        ready!(self.stuck.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client does not read its \
             answers",
        )))
    }

    /// Returns an error if the connection has rested for too long.
    fn check_idle(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.received.is_http2() {
            return Poll::Pending;
        }
        self.idle.as_mut().reset(self.moved + self.limits.idle);
        ready!(self.idle.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the connection is idle")))
    }

    fn note_received(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (mut credit, mut has_moved, mut is_flood) = (self.credit, false, false);
        self.received.push(bytes, |frame| {
            has_moved |= frame.moves();
            credit = credit.saturating_add(frame.worth()).min(CREDIT);
            match credit.checked_sub(frame.cost()) {
                Some(left) => credit = left,
                None => is_flood = true,
            }
        });
        self.credit = credit;
        if has_moved {
            self.moved = Instant::now();
        }
        if is_flood {
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "a flood of frames"));
        }
        Ok(())
    }

    fn note_sent(&mut self, bytes: &[u8]) {
        if !self.received.is_http2() {
            return;
        }
        self.credit = self.credit.saturating_add(bytes.len() as u64).min(CREDIT);
        let mut has_moved = false;
        self.sent.push(bytes, |frame| has_moved |= frame.moves());
        if has_moved {
            self.moved = Instant::now();
        }
    }
}

/// Credit of a connection, in bytes: each byte of an answer or a request's body adds one.
const CREDIT: u64 = 1_024 * COST;

/// Cost of a control frame. Clients send about one per 16 KiB that they read.
const COST: u64 = 1_024;

/// Length of a frame's head.
const HEAD: usize = 9;

/// First bytes of a client over HTTP/2.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Source: RFC 9113, section 6.
const DATA: u8 = 0;
const HEADERS: u8 = 1;

/// A frame of HTTP/2, by its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Frame {
    length: u64,
    kind: u8,
}

impl Frame {
    /// Returns whether the frame belongs to a request or an answer.
    fn moves(self) -> bool {
        matches!(self.kind, DATA | HEADERS) && self.length > 0
    }

    fn worth(self) -> u64 {
        match self.kind {
            DATA => self.length,
            // A client may cancel each request.
            HEADERS => 2 * COST,
            _ => 0,
        }
    }

    fn cost(self) -> u64 {
        match self.kind {
            DATA if self.length > 0 => 0,
            HEADERS => 0,
            _ => COST,
        }
    }
}

/// Position in the frames of one direction.
enum Frames {
    /// So many bytes of the preface have come.
    Preface(usize),
    /// It is not HTTP/2.
    Other,
    /// So many bytes of the next head have come.
    Head([u8; HEAD], usize),
    /// So many bytes of a frame are left.
    Payload(u64),
}

impl Frames {
    fn is_http2(&self) -> bool {
        matches!(self, Self::Head(..) | Self::Payload(_))
    }

    /// Calls `note` for each frame whose head is complete with these bytes.
    fn push(&mut self, mut bytes: &[u8], mut note: impl FnMut(Frame)) {
        while let Some(&first) = bytes.first() {
            match self {
                Self::Other => return,
                Self::Preface(at) if first != PREFACE[*at] => *self = Self::Other,
                Self::Preface(at) => {
                    *at += 1;
                    bytes = &bytes[1..];
                    if *at == PREFACE.len() {
                        *self = Self::Head([0; HEAD], 0);
                    }
                }
                Self::Head(head, filled) => {
                    let taken = bytes.len().min(HEAD - *filled);
                    head[*filled..*filled + taken].copy_from_slice(&bytes[..taken]);
                    *filled += taken;
                    bytes = &bytes[taken..];
                    if *filled == HEAD {
                        let [a, b, c, kind, ..] = *head;
                        let length = u64::from(u32::from_be_bytes([0, a, b, c]));
                        note(Frame { length, kind });
                        *self = Self::Payload(length);
                    }
                }
                Self::Payload(left) => {
                    let taken = (*left).min(bytes.len() as u64);
                    *left -= taken;
                    bytes = &bytes[taken as usize..];
                }
            }
            if let Self::Payload(0) = self {
                *self = Self::Head([0; HEAD], 0);
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for GuardedStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        match Pin::new(&mut this.inner).poll_read(cx, buffer) {
            Poll::Pending => this.check_idle(cx),
            Poll::Ready(Ok(())) => Poll::Ready(this.note_received(&buffer.filled()[before..])),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for GuardedStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.inner).poll_write(cx, bytes);
        if let Poll::Ready(Ok(written)) = written {
            this.note_sent(&bytes[..written]);
        }
        this.check_write(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.inner).poll_write_vectored(cx, slices);
        if let Poll::Ready(Ok(mut left)) = written {
            for slice in slices {
                let taken = left.min(slice.len());
                this.note_sent(&slice[..taken]);
                left -= taken;
            }
        }
        this.check_write(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.inner).poll_flush(cx);
        this.check_write(cx, flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let ended = Pin::new(&mut this.inner).poll_shutdown(cx);
        this.check_write(cx, ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        let length = (payload.len() as u32).to_be_bytes();
        [&length[1..], &[kind, 0, 0, 0, 0, 1], payload].concat()
    }

    #[test]
    fn frames_are_found_wherever_the_bytes_are_cut() {
        let bytes = [
            PREFACE.to_vec(),
            frame(4, b""),
            frame(1, b"abc"),
            frame(0, &[7; 300]),
            frame(6, &[0; 8]),
        ];
        let expected =
            [(0, 4), (3, 1), (300, 0), (8, 6)].map(|(length, kind)| Frame { length, kind });
        for piece in [1, 2, 9, 10, 64, usize::MAX] {
            let (mut frames, mut found) = (Frames::Preface(0), Vec::new());
            for bytes in bytes.concat().chunks(piece) {
                frames.push(bytes, |frame| found.push(frame));
            }
            assert_eq!(found, expected, "pieces of {piece}");
        }
        let mut frames = Frames::Preface(0);
        frames.push(b"PRO * ", |_| panic!("no frame"));
        frames.push(&frame(4, b""), |_| panic!("no frame"));
        assert!(!frames.is_http2());
    }
}
