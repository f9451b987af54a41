//! Convolutions of images with channels first: a weight multiplies windows that lie next to each
//! other. Weights are not packed, and images without padding are read in place.
//!
//! ```
//! use dyno_kernels::{Isa, WindowRows, convolve};
//!
//! // Four windows of two numbers that are three apart, and one filter.
//! let rows = WindowRows::new(vec![0, 3], vec![0], 4);
//! let numbers = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
//! let mut sums = [0.0; 4];
//! convolve(Isa::best(), &rows, &numbers, (&[1.0, 10.0], Some(&[0.5])), &mut sums);
//! assert_eq!(sums, [41.5, 52.5, 63.5, 74.5]);
//! ```

#[cfg(test)]
mod tests;

use std::mem::MaybeUninit;
use std::ops::Range;

use crate::isa::Isa;
use crate::lanes::{Kernel, LANES, Lanes};
use crate::rows::{Rows, dots};
use crate::tile::MAX_ROWS;

/// Maximum vectors of windows in a tile.
const MAX_VECTORS: usize = 4;
/// Windows of a tile.
const TILE: usize = MAX_VECTORS * LANES;

/// Sums of a tile before they are moved.
type TileSums = MaybeUninit<[f32; MAX_ROWS * TILE]>;

/// Rows of windows over an image. The windows of a row begin at successive numbers.
#[derive(Clone, Debug)]
pub struct WindowRows {
    /// Distance from the start of a window to each of its numbers.
    distances: Vec<usize>,
    /// Start of the first window of each row.
    starts: Vec<usize>,
    /// Windows of a row.
    windows: usize,
    /// End of the starts of windows.
    end: usize,
    /// Least number of numbers of an image.
    reach: usize,
}

impl WindowRows {
    /// Returns rows of `windows` windows. A window that starts at `n` has the numbers at
    /// `n + distance`, for each of the `distances`.
    ///
    /// # Panics
    /// There is no window or no distance, rows overlap or do not ascend, or they exceed memory.
    pub fn new(distances: Vec<usize>, starts: Vec<usize>, windows: usize) -> Self {
        assert!(windows > 0, "a row has windows");
        let is_after = |pair: &[usize]| pair[0].checked_add(windows).is_some_and(|n| n <= pair[1]);
        assert!(starts.windows(2).all(is_after), "rows follow each other");
        let end = starts.last().expect("there are rows").checked_add(windows);
        let farthest = distances.iter().max().expect("a window has numbers");
        let reach = end.and_then(|end| end.checked_add(*farthest));
        let (end, reach) = end.zip(reach).expect("windows are shorter than memory");
        Self { distances, starts, windows, end, reach }
    }

    /// Returns the number of windows.
    fn count(&self) -> usize {
        self.starts.len() * self.windows
    }

    /// Returns the numbers of all windows, window by window.
    fn gather(&self, numbers: &[f32]) -> Vec<f32> {
        let windows = self.starts.iter().flat_map(|start| *start..start + self.windows);
        windows.flat_map(|at| self.distances.iter().map(move |by| numbers[at + by])).collect()
    }
}

/// Computes the products of all windows with filters: `to` has the sums of all windows of the first
/// filter, then those of the second. The weights of a filter are in the order of the distances. The
/// bias has one number for each filter.
///
/// # Panics
/// A window exceeds the numbers, or the lengths of weights, bias and `to` do not match.
pub fn convolve(
    isa: Isa,
    rows: &WindowRows,
    numbers: &[f32],
    (weights, bias): (&[f32], Option<&[f32]>),
    to: &mut [f32],
) {
    let (k, count) = (rows.distances.len(), rows.count());
    let filters = weights.len() / k;
    assert_eq!(filters * k, weights.len(), "whole filters");
    assert!(bias.is_none_or(|bias| bias.len() == filters), "a bias for each filter");
    assert!(rows.reach <= numbers.len(), "{} numbers lie in {}", rows.reach, numbers.len());
    assert_eq!(Some(to.len()), count.checked_mul(filters), "a sum for each window and filter");
    if count >= LANES {
        return isa.run(Convolution { rows, numbers, weights, bias, to });
    }
    // So few windows would leave most of a vector empty.
    let windows = rows.gather(numbers);
    dots(isa, Rows::new(weights, filters, k, k), Rows::new(&windows, count, k, k), to);
    for (to, bias) in to.chunks_exact_mut(count).zip(bias.into_iter().flatten()) {
        to.iter_mut().for_each(|sum| *sum += bias);
    }
}

