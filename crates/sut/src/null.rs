//! A system that does nothing: what is measured with it is the instrument.

use dyno_loadgen::drive::real::Responder;
use dyno_loadgen::sut::{QuerySample, Response, ResponseId, SystemUnderTest};

use crate::engine::{About, Port};
use crate::infer::{Rows, Value};
use crate::tensors::{Element, Elements, ModelInput};

/// Answers every sample at once, on the issuing thread, with no payload.
#[derive(Debug, Clone, Copy, Default)]
pub struct Null;

impl Null {
    /// The same as a model that is asked by value: any `input` `[rows, n]` gives one `output`
    /// of 0 a row.
    #[must_use]
    pub fn by_value(self) -> Rows {
        let input =
            ModelInput { name: "input".into(), element: Element::F32, shape: vec![None; 2] };
        let shape = vec![None, Some(1)];
        let output = Port { name: "output".into(), element: "float32".into(), shape };
        let about = About {
            inputs: vec![Port::from(&input)],
            outputs: vec![output],
            // There is no call that would be worth sharing.
            largest_batch: 1,
            ..About::default()
        };
        let call = |values: &[Value]| {
            let rows = values[0].shape[0];
            let elements = Elements::F32(vec![0.0; rows].into());
            Ok(vec![Value { shape: vec![rows, 1], elements }])
        };
        Rows::new("null", vec![input], about, Box::new(call))
    }
}

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
