//! Epilogues of products, sixteen units at a time: cells of recurrent networks, activations and
//! stores.
//!
//! # Safety of the kernels
//!
//! Only `execute::Worker` builds the kernels of this module and of [`general`], for products of a
//! checked `Program`:
//! - `Program::new` has verified (`program/proof.rs`) that everything a product touches, for all of
//!   its panels and rows, lies inside of its buffers and is not written by another worker between
//!   the same two barriers;
//! - `Execution::run` has verified that every buffer has its full size in this call;
//! - the sums of a block fit in the worker's scratch memory, since `Worker::product` limits blocks
//!   to its size.
//!
//! Hence every panel and row that [`Block::each`] yields is in range of all matrices of its kernel,
//! and its pointer is valid for the `vectors` x 16 sums of that panel and row.

pub(crate) mod general;
#[cfg(test)]
mod tests;

use crate::activation::{Activation, Curve, Tanh};
use crate::lanes::{Kernel, LANES, Lanes};
use crate::narrow::RowQuantization;
use crate::panels::Precision;

/// A matrix at some step: pointer to its first element, and words from one row to the next.
#[derive(Clone, Copy)]
pub(crate) struct Matrix {
    pub first: *mut f32,
    pub stride: usize,
}

impl Matrix {
    /// Returns the pointer to an element.
    ///
    /// # Safety
    /// Row and column are inside of the matrix.
    #[inline(always)]
    unsafe fn at(self, row: usize, column: usize) -> *mut f32 {
        // SAFETY: the caller guarantees that row and column are inside of the matrix.
        unsafe { self.first.add(row * self.stride + column) }
    }
}

/// Destinations of a new state; see `program::HiddenState`.
#[derive(Clone, Copy)]
pub(crate) struct HiddenMatrices {
    pub state: Matrix,
    pub narrow: Option<(Matrix, Precision)>,
    pub output: Option<Matrix>,
    pub units: usize,
}

impl HiddenMatrices {
    /// Stores sixteen units from `unit` on.
    ///
    /// # Safety
    /// The row and the units are inside of all matrices; in the output, the units below `units`.
    #[inline(always)]
    unsafe fn put<S: Lanes>(&self, s: S, row: usize, unit: usize, h: S::F) {
        // SAFETY: the caller guarantees that the row and the units are inside of all matrices; at
        // most `units` reach the output.
        unsafe {
            s.store(self.state.at(row, unit), h);
            match self.narrow {
                Some((to, Precision::Bf16)) => s.store_bf16(to.at(row, unit / 2).cast(), h),
                Some((to, Precision::Int8)) => {
                    s.store_u8(to.at(row, unit / 4).cast(), s.mul(h, s.splat(127.0)));
                }
                Some((_, Precision::F32)) | None => {}
            }
            if let Some(output) = self.output {
                let count = self.units.saturating_sub(unit);
                put_first(s, output, row, unit, h, count);
            }
        }
    }
}

/// Stores the first `count` of sixteen numbers; `count` may be 0 or above 16.
///
/// # Safety
/// The row and `count` (at most 16) columns from `column` on are inside of the matrix.
#[inline(always)]
unsafe fn put_first<S: Lanes>(s: S, to: Matrix, row: usize, column: usize, x: S::F, count: usize) {
    // SAFETY: the caller guarantees that the row and the columns are inside of the matrix.
    unsafe {
        if count >= LANES {
            s.store(to.at(row, column), x);
        } else if count > 0 {
            s.store_first(to.at(row, column), x, count);
        }
    }
}

/// Sums of a block of panels: `panels` x `all_rows` x `vectors` x 16 numbers. The block covers
/// `rows` rows, whose sums begin at `sums`; they are the rows of the matrices from `first_row` on.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    pub sums: *const f32,
    pub all_rows: usize,
    pub first_panel: usize,
    pub panels: usize,
    pub first_row: usize,
    pub rows: usize,
    pub vectors: usize,
}

impl Block {
    /// Iterates over panels, rows and the pointers to their sums. An iterator instead of a closure:
    /// code that uses vector instructions must be compiled as part of the kernel, which is not
    /// certain for closures.
    #[inline(always)]
    fn each(&self) -> BlockRows {
        BlockRows { block: *self, panel: 0, row: 0 }
    }
}

