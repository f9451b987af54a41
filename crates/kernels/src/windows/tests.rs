//! Patches of images as rows, beside their definition.

use proptest::prelude::*;

use super::*;

/// Whole numbers of at most 127.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 31 + seed * 7) % 255) as f32 - 127.0).collect()
}

fn bytes(numbers: &[f32]) -> Vec<u32> {
    let word = |four: &[f32]| {
        let byte = |at: usize| (four[at] + 128.0) as u8;
        u32::from_le_bytes([byte(0), byte(1), byte(2), byte(3)])
    };
    numbers.chunks_exact(4).map(word).collect()
}

/// Rows of weights in the order of panels.
fn packed(precision: Precision, vectors: usize, outputs: usize, k: usize) -> (Panels, Vec<f32>) {
    let units = outputs.div_ceil(vectors * LANES) * LANES;
    let rows = numbers(units * vectors * k, 3);
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
        vectors in 1_usize..5, outputs in 1_usize..100, runs in 1_usize..4, run in 1_usize..6,
        gap in 0_usize..3, starts in prop::collection::vec(0_usize..9, 0..15), is_whole: bool,
    ) {
        let precision = if is_whole { Precision::Int8 } else { Precision::F32 };
        let per = precision.per_word();
        let (apart, k) = (run + gap, runs * run * per);
        let (weights, rows) = packed(precision, vectors, outputs, k);
        let values = numbers(per * (8 + runs * apart), 5);
        let of_bytes = bytes(&values);
        let words = match is_whole {
            true => Words::Bytes { words: &of_bytes, unit: 0.5 },
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
                    values[(start + of_run * apart) * per + place]
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
    let (weights, _) = packed(Precision::F32, 1, 16, 6);
    let values = numbers(20, 1);
    let check = |starts: &[usize], runs, apart| {
        let windows = Windows { words: Words::F32(&values), starts, runs, run: 6 / runs, apart };
        let mut to = vec![0.0; starts.len() * LANES];
        let run = || multiply_windows(Isa::scalar(), &windows, &weights, &mut to);
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_ok()
    };
    assert!(check(&[14], 1, 0) && check(&[0, 7], 2, 10));
    assert!(!check(&[15], 1, 0) && !check(&[0, 8], 2, 10) && !check(&[usize::MAX], 1, 0));
}
