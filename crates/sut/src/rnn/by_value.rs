//! Recurrent networks without a data set.

use std::cmp::Reverse;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dyno_loadgen::record::Failure;

use super::{Batching, Runner, RunnerSlot, prepare, slot};
use crate::engine::{EngineInfo, Port};
use crate::idle::idle;
use crate::infer::{InferenceModel, Refusal, SequenceState, Value};
use crate::tensors::{Element, Elements, ModelInput};

/// Recurrent network whose sequences come with the requests: `[rows, steps, inputs]`, each row a
/// sequence. Requests of similar lengths share calls. Each row runs for its own number of steps.
///
/// ```
/// use dyno_rnn::engine::EngineOptions;
/// use dyno_sut::batch::LengthClasses;
/// use dyno_sut::digits::{DigitsLstm, ROWS};
/// use dyno_sut::infer::{InferenceModel, zeros};
/// use dyno_sut::rnn::{Batching, RecurrentModel};
///
/// let options = EngineOptions { steps: ROWS, ..EngineOptions::default() };
/// let length_classes = LengthClasses::default();
/// let batching = Batching { largest: 1.try_into().expect("not 0"), length_classes };
/// let model = RecurrentModel::new("lstm", vec![DigitsLstm::runner(&options)?], batching)?;
/// let answers = model.infer(&[&zeros(model.inputs())]);
/// assert_eq!(answers[0].as_ref().expect("zeros fit")[0].shape, [1, 1]);
/// # Ok::<(), String>(())
/// ```
pub struct RecurrentModel {
    name: String,
    inputs: Vec<ModelInput>,
    info: EngineInfo,
    outputs: Vec<SelectedOutput>,
    /// States from which a sequence starts, or why sequences cannot be continued.
    start: Result<Vec<f32>, String>,
    /// Maximum number of sequences that go on in one call.
    shared_rows: usize,
    batching: Batching,
    /// One slot for each simultaneous call.
    slots: Vec<Arc<Mutex<RunnerSlot>>>,
}

/// Output that answers contain.
struct SelectedOutput {
    /// Index among the outputs of the runners.
    port: usize,
    element: Element,
    /// Dimensions of a row; `None` counts its steps.
    shape: Vec<Option<usize>>,
}

/// Rows of a tile of the kernels. The order of the sums of a row depends on the rows of its tile, so
/// calls of sequences always fill whole tiles.
pub const GROUP: usize = 6;

/// Row of a request.
#[derive(Clone, Copy)]
struct Row<'a> {
    request: usize,
    row: usize,
    sequence: &'a [f32],
    steps: usize,
}

impl RecurrentModel {
    /// Returns a model with these runners, all of which run the same network on different cores.
    ///
    /// # Errors
    /// A message if a runner cannot prepare for the largest batch.
    ///
    /// # Panics
    /// If there is no runner.
    pub fn new(
        name: impl Into<String>,
        runners: Vec<Box<dyn Runner>>,
        batching: Batching,
    ) -> Result<Self, String> {
        let first = runners.first().expect("a network needs a runner");
        let start = first.initial_states();
        let input = ModelInput {
            name: "sequence".into(),
            element: Element::F32,
            shape: vec![None, None, Some(first.inputs())],
        };
        let info = EngineInfo {
            runtime: Some(format!("dyno-rnn {}", env!("CARGO_PKG_VERSION"))),
            inputs: vec![Port::from(&input)],
            largest_batch: batching.largest.get(),
            ..EngineInfo::default()
        };
        let mut slots = Vec::new();
        for mut runner in runners {
            prepare(&mut *runner, batching.largest)?;
            slots.push(slot(runner));
        }
        let (name, inputs, outputs) = (name.into(), vec![input], Vec::new());
        let mut model =
            Self { name, inputs, info, outputs, start, shared_rows: 1, batching, slots };
        match model.start.as_ref().ok().map(|first| model.shared_rows(first)) {
            Some(Ok(rows)) => model.shared_rows = rows,
            // Such as layers whose lengths are constants of the file.
            Some(Err(why)) => model.start = Err(why),
            None => {}
        }
        model.select(0..1)?;
        Ok(model)
    }

