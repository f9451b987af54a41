//! A process of Python that calls the function.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use dyno_loadgen::clock::{Clock, Nanos};

use super::frame::{self, Kind};
use crate::process_group::{self, GroupSignal, RunningGroup};

/// Program of the process.
const DRIVER: &str = include_str!("driver.py");

/// How often a wait looks whether the process still lives.
const LOOK: Duration = Duration::from_millis(100);

/// How long a process may take to end.
const END: Duration = Duration::from_secs(2);

/// A running process, connected by a socket that is its standard input.
///
/// Its standard output is our standard error, so that output of the user's code, of its libraries,
/// and of what Python runs before the driver never meets a frame.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    /// `None` once it was waited for.
    group: Option<RunningGroup>,
    socket: UnixStream,
    /// Maximum duration of a call, ns.
    timeout: Nanos,
    clock: Clock,
    /// Payload to send; its memory is reused.
    pub(super) payload: Vec<u8>,
    /// Payload of the last reply.
    reply: Vec<u8>,
    /// Why it is no longer called.
    broken: Option<String>,
}

/// Problem of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CallError {
    /// The function raised an exception with these words.
    Raised(String),
    /// The process is dead, silent, or sends what is no answer.
    Broken(String),
}

impl Process {
    /// Starts an interpreter with the driver.
    pub(super) fn start(python: &Path, timeout: Nanos) -> io::Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        socket.set_read_timeout(Some(LOOK))?;
        socket.set_write_timeout(Some(LOOK))?;
        let errors = io::stderr().as_fd().try_clone_to_owned()?;
        let mut command = Command::new(python);
        command.args(["-u", "-c", DRIVER]);
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::from(errors));
        // Ctrl-C ends the run, which ends the process.
        process_group::separate(&mut command);
        let child = command.spawn()?;
        Ok(Self {
            group: Some(RunningGroup::register(&child)),
            child,
            socket,
            timeout,
            clock: Clock::start(),
            payload: Vec::new(),
            reply: Vec::new(),
            broken: None,
        })
    }

    /// Sends [`Process::payload`] and waits for the reply, at most `limit` ns.
    pub(super) fn ask(
        &mut self,
        kind: Kind,
        expected: Kind,
        limit: Option<Nanos>,
    ) -> Result<&[u8], CallError> {
        if let Some(why) = &self.broken {
            return Err(CallError::Broken(why.clone()));
        }
        let limit = limit.unwrap_or(self.timeout);
        let until = self.clock.now().saturating_add(limit);
        let mut wire =
            Wire { socket: &self.socket, child: &mut self.child, clock: &self.clock, until };
        let sent = frame::send(&mut wire, kind, &self.payload);
        let received = sent.and_then(|()| frame::receive(&mut wire, &mut self.reply));
        match received {
            Ok(kind) if kind == expected => Ok(&self.reply),
            Ok(Kind::Failed) => {
                Err(CallError::Raised(String::from_utf8_lossy(&self.reply).into_owned()))
            }
            Ok(_) => Err(self.broken("it sent what is not a reply".into())),
            Err(error) => {
                let why = self.why(&error, limit);
                Err(self.broken(why))
            }
        }
    }

    fn broken(&mut self, why: String) -> CallError {
        self.kill();
        CallError::Broken(self.broken.insert(why).clone())
    }

    fn why(&mut self, error: &io::Error, limit: Nanos) -> String {
        match error.kind() {
            io::ErrorKind::TimedOut => {
                let seconds = limit as f64 / 1e9;
                format!(
                    "the function did not return within {seconds} s; timeout=TIME sets the limit"
                )
            }
            io::ErrorKind::InvalidData => "it sent what is not a reply".into(),
            // The end of the socket comes just before the end of the process.
            _ => match wait(&mut self.child, END) {
                Some(status) => format!("the process of Python ended: {}", ended(status)),
                None => format!("the process of Python closed its connection: {error}"),
            },
        }
    }

    /// Ends the process together with those that it started.
    fn kill(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            process_group::signal(&self.child, GroupSignal::Kill);
        }
        // It may have ended in the meantime.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.group = None;
    }

    /// Lets the driver end: there are no further calls.
    pub(super) fn close(&self) {
        let _ = self.socket.shutdown(std::net::Shutdown::Write);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.close();
        if wait(&mut self.child, END).is_none() {
            // Such as a thread of the user's that never ends.
            self.kill();
        }
    }
}

/// Waits for the end of a process, at most this long.
fn wait(child: &mut Child, most: Duration) -> Option<ExitStatus> {
    const STEP: Duration = Duration::from_millis(5);
    // No value is ever sent: receiving is a wait with a limit.
    let (_sender, never) = mpsc::channel::<()>();
    let mut waited = Duration::ZERO;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if waited < most => {
                let _ = never.recv_timeout(STEP);
                waited += STEP;
            }
            _ => return None,
        }
    }
}

/// Describes how a process ended.
fn ended(status: ExitStatus) -> String {
    const ABORT: i32 = 6;
    const KILL: i32 = 9;
    const SEGMENTATION: i32 = 11;
    match (status.signal(), status.code()) {
        (Some(ABORT), _) => "signal 6 (abort)".into(),
        (Some(KILL), _) => "signal 9 (killed, perhaps for lack of memory)".into(),
        (Some(SEGMENTATION), _) => "signal 11 (segmentation fault)".into(),
        (Some(signal), _) => format!("signal {signal}"),
        (None, code) => format!("exit code {}", code.unwrap_or_default()),
    }
}

/// The socket, whose waits end with the process or at a time.
struct Wire<'a> {
    socket: &'a UnixStream,
    child: &'a mut Child,
    clock: &'a Clock,
    until: Nanos,
}

impl Wire<'_> {
    fn retry<T>(&mut self, mut attempt: impl FnMut(&UnixStream) -> io::Result<T>) -> io::Result<T> {
        loop {
            match attempt(self.socket) {
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) => {}
                result => return result,
            }
            if self.clock.now() >= self.until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            // A process that it started may hold the socket open.
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

impl Read for Wire<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.retry(|mut socket| socket.read(buffer))
    }
}

impl Write for Wire<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.retry(|mut socket| socket.write(buffer))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
