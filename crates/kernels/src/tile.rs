//! The innermost loop: a few rows times one panel, with sums in registers.

#[cfg(test)]
mod tests;

use crate::lanes::{Kernel, LANES, Lanes};
use crate::panels::Precision;

/// Maximum rows of a tile. The sums of six rows with four vectors, and their operands, fill the 32
/// registers of AVX-512.
pub(crate) const MAX_ROWS: usize = 6;

/// Operands of a tile: words of some rows, a panel, and the start and destination of the sums. The
/// code that builds a tile (`execute/worker.rs`) guarantees that its pointers are valid.
#[derive(Clone, Copy)]
pub(crate) struct Tile {
    /// Pointers to the words of each row.
    pub rows: *const *const u32,
    /// First word of each row to multiply.
    pub first: usize,
    pub words: usize,
    /// `words` x `vectors` x 16 words.
    pub panel: *const u32,
    pub start: Start,
    /// Destination of each row's sums: `vectors` x 16 numbers from `column` on.
    pub sums: *const *mut f32,
    pub column: usize,
}

impl Tile {
    /// Returns the tile of the same rows from another vector of the panel on.
    #[inline(always)]
    fn at_vector(self, vector: usize) -> Self {
        let by = vector * LANES;
        let start = match self.start {
            Start::Zeros => Start::Zeros,
            Start::Same(start) => Start::Same(start.wrapping_add(by)),
            Start::Rows(rows, column) => Start::Rows(rows, column + by),
        };
        Self { panel: self.panel.wrapping_add(by), start, column: self.column + by, ..self }
    }
}

/// Initial values of sums.
#[derive(Clone, Copy)]
pub(crate) enum Start {
    Zeros,
    /// `vectors` x 16 numbers, shared by all rows.
    Same(*const f32),
    /// `vectors` x 16 numbers of each row, from a column on.
    Rows(*const *const f32, usize),
}

/// Multiplication and addition in one precision.
pub(crate) trait Dot {
    type Sum<S: Lanes>: Copy;
    fn zero<S: Lanes>(s: S) -> Self::Sum<S>;
    fn add<S: Lanes>(s: S, a: Self::Sum<S>, b: Self::Sum<S>) -> Self::Sum<S>;
    /// Loads 16 sums.
    ///
    /// # Safety
    /// `from` is valid for reads of 16 words.
    unsafe fn load<S: Lanes>(s: S, from: *const f32) -> Self::Sum<S>;
    /// Stores 16 sums.
    ///
    /// # Safety
    /// `to` is valid for writes of 16 words.
    unsafe fn store<S: Lanes>(s: S, to: *mut f32, sum: Self::Sum<S>);
    /// Adds the products of one word with 16 words of weights.
    ///
    /// # Safety
    /// `weights` is valid for reads of 16 words.
    unsafe fn dot<S: Lanes>(s: S, sum: Self::Sum<S>, a: u32, weights: *const u32) -> Self::Sum<S>;
}

pub(crate) struct F32;
struct Bf16;
pub(crate) struct Int8;

/// Sums in `f32`.
macro_rules! sums_in_f32 {
    () => {
        type Sum<S: Lanes> = S::F;
        #[inline(always)]
        fn zero<S: Lanes>(s: S) -> S::F {
            s.splat(0.0)
        }
        #[inline(always)]
        fn add<S: Lanes>(s: S, a: S::F, b: S::F) -> S::F {
            s.add(a, b)
        }
        #[inline(always)]
        unsafe fn load<S: Lanes>(s: S, from: *const f32) -> S::F {
            // SAFETY: the caller guarantees that `from` is valid for reads of 16 words.
            unsafe { s.load(from) }
        }
        #[inline(always)]
        unsafe fn store<S: Lanes>(s: S, to: *mut f32, sum: S::F) {
            // SAFETY: the caller guarantees that `to` is valid for writes of 16 words.
            unsafe { s.store(to, sum) }
        }
    };
}

impl Dot for F32 {
    sums_in_f32!();
    #[inline(always)]
    unsafe fn dot<S: Lanes>(s: S, sum: S::F, a: u32, weights: *const u32) -> S::F {
        // SAFETY: the caller guarantees that `weights` is valid for reads of 16 words.
        s.fma(s.splat(f32::from_bits(a)), unsafe { s.load(weights.cast()) }, sum)
    }
}