    /// Returns the model with these outputs in its answers, such as `Y`, instead of the answer of
    /// its runners alone.
    ///
    /// # Errors
    /// A message if an output does not exist or is named twice.
    pub fn with_outputs(mut self, names: &[String]) -> Result<Self, String> {
        let ports = lock(&self.slots[0]).runner.ports();
        let mut selected = Vec::new();
        for name in names {
            let port = ports.iter().position(|port| port.name == *name).ok_or_else(|| {
                let known: Vec<&str> = ports.iter().map(|port| &port.name[..]).collect();
                format!("there is no output `{name}`; expected some of {}", known.join(", "))
            })?;
            if selected.contains(&port) {
                return Err(format!("output `{name}` is named twice"));
            }
            selected.push(port);
        }
        self.slots.iter().for_each(|slot| lock(slot).runner.keep_states());
        self.select(selected)?;
        Ok(self)
    }

    /// Selects outputs by their indices among those of the runners.
    fn select(&mut self, selected: impl IntoIterator<Item = usize>) -> Result<(), String> {
        let ports = lock(&self.slots[0]).runner.ports();
        (self.outputs, self.info.outputs) = (Vec::new(), Vec::new());
        for port in selected {
            let Port { name, element, shape } = ports[port].clone();
            let own = Elements::type_from_name(&element)
                .ok_or_else(|| format!("answers are of the unsupported type {element}"))?;
            self.outputs.push(SelectedOutput { port, element: own, shape: shape.clone() });
            let shape = std::iter::once(None).chain(shape).collect();
            self.info.outputs.push(Port { name, element, shape });
        }
        Ok(())
    }

    /// Returns how many sequences go on in one call; 1 if they would change each other's last bits.
    pub fn sequences_per_call(&self) -> usize {
        self.shared_rows
    }

