//! Tests of whole models. Expected numbers are written out, or follow from the equations of the standard.

mod functions;
mod jumps;

use std::fs;

use prost::Message;

use crate::proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    StringStringEntryProto, TensorProto, TensorTypeProto, TypeProto, ValueInfoProto,
};
use crate::{Element, Model, OracleError, Tensor, Values, random, stored};

fn floats(shape: &[usize], values: &[f64]) -> Tensor {
    Tensor::floats(Element::Float32, shape, values.to_vec()).unwrap()
}

fn integers(shape: &[usize], values: &[i64]) -> Tensor {
    Tensor::integers(Element::Int64, shape, values.to_vec()).unwrap()
}

fn node(
    operator: &str,
    inputs: &[&str],
    outputs: &[&str],
    attributes: Vec<AttributeProto>,
) -> NodeProto {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    NodeProto {
        input: names(inputs),
        output: names(outputs),
        name: format!("the {operator}"),
        op_type: operator.to_owned(),
        attribute: attributes,
        domain: String::new(),
    }
}

fn attribute(name: &str, kind: i32) -> AttributeProto {
    AttributeProto { name: name.to_owned(), kind, ..AttributeProto::default() }
}

fn integer(name: &str, value: i64) -> AttributeProto {
    AttributeProto { i: value, ..attribute(name, 2) }
}

fn text(name: &str, value: &str) -> AttributeProto {
    AttributeProto { s: value.into(), ..attribute(name, 3) }
}

