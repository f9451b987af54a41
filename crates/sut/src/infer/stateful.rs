//! Models whose states are inputs and outputs: they are passed on from request to request.

use std::fmt;

use dyno_loadgen::record::Failure;

use super::{InferenceModel, Refusal, RequestRules, SequenceState, Value, zeros};
use crate::engine::{EngineInfo, Port};
use crate::tensors::ModelInput;

/// Model with inputs for its states and outputs with the states after a request. Requests contain the
/// other inputs. A sequence, and a request without one, starts from zeros; dynamic dimensions of
/// states are 1.
///
/// Requests of sequences are computed one by one, because nothing is known about the order of the
/// model's sums in a batch.
pub struct StatefulModel<M> {
    inner: M,
    /// Inputs that requests contain.
    inputs: Vec<ModelInput>,
    /// States from which a sequence starts.
    start: SequenceState,
    states: Vec<State>,
}

/// A state of a model.
struct State {
    /// Index of its input.
    input: usize,
    /// Index of its output.
    output: usize,
}

impl<M: InferenceModel> StatefulModel<M> {
    /// Returns a model whose states are these pairs of an input and an output.
    ///
    /// # Errors
    /// A message if an input or output does not exist, is named twice, or they differ in type or
    /// dimensions.
    pub fn new(inner: M, names: &[(String, String)]) -> Result<Self, String> {
        let outputs = inner.info().outputs;
        let mut states: Vec<State> = Vec::new();
        for (input_name, output_name) in names {
            let unknown = |kind: &str, name: &str, known: Vec<&str>| {
                format!("the model has no {kind} `{name}`; it has {}", known.join(", "))
            };
            let all = inner.inputs();
            let input =
                all.iter().position(|input| input.name == *input_name).ok_or_else(|| {
                    unknown("input", input_name, all.iter().map(|input| &input.name[..]).collect())
                })?;
            let output = outputs.iter().position(|port| port.name == *output_name);
            let output = output.ok_or_else(|| {
                unknown("output", output_name, outputs.iter().map(|port| &port.name[..]).collect())
            })?;
            if states.iter().any(|state| state.input == input || state.output == output) {
                return Err(format!("`{input_name}:{output_name}` names a state twice"));
            }
            let (from, to) = (&outputs[output], Port::from(&all[input]));
            if from.element != to.element || !is_alike(&from.shape, &to.shape) {
                return Err(format!(
                    "input `{input_name}` is {}, but output `{output_name}` is {}",
                    describe(&to),
                    describe(from)
                ));
            }
            states.push(State { input, output });
        }
        let is_state = |at: usize| states.iter().any(|state| state.input == at);
        let own = |at: usize| inner.inputs()[at].clone();
        let inputs: Vec<ModelInput> =
            (0..inner.inputs().len()).filter(|at| !is_state(*at)).map(own).collect();
        if inputs.is_empty() {
            return Err("the model has no other inputs".to_owned());
        }
        let of_states: Vec<ModelInput> = states.iter().map(|state| own(state.input)).collect();
        Ok(Self { start: zeros(&of_states), inner, inputs, states })
    }

    /// Returns the inputs of the model for a request that starts from these states.
    fn whole(&self, request: &[Value], states: &SequenceState) -> Vec<Value> {
        let mut given = request.iter();
        let count = self.inner.inputs().len();
        let value = |at: usize| match self.states.iter().position(|state| state.input == at) {
            Some(state) => states[state].clone(),
            None => given.next().expect("a request fits the inputs").clone(),
        };
        (0..count).map(value).collect()
    }

    /// Answers a request that starts from these states. Returns the states after it as well.
    fn answer(
        &self,
        request: &[Value],
        states: &SequenceState,
    ) -> Result<(Vec<Value>, SequenceState), Refusal> {
        let whole = self.whole(request, states);
        let explained = |refusal| self.explained(request, refusal);
        let answer = self.inner.infer(&[&whole]).remove(0).map_err(explained)?;
        let after = self.states.iter().map(|state| {
            let (value, input) = (&answer[state.output], &self.inner.inputs()[state.input]);
            let shape: Vec<Option<usize>> = value.shape.iter().map(|n| Some(*n)).collect();
            if is_alike(&shape, &input.shape) {
                return Ok(value.clone());
            }
            let why = format!(
                "the state after the request is {:?}, which input '{}' does not accept",
                value.shape, input.name
            );
            Err((Failure::Internal, why))
        });
        let after = after.collect::<Result<_, _>>().map_err(explained)?;
        Ok((answer, after))
    }

