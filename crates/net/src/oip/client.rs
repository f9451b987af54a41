//! Client side: requests of samples and readers of answers.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use dyno_loadgen::qsl::SampleIndex;
use prost::Message as _;

use super::http::{HEAD_LENGTH, error_words};
use super::messages::{MODEL_INFER, MODEL_STREAM_INFER, ModelStreamInferResponse};
use super::{InferRequest, InferResponse, Model, PlayedSequences};
use crate::exchange::{Fields, HttpVersion, Method, Request};
use crate::grpc::{self, Deframer};
use crate::protocol::{
    Answer, COPIED_PER_PARSED, OtherModel, PARSED_PER_UNPACKED, Protocol, ReadProgress, Reader,
    ReaderCall, TokenCounter,
};
use crate::trouble::{Kind, Trouble};

/// Maximum bytes of an answer: large images and volumes have some tens of MB.
const LONGEST_ANSWER: usize = crate::grpc::MAX_MESSAGE;

dyno_loadgen::named_enum! {
    /// Encoding and transport of tensors.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Form {
        /// HTTP with JSON only.
        Json = "oip-http-json",
        /// HTTP with the extension for binary tensors.
        Binary = "oip-http-binary",
        /// gRPC with raw contents.
        Raw = "oip-grpc-raw",
        /// gRPC with contents by type.
        Typed = "oip-grpc-typed",
        /// gRPC with raw contents and any number of answers to a request (`ModelStreamInfer` of
        /// Triton).
        Stream = "oip-grpc-stream",
    }
}

impl Form {
    /// Returns whether the form uses gRPC.
    pub fn is_grpc(self) -> bool {
        matches!(self, Self::Raw | Self::Typed | Self::Stream)
    }
}

/// Open Inference Protocol client of one model.
#[derive(Debug)]
pub struct Oip {
    model: Arc<Model>,
    form: Form,
    version: HttpVersion,
    sequences: Option<PlayedSequences>,
}

impl Oip {
    /// Creates the protocol of a model in a form.
    pub fn new(model: Arc<Model>, form: Form) -> Self {
        let version = if form.is_grpc() { HttpVersion::Http2 } else { HttpVersion::Http1 };
        Self { model, form, version, sequences: None }
    }

    /// Uses HTTP/2, which gRPC does anyway.
    #[must_use]
    pub fn over_http2(self) -> Self {
        Self { version: HttpVersion::Http2, ..self }
    }

    /// Plays sequences: each sample is a request of one. The data of the samples are those of the
    /// model in turn.
    #[must_use]
    pub fn with_sequences(self, sequences: PlayedSequences) -> Self {
        Self { sequences: Some(sequences), ..self }
    }

    /// Returns the inference request of a sample.
    fn infer_request(&self, sample: SampleIndex) -> Result<InferRequest, String> {
        let Some(sequences) = &self.sequences else { return self.model.request(sample) };
        let count = SampleIndex::try_from(self.model.sample_count()).unwrap_or(SampleIndex::MAX);
        let request = self.model.request(sample % count)?;
        Ok(InferRequest { sequence: sequences.step(sample), ..request })
    }
}

impl Protocol for Oip {
    fn name(&self) -> &str {
        self.form.name()
    }

    fn version(&self) -> HttpVersion {
        self.version
    }

    fn sample_count(&self) -> usize {
        match &self.sequences {
            Some(sequences) => sequences.sample_count(),
            None => self.model.sample_count(),
        }
    }

