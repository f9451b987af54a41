//! Comparison of blocks with a portable twin, which adds the same products in the same order.

use proptest::prelude::*;

use super::{Amx, Block, MAX_ROWS, ROW, TILE_WORDS, multiply_block};
use crate::lanes::LANES;
use crate::panels::Precision;

/// A block as numbers: `k` words of `rows` rows, `row_stride` words apart; weights of `vectors`
/// vectors; initial values, `start_stride` words apart.
struct Numbers {
    precision: Precision,
    rows: usize,
    vectors: usize,
    k: usize,
    words: Vec<u32>,
    row_stride: usize,
    weights: Vec<u32>,
    start: Vec<u32>,
    start_stride: usize,
}

/// The two bfloat16 of a word; denormal numbers are zeros.
fn halves(word: u32) -> [f32; 2] {
    [word << 16, word & 0xffff_0000].map(|bits| flush(f32::from_bits(bits)))
}

fn flush(x: f32) -> f32 {
    if x.is_subnormal() { 0.0_f32.copysign(x) } else { x }
}

impl Numbers {
    /// Returns the sum of an output of a row, by the definition of the instructions.
    fn sum(&self, row: usize, output: usize) -> u32 {
        let width = self.vectors * LANES;
        let mut bits = self.start[row * self.start_stride + output];
        for tile in 0..self.k.div_ceil(TILE_WORDS) {
            let mut parts = [0.0_f32; 2];
            for word in tile * TILE_WORDS..self.k.min((tile + 1) * TILE_WORDS) {
                let a = self.words[row * self.row_stride + word];
                let w = self.weights[word * width + output];
                if self.precision == Precision::Int8 {
                    let products = a.to_le_bytes().into_iter().zip(w.to_le_bytes());
                    let products = products.map(|(a, w)| i32::from(a) * i32::from(w.cast_signed()));
                    bits = bits.wrapping_add(products.sum::<i32>().cast_unsigned());
                } else {
                    let (a, w) = (halves(a), halves(w));
                    for (at, part) in parts.iter_mut().enumerate() {
                        *part = flush(a[at].mul_add(w[at], *part));
                    }
                }
            }
            if self.precision == Precision::Bf16 {
                let both = flush(parts[0] + parts[1]);
                bits = flush(flush(f32::from_bits(bits)) + both).to_bits();
            }
        }
        bits
    }

    /// Returns the sums of the processor, with `gap` words after each row that must not change.
    fn multiplied(&self, amx: Amx, gap: usize) -> Vec<u32> {
        let width = self.vectors * LANES;
        let stride = width + gap;
        let mut sums = vec![7; self.rows * stride];
        let bytes = |words: usize| (words * size_of::<u32>()).cast_signed();
        let block = Block {
            rows: self.words.as_ptr().cast(),
            row_stride: bytes(self.row_stride),
            words: self.k,
            weights: self.weights.as_ptr().cast(),
            word_stride: width * size_of::<u32>(),
            start: self.start.as_ptr().cast(),
            start_stride: bytes(self.start_stride),
            sums: sums.as_mut_ptr().cast(),
            sum_stride: bytes(stride),
        };
        assert!(self.words.len() >= (self.rows - 1) * self.row_stride + self.k);
        assert!(self.start.len() >= (self.rows - 1) * self.start_stride + width);
        assert_eq!(self.weights.len(), self.k * width);
        // SAFETY: as asserted, all rows have their words, initial values and sums.
        unsafe { multiply_block(amx, self.precision, self.rows, self.vectors, block) };
        sums
    }
}

/// Random words: bytes, or pairs of bfloat16 of magnitudes around 1, with some zeros.
fn words(precision: Precision, count: usize, seed: u64) -> Vec<u32> {
    let mut state = seed | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as u32
    };
    let half = |bits: u32| {
        let exponent = 120 + (bits >> 8 & 15);
        if bits >> 12 & 15 == 0 { 0 } else { (bits & 0x807f) | exponent << 7 }
    };
    let word = |bits: u32| match precision {
        Precision::Int8 => bits,
        _ => half(bits & 0xffff) | half(bits >> 16) << 16,
    };
    (0..count).map(|_| word(next())).collect()
}

fn check(amx: Amx, numbers: &Numbers, gap: usize) {
    let width = numbers.vectors * LANES;
    for (at, found) in numbers.multiplied(amx, gap).into_iter().enumerate() {
        let (row, output) = (at / (width + gap), at % (width + gap));
        let expected = if output < width { numbers.sum(row, output) } else { 7 };
        let what = format!("row {row}, output {output}");
        match numbers.precision {
            Precision::Bf16 if output < width => {
                let [found, expected] = [found, expected].map(f32::from_bits);
                let both_nan = found.is_nan() && expected.is_nan();
                assert!(found == expected || both_nan, "{what}: {found} and {expected}");
            }
            _ => assert_eq!(found, expected, "{what}"),
        }
    }
}

proptest! {
    #[test]
    fn blocks_add_the_products_of_the_twin_in_its_order(
        is_bytes: bool,
        rows in 1..=MAX_ROWS,
        vectors in 1_usize..=4,
        k in 1_usize..80,
        extra in 0_usize..20,
        gap in 0_usize..5,
        is_shared: bool,
        seed: u64,
    ) {
        let Some(amx) = Amx::detect() else { return Ok(()) };
        let precision = if is_bytes { Precision::Int8 } else { Precision::Bf16 };
        let (row_stride, width) = (k + extra, vectors * LANES);
        let start = words(Precision::Bf16, rows * width, seed ^ 1);
        let numbers = Numbers {
            precision,
            rows,
            vectors,
            k,
            // No row has more words than it needs, and the last ends at the end of its memory.
            words: words(precision, (rows - 1) * row_stride + k, seed),
            row_stride,
            weights: words(precision, k * width, seed ^ 2),
            start,
            start_stride: if is_shared { 0 } else { width },
        };
        check(amx, &numbers, gap);
    }
}

/// Numbers that are not finite, denormal ones, and the greatest.
#[test]
fn odd_numbers_are_those_of_the_twin() {
    let Some(amx) = Amx::detect() else { return };
    let halves = [0x7f80, 0xff80, 0x7fc0, 0x0001, 0x8040, 0x0080, 0x7f7f, 0x3f80, 0x8000_u32];
    for at in 0..halves.len() * halves.len() {
        let (a, w) = (halves[at / halves.len()], halves[at % halves.len()]);
        let single = |word: u32, count: usize, place: usize| {
            let mut words = vec![0x3f80_3f80; count];
            words[place] = word;
            words
        };
        let numbers = Numbers {
            precision: Precision::Bf16,
            rows: 1,
            vectors: 1,
            k: TILE_WORDS,
            words: single(a | 0x3f80 << 16, TILE_WORDS, 3),
            row_stride: TILE_WORDS,
            weights: single(w | 0x3f80 << 16, TILE_WORDS * LANES, 3 * LANES + 5),
            start: vec![0; LANES],
            start_stride: 0,
        };
        assert_eq!(numbers.weights.len() * size_of::<u32>(), TILE_WORDS * ROW);
        check(amx, &numbers, 0);
    }
}
