//! A thread that reads answers, sends queued requests and maintains its connections.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dyno_loadgen::clock::{MILLISECOND, Nanos, SECOND};
use mio::{Events, Poll, Token};

use super::buffer::Buffer;
use super::dial::{BeginError, Candidate, DialAttempt};
use super::live::{Ending, LiveConnection, Turn};
use super::{Pool, ReleaseCause};
use crate::client::backoff::DialState;
use crate::client::kernel;
use crate::reach::share_of_limit;
use crate::trouble::{Kind, Trouble};

/// Period of checks for time limits and of attempts to reconnect.
const TICK: Nanos = 10 * MILLISECOND;
const EVENTS: usize = 1024;
/// The token of the waker of an event loop.
pub(super) const WAKER: Token = Token(usize::MAX);
/// Idle time after which surplus connections are closed: some servers use one of few threads per
/// connection.
const LONGEST_IDLE: Nanos = 2 * SECOND;

pub(super) struct EventLoop {
    pool: Arc<Pool>,
    thread: usize,
    poll: Poll,
    slots: Vec<Slot>,
    /// Slots without a connection.
    down: Vec<usize>,
    /// By node: slots with a connection or an attempt.
    kept: Vec<usize>,
    /// By node.
    dialed: Vec<DialState>,
    buffer: Buffer,
    /// Connections that may have more to read than one turn permits.
    unread: Vec<usize>,
    /// When the next tick is due.
    next_tick: Nanos,
    /// Bytes that all threads had received at the last tick, and when that last changed.
    heard: (u64, Nanos),
    waited: Wait,
}

/// The last wait for events, by the client's clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Wait {
    /// When the wait before it ended.
    before: Nanos,
    began: Nanos,
    /// When it had to end at the latest.
    due: Nanos,
    ended: Nanos,
}

impl Wait {
    /// A wait this short found its events ready, in ns.
    const AT_ONCE: Nanos = MILLISECOND / 20;

    /// Returns since when its events may have been ready without being handled: as long as the thread
    /// handled other events, was ready to run for `ready_to_run` ns without a processor, or was stopped.
    fn ready_since(self, ready_to_run: Nanos) -> Nanos {
        if self.ended.saturating_sub(self.began) < Self::AT_ONCE {
            return self.before;
        }
        self.ended.min(self.due).min(self.ended.saturating_sub(ready_to_run)).max(self.began)
    }
}

/// Slot of a connection; its index is the token of its events.
struct Slot {
    node: usize,
    phase: Phase,
}

enum Phase {
    Down,
    Dialing(DialAttempt),
    Live(Box<LiveConnection>),
}

impl EventLoop {
    /// Creates the loop; call it on the thread that runs it.
    pub(super) fn new(pool: Arc<Pool>, thread: usize, poll: Poll) -> Self {
        let nodes = pool.shared.nodes.len();
        Self {
            dialed: pool.shared.nodes.iter().map(|_| DialState::default()).collect(),
            heard: (0, pool.shared.clock.now()),
            pool,
            thread,
            poll,
            slots: Vec::new(),
            down: Vec::new(),
            kept: vec![0; nodes],
            buffer: Buffer::new(),
            unread: Vec::new(),
            next_tick: 0,
            waited: Wait::default(),
        }
    }