    /// Returns the rows of requests, in order, and for each request room for the outputs of its
    /// rows, or its refusal.
    fn rows<'a>(&self, requests: &[&'a [Value]]) -> (Vec<Row<'a>>, Vec<RowOutputs>) {
        let (mut rows, mut answers) = (Vec::new(), Vec::new());
        for (request, values) in requests.iter().enumerate() {
            let Value { shape, elements } = &values[0];
            let (count, steps) = (shape[0], shape[1]);
            let numbers = match elements {
                Elements::F32(numbers) => &numbers[..],
                _ => unreachable!("a request fits the inputs"),
            };
            if let Some(odd) = numbers.iter().find(|number| !number.is_finite()) {
                let why = format!("input 'sequence' has {odd}; every number must be finite");
                answers.push(Err((Failure::Rejected, why)));
                continue;
            }
            answers.push(Ok(vec![Vec::new(); count]));
            let sequences = numbers.chunks_exact((numbers.len() / count).max(1)).enumerate();
            rows.extend(sequences.map(|(row, sequence)| Row { request, row, sequence, steps }));
        }
        (rows, answers)
    }

    /// Returns the values of a request whose rows have these outputs.
    fn values(&self, rows: &[Vec<Vec<u8>>], steps: usize) -> Vec<Value> {
        let value = |(at, output): (usize, &SelectedOutput)| {
            let bytes: Vec<u8> = rows.iter().flat_map(|row| &row[at]).copied().collect();
            let elements = Elements::read(output.element, &bytes);
            let elements = elements.expect("answers are of a type that is held");
            let own = output.shape.iter().map(|n| n.unwrap_or(steps));
            Value { shape: std::iter::once(rows.len()).chain(own).collect(), elements }
        };
        self.outputs.iter().enumerate().map(value).collect()
    }

    /// Returns the outputs of rows, which are sorted by descending length.
    fn call(&self, rows: &[Row<'_>]) -> Result<Vec<Vec<Vec<u8>>>, String> {
        let mut slot = idle(&self.slots, 0);
        slot.fill(rows, rows.len());
        let RunnerSlot { runner, input, lengths } = &mut *slot;
        runner.run(input, lengths)?;
        Ok((0..rows.len()).map(|row| self.outputs(&**runner, row)).collect())
    }

    /// Returns the outputs of rows of equal lengths that start from these states. Free places of the
    /// last group run along, so that the kernels treat each row alike.
    fn call_on(
        &self,
        rows: &[Row<'_>],
        states: &mut [Vec<f32>],
    ) -> Result<Vec<Vec<Vec<u8>>>, String> {
        let mut slot = idle(&self.slots, 0);
        let size = rows.len().next_multiple_of(GROUP);
        slot.fill(rows, size);
        let mut own: Vec<Vec<f32>> = states.to_vec();
        own.resize(size, Vec::new());
        let RunnerSlot { runner, input, lengths } = &mut *slot;
        lengths.fill(rows[0].steps);
        runner.run_on(input, lengths, &mut own)?;
        states.iter_mut().zip(own).for_each(|(states, own)| *states = own);
        Ok((0..rows.len()).map(|row| self.outputs(&**runner, row)).collect())
    }

    /// Returns how many sequences may share a call: as many as fit, or 1 if others change the bits of
    /// a row, as they do where workers share the rows of a batch.
    fn shared_rows(&self, first: &[f32]) -> Result<usize, String> {
        let most = (self.batching.largest.get() / GROUP).max(1) * GROUP;
        let width = lock(&self.slots[0]).runner.inputs();
        let number = |at: usize| ((at * 37 + at / 7) % 251) as f32 / 125.0 - 1.0;
        let steps = 3;
        let numbers: Vec<f32> = (0..most * steps * width).map(number).collect();
        let sequences = numbers.chunks_exact(steps * width).enumerate();
        let rows: Vec<Row<'_>> = sequences
            .map(|(row, sequence)| Row { request: row, row: 0, sequence, steps })
            .collect();
        let mut alone = vec![first.to_vec(); most];
        for (row, alone) in rows.iter().zip(&mut alone) {
            for sequence in row.sequence.chunks_exact(width) {
                let step = Row { sequence, steps: 1, ..*row };
                self.call_on(&[step], std::slice::from_mut(alone))?;
            }
        }
        let bits = |states: &[Vec<f32>]| -> Vec<u32> {
            states.iter().flatten().map(|state| state.to_bits()).collect()
        };
        let alone = bits(&alone);
        // Batches of each size have a plan of their own.
        for size in (GROUP..=most).step_by(GROUP) {
            let mut together = vec![first.to_vec(); most];
            for (rows, states) in rows.chunks(size).zip(together.chunks_mut(size)) {
                self.call_on(rows, states)?;
            }
            if bits(&together) != alone {
                return Ok(1);
            }
        }
        Ok(most)
    }

    /// Returns the selected outputs of a row of a runner's last batch.
    fn outputs(&self, runner: &dyn Runner, row: usize) -> Vec<Vec<u8>> {
        let output = |selected: &SelectedOutput| {
            let mut bytes = Vec::new();
            runner.output(selected.port, row, &mut bytes);
            bytes
        };
        self.outputs.iter().map(output).collect()
    }
}

/// Outputs of each row of a request, or its refusal.
type RowOutputs = Result<Vec<Vec<Vec<u8>>>, Refusal>;

fn lock(slot: &Mutex<RunnerSlot>) -> MutexGuard<'_, RunnerSlot> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RunnerSlot {
    /// Copies rows to the first places of a batch of `size` rows; the other places have no steps.
    fn fill(&mut self, rows: &[Row<'_>], size: usize) {
        let width = self.runner.inputs();
        let steps = rows.iter().map(|row| row.steps).max().unwrap_or(0);
        self.lengths.clear();
        self.lengths.extend(rows.iter().map(|row| row.steps));
        self.lengths.resize(size, 0);
        // Data after the last step of a row may be left from earlier calls. The runner does not
        // read it.
        self.input.resize(steps * size * width, 0.0);
        for (at, row) in rows.iter().enumerate() {
            for (step, from) in row.sequence.chunks_exact(width).enumerate() {
                self.input[(step * size + at) * width..][..width].copy_from_slice(from);
            }
        }
    }
}

impl InferenceModel for RecurrentModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn inputs(&self) -> &[ModelInput] {
        &self.inputs
    }

    fn info(&self) -> EngineInfo {
        self.info.clone()
    }

    fn class(&self, request: &[Value]) -> usize {
        self.batching.length_classes.class(request[0].shape[1])
    }

    fn infer(&self, requests: &[&[Value]]) -> Vec<Result<Vec<Value>, Refusal>> {
        let (mut rows, mut answers) = self.rows(requests);
        // Longest rows first; rows of equal length in order of arrival.
        rows.sort_by_key(|row| Reverse(row.steps));
        let mut note = |row: &Row<'_>, answered: Result<Vec<Vec<u8>>, String>| match (
            &mut answers[row.request],
            answered,
        ) {
            (Ok(all), Ok(outputs)) => all[row.row] = outputs,
            (answer @ Ok(_), Err(why)) => *answer = Err((Failure::Internal, why)),
            (Err(_), _) => {}
        };
        for part in rows.chunks(self.batching.largest.get()) {
            match self.call(part) {
                Ok(all) => part.iter().zip(all).for_each(|(row, outputs)| note(row, Ok(outputs))),
                // If a call fails, each of its rows is computed alone, so that one bad row does not
                // fail the others.
                Err(_) => part.iter().for_each(|row| {
                    let alone = self.call(std::slice::from_ref(row));
                    note(row, alone.map(|mut all| all.swap_remove(0)));
                }),
            }
        }
        let answers = answers.into_iter().zip(requests);
        let answer = |(answer, request): (RowOutputs, &&[Value])| {
            answer.map(|rows| self.values(&rows, request[0].shape[1]))
        };
        answers.map(answer).collect()
    }

    fn check_sequences(&self) -> Result<(), String> {
        let reason = |why: &String| format!("{} cannot continue a sequence: {why}", self.name);
        self.start.as_ref().map(drop).map_err(reason)
    }

    fn infer_sequences(
        &self,
        requests: &[&[Value]],
        states: &mut [Option<SequenceState>],
    ) -> Vec<Result<Vec<Value>, Refusal>> {
        let first = match (&self.start, self.check_sequences()) {
            (Ok(first), Ok(())) => first,
            (_, refused) => {
                let why = refused.err().unwrap_or_default();
                return requests.iter().map(|_| Err((Failure::Rejected, why.clone()))).collect();
            }
        };
        let (mut rows, mut answers) = self.rows(requests);
        for (answer, request) in answers.iter_mut().zip(requests) {
            let count = request[0].shape[0];
            if answer.is_ok() && count != 1 {
                let why = format!(
                    "input 'sequence' has {count} rows; expected 1 in a request of a sequence"
                );
                *answer = Err((Failure::Rejected, why));
            }
        }
        rows.retain(|row| answers[row.request].is_ok());
        // Rows of equal lengths, in order of arrival.
        rows.sort_by_key(|row| row.steps);
        let alike = rows.chunk_by(|a, b| a.steps == b.steps);
        for part in alike.flat_map(|alike| alike.chunks(self.shared_rows)) {
            let start = |row: &Row<'_>| numbers(states[row.request].as_ref(), first);
            let mut own: Vec<Vec<f32>> = part.iter().map(start).collect();
            let together = self.call_on(part, &mut own).ok();
            for (at, row) in part.iter().enumerate() {
                let outputs = match &together {
                    Some(all) => Ok(all[at].clone()),
                    // If a call fails, each of its rows is computed alone.
                    None => {
                        let alone = self.call_on(std::slice::from_ref(row), &mut own[at..=at]);
                        alone.map(|mut all| all.swap_remove(0))
                    }
                };
                answers[row.request] = match outputs {
                    Ok(outputs) => {
                        states[row.request] = Some(state_of(std::mem::take(&mut own[at])));
                        Ok(vec![outputs])
                    }
                    Err(why) => Err((Failure::Internal, why)),
                };
            }
        }
        let answers = answers.into_iter().zip(requests);
        let answer = |(answer, request): (RowOutputs, &&[Value])| {
            answer.map(|rows| self.values(&rows, request[0].shape[1]))
        };
        answers.map(answer).collect()
    }
}

/// Returns the states of a sequence, or those from which it starts.
fn numbers(states: Option<&SequenceState>, first: &[f32]) -> Vec<f32> {
    let own = states.and_then(|states| states.first()).map(|value| value.elements.to_f32());
    own.map_or_else(|| first.to_vec(), |own| own.to_vec())
}

fn state_of(states: Vec<f32>) -> SequenceState {
    vec![Value { shape: vec![states.len()], elements: Elements::F32(states.into()) }]
}

impl fmt::Debug for RecurrentModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecurrentModel").field("name", &self.name).finish_non_exhaustive()
    }
}
