//! Values at the edges of what the standard defines: no elements, NaN, and cuts. Expected numbers are
//! those of its text, with which `onnx.reference` 1.23 and ONNX Runtime 1.32 agree.

use dyno_graph::{Graph, Value};
use dyno_onnx::{Attribute, Element, Node, Port, Tensor, Values};

use super::fused::{check_refused, check_standard, standard};
use super::standard::{check_failure, integer, integers, text};
use super::{check, floats, ints, model, run, session};

/// Only the mean is not defined. Sums are 0, not -0.
#[test]
fn reductions_of_no_elements_are_those_of_the_text() {
    let x = floats(&[2, 0], &[]);
    for (op, expected) in [
        ("ReduceMax", f32::NEG_INFINITY),
        ("ReduceMin", f32::INFINITY),
        ("ReduceSum", 0.0),
        ("ReduceProd", 1.0),
        ("ReduceL1", 0.0),
        ("ReduceL2", 0.0),
        ("ReduceSumSquare", 0.0),
        ("ReduceLogSum", f32::NEG_INFINITY),
        ("ReduceLogSumExp", f32::NEG_INFINITY),
    ] {
        let found = run(op, 18, &[x.clone(), ints(&[1])], &[]);
        assert_eq!(found.dims(), [2, 1], "{op}");
        let found = found.as_slice::<f32>().expect("numbers").iter().map(|x| x.to_bits());
        assert_eq!(found.collect::<Vec<_>>(), [expected.to_bits(); 2], "{op}");
    }
    check_failure("ReduceMean", 18, &[x, ints(&[1])], &[], "mean of no elements");
    let none = Value::new(vec![1, 0], Vec::<i64>::new()).expect("a valid case");
    let drop = [integer("keepdims", 0)];
    for (op, expected) in [("ReduceMax", i64::MIN), ("ReduceMin", i64::MAX), ("ReduceSum", 0)] {
        assert_eq!(run(op, 20, &[none.clone(), ints(&[1])], &drop), ints(&[expected]), "{op}");
    }
    let none = Value::new(vec![0], Vec::<bool>::new()).expect("a valid case");
    assert_eq!(run("ReduceMax", 20, &[none], &drop), Value::scalar(false));
}

/// NaN limits all numbers in `onnx.reference`, and none in ONNX Runtime.
#[test]
fn a_limit_is_not_nan() {
    let x = floats(&[2], &[1.0, f32::NAN]);
    for limits in [[f32::NAN, 3.0], [0.0, f32::NAN]] {
        let inputs = [x.clone(), Value::scalar(limits[0]), Value::scalar(limits[1])];
        check_failure("Clip", 13, &inputs, &[], "a limit is NaN");
    }
    let old = model("Clip", 7, 1, &[("min", Attribute::Float(f32::NAN))]);
    let error = Graph::new(&old).expect_err("an invalid case").to_string();
    assert!(error.contains("a limit is NaN"), "{error}");
}

/// The standard does not define them. They would have no effect.
#[test]
fn limits_before_version_11_are_not_inputs() {
    let error = Graph::new(&model("Clip", 10, 2, &[])).expect_err("an invalid case").to_string();
    assert!(error.contains("expected limits as attributes before version 11"), "{error}");
}

/// The default limits are the least and the greatest finite number; ONNX Runtime has them, too.
#[test]
fn infinite_numbers_exceed_the_default_limits() {
    let x = floats(&[3], &[f32::INFINITY, f32::NEG_INFINITY, 1.0]);
    let inputs = std::slice::from_ref(&x);
    let limited = floats(&[3], &[f32::MAX, f32::MIN, 1.0]);
    assert_eq!(run("Clip", 13, inputs, &[]), limited);
    assert_eq!(run("Clip", 7, inputs, &[]), limited);
    let inputs = [x.clone(), Value::scalar(0.0_f32)];
    assert_eq!(run("Clip", 13, &inputs, &[]), floats(&[3], &[f32::MAX, 0.0, 1.0]));
    let mut short = model("Clip", 13, 1, &[]);
    short.inputs[0].element = Some(Element::F16);
    short.inputs[0].shape = Some(vec![3.into()]);
    let found = session(&short).run(&[x]).expect("a valid case");
    assert_eq!(found, [floats(&[3], &[65_504.0, -65_504.0, 1.0])]);
    let whole = ints(&[i64::MAX, i64::MIN]);
    assert_eq!(run("Clip", 13, std::slice::from_ref(&whole), &[]), whole);
}