    /// Returns a failure as one of the request if the request has several rows: states are those of
    /// one, unless the model fixes another number.
    fn explained(&self, request: &[Value], (failure, why): Refusal) -> Refusal {
        let has_rows = request.iter().zip(&self.inputs).any(|(value, input)| {
            input.shape.first() == Some(&None) && value.shape.first().is_some_and(|rows| *rows != 1)
        });
        let is_open = |state: &State| self.inner.inputs()[state.input].shape.contains(&None);
        if has_rows && self.states.iter().any(is_open) {
            let why = format!("{why}; a request of a sequence has one row");
            return (Failure::Rejected, why);
        }
        (failure, why)
    }
}

/// Returns the type and the dimensions of a port, such as `float32 [1, ?, 6]`.
fn describe(port: &Port) -> String {
    let size = |n: &Option<usize>| n.map_or("?".to_owned(), |n| n.to_string());
    let sizes: Vec<String> = port.shape.iter().map(size).collect();
    format!("{} [{}]", port.element, sizes.join(", "))
}

/// Returns whether dimensions may be equal; `None` may be any.
fn is_alike(a: &[Option<usize>], b: &[Option<usize>]) -> bool {
    let dimension = |(a, b): (&Option<usize>, &Option<usize>)| a.is_none() || b.is_none() || a == b;
    a.len() == b.len() && a.iter().zip(b).all(dimension)
}

impl<M: InferenceModel> InferenceModel for StatefulModel<M> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn inputs(&self) -> &[ModelInput] {
        &self.inputs
    }

    fn rules(&self) -> RequestRules {
        self.inner.rules()
    }

    fn info(&self) -> EngineInfo {
        let inputs = self.inputs.iter().map(Port::from).collect();
        EngineInfo { inputs, optional_inputs: Vec::new(), ..self.inner.info() }
    }

    fn infer(&self, requests: &[&[Value]]) -> Vec<Result<Vec<Value>, Refusal>> {
        let answer = |request: &&[Value]| self.answer(request, &self.start).map(|(all, _)| all);
        requests.iter().map(answer).collect()
    }

    fn check_sequences(&self) -> Result<(), String> {
        Ok(())
    }

    fn infer_sequences(
        &self,
        requests: &[&[Value]],
        states: &mut [Option<SequenceState>],
    ) -> Vec<Result<Vec<Value>, Refusal>> {
        let answer = |(request, states): (&&[Value], &mut Option<SequenceState>)| {
            let (answer, after) = self.answer(request, states.as_ref().unwrap_or(&self.start))?;
            *states = Some(after);
            Ok(answer)
        };
        requests.iter().zip(states).map(answer).collect()
    }
}