struct Convolution<'a> {
    rows: &'a WindowRows,
    numbers: &'a [f32],
    weights: &'a [f32],
    bias: Option<&'a [f32]>,
    to: &'a mut [f32],
}

/// Windows that are computed at once.
#[derive(Clone, Copy)]
struct Strip {
    /// Row and start of the first window whose sum is missing.
    row: usize,
    place: usize,
    /// Start of the first window that is computed: before `place` if too few windows are left.
    first: usize,
    /// End of the starts of the windows that may be computed.
    end: usize,
    vectors: usize,
}

impl Kernel for Convolution<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(mut self, s: S) {
        let s = s.plain();
        let WindowRows { distances, starts, windows, end, .. } = self.rows;
        let most = if <S::Plain as Lanes>::WHOLE { MAX_VECTORS } else { 1 };
        // Strips that end with a row are stored in place. Others also compute what lies between
        // rows.
        let is_by_row = *windows >= LANES
            && (self.weights.len() == distances.len()
                || starts.len() * windows.next_multiple_of(LANES) <= end - starts[0]);
        let mut sums = TileSums::uninit();
        let (mut row, mut place) = (0, starts[0]);
        while row < starts.len() {
            let end = if is_by_row { starts[row] + windows } else { *end };
            // Strips of similar sizes.
            let left = (end - place).div_ceil(LANES);
            let vectors = left.div_ceil(left.div_ceil(most));
            let first = place.min(end - LANES);
            self.strip(s, Strip { row, place, first, end, vectors }, &mut sums);
            place = (place + vectors * LANES).min(end);
            while row < starts.len() && starts[row] + windows <= place {
                row += 1;
            }
            place = place.max(starts.get(row).copied().unwrap_or(place));
        }
    }
}

impl Convolution<'_> {
    #[inline(always)]
    fn strip<S: Lanes>(&mut self, s: S, strip: Strip, sums: &mut TileSums) {
        let WindowRows { distances, starts, windows, .. } = self.rows;
        let Strip { row, first, end, vectors, .. } = strip;
        let (k, all) = (distances.len(), self.rows.count());
        let filters = self.weights.len() / k;
        // The last vector ends with the windows.
        let at = std::array::from_fn(|vector| (vector * LANES).min(end - LANES - first));
        let is_inside =
            starts[row] <= first && first + at[vectors - 1] + LANES <= starts[row] + windows;
        let mut filter = 0;
        while filter < filters {
            const { assert!(MAX_ROWS == 6, "the last case has so many filters") };
            let count = match filters - filter {
                1 => 1,
                2 | 3 => 2,
                4 | 5 => 4,
                _ => MAX_ROWS,
            };
            let mut bias = [0.0; MAX_ROWS];
            if let Some(all) = self.bias {
                bias[..count].copy_from_slice(&all[filter..][..count]);
            }
            let (to, stride) = if is_inside {
                let place = filter * all + row * windows + first - starts[row];
                (self.to[place..].as_mut_ptr(), all)
            } else {
                (sums.as_mut_ptr().cast(), TILE)
            };
            let numbers = self.numbers[first..].as_ptr();
            let weights = self.weights[filter * k..].as_ptr();
            let tile = Tile { numbers, at, distances, weights, bias: &bias, to, stride };
            dispatch_filters(s, count, vectors, &tile);
            if !is_inside {
                self.place(s, strip, filter..filter + count, sums);
            }
            filter += count;
        }
    }

    /// Moves the sums of some filters to their rows.
    #[inline(always)]
    fn place<S: Lanes>(&mut self, s: S, strip: Strip, filters: Range<usize>, sums: &TileSums) {
        let WindowRows { starts, windows, .. } = self.rows;
        let Strip { row, place, first, vectors, .. } = strip;
        let (end, all) = (place + vectors * LANES, self.rows.count());
        for (row, start) in starts.iter().enumerate().skip(row).take_while(|row| *row.1 < end) {
            let from = place.max(*start);
            let count = (start + windows).min(end) - from;
            for (at, filter) in filters.clone().enumerate() {
                // SAFETY: the tile has stored the sums of all windows from `first` to the end of
                // its last vector for each filter, and these are among them.
                let sums = unsafe {
                    let sums = sums.as_ptr().cast::<f32>().add(at * TILE + from - first);
                    std::slice::from_raw_parts(sums, count)
                };
                copy(s, sums, &mut self.to[filter * all + row * windows + from - start..][..count]);
            }
        }
    }
}

