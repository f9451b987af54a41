//! Comparison of tiles of all sizes with plain loops.

use super::{MAX_ROWS, Start, Tile, multiply, rows};
use crate::isa::Isa;
use crate::lanes::{Kernel, LANES, Lanes};
use crate::panels::{Panels, Precision};

/// Sums of a tile for each number of rows that the instruction set supports.
struct Tiles<'a> {
    panels: &'a Panels,
    /// `MAX_ROWS` rows.
    a: &'a [u32],
    start: &'a [f32],
    start_stride: usize,
}

impl Kernel for Tiles<'_> {
    type Output = Vec<Vec<f32>>;

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) -> Self::Output {
        let Self { panels, a, start, start_stride } = self;
        let (words, vectors) = (panels.words(), panels.vectors());
        let tile = |count: usize| {
            // Gaps between rows of sums must stay unchanged.
            let stride = vectors * LANES + 3;
            let mut sums = vec![-7.0; MAX_ROWS * stride];
            let rows: [_; MAX_ROWS] = std::array::from_fn(|row| a[row * words..].as_ptr());
            let to: [_; MAX_ROWS] = std::array::from_fn(|row| sums[row * stride..].as_mut_ptr());
            let from: [_; MAX_ROWS] =
                std::array::from_fn(|row| start[(row * start_stride).min(start.len())..].as_ptr());
            let start = match start_stride {
                _ if start.is_empty() => Start::Zeros,
                0 => Start::Same(start.as_ptr()),
                _ => Start::Rows(from.as_ptr(), 0),
            };
            let tile = Tile {
                rows: rows.as_ptr(),
                first: 0,
                words,
                panel: panels.panel(0).as_ptr(),
                start,
                sums: to.as_ptr(),
                column: 0,
            };
            // SAFETY: there are rows, weights, starts and sums for `MAX_ROWS` rows.
            unsafe { multiply(s, panels.precision(), count, vectors, tile) };
            sums
        };
        (1..=rows::<S>(panels.precision(), vectors)).map(tile).collect()
    }
}

/// The values of a word, bytes as `u8`.
fn values(precision: Precision, word: u32) -> Vec<f64> {
    let half = |half: u32| f64::from(f32::from_bits(half << 16));
    match precision {
        Precision::F32 => vec![f64::from(f32::from_bits(word))],
        Precision::Bf16 => vec![half(word & 0xffff), half(word >> 16)],
        Precision::Int8 => word.to_le_bytes().map(f64::from).to_vec(),
    }
}

/// The packed weights of an output, as integers if they are.
fn weights(panels: &Panels, vector: usize, lane: usize) -> Vec<f64> {
    let of = |word: usize| {
        let at = (word * panels.vectors() + vector) * LANES + lane;
        let word = panels.panel(0)[at];
        match panels.precision() {
            Precision::Int8 => {
                word.to_le_bytes().map(|byte| f64::from(byte.cast_signed())).to_vec()
            }
            precision => values(precision, word),
        }
    };
    (0..panels.words()).flat_map(of).collect()
}

/// A number between -1 and 1 for each index.
fn number(at: usize) -> f32 {
    (at.wrapping_mul(2_654_435_761) % 2001) as f32 / 1000.0 - 1.0
}

/// Rounding errors of a sum of `words` words, in units in the last place of its greatest term.
fn tolerance(words: usize) -> f64 {
    (2 * words + 8) as f64 * 2.0_f64.powi(-24)
}

fn check(isa: Isa, panels: &Panels, has_start: bool, is_shared: bool) {
    let (precision, vectors) = (panels.precision(), panels.vectors());
    let words = panels.words();
    let word = |at: usize| match precision {
        Precision::F32 => number(at).to_bits(),
        Precision::Bf16 => {
            let half = |at| number(at).to_bits() >> 16;
            half(2 * at) | half(2 * at + 1) << 16
        }
        Precision::Int8 => (at as u32).wrapping_mul(2_654_435_761),
    };
    // The last row must not be read beyond its end.
    let a: Vec<u32> = (0..MAX_ROWS * words + 1).map(word).collect();
    let start_stride = if is_shared { 0 } else { vectors * LANES };
    let starts = |at: usize| match precision {
        Precision::Int8 => f32::from_bits((at as u32).wrapping_mul(1_000_003)),
        _ => number(at * 3),
    };
    let starts: Vec<f32> = (0..MAX_ROWS * vectors * LANES).map(starts).collect();
    let start: &[f32] = if has_start { &starts } else { &[] };
    let run = || isa.run(Tiles { panels, a: &a, start, start_stride });
    let (found, again) = (run(), run());
    for (rows, (sums, again)) in found.iter().zip(&again).enumerate() {
        let (rows, stride) = (rows + 1, vectors * LANES + 3);
        for (at, sum) in sums.iter().enumerate() {
            let (row, column) = (at / stride, at % stride);
            let what = format!("{precision:?} {rows}x{vectors}x{words} row {row} {column} {isa}");
            assert_eq!(sum.to_bits(), again[at].to_bits(), "twice: {what}");
            if row >= rows || column >= vectors * LANES {
                assert_eq!(*sum, -7.0, "touched: {what}");
                continue;
            }
            let (vector, lane) = (column / LANES, column % LANES);
            let first = start.get(row * start_stride + column).copied().unwrap_or(0.0);
            let row = a[row * words..][..words].iter().flat_map(|word| values(precision, *word));
            let products: Vec<f64> =
                row.zip(weights(panels, vector, lane)).map(|(a, w)| a * w).collect();
            if precision == Precision::Int8 {
                let products = products.iter().map(|product| *product as i32);
                let whole = products.fold(first.to_bits().cast_signed(), i32::wrapping_add);
                assert_eq!(sum.to_bits().cast_signed(), whole, "{what}");
            } else {
                let expected = f64::from(first) + products.iter().sum::<f64>();
                let parts = products.iter().fold(f64::from(first).abs(), |sum, p| sum + p.abs());
                let error = (f64::from(*sum) - expected).abs();
                assert!(error <= parts * tolerance(words), "{sum} {expected} {what}");
            }
        }
    }
}

#[test]
fn tiles_of_all_sizes_are_plain_products() {
    for precision in [Precision::F32, Precision::Bf16, Precision::Int8] {
        for vectors in 1..=4 {
            for k in [0, 1, 2, 3, 4, 5, 7, 13, 64, 129] {
                let rows: Vec<f32> =
                    (0..vectors * LANES * k).map(|at| number(at * 5 + 1)).collect();
                let panels = Panels::pack(precision, vectors, LANES, k, |vector, unit| {
                    &rows[(vector * LANES + unit) * k..][..k]
                });
                for isa in Isa::all() {
                    check(isa, &panels, false, true);
                    check(isa, &panels, true, true);
                    check(isa, &panels, true, false);
                }
            }
        }
    }
    assert!(tolerance(129) < 2e-5);
}
