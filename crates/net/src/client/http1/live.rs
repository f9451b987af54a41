//! The reading side of a connection that stands.

use std::io;
use std::sync::Arc;

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::sut::Response;

use super::Pool;
use super::answer::{Framing, Part};
use super::connection::{Connection, Flight};
use crate::protocol::Reader;
use crate::trouble::{Kind, Trouble};

/// A connection that stands, as its event loop sees it.
pub(super) struct Live {
    pub connection: Arc<Connection>,
    pub made_at: Nanos,
    /// Answers that came over it.
    pub answers: u64,
    framing: Framing,
    reader: Box<dyn Reader>,
    /// The request whose answer has begun.
    current: Option<Flight>,
    last_beat: Option<Nanos>,
    /// Since when the rest of an answer is awaited that was complete by its own word.
    drains_since: Option<Nanos>,
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
    pub(super) fn new(connection: Arc<Connection>, reader: Box<dyn Reader>, now: Nanos) -> Self {
        Self {
            connection,
            made_at: now,
            answers: 0,
            framing: Framing::new(),
            reader,
            current: None,
            last_beat: None,
            drains_since: None,
        }
    }

    /// Reads all that has come.
    pub(super) fn read(
        &mut self,
        pool: &Pool,
        buffer: &mut [u8],
        is_closed: bool,
    ) -> Result<(), Ending> {
        loop {
            let n = match self.connection.read(buffer) {
                Ok(0) => return Err(Ending::Closed),
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(Ending::Broken(error)),
            };
            let bytes = &pool.shared.threads[self.connection.thread].bytes_received;
            bytes.fetch_add(n as u64, std::sync::atomic::Ordering::Relaxed);
            self.hear(pool, &buffer[..n])?;
            // Less than was asked for: the next bytes raise another event, and so does the end.
            if n < buffer.len() && !is_closed && !self.connection.is_tls() {
                return Ok(());
            }
        }
    }

    fn hear(&mut self, pool: &Pool, mut bytes: &[u8]) -> Result<(), Ending> {
        loop {
            if self.current.is_none() && self.drains_since.is_none() {
                if bytes.is_empty() {
                    return Ok(());
                }
                self.current = self.connection.state().flight.take();
                if self.current.is_none() {
                    return Err(Ending::Unasked);
                }
                self.last_beat = None;
            }
            let reader = &mut self.reader;
            let begin = |status, fields: &dyn crate::exchange::Fields| reader.begin(status, fields);
            match self.framing.next(&mut bytes, begin).map_err(Ending::Trouble)? {
                None => return Ok(()),
                Some(Part::Head) => {}
                Some(Part::Data(data)) => self.data(pool, data)?,
                Some(Part::End) => {
                    self.complete(pool);
                    self.drains_since = None;
                    self.framing.restart();
                    if !bytes.is_empty() {
                        return Err(Ending::Unasked);
                    }
                    self.pass_on(pool)?;
                }
            }
        }
    }

    fn data(&mut self, pool: &Pool, data: &[u8]) -> Result<(), Ending> {
        let Some(flight) = &self.current else { return Ok(()) };
        let heard = self.reader.data(data).map_err(Ending::Trouble)?;
        if heard.beats > 0 {
            let now = pool.shared.clock.now();
            let gaps = &pool.shared.threads[self.connection.thread].gaps;
            match self.last_beat {
                None => flight.responder.first_token(&[Response::empty(flight.job.id)]),
                Some(last) => gaps.add(now.saturating_sub(last), 1),
            }
            // Events that came together came without a gap.
            gaps.add(0, u64::from(heard.beats - 1));
            self.last_beat = Some(now);
        }
        if heard.is_done {
            self.complete(pool);
            self.drains_since = Some(pool.shared.clock.now());
        }
        Ok(())
    }

    /// Hands the answer over, unless it was handed over already.
    fn complete(&mut self, pool: &Pool) {
        let Some(flight) = self.current.take() else { return };
        self.answers += 1;
        match self.reader.end(None) {
            Ok(answer) => {
                let id = flight.job.id;
                // Before the answer, so that whoever sees the run over sees all of it.
                pool.shared.threads[self.connection.thread].answer(answer.counted_by);
                let response = Response { id, data: answer.data, tokens: answer.tokens };
                flight.responder.complete(&[response]);
            }
            Err(trouble) => {
                pool.failed(flight.job, &flight.responder, &trouble, self.last_beat.is_some());
            }
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
        pool.release(self.connection.clone());
        Ok(())
    }

    /// When the request was sent whose answer is awaited, if there is one.
    pub(super) fn awaits_since(&self) -> Option<Nanos> {
        let sent_at = |flight: &Flight| flight.sent_at;
        self.current
            .as_ref()
            .map(sent_at)
            .or_else(|| self.connection.state().flight.as_ref().map(sent_at))
    }

    /// Since when the rest of an answer is awaited that counts no more.
    pub(super) fn drains_since(&self) -> Option<Nanos> {
        self.drains_since
    }

    /// Ends the connection, and the request that is under way on it. Returns what was wrong
    /// if the server never answered on it although it was asked, or hung up at once.
    pub(super) fn end(mut self, pool: &Pool, ending: Ending) -> Option<Trouble> {
        let asked = {
            let mut state = self.connection.state();
            (state.is_dead, state.unsent) = (true, None);
            state.flight.take()
        };
        self.connection.shut_down();
        let is_whole = matches!(ending, Ending::Closed) && self.framing.ends_with_connection();
        if is_whole {
            self.complete(pool);
        }
        let has_begun = self.current.is_some();
        let was_asked = has_begun || asked.is_some();
        let is_short = pool.shared.clock.now() - self.made_at < SHORT_LIFE;
        let is_agreed = matches!(ending, Ending::Agreed) || is_whole;
        let trouble = self.trouble(pool, ending, has_begun);
        if let Some(flight) = self.current.take().or(asked) {
            pool.failed(flight.job, &flight.responder, &trouble, self.last_beat.is_some());
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

/// Whoever hangs up within this time, without a request, did not want to be called.
const SHORT_LIFE: Nanos = dyno_loadgen::clock::SECOND;
