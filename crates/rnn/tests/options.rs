//! Layers with all that ONNX lets them have, against the oracle: any option, shape, direction, plan
//! and instruction set, rows of different lengths, states given and kept.

use std::ops::Range;

use dyno_kernels::{Activation, Isa, Precision, Tanh, Team};
use dyno_rnn::model::Model;
use dyno_rnn::sequence::{SequenceError, States};
use dyno_rnn::{Cell, CellOptions, Choice, Directions, Layer, Sequence, Weights, oracle};
use proptest::prelude::*;

/// A small deterministic random number generator.
struct Numbers(u64);

impl Numbers {
    fn take(&mut self, count: usize, scale: f32) -> Vec<f32> {
        let next = |_| {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (((self.0 >> 40) as f32) / (1 << 23) as f32 - 1.0) * scale
        };
        (0..count).map(next).collect()
    }
}

/// Activations f, g and h.
type Activations = (Activation, Activation, Activation);

/// Sizes of a layer, and how it runs.
#[derive(Clone, Debug)]
struct Case {
    cell: Cell,
    sizes: (usize, usize),
    directions: Directions,
    /// Activations, clip, gates coupled or reset first, peepholes.
    options: (Option<Activations>, Option<f32>, bool, bool),
    projected: Option<usize>,
    batch: usize,
    steps: usize,
    choice: Choice,
    isa: Isa,
    seed: u64,
}

impl Case {
    fn layer(&self) -> Layer {
        let (mut numbers, (inputs, units)) = (Numbers(self.seed), self.sizes);
        let (directions, scale) = (self.directions.count(), (units as f32).sqrt().recip());
        let (activations, clip, switch, peepholes) = self.options;
        let is_lstm = self.cell == Cell::Lstm;
        let projected = self.projected.filter(|_| is_lstm);
        let mut each = |given: bool, count: usize, scale: f32| -> Vec<Vec<f32>> {
            (0..if given { directions } else { 0 }).map(|_| numbers.take(count, scale)).collect()
        };
        let options = CellOptions {
            activations: activations
                .into_iter()
                .flat_map(|(f, g, h)| vec![[f, g, h]; directions])
                .collect(),
            clip,
            coupled: switch && is_lstm,
            reset_first: switch && self.cell == Cell::Gru,
            peepholes: each(peepholes && is_lstm, 3 * units, 0.8),
            projections: each(projected.is_some(), projected.unwrap_or(0) * units, scale),
        };
        let (outputs, width) = (self.cell.gates() * units, projected.unwrap_or(units));
        let weights = (0..directions).map(|_| Weights {
            input: numbers.take(outputs * inputs, (inputs as f32).sqrt().recip()),
            state: numbers.take(outputs * width, scale),
            input_bias: numbers.take(outputs, scale),
            state_bias: numbers.take(outputs, scale),
        });
        let weights = weights.collect();
        Layer::with_options(self.cell, inputs, units, self.directions, weights, options)
            .expect("weights of this size")
    }

    fn input(&self) -> Vec<f32> {
        Numbers(self.seed + 1).take(self.steps * self.batch * self.sizes.0, 2.0)
    }

    /// Steps of each row.
    fn lengths(&self) -> Vec<usize> {
        let any = Numbers(self.seed + 2).take(self.batch, 1.0);
        any.into_iter()
            .map(|x| (x.abs() * (self.steps + 1) as f32) as usize % (self.steps + 1))
            .collect()
    }

    fn states(&self, layer: &Layer) -> States {
        let rows = self.batch * self.directions.count();
        let mut numbers = Numbers(self.seed + 3);
        let cells = if layer.cell() == Cell::Lstm { rows * layer.units() } else { 0 };
        States { hidden: numbers.take(rows * layer.width(), 1.0), cells: numbers.take(cells, 1.0) }
    }

    fn sequence(&self, layer: &Layer) -> (Sequence, Team, Vec<f32>) {
        let sequence =
            Sequence::new(layer, self.batch, &self.choice, self.isa).expect("a plan that holds");
        // Previous contents are overwritten.
        let output = vec![f32::NAN; self.steps * self.batch * layer.outputs()];
        (sequence, Team::with_workers(self.choice.workers()), output)
    }
}

