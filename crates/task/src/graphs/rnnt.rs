//! RNN-T of the benchmark on LibriSpeech, as two graphs: the encoder (two LSTM layers, two frames
//! stacked, three more layers), and one step of the greedy search with the prediction and the joint
//! network. They are separate because the number of steps depends on the utterance. Names follow
//! the public model's (`lstm.l0.weight_ih` for its `lstm.weight_ih_l0`); gates have the order of
//! ONNX.

use dyno_onnx::{BuildError, Builder, Dim, Element, Fill, Model, Name, Weights};

/// Features of a frame: logarithms of 80 filter banks of three windows.
const FEATURES: usize = 240;
/// Frames of 30 ms in an utterance of 15 s, the longest of the benchmark.
const FRAMES: usize = 500;
const ENCODER: usize = 1024;
const PREDICTION: usize = 320;
const JOINT: usize = 512;
/// 28 characters and the blank.
const SYMBOLS: usize = 29;

/// Builds the encoder: encodings of 250 pairs of frames, `[N, 250, 1024]`.
///
/// # Errors
/// Given weights do not fit the graph.
pub fn encoder(weights: Weights) -> Result<Model, BuildError> {
    let mut net = Builder::new("rnnt-encoder", weights);
    let shape = [Dim::symbol("N"), FRAMES.into(), FEATURES.into()];
    let frames = net.input("frames", Element::F32, &shape);
    let swapped = [("perm", [1, 0, 2].into())];
    let mut x = net.node("Transpose", &[&frames], &swapped)?;
    for (layer, inputs) in [FEATURES, ENCODER].into_iter().enumerate() {
        let name = format!("encoder.pre_rnn.lstm.l{layer}");
        [x, _, _] = lstm(&mut net, &x, &name, [inputs, ENCODER], None)?;
    }
    let x = net.node("Transpose", &[&x], &swapped)?;
    let pairs = net.integers(&[0, FRAMES as i64 / 2, 2 * ENCODER as i64]);
    let x = net.node("Reshape", &[&x, &pairs], &[])?;
    let mut x = net.node("Transpose", &[&x], &swapped)?;
    for (layer, inputs) in [2 * ENCODER, ENCODER, ENCODER].into_iter().enumerate() {
        let name = format!("encoder.post_rnn.lstm.l{layer}");
        [x, _, _] = lstm(&mut net, &x, &name, [inputs, ENCODER], None)?;
    }
    let x = net.node("Transpose", &[&x], &swapped)?;
    net.output("heard", &x)?;
    Ok(net.finish())
}

/// Builds a step of the search: scores `[N, 29]` of the next character and the next states, from
/// the encoding of a frame, the previous character and the states of the prediction network.
///
/// # Errors
/// Given weights do not fit the graph.
pub fn step(weights: Weights) -> Result<Model, BuildError> {
    let mut net = Builder::new("rnnt-step", weights);
    let batch = Dim::symbol("N");
    let heard = net.input("heard", Element::F32, &[batch.clone(), ENCODER.into()]);
    let character = net.input("character", Element::I64, &[batch.clone(), 1.into()]);
    let states = ["output.0", "cell.0", "output.1", "cell.1"]
        .map(|name| net.input(name, Element::F32, &[batch.clone(), 1.into(), PREDICTION.into()]));
    let shape = [SYMBOLS - 1, PREDICTION];
    let table = net.weight("prediction.embed.weight", &shape, Fill::Uniform(0.05))?;
    let swapped = [("perm", [1, 0, 2].into())];
    let x = net.node("Gather", &[&table, &character], &[])?;
    let mut x = net.node("Transpose", &[&x], &swapped)?;
    let mut new = Vec::new();
    for (layer, state) in states.chunks_exact(2).enumerate() {
        let mut turned = |at: usize| net.node("Transpose", &[&state[at]], &swapped);
        let state = (turned(0)?, turned(1)?);
        let name = format!("prediction.dec_rnn.lstm.l{layer}");
        let size = [PREDICTION, PREDICTION];
        let (last, cells);
        [x, last, cells] = lstm(&mut net, &x, &name, size, Some(&state))?;
        new.extend([last, cells]);
    }
    let first = net.integers(&[0]);
    let said = net.node("Squeeze", &[&x, &first], &[])?;
    let both = net.node("Concat", &[&heard, &said], &[("axis", 1.into())])?;
    let y = super::pieces::linear(&mut net, &both, "joint.net.0", JOINT)?;
    let y = net.node("Relu", &[&y], &[])?;
    let scores = super::pieces::linear(&mut net, &y, "joint.net.3", SYMBOLS)?;
    net.output("scores", &scores)?;
    for (name, state) in
        ["next_output.0", "next_cell.0", "next_output.1", "next_cell.1"].into_iter().zip(&new)
    {
        let state = net.node("Transpose", &[state], &swapped)?;
        net.output(name, &state)?;
    }
    Ok(net.finish())
}

/// A forward LSTM layer; returns the outputs of all steps, and output and cell of the last. It has
/// two learned biases, as in PyTorch.
fn lstm(
    net: &mut Builder,
    x: &Name,
    name: &str,
    [inputs, outputs]: [usize; 2],
    state: Option<&(Name, Name)>,
) -> Result<[Name; 3], BuildError> {
    let gates = 4 * outputs;
    let fill = Fill::Uniform((1.0 / outputs as f32).sqrt());
    let mut part = |part: &str, shape: &[usize]| net.weight(&format!("{name}.{part}"), shape, fill);
    let of_inputs = part("weight_ih", &[1, gates, inputs])?;
    let of_outputs = part("weight_hh", &[1, gates, outputs])?;
    let biases = part("biases", &[1, 2 * gates])?;
    let all_long = Name::NONE;
    let mut fed = vec![x, &of_inputs, &of_outputs, &biases];
    if let Some((output, cell)) = state {
        fed.extend([&all_long, output, cell]);
    }
    let size = [("hidden_size", (outputs as i64).into())];
    let [all, last, cells] = net.nodes("LSTM", &fed, &size)?;
    let axis = net.integers(&[1]);
    Ok([net.node("Squeeze", &[&all, &axis], &[])?, last, cells])
}
