//! Compares vector instructions with the codec, bit by bit.

use super::*;

/// Returns the values of all codes, the middles between neighbors, and the numbers next to these,
/// with both signs.
fn borders(format: Format) -> Vec<f32> {
    let half = format.mask() >> u32::from(format.has_sign());
    let step = (half / 512).max(1) as usize;
    let worth = |code: u32| format.decode(code) as f32;
    let codes =
        (0..=half).step_by(step).chain(half.saturating_sub(8)..=half).chain(0..=half.min(8));
    let mut numbers = vec![0.0, f32::MAX, f32::INFINITY, f32::MIN_POSITIVE, f32::from_bits(1)];
    for code in codes {
        let (low, high) = (worth(code), worth(code.saturating_add(1).min(half)));
        for x in [low, low / 2.0 + high / 2.0] {
            numbers.extend([x.next_down(), x, x.next_up()]);
        }
    }
    let random = (0..1024_u32).map(|at| f32::from_bits(at.wrapping_mul(0x9e37_79b9) ^ (at << 7)));
    numbers.extend(random);
    numbers.retain(|x| !x.is_nan());
    numbers.extend(numbers.clone().iter().map(|x| -x));
    numbers
}

fn formats() -> Vec<Format> {
    let mut formats: Vec<Format> = Format::named().map(|(_, format)| format).collect();
    for bias in [-126, -20, -3, 0, 2, 60, 100] {
        formats.extend((1..=24).filter_map(|bits| Format::fixed(bits, bias).ok()));
        formats.extend((2..=9).filter_map(|bits| Format::exp_with(bits, bias).ok()));
        formats.extend((4..=24).filter_map(|bits| Format::float(bits).ok()?.with_bias(bias).ok()));
        let unsigned = |bits: u32| Format::new(false, 3, bits - 3, bias, Special::Finite);
        formats.extend((4..=12).filter_map(|bits| unsigned(bits).ok()));
        for special in [Special::Nan, Special::Ieee, Special::NanForMinusZero, Special::SignedZero]
        {
            let made = (0..9).flat_map(|e| (0..8).map(move |f| (e, f)));
            let made = made.filter_map(|(e, f)| Format::new(true, e, f, bias, special).ok());
            formats.extend(made);
        }
    }
    formats
}

#[test]
fn vectors_are_bit_equal_to_the_codec() {
    let mut in_reach = 0;
    for format in formats() {
        let numbers = borders(format);
        for rounding in [Rounding::NearestEven, Rounding::TowardZero] {
            for overflow in [Overflow::Usual, Overflow::Saturate, Overflow::Infinite] {
                let how = Conversion { rounding, overflow };
                let Some(grid) = format.grid(how) else { continue };
                in_reach += 1;
                check(format, how, &grid, &numbers);
            }
        }
        let codes: Vec<u32> =
            (0..=format.mask().min(0xffff)).map(|code| code ^ 0xff00_0000).collect();
        for (code, found) in codes.iter().zip(format.decode_slice(&codes)) {
            let expected = format.decode(*code) as f32;
            let is_same =
                found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
            assert!(is_same, "{format} {code:#x} {found} {expected}");
        }
    }
    assert!(in_reach > 2_000, "{in_reach}");
}

fn check(format: Format, how: Conversion, grid: &Grid, numbers: &[f32]) {
    let mut isas = Isa::all();
    // `dyno-kernels` compares the others with portable code.
    isas.drain(1..isas.len() - 1);
    for isa in isas {
        let mut quantised = numbers.to_vec();
        let mut codes = vec![0; numbers.len()];
        assert!(!convert::quantise(isa, grid, &mut quantised), "{format}");
        assert!(!convert::encode(isa, grid, numbers, &mut codes), "{format}");
        for (at, x) in numbers.iter().enumerate() {
            let code = format.encode_with(f64::from(*x), how).unwrap();
            let value = format.quantise_with(*x, how).unwrap();
            let same = quantised[at].to_bits() == value.to_bits()
                || value.is_nan() && quantised[at].is_nan();
            let what = || format!("{x:e} in {format} {how:?} {isa}: {} {value}", quantised[at]);
            assert!(same, "{}", what());
            assert_eq!(codes[at], code, "{}", what());
        }
    }
}

#[test]
fn nan_is_told_with_its_place() {
    let how = Conversion::default();
    let stochastic = Conversion { rounding: Rounding::Stochastic { seed: 1 }, ..how };
    for (format, how) in [("I8", how), ("fp4-e2m1", how), ("I8", stochastic), ("BIN", how)] {
        let format: Format = format.parse().unwrap();
        for at in [0, 5, 16, 40] {
            let mut numbers = [0.5; 41];
            numbers[at] = f32::NAN;
            numbers[40] = f32::NAN;
            let expected = NanError { format, index: at };
            assert_eq!(format.encode_slice(&numbers, how), Err(expected));
            assert_eq!(format.quantise_slice(&mut numbers, how), Err(expected));
            assert_eq!(numbers.map(f32::is_nan), std::array::from_fn(|i| i == at || i == 40));
        }
    }
    for format in [Format::F32, Format::F16, Format::FP8_E4M3FN, Format::FP8_E4M3FNUZ] {
        let mut numbers = [f32::NAN, 1.0, -f32::NAN];
        let codes = format.encode_slice(&numbers, how).unwrap();
        let expected = numbers.map(|x| format.encode(f64::from(x)).unwrap());
        // F32 keeps the payload of NaN.
        let is_nan = |code: &u32| format.decode(*code).is_nan();
        assert!(
            codes == expected
                || format == Format::F32
                    && codes.iter().zip(&expected).all(|(a, b)| a == b || is_nan(a) && is_nan(b)),
            "{format}"
        );
        let decoded = format.decode_slice(&codes);
        assert_eq!([decoded[0].is_nan(), decoded[1] == 1.0, decoded[2].is_nan()], [true; 3]);
        assert_eq!(format.quantise_slice(&mut numbers, how), Ok(()));
        assert_eq!(numbers.map(f32::is_nan), [true, false, true], "{format}");
    }
}

#[test]
fn draws_of_a_slice_differ() {
    let how = Conversion { rounding: Rounding::Stochastic { seed: 3 }, overflow: Overflow::Usual };
    let mut numbers = [0.5; 64];
    let format = Format::fixed(4, -3).unwrap();
    let codes = format.encode_slice(&numbers, how).unwrap();
    format.quantise_slice(&mut numbers, how).unwrap();
    assert_eq!(format.decode_slice(&codes), numbers);
    let ones = numbers.iter().filter(|x| **x == 1.0).count();
    assert!((16..48).contains(&ones), "{ones} of 64 draws");
}