/// The text rounds down, its shape inference and ONNX Runtime round up.
#[test]
fn valid_windows_that_round_up_fit_the_axis() {
    let attributes = [
        integers("kernel_shape", &[2]),
        integers("strides", &[2]),
        integer("ceil_mode", 1),
        text("auto_pad", "VALID"),
    ];
    let x = [floats(&[1, 1, 4], &[1.0, 2.0, 3.0, 4.0])];
    check("MaxPool", 12, &x, &attributes, &floats(&[1, 1, 2], &[2.0, 4.0]));
    let x = [floats(&[1, 1, 5], &[1.0, 2.0, 3.0, 4.0, 5.0])];
    check_failure("MaxPool", 12, &x, &attributes, "auto_pad VALID");
    check("MaxPool", 12, &x, &attributes[..3], &floats(&[1, 1, 3], &[2.0, 4.0, 5.0]));
}

/// Expected numbers are those of ONNX Runtime; `onnx.reference` cuts nothing.
#[test]
fn padding_comes_from_what_a_cut_leaves() {
    let x = floats(&[4], &[1.0, 2.0, 3.0, 4.0]);
    let pad = |before: i64, after: i64| [x.clone(), ints(&[before, after])];
    let mode = |mode: &str| [text("mode", mode)];
    let reflected = floats(&[5], &[2.0, 3.0, 4.0, 3.0, 2.0]);
    check("Pad", 18, &pad(-1, 2), &mode("reflect"), &reflected);
    check_failure("Pad", 18, &pad(2, -3), &mode("reflect"), "cannot reflect 1 elements over 2");
    let repeated = floats(&[4], &[1.0, 1.0, 1.0, 2.0]);
    check("Pad", 18, &pad(2, -2), &mode("edge"), &repeated);
    check_failure("Pad", 18, &pad(2, -5), &mode("edge"), "without elements");
    check("Pad", 18, &pad(3, -5), &mode("constant"), &floats(&[2], &[0.0, 0.0]));
}

/// The other axis of the output has no elements, so that none would be interpolated.
#[test]
fn axes_without_elements_are_not_enlarged() {
    let none = floats(&[0, 3], &[]);
    for mode in ["nearest", "linear"] {
        let mut net = model("Resize", 13, 4, &[text("mode", mode)]);
        net.nodes[0].inputs[1].clear();
        net.nodes[0].inputs[2].clear();
        net.inputs.drain(1..3);
        let mut session = session(&net);
        let error = session.run(&[none.clone(), ints(&[5, 0])]).expect_err("an invalid case");
        assert!(error.to_string().contains("expected elements"), "{error}");
        let found = session.run(&[none.clone(), ints(&[0, 6])]).expect("a valid case");
        assert_eq!(found, [floats(&[0, 6], &[])], "{mode}");
        let found = session.run(&[none.clone(), ints(&[0, 1 << 40])]).expect("a valid case");
        assert_eq!(found, [floats(&[0, 1 << 40], &[])], "{mode}");
    }
}

/// Rounded thirds of this number do not add up to it.
#[test]
fn an_edge_that_is_enlarged_stays_as_it_is() {
    let edge = 0.1_f32;
    let x = floats(&[2], &[edge, 0.0]);
    let inputs = [x, floats(&[0], &[]), floats(&[1], &[3.0])];
    let found = run("Resize", 13, &inputs, &[text("mode", "linear")]);
    assert_eq!(found.as_slice::<f32>().expect("float32")[..2], [edge; 2]);
}

/// Five elements in four parts of two would be 2, 2, 1 and 0.
#[test]
fn only_the_last_part_is_shorter() {
    let mut net = model("Split", 18, 1, &[integer("num_outputs", 4)]);
    for name in ["b", "c", "d"] {
        net.nodes[0].outputs.push(name.into());
        net.outputs.push(Port { name: name.into(), element: None, shape: None });
    }
    let mut session = session(&net);
    let parts = session.run(&[floats(&[3], &[1.0, 2.0, 3.0])]).expect("a valid case");
    let part = |x: f32| floats(&[1], &[x]);
    assert_eq!(parts, [part(1.0), part(2.0), part(3.0), floats(&[0], &[])]);
    let error = session.run(&[floats(&[5], &[0.0; 5])]).expect_err("an invalid case").to_string();
    assert!(error.contains("'node' (Split)") && error.contains("4 parts of 2"), "{error}");
}

