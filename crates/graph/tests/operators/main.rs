//! Operators against numbers worked out by hand from the ONNX standard.

mod attention;
mod bits;
mod classical;
mod convolutions;
mod distinct;
mod edges;
mod fused;
mod integers;
mod standard;

use std::sync::Arc;

use dyno_graph::{Graph, Session, SessionOptions, Value};
use dyno_onnx::{Attribute, Model, Node, Port, Tensor};

/// Returns a model of one node, whose inputs are the model's.
fn model(op: &str, version: i64, inputs: usize, attributes: &[(&str, Attribute)]) -> Model {
    let port = |name: String| Port { name, element: None, shape: None };
    let names: Vec<String> = (0..inputs).map(|at| format!("x{at}")).collect();
    let node = Node {
        name: "node".into(),
        op: op.into(),
        domain: String::new(),
        inputs: names.clone(),
        outputs: vec!["y".into()],
        attributes: attributes
            .iter()
            .map(|(name, value)| ((*name).into(), value.clone()))
            .collect(),
    };
    Model {
        name: "net".into(),
        producer: String::new(),
        ir_version: 8,
        operator_sets: vec![(String::new(), version)],
        inputs: names.into_iter().map(port).collect(),
        outputs: vec![port("y".into())],
        value_info: Vec::new(),
        nodes: vec![node],
        tensors: Vec::new(),
    }
}

fn floats(dims: &[usize], all: &[f32]) -> Value {
    Value::new(dims, all.to_vec()).expect("a valid case")
}

fn ints(all: &[i64]) -> Value {
    Value::new(vec![all.len()], all.to_vec()).expect("a valid case")
}

/// Runs a node twice: on inputs, and with all inputs but the first as constants.
fn run(op: &str, version: i64, inputs: &[Value], attributes: &[(&str, Attribute)]) -> Value {
    let fed = model(op, version, inputs.len(), attributes);
    let mut session = session(&fed);
    let found = session.run(inputs).expect("a valid case").remove(0);
    let mut constant = fed.clone();
    constant.inputs.truncate(1);
    for (at, value) in inputs.iter().enumerate().skip(1) {
        constant.tensors.push(tensor(&format!("x{at}"), value));
    }
    let again = self::session(&constant).run(&inputs[..1]).expect("a valid case").remove(0);
    assert_eq!(found, again, "{op} with constants");
    found
}

fn tensor(name: &str, value: &Value) -> Tensor {
    let mut bytes = Vec::new();
    value.elements(value.element()).expect("a valid case").write(&mut bytes);
    Tensor {
        name: name.into(),
        element: value.element(),
        shape: value.dims().to_vec(),
        values: dyno_onnx::Values::Bytes(bytes),
    }
}

fn session(model: &Model) -> Session {
    Session::new(Arc::new(Graph::new(model).expect("a valid case")), &SessionOptions::default())
}

#[track_caller]
fn check(
    op: &str,
    version: i64,
    inputs: &[Value],
    attributes: &[(&str, Attribute)],
    expected: &Value,
) {
    let found = run(op, version, inputs, attributes);
    assert_eq!(found.dims(), expected.dims(), "{op} {version}");
    match (found.as_slice::<f32>(), expected.as_slice::<f32>()) {
        (Some(found), Some(expected)) => {
            for (a, b) in found.iter().zip(expected) {
                assert!((a - b).abs() <= 1e-5 * b.abs().max(1.0), "{op} {version}: {found:?}");
            }
        }
        _ => assert_eq!(&found, expected, "{op} {version}"),
    }
}

