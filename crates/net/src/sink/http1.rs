//! A sink for HTTP/1.1: it reads requests only as far as their ends.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};

const LISTENER: Token = Token(usize::MAX);
const WAKER: Token = Token(usize::MAX - 1);
const BUFFER: usize = 256 << 10;

/// A server on its own thread, stopped on drop.
pub struct Http1 {
    address: SocketAddr,
    shared: Arc<SinkState>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct SinkState {
    requests: AtomicU64,
    is_closing: AtomicBool,
}

struct Peer {
    stream: TcpStream,
    /// State of an incomplete request: its head so far, then the number of missing bytes of its
    /// body.
    head: Vec<u8>,
    body_left: usize,
    /// Bytes of answers that the socket did not take.
    unsent: Vec<u8>,
}

impl Http1 {
    /// Answers each request with `body` of this media type, at a port that the system chooses.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn start(address: SocketAddr, media_type: &str, body: &[u8]) -> io::Result<Self> {
        let mut response = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {media_type}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        response.extend_from_slice(body);
        let mut listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let poll = Poll::new()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let shared = Arc::new(SinkState::default());
        let seen = shared.clone();
        let thread = std::thread::Builder::new()
            .name("net-sink".into())
            .spawn(move || serve(poll, &listener, &response, &seen))?;
        Ok(Self { address, shared, waker, thread: Some(thread) })
    }

    /// Returns the address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the number of answered requests.
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::Relaxed)
    }
}

impl Drop for Http1 {
    fn drop(&mut self) {
        self.shared.is_closing.store(true, Ordering::Release);
        let _ = self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(mut poll: Poll, listener: &TcpListener, response: &[u8], shared: &SinkState) {
    let mut events = Events::with_capacity(1024);
    let mut peers: Vec<Option<Peer>> = Vec::new();
    let mut buffer = vec![0; BUFFER];
    while !shared.is_closing.load(Ordering::Acquire) {
        if let Err(error) = poll.poll(&mut events, None)
            && error.kind() != io::ErrorKind::Interrupted
        {
            return;
        }
        for event in &events {
            match event.token() {
                WAKER => {}
                LISTENER => accept(&poll, listener, &mut peers),
                Token(at) => {
                    let Some(peer) = &mut peers[at] else { continue };
                    let is_closed = event.is_read_closed() || event.is_error();
                    match peer.serve(&mut buffer, response, is_closed) {
                        Ok(answered) => {
                            shared.requests.fetch_add(answered, Ordering::Relaxed);
                        }
                        Err(_) => peers[at] = None,
                    }
                }
            }
        }
    }
}

fn accept(poll: &Poll, listener: &TcpListener, peers: &mut Vec<Option<Peer>>) {
    while let Ok((mut stream, _)) = listener.accept() {
        let at = peers.iter().position(Option::is_none).unwrap_or(peers.len());
        let interest = Interest::READABLE | Interest::WRITABLE;
        let ready = stream
            .set_nodelay(true)
            .and_then(|()| poll.registry().register(&mut stream, Token(at), interest));
        if ready.is_err() {
            continue;
        }
        let peer = Peer { stream, head: Vec::new(), body_left: 0, unsent: Vec::new() };
        if at == peers.len() {
            peers.push(Some(peer));
        } else {
            peers[at] = Some(peer);
        }
    }
}

impl Peer {
    /// Answers received requests; returns their number.
    fn serve(&mut self, buffer: &mut [u8], response: &[u8], is_closed: bool) -> io::Result<u64> {
        self.send(&[])?;
        let mut answered = 0;
        loop {
            let n = match self.stream.read(buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(answered),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let requests = self.count_requests(&buffer[..n])?;
            for _ in 0..requests {
                self.send(response)?;
            }
            answered += requests;
            if n < buffer.len() && !is_closed {
                return Ok(answered);
            }
        }
    }

    /// Counts the requests that end within these bytes.
    fn count_requests(&mut self, mut bytes: &[u8]) -> io::Result<u64> {
        let mut requests = 0;
        while !bytes.is_empty() {
            if self.body_left > 0 {
                let n = self.body_left.min(bytes.len());
                (self.body_left, bytes) = (self.body_left - n, &bytes[n..]);
                requests += u64::from(self.body_left == 0);
                continue;
            }
            let known = self.head.len();
            if known > 0 {
                self.head.extend_from_slice(bytes);
            }
            let head = if known > 0 { &self.head[..] } else { bytes };
            let Some(end) = memchr::memmem::find(head, b"\r\n\r\n") else {
                if known == 0 {
                    self.head.extend_from_slice(bytes);
                }
                if self.head.len() > BUFFER {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                return Ok(requests);
            };
            self.body_left = content_length(&head[..end]);
            bytes = &bytes[end + 4 - known..];
            self.head.clear();
            requests += u64::from(self.body_left == 0);
        }
        Ok(requests)
    }

    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if !self.unsent.is_empty() {
            self.unsent.extend_from_slice(bytes);
            let unsent = std::mem::take(&mut self.unsent);
            return self.send(&unsent);
        }
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => bytes = &bytes[n..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.unsent.extend_from_slice(bytes);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Returns the content length of a head; 0 if it has none.
fn content_length(head: &[u8]) -> usize {
    const NAME: &[u8] = b"content-length:";
    memchr::memchr_iter(b'\n', head)
        .map(|newline| &head[newline + 1..])
        .find(|line| line.len() > NAME.len() && line[..NAME.len()].eq_ignore_ascii_case(NAME))
        .map_or(0, |line| {
            let value = line[NAME.len()..].iter().skip_while(|b| **b == b' ');
            let digits = value.take_while(|b| b.is_ascii_digit());
            digits.fold(0_usize, |n, b| n.saturating_mul(10).saturating_add(usize::from(b - b'0')))
        })
}
