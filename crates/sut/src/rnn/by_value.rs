//! Recurrent networks that are asked by value.

use std::cmp::Reverse;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use dyno_loadgen::record::Failure;

use super::{Batching, Place, Runner, place, prepare};
use crate::engine::{About, Port};
use crate::infer::{Infer, Refusal, Value};
use crate::tensors::{Element, Elements, ModelInput};

/// A network whose sequences come with the requests: `[rows, steps, inputs]`, each row a
/// sequence. Requests of near lengths share calls, each row running for as many steps as it has.
pub struct ByValue {
    name: String,
    inputs: Vec<ModelInput>,
    about: About,
    /// Type of an answer's elements.
    answers: Element,
    batching: Batching,
    /// One for each call that may be in work.
    places: Vec<Arc<Mutex<Place>>>,
}

/// A row of a request.
struct Row<'a> {
    request: usize,
    row: usize,
    sequence: &'a [f32],
    steps: usize,
}

impl ByValue {
    /// Of these runners, which are one model on cores of their own.
    ///
    /// # Errors
    /// A runner is not ready for batches of the greatest size, in words.
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
            .ok_or_else(|| format!("answers are of type {element}, which is no tensor's"))?;
        let shape = std::iter::once(None).chain(shape).collect();
        let input = ModelInput {
            name: "sequence".into(),
            element: Element::F32,
            shape: vec![None, None, Some(width)],
        };
        let about = About {
            runtime: Some(format!("dyno-rnn {}", env!("CARGO_PKG_VERSION"))),
            inputs: vec![Port::from(&input)],
            outputs: vec![Port { name: answer, element, shape }],
            largest_batch: batching.largest.get(),
            ..About::default()
        };
        let mut places = Vec::new();
        for mut runner in runners {
            prepare(&mut *runner, batching.largest)?;
            places.push(place(runner));
        }
        Ok(Self { name: name.into(), inputs: vec![input], about, answers, batching, places })
    }

    /// A place that nobody uses, or the first one as soon as it is free.
    fn free(&self) -> MutexGuard<'_, Place> {
        for place in &self.places {
            match place.try_lock() {
                Ok(place) => return place,
                Err(TryLockError::Poisoned(place)) => return place.into_inner(),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        self.places[0].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answers to rows by falling length, one after the other.
    fn call(&self, rows: &[Row<'_>]) -> Result<Vec<Vec<u8>>, String> {
        let mut place = self.free();
        let Place { runner, input, lengths } = &mut *place;
        let (width, steps) = (runner.inputs(), rows[0].steps);
        lengths.clear();
        lengths.extend(rows.iter().map(|row| row.steps));
        // Behind the last step of a row may be what was there before: it is not looked at.
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

impl Infer for ByValue {
    fn name(&self) -> &str {
        &self.name
    }

    fn inputs(&self) -> &[ModelInput] {
        &self.inputs
    }

    fn about(&self) -> About {
        self.about.clone()
    }

    fn class(&self, request: &[Value]) -> usize {
        self.batching.near.class(request[0].shape[1])
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
        // The longest first; of equal ones in the order of their arrival.
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
                // One row that cannot run takes no other with it.
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

impl fmt::Debug for ByValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByValue").field("name", &self.name).finish_non_exhaustive()
    }
}
