//! What the text of the standard defines, and models that it does not define.

use dyno_graph::{Graph, Value};
use dyno_onnx::{Attribute, Element, Port};

use super::fused::check_standard;
use super::{check, floats, ints, model, run, session};

pub(super) fn integer(name: &'static str, n: i64) -> (&'static str, Attribute) {
    (name, Attribute::Int(n))
}

pub(super) fn integers(name: &'static str, all: &[i64]) -> (&'static str, Attribute) {
    (name, Attribute::Ints(all.to_vec()))
}

pub(super) fn text(name: &'static str, text: &str) -> (&'static str, Attribute) {
    (name, Attribute::Text(text.into()))
}

/// Checks that a node fails when it runs, with its name.
#[track_caller]
pub(super) fn check_failure(
    op: &str,
    version: i64,
    inputs: &[Value],
    attributes: &[(&str, Attribute)],
    words: &str,
) {
    let mut session = session(&model(op, version, inputs.len(), attributes));
    let error = session.run(inputs).expect_err("an invalid case").to_string();
    assert!(error.contains(&format!("'node' ({op})")) && error.contains(words), "{op}: {error}");
}

/// A start is limited to the first element, unlike in Python, and an end to before it.
#[test]
fn a_backward_slice_begins_at_the_first_element_at_the_latest() {
    let x = floats(&[3], &[5.0, 6.0, 7.0]);
    for (start, expected) in [(-100, vec![5.0]), (-3, vec![5.0]), (-2, vec![6.0, 5.0])] {
        let inputs = [x.clone(), ints(&[start]), ints(&[i64::MIN]), ints(&[0]), ints(&[-1])];
        check("Slice", 13, &inputs, &[], &floats(&[expected.len()], &expected));
    }
    let empty = [floats(&[0], &[]), ints(&[-1]), ints(&[i64::MIN]), ints(&[0]), ints(&[-1])];
    check("Slice", 13, &empty, &[], &floats(&[0], &[]));
}

#[test]
fn an_axis_does_not_occur_twice() {
    let x = floats(&[4], &[1.0, 2.0, 3.0, 4.0]);
    let twice = [x.clone(), ints(&[3, 3]), ints(&[4, 4]), ints(&[0, -1])];
    check_failure("Slice", 13, &twice, &[], "twice");
    let padded = [x, ints(&[1, 1, 0, 0]), Value::scalar(0.0_f32), ints(&[0, 0])];
    check_failure("Pad", 18, &padded, &[], "twice");
}

/// Since version 18, the last part may be shorter.
#[test]
fn parts_without_sizes_are_equal() {
    let split = |version: i64, attributes: &[(&str, Attribute)]| {
        let mut net = model("Split", version, 1, attributes);
        net.nodes[0].outputs.push("z".into());
        net.outputs.push(Port { name: "z".into(), element: None, shape: None });
        session(&net).run(&[floats(&[3], &[1.0, 2.0, 3.0])]).map_err(|error| error.to_string())
    };
    for version in [11, 13, 17] {
        let error = split(version, &[]).expect_err("an invalid case");
        assert!(error.contains("'node' (Split)") && error.contains("equal parts"), "{error}");
    }
    let parts = split(18, &[integer("num_outputs", 2)]).expect("a valid case");
    assert_eq!(parts, [floats(&[2], &[1.0, 2.0]), floats(&[1], &[3.0])]);
}

#[test]
fn updates_and_slopes_fit_the_numbers() {
    let data = floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let indices = Value::new(vec![2, 1], vec![1_i64, 0]).expect("a valid case");
    let rows = floats(&[2, 2], &[5.0, 6.0, 7.0, 8.0]);
    let expected = floats(&[2, 2], &[7.0, 8.0, 5.0, 6.0]);
    check("ScatterND", 11, &[data.clone(), indices.clone(), rows], &[], &expected);
    let flat = floats(&[4], &[5.0, 6.0, 7.0, 8.0]);
    check_failure("ScatterND", 11, &[data, indices, flat], &[], "updates");
    // Slopes are repeated over the numbers, but numbers are not repeated over slopes.
    let x = floats(&[2], &[-1.0, 2.0]);
    check("PRelu", 9, &[x.clone(), floats(&[1], &[0.5])], &[], &floats(&[2], &[-0.5, 2.0]));
    let slopes = floats(&[2, 1], &[0.5, 0.25]);
    check_failure("PRelu", 9, &[x, slopes], &[], "slopes");
}

