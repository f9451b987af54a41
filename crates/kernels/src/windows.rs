//! Products of rows that lie in pieces and overlap: a convolution reads its input where it is.

#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod tiles;

use std::marker::PhantomData;

use crate::isa::Isa;
use crate::lanes::{Kernel, LANES, Lanes};
use crate::panels::{Panels, Precision};
use crate::tile::{Dot, F32, Int8, MAX_ROWS, sums_in_i32};

/// Rows of a matrix, each of `runs` runs of `run` words, `apart` from one run to the next.
#[derive(Clone, Copy, Debug)]
pub struct Windows<'a> {
    /// What they are windows of.
    pub words: Words<'a>,
    /// At which number (byte, `i16`) the first run of each row begins.
    pub starts: &'a [usize],
    /// Runs of a row.
    pub runs: usize,
    /// Words of a run: one for each number, each four bytes or two `i16`. Where a run has no whole number of words,
    /// its last one reaches beyond it, and the weights there are zeros.
    pub run: usize,
    /// Numbers (bytes, `i16`) from the beginning of a run to that of the next.
    pub apart: usize,
}

/// Numbers of one side of a product.
#[derive(Clone, Copy, Debug)]
pub enum Words<'a> {
    /// For panels of [`Precision::F32`].
    F32(&'a [f32]),
    /// For panels of [`Precision::Int8`]: whole numbers, 128 added to each.
    Bytes {
        /// One after the other.
        bytes: &'a [u8],
        /// What a whole one is worth.
        unit: f32,
    },
    /// For [`Weights::int16`]: whole numbers, two of them a word. The sums of products must fit 32
    /// bits; those that do not wrap.
    Int16 {
        /// One after the other.
        numbers: &'a [i16],
        /// What a whole one is worth.
        unit: f32,
    },
}

impl Words<'_> {
    fn len(&self) -> usize {
        match self {
            Self::F32(words) => words.len(),
            Self::Bytes { bytes, .. } => bytes.len(),
            Self::Int16 { numbers, .. } => numbers.len(),
        }
    }

    fn first(&self) -> *const u8 {
        match self {
            Self::F32(words) => words.as_ptr().cast(),
            Self::Bytes { bytes, .. } => bytes.as_ptr(),
            Self::Int16 { numbers, .. } => numbers.as_ptr().cast(),
        }
    }

    /// Bytes of one of [`Words::len`].
    fn size(&self) -> usize {
        match self {
            Self::F32(_) => size_of::<f32>(),
            Self::Bytes { .. } => 1,
            Self::Int16 { .. } => size_of::<i16>(),
        }
    }

    /// Of whole numbers.
    fn unit(&self) -> Option<f32> {
        match self {
            Self::F32(_) => None,
            Self::Bytes { unit, .. } | Self::Int16 { unit, .. } => Some(*unit),
        }
    }

    fn fit(&self, weights: &Weights) -> bool {
        let precision = weights.panels.precision();
        match self {
            Self::F32(_) => !weights.are_int16 && precision == Precision::F32,
            Self::Bytes { .. } => !weights.are_int16 && precision == Precision::Int8,
            Self::Int16 { .. } => weights.are_int16,
        }
    }
}

/// What windows are multiplied by: panels, or whole numbers of 16 bits in the order of panels.
#[derive(Debug)]
pub struct Weights {
    panels: Panels,
    are_int16: bool,
}

impl From<Panels> for Weights {
    fn from(panels: Panels) -> Self {
        Self { panels, are_int16: false }
    }
}

impl Weights {
    /// Weights that are whole numbers of `unit`, from -32768 to 32767 of them, which are held exactly; in the
    /// order of [`Panels::pack`].
    ///
    /// # Panics
    /// `vectors` is not 1 to 4, or a row is not of `k` weights.
    pub fn int16<'a>(
        vectors: usize,
        units: usize,
        k: usize,
        unit: f32,
        row: impl Fn(usize, usize) -> &'a [f32],
    ) -> Self {
        Self {
            panels: Panels::packed(Precision::Bf16, vectors, units, k, Some(unit), row),
            are_int16: true,
        }
    }

    /// Numbers of a row of sums: those of all panels, vectors and lanes.
    #[must_use]
    pub fn width(&self) -> usize {
        self.panels.panels() * self.panels.vectors() * LANES
    }

    /// What a product with all of them reads.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.panels.bytes()
    }
}

