//! Comparison of all instruction sets with portable code, on grids of every shape; `dyno-number` compares the
//! latter with its codec.

use super::*;

/// Some numbers of every exponent including midpoints, and all special numbers.
fn numbers() -> Vec<f32> {
    let mantissas = [0, 1, 0x20_0000, 0x3f_ffff, 0x40_0000, 0x40_0001, 0x60_0000, 0x7f_ffff];
    let of = |sign: u32, exponent: u32| {
        mantissas.map(|mantissa| f32::from_bits(sign << 31 | exponent << 23 | mantissa))
    };
    (0..512).flat_map(|at| of(at & 1, at >> 1)).collect()
}

fn grids() -> Vec<Grid> {
    let signs = [Sign::None, Sign::OneZero, Sign::TwoZeros, Sign::Complement];
    let mut grids = Vec::new();
    for (fraction_bits, first, exponents) in
        [(0, -2, 7), (1, 0, 3), (2, -14, 31), (7, -126, 254), (10, -14, 30), (7, 7, 0), (22, 3, 1)]
    {
        for (at, sign) in signs.into_iter().enumerate() {
            let largest = if exponents == 0 {
                power_of_two(first) - power_of_two(first - fraction_bits as i32)
            } else {
                let last = first + exponents - 1;
                power_of_two(last) * (2.0 - power_of_two(-(fraction_bits as i32)))
            };
            let plain = Grid {
                fraction_bits,
                first,
                largest,
                sign,
                bits: 16.max(fraction_bits + 2),
                has_infinity: false,
                nan: None,
                saturates: true,
                truncates: at % 2 == 0,
            };
            let nan = plain.largest_code() + 2;
            grids.push(plain);
            let special = Grid { has_infinity: true, nan: Some(nan), ..plain };
            if sign != Sign::Complement {
                grids.push(Grid { truncates: false, ..special });
                grids.push(Grid { saturates: false, ..special });
                grids.push(Grid { has_infinity: false, saturates: false, ..special });
            }
        }
    }
    grids.retain(Grid::is_in_reach);
    grids
}

#[test]
fn every_instruction_set_converts_as_portable_code() {
    let numbers = numbers();
    let bits = |numbers: &[f32]| -> Vec<u32> {
        numbers.iter().map(|x| if x.is_nan() { u32::MAX } else { x.to_bits() }).collect()
    };
    let grids = grids();
    assert!(grids.len() > 60, "{}", grids.len());
    for grid in &grids {
        let convert = |isa: Isa, offset: usize| {
            let numbers = &numbers[offset..];
            let mut quantised = numbers.to_vec();
            let mut codes = vec![0; numbers.len()];
            let found = quantise(isa, grid, &mut quantised);
            assert_eq!(encode(isa, grid, numbers, &mut codes), found);
            assert_eq!(found, grid.nan.is_none(), "there is NaN among them");
            let mut decoded = vec![0.0; codes.len()];
            decode(isa, grid, &codes, &mut decoded);
            let all = (0..1 << 12).chain((1 << 24) - (1 << 12)..1 << 24);
            let all: Vec<u32> = all.collect();
            let mut worth = vec![0.0; all.len()];
            decode(isa, grid, &all, &mut worth);
            (bits(&quantised), codes, bits(&decoded), bits(&worth))
        };
        for isa in Isa::all() {
            for offset in [0, 1, 13] {
                let (found, expected) = (convert(isa, offset), convert(Isa::scalar(), offset));
                for (at, x) in numbers[offset..].iter().enumerate() {
                    let what = |of: &(Vec<u32>, Vec<u32>, Vec<u32>, Vec<u32>)| {
                        // Without a code for NaN, its code is arbitrary.
                        let code = if x.is_nan() { 0 } else { of.1[at] };
                        (of.0[at], code, if x.is_nan() { 0 } else { of.2[at] })
                    };
                    assert_eq!(what(&found), what(&expected), "{x:e} {grid:?} {isa}");
                }
                assert_eq!(found.3, expected.3, "{grid:?} {isa}");
            }
        }
    }
}

/// Expected integers: quantized first, then counted.
#[test]
fn bytes_and_int16_are_whole_numbers_of_a_unit() {
    let numbers = numbers();
    for grid in &grids() {
        for isa in Isa::all() {
            let (unit, mut quantised) = (grid.step().max(power_of_two(-120)), numbers.clone());
            let has_nan = quantise(Isa::scalar(), grid, &mut quantised);
            let mut found = vec![0; numbers.len()];
            assert_eq!(bytes(isa, grid, unit, &numbers, &mut found), has_nan);
            let mut wide = vec![0; numbers.len()];
            assert_eq!(int16(isa, grid, unit, &numbers, &mut wide), has_nan);
            for (at, value) in quantised.iter().enumerate().filter(|(_, value)| !value.is_nan()) {
                let whole = (f64::from(*value) / f64::from(unit)).round_ties_even();
                let expected = ((whole + 128.0) as u8, whole as i16);
                assert_eq!((found[at], wide[at]), expected, "{:e} {grid:?} {isa}", numbers[at]);
            }
        }
    }
}

#[test]
fn grids_out_of_reach_are_told() {
    let half = Grid {
        fraction_bits: 10,
        first: -14,
        largest: 65_504.0,
        sign: Sign::TwoZeros,
        bits: 16,
        has_infinity: true,
        nan: Some(0x7e00),
        saturates: false,
        truncates: false,
    };
    assert!(half.is_in_reach());
    let out = [
        Grid { fraction_bits: 23, ..half },
        Grid { first: -127, ..half },
        Grid { first: 127, ..half },
        Grid { largest: f32::INFINITY, ..half },
        Grid { bits: 25, ..half },
        Grid { nan: None, ..half },
    ];
    assert_eq!(out.map(|grid| grid.is_in_reach()), [false; 6]);
    let mut numbers = [65_519.0, 65_520.0, -1e-9, 1.000_976_6];
    assert!(!quantise(Isa::best(), &half, &mut numbers), "none is NaN");
    assert_eq!(numbers, [65_504.0, f32::INFINITY, -0.0, 1.000_976_6]);
}
