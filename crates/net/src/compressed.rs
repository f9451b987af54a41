//! Compression that the network division of the rounds permits: requests are compressed when their
//! samples are loaded, untimed, and may permit compressed answers. The client decompresses answers on
//! arrival, after the time of their bytes is taken.

use std::sync::Arc;

use dyno_loadgen::qsl::SampleIndex;

use crate::coding::Coding;
use crate::exchange::{HttpVersion, Request};
use crate::grpc;
use crate::protocol::{NextTurn, Protocol, Reader, Reply};

/// A protocol with compressed requests or answers.
pub(crate) struct CompressedProtocol {
    inner: Arc<dyn Protocol>,
    requests: Option<Coding>,
    answers: Option<Coding>,
}

impl CompressedProtocol {
    /// Wraps a protocol; returns it unchanged if there is nothing to compress.
    pub(crate) fn around(
        inner: Arc<dyn Protocol>,
        requests: Option<Coding>,
        answers: Option<Coding>,
    ) -> Arc<dyn Protocol> {
        match (requests, answers) {
            (None, None) => inner,
            _ => Arc::new(Self { inner, requests, answers }),
        }
    }

    fn compressed(&self, mut request: Request) -> Request {
        let is_grpc = is_grpc(&request);
        if let Some(coding) = self.requests.filter(|_| !request.body.is_empty()) {
            request.body = if is_grpc {
                grpc::message_compressed(&request.body, coding)
            } else {
                coding.compressed(&request.body)
            };
            let field = if is_grpc { grpc::ENCODING } else { "content-encoding" };
            request.fields.push((field, coding.name().into()));
        }
        if let Some(coding) = self.answers {
            let field = if is_grpc { grpc::ACCEPT_ENCODING } else { "accept-encoding" };
            request.fields.push((field, coding.name().into()));
        }
        request
    }
}

/// Returns whether messages are compressed individually instead of the body.
fn is_grpc(request: &Request) -> bool {
    let kind = request.fields.iter().find(|(name, _)| *name == "content-type");
    kind.is_some_and(|(_, value)| value.starts_with(grpc::CONTENT_TYPE))
}

impl Protocol for CompressedProtocol {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn version(&self) -> HttpVersion {
        self.inner.version()
    }

    fn sample_count(&self) -> usize {
        self.inner.sample_count()
    }

    fn request(&self, sample: SampleIndex) -> Request {
        self.compressed(self.inner.request(sample))
    }

    fn is_later_turn(&self, sample: SampleIndex) -> bool {
        self.inner.is_later_turn(sample)
    }

    fn next_turn(&self, sample: SampleIndex, reply: &Reply) -> Option<NextTurn> {
        let next = self.inner.next_turn(sample, reply)?;
        Some(NextTurn { request: self.compressed(next.request), ..next })
    }

    fn has_next_turn(&self, sample: SampleIndex) -> bool {
        self.inner.has_next_turn(sample)
    }

    fn has_sessions(&self) -> bool {
        self.inner.has_sessions()
    }

    fn is_streaming(&self) -> bool {
        self.inner.is_streaming()
    }

    fn reader(&self) -> Box<dyn Reader> {
        self.inner.reader()
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::coding::Decoder;
    use crate::exchange::Method;
    use crate::grpc::PREFIX;
    use crate::raw::{Raw, Template};
    use crate::workload::Format;

    /// Posts a long body of this content type; any body is an answer.
    fn raw(content_type: &str) -> Arc<dyn Protocol> {
        let template = Template {
            method: Method::Post,
            path: "/".into(),
            fields: vec![("content-type", content_type.into())],
            body: "{name}".repeat(99),
            pointer: None,
            accepted: crate::ledger::AcceptedClasses::default(),
        };
        let rows = Format::JsonLines.rows("{\"name\": \"some words\"}").unwrap();
        let rows = rows.collect::<Result<_, _>>().unwrap();
        Arc::new(Raw::new(template, rows, HttpVersion::Http1).unwrap())
    }

    fn fields(all: &[(&'static str, &'static str)]) -> HeaderMap {
        all.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn requests_are_compressed_and_say_so() {
        let plain = raw("application/json").request(0);
        for coding in [Coding::Gzip, Coding::Deflate] {
            let protocol = CompressedProtocol::around(raw("application/json"), Some(coding), None);
            let request = protocol.request(0);
            assert!(request.body.len() < plain.body.len() / 2);
            let field = ("content-encoding", coding.name().to_owned());
            assert_eq!(request.fields, [plain.fields.clone(), vec![field]].concat());
            assert_eq!(coding.decompressed(&request.body, 1 << 20).unwrap(), plain.body);
        }
    }

    #[test]
    fn messages_of_grpc_are_compressed_one_by_one() {
        let plain = raw(grpc::CONTENT_TYPE).request(0);
        let coding = Coding::Gzip;
        let protocol =
            CompressedProtocol::around(raw(grpc::CONTENT_TYPE), Some(coding), Some(coding));
        let request = protocol.request(0);
        let mut messages = grpc::Deframer::default();
        messages.push(&request.body);
        assert!(messages.pop().unwrap_err().words.contains("without an encoding"));
        messages.begin(&fields(&[("grpc-encoding", "gzip")])).unwrap();
        messages.push(&request.body);
        assert_eq!(messages.pop().unwrap().unwrap(), plain.body[PREFIX..]);
        assert_eq!(messages.left(), 0);
        let added: Vec<&str> = request.fields[1..].iter().map(|(name, _)| *name).collect();
        assert_eq!(added, ["grpc-encoding", "grpc-accept-encoding"]);
    }

    #[test]
    fn answers_are_decompressed_wherever_they_are_cut() {
        let said = "one answer, ".repeat(9_000).into_bytes();
        for coding in [Coding::Gzip, Coding::Deflate] {
            let protocol = CompressedProtocol::around(raw("text/plain"), None, Some(coding));
            let asked = protocol.request(0);
            assert_eq!(asked.fields[1], ("accept-encoding", coding.name().to_owned()));
            let (whole, mut reader) = (coding.compressed(&said), protocol.reader());
            let head = fields(&[("content-encoding", coding.name())]);
            for piece in [1, 7, usize::MAX] {
                let mut decoder = Decoder::new(coding);
                reader.begin(200, &head).unwrap();
                for piece in whole.chunks(piece) {
                    decoder.read(piece, &mut *reader).unwrap();
                }
                decoder.end().unwrap();
                assert_eq!(reader.end(None).unwrap().data, said);
            }
        }
    }

    #[test]
    fn answers_that_do_not_decompress_are_none() {
        let coding = Coding::Gzip;
        let protocol = CompressedProtocol::around(raw("text/plain"), None, Some(coding));
        let (whole, mut reader) = (coding.compressed(b"an answer"), protocol.reader());
        reader.begin(200, &fields(&[])).unwrap();
        let mut decoder = Decoder::new(coding);
        decoder.read(&whole[..whole.len() - 1], &mut *reader).unwrap();
        assert!(decoder.end().is_err());
        let broken = Decoder::new(coding).read(b"no gzip at all", &mut *reader);
        assert_eq!(broken.unwrap_err().kind, crate::trouble::Kind::Malformed);
    }
}