/// Loads at most sixteen numbers; the other lanes are zeros.
#[inline(always)]
pub(crate) fn load<S: Lanes>(s: S, from: &[f32]) -> S::F {
    // SAFETY: the slice has as many numbers as are read.
    unsafe {
        match from.len() {
            LANES.. => s.load(from.as_ptr()),
            count => s.load_first(from.as_ptr(), count),
        }
    }
}

/// Stores at most sixteen numbers.
#[inline(always)]
pub(crate) fn store<S: Lanes>(s: S, to: &mut [f32], x: S::F) {
    // SAFETY: the slice has room for as many numbers as are written.
    unsafe {
        match to.len() {
            LANES.. => s.store(to.as_mut_ptr(), x),
            count => s.store_first(to.as_mut_ptr(), x, count),
        }
    }
}

/// Copies numbers. If there is more room, zeros follow up to a multiple of sixteen.
#[inline(always)]
fn copy<S: Lanes>(s: S, from: &[f32], to: &mut [f32]) {
    for (from, to) in from.chunks(LANES).zip(to.chunks_mut(LANES)) {
        store(s, to, load(s, from));
    }
}

/// Copies every number that is a multiple of `step` after the first one, as far as there is room. If
/// there is more, zeros may follow up to a multiple of sixteen.
#[inline(always)]
pub(crate) fn copy_steps<S: Lanes>(s: S, from: &[f32], to: &mut [f32], step: usize) {
    match step {
        1 => copy(s, from, to),
        2 => {
            for (from, to) in from.chunks(2 * LANES).zip(to.chunks_mut(LANES)) {
                let (low, high) = from.split_at(from.len().min(LANES));
                store(s, to, s.evens(load(s, low), load(s, high)));
            }
        }
        _ => to.iter_mut().zip(from.iter().step_by(step)).for_each(|(to, x)| *to = *x),
    }
}

/// Some filters and some vectors of windows.
#[derive(Clone, Copy)]
struct Tile<'a> {
    numbers: *const f32,
    /// Distances of the vectors.
    at: [usize; MAX_VECTORS],
    distances: &'a [usize],
    /// Weights of the first filter; the next ones follow.
    weights: *const f32,
    bias: &'a [f32; MAX_ROWS],
    /// Sums of the first filter. Those of the next are `stride` after it.
    to: *mut f32,
    stride: usize,
}

#[inline(always)]
fn dispatch_filters<S: Lanes>(s: S, filters: usize, vectors: usize, tile: &Tile<'_>) {
    match filters {
        1 => dispatch_vectors::<S, 1>(s, vectors, tile),
        2 => dispatch_vectors::<S, 2>(s, vectors, tile),
        4 => dispatch_vectors::<S, 4>(s, vectors, tile),
        _ => dispatch_vectors::<S, MAX_ROWS>(s, vectors, tile),
    }
}

