//! Private-cache-aware partitioning of products among workers (DeepCPU, section 5.2).
//!
//! A product `C[I, J] += A[I, K] B[K, J]` is split into X_i x X_j x X_k parts, one per worker. Two
//! measures compare splits: the numbers that move from the shared cache to private caches (Theorem
//! 5.2), and a time over three cache levels, since weights that exceed a cache are not all evicted
//! at once (SPEC section 5).
//!
//! ```
//! use dyno_rnn::partition::{MatrixProduct, Split, least_moved};
//!
//! // The state's product of an LSTM with 256 units, 100 steps, batch 1.
//! let product = MatrixProduct { i: 1, j: 1024, k: 256, steps: 100 };
//! let most = Split { i: 1, j: 16, k: 256 };
//! // Splitting the outputs moves least if each worker keeps its weights in its private cache.
//! let split = least_moved(&product, 4, most, 65_536.0);
//! assert_eq!(split, Some(Split { i: 1, j: 4, k: 1 }));
//! ```

use dyno_kernels::{LANES, Precision};

use crate::layer::Cell;
use crate::machine::{Machine, lost};

/// A matrix product that runs `steps` times with the same B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatrixProduct {
    /// Rows of A and C: rows of the batch.
    pub i: usize,
    /// Columns of B and C: outputs of all gates.
    pub j: usize,
    /// Columns of A and rows of B.
    pub k: usize,
    /// Number of times that it runs.
    pub steps: usize,
}

/// Number of parts along each dimension of a product: <X_i, X_j, X_k> of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Split {
    /// Parts of the rows.
    pub i: usize,
    /// Parts of the outputs.
    pub j: usize,
    /// Parts of the summed dimension.
    pub k: usize,
}

impl Split {
    /// No split.
    pub const ONE: Self = Self { i: 1, j: 1, k: 1 };

    /// Total number of parts.
    pub fn workers(self) -> usize {
        self.i * self.j * self.k
    }
}

impl std::fmt::Display for Split {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "<{},{},{}>", self.i, self.j, self.k)
    }
}

impl MatrixProduct {
    /// Numbers in A, B and C.
    fn numbers(&self) -> [f64; 3] {
        [self.i * self.k, self.k * self.j, self.i * self.j].map(|count| count as f64)
    }

    /// Floating-point operations of one run.
    pub fn flops(&self) -> f64 {
        2.0 * (self.i * self.j * self.k) as f64
    }

    /// Operations per number moved in one run on one core: 2IJK / (|A| + |B| + 2|C|), equation 2 of
    /// the paper. C is read and written.
    pub fn reuse(&self) -> f64 {
        self.reuse_split(Split::ONE)
    }

    /// Operations per number moved in one run of a split product: 2IJK / (X_j|A| + X_i|B| + 2
    /// X_k|C|), equation 3 of the paper. More workers move more numbers for the same operations.
    pub fn reuse_split(&self, split: Split) -> f64 {
        let [a, b, c] = self.numbers();
        self.flops() / (split.j as f64 * a + split.i as f64 * b + 2.0 * split.k as f64 * c)
    }

    /// Numbers that move from the shared cache to private ones in all steps, if a private cache
    /// keeps `private` weights: T (X_j|A| + 2 X_k|C|) + X_i|B| if a worker's part of B stays there,
    /// otherwise X_i|B| at each step. Source: Theorem 5.2.
    pub fn moved(&self, split: Split, private: f64) -> f64 {
        let [a, b, c] = self.numbers();
        let steps = self.steps as f64;
        let stays = b / (split.j * split.k) as f64 <= private;
        let times = if stays { 1.0 } else { steps };
        steps * (split.j as f64 * a + 2.0 * split.k as f64 * c) + times * split.i as f64 * b
    }
}

/// Maximum parts along each dimension: a worker has whole rows, whole panels and whole words.
pub fn most(product: &MatrixProduct, gates: usize, precision: Precision) -> Split {
    // A tile of 16-bit or 8-bit weights has 32 or 64 of them (SPEC section 5); a 32-bit word has
    // one.
    let k = LANES * precision.per_word();
    Split {
        i: product.i,
        j: product.j.div_ceil(gates * LANES),
        k: product.k.div_ceil(if k > LANES { k } else { 1 }),
    }
}

/// All splits into exactly `workers` parts that do not exceed `most`.
pub fn splits(workers: usize, most: Split) -> Vec<Split> {
    let divisors = |number: usize| (1..=number).filter(move |part| number.is_multiple_of(*part));
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

/// Returns the split into exactly `workers` parts that moves the fewest numbers, or `None`. Ties go
/// to the fewest parts of K, whose sums would have to be added.
pub fn least_moved(
    product: &MatrixProduct,
    workers: usize,
    most: Split,
    private: f64,
) -> Option<Split> {
    let mut all = splits(workers, most);
    all.sort_by_key(|split| split.k);
    let moved = |split: &Split| product.moved(*split, private);
    all.into_iter().min_by(|a, b| moved(a).total_cmp(&moved(b)))
}

/// Order in which panels are read from step to step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// Always forward: weights that exceed the cache evict those needed next.
    Forward,
    /// Forward and backward in turn: the cache keeps as many weights as fit.
    Alternate,
}

