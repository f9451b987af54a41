//! Reading side of an established connection.

use std::io;
use std::sync::Arc;

use dyno_loadgen::clock::Nanos;

use super::answer::{Framing, Part};
use super::buffer::{Buffer, Chunk};
use super::connection::{Connection, Flight, SocketRead};
use super::{Pool, ReleaseCause};
use crate::client::FailedAttempt;
use crate::client::answering::{Carrier as _, PendingAnswer, Reading};
use crate::protocol::Reader;
use crate::trouble::{Kind, Trouble};

/// An established connection, as seen by its event loop.
pub(super) struct LiveConnection {
    pub connection: Arc<Connection>,
    pub made_at: Nanos,
    /// Number of answers received.
    pub answers: u64,
    framing: Framing,
    /// Reader of the next answer.
    reader: Option<Box<dyn Reader>>,
    /// The answer that has begun.
    current: Option<CurrentAnswer>,
    /// Time of the read with which the current answer declared itself complete, before its body ended; of the last
    /// read with output if the answer went on.
    done_at: Option<Nanos>,
    /// Whether the server closed its side: the end is read without another event.
    is_closed: bool,
}

/// An answer that has begun.
struct CurrentAnswer {
    /// Time just before its request was written.
    sent_at: Nanos,
    /// When the client gives it up.
    cancelled_at: Option<Nanos>,
    reading: Reading,
}

/// Result of one turn of reading.
pub(super) enum Turn {
    /// Nothing is left: new data raises an event.
    Over,
    /// Data may be left that raises no event.
    More,
}

/// Reason for the end of a connection.
pub(super) enum Ending {
    /// The server closed it.
    Closed,
    /// It broke.
    Broken(io::Error),
    /// It received invalid data.
    Trouble(Trouble),
    /// Data came without a request.
    Unasked,
    /// Both sides agreed to close after an answer.
    Agreed,
    /// A request took longer than its time limit.
    TimedOut,
    /// The client gives the request up.
    Cancelled,
}

impl LiveConnection {
    pub(super) fn new(connection: Arc<Connection>, now: Nanos) -> Self {
        Self {
            connection,
            made_at: now,
            answers: 0,
            framing: Framing::new(),
            reader: None,
            current: None,
            done_at: None,
            is_closed: false,
        }
    }

    /// Reads up to one full buffer, then yields to other connections.
    pub(super) fn read(
        &mut self,
        pool: &Arc<Pool>,
        buffer: &mut Buffer,
        is_closed: bool,
    ) -> Result<Turn, Ending> {
        self.is_closed |= is_closed;
        loop {
            let (n, at) = match self.connection.read(buffer.whole()) {
                Ok(SocketRead { bytes: 0, .. }) => return Err(Ending::Closed),
                Ok(SocketRead { bytes, at, waited }) => {
                    pool.shared.late_reads.note(at, waited);
                    (bytes, at)
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Turn::Over),
                Err(error) => return Err(Ending::Broken(error)),
            };
            let bytes = &pool.shared.threads[self.connection.thread].bytes_received;
            bytes.fetch_add(n as u64, std::sync::atomic::Ordering::Relaxed);
            let is_full = n == buffer.whole().len();
            let goes_along = self.current.as_ref().is_some_and(|current| current.reading.is_away());
            self.hear(pool, &buffer.read(n, goes_along), at)?;
            if is_full {
                return Ok(Turn::More);
            }
            // A short read means that the next bytes and the end raise another event.
            if !self.is_closed && !self.connection.is_tls() {
                return Ok(Turn::Over);
            }
        }
    }

