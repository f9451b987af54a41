//! Recurrent layers on top of one another: one after the other, or as a wavefront.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dyno_kernels::Team;

use super::Shape;
use super::engine::{EngineError, Setup};
use super::view::View;
use crate::layer::{Directions, Layer};
use crate::plan::{Choice, Packed};
use crate::sequence::{Sequence, SequenceError};
use crate::tuner::{Forced, Goal, Ranked, rank, tune};

/// How layers on top of one another share a team. Outputs are the same up to rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stacked {
    /// All workers run the first layer, then the next.
    InTurn,
    /// Each layer has a worker of its own, and is so many steps behind the layer that it reads: workers
    /// meet once in these steps, and their cores' caches keep the weights of few layers. Only of layers
    /// that read forward, for rows of one length; others run in turn.
    Wavefront {
        /// 1 or more.
        steps: usize,
    },
}

/// Weights that were packed for a layer: nodes that share the layer share them.
pub(super) type Packs = Vec<(Arc<Layer>, Vec<Packed>)>;

/// Layers ready to run.
pub(super) struct Recurrent {
    layers: Vec<Sequence>,
    /// Outputs of all layers but the last.
    between: Vec<Vec<f32>>,
    choices: Vec<Choice>,
    wave: Option<Wave>,
}

impl Recurrent {
    pub(super) fn new(
        layers: &[Arc<Layer>],
        shape: Shape,
        setup: &Setup,
        packs: &mut Packs,
        team: &mut Team,
    ) -> Result<Self, EngineError> {
        let (batch, isa) = (shape.batch, setup.isa);
        let (mut ready, mut choices, mut ns) = (Vec::new(), Vec::new(), 0.0);
        for layer in layers {
            let goal = setup.goal(layer, shape, team.workers());
            let packed = packed(&goal, layer, packs);
            let ranked = tune(&goal, packed, &setup.machine, isa, team, setup.effort)?;
            let Ranked { choice, predicted, measured_ns } = ranked[0];
            ns += measured_ns.unwrap_or(predicted.ns());
            ready.push(Sequence::of_packed(layer, packed, batch, &choice, isa)?);
            choices.push(choice);
        }
        let widths = layers[..layers.len() - 1].iter().map(|layer| layer.outputs());
        let between = widths.map(|width| vec![0.0; shape.steps * batch * width]).collect();
        let wave = match setup.stacked {
            Some(Stacked::InTurn) => None,
            Some(Stacked::Wavefront { steps }) => Some(steps.max(1)),
            None => wave_steps(layers, shape, setup, team.workers(), ns),
        };
        let wave = wave.filter(|_| can_be_wave(layers));
        let wave = wave.map(|steps| Wave::new(layers, shape, steps, setup, packs)).transpose()?;
        Ok(Self { layers: ready, between, choices, wave })
    }

    /// How each layer is run, and how they share the team.
    pub(super) fn schedule(&self) -> (&[Choice], Stacked) {
        let wave = self.wave.as_ref().map(|wave| Stacked::Wavefront { steps: wave.steps });
        (&self.choices, wave.unwrap_or(Stacked::InTurn))
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

fn packed<'a>(goal: &Goal<'_>, layer: &Arc<Layer>, packs: &'a mut Packs) -> &'a [Packed] {
    let known = packs.iter().position(|(known, _)| Arc::ptr_eq(known, layer));
    let at = known.unwrap_or_else(|| {
        packs.push((Arc::clone(layer), goal.pack()));
        packs.len() - 1
    });
    &packs[at].1
}

/// Whether a layer needs of the one below only what that has put out already.
fn can_be_wave(layers: &[Arc<Layer>]) -> bool {
    layers.len() > 1 && layers.iter().all(|layer| layer.directions() == Directions::Forward)
}

/// Steps of a wave, where one is predicted to be faster than `ns` nanoseconds.
fn wave_steps(
    layers: &[Arc<Layer>],
    shape: Shape,
    setup: &Setup,
    workers: usize,
    ns: f64,
) -> Option<usize> {
    if workers < 2 || !can_be_wave(layers) {
        return None;
    }
    let time = |steps: usize| {
        let of = |layer: &Arc<Layer>| {
            let goal = setup.goal(layer, Shape { steps, ..shape }, 1);
            rank(&goal, &setup.machine).first().map_or(f64::INFINITY, |one| one.predicted.ns())
        };
        let mut shares = vec![0.0; workers];
        for (index, layer) in layers.iter().enumerate() {
            shares[index % workers] += of(layer);
        }
        let longest = shares.into_iter().fold(0.0, f64::max);
        let waves = shape.steps.div_ceil(steps) + layers.len() - 1;
        waves as f64 * (longest + setup.machine.meetings.call)
    };
    let steps = [4, 8, 16, 32, 64].into_iter().filter(|steps| 2 * steps <= shape.steps);
    let timed = steps.map(|steps| (time(steps), steps));
    let best = timed.min_by(|a, b| a.0.total_cmp(&b.0));
    best.filter(|(time, _)| *time < ns).map(|(_, steps)| steps)
}

/// Layers that each run on one worker, one chunk of steps behind the layer below.
struct Wave {
    steps: usize,
    stages: Vec<Mutex<Stage>>,
    /// Outputs of all layers but the last: of the chunk that is read, and of the one that is made.
    handed: Vec<[Mutex<Vec<f32>>; 2]>,
}

/// A layer of a wave. In each wave one worker has its lock; nobody waits.
struct Stage {
    sequence: Sequence,
    alone: Team,
    inputs: usize,
}

impl Wave {
    fn new(
        layers: &[Arc<Layer>],
        shape: Shape,
        steps: usize,
        setup: &Setup,
        packs: &mut Packs,
    ) -> Result<Self, EngineError> {
        let stage = |layer: &Arc<Layer>| -> Result<_, EngineError> {
            let mut goal = setup.goal(layer, Shape { steps, ..shape }, 1);
            goal.forced = Forced { chunk: goal.forced.chunk, ..Forced::default() };
            let choice = rank(&goal, &setup.machine)
                .first()
                .map_or(Choice { chunk: steps, ..goal.base }, |best| best.choice);
            let packed = packed(&goal, layer, packs);
            let sequence = Sequence::of_packed(layer, packed, shape.batch, &choice, setup.isa)?;
            Ok(Mutex::new(Stage { sequence, alone: Team::of(1), inputs: layer.inputs() }))
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
        let (workers, layers) = (team.workers(), self.stages.len());
        let chunks = input.steps.div_ceil(self.steps);
        let (output, failed) = (Mutex::new(output), Mutex::new(Ok(())));
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

    /// A chunk of steps of a layer.
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
