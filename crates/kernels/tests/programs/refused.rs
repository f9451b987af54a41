//! Invalid programs, each with its error.

use std::sync::Arc;

use dyno_kernels::{
    Buffer, BufferKind, Cadence, Call, Epilogue, Execution, Gru, HiddenState, Isa, Loop, Lstm,
    Phase, Place, Precision, Product, Program, ProgramError, Rnn, RunError, SlotIndex, Slots,
    Stage, Tanh, Team, Work,
};

use super::{buffer, hidden, panels, place, store};

const STEPS: Slots = Slots::Length(0);
const TURN: SlotIndex = SlotIndex::Turn { by: 0 };
const NEXT: SlotIndex = SlotIndex::Turn { by: 1 };

/// Input, output, sums with two slots, a state with two slots, one with one slot, and a sequence of
/// another length.
fn buffers() -> Vec<Buffer> {
    vec![
        buffer(BufferKind::Input(0), STEPS, 4, 8),
        buffer(BufferKind::Output(0), STEPS, 4, 64),
        buffer(BufferKind::Inside, Slots::Count(2), 4, 64),
        buffer(BufferKind::Inside, Slots::Count(2), 4, 64),
        buffer(BufferKind::Inside, Slots::Count(1), 4, 64),
        buffer(BufferKind::Inside, Slots::Length(1), 4, 64),
    ]
}

fn phase(work: Vec<Work>) -> Phase {
    Phase { work, has_barrier: true }
}

fn stage(cadence: Cadence, phases: Vec<Phase>) -> Stage {
    Stage { cadence, phases }
}

fn program(workers: usize, chunk: usize, stages: Vec<Stage>) -> Result<Program, ProgramError> {
    Program::new(workers, buffers(), vec![Loop { length: 0, chunk, stages }])
}

/// One phase of single steps.
fn steps(work: Vec<Work>) -> Result<Program, ProgramError> {
    program(work.len(), 1, vec![stage(Cadence::Step, vec![phase(work)])])
}

fn one(product: Product) -> Option<ProgramError> {
    steps(vec![vec![product]]).err()
}

/// A product from the input to the sums: 8 inputs, 16 outputs.
fn plain() -> Product {
    let weights = panels(Precision::F32, 1, 16, 8);
    store(place(0, SlotIndex::Step, 0), place(2, TURN, 0), &weights, 0..4)
}

fn to(place: Place, product: Product) -> Product {
    let Epilogue::Store { activation, outputs, .. } = product.epilogue else { return product };
    Product { epilogue: Epilogue::Store { to: place, activation, outputs }, ..product }
}

fn outside(
    buffer: usize,
    rows: std::ops::Range<usize>,
    columns: std::ops::Range<usize>,
) -> ProgramError {
    ProgramError::Outside { buffer, touched: (rows, columns) }
}

#[test]
fn places_outside_of_their_buffers_are_refused() {
    assert_eq!(one(plain()), None);
    let far = |column| one(to(place(2, TURN, column), plain()));
    assert_eq!(far(48), None);
    assert_eq!(far(49), Some(outside(2, 0..4, 49..65)));
    // Column sums that overflow are outside, too.
    let most = usize::MAX;
    assert_eq!(far(most - 7), Some(outside(2, 0..4, most - 7..most)));
    assert_eq!(one(Product { rows: 0..5, ..plain() }), Some(outside(0, 0..5, 0..8)));
    assert_eq!(one(to(place(9, TURN, 0), plain())), Some(outside(9, 0..4, 0..16)));
    let read = Product { a: place(0, SlotIndex::Step, 1), ..plain() };
    assert_eq!(one(read), Some(outside(0, 0..4, 1..9)));
    // A row of bfloat16 has half as many words, rounded up.
    let weights = panels(Precision::Bf16, 1, 16, 17);
    let narrow = store(place(0, SlotIndex::Step, 0), place(2, TURN, 0), &weights, 0..1);
    assert_eq!(one(narrow), Some(outside(0, 0..1, 0..9)));
}

