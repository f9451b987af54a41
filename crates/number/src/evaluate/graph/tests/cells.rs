//! Attributes of recurrent layers and pools.

use super::*;

/// Number of words, of letters per word, and of units.
const SIZES: [usize; 3] = [4, 5, 3];

/// A bidirectional layer over words that are lists of numbers, with its states at all steps and at
/// the end.
fn both_ways(op: &str, samples_first: bool) -> Result<Model, BuildError> {
    let [steps, wide, hidden] = SIZES;
    let gates = if op == "LSTM" { 4 } else { 3 };
    let mut net = Builder::new("both", Weights::seeded(3));
    let x = net.input("x", Element::F32, &[Dim::symbol("N"), steps.into(), wide.into()]);
    let first = net.input("first", Element::F32, &[Dim::symbol("N"), 2.into(), hidden.into()]);
    let inputs = net.weight("cells.W", &[2, gates * hidden, wide], Fill::Uniform(0.8))?;
    let states = net.weight("cells.R", &[2, gates * hidden, hidden], Fill::Uniform(0.8))?;
    let turn = |net: &mut Builder, of: &Name, order: &[i64]| {
        net.node("Transpose", &[of], &[("perm", order.to_vec().into())])
    };
    let mut choices: Vec<(&str, Attribute)> =
        vec![("hidden_size", (hidden as i64).into()), ("direction", "bidirectional".into())];
    let none = Name::NONE;
    let [all, last] = if samples_first {
        choices.push(("layout", 1_i64.into()));
        net.nodes(op, &[&x, &inputs, &states, &none, &none, &first], &choices)?
    } else {
        let (x, first) = (turn(&mut net, &x, &[1, 0, 2])?, turn(&mut net, &first, &[1, 0, 2])?);
        let [all, last] = net.nodes(op, &[&x, &inputs, &states, &none, &none, &first], &choices)?;
        [turn(&mut net, &all, &[2, 0, 1, 3])?, turn(&mut net, &last, &[1, 0, 2])?]
    };
    let [all, last] = [&all, &last].map(|of| net.node("Flatten", &[of], &[]));
    let found = net.node("Concat", &[&all?, &last?], &[("axis", 1_i64.into())])?;
    net.output("states", &found)?;
    Ok(net.finish())
}

fn graph(op: &str, samples_first: bool) -> GraphEvaluator {
    let [steps, wide, hidden] = SIZES;
    let correctness = CorrectnessRule::Agreement(Agreement::Equal);
    let mut all = fed(&[steps, wide], correctness.clone());
    all.inputs.extend(fed(&[2, hidden], correctness).inputs);
    GraphEvaluator::new(&both_ways(op, samples_first).unwrap(), all, sets()).unwrap()
}

#[test]
fn cells_may_have_samples_first() {
    for op in ["LSTM", "GRU"] {
        let (mut plain, mut turned) = (graph(op, false), graph(op, true));
        let formats = assigned(&plain.objects(), &[40, 90]);
        for assignment in [base(), formats] {
            let expected = plain.answers(&assignment, &[0, 9]).unwrap();
            assert_eq!(turned.answers(&assignment, &[0, 9]).unwrap(), expected);
            let [steps, _, hidden] = SIZES;
            assert_eq!(expected[0].len(), (steps + 1) * 2 * hidden);
        }
    }
}

/// A GRU that resets before its product has two inputs of its recurrent weights: the state, and the
/// state after the reset. Other inputs count once, for any number of products and directions.
#[test]
fn what_several_products_are_fed_counts_once() {
    let [steps, wide, hidden] = SIZES;
    for (op, gates, states) in [("LSTM", 4, 1), ("GRU", 3, 2)] {
        let found = graph(op, false).profile();
        let sizes: Vec<u64> = found.iter().map(|layer| layer.activation_size).collect();
        let expected = [steps * wide, 2 * steps * hidden * states].map(|n| n as u64);
        assert_eq!(sizes, expected, "{op}");
        let macs: Vec<u64> = found.iter().map(|layer| layer.macs).collect();
        let expected = [wide, hidden].map(|k| (2 * steps * gates * hidden * k) as u64);
        assert_eq!(macs, expected, "{op}");
    }
}

