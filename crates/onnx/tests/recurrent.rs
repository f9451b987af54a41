//! What recurrent layers cost, against the products of their equations.

use std::path::PathBuf;

use dyno_onnx::{BuildError, Builder, Element, Fill, Model, Name, Tensor, Weights, count};

const STEPS: usize = 7;
const WIDTH: usize = 5;
const HIDDEN: usize = 3;

/// A layer of so many gates and directions, fed with `STEPS` steps of each of a batch.
fn layer(op: &str, gates: usize, directions: usize, batch: usize) -> Result<Model, BuildError> {
    let mut net = Builder::new(op, Weights::seeded(1));
    let x = net.input("x", Element::F32, &[STEPS.into(), batch.into(), WIDTH.into()]);
    let even = Fill::lecun(HIDDEN);
    let w = net.weight("w", &[directions, gates * HIDDEN, WIDTH], even)?;
    let r = net.weight("r", &[directions, gates * HIDDEN, HIDDEN], even)?;
    let b = net.weight("b", &[directions, 2 * gates * HIDDEN], even)?;
    let direction = if directions == 2 { "bidirectional" } else { "forward" };
    let choices = [("hidden_size", (HIDDEN as i64).into()), ("direction", direction.into())];
    let [all, last] = net.nodes(op, &[&x, &w, &r, &b, &Name::NONE], &choices)?;
    net.output("all", &all)?;
    net.output("last", &last)?;
    Ok(net.finish())
}

#[test]
fn each_gate_multiplies_what_comes_in_and_what_was_put_out() {
    for (op, gates) in [("RNN", 1), ("GRU", 3), ("LSTM", 4)] {
        for (directions, batch) in [(1, 1), (2, 1), (1, 6), (2, 6)] {
            let cost = count(&layer(op, gates, directions, batch).unwrap());
            let products = directions * gates * HIDDEN * (WIDTH + HIDDEN);
            let weights = products + directions * 2 * gates * HIDDEN;
            let found = (cost.parameters, cost.macs(), cost.layers[0].weight_bytes);
            let expected = (weights, STEPS * batch * products, 4 * weights);
            let expected = (expected.0 as u64, expected.1 as u64, expected.2 as u64);
            assert_eq!(found, expected, "{op}, {directions} directions, batch {batch}");
            assert_eq!(cost.uncounted, [], "{op}");
        }
    }
}