#[test]
fn sizes_that_depend_on_the_reader_are_errors() {
    let pixels = floats(&[1, 1, 1, 2], &[1.0, 2.0]);
    // Before version 11, an enlargement repeats elements. A reduction may round up or down.
    let large = floats(&[4], &[1.0, 1.0, 1.0, 2.0]);
    let expected = floats(&[1, 1, 1, 4], &[1.0, 1.0, 2.0, 2.0]);
    check("Resize", 10, &[pixels.clone(), large], &[], &expected);
    let small = floats(&[4], &[1.0, 1.0, 1.0, 0.5]);
    check_failure("Resize", 10, &[pixels.clone(), small], &[], "version 11");
    // In float32, 0.7 times 10 is 7. The float32 next to 0.7 is less, so its exact product is, too.
    let ten = floats(&[10], &[0.0; 10]);
    let resize = [ten, floats(&[0], &[]), floats(&[1], &[0.7])];
    check_failure("Resize", 13, &resize, &[], "no exact size");
    // Two windows of two elements, one apart, cover three elements.
    let x = floats(&[1, 1, 2], &[1.0, 2.0]);
    let w = floats(&[1, 1, 2], &[1.0, 10.0]);
    let expected = floats(&[1, 1, 3], &[1.0, 12.0, 20.0]);
    let inputs = [x, w];
    check("ConvTranspose", 11, &inputs, &[integers("output_shape", &[3])], &expected);
    // The element beyond the windows is 0 and at the end, as in the standard's test
    // `convtranspose_output_shape`.
    let expected = floats(&[1, 1, 4], &[1.0, 12.0, 20.0, 0.0]);
    check("ConvTranspose", 11, &inputs, &[integers("output_shape", &[4])], &expected);
    // The equations place two elements on both sides, and ONNX Runtime rejects them.
    let two = [integers("output_shape", &[5])];
    check_failure("ConvTranspose", 11, &inputs, &two, "does not define an output of 5");
    // Windows of one element, two apart: SAME has two elements for each one.
    let [x, _] = inputs;
    let inputs = [x, floats(&[1, 1, 1], &[3.0]), floats(&[1], &[0.5])];
    let same = |padding: &str| [text("auto_pad", padding), integers("strides", &[2])];
    let expected = floats(&[1, 1, 4], &[3.5, 0.5, 6.5, 0.5]);
    check("ConvTranspose", 11, &inputs, &same("SAME_LOWER"), &expected);
    // Half of -1 is 0 or -1, so that the element beyond the windows is the last or the first one.
    let upper = same("SAME_UPPER");
    check_failure("ConvTranspose", 11, &inputs, &upper, "does not define an output of 4");
}

/// Expected numbers are those of ONNX Runtime 1.32, with which `onnx.reference` 1.23 agrees where it
/// computes the case: windows of two elements, two apart, over three elements.
#[test]
fn asked_outputs_of_transposed_convolutions_have_the_padding_of_the_equations() {
    let inputs = [floats(&[1, 1, 3], &[1.0, 2.0, 3.0]), floats(&[1, 1, 2], &[1.0, 10.0])];
    let strides = || integers("strides", &[2]);
    let shape = |size: i64| integers("output_shape", &[size]);
    let upper = || text("auto_pad", "SAME_UPPER");
    let more = || integers("output_padding", &[1]);
    let all = [1.0, 10.0, 2.0, 20.0, 3.0, 30.0];
    for (attributes, expected) in [
        (vec![strides(), shape(3)], vec![2.0, 20.0, 3.0]),
        (vec![strides(), shape(3), upper()], vec![10.0, 2.0, 20.0]),
        (vec![strides(), shape(5)], all[1..].to_vec()),
        (vec![strides(), shape(5), upper()], all[..5].to_vec()),
        // Seven elements with the one of `output_padding`, of which one is cut at either end.
        (vec![strides(), shape(5), more()], all[1..].to_vec()),
        (vec![strides(), upper(), more()], all.to_vec()),
        (
            vec![strides(), text("auto_pad", "SAME_LOWER"), more()],
            vec![10.0, 2.0, 20.0, 3.0, 30.0, 0.0],
        ),
        (
            vec![strides(), text("auto_pad", "VALID"), more()],
            vec![1.0, 10.0, 2.0, 20.0, 3.0, 30.0, 0.0],
        ),
        (
            vec![strides(), shape(5), more(), integers("dilations", &[2])],
            vec![12.0, 0.0, 23.0, 0.0, 30.0],
        ),
    ] {
        let expected = floats(&[1, 1, expected.len()], &expected);
        check("ConvTranspose", 11, &inputs, &attributes, &expected);
    }
}

