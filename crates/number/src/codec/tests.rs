//! Tests of every code of every format up to 16 bits against an oracle of exact fractions, of all
//! rounding boundaries with every rule, of the thesis' examples, and of NaN.

use std::cmp::Ordering;

use proptest::prelude::*;

use super::*;

/// An exact fraction whose denominator is a power of two: `whole`·2^`exponent`, with `whole` odd or
/// 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fraction {
    whole: i128,
    exponent: i32,
}

impl Fraction {
    fn new(whole: i128, exponent: i32) -> Self {
        if whole == 0 {
            return Self { whole: 0, exponent: 0 };
        }
        let zeros = whole.trailing_zeros();
        Self { whole: whole >> zeros, exponent: exponent + zeros as i32 }
    }

    /// Returns the exact value of an `f64`.
    fn from_f64(x: f64) -> Self {
        let bits = x.to_bits();
        let exponent = (bits >> 52 & 0x7ff) as i32;
        let fraction = (bits & 0x000f_ffff_ffff_ffff) as i128;
        let (whole, exponent) = match exponent {
            0 => (fraction, -1074),
            _ => (fraction + (1 << 52), exponent - 1075),
        };
        Self::new(if bits >> 63 == 1 { -whole } else { whole }, exponent)
    }
}

/// Returns the value of a code by the definitions; `None` if it is not a number.
fn oracle(format: Format, code: u32) -> Option<Fraction> {
    let digits = format!("{code:0width$b}", width = format.bits() as usize);
    let (sign, digits) = digits.split_at(usize::from(format.has_sign()));
    let (exponent, fraction) = digits.split_at(format.exponent_bits() as usize);
    let number = |digits: &str| i128::from_str_radix(&format!("0{digits}"), 2).unwrap();
    let (e, f) = (number(exponent), number(fraction));
    let (n, b) = (fraction.len() as i32, format.bias());
    let (has_exponent, is_full) = (!exponent.is_empty(), !digits.contains('0'));
    match format.special() {
        Special::Ieee if !exponent.contains('0') => return None,
        Special::Nan | Special::Powers if is_full => return None,
        Special::NanForMinusZero if sign == "1" && !digits.contains('1') => return None,
        Special::Complement => {
            let least = if sign == "1" { -(1 << n) } else { 0 };
            return Some(Fraction::new(f + least, -n - b));
        }
        _ => {}
    }
    let worth = match (has_exponent, fraction.is_empty()) {
        (false, true) => Fraction::new(1, -b),
        (false, false) => Fraction::new(f, -n - b),
        _ if format.special() == Special::Powers => Fraction::new(1, e as i32 - b),
        // Equation II.1.
        (true, _) if e == 0 => Fraction::new(f, -n + 1 - b),
        (true, _) => Fraction::new((1 << n) + f, e as i32 - b - n),
    };
    Some(Fraction { whole: if sign == "1" { -worth.whole } else { worth.whole }, ..worth })
}

const SPECIALS: [Special; 7] = [
    Special::Finite,
    Special::SignedZero,
    Special::Ieee,
    Special::Nan,
    Special::NanForMinusZero,
    Special::Powers,
    Special::Complement,
];

/// Returns all tuples of `bits` bits with all special codes: with the default bias of the
/// exponent's width, and with two others if the format is short.
fn formats(bits: u32) -> Vec<Format> {
    let mut formats = Vec::new();
    for has_sign in [false, true] {
        for exponent in 0..=Format::MAX_EXPONENT_BITS.min(bits) {
            let Some(fraction) = bits.checked_sub(exponent + u32::from(has_sign)) else { continue };
            let usual = if exponent == 0 { 0 } else { (1 << (exponent - 1)) - 1 };
            let biases = [usual, usual - 5, usual + 90];
            for bias in &biases[..if bits <= 8 { 3 } else { 1 }] {
                let made = SPECIALS.iter().filter_map(|special| {
                    Format::new(has_sign, exponent, fraction, *bias, *special).ok()
                });
                formats.extend(made);
            }
        }
    }
    formats
}

