//! A request and its answer as a stream.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::drive::real::Responder;
use h2::RecvStream;
use h2::client::ResponseFuture;
use http::HeaderMap;

use super::super::answering::{Carrier as _, PendingAnswer, Reading};
use super::super::{FailedAttempt, Job};
use super::Lane;
use super::link::Link;
use crate::trouble::{Kind, Trouble};

/// State of an open stream. Its size matters: there may be a hundred thousand streams.
struct OpenStream {
    lane: Arc<Lane>,
    link: Arc<Link>,
    /// Number of the stream on the connection.
    stream: u32,
    /// `None` once the answer was handed over or has failed.
    reading: Option<Reading>,
    has_begun: bool,
    /// Whether the server ended the connection without processing the request.
    is_unprocessed: bool,
    /// Bytes of the body of the request, which needs a window.
    body_bytes: u32,
    /// How long after the stream was opened the client gives the request up, ns.
    given_up_after: Option<Nanos>,
}

/// Opens a stream for a sample, which waited for `connecting` ns for any connection to be established; if
/// that fails, the sample goes to another connection.
pub(super) fn open(
    lane: &Arc<Lane>,
    link: Arc<Link>,
    (job, connecting): (Job, Nanos),
    responder: Responder,
) {
    let encoded = lane.shared.requests.for_node(job.index, link.node);
    if let Some(wrong) = &encoded.wrong {
        let now = lane.shared.clock.now();
        return lane.failed(job, &responder, &FailedAttempt::unheard(wrong), now);
    }
    let request = encoded.stream(link.node).clone();
    let body = encoded.rest.clone();
    // Before the request is handed over: the connection may flush at once.
    link.departures.note(job, responder.clone(), connecting);
    let body_bytes = u32::try_from(body.len()).unwrap_or(u32::MAX);
    let sent = {
        let mut requests = link.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.send_request(request, body.is_empty())
    };
    let answer = match sent {
        Ok((answer, mut sending)) => {
            // The connection queues data beyond the flow-control windows. An error concerns the
            // stream, and its answer reports it.
            if !body.is_empty() {
                let _ = sending.send_data(body, true);
            }
            answer
        }
        Err(error) => {
            // The connection is closing, and no byte of the request was sent.
            link.is_closed.store(true, Relaxed);
            link.departures.withdraw();
            if error.is_go_away() || error.is_io() {
                return lane.take(std::iter::once(job), &responder);
            }
            let (trouble, now) = (trouble(lane, &link, &error, false), lane.shared.clock.now());
            return lane.failed(job, &responder, &FailedAttempt::unheard(&trouble), now);
        }
    };
    link.body_bytes.fetch_add(body_bytes.into(), Relaxed);
    link.streams.fetch_add(1, Relaxed);
    lane.streams.fetch_add(1, Relaxed);
    link.is_asked.store(true, Relaxed);
    let stream = answer.stream_id().as_u32();
    link.arrivals.follow(stream);
    let now = lane.shared.clock.now();
    let given_up_after = lane.shared.given_up_at(job, &responder, now);
    let given_up_after = given_up_after.map(|at| at.saturating_sub(now));
    let answering =
        PendingAnswer::new((job, responder), lane.shared.reader(), (lane.thread, link.node));
    let reading = Some(Reading::Here(answering));
    let lane = lane.clone();
    let open = OpenStream {
        lane,
        link,
        stream,
        reading,
        has_begun: false,
        is_unprocessed: false,
        body_bytes,
        given_up_after,
    };
    tokio::spawn(open.settle(answer));
}

impl OpenStream {
    async fn settle(mut self, answer: ResponseFuture) {
        let limit = self.lane.shared.options.time_limit;
        let read = match limit.into_iter().chain(self.given_up_after).min() {
            None => self.read(answer).await,
            Some(limit) => {
                let limit = Duration::from_nanos(limit);
                let read = tokio::time::timeout(limit, self.read(answer)).await;
                read.unwrap_or_else(|_| Err(self.timed_out()))
            }
        };
        let read = match read {
            Ok(None) => Ok(()),
            // The answer declared itself complete, and the rest does not count in its latency. For the
            // server the request is in flight until the body ends, and resetting the stream would look
            // like a canceled request.
            Ok(Some(rest)) => {
                match limit.map(Duration::from_nanos) {
                    None => self.drain(rest).await,
                    Some(limit) => {
                        let _ = tokio::time::timeout(limit, self.drain(rest)).await;
                    }
                }
                let ended_at = self.link.arrivals.ended_at(self.stream);
                self.complete(None, ended_at.unwrap_or_else(|| self.lane.shared.clock.now()));
                Ok(())
            }
            Err(trouble) => Err(trouble),
        };
        let Self { lane, link, stream, reading, has_begun, is_unprocessed, body_bytes, .. } = self;
        if !has_begun {
            // Whether its body was sent is unknown.
            link.body_bytes.fetch_sub(body_bytes.into(), Relaxed);
        }
        link.arrivals.forget(stream);
        link.streams.fetch_sub(1, Relaxed);
        lane.streams.fetch_sub(1, Relaxed);
        if let Err(trouble) = read {
            if trouble.kind == Kind::TimedOut && lane.is_silent() {
                lane.waiting_failed(&trouble, false);
            }
            if let Some(reading) = reading {
                let now = lane.shared.clock.now();
                let again = match &reading {
                    Reading::Here(unread) if is_unprocessed => {
                        let job = lane.shared.resent(unread.job, &unread.responder, now);
                        job.map(|job| (job, unread.responder.clone()))
                    }
                    _ => None,
                };
                if let Some((job, responder)) = again {
                    lane.take(std::iter::once(job), &responder);
                } else {
                    let reader = reading.broke(&lane, trouble, now);
                    reader.into_iter().for_each(|reader| lane.shared.keep(reader));
                }
            }
        }
        lane.list(&link);
    }

