//! Functions: operators that a file defines by nodes.

use super::{assert_close, attribute, bytes_with, floats, graph, node};
use crate::proto::{AttributeProto, FunctionProto, NodeProto, OperatorSetIdProto};
use crate::{Element, Model};

fn call(inputs: &[&str], output: &str, attributes: Vec<AttributeProto>) -> NodeProto {
    NodeProto { domain: "own".to_owned(), ..node("Both", inputs, &[output], attributes) }
}

/// Returns a function with these nodes.
fn function(nodes: Vec<NodeProto>) -> FunctionProto {
    FunctionProto {
        name: "Both".to_owned(),
        domain: "own".to_owned(),
        input: vec!["a".to_owned(), "low".to_owned()],
        output: vec!["b".to_owned()],
        node: nodes,
        attribute_proto: vec![AttributeProto { f: 0.5, ..attribute("slope", 1) }],
        ..FunctionProto::default()
    }
}

/// The first call has a slope of its own, and the second one a limit.
#[test]
fn functions_have_the_inputs_and_attributes_of_each_call() {
    let slope = AttributeProto { ref_attr_name: "slope".to_owned(), ..attribute("alpha", 1) };
    let both = function(vec![
        node("LeakyRelu", &["a"], &["t"], vec![slope]),
        node("Clip", &["t", "low"], &["b"], vec![]),
    ]);
    let own = AttributeProto { f: 0.25, ..attribute("slope", 1) };
    let nodes = vec![call(&["x"], "t", vec![own]), call(&["t", "limit"], "y", vec![])];
    let inputs = [("x", floats(&[2], &[-8.0, 2.0])), ("limit", floats(&[], &[-0.75]))];
    let ports = inputs.each_ref().map(|(name, tensor)| (*name, tensor.element()));
    let file = bytes_with(13, graph(nodes, &ports, &["y"]), vec![both]);
    let outputs = Model::from_bytes(&file).unwrap().run(&inputs).unwrap();
    assert_close(&outputs[0].1, &[2], &[-0.75, 2.0]);
    // A function must not call itself.
    let endless = function(vec![call(&["a", "low"], "b", vec![])]);
    let caller = graph(vec![call(&["x"], "y", vec![])], &ports, &["y"]);
    let error = Model::from_bytes(&bytes_with(13, caller, vec![endless])).unwrap_err();
    assert!(error.to_string().contains("calls too many functions"), "{error}");
}

/// Before opset 13, the softmax is that of all numbers from the second axis on: here of four equal ones.
#[test]
fn functions_have_operators_of_their_own_opset() {
    let nodes = vec![node("Softmax", &["a"], &["b"], vec![])];
    let imports = |version: i64| vec![OperatorSetIdProto { domain: "ai.onnx".to_owned(), version }];
    let ports = [("x", Element::Float32)];
    let model = |opset_import: Vec<OperatorSetIdProto>| {
        let function = FunctionProto { opset_import, ..function(nodes.clone()) };
        let caller = graph(vec![call(&["x"], "y", vec![])], &ports, &["y"]);
        Model::from_bytes(&bytes_with(13, caller, vec![function]))
    };
    let inputs = [("x", floats(&[1, 2, 2], &[1.0; 4]))];
    for (opset_import, expected) in [(imports(12), 0.25), (imports(13), 0.5), (vec![], 0.5)] {
        let outputs = model(opset_import).unwrap().run(&inputs).unwrap();
        assert_close(&outputs[0].1, &[1, 2, 2], &[expected; 4]);
    }
    let error = model(imports(6)).unwrap_err().to_string();
    assert!(error.contains("expected an opset of 7 to 28, found 6"), "{error}");
}
