//! Verification of programs of cells with options.

use std::sync::Arc;

use dyno_kernels::{
    Activation, BlendCell, Buffer, BufferKind, Cadence, Epilogue, Gates, GeneralCell, GeneralLstm,
    HiddenState, HighwayCell, Loop, Panels, Phase, Place, Precision, Product, Program,
    ProgramError, ResetCell, SlotIndex, Slots, Stage, Tanh,
};

const UNITS: usize = 128;
const GATES: Gates =
    Gates { activations: [Activation::Sigmoid; 3], clip: None, tanh: Tanh::Fitted98 };

fn inside(slots: usize, columns: usize) -> Buffer {
    Buffer { kind: BufferKind::Inside, slots: Slots::Count(slots), rows: 1, columns }
}

fn at(buffer: usize, at: SlotIndex) -> Place {
    Place { buffer, at, column: 0 }
}

const FIXED: SlotIndex = SlotIndex::Fixed(0);

fn hidden(buffer: usize) -> HiddenState {
    HiddenState {
        state: at(buffer, SlotIndex::Turn { by: 1 }),
        narrow: None,
        output: None,
        units: UNITS,
    }
}

/// Part `worker` of a product divided between two workers.
fn product(a: usize, weights: &Arc<Panels>, worker: usize, cell: GeneralCell) -> Product {
    let half = weights.panels() / 2;
    Product {
        a: at(a, if a == 0 { SlotIndex::Turn { by: 0 } } else { FIXED }),
        holds: weights.precision(),
        weights: Arc::clone(weights),
        panels: worker * half..(worker + 1) * half,
        rows: 0..1,
        bias: None,
        scale: 1.0,
        reads_state: false,
        epilogue: Epilogue::General(Arc::new(cell)),
    }
}

/// A GRU on two workers that resets its state before the second product.
fn reset_first(has_barrier: bool) -> Result<Program, ProgramError> {
    let zeros = vec![0.0; UNITS];
    let gates = Arc::new(Panels::pack(Precision::F32, 2, UNITS, UNITS, |_, _| &zeros));
    let candidate = Arc::new(Panels::pack_matrix(Precision::F32, UNITS, &vec![0.0; UNITS * UNITS]));
    // Hidden states, sums of z and r, of n, then z, and the state times r.
    let buffers = vec![
        inside(2, UNITS),
        inside(1, 2 * UNITS),
        inside(1, UNITS),
        inside(1, UNITS),
        inside(1, UNITS),
    ];
    let last = at(0, SlotIndex::Turn { by: 0 });
    let first = |worker| {
        let (update, reset) = (at(3, FIXED), at(4, FIXED));
        let cell = ResetCell { input: at(1, FIXED), last, update, reset, gates: GATES };
        vec![product(0, &gates, worker, GeneralCell::Reset(cell))]
    };
    let second = |worker| {
        let (input, update) = (at(2, FIXED), at(3, FIXED));
        let cell = BlendCell { input, update, last, hidden: hidden(0), gates: GATES };
        vec![product(4, &candidate, worker, GeneralCell::Blend(cell))]
    };
    let phases = vec![
        Phase { work: vec![first(0), first(1)], has_barrier },
        Phase { work: vec![second(0), second(1)], has_barrier: true },
    ];
    let stages = vec![Stage { cadence: Cadence::Step, phases }];
    Program::new(2, buffers, vec![Loop { length: 0, chunk: 1, stages }])
}

#[test]
fn between_two_products_that_follow_one_another_workers_must_meet() {
    assert!(reset_first(true).is_ok());
    // The second product reads the reset states of both workers.
    assert!(matches!(reset_first(false), Err(ProgramError::Race { workers: (0, 1), .. })));
}

#[test]
fn peepholes_must_be_those_of_all_panels() {
    let zeros = vec![0.0; UNITS];
    let weights = Arc::new(Panels::pack(Precision::F32, 4, UNITS, UNITS, |_, _| &zeros));
    let program = |peepholes: usize| {
        let cell = GeneralLstm {
            input: at(1, FIXED),
            cell: at(2, FIXED),
            hidden: hidden(0),
            gates: GATES,
            peepholes: Some(vec![0.0; peepholes].into()),
            coupled: false,
        };
        let work = vec![vec![product(0, &weights, 0, GeneralCell::Lstm(cell))]];
        let stages =
            vec![Stage { cadence: Cadence::Step, phases: vec![Phase { work, has_barrier: true }] }];
        let buffers = vec![inside(2, UNITS), inside(1, 4 * UNITS), inside(1, UNITS)];
        Program::new(1, buffers, vec![Loop { length: 0, chunk: 1, stages }]).map(|_| ())
    };
    assert_eq!(program(3 * UNITS), Ok(()));
    let refused =
        ProgramError::Weights { what: "peepholes", expected: 3 * UNITS, found: 3 * UNITS - 1 };
    assert_eq!(program(3 * UNITS - 1), Err(refused));
}

/// A highway layer of 40 outputs over buffers of `columns`, whose two workers have these panels.
fn highway(columns: usize, panels: [std::ops::Range<usize>; 2]) -> Result<(), ProgramError> {
    let zeros = vec![0.0; 40];
    let weights = Arc::new(Panels::pack(Precision::F32, 2, 40, 40, |_, _| &zeros));
    let buffer = |kind| Buffer { kind, slots: Slots::Length(0), rows: 1, columns };
    let buffers = vec![buffer(BufferKind::Input(0)), buffer(BufferKind::Output(0))];
    let work = panels.into_iter().map(|panels| {
        let cell = HighwayCell {
            x: at(0, SlotIndex::Step),
            to: at(1, SlotIndex::Step),
            outputs: 40,
            activation: Activation::Relu,
            tanh: Tanh::Fitted98,
        };
        let product = product(0, &weights, 0, GeneralCell::Highway(cell));
        vec![Product { a: at(0, SlotIndex::Step), panels, ..product }]
    });
    let phases = vec![Phase { work: work.collect(), has_barrier: false }];
    let stages = vec![Stage { cadence: Cadence::Chunk, phases }];
    Program::new(2, buffers, vec![Loop { length: 0, chunk: 8, stages }]).map(|_| ())
}

#[test]
fn a_highway_layer_touches_its_outputs_and_no_more() {
    assert_eq!(highway(40, [0..1, 1..3]), Ok(()));
    assert_eq!(highway(40, [0..2, 1..3]), Err(ProgramError::Race { workers: (0, 1), buffer: 1 }));
    let refused = highway(39, [0..1, 1..3]);
    assert!(matches!(refused, Err(ProgramError::Outside { buffer: 0, .. })), "{refused:?}");
}
