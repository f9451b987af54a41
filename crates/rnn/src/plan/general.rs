//! Plans of layers whose cells have options.
//!
//! They differ from other plans in three ways: general cells turn sums into states, a step may have
//! two dependent products (with a barrier between them if workers divide units), and workers convert
//! the left operands of products in fewer bits themselves.

use std::ops::Range;
use std::sync::Arc;

use dyno_kernels::{
    Activation, BlendCell, Buffer, BufferKind, Cadence, Epilogue, Gates, GeneralCell, GeneralGru,
    GeneralLstm, GeneralRnn, HiddenState, LANES, Loop, Panels, Phase, Place, Precision, Product,
    Program, ProgramError, ResetCell, SlotIndex, Slots, Stage, Work,
};

use super::{Choice, PackedWeights, Plan, StatePart, share};
use crate::layer::{Cell, Layer};

/// Data for the options of a direction, besides its packed weights.
#[derive(Clone, Debug)]
pub(super) struct Extras {
    activations: [Activation; 3],
    /// Panels x 3 x 16 numbers.
    peepholes: Option<Arc<[f32]>>,
    projection: Option<Arc<Panels>>,
    candidate: Option<Candidate>,
}

/// Gate n of a GRU that resets its state before the product.
#[derive(Clone, Debug)]
struct Candidate {
    input: Arc<Panels>,
    state: Arc<Panels>,
    /// Bias of the input plus bias of the state.
    bias: Arc<[f32]>,
}

impl Extras {
    pub(super) fn new(layer: &Layer, direction: usize, precision: Precision) -> Self {
        let units = layer.units();
        let options = layer.options();
        let peepholes = options.peepholes.get(direction).map(|weights| {
            let number = |at: usize| {
                let panel = at / (3 * LANES);
                let which = at / LANES % 3;
                let lane = at % LANES;
                let unit = panel * LANES + lane;
                if unit < units { weights[which * units + unit] } else { 0.0 }
            };
            (0..units.div_ceil(LANES) * 3 * LANES).map(number).collect()
        });
        let matrix =
            |k: usize, weights: &[f32]| Arc::new(Panels::pack_matrix(precision, k, weights));
        let candidate = options.reset_first.then(|| {
            let weights = &layer.weights()[direction];
            let input = matrix(layer.inputs(), &weights.input[2 * units * layer.inputs()..]);
            let state = matrix(units, &weights.state[2 * units * units..]);
            let both = weights.input_bias[2 * units..].iter().zip(&weights.state_bias[2 * units..]);
            let mut bias: Vec<f32> = both.map(|(input, state)| input + state).collect();
            bias.resize(input.panels() * input.vectors() * LANES, 0.0);
            Candidate { input, state, bias: bias.into() }
        });
        Self {
            activations: layer.activations(direction),
            peepholes,
            projection: options.projections.get(direction).map(|weights| matrix(units, weights)),
            candidate,
        }
    }
}

