//! Casts to integers, and products of codes.

use dyno_graph::Value;
use dyno_onnx::Attribute;

use super::fused::check_standard;
use super::{floats, ints, model, run, session};

fn bytes(dims: &[usize], all: &[u8]) -> Value {
    Value::new(dims, all.to_vec()).expect("a valid case")
}

fn signed(dims: &[usize], all: &[i8]) -> Value {
    Value::new(dims, all.to_vec()).expect("a valid case")
}

fn words(dims: &[usize], all: &[i32]) -> Value {
    Value::new(dims, all.to_vec()).expect("a valid case")
}

fn reason(op: &str, version: i64, inputs: &[Value], attributes: &[(&str, Attribute)]) -> String {
    let mut session = session(&model(op, version, inputs.len(), attributes));
    session.run(inputs).expect_err("an invalid case").to_string()
}

const U8: i64 = 2;
const I8: i64 = 3;
const I32: i64 = 6;
const I64: i64 = 7;

/// ONNX: a float out of the range of an integer type has no defined value.
#[test]
fn floats_out_of_range_have_no_integer() {
    let to = |code: i64| [("to", Attribute::Int(code))];
    for (x, code) in [
        (256.0, U8),
        (-1.0, U8),
        (128.0, I8),
        (-129.0, I8),
        (3e9, I32),
        (-3e9, I32),
        (1e19, I64),
        (-1e19, I64),
        // 2 to the power of 63.
        (9_223_372_036_854_775_808.0, I64),
        (f64::INFINITY, I64),
        (f64::NEG_INFINITY, I32),
    ] {
        for x in [Value::scalar(x), Value::scalar(x as f32)] {
            let error = reason("Cast", 13, std::slice::from_ref(&x), &to(code));
            let words = ["'node' (Cast)", "out of the range"];
            assert!(words.iter().all(|words| error.contains(words)), "{x:?}: {error}");
        }
    }
    let power = reason("Pow", 15, &[words(&[1], &[2]), floats(&[1], &[40.0])], &[]);
    assert!(power.contains("'node' (Pow)"), "{power}");
}

/// Fractions are truncated, so numbers up to the next integer are in range.
#[test]
fn the_ends_of_a_range_have_integers() {
    let cast =
        |x: f64, code: i64| run("Cast", 13, &[Value::scalar(x)], &[("to", Attribute::Int(code))]);
    assert_eq!(cast(255.9, U8), Value::scalar(255_u8));
    assert_eq!(cast(-0.9, U8), Value::scalar(0_u8));
    assert_eq!(cast(127.9, I8), Value::scalar(127_i8));
    assert_eq!(cast(-128.9, I8), Value::scalar(-128_i8));
    assert_eq!(cast(2_147_483_647.5, I32), Value::scalar(i32::MAX));
    assert_eq!(cast(-2_147_483_648.5, I32), Value::scalar(i32::MIN));
    assert_eq!(cast(-9_223_372_036_854_775_808.0, I64), Value::scalar(i64::MIN));
    // Integers keep their lower bits: 300 = 256 + 44.
    let wrapped = run("Cast", 13, &[ints(&[300, -1])], &[("to", Attribute::Int(U8))]);
    assert_eq!(wrapped, bytes(&[2], &[44, 255]));
}

/// An index out of range has no hot element, however large it is.
#[test]
fn a_huge_index_is_not_hot() {
    let inputs = [floats(&[2], &[1e30, -1.0]), Value::scalar(2_i64), ints(&[0, 1])];
    let expected = Value::new(vec![2, 2], vec![0_i64, 0, 0, 1]).expect("a valid case");
    assert_eq!(run("OneHot", 11, &inputs, &[]), expected);
}

/// Inputs of a `QLinearConv` of two filters of two numbers, each with its own scale and zero point.
/// The numbers are 2, 0, -1 times 0.5; the filters 1, 2 times 0.5, and 2, -4 times 0.25.
pub(super) fn convolution(step: f32) -> Vec<Value> {
    vec![
        bytes(&[1, 1, 1, 3], &[130, 128, 127]),
        Value::scalar(0.5_f32),
        Value::scalar(128_u8),
        signed(&[2, 1, 1, 2], &[1, 2, 3, -3]),
        floats(&[2], &[0.5, 0.25]),
        signed(&[2], &[0, 1]),
        Value::scalar(step),
        Value::scalar(11_u8),
        words(&[2], &[1, -2]),
    ]
}