    /// Reads the answer, and hands it over when its body ends. Returns the rest of the body if the answer
    /// declares itself complete before.
    async fn read(&mut self, answer: ResponseFuture) -> Result<Option<RecvStream>, Trouble> {
        let (mut body, mut left) = {
            let answer = match answer.await {
                Ok(answer) => answer,
                Err(error) => {
                    self.is_unprocessed = is_unprocessed(&error);
                    return Err(self.broke(&error, None));
                }
            };
            let (head, body) = answer.into_parts();
            self.has_begun = true;
            self.lane.hears();
            if let Some(reading) = &mut self.reading {
                reading.begin(&self.lane.shared, head.status.as_u16(), &head.headers)?;
            }
            // The fields are dropped here because an answer may take minutes.
            (body, content_length(&head.headers))
        };
        loop {
            let is_away = self.reading.as_ref().is_some_and(Reading::is_away);
            let next = poll_fn(|cx| body.poll_data(cx));
            // A parser thread may find that the answer is complete although no more bytes come.
            let next = if is_away {
                tokio::time::timeout(LOOK, next).await.ok()
            } else {
                Some(next.await)
            };
            let Some(next) = next else {
                self.reading.iter().for_each(Reading::nudge);
                if self.reading.as_ref().is_some_and(Reading::is_done) {
                    return Ok(Some(body));
                }
                continue;
            };
            let Some(bytes) = next else { break };
            let bytes = bytes.map_err(|error| self.broke(&error, left))?;
            left = left.map(|left| left.saturating_sub(bytes.len() as u64));
            self.lane.hears();
            let _ = body.flow_control().release_capacity(bytes.len());
            let read_at = self.link.arrivals.take(self.stream, bytes.len());
            let at = read_at.unwrap_or_else(|| self.lane.shared.clock.now());
            let Some(reading) = &mut self.reading else { continue };
            let owned = || bytes.clone();
            if reading.data(&self.lane, &bytes, owned, at)? {
                return Ok(Some(body));
            }
            reading.nudge();
        }
        let trailers = poll_fn(|cx| Pin::new(&mut body).poll_trailers(cx)).await;
        let trailers = trailers.map_err(|error| self.broke(&error, left))?;
        let ended_at = self.link.arrivals.ended_at(self.stream);
        let at = ended_at.unwrap_or_else(|| self.lane.shared.clock.now());
        self.complete(trailers.as_ref(), at);
        Ok(None)
    }

    /// Reads the rest of an answer that declared itself complete, such as `usage` behind `[DONE]`.
    async fn drain(&mut self, mut rest: RecvStream) {
        let mut goes_on = true;
        while goes_on {
            let read = tokio::time::timeout(LONGEST_DRAIN, self.goes_on(&mut rest)).await;
            goes_on = read.unwrap_or(false);
        }
    }

    /// Reads the rest of such an answer, until it goes on with output. Returns whether it does.
    async fn goes_on(&mut self, rest: &mut RecvStream) -> bool {
        while let Some(Ok(bytes)) = poll_fn(|cx| rest.poll_data(cx)).await {
            let _ = rest.flow_control().release_capacity(bytes.len());
            let read_at = self.link.arrivals.take(self.stream, bytes.len());
            let at = read_at.unwrap_or_else(|| self.lane.shared.clock.now());
            let owned = || bytes.clone();
            let Some(reading) = &mut self.reading else { continue };
            match reading.data(&self.lane, &bytes, owned, at) {
                Ok(true) => {}
                Ok(false) => return true,
                Err(_) => return false,
            }
        }
        false
    }

    /// Hands over the answer, whose last read was at `ended_at`.
    fn complete(&mut self, trailers: Option<&HeaderMap>, ended_at: Nanos) {
        let is_first = self.link.answers.fetch_add(1, Relaxed) == 0;
        let now = self.lane.shared.clock.now();
        if let Some(dialed) = self.lane.own().dialed.get_mut(self.link.node) {
            dialed.answered(is_first, now);
        }
        if let Some(reading) = self.reading.take() {
            let reader = reading.end(&self.lane, trailers, ended_at);
            reader.into_iter().for_each(|reader| self.lane.shared.keep(reader));
        }
    }

