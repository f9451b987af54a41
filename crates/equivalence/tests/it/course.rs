//! Models with the weights of the reference that compute another function with them, and models
//! that only seem to.

use std::path::Path;

use dyno_equivalence::{BeamCounts, Finding, Verdict, compare};
use dyno_onnx::{Attribute, Element, Model, Node, Port, Tensor, Values};

use crate::hidden::unknown;
use crate::made::{TestModel, check, node, random};

const OTHERWISE: &str = "the model differs from the reference";

#[test]
fn another_activation_or_attribute_is_not_known() {
    for op in ["Sigmoid", "Elu", "Identity", "LeakyRelu", "Neg"] {
        let mut made = TestModel::reference();
        made.model.nodes[1].op = op.into();
        unknown(&made, OTHERWISE);
    }
    let mut made = TestModel::reference();
    made.model.nodes[3].op = "GlobalMaxPool".into();
    unknown(&made, OTHERWISE);
    for (name, value) in
        [("strides", [2, 2].into()), ("dilations", [2, 2].into()), ("group", Attribute::Int(2))]
    {
        let mut made = TestModel::reference();
        made.set("c", name, value);
        unknown(&made, &format!("the model has {name}="));
    }
    let mut made = TestModel::reference();
    made.set("c", "pads", [1; 4]);
    unknown(&made, "the model pads {[1, 1, 1, 1]}");
    let mut bounded = TestModel::reference();
    bounded
        .model
        .tensors
        .extend([Tensor::from_f32("low", &[], &[0.0]), Tensor::from_f32("high", &[], &[6.0])]);
    bounded.model.nodes[1] = node("Clip", &["a", "low", "high"], "b");
    unknown(&bounded, "bounded above by 6");
    // Equivalent formulations of the reference are accepted.
    let told = BeamCounts::default();
    let same = compare(&bounded.model, &bounded.model, told).unwrap();
    assert_eq!(same.verdict, Verdict::Closed, "{:?}", same.reasons);
}

/// Two square layers with a residual around the second, and two outputs.
fn chain() -> TestModel {
    let mut made = TestModel { model: TestModel::empty() };
    for (seed, name) in ["first", "second"].into_iter().enumerate() {
        made.weight(name, &[40, 40], 60 + seed as u64);
        made.weight(&format!("{name}.bias"), &[40], 70 + seed as u64);
    }
    made.model.nodes = vec![
        node("MatMul", &["image", "first"], "a"),
        node("Add", &["a", "first.bias"], "b"),
        node("Relu", &["b"], "c"),
        node("MatMul", &["c", "second"], "d"),
        node("Add", &["d", "second.bias"], "e"),
        node("Add", &["e", "c"], "scores"),
        node("Tanh", &["b"], "more"),
    ];
    let more = Port { name: "more".into(), ..made.model.outputs[0].clone() };
    made.model.outputs.push(more);
    made
}

#[track_caller]
fn check_chain(made: &TestModel, verdict: Verdict, why: &str) {
    let found = compare(&made.model, &chain().model, BeamCounts::default()).unwrap();
    assert_eq!(found.verdict, verdict, "{:?}", found.reasons);
    assert!(found.reasons.iter().any(|one| one.what.contains(why)), "{:?}", found.reasons);
}

type Change = fn(&mut Vec<Node>);

#[test]
fn weights_in_the_place_of_others_are_not_known() {
    check_chain(&chain(), Verdict::Closed, "all 4 weights");
    let changes: [(Change, &str); 7] = [
        (
            |nodes| {
                nodes[0].inputs[1] = "second".into();
                nodes[3].inputs[1] = "first".into();
            },
            "in 4 places",
        ),
        (
            |nodes| {
                nodes[1].inputs[1] = "second.bias".into();
                nodes[4].inputs[1] = "first.bias".into();
            },
            "'first.bias'",
        ),
        (|nodes| nodes[5].inputs[1] = "e".into(), "the model uses nothing"),
        (|nodes| nodes[5].inputs[1] = "b".into(), "Relu"),
        (|nodes| nodes[5].op = "Sub".into(), "Difference"),
        (
            |nodes| {
                nodes[5].outputs[0] = "more".into();
                nodes[6].outputs[0] = "scores".into();
            },
            "at the output 'scores'",
        ),
        (
            |nodes| nodes[3] = node("FusedMatMul", &["c", "second"], "d"),
            "the transpose of the matrix of the reference",
        ),
    ];
    for (change, why) in changes {
        let mut made = chain();
        change(&mut made.model.nodes);
        if made.model.nodes[3].op == "FusedMatMul" {
            made.set("d", "transB", Attribute::Int(1));
        }
        check_chain(&made, Verdict::Unknown, why);
    }
}