/// Versions 24 to 28 change the types of operators, and add some.
#[test]
fn new_versions_compute_the_same() {
    let x = floats(&[2], &[1.0, -3.0]);
    check("Swish", 24, std::slice::from_ref(&x), &[], &floats(&[2], &[0.731_058_6, -0.142_277_6]));
    let to = [integer("to", 7), text("round_mode", "up")];
    assert_eq!(run("Cast", 25, std::slice::from_ref(&x), &to), ints(&[1, -3]));
    check("Relu", 28, std::slice::from_ref(&x), &[], &floats(&[2], &[1.0, 0.0]));
    let range = [0.5_f32, 2.0, 1.0].map(Value::scalar);
    check("Range", 27, &range, &[integer("stash_type", 1)], &floats(&[2], &[0.5, 1.5]));
    // The remainder of floats has the sign of the divisor, and so has a remainder of 0.
    let rest = run("Mod", 28, &[x, floats(&[2], &[-2.0, 3.0])], &[]);
    let bits: Vec<u32> =
        rest.as_slice::<f32>().expect("floats").iter().map(|x| x.to_bits()).collect();
    assert_eq!(bits, [-1.0_f32, 0.0].map(f32::to_bits));
    let all = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
    let crd = [integer("blocksize", 2), text("mode", "CRD")];
    check("SpaceToDepth", 28, &[floats(&[1, 2, 2, 2], &all)], &crd, &floats(&[1, 8, 1, 1], &all));
    let error = Graph::new(&model("Relu", 29, 1, &[])).expect_err("an invalid case").to_string();
    assert!(error.contains("versions 7 to 28"), "{error}");
}

/// The standard has no sum of numbers of 16 and of 32 bits, which are both `f32` in the run.
#[test]
fn types_are_not_mixed() {
    let load = |op: &str, types: [Element; 2]| {
        let mut net = model(op, 17, 2, &[]);
        for (port, element) in net.inputs.iter_mut().zip(types) {
            (port.element, port.shape) = (Some(element), Some(vec![2.into()]));
        }
        Graph::new(&net).map(drop).map_err(|error| error.to_string())
    };
    for op in ["Add", "LessOrEqual", "Mod"] {
        let error = load(op, [Element::F32, Element::F16]).expect_err("an invalid case");
        let names_the_node = error.contains(&format!("'node' ({op}"));
        assert!(names_the_node && error.contains("float16 and float32"), "{error}");
        assert_eq!(load(op, [Element::F16, Element::F16]), Ok(()));
        assert_eq!(load(op, [Element::F32, Element::F32]), Ok(()));
    }
}

/// The deviation of 1 and 3 is 1, and that of equal numbers is 0. The norm of 3 and 4 is 5.
#[test]
fn deviations_and_norms_are_those_of_channels_and_windows() {
    let x = floats(&[1, 2, 1, 2], &[1.0, 3.0, 5.0, 5.0]);
    let expected = floats(&[1, 2, 1, 2], &[-1.0, 1.0, 0.0, 0.0]);
    check("MeanVarianceNormalization", 13, std::slice::from_ref(&x), &[], &expected);
    let last = [integers("axes", &[-1, 1])];
    let expected = floats(&[1, 2, 1, 2], &[-5.0, -1.0, 3.0, 3.0].map(|x| x / 11_f32.sqrt()));
    check("MeanVarianceNormalization", 13, &[x], &last, &expected);
    let line = floats(&[1, 1, 3], &[3.0, -4.0, 0.0]);
    let kernel = integers("kernel_shape", &[2]);
    let lines = std::slice::from_ref(&line);
    check("LpPool", 18, lines, std::slice::from_ref(&kernel), &floats(&[1, 1, 2], &[5.0, 4.0]));
    let sums = [kernel, integer("p", 1)];
    check("LpPool", 18, lines, &sums, &floats(&[1, 1, 2], &[7.0, 4.0]));
    check("GlobalLpPool", 7, lines, &[], &floats(&[1, 1, 1], &[5.0]));
}

/// Weights of more than 16 MiB that a node transposes, as exporters write them.
#[test]
fn large_weights_of_a_layer_may_be_transposed() {
    let units = 1040;
    let mut net = model("LSTM", 14, 3, &[integer("hidden_size", units as i64)]);
    net.inputs.truncate(1);
    let turn = Node {
        name: "turn".into(),
        op: "Transpose".into(),
        domain: String::new(),
        inputs: vec!["turned".into()],
        outputs: vec!["x2".into()],
        attributes: vec![("perm".into(), Attribute::Ints(vec![0, 2, 1]))],
    };
    net.nodes.insert(0, turn);
    let zeros = |name: &str, shape: [usize; 3]| Tensor {
        name: name.into(),
        element: Element::F32,
        shape: shape.to_vec(),
        values: Values::Bytes(vec![0; 4 * shape.iter().product::<usize>()]),
    };
    net.tensors = vec![zeros("x1", [1, 4 * units, 1]), zeros("turned", [1, units, 4 * units])];
    let found = session(&net).run(&[floats(&[1, 1, 1], &[1.0])]).expect("a valid case");
    assert_eq!(found, [floats(&[1, 1, 1, units], &vec![0.0; units])]);
}