impl<M> fmt::Debug for StatefulModel<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatefulModel").field("inputs", &self.inputs).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::infer::RowModel;
    use crate::tensors::{Element, Elements};

    /// `y = x + h`, and `hn = 2 y`.
    fn model() -> RowModel {
        let input =
            |name: &str, shape| ModelInput { name: name.into(), element: Element::F32, shape };
        let inputs = vec![input("h", vec![Some(1)]), input("x", vec![None])];
        let outputs = inputs.iter().zip(["hn", "y"]);
        let outputs = outputs.map(|(input, name)| Port { name: name.into(), ..Port::from(input) });
        let info = EngineInfo { outputs: outputs.collect(), ..EngineInfo::default() };
        let call = |values: &[Value]| {
            let sum = values[0].elements.to_f32()[0] + values[1].elements.to_f32()[0];
            let one = |x: f32| Value { shape: vec![1], elements: Elements::F32(vec![x].into()) };
            Ok(vec![one(2.0 * sum), one(sum)])
        };
        RowModel::new("made", inputs, info, Box::new(call))
    }

    fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    }

    #[test]
    fn states_are_passed_on_and_are_not_inputs_of_requests() {
        let model = StatefulModel::new(model(), &pairs(&[("h", "hn")])).unwrap();
        let names: Vec<_> = model.inputs().iter().map(|input| &input.name[..]).collect();
        assert_eq!(names, ["x"]);
        let x = |x: f32| vec![Value { shape: vec![1], elements: Elements::F32(vec![x].into()) }];
        let y = |answers: &[Result<Vec<Value>, Refusal>]| -> Vec<f32> {
            let number = |answer: &Result<Vec<Value>, Refusal>| {
                answer.as_ref().unwrap()[1].elements.to_f32()[0]
            };
            answers.iter().map(number).collect()
        };
        let mut states = vec![None, None];
        let (a, b) = (x(1.0), x(10.0));
        assert_eq!(y(&model.infer_sequences(&[&a, &b], &mut states)), [1.0, 10.0]);
        assert_eq!(y(&model.infer_sequences(&[&a, &a], &mut states)), [3.0, 21.0]);
        assert_eq!(y(&model.infer(&[&a])), [1.0]);
        assert_eq!(y(&model.infer_sequences(&[&a, &a], &mut states)), [7.0, 43.0]);
    }

    #[test]
    fn pairs_that_do_not_fit_are_refused() {
        for (names, expected) in [
            (&[("z", "hn")][..], "no input `z`; it has h, x"),
            (&[("h", "z")], "no output `z`; it has hn, y"),
            (&[("h", "hn"), ("x", "hn")], "names a state twice"),
            (&[("h", "hn"), ("x", "y")], "no other inputs"),
        ] {
            let why = StatefulModel::new(model(), &pairs(names)).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
    }

    #[test]
    fn dimensions_that_differ_are_shown_as_those_of_a_model() {
        let input = |name: &str, shape: &[Option<usize>]| ModelInput {
            name: name.into(),
            element: Element::F32,
            shape: shape.to_vec(),
        };
        let inputs = vec![input("h", &[Some(1), None, Some(6)]), input("x", &[None])];
        let y = Port { name: "y".into(), ..Port::from(&inputs[1]) };
        let info = EngineInfo { outputs: vec![y], ..EngineInfo::default() };
        let call = |values: &[Value]| Ok(values.to_vec());
        let model = RowModel::new("made", inputs, info, Box::new(call));
        let why = StatefulModel::new(model, &pairs(&[("h", "y")])).unwrap_err();
        assert_eq!(why, "input `h` is float32 [1, ?, 6], but output `y` is float32 [?]");
    }

    /// `y = x + h` by rows; other numbers of rows are an error of the model.
    #[test]
    fn a_request_of_several_rows_is_refused_if_the_model_fails_with_it() {
        let input = |name: &str| ModelInput {
            name: name.into(),
            element: Element::F32,
            shape: vec![None, Some(1)],
        };
        let inputs = vec![input("h"), input("x")];
        let outputs = inputs.iter().zip(["hn", "y"]);
        let outputs = outputs.map(|(input, name)| Port { name: name.into(), ..Port::from(input) });
        let info = EngineInfo { outputs: outputs.collect(), ..EngineInfo::default() };
        let call = |values: &[Value]| {
            if values[0].shape == values[1].shape {
                Ok(values.to_vec())
            } else {
                Err("the rows differ".to_owned())
            }
        };
        let model = RowModel::new("made", inputs, info, Box::new(call));
        let model = StatefulModel::new(model, &pairs(&[("h", "hn")])).unwrap();
        let x = |rows: usize| {
            let elements = Elements::F32(vec![1.0; rows].into());
            vec![Value { shape: vec![rows, 1], elements }]
        };
        let (one, two) = (x(1), x(2));
        let answers = model.infer_sequences(&[&one, &two], &mut [None, None]);
        assert!(answers[0].is_ok());
        let (failure, why) = answers[1].as_ref().unwrap_err();
        assert_eq!(*failure, Failure::Rejected);
        assert!(why.contains("the rows differ; a request of a sequence has one row"), "{why}");
    }
}
