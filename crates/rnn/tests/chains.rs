//! Graphs that are chains of layers, and graphs that only look like chains.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use dyno_onnx::{Attribute, Dim, Element, Model as Graph, Node, Port, Tensor, Values};
use dyno_rnn::engine::{Engine, EngineError, EngineOptions};
use dyno_rnn::model::{Model, ModelError};
use dyno_rnn::{Layer, oracle};

const INPUTS: usize = 4;
const UNITS: usize = 4;

/// A graph under construction; nodes are called n0, n1 and so on, their outputs v0, v1.
struct Net(Graph);

impl Net {
    /// Returns a graph with the input `x` of these dimensions.
    fn new(dims: [Dim; 3]) -> Self {
        let input =
            Port { name: "x".into(), element: Some(Element::F32), shape: Some(dims.into()) };
        Self(Graph {
            name: "net".into(),
            producer: "chains.rs".into(),
            ir_version: 8,
            operator_sets: vec![(String::new(), 14)],
            inputs: vec![input],
            outputs: Vec::new(),
            value_info: Vec::new(),
            nodes: Vec::new(),
            tensors: Vec::new(),
        })
    }

    /// Returns a graph with an input of T steps, N rows and 4 numbers.
    fn open() -> Self {
        Self::new([Dim::symbol("T"), Dim::symbol("N"), INPUTS.into()])
    }

    fn tensor(&mut self, mut tensor: Tensor) -> String {
        tensor.name = format!("c{}", self.0.tensors.len());
        let name = tensor.name.clone();
        self.0.tensors.push(tensor);
        name
    }

    fn integers(&mut self, values: &[i64]) -> String {
        self.tensor(Tensor::from_i64("", &[values.len()], values))
    }

    fn floats(&mut self, shape: &[usize]) -> String {
        let mut state = self.0.tensors.len() as u32 + 1;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32 - 0.5
        };
        let numbers: Vec<f32> = (0..shape.iter().product::<usize>()).map(|_| next()).collect();
        self.tensor(Tensor::from_f32("", shape, &numbers))
    }

    fn node(&mut self, op: &str, inputs: &[&str], attributes: &[(&str, Attribute)]) -> String {
        let at = self.0.nodes.len();
        self.0.nodes.push(Node {
            name: format!("n{at}"),
            op: op.into(),
            domain: String::new(),
            inputs: inputs.iter().map(|name| (*name).into()).collect(),
            outputs: vec![format!("v{at}")],
            attributes: attributes
                .iter()
                .map(|(name, value)| ((*name).into(), value.clone()))
                .collect(),
        });
        format!("v{at}")
    }

    /// Adds an LSTM with optional inputs behind its weights.
    fn lstm(&mut self, x: &str, directions: usize, inputs: usize, more: &[&str]) -> String {
        let w = self.floats(&[directions, 4 * UNITS, inputs]);
        let r = self.floats(&[directions, 4 * UNITS, UNITS]);
        let direction = if directions == 2 { "bidirectional" } else { "forward" };
        let attributes = [("hidden_size", (UNITS as i64).into()), ("direction", direction.into())];
        self.node("LSTM", &[&[x, &w, &r, ""], more].concat(), &attributes)
    }

    fn squeeze(&mut self, x: &str) -> String {
        let axes = self.integers(&[1]);
        self.node("Squeeze", &[x, &axes], &[])
    }

    fn transpose(&mut self, x: &str, order: &[i64]) -> String {
        self.node("Transpose", &[x], &[("perm", order.into())])
    }

    fn reshape(&mut self, x: &str, shape: &[i64]) -> String {
        let shape = self.integers(shape);
        self.node("Reshape", &[x, &shape], &[])
    }

    /// Opens the graph with this output.
    fn model(mut self, output: &str) -> Result<Model, ModelError> {
        self.0.outputs.push(Port { name: output.into(), element: None, shape: None });
        opened(&self.0, "")
    }

    /// Returns the node, input or output that breaks the chain, and the description.
    fn broken(self, output: &str) -> (String, String) {
        match self.model(output) {
            Err(ModelError::Broken { name, why, .. }) => (name, why),
            other => panic!("expected a broken chain, found {other:?}"),
        }
    }
}