#[test]
fn codes_of_a_convolution_are_rounded_to_even_before_the_zero_point() {
    // Sums with the bias: 3 and -1, times 0.5 * 0.5 / 0.5; 2 and 2, times 0.5 * 0.25 / 0.5.
    // In steps: 1.5, -0.5, 0.5, 0.5.
    let expected = bytes(&[1, 2, 1, 2], &[13, 11, 11, 11]);
    assert_eq!(run("QLinearConv", 10, &convolution(0.5), &[]), expected);
    // The padding is the zero point of the input, so it adds 0: 5 * 0.5 = 2.5, -10 * 0.25 = -2.5.
    let pads = [("pads", Attribute::Ints(vec![0, 1, 0, 0]))];
    let expected = bytes(&[1, 2, 1, 3], &[13, 13, 11, 9, 11, 11]);
    assert_eq!(run("QLinearConv", 10, &convolution(0.5), &pads), expected);
}

#[test]
fn codes_of_a_convolution_saturate() {
    // Steps of 1/1024: 768, -256, 256, 256.
    let expected = bytes(&[1, 2, 1, 2], &[255, 0, 255, 255]);
    assert_eq!(run("QLinearConv", 10, &convolution(1.0 / 1024.0), &[]), expected);
}

#[test]
fn codes_of_a_matrix_product_have_scales_of_rows_and_columns() {
    let inputs = [
        // Less the zero points of rows: 3, 0 and 0, 2.
        bytes(&[2, 2], &[4, 1, 0, 2]),
        floats(&[2], &[0.5, 1.0]),
        bytes(&[2], &[1, 0]),
        // Less the zero points of columns: 1, 0 and 3, 2.
        signed(&[2, 2], &[1, 2, 3, 4]),
        floats(&[2], &[1.0, 0.5]),
        signed(&[2], &[0, 2]),
        Value::scalar(1.0_f32),
        Value::scalar(-3_i8),
    ];
    // Sums: 3, 0 and 6, 4; numbers: 1.5, 0 and 6, 2.
    let expected = signed(&[2, 2], &[-1, -3, 3, -1]);
    assert_eq!(run("QLinearMatMul", 10, &inputs, &[]), expected);
}

/// The product of a vector has no rows, and a vector on the right has no columns.
#[test]
fn a_vector_has_one_scale() {
    let scalar = Value::scalar(1.0_f32);
    let inputs = |a: Value, a_scale: &Value, b: Value, b_scale: &Value| {
        let zeros = [Value::scalar(0_u8), Value::scalar(0_i8), Value::scalar(0_i8)];
        let [a_zero, b_zero, y_zero] = zeros;
        let (a_scale, b_scale) = (a_scale.clone(), b_scale.clone());
        [a, a_scale, a_zero, b, b_scale, b_zero, scalar.clone(), y_zero]
    };
    let two = floats(&[2], &[1.0, 2.0]);
    let (matrix, column) = (bytes(&[2, 2], &[1, 2, 3, 4]), signed(&[2], &[1, 1]));
    // Sums of rows.
    let valid = inputs(matrix.clone(), &scalar, column.clone(), &scalar);
    assert_eq!(run("QLinearMatMul", 10, &valid, &[]), signed(&[2], &[3, 7]));
    let batches = signed(&[2, 2, 2], &[1; 8]);
    for inputs in [
        inputs(matrix.clone(), &scalar, column.clone(), &two),
        inputs(matrix, &two, column, &scalar),
        inputs(bytes(&[2], &[1, 1]), &two, batches, &scalar),
    ] {
        let error = reason("QLinearMatMul", 10, &inputs, &[]);
        assert!(error.contains("expected one number in input"), "{error}");
    }
}

#[test]
fn parameters_of_codes_fit_their_axis() {
    let mut scales = convolution(0.5);
    scales[4] = floats(&[3], &[0.5, 0.25, 1.0]);
    let mut bias = convolution(0.5);
    bias[8] = words(&[1], &[1]);
    let mut step = convolution(0.5);
    step[6] = floats(&[2], &[0.5, 0.5]);
    let mut zero = convolution(0.5);
    zero[2] = signed(&[], &[0]);
    for inputs in [scales, bias, step, zero] {
        let error = reason("QLinearConv", 10, &inputs, &[]);
        assert!(error.contains("'node' (QLinearConv)"), "{error}");
    }
    // Scales of channels exist since version 13.
    let inputs = [floats(&[1, 2], &[1.0, 2.0]), floats(&[2], &[1.0, 2.0])];
    let expected = bytes(&[1, 2], &[1, 1]);
    assert_eq!(run("QuantizeLinear", 13, &inputs, &[]), expected);
    let error = reason("QuantizeLinear", 10, &inputs, &[]);
    assert!(error.contains("'node' (QuantizeLinear)"), "{error}");
    // Three scales for an axis of one element would repeat it.
    let inputs = [floats(&[2, 1], &[1.0, 2.0]), floats(&[3], &[1.0, 2.0, 4.0])];
    let error = reason("QuantizeLinear", 13, &inputs, &[]);
    assert!(error.contains("'node' (QuantizeLinear)"), "{error}");
}