#[test]
fn slots_that_are_not_there_are_refused() {
    let slot = |buffer, at: SlotIndex, to_string: &str| {
        let error = one(to(place(buffer, at, 0), plain()));
        assert_eq!(error, Some(ProgramError::Slot { buffer, at: to_string.to_owned() }));
    };
    slot(2, SlotIndex::Fixed(2), "2");
    slot(2, SlotIndex::Step, "t");
    slot(1, SlotIndex::Fixed(0), "0");
    slot(1, TURN, "t+0");
    // Slots are the steps of another sequence.
    slot(5, SlotIndex::Step, "t");
    slot(5, SlotIndex::Back, "T-1-t");
    // A chunk of three steps does not fit in two slots; chunk 0 means 1.
    let chunk = |chunk| {
        program(1, chunk, vec![stage(Cadence::Chunk, vec![phase(vec![vec![plain()]])])]).err()
    };
    let slots = ProgramError::Slot { buffer: 2, at: "t+0".to_owned() };
    assert_eq!((chunk(0), chunk(2), chunk(3)), (None, None, Some(slots.clone())));
    let none = vec![
        buffers().swap_remove(0),
        buffer(BufferKind::Inside, Slots::Count(0), 4, 64),
        buffer(BufferKind::Inside, Slots::Count(0), 4, 64),
    ];
    let stages = vec![stage(Cadence::Chunk, vec![phase(vec![vec![plain()]])])];
    let error = Program::new(1, none, vec![Loop { length: 0, chunk: 0, stages }]).err();
    assert_eq!(error, Some(slots));
}

#[test]
fn written_inputs_and_doubled_outputs_are_refused() {
    let weights = panels(Precision::F32, 1, 5, 8);
    let narrow = store(place(0, SlotIndex::Step, 0), place(0, SlotIndex::Step, 0), &weights, 0..4);
    let Epilogue::Store { to, activation, .. } = narrow.epilogue else { panic!("it stores") };
    let written = Product { epilogue: Epilogue::Store { to, activation, outputs: 5 }, ..narrow };
    assert_eq!(one(written), Some(ProgramError::Direction { buffer: 0 }));
    let mut twice = buffers();
    twice.push(buffer(BufferKind::Output(0), STEPS, 1, 1));
    let error = Program::new(1, twice, Vec::new()).err();
    assert_eq!(error, Some(ProgramError::Direction { buffer: 6 }));
}

#[test]
fn buffers_greater_than_memory_are_refused() {
    let size = |count, rows, columns| {
        let all = vec![buffer(BufferKind::Inside, Slots::Count(count), rows, columns)];
        Program::new(1, all, Vec::new()).err()
    };
    let refused = Some(ProgramError::Size { buffer: 0 });
    assert_eq!(size(1 << 20, 1 << 24, 1 << 20), refused);
    assert_eq!(size(1, 1 << 40, 1 << 24), refused);
    assert_eq!(size(1, 1, usize::MAX / 4), refused);
    assert_eq!(size(usize::MAX, 0, usize::MAX), None);
}

#[test]
fn weights_that_do_not_fit_are_refused() {
    let error = |product| match one(product) {
        Some(ProgramError::Weights { what, expected, found }) => Some((what, expected, found)),
        _ => None,
    };
    assert_eq!(error(Product { panels: 0..2, ..plain() }), Some(("panels", 2, 1)));
    let bias = |count| Product { bias: Some(vec![0.0; count].into()), ..plain() };
    assert_eq!(error(bias(15)), Some(("biases", 16, 15)));
    assert_eq!(one(bias(16)), None);
    let Epilogue::Store { to, activation, .. } = plain().epilogue else { panic!("it stores") };
    let wide = Product { epilogue: Epilogue::Store { to, activation, outputs: 17 }, ..plain() };
    assert_eq!(error(wide), Some(("outputs of the weights", 17, 16)));
    let cell = |vectors, epilogue| {
        let weights = panels(Precision::F32, vectors, 16, 8);
        error(Product { weights, epilogue, ..plain() })
    };
    let state_of = |units| hidden(place(3, NEXT, 0), units);
    let tanh = Tanh::Fitted98;
    let lstm = |units| {
        let cell = place(4, SlotIndex::Fixed(0), 0);
        Epilogue::Lstm(Arc::new(Lstm { input: None, cell, hidden: state_of(units), tanh }))
    };
    assert_eq!(cell(3, lstm(16)), Some(("vectors of a panel", 4, 3)));
    assert_eq!(cell(4, lstm(17)), Some(("outputs of the weights", 17, 16)));
    let (input, last) = (place(2, TURN, 0), place(3, TURN, 0));
    let gru = Epilogue::Gru(Arc::new(Gru { input, last, hidden: state_of(16), tanh }));
    assert_eq!(cell(4, gru), Some(("vectors of a panel", 3, 4)));
    let activation = dyno_kernels::Activation::Tanh;
    let rnn = Epilogue::Rnn(Arc::new(Rnn { input, hidden: state_of(17), activation }));
    assert_eq!(cell(1, rnn), Some(("outputs of the weights", 17, 16)));
}

#[test]
fn every_phase_has_work_for_every_worker() {
    let error = program(2, 1, vec![stage(Cadence::Step, vec![phase(vec![vec![plain()]])])]).err();
    assert_eq!(error, Some(ProgramError::Workers { expected: 2, found: 1 }));
    let nobody = program(0, 1, Vec::new()).err();
    assert_eq!(nobody, Some(ProgramError::Workers { expected: 1, found: 0 }));
}

