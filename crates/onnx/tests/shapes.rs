//! Inferred shapes against the text of the standard.

use std::collections::BTreeMap;

use dyno_onnx::{Attribute, Builder, Dim, Element, Weights, infer};

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
