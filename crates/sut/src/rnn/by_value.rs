//! Recurrent networks without a data set.

use std::cmp::Reverse;
use std::fmt;
use std::sync::{Arc, Mutex};

use dyno_loadgen::record::Failure;

use super::{Batching, Runner, RunnerSlot, prepare, slot};
use crate::engine::{EngineInfo, Port};
use crate::idle::idle;
use crate::infer::{InferenceModel, Refusal, Value};
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
    /// Type of the elements of an answer.
    answers: Element,
    batching: Batching,
    /// One slot for each simultaneous call.
    slots: Vec<Arc<Mutex<RunnerSlot>>>,
}

/// Row of a request.
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
        let (width, Port { name: answer, element, shape }) = (first.inputs(), first.answers());
        let answers = Elements::type_from_name(&element)
            .ok_or_else(|| format!("answers are of the unsupported type {element}"))?;
        let shape = std::iter::once(None).chain(shape).collect();
        let input = ModelInput {
            name: "sequence".into(),
            element: Element::F32,
            shape: vec![None, None, Some(width)],
        };
        let info = EngineInfo {
            runtime: Some(format!("dyno-rnn {}", env!("CARGO_PKG_VERSION"))),
            inputs: vec![Port::from(&input)],
            outputs: vec![Port { name: answer, element, shape }],
            largest_batch: batching.largest.get(),
            ..EngineInfo::default()
        };
        let mut slots = Vec::new();
        for mut runner in runners {
            prepare(&mut *runner, batching.largest)?;
            slots.push(slot(runner));
        }
        Ok(Self { name: name.into(), inputs: vec![input], info, answers, batching, slots })
    }

    /// Returns the answers to rows, which are sorted by descending length.
    fn call(&self, rows: &[Row<'_>]) -> Result<Vec<Vec<u8>>, String> {
        let mut slot = idle(&self.slots, 0);
        let RunnerSlot { runner, input, lengths } = &mut *slot;
        let (width, steps) = (runner.inputs(), rows[0].steps);
        lengths.clear();
        lengths.extend(rows.iter().map(|row| row.steps));
        // Data after the last step of a row may be left from earlier calls. The runner does not
        // read it.
        input.resize(steps * rows.len() * width, 0.0);
        for (at, row) in rows.iter().enumerate() {
            for (step, from) in row.sequence.chunks_exact(width).enumerate() {
                input[(step * rows.len() + at) * width..][..width].copy_from_slice(from);
            }
        }
        runner.run(input, lengths)?;
        let answer = |row: usize| {
            let mut bytes = Vec::new();
            runner.answer(row, &mut bytes);
            bytes
        };
        Ok((0..rows.len()).map(answer).collect())
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
        let mut answers: Vec<Result<Vec<Vec<u8>>, Refusal>> = Vec::new();
        let mut rows: Vec<Row<'_>> = Vec::new();
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
        // Longest rows first; rows of equal length in order of arrival.
        rows.sort_by_key(|row| Reverse(row.steps));
        let mut note = |row: &Row<'_>, answered: Result<Vec<u8>, String>| match (
            &mut answers[row.request],
            answered,
        ) {
            (Ok(all), Ok(bytes)) => all[row.row] = bytes,
            (answer @ Ok(_), Err(why)) => *answer = Err((Failure::Internal, why)),
            (Err(_), _) => {}
        };
        for part in rows.chunks(self.batching.largest.get()) {
            match self.call(part) {
                Ok(all) => part.iter().zip(all).for_each(|(row, bytes)| note(row, Ok(bytes))),
                // If a call fails, each of its rows is computed alone, so that one bad row does not
                // fail the others.
                Err(_) => part.iter().for_each(|row| {
                    let alone = self.call(std::slice::from_ref(row));
                    note(row, alone.map(|mut all| all.swap_remove(0)));
                }),
            }
        }
        let value = |rows: Vec<Vec<u8>>| {
            let elements = Elements::read(self.answers, &rows.concat());
            let elements = elements.expect("answers are of a type that is held");
            let count = rows.len();
            vec![Value { shape: vec![count, elements.len() / count.max(1)], elements }]
        };
        answers.into_iter().map(|answer| answer.map(value)).collect()
    }
}

impl fmt::Debug for RecurrentModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecurrentModel").field("name", &self.name).finish_non_exhaustive()
    }
}