fn activation() -> impl Strategy<Value = Activation> {
    let shape = (0.1_f32..0.7, -0.5_f32..0.5);
    (0..12_u8, shape).prop_map(|(which, (alpha, beta))| match which {
        0 => Activation::Relu,
        1 => Activation::Affine { alpha, beta },
        2 => Activation::LeakyRelu { alpha },
        // Without a jump at zero, where rounding would be visible.
        3 => Activation::ThresholdedRelu { alpha: 0.0 },
        4 => Activation::ScaledTanh { alpha: alpha + 0.5, beta },
        5 => Activation::HardSigmoid { alpha, beta },
        6 => Activation::Elu { alpha },
        7 => Activation::Softsign,
        8 => Activation::Softplus,
        9 => Activation::Identity,
        10 => Activation::Tanh,
        _ => Activation::Sigmoid,
    })
}

/// Activations of gates; an unbounded one would multiply states until they are infinite.
fn bounded() -> impl Strategy<Value = Activation> {
    activation().prop_map(|activation| match activation {
        Activation::HardSigmoid { .. } | Activation::Softsign | Activation::Tanh => activation,
        Activation::ScaledTanh { beta, .. } => Activation::ScaledTanh { alpha: 0.9, beta },
        _ => Activation::Sigmoid,
    })
}

fn case() -> impl Strategy<Value = Case> {
    let cell = prop_oneof![Just(Cell::Lstm), Just(Cell::Gru), activation().prop_map(Cell::Rnn)];
    let directions =
        prop_oneof![Just(Directions::Forward), Just(Directions::Backward), Just(Directions::Both)];
    let activations = proptest::option::of((bounded(), activation(), activation()));
    let options = (activations, proptest::option::of(0.2_f32..1.5), any::<bool>(), any::<bool>());
    let choice =
        (prop_oneof![Just(1_usize), Just(3), Just(64)], 1_usize..3, 1_usize..3, 1_usize..3);
    let choice = choice.prop_map(|(chunk, sides, rows, units)| Choice {
        precision: Precision::F32,
        tanh: Tanh::Fitted98,
        chunk,
        sides,
        rows,
        units,
    });
    let layer =
        (cell, (1_usize..40, 1_usize..90), directions, options, proptest::option::of(1_usize..70));
    let isa = proptest::sample::select(Isa::all().into_iter().collect::<Vec<_>>());
    (layer, (1_usize..7, 1_usize..8), choice, isa, any::<u32>()).prop_map(
        |((cell, sizes, directions, options, projected), (batch, steps), choice, isa, seed)| Case {
            cell,
            sizes,
            directions,
            options,
            projected,
            batch,
            steps,
            choice,
            isa,
            seed: seed.into(),
        },
    )
}

/// Tolerance: 2e-5 for numbers up to one, relative above; unbounded activations scale both.
fn check_near(found: &[f32], expected: &[f64]) -> Result<(), TestCaseError> {
    prop_assert_eq!(found.len(), expected.len());
    let largest = expected.iter().fold(1.0_f64, |most, x| most.max(x.abs()));
    for (at, (a, b)) in found.iter().zip(expected).enumerate() {
        let off = (f64::from(*a) - b).abs();
        prop_assert!(off <= 2e-5 * largest, "{a} is not {b} at {at}");
    }
    Ok(())
}

fn check_states(
    layer: &Layer,
    found: &States,
    expected: &oracle::OracleOutput,
) -> Result<(), TestCaseError> {
    check_near(&found.hidden, &expected.hidden)?;
    if layer.cell() == Cell::Lstm { check_near(&found.cells, &expected.cells) } else { Ok(()) }
}

/// Runs rows of these lengths from zeros, from given states, and on from there.
fn check_lengths(case: &Case, lengths: &[usize]) -> Result<(), TestCaseError> {
    let (layer, input) = (case.layer(), case.input());
    let expected = oracle::run(&layer, case.batch, &input, lengths, [&[], &[]]);
    let (mut sequence, mut team, mut output) = case.sequence(&layer);
    for _ in 0..2 {
        sequence.run_lengths(&mut team, &input, &mut output, lengths).expect("sizes that fit");
        check_near(&output, &expected.outputs)?;
        check_states(&layer, &sequence.states(), &expected)?;
    }
    let states = case.states(&layer);
    let from = [&states.hidden[..], &states.cells[..]];
    let expected = oracle::run(&layer, case.batch, &input, lengths, from);
    sequence.set_states(&states).expect("states of this size");
    sequence.run_lengths_on(&mut team, &input, &mut output, lengths).expect("sizes that fit");
    check_near(&output, &expected.outputs)?;
    let left = sequence.states();
    check_states(&layer, &left, &expected)?;
    let from = [&left.hidden[..], &left.cells[..]];
    let expected = oracle::run(&layer, case.batch, &input, &vec![case.steps; case.batch], from);
    sequence.run_on(&mut team, &input, &mut output).expect("sizes that fit");
    check_near(&output, &expected.outputs)?;
    check_states(&layer, &sequence.states(), &expected)
}

