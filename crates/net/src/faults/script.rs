//! Answers as data: pieces of bytes and pauses, and how they are written.

use std::borrow::Cow;
use std::io;

/// One answer, as a list of writes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stream {
    /// The status line and the fields, without the empty line.
    pub head: &'static str,
    /// How the body is framed.
    pub framing: Framing,
    /// How an event is spelled.
    pub spelling: Spelling,
    /// Writes and pauses, in order.
    pub pieces: &'static [Piece],
    /// End of the answer after the last piece.
    pub end: End,
}

/// How the body of an answer is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// Each piece is one chunk (RFC 9112, section 7.1).
    Chunked,
    /// The end of the connection ends the body.
    Close,
}

/// How an event is spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelling {
    /// `data: TEXT`, and an empty line.
    Usual,
    /// Without the space after the colon.
    NoSpace,
    /// Lines end with CR LF.
    CrLf,
    /// A line of JSON, without `data:`.
    Lines,
}

/// End of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The end of the body; the connection stays open.
    Whole,
    /// The end of the body; the connection is closed.
    Closed,
    /// No end of the body; the connection is closed.
    Broken,
}

/// One write, or a pause.
#[derive(Debug, Clone, Copy)]
pub(super) enum Piece {
    /// Nothing for this many milliseconds.
    Pause(u64),
    /// An event with a part of the answer.
    Part(Part),
    /// An event with no part of the answer, but with this `usage`.
    Usage(u64, u64),
    /// An event whose data is this text.
    Event(&'static str),
    /// `[DONE]`.
    Done,
    /// These bytes.
    Bytes(&'static [u8]),
    /// An event with this many letters of output.
    Letters(usize),
    /// Several pieces, joined and then split after this many bytes: two writes, 10 ms apart.
    Torn(&'static [Piece], usize),
    /// Several pieces in one write.
    Joined(&'static [Piece]),
    /// These pieces, repeated this many times.
    Repeat(usize, &'static [Piece]),
}

/// A part of an answer: one choice of one event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// The member with the output, such as `"text": "a"`.
    pub output: Output,
    /// Finish reason; empty if the answer continues.
    pub finish: &'static str,
    /// The member `usage`, as JSON; empty for no usage.
    pub usage: &'static str,
}

/// The output of a part.
#[derive(Debug, Clone, Copy)]
pub(super) enum Output {
    /// `delta` with this `content`.
    Content(&'static str),
    /// `delta` with these members.
    Delta(&'static str),
    /// `text`, as completions have it.
    Text(&'static str),
}

/// An event with `content`.
pub(super) const fn content(text: &'static str) -> Piece {
    content_with(text, "")
}

/// An event with `content` and `usage`.
pub(super) const fn content_with(text: &'static str, usage: &'static str) -> Piece {
    Piece::Part(Part { output: Output::Content(text), finish: "", usage })
}

/// The only event with `content`, which also ends the answer.
pub(super) const fn last_content(text: &'static str, finish: &'static str) -> Piece {
    Piece::Part(Part { output: Output::Content(text), finish, usage: "" })
}

/// An event with these members of `delta`.
pub(super) const fn delta(members: &'static str) -> Piece {
    Piece::Part(Part { output: Output::Delta(members), finish: "", usage: "" })
}

/// An event that ends the answer.
pub(super) const fn finish(reason: &'static str) -> Piece {
    finish_with("", reason, "")
}

/// An event that ends the answer, with members of `delta` and `usage`.
pub(super) const fn finish_with(
    members: &'static str,
    reason: &'static str,
    usage: &'static str,
) -> Piece {
    Piece::Part(Part { output: Output::Delta(members), finish: reason, usage })
}

/// An event of the interface for completions.
pub(super) const fn text(text: &'static str, finish: &'static str, usage: &'static str) -> Piece {
    Piece::Part(Part { output: Output::Text(text), finish, usage })
}

/// Beginning of every event of a stream.
const BEGINNING: &str =
    r#"{"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": ["#;

impl Part {
    fn json(&self) -> String {
        let finish = match self.finish {
            "" => "null".to_owned(),
            reason => format!("\"{reason}\""),
        };
        let output = match self.output {
            Output::Content(text) => format!(r#""delta": {{"content": "{text}"}}"#),
            Output::Delta(members) => format!(r#""delta": {{{members}}}"#),
            Output::Text(text) => format!(r#""text": "{text}""#),
        };
        let usage = match self.usage {
            "" => String::new(),
            usage => format!(r#", "usage": {usage}"#),
        };
        let choice = format!(r#"{{"index": 0, "finish_reason": {finish}, {output}}}"#);
        format!("{BEGINNING}{choice}]{usage}}}")
    }
}

/// One step of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step<'a> {
    /// These bytes are written at once.
    Write(Cow<'a, [u8]>),
    /// Nothing happens for this many milliseconds.
    Pause(u64),
}

/// Milliseconds between the two writes of a split event.
const TORN_MS: u64 = 10;

impl Piece {
    /// Returns the steps of this piece, without the framing.
    fn steps(&self, spelling: Spelling) -> Vec<Step<'static>> {
        match self {
            Self::Pause(ms) => vec![Step::Pause(*ms)],
            Self::Torn(pieces, at) => {
                let mut first = joined(pieces, spelling);
                let second = first.split_off(*at);
                let write = |bytes: Vec<u8>| Step::Write(bytes.into());
                vec![write(first), Step::Pause(TORN_MS), write(second)]
            }
            Self::Repeat(times, pieces) => (0..*times)
                .flat_map(|_| pieces.iter().flat_map(|piece| piece.steps(spelling)))
                .collect(),
            other => vec![Step::Write(other.bytes(spelling))],
        }
    }

    /// Returns the bytes of a piece that is one write; empty for a pause.
    fn bytes(&self, spelling: Spelling) -> Cow<'static, [u8]> {
        match self {
            Self::Part(part) => event(&part.json(), spelling),
            Self::Usage(prompt, completion) => {
                let total = prompt + completion;
                event(
                    &format!(
                        r#"{BEGINNING}], "usage": {{"prompt_tokens": {prompt}, "completion_tokens": {completion}, "total_tokens": {total}}}}}"#
                    ),
                    spelling,
                )
            }
            Self::Event(data) => event(data, spelling),
            Self::Done => event("[DONE]", spelling),
            Self::Bytes(bytes) => (*bytes).into(),
            Self::Letters(count) => {
                let choice = r#"{"index": 0, "finish_reason": null, "delta": {"content": ""#;
                let letters = "a".repeat(*count);
                event(&format!("{BEGINNING}{choice}{letters}\"}}}}]}}"), spelling)
            }
            Self::Joined(pieces) | Self::Torn(pieces, _) | Self::Repeat(_, pieces) => {
                joined(pieces, spelling).into()
            }
            Self::Pause(_) => Cow::Borrowed(&[]),
        }
    }
}

fn joined(pieces: &[Piece], spelling: Spelling) -> Vec<u8> {
    pieces.iter().flat_map(|piece| piece.bytes(spelling).into_owned()).collect()
}

fn event(data: &str, spelling: Spelling) -> Cow<'static, [u8]> {
    let event = match spelling {
        Spelling::Usual => format!("data: {data}\n\n"),
        Spelling::NoSpace => format!("data:{data}\n\n"),
        Spelling::CrLf => format!("data: {data}\r\n\r\n"),
        Spelling::Lines => format!("{data}\n"),
    };
    event.into_bytes().into()
}

impl Stream {
    /// Performs the answer: `step` is called for each write and each pause, in order.
    ///
    /// # Errors
    /// The first error of `step`.
    pub(super) fn play(&self, step: &mut dyn FnMut(Step<'_>) -> io::Result<()>) -> io::Result<()> {
        step(Step::Write(format!("{}\r\n", self.head).into_bytes().into()))?;
        for piece in self.pieces {
            for one in piece.steps(self.spelling) {
                match (one, self.framing) {
                    (Step::Write(bytes), Framing::Chunked) => {
                        let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
                        chunk.extend_from_slice(&bytes);
                        chunk.extend_from_slice(b"\r\n");
                        step(Step::Write(chunk.into()))?;
                    }
                    (other, _) => step(other)?,
                }
            }
        }
        match (self.framing, self.end) {
            (Framing::Close, _) | (_, End::Broken) => Ok(()),
            (Framing::Chunked, _) => step(Step::Write(b"0\r\n\r\n".into())),
        }
    }
}
