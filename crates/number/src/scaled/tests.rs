//! Compares scales with their definitions.

use proptest::prelude::*;

use super::*;

const NEAREST: Rounding = Rounding::NearestEven;

fn numbers() -> impl Strategy<Value = Vec<f32>> {
    let some = prop_oneof![
        -4.0_f32..4.0,
        any::<u32>().prop_map(f32::from_bits).prop_filter("a number", |x| x.is_finite()),
        Just(0.0),
    ];
    prop::collection::vec(some, 0..100)
}

/// Returns the distance of `x` from the nearest value of the format times a scale. Values beyond
/// `f32`, such as -2 times 2^127 of MXINT8, count as its largest number.
fn nearest(element: Format, scale: f64, x: f32) -> f64 {
    let codes = 0..1_u32 << element.bits();
    let values = codes.map(|code| element.decode(code)).filter(|x| x.is_finite());
    let most = f64::from(f32::MAX) / scale;
    let values = values.map(|value| value.clamp(-most, most));
    let far = |value: f64| (value - f64::from(x) / scale).abs();
    let best = values.min_by(|a, b| far(*a).total_cmp(&far(*b))).expect("there are values");
    far(best)
}

proptest! {
    #[test]
    fn elements_of_mx_are_the_nearest_of_their_block(xs in numbers(), which in 0..6_usize) {
        let element = [
            Format::FP8_E4M3FN, Format::FP8_E5M2, Format::FP6_E3M2, Format::FP6_E2M3, Format::FP4_E2M1,
            Format::MXINT8,
        ][which];
        let mx = BlockFormat::mx(element);
        let blocks = mx.encode(&xs, NEAREST).unwrap();
        let mut quantised = xs.clone();
        mx.quantise_slice(&mut quantised, NEAREST).unwrap();
        prop_assert_eq!(&mx.decode(&blocks), &quantised);
        prop_assert_eq!(blocks.scales.len(), xs.len().div_ceil(32));
        for (at, (x, y)) in xs.iter().zip(&quantised).enumerate() {
            let block = &xs[at / 32 * 32..xs.len().min(at / 32 * 32 + 32)];
            let most = block.iter().fold(0.0, |most: f64, x| most.max(f64::from(x.abs())));
            let exponent = (most.log2().floor() - element.max_value().log2().floor()).clamp(-127.0, 127.0);
            let scale = exponent.exp2();
            prop_assert_eq!(Format::E8M0.decode(blocks.scales[at / 32]), scale);
            let found = (f64::from(*y) / scale - f64::from(*x) / scale).abs();
            prop_assert_eq!(found, nearest(element, scale, *x), "{} {} {}", x, y, element);
        }
    }

    #[test]
    fn elements_with_scales_of_f32_reach_their_largest(xs in prop::collection::vec(-9.0_f32..9.0, 1..50)) {
        let shared = BlockFormat::new(Format::INT8, usize::MAX, Scale::Float);
        let mut quantised = xs.clone();
        shared.quantise_slice(&mut quantised, NEAREST).unwrap();
        let most = max_abs(&xs);
        for (x, y) in xs.iter().zip(&quantised) {
            prop_assert!((x - y).abs() <= most / 127.0 * 0.500_01, "{} {}", x, y);
        }
        prop_assert!((max_abs(&quantised) - most).abs() <= most * 1e-6);
        prop_assert_eq!(&shared.decode(&shared.encode(&xs, NEAREST).unwrap()), &quantised);
    }

    #[test]
    fn affine_codes_are_those_of_their_definition(
        x in -1000.0_f32..1000.0, scale in 0.01_f32..10.0, zero_point in -8_i32..8,
    ) {
        let affine = Affine::new(Format::INT4, scale, zero_point).unwrap();
        let whole = ((x / scale).round_ties_even() as i32 + zero_point).clamp(-8, 7);
        prop_assert_eq!(affine.encode(x), Ok(whole.cast_unsigned() & 0xf));
        prop_assert_eq!(affine.decode(affine.encode(x).unwrap()), (whole - zero_point) as f32 * scale);
    }
}

#[test]
fn what_f32_cannot_hold_is_its_largest_number() {
    // Halfway between the codes 1.984375 and 2 of the scale 2^127.
    let mut xs = [-1.992_187_5 * 127.0_f32.exp2()];
    BlockFormat::mx(Format::MXINT8).quantise_slice(&mut xs, NEAREST).unwrap();
    assert_eq!(xs, [-f32::MAX]);
}