/// Cases per property.
const CASES: u32 = 64;

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn options_agree_with_the_oracle(case in case()) {
        let (layer, input, full) = (case.layer(), case.input(), vec![case.steps; case.batch]);
        let expected = oracle::run(&layer, case.batch, &input, &full, [&[], &[]]);
        let (mut sequence, mut team, mut output) = case.sequence(&layer);
        for _ in 0..2 {
            sequence.run(&mut team, &input, &mut output).expect("sizes that fit");
            check_near(&output, &expected.outputs)?;
            check_states(&layer, &sequence.states(), &expected)?;
        }
    }

    #[test]
    fn rows_of_different_lengths_agree_with_the_oracle(case in case(), plain in any::<bool>()) {
        let mut case = case;
        if plain {
            (case.options, case.projected) = ((None, None, false, false), None);
        }
        check_lengths(&case, &case.lengths())?;
    }

    #[test]
    fn rows_that_rest_behind_the_others_agree_with_the_oracle(case in case(), rows in 0_usize..8) {
        let case = Case { directions: Directions::Forward, ..case };
        let lengths: Vec<usize> =
            (0..case.batch).map(|row| if row < rows { case.steps } else { 0 }).collect();
        check_lengths(&case, &lengths)?;
    }

    #[test]
    fn a_sequence_in_pieces_is_the_whole(case in case(), cuts in [0_usize..8, 0_usize..8]) {
        let case = Case { directions: Directions::Forward, ..case };
        let (layer, input) = (case.layer(), case.input());
        let states = case.states(&layer);
        let (mut sequence, mut team, mut whole) = case.sequence(&layer);
        sequence.set_states(&states).expect("states of this size");
        sequence.run_on(&mut team, &input, &mut whole).expect("sizes that fit");
        let last = sequence.states();
        sequence.set_states(&states).expect("states of this size");
        let mut cuts = [0, cuts[0] % (case.steps + 1), cuts[1] % (case.steps + 1), case.steps];
        cuts.sort_unstable();
        let (mut pieces, row) = (vec![f32::NAN; whole.len()], case.batch * layer.inputs());
        for cut in cuts.windows(2) {
            let to = &mut pieces[cut[0] * case.batch * layer.outputs()..cut[1] * case.batch * layer.outputs()];
            sequence.run_on(&mut team, &input[cut[0] * row..cut[1] * row], to).expect("sizes that fit");
        }
        // The products have other blocks, so that rounding may differ.
        check_near(&pieces, &whole.iter().map(|x| f64::from(*x)).collect::<Vec<_>>())?;
        check_near(&sequence.states().hidden, &last.hidden.iter().map(|x| f64::from(*x)).collect::<Vec<_>>())?;
    }
}

const PLAIN: Choice = Choice {
    precision: Precision::F32,
    tanh: Tanh::Fitted98,
    chunk: 4,
    sides: 1,
    rows: 1,
    units: 1,
};

fn small() -> Layer {
    let weights = Weights {
        input: vec![0.1; 4 * 2 * 3],
        state: vec![0.2; 4 * 2 * 2],
        input_bias: vec![0.0; 8],
        state_bias: vec![0.0; 8],
    };
    Layer::new(Cell::Lstm, 3, 2, Directions::Forward, vec![weights]).expect("weights of this size")
}

/// Returns the bits of the outputs of each of these rows for eleven steps, with as many steps per call
/// as `piece`. The rows are the first ones of a batch, and the others rest.
fn bits(layer: &Layer, isa: Isa, batch: usize, rows: &Range<usize>, piece: usize) -> Vec<Vec<u32>> {
    const STEPS: usize = 11;
    let (inputs, outputs) = (layer.inputs(), layer.outputs());
    let choice = Choice { chunk: 16, ..PLAIN };
    let mut sequence = Sequence::new(layer, batch, &choice, isa).expect("a plan");
    let mut team = Team::with_workers(1);
    let mut lengths = vec![piece; rows.len()];
    lengths.resize(batch, 0);
    let mut found = vec![Vec::new(); rows.len()];
    for first in (0..STEPS).step_by(piece) {
        let mut input = vec![0.0; piece * batch * inputs];
        for (step, numbers) in input.chunks_exact_mut(batch * inputs).enumerate() {
            for (own, row) in numbers.chunks_exact_mut(inputs).zip(rows.clone()) {
                let seed = (row * STEPS + first + step) as u64;
                own.copy_from_slice(&Numbers(seed << 40).take(inputs, 1.0));
            }
        }
        let mut output = vec![f32::NAN; piece * batch * outputs];
        let ran = sequence.run_lengths_on(&mut team, &input, &mut output, &lengths);
        ran.expect("sizes that fit");
        for numbers in output.chunks_exact(batch * outputs) {
            for (found, own) in found.iter_mut().zip(numbers.chunks_exact(outputs)) {
                found.extend(own.iter().map(|number| number.to_bits()));
            }
        }
    }
    found
}

