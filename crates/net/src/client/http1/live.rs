//! The reading side of a connection that stands.

use std::io;
use std::sync::Arc;

use dyno_loadgen::clock::Nanos;

use super::answer::{Framing, Part};
use super::buffer::{Buffer, Chunk};
use super::connection::{Connection, Flight, Read};
use super::{Freed, Pool};
use crate::client::answering::{Answering, Carrier as _, Reading};
use crate::protocol::Reader;
use crate::trouble::{Kind, Trouble};

/// A connection that stands, as its event loop sees it.
pub(super) struct Live {
    pub connection: Arc<Connection>,
    pub made_at: Nanos,
    /// Answers that came over it.
    pub answers: u64,
    framing: Framing,
    /// Of the next answer, where it is here.
    reader: Option<Box<dyn Reader>>,
    /// The answer that has begun.
    current: Option<Current>,
    /// When the current answer was complete by its own word, before its body has ended.
    done_at: Option<Nanos>,
    /// Since when the rest of an answer is awaited that was complete by its own word.
    drains_since: Option<Nanos>,
    /// Whether the server closed its side: the end is read without another event.
    is_closed: bool,
}

/// An answer that has begun.
struct Current {
    /// When its request was about to be written.
    sent_at: Nanos,
    reading: Reading,
}

/// What is left after a turn of reading.
pub(super) enum Turn {
    /// Nothing: what comes raises an event.
    Over,
    /// Perhaps more, which raises no event.
    More,
}

/// Why a connection ends.
pub(super) enum Ending {
    /// The server closed it.
    Closed,
    /// It broke.
    Broken(io::Error),
    /// What came over it is no answer.
    Trouble(Trouble),
    /// Something came that nobody had asked for.
    Unasked,
    /// After an answer, as both sides agreed.
    Agreed,
    /// A request took longer than its time limit.
    TimedOut,
}

impl Live {
    pub(super) fn new(connection: Arc<Connection>, now: Nanos) -> Self {
        Self {
            connection,
            made_at: now,
            answers: 0,
            framing: Framing::new(),
            reader: None,
            current: None,
            done_at: None,
            drains_since: None,
            is_closed: false,
        }
    }

