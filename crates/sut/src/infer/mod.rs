//! Models without a data set: the samples come with the requests, as in a server.
//!
//! An [`Engine`](crate::engine::Engine) holds a data set and answers its samples by index. An
//! [`InferenceModel`] is the same model without the data set: it maps tensors to tensors.
//! [`RowModel`] is a function of tensors whose first dimension counts rows (ONNX Runtime, tract,
//! number formats of few bits, the built-in perceptron). [`crate::rnn::RecurrentModel`] is a
//! recurrent network, whose sequences differ in length. Neither has a queue: [`crate::batch`]
//! provides the queue and the batching policy.

mod fit;
mod mixed;
mod rows;
mod stateful;

use dyno_loadgen::record::Failure;

use crate::engine::EngineInfo;
use crate::tensors::{
    Element, Elements, ModelInput, Scalar, Spans, TensorLibrary, each_type, ones,
};

pub use fit::{FitError, RequestRules, fit};
pub(crate) use mixed::Trial;
pub use rows::{RowFunction, RowModel};
pub use stateful::StatefulModel;

/// Tensor of a request or of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    /// All dimensions; their product is the number of elements. The batch is the first dimension of
    /// models that have one.
    pub shape: Vec<usize>,
    /// Elements in row-major order.
    pub elements: Elements<'static>,
}

/// Failure of a request, with a message. The failure names the side at fault.
pub type Refusal = (Failure, String);

/// States of a sequence after a request, from which its next request starts. Only the model reads
/// them.
pub type SequenceState = Vec<Value>;

/// Model that is called with tensors, by several threads at once.
pub trait InferenceModel: Send + Sync {
    /// Returns the name for the logs, such as `onnxruntime-iris`.
    fn name(&self) -> &str;
    /// Returns the inputs, in the order of the values of a request.
    fn inputs(&self) -> &[ModelInput];
    /// Returns what a request may contain.
    fn rules(&self) -> RequestRules {
        RequestRules::default()
    }
    /// Returns the values of a request in the order of the inputs. If the request has an input that
    /// others may omit, all such inputs follow.
    ///
    /// # Errors
    /// As [`fit()`].
    fn fit(&self, values: Vec<(String, Value)>) -> Result<Vec<Value>, FitError> {
        fit(self.inputs(), self.rules(), values)
    }
    /// Returns a description. Its outputs are in the order of the values of an answer.
    fn info(&self) -> EngineInfo;
    /// Returns the class of a request. Requests of the same class may share a call. Classes are
    /// small numbers, because each has a queue.
    fn class(&self, _request: &[Value]) -> usize {
        0
    }
    /// Answers requests in their order. All requests [fit](fit()) the inputs and have the same class. A
    /// request that fails does not affect the others.
    fn infer(&self, requests: &[&[Value]]) -> Vec<Result<Vec<Value>, Refusal>>;
    /// Returns why requests share no calls since a call has shown that they cannot, if one has.
    fn contradiction(&self) -> Option<&str> {
        None
    }
    /// Checks that the model can carry the states of a sequence from one request to the next.
    ///
    /// # Errors
    /// The reason why it cannot.
    fn check_sequences(&self) -> Result<(), String> {
        Err(format!("{} keeps no states between requests", self.name()))
    }
    /// Answers one request of each of several sequences. A request starts from the states of its
    /// sequence, which are replaced by those after the request; `None` starts a sequence. A request
    /// that fails changes no states, and does not affect the others. The answer to a request does
    /// not depend on the others, bit by bit.
    fn infer_sequences(
        &self,
        requests: &[&[Value]],
        _states: &mut [Option<SequenceState>],
    ) -> Vec<Result<Vec<Value>, Refusal>> {
        let why = self.check_sequences().err().unwrap_or_default();
        requests.iter().map(|_| Err((Failure::Rejected, why.clone()))).collect()
    }
}

/// Sizes of dynamic dimensions, except the first one, in a trial. A model may not accept every size.
const TRIAL_SIZES: [usize; 4] = [3, 16, 128, 1];
/// Maximum bytes of the inputs of a trial, unless the fixed dimensions of the model need more: many
/// dynamic dimensions of 128 would exhaust the memory.
const TRIAL_BYTES: usize = 1 << 22;
/// Maximum bytes of the inputs of a trial of a model whose fixed dimensions need more. There is no trial
/// of a model that needs more than this.
const MAX_TRIAL_BYTES: usize = 1 << 30;

/// Returns libraries of random samples to try a model with, one for each size of its dynamic dimensions
/// that needs little memory.
pub fn trials(inputs: &[ModelInput], samples: usize) -> impl Iterator<Item = TensorLibrary> {
    let library =
        move |size| TensorLibrary::synthetic(inputs, samples, size, &Spans::new(), 0).ok();
    trial_sizes(inputs, TRIAL_SIZES).filter_map(library)
}

/// Returns requests of zeros, one for each size of the dynamic dimensions that needs little memory.
/// The first one is that of [`zeros`].
pub fn trial_zeros(inputs: &[ModelInput]) -> impl Iterator<Item = Vec<Value>> {
    ascending_sizes(inputs).map(move |size| request(inputs, size, &nulls))
}

