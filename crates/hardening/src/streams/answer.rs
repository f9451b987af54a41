//! Answers of a simulated text server: the bytes that it sends and when, what they hold, and how the
//! reader of the client reads them in virtual time.

use std::borrow::Cow;

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::record::{Failure, Outcome};
use dyno_net::exchange::Fields;
use dyno_net::protocol::Reader;
use dyno_net::trouble::Kind;

use super::oracle::Ending;
use crate::rng::Stream;

dyno_loadgen::named_enum! {
    /// How the server ends an answer.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Form {
        /// A stream with a finish reason and `[DONE]`.
        Stream = "stream",
        /// A stream without `[DONE]`.
        NoDone = "no-done",
        /// A stream without a finish reason.
        NoReason = "no-reason",
        /// One JSON object instead of a stream.
        Whole = "whole",
        /// The body ends in the middle of the stream.
        Cut = "cut",
        /// The finish reason is `abort`.
        Abort = "abort",
        /// The finish reason is `content_filter`.
        Filter = "filter",
        /// An error within the stream.
        Error = "error",
        /// The connection breaks in the middle of the stream.
        Disconnect = "disconnect",
        /// The server refuses the request.
        Refuse = "refuse",
        /// The client gives the request up in the middle of the stream.
        Cancel = "cancel",
        /// No answer ever comes.
        Lose = "lose",
    }
}

impl Form {
    fn has_reason(self) -> bool {
        matches!(self, Self::Stream | Self::NoDone | Self::Abort | Self::Filter)
    }

    fn reason(self) -> &'static str {
        match self {
            Self::Abort => "abort",
            Self::Filter => "content_filter",
            _ => "stop",
        }
    }
}

/// Order of magnitude of the times of a tenant's answers.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// About the time until the first token, ns.
    pub first_ns: f64,
    /// About the time between two tokens, ns.
    pub gap_ns: f64,
    /// Whether the end of a stream may come after its last token.
    pub has_tail: bool,
    /// Whether these times are exact, so that the events of several answers coincide.
    pub is_exact: bool,
}

/// An answer. Times are ns since the server began to work on it.
#[derive(Debug, Clone)]
pub struct Script {
    /// How it ends.
    pub form: Form,
    status: u16,
    /// Bytes of each read from the socket, and its time.
    reads: Vec<(Nanos, Vec<u8>)>,
    /// When the line of each part with output is complete on the wire.
    pub outputs: Vec<Nanos>,
    /// Output tokens as the client must count them.
    pub tokens: i64,
    has_text: bool,
    has_usage: bool,
    /// How the answer counts.
    pub ending: Ending,
}

/// The smallest number of tokens that the requests of some samples demand.
pub const LEAST_TOKENS: i64 = 3;

/// Returns whether the request of a sample demands [`LEAST_TOKENS`].
pub fn demands_tokens(sample: u32) -> bool {
    sample % 5 == 4
}

impl Script {
    /// Draws an answer of this form to the request of a sample.
    pub fn draw(form: Form, sample: u32, pace: &Pace, draw: &mut Stream) -> Self {
        let parts = match draw.below(20) {
            0 => 0,
            1..=3 => 1,
            4..=6 => 2,
            _ => draw.log_uniform(1.0, 40.0) as usize,
        };
        let late = if draw.chance(0.03) { 50.0 } else { 1.0 };
        let factor = if pace.is_exact { 1.0 } else { draw.log_uniform(0.3, 3.0) };
        let first = (pace.first_ns * factor * late) as Nanos + 1;
        let mut script = Self {
            form,
            status: 200,
            reads: Vec::new(),
            outputs: Vec::new(),
            tokens: 0,
            has_text: parts > 0,
            has_usage: draw.chance(0.7),
            ending: Ending::Lost,
        };
        match form {
            Form::Lose => return script,
            Form::Refuse => script.refuse(first, draw),
            Form::Whole => script.write_whole(first, parts, draw),
            _ => script.write_stream(first, parts, pace, draw),
        }
        script.ending = script.ending_of(sample);
        script
    }

    fn refuse(&mut self, at: Nanos, draw: &mut Stream) {
        self.status = draw.pick(&[429, 503, 500]);
        self.reads.push((at, b"{\"error\":{\"message\":\"busy\"}}".to_vec()));
    }

