//! Depthwise convolutions: each filter multiplies the windows of one plane of an image.
//!
//! Rows of a plane are copied with their padding into a ring that stays in the nearest cache. A tile
//! computes several rows of sums at once, so that a vector of numbers serves several of them.
//!
//! ```
//! use dyno_kernels::{Isa, PlaneAxis, convolve_planes};
//!
//! // Two planes of one row, with one number of padding before and after, and a filter for each.
//! let y = PlaneAxis { size: 1, kernel: 1, stride: 1, dilation: 1, before: 0, windows: 1 };
//! let x = PlaneAxis { size: 3, kernel: 3, stride: 1, dilation: 1, before: 1, windows: 3 };
//! let image = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
//! let weights = [1.0, 10.0, 100.0, 0.0, 1.0, 0.0];
//! let mut sums = [0.0; 6];
//! convolve_planes(Isa::best(), [y, x], (&image, 2), (&weights, None), &mut sums);
//! assert_eq!(sums, [210.0, 321.0, 32.0, 4.0, 5.0, 6.0]);
//! ```

#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::isa::Isa;
use crate::lanes::{Kernel, LANES, Lanes};
use crate::rows::{Rows, dots};
use crate::taps::copy_steps;

/// Rows of sums in a tile, if vectors are single registers, and if they are two or rows are few.
const ROWS: usize = 7;
const FEW_ROWS: usize = 4;
/// Maximum vectors of a tile with one row of sums.
const MAX_VECTORS: usize = 4;

/// Distances along an axis are at most so long, so that their sums do not overflow.
const MAX_DISTANCE: usize = usize::MAX >> 4;

/// Windows along one axis of a plane.
#[derive(Clone, Copy, Debug)]
pub struct PlaneAxis {
    /// Numbers of the plane.
    pub size: usize,
    /// Numbers of a window.
    pub kernel: usize,
    /// Distance from one window to the next.
    pub stride: usize,
    /// Distance from one number of a window to the next.
    pub dilation: usize,
    /// Zeros before the plane. Windows may also exceed its end, where zeros follow.
    pub before: usize,
    /// Number of windows.
    pub windows: usize,
}

impl PlaneAxis {
    /// Distance from the first number of a window to its last.
    fn reach(&self) -> usize {
        (self.kernel - 1) * self.dilation
    }

    /// Returns whether an axis has windows, and its distances do not overflow.
    fn is_valid(&self) -> bool {
        let Self { size, kernel, stride, dilation, before, windows } = *self;
        let reach = kernel.checked_sub(1).and_then(|n| n.checked_mul(dilation));
        let last = windows.checked_sub(1).and_then(|n| n.checked_mul(stride));
        let distances = [reach, last, Some(size), Some(before), Some(stride)];
        stride > 0 && dilation > 0 && distances.iter().all(|n| n.is_some_and(|n| n <= MAX_DISTANCE))
    }

    /// Returns whether the numbers of the only window are those of the plane.
    fn is_whole(&self) -> bool {
        let has_one = self.windows == 1 && self.before == 0;
        has_one && self.kernel == self.size && self.reach() + 1 == self.size
    }
}

/// Computes the sums of the windows of all planes of an image. The filters of a plane follow each
/// other, and there are as many for each. `to` has the sums of all windows of the first filter, then
/// those of the second. The bias has one number for each filter.
///
/// # Panics
/// An axis has no window, a step of 0 or a distance beyond memory, or the lengths do not match the axes.
pub fn convolve_planes(
    isa: Isa,
    [y, x]: [PlaneAxis; 2],
    (image, planes): (&[f32], usize),
    (weights, bias): (&[f32], Option<&[f32]>),
    to: &mut [f32],
) {
    assert!(y.is_valid() && x.is_valid(), "expected windows, found {y:?} and {x:?}");
    let window = y.kernel.checked_mul(x.kernel).expect("a filter is shorter than memory");
    let filters = weights.len() / window;
    assert_eq!(filters * window, weights.len(), "whole filters");
    assert!(planes > 0 && filters.is_multiple_of(planes), "{filters} filters of {planes} planes");
    assert!(bias.is_none_or(|bias| bias.len() == filters), "a bias for each filter");
    let plane = y.size.checked_mul(x.size).and_then(|plane| plane.checked_mul(planes));
    assert_eq!(Some(image.len()), plane, "numbers of an image");
    let sums = y.windows.checked_mul(x.windows).and_then(|sums| sums.checked_mul(filters));
    assert_eq!(Some(to.len()), sums, "a sum for each window and filter");
    if y.is_whole() && x.is_whole() {
        return multiply_planes(isa, (image, window), (weights, bias), to);
    }
    isa.run(DepthwiseKernel { axes: [y, x], image, planes, weights, bias, to });
}

