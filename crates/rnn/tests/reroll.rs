//! Unrolled cells, as exporters write them, become layers.

use std::path::Path;

use dyno_onnx::{Attribute, Builder, Dim, Element, Model, Name, Tensor, Weights as Source};
use dyno_rnn::import::{InitialState, layers, reroll};
use dyno_rnn::{Cell, CellOptions, Directions, Layer, Weights, oracle};
use serde_json::Value;

const INPUTS: usize = 3;
const UNITS: usize = 2;
const STEPS: usize = 4;
const BATCH: usize = 2;

/// Numbers between -1 and 1 that depend on the seed.
fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761);
    let mut next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(&mut next).collect()
}

fn transposed(numbers: &[f32], rows: usize) -> Vec<f32> {
    let columns = numbers.len() / rows;
    (0..numbers.len()).map(|at| numbers[at % rows * columns + at / rows]).collect()
}

/// Notation of the sums under the gates of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Notation {
    /// Two `Gemm` with rows as outputs, added and split: a cell of PyTorch.
    Gemm,
    /// Two `MatMul` and a bias added, split: a cell of Keras.
    MatMul,
    /// One `Gemm` of input and state side by side, cut by `Slice`, and 1 added to the second: a
    /// cell of TensorFlow 1.
    Joined,
    /// A `Gemm` for each gate.
    Apart,
}

/// A graph of cells, one after the other.
struct UnrolledGraph {
    net: Builder,
    cell: Cell,
    weights: Weights,
    written: Notation,
    constants: usize,
}

impl UnrolledGraph {
    fn new(cell: Cell, written: Notation) -> Self {
        let rows = cell.gates() * UNITS;
        let mut weights = Weights {
            input: numbers(rows * INPUTS, 1),
            state: numbers(rows * UNITS, 2),
            input_bias: numbers(rows, 3),
            state_bias: numbers(rows, 4),
        };
        if matches!(written, Notation::MatMul | Notation::Joined) {
            weights.state_bias.fill(0.0);
        }
        Self {
            net: Builder::new("unrolled", Source::seeded(1)),
            cell,
            weights,
            written,
            constants: 0,
        }
    }

    /// A separate constant for each step, as some exporters write them.
    fn constant(&mut self, shape: &[usize], values: &[f32]) -> Name {
        self.constants += 1;
        let tensor = Tensor::from_f32(format!("constant {}", self.constants), shape, values);
        self.net.tensor(tensor).expect("names are counted")
    }

    fn index(&mut self, at: usize) -> Name {
        self.constants += 1;
        let tensor = Tensor::from_i64(format!("index {}", self.constants), &[], &[at as i64]);
        self.net.tensor(tensor).expect("names are counted")
    }

    fn node(&mut self, op: &str, inputs: &[&Name], attributes: &[(&str, Attribute)]) -> Name {
        self.net.node(op, inputs, attributes).expect("shapes that fit")
    }

    /// Order of the cell's gates.
    fn order(&self) -> Vec<usize> {
        match (self.cell, self.written) {
            (Cell::Lstm, Notation::Joined) => vec![0, 2, 1, 3],
            (Cell::Lstm, _) => vec![0, 1, 2, 3],
            (_, Notation::Gemm) => vec![1, 0, 2],
            _ => vec![0, 1, 2],
        }
    }

    /// Rows of the gates in the order of the notation.
    fn ordered(&self, rows: &[f32]) -> Vec<f32> {
        let gate = rows.len() / self.cell.gates();
        self.order().iter().flat_map(|at| rows[at * gate..][..gate].to_vec()).collect()
    }

    /// Splits a sum into the gates of the cell, in the cell's order.
    fn cut(&mut self, sums: &Name) -> Vec<Name> {
        let order = self.order();
        let parts: Vec<Name> = if self.written == Notation::Joined {
            let part = |at: usize, net: &mut Builder| {
                let ends = [at * UNITS, (at + 1) * UNITS].map(|end| net.integers(&[end as i64]));
                let axes = net.integers(&[-1]);
                net.node("Slice", &[sums, &ends[0], &ends[1], &axes], &[]).expect("a part")
            };
            (0..order.len()).map(|at| part(at, &mut self.net)).collect()
        } else if order.len() == 4 {
            let found: [Name; 4] =
                self.net.nodes("Split", &[sums], &[("axis", 1.into())]).expect("four parts");
            found.to_vec()
        } else {
            let sizes = self.net.integers(&[UNITS as i64; 3]);
            let found: [Name; 3] =
                self.net.nodes("Split", &[sums, &sizes], &[("axis", (-1).into())]).expect("three");
            found.to_vec()
        };
        let place = |gate: usize| order.iter().position(|other| *other == gate).expect("all gates");
        (0..order.len()).map(|gate| parts[place(gate)].clone()).collect()
    }

