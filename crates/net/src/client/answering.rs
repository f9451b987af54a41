//! An answer on its way from the socket to the instrument, over any transport.
//!
//! All times here are those of the reads from the socket, by the client's clock. They are taken
//! before anything is parsed, so no figure includes the cost of our parser.

use std::num::NonZero;
use std::sync::Arc;

use bytes::Bytes;
use dyno_loadgen::clock::Nanos;
use dyno_loadgen::drive::real::Responder;
use dyno_loadgen::sut::Response;
use http::HeaderMap;

use super::held::HeldBytes;
use super::parsers::OffloadedAnswer;
use super::retries::requested_wait;
use super::whole::WholeAnswer;
use super::{ClientCore, FailedAttempt, Job};
use crate::coding::{Decoder, unsupported};
use crate::exchange::Fields;
use crate::ledger::Entry;
use crate::protocol::{PARSED_PER_UNPACKED, ReadProgress, Reader, ReaderCall};
use crate::trouble::{Kind, Trouble, in_short};

/// A transport, as seen by the answers that it carries.
pub(super) trait Carrier: Send + Sync {
    /// Returns the state that all threads of the client share.
    fn shared(&self) -> &Arc<ClientCore>;
    /// Retries a sample that has no answer, or reports its failure at `at`.
    fn failed(&self, job: Job, to: &Responder, failed: &FailedAttempt<'_>, at: Nanos);
}

/// An answer that is being read.
pub(super) struct PendingAnswer {
    pub job: Job,
    pub responder: Responder,
    reader: Box<dyn Reader>,
    held: HeldBytes,
    /// Thread whose counters record this answer.
    thread: usize,
    /// Node that answers.
    node: usize,
    outputs: Outputs,
    /// Events with output so far.
    parts: u32,
    /// Spans between them, in ns, without those of one read.
    gaps: Vec<Nanos>,
    /// When the last bytes of the body were read, up to those that declared the answer complete.
    last_bytes: Option<NonZero<Nanos>>,
    /// Decompressor of the body.
    decoder: Option<Box<Decoder>>,
    /// The answer declared itself complete.
    is_done: bool,
    /// Time for which the server asks to wait before a retry, in ns.
    requested_wait: Option<Nanos>,
    /// The status, if it is not success.
    refusal: Option<(Kind, u16)>,
    /// Where it redirects the request.
    target: Option<String>,
}

/// Times of reads with output, and whether one read brought output together with later data. The
/// kernel reports only the time of the last data of a read.
#[derive(Debug, Clone, Copy, Default)]
struct Outputs {
    first: Option<NonZero<Nanos>>,
    last: Option<NonZero<Nanos>>,
    is_first_joined: bool,
    is_last_joined: bool,
}

impl Outputs {
    /// Records a read at `at`; one read may come in several parts.
    fn note(&mut self, heard: ReadProgress, at: Nanos) {
        let now = NonZero::new(at.max(1));
        match (self.first, heard.beats) {
            (None, 0) => return,
            (None, beats) => {
                self.first = now;
                self.is_first_joined = beats > 1 || heard.has_more;
            }
            (first, _) => self.is_first_joined |= first == now,
        }
        if heard.beats > 0 {
            self.last = now;
            self.is_last_joined = heard.has_more;
        } else {
            self.is_last_joined |= self.last == now;
        }
    }

    /// Completes the account of an answer whose last read was at `ended_at`.
    fn mark(self, entry: Option<Entry>, ended_at: Nanos) -> Option<Entry> {
        let end = NonZero::new(ended_at.max(1));
        entry.map(|entry| Entry {
            is_first_joined: self.is_first_joined || self.first.is_some() && self.first == end,
            is_last_joined: self.is_last_joined || self.last.is_some() && self.last == end,
            ..entry
        })
    }
}

impl PendingAnswer {
    pub(super) fn new(
        (job, responder): (Job, Responder),
        mut reader: Box<dyn Reader>,
        (thread, node): (usize, usize),
    ) -> Self {
        reader.expect(job.index);
        Self {
            job,
            responder,
            reader,
            held: HeldBytes::default(),
            thread,
            node,
            outputs: Outputs::default(),
            parts: 0,
            gaps: Vec::new(),
            last_bytes: None,
            decoder: None,
            is_done: false,
            requested_wait: None,
            refusal: None,
            target: None,
        }
    }

