//! A connection that one thread writes requests to and an event loop reads answers from.
//!
//! Whoever takes it from the pool owns its writing side until the request is out; its event
//! loop owns the reading side all the time. The two meet in [`State`], which is locked for a
//! few instructions and never across a system call, but for a request that the socket did not
//! take at once.

use std::io::{self, IoSlice, Read as _, Write};
use std::net::Shutdown;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dyno_loadgen::clock::{Clock, Nanos};
use dyno_loadgen::drive::real::Responder;
use mio::net::TcpStream;
use rustls::ClientConnection;

use super::super::Job;
use super::super::kernel;
use super::super::library::Encoded;

/// A request whose answer is awaited.
pub(super) struct Flight {
    pub job: Job,
    pub responder: Responder,
    /// When it was about to be written, by the client's clock.
    pub sent_at: Nanos,
}

/// The rest of a request that the socket did not take at once.
pub(super) struct Unsent {
    pub request: Arc<Encoded>,
    pub from: usize,
    pub job: Job,
    pub responder: Responder,
}

/// Bytes that a read brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Read {
    /// How many bytes of answers.
    pub bytes: usize,
    /// When the socket delivered the last of them.
    pub at: Nanos,
    /// How long that one had been there, ns; 0 where the system does not tell.
    pub waited: Nanos,
}

#[derive(Default)]
pub(super) struct State {
    /// Here until the event loop hears of an answer.
    pub flight: Option<Flight>,
    /// Whether some thread is within the writing of a request.
    pub is_sending: bool,
    /// Whether the answer was complete before that thread had noticed that it had sent the
    /// request: then it passes the connection on.
    pub is_answered: bool,
    /// Whether nothing can be sent any more.
    pub is_dead: bool,
    pub unsent: Option<Unsent>,
}

/// See the module.
pub(super) struct Connection {
    pub node: usize,
    /// Whose counters count for it.
    pub thread: usize,
    /// Its place among the connections of that thread.
    pub slot: usize,
    stream: TcpStream,
    tls: Option<Mutex<Encryption>>,
    state: Mutex<State>,
    /// The client's.
    clock: Clock,
}

/// The encryption of a connection, and the last read that it got bytes from.
struct Encryption {
    tls: ClientConnection,
    /// When it was.
    read_at: Nanos,
    /// As [`Read::waited`].
    waited: Nanos,
}

/// How far writing came.
pub(super) enum Written {
    /// The socket, or the encryption before it, has all.
    All,
    /// It has this much, and takes more later.
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

    /// The state is consistent wherever a thread may have panicked.
    #[inline]
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tls(&self) -> Option<MutexGuard<'_, Encryption>> {
        self.tls.as_ref().map(|tls| tls.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Ends the connection; its event loop hears of that.
    pub(super) fn shut_down(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// What the system says of a connection that could not be made.
    pub(super) fn connect_error(&self) -> io::Result<()> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        // Only of a connection that stands the other side's address is known.
        self.stream.peer_addr().map(|_| ())
    }

    /// Writes a request from its byte `from` on.
    #[inline]
    pub(super) fn write(&self, request: &Encoded, from: usize) -> Written {
        if self.is_tls() {
            return self.write_encrypted(request, from);
        }
        let head = &request.heads[self.node];
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
                Ok(n) if at + n == len => return Written::All,
                Ok(0) => return Written::Broken(at),
                Ok(n) => at += n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Written::UpTo(at);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Written::Broken(at),
            }
        }
    }

    /// As [`write`](Self::write). The encryption takes a request as a whole and holds what
    /// the socket does not take, so that `from` is 0 or the request's length.
    fn write_encrypted(&self, request: &Encoded, from: usize) -> Written {
        let len = request.len(self.node);
        let tls = &mut self.tls().expect("the caller has asked").tls;
        if from == 0 {
            let mut writer = tls.writer();
            let head = writer.write_all(&request.heads[self.node]);
            if head.and_then(|()| writer.write_all(&request.rest)).is_err() {
                return Written::Broken(0);
            }
        }
        match flush(tls, &self.stream) {
            Ok(true) => Written::All,
            Ok(false) => Written::UpTo(len),
            // How much of the ciphertext left is not known.
            Err(_) => Written::Broken(len),
        }
    }

    /// Reads what there is to `buffer`. Only the connection's event loop calls it.
    #[inline]
    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<Read> {
        loop {
            let read = match self.tls() {
                None => kernel::receive(&self.stream, buffer).map(|(bytes, waited)| Read {
                    bytes,
                    at: self.clock.now(),
                    waited,
                }),
                Some(mut tls) => self.read_decrypted(&mut tls, buffer),
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    /// What one read from the socket brought is decrypted at once: all that is there to take
    /// was completed by the last one.
    fn read_decrypted(&self, encryption: &mut Encryption, buffer: &mut [u8]) -> io::Result<Read> {
        let Encryption { tls, read_at, waited } = encryption;
        loop {
            let read = |bytes, at: &Nanos, waited: &Nanos| Read { bytes, at: *at, waited: *waited };
            match tls.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // An end without the word for it may be an attack; what comes of it is an
                // answer that is cut off, or whole by its own length.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Ok(read(0, read_at, waited));
                }
                decrypted => return decrypted.map(|n| read(n, read_at, waited)),
            }
            let mut socket = Received { stream: &self.stream, waited: 0 };
            let n = tls.read_tls(&mut socket)?;
            (*read_at, *waited) = (self.clock.now(), socket.waited);
            process(tls, &self.stream)?;
            if n == 0 {
                return Ok(read(0, read_at, waited));
            }
            flush(tls, &self.stream)?;
        }
    }

    /// Goes on with the handshake of TLS; whether it is complete.
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

/// A socket that notes how long the last byte of a read had been there.
struct Received<'a> {
    stream: &'a TcpStream,
    waited: Nanos,
}

impl io::Read for Received<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (n, waited) = kernel::receive(self.stream, buffer)?;
        self.waited = waited;
        Ok(n)
    }
}

/// Writes what is encrypted; whether all of it is out.
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

/// Decrypts what was read. An alert that says why is sent before the error is returned.
fn process(tls: &mut ClientConnection, stream: &TcpStream) -> io::Result<()> {
    if let Err(error) = tls.process_new_packets() {
        let _ = flush(tls, stream);
        return Err(io::Error::new(io::ErrorKind::InvalidData, error));
    }
    Ok(())
}
