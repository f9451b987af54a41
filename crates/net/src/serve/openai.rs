//! The OpenAI interface: text for text, whole or streamed.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use dyno_loadgen::clock::{SECOND, WallTime};
use dyno_sut::batch::QueueFull;
use http::{HeaderValue, Request, Response, header};
use hyper::body::Incoming;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, sleep_until};

use super::body::{self, Outgoing};
use super::budget::{DecodedRequest, Decoder, Share, decode};
use super::http::{in_time, json, typed};
use super::refusal::{Refusal, RefusalKind};
use super::state::{Flight, State};
use super::tokens::Pace;
use super::{Answers, Model};
use crate::openai::{
    Api, Input, Message, Request as Asked, Usage, Writer, models_body, write_done,
};

/// Answers a request below `/v1`.
///
/// # Errors
/// The reason for the refusal.
pub(super) async fn answer(
    state: &Arc<State>,
    path: &str,
    request: Request<Incoming>,
) -> Result<Response<Outgoing>, Refusal> {
    let api = match path.strip_prefix("/v1").unwrap_or(path).trim_end_matches('/') {
        "/models" => {
            let is_text = |model: &&Model| matches!(model.answers, Answers::Text(_));
            let names = state.models.iter().filter(is_text).map(|model| &model.name[..]);
            return Ok(json(state, models_body(names)));
        }
        "/chat/completions" => Api::Chat,
        _ => Api::Completions,
    };
    let flight = state.take_off()?;
    let (head, body) = request.into_parts();
    let coding = body::coding(head.headers.get(header::CONTENT_ENCODING))?;
    let body = in_time(state, RefusalKind::Slow, "the body", body::read(state, body)).await?;
    let decoder = Decoder {
        coding,
        growth: Box::new(|body| body.len().saturating_mul(8)),
        parse: Box::new(move |body| Ok((Asked::from_json(api, &body)?, body.len()))),
        size: |(_, bytes)| bytes.saturating_mul(4),
    };
    let decoded = in_time(state, RefusalKind::TimedOut, "decoding", decode(state, body, decoder));
    let DecodedRequest { request: (asked, _), share } = decoded.await?;
    let model = text_model(state, &asked.model)?;
    let Answers::Text(tokens) = &model.answers else { unreachable!("it makes text") };
    let pace = tokens.pace().clone();
    let most = asked.max_tokens.unwrap_or(u64::MAX);
    let made = Generation {
        count: pace.tokens.min(most),
        finish_reason: if most <= pace.tokens { "length" } else { "stop" },
        prompt: text(&asked.input),
        pace,
    };
    let created = WallTime::now().unix_ns / SECOND;
    let id = format!("dyno-{}", state.clock.now());
    let writer = Writer::new(api, &id, &model.name, created);
    // The slot is acquired before the head is sent, so that a refusal has its own status.
    let refused = |QueueFull { most }: QueueFull| {
        RefusalKind::Full.because(format!(
            "all slots of model '{}' are busy, and {most} requests wait",
            model.name
        ))
    };
    let waited = in_time(state, RefusalKind::TimedOut, "the wait for a slot", async {
        tokens.slot().await.map_err(refused)
    });
    let slot = waited.await?;
    let words = tokens.words(&made.prompt);
    if asked.stream {
        let usage = asked.include_usage;
        return Ok(stream(
            state,
            Stream { writer, made, usage, words, slot, flight, _share: share },
        ));
    }
    let whole = in_time(state, RefusalKind::TimedOut, "the answer", async {
        sleep_until(Instant::now() + made.pace.due(made.count.saturating_sub(1))).await;
        state.counts.tokens.fetch_add(made.count, Ordering::Relaxed);
        let text: String = words.take(made.count as usize).collect();
        Ok(writer.whole(&text, made.finish_reason, made.usage()))
    });
    let whole = whole.await?;
    drop((slot, share));
    Ok(json(state, whole).map(|body| body.in_flight(flight)))
}

/// An answer to be generated.
struct Generation {
    prompt: String,
    pace: Pace,
    count: u64,
    finish_reason: &'static str,
}

impl Generation {
    /// Returns the token counts; a token of a prompt is a word.
    fn usage(&self) -> Usage {
        Usage {
            prompt_tokens: self.prompt.split_whitespace().count() as u64,
            completion_tokens: self.count,
        }
    }
}

/// A streamed answer.
struct Stream<W> {
    writer: Writer,
    made: Generation,
    /// Whether it ends with token counts.
    usage: bool,
    words: W,
    /// Released at its end.
    slot: OwnedSemaphorePermit,
    flight: Flight,
    _share: Share,
}

/// Maximum number of parts that wait for a slow client.
const UNREAD: usize = 64;

fn stream(
    state: &Arc<State>,
    stream: Stream<impl Iterator<Item = String> + Send + 'static>,
) -> Response<Outgoing> {
    let (parts, received) = mpsc::channel(UNREAD);
    let state_of_task = Arc::clone(state);
    tokio::spawn(async move {
        // A client that disconnects or does not read in time ends the stream.
        let limit = state_of_task.settings.limits.request;
        let _ = tokio::time::timeout(limit, stream.send(&state_of_task, &parts)).await;
    });
    let mut response = typed(state, "text/event-stream", Bytes::new());
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response.map(|_| Outgoing::parts(state, received))
}

impl<W: Iterator<Item = String>> Stream<W> {
    /// Sends each token when it is due, relative to the first one: a late token delays no other.
    async fn send(
        mut self,
        state: &State,
        parts: &mpsc::Sender<Bytes>,
    ) -> Result<(), mpsc::error::SendError<Bytes>> {
        let begin = Instant::now();
        let Self { writer, made, usage, words, .. } = &mut self;
        let mut out = Vec::new();
        writer.write_role(&mut out);
        for (token, word) in (0..made.count).zip(words) {
            if !out.is_empty() {
                parts.send(std::mem::take(&mut out).into()).await?;
            }
            let due = begin + made.pace.due(token);
            if due > Instant::now() {
                sleep_until(due).await;
            }
            writer.write_part(&word, None, &mut out);
            state.counts.tokens.fetch_add(1, Ordering::Relaxed);
        }
        writer.write_part("", Some(made.finish_reason), &mut out);
        if *usage {
            writer.write_usage(made.usage(), &mut out);
        }
        write_done(&mut out);
        parts.send(out.into()).await?;
        // Only after the last part has been handed over.
        drop((self.slot, self.flight));
        Ok(())
    }
}

/// Returns the model of this name; an empty name means the only model.
fn text_model<'a>(state: &'a State, name: &str) -> Result<&'a Model, Refusal> {
    let makes_text = |model: &&Model| matches!(model.answers, Answers::Text(_));
    let model = match name {
        "" => state.models.iter().find(makes_text),
        name => Some(state.model(name, "")?).filter(makes_text),
    };
    model.ok_or_else(|| {
        RefusalKind::Invalid.because(
            "the model takes tensors, not text; use the Open Inference Protocol at \
             /v2/models/NAME/infer",
        )
    })
}

fn text(input: &Input) -> String {
    match input {
        Input::Text(text) => text.clone(),
        Input::Tokens(tokens) => tokens.iter().map(u64::to_string).collect::<Vec<_>>().join(" "),
        Input::Messages(all) => all.iter().map(Message::text).collect::<Vec<_>>().join("\n"),
        Input::Texts(all) => all.join("\n"),
        Input::Recording(file) => file.name.clone(),
        Input::Ranking { query, documents } => format!("{query}\n{}", documents.join("\n")),
    }
}
