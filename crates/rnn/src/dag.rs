//! The matrix products of one step and their dependencies: the MM-DAG of DeepCPU (section 4.1).
//!
//! There is one product per gate and per operand (input, state), as in the formulas of the cell.
//! Nothing is fused yet, and the DAG does not depend on the number of steps.
//!
//! ```
//! use dyno_rnn::dag::{Dag, Recurrence};
//!
//! let dag = Dag::new(Recurrence::Lstm, 1, 64, 256);
//! assert_eq!(dag.products.len(), 8);
//! assert_eq!(dag.name(0), "Wi x");
//! assert_eq!(dag.flops(), (8 * 256 * (64 + 256)) as f64);
//! ```

use std::fmt;

use crate::layer::{Cell, Layer};

/// Where the reset gate of a GRU is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetPlacement {
    /// To the product of n with the state: `r * (U h)`.
    After,
    /// To the state, before its product with n: `U (r * h)`.
    Before,
}

/// Kinds of cells whose products differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recurrence {
    /// Gates i, f, g, o.
    Lstm,
    /// Gates z, r, n.
    Gru(ResetPlacement),
    /// One gate.
    Rnn,
}

impl Recurrence {
    /// Returns the recurrence of a cell without options.
    pub fn from_cell(cell: Cell) -> Self {
        match cell {
            Cell::Lstm => Self::Lstm,
            Cell::Gru => Self::Gru(ResetPlacement::After),
            Cell::Rnn(_) => Self::Rnn,
        }
    }

    /// Names of the gates.
    pub fn gates(self) -> &'static [&'static str] {
        match self {
            Self::Lstm => &["i", "f", "g", "o"],
            Self::Gru(_) => &["z", "r", "n"],
            Self::Rnn => &["h"],
        }
    }
}

/// Operand that a product multiplies its weights by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The input of the step.
    Input,
    /// The state after the last step.
    State,
    /// The state after the last step, multiplied by the reset gate.
    Reset,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Input => "x",
            Self::State => "h",
            Self::Reset => "(r h)",
        })
    }
}

/// One product of a step: `m` x `k` by `k` x `n`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateProduct {
    /// Index of the gate.
    pub gate: usize,
    /// Left operand.
    pub source: Source,
    /// Rows of the batch.
    pub m: usize,
    /// Units.
    pub n: usize,
    /// Inputs or units.
    pub k: usize,
    /// Products of the same step that must come first.
    pub after: Vec<usize>,
}

impl GateProduct {
    /// Whether the product depends on the step before; if so, it cannot run for all steps at once.
    pub fn depends_on_state(&self) -> bool {
        self.source != Source::Input
    }

    /// Floating-point operations.
    pub fn flops(&self) -> f64 {
        2.0 * (self.m * self.n * self.k) as f64
    }
}

/// Products of one step of one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dag {
    /// The cell.
    pub recurrence: Recurrence,
    /// Products with the input, gate by gate, then those with the state.
    pub products: Vec<GateProduct>,
}

impl Dag {
    /// Returns the DAG of a cell with `units` units over `inputs` inputs, for a batch.
    pub fn new(recurrence: Recurrence, batch: usize, inputs: usize, units: usize) -> Self {
        let gates = recurrence.gates().len();
        let mut products = Vec::new();
        for source in [Source::Input, Source::State] {
            for gate in 0..gates {
                let k = if source == Source::Input { inputs } else { units };
                products.push(GateProduct {
                    gate,
                    source,
                    m: batch,
                    n: units,
                    k,
                    after: Vec::new(),
                });
            }
        }
        if recurrence == Recurrence::Gru(ResetPlacement::Before) {
            // The product of n with the state needs r, which needs its two products.
            let r = 1;
            let n = 2;
            products[gates + n].source = Source::Reset;
            products[gates + n].after = vec![r, gates + r];
        }
        Self { recurrence, products }
    }

    /// Returns the DAG of one direction of a layer. The projection is left out: it belongs to no
    /// gate.
    pub fn from_layer(layer: &Layer, batch: usize) -> Self {
        let recurrence = if layer.options().reset_first {
            Recurrence::Gru(ResetPlacement::Before)
        } else {
            Recurrence::from_cell(layer.cell())
        };
        let mut dag = Self::new(recurrence, batch, layer.inputs(), layer.units());
        let waiting = dag.products.iter_mut().filter(|product| product.depends_on_state());
        waiting.for_each(|product| product.k = layer.width());
        dag
    }

    /// Returns the name of a product, such as `Wi x` or `Un (r h)`.
    pub fn name(&self, product: usize) -> String {
        let GateProduct { gate, source, .. } = &self.products[product];
        let side = if *source == Source::Input { "W" } else { "U" };
        format!("{side}{} {source}", self.recurrence.gates()[*gate])
    }

    /// Floating-point operations of a step.
    pub fn flops(&self) -> f64 {
        self.products.iter().map(GateProduct::flops).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_an_lstm_is_eight_products_of_which_four_wait() {
        let dag = Dag::new(Recurrence::Lstm, 10, 64, 256);
        let waiting = dag.products.iter().filter(|product| product.depends_on_state()).count();
        assert_eq!((dag.products.len(), waiting), (8, 4));
        // SPEC section 2: 8 H (E + H) B of a step.
        assert_eq!(dag.flops(), 8.0 * 256.0 * 320.0 * 10.0);
        assert_eq!((dag.name(0), dag.name(7)), ("Wi x".to_owned(), "Uo h".to_owned()));
    }

    #[test]
    fn options_of_a_layer_change_its_products() {
        use crate::cost::LayerShape;
        use crate::layer::{CellOptions, Directions, Weights};
        let layer = |cell: Cell, width: usize, options: CellOptions| {
            let gates = cell.gates();
            let weights = Weights {
                input: vec![0.0; gates * 4 * 3],
                state: vec![0.0; gates * 4 * width],
                input_bias: vec![0.0; gates * 4],
                state_bias: vec![0.0; gates * 4],
            };
            Layer::with_options(cell, 3, 4, Directions::Forward, vec![weights], options).unwrap()
        };
        let reset = CellOptions { reset_first: true, ..CellOptions::default() };
        let gru = layer(Cell::Gru, 4, reset);
        assert_eq!(Dag::from_layer(&gru, 1).recurrence, Recurrence::Gru(ResetPlacement::Before));
        assert_eq!(LayerShape::from_layer(&gru, 1, 1).phases, 2);
        let projected =
            CellOptions { projections: vec![vec![0.0; 2 * 4]], ..CellOptions::default() };
        let lstm = layer(Cell::Lstm, 2, projected);
        assert_eq!(Dag::from_layer(&lstm, 1).products[7].k, 2);
        // Gates of 4 units see 3 inputs and 2 of the state, which 4 outputs are projected to.
        assert_eq!(LayerShape::from_layer(&lstm, 1, 1).flops(), 2.0 * (16.0 * 5.0 + 2.0 * 4.0));
    }

    #[test]
    fn a_gru_waits_for_its_reset_gate_only_where_it_acts_before() {
        let after = Dag::new(Recurrence::Gru(ResetPlacement::After), 1, 8, 16);
        assert!(after.products.iter().all(|product| product.after.is_empty()));
        let before = Dag::new(Recurrence::Gru(ResetPlacement::Before), 1, 8, 16);
        assert_eq!(before.products[5].after, [1, 4]);
        assert_eq!(before.name(5), "Un (r h)");
        assert_eq!(before.flops(), after.flops());
        assert_eq!(after.flops(), 6.0 * 16.0 * 24.0);
    }
}
