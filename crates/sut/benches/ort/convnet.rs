//! A small convolutional network as an ONNX file, with random weights.
//!
//! Field numbers are those of `onnx.proto` of the ONNX project.

use dyno_loadgen::rng::Mt19937;

/// The model maps `[N, 3, 64, 64]` to `[N, 10]`.
pub const SIDE: usize = 64;
pub const CLASSES: usize = 10;
const CHANNELS: [usize; 4] = [3, 16, 32, 64];

/// Returns the content of the file.
pub fn convnet() -> Vec<u8> {
    let mut rng = Mt19937::new(1);
    let (mut graph, mut from) = (Vec::new(), "image".to_owned());
    for (layer, pair) in CHANNELS.windows(2).enumerate() {
        let (weights, sums, to) =
            (format!("weights{layer}"), format!("sums{layer}"), format!("relu{layer}"));
        bytes(&mut graph, 5, &tensor(&weights, &[pair[1], pair[0], 3, 3], &mut rng));
        bytes(&mut graph, 1, &node("Conv", &[&from, &weights], &sums));
        bytes(&mut graph, 1, &node("Relu", &[&sums], &to));
        from = to;
    }
    bytes(&mut graph, 1, &node("GlobalAveragePool", &[&from], "means"));
    bytes(&mut graph, 1, &node("Flatten", &["means"], "features"));
    bytes(&mut graph, 5, &tensor("classifier", &[CHANNELS[3], CLASSES], &mut rng));
    bytes(&mut graph, 1, &node("MatMul", &["features", "classifier"], "scores"));
    bytes(&mut graph, 2, b"convnet");
    bytes(&mut graph, 11, &value("image", &[CHANNELS[0], SIDE, SIDE]));
    bytes(&mut graph, 12, &value("scores", &[CLASSES]));
    let (mut opset, mut model) = (Vec::new(), Vec::new());
    number(&mut opset, 2, 17);
    number(&mut model, 1, 8);
    bytes(&mut model, 7, &graph);
    bytes(&mut model, 8, &opset);
    model
}

fn node(operator: &str, inputs: &[&str], output: &str) -> Vec<u8> {
    let mut node = Vec::new();
    for input in inputs {
        bytes(&mut node, 1, input.as_bytes());
    }
    bytes(&mut node, 2, output.as_bytes());
    bytes(&mut node, 4, operator.as_bytes());
    node
}

fn tensor(name: &str, shape: &[usize], rng: &mut Mt19937) -> Vec<u8> {
    let mut tensor = Vec::new();
    for &dimension in shape {
        number(&mut tensor, 1, dimension);
    }
    number(&mut tensor, 2, 1);
    bytes(&mut tensor, 8, name.as_bytes());
    let count: usize = shape.iter().product();
    let values = (0..count).flat_map(|_| (rng.canonical() as f32 - 0.5).to_le_bytes());
    bytes(&mut tensor, 9, &values.collect::<Vec<u8>>());
    tensor
}

/// Returns the `ValueInfoProto` of a float tensor `[N, rest...]`.
fn value(name: &str, rest: &[usize]) -> Vec<u8> {
    let (mut any, mut shape) = (Vec::new(), Vec::new());
    bytes(&mut any, 2, b"N");
    bytes(&mut shape, 1, &any);
    for &n in rest {
        let mut dimension = Vec::new();
        number(&mut dimension, 1, n);
        bytes(&mut shape, 1, &dimension);
    }
    let (mut tensor, mut kind, mut value) = (Vec::new(), Vec::new(), Vec::new());
    number(&mut tensor, 1, 1);
    bytes(&mut tensor, 2, &shape);
    bytes(&mut kind, 1, &tensor);
    bytes(&mut value, 1, name.as_bytes());
    bytes(&mut value, 2, &kind);
    value
}

fn varint(to: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

fn number(to: &mut Vec<u8>, field: usize, value: usize) {
    varint(to, field << 3);
    varint(to, value);
}

fn bytes(to: &mut Vec<u8>, field: usize, content: &[u8]) {
    varint(to, field << 3 | 2);
    varint(to, content.len());
    to.extend_from_slice(content);
}
