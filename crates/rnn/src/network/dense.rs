//! Dense and highway layers as programs: one product over all steps and rows, whose sums become
//! outputs while they are in the L1 cache.

use std::sync::Arc;

use dyno_kernels::{
    Buffer, BufferKind, Cadence, Call, Epilogue, Execution, GeneralCell, Isa, LANES, Loop,
    MAX_VECTORS, Panels, Phase, Place, Precision, Product, Program, ProgramError, Rows, RunError,
    SlotIndex, Slots, Stage, Tanh, Team, dots,
};

use super::view::View;
use super::{DenseLayer, HighwayLayer};

/// Rows that are multiplied at once; in fewer bits they fit in the L2 cache.
const CHUNK: usize = 256;
/// Layers with fewer outputs would leave most of a vector empty.
const FEW: usize = LANES / 2;

/// A dense or highway layer, ready to run.
pub(super) enum Sums {
    /// With packed panels.
    Packed(Box<Execution>),
    /// Output by output, in `f32`.
    Few(Arc<DenseLayer>, Isa),
}

/// Settings of a product.
#[derive(Clone, Copy)]
pub(super) struct ProductSettings {
    pub precision: Precision,
    pub tanh: Tanh,
    pub isa: Isa,
    pub workers: usize,
}

impl Sums {
    pub(super) fn dense(
        dense: &Arc<DenseLayer>,
        settings: ProductSettings,
    ) -> Result<Self, ProgramError> {
        if dense.outputs() < FEW {
            return Ok(Self::Few(Arc::clone(dense), settings.isa));
        }
        // As many vectors per panel as leave a panel for each worker.
        let groups = dense.outputs().div_ceil(LANES);
        let vectors = (groups / settings.workers.max(1)).clamp(1, MAX_VECTORS);
        let zeros = vec![0.0; dense.inputs];
        let units = groups.div_ceil(vectors) * LANES;
        let output = |vector, unit| (unit / LANES * vectors + vector) * LANES + unit % LANES;
        let panels =
            Panels::pack(settings.precision, vectors, units, dense.inputs, |vector, unit| {
                dense.weights.chunks(dense.inputs).nth(output(vector, unit)).unwrap_or(&zeros)
            });
        let mut bias = dense.bias.clone();
        bias.resize(panels.panels() * vectors * LANES, 0.0);
        let to = place(1);
        let outputs = dense.outputs();
        let epilogue = Epilogue::Store { to, activation: dense.activation, outputs };
        let execution = execution(settings, panels, bias, dense.outputs(), &epilogue)?;
        Ok(Self::Packed(Box::new(execution)))
    }

    pub(super) fn highway(
        highway: &HighwayLayer,
        settings: ProductSettings,
    ) -> Result<Self, ProgramError> {
        let HighwayLayer { gate, candidate } = highway;
        let width = gate.outputs();
        let part = |vector: usize| if vector == 0 { gate } else { candidate };
        let panels = Panels::pack(settings.precision, 2, width, width, |vector, unit| {
            &part(vector).weights[unit * width..][..width]
        });
        let number = |at: usize| {
            let unit = at / (2 * LANES) * LANES + at % LANES;
            part(at / LANES % 2).bias.get(unit).copied().unwrap_or(0.0)
        };
        let bias = (0..panels.panels() * 2 * LANES).map(number).collect();
        let epilogue =
            Epilogue::General(Arc::new(GeneralCell::Highway(dyno_kernels::HighwayCell {
                x: place(0),
                to: place(1),
                outputs: width,
                activation: candidate.activation,
                tanh: settings.tanh,
            })));
        Ok(Self::Packed(Box::new(execution(settings, panels, bias, width, &epilogue)?)))
    }

    /// Runs the layer over all steps and rows of the input.
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
                        *sum = dense.activation.apply_scalar(*sum + bias);
                    }
                }
                Ok(())
            }
        }
    }
}

fn place(buffer: usize) -> Place {
    Place { buffer, at: SlotIndex::Step, column: 0 }
}

/// Returns a program whose workers divide the panels; each row is a step of its only loop.
fn execution(
    settings: ProductSettings,
    panels: Panels,
    bias: Vec<f32>,
    outputs: usize,
    epilogue: &Epilogue,
) -> Result<Execution, ProgramError> {
    let buffer = |kind, columns| Buffer { kind, slots: Slots::Length(0), rows: 1, columns };
    let buffers =
        vec![buffer(BufferKind::Input(0), panels.k()), buffer(BufferKind::Output(0), outputs)];
    let (panels, bias): (Arc<Panels>, Arc<[f32]>) = (panels.into(), bias.into());
    let workers = settings.workers.clamp(1, panels.panels());
    let work = |worker: usize| {
        vec![Product {
            a: place(0),
            holds: Precision::F32,
            weights: Arc::clone(&panels),
            panels: panels.panels() * worker / workers..panels.panels() * (worker + 1) / workers,
            rows: 0..1,
            bias: Some(Arc::clone(&bias)),
            scale: 1.0,
            reads_state: false,
            epilogue: epilogue.clone(),
        }]
    };
    let phase = Phase { work: (0..workers).map(work).collect(), has_barrier: false };
    let stages = vec![Stage { cadence: Cadence::Chunk, phases: vec![phase] }];
    let looped = Loop { length: 0, chunk: CHUNK, stages };
    Ok(Execution::new(Program::new(workers, buffers, vec![looped])?, settings.isa))
}
