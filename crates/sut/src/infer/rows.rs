//! Functions of tensors whose first dimension counts rows: requests share a call by being put
//! one below the other.

use std::fmt;

use dyno_loadgen::record::Failure;

use super::{Infer, Refusal, Value, joined};
use crate::engine::About;
use crate::tensors::{Elements, ModelInput, Scalar, each_type};

/// Computes all outputs of all inputs, in the order of the model; an error is in words.
pub type RowsCall = dyn Fn(&[Value]) -> Result<Vec<Value>, String> + Send + Sync;

/// A model that is such a function.
pub struct Rows {
    name: String,
    inputs: Vec<ModelInput>,
    about: About,
    /// Rows in a call at most; 1 where requests cannot share one.
    largest: usize,
    call: Box<RowsCall>,
}

impl Rows {
    /// Calls of `call` with at most `about.largest_batch` rows of several requests; requests
    /// share none where an input or output has no open first dimension.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        inputs: Vec<ModelInput>,
        about: About,
        call: Box<RowsCall>,
    ) -> Self {
        let counts = |shape: &[Option<usize>]| shape.first() == Some(&None);
        let shares = inputs.iter().all(|input| counts(&input.shape))
            && about.outputs.iter().all(|port| counts(&port.shape));
        let largest = if shares { about.largest_batch.max(1) } else { 1 };
        let about = About { largest_batch: largest, ..about };
        Self { name: name.into(), inputs, about, largest, call }
    }

    /// Whether both may share a call.
    fn is_alike(a: &[Value], b: &[Value]) -> bool {
        a.iter().zip(b).all(|(a, b)| a.shape[1..] == b.shape[1..])
    }

    fn alone(&self, request: &[Value]) -> Result<Vec<Value>, Refusal> {
        (self.call)(request).map_err(|why| (Failure::Internal, why))
    }

    /// The answers to requests in one call; `None` where that does not work, so that each is to
    /// be computed on its own, and fails on its own.
    fn together(&self, requests: &[&[Value]]) -> Option<Vec<Vec<Value>>> {
        let inputs = (0..self.inputs.len())
            .map(|at| joined(requests.iter().map(|request| &request[at])))
            .collect::<Vec<_>>();
        let outputs = (self.call)(&inputs).ok()?;
        let rows = rows_of(&inputs);
        if outputs.iter().any(|output| output.shape.first() != Some(&rows)) {
            return None;
        }
        let mut first = 0;
        let answers = requests.iter().map(|request| {
            let begin = first;
            first += rows_of(request);
            outputs.iter().map(|output| part(output, begin..first)).collect()
        });
        Some(answers.collect())
    }
}

fn rows_of(request: &[Value]) -> usize {
    request.first().and_then(|value| value.shape.first()).copied().unwrap_or(1)
}

fn part(output: &Value, rows: std::ops::Range<usize>) -> Value {
    let length = output.elements.len() / output.shape[0].max(1);
    let mut shape = output.shape.clone();
    shape[0] = rows.len();
    let range = rows.start * length..rows.end * length;
    let elements: Elements<'static> =
        each_type!(&output.elements, all => Scalar::wrap(all[range].to_vec().into()));
    Value { shape, elements }
}

impl Infer for Rows {
    fn name(&self) -> &str {
        &self.name
    }

    fn inputs(&self) -> &[ModelInput] {
        &self.inputs
    }

    fn about(&self) -> About {
        self.about.clone()
    }

