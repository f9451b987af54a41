//! Which worker holds which part of a product: private-cache-aware partitioning (DeepCPU, section 5.2).
//!
//! `C[I, J] += A[I, K] B[K, J]` is cut into X_i x X_j x X_k parts, one for each worker. Two measures
//! tell cuts apart: what moves from the shared cache to private ones (Theorem 5.2), and a time in
//! three levels, since weights that do not fit are not lost at once (SPEC section 5).

use dyno_kernels::{LANES, Precision};

use crate::layer::Cell;
use crate::machine::{Machine, lost};

/// A product that is done `steps` times with the same B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multiply {
    /// Rows of A and C: of the batch.
    pub i: usize,
    /// Columns of B and C: outputs of all gates.
    pub j: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// How often.
    pub steps: usize,
}

/// Parts along each side of a product: the paper's <X_i, X_j, X_k>.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Split {
    /// Of the rows.
    pub i: usize,
    /// Of the outputs.
    pub j: usize,
    /// Of what is summed over.
    pub k: usize,
}

impl Split {
    /// Nothing is cut.
    pub const ONE: Self = Self { i: 1, j: 1, k: 1 };

    /// Parts in all.
    #[must_use]
    pub fn workers(self) -> usize {
        self.i * self.j * self.k
    }
}

impl std::fmt::Display for Split {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "<{},{},{}>", self.i, self.j, self.k)
    }
}

impl Multiply {
    /// Numbers of A, B and C.
    fn numbers(&self) -> [f64; 3] {
        [self.i * self.k, self.k * self.j, self.i * self.j].map(|count| count as f64)
    }

    /// Multiplications and additions of one time.
    #[must_use]
    pub fn flops(&self) -> f64 {
        2.0 * (self.i * self.j * self.k) as f64
    }

    /// Operations for each number moved, of one time on one core: 2IJK / (|A| + |B| + 2|C|), the
    /// paper's equation 2. C is read and written.
    #[must_use]
    pub fn reuse(&self) -> f64 {
        self.reuse_split(Split::ONE)
    }

    /// The same of a product that is cut: 2IJK / (X_j|A| + X_i|B| + 2 X_k|C|), its equation 3. More
    /// workers move more numbers for the same operations.
    #[must_use]
    pub fn reuse_split(&self, split: Split) -> f64 {
        let [a, b, c] = self.numbers();
        self.flops() / (split.j as f64 * a + split.i as f64 * b + 2.0 * split.k as f64 * c)
    }

    /// Numbers that move from the shared cache to private ones in all steps, where a private one
    /// keeps `private` weights: T (X_j|A| + 2 X_k|C|) + X_i|B| if a worker's part of B stays there,
    /// and X_i|B| each step if not. Source: Theorem 5.2.
    #[must_use]
    pub fn moved(&self, split: Split, private: f64) -> f64 {
        let [a, b, c] = self.numbers();
        let steps = self.steps as f64;
        let stays = b / (split.j * split.k) as f64 <= private;
        let times = if stays { 1.0 } else { steps };
        steps * (split.j as f64 * a + 2.0 * split.k as f64 * c) + times * split.i as f64 * b
    }
}

/// Most parts of each side: a worker has whole rows, whole panels and whole words.
#[must_use]
pub fn most(of: &Multiply, gates: usize, precision: Precision) -> Split {
    // A tile of 16 bit or 8 bit weights has 32 or 64 of them (SPEC section 5); a word of 32 bit one.
    let k = LANES * precision.per_word();
    Split {
        i: of.i,
        j: of.j.div_ceil(gates * LANES),
        k: of.k.div_ceil(if k > LANES { k } else { 1 }),
    }
}

/// All cuts for exactly `workers` that are no finer than `most`.
#[must_use]
pub fn splits(workers: usize, most: Split) -> Vec<Split> {
    let divisors = |of: usize| (1..=of).filter(move |part| of.is_multiple_of(*part));
    let mut all = Vec::new();
    for i in divisors(workers).filter(|i| *i <= most.i) {
        for j in divisors(workers / i).filter(|j| *j <= most.j) {
            let k = workers / i / j;
            if k <= most.k {
                all.push(Split { i, j, k });
            }
        }
    }
    all
}

/// The cut for exactly `workers` that moves least; of equals the first with fewest parts of K, whose
/// sums would have to be added. Nothing if there is none.
#[must_use]
pub fn least_moved(of: &Multiply, workers: usize, most: Split, private: f64) -> Option<Split> {
    let mut all = splits(workers, most);
    all.sort_by_key(|split| split.k);
    let moved = |split: &Split| of.moved(*split, private);
    all.into_iter().min_by(|a, b| moved(a).total_cmp(&moved(b)))
}

