//! Recurrent nodes with random options, and what joins their directions.

use super::steps;
use super::writer::{Value, Writer, float, floats, integer, integers, text, texts};
use crate::element::Element;
use crate::proto::AttributeProto;
use crate::tensor::Tensor;

/// Activation functions, whether each takes an alpha, and whether a beta. Those with a
/// bound come first.
const ACTIVATIONS: [(&str, bool, bool); 11] = [
    ("Tanh", false, false),
    ("Sigmoid", false, false),
    ("Softsign", false, false),
    ("HardSigmoid", true, true),
    ("ScaledTanh", true, true),
    ("Relu", false, false),
    ("Softplus", false, false),
    ("LeakyRelu", true, false),
    ("ThresholdedRelu", true, false),
    ("Elu", true, false),
    ("Affine", true, true),
];

/// Number of activation functions with a bound.
const BOUNDED: usize = 5;

/// Sizes of a layer.
struct Sizes {
    steps: usize,
    batch: usize,
    inputs: usize,
    hidden: usize,
    directions: usize,
    is_batch_first: bool,
}

/// Adds a recurrent node that reads a value, and the nodes that bring its output to three dimensions.
pub(super) fn add(writer: &mut Writer, source: &Value, values: &mut Vec<Value>) {
    let source = steps::three_dimensions(writer, source);
    let (cell, gates) = *writer.random.pick(&[("LSTM", 4), ("LSTM", 4), ("GRU", 3), ("RNN", 1)]);
    let may_be_batch_first = writer.opset >= 14 && !writer.is_chain;
    let is_batch_first = may_be_batch_first && writer.random.chance(0.15);
    let direction = *writer.random.pick(&["forward", "forward", "reverse", "bidirectional"]);
    let [first, second, inputs] = source.shape[..] else { return };
    let sizes = Sizes {
        steps: if is_batch_first { second } else { first },
        batch: if is_batch_first { first } else { second },
        inputs,
        hidden: 1 + writer.random.below(6),
        directions: if direction == "bidirectional" { 2 } else { 1 },
        is_batch_first,
    };
    let mut attributes = options(writer, cell, &sizes);
    attributes.push(integer("hidden_size", sizes.hidden as i64));
    if direction != "forward" || writer.random.chance(0.2) {
        attributes.push(text("direction", direction));
    }
    if is_batch_first {
        attributes.push(integer("layout", 1));
    }
    let names = operands(writer, cell, gates, &sizes, &source.name);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let outputs = writer.node_of(cell, &names, if cell == "LSTM" { 3 } else { 2 }, attributes);
    let Sizes { steps, batch, hidden, directions, .. } = sizes;
    let (y, state) = if is_batch_first {
        (vec![batch, steps, directions, hidden], vec![batch, directions, hidden])
    } else {
        (vec![steps, directions, batch, hidden], vec![directions, batch, hidden])
    };
    if writer.is_chain {
        let y = Value { name: outputs[0].clone(), shape: y };
        values.push(join_as_exporters(writer, &y));
        return;
    }
    for name in &outputs[1..] {
        if writer.random.chance(0.5) {
            values.push(Value { name: name.clone(), shape: state.clone() });
        }
    }
    if writer.random.chance(0.15) {
        // The last states go on, not all of them.
        let name = writer.random.pick(&outputs[1..]).clone();
        values.push(Value { name, shape: state });
        return;
    }
    let y = Value { name: outputs[0].clone(), shape: y };
    values.push(y.clone());
    let joined = join_directions(writer, &y, is_batch_first);
    values.push(joined);
}

/// Returns the options of the cell.
fn options(writer: &mut Writer, cell: &str, sizes: &Sizes) -> Vec<AttributeProto> {
    let mut attributes = Vec::new();
    if writer.random.chance(0.2) {
        attributes.push(float("clip", writer.random.within(0.2, 2.0)));
    }
    if cell == "GRU" && writer.random.chance(0.6) {
        attributes.push(integer("linear_before_reset", writer.random.below(2) as i64));
    }
    if cell == "LSTM" && writer.random.chance(0.15) {
        attributes.push(integer("input_forget", 1));
    }
    if writer.random.chance(0.3) {
        let functions = match cell {
            "LSTM" => 3,
            "GRU" => 2,
            _ => 1,
        };
        let (mut names, mut alphas, mut betas) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..functions * sizes.directions {
            // Gates without a bound make states grow beyond binary32 within a few steps.
            let is_bounded = number % functions == 0 && sizes.steps > 3;
            let choice = &ACTIVATIONS[..if is_bounded { BOUNDED } else { ACTIVATIONS.len() }];
            let (name, has_alpha, has_beta) = *writer.random.pick(choice);
            names.push(name);
            if has_alpha {
                alphas.push(writer.random.within(0.2, 0.8));
            }
            if has_beta {
                betas.push(writer.random.within(0.2, 0.8));
            }
        }
        attributes.push(texts("activations", &names));
        if !alphas.is_empty() {
            attributes.push(floats("activation_alpha", &alphas));
        }
        if !betas.is_empty() {
            attributes.push(floats("activation_beta", &betas));
        }
    }
    attributes
}

