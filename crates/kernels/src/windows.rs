//! Products of rows that consist of pieces and overlap: a convolution reads its input in place.
//!
//! ```
//! use dyno_kernels::{Isa, Panels, Precision, WindowWeights, Windows, Words, multiply_windows};
//!
//! // Two windows of three numbers that overlap by two, times 64 outputs of weight 1.
//! let weights = WindowWeights::from(Panels::pack_matrix(Precision::F32, 3, &[1.0; 64 * 3]));
//! let words = Words::F32(&[1.0, 2.0, 3.0, 4.0]);
//! let windows = Windows { words, starts: &[0, 1], runs: 1, run: 3, apart: 0 };
//! let mut sums = vec![0.0; 2 * weights.width()];
//! multiply_windows(Isa::best(), &windows, &weights, &mut sums);
//! assert_eq!((sums[0], sums[weights.width()]), (6.0, 9.0));
//! ```

#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod tiles;

use std::marker::PhantomData;

use crate::isa::Isa;
use crate::lanes::{Kernel, LANES, Lanes};
use crate::panels::{Panels, Precision};
use crate::tile::{Dot, F32, Int8, MAX_ROWS, sums_in_i32};

/// Rows of a matrix: each has `runs` runs of `run` words, at distances of `apart`.
#[derive(Clone, Copy, Debug)]
pub struct Windows<'a> {
    /// Data that contains the windows.
    pub words: Words<'a>,
    /// Index of the number (byte, `i16`) at which each row begins.
    pub starts: &'a [usize],
    /// Runs of a row.
    pub runs: usize,
    /// Words of a run: one per number, per four bytes or per two `i16`. If a run is not a whole
    /// number of words, its last word extends beyond it and the weights there are zeros.
    pub run: usize,
    /// Numbers (bytes, `i16`) from the start of one run to that of the next.
    pub apart: usize,
}

