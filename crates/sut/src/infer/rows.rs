//! Models whose first dimension counts rows: requests share a call when their rows are
//! concatenated.

use std::fmt;
use std::sync::OnceLock;

use dyno_loadgen::record::Failure;

use super::{FitError, InferenceModel, Refusal, RequestRules, Trial, Value, fit, joined, trials};
use crate::engine::{EngineInfo, Port};
use crate::tensors::{Elements, ModelInput, SampleTensor, Scalar, TensorLibrary, each_type};

/// Function that computes all outputs from all inputs, in the order of the model. Its error is a
/// message.
pub type RowFunction = dyn Fn(&[Value]) -> Result<Vec<Value>, String> + Send + Sync;

/// Model that calls a [`RowFunction`].
///
/// ```
/// use dyno_sut::engine::{EngineInfo, Port};
/// use dyno_sut::infer::{InferenceModel, RowModel, Value};
/// use dyno_sut::tensors::{Element, Elements, ModelInput};
///
/// let shape = vec![None, Some(1)];
/// let input = ModelInput { name: "x".into(), element: Element::F32, shape };
/// let port = Port::from(&input);
/// let info = EngineInfo { outputs: vec![port], largest_batch: 8, ..EngineInfo::default() };
/// let double = |values: &[Value]| {
///     let doubled: Vec<f32> = values[0].elements.to_f32().iter().map(|x| 2.0 * x).collect();
///     let elements = Elements::F32(doubled.into());
///     Ok(vec![Value { shape: values[0].shape.clone(), elements }])
/// };
/// let model = RowModel::new("double", vec![input], info, Box::new(double));
/// let request = [Value { shape: vec![1, 1], elements: Elements::F32(vec![1.5].into()) }];
/// let answers = model.infer(&[&request]);
/// assert_eq!(&*answers[0].as_ref().expect("it computes")[0].elements.to_f32(), [3.0]);
/// ```
pub struct RowModel {
    name: String,
    inputs: Vec<ModelInput>,
    info: EngineInfo,
    /// Maximum number of rows per call; 1 if requests cannot share a call.
    largest: usize,
    /// Why requests cannot share calls, as a call has shown.
    contradiction: OnceLock<String>,
    /// First request that was answered without optional inputs.
    answered: OnceLock<Vec<Value>>,
    rules: RequestRules,
    call: Box<RowFunction>,
    optional: Option<OptionalInputs>,
}

/// Inputs that requests may omit.
struct OptionalInputs {
    inputs: Vec<ModelInput>,
    defaults: Vec<Value>,
    /// Computes all outputs from all inputs, these last.
    call: Box<RowFunction>,
}

impl RowModel {
    /// Returns a model whose calls have at most `info.largest_batch` rows of several requests.
    /// Requests do not share calls if an input or output has a fixed first dimension.
    pub fn new(
        name: impl Into<String>,
        inputs: Vec<ModelInput>,
        info: EngineInfo,
        call: Box<RowFunction>,
    ) -> Self {
        let counts = |shape: &[Option<usize>]| shape.first() == Some(&None);
        let shares = inputs.iter().all(|input| counts(&input.shape))
            && info.outputs.iter().all(|port| counts(&port.shape));
        let largest = if shares { info.largest_batch.max(1) } else { 1 };
        let info = EngineInfo { largest_batch: largest, ..info };
        let (name, rules, optional) = (name.into(), RequestRules::default(), None);
        let (contradiction, answered) = (OnceLock::new(), OnceLock::new());
        Self { name, inputs, info, largest, contradiction, answered, rules, call, optional }
    }

    /// Returns the model with inputs that requests may omit, and their defaults. `call` computes a
    /// request that has one: all inputs, the optional ones last. Such a request shares no call.
    #[must_use]
    pub fn with_optional(
        mut self,
        inputs: Vec<(ModelInput, Value)>,
        call: Box<RowFunction>,
    ) -> Self {
        let (inputs, defaults): (Vec<_>, Vec<_>) = inputs.into_iter().unzip();
        self.info.optional_inputs = inputs.iter().map(Port::from).collect();
        self.optional = (!inputs.is_empty()).then_some(OptionalInputs { inputs, defaults, call });
        self
    }

    /// Returns the model for requests with empty dimensions, which the function must accept.
    #[must_use]
    pub fn with_empty_dimensions(mut self) -> Self {
        self.rules.allows_empty = true;
        self
    }