#[test]
fn every_code_of_every_format_is_worth_what_its_definition_says() {
    let mut codes = 0_u64;
    for format in (1..=16).flat_map(formats) {
        for code in 0..=format.mask() {
            let found = format.decode(code);
            match oracle(format, code) {
                Some(worth) => {
                    assert_eq!(Fraction::from_f64(found), worth, "{format} {code:#b} {found}");
                }
                None => assert!(!found.is_finite(), "{format} {code:#b} {found}"),
            }
            // A value has its own code. Only zeros and NaN have several codes.
            let back = format.encode_with(found, INFINITE);
            if found.is_nan() {
                assert!(format.decode(back.unwrap()).is_nan(), "{format} {code:#b}");
            } else if found != 0.0 || format.special() == Special::SignedZero {
                assert_eq!(back, Ok(code), "{format} {code:#b} {found}");
            } else {
                assert_eq!(format.decode(back.unwrap()), 0.0, "{format} {code:#b}");
            }
            codes += 1;
        }
    }
    assert!(codes > 4_000_000, "only {codes} codes");
}

const INFINITE: Conversion =
    Conversion { rounding: Rounding::NearestEven, overflow: Overflow::Infinite };

fn by(rounding: Rounding) -> Conversion {
    Conversion { rounding, overflow: Overflow::Saturate }
}

/// Returns the finite codes without a sign and their values, in order.
fn magnitudes(format: Format) -> Vec<(u32, f64)> {
    let half = format.mask() >> u32::from(format.has_sign());
    let worth = (0..=half).map(|code| (code, format.decode(code)));
    let found: Vec<(u32, f64)> = worth.filter(|(_, x)| x.is_finite()).collect();
    assert!(found.is_sorted_by(|a, b| a.1 < b.1), "{format}");
    found
}

/// Checks all pairs of neighbors: the values, their arithmetic and geometric means, and the numbers
/// next to these.
fn check_borders(format: Format) {
    let encode = |x: f64, rounding| format.encode_with(x, by(rounding)).unwrap();
    for pair in magnitudes(format).windows(2) {
        let [(low, a), (high, b)] = [pair[0], pair[1]];
        // Exact, because values have at most 16 digits.
        let middle = a / 2.0 + b / 2.0;
        let even = if low % 2 == 0 { low } else { high };
        let mean = if a == 0.0 { middle } else { (a * b).sqrt() };
        // Codes below, at and above both means.
        let nearest = [(middle.next_down(), low), (middle, even), (middle.next_up(), high)];
        let log = [(mean.next_down(), low), (mean.next_up(), high)];
        let truncated = [(a, low), (a.next_up(), low), (b.next_down(), low), (b, high)];
        for (x, code) in nearest {
            assert_eq!(encode(x, Rounding::NearestEven), code, "{format} {x:e} of {a:e} {b:e}");
        }
        for (x, code) in log {
            assert_eq!(encode(x, Rounding::NearestLog), code, "{format} {x:e} of {a:e} {b:e}");
        }
        for (x, code) in truncated {
            assert_eq!(encode(x, Rounding::TowardZero), code, "{format} {x:e} of {a:e} {b:e}");
        }
        if format.has_sign() {
            // Results are symmetric around zero.
            for (x, _) in nearest {
                let (plus, minus) =
                    [x, -x].map(|x| format.decode(encode(x, Rounding::NearestEven))).into();
                assert_eq!(plus, -minus, "{format} {x:e}");
            }
        }
    }
}

#[test]
fn borders_between_codes_are_where_the_rules_say() {
    (2..=16).flat_map(formats).for_each(check_borders);
    assert_eq!(Format::FP4_E2M1.encode(2.5), Ok(0b100), "2, whose code is even, and not 3");
}

#[test]
fn beyond_the_largest_there_is_what_the_rule_says() {
    for format in (1..=12).flat_map(formats) {
        let saturated =
            |x| format.decode(format.encode_with(x, by(Rounding::NearestEven)).unwrap());
        let free = |x| format.decode(format.encode_with(x, INFINITE).unwrap());
        let largest = format.max_value();
        for x in [largest * 4.0, f64::MAX, f64::INFINITY] {
            assert_eq!(saturated(x), largest, "{format}");
            let expected = match format.special() {
                Special::Ieee => Ordering::Greater,
                _ if format.has_nan() => {
                    assert!(free(x).is_nan(), "{format}");
                    continue;
                }
                _ => Ordering::Equal,
            };
            assert_eq!(free(x).total_cmp(&largest), expected, "{format}");
        }
        let least = match format.special() {
            _ if !format.has_sign() => format.decode(0),
            Special::Complement => format.decode(1 << (format.bits() - 1)),
            _ => -largest,
        };
        assert_eq!(saturated(f64::NEG_INFINITY), least, "{format}");
        let truncated = Conversion { rounding: Rounding::TowardZero, ..INFINITE };
        assert_eq!(format.encode_with(f64::MAX, truncated), format.encode(largest), "{format}");
    }
}