/// Numbers of one operand.
#[derive(Clone, Copy, Debug)]
pub enum Words<'a> {
    /// For panels of [`Precision::F32`].
    F32(&'a [f32]),
    /// For panels of [`Precision::Int8`]: integers with an offset of 128.
    Bytes {
        /// The bytes.
        bytes: &'a [u8],
        /// Value of the integer 1.
        unit: f32,
    },
    /// For [`WindowWeights::int16`]: integers, two per word. Sums of products must fit in 32 bits;
    /// others wrap.
    Int16 {
        /// The integers.
        numbers: &'a [i16],
        /// Value of the integer 1.
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

    /// Bytes of one element.
    fn size(&self) -> usize {
        match self {
            Self::F32(_) => size_of::<f32>(),
            Self::Bytes { .. } => 1,
            Self::Int16 { .. } => size_of::<i16>(),
        }
    }

    /// Value of the integer 1, for integers.
    fn unit(&self) -> Option<f32> {
        match self {
            Self::F32(_) => None,
            Self::Bytes { unit, .. } | Self::Int16 { unit, .. } => Some(*unit),
        }
    }

    fn fit(&self, weights: &WindowWeights) -> bool {
        let precision = weights.panels.precision();
        match self {
            Self::F32(_) => !weights.are_int16 && precision == Precision::F32,
            Self::Bytes { .. } => !weights.are_int16 && precision == Precision::Int8,
            Self::Int16 { .. } => weights.are_int16,
        }
    }
}

/// Weights of windows: panels, or 16-bit integers in the order of panels.
#[derive(Debug)]
pub struct WindowWeights {
    panels: Panels,
    are_int16: bool,
}

impl From<Panels> for WindowWeights {
    fn from(panels: Panels) -> Self {
        Self { panels, are_int16: false }
    }
}

impl WindowWeights {
    /// Packs weights that are integer multiples of `unit` from -32768 to 32767, which are stored
    /// exactly, in the order of [`Panels::pack`].
    ///
    /// # Panics
    /// `vectors` is not 1 to 4, or a row does not have `k` weights.
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

    /// Numbers in a row of sums: those of all panels, vectors and lanes.
    pub fn width(&self) -> usize {
        self.panels.panels() * self.panels.vectors() * LANES
    }

    /// Bytes that a product with all weights reads.
    pub fn bytes(&self) -> usize {
        self.panels.bytes()
    }
}

/// Multiplies all windows by all weights. Row `r` of `to` belongs to window `r`; its numbers are
/// those of all panels, vectors and lanes, in this order.
///
/// The products of a sum are added in the order of k, independent of the other windows, so that a
/// row's result depends on that row only.
///
/// # Panics
/// A window exceeds the words or does not have the weights' k, words and weights differ in
/// precision, or `to` does not have one number per window and output.
pub fn multiply_windows(isa: Isa, windows: &Windows<'_>, weights: &WindowWeights, to: &mut [f32]) {
    multiply(isa, windows, weights, to, false);
}

/// Multiplies like [`multiply_windows`], and returns the sums of integers without scale and unit.
/// They are exact: numbers of [`Words::Bytes`] count from 128 on, and sums beyond 32 bits wrap.
///
/// ```
/// use dyno_kernels::{Isa, Panels, WindowWeights, Windows, Words, sum_windows};
///
/// let row = [1.0, -2.0, 3.0, -128.0];
/// let weights = WindowWeights::from(Panels::pack_whole(1, 16, 4, 1.0, |_, _| &row));
/// let words = Words::Bytes { bytes: &[129, 128, 127, 255], unit: 1.0 };
/// let windows = Windows { words, starts: &[0], runs: 1, run: 1, apart: 0 };
/// let mut sums = [0; 16];
/// sum_windows(Isa::best(), &windows, &weights, &mut sums);
/// assert_eq!(sums, [1 - 3 - 127 * 128; 16]);
/// ```
///
/// # Panics
/// Under the conditions of [`multiply_windows`], or the words are not integers.
pub fn sum_windows(isa: Isa, windows: &Windows<'_>, weights: &WindowWeights, to: &mut [i32]) {
    assert!(windows.words.unit().is_some(), "sums of integers");
    // SAFETY: both types have the same size and alignment, and all bits are values of either. The
    // slice is borrowed as long as this one.
    let to = unsafe { std::slice::from_raw_parts_mut(to.as_mut_ptr().cast::<f32>(), to.len()) };
    multiply(isa, windows, weights, to, true);
}

/// Multiplies all windows by all weights. If `is_exact`, `to` receives the bits of `i32`.
fn multiply(
    isa: Isa,
    windows: &Windows<'_>,
    weights: &WindowWeights,
    to: &mut [f32],
    is_exact: bool,
) {
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
        let unit = (!is_exact).then_some(unit);
        return tiles::multiply(amx, windows, (bytes, unit), weights, to);
    }
    match words {
        Words::F32(_) => isa.run(WindowsKernel::<F32>::new(windows, weights, to, is_exact)),
        Words::Bytes { .. } if weights.few().is_some() => {
            isa.run(WindowsKernel::<SmallBytes>::new(windows, weights, to, is_exact));
        }
        Words::Bytes { .. } => {
            isa.run(WindowsKernel::<Int8>::new(windows, weights, to, is_exact));
        }
        Words::Int16 { .. } => {
            isa.run(WindowsKernel::<Int16>::new(windows, weights, to, is_exact));
        }
    }
}

/// `i16` times `i16`.
struct Int16;

impl Dot for Int16 {
    sums_in_i32!(dot_i16);
}

/// Bytes times weights so small that the products of several words fit in 16 bits.
struct SmallBytes;

impl Dot for SmallBytes {
    sums_in_i32!(dot_few);
}

/// Storage of sums.
trait SumStore: Dot {
    /// Token with these products.
    type Token<S: Lanes>: Lanes;
    /// Returns that token.
    fn token<S: Lanes>(s: S) -> Self::Token<S>;
    /// Whether 16-bit sums are settled every few words.
    const IS_FEW: bool = false;
    /// Adds the products of some words to `sum`; without settling these are all products.
    #[inline(always)]
    fn settled<S: Lanes>(_: S, _: Self::Sum<S>, all: Self::Sum<S>) -> Self::Sum<S> {
        all
    }
    /// Registers besides those of sums, in vectors, for tokens whose vectors are two registers:
    /// weights and inputs that are split into parts would spill as many rows of sums.
    const BESIDE: usize = 0;
    /// Scales and stores a vector of sums.
    ///
    /// # Safety
    /// `to` is valid for writes of 16 numbers, and `whole` for reads of them.
    unsafe fn put<S: Lanes>(s: S, to: *mut f32, sum: Self::Sum<S>, whole: SumScale);
}