/// A pool with windows of 3 by 2 numbers, strides of 2 by 3, and columns of padding: one before and
/// two after. Returns its answers for an image of 4 x 4 numbers.
fn pooled(op: &str, attributes: &[(&str, Attribute)], values: &[f32; 16]) -> [Vec<f32>; 2] {
    let mut net = Builder::new("pool", Weights::seeded(1));
    let image = net.input("x", Element::F32, &[Dim::symbol("N"), 1.into(), 4.into(), 4.into()]);
    let mut all: Vec<(&str, Attribute)> = vec![
        ("kernel_shape", [3, 2].into()),
        ("strides", [2, 3].into()),
        ("pads", [0, 1, 0, 2].into()),
    ];
    all.extend(attributes.iter().cloned());
    let x = net.node(op, &[&image], &all).unwrap();
    let x = net.node("Flatten", &[&x], &[]).unwrap();
    net.output("y", &x).unwrap();
    let model = net.finish();
    let inputs = vec![GraphInput { dims: vec![1, 4, 4], values: values.to_vec() }];
    let fed = GraphSamples { inputs, lengths: None, correctness: CorrectnessRule::Labels(vec![0]) };
    let mut graph = GraphEvaluator::new(&model, fed, [vec![0], vec![0], Vec::new()]).unwrap();
    let samples = Samples { values: values.to_vec(), labels: vec![0] };
    let mut chain = ChainEvaluator::new(&model, samples, [vec![0], vec![0], Vec::new()]).unwrap();
    let of_graph = graph.answers(&base(), &[0]).unwrap().remove(0);
    [of_graph, chain.scores(&base(), &[0]).unwrap()]
}

/// Windows begin at rows 0 and 2, and at columns -1 and 2. The second row of windows has two rows
/// of the image out of three. No window begins in the padding after the image.
#[test]
fn pools_that_round_up_have_windows_beyond_the_image() {
    let values: [f32; 16] = std::array::from_fn(|at| at as f32);
    let ceil = ("ceil_mode", Attribute::from(1_i64));
    for found in pooled("MaxPool", &[], &values) {
        assert_eq!(found, [8.0, 11.0], "rounded down, one row of windows");
    }
    for found in pooled("MaxPool", std::slice::from_ref(&ceil), &values) {
        assert_eq!(found, [8.0, 11.0, 12.0, 15.0]);
    }
    for found in pooled("AveragePool", std::slice::from_ref(&ceil), &values) {
        assert_eq!(found, [4.0, 6.5, 10.0, 12.5]);
    }
    // The column of padding counts, the row beyond the image does not.
    let counts = [ceil, ("count_include_pad", Attribute::from(1_i64))];
    for found in pooled("AveragePool", &counts, &values) {
        assert_eq!(found, [2.0, 6.5, 5.0, 12.5]);
    }
}

/// Nodes with shared weights use the products of the first node.
#[test]
fn cells_that_share_weights_reset_alike() {
    let mut model = spoken(Cells::Gru, 1).unwrap();
    let last = model.nodes.iter_mut().rfind(|node| node.op == "GRU").unwrap();
    last.attributes.retain(|(name, _)| name != "linear_before_reset");
    let correctness = CorrectnessRule::Agreement(Agreement::Top);
    let refused =
        GraphEvaluator::new(&model, letters(None, correctness), sets()).unwrap_err().to_string();
    let expected = "shares its weights with a node that resets its state elsewhere";
    assert!(refused.contains(expected), "{refused}");
}

/// An RNN of one direction over words that are lists of numbers.
fn rnn(activations: &[(&str, Attribute)]) -> Result<Model, BuildError> {
    let [steps, wide, hidden] = SIZES;
    let mut net = Builder::new("rnn", Weights::seeded(3));
    let x = net.input("x", Element::F32, &[Dim::symbol("N"), steps.into(), wide.into()]);
    let x = net.node("Transpose", &[&x], &[("perm", vec![1, 0, 2].into())])?;
    let inputs = net.weight("cells.W", &[1, hidden, wide], Fill::Uniform(0.8))?;
    let states = net.weight("cells.R", &[1, hidden, hidden], Fill::Uniform(0.8))?;
    let choices = [&[("hidden_size", (hidden as i64).into())], activations].concat();
    let all = net.node("RNN", &[&x, &inputs, &states], &choices)?;
    let all = net.node("Transpose", &[&all], &[("perm", vec![2, 0, 1, 3].into())])?;
    let all = net.node("Flatten", &[&all], &[])?;
    net.output("states", &all)?;
    Ok(net.finish())
}

/// ONNX Runtime writes the default of the standard, which has two activations, for one direction.
#[test]
fn an_rnn_of_one_direction_may_state_the_default_of_two() {
    let [steps, wide, hidden] = SIZES;
    let stated = |name: &str| ("activations", Attribute::Texts(vec![name.into(), name.into()]));
    let graph = |activations: &[(&str, Attribute)]| {
        let correctness = CorrectnessRule::Agreement(Agreement::Equal);
        GraphEvaluator::new(&rnn(activations).unwrap(), fed(&[steps, wide], correctness), sets())
    };
    let expected = graph(&[]).unwrap().answers(&base(), &[0, 9]).unwrap();
    assert_eq!(expected[0].len(), steps * hidden);
    let found = graph(&[stated("Tanh")]).unwrap().answers(&base(), &[0, 9]).unwrap();
    assert_eq!(found, expected);
    assert!(graph(&[stated("Relu")]).is_err());
}