/// Iterator of [`Block::each`].
struct BlockRows {
    block: Block,
    panel: usize,
    row: usize,
}

impl Iterator for BlockRows {
    type Item = (usize, usize, *const f32);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let Self { block, panel, row } = self;
        if *row == block.rows {
            (*panel, *row) = (*panel + 1, 0);
        }
        if *panel >= block.panels || block.rows == 0 {
            return None;
        }
        let sums = (*panel * block.all_rows + *row) * block.vectors * LANES;
        let found = (block.first_panel + *panel, block.first_row + *row);
        *row += 1;
        Some((found.0, found.1, block.sums.wrapping_add(sums)))
    }
}

/// An LSTM cell with the default activations, without peepholes and clipping. The product of its
/// three denominators is below 2e8, so that states up to 1e29 do not overflow before the division.
pub(crate) struct Lstm<'a, const N: usize> {
    pub block: Block,
    pub input: Option<Matrix>,
    pub cell: Matrix,
    pub hidden: HiddenMatrices,
    pub curve: &'a Curve,
}

impl<const N: usize> Kernel for Lstm<'_, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let curve = *self.curve;
        for (panel, row, sums) in self.block.each() {
            let unit = panel * LANES;
            // SAFETY: see the module documentation: the panel and the row are in range of all
            // matrices, and `sums` is valid for four vectors.
            unsafe {
                let gate = |gate: usize| {
                    let sum = s.load(sums.add(gate * LANES));
                    match self.input {
                        Some(input) => {
                            s.add(sum, s.load(input.at(row, (panel * 4 + gate) * LANES)))
                        }
                        None => sum,
                    }
                };
                let (ni, di) = curve.logistic::<S, N>(s, gate(0));
                let (nf, df) = curve.logistic::<S, N>(s, gate(1));
                let (ng, dg) = curve.parts::<S, N>(s, gate(2));
                let (no, d_o) = curve.logistic::<S, N>(s, gate(3));
                // c' = nf/df c + ni/di ng/dg with one division.
                let of_input = s.mul(di, dg);
                let above = s.fma(
                    s.mul(nf, s.load(self.cell.at(row, unit))),
                    of_input,
                    s.mul(s.mul(ni, ng), df),
                );
                let c = s.div(above, s.mul(df, of_input));
                s.store(self.cell.at(row, unit), c);
                let (nc, dc) = curve.parts::<S, N>(s, c);
                let h = s.div(s.mul(no, nc), s.mul(d_o, dc));
                self.hidden.put(s, row, unit, h);
            }
        }
    }
}

/// A GRU cell whose reset gate is applied to the product.
pub(crate) struct Gru<'a, const N: usize> {
    pub block: Block,
    pub input: Matrix,
    pub last: Matrix,
    pub hidden: HiddenMatrices,
    pub curve: &'a Curve,
}

impl<const N: usize> Kernel for Gru<'_, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let curve = *self.curve;
        for (panel, row, sums) in self.block.each() {
            let unit = panel * LANES;
            // SAFETY: see the module documentation: the panel and the row are in range of all
            // matrices, and `sums` is valid for three vectors.
            unsafe {
                let sum = |gate: usize| s.load(sums.add(gate * LANES));
                let input = |gate: usize| s.load(self.input.at(row, (panel * 3 + gate) * LANES));
                let (nz, dz) = curve.logistic::<S, N>(s, s.add(sum(0), input(0)));
                let (nr, dr) = curve.logistic::<S, N>(s, s.add(sum(1), input(1)));
                let r = s.div(nr, dr);
                let (nn, dn) = curve.parts::<S, N>(s, s.fma(r, sum(2), input(2)));
                // (1 - z) n + z h with one division.
                let last = s.load(self.last.at(row, unit));
                let above = s.fma(s.mul(nz, last), dn, s.mul(s.sub(dz, nz), nn));
                let h = s.div(above, s.mul(dz, dn));
                self.hidden.put(s, row, unit, h);
            }
        }
    }
}

