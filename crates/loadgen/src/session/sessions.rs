//! Sessions in progress: which turn of which session is due when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use crate::clock::Nanos;
use crate::plan::Chain;
use crate::qsl::SampleIndex;
use crate::record::{PlayedSessions, Turn};
use crate::sut::SettledSample;

/// Sessions of a tenant.
#[derive(Debug)]
pub(super) struct Sessions {
    chains: Arc<[Chain]>,
    /// Whether each session is played once.
    is_once: bool,
    /// Time from when a turn was due to when the next turn of its place is, ns; 0 if turns are due
    /// after the answer and their think time.
    interval: Nanos,
    /// Turns that each task has at most (>= 1).
    steps: u32,
    starts: Starts,
    /// Number of chains considered so far; the next chain is this one modulo their number.
    next: usize,
    /// By chain: since when it is idle; `None` while it is in progress.
    idle_since: Box<[Option<Nanos>]>,
    active: usize,
    /// Turns whose due time is known.
    due: BinaryHeap<Reverse<DueTurn>>,
    outstanding: Vec<OutstandingTurn>,
    played: PlayedSessions,
    started: u32,
}

/// When sessions begin.
#[derive(Debug)]
enum Starts {
    /// Whenever a place is free: the free places.
    Places(BinaryHeap<Reverse<FreePlace>>),
    /// At these times, from `next` on. A session that is due while all chains are in progress begins
    /// when the first of them is idle; `idle` has since when each idle chain is.
    Arrivals { times: Vec<Nanos>, next: usize, idle: BinaryHeap<Reverse<Nanos>> },
}

/// A place without a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FreePlace {
    /// When its next session is due.
    due: Nanos,
    /// Since when it is free.
    since: Nanos,
}

/// A turn that is not issued yet. Turns that are due at one time are issued in the order of their
/// sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct DueTurn {
    due: Nanos,
    session: u32,
    turn: u32,
    chain: usize,
    /// When it could be issued at the earliest, because the turn before it was complete.
    ready_at: Nanos,
}

#[derive(Debug, Clone, Copy)]
struct OutstandingTurn {
    query: u64,
    turn: DueTurn,
}

/// When the next turn can be issued.
pub(super) enum NextTurn {
    /// Now; it was due at that time.
    Ready { due: Nanos },
    /// Not before that time; `None` if only a completion brings another turn.
    Later { at: Option<Nanos>, is_any_outstanding: bool },
    /// All sessions have ended, and no further one begins.
    Exhausted,
}

impl Sessions {
    /// Returns sessions of which as many are in progress at a time as there are places, which begin
    /// at these times.
    pub(super) fn with_places(
        chains: Arc<[Chain]>,
        is_once: bool,
        begins: impl Iterator<Item = Nanos>,
    ) -> Self {
        let free = begins.map(|due| Reverse(FreePlace { due, since: 0 })).collect();
        Self::new(chains, is_once, Starts::Places(free))
    }

    /// Returns the sessions with this time between the due times of the turns of a place, ns; 0 if
    /// turns are due after the answer before them.
    pub(super) fn with_interval(self, interval: Nanos) -> Self {
        Self { interval, ..self }
    }

    /// Returns the sessions with tasks of up to `steps` turns (>= 1).
    pub(super) fn with_tasks(self, steps: u32) -> Self {
        Self { steps, ..self }
    }

    /// Returns sessions that begin at these times, which ascend.
    pub(super) fn at_times(chains: Arc<[Chain]>, is_once: bool, times: Vec<Nanos>) -> Self {
        let idle = chains.iter().map(|_| Reverse(0)).collect();
        Self::new(chains, is_once, Starts::Arrivals { times, next: 0, idle })
    }

    fn new(chains: Arc<[Chain]>, is_once: bool, starts: Starts) -> Self {
        Self {
            idle_since: vec![Some(0); chains.len()].into(),
            chains,
            is_once,
            interval: 0,
            steps: 1,
            starts,
            next: 0,
            active: 0,
            due: BinaryHeap::new(),
            outstanding: Vec::new(),
            played: PlayedSessions::default(),
            started: 0,
        }
    }

    /// Returns whether each session is played once.
    pub(super) fn is_once(&self) -> bool {
        self.is_once
    }

    /// Begins all sessions that are due, and returns when the next turn can be issued.
    pub(super) fn next(&mut self, now: Nanos) -> NextTurn {
        let start = loop {
            match self.next_start() {
                Some(at) if at <= now => {
                    if !self.begin(at) {
                        break None;
                    }
                }
                start => break start,
            }
        };
        let turn = self.due.peek().map(|Reverse(turn)| turn.due);
        match turn {
            Some(due) if due <= now => NextTurn::Ready { due },
            None if start.is_none() && self.active == 0 => NextTurn::Exhausted,
            _ => NextTurn::Later {
                at: turn.into_iter().chain(start).min(),
                is_any_outstanding: !self.outstanding.is_empty(),
            },
        }
    }