    /// Processes bytes that were read at `at`.
    fn hear(&mut self, pool: &Arc<Pool>, chunk: &Chunk<'_>, at: Nanos) -> Result<(), Ending> {
        let mut bytes = chunk.bytes();
        loop {
            if self.current.is_none() {
                if bytes.is_empty() {
                    return Ok(());
                }
                let flight = self.connection.state().flight.take();
                self.begin(pool, flight.ok_or(Ending::Unasked)?);
            }
            let current = &mut self.current;
            let begin = |status, fields: &dyn crate::exchange::Fields| match current {
                Some(current) => current.reading.begin(&pool.shared, status, fields),
                None => Ok(()),
            };
            match self.framing.next(&mut bytes, begin).map_err(Ending::Trouble)? {
                None => return Ok(()),
                Some(Part::Head) => {}
                Some(Part::Data(data)) => self.data(pool, (data, chunk), at)?,
                Some(Part::End) => {
                    self.framing.restart();
                    let current = self.current.take();
                    // Before the answer: the thread that sends the next request then finds the
                    // connection free.
                    let passed = match bytes {
                        [] => self.pass_on(pool),
                        _ => Err(Ending::Unasked),
                    };
                    self.current = current;
                    self.done_at = None;
                    self.complete(pool, at);
                    passed?;
                }
            }
        }
    }

    fn begin(&mut self, pool: &Pool, flight: Flight) {
        let reader = self.reader.take().unwrap_or_else(|| pool.shared.reader());
        let cancelled_at = flight.cancelled_at(&pool.shared);
        let asked = (flight.job, flight.responder);
        let answering =
            PendingAnswer::new(asked, reader, (self.connection.thread, self.connection.node));
        let reading = Reading::Here(answering);
        self.current = Some(CurrentAnswer { sent_at: flight.sent_at, cancelled_at, reading });
    }