    fn infer(&self, requests: &[&[Value]]) -> Vec<Result<Vec<Value>, Refusal>> {
        let mut answers: Vec<Option<Result<Vec<Value>, Refusal>>> =
            requests.iter().map(|_| None).collect();
        for first in 0..requests.len() {
            if answers[first].is_some() {
                continue;
            }
            // Requests of other shapes wait for calls of their own; a large one has one alone.
            let mut rows = 0;
            let shares = |(at, answer): (usize, &Option<_>)| {
                let own = rows_of(requests[at]);
                let fits = answer.is_none()
                    && (rows == 0 || rows + own <= self.largest)
                    && Self::is_alike(requests[first], requests[at]);
                rows += if fits { own } else { 0 };
                fits.then_some(at)
            };
            let members: Vec<usize> = match self.largest {
                1 => vec![first],
                _ => answers.iter().enumerate().skip(first).filter_map(shares).collect(),
            };
            let group: Vec<&[Value]> = members.iter().map(|at| requests[*at]).collect();
            match (members.len() > 1).then(|| self.together(&group)).flatten() {
                Some(all) => members
                    .into_iter()
                    .zip(all)
                    .for_each(|(at, answer)| answers[at] = Some(Ok(answer))),
                None => members.into_iter().for_each(|at| {
                    answers[at] = Some(self.alone(requests[at]));
                }),
            }
        }
        answers.into_iter().map(|answer| answer.expect("each was computed")).collect()
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::engine::Port;
    use crate::tensors::Element;

    fn value(shape: &[usize], numbers: &[f32]) -> Value {
        Value { shape: shape.to_vec(), elements: Elements::F32(numbers.to_vec().into()) }
    }

    /// Sums each row; negative numbers fail the call. Tells the rows of each call.
    fn sums(first: Option<usize>, calls: &Arc<Mutex<Vec<usize>>>) -> Rows {
        let calls = Arc::clone(calls);
        let shape = vec![first, None];
        let input = ModelInput { name: "x".into(), element: Element::F32, shape: shape.clone() };
        let port = Port { name: "sum".into(), element: "float32".into(), shape };
        let about = About { outputs: vec![port], largest_batch: 4, ..About::default() };
        let call = move |inputs: &[Value]| {
            let (rows, all) = (inputs[0].shape[0], inputs[0].elements.to_f32().into_owned());
            calls.lock().unwrap().push(rows);
            if all.iter().any(|x| *x < 0.0) {
                return Err("a number below 0".to_owned());
            }
            let sums: Vec<f32> = all.chunks(all.len() / rows).map(|row| row.iter().sum()).collect();
            Ok(vec![Value { shape: vec![rows, 1], elements: Elements::F32(sums.into()) }])
        };
        Rows::new("sums", vec![input], about, Box::new(call))
    }

    fn asked(model: &Rows, requests: &[Value]) -> Vec<Result<Vec<f64>, String>> {
        let requests: Vec<&[Value]> = requests.iter().map(std::slice::from_ref).collect();
        let answers = model.infer(&requests).into_iter();
        let numbers = |all: Vec<Value>| {
            assert_eq!(all[0].shape, [all[0].elements.len(), 1]);
            all[0].elements.to_f64()
        };
        answers.map(|answer| answer.map(numbers).map_err(|(_, why)| why)).collect()
    }

    #[test]
    fn alike_requests_share_calls_and_get_their_own_rows() {
        let calls = Arc::default();
        let model = sums(None, &calls);
        let requests = [
            value(&[1, 2], &[1.0, 2.0]),
            value(&[1, 3], &[1.0, 1.0, 1.0]),
            value(&[2, 2], &[3.0, 4.0, 5.0, 6.0]),
            value(&[2, 2], &[0.0, 1.0, 0.0, 2.0]),
            value(&[9, 2], &[1.0; 18]),
        ];
        let found = asked(&model, &requests);
        let expected = [vec![3.0], vec![3.0], vec![7.0, 11.0], vec![1.0, 2.0], vec![2.0; 9]];
        assert_eq!(found, expected.map(Ok));
        // One and two rows share the first call; the next two would be five rows.
        assert_eq!(*calls.lock().unwrap(), [3, 1, 2, 9]);
    }

    #[test]
    fn one_that_fails_takes_no_other_with_it() {
        let calls = Arc::default();
        let model = sums(None, &calls);
        let found = asked(&model, &[value(&[1, 1], &[2.0]), value(&[1, 1], &[-1.0])]);
        assert_eq!(found, [Ok(vec![2.0]), Err("a number below 0".to_owned())]);
        assert_eq!(*calls.lock().unwrap(), [2, 1, 1]);
    }

    #[test]
    fn a_fixed_first_dimension_is_no_batch() {
        let calls = Arc::default();
        let model = sums(Some(1), &calls);
        assert_eq!(model.about().largest_batch, 1);
        let found = asked(&model, &[value(&[1, 1], &[2.0]), value(&[1, 1], &[3.0])]);
        assert_eq!(found, [Ok(vec![2.0]), Ok(vec![3.0])]);
        assert_eq!(*calls.lock().unwrap(), [1, 1]);
    }
}