    /// Products of a value with the weights of the input or of the state, including biases.
    fn product(&mut self, value: &Name, is_state: bool) -> Name {
        let (weights, bias, width) = if is_state {
            (self.weights.state.clone(), self.weights.state_bias.clone(), UNITS)
        } else {
            (self.weights.input.clone(), self.weights.input_bias.clone(), INPUTS)
        };
        let (weights, bias) = (self.ordered(&weights), self.ordered(&bias));
        let rows = bias.len();
        if self.written == Notation::Gemm {
            let (weights, bias) =
                (self.constant(&[rows, width], &weights), self.constant(&[rows], &bias));
            return self.node("Gemm", &[value, &weights, &bias], &[("transB", 1.into())]);
        }
        let weights = self.constant(&[width, rows], &transposed(&weights, rows));
        let product = self.node("MatMul", &[value, &weights], &[]);
        if is_state {
            return product;
        }
        let bias = self.constant(&[1, rows], &bias);
        self.node("Add", &[&bias, &product], &[])
    }

    /// Sums under the gates of an LSTM.
    fn sums(&mut self, x: &Name, h: &Name) -> Vec<Name> {
        match self.written {
            Notation::Gemm | Notation::MatMul => {
                let (input, state) = (self.product(x, false), self.product(h, true));
                let sums = self.node("Add", &[&input, &state], &[]);
                self.cut(&sums)
            }
            Notation::Joined => {
                let rows = 4 * UNITS;
                let both = self.node("Concat", &[x, h], &[("axis", 1.into())]);
                let [input, state] = [&self.weights.input, &self.weights.state]
                    .map(|rows_of_gates| transposed(&self.ordered(rows_of_gates), rows));
                let kernel = self.constant(&[INPUTS + UNITS, rows], &[input, state].concat());
                // 1 is added to it later.
                let mut bias = self.weights.input_bias.clone();
                bias[UNITS..2 * UNITS].iter_mut().for_each(|bias| *bias -= 1.0);
                let bias = self.ordered(&bias);
                let bias = self.constant(&[rows], &bias);
                let sums = self.node("Gemm", &[&both, &kernel, &bias], &[]);
                let mut gates = self.cut(&sums);
                let one = self.constant(&[], &[1.0]);
                gates[1] = self.node("Add", &[&gates[1], &one], &[]);
                gates
            }
            Notation::Apart => (0..4).map(|gate| self.apart(gate, x, h)).collect(),
        }
    }

    /// The separate sum under one gate.
    fn apart(&mut self, gate: usize, x: &Name, h: &Name) -> Name {
        let part =
            |numbers: &[f32]| numbers[gate * numbers.len() / 4..][..numbers.len() / 4].to_vec();
        let all = self.weights.clone();
        let (input, state) = (part(&all.input), part(&all.state));
        let (b, c) = (part(&all.input_bias), part(&all.state_bias));
        let (w, b) = (self.constant(&[UNITS, INPUTS], &input), self.constant(&[UNITS], &b));
        let (u, c) = (self.constant(&[UNITS, UNITS], &state), self.constant(&[UNITS], &c));
        let input = self.node("Gemm", &[x, &w, &b], &[("transB", 1.into())]);
        let state = self.node("Gemm", &[h, &u, &c], &[("transB", 1.into())]);
        self.node("Add", &[&state, &input], &[])
    }

