//! Pruning compared with brute force over all valid phased schedules of unrolled sequences, which
//! are represented as sets of bits.

use std::collections::BTreeSet;

use dyno_rnn::dag::{Dag, Recurrence, ResetPlacement};
use dyno_rnn::partition::MatrixProduct;
use dyno_rnn::schedule::{Schedule, schedules};

const CELLS: [Recurrence; 4] = [
    Recurrence::Lstm,
    Recurrence::Gru(ResetPlacement::After),
    Recurrence::Gru(ResetPlacement::Before),
    Recurrence::Rnn,
];

/// A phased schedule of an unrolled sequence: the products of each phase, product `p` of step `t`
/// as bit `t * products + p`.
type UnrolledSchedule = Vec<u32>;

/// Dependencies of each product of each step: products of the same step, and all products of the
/// step before if it needs the state.
fn waits(dag: &Dag, steps: usize) -> Vec<u32> {
    let count = dag.products.len();
    let mut all = Vec::new();
    for t in 0..steps {
        for product in &dag.products {
            let own = product.after.iter().fold(0, |bits, at| bits | 1 << (t * count + at));
            let last = if t > 0 && product.depends_on_state() {
                ((1 << count) - 1) << ((t - 1) * count)
            } else {
                0
            };
            all.push(own | last);
        }
    }
    all
}

/// Every sequence of phases with each product once, after its dependencies.
fn every(dag: &Dag, steps: usize, see: &mut impl FnMut(&[u32])) {
    fn grow(waits: &[u32], done: u32, phases: &mut UnrolledSchedule, see: &mut impl FnMut(&[u32])) {
        let all = (1_u32 << waits.len()) - 1;
        if done == all {
            return see(phases);
        }
        let ready = (0..waits.len())
            .filter(|at| done >> at & 1 == 0 && waits[*at] & !done == 0)
            .fold(0_u32, |bits, at| bits | 1 << at);
        let mut phase = ready;
        while phase > 0 {
            phases.push(phase);
            grow(waits, done | phase, phases, see);
            phases.pop();
            phase = (phase - 1) & ready;
        }
    }
    grow(&waits(dag, steps), 0, &mut Vec::new(), see);
}

/// Bits of the products that do not depend on the state, in all steps.
fn free(dag: &Dag, steps: usize) -> u32 {
    let count = dag.products.len();
    let bits = (0..steps * count).filter(|at| !dag.products[at % count].depends_on_state());
    bits.fold(0, |bits, at| bits | 1 << at)
}

/// Whether an unrolled schedule obeys the three rules as stated in the paper.
fn obeys(dag: &Dag, steps: usize, phases: &[u32]) -> bool {
    let count = dag.products.len();
    let (free, waits) = (free(dag, steps), waits(dag, steps));
    let independent = |phase: &u32| phase & !free == 0;
    // Time-independent first: no such phase follows one that depends on a state.
    let first = phases.iter().take_while(|phase| independent(phase)).count();
    if phases[first..].iter().any(independent) {
        return false;
    }
    // Symmetric steps: a product that runs for one step at once does so for all steps; the rest has
    // the same sequence of phases in each step.
    let step = |t: usize| ((1_u32 << count) - 1) << (t * count);
    let products_of = |phase: u32, t: usize| (phase & step(t)) >> (t * count);
    if phases[..first]
        .iter()
        .any(|phase| (0..steps).any(|t| products_of(*phase, t) != products_of(*phase, 0)))
    {
        return false;
    }
    let rest = &phases[first..];
    if !rest.len().is_multiple_of(steps) {
        return false;
    }
    let each = rest.len() / steps;
    for (at, phase) in rest.iter().enumerate() {
        let t = at / each;
        if phase & !step(t) != 0 || products_of(*phase, t) != products_of(rest[at % each], 0) {
            return false;
        }
    }
    // Neighbors merge: any two adjacent phases of one kind have a dependency.
    phases.windows(2).all(|pair| {
        let needs = (0..waits.len()).any(|at| pair[1] >> at & 1 == 1 && waits[at] & pair[0] != 0);
        independent(&pair[0]) != independent(&pair[1]) || needs
    })
}

fn unrolled(dag: &Dag, steps: usize, schedule: &Schedule) -> UnrolledSchedule {
    let count = dag.products.len();
    let bits = |phase: &[usize], t: usize| {
        phase.iter().fold(0_u32, |bits, at| bits | 1 << (t * count + at))
    };
    let once = (0..steps).fold(0, |all, t| all | bits(&schedule.once, t));
    let mut phases: UnrolledSchedule = if once > 0 { vec![once] } else { Vec::new() };
    for t in 0..steps {
        phases.extend(schedule.steps.iter().map(|phase| bits(phase, t)));
    }
    phases
}

