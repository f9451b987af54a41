//! Products that prefetch: while rows are multiplied, the weights needed next are loaded into the
//! cache.
//!
//! Accelerators overlap multiplication with weight loading by separate engines. A core has no such
//! engines, but its caches accept prefetch hints without waiting. One hint every few
//! multiplications keeps both busy; more hints at once would fill the miss queue and stall the
//! following multiplications.

#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::isa::Isa;
use crate::lanes::{Kernel, LANES, Lanes};
use crate::panels::{Panels, Precision};

/// Bytes of a cache line on most processors; on others, some lines are prefetched twice.
const LINE: usize = 64;
/// Minimum words that are multiplied between hints.
const ROUND: usize = 4;
/// Rows of a tile.
const ROWS: usize = crate::tile::MAX_ROWS;

/// Weights to prefetch.
#[derive(Clone, Debug)]
pub struct Prefetch<'a> {
    /// Packed weights.
    pub weights: &'a Panels,
    /// Range within their [`Panels::bytes`].
    pub bytes: Range<usize>,
}

/// Multiplies rows of `k` numbers by some panels of [`Precision::F32`] and meanwhile prefetches the
/// memory of `ahead`.
///
/// Hints are spread evenly; memory for which there is no time is not prefetched. Row `r` of `to`
/// receives the outputs of all these panels. Sums are bitwise equal to those of
/// [`crate::multiply_windows`].
///
/// # Panics
/// The weights were not packed by [`Panels::pack_matrix`] in [`Precision::F32`], panels or bytes
/// are out of range, `rows` is not a multiple of `k` numbers, or `to` is too short.
pub fn multiply_ahead(
    isa: Isa,
    rows: &[f32],
    (weights, panels): (&Panels, Range<usize>),
    to: &mut [f32],
    ahead: &[Prefetch<'_>],
) {
    assert_eq!(weights.precision(), Precision::F32, "weights in f32");
    assert_eq!(weights.vectors(), VECTORS, "panels of {VECTORS} vectors");
    assert!(panels.start <= panels.end && panels.end <= weights.panels(), "panels there are");
    let k = weights.k();
    assert!(k > 0 && rows.len().is_multiple_of(k), "rows of {k} numbers");
    let width = panels.len() * VECTORS * LANES;
    assert!(to.len() >= rows.len() / k * width, "room for each output");
    for part in ahead {
        assert!(part.bytes.end <= part.weights.bytes(), "bytes there are");
    }
    isa.run(Product { rows, k, weights, panels, to, ahead });
}

/// Vectors of a panel packed by [`Panels::pack_matrix`].
const VECTORS: usize = crate::panels::MAX_VECTORS;

struct Product<'a> {
    rows: &'a [f32],
    k: usize,
    weights: &'a Panels,
    panels: Range<usize>,
    to: &'a mut [f32],
    ahead: &'a [Prefetch<'a>],
}

impl Kernel for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let s = s.plain();
        let (k, all) = (self.k, self.rows.len() / self.k);
        let width = self.panels.len() * VECTORS * LANES;
        // With few registers, a tile takes one vector after another.
        let passes = if <S::Plain as Lanes>::WHOLE { 1 } else { VECTORS };
        let tiles = if all >= ROWS { all.div_ceil(ROWS) } else { all };
        let rounds = self.panels.len() * tiles * passes * (k / ROUND);
        let mut hints = Hints::new(self.ahead, rounds);
        for (at, panel) in self.panels.clone().enumerate() {
            let weights = self.weights.panel(panel);
            let mut done = 0;
            while done < all {
                // If fewer rows than a tile are left, repeats the last rows, or takes single rows.
                let (first, count) = match all - done {
                    left if left >= ROWS => (done, ROWS),
                    _ if all >= ROWS => (all - ROWS, ROWS),
                    _ => (done, 1),
                };
                let rows = &self.rows[first * k..(first + count) * k];
                let to = &mut self.to[first * width + at * VECTORS * LANES..];
                let mut tile = Tile { rows, k, weights, to, width };
                match (count == 1, <S::Plain as Lanes>::WHOLE) {
                    (true, _) => tile.multiply::<_, 1, VECTORS>(s, 0, &mut hints),
                    (false, true) => tile.multiply::<_, ROWS, VECTORS>(s, 0, &mut hints),
                    (false, false) => (0..VECTORS)
                        .for_each(|vector| tile.multiply::<_, ROWS, 1>(s, vector, &mut hints)),
                }
                done = first + count;
            }
        }
    }
}

