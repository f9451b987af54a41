//! A system that does nothing, to measure the load generator itself.

use dyno_loadgen::drive::real::Responder;
use dyno_loadgen::sut::{QuerySample, Response, ResponseId, SystemUnderTest};

use crate::engine::{EngineInfo, Port};
use crate::infer::{RowModel, Value};
use crate::tensors::{Element, Elements, ModelInput};

/// Answers every sample immediately on the issuing thread, without a payload.
///
/// ```
/// use dyno_loadgen::sut::SystemUnderTest;
/// use dyno_sut::infer::{InferenceModel, zeros};
/// use dyno_sut::null::Null;
///
/// assert_eq!(Null.name(), "null");
/// let model = Null.by_value();
/// let answers = model.infer(&[&zeros(model.inputs())]);
/// assert_eq!(answers[0].as_ref().expect("any request fits")[0].shape, [1, 1]);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Null;

impl Null {
    /// Returns the model without a data set: any `input` `[rows, n]` gives an `output` of 0 per
    /// row.
    pub fn by_value(self) -> RowModel {
        let input =
            ModelInput { name: "input".into(), element: Element::F32, shape: vec![None; 2] };
        let shape = vec![None, Some(1)];
        let output = Port { name: "output".into(), element: "float32".into(), shape };
        let info = EngineInfo {
            inputs: vec![Port::from(&input)],
            outputs: vec![output],
            // Calls cost nothing, so that sharing them gains nothing.
            largest_batch: 1,
            ..EngineInfo::default()
        };
        let call = |values: &[Value]| {
            let rows = values[0].shape[0];
            let elements = Elements::F32(vec![0.0; rows].into());
            Ok(vec![Value { shape: vec![rows, 1], elements }])
        };
        RowModel::new("null", vec![input], info, Box::new(call))
    }
}

/// Number of responses delivered in one call: large enough to make the call itself negligible,
/// small enough for the stack and the first-level cache.
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
}