    /// Accepts requests whose inputs have different first dimensions. Such requests share no calls.
    pub fn allow_other_rows(&mut self) {
        self.rules.allows_other_rows = true;
    }

    /// Returns whether several requests may share a call.
    pub fn is_shared(&self) -> bool {
        self.limit() > 1
    }

    /// Computes each request in a call of its own from now on.
    pub fn separate(&mut self) {
        (self.largest, self.info.largest_batch) = (1, 1);
    }

    /// Returns the maximum number of rows per call of several requests.
    fn limit(&self) -> usize {
        if self.contradiction.get().is_some() { 1 } else { self.largest }
    }

    /// Tries whether requests of one call influence each other, as they do in a model whose first
    /// dimension counts steps, or whether an output has another number of rows. If so, requests no
    /// longer share calls, and the reason is returned. `inputs` are the inputs of the model with the
    /// dimensions of the trial.
    pub fn try_rows(&mut self, inputs: &[ModelInput]) -> Option<String> {
        if !self.is_shared() {
            return None;
        }
        let trial = trials(inputs, 2).find_map(|library| self.trial(&library));
        let influence = || {
            let trial = trial.as_ref()?;
            trial.mixed().or_else(|| {
                let apart = trial.influence()?;
                Some(format!("alone and with another request the answers differ by {apart:.1e}"))
            })
        };
        let why = self.contradiction.get().cloned().or_else(influence)?;
        self.separate();
        Some(why)
    }

    fn trial(&self, library: &TensorLibrary) -> Option<Trial> {
        let request = |index: u32| -> Option<Vec<Value>> {
            let sample = library.sample(index).ok()?;
            let value = |(_, tensor): (&str, SampleTensor)| {
                let shape = [&[1], &tensor.shape[..]].concat();
                Value { shape, elements: tensor.elements }
            };
            Some(sample.into_iter().map(value).collect())
        };
        let [first, second] = [request(0)?, request(1)?];
        // Random numbers are positive, and of one magnitude.
        let others = [scaled(&first, 0.0), scaled(&first, -1.0), scaled(&second, 8.0)];
        let numbers = |answer: Vec<Value>| -> Vec<f64> {
            answer.iter().flat_map(|value| value.elements.to_f64()).collect()
        };
        let pair = |requests: [&[Value]; 2]| {
            let mut answers = self.answer_together(&requests)?.into_iter().map(numbers);
            Some([answers.next()?, answers.next()?])
        };
        let alone = |request: &[Value]| self.answer_alone(request).ok().map(numbers);
        let (twice, both) = (pair([&first, &first])?, pair([&first, &second])?);
        // Random integers are 0 and 1, so that those of two samples may be equal.
        let with_flipped =
            flipped(&first).and_then(|other| Some((alone(&other)?, pair([&first, &other])?)));
        let mut apart = vec![alone(&first)?, alone(&second)?];
        let (mut together, mut requests) = (Vec::from(both), vec![first, second]);
        apart.extend_from_within(..);
        for request in others {
            if let Some(answer) = alone(&request) {
                requests.push(request);
                apart.push(answer);
            }
        }
        for group in requests.chunks(self.largest) {
            let group: Vec<&[Value]> = group.iter().map(Vec::as_slice).collect();
            together.extend(self.answer_together(&group)?.into_iter().map(numbers));
        }
        if let Some((answer, both)) = with_flipped {
            apart.extend([apart[0].clone(), answer]);
            together.extend(both);
        }
        Some(Trial { twice, together, alone: apart })
    }

    /// Returns whether two requests may share a call.
    fn are_alike(&self, a: &[Value], b: &[Value]) -> bool {
        let is_plain = |request: &[Value]| {
            let rows = rows_of(request);
            !self.has_optional(request) && request.iter().all(|value| value.shape[0] == rows)
        };
        is_plain(a) && is_plain(b) && a.iter().zip(b).all(|(a, b)| a.shape[1..] == b.shape[1..])
    }