/// Writes a graph to a temporary file and opens it, or the part of it after the path.
fn opened(graph: &Graph, part: &str) -> Result<Model, ModelError> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let path: PathBuf =
        std::env::temp_dir().join(format!("dyno-chain-{}-{count}.onnx", std::process::id()));
    std::fs::write(&path, graph.to_bytes().expect("a graph that can be written")).expect("a file");
    let model = Model::open(&format!("{}{part}", path.display()));
    std::fs::remove_file(path).expect("the file was written");
    model
}

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|at| (at * 37 % 256) as f32 / 128.0 - 1.0).collect()
}

/// Asserts that an engine computes `steps` x `rows` numbers like the layers one after the other,
/// from these hidden states and cell states of the first layer and with these lengths of it.
fn check(model: &Model, [steps, rows]: [usize; 2], states: [&[f32]; 2], lengths: &[usize]) {
    let mut engine = Engine::new(model.clone(), &EngineOptions::default()).expect("a plan");
    let input = numbers(steps * rows * model.inputs());
    let mut output = vec![f32::NAN; steps * rows * model.outputs()];
    engine.run(&input, &vec![steps; rows], None, &mut output).expect("a batch that fits");
    let run = |layer: &Layer, input: &[f32], lengths: &[usize], states| -> Vec<f32> {
        let outputs = oracle::run(layer, rows, input, lengths, states).outputs;
        outputs.into_iter().map(|x| x as f32).collect()
    };
    let mut expected = run(&model.layers()[0], &input, lengths, states);
    for layer in &model.layers()[1..] {
        expected = run(layer, &expected, &vec![steps; rows], [&[], &[]]);
    }
    let worst = output.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(output.len() == expected.len() && worst < 2e-6, "{worst:e}");
}

#[test]
fn layers_follow_through_operators_that_move_all_axes_back() {
    let mut net = Net::open();
    let y = net.lstm("x", 2, INPUTS, &[]);
    let y = net.transpose(&y, &[0, 2, 1, 3]);
    let y = net.reshape(&y, &[0, 0, -1]);
    let y = net.node("Dropout", &[&y], &[]);
    let y = net.node("Cast", &[&y], &[("to", 1.into())]);
    let y = net.lstm(&y, 1, 2 * UNITS, &[]);
    let y = net.squeeze(&y);
    // Twice the other way around.
    let y = net.transpose(&y, &[1, 0, 2]);
    let y = net.transpose(&y, &[1, 0, 2]);
    let y = net.node("Identity", &[&y], &[]);
    let y = net.lstm(&y, 1, UNITS, &[]);
    let model = net.model(&y).unwrap();
    assert_eq!((model.layers().len(), model.outputs()), (3, UNITS));
    check(&model, [5, 3], [&[], &[]], &[5; 3]);
}

#[test]
fn shapes_that_a_graph_computes_are_followed() {
    let mut net = Net::new([Dim::symbol("N"), Dim::symbol("T"), INPUTS.into()]);
    let x = net.transpose("x", &[1, 0, 2]);
    let y = net.lstm(&x, 2, INPUTS, &[]);
    let turned = net.transpose(&y, &[0, 2, 1, 3]);
    // As PyTorch writes `reshape(x.shape[0], x.shape[1], -1)`.
    let shape = net.node("Shape", &[&x], &[]);
    let parts: Vec<String> = [0, 1]
        .into_iter()
        .map(|at| {
            let index = net.tensor(Tensor::from_i64("", &[], &[at]));
            let size = net.node("Gather", &[&shape, &index], &[]);
            let axes = net.integers(&[0]);
            net.node("Unsqueeze", &[&size, &axes], &[])
        })
        .collect();
    let rest = net.integers(&[-1]);
    let target = net.node("Concat", &[&parts[0], &parts[1], &rest], &[("axis", 0.into())]);
    let joined = net.node("Reshape", &[&turned, &target], &[]);
    let y = net.lstm(&joined, 1, 2 * UNITS, &[]);
    let model = net.model(&y).unwrap();
    assert_eq!(model.layers().len(), 2);
    check(&model, [4, 3], [&[], &[]], &[4; 3]);
}

