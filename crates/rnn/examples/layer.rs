//! Runs a recurrent layer of an ONNX file over raw numbers: `layer MODEL WHICH BATCH PRECISION
//! FOLDER`.
//!
//! WHICH is the index of the layer in the file, from 0, counting unrolled cells as layers. PRECISION
//! is `f32`, `bf16` or `int8`. The folder contains the input `x`, steps x batch x inputs, and `h` and
//! `c` if the layer has initial states. The example writes `y`, steps x batch x outputs, and the
//! states after the last step to `h` and `c`. All files hold little-endian 32-bit numbers.

use std::path::Path;

use dyno_kernels::{Isa, Precision, Team};
use dyno_onnx::Model;
use dyno_rnn::import::{InitialState, layers, reroll};
use dyno_rnn::sequence::States;
use dyno_rnn::{Choice, Sequence};

fn read(folder: &Path, name: &str) -> Vec<f32> {
    let bytes = std::fs::read(folder.join(name)).unwrap_or_default();
    bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect()
}

fn write(folder: &Path, name: &str, numbers: &[f32]) {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    std::fs::write(folder.join(name), bytes).expect("the folder is there");
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [model, which, batch, precision, folder] = &words[..] else {
        panic!("usage: layer MODEL WHICH BATCH PRECISION FOLDER")
    };
    let precision = match precision.as_str() {
        "bf16" => Precision::Bf16,
        "int8" => Precision::Int8,
        _ => Precision::F32,
    };
    let folder = Path::new(folder);
    let [which, batch] = [which, batch].map(|word| word.parse::<usize>().expect("a whole number"));

    let model = Model::read(Path::new(model)).expect("an ONNX file");
    let (model, _) = reroll(&model);
    let found = &layers(&model).expect("layers with constant weights")[which];
    let layer = &found.layer;

    let choice = Choice { chunk: 16, ..Choice::one_worker(precision) };
    let mut sequence = Sequence::new(layer, batch, &choice, Isa::best()).expect("a plan");
    let initial = |which: usize, name: &str| match &found.initial[which] {
        InitialState::Zeros => Vec::new(),
        InitialState::Given(numbers) => numbers.clone(),
        InitialState::Fed(_) => read(folder, name),
    };
    let states = States { hidden: initial(0, "h"), cells: initial(1, "c") };
    sequence.set_states(&states).expect("states of this layer");

    let input = read(folder, "x");
    let steps = input.len() / (batch * layer.inputs());
    let mut output = vec![0.0; steps * batch * layer.outputs()];
    sequence.run_on(&mut Team::with_workers(1), &input, &mut output).expect("sizes that fit");
    let states = sequence.states();
    for (name, numbers) in [("y", &output), ("h", &states.hidden), ("c", &states.cells)] {
        write(folder, name, numbers);
    }
    println!("{} {} {} {}", found.name, layer.inputs(), layer.units(), layer.outputs());
}