/// The error of a transposed convolution names what differs.
#[test]
fn channels_and_biases_of_transposed_convolutions_fit() {
    let (x, w) = (floats(&[1, 1, 2], &[1.0, 2.0]), floats(&[2, 3, 1], &[1.0; 6]));
    check_failure("ConvTranspose", 11, &[x, w.clone()], &[], "expected 2 channels, found 1");
    let inputs = [floats(&[1, 2, 1], &[1.0, 2.0]), w, floats(&[2], &[0.0; 2])];
    check_failure("ConvTranspose", 11, &inputs, &[], "expected 3 biases, found 2");
}

/// In training mode, a ratio of 0 drops nothing.
#[test]
fn a_dropout_that_drops_nothing_is_the_identity() {
    let x = floats(&[2], &[5.0, -1.0]);
    for (ratio, training) in [(0.0_f32, false), (0.0, true), (0.5, false)] {
        let inputs = [x.clone(), Value::scalar(ratio), Value::scalar(training)];
        check("Dropout", 13, &inputs, &[], &x);
    }
    let inputs = [x, Value::scalar(0.5_f32), Value::scalar(true)];
    check_failure("Dropout", 13, &inputs, &[], "training is not supported");
}

/// A vector is a row on the left and a column on the right, and its product lacks that axis.
#[test]
fn products_of_vectors_lack_the_added_axis_for_all_types() {
    for element in [Element::I64, Element::I32, Element::F64, Element::F32] {
        let value = |dims: &[usize], all: &[i64]| typed(element, dims, all);
        let x = value(&[2], &[1, 2]);
        for (y, expected) in [
            (value(&[2, 3], &[3, 4, 5, 6, 7, 8]), value(&[3], &[15, 18, 21])),
            (value(&[2], &[3, 4]), value(&[], &[11])),
            (value(&[2, 2, 1], &[1, 2, 3, 4]), value(&[2, 1], &[5, 11])),
        ] {
            assert_eq!(run("MatMul", 13, &[x.clone(), y], &[]), expected, "{element}");
        }
        // The rows (1, 2), (3, 4) and (5, 6) times the column (7, 8).
        let inputs = [value(&[3, 2], &[1, 2, 3, 4, 5, 6]), value(&[2], &[7, 8])];
        assert_eq!(run("MatMul", 13, &inputs, &[]), value(&[3], &[23, 53, 83]), "{element}");
    }
    let bytes = |dims: &[usize], all: &[u8]| Value::new(dims, all.to_vec()).expect("a valid case");
    let words = |dims: &[usize], all: &[i32]| Value::new(dims, all.to_vec()).expect("a valid case");
    for (left, right, expected) in [
        (bytes(&[2], &[1, 2]), bytes(&[2, 3], &[3, 4, 5, 6, 7, 8]), words(&[3], &[15, 18, 21])),
        (bytes(&[3, 2], &[1, 2, 3, 4, 5, 6]), bytes(&[2], &[7, 8]), words(&[3], &[23, 53, 83])),
        (bytes(&[2], &[1, 2]), bytes(&[2], &[3, 4]), words(&[], &[11])),
    ] {
        assert_eq!(run("MatMulInteger", 10, &[left, right], &[]), expected);
    }
}