/// Cost of reading a worker's weights in one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadCost {
    /// Nanoseconds.
    pub ns: f64,
    /// Bytes from outside the private cache.
    pub far_bytes: f64,
}

/// Returns the cost of reading `bytes` of weights repeatedly on each of `workers`, which read `all`
/// bytes together (SPEC section 5: b, s, BW1 to BW3).
pub fn reading(machine: &Machine, bytes: f64, workers: usize, all: f64, sweep: Sweep) -> ReadCost {
    let rates = &machine.bandwidths;
    if bytes <= machine.kept_l1() {
        return ReadCost { ns: bytes / rates.l1, far_bytes: 0.0 };
    }
    let resident = machine.resident_l2();
    let excess = (bytes - resident).max(0.0);
    if excess == 0.0 {
        return ReadCost { ns: bytes / rates.l2, far_bytes: 0.0 };
    }
    let far = machine.far(workers, all);
    let lost = bytes * lost(bytes, resident, machine.caches.l2 as f64);
    let forward = ReadCost { ns: (bytes - lost) / rates.l2 + lost / far, far_bytes: lost };
    let alternate = ReadCost { ns: (bytes / rates.l2).max(excess / far), far_bytes: excess };
    // If the cache misses less than the worst case, alternating gains nothing.
    if sweep == Sweep::Alternate && alternate.ns < forward.ns { alternate } else { forward }
}

/// Nanoseconds of a step by part.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepTime {
    /// Multiplication with weights already loaded.
    pub multiply: f64,
    /// Reading of weights without multiplication.
    pub weights: f64,
    /// Reading of data that other workers wrote.
    pub exchange: f64,
    /// Barriers between workers.
    pub barrier: f64,
    /// Cells: from sums to new states.
    pub cells: f64,
}

impl StepTime {
    /// Total: multiplication overlaps with reading weights, the rest follows.
    pub fn total(&self) -> f64 {
        self.multiply.max(self.weights) + self.exchange + self.barrier + self.cells
    }
}

/// A product with the state of a cell that is to be partitioned.
#[derive(Clone, Copy, Debug)]
pub struct PartitionTask<'a> {
    /// Product of one step; `j` includes all gates.
    pub product: MatrixProduct,
    /// Cell that the product belongs to.
    pub cell: Cell,
    /// Precision of the weights.
    pub precision: Precision,
    /// Machine to run on.
    pub machine: &'a Machine,
    /// Order in which weights are read.
    pub sweep: Sweep,
}

impl PartitionTask<'_> {
    /// Returns the time of a step for the worker with the largest share.
    pub fn step(&self, split: Split) -> StepTime {
        let Self { product, cell, precision, machine, sweep } = self;
        let gates = cell.gates();
        let workers = split.workers();
        let panels = product.j.div_ceil(gates * LANES).div_ceil(split.j);
        let rows = product.i.div_ceil(split.i);
        let k = product.k.div_ceil(split.k);
        let units = panels * LANES;
        let weights = gates * panels * LANES * k;
        let bytes = |weights: usize| (weights * 4 / precision.per_word()) as f64;
        let all = bytes(product.j * product.k);
        // The state's units of other workers and, for a sum in parts, the other parts.
        let others = (product.j / gates).saturating_sub(units) * rows * 4 / precision.per_word();
        let parts = (split.k - 1) * rows * gates * units * 4 / split.k;
        let barriers = usize::from(split.j > 1 || split.k > 1) + usize::from(split.k > 1);
        let rounds = rows * panels;
        StepTime {
            multiply: 2.0 * (rows * weights) as f64 / machine.peak_among(*precision, rows, workers),
            weights: reading(machine, bytes(weights), workers, all, *sweep).ns,
            exchange: machine.exchange((others + parts) as f64),
            barrier: barriers as f64 * machine.barrier(workers),
            cells: rounds as f64 * machine.cell(*cell) / split.k as f64
                + rounds as f64 * machine.cells.tile,
        }
    }

    /// Returns the fastest split into at most `workers` parts, by search over all ordered triples
    /// of factors. Ties go to the fewest workers.
    pub fn fastest(&self, workers: usize) -> (Split, StepTime) {
        let most = most(&self.product, self.cell.gates(), self.precision);
        let all = (1..=workers.max(1)).flat_map(|count| splits(count, most));
        let timed = all.map(|split| (split, self.step(split)));
        let least = timed.min_by(|a, b| a.1.total().total_cmp(&b.1.total()));
        least.unwrap_or((Split::ONE, self.step(Split::ONE)))
    }
}