/// Computes the sums of filters as large as a plane, of `size` numbers.
fn multiply_planes(
    isa: Isa,
    (image, size): (&[f32], usize),
    (weights, bias): (&[f32], Option<&[f32]>),
    to: &mut [f32],
) {
    let each = to.len() / (image.len() / size);
    let filters = weights.chunks(each.max(1) * size).zip(to.chunks_mut(each.max(1)));
    for (plane, (weights, to)) in image.chunks_exact(size).zip(filters) {
        dots(isa, Rows::new(weights, each, size, size), Rows::new(plane, 1, size, size), to);
    }
    to.iter_mut().zip(bias.into_iter().flatten()).for_each(|(sum, bias)| *sum += bias);
}

struct DepthwiseKernel<'a> {
    axes: [PlaneAxis; 2],
    image: &'a [f32],
    planes: usize,
    weights: &'a [f32],
    bias: Option<&'a [f32]>,
    to: &'a mut [f32],
}

impl Kernel for DepthwiseKernel<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let s = s.plain();
        let [y, x] = self.axes;
        let is_dense = y.dilation == 1 && y.stride <= 2 && matches!(y.kernel, 3 | 5 | 7);
        let rows = match y.windows {
            ROWS.. if is_dense && <S::Plain as Lanes>::WHOLE => ROWS,
            FEW_ROWS.. if is_dense => FEW_ROWS,
            _ => 1,
        };
        let mut ring = Ring::new(self.axes, rows);
        let (window, sums) = (y.kernel * x.kernel, y.windows * x.windows);
        let filters = self.weights.len() / window;
        for filter in 0..filters {
            let plane = filter * self.planes / filters * y.size * x.size;
            let plane = &self.image[plane..][..y.size * x.size];
            let weights = &self.weights[filter * window..][..window];
            let bias = self.bias.map_or(0.0, |bias| bias[filter]);
            let to = &mut self.to[filter * sums..][..sums];
            for tile in 0..ring.tiles.len() {
                ring.fill(s, plane, tile);
                ring.sum(s, tile, (weights, bias), to);
            }
        }
    }
}

/// Numbers of a row that are copied: those of one phase.
struct Run {
    /// First number of the row, and its place.
    first: usize,
    place: usize,
    /// Numbers that are copied, in whole vectors. Zeros may follow the last one.
    room: usize,
}

/// Rows of sums that are computed at once.
struct TileRows {
    /// First row of the sums.
    first: usize,
    /// Rows of the plane that are copied before.
    copied: Range<usize>,
}

/// Latest rows of a plane, with padding. The numbers of a row are sorted by their phase: those of
/// windows next to each other are successive. All planes have the same tiles.
struct Ring {
    y: PlaneAxis,
    x: PlaneAxis,
    numbers: Vec<f32>,
    /// Rows that are stored; a row of zeros follows them.
    count: usize,
    /// Numbers of a row.
    width: usize,
    /// The phases of a row.
    runs: Vec<Run>,
    /// Rows of sums of a tile.
    rows: usize,
    tiles: Vec<TileRows>,
    /// Starts of the rows that a tile reads, of one tile after the other.
    starts: Vec<usize>,
    /// Distances from the first number of a window to those of its first row.
    places: Vec<usize>,
}

impl Ring {
    /// Returns a ring for tiles with so many rows of sums: one, or several of dense windows.
    fn new([y, x]: [PlaneAxis; 2], rows: usize) -> Self {
        let height = (rows - 1) * y.stride + y.reach() + 1;
        let count = height.min(y.size).max(1);
        let phases = x.stride.min(x.reach() + 1);
        // Vectors begin at most at the last window, or end with it.
        let longest = x.windows.max(LANES);
        let used = longest + x.reach() / x.stride;
        // Rows are copied in whole vectors.
        let phase = used + LANES;
        let place = |at: usize| at % x.stride * phase + at / x.stride;
        let places: Vec<usize> = (0..x.kernel).map(|at| place(at * x.dilation)).collect();
        let run = |at: usize| {
            // The first number of this phase.
            let first = (at + x.stride - x.before % x.stride) % x.stride;
            let place = ((first + x.before) / x.stride).min(used);
            let count = x.size.saturating_sub(first).div_ceil(x.stride).min(used - place);
            let room = count.next_multiple_of(LANES);
            Run { first: first.min(x.size), place: at * phase + place, room }
        };
        let width = phases.checked_mul(phase).expect("a row is shorter than memory");
        let runs = (0..phases).map(run).collect();
        let (mut tiles, mut starts) = (Vec::new(), Vec::new());
        let (mut done, mut next) = (0, 0);
        while done < y.windows {
            // The last tile ends with the windows.
            let first = done.min(y.windows - rows);
            let top = first * y.stride;
            // A row of zeros is above and below the plane.
            let row = |at: usize| (top + at).checked_sub(y.before).filter(|row| *row < y.size);
            let start = |at: usize| row(at).map_or(count, |row| row % count) * width;
            starts.extend((0..height).step_by(y.dilation).map(start));
            let end = (top + height).saturating_sub(y.before).min(y.size);
            let copied = next.max(top.saturating_sub(y.before))..end;
            next = next.max(end);
            tiles.push(TileRows { first, copied });
            done = first + rows;
        }
        let numbers =
            vec![0.0; (count + 1).checked_mul(width).expect("rows are fewer than memory")];
        // Vectors of a tile are inside of the numbers, on which `sum` relies.
        let last = starts.iter().max().zip(places.iter().max()).map(|(start, place)| start + place);
        assert!(last.is_some_and(|last| last + longest <= numbers.len()), "rows of the ring");
        assert_eq!(starts.len(), tiles.len() * ((rows - 1) * y.stride + y.kernel), "rows of tiles");
        Self { y, x, numbers, count, width, runs, rows, tiles, starts, places }
    }