#[test]
fn shapes_have_steps_directions_and_batch() {
    let model = layer("LSTM", 4, 2, 6).unwrap();
    let shape = |at: usize| {
        let dims = model.outputs[at].shape.as_ref().unwrap();
        dims.iter().map(|dim| dim.fixed().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(shape(0), [STEPS, 2, 6, HIDDEN]);
    assert_eq!(shape(1), [2, 6, HIDDEN]);
}

/// `layout` 1 has the batch first, wherever it stands.
#[test]
fn shapes_may_have_the_batch_first() {
    let mut net = Builder::new("first", Weights::seeded(1));
    let x = net.input("x", Element::F32, &[6.into(), STEPS.into(), WIDTH.into()]);
    let w = net.weight("w", &[1, 4 * HIDDEN, WIDTH], Fill::lecun(HIDDEN)).unwrap();
    let r = net.weight("r", &[1, 4 * HIDDEN, HIDDEN], Fill::lecun(HIDDEN)).unwrap();
    let choices = [("hidden_size", (HIDDEN as i64).into()), ("layout", 1_i64.into())];
    let [all, last] = net.nodes("LSTM", &[&x, &w, &r], &choices).unwrap();
    let shape = |of: &Name| net.shape(of).iter().map(dyno_onnx::Dim::fixed).collect::<Vec<_>>();
    assert_eq!(shape(&all), [Some(6), Some(STEPS), Some(1), Some(HIDDEN)]);
    assert_eq!(shape(&last), [Some(6), Some(1), Some(HIDDEN)]);
}

/// A file of the package silero-vad, or `None` after saying that a test is skipped.
fn silero(file: &str) -> Option<Model> {
    let cache = std::env::var_os("DYNO_CACHE").unwrap_or_default();
    let path = PathBuf::from(cache).join("silero-vad-6.2.3/silero_vad/data").join(file);
    if !path.is_file() {
        println!("skipped: DYNO_CACHE has no {file}");
        return None;
    }
    Some(Model::read(&path).expect("it is a model"))
}

/// Edges as PyTorch exports `pad`: how many of each, last axis first, put in order.
#[test]
fn edges_that_are_computed_from_constants_are_known() {
    let mut net = Builder::new("edges", Weights::seeded(1));
    let x = net.input("x", Element::F32, &[1.into(), 576.into()]);
    let count = net.integers(&[2]);
    let zero = Tensor::from_i64("", &[1], &[0]);
    let others = net.node("ConstantOfShape", &[&count], &[("value", zero.into())]).unwrap();
    let edges = net.integers(&[3, 64]);
    let edges = net.node("Concat", &[&edges, &others], &[("axis", 0.into())]).unwrap();
    let pairs = net.integers(&[-1, 2]);
    let edges = net.node("Reshape", &[&edges, &pairs], &[]).unwrap();
    let [from, to] = [-1, i64::MIN + 1].map(|end| net.integers(&[end]));
    let (axis, back) = (net.integers(&[0]), net.integers(&[-1]));
    let edges = net.node("Slice", &[&edges, &from, &to, &axis, &back], &[]).unwrap();
    let edges = net.node("Transpose", &[&edges], &[("perm", [1, 0].into())]).unwrap();
    let row = net.integers(&[-1]);
    let edges = net.node("Reshape", &[&edges, &row], &[]).unwrap();
    let y = net.node("Pad", &[&x, &edges], &[("mode", "reflect".into())]).unwrap();
    assert_eq!(net.shape(&y), [1.into(), (3 + 576 + 64).into()]);
    // No step is too wide.
    for (from, to, step, kept) in [(0, 576, i64::MAX, 1), (575, -577, i64::MIN, 1), (9, 9, 1, 0)] {
        let [from, to, step] = [from, to, step].map(|n| net.integers(&[n]));
        let axis = net.integers(&[1]);
        let part = net.node("Slice", &[&x, &from, &to, &axis, &step], &[]).unwrap();
        assert_eq!(net.shape(&part), [1.into(), kept.into()]);
    }
}

#[test]
fn weights_in_nodes_are_weights() {
    let mut net = Builder::new("constants", Weights::seeded(1));
    let x = net.input("x", Element::F32, &[1.into(), 3.into()]);
    let weights = Tensor::from_f32("", &[3, 2], &[0.5; 6]);
    let w = net.node("Constant", &[], &[("value", weights.into())]).unwrap();
    let y = net.node("MatMul", &[&x, &w], &[]).unwrap();
    net.output("y", &y).unwrap();
    let cost = count(&net.finish());
    assert_eq!((cost.parameters, cost.macs()), (6, 6));
    let bytes: Vec<_> = cost.layers.iter().map(|one| (one.weight_bytes, one.bytes())).collect();
    // The constant itself, the product, and its name.
    assert_eq!(bytes, [(0, 0), (24, 24 + 12 + 8), (0, 16)]);
}

#[test]
fn a_step_of_silero_costs_what_its_layers_multiply() {
    let Some(model) = silero("silero_vad_16k_sequence.onnx") else { return };
    let cost = count(&model);
    // Bins of the transform, channels of four convolutions of kernels of 3, the LSTM, the
    // dense layer; the bias of the LSTM is there twice.
    let convolutions = 3 * (129 * 128 + 128 * 64 + 64 * 64 + 64 * 128);
    let lstm = 4 * 128 * (128 + 128);
    let parameters = 258 * 256 + convolutions + (128 + 64 + 64 + 128) + lstm + 8 * 128 + 129;
    assert_eq!(cost.uncounted, []);
    assert_eq!(cost.parameters, parameters);
    // Five frames at first, one of which is cut off; then four, two, one, and one.
    let frames = 5 * 258 * 256 + 3 * (4 * 129 * 128 + 2 * 128 * 64 + 64 * 64 + 64 * 128);
    assert_eq!(cost.macs(), frames + lstm + 128);
}

#[test]
fn what_stands_in_a_branch_is_said_to_be_uncounted() {
    let Some(model) = silero("silero_vad.onnx") else { return };
    let cost = count(&model);
    let uncounted: Vec<&str> = cost.uncounted.iter().map(|node| node.op.as_str()).collect();
    // The whole network is in one of two branches, of 16 kHz and of 8 kHz; which of them
    // runs depends on an input. The weights of both are there.
    assert_eq!((cost.macs(), &uncounted[..]), (0, &["If"][..]));
    let of = |bins: u64| {
        let convolutions = 3 * (bins * 128 + 128 * 64 + 64 * 64 + 64 * 128);
        let lstm = 4 * 128 * (128 + 128) + 8 * 128;
        2 * bins * 2 * (bins - 1) + convolutions + (128 + 64 + 64 + 128) + lstm + 129
    };
    assert_eq!(cost.parameters, of(129) + of(65));
}