/// Codes that repeat no short pattern.
fn codes(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at * 89 + at / 7 * 31) as u8).collect()
}

/// Sizes of a convolution of one image of `planes` x `side` x `side`. One plane has no padding.
#[derive(Clone, Copy, Debug)]
struct Case {
    channels: usize,
    filters: usize,
    groups: usize,
    planes: usize,
    side: usize,
    kernel: [usize; 3],
    stride: usize,
    dilation: usize,
    pad: usize,
}

impl Case {
    const CASE: Self = Self {
        channels: 3,
        filters: 5,
        groups: 1,
        planes: 1,
        side: 5,
        kernel: [1, 3, 3],
        stride: 1,
        dilation: 1,
        pad: 1,
    };

    /// Returns the padding before and after an axis.
    fn pad(self, axis: usize) -> usize {
        if axis == 0 && self.planes == 1 { 0 } else { self.pad }
    }

    /// Returns the number of windows along each axis.
    fn windows(self) -> Vec<usize> {
        let sizes = [self.planes, self.side, self.side];
        let windows = |axis: usize| {
            let reach = (self.kernel[axis] - 1) * self.dilation + 1;
            (sizes[axis] + 2 * self.pad(axis) - reach) / self.stride + 1
        };
        (0..3).map(windows).collect()
    }

    /// Returns the windows along each axis, and the sums by the definition. `x` and `w` return numbers
    /// less their zero points.
    fn sums(self, x: impl Fn(usize) -> i64, w: impl Fn(usize) -> i64) -> (Vec<usize>, Vec<i32>) {
        let (sizes, out) = ([self.planes, self.side, self.side], self.windows());
        let (channels, filters) = (self.channels / self.groups, self.filters / self.groups);
        let places = self.kernel.iter().product::<usize>();
        let mut sums = Vec::new();
        for filter in 0..self.filters {
            for window in 0..out.iter().product::<usize>() {
                let window =
                    [window / (out[1] * out[2]), window / out[2] % out[1], window % out[2]];
                let mut sum = 0;
                for place in 0..channels * places {
                    let [_, j, l] = self.kernel;
                    let at = [place / (j * l) % self.kernel[0], place / l % j, place % l];
                    let at: Vec<Option<usize>> = (0..3)
                        .map(|axis| {
                            let at = window[axis] * self.stride + at[axis] * self.dilation;
                            at.checked_sub(self.pad(axis)).filter(|at| *at < sizes[axis])
                        })
                        .collect();
                    let [Some(z), Some(y), Some(column)] = at[..] else { continue };
                    let channel = filter / filters * channels + place / places;
                    let pixel = ((channel * sizes[0] + z) * sizes[1] + y) * sizes[2] + column;
                    sum += x(pixel) * w(filter * channels * places + place);
                }
                sums.push(i32::try_from(sum).expect("few products"));
            }
        }
        (out, sums)
    }

    fn attributes(self, axes: usize) -> Vec<(&'static str, Attribute)> {
        let all = |n: usize, count: usize| Attribute::Ints(vec![n as i64; count]);
        vec![
            ("group", Attribute::Int(self.groups as i64)),
            ("strides", all(self.stride, axes)),
            ("dilations", all(self.dilation, axes)),
            ("pads", all(self.pad, 2 * axes)),
        ]
    }
}

/// Channels that do not fill words, all forms of windows, and groups with few and many filters.
#[test]
fn convolutions_of_codes_are_exact_in_all_forms() {
    let case = Case::CASE;
    let deep = Case { planes: 4, kernel: [2, 3, 2], ..case };
    for case in [
        case,
        Case { channels: 1, ..case },
        Case { channels: 8, filters: 17, side: 21, ..case },
        Case { kernel: [1, 1, 1], pad: 0, side: 9, ..case },
        Case { stride: 2, ..case },
        Case { dilation: 2, side: 7, ..case },
        deep,
        Case { channels: 4, stride: 2, ..deep },
        Case { channels: 6, filters: 6, groups: 6, ..case },
        Case { channels: 6, filters: 6, groups: 6, stride: 2, pad: 2, ..case },
        Case { channels: 6, filters: 16, groups: 2, ..case },
    ] {
        let axes = if case.planes == 1 { 2 } else { 3 };
        let count = case.channels * case.planes * case.side * case.side;
        let weights =
            case.filters * case.channels / case.groups * case.kernel.iter().product::<usize>();
        let (x, w) = (codes(count), codes(weights));
        let (mut x_dims, mut w_dims) =
            (vec![1, case.channels], vec![case.filters, case.channels / case.groups]);
        x_dims.extend(&[case.planes, case.side, case.side][3 - axes..]);
        w_dims.extend(&case.kernel[3 - axes..]);
        let signed_x: Vec<i8> = x.iter().map(|x| x.cast_signed()).collect();
        let signed_w: Vec<i8> = w.iter().map(|w| w.cast_signed()).collect();
        // Weights of 8 bits, and weights of 9 bits less their zero point.
        for zero in [0_i8, 77] {
            let w = |at: usize| i64::from(signed_w[at]) - i64::from(zero);
            for (codes, x_zero, expected) in [
                (
                    bytes(&x_dims, &x),
                    Value::scalar(131_u8),
                    case.sums(|at| i64::from(x[at]) - 131, w),
                ),
                (
                    signed(&x_dims, &signed_x),
                    Value::scalar(-7_i8),
                    case.sums(|at| i64::from(signed_x[at]) + 7, w),
                ),
            ] {
                let inputs = [codes, signed(&w_dims, &signed_w), x_zero, Value::scalar(zero)];
                let found = run("ConvInteger", 10, &inputs, &case.attributes(axes));
                let mut dims = vec![1, case.filters];
                dims.extend(&expected.0[3 - axes..]);
                assert_eq!(found, words(&dims, &expected.1), "{case:?} {zero}");
            }
        }
    }
}

