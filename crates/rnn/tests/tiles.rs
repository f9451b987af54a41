//! Layers on the matrix tiles of AMX beside the same layers on vectors, where the processor has
//! both.

use dyno_rnn::{
    Activation, Cell, CellOptions, Choice, Directions, Isa, Layer, Precision, Sequence, Tanh, Team,
    Weights,
};
use proptest::prelude::*;

/// Numbers between -1 and 1.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    let number = |at: usize| (at * 31 + seed).wrapping_mul(2_654_435_761) % 2001;
    (0..count).map(|at| number(at) as f32 / 1000.0 - 1.0).collect()
}

fn layer(
    cell: Cell,
    [inputs, units]: [usize; 2],
    directions: Directions,
    options: CellOptions,
) -> Layer {
    let (rows, scale) = (cell.gates() * units, 1.0 / (inputs.max(units) as f32).sqrt());
    let scaled = |count: usize, seed: usize| -> Vec<f32> {
        numbers(count, seed).into_iter().map(|x| x * scale).collect()
    };
    let weights = (0..directions.count()).map(|direction| Weights {
        input: scaled(rows * inputs, direction),
        state: scaled(rows * units, direction + 2),
        input_bias: scaled(rows, direction + 4),
        state_bias: scaled(rows, direction + 6),
    });
    let weights = weights.collect();
    Layer::with_options(cell, inputs, units, directions, weights, options).expect("fitting weights")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Sums of bytes are exact, so that tiles and vectors give the same bits. In bfloat16 sums are
    /// rounded in another order, and a state may become the bfloat16 next to it: 2^-8 of it.
    #[test]
    fn layers_on_tiles_are_those_on_vectors(
        kind in 0_usize..4,
        inputs in 1_usize..300,
        units in 1_usize..280,
        batch in 1_usize..40,
        steps in 1_usize..7,
        chunk in 1_usize..9,
        is_bytes: bool,
        is_both: bool,
        is_shared: bool,
    ) {
        let isas = ["amx", "avx512-bf16"].map(Isa::named);
        let [Ok(tiles), Ok(vectors)] = isas else { return Ok(()) };
        let cell = [Cell::Lstm, Cell::Gru, Cell::Gru, Cell::Rnn(Activation::Tanh)][kind];
        let options = CellOptions { reset_first: kind == 2, ..CellOptions::default() };
        let directions = if is_both { Directions::Both } else { Directions::Forward };
        let layer = layer(cell, [inputs, units], directions, options);
        let precision = if is_bytes { Precision::Int8 } else { Precision::Bf16 };
        let tanh = Tanh::Fitted98;
        // Workers of some rows each store sums that are not at equal distances.
        let rows = if is_shared { batch.min(2) } else { 1 };
        let choice = Choice { precision, tanh, chunk, sides: 1, rows, units: 1 };
        let input = numbers(steps * batch * inputs, 8);
        let run = |isa: Isa| {
            let mut sequence = Sequence::new(&layer, batch, &choice, isa).expect("a plan");
            let mut output = vec![f32::NAN; steps * batch * layer.outputs()];
            sequence.run(&mut Team::with_workers(rows), &input, &mut output).expect("sizes that fit");
            output
        };
        for (at, (found, expected)) in run(tiles).into_iter().zip(run(vectors)).enumerate() {
            if is_bytes {
                prop_assert_eq!(found.to_bits(), expected.to_bits(), "output {}", at);
            } else {
                prop_assert!((found - expected).abs() < 4e-3, "{at}: {found} and {expected}");
            }
        }
    }
}