    fn lstm(&mut self, x: &Name, [h, c]: [&Name; 2]) -> [Name; 2] {
        let sums = self.sums(x, h);
        let [i, f, o] = [0, 1, 3].map(|gate: usize| self.node("Sigmoid", &[&sums[gate]], &[]));
        let g = self.node("Tanh", &[&sums[2]], &[]);
        let (new, kept) = (self.node("Mul", &[&i, &g], &[]), self.node("Mul", &[&f, c], &[]));
        let c = self.node("Add", &[&kept, &new], &[]);
        let shown = self.node("Tanh", &[&c], &[]);
        [self.node("Mul", &[&o, &shown], &[]), c]
    }

    /// Adds a step of a GRU. `reset_first` resets the state instead of the product as in PyTorch;
    /// `short` uses n + z (h - n).
    fn gru(&mut self, x: &Name, h: &Name, reset_first: bool, short: bool) -> Name {
        let input = self.product(x, false);
        let (inputs, state) = (self.cut(&input), self.product(h, true));
        let states = self.cut(&state);
        let [z, r] = [0, 1].map(|gate: usize| {
            let sum = self.node("Add", &[&inputs[gate], &states[gate]], &[]);
            self.node("Sigmoid", &[&sum], &[])
        });
        let new = if reset_first {
            let reset = self.node("Mul", &[&r, h], &[]);
            let product = self.product(&reset, true);
            self.cut(&product)[2].clone()
        } else {
            self.node("Mul", &[&r, &states[2]], &[])
        };
        let new = self.node("Add", &[&inputs[2], &new], &[]);
        let n = self.node("Tanh", &[&new], &[]);
        if short {
            let difference = self.node("Sub", &[h, &n], &[]);
            let part = self.node("Mul", &[&difference, &z], &[]);
            return self.node("Add", &[&part, &n], &[]);
        }
        let one = self.constant(&[], &[1.0]);
        let rest = self.node("Sub", &[&one, &z], &[]);
        let (kept, new) = (self.node("Mul", &[&z, h], &[]), self.node("Mul", &[&rest, &n], &[]));
        self.node("Add", &[&new, &kept], &[])
    }

    /// Splits an input x of steps x batch x inputs into steps.
    fn inputs(&mut self) -> Vec<Name> {
        let shape = [STEPS.into(), BATCH.into(), INPUTS.into()];
        let x = self.net.input("x", Element::F32, &shape);
        let step = |at: usize| {
            let index = self.index(at);
            self.node("Gather", &[&x, &index], &[("axis", 0.into())])
        };
        (0..STEPS).map(step).collect()
    }

    fn state(&mut self, name: &str) -> Name {
        self.net.input(name, Element::F32, &[BATCH.into(), UNITS.into()])
    }

    fn layer(&self, reset_first: bool) -> Layer {
        let mut weights = self.weights.clone();
        if reset_first || self.cell == Cell::Lstm {
            let both = weights.input_bias.iter().zip(&weights.state_bias);
            weights.input_bias = both.map(|(a, b)| a + b).collect();
            weights.state_bias.fill(0.0);
        } else {
            // Only the bias of n is under the reset gate.
            for at in 0..2 * UNITS {
                weights.input_bias[at] += weights.state_bias[at];
                weights.state_bias[at] = 0.0;
            }
        }
        let options = CellOptions { reset_first, ..CellOptions::default() };
        let directions = Directions::Forward;
        Layer::with_options(self.cell, INPUTS, UNITS, directions, vec![weights], options)
            .expect("weights that fit")
    }
}

/// Numbers of a layer, compared with a tolerance for sums of biases.
fn assert_same(found: &Layer, expected: &Layer) {
    assert_eq!((found.cell(), found.options()), (expected.cell(), expected.options()));
    let (found, expected) = (&found.weights()[0], &expected.weights()[0]);
    assert_eq!((&found.input, &found.state), (&expected.input, &expected.state));
    for (a, b) in
        [(&found.input_bias, &expected.input_bias), (&found.state_bias, &expected.state_bias)]
    {
        assert_eq!(a.len(), b.len());
        assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6), "{a:?} {b:?}");
    }
}

/// Counts the operators of a model.
fn count(model: &Model, op: &str) -> usize {
    model.nodes.iter().filter(|node| node.op == op).count()
}

