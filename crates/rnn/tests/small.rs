//! Layers and batches of the smallest sizes: one input, one unit, one step, one row, and none.

use std::time::Duration;

use dyno_rnn::engine::{Engine, EngineOptions};
use dyno_rnn::model::Model;
use dyno_rnn::{Isa, Precision};

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|at| (at * 37 % 256) as f32 / 128.0 - 1.0).collect()
}

/// Runs a model as `rows` equal rows, and compares each with the oracle.
fn check(model: &Model, options: &EngineOptions, [rows, steps]: [usize; 2]) {
    let mut engine = Engine::new(model.clone(), options).expect("a plan");
    let sequence = numbers(steps * model.inputs());
    let expected = model.oracle(&sequence);
    let input: Vec<f32> =
        sequence.chunks(model.inputs()).flat_map(|step| step.repeat(rows)).collect();
    let width = model.outputs();
    let mut output = vec![f32::NAN; steps * rows * width];
    engine.run(&input, &vec![steps; rows], None, &mut output).expect("a batch that fits");
    let within = match options.precision {
        Precision::F32 => 2e-6,
        Precision::Bf16 => 2e-2,
        Precision::Int8 => 4e-2,
    };
    for (place, found) in output.iter().enumerate() {
        let right = expected[place / (rows * width) * width + place % width];
        let off = (f64::from(*found) - right).abs();
        assert!(off < within, "{}, {rows} rows, {options:?}: off by {off}", model.name());
    }
}

#[test]
fn the_smallest_layers_run() {
    for cell in ["lstm", "gru", "rnn", "bilstm", "bigru", "birnn"] {
        for [inputs, units] in [[4, 1], [1, 1], [1, 2], [1, 17], [2, 1], [17, 3]] {
            let model = Model::open(&format!("{cell}:{inputs}x{units}")).unwrap();
            for precision in [Precision::F32, Precision::Bf16, Precision::Int8] {
                for isa in Isa::all() {
                    for threads in [1, 2] {
                        let options =
                            EngineOptions { precision, isa, threads, ..EngineOptions::default() };
                        for [rows, steps] in [[1, 1], [1, 5], [3, 1], [2, 4]] {
                            check(&model, &options, [rows, steps]);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn plans_of_the_smallest_layers_can_be_timed() {
    for text in ["lstm:4x1x1x5", "bigru:1x1x1x1", "rnn:1x1x2x1", "lstm:1x2x1x3"] {
        let model = Model::open(text).unwrap();
        for threads in [1, 2] {
            let tuning = Duration::from_millis(5);
            let steps = model.shape().unwrap()[1];
            let options = EngineOptions { threads, tuning, steps, ..EngineOptions::default() };
            check(&model, &options, [1, 5]);
        }
    }
}