/// Returns the names of the inputs, of which the later ones are left out at random.
fn operands(
    writer: &mut Writer,
    cell: &str,
    gates: usize,
    sizes: &Sizes,
    source: &str,
) -> Vec<String> {
    let Sizes { steps, batch, inputs, hidden, directions, is_batch_first } = *sizes;
    let rows = gates * hidden;
    let reach = 1.2 / (hidden as f64).sqrt();
    let mut names = vec![source.to_owned()];
    names.push(writer.weights(&[directions, rows, inputs], reach));
    names.push(writer.weights(&[directions, rows, hidden], reach));
    let bias = |writer: &mut Writer| writer.weights(&[directions, 2 * rows], 0.5);
    names.push(if writer.random.chance(0.8) { bias(writer) } else { String::new() });
    names.push(if writer.random.chance(0.25) {
        lengths(writer, steps, batch)
    } else {
        String::new()
    });
    let shape =
        if is_batch_first { [batch, directions, hidden] } else { [directions, batch, hidden] };
    for _ in 0..if cell == "LSTM" { 2 } else { 1 } {
        names.push(match writer.random.below(6) {
            0 if !writer.is_chain => {
                let state = writer.random.floats(&shape, 1.0);
                writer.input("state", state)
            }
            1 => writer.weights(&shape, 1.0),
            2 => writer.constant(
                &Tensor::of_floats(Element::Float32, &shape, vec![0.0; shape.iter().product()])
                    .expect("counted"),
            ),
            _ => String::new(),
        });
    }
    if cell == "LSTM" && writer.random.chance(0.2) {
        names.push(writer.weights(&[directions, 3 * hidden], 0.5));
    }
    while names.last().is_some_and(String::is_empty) {
        names.pop();
    }
    names
}

/// Adds lengths from 1 to all steps, as a constant or an input; sometimes all steps.
fn lengths(writer: &mut Writer, steps: usize, batch: usize) -> String {
    let is_full = writer.random.chance(0.3);
    let length =
        |writer: &mut Writer| if is_full { steps } else { 1 + writer.random.below(steps) } as i64;
    let lengths = (0..batch).map(|_| length(writer)).collect();
    let lengths = Tensor::of_integers(Element::Int32, &[batch], lengths).expect("counted");
    if writer.is_chain || writer.random.chance(0.5) {
        writer.constant(&lengths)
    } else {
        writer.input("lengths", lengths)
    }
}

/// Brings Y to three dimensions as exporters do. One model in ten lacks their `Transpose`, so that steps and
/// units of two directions mix.
fn join_as_exporters(writer: &mut Writer, y: &Value) -> Value {
    let [steps, directions, batch, hidden] = y.shape[..] else { return y.clone() };
    let joined = [steps, batch, directions * hidden];
    if directions == 1 && writer.random.chance(0.5) {
        let name = writer.node_with_axes("Squeeze", &y.name, &[1], 13, Vec::new());
        return Value { name, shape: joined.to_vec() };
    }
    if writer.random.chance(0.1) {
        return steps::reshape(writer, y, &joined);
    }
    let name = writer.node("Transpose", &[&y.name], vec![integers("perm", &[0, 2, 1, 3])]);
    let shape = vec![steps, batch, directions, hidden];
    steps::reshape(writer, &Value { name, shape }, &joined)
}

/// Brings Y to three dimensions, in the way of exporters or in one that mixes its axes.
fn join_directions(writer: &mut Writer, y: &Value, is_batch_first: bool) -> Value {
    let axis = if is_batch_first { 2 } else { 1 };
    let directions = y.shape[axis];
    let mut without = y.shape.clone();
    without.remove(axis);
    let mut joined = without.clone();
    joined[2] *= directions;
    match writer.random.below(6) {
        0 if directions == 1 => {
            let name = writer.node_with_axes("Squeeze", &y.name, &[axis as i64], 13, Vec::new());
            Value { name, shape: without }
        }
        1 => {
            let attributes = vec![integer("keepdims", 0)];
            let name = writer.node_with_axes("ReduceSum", &y.name, &[axis as i64], 13, attributes);
            Value { name, shape: without }
        }
        2 => {
            // The second direction, or the only one.
            let index = writer.constant(
                &Tensor::of_integers(Element::Int64, &[], vec![directions as i64 - 1])
                    .expect("counted"),
            );
            let name =
                writer.node("Gather", &[&y.name, &index], vec![integer("axis", axis as i64)]);
            Value { name, shape: without }
        }
        // Without the transpose the directions of several sequences are mixed, unless batch comes first.
        3 => steps::reshape(writer, y, &joined),
        _ if is_batch_first => steps::reshape(writer, y, &joined),
        _ => {
            let order = [0, 2, 1, 3];
            let name = writer.node("Transpose", &[&y.name], vec![integers("perm", &order)]);
            let shape = vec![y.shape[0], y.shape[2], y.shape[1], y.shape[3]];
            steps::reshape(writer, &Value { name, shape }, &joined)
        }
    }
}
