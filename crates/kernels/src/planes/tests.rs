//! Comparison of depthwise convolutions with their definition.

use proptest::prelude::*;

use super::*;

/// Integers of magnitude up to 9, so that sums are exact in any order.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 31 + seed * 7) % 19) as f32 - 9.0).collect()
}

/// Returns an axis whose last window ends `after` numbers after the plane, or before its end.
fn axis(
    numbers: (usize, usize, usize),
    [stride, dilation, before, after]: [usize; 4],
) -> PlaneAxis {
    let (size, kernel, rest) = numbers;
    let reach = (kernel - 1) * dilation;
    let free = (size + before + after).saturating_sub(reach + 1 + rest);
    PlaneAxis { size, kernel, stride, dilation, before, windows: free / stride + 1 }
}

/// Returns the number at a place of a window, if it is in the plane.
fn index(axis: &PlaneAxis, window: usize, place: usize) -> Option<usize> {
    let at = (window * axis.stride + place * axis.dilation).checked_sub(axis.before)?;
    (at < axis.size).then_some(at)
}

fn axes(longest: usize) -> impl Strategy<Value = PlaneAxis> {
    let kernel = prop::sample::select(vec![1_usize, 2, 3, 3, 3, 4, 5, 5, 7, 7, 9]);
    let steps = (1_usize..5, 1_usize..4, 0_usize..9, 0_usize..9);
    ((0..longest, kernel, 0_usize..3), steps)
        .prop_map(|(numbers, (a, b, c, d))| axis(numbers, [a, b, c, d]))
}

/// Axes of the usual networks.
fn usual_axes() -> impl Strategy<Value = PlaneAxis> {
    let kernel = prop::sample::select(vec![3_usize, 5, 7]);
    (1_usize..60, kernel, 1_usize..3)
        .prop_map(|(size, kernel, step)| axis((size, kernel, 0), [step, 1, kernel / 2, kernel / 2]))
}

fn check(y: PlaneAxis, x: PlaneAxis, (planes, each): (usize, usize), has_bias: bool) {
    let (window, filters) = (y.kernel * x.kernel, planes * each);
    let (image, weights) = (numbers(planes * y.size * x.size, 1), numbers(filters * window, 2));
    let bias = numbers(filters, 3);
    for isa in Isa::all() {
        let mut to = vec![f32::NAN; filters * y.windows * x.windows];
        let given = has_bias.then_some(&bias[..]);
        convolve_planes(isa, [y, x], (&image, planes), (&weights, given), &mut to);
        for (at, found) in to.iter().enumerate() {
            let (row, column) = (at / x.windows, at % x.windows);
            let (filter, row) = (row / y.windows, row % y.windows);
            let product = |place: usize| {
                let i = index(&y, row, place / x.kernel)?;
                let j = index(&x, column, place % x.kernel)?;
                let number = image[((filter / each) * y.size + i) * x.size + j];
                Some(number * weights[filter * window + place])
            };
            let sum: f32 = (0..window).filter_map(product).sum();
            let expected = sum + if has_bias { bias[filter] } else { 0.0 };
            assert_eq!(*found, expected, "{at} of {y:?} {x:?} {isa}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn sums_are_those_of_any_windows(
        y in axes(20), x in axes(60), count in (1_usize..4, 1_usize..3), has_bias: bool,
    ) {
        check(y, x, count, has_bias);
    }

    #[test]
    fn sums_are_those_of_the_windows_of_usual_networks(
        y in usual_axes(), x in usual_axes(), planes in 1_usize..4, has_bias: bool,
    ) {
        check(y, x, (planes, 1), has_bias);
    }

    /// Windows as large as the plane, which lie on it or one number before.
    #[test]
    fn sums_are_those_of_large_windows(
        sizes in [1_usize..12, 1_usize..40], before in [0_usize..2, 0_usize..2],
        windows in [1_usize..3, 1_usize..3], count in (1_usize..4, 1_usize..8), has_bias: bool,
    ) {
        let [y, x] = [0, 1].map(|at| PlaneAxis {
            size: sizes[at],
            kernel: sizes[at],
            stride: 1,
            dilation: 1,
            before: before[at],
            windows: windows[at],
        });
        check(y, x, count, has_bias);
    }
}

#[test]
fn lengths_that_do_not_match_are_refused() {
    let y = axis((5, 3, 0), [1, 1, 1, 1]);
    let is_refused = |y: PlaneAxis, [image, planes, weights, bias, room]: [usize; 5]| {
        let run = || {
            let (weights, bias) = (vec![1.0; weights], vec![0.0; bias]);
            let image = vec![0.0; image];
            let axes = [y, axis((6, 3, 0), [1, 1, 1, 1])];
            let to = &mut vec![0.0; room];
            convolve_planes(Isa::best(), axes, (&image, planes), (&weights, Some(&bias)), to);
        };
        std::panic::catch_unwind(run).is_err()
    };
    assert!(!is_refused(y, [60, 2, 18, 2, 60]));
    for lengths in [
        [59, 2, 18, 2, 60],
        [60, 3, 18, 2, 60],
        [60, 0, 18, 2, 60],
        [60, 2, 19, 2, 60],
        [60, 2, 18, 1, 60],
        [60, 2, 18, 2, 61],
    ] {
        assert!(is_refused(y, lengths), "{lengths:?}");
    }
    for wrong in [
        PlaneAxis { kernel: 0, ..y },
        PlaneAxis { stride: 0, ..y },
        PlaneAxis { windows: 0, ..y },
        PlaneAxis { size: 4, ..y },
        PlaneAxis { dilation: usize::MAX, ..y },
        PlaneAxis { before: usize::MAX, ..y },
    ] {
        assert!(is_refused(wrong, [60, 2, 18, 2, 60]), "{wrong:?}");
    }
    let single = PlaneAxis { windows: 1, ..y };
    assert!(!is_refused(single, [60, 2, 18, 2, 12]));
    assert!(is_refused(PlaneAxis { stride: usize::MAX, ..single }, [60, 2, 18, 2, 12]));
}