/// Sums of many numbers are exact, and large numbers do not overflow on the way.
#[test]
fn long_sums_and_large_numbers_keep_their_digits() {
    let many = 3_000_000;
    // In `f32`, each addition to a sum of millions would lose digits.
    let numbers: Vec<f32> = (0..many).map(|at| if at % 2 == 0 { 1.0 } else { 0.7 }).collect();
    let logarithms: Vec<f32> = numbers.iter().map(|x| x.ln()).collect();
    let found = run("Softmax", 13, &[floats(&[1, many], &logarithms)], &[]);
    let share = f64::from(found.as_slice::<f32>().expect("floats")[0]);
    assert!((share * many as f64 * 0.85 - 1.0).abs() < 1e-6, "{share}");
    let kernel = [integers("kernel_shape", &[3000, 1000])];
    let mean = run("AveragePool", 19, &[floats(&[1, 1, 3000, 1000], &numbers)], &kernel);
    let mean = mean.as_slice::<f32>().expect("floats")[0];
    assert!((mean - 0.85).abs() < 1e-6, "{mean}");
    let large = floats(&[2], &[3e38, 1.0]);
    let expected = (3e38_f64.asinh() as f32, 3e38_f64.acosh() as f32);
    let asinh = floats(&[2], &[expected.0, 0.881_373_6]);
    check("Asinh", 18, std::slice::from_ref(&large), &[], &asinh);
    check("Acosh", 18, &[large], &[], &floats(&[2], &[expected.1, 0.0]));
    let tail = floats(&[3], &[-1e4, -8.0, 1e4]);
    assert_eq!(run("Gelu", 20, &[tail], &[]), floats(&[3], &[0.0, 0.0, 1e4]));
}

/// The kernels compute exponentials with the digits of `f32`.
#[test]
fn exponentials_of_float64_have_all_its_digits() {
    for (op, expected) in [
        ("Exp", 7.389_056_098_930_65),
        ("Sigmoid", 0.880_797_077_977_882_3),
        ("Swish", 1.761_594_155_955_764_6),
    ] {
        let found = run(op, 24, &[Value::scalar(2.0_f64)], &[]);
        let found = found.as_slice::<f64>().expect("float64")[0];
        assert!((found / expected - 1.0).abs() < 1e-15, "{op} {found}");
    }
}

/// Its index would have no rows. ONNX Runtime returns one.
#[test]
fn a_scalar_has_no_indices() {
    let given = [Value::scalar(3.0_f32)];
    check_refused(&standard("NonZero", 13, &given, &[]), &given, "the indices of a scalar");
}

/// Peers reject padding of as many elements as a window has.
#[test]
fn windows_in_the_padding_at_the_end_do_not_count() {
    let given = [floats(&[1, 1, 2], &[1.0, 2.0])];
    let attributes = |after: i64| {
        [integers("kernel_shape", &[1]), integers("pads", &[0, after]), integer("ceil_mode", 1)]
    };
    for (op, version) in [("MaxPool", 22), ("AveragePool", 22), ("LpPool", 22)] {
        check_standard(op, version, &given, &attributes(1), &given[0]);
        let beyond = standard(op, version, &given, &attributes(2));
        check_refused(&beyond, &given, "several windows begin in the padding");
    }
}

/// A server with such a model would fail at its first request.
#[test]
fn operators_that_do_not_support_float64_are_rejected_before_a_run() {
    let cases: [(&str, &[(&str, Attribute)]); 9] = [
        ("Softmax", &[]),
        ("LayerNormalization", &[]),
        ("MaxPool", &[]),
        ("Erf", &[]),
        ("Mean", &[]),
        ("Conv", &[]),
        ("DFT", &[]),
        ("Gelu", &[]),
        ("Resize", &[text("mode", "linear")]),
    ];
    for (op, attributes) in cases {
        let mut net = model(op, 20, 1, attributes);
        net.inputs[0].element = Some(Element::F64);
        net.inputs[0].shape = Some(vec![1.into(), 2.into(), 3.into()]);
        let error = Graph::new(&net).expect_err("an invalid case").to_string();
        assert!(error.contains(op) && error.contains("float64 are not supported"), "{error}");
    }
}

/// The second call must not use what the first one packed.
#[test]
fn weights_of_recurrent_nodes_may_be_inputs() {
    let x = floats(&[2, 1, 1], &[1.0, -0.5]);
    let mut session = session(&model("RNN", 14, 3, &[]));
    for (w, r) in [(0.5_f32, 1.0_f32), (-2.0, 0.25)] {
        let inputs = [x.clone(), floats(&[1, 1, 1], &[w]), floats(&[1, 1, 1], &[r])];
        let found = session.run(&inputs).expect("a valid case").remove(0);
        let first = w.tanh();
        let expected = [first, (-0.5 * w + r * first).tanh()];
        let all = found.as_slice::<f32>().expect("numbers");
        assert!(all.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5), "{all:?}");
        assert_eq!(run("RNN", 14, &inputs, &[]), found);
    }
}