    /// Computes a request. If that fails, and a request that was answered before still is, the model
    /// rejects the numbers or the shapes of this one.
    fn answer_alone(&self, request: &[Value]) -> Result<Vec<Value>, Refusal> {
        let optional = self.optional.as_ref().filter(|_| self.has_optional(request));
        let call = optional.map_or(&self.call, |optional| &optional.call);
        let answer = call(request);
        if answer.is_ok() && optional.is_none() {
            self.answered.get_or_init(|| request.to_vec());
        }
        answer.map_err(|why| match self.answered.get() {
            Some(answered) if (self.call)(answered).is_ok() => (Failure::Rejected, why),
            _ => (Failure::Internal, why),
        })
    }

    /// Returns whether a request has optional inputs.
    fn has_optional(&self, request: &[Value]) -> bool {
        request.len() > self.inputs.len()
    }

    /// Returns the answers to requests in one call. Returns `None` if the call fails; then each
    /// request is computed separately, and fails separately. If an output has another number of rows
    /// than the inputs, no requests share calls from now on: in other calls the numbers could be equal
    /// by chance.
    fn answer_together(&self, requests: &[&[Value]]) -> Option<Vec<Vec<Value>>> {
        let inputs = (0..self.inputs.len())
            .map(|at| joined(requests.iter().map(|request| &request[at])))
            .collect::<Vec<_>>();
        let outputs = (self.call)(&inputs).ok()?;
        let rows = rows_of(&inputs);
        let is_odd = |output: &Value| output.shape.first() != Some(&rows);
        if let Some(at) = outputs.iter().position(is_odd) {
            let name = self.info.outputs.get(at).map_or("", |port| port.name.as_str());
            let shape = &outputs[at].shape;
            self.contradiction.get_or_init(|| {
                format!("output `{name}` has the shape {shape:?} in a call of {rows} rows")
            });
            return None;
        }
        self.answered.get_or_init(|| requests[0].to_vec());
        let mut first = 0;
        let answers = requests.iter().map(|request| {
            let begin = first;
            first += rows_of(request);
            outputs.iter().map(|output| part(output, begin..first)).collect()
        });
        Some(answers.collect())
    }
}

/// Returns a request with multiples of its numbers of type float32.
fn scaled(request: &[Value], factor: f32) -> Vec<Value> {
    let scale = |value: &Value| match &value.elements {
        Elements::F32(all) => {
            let elements = Elements::F32(all.iter().map(|x| factor * x).collect());
            Value { shape: value.shape.clone(), elements }
        }
        _ => value.clone(),
    };
    request.iter().map(scale).collect()
}

/// Returns a request with 0 for 1 and 1 for 0 in its integers and booleans, or `None` if it has none.
fn flipped(request: &[Value]) -> Option<Vec<Value>> {
    let flip = |value: &Value| {
        let elements = match &value.elements {
            Elements::I64(all) => Elements::I64(all.iter().map(|x| 1 - x).collect()),
            Elements::I32(all) => Elements::I32(all.iter().map(|x| 1 - x).collect()),
            Elements::Bool(all) => Elements::Bool(all.iter().map(|x| !x).collect()),
            _ => return None,
        };
        Some(Value { shape: value.shape.clone(), elements })
    };
    let all: Vec<Option<Value>> = request.iter().map(flip).collect();
    let is_changed = all.iter().any(Option::is_some);
    let pairs = all.into_iter().zip(request);
    is_changed.then(|| pairs.map(|(new, old)| new.unwrap_or_else(|| old.clone())).collect())
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

impl InferenceModel for RowModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn inputs(&self) -> &[ModelInput] {
        &self.inputs
    }

    fn rules(&self) -> RequestRules {
        self.rules
    }

    fn fit(&self, values: Vec<(String, Value)>) -> Result<Vec<Value>, FitError> {
        let Some(optional) = &self.optional else { return fit(&self.inputs, self.rules, values) };
        let is_optional =
            |(name, _): &(String, Value)| optional.inputs.iter().any(|input| input.name == *name);
        let (mut own, others): (Vec<_>, Vec<_>) = values.into_iter().partition(is_optional);
        let mut fitted = fit(&self.inputs, self.rules, others)?;
        if own.is_empty() {
            return Ok(fitted);
        }
        for (input, default) in optional.inputs.iter().zip(&optional.defaults) {
            if !own.iter().any(|(name, _)| *name == input.name) {
                own.push((input.name.clone(), default.clone()));
            }
        }
        let rules = RequestRules { allows_other_rows: true, ..self.rules };
        fitted.extend(fit(&optional.inputs, rules, own)?);
        Ok(fitted)
    }

    fn info(&self) -> EngineInfo {
        EngineInfo { largest_batch: self.limit(), ..self.info.clone() }
    }

    fn contradiction(&self) -> Option<&str> {
        self.contradiction.get().map(String::as_str)
    }

    fn infer(&self, requests: &[&[Value]]) -> Vec<Result<Vec<Value>, Refusal>> {
        let mut answers: Vec<Option<Result<Vec<Value>, Refusal>>> =
            requests.iter().map(|_| None).collect();
        for first in 0..requests.len() {
            if answers[first].is_some() {
                continue;
            }
            // Requests of other shapes are computed in other calls. A request with too many rows is
            // computed alone.
            let (mut rows, limit) = (0, self.limit());
            let shares = |(at, answer): (usize, &Option<_>)| {
                let own = rows_of(requests[at]);
                let is_alike = at == first || self.are_alike(requests[first], requests[at]);
                let fits = answer.is_none() && (rows == 0 || rows + own <= limit) && is_alike;
                rows += if fits { own } else { 0 };
                fits.then_some(at)
            };
            let members: Vec<usize> = match limit {
                1 => vec![first],
                _ => answers.iter().enumerate().skip(first).filter_map(shares).collect(),
            };
            let group: Vec<&[Value]> = members.iter().map(|at| requests[*at]).collect();
            match (members.len() > 1).then(|| self.answer_together(&group)).flatten() {
                Some(all) => members
                    .into_iter()
                    .zip(all)
                    .for_each(|(at, answer)| answers[at] = Some(Ok(answer))),
                None => members.into_iter().for_each(|at| {
                    answers[at] = Some(self.answer_alone(requests[at]));
                }),
            }
        }
        answers.into_iter().map(|answer| answer.expect("each was computed")).collect()
    }
}