impl Dot for Bf16 {
    sums_in_f32!();
    #[inline(always)]
    unsafe fn dot<S: Lanes>(s: S, sum: S::F, a: u32, weights: *const u32) -> S::F {
        // SAFETY: the caller guarantees that `weights` is valid for reads of 16 words.
        unsafe { s.dot_bf16(sum, a, weights.cast()) }
    }
}

/// Sums in `i32`, with an integer product.
macro_rules! sums_in_i32 {
    ($dot:ident) => {
        type Sum<S: Lanes> = S::I;
        #[inline(always)]
        fn zero<S: Lanes>(s: S) -> S::I {
            s.zero_i32()
        }
        #[inline(always)]
        fn add<S: Lanes>(s: S, a: S::I, b: S::I) -> S::I {
            s.add_i32(a, b)
        }
        #[inline(always)]
        unsafe fn load<S: Lanes>(s: S, from: *const f32) -> S::I {
            // SAFETY: the caller guarantees that `from` is valid for reads of 16 words.
            unsafe { s.load_i32(from.cast()) }
        }
        #[inline(always)]
        unsafe fn store<S: Lanes>(s: S, to: *mut f32, sum: S::I) {
            // SAFETY: the caller guarantees that `to` is valid for writes of 16 words.
            unsafe { s.store_i32(to.cast(), sum) }
        }
        #[inline(always)]
        unsafe fn dot<S: Lanes>(s: S, sum: S::I, a: u32, weights: *const u32) -> S::I {
            // SAFETY: the caller guarantees that `weights` is valid for reads of 16 words.
            unsafe { s.$dot(sum, a, weights.cast()) }
        }
    };
}
pub(crate) use sums_in_i32;

impl Dot for Int8 {
    sums_in_i32!(dot_i8);
}

/// A tile of `R` rows and `V` of the `W` vectors of its panel.
struct SizedTile<D, const R: usize, const V: usize, const W: usize>(
    Tile,
    std::marker::PhantomData<D>,
);

impl<D: Dot, const R: usize, const V: usize, const W: usize> SizedTile<D, R, V, W> {
    /// Multiplies with `U` sums per output, each over every `U`th word: few rows have too few sums
    /// to keep the multipliers busy during the latency of an addition.
    #[inline(always)]
    fn multiply<S: Lanes, const U: usize>(&self, s: S) {
        let Self(tile, _) = self;
        let mut sums = [[[D::zero(s); V]; R]; U];
        // SAFETY: the caller of `multiply` guarantees that the tile is valid for R rows and W
        // vectors, of which this tile has V: `start` and `sums` have V vectors of each of R rows,
        // `panel` has `words` x W vectors, and `rows` has R rows with `words` words from `first`
        // on.
        unsafe {
            for (r, sums) in sums[0].iter_mut().enumerate() {
                let start = match tile.start {
                    Start::Zeros => break,
                    Start::Same(start) => start,
                    Start::Rows(rows, column) => (*rows.add(r)).add(column),
                };
                for (v, sum) in sums.iter_mut().enumerate() {
                    *sum = D::load(s, start.add(v * LANES));
                }
            }
            let mut rows = [std::ptr::null(); R];
            for (r, row) in rows.iter_mut().enumerate() {
                *row = (*tile.rows.add(r)).add(tile.first);
            }
            let mut word = 0;
            // Four words per round: fewer rounds mean fewer mispredictions of the last.
            while word + 4 <= tile.words {
                for at in 0..4 {
                    Self::step(s, tile, &rows, word + at, &mut sums[at % U]);
                }
                word += 4;
            }
            while word < tile.words {
                Self::step(s, tile, &rows, word, &mut sums[0]);
                word += 1;
            }
            for r in 0..R {
                let to = (*tile.sums.add(r)).add(tile.column);
                for v in 0..V {
                    let mut sum = sums[0][r][v];
                    for more in &sums[1..] {
                        sum = D::add(s, sum, more[r][v]);
                    }
                    D::store(s, to.add(v * LANES), sum);
                }
            }
        }
    }

