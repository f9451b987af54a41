//! A worker as seen by the coordinator: its connection, clock and progress.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dyno_loadgen::clock::{Clock, Nanos};

use super::channel::{Channel, ChannelReader};
use super::offset::{Offsets, RoundTrip};
use super::wire::{self, Beat, Body, MOST};

/// A message or the loss of a worker.
#[derive(Debug)]
pub(super) enum Event {
    Said(Body),
    /// The worker is lost, for this reason.
    Lost(String),
}

/// A worker that has joined.
#[derive(Debug)]
pub(super) struct Peer {
    /// Display name.
    pub(super) name: String,
    channel: Arc<Channel>,
    offsets: Mutex<Offsets>,
    beat: Mutex<Beat>,
    silence: Mutex<Silence>,
    has_left: AtomicBool,
}

/// Times without messages of a worker.
#[derive(Debug, Default)]
struct Silence {
    /// Time of its last message, by the clock of the coordinator.
    heard_at: Nanos,
    /// The longest time between two messages of the run, ns.
    longest: Nanos,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends a frame to all workers at the same time: one that reads slowly delays no other one.
pub(super) fn send_to_all(peers: &[Arc<Peer>], frame: &[u8]) {
    std::thread::scope(|scope| {
        for peer in peers {
            // The thread that reads the connection notices that it is lost.
            let send = move || drop(peer.channel.write(frame));
            if std::thread::Builder::new().spawn_scoped(scope, send).is_err() {
                send();
            }
        }
    });
}

impl Peer {
    pub(super) fn new(name: String, channel: Arc<Channel>) -> Self {
        Self {
            name,
            channel,
            offsets: Mutex::default(),
            beat: Mutex::default(),
            silence: Mutex::default(),
            has_left: AtomicBool::new(false),
        }
    }

    pub(super) fn send(&self, body: Body) -> io::Result<()> {
        wire::send(&self.channel, body)
    }

    /// Ends the connection, whose reader then reports the loss.
    pub(super) fn hang_up(&self) {
        self.channel.close();
    }

    pub(super) fn offsets(&self) -> Offsets {
        lock(&self.offsets).clone()
    }

    pub(super) fn beat(&self) -> Beat {
        *lock(&self.beat)
    }

    /// Returns the time of its last message, by the clock of the coordinator.
    pub(super) fn heard_at(&self) -> Nanos {
        lock(&self.silence).heard_at
    }

    /// Resets the state of the last run.
    pub(super) fn rewind(&self, now: Nanos) {
        *lock(&self.beat) = Beat::default();
        *lock(&self.silence) = Silence { heard_at: now, longest: 0 };
    }

    /// Returns the longest time in the run without a message, in ns.
    pub(super) fn longest_silence(&self) -> Nanos {
        lock(&self.silence).longest
    }

    /// Returns whether the worker announced that it leaves.
    pub(super) fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Relaxed)
    }

    fn note_message(&self, now: Nanos) {
        let mut silence = lock(&self.silence);
        silence.longest = silence.longest.max(now.saturating_sub(silence.heard_at));
        silence.heard_at = now;
    }

    /// Reads messages of the worker until it is lost, with times by the clock of the coordinator.
    pub(super) fn hear(
        &self,
        mut reader: ChannelReader,
        clock: Clock,
        (index, events): (usize, &SyncSender<(usize, Event)>),
    ) {
        loop {
            let message = wire::read(&mut reader, MOST);
            self.note_message(clock.now());
            let event = match message {
                Ok(Body::Pong(pong)) => {
                    let heard = clock.now();
                    let trip = RoundTrip { sent: pong.asked, remote: pong.at, received: heard };
                    if trip.sent <= trip.received {
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
            // Sending fails if the coordinator is gone.
            if events.send((index, event)).is_err() || is_lost {
                return;
            }
        }
    }
}
