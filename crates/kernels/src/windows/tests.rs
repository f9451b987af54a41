//! Patches of images as rows, beside their definition.

use proptest::prelude::*;

use super::*;

/// Whole numbers of at most `largest`.
fn numbers(count: usize, seed: usize, largest: usize) -> Vec<f32> {
    let number = |at: usize| ((at * 31 + seed * 7) % (2 * largest + 1)) as f32 - largest as f32;
    (0..count).map(number).collect()
}

/// Rows of weights of at most `largest` in the order of panels.
fn packed(
    precision: Precision,
    vectors: usize,
    outputs: usize,
    k: usize,
    largest: usize,
) -> (Panels, Vec<f32>) {
    let units = outputs.div_ceil(vectors * LANES) * LANES;
    let rows = numbers(units * vectors * k, 3, largest);
    let row = |vector: usize, unit: usize| {
        let output = (unit / LANES * vectors + vector) * LANES + unit % LANES;
        &rows[output * k..][..k]
    };
    let panels = match precision {
        Precision::Int8 => Panels::pack_whole(vectors, units, k, 1.0, row),
        _ => Panels::pack(precision, vectors, units, k, row),
    };
    (panels, rows)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    // Sums of products of whole numbers are exact, whatever the order.
    #[test]
    fn products_of_windows_are_those_of_their_numbers(
        vectors in 1_usize..5, outputs in 1_usize..100, runs in 1_usize..4, run in 1_usize..40,
        gap in 0_usize..9, starts in prop::collection::vec(0_usize..30, 0..80), is_whole: bool,
        largest in prop::sample::select(vec![1, 2, 3, 7, 15, 16, 17, 64, 127]),
    ) {
        let precision = if is_whole { Precision::Int8 } else { Precision::F32 };
        let per = precision.per_word();
        // Bytes need not lie in words.
        let (apart, k) = (run * per + gap, runs * run * per);
        let (weights, rows) = packed(precision, vectors, outputs, k, largest);
        let values = numbers(30 + runs * apart + run * per, 5, 127);
        // The least and the greatest byte as well.
        let of_bytes: Vec<u8> = values.iter().map(|x| (x + 128.0) as u8).collect();
        let words = match is_whole {
            true => Words::Bytes { bytes: &of_bytes, unit: 0.5 },
            false => Words::F32(&values),
        };
        let unit = if is_whole { 0.5 } else { 1.0 };
        let windows = Windows { words, starts: &starts, runs, run, apart };
        let width = weights.panels() * vectors * LANES;
        for isa in Isa::all() {
            let mut to = vec![f32::NAN; starts.len() * width];
            multiply_windows(isa, &windows, &weights, &mut to);
            for (at, found) in to.iter().enumerate() {
                let (start, output) = (starts[at / width], at % width);
                let value = |i: usize| {
                    let (of_run, place) = (i / (run * per), i % (run * per));
                    values[start + of_run * apart + place]
                };
                let row = &rows[output * k..][..k];
                let expected: f32 = row.iter().enumerate().map(|(i, w)| w * value(i)).sum();
                prop_assert_eq!(*found, expected * unit, "{} {}", at, isa);
            }
        }
    }
}

/// What a caller gets wrong is told before anything is read.
#[test]
fn rows_outside_are_refused() {
    let (weights, _) = packed(Precision::F32, 1, 16, 6, 127);
    let values = numbers(20, 1, 127);
    let check = |starts: &[usize], runs, apart| {
        let windows = Windows { words: Words::F32(&values), starts, runs, run: 6 / runs, apart };
        let mut to = vec![0.0; starts.len() * LANES];
        let run = || multiply_windows(Isa::scalar(), &windows, &weights, &mut to);
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_ok()
    };
    assert!(check(&[14], 1, 0) && check(&[0, 7], 2, 10));
    assert!(!check(&[15], 1, 0) && !check(&[0, 8], 2, 10) && !check(&[usize::MAX], 1, 0));
}

/// Sums of 16 bits would wrap if they were settled later: the greatest byte times the greatest weight, all
/// along.
#[test]
fn small_weights_are_settled_in_time() {
    for largest in [1_u8, 2, 3, 4, 15, 16, 17] {
        let k = 400;
        for sign in [1.0, -1.0] {
            let row = vec![sign * f32::from(largest); k];
            let weights = Panels::pack_whole(1, 16, k, 1.0, |_, _| &row);
            assert_eq!(weights.few().is_some(), largest <= 16, "{largest}");
            let bytes = vec![255_u8; k];
            let words = Words::Bytes { bytes: &bytes, unit: 1.0 };
            let windows = Windows { words, starts: &[0], runs: 1, run: k / 4, apart: 0 };
            for isa in Isa::all() {
                let mut to = [0.0; LANES];
                multiply_windows(isa, &windows, &weights, &mut to);
                let expected = sign * f32::from(largest) * 127.0 * k as f32;
                assert_eq!(to, [expected; LANES], "{largest} {isa}");
            }
        }
    }
}

/// More rows than are laid out at once, of which the last part has fewer than a tile.
#[test]
fn long_rows_are_done_part_by_part() {
    let (run, runs) = (4_000, 2);
    let (weights, _) = packed(Precision::Int8, 3, 40, run * runs * 4, 3);
    let bytes: Vec<u8> = (0..run * 4 * 3).map(|at| (at * 31 % 251) as u8).collect();
    let starts: Vec<usize> = (0..67).map(|row| row * 61).collect();
    let words = Words::Bytes { bytes: &bytes, unit: 1.0 };
    let windows = Windows { words, starts: &starts, runs, run, apart: run * 3 };
    let product = |isa| {
        let mut to = vec![f32::NAN; starts.len() * weights.panels() * 3 * LANES];
        multiply_windows(isa, &windows, &weights, &mut to);
        to
    };
    let expected = product(Isa::scalar());
    for isa in Isa::all() {
        assert!(product(isa) == expected, "{isa}");
    }
}
