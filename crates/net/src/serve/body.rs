//! Bodies of requests, with their limits, and of answers.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::sync::mpsc;

use super::budget::{self, Content};
use super::refusal::{Refusal, RefusalKind};
use super::state::{Flight, State};
use crate::coding::{Coding, DecodeError};

/// Reads a body as it is sent.
///
/// # Errors
/// It is larger than the limit or incomplete, or other requests hold the memory.
pub(super) async fn read(state: &State, mut body: Incoming) -> Result<Content, Refusal> {
    let most = state.settings.limits.body;
    let mut share = state.budget.share();
    let said = body.size_hint();
    if said.lower() > most as u64 {
        linger(body).await;
        return Err(too_large(&format!("of {} bytes", said.lower()), most));
    }
    let mut first: Option<Bytes> = None;
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            RefusalKind::Invalid.because(format!("the body was cut off: {error}"))
        })?;
        let Ok(data) = frame.into_data() else { continue };
        state.counts.received_bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
        let so_far = first.as_ref().map_or(0, Bytes::len) + all.len() + data.len();
        if so_far > most {
            linger(body).await;
            return Err(too_large("that is longer", most));
        }
        if let Err(refusal) = share.resize(so_far) {
            linger(body).await;
            return Err(refusal);
        }
        // Most bodies come in one piece, which is not copied.
        match (&first, all.is_empty()) {
            (None, true) => first = Some(data),
            (Some(begin), _) => {
                all.extend_from_slice(begin);
                all.extend_from_slice(&data);
                first = None;
            }
            (None, false) => all.extend_from_slice(&data),
        }
    }
    Ok(Content { bytes: first.unwrap_or_else(|| all.freeze()), share })
}

/// How long to read and discard the rest of a refused body.
const LINGER: Duration = Duration::from_secs(1);

/// Drains a refused body: a client that still sends would see a connection reset before the
/// refusal.
async fn linger(mut body: Incoming) {
    let rest = async { while let Some(Ok(_)) = body.frame().await {} };
    let _ = tokio::time::timeout(LINGER, rest).await;
}

fn too_large(what: &str, most: usize) -> Refusal {
    RefusalKind::TooLarge
        .because(format!("a body {what}; the limit of this server is {most} bytes"))
}

/// Decompresses content. The rules of the network division count this time, and so does the
/// answer's latency.
///
/// # Errors
/// Invalid bytes, or content above a limit.
pub(super) fn decompressed(coding: Coding, body: &[u8], most: usize) -> Result<Bytes, Refusal> {
    coding.decompressed(body, most).map_err(|error| match error {
        DecodeError::TooLong => too_large("that decompresses to more", most),
        DecodeError::TooDense => {
            RefusalKind::TooLarge.because(format!("the body does not decompress: {error}"))
        }
        DecodeError::Broken(_) => {
            RefusalKind::Invalid.because(format!("the body does not decompress: {error}"))
        }
    })
}

/// Returns the coding of a content encoding field.
///
/// # Errors
/// An unsupported encoding.
pub(super) fn coding(encoding: Option<&HeaderValue>) -> Result<Option<Coding>, Refusal> {
    Coding::of_field(encoding.map(HeaderValue::as_bytes)).map_err(|other| {
        let words = format!("content encoding '{other}'; expected gzip, deflate or none");
        RefusalKind::Unsupported.because(words)
    })
}

/// Body of an answer.
pub(super) struct Outgoing {
    next: Option<Bytes>,
    parts: Option<mpsc::Receiver<Bytes>>,
    trailers: Option<HeaderMap>,
    /// Trailers that are sent after the last part.
    ends: Option<mpsc::Receiver<HeaderMap>>,
    state: Arc<State>,
    /// Kept until the body was sent or its connection ended.
    _flight: Option<Flight>,
}

impl Outgoing {
    /// Creates a body of one part.
    pub fn whole(state: &Arc<State>, bytes: impl Into<Bytes>) -> Self {
        let (bytes, state) = (bytes.into(), Arc::clone(state));
        let next = (!bytes.is_empty()).then_some(bytes);
        Self { next, parts: None, trailers: None, ends: None, state, _flight: None }
    }

    /// Creates a body of parts, sent as they come.
    pub fn parts(state: &Arc<State>, parts: mpsc::Receiver<Bytes>) -> Self {
        Self { parts: Some(parts), ..Self::whole(state, Bytes::new()) }
    }

    /// Returns whether the body is complete and not empty.
    pub fn is_whole(&self) -> bool {
        self.parts.is_none() && self.next.is_some()
    }

    /// Transforms the body if it is complete.
    pub async fn mapped(
        self,
        map: impl FnOnce(Bytes) -> Bytes + Send + 'static,
    ) -> Result<Self, Refusal> {
        let Some(bytes) = self.next.clone() else { return Ok(self) };
        let mapped = budget::encode(&self.state, bytes.len(), move || map(bytes)).await?;
        Ok(Self { next: Some(mapped), ..self })
    }

    /// Adds these trailers.
    pub fn with_trailers(self, trailers: HeaderMap) -> Self {
        Self { trailers: Some(trailers), ..self }
    }

    /// Adds trailers that are known after all parts.
    pub fn ending(self, ends: mpsc::Receiver<HeaderMap>) -> Self {
        Self { ends: Some(ends), ..self }
    }

    /// Keeps the server running until the body was sent.
    pub fn in_flight(self, flight: Flight) -> Self {
        Self { _flight: Some(flight), ..self }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        let mut data = this.next.take();
        if let (None, Some(parts)) = (&data, &mut this.parts) {
            match parts.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(part)) => data = Some(part),
                Poll::Ready(None) => this.parts = None,
            }
        }
        if let Some(data) = data {
            this.state.counts.sent_bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        if let Some(ends) = &mut this.ends {
            match ends.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(trailers) => (this.trailers, this.ends) = (trailers, None),
            }
        }
        Poll::Ready(this.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.next.is_none()
            && self.parts.is_none()
            && self.trailers.is_none()
            && self.ends.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match (&self.parts, &self.next) {
            (None, next) => SizeHint::with_exact(next.as_ref().map_or(0, Bytes::len) as u64),
            (Some(_), _) => SizeHint::default(),
        }
    }
}
