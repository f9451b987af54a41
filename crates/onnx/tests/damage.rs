//! Files with wrong bytes: an error or a model that is counted, never a panic.

use std::path::Path;

use dyno_onnx::{Attribute, BuildError, Builder, Dim, Element, Fill, Model, Name, Tensor, Weights};
use dyno_onnx::{Fact, Node, count, shape};

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

/// Nodes with numbers at the ends of the ranges of their types: shapes or an error, never a panic, and
/// no memory for numbers that a file only declares.
#[test]
#[expect(clippy::too_many_lines, reason = "one table of operators")]
fn extreme_numbers_never_stop_the_inference() {
    const OPS: [&str; 33] = [
        "Conv",
        "ConvTranspose",
        "MaxPool",
        "AveragePool",
        "Pad",
        "Reshape",
        "Slice",
        "Split",
        "Tile",
        "Expand",
        "Gather",
        "GatherND",
        "GatherElements",
        "TopK",
        "OneHot",
        "Range",
        "Transpose",
        "Squeeze",
        "Unsqueeze",
        "Flatten",
        "Concat",
        "ConstantOfShape",
        "Resize",
        "ReduceSum",
        "ArgMax",
        "DepthToSpace",
        "SpaceToDepth",
        "LSTM",
        "MatMul",
        "Gemm",
        "Add",
        "Mul",
        "Shape",
    ];
    const LISTS: [&str; 12] = [
        "pads",
        "strides",
        "dilations",
        "kernel_shape",
        "axes",
        "split",
        "perm",
        "output_padding",
        "starts",
        "ends",
        "sizes",
        "scales",
    ];
    const NUMBERS: [&str; 9] = [
        "axis",
        "group",
        "ceil_mode",
        "blocksize",
        "batch_dims",
        "layout",
        "allowzero",
        "keepdims",
        "to",
    ];
    const ENDS: [i64; 14] = [
        0,
        1,
        -1,
        2,
        3,
        4,
        1_000_000,
        1 << 31,
        1 << 32,
        1 << 62,
        -(1 << 62),
        i64::MAX,
        i64::MIN,
        -2,
    ];
    let mut state = 0x1234_5678_9abc_def1_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize % below
    };
    let mut inferred = 0;
    for _ in 0..200_000 {
        let op = OPS[random(OPS.len())];
        let mut node = Node {
            name: String::new(),
            op: op.into(),
            domain: String::new(),
            inputs: (0..5).map(|at| format!("x{at}")).collect(),
            outputs: vec!["y".into(); 1 + random(3)],
            attributes: Vec::new(),
        };
        let small = |random: &mut dyn FnMut(usize) -> usize| {
            ENDS[if random(2) == 0 { random(6) } else { random(ENDS.len()) }]
        };
        for name in LISTS {
            if random(4) == 0 {
                let values: Vec<i64> = (0..random(9)).map(|_| small(&mut random)).collect();
                node.attributes.push((name.into(), values.into()));
            }
        }
        for name in NUMBERS {
            if random(4) == 0 {
                node.attributes.push((name.into(), small(&mut random).into()));
            }
        }
        let facts: Vec<Fact> = (0..1 + random(5))
            .map(|at| {
                let element = if at > 0 || random(8) == 0 { Element::I64 } else { Element::F32 };
                let dim = |size: i64| usize::try_from(size).map_or(Dim::symbol("N"), Dim::Fixed);
                let shape: Vec<Dim> = (0..random(6)).map(|_| dim(small(&mut random))).collect();
                let mut fact = Fact::new(element, shape);
                if random(2) == 0 {
                    let values: Vec<i64> = (0..random(9)).map(|_| small(&mut random)).collect();
                    fact =
                        Fact { shape: vec![values.len().into()], integers: Some(values), ..fact };
                }
                fact
            })
            .collect();
        let inputs: Vec<Option<&Fact>> = facts.iter().map(Some).collect();
        inferred += usize::from(shape::infer_node(&node, &inputs, &[].into()).is_ok());
    }
    assert!(inferred > 1000, "{inferred} were inferred");
}