#[test]
fn layers_over_another_axis_are_no_chain() {
    // Steps and rows of equal size, so that no shape reveals the difference.
    for size in [Dim::Fixed(6), Dim::symbol("T")] {
        let mut net = Net::new([size.clone(), size, INPUTS.into()]);
        let y = net.lstm("x", 1, INPUTS, &[]);
        let y = net.squeeze(&y);
        let y = net.transpose(&y, &[1, 0, 2]);
        let y = net.lstm(&y, 1, UNITS, &[]);
        let (name, why) = net.broken(&y);
        assert_eq!(name, "n3");
        let expected =
            "reads the rows of `n0` as steps, its steps as rows and its outputs as inputs";
        assert_eq!(why, expected);
    }
}

#[test]
fn reshapes_that_mix_axes_are_no_chain() {
    // Directions and rows, steps and rows, and steps and units.
    for (directions, shape) in [(2, [6, 6, 8]), (2, [0, -1, 8]), (1, [2, 18, 4]), (1, [3, 6, 8])] {
        for size in [Dim::Fixed(6), Dim::symbol("T")] {
            let mut net = Net::new([size.clone(), size, INPUTS.into()]);
            let y = net.lstm("x", directions, INPUTS, &[]);
            let y = net.reshape(&y, &shape);
            let y = net.lstm(&y, 1, shape[2] as usize, &[]);
            let (name, why) = net.broken(&y);
            assert_eq!(name, "n1");
            assert!(why.starts_with("(Reshape) changes ["), "{why}");
        }
    }
}

#[test]
fn nodes_that_compute_numbers_are_no_part_of_a_chain() {
    for op in ["Relu", "Softmax", "Neg"] {
        // Between two layers, in front of them, and behind them.
        for place in 0..3 {
            let mut net = Net::open();
            let mut y = "x".to_owned();
            for at in 0..3 {
                if at == place {
                    y = net.node(op, &[&y], &[]);
                } else {
                    y = net.lstm(&y, 1, INPUTS, &[]);
                    y = net.squeeze(&y);
                }
            }
            let (name, why) = net.broken(&y);
            assert_eq!(name, format!("n{}", [0, 2, 4][place]));
            assert!(why.starts_with(&format!("({op}) computes")), "{why}");
        }
    }
    let mut net = Net::open();
    let y = net.lstm("x", 1, INPUTS, &[]);
    let y = net.node("Cast", &[&y], &[("to", 6.into())]);
    let y = net.node("Cast", &[&y], &[("to", 1.into())]);
    let (name, why) = net.broken(&y);
    assert_eq!((&*name, &*why), ("n1", "(Cast) converts the numbers to int32"));
    let mut net = Net::open();
    let yes = net.tensor(Tensor {
        name: String::new(),
        element: Element::Bool,
        shape: Vec::new(),
        values: Values::Bytes(vec![1]),
    });
    let y = net.lstm("x", 1, INPUTS, &[]);
    let y = net.node("Dropout", &[&y, "", &yes], &[]);
    assert_eq!(net.broken(&y), ("n1".into(), "(Dropout) is in training mode".into()));
}

#[test]
fn a_residual_is_named_and_each_layer_runs_alone() {
    let mut net = Net::open();
    let a = net.lstm("x", 1, INPUTS, &[]);
    let a = net.squeeze(&a);
    let b = net.lstm(&a, 1, UNITS, &[]);
    let b = net.squeeze(&b);
    let sum = net.node("Add", &[&a, &b], &[]);
    net.0.outputs.push(Port { name: sum, element: None, shape: None });
    let error = opened(&net.0, "").unwrap_err().to_string();
    assert!(error.contains(": `n4` (Add) computes numbers"), "{error}");
    assert!(error.ends_with("to run a layer alone, use FILE#LAYER with one of n0, n2"), "{error}");
    assert_eq!(opened(&net.0, "#n2").unwrap().layers().len(), 1);
    let unknown = opened(&net.0, "#n3").unwrap_err().to_string();
    assert!(unknown.ends_with("has no recurrent layer `n3`; it has n0, n2"), "{unknown}");
}