    fn write_whole(&mut self, at: Nanos, parts: usize, draw: &mut Stream) {
        let text = "ab ".repeat(parts);
        let usage = if self.has_usage { usage_member(parts) } else { String::new() };
        let body = format!(
            "{{\"id\":\"a\",\"object\":\"chat.completion\",\"choices\":[{{\"index\":0,\"message\":\
             {{\"role\":\"assistant\",\"content\":\"{text}\"}},\"finish_reason\":\"stop\"}}]{usage}}}"
        );
        let cut = 1 + draw.below(body.len() as u64 - 1) as usize;
        self.reads.push((at - at / 3, body.as_bytes()[..cut].to_vec()));
        self.reads.push((at, body.as_bytes()[cut..].to_vec()));
        self.tokens = if self.has_usage { parts as i64 } else { 0 };
    }

    /// Writes a stream of so many parts with output, the first of them at `first`.
    fn write_stream(&mut self, first: Nanos, parts: usize, pace: &Pace, draw: &mut Stream) {
        let is_even = pace.is_exact || draw.chance(0.3);
        let is_joined = self.form.has_reason() && parts > 0 && draw.chance(0.3);
        let mut now = first;
        if draw.chance(0.5) {
            self.push(now - now / 2, &chunk("\"role\":\"assistant\",\"content\":\"\"", None), draw);
        }
        if draw.chance(0.1) {
            self.push(now - now / 4, ": keep-alive\n\n", draw);
        }
        let mut tokens = 0;
        for part in 0..parts {
            if part > 0 && !draw.chance(0.1) {
                let factor = if is_even { 1.0 } else { draw.log_uniform(0.05, 20.0) };
                now += (pace.gap_ns * factor) as Nanos;
            }
            let of_part = if draw.chance(0.1) { 1 + draw.below(4) as usize } else { 1 };
            tokens += of_part;
            let reason = (is_joined && part + 1 == parts).then(|| self.form.reason());
            let content = format!("\"content\":\"{}\"", "ab ".repeat(of_part));
            let output = self.push(now, &chunk(&content, reason), draw);
            self.outputs.push(output);
        }
        self.tokens = if self.has_usage { tokens } else { parts } as i64;
        if pace.has_tail && draw.chance(0.5) {
            now += (pace.gap_ns * draw.log_uniform(0.05, 20.0)) as Nanos;
        }
        if self.form.has_reason() && !is_joined {
            self.push(now, &chunk("", Some(self.form.reason())), draw);
        }
        self.write_end(now, tokens, draw);
    }

    /// Writes what comes after the last part with output and the finish reason.
    fn write_end(&mut self, now: Nanos, tokens: usize, draw: &mut Stream) {
        match self.form {
            Form::Cut => {
                self.push(now, &chunk("", None), draw);
            }
            Form::Disconnect | Form::Cancel => {
                self.reads.push((now, b"data: {\"cho".to_vec()));
            }
            Form::Error => {
                let error = "data: {\"error\":{\"message\":\"broken\",\"code\":500}}\n\n";
                self.push(now, error, draw);
            }
            _ => {
                if self.has_usage {
                    let usage = usage_member(tokens);
                    self.push(now, &format!("data: {{\"choices\":[]{usage}}}\n\n"), draw);
                }
                if self.form != Form::NoDone {
                    self.push(now, "data: [DONE]\n\n", draw);
                }
            }
        }
    }

    /// Appends an event that is complete at `at`. Its beginning may come with the read before it, or
    /// all of it if that read is at the same time. Returns when the line of its data is complete: only
    /// the empty line may come later.
    fn push(&mut self, at: Nanos, event: &str, draw: &mut Stream) -> Nanos {
        let mut bytes = event.as_bytes();
        let mut line_at = at;
        if let Some((before, last)) = self.reads.last_mut() {
            if *before == at && draw.chance(0.5) {
                last.extend_from_slice(bytes);
                return at;
            }
            if draw.chance(0.2) {
                let cut = draw.below(bytes.len() as u64) as usize;
                last.extend_from_slice(&bytes[..cut]);
                bytes = &bytes[cut..];
                if bytes == b"\n" {
                    line_at = *before;
                }
            }
        }
        self.reads.push((at, bytes.to_vec()));
        line_at
    }