    /// Reads what has come, up to a full buffer: then it is the turn of other connections.
    pub(super) fn read(
        &mut self,
        pool: &Arc<Pool>,
        buffer: &mut Buffer,
        is_closed: bool,
    ) -> Result<Turn, Ending> {
        self.is_closed |= is_closed;
        loop {
            let (n, at) = match self.connection.read(buffer.whole()) {
                Ok(Read { bytes: 0, .. }) => return Err(Ending::Closed),
                Ok(Read { bytes, at, waited }) => {
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
            // Less than was asked for: the next bytes raise another event, and so does the end.
            if !self.is_closed && !self.connection.is_tls() {
                return Ok(Turn::Over);
            }
        }
    }

    /// Takes bytes that were read at `at`.
    fn hear(&mut self, pool: &Arc<Pool>, chunk: &Chunk<'_>, at: Nanos) -> Result<(), Ending> {
        let mut bytes = chunk.bytes();
        loop {
            if self.current.is_none() && self.drains_since.is_none() {
                if bytes.is_empty() {
                    return Ok(());
                }
                let flight = self.connection.state().flight.take();
                self.begin(pool, flight.ok_or(Ending::Unasked)?);
            }
            let current = &mut self.current;
            let asked = pool.shared.options.accept;
            let begin = |status, fields: &dyn crate::exchange::Fields| match current {
                Some(current) => current.reading.begin(status, fields, asked),
                None => Ok(()),
            };
            match self.framing.next(&mut bytes, begin).map_err(Ending::Trouble)? {
                None => return Ok(()),
                Some(Part::Head) => {}
                Some(Part::Data(data)) => self.data(pool, (data, chunk), at)?,
                Some(Part::End) => {
                    self.drains_since = None;
                    self.framing.restart();
                    let current = self.current.take();
                    // Before the answer: who sends the next request on it finds the connection
                    // free.
                    let passed = match bytes {
                        [] => self.pass_on(pool),
                        _ => Err(Ending::Unasked),
                    };
                    self.current = current;
                    let ended_at = self.done_at.take().unwrap_or(at);
                    self.complete(pool, ended_at);
                    passed?;
                }
            }
        }
    }

    fn begin(&mut self, pool: &Pool, flight: Flight) {
        let reader = self.reader.take().unwrap_or_else(|| pool.shared.reader());
        let asked = (flight.job, flight.responder);
        let answering = Answering::new(asked, reader, self.connection.thread);
        let reading = Reading::Here(answering);
        self.current = Some(Current { sent_at: flight.sent_at, reading });
    }

    fn data(
        &mut self,
        pool: &Arc<Pool>,
        (data, chunk): (&[u8], &Chunk<'_>),
        at: Nanos,
    ) -> Result<(), Ending> {
        let Some(current) = &mut self.current else { return Ok(()) };
        let owned = || chunk.owned(data);
        if current.reading.data(pool, data, owned, at).map_err(Ending::Trouble)? {
            // The body ends within moments as a rule. Until then the connection is not free, and
            // a closed loop that heard of the answer now would wait for it.
            self.done_at.get_or_insert(at);
        }
        Ok(())
    }

    /// Returns when the answer is handed over that is complete by its own word, if its body has
    /// not ended by then.
    pub(super) fn settles_at(&self) -> Option<Nanos> {
        self.done_at.map(|at| at + END_OF_BODY)
    }

    /// Hands over an answer that was complete by its own word some time ago, and whose body has
    /// not ended.
    pub(super) fn settle_done(&mut self, pool: &Arc<Pool>, now: Nanos) {
        if let Some(at) = self.done_at.take_if(|at| now.saturating_sub(*at) >= END_OF_BODY) {
            self.complete(pool, at);
            self.drains_since = Some(at);
        }
    }

    /// Hands the answer over, which ended with what was read at `ended_at`, unless it was
    /// handed over already.
    fn complete(&mut self, pool: &Arc<Pool>, ended_at: Nanos) {
        let Some(current) = self.current.take() else { return };
        self.answers += 1;
        self.reader = current.reading.end(pool, None, ended_at);
    }

    /// Looks whether a thread for parsing found the answer to be complete by its own word.
    pub(super) fn note_done(&mut self, now: Nanos) {
        if let Some(current) = &self.current {
            current.reading.nudge();
        }
        if self.current.take_if(|current| current.reading.is_done()).is_some() {
            self.answers += 1;
            self.drains_since = Some(now);
        }
    }

    /// The answer is complete: the connection is free, if the request is out.
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
            // It answered before it had the whole request, whose rest is not sent any more.
            return Err(Ending::Agreed);
        }
        drop(state);
        pool.release(self.connection.clone(), Freed::Answered);
        Ok(())
    }

    /// When the request was sent whose answer is awaited, if there is one.
    pub(super) fn awaits_since(&self) -> Option<Nanos> {
        let begun = self.current.as_ref().map(|current| current.sent_at);
        begun.or_else(|| self.connection.state().flight.as_ref().map(|flight| flight.sent_at))
    }

    /// Since when the rest of an answer is awaited that counts no more.
    pub(super) fn drains_since(&self) -> Option<Nanos> {
        self.drains_since
    }

    /// Ends the connection, and the request that is under way on it. Returns what was wrong
    /// if the server never answered on it although it was asked, or hung up at once.
    pub(super) fn end(mut self, pool: &Arc<Pool>, ending: Ending) -> Option<Trouble> {
        let asked = {
            let mut state = self.connection.state();
            (state.is_dead, state.unsent) = (true, None);
            state.flight.take()
        };
        self.connection.shut_down();
        let is_whole = matches!(ending, Ending::Closed) && self.framing.ends_with_connection();
        let now = pool.shared.clock.now();
        if is_whole || self.done_at.is_some() {
            let ended_at = self.done_at.take().unwrap_or(now);
            self.complete(pool, ended_at);
        }
        let has_begun = self.current.is_some();
        let was_asked = has_begun || asked.is_some();
        let is_short = now - self.made_at < SHORT_LIFE;
        let is_agreed = matches!(ending, Ending::Agreed) || is_whole;
        let trouble = self.trouble(pool, ending, has_begun);
        if let Some(current) = self.current.take() {
            current.reading.broke(pool, trouble.clone(), now);
        } else if let Some(flight) = asked {
            pool.failed(flight.job, &flight.responder, &trouble, false, now);
        }
        if !is_agreed {
            let lost = &pool.shared.threads[self.connection.thread].lost_connections;
            lost.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        (self.answers == 0 && !is_agreed && (was_asked || is_short)).then_some(trouble)
    }

    fn trouble(&self, pool: &Pool, ending: Ending, has_begun: bool) -> Trouble {
        let endpoint = &pool.shared.nodes[self.connection.node].endpoint;
        let when = match has_begun {
            true => "in the middle of an answer",
            false => "before it answered",
        };
        match ending {
            Ending::Closed | Ending::Agreed => {
                let again = match self.answers {
                    0 => "",
                    _ => "; it had carried other answers before (keep-alive=false uses each once)",
                };
                let words = format!("{endpoint} closed the connection {when}{again}");
                Trouble::new(Kind::Closed, words)
            }
            Ending::Broken(error) => match crate::client::backoff::tls_error(endpoint, &error) {
                Some(trouble) => trouble,
                None => {
                    let words = format!("the connection to {endpoint} broke {when}: {error}");
                    Trouble::new(Kind::Closed, words)
                }
            },
            Ending::Trouble(trouble) => trouble,
            Ending::Unasked => {
                let words = format!("{endpoint} sent more than its answer");
                Trouble::new(Kind::Malformed, words)
            }
            Ending::TimedOut => pool.shared.timed_out(endpoint, has_begun),
        }
    }
}

/// The end of a body is awaited this long behind an answer that was complete by its own word.
const END_OF_BODY: Nanos = dyno_loadgen::clock::MILLISECOND;

/// Whoever hangs up within this time, without a request, did not want to be called.
const SHORT_LIFE: Nanos = dyno_loadgen::clock::SECOND;