/// Without a zero point, codes are unsigned unless the node states another type.
#[test]
fn a_node_may_state_the_type_of_its_codes() {
    let inputs = [floats(&[3], &[-20.0, 1.5, 300.0]), Value::scalar(1.0_f32)];
    let of_type = |code: i64| [("output_dtype", Attribute::Int(code))];
    check_standard("QuantizeLinear", 21, &inputs, &of_type(0), &bytes(&[3], &[0, 2, 255]));
    check_standard("QuantizeLinear", 21, &inputs, &of_type(U8), &bytes(&[3], &[0, 2, 255]));
    check_standard("QuantizeLinear", 21, &inputs, &of_type(I8), &signed(&[3], &[-20, 2, 127]));
    let zero = [&inputs[..], &[Value::scalar(1_u8)]].concat();
    check_standard("QuantizeLinear", 21, &zero, &of_type(U8), &bytes(&[3], &[0, 3, 255]));
    let error = reason("QuantizeLinear", 21, &zero, &of_type(I8));
    assert!(error.contains("output_dtype is int8"), "{error}");
}

#[test]
fn rows_of_codes_have_zero_points_of_their_own() {
    let inputs = [
        // Less the zero points of rows: -128, 0, 127 and 0, 1, 2.
        signed(&[2, 3], &[-128, 0, 127, 1, 2, 3]),
        signed(&[3, 2], &[1, -1, 2, -2, 3, -128]),
        signed(&[2], &[0, 1]),
    ];
    // -128 + 381, 128 - 127 * 128, 2 + 6, and -2 - 256.
    let expected = words(&[2, 2], &[253, 128 - 16_256, 8, -258]);
    assert_eq!(run("MatMulInteger", 10, &inputs, &[]), expected);
    // A zero point for each number is no zero point of a row.
    let mut each = inputs;
    each[2] = signed(&[2, 3], &[0, 0, 0, 0, 0, 1]);
    let error = reason("MatMulInteger", 10, &each, &[]);
    assert!(error.contains("'node' (MatMulInteger)"), "{error}");
}

#[test]
fn bits_are_combined_and_moved() {
    // 0b1100 and 0b1010; -1 has all bits.
    let pair = [words(&[2], &[12, -1]), words(&[2], &[10, 6])];
    for (op, expected) in [("BitwiseAnd", [8, 6]), ("BitwiseOr", [14, -1]), ("BitwiseXor", [6, -7])]
    {
        check_standard(op, 18, &pair, &[], &words(&[2], &expected));
    }
    check_standard("BitwiseNot", 18, &[words(&[2], &[0, 5])], &[], &words(&[2], &[-1, -6]));
    check_standard("BitwiseNot", 18, &[bytes(&[2], &[0, 5])], &[], &bytes(&[2], &[255, 250]));
    // Bits beyond the type are lost.
    let moved = [bytes(&[3], &[16, 4, 1]), bytes(&[3], &[1, 3, 7])];
    let to = |direction: &str| [("direction", Attribute::Text(direction.into()))];
    check_standard("BitShift", 11, &moved, &to("RIGHT"), &bytes(&[3], &[8, 0, 0]));
    let moved = [bytes(&[3], &[16, 200, 1]), bytes(&[3], &[1, 1, 8])];
    check_standard("BitShift", 11, &moved, &to("LEFT"), &bytes(&[3], &[32, 144, 0]));
    let error = reason("BitwiseAnd", 18, &[floats(&[1], &[1.0]), floats(&[1], &[1.0])], &[]);
    assert!(error.contains("expected integers, found float32"), "{error}");
}