/// Multiplies all rows by all weights: row `r` of `to` is that of window `r`, its numbers those of all
/// panels, vectors and lanes in this order. Products of a sum are added in the order of k, whatever rows stand
/// beside, so that a row's numbers depend on nothing else.
///
/// # Panics
/// A row does not lie in the words or has not the weights' k, words and weights are held differently,
/// or `to` has not a number for each row and output.
pub fn multiply_windows(isa: Isa, windows: &Windows<'_>, weights: &Weights, to: &mut [f32]) {
    let Windows { words, starts, runs, run, apart } = *windows;
    assert!(words.fit(weights), "words of the other side are held as those of weights");
    let (width, weights) = (weights.width(), &weights.panels);
    assert_eq!(runs.checked_mul(run), Some(weights.words()), "words of a row");
    let last = runs.saturating_sub(1).checked_mul(apart);
    let whole = run.checked_mul(size_of::<u32>() / words.size());
    let reach = last.zip(whole).and_then(|(last, whole)| last.checked_add(whole));
    let reach = reach.expect("a row is shorter than memory");
    let room = words.len().checked_sub(reach);
    let is_inside = |start: &usize| room.is_some_and(|room| *start <= room);
    assert!(starts.iter().all(is_inside), "rows of {reach} lie in {}", words.len());
    assert_eq!(Some(to.len()), starts.len().checked_mul(width), "a number for each output");
    #[cfg(target_arch = "x86_64")]
    if let (Words::Bytes { bytes, unit }, Some(amx)) = (words, isa.tiles())
        && starts.len() >= tiles::LEAST_ROWS
    {
        return tiles::multiply(amx, windows, (bytes, unit), weights, to);
    }
    match words {
        Words::F32(_) => isa.run(All::<F32> { windows, weights, to, of: PhantomData }),
        Words::Bytes { .. } if weights.few().is_some() => {
            isa.run(All::<Few> { windows, weights, to, of: PhantomData });
        }
        Words::Bytes { .. } => isa.run(All::<Int8> { windows, weights, to, of: PhantomData }),
        Words::Int16 { .. } => isa.run(All::<Int16> { windows, weights, to, of: PhantomData }),
    }
}

/// `i16` times `i16`.
struct Int16;

impl Dot for Int16 {
    sums_in_i32!(dot_i16);
}

/// Bytes times weights so small that products of several words fit 16 bits.
struct Few;

impl Dot for Few {
    sums_in_i32!(dot_few);
}