    /// Copies the rows of a tile, after those of the tiles before.
    #[inline(always)]
    fn fill<S: Lanes>(&mut self, s: S, plane: &[f32], tile: usize) {
        let copied = self.tiles[tile].copied.clone();
        if self.x.stride <= 2 {
            return self.fill_vectors(s, plane, copied);
        }
        for row in copied {
            let from = &plane[row * self.x.size..][..self.x.size];
            let to = &mut self.numbers[row % self.count * self.width..][..self.width];
            for Run { first, place, room } in &self.runs {
                copy_steps(s, &from[*first..], &mut to[*place..][..*room], self.x.stride);
            }
        }
    }

    /// Copies rows whose phases are all numbers of a row, or every other one. The vectors of all rows
    /// that have the same place are copied one after the other.
    #[inline(always)]
    fn fill_vectors<S: Lanes>(&mut self, s: S, plane: &[f32], copied: Range<usize>) {
        let (size, step) = (self.x.size, self.x.stride);
        assert!(copied.end * size <= plane.len(), "rows of the plane");
        let start = copied.start % self.count;
        for Run { first, place, room } in &self.runs {
            for vector in (0..*room).step_by(LANES) {
                let from = first + vector * step;
                let low = (size - from).min(LANES);
                let high = (size - from - low).min(LANES);
                let mut slot = start;
                for row in copied.clone() {
                    let to = &mut self.numbers[slot * self.width + place + vector..][..LANES];
                    // SAFETY: the plane has the row, which has `low` numbers from `from` on, then
                    // `high` others. `to` has room for a vector.
                    unsafe {
                        let numbers = plane.as_ptr().add(row * size + from);
                        let mut x = s.load_first(numbers, low);
                        if step == 2 {
                            x = s.evens(x, s.load_first(numbers.add(low), high));
                        }
                        s.store(to.as_mut_ptr(), x);
                    }
                    slot = if slot + 1 == self.count { 0 } else { slot + 1 };
                }
            }
        }
    }

    /// Computes the sums of a tile.
    #[inline(always)]
    fn sum<S: Lanes>(&self, s: S, tile: usize, (weights, bias): (&[f32], f32), to: &mut [f32]) {
        let (rows, windows) = (self.rows, self.x.windows);
        let height = self.starts.len() / self.tiles.len();
        let starts = &self.starts[tile * height..][..height];
        let to = &mut to[self.tiles[tile].first * windows..][..rows * windows];
        assert_eq!(weights.len(), self.y.kernel * self.places.len(), "weights of a window");
        let (numbers, places) = (self.numbers.as_ptr(), &self.places[..]);
        let tile = Tile { numbers, starts, places, windows, weights, bias, to: to.as_mut_ptr() };
        let form = (self.y.kernel, self.y.stride);
        match rows {
            ROWS if S::WHOLE => dispatch::<S, ROWS>(s, form, tile),
            FEW_ROWS => dispatch::<S, FEW_ROWS>(s, form, tile),
            _ => s.call(SingleRow(tile)),
        }
    }
}

#[inline(always)]
fn dispatch<S: Lanes, const R: usize>(s: S, form: (usize, usize), tile: Tile<'_>) {
    match form {
        (3, 1) => s.call(SeveralRows::<R, 3, 1>(tile)),
        (3, _) => s.call(SeveralRows::<R, 3, 2>(tile)),
        (5, 1) => s.call(SeveralRows::<R, 5, 1>(tile)),
        (5, _) => s.call(SeveralRows::<R, 5, 2>(tile)),
        (_, 1) => s.call(SeveralRows::<R, 7, 1>(tile)),
        _ => s.call(SeveralRows::<R, 7, 2>(tile)),
    }
}