    fn data(
        &mut self,
        pool: &Arc<Pool>,
        (data, chunk): (&[u8], &Chunk<'_>),
        at: Nanos,
    ) -> Result<(), Ending> {
        let Some(current) = &mut self.current else { return Ok(()) };
        let owned = || chunk.owned(data);
        let is_done = current.reading.data(pool, data, owned, at).map_err(Ending::Trouble)?;
        let limit = pool.shared.options.time_limit.unwrap_or(Nanos::MAX);
        let is_in_time = at.saturating_sub(current.sent_at) < limit;
        if is_done {
            // For the server the request is in flight until the body ends.
            self.done_at.get_or_insert(at);
        } else if self.done_at.is_some() && is_in_time {
            // The answer goes on behind its end.
            self.done_at = Some(at);
        }
        Ok(())
    }

    /// Returns whether the body of an answer that declared itself complete has not ended for so long
    /// that the client ends it.
    pub(super) fn is_overdue(&self, now: Nanos) -> bool {
        self.done_at.is_some_and(|at| now.saturating_sub(at) >= END_OF_BODY)
    }

    /// Hands over the answer, whose last read was at `ended_at`, unless that was done already.
    fn complete(&mut self, pool: &Arc<Pool>, ended_at: Nanos) {
        let Some(current) = self.current.take() else { return };
        self.answers += 1;
        self.reader = current.reading.end(pool, None, ended_at);
    }

    /// Checks whether a parser thread found that the answer declared itself complete.
    pub(super) fn note_done(&mut self, now: Nanos) {
        let Some(current) = &self.current else { return };
        current.reading.nudge();
        if current.reading.is_done() {
            self.done_at.get_or_insert(now);
        }
    }

    /// Frees the connection after an answer if the request was sent completely.
    fn pass_on(&self, pool: &Pool) -> Result<(), Ending> {
        if !self.framing.is_reusable() || !pool.shared.options.keep_alive {
            return Err(Ending::Agreed);
        }
        let mut state = self.connection.state();
        if state.is_sending {
            state.is_answered = true;
            return Ok(());
        }
        if state.is_dead || state.unsent.is_some() {
            // The server answered before it had the whole request, whose rest is not sent.
            return Err(Ending::Agreed);
        }
        drop(state);
        pool.release(self.connection.clone(), ReleaseCause::Answered);
        Ok(())
    }

    /// Returns when the request was sent whose answer is pending, if any; `None` if the answer declared
    /// itself complete.
    pub(super) fn awaits_since(&self) -> Option<Nanos> {
        if self.done_at.is_some() {
            return None;
        }
        let begun = self.current.as_ref().map(|current| current.sent_at);
        begun.or_else(|| self.connection.state().flight.as_ref().map(|flight| flight.sent_at))
    }

    /// Returns when the client gives up the request whose answer is pending, if it does.
    pub(super) fn cancelled_at(&self, pool: &Pool) -> Option<Nanos> {
        match &self.current {
            Some(_) if self.done_at.is_some() => None,
            Some(current) => current.cancelled_at,
            None => self.connection.state().flight.as_ref()?.cancelled_at(&pool.shared),
        }
    }

    /// Ends the connection and its current request. Returns the trouble if the server closed it at once
    /// and without a request. (A request that gets no answer fails on its own, and proves nothing about
    /// the next one.)
    pub(super) fn end(mut self, pool: &Arc<Pool>, ending: Ending) -> Option<Trouble> {
        let asked = {
            let mut state = self.connection.state();
            (state.is_dead, state.unsent) = (true, None);
            state.flight.take()
        };
        self.connection.shut_down();
        let is_whole = matches!(ending, Ending::Closed) && self.framing.ends_with_connection();
        let now = pool.shared.clock.now();
        if is_whole || self.done_at.take().is_some() {
            self.complete(pool, now);
        }
        let has_begun = self.current.is_some();
        let was_asked = has_begun || asked.is_some();
        let is_refused = self.answers == 0 && !was_asked && now - self.made_at < SHORT_LIFE;
        let is_own = |trouble: &Trouble| matches!(trouble.kind, Kind::Cancelled | Kind::Memory);
        let is_agreed = is_whole
            || matches!(ending, Ending::Agreed | Ending::Cancelled)
            || matches!(&ending, Ending::Trouble(trouble) if is_own(trouble));
        let trouble = self.trouble(pool, ending, has_begun);
        if let Some(current) = self.current.take() {
            current.reading.broke(pool, trouble.clone(), now);
        } else if let Some(flight) = asked {
            let failed = FailedAttempt::unheard(&trouble);
            pool.failed(flight.job, &flight.responder, &failed, now);
        }
        if !is_agreed {
            let lost = &pool.shared.threads[self.connection.thread].lost_connections;
            lost.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        (is_refused && !is_agreed).then_some(trouble)
    }

    fn trouble(&self, pool: &Pool, ending: Ending, has_begun: bool) -> Trouble {
        let endpoint = &pool.shared.nodes[self.connection.node].endpoint;
        let when = if has_begun { "in the middle of an answer" } else { "before it answered" };
        let again = match self.answers {
            0 => "",
            _ => "; it was reused (keep-alive=false opens a connection per request)",
        };
        match ending {
            Ending::Closed | Ending::Agreed => {
                let words = format!("{endpoint} closed the connection {when}{again}");
                Trouble::new(Kind::Closed, words)
            }
            Ending::Broken(error) => match crate::client::backoff::tls_error(endpoint, &error) {
                Some(trouble) => trouble,
                None => {
                    let words =
                        format!("the connection to {endpoint} failed {when}: {error}{again}");
                    Trouble::new(Kind::Closed, words)
                }
            },
            Ending::Trouble(trouble) => trouble,
            Ending::Unasked => {
                let words = format!("{endpoint} sent bytes after the end of its answer");
                Trouble::new(Kind::Malformed, words)
            }
            Ending::TimedOut => pool.shared.timed_out(endpoint, has_begun),
            Ending::Cancelled => pool.shared.cancelled(),
        }
    }
}

/// How long to wait for the end of a body after an answer declared itself complete.
const END_OF_BODY: Nanos = dyno_loadgen::clock::SECOND;

/// A server that closes a connection without a request within this time refused it.
const SHORT_LIFE: Nanos = dyno_loadgen::clock::SECOND;