    /// Reads the head. A compressed body is decompressed even if the request did not permit it,
    /// which is counted. A status other than success counts also if its body cannot be decompressed.
    fn begin(
        &mut self,
        shared: &ClientCore,
        status: u16,
        fields: &dyn Fields,
    ) -> Result<(), Trouble> {
        self.refusal = Kind::of_status(status).map(|kind| (kind, status));
        self.requested_wait = requested_wait(status, fields);
        let target = fields.field("location").filter(|_| (300..400).contains(&status));
        // Its query may repeat secrets.
        let path = |target: &[u8]| target.split(|&b| b == b'?').next().map(<[u8]>::to_vec);
        self.target = target.and_then(path).map(|path| in_short(&String::from_utf8_lossy(&path)));
        let coding = fields.list("content-encoding");
        let decoder = Decoder::of_answer(coding.as_deref()).map_err(|other| {
            unreadable(self.refusal, Trouble::new(Kind::Malformed, unsupported(&other)))
        })?;
        if decoder.is_some() && shared.options.accept.is_none() {
            let counter = &shared.threads[self.thread].unrequested_compression;
            counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        self.decoder = decoder.map(Box::new);
        self.reader.begin(status, fields)
    }

    /// Returns the effort of the next call, in bytes of JSON that take as long to parse.
    fn effort(&self, next: ReaderCall) -> usize {
        match (next, &self.decoder) {
            (ReaderCall::Data(bytes), Some(_)) => bytes * PARSED_PER_UNPACKED,
            _ => self.reader.effort(next),
        }
    }

    /// Reads bytes of the body that were received at `at`. Returns whether the answer declared
    /// itself complete.
    pub(super) fn data(
        &mut self,
        shared: &ClientCore,
        bytes: &[u8],
        at: Nanos,
    ) -> Result<bool, Trouble> {
        if !self.is_done {
            self.last_bytes = NonZero::new(at);
        }
        let heard = match &mut self.decoder {
            None => self.reader.data(bytes)?,
            Some(decoder) => decoder
                .read(bytes, &mut *self.reader)
                .map_err(|trouble| unreadable(self.refusal, trouble))?,
        };
        self.held.resize(self.reader.held() + size_of_val(&self.gaps[..]))?;
        self.is_done |= heard.is_done;
        self.beat(shared, heard, at);
        self.parts = self.parts.saturating_add(heard.beats);
        if heard.beats > 0 && !self.is_done && shared.gives_up_at(self.job, self.parts) {
            return Err(shared.cancelled());
        }
        Ok(heard.is_done)
    }

    /// Records events with output that were read at `at`.
    fn beat(&mut self, shared: &ClientCore, heard: ReadProgress, at: Nanos) {
        let before = self.outputs.last;
        self.outputs.note(heard, at);
        if heard.beats == 0 {
            return;
        }
        match before {
            None => {
                let at = self.responder.time_of(&shared.clock, at);
                self.responder.first_token_at(&[Response::empty(self.job.id)], at);
            }
            Some(last) => self.gaps.push(at.saturating_sub(last.get())),
        }
    }

    /// Hands over the answer, whose last read was at `ended_at`. Returns the reader.
    ///
    /// A stream is complete with its last event that has output, any other answer with the last
    /// bytes of its body.
    pub(super) fn end(
        mut self,
        carrier: &(impl Carrier + ?Sized),
        trailers: Option<&dyn Fields>,
        ended_at: Nanos,
    ) -> Box<dyn Reader> {
        let shared = carrier.shared();
        let body_at = self.last_bytes.map_or(ended_at, NonZero::get);
        let unpacked = match &mut self.decoder {
            // A body without any bytes is not compressed, whatever its head states.
            Some(decoder) if !self.is_done && self.last_bytes.is_some() => {
                decoder.end().map_err(|error| {
                    let words = format!("the compressed answer is incomplete or damaged: {error}");
                    unreadable(self.refusal, Trouble::new(Kind::Cut, words))
                })
            }
            _ => Ok(()),
        };
        let finished = unpacked.and_then(|()| self.reader.finish());
        if let Ok(heard) = &finished {
            self.beat(shared, *heard, body_at);
            self.parts = self.parts.saturating_add(heard.beats);
        }
        let outputs = self.outputs;
        let is_counted = self.responder.is_measured(self.job.id);
        match finished.and_then(|_| self.reader.end(trailers)) {
            Ok(answer) => {
                // Counts before the answer is handed over, so that an observer of the end of the
                // run sees all answers.
                if is_counted {
                    // The parts of several choices come mixed, so that spans between them mean nothing.
                    let is_mixed = answer.entry.is_some_and(|entry| entry.choices > 1);
                    let (gaps, parts) =
                        if is_mixed { (&[][..], 0) } else { (&self.gaps[..], self.parts) };
                    shared.threads[self.thread].answer(answer.counted_by, gaps, parts);
                    if let Some(models) = answer.other_model {
                        shared.counters.other_model(models, |name| shared.hidden(name));
                    }
                }
                let at = outputs.last.map_or(body_at, NonZero::get);
                let whole = WholeAnswer {
                    job: self.job,
                    node: self.node,
                    data: answer.data,
                    tokens: answer.tokens,
                    entry: outputs.mark(answer.entry, ended_at),
                    reply: answer.reply,
                    at: self.responder.time_of(&shared.clock, at),
                    ended_at: self.responder.time_of(&shared.clock, ended_at),
                };
                whole.settle(shared, &self.responder);
            }
            Err(mut trouble) => {
                if let Some(target) = &self.target {
                    trouble.words += &format!(", a redirection to {target:?}");
                }
                let at = self.responder.time_of(&shared.clock, ended_at);
                shared.enter(self.job, self.reader.entry(), at);
                let failed = FailedAttempt {
                    trouble: &trouble,
                    is_heard: outputs.last.is_some(),
                    requested_wait: self.requested_wait,
                };
                carrier.failed(self.job, &self.responder, &failed, ended_at);
            }
        }
        self.into_reader()
    }

    /// Returns the reader, without the memory of a large answer.
    fn into_reader(mut self) -> Box<dyn Reader> {
        if self.held.is_counted() {
            self.reader.free();
        }
        self.reader
    }

    /// Reports that the rest of the answer will not come, as known since `at`. Returns the reader.
    pub(super) fn broke(
        self,
        carrier: &(impl Carrier + ?Sized),
        trouble: &Trouble,
        at: Nanos,
    ) -> Box<dyn Reader> {
        let shared = carrier.shared();
        let ended_at = self.responder.time_of(&shared.clock, at);
        shared.enter(self.job, self.reader.entry(), ended_at);
        let is_heard = self.outputs.last.is_some();
        let requested_wait = self.requested_wait;
        let failed = FailedAttempt { trouble, is_heard, requested_wait };
        carrier.failed(self.job, &self.responder, &failed, at);
        self.into_reader()
    }
}

/// Returns the trouble of a body that cannot be decompressed: that of the status unless it is success.
fn unreadable(refusal: Option<(Kind, u16)>, trouble: Trouble) -> Trouble {
    match refusal {
        Some((kind, status)) => Trouble::of_status(kind, status, &trouble.words),
        None => trouble,
    }
}

/// An answer and the place where it is read.
pub(super) enum Reading {
    /// On the thread that reads the socket.
    Here(PendingAnswer),
    /// On a parser thread.
    Away(Arc<OffloadedAnswer>),
}

/// Effort above which an answer is read on a parser thread, because it would delay other answers.
/// Handing it over takes as long as reading some thousand bytes.
const HEAVY: usize = 64 << 10;

impl Reading {
    /// Reads the head of an answer.
    pub(super) fn begin(
        &mut self,
        shared: &ClientCore,
        status: u16,
        fields: &dyn Fields,
    ) -> Result<(), Trouble> {
        match self {
            Self::Here(answering) => answering.begin(shared, status, fields),
            Self::Away(_) => Ok(()),
        }
    }