#[test]
fn what_a_model_is_fed_or_makes_itself_is_no_weight_of_the_reference() {
    let mut made = chain();
    made.model.nodes[5].outputs[0] = "f".into();
    made.model.nodes.push(node("MatMul", &["f", "adapter"], "scores"));
    let mut fed = TestModel { model: made.model.clone() };
    let adapter = Port { name: "adapter".into(), ..fed.model.inputs[0].clone() };
    fed.model.inputs.push(adapter);
    check_chain(&fed, Verdict::Unknown, "input 'adapter'");
    let mut random = TestModel { model: made.model.clone() };
    random.model.nodes.insert(0, node("RandomNormal", &[], "adapter"));
    check_chain(&random, Verdict::Unknown, "RandomNormal of its own");
    let mut told = made;
    let mut texts = node("Constant", &[], "texts");
    texts.attributes.push(("value_strings".into(), Attribute::Texts(vec!["0.5".into(); 1600])));
    told.model.nodes.splice(0..0, [texts, node("Cast", &["texts"], "adapter")]);
    check_chain(&told, Verdict::Unknown, "Constant of its own");
}

#[test]
fn a_name_that_stands_for_two_things_is_not_known() {
    let mut made = TestModel::reference();
    made.weight("fc", &[8, 40], 99);
    made.model.tensors.rotate_right(1);
    unknown(&made, "'fc', which has two meanings");
    let mut made = TestModel::reference();
    made.model.nodes.push(node("Relu", &["d"], "e"));
    let found = unknown(&made, "'e', which has two meanings");
    assert!(found.tensors.iter().all(|one| one.finding == Finding::Same), "{found:?}");
}

#[test]
fn nodes_out_of_order_are_put_in_order() {
    // Engines sort nodes, so that a layer may follow the node that uses it.
    let mut made = TestModel::reference();
    made.weight("mine", &[8, 40], 5);
    made.model.nodes[5].outputs[0] = "products".into();
    made.model.nodes.push(node("Add", &["products", "others"], "scores"));
    made.model.nodes.push(node("MatMul", &["e", "mine"], "others"));
    let model = Model::from_bytes(&made.model.to_bytes().unwrap(), Path::new("")).unwrap();
    let found = compare(&model, &TestModel::reference().model, BeamCounts::default()).unwrap();
    assert_eq!(found.verdict, Verdict::Open, "{:?}", found.reasons);
    assert_eq!(found.extra[0].name, "mine");
}

#[test]
fn fused_operators_are_what_they_stand_for() {
    let mut made = TestModel::reference();
    made.model.nodes[0].op = "FusedConv".into();
    made.model.nodes[0].domain = "com.microsoft".into();
    made.model.nodes[1].op = "Identity".into();
    unknown(&made, OTHERWISE);
    made.set("a", "activation", "Relu");
    check(&made, Verdict::Closed, &[]);
    // A bound at 0 is a Relu, a mean over positions is a pooling, and a product with a doubly
    // transposed matrix is a product.
    let mut made = TestModel::reference();
    made.model.tensors.push(Tensor::from_f32("zero", &[], &[0.0]));
    made.model.nodes[1] = node("Clip", &["a", "zero"], "b");
    made.model.nodes[3].op = "ReduceMean".into();
    made.model.nodes[5].op = "Gemm".into();
    check(&made, Verdict::Closed, &[]);
}

