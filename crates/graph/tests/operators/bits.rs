//! Weights of a few bits in blocks. Expected numbers are worked out by hand.

use dyno_graph::{Graph, Value};
use dyno_onnx::{Attribute, Element, Model, Tensor, Values};

use super::fused::{check_model, fused};
use super::standard::integer;
use super::{floats, model, tensor};

fn bytes(dims: &[usize], all: &[u8]) -> Value {
    Value::new(dims, all.to_vec()).expect("a valid case")
}

/// Returns a product with weights of 3 rows and 2 columns, in blocks of 2.
fn product(weights: &[Value]) -> Model {
    let x = floats(&[1, 3], &[1.0, 2.0, 4.0]);
    let sizes = [integer("K", 3), integer("N", 2), integer("bits", 4), integer("block_size", 2)];
    let inputs: Vec<Option<Value>> = [x].iter().chain(weights).cloned().map(Some).collect();
    let mut net = fused("MatMulNBits", &inputs, &sizes);
    net.inputs.truncate(1);
    let named = weights.iter().enumerate();
    net.tensors = named.map(|(at, value)| tensor(&format!("x{}", at + 1), value)).collect();
    net
}

/// Codes of the columns: 1, 9, 8 and 8, 8, 15.
#[test]
fn products_with_weights_of_four_bits_have_scales_of_blocks() {
    let codes = bytes(&[2, 2, 1], &[0x91, 0x08, 0x88, 0x0f]);
    let scales = floats(&[4], &[0.5, 1.0, 2.0, 0.25]);
    let x = [floats(&[1, 3], &[1.0, 2.0, 4.0])];
    let net = product(&[codes.clone(), scales.clone()]);
    check_model(&net, &x, &floats(&[1, 2], &[-2.5, 7.0]));
    // Zero points 1, 2 and 3, 4, packed and as numbers.
    for zeros in [bytes(&[2], &[0x21, 0x43]), floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0])] {
        let net = product(&[codes.clone(), scales.clone(), zeros]);
        check_model(&net, &x, &floats(&[1, 2], &[32.0, 41.0]));
    }
    let few = product(&[codes, floats(&[3], &[1.0; 3])]);
    let error = Graph::new(&few).expect_err("an invalid case").to_string();
    assert!(error.contains("MatMulNBits") && error.contains("3 scales"), "{error}");
}

/// Returns the sum of an input and of six codes of four bits, which the operator converts.
fn converted(op: &str, attributes: &[(&str, Attribute)]) -> Model {
    let mut net = model(op, 21, 2, attributes);
    net.inputs.remove(0);
    net.inputs[0].element = Some(Element::F32);
    let codes = Values::Bytes(vec![0xe1, 0x83, 0x07]);
    let codes =
        Tensor { element: Element::I4, values: codes, ..Tensor::from_f32("x0", &[2, 3], &[]) };
    let scales = Tensor::from_f32("scales", &[2, 2], &[1.0, 2.0, 0.5, 4.0]);
    net.tensors = vec![codes, scales];
    let mut sum = net.nodes[0].clone();
    (sum.op, sum.inputs, sum.attributes) =
        ("Add".into(), vec!["numbers".into(), "x1".into()], Vec::new());
    net.nodes[0].inputs[1] = "scales".into();
    net.nodes[0].outputs[0] = "numbers".into();
    net.nodes.push(sum);
    net
}

/// Codes of the rows: 1, -2, 3 and -8, 7, 0.
#[test]
fn codes_of_four_bits_have_scales_of_blocks() {
    let blocks = [integer("axis", 1), integer("block_size", 2)];
    let net = converted("DequantizeLinear", &blocks);
    let expected = floats(&[2, 3], &[2.0, -1.0, 7.0, -3.0, 4.5, 1.0]);
    check_model(&net, &[floats(&[1], &[1.0])], &expected);
    let error = Graph::new(&converted("Mul", &[])).expect_err("an invalid case").to_string();
    assert!(error.contains("only DequantizeLinear is supported"), "{error}");
}

#[test]
fn scales_of_blocks_must_fit() {
    let net = converted("DequantizeLinear", &[integer("axis", 0), integer("block_size", 2)]);
    let error = Graph::new(&net).expect_err("an invalid case").to_string();
    assert!(error.contains("expected [1, 3] scales"), "{error}");
}
