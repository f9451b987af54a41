//! Comparison of products of image patches with their definition.

use proptest::prelude::*;

use super::*;

/// Integers of magnitude up to `largest`.
fn numbers(count: usize, seed: usize, largest: usize) -> Vec<f32> {
    let number = |at: usize| ((at * 31 + seed * 7) % (2 * largest + 1)) as f32 - largest as f32;
    (0..count).map(number).collect()
}

/// Types of both operands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Packing {
    F32,
    Bytes,
    Int16,
}

impl Packing {
    /// Numbers of a word.
    fn per_word(self) -> usize {
        match self {
            Self::F32 => 1,
            Self::Bytes => 4,
            Self::Int16 => 2,
        }
    }
}

/// Rows of weights of magnitude up to `largest`, in the order of panels.
fn packed(
    held: Packing,
    vectors: usize,
    outputs: usize,
    k: usize,
    largest: usize,
) -> (WindowWeights, Vec<f32>) {
    let units = outputs.div_ceil(vectors * LANES) * LANES;
    let rows = numbers(units * vectors * k, 3, largest);
    let row = |vector: usize, unit: usize| {
        let output = (unit / LANES * vectors + vector) * LANES + unit % LANES;
        &rows[output * k..][..k]
    };
    let weights = match held {
        Packing::F32 => Panels::pack(Precision::F32, vectors, units, k, row).into(),
        Packing::Bytes => Panels::pack_whole(vectors, units, k, 1.0, row).into(),
        Packing::Int16 => WindowWeights::int16(vectors, units, k, 1.0, row),
    };
    (weights, rows)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    // Sums of products of integers are exact in any order.
    #[test]
    fn products_of_windows_are_those_of_their_numbers(
        vectors in 1_usize..5, outputs in 1_usize..100, runs in 1_usize..4, run in 1_usize..40,
        gap in 0_usize..9, starts in prop::collection::vec(0_usize..30, 0..80),
        held in prop::sample::select(vec![Packing::F32, Packing::Bytes, Packing::Int16]),
        largest in prop::sample::select(vec![1, 2, 3, 7, 15, 16, 17, 64, 127]),
    ) {
        let per = held.per_word();
        // Bytes and `i16` need not lie in words.
        let (apart, k) = (run * per + gap, runs * run * per);
        let (weights, rows) = packed(held, vectors, outputs, k, largest);
        let values = numbers(30 + runs * apart + run * per, 5, 127);
        // Includes the least and the greatest byte.
        let of_bytes: Vec<u8> = values.iter().map(|x| (x + 128.0) as u8).collect();
        let of_halves: Vec<i16> = values.iter().map(|x| *x as i16).collect();
        let words = match held {
            Packing::F32 => Words::F32(&values),
            Packing::Bytes => Words::Bytes { bytes: &of_bytes, unit: 0.5 },
            Packing::Int16 => Words::Int16 { numbers: &of_halves, unit: 0.5 },
        };
        let unit = words.unit().unwrap_or(1.0);
        let windows = Windows { words, starts: &starts, runs, run, apart };
        let width = weights.width();
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
            if held == Packing::F32 {
                continue;
            }
            let mut sums = vec![i32::MIN; to.len()];
            sum_windows(isa, &windows, &weights, &mut sums);
            for (found, scaled) in sums.iter().zip(&to) {
                // All sums are below 2 to the power of 24, so that `f32` is exact.
                prop_assert_eq!(*found as f32 * unit, *scaled, "{}", isa);
            }
        }
    }
}