impl fmt::Debug for RowModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowModel").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::engine::Port;
    use crate::tensors::Element;

    fn value(shape: &[usize], numbers: &[f32]) -> Value {
        Value { shape: shape.to_vec(), elements: Elements::F32(numbers.to_vec().into()) }
    }

    /// Returns a model that sums each row and fails for negative numbers. It records the rows of
    /// each call.
    fn sums(first: Option<usize>, calls: &Arc<Mutex<Vec<usize>>>) -> RowModel {
        let calls = Arc::clone(calls);
        let shape = vec![first, None];
        let input = ModelInput { name: "x".into(), element: Element::F32, shape: shape.clone() };
        let port = Port { name: "sum".into(), element: "float32".into(), shape };
        let info = EngineInfo { outputs: vec![port], largest_batch: 4, ..EngineInfo::default() };
        let call = move |inputs: &[Value]| {
            let (rows, all) = (inputs[0].shape[0], inputs[0].elements.to_f32().into_owned());
            calls.lock().unwrap().push(rows);
            if all.iter().any(|x| *x < 0.0) {
                return Err("a number below 0".to_owned());
            }
            let sums: Vec<f32> = all.chunks(all.len() / rows).map(|row| row.iter().sum()).collect();
            Ok(vec![Value { shape: vec![rows, 1], elements: Elements::F32(sums.into()) }])
        };
        RowModel::new("sums", vec![input], info, Box::new(call))
    }

    fn answers(model: &RowModel, requests: &[Value]) -> Vec<Result<Vec<f64>, String>> {
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
        let found = answers(&model, &requests);
        let expected = [vec![3.0], vec![3.0], vec![7.0, 11.0], vec![1.0, 2.0], vec![2.0; 9]];
        assert_eq!(found, expected.map(Ok));
        // One and two rows share the first call. The next request would make it five rows.
        assert_eq!(*calls.lock().unwrap(), [3, 1, 2, 9]);
    }

    #[test]
    fn one_that_fails_takes_no_other_with_it() {
        let calls = Arc::default();
        let model = sums(None, &calls);
        let found = answers(&model, &[value(&[1, 1], &[2.0]), value(&[1, 1], &[-1.0])]);
        assert_eq!(found, [Ok(vec![2.0]), Err("a number below 0".to_owned())]);
        // The last call shows that the model still works.
        assert_eq!(*calls.lock().unwrap(), [2, 1, 1, 1]);
    }

    #[test]
    fn a_request_that_fails_is_rejected_by_a_model_that_works() {
        let broken = Arc::new(AtomicBool::new(false));
        let is_broken = Arc::clone(&broken);
        let input = ModelInput { name: "x".into(), element: Element::F32, shape: vec![None] };
        let call = move |inputs: &[Value]| {
            let is_odd = inputs[0].elements.to_f32().iter().any(|x| *x < 0.0);
            if is_odd || is_broken.load(Ordering::Relaxed) {
                return Err("a failure".to_owned());
            }
            Ok(inputs.to_vec())
        };
        let model = RowModel::new("made", vec![input], EngineInfo::default(), Box::new(call));
        let failure = |number: f32| {
            let request = [value(&[1], &[number])];
            model.infer(&[&request]).remove(0).err().map(|(failure, _)| failure)
        };
        assert_eq!(failure(-1.0), Some(Failure::Internal), "it has answered nothing yet");
        assert_eq!([failure(1.0), failure(-1.0)], [None, Some(Failure::Rejected)]);
        broken.store(true, Ordering::Relaxed);
        assert_eq!([failure(1.0), failure(-1.0)], [Some(Failure::Internal); 2]);
    }

    #[test]
    fn a_model_that_answers_requests_together_works() {
        let model = sums(None, &Arc::default());
        let found = answers(&model, &[value(&[1, 1], &[2.0]), value(&[1, 1], &[3.0])]);
        assert_eq!(found, [Ok(vec![2.0]), Ok(vec![3.0])]);
        let request = [value(&[1, 1], &[-1.0])];
        let failure = model.infer(&[&request]).remove(0).err().map(|(failure, _)| failure);
        assert_eq!(failure, Some(Failure::Rejected));
    }

    #[test]
    fn requests_that_influence_each_other_do_not_share_calls() {
        let shape = vec![None, Some(2)];
        let input = ModelInput { name: "x".into(), element: Element::F32, shape: shape.clone() };
        let port = Port { name: "y".into(), element: "float32".into(), shape };
        let info = EngineInfo { outputs: vec![port], largest_batch: 4, ..EngineInfo::default() };
        // Each row is added to those before it, as states are.
        let running = |inputs: &[Value]| {
            let mut all = inputs[0].elements.to_f32().into_owned();
            for at in 2..all.len() {
                all[at] += all[at - 2];
            }
            Ok(vec![Value { shape: inputs[0].shape.clone(), elements: Elements::F32(all.into()) }])
        };
        let mut model = RowModel::new("running", vec![input.clone()], info, Box::new(running));
        assert!(model.try_rows(std::slice::from_ref(&input)).is_some());
        assert_eq!(model.info().largest_batch, 1);
        let requests = [[2.0, 1.0], [3.0, 1.0]].map(|all| vec![value(&[1, 2], &all)]);
        let requests: Vec<&[Value]> = requests.iter().map(Vec::as_slice).collect();
        let found = model.infer(&requests).remove(1).unwrap();
        assert_eq!(found[0].elements.to_f64(), [3.0, 1.0]);
        let calls = Arc::default();
        let mut model = sums(None, &calls);
        assert_eq!(model.try_rows(&[input]), None);
        assert_eq!(model.info().largest_batch, 4);
    }

    /// Returns a model whose output has a row for each number other than 0.
    fn nonzeros() -> (RowModel, ModelInput) {
        let input =
            ModelInput { name: "x".into(), element: Element::F32, shape: vec![None, Some(2)] };
        let port = Port::from(&input);
        let info = EngineInfo { outputs: vec![port], largest_batch: 4, ..EngineInfo::default() };
        let call = |inputs: &[Value]| {
            let all = inputs[0].elements.to_f32().into_owned();
            let found: Vec<f32> = all.into_iter().filter(|x| *x != 0.0).collect();
            let shape = vec![found.len(), 1];
            Ok(vec![Value { shape, elements: Elements::F32(found.into()) }])
        };
        (RowModel::new("nonzeros", vec![input.clone()], info, Box::new(call)), input)
    }

    #[test]
    fn another_number_of_rows_ends_sharing() {
        let (mut model, input) = nonzeros();
        // Two random requests have four numbers other than 0.
        let why = model.try_rows(&[input]).unwrap();
        assert_eq!(why, "output `x` has the shape [4, 1] in a call of 2 rows");
        assert!(!model.is_shared());
        let (model, _) = nonzeros();
        assert!(model.is_shared());
        // A call of two rows has three numbers, and the next one would have two by chance.
        let three = [value(&[1, 2], &[1.0, 2.0]), value(&[1, 2], &[0.0, 3.0])];
        assert_eq!(answers(&model, &three), [Ok(vec![1.0, 2.0]), Ok(vec![3.0])]);
        let why = "output `x` has the shape [3, 1] in a call of 2 rows";
        assert_eq!(model.contradiction(), Some(why));
        let two = [value(&[1, 2], &[1.0, 2.0]), value(&[1, 2], &[0.0, 0.0])];
        assert_eq!(answers(&model, &two), [Ok(vec![1.0, 2.0]), Ok(vec![])]);
        assert_eq!(model.info().largest_batch, 1);
    }

    #[test]
    fn a_branch_by_all_requests_of_a_call_is_found() {
        let shape = vec![None, Some(2)];
        let input = ModelInput { name: "x".into(), element: Element::F32, shape };
        let port = Port::from(&input);
        let info = EngineInfo { outputs: vec![port], largest_batch: 4, ..EngineInfo::default() };
        // Random numbers are positive, so that two random requests select the same branch.
        let branch = |inputs: &[Value]| {
            let mut all = inputs[0].elements.to_f32().into_owned();
            if all.iter().sum::<f32>() <= 0.0 {
                all.iter_mut().for_each(|x| *x = 3.0 * *x + 1.0);
            }
            Ok(vec![Value { shape: inputs[0].shape.clone(), elements: Elements::F32(all.into()) }])
        };
        let mut model = RowModel::new("branch", vec![input.clone()], info, Box::new(branch));
        assert!(model.try_rows(&[input]).is_some());
    }

    /// The integers of two random samples are the same here.
    #[test]
    fn equal_integers_hide_no_influence() {
        let shape = vec![None, Some(2)];
        let input = ModelInput { name: "ids".into(), element: Element::I64, shape };
        let port = Port::from(&input);
        let info = EngineInfo { outputs: vec![port], largest_batch: 4, ..EngineInfo::default() };
        let reversed = |inputs: &[Value]| {
            let all = inputs[0].elements.to_f64();
            let rows: Vec<f32> = all.chunks(2).rev().flatten().map(|x| *x as f32).collect();
            Ok(vec![Value { shape: inputs[0].shape.clone(), elements: Elements::F32(rows.into()) }])
        };
        let mut model = RowModel::new("reversed", vec![input.clone()], info, Box::new(reversed));
        assert!(model.try_rows(&[input]).is_some());
    }

    #[test]
    fn a_fixed_first_dimension_is_no_batch() {
        let calls = Arc::default();
        let model = sums(Some(1), &calls);
        assert_eq!(model.info().largest_batch, 1);
        let found = answers(&model, &[value(&[1, 1], &[2.0]), value(&[1, 1], &[3.0])]);
        assert_eq!(found, [Ok(vec![2.0]), Ok(vec![3.0])]);
        assert_eq!(*calls.lock().unwrap(), [1, 1]);
    }
    #[test]
    fn requests_without_rows_share_calls_and_have_empty_answers() {
        let shape = vec![None, Some(2)];
        let input = ModelInput { name: "x".into(), element: Element::F32, shape: shape.clone() };
        let port = Port { name: "y".into(), element: "float32".into(), shape };
        let info = EngineInfo { outputs: vec![port], largest_batch: 4, ..EngineInfo::default() };
        let model =
            RowModel::new("same", vec![input], info, Box::new(|all: &[Value]| Ok(all.to_vec())));
        let model = model.with_empty_dimensions();
        assert!(model.rules().allows_empty);
        let requests = [value(&[0, 2], &[]), value(&[1, 2], &[5.0, 6.0]), value(&[0, 2], &[])];
        let requests: Vec<&[Value]> = requests.iter().map(std::slice::from_ref).collect();
        let answers = model.infer(&requests).into_iter().map(|answer| answer.unwrap().remove(0));
        let expected = [value(&[0, 2], &[]), value(&[1, 2], &[5.0, 6.0]), value(&[0, 2], &[])];
        assert_eq!(answers.collect::<Vec<_>>(), expected);
    }
}
