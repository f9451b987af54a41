//! Products in bfloat16 and bytes: every option of the cells, states of any size, and numbers that
//! bytes cannot represent.

use dyno_rnn::engine::{Engine, EngineError, EngineOptions};
use dyno_rnn::model::Model;
use dyno_rnn::{Activation, Cell, CellOptions, Directions, Isa, Layer, Precision, Weights, oracle};

const INPUTS: usize = 24;
const UNITS: usize = 40;
const STEPS: usize = 12;

/// A small deterministic random number generator.
struct Numbers(u32);

impl Numbers {
    fn take(&mut self, count: usize, scale: f32) -> Vec<f32> {
        let mut next = || {
            self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((self.0 >> 8) as f32 / (1 << 23) as f32 - 1.0) * scale
        };
        (0..count).map(|_| next()).collect()
    }
}

/// Returns a layer whose weights have the range of PyTorch's initial weights, times `gain`.
fn layer(cell: Cell, directions: Directions, options: CellOptions, gain: f32) -> Layer {
    let width = options.projections.first().map_or(UNITS, |first| first.len() / UNITS);
    let (rows, bound) = (cell.gates() * UNITS, gain / (UNITS as f32).sqrt());
    let mut numbers = Numbers(7);
    let weights = (0..directions.count()).map(|_| Weights {
        input: numbers.take(rows * INPUTS, bound),
        state: numbers.take(rows * width, bound),
        input_bias: numbers.take(rows, bound),
        state_bias: numbers.take(rows, bound),
    });
    let weights = weights.collect();
    Layer::with_options(cell, INPUTS, UNITS, directions, weights, options).expect("fitting weights")
}

/// Every option of the three cells, with a name.
fn layers() -> Vec<(String, Layer)> {
    let mut found = Vec::new();
    let mut numbers = Numbers(9);
    let activations = [
        Activation::Relu,
        Activation::Affine { alpha: 0.9, beta: 0.3 },
        Activation::LeakyRelu { alpha: 0.1 },
        Activation::ThresholdedRelu { alpha: 0.0 },
        Activation::ScaledTanh { alpha: 3.0, beta: 0.5 },
        Activation::HardSigmoid { alpha: 0.2, beta: 0.5 },
        Activation::Elu { alpha: 1.5 },
        Activation::Softsign,
        Activation::Softplus,
        Activation::Identity,
        Activation::Tanh,
        Activation::Sigmoid,
    ];
    for directions in [Directions::Forward, Directions::Backward, Directions::Both] {
        let count = directions.count();
        for own in activations {
            let plain = CellOptions::default();
            found.push((
                format!("{directions:?} RNN {own:?}"),
                layer(Cell::Rnn(own), directions, plain, 1.0),
            ));
            for cell in [Cell::Lstm, Cell::Gru] {
                let all = vec![[Activation::Sigmoid, own, own]; count];
                let options = CellOptions { activations: all, ..CellOptions::default() };
                found.push((
                    format!("{directions:?} {cell:?} {own:?}"),
                    layer(cell, directions, options, 1.0),
                ));
            }
        }
        let mut each = |size: usize| (0..count).map(|_| numbers.take(size, 0.15)).collect();
        let options = [
            ("clip", CellOptions { clip: Some(0.4), ..CellOptions::default() }),
            ("coupled", CellOptions { coupled: true, ..CellOptions::default() }),
            ("reset first", CellOptions { reset_first: true, ..CellOptions::default() }),
            (
                "reset first and clip",
                CellOptions { reset_first: true, clip: Some(0.4), ..CellOptions::default() },
            ),
            ("peepholes", CellOptions { peepholes: each(3 * UNITS), ..CellOptions::default() }),
            ("projection", CellOptions { projections: each(9 * UNITS), ..CellOptions::default() }),
        ];
        for (name, options) in options {
            let is_gru = options.reset_first;
            let is_lstm =
                options.coupled || !options.peepholes.is_empty() || !options.projections.is_empty();
            for cell in [Cell::Lstm, Cell::Gru, Cell::Rnn(Activation::Tanh)] {
                let is_other = is_gru && cell != Cell::Gru || is_lstm && cell != Cell::Lstm;
                if !is_other {
                    found.push((
                        format!("{directions:?} {cell:?} {name}"),
                        layer(cell, directions, options.clone(), 1.0),
                    ));
                }
            }
        }
    }
    found
}

