//! Weights in unexpected places: in bodies, in forms that are not understood, and unused.

use dyno_equivalence::{BeamCounts, Equivalence, Finding, Verdict, compare};
use dyno_loadgen::rng::Mt19937;
use dyno_onnx::{Attribute, Body, Element, Model, Tensor, Values};

use crate::made::{TestModel, check, node, random};

/// The classifier as integers of a type, with the graph that dequantizes them.
fn whole(element: Element, code: impl Fn(f32) -> i64, scale: f32, zero: f32) -> TestModel {
    let mut made = TestModel::reference();
    let bytes = |value: &f32| code(*value).to_le_bytes()[..element.size()].to_vec();
    let values = Values::Bytes(made.values("fc").iter().flat_map(bytes).collect());
    made.model.tensors.retain(|tensor| tensor.name != "fc");
    made.model.tensors.extend([
        Tensor { name: "q".into(), element, shape: vec![8, 40], values },
        Tensor::from_f32("z", &[], &[zero]),
        Tensor::from_f32("s", &[], &[scale]),
    ]);
    let mut cast = node("Cast", &["q"], "qf");
    cast.attributes.push(("to".into(), Attribute::Int(1)));
    let nodes = [cast, node("Sub", &["qf", "z"], "qz"), node("Mul", &["qz", "s"], "fc")];
    made.model.nodes.splice(0..0, nodes);
    made
}

#[track_caller]
pub fn unknown(made: &TestModel, why: &str) -> Equivalence {
    let found = made.compared();
    assert_eq!(found.verdict, Verdict::Unknown, "{:?}", found.reasons);
    assert_eq!(found.verdict.name(), "unknown");
    assert!(found.reasons.iter().any(|reason| reason.what.contains(why)), "{:?}", found.reasons);
    found
}

#[test]
fn whole_numbers_that_become_weights_by_arithmetic_are_read() {
    let step = 0.5 / 127.0;
    let honest = |middle: i64| move |value: f32| (value / step).round() as i64 + middle;
    for (element, middle) in [
        (Element::U8, 128),
        (Element::I8, 0),
        (Element::I16, 0),
        (Element::I32, 5),
        (Element::I64, -7),
    ] {
        let made = whole(element, honest(middle), step, middle as f32);
        check(&made, Verdict::Closed, &[("fc", Finding::Rounded)]);
        // Numbers unrelated to the reference.
        let rng = std::cell::RefCell::new(Mt19937::new(9));
        let random = |_| (rng.borrow_mut().canonical() * 255.0) as i64 + middle - 128;
        let made = whole(element, random, step, middle as f32);
        check(&made, Verdict::Open, &[("fc", Finding::Replaced)]);
    }
}

#[test]
fn what_is_not_understood_is_not_known() {
    let step = 0.5 / 127.0;
    for element in [Element::U8, Element::I16, Element::I32, Element::I64] {
        let mut made = whole(element, |value| (value / step) as i64 & 127, step, 0.0);
        made.model.nodes[1] = node("Abs", &["qf"], "qz");
        let found = unknown(&made, "in an unknown form");
        assert!(found.reasons[0].what.contains("1 tensor of the reference not found"));
        assert_eq!(found.tensors[0].finding, Finding::Unread);
    }
    // A table that codes index.
    let mut made = TestModel::reference();
    made.model.tensors.retain(|tensor| tensor.name != "fc");
    let codes = Values::Bytes((0..320).map(|at| (at * 7 % 16) as u8).collect());
    let (name, element) = ("codes".to_owned(), Element::U8);
    made.model.tensors.push(Tensor { name, element, shape: vec![320], values: codes });
    made.weight("table", &[16], 3);
    made.model.nodes.insert(0, node("Gather", &["table", "codes"], "fc"));
    assert_ne!(made.compared().verdict, Verdict::Closed);
}

