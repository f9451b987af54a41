//! What becomes of sums: cells of recurrent networks and activations, sixteen units at a time.

pub(crate) mod general;
#[cfg(test)]
mod tests;

use crate::activation::{Activation, Curve, Tanh};
use crate::lanes::{Kernel, LANES, Lanes};
use crate::narrow::Worth;
use crate::panels::Precision;

/// A matrix at some step: its first row, and words from one row to the next.
#[derive(Clone, Copy)]
pub(crate) struct Matrix {
    pub first: *mut f32,
    pub stride: usize,
}

impl Matrix {
    /// # Safety
    /// The row and column lie inside of the matrix.
    #[inline(always)]
    unsafe fn at(self, row: usize, column: usize) -> *mut f32 {
        // SAFETY: the caller vouches for both.
        unsafe { self.first.add(row * self.stride + column) }
    }
}

/// Where a new state goes: see `program::Hidden`.
#[derive(Clone, Copy)]
pub(crate) struct Hidden {
    pub state: Matrix,
    pub narrow: Option<(Matrix, Precision)>,
    pub output: Option<Matrix>,
    pub units: usize,
}

impl Hidden {
    /// Sixteen units from `unit` on.
    ///
    /// # Safety
    /// The row and the units lie inside of all matrices; of the output those below `units`.
    #[inline(always)]
    unsafe fn put<S: Lanes>(&self, s: S, row: usize, unit: usize, h: S::F) {
        // SAFETY: the caller vouches for the row and the units.
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

/// The first `count` of sixteen numbers, which may be more or none.
///
/// # Safety
/// The row and that many columns from `column` on lie inside of the matrix.
#[inline(always)]
unsafe fn put_first<S: Lanes>(s: S, to: Matrix, row: usize, column: usize, x: S::F, count: usize) {
    // SAFETY: the caller vouches for the row and the columns.
    unsafe {
        if count >= LANES {
            s.store(to.at(row, column), x);
        } else if count > 0 {
            s.store_first(to.at(row, column), x, count);
        }
    }
}

/// Sums of a block of panels: `panels` x `all_rows` x `vectors` x 16, of which `rows` are meant
/// that begin at `sums` and are the rows from `first_row` on of the matrices.
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
    /// Every panel and row, and where its sums are. No function is called with them: what calls the
    /// instructions of a vector must be compiled as part of the kernel, which closures need not be.
    #[inline(always)]
    fn each(&self) -> Each {
        Each { block: *self, panel: 0, row: 0 }
    }
}

/// See [`Block::each`].
struct Each {
    block: Block,
    panel: usize,
    row: usize,
}

impl Iterator for Each {
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

/// An LSTM with its own activations, neither peepholes nor clipping. Products of its three
/// denominators are below 2e8, so that states up to 1e29 do not overflow before they are divided.
pub(crate) struct Lstm<'a, const N: usize> {
    pub block: Block,
    pub input: Option<Matrix>,
    pub cell: Matrix,
    pub hidden: Hidden,
    pub curve: &'a Curve,
}

impl<const N: usize> Kernel for Lstm<'_, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let curve = *self.curve;
        for (panel, row, sums) in self.block.each() {
            let unit = panel * LANES;
            // SAFETY: who made the kernel vouches for panels and rows of all matrices.
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
                // c' = nf/df c + ni/di ng/dg, by one division.
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

/// A GRU whose reset gate acts on the product.
pub(crate) struct Gru<'a, const N: usize> {
    pub block: Block,
    pub input: Matrix,
    pub last: Matrix,
    pub hidden: Hidden,
    pub curve: &'a Curve,
}

impl<const N: usize> Kernel for Gru<'_, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let curve = *self.curve;
        for (panel, row, sums) in self.block.each() {
            let unit = panel * LANES;
            // SAFETY: who made the kernel vouches for panels and rows of all matrices.
            unsafe {
                let sum = |gate: usize| s.load(sums.add(gate * LANES));
                let input = |gate: usize| s.load(self.input.at(row, (panel * 3 + gate) * LANES));
                let (nz, dz) = curve.logistic::<S, N>(s, s.add(sum(0), input(0)));
                let (nr, dr) = curve.logistic::<S, N>(s, s.add(sum(1), input(1)));
                let r = s.div(nr, dr);
                let (nn, dn) = curve.parts::<S, N>(s, s.fma(r, sum(2), input(2)));
                // (1 - z) n + z h, by one division.
                let last = s.load(self.last.at(row, unit));
                let above = s.fma(s.mul(nz, last), dn, s.mul(s.sub(dz, nz), nn));
                let h = s.div(above, s.mul(dz, dn));
                self.hidden.put(s, row, unit, h);
            }
        }
    }
}

/// A plain network; the vectors of a panel are groups of sixteen units.
pub(crate) struct Rnn {
    pub block: Block,
    pub input: Option<Matrix>,
    pub hidden: Hidden,
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
                // SAFETY: who made the kernel vouches for panels and rows of all matrices.
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

/// Outputs as they are, or with an activation.
pub(crate) struct Store {
    pub block: Block,
    pub to: Matrix,
    pub outputs: usize,
    pub activation: Activation,
}

impl Kernel for Store {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let curve = Tanh::Fitted98.curve();
        let vectors = self.block.vectors;
        for (panel, row, sums) in self.block.each() {
            for vector in 0..vectors {
                let output = (panel * vectors + vector) * LANES;
                // SAFETY: who made the kernel vouches for panels and rows of all matrices, and for
                // the outputs of the last.
                unsafe {
                    let x = self.activation.apply(s, &curve, s.load(sums.add(vector * LANES)));
                    let count = self.outputs.saturating_sub(output);
                    put_first(s, self.to, row, output, x, count);
                }
            }
        }
    }
}

/// Sums of whole numbers become `f32`: less the excess of the 128s, times the steps of both sides, and
/// the middle of a row times the weights that it was multiplied by.
pub(crate) struct Whole<'a> {
    pub block: Block,
    pub scales: &'a [f32],
    pub excess: &'a [i32],
    pub bias: Option<&'a [f32]>,
    pub scale: f32,
    /// Of each row of the block, beside `scale`.
    pub worths: Option<&'a [Worth]>,
    /// Where they go and how many outputs there are, if nothing else is done to them.
    pub to: Option<(Matrix, usize)>,
}

impl Kernel for Whole<'_> {
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
                // SAFETY: who made the kernel vouches for scales, excesses and biases of its panels, and for
                // the rows and outputs of where sums go.
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