/// Numbers that phases move: each left operand of a step and each weight once per phase, sums twice.
fn moved(dag: &Dag, phases: &[u32]) -> usize {
    let count = dag.products.len();
    let mut all = 0;
    for phase in phases {
        let (mut lefts, mut weights) = (0_u32, 0_u32);
        let mut left = *phase;
        while left > 0 {
            let at = left.trailing_zeros() as usize;
            left &= left - 1;
            let product = &dag.products[at % count];
            let (a, b) = (1 << (3 * (at / count) + product.source as usize), 1 << (at % count));
            if lefts & a == 0 {
                all += product.m * product.k;
            }
            if weights & b == 0 {
                all += product.k * product.n;
            }
            (lefts, weights) = (lefts | a, weights | b);
            all += 2 * product.m * product.n;
        }
    }
    all
}

#[test]
fn what_pruning_leaves_is_what_obeys_the_rules() {
    for (recurrence, steps, expected) in [
        (Recurrence::Rnn, 1, 2),
        (Recurrence::Rnn, 2, 2),
        (Recurrence::Rnn, 3, 2),
        (Recurrence::Gru(ResetPlacement::After), 1, 8),
        (Recurrence::Gru(ResetPlacement::Before), 1, 36),
        (Recurrence::Lstm, 1, 16),
    ] {
        let dag = Dag::new(recurrence, 2, 3, 4);
        let mut obeying = BTreeSet::new();
        every(&dag, steps, &mut |phases| {
            if obeys(&dag, steps, phases) {
                obeying.insert(phases.to_vec());
            }
        });
        let pruned: Vec<UnrolledSchedule> =
            schedules(&dag).iter().map(|schedule| unrolled(&dag, steps, schedule)).collect();
        assert_eq!(pruned.len(), expected, "{recurrence:?}");
        assert_eq!(pruned.into_iter().collect::<BTreeSet<_>>(), obeying, "{recurrence:?}");
    }
}

#[test]
fn pruning_loses_no_schedule_that_moves_less() {
    for (recurrence, steps) in [
        (Recurrence::Rnn, 2),
        (Recurrence::Rnn, 3),
        (Recurrence::Gru(ResetPlacement::After), 1),
        (Recurrence::Gru(ResetPlacement::Before), 1),
        (Recurrence::Lstm, 1),
    ] {
        let dag = Dag::new(recurrence, 2, 5, 7);
        let mut least = usize::MAX;
        every(&dag, steps, &mut |phases| least = least.min(moved(&dag, phases)));
        let all = schedules(&dag);
        let best = all.iter().map(|schedule| schedule.moved(&dag, steps)).fold(f64::MAX, f64::min);
        assert_eq!(best, least as f64, "{recurrence:?}, {steps} steps");
        for schedule in &all {
            let counted = moved(&dag, &unrolled(&dag, steps, schedule)) as f64;
            assert_eq!(schedule.moved(&dag, steps), counted, "{}", schedule.describe(&dag));
        }
    }
}

#[test]
fn each_cell_has_a_schedule_that_chunks_and_one_that_does_not() {
    for recurrence in CELLS {
        let dag = Dag::new(recurrence, 1, 64, 64);
        let all = schedules(&dag);
        for chunked in [true, false] {
            let found =
                all.iter().filter(|schedule| schedule.chunked(&dag) == Some(chunked)).count();
            assert!(found >= 1, "{recurrence:?}, {chunked}");
        }
        // Weights of the input that are read once for all steps are reused most (DeepCPU, section
        // 4).
        let best = all.iter().max_by(|a, b| a.reuse(&dag, 100).total_cmp(&b.reuse(&dag, 100)));
        assert_eq!(best.and_then(|schedule| schedule.chunked(&dag)), Some(true), "{recurrence:?}");
    }
    assert!(schedules(&Dag::new(Recurrence::Lstm, 1, 1, 1)).len() < 20);
}

#[test]
fn gates_are_one_product_and_both_sides_where_their_gates_agree() {
    let dag = Dag::new(Recurrence::Lstm, 2, 64, 32);
    let all = schedules(&dag);
    let chunked = all
        .iter()
        .find(|schedule| schedule.chunked(&dag) == Some(true))
        .expect("a schedule that chunks");
    let phases = chunked.fused(&dag, 100);
    let products: Vec<MatrixProduct> = phases.iter().flatten().map(|fused| fused.product).collect();
    let once = MatrixProduct { i: 200, j: 128, k: 64, steps: 1 };
    let each = MatrixProduct { i: 2, j: 128, k: 32, steps: 100 };
    assert_eq!(products, [once, each]);
    let together = all
        .iter()
        .find(|schedule| schedule.chunked(&dag) == Some(false))
        .expect("one that does not");
    let phases = together.fused(&dag, 100);
    assert_eq!(phases.len(), 1);
    // [x | h] times the weights of both.
    assert_eq!(phases[0][0].product, MatrixProduct { i: 2, j: 128, k: 96, steps: 100 });
    assert_eq!(phases[0].len(), 1);
}
