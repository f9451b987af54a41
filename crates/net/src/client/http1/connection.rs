//! A connection that one thread writes requests to and an event loop reads answers from.
//!
//! The thread that takes a connection from the pool owns its writing side until the request is
//! written; its event loop always owns the reading side. Both use [`State`], which is locked for a
//! few instructions. It is held across a system call only for a request that the socket did not
//! take at once.

use std::io::{self, IoSlice, Read as _, Write};
use std::net::Shutdown;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dyno_loadgen::clock::{Clock, Nanos};
use dyno_loadgen::drive::real::Responder;
use mio::net::TcpStream;
use rustls::ClientConnection;

use super::super::kernel;
use super::super::library::EncodedRequest;
use super::super::{ClientCore, Job};

/// A request whose answer is awaited.
pub(super) struct Flight {
    pub job: Job,
    pub responder: Responder,
    /// Time just before it was written, by the client's clock.
    pub sent_at: Nanos,
}

impl Flight {
    /// Returns when the client gives the request up, if it does.
    pub(super) fn cancelled_at(&self, shared: &ClientCore) -> Option<Nanos> {
        shared.given_up_at(self.job, &self.responder, self.sent_at)
    }
}

/// Rest of a request that the socket did not take at once.
pub(super) struct UnsentRequest {
    pub request: Arc<EncodedRequest>,
    pub from: usize,
    /// When the client would have sent it if the socket had taken it at once: the time of its first
    /// write, plus how long the client did not continue although the socket was writable.
    pub sent_at: Nanos,
    /// Time of the last write.
    pub tried_at: Nanos,
    pub job: Job,
    pub responder: Responder,
}

/// Result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SocketRead {
    /// Number of bytes.
    pub bytes: usize,
    /// Time at which the socket delivered the last of them.
    pub at: Nanos,
    /// How long the last byte had been available, in ns; 0 if the system does not report it.
    pub waited: Nanos,
}

#[derive(Default)]
pub(super) struct State {
    /// Set until the event loop receives an answer.
    pub flight: Option<Flight>,
    /// Whether a thread is writing a request.
    pub is_sending: bool,
    /// Whether the answer was complete before the writing thread noticed that it had sent the
    /// request; that thread then passes the connection on.
    pub is_answered: bool,
    /// Whether nothing more can be sent.
    pub is_dead: bool,
    pub unsent: Option<UnsentRequest>,
}

/// A connection, see the module.
pub(super) struct Connection {
    pub node: usize,
    /// Thread whose counters record this connection.
    pub thread: usize,
    /// Index among the connections of that thread.
    pub slot: usize,
    stream: TcpStream,
    tls: Option<Mutex<Encryption>>,
    state: Mutex<State>,
    /// Clock of the client.
    clock: Clock,
}

/// TLS state of a connection, and the last read that delivered bytes.
struct Encryption {
    tls: ClientConnection,
    /// Time of that read.
    read_at: Nanos,
    /// How long the last byte had been available; see [`SocketRead::waited`].
    waited: Nanos,
}

/// Result of writing a request.
pub(super) enum WriteOutcome {
    /// The socket, or the TLS layer before it, has taken everything.
    All,
    /// It has taken this much and takes more later.
    UpTo(usize),
    /// It broke after this much.
    Broken(usize),
}

impl Connection {
    pub(super) fn new(
        (node, thread, slot): (usize, usize, usize),
        stream: TcpStream,
        tls: Option<ClientConnection>,
        clock: Clock,
    ) -> Self {
        let tls = tls.map(|tls| Mutex::new(Encryption { tls, read_at: 0, waited: 0 }));
        Self { node, thread, slot, stream, tls, state: Mutex::default(), clock }
    }