    /// Returns the trouble of a request that was not answered by its limit.
    fn timed_out(&self) -> Trouble {
        let limit = self.lane.shared.options.time_limit.unwrap_or(Nanos::MAX);
        if self.given_up_after.is_some_and(|after| after <= limit) {
            return self.lane.shared.cancelled();
        }
        let endpoint = &self.lane.shared.nodes[self.link.node].endpoint;
        let mut trouble = self.lane.shared.timed_out(endpoint, self.has_begun);
        if self.body_bytes == 0 || self.has_begun {
            return trouble;
        }
        let permitted = self.link.arrivals.permitted_bytes();
        if self.link.arrivals.has_no_window() {
            trouble.words += "; its SETTINGS_INITIAL_WINDOW_SIZE is 0, which holds bodies back";
        } else if self.link.body_bytes.load(Relaxed) > permitted {
            trouble.words += &format!(
                "; it permits {permitted} bytes of bodies on the connection so far (WINDOW_UPDATE), \
                 which holds further ones back"
            );
        }
        trouble
    }

    /// Returns the trouble of an error. `left` is what has not come of the bytes that the answer announced,
    /// if it announced any number.
    fn broke(&self, error: &h2::Error, left: Option<u64>) -> Trouble {
        let trouble = trouble(&self.lane, &self.link, error, self.has_begun);
        // The library calls a body of another length a violation of HTTP/2, and drops the data that
        // shows it.
        let violation = error.reason().filter(|_| trouble.kind == Kind::Malformed);
        let (Some(left), Some(h2::Reason::PROTOCOL_ERROR)) = (left, violation) else {
            return trouble;
        };
        let endpoint = &self.lane.shared.nodes[self.link.node].endpoint;
        if self.link.arrivals.untaken(self.stream) > left {
            let words =
                format!("{endpoint} sent a longer answer than its content-length announced");
            return Trouble::new(Kind::Malformed, words);
        }
        if left == 0 {
            return trouble;
        }
        let words = format!("{endpoint} ended an answer before the length that it announced");
        Trouble::new(Kind::Cut, words)
    }
}

/// Returns the bytes that the fields of a head announce; `None` if they announce no number.
fn content_length(fields: &HeaderMap) -> Option<u64> {
    fields.get("content-length")?.to_str().ok()?.parse().ok()
}

/// Time limit for the rest of an answer that declared itself complete.
const LONGEST_DRAIN: Duration = Duration::from_secs(1);

/// How often to look whether a parser thread found that an answer is complete.
const LOOK: Duration = Duration::from_millis(10);

/// Returns whether a server ended the connection without processing a request of whose answer nothing came.
/// Only streams above the last one that it names have this error (RFC 9113, section 6.8). A server that
/// calls the client too busy is full.
fn is_unprocessed(error: &h2::Error) -> bool {
    let is_full = error.reason() == Some(h2::Reason::ENHANCE_YOUR_CALM);
    error.is_go_away() && error.is_remote() && !is_full
}

/// Returns the trouble that an error of a stream or of its connection means.
pub(super) fn trouble(lane: &Lane, link: &Link, error: &h2::Error, has_begun: bool) -> Trouble {
    let endpoint = &lane.shared.nodes[link.node].endpoint;
    // RFC 9113, section 6.8: only streams that the server did not process have this error. An answer
    // that has begun contradicts it.
    if error.is_go_away() && error.is_remote() && !has_begun {
        let words = format!("{endpoint} ended the connection without processing the request");
        return Trouble::new(Kind::Refused, format!("{words}: {error}"));
    }
    let when = if has_begun { "in the middle of an answer" } else { "before it answered" };
    let (kind, what) = match error.reason() {
        Some(h2::Reason::ENHANCE_YOUR_CALM) if error.is_library() => {
            (Kind::Malformed, "sent more frames without data than the client reads")
        }
        Some(h2::Reason::REFUSED_STREAM | h2::Reason::ENHANCE_YOUR_CALM) => {
            (Kind::Refused, "refused the stream")
        }
        Some(h2::Reason::CANCEL | h2::Reason::NO_ERROR) => (Kind::Closed, "ended the stream"),
        // Gateways end answers so when they lose the server behind them.
        Some(h2::Reason::INTERNAL_ERROR) if error.is_remote() && !has_begun => {
            (Kind::Server, "reports an internal error")
        }
        Some(_) if error.is_remote() => (Kind::Closed, "ended the stream"),
        Some(_) => (Kind::Malformed, "violated HTTP/2"),
        None => (Kind::Closed, "closed the connection"),
    };
    Trouble::new(kind, format!("{endpoint} {what} {when}: {error}"))
}