/// Invalid arguments panic before anything is read.
#[test]
fn rows_outside_are_refused() {
    let (weights, _) = packed(Packing::F32, 1, 16, 6, 127);
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

/// Sums of 16 bits would wrap if they were settled later: the greatest byte times the greatest
/// weight, all along.
#[test]
fn small_weights_are_settled_in_time() {
    for largest in [1_u8, 2, 3, 4, 15, 16, 17] {
        let k = 400;
        for sign in [1.0, -1.0] {
            let row = vec![sign * f32::from(largest); k];
            let panels = Panels::pack_whole(1, 16, k, 1.0, |_, _| &row);
            assert_eq!(panels.few().is_some(), largest <= 16, "{largest}");
            let weights = WindowWeights::from(panels);
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

/// More rows than are laid out at once; the last part has fewer rows than a tile.
#[test]
fn long_rows_are_done_part_by_part() {
    let (run, runs) = (4_000, 2);
    let (weights, _) = packed(Packing::Bytes, 3, 40, run * runs * 4, 3);
    let bytes: Vec<u8> = (0..run * 4 * 3).map(|at| (at * 31 % 251) as u8).collect();
    let starts: Vec<usize> = (0..67).map(|row| row * 61).collect();
    let words = Words::Bytes { bytes: &bytes, unit: 1.0 };
    let windows = Windows { words, starts: &starts, runs, run, apart: run * 3 };
    let product = |isa| {
        let mut to = vec![f32::NAN; starts.len() * weights.width()];
        multiply_windows(isa, &windows, &weights, &mut to);
        to
    };
    let expected = product(Isa::scalar());
    for isa in Isa::all() {
        assert!(product(isa) == expected, "{isa}");
    }
}

/// Sums up to the last one that fits 32 bits.
#[test]
fn products_of_int16_fill_their_sums() {
    let (least, most) = (i16::MIN, i16::MAX);
    for (weight, half, k) in
        [(least, most, 2), (most, most, 2), (least, -16_384, 3), (1, least, 40)]
    {
        let mut row = vec![f32::from(weight); k];
        let mut halves = vec![half; k];
        // A whole number of words.
        row.resize(k.next_multiple_of(2), 0.0);
        halves.resize(row.len(), 0);
        let weights = WindowWeights::int16(1, 16, row.len(), 1.0, |_, _| &row);
        let words = Words::Int16 { numbers: &halves, unit: 0.5 };
        let windows = Windows { words, starts: &[0], runs: 1, run: row.len() / 2, apart: 0 };
        let sum = k as i64 * i64::from(weight) * i64::from(half);
        let expected = i32::try_from(sum).expect("a sum that fits") as f32 * 0.5;
        for isa in Isa::all() {
            let mut to = [0.0; LANES];
            multiply_windows(isa, &windows, &weights, &mut to);
            assert_eq!(to, [expected; LANES], "{k} times {weight} times {half} {isa}");
        }
    }
}

/// Operands of one type do not match weights of another.
#[test]
fn both_sides_are_held_alike() {
    let (halves, bytes, numbers) = ([0_i16; 8], [0_u8; 16], [0.0; 4]);
    let words = [
        Words::F32(&numbers),
        Words::Bytes { bytes: &bytes, unit: 1.0 },
        Words::Int16 { numbers: &halves, unit: 1.0 },
    ];
    for (at, held) in [Packing::F32, Packing::Bytes, Packing::Int16].into_iter().enumerate() {
        let (weights, _) = packed(held, 1, 16, 4 * held.per_word(), 3);
        let found = words.map(|words| {
            let windows = Windows { words, starts: &[0], runs: 1, run: 4, apart: 0 };
            let mut to = [0.0; LANES];
            let run = || multiply_windows(Isa::scalar(), &windows, &weights, &mut to);
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_ok()
        });
        assert_eq!(found, std::array::from_fn(|other| other == at), "{held:?}");
    }
    // Stored in the layout of bfloat16, but not bfloat16.
    let bf16 = WindowWeights::from(Panels::pack(Precision::Bf16, 1, 16, 8, |_, _| &[0.0; 8]));
    assert!(words.iter().all(|words| !words.fit(&bf16)));
}

/// Sums that `f32` would round: the least weight times the greatest byte.
#[test]
fn sums_beyond_24_bits_are_exact() {
    let (k, rows) = (4_001, 33);
    let weights: [WindowWeights; 2] = [
        Panels::pack_whole(3, 16, k, 1.0, |_, _| &[-128.0; 4_001]).into(),
        WindowWeights::int16(3, 16, k, 1.0, |_, _| &[-255.0; 4_001]),
    ];
    let (bytes, halves) = (vec![255_u8; k + 3], vec![255_i16; k + 1]);
    let words =
        [Words::Bytes { bytes: &bytes, unit: 1.0 }, Words::Int16 { numbers: &halves, unit: 1.0 }];
    let starts = vec![0; rows];
    // Bytes count from 128 on.
    for ((words, weights), sum) in words.into_iter().zip(&weights).zip([-127 * 128, -255 * 255]) {
        let run = weights.panels.words();
        let windows = Windows { words, starts: &starts, runs: 1, run, apart: 0 };
        for isa in Isa::all() {
            let mut to = vec![0; rows * weights.width()];
            sum_windows(isa, &windows, weights, &mut to);
            assert!(to.iter().all(|found| *found == sum * k as i32), "{isa} {}", to[0]);
        }
    }
}

/// Sums of `f32` are not integers.
#[test]
fn exact_sums_are_those_of_integers() {
    let (weights, _) = packed(Packing::F32, 1, 16, 4, 3);
    let windows = Windows { words: Words::F32(&[0.0; 4]), starts: &[0], runs: 1, run: 4, apart: 0 };
    let mut to = [0; LANES];
    let run = || sum_windows(Isa::scalar(), &windows, &weights, &mut to);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
}