#[test]
fn overflow_is_infinite_in_wide_formats_of_ieee() {
    let quantise = |format: Format, x| format.quantise(x).unwrap();
    assert_eq!(quantise(Format::F16, 65_519.0), 65_504.0);
    assert_eq!(quantise(Format::F16, 65_520.0), f32::INFINITY);
    assert_eq!(quantise(Format::BF16, f32::MIN), f32::NEG_INFINITY);
    assert_eq!(quantise(Format::FP8_E5M2, 1e9), 57_344.0);
    assert_eq!(quantise(Format::FP8_E4M3FN, f32::INFINITY), 448.0);
    assert_eq!(quantise(Format::F32, f32::INFINITY), f32::INFINITY);
    assert_eq!(quantise(Format::F32, -0.0).to_bits(), (-0.0_f32).to_bits());
}

#[test]
fn nan_is_an_error_where_there_is_none() {
    for format in (1..=8).flat_map(formats) {
        match format.encode(f64::NAN) {
            Ok(code) => assert!(format.decode(code).is_nan(), "{format}"),
            Err(error) => assert_eq!((format.has_nan(), error.format), (false, format)),
        }
    }
    let error = Format::FP4_E2M1.quantise(f32::NAN).unwrap_err();
    assert_eq!(error.to_string(), "expected numbers, which fp4-e2m1 has alone, found NaN at 0");
    assert!(Format::F32.quantise(f32::NAN).unwrap().is_nan());
}

#[test]
fn zero_has_a_sign_where_the_format_says() {
    let code = |format: Format| format.encode(-0.0).unwrap();
    assert_eq!(code(Format::fixed(3, 0).unwrap()), 0);
    assert_eq!(code(Format::float(8).unwrap()), 0);
    assert_eq!(code(Format::FP8_E4M3FNUZ), 0);
    assert_eq!(code(Format::FP8_E4M3FN), 0x80);
    assert_eq!(code(Format::FP4_E2M1), 0x8);
    assert_eq!(Format::fixed(3, 0).unwrap().encode(-1e-9), Ok(0));
    assert_eq!(Format::FP8_E4M3FNUZ.encode(-1e-9), Ok(0), "not NaN, which is minus zero's code");
}

/// Returns the values of a format that are not negative.
fn values(format: &str) -> Vec<f64> {
    let format: Format = format.parse().unwrap();
    magnitudes(format).into_iter().map(|(_, x)| x).collect()
}