    pub(super) fn run(&mut self) {
        let mut events = Events::with_capacity(EVENTS);
        loop {
            let now = self.pool.shared.clock.now();
            if now >= self.next_tick {
                self.next_tick = now + TICK;
                self.tick(now);
                if let Some(due) = self.pool.shared.retries.next() {
                    self.next_tick = self.next_tick.min(due);
                }
            }
            let left = if self.unread.is_empty() {
                Duration::from_nanos(self.next_tick.saturating_sub(now))
            } else {
                Duration::ZERO
            };
            kernel::is_about_to_wait(now);
            let began = self.pool.shared.clock.now();
            let polled = self.poll.poll(&mut events, Some(left));
            let (before, ended) = (self.waited.ended, self.pool.shared.clock.now());
            self.waited = Wait { before, began, due: self.next_tick, ended };
            match polled {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    // Nothing can be received any more, so waiting samples must fail.
                    return self.give_up(&error);
                }
                _ => {}
            }
            if self.pool.is_closing.load(Ordering::Acquire) {
                return;
            }
            let unread = std::mem::take(&mut self.unread);
            for event in &events {
                if event.token() == WAKER {
                    self.balance(self.pool.shared.clock.now());
                } else {
                    let is_closed = event.is_read_closed() || event.is_error();
                    self.on_event(event.token().0, event.is_writable(), is_closed);
                }
            }
            // After the others, which may be short.
            unread.into_iter().for_each(|at| self.read(at, false));
        }
    }

    fn on_event(&mut self, at: usize, is_writable: bool, is_closed: bool) {
        match &mut self.slots[at].phase {
            Phase::Down => {}
            Phase::Dialing(_) => {
                self.go_on_dialing(at);
                // Data that arrived together with the connection raises no event of its own.
                self.read(at, is_closed);
            }
            Phase::Live(live) => {
                if is_writable {
                    let mut state = live.connection.state();
                    if state.unsent.is_some() {
                        let ready = self.waited.ready_since(kernel::ready_to_run());
                        self.pool.write_rest(&live.connection, &mut state, ready);
                    }
                }
                self.read(at, is_closed);
            }
        }
    }

    /// Returns since when the events of this turn may have been ready.
    fn ready_since(&self) -> Nanos {
        self.waited.ready_since(kernel::ready_to_run())
    }

    /// Reads available data of an established connection.
    fn read(&mut self, at: usize, is_closed: bool) {
        let Phase::Live(live) = &mut self.slots[at].phase else { return };
        let had = live.answers;
        let read = live.read(&self.pool, &mut self.buffer, is_closed);
        if live.answers != had {
            self.dialed[live.connection.node].answered(had == 0, self.pool.shared.clock.now());
        }
        match read {
            Ok(Turn::Over) => {}
            Ok(Turn::More) => self.unread.push(at),
            Err(ending) => self.end(at, ending),
        }
    }

    /// Checks time limits and due connections, and records the CPU time of this thread.
    fn tick(&mut self, now: Nanos) {
        let shared = self.pool.shared.clone();
        let received =
            shared.threads.iter().map(|t| t.bytes_received.load(Ordering::Relaxed)).sum();
        if received != self.heard.0 {
            self.heard = (received, now);
        }
        for (job, responder) in shared.due_retries(now) {
            self.pool.dispatch(job, &responder);
        }
        for at in 0..self.slots.len() {
            let node = &shared.nodes[self.slots[at].node];
            match &mut self.slots[at].phase {
                Phase::Down => {}
                Phase::Dialing(dialing) => {
                    let (candidate, limit) = (dialing.candidate, shared.options.connect_limit);
                    // One that has accepted the connection, and is slow with the rest, needs no other.
                    let addresses = node.addresses.as_ref().map_or(0, Vec::len);
                    let untried = addresses.saturating_sub(candidate.tried + 1);
                    let others = if dialing.is_connected { 0 } else { untried };
                    let spent = dialing.since.saturating_sub(candidate.begun);
                    let share = share_of_limit(limit, spent, others);
                    if now.saturating_sub(dialing.since) > share {
                        let seconds = limit as f64 / SECOND as f64;
                        let words = format!(
                            "{} did not accept the connection within {seconds} s",
                            node.endpoint.route()
                        );
                        self.address_failed(at, candidate, &Trouble::new(Kind::Connect, words));
                    }
                }
                Phase::Live(live) => {
                    live.note_done(now);
                    let since = live.awaits_since();
                    let limit = shared.options.time_limit;
                    if live.cancelled_at(&self.pool).is_some_and(|at| now >= at) {
                        self.end(at, Ending::Cancelled);
                    } else if let (Some(since), Some(limit)) = (since, limit)
                        && now.saturating_sub(since) > limit
                    {
                        self.end(at, Ending::TimedOut);
                        if self.heard.1 <= since {
                            // No byte for a whole time limit: waiting samples would wait in vain.
                            let trouble = shared.timed_out(&node.endpoint, false);
                            self.pool.waiting_failed(&trouble);
                        }
                    } else if live.is_overdue(now) {
                        self.end(at, Ending::Agreed);
                    }
                }
            }
        }
        self.close_idle(now);
        self.balance(now);
        shared.threads[self.thread].note_cpu_time();
    }

    /// Opens connections if there are fewer than places, and closes idle ones if there are more.
    fn balance(&mut self, now: Nanos) {
        for node in 0..self.kept.len() {
            let wanted = {
                let mut state = self.pool.lock();
                let share = state.places.share_mut(self.thread, node);
                share.is_failing = self.dialed[node].is_failing();
                while state.give_up_missing(self.thread, node) {}
                state.places.share_mut(self.thread, node).wanted
            };
            while self.kept[node] < wanted && self.dialed[node].may_dial(now) {
                self.dial(node);
            }
            while self.kept[node] > wanted {
                if !self.abandon_dial(node) && !self.close_one_idle(node) {
                    break;
                }
            }
        }
        self.pool.settled.notify_all();
    }

    /// Gives up a connection attempt to a node; returns false if there is none.
    fn abandon_dial(&mut self, node: usize) -> bool {
        let is_attempt = |slot: &Slot| slot.node == node && matches!(slot.phase, Phase::Dialing(_));
        let Some(at) = self.slots.iter().position(is_attempt) else { return false };
        self.dialed[node].under_way -= 1;
        self.take_down(at);
        self.note_attempts(node);
        true
    }

    /// Closes an idle connection to a node; returns false if there is none.
    fn close_one_idle(&mut self, node: usize) -> bool {
        let idle = self.pool.lock().take_idle_of(self.thread, node, Nanos::MAX);
        let Some(idle) = idle else { return false };
        self.close(idle.slot, Ending::Agreed);
        true
    }

    /// Closes connections that have long been idle and that the plan does not need.
    fn close_idle(&mut self, now: Nanos) {
        for node in 0..self.kept.len() {
            let idle = {
                let mut state = self.pool.lock();
                state.now = now;
                let before = now.saturating_sub(LONGEST_IDLE);
                match state.take_idle_of(self.thread, node, before) {
                    Some(idle) if !state.places.give_up(self.thread, node) => {
                        // Marked as fresh so that it is not examined in each tick.
                        state.idle[node].insert(0, (idle, now));
                        None
                    }
                    idle => idle,
                }
            };
            if let Some(idle) = idle {
                self.close(idle.slot, Ending::Agreed);
            }
        }
    }

    fn dial(&mut self, node: usize) {
        let at = self.down.pop().unwrap_or_else(|| {
            self.slots.push(Slot { node, phase: Phase::Down });
            self.slots.len() - 1
        });
        self.slots[at].node = node;
        self.kept[node] += 1;
        self.dialed[node].under_way += 1;
        let begun = self.pool.shared.clock.now();
        {
            let mut state = self.pool.lock();
            state.dialed_at = begun;
            state.places.share_mut(self.thread, node).oldest_attempt.get_or_insert(begun);
        }
        let address = self.pool.shared.nodes[node].reached.load(Ordering::Relaxed);
        self.dial_address(at, Candidate { address, tried: 0, begun });
    }

    /// Takes the connection out of a slot.
    fn take_down(&mut self, at: usize) -> Phase {
        self.kept[self.slots[at].node] -= 1;
        self.down.push(at);
        std::mem::replace(&mut self.slots[at].phase, Phase::Down)
    }

    fn dial_address(&mut self, at: usize, candidate: Candidate) {
        let number = self.slots[at].node;
        let begun = DialAttempt::begin(
            &self.pool.shared.nodes[number],
            (number, self.thread),
            candidate,
            (self.poll.registry(), Token(at)),
            self.pool.shared.clock,
        );
        match begun {
            Ok(dialing) => self.slots[at].phase = Phase::Dialing(dialing),
            Err(BeginError { trouble, lacks_descriptor }) => {
                if lacks_descriptor {
                    self.pool.lock().lacks_descriptors = true;
                }
                self.address_failed(at, candidate, &trouble);
            }
        }
    }

    fn go_on_dialing(&mut self, at: usize) {
        let number = self.slots[at].node;
        let Phase::Dialing(dialing) = &mut self.slots[at].phase else { return };
        match dialing.go_on(&self.pool.shared.nodes[number]) {
            Ok(false) => {}
            Ok(true) => {
                let Candidate { address, begun, .. } = dialing.candidate;
                self.pool.shared.nodes[number].reached.store(address, Ordering::Relaxed);
                let connection = dialing.connection.clone();
                self.connected(at, &connection, begun);
            }
            Err(trouble) => {
                let candidate = dialing.candidate;
                match trouble.kind {
                    // A wrong name is wrong at each of its addresses.
                    Kind::Tls => self.dial_failed(at, &trouble),
                    _ => self.address_failed(at, candidate, &trouble),
                }
            }
        }
    }

    /// Puts a connection to use whose attempt began at `begun`.
    fn connected(&mut self, at: usize, connection: &Arc<super::Connection>, begun: Nanos) {
        let dialed = &mut self.dialed[self.slots[at].node];
        dialed.under_way -= 1;
        dialed.connected();
        let shared = &self.pool.shared;
        shared.threads[self.thread].connects.fetch_add(1, Ordering::Relaxed);
        let live = LiveConnection::new(connection.clone(), shared.clock.now());
        self.slots[at].phase = Phase::Live(Box::new(live));
        let node = connection.node;
        let is_surplus = {
            let mut state = self.pool.lock();
            state.lacks_descriptors = false;
            state.places.share_mut(self.thread, node).is_failing = self.dialed[node].is_failing();
            let is_awaited = state.waiting.iter().any(|(job, _)| job.may_go_to(node));
            let is_surplus = !is_awaited && state.give_up_missing(self.thread, node);
            state.places.share_mut(self.thread, node).open += 1;
            is_surplus
        };
        let oldest = self.note_attempts(node);
        if is_surplus {
            // The sample for which it was made has taken another one.
            self.close(at, Ending::Agreed);
        } else {
            let begun = oldest.map_or(begun, |oldest| oldest.min(begun));
            let cause = ReleaseCause::New { begun, ready: self.ready_since() };
            self.pool.release(connection.clone(), cause);
        }
        self.pool.settled.notify_all();
    }

    /// Records when the oldest connection attempt of this loop to a node began that is still in progress.
    /// Returns that of all loops: any of them may be for the sample that takes a new connection.
    fn note_attempts(&self, node: usize) -> Option<Nanos> {
        let begun = |slot: &Slot| match &slot.phase {
            Phase::Dialing(attempt) if slot.node == node => Some(attempt.candidate.begun),
            _ => None,
        };
        let oldest = match self.dialed[node].under_way {
            0 => None,
            _ => self.slots.iter().filter_map(begun).min(),
        };
        let mut state = self.pool.lock();
        state.places.share_mut(self.thread, node).oldest_attempt = oldest;
        state.places.oldest_attempt(node)
    }

    /// Tries the address after one that failed, until all were tried.
    fn address_failed(&mut self, at: usize, failed: Candidate, trouble: &Trouble) {
        let addresses = &self.pool.shared.nodes[self.slots[at].node].addresses;
        let (number, tried) = (addresses.as_ref().map_or(0, Vec::len), failed.tried + 1);
        if tried < number {
            let address = (failed.address + 1) % number;
            self.dial_address(at, Candidate { address, tried, ..failed });
        } else {
            self.dial_failed(at, trouble);
        }
    }

    fn dial_failed(&mut self, at: usize, trouble: &Trouble) {
        let is_used = self.pool.lock().places.open_at(self.slots[at].node) > 0;
        let dialed = &mut self.dialed[self.slots[at].node];
        let now = self.pool.shared.clock.now();
        dialed.under_way -= 1;
        dialed.failed(now, is_used);
        let is_hopeless = dialed.is_hopeless(now);
        self.take_down(at);
        self.pool.shared.counts_no_connection(trouble);
        if is_hopeless {
            self.pool.node_failed(self.slots[at].node, trouble);
        }
        let node = self.slots[at].node;
        self.note_attempts(node);
        self.pool.lock().places.share_mut(self.thread, node).is_failing = true;
        self.pool.settled.notify_all();
    }

    fn end(&mut self, at: usize, ending: Ending) {
        self.close(at, ending);
        self.balance(self.pool.shared.clock.now());
    }

    fn close(&mut self, at: usize, ending: Ending) {
        if !matches!(self.slots[at].phase, Phase::Live(_)) {
            return;
        }
        let Phase::Live(live) = self.take_down(at) else { return };
        let node = live.connection.node;
        let is_used = {
            let mut state = self.pool.lock();
            state.places.share_mut(self.thread, node).open -= 1;
            state.idle[node].retain(|(idle, _)| !Arc::ptr_eq(idle, &live.connection));
            state.places.open_at(node) > 0
        };
        let dialed = &mut self.dialed[node];
        let now = self.pool.shared.clock.now();
        if let Some(trouble) = live.end(&self.pool, ending) {
            dialed.was_fruitless(now, is_used);
            if dialed.is_hopeless(now) {
                self.pool.node_failed(node, &trouble);
            }
        }
    }

    fn give_up(&mut self, error: &io::Error) {
        let words = format!("cannot poll sockets: {error}");
        for at in 0..self.slots.len() {
            let phase = std::mem::replace(&mut self.slots[at].phase, Phase::Down);
            if let Phase::Live(live) = phase {
                live.end(&self.pool, Ending::Trouble(Trouble::new(Kind::Closed, words.clone())));
            }
        }
        self.pool.waiting_failed(&Trouble::new(Kind::Closed, words));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_waits_for_the_client_while_its_thread_does_something_else() {
        const MS: Nanos = MILLISECOND;
        let wait = Wait { before: MS, began: 3 * MS, due: 13 * MS, ended: 9 * MS };
        // The thread waited for the event, so that it was handled at once.
        assert_eq!(wait.ready_since(0), 9 * MS);
        // It had no processor for the last two milliseconds, or for longer than it waited.
        assert_eq!(wait.ready_since(2 * MS), 7 * MS);
        assert_eq!(wait.ready_since(20 * MS), 3 * MS);
        // It was stopped: it should have woken up without any event.
        assert_eq!(Wait { ended: 800 * MS, ..wait }.ready_since(0), 13 * MS);
        // The event was there before the wait began: since the thread looked the last time, at most.
        assert_eq!(Wait { ended: 3 * MS, ..wait }.ready_since(0), MS);
    }
}