    fn request(&self, sample: SampleIndex) -> Request {
        let request = match self.infer_request(sample) {
            Ok(request) => request,
            // A sample that cannot be encoded is sent as a request that the server rejects with
            // this reason.
            Err(why) => {
                return Request {
                    method: Method::Post,
                    path: "/v2/".into(),
                    fields: vec![("content-type", "application/json".into())],
                    body: super::http::error_body(&why).into(),
                };
            }
        };
        if self.form.is_grpc() {
            let path = if self.form == Form::Stream { MODEL_STREAM_INFER } else { MODEL_INFER };
            return Request {
                method: Method::Post,
                path: path.into(),
                fields: vec![
                    ("content-type", grpc::CONTENT_TYPE.into()),
                    ("te", "trailers".into()),
                ],
                body: grpc::framed(&request.to_message(self.form != Form::Typed)),
            };
        }
        let is_binary = self.form == Form::Binary;
        let request = InferRequest { wants_binary: is_binary, ..request };
        let body = request.to_http(is_binary);
        let mut fields = vec![("content-type", body.content_type().to_owned())];
        fields.extend(body.head_length.map(|length| (HEAD_LENGTH, length.to_string())));
        Request { method: Method::Post, path: request.path(), fields, body: body.bytes }
    }

    fn is_streaming(&self) -> bool {
        self.form == Form::Stream
    }

    fn reader(&self) -> Box<dyn Reader> {
        let model = self.model.clone();
        if self.form.is_grpc() {
            return Box::new(GrpcReader::new(model, self.form == Form::Stream));
        }
        Box::new(HttpReader {
            model,
            status: 0,
            head_length: None,
            body: BytesMut::new(),
            data: Bytes::new(),
            answered: String::new(),
        })
    }
}

fn too_long() -> Trouble {
    Trouble::new(Kind::Malformed, format!("an answer of more than {LONGEST_ANSWER} bytes"))
}

/// Reader of HTTP answers.
struct HttpReader {
    model: Arc<Model>,
    status: u16,
    head_length: Option<usize>,
    body: BytesMut,
    data: Bytes,
    /// Model that the answer names.
    answered: String,
}

impl Reader for HttpReader {
    fn begin(&mut self, status: u16, fields: &dyn Fields) -> Result<(), Trouble> {
        self.data = Bytes::new();
        self.body.clear();
        self.status = status;
        self.head_length = match fields.field(HEAD_LENGTH) {
            None => None,
            Some(length) => {
                let length = std::str::from_utf8(length).ok().and_then(|text| text.parse().ok());
                let odd =
                    || Trouble::new(Kind::Malformed, format!("{HEAD_LENGTH} is not a number"));
                Some(length.ok_or_else(odd)?)
            }
        };
        Ok(())
    }

    fn data(&mut self, bytes: &[u8]) -> Result<ReadProgress, Trouble> {
        if self.body.len() + bytes.len() > LONGEST_ANSWER {
            return Err(too_long());
        }
        self.body.extend_from_slice(bytes);
        Ok(ReadProgress::default())
    }

    fn held(&self) -> usize {
        self.body.len()
    }

    fn free(&mut self) {
        (self.body, self.data) = (BytesMut::new(), Bytes::new());
    }

    fn effort(&self, next: ReaderCall) -> usize {
        match next {
            ReaderCall::Data(bytes) => bytes / COPIED_PER_PARSED,
            ReaderCall::End => self.body.len(),
        }
    }

    fn end(&mut self, _trailers: Option<&dyn Fields>) -> Result<Answer<'_>, Trouble> {
        if let Some(kind) = Kind::of_status(self.status) {
            let words = error_words(&self.body);
            return Err(Trouble::of_status(kind, self.status, &words));
        }
        let body = self.body.split().freeze();
        let response = InferResponse::from_http(&body, self.head_length)?;
        self.answered.clone_from(&response.model_name);
        self.data = self.model.take(response, true)?;
        let other_model = OtherModel::between(self.model.name(), &self.answered);
        Ok(Answer { other_model, ..Answer::without_tokens(&self.data) })
    }
}

/// Reader of gRPC answers.
struct GrpcReader {
    model: Arc<Model>,
    is_stream: bool,
    messages: Deframer,
    /// The single answer, or all answers of a stream, concatenated.
    data: BytesMut,
    count: i64,
    /// The answer has no body, and its head has the status.
    is_over: bool,
    /// Model that the answer names.
    answered: String,
}

impl GrpcReader {
    fn new(model: Arc<Model>, is_stream: bool) -> Self {
        Self {
            model,
            is_stream,
            messages: Deframer::default(),
            data: BytesMut::new(),
            count: 0,
            is_over: false,
            answered: String::new(),
        }
    }