    /// Locks the state, which is consistent even if a thread panicked.
    #[inline]
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tls(&self) -> Option<MutexGuard<'_, Encryption>> {
        self.tls.as_ref().map(|tls| tls.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the socket, which does not block, for what precedes the first request.
    pub(super) fn socket(&self) -> &TcpStream {
        &self.stream
    }

    pub(super) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Shuts the connection down, which wakes its event loop.
    pub(super) fn shut_down(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Returns the system's error of a connection that could not be made.
    pub(super) fn connect_error(&self) -> io::Result<()> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        // The peer's address is known only once the connection is established.
        self.stream.peer_addr().map(|_| ())
    }

    /// Writes a request from its byte `from` on.
    #[inline]
    pub(super) fn write(&self, request: &EncodedRequest, from: usize) -> WriteOutcome {
        if self.is_tls() {
            return self.write_encrypted(request, from);
        }
        let head = request.head(self.node);
        let (len, mut at) = (head.len() + request.rest.len(), from);
        loop {
            let written = if request.rest.is_empty() {
                (&self.stream).write(&head[at..])
            } else if at < head.len() {
                let parts = [IoSlice::new(&head[at..]), IoSlice::new(&request.rest)];
                (&self.stream).write_vectored(&parts)
            } else {
                (&self.stream).write(&request.rest[at - head.len()..])
            };
            match written {
                Ok(n) if at + n == len => return WriteOutcome::All,
                Ok(0) => return WriteOutcome::Broken(at),
                Ok(n) => at += n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return WriteOutcome::UpTo(at);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return WriteOutcome::Broken(at),
            }
        }
    }

    /// Writes a request as [`write`](Self::write) does. TLS takes whole requests and buffers the
    /// part that the socket does not take, so `from` is 0 or the request's length.
    fn write_encrypted(&self, request: &EncodedRequest, from: usize) -> WriteOutcome {
        let len = request.len(self.node);
        let tls = &mut self.tls().expect("the caller has asked").tls;
        if from == 0 {
            let mut writer = tls.writer();
            let head = writer.write_all(request.head(self.node));
            if head.and_then(|()| writer.write_all(&request.rest)).is_err() {
                return WriteOutcome::Broken(0);
            }
        }
        match flush(tls, &self.stream) {
            Ok(true) => WriteOutcome::All,
            Ok(false) => WriteOutcome::UpTo(len),
            // How much ciphertext was sent is unknown.
            Err(_) => WriteOutcome::Broken(len),
        }
    }

    /// Reads available bytes into `buffer`. Only the connection's event loop calls it.
    #[inline]
    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<SocketRead> {
        loop {
            let read =
                match self.tls() {
                    None => kernel::receive(&self.stream, buffer)
                        .map(|(bytes, waited)| SocketRead { bytes, at: self.clock.now(), waited }),
                    Some(mut tls) => self.read_decrypted(&mut tls, buffer),
                };
            match read {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    /// Decrypts the bytes of one read from the socket at once: all plaintext was completed by the
    /// last read.
    fn read_decrypted(
        &self,
        encryption: &mut Encryption,
        buffer: &mut [u8],
    ) -> io::Result<SocketRead> {
        let Encryption { tls, read_at, waited } = encryption;
        loop {
            let read =
                |bytes, at: &Nanos, waited: &Nanos| SocketRead { bytes, at: *at, waited: *waited };
            match tls.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // An end without close_notify may be an attack; the answer then counts as
                // truncated, or as complete by its own length.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Ok(read(0, read_at, waited));
                }
                decrypted => return decrypted.map(|n| read(n, read_at, waited)),
            }
            let mut socket = TimedSocket { stream: &self.stream, waited: 0 };
            let n = tls.read_tls(&mut socket)?;
            (*read_at, *waited) = (self.clock.now(), socket.waited);
            process(tls, &self.stream)?;
            if n == 0 {
                return Ok(read(0, read_at, waited));
            }
            flush(tls, &self.stream)?;
        }
    }

    /// Continues the TLS handshake; returns whether it is complete.
    pub(super) fn shake_hands(&self) -> io::Result<bool> {
        let Some(mut encryption) = self.tls() else { return Ok(true) };
        let Encryption { tls, read_at, .. } = &mut *encryption;
        while tls.is_handshaking() {
            flush(tls, &self.stream)?;
            if !tls.is_handshaking() {
                break;
            }
            match tls.read_tls(&mut &self.stream) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {
                    *read_at = self.clock.now();
                    process(tls, &self.stream)?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        flush(tls, &self.stream)?;
        Ok(true)
    }
}

/// A socket that records how long the last byte of a read had been available.
struct TimedSocket<'a> {
    stream: &'a TcpStream,
    waited: Nanos,
}

impl io::Read for TimedSocket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (n, waited) = kernel::receive(self.stream, buffer)?;
        self.waited = waited;
        Ok(n)
    }
}

/// Writes encrypted bytes; returns whether all of them were written.
fn flush(tls: &mut ClientConnection, mut stream: &TcpStream) -> io::Result<bool> {
    while tls.wants_write() {
        match tls.write_tls(&mut stream) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Decrypts bytes that were read. Sends an alert before it returns an error.
fn process(tls: &mut ClientConnection, stream: &TcpStream) -> io::Result<()> {
    if let Err(error) = tls.process_new_packets() {
        let _ = flush(tls, stream);
        return Err(io::Error::new(io::ErrorKind::InvalidData, error));
    }
    Ok(())
}