/// Returns requests of ones, of the sizes of [`trial_zeros`]. Zeros are no valid divisors or scales, and
/// some models mask samples of zeros as a whole.
pub fn trial_ones(inputs: &[ModelInput]) -> impl Iterator<Item = Vec<Value>> {
    ascending_sizes(inputs).map(move |size| request(inputs, size, &ones))
}

fn ascending_sizes(inputs: &[ModelInput]) -> impl Iterator<Item = usize> {
    let mut sizes = TRIAL_SIZES;
    sizes.sort_unstable();
    trial_sizes(inputs, sizes)
}

fn trial_sizes(inputs: &[ModelInput], sizes: [usize; 4]) -> impl Iterator<Item = usize> {
    let bytes = move |size: usize| TensorLibrary::random_sample_bytes(inputs, size);
    let most = bytes(1).clamp(TRIAL_BYTES, MAX_TRIAL_BYTES);
    sizes.into_iter().filter(move |size| bytes(*size) <= most)
}

/// Returns a request for warm-up calls: zeros for each input, with 1 for each dynamic dimension.
///
/// ```
/// use dyno_sut::digits::DigitsPerceptron;
/// use dyno_sut::infer::{InferenceModel, zeros};
///
/// let model = DigitsPerceptron::new().by_value(1);
/// let request = zeros(model.inputs());
/// assert_eq!(request[0].shape, [1, 64]);
/// let answers = model.infer(&[&request]);
/// assert_eq!(answers[0].as_ref().expect("the request fits")[0].shape, [1, 10]);
/// ```
pub fn zeros(inputs: &[ModelInput]) -> Vec<Value> {
    request(inputs, 1, &nulls)
}

/// Returns elements for each input. A dynamic dimension is `size`, and 1 if it is the first one.
fn request(
    inputs: &[ModelInput],
    size: usize,
    elements: &dyn Fn(Element, usize) -> Elements<'static>,
) -> Vec<Value> {
    let one = |input: &ModelInput| {
        let sizes = input.shape.iter().enumerate();
        let sizes = sizes.map(|(axis, n)| n.unwrap_or(if axis == 0 { 1 } else { size }));
        let shape: Vec<usize> = sizes.collect();
        let count: usize = shape.iter().product();
        Value { shape, elements: elements(input.element, count) }
    };
    inputs.iter().map(one).collect()
}

fn nulls(element: Element, count: usize) -> Elements<'static> {
    let bytes = vec![0; count * element.size()];
    Elements::read(element, &bytes).expect("inputs are of types that are held")
}

/// Concatenates the elements of values, all of which have the type of `_first`.
fn joined_like<'a, T: Scalar>(
    _first: &[T],
    values: impl Iterator<Item = &'a Value>,
) -> Elements<'static> {
    let numbers = |value: &'a Value| value.elements.as_slice::<T>().expect("they are of one type");
    T::wrap(values.flat_map(numbers).copied().collect::<Vec<T>>().into())
}

/// Concatenates values of the same type along the first dimension.
fn joined<'a>(values: impl Iterator<Item = &'a Value> + Clone) -> Value {
    let first = values.clone().next().expect("something is joined");
    let mut shape = first.shape.clone();
    shape[0] = values.clone().map(|value| value.shape[0]).sum();
    let elements = each_type!(&first.elements, all => joined_like(all, values));
    Value { shape, elements }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(shape: &[Option<usize>]) -> [ModelInput; 1] {
        [ModelInput { name: "x".into(), element: Element::F32, shape: shape.to_vec() }]
    }

    /// Four numbers of 128 would be 2^28 elements, and 16 to the fourth is 2^16.
    #[test]
    fn trials_of_many_dynamic_dimensions_are_small() {
        let elements = |inputs: &[ModelInput]| -> Vec<usize> {
            let all = trials(inputs, 1);
            all.map(|library| library.sample(0).expect("it exists")[0].1.elements.len()).collect()
        };
        assert_eq!(elements(&image(&[None; 5])), [81, 65_536, 1]);
        assert_eq!(elements(&image(&[None, Some(3), None])), [9, 48, 384, 3]);
        // A model may fix more.
        let large = [None, Some(1 << 21), None];
        assert_eq!(elements(&image(&large)), [1 << 21]);
        let zeros: Vec<Vec<usize>> =
            trial_zeros(&image(&[None; 5])).map(|request| request[0].shape.clone()).collect();
        assert_eq!(zeros, [[1, 1, 1, 1, 1], [1, 3, 3, 3, 3], [1, 16, 16, 16, 16]]);
        // A file may also declare more than any memory holds.
        let absurd = image(&[None, Some(1 << 50), None]);
        assert!(elements(&absurd).is_empty());
        assert_eq!(trial_zeros(&absurd).chain(trial_ones(&absurd)).count(), 0);
    }

    #[test]
    fn ones_are_those_of_each_type() {
        let input = |element| ModelInput { name: "x".into(), element, shape: vec![None, Some(2)] };
        let inputs =
            [Element::F32, Element::F16, Element::I64, Element::U8, Element::Bool].map(input);
        let request = trial_ones(&inputs).next().expect("they are small");
        let numbers: Vec<_> =
            request.iter().map(|value| value.elements.to_f32().to_vec()).collect();
        assert_eq!(numbers, vec![vec![1.0; 2]; 5]);
        assert_eq!(request[4].shape, [1, 2]);
    }
}
