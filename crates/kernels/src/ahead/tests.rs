//! Prefetching does not change the sums.

use super::*;
use crate::windows::{WindowWeights, Windows, Words, multiply_windows};

fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let next = |state: &mut u32| {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Some((*state >> 8) as f32 / (1 << 23) as f32 - 1.0)
    };
    std::iter::successors(Some(seed), |state| Some(state.wrapping_add(1)))
        .take(count)
        .filter_map(|mut state| next(&mut state))
        .collect()
}

#[test]
fn sums_are_those_of_a_product_that_asks_for_nothing() {
    for (rows, k, outputs) in [(1, 7, 64), (5, 16, 130), (6, 33, 64), (13, 64, 300)] {
        let (from, matrix) = (numbers(rows * k, 1), numbers(k * outputs, 2));
        let weights = Panels::pack_matrix(Precision::F32, k, &matrix);
        let alike = WindowWeights::from(Panels::pack_matrix(Precision::F32, k, &matrix));
        let other = Panels::pack_matrix(Precision::F32, 50, &numbers(50 * 70, 3));
        let starts: Vec<usize> = (0..rows).map(|row| row * k).collect();
        let windows =
            Windows { words: Words::F32(&from), starts: &starts, runs: 1, run: k, apart: 0 };
        for isa in Isa::all() {
            let width = weights.panels() * VECTORS * LANES;
            let mut expected = vec![0.0; rows * width];
            multiply_windows(isa, &windows, &alike, &mut expected);
            let parts = [3..3, 0..other.bytes(), 100..101];
            let ahead = parts.map(|bytes| Prefetch { weights: &other, bytes });
            let mut to = vec![0.0; rows * width];
            let all = 0..weights.panels();
            multiply_ahead(isa, &from, (&weights, all), &mut to, &ahead);
            assert_eq!(to, expected, "{isa}: {rows} x {k} x {outputs}");
            let last = weights.panels() - 1;
            multiply_ahead(isa, &from, (&weights, last..last + 1), &mut to, &[]);
            let wanted = expected.chunks(width).flat_map(|row| &row[last * VECTORS * LANES..]);
            assert!(to.iter().zip(wanted).all(|(a, b)| a == b), "{isa}: the last panel");
        }
    }
}

#[test]
fn all_lines_are_asked_for_once_where_there_is_time() {
    let weights = Panels::pack_matrix(Precision::F32, 8, &numbers(8 * 64, 4));
    let bytes = weights.bytes();
    let ahead = [
        Prefetch { weights: &weights, bytes: 0..bytes },
        Prefetch { weights: &weights, bytes: 64..65 },
    ];
    let mut hints = Hints::new(&ahead, 10 * bytes / LINE);
    for _ in 0..10 * bytes / LINE {
        hints.round();
    }
    assert!(hints.ahead.is_empty() && hints.next >= hints.end);
}
