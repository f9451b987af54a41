//! What a protocol is to the client that carries it.

use dyno_loadgen::qsl::SampleIndex;
use serde::{Deserialize, Serialize};

use crate::exchange::{Fields, HttpVersion, Request};
use crate::ledger::Entry;
use crate::trouble::Trouble;

/// A protocol with the samples that are sent in it. Pure: bytes in, bytes out.
pub trait Protocol: Send + Sync {
    /// Name for the logs, such as `oip-http`.
    fn name(&self) -> &str;
    /// What carries it.
    fn version(&self) -> HttpVersion;
    /// Samples in the data set (>= 1).
    fn sample_count(&self) -> usize;
    /// The request of one sample. Called when samples are loaded, outside the timed part, so
    /// that it may take its time; the result is kept until they are unloaded.
    fn request(&self, sample: SampleIndex) -> Request;
    /// Whether answers come in parts that hold tokens.
    fn is_streaming(&self) -> bool;
    /// What reads answers, one after the other.
    fn reader(&self) -> Box<dyn Reader>;
}

/// Reads one answer after the other; kept as long as a connection, so that its memory is used
/// again. Calls for one answer: [`begin`](Self::begin), [`data`](Self::data) any number of times
/// with bytes cut anywhere, then [`end`](Self::end) or nothing, where the connection broke.
pub trait Reader: Send {
    /// The next answer is to the request of this sample. Called before [`begin`](Self::begin).
    fn expect(&mut self, _sample: SampleIndex) {}
    /// The head of an answer has come: what was left of the one before is forgotten.
    ///
    /// # Errors
    /// A status that is none of success is no error yet: its body says why. One is only what
    /// makes reading on pointless.
    fn begin(&mut self, status: u16, fields: &dyn Fields) -> Result<(), Trouble>;
    /// Bytes of the body.
    ///
    /// # Errors
    /// What cannot be read, as soon as it is known.
    fn data(&mut self, bytes: &[u8]) -> Result<Heard, Trouble>;
    /// Reads what only the end of the body completes, such as an event that no empty line ends;
    /// called before [`end`](Self::end).
    ///
    /// # Errors
    /// As [`data`](Self::data).
    fn finish(&mut self) -> Result<Heard, Trouble> {
        Ok(Heard::default())
    }
    /// The body is complete. `trailers` are those of HTTP/2, where there were some.
    ///
    /// # Errors
    /// A status or a body that is no answer.
    fn end(&mut self, trailers: Option<&dyn Fields>) -> Result<Answer<'_>, Trouble>;
    /// The account of the answer, once [`end`](Self::end) was called or [`data`](Self::data)
    /// failed; `None` where answers are not text, or where there is no answer.
    fn entry(&self) -> Option<Entry> {
        None
    }
    /// Returns the effort of the next call, counted in bytes of JSON that take as long to parse.
    /// The client makes calls of much effort on another thread than the one that reads sockets.
    fn effort(&self, next: Next) -> usize {
        match next {
            Next::Data(bytes) => bytes,
            Next::End => 0,
        }
    }
}

/// Bytes that are copied while one byte of JSON is parsed.
pub(crate) const COPIED_PER_PARSED: usize = 16;
/// Bytes of JSON that are parsed while one byte of text is split into tokens.
pub(crate) const PARSED_PER_TOKENIZED: usize = 64;
/// Bytes of JSON that are parsed while one compressed byte is unpacked, and read in turn.
pub(crate) const PARSED_PER_UNPACKED: usize = 64;

/// A call that a [`Reader`] is about to get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// [`Reader::data`] with so many bytes.
    Data(usize),
    /// [`Reader::finish`] and [`Reader::end`].
    End,
}

/// What some bytes brought.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Heard {
    /// Events with output: each is one beat of the inter-token latency. The first above 0 of
    /// an answer is its first token. 0 where answers do not stream.
    pub beats: u32,
    /// The answer is complete by its own word (`[DONE]`), whether or not the body ends here.
    pub is_done: bool,
    /// There were further events behind the last one with output.
    pub has_more: bool,
}

/// One answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer<'a> {
    /// What the accuracy log gets.
    pub data: &'a [u8],
    /// Output tokens; 0 where there are none.
    pub tokens: i64,
    /// Who counted them.
    pub counted_by: Counted,
    /// Its account, where answers are text.
    pub entry: Option<Entry>,
}

impl<'a> Answer<'a> {
    /// An answer without tokens.
    #[must_use]
    pub fn without_tokens(data: &'a [u8]) -> Self {
        Self { data, tokens: 0, counted_by: Counted::Nobody, entry: None }
    }
}

/// Who counted the output tokens of an answer.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub enum Counted {
    /// Answers have no tokens.
    #[default]
    Nobody,
    /// The server, in `usage`.
    Server,
    /// A tokenizer of the client's.
    Tokenizer,
    /// Events with output were counted: a token each is a guess.
    Events,
}
