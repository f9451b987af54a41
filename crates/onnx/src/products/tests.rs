//! Products of small models, number by number.

use super::*;
use crate::{Attribute, BuildError, Builder, Dim, Element, Fill, Weights};

/// Two convolutions side by side, whose sum goes through a fully connected layer.
fn branches(channels: usize) -> Result<Model, BuildError> {
    let mut net = Builder::new("branches", Weights::seeded(1));
    let x = net.input("image", Element::F32, &[Dim::symbol("N"), 3.into(), 9.into(), 8.into()]);
    let pads: [(&str, Attribute); 1] = [("pads", [1, 1, 1, 1].into())];
    let weight = net.weight("left.weight", &[channels, 3, 3, 3], Fill::he(27))?;
    let left = net.node("Conv", &[&x, &weight], &pads)?;
    let weight = net.weight("right.weight", &[channels, 3, 1, 1], Fill::he(3))?;
    let right = net.node("Conv", &[&x, &weight], &[])?;
    let x = net.node("Mul", &[&left, &right], &[])?;
    let x = net.node("GlobalAveragePool", &[&x], &[])?;
    let x = net.node("Flatten", &[&x], &[])?;
    let weight = net.weight("fc.weight", &[5, channels], Fill::lecun(6))?;
    let x = net.node("Gemm", &[&x, &weight], &[("transB", 1_i64.into())])?;
    net.output("scores", &x)?;
    Ok(net.finish())
}

#[test]
fn rows_have_their_sizes_and_where_they_come_from() {
    let found = products(&branches(4).unwrap(), &BTreeMap::new());
    let rows: Vec<_> = found.rows.iter().map(|row| (row.name.as_str(), row.kind)).collect();
    let (conv, fc) = (LayerType::Convolution, LayerType::FullyConnected);
    assert_eq!(rows, [("left", conv), ("right", conv), ("fc", fc)]);
    let left = &found.rows[0];
    assert_eq!((left.groups, left.m, left.cin_g, left.rs, left.cout_g), (1, 72, 3, 9, 4));
    assert_eq!((left.macs, left.weights, left.inputs, left.outputs), (7776, 108, 216, 288));
    // Both whose outputs are multiplied.
    assert_eq!((left.origins.len(), &found.rows[2].origins), (0, &vec![0, 1]));
    assert!(found.left_out.is_empty());
}

/// Weights on the left of a product, in a stack of matrices, and in a vector.
#[test]
fn weights_of_every_shape_have_their_outputs() {
    let sizes = |weights: &[usize], input: &[usize], is_left: bool| {
        let mut net = Builder::new("one", Weights::seeded(1));
        let dims: Vec<Dim> = input.iter().map(|size| Dim::from(*size)).collect();
        let x = net.input("x", Element::F32, &dims);
        let weight = net.weight("fc.weight", weights, Fill::lecun(8)).unwrap();
        let operands = if is_left { [&weight, &x] } else { [&x, &weight] };
        let y = net.node("MatMul", &operands, &[]).unwrap();
        net.output("scores", &y).unwrap();
        let row = products(&net.finish(), &BTreeMap::new()).rows.remove(0);
        [row.groups, row.m, row.cin_g, row.cout_g, row.weights]
    };
    // The outputs are [2, 5, 3], [2, 4, 3, 5], [2] and [4, 5].
    assert_eq!(sizes(&[5, 8], &[2, 8, 3], true), [1, 6, 8, 5, 40]);
    assert_eq!(sizes(&[4, 8, 5], &[2, 4, 3, 8], false), [4, 6, 8, 5, 160]);
    assert_eq!(sizes(&[8], &[2, 8], false), [1, 2, 8, 1, 8]);
    assert_eq!(sizes(&[4, 5, 8], &[8], true), [4, 1, 8, 5, 160]);
}

/// A layer whose input has the shape of a value does not read the numbers of that value.
#[test]
fn sizes_of_a_value_have_no_origin() {
    let mut net = Builder::new("shaped", Weights::seeded(1));
    let x = net.input("x", Element::F32, &[Dim::from(2), Dim::from(4)]);
    let names = ["a.weight", "b.weight", "c.weight"];
    let weights = names.map(|name| net.weight(name, &[4, 4], Fill::lecun(4)).unwrap());
    let first = net.node("MatMul", &[&x, &weights[0]], &[]).unwrap();
    let shape = net.node("Shape", &[&first], &[]).unwrap();
    let shaped = net.node("Reshape", &[&x, &shape], &[]).unwrap();
    let left = net.node("MatMul", &[&shaped, &weights[1]], &[]).unwrap();
    let right = net.node("MatMul", &[&first, &weights[2]], &[]).unwrap();
    let sum = net.node("Add", &[&left, &right], &[]).unwrap();
    net.output("scores", &sum).unwrap();
    let found = products(&net.finish(), &BTreeMap::new());
    let origins: Vec<_> = found.rows.iter().map(|row| &row.origins[..]).collect();
    let none: &[usize] = &[];
    assert_eq!(origins, [none, none, &[0]]);
}

#[test]
fn a_batch_multiplies_positions_and_not_weights() {
    let bind = BTreeMap::from([("N".to_owned(), 16)]);
    let model = branches(4).unwrap();
    let (one, many) = (products(&model, &BTreeMap::new()), products(&model, &bind));
    for (one, many) in one.rows.iter().zip(&many.rows) {
        assert_eq!((16 * one.m, 16 * one.macs), (many.m, many.macs), "{}", one.name);
        assert_eq!(one.weights, many.weights, "{}", one.name);
    }
}

#[test]
fn sizes_beyond_64_bits_are_left_out_and_said() {
    let bind = BTreeMap::from([("N".to_owned(), usize::MAX / 8)]);
    let found = products(&branches(4).unwrap(), &bind);
    let two = found.left_out.iter().filter(|node| node.ends_with("that exceed 64 bits"));
    assert!(two.count() >= 2, "{:?}", found.left_out);
}

#[test]
fn operators_with_unknown_products_are_left_out_and_said() {
    for (op, domain, expected) in [
        ("ConvTranspose", "", vec!["ConvTranspose left is not supported in layer tables"]),
        ("DeformConv", "", vec!["DeformConv left is not supported in layer tables"]),
        (
            "NhwcConv",
            "com.microsoft",
            vec!["NhwcConv left of domain com.microsoft is not supported in layer tables"],
        ),
        // Without a matrix of weights there is no product to miss.
        ("Relu", "", vec![]),
    ] {
        let mut model = branches(4).unwrap();
        let node = &mut model.nodes[0];
        (node.op, node.domain, node.name) = (op.into(), domain.into(), "left".into());
        let found = products(&model, &BTreeMap::new());
        // Shapes behind an unknown operator are unknown, so later layers are left out for that reason.
        let own: Vec<_> = found.left_out.iter().filter(|text| text.contains(" left ")).collect();
        assert_eq!(own, expected, "{op}");
        assert!(found.rows.iter().all(|row| row.name != "left"), "{op}");
    }
}
