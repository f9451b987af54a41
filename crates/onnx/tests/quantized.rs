//! Quantized operators become operators on floats with the same weights.

use dyno_onnx::{Attribute, Constants, Element, Model, Node, Port, Tensor, Values, in_floats};

/// Returns a model of one node, whose first input is the model's.
fn model(op: &str, domain: &str, inputs: &[&str], tensors: Vec<Tensor>) -> Model {
    let port = |name: &str| Port { name: name.into(), element: Some(Element::U8), shape: None };
    let node = Node {
        name: "layer".into(),
        op: op.into(),
        domain: domain.into(),
        inputs: inputs.iter().map(|name| (*name).to_owned()).collect(),
        outputs: vec!["y".into()],
        attributes: Vec::new(),
    };
    Model {
        name: "net".into(),
        producer: String::new(),
        ir_version: 8,
        operator_sets: vec![(String::new(), 17), ("com.microsoft".into(), 1)],
        inputs: vec![port(inputs[0])],
        outputs: vec![port("y")],
        value_info: Vec::new(),
        nodes: vec![node],
        tensors,
    }
}

fn codes(name: &str, element: Element, shape: &[usize], bytes: &[u8]) -> Tensor {
    let values = Values::Bytes(bytes.to_vec());
    Tensor { element, values, ..Tensor::from_f32(name, shape, &[]) }
}

fn operators(model: &Model) -> Vec<&str> {
    model.nodes.iter().map(|node| node.op.as_str()).collect()
}

fn floats(model: &Model, name: &str) -> Vec<f32> {
    Constants::new(model).get(name).and_then(|tensor| tensor.floats()).expect("a constant")
}

/// Scales and zero points of the filters are 1/2 and 0, 1/4 and 1. The bias is in steps of their products
/// with the scale of the input, 1/2.
#[test]
fn convolutions_of_codes_have_weights_and_a_bias_in_floats() {
    let number = |name: &str, x: f32| Tensor::from_f32(name, &[], &[x]);
    let bias = [10_i32, -4].map(i32::to_le_bytes).concat();
    let tensors = vec![
        number("x_scale", 0.5),
        codes("x_zero", Element::U8, &[], &[3]),
        codes("w_quantized", Element::I8, &[2, 1, 1, 1], &[2, 0xfd]),
        Tensor::from_f32("w_scale", &[2], &[0.5, 0.25]),
        codes("w_zero", Element::I8, &[2], &[0, 1]),
        number("y_scale", 1.0),
        codes("y_zero", Element::U8, &[], &[7]),
        codes("b_quantized", Element::I32, &[2], &bias),
    ];
    let inputs = [
        "x",
        "x_scale",
        "x_zero",
        "w_quantized",
        "w_scale",
        "w_zero",
        "y_scale",
        "y_zero",
        "b_quantized",
    ];
    let model = model("QLinearConv", "", &inputs, tensors);
    let found = in_floats(&model);
    assert_eq!(operators(&found), ["DequantizeLinear", "Conv", "QuantizeLinear"]);
    let conv = &found.nodes[1];
    assert_eq!(conv.inputs, [&*found.nodes[0].outputs[0], "w", "b"]);
    assert_eq!(floats(&found, "w"), [1.0, -1.0]);
    assert_eq!(floats(&found, "b"), [2.5, -0.5]);
    assert_eq!(found.nodes[2].inputs[1..], ["y_scale", "y_zero"]);
    assert_eq!(found.nodes[2].outputs, ["y"]);
}

/// ONNX Runtime multiplies the bias by `alpha`, too.
#[test]
fn a_factor_of_a_product_is_that_of_its_bias() {
    let number = |name: &str, x: f32| Tensor::from_f32(name, &[], &[x]);
    let bias = [6_i32, 2].map(i32::to_le_bytes).concat();
    let tensors = vec![
        number("scale", 0.5),
        codes("zero", Element::U8, &[], &[0]),
        codes("w_quantized", Element::U8, &[1, 2], &[4, 2]),
        codes("b_quantized", Element::I32, &[2], &bias),
    ];
    let inputs = ["x", "scale", "zero", "w_quantized", "scale", "zero", "b_quantized"];
    let mut model = model("QGemm", "com.microsoft", &inputs, tensors);
    model.nodes[0].attributes.push(("alpha".into(), Attribute::Float(2.0)));
    let found = in_floats(&model);
    assert_eq!(operators(&found), ["DequantizeLinear", "Gemm"]);
    let factor = |name: &str| found.nodes[1].attribute(name).cloned();
    let twice = Some(Attribute::Float(2.0));
    assert_eq!(["alpha", "beta"].map(factor), [twice.clone(), twice]);
    assert_eq!((floats(&found, "w"), floats(&found, "b")), (vec![2.0, 1.0], vec![1.5, 0.5]));
}
