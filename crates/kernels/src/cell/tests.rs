//! Comparison of cells with merged divisions with cells in `f64`, for gates from tiny to infinite.

use super::{Block, Gru, HiddenMatrices, Lstm, Matrix};
use crate::activation::Tanh;
use crate::isa::Isa;
use crate::lanes::LANES;

const INF: f32 = f32::INFINITY;
/// Sums of gates.
const SUMS: [f32; 15] = [
    0.0,
    1e-38,
    0.3,
    -0.6,
    2.0,
    -4.0,
    9.0,
    -11.0,
    40.0,
    -100.0,
    1e9,
    f32::MAX,
    f32::MIN,
    INF,
    -INF,
];
/// Roundings of a quotient of products of up to three polynomials, in units of 2^-24.
const ROUNDINGS: f64 = 12.0 / 16_777_216.0;

/// A unit: the sums of its gates, its last state, and its new state.
struct Unit {
    sums: [f32; 4],
    last: f32,
    cell: f32,
    hidden: f32,
}

/// Runs all units in groups of sixteen; half of each gate's sum comes from the product, half from
/// the input.
fn run(isa: Isa, dial: Tanh, is_gru: bool, units: &mut [Unit]) {
    for some in units.chunks_exact_mut(LANES) {
        let gates = if is_gru { 3 } else { 4 };
        let sums: Vec<f32> =
            (0..gates * LANES).map(|at| some[at % LANES].sums[at / LANES]).collect();
        // In a GRU the last number is the input of n, and the inputs of the other gates are zero.
        let inputs: Vec<f32> = (0..gates * LANES)
            .map(|at| if is_gru && at / LANES == 2 { some[at % LANES].sums[3] } else { 0.0 })
            .collect();
        let mut last: Vec<f32> = some.iter().map(|unit| unit.last).collect();
        let mut state = vec![0.0; LANES];
        let matrix = |first: *mut f32| Matrix { first, stride: 0 };
        let input = matrix(inputs.as_ptr().cast_mut());
        let block = Block {
            sums: sums.as_ptr(),
            all_rows: 1,
            first_panel: 0,
            panels: 1,
            first_row: 0,
            rows: 1,
            vectors: gates,
        };
        let hidden = HiddenMatrices {
            state: matrix(state.as_mut_ptr()),
            narrow: None,
            output: None,
            units: LANES,
        };
        let (cell, curve) = (matrix(last.as_mut_ptr()), &dial.curve());
        match (is_gru, dial.terms()) {
            (false, 5) => isa.run(Lstm::<5> { block, input: Some(input), cell, hidden, curve }),
            (false, 4) => isa.run(Lstm::<4> { block, input: None, cell, hidden, curve }),
            (false, _) => isa.run(Lstm::<3> { block, input: None, cell, hidden, curve }),
            (true, 5) => isa.run(Gru::<5> { block, input, last: cell, hidden, curve }),
            (true, 4) => isa.run(Gru::<4> { block, input, last: cell, hidden, curve }),
            (true, _) => isa.run(Gru::<3> { block, input, last: cell, hidden, curve }),
        }
        for (lane, unit) in some.iter_mut().enumerate() {
            (unit.cell, unit.hidden) = (last[lane], state[lane]);
        }
    }
}

/// Every combination of four sums of different kinds, with some last states.
fn units(states: &[f32], is_gru: bool) -> Vec<Unit> {
    let count = SUMS.len();
    let mut units = Vec::new();
    for at in 0..count.pow(4) {
        // Every third suffices; 3 does not divide the count.
        if at % 7 != 3 {
            continue;
        }
        let mut sums = [1, count, count * count, count.pow(3)].map(|by| SUMS[at / by % count]);
        if is_gru && sums[2].is_infinite() {
            // Under a closed reset gate the result is NaN, as in the definition.
            sums[2] = -7.0;
        }
        if is_gru && sums[3].is_infinite() && sums[2].abs() > 1e30 {
            sums[3] = 0.5;
        }
        units.push(Unit { sums, last: states[at % states.len()], cell: 0.0, hidden: 0.0 });
    }
    units.truncate(units.len() / LANES * LANES);
    units
}

fn logistic(x: f32) -> f64 {
    1.0 / (1.0 + (-f64::from(x)).exp())
}

/// Activations of an approximation, one by one, otherwise in `f64`.
struct Dial(Isa, Tanh);

impl Dial {
    fn logistic(&self, x: f32) -> f64 {
        let mut one = [x];
        self.1.logistic(self.0, &mut one);
        f64::from(one[0])
    }

    fn tanh(&self, x: f32) -> f64 {
        let mut one = [x];
        self.1.tanh(self.0, &mut one);
        f64::from(one[0])
    }
}

const DIALS: [Tanh; 4] = [Tanh::Fitted98, Tanh::Fitted76, Tanh::Fitted56, Tanh::Fraction(5)];

