//! Stacked recurrent layers, run one after the other or as a wavefront.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dyno_kernels::Team;

use super::TensorShape;
use super::engine::{NetworkEngineError, Setup};
use super::view::View;
use crate::layer::{Directions, Layer};
use crate::plan::{Choice, PackedWeights};
use crate::sequence::{Sequence, SequenceError};
use crate::tuner::{Constraints, Goal, RankedChoice, rank, tune};

/// How stacked layers share a team. Outputs are equal up to rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackSchedule {
    /// All workers run the first layer, then the next, and so on.
    InTurn,
    /// Each layer has its own worker and is `steps` steps behind the layer that it reads. Workers
    /// synchronize once per `steps` steps, and the caches of their cores keep the weights of few
    /// layers. Applies to forward layers and rows of one length only; otherwise layers run in turn.
    Wavefront {
        /// Steps per wave, >= 1.
        steps: usize,
    },
}

/// Packed weights by layer; nodes that share a layer share its weights.
pub(super) type Packs = Vec<(Arc<Layer>, Vec<PackedWeights>)>;

/// Stacked layers, ready to run.
pub(super) struct Recurrent {
    layers: Vec<Sequence>,
    /// Outputs of all layers except the last.
    between: Vec<Vec<f32>>,
    choices: Vec<Choice>,
    wave: Option<Wave>,
}

impl Recurrent {
    pub(super) fn new(
        layers: &[Arc<Layer>],
        shape: TensorShape,
        setup: &Setup,
        packs: &mut Packs,
        team: &mut Team,
    ) -> Result<Self, NetworkEngineError> {
        let batch = shape.batch;
        let isa = setup.isa;
        let mut ready = Vec::new();
        let mut choices = Vec::new();
        let mut ns = 0.0;
        for layer in layers {
            let goal = setup.goal(layer, shape, team.workers());
            let packed = packed(&goal, layer, packs);
            let ranked = tune(&goal, packed, &setup.machine, isa, team, setup.effort)?;
            let RankedChoice { choice, predicted, measured_ns } = ranked[0];
            ns += measured_ns.unwrap_or(predicted.ns());
            ready.push(Sequence::from_packed(layer, packed, batch, &choice, isa)?);
            choices.push(choice);
        }
        let widths = layers[..layers.len() - 1].iter().map(|layer| layer.outputs());
        let between = widths.map(|width| vec![0.0; shape.steps * batch * width]).collect();
        let wave = match setup.stacked {
            Some(StackSchedule::InTurn) => None,
            Some(StackSchedule::Wavefront { steps }) => Some(steps.max(1)),
            None => wave_steps(layers, shape, setup, team.workers(), ns),
        };
        let wave = wave.filter(|_| can_be_wave(layers));
        let wave = wave.map(|steps| Wave::new(layers, shape, steps, setup, packs)).transpose()?;
        Ok(Self { layers: ready, between, choices, wave })
    }

    /// Returns the choice of each layer, and how they share the team.
    pub(super) fn schedule(&self) -> (&[Choice], StackSchedule) {
        let wave = self.wave.as_ref().map(|wave| StackSchedule::Wavefront { steps: wave.steps });
        (&self.choices, wave.unwrap_or(StackSchedule::InTurn))
    }

    pub(super) fn run(
        &mut self,
        team: &mut Team,
        input: View<'_>,
        output: &mut [f32],
    ) -> Result<(), SequenceError> {
        let is_full = input.is_full();
        if let (Some(wave), true) = (&mut self.wave, is_full) {
            return wave.run(team, input, output);
        }
        let mut run = |layer: &mut Sequence, from: &[f32], to: &mut [f32]| {
            if is_full {
                layer.run(team, from, to)
            } else {
                layer.run_lengths(team, from, to, input.lengths)
            }
        };
        let rows = input.steps * input.batch;
        let mut from: &[f32] = input.numbers;
        let mut between = self.between.iter_mut();
        let mut output = Some(output);
        for layer in &mut self.layers {
            let to = match between.next() {
                Some(numbers) => &mut numbers[..rows * layer.outputs()],
                None => output.take().unwrap_or_default(),
            };
            run(layer, from, to)?;
            from = to;
        }
        Ok(())
    }
}

fn packed<'a>(goal: &Goal<'_>, layer: &Arc<Layer>, packs: &'a mut Packs) -> &'a [PackedWeights] {
    let known = packs.iter().position(|(known, _)| Arc::ptr_eq(known, layer));
    let at = known.unwrap_or_else(|| {
        packs.push((Arc::clone(layer), goal.pack()));
        packs.len() - 1
    });
    &packs[at].1
}

/// Whether each layer needs only past outputs of the layer below.
fn can_be_wave(layers: &[Arc<Layer>]) -> bool {
    layers.len() > 1 && layers.iter().all(|layer| layer.directions() == Directions::Forward)
}