#[test]
fn last_states_are_outputs_and_no_sequences() {
    let mut net = Net::open();
    let _ = net.lstm("x", 1, INPUTS, &[]);
    net.0.nodes[0].outputs = vec![String::new(), "last".into(), "cells".into()];
    assert_eq!(net.model("last").unwrap().layers().len(), 1);
    let mut net = Net::open();
    let _ = net.lstm("x", 1, INPUTS, &[]);
    net.0.nodes[0].outputs = vec![String::new(), "last".into()];
    let y = net.lstm("last", 1, UNITS, &[]);
    let (name, why) = net.broken(&y);
    assert_eq!((&*name, &*why), ("n1", "reads a last state of `n0` as a sequence"));
    // The sequence of an inner layer is not returned.
    let mut net = Net::open();
    let inner = net.lstm("x", 1, INPUTS, &[]);
    let y = net.squeeze(&inner);
    let y = net.lstm(&y, 1, UNITS, &[]);
    net.0.outputs.push(Port { name: inner, element: None, shape: None });
    let (name, why) = net.broken(&y);
    assert_eq!((&*name, &*why), ("v0", "is the sequence of `n0`, which is not the last layer"));
}

#[test]
fn states_and_lengths_that_a_graph_computes_are_named() {
    for (at, input) in ["sequence_lens", "initial_h", "initial_c"].into_iter().enumerate() {
        let mut net = Net::open();
        let (element, shape) = if at == 0 {
            (Element::I32, vec![Dim::symbol("N")])
        } else {
            (Element::F32, vec![1.into(), Dim::symbol("N"), UNITS.into()])
        };
        net.0.inputs.push(Port { name: "fed".into(), element: Some(element), shape: Some(shape) });
        let more: Vec<&str> = (0..=at).map(|own| if own == at { "fed" } else { "" }).collect();
        let y = net.lstm("x", 1, INPUTS, &more);
        net.0.outputs.push(Port { name: y, element: None, shape: None });
        assert_eq!(opened(&net.0, "#n0").unwrap().rows(), None);
        let error = opened(&net.0, "").unwrap_err().to_string();
        let expected = format!("`n0` reads {input} from `fed`, which is not constant");
        assert!(error.contains(&expected), "{error}");
    }
}

/// A state of rows that are equal, or not.
fn state(net: &mut Net, rows: usize, is_equal: bool) -> (String, Vec<f32>) {
    let numbers: Vec<f32> = (0..rows * UNITS)
        .map(|at| if is_equal { at % UNITS } else { at } as f32 / 16.0 - 0.4)
        .collect();
    (net.tensor(Tensor::from_f32("", &[1, rows, UNITS], &numbers)), numbers)
}

#[test]
fn constant_states_are_those_of_every_row_or_of_a_fixed_batch() {
    let mut net = Net::open();
    let ((h, hidden), (c, cells)) = (state(&mut net, 6, true), state(&mut net, 6, true));
    let y = net.lstm("x", 1, INPUTS, &["", &h, &c]);
    let y = net.squeeze(&y);
    let y = net.lstm(&y, 1, UNITS, &[]);
    let model = net.model(&y).unwrap();
    assert_eq!(model.rows(), None);
    for rows in [1, 2, 5, 6] {
        let first = rows * UNITS;
        check(&model, [3, rows], [&hidden[..first], &cells[..first]], &vec![3; rows]);
    }
    let engine = Engine::new(model.clone(), &EngineOptions::default()).unwrap();
    let initial = engine.initial_states(1).unwrap();
    assert_eq!(initial[..2 * UNITS], [&hidden[..UNITS], &cells[..UNITS]].concat());
    assert_eq!(initial[2 * UNITS..], [0.0; 2 * UNITS]);
    // The oracle starts from the same states.
    let sequence = numbers(3 * INPUTS);
    let run = |layer: &Layer, input: &[f32], states| oracle::run(layer, 1, input, &[3], states);
    let first = run(&model.layers()[0], &sequence, [&hidden[..UNITS], &cells[..UNITS]]).outputs;
    let first: Vec<f32> = first.into_iter().map(|x| x as f32).collect();
    let expected = run(&model.layers()[1], &first, [&[], &[]]).outputs;
    assert_eq!(model.oracle(&sequence), expected);

    let mut net = Net::open();
    let (h, hidden) = state(&mut net, 3, false);
    let y = net.lstm("x", 1, INPUTS, &["", &h]);
    let model = net.model(&y).unwrap();
    assert_eq!(model.rows(), Some(3));
    check(&model, [3, 3], [&hidden, &[]], &[3; 3]);
    let mut engine = Engine::new(model, &EngineOptions::default()).unwrap();
    let error = engine.run(&numbers(8 * INPUTS), &[4; 2], None, &mut [0.0; 8 * UNITS]);
    assert_eq!(error, Err(EngineError::Rows { expected: 3, found: 2 }));
}