fn port(name: &str, element: Element) -> ValueInfoProto {
    let tensor = TensorTypeProto { elem_type: element.code(), shape: None };
    ValueInfoProto { name: name.to_owned(), r#type: Some(TypeProto { tensor_type: Some(tensor) }) }
}

/// Returns a graph whose inputs are the given ones.
fn graph(nodes: Vec<NodeProto>, inputs: &[(&str, Element)], outputs: &[&str]) -> GraphProto {
    GraphProto {
        node: nodes,
        input: inputs.iter().map(|(name, element)| port(name, *element)).collect(),
        output: outputs.iter().map(|name| port(name, Element::Float32)).collect(),
        ..GraphProto::default()
    }
}

fn bytes(opset: i64, graph: GraphProto) -> Vec<u8> {
    bytes_with(opset, graph, Vec::new())
}

fn bytes_with(opset: i64, graph: GraphProto, functions: Vec<FunctionProto>) -> Vec<u8> {
    let opset_import = vec![OperatorSetIdProto { domain: String::new(), version: opset }];
    ModelProto { ir_version: 8, graph: Some(graph), opset_import, functions }.encode_to_vec()
}

/// Computes a model of these nodes.
fn compute(
    opset: i64,
    nodes: Vec<NodeProto>,
    inputs: &[(&str, Tensor)],
    outputs: &[&str],
) -> Result<Vec<Tensor>, OracleError> {
    let ports: Vec<(&str, Element)> =
        inputs.iter().map(|(name, tensor)| (*name, tensor.element())).collect();
    let model = Model::from_bytes(&bytes(opset, graph(nodes, &ports, outputs)))?;
    let outputs = model.with_limit(100_000).run(inputs)?;
    Ok(outputs.into_iter().map(|(_, tensor)| tensor).collect())
}

fn error(opset: i64, nodes: Vec<NodeProto>, inputs: &[(&str, Tensor)]) -> String {
    compute(opset, nodes, inputs, &["y"]).unwrap_err().to_string()
}

#[track_caller]
fn assert_close(tensor: &Tensor, shape: &[usize], expected: &[f64]) {
    let Values::Floats(values) = tensor.values() else {
        panic!("{} are no floats", tensor.element())
    };
    assert_eq!(tensor.shape(), shape);
    let fits = values.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12);
    assert!(fits && values.len() == expected.len(), "{values:?} instead of {expected:?}");
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

#[test]
fn an_lstm_of_one_unit_follows_the_equations() {
    // Gates in the order of the standard: i, o, f, c.
    let inputs = [
        ("x", floats(&[2, 1, 1], &[1.0, -0.5])),
        ("w", floats(&[1, 4, 1], &[0.5, -1.0, 0.25, 2.0])),
        ("r", floats(&[1, 4, 1], &[1.0, 0.5, -0.5, 0.75])),
        ("p", floats(&[1, 3], &[0.5, 0.25, -1.0])),
    ];
    let lstm = node("LSTM", &["x", "w", "r", "", "", "", "", "p"], &["y", "h", "c"], vec![]);
    let outputs = compute(14, vec![lstm], &inputs, &["y", "h", "c"]).unwrap();
    let step = |x: f64, h: f64, c: f64| {
        let input = sigmoid(0.5 * x + h + 0.5 * c);
        let forget = sigmoid(0.25 * x - 0.5 * h - c);
        let new = forget * c + input * (2.0 * x + 0.75 * h).tanh();
        (sigmoid(-x + 0.5 * h + 0.25 * new) * new.tanh(), new)
    };
    let (h1, c1) = step(1.0, 0.0, 0.0);
    let (h2, c2) = step(-0.5, h1, c1);
    assert_close(&outputs[0], &[2, 1, 1, 1], &[h1, h2]);
    assert_close(&outputs[1], &[1, 1, 1], &[h2]);
    assert_close(&outputs[2], &[1, 1, 1], &[c2]);
}

#[test]
fn a_gru_resets_before_or_after_its_product() {
    // Two units whose recurrent weights swap them: with one, both orders are the same.
    let inputs = [
        ("x", floats(&[1, 1, 1], &[0.5])),
        ("w", floats(&[1, 6, 1], &[0.125, 0.25, 0.5, -0.5, 0.75, 1.5])),
        ("r", floats(&[1, 6, 2], &[0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 2.0, 0.0, 1.0, 1.0, 0.0])),
        ("h", floats(&[1, 1, 2], &[0.75, -0.25])),
    ];
    let h = [0.75, -0.25];
    let reset = [sigmoid(0.5 * 0.5 + h[0]), sigmoid(-0.5 * 0.5 + 2.0 * h[1])];
    let before = [reset[1] * h[1], reset[0] * h[0]];
    let after = [reset[0] * h[1], reset[1] * h[0]];
    for (linear_before_reset, sums) in [(0, before), (1, after)] {
        let attributes = vec![integer("linear_before_reset", linear_before_reset)];
        let gru = node("GRU", &["x", "w", "r", "", "", "h"], &["", "y"], attributes);
        let unit = |unit: usize, update: f64, candidate: f64| {
            let (update, candidate) = (sigmoid(update), (candidate + sums[unit]).tanh());
            (1.0 - update) * candidate + update * h[unit]
        };
        let expected = [unit(0, 0.125 * 0.5, 0.75 * 0.5), unit(1, 0.25 * 0.5, 1.5 * 0.5)];
        let outputs = compute(14, vec![gru], &inputs, &["y"]).unwrap();
        assert_close(&outputs[0], &[1, 1, 2], &expected);
    }
}

/// A sum over time: with weights 1 and `Affine` as identity the state is the sum of inputs so far.
fn sums(attributes: Vec<AttributeProto>) -> NodeProto {
    let strings =
        vec![b"Affine".to_vec(); if attributes.is_empty() { 1 } else { attributes.len() }];
    let numbers = |value: f32| vec![value; strings.len()];
    let mut all = attributes;
    all.push(AttributeProto { floats: numbers(1.0), ..attribute("activation_alpha", 6) });
    all.push(AttributeProto { floats: numbers(0.0), ..attribute("activation_beta", 6) });
    all.push(AttributeProto { strings, ..attribute("activations", 8) });
    node("RNN", &["x", "w", "r", "", "lengths"], &["y", "h"], all)
}

#[test]
fn the_reverse_direction_starts_at_the_end_of_each_sequence() {
    let inputs = [
        ("x", floats(&[3, 2, 1], &[1.0, 10.0, 2.0, 20.0, 3.0, 30.0])),
        ("w", floats(&[1, 1, 1], &[1.0])),
        ("r", floats(&[1, 1, 1], &[1.0])),
        ("lengths", Tensor::integers(Element::Int32, &[2], vec![3, 2]).unwrap()),
    ];
    let forward = compute(14, vec![sums(vec![])], &inputs, &["y", "h"]).unwrap();
    assert_close(&forward[0], &[3, 1, 2, 1], &[1.0, 10.0, 3.0, 30.0, 6.0, 0.0]);
    assert_close(&forward[1], &[1, 2, 1], &[6.0, 30.0]);
    let reverse = sums(vec![text("direction", "reverse")]);
    let reverse = compute(14, vec![reverse], &inputs, &["y", "h"]).unwrap();
    assert_close(&reverse[0], &[3, 1, 2, 1], &[6.0, 30.0, 5.0, 20.0, 3.0, 0.0]);
    assert_close(&reverse[1], &[1, 2, 1], &[6.0, 30.0]);
}

#[test]
fn layout_1_has_batch_first_everywhere() {
    let inputs = [
        ("x", floats(&[2, 3, 1], &[1.0, 2.0, 3.0, 10.0, 20.0, 30.0])),
        ("w", floats(&[2, 1, 1], &[1.0, 1.0])),
        ("r", floats(&[2, 1, 1], &[1.0, 1.0])),
        ("lengths", Tensor::integers(Element::Int32, &[2], vec![3, 3]).unwrap()),
    ];
    let both = sums(vec![text("direction", "bidirectional"), integer("layout", 1)]);
    let outputs = compute(14, vec![both], &inputs, &["y", "h"]).unwrap();
    let y = [1.0, 6.0, 3.0, 5.0, 6.0, 3.0, 10.0, 60.0, 30.0, 50.0, 60.0, 30.0];
    assert_close(&outputs[0], &[2, 3, 2, 1], &y);
    assert_close(&outputs[1], &[2, 2, 1], &[6.0, 6.0, 60.0, 60.0]);
}

#[test]
fn wrong_recurrent_nodes_are_reported_by_name() {
    let inputs = |lengths: &[i64]| {
        let lengths = Tensor::integers(Element::Int32, &[1], lengths.to_vec()).unwrap();
        [
            ("x", floats(&[2, 1, 1], &[1.0, 2.0])),
            ("w", floats(&[1, 1, 1], &[1.0])),
            ("r", floats(&[1, 1, 1], &[1.0])),
            ("lengths", lengths),
        ]
    };
    let rnn = |attributes| node("RNN", &["x", "w", "r", "", "lengths"], &["y", "h"], attributes);
    let cases = [
        (vec![integer("hidden_size", 2)], 2, "hidden_size"),
        (vec![integer("output_sequence", 1)], 2, "output_sequence"),
        (vec![text("direction", "sideways")], 2, "sideways"),
        (vec![], -1, "expected a size, found -1"),
        (vec![], 3, "lengths [3]"),
        (vec![], 0, "without steps"),
    ];
    for (attributes, length, part) in cases {
        let message = error(14, vec![rnn(attributes)], &inputs(&[length]));
        assert!(message.contains("the RNN") && message.contains(part), "{message}");
    }
}

#[test]
fn an_rnn_of_one_direction_may_state_the_default_of_two() {
    let inputs = [
        ("x", floats(&[2, 1, 1], &[0.5, -0.25])),
        ("w", floats(&[1, 1, 1], &[1.0])),
        ("r", floats(&[1, 1, 1], &[2.0])),
    ];
    let strings = vec![b"Tanh".to_vec(), b"Tanh".to_vec()];
    let stated = AttributeProto { strings, ..attribute("activations", 8) };
    let rnn = node("RNN", &["x", "w", "r"], &["y"], vec![stated]);
    let first = 0.5_f64.tanh();
    let expected = [first, (2.0 * first - 0.25).tanh()];
    assert_close(&compute(14, vec![rnn], &inputs, &["y"]).unwrap()[0], &[2, 1, 1, 1], &expected);
}

#[test]
fn softmax_covers_all_dimensions_from_its_axis_before_opset_13() {
    let input = [("x", floats(&[1, 2, 2], &[0.0; 4]))];
    let softmax = || vec![node("Softmax", &["x"], &["y"], vec![])];
    assert_close(&compute(12, softmax(), &input, &["y"]).unwrap()[0], &[1, 2, 2], &[0.25; 4]);
    assert_close(&compute(13, softmax(), &input, &["y"]).unwrap()[0], &[1, 2, 2], &[0.5; 4]);
}

#[test]
fn a_reduction_of_no_axes_applies_to_each_element() {
    let input = [("x", floats(&[3], &[0.5, 2.0, 4.0]))];
    let ln_2 = std::f64::consts::LN_2;
    for (op, expected) in [
        ("ReduceSum", [0.5, 2.0, 4.0]),
        ("ReduceL2", [0.5, 2.0, 4.0]),
        ("ReduceLogSumExp", [0.5, 2.0, 4.0]),
        ("ReduceSumSquare", [0.25, 4.0, 16.0]),
        ("ReduceLogSum", [-ln_2, ln_2, 2.0 * ln_2]),
    ] {
        let attributes = vec![integer("noop_with_empty_axes", 1)];
        let reduce = node(op, &["x"], &["y"], attributes);
        assert_close(&compute(18, vec![reduce], &input, &["y"]).unwrap()[0], &[3], &expected);
    }
}

#[test]
fn floats_are_not_rounded_except_by_cast() {
    let input = [("x", floats(&[1], &[1.0 + 1e-12]))];
    let twice = node("Add", &["x", "x"], &["y"], vec![]);
    let exact = compute(14, vec![twice], &input, &["y"]).unwrap();
    assert_eq!(exact[0].values(), &Values::Floats(vec![2.0 * (1.0 + 1e-12)]));
    let cast = node("Cast", &["x"], &["y"], vec![integer("to", 1)]);
    assert_eq!(
        compute(14, vec![cast], &input, &["y"]).unwrap()[0].values(),
        &Values::Floats(vec![1.0])
    );
    let cast = node("Cast", &["x"], &["y"], vec![integer("to", 7)]);
    let large = [("x", floats(&[1], &[1e30]))];
    assert!(error(14, vec![cast], &large).contains("does not define"));
}

#[test]
fn a_loop_stops_by_count_or_condition_and_stacks_its_outputs() {
    let body = graph(
        vec![
            node("Add", &["state", "x"], &["next"], vec![]),
            node("Identity", &["next"], &["out"], vec![]),
            node("Identity", &["condition"], &["goes_on"], vec![]),
        ],
        &[("number", Element::Int64), ("condition", Element::Bool), ("state", Element::Float32)],
        &["goes_on", "next", "out"],
    );
    let body = AttributeProto { g: Some(body), ..attribute("body", 5) };
    let inputs = [("x", floats(&[1], &[2.0])), ("count", integers(&[], &[3]))];
    let counted = node("Loop", &["count", "", "x"], &["last", "y"], vec![body.clone()]);
    let outputs = compute(13, vec![counted], &inputs, &["last", "y"]).unwrap();
    assert_close(&outputs[0], &[1], &[8.0]);
    assert_close(&outputs[1], &[3, 1], &[4.0, 6.0, 8.0]);
    let endless = node("Loop", &["", "", "x"], &["last", "y"], vec![body]);
    let endless = compute(13, vec![endless], &inputs, &["y"]).unwrap_err();
    assert!(matches!(endless, OracleError::TooLarge { limit: 100_000 }), "{endless}");
}

#[test]
fn what_is_unknown_is_an_error_that_names_the_node() {
    let input = [("x", floats(&[1], &[1.0]))];
    let message = error(14, vec![node("Fictional", &["x"], &["y"], vec![])], &input);
    assert_eq!(message, "node \"the Fictional\" (Fictional): the operator is not supported");
    let message = error(14, vec![node("Relu", &["x"], &["y"], vec![integer("slope", 1)])], &input);
    assert_eq!(message, "node \"the Relu\" (Relu): attribute \"slope\" is not supported");
    let message = error(13, vec![node("HardSwish", &["x"], &["y"], vec![])], &input);
    assert!(message.contains("since opset 14"), "{message}");
    let message = error(14, vec![node("Relu", &["z"], &["y"], vec![])], &input);
    assert!(message.contains("input \"z\" is not computed before"), "{message}");
}

/// Converters to float16 append nodes at the end of the file. The graph of the `If` reads "double".
#[test]
fn nodes_are_computed_in_the_order_of_their_values() {
    let branch = |operator: &str| {
        graph(vec![node(operator, &["double"], &["inner"], vec![])], &[], &["inner"])
    };
    let branches = vec![
        AttributeProto { g: Some(branch("Neg")), ..attribute("then_branch", 5) },
        AttributeProto { g: Some(branch("Abs")), ..attribute("else_branch", 5) },
    ];
    let nodes = vec![
        node("Add", &["chosen", "x"], &["y"], vec![]),
        node("If", &["is_set"], &["chosen"], branches),
        node("Cast", &["x"], &["is_set"], vec![integer("to", 9)]),
        node("Add", &["x", "x"], &["double"], vec![]),
    ];
    let input = [("x", floats(&[1], &[3.0]))];
    assert_close(&compute(14, nodes, &input, &["y"]).unwrap()[0], &[1], &[-3.0]);
    let cycle = vec![
        node("Relu", &["b"], &["a"], vec![]),
        node("Relu", &["a"], &["b"], vec![]),
        node("Relu", &["x"], &["y"], vec![]),
    ];
    let message = error(14, cycle, &input);
    assert!(message.contains("is not computed before this node"), "{message}");
}

#[test]
fn a_shape_that_no_machine_holds_is_an_error() {
    let shape = [("x", integers(&[3], &[1 << 40, 1 << 40, 1 << 40]))];
    let message = error(14, vec![node("ConstantOfShape", &["x"], &["y"], vec![])], &shape);
    assert!(message.contains("too large"), "{message}");
}

#[test]
#[cfg(unix)]
fn external_data_come_from_files_beside_the_model_only() {
    let folder = std::env::temp_dir().join(format!("dyno-oracle-{}", std::process::id()));
    fs::create_dir_all(folder.join("inside")).unwrap();
    fs::write(folder.join("inside/w.bin"), 2.5f32.to_le_bytes()).unwrap();
    fs::write(folder.join("outside.bin"), 2.5f32.to_le_bytes()).unwrap();
    std::os::unix::fs::symlink("../outside.bin", folder.join("inside/link.bin")).unwrap();
    let result = |location: &str| {
        let entry =
            StringStringEntryProto { key: "location".to_owned(), value: location.to_owned() };
        let mut graph = graph(vec![node("Relu", &["w"], &["y"], vec![])], &[], &["y"]);
        graph.initializer.push(TensorProto {
            dims: vec![1],
            data_type: 1,
            name: "w".to_owned(),
            external_data: vec![entry],
            data_location: 1,
            ..TensorProto::default()
        });
        let path = folder.join("inside/model.onnx");
        fs::write(&path, bytes(14, graph)).unwrap();
        Model::read(&path).and_then(|model| model.run(&[])).map_err(|error| error.to_string())
    };
    let found = result("w.bin").map(|outputs| outputs[0].1.values().clone());
    assert_eq!(found, Ok(Values::Floats(vec![2.5])));
    for location in ["../outside.bin", "link.bin", "missing.bin", "/dev/zero", "."] {
        let message = result(location).unwrap_err();
        assert!(message.contains("constant \"w\""), "{location}: {message}");
    }
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn every_type_survives_a_file() {
    let cases = [
        (Element::Float16, vec![1.5, -0.25, 65504.0]),
        (Element::BFloat16, vec![1.5, -0.25, 3.0]),
        (Element::Float32, vec![1.5, -0.25, 2f64.powi(100)]),
        (Element::Float64, vec![1.5, -0.25, 1e300]),
    ];
    for (element, values) in cases {
        let tensor = Tensor::floats(element, &[3], values).unwrap();
        let read = Tensor::from_bytes(&tensor.to_bytes("t")).unwrap();
        assert_eq!(read, ("t".to_owned(), tensor));
    }
    for element in [Element::Int8, Element::UInt16, Element::Int64, Element::UInt32, Element::Bool]
    {
        let (low, high) = element.limits();
        let tensor = Tensor::integers(element, &[2], vec![low, high]).unwrap();
        assert_eq!(Tensor::from_bytes(&tensor.to_bytes("t")).unwrap().1, tensor);
    }
    let raw = TensorProto {
        dims: vec![2],
        data_type: 10,
        raw_data: Some(vec![0x00, 0x3e, 0x00, 0xb4]),
        ..TensorProto::default()
    };
    let read = stored::read(&raw, None).unwrap();
    assert_eq!(read.values(), &Values::Floats(vec![1.5, -0.25]));
}

#[test]
fn damaged_models_never_panic() {
    let mut refused = 0;
    for seed in 0..2000u64 {
        let case = random::case(seed % 100);
        let mut bytes = case.bytes;
        let place = usize::try_from(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20).unwrap();
        let length = bytes.len();
        bytes[place % length] ^= 1 << (seed % 8);
        bytes[place / 7 % length] = 0xff;
        let inputs: Vec<_> =
            case.inputs.iter().map(|(name, x)| (name.as_str(), x.clone())).collect();
        let result =
            Model::from_bytes(&bytes).and_then(|model| model.with_limit(100_000).run(&inputs));
        refused += usize::from(result.is_err());
    }
    assert!(refused > 0);
}

#[test]
fn random_models_are_valid_and_the_same_for_a_seed() {
    for seed in 0..500 {
        let case = random::case(seed);
        let model = Model::from_bytes(&case.bytes).unwrap();
        let inputs: Vec<_> =
            case.inputs.iter().map(|(name, x)| (name.as_str(), x.clone())).collect();
        let outputs = model.run(&inputs).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let is_finite = outputs.iter().all(|(_, tensor)| match tensor.values() {
            Values::Floats(values) => values.iter().all(|value| value.abs() < 1e6),
            Values::Integers(_) => false,
        });
        assert!(is_finite, "seed {seed}: {:?}", case.operators);
        assert_eq!(case.bytes, random::case(seed).bytes);
    }
}

#[test]
fn einsum_sums_over_the_names_that_the_output_lacks() {
    let product =
        |equation: &str| node("Einsum", &["a", "b"], &["y"], vec![text("equation", equation)]);
    let inputs =
        [("a", floats(&[2, 2], &[1., 2., 3., 4.])), ("b", floats(&[2, 2], &[5., 6., 7., 8.]))];
    let y = compute(13, vec![product("ij,jk->ki")], &inputs, &["y"]).unwrap();
    assert_close(&y[0], &[2, 2], &[19., 43., 22., 50.]);
    // The diagonal of a, times the sum of b.
    let y = compute(13, vec![product("ii,jk->i")], &inputs, &["y"]).unwrap();
    assert_close(&y[0], &[2], &[26., 104.]);
    // An ellipsis stands for the other dimensions, which are broadcast.
    for equation in ["...i,ij", "...i,ij->...j", "...ik,...kj->...ij"] {
        let y = compute(13, vec![product(equation)], &inputs, &["y"]).unwrap();
        assert_close(&y[0], &[2, 2], &[19., 22., 43., 50.]);
    }
    let row = [("a", floats(&[1, 2], &[1., 2.])), ("b", floats(&[2, 2], &[5., 6., 7., 8.]))];
    let y = compute(13, vec![product("...i,...i->...i")], &row, &["y"]).unwrap();
    assert_close(&y[0], &[2, 2], &[5., 12., 7., 16.]);
    assert!(error(13, vec![product("...i,ij->j")], &inputs).contains("lacks the ellipsis"));
    assert!(error(13, vec![product("i..,ij")], &inputs).contains("the Einsum"));
}

#[test]
fn resize_reads_the_coordinates_of_its_mode() {
    let resize = |mode: &str, coordinates: &str| {
        let attributes =
            vec![text("mode", mode), text("coordinate_transformation_mode", coordinates)];
        node("Resize", &["x", "", "scales"], &["y"], attributes)
    };
    let inputs = [("x", floats(&[2], &[0., 4.])), ("scales", floats(&[1], &[2.]))];
    let cases = [
        ("linear", "half_pixel", [0., 1., 3., 4.]),
        ("linear", "align_corners", [0., 4. / 3., 8. / 3., 4.]),
        ("linear", "asymmetric", [0., 2., 4., 4.]),
        ("nearest", "half_pixel", [0., 0., 4., 4.]),
    ];
    for (mode, coordinates, expected) in cases {
        let y = compute(13, vec![resize(mode, coordinates)], &inputs, &["y"]).unwrap();
        assert_close(&y[0], &[4], &expected);
    }
    // Before opset 11 the standard does not say where the elements between come from.
    let half = [("x", floats(&[2], &[0., 4.])), ("scales", floats(&[1], &[1.5]))];
    let old = node("Resize", &["x", "scales"], &["y"], vec![]);
    assert!(error(10, vec![old], &half).contains("only whole scales"));
    // Refused before the place of each element is computed.
    let huge = [("x", floats(&[2], &[0., 4.])), ("scales", floats(&[1], &[1e9]))];
    let refused = error(13, vec![resize("nearest", "asymmetric")], &huge);
    assert!(refused.contains("too large to verify"), "{refused}");
}

/// Three windows of one element, two apart, cover five elements. Others are 0.
#[test]
fn an_asked_output_may_exceed_the_windows_of_a_transposed_convolution() {
    let list =
        |name: &str, ints: &[i64]| AttributeProto { ints: ints.to_vec(), ..attribute(name, 7) };
    let inputs = [("x", floats(&[1, 1, 3], &[1., 2., 3.])), ("w", floats(&[1, 1, 1], &[10.]))];
    for attributes in [
        vec![list("strides", &[2]), list("output_shape", &[6])],
        vec![list("strides", &[2]), text("auto_pad", "SAME_LOWER")],
    ] {
        let spread = node("ConvTranspose", &["x", "w"], &["y"], attributes);
        let y = compute(11, vec![spread], &inputs, &["y"]).unwrap();
        assert_close(&y[0], &[1, 1, 6], &[10., 0., 20., 0., 30., 0.]);
    }
}

/// Peers compute these nodes differently, and the standard's text decides none.
#[test]
fn what_peers_compute_differently_is_an_error() {
    let list =
        |name: &str, ints: &[i64]| AttributeProto { ints: ints.to_vec(), ..attribute(name, 7) };
    let inputs = [("x", floats(&[1, 1, 3], &[1., 2., 3.])), ("w", floats(&[1, 1, 1], &[10.]))];
    for attributes in [
        vec![list("strides", &[2]), list("output_shape", &[7])],
        vec![list("strides", &[2]), text("auto_pad", "SAME_UPPER")],
    ] {
        let spread = node("ConvTranspose", &["x", "w"], &["y"], attributes);
        let reason = error(11, vec![spread], &inputs);
        assert!(reason.contains("windows cover 5 of"), "{reason}");
    }
    let limits = [("x", floats(&[1], &[1.0])), ("low", floats(&[], &[f64::NAN]))];
    let clip = node("Clip", &["x", "low"], &["y"], vec![]);
    assert!(error(13, vec![clip], &limits).contains("a limit is NaN"));
    // Its body ends the loop, which has no condition, after the first of two iterations.
    let body = graph(
        vec![node("Not", &["condition"], &["goes_on"], vec![])],
        &[("number", Element::Int64), ("condition", Element::Bool), ("state", Element::Float32)],
        &["goes_on", "state"],
    );
    let body = AttributeProto { g: Some(body), ..attribute("body", 5) };
    let inputs = [("x", floats(&[1], &[2.0])), ("count", integers(&[], &[2]))];
    let counted = node("Loop", &["count", "", "x"], &["y"], vec![body]);
    assert!(error(13, vec![counted], &inputs).contains("its body ends it"));
}

/// ONNX: the default limits are the least and the greatest finite number.
#[test]
fn infinite_numbers_exceed_the_default_limits() {
    let inputs = [("x", floats(&[2], &[f64::INFINITY, f64::NEG_INFINITY]))];
    for opset in [7, 13] {
        let y = compute(opset, vec![node("Clip", &["x"], &["y"], vec![])], &inputs, &["y"]);
        let most = f64::from(f32::MAX);
        assert_eq!(y.unwrap()[0].values(), &Values::Floats(vec![most, -most]), "{opset}");
    }
}

/// The square of 1e-30 is 1e-60, far below the least number of float32, and that of 1e30 above.
#[test]
fn numbers_beyond_the_range_of_their_type_are_noted() {
    for (element, x, expected) in [
        (Element::Float32, 1e-30, (false, true)),
        (Element::Float32, 1e30, (true, false)),
        (Element::Float32, 0., (false, false)),
        (Element::Float64, 1e-30, (false, false)),
    ] {
        let nodes = vec![node("Mul", &["x", "x"], &["y"], vec![])];
        let model = bytes(13, graph(nodes, &[("x", element)], &["y"]));
        let x = Tensor::floats(element, &[1], vec![x]).unwrap();
        let found = Model::from_bytes(&model).unwrap().evaluate(&[("x", x)]).unwrap();
        assert_eq!((found.has_overflow, found.has_underflow), expected, "{element}");
    }
}

/// Equal numbers are no close choice: their indices decide.
#[test]
fn choices_between_numbers_that_are_almost_equal_are_noted() {
    let last = node("ArgMax", &["x"], &["y"], vec![integer("axis", 2)]);
    let boxes = node("NonMaxSuppression", &["boxes", "x", "most"], &["y"], vec![]);
    let sorted = node("TopK", &["x", "most"], &["z", "y"], vec![]);
    let distinct = node("Unique", &["x"], &["y"], vec![]);
    let kernel = AttributeProto { ints: vec![2], ..attribute("kernel_shape", 7) };
    let greatest = node("MaxPool", &["x"], &["z", "y"], vec![kernel]);
    for (second, expected) in [(1.0, false), (1.000_01, true), (1.1, false)] {
        let inputs = [
            ("x", floats(&[1, 1, 2], &[1.0, second])),
            ("boxes", floats(&[1, 2, 4], &[0., 0., 1., 1., 2., 2., 3., 3.])),
            ("most", integers(&[1], &[2])),
        ];
        let ports = inputs.each_ref().map(|(name, tensor)| (*name, tensor.element()));
        for choice in [&last, &boxes, &sorted, &distinct, &greatest] {
            let model = bytes(13, graph(vec![choice.clone()], &ports, &["y"]));
            let found = Model::from_bytes(&model).unwrap().evaluate(&inputs).unwrap();
            assert_eq!(found.has_close_choice, expected, "{} {second}", choice.op_type);
        }
    }
}