/// Rows of sums of one filter.
#[derive(Clone, Copy)]
struct Tile<'a> {
    numbers: *const f32,
    /// Starts of the rows of numbers that the tile reads.
    starts: &'a [usize],
    /// Distances of the numbers of a window's row.
    places: &'a [usize],
    /// Windows of a row.
    windows: usize,
    weights: &'a [f32],
    bias: f32,
    /// Sums of the first row; those of the next follow.
    to: *mut f32,
}

/// Stores a vector of sums, or the first ones if a row has fewer.
///
/// # Safety
/// `to` is valid for writes of as many numbers.
#[inline(always)]
unsafe fn put<S: Lanes>(s: S, to: *mut f32, sum: S::F, windows: usize) {
    // SAFETY: the caller guarantees that `to` is valid for writes of these numbers.
    unsafe { if windows >= LANES { s.store(to, sum) } else { s.store_first(to, sum, windows) } }
}

/// `R` rows of sums, of windows with `K` successive rows that are `STEP` rows apart.
struct SeveralRows<'a, const R: usize, const K: usize, const STEP: usize>(Tile<'a>);

impl<const R: usize, const K: usize, const STEP: usize> Kernel for SeveralRows<'_, R, K, STEP> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let Tile { numbers, starts, places, windows, weights, bias, to } = self.0;
        let starts = &starts[..(R - 1) * STEP + K];
        for at in (0..windows).step_by(LANES) {
            // The last vector ends with the windows.
            let at = at.min(windows.max(LANES) - LANES);
            let mut sums = [s.splat(bias); R];
            // Adds the products of some rows. Compilers do not unroll a loop of so many.
            macro_rules! add {
                ($column:ident, $from:ident, $($row:literal)+) => {$(
                    if $row < (R - 1) * STEP + K {
                        let value = s.load($from.add(starts[$row]));
                        for (first, sum) in sums.iter_mut().enumerate() {
                            if $row >= first * STEP && $row - first * STEP < K {
                                *sum = s.fma($column[$row - first * STEP], value, *sum);
                            }
                        }
                    }
                )+};
            }
            const { assert!((ROWS - 1) * 2 + 7 <= 19, "rows of the widest tile") };
            // SAFETY: the numbers have a vector at each start and place, which `Ring::new` has
            // checked. `Ring::sum` has checked that there are as many weights, and `to` has R rows.
            unsafe {
                for (column, place) in places.iter().enumerate() {
                    let from = numbers.add(at + place);
                    let mut factors = [s.splat(0.0); K];
                    for (row, factor) in factors.iter_mut().enumerate() {
                        *factor = s.splat(*weights.as_ptr().add(row * places.len() + column));
                    }
                    add!(factors, from, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18);
                }
                for (row, sum) in sums.iter().enumerate() {
                    put(s, to.add(row * windows + at), *sum, windows);
                }
            }
        }
    }
}

/// One row of sums, of windows with any rows.
struct SingleRow<'a>(Tile<'a>);

impl Kernel for SingleRow<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let vectors = self.0.windows.div_ceil(LANES);
        let mut done = 0;
        while done < vectors {
            let count = (vectors - done).min(MAX_VECTORS);
            let first = done * LANES;
            match count {
                1 => single_row::<S, 1>(s, self.0, first),
                2 => single_row::<S, 2>(s, self.0, first),
                3 => single_row::<S, 3>(s, self.0, first),
                _ => single_row::<S, MAX_VECTORS>(s, self.0, first),
            }
            done += count;
        }
    }
}

#[inline(always)]
fn single_row<S: Lanes, const V: usize>(s: S, tile: Tile<'_>, first: usize) {
    let Tile { numbers, starts, places, windows, weights, bias, to } = tile;
    // The last vector ends with the windows.
    let at: [usize; V] =
        std::array::from_fn(|vector| (first + vector * LANES).min(windows.max(LANES) - LANES));
    let mut sums = [s.splat(bias); V];
    // SAFETY: the numbers have a vector at each start and place, which `Ring::new` has checked.
    // `Ring::sum` has checked that there are as many weights, and `to` has a row.
    unsafe {
        let mut weight = weights.as_ptr();
        for start in starts {
            for place in places {
                let numbers = numbers.add(start + place);
                for (sum, at) in sums.iter_mut().zip(&at) {
                    *sum = s.fma(s.splat(*weight), s.load(numbers.add(*at)), *sum);
                }
                weight = weight.add(1);
            }
        }
        for (sum, at) in sums.iter().zip(&at) {
            put(s, to.add(*at), *sum, windows);
        }
    }
}
