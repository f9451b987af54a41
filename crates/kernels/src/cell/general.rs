//! Kernels of the cells in `program::general`, sixteen units at a time. See the [module
//! above](super) for the safety argument.

use super::{Block, HiddenMatrices, Matrix, put_first};
use crate::activation::{Activation, Curve};
use crate::lanes::{Kernel, LANES, Lanes};
use crate::program::Gates;

/// Activations of the gates, with the curve for them.
#[derive(Clone, Copy)]
pub(crate) struct GateActivations {
    gates: Gates,
    curve: Curve,
}

impl GateActivations {
    pub(crate) fn new(gates: Gates) -> Self {
        Self { gates, curve: gates.tanh.curve() }
    }

    /// Clips a sum and applies activation `which`.
    #[inline(always)]
    fn clipped<S: Lanes>(&self, s: S, which: usize, sum: S::F) -> S::F {
        let sum = match self.gates.clip {
            // NaN stays NaN: it is the second operand of both.
            Some(clip) => s.min(s.splat(clip), s.max(s.splat(-clip), sum)),
            None => sum,
        };
        self.unclipped(s, which, sum)
    }

    #[inline(always)]
    fn unclipped<S: Lanes>(&self, s: S, which: usize, sum: S::F) -> S::F {
        self.gates.activations[which].apply(s, &self.curve, sum)
    }
}

pub(crate) struct Lstm<'a> {
    pub block: Block,
    pub input: Matrix,
    pub cell: Matrix,
    pub hidden: HiddenMatrices,
    pub shaped: GateActivations,
    pub peepholes: Option<&'a [f32]>,
    pub coupled: bool,
}

impl Lstm<'_> {
    /// Returns the sum of a gate with its input and peephole. Not a closure: called three times, it
    /// would be compiled without the instructions of its token.
    ///
    /// # Safety
    /// The panel and row are in range of the kernel's matrices, and `sums` is the pointer to their
    /// sums.
    #[inline(always)]
    unsafe fn gate_sum<S: Lanes>(
        &self,
        s: S,
        (panel, row, sums): (usize, usize, *const f32),
        (which, gate): (usize, usize),
        state: S::F,
    ) -> S::F {
        // SAFETY: the caller guarantees that panel, row and `sums` are in range. `Program::new` has
        // verified that the peepholes have three vectors per panel.
        unsafe {
            let sum = s.load(sums.add(gate * LANES));
            let sum = s.add(sum, s.load(self.input.at(row, (panel * 4 + gate) * LANES)));
            match self.peepholes {
                Some(p) => s.fma(s.load(p.as_ptr().add((panel * 3 + which) * LANES)), state, sum),
                None => sum,
            }
        }
    }
}

impl Kernel for Lstm<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let shaped = self.shaped;
        for place in self.block.each() {
            let (panel, row, sums) = place;
            let unit = panel * LANES;
            // SAFETY: see the module documentation of `cell`: the panel and the row are in range of
            // all matrices, and `sums` is valid for four vectors.
            unsafe {
                let last = s.load(self.cell.at(row, unit));
                let i = shaped.clipped(s, 0, self.gate_sum(s, place, (0, 0), last));
                let f = if self.coupled {
                    s.sub(s.splat(1.0), i)
                } else {
                    shaped.clipped(s, 0, self.gate_sum(s, place, (1, 1), last))
                };
                let sum = s.load(sums.add(2 * LANES));
                let sum = s.add(sum, s.load(self.input.at(row, (panel * 4 + 2) * LANES)));
                let g = shaped.clipped(s, 1, sum);
                let c = s.fma(f, last, s.mul(i, g));
                s.store(self.cell.at(row, unit), c);
                let o = shaped.clipped(s, 0, self.gate_sum(s, place, (2, 3), c));
                let h = s.mul(o, shaped.unclipped(s, 2, c));
                self.hidden.put(s, row, unit, h);
            }
        }
    }
}

pub(crate) struct Gru {
    pub block: Block,
    pub input: Matrix,
    pub last: Matrix,
    pub hidden: HiddenMatrices,
    pub shaped: GateActivations,
}

impl Kernel for Gru {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let shaped = self.shaped;
        for (panel, row, sums) in self.block.each() {
            let unit = panel * LANES;
            // SAFETY: see the module documentation of `cell`: the panel and the row are in range of
            // all matrices, and `sums` is valid for three vectors.
            unsafe {
                let sum = |gate: usize| s.load(sums.add(gate * LANES));
                let input = |gate: usize| s.load(self.input.at(row, (panel * 3 + gate) * LANES));
                let z = shaped.clipped(s, 0, s.add(sum(0), input(0)));
                let r = shaped.clipped(s, 0, s.add(sum(1), input(1)));
                let n = shaped.clipped(s, 1, s.fma(r, sum(2), input(2)));
                let last = s.load(self.last.at(row, unit));
                self.hidden.put(s, row, unit, s.fma(z, s.sub(last, n), n));
            }
        }
    }
}

