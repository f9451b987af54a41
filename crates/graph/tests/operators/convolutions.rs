//! Convolutions of all forms, by their definition.

use dyno_onnx::Attribute;

use super::{check, floats, model, session};

/// Windows along one axis.
#[derive(Clone, Copy, Debug)]
struct Line {
    size: usize,
    kernel: usize,
    stride: usize,
    dilation: usize,
    pads: [usize; 2],
}

impl Line {
    fn windows(self) -> usize {
        (self.size + self.pads[0] + self.pads[1] - (self.kernel - 1) * self.dilation - 1)
            / self.stride
            + 1
    }

    /// Returns the element at a place of a window, unless it is padding.
    fn at(self, window: usize, place: usize) -> Option<usize> {
        let at = (window * self.stride + place * self.dilation).checked_sub(self.pads[0])?;
        Some(at).filter(|at| *at < self.size)
    }
}

/// Small integers, whose sums are exact in any order.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 31 + seed * 7) % 7) as f32 - 3.0).collect()
}

/// Compares a convolution of two images with its definition. `filters` and `channels` are those of a
/// group.
fn check_convolution(lines: [Line; 2], [groups, channels, filters]: [usize; 3], has_bias: bool) {
    let [y, x] = lines;
    let (plane, window) = (y.size * x.size, channels * y.kernel * x.kernel);
    let (image, outputs) = (groups * channels * plane, groups * filters);
    let (values, weights) = (numbers(2 * image, 1), numbers(outputs * window, 2));
    let bias = numbers(outputs, 3);
    let mut expected = Vec::new();
    for (part, filter) in (0..2).flat_map(|part| (0..outputs).map(move |filter| (part, filter))) {
        for (down, right) in
            (0..y.windows()).flat_map(|down| (0..x.windows()).map(move |right| (down, right)))
        {
            let mut sum = if has_bias { bias[filter] } else { 0.0 };
            for at in 0..window {
                let (channel, i, j) =
                    (at / (y.kernel * x.kernel), at / x.kernel % y.kernel, at % x.kernel);
                let (Some(i), Some(j)) = (y.at(down, i), x.at(right, j)) else { continue };
                let channel = filter / filters * channels + channel;
                sum += weights[filter * window + at]
                    * values[part * image + channel * plane + i * x.size + j];
            }
            expected.push(sum);
        }
    }
    let ints = |numbers: &[usize]| Attribute::Ints(numbers.iter().map(|n| *n as i64).collect());
    let attributes = [
        ("group", Attribute::Int(groups as i64)),
        ("strides", ints(&[y.stride, x.stride])),
        ("dilations", ints(&[y.dilation, x.dilation])),
        ("pads", ints(&[y.pads[0], x.pads[0], y.pads[1], x.pads[1]])),
    ];
    let mut inputs = vec![
        floats(&[2, groups * channels, y.size, x.size], &values),
        floats(&[outputs, channels, y.kernel, x.kernel], &weights),
    ];
    if has_bias {
        inputs.push(floats(&[outputs], &bias));
    }
    let expected = floats(&[2, outputs, y.windows(), x.windows()], &expected);
    check("Conv", 11, &inputs, &attributes, &expected);
}

#[test]
fn convolutions_are_those_of_the_definition() {
    let line = |size, kernel, stride, dilation, pads| Line { size, kernel, stride, dilation, pads };
    let lines = [
        line(1, 1, 1, 1, [0, 0]),
        line(7, 3, 1, 1, [1, 1]),
        line(14, 3, 2, 1, [1, 1]),
        line(19, 3, 1, 2, [2, 1]),
        line(23, 2, 3, 4, [0, 5]),
        line(40, 1, 2, 1, [0, 0]),
        line(33, 5, 1, 1, [0, 0]),
        line(20, 18, 1, 1, [0, 0]),
    ];
    // With one group, depthwise, in groups, and with windows of more than a thousand numbers.
    let groups = [[1, 3, 7], [5, 1, 1], [3, 1, 2], [2, 4, 9], [1, 130, 3], [2, 130, 9]];
    for (at, y) in lines.into_iter().enumerate() {
        for (with, x) in lines.into_iter().enumerate() {
            for (of, groups) in groups.into_iter().enumerate() {
                // Large ones only once.
                if of < 4 || at == with {
                    check_convolution([y, x], groups, (at + with + of).is_multiple_of(2));
                }
            }
        }
    }
    // Windows with more rows than the depthwise kernel takes.
    let high = [line(80, 66, 1, 1, [0, 0]), line(9, 3, 1, 1, [1, 1])];
    check_convolution(high, [5, 1, 1], true);
    check_convolution([high[0], line(9, 1, 1, 1, [0, 0])], [5, 1, 1], true);
    // Windows as large as the image, with any strides.
    for (stride, pads) in [(1, [0, 0]), (i64::MAX as usize, [0, 0]), (i64::MAX as usize, [1, 1])] {
        let whole = [line(9, 9, stride, 1, pads), line(30, 30, stride, 1, [0, 0])];
        check_convolution(whole, [5, 1, 2], true);
    }
    // Planes of a size that caches map to the same lines.
    check_convolution([line(32, 1, 1, 1, [0, 0]); 2], [1, 3, 2], true);
}

#[test]
fn a_bias_of_another_length_is_an_error() {
    for channels in [1, 2_000] {
        let inputs = [
            floats(&[1, channels, 1], &vec![1.0; channels]),
            floats(&[2, channels, 1], &vec![1.0; 2 * channels]),
            floats(&[3], &[0.0; 3]),
        ];
        let error = session(&model("Conv", 11, 3, &[])).run(&inputs).expect_err("an invalid case");
        assert!(error.to_string().contains("expected 2 biases"), "{error}");
    }
}
