//! Interface between a protocol and the client that carries it.

use dyno_loadgen::qsl::SampleIndex;
use serde::{Deserialize, Serialize};

use crate::exchange::{Fields, HttpVersion, Request};
use crate::ledger::Entry;
use crate::trouble::Trouble;

/// A protocol with the samples that it sends. Pure: bytes in, bytes out.
pub trait Protocol: Send + Sync {
    /// Name for the logs, such as `oip-http`.
    fn name(&self) -> &str;
    /// HTTP version.
    fn version(&self) -> HttpVersion;
    /// Samples in the data set (>= 1).
    fn sample_count(&self) -> usize;
    /// Returns the request of one sample. Called when samples are loaded, outside the timed part;
    /// the result is kept until they are unloaded.
    fn request(&self, sample: SampleIndex) -> Request;
    /// Returns whether answers come in parts that hold tokens.
    fn is_streaming(&self) -> bool;
    /// Returns digits in the body of each request in whose place every request that is sent has other
    /// ones.
    fn unique_mark(&self) -> Option<&'static str> {
        None
    }
    /// Returns whether the request of a sample is known only when the answer before it is: it is a
    /// later turn of a live session.
    fn is_later_turn(&self, _sample: SampleIndex) -> bool {
        false
    }
    /// Returns the turn that follows the answer to a sample in its session; `None` if it was the
    /// last one, or if samples are independent.
    fn next_turn(&self, _sample: SampleIndex, _reply: &Reply) -> Option<NextTurn> {
        None
    }
    /// Returns whether a turn follows an answer to a sample that calls tools, in its live session.
    fn has_next_turn(&self, _sample: SampleIndex) -> bool {
        false
    }
    /// Returns whether samples are turns of live sessions.
    fn has_sessions(&self) -> bool {
        false
    }
    /// Creates a reader of answers, which reads one answer after the other.
    fn reader(&self) -> Box<dyn Reader>;
}

/// Reader of consecutive answers, kept as long as a connection so that its memory is reused. Calls
/// for one answer: [`begin`](Self::begin), [`data`](Self::data) any number of times with bytes cut
/// anywhere, then [`end`](Self::end), or nothing if the connection broke.
pub trait Reader: Send {
    /// Announces the sample of the next answer. Called before [`begin`](Self::begin).
    fn expect(&mut self, _sample: SampleIndex) {}
    /// Reads the head of an answer, and discards the rest of the previous one.
    ///
    /// # Errors
    /// Only trouble that makes further reading pointless. A status other than success is not an
    /// error yet, because the body explains it.
    fn begin(&mut self, status: u16, fields: &dyn Fields) -> Result<(), Trouble>;
    /// Reads bytes of the body.
    ///
    /// # Errors
    /// Invalid data, as soon as it is known.
    fn data(&mut self, bytes: &[u8]) -> Result<ReadProgress, Trouble>;
    /// Reads data that only the end of the body completes, such as an event without a final empty
    /// line; called before [`end`](Self::end).
    ///
    /// # Errors
    /// The errors of [`data`](Self::data).
    fn finish(&mut self) -> Result<ReadProgress, Trouble> {
        Ok(ReadProgress::default())
    }
    /// Returns the answer after the complete body. `trailers` are those of HTTP/2, if any.
    ///
    /// # Errors
    /// A status or a body that is not a valid answer.
    fn end(&mut self, trailers: Option<&dyn Fields>) -> Result<Answer<'_>, Trouble>;
    /// Returns the account of the answer, after [`end`](Self::end) was called or
    /// [`data`](Self::data) failed; `None` if answers are not text, or if there is no answer.
    fn entry(&self) -> Option<Entry> {
        None
    }
    /// Returns the number of bytes of the answer that are kept until its end.
    fn held(&self) -> usize {
        0
    }
    /// Frees these bytes. Called after the end of an answer that had many.
    fn free(&mut self) {}
    /// Returns the effort of the next call, in bytes of JSON that take as long to parse. The client
    /// makes calls of much effort on another thread than the one that reads sockets.
    fn effort(&self, next: ReaderCall) -> usize {
        match next {
            ReaderCall::Data(bytes) => bytes,
            ReaderCall::End => 0,
        }
    }
}