#[test]
fn an_lstm_divided_once_is_the_lstm() {
    for (isa, dial) in Isa::all().into_iter().flat_map(|isa| DIALS.map(|dial| (isa, dial))) {
        let mut all = units(&[0.0, 1.0, -0.3, 1e-30, -40.0, 3e6, 1e29], false);
        run(isa, dial, false, &mut all);
        let (bounds, of) = (dial.bounds(), Dial(isa, dial));
        for Unit { sums: [i, f, g, o], last, cell, hidden } in all {
            let what = format!(
                "i {i:e} f {f:e} g {g:e} o {o:e} c {last:e}: {cell:e} {hidden:e} {dial:?} {isa}"
            );
            let state = f64::from(last);
            let error = |exact: f64, found: f32| (f64::from(found) - exact).abs();
            // Compared with the same activations, each with its own division.
            let (kept, new) = (of.logistic(f) * state, of.logistic(i) * of.tanh(g));
            let parts = kept.abs() + new.abs();
            assert!(error(kept + new, cell) <= parts * ROUNDINGS + 1e-37, "cell of {what}");
            let apart = of.logistic(o) * of.tanh(cell);
            assert!(error(apart, hidden) <= apart.abs() * ROUNDINGS + 1e-37, "state of {what}");
            // Compared with the exact cell: the errors of its activations.
            let exact = logistic(f) * state + logistic(i) * f64::from(g).tanh();
            let bound = bounds.logistic * (state.abs() + 1.0) + bounds.absolute;
            assert!(error(exact, cell) <= bound + parts * ROUNDINGS, "cell of {what}");
            let exact = logistic(o) * f64::from(cell).tanh();
            assert!(error(exact, hidden) <= bounds.logistic + bounds.absolute + 1e-6, "{what}");
            assert!(hidden.abs() <= 1.0 + 1e-6, "{what}");
        }
    }
}

#[test]
fn a_gru_divided_once_is_the_gru() {
    for (isa, dial) in Isa::all().into_iter().flat_map(|isa| DIALS.map(|dial| (isa, dial))) {
        let mut all = units(&[0.0, 1.0, -1.0, -0.3, 1e-30], true);
        run(isa, dial, true, &mut all);
        let (bounds, of) = (dial.bounds(), Dial(isa, dial));
        for Unit { sums: [z, r, n, input], last, hidden, .. } in all {
            let what = format!(
                "z {z:e} r {r:e} n {n:e} + {input:e} h {last:e}: {hidden:e} {dial:?} {isa}"
            );
            let state = f64::from(last);
            let error = |exact: f64| (f64::from(hidden) - exact).abs();
            let reset = of.logistic(r);
            let inner = reset * f64::from(n) + f64::from(input);
            let (update, new) = (of.logistic(z), of.tanh(inner as f32));
            let parts = update * state.abs() + (1.0 - update) * new.abs();
            // Effect of rounding the inner sum where tanh is not flat.
            let inner_error =
                (inner.abs() + (reset * f64::from(n)).abs()).min(20.0) * 3.0 * ROUNDINGS;
            let apart = (1.0 - update) * new + update * state;
            assert!(error(apart) <= parts * ROUNDINGS + 2.0 * inner_error + 2e-7, "{what}");
            if n.abs() < 20.0 {
                let exact = (logistic(r) * f64::from(n) + f64::from(input)).tanh();
                let exact = (1.0 - logistic(z)) * exact + logistic(z) * state;
                let bound = bounds.logistic * (2.0 + f64::from(n).abs()) + bounds.absolute;
                assert!(error(exact) <= bound + inner_error + 1e-6, "{what}");
            }
            assert!(hidden.abs() <= 1.0 + 1e-6, "{what}");
        }
    }
}

#[test]
fn what_is_no_number_is_not_hidden() {
    for isa in Isa::all() {
        for gate in 0..4 {
            let unit = |lane: usize| {
                let mut sums = [0.5, -0.5, 30.0, -30.0];
                if lane.is_multiple_of(2) {
                    sums[gate] = f32::NAN;
                }
                Unit { sums, last: 0.25, cell: 0.0, hidden: 0.0 }
            };
            for is_gru in [false, true] {
                let mut all: Vec<Unit> = (0..LANES).map(unit).collect();
                run(isa, Tanh::Fitted98, is_gru, &mut all);
                for (lane, unit) in all.iter().enumerate() {
                    assert_eq!(
                        unit.hidden.is_nan(),
                        lane.is_multiple_of(2),
                        "{gate} {is_gru} {isa}"
                    );
                    let in_cell = lane.is_multiple_of(2) && gate < 3 && !is_gru;
                    assert_eq!(unit.cell.is_nan(), in_cell, "{gate} {is_gru} {isa}");
                }
            }
        }
    }
}
