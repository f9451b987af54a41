//! A worker as the coordinator sees it: its connection, its clock, how far it is.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dyno_loadgen::clock::{Clock, Nanos};

use super::offset::{Offsets, RoundTrip};
use super::wire::{self, Beat, Body, MOST};

/// What a worker has said or become.
#[derive(Debug)]
pub(super) enum Event {
    Said(Body),
    /// It is gone, for this reason.
    Lost(String),
}

/// A worker that has joined.
#[derive(Debug)]
pub(super) struct Peer {
    /// For people.
    pub(super) name: String,
    writer: Mutex<TcpStream>,
    offsets: Mutex<Offsets>,
    beat: Mutex<Beat>,
    silence: Mutex<Silence>,
    has_left: AtomicBool,
}

/// How long a worker has sent nothing.
#[derive(Debug, Default)]
struct Silence {
    /// When its last message came, by the clock of the coordinator.
    heard_at: Nanos,
    /// The longest time between two messages of the run, ns.
    longest: Nanos,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Peer {
    pub(super) fn new(name: String, stream: &TcpStream) -> io::Result<Self> {
        Ok(Self {
            name,
            writer: Mutex::new(stream.try_clone()?),
            offsets: Mutex::default(),
            beat: Mutex::default(),
            silence: Mutex::default(),
            has_left: AtomicBool::new(false),
        })
    }

    pub(super) fn send(&self, body: Body) -> io::Result<()> {
        wire::write(&mut *lock(&self.writer), body)
    }

    /// Ends the connection; its reader says that it is lost.
    pub(super) fn hang_up(&self) {
        // An error means that it is ended already.
        let _ = lock(&self.writer).shutdown(Shutdown::Both);
    }

    pub(super) fn offsets(&self) -> Offsets {
        lock(&self.offsets).clone()
    }

    pub(super) fn beat(&self) -> Beat {
        *lock(&self.beat)
    }

    /// When its last message came, by the clock of the coordinator.
    pub(super) fn heard_at(&self) -> Nanos {
        lock(&self.silence).heard_at
    }

    /// Forgets the last run.
    pub(super) fn rewind(&self, now: Nanos) {
        *lock(&self.beat) = Beat::default();
        *lock(&self.silence) = Silence { heard_at: now, longest: 0 };
    }

    /// The longest time in the run without a message, ns.
    pub(super) fn longest_silence(&self) -> Nanos {
        lock(&self.silence).longest
    }

    /// Whether the worker said that it goes away.
    pub(super) fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Relaxed)
    }

    fn heard(&self, now: Nanos) {
        let mut silence = lock(&self.silence);
        silence.longest = silence.longest.max(now.saturating_sub(silence.heard_at));
        silence.heard_at = now;
    }

    /// Reads what the worker says until it is lost, by the clock of the coordinator.
    pub(super) fn hear(
        &self,
        mut stream: TcpStream,
        clock: Clock,
        (index, events): (usize, &Sender<(usize, Event)>),
    ) {
        loop {
            let message = wire::read(&mut stream, MOST);
            self.heard(clock.now());
            let event = match message {
                Ok(Body::Pong(pong)) => {
                    let heard = clock.now();
                    let trip = RoundTrip { asked: pong.asked, told: pong.at, heard };
                    if trip.asked <= trip.heard {
                        lock(&self.offsets).add(trip);
                    }
                    continue;
                }
                Ok(Body::Beat(beat)) => {
                    *lock(&self.beat) = beat;
                    continue;
                }
                Ok(Body::Refused(why)) => {
                    self.has_left.store(true, Ordering::Relaxed);
                    Event::Lost(wire::plain(&why))
                }
                Ok(body) => Event::Said(body),
                Err(error) => Event::Lost(error.to_string()),
            };
            let is_lost = matches!(event, Event::Lost(_));
            // Nobody listens when the coordinator is gone.
            if events.send((index, event)).is_err() || is_lost {
                return;
            }
        }
    }
}