    /// Adds the products of one word.
    ///
    /// # Safety
    /// The tile is valid, and `word` is below its words.
    #[inline(always)]
    unsafe fn step<S: Lanes>(
        s: S,
        tile: &Tile,
        rows: &[*const u32; R],
        word: usize,
        sums: &mut [[D::Sum<S>; V]; R],
    ) {
        // SAFETY: the caller guarantees that the tile is valid and `word` is in range.
        unsafe {
            let weights = tile.panel.add(word * W * LANES);
            for (r, sums) in sums.iter_mut().enumerate() {
                let a = *rows[r].add(word);
                for (v, sum) in sums.iter_mut().enumerate() {
                    *sum = D::dot(s, *sum, a, weights.add(v * LANES));
                }
            }
        }
    }
}

impl<D: Dot, const R: usize, const V: usize, const W: usize> Kernel for SizedTile<D, R, V, W> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        // The conditions are constant, so that only one of the three is compiled.
        if const { S::SUMS >= 4 * R * V } {
            self.multiply::<S, 4>(s);
        } else if const { S::SUMS >= 2 * R * V } {
            self.multiply::<S, 2>(s);
        } else {
            self.multiply::<S, 1>(s);
        }
    }
}

/// Maximum rows of a tile with `vectors` vectors whose sums stay in registers.
#[inline(always)]
pub(crate) fn rows<S: Lanes>(precision: Precision, vectors: usize) -> usize {
    // With few registers, splitting pairs into halves needs the registers of two rows.
    if !S::WHOLE && precision == Precision::Bf16 {
        return S::SUMS - 2;
    }
    (S::SUMS / if S::WHOLE { vectors } else { 1 }).clamp(1, MAX_ROWS)
}

/// Multiplies a tile of `rows` rows and `vectors` vectors.
///
/// # Safety
/// The tile is valid for that many rows and vectors; `rows` is 1 to 6, `vectors` 1 to 4.
#[inline(always)]
pub(crate) unsafe fn multiply<S: Lanes>(
    s: S,
    precision: Precision,
    rows: usize,
    vectors: usize,
    tile: Tile,
) {
    match precision {
        Precision::F32 => dispatch_rows::<S::Plain, F32>(s.plain(), rows, vectors, tile),
        Precision::Bf16 => dispatch_rows::<S::Pairs, Bf16>(s.pairs(), rows, vectors, tile),
        Precision::Int8 => dispatch_rows::<S::Fours, Int8>(s.fours(), rows, vectors, tile),
    }
}

#[inline(always)]
fn dispatch_rows<S: Lanes, D: Dot>(s: S, rows: usize, vectors: usize, tile: Tile) {
    match rows {
        1 => dispatch_vectors::<S, D, 1>(s, vectors, tile),
        2 => dispatch_vectors::<S, D, 2>(s, vectors, tile),
        3 => dispatch_vectors::<S, D, 3>(s, vectors, tile),
        4 => dispatch_vectors::<S, D, 4>(s, vectors, tile),
        5 => dispatch_vectors::<S, D, 5>(s, vectors, tile),
        _ => dispatch_vectors::<S, D, 6>(s, vectors, tile),
    }
}

#[inline(always)]
fn dispatch_vectors<S: Lanes, D: Dot, const R: usize>(s: S, vectors: usize, tile: Tile) {
    match vectors {
        1 => sized::<S, D, R, 1, 1>(s, tile),
        2 if S::WHOLE || R == 1 => sized::<S, D, R, 2, 2>(s, tile),
        3 if S::WHOLE || R == 1 => sized::<S, D, R, 3, 3>(s, tile),
        4 if S::WHOLE || R == 1 => sized::<S, D, R, 4, 4>(s, tile),
        2 => (0..2).for_each(|vector| sized::<S, D, R, 1, 2>(s, tile.at_vector(vector))),
        3 => (0..3).for_each(|vector| sized::<S, D, R, 1, 3>(s, tile.at_vector(vector))),
        _ => (0..4).for_each(|vector| sized::<S, D, R, 1, 4>(s, tile.at_vector(vector))),
    }
}

#[inline(always)]
fn sized<S: Lanes, D: Dot, const R: usize, const V: usize, const W: usize>(s: S, tile: Tile) {
    // [`rows`] permits no other sizes; the condition keeps them from being compiled.
    let is_asked =
        const { R == 1 && V == W || R * V <= S::SUMS && (V == if S::WHOLE { W } else { 1 }) };
    if is_asked {
        s.call(SizedTile::<D, R, V, W>(tile, std::marker::PhantomData));
    }
}