#[test]
fn a_quantised_range_from_zero_is_a_relu() {
    for (zero, verdict) in [(0, Verdict::Closed), (128, Verdict::Unknown)] {
        let mut made = TestModel::reference();
        let point = Tensor {
            name: "zero".into(),
            element: Element::U8,
            shape: Vec::new(),
            values: Values::Bytes(vec![zero]),
        };
        made.model.tensors.extend([Tensor::from_f32("step", &[], &[0.1]), point]);
        made.model.nodes[1] = node("DequantizeLinear", &["codes", "step", "zero"], "b");
        made.model.nodes.insert(1, node("QuantizeLinear", &["a", "step", "zero"], "codes"));
        assert_eq!(made.compared().verdict, verdict, "{zero}: {:?}", made.compared().reasons);
    }
}

#[test]
fn layers_side_by_side_in_one_weight_are_found() {
    let parts = ["query", "key", "value"];
    let mut reference = TestModel { model: TestModel::empty() };
    for (seed, name) in parts.into_iter().enumerate() {
        reference.weight(name, &[8, 8], 80 + seed as u64);
        reference.model.nodes.push(node("MatMul", &["image", name], &format!("{name}s")));
    }
    reference.model.nodes.push(node("Concat", &["querys", "keys", "values"], "scores"));
    let fused = |turned: bool, change: f32| {
        let mut made = TestModel { model: TestModel::empty() };
        let all = parts.map(|name| reference.values(name));
        let at = |row: usize, column: usize| all[column / 8][row * 8 + column % 8];
        let mut values: Vec<f32> = if turned {
            (0..8 * 24).map(|index| at(index % 8, index / 8)).collect()
        } else {
            (0..8 * 24).map(|index| at(index / 24, index % 24)).collect()
        };
        values[9] += change;
        let shape = if turned { [24, 8] } else { [8, 24] };
        made.model.tensors.push(Tensor::from_f32("all", &shape, &values));
        let mut product = node("Gemm", &["image", "all"], "scores");
        product.attributes.push(("transB".into(), Attribute::Int(turned.into())));
        made.model.nodes.push(product);
        compare(&made.model, &reference.model, BeamCounts::default()).unwrap()
    };
    for turned in [false, true] {
        let found = fused(turned, 0.0);
        assert_eq!(found.verdict, Verdict::Closed, "{:?}", found.reasons);
        assert!(found.tensors.iter().all(|one| one.finding == Finding::Same));
        assert_eq!((found.extra.len(), found.non_zero.0), (0, 192));
        let found = fused(turned, 0.1);
        assert_eq!(found.tensors[0].finding, Finding::Retrained);
        assert_eq!(found.verdict, Verdict::RestrictedRetraining, "{:?}", found.reasons);
    }
}

#[test]
fn a_weight_may_be_held_twice_or_once() {
    // A table that is both looked up and multiplied with, transposed once when saved.
    let mut reference = TestModel { model: TestModel::empty() };
    reference.weight("table", &[40, 8], 90);
    reference.model.nodes = vec![
        node("Gather", &["table", "image"], "rows"),
        node("Transpose", &["table"], "turned"),
        node("MatMul", &["rows", "turned"], "scores"),
    ];
    let mut twice = TestModel { model: reference.model.clone() };
    let values = twice.values("table");
    let turned: Vec<f32> = (0..320).map(|at| values[at % 40 * 8 + at / 40]).collect();
    twice.model.nodes.remove(1);
    twice.model.tensors.push(Tensor::from_f32("turned", &[8, 40], &turned));
    let found = compare(&twice.model, &reference.model, BeamCounts::default()).unwrap();
    assert_eq!((found.verdict, found.extra.len()), (Verdict::Closed, 0), "{:?}", found.reasons);
    let found = compare(&reference.model, &twice.model, BeamCounts::default()).unwrap();
    assert_eq!(found.verdict, Verdict::Closed, "{:?}", found.reasons);
    // Another table of its shape is a supplement.
    twice.model.tensors[1] = Tensor::from_f32("turned", &[8, 40], &random(&[320], 91));
    let found = compare(&twice.model, &reference.model, BeamCounts::default()).unwrap();
    assert_eq!((found.verdict, found.extra.len()), (Verdict::Open, 1), "{:?}", found.reasons);
}
