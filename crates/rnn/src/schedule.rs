//! Phased schedules of a step's products (DeepCPU, section 4.2), and which of them are worth a look.
//!
//! A schedule is a sequence of phases, each a set of products that run at once. Of an unrolled
//! sequence there are far too many, and three rules leave few:
//! - products that wait for no state come first, each for all steps at once or not at all;
//! - all steps are alike;
//! - neighbouring phases of one kind between which nothing waits are one phase.
//!
//! For an LSTM 16 schedules are left. Which products of a phase are one larger product is fusion;
//! how many of the rest run side by side is [`parallelisms`].

use std::collections::BTreeSet;

use dyno_kernels::{Activation, Precision};

use crate::dag::{Dag, Source};
use crate::layer::Cell;
use crate::machine::Machine;
use crate::partition::{Multiply, Split, StepTime, Sweep, Task};

/// A phased schedule that obeys the three rules. Numbers are those of the DAG's products.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Schedule {
    /// The phase of all steps at once, before them; may be empty.
    pub once: Vec<usize>,
    /// Phases of each step.
    pub steps: Vec<Vec<usize>>,
}

/// Products that are one: they share their left side, or their sums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fused {
    /// Left sides, side by side.
    pub sources: Vec<Source>,
    /// Gates, side by side.
    pub gates: Vec<usize>,
    /// Its size.
    pub product: Multiply,
}

/// All schedules of a DAG that obey the rules, the fewest phases first.
#[must_use]
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

/// All ways to lay `rest` into phases such that each product comes after those it needs, and each
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
    /// Phases of a first step.
    #[must_use]
    pub fn phases(&self) -> usize {
        usize::from(!self.once.is_empty()) + self.steps.len()
    }

    /// How the engine runs it: whether products with the input are done for chunks of steps, or with
    /// the step. Nothing if only some of them are: no plan does that, since gates are one product.
    #[must_use]
    pub fn chunked(&self, dag: &Dag) -> Option<bool> {
        let free = dag.products.iter().filter(|product| !product.depends_on_state()).count();
        match self.once.len() {
            0 => Some(false),
            count if count == free => Some(true),
            _ => None,
        }
    }

    /// The products of each phase after fusion, the phase of all steps first if there is one.
    #[must_use]
    pub fn fused(&self, dag: &Dag, steps: usize) -> Vec<Vec<Fused>> {
        let once = (!self.once.is_empty()).then(|| fuse(dag, &self.once, steps, 1));
        let each = self.steps.iter().map(|phase| fuse(dag, phase, 1, steps));
        once.into_iter().chain(each).collect()
    }

    /// Numbers that phases of `steps` steps move to one core that keeps nothing from phase to phase:
    /// each left side and each weight once a phase, each sum twice. For one product this is what
    /// the paper's equation 2 divides by.
    #[must_use]
    pub fn moved(&self, dag: &Dag, steps: usize) -> f64 {
        let each = self.steps.iter().map(|phase| moved(dag, phase, 1)).sum::<f64>();
        moved(dag, &self.once, steps) + steps as f64 * each
    }

    /// Operations for each number moved.
    #[must_use]
    pub fn reuse(&self, dag: &Dag, steps: usize) -> f64 {
        steps as f64 * dag.flops() / self.moved(dag, steps)
    }

    /// As `[Wi x, Wf x | all steps] [Ui h, Uf h]`.
    #[must_use]
    pub fn describe(&self, dag: &Dag) -> String {
        let names = |phase: &[usize]| -> String {
            phase.iter().map(|at| dag.name(*at)).collect::<Vec<_>>().join(", ")
        };
        let once = (!self.once.is_empty()).then(|| format!("[{} | all steps]", names(&self.once)));
        let each = self.steps.iter().map(|phase| format!("[{}]", names(phase)));
        once.into_iter().chain(each).collect::<Vec<_>>().join(" ")
    }
}

/// Numbers that one phase moves, its rows of `steps` steps.
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

/// Makes one product of those with one left side; and where two left sides have the same gates, one
/// of both, their sums added as they are made.
fn fuse(dag: &Dag, phase: &[usize], rows: usize, times: usize) -> Vec<Fused> {
    let mut all: Vec<Fused> = Vec::new();
    for source in [Source::Input, Source::State, Source::Reset] {
        let of = phase.iter().map(|at| &dag.products[*at]).filter(|p| p.source == source);
        let of: Vec<_> = of.collect();
        let Some(first) = of.first() else { continue };
        let mut gates: Vec<usize> = of.iter().map(|product| product.gate).collect();
        gates.sort_unstable();
        let (i, k) = (first.m * rows, first.k);
        if let Some(same) = all.iter_mut().find(|fused| fused.gates == gates) {
            same.sources.push(source);
            same.product.k += k;
        } else {
            let j = gates.len() * first.n;
            let product = Multiply { i, j, k, steps: times };
            all.push(Fused { sources: vec![source], gates, product });
        }
    }
    all
}

/// A way to run the products of a phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Parallelism {
    /// Products side by side; each round of them ends before the next.
    pub at_once: usize,
    /// Of the first product, which has most operations.
    pub split: Split,
    /// Operations for each number moved, by the paper's equation 3.
    pub reuse: f64,
    /// Nanoseconds of a step.
    pub ns: f64,
}

/// All degrees of parallelism of a phase's products, the fastest first: few workers for each of
/// many at once, or many workers for one after the other (DeepCPU, section 5.1). More workers are not
/// always better: each part of a product moves its own numbers.
#[must_use]
pub fn parallelisms(products: &[Multiply], machine: &Machine, workers: usize) -> Vec<Parallelism> {
    // Outputs alone: cells come after the phase, whoever multiplied.
    let (cell, precision) = (Cell::Rnn(Activation::Identity), Precision::F32);
    let mut sorted = products.to_vec();
    sorted.sort_by(|a, b| b.flops().total_cmp(&a.flops()));
    let mut all = Vec::new();
    for at_once in 1..=sorted.len().min(workers) {
        let found = sorted.iter().map(|product| {
            let task = Task { product: *product, cell, precision, machine, sweep: Sweep::Forward };
            (*product, task.fastest(workers / at_once))
        });
        let found: Vec<(Multiply, (Split, StepTime))> = found.collect();
        let rounds = found
            .chunks(at_once)
            .map(|round| round.iter().map(|(_, (_, time))| time.total()).fold(0.0, f64::max));
        let ns = rounds.sum();
        let flops: f64 = sorted.iter().map(Multiply::flops).sum();
        let moved = |(product, (split, _)): &(Multiply, (Split, StepTime))| {
            product.flops() / product.reuse_split(*split)
        };
        let moved: f64 = found.iter().map(moved).sum();
        let Some((_, (split, _))) = found.first() else { continue };
        all.push(Parallelism { at_once, split: *split, reuse: flops / moved, ns });
    }
    all.sort_by(|a, b| a.ns.total_cmp(&b.ns));
    all
}