/// An RNN cell; the vectors of a panel are groups of sixteen units.
pub(crate) struct Rnn {
    pub block: Block,
    pub input: Option<Matrix>,
    pub hidden: HiddenMatrices,
    pub activation: Activation,
}

impl Kernel for Rnn {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let curve = Tanh::Fitted98.curve();
        let vectors = self.block.vectors;
        for (panel, row, sums) in self.block.each() {
            for vector in 0..vectors {
                let unit = (panel * vectors + vector) * LANES;
                // SAFETY: see the module documentation: the panel and the row are in range of all
                // matrices, and `sums` is valid for `vectors` vectors.
                unsafe {
                    let sum = s.load(sums.add(vector * LANES));
                    let sum = match self.input {
                        Some(input) => s.add(sum, s.load(input.at(row, unit))),
                        None => sum,
                    };
                    self.hidden.put(s, row, unit, self.activation.apply(s, &curve, sum));
                }
            }
        }
    }
}

/// Stores outputs after an activation.
pub(crate) struct StoreKernel {
    pub block: Block,
    pub to: Matrix,
    pub outputs: usize,
    pub activation: Activation,
}

impl Kernel for StoreKernel {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let curve = Tanh::Fitted98.curve();
        let vectors = self.block.vectors;
        for (panel, row, sums) in self.block.each() {
            for vector in 0..vectors {
                let output = (panel * vectors + vector) * LANES;
                // SAFETY: see the module documentation: the panel and the row are in range, `sums`
                // is valid for `vectors` vectors, and `to` has all columns below `outputs`.
                unsafe {
                    let x = self.activation.apply(s, &curve, s.load(sums.add(vector * LANES)));
                    let count = self.outputs.saturating_sub(output);
                    put_first(s, self.to, row, output, x, count);
                }
            }
        }
    }
}

/// Converts integer sums to `f32`: subtracts the excess caused by the offset of 128, multiplies by
/// the scales of both sides, and adds the middle of the row times its weights.
pub(crate) struct Dequantization<'a> {
    pub block: Block,
    pub scales: &'a [f32],
    pub excess: &'a [i32],
    pub bias: Option<&'a [f32]>,
    pub scale: f32,
    /// Scale and middle of each row of the block, in addition to `scale`.
    pub worths: Option<&'a [RowQuantization]>,
    /// Destination and number of outputs, if there is no other epilogue.
    pub to: Option<(Matrix, usize)>,
}

impl Kernel for Dequantization<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let vectors = self.block.vectors;
        for (panel, row, sums) in self.block.each() {
            let worth = self.worths.map(|worths| worths[row - self.block.first_row]);
            let scale = s.splat(self.scale * worth.map_or(1.0, |worth| worth.step));
            // The excess is 128 times the sum of an output's weights.
            let middle = worth.map(|worth| s.splat(worth.middle / 128.0));
            for vector in 0..vectors {
                let at = ((panel - self.block.first_panel) * vectors + vector) * LANES;
                let sums = sums.wrapping_add(vector * LANES).cast_mut();
                // SAFETY: see the module documentation: `sums` is valid for `vectors` vectors, and
                // `to` has the row and all columns below `outputs`. `Worker::whole` passes scales,
                // excesses and biases for all panels of the block.
                unsafe {
                    let excess = s.load_i32(self.excess.as_ptr().add(at));
                    let whole = s.to_f32(s.sub_i32(s.load_i32(sums.cast()), excess));
                    let whole = s.mul(whole, scale);
                    let whole = match middle {
                        Some(middle) => s.fma(s.to_f32(excess), middle, whole),
                        None => whole,
                    };
                    let bias = match self.bias {
                        Some(bias) => s.load(bias.as_ptr().add(at)),
                        None => s.splat(0.0),
                    };
                    let x = s.fma(whole, s.load(self.scales.as_ptr().add(at)), bias);
                    match self.to {
                        Some((to, outputs)) => {
                            let output = (panel * vectors + vector) * LANES;
                            put_first(s, to, row, output, x, outputs.saturating_sub(output));
                        }
                        None => s.store(sums, x),
                    }
                }
            }
        }
    }
}
