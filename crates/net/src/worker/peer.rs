//! A worker as the coordinator sees it: its connection, its clock, how far it is.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
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
    /// When it said something last, by the coordinator's clock.
    heard_at: AtomicU64,
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
            heard_at: AtomicU64::new(0),
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

    pub(super) fn heard_at(&self) -> Nanos {
        self.heard_at.load(Ordering::Relaxed)
    }

    /// Forgets how far the last run was.
    pub(super) fn rewind(&self) {
        *lock(&self.beat) = Beat::default();
    }

    /// Reads what the worker says until it is lost, by the clock of the coordinator.
    pub(super) fn hear(
        &self,
        mut stream: TcpStream,
        clock: Clock,
        (index, events): (usize, &Sender<(usize, Event)>),
    ) {
        loop {
            let read = wire::read(&mut stream, MOST);
            self.heard_at.store(clock.now(), Ordering::Relaxed);
            let event = match read {
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
                Ok(Body::Refused(why)) => Event::Lost(why),
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
