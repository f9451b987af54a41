//! Comparison of means with integer sums, which are exact.

use super::{mean, mean_square, standardize};
use crate::isa::Isa;

#[test]
fn moments_are_those_of_integers() {
    for (isa, count) in Isa::all().into_iter().flat_map(|isa| (1..70).map(move |n| (isa, n))) {
        let whole: Vec<i64> = (0..count).map(|at| at * 31 % 19 - 7).collect();
        let mut line: Vec<f32> = whole.iter().map(|x| *x as f32).collect();
        let sum: i64 = whole.iter().sum();
        let squares: i64 = whole.iter().map(|x| (x - 3).pow(2)).sum();
        assert_eq!(mean(isa, &line), sum as f64 / count as f64, "{count} {isa}");
        assert_eq!(mean_square(isa, &line, 3.0), squares as f64 / count as f64, "{count} {isa}");
        standardize(isa, &mut line, 3.0, 0.25);
        let expected: Vec<f32> = whole.iter().map(|x| (x - 3) as f32 / 4.0).collect();
        assert_eq!(line, expected, "{count} {isa}");
    }
}

#[test]
fn numbers_far_from_zero_keep_their_variance() {
    let line: Vec<f32> = (0..40).map(|at| 1e6 + (at % 2) as f32).collect();
    for isa in Isa::all() {
        let mean = mean(isa, &line);
        assert_eq!((mean, mean_square(isa, &line, mean)), (1e6 + 0.5, 0.25), "{isa}");
        assert!(super::mean(isa, &[]).is_nan(), "{isa}");
        assert!(super::mean(isa, &[1.0, f32::NAN]).is_nan(), "{isa}");
    }
}
