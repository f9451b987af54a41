//! Products of rows that lie in pieces and overlap: a convolution reads its input where it is.

#[cfg(test)]
mod tests;

use std::marker::PhantomData;

use crate::isa::Isa;
use crate::lanes::{Kernel, LANES, Lanes};
use crate::panels::{Panels, Precision};
use crate::tile::{self, Dot, F32, Int8, MAX_ROWS};

/// Rows of a matrix, each of `runs` runs of `run` words, `apart` from one run to the next.
#[derive(Clone, Copy, Debug)]
pub struct Windows<'a> {
    /// What they are windows of.
    pub words: Words<'a>,
    /// Where the first run of each row begins.
    pub starts: &'a [usize],
    /// Runs of a row.
    pub runs: usize,
    /// Words of a run.
    pub run: usize,
    /// Words from the beginning of a run to that of the next.
    pub apart: usize,
}

/// Numbers of one side of a product.
#[derive(Clone, Copy, Debug)]
pub enum Words<'a> {
    /// For weights of [`Precision::F32`].
    F32(&'a [f32]),
    /// For weights of [`Precision::Int8`]: four whole numbers a word, the first in the lowest bits, 128
    /// added to each.
    Bytes {
        /// Fours of them.
        words: &'a [u32],
        /// What a whole one is worth.
        unit: f32,
    },
}

impl Words<'_> {
    fn len(&self) -> usize {
        match self {
            Self::F32(words) => words.len(),
            Self::Bytes { words, .. } => words.len(),
        }
    }

    fn first(&self) -> *const u32 {
        match self {
            Self::F32(words) => words.as_ptr().cast(),
            Self::Bytes { words, .. } => words.as_ptr(),
        }
    }

    fn precision(&self) -> Precision {
        match self {
            Self::F32(_) => Precision::F32,
            Self::Bytes { .. } => Precision::Int8,
        }
    }
}

/// Multiplies all rows by all weights: row `r` of `to` is that of window `r`, its numbers those of all
/// panels, vectors and lanes in this order. Products of a sum are added in the order of k, whatever rows stand
/// beside, so that a row's numbers depend on nothing else.
///
/// # Panics
/// A row does not lie in the words or has not the weights' k, words and weights are of different precisions,
/// or `to` has not a number for each row and output.
pub fn multiply_windows(isa: Isa, windows: &Windows<'_>, weights: &Panels, to: &mut [f32]) {
    let Windows { words, starts, runs, run, apart } = *windows;
    assert_eq!(words.precision(), weights.precision(), "one precision");
    assert_eq!(runs.checked_mul(run), Some(weights.words()), "words of a row");
    let reach = runs.saturating_sub(1).checked_mul(apart).and_then(|last| last.checked_add(run));
    let reach = reach.expect("a row is shorter than memory");
    let room = words.len().checked_sub(reach);
    let is_inside = |start: &usize| room.is_some_and(|room| *start <= room);
    assert!(starts.iter().all(is_inside), "rows of {reach} words lie in {}", words.len());
    let width = weights.panels() * weights.vectors() * LANES;
    assert_eq!(Some(to.len()), starts.len().checked_mul(width), "a number for each output");
    match words {
        Words::F32(_) => isa.run(All::<F32> { windows, weights, to, of: PhantomData }),
        Words::Bytes { .. } => isa.run(All::<Int8> { windows, weights, to, of: PhantomData }),
    }
}

/// What becomes of sums.
trait Put: Dot {
    /// The token that has the products.
    type Token<S: Lanes>: Lanes;
    fn token<S: Lanes>(s: S) -> Self::Token<S>;
    /// # Safety
    /// `to` is valid for writes of 16 numbers, and `whole` for reads of them.
    unsafe fn put<S: Lanes>(s: S, to: *mut f32, sum: Self::Sum<S>, whole: Whole);
}

/// Of a vector of outputs: what is to be taken from whole sums, and what they are worth.
#[derive(Clone, Copy)]
struct Whole {
    scales: *const f32,
    excess: *const i32,
    unit: f32,
}

impl Put for F32 {
    type Token<S: Lanes> = S::Plain;
    #[inline(always)]
    fn token<S: Lanes>(s: S) -> S::Plain {
        s.plain()
    }
    #[inline(always)]
    unsafe fn put<S: Lanes>(s: S, to: *mut f32, sum: S::F, _: Whole) {
        // SAFETY: the caller vouches for 16 numbers.
        unsafe { s.store(to, sum) }
    }
}

impl Put for Int8 {
    type Token<S: Lanes> = S::Fours;
    #[inline(always)]
    fn token<S: Lanes>(s: S) -> S::Fours {
        s.fours()
    }
    #[inline(always)]
    unsafe fn put<S: Lanes>(s: S, to: *mut f32, sum: S::I, whole: Whole) {
        // SAFETY: the caller vouches for 16 numbers of all three.
        unsafe {
            let sum = s.to_f32(s.sub_i32(sum, s.load_i32(whole.excess)));
            let worth = s.mul(s.load(whole.scales), s.splat(whole.unit));
            s.store(to, s.mul(sum, worth));
        }
    }
}

/// All rows and panels.
struct All<'a, D> {
    windows: &'a Windows<'a>,
    weights: &'a Panels,
    to: &'a mut [f32],
    of: PhantomData<D>,
}

