//! Files with wrong bytes: an error or a model that is counted, never a panic.

use std::path::Path;

use dyno_onnx::{Attribute, BuildError, Builder, Dim, Element, Fill, Model, Name, Tensor, Weights};
use dyno_onnx::{count, shape};

/// Convolutions, shapes, slices, a loop: attributes and constants of every kind.
fn model() -> Result<Model, BuildError> {
    let mut net = Builder::new("net", Weights::seeded(1));
    let x = net.input("x", Element::F32, &[Dim::symbol("N"), 4.into(), 6.into(), 6.into()]);
    let w = net.weight("w", &[4, 2, 3, 3], Fill::Constant(1.0))?;
    let window = [("pads", [1; 4].into()), ("group", 2.into()), ("strides", [1, 1].into())];
    let y = net.node("Conv", &[&x, &w], &window)?;
    let y =
        net.node("MaxPool", &[&y], &[("kernel_shape", [2, 2].into()), ("strides", [2, 2].into())])?;
    let up = net.weight("up", &[4, 2, 2, 2], Fill::Constant(1.0))?;
    let y = net.node("ConvTranspose", &[&y, &up], &[("strides", [2, 2].into())])?;
    let (from, to, axis) = (net.integers(&[0]), net.integers(&[-1]), net.integers(&[2]));
    let step = net.integers(&[2]);
    let y = net.node("Slice", &[&y, &from, &to, &axis, &step], &[])?;
    let edges = net.integers(&[0, 0, 0, 0, 0, 0, 0, 2]);
    let y = net.node("Pad", &[&y, &edges], &[])?;
    let flat = net.integers(&[0, -1]);
    let y = net.node("Reshape", &[&y, &flat], &[])?;
    let [a, b] = net.nodes("Split", &[&y], &[("axis", 1.into())])?;
    let y = net.node("Einsum", &[&a, &b], &[("equation", "ni,ni->n".into())])?;
    let y = net.node("Unsqueeze", &[&y, &axis], &[]).or_else(|_| {
        let last = net.integers(&[1]);
        net.node("Unsqueeze", &[&y, &last], &[])
    })?;
    let limit = net.tensor(Tensor::from_i64("limit", &[], &[3]))?;
    let mut body = net.body("body");
    body.input("turn", Element::I64, &[]);
    let goes_on = body.input("goes_on", Element::Bool, &[]);
    let sum = body.input("sum", Element::F32, &[Dim::symbol("N"), 1.into()]);
    let more = body.node("Add", &[&sum, &y], &[])?;
    body.output("still", &goes_on)?;
    body.output("next", &more)?;
    let body = Attribute::from(body.finish_body());
    let y = net.node("Loop", &[&limit, &Name::NONE, &y], &[("body", body)])?;
    net.output("y", &y)?;
    Ok(net.finish())
}

#[test]
fn wrong_bytes_never_stop_the_reader_or_the_count() {
    let bytes = model().unwrap().to_bytes().unwrap();
    assert_eq!(count(&Model::from_bytes(&bytes, Path::new("")).unwrap()).uncounted, []);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut counted = 0;
    for _ in 0..20_000 {
        let mut wrong = bytes.clone();
        for _ in 0..1 + random() % 3 {
            let at = random() as usize % wrong.len();
            // Ends of ranges find more than others.
            let ends = [0, 1, 0x7f, 0x80, 0xff, random() as u8];
            wrong[at] = ends[random() as usize % ends.len()];
        }
        if let Ok(model) = Model::from_bytes(&wrong, Path::new("/nowhere")) {
            let cost = count(&model);
            let _ = (cost.operations(), shape::infer(&model, &[("N".into(), 9)].into()));
            counted += 1;
        }
    }
    assert!(counted > 1000, "{counted} were still models");
}
