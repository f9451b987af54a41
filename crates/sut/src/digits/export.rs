//! ONNX file of the perceptron, written field by field.
//!
//! Field numbers are those of `onnx.proto` of the ONNX project. The model has one input `ink` `[N,
//! 64]` (ink in [0, 1]) and one output `scores` `[N, 10]`.

use super::{CLASSES, HIDDEN, PIXELS, Perceptron};

const IR_VERSION: u64 = 8;
const OPSET: u64 = 17;
/// `TensorProto.DataType.FLOAT`.
const FLOAT: u64 = 1;

impl Perceptron {
    /// Returns the ONNX file of this network.
    #[must_use]
    pub fn to_onnx(&self) -> Vec<u8> {
        let mut graph = Message::default();
        graph.message(1, &node("Gemm", &["ink", "hidden_weights", "hidden_bias"], "sums"));
        graph.message(1, &node("Relu", &["sums"], "hidden"));
        graph.message(1, &node("Gemm", &["hidden", "output_weights", "output_bias"], "scores"));
        graph.text(2, "digits");
        let hidden = self.hidden.as_flattened();
        graph.message(5, &tensor("hidden_weights", &[PIXELS, HIDDEN], hidden));
        graph.message(5, &tensor("hidden_bias", &[HIDDEN], &self.hidden_bias));
        let output = self.output.as_flattened();
        graph.message(5, &tensor("output_weights", &[HIDDEN, CLASSES], output));
        graph.message(5, &tensor("output_bias", &[CLASSES], &self.output_bias));
        graph.message(11, &batched_value("ink", PIXELS));
        graph.message(12, &batched_value("scores", CLASSES));

        let mut opset = Message::default();
        opset.text(1, "");
        opset.number(2, OPSET);
        let mut model = Message::default();
        model.number(1, IR_VERSION);
        model.text(2, "dyno");
        model.message(7, &graph);
        model.message(8, &opset);
        model.0
    }
}

fn node(operator: &str, inputs: &[&str], output: &str) -> Message {
    let mut node = Message::default();
    for input in inputs {
        node.text(1, input);
    }
    node.text(2, output);
    node.text(4, operator);
    node
}

fn tensor(name: &str, shape: &[usize], values: &[f32]) -> Message {
    let mut tensor = Message::default();
    for &dimension in shape {
        tensor.number(1, dimension as u64);
    }
    tensor.number(2, FLOAT);
    tensor.text(8, name);
    let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    tensor.bytes(9, &raw);
    tensor
}

/// Returns the `ValueInfoProto` of a float tensor `[N, width]`.
fn batched_value(name: &str, width: usize) -> Message {
    let (mut any, mut fixed) = (Message::default(), Message::default());
    any.text(2, "N");
    fixed.number(1, width as u64);
    let mut shape = Message::default();
    shape.message(1, &any);
    shape.message(1, &fixed);
    let mut tensor = Message::default();
    tensor.number(1, FLOAT);
    tensor.message(2, &shape);
    let mut kind = Message::default();
    kind.message(1, &tensor);
    let mut value = Message::default();
    value.text(1, name);
    value.message(2, &kind);
    value
}

/// Encoder of a protocol buffer message.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// Writes a number, which has wire type 0.
    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    /// Writes a length and the content, which have wire type 2.
    fn bytes(&mut self, field: u64, content: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(content.len() as u64);
        self.0.extend_from_slice(content);
    }

    fn text(&mut self, field: u64, content: &str) {
        self.bytes(field, content.as_bytes());
    }

    fn message(&mut self, field: u64, content: &Self) {
        self.bytes(field, &content.0);
    }
}
