//! Layers of sums and highway layers as programs: one product, all steps and rows at once, whose sums
//! become outputs while they are in the first cache.

use std::sync::Arc;

use dyno_kernels::{
    At, Buffer, Call, Every, Execution, General, Isa, Kind, LANES, Loop, MAX_VECTORS, Panels,
    Phase, Place, Precision, Product, Program, ProgramError, Rows, RunError, Slots, Stage, Tanh,
    Team, Then, dots,
};

use super::view::View;
use super::{Dense, Highway};

/// Rows that are multiplied at once: in fewer bits they stay in the second cache.
const CHUNK: usize = 256;
/// With fewer outputs than this most of a vector would be nothing.
const FEW: usize = LANES / 2;

/// A layer ready to run.
pub(super) enum Sums {
    /// By panels.
    Packed(Box<Execution>),
    /// Output by output, in `f32`.
    Few(Arc<Dense>, Isa),
}

/// How a layer's numbers are held and who computes them.
#[derive(Clone, Copy)]
pub(super) struct How {
    pub precision: Precision,
    pub tanh: Tanh,
    pub isa: Isa,
    pub workers: usize,
}

impl Sums {
    pub(super) fn dense(dense: &Arc<Dense>, how: How) -> Result<Self, ProgramError> {
        if dense.outputs() < FEW {
            return Ok(Self::Few(Arc::clone(dense), how.isa));
        }
        // As many vectors as leave a panel for each worker.
        let groups = dense.outputs().div_ceil(LANES);
        let vectors = (groups / how.workers.max(1)).clamp(1, MAX_VECTORS);
        let zeros = vec![0.0; dense.inputs];
        let units = groups.div_ceil(vectors) * LANES;
        let output = |vector, unit| (unit / LANES * vectors + vector) * LANES + unit % LANES;
        let panels = Panels::pack(how.precision, vectors, units, dense.inputs, |vector, unit| {
            dense.weights.chunks(dense.inputs).nth(output(vector, unit)).unwrap_or(&zeros)
        });
        let mut bias = dense.bias.clone();
        bias.resize(panels.panels() * vectors * LANES, 0.0);
        let (to, outputs) = (place(1), dense.outputs());
        let then = Then::Store { to, activation: dense.activation, outputs };
        let execution = execution(how, panels, bias, dense.outputs(), &then)?;
        Ok(Self::Packed(Box::new(execution)))
    }

    pub(super) fn highway(highway: &Highway, how: How) -> Result<Self, ProgramError> {
        let Highway { gate, candidate } = highway;
        let width = gate.outputs();
        let of = |vector: usize| if vector == 0 { gate } else { candidate };
        let panels = Panels::pack(how.precision, 2, width, width, |vector, unit| {
            &of(vector).weights[unit * width..][..width]
        });
        let number = |at: usize| {
            let unit = at / (2 * LANES) * LANES + at % LANES;
            of(at / LANES % 2).bias.get(unit).copied().unwrap_or(0.0)
        };
        let bias = (0..panels.panels() * 2 * LANES).map(number).collect();
        let then = Then::General(Arc::new(General::Highway(dyno_kernels::Highway {
            x: place(0),
            to: place(1),
            outputs: width,
            activation: candidate.activation,
            tanh: how.tanh,
        })));
        Ok(Self::Packed(Box::new(execution(how, panels, bias, width, &then)?)))
    }

    /// Runs all steps and rows of the input.
    pub(super) fn run(
        &mut self,
        team: &mut Team,
        input: View<'_>,
        output: &mut [f32],
    ) -> Result<(), RunError> {
        match self {
            Self::Packed(execution) => {
                let lengths: &[usize] = &[input.steps * input.batch];
                let (inputs, outputs): (&[&[f32]], &mut [&mut [f32]]) =
                    (&[input.numbers], &mut [output]);
                execution.run(team, Call { lengths, inputs, outputs, ..Call::default() })
            }
            Self::Few(dense, isa) => {
                let rows = |numbers, width| Rows::new(numbers, numbers.len() / width, width, width);
                let x = rows(input.numbers, dense.inputs);
                dots(*isa, x, rows(&dense.weights, dense.inputs), output);
                for row in output.chunks_mut(dense.outputs()) {
                    for (sum, bias) in row.iter_mut().zip(&dense.bias) {
                        *sum = dense.activation.of(*sum + bias);
                    }
                }
                Ok(())
            }
        }
    }
}

fn place(buffer: usize) -> Place {
    Place { buffer, at: At::Step, column: 0 }
}

/// A program whose workers share the panels: each row is a step of its one loop.
fn execution(
    how: How,
    panels: Panels,
    bias: Vec<f32>,
    outputs: usize,
    then: &Then,
) -> Result<Execution, ProgramError> {
    let buffer = |kind, columns| Buffer { kind, slots: Slots::Length(0), rows: 1, columns };
    let buffers = vec![buffer(Kind::Input(0), panels.k()), buffer(Kind::Output(0), outputs)];
    let (panels, bias): (Arc<Panels>, Arc<[f32]>) = (panels.into(), bias.into());
    let workers = how.workers.clamp(1, panels.panels());
    let work = |worker: usize| {
        vec![Product {
            a: place(0),
            holds: Precision::F32,
            weights: Arc::clone(&panels),
            panels: panels.panels() * worker / workers..panels.panels() * (worker + 1) / workers,
            rows: 0..1,
            bias: Some(Arc::clone(&bias)),
            scale: 1.0,
            of_state: false,
            then: then.clone(),
        }]
    };
    let phase = Phase { work: (0..workers).map(work).collect(), meets: false };
    let stages = vec![Stage { every: Every::Chunk, phases: vec![phase] }];
    let looped = Loop { length: 0, chunk: CHUNK, stages };
    Ok(Execution::new(Program::new(workers, buffers, vec![looped])?, how.isa))
}