/// Returns the root of the mean square of the errors, relative to that of the outputs.
fn error(layer: &Layer, options: &EngineOptions, rows: usize) -> f64 {
    let model = Model::from_layers("layer", vec![layer.clone()]).expect("a layer");
    let input = Numbers(3).take(STEPS * rows * INPUTS, 1.0);
    let expected = oracle::run(layer, rows, &input, &vec![STEPS; rows], [&[], &[]]).outputs;
    let mut engine = Engine::new(model, options).expect("a plan");
    let mut output = vec![f32::NAN; expected.len()];
    engine.run(&input, &vec![STEPS; rows], None, &mut output).expect("a batch that fits");
    let squares =
        |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|x| x * x).sum::<f64>().sqrt();
    let mut errors = output.iter().zip(&expected).map(|(a, b)| f64::from(*a) - b);
    squares(&mut errors) / squares(&mut expected.iter().copied())
}

#[test]
fn every_option_runs_in_fewer_bits() {
    let mut wrong = Vec::new();
    let mut narrowed = 0;
    for (name, layer) in layers() {
        for (precision, within) in [(Precision::Bf16, 0.01), (Precision::Int8, 0.02)] {
            for (isa, threads, rows) in
                [(Isa::best(), 1, 1), (Isa::best(), 2, 5), (Isa::scalar(), 1, 2)]
            {
                let options = EngineOptions { precision, threads, isa, ..EngineOptions::default() };
                let found = error(&layer, &options, rows);
                if found.is_nan() || found > within {
                    wrong.push(format!("{name} {precision:?} {rows} rows: {found:.4}"));
                }
                // In `f32` the error would be a hundred times less.
                narrowed += usize::from(found > 1e-5);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(narrowed, layers().len() * 6);
}

#[test]
fn bytes_of_states_reach_beyond_one() {
    // States grow to about 50, and start from 5.
    let relu = layer(Cell::Rnn(Activation::Relu), Directions::Forward, CellOptions::default(), 3.0);
    let options = EngineOptions { precision: Precision::Int8, ..EngineOptions::default() };
    let found = error(&relu, &options, 1);
    assert!(found < 0.02, "{found}");
    let model = Model::open("gru:8x16").unwrap();
    let input = Numbers(1).take(4 * 8, 1.0);
    let expected = oracle::run(&model.layers()[0], 1, &input, &[4], [&[5.0; 16], &[]]).outputs;
    let mut engine = Engine::new(model, &options).unwrap();
    let (mut states, mut output) = (vec![5.0; 16], vec![0.0; 4 * 16]);
    engine.run(&input, &[4], Some(&mut states), &mut output).unwrap();
    let worst = output.iter().zip(&expected).map(|(a, b)| (f64::from(*a) - b).abs());
    let worst = worst.fold(0.0, f64::max);
    assert!(worst < 0.05, "{worst}");
}

#[test]
fn numbers_that_bytes_cannot_represent_are_named() {
    let options = EngineOptions { precision: Precision::Int8, ..EngineOptions::default() };
    let mut engine = Engine::new(Model::open("lstm:3x4").unwrap(), &options).unwrap();
    let mut output = [0.0; 3 * 2 * 4];
    let mut input = vec![0.5; 3 * 2 * 3];
    input[(2 * 2 + 1) * 3] = f32::NAN;
    let error = engine.run(&input, &[3, 3], None, &mut output).unwrap_err();
    let text = "int8: row 1 has NaN in step 2; use f32, or finite numbers";
    assert_eq!(error.to_string(), text);
    // Numbers after the last step of a row are not read.
    engine.run(&input, &[3, 2], None, &mut output).unwrap();
    assert!(output.iter().all(|x| x.is_finite()));
    let mut weights = Model::open("lstm:3x4").unwrap().layers()[0].weights().to_vec();
    weights[0].state[5] = f32::INFINITY;
    let layer = Layer::new(Cell::Lstm, 3, 4, Directions::Forward, weights).unwrap();
    let model = Model::from_layers("odd", vec![layer]).unwrap();
    let error = Engine::new(model, &options).map(drop).unwrap_err();
    assert!(matches!(error, EngineError::Bytes { layer: 0, .. }), "{error}");
    assert!(error.to_string().contains("weights that are infinite or NaN"), "{error}");
}
