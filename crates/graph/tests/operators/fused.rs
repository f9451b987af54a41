//! Operators of ONNX Runtime that combine others. Expected numbers are worked out by hand, and the
//! independent evaluator must agree.

use std::sync::Arc;

use dyno_graph::{Graph, Session, SessionOptions, Value};
use dyno_onnx::{Attribute, Element, Model, Port};
use dyno_oracle::{Tensor, Values};

use super::standard::{integer, integers, text};
use super::{floats, model, session};

pub(super) type Attributes<'a> = &'a [(&'a str, Attribute)];

fn codes(dims: &[usize], all: &[u8]) -> Value {
    Value::new(dims, all.to_vec()).expect("a valid case")
}

fn number(x: f32) -> Option<Value> {
    Some(Value::scalar(x))
}

fn zero(code: u8) -> Option<Value> {
    Some(Value::scalar(code))
}

fn parameters(all: &[f32]) -> (&'static str, Attribute) {
    ("activation_params", Attribute::Floats(all.to_vec()))
}

/// Returns a model of one node. Absent inputs have no name.
pub(super) fn fused(op: &str, inputs: &[Option<Value>], attributes: Attributes<'_>) -> Model {
    let mut net = model(op, 17, inputs.len(), attributes);
    net.nodes[0].domain = "com.microsoft".into();
    net.operator_sets.push(("com.microsoft".into(), 1));
    for (at, input) in inputs.iter().enumerate() {
        net.inputs[at].element = input.as_ref().map(Value::element);
        if input.is_none() {
            net.nodes[0].inputs[at].clear();
        }
    }
    net.inputs.retain(|port| port.element.is_some());
    net
}

fn tensor(value: &Value) -> Tensor {
    let numbers = value.elements(value.element()).expect("its own type").to_f64();
    let whole = || numbers.iter().map(|x| *x as i64).collect();
    let dims = value.dims();
    match value.element() {
        Element::F32 => Tensor::floats(dyno_oracle::Element::Float32, dims, numbers.to_vec()),
        Element::U8 => Tensor::integers(dyno_oracle::Element::UInt8, dims, whole()),
        Element::I8 => Tensor::integers(dyno_oracle::Element::Int8, dims, whole()),
        Element::I64 => Tensor::integers(dyno_oracle::Element::Int64, dims, whole()),
        Element::Bool => Tensor::integers(dyno_oracle::Element::Bool, dims, whole()),
        _ => Tensor::integers(dyno_oracle::Element::Int32, dims, whole()),
    }
    .expect("a valid case")
}

#[track_caller]
pub(super) fn check(
    op: &str,
    inputs: &[Option<Value>],
    attributes: Attributes<'_>,
    expected: &Value,
) {
    let given: Vec<Value> = inputs.iter().flatten().cloned().collect();
    check_model(&fused(op, inputs, attributes), &given, expected);
}

/// Checks an operator of the standard.
#[track_caller]
pub(super) fn check_standard(
    op: &str,
    version: i64,
    inputs: &[Value],
    attributes: Attributes<'_>,
    expected: &Value,
) {
    check_model(&standard(op, version, inputs, attributes), inputs, expected);
}

/// Returns a model of one node, with an operator of the standard.
pub(super) fn standard(
    op: &str,
    version: i64,
    inputs: &[Value],
    attributes: Attributes<'_>,
) -> Model {
    let mut net = model(op, version, inputs.len(), attributes);
    for (port, input) in net.inputs.iter_mut().zip(inputs) {
        port.element = Some(input.element());
    }
    net
}

/// Checks that a model is rejected or fails for this reason, and that the evaluator computes nothing.
#[track_caller]
pub(super) fn check_refused(net: &Model, given: &[Value], reason: &str) {
    let error = match Graph::new(net) {
        Ok(graph) => {
            let mut session = Session::new(Arc::new(graph), &SessionOptions::default());
            session.run(given).expect_err("an invalid case").to_string()
        }
        Err(error) => error.to_string(),
    };
    assert!(error.contains(reason), "{error}");
    let oracle = dyno_oracle::Model::from_bytes(&net.to_bytes().expect("weights in memory"));
    let names = net.inputs.iter().map(|port| port.name.as_str());
    let tensors: Vec<(&str, Tensor)> = names.zip(given.iter().map(tensor)).collect();
    let judged = oracle.expect("a known model").evaluate(&tensors);
    assert!(judged.is_err(), "the evaluator accepts it: {reason}");
}

/// Checks the outputs of the session and of the evaluator.
#[track_caller]
pub(super) fn check_model(net: &Model, given: &[Value], expected: &Value) {
    let op = &net.nodes[0].op;
    let found = session(net).run(given).expect("a valid case").remove(0);
    assert_eq!((found.dims(), found.element()), (expected.dims(), expected.element()), "{op}");
    let expected = expected.elements(expected.element()).expect("its own type").to_f64();
    let near = |found: &[f64]| {
        found.len() == expected.len()
            && found
                .iter()
                .zip(&expected[..])
                .all(|(a, b)| (a - b).abs() <= 1e-5 * b.abs().max(1.0))
    };
    let own = found.elements(found.element()).expect("its own type").to_f64();
    assert!(near(&own), "{op}: {own:?}");
    let oracle = dyno_oracle::Model::from_bytes(&net.to_bytes().expect("weights in memory"));
    let names: Vec<&str> = net.inputs.iter().map(|port| port.name.as_str()).collect();
    let tensors: Vec<(&str, Tensor)> = names.into_iter().zip(given.iter().map(tensor)).collect();
    let judged = oracle.expect("a known model").evaluate(&tensors).expect("a valid case");
    let judged: Vec<f64> = match judged.outputs[0].1.values() {
        Values::Floats(all) => all.clone(),
        Values::Integers(all) => all.iter().map(|x| *x as f64).collect(),
    };
    assert!(near(&judged), "{op} of the evaluator: {judged:?}");
}

#[test]
fn products_of_turned_matrices_are_scaled() {
    let (a, b) = (Some(floats(&[2, 1], &[1.0, 2.0])), Some(floats(&[1, 2], &[3.0, 4.0])));
    let alpha = ("alpha", Attribute::Float(0.5));
    let turned = [integer("transA", 1), integer("transB", 1), alpha.clone()];
    check("FusedMatMul", &[a.clone(), b.clone()], &turned, &floats(&[1, 1], &[5.5]));
    let outer = floats(&[2, 2], &[1.5, 2.0, 3.0, 4.0]);
    check("FusedMatMul", &[a, b], &[alpha], &outer);
}

#[test]
fn codes_of_the_runtime_are_those_of_the_standard() {
    let inputs = [Some(codes(&[2], &[3, 5])), number(0.5), zero(1)];
    check("DequantizeLinear", &inputs, &[], &floats(&[2], &[1.0, 2.0]));
    let inputs = [Some(floats(&[2], &[3.0, 5.0])), number(0.5), zero(1)];
    check("QuantizeLinear", &inputs, &[], &codes(&[2], &[7, 11]));
}

/// The sigmoid of the logarithm of 3 is 3/4.
#[test]
fn gelus_of_one_input_are_verified() {
    let log = 3.0_f32.ln();
    let x = [Some(floats(&[2], &[0.0, log / 1.702]))];
    check("QuickGelu", &x, &[], &floats(&[2], &[0.0, 0.75 * log / 1.702]));
    let x = [Some(floats(&[2], &[0.0, log]))];
    let alpha = ("alpha", Attribute::Float(1.0));
    check("QuickGelu", &x, &[alpha], &floats(&[2], &[0.0, 0.75 * log]));
    // The normal distribution below 1 is 0.8413447.
    check("Gelu", &[Some(floats(&[1], &[1.0]))], &[], &floats(&[1], &[0.841_344_7]));
}

#[test]
fn fused_activations_follow_convolutions_and_products() {
    let x = Some(floats(&[1, 1, 3], &[1.0, -2.0, 3.0]));
    let (w, b) = (Some(floats(&[1, 1, 1], &[2.0])), Some(floats(&[1], &[1.0])));
    let inputs = [x.clone(), w.clone(), b];
    for (attributes, expected) in [
        (vec![text("activation", "Relu")], [3.0, 0.0, 7.0]),
        (vec![text("activation", "LeakyRelu"), parameters(&[0.5])], [3.0, -1.5, 7.0]),
        (vec![text("activation", "Clip"), parameters(&[0.0, 5.0])], [3.0, 0.0, 5.0]),
    ] {
        check("FusedConv", &inputs, &attributes, &floats(&[1, 1, 3], &expected));
    }
    let sum = Some(floats(&[1, 1, 3], &[10.0, -10.0, 10.0]));
    let relu = [text("activation", "Relu")];
    check("FusedConv", &[x, w, None, sum], &relu, &floats(&[1, 1, 3], &[12.0, 0.0, 16.0]));
    let inputs = [
        Some(floats(&[1, 2], &[1.0, 2.0])),
        Some(floats(&[2, 2], &[1.0, 0.0, 0.0, -1.0])),
        Some(floats(&[2], &[0.5, 0.0])),
    ];
    let leaky = [text("activation", "LeakyRelu"), ("activation_alpha", Attribute::Float(0.25))];
    check("FusedGemm", &inputs, &leaky, &floats(&[1, 2], &[1.5, -0.5]));
    let unknown = fused("FusedGemm", &inputs, &[text("activation", "Frobnicate")]);
    let error = Graph::new(&unknown).expect_err("an invalid case").to_string();
    assert!(error.contains("com.microsoft.FusedGemm"), "{error}");
}

#[test]
fn gelu_takes_a_bias() {
    let (x, bias) = (Some(floats(&[2], &[2.0, 0.0])), Some(floats(&[2], &[-1.0, -1.0])));
    let exact = floats(&[2], &[0.841_344_7, -0.158_655_3]);
    check("BiasGelu", &[x.clone(), bias.clone()], &[], &exact);
    let near = floats(&[2], &[0.841_192, -0.158_808]);
    check("FastGelu", &[x, bias], &[], &near);
    check("FastGelu", &[Some(floats(&[2], &[1.0, -1.0]))], &[], &near);
}

#[test]
fn quantized_operators_compute_numbers_of_codes() {
    let a = [Some(codes(&[2], &[10, 20])), number(0.5), zero(0)];
    let b = [Some(codes(&[2], &[4, 1])), number(1.0), zero(2)];
    let inputs = [&a[..], &b, &[number(0.25), zero(3)]].concat();
    check("QLinearAdd", &inputs, &[], &codes(&[2], &[31, 39]));
    check("QLinearMul", &inputs, &[], &codes(&[2], &[43, 0]));
    let x = |all: &[u8]| [Some(codes(&[1, 1, all.len()], all)), number(0.1), zero(128)];
    let to = |scale: f32, code: u8| [number(scale), zero(code)];
    let half = [&x(&[128])[..], &to(1.0 / 256.0, 0)].concat();
    check("QLinearSigmoid", &half, &[], &codes(&[1, 1, 1], &[128]));
    let two = [&x(&[120, 136])[..], &to(0.1, 128)].concat();
    let alpha = [("alpha", Attribute::Float(0.5))];
    check("QLinearLeakyRelu", &two, &alpha, &codes(&[1, 1, 2], &[124, 136]));
    check("QLinearGlobalAveragePool", &two, &[], &codes(&[1, 1, 1], &[128]));
    let kernel = [integers("kernel_shape", &[2])];
    check("QLinearAveragePool", &two, &kernel, &codes(&[1, 1, 1], &[128]));
    let equal = [&x(&[130, 130])[..], &to(1.0 / 256.0, 0)].concat();
    let newest = [integer("opset", 17), integer("axis", -1)];
    check("QLinearSoftmax", &equal, &newest, &codes(&[1, 1, 2], &[128, 128]));
    let parts = [Some(codes(&[1], &[2])), number(1.0), zero(0), Some(codes(&[1], &[4]))];
    let parts = [&to(0.5, 0)[..], &parts, &[number(0.25), zero(0)]].concat();
    check("QLinearConcat", &parts, &[integer("axis", 0)], &codes(&[2], &[4, 2]));
}

#[test]
fn quantized_products_have_scales_and_a_bias() {
    let a = Some(codes(&[1, 2], &[2, 4]));
    let b = Some(codes(&[2, 2], &[1, 2, 3, 4]));
    let bias = Some(Value::new(vec![2], vec![2_i32, -2]).expect("a valid case"));
    let product = [a.clone(), number(0.5), zero(0), b.clone(), number(1.0), zero(0), bias];
    check("QGemm", &product, &[], &floats(&[1, 2], &[8.0, 9.0]));
    let twice = [("alpha", Attribute::Float(2.0))];
    check("QGemm", &product, &twice, &floats(&[1, 2], &[16.0, 18.0]));
    let coded = [&product[..], &[number(0.5), zero(1)]].concat();
    check("QGemm", &coded, &[], &codes(&[1, 2], &[17, 19]));
    let ones = Some(floats(&[2], &[1.0, 1.0]));
    let product = [a, b.clone(), number(0.5), number(1.0), None, None, ones];
    check("MatMulIntegerToFloat", &product, &[], &floats(&[1, 2], &[8.0, 11.0]));
    let x = Some(floats(&[1, 2], &[255.0, 0.0]));
    let product = [x, b, number(0.5), zero(0)];
    check("DynamicQuantizeMatMul", &product, &[], &floats(&[1, 2], &[127.5, 255.0]));
}

/// The root of the mean square of 3 and 4 is the root of 12.5.
#[test]
fn numbers_are_divided_by_the_root_of_their_mean_square() {
    let root = 12.5_f32.sqrt();
    let expected = floats(&[1, 2], &[3.0 / root, 8.0 / root]);
    let (x, scale) = (floats(&[1, 2], &[3.0, 4.0]), floats(&[2], &[1.0, 2.0]));
    let exact = [("epsilon", Attribute::Float(0.0))];
    super::check("RMSNormalization", 23, &[x, scale.clone()], &exact, &expected);
    let inputs = [floats(&[1, 2], &[2.0, 3.0]), floats(&[1, 2], &[1.0, 1.0]), scale];
    let mut net = fused("SkipSimplifiedLayerNormalization", &inputs.clone().map(Some), &exact);
    let ends = ["mean", "inverse", "sum"];
    net.nodes[0].outputs.extend(ends.map(str::to_owned));
    let port = |name: &str| Port { name: name.to_owned(), element: None, shape: None };
    net.outputs.extend(ends.map(port));
    let found = session(&net).run(&inputs).expect("a valid case");
    let near = |at: usize, expected: &[f32]| {
        let found = found[at].as_slice::<f32>().expect("floats");
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5), "{at}: {found:?}");
    };
    near(0, &[3.0 / root, 8.0 / root]);
    near(2, &[1.0 / root]);
    near(3, &[3.0, 4.0]);
}