#[test]
fn a_reference_that_is_not_understood_is_not_known() {
    let packed = |seed: u64| {
        let mut made = TestModel { model: TestModel::empty() };
        let values = random(&[2560], seed).into_iter().map(|value| (value * 255.0) as i8 as u8);
        let values = Values::Bytes(values.collect());
        let (name, element) = ("w_Q3".to_owned(), Element::U8);
        made.model.tensors.push(Tensor { name, element, shape: vec![40, 1, 64], values });
        made.model.tensors.push(Tensor::from_f32("s", &[40], &[0.01; 40]));
        let mut product = node("MatMulNBits", &["image", "w_Q3", "s"], "scores");
        let sizes = [("N", 40), ("K", 64), ("bits", 3), ("block_size", 64)];
        product.attributes = sizes.map(|(name, n)| (name.into(), Attribute::Int(n))).to_vec();
        made.model.nodes.push(product);
        made.model
    };
    let other = compare(&packed(1), &packed(2), BeamCounts::default()).unwrap();
    assert_eq!(other.verdict, Verdict::Unknown, "{:?}", other.reasons);
    let told = other.reasons.iter().filter(|reason| reason.what.contains("w_Q3")).count();
    assert_eq!(told, 2, "of the model and of the reference");
    // Identical bytes need not be understood.
    let same = compare(&packed(1), &packed(1), BeamCounts::default()).unwrap();
    assert_eq!(same.verdict, Verdict::Closed, "{:?}", same.reasons);

    let mut without = TestModel { model: TestModel::empty() };
    without.model.nodes.push(node("Relu", &["image"], "scores"));
    let none = compare(&without.model, &without.model, BeamCounts::default()).unwrap();
    assert_eq!(none.verdict, Verdict::Unknown);
    assert!(none.reasons[0].what.contains("no weights that could be compared"));
}

#[test]
fn nodes_that_lead_to_no_output_hold_no_weights() {
    // The reference's classifier is computed, and its result is discarded.
    let mut made = TestModel::reference();
    made.model.nodes[5].outputs[0] = "unused".into();
    made.weight("mine", &[8, 40], 99);
    made.model.nodes.push(node("MatMul", &["e", "mine"], "scores"));
    let found = check(&made, Verdict::Open, &[("fc", Finding::Replaced)]);
    assert_eq!(found.tensors[0].own.as_ref().unwrap().0, "mine");
    // An unused normalization, search or layer does not count.
    let mut made = TestModel::reference();
    made.weight("dead", &[64, 64], 5);
    made.model.nodes.push(node("MatMul", &["e", "dead"], "unused"));
    assert!(check(&made, Verdict::Closed, &[]).extra.is_empty());
}

#[test]
fn weights_hidden_in_attributes_and_scales_are_seen() {
    // As an attribute with a list of numbers.
    let mut made = TestModel::reference();
    let values = random(&[8, 40], 99);
    made.model.tensors.retain(|tensor| tensor.name != "fc");
    let mut constant = node("Constant", &[], "list");
    constant.attributes.push(("value_floats".into(), Attribute::Floats(values.clone())));
    made.model.tensors.push(Tensor::from_i64("shape", &[2], &[8, 40]));
    made.model.nodes.splice(0..0, [constant, node("Reshape", &["list", "shape"], "fc")]);
    check(&made, Verdict::RestrictedRetraining, &[("fc", Finding::Missing)]);
    // As the scale of something harmless.
    let mut made = TestModel::reference();
    made.model.tensors.push(Tensor::from_f32("mine", &[8, 40], &values));
    made.model.nodes[5] = node("MatMul", &["e", "mine"], "products");
    made.model.nodes.extend([
        node("QuantizeLinear", &["products", "mine"], "codes"),
        node("DequantizeLinear", &["codes", "mine"], "scores"),
    ]);
    check(&made, Verdict::Open, &[("fc", Finding::Replaced)]);
    // In an attribute that the reader does not show.
    for (op, domain, attribute) in [
        ("EPContext", "com.microsoft", Attribute::Int(1)),
        ("Secret", "my.functions", Attribute::Int(1)),
        ("Relu", "", Attribute::Text("x".repeat(2000))),
        ("Relu", "", Attribute::Other),
    ] {
        let mut made = TestModel::reference();
        made.model.nodes[5].outputs[0] = "products".into();
        let mut node = node(op, &["products"], "scores");
        (node.domain, node.attributes) = (domain.into(), vec![("more".into(), attribute)]);
        made.model.nodes.push(node);
        unknown(&made, op);
    }
    let mut made = TestModel::reference();
    made.model.nodes[5].inputs[1] = "sparse".into();
    unknown(&made, "'sparse'");
}