/// Some rows and a panel.
///
/// The tile of `tile.rs` is not used: it gives a single row several sums per output and adds them
/// at the end, so its results are not bitwise equal to those of [`crate::multiply_windows`].
/// Besides, every engine's innermost loop would carry hints that only this one needs.
struct Tile<'a> {
    rows: &'a [f32],
    k: usize,
    weights: &'a [u32],
    to: &'a mut [f32],
    width: usize,
}

impl Tile<'_> {
    /// Multiplies `R` rows by `V` vectors of the panel, from `vector` on.
    #[inline(always)]
    fn multiply<S: Lanes, const R: usize, const V: usize>(
        &mut self,
        s: S,
        vector: usize,
        hints: &mut Hints<'_>,
    ) {
        let k = self.k;
        let mut sums = [[s.splat(0.0); V]; R];
        assert!(self.rows.len() >= R * k && self.weights.len() >= k * VECTORS * LANES);
        assert!(vector + V <= VECTORS && self.to.len() >= (R - 1) * self.width + VECTORS * LANES);
        let (rows, weights) =
            (self.rows.as_ptr(), self.weights.as_ptr().wrapping_add(vector * LANES));
        let step = |word: usize, sums: &mut [[S::F; V]; R]| {
            for (r, sums) in sums.iter_mut().enumerate() {
                // SAFETY: `word` < k. As asserted, `rows` holds R rows of k numbers, and `weights`
                // k x VECTORS vectors, of which `vector + V` are in range.
                unsafe {
                    let a = s.splat(*rows.add(r * k + word));
                    for (v, sum) in sums.iter_mut().enumerate() {
                        let at = weights.add((word * VECTORS + v) * LANES);
                        *sum = s.fma(a, s.load(at.cast()), *sum);
                    }
                }
            }
        };
        let mut word = 0;
        while word + ROUND <= k {
            for at in 0..ROUND {
                step(word + at, &mut sums);
            }
            hints.round();
            word += ROUND;
        }
        while word < k {
            step(word, &mut sums);
            word += 1;
        }
        let to = self.to.as_mut_ptr().wrapping_add(vector * LANES);
        for (r, sums) in sums.iter().enumerate() {
            for (v, sum) in sums.iter().enumerate() {
                // SAFETY: as asserted, `to` holds R rows `width` apart with at least VECTORS
                // vectors each.
                unsafe { s.store(to.add(r * self.width + v * LANES), *sum) };
            }
        }
    }
}

/// Prefetch hints, spread evenly over rounds.
struct Hints<'a> {
    ahead: &'a [Prefetch<'a>],
    /// Next line of the current part, and its end.
    next: *const u8,
    end: *const u8,
    /// Lines that may be requested now, in units of 1 / [`Hints::ONE`], and the increment per
    /// round.
    credit: u64,
    of_round: u64,
}

impl<'a> Hints<'a> {
    const ONE: u64 = 1 << 16;
    /// Maximum lines per round; more would queue.
    const MOST: u64 = 4;

    #[inline(always)]
    fn new(ahead: &'a [Prefetch<'a>], rounds: usize) -> Self {
        let lines: usize = ahead.iter().map(|part| part.bytes.len().div_ceil(LINE)).sum();
        let of_round = (lines as u64 * Self::ONE).div_ceil(rounds.max(1) as u64);
        let none = std::ptr::null();
        let of_round = of_round.min(Self::MOST * Self::ONE);
        Self { ahead, next: none, end: none, credit: 0, of_round }
    }

    #[inline(always)]
    fn round(&mut self) {
        self.credit += self.of_round;
        while self.credit >= Self::ONE {
            self.credit -= Self::ONE;
            if self.next >= self.end && !self.turn() {
                self.of_round = 0;
                return;
            }
            ask_for(self.next);
            self.next = self.next.wrapping_add(LINE);
        }
    }

    /// Advances to the next part that has bytes; returns false without one.
    fn turn(&mut self) -> bool {
        while let [part, rest @ ..] = self.ahead {
            self.ahead = rest;
            if !part.bytes.is_empty() {
                let first = part.weights.panel(0).as_ptr().cast::<u8>();
                self.next = first.wrapping_add(part.bytes.start);
                self.end = first.wrapping_add(part.bytes.end);
                return true;
            }
        }
        false
    }
}

/// Requests the line of an address without waiting. Stable Rust has such a hint on x86-64 only.
#[inline(always)]
fn ask_for(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch hint has no visible effect at any address, and SSE is part of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
