//! Phased schedules of a step's products (DeepCPU, section 4.2), pruned to the useful ones.
//!
//! A schedule is a sequence of phases, each a set of products that run at once. Unrolled sequences
//! have far too many schedules; three rules leave few:
//! - products that do not depend on the state come first, each for all steps at once or not at all;
//! - all steps have the same schedule;
//! - adjacent phases of one kind without a dependency between them are merged.

use std::collections::BTreeSet;

use crate::dag::{Dag, Source};
use crate::partition::MatrixProduct;

/// A phased schedule that obeys the three rules. Numbers are indices of the DAG's products.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Schedule {
    /// Products that run for all steps at once before them; may be empty.
    pub once: Vec<usize>,
    /// Phases of each step.
    pub steps: Vec<Vec<usize>>,
}

/// A fused product of several products with the same left operand or the same sums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FusedProduct {
    /// Left operands, side by side.
    pub sources: Vec<Source>,
    /// Gates, side by side.
    pub gates: Vec<usize>,
    /// Size.
    pub product: MatrixProduct,
}

/// Returns all schedules of a DAG that obey the rules, those with the fewest phases first.
pub fn schedules(dag: &Dag) -> Vec<Schedule> {
    let free: Vec<usize> =
        (0..dag.products.len()).filter(|at| !dag.products[*at].depends_on_state()).collect();
    let mut all = Vec::new();
    for chosen in 0..1_usize << free.len() {
        let once: Vec<usize> =
            (0..free.len()).filter(|bit| chosen >> bit & 1 == 1).map(|bit| free[bit]).collect();
        let rest: Vec<usize> = (0..dag.products.len()).filter(|at| !once.contains(at)).collect();
        for steps in layered(dag, &rest) {
            all.push(Schedule { once: once.clone(), steps });
        }
    }
    all.sort_by_key(|schedule| (schedule.phases(), schedule.clone()));
    all
}

/// All sequences of phases of `rest` in which each product follows those that it needs, and each
/// phase needs the one before.
fn layered(dag: &Dag, rest: &[usize]) -> Vec<Vec<Vec<usize>>> {
    fn grow(dag: &Dag, rest: &[usize], done: &[Vec<usize>], all: &mut Vec<Vec<Vec<usize>>>) {
        if rest.is_empty() {
            all.push(done.to_vec());
            return;
        }
        let waits = |at: &usize| dag.products[*at].after.iter().any(|other| rest.contains(other));
        let ready: Vec<usize> = rest.iter().copied().filter(|at| !waits(at)).collect();
        for chosen in 1..1_usize << ready.len() {
            let phase: Vec<usize> = (0..ready.len())
                .filter(|bit| chosen >> bit & 1 == 1)
                .map(|bit| ready[bit])
                .collect();
            if done.last().is_some_and(|last| !needs(dag, &phase, last)) {
                continue;
            }
            let left: Vec<usize> = rest.iter().copied().filter(|at| !phase.contains(at)).collect();
            grow(dag, &left, &[done, &[phase]].concat(), all);
        }
    }
    let mut all = Vec::new();
    grow(dag, rest, &[], &mut all);
    all
}

/// Whether a product of `phase` needs one of `last`.
fn needs(dag: &Dag, phase: &[usize], last: &[usize]) -> bool {
    phase.iter().any(|at| dag.products[*at].after.iter().any(|other| last.contains(other)))
}

impl Schedule {
    /// Number of phases of a first step.
    pub fn phases(&self) -> usize {
        usize::from(!self.once.is_empty()) + self.steps.len()
    }

    /// Whether the engine runs this schedule with products of the input for chunks of steps
    /// (`true`) or with each step (`false`). `None` if it treats only some of them so, which no
    /// plan does because gates are fused.
    pub fn chunked(&self, dag: &Dag) -> Option<bool> {
        let free = dag.products.iter().filter(|product| !product.depends_on_state()).count();
        match self.once.len() {
            0 => Some(false),
            count if count == free => Some(true),
            _ => None,
        }
    }

    /// Fused products of each phase; the phase of all steps comes first if there is one.
    pub fn fused(&self, dag: &Dag, steps: usize) -> Vec<Vec<FusedProduct>> {
        let once = (!self.once.is_empty()).then(|| fuse(dag, &self.once, steps, 1));
        let each = self.steps.iter().map(|phase| fuse(dag, phase, 1, steps));
        once.into_iter().chain(each).collect()
    }

    /// Numbers that the phases of `steps` steps move to one core whose cache keeps nothing between
    /// phases: each left operand and each weight once per phase, each sum twice. For a single
    /// product this is the divisor in equation 2 of the paper.
    pub fn moved(&self, dag: &Dag, steps: usize) -> f64 {
        let each = self.steps.iter().map(|phase| moved(dag, phase, 1)).sum::<f64>();
        moved(dag, &self.once, steps) + steps as f64 * each
    }

    /// Operations per number moved.
    pub fn reuse(&self, dag: &Dag, steps: usize) -> f64 {
        steps as f64 * dag.flops() / self.moved(dag, steps)
    }

    /// Formats the schedule as `[Wi x, Wf x | all steps] [Ui h, Uf h]`.
    pub fn describe(&self, dag: &Dag) -> String {
        let names = |phase: &[usize]| -> String {
            phase.iter().map(|at| dag.name(*at)).collect::<Vec<_>>().join(", ")
        };
        let once = (!self.once.is_empty()).then(|| format!("[{} | all steps]", names(&self.once)));
        let each = self.steps.iter().map(|phase| format!("[{}]", names(phase)));
        once.into_iter().chain(each).collect::<Vec<_>>().join(" ")
    }
}

/// Numbers that one phase moves, with the rows of `steps` steps.
fn moved(dag: &Dag, phase: &[usize], steps: usize) -> f64 {
    let mut sources = BTreeSet::new();
    let mut numbers = 0;
    for at in phase {
        let product = &dag.products[*at];
        numbers += product.k * product.n + 2 * steps * product.m * product.n;
        if sources.insert(product.source) {
            numbers += steps * product.m * product.k;
        }
    }
    numbers as f64
}

/// Fuses products with the same left operand; then left operands with the same gates, whose sums
/// are added as they are computed.
fn fuse(dag: &Dag, phase: &[usize], rows: usize, times: usize) -> Vec<FusedProduct> {
    let mut all: Vec<FusedProduct> = Vec::new();
    for source in [Source::Input, Source::State, Source::Reset] {
        let products = phase.iter().map(|at| &dag.products[*at]).filter(|p| p.source == source);
        let products: Vec<_> = products.collect();
        let Some(first) = products.first() else { continue };
        let mut gates: Vec<usize> = products.iter().map(|product| product.gate).collect();
        gates.sort_unstable();
        let i = first.m * rows;
        let k = first.k;
        if let Some(same) = all.iter_mut().find(|fused| fused.gates == gates) {
            same.sources.push(source);
            same.product.k += k;
        } else {
            let j = gates.len() * first.n;
            let product = MatrixProduct { i, j, k, steps: times };
            all.push(FusedProduct { sources: vec![source], gates, product });
        }
    }
    all
}