#[inline(always)]
fn dispatch_vectors<S: Lanes, const R: usize>(s: S, vectors: usize, tile: &Tile<'_>) {
    match vectors {
        2 if S::WHOLE => s.call(SizedTile::<R, 2>(tile)),
        3 if S::WHOLE => s.call(SizedTile::<R, 3>(tile)),
        4 if S::WHOLE => s.call(SizedTile::<R, 4>(tile)),
        _ => s.call(SizedTile::<R, 1>(tile)),
    }
}

/// `R` filters and `V` vectors.
struct SizedTile<'a, const R: usize, const V: usize>(&'a Tile<'a>);

impl<const R: usize, const V: usize> Kernel for SizedTile<'_, R, V> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let Tile { numbers, at, distances, weights, bias, to, stride } = *self.0;
        let mut sums = [[s.splat(0.0); V]; R];
        for (sums, bias) in sums.iter_mut().zip(bias) {
            *sums = [s.splat(*bias); V];
        }
        // SAFETY: all vectors begin at or after the first window and end with the last one, and
        // `convolve` has checked that the image has the numbers of windows there. There are weights
        // of R filters. `to` has room for V vectors at their distances, R times: windows of one
        // row, or sums that are moved.
        unsafe {
            for (tap, distance) in distances.iter().enumerate() {
                let from = numbers.add(*distance);
                let mut values = [s.splat(0.0); V];
                for (value, at) in values.iter_mut().zip(&at) {
                    *value = s.load(from.add(*at));
                }
                for (filter, sums) in sums.iter_mut().enumerate() {
                    let weight = s.splat(*weights.add(filter * distances.len() + tap));
                    for (sum, value) in sums.iter_mut().zip(&values) {
                        *sum = s.fma(weight, *value, *sum);
                    }
                }
            }
            for (filter, sums) in sums.iter().enumerate() {
                for (sum, at) in sums.iter().zip(&at) {
                    s.store(to.add(filter * stride + at), *sum);
                }
            }
        }
    }
}

/// Rows of an image with padding, whose numbers are sorted by their phase: the windows of one phase
/// begin at successive numbers of it.
#[derive(Clone, Copy, Debug)]
pub struct Phases<'a> {
    /// Numbers of a row.
    pub width: usize,
    /// Padding before a row.
    pub before: usize,
    /// Number of phases, which is the step from one window to the next.
    pub step: usize,
    /// Phases that are copied, from the first on.
    pub copied: usize,
    /// Numbers from the start of a phase to that of the next.
    pub apart: usize,
    /// Index of a row, and the place of its first phase.
    pub rows: &'a [[usize; 2]],
}

/// Copies rows of an image.
///
/// # Panics
/// A row exceeds the image or `to`, or the step is 0.
///
/// ```
/// use dyno_kernels::{Isa, Phases, split};
///
/// // One row of three numbers behind one of padding: even places, then odd ones.
/// let rows = [[0, 0]];
/// let phases = Phases { width: 3, before: 1, step: 2, copied: 2, apart: 2, rows: &rows };
/// let mut to = [0.0; 4];
/// split(Isa::best(), &phases, &[1.0, 2.0, 3.0], &mut to);
/// assert_eq!(to, [0.0, 2.0, 1.0, 3.0]);
/// ```
pub fn split(isa: Isa, phases: &Phases<'_>, image: &[f32], to: &mut [f32]) {
    isa.run(PhaseCopy { phases, image, to });
}

struct PhaseCopy<'a> {
    phases: &'a Phases<'a>,
    image: &'a [f32],
    to: &'a mut [f32],
}

impl Kernel for PhaseCopy<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let Phases { width, before, step, copied, apart, rows } = *self.phases;
        for phase in 0..copied {
            // The first number of this phase.
            let first = (phase + step - before % step) % step;
            let Some(left) = width.checked_sub(first) else { continue };
            let (place, count) = (phase * apart + (first + before) / step, left.div_ceil(step));
            for [row, start] in rows {
                let from = &self.image[row * width..][first..width];
                let to = &mut self.to[start + place..][..count];
                copy_steps(s, from, to, step);
            }
        }
    }
}
