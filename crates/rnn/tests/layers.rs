//! Comparison of layers with the oracle: shapes, batches, directions, plans and instruction sets.

use dyno_kernels::{Activation, Isa, Precision, Tanh, Team};
use dyno_rnn::{Cell, Choice, Directions, Layer, Sequence, Weights, oracle};

/// A small deterministic random number generator.
pub struct Numbers(pub u64);

impl Numbers {
    fn next(&mut self) -> f32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 40) as f32) / (1 << 23) as f32 - 1.0
    }

    fn take(&mut self, count: usize, scale: f32) -> Vec<f32> {
        (0..count).map(|_| self.next() * scale).collect()
    }
}

fn layer(cell: Cell, inputs: usize, units: usize, directions: Directions) -> Layer {
    let mut numbers = Numbers(inputs as u64 * 1000 + units as u64);
    let (outputs, scale) = (cell.gates() * units, (units as f32).sqrt().recip());
    let weights = (0..directions.count()).map(|_| Weights {
        input: numbers.take(outputs * inputs, scale),
        state: numbers.take(outputs * units, scale),
        input_bias: numbers.take(outputs, scale),
        state_bias: numbers.take(outputs, scale),
    });
    Layer::new(cell, inputs, units, directions, weights.collect()).expect("weights of this size")
}

const CELLS: [Cell; 3] = [Cell::Lstm, Cell::Gru, Cell::Rnn(Activation::Tanh)];

fn check(layer: &Layer, batch: usize, steps: usize, choice: &Choice, isa: Isa, within: f64) {
    let input = Numbers(7).take(steps * batch * layer.inputs(), 2.0);
    let expected = oracle::run(layer, batch, &input, &vec![steps; batch], [&[], &[]]);
    let mut team = Team::with_workers(choice.workers());
    let mut sequence = Sequence::new(layer, batch, choice, isa).expect("a plan that holds");
    let mut output = vec![0.0; steps * batch * layer.outputs()];
    for _ in 0..2 {
        sequence.run(&mut team, &input, &mut output).expect("sizes that fit");
        let worst_of = |found: &[f32], expected: &[f64]| {
            found.iter().zip(expected).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max)
        };
        let states = sequence.states();
        let worst =
            worst_of(&output, &expected.outputs).max(worst_of(&states.hidden, &expected.hidden));
        let what = format!(
            "{:?} {}x{} b{batch} t{steps} {choice:?} {isa}",
            layer.cell(),
            layer.inputs(),
            layer.units()
        );
        assert!(worst <= within && worst >= 0.0, "{worst:e} in {what}");
        assert_eq!(states.hidden.len(), expected.hidden.len());
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

#[test]
fn layers_of_all_sizes_agree_with_the_oracle() {
    for cell in CELLS {
        for (inputs, units, batch, steps) in
            [(1, 1, 1, 1), (3, 17, 1, 5), (40, 27, 2, 9), (64, 64, 7, 6), (5, 130, 13, 3)]
        {
            for directions in [Directions::Forward, Directions::Backward, Directions::Both] {
                let layer = layer(cell, inputs, units, directions);
                for isa in Isa::all() {
                    check(&layer, batch, steps, &PLAIN, isa, 3e-6);
                }
            }
        }
    }
}

#[test]
fn every_plan_agrees_with_the_oracle() {
    for cell in CELLS {
        let layer = layer(cell, 30, 150, Directions::Both);
        for chunk in [1, 3, 64] {
            for (sides, rows, units) in
                [(1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2), (2, 2, 1), (2, 1, 3), (1, 3, 2)]
            {
                let choice = Choice { chunk, sides, rows, units, ..PLAIN };
                check(&layer, 5, 7, &choice, Isa::best(), 3e-6);
            }
        }
    }
}

/// Fewer bits: the tolerance allows an error of half a unit in the last place of every weight.
#[test]
fn fewer_bits_stay_near_the_oracle() {
    for (precision, within) in [(Precision::Bf16, 2e-2), (Precision::Int8, 8e-2)] {
        for cell in CELLS {
            for (inputs, units, batch, steps) in [(3, 17, 1, 5), (40, 27, 2, 9), (64, 64, 7, 6)] {
                let layer = layer(cell, inputs, units, Directions::Both);
                for isa in Isa::all() {
                    let choice = Choice { precision, units: 2, sides: 2, ..PLAIN };
                    check(&layer, batch, steps, &choice, isa, within);
                }
            }
        }
    }
}

/// Running a sequence in two pieces, or with states passed on, gives the result of one run.
#[test]
fn states_are_carried_in_all_precisions() {
    // Pieces have other tiles, so that sums are added in another order and round differently.
    for (precision, within) in
        [(Precision::F32, 1e-6), (Precision::Bf16, 5e-3), (Precision::Int8, 2e-2)]
    {
        for cell in CELLS {
            let layer = layer(cell, 9, 21, Directions::Forward);
            let input = Numbers(3).take(7 * 2 * 9, 2.0);
            let choice = Choice { precision, ..PLAIN };
            let mut team = Team::with_workers(1);
            let sequence =
                || Sequence::new(&layer, 2, &choice, Isa::best()).expect("a plan that holds");
            let (mut whole, mut pieces, mut handed) = (sequence(), sequence(), sequence());
            let mut outputs = [const { Vec::new() }; 3].map(|_: Vec<f32>| vec![0.0; 7 * 2 * 21]);
            let at = 3 * 2;
            whole.run(&mut team, &input, &mut outputs[0]).expect("sizes that fit");
            pieces.run(&mut team, &input[..at * 9], &mut outputs[1][..at * 21]).expect("sizes");
            handed.set_states(&pieces.states()).expect("states of this layer");
            pieces.run_on(&mut team, &input[at * 9..], &mut outputs[1][at * 21..]).expect("sizes");
            handed.run_on(&mut team, &input[at * 9..], &mut outputs[2][at * 21..]).expect("sizes");
            let [whole, pieces, handed] = &outputs;
            let apart = |a: &[f32], b: &[f32]| {
                a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
            };
            let worst = apart(whole, pieces).max(apart(&whole[at * 21..], &handed[at * 21..]));
            assert!(worst <= within, "{worst:e} of {cell:?} {precision:?}");
            assert_eq!(pieces[at * 21..], handed[at * 21..], "{cell:?} {precision:?}");
        }
    }
}