    /// Returns when the next session begins, if one is left.
    fn next_start(&self) -> Option<Nanos> {
        if self.is_once && self.next >= self.chains.len() {
            return None;
        }
        match &self.starts {
            Starts::Places(free) => free.peek().map(|Reverse(place)| place.due),
            Starts::Arrivals { times, next, .. } => times.get(*next).copied(),
        }
    }

    /// Begins the next session, which was due at `at`. Returns false if all are in progress.
    fn begin(&mut self, at: Nanos) -> bool {
        if self.active == self.chains.len() {
            return false;
        }
        let (due, ready_at, idle_by) = match &mut self.starts {
            Starts::Places(free) => {
                let since = free.pop().map_or(0, |Reverse(place)| place.since);
                (at, since, Nanos::MAX)
            }
            Starts::Arrivals { next, idle, .. } => {
                *next += 1;
                let since = idle.pop().map_or(0, |Reverse(since)| since);
                self.played.held += u64::from(at < since);
                (at.max(since), 0, at.max(since))
            }
        };
        let is_idle = |since: Option<Nanos>| since.is_some_and(|since| since <= idle_by);
        let mut chain = self.next % self.chains.len();
        while !is_idle(self.idle_since[chain]) {
            self.next += 1;
            chain = self.next % self.chains.len();
        }
        self.next += 1;
        self.idle_since[chain] = None;
        self.active += 1;
        self.due.push(Reverse(DueTurn { due, session: self.started, turn: 0, chain, ready_at }));
        self.started += 1;
        true
    }

    /// Takes the turn that is due first, which is issued as query number `query`. Returns its
    /// sample, and when it was due.
    pub(super) fn take(&mut self, query: u64) -> Option<(SampleIndex, Nanos)> {
        let Reverse(turn) = self.due.pop()?;
        self.outstanding.push(OutstandingTurn { query, turn });
        let chain = &self.chains[turn.chain];
        let turns = u32::try_from(chain.thinks.len()).unwrap_or(u32::MAX);
        let continues = self.steps > 1;
        self.played.turns.push(Turn { session: turn.session, number: turn.turn, turns, continues });
        self.played.ready_at.push(turn.ready_at);
        Some((chain.first + turn.turn, turn.due))
    }

    /// Returns when the last taken turn could be issued at the earliest.
    pub(super) fn last_ready_at(&self) -> Nanos {
        self.played.ready_at.last().copied().unwrap_or(0)
    }

    /// Looks for outstanding turns that are complete. The next turn of their session is due after
    /// its think time, or at the interval; a failed turn ends its session, and so does a task at its
    /// limit.
    pub(super) fn settle(&mut self, look: impl Fn(u64) -> Option<SettledSample>) {
        let mut at = 0;
        while let Some(one) = self.outstanding.get(at).copied() {
            match look(one.query) {
                Some(settled) => {
                    self.outstanding.swap_remove(at);
                    self.settled(one, settled);
                }
                None => at += 1,
            }
        }
    }

    /// Returns the turn after one that is answered, and its think time; `None` if it was the last one.
    fn turn_after(&self, turn: DueTurn, continues: bool) -> Option<(u32, Nanos)> {
        let next_task = (turn.turn / self.steps + 1).saturating_mul(self.steps);
        let next = if continues { turn.turn + 1 } else { next_task };
        if continues && next >= next_task {
            return None;
        }
        let think = self.chains[turn.chain].thinks.get(next as usize)?;
        Some((next, *think))
    }

    fn settled(
        &mut self,
        OutstandingTurn { query, turn }: OutstandingTurn,
        settled: SettledSample,
    ) {
        let continues = self.steps > 1 && settled.continues;
        let played = usize::try_from(query).ok().and_then(|at| self.played.turns.get_mut(at));
        if let Some(played) = played {
            played.continues = continues;
        }
        let ready_at = settled.at;
        let at_interval = (self.interval > 0).then(|| turn.due.saturating_add(self.interval));
        match self.turn_after(turn, continues) {
            Some((next, think)) if !settled.is_failed => {
                let due = at_interval.unwrap_or_else(|| settled.at.saturating_add(think));
                self.due.push(Reverse(DueTurn { due, turn: next, ready_at, ..turn }));
            }
            _ => {
                self.idle_since[turn.chain] = Some(settled.at);
                self.active -= 1;
                match &mut self.starts {
                    Starts::Places(free) => {
                        let due = at_interval.unwrap_or(settled.at);
                        free.push(Reverse(FreePlace { due, since: settled.at }));
                    }
                    Starts::Arrivals { idle, .. } => idle.push(Reverse(settled.at)),
                }
            }
        }
    }

    /// Notes that turns can begin until now.
    pub(super) fn goes_on(&mut self, now: Nanos) {
        self.played.ended_at = now;
    }

    /// Returns the sessions. Those that were held to the end are counted, too.
    pub(super) fn into_played(mut self) -> PlayedSessions {
        if let Starts::Arrivals { times, next, mut idle } = self.starts
            && !self.is_once
        {
            let ended_at = self.played.ended_at;
            for at in times[next..].iter().take_while(|at| **at < ended_at) {
                let is_held = idle.pop().is_none_or(|Reverse(since)| *at < since);
                self.played.held += u64::from(is_held);
            }
        }
        self.played
    }
}