/// Builds the program of a layer with options; see [`super::build`].
pub(super) fn build(
    layer: &Layer,
    packed: &[PackedWeights],
    batch: usize,
    choice: &Choice,
) -> Result<Plan, ProgramError> {
    let mut buffers = vec![
        Buffer {
            kind: BufferKind::Input(0),
            slots: Slots::Length(0),
            rows: batch,
            columns: layer.inputs(),
        },
        Buffer {
            kind: BufferKind::Output(0),
            slots: Slots::Length(0),
            rows: batch,
            columns: layer.outputs(),
        },
    ];
    let mut states = Vec::new();
    let [mut of_input, mut first, mut second] =
        [(); 3].map(|()| vec![Work::new(); choice.workers()]);
    for (direction, packed) in packed.iter().enumerate().take(layer.directions().count()) {
        let Some(extras) = &packed.extras else { continue };
        let places = places(layer, packed, extras, batch, choice, &mut buffers);
        states.push(vec![StatePart {
            rows: 0..batch,
            units: 0..places.cell.map_or(0, |cell| buffers[cell].columns),
            hidden: places.hidden,
            cell: places.cell,
            narrow: None,
        }]);
        let time =
            if layer.directions().is_back(direction) { SlotIndex::Back } else { SlotIndex::Step };
        for worker in 0..choice.rows * choice.units {
            let rows = share(batch, worker / choice.units, choice.rows);
            let of_units = (worker % choice.units, choice.units);
            let part =
                Part { layer, packed, extras, places, time, direction, rows, of_units, choice };
            let worker = direction % choice.sides * choice.rows * choice.units + worker;
            of_input[worker].extend(part.inputs());
            first[worker].push(part.first());
            second[worker].extend(part.second());
        }
    }
    let has_barrier = choice.units > 1;
    let phase = |work: Vec<Work>| Phase { work, has_barrier };
    let mut stages = Vec::new();
    if choice.chunk <= 1 {
        first =
            of_input.into_iter().zip(first).map(|(input, state)| [input, state].concat()).collect();
    } else {
        stages.push(Stage { cadence: Cadence::Chunk, phases: vec![phase(of_input)] });
    }
    let mut phases = vec![phase(first)];
    if second.iter().any(|work| !work.is_empty()) {
        phases.push(phase(second));
    }
    stages.push(Stage { cadence: Cadence::Step, phases });
    let looped = Loop { length: 0, chunk: choice.chunk.max(1), stages };
    Ok(Plan { program: Program::new(choice.workers(), buffers, vec![looped])?, states })
}

/// Buffers of a direction.
#[derive(Clone, Copy)]
struct Places {
    /// Products with the input for each step of a chunk: of the first product of a step, and of n.
    input: [usize; 2],
    hidden: usize,
    cell: Option<usize>,
    /// Input of a step's second product: r times the state, or the state to project.
    between: usize,
    /// z, for the second product.
    update: usize,
}

fn places(
    layer: &Layer,
    packed: &PackedWeights,
    extras: &Extras,
    batch: usize,
    choice: &Choice,
    buffers: &mut Vec<Buffer>,
) -> Places {
    let mut inside = |slots, columns| {
        buffers.push(Buffer {
            kind: BufferKind::Inside,
            slots: Slots::Count(slots),
            rows: batch,
            columns,
        });
        buffers.len() - 1
    };
    let sums = |panels: &Panels| panels.panels() * panels.vectors() * LANES;
    // Panels of a matrix have 64 outputs, those of gates sixteen.
    let wide = |numbers: usize| numbers.next_multiple_of(4 * LANES);
    let units = wide(layer.units());
    let width = wide(layer.width());
    let chunk = choice.chunk.max(1);
    let own = sums(&packed.input);
    let candidate = extras.candidate.as_ref();
    let two = candidate.is_some() || extras.projection.is_some();
    Places {
        input: [
            inside(chunk, own),
            inside(chunk, candidate.map_or(0, |candidate| sums(&candidate.input))),
        ],
        hidden: inside(2, width),
        cell: (layer.cell() == Cell::Lstm).then(|| inside(1, units)),
        between: inside(1, if two { units } else { 0 }),
        update: inside(1, if candidate.is_some() { units } else { 0 }),
    }
}

/// One worker's part of a direction.
struct Part<'a> {
    layer: &'a Layer,
    packed: &'a PackedWeights,
    extras: &'a Extras,
    places: Places,
    time: SlotIndex,
    direction: usize,
    rows: Range<usize>,
    /// Index and count of the parts that divide the units.
    of_units: (usize, usize),
    choice: &'a Choice,
}

fn at(buffer: usize, at: SlotIndex) -> Place {
    Place { buffer, at, column: 0 }
}

const NOW: SlotIndex = SlotIndex::Turn { by: 0 };
const NEXT: SlotIndex = SlotIndex::Turn { by: 1 };
const ONLY: SlotIndex = SlotIndex::Fixed(0);

