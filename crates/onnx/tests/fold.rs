//! Constants behind nodes that move them, against what the operators' definitions say.

use dyno_onnx::{Attribute, Builder, Constants, Element, Name, Tensor, Weights};

/// What a node makes of constants: shape and numbers.
fn made(
    op: &str,
    of: (&[usize], &[f32]),
    others: &[&[i64]],
    attributes: &[(&str, Attribute)],
) -> Option<(Vec<usize>, Vec<f32>)> {
    let mut net = Builder::new("net", Weights::seeded(1));
    let first = net.tensor(Tensor::from_f32("first", of.0, of.1)).expect("a name that is free");
    let others: Vec<Name> = others.iter().map(|of| net.integers(of)).collect();
    let inputs: Vec<&Name> = [&first].into_iter().chain(&others).collect();
    let out = net.node(op, &inputs, attributes).expect("inputs that the operator takes");
    let model = net.finish();
    let found = Constants::new(&model).get(out.as_str())?;
    let numbers = found.floats()?;
    Some((found.shape, numbers))
}

const SIX: (&[usize], &[f32]) = (&[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);

#[test]
fn what_moves_is_moved() {
    let of =
        |op, others: &[&[i64]], attributes: &[(&str, Attribute)]| made(op, SIX, others, attributes);
    let is = |shape: &[usize], numbers: &[f32]| Some((shape.to_vec(), numbers.to_vec()));
    assert_eq!(of("Identity", &[], &[]), is(SIX.0, SIX.1));
    let turned = is(&[3, 2], &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    assert_eq!(of("Transpose", &[], &[]), turned);
    assert_eq!(of("Transpose", &[], &[("perm", [1, 0].into())]), turned);
    assert_eq!(of("Unsqueeze", &[&[0, -1]], &[]), is(&[1, 2, 3, 1], SIX.1));
    assert_eq!(of("Reshape", &[&[-1, 2]], &[]), is(&[3, 2], SIX.1));
    assert_eq!(of("Slice", &[&[1], &[i64::MAX], &[1]], &[]), is(&[2, 2], &[1.0, 2.0, 4.0, 5.0]));
    assert_eq!(
        of("Slice", &[&[-1], &[i64::MIN + 1], &[1], &[-2]], &[]),
        is(&[2, 2], &[2.0, 0.0, 5.0, 3.0])
    );
    assert_eq!(of("Slice", &[&[0, 2], &[1, 2]], &[]), is(&[1, 0], &[]));
    assert_eq!(of("Gather", &[&[-1]], &[("axis", 1.into())]), is(&[2, 1], &[2.0, 5.0]));
}

#[test]
fn parts_are_joined_and_what_is_fed_is_no_constant() {
    let mut net = Builder::new("net", Weights::seeded(1));
    let x = net.input("x", Element::F32, &[1.into(), 3.into()]);
    let six = net.tensor(Tensor::from_f32("six", SIX.0, SIX.1)).unwrap();
    let turned = net.node("Transpose", &[&six], &[]).unwrap();
    let squared = net.node("Concat", &[&turned, &turned], &[("axis", 1.into())]).unwrap();
    let mixed = net.node("Concat", &[&six, &x], &[("axis", 0.into())]).unwrap();
    let shape = net.integers(&[1, 2]);
    let zeros = net.node("ConstantOfShape", &[&shape], &[]).unwrap();
    let sum = net.node("Add", &[&six, &six], &[]).unwrap();
    let model = net.finish();
    let constants = Constants::new(&model);
    let found = constants.get(squared.as_str()).unwrap();
    assert_eq!(found.shape, [3, 4]);
    let expected = [0.0, 3.0, 0.0, 3.0, 1.0, 4.0, 1.0, 4.0, 2.0, 5.0, 2.0, 5.0];
    assert_eq!(found.floats().unwrap(), expected);
    for name in [mixed.as_str(), x.as_str(), sum.as_str(), "no such value", ""] {
        assert_eq!(constants.get(name), None, "{name}");
        assert!(!constants.is_zero(name), "{name}");
    }
    assert!(constants.is_zero(zeros.as_str()) && !constants.is_zero(six.as_str()));
}

#[test]
fn what_is_a_constant_is_known_without_its_value() {
    let mut net = Builder::new("net", Weights::seeded(1));
    let x = net.input("x", Element::F32, &[1.into(), 3.into()]);
    let six = net.tensor(Tensor::from_f32("six", SIX.0, SIX.1)).unwrap();
    let turned = net.node("Transpose", &[&six], &[]).unwrap();
    let mixed = net.node("Concat", &[&six, &x], &[("axis", 0.into())]).unwrap();
    let sum = net.node("Add", &[&six, &six], &[]).unwrap();
    // Joined with itself fifty times it has more numbers than any memory.
    let mut large = six.clone();
    for _ in 0..50 {
        large = net.node("Concat", &[&large, &large], &[("axis", 0.into())]).unwrap();
    }
    let mut model = net.finish();
    let has = |name: &Name| Constants::new(&model).contains(name.as_str());
    assert_eq!([&six, &turned, &large].map(has), [true; 3]);
    assert_eq!([&x, &mixed, &sum].map(has), [false; 3]);
    model.nodes[0].inputs[0] = turned.as_str().into();
    assert!(!Constants::new(&model).contains(turned.as_str()), "it hangs on itself");
}

#[test]
fn values_that_hang_on_themselves_are_no_constants() {
    let mut net = Builder::new("net", Weights::seeded(1));
    let six = net.tensor(Tensor::from_f32("six", SIX.0, SIX.1)).unwrap();
    let one = net.node("Identity", &[&six], &[]).unwrap();
    let other = net.node("Identity", &[&one], &[]).unwrap();
    let mut model = net.finish();
    model.nodes[0].inputs[0] = other.as_str().into();
    assert_eq!(Constants::new(&model).get(other.as_str()), None);
    assert!(!Constants::new(&model).is_zero(other.as_str()));
    // A name that stands for itself in a body too.
    let body = net_with_the_same_name();
    assert_eq!(Constants::new(&model).enter(&body).get("six"), None);
}

/// A body that is handed something under the name of a constant around it.
fn net_with_the_same_name() -> dyno_onnx::Body {
    let mut net = Builder::new("body", Weights::seeded(1));
    net.input("six", Element::F32, &[1.into()]);
    net.finish_body()
}