/// Returns the steps of the best wavefront, if it is predicted to take less than `ns` nanoseconds.
fn wave_steps(
    layers: &[Arc<Layer>],
    shape: TensorShape,
    setup: &Setup,
    workers: usize,
    ns: f64,
) -> Option<usize> {
    if workers < 2 || !can_be_wave(layers) {
        return None;
    }
    let time = |steps: usize| {
        let time_of_layer = |layer: &Arc<Layer>| {
            let goal = setup.goal(layer, TensorShape { steps, ..shape }, 1);
            rank(&goal, &setup.machine).first().map_or(f64::INFINITY, |one| one.predicted.ns())
        };
        let mut shares = vec![0.0; workers];
        for (index, layer) in layers.iter().enumerate() {
            shares[index % workers] += time_of_layer(layer);
        }
        let longest = shares.into_iter().fold(0.0, f64::max);
        let waves = shape.steps.div_ceil(steps) + layers.len() - 1;
        waves as f64 * (longest + setup.machine.barriers.call)
    };
    let steps = [4, 8, 16, 32, 64].into_iter().filter(|steps| 2 * steps <= shape.steps);
    let timed = steps.map(|steps| (time(steps), steps));
    let best = timed.min_by(|a, b| a.0.total_cmp(&b.0));
    best.filter(|(time, _)| *time < ns).map(|(_, steps)| steps)
}

/// A wavefront: each layer runs on one worker, one chunk of steps behind the layer below.
struct Wave {
    steps: usize,
    stages: Vec<Mutex<Stage>>,
    /// Outputs of all layers except the last: the chunk to read and the chunk to write.
    handed: Vec<[Mutex<Vec<f32>>; 2]>,
}

/// A layer of a wavefront. Its lock never waits, since one worker runs the layer in each wave.
struct Stage {
    sequence: Sequence,
    alone: Team,
    inputs: usize,
}

impl Wave {
    fn new(
        layers: &[Arc<Layer>],
        shape: TensorShape,
        steps: usize,
        setup: &Setup,
        packs: &mut Packs,
    ) -> Result<Self, NetworkEngineError> {
        let stage = |layer: &Arc<Layer>| -> Result<_, NetworkEngineError> {
            let mut goal = setup.goal(layer, TensorShape { steps, ..shape }, 1);
            goal.forced = Constraints { chunk: goal.forced.chunk, ..Constraints::default() };
            let choice = rank(&goal, &setup.machine)
                .first()
                .map_or(Choice { chunk: steps, ..goal.base }, |best| best.choice);
            let packed = packed(&goal, layer, packs);
            let sequence = Sequence::from_packed(layer, packed, shape.batch, &choice, setup.isa)?;
            Ok(Mutex::new(Stage { sequence, alone: Team::with_workers(1), inputs: layer.inputs() }))
        };
        let stages = layers.iter().map(stage).collect::<Result<_, _>>()?;
        let chunk = |layer: &Arc<Layer>| {
            let numbers = || Mutex::new(vec![0.0; steps * shape.batch * layer.outputs()]);
            [numbers(), numbers()]
        };
        let handed = layers[..layers.len() - 1].iter().map(chunk).collect();
        Ok(Self { steps, stages, handed })
    }

    fn run(
        &mut self,
        team: &mut Team,
        input: View<'_>,
        output: &mut [f32],
    ) -> Result<(), SequenceError> {
        let workers = team.workers();
        let layers = self.stages.len();
        let chunks = input.steps.div_ceil(self.steps);
        let output = Mutex::new(output);
        let failed = Mutex::new(Ok(()));
        for wave in 0..chunks + layers - 1 {
            team.run(&|worker| {
                for layer in (worker..layers).step_by(workers) {
                    let chunk = wave.checked_sub(layer).filter(|chunk| *chunk < chunks);
                    let result = chunk.map_or(Ok(()), |c| self.piece(layer, c, input, &output));
                    if result.is_err() {
                        *locked(&failed) = result;
                    }
                }
            });
        }
        failed.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a chunk of steps of a layer.
    fn piece(
        &self,
        layer: usize,
        chunk: usize,
        input: View<'_>,
        output: &Mutex<&mut [f32]>,
    ) -> Result<(), SequenceError> {
        let mut stage = locked(&self.stages[layer]);
        let Stage { sequence, alone, inputs } = &mut *stage;
        let outputs = sequence.outputs();
        let first = chunk * self.steps;
        let steps = self.steps.min(input.steps - first);
        let numbers = |first: usize, width: usize| -> Range<usize> {
            let start = first * input.batch * width;
            start..start + steps * input.batch * width
        };
        let below = layer.checked_sub(1).map(|below| locked(&self.handed[below][chunk % 2]));
        let from = match &below {
            Some(handed) => &handed[numbers(0, *inputs)],
            None => &input.numbers[numbers(first, *inputs)],
        };
        let mut run = |to: &mut [f32]| {
            if chunk == 0 {
                sequence.run(alone, from, to)
            } else {
                sequence.run_on(alone, from, to)
            }
        };
        match self.handed.get(layer) {
            Some(handed) => run(&mut locked(&handed[chunk % 2])[numbers(0, outputs)]),
            None => run(&mut locked(output)[numbers(first, outputs)]),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