#[test]
fn nvfp4_has_scales_of_fp8() {
    let shared = BlockFormat::nvfp4();
    let mut xs = [0.0; 48];
    xs[0] = 2688.0;
    xs[1] = 450.0;
    xs[17] = 3.0;
    xs[18] = -1.0;
    let blocks = shared.encode(&xs, NEAREST).unwrap();
    // 2,688 is 448 times 6: the first scale is 448, the second 0.5, the third that of zeros.
    assert_eq!(blocks.tensor_scale, 1.0);
    let scales: Vec<f64> =
        blocks.scales.iter().map(|code| Format::FP8_E4M3FN.decode(*code)).collect();
    assert_eq!(scales, [448.0, 0.5, 0.0]);
    let decoded = shared.decode(&blocks);
    assert_eq!((decoded[0], decoded[1]), (2688.0, 448.0));
    assert_eq!((decoded[17], decoded[18]), (3.0, -1.0));
    assert!(decoded[32..].iter().all(|x| *x == 0.0));
    assert_eq!(shared.bits_of(1 << 20), (1 << 20) * 4 + (1 << 16) * 8 + 32);
    shared.quantise_slice(&mut xs, NEAREST).unwrap();
    assert_eq!(decoded, xs);
}

#[test]
fn block_floating_point_keeps_the_largest_exponent() {
    let shared = BlockFormat::block_floating_point(4, 2).unwrap();
    let mut xs = [5.0, 0.6, -0.07, 0.011];
    shared.quantise_slice(&mut xs, NEAREST).unwrap();
    // Steps are a quarter of the largest magnitude's power of two: 1 for 4, and 1/64 for 1/16.
    assert_eq!(xs, [5.0, 1.0, -0.0625, 0.015_625]);
}

#[test]
fn zeros_infinities_and_nan_have_their_place() {
    let all = [
        BlockFormat::mx(Format::FP4_E2M1),
        BlockFormat::nvfp4(),
        BlockFormat::new(Format::INT8, 3, Scale::Float),
    ];
    for shared in all {
        let mut zeros = [0.0; 40];
        shared.quantise_slice(&mut zeros, NEAREST).unwrap();
        assert_eq!(zeros, [0.0; 40], "{shared:?}");
        let mut infinite = [f32::INFINITY, 1.0, f32::NEG_INFINITY];
        shared.quantise_slice(&mut infinite, NEAREST).unwrap();
        assert!(infinite[0].is_finite() && infinite[0] > 1e38, "{infinite:?}");
        assert_eq!(infinite[2], -infinite[0], "{shared:?}");
        let mut nan = [1.0; 40];
        nan[37] = f32::NAN;
        let error = shared.quantise_slice(&mut nan, NEAREST).unwrap_err();
        assert_eq!((error.index, error.format), (37, shared.element()));
        assert_eq!(shared.encode(&nan, NEAREST).unwrap_err().index, 37);
    }
}

#[test]
fn affine_formats_that_there_are_not_are_refused() {
    let new = |format, scale, zero_point| Affine::new(format, scale, zero_point).unwrap_err();
    assert_eq!(new(Format::F16, 1.0, 0), ScaleError::Format(Format::F16));
    assert_eq!(new(Format::MXINT8, 1.0, 0), ScaleError::Format(Format::MXINT8));
    assert_eq!(new(Format::INT8, 0.0, 0), ScaleError::Scale(0.0));
    let text = new(Format::UINT4, 1.0, -1).to_string();
    assert_eq!(text, "expected a zero point from 0 to 15, found -1");
    assert_eq!(Affine::symmetric(Format::INT8, 0.0).unwrap().scale(), 1.0);
    let symmetric = Affine::symmetric(Format::INT8, 12.7).unwrap();
    assert_eq!((symmetric.encode(12.7), symmetric.encode(-12.7)), (Ok(127), Ok(0x81)));
    let nothing = Affine::covering(Format::UINT8, 5.0, -5.0).unwrap();
    assert_eq!((nothing.scale(), nothing.zero_point()), (1.0, 0));
    let mut xs = [1.0, f32::NAN];
    assert_eq!(symmetric.quantise_slice(&mut xs).unwrap_err().index, 1);
    assert_eq!(xs[0], 1.0_f32);
}