    /// Parses pending data now if a parser thread reads the answer.
    pub(super) fn nudge(&self) {
        if let Self::Away(away) = self {
            away.nudge();
        }
    }

    /// Returns whether a parser thread reads the answer.
    pub(super) fn is_away(&self) -> bool {
        matches!(self, Self::Away(_))
    }

    /// Reads bytes as [`PendingAnswer::data`] does; `owned` returns the bytes for another thread.
    /// The result of a parser thread is known when the next bytes come.
    pub(super) fn data<C: Carrier + 'static>(
        &mut self,
        carrier: &Arc<C>,
        bytes: &[u8],
        owned: impl FnOnce() -> Bytes,
        at: Nanos,
    ) -> Result<bool, Trouble> {
        let away = match self {
            Self::Here(answering) => {
                if answering.effort(ReaderCall::Data(bytes.len())) <= HEAVY {
                    return answering.data(carrier.shared(), bytes, at);
                }
                let reading =
                    std::mem::replace(self, Self::Away(OffloadedAnswer::new(carrier.clone())));
                let Self::Away(away) = self else { unreachable!("it was just made so") };
                if let Self::Here(answering) = reading {
                    away.take(answering);
                }
                away
            }
            Self::Away(away) => away,
        };
        away.data(owned(), at);
        away.found()
    }