/// What becomes of sums.
trait Put: Dot {
    /// The token that has the products.
    type Token<S: Lanes>: Lanes;
    fn token<S: Lanes>(s: S) -> Self::Token<S>;
    /// Whether products are settled every few words.
    const IS_FEW: bool = false;
    /// `sum`, with what the products of some words came to: all of them, where nothing is settled in between.
    #[inline(always)]
    fn settled<S: Lanes>(_: S, _: Self::Sum<S>, all: Self::Sum<S>) -> Self::Sum<S> {
        all
    }
    /// Registers beside those of sums, of a token whose vectors are two each, in vectors: weights and inputs that
    /// are taken apart would push sums of as many rows into memory.
    const BESIDE: usize = 0;
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

/// Whole sums, less what was added to each byte, are worth their units.
macro_rules! put_whole {
    () => {
        type Token<S: Lanes> = S::Fours;
        #[inline(always)]
        fn token<S: Lanes>(s: S) -> S::Fours {
            s.fours()
        }
        #[inline(always)]
        unsafe fn put<S: Lanes>(s: S, to: *mut f32, sum: S::I, whole: Whole) {
            // SAFETY: the caller vouches for 16 numbers of all three.
            unsafe { put_sum(s, to, sum, whole) }
        }
    };
}

/// # Safety
/// As [`Put::put`].
#[inline(always)]
unsafe fn put_sum<S: Lanes>(s: S, to: *mut f32, sum: S::I, whole: Whole) {
    // SAFETY: the caller vouches for 16 numbers of all three.
    unsafe {
        let sum = s.to_f32(s.sub_i32(sum, s.load_i32(whole.excess)));
        let worth = s.mul(s.load(whole.scales), s.splat(whole.unit));
        s.store(to, s.mul(sum, worth));
    }
}

impl Put for Int8 {
    const BESIDE: usize = 2;
    put_whole!();
}

impl Put for Int16 {
    put_whole!();
}

impl Put for Few {
    const IS_FEW: bool = true;
    put_whole!();
    #[inline(always)]
    fn settled<S: Lanes>(s: S, sum: S::I, few: S::I) -> S::I {
        s.settle(sum, few)
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
        let unit = words.unit();
        let apart = apart * words.size();
        let few = self.weights.few().unwrap_or(usize::MAX);
        let most = rows::<D::Token<S>, D>(vectors);
        for panel in 0..panels {
            let (scales, excess): (&[f32], &[i32]) = match unit {
                None => (&[], &[]),
                Some(_) => self.weights.whole(panel..panel + 1),
            };
            let (scales, excess) = (scales.as_ptr(), excess.as_ptr());
            let whole = Whole { scales, excess, unit: unit.unwrap_or(1.0) };
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
                    *row = words.first().wrapping_add(start * words.size());
                }
                let to = self.to[first * lanes * panels + panel * lanes..].as_mut_ptr();
                let stride = lanes * panels;
                let panel = self.weights.panel(panel).as_ptr();
                let part = Part { rows, runs, run, apart, few, panel, to, stride, whole };
                of_rows::<_, D>(s, count, vectors, part);
                done = first + count;
            }
        }
    }
}

/// A few rows and one panel, or some of its vectors.
#[derive(Clone, Copy)]
struct Part {
    rows: [*const u8; MAX_ROWS],
    runs: usize,
    run: usize,
    /// In bytes.
    apart: usize,
    /// Words whose products are settled at once, or more than there are.
    few: usize,
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

/// The most rows of a tile whose sums stay in registers.
const fn rows<S: Lanes, D: Put>(vectors: usize) -> usize {
    let most = if S::WHOLE { S::SUMS / vectors } else { S::SUMS - D::BESIDE };
    if most < MAX_ROWS { most } else { MAX_ROWS }
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
    // [`rows`] asks for no other; the condition keeps those from being compiled.
    let is_asked = const { V == if S::WHOLE { W } else { 1 } && (R == 1 || R == rows::<S, D>(W)) };
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
        let mut all = [[D::zero(s); V]; R];
        let mut weights = part.panel;
        // SAFETY: `multiply_windows` saw that all runs of all rows lie in the words, that the panel
        // has as many words, and that `to` has room for all vectors of all rows; of whole numbers, panels have
        // scales and excesses of all vectors.
        unsafe {
            // Sums of one go where nothing is settled: kept in registers from run to run.
            let mut sums = [[D::zero(s); V]; R];
            let mut left = part.few;
            for run in 0..part.runs {
                for word in 0..part.run {
                    for (row, sums) in part.rows.iter().zip(&mut sums) {
                        let a = row.add(run * part.apart + word * size_of::<u32>());
                        let a = a.cast::<u32>().read_unaligned();
                        for (v, sum) in sums.iter_mut().enumerate() {
                            *sum = D::dot(s, *sum, a, weights.add(v * LANES));
                        }
                    }
                    weights = weights.add(W * LANES);
                    if D::IS_FEW {
                        left -= 1;
                        if left == 0 {
                            settle::<S, D, R, V>(s, &mut all, &mut sums);
                            left = part.few;
                        }
                    }
                }
            }
            settle::<S, D, R, V>(s, &mut all, &mut sums);
            for (r, sums) in all.iter().enumerate() {
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

/// Adds what products came to, which begin again.
#[inline(always)]
fn settle<S: Lanes, D: Put, const R: usize, const V: usize>(
    s: S,
    all: &mut [[D::Sum<S>; V]; R],
    sums: &mut [[D::Sum<S>; V]; R],
) {
    for (all, sums) in all.iter_mut().zip(sums) {
        for (all, sum) in all.iter_mut().zip(sums) {
            *all = D::settled(s, *all, *sum);
            *sum = D::zero(s);
        }
    }
}