#[test]
fn lstm_cells_are_found_however_they_are_written() {
    for written in [Notation::Gemm, Notation::MatMul, Notation::Joined, Notation::Apart] {
        let mut graph = UnrolledGraph::new(Cell::Lstm, written);
        let inputs = graph.inputs();
        let (h0, c0) = (graph.state("h0"), graph.state("c0"));
        let (mut h, mut c) = (h0, c0);
        for (at, x) in inputs.iter().enumerate() {
            [h, c] = graph.lstm(x, [&h, &c]);
            graph.net.output(&format!("h{}", at + 1), &h).expect("a new name");
        }
        graph.net.output("c", &c).expect("a new name");
        let layer = graph.layer(false);
        let (rolled, count_of) = reroll(&graph.net.finish());
        assert_eq!(count_of, 1, "{written:?}");
        assert_eq!((count(&rolled, "Sigmoid"), count(&rolled, "Gemm")), (0, 0), "{written:?}");
        let found = layers(&rolled).expect("a layer");
        assert_eq!(found.len(), 1);
        assert_same(&found[0].layer, &layer);
        assert!(matches!(found[0].initial, [InitialState::Fed(_), InitialState::Fed(_)]));
        // All steps are present, in order.
        let joined = rolled.nodes.iter().find(|node| node.outputs[0] == found[0].input);
        let joined = &joined.expect("what makes the input").inputs;
        let step = |name: &String| {
            let node = rolled.nodes.iter().find(|node| node.outputs[0] == *name);
            node.expect("a step").inputs[0].clone()
        };
        let steps: Vec<String> = joined.iter().map(step).collect();
        assert_eq!(steps, inputs.iter().map(Name::as_str).collect::<Vec<_>>());
        assert_eq!(rolled.outputs.len(), STEPS + 1);
    }
}

#[test]
fn gru_cells_are_found_with_both_resets() {
    let zeros = vec![0.0; BATCH * UNITS];
    for (written, reset_first, short) in [
        (Notation::Gemm, false, false),
        (Notation::Gemm, false, true),
        (Notation::MatMul, false, true),
        (Notation::Gemm, true, false),
        (Notation::MatMul, true, true),
    ] {
        let mut graph = UnrolledGraph::new(Cell::Gru, written);
        let inputs = graph.inputs();
        let mut h = graph.constant(&[BATCH, UNITS], &zeros);
        for x in &inputs {
            h = graph.gru(x, &h, reset_first, short);
        }
        graph.net.output("last", &h).expect("a new name");
        let layer = graph.layer(reset_first);
        let (rolled, count_of) = reroll(&graph.net.finish());
        let found = layers(&rolled).expect("layers");
        assert_eq!((count_of, found.len()), (1, 1), "{written:?} {reset_first} {short}");
        assert_same(&found[0].layer, &layer);
        assert_eq!(found[0].initial, [InitialState::Zeros, InitialState::Zeros]);
    }
}

/// Two layers, the second over the outputs of the first.
#[test]
fn stacked_cells_are_two_layers() {
    let mut graph = UnrolledGraph::new(Cell::Lstm, Notation::Gemm);
    let inputs = graph.inputs();
    let mut states = ["h0", "c0", "h1", "c1"].map(|name| graph.state(name));
    let widen = graph.constant(&[UNITS, INPUTS], &numbers(UNITS * INPUTS, 9));
    for x in &inputs {
        let [h0, c0, h1, c1] = states;
        let [h0, c0] = graph.lstm(x, [&h0, &c0]);
        let between = graph.node("MatMul", &[&h0, &widen], &[]);
        let [h1, c1] = graph.lstm(&between, [&h1, &c1]);
        states = [h0, c0, h1, c1];
    }
    graph.net.output("last", &states[2]).expect("a new name");
    let layer = graph.layer(false);
    let (rolled, count_of) = reroll(&graph.net.finish());
    let found = layers(&rolled).expect("layers");
    assert_eq!((count_of, found.len()), (2, 2));
    found.iter().for_each(|found| assert_same(&found.layer, &layer));
    // Nodes come after those that they read.
    let mut made: Vec<&str> = rolled.inputs.iter().map(|port| port.name.as_str()).collect();
    made.extend(rolled.tensors.iter().map(|tensor| tensor.name.as_str()));
    for node in &rolled.nodes {
        let missing =
            node.inputs.iter().find(|name| !name.is_empty() && !made.contains(&name.as_str()));
        assert_eq!(missing, None, "{}", node.name);
        made.extend(node.outputs.iter().map(String::as_str));
    }
}