    /// Ends the answer as [`PendingAnswer::end`] does; returns the reader if this thread read the
    /// answer.
    pub(super) fn end<C: Carrier + 'static>(
        self,
        carrier: &Arc<C>,
        trailers: Option<&HeaderMap>,
        ended_at: Nanos,
    ) -> Option<Box<dyn Reader>> {
        let away = match self {
            Self::Here(answering) => {
                if answering.effort(ReaderCall::End) <= HEAVY {
                    let trailers = trailers.map(|fields| fields as &dyn Fields);
                    return Some(answering.end(&**carrier, trailers, ended_at));
                }
                let away = OffloadedAnswer::new(carrier.clone());
                away.take(answering);
                away
            }
            Self::Away(away) => away,
        };
        away.end(trailers.cloned(), ended_at);
        None
    }

    /// Reports a broken answer as [`PendingAnswer::broke`] does.
    pub(super) fn broke<C: Carrier + 'static>(
        self,
        carrier: &Arc<C>,
        trouble: Trouble,
        at: Nanos,
    ) -> Option<Box<dyn Reader>> {
        match self {
            Self::Here(answering) => Some(answering.broke(&**carrier, &trouble, at)),
            Self::Away(away) => {
                away.broke(trouble, at);
                None
            }
        }
    }

    /// Returns whether a parser thread found that the answer declared itself complete.
    pub(super) fn is_done(&self) -> bool {
        match self {
            Self::Here(_) => false,
            Self::Away(away) => away.found() == Ok(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(beats: u32, has_more: bool) -> ReadProgress {
        ReadProgress { beats, has_more, is_done: false }
    }

    #[test]
    fn output_is_joined_where_its_read_brought_what_came_later() {
        for (reads, ended_at, expected) in [
            // Each token, and the end, in a read of its own.
            (vec![(10, read(1, false)), (20, read(1, false))], 30, (false, false)),
            // `[DONE]` with the last token, in the same part or in another of the same read.
            (vec![(10, read(1, false)), (20, read(1, true))], 20, (false, true)),
            (vec![(10, read(1, false)), (20, read(1, false))], 20, (false, true)),
            (
                vec![(10, read(1, false)), (20, read(1, false)), (20, read(0, true))],
                30,
                (false, true),
            ),
            // Two tokens in the first read.
            (vec![(10, read(2, false)), (20, read(1, false))], 30, (true, false)),
            (
                vec![(10, read(1, false)), (10, read(1, false)), (20, read(1, false))],
                30,
                (true, false),
            ),
            // All in one.
            (vec![(10, read(2, true))], 10, (true, true)),
            // No output.
            (vec![(10, read(0, true))], 10, (false, false)),
        ] {
            let mut outputs = Outputs::default();
            reads.iter().for_each(|(at, heard)| outputs.note(*heard, *at));
            let entry = outputs.mark(Some(Entry::default()), ended_at).unwrap();
            let found = (entry.is_first_joined, entry.is_last_joined);
            assert_eq!(found, expected, "{reads:?}, end at {ended_at}");
        }
    }
}