    fn message(&mut self, message: Bytes) -> Result<(), Trouble> {
        let response = if self.is_stream {
            let streamed = ModelStreamInferResponse::decode(message).map_err(|error| {
                let words = format!("the answer is not a message of the protocol: {error}");
                Trouble::new(Kind::Malformed, words)
            })?;
            match streamed {
                ModelStreamInferResponse { error_message, .. } if !error_message.is_empty() => {
                    return Err(Trouble::new(Kind::Server, error_message));
                }
                ModelStreamInferResponse { infer_response, .. } => {
                    infer_response.unwrap_or_default().try_into()?
                }
            }
        } else {
            InferResponse::from_message(message)?
        };
        // The last message of a stream may only mark its end.
        if self.is_stream && response.outputs.is_empty() {
            return Ok(());
        }
        self.answered.clone_from(&response.model_name);
        let data = self.model.take(response, !self.is_stream)?;
        self.data.extend_from_slice(&data);
        self.count += 1;
        Ok(())
    }
}

impl Reader for GrpcReader {
    fn begin(&mut self, status: u16, fields: &dyn Fields) -> Result<(), Trouble> {
        self.messages.begin(fields)?;
        self.data.clear();
        self.count = 0;
        self.is_over = grpc::status(fields)?.is_some();
        if let Some(kind) = Kind::of_status(status) {
            return Err(Trouble::of_status(kind, status, "not a gRPC answer"));
        }
        match fields.field("content-type") {
            Some(found) if !found.starts_with(grpc::CONTENT_TYPE.as_bytes()) => {
                let found = String::from_utf8_lossy(found);
                let words = format!("content-type is '{found}', expected application/grpc");
                Err(Trouble::new(Kind::Malformed, words))
            }
            _ => Ok(()),
        }
    }

    fn data(&mut self, bytes: &[u8]) -> Result<ReadProgress, Trouble> {
        self.messages.push(bytes);
        let before = self.count;
        while let Some(message) = self.messages.pop()? {
            self.message(message)?;
        }
        let beats = if self.is_stream { self.count - before } else { 0 };
        Ok(ReadProgress {
            beats: u32::try_from(beats).unwrap_or(u32::MAX),
            is_done: false,
            has_more: false,
        })
    }

    fn held(&self) -> usize {
        self.messages.left() + self.data.len()
    }

    fn free(&mut self) {
        (self.messages, self.data) = (Deframer::default(), BytesMut::new());
    }

    /// The call that completes a message reads all of it.
    fn effort(&self, next: ReaderCall) -> usize {
        match next {
            ReaderCall::Data(bytes) if self.messages.unpacks() => bytes * PARSED_PER_UNPACKED,
            ReaderCall::Data(bytes) if self.messages.completes(bytes) => {
                self.messages.left() + bytes
            }
            ReaderCall::Data(bytes) => bytes / COPIED_PER_PARSED,
            ReaderCall::End => 0,
        }
    }

    fn end(&mut self, trailers: Option<&dyn Fields>) -> Result<Answer<'_>, Trouble> {
        let status = trailers.map(grpc::status).transpose()?.flatten();
        if self.messages.left() > 0 {
            let left = self.messages.left();
            let words = format!("a message that is cut off after {left} bytes");
            return Err(Trouble::new(Kind::Cut, words));
        }
        if status.is_none() && !self.is_over {
            return Err(Trouble::new(Kind::Malformed, "a gRPC answer without a status"));
        }
        match self.count {
            1 => {}
            n if n > 1 && self.is_stream => {}
            n => {
                return Err(Trouble::new(Kind::Malformed, format!("{n} answers to one request")));
            }
        }
        let (tokens, counted_by) = if self.is_stream {
            (self.count, TokenCounter::Events)
        } else {
            (0, TokenCounter::Nobody)
        };
        let other_model = OtherModel::between(self.model.name(), &self.answered);
        let data = &self.data[..];
        Ok(Answer { tokens, counted_by, other_model, ..Answer::without_tokens(data) })
    }
}