/// Excess and scales of a vector of outputs.
#[derive(Clone, Copy)]
struct SumScale {
    scales: *const f32,
    excess: *const i32,
    unit: f32,
    /// Whether sums are stored as `i32`, without scale and unit.
    is_exact: bool,
}

impl SumStore for F32 {
    type Token<S: Lanes> = S::Plain;
    #[inline(always)]
    fn token<S: Lanes>(s: S) -> S::Plain {
        s.plain()
    }
    #[inline(always)]
    unsafe fn put<S: Lanes>(s: S, to: *mut f32, sum: S::F, _: SumScale) {
        // SAFETY: the caller guarantees that `to` is valid for writes of 16 numbers.
        unsafe { s.store(to, sum) }
    }
}

/// Integer sums minus the excess, times scale and unit.
macro_rules! put_whole {
    () => {
        type Token<S: Lanes> = S::Fours;
        #[inline(always)]
        fn token<S: Lanes>(s: S) -> S::Fours {
            s.fours()
        }
        #[inline(always)]
        unsafe fn put<S: Lanes>(s: S, to: *mut f32, sum: S::I, whole: SumScale) {
            // SAFETY: the caller guarantees that `to`, excess and scales are valid for 16 numbers
            // each.
            unsafe { put_sum(s, to, sum, whole) }
        }
    };
}

/// Stores integer sums minus the excess, times scale and unit unless they are exact.
///
/// # Safety
/// Under the conditions of [`SumStore::put`].
#[inline(always)]
unsafe fn put_sum<S: Lanes>(s: S, to: *mut f32, sum: S::I, whole: SumScale) {
    // SAFETY: the caller guarantees that `to`, excess and scales are valid for 16 numbers each.
    unsafe {
        let sum = s.sub_i32(sum, s.load_i32(whole.excess));
        if whole.is_exact {
            s.store_i32(to.cast(), sum);
        } else {
            let worth = s.mul(s.load(whole.scales), s.splat(whole.unit));
            s.store(to, s.mul(s.to_f32(sum), worth));
        }
    }
}

impl SumStore for Int8 {
    const BESIDE: usize = 2;
    put_whole!();
}

impl SumStore for Int16 {
    put_whole!();
}

impl SumStore for SmallBytes {
    const IS_FEW: bool = true;
    put_whole!();
    #[inline(always)]
    fn settled<S: Lanes>(s: S, sum: S::I, few: S::I) -> S::I {
        s.settle(sum, few)
    }
}

/// Kernel over all rows and panels.
struct WindowsKernel<'a, D> {
    windows: &'a Windows<'a>,
    weights: &'a Panels,
    to: &'a mut [f32],
    is_exact: bool,
    dot: PhantomData<D>,
}

impl<'a, D> WindowsKernel<'a, D> {
    fn new(
        windows: &'a Windows<'a>,
        weights: &'a Panels,
        to: &'a mut [f32],
        is_exact: bool,
    ) -> Self {
        Self { windows, weights, to, is_exact, dot: PhantomData }
    }
}

impl<D: SumStore> Kernel for WindowsKernel<'_, D> {
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
            let unit = unit.unwrap_or(1.0);
            let whole = SumScale { scales, excess, unit, is_exact: self.is_exact };
            let mut done = 0;
            while done < starts.len() {
                let left = starts.len() - done;
                // If fewer rows than a tile are left, repeats the last rows, or takes single rows.
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
                let part = WindowTile { rows, runs, run, apart, few, panel, to, stride, whole };
                dispatch_rows::<_, D>(s, count, vectors, part);
                done = first + count;
            }
        }
    }
}

/// A few rows and one panel, or some of its vectors.
#[derive(Clone, Copy)]
struct WindowTile {
    rows: [*const u8; MAX_ROWS],
    runs: usize,
    run: usize,
    /// Distance of runs in bytes.
    apart: usize,
    /// Words between settlements; more than there are if nothing is settled.
    few: usize,
    panel: *const u32,
    to: *mut f32,
    stride: usize,
    whole: SumScale,
}

