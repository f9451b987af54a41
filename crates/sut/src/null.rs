//! A system that does nothing: what is measured with it is the instrument.

use dyno_loadgen::drive::real::Responder;
use dyno_loadgen::sut::{QuerySample, Response, ResponseId, SystemUnderTest};

/// Answers every sample at once, on the issuing thread, with no payload.
#[derive(Debug, Clone, Copy, Default)]
pub struct Null;

/// Responses handed over in one call: large enough that the call itself
/// vanishes, small enough for the stack and the first-level cache.
const RESPONSES_AT_ONCE: usize = 256;

impl SystemUnderTest for Null {
    fn name(&self) -> &str {
        "null"
    }

    fn issue(&self, samples: &[QuerySample], responder: &Responder) {
        if let [sample] = samples {
            responder.complete(&[Response::empty(sample.id)]);
            return;
        }
        let mut responses = [Response::empty(ResponseId(0)); RESPONSES_AT_ONCE];
        for part in samples.chunks(RESPONSES_AT_ONCE) {
            for (response, sample) in responses.iter_mut().zip(part) {
                response.id = sample.id;
            }
            responder.complete(&responses[..part.len()]);
        }
    }

    fn flush(&self) {}
}