pub(crate) struct ResetCell {
    pub block: Block,
    pub input: Matrix,
    pub last: Matrix,
    pub update: Matrix,
    pub reset: Matrix,
    pub shaped: GateActivations,
}

impl Kernel for ResetCell {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let shaped = self.shaped;
        for (panel, row, sums) in self.block.each() {
            let unit = panel * LANES;
            // SAFETY: see the module documentation of `cell`: the panel and the row are in range of
            // all matrices, and `sums` is valid for two vectors.
            unsafe {
                let mut gates = [s.splat(0.0); 2];
                for (gate, to) in gates.iter_mut().enumerate() {
                    let input = s.load(self.input.at(row, (panel * 2 + gate) * LANES));
                    *to = shaped.clipped(s, 0, s.add(s.load(sums.add(gate * LANES)), input));
                }
                let [z, r] = gates;
                s.store(self.update.at(row, unit), z);
                s.store(self.reset.at(row, unit), s.mul(r, s.load(self.last.at(row, unit))));
            }
        }
    }
}

pub(crate) struct BlendCell {
    pub block: Block,
    pub input: Matrix,
    pub update: Matrix,
    pub last: Matrix,
    pub hidden: HiddenMatrices,
    pub shaped: GateActivations,
}

impl Kernel for BlendCell {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let shaped = self.shaped;
        let vectors = self.block.vectors;
        for (panel, row, sums) in self.block.each() {
            for vector in 0..vectors {
                let unit = (panel * vectors + vector) * LANES;
                // SAFETY: see the module documentation of `cell`: the panel and the row are in
                // range of all matrices, and `sums` is valid for `vectors` vectors.
                unsafe {
                    let sum =
                        s.add(s.load(sums.add(vector * LANES)), s.load(self.input.at(row, unit)));
                    let n = shaped.clipped(s, 1, sum);
                    let z = s.load(self.update.at(row, unit));
                    let last = s.load(self.last.at(row, unit));
                    self.hidden.put(s, row, unit, s.fma(z, s.sub(last, n), n));
                }
            }
        }
    }
}

pub(crate) struct Rnn {
    pub block: Block,
    pub input: Option<Matrix>,
    pub hidden: HiddenMatrices,
    pub shaped: GateActivations,
}

impl Kernel for Rnn {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let shaped = self.shaped;
        let vectors = self.block.vectors;
        for (panel, row, sums) in self.block.each() {
            for vector in 0..vectors {
                let unit = (panel * vectors + vector) * LANES;
                // SAFETY: see the module documentation of `cell`: the panel and the row are in
                // range of all matrices, and `sums` is valid for `vectors` vectors.
                unsafe {
                    let sum = s.load(sums.add(vector * LANES));
                    let sum = match self.input {
                        Some(input) => s.add(sum, s.load(input.at(row, unit))),
                        None => sum,
                    };
                    self.hidden.put(s, row, unit, shaped.clipped(s, 0, sum));
                }
            }
        }
    }
}

pub(crate) struct HighwayCell {
    pub block: Block,
    pub x: Matrix,
    pub to: Matrix,
    pub outputs: usize,
    pub activation: Activation,
    pub curve: Curve,
}

impl Kernel for HighwayCell {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        for (panel, row, sums) in self.block.each() {
            let unit = panel * LANES;
            let count = self.outputs.saturating_sub(unit).min(LANES);
            let mut carried = [0.0; LANES];
            // SAFETY: see the module documentation of `cell`: the panel and the row are in range,
            // `sums` is valid for two vectors, and `x` and `to` have all columns below `outputs`,
            // hence `count` from `unit` on. `carried` has 16 numbers.
            unsafe {
                if count == LANES {
                    carried = self.x.at(row, unit).cast::<[f32; LANES]>().read_unaligned();
                } else if count > 0 {
                    self.x.at(row, unit).copy_to_nonoverlapping(carried.as_mut_ptr(), count);
                }
                let x = s.load(carried.as_ptr());
                let t = Activation::Sigmoid.apply(s, &self.curve, s.load(sums));
                let candidate = s.load(sums.add(LANES));
                let candidate = self.activation.apply(s, &self.curve, candidate);
                put_first(s, self.to, row, unit, s.fma(t, s.sub(candidate, x), x), count);
            }
        }
    }
}
