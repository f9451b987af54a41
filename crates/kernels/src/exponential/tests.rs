//! Comparison of exponentials with the mathematics library in `f64`, on all instruction sets.

use super::{exp, log_softmax, softmax};
use crate::isa::Isa;

/// Distance of `f32` numbers near `x`.
fn unit(x: f64) -> f64 {
    let near = (x as f32).abs().clamp(f32::MIN_POSITIVE, f32::MAX / 2.0);
    f64::from(near.next_up() - near)
}

#[test]
fn exponentials_have_an_error_below_two_units() {
    let dense = (-1_050_000..890_000).step_by(7).map(|at| at as f32 * 1e-4);
    let mantissas = [0, 0x12_3456, 0x40_0000, 0x7f_ffff];
    let all = (0..134_u32).flat_map(|e| mantissas.map(|m| f32::from_bits(e << 23 | m)));
    let both = all.flat_map(|x| [x, -x]).filter(|x| x.abs() < 110.0);
    let numbers: Vec<f32> = dense.chain(both).collect();
    for isa in Isa::all() {
        let mut found = numbers.clone();
        exp(isa, &mut found);
        for (x, found) in numbers.iter().zip(found) {
            let exact = f64::from(*x).exp();
            if exact > f64::from(f32::MAX) {
                assert!(found >= f32::MAX / 1.000_001, "exp({x}) = {found} {isa}");
            } else {
                let error = (f64::from(found) - exact).abs();
                assert!(error < 2.0 * unit(exact), "exp({x}) = {found} {isa}");
            }
        }
    }
}

#[test]
fn exponentials_of_special_numbers_are_those_of_the_library() {
    let all = [f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1e30, -1e30, 89.0, -104.0, f32::NAN];
    for isa in Isa::all() {
        let mut found = all;
        exp(isa, &mut found);
        let [numbers @ .., nan] = found;
        assert_eq!(numbers, [f32::INFINITY, 0.0, 1.0, 1.0, f32::INFINITY, 0.0, f32::INFINITY, 0.0]);
        assert!(nan.is_nan(), "{isa}");
    }
}

#[test]
fn shares_are_those_of_sums_in_double_precision() {
    // The differences of the first line are exact, those of the second, up to 68.2, are rounded. The
    // greatest number, whose difference is exact, is most of the sum: half of the stated error remains.
    for (step, least, bound) in [(0.7, -30.0, 4e-7), (3.1, -68.3, 7e-7 + 6e-8 * 68.2)] {
        for (isa, count) in Isa::all().into_iter().flat_map(|isa| (1..70).map(move |n| (isa, n))) {
            // All are negative, so that a zero behind the line would be the greatest.
            let line = (0..count).map(|at| ((at * 37 % 23) as f32) * step + least);
            check_shares(isa, line.collect(), bound);
        }
    }
}

/// Compares shares, with a maximum relative error, and their logarithms, whose error is ten times that.
fn check_shares(isa: Isa, line: Vec<f32>, bound: f64) {
    let powers: Vec<f64> = line.iter().map(|x| f64::from(*x).exp()).collect();
    let sum: f64 = powers.iter().sum();
    let [mut shares, mut logarithms] = [line.clone(), line];
    softmax(isa, &mut shares);
    log_softmax(isa, &mut logarithms);
    for ((share, logarithm), power) in shares.iter().zip(logarithms).zip(powers) {
        let exact = power / sum;
        assert!((f64::from(*share) / exact - 1.0).abs() < bound, "{share} {exact} {isa}");
        let error = (f64::from(logarithm) - exact.ln()).abs();
        assert!(error < 10.0 * bound, "{logarithm} {exact} {isa}");
    }
}

#[test]
fn shares_of_special_numbers_are_nan_or_zero() {
    let ends = [f32::NEG_INFINITY, 2.0];
    for (isa, place) in Isa::all().into_iter().flat_map(|isa| [0, 15, 16, 18].map(|at| (isa, at))) {
        let run = |other: f32, special: f32| {
            let [mut shares, mut logarithms] = [[other; 19]; 2];
            (shares[place], logarithms[place]) = (special, special);
            softmax(isa, &mut shares);
            log_softmax(isa, &mut logarithms);
            (shares, logarithms)
        };
        for (other, special) in [(1.0, f32::NAN), (1.0, f32::INFINITY), (ends[0], ends[0])] {
            let (shares, logarithms) = run(other, special);
            assert!(shares.iter().chain(&logarithms).all(|x| x.is_nan()), "{special} {isa}");
        }
        let (shares, logarithms) = run(ends[0], ends[1]);
        assert_eq!((shares[place], logarithms[place]), (1.0, 0.0), "{isa}");
        let others = shares.iter().zip(logarithms).enumerate().filter(|(at, _)| *at != place);
        assert!(others.into_iter().all(|(_, pair)| pair == (&0.0, ends[0])), "{isa}");
    }
}

#[test]
fn a_line_without_numbers_stays_empty() {
    let mut line = [0.0_f32; 0];
    softmax(Isa::best(), &mut line);
    log_softmax(Isa::best(), &mut line);
    assert!(line.is_empty());
}