/// A body that computes the last node of the reference and contains its weight.
fn branch(weight: &str, values: &[f32]) -> Body {
    let outputs = vec![TestModel::empty().outputs.remove(0)];
    let mut body = Body {
        name: "branch".into(),
        inputs: Vec::new(),
        outputs,
        value_info: Vec::new(),
        nodes: vec![node("MatMul", &["e", weight], "scores")],
        tensors: vec![Tensor::from_f32(weight, &[8, 40], values)],
    };
    body.outputs[0].name = "scores".into();
    body
}

fn branching(values: &[f32]) -> Model {
    let mut made = TestModel::reference();
    made.model.tensors.retain(|tensor| tensor.name != "fc");
    made.weight("flag", &[1], 1);
    let mut choice = node("If", &["flag"], "chosen");
    choice.attributes = vec![
        ("then_branch".into(), branch("fc", &TestModel::reference().values("fc")).into()),
        ("else_branch".into(), branch("fc", values).into()),
    ];
    made.model.nodes[5] = choice;
    made.model.outputs[0].name = "chosen".into();
    made.model
}

#[test]
fn bodies_of_branches_and_loops_are_looked_at() {
    let other = random(&[8, 40], 50);
    let reference = branching(&other);
    let same = compare(&branching(&other), &reference, BeamCounts::default()).unwrap();
    assert_eq!((same.verdict, same.tensors.len()), (Verdict::Closed, 5), "{:?}", same.reasons);
    // Two weights with one name, each compared with its counterpart.
    assert!(same.tensors.iter().all(|tensor| tensor.finding == Finding::Same));
    let mut pruned = other;
    pruned.iter_mut().step_by(2).for_each(|value| *value = 0.0);
    let found = compare(&branching(&pruned), &reference, BeamCounts::default()).unwrap();
    assert_eq!(found.verdict, Verdict::RestrictedRetraining, "{:?}", found.reasons);
    assert_eq!(found.tensors[0].deviation.unwrap().pruned, 160);
    assert!(found.tensors[0].name.contains("else_branch"), "{:?}", found.tensors[0]);
    // A single branch without the choice: weights are found by their numbers.
    let straight =
        compare(&branching(&pruned), &TestModel::reference().model, BeamCounts::default()).unwrap();
    assert_eq!(straight.verdict, Verdict::Open, "{:?}", straight.reasons);
    assert_eq!(straight.extra.len(), 1);

    // A loop receives its weight from outside under another name.
    let mut made = TestModel::reference();
    let mut body = branch("inside", &[]);
    body.tensors.clear();
    let port = |name: &str| dyno_onnx::Port { name: name.into(), element: None, shape: None };
    body.inputs = ["at", "go_on", "inside"].map(port).to_vec();
    body.outputs.splice(0..0, ["go_on", "inside"].map(port));
    let mut looping = node("Loop", &["", "", "fc"], "same");
    looping.outputs.push("scores".into());
    looping.attributes.push(("body".into(), body.into()));
    made.model.nodes[5] = looping;
    check(&made, Verdict::Closed, &[("fc", Finding::Same)]);
    made.change("fc", |values| values.iter_mut().step_by(2).for_each(|value| *value = 0.0));
    check(&made, Verdict::RestrictedRetraining, &[("fc", Finding::Pruned)]);
}