/// A decoder feeds each step with the output of the last one, so it cannot be folded.
#[test]
fn cells_that_feed_themselves_are_left() {
    let mut graph = UnrolledGraph::new(Cell::Lstm, Notation::Gemm);
    let mut x = graph.inputs()[0].clone();
    let (mut h, mut c) = (graph.state("h0"), graph.state("c0"));
    let back = graph.constant(&[UNITS, INPUTS], &numbers(UNITS * INPUTS, 9));
    for _ in 0..STEPS {
        [h, c] = graph.lstm(&x, [&h, &c]);
        x = graph.node("MatMul", &[&h, &back], &[]);
    }
    graph.net.output("last", &x).expect("a new name");
    let model = graph.net.finish();
    assert_eq!(reroll(&model), (model, 0));
}

/// Steps with other weights belong to another layer.
#[test]
fn cells_of_other_weights_are_left() {
    let mut graph = UnrolledGraph::new(Cell::Lstm, Notation::Gemm);
    let inputs = graph.inputs();
    let (mut h, mut c) = (graph.state("h0"), graph.state("c0"));
    for (at, x) in inputs.iter().enumerate() {
        graph.weights.state = numbers(4 * UNITS * UNITS, 20 + at as u32);
        [h, c] = graph.lstm(x, [&h, &c]);
    }
    graph.net.output("last", &h).expect("a new name");
    let model = graph.net.finish();
    assert_eq!(reroll(&model), (model, 0));
}

/// A node broadcasts a state of one row to a batch, and a layer does not.
#[test]
fn a_state_of_one_row_is_not_that_of_a_batch() {
    let mut graph = UnrolledGraph::new(Cell::Gru, Notation::MatMul);
    let inputs = graph.inputs();
    let mut h = graph.constant(&[1, UNITS], &[0.0; UNITS]);
    for x in &inputs {
        h = graph.gru(x, &h, true, false);
    }
    graph.net.output("last", &h).expect("a new name");
    let mut model = graph.net.finish();
    for dim in model.inputs.iter_mut().filter_map(|port| port.shape.as_mut()).flatten() {
        if *dim == Dim::Fixed(BATCH) {
            *dim = Dim::symbol("N");
        }
    }
    assert_eq!(reroll(&model), (model, 0));
}

/// Compares files that PyTorch's exporter wrote for cells called step by step
/// (`golden/unrolled.py`) with outputs of ONNX Runtime.
#[test]
fn cells_that_pytorch_exported_run_as_layers() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/unrolled");
    let text = std::fs::read_to_string(folder.join("outputs.json")).expect("expected outputs");
    let records: Value = serde_json::from_str(&text).expect("JSON");
    let numbers = |value: &Value| -> Vec<f32> {
        let values = value.as_array().expect("a list of numbers").iter();
        values.map(|value| value.as_f64().expect("a number") as f32).collect()
    };
    for (name, layers_of) in
        [("lstm", 1), ("lstm_joined", 1), ("gru", 1), ("gru_reset_first", 1), ("lstm_cells", 2)]
    {
        let model = Model::read(&folder.join(format!("{name}.onnx"))).expect("a model");
        let (rolled, count_of) = reroll(&model);
        assert_eq!(count_of, layers_of, "{name}");
        let mut values: Vec<f64> = numbers(&records["x"]).into_iter().map(f64::from).collect();
        for found in layers(&rolled).expect("layers") {
            let input: Vec<f32> = values.iter().map(|x| *x as f32).collect();
            let steps = input.len() / (2 * found.layer.inputs());
            assert_eq!(steps, 7, "{name}");
            values = oracle::run(&found.layer, 2, &input, &[steps; 2], [&[], &[]]).outputs;
        }
        let expected = numbers(&records["y"][name]);
        assert_eq!(values.len(), expected.len());
        let off = values.iter().zip(expected).map(|(a, b)| (a - f64::from(b)).abs());
        assert!(off.fold(0.0, f64::max) < 1e-6, "{name}");
    }
}