#[test]
fn examples_of_the_thesis() {
    assert_eq!(values("I3(-2)"), [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(values("I3(0)"), [0.0, 0.25, 0.5, 0.75]);
    assert_eq!(values("I2(1)"), [0.0, 0.25]);
    assert_eq!(values("I2(4)"), [0.0, 1.0 / 32.0]);
    assert_eq!(values("E3"), [0.0, 1.0, 2.0, 4.0]);
    assert_eq!(values("E2"), [0.0, 2.0]);
    // LogQuant4.
    assert_eq!(values("E4"), [0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0]);
    assert_eq!(values("BIN"), [1.0]);
    assert_eq!(values("fp4-e2m1"), [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]);
    let fixed = Format::from_words(&["FIXED", "15", "-3"]).unwrap();
    assert_eq!(fixed.min_positive(), 1.0 / 2048.0);
    assert_eq!(fixed.max_value(), 8.0 - 1.0 / 2048.0);
    let binary = Format::binary(0).unwrap();
    assert_eq!([0.0, -0.0, 0.3, -0.3].map(|x| binary.quantise(x).unwrap()), [1.0, 1.0, 1.0, -1.0]);
}

#[test]
fn limits_of_named_formats() {
    let limits = |name: &str| {
        let format: Format = name.parse().unwrap();
        (format.max_value(), format.min_positive())
    };
    assert_eq!(limits("F32"), (f64::from(f32::MAX), f64::from(f32::from_bits(1))));
    assert_eq!(limits("F16"), (65_504.0, 2.0_f64.powi(-24)));
    assert_eq!(limits("fp8-e4m3fn"), (448.0, 2.0_f64.powi(-9)));
    assert_eq!(limits("fp8-e5m2"), (57_344.0, 2.0_f64.powi(-16)));
    assert_eq!(limits("fp8-e4m3fnuz"), (240.0, 2.0_f64.powi(-10)));
    assert_eq!(limits("fp8-e5m2fnuz"), (57_344.0, 2.0_f64.powi(-17)));
    assert_eq!(limits("fp6-e3m2"), (28.0, 1.0 / 16.0));
    assert_eq!(limits("fp6-e2m3"), (7.5, 0.125));
    assert_eq!(limits("fp4-e2m1"), (6.0, 0.5));
    assert_eq!(limits("e8m0"), (2.0_f64.powi(127), 2.0_f64.powi(-127)));
    assert_eq!(limits("int8"), (127.0, 1.0));
    assert_eq!(limits("mxint8"), (127.0 / 64.0, 1.0 / 64.0));
    assert_eq!(Format::INT8.decode(0x80), -128.0);
}

#[test]
fn draws_are_fair_and_the_same_for_a_seed() {
    let format = Format::fixed(4, -3).unwrap();
    let how = |index| {
        let rounding = Rounding::Stochastic { seed: 7 }.for_index(index);
        Conversion { rounding, overflow: Overflow::Usual }
    };
    let draw = |index| format.quantise_with(2.25, how(index)).unwrap();
    let ups = (0..10_000).filter(|index| draw(*index) == 3.0).count();
    assert!((0..10_000).all(|index| [2.0, 3.0].contains(&draw(index))));
    // Within four standard deviations of 10,000 draws with probability 1/4.
    assert!((2_327..2_673).contains(&ups), "{ups}");
    assert_eq!(draw(3), draw(3));
    assert_eq!(format.quantise_with(2.0, how(5)), Ok(2.0), "what is exact stays");
}

#[test]
fn values_that_f32_cannot_hold_are_the_nearest_that_it_can() {
    let wide = Format::float_with(16, 8, 100).unwrap();
    assert_eq!(wide.max_value(), 1.9921875 * 2.0_f64.powi(155));
    let largest = wide.quantise(f32::MAX).unwrap();
    assert_eq!(largest, 1.9921875 * 2.0_f32.powi(127));
    assert_eq!(wide.quantise(f32::NEG_INFINITY), Ok(-largest));
}

proptest! {
    /// Conversions to 16 bits equal those of the `half` crate and of processors.
    #[test]
    fn sixteen_bits_are_those_of_others(bits in any::<u32>()) {
        let x = f32::from_bits(bits);
        if !x.is_nan() {
            let x64 = f64::from(x);
            prop_assert_eq!(Format::F16.encode(x64), Ok(u32::from(half::f16::from_f32(x).to_bits())));
            prop_assert_eq!(Format::BF16.encode(x64), Ok(u32::from(half::bf16::from_f32(x).to_bits())));
            prop_assert_eq!(Format::F32.encode(x64), Ok(bits));
            prop_assert_eq!(Format::F32.encode(1.0 / 3.0 * x64), Ok(((1.0 / 3.0 * x64) as f32).to_bits()));
        }
    }

    /// Values of a format do not change, and rounding keeps the order of numbers.
    #[test]
    fn what_is_quantised_stays(
        exponent in 0_u32..=8, fraction in 0_u32..=31, bias in -150..=150, bits in any::<u32>(), other in any::<u32>(),
    ) {
        let made = Format::new(true, exponent, fraction, bias, Special::Finite);
        let [x, y] = [bits, other].map(f32::from_bits);
        if let Ok(format) = made && !x.is_nan() && !y.is_nan() {
            let value = |x: f32| format.decode(format.encode(f64::from(x)).unwrap());
            prop_assert_eq!(format.decode(format.encode(value(x)).unwrap()), value(x));
            prop_assert_eq!(value(-x), if format.kind() == Kind::Binary && x == 0.0 { value(x) } else { -value(x) });
            if x <= y {
                prop_assert!(value(x) <= value(y));
            }
        }
    }
}