    /// Returns how the answer counts, by the table of classes in `docs/reference/summary-json.md`. A
    /// stream is complete with its last output, any other answer with its last byte, and a failure is
    /// known at the end of the body.
    fn ending_of(&self, sample: u32) -> Ending {
        let at_ns = self.ended();
        let failed = |reason| Ending::Failed { reason, at_ns };
        match self.form {
            Form::Lose => Ending::Lost,
            Form::Refuse if self.status == 500 => failed("internal"),
            Form::Refuse => failed("rejected"),
            Form::Cancel => Ending::Cancelled { at_ns },
            Form::Disconnect => failed("disconnected"),
            Form::Error => failed("internal"),
            Form::Cut => failed("cut"),
            Form::Abort => failed("aborted"),
            Form::Filter => failed("filtered"),
            _ if !self.has_text => failed("empty"),
            // Only counts of the server decide whether an answer is short.
            _ if demands_tokens(sample) && self.has_usage && self.tokens < LEAST_TOKENS => {
                failed("short")
            }
            _ => Ending::Answered { at_ns: self.outputs.last().copied().unwrap_or(at_ns) },
        }
    }

    /// Returns when the last byte comes.
    pub fn ended(&self) -> Nanos {
        self.reads.last().map_or(0, |(at, _)| *at)
    }
}

/// Returns an event with an addition to the message.
fn chunk(delta: &str, reason: Option<&str>) -> String {
    let reason = reason.map_or("null".into(), |reason| format!("\"{reason}\""));
    format!(
        "data: {{\"id\":\"a\",\"object\":\"chat.completion.chunk\",\"choices\":[{{\"index\":0,\
         \"delta\":{{{delta}}},\"finish_reason\":{reason}}}]}}\n\n"
    )
}

fn usage_member(tokens: usize) -> String {
    let total = 7 + tokens;
    format!(
        ",\"usage\":{{\"prompt_tokens\":7,\"completion_tokens\":{tokens},\"total_tokens\":{total}}}"
    )
}

/// What the client makes of an answer.
#[derive(Debug, Clone)]
pub struct ReadAnswer {
    /// When the first part with output was read.
    pub first: Option<Nanos>,
    /// When the answer was complete, or known to have failed.
    pub at: Nanos,
    /// Answer or failure.
    pub outcome: Outcome,
    /// Spans between parts with output.
    pub gaps: Vec<Nanos>,
}

struct ContentType(&'static str);

impl Fields for ContentType {
    fn field(&self, name: &str) -> Option<&[u8]> {
        (name == "content-type").then_some(self.0.as_bytes())
    }

    fn list(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        self.field(name).map(Cow::Borrowed)
    }
}

/// Reads an answer with the reader of a protocol, each read at its time, as
/// `dyno_net::client` does in real time.
pub fn read(script: &Script, sample: u32, reader: &mut dyn Reader) -> ReadAnswer {
    let is_json = matches!(script.form, Form::Whole | Form::Refuse);
    let kind = if is_json { "application/json" } else { "text/event-stream" };
    let mut found = ReadAnswer {
        first: None,
        at: script.ended(),
        outcome: Outcome::Failed(Failure::Disconnected),
        gaps: Vec::new(),
    };
    reader.expect(sample);
    let failed = |kind: Kind| Outcome::Failed(kind.failure());
    if let Err(trouble) = reader.begin(script.status, &ContentType(kind)) {
        found.outcome = failed(trouble.kind);
        return found;
    }
    let (mut last, mut beats) = (None, 0);
    for (at, bytes) in &script.reads {
        let progress = match reader.data(bytes) {
            Ok(progress) => progress,
            Err(trouble) => {
                found.outcome = failed(trouble.kind);
                return found;
            }
        };
        beats += progress.beats;
        if progress.beats > 0 {
            found.first.get_or_insert(*at);
            found.gaps.extend(last.map(|before| at - before));
            last = Some(*at);
        }
    }
    match script.form {
        Form::Disconnect => return found,
        Form::Cancel => {
            found.outcome = failed(Kind::Cancelled);
            return found;
        }
        _ => {}
    }
    let ended = reader.finish().and_then(|_| reader.end(None).map(|answer| answer.tokens));
    match ended {
        Ok(tokens) => {
            found.outcome = Outcome::Ok { tokens };
            found.at = last.unwrap_or(found.at);
            // Parts of one read have no time between them.
            let joined = (beats as usize).saturating_sub(found.gaps.len() + 1);
            found.gaps.extend(std::iter::repeat_n(0, joined));
        }
        Err(trouble) => found.outcome = failed(trouble.kind),
    }
    found
}