#[test]
fn constant_lengths_end_each_row() {
    let lengths = |net: &mut Net, lengths: &[i32]| {
        let bytes = lengths.iter().flat_map(|length| length.to_le_bytes()).collect();
        let (element, shape) = (Element::I32, vec![lengths.len()]);
        net.tensor(Tensor { name: String::new(), element, shape, values: Values::Bytes(bytes) })
    };
    let mut net = Net::open();
    let own = lengths(&mut net, &[1, 2, 3, 4]);
    let y = net.lstm("x", 2, INPUTS, &[&own]);
    let y = net.transpose(&y, &[0, 2, 1, 3]);
    let y = net.reshape(&y, &[0, 0, -1]);
    let y = net.lstm(&y, 1, 2 * UNITS, &[]);
    let model = net.model(&y).unwrap();
    assert_eq!(model.rows(), Some(4));
    check(&model, [5, 4], [&[], &[]], &[1, 2, 3, 4]);
    let mut engine = Engine::new(model, &EngineOptions::default()).unwrap();
    let error = engine.run(&numbers(16 * INPUTS), &[4, 4, 4, 3], None, &mut [0.0; 16 * UNITS]);
    assert_eq!(
        error.unwrap_err().to_string(),
        "`n0` has 4 in sequence_lens, but row 3 has 3 steps"
    );

    let mut net = Net::new([3.into(), 2.into(), INPUTS.into()]);
    let own = lengths(&mut net, &[3, 4]);
    let y = net.lstm("x", 1, INPUTS, &[&own]);
    let too_long = "has 4 in sequence_lens, but its input has 3 steps";
    assert_eq!(net.broken(&y), ("n0".into(), too_long.into()));
    let mut net = Net::new([3.into(), 2.into(), INPUTS.into()]);
    let own = lengths(&mut net, &[3, 3, 3]);
    let y = net.lstm("x", 1, INPUTS, &[&own]);
    let other_rows = "has initial states or sequence_lens of 3 rows, but its input has 2";
    assert_eq!(net.broken(&y), ("n0".into(), other_rows.into()));
    let mut net = Net::open();
    let own = lengths(&mut net, &[3, -1]);
    let y = net.lstm("x", 1, INPUTS, &[&own]);
    let error = net.model(&y).unwrap_err().to_string();
    assert!(error.ends_with("n0: sequence_lens has the negative length -1"), "{error}");
}

#[test]
fn nodes_that_contradict_themselves_are_named() {
    let mut net = Net::open();
    let y = net.lstm("x", 1, INPUTS, &[]);
    net.0.nodes[0].attributes[0].1 = 5.into();
    let error = net.model(&y).unwrap_err().to_string();
    assert!(error.ends_with("n0: hidden_size is 5, but the weights have 4 units"), "{error}");
    let mut net = Net::open();
    let y = net.lstm("x", 1, INPUTS + 1, &[]);
    let (name, why) = net.broken(&y);
    assert_eq!((&*name, &*why), ("n0", "reads 4 numbers per step, but its weights expect 5"));
    let mut net = Net::open();
    let h = net.floats(&[1, 3, UNITS + 1]);
    let y = net.lstm("x", 1, INPUTS, &["", &h]);
    let error = net.model(&y).unwrap_err().to_string();
    assert!(error.contains("of n0': expected [1, 3, 4], found [1, 3, 5]"), "{error}");
    // Two nodes compute one value.
    let mut net = Net::open();
    let y = net.lstm("x", 1, INPUTS, &[]);
    let z = net.lstm("x", 1, INPUTS, &[]);
    net.0.nodes[1].outputs = vec![y.clone()];
    let error = net.model(&z).unwrap_err().to_string();
    assert!(error.contains("'n0' and 'n1' both compute 'v0'"), "{error}");
}

