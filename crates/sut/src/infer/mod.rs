//! Models that are asked by value: what a server does, whose samples come with the requests.
//!
//! An [`Engine`](crate::engine::Engine) answers samples of a data set that it holds, by their
//! index. [`Infer`] is the same model without the data set: tensors go in, tensors come out.
//! [`Rows`] is any function of tensors whose first dimension counts rows (ONNX Runtime, tract,
//! formats of few bits, the built-in perceptron); [`crate::rnn::ByValue`] are recurrent
//! networks, whose sequences differ in length. Neither queues: that is the policy of
//! [`crate::batch`], in front of either.

mod fit;
mod rows;

use dyno_loadgen::record::Failure;

use crate::engine::About;
use crate::tensors::{Elements, ModelInput, Scalar, each_type};

pub use fit::{Unfit, fit};
pub use rows::{Rows, RowsCall};

/// A tensor of a request, or of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    /// All dimensions, the batch first where the model has one; their product is the number of
    /// elements.
    pub shape: Vec<usize>,
    /// Row by row.
    pub elements: Elements<'static>,
}

/// Why a request has no answer: whose fault it is, and in words.
pub type Refusal = (Failure, String);

/// A model that is asked by value, by several threads at once.
pub trait Infer: Send + Sync {
    /// Name for the logs, such as `onnxruntime-iris`.
    fn name(&self) -> &str;
    /// What it takes, in the order of a request's values.
    fn inputs(&self) -> &[ModelInput];
    /// What it tells of itself; its outputs are in the order of an answer's values.
    fn about(&self) -> About;
    /// Requests of one class may share a call (small numbers, for each of which a queue is
    /// kept).
    fn class(&self, _request: &[Value]) -> usize {
        0
    }
    /// Answers each of these requests, which [`fit`] the inputs and are of one class, in their
    /// order. One that cannot be answered takes no other with it.
    fn infer(&self, requests: &[&[Value]]) -> Vec<Result<Vec<Value>, Refusal>>;
}

/// One row of zeros for each input, and 1 for each open dimension: what a model is warmed up
/// with.
#[must_use]
pub fn zeros(inputs: &[ModelInput]) -> Vec<Value> {
    let one = |input: &ModelInput| {
        let shape: Vec<usize> = input.shape.iter().map(|n| n.unwrap_or(1)).collect();
        let bytes = vec![0; shape.iter().product::<usize>() * input.element.size()];
        Value {
            shape,
            elements: Elements::read(input.element, &bytes)
                .expect("inputs are of types that are held"),
        }
    };
    inputs.iter().map(one).collect()
}

/// Elements of values one after the other, all of the type of `_first`.
fn joined_like<'a, T: Scalar>(
    _first: &[T],
    values: impl Iterator<Item = &'a Value>,
) -> Elements<'static> {
    let numbers = |value: &'a Value| value.elements.as_slice::<T>().expect("they are of one type");
    T::wrap(values.flat_map(numbers).copied().collect::<Vec<T>>().into())
}

/// Values one after the other along the first dimension; all are of one type.
fn joined<'a>(values: impl Iterator<Item = &'a Value> + Clone) -> Value {
    let first = values.clone().next().expect("something is joined");
    let mut shape = first.shape.clone();
    shape[0] = values.clone().map(|value| value.shape[0]).sum();
    let elements = each_type!(&first.elements, all => joined_like(all, values));
    Value { shape, elements }
}
