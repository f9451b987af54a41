//! Inferred shapes against the text of the standard.

use std::collections::BTreeMap;

use dyno_onnx::{Attribute, Builder, Dim, Element, Node, Tensor, Weights, infer};

#[test]
fn a_shape_may_have_a_range_of_axes() {
    let mut net = Builder::new("net", Weights::seeded(1));
    let x = net.input("x", Element::F32, &[Dim::symbol("N"), 3.into(), 4.into(), 5.into()]);
    let range = [("start", Attribute::Int(1)), ("end", Attribute::Int(-1))];
    let sizes = net.node("Shape", &[&x], &range).unwrap();
    net.output("sizes", &sizes).unwrap();
    let facts = infer(&net.finish(), &BTreeMap::new()).facts;
    assert_eq!(facts["sizes"].shape, [2.into()]);
    assert_eq!(facts["sizes"].integers, Some(vec![3, 4]));
}

/// With a negative step, a start is limited to the first element, and an end to before it.
#[test]
fn a_backward_slice_begins_at_the_first_element_at_the_latest() {
    for (start, size) in [(-100, 1_usize), (-5, 1), (-4, 2), (100, 5)] {
        let mut net = Builder::new("net", Weights::seeded(1));
        let x = net.input("x", Element::F32, &[5.into()]);
        let [starts, ends, axes, steps] = [start, i64::MIN, 0, -1].map(|n| net.integers(&[n]));
        let slice = net.node("Slice", &[&x, &starts, &ends, &axes, &steps], &[]).unwrap();
        net.output("y", &slice).unwrap();
        let facts = infer(&net.finish(), &BTreeMap::new()).facts;
        assert_eq!(facts["y"].shape, [size.into()], "{start}");
    }
}

#[test]
fn operators_on_codes_have_the_shapes_of_those_on_numbers() {
    let mut net = Builder::new("net", Weights::seeded(1));
    let batch = || Dim::symbol("N");
    net.input("x", Element::U8, &[batch(), 3.into(), 4.into(), 4.into()]);
    net.input("rows", Element::U8, &[batch(), 4.into()]);
    net.input("weights", Element::I8, &[2.into(), 4.into()]);
    let mut net = net.finish();
    for (op, inputs, (name, value), sizes) in [
        ("QLinearSoftmax", "x,s,z,s,z", ("axis", Attribute::Int(-1)), vec![3, 4, 4]),
        ("QLinearAveragePool", "x,s,z,s,z", ("kernel_shape", [2, 2].into()), vec![3, 3, 3]),
        ("QLinearGlobalAveragePool", "x,s,z,s,z", ("channels_last", 0_i64.into()), vec![3, 1, 1]),
        ("QLinearConcat", "s,z,x,s,z,x,s,z", ("axis", 1_i64.into()), vec![6, 4, 4]),
        ("QGemm", "rows,s,z,weights,s,z", ("transB", 1_i64.into()), vec![2_usize]),
    ] {
        net.nodes = vec![Node {
            name: op.into(),
            op: op.into(),
            domain: "com.microsoft".into(),
            inputs: inputs.split(',').map(str::to_owned).collect(),
            outputs: vec!["y".into()],
            attributes: vec![(name.into(), value)],
        }];
        let facts = infer(&net, &BTreeMap::new()).facts;
        let expected: Vec<Dim> =
            std::iter::once(batch()).chain(sizes.into_iter().map(Dim::from)).collect();
        assert_eq!(facts["y"].shape, expected, "{op}");
        let element = if op == "QGemm" { Element::F32 } else { Element::U8 };
        assert_eq!(facts["y"].element, element, "{op}");
    }
}

/// Without a zero point, codes are of type uint8 unless the node states another type.
#[test]
fn a_node_may_state_the_type_of_its_codes() {
    let mut net = Builder::new("net", Weights::seeded(1));
    let x = net.input("x", Element::F32, &[Dim::symbol("N"), 3.into()]);
    let scale = net.number(0.5);
    let plain = net.node("QuantizeLinear", &[&x, &scale], &[]).unwrap();
    net.output("plain", &plain).unwrap();
    let stated = [("output_dtype", Attribute::from(Element::I8))];
    let signed = net.node("QuantizeLinear", &[&x, &scale], &stated).unwrap();
    net.output("signed", &signed).unwrap();
    let facts = infer(&net.finish(), &BTreeMap::new()).facts;
    assert_eq!((facts["plain"].element, facts["signed"].element), (Element::U8, Element::I8));
    assert_eq!(facts["signed"].shape, [Dim::symbol("N"), 3.into()]);
}

/// Axes, sizes and steps may be those of an operator that is not known, which are not the defaults.
#[test]
fn shapes_that_depend_on_an_unknown_input_are_unknown() {
    let mut net = Builder::new("net", Weights::seeded(1));
    net.input("x", Element::F32, &[1.into(), 3.into()]);
    let mut net = net.finish();
    let constant = |name: &str, number: i64| Tensor::from_i64(name, &[1], &[number]);
    net.tensors = vec![constant("zero", 0), constant("one", 1)];
    let node = |op: &str, domain: &str, inputs: &str, output: &str| Node {
        name: op.into(),
        op: op.into(),
        domain: domain.into(),
        inputs: inputs.split(',').map(str::to_owned).collect(),
        outputs: vec![output.into()],
        attributes: Vec::new(),
    };
    for (op, inputs) in [
        ("Squeeze", "x,computed"),
        ("Unsqueeze", "x,computed"),
        ("ReduceSum", "x,computed"),
        ("Split", "x,computed"),
        ("Slice", "x,zero,one,computed"),
        ("Slice", "x,zero,one,zero,computed"),
    ] {
        net.nodes = vec![node("Other", "other", "x", "computed"), node(op, "", inputs, "y")];
        let facts = infer(&net, &BTreeMap::new()).facts;
        assert!(!facts.contains_key("y"), "{op} of {inputs}");
        // Without the input, all but Unsqueeze have defaults.
        net.nodes[1].inputs.retain(|name| name != "computed");
        let facts = infer(&net, &BTreeMap::new()).facts;
        assert!(op == "Unsqueeze" || facts.contains_key("y"), "{op} by default");
    }
}

/// Windows of three elements, two apart, over four cover 2 * 3 + 3 elements.
#[test]
fn the_output_of_a_transposed_convolution_follows_its_padding() {
    let name = |mode: &str| Attribute::Text(mode.into());
    for (attribute, size) in [
        (("group", Attribute::Int(1)), 9_usize),
        (("pads", Attribute::Ints(vec![1, 1])), 7),
        (("auto_pad", name("VALID")), 9),
        (("auto_pad", name("SAME_UPPER")), 8),
        (("output_shape", Attribute::Ints(vec![10])), 10),
    ] {
        let mut net = Builder::new("net", Weights::seeded(1));
        let x = net.input("x", Element::F32, &[1.into(), 1.into(), 4.into()]);
        let w = net.input("w", Element::F32, &[1.into(), 2.into(), 3.into()]);
        let shown = format!("{attribute:?}");
        let attributes = [("strides", Attribute::Ints(vec![2])), attribute];
        let y = net.node("ConvTranspose", &[&x, &w], &attributes).unwrap();
        net.output("y", &y).unwrap();
        let facts = infer(&net.finish(), &BTreeMap::new()).facts;
        assert_eq!(facts["y"].shape, [1.into(), 2.into(), size.into()], "{shown}");
    }
}
