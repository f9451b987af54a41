//! Small protocols: what they say is known beforehand.

use bytes::Bytes;
use dyno_loadgen::qsl::SampleIndex;
use dyno_net::exchange::{Fields, HttpVersion, Method, Request};
use dyno_net::protocol::{Answer, Protocol, ReadProgress, Reader, TokenCounter};
use dyno_net::trouble::{Kind, Trouble};

/// Posts a body of so many bytes, and takes any answer of status 200.
pub struct Fixed {
    pub version: HttpVersion,
    pub samples: usize,
    pub body: usize,
}

/// Over HTTP/1.1, a small request.
pub const SMALL: Fixed = Fixed { version: HttpVersion::Http1, samples: 64, body: 32 };

/// The body of a sample's request.
pub fn body_of(sample: SampleIndex, len: usize) -> Bytes {
    let text = format!("{sample};").into_bytes();
    text.iter().copied().chain(std::iter::repeat(b'.')).take(len.max(text.len())).collect()
}

impl Protocol for Fixed {
    fn name(&self) -> &str {
        "fixed"
    }
    fn version(&self) -> HttpVersion {
        self.version
    }
    fn sample_count(&self) -> usize {
        self.samples
    }
    fn request(&self, sample: SampleIndex) -> Request {
        let body = body_of(sample, self.body);
        Request { method: Method::Post, path: "/fixed".into(), fields: Vec::new(), body }
    }
    fn is_streaming(&self) -> bool {
        false
    }
    fn reader(&self) -> Box<dyn Reader> {
        Box::new(WholeReader::default())
    }
}

#[derive(Default)]
struct WholeReader {
    status: u16,
    body: Vec<u8>,
}

/// What a status that is none of success means.
fn judged(status: u16) -> Result<(), Trouble> {
    let kind = match status {
        200..=299 => return Ok(()),
        429 | 503 => Kind::Refused,
        400..=499 => Kind::Request,
        _ => Kind::Server,
    };
    Err(Trouble::new(kind, format!("the server says {status}")))
}

impl Reader for WholeReader {
    fn begin(&mut self, status: u16, _: &dyn Fields) -> Result<(), Trouble> {
        self.status = status;
        self.body.clear();
        Ok(())
    }
    fn data(&mut self, bytes: &[u8]) -> Result<ReadProgress, Trouble> {
        self.body.extend_from_slice(bytes);
        Ok(ReadProgress::default())
    }
    fn end(&mut self, _: Option<&dyn Fields>) -> Result<Answer<'_>, Trouble> {
        judged(self.status)?;
        if self.body.starts_with(b"wrong shape") {
            return Err(Trouble::new(Kind::Mismatch, "the output has another shape"));
        }
        Ok(Answer::without_tokens(&self.body))
    }
}

/// Each line of an answer is a token; `end` ends it.
pub struct Lines(pub HttpVersion);

#[derive(Default)]
struct LineReader {
    status: u16,
    text: Vec<u8>,
    tokens: i64,
}

impl Protocol for Lines {
    fn name(&self) -> &str {
        "lines"
    }
    fn version(&self) -> HttpVersion {
        self.0
    }
    fn sample_count(&self) -> usize {
        16
    }
    fn request(&self, sample: SampleIndex) -> Request {
        let body = body_of(sample, 8);
        Request { method: Method::Post, path: "/lines".into(), fields: Vec::new(), body }
    }
    fn is_streaming(&self) -> bool {
        true
    }
    fn reader(&self) -> Box<dyn Reader> {
        Box::new(LineReader::default())
    }
}

impl Reader for LineReader {
    fn begin(&mut self, status: u16, _: &dyn Fields) -> Result<(), Trouble> {
        (self.status, self.tokens) = (status, 0);
        self.text.clear();
        Ok(())
    }
    fn data(&mut self, bytes: &[u8]) -> Result<ReadProgress, Trouble> {
        let beats = bytes.iter().filter(|&&b| b == b'\n').count() as u32;
        self.tokens += i64::from(beats);
        self.text.extend_from_slice(bytes);
        Ok(ReadProgress { beats, is_done: self.text.ends_with(b"end\n"), has_more: false })
    }
    fn end(&mut self, _: Option<&dyn Fields>) -> Result<Answer<'_>, Trouble> {
        judged(self.status)?;
        if !self.text.ends_with(b"end\n") {
            return Err(Trouble::new(Kind::Malformed, "the answer has no end"));
        }
        let counted_by = TokenCounter::Events;
        Ok(Answer {
            data: &self.text,
            tokens: self.tokens,
            counted_by,
            entry: None,
            reply: None,
            other_model: None,
        })
    }
}