impl Part<'_> {
    fn product(
        &self,
        a: Place,
        weights: &Arc<Panels>,
        bias: Option<&Arc<[f32]>>,
        epilogue: Epilogue,
    ) -> Product {
        Product {
            a,
            holds: Precision::F32,
            weights: Arc::clone(weights),
            panels: share(weights.panels(), self.of_units.0, self.of_units.1),
            rows: self.rows.clone(),
            bias: bias.map(Arc::clone),
            scale: 1.0,
            reads_state: a.buffer == self.places.hidden,
            epilogue,
        }
    }

    fn inputs(&self) -> Vec<Product> {
        let own = Some((&self.packed.input, &self.packed.input_bias));
        let candidate =
            self.extras.candidate.as_ref().map(|candidate| (&candidate.input, &candidate.bias));
        let products = [own, candidate].into_iter().flatten().zip(self.places.input);
        let products = products.map(|((weights, bias), to)| {
            let epilogue = Epilogue::Store {
                to: at(to, NOW),
                activation: Activation::Identity,
                outputs: weights.panels() * weights.vectors() * LANES,
            };
            self.product(at(0, self.time), weights, Some(bias), epilogue)
        });
        products.collect()
    }

    fn gates(&self) -> Gates {
        Gates {
            activations: self.extras.activations,
            clip: self.layer.options().clip,
            tanh: self.choice.tanh,
        }
    }

    /// Destination of the step's new state.
    fn hidden(&self) -> HiddenState {
        let column = self.direction * self.layer.width();
        HiddenState {
            state: at(self.places.hidden, NEXT),
            narrow: None,
            output: Some(Place { buffer: 1, at: self.time, column }),
            units: self.layer.width(),
        }
    }

    /// Product with the state.
    fn first(&self) -> Product {
        let places = self.places;
        let gates = self.gates();
        let last = at(places.hidden, NOW);
        let input = at(places.input[0], NOW);
        let cell = match (self.layer.cell(), places.cell) {
            (Cell::Lstm, Some(cell)) => {
                let projected = HiddenState {
                    state: at(places.between, ONLY),
                    narrow: None,
                    output: None,
                    units: self.layer.units(),
                };
                let is_projected = self.extras.projection.is_some();
                GeneralCell::Lstm(GeneralLstm {
                    input,
                    cell: at(cell, ONLY),
                    hidden: if is_projected { projected } else { self.hidden() },
                    gates,
                    peepholes: self.extras.peepholes.clone(),
                    coupled: self.layer.options().coupled,
                })
            }
            (Cell::Gru, _) if self.extras.candidate.is_some() => GeneralCell::Reset(ResetCell {
                input,
                last,
                update: at(places.update, ONLY),
                reset: at(places.between, ONLY),
                gates,
            }),
            (Cell::Gru, _) => {
                GeneralCell::Gru(GeneralGru { input, last, hidden: self.hidden(), gates })
            }
            _ => GeneralCell::Rnn(GeneralRnn { input: Some(input), hidden: self.hidden(), gates }),
        };
        let bias = self.packed.state_bias.as_ref();
        self.product(last, &self.packed.state, bias, Epilogue::General(Arc::new(cell)))
    }

    /// Product with the result of the first product, if there is one.
    fn second(&self) -> Option<Product> {
        let places = self.places;
        let (weights, cell) = match (&self.extras.candidate, &self.extras.projection) {
            (Some(Candidate { state, .. }), _) => {
                let cell = GeneralCell::Blend(BlendCell {
                    input: at(places.input[1], NOW),
                    update: at(places.update, ONLY),
                    last: at(places.hidden, NOW),
                    hidden: self.hidden(),
                    gates: self.gates(),
                });
                (state, cell)
            }
            (None, Some(projection)) => {
                let gates = Gates {
                    activations: [Activation::Identity; 3],
                    clip: None,
                    tanh: self.choice.tanh,
                };
                (
                    projection,
                    GeneralCell::Rnn(GeneralRnn { input: None, hidden: self.hidden(), gates }),
                )
            }
            (None, None) => return None,
        };
        Some(self.product(
            at(places.between, ONLY),
            weights,
            None,
            Epilogue::General(Arc::new(cell)),
        ))
    }
}