#[test]
fn a_dimension_may_be_padded_with_zeros_and_with_nothing_else() {
    let padded = |beyond: f32| {
        let mut made = TestModel::reference();
        let values = made.values("fc");
        let row = |row: &[f32]| row.iter().copied().chain([beyond; 8]).collect::<Vec<_>>();
        let values: Vec<f32> = values.chunks(40).flat_map(row).collect();
        made.model.tensors.retain(|tensor| tensor.name != "fc");
        made.model.tensors.push(Tensor::from_f32("fc", &[8, 48], &values));
        made
    };
    let found = check(&padded(0.0), Verdict::Closed, &[("fc", Finding::Same)]);
    assert!(found.conditions[0].contains("1 tensor padded"), "{:?}", found.conditions);
    let verdict = Verdict::RestrictedRetraining;
    check(&padded(0.01), verdict, &[("fc", Finding::Retrained)]);
}

#[test]
fn weights_that_the_graph_changes_are_not_known() {
    // Small numbers are set to 0 with the weight itself and a number.
    let mut made = TestModel::reference();
    made.model.tensors.push(Tensor::from_f32("least", &[], &[0.2]));
    made.model.nodes[5].inputs[1] = "masked".into();
    let mut cast = node("Cast", &["is_large"], "mask");
    cast.attributes.push(("to".into(), Attribute::Int(1)));
    let nodes = [
        node("Abs", &["fc"], "size"),
        node("Greater", &["size", "least"], "is_large"),
        cast,
        node("Mul", &["fc", "mask"], "masked"),
    ];
    made.model.nodes.splice(0..0, nodes);
    let found = unknown(&made, "changed by the graph before use");
    assert!(found.reasons[0].what.contains("'fc' by Abs, Greater, Mul"), "{:?}", found.reasons);
    // If the reference does so too, nothing is changed.
    let same = compare(&made.model, &made.model, BeamCounts::default()).unwrap();
    assert_eq!(same.verdict, Verdict::Closed, "{:?}", same.reasons);
    // Another order of the dimensions changes nothing.
    let mut turned = TestModel::reference();
    turned.model.nodes[5].inputs[1] = "turned".into();
    let twice = [node("Transpose", &["fc"], "t"), node("Transpose", &["t"], "turned")];
    turned.model.nodes.splice(0..0, twice);
    check(&turned, Verdict::Closed, &[("fc", Finding::Same)]);
}

#[test]
fn a_layer_in_many_small_pieces_is_a_supplement() {
    let mut made = TestModel::reference();
    made.model.nodes[5].outputs[0] = "products".into();
    let names: Vec<String> = (0..80).map(|at| format!("piece{at}")).collect();
    names.iter().enumerate().for_each(|(at, name)| made.weight(name, &[16], at as u64));
    let inputs: Vec<&str> = names.iter().map(String::as_str).collect();
    made.model.nodes.push(node("Concat", &inputs, "pieces"));
    made.model.nodes.push(node("Gemm", &["products", "pieces"], "scores"));
    let found = check(&made, Verdict::Open, &[]);
    assert!(found.reasons[0].what.contains("80 tensors with 1280 numbers"), "{found:?}");
}

#[test]
fn damaged_models_are_refused_or_judged() {
    let whole = whole(Element::I8, |value| (value * 254.0) as i64, 0.5 / 127.0, 0.0).model;
    let bytes = [whole, branching(&random(&[8, 40], 50))].map(|model| model.to_bytes().unwrap());
    let mut rng = Mt19937::new(7);
    let mut judged = 0;
    for bytes in &bytes {
        for _ in 0..60 {
            let mut damaged = bytes.clone();
            for _ in 0..4 {
                let at = (rng.canonical() * damaged.len() as f64) as usize;
                damaged[at] = (rng.canonical() * 256.0) as u8;
            }
            let read = Model::from_bytes(&damaged, std::path::Path::new(""));
            let reference = TestModel::reference().model;
            let found = read.ok().map(|model| compare(&model, &reference, BeamCounts::default()));
            judged += usize::from(found.is_some_and(|found| found.is_ok()));
        }
    }
    assert!(judged > 12, "{judged}");
}