/// Returns integers as a value of a type.
fn typed(element: Element, dims: &[usize], all: &[i64]) -> Value {
    let floats = || all.iter().map(|x| *x as f64);
    match element {
        Element::I64 => Value::new(dims, all.to_vec()),
        Element::I32 => Value::new(dims, all.iter().map(|x| *x as i32).collect()),
        Element::F64 => Value::new(dims, floats().collect()),
        _ => Value::new(dims, floats().map(|x| x as f32).collect()),
    }
    .expect("a valid case")
}

#[test]
fn attributes_that_a_version_requires_or_lacks_are_errors_of_the_model() {
    let reason = |net: &dyno_onnx::Model| Graph::new(net).expect_err("an invalid case").to_string();
    let error = reason(&model("Concat", 13, 2, &[]));
    assert!(error.contains("'node' (Concat") && error.contains("'axis'"), "{error}");
    for (op, version, attributes) in [
        ("TopK", 11, integer("axis", 0)),
        ("TopK", 9, integer("axis", 0)),
        ("Conv", 11, integer("ceil_mode", 1)),
    ] {
        let inputs = if op == "Conv" { 2 } else { 1 };
        let error = reason(&model(op, version, inputs, &[attributes]));
        assert!(error.contains(&format!("'node' ({op}")), "{error}");
    }
    // The mask is not defined before version 10. Many files name it, but do not use it.
    let mut dropout = model("Dropout", 7, 1, &[]);
    dropout.nodes[0].outputs.push("mask".into());
    let x = floats(&[1], &[5.0]);
    let found = session(&dropout).run(std::slice::from_ref(&x)).expect("a valid case");
    assert_eq!(found, [x]);
    dropout.outputs.push(Port { name: "mask".into(), element: None, shape: None });
    let error = reason(&dropout);
    assert!(error.contains("'mask'") && error.contains("no node computes"), "{error}");
}

/// Between 1 and the next float16 is 1/1024.
#[test]
fn types_of_16_bits_round() {
    let port = |name: &str, element: Element| Port {
        name: name.into(),
        element: Some(element),
        shape: Some(vec![1.into()]),
    };
    let (x, rounded) = (floats(&[1], &[1.0001]), floats(&[1], &[1.0]));
    let mut like = model("CastLike", 15, 2, &[]);
    like.inputs = vec![port("x0", Element::F32), port("x1", Element::F16)];
    let found = session(&like).run(&[x.clone(), rounded.clone()]).expect("a valid case");
    assert_eq!(found, std::slice::from_ref(&rounded));
    let mut identity = model("Identity", 13, 1, &[]);
    identity.inputs = vec![port("x0", Element::F16)];
    let found = session(&identity).run(std::slice::from_ref(&x)).expect("a valid case");
    assert_eq!(found, [rounded]);
    assert_eq!(run("Identity", 13, std::slice::from_ref(&x), &[]), x);
}

/// Numbers next to the middle of two numbers of 16 bits, which `f32` rounds to the middle. Neighbors
/// of 1 are 2^-10 apart in float16, and 2^-7 in bfloat16.
#[test]
fn casts_to_16_bits_round_once() {
    const F16: i64 = 10;
    const BF16: i64 = 16;
    let power = |exponent: i32| 2_f64.powi(exponent);
    let real = |x: f64| Value::new(vec![1], vec![x]).expect("a valid case");
    let word = |x: i32| Value::new(vec![1], vec![x]).expect("a valid case");
    for (x, to, expected) in [
        (real(1.0 + power(-11) + power(-40)), F16, 1.0 + power(-10)),
        (real(1.0 + power(-11)), F16, 1.0),
        (real(1.0 + 3.0 * power(-11) - power(-40)), F16, 1.0 + power(-10)),
        (real(1.0 + 3.0 * power(-11)), F16, 1.0 + power(-9)),
        (real(-1.0 - power(-8) - power(-50)), BF16, -1.0 - power(-7)),
        (real(-1.0 - power(-8)), BF16, -1.0),
        // Numbers below the least one of float16, and around half of it.
        (real(power(-25) + power(-70)), F16, power(-24)),
        (real(power(-25)), F16, 0.0),
        (real(1e-300), F16, 0.0),
        // Numbers from 65520 on are infinite in float16.
        (real(65_520.0 - power(-30)), F16, 65_504.0),
        (real(65_520.0), F16, f64::INFINITY),
        (real(-1e300), BF16, f64::NEG_INFINITY),
        (real(f64::INFINITY), F16, f64::INFINITY),
        // 2^30 + 2^22 is the middle of two numbers of bfloat16.
        (word((1 << 30) + (1 << 22) + 1), BF16, power(30) + power(23)),
        (word((1 << 30) + (1 << 22)), BF16, power(30)),
        (ints(&[(1 << 62) + (1 << 54) + 1]), BF16, power(62) + power(55)),
        (ints(&[-(1 << 62) - (1 << 54) - 1]), BF16, -power(62) - power(55)),
        (ints(&[(1 << 62) + (3 << 54) - 1]), BF16, power(62) + power(55)),
        (ints(&[(1 << 62) + (1 << 54)]), BF16, power(62)),
        (ints(&[2_049]), F16, 2_048.0),
        (ints(&[65_519]), F16, 65_504.0),
    ] {
        let found = run("Cast", 13, std::slice::from_ref(&x), &[integer("to", to)]);
        assert_eq!(found, floats(&[1], &[expected as f32]), "{x:?}");
    }
    let cast = model("Cast", 13, 1, &[integer("to", F16)]);
    let nan = session(&cast).run(&[real(f64::NAN)]).expect("a valid case").remove(0);
    assert!(nan.as_slice::<f32>().expect("numbers")[0].is_nan());
}