#[test]
fn weights_in_a_missing_file_are_named() {
    let mut net = Net::new([Dim::symbol("T"), Dim::symbol("N"), 256.into()]);
    let y = net.lstm("x", 1, 256, &[]);
    net.0.outputs.push(Port { name: y, element: None, shape: None });
    let folder = std::env::temp_dir().join(format!("dyno-chain-apart-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for temporary files");
    let written = net.0.write_external_above(&folder.join("net.onnx"), 0).expect("two files");
    let path = written.model.display().to_string();
    assert_eq!(Model::open(&path).unwrap().inputs(), 256);
    std::fs::remove_file(written.weights.expect("weights apart")).expect("the file was written");
    let error = Model::open(&path).unwrap_err().to_string();
    assert!(error.contains("n0: cannot read `c0`: cannot read"), "{error}");
    assert!(error.contains("net.onnx.data"), "{error}");
    std::fs::remove_dir_all(folder).expect("the folder was there");
}

#[test]
fn long_graphs_take_linear_time_and_deep_ones_little_stack() {
    let mut net = Net::open();
    let mut y = net.lstm("x", 1, INPUTS, &[]);
    for _ in 0..100_000 {
        y = net.node("Identity", &[&y], &[]);
    }
    let long = net.0.clone();
    assert_eq!(net.model(&y).unwrap().layers().len(), 1);
    let mut net = Net(long);
    let y = net.node("Relu", &[&y], &[]);
    assert_eq!(net.broken(&y).0, "n100001");
    // Weights that double a hundred times.
    let mut net = Net::open();
    let mut w = net.floats(&[1, 4 * UNITS, INPUTS]);
    for _ in 0..60 {
        w = net.node("Concat", &[&w, &w], &[("axis", 1.into())]);
    }
    let r = net.floats(&[1, 4 * UNITS, UNITS]);
    let y = net.node("LSTM", &["x", &w, &r], &[]);
    assert!(matches!(net.model(&y), Err(ModelError::Import { .. })));
}

/// Whether arrays of the engine are those of the graph, or which array is not.
fn rearranged(model: &Model) -> Option<String> {
    match model.check_arrays() {
        Ok(()) => None,
        Err(ModelError::Rearranged { port, .. }) => Some(port),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn arrays_in_another_order_than_the_engines_are_named() {
    let dims = || [Dim::symbol("T"), Dim::symbol("N"), INPUTS.into()];
    // One direction beside the steps does not change the order of numbers.
    let mut net = Net::new(dims());
    let y = net.lstm("x", 1, INPUTS, &[]);
    assert_eq!(rearranged(&net.model(&y).unwrap()), None);
    let mut net = Net::new(dims());
    let y = net.lstm("x", 2, INPUTS, &[]);
    let raw = Net(net.0.clone());
    let y = net.transpose(&y, &[0, 2, 1, 3]);
    assert_eq!(rearranged(&net.model(&y).unwrap()), None);
    assert_eq!(rearranged(&raw.model("v0").unwrap()).as_deref(), Some("v0"));
    // Rows first, also if there is a single one.
    for rows in [Dim::symbol("N"), Dim::Fixed(1)] {
        let mut net = Net::new([rows, Dim::symbol("T"), INPUTS.into()]);
        let x = net.transpose("x", &[1, 0, 2]);
        let y = net.lstm(&x, 1, INPUTS, &[]);
        net.0.outputs.push(Port { name: y, element: None, shape: None });
        assert_eq!(rearranged(&opened(&net.0, "").unwrap()).as_deref(), Some("x"));
        assert_eq!(rearranged(&opened(&net.0, "#n1").unwrap()), None);
    }
    let mut net = Net::new(dims());
    let y = net.lstm("x", 1, INPUTS, &[]);
    let y = net.squeeze(&y);
    let y = net.transpose(&y, &[1, 0, 2]);
    assert_eq!(rearranged(&net.model(&y).unwrap()), Some(y));
    // A last state.
    let mut net = Net::new(dims());
    let _ = net.lstm("x", 1, INPUTS, &[]);
    net.0.nodes[0].outputs = vec![String::new(), "last".into()];
    assert_eq!(rearranged(&net.model("last").unwrap()).as_deref(), Some("last"));
}