impl<D: Put> Kernel for All<'_, D> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let s = D::token(s);
        let Windows { words, starts, runs, run, apart } = *self.windows;
        let vectors = self.weights.vectors();
        let (lanes, panels) = (vectors * LANES, self.weights.panels());
        let unit = match words {
            Words::F32(_) => 1.0,
            Words::Bytes { unit, .. } => unit,
        };
        let most = tile::rows::<D::Token<S>>(Precision::F32, vectors);
        for panel in 0..panels {
            let (scales, excess): (&[f32], &[i32]) = match words {
                Words::F32(_) => (&[], &[]),
                Words::Bytes { .. } => self.weights.whole(panel..panel + 1),
            };
            let whole = Whole { scales: scales.as_ptr(), excess: excess.as_ptr(), unit };
            let mut done = 0;
            while done < starts.len() {
                let left = starts.len() - done;
                // Fewer than a tile has: the last rows again, or one by one.
                let (first, count) = match left {
                    _ if left >= most => (done, most),
                    _ if starts.len() >= most => (starts.len() - most, most),
                    _ => (done, 1),
                };
                let mut rows = [std::ptr::null(); MAX_ROWS];
                for (row, start) in rows.iter_mut().zip(&starts[first..first + count]) {
                    *row = words.first().wrapping_add(*start);
                }
                let to = self.to[first * lanes * panels + panel * lanes..].as_mut_ptr();
                let stride = lanes * panels;
                let panel = self.weights.panel(panel).as_ptr();
                let part = Part { rows, runs, run, apart, panel, to, stride, whole };
                of_rows::<_, D>(s, count, vectors, part);
                done = first + count;
            }
        }
    }
}

/// A few rows and one panel, or some of its vectors.
#[derive(Clone, Copy)]
struct Part {
    rows: [*const u32; MAX_ROWS],
    runs: usize,
    run: usize,
    apart: usize,
    panel: *const u32,
    to: *mut f32,
    stride: usize,
    whole: Whole,
}

impl Part {
    /// The same rows from another vector on.
    #[inline(always)]
    fn from(self, vector: usize) -> Self {
        let by = vector * LANES;
        let Whole { scales, excess, unit } = self.whole;
        let whole =
            Whole { scales: scales.wrapping_add(by), excess: excess.wrapping_add(by), unit };
        Self { panel: self.panel.wrapping_add(by), to: self.to.wrapping_add(by), whole, ..self }
    }
}

#[inline(always)]
fn of_rows<S: Lanes, D: Put>(s: S, rows: usize, vectors: usize, part: Part) {
    match rows {
        1 => of_vectors::<S, D, 1>(s, vectors, part),
        2 => of_vectors::<S, D, 2>(s, vectors, part),
        3 => of_vectors::<S, D, 3>(s, vectors, part),
        4 => of_vectors::<S, D, 4>(s, vectors, part),
        _ => of_vectors::<S, D, 6>(s, vectors, part),
    }
}

#[inline(always)]
fn of_vectors<S: Lanes, D: Put, const R: usize>(s: S, vectors: usize, part: Part) {
    match vectors {
        1 => sized::<S, D, R, 1, 1>(s, part),
        2 if S::WHOLE => sized::<S, D, R, 2, 2>(s, part),
        3 if S::WHOLE => sized::<S, D, R, 3, 3>(s, part),
        4 if S::WHOLE => sized::<S, D, R, 4, 4>(s, part),
        2 => (0..2).for_each(|vector| sized::<S, D, R, 1, 2>(s, part.from(vector))),
        3 => (0..3).for_each(|vector| sized::<S, D, R, 1, 3>(s, part.from(vector))),
        _ => (0..4).for_each(|vector| sized::<S, D, R, 1, 4>(s, part.from(vector))),
    }
}

#[inline(always)]
fn sized<S: Lanes, D: Put, const R: usize, const V: usize, const W: usize>(s: S, part: Part) {
    // [`tile::rows`] asks for no other; the condition keeps those from being compiled.
    let is_asked = const {
        let taken = if S::WHOLE { W } else { 1 };
        let most = if S::SUMS / taken < MAX_ROWS { S::SUMS / taken } else { MAX_ROWS };
        V == taken && (R == 1 || R == most)
    };
    if is_asked {
        s.call(Sized::<D, R, V, W>(part, PhantomData));
    }
}

/// `R` rows and `V` vectors, of the `W` of their panel.
struct Sized<D, const R: usize, const V: usize, const W: usize>(Part, PhantomData<D>);

impl<D: Put, const R: usize, const V: usize, const W: usize> Kernel for Sized<D, R, V, W> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let Self(part, _) = self;
        let mut sums = [[D::zero(s); V]; R];
        let mut weights = part.panel;
        // SAFETY: `multiply_windows` saw that all runs of all rows lie in the words, that the panel
        // has as many words, and that `to` has room for all vectors of all rows; of whole numbers, panels have
        // scales and excesses of all vectors.
        unsafe {
            for run in 0..part.runs {
                for word in 0..part.run {
                    for (row, sums) in part.rows.iter().zip(&mut sums) {
                        let a = *row.add(run * part.apart + word);
                        for (v, sum) in sums.iter_mut().enumerate() {
                            *sum = D::dot(s, *sum, a, weights.add(v * LANES));
                        }
                    }
                    weights = weights.add(W * LANES);
                }
            }
            for (r, sums) in sums.iter().enumerate() {
                for (v, sum) in sums.iter().enumerate() {
                    let Whole { scales, excess, unit } = part.whole;
                    let at = v * LANES;
                    let (scales, excess) = (scales.wrapping_add(at), excess.wrapping_add(at));
                    let to = part.to.add(r * part.stride + at);
                    D::put(s, to, *sum, Whole { scales, excess, unit });
                }
            }
        }
    }
}