/// Ranks, equations and batch dimensions are checked when a model is loaded.
#[test]
fn inputs_of_other_ranks_are_errors_of_the_model() {
    let load = |op: &str, attributes: &[(&str, Attribute)], ranks: [usize; 2]| {
        let mut net = model(op, 13, 2, attributes);
        for (port, rank) in net.inputs.iter_mut().zip(ranks) {
            port.element = Some(Element::F32);
            port.shape = Some(vec![2.into(); rank]);
        }
        Graph::new(&net).map_err(|error| error.to_string())
    };
    let equation = text("equation", "ij,jk->ik");
    for (op, attribute, ranks, is_valid) in [
        ("Einsum", equation.clone(), [2, 2], true),
        ("Einsum", equation.clone(), [2, 3], false),
        ("Einsum", equation, [1, 2], false),
        ("GatherND", integer("batch_dims", 1), [3, 2], true),
        ("GatherND", integer("batch_dims", 2), [3, 2], false),
        ("GatherND", integer("batch_dims", 2), [2, 3], false),
        ("GatherND", integer("batch_dims", -1), [3, 2], false),
        ("GatherElements", integer("axis", 0), [2, 2], true),
        ("GatherElements", integer("axis", 0), [2, 1], false),
        ("Gemm", integer("transB", 1), [2, 2], true),
        ("Gemm", integer("transB", 1), [2, 3], false),
    ] {
        match load(op, &[attribute], ranks) {
            Ok(_) => assert!(is_valid, "{op} {ranks:?}"),
            Err(error) => {
                let names_the_node = error.contains(&format!("node 'node' ({op}"));
                assert!(!is_valid && names_the_node, "{op} {ranks:?}: {error}");
            }
        }
    }
}

/// Factors of two types would be those of another network.
#[test]
fn factors_have_one_type() {
    let x = floats(&[1, 2], &[1.0, 2.0]);
    let y = Value::new(vec![2, 1], vec![1.0_f64, 2.0]).expect("a valid case");
    check_failure("MatMul", 13, &[x, y], &[], "cannot multiply");
}