fn race(buffer: usize) -> Option<ProgramError> {
    Some(ProgramError::Race { workers: (0, 1), buffer })
}

fn rows_of(rows: std::ops::Range<usize>, product: Product) -> Work {
    vec![Product { rows, ..product }]
}

#[test]
fn two_writers_of_one_place_are_refused() {
    let halves = |a, b| steps(vec![rows_of(a, plain()), rows_of(b, plain())]).err();
    assert_eq!(halves(0..2, 2..4), None);
    assert_eq!(halves(0..3, 2..4), race(2));
    assert_eq!(halves(0..4, 1..1), None);
    let beside = |column| {
        let other = to(place(2, TURN, column), plain());
        steps(vec![vec![plain()], vec![other]]).err()
    };
    assert_eq!((beside(15), beside(16)), (race(2), None));
    let fixed = |slot| to(place(2, SlotIndex::Fixed(slot), 0), plain());
    assert_eq!(steps(vec![vec![fixed(0)], vec![fixed(1)]]).err(), None);
    assert_eq!(steps(vec![vec![fixed(1)], vec![fixed(1)]]).err(), race(2));
    // At some step the turning slot is slot 1.
    assert_eq!(steps(vec![vec![plain()], vec![fixed(1)]]).err(), race(2));
    // In the middle of a sequence with odd length both are at the same step.
    let output = |at| to(place(1, at, 0), plain());
    assert_eq!(
        steps(vec![vec![output(SlotIndex::Step)], vec![output(SlotIndex::Back)]]).err(),
        race(1)
    );
}

/// A state of 16 units computed from itself, each half by one worker.
fn state(to: SlotIndex, column: usize) -> Product {
    let weights = panels(Precision::F32, 1, 16, 32);
    store(place(3, TURN, 0), place(3, to, column), &weights, 0..4)
}

#[test]
fn readers_of_what_another_writes_wait_for_it() {
    // Two slots: data that is read was written before the last barrier.
    let two = |to| steps(vec![vec![state(to, 0)], vec![state(to, 16)]]).err();
    assert_eq!(two(NEXT), None);
    assert_eq!(two(TURN), race(3));
    assert_eq!(two(SlotIndex::Turn { by: 2 }), race(3));
    // Without barriers a worker may be one step ahead.
    let free =
        Phase { work: vec![vec![state(NEXT, 0)], vec![state(NEXT, 16)]], has_barrier: false };
    assert_eq!(program(2, 1, vec![stage(Cadence::Step, vec![free])]).err(), race(3));
    // All steps of a chunk precede the barrier.
    let work = vec![vec![state(NEXT, 0)], vec![state(NEXT, 16)]];
    assert_eq!(program(2, 2, vec![stage(Cadence::Chunk, vec![phase(work)])]).err(), race(3));
    // A phase without barrier merges the phases around it.
    let reads = to(place(4, SlotIndex::Fixed(0), 0), Product { a: place(2, TURN, 0), ..plain() });
    let both = |has_barrier| {
        let first = Phase { work: vec![vec![plain()], Vec::new()], has_barrier };
        let second = phase(vec![Vec::new(), vec![reads.clone()]]);
        program(2, 1, vec![stage(Cadence::Step, vec![first, second])]).err()
    };
    assert_eq!((both(true), both(false)), (None, race(2)));
}

#[test]
fn all_places_of_a_cell_are_looked_at() {
    let weights = panels(Precision::F32, 4, 16, 8);
    let free = place(4, SlotIndex::Fixed(0), 0);
    let cell = |input, cell, hidden: HiddenState| {
        let epilogue = Epilogue::Lstm(Arc::new(Lstm { input, cell, hidden, tanh: Tanh::Fitted98 }));
        Product { weights: Arc::clone(&weights), epilogue, ..plain() }
    };
    let next = hidden(place(3, NEXT, 0), 16);
    let narrow = |place| HiddenState { narrow: Some((place, Precision::Bf16)), ..next };
    let output = |place| HiddenState { output: Some(place), ..next };
    let check_race = |mine: Product, buffer: usize, at, column| {
        let other = to(place(buffer, at, column), plain());
        assert_eq!(steps(vec![vec![mine], vec![other]]).err(), race(buffer));
    };
    check_race(cell(Some(place(2, TURN, 0)), free, next), 2, TURN, 48);
    check_race(cell(None, free, next), 4, SlotIndex::Fixed(0), 15);
    check_race(cell(None, free, next), 3, NEXT, 15);
    check_race(cell(None, free, narrow(place(2, TURN, 8))), 2, TURN, 15);
    check_race(cell(None, free, output(place(1, SlotIndex::Step, 0))), 1, SlotIndex::Step, 15);
    // Sixteen units of bfloat16 are eight words; an output has existing units only.
    let beside = |mine: Product, buffer, at, column| {
        let other = to(place(buffer, at, column), plain());
        assert_eq!(steps(vec![vec![mine], vec![other]]).err(), None);
    };
    beside(cell(None, free, narrow(place(2, TURN, 0))), 2, TURN, 8);
    let three = HiddenState { units: 3, ..output(place(1, SlotIndex::Step, 0)) };
    beside(cell(None, free, three), 1, SlotIndex::Step, 3);
}