#[test]
fn elements_are_broadcast_from_the_last_axis_on() {
    let x = floats(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let row = floats(&[3], &[10.0, 20.0, 30.0]);
    let column = floats(&[2, 1], &[100.0, 200.0]);
    check(
        "Add",
        14,
        &[x.clone(), row],
        &[],
        &floats(&[2, 3], &[11.0, 22.0, 33.0, 14.0, 25.0, 36.0]),
    );
    check(
        "Add",
        14,
        &[x, column.clone()],
        &[],
        &floats(&[2, 3], &[101.0, 102.0, 103.0, 204.0, 205.0, 206.0]),
    );
    let both = [column, floats(&[2], &[1.0, 2.0])];
    check("Sub", 14, &both, &[], &floats(&[2, 2], &[99.0, 98.0, 199.0, 198.0]));
}

/// Bytes that repeat no short pattern; every one is the largest if `is_extreme`.
fn bytes(count: usize, is_extreme: bool) -> Vec<u8> {
    (0..count).map(|at| if is_extreme { 255 } else { (at * 89 + at / 7 * 31) as u8 }).collect()
}

#[test]
fn products_of_bytes_are_exact() {
    // Sums of 40 numbers fit in the bits of `f32`; those of 700 need two parts.
    for (k, is_extreme) in [(40, false), (40, true), (700, false), (700, true)] {
        let (rows, columns) = (3, 5);
        let a = bytes(rows * k, is_extreme);
        let b: Vec<i8> = bytes(k * columns, is_extreme).iter().map(|b| b.cast_signed()).collect();
        let zeros = [3_i64, -128];
        let mut expected = vec![0_i32; rows * columns];
        for (at, sum) in expected.iter_mut().enumerate() {
            let (row, column) = (at / columns, at % columns);
            let product = |i: usize| {
                (i64::from(a[row * k + i]) - zeros[0])
                    * (i64::from(b[i * columns + column]) - zeros[1])
            };
            *sum = i32::try_from((0..k).map(product).sum::<i64>()).expect("it fits");
        }
        let inputs = [
            Value::new(vec![rows, k], a).expect("a valid case"),
            Value::new(vec![k, columns], b).expect("a valid case"),
            Value::scalar(3_u8),
            Value::scalar(-128_i8),
        ];
        let expected = Value::new(vec![rows, columns], expected).expect("a valid case");
        assert_eq!(run("MatMulInteger", 10, &inputs, &[]), expected, "{k} {is_extreme}");
    }
}

#[test]
fn convolutions_of_bytes_are_exact() {
    for (channels, is_extreme) in [(2, false), (2, true), (80, false), (80, true)] {
        let (filters, size, kernel) = (2, 4, 3);
        let x = bytes(channels * size * size, is_extreme);
        let w = bytes(filters * channels * kernel * kernel, is_extreme);
        let zeros = [128_i64, 1];
        let windows = size - kernel + 1;
        let mut expected = vec![0_i32; filters * windows * windows];
        for (at, sum) in expected.iter_mut().enumerate() {
            let (filter, row, column) =
                (at / (windows * windows), at / windows % windows, at % windows);
            let product = |i: usize| {
                let (channel, y, x_) = (i / (kernel * kernel), i / kernel % kernel, i % kernel);
                let from = x[(channel * size + row + y) * size + column + x_];
                let weight = w[filter * channels * kernel * kernel + i];
                (i64::from(from) - zeros[0]) * (i64::from(weight) - zeros[1])
            };
            let all = (0..channels * kernel * kernel).map(product).sum::<i64>();
            *sum = i32::try_from(all).expect("it fits");
        }
        let inputs = [
            Value::new(vec![1, channels, size, size], x).expect("a valid case"),
            Value::new(vec![filters, channels, kernel, kernel], w).expect("a valid case"),
            Value::scalar(128_u8),
            Value::scalar(1_u8),
        ];
        let expected =
            Value::new(vec![1, filters, windows, windows], expected).expect("a valid case");
        assert_eq!(run("ConvInteger", 10, &inputs, &[]), expected, "{channels} {is_extreme}");
    }
}

#[test]
fn integers_beyond_24_bits_are_exact() {
    let x = ints(&[(1 << 53) + 1, -7]);
    check("Add", 14, &[x.clone(), ints(&[1, 0])], &[], &ints(&[(1 << 53) + 2, -7]));
    check("Div", 14, &[x, ints(&[1, 2])], &[], &ints(&[(1 << 53) + 1, -3]));
    check("Mod", 13, &[ints(&[-7, 7]), ints(&[3, -3])], &[], &ints(&[2, -2]));
    let fmod = [("fmod", Attribute::Int(1))];
    check("Mod", 13, &[ints(&[-7, 7]), ints(&[3, -3])], &fmod, &ints(&[-1, 1]));
}

#[test]
fn softmax_flattens_axes_before_version_13() {
    let x = floats(&[1, 2, 2], &[0.0, 0.0, 0.0, 0.0]);
    let axis = [("axis", Attribute::Int(1))];
    check("Softmax", 12, std::slice::from_ref(&x), &axis, &floats(&[1, 2, 2], &[0.25; 4]));
    check("Softmax", 13, &[x], &axis, &floats(&[1, 2, 2], &[0.5; 4]));
}

#[test]
fn axes_are_attributes_in_old_versions_and_inputs_in_new_ones() {
    let x = floats(&[1, 2, 1], &[3.0, 4.0]);
    let axes = [("axes", Attribute::Ints(vec![0]))];
    check("Squeeze", 11, std::slice::from_ref(&x), &axes, &floats(&[2, 1], &[3.0, 4.0]));
    check("Squeeze", 13, &[x.clone(), ints(&[-1])], &[], &floats(&[1, 2], &[3.0, 4.0]));
    check(
        "ReduceSum",
        11,
        std::slice::from_ref(&x),
        &[("axes", Attribute::Ints(vec![1]))],
        &floats(&[1, 1, 1], &[7.0]),
    );
    let drop = [("keepdims", Attribute::Int(0))];
    check("ReduceSum", 13, &[x, ints(&[1])], &drop, &floats(&[1, 1], &[7.0]));
    let clip = [("min", Attribute::Float(0.0)), ("max", Attribute::Float(1.0))];
    check(
        "Clip",
        6 + 1,
        &[floats(&[3], &[-1.0, 0.5, 2.0])],
        &clip,
        &floats(&[3], &[0.0, 0.5, 1.0]),
    );
}

/// `f32::max` and `f32::min` would drop NaN.
#[test]
fn nan_passes_through_limits_and_maxima() {
    let x = floats(&[1, 2, 2], &[f32::NAN, 1.0, 2.0, f32::NAN]);
    let limits = [("min", Attribute::Float(0.0)), ("max", Attribute::Float(1.0))];
    let kernel = [("kernel_shape", Attribute::Ints(vec![2]))];
    let no_attributes: [(&str, Attribute); 0] = [];
    let all_nan = [true; 4];
    for (op, version, attributes, expected) in [
        ("Clip", 7, &limits[..], &[true, false, false, true][..]),
        ("Celu", 12, &no_attributes[..], &[true, false, false, true][..]),
        ("HardSigmoid", 13, &no_attributes[..], &[true, false, false, true][..]),
        ("HardSwish", 14, &no_attributes[..], &[true, false, false, true][..]),
        ("Softplus", 13, &no_attributes[..], &[true, false, false, true][..]),
        ("Softmax", 13, &no_attributes[..], &all_nan[..]),
        ("GlobalMaxPool", 13, &no_attributes[..], &[true, true][..]),
        ("MaxPool", 12, &kernel[..], &[true, true][..]),
        ("ReduceMax", 13, &no_attributes[..], &[true][..]),
        ("ReduceMin", 13, &no_attributes[..], &[true][..]),
    ] {
        let model = model(op, version, 1, attributes);
        let found = session(&model).run(std::slice::from_ref(&x)).expect("a valid case").remove(0);
        let found: Vec<bool> =
            found.as_slice::<f32>().expect("numbers").iter().map(|x| x.is_nan()).collect();
        assert_eq!(found, expected, "{op}");
    }
}

/// The standard defines no integer, code or index for NaN.
#[test]
fn nan_that_would_become_an_integer_is_an_error_that_names_the_node() {
    let x = floats(&[2], &[1.0, f32::NAN]);
    let to = |code: i64| vec![("to", Attribute::Int(code))];
    let along = || vec![("axis", Attribute::Int(0))];
    let scalar = Value::scalar;
    for (op, version, inputs, attributes) in [
        ("Cast", 13, vec![x.clone()], to(7)),
        ("Cast", 13, vec![x.clone()], to(6)),
        ("Cast", 13, vec![x.clone()], to(3)),
        ("Cast", 13, vec![x.clone()], to(2)),
        ("ArgMax", 13, vec![x.clone()], along()),
        ("ArgMin", 13, vec![x.clone()], along()),
        ("Hardmax", 13, vec![x.clone()], along()),
        ("TopK", 9, vec![x.clone()], vec![("k", Attribute::Int(1))]),
        ("DynamicQuantizeLinear", 11, vec![x.clone()], vec![]),
        ("QuantizeLinear", 13, vec![x, scalar(0.5_f32)], vec![]),
        ("Pow", 15, vec![ints(&[-8]), scalar(0.5_f32)], vec![]),
        ("ReduceLogSum", 13, vec![ints(&[-8, 1])], vec![]),
    ] {
        let mut session = session(&model(op, version, inputs.len(), &attributes));
        let error = session.run(&inputs).unwrap_err().to_string();
        assert!(error.contains(&format!("'node' ({op})")) && error.contains("NaN"), "{error}");
    }
    let range = [f32::NAN, 1.0, 1.0].map(scalar);
    let error = session(&model("Range", 11, 3, &[])).run(&range).unwrap_err().to_string();
    assert!(error.contains("finite range"), "{error}");
    // NaN is a truth, as every number but 0.
    let truth = session(&model("Cast", 13, 1, &to(9))).run(&[scalar(f32::NAN)]).unwrap().remove(0);
    assert_eq!(truth, Value::scalar(true));
}

#[test]
fn powers_of_a_half_are_not_always_roots() {
    let x = floats(&[3], &[f32::NEG_INFINITY, -0.0, 4.0]);
    let found = run("Pow", 15, &[x, Value::scalar(0.5_f32)], &[]);
    let bits = |all: &[f32]| all.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    let found = found.as_slice::<f32>().expect("numbers");
    assert_eq!(bits(found), bits(&[f32::INFINITY, 0.0, 2.0]));
}

#[test]
fn scattered_extremes_pass_nan_on() {
    for reduction in ["max", "min"] {
        let how = [("reduction", Attribute::Text(reduction.into()))];
        let inputs =
            [floats(&[2], &[1.0, f32::NAN]), ints(&[0, 1]), floats(&[2], &[f32::NAN, 1.0])];
        let mut session = session(&model("ScatterElements", 18, 3, &how));
        let found = session.run(&inputs).expect("a valid case").remove(0);
        let found = found.as_slice::<f32>().expect("numbers");
        assert!(found.iter().all(|x| x.is_nan()), "{reduction}: {found:?}");
    }
}

/// ONNX: a reduction over no axes combines nothing, but squares, magnitudes and logarithms remain.
#[test]
fn reductions_of_no_axes_apply_to_each_element() {
    let x = floats(&[2, 2], &[0.5, 2.0, -3.0, 4.0]);
    let no_axes = [("noop_with_empty_axes", Attribute::Int(1))];
    let (ln_2, ln_4) = (2_f32.ln(), 4_f32.ln());
    for (op, expected) in [
        ("ReduceSum", [0.5, 2.0, -3.0, 4.0]),
        ("ReduceMean", [0.5, 2.0, -3.0, 4.0]),
        ("ReduceMax", [0.5, 2.0, -3.0, 4.0]),
        ("ReduceMin", [0.5, 2.0, -3.0, 4.0]),
        ("ReduceProd", [0.5, 2.0, -3.0, 4.0]),
        ("ReduceLogSumExp", [0.5, 2.0, -3.0, 4.0]),
        ("ReduceL1", [0.5, 2.0, 3.0, 4.0]),
        ("ReduceL2", [0.5, 2.0, 3.0, 4.0]),
        ("ReduceSumSquare", [0.25, 4.0, 9.0, 16.0]),
    ] {
        let expected = floats(&[2, 2], &expected);
        check(op, 18, std::slice::from_ref(&x), &no_axes, &expected);
        check(op, 18, &[x.clone(), ints(&[])], &no_axes, &expected);
    }
    let x = floats(&[3], &[0.5, 2.0, 4.0]);
    check("ReduceLogSum", 18, &[x], &no_axes, &floats(&[3], &[-ln_2, ln_2, ln_4]));
    let whole = Value::new(vec![2], vec![-3_i64, 5]).expect("a valid case");
    check("ReduceSumSquare", 18, std::slice::from_ref(&whole), &no_axes, &ints(&[9, 25]));
    check("ReduceL1", 18, &[whole], &no_axes, &ints(&[3, 5]));
}

#[test]
fn slices_count_from_the_end_and_go_backward() {
    let x = floats(&[5], &[0.0, 1.0, 2.0, 3.0, 4.0]);
    let slice = |starts: i64, ends: i64, steps: i64| {
        vec![x.clone(), ints(&[starts]), ints(&[ends]), ints(&[0]), ints(&[steps])]
    };
    check("Slice", 13, &slice(-3, i64::MAX, 1), &[], &floats(&[3], &[2.0, 3.0, 4.0]));
    check("Slice", 13, &slice(-1, i64::MIN, -2), &[], &floats(&[3], &[4.0, 2.0, 0.0]));
    check("Slice", 13, &slice(3, 1, 1), &[], &floats(&[0], &[]));
    check("Slice", 13, &slice(0, 5, i64::MAX), &[], &floats(&[1], &[0.0]));
}

#[test]
fn convolutions_pad_stride_dilate_and_group() {
    let x = floats(&[1, 1, 5], &[1.0, 2.0, 3.0, 4.0, 5.0]);
    let w = floats(&[1, 1, 2], &[1.0, 10.0]);
    let dilated = [
        ("dilations", Attribute::Ints(vec![2])),
        ("pads", Attribute::Ints(vec![1, 0])),
        ("strides", Attribute::Ints(vec![2])),
    ];
    // Padded: 0 1 2 3 4 5.
    check("Conv", 11, &[x, w], &dilated, &floats(&[1, 1, 2], &[20.0, 42.0]));
    let planes = floats(&[1, 2, 2, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    let each = floats(&[2, 1, 2, 2], &[1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, -1.0]);
    let group = [("group", Attribute::Int(2))];
    check(
        "Conv",
        11,
        &[planes.clone(), each, floats(&[2], &[0.5, 0.0])],
        &group,
        &floats(&[1, 2, 1, 1], &[10.5, -3.0]),
    );
    let spread = floats(&[2, 1, 1, 2], &[1.0, 2.0, 0.0, 1.0]);
    let expected = [1.0, 9.0, 10.0, 3.0, 17.0, 16.0];
    check("ConvTranspose", 11, &[planes, spread], &[], &floats(&[1, 1, 2, 3], &expected));
}

#[test]
fn products_broadcast_batches() {
    let a = floats(&[2, 1, 2], &[1.0, 2.0, 3.0, 4.0]);
    let b = floats(&[2, 2], &[1.0, 10.0, 100.0, 1000.0]);
    check("MatMul", 13, &[a, b.clone()], &[], &floats(&[2, 1, 2], &[201.0, 2010.0, 403.0, 4030.0]));
    let gemm = [("transB", Attribute::Int(1)), ("alpha", Attribute::Float(2.0))];
    let x = floats(&[1, 2], &[1.0, 1.0]);
    check("Gemm", 13, &[x, b, floats(&[2], &[0.5, 1.0])], &gemm, &floats(&[1, 2], &[22.5, 2201.0]));
}

#[test]
fn unsupported_nodes_are_named() {
    let reason = |model: &Model| Graph::new(model).unwrap_err().to_string();
    let unknown = reason(&model("Frobnicate", 17, 1, &[]));
    assert!(
        unknown.contains("'node' (Frobnicate") && unknown.contains("not supported"),
        "{unknown}"
    );
    let attribute = reason(&model("Relu", 17, 1, &[("novel", Attribute::Int(1))]));
    assert!(attribute.contains("'novel'"), "{attribute}");
    let old = reason(&model("Relu", 5, 1, &[]));
    assert!(old.contains("versions 7 to"), "{old}");
}

/// Attributes are checked against the rank of the input when a model is loaded.
#[test]
fn axes_that_no_input_has_are_errors_of_the_model() {
    let axis = |at: i64| vec![("axis", Attribute::Int(at))];
    let all = |name: &'static str, all: &[i64]| vec![(name, Attribute::Ints(all.to_vec()))];
    let error = |op: &str, version: i64, attributes: &[(&str, Attribute)]| {
        let mut net = model(op, version, 1, attributes);
        net.inputs[0].element = Some(dyno_onnx::Element::F32);
        net.inputs[0].shape = Some(vec![dyno_onnx::Dim::symbol("N"), 1.into(), 4.into()]);
        Graph::new(&net).err().map(|error| error.to_string())
    };
    for (op, version, attributes, is_valid) in [
        ("Softmax", 13, axis(7), false),
        ("Softmax", 13, axis(-3), true),
        ("Softmax", 12, axis(3), true),
        ("Softmax", 12, axis(-4), false),
        ("LogSoftmax", 13, axis(3), false),
        ("LpNormalization", 13, axis(3), false),
        ("ArgMax", 13, axis(-4), false),
        ("TopK", 9, axis(3), false),
        ("Concat", 13, axis(3), false),
        ("Flatten", 13, axis(3), true),
        ("Flatten", 13, axis(4), false),
        ("Split", 11, axis(5), false),
        ("Split", 11, all("split", &[1, 3]), false),
        ("Squeeze", 11, all("axes", &[3]), false),
        ("Unsqueeze", 11, all("axes", &[3]), true),
        ("Unsqueeze", 11, all("axes", &[4]), false),
        ("ReduceSum", 11, all("axes", &[-4]), false),
        ("Transpose", 13, all("perm", &[1, 0]), false),
        ("Transpose", 13, all("perm", &[2, 0, 1]), true),
        ("Slice", 9, all("axes", &[3]), false),
        ("Pad", 10, all("pads", &[0, 0]), false),
        ("MaxPool", 12, all("kernel_shape", &[2, 2]), false),
    ] {
        match error(op, version, &attributes) {
            None => assert!(is_valid, "{op} {version} {attributes:?}"),
            Some(error) => {
                let names_the_node = error.contains(&format!("node 'node' ({op}"));
                assert!(!is_valid && names_the_node, "{op} {version} {attributes:?}: {error}");
            }
        }
    }
}

#[test]
fn huge_results_are_errors_that_name_the_node() {
    let shapes = [vec![1 << 40], vec![i64::MAX, 4], vec![-1]];
    for shape in shapes {
        let net = model("ConstantOfShape", 9, 1, &[]);
        let error = session(&net).run(&[ints(&shape)]).unwrap_err().to_string();
        assert!(error.contains("'node' (ConstantOfShape)"), "{error}");
    }
    let x = floats(&[2], &[1.0, 2.0]);
    let tiled = session(&model("Tile", 13, 2, &[])).run(&[x.clone(), ints(&[i64::MAX])]);
    assert!(tiled.unwrap_err().to_string().contains("'node'"));
    let padded = session(&model("Pad", 13, 2, &[])).run(&[x, ints(&[i64::MAX, i64::MAX])]);
    assert!(padded.unwrap_err().to_string().contains("'node'"));
}

/// Sums worked out by hand: an ellipsis, the implied output, sums over axes of one operand alone, and
/// three operands.
#[test]
fn equations_name_axes_to_keep_and_to_sum() {
    let x = floats(&[1, 2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let w = floats(&[3, 2], &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
    let m = floats(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let v = floats(&[2], &[1.0, 10.0]);
    let rows = floats(&[1, 2, 2], &[4.0, 5.0, 10.0, 11.0]);
    let pairs = floats(&[2, 1, 2], &[1.0, 2.0, 3.0, 4.0]);
    let column = floats(&[1, 2, 1], &[10.0, 1.0]);
    for (equation, inputs, expected) in [
        ("...i,io->...o", vec![x.clone(), w.clone()], rows.clone()),
        ("...i, io", vec![x.clone(), w.clone()], rows),
        ("b...i,io->ob...", vec![x, w.clone()], floats(&[2, 1, 2], &[4.0, 10.0, 5.0, 11.0])),
        ("ij->", vec![m.clone()], floats(&[], &[21.0])),
        ("ij->j", vec![m.clone()], floats(&[3], &[5.0, 7.0, 9.0])),
        ("ij->ji", vec![m.clone()], floats(&[3, 2], &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0])),
        ("ij,i->i", vec![m.clone(), v.clone()], floats(&[2], &[6.0, 150.0])),
        ("ij,jk->ik", vec![m.clone(), w.clone()], floats(&[2, 2], &[4.0, 5.0, 10.0, 11.0])),
        ("i,ij,jk->k", vec![v.clone(), m, w], floats(&[2], &[104.0, 115.0])),
        // An axis of one element is repeated.
        ("...ij,...jk", vec![pairs, column], floats(&[2, 1, 1], &[12.0, 34.0])),
        ("ij,j->i", vec![floats(&[2, 1], &[1.0, 2.0]), v], floats(&[2], &[11.0, 22.0])),
    ] {
        let attribute = ("equation", Attribute::Text(equation.into()));
        check("Einsum", 12, &inputs, &[attribute], &expected);
    }
    for equation in ["ii->i", "ij->k", "ij->jj", "i.j->i", "...i->i.", "ij,jk->ik"] {
        let net = model("Einsum", 12, 1, &[("equation", Attribute::Text(equation.into()))]);
        let error = Graph::new(&net).map(drop).unwrap_err().to_string();
        assert!(error.contains(&format!("equation '{equation}' is not supported")), "{error}");
    }
}