/// Maximum bytes of a whole answer, for each connection. Tensors may be longer.
pub(crate) const LONGEST_ANSWER: usize = 64 << 20;

/// Bytes that are copied in the time of parsing one byte of JSON.
pub(crate) const COPIED_PER_PARSED: usize = 16;
/// Bytes of JSON that are parsed in the time of tokenizing one byte of text.
pub(crate) const PARSED_PER_TOKENIZED: usize = 64;
/// Bytes of JSON that are parsed in the time of unpacking and reading one compressed byte.
pub(crate) const PARSED_PER_UNPACKED: usize = 64;

/// The next call of a [`Reader`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReaderCall {
    /// [`Reader::data`] with this many bytes.
    Data(usize),
    /// [`Reader::finish`] and [`Reader::end`].
    End,
}

/// Progress of an answer through some bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadProgress {
    /// Events with output: each is one beat of the inter-token latency. The first event above 0 of
    /// an answer is its first token. 0 if answers are not streamed.
    pub beats: u32,
    /// The answer declared itself complete (`[DONE]`), whether or not the body ends here, and no output has
    /// come behind that.
    pub is_done: bool,
    /// Further events followed the last one with output.
    pub has_more: bool,
}

/// The message of an answer, as later turns of its session hold it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reply {
    /// Text, without thoughts.
    pub text: String,
    /// Thoughts.
    pub thought: String,
    /// Member of the message that holds them.
    pub thought_member: &'static str,
    /// Details of thoughts (`reasoning_details` of OpenRouter).
    pub details: Vec<serde_json::Value>,
    /// Calls of tools.
    pub calls: Vec<ToolCall>,
}

/// A call of a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// Id that its result names; empty if the server gave none.
    pub id: String,
    /// Name of the function.
    pub name: String,
    /// Arguments, in JSON.
    pub arguments: String,
    /// What the server wants back with the call (`extra_content`), in JSON; empty if that is nothing.
    pub extra: String,
    /// Its result, if a tool of the client answered it; otherwise the recorded result counts.
    pub result: Option<String>,
}

/// A turn of a live session after the first one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextTurn {
    /// Its sample.
    pub sample: SampleIndex,
    /// Its request.
    pub request: Request,
    /// Whether the answer calls other tools than the recording answers.
    pub has_other_tools: bool,
}

/// One answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer<'a> {
    /// Data for the accuracy log.
    pub data: &'a [u8],
    /// Output tokens; 0 if there are none.
    pub tokens: i64,
    /// Counter of the tokens.
    pub counted_by: TokenCounter,
    /// Its account, if answers are text.
    pub entry: Option<Entry>,
    /// Its message, if samples are turns of live sessions.
    pub reply: Option<&'a Reply>,
    /// The model that it names, if the request names another one.
    pub other_model: Option<OtherModel<'a>>,
}

/// Models that a request and its answer name, which differ. Many servers answer with a longer name, such
/// as one with a date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtherModel<'a> {
    /// Model of the request.
    pub requested: &'a str,
    /// Model of the answer.
    pub answered: &'a str,
}

impl<'a> OtherModel<'a> {
    /// Returns the models of a request and its answer if both name one and these differ.
    pub fn between(requested: &'a str, answered: &'a str) -> Option<Self> {
        let differ = !requested.is_empty() && !answered.is_empty() && requested != answered;
        differ.then_some(Self { requested, answered })
    }
}

impl<'a> Answer<'a> {
    /// Creates an answer without tokens.
    pub fn without_tokens(data: &'a [u8]) -> Self {
        let counted_by = TokenCounter::Nobody;
        Self { data, tokens: 0, counted_by, entry: None, reply: None, other_model: None }
    }
}

/// Source of the number of output tokens of an answer.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub enum TokenCounter {
    /// Answers have no tokens.
    #[default]
    Nobody,
    /// The server, in `usage`.
    Server,
    /// A tokenizer of the client.
    Tokenizer,
    /// The number of events with output, assuming one token per event.
    Events,
}