/// A tile has six rows. Blocks of tiles end elsewhere in each of these calls.
#[test]
fn rows_that_fill_tiles_have_the_same_bits_in_any_call() {
    for text in ["lstm:20x24", "gru:20x24", "rnn:20x24"] {
        let model = Model::open(text).expect("a layer by its shape");
        let layer = &model.layers()[0];
        for isa in Isa::all() {
            let many = bits(layer, isa, 66, &(0..66), 1);
            for rows in [0..6, 60..66] {
                let own = bits(layer, isa, 6, &rows, 1);
                assert!(own == many[rows.clone()], "{text} {isa}: 66 rows, {rows:?}");
                let steps = bits(layer, isa, 8, &rows, 11);
                assert!(own == steps, "{text} {isa}: eleven steps at once, {rows:?}");
            }
        }
    }
}

/// Products with states in bfloat16 read them from a buffer of their own.
#[test]
fn rows_that_rest_keep_their_states_in_bfloat16() {
    const UNITS: usize = 24;
    let model = Model::open("lstm:20x24").expect("a layer by its shape");
    let choice = Choice { precision: Precision::Bf16, ..PLAIN };
    let sequence = || Sequence::new(&model.layers()[0], 3, &choice, Isa::best()).expect("a plan");
    let (mut rested, mut other, mut team) = (sequence(), sequence(), Team::with_workers(1));
    let mut numbers = Numbers(1);
    let (hidden, cells) = (numbers.take(3 * UNITS, 1.0), numbers.take(3 * UNITS, 1.0));
    let (states, input) = (States { hidden, cells }, numbers.take(3 * 3 * 20, 1.0));
    let mut outputs = [vec![0.0; 3 * 3 * UNITS], vec![0.0; 3 * 3 * UNITS]];
    rested.set_states(&states).expect("states of this size");
    rested.run_lengths_on(&mut team, &input, &mut outputs[0], &[3, 3, 0]).expect("sizes that fit");
    rested.run_on(&mut team, &input, &mut outputs[0]).expect("sizes that fit");
    other.set_states(&states).expect("states of this size");
    other.run_on(&mut team, &input, &mut outputs[1]).expect("sizes that fit");
    let [found, expected] = outputs.map(|output| -> Vec<f32> {
        output.chunks_exact(UNITS).skip(2).step_by(3).flatten().copied().collect()
    });
    assert_eq!(found, expected);
}

#[test]
fn what_does_not_fit_is_refused() {
    let layer = small();
    let weights = layer.weights().to_vec();
    let with = |cell, options| {
        Layer::with_options(cell, 3, 2, Directions::Forward, weights.clone(), options)
            .map_err(|error| error.to_string())
    };
    let peepholes = CellOptions { peepholes: vec![vec![0.0; 5]], ..CellOptions::default() };
    let expected = "expected 6 peepholes, found 5";
    assert_eq!(with(Cell::Lstm, peepholes), Err(expected.into()));
    let reset = CellOptions { reset_first: true, ..CellOptions::default() };
    assert_eq!(
        with(Cell::Lstm, reset),
        Err("expected 0 gates that reset the state, found 1".into())
    );
    let mut sequence = Sequence::new(&layer, 2, &PLAIN, Isa::best()).expect("a plan");
    let (mut team, input, mut output) = (Team::with_workers(1), vec![0.0; 12], vec![0.0; 8]);
    let mut run = |lengths: &[usize]| sequence.run_lengths(&mut team, &input, &mut output, lengths);
    assert_eq!(run(&[1]), Err(SequenceError::Lengths));
    assert_eq!(run(&[1, 3]), Err(SequenceError::Lengths));
    assert_eq!(run(&[0, 2]), Ok(()));
    let states = States { hidden: vec![0.0; 3], cells: Vec::new() };
    let expected = SequenceError::States { expected: 4, found: 3 };
    assert_eq!(sequence.set_states(&states), Err(expected));
}