/// In which order panels are read from step to step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// Always forwards: what does not fit evicts what comes next.
    Forward,
    /// Forwards and backwards in turn: as much stays as fits.
    Alternate,
}

/// Bytes a worker reads each step, and at what cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// Nanoseconds.
    pub ns: f64,
    /// Bytes from beyond the private cache.
    pub far_bytes: f64,
}

/// Reads `bytes` of weights again and again on each of `workers`, of which all have `all` bytes
/// (SPEC section 5: b, s, BW1 to BW3).
#[must_use]
pub fn reading(machine: &Machine, bytes: f64, workers: usize, all: f64, sweep: Sweep) -> Reading {
    let rates = &machine.bandwidths;
    if bytes <= machine.kept_l1() {
        return Reading { ns: bytes / rates.l1, far_bytes: 0.0 };
    }
    let kept = machine.kept_l2();
    let excess = (bytes - kept).max(0.0);
    if excess == 0.0 {
        return Reading { ns: bytes / rates.l2, far_bytes: 0.0 };
    }
    let far = machine.far(workers, all);
    let lost = bytes * lost(bytes, kept, machine.caches.l2 as f64);
    let forward = Reading { ns: (bytes - lost) / rates.l2 + lost / far, far_bytes: lost };
    let alternate = Reading { ns: (bytes / rates.l2).max(excess / far), far_bytes: excess };
    // Where a cache loses less than it might, turning round saves nothing.
    if sweep == Sweep::Alternate && alternate.ns < forward.ns { alternate } else { forward }
}

/// Nanoseconds of a step, part by part.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepTime {
    /// Multiplying, if weights were there.
    pub multiply: f64,
    /// Reading weights, if multiplying were free.
    pub weights: f64,
    /// Reading what others wrote.
    pub exchange: f64,
    /// Waiting for others.
    pub meeting: f64,
    /// From sums to states.
    pub cells: f64,
}

impl StepTime {
    /// Multiplying and reading go on at once, all else after them.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.multiply.max(self.weights) + self.exchange + self.meeting + self.cells
    }
}

/// What a cut is judged for: a cell's product with the state.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// The product of a step, all gates in `j`.
    pub product: Multiply,
    /// Whose it is.
    pub cell: Cell,
    /// How its numbers are held.
    pub precision: Precision,
    /// Where.
    pub machine: &'a Machine,
    /// How weights are read.
    pub sweep: Sweep,
}

impl Task<'_> {
    /// Time of a step of the worker with the largest share.
    #[must_use]
    pub fn step(&self, split: Split) -> StepTime {
        let Self { product, cell, precision, machine, sweep } = self;
        let (gates, workers) = (cell.gates(), split.workers());
        let panels = product.j.div_ceil(gates * LANES).div_ceil(split.j);
        let (rows, k) = (product.i.div_ceil(split.i), product.k.div_ceil(split.k));
        let (units, weights) = (panels * LANES, gates * panels * LANES * k);
        let bytes = |weights: usize| (weights * 4 / precision.per_word()) as f64;
        let all = bytes(product.j * product.k);
        // Others' units of the state, and, of a sum in parts, the other parts.
        let others = (product.j / gates).saturating_sub(units) * rows * 4 / precision.per_word();
        let parts = (split.k - 1) * rows * gates * units * 4 / split.k;
        let meetings = usize::from(split.j > 1 || split.k > 1) + usize::from(split.k > 1);
        let rounds = rows * panels;
        StepTime {
            multiply: 2.0 * (rows * weights) as f64 / machine.peak_among(*precision, rows, workers),
            weights: reading(machine, bytes(weights), workers, all, *sweep).ns,
            exchange: machine.exchange((others + parts) as f64),
            meeting: meetings as f64 * machine.meeting(workers),
            cells: rounds as f64 * machine.cell(*cell) / split.k as f64
                + rounds as f64 * machine.cells.tile,
        }
    }

    /// The fastest cut for at most `workers`: the integer search over all ordered triples of
    /// factors. Of equals the one with fewest workers.
    #[must_use]
    pub fn fastest(&self, workers: usize) -> (Split, StepTime) {
        let most = most(&self.product, self.cell.gates(), self.precision);
        let all = (1..=workers.max(1)).flat_map(|count| splits(count, most));
        let timed = all.map(|split| (split, self.step(split)));
        let least = timed.min_by(|a, b| a.1.total().total_cmp(&b.1.total()));
        least.unwrap_or((Split::ONE, self.step(Split::ONE)))
    }
}