/// The sum is 1e-4 and -1e-4: its variance and mean square are 1e-8. With the `epsilon` of the standard's
/// operators, 1e-5, the outputs would be 0.03.
#[test]
fn norms_of_sums_have_a_small_epsilon() {
    let x = [Some(floats(&[1, 2], &[2e-4, 0.0])), Some(floats(&[1, 2], &[-1e-4, -1e-4]))];
    let ones = [Some(floats(&[2], &[1.0, 1.0]))];
    let unit = (1.0 / 1.0001_f32).sqrt();
    let expected = floats(&[1, 2], &[unit, -unit]);
    check("SkipSimplifiedLayerNormalization", &[&x[..], &ones].concat(), &[], &expected);
    let zeros = [Some(floats(&[2], &[0.0, 0.0]))];
    check("SkipLayerNormalization", &[&x[..], &ones, &zeros].concat(), &[], &expected);
    let root = 12.5_f32.sqrt();
    let inputs = [floats(&[1, 2], &[3.0, 4.0]), floats(&[2], &[1.0, 2.0])];
    let expected = floats(&[1, 2], &[3.0 / root, 8.0 / root]);
    check_standard("SimplifiedLayerNormalization", 17, &inputs, &[], &expected);
}

/// Models often read the sum, and rarely what is between it and the first output.
#[test]
fn sums_that_are_normalized_are_outputs() {
    let given = [floats(&[1, 2], &[3.0, 0.0]), floats(&[1, 2], &[-1.0, -1.0])];
    let given = [&given[..], &[floats(&[2], &[1.0, 1.0])]].concat();
    let inputs: Vec<Option<Value>> = given.iter().cloned().map(Some).collect();
    for op in ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"] {
        let mut net = fused(op, &inputs, &[]);
        net.nodes[0].outputs.extend(["", "", "sum"].map(str::to_owned));
        net.outputs[0].name = "sum".into();
        check_model(&net, &given, &floats(&[1, 2], &[2.0, -1.0]));
    }
}

/// The evaluator also knows scales of filters, and of rows of a product, before version 13.
#[test]
fn the_evaluator_agrees_on_codes_of_channels_and_rows() {
    let expected = codes(&[1, 2, 1, 2], &[13, 11, 11, 11]);
    check_standard("QLinearConv", 10, &super::integers::convolution(0.5), &[], &expected);
    let signed = |dims: &[usize], all: &[i8]| Value::new(dims, all.to_vec()).expect("a valid case");
    let product = [
        // Less the zero points of rows: 3, 0 and 0, 2.
        codes(&[2, 2], &[4, 1, 0, 2]),
        floats(&[2], &[0.5, 1.0]),
        codes(&[2], &[1, 0]),
        // Less the zero points of columns: 1, 0 and 3, 2.
        signed(&[2, 2], &[1, 2, 3, 4]),
        floats(&[2], &[1.0, 0.5]),
        signed(&[2], &[0, 2]),
        floats(&[2], &[1.0, 2.0]),
        signed(&[2], &[-3, 0]),
    ];
    // Numbers: 1.5, 0 and 6, 2.
    check_standard("QLinearMatMul", 10, &product, &[], &signed(&[2, 2], &[-1, -3, 3, 1]));
}