impl WindowTile {
    /// Returns the part of the same rows from another vector on.
    #[inline(always)]
    fn at_vector(self, vector: usize) -> Self {
        let by = vector * LANES;
        let SumScale { scales, excess, .. } = self.whole;
        let (scales, excess) = (scales.wrapping_add(by), excess.wrapping_add(by));
        let whole = SumScale { scales, excess, ..self.whole };
        Self { panel: self.panel.wrapping_add(by), to: self.to.wrapping_add(by), whole, ..self }
    }
}

/// Maximum rows of a tile whose sums stay in registers.
const fn rows<S: Lanes, D: SumStore>(vectors: usize) -> usize {
    let most = if S::WHOLE { S::SUMS / vectors } else { S::SUMS - D::BESIDE };
    if most < MAX_ROWS { most } else { MAX_ROWS }
}

#[inline(always)]
fn dispatch_rows<S: Lanes, D: SumStore>(s: S, rows: usize, vectors: usize, part: WindowTile) {
    match rows {
        1 => dispatch_vectors::<S, D, 1>(s, vectors, part),
        2 => dispatch_vectors::<S, D, 2>(s, vectors, part),
        3 => dispatch_vectors::<S, D, 3>(s, vectors, part),
        4 => dispatch_vectors::<S, D, 4>(s, vectors, part),
        _ => dispatch_vectors::<S, D, 6>(s, vectors, part),
    }
}

#[inline(always)]
fn dispatch_vectors<S: Lanes, D: SumStore, const R: usize>(s: S, vectors: usize, part: WindowTile) {
    match vectors {
        1 => sized::<S, D, R, 1, 1>(s, part),
        2 if S::WHOLE => sized::<S, D, R, 2, 2>(s, part),
        3 if S::WHOLE => sized::<S, D, R, 3, 3>(s, part),
        4 if S::WHOLE => sized::<S, D, R, 4, 4>(s, part),
        2 => (0..2).for_each(|vector| sized::<S, D, R, 1, 2>(s, part.at_vector(vector))),
        3 => (0..3).for_each(|vector| sized::<S, D, R, 1, 3>(s, part.at_vector(vector))),
        _ => (0..4).for_each(|vector| sized::<S, D, R, 1, 4>(s, part.at_vector(vector))),
    }
}

#[inline(always)]
fn sized<S: Lanes, D: SumStore, const R: usize, const V: usize, const W: usize>(
    s: S,
    part: WindowTile,
) {
    // [`rows`] permits no other sizes; the condition keeps them from being compiled.
    let is_asked = const { V == if S::WHOLE { W } else { 1 } && (R == 1 || R == rows::<S, D>(W)) };
    if is_asked {
        s.call(SizedTile::<D, R, V, W>(part, PhantomData));
    }
}

/// `R` rows and `V` of the `W` vectors of their panel.
struct SizedTile<D, const R: usize, const V: usize, const W: usize>(WindowTile, PhantomData<D>);

impl<D: SumStore, const R: usize, const V: usize, const W: usize> Kernel for SizedTile<D, R, V, W> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let Self(part, _) = self;
        let mut all = [[D::zero(s); V]; R];
        let mut weights = part.panel;
        // SAFETY: `multiply_windows` has checked that all runs of all rows lie in the words and
        // that `to` has all vectors of all rows. The panel has `runs` x `run` words of W vectors,
        // and panels of integers have scales and excesses for all vectors.
        unsafe {
            // Separate sums, so that the compiler keeps them in registers from run to run.
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
                    let SumScale { scales, excess, .. } = part.whole;
                    let at = v * LANES;
                    let (scales, excess) = (scales.wrapping_add(at), excess.wrapping_add(at));
                    let to = part.to.add(r * part.stride + at);
                    D::put(s, to, *sum, SumScale { scales, excess, ..part.whole });
                }
            }
        }
    }
}

/// Adds the sums of products to `all` and resets them.
#[inline(always)]
fn settle<S: Lanes, D: SumStore, const R: usize, const V: usize>(
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