#[test]
fn calls_that_do_not_fit_are_refused() {
    let program = steps(vec![vec![to(place(1, SlotIndex::Step, 0), plain())]]).expect("it holds");
    let mut execution = Execution::new(program, Isa::scalar());
    let mut team = Team::with_workers(1);
    let mut call = |lengths: &[usize], active: &[usize], input: usize, output: usize| {
        let (input, mut output) = (vec![0.5; input], vec![0.0; output]);
        let outputs: &mut [&mut [f32]] = &mut [&mut output];
        let inputs: &[&[f32]] = &[&input];
        execution.run(&mut team, Call { lengths, active, fresh: false, inputs, outputs })
    };
    let size = |buffer, expected, found| Err(RunError::Size { buffer, expected, found });
    assert_eq!(call(&[2, 0], &[], 64, 512), Ok(()));
    assert_eq!(call(&[2, 0], &[], 63, 512), size(0, 64, 63));
    assert_eq!(call(&[2, 0], &[], 64, 513), size(1, 512, 513));
    // 2^59 steps of 32 words overflow to 0 words.
    assert_eq!(call(&[1 << 59, 0], &[], 0, 0), Err(RunError::Memory { buffer: 0 }));
    assert_eq!(call(&[0, 1 << 60], &[], 0, 0), Err(RunError::Memory { buffer: 5 }));
    let count = |what, expected, found| Err(RunError::Count { what, expected, found });
    assert_eq!(call(&[2], &[], 64, 512), count("lengths", 2, 1));
    assert_eq!(call(&[], &[], 0, 0), count("lengths", 1, 0));
    assert_eq!(call(&[2, 0], &[4], 64, 512), count("rows in use", 2, 1));
    // Counts above the number of rows mean all rows.
    assert_eq!(call(&[2, 0], &[99, 0], 64, 512), Ok(()));
}

#[test]
fn more_phases_than_a_team_can_count_are_refused() {
    let phases = vec![Phase { work: vec![Vec::new(); 2], has_barrier: true }];
    let stages = vec![Stage { cadence: Cadence::Step, phases }];
    let program = Program::new(2, Vec::new(), vec![Loop { length: 0, chunk: 1, stages }]);
    let mut execution = Execution::new(program.expect("it holds"), Isa::scalar());
    let mut team = Team::with_workers(2);
    let mut call = |steps| execution.run(&mut team, Call { lengths: &[steps], ..Call::default() });
    assert_eq!(call(1000), Ok(()));
    for steps in [1 << 31, (1 << 32) + 1, usize::MAX] {
        assert_eq!(call(steps), Err(RunError::Phases));
    }
}

/// A chunk may be longer than any sequence; rows are narrowed only as far as there are steps, and
/// runs of other lengths and other callers' memory follow.
#[test]
fn room_for_narrowed_rows_is_that_of_the_steps() {
    let weights = panels(Precision::Int8, 1, 16, 8);
    let narrowed = || Product {
        holds: Precision::F32,
        ..store(place(0, SlotIndex::Step, 0), place(1, SlotIndex::Step, 0), &weights, 0..4)
    };
    let outputs = |chunk: usize, cadence: Cadence| {
        let stages = vec![stage(cadence, vec![phase(vec![vec![narrowed()]])])];
        let program = program(1, chunk, stages).expect("a product inside of its buffers");
        let mut execution = Execution::new(program, Isa::scalar());
        [2, 5, 3].map(|steps| {
            let input: Vec<f32> = (0..steps * 4 * 8).map(|at| (at % 7) as f32 - 3.0).collect();
            let mut output = vec![0.0; steps * 4 * 64];
            let call = Call {
                lengths: &[steps, 1],
                inputs: &[&input],
                outputs: &mut [&mut output],
                ..Call::default()
            };
            execution.run(&mut Team::with_workers(1), call).expect("sizes that fit");
            output
        })
    };
    let expected = outputs(1, Cadence::Step);
    assert!(expected[0].iter().any(|x| *x != 0.0));
    for chunk in [0, 2, usize::MAX] {
        assert_eq!(outputs(chunk, Cadence::Chunk), expected, "chunk {chunk}");
    }
}