/// Strides, dilations, and padding on one side only.
#[test]
fn windows_of_pools_skip_padding() {
    let line = floats(&[1, 1, 4], &[1.0, 5.0, 2.0, 4.0]);
    let attributes =
        [integers("kernel_shape", &[3]), integers("strides", &[2]), integers("pads", &[1, 1])];
    let line = std::slice::from_ref(&line);
    check("MaxPool", 12, line, &attributes, &floats(&[1, 1, 2], &[5.0, 5.0]));
    check("AveragePool", 11, line, &attributes, &floats(&[1, 1, 2], &[3.0, 11.0 / 3.0]));
    let plane = floats(&[1, 1, 2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let plane = std::slice::from_ref(&plane);
    let mut attributes = vec![
        integers("kernel_shape", &[2, 3]),
        integers("strides", &[1, 2]),
        integers("pads", &[0, 1, 1, 1]),
    ];
    check("MaxPool", 12, plane, &attributes, &floats(&[1, 1, 2, 2], &[5.0, 6.0, 5.0, 6.0]));
    check("AveragePool", 11, plane, &attributes, &floats(&[1, 1, 2, 2], &[3.0, 4.0, 4.5, 5.5]));
    attributes.push(integer("count_include_pad", 1));
    let counted = floats(&[1, 1, 2, 2], &[2.0, 16.0 / 6.0, 1.5, 11.0 / 6.0]);
    check("AveragePool", 11, plane, &attributes, &counted);
    let square: Vec<f32> = (1..10).map(|x| x as f32).collect();
    let attributes = [integers("kernel_shape", &[2, 2]), integers("dilations", &[2, 2])];
    let square = floats(&[1, 1, 3, 3], &square);
    check("MaxPool", 12, &[square], &attributes, &floats(&[1, 1, 1, 1], &[9.0]));
    // The last window extends beyond the axis, and beyond its padding.
    let five = floats(&[1, 1, 5], &[1.0, 2.0, 3.0, 4.0, 5.0]);
    let attributes = [
        integers("kernel_shape", &[2]),
        integers("strides", &[2]),
        integer("ceil_mode", 1),
        integer("count_include_pad", 1),
    ];
    check("AveragePool", 19, &[five], &attributes, &floats(&[1, 1, 3], &[1.5, 3.5, 5.0]));
}

/// More rows than are multiplied at a time, for more outputs than a panel has.
#[test]
fn products_of_many_rows_and_outputs_are_exact() {
    let (rows, k, outputs) = (101, 3, 1_001);
    let x = |row: usize, at: usize| row as f32 + at as f32;
    let w = |at: usize, output: usize| output as f32 - 2.0 * at as f32;
    let all = |count: usize, width: usize, f: &dyn Fn(usize, usize) -> f32| -> Vec<f32> {
        (0..count * width).map(|at| f(at / width, at % width)).collect()
    };
    let inputs =
        [floats(&[rows, k], &all(rows, k, &x)), floats(&[k, outputs], &all(k, outputs, &w))];
    // Sums of integers below 2 to the power of 24 are exact.
    let sum = |row: usize, output: usize| (0..k).map(|at| x(row, at) * w(at, output)).sum::<f32>();
    let expected = floats(&[rows, outputs], &all(rows, outputs, &sum));
    assert_eq!(run("MatMul", 13, &inputs, &[]), expected);
}

/// Columns have a number for each channel and place of a window, the places of a channel one after the
/// other.
#[test]
fn columns_are_added_where_windows_overlap() {
    let columns = floats(&[1, 2, 4], &[1.0, 2.0, 3.0, 4.0, 10.0, 20.0, 30.0, 40.0]);
    let inputs = [columns, ints(&[2, 3]), ints(&[1, 2])];
    let expected = floats(&[1, 1, 2, 3], &[1.0, 12.0, 20.0, 3.0, 34.0, 40.0]);
    check_standard("Col2Im", 18, &inputs, &[], &expected);
    // Two channels. The first element of the first window is padding.
    let columns = floats(&[1, 4, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    let inputs = [columns, ints(&[3]), ints(&[2])];
    let attributes = [integers("strides", &[2]), integers("pads", &[1, 0])];
    let expected = floats(&[1, 2, 3], &[3.0, 2.0, 4.0, 7.0, 6.0, 8.0]);
    check_standard("Col2Im", 18, &inputs, &attributes, &expected);
    // Two images.
    let inputs = [floats(&[2, 2, 1], &[5.0, 6.0, 7.0, 8.0]), ints(&[3]), ints(&[2])];
    let expected = floats(&[2, 1, 3], &[5.0, 0.0, 6.0, 7.0, 0.0, 8.0]);
    check_standard("Col2Im", 18, &inputs, &[integers("dilations", &[2])], &expected);
    // Without dilations, there are two windows.
    check_failure("Col2Im", 18, &inputs, &[], "columns of [2, 2, 1] do not fit windows of [2]");
}
