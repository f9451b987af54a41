//! Operators whose outputs jump.

use super::{bytes, floats, graph, integer, node};
use crate::proto::NodeProto;
use crate::{Element, Model, Tensor};

/// In float32, 0.7 · 10 is 7. Inputs are not rounded, so that rounding decides nothing next to a jump.
#[test]
fn functions_jump_at_numbers_of_the_type() {
    let product = node("Mul", &["x", "k"], &["t"], vec![]);
    let jumps = [
        (node("Floor", &["t"], &["y"], vec![]), 7.0),
        (node("Ceil", &["t"], &["y"], vec![]), 7.0),
        (node("Less", &["t", "s"], &["y"], vec![]), 0.0),
        (node("Cast", &["t"], &["y"], vec![integer("to", 7)]), 7.0),
        (node("Mod", &["t", "s"], &["y"], vec![integer("fmod", 1)]), 0.0),
    ];
    let ports = ["x", "k", "s"].map(|name| (name, Element::Float32));
    for (jump, expected) in jumps {
        let run_node = |jump: &NodeProto, x: f32| {
            let nodes = vec![product.clone(), jump.clone()];
            let model = Model::from_bytes(&bytes(13, graph(nodes, &ports, &["y"]))).unwrap();
            let numbers = [("x", x.into()), ("k", 10.0), ("s", 7.0)];
            model.evaluate(&numbers.map(|(name, x)| (name, floats(&[], &[x])))).unwrap()
        };
        let run = |x: f32| run_node(&jump, x);
        assert_eq!(run(0.7).outputs[0].1.to_floats(), [expected], "{}", jump.op_type);
        let are_close = [0.7, 0.700_01, 0.75].map(|x| run(x).has_close_choice);
        assert_eq!(are_close, [false, true, false], "{}", jump.op_type);
        let mut direct = jump.clone();
        direct.input[0] = "x".to_owned();
        assert!(!run_node(&direct, 6.9999).has_close_choice, "{}", jump.op_type);
    }
}

/// Engines may hold numbers of 16 bits in more. 0.69921875 · 10 is 7 in bfloat16, and less in float32.
#[test]
fn jumps_of_rounded_numbers_of_16_bits_are_close_choices() {
    let nodes =
        vec![node("Mul", &["x", "k"], &["t"], vec![]), node("Floor", &["t"], &["y"], vec![])];
    let ports = ["x", "k"].map(|name| (name, Element::BFloat16));
    let model = Model::from_bytes(&bytes(13, graph(nodes, &ports, &["y"]))).unwrap();
    for (x, expected) in [(0.699_218_75, true), (0.75, false)] {
        let numbers = [("x", x), ("k", 10.0)]
            .map(|(name, x)| (name, Tensor::floats(Element::BFloat16, &[], vec![x]).unwrap()));
        assert_eq!(model.evaluate(&numbers).unwrap().has_close_choice, expected, "{x}");
    }
}
