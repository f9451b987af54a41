//! ONNX model of the perceptron.

use dyno_onnx::{Dim, Element, Model, Node, Port, Tensor};

use super::{CLASSES, HIDDEN, PIXELS, Perceptron};

impl Perceptron {
    /// Returns the ONNX file of this network: input `ink` `[N, 64]` (ink in [0, 1]), output `scores`
    /// `[N, 10]`.
    pub fn to_onnx(&self) -> Vec<u8> {
        let model = Model {
            name: "digits".into(),
            producer: "dyno".into(),
            ir_version: 8,
            operator_sets: vec![(String::new(), 17)],
            inputs: vec![batched_port("ink", PIXELS)],
            outputs: vec![batched_port("scores", CLASSES)],
            value_info: Vec::new(),
            nodes: vec![
                node("Gemm", &["ink", "hidden_weights", "hidden_bias"], "sums"),
                node("Relu", &["sums"], "hidden"),
                node("Gemm", &["hidden", "output_weights", "output_bias"], "scores"),
            ],
            tensors: vec![
                Tensor::from_f32("hidden_weights", &[PIXELS, HIDDEN], self.hidden.as_flattened()),
                Tensor::from_f32("hidden_bias", &[HIDDEN], &self.hidden_bias),
                Tensor::from_f32("output_weights", &[HIDDEN, CLASSES], self.output.as_flattened()),
                Tensor::from_f32("output_bias", &[CLASSES], &self.output_bias),
            ],
        };
        model.to_bytes().expect("all weights are in memory and have their shapes")
    }
}

fn node(op: &str, inputs: &[&str], output: &str) -> Node {
    Node {
        name: String::new(),
        op: op.into(),
        domain: String::new(),
        inputs: inputs.iter().map(|&input| input.into()).collect(),
        outputs: vec![output.into()],
        attributes: Vec::new(),
    }
}

/// Returns the declaration of a float tensor `[N, width]`.
fn batched_port(name: &str, width: usize) -> Port {
    let shape = Some(vec![Dim::symbol("N"), width.into()]);
    Port { name: name.into(), element: Some(Element::F32), shape }
}
